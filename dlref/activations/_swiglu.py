r"""Gated linear unit with a SiLU gate."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_floats, as_number, as_tangents, result
from ._kernels.gated import gated, pulled, pushed
from ._silu import _silu, _silu_deriv, _steep


class _Options(NamedTuple):
    beta: float
    limit: float | None
    shift: float

    @property
    def are_plain(self) -> bool:
        return self.limit is None and self.shift == 0.0


def _options(beta: Any, limit: Any, shift: Any) -> _Options:
    limit = None if limit is None else as_number("limit", limit, above=0)
    return _Options(as_number("beta", beta), limit, as_number("shift", shift))


def _clipped(x: FloatArray, gate: FloatArray, options: _Options) -> tuple[FloatArray, FloatArray]:
    """Return the two factors: the values clipped and shifted, the gate clipped from above."""
    if options.limit is not None:
        x, gate = np.clip(x, -options.limit, options.limit), np.minimum(gate, options.limit)
    with np.errstate(invalid="ignore"):  # a signaling NaN becomes a NaN
        return x + options.shift, gate


def _inside(x: FloatArray, gate: FloatArray, limit: float | None) -> tuple[Any, Any]:
    """Return where clipping lets a derivative pass; the bounds and NaN are inside."""
    if limit is None:
        return True, True
    return ~(np.abs(x) > limit), ~(gate > limit)


def swiglu(
    x: npt.ArrayLike,
    gate: npt.ArrayLike,
    *,
    beta: float = 1.0,
    limit: float | None = None,
    shift: float = 0.0,
) -> FloatArray:
    r"""
    Gated unit with silu: the feed-forward gate of many language models.

    Parameters
    ----------
    x : array_like
        Values.
    gate : array_like
        Gate before its activation; the shapes broadcast.
    beta : float, default 1.0
        Steepness of the gate.
    limit : float or None
        Bound of the values, on both sides, and of the gate, from above; None has no bound.
    shift : float, default 0.0
        Added to the values, after clipping.

    Returns
    -------
    ndarray
        :math:`x \, g \, \sigma(\beta g)` with g the gate, where `limit` and `shift` are left out.

    Raises
    ------
    TypeError
        If an argument is not real.
    ValueError
        If the shapes do not broadcast, or `limit` is not greater than 0.

    See Also
    --------
    silu : The activation of the gate.
    swiglu_vjp : Both gradients.

    Notes
    -----
    .. math:: f(x, g) = x \, g \, \sigma(\beta g)

    A product of the two halves, weighted: for a large gate it is x g, quadratic in the layer's
    input. With `beta` = 0 it is the bilinear unit x g / 2.

    **With a bound.** A product of two large numbers overflows first in a network of
    float16 or FP8 numbers. gpt-oss therefore clips both factors at :math:`\ell` = `limit` and
    shifts the values by c = `shift`:

    .. math::

        x' = \min(\max(x, -\ell), \ell) , \qquad g' = \min(g, \ell) , \qquad
        f(x, g) = (x' + c)\, g'\, \sigma(\beta g') .

    With c = 1 the gate alone passes where the values are 0: a residual connection around the
    product. From below, the gate needs no bound, because :math:`g \sigma(\beta g)` tends to 0.

    Frameworks slice both halves from one array. Here they are two arguments, in this order;
    PyTorch's ``glu`` takes the gate from the second half.

    **Conventions.** gpt-oss has `beta` = 1.702, `limit` = 7 and `shift` = 1, and stores gate and
    values interleaved: even columns are the gate, odd columns the values.

    References
    ----------
    - :cite:t:`Shazeer2020`
    - :cite:t:`GptOss2025` on the bound and the shift

    Examples
    --------
    >>> from dlref.activations import swiglu
    >>> swiglu([3.0, 3.0], [0.0, 40.0])
    array([  0., 120.])

    As in gpt-oss, the largest output is (7 + 1) 7, whatever the inputs are:

    >>> swiglu([7.0, 1e30, 0.0], [40.0, 1e30, 40.0], beta=1.702, limit=7, shift=1).round(3)
    array([56., 56.,  7.])
    """
    options = _options(beta, limit, shift)
    formula = _steep(_silu, options.beta)
    if options.are_plain:
        return gated(formula, x, gate, options.beta)
    dtype, (values, signal) = as_floats({"x": x, "gate": gate})
    return result(gated(formula, *_clipped(values, signal, options), options.beta), dtype)


def swiglu_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    gate: npt.ArrayLike,
    *,
    beta: float = 1.0,
    limit: float | None = None,
    shift: float = 0.0,
) -> tuple[FloatArray, FloatArray]:
    r"""
    Reverse mode of swiglu.

    Parameters
    ----------
    dout : array_like
        Gradient u of a loss with respect to the output, of its shape.
    x, gate, beta, limit, shift : as in `swiglu`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape of `x`
        Gradient of that loss with respect to `x`.
    dgate : ndarray, shape of `gate`
        Gradient of that loss with respect to `gate`.

    See Also
    --------
    silu_deriv : The slope of the gate.

    Notes
    -----
    **The differential.** A product of x with :math:`f(g) = g\, \sigma(\beta g)`, the SiLU:
    :math:`\dd y = f(g)\, \dd x + x f'(g)\, \dd g`.

    **The inner product.** :math:`\dd L = \sum u\, \dd y` over all elements of the output.

    **The transpose.** Each differential occurs as often as its argument is used. With the slope
    :math:`f'(g)` written out,

    .. math::

        \pdv{L}{x} = \sum u\, g\, \sigma(\beta g) , \qquad
        \pdv{L}{g} = \sum u\, x\, \bigl( \sigma(\beta g)
          + \beta g\, \sigma(\beta g)\, \sigma(-\beta g) \bigr)

    The sums run over the axes along which an argument was broadcast.

    For a large gate the two gradients are the gradients of a product: each half receives the other.

    With a bound, :math:`x' + c` and :math:`g'` take the places of x and g, and each gradient is
    multiplied by the derivative of its clipping: 1 inside, 0 outside. At the bound itself it is 1,
    as in PyTorch.

    Examples
    --------
    >>> from dlref.activations import swiglu_vjp
    >>> swiglu_vjp([1.0], [3.0], [40.0])
    (array([40.]), array([3.]))

    Beyond the bound of the gate, only the values have a gradient:

    >>> swiglu_vjp([1.0], [3.0], [50.0], limit=40)
    (array([40.]), array([0.]))
    """
    options = _options(beta, limit, shift)
    formulas = _steep(_silu, options.beta), _steep(_silu_deriv, options.beta)
    if options.are_plain:
        return pulled(*formulas, dout, x, gate, options.beta)
    dtype, (u, values, signal) = as_floats({"dout": dout, "x": x, "gate": gate})
    grads = pulled(*formulas, u, *_clipped(values, signal, options), options.beta)
    inside = _inside(values, signal, options.limit)
    dx, dgate = (np.where(i, grad, 0.0) for i, grad in zip(inside, grads, strict=True))
    return result(dx, dtype), result(dgate, dtype)


def swiglu_jvp(
    primals: tuple[npt.ArrayLike, npt.ArrayLike],
    tangents: tuple[npt.ArrayLike | None, npt.ArrayLike | None],
    *,
    beta: float = 1.0,
    limit: float | None = None,
    shift: float = 0.0,
) -> FloatArray:
    r"""
    Forward mode of swiglu.

    Parameters
    ----------
    primals : tuple of array_like
        The values x and the gate g.
    tangents : tuple of array_like or None
        Tangents of the operands, of the same shapes; None is zero.
    beta, limit, shift : as in `swiglu`
        Raises the same errors.

    Returns
    -------
    ndarray
        Tangent of the output.

    Notes
    -----
    .. math:: \dot f = \dot x \, a(g) + x \, a'(g) \, \dot g

    with :math:`a(g) = g\, \sigma(\beta g)` and
    :math:`a'(g) = \sigma(\beta g) + \beta g\, \sigma(\beta g)\, \sigma(-\beta g)`.

    For a large gate it is the product rule of x g. With a bound or a shift, :math:`x' + c` and
    :math:`g'` take the places of x and g, and where an argument is clipped its tangent is 0.

    Examples
    --------
    >>> from dlref.activations import swiglu_jvp
    >>> swiglu_jvp(([3.0], [40.0]), ([1.0], [1.0]))
    array([43.])
    """
    options = _options(beta, limit, shift)
    formulas = _steep(_silu, options.beta), _steep(_silu_deriv, options.beta)
    if options.are_plain:
        return pushed(*formulas, primals, tangents, options.beta)
    dtype, points, moves = as_tangents(primals, tangents, count=2)
    inside = _inside(points[0], points[1], options.limit)
    moves = [np.where(i, move, 0.0) for i, move in zip(inside, moves, strict=True)]
    factors = _clipped(points[0], points[1], options)
    return result(pushed(*formulas, factors, tuple(moves), options.beta), dtype)
