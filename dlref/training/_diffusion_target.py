r"""The targets of diffusion models (noise, data, velocity or flow) and weights of their losses."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_number,
    check_broadcast,
    check_fits,
    check_shape,
    choice,
    result,
)
from .._core.jit import kernel
from .._core.threads import as_carray, over_rows

COST = 1  # nanoseconds an element
KINDS = ("noise", "data", "velocity", "flow")


@kernel
def _velocities(
    start: int,
    stop: int,
    x: FloatArray,
    noise: FloatArray,
    alpha: FloatArray,
    sigma: FloatArray,
    out: FloatArray,
) -> None:
    for r in range(start, stop):
        a, s = np.float64(alpha[r]), np.float64(sigma[r])
        data, drawn, to = x[r], noise[r], out[r]
        for i in range(to.size):
            to[i] = a * np.float64(drawn[i]) - s * np.float64(data[i])


def _velocity(x: FloatArray, noise: FloatArray, *factors: FloatArray) -> FloatArray:
    """Return the velocity, by rows of numbers with the same factors."""
    shape, out = x.shape, np.empty(x.shape, x.dtype)
    axes = [f.reshape((1,) * (x.ndim - f.ndim) + f.shape) for f in factors]
    varying = [k for k in range(x.ndim) if any(f.shape[k] != 1 for f in axes)]
    lead = varying[-1] + 1 if varying else int(x.ndim > 1)
    rows, width = math.prod(shape[:lead]), math.prod(shape[lead:])
    each = [np.broadcast_to(f, shape[:lead] + (1,) * (x.ndim - lead)).reshape(rows) for f in axes]
    arrays = [as_carray(a).reshape(rows, width) for a in (x, noise)]
    given = *arrays, *map(as_carray, each), out.reshape(rows, width)
    over_rows(_velocities, rows, COST * width, *given)
    return out


def diffusion_target(
    x: npt.ArrayLike,
    noise: npt.ArrayLike,
    alpha: npt.ArrayLike,
    sigma: npt.ArrayLike,
    *,
    kind: str = "noise",
) -> FloatArray:
    r"""
    Target of a diffusion or flow-matching model, for an example and its noise.

    The model sees a mixture of the two and is trained with the squared error of this target. Models
    of images, sound and video are trained this way.

    Parameters
    ----------
    x : array_like, any shape
        Examples :math:`x`.
    noise : array_like, shape of `x`
        Noise :math:`\epsilon`, drawn from the standard normal distribution.
    alpha, sigma : array_like, broadcast to the shape of `x`
        Factors :math:`\alpha` of the example and :math:`\sigma` of the noise, at the time that was
        drawn for it. A batch (B, ...) with a time for each example needs the shape (B, 1, ..., 1).
    kind : str, default "noise"
        ``"noise"``, ``"data"``, ``"velocity"`` or ``"flow"``.

    Returns
    -------
    ndarray, shape of `x`
        Target :math:`y`.

    Raises
    ------
    TypeError
        If an array is neither integer nor real floating-point.
    ValueError
        If the shapes do not fit, or `kind` is not known.

    See Also
    --------
    dlref.losses.squared_error : The loss.
    min_snr_weight : Its weight for each time.
    dlref.positions.timestep_embedding : How the time enters the model.

    Notes
    -----
    The model is given the mixture :math:`z` and the time. The targets are

    .. math::

        z &= \alpha x + \sigma \epsilon , \\
        y_{noise} &= \epsilon , \qquad
        y_{data} = x , \qquad
        y_{velocity} = \alpha \epsilon - \sigma x , \qquad
        y_{flow} = \epsilon - x .

    **They carry the same information.** The mixture is known, so each target follows from any
    other, and a model of one is a model of all. With a prediction :math:`\hat x` of the data, and
    the noise that then remains of the mixture, :math:`\hat\epsilon = (z - \alpha \hat x) / \sigma`,
    the errors are

    .. math::

        \epsilon - \hat\epsilon = -\frac{\alpha}{\sigma} (x - \hat x) , \qquad
        y_{velocity} - \hat y_{velocity} = -\frac{\alpha^2 + \sigma^2}{\sigma} (x - \hat x) , \qquad
        y_{flow} - \hat y_{flow} = -\frac{\alpha + \sigma}{\sigma} (x - \hat x) .

    As losses they differ only by a weight for each time. The squared error of the noise is the
    squared error of the data times :math:`\alpha^2 / \sigma^2`, the ratio of signal to noise, which
    is 0 where there is only noise. There a prediction of the noise says nothing about the data, and
    a sampler that divides by :math:`\alpha` fails; velocity and flow have a weight of 1 there.

    **Why velocity and flow.** With :math:`\alpha = \cos \phi` and :math:`\sigma = \sin \phi`
    the mixture turns from data to noise; with :math:`\alpha = 1 - t` and :math:`\sigma = t` it
    moves on a line. Its velocity is the target in both cases,

    .. math:: \dv{z}{\phi} = \alpha \epsilon - \sigma x , \qquad
       \dv{z}{t} = \epsilon - x ,

    and a sampler follows the predicted velocity back from noise to data.

    **Conventions.** ``"flow"`` is noise minus data, the velocity of time that runs to the noise, as
    in Stable Diffusion 3 and Flux. Papers on flow matching let time run to the data, which gives
    the other sign. It does not depend on `alpha` and `sigma`.

    **Numerics.** At most two products and one difference for each element.

    References
    ----------
    - Noise: equation 14 of :cite:t:`HoDDPM2020`
    - Velocity: appendix D of :cite:t:`SalimansHo2022`
    - Flow: :cite:t:`LipmanFlow2022`

    Examples
    --------
    An example of two numbers and its noise. The flow points from the example to the noise:

    >>> from dlref.training import diffusion_target
    >>> x, noise = [2.0, -1.0], [1.0, 3.0]
    >>> diffusion_target(x, noise, 0.75, 0.5, kind="velocity")
    array([-0.25,  2.75])
    >>> diffusion_target(x, noise, 0.75, 0.5, kind="flow")
    array([-1.,  4.])

    The mixture and the velocity give the data back, if :math:`\alpha^2 + \sigma^2 = 1`:

    >>> import numpy as np
    >>> z = 0.6 * np.array(x) + 0.8 * np.array(noise)
    >>> 0.6 * z - 0.8 * diffusion_target(x, noise, 0.6, 0.8, kind="velocity")
    array([ 2., -1.])
    """
    given = {"x": x, "noise": noise, "alpha": alpha, "sigma": sigma}
    dtype, (data, drawn, a, s) = as_floats(given, work=np.float32)
    choice("kind", kind, KINDS)
    check_shape("noise", drawn, data.shape)
    for name, factor in (("alpha", a), ("sigma", s)):
        check_fits(name, factor, data.shape, "shape of x")
    if kind in {"noise", "data"}:
        return result((drawn if kind == "noise" else data).copy(), dtype)
    if kind == "flow":
        with np.errstate(all="ignore"):
            return result(drawn - data, dtype)
    return result(_velocity(data, drawn, a, s), dtype)


def min_snr_weight(
    alpha: npt.ArrayLike, sigma: npt.ArrayLike, *, kind: str = "noise", gamma: float = 5.0
) -> FloatArray:
    r"""
    Weight of the squared error of a diffusion model at each time (min-SNR).

    Times with little noise are easy, but have the largest weights if the data are the target;
    times with little signal have them if the noise is. This weight bounds both, and models learn
    in fewer steps.

    Parameters
    ----------
    alpha, sigma : array_like, shapes that broadcast with each other
        Factors :math:`\alpha` of the example and :math:`\sigma` of the noise at each time.
    kind : str, default "noise"
        The target of :func:`diffusion_target` whose squared error is weighed: ``"noise"``,
        ``"data"``, ``"velocity"`` or ``"flow"``.
    gamma : float, default 5.0
        Largest weight :math:`\gamma` of the squared error of the data, greater than 0.

    Returns
    -------
    ndarray, the shape that both broadcast to
        Weight w, by which the squared error is multiplied.

    Raises
    ------
    TypeError
        If an array is neither integer nor real floating-point, or `gamma` is not a number.
    ValueError
        If the shapes do not broadcast, `kind` is not known, or `gamma` is not greater than 0.

    See Also
    --------
    diffusion_target : The targets, and how their errors are related.

    Notes
    -----
    The ratio of signal to noise is :math:`\rho = \alpha^2 / \sigma^2`. The squared error of the
    data gets the weight :math:`\min(\rho, \gamma)`, and the errors of the other targets are those
    of the data times a factor (:func:`diffusion_target`). So that each target gives the same loss,
    its weight is divided by the square of that factor:

    .. math::

        w_{data} = \min(\rho, \gamma) , \qquad
        w_{noise} = \frac{\min(\rho, \gamma)}{\rho} , \qquad
        w_{velocity} = \frac{\sigma^2 \min(\rho, \gamma)}{(\alpha^2 + \sigma^2)^2} , \qquad
        w_{flow} = \frac{\sigma^2 \min(\rho, \gamma)}{(\alpha + \sigma)^2} .

    With :math:`\alpha^2 + \sigma^2 = 1` the inverse of :math:`\sigma^2` is the ratio plus 1, and
    the third is the weight of published code,

    .. math:: w_{velocity} = \frac{\min(\rho, \gamma)}{\rho + 1} .

    A model of the noise with the weight 1 is the case of a large :math:`\gamma`.

    **Numerics.** The code computes :math:`\sigma^2 \min(\rho, \gamma)` as
    :math:`\min(\alpha^2, \gamma \sigma^2)` and the second weight as
    :math:`\min(1, \gamma \sigma^2 / \alpha^2)`, in float64. So the limits are right at both ends:
    without noise the weights are 0, but :math:`\gamma` for the data; without signal they are 0, but
    1 for the noise.

    References
    ----------
    - :cite:t:`HangMinSNR2023`

    Examples
    --------
    Factors of much, some and little signal, with the ratios 9, 1 and 1/9. Only the first ratio is
    above the bound of 5:

    >>> import numpy as np
    >>> from dlref.training import min_snr_weight
    >>> alpha, sigma = np.array([3.0, 1.0, 1.0]), np.array([1.0, 1.0, 3.0])
    >>> for kind in ("data", "noise"):
    ...     print(kind, min_snr_weight(alpha, sigma, kind=kind).round(3))
    data [5.    1.    0.111]
    noise [0.556 1.    1.   ]
    """
    dtype, (a, s) = as_floats({"alpha": alpha, "sigma": sigma})
    check_broadcast("sigma", s.shape, a.shape, both=True)
    choice("kind", kind, KINDS)
    bound = as_number("gamma", gamma, above=0.0)
    with np.errstate(all="ignore"):
        signal, noise = a.astype(np.float64) ** 2, s.astype(np.float64) ** 2
        if kind == "data":
            weight = np.minimum(signal / noise, bound)
        elif kind == "noise":
            weight = np.minimum(1.0, bound * (noise / signal))
        else:
            factor = signal + noise if kind == "velocity" else np.float64(1.0) * a + s
            weight = np.minimum(signal, bound * noise) / factor**2
        return result(weight, dtype)
