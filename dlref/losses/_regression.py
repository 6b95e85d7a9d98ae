r"""Losses of real-valued targets: squared error, absolute error and Huber's compromise."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .._jit import formula, loop_over
from .._parallel import over_rows
from .._validate import (
    FloatArray,
    as_floats,
    as_number,
    as_tangents,
    check_shape,
    choice,
    result,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "absolute_error",
    "absolute_error_grad",
    "absolute_error_jvp",
    "absolute_error_vjp",
    "huber",
    "huber_grad",
    "huber_jvp",
    "huber_vjp",
    "squared_error",
    "squared_error_grad",
    "squared_error_jvp",
    "squared_error_vjp",
]

Number: TypeAlias = Any  #: a float64

REDUCTIONS = ("mean", "sum", "none")

COST = 2  # nanoseconds, or elementary operations, an element
BLOCK = 4096  # elements whose losses are added up at a time


def reduced(terms: FloatArray, reduction: str) -> Any:
    """Reduce the losses of the elements or rows as told; the mean of nothing is NaN."""
    if reduction == "none":
        return terms
    total = np.sum(terms)
    return total / np.float64(terms.size) if reduction == "mean" else total


def seeds(dout: FloatArray, shape: tuple[int, ...], reduction: str) -> FloatArray:
    """Return the cotangent of each element's loss, given that of the reduced loss."""
    check_shape("dout", dout, shape if reduction == "none" else ())
    count = np.prod(shape, dtype=np.float64) if reduction == "mean" else np.float64(1.0)
    return np.broadcast_to(dout / count, shape)


class Loss(NamedTuple):
    """A loss of two numbers and an option, and its slopes: formulas that loops are built from."""

    term: Callable[[Number, Number, Number], Number]
    slope: Callable[[Number, Number, Number], Number]
    target_slope: Callable[[Number, Number, Number], Number]


@formula
def summed(e: FloatArray) -> float:
    """Add up in eight partial sums, which LLVM handles together."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = np.float64(0.0)
    n = e.size - e.size % 8
    for i in range(0, n, 8):
        s0 += e[i]
        s1 += e[i + 1]
        s2 += e[i + 2]
        s3 += e[i + 3]
        s4 += e[i + 4]
        s5 += e[i + 5]
        s6 += e[i + 6]
        s7 += e[i + 7]
    total = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
    for i in range(n, e.size):
        total += e[i]
    return total


def _formula(p: Number, t: Number, option: Number) -> Number:
    """Stand for the formula that `loop_over` puts here."""


def _each(
    start: int,
    stop: int,
    pred: FloatArray,
    target: FloatArray,
    option: float,
    factor: float,
    out: FloatArray,
) -> None:
    p, t, to = pred[start:stop], target[start:stop], out[start:stop]
    for i in range(p.size):
        to[i] = factor * _formula(np.float64(p[i]), np.float64(t[i]), option)


def _sums(
    start: int,
    stop: int,
    pred: FloatArray,
    target: FloatArray,
    option: float,
    sums: FloatArray,
) -> None:
    terms = np.empty(BLOCK)
    for r in range(start, stop):
        p, t = pred[r * BLOCK : (r + 1) * BLOCK], target[r * BLOCK : (r + 1) * BLOCK]
        for i in range(p.size):
            terms[i] = _formula(np.float64(p[i]), np.float64(t[i]), option)
        sums[r] = summed(terms[: p.size])


@cache
def _loop(template: Callable[..., None], function: Callable[..., Any]) -> Callable[..., None]:
    return loop_over(template, _formula=function)


def _mapped(
    function: Callable[..., Any],
    pred: FloatArray,
    target: FloatArray,
    option: float,
    factor: Any = 1.0,
    dtype: Any = None,
) -> FloatArray:
    """Apply a formula to every pair of elements and multiply by `factor`."""
    out = np.empty(pred.shape, pred.dtype if dtype is None else dtype)
    flat = pred.ravel(), target.ravel(), np.float64(option), np.float64(factor), out.reshape(-1)
    over_rows(_loop(_each, function), pred.size, COST, *flat)
    return out


def loss(
    kind: Loss,
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    reduction: str,
    option: float = 0.0,
) -> FloatArray:
    """Return the reduced loss of equally shaped predictions and targets."""
    dtype, (pred, target) = as_floats({"pred": pred, "target": target}, work=np.float32)
    check_shape("target", target, pred.shape)
    choice("reduction", reduction, REDUCTIONS)
    if reduction == "none":
        return result(_mapped(kind.term, pred, target, option), dtype)
    blocks = -(-pred.size // BLOCK)
    sums = np.empty(blocks)
    arrays = pred.ravel(), target.ravel(), np.float64(option), sums
    over_rows(_loop(_sums, kind.term), blocks, COST * min(BLOCK, pred.size), *arrays)
    with np.errstate(all="ignore"):
        total = np.sum(sums)
        return result(total / np.float64(pred.size) if reduction == "mean" else total, dtype)


def loss_grad(
    kind: Loss,
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    reduction: str,
    option: float = 0.0,
) -> FloatArray:
    """Return the gradient of the reduced loss for the predictions."""
    dtype, (pred, target) = as_floats({"pred": pred, "target": target}, work=np.float32)
    check_shape("target", target, pred.shape)
    choice("reduction", reduction, REDUCTIONS[:2])
    factor = 1.0 / max(pred.size, 1) if reduction == "mean" else 1.0
    return result(_mapped(kind.slope, pred, target, option, factor), dtype)


def loss_vjp(
    kind: Loss,
    dout: npt.ArrayLike,
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    reduction: str,
    option: float = 0.0,
) -> tuple[FloatArray, FloatArray]:
    """Pull the cotangent of the reduced loss back to predictions and targets."""
    dtype, (dout, pred, target) = as_floats(
        {"dout": dout, "pred": pred, "target": target}, work=np.float32
    )
    check_shape("target", target, pred.shape)
    choice("reduction", reduction, REDUCTIONS)
    check_shape("dout", dout, pred.shape if reduction == "none" else ())
    with np.errstate(all="ignore"):
        if reduction == "none":
            slopes = [_mapped(f, pred, target, option, dtype=np.float64) for f in kind[1:]]
            dpred, dtarget = (result(dout * slope, dtype) for slope in slopes)
        else:
            u = np.float64(dout) / (np.float64(pred.size) if reduction == "mean" else 1.0)
            dpred, dtarget = (result(_mapped(f, pred, target, option, u), dtype) for f in kind[1:])
        return dpred, dtarget


def loss_jvp(
    kind: Loss, primals: Any, tangents: Any, reduction: str, option: float = 0.0
) -> FloatArray:
    """Push the tangents of predictions and targets forward to the reduced loss."""
    dtype, (pred, target), moved = as_tangents(primals, tangents, count=2)
    check_shape("primals[1]", target, pred.shape)
    choice("reduction", reduction, REDUCTIONS)
    with np.errstate(all="ignore"):
        terms = np.zeros(pred.shape)
        for slope, tangent, given in zip(kind[1:], moved, tangents, strict=True):
            if given is not None:  # zero, even where the slope is not finite
                terms = terms + _mapped(slope, pred, target, option) * tangent
        return result(reduced(terms, reduction), dtype)


@formula
def _square(p: Number, t: Number, _: Number) -> Number:
    return (p - t) * (p - t)


@formula
def _square_slope(p: Number, t: Number, _: Number) -> Number:
    return 2.0 * (p - t)


@formula
def _square_target(p: Number, t: Number, _: Number) -> Number:
    return 2.0 * (t - p)


@formula
def _absolute(p: Number, t: Number, _: Number) -> Number:
    return abs(p - t)


@formula
def _sign(p: Number, t: Number, _: Number) -> Number:
    e = p - t
    return 1.0 if e > 0.0 else (-1.0 if e < 0.0 else e)  # 0 or NaN


@formula
def _sign_target(p: Number, t: Number, _: Number) -> Number:
    e = t - p
    return 1.0 if e > 0.0 else (-1.0 if e < 0.0 else e)


@formula
def _huber(p: Number, t: Number, delta: Number) -> Number:
    e = p - t
    c = -delta if e < -delta else (delta if e > delta else e)
    return c * (e - 0.5 * c)


@formula
def _cut(p: Number, t: Number, delta: Number) -> Number:
    e = p - t
    return -delta if e < -delta else (delta if e > delta else e)


@formula
def _cut_target(p: Number, t: Number, delta: Number) -> Number:
    e = t - p
    return -delta if e < -delta else (delta if e > delta else e)


SQUARED_ERROR = Loss(_square, _square_slope, _square_target)
ABSOLUTE_ERROR = Loss(_absolute, _sign, _sign_target)
HUBER = Loss(_huber, _cut, _cut_target)


def squared_error(
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Squared error, :math:`\ell = (p - t)^2`.

    Parameters
    ----------
    pred : array_like
        Predictions :math:`p`, of any shape.
    target : array_like
        Targets :math:`t`, of the shape of `pred`.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        The loss: a scalar, or for ``"none"`` an array of the shape of `pred`.

    Raises
    ------
    TypeError
        If `pred` or `target` is neither integer nor a real floating-point array.
    ValueError
        If the shapes differ, or `reduction` is not known.

    See Also
    --------
    squared_error_grad : The derivative, with its derivation.
    neuron_squared_error : The same for the output of a ReLU neuron.
    absolute_error, huber : Losses that outliers pull less.

    Notes
    -----
    The mean over N elements is

    .. math:: L = \frac1N \sum_{n} (p_n - t_n)^2 ,

    without the factor 1/2 that some texts put in front. As a function of one constant
    prediction it is least at the *mean* of the targets: :math:`\sum_n (p - t_n) = 0`.

    Up to constants it is the negative logarithm of a normal density with mean p and a fixed
    variance: to minimize it is to maximize the likelihood of normal errors.

    The difference is formed first, in float64, so its relative error is one rounding; a
    difference beyond :math:`10^{154}` gives infinity.

    Examples
    --------
    >>> from dlref.losses import squared_error
    >>> float(squared_error([1, 2, 3], [1, 4, 6]))
    4.333
    >>> squared_error([1, 2, 3], [1, 4, 6], reduction="none")
    array([0., 4., 9.])
    """
    return loss(SQUARED_ERROR, pred, target, reduction)


def squared_error_grad(
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Gradient of the squared error for the predictions.

    Parameters
    ----------
    pred : array_like
        Predictions :math:`p`, of any shape.
    target : array_like
        Targets :math:`t`, of the shape of `pred`.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    ndarray, shape ``pred.shape``
        :math:`2 (p - t)`, for the mean divided by the number N of elements.

    Raises
    ------
    TypeError
        If `pred` or `target` is neither integer nor a real floating-point array.
    ValueError
        If the shapes differ, or `reduction` is not known.

    See Also
    --------
    squared_error : The map.
    squared_error_vjp : Scaled by a cotangent, and for the target too.

    Notes
    -----
    With the error :math:`e = p - t`, of slope 1 in p,

    .. math:: \pdv{\ell}{p} = 2 e\, \pdv{e}{p} = 2 (p - t) , \qquad \pdv{L}{p_n} = \frac2N e_n .

    The gradient of the mean needs the factor :math:`2 / N`. To use :math:`p - t` alone is to
    descend :math:`\frac N2 L`, with a learning rate that grows with the batch.

    Examples
    --------
    The pull grows with the error, and an outlier outweighs the rest:

    >>> from dlref.losses import squared_error_grad
    >>> squared_error_grad([0, 0, 0, 0], [1, -1, 2, 100])
    array([ -0.5,   0.5,  -1. , -50. ])
    """
    return loss_grad(SQUARED_ERROR, pred, target, reduction)


def squared_error_vjp(
    dout: npt.ArrayLike,
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    reduction: str = "mean",
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the squared error.

    Parameters
    ----------
    dout : array_like
        Cotangent of the loss: a scalar, or of `pred`'s shape for the reduction ``"none"``.
    pred : array_like
        Predictions :math:`p`, of any shape.
    target : array_like
        Targets :math:`t`, of the shape of `pred`.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.

    Returns
    -------
    dpred : ndarray, shape ``pred.shape``
        :math:`2 u (p - t)`.
    dtarget : ndarray, shape ``pred.shape``
        :math:`-2 u (p - t)`.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If the shapes differ, `dout` has not the shape of the loss, or `reduction` is not
        known.

    See Also
    --------
    squared_error_grad : The derivation.
    squared_error_jvp : Forward mode.

    Notes
    -----
    u is `dout`, for the mean divided by the number of elements. Predictions and targets
    enter as their difference only, so their gradients are opposite.

    Examples
    --------
    >>> from dlref.losses import squared_error_vjp
    >>> dpred, dtarget = squared_error_vjp([1, 10], [3, 5], [2, 2], reduction="none")
    >>> dpred
    array([ 2., 60.])
    >>> dtarget
    array([ -2., -60.])
    """
    return loss_vjp(SQUARED_ERROR, dout, pred, target, reduction)


def squared_error_jvp(primals: Any, tangents: Any, *, reduction: str = "mean") -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the squared error.

    Parameters
    ----------
    primals : tuple (pred, target) of array_like
        Predictions and targets, of equal shapes.
    tangents : tuple (dpred, dtarget) of array_like or None
        Directions, of the shape of `primals`; None is zero.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        :math:`2 (p - t) (\dot p - \dot t)`, reduced.

    Raises
    ------
    TypeError
        If an argument is no tuple, or an entry no real array.
    ValueError
        If the shapes differ, or `reduction` is not known.

    See Also
    --------
    squared_error_grad : The derivation.
    squared_error_vjp : Reverse mode.

    Notes
    -----
    To first order the loss moves by twice the inner product of the error and its change; a
    change at a right angle to the error leaves it where it is.

    Examples
    --------
    >>> from dlref.losses import squared_error_jvp
    >>> float(squared_error_jvp(([3, 4], [0, 0]), ([-4, 3], None)))
    0.0
    """
    return loss_jvp(SQUARED_ERROR, primals, tangents, reduction)


def absolute_error(
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Absolute error, :math:`\ell = \abs{p - t}`.

    Parameters
    ----------
    pred : array_like
        Predictions :math:`p`, of any shape.
    target : array_like
        Targets :math:`t`, of the shape of `pred`.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        The loss: a scalar, or for ``"none"`` an array of the shape of `pred`.

    Raises
    ------
    TypeError
        If `pred` or `target` is neither integer nor a real floating-point array.
    ValueError
        If the shapes differ, or `reduction` is not known.

    See Also
    --------
    absolute_error_grad : The derivative, with its derivation.
    squared_error : Smooth, but drawn by outliers.
    huber : Smooth at 0 and linear far away.

    Notes
    -----
    As a function of one constant prediction the sum :math:`\sum_n \abs{p - t_n}` is least at
    a *median* of the targets: there as many pull up as pull down, however far away they
    are. It is the negative logarithm of a Laplace density, up to constants.

    Examples
    --------
    The best constant prediction for 0, 1 and 100 is 1; the squared error's is 33.7.

    >>> from dlref.losses import absolute_error
    >>> targets = [0, 1, 100]
    >>> [float(absolute_error([p] * 3, targets, reduction="sum")) for p in (0, 1, 2, 33)]
    [101.0, 100.0, 101.0, 132.0]
    """
    return loss(ABSOLUTE_ERROR, pred, target, reduction)


def absolute_error_grad(
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Gradient of the absolute error for the predictions.

    Parameters
    ----------
    pred : array_like
        Predictions :math:`p`, of any shape.
    target : array_like
        Targets :math:`t`, of the shape of `pred`.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    ndarray, shape ``pred.shape``
        :math:`\operatorname{sign}(p - t)`, for the mean divided by the number N of elements.

    Raises
    ------
    TypeError
        If `pred` or `target` is neither integer nor a real floating-point array.
    ValueError
        If the shapes differ, or `reduction` is not known.

    See Also
    --------
    absolute_error : The map.
    absolute_error_vjp : Scaled by a cotangent, and for the target too.

    Notes
    -----
    .. math::

        \pdv{\ell}{p} = \begin{cases} -1 & p < t \\ 0 & p = t \\ 1 & p > t . \end{cases}

    At :math:`p = t` the loss has a kink: every number of [-1, 1] is a subgradient. Taken is
    0, as in PyTorch's ``abs``; ``jax.numpy.abs`` takes 1. With 0 a perfect prediction is
    left in peace.

    The pull does not fade as the error shrinks: with a constant step descent ends in steps
    to and fro across the minimum.

    Examples
    --------
    >>> from dlref.losses import absolute_error_grad
    >>> absolute_error_grad([0, 1, 2], [1, 1, -100], reduction="sum")
    array([-1.,  0.,  1.])
    """
    return loss_grad(ABSOLUTE_ERROR, pred, target, reduction)


def absolute_error_vjp(
    dout: npt.ArrayLike,
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    reduction: str = "mean",
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the absolute error.

    Parameters
    ----------
    dout : array_like
        Cotangent of the loss: a scalar, or of `pred`'s shape for the reduction ``"none"``.
    pred : array_like
        Predictions :math:`p`, of any shape.
    target : array_like
        Targets :math:`t`, of the shape of `pred`.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.

    Returns
    -------
    dpred : ndarray, shape ``pred.shape``
        :math:`u \operatorname{sign}(p - t)`.
    dtarget : ndarray, shape ``pred.shape``
        :math:`-u \operatorname{sign}(p - t)`.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If the shapes differ, `dout` has not the shape of the loss, or `reduction` is not
        known.

    See Also
    --------
    absolute_error_grad : The derivation.
    absolute_error_jvp : Forward mode.

    Notes
    -----
    u is `dout`, for the mean divided by the number of elements. A NaN in either input makes
    both gradients of that element NaN.

    Examples
    --------
    >>> from dlref.losses import absolute_error_vjp
    >>> dpred, dtarget = absolute_error_vjp([1, 10], [3, 5], [2, 7], reduction="none")
    >>> dpred
    array([  1., -10.])
    """
    return loss_vjp(ABSOLUTE_ERROR, dout, pred, target, reduction)


def absolute_error_jvp(primals: Any, tangents: Any, *, reduction: str = "mean") -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the absolute error.

    Parameters
    ----------
    primals : tuple (pred, target) of array_like
        Predictions and targets, of equal shapes.
    tangents : tuple (dpred, dtarget) of array_like or None
        Directions, of the shape of `primals`; None is zero.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        :math:`\operatorname{sign}(p - t) (\dot p - \dot t)`, reduced.

    Raises
    ------
    TypeError
        If an argument is no tuple, or an entry no real array.
    ValueError
        If the shapes differ, or `reduction` is not known.

    See Also
    --------
    absolute_error_grad : The derivation.
    absolute_error_vjp : Reverse mode.

    Notes
    -----
    Where p = t the loss does have one-sided derivatives, the size of the error's change; this
    rule says 0, the value that belongs to the subgradient taken.

    Examples
    --------
    >>> from dlref.losses import absolute_error_jvp
    >>> absolute_error_jvp(([3, 2], [0, 2]), ([5, 5], None), reduction="none")
    array([5., 0.])
    """
    return loss_jvp(ABSOLUTE_ERROR, primals, tangents, reduction)


def huber(
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    delta: float = 1.0,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Huber loss: half the squared error near 0, linear beyond :math:`\delta`.

    Parameters
    ----------
    pred : array_like
        Predictions :math:`p`, of any shape.
    target : array_like
        Targets :math:`t`, of the shape of `pred`.
    delta : float
        Error :math:`\delta > 0`, in the units of `pred`, at which the two pieces meet.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        The loss: a scalar, or for ``"none"`` an array of the shape of `pred`.

    Raises
    ------
    TypeError
        If `pred` or `target` is neither integer nor a real floating-point array.
    ValueError
        If the shapes differ, `delta` is not positive, or `reduction` is not known.

    See Also
    --------
    huber_grad : The derivative, with its derivation.
    squared_error, absolute_error : What it is made of.

    Notes
    -----
    With the error :math:`e = p - t`,

    .. math::

        \ell = \begin{cases}
            \frac12 e^2 & \abs e \le \delta \\
            \delta \bigl( \abs e - \frac12 \delta \bigr) & \abs e > \delta .
        \end{cases}

    The constant :math:`-\frac12 \delta^2` joins the pieces without a jump, and their slopes
    agree as well: e and :math:`\delta \operatorname{sign} e` at :math:`\abs e = \delta`. With
    the error cut off at :math:`\pm\delta`, :math:`c`, both are :math:`c\,(e - \frac12 c)`,
    which is the formula used. Large :math:`\delta` gives half the squared error; small,
    :math:`\ell / \delta` is the absolute error.

    Examples
    --------
    >>> from dlref.losses import huber
    >>> huber([0.5, 1, 3, -10], [0, 0, 0, 0], reduction="none")
    array([0.125, 0.5  , 2.5  , 9.5  ])
    """
    delta = as_number("delta", delta, above=0)
    return loss(HUBER, pred, target, reduction, delta)


def huber_grad(
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    delta: float = 1.0,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Gradient of the Huber loss for the predictions: the error, cut off.

    Parameters
    ----------
    pred : array_like
        Predictions :math:`p`, of any shape.
    target : array_like
        Targets :math:`t`, of the shape of `pred`.
    delta : float
        Error :math:`\delta > 0`, in the units of `pred`, at which the two pieces meet.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    ndarray, shape ``pred.shape``
        The error between :math:`-\delta` and :math:`\delta`, for the mean divided by N.

    Raises
    ------
    TypeError
        If `pred` or `target` is neither integer nor a real floating-point array.
    ValueError
        If the shapes differ, `delta` is not positive, or `reduction` is not known.

    See Also
    --------
    huber : The map.
    huber_vjp : Scaled by a cotangent, and for the target too.

    Notes
    -----
    Differentiate each piece:

    .. math::

        \pdv{\ell}{p} = \begin{cases} e & \abs e \le \delta \\
            \delta \operatorname{sign} e & \abs e > \delta \end{cases}
            \; = \; \min(\max(e, -\delta), \delta) .

    The gradient is continuous: unlike its relatives' this loss has no kink, only jumps of
    the second derivative at :math:`\abs e = \delta`. It is half the squared error whose
    gradient was clipped by value.

    Examples
    --------
    >>> from dlref.losses import huber_grad
    >>> huber_grad([0.5, 1, 3, -10], [0, 0, 0, 0], reduction="sum")
    array([ 0.5,  1. ,  1. , -1. ])
    """
    delta = as_number("delta", delta, above=0)
    return loss_grad(HUBER, pred, target, reduction, delta)


def huber_vjp(
    dout: npt.ArrayLike,
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    delta: float = 1.0,
    reduction: str = "mean",
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the Huber loss.

    Parameters
    ----------
    dout : array_like
        Cotangent of the loss: a scalar, or of `pred`'s shape for the reduction ``"none"``.
    pred : array_like
        Predictions :math:`p`, of any shape.
    target : array_like
        Targets :math:`t`, of the shape of `pred`.
    delta : float
        Error :math:`\delta > 0`, in the units of `pred`, at which the two pieces meet.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.

    Returns
    -------
    dpred : ndarray, shape ``pred.shape``
        :math:`u\, c` with the error :math:`c` cut off at :math:`\pm\delta`.
    dtarget : ndarray, shape ``pred.shape``
        :math:`-u\, c`.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If the shapes differ, `delta` is not positive, `dout` has not the shape of the
        loss, or `reduction` is not known.

    See Also
    --------
    huber_grad : The derivation.
    huber_jvp : Forward mode.

    Notes
    -----
    u is `dout`, for the mean divided by the number of elements. No element sends back more
    than :math:`\abs u \delta`: a wrong label can do limited harm.

    Examples
    --------
    >>> from dlref.losses import huber_vjp
    >>> dpred, dtarget = huber_vjp([1, 1], [1.5, 1000], [1, 1], delta=2, reduction="none")
    >>> dpred
    array([0.5, 2. ])
    >>> dtarget
    array([-0.5, -2. ])
    """
    delta = as_number("delta", delta, above=0)
    return loss_vjp(HUBER, dout, pred, target, reduction, delta)


def huber_jvp(
    primals: Any, tangents: Any, *, delta: float = 1.0, reduction: str = "mean"
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the Huber loss.

    Parameters
    ----------
    primals : tuple (pred, target) of array_like
        Predictions and targets, of equal shapes.
    tangents : tuple (dpred, dtarget) of array_like or None
        Directions, of the shape of `primals`; None is zero.
    delta : float
        Error :math:`\delta > 0`, in the units of `pred`, at which the two pieces meet.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        :math:`c\, (\dot p - \dot t)`, reduced, with the error :math:`c` cut off.

    Raises
    ------
    TypeError
        If an argument is no tuple, or an entry no real array.
    ValueError
        If the shapes differ, `delta` is not positive, or `reduction` is not known.

    See Also
    --------
    huber_grad : The derivation.
    huber_vjp : Reverse mode.

    Notes
    -----
    A first-order statement: across the point where the pieces meet it has no jump.

    Examples
    --------
    >>> from dlref.losses import huber_jvp
    >>> huber_jvp(([1, 1.001], [0, 0]), ([3, 3], None), reduction="none")
    array([3., 3.])
    """
    delta = as_number("delta", delta, above=0)
    return loss_jvp(HUBER, primals, tangents, reduction, delta)
