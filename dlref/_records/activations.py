"""Activations: a new one of single elements is one line."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import activations as a
from . import _draw as draw
from ._spec import Cases, MapSpec, Sample, call, pairwise, record
from .calculus import PAIRS


def _cases_of_elements(_: MapSpec, rng: Any, size: Any) -> Cases:
    yield "zeros of both signs", (np.array([0.0, -0.0, 1.0, -1.0]),), {}
    yield "tiny", (np.array([1e-5, -1e-5, 2.0**-14, -(2.0**-14)]),), {}
    yield "tails", (np.linspace(-30.0, 30.0, 61),), {}
    yield "huge", (np.array([1e4, -1e4, size / 4, -size / 4]),), {}
    yield "a length that is no multiple of a tile", (rng.normal(size=(3, 37)),), {}
    yield "no elements", (np.empty((0, 3)),), {}


def _cases_of_rows(_: MapSpec, rng: Any, _size: Any) -> Cases:
    x = rng.normal(size=(4, 37))
    yield "ties", (np.repeat(x[:, :1], 8, 1),), {}
    yield "large", (100.0 * x,), {}
    yield "an offset of 1e4", (x + 1e4,), {}
    yield "an offset of -1e4", (x - 1e4,), {}
    yield "one that is far ahead", (np.where(np.arange(37) == 5, 80.0, x),), {}
    masked = x.copy()
    masked[0, ::2] = masked[1, 1:] = -np.inf
    yield "some of -inf", (masked,), {}
    late = rng.normal(size=(2, 1025))
    late[:, -3] += 200.0  # the maximum is in the last tile
    yield "the largest one in the last tile", (late,), {}
    yield "one element per row", (x[:, :1],), {}
    yield "a length that is no multiple of a tile", (rng.normal(size=(3, 131)),), {}
    yield "memory with gaps", (np.repeat(rng.normal(size=(5, 7)), 2, axis=0)[::2],), {}


def elementwise(
    f: Any, *options: dict[str, Any], needed: tuple[str, ...] = (), **known: Any
) -> MapSpec:
    """Return the record of a map of single elements; each of `options` has values of an option."""
    calls = [call((5,)), call((2, 3)), call(()), call((0, 3))]
    some = [Sample(((4, 7),), values) for values in options]
    hard = [call((5, 7)), *(sample for sample in some if {*sample.options} & {*needed})]
    every: dict[str, Any] = {"family": "elements", "more": _cases_of_elements, "hard": hard}
    every |= {"large": pairwise(((2, 3, 1025),), *options), "exponential": True}
    return record(f, *calls, *some, needed=needed, **(every | known))


def gated(f: Any, *options: dict[str, Any], **known: Any) -> MapSpec:
    calls = [*PAIRS, *(Sample(((2, 3), (3,)), values) for values in options)]
    hard = [call((5, 7), (5, 7))]
    every: dict[str, Any] = {"family": "pairs", "hard": hard, "exponential": True}
    every["large"] = pairwise(((2, 3, 1025), (2, 3, 1025)), *options)
    return MapSpec(f=f, calls=calls, **(every | known))


def along_rows(f: Any, *calls: Sample, **known: Any) -> MapSpec:
    every = [call((5,)), call((2, 3)), call((2, 1, 40)), call((0, 3)), *calls]
    hard = [call((5, 7)), call((5, 7), axis=0)]
    same: dict[str, Any] = {"family": "rows", "hard": hard, "more": _cases_of_rows, "options": ()}
    same["large"] = [call((2, 3, 1025)), call((3, 4097)), call((2, 1025, 3), axis=1)]
    return MapSpec(f=f, calls=every, core=(1, 1), **(same | known))


#: Polynomials, and a quotient, in pieces.
PIECEWISE: dict[str, Any] = {"exponential": False}

RECORDS = [
    elementwise(a.relu, **PIECEWISE), elementwise(a.relu_squared, **PIECEWISE),
    elementwise(
        a.leaky_relu, {"negative_slope": 0.2}, **PIECEWISE,
    ),
    elementwise(
        a.elu, {"alpha": 0.5},
    ),
    elementwise(
        a.selu,
    ),
    elementwise(a.celu, {"alpha": 0.5}),
    elementwise(a.sigmoid), elementwise(a.log_sigmoid),
    elementwise(
        a.hard_sigmoid, {"alpha": 0.2}, {"beta": 0.75}, {"alpha": 0.2, "beta": 0.4}, **PIECEWISE,
    ),
    elementwise(a.tanh),
    elementwise(a.hard_tanh, **PIECEWISE),
    elementwise(
        a.softplus, {"beta": 0.75},
    ),
    elementwise(a.squareplus, {"b": 2.0}),
    elementwise(
        a.softsign, **PIECEWISE,
    ),
    elementwise(a.silu, {"beta": 0.75}),
    elementwise(
        a.mish,
    ),
    elementwise(a.hard_swish, **PIECEWISE),
    elementwise(
        a.gelu, {"approximate": "tanh"}, needed=("approximate",),
    ),
    elementwise(a.relu6, **PIECEWISE),
    elementwise(
        a.tanhshrink, draw=(draw.nonzero,),
    ),
    elementwise(
        a.thresholded_relu, {"alpha": 0.5}, **PIECEWISE,
    ),
    record(
        a.prelu,
        call((3,), (3,)), call((2, 3), (3,)), call((2, 3), ()), call((0, 3), (3,)),
        hard=[call((5, 7), (7,))], large=[call((2, 3, 1025), (1025,)), call((2, 67, 3), (3,))],
    ),
    gated(a.glu),
    gated(
        a.swiglu, {"beta": 0.75}, {"limit": 0.8}, {"shift": 1.0},
    ),
    gated(a.geglu),
    gated(a.reglu, **PIECEWISE),
    along_rows(
        a.softmax, call((1,)),
    ),
    along_rows(
        a.log_softmax, family="rows of several",
    ),
    along_rows(
        a.logsumexp, call((1,)),
    ),
    along_rows(a.sparsemax, call((1,))),
    record(
        a.gumbel_softmax,
        call((5,), (5,)),
        call((2, 3), (2, 3), temperature=0.5),
        call((2, 1, 4), (2, 1, 4)),
        call((0, 3), (0, 3)),
        hard=[call((5, 7), (5, 7)), call((3, 131), (3, 131), temperature=0.5)],
        options=[call((5, 7), (5, 7), temperature=0.5), call((5, 7), (5, 7), hard=True)],
    ),
    along_rows(a.hardmax, call((1,))),
]  # fmt: skip

#: Names elsewhere: see `dlref._core.names`.
NAMES = {
    "celu": ["torch.nn.functional.celu", "jax.nn.celu"],
    "elu": ["torch.nn.functional.elu", "jax.nn.elu"],
    "gelu": ["torch.nn.functional.gelu", "jax.nn.gelu", "gelu_new", "gelu_tanh"],
    "geglu": ["gated_gelu"],
    "glu": ["torch.nn.functional.glu", "jax.nn.glu"],
    "gumbel_softmax": ["torch.nn.functional.gumbel_softmax", "concrete"],
    "hard_sigmoid": ["torch.nn.functional.hardsigmoid", "jax.nn.hard_sigmoid"],
    "hard_swish": ["torch.nn.functional.hardswish", "jax.nn.hard_swish", "hard_silu"],
    "hard_tanh": ["torch.nn.functional.hardtanh", "jax.nn.hard_tanh"],
    "hardmax": ["argmax_one_hot"],
    "leaky_relu": ["torch.nn.functional.leaky_relu", "jax.nn.leaky_relu", "lrelu"],
    "log_sigmoid": ["torch.nn.functional.logsigmoid", "jax.nn.log_sigmoid"],
    "log_softmax": ["torch.nn.functional.log_softmax", "jax.nn.log_softmax"],
    "logsumexp": ["torch.logsumexp", "jax.nn.logsumexp", "lse"],
    "mish": ["torch.nn.functional.mish", "jax.nn.mish"],
    "prelu": ["torch.nn.functional.prelu"],
    "relu": ["torch.nn.functional.relu", "jax.nn.relu", "rectifier"],
    "relu6": ["torch.nn.functional.relu6", "jax.nn.relu6"],
    "relu_squared": ["relu2", "squared_relu"],
    "selu": ["torch.nn.functional.selu", "jax.nn.selu"],
    "sigmoid": ["torch.sigmoid", "jax.nn.sigmoid", "logistic", "expit"],
    "silu": ["torch.nn.functional.silu", "jax.nn.silu", "swish"],
    "softmax": ["torch.nn.functional.softmax", "jax.nn.softmax"],
    "softplus": ["torch.nn.functional.softplus", "jax.nn.softplus"],
    "softsign": ["torch.nn.functional.softsign", "jax.nn.soft_sign"],
    "squareplus": ["jax.nn.squareplus"],
    "sparsemax": ["sparse_softmax", "entmax"],
    "swiglu": ["swiglu_mlp", "silu_and_mul"],
    "tanh": ["torch.tanh", "jax.numpy.tanh"],
    "tanhshrink": ["torch.nn.functional.tanhshrink"],
    "thresholded_relu": ["torch.nn.functional.threshold"],
}
