"""Calculus: maps that NumPy has, found by their derivatives, and matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special

from .. import calculus as c
from . import _draw as draw
from ._spec import FORMS, NOT_ARRAYS, MapSpec, Sample, call, pairwise, record, without

PAIRS = [
    call((3,), (3,)),
    call((3,), ()),
    call((1,), (3,)),
    call((2, 1, 3), (4, 1)),
    call((), ()),
    call((0, 3), (3,)),
]
HARD_PAIRS = [call((5, 7), (5, 7)), call((5, 1), (3, 1, 7)), call((5, 7), ())]
MATRICES = [call((3, 3)), call((2, 4, 2, 2)), call((1, 1)), call((0, 2, 2))]
LARGER = [call((5, 5)), call((2, 7, 7))]


def numpy_map(name: str, f: Any, **known: Any) -> MapSpec:
    """Return the record of a map of NumPy whose derivatives have this name here."""
    forms = (getattr(c, f"{name}{form}", None) for form in FORMS)
    return MapSpec(f=f, forms=tuple(form for form in forms if form), **known)


def elementary(name: str, f: Any, draw: Any = draw.normal, *options: Any, **known: Any) -> MapSpec:
    calls = [call((5,)), call((2, 3)), call(()), call((0, 3)), *options]
    return numpy_map(name, f, family="elements", calls=calls, draw=(draw,), **known)


def binary(name: str, *draw: Any, **known: Any) -> MapSpec:
    f = getattr(np, name)
    return numpy_map(name, f, family="pairs", calls=PAIRS, hard=HARD_PAIRS, draw=draw, **known)


def reduction(name: str, f: Any, *, of_nothing: bool = True) -> MapSpec:
    calls = [call((5,)), call((2, 3, 4), axis=(0, -1)), call((2, 3), axis=0, keepdims=True)]
    empty = [call((0, 3)), call((3, 0), axis=1)] if of_nothing else []
    hard = [call((5, 7)), call((5, 7), axis=0), call((131,)), call((2, 3, 5), axis=1)]
    family = "reductions" if of_nothing else "reductions of something"
    every = [*calls, call(()), *empty]
    return numpy_map(name, f, family=family, calls=every, hard=hard, options=(), batched=False)


def scan(f: Any) -> MapSpec:
    calls = [
        call((5,)), call((2, 3, 4), axis=1), call((2, 5), reverse=True),
        call((2, 5), exclusive=True), call((5, 2), axis=0, reverse=True, exclusive=True),
        call((1,)), call((2, 0)), call((0, 3)),
    ]  # fmt: skip
    hard = [call((5, 7)), call((2, 131)), call((7, 5), axis=0)]
    options: list[dict[str, Any]] = [{"axis": 1}, {"reverse": True}, {"exclusive": True}]
    return record(f, *calls, family="scans", hard=hard, large=pairwise(((2, 3, 257),), *options))


def concatenate(*arrays: Any, axis: int = 0) -> Any:
    return np.concatenate(arrays, axis)


def take(x: Any, indices: Any, *, axis: int = 0) -> Any:
    return np.take(x, indices, axis)


def pad(x: Any, *, pad_width: Any, mode: Any = "constant") -> Any:
    return np.pad(x, pad_width, mode)


def einsum(*operands: Any, subscripts: str) -> Any:
    return np.einsum(subscripts, *operands)


def product(subscripts: str, *shapes: Any) -> Sample:
    return call(*shapes, subscripts=subscripts)


def clip(x: Any, *, min: float | None = None, max: float | None = None) -> Any:
    return np.clip(x, min, max)


RECORDS = [
    elementary("exp", np.exp, exponential=True), elementary("expm1", np.expm1, exponential=True),
    elementary("log", np.log, draw.positive, fixed=True),
    elementary("log1p", np.log1p, draw.positive, fixed=True),
    elementary("sqrt", np.sqrt, draw.positive, fixed=True),
    elementary("sin", np.sin), elementary("cos", np.cos), elementary("tan", np.tan),
    elementary("erf", scipy.special.erf), elementary("absolute", np.absolute, draw.nonzero),
    elementary(
        "clip", clip, draw.normal,
        call((4, 7), min=-0.5), call((4, 7), max=0.5), call((4, 7), min=-0.5, max=0.25),
    ),
    binary("add"), binary("subtract"), binary("multiply"), binary("maximum"), binary("minimum"),
    binary("divide", draw.nonzero, draw.nonzero), binary("power", draw.positive, fixed=True),
    reduction("sum", np.sum), reduction("mean", np.mean), reduction("prod", np.prod),
    reduction("max", np.max, of_nothing=False), reduction("min", np.min, of_nothing=False),
    reduction("norm", np.linalg.norm),
    scan(c.cumsum), scan(c.cumprod), scan(c.cumlogsumexp),
    numpy_map(
        "dot", lambda w, x: (w * x).sum(-1),
        calls=[call((3,), (3,)), call((2, 4), (2, 4)), call((2, 0), (2, 0))],
    ),
    numpy_map(
        "scaled_sum", lambda x, z: np.sum(x * z),
        calls=[call((3,), ()), call((2, 3), (1,)), call((0,), ())], batched=False,
    ),  # a leading axis of a vector would be its own
    numpy_map(
        "matmul", np.matmul,
        calls=[
            call((2, 3), (3, 4)), call((3,), (3, 4)), call((2, 3), (3,)), call((3,), (3,)),
            call((5, 1, 2, 3), (2, 3, 4)), call((2, 0), (0, 3)), call((0, 2, 3), (3, 1)),
        ],
        hard=[call((5, 7), (7, 3)), call((7,), (7, 3)), call((2, 1, 3, 131), (5, 131, 2))],
        batched=False, core=(2, 2, 2),
    ),
    numpy_map(
        "quadratic_form", lambda x, a: np.einsum("...i,...ij,...j", x, a, x),
        calls=[call((3,), (3, 3)), call((2, 4), (2, 4, 4))],
    ),
    numpy_map("trace", lambda a: np.trace(a, axis1=-2, axis2=-1), calls=MATRICES, hard=LARGER),
    numpy_map(
        "inverse", np.linalg.inv, calls=MATRICES, hard=LARGER, draw=(draw.invertible,), fixed=True,
        core=(2, 2),
    ),
    numpy_map(
        "solve", np.linalg.solve,
        calls=[
            call((3, 3), (3, 2)), call((3, 3), (3,)), call((2, 4, 2, 2), (2, 4, 2, 3)),
            call((1, 1), (1, 1)), call((0, 2, 2), (0, 2, 1)),
        ],
        draw=(draw.invertible,), fixed=True, batched=False,
    ),
    numpy_map(
        "logdet", lambda a: np.linalg.slogdet(a)[1], calls=MATRICES, hard=LARGER,
        draw=(draw.invertible,), fixed=True,
    ),
    record(
        c.scatter_add,
        call((3,), (4,), (4,)), call((3, 2), (5,), (5, 2)), call((2, 3), (4,), (2, 4), axis=1),
        call((4, 2), (2, 3), (2, 3, 2)), call((4,), (), ()), call((3, 2), (0,), (0, 2)),
        draw=(draw.normal, draw.rows), constant=(1,), batched=False,
        hard=[call((7, 5), (31,), (31, 5)), call((5, 7), (31,), (5, 31), axis=-1)],
        large=[call((257, 3), (1025,), (1025, 3)), call((5, 2, 3), (7,), (7, 2, 3))],
    ),
    numpy_map(
        "take", take,
        calls=[
            call((3,), (4,)), call((3, 2), (5,)), call((2, 3), (4,), axis=1),
            call((4, 2), (2, 3)), call((4,), ()), call((3, 2), (0,)),
        ],
        draw=(draw.normal, draw.rows), constant=(1,), batched=False,
        hard=[call((7, 5), (31,)), call((5, 7), (31,), axis=-1)],
        large=[call((257, 3), (1025,)), call((5, 2, 3), (7,))],
    ),
    numpy_map(
        "where", np.where,
        calls=[
            call((3,), (3,), (3,)), call((3,), (3,), ()), call((2, 1, 3), (4, 1), (1,)),
            call((), (), ()), call((0, 3), (3,), (3,)),
        ],
        draw=(draw.booleans,), constant=(0,), analytic=False,
        hard=[call((5, 7), (5, 7), (5, 7)), call((5, 1), (3, 1, 7), ())],
    ),
    numpy_map(
        "concatenate", concatenate,
        calls=[
            call((3,), (2,)), call((2, 3), (1, 3), (2, 3)), call((2, 3), (2, 1), axis=-1),
            call((0,), (3,)), call((2, 0, 3), (2, 4, 3), axis=1),
        ],
        batched=False, hard=[call((5, 7), (11, 7)), call((5, 7), (5, 2), (5, 3), axis=1)],
        large=[call((2, 257, 3), (3, 257, 3))],
    ),
    numpy_map(
        "pad", pad,
        calls=[
            call((5,), pad_width=2), call((3, 4), pad_width=(1, 2)),
            call((3, 4), pad_width=((0, 1), (2, 0))),
            *(call((3, 4), pad_width=((1, 2), (2, 1)), mode=mode)
              for mode in ("edge", "reflect", "symmetric", "wrap")),
            call((2,), pad_width=(5, 4), mode="reflect"), call((2,), pad_width=5, mode="wrap"),
            call((2, 0), pad_width=((1, 0), (0, 1))), call((0,), pad_width=0, mode="edge"),
        ],
        needed=("pad_width",), batched=False,
        hard=[call((5, 7), pad_width=3), call((5, 7), pad_width=(4, 3), mode="reflect")],
        large=[call((3, 257, 5), pad_width=2, mode="wrap")],
    ),
    numpy_map(
        "einsum", einsum,
        calls=[
            product("ij,jk->ik", (2, 3), (3, 4)), product("ij,jk", (2, 3), (3, 4)),
            product("ii->i", (3, 3)), product("ii", (3, 3)), product("ij->i", (2, 3)),
            product("ij->ji", (2, 3)), product("ba", (2, 3)), product("i,j->ij", (2,), (3,)),
            product("i,ij,j->", (2,), (2, 3), (3,)), product("iij,jk->ik", (2, 2, 3), (3, 2)),
            product("...ij,...jk->...ik", (2, 2, 3), (3, 4)),
            product("...i,...i", (4, 1, 3), (2, 3)), product("...,...->...", (2, 1), (3,)),
            product("ij,k->i", (2, 3), (4,)),
            product("bhtd,bhsd->bhts", (1, 2, 3, 2), (1, 2, 4, 2)),
            product("ij,jk->ik", (0, 3), (3, 2)), product(",->", (), ()),
        ],
        needed=("subscripts",), batched=False,
        hard=[
            product("ij,jk->ik", (5, 7), (7, 3)), product("iij,jk,k->i", (5, 5, 7), (7, 3), (3,)),
            product("...ij,...kj->...ik", (2, 1, 3, 31), (5, 2, 31)),
        ],
        large=[product("bij,bjk->bik", (3, 17, 65), (3, 65, 33))],
    ),
    record(
        c.chain_rule, call((2, 3), (3, 4), (4, 1)), call((2, 2)), call((5, 2, 3), (3, 4)),
    ),
    *without("it takes lists", c.total_derivative), *without(NOT_ARRAYS, c.chain_cost),
]  # fmt: skip

#: Names elsewhere: see `dlref._core.names`.
NAMES = {
    "absolute_vjp": ["torch.abs", "jax.numpy.abs", "fabs", "modulus"],
    "clip_vjp": ["torch.clamp", "jax.numpy.clip", "clamp_min", "clamp_max"],
    "concatenate_vjp": [
        "torch.cat",
        "jax.numpy.concatenate",
        "concat",
        "stack",
        "split: it is the backward pass of this map",
    ],
    "cos_vjp": ["torch.cos", "jax.numpy.cos", "cosine"],
    "cumlogsumexp": ["torch.logcumsumexp", "jax.lax.cumlogsumexp", "log_cumsum_exp"],
    "cumprod": ["torch.cumprod", "jax.lax.cumprod", "cumulative_product"],
    "cumsum": ["torch.cumsum", "jax.lax.cumsum", "prefix_sum", "cumulative_sum", "running_sum"],
    "einsum_vjp": ["torch.einsum", "jax.numpy.einsum", "tensordot", "contraction"],
    "erf_vjp": ["torch.special.erf", "jax.scipy.special.erf", "error_function"],
    "exp_vjp": ["torch.exp", "jax.numpy.exp", "exponential"],
    "expm1_vjp": ["torch.expm1", "jax.numpy.expm1"],
    "log_vjp": ["torch.log", "jax.numpy.log", "ln", "logarithm"],
    "log1p_vjp": ["torch.log1p", "jax.numpy.log1p"],
    "max_vjp": ["torch.amax", "jax.numpy.max", "reduce_max"],
    "min_vjp": ["torch.amin", "jax.numpy.min", "reduce_min"],
    "multiply_vjp": ["torch.mul", "jax.numpy.multiply", "layer_scale", "hadamard_product"],
    "pad_vjp": [
        "torch.nn.functional.pad",
        "jax.numpy.pad",
        "zero_pad",
        "reflection_pad",
        "replication_pad",
    ],
    "scatter_add": ["torch.index_add", "index_put", "segment_sum", "add_at"],
    "sin_vjp": ["torch.sin", "jax.numpy.sin", "sine"],
    "solve_vjp": ["torch.linalg.solve", "jax.numpy.linalg.solve", "linear_solve", "linsolve"],
    "sqrt_vjp": ["torch.sqrt", "jax.numpy.sqrt", "square_root"],
    "take_vjp": [
        "torch.index_select",
        "jax.numpy.take",
        "gather",
        "take_along_axis: it takes other indices in each row",
    ],
    "tan_vjp": ["torch.tan", "jax.numpy.tan"],
    "where_vjp": ["torch.where", "jax.numpy.where", "select", "masked_fill"],
}
