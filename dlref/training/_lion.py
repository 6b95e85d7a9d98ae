r"""Lion: steps of the sign of a mean."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._core.arguments import as_number
from .._core.pytree import as_state, displayed
from ._adam import checked_betas
from ._kernels.steps import lion, updated


@displayed
class LionState(NamedTuple):
    r"""
    State of :func:`lion_step`.

    Parameters
    ----------
    step : int
        Number of steps so far.
    mean : array, or tuple
        Running mean :math:`\vec m` of the gradients, in the dtype that the step is computed in:
        float32 for float32 parameters.

    See Also
    --------
    lion_step : Takes and returns it.

    Notes
    -----
    The mean starts at 0 and is not corrected for it, because a sign does not depend on its size.

    Examples
    --------
    >>> from dlref.training import LionState, lion_step
    >>> params, state = lion_step([1.0], [2.0], None, learning_rate=0.5, betas=(0.5, 0.75))
    >>> state
    LionState(step=1, mean=array([0.5]))
    """

    step: int
    mean: Any


def lion_step(
    params: Any,
    grads: Any,
    state: LionState | None,
    *,
    learning_rate: float,
    betas: tuple[float, float] = (0.9, 0.99),
    weight_decay: float = 0.0,
) -> tuple[Any, LionState]:
    r"""
    Step of Lion: the sign of a mean of the gradients, with decoupled weight decay.

    It was found by a search over programs and has been used to train image and language models. Its
    state is half as large as Adam's.

    Parameters
    ----------
    params : array_like, or tuple
        Parameters :math:`\theta`: an array, or tuples and named tuples of arrays, nested.
    grads : array_like, or tuple
        Gradient :math:`\vec g`, in the structure of `params`.
    state : LionState or None
        The state that the step before returned; None starts.
    learning_rate : float
        Step size :math:`\eta \ge 0`, in units of the parameters: each moves by just this, and by
        the decay.
    betas : tuple of float
        Share :math:`\beta_1` of the mean in the step, and share :math:`\beta_2` of the mean that is
        kept, from 0 to less than 1.
    weight_decay : float
        Share :math:`\lambda \ge 0` of the parameters that each step removes, times the learning
        rate.

    Returns
    -------
    params : array, or tuple
        The parameters after the step, in their structure and dtypes.
    state : LionState
        For the next step.

    Raises
    ------
    TypeError
        If an array is not real, `state` is not a LionState, `betas` is not a pair, or an option is
        not a number.
    ValueError
        If the gradient does not have the structure and the shapes of the parameters, or an option
        is out of range.

    See Also
    --------
    adamw_step : Divides by a root mean square.
    muon_step : Does to singular values what a sign does to elements.

    Notes
    -----
    The sign is the sign of a mean with one decay, and the mean that is kept has another:

    .. math::

        c_t = \beta_1 m_{t-1} + (1 - \beta_1)\, g_t , \qquad
        \theta_t = (1 - \eta \lambda)\, \theta_{t-1} - \eta \operatorname{sign}(c_t) , \qquad
        m_t = \beta_2 m_{t-1} + (1 - \beta_2)\, g_t .

    The newest gradient has the share 0.1 in the step and 0.01 in the mean by default, so the mean
    looks back over 100 steps and the step still reacts to the present, as with Nesterov's
    momentum. With :math:`\beta_1 = \beta_2` the step is the sign of the mean that is kept.

    **How long the steps are.** Apart from the decay, each parameter moves by :math:`\eta` in every
    step, near a minimum too. Adam's first step is the same; its later steps shrink where the
    gradient is noise. So Lion needs a learning rate three to ten times smaller than AdamW, and a
    weight decay as many times larger :cite:p:`ChenLion2023`. A schedule that ends near 0 matters
    more.

    **signSGD** :cite:p:`BernsteinSign2018` is the case without a mean, ``betas=(0, 0)``: each step
    is the sign of the newest gradient, which workers can send as one bit a parameter. With equal
    betas it is *Signum*, the sign of the momentum.

    **Weight decay bounds the weights.** With :math:`\eta \lambda \le 1`,

    .. math:: \abs{\theta_t} - \frac{1}{\lambda} \le (1 - \eta \lambda)
       \Bigl( \abs{\theta_{t-1}} - \frac{1}{\lambda} \Bigr) ,

    because :math:`\abs{\theta_t} \le (1 - \eta \lambda) \abs{\theta_{t-1}} + \eta`. Weights within
    :math:`1 / \lambda` never leave this interval, whatever the gradients are.

    **Ties.** Where :math:`c_t` is 0, its sign is 0 and only the decay acts.

    References
    ----------
    - Program 1 of :cite:t:`ChenLion2023`

    Examples
    --------
    Every parameter moves by the learning rate, except where there is no gradient:

    >>> from dlref.training import lion_step
    >>> p, state = lion_step([1.0, 1.0, 1.0], [1e-9, -1e9, 0.0], None, learning_rate=0.25)
    >>> p
    array([0.75, 1.25, 1.  ])

    signSGD has no memory:

    >>> _, state = lion_step([1.0], [8.0], None, learning_rate=0.25, betas=(0, 0))
    >>> lion_step([1.0], [-1e-9], state, learning_rate=0.25, betas=(0, 0))[0]
    array([1.25])

    A single gradient of the other sign turns the step if it is larger than
    :math:`\beta_1 / (1 - \beta_1)` times the mean:

    >>> _, state = lion_step(0.0, 8.0, None, learning_rate=1, betas=(0.75, 0.75))
    >>> float(state.mean)
    2.0
    >>> [float(lion_step(0.0, g, state, learning_rate=1, betas=(0.75, 0.75))[0]) for g in (-5, -7)]
    [-1.0, 1.0]
    """
    eta = as_number("learning_rate", learning_rate, least=0)
    beta1, beta2 = checked_betas(betas)
    decay = as_number("weight_decay", weight_decay, least=0)
    step, mean = as_state(LionState, state)
    numbers = (eta, 1.0 - eta * decay, beta1, 1.0 - beta1, beta2, 1.0 - beta2)
    params, mean = updated(lion, numbers, params, grads, (mean,))
    return params, LionState(step + 1, mean)
