r"""Trace of a square matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_floats, as_tangents, check_matrix, check_shape, result


def trace_grad(a: npt.ArrayLike) -> FloatArray:
    r"""
    Gradient of the trace :math:`y = \sum_i A_{ii}`.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Square matrix, or a stack of them.

    Returns
    -------
    ndarray, shape (..., n, n)
        The identity, one per matrix.

    Raises
    ------
    TypeError
        If `a` is neither integer nor a real floating-point array.
    ValueError
        If `a` is not a stack of square matrices.

    See Also
    --------
    trace_vjp, trace_jvp : The products with a cotangent and with tangents.
    logdet_grad : The logarithm of the determinant, whose tangent is a trace.

    Notes
    -----
    .. math:: \pdv{y}{A_{kl}} = \sum_i \delta_{ik} \delta_{il} = \delta_{kl} .

    The trace writes sums of products of entries as matrices: for any :math:`\mat B`,
    :math:`\operatorname{tr}(\mat B^\top \mat A) = \sum_{kl} B_{kl} A_{kl}`, so its gradient with
    respect to :math:`\mat A` is :math:`\mat B`.

    Examples
    --------
    >>> from dlref.calculus import trace_grad
    >>> trace_grad([[1, 2], [3, 4]])
    array([[1., 0.],
           [0., 1.]])
    """
    dtype, (a,) = as_floats({"a": a})
    check_matrix("a", a)
    return result(np.broadcast_to(np.eye(a.shape[-1]), a.shape).copy(), dtype)


def trace_vjp(dout: npt.ArrayLike, a: npt.ArrayLike) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the trace.

    Parameters
    ----------
    dout : array_like, shape (...)
        Cotangent :math:`u = \partial L / \partial y`, a number per matrix.
    a : as in `trace_grad`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., n, n)
        :math:`u \mat I`, one per matrix.

    Notes
    -----
    .. math:: \pdv{L}{A_{kl}} = u\, \delta_{kl}

    Elements off the diagonal are not read. Their gradient is exactly 0, even for an infinite
    cotangent.

    Examples
    --------
    >>> from dlref.calculus import trace_vjp
    >>> trace_vjp(3, [[1, 2], [3, 4]])
    array([[3., 0.],
           [0., 3.]])
    """
    dtype, (dout, a) = as_floats({"dout": dout, "a": a})
    check_matrix("a", a)
    check_shape("dout", dout, a.shape[:-2])
    return result(np.where(np.eye(a.shape[-1]) == 1, dout[..., None, None], 0.0), dtype)


def trace_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the trace.

    Parameters
    ----------
    primals : array_like, shape (..., n, n)
        Square matrix :math:`\mat A`, or a stack of them.
        Raises the same errors as `trace_grad`.
    tangents : array_like or None, shape (..., n, n)
        Direction :math:`\dot{\mat A}`; None is zero.

    Returns
    -------
    ndarray or scalar, shape (...)
        :math:`\dot y = \operatorname{tr} \dot{\mat A}`.

    Notes
    -----
    .. math:: \dot y = \sum_k \dot A_{kk} = \operatorname{tr} \dot{\mat A}

    The trace is linear, hence its own derivative.

    Examples
    --------
    Along a commutator the trace does not change:

    >>> import numpy as np
    >>> from dlref.calculus import trace_jvp
    >>> A, B = np.array([[1, 2], [3, 4]]), np.array([[0, 1], [5, 2]])
    >>> float(trace_jvp(A, A @ B - B @ A))
    0.0
    """
    dtype, (a,), (da,) = as_tangents(primals, tangents, count=1)
    check_matrix("primals", a)
    with np.errstate(all="ignore"):
        return result(np.trace(da, axis1=-2, axis2=-1), dtype)
