r"""Gradient descent over parameters in any nesting of tuples."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.arguments import FloatArray, as_integer, as_number, check_callable
from .._core.pytree import tree_map
from ._kernels.steps import sgd, updated

if TYPE_CHECKING:
    # a number, or a function of the step that returns one
    Rate = float | Callable[[int], Any]


def gradient_descent(
    value_and_grad: Callable[[Any], tuple[Any, Any]],
    params: Any,
    *,
    learning_rate: Rate,
    steps: int,
    callback: Callable[[int, float, Any], object] | None = None,
) -> tuple[Any, FloatArray]:
    r"""
    Minimize a function by steps against its gradient.

    Parameters
    ----------
    value_and_grad : callable
        Function of the parameters that returns (value, gradient): a number, and arrays in
        the structure of the parameters.
    params : array_like, or tuple
        Where to start: an array, or tuples and named tuples of arrays, nested as you like; an entry
        may be None. They are not modified. Integers count as float64.
    learning_rate : float or callable
        Step size :math:`\eta`, at least 0, in units of the parameter squared per value; or a
        function that returns it for the step number 1, 2, ...
    steps : int
        Number of steps, at least 0.
    callback : callable or None
        Called as ``callback(step, value, params)`` after each step, with the value before the
        step and the parameters after it.

    Returns
    -------
    params : array, or tuple
        The parameters after the last step, in the structure and the dtypes of `params`.
    trace : ndarray, shape (steps,)
        The value *before* each step: the first one belongs to the starting point.

    Raises
    ------
    TypeError
        If an array is not real, `steps` is not an integer or the
        learning rate is not a number.
    ValueError
        If `steps` or a learning rate is negative, or the gradient does not have the structure and
        the shapes of the parameters.

    See Also
    --------
    sgd_step : One such step on its own.
    fit_neuron : Descent on the loss of a neuron.
    cosine_schedule : A learning rate for each step.

    Notes
    -----
    **Algorithm.** For each step:

    1. compute the value :math:`C(\theta)`;
    2. compute the gradient :math:`\nabla C(\theta)`;
    3. update: :math:`\theta \leftarrow \theta - \eta\, \nabla C(\theta)`.

    **Why against the gradient.** To first order a small step :math:`\vec d` changes the value
    by :math:`\nabla C \cdot \vec d`, which among all steps of one length is least for
    :math:`\vec d` opposite to :math:`\nabla C` (Cauchy and Schwarz).

    **Which learning rate.** Let no eigenvalue of the Hessian, no curvature, exceed
    :math:`\lambda`. Then by Taylor's formula, with :math:`\vec d = -\eta \nabla C`,

    .. math:: C(\theta + \vec d) \le C(\theta) - \eta\, \norm{\nabla C}^2
              + \tfrac12 \lambda \eta^2 \norm{\nabla C}^2 ,

    so that every step goes down if :math:`0 < \eta < 2 / \lambda`, and the bound is lowest at
    :math:`\eta = 1 / \lambda`. On a quadratic :math:`2 / \lambda` is sharp: beyond it the error
    along the steepest direction grows by :math:`\abs{1 - \eta \lambda} > 1` per step.

    **Numerics.** A step is computed in the dtype of the parameters.

    References
    ----------
    With noisy gradients: :cite:t:`RobbinsMonro1951`; in training: :cite:t:`Bottou2018`.

    Examples
    --------
    On :math:`C = \frac12 \lambda x^2` each step multiplies x by :math:`1 - \eta \lambda`. Here
    :math:`\lambda = 4`: a rate of 1/4 reaches the minimum in one step, with 1/2 the sign of x
    alternates forever.

    >>> from dlref.training import gradient_descent
    >>> def parabola(x):
    ...     return 2 * x**2, 4 * x
    >>> for rate in (0.125, 0.25, 0.5):
    ...     x, trace = gradient_descent(parabola, 8.0, learning_rate=rate, steps=3)
    ...     print(float(x), trace)
    1.0 [128.  32.   8.]
    0.0 [128.   0.   0.]
    -8.0 [128. 128. 128.]

    A long run can print its loss now and then. With the package tqdm the callback of a progress bar
    is ``lambda step, value, params: bar.update()``.

    >>> def report(step, value, params):
    ...     if step % 4 == 0:
    ...         print(step, round(value, 3))
    >>> x, _ = gradient_descent(parabola, 8.0, learning_rate=0.05, steps=16, callback=report)
    4 33.554
    8 5.629
    12 0.944
    16 0.158
    """
    steps = as_integer("steps", steps, least=0)
    check_callable("value_and_grad", value_and_grad)
    if callback is not None:
        check_callable("callback", callback)
    trace = np.empty(steps)
    params = tree_map("params", np.copy, params)
    for k in range(steps):
        rate = learning_rate(k + 1) if callable(learning_rate) else learning_rate
        eta = as_number("learning_rate", rate, least=0)
        trace[k], grads = value_and_grad(params)
        (params,) = updated(sgd, (eta, 0.0), params, grads)
        if callback is not None:
            callback(k + 1, float(trace[k]), params)
    return params, trace
