r"""A neuron learns: gradient descent on the squared error of its outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy.typing as npt

from .._core.arguments import FloatArray, as_floats, as_integer, result
from ..losses import neuron_squared_error, neuron_squared_error_grad
from ._gradient_descent import gradient_descent


class FitResult(NamedTuple):
    r"""
    Result of :func:`fit_neuron`: the final parameters, and the loss of each epoch.

    Parameters
    ----------
    w : ndarray, shape (D,)
        Weights after the last epoch.
    b : scalar
        Bias after the last epoch.
    loss : ndarray, shape (epochs,)
        Loss before each epoch's step.

    See Also
    --------
    fit_neuron : Returns it.

    Notes
    -----
    A named tuple: it can be unpacked, and compares by position.

    Examples
    --------
    >>> from dlref.training import FitResult, fit_neuron
    >>> fit = fit_neuron([[1.0]], [3.0], [1.0], 0.0, learning_rate=0.25, epochs=2)
    >>> FitResult._fields
    ('w', 'b', 'loss')
    >>> w, b, loss = fit
    >>> loss
    array([4., 0.])
    """

    w: Any
    b: Any
    loss: FloatArray


def fit_neuron(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    w: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    learning_rate: float | Callable[[int], Any],
    epochs: int,
    callback: Callable[[int, float, Any], object] | None = None,
) -> FitResult:
    r"""
    Fit a ReLU neuron to N examples by gradient descent.

    Parameters
    ----------
    X : array_like, shape (N, D)
        One example per row.
    y : array_like, shape (N,)
        Target of each example.
    w : array_like, shape (D,)
        Weights to start with.
    b : array_like, shape ()
        Bias to start with.
    learning_rate : float or callable
        Step size, at least 0, or a function that returns it for the epoch 1, 2, ...
    epochs : int
        Number of steps; each uses all N examples.
    callback : callable or None
        Called as ``callback(epoch, loss, (w, b))`` after each epoch.

    Returns
    -------
    FitResult
        Weights, bias and the loss before each step. All have the dtype of the arguments; the steps
        themselves are computed in float64.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array, `epochs` is not an
        integer, or the learning rate is not a number.
    ValueError
        If the shapes do not fit, or `epochs` or the learning rate is negative.

    See Also
    --------
    dlref.losses.neuron_squared_error_grad : The gradient, derived step by step.
    gradient_descent : The loop.

    Notes
    -----
    Each epoch takes one step of gradient descent:

    .. math::

        \vec w \leftarrow \vec w - \frac{2 \eta}{N} \sum_{z_n > 0} e_n\, \vec x_n , \qquad
        b \leftarrow b - \frac{2 \eta}{N} \sum_{z_n > 0} e_n

    The loop of :func:`gradient_descent`, with the neuron's loss and its gradient:

    1. outputs :math:`a_n = \max(0, \vec w \cdot \vec x_n + b)` of all examples;
    2. errors :math:`e_n = a_n - y_n` and the loss :math:`C = \frac1N \sum_n e_n^2`;
    3. which examples are active, :math:`z_n > 0`;
    4. gradients :math:`\frac2N \sum_{z_n > 0} e_n \vec x_n` and :math:`\frac2N \sum_{z_n > 0} e_n`;
    5. :math:`\vec w \leftarrow \vec w - \eta\, \partial C / \partial \vec w` and
       :math:`b \leftarrow b - \eta\, \partial C / \partial b`;
    6. again, for the next epoch.

    While all examples stay active the loss is a quadratic whose Hessian is :math:`\frac2N
    \sum_n \tilde{\vec x}_n \tilde{\vec x}_n^\top`, with :math:`\tilde{\vec x} = (\vec x, 1)`, and
    descent converges if the learning rate is below 2 over its largest eigenvalue. For the
    three examples below the eigenvalues that matter are 190.9 and 1.13, and that limit is
    0.0105: at a rate of 0.01 the error along the first direction changes its sign and shrinks
    by :math:`1 - 1.909 = -0.909` per step, along the other by 0.989. Hence the steep beginning
    and the long tail of the loss.

    Examples
    --------
    Weights drawn from NumPy's legacy generator with seed 42, and a bias of 0:

    >>> import numpy as np
    >>> from dlref.training import fit_neuron
    >>> X, y = [[1, 2, 3], [4, 5, 6], [7, 8, 9]], [10, 20, 30]
    >>> w = np.random.RandomState(42).randn(3)
    >>> fit = fit_neuron(X, y, w, 0.0, learning_rate=0.01, epochs=100)
    >>> for epoch in (1, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100):
    ...     print(f"{epoch:3} {fit.loss[epoch - 1]:8.4f}")
      1 252.0780
     10  45.8938
     20   7.5255
     30   1.7175
     40   0.7380
     50   0.4949
     60   0.3805
     70   0.3010
     80   0.2394
     90   0.1907
    100   0.1518
    >>> fit.w
    array([0.55084591, 0.6847681 , 2.23962159])
    >>> float(fit.b)
    0.768900644328

    The targets are linear in the inputs, so the neuron can fit them: with more epochs the
    loss goes to 0.

    >>> bool(fit_neuron(X, y, w, 0.0, learning_rate=0.01, epochs=1000).loss[-1] < 1e-8)
    True

    A neuron that is inactive for all examples stays so:

    >>> fit_neuron(X, y, [-1, -1, -1], 0, learning_rate=0.01, epochs=3).loss
    array([466.6667, 466.6667, 466.6667])
    """
    dtype, (X, y, w, b) = as_floats({"X": X, "y": y, "w": w, "b": b})
    epochs = as_integer("epochs", epochs, least=0)

    neuron_squared_error(X, y, w, b)  # checks the shapes, even if there are no epochs

    def value_and_grad(params: Any) -> tuple[Any, Any]:
        return neuron_squared_error(X, y, *params), neuron_squared_error_grad(X, y, *params)

    (weights, bias), loss = gradient_descent(
        value_and_grad, (w, b), learning_rate=learning_rate, steps=epochs, callback=callback
    )
    return FitResult(result(weights, dtype), result(bias, dtype), result(loss, dtype))
