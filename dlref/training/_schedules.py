r"""Learning rates that follow the step number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_floats, as_integer, as_number, choice, result

#: Curves of a fall from 1 to 0.
CURVES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "linear": lambda u: 1.0 - u,
    "1-sqrt": lambda u: 1.0 - np.sqrt(u),
    "cosine": lambda u: 0.5 * (1.0 + np.cos(np.pi * u)),
}


def _steps(step: npt.ArrayLike) -> FloatArray:
    _, (t,) = as_floats({"step": step})
    if not np.all(t >= 0.0):
        msg = f"Argument 'step' must be at least 0, not {np.min(t):g}."
        raise ValueError(msg)
    return t


def _finish(rate: FloatArray) -> FloatArray:
    return result(rate, np.dtype(np.float64))


def _rise_and_fall(
    t: FloatArray, peak: float, floor: float, warmup: int, steps: int, decay: int, kind: str
) -> FloatArray:
    """Return rates that rise along a line, and fall to the floor in the last steps."""
    u = np.clip((t - (steps - decay)) / decay, 0.0, 1.0)
    falling = floor + (peak - floor) * CURVES[kind](u)
    return _finish(np.where(t < warmup, peak * t / max(warmup, 1), falling))


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
    cosine_schedule, inverse_sqrt_schedule, wsd_schedule : Fall again after the warmup.

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
    wsd_schedule : Stays at the peak, and falls late; also along a line.

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
    return _rise_and_fall(t, eta, low, w, last, last - w, "cosine")


def wsd_schedule(
    step: npt.ArrayLike,
    *,
    peak: float,
    steps: int,
    decay: int,
    warmup: int = 0,
    floor: float = 0.0,
    kind: str = "linear",
) -> FloatArray:
    r"""
    Learning rate that rises, stays at its peak, and falls in the last steps.

    Parameters
    ----------
    step : array_like
        Number t of the step.
    peak : float
        Rate :math:`\eta` after the warmup, at least 0.
    steps : int
        Step T at which the floor is reached; the rate stays there.
    decay : int
        Number D of steps of the fall, at least 1. With ``steps - warmup`` there is no plateau.
    warmup : int
        Number W of steps, at least 0, of a linear rise from 0. W + D is at most T.
    floor : float
        Lowest rate :math:`\eta_{min}`, at least 0.
    kind : {"linear", "1-sqrt", "cosine"}
        Curve of the fall.

    Returns
    -------
    ndarray or scalar, shape of `step`
        Learning rate in float64.

    Raises
    ------
    TypeError
        If `step` is not real, a rate is not a number, or a number of steps is not an integer.
    ValueError
        If one of them is out of range or `kind` is not known.

    See Also
    --------
    cosine_schedule : Falls from the end of the warmup on.

    Notes
    -----
    WSD stands for warmup, stable, decay. With the share u of the fall that is done, 0 until step
    T - D and 1 from step T on,

    .. math::

        \eta_t &= \eta_{min} + (\eta - \eta_{min})\, f(u) , \qquad u = \frac{t - T + D}{D} \\
        f(u) &= 1 - u \quad \text{or} \quad 1 - \sqrt u \quad \text{or} \quad
            \tfrac12 (1 + \cos \pi u) ,

    for a line, the root and half a cosine. Before step W the rate is :math:`\eta t / W`.

    **Why a plateau.** A cosine has to know its last step from the start: stopped early, its rate is
    still high, and prolonged, its rate is too low already. On the plateau nothing depends on T: a
    run can go on for as long as there is data, and a fall can start from any of its checkpoints.
    Most of the loss that a high rate costs is won back during the fall, for which a tenth to a
    fifth of all steps is usual. Without a plateau, the line is the usual linear decay.

    **Conventions.** Transformers' ``get_wsd_schedule`` has the same three curves as ``decay_type``
    and counts steps from 0; its floor is a share of the peak.

    References
    ----------
    - :cite:t:`HuMiniCPM2024`
    - :cite:t:`HageleWSD2024` on the curves

    Examples
    --------
    >>> from dlref.training import wsd_schedule
    >>> wsd_schedule([5, 10, 80, 90, 100, 150], peak=1.0, steps=100, decay=20, warmup=10)
    array([0.5, 1. , 1. , 0.5, 0. , 0. ])
    >>> wsd_schedule([80, 85, 100], peak=1.0, steps=100, decay=20, kind="1-sqrt")
    array([1. , 0.5, 0. ])

    Linear decay, from the end of the warmup on:

    >>> wsd_schedule([10, 40, 100], peak=1.0, steps=100, warmup=10, decay=90, floor=0.25)
    array([1.  , 0.75, 0.25])
    """
    t = _steps(step)
    eta, low = as_number("peak", peak, least=0), as_number("floor", floor, least=0)
    w, d = as_integer("warmup", warmup, least=0), as_integer("decay", decay, least=1)
    last = as_integer("steps", steps, least=w + d)
    choice("kind", kind, CURVES)
    return _rise_and_fall(t, eta, low, w, last, d, kind)


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
