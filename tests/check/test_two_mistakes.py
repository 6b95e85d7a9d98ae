"""Mistakes that are tried as programs: two at once, fused matrices, tables of other pairs."""

import numpy as np
import pytest
from check.test_traces import D, E, H, T, problem

from dlref.check import first_difference, trace
from dlref.transformer import encoder_block


def test_a_second_mistake_is_found_behind_the_first():
    x, p, options, _ = problem("llama")
    right = trace(encoder_block, x, p, **options)
    other = trace(encoder_block, x, p, **options | {"scale": 1.0, "activation": "relu"})
    found = first_difference(right, other)
    assert (found.name, found.cause) == ("attention.scores", "the scores are not scaled")
    assert (found.then.name, found.then.cause) == (
        "feed_forward.hidden",
        "the activation is relu",
    )
    assert found.then.then is None
    assert "with this mistake in the model, feed_forward.hidden differs" in repr(found)
    assert "then" in found._repr_html_()
    one = trace(encoder_block, x, p, **options | {"scale": 1.0})
    assert first_difference(right, one).then is None


def test_rows_by_groups_of_heads_are_read_in_three_parts():
    x, p, options, keys = problem("llama")
    a, each = p.attention, H // keys
    rows = np.concatenate(
        [
            block
            for g in range(keys)
            for block in (
                a.w_q[g * each * E : (g + 1) * each * E],
                a.w_k[g * E : (g + 1) * E],
                a.w_v[g * E : (g + 1) * E],
            )
        ]
    )
    w_q, w_k, w_v = np.split(rows, [D, D + keys * E])
    port = p._replace(attention=a._replace(w_q=w_q, w_k=w_k, w_v=w_v))
    found = first_difference(
        trace(encoder_block, x, p, **options), trace(encoder_block, x, port, **options)
    )
    assert found.name == "attention.q"
    assert found.cause.startswith("a fused projection is read in three parts, not by groups")


@pytest.mark.parametrize("neighbors", [True, False])
def test_pairs_and_tables_that_do_not_fit(neighbors):
    x, p, options, _ = problem("llama")
    right = trace(encoder_block, x, p, **options)
    cos, sin = options["rope"]
    wide = (lambda t: np.concatenate([t, t], -1)) if neighbors else (lambda t: np.repeat(t, 2, -1))

    def turned(z):
        crossed = np.concatenate([-z[..., E // 2 :], z[..., : E // 2]], -1)
        if neighbors:
            crossed = np.stack([-z[..., 1::2], z[..., ::2]], -1).reshape(z.shape)
        return z * wide(cos) + crossed * wide(sin)

    other = {f"attention.{n}_rotated": turned(right[f"attention.{n}"]) for n in "qk"}
    found = first_difference(right, {"attention.q": right["attention.q"], **other})
    words = "neighboring channels are" if neighbors else "channels in halves are"
    assert found.cause.startswith(f"{words} rotated together by tables of angles in")
    assert len(cos) == T
