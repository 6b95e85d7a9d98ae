r"""Momentum: the heavy ball, and Nesterov."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._core.arguments import as_number
from .._core.pytree import as_state, displayed
from ._kernels.steps import momentum as heavy_ball
from ._kernels.steps import nesterov, updated


@displayed
class MomentumState(NamedTuple):
    r"""
    State of :func:`momentum_step` and :func:`nesterov_step`.

    Parameters
    ----------
    step : int
        Number of steps so far.
    velocity : array, or tuple
        Decaying sum of the gradients, in the structure of the parameters, in the dtype
        that the step is computed in: float32 for float32 parameters, as in PyTorch.

    See Also
    --------
    momentum_step, nesterov_step : Take and return it.

    Notes
    -----
    The velocity has the units of a gradient: the learning rate is applied after it, so that
    a schedule acts at once.

    Examples
    --------
    >>> from dlref.training import MomentumState, momentum_step
    >>> params, state = momentum_step([1.0], [2.0], None, learning_rate=0.5)
    >>> state
    MomentumState(step=1, velocity=array([2.]))
    """

    step: int
    velocity: Any


def momentum_step(
    params: Any,
    grads: Any,
    state: MomentumState | None,
    *,
    learning_rate: float,
    momentum: float = 0.9,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
) -> tuple[Any, MomentumState]:
    r"""
    Step of gradient descent with momentum (the heavy ball).

    Parameters
    ----------
    params : array_like, or tuple
        Parameters :math:`\theta`: an array, or tuples and named tuples of arrays, nested.
    grads : array_like, or tuple
        Gradient :math:`\vec g`, in the structure of `params`.
    state : MomentumState or None
        The state that the step before returned; None starts.
    learning_rate : float
        Step size :math:`\eta \ge 0`.
    momentum : float
        Share :math:`\mu \ge 0` of the velocity that is kept; below 1, or it does not decay.
    dampening : float
        Share :math:`\tau` of the gradient that is left out, except in the first step.
    weight_decay : float
        Factor :math:`\lambda \ge 0` of the parameters that is added to the gradient.

    Returns
    -------
    params : array, or tuple
        The parameters after the step, in their structure and dtypes.
    state : MomentumState
        For the next step.

    Raises
    ------
    TypeError
        If an array is not real, `state` is not a MomentumState, or an option is not a number.
    ValueError
        If the gradient does not have the structure and the shapes of the parameters, or an option
        is out of range.

    See Also
    --------
    nesterov_step : Takes the gradient at a look-ahead point.
    sgd_step : Without memory.

    Notes
    -----
    .. math::

        \vec v_1 = \vec g_1 , \qquad
        \vec v_t = \mu\, \vec v_{t-1} + (1 - \tau)\, \vec g_t , \qquad
        \theta_t = \theta_{t-1} - \eta\, \vec v_t .

    Unrolled with :math:`\tau = 0`, the velocity is a sum of all gradients so far, each with the
    weight of its age:

    .. math:: \vec v_t = \sum_{s=1}^{t} \mu^{t-s}\, \vec g_s .

    Along a direction in which the gradient stays the same the terms add up, to
    :math:`\vec g / (1 - \mu)` in the end: ten times the step for :math:`\mu = 0.9`. Across a
    valley, where it changes sign at every step, they cancel but for :math:`\vec g / (1 + \mu)`,
    about half the step. Eliminating the velocity, at a constant rate and :math:`\tau = 0`,

    .. math:: \theta_t - \theta_{t-1} = \mu (\theta_{t-1} - \theta_{t-2}) - \eta\, \vec g_t ,

    is a ball with inertia and friction, in discrete time :cite:p:`Polyak1964`.

    The order of operations is PyTorch's: the learning rate multiplies the velocity, the
    first gradient is not dampened, weight decay goes into the velocity.

    Examples
    --------
    A constant gradient of 1: the steps grow towards 1 / (1 - 0.5) = 2.

    >>> from dlref.training import momentum_step
    >>> p, state = 0.0, None
    >>> for _ in range(4):
    ...     p, state = momentum_step(p, 1.0, state, learning_rate=1, momentum=0.5)
    ...     print(float(p), float(state.velocity))
    -1.0 1.0
    -2.5 1.5
    -4.25 1.75
    -6.125 1.875
    """
    eta = as_number("learning_rate", learning_rate, least=0)
    mu = as_number("momentum", momentum, least=0)
    fresh = 1.0 if state is None else 1.0 - as_number("dampening", dampening)
    decay = as_number("weight_decay", weight_decay, least=0)
    step, velocity = as_state(MomentumState, state)
    params, velocity = updated(heavy_ball, (eta, decay, mu, fresh), params, grads, (velocity,))
    return params, MomentumState(step + 1, velocity)


def nesterov_step(
    params: Any,
    grads: Any,
    state: MomentumState | None,
    *,
    learning_rate: float,
    momentum: float = 0.9,
    weight_decay: float = 0.0,
) -> tuple[Any, MomentumState]:
    r"""
    Step of gradient descent with Nesterov's momentum.

    Parameters
    ----------
    params : array_like, or tuple
        Parameters :math:`\theta`: an array, or tuples and named tuples of arrays, nested.
    grads : array_like, or tuple
        Gradient :math:`\vec g` at `params`, in their structure.
    state : MomentumState or None
        The state that the step before returned; None starts.
    learning_rate : float
        Step size :math:`\eta \ge 0`.
    momentum : float
        Share :math:`\mu \ge 0` of the velocity that is kept.
    weight_decay : float
        Factor :math:`\lambda \ge 0` of the parameters that is added to the gradient.

    Returns
    -------
    params : array, or tuple
        The parameters after the step, in their structure and dtypes.
    state : MomentumState
        For the next step.

    Raises
    ------
    TypeError
        If an array is not real, `state` is not a MomentumState, or an option is not a number.
    ValueError
        If the gradient does not have the structure and the shapes of the parameters, or an option
        is out of range.

    See Also
    --------
    momentum_step : Takes the gradient at the parameters.

    Notes
    -----
    The heavy ball takes the gradient at the current point and then adds the velocity. Nesterov's
    method adds the velocity first and takes the gradient at the look-ahead point
    :math:`\tilde\theta_{t-1} = \theta_{t-1} - \eta \mu\, \vec v_{t-1}`:

    .. math:: \vec v_t = \mu\, \vec v_{t-1} + \nabla C(\tilde\theta_{t-1}) , \qquad
              \theta_t = \theta_{t-1} - \eta\, \vec v_t .

    An optimizer gets the gradients at the parameters it returned, so these should be the
    look-ahead points themselves. Write the second equation for them, with
    :math:`\mu \vec v_{t-1} = \vec v_t - \vec g_t`:

    .. math::

        \tilde\theta_t = \theta_t - \eta \mu\, \vec v_t
               = \tilde\theta_{t-1} + \eta \mu\, \vec v_{t-1} - \eta\, \vec v_t
                 - \eta \mu\, \vec v_t
               = \tilde\theta_{t-1} - \eta\, (\vec g_t + \mu\, \vec v_t) .

    This is the step taken here and in PyTorch; `params` holds :math:`\tilde\theta`. The look-ahead
    form is from :cite:t:`Sutskever2013`, the form in :math:`\tilde\theta` from
    :cite:t:`Bengio2012`. For a convex function of bounded curvature, with a momentum that grows
    towards 1 in the right way, its error falls as :math:`1 / t^2`, the error of plain descent as
    :math:`1 / t` :cite:p:`Nesterov1983`.

    Examples
    --------
    The first step is 1 + momentum times as long as in plain descent:

    >>> from dlref.training import nesterov_step
    >>> p, state = nesterov_step(0.0, 1.0, None, learning_rate=1, momentum=0.5)
    >>> float(p)
    -1.5
    """
    eta = as_number("learning_rate", learning_rate, least=0)
    mu = as_number("momentum", momentum, least=0)
    decay = as_number("weight_decay", weight_decay, least=0)
    step, velocity = as_state(MomentumState, state)
    params, velocity = updated(nesterov, (eta, decay, mu), params, grads, (velocity,))
    return params, MomentumState(step + 1, velocity)
