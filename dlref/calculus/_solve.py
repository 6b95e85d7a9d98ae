r"""Solution of a linear system."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_floats, as_tangents, check_matrix, check_shape, result


def _columns(b: FloatArray) -> FloatArray:
    """Return the right-hand sides as columns of matrices."""
    return b[:, None] if b.ndim == 1 else b


def _check(names: tuple[str, str], a: FloatArray, b: FloatArray) -> None:
    check_matrix(names[0], a)
    if b.shape[: max(b.ndim - 1, 1)] != a.shape[:-1]:
        wanted = ", ".join(map(str, (*a.shape[:-1], "k")))
        msg = f"Argument {names[1]!r} must have shape ({wanted}), not {b.shape}."
        raise ValueError(msg)


def _solve(name: str, a: FloatArray, b: FloatArray) -> FloatArray:
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        msg = f"Argument {name!r} must be invertible, not singular."
        raise np.linalg.LinAlgError(msg) from None


def solve_vjp(
    dout: npt.ArrayLike, a: npt.ArrayLike, b: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the solution :math:`\mat Y = \mat A^{-1} \mat B`.

    Parameters
    ----------
    dout : array_like, shape of `b`
        Cotangent :math:`\mat U = \partial L / \partial \mat Y`.
    a : array_like, shape (..., n, n)
        Invertible matrix :math:`\mat A`, or a stack of them.
    b : array_like, shape (..., n, k), or (n,) beside one matrix
        Right-hand sides :math:`\mat B`, one a column.

    Returns
    -------
    da : ndarray, shape (..., n, n)
        :math:`-\mat G \mat Y^\top`.
    db : ndarray, shape of `b`
        :math:`\mat G = \mat A^{-\top} \mat U`.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If `a` is not a stack of square matrices, or the other shapes do not fit.
    numpy.linalg.LinAlgError
        If a matrix is singular (a subclass of ValueError).

    See Also
    --------
    inverse_vjp : The same with the inverse as the result.

    Notes
    -----
    The solution is defined by an equation, not by the steps of an elimination, and the equation is
    all that a derivative needs.

    **The differential.** Differentiate :math:`\mat A \mat Y = \mat B` and solve for
    :math:`\dd \mat Y`:

    .. math:: \dd \mat A\, \mat Y + \mat A\, \dd \mat Y = \dd \mat B \quad\Rightarrow\quad
       \dd \mat Y = \mat A^{-1} (\dd \mat B - \dd \mat A\, \mat Y) .

    **The inner product.** :math:`\dd L = \operatorname{tr}(\mat U^\top \dd \mat Y) =
    \operatorname{tr}(\mat G^\top \dd \mat B) - \operatorname{tr}(\mat G^\top \dd \mat A\, \mat Y)`,
    where :math:`\mat G` solves the transposed system :math:`\mat A^\top \mat G = \mat U`.

    **The transpose.** The factors before the differentials are the transposed gradients:

    .. math::

        \pdv{L}{\mat B} = \mat G , \qquad \pdv{L}{\mat A} = -\mat G\, \mat Y^\top .

    The backward pass is one more solution, with the transposed matrix; no inverse is computed. This
    is the *adjoint method*: with :math:`\mat A` replaced by the Jacobian of an equation, it is the
    derivative of any implicit function.

    References
    ----------
    The rule is in :cite:t:`Giles2008`.

    Examples
    --------
    The solution is (1, 2), and only its first entry matters for the loss:

    >>> from dlref.calculus import solve_vjp
    >>> da, db = solve_vjp([1, 0], [[2, 0], [1, 4]], [2, 9])
    >>> da, db
    (array([[-0.5, -1. ],
           [ 0. ,  0. ]]), array([0.5, 0. ]))
    """
    dtype, (u, a, b) = as_floats({"dout": dout, "a": a, "b": b})
    _check(("a", "b"), a, b)
    check_shape("dout", u, b.shape)
    with np.errstate(all="ignore"):
        y, g = _solve("a", a, b), _solve("a", a.mT, u)
        da = -_columns(g) @ _columns(y).mT
        return result(da, dtype), result(g, dtype)


def solve_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the solution of a linear system.

    Parameters
    ----------
    primals : tuple (a, b) of array_like
        Matrix :math:`\mat A` and right-hand sides :math:`\mat B`, as in `solve_vjp`. Raises the
        same errors.
    tangents : tuple (da, db) of array_like or None
        Directions :math:`\dot{\mat A}` and :math:`\dot{\mat B}`; None is zero.

    Returns
    -------
    ndarray, shape of `b`
        :math:`\dot{\mat Y} = \mat A^{-1} (\dot{\mat B} - \dot{\mat A}\, \mat Y)`.

    Notes
    -----
    The differential of :func:`solve_vjp`, with dots:

    .. math:: \dot{\mat Y} = \mat A^{-1} \bigl( \dot{\mat B} - \dot{\mat A}\, \mat Y \bigr) .

    Examples
    --------
    Scaling both sides of the system changes nothing:

    >>> import numpy as np
    >>> from dlref.calculus import solve_jvp
    >>> A, b = np.array([[2.0, 0.0], [1.0, 4.0]]), np.array([2.0, 9.0])
    >>> solve_jvp((A, b), (A, b))
    array([0., 0.])
    """
    dtype, (a, b), (da, db) = as_tangents(primals, tangents, count=2)
    _check(("primals[0]", "primals[1]"), a, b)
    with np.errstate(all="ignore"):
        y = _solve("primals[0]", a, b)
        return result(_solve("primals[0]", a, db - da @ y), dtype)
