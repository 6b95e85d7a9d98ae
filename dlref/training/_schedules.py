r"""Learning rates that follow the step number."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_floats, as_integer, as_number, result

__all__ = ["cosine_schedule", "inverse_sqrt_schedule", "warmup_schedule"]


def _steps(step: npt.ArrayLike) -> FloatArray:
    _, (t,) = as_floats({"step": step})
    if not np.all(t >= 0.0):
        msg = f"Argument 'step' must be at least 0, not {np.min(t):g}."
        raise ValueError(msg)
    return t


def _finish(rate: FloatArray) -> FloatArray:
    return result(rate, np.dtype(np.float64))


def warmup_schedule(step: npt.ArrayLike, *, peak: float, warmup: int) -> FloatArray:
    r"""
    Learning rate that rises linearly to its peak and stays there.

    Parameters
    ----------
    step : array_like
        Number t of the step, from 1; at 0 the rate is 0, unless there is no warmup.
    peak : float
        Rate :math:`\eta` after the warmup, at least 0.
    warmup : int
        Number W of steps to the peak, at least 0.

    Returns
    -------
    ndarray or scalar, shape of `step`
        Learning rate in float64.

    Raises
    ------
    TypeError
        If `step` is not real, `peak` is not a number or `warmup` is not
        an integer.
    ValueError
        If one of them is negative.

    See Also
    --------
    cosine_schedule, inverse_sqrt_schedule : Fall again after the warmup.

    Notes
    -----
    .. math:: \eta_t = \eta\, \min\Bigl( 1, \frac{t}{W} \Bigr) .

    The running means of an adaptive optimizer are poor estimates at first: after one step of Adam,
    :math:`\hat v` is the square of a single gradient. Small steps limit the damage meanwhile.

    Examples
    --------
    >>> from dlref.training import warmup_schedule
    >>> warmup_schedule([1, 2, 3, 4, 5], peak=8.0, warmup=4)
    array([2., 4., 6., 8., 8.])
    """
    t = _steps(step)
    eta = as_number("peak", peak, least=0)
    w = as_integer("warmup", warmup, least=0)
    return _finish(np.asarray(eta * np.minimum(1.0, t / w if w else np.inf)) + 0.0 * t)


def cosine_schedule(
    step: npt.ArrayLike, *, peak: float, steps: int, warmup: int = 0, floor: float = 0.0
) -> FloatArray:
    r"""
    Learning rate that falls from its peak along half a cosine.

    Parameters
    ----------
    step : array_like
        Number t of the step.
    peak : float
        Rate :math:`\eta` at the end of the warmup, at least 0.
    steps : int
        Step T at which the floor is reached, greater than `warmup`; the rate stays there.
    warmup : int
        Number W of steps, at least 0, of a linear rise from 0 before that.
    floor : float
        Lowest rate :math:`\eta_{min}`, at least 0.

    Returns
    -------
    ndarray or scalar, shape of `step`
        Learning rate in float64.

    Raises
    ------
    TypeError
        If `step` is not real, a rate is not a number, or `steps` or
        `warmup` is not an integer.
    ValueError
        If one of them is out of range.

    See Also
    --------
    warmup_schedule : The rise alone.
    inverse_sqrt_schedule : Needs no last step.

    Notes
    -----
    From step W to step T,

    .. math:: \eta_t = \eta_{min} + \frac{\eta - \eta_{min}}{2}
              \Bigl( 1 + \cos \pi \frac{t - W}{T - W} \Bigr) .

    Before step W the rate is :math:`\eta t / W`, after step T it is :math:`\eta_{min}`. The slope
    is 0 at both ends of the cosine: the rate stays near the peak for a while, and later near the
    floor, where the noise of the gradients averages out. Half way from W to T, half of the fall is
    done.

    Examples
    --------
    >>> from dlref.training import cosine_schedule
    >>> cosine_schedule([0, 50, 100, 150], peak=1.0, steps=100, floor=0.25)
    array([1.   , 0.625, 0.25 , 0.25 ])
    """
    t = _steps(step)
    eta, low = as_number("peak", peak, least=0), as_number("floor", floor, least=0)
    w = as_integer("warmup", warmup, least=0)
    last = as_integer("steps", steps, least=w + 1)
    done = np.clip((t - w) / (last - w), 0.0, 1.0)
    falling = low + 0.5 * (eta - low) * (1.0 + np.cos(np.pi * done))
    return _finish(np.where(t < w, eta * t / max(w, 1), falling))


def inverse_sqrt_schedule(step: npt.ArrayLike, *, peak: float, warmup: int) -> FloatArray:
    r"""
    Learning rate that rises linearly, then falls as one over the root of the step.

    Parameters
    ----------
    step : array_like
        Number t of the step, from 1; at 0 the rate is 0.
    peak : float
        Rate :math:`\eta` at step `warmup`, at least 0.
    warmup : int
        Number W of steps to the peak, at least 1.

    Returns
    -------
    ndarray or scalar, shape of `step`
        Learning rate in float64.

    Raises
    ------
    TypeError
        If `step` is not real, `peak` is not a number or `warmup` is not
        an integer.
    ValueError
        If one of them is out of range.

    See Also
    --------
    warmup_schedule : Without the fall.
    cosine_schedule : With an end.

    Notes
    -----
    .. math:: \eta_t = \eta\, \min\Bigl( \frac tW, \sqrt{\frac Wt} \Bigr) .

    The two branches meet at t = W. The Transformer's schedule
    :math:`d^{-1/2} \min(t^{-1/2}, t\, W^{-3/2})` is this one with the peak
    :math:`\eta = (d\, W)^{-1/2}`, since :math:`(d W)^{-1/2} \sqrt{W / t} = d^{-1/2} t^{-1/2}`; for
    width d = 512 and W = 4000 that is 0.0007. The fall never ends: four times the steps
    halve the rate.

    References
    ----------
    Equation 3 of :cite:t:`Vaswani2017`.

    Examples
    --------
    >>> from dlref.training import inverse_sqrt_schedule
    >>> inverse_sqrt_schedule([2, 4, 16, 64], peak=1.0, warmup=4)
    array([0.5 , 1.  , 0.5 , 0.25])
    """
    t = _steps(step)
    eta = as_number("peak", peak, least=0)
    w = as_integer("warmup", warmup, least=1)
    return _finish(eta * np.minimum(t / w, np.sqrt(w / np.maximum(t, 1.0))))
