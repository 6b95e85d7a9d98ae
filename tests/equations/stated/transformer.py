"""Inline relations of transformer, and of its exercises."""

import numpy as np
from equations.numeric import rate
from equations.stated import draw, stated

from dlref import attention, transformer


@stated("dlref/transformer/_budget.py")
def of_the_budget():
    config = transformer.LanguageModelConfig(100, 48, 4, num_layers=1)
    costs = [transformer.multiplication_counts(config, context=S) for S in (6 * 48 - 1, 6 * 48 + 1)]
    rest = [c.total - c.scores - 100 * 48 for c in costs]
    found = [c.scores > r for c, r in zip(costs, rest, strict=True)]
    yield r"2 D S > 12 D^2", found, [False, True]


@stated("dlref/transformer/_router.py")
def of_a_router():
    W, x, b, dW, dx, db = draw(127, (4, 3), 3, 4, (4, 3), 3, 4)
    step = rate(lambda W, x, b: W @ x + b, [W, x, b], [dW, dx, db])
    text = r"\dot{\vec z} = \dot{\mat W} \vec x + \mat W \dot{\vec x} + \dot{\vec b}"
    yield text, step, dW @ x + W @ dx + db


@stated("dlref/transformer/_blocks.py")
def of_the_output_of_a_block():
    x, dx, u, w1, w2 = draw(127, (3, 4), (3, 4), (3, 4), (5, 4), (4, 5))
    params = transformer.EncoderBlockParams(
        attention.AttentionParams(*draw(128, *[(4, 4)] * 4)),
        transformer.NormParams(np.ones(4)),
        transformer.FeedForwardParams(w1, np.ones(5), w2, np.zeros(4)),
        transformer.NormParams(np.ones(4)),
    )
    for norm_first in (True, False):
        options = {"num_heads": 2, "norm_first": norm_first}
        dz = transformer.encoder_block_jvp((x, params), (dx, None), **options)
        by_x, _ = transformer.encoder_block_vjp(u, x, params, **options)
        want = np.vdot(by_x, dx)
        yield r"\dd L = \langle \mat U, \dd \mat Z \rangle", np.vdot(u, dz), want
