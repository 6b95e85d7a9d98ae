r"""A step size for every parameter, learnt from its gradients: Adagrad, RMSprop, Adam, AdamW."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._tree import like, updated
from .._validate import FloatArray, as_number

__all__ = [
    "AdagradState",
    "AdamState",
    "RMSpropState",
    "adagrad_step",
    "adam_step",
    "adamw_step",
    "rmsprop_step",
]


class AdagradState(NamedTuple):
    r"""
    What :func:`adagrad_step` remembers.

    Parameters
    ----------
    step : int
        Number of steps so far.
    total : array, or tuple
        Sum of the squared gradients, in the structure of the parameters, in float64.

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


class RMSpropState(NamedTuple):
    r"""
    What :func:`rmsprop_step` remembers.

    Parameters
    ----------
    step : int
        Number of steps so far.
    square : array, or tuple
        Running mean of the squared gradients, in float64, as all that follows.
    mean : array, or tuple
        Running mean of the gradients; stays 0 unless ``centered``.
    velocity : array, or tuple
        Decaying sum of the scaled gradients; stays 0 without ``momentum``.

    See Also
    --------
    rmsprop_step : Takes and returns it.

    Notes
    -----
    Both means start at 0 and are not corrected for it.

    Examples
    --------
    >>> from dlref.training import RMSpropState, rmsprop_step
    >>> params, state = rmsprop_step([1.0], [2.0], None, learning_rate=0.5, alpha=0.75)
    >>> RMSpropState._fields
    ('step', 'square', 'mean', 'velocity')
    >>> state.square
    array([1.])
    """

    step: int
    square: Any
    mean: Any
    velocity: Any


class AdamState(NamedTuple):
    r"""
    What :func:`adam_step` and :func:`adamw_step` remember.

    Parameters
    ----------
    step : int
        Number of steps so far.
    mean : array, or tuple
        Running mean :math:`\vec m` of the gradients, in float64, as all that follows.
    square : array, or tuple
        Running mean :math:`\vec v` of the squared gradients.
    largest : array, or tuple
        Largest :math:`\vec v` so far; stays 0 unless ``amsgrad``.

    See Also
    --------
    adam_step, adamw_step : Take and return it.

    Notes
    -----
    The means are kept as they are, not yet corrected for their start at 0.

    Examples
    --------
    >>> from dlref.training import AdamState, adam_step
    >>> params, state = adam_step([1.0], [2.0], None, learning_rate=0.5, betas=(0.5, 0.75))
    >>> AdamState._fields
    ('step', 'mean', 'square', 'largest')
    >>> state.mean, state.square
    (array([1.]), array([1.]))
    """

    step: int
    mean: Any
    square: Any
    largest: Any


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
        Step size :math:`\eta \ge 0`, in units of the parameters: the first step's length.
    lr_decay : float
        Number :math:`\kappa \ge 0`; step t uses :math:`\eta / (1 + (t - 1) \kappa)`.
    weight_decay : float
        Factor :math:`\lambda \ge 0` of the parameters that is added to the gradient.
    initial_accumulator_value : float
        What the sums start with, at least 0.
    eps : float
        Number :math:`\varepsilon \ge 0` that keeps the divisor from 0, in units of the gradient.

    Returns
    -------
    params : array, or tuple
        The parameters after the step, in their structure and dtypes.
    state : AdagradState
        For the next step.

    Raises
    ------
    TypeError
        If an array is not real, or an option no number.
    ValueError
        If the gradient has not the structure and the shapes of the parameters, or an option
        is negative.

    See Also
    --------
    rmsprop_step : Forgets old gradients.

    Notes
    -----
    For each parameter by itself,

    .. math:: s_t = s_{t-1} + g_t^2 , \qquad
              \theta_t = \theta_{t-1} - \eta\, \frac{g_t}{\sqrt{s_t} + \varepsilon} .

    *Where the root comes from.* If the gradients of a parameter are bounded by G, descent with
    the constant rate :math:`\eta_0 / (G \sqrt T)` is best over T steps. Neither G nor T is known
    beforehand, but :math:`G \sqrt T` is about :math:`\sqrt{\sum_t g_t^2}`: Adagrad takes what
    it has seen so far. A parameter with rare gradients, as the embedding of a rare word,
    keeps a large rate for when they come :cite:p:`Duchi2011`.

    Multiplying all gradients by a constant changes nothing, if :math:`\varepsilon` is small.
    With gradients of constant size the steps fall as :math:`\eta / \sqrt t`.

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
    step, total = (0, like(params, start)) if state is None else state
    eta = eta / (1.0 + step * kappa)

    def rule(p: FloatArray, g: FloatArray, s: FloatArray) -> tuple[FloatArray, FloatArray]:
        g = g + decay * p if decay else g
        s = s + g * g
        return p - eta * (g / (np.sqrt(s) + eps)), s

    params, total = updated(rule, params, grads, total)
    return params, AdagradState(step + 1, total)


def rmsprop_step(
    params: Any,
    grads: Any,
    state: RMSpropState | None,
    *,
    learning_rate: float,
    alpha: float = 0.99,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    momentum: float = 0.0,
    centered: bool = False,
) -> tuple[Any, RMSpropState]:
    r"""
    Step of RMSprop: the gradient over the root of its mean square.

    Parameters
    ----------
    params : array_like, or tuple
        Parameters :math:`\theta`: an array, or tuples and named tuples of arrays, nested.
    grads : array_like, or tuple
        Gradient :math:`\vec g`, in the structure of `params`.
    state : RMSpropState or None
        The state that the step before returned; None starts.
    learning_rate : float
        Step size :math:`\eta \ge 0`, in units of the parameters.
    alpha : float
        Share :math:`\alpha` from 0 to 1 of the mean square that is kept: it reaches back over
        some :math:`1 / (1 - \alpha)` steps.
    eps : float
        Number :math:`\varepsilon \ge 0` that keeps the divisor from 0, in units of the gradient.
    weight_decay : float
        Factor :math:`\lambda \ge 0` of the parameters that is added to the gradient.
    momentum : float
        Share :math:`\mu \ge 0` of the velocity that is kept.
    centered : bool
        Whether to divide by the standard deviation instead of the root mean square.

    Returns
    -------
    params : array, or tuple
        The parameters after the step, in their structure and dtypes.
    state : RMSpropState
        For the next step.

    Raises
    ------
    TypeError
        If an array is not real, or an option no number.
    ValueError
        If the gradient has not the structure and the shapes of the parameters, or an option
        is out of range.

    See Also
    --------
    adagrad_step : Never forgets.
    adam_step : With a mean of the gradient, and both means corrected.

    Notes
    -----
    Adagrad's sum becomes a running mean, so that the step sizes can recover:

    .. math::

        s_t = \alpha\, s_{t-1} + (1 - \alpha)\, g_t^2 , \qquad
        d_t = \frac{g_t}{\sqrt{s_t} + \varepsilon} , \qquad
        v_t = \mu\, v_{t-1} + d_t , \qquad \theta_t = \theta_{t-1} - \eta\, v_t .

    Unrolled, :math:`s_t = (1 - \alpha) \sum_{i} \alpha^{t-i} g_i^2`. The mean starts at 0 and is
    too small by the factor :math:`1 - \alpha^t`: the first step is :math:`1 / \sqrt{1 - \alpha}`
    times too long, tenfold for 0.99. Adam repairs this.

    *Centred*, the mean m of the gradient is tracked as well and :math:`s_t - m_t^2`, a variance,
    replaces :math:`s_t`: steps get longer where the gradient is steady.

    G. Hinton proposed the method in his lectures of 2012; :math:`\varepsilon` stands outside the
    root, as in PyTorch.

    Examples
    --------
    The first step is 10 times the learning rate, then the mean fills up:

    >>> from dlref.training import rmsprop_step
    >>> p, state = 0.0, None
    >>> for _ in range(3):
    ...     last = p
    ...     p, state = rmsprop_step(p, 1.0, state, learning_rate=1)
    ...     print(round(float(last - p), 3))
    10.0
    7.089
    5.802
    """
    eta = as_number("learning_rate", learning_rate, least=0)
    alpha = as_number("alpha", alpha, least=0, most=1)
    eps = as_number("eps", eps, least=0)
    decay = as_number("weight_decay", weight_decay, least=0)
    mu = as_number("momentum", momentum, least=0)

    def rule(
        p: FloatArray, g: FloatArray, s: FloatArray, m: FloatArray, v: FloatArray
    ) -> tuple[FloatArray, ...]:
        g = g + decay * p if decay else g
        s = alpha * s + (1.0 - alpha) * (g * g)
        m = alpha * m + (1.0 - alpha) * g if centered else m
        direction = g / (np.sqrt(s - m * m) + eps)
        v = mu * v + direction if mu else v
        return p - eta * (v if mu else direction), s, m, v

    step, *slots = (0, *(like(params) for _ in range(3))) if state is None else state
    params, *slots = updated(rule, params, grads, *slots)
    return params, RMSpropState(step + 1, *slots)


def _adam(
    params: Any,
    grads: Any,
    state: AdamState | None,
    learning_rate: float,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
    amsgrad: bool,
    decoupled: bool,
) -> tuple[Any, AdamState]:
    eta = as_number("learning_rate", learning_rate, least=0)
    beta1, beta2 = _pair(betas)
    eps = as_number("eps", eps, least=0)
    decay = as_number("weight_decay", weight_decay, least=0)
    step, *slots = (0, *(like(params) for _ in range(3))) if state is None else state
    step += 1
    correction1 = 1.0 - beta1**step
    correction2 = math.sqrt(1.0 - beta2**step)

    def rule(
        p: FloatArray, g: FloatArray, m: FloatArray, v: FloatArray, top: FloatArray
    ) -> tuple[FloatArray, ...]:
        if decoupled:
            p = p * (1.0 - eta * decay)
        elif decay:
            g = g + decay * p
        m = beta1 * m + (1.0 - beta1) * g
        v = beta2 * v + (1.0 - beta2) * (g * g)
        top = np.maximum(top, v) if amsgrad else top
        root = np.sqrt(top if amsgrad else v) / correction2
        return p - eta / correction1 * m / (root + eps), m, v, top

    params, *slots = updated(rule, params, grads, *slots)
    return params, AdamState(step, *slots)


def _pair(betas: Any) -> tuple[float, float]:
    if not isinstance(betas, tuple | list) or len(betas) != 2:
        msg = f"Argument 'betas' must be a tuple of 2 numbers, not {betas!r}."
        raise TypeError(msg)
    first, second = (as_number(f"betas[{i}]", beta, least=0) for i, beta in enumerate(betas))
    for i, beta in enumerate((first, second)):
        if beta >= 1.0:
            msg = f"Argument 'betas[{i}]' must be less than 1, not {beta:g}."
            raise ValueError(msg)
    return first, second


def adam_step(
    params: Any,
    grads: Any,
    state: AdamState | None,
    *,
    learning_rate: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    amsgrad: bool = False,
) -> tuple[Any, AdamState]:
    r"""
    Step of Adam: the mean gradient over the root of the mean square.

    Parameters
    ----------
    params : array_like, or tuple
        Parameters :math:`\theta`: an array, or tuples and named tuples of arrays, nested.
    grads : array_like, or tuple
        Gradient :math:`\vec g`, in the structure of `params`.
    state : AdamState or None
        The state that the step before returned; None starts.
    learning_rate : float
        Step size :math:`\eta \ge 0`, in units of the parameters.
    betas : tuple of float
        Shares :math:`\beta_1, \beta_2`, from 0 to less than 1, of the two means that are kept.
    eps : float
        Number :math:`\varepsilon \ge 0` that keeps the divisor from 0, in units of the gradient.
    weight_decay : float
        Factor :math:`\lambda \ge 0` of the parameters that is added to the gradient.
    amsgrad : bool
        Whether to divide by the largest mean square so far.

    Returns
    -------
    params : array, or tuple
        The parameters after the step, in their structure and dtypes.
    state : AdamState
        For the next step.

    Raises
    ------
    TypeError
        If an array is not real, `betas` no pair, or an option no number.
    ValueError
        If the gradient has not the structure and the shapes of the parameters, or an option
        is out of range.

    See Also
    --------
    adamw_step : Weight decay that is not scaled.
    rmsprop_step : The divisor alone.

    Notes
    -----
    Two running means, of the gradient and of its square, both starting at 0:

    .. math:: m_t = \beta_1 m_{t-1} + (1 - \beta_1)\, g_t , \qquad
              v_t = \beta_2 v_{t-1} + (1 - \beta_2)\, g_t^2 .

    *Correction of the start.* Unrolled, :math:`m_t = (1 - \beta_1) \sum_{s=1}^t
    \beta_1^{t-s} g_s`. If the gradients have the expectation :math:`\E[g]`,

    .. math:: \E[m_t] = (1 - \beta_1)\, \E[g] \sum_{s=1}^{t} \beta_1^{t-s}
                      = (1 - \beta_1^t)\, \E[g] ,

    by the geometric sum, and likewise for :math:`v_t`. Dividing by the bracket removes the bias:

    .. math::

        \hat m_t = \frac{m_t}{1 - \beta_1^t} , \qquad \hat v_t = \frac{v_t}{1 - \beta_2^t} , \qquad
        \theta_t = \theta_{t-1} - \eta\, \frac{\hat m_t}{\sqrt{\hat v_t} + \varepsilon} .

    The first step is :math:`\eta \operatorname{sign}(g_1)`. Later ones are about :math:`\eta`
    where the gradient is steady, and less the more it is noise: :math:`\abs{\hat m} /
    \sqrt{\hat v}` is a signal-to-noise ratio. The scale of the loss cancels.

    With *AMSGrad* the largest :math:`v` so far stands under the root, as PyTorch has it: before
    the correction, which is applied to the maximum.

    References
    ----------
    Algorithm 1 of :cite:t:`KingmaBa2015`.

    Examples
    --------
    The first step has the length of the learning rate, whatever the gradient is:

    >>> from dlref.training import adam_step
    >>> p, state = adam_step([0.0, 0.0], [1e-3, -1e3], None, learning_rate=0.5, eps=0)
    >>> p
    array([-0.5,  0.5])

    Gradients that keep changing sign cancel in the mean, but not in the root. In the end
    :math:`\hat m = (1 - \beta_1) / (1 + \beta_1)`, and the steps are 19 times shorter:

    >>> p, state = 0.0, None
    >>> for t in range(500):
    ...     last = p
    ...     p, state = adam_step(p, (-1.0) ** t, state, learning_rate=1)
    >>> float(1 / abs(p - last))
    19.0000
    """
    return _adam(
        params, grads, state, learning_rate, betas, eps, weight_decay, amsgrad, decoupled=False
    )


def adamw_step(
    params: Any,
    grads: Any,
    state: AdamState | None,
    *,
    learning_rate: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    amsgrad: bool = False,
) -> tuple[Any, AdamState]:
    r"""
    Step of AdamW: Adam, with the weights decaying beside it.

    Parameters
    ----------
    params : array_like, or tuple
        Parameters :math:`\theta`: an array, or tuples and named tuples of arrays, nested.
    grads : array_like, or tuple
        Gradient :math:`\vec g`, in the structure of `params`.
    state : AdamState or None
        The state that the step before returned; None starts.
    learning_rate : float
        Step size :math:`\eta \ge 0`, in units of the parameters.
    betas : tuple of float
        Shares, from 0 to less than 1, of the two means that are kept.
    eps : float
        Number, at least 0, that keeps the divisor from 0, in units of the gradient.
    weight_decay : float
        Share :math:`\lambda \ge 0` of the parameters that is lost a step, times the learning
        rate.
    amsgrad : bool
        Whether to divide by the largest mean square so far.

    Returns
    -------
    params : array, or tuple
        The parameters after the step, in their structure and dtypes.
    state : AdamState
        For the next step.

    Raises
    ------
    TypeError
        If an array is not real, `betas` no pair, or an option no number.
    ValueError
        If the gradient has not the structure and the shapes of the parameters, or an option
        is out of range.

    See Also
    --------
    adam_step : The derivation of the step.

    Notes
    -----
    In plain descent it is the same whether :math:`\lambda \theta` is added to the gradient or
    the parameters are multiplied by :math:`1 - \eta \lambda`. In Adam it is not: what is added
    to the gradient is divided by :math:`\sqrt{\hat v}` with it, so a parameter with large
    gradients would hardly decay. AdamW decouples the two :cite:p:`LoshchilovHutter2019`:

    .. math:: \theta_t = (1 - \eta \lambda)\, \theta_{t-1}
              - \eta\, \frac{\hat m_t}{\sqrt{\hat v_t} + \varepsilon} ,

    with the means of the bare gradient. As in PyTorch the decay follows the learning rate
    and its schedule; in the paper it has a schedule of its own.

    Examples
    --------
    Without a gradient only the decay is left:

    >>> from dlref.training import adam_step, adamw_step
    >>> p, _ = adamw_step([8.0, -8.0], [0.0, 0.0], None, learning_rate=0.5, weight_decay=0.25)
    >>> p
    array([ 7., -7.])

    Adam turns the same decay into a step of the full learning rate:

    >>> p, _ = adam_step([8.0, -8.0], [0.0, 0.0], None, learning_rate=0.5, weight_decay=0.25)
    >>> p
    array([ 7.5, -7.5])
    """
    return _adam(
        params, grads, state, learning_rate, betas, eps, weight_decay, amsgrad, decoupled=True
    )
