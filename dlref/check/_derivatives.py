r"""Derivatives by number, and the test that both modes of differentiation agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_generator,
    check_callable,
    choice,
    result,
)
from .._core.pytree import flat, rebuilt
from ._oracle.differences import ridders

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["adjoint_gap", "numerical_jacobian"]

STEP = 1e-200  #: of the complex step: its square is zero


def _central(f: Callable[[FloatArray], Any], x: FloatArray, i: int, h: float) -> FloatArray:
    there, back = x.copy(), x.copy()
    there.flat[i] += h
    back.flat[i] -= h
    width = there.flat[i] - back.flat[i]  # what was added, after rounding
    return (np.asarray(f(there), np.float64) - np.asarray(f(back), np.float64)) / width


def _along(f: Callable[[FloatArray], Any], x: FloatArray, i: int) -> Callable[[float], Any]:
    """Return f of x with its element i moved by a step."""

    def moved(h: float) -> Any:
        there = x.copy()
        there.flat[i] += h
        return f(there)

    return moved


def _check_analytic(f: Callable[[Any], Any], x: FloatArray, jacobian: FloatArray) -> None:
    """Raise if the complex step and a difference do not agree along a random direction."""
    v = np.random.default_rng(0).normal(size=x.shape)
    stepped = jacobian @ np.ravel(v)
    with np.errstate(all="ignore"):
        differ = ridders(lambda h: f(x + h * v), 0.01)
    size = np.max(np.abs([stepped, differ]), initial=0.0)
    if np.max(np.abs(stepped - differ), initial=0.0) > 1e-4 * size:
        msg = (
            "Argument 'f' must be analytic for the method 'complex', without abs, conj, real or "
            "comparisons: along a random direction a difference says otherwise."
        )
        raise ValueError(msg)


def numerical_jacobian(
    f: Callable[[Any], Any], x: npt.ArrayLike, *, method: str = "ridders"
) -> FloatArray:
    r"""
    Jacobian of a function, from its values alone.

    Parameters
    ----------
    f : callable
        A function of one array that returns one. For "complex" it must accept complex numbers.
    x : array_like
        The point, in float64.
    method : {"ridders", "complex", "central"}
        How the derivative is formed.

    Returns
    -------
    ndarray of float64, shape of f(x) + shape of `x`
        Entry (i, j) is the derivative of output i with respect to input j.

    Raises
    ------
    TypeError
        If `x` is not real.
    ValueError
        If the method is unknown, or f is not analytic though the method is complex: a difference
        along a random direction is compared.

    See Also
    --------
    adjoint_gap : A test without any step.

    Notes
    -----
    All methods change one element of x at a time, so they cost some calls of f an element.

    *central*: :math:`(f(x + h) - f(x - h)) / 2h` has a truncation error of order :math:`h^2` and a
    rounding error of order :math:`\epsilon / h`; the best h is near :math:`\epsilon^{1/3}`, and ten
    digits are the most to hope for.

    *ridders*: the truncation error is a series in :math:`h^2`, so that differences at several steps
    are extrapolated to h = 0, and the place in the tableau where neighbours agree best is
    taken: about 12 digits, for 24 calls.

    *complex*: for an analytic f, :math:`f(x + ih) = f(x) + i h f'(x) - h^2 f''(x)/2 - \dots`, and
    the imaginary part over h is the derivative, with no difference of nearly equal numbers.
    With :math:`h = 10^{-200}` the rest vanishes, and all digits are right, for one call. It
    needs an f without absolute values, comparisons or conjugation.

    References
    ----------
    - :cite:t:`SquireTrapp1998`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.check import numerical_jacobian
    >>> f = lambda x: np.array([x[0] * x[1], np.sin(x[0])])
    >>> numerical_jacobian(f, [0.0, 2.0], method="complex")
    array([[2., 0.],
           [1., 0.]])
    >>> errors = [
    ...     abs(numerical_jacobian(np.exp, 1.0, method=method) / np.e - 1)
    ...     for method in ("central", "ridders", "complex")
    ... ]
    >>> bool(1e-9 > errors[0] > 1e-13 and errors[1] < 1e-11 and errors[2] < 1e-15)
    True
    """
    check_callable("f", f)
    _, (point,) = as_floats({"x": x})
    choice("method", method, ("ridders", "complex", "central"))
    columns: list[FloatArray] = []
    for i in range(point.size):
        size = max(abs(float(point.flat[i])), 1.0)
        if method == "complex":
            moved = point.astype(np.complex128)
            moved.flat[i] += 1j * STEP
            columns.append(np.asarray(f(moved)).imag / STEP)
        elif method == "central":
            columns.append(_central(f, point, i, size * np.finfo(float).eps ** (1 / 3)))
        else:
            columns.append(ridders(_along(f, point, i), 0.1 * size))
    shape = np.shape(columns[0] if columns else f(point))
    out = np.stack(columns, axis=-1) if columns else np.empty((*shape, 0))
    if method == "complex" and columns:
        _check_analytic(f, point, out)
    return result(out.reshape(shape + point.shape), np.dtype(np.float64))


def _drawn(value: Any, rng: np.random.Generator) -> Any:
    """Return a direction for an array or a nested tuple of them; None for a constant."""
    if isinstance(value, tuple):
        return rebuilt(value, [_drawn(entry, rng) for entry in value])
    if value is None or np.asarray(value).dtype.kind in "biu":
        return None
    return rng.normal(size=np.shape(value))


def _terms(left: Any, right: Any) -> FloatArray:
    """Return the terms of the inner product of two structures of arrays."""
    a, b = ([np.ravel(part) for part in flat(side) if part is not None] for side in (left, right))
    return np.asarray(np.concatenate([np.empty(0), *a]) * np.concatenate([np.empty(0), *b]))


def adjoint_gap(
    f_jvp: Callable[..., Any], f_vjp: Callable[..., Any], primals: Any, rng: np.random.Generator
) -> float:
    r"""
    Relative difference of both sides of the identity that ties the two modes together.

    Parameters
    ----------
    f_jvp : callable
        Forward mode, called as ``f_jvp(primals, tangents)``.
    f_vjp : callable
        Reverse mode, called as ``f_vjp(dout, *primals)``.
    primals : array_like or tuple of array_like
        The point; tuples may be nested. Integer arrays and None are constants.
    rng : numpy.random.Generator
        Draws the direction v and the cotangent u.

    Returns
    -------
    float
        :math:`\abs{\langle u, \mat J v \rangle - \langle \mat J^\top u, v \rangle}` over the sum
        of the sizes of the terms; a few :math:`10^{-16}` if both modes are right.

    Raises
    ------
    TypeError
        If `rng` is not a generator.

    See Also
    --------
    numerical_jacobian : To find which of the two is wrong.

    Notes
    -----
    :math:`\langle u, \mat J v \rangle = u^\top \mat J v = \langle \mat J^\top u, v \rangle` for
    all u and v. A random pair finds nearly any mistake in either mode, with one call of each, and
    with no step to choose. It does not find a mistake that is in both.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import softmax_jvp, softmax_vjp
    >>> from dlref.check import adjoint_gap
    >>> x = np.random.default_rng(0).normal(size=(4, 8))
    >>> adjoint_gap(softmax_jvp, softmax_vjp, x, np.random.default_rng(1)) < 1e-15
    True

    A backward pass that forgot the second term of softmax:

    >>> from dlref.activations import softmax
    >>> wrong = lambda dout, x: softmax(x) * dout
    >>> adjoint_gap(softmax_jvp, wrong, x, np.random.default_rng(1)) > 0.01
    True
    """
    rng = as_generator("rng", rng)
    check_callable("f_jvp", f_jvp)
    check_callable("f_vjp", f_vjp)
    tangents = _drawn(primals, rng)
    pushed = f_jvp(primals, tangents)
    dout = _drawn(pushed, rng)
    pulled = f_vjp(dout, *(primals if isinstance(primals, tuple) else (primals,)))
    left, right = _terms(dout, pushed), _terms(pulled, tangents)
    scale = max(np.abs(left).sum(), np.abs(right).sum())
    return float(abs(left.sum() - right.sum()) / scale) if scale else 0.0
