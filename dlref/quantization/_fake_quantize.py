r"""Rounding to integers with a scale, and the straight-through gradient."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_integer,
    as_integers,
    as_tangents,
    check_constant,
    check_fits,
    check_positive,
    check_shape,
    entries,
    result,
)
from .._core.jit import inline_fma, kernel
from .._core.threads import as_carray, over_rows, with_workspace
from .._math.elementary import summed

Number = Any  #: a float64
BLOCK = 4096  # elements of a row, where all have one scale
COST = 2  # nanoseconds, or elementary operations, an element
TO_INTEGER = 1.5 * 2.0**52  # added and subtracted, it rounds to an integer, half to even
FAR = 2.0**40  # beyond any range, and small enough to be rounded so


@inline_fma
def _rounded(t: Number) -> Number:
    """Round to the nearest integer, ties to even; NaN stays."""
    t = -FAR if t < -FAR else (FAR if t > FAR else t)
    return (t + TO_INTEGER) - TO_INTEGER


@kernel
def _values(
    start: int,
    stop: int,
    x: FloatArray,
    scales: FloatArray,
    points: FloatArray,
    limits: tuple[float, float],
    block: int,
    out: FloatArray,
) -> None:
    """Write x, rounded, by rows of `block` elements that share a scale."""
    low, high = limits
    for r in range(start, stop):
        scale, point = scales[r], points[r]
        row, to = x[r * block : (r + 1) * block], out[r * block : (r + 1) * block]
        for i in range(row.size):
            q = _rounded(np.float64(row[i]) / scale) + point
            q = low if q < low else (high if q > high else q)
            to[i] = (q - point) * scale


@kernel
def _slopes(
    start: int,
    stop: int,
    x: FloatArray,
    scales: FloatArray,
    points: FloatArray,
    limits: tuple[float, float],
    block: int,
    u: FloatArray,
    dx: FloatArray,
    dscales: FloatArray,
    room: FloatArray,
) -> None:
    """Write u where x is inside of the range, and the sum of u times the slopes in the scale."""
    low, high = limits
    for r in range(start, stop):
        scale, point = scales[r], points[r]
        part = slice(r * block, (r + 1) * block)
        row, seed, to = x[part], u[part], dx[part]
        for i in range(row.size):
            t, v = np.float64(row[i]) / scale, np.float64(seed[i])
            q = _rounded(t) + point
            inside = (q >= low) & (q <= high)
            bound = low if q < low else (high if q > high else q)
            to[i] = v if inside else 0.0
            room[i] = v * ((bound - point) - (t if inside else 0.0))
        dscales[r] = summed(room[: row.size])


class _Range(NamedTuple):
    """Checked arguments by rows of elements with one scale, and how the rows lie."""

    x: FloatArray
    scales: FloatArray
    points: FloatArray
    limits: tuple[float, float]
    block: int
    outer: tuple[int, ...]  # axes of the rows, empty where all elements have one scale

    @classmethod
    def checked(
        cls,
        names: tuple[str, str, str],
        x: FloatArray,
        scale: FloatArray,
        zero_point: npt.ArrayLike,
        bits: int,
    ) -> _Range:
        check_fits(names[1], scale, x.shape, "...")
        check_positive(names[1], scale)
        point = as_integers(names[2], zero_point)
        check_fits(names[2], point, x.shape, "...")
        half = 2 ** (as_integer("bits", bits, least=2, most=32) - 1)
        if point.size and (point.min() < -half or point.max() >= half):
            worst = point.min() if point.min() < -half else point.max()
            msg = (
                f"Argument {names[2]!r} must hold integers from {-half} to {half - 1}, not {worst}."
            )
            raise ValueError(msg)
        shape = np.broadcast_shapes(scale.shape, point.shape)
        varying = [k - len(shape) for k, n in enumerate(shape) if n != 1]
        outer = x.shape[: x.ndim + varying[-1] + 1] if varying else ()
        block = math.prod(x.shape[len(outer) :]) if outer else max(1, min(BLOCK, x.size))
        rows = -(-x.size // block) if block else 0
        ones = (1,) * (x.ndim - len(outer))
        scales, points = (
            np.broadcast_to(a, outer + ones).ravel() if outer else np.full(rows, a.ravel()[:1])
            for a in (scale.astype(np.float64), point.astype(np.float64))
        )
        return cls(as_carray(x).reshape(-1), scales, points, (-half, half - 1.0), block, outer)

    def run(self, loop: Any, *outputs: FloatArray) -> None:
        """Run a kernel over all rows."""
        over_rows(loop, len(self.scales), COST * self.block, *self[:5], *outputs)

    def total(self, rows: FloatArray, shape: tuple[int, ...], ndim: int) -> FloatArray:
        """Add up numbers of rows, to the shape of the scale."""
        if not self.outer:
            return np.full(shape, rows.sum())
        rows = rows.reshape(self.outer + (1,) * (ndim - len(self.outer)))
        padded = (1,) * (ndim - len(shape)) + shape
        axes = tuple(k for k, n in enumerate(padded) if n == 1)
        return np.asarray(rows.sum(axis=axes).reshape(shape))


NAMES = ("x", "scale", "zero_point")


def fake_quantize(
    x: npt.ArrayLike,
    scale: npt.ArrayLike,
    zero_point: npt.ArrayLike = 0,
    *,
    bits: int = 8,
) -> FloatArray:
    r"""
    Round to the multiples of a scale that an integer of a few bits can count.

    Networks are trained with it to run in integers later: the forward pass has the rounding errors,
    and the numbers stay floating-point numbers.

    Parameters
    ----------
    x : array_like
        Weights or activations.
    scale : array_like
        Scale s > 0, the distance of two neighbors. It broadcasts to the shape of `x`: one number,
        or for weights (n_out, n_in) one for each output, of shape (n_out, 1).
    zero_point : array_like of int, default 0
        Integer z that stands for 0, within the range. It broadcasts like `scale`.
    bits : int, default 8
        Bits n of the signed integers, from 2 to 32.

    Returns
    -------
    ndarray or scalar
        The nearest multiples of the scale, shape of `x`.

    Raises
    ------
    TypeError
        If `x` or `scale` is neither integer nor a real floating-point array, or `zero_point` or
        `bits` is not integer.
    ValueError
        If `scale` or `zero_point` does not broadcast, a scale is not positive, or an option is out
        of range.

    See Also
    --------
    fake_quantize_vjp : The straight-through gradient, and the gradient of the scale.
    quantize_blocks : A scale for each 16 or 32 numbers.

    Notes
    -----
    The integer, and the number that it stands for, are

    .. math:: q = \operatorname{clip} \bigl( \operatorname{round}(x / s) + z ,\; -2^{n-1} ,\;
       2^{n-1} - 1 \bigr) , \qquad \hat x = s\, (q - z) .

    Ties are rounded to the even integer. Within the range the error is at most half a step, before
    the result is rounded to its dtype (with 32 bits, float32 has fewer digits than q),

    .. math:: |\hat x - x| \le \frac s2 ,

    and for inputs that vary by much more than s it is nearly uniform, with the mean square
    :math:`s^2 / 12`. Beyond the range it grows without limit. A scale is a compromise between the
    two: :math:`s = \max |x| / (2^{n-1} - 1)` with a zero point of 0 clips nothing, and a smaller
    one is better if the largest inputs are rare.

    **Conventions.** PyTorch's ``fake_quantize_per_tensor_affine`` takes the two ends of the range,
    here -128 and 127; many libraries leave out -128, so that the range is symmetric. PyTorch
    multiplies by the rounded inverse of s, in float32 even for float64 inputs, so that numbers next
    to a tie may go the other way. NaN stays NaN here, and becomes the lowest number there.
    Infinities are clipped.

    References
    ----------
    - :cite:t:`JacobQuantization2018`
    - :cite:t:`EsserLSQ2020`

    Examples
    --------
    Ties go to the even integer, and three bits end at -4 and 3:

    >>> import numpy as np
    >>> from dlref.quantization import fake_quantize
    >>> fake_quantize([0.5, 1.5, 2.5, 2.75, 9.0, -9.0], 1.0, bits=3)
    array([ 0.,  2.,  2.,  3.,  3., -4.])

    With a zero point of -4 the same integers reach from 0 to 7:

    >>> fake_quantize([-1.0, 0.0, 6.6, 9.0], 1.0, -4, bits=3)
    array([0., 0., 7., 7.])
    """
    dtype, arrays = as_floats({"x": x, "scale": scale}, work=np.float32)
    with np.errstate(all="ignore"):
        rows = _Range.checked(NAMES, arrays[0], arrays[1], zero_point, bits)
        out = np.empty(rows.x.shape, arrays[0].dtype)
        rows.run(_values, out)
        return result(out.reshape(arrays[0].shape), dtype)


def fake_quantize_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    scale: npt.ArrayLike,
    zero_point: npt.ArrayLike = 0,
    *,
    bits: int = 8,
) -> tuple[FloatArray, FloatArray]:
    r"""
    Straight-through gradient (reverse mode) of the rounding to integers.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Upstream gradient u.
    x, scale, zero_point, bits : as in `fake_quantize`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape of `x`
        Gradient of the inputs: u within the range and 0 beyond it.
    dscale : ndarray, shape of `scale`
        Gradient of the scale, summed over the inputs that share it.

    Notes
    -----
    The slope of a staircase is 0 nearly everywhere, and nothing would be learned. The
    straight-through estimate takes the slope of the rounding as 1 and keeps all other rules:
    the clip has the slope 0, and the product and the quotient with s are differentiated. With
    :math:`\hat q = \operatorname{round}(x / s) + z`, not yet clipped,

    .. math:: \pdv{L}{x_i} = \begin{cases} u_i & -2^{n-1} \le \hat q_i \le 2^{n-1} - 1 \\
       0 & \text{else} \end{cases}

    .. math:: \pdv{L}{s} = \sum_i u_i \cdot \begin{cases} \operatorname{round}(x_i / s) - x_i / s &
       -2^{n-1} \le \hat q_i \le 2^{n-1} - 1 \\ q_i - z & \text{else} \end{cases}

    **The scale.** In :math:`\hat x = s (q - z)` the scale occurs as a factor, with the slope
    :math:`q - z`, and inside of the rounding, where
    :math:`s\, \partial (x / s) / \partial s = -x / s`. Within the range the sum is the rounding
    error in steps, of either sign. Beyond it, it is the whole integer: a clipped input that should
    be larger asks for a larger scale.

    **Conventions.** LSQ multiplies the gradient of the scale by :math:`1 / \sqrt{N (2^{n-1} - 1)}`,
    so that the scale learns as fast as the N weights; here, as in PyTorch, that is left to the
    caller. Which side of the range a number is on is decided after rounding: for
    :math:`s = 1` and 8 bits 127.4 has a gradient, and 127.5 has none.

    Examples
    --------
    Three bits: 0.25 is inside, 9 is beyond.

    >>> from dlref.quantization import fake_quantize_vjp
    >>> dx, dscale = fake_quantize_vjp([1.0, 1.0], [0.25, 9.0], 1.0, bits=3)
    >>> dx, float(dscale)
    (array([1., 0.]), 2.75)
    """
    dtype, (u, *arrays) = as_floats({"dout": dout, "x": x, "scale": scale}, work=np.float32)
    shape = arrays[0].shape
    with np.errstate(all="ignore"):
        rows = _Range.checked(NAMES, arrays[0], arrays[1], zero_point, bits)
        check_shape("dout", u, shape)
        dx, dscales = np.empty(rows.x.shape, arrays[0].dtype), np.empty(len(rows.scales))
        loop = with_workspace(_slopes, rows.block)
        rows.run(loop, as_carray(u).reshape(-1), dx, dscales)
        dscale = rows.total(dscales, arrays[1].shape, len(shape))
        return result(dx.reshape(shape), dtype), result(dscale, dtype)


def fake_quantize_jvp(primals: Any, tangents: Any, *, bits: int = 8) -> FloatArray:
    r"""
    Straight-through tangent (forward mode) of the rounding to integers.

    Parameters
    ----------
    primals : tuple (x, scale, zero_point) of array_like
        The arguments of `fake_quantize`.
    tangents : tuple (dx, dscale, None) of array_like or None
        Directions of the first two, of their shapes; None is zero.
    bits : as in `fake_quantize`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        Tangent of the result, shape of `x`.

    Notes
    -----
    .. math:: \dot{\hat x} = \begin{cases} \dot x + (\operatorname{round}(x / s) - x / s)\, \dot s &
       -2^{n-1} \le \hat q \le 2^{n-1} - 1 \\ (q - z)\, \dot s & \text{else} \end{cases}

    Examples
    --------
    >>> from dlref.quantization import fake_quantize_jvp
    >>> fake_quantize_jvp(([0.25, 9.0], 1.0, 0), ([1.0, 1.0], 1.0, None), bits=3)
    array([0.75, 3.  ])
    """
    points, directions = entries("primals", primals, 3), entries("tangents", tangents, 3)
    check_constant("tangents[2]", directions["tangents[2]"])
    zero_point = points["primals[2]"]
    pairs = [tuple(given.values())[:2] for given in (points, directions)]
    dtype, (x, scale), (dx, dscale) = as_tangents(*pairs, count=2)
    with np.errstate(all="ignore"):
        rows = _Range.checked(
            ("primals[0]", "primals[1]", "primals[2]"), x, scale, zero_point, bits
        )
        (low, high), t = rows.limits, x / scale
        z = np.asarray(zero_point, np.float64)
        q = np.rint(t) + z
        inside = (low <= q) & (q <= high)
        slope = np.clip(q, low, high) - z - np.where(inside, t, 0.0)
        moved = np.where(inside, dx, 0.0) + slope * dscale
        return result(np.asarray(moved), dtype)
