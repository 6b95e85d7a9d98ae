r"""Boolean masks: which key a query may attend to."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FAR,
    as_integer,
    as_integers,
    check_range,
    check_size,
)
from ._kernels.arguments import as_side

__all__ = ["causal_mask", "padding_mask", "window_mask"]


def _distance(T: int, S: int | None, q_offset: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return j - (i + q_offset) for each query i and key j."""
    T = as_integer("T", T, least=0)
    S = T if S is None else as_integer("S", S, least=0)
    offset = np.clip(as_integers("q_offset", q_offset), -FAR, FAR)[..., None, None]
    check_size(q_offset=offset.size, T=T, S=S)
    distance: npt.NDArray[np.int64] = np.arange(S) - (np.arange(T)[:, None] + offset)
    return distance


def causal_mask(
    T: int, S: int | None = None, *, q_offset: npt.ArrayLike = 0
) -> npt.NDArray[np.bool_]:
    r"""
    Mask under which a query attends to itself and to everything before it.

    Parameters
    ----------
    T : int
        Number of queries.
    S : int or None
        Number of keys; None is `T`.
    q_offset : array_like of int, shape (...), default 0
        Position of query 0 among the keys: the length of a cache, or S − T for a mask aligned at
        the last key. An array makes one mask for each of its elements.

    Returns
    -------
    ndarray of bool, shape (..., T, S)
        True where :math:`j \le i + \text{offset}`: query i may attend to key j.

    Raises
    ------
    TypeError
        If an argument is not an integer.
    ValueError
        If `T` or `S` is negative.

    See Also
    --------
    scaled_dot_product_attention : With ``is_causal=True`` needs no such matrix.
    window_mask : Bounded on either side.

    Notes
    -----
    With 1 for True and the bracket 1 where its condition holds,

    .. math::

        M_{ij} = [\, j \le i + \text{offset} \,] .

    A model that predicts token i + 1 from tokens 0 to i must not see token i + 1. With the mask,
    one pass over a sequence of T tokens computes T predictions, each as if the sequence ended
    there.

    For T = S there is one way to put the triangle. For T < S there are two: at the first key
    (offset 0; PyTorch, JAX) and at the last one (offset S − T; flash-attention since 2.1, and ONNX
    with a cache). Decoding with a cache needs the second: the newest query sees all keys.

    References
    ----------
    - :cite:t:`Vaswani2017`

    Examples
    --------
    >>> from dlref.attention import causal_mask
    >>> causal_mask(3).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])

    Two new tokens after a cache of three:

    >>> causal_mask(2, 5, q_offset=3).astype(int)
    array([[1, 1, 1, 1, 0],
           [1, 1, 1, 1, 1]])
    """
    return _distance(T, S, q_offset) <= 0


def window_mask(
    T: int,
    S: int,
    *,
    left: int | None,
    right: int | None,
    q_offset: npt.ArrayLike = 0,
) -> npt.NDArray[np.bool_]:
    r"""
    Mask under which a query attends to its neighbourhood.

    Parameters
    ----------
    T, S : int
        Numbers of queries and of keys.
    left, right : int or None
        How many keys before and after the query's own position are seen; None or −1 for all.
    q_offset : array_like of int, shape (...), default 0
        Position of query 0 among the keys; an array makes one mask for each of its elements.

    Returns
    -------
    ndarray of bool, shape (..., T, S)
        True where :math:`-\text{left} \le j - (i + \text{offset}) \le \text{right}`.

    Raises
    ------
    TypeError
        If an argument is not an integer.
    ValueError
        If `T` or `S` is negative, or a side less than −1.

    See Also
    --------
    scaled_dot_product_attention : Its `window` costs time in proportion to the window.
    causal_mask : ``left=None, right=0``.

    Notes
    -----
    .. math::

        M_{ij} = [\, -\text{left} \le j - (i + \text{offset}) \le \text{right} \,] .

    A query sees at most left + right + 1 keys, so T queries cost T (left + right + 1) scores
    instead of T S. After L such layers a token depends on others up to L left positions back:
    several layers can pass on information from beyond the window.

    References
    ----------
    - :cite:t:`Beltagy2020`

    Examples
    --------
    >>> from dlref.attention import window_mask
    >>> window_mask(4, 4, left=1, right=0).astype(int)
    array([[1, 0, 0, 0],
           [1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])
    """
    before, after = as_side("left", left), as_side("right", right)
    distance = _distance(T, S, q_offset)
    return (distance >= -before) & (distance <= after)


def padding_mask(lengths: npt.ArrayLike, S: int) -> npt.NDArray[np.bool_]:
    r"""
    Mask of the real keys in a padded batch of sequences of different lengths.

    Parameters
    ----------
    lengths : array_like of int, shape (...)
        Length of each sequence, from 0 to `S`.
    S : int
        Number of keys, of the longest sequence or more.

    Returns
    -------
    ndarray of bool, shape (..., 1, 1, S)
        True for the first `lengths` keys. The two axes of length 1 stand for heads and queries: the
        mask broadcasts against (..., H, T, S).

    Raises
    ------
    TypeError
        If an argument is not an integer.
    ValueError
        If `S` is negative, or a length negative or greater than `S`.

    See Also
    --------
    scaled_dot_product_attention : Takes it as `mask`.

    Notes
    -----
    With the length :math:`\ell_n` of sequence n,

    .. math::

        M_{n, 1, 1, j} = [\, j < \ell_n \,], \qquad j = 0, \dots, S - 1 .

    Only keys are masked. A query in the padding still has an output, which the loss has to ignore;
    if it were masked too, its row would be empty and its output 0. A sequence of length 0 has empty
    rows. The contents of masked keys and values do not matter, even if they are NaN.

    Examples
    --------
    >>> from dlref.attention import padding_mask
    >>> mask = padding_mask([1, 3], 4)
    >>> mask.shape
    (2, 1, 1, 4)
    >>> mask[:, 0, 0].astype(int)
    array([[1, 0, 0, 0],
           [1, 1, 1, 0]])
    """
    S = as_integer("S", S, least=0)
    lengths = as_integers("lengths", lengths)
    check_size(lengths=lengths.size, S=S)
    check_range("lengths", lengths, S + 1)
    return np.arange(S) < lengths[..., None, None, None]
