r"""Logarithm of the absolute determinant."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_floats, as_tangents, check_shape, result
from ._inverse import _inverse


def logdet_grad(a: npt.ArrayLike) -> FloatArray:
    r"""
    Gradient of the logarithm of the determinant, :math:`y = \log |\det \mat A|`.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Invertible matrix, or a stack of them.

    Returns
    -------
    ndarray, shape (..., n, n)
        :math:`\mat A^{-\top}`, the transposed inverse, one per matrix.

    Raises
    ------
    TypeError
        If `a` is neither integer nor a real floating-point array.
    ValueError
        If `a` is not a stack of square matrices.
    numpy.linalg.LinAlgError
        If a matrix is singular (a subclass of ValueError).

    See Also
    --------
    logdet_vjp, logdet_jvp : The products with a cotangent and with tangents.

    Notes
    -----
    Expanding the determinant along row :math:`k`,
    :math:`\det \mat A = \sum_l A_{kl} C_{kl}`, where no cofactor :math:`C_{kl}` holds an element
    of row :math:`k`. So :math:`\partial \det \mat A / \partial A_{kl} = C_{kl}`, and by Cramer's
    rule :math:`C_{kl} = \det \mat A\; (\mat A^{-1})_{lk}`:

    .. math::

        \pdv{y}{A_{kl}} = \frac{1}{\det \mat A} \pdv{\det \mat A}{A_{kl}} = (\mat A^{-1})_{lk},
        \qquad \nabla y = \mat A^{-\top} .

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
    Vector-Jacobian product (reverse mode) of :math:`\log |\det \mat A|`.

    Parameters
    ----------
    dout : array_like, shape (...)
        Cotangent :math:`u = \partial L / \partial y`, a number per matrix.
    a : as in `logdet_grad`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., n, n)
        :math:`u \mat A^{-\top}`, one per matrix.

    Notes
    -----
    **The differential.** With the gradient of :func:`logdet_grad`,

    .. math:: \dd y = \sum_{kl} (\mat A^{-1})_{lk}\, \dd A_{kl}
       = \operatorname{tr}(\mat A^{-1}\, \dd \mat A) .

    **The inner product.** The output is one number, so :math:`\dd L = u\, \dd y`.

    **The transpose.** The factor of :math:`\dd A_{kl}` has its indices exchanged:

    .. math:: \pdv{L}{A_{kl}} = u\, (\mat A^{-1})_{lk}

    The logarithm of a Gaussian density contains :math:`-\frac12 \log \det \Sigma`; the gradient of
    this term with respect to the covariance is this product with :math:`u = -\frac12`.

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
    Jacobian-vector product (forward mode) of :math:`\log |\det \mat A|`.

    Parameters
    ----------
    primals : array_like, shape (..., n, n)
        Invertible matrix :math:`\mat A`, or a stack of them.
        Raises the same errors as `logdet_grad`.
    tangents : array_like or None, shape (..., n, n)
        Direction :math:`\dot{\mat A}`; None is zero.

    Returns
    -------
    ndarray or scalar, shape (...)
        :math:`\dot y = \operatorname{tr}(\mat A^{-1} \dot{\mat A})` (Jacobi's formula).

    Notes
    -----
    .. math::

        \dot y = \sum_{kl} (\mat A^{-1})_{lk}\, \dot A_{kl}
               = \operatorname{tr}(\mat A^{-1} \dot{\mat A})

    The double sum is a trace: no more than the diagonal of
    :math:`\mat A^{-1} \dot{\mat A}` is ever formed.

    Examples
    --------
    The logarithm of the volume grows :math:`n` times as fast as the logarithm of the scale:

    >>> from dlref.calculus import logdet_jvp
    >>> A = [[2, 1, 0], [0, 4, 0], [0, 0, 1]]
    >>> float(logdet_jvp(A, A))
    3.0
    """
    dtype, (a,), (da,) = as_tangents(primals, tangents, count=1)
    y = _inverse("primals", a)
    with np.errstate(all="ignore"):
        return result(np.einsum("...lk,...kl->...", y, da), dtype)
