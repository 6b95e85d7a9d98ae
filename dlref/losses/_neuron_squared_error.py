r"""The loss of one ReLU neuron over N examples, derived step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, FloatDType, as_floats, as_tangents, check_shape, result
from ._kernels.reduction import divided_sum


def _arguments(
    X: npt.ArrayLike, y: npt.ArrayLike, w: npt.ArrayLike, b: npt.ArrayLike
) -> tuple[FloatDType, list[FloatArray]]:
    dtype, arrays = as_floats({"X": X, "y": y, "w": w, "b": b})
    _check(("X", "y", "w", "b"), *arrays)
    return dtype, arrays


def _check(
    names: tuple[str, ...], X: FloatArray, y: FloatArray, w: FloatArray, b: FloatArray
) -> None:
    if X.ndim != 2:
        msg = f"Argument {names[0]!r} must have shape (N, D), not {X.shape}."
        raise ValueError(msg)
    check_shape(names[1], y, X.shape[:1])
    check_shape(names[2], w, X.shape[1:])
    check_shape(names[3], b, ())


def _slopes(
    X: FloatArray, y: FloatArray, w: FloatArray, b: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the derivatives of the loss for each pre-activation and for each target."""
    z = X @ w + b
    factor = 2.0 / np.float64(y.size)
    inactive = z <= 0.0  # not where z is NaN
    return np.where(inactive, 0.0, factor * (z - y)), factor * (y - np.where(inactive, 0.0, z))


def neuron_squared_error(
    X: npt.ArrayLike, y: npt.ArrayLike, w: npt.ArrayLike, b: npt.ArrayLike
) -> FloatArray:
    r"""
    Mean squared error of the ReLU neuron over N examples.

    Parameters
    ----------
    X : array_like, shape (N, D)
        One example :math:`\vec x_n` per row.
    y : array_like, shape (N,)
        Target of each example.
    w : array_like, shape (D,)
        Weights.
    b : array_like, shape ()
        Bias.

    Returns
    -------
    scalar
        :math:`C(\vec w, b)`, at least 0; NaN without examples.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array.
    ValueError
        If `X` is not a matrix or the shapes do not fit.

    See Also
    --------
    neuron_squared_error_grad : The gradient, derived step by step.
    squared_error : Any predictions and targets.
    dlref.training.fit_neuron : Makes it small.

    Notes
    -----
    .. math:: C(\vec w, b) = \frac1N \sum_{n=1}^{N}
              \bigl( \max(0, \vec w \cdot \vec x_n + b) - y_n \bigr)^2 .

    The data are given, the weights vary: C is a surface over D + 1 parameters. It consists of
    pieces; within each piece the same examples are active. A piece is a quadratic, and where no
    example is active C is flat, at the height :math:`\frac1N \sum_n y_n^2`.

    Examples
    --------
    The three examples have the outputs 4.6, 9.1 and 13.6, hence the errors -5.4, -10.9
    and -16.4:

    >>> from dlref.losses import neuron_squared_error
    >>> X, y = [[1, 2, 3], [4, 5, 6], [7, 8, 9]], [10, 20, 30]
    >>> float(neuron_squared_error(X, y, [0.5, -1, 2], 0.1))
    138.976666666667
    """
    dtype, (X, y, w, b) = _arguments(X, y, w, b)
    with np.errstate(all="ignore"):
        error = np.maximum(X @ w + b, 0.0) - y
        mean = error @ error / np.float64(y.size)
        if not np.isfinite(mean):  # of the sum, perhaps, but not of the squares
            mean = divided_sum(error * error, np.float64(y.size))
        return result(mean, dtype)


def neuron_squared_error_grad(
    X: npt.ArrayLike, y: npt.ArrayLike, w: npt.ArrayLike, b: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Both gradients of the ReLU neuron's loss: with respect to the weights and to the bias.

    Parameters
    ----------
    X, y, w, b : as in `neuron_squared_error`
        Raises the same errors.

    Returns
    -------
    dw : ndarray, shape (D,)
        :math:`\frac2N \sum_{z_n > 0} e_n \vec x_n`.
    db : scalar
        :math:`\frac2N \sum_{z_n > 0} e_n`.

    See Also
    --------
    dlref.neurons.neuron_grad : The second step of the derivation.

    Notes
    -----
    Give every intermediate value between the parameters and the loss a name, for one example:

    .. math::

        z_n = \vec w \cdot \vec x_n + b , \qquad a_n = \max(0, z_n) , \qquad
        e_n = a_n - y_n , \qquad C = \frac1N \sum_n e_n^2 .

    *Step 1*, from the loss to the error, and from there to the output:

    .. math:: \pdv{C}{e_n} = \frac2N e_n , \qquad \pdv{e_n}{a_n} = 1 .

    *Step 2*, through the neuron, by the cases of the ReLU:

    .. math::

        \pdv{a_n}{\vec w} = \begin{cases} \vec 0 & z_n \le 0 \\ \vec x_n & z_n > 0 , \end{cases}
        \qquad
        \pdv{a_n}{b} = \begin{cases} 0 & z_n \le 0 \\ 1 & z_n > 0 . \end{cases}

    *Step 3*, the chain rule. All examples share the weights, so their gradients add up, and
    inactive examples (:math:`z_n \le 0`) contribute nothing:

    .. math::

        \pdv{C}{\vec w} = \sum_n \pdv{C}{e_n} \pdv{e_n}{a_n} \pdv{a_n}{\vec w}
                        = \frac2N \sum_{z_n > 0} e_n\, \vec x_n ,
        \qquad
        \pdv{C}{b} = \frac2N \sum_{z_n > 0} e_n .

    The gradient of the weights is twice the mean of the examples, each weighted by its error, or by
    0 if it is inactive: where an output is too small, a step against the gradient adds a multiple
    of its example to the weights. The bias is the weight of a constant input 1.

    At :math:`z_n = 0` the subgradient 0 is taken, as PyTorch and JAX do for their ``relu``. If
    every example is inactive the gradient is 0 although the loss is not: the neuron is *dead*, and
    gradient descent never revives it.

    Examples
    --------
    All three examples are active, with the errors -5.4, -10.9 and -16.4:

    >>> from dlref.losses import neuron_squared_error_grad
    >>> X, y = [[1, 2, 3], [4, 5, 6], [7, 8, 9]], [10, 20, 30]
    >>> dw, db = neuron_squared_error_grad(X, y, [0.5, -1, 2], 0.1)
    >>> dw
    array([-109.2, -131. , -152.8])
    >>> float(db)
    -21.8

    A dead neuron has a gradient of 0:

    >>> neuron_squared_error_grad(X, y, [0.5, -1, 2], -20)[0]
    array([0., 0., 0.])
    """
    dtype, (X, y, w, b) = _arguments(X, y, w, b)
    with np.errstate(all="ignore"):
        delta, _ = _slopes(X, y, w, b)
        return result(delta @ X, dtype), result(np.sum(delta), dtype)


def neuron_squared_error_vjp(
    dout: npt.ArrayLike, X: npt.ArrayLike, y: npt.ArrayLike, w: npt.ArrayLike, b: npt.ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the ReLU neuron's loss.

    Parameters
    ----------
    dout : array_like, shape ()
        Cotangent :math:`u` of the loss.
    X, y, w, b : as in `neuron_squared_error`
        Raises the same errors.

    Returns
    -------
    dX : ndarray, shape (N, D)
        :math:`\delta_n \vec w`, with :math:`\delta_n = \frac{2u}{N} e_n` where :math:`z_n > 0`,
        else 0.
    dy : ndarray, shape (N,)
        :math:`-\frac{2u}{N} e_n`, for inactive examples, too.
    dw : ndarray, shape (D,)
        :math:`\sum_n \delta_n \vec x_n`.
    db : scalar
        :math:`\sum_n \delta_n`.

    Notes
    -----
    .. math::

        \pdv{L}{\vec x_n} = \delta_n \vec w , \quad \pdv{L}{y_n} = -\frac{2u}{N}\, e_n , \quad
        \pdv{L}{\vec w} = \sum_n \delta_n \vec x_n , \quad \pdv{L}{b} = \sum_n \delta_n , \qquad
        \delta_n = \frac{2u}{N} \begin{cases} e_n & z_n > 0 \\ 0 & z_n \le 0 \end{cases}

    The examples enter through their pre-activations as the parameters do, but each for
    itself. A target is compared with the output, so it has a gradient where the neuron is
    inactive and its error is :math:`-y_n`.

    Examples
    --------
    The second example is inactive:

    >>> from dlref.losses import neuron_squared_error_vjp
    >>> dX, dy, dw, db = neuron_squared_error_vjp(1, [[1.0], [-1.0]], [5.0, 5.0], [2.0], 0.0)
    >>> dX
    array([[-6.],
           [ 0.]])
    >>> dy
    array([3., 5.])
    """
    dtype, (dout, X, y, w, b) = as_floats({"dout": dout, "X": X, "y": y, "w": w, "b": b})
    _check(("X", "y", "w", "b"), X, y, w, b)
    check_shape("dout", dout, ())
    with np.errstate(all="ignore"):
        delta, dy = (dout * slope for slope in _slopes(X, y, w, b))
        return (
            result(delta[:, None] * w, dtype),
            result(dy, dtype),
            result(delta @ X, dtype),
            result(np.sum(delta), dtype),
        )


def neuron_squared_error_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the ReLU neuron's loss.

    Parameters
    ----------
    primals : tuple (X, y, w, b) of array_like
        Examples (N, D), targets (N,), weights (D,) and bias.
        Raises the same errors as `neuron_squared_error`.
    tangents : tuple (dX, dy, dw, db) of array_like or None
        Directions, each of the shape of its operand; None is zero.

    Returns
    -------
    scalar
        Tangent of the loss.

    Notes
    -----
    .. math::

        \dot C = \frac2N \sum_n e_n\, (\dot a_n - \dot y_n) , \qquad
        \dot a_n = \begin{cases} \dot{\vec x}_n \cdot \vec w + \vec x_n \cdot \dot{\vec w} + \dot b
          & z_n > 0 \\ 0 & z_n \le 0 \end{cases}

    Examples
    --------
    Along its own gradient the loss rises by the gradient's squared length:

    >>> from dlref.losses import neuron_squared_error_grad, neuron_squared_error_jvp
    >>> point = [[1.0], [2.0]], [5.0, 5.0], [2.0], 0.0
    >>> dw, db = neuron_squared_error_grad(*point)
    >>> float(neuron_squared_error_jvp(point, (None, None, dw, db)))
    41.0
    >>> float(dw @ dw + db * db)
    41.0
    """
    dtype, (X, y, w, b), (dX, dy, dw, db) = as_tangents(primals, tangents, count=4)
    _check(tuple(f"primals[{i}]" for i in range(4)), X, y, w, b)
    with np.errstate(all="ignore"):
        delta, of_target = _slopes(X, y, w, b)
        dz = dX @ w + X @ dw + db
        return result(divided_sum(delta * dz + of_target * dy, np.float64(1.0)), dtype)
