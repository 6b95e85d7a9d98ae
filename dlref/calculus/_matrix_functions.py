r"""Trace, inverse and logarithm of the determinant of a square matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._validate import FloatArray, as_floats, as_tangents, check_matrix, check_shape, result

__all__ = [
    "inverse_jacobian",
    "inverse_jvp",
    "inverse_vjp",
    "logdet_grad",
    "logdet_jvp",
    "logdet_vjp",
    "trace_grad",
    "trace_jvp",
    "trace_vjp",
]


def _inverse(name: str, a: FloatArray) -> FloatArray:
    check_matrix(name, a)
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        msg = f"Argument {name!r} must be invertible, not singular."
        raise np.linalg.LinAlgError(msg) from None


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
        If `a` is no stack of square matrices.

    See Also
    --------
    trace_vjp, trace_jvp : The products with a cotangent and with tangents.
    logdet_grad : The logarithm of the determinant, whose tangent is a trace.

    Notes
    -----
    .. math:: \pdv{y}{A_{kl}} = \sum_i \delta_{ik} \delta_{il} = \delta_{kl} .

    The trace turns matrix gradients into sums: for any :math:`B`,
    :math:`\operatorname{tr}(B^\top A) = \sum_{kl} B_{kl} A_{kl}`, so its gradient with
    respect to :math:`A` is :math:`B`.

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
    a : array_like, shape (..., n, n)
        Square matrix, or a stack of them.

    Returns
    -------
    ndarray, shape (..., n, n)
        :math:`u I`, one per matrix.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array.
    ValueError
        If `a` is no stack of square matrices, or `dout` has not one number per matrix.

    See Also
    --------
    trace_grad : The derivation.
    trace_jvp : Forward mode.

    Notes
    -----
    Elements off the diagonal are not read, and get exactly 0, even from an infinite
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
        Square matrix :math:`A`, or a stack of them.
    tangents : array_like or None, shape (..., n, n)
        Direction :math:`\dot A`; None is zero.

    Returns
    -------
    ndarray or scalar, shape (...)
        :math:`\dot y = \operatorname{tr} \dot A`.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array.
    ValueError
        If `primals` is no stack of square matrices, or `tangents` has not its shape.

    See Also
    --------
    trace_grad : The derivation.
    trace_vjp : Reverse mode.

    Notes
    -----
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
    return result(np.trace(da, axis1=-2, axis2=-1), dtype)


def inverse_jacobian(a: npt.ArrayLike) -> FloatArray:
    r"""
    Jacobian of the matrix inverse :math:`Y = A^{-1}`.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Invertible matrix, or a stack of them.

    Returns
    -------
    ndarray, shape (..., n, n, n, n)
        ``J[..., i, j, k, l]`` is :math:`\partial Y_{ij} / \partial A_{kl}`, one Jacobian
        per matrix.

    Raises
    ------
    TypeError
        If `a` is neither integer nor a real floating-point array.
    ValueError
        If `a` is no stack of square matrices.
    numpy.linalg.LinAlgError
        If a matrix is singular (a subclass of ValueError).

    See Also
    --------
    inverse_vjp, inverse_jvp : The products with a matrix, in :math:`O(n^3)`.

    Notes
    -----
    With :math:`\dot A` the matrix that is 1 at :math:`(k, l)` and 0 elsewhere, the tangent
    :math:`-Y \dot A Y` derived at :func:`inverse_jvp` is

    .. math:: \pdv{Y_{ij}}{A_{kl}} = -Y_{ik} Y_{lj} .

    Examples
    --------
    For one number this is :math:`(1/a)' = -1/a^2`:

    >>> from dlref.calculus import inverse_jacobian
    >>> inverse_jacobian([[4.0]]).item()
    -0.0625
    """
    dtype, (a,) = as_floats({"a": a})
    y = _inverse("a", a)
    with np.errstate(all="ignore"):
        return result(-np.einsum("...ik,...lj->...ijkl", y, y), dtype)


def inverse_vjp(dout: npt.ArrayLike, a: npt.ArrayLike) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the matrix inverse.

    Parameters
    ----------
    dout : array_like, shape (..., n, n)
        Cotangent :math:`U = \partial L / \partial Y`.
    a : array_like, shape (..., n, n)
        Invertible matrix :math:`A`, or a stack of them; :math:`Y = A^{-1}`.

    Returns
    -------
    ndarray, shape (..., n, n)
        :math:`-Y^\top U Y^\top`.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array.
    ValueError
        If `a` is no stack of square matrices, or `dout` has not its shape.
    numpy.linalg.LinAlgError
        If a matrix is singular (a subclass of ValueError).

    See Also
    --------
    inverse_jvp : Forward mode, where the rule is derived.
    inverse_jacobian : The dense Jacobian.

    Notes
    -----
    A tangent :math:`\dot A` changes the loss by
    :math:`\operatorname{tr}(U^\top \dot Y) = -\operatorname{tr}(U^\top Y \dot A Y) =
    -\operatorname{tr}(Y U^\top Y \dot A)`, turning the factors in a circle. What stands
    before :math:`\dot A` is the transposed gradient:

    .. math:: \pdv{L}{A} = -(Y U^\top Y)^\top = -Y^\top U Y^\top .

    The error grows with the square of the condition number of :math:`A`, as the
    derivative itself does.

    References
    ----------
    The rule is in :cite:t:`Giles2008`.

    Examples
    --------
    >>> from dlref.calculus import inverse_vjp
    >>> inverse_vjp([[1, 0], [0, 0]], [[2, 0], [0, 4]])
    array([[-0.25,  0.  ],
           [ 0.  ,  0.  ]])
    """
    dtype, (dout, a) = as_floats({"dout": dout, "a": a})
    y = _inverse("a", a)
    check_shape("dout", dout, a.shape)
    with np.errstate(all="ignore"):
        return result(-y.mT @ dout @ y.mT, dtype)


def inverse_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the matrix inverse.

    Parameters
    ----------
    primals : array_like, shape (..., n, n)
        Invertible matrix :math:`A`, or a stack of them; :math:`Y = A^{-1}`.
    tangents : array_like or None, shape (..., n, n)
        Direction :math:`\dot A`; None is zero.

    Returns
    -------
    ndarray, shape (..., n, n)
        :math:`\dot Y = -Y \dot A Y`.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array.
    ValueError
        If `primals` is no stack of square matrices, or `tangents` has not its shape.
    numpy.linalg.LinAlgError
        If a matrix is singular (a subclass of ValueError).

    See Also
    --------
    inverse_vjp : Reverse mode.
    inverse_jacobian : The dense Jacobian.

    Notes
    -----
    Differentiate :math:`A Y = I`, whose right-hand side does not move:

    .. math::

        \dot A Y + A \dot Y = 0
        \quad\Longrightarrow\quad
        \dot Y = -A^{-1} \dot A Y = -Y \dot A Y .

    Examples
    --------
    Scaling :math:`A` up scales its inverse down, :math:`\dot Y = -Y` for
    :math:`\dot A = A`:

    >>> import numpy as np
    >>> from dlref.calculus import inverse_jvp
    >>> A = np.array([[2.0, 1.0], [0.0, 4.0]])
    >>> inverse_jvp(A, A) + np.linalg.inv(A)
    array([[0., 0.],
           [0., 0.]])
    """
    dtype, (a,), (da,) = as_tangents(primals, tangents, count=1)
    y = _inverse("primals", a)
    with np.errstate(all="ignore"):
        return result(-y @ da @ y, dtype)


def logdet_grad(a: npt.ArrayLike) -> FloatArray:
    r"""
    Gradient of the logarithm of the determinant, :math:`y = \ln |\det A|`.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Invertible matrix, or a stack of them.

    Returns
    -------
    ndarray, shape (..., n, n)
        :math:`A^{-\top}`, the transposed inverse, one per matrix.

    Raises
    ------
    TypeError
        If `a` is neither integer nor a real floating-point array.
    ValueError
        If `a` is no stack of square matrices.
    numpy.linalg.LinAlgError
        If a matrix is singular (a subclass of ValueError).

    See Also
    --------
    logdet_vjp, logdet_jvp : The products with a cotangent and with tangents.

    Notes
    -----
    Expanding the determinant along row :math:`k`,
    :math:`\det A = \sum_l A_{kl} C_{kl}`, where no cofactor :math:`C_{kl}` holds an element
    of row :math:`k`. So :math:`\partial \det A / \partial A_{kl} = C_{kl}`, and by Cramer's
    rule :math:`C_{kl} = \det A\; (A^{-1})_{lk}`:

    .. math::

        \pdv{y}{A_{kl}} = \frac{1}{\det A} \pdv{\det A}{A_{kl}} = (A^{-1})_{lk},
        \qquad \nabla y = A^{-\top} .

    This holds for either sign of the determinant.

    Examples
    --------
    >>> from dlref.calculus import logdet_grad
    >>> logdet_grad([[2, 1], [0, 4]])
    array([[ 0.5  ,  0.   ],
           [-0.125,  0.25 ]])
    """
    dtype, (a,) = as_floats({"a": a})
    return result(_inverse("a", a).mT.copy(), dtype)


def logdet_vjp(dout: npt.ArrayLike, a: npt.ArrayLike) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of :math:`\ln |\det A|`.

    Parameters
    ----------
    dout : array_like, shape (...)
        Cotangent :math:`u = \partial L / \partial y`, a number per matrix.
    a : array_like, shape (..., n, n)
        Invertible matrix, or a stack of them.

    Returns
    -------
    ndarray, shape (..., n, n)
        :math:`u A^{-\top}`, one per matrix.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array.
    ValueError
        If `a` is no stack of square matrices, or `dout` has not one number per matrix.
    numpy.linalg.LinAlgError
        If a matrix is singular (a subclass of ValueError).

    See Also
    --------
    logdet_grad : The derivation.
    logdet_jvp : Forward mode.

    Notes
    -----
    A Gaussian likelihood holds :math:`-\frac12 \ln \det \Sigma`; its gradient with
    respect to the covariance is this product with :math:`u = -\frac12`.

    Examples
    --------
    >>> from dlref.calculus import logdet_vjp
    >>> logdet_vjp(-0.5, [[4, 0], [0, 2]])
    array([[-0.125, -0.   ],
           [-0.   , -0.25 ]])
    """
    dtype, (dout, a) = as_floats({"dout": dout, "a": a})
    y = _inverse("a", a)
    check_shape("dout", dout, a.shape[:-2])
    with np.errstate(all="ignore"):
        return result(dout[..., None, None] * y.mT, dtype)


def logdet_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of :math:`\ln |\det A|`.

    Parameters
    ----------
    primals : array_like, shape (..., n, n)
        Invertible matrix :math:`A`, or a stack of them.
    tangents : array_like or None, shape (..., n, n)
        Direction :math:`\dot A`; None is zero.

    Returns
    -------
    ndarray or scalar, shape (...)
        :math:`\dot y = \operatorname{tr}(A^{-1} \dot A)` (Jacobi's formula).

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array.
    ValueError
        If `primals` is no stack of square matrices, or `tangents` has not its shape.
    numpy.linalg.LinAlgError
        If a matrix is singular (a subclass of ValueError).

    See Also
    --------
    logdet_grad : The derivation.
    logdet_vjp : Reverse mode.

    Notes
    -----
    :math:`\sum_{kl} (A^{-1})_{lk} \dot A_{kl}` is a trace: no more than the diagonal of
    :math:`A^{-1} \dot A` is ever formed.

    Examples
    --------
    Growing an :math:`n \times n` matrix by a factor grows its volume :math:`n`-fold as
    fast:

    >>> from dlref.calculus import logdet_jvp
    >>> A = [[2, 1, 0], [0, 4, 0], [0, 0, 1]]
    >>> float(logdet_jvp(A, A))
    3.0
    """
    dtype, (a,), (da,) = as_tangents(primals, tangents, count=1)
    y = _inverse("primals", a)
    with np.errstate(all="ignore"):
        return result(np.einsum("...lk,...kl->...", y, da), dtype)
