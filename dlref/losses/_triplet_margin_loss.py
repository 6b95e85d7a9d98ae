r"""The triplet loss: a positive is nearer to its anchor than a negative, by a margin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_number, check_flags, check_ndim
from .._core.jit import kernel
from .._core.threads import as_carray, with_workspace
from .._math.softmax_rows import added
from ._kernels.smooth import Smooth

NAMES = ("anchor", "positive", "negative")
#: Sums of squares between these bounds have lost nothing to overflow or underflow.
LEAST, MOST = 2.0**-960, 2.0**960


def _check(names: tuple[str, ...], arrays: list[FloatArray]) -> None:
    check_ndim(names[0], arrays[0], 1)


@kernel
def _sum_squares(
    start: int,
    stop: int,
    x: FloatArray,
    y: FloatArray,
    eps: float,
    out: FloatArray,
    room: FloatArray,
) -> None:
    """Write the sum of the squares of each row of x - y + eps."""
    for r in range(start, stop):
        for i in range(room.size):
            v = (np.float64(x[r, i]) - np.float64(y[r, i])) + eps
            room[i] = v * v
        out[r] = added(room)


@kernel
def _directions(
    start: int,
    stop: int,
    x: FloatArray,
    y: FloatArray,
    eps: float,
    length: FloatArray,
    factor: FloatArray,
    out: FloatArray,
) -> None:
    """Write each row of x - y + eps over its length, times a factor."""
    for r in range(start, stop):
        divisor = length[r] if length[r] != 0.0 else 1.0
        for i in range(out.shape[1]):
            v = (np.float64(x[r, i]) - np.float64(y[r, i])) + eps
            out[r, i] = factor[r] * (v / divisor)


def _rows(x: FloatArray) -> FloatArray:
    return as_carray(x).reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _lengths(x: FloatArray, y: FloatArray, eps: float) -> FloatArray:
    """Return the norm of each row of x - y + eps for p = 2; few rows need to be scaled."""
    x, y = _rows(x), _rows(y)
    squares = np.empty(len(x))
    with_workspace(_sum_squares, x.shape[1])(0, len(x), x, y, eps, squares)
    lengths = np.sqrt(squares)
    extreme = ~((squares > LEAST) & (squares < MOST))  # a NaN, too
    if extreme.any():
        lengths[extreme] = _norm(_difference(x[extreme], y[extreme], eps), 2.0)[:, 0]
    return lengths


def _difference(x: FloatArray, y: FloatArray, eps: float) -> FloatArray:
    difference = np.subtract(x, y, dtype=np.float64)
    difference += eps
    return difference


def _norm(v: FloatArray, p: float) -> FloatArray:
    """Return the p-norm of each row, without overflow or underflow of the powers."""
    ratio = np.abs(v)
    top = np.max(ratio, axis=-1, keepdims=True, initial=0.0)
    scale = np.where((top > 0.0) & (top < np.inf), top, 1.0)
    ratio /= scale
    ratio **= p
    return np.asarray(scale * np.sum(ratio, axis=-1, keepdims=True) ** (1.0 / p))


class _Triplets:
    """The loss of checked options, as formulas of rows."""

    def __init__(self, margin: float, p: float, eps: float, swap: bool) -> None:
        check_flags(swap=swap)
        self.margin = as_number("margin", margin)
        self.p = as_number("p", p, least=1.0)
        self.eps, self.swap = as_number("eps", eps, least=0.0), swap

    def _distance(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Return the norm of each difference of two rows."""
        if self.p == 2.0:
            return _lengths(x, y, self.eps).reshape(*x.shape[:-1], 1)
        return _norm(_difference(x, y, self.eps), self.p)

    def _slope(
        self, x: FloatArray, y: FloatArray, norm: FloatArray, factor: FloatArray
    ) -> FloatArray:
        """Return a factor times the gradient of `_distance` by x, 0 where the distance is 0."""
        if self.p == 2.0:
            out = np.empty(x.shape)
            of_rows = norm.reshape(-1), factor.reshape(-1), _rows(out)
            _directions(0, norm.size, _rows(x), _rows(y), self.eps, *of_rows)
            return out
        v = _difference(x, y, self.eps)
        unit = np.abs(v) / np.where(norm == 0.0, 1.0, norm)
        return np.asarray(factor * (np.sign(v) * unit ** (self.p - 1.0)))

    def _missing(self, near: FloatArray, far: FloatArray) -> FloatArray:
        gap = (near - far) + self.margin
        return np.where(gap <= 0.0, 0.0, gap)  # a NaN stays

    def terms(self, a: FloatArray, b: FloatArray, c: FloatArray) -> FloatArray:
        near, far = self._distance(a, b), self._distance(a, c)
        if self.swap:
            far = np.minimum(far, self._distance(b, c))
        return self._missing(near, far)[..., 0]

    def slopes(self, a: FloatArray, b: FloatArray, c: FloatArray) -> tuple[FloatArray, ...]:
        near, far, begin = self._distance(a, b), self._distance(a, c), a
        if self.swap:
            other = self._distance(b, c)
            swapped = other < far
            begin, far = np.where(swapped, b, a), np.where(swapped, other, far)
        missing = self._missing(near, far)
        active = np.where(missing > 0.0, 1.0, missing)
        pull, push = self._slope(a, b, near, active), self._slope(begin, c, far, active)
        if not self.swap:
            both = pull - push
            return both, np.negative(pull, out=pull), push
        return pull - np.where(swapped, 0.0, push), -pull - np.where(swapped, push, 0.0), push

    def smooth(self) -> Smooth:
        return Smooth(NAMES, _check, self.terms, self.slopes, axis=-1, wanted=3, of_kernels=True)


def triplet_margin_loss(
    anchor: npt.ArrayLike,
    positive: npt.ArrayLike,
    negative: npt.ArrayLike,
    *,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Loss of triplets: each anchor is nearer to its positive than to its negative, by a margin.

    Parameters
    ----------
    anchor : array_like, shape (..., D)
        Embeddings :math:`\vec a`.
    positive : array_like, shape (..., D)
        Embeddings :math:`\vec b` of the same class or person.
    negative : array_like, shape (..., D)
        Embeddings :math:`\vec c` of another class or person.
    margin : float, default 1.0
        Margin :math:`m` between the two distances.
    p : float, default 2.0
        Order of the norm, at least 1.
    eps : float, default 1e-6
        Number :math:`\epsilon` that is added to each difference, at least 0.
    swap : bool, default False
        Whether the distance from the positive to the negative counts where it is the smaller one.
    reduction : str
        ``"mean"`` over the triplets, ``"sum"`` or ``"none"``.

    Returns
    -------
    ndarray or scalar
        The loss: a scalar, or for ``"none"`` an array of shape (...).

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array, `swap` is not boolean, or
        an option is not a number.
    ValueError
        If the shapes differ or have no axis, an option is out of range, or `reduction` is not
        known.

    See Also
    --------
    triplet_margin_loss_grad : The derivative, with its derivation.
    info_nce : One anchor against all other examples of a batch.
    hinge : The loss of one margin.

    Notes
    -----
    With the distances of positive and negative from the anchor,

    .. math::

        d_+ &= \norm{\vec a - \vec b + \epsilon}_p , \qquad
        d_- = \norm{\vec a - \vec c + \epsilon}_p , \\
        \ell &= \max(0,\, m + d_+ - d_-) .

    A negative that is farther away than the positive by the margin costs nothing. The
    network learns from the other triplets, which have to be looked for: most triplets of a trained
    network are already satisfied.

    **Swap.** The negative must also be far from the positive. With ``swap=True`` the smaller of
    the two distances counts,

    .. math:: d_- = \min \bigl( \norm{\vec a - \vec c + \epsilon}_p ,\,
       \norm{\vec b - \vec c + \epsilon}_p \bigr) .

    **Conventions.** The options are those of ``torch.nn.TripletMarginLoss``; :math:`\epsilon` is
    added to each component of a difference, so that equal embeddings have a small distance
    and a gradient. FaceNet takes squared distances of vectors of length 1.

    **Numerics.** The norm is computed relative to the largest component of a difference, so that
    its powers neither overflow nor underflow. For p = 2 the sum of the squares comes first, and
    is replaced if it is very large or very small.

    References
    ----------
    - :cite:t:`BalntasTriplets2016`

    Examples
    --------
    The distances are 5 and 10. A margin of 6 is missed by 1:

    >>> from dlref.losses import triplet_margin_loss
    >>> triplet = [0.0, 0.0], [3.0, 4.0], [6.0, 8.0]
    >>> float(triplet_margin_loss(*triplet, margin=6, eps=0))
    1.0

    From the positive to the negative it is 5, so with the swap all of the margin is missing:

    >>> float(triplet_margin_loss(*triplet, margin=6, eps=0, swap=True))
    6.0
    """
    smooth = _Triplets(margin, p, eps, swap).smooth()
    return smooth.value((anchor, positive, negative), reduction)


def triplet_margin_loss_grad(
    anchor: npt.ArrayLike,
    positive: npt.ArrayLike,
    negative: npt.ArrayLike,
    *,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""
    Gradient of the loss of triplets with respect to all three embeddings.

    Parameters
    ----------
    anchor, positive, negative, margin, p, eps, swap : as in `triplet_margin_loss`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.

    Returns
    -------
    danchor : ndarray, shape (..., D)
        Gradient of the anchors, for the mean divided by the number of triplets.
    dpositive : ndarray, shape (..., D)
        Gradient of the positives.
    dnegative : ndarray, shape (..., D)
        Gradient of the negatives.

    Notes
    -----
    **The norm.** From :math:`d^p = \sum_i \abs{v_i}^p` follows
    :math:`p\, d^{p - 1} \dd d = \sum_i p \abs{v_i}^{p - 1} \operatorname{sign}(v_i) \dd v_i`, so a
    norm has the gradient

    .. math:: \pdv{d}{v_i} = \operatorname{sign}(v_i) \Bigl( \frac{\abs{v_i}}{d} \Bigr)^{p - 1} ,

    for p = 2 the vector of length 1 in the direction of :math:`\vec v`.

    **The chain rule.** With the gradients :math:`\vec g_+` and :math:`\vec g_-` of the two
    distances by their differences, a triplet with :math:`m + d_+ - d_- > 0` has

    .. math:: \pdv{\ell}{\vec a} = \vec g_+ - \vec g_- , \qquad
       \pdv{\ell}{\vec b} = -\vec g_+ , \qquad \pdv{\ell}{\vec c} = \vec g_- .

    Every other triplet has none: a step pulls the positive to the anchor and pushes the negative
    away, both with a force that does not depend on the distance. Where the positive's distance to
    the negative counts, :math:`-\vec g_-` goes to the positive instead of the anchor. The three
    gradients add up to 0, as a common translation changes no distance.

    At a kink, :math:`m + d_+ - d_- = 0`, we take 0, and PyTorch, which writes ``clamp_min``, takes
    the gradient of the active side. For two equal distances from the negative we take the anchor's,
    and PyTorch the mean of both.

    Examples
    --------
    >>> from dlref.losses import triplet_margin_loss_grad
    >>> triplet = [0.0, 0.0], [3.0, 4.0], [0.0, 8.0]
    >>> da, db, dc = triplet_margin_loss_grad(*triplet, margin=6, eps=0)
    >>> da, db, dc
    (array([-0.6,  0.2]), array([0.6, 0.8]), array([ 0., -1.]))
    """
    smooth = _Triplets(margin, p, eps, swap).smooth()
    da, db, dc = smooth.grad((anchor, positive, negative), reduction)
    return da, db, dc


def triplet_margin_loss_vjp(
    dout: npt.ArrayLike,
    anchor: npt.ArrayLike,
    positive: npt.ArrayLike,
    negative: npt.ArrayLike,
    *,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the loss of triplets.

    Parameters
    ----------
    dout : array_like
        Cotangent u of the loss: a scalar, or of shape (...) for the reduction ``"none"``.
    anchor, positive, negative, margin, p, eps, swap, reduction : as in `triplet_margin_loss`
        Raises the same errors.

    Returns
    -------
    danchor : ndarray, shape (..., D)
        Gradient of the anchors.
    dpositive : ndarray, shape (..., D)
        Gradient of the positives.
    dnegative : ndarray, shape (..., D)
        Gradient of the negatives.

    Notes
    -----
    With u for each triplet that misses its margin, and 0 for the others, and the gradients of
    :func:`triplet_margin_loss_grad`,

    .. math:: \pdv{L}{\vec a} = u\, (\vec g_+ - \vec g_-) , \qquad
       \pdv{L}{\vec b} = -u\, \vec g_+ , \qquad \pdv{L}{\vec c} = u\, \vec g_- .

    Examples
    --------
    A triplet that has its margin gets no gradient:

    >>> from dlref.losses import triplet_margin_loss_vjp
    >>> triplet = [0.0, 0.0], [3.0, 4.0], [6.0, 8.0]
    >>> da, db, dc = triplet_margin_loss_vjp(7.0, *triplet, margin=4)
    >>> bool(da.any() or db.any() or dc.any())
    False
    """
    smooth = _Triplets(margin, p, eps, swap).smooth()
    da, db, dc = smooth.vjp(dout, (anchor, positive, negative), reduction)
    return da, db, dc


def triplet_margin_loss_jvp(
    primals: Any,
    tangents: Any,
    *,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the loss of triplets.

    Parameters
    ----------
    primals : tuple (anchor, positive, negative) of array_like, shape (..., D)
        Embeddings.
    tangents : tuple (danchor, dpositive, dnegative) of array_like or None
        Directions, of the shape of `primals`; None is zero.
    margin, p, eps, swap, reduction : as in `triplet_margin_loss`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        Tangent of the loss, of its shape.

    Notes
    -----
    With the gradients of :func:`triplet_margin_loss_grad`, where the margin is missed,

    .. math:: \dot\ell = \vec g_+ \cdot (\dot{\vec a} - \dot{\vec b})
       - \vec g_- \cdot (\dot{\vec a} - \dot{\vec c}) .

    Examples
    --------
    A common translation changes no distance:

    >>> from dlref.losses import triplet_margin_loss_jvp
    >>> triplet, v = ([0.0, 0.0], [3.0, 4.0], [0.0, 8.0]), [1.0, 2.0]
    >>> abs(float(triplet_margin_loss_jvp(triplet, (v, v, v), margin=6))) < 1e-15
    True
    """
    return _Triplets(margin, p, eps, swap).smooth().jvp(primals, tangents, reduction)
