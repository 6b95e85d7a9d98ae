r"""PReLU: a leaky ReLU whose slope is a parameter."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_floats, as_tangents, check_shape, result
from .._core.broadcasting import unbroadcast


def prelu(x: npt.ArrayLike, slope: npt.ArrayLike) -> FloatArray:
    r"""
    Rectifier whose negative side has a learned slope.

    Parameters
    ----------
    x : array_like, shape (..., D)
        Input.
    slope : array_like, shape (D,) or one that broadcasts to the shape of `x`
        Slopes, one for each feature, or a single one.

    Returns
    -------
    ndarray, shape of `x`
        `x` where positive, else `slope` times `x`.

    Raises
    ------
    TypeError
        If an argument is not real.
    ValueError
        If `slope` does not broadcast to the shape of `x`.

    See Also
    --------
    leaky_relu : The slope is a fixed number.

    Notes
    -----
    .. math:: f(x, a) = \max(x, 0) + a \min(x, 0)

    Linear in a, piecewise linear in x. Features come last here; PyTorch counts the second axis as
    the channels. With slope 1 it is the identity, with -1 the absolute value.

    References
    ----------
    - :cite:t:`He2015`

    Examples
    --------
    >>> from dlref.activations import prelu
    >>> prelu([[-2.0, -2.0], [3.0, 3.0]], [0.25, -1.0])
    array([[-0.5,  2. ],
           [ 3. ,  3. ]])
    """
    dtype, [array, a] = as_floats({"x": x, "slope": slope}, work=np.float32)
    a = _stretched(a, array)
    with np.errstate(all="ignore"):
        return result(np.where(array > 0, array, a * array), dtype)


def prelu_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, slope: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Reverse mode of the rectifier with a learned slope.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient u of a loss with respect to the output.
    x, slope : as in `prelu`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape of `x`
        Gradient of that loss with respect to `x`.
    dslope : ndarray, shape of `slope`
        Gradient of that loss with respect to `slope`.

    Notes
    -----
    .. math:: \pdv{L}{x} = u \begin{cases} 1 & x > 0 \\ a & x \le 0 \end{cases}, \qquad
       \pdv{L}{a} = \sum u \min(x, 0)

    The sum runs over all elements that use the slope, in float64. At the kink the derivative
    with respect to x is the slope, as in PyTorch.

    Examples
    --------
    >>> from dlref.activations import prelu_vjp
    >>> prelu_vjp([1.0, 1.0, 1.0], [-2.0, -3.0, 4.0], 0.25)
    (array([0.25, 0.25, 1.  ]), np.float64(-5.0))
    """
    dtype, [u, array, a] = as_floats({"dout": dout, "x": x, "slope": slope})
    wide = _stretched(a, array)
    check_shape("dout", u, array.shape)
    with np.errstate(all="ignore"):
        dx = np.where(array > 0, u, u * wide)
        dslope = unbroadcast(np.where(array > 0, 0.0, u * array), a.shape)
    return result(dx, dtype), result(dslope, dtype)


def prelu_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Forward mode of the rectifier with a learned slope.

    Parameters
    ----------
    primals : tuple of array_like
        The input x and the slope a.
        Raises the same errors as `prelu`.
    tangents : tuple of array_like or None
        Tangents of the operands, of the same shapes; None is zero.

    Returns
    -------
    ndarray, shape of x
        Tangent of the output.

    Notes
    -----
    On the left the product rule adds a term for the slope:

    .. math:: \dot y = \begin{cases} \dot x & x > 0 \\ a\, \dot x + x\, \dot a & x \le 0 \end{cases}

    Examples
    --------
    >>> from dlref.activations import prelu_jvp
    >>> prelu_jvp(([-2.0, 4.0], 0.25), ([1.0, 1.0], 1.0))
    array([-1.75,  1.  ])
    """
    dtype, [array, a], [dx, da] = as_tangents(primals, tangents, count=2)
    wide = _stretched(a, array)
    with np.errstate(all="ignore"):
        return result(np.where(array > 0, dx, wide * dx + da * array), dtype)


def _stretched(slope: FloatArray, x: FloatArray) -> FloatArray:
    try:
        return np.broadcast_to(slope, x.shape)
    except ValueError:
        msg = f"Argument 'slope' must broadcast to the shape {x.shape} of 'x', not {slope.shape}."
        raise ValueError(msg) from None
