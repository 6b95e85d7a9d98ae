"""Neurons, dense layers and stacks of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import neurons as n
from . import _draw as draw
from ._spec import Cases, MapSpec, call, option_case, record

#: Rows over which 16 bits are too few for the sum of a gradient of weights.
MANY_ROWS = (2, 2053, 16)


def with_gaps(known: MapSpec, rng: Any, _size: Any) -> Cases:
    """Yield inputs whose first array has every second row of its memory."""
    first, *rest = known.inputs(rng, known.hard_samples[0].shapes)
    yield "memory with gaps", (np.repeat(first, 2, axis=0)[::2], *rest), {}


def sequence(rng: Any, length: int = 5) -> Any:
    return rng.normal(size=(2, length, 8))


def dense_layers(rng: Any) -> Any:
    sizes = ((12, 8), (3, 12))
    return tuple(n.LinearParams(rng.normal(size=s) / 2, rng.normal(size=s[0])) for s in sizes)


def mlp_calls(rng: Any, *after: Any, before: tuple[Any, ...] = ()) -> Cases:
    for activation in ("relu", "tanh", "gelu"):
        inputs = (*before, sequence(rng), *after, dense_layers(rng))
        yield f"{{'activation': {activation!r}}}", inputs, {"activation": activation}


def mlp_options(rng: Any, *after: Any, before: tuple[Any, ...] = ()) -> Cases:
    inputs = (*before, sequence(rng), *after, dense_layers(rng))
    yield option_case("dropout"), inputs, {"dropout": (np.linspace(0.0, 2.0, 12),)}


def _upstream(rng: Any) -> tuple[Any, ...]:
    return (rng.normal(size=(2, 5, 3)),)


def factors(rng: Any, shape: Any, _first: Any = None) -> Any:
    """Draw factors of dropout."""
    return 2.0 * rng.integers(0, 2, shape)


RECORDS = [
    record(
        n.neuron,
        call((4, 3), (3,), ()), call((3,), (3,), (), activation="tanh"),
        call((2, 3, 2), (2,), (), activation="identity"), call((0, 2), (2,), ()),
        call((2, 0), (0,), ()),
        hard=[call((5, 7), (7,), ())], batched=False,
    ),
    record(
        n.linear,
        call((4, 3), (2, 3), (2,)), call((3,), (2, 3), None), call((2, 2, 3), (1, 3), (1,)),
        call((0, 3), (2, 3), (2,)),
        hard=[
            call((5, 7), (7, 7), (7,)), call((1, 130), (3, 130), None),
            call((2, 0, 4), (3, 4), (3,)),
        ],
        large=[
            call((2, 3, 129), (65, 129), (65,)), call((130, 1024), (7, 1024), None),
            call((5, 4096), (3, 4096), None),  # a sum in 16 bits shows
            call(MANY_ROWS, (3, 16), (3,)),
        ],
        more=with_gaps, batched=False, core=(1, 1), of=(0,),
    ),
    record(
        n.embedding,
        call((4, 3), (5,)), call((3, 2), (2, 3), padding_id=1), call((3, 2), (), scale=2.5),
        call((3, 2), (0,)),
        draw=(draw.normal, draw.rows), constant=(1,), batched=False,
        hard=[call((6, 4), (5,)), call((131, 3), (2, 67))],
        options=[call((6, 4), (15,), padding_id=2), call((6, 4), (15,), scale=0.5)],
    ),
    record(
        n.dropout,
        call((4, 3), (4, 3)), call((2, 3), (3,)), call((), ()), call((2, 3, 2), (2, 1, 2)),
        call((0, 3), (0, 3)),
        draw=(draw.normal, factors), constant=(1,), batched=False, hard=[call((5, 7), (5, 7))],
    ),
    record(
        n.lora_linear,
        call((4, 3), (2, 3), (2, 3), (2, 2), (2,)), call((3,), (4, 3), (1, 3), (4, 1), None),
        call((2, 2, 3), (1, 3), (2, 3), (1, 2), None, scale=0.5),
        call((0, 3), (2, 3), (1, 3), (2, 1), (2,)),
        constant=(1,), batched=False,
        hard=[
            call((5, 7), (6, 7), (2, 7), (6, 2), (6,)),
            call((1, 130), (3, 130), (4, 130), (3, 4), None),
        ],
        options=[call((5, 7), (6, 7), (2, 7), (6, 2), (6,), scale=0.5)],
    ),
    MapSpec(f=n.mlp, hard=mlp_calls, options=mlp_options),
    MapSpec(
        f=n.mlp_deltas, hard=lambda rng: mlp_calls(rng, before=_upstream(rng)),
        options=lambda rng: mlp_options(rng, before=_upstream(rng)),
    ),
]  # fmt: skip

#: Names elsewhere: see `dlref._core.names`.
NAMES = {
    "dropout": ["torch.nn.functional.dropout", "drop_path", "stochastic_depth"],
    "linear": ["torch.nn.functional.linear", "dense", "affine", "fully_connected", "addmm"],
    "mlp": ["multilayer_perceptron"],
    "embedding": ["torch.nn.functional.embedding", "lookup_table"],
    "lora_linear": ["lora", "dora: each row of its merged weight has a trained length"],
}
