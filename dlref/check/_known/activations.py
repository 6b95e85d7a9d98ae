"""Activations: a new one of single elements is one line."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ... import activations as a
from .._oracle.causes import derivatives, inputs, options, signs
from .._oracle.plain import rows as r
from .._oracle.plain import units as u
from .._oracle.plain.common import sigmoid
from . import _draw as draw
from ._record import Cases, Known, Sample, call, covered, record
from .calculus import PAIRS


def _elements(_: Known, rng: Any, size: Any) -> Cases:
    yield "zeros of both signs", (np.array([0.0, -0.0, 1.0, -1.0]),), {}
    yield "tiny", (np.array([1e-5, -1e-5, 2.0**-14, -(2.0**-14)]),), {}
    yield "tails", (np.linspace(-30.0, 30.0, 61),), {}
    yield "huge", (np.array([1e4, -1e4, size / 4, -size / 4]),), {}
    yield "a length that is no multiple of a tile", (rng.normal(size=(3, 37)),), {}
    yield "no elements", (np.empty((0, 3)),), {}


def _rows(_: Known, rng: Any, _size: Any) -> Cases:
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


def elementwise(f: Any, *told: dict[str, Any], needed: tuple[str, ...] = (), **known: Any) -> Known:
    """Return the record of a map of single elements; each of `told` tells an option."""
    calls = [call((5,)), call((2, 3)), call(()), call((0, 3))]
    some = [Sample(((4, 7),), one) for one in told]
    hard = [call((5, 7)), *(one for one in some if {*one.options} & {*needed})]
    every: dict[str, Any] = {"family": "elements", "more": _elements, "hard": hard}
    every |= {"large": covered(((2, 3, 1025),), *told), "exponential": True}
    return record(f, *calls, *some, needed=needed, **(every | known))


def gated(f: Any, *told: dict[str, Any], **known: Any) -> Known:
    calls = [*PAIRS, *(Sample(((2, 3), (3,)), one) for one in told)]
    hard = [call((5, 7), (5, 7))]
    every: dict[str, Any] = {"family": "pairs", "hard": hard, "exponential": True}
    every["large"] = covered(((2, 3, 1025), (2, 3, 1025)), *told)
    return Known(f=f, calls=calls, **(every | known))


def along_rows(f: Any, *calls: Sample, **known: Any) -> Known:
    every = [call((5,)), call((2, 3)), call((2, 1, 40)), call((0, 3)), *calls]
    hard = [call((5, 7)), call((5, 7), axis=0)]
    same: dict[str, Any] = {"family": "rows", "hard": hard, "more": _rows, "options": ()}
    same["large"] = [call((2, 3, 1025)), call((3, 4097)), call((2, 1025, 3), axis=1)]
    return Known(f=f, calls=every, core=(1, 1), **(same | known))


def by_slope(f: Any, slope: Any) -> dict[str, Any]:
    """Return the plain formulas of a map and of its slope."""
    plain = {"vjp": u.in_reverse(slope), "jvp": u.in_forward_mode(slope)}
    return plain if f is None else {"forward": f, **plain}


def symmetric(vjp: Any) -> dict[str, Any]:
    """Return the plain formulas of both modes of a map whose Jacobian is symmetric."""
    return {"vjp": vjp, "jvp": lambda x, dx, **told: vjp(dx, x, **told)}


#: Polynomials, and a quotient, in pieces.
PIECEWISE: dict[str, Any] = {"exponential": False}

RECORDS = [
    elementwise(a.relu, **PIECEWISE), elementwise(a.relu_squared, **PIECEWISE),
    elementwise(
        a.leaky_relu, {"negative_slope": 0.2}, **PIECEWISE,
        plain=by_slope(u.leaky_relu, u.leaky_relu_deriv),
    ),
    elementwise(
        a.elu, {"alpha": 0.5}, plain=by_slope(u.elu, u.elu_deriv),
        variants={"vjp": (u.in_reverse(u.elu_deriv_of_jax),)},
    ),
    elementwise(
        a.selu, plain=by_slope(u.selu, u.selu_deriv),
        variants={"vjp": (u.in_reverse(u.selu_deriv_of_jax),)},
    ),
    elementwise(a.celu, {"alpha": 0.5}, plain=by_slope(u.celu, u.celu_deriv)),
    elementwise(a.sigmoid, plain=by_slope(None, u.sigmoid_deriv)), elementwise(a.log_sigmoid),
    elementwise(
        a.hard_sigmoid, {"alpha": 0.2}, {"beta": 0.75}, {"alpha": 0.2, "beta": 0.4}, **PIECEWISE,
    ),
    elementwise(a.tanh, plain=by_slope(None, u.tanh_deriv), variants={"vjp": (u.tanh_vjp_of_jax,)}),
    elementwise(a.hard_tanh, **PIECEWISE),
    elementwise(
        a.softplus, {"beta": 0.75}, mistakes=(options.linear_beyond_20,),
        plain=by_slope(None, u.softplus_deriv),
    ),
    elementwise(
        a.softsign, **PIECEWISE, plain=symmetric(u.softsign_vjp),
    ),
    elementwise(a.silu, {"beta": 0.75}, plain=by_slope(u.silu, u.silu_deriv)),
    elementwise(
        a.mish, plain=by_slope(u.mish, u.mish_deriv), variants={"vjp": (u.mish_vjp_of_jax,)},
    ),
    elementwise(a.hard_swish, **PIECEWISE, plain=by_slope(u.hard_swish, u.hard_swish_deriv)),
    elementwise(
        a.gelu, {"approximate": "tanh"}, needed=("approximate",),
        plain=by_slope(u.gelu, u.gelu_deriv), later=(options.by_a_sigmoid,),
    ),
    elementwise(a.relu6, **PIECEWISE),
    elementwise(
        a.tanhshrink, draw=(draw.nonzero,),
        plain={"forward": u.tanhshrink, **symmetric(u.tanhshrink_vjp)},
        variants={"vjp": (u.tanhshrink_vjp_of_jax,)},
    ),
    elementwise(
        a.thresholded_relu, {"alpha": 0.5}, **PIECEWISE, plain={"forward": u.thresholded_relu},
    ),
    record(
        a.prelu,
        call((3,), (3,)), call((2, 3), (3,)), call((2, 3), ()), call((0, 3), (3,)),
        hard=[call((5, 7), (7,))],
    ),
    gated(a.glu, plain=u.gated(sigmoid, u.sigmoid_deriv)),
    gated(
        a.swiglu, {"beta": 0.75}, {"limit": 0.8}, {"shift": 1.0},
        plain=u.gated(u.silu, u.silu_deriv),
    ),
    gated(a.geglu, plain=u.gated(u.gelu, u.gelu_deriv), later=(options.gated_by_tanh,)),
    gated(a.reglu, **PIECEWISE),
    along_rows(
        a.softmax, call((1,)),
        plain={"forward": r.softmax, **symmetric(r.softmax_vjp)},
        variants={
            "forward": (r.by_logsumexp,),
            "vjp":(
                r.through_maximum(r.softmax_vjp),
                functools.partial(r.softmax_vjp, probabilities=r.by_logsumexp),
                r.softmax_vjp_of_jax,
            ),
            "jvp": (r.softmax_jvp_shifted,),
        },
        later=(inputs.base_two, derivatives.parts_of_softmax), exponent=signs.largest_input,
    ),
    along_rows(
        a.log_softmax, family="rows of several",
        plain={"forward": r.log_softmax, "vjp": r.log_softmax_vjp, "jvp": r.log_softmax_jvp},
        variants={
            "vjp": (r.through_maximum(r.log_softmax_vjp),), "jvp": (r.log_softmax_jvp_shifted,),
        },
        later=(inputs.base_two, derivatives.parts_of_log_softmax), signs=(signs.unshifted,),
        exponent=signs.largest_input,
    ),
    along_rows(
        a.logsumexp, call((1,)), plain={"vjp": r.logsumexp_vjp, "jvp": r.logsumexp_jvp},
        variants={"vjp": (r.through_maximum(r.logsumexp_vjp, total=True),)},
        later=(inputs.base_two,), exponent=signs.largest_input,
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
        plain={"forward": r.gumbel_softmax, "vjp": r.gumbel_softmax_vjp},
    ),
    along_rows(a.hardmax, call((1,))),
]  # fmt: skip
