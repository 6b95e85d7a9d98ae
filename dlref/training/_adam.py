r"""Adam and AdamW: moving averages of gradients and of their squares."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .._core.arguments import as_bool, as_number
from .._core.pytree import as_state, displayed
from ._kernels.steps import adam, updated
from ._kernels.steps import amsgrad as with_largest

__all__ = ["AdamState", "adam_step", "adamw_step"]


@displayed
class AdamState(NamedTuple):
    r"""
    State of :func:`adam_step` and :func:`adamw_step`.

    Parameters
    ----------
    step : int
        Number of steps so far.
    mean : array, or tuple
        Running mean :math:`\vec m` of the gradients, in the dtype that the step is
        computed in: float32 for float32 parameters, as in PyTorch.
    square : array, or tuple
        Running mean :math:`\vec v` of the squared gradients. An element out of the range of the
        dtype is stored as minus its root.
    largest : array, tuple or None
        Largest :math:`\vec v` so far; None unless ``amsgrad``.

    See Also
    --------
    adam_step, adamw_step : Take and return it.

    Notes
    -----
    The means are stored without the correction for their start at 0.

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


def _adam(
    params: Any,
    grads: Any,
    state: AdamState | None,
    learning_rate: float,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
    largest: bool,
    decoupled: bool,
) -> tuple[Any, AdamState]:
    eta = as_number("learning_rate", learning_rate, least=0)
    beta1, beta2 = checked_betas(betas)
    eps = as_number("eps", eps, least=0)
    decay = as_number("weight_decay", weight_decay, least=0)
    largest = as_bool("amsgrad", largest)
    step, *slots = as_state(AdamState, state)
    step += 1
    rate = eta / (1.0 - beta1**step)
    keep, decay = (1.0 - eta * decay, 0.0) if decoupled else (1.0, decay)
    averages = beta1, 1.0 - beta1, beta2, 1.0 - beta2, 1.0 / math.sqrt(1.0 - beta2**step)
    params, *slots = updated(
        with_largest if largest else adam,
        (rate, keep, decay, *averages, eps),
        params,
        grads,
        tuple(slots if largest else slots[:2]),
    )
    return params, AdamState(step, *slots, *(() if largest else (None,)))


def checked_betas(betas: Any) -> tuple[float, float]:
    """Return the decay rates of two means."""
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
        Decay rates :math:`\beta_1, \beta_2` of the two means, from 0 to less than 1.
    eps : float
        Number :math:`\epsilon \ge 0` that keeps the divisor from 0, in units of the gradient.
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
        If an array is not real, `state` is not an AdamState, `betas` is not a pair, or an
        option is not a number.
    ValueError
        If the gradient does not have the structure and the shapes of the parameters, or an option
        is out of range.

    See Also
    --------
    adamw_step : Weight decay that is not scaled.
    rmsprop_step : The divisor alone.

    Notes
    -----
    Adam is momentum and RMSprop in one. It keeps a running mean of the gradient and one of its
    square, which both start at 0. Each is corrected for that start, and the step is the
    learning rate times the first over the root of the second. Every operation is element by
    element, so each parameter has a step size of its own:

    .. math::

        m_t &= \beta_1 m_{t-1} + (1 - \beta_1)\, g_t , &
        \qquad \hat m_t &= \frac{m_t}{1 - \beta_1^t} , \\
        v_t &= \beta_2 v_{t-1} + (1 - \beta_2)\, g_t^2 , &
        \qquad \hat v_t &= \frac{v_t}{1 - \beta_2^t} , \\
        \theta_t &= \theta_{t-1} - \eta\, \frac{\hat m_t}{\sqrt{\hat v_t} + \epsilon} .

    **Why the means are corrected.** Unrolled, :math:`m_t = (1 - \beta_1) \sum_{s=1}^t
    \beta_1^{t-s} g_s`. If the gradients have the expectation :math:`\E[g]`,

    .. math:: \E[m_t] = (1 - \beta_1)\, \E[g] \sum_{s=1}^{t} \beta_1^{t-s}
                      = (1 - \beta_1^t)\, \E[g] ,

    by the geometric sum, and likewise for :math:`v_t`. Dividing by :math:`1 - \beta_1^t` or
    :math:`1 - \beta_2^t` removes the bias.

    **How long the steps are.** The first step is :math:`\eta \operatorname{sign}(g_1)`. Later ones
    are about :math:`\eta` where the gradient is steady, and less the more it is noise:
    :math:`\abs{\hat m} / \sqrt{\hat v}` is a signal-to-noise ratio. The scale of the loss cancels.
    They can be longer: a single gradient after many zeros takes a step of
    :math:`\eta (1 - \beta_1) / \sqrt{1 - \beta_2}`, which is :math:`3.2\, \eta` for the default
    `betas`.

    **Weight decay.** With :math:`\lambda > 0` the gradient is :math:`g_t + \lambda \theta_{t-1}`
    from the start, so the decay is in both means.

    **AMSGrad.** A large gradient that occurs rarely is soon forgotten by :math:`v`. Then Adam can
    move to the wrong end of an interval even on a convex loss (:cite:t:`Reddi2018`; the sixth
    exercise is their example). With `amsgrad` the largest :math:`v` so far stands under the root;
    as in PyTorch, the maximum is taken before the correction.

    **Yogi.** Another remedy: :math:`v` becomes :math:`v_{t-1} + (1 - \beta_2)\, g_t^2
    \operatorname{sign}(g_t^2 - v_{t-1})`, so that its decrease in a step does not grow with
    :math:`v` itself (:cite:t:`Zaheer2018`). dlref does not have it.

    **Memory.** The state is two arrays of the size of the parameters, three with `amsgrad`.

    **Range.** The step is also right for gradients whose square overflows (from 1e154 in float64 or
    1e19 in float32 on) or underflows (below 1e-154 or 1e-19): the state then holds minus the root
    of :math:`v`. In PyTorch such a :math:`v` becomes infinite, and the steps 0; or it loses its
    digits and becomes 0.

    References
    ----------
    - Algorithm 1 of :cite:t:`KingmaBa2015`
    - AMSGrad: :cite:t:`Reddi2018`

    Examples
    --------
    Two steps by hand, with :math:`\beta_1 = \frac12`, :math:`\beta_2 = \frac34`, and the gradients
    2 and −2. First :math:`m = v = 1`; divided by 1/2 and 1/4 they are 2 and 4, so the step is
    :math:`\eta`. Then :math:`m = -\frac12` and :math:`v = \frac74`; divided by 3/4 and 7/16 they
    are −2/3 and 4, and the step back is :math:`\eta / 3`:

    >>> from dlref.training import adam_step
    >>> options = {"learning_rate": 0.75, "betas": (0.5, 0.75), "eps": 0.0}
    >>> p, state = adam_step(1.0, 2.0, None, **options)
    >>> float(p)
    0.25
    >>> p, state = adam_step(p, -2.0, state, **options)
    >>> float(p)
    0.5000

    The first step has the length of the learning rate, whatever the gradient is:

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

    The square of this gradient overflows in float64. Its root does not, nor does the step:

    >>> p, state = adam_step([0.0], [1e160], None, learning_rate=0.5, betas=(0.75, 0.75))
    >>> p, state.square
    (array([-0.5]), array([-5.e+159]))
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
    Step of AdamW: Adam with decoupled weight decay.

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
        Decay rates :math:`\beta_1, \beta_2` of the two means, from 0 to less than 1.
    eps : float
        Number :math:`\epsilon \ge 0` that keeps the divisor from 0, in units of the gradient.
    weight_decay : float
        Rate :math:`\lambda \ge 0` of the decay: each step removes the share :math:`\eta \lambda`
        of the parameters.
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
        If an array is not real, `state` is not an AdamState, `betas` is not a pair, or an
        option is not a number.
    ValueError
        If the gradient does not have the structure and the shapes of the parameters, or an option
        is out of range.

    See Also
    --------
    adam_step : The derivation of the step.

    Notes
    -----
    In plain descent it is the same whether :math:`\lambda \theta` is added to the gradient or the
    parameters are multiplied by :math:`1 - \eta \lambda`. In Adam it is not: a term added to the
    gradient is divided by :math:`\sqrt{\hat v}` with it, so a parameter with large gradients would
    hardly decay. AdamW decouples the two :cite:p:`LoshchilovHutter2019`:

    .. math:: \theta_t = (1 - \eta \lambda)\, \theta_{t-1}
              - \eta\, \frac{\hat m_t}{\sqrt{\hat v_t} + \epsilon} ,

    with the corrected means of :func:`adam_step`, of the gradient without the decay. As in PyTorch
    the decay is multiplied by the learning rate; in the paper one schedule :math:`\eta_t`
    multiplies both the step and the decay, and :math:`\lambda` is not multiplied by the base rate
    :math:`\alpha`.

    Examples
    --------
    Without a gradient only the decay remains:

    >>> from dlref.training import adam_step, adamw_step
    >>> p, _ = adamw_step([8.0, -8.0], [0.0, 0.0], None, learning_rate=0.5, weight_decay=0.25)
    >>> p
    array([ 7., -7.])

    With Adam the same decay becomes a step of the full learning rate:

    >>> p, _ = adam_step([8.0, -8.0], [0.0, 0.0], None, learning_rate=0.5, weight_decay=0.25)
    >>> p
    array([ 7.5, -7.5])
    """
    return _adam(
        params, grads, state, learning_rate, betas, eps, weight_decay, amsgrad, decoupled=True
    )
