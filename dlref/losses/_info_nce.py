r"""The contrastive loss of pairs: each of one kind has to find its partner of the other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_bool,
    as_floats,
    as_mask,
    as_tangents,
    check_fits,
    check_matrix,
    choice,
    result,
    wrong_shape,
)
from .._core.chunks import PIECE
from .._core.jit import kernel
from .._core.threads import over_rows
from ..activations import log_softmax, softmax
from ._cross_entropy import COST, row_gradients, row_losses
from ._kernels.reduction import REDUCTIONS, reduced, seeds


def _checked(name: str, s: FloatArray, symmetric: bool, reduction: str) -> bool:
    check_matrix(name, s)
    if not s.shape[-1]:
        wrong_shape(name, s, "(..., N, N) with N of at least 1")
    choice("reduction", reduction, REDUCTIONS)
    return as_bool("symmetric", symmetric)


def _partners(s: FloatArray) -> npt.NDArray[np.int64]:
    """Return the class of each row: its own number."""
    return np.broadcast_to(np.arange(s.shape[-1], dtype=np.int64), s.shape[:-1])


@kernel
def _write_columns(start: int, stop: int, first: int, a: FloatArray, out: FloatArray) -> None:
    """Write rows of matrices, from number `first` on, as the columns from start to stop."""
    for m in range(len(a)):
        for block in range(start, stop, 8):  # of numbers that are neighbors in `out`
            last = min(block + 8, stop)
            for j in range(a.shape[2]):
                for i in range(block, last):
                    out[m, j, i] = a[m, i - first, j]


def _transposed(s: FloatArray) -> FloatArray:
    """Return matrices transposed in memory, where their columns are read as rows."""
    N = s.shape[-1]
    flat = np.ascontiguousarray(s).reshape(math.prod(s.shape[:-2]), N, N)
    out = np.empty_like(flat)
    over_rows(_write_columns, N, 2.0 * len(flat) * N, 0, flat, out)
    return out.reshape(s.shape)


def _terms(s: FloatArray, both: bool) -> FloatArray:
    """Return the cross-entropy of each row and, if wanted, its mean with the column's."""
    terms = row_losses(s, _partners(s))
    return 0.5 * (terms + row_losses(_transposed(s), _partners(s))) if both else terms


def _gradients(u: FloatArray, s: FloatArray, some: slice) -> FloatArray:
    """Return u times the gradients of the cross-entropies of some rows, in float64."""
    z = s[:, some]
    own = np.arange(some.start, some.stop, dtype=np.int64)
    return row_gradients(u[:, some], z, np.broadcast_to(own, z.shape[:-1]), np.float64)


def _pulled(u: FloatArray, s: FloatArray, both: bool) -> FloatArray:
    """Return the gradient in float64: with two terms, it is rounded only at the end."""
    shape, N = s.shape, s.shape[-1]
    count = math.prod(shape[:-2])
    u, s, out = u.reshape(count, N), s.reshape(count, N, N), np.empty((count, N, N))
    u = 0.5 * u if both else u
    step = max(1, PIECE // max(count * N, 1))

    def strips(start: int, stop: int) -> Iterator[slice]:
        return (slice(first, min(first + step, stop)) for first in range(start, stop, step))

    def columns(start: int, stop: int) -> None:
        for some in strips(start, stop):
            across = _gradients(u, s.transpose(0, 2, 1), some)
            _write_columns(some.start, some.stop, some.start, across, out)

    def rows(start: int, stop: int) -> None:
        with np.errstate(all="ignore"):
            for some in strips(start, stop):
                along = _gradients(u, s, some)
                np.add(along, out[:, some] if both else 0.0, out=out[:, some])

    for part in (columns, rows) if both else (rows,):
        over_rows(part, N, COST * count * N)
    return out.reshape(shape)


def _mask(positives: npt.ArrayLike, s: FloatArray) -> npt.NDArray[np.bool_]:
    mask = as_mask("positives", positives, true="positive")
    check_fits("positives", mask, s.shape, "..., N, N")
    return np.broadcast_to(mask, s.shape)


def _shares(mask: npt.NDArray[np.bool_]) -> FloatArray:
    """Return the share of each positive in its row; a row without any has zeros."""
    return np.asarray(mask / np.maximum(mask.sum(axis=-1, keepdims=True), 1))


def _directions(
    s: FloatArray, positives: npt.ArrayLike, both: bool
) -> Iterator[tuple[float, bool, FloatArray, FloatArray]]:
    """Yield the factor of the rows and of the columns, which it is, the matrix and the shares."""
    mask = _mask(positives, s)
    yield 0.5 if both else 1.0, False, s.astype(np.float64), _shares(mask)
    if both:
        yield 0.5, True, s.mT.astype(np.float64), _shares(mask.mT)


def _terms_of_positives(s: FloatArray, positives: npt.ArrayLike, both: bool) -> FloatArray:
    """Return the mean cross-entropy of the positives of each row and, if wanted, column."""
    out = np.zeros(s.shape[:-1])
    for factor, _, z, w in _directions(s, positives, both):
        out -= factor * np.sum(np.where(w > 0.0, w * log_softmax(z), 0.0), axis=-1)
    return out


def _slopes_of_positives(
    s: FloatArray, positives: npt.ArrayLike, both: bool
) -> Iterator[tuple[bool, FloatArray]]:
    """Yield the slopes of the losses: softmax minus shares, 0 in rows without a positive."""
    for factor, is_column, z, w in _directions(s, positives, both):
        has_any = np.any(w > 0.0, axis=-1, keepdims=True)
        yield is_column, factor * np.where(has_any, softmax(z) - w, 0.0)


def _pulled_of_positives(
    u: FloatArray, s: FloatArray, positives: npt.ArrayLike, both: bool
) -> FloatArray:
    """Return the gradient in float64."""
    out = np.zeros(s.shape)
    for is_column, slopes in _slopes_of_positives(s, positives, both):
        grad = u[..., None] * slopes
        out += grad.mT if is_column else grad
    return out


def info_nce(
    similarity: npt.ArrayLike,
    *,
    positives: npt.ArrayLike | None = None,
    symmetric: bool = True,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Contrastive loss of pairs, from the similarities of all with all.

    CLIP learns images and their captions with it: of all captions of a batch, an image has to find
    its own, and the reverse.

    Parameters
    ----------
    similarity : array_like, shape (..., N, N)
        Similarity :math:`s_{ij}` of item i of one kind and item j of the other, times the inverse
        temperature. Pairs stand on the diagonal, unless `positives` says otherwise.
    positives : array_like of bool, shape (..., N, N), optional
        Whether items i and j are partners. A row may have several partners, or none. By default
        the partners are on the diagonal.
    symmetric : bool, default True
        Whether columns have to find their rows too, and both losses are averaged.
    reduction : str
        ``"mean"`` over the pairs, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        The loss in nats: a scalar, or for ``"none"`` an array of shape (..., N).

    Raises
    ------
    TypeError
        If `similarity` is neither integer nor a real floating-point array, `positives` is not
        boolean, or `symmetric` is not True or False.
    ValueError
        If the last two axes of `similarity` are not equal or empty, `positives` does not broadcast
        to its shape, or `reduction` is not known.

    See Also
    --------
    info_nce_grad : The derivative, and the derivative of the temperature.
    cross_entropy : The loss of one direction.
    siglip_loss : Each pair on its own.

    Notes
    -----
    For the pair i,

    .. math:: \ell_i = \frac12 \Bigl( \log \sum_j e^{s_{ij}} - s_{ii} \Bigr) + \frac12 \Bigl( \log
       \sum_j e^{s_{ji}} - s_{ii} \Bigr) ,

    the cross-entropies of row i and of column i with the class i; without `symmetric` the first
    bracket alone, with the factor 1. All other items of the batch are the wrong answers, so a
    larger batch is a harder task.

    **Several positives.** With the set :math:`P_i` of the partners of item i, the loss of a row is
    the mean of their cross-entropies, and 0 if there are none:

    .. math:: \ell_i = -\frac{1}{\abs{P_i}} \sum_{j \in P_i} \log p_{ij} , \qquad
       p_{ij} = \frac{e^{s_{ij}}}{\sum_k e^{s_{ik}}} .

    All items of a class are positives of each other in the supervised contrastive loss (SupCon).
    There, and in SimCLR's NT-Xent, all views are in one set: the matrix compares each with each,
    its diagonal is :math:`-\infty`, and ``symmetric=False``. In NT-Xent the other view of the same
    image is the only positive.

    **A bound.** A model that cannot tell the items apart has :math:`\log N`. For pairs that are
    drawn independently, the mean of :math:`\log N - \ell` is at most the mutual information of the
    two kinds. It cannot show more than :math:`\log N` nats.

    **Conventions.** CLIP divides by a learned temperature before, and clips its inverse at
    100. SupCon multiplies the loss by the ratio of two temperatures, which is not done here.

    References
    ----------
    - :cite:t:`OordCPC2018`
    - :cite:t:`RadfordCLIP2021`
    - :cite:t:`KhoslaSupCon2020` on several positives, :cite:t:`ChenSimCLR2020` on NT-Xent

    Examples
    --------
    Two pairs that cannot be told apart, and two that can:

    >>> import numpy as np
    >>> from dlref.losses import info_nce
    >>> float(info_nce(np.zeros((2, 2))) / np.log(2))
    1.0
    >>> float(info_nce(np.log(3) * np.eye(2)) / np.log(4 / 3))
    1.0

    NT-Xent of two images with two views each, rows 0 and 1 and rows 2 and 3, all alike: each view
    has three others to choose from.

    >>> views = np.where(np.eye(4, dtype=bool), -np.inf, 0.0)
    >>> partner = np.eye(4, dtype=bool)[[1, 0, 3, 2]]
    >>> float(info_nce(views, positives=partner, symmetric=False) / np.log(3))
    1.0
    """
    dtype, (s,) = as_floats({"similarity": similarity}, work=np.float32)
    both = _checked("similarity", s, symmetric, reduction)
    with np.errstate(all="ignore"):
        if positives is None:
            return result(reduced(_terms(s, both), reduction), dtype)
        return result(reduced(_terms_of_positives(s, positives, both), reduction), dtype)


def info_nce_grad(
    similarity: npt.ArrayLike,
    *,
    positives: npt.ArrayLike | None = None,
    symmetric: bool = True,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Gradient of the contrastive loss with respect to the similarities.

    Parameters
    ----------
    similarity, positives, symmetric : as in `info_nce`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    ndarray, shape (..., N, N)
        Gradient, for the mean divided by the number of pairs.

    Notes
    -----
    With the softmax of the rows, :math:`p_{ij}`, and of the columns, :math:`q_{ij}`, the sum over
    the pairs has the gradient

    .. math:: \pdv{}{s_{ij}} \sum_k \ell_k = \frac{p_{ij} + q_{ij}}{2} - \delta_{ij} .

    It adds up to 0 over all elements: what pairs gain, the others lose.

    **Temperature.** With :math:`s_{ij} = \tau\, \vec x_i \cdot \vec y_j` and G for the
    gradient above,

    .. math:: \pdv{L}{\tau} = \sum_{ij} G_{ij}\, \vec x_i \cdot \vec y_j , \qquad
       \pdv{L}{\vec x_i} = \tau \sum_j G_{ij}\, \vec y_j .

    The first is negative, and :math:`\tau` grows, as long as the pairs are more alike than all
    items are on average, weighted by the two softmaxes.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import info_nce_grad
    >>> info_nce_grad(np.zeros((2, 2)))
    array([[-0.25,  0.25],
           [ 0.25, -0.25]])
    """
    dtype, (s,) = as_floats({"similarity": similarity}, work=np.float32)
    both = _checked("similarity", s, symmetric, reduction)
    choice("reduction", reduction, REDUCTIONS[:2])
    with np.errstate(all="ignore"):
        u = seeds(np.ones(()), s.shape[:-1], reduction)
        if positives is None:
            return result(_pulled(u, s, both), dtype)
        return result(_pulled_of_positives(u, s, positives, both), dtype)


def info_nce_vjp(
    dout: npt.ArrayLike,
    similarity: npt.ArrayLike,
    *,
    positives: npt.ArrayLike | None = None,
    symmetric: bool = True,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the contrastive loss.

    Parameters
    ----------
    dout : array_like
        Cotangent u of the loss: a scalar, or of shape (..., N) for the reduction ``"none"``.
    similarity, positives, symmetric, reduction : as in `info_nce`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., N, N)
        Gradient with respect to the similarities.

    Notes
    -----
    An element occurs in the loss of its row and in the loss of its column. With :math:`u_i` for
    each pair, for the mean divided by the number of pairs,

    .. math:: \pdv{L}{s_{ij}} = \frac{u_i}{2} (p_{ij} - \delta_{ij}) + \frac{u_j}{2}
       (q_{ij} - \delta_{ij}) .

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import info_nce_vjp
    >>> info_nce_vjp([4.0, 0.0], np.zeros((2, 2)), reduction="none")
    array([[-2.,  1.],
           [ 1.,  0.]])
    """
    dtype, (u, s) = as_floats({"dout": dout, "similarity": similarity}, work=np.float32)
    both = _checked("similarity", s, symmetric, reduction)
    with np.errstate(all="ignore"):
        each = seeds(u, s.shape[:-1], reduction)
        if positives is None:
            return result(_pulled(each, s, both), dtype)
        return result(_pulled_of_positives(each, s, positives, both), dtype)


def info_nce_jvp(
    primals: Any,
    tangents: Any,
    *,
    positives: npt.ArrayLike | None = None,
    symmetric: bool = True,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the contrastive loss.

    Parameters
    ----------
    primals : array_like, shape (..., N, N)
        Similarities.
    tangents : array_like, shape of `primals`, or None
        Their tangent; None is zero.
    positives, symmetric, reduction : as in `info_nce`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        Tangent of the loss, of its shape.

    Notes
    -----
    .. math:: \dot\ell_i = \frac12 \sum_j \bigl( p_{ij}\, \dot s_{ij} + q_{ji}\, \dot s_{ji} \bigr)
       - \dot s_{ii} .

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import info_nce_jvp
    >>> float(info_nce_jvp(np.zeros((2, 2)), np.eye(2)))
    -0.5
    """
    dtype, (s,), (move,) = as_tangents(primals, tangents, count=1)
    both = _checked("primals", s, symmetric, reduction)
    with np.errstate(all="ignore"):
        if positives is not None:
            terms = np.zeros(s.shape[:-1])
            for is_column, slopes in _slopes_of_positives(s, positives, both):
                terms += np.sum(slopes * (move.mT if is_column else move), axis=-1)
            return result(reduced(terms, reduction), dtype)
        right = np.diagonal(move, axis1=-2, axis2=-1)
        terms = np.sum(softmax(s) * move, axis=-1) - right
        if both:
            terms = 0.5 * (terms + np.sum(softmax(s, axis=-2) * move, axis=-2) - right)
        return result(reduced(terms, reduction), dtype)
