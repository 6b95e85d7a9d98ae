r"""RMSprop: step sizes from a moving average of squared gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._core.arguments import as_bool, as_number
from .._core.pytree import as_state, displayed
from ._kernels.steps import rmsprop, updated


@displayed
class RMSpropState(NamedTuple):
    r"""
    State of :func:`rmsprop_step`.

    Parameters
    ----------
    step : int
        Number of steps so far.
    square : array, or tuple
        Running mean of the squared gradients, in the dtype that the step is computed in: float32
        for float32 parameters, as in PyTorch. A mean square out of the range of that dtype is
        stored as minus its root.
    mean : array, tuple or None
        Running mean of the gradients; None unless ``centered``.
    velocity : array, tuple or None
        Decaying sum of the scaled gradients; None without ``momentum``.

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
        Number :math:`\epsilon \ge 0` that keeps the divisor from 0, in units of the gradient.
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
        If an array is not real, `state` is not an RMSpropState, or an option is not a number.
    ValueError
        If the gradient does not have the structure and the shapes of the parameters, or an option
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
        d_t = \frac{g_t}{\sqrt{s_t} + \epsilon} , \qquad
        v_t = \mu\, v_{t-1} + d_t , \qquad \theta_t = \theta_{t-1} - \eta\, v_t .

    Unrolled, :math:`s_t = (1 - \alpha) \sum_{i} \alpha^{t-i} g_i^2`. The mean starts at 0 and is
    too small by the factor :math:`1 - \alpha^t`: the first step is :math:`1 / \sqrt{1 - \alpha}`
    times too long, 10 times for 0.99. Adam corrects this.

    *Centered*, the mean m of the gradient is tracked as well and :math:`s_t - m_t^2`, a variance,
    replaces :math:`s_t`: steps get longer where the gradient is steady. Rounding can make that
    difference negative; it is then taken as 0, where PyTorch returns NaN.

    **Range.** The step is also right for gradients whose square overflows (from 1e154 in float64 or
    1e19 in float32 on) or underflows (below 1e-154 or 1e-19): the state then holds minus the root
    of the mean square. PyTorch's becomes infinite and its steps 0; or it loses its digits, and
    becomes 0.

    G. Hinton proposed the method in his lectures of 2012; :math:`\epsilon` stands outside the
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
    step, *slots = as_state(RMSpropState, state)
    params, *slots = updated(
        rmsprop,
        (eta, decay, alpha, 1.0 - alpha, eps, mu),
        params,
        grads,
        tuple(slots),
        used=(True, as_bool("centered", centered), mu > 0.0),
    )
    return params, RMSpropState(step + 1, *slots)
