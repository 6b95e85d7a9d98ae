r"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._core.arguments import as_number
from .._core.pytree import as_state, displayed
from ._kernels.steps import sgd, updated


@displayed
class SGDState(NamedTuple):
    r"""
    State of :func:`sgd_step`: the number of steps.

    Parameters
    ----------
    step : int
        Number of steps so far.

    See Also
    --------
    sgd_step : Takes and returns it.

    Notes
    -----
    Plain descent needs no state; the counter makes it interchangeable with the others.

    Examples
    --------
    >>> from dlref.training import SGDState, sgd_step
    >>> params, state = sgd_step(1.0, 1.0, None, learning_rate=0.5)
    >>> state == SGDState(step=1)
    True
    """

    step: int


def sgd_step(
    params: Any,
    grads: Any,
    state: SGDState | None,
    *,
    learning_rate: float,
    weight_decay: float = 0.0,
) -> tuple[Any, SGDState]:
    r"""
    Step of gradient descent, :math:`\theta \leftarrow \theta - \eta\, \vec g`.

    Parameters
    ----------
    params : array_like, or tuple
        Parameters :math:`\theta`: an array, or tuples and named tuples of arrays, nested.
    grads : array_like, or tuple
        Gradient :math:`\vec g`, in the structure of `params`.
    state : SGDState or None
        The state that the step before returned; None starts.
    learning_rate : float
        Step size :math:`\eta \ge 0`.
    weight_decay : float
        Factor :math:`\lambda \ge 0` of the parameters that is added to the gradient.

    Returns
    -------
    params : array, or tuple
        The parameters after the step, in their structure and dtypes.
    state : SGDState
        For the next step.

    Raises
    ------
    TypeError
        If an array is not real, `state` is not an SGDState, or an option is not a number.
    ValueError
        If the gradient does not have the structure and the shapes of the parameters, or an option
        is negative.

    See Also
    --------
    gradient_descent : The loop around it.
    momentum_step : With a memory.

    Notes
    -----
    The step is the minimum of the tangent plane plus a penalty on the length of the step:

    .. math:: \theta^+ = \arg\min_{\vec t} \; \vec g \cdot (\vec t - \theta)
              + \frac{1}{2\eta} \norm{\vec t - \theta}^2 .

    Setting the derivative :math:`\vec g + (\vec t - \theta) / \eta` to zero gives
    :math:`\theta^+ = \theta - \eta\, \vec g`. The gradient of :math:`\frac{\lambda}{2}
    \norm\theta^2` is :math:`\lambda \theta`: weight decay shrinks the parameters by the factor
    :math:`1 - \eta \lambda` per step.

    It is called *stochastic* if the gradient is computed from a random part of the examples.

    Examples
    --------
    >>> from dlref.training import sgd_step
    >>> params, state = sgd_step(([1.0, 2.0], 3.0), ([2.0, 0.0], 4.0), None, learning_rate=0.25)
    >>> params
    (array([0.5, 2. ]), np.float64(2.0))
    """
    eta = as_number("learning_rate", learning_rate, least=0)
    decay = as_number("weight_decay", weight_decay, least=0)
    (step,) = as_state(SGDState, state)
    (params,) = updated(sgd, (eta, decay), params, grads)
    return params, SGDState(step + 1)
