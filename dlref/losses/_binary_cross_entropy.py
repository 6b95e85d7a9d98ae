r"""The cross-entropy of two classes, from one logit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_floats, as_tangents, check_shape, choice, result
from .._core.jit import kernel
from .._core.threads import over_rows
from .._math.elementary import exp, log1p
from ._kernels.reduction import REDUCTIONS, reduced, seeds

COST = 6  # nanoseconds, or elementary operations, a logit


@kernel
def _halves(
    start: int,
    stop: int,
    z: FloatArray,
    yes: FloatArray,
    no: FloatArray,
    yes_slope: FloatArray,
    no_slope: FloatArray,
) -> None:
    """Write the costs of both classes, log(1 + e^-z) and log(1 + e^z), and their slopes."""
    z, yes, no = z[start:stop], yes[start:stop], no[start:stop]
    yes_slope, no_slope = yes_slope[start:stop], no_slope[start:stop]
    for i in range(z.size):
        size = abs(z[i])
        e = exp(-size)
        small, far = log1p(e), 1.0 / (1.0 + e)
        near = e * far
        positive = z[i] > 0.0
        yes[i] = small if positive else size + small
        no[i] = size + small if positive else small
        yes_slope[i] = near if positive else far  # 1 - sigmoid(z)
        no_slope[i] = far if positive else near  # sigmoid(z)


def _costs(z: FloatArray) -> list[FloatArray]:
    parts = [np.empty(z.size) for _ in range(4)]
    over_rows(_halves, z.size, COST, np.ascontiguousarray(z).reshape(-1), *parts)
    return [part.reshape(z.shape) for part in parts]


def _factor(name: str, weight: npt.ArrayLike | None, shape: tuple[int, ...]) -> Any:
    """Return a weight that broadcasts to the logits, 1 if it is None."""
    if weight is None:
        return np.float64(1.0)
    _, (array,) = as_floats({name: weight})
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        msg = f"Argument {name!r} must have a shape that broadcasts to {shape}, not {array.shape}."
        raise ValueError(msg) from None


def _weights(
    weight: npt.ArrayLike | None, pos_weight: npt.ArrayLike | None, shape: tuple[int, ...]
) -> tuple[Any, Any]:
    return _factor("weight", weight, shape), _factor("pos_weight", pos_weight, shape)


def binary_cross_entropy(
    logits: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    weight: npt.ArrayLike | None = None,
    pos_weight: npt.ArrayLike | None = None,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Binary cross-entropy of the sigmoid of logits.

    Parameters
    ----------
    logits : array_like
        Scores :math:`z`, of any shape.
    target : array_like
        Probability :math:`t` of *yes*, from 0 to 1, of the shape of `logits`.
    weight : array_like or None
        Factor :math:`w` of an element; broadcasts to the shape of `logits`.
    pos_weight : array_like or None
        Factor :math:`\pi` of the cost of a *yes*; broadcasts to the shape of `logits`. Neither
        weight changes the dtype.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        The loss: a scalar, or for ``"none"`` an array of the shape of `logits`, in nats.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If the shapes do not fit, or `reduction` is not known.

    See Also
    --------
    binary_cross_entropy_grad : The derivative, with its derivation.
    cross_entropy : More than two classes.

    Notes
    -----
    **Definition.** With the sigmoid :math:`\sigma(z) = 1 / (1 + e^{-z})`,

    .. math:: \ell = -w \bigl( \pi\, t \log \sigma(z) + (1 - t) \log (1 - \sigma(z)) \bigr) .

    It is the cross-entropy of the two scores z and 0, since their softmax is
    :math:`\sigma(z)` and :math:`1 - \sigma(z)`.

    **Which formula.** From :math:`-\log \sigma(z) = \log(1 + e^{-z})` and
    :math:`1 - \sigma(z) = \sigma(-z)`,

    .. math:: \ell = w \bigl( \pi\, t\, s(-z) + (1 - t)\, s(z) \bigr) , \qquad
              s(z) = \log (1 + e^z) = \max(z, 0) + \log (1 + e^{-\abs z}) .

    Nothing overflows and, for t from 0 to 1, neither term is negative, so no digit is lost. The
    frequent form :math:`(1 - t) z + s(-z)` subtracts at t = 0: it is 0 from z = -33.3 on, and loses
    3e-7 of its value at -20.

    The mean divides by the number of elements, whatever the weights are, as PyTorch does.

    **Special values.** An infinite logit gives NaN even if the answer is right, from 0 times
    infinity, as in PyTorch; the gradient of a right answer is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import binary_cross_entropy
    >>> float(np.exp(binary_cross_entropy(0, 1)))  # undecided: one bit
    2.0

    A confident right answer, and a confident wrong one:

    >>> binary_cross_entropy([-50, -50], [0, 1], reduction="none")
    array([1.92874985e-22, 5.00000000e+01])
    """
    dtype, (logits, target) = as_floats({"logits": logits, "target": target})
    check_shape("target", target, logits.shape)
    w, pi = _weights(weight, pos_weight, logits.shape)
    choice("reduction", reduction, REDUCTIONS)
    yes, no, _, _ = _costs(logits)
    with np.errstate(all="ignore"):
        terms = w * (pi * target * yes + (1.0 - target) * no)
        return result(reduced(terms, reduction), dtype)


def binary_cross_entropy_grad(
    logits: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    weight: npt.ArrayLike | None = None,
    pos_weight: npt.ArrayLike | None = None,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Gradient of the binary cross-entropy with respect to the logits: sigmoid minus target.

    Parameters
    ----------
    logits, target, weight, pos_weight : as in `binary_cross_entropy`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    ndarray, shape ``logits.shape``
        :math:`\partial L / \partial z`.

    See Also
    --------
    cross_entropy_grad : Softmax minus one-hot.

    Notes
    -----
    The softplus :math:`s(z) = \log(1 + e^z)` has the slope :math:`e^z / (1 + e^z) =
    \sigma(z)`, and :math:`s(-z)` the slope :math:`-\sigma(-z)`. Hence

    .. math::

        \pdv{\ell}{z} = w \bigl( (1 - t)\, \sigma(z) - \pi\, t\, \sigma(-z) \bigr) ,

    and for :math:`w = \pi = 1`, with :math:`\sigma(-z) = 1 - \sigma(z)`,

    .. math:: \pdv{\ell}{z} = \sigma(z) - t .

    The first form is the one used: for t = 1 the second would be 0 from z = 37.5 on, where the
    float64 of :math:`\sigma(z)` is 1.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import binary_cross_entropy_grad
    >>> binary_cross_entropy_grad(np.log([1, 3, 3]), [0, 0, 1], reduction="sum")
    array([ 0.5 ,  0.75, -0.25])
    >>> float(binary_cross_entropy_grad(50, 1))
    -1.92874985e-22
    """
    dtype, (logits, target) = as_floats({"logits": logits, "target": target})
    check_shape("target", target, logits.shape)
    w, pi = _weights(weight, pos_weight, logits.shape)
    choice("reduction", reduction, REDUCTIONS[:2])
    _, _, yes_slope, no_slope = _costs(logits)
    with np.errstate(all="ignore"):
        u = seeds(np.ones(()), logits.shape, reduction)
        dlogits = u * w * ((1.0 - target) * no_slope - pi * target * yes_slope)
        return result(dlogits, dtype)


def binary_cross_entropy_vjp(
    dout: npt.ArrayLike,
    logits: npt.ArrayLike,
    target: npt.ArrayLike,
    *,
    weight: npt.ArrayLike | None = None,
    pos_weight: npt.ArrayLike | None = None,
    reduction: str = "mean",
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the binary cross-entropy.

    Parameters
    ----------
    dout : array_like
        Cotangent of the loss: a scalar, or of the shape of `logits` for ``"none"``.
    logits, target, weight, pos_weight, reduction : as in `binary_cross_entropy`
        Raises the same errors.

    Returns
    -------
    dlogits : ndarray, shape ``logits.shape``
        :math:`u w ((1 - t)\, \sigma(z) - \pi\, t\, \sigma(-z))`.
    dtarget : ndarray, shape ``logits.shape``
        :math:`u w ((\pi - 1) s(-z) - z)`.

    Notes
    -----
    .. math::

        \pdv{L}{z} = u w \bigl( (1 - t)\, \sigma(z) - \pi\, t\, \sigma(-z) \bigr) , \qquad
        \pdv{L}{t} = u w \bigl( \pi\, s(-z) - s(z) \bigr) = u w \bigl( (\pi - 1)\, s(-z) - z \bigr)

    u is `dout`, for the mean divided by the number of elements, and :math:`s(z) = \log(1 + e^z)`
    the softplus. The loss is linear in t, and :math:`s(z) = z + s(-z)` gives the last form: without
    `pos_weight` and `weight`, the slope is minus the logit.

    Examples
    --------
    >>> from dlref.losses import binary_cross_entropy_vjp
    >>> dlogits, dtarget = binary_cross_entropy_vjp([1, 1], [0, 3], [1, 1], reduction="none")
    >>> dtarget
    array([ 0., -3.])
    """
    dtype, (dout, logits, target) = as_floats({"dout": dout, "logits": logits, "target": target})
    check_shape("target", target, logits.shape)
    w, pi = _weights(weight, pos_weight, logits.shape)
    choice("reduction", reduction, REDUCTIONS)
    yes, _, yes_slope, no_slope = _costs(logits)
    with np.errstate(all="ignore"):
        u = seeds(dout, logits.shape, reduction)
        dlogits = u * w * ((1.0 - target) * no_slope - pi * target * yes_slope)
        dtarget = u * w * _slope_of_target(logits, yes, pi)
        return result(dlogits, dtype), result(dtarget, dtype)


def _slope_of_target(logits: FloatArray, yes: FloatArray, pi: Any) -> FloatArray:
    return np.where(pi == 1.0, 0.0, (pi - 1.0) * yes) - logits


def binary_cross_entropy_jvp(
    primals: Any,
    tangents: Any,
    *,
    weight: npt.ArrayLike | None = None,
    pos_weight: npt.ArrayLike | None = None,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the binary cross-entropy.

    Parameters
    ----------
    primals : tuple (logits, target) of array_like
        Scores and probabilities of *yes*, of equal shapes.
    tangents : tuple (dlogits, dtarget) of array_like or None
        Directions, of the shape of `primals`; None is zero.
    weight, pos_weight, reduction : as in `binary_cross_entropy`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        Tangent of the loss, of its shape.

    Notes
    -----
    .. math::

        \dot\ell = w \bigl( (1 - t)\, \sigma(z) - \pi\, t\, \sigma(-z) \bigr)\, \dot z
          + w \bigl( (\pi - 1)\, s(-z) - z \bigr)\, \dot t

    with the softplus :math:`s(z) = \log(1 + e^z)`. Without weights this is
    :math:`(\sigma(z) - t)\, \dot z - z\, \dot t`.

    Examples
    --------
    Where the sigmoid equals the target, the loss does not change with the logit:

    >>> import numpy as np
    >>> from dlref.losses import binary_cross_entropy_jvp
    >>> float(binary_cross_entropy_jvp((np.log(3), 0.75), (1.0, None)))
    0.0
    """
    dtype, (logits, target), (dlogits, dtarget) = as_tangents(primals, tangents, count=2)
    check_shape("primals[1]", target, logits.shape)
    w, pi = _weights(weight, pos_weight, logits.shape)
    choice("reduction", reduction, REDUCTIONS)
    yes, _, yes_slope, no_slope = _costs(logits)
    with np.errstate(all="ignore"):
        moved = ((1.0 - target) * no_slope - pi * target * yes_slope) * dlogits
        if tangents[1] is not None:  # zero, even where the logit is infinite
            moved = moved + _slope_of_target(logits, yes, pi) * dtarget
        return result(reduced(w * moved, reduction), dtype)
