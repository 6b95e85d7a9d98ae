r"""Inverse of a square matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_floats, as_tangents, check_matrix, check_shape, result


def _inverse(name: str, a: FloatArray) -> FloatArray:
    check_matrix(name, a)
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        msg = f"Argument {name!r} must be invertible, not singular."
        raise np.linalg.LinAlgError(msg) from None


def inverse_jacobian(a: npt.ArrayLike) -> FloatArray:
    r"""
    Jacobian of the matrix inverse :math:`\mat Y = \mat A^{-1}`.

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
        If `a` is not a stack of square matrices.
    numpy.linalg.LinAlgError
        If a matrix is singular (a subclass of ValueError).

    See Also
    --------
    inverse_vjp, inverse_jvp : The products with a matrix, in :math:`O(n^3)`.

    Notes
    -----
    With :math:`\dot{\mat A}` the matrix that is 1 at :math:`(k, l)` and 0 elsewhere, the tangent
    :math:`-\mat Y \dot{\mat A} \mat Y` derived at :func:`inverse_jvp` is

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
        Cotangent :math:`\mat U = \partial L / \partial \mat Y`.
    a : as in `inverse_jacobian`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., n, n)
        :math:`-\mat Y^\top \mat U \mat Y^\top`.

    Notes
    -----
    **The differential.** Differentiate :math:`\mat A \mat Y = \mat I`:

    .. math:: \dd \mat A\, \mat Y + \mat A\, \dd \mat Y = 0 \quad\Rightarrow\quad
       \dd \mat Y = -\mat Y\, \dd \mat A\, \mat Y .

    **The inner product.** :math:`\dd L = \operatorname{tr}(\mat U^\top \dd \mat Y) =
    -\operatorname{tr}(\mat U^\top \mat Y\, \dd \mat A\, \mat Y)`.

    **The transpose.** A trace does not change when its factors are permuted cyclically:
    :math:`\dd L = -\operatorname{tr}(\mat Y \mat U^\top \mat Y\, \dd \mat A)`. The factor before
    :math:`\dd \mat A` is the transposed gradient:

    .. math::

        \pdv{L}{\mat A} = -(\mat Y \mat U^\top \mat Y)^\top = -\mat Y^\top \mat U \mat Y^\top .

    The derivative grows with the square of the condition number :math:`\kappa` of :math:`\mat A`
    (for :math:`\lVert \mat A \rVert = 1`). The relative error of the result is proportional to
    :math:`\kappa`: about 1e-15 for 1e2 and 1e-9 for 1e8; the absolute one to :math:`\kappa^3`.

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
        Invertible matrix :math:`\mat A`, or a stack of them; :math:`\mat Y = \mat A^{-1}`.
        Raises the same errors as `inverse_jacobian`.
    tangents : array_like or None, shape (..., n, n)
        Direction :math:`\dot{\mat A}`; None is zero.

    Returns
    -------
    ndarray, shape (..., n, n)
        :math:`\dot{\mat Y} = -\mat Y \dot{\mat A} \mat Y`.

    Notes
    -----
    Differentiate :math:`\mat A \mat Y = \mat I`, whose right-hand side is constant:

    .. math::

        \dot{\mat A} \mat Y + \mat A \dot{\mat Y} = 0
        \quad\Longrightarrow\quad
        \dot{\mat Y} = -\mat A^{-1} \dot{\mat A} \mat Y = -\mat Y \dot{\mat A} \mat Y .

    Examples
    --------
    Scaling :math:`\mat A` up scales its inverse down, :math:`\dot{\mat Y} = -\mat Y` for
    :math:`\dot{\mat A} = \mat A`:

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
