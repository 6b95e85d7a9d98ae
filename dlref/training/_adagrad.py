r"""Adagrad: step sizes from the sum of squared gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._core.arguments import as_number
from .._core.pytree import as_state, displayed
from ._kernels.steps import adagrad, updated


@displayed
class AdagradState(NamedTuple):
    r"""
    State of :func:`adagrad_step`.

    Parameters
    ----------
    step : int
        Number of steps so far.
    total : array, or tuple
        Sum of the squared gradients, in the structure of the parameters, in the dtype
        that the step is computed in: float32 for float32 parameters, as in PyTorch. A sum out of
        the range of that dtype is stored as minus its root.

    See Also
    --------
    adagrad_step : Takes and returns it.

    Notes
    -----
    The sum never falls, so the step sizes never grow.

    Examples
    --------
    >>> from dlref.training import AdagradState, adagrad_step
    >>> params, state = adagrad_step([1.0], [3.0], None, learning_rate=0.5)
    >>> state
    AdagradState(step=1, total=array([9.]))
    """

    step: int
    total: Any


def adagrad_step(
    params: Any,
    grads: Any,
    state: AdagradState | None,
    *,
    learning_rate: float,
    lr_decay: float = 0.0,
    weight_decay: float = 0.0,
    initial_accumulator_value: float = 0.0,
    eps: float = 1e-10,
) -> tuple[Any, AdagradState]:
    r"""
    Step of Adagrad: each parameter's rate falls with the gradients it has seen.

    Parameters
    ----------
    params : array_like, or tuple
        Parameters :math:`\theta`: an array, or tuples and named tuples of arrays, nested.
    grads : array_like, or tuple
        Gradient :math:`\vec g`, in the structure of `params`.
    state : AdagradState or None
        The state that the step before returned; None starts.
    learning_rate : float
        Step size :math:`\eta \ge 0`, in units of the parameters: the first step of each parameter,
        if the sums start with 0.
    lr_decay : float
        Number :math:`\kappa \ge 0`; step t uses :math:`\eta / (1 + (t - 1) \kappa)`.
    weight_decay : float
        Factor :math:`\lambda \ge 0` of the parameters that is added to the gradient.
    initial_accumulator_value : float
        Initial value of the sums, at least 0.
    eps : float
        Number :math:`\epsilon \ge 0` that keeps the divisor from 0, in units of the gradient.

    Returns
    -------
    params : array, or tuple
        The parameters after the step, in their structure and dtypes.
    state : AdagradState
        For the next step.

    Raises
    ------
    TypeError
        If an array is not real, `state` is not an AdagradState, or an option is not a number.
    ValueError
        If the gradient does not have the structure and the shapes of the parameters, or an option
        is negative.

    See Also
    --------
    rmsprop_step : Forgets old gradients.

    Notes
    -----
    For each parameter separately,

    .. math:: s_t = s_{t-1} + g_t^2 , \qquad
              \theta_t = \theta_{t-1} - \eta\, \frac{g_t}{\sqrt{s_t} + \epsilon} .

    **Where the root comes from.** Let the losses :math:`\ell_t` be convex in one parameter, with
    gradients :math:`g_t` at :math:`\theta_{t-1}`, and let all parameters lie in an interval of
    length D. The *regret* is the excess loss compared with the best fixed :math:`\theta^*`; by
    convexity it is at most :math:`\sum_t g_t (\theta_{t-1} - \theta^*)`. A step of length
    :math:`\eta_t g_t` changes the squared distance to :math:`\theta^*` by

    .. math:: (\theta_t - \theta^*)^2 - (\theta_{t-1} - \theta^*)^2
       = -2 \eta_t g_t (\theta_{t-1} - \theta^*) + \eta_t^2 g_t^2 .

    Solve for the term of the regret and add up over t. In the sum the first squared distance has
    the factor :math:`\frac{1}{2 \eta_1}`, the one after step :math:`t < n` the factor
    :math:`\frac{1}{2 \eta_{t+1}} - \frac{1}{2 \eta_t}`, which is not negative if the rates do not
    grow, and the last one a negative factor. Each is at most :math:`D^2`, and the factors that are
    not negative add up to :math:`\frac{1}{2 \eta_n}`:

    .. math:: \sum_{t=1}^{n} g_t (\theta_{t-1} - \theta^*)
       \le \frac{D^2}{2 \eta_n} + \frac12 \sum_{t=1}^{n} \eta_t g_t^2 .

    The best *constant* rate is :math:`\eta = D / \sqrt{s_n}` with :math:`s_n = \sum_t g_t^2`, for a
    bound of :math:`D \sqrt{s_n}`, but :math:`s_n` is known only at the end. Adagrad uses the sum so
    far, :math:`\eta_t = \eta / \sqrt{s_t}`. The difference :math:`\sqrt{s_t} - \sqrt{s_{t-1}}` is
    :math:`g_t^2 / (\sqrt{s_t} + \sqrt{s_{t-1}})`, at least :math:`g_t^2 / (2 \sqrt{s_t})`, hence

    .. math:: \sum_{t=1}^{n} \frac{g_t^2}{\sqrt{s_t}} \le 2 \sqrt{s_n} , \qquad
       \text{regret} \le \Bigl( \frac{D^2}{2 \eta} + \eta \Bigr) \sqrt{s_n} ,

    which for :math:`\eta = D / \sqrt 2` is :math:`\sqrt 2` times the bound of the best constant
    rate. A parameter with rare gradients, such as the embedding of a rare word, keeps a large rate
    :cite:p:`Duchi2011`.

    Multiplying all gradients by a constant changes nothing, if :math:`\epsilon` is small.
    With gradients of constant size the steps fall as :math:`\eta / \sqrt t`.

    **Range.** The step is also right for gradients whose square overflows (from 1e154 in float64 or
    1e19 in float32 on) or underflows (below 1e-154 or 1e-19): the state then holds minus the root
    of the sum. PyTorch's becomes infinite and its steps 0; or it loses its digits, and becomes 0.

    Examples
    --------
    The two gradients differ by a factor of a thousand, the steps do not:

    >>> from dlref.training import adagrad_step
    >>> p, state = [0.0, 0.0], None
    >>> for _ in range(4):
    ...     p, state = adagrad_step(p, [1.0, 1000.0], state, learning_rate=1)
    >>> p  # -(1 + 1/sqrt(2) + 1/sqrt(3) + 1/2)
    array([-2.7844571, -2.7844571])
    """
    eta = as_number("learning_rate", learning_rate, least=0)
    kappa = as_number("lr_decay", lr_decay, least=0)
    decay = as_number("weight_decay", weight_decay, least=0)
    start = as_number("initial_accumulator_value", initial_accumulator_value, least=0)
    eps = as_number("eps", eps, least=0)
    step, total = as_state(AdagradState, state)
    eta = eta / (1.0 + step * kappa)
    params, total = updated(adagrad, (eta, decay, eps, 1.0), params, grads, (total,), start=start)
    return params, AdagradState(step + 1, total)
