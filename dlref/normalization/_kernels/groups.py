r"""Group and instance normalization: statistics of one sample, over positions and channels."""

from __future__ import annotations

import math
from typing import Any

import numpy.typing as npt

from ..._core.arguments import (
    FloatArray,
    as_integer,
    as_integers,
    as_number,
    check_shape,
    entries,
    result,
)
from .channels import columns, columns_jvp, columns_vjp
from .rows import jvp_arguments, operands

EACH = object()  #: as many groups as there are channels


def _count(name: str, groups: Any, channels: int) -> int:
    """Check that the channels can be shared among the groups; without channels there is one."""
    if groups is EACH:
        return max(channels, 1)
    array = as_integers(name, groups)
    check_shape(name, array, ())
    count = as_integer(name, array.item(), least=1)
    if channels % count:
        msg = f"Argument {name!r} must divide the number of channels {channels}, not {count}."
        raise ValueError(msg)
    return count


def _samples(x: FloatArray) -> FloatArray:
    """Merge the axes between samples and channels: (samples, positions, channels)."""
    positions = math.prod(x.shape[1:-1])
    return x.reshape(x.shape[0], positions, x.shape[-1])


def norm(
    x: npt.ArrayLike,
    groups: Any,
    weight: npt.ArrayLike | None,
    bias: npt.ArrayLike | None,
    eps: float,
) -> FloatArray:
    eps = as_number("eps", eps, least=0)
    dtype, x, (weight, bias) = operands(x, least=2, weight=weight, bias=bias)
    count = _count("groups", groups, x.shape[-1])
    return result(columns(_samples(x), count, weight, bias, eps).reshape(x.shape), dtype)


def vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    groups: Any,
    weight: npt.ArrayLike | None,
    bias: npt.ArrayLike | None,
    eps: float,
) -> FloatArray | tuple[FloatArray, ...]:
    eps = as_number("eps", eps, least=0)
    dtype, x, (u, weight, bias) = operands(x, least=2, dout=dout, weight=weight, bias=bias)
    count = _count("groups", groups, x.shape[-1])
    dx, dweight, dbias = columns_vjp(_samples(u), _samples(x), count, weight, eps)
    grads = [result(dx.reshape(x.shape), dtype)]
    if weight is not None:
        grads.append(result(dweight, dtype))
    if bias is not None:
        grads.append(result(dbias, dtype))
    return tuple(grads) if len(grads) > 1 else grads[0]


def jvp(primals: Any, tangents: Any, eps: float, *, grouped: bool) -> FloatArray:
    eps = as_number("eps", eps, least=0)
    constant = (1,) if grouped else ()
    primals = tuple(entries("primals", primals, 3 + grouped).values())
    dtype, x, v, (weight, _), (dweight, dbias) = jvp_arguments(
        primals, tangents, count=3 + grouped, least=2, constant=constant
    )
    count = _count("primals[1]", primals[1] if grouped else EACH, x.shape[-1])
    out = columns_jvp(_samples(v), _samples(x), count, weight, dweight, dbias, eps)
    return result(out.reshape(x.shape), dtype)
