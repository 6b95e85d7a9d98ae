r"""The triplet loss: a positive is nearer to its anchor than a negative, by a margin."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_number, check_flags, check_ndim
from ._kernels.smooth import Smooth

NAMES = ("anchor", "positive", "negative")


def _check(names: tuple[str, ...], arrays: list[FloatArray]) -> None:
    check_ndim(names[0], arrays[0], 1)


def _norm(v: FloatArray, p: float) -> FloatArray:
    """Return the p-norm of each row, without overflow or underflow of the powers."""
    ratio = np.abs(v)
    top = np.max(ratio, axis=-1, keepdims=True, initial=0.0)
    scale = np.where((top > 0.0) & (top < np.inf), top, 1.0)
    ratio /= scale
    ratio **= p
    return np.asarray(scale * np.sum(ratio, axis=-1, keepdims=True) ** (1.0 / p))


def _norm_slope(v: FloatArray, norm: FloatArray, p: float) -> FloatArray:
    """Return the gradient of the p-norm of each row, 0 where the row is 0."""
    unit = v / np.where(norm == 0.0, 1.0, norm)
    return unit if p == 2.0 else np.asarray(np.sign(v) * np.abs(unit) ** (p - 1.0))


class _Triplets:
    """The loss of checked options, as formulas of rows."""

    def __init__(self, margin: float, p: float, eps: float, swap: bool) -> None:
        check_flags(swap=swap)
        self.margin = as_number("margin", margin)
        self.p = as_number("p", p, least=1.0)
        self.eps, self.swap = as_number("eps", eps, least=0.0), swap

    def _distance(self, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return differences, and their norms."""
        difference = x - y
        difference += self.eps
        return difference, _norm(difference, self.p)

    def _missing(self, near: FloatArray, far: FloatArray) -> FloatArray:
        gap = (near - far) + self.margin
        return np.where(gap <= 0.0, 0.0, gap)  # a NaN stays

    def terms(self, a: FloatArray, b: FloatArray, c: FloatArray) -> FloatArray:
        (_, near), (_, far) = self._distance(a, b), self._distance(a, c)
        if self.swap:
            far = np.minimum(far, self._distance(b, c)[1])
        return self._missing(near, far)[..., 0]

    def slopes(self, a: FloatArray, b: FloatArray, c: FloatArray) -> tuple[FloatArray, ...]:
        (to_b, near), (to_c, far) = self._distance(a, b), self._distance(a, c)
        if not self.swap:
            pull, push = self._forces(to_b, near, to_c, far)
            return pull - push, -pull, push
        from_b, other = self._distance(b, c)
        swapped = other < far
        to_c, far = np.where(swapped, from_b, to_c), np.where(swapped, other, far)
        pull, push = self._forces(to_b, near, to_c, far)
        return pull - np.where(swapped, 0.0, push), -pull - np.where(swapped, push, 0.0), push

    def _forces(
        self, to_b: FloatArray, near: FloatArray, to_c: FloatArray, far: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the gradients of both distances, 0 for triplets that have their margin."""
        missing = self._missing(near, far)
        active = np.where(missing > 0.0, 1.0, missing)
        pull, push = _norm_slope(to_b, near, self.p), _norm_slope(to_c, far, self.p)
        return active * pull, active * push

    def smooth(self) -> Smooth:
        return Smooth(NAMES, _check, self.terms, self.slopes, axis=-1, wanted=3)


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
    its powers neither overflow nor underflow.

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
