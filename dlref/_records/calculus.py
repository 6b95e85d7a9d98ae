"""Calculus: maps that NumPy has, found by their derivatives, and matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import calculus as c
from . import _draw as draw
from ._spec import FORMS, NOT_ARRAYS, MapSpec, call, record, without

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


def of(name: str, f: Any, **known: Any) -> MapSpec:
    """Return the record of a map of NumPy whose derivatives have this name here."""
    forms = (getattr(c, f"{name}{form}", None) for form in FORMS)
    return MapSpec(f=f, forms=tuple(form for form in forms if form), **known)


def binary(name: str, *draw: Any, **known: Any) -> MapSpec:
    f = getattr(np, name)
    return of(name, f, family="pairs", calls=PAIRS, hard=HARD_PAIRS, draw=draw, **known)


def reduction(name: str, f: Any, *, of_nothing: bool = True) -> MapSpec:
    calls = [call((5,)), call((2, 3, 4), axis=(0, -1)), call((2, 3), axis=0, keepdims=True)]
    empty = [call((0, 3)), call((3, 0), axis=1)] if of_nothing else []
    hard = [call((5, 7)), call((5, 7), axis=0), call((131,)), call((2, 3, 5), axis=1)]
    family = "reductions" if of_nothing else "reductions of something"
    every = [*calls, call(()), *empty]
    return of(name, f, family=family, calls=every, hard=hard, options=(), batched=False)


RECORDS = [
    binary("add"), binary("subtract"), binary("multiply"), binary("maximum"), binary("minimum"),
    binary("divide", draw.nonzero, draw.nonzero), binary("power", draw.positive, fixed=True),
    reduction("sum", np.sum), reduction("mean", np.mean), reduction("prod", np.prod),
    reduction("max", np.max, of_nothing=False), reduction("norm", np.linalg.norm),
    of(
        "dot", lambda w, x: (w * x).sum(-1),
        calls=[call((3,), (3,)), call((2, 4), (2, 4)), call((2, 0), (2, 0))],
    ),
    of(
        "scaled_sum", lambda x, z: np.sum(x * z),
        calls=[call((3,), ()), call((2, 3), (1,)), call((0,), ())], batched=False,
    ),  # a leading axis of a vector would be its own
    of(
        "matmul", np.matmul,
        calls=[
            call((2, 3), (3, 4)), call((3,), (3, 4)), call((2, 3), (3,)), call((3,), (3,)),
            call((5, 1, 2, 3), (2, 3, 4)), call((2, 0), (0, 3)), call((0, 2, 3), (3, 1)),
        ],
        hard=[call((5, 7), (7, 3)), call((7,), (7, 3)), call((2, 1, 3, 131), (5, 131, 2))],
        batched=False, core=(2, 2, 2),
    ),
    of(
        "quadratic_form", lambda x, a: np.einsum("...i,...ij,...j", x, a, x),
        calls=[call((3,), (3, 3)), call((2, 4), (2, 4, 4))],
    ),
    of("trace", lambda a: np.trace(a, axis1=-2, axis2=-1), calls=MATRICES, hard=LARGER),
    of(
        "inverse", np.linalg.inv, calls=MATRICES, hard=LARGER, draw=(draw.invertible,), fixed=True,
        core=(2, 2),
    ),
    of(
        "logdet", lambda a: np.linalg.slogdet(a)[1], calls=MATRICES, hard=LARGER,
        draw=(draw.invertible,), fixed=True,
    ),
    record(
        c.chain_rule, call((2, 3), (3, 4), (4, 1)), call((2, 2)), call((5, 2, 3), (3, 4)),
    ),
    *without("it takes lists", c.total_derivative), *without(NOT_ARRAYS, c.chain_cost),
]  # fmt: skip
