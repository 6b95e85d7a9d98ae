r"""Adam, AdamW and NAdam: moving averages of gradients and of their squares."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .._core.arguments import as_bool, as_number
from .._core.pytree import as_state, displayed
from ._kernels.steps import adam, updated
from ._kernels.steps import amsgrad as with_largest


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


@displayed
class NAdamState(NamedTuple):
    r"""
    State of :func:`nadam_step`.

    Parameters
    ----------
    step : int
        Number of steps so far.
    product : float
        Product :math:`\Pi` of the momenta of all steps so far.
    mean, square : array, or tuple
        As in :class:`AdamState`.

    See Also
    --------
    nadam_step : Takes and returns it.

    Notes
    -----
    The product is kept because each step has another momentum.

    Examples
    --------
    >>> from dlref.training import NAdamState, nadam_step
    >>> options = {"learning_rate": 0.5, "betas": (0.5, 0.75), "momentum_decay": 0.0}
    >>> params, state = nadam_step([1.0], [2.0], None, **options)
    >>> NAdamState._fields
    ('step', 'product', 'mean', 'square')
    >>> float(state.product), state.mean, state.square
    (0.25, array([1.]), array([1.]))
    """

    step: int
    product: float
    mean: Any
    square: Any


def _coefficients(
    step: int,
    learning_rate: float,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
    decoupled: bool,
) -> tuple[float, float, tuple[float, ...]]:
    """Return learning rate and momentum, and the coefficients of a step that do not mix them."""
    eta = as_number("learning_rate", learning_rate, least=0)
    beta1, beta2 = checked_betas(betas)
    eps = as_number("eps", eps, least=0)
    decay = as_number("weight_decay", weight_decay, least=0)
    keep, decay = (1.0 - eta * decay, 0.0) if decoupled else (1.0, decay)
    scale = 1.0 / math.sqrt(1.0 - beta2**step)
    return eta, beta1, (keep, decay, beta1, 1.0 - beta1, beta2, 1.0 - beta2, scale, eps)


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
    largest = as_bool("amsgrad", largest)
    step, *slots = as_state(AdamState, state)
    step += 1
    eta, beta1, rest = _coefficients(step, learning_rate, betas, eps, weight_decay, decoupled)
    rates = eta / (1.0 - beta1**step), *(() if largest else (0.0,))
    params, *slots = updated(
        with_largest if largest else adam,
        (*rates, *rest),
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
    nadam_step : With Nesterov's momentum.
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


def nadam_step(
    params: Any,
    grads: Any,
    state: NAdamState | None,
    *,
    learning_rate: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    momentum_decay: float = 0.004,
    weight_decay: float = 0.0,
    decoupled_weight_decay: bool = False,
) -> tuple[Any, NAdamState]:
    r"""
    Step of NAdam: Adam with Nesterov's momentum.

    Parameters
    ----------
    params : array_like, or tuple
        Parameters :math:`\theta`: an array, or tuples and named tuples of arrays, nested.
    grads : array_like, or tuple
        Gradient :math:`\vec g`, in the structure of `params`.
    state : NAdamState or None
        The state that the step before returned; None starts.
    learning_rate : float
        Step size :math:`\eta \ge 0`, in units of the parameters.
    betas : tuple of float
        Decay rates :math:`\beta_1, \beta_2` of the two means, from 0 to less than 1.
    eps : float
        Number :math:`\epsilon \ge 0` that keeps the divisor from 0, in units of the gradient.
    momentum_decay : float
        Rate :math:`\psi \ge 0` at which the momentum rises from :math:`\beta_1 / 2` to
        :math:`\beta_1`.
    weight_decay : float
        Factor :math:`\lambda \ge 0`: of the parameters that are added to the gradient or, with
        `decoupled_weight_decay`, of the decay as in :func:`adamw_step`.
    decoupled_weight_decay : bool
        Whether the decay multiplies the parameters.

    Returns
    -------
    params : array, or tuple
        The parameters after the step, in their structure and dtypes.
    state : NAdamState
        For the next step.

    Raises
    ------
    TypeError
        If an array is not real, `state` is not an NAdamState, `betas` is not a pair, or an option
        is not a number or a bool.
    ValueError
        If the gradient does not have the structure and the shapes of the parameters, or an option
        is out of range.

    See Also
    --------
    adam_step : The two means.
    nesterov_step : The step that looks ahead.

    Notes
    -----
    A step of Adam mixes the old mean and the new gradient in the shares :math:`\beta_1` and
    :math:`1 - \beta_1`. Nesterov's step mixes the *new* mean and the new gradient instead, in the
    shares of the next step and of this one, as :func:`nesterov_step` does. NAdam
    :cite:p:`Dozat2016` puts this mixture above Adam's root, and each part has its own correction
    of the start. The momentum :math:`\mu_t` rises slowly:

    .. math::

        \mu_t &= \beta_1 \left( 1 - \tfrac12\, 0.96^{\psi t} \right) , \qquad
        \Pi_t = \Pi_{t-1}\, \mu_t , \qquad \Pi_0 = 1 , \\
        n_t &= \frac{\mu_{t+1}\, m_t}{1 - \Pi_{t+1}} + \frac{(1 - \mu_t)\, g_t}{1 - \Pi_t} , \qquad
        \theta_t = \theta_{t-1} - \eta\, \frac{n_t}{\sqrt{\hat v_t} + \epsilon} ,

    with :math:`m_t` and :math:`\hat v_t` of :func:`adam_step`.

    **Why the corrections differ.** A mean with the momenta :math:`\mu_1, \dots, \mu_t` that
    starts at 0 gives all gradients together the share :math:`1 - \Pi_t`: this share is 0 at the
    start, and each step makes the rest :math:`\mu_t` times smaller,

    .. math:: 1 - \bigl( \mu_t\, (1 - \Pi_{t-1}) + (1 - \mu_t) \bigr) = \Pi_t .

    The gradient is a part of the mean of step t, and the mean stands for the one of step t + 1.

    **How long the steps are.** As in Adam they are about :math:`\eta` where the gradient is steady,
    but the first ones are a little longer: with a constant momentum of 0.9, which is
    :math:`\psi \to \infty`, the first step is :math:`1.47\, \eta`, since
    :math:`\mu / (1 + \mu) + 1` is 1.47.

    **Conventions.** As ``torch.optim.NAdam``, which keeps the product in its default dtype,
    float32: :math:`m_t` decays by :math:`\beta_1` and only the mixture has the rising momentum. At
    the default :math:`\psi` the momentum is 0.45 in the first step and 0.81 after 10 000. Optax has
    ``nadam``, with the constant momentum :math:`\beta_1`.

    **Range.** As in :func:`adam_step`.

    References
    ----------
    - :cite:t:`Dozat2016`

    Examples
    --------
    With :math:`\psi = 0` the momentum stays :math:`\beta_1 / 2`, here 1/4. A gradient of 2 gives
    :math:`m = v = 1` and :math:`\sqrt{\hat v} = 2`. The mixture is :math:`n = \frac14 \big/
    \frac{15}{16} + 2 = \frac{34}{15}`, so the step is :math:`\frac{17}{15}` of the learning rate:

    >>> from dlref.training import nadam_step
    >>> options = {"learning_rate": 0.75, "betas": (0.5, 0.75), "eps": 0.0}
    >>> p, state = nadam_step(1.0, 2.0, None, momentum_decay=0.0, **options)
    >>> float(p), 0.75 * 17 / 15
    (0.1500, 0.8500)

    A constant momentum of 0.9 takes a long first step, the default one does not:

    >>> for decay in (1e9, 0.004):
    ...     p, _ = nadam_step(0.0, 1.0, None, learning_rate=1, momentum_decay=decay)
    ...     print(round(float(-p), 2))
    1.47
    1.06
    """
    psi = as_number("momentum_decay", momentum_decay, least=0)
    decoupled = as_bool("decoupled_weight_decay", decoupled_weight_decay)
    step, product, *slots = as_state(NAdamState, state)
    step += 1
    eta, beta1, rest = _coefficients(step, learning_rate, betas, eps, weight_decay, decoupled)
    now, following = (beta1 * (1.0 - 0.5 * 0.96 ** (t * psi)) for t in (step, step + 1))
    product = now if product is None else product * now
    rates = eta * following / (1.0 - product * following), eta * (1.0 - now) / (1.0 - product)
    params, *slots = updated(adam, (*rates, *rest), params, grads, tuple(slots))
    return params, NAdamState(step, product, *slots)
