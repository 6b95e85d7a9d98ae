r"""The focal loss: binary cross-entropy that lets go of easy examples."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_number,
    as_tangents,
    check_shape,
    choice,
    in_float64,
    result,
)
from .._core.jit import inline_strict
from .._core.specialize import instantiate, specialize
from .._core.threads import as_carray, over_rows
from .._math.elementary import Number, exp, sigmoid, softplus, tanh
from ._kernels.reduction import REDUCTIONS, reduced, seeds

if TYPE_CHECKING:
    from collections.abc import Callable

COST = 4  # nanoseconds, or elementary operations, a logit


@inline_strict
def _share(t: Number, of_yes: Number, of_no: Number) -> Number:
    """Return the mean of two values under a target; a value that does not count may be inf."""
    return (t * of_yes if t != 0.0 else 0.0) + ((1.0 - t) * of_no if t != 1.0 else 0.0)


@inline_strict
def _power(q: Number, gamma: Number) -> Number:
    return q**gamma


@inline_strict
def _power_slope(q: Number, gamma: Number) -> Number:
    return gamma * q ** (gamma - 1.0)


@inline_strict
def _square(q: Number, _gamma: Number) -> Number:
    return q * q


@inline_strict
def _square_slope(q: Number, _gamma: Number) -> Number:
    return 2.0 * q


@inline_strict
def _weight(t: Number, alpha: Number) -> Number:
    return alpha * t + (1.0 - alpha) * (1.0 - t) if alpha >= 0.0 else 1.0


@inline_strict
def _loss(x: Number, t: Number, alpha: Number, gamma: Number) -> Number:
    focus = _power(_share(t, sigmoid(-x), sigmoid(x)), gamma)
    return _weight(t, alpha) * focus * _share(t, softplus(-x), softplus(x))


@inline_strict
def _slope(x: Number, t: Number, alpha: Number, gamma: Number) -> Number:
    p, not_p = sigmoid(x), sigmoid(-x)
    entropy = _share(t, softplus(-x), softplus(x))
    r = 1.0 / (1.0 + _share(t, exp(-x), exp(x)))  # p (1 - p) / q
    pull = (1.0 - t) * p - t * not_p  # p - t, to all digits
    focused = gamma * (1.0 - 2.0 * t) * r * entropy
    return _weight(t, alpha) * _power(_share(t, not_p, p), gamma) * (pull + focused)


@inline_strict
def _target_slope(x: Number, t: Number, alpha: Number, gamma: Number) -> Number:
    q, entropy = _share(t, sigmoid(-x), sigmoid(x)), _share(t, softplus(-x), softplus(x))
    focus = _power(q, gamma)
    by_weight = (2.0 * alpha - 1.0) * focus * entropy if alpha >= 0.0 else 0.0
    slope = focus * -x
    if gamma != 0.0:
        slope = slope - _power_slope(q, gamma) * tanh(0.5 * x) * entropy
    return by_weight + _weight(t, alpha) * slope


def _formula(*_numbers: Number) -> Number:
    """Placeholder for the formula that `instantiate` inserts."""


def _each(
    start: int,
    stop: int,
    x: FloatArray,
    t: FloatArray,
    alpha: float,
    gamma: float,
    out: FloatArray,
) -> None:
    x, t, out = x[start:stop], t[start:stop], out[start:stop]
    for i in range(x.size):
        out[i] = _formula(np.float64(x[i]), np.float64(t[i]), alpha, gamma)


@cache
def _loop(formula: Callable[..., Number], squared: bool) -> Callable[..., None]:
    """Return the loop over a formula. A square, unlike a power, leaves it to be vectorized."""
    if squared:
        formula = specialize(formula, {_power: _square, _power_slope: _square_slope}, "squared")
    return instantiate(_each, _formula=formula)


class _Focal:
    """Checked arguments, and formulas of each logit and its target, in float64."""

    def __init__(
        self, name: str, x: FloatArray, t: FloatArray, alpha: float, gamma: float, reduction: str
    ) -> None:
        check_shape(name, t, x.shape)
        self.alpha = as_number("alpha", alpha, least=-1.0, most=1.0)
        self.gamma = as_number("gamma", gamma, least=0.0)
        choice("reduction", reduction, REDUCTIONS)
        self.x, self.t = x, t

    def _mapped(self, formula: Callable[..., Number]) -> FloatArray:
        out = np.empty(self.x.shape)
        x, t = (as_carray(a).reshape(-1) for a in (self.x, self.t))
        options = self.alpha, self.gamma
        over_rows(
            _loop(formula, self.gamma == 2.0), out.size, COST, x, t, *options, out.reshape(-1)
        )
        return out

    def losses(self) -> FloatArray:
        return self._mapped(_loss)

    def slopes(self) -> FloatArray:
        """Return the derivatives by the logits."""
        return self._mapped(_slope)

    def target_slopes(self) -> FloatArray:
        return self._mapped(_target_slope)


def sigmoid_focal_loss(
    logits: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Focal loss of yes-or-no questions: binary cross-entropy with less weight on easy examples.

    Parameters
    ----------
    logits : array_like
        Logits :math:`x` of any shape: the sigmoid of each is the probability of yes.
    target : array_like
        Targets :math:`t` from 0 to 1, of the shape of `logits`.
    alpha : float, default 0.25
        Weight of the target 1, from 0 to 1; the target 0 has the weight 1 - `alpha`. A negative
        number, not below -1, leaves the weights out.
    gamma : float, default 2.0
        Focus, at least 0: how strongly easy examples are weighed down. 0 is binary cross-entropy.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        The loss: a scalar, or for ``"none"`` an array of the shape of `logits`.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array, or `alpha` or `gamma` is
        not a number.
    ValueError
        If the shapes differ, an option is out of range, or `reduction` is not known.

    See Also
    --------
    sigmoid_focal_loss_grad : The derivative, with its derivation.
    binary_cross_entropy : The loss without a focus.

    Notes
    -----
    With the probability of yes p, the probability q that the model gives to the wrong answer, and
    the cross-entropy b,

    .. math::

        p &= \sigma(x) , \qquad q = t\, (1 - p) + (1 - t)\, p , \\
        b &= -t \log p - (1 - t) \log (1 - p) , \qquad
        a = \alpha\, t + (1 - \alpha)\, (1 - t) , \\
        \ell &= a\, q^\gamma\, b .

    **Why a focus.** A detector looks at a hundred thousand boxes of an image, nearly all of them
    background that it recognizes well. Each of these costs little, but together they cost more
    than the few objects. With :math:`\gamma = 2`, an example whose right answer has the
    probability 0.9 costs a hundredth of its cross-entropy, and a wrong one with 0.1 costs 0.81 of
    it.

    **Conventions.** The function of the same name in torchvision has the same options, and
    ``"none"`` as its default reduction. The authors divide the sum by the number of boxes that
    are objects, not by the number of all boxes.

    **Numerics.** The cross-entropy comes from the softplus of the logits, and q from the
    sigmoids of x and -x, so that no digits are lost where an answer is nearly certain.

    References
    ----------
    - :cite:t:`LinFocal2017`

    Examples
    --------
    A logit of log 3 is a probability of 3/4. The focus is 1/16 where yes is right, and 9/16 where
    it is wrong:

    >>> import numpy as np
    >>> from dlref.losses import binary_cross_entropy, sigmoid_focal_loss
    >>> logits, target = np.log([3.0, 3.0]), [1, 0]
    >>> loss = sigmoid_focal_loss(logits, target, alpha=-1, reduction="none")
    >>> (loss / binary_cross_entropy(logits, target, reduction="none")).round(12)
    array([0.0625, 0.5625])
    """
    dtype, (x, t) = as_floats({"logits": logits, "target": target}, work=np.float32)
    with np.errstate(all="ignore"):
        focal = _Focal("target", x, t, alpha, gamma, reduction)
        return result(np.asarray(reduced(focal.losses(), reduction)), dtype)


def sigmoid_focal_loss_grad(
    logits: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Gradient of the focal loss with respect to the logits.

    Parameters
    ----------
    logits, target, alpha, gamma : as in `sigmoid_focal_loss`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    ndarray, shape ``logits.shape``
        Gradient, for the mean divided by the number of elements.

    Notes
    -----
    **The product rule.** Both the focus and the cross-entropy depend on the logit. With
    :math:`\sigma' = p\, (1 - p)`,

    .. math:: \dv{q}{x} = (1 - 2 t)\, p\, (1 - p) , \qquad \dv{b}{x} = p - t ,

    .. math:: \pdv{\ell}{x} = a\, q^\gamma (p - t)
       + a\, \gamma\, q^{\gamma - 1}\, (1 - 2 t)\, p\, (1 - p)\, b .

    **Without a division.** Where q tends to 0, the second term is a quotient of small numbers. The
    code uses

    .. math:: \frac{p\, (1 - p)}{q} = r , \qquad r = \frac{1}{1 + t\, e^{-x} + (1 - t)\, e^x} ,

    which follows from :math:`\frac1p = 1 + e^{-x}` and :math:`\frac{1}{1 - p} = 1 + e^x`. For a
    right answer of yes, :math:`t = 1`, r is p itself, and

    .. math:: \pdv{\ell}{x} = -\alpha\, (1 - p)^\gamma \bigl( 1 - p - \gamma\, p \log p \bigr) .

    Both terms have the same sign, so the loss falls wherever the cross-entropy does.

    Examples
    --------
    At a logit of 0 the two terms are 1/8 and a quarter of log 2:

    >>> import numpy as np
    >>> from dlref.losses import sigmoid_focal_loss_grad
    >>> grad = sigmoid_focal_loss_grad([0, 0], [0, 1], alpha=-1, reduction="sum")
    >>> bool(np.allclose(grad, [0.125 + np.log(2) / 4, -0.125 - np.log(2) / 4], rtol=1e-15))
    True
    """
    choice("reduction", reduction, REDUCTIONS[:2])
    options: Any = {"alpha": alpha, "gamma": gamma, "reduction": reduction}
    return sigmoid_focal_loss_vjp(1.0, logits, target, **options)[0]


def sigmoid_focal_loss_vjp(
    dout: npt.ArrayLike,
    logits: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: str = "mean",
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the focal loss.

    Parameters
    ----------
    dout : array_like
        Cotangent u of the loss: a scalar, or of the shape of `logits` for the reduction ``"none"``.
    logits, target, alpha, gamma, reduction : as in `sigmoid_focal_loss`
        Raises the same errors.

    Returns
    -------
    dlogits : ndarray, shape ``logits.shape``
        Gradient of the logits.
    dtarget : ndarray, shape ``logits.shape``
        Gradient of the targets.

    Notes
    -----
    With u for each element and r of :func:`sigmoid_focal_loss_grad`,

    .. math:: \pdv{L}{x} = u\, a\, q^\gamma \bigl( p - t + \gamma\, (1 - 2 t)\, r\, b \bigr) .

    All three factors depend on the target: :math:`\pdv{a}{t} = 2 \alpha - 1`,
    :math:`\pdv{q}{t} = 1 - 2 p` and :math:`\pdv{b}{t} = -x`, so

    .. math:: \pdv{L}{t} = u\, (2 \alpha - 1)\, q^\gamma\, b
       + u\, a \bigl( \gamma\, q^{\gamma - 1}\, (1 - 2 p)\, b - q^\gamma\, x \bigr) .

    Without weights, a is 1 and the first term is absent.

    Examples
    --------
    Without a focus and weights it is binary cross-entropy, prediction minus target:

    >>> from dlref.losses import sigmoid_focal_loss_vjp
    >>> dlogits, dtarget = sigmoid_focal_loss_vjp(8, [0.0], [1.0], alpha=-1, gamma=0)
    >>> dlogits
    array([-4.])
    """
    given = {"dout": dout, "logits": logits, "target": target}
    dtype, (u, x, t) = as_floats(given, work=np.float32)
    with np.errstate(all="ignore"):
        focal = _Focal("target", x, t, alpha, gamma, reduction)
        each = seeds(in_float64(u), x.shape, reduction)
        dlogits, dtarget = each * focal.slopes(), each * focal.target_slopes()
        return result(dlogits, dtype), result(dtarget, dtype)


def sigmoid_focal_loss_jvp(
    primals: Any,
    tangents: Any,
    *,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the focal loss.

    Parameters
    ----------
    primals : tuple (logits, target) of array_like
        Logits and targets, of equal shapes.
    tangents : tuple (dlogits, dtarget) of array_like or None
        Directions, of the shape of `primals`; None is zero.
    alpha, gamma, reduction : as in `sigmoid_focal_loss`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        Tangent of the loss, of its shape.

    Notes
    -----
    With the derivatives of :func:`sigmoid_focal_loss_vjp`,

    .. math:: \dot\ell = \pdv{\ell}{x}\, \dot x + \pdv{\ell}{t}\, \dot t .

    Examples
    --------
    >>> from dlref.losses import sigmoid_focal_loss_jvp
    >>> tangents = ([1.0], None)
    >>> float(sigmoid_focal_loss_jvp(([0.0], [1.0]), tangents, alpha=-1, gamma=0))
    -0.5
    """
    dtype, (x, t), (dx, dt) = as_tangents(primals, tangents, count=2, work=np.float32)
    with np.errstate(all="ignore"):
        focal = _Focal("primals[1]", x, t, alpha, gamma, reduction)
        moved = np.zeros(x.shape)
        if tangents[0] is not None:  # zero, even where the slope is not finite
            moved = moved + focal.slopes() * dx
        if tangents[1] is not None:
            moved = moved + focal.target_slopes() * dt
        return result(np.asarray(reduced(moved, reduction)), dtype)
