r"""The Kullback-Leibler divergence of a Gaussian from the standard one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, check_ndim
from .._core.jit import kernel
from .._core.threads import as_carray, with_workspace
from .._math.elementary import exp_excess, expm1_single, for_dtype
from .._math.softmax_rows import added
from ._kernels.smooth import Smooth


def _check(names: tuple[str, ...], arrays: list[FloatArray]) -> None:
    check_ndim(names[0], arrays[0], 1)


@kernel
def _rows(
    start: int,
    stop: int,
    mean: FloatArray,
    log_var: FloatArray,
    out: FloatArray,
    room: FloatArray,
) -> None:
    """Write the sum over each row."""
    for r in range(start, stop):
        for d in range(room.size):
            m = np.float64(mean[r, d])
            room[d] = m * m + exp_excess(np.float64(log_var[r, d]))
        out[r] = 0.5 * added(room)


def _terms(mean: FloatArray, log_var: FloatArray) -> FloatArray:
    rows, width = math.prod(mean.shape[:-1]), mean.shape[-1]
    arrays = (as_carray(a).reshape(rows, width) for a in (mean, log_var))
    out = np.empty(rows)
    with_workspace(for_dtype(_rows, log_var.dtype), width)(0, rows, *arrays, out)
    return out.reshape(mean.shape[:-1])


@kernel
def _half_expm1(x: FloatArray, out: FloatArray) -> None:
    """Write (e^x - 1) / 2 for float32."""
    for i in range(x.size):
        out[i] = 0.5 * expm1_single(np.float64(x[i]))


def _slopes(mean: FloatArray, log_var: FloatArray) -> tuple[FloatArray, ...]:
    if log_var.dtype == np.float64:  # in which NumPy is as fast
        return mean, 0.5 * np.expm1(log_var)
    slope = np.empty(log_var.shape)
    _half_expm1(as_carray(log_var).reshape(-1), slope.reshape(-1))
    return mean, slope


KIND = Smooth(("mean", "log_var"), _check, _terms, _slopes, axis=-1, wanted=2, of_kernels=True)


def gaussian_kl(
    mean: npt.ArrayLike, log_var: npt.ArrayLike, *, reduction: str = "mean"
) -> FloatArray:
    r"""
    Divergence of a Gaussian from the standard Gaussian, in closed form.

    It is the second term of the loss of a variational autoencoder: it keeps the codes of all
    inputs near one distribution, from which new codes can be drawn.

    Parameters
    ----------
    mean : array_like, shape (..., D)
        Means :math:`\mu` of D independent components, the output of an encoder.
    log_var : array_like, shape (..., D)
        Logarithms :math:`s = \log \sigma^2` of their variances.
    reduction : str
        ``"mean"`` over the rows, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        The loss in nats: a scalar, or for ``"none"`` an array of shape (...).

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If `mean` is a scalar, the shapes differ, or `reduction` is not known.

    See Also
    --------
    gaussian_kl_grad : The derivative.
    kl_divergence : Of distributions over classes.

    Notes
    -----
    The logarithm of the ratio of the densities is :math:`\tfrac12 (-s - (z - \mu)^2 /
    \sigma^2 + z^2)`. Its mean for z drawn from the first Gaussian needs
    :math:`\E[(z - \mu)^2] = \sigma^2` and :math:`\E[z^2] = \mu^2 + \sigma^2`. So

    .. math:: \ell = \sum_d \int q_d(z) \log \frac{q_d(z)}{p(z)} \dd z
       = \frac12 \sum_d \bigl( \mu_d^2 + e^{s_d} - 1 - s_d \bigr) .

    Every term is at least 0, because :math:`e^s \ge 1 + s`, and is 0 only for
    :math:`\mu = 0` and :math:`\sigma = 1`.

    **Reparametrization.** The other term of the loss is a mean over codes
    :math:`\vec z`, whose distribution depends on the parameters. Written as
    :math:`z_d = \mu_d + e^{s_d / 2} \epsilon_d` with a standard normal :math:`\epsilon_d`,
    the code is a differentiable map of the parameters, with the slopes 1 and
    :math:`\tfrac12 e^{s_d / 2} \epsilon_d`, and the random numbers are a constant.

    **Conventions.** A mean over the components too (as in ``mean()`` of a matrix) divides
    by D, and weighs the term less compared with a reconstruction error that is a sum over pixels.
    The factor of this term is the :math:`\beta` of a β-VAE.

    **Numerics.** Near a variance of 1 both subtractions in :math:`e^s - 1 - s` cancel, and with
    ``expm1`` one of them. The code leaves the terms 1 and s out of the series of :math:`e^s` before
    it is added up, as :func:`kl_estimate` does, so that the term of :math:`s = 10^{-9}` keeps its
    digits.

    References
    ----------
    - :cite:t:`KingmaWelling2013`, appendix B

    Examples
    --------
    The standard Gaussian itself, a shift by 2, and a variance of :math:`e^{-2}`:

    >>> from dlref.losses import gaussian_kl
    >>> gaussian_kl([[0.0], [2.0], [0.0]], [[0.0], [0.0], [-2.0]], reduction="none")
    array([0.        , 2.        , 0.56766764])
    """
    return KIND.value((mean, log_var), reduction)


def gaussian_kl_grad(
    mean: npt.ArrayLike, log_var: npt.ArrayLike, *, reduction: str = "mean"
) -> tuple[FloatArray, ...]:
    r"""
    Gradient of the divergence of a Gaussian from the standard one.

    Parameters
    ----------
    mean, log_var : as in `gaussian_kl`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    dmean : ndarray, shape (..., D)
        Gradient of the means, for the mean reduction divided by the number of rows.
    dlog_var : ndarray, shape (..., D)
        Gradient of the logarithms of the variances.

    Notes
    -----
    .. math:: \pdv{\ell}{\mu_d} = \mu_d , \qquad
       \pdv{\ell}{s_d} = \frac{e^{s_d} - 1}{2} .

    Both pull to 0. The second does so gently for a variance that is too small, at most with
    :math:`-\tfrac12`, and strongly for one that is too large.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import gaussian_kl_grad
    >>> dmean, dlog_var = gaussian_kl_grad([[3.0, 0.0]], [[0.0, np.log(5.0)]])
    >>> dmean, dlog_var
    (array([[3., 0.]]), array([[0., 2.]]))
    """
    return KIND.grad((mean, log_var), reduction)


def gaussian_kl_vjp(
    dout: npt.ArrayLike, mean: npt.ArrayLike, log_var: npt.ArrayLike, *, reduction: str = "mean"
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of the divergence of a Gaussian.

    Parameters
    ----------
    dout : array_like
        Cotangent u of the loss: a scalar, or of shape (...) for the reduction ``"none"``.
    mean, log_var, reduction : as in `gaussian_kl`
        Raises the same errors.

    Returns
    -------
    dmean : ndarray, shape (..., D)
        Gradient of the means.
    dlog_var : ndarray, shape (..., D)
        Gradient of the logarithms of the variances.

    Notes
    -----
    With u for each row, for the mean divided by the number of rows,

    .. math:: \pdv{L}{\mu_d} = u\, \mu_d , \qquad
       \pdv{L}{s_d} = \frac u2 \bigl( e^{s_d} - 1 \bigr) .

    Examples
    --------
    >>> from dlref.losses import gaussian_kl_vjp
    >>> gaussian_kl_vjp([10.0], [[3.0]], [[0.0]], reduction="none")
    (array([[30.]]), array([[0.]]))
    """
    return KIND.vjp(dout, (mean, log_var), reduction)


def gaussian_kl_jvp(primals: Any, tangents: Any, *, reduction: str = "mean") -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the divergence of a Gaussian.

    Parameters
    ----------
    primals : tuple (mean, log_var) of array_like
        Means and logarithms of variances, shape (..., D).
    tangents : tuple of array_like or None
        Directions of the same shape; None is zero.
    reduction : as in `gaussian_kl`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        Tangent of the loss, of its shape.

    Notes
    -----
    .. math:: \dot\ell = \sum_d \Bigl( \mu_d\, \dot\mu_d + \frac{e^{s_d} - 1}{2}\,
       \dot s_d \Bigr) .

    Examples
    --------
    >>> from dlref.losses import gaussian_kl_jvp
    >>> float(gaussian_kl_jvp(([[3.0]], [[0.0]]), ([[1.0]], [[1.0]])))
    3.0
    """
    return KIND.jvp(primals, tangents, reduction)
