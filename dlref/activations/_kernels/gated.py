r"""
Gated linear units: one half of a layer's outputs decides how much of the other half passes.

All are x g(gate) with an activation g; the names say which: sigmoid, silu, gelu, relu.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..._core.arguments import FloatArray, as_floats, as_tangents, check_shape, result
from ..._core.broadcasting import broadcast_shape, unbroadcast
from ..._math.elementwise import times_map

if TYPE_CHECKING:
    from collections.abc import Callable


def gated(
    formula: Callable[..., Any], x: npt.ArrayLike, gate: npt.ArrayLike, *options: float
) -> FloatArray:
    dtype, [value, signal] = as_floats({"x": x, "gate": gate}, work=np.float32)
    value, signal = _stretched(value, signal)
    return result(times_map(formula, value, signal, *options), dtype)


def pulled(
    formula: Callable[..., Any],
    slope: Callable[..., Any],
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    gate: npt.ArrayLike,
    *options: float,
) -> tuple[FloatArray, FloatArray]:
    dtype, [u, value, signal] = as_floats({"dout": dout, "x": x, "gate": gate})
    wide, stretched = _stretched(value, signal)
    check_shape("dout", u, wide.shape)
    dx = times_map(formula, u, stretched, *options)
    with np.errstate(all="ignore"):
        dgate = times_map(slope, u * wide, stretched, *options)
    return (
        result(unbroadcast(dx, value.shape), dtype),
        result(unbroadcast(dgate, signal.shape), dtype),
    )


def pushed(
    formula: Callable[..., Any],
    slope: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *options: float,
) -> FloatArray:
    dtype, [x, gate], [dx, dgate] = as_tangents(primals, tangents, count=2)
    value, signal = _stretched(x, gate)
    change, swing = _stretched(dx, dgate)
    direct = times_map(formula, change, signal, *options)
    with np.errstate(all="ignore"):
        return result(direct + times_map(slope, value * swing, signal, *options), dtype)


def _stretched(x: FloatArray, gate: FloatArray) -> tuple[FloatArray, FloatArray]:
    shape = broadcast_shape(("x", "gate"), x, gate)
    return np.broadcast_to(x, shape), np.broadcast_to(gate, shape)
