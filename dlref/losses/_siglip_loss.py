r"""The sigmoid loss of pairs: every combination is a question of yes or no."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_tangents,
    check_matrix,
    check_shape,
    choice,
    in_float64,
    result,
)
from .._core.jit import kernel
from .._core.threads import as_carray, over_rows, with_workspace
from .._math.elementary import for_dtype, sigmoid, softplus
from .._math.softmax_rows import added
from ._kernels.reduction import REDUCTIONS, reduced, seeds

COST = 4  # nanoseconds, or elementary operations, a combination


def _check(names: tuple[str, str], s: FloatArray, bias: FloatArray, reduction: str) -> None:
    check_matrix(names[0], s)
    check_shape(names[1], bias, ())
    choice("reduction", reduction, REDUCTIONS)


@kernel
def _cost_of_rows(
    start: int, stop: int, s: FloatArray, bias: float, out: FloatArray, room: FloatArray
) -> None:
    """Write the sum over each row, whose pair counts with the other sign."""
    for r in range(start, stop):
        pair = r % room.size
        for j in range(room.size):
            room[j] = softplus(np.float64(s[r, j]) + bias)
        room[pair] = softplus(-(np.float64(s[r, pair]) + bias))
        out[r] = added(room)


@kernel
def _slopes_of_rows(
    start: int,
    stop: int,
    s: FloatArray,
    bias: float,
    u: FloatArray,
    grad: FloatArray,
    sums: FloatArray,
    room: FloatArray,
) -> None:
    """Write u times the slopes of each row, and their sum."""
    for r in range(start, stop):
        pair = r % room.size
        for j in range(room.size):
            room[j] = u[r] * sigmoid(np.float64(s[r, j]) + bias)
        room[pair] = -u[r] * sigmoid(-(np.float64(s[r, pair]) + bias))
        for j in range(room.size):
            grad[r, j] = room[j]
        sums[r] = added(room)


def _run(kernel: Callable[..., None], s: FloatArray, bias: FloatArray, *arrays: FloatArray) -> None:
    rows, N = math.prod(s.shape[:-1]), s.shape[-1]
    kernel = with_workspace(for_dtype(kernel, s.dtype), N)
    over_rows(kernel, rows, COST * N, as_carray(s).reshape(rows, N), np.float64(bias), *arrays)


def _terms(s: FloatArray, bias: FloatArray) -> FloatArray:
    out = np.empty(s.shape[:-1])
    _run(_cost_of_rows, s, bias, out.reshape(-1))
    return out


def _pulled(u: FloatArray, s: FloatArray, bias: FloatArray) -> tuple[FloatArray, Any]:
    """Return the gradients of the similarities and of the bias."""
    grad, sums = np.empty((u.size, s.shape[-1]), s.dtype), np.empty(u.size)
    _run(_slopes_of_rows, s, bias, as_carray(u).reshape(-1), grad, sums)
    return grad.reshape(s.shape), sums.sum()


def siglip_loss(
    similarity: npt.ArrayLike, bias: npt.ArrayLike = 0.0, *, reduction: str = "mean"
) -> FloatArray:
    r"""
    Logistic loss of all combinations of two kinds: whether each is a pair.

    SigLIP learns images and captions with it. No element needs the sum of a row, so a batch
    can be split over devices without a softmax over all of it.

    Parameters
    ----------
    similarity : array_like, shape (..., N, N)
        Similarity :math:`s_{ij}` of item i of one kind and item j of the other, times the inverse
        temperature. Pairs stand on the diagonal.
    bias : array_like, shape (), default 0.0
        Bias b of all logits.
    reduction : str
        ``"mean"``, the sum over all combinations divided by the number of pairs, ``"sum"`` or
        ``"none"``.

    Returns
    -------
    ndarray or scalar
        The loss in nats: a scalar, or for ``"none"`` the sums of the rows, of shape (..., N).

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If the last two axes of `similarity` are not equal, `bias` is not a scalar, or `reduction`
        is not known.

    See Also
    --------
    siglip_loss_grad : The derivative.
    info_nce : Each row chooses among all.
    binary_cross_entropy : The loss of one element.

    Notes
    -----
    With the label :math:`y_{ij} = 1` on the diagonal and −1 elsewhere,

    .. math:: \ell_i = -\sum_j \log \sigma \bigl( y_{ij}\, (s_{ij} + b) \bigr) .

    **The bias.** Of N² combinations only N are pairs. At the start, with :math:`s = 0`, the best
    constant logit is :math:`-\log (N - 1)`; with b = 0 the first steps would do nothing but push
    all similarities down. SigLIP starts with −10.

    **Conventions.** The sum is divided by N, not by N²: the loss of one row.

    References
    ----------
    - :cite:t:`ZhaiSigLIP2023`

    Examples
    --------
    Four combinations of probability one half:

    >>> import numpy as np
    >>> from dlref.losses import siglip_loss
    >>> float(siglip_loss(np.zeros((2, 2))) / np.log(2))
    2.0
    """
    dtype, (s, b) = as_floats({"similarity": similarity, "bias": bias}, work=np.float32)
    _check(("similarity", "bias"), s, b, reduction)
    with np.errstate(all="ignore"):
        return result(reduced(_terms(s, b), reduction), dtype)


def siglip_loss_grad(
    similarity: npt.ArrayLike, bias: npt.ArrayLike = 0.0, *, reduction: str = "mean"
) -> tuple[FloatArray, ...]:
    r"""
    Gradient of the sigmoid loss of pairs.

    Parameters
    ----------
    similarity, bias : as in `siglip_loss`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    dsimilarity : ndarray, shape (..., N, N)
        Gradient of the similarities, for the mean divided by the number of pairs.
    dbias : scalar
        Gradient of the bias.

    Notes
    -----
    The derivative of :math:`-\log \sigma(x)` is :math:`-\sigma(-x)`:

    .. math:: \pdv{\ell_i}{s_{ij}} = -y_{ij}\, \sigma \bigl( -y_{ij} (s_{ij} + b) \bigr) , \qquad
       \pdv{\ell_i}{b} = \sum_j \pdv{\ell_i}{s_{ij}} .

    An element that is right already, with a large :math:`y (s + b)`, has nearly no gradient,
    however the others stand: unlike in a softmax, wrong items do not compete.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import siglip_loss_grad
    >>> siglip_loss_grad(np.zeros((2, 2)), 0.0, reduction="sum")
    (array([[-0.5,  0.5],
           [ 0.5, -0.5]]), np.float64(0.0))
    """
    dtype, (s, b) = as_floats({"similarity": similarity, "bias": bias}, work=np.float32)
    _check(("similarity", "bias"), s, b, reduction)
    choice("reduction", reduction, REDUCTIONS[:2])
    with np.errstate(all="ignore"):
        grad, of_bias = _pulled(seeds(np.ones(()), s.shape[:-1], reduction), s, b)
        return result(grad, dtype), result(of_bias, dtype)


def siglip_loss_vjp(
    dout: npt.ArrayLike,
    similarity: npt.ArrayLike,
    bias: npt.ArrayLike = 0.0,
    *,
    reduction: str = "mean",
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of the sigmoid loss of pairs.

    Parameters
    ----------
    dout : array_like
        Cotangent u of the loss: a scalar, or of shape (..., N) for the reduction ``"none"``.
    similarity, bias, reduction : as in `siglip_loss`
        Raises the same errors.

    Returns
    -------
    dsimilarity : ndarray, shape (..., N, N)
        Gradient of the similarities.
    dbias : scalar
        Gradient of the bias.

    Notes
    -----
    With :math:`u_i` for each row, for the mean divided by the number of pairs,

    .. math:: \pdv{L}{s_{ij}} = -u_i\, y_{ij}\, \sigma \bigl( -y_{ij} (s_{ij} + b) \bigr) , \qquad
       \pdv{L}{b} = \sum_{ij} \pdv{L}{s_{ij}} .

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import siglip_loss_vjp
    >>> siglip_loss_vjp([4.0, 0.0], np.zeros((2, 2)), 0.0, reduction="none")[0]
    array([[-2.,  2.],
           [ 0., -0.]])
    """
    dtype, (u, s, b) = as_floats(
        {"dout": dout, "similarity": similarity, "bias": bias}, work=np.float32
    )
    _check(("similarity", "bias"), s, b, reduction)
    with np.errstate(all="ignore"):
        grad, of_bias = _pulled(seeds(in_float64(u), s.shape[:-1], reduction), s, b)
        return result(grad, dtype), result(of_bias, dtype)


def siglip_loss_jvp(primals: Any, tangents: Any, *, reduction: str = "mean") -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the sigmoid loss of pairs.

    Parameters
    ----------
    primals : tuple (similarity, bias) of array_like
        Similarities (..., N, N) and the bias.
    tangents : tuple of array_like or None
        Tangents of the same shapes; None is zero.
    reduction : as in `siglip_loss`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        Tangent of the loss, of its shape.

    Notes
    -----
    .. math:: \dot\ell_i = -\sum_j y_{ij}\, \sigma \bigl( -y_{ij} (s_{ij} + b) \bigr)
       (\dot s_{ij} + \dot b) .

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import siglip_loss_jvp
    >>> float(siglip_loss_jvp((np.zeros((2, 2)), 0.0), (np.eye(2), None)))
    -0.5
    """
    dtype, (s, b), (move, moved_bias) = as_tangents(primals, tangents, count=2)
    _check(("primals[0]", "primals[1]"), s, b, reduction)
    with np.errstate(all="ignore"):
        slopes, _ = _pulled(np.ones(s.shape[:-1]), s, b)
        terms = np.sum(slopes * (move + moved_bias), axis=-1)
        return result(reduced(terms, reduction), dtype)
