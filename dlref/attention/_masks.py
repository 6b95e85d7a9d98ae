r"""Boolean masks: which key a query may attend to."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    MAX_OFFSET,
    as_integer,
    as_integers,
    as_mask,
    check_axes,
    check_broadcast,
    check_ndim,
    check_range,
    check_size,
)
from ._kernels.arguments import as_side


def _distance(T: int, S: int | None, q_offset: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return j - (i + q_offset) for each query i and key j."""
    T = as_integer("T", T, least=0)
    S = T if S is None else as_integer("S", S, least=0)
    offset = np.clip(as_integers("q_offset", q_offset), -MAX_OFFSET, MAX_OFFSET)[..., None, None]
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
    Mask under which a query attends to its neighborhood.

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

    **Conventions.** Hugging Face's ``sliding_window=W`` counts the query's own token, `left` does
    not: ``left=W - 1, right=0`` is the same mask, or ``window=(W - 1, 0)`` in attention. The
    ``window_size`` of flash-attention counts as here.

    References
    ----------
    - :cite:t:`Beltagy2020`

    Examples
    --------
    With W = 2 in a configuration of Hugging Face, a query sees two keys, itself and the one before:

    >>> from dlref.attention import window_mask
    >>> window_mask(4, 4, left=1, right=0).astype(int)
    array([[1, 0, 0, 0],
           [1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])

    A cache that keeps the window's W − 1 earlier keys has one of them here; its length before the
    call is the offset of the next query:

    >>> window_mask(1, 2, left=1, right=0, q_offset=1).astype(int)
    array([[1, 1]])
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


def document_mask(
    ids: npt.ArrayLike, key_ids: npt.ArrayLike | None = None
) -> npt.NDArray[np.bool_]:
    r"""
    Mask of packed documents, in which a token attends only to its own document.

    Parameters
    ----------
    ids : array_like of int, shape (..., T)
        Number of the document that each query belongs to.
    key_ids : array_like of int or None, shape (..., S)
        The same for the keys; None takes the numbers of the queries.

    Returns
    -------
    ndarray of bool, shape (..., T, S)
        True where query i and key j have the same number.

    Raises
    ------
    TypeError
        If an argument is not integer.
    ValueError
        If an argument is a scalar, or the batch axes do not broadcast.

    See Also
    --------
    scaled_dot_product_attention : Takes it as `mask`, together with ``is_causal=True``.
    padding_mask : For one document in each row of a batch.

    Notes
    -----
    With the number :math:`d_i` of the document of query i and :math:`d'_j` of key j,

    .. math:: M_{ij} = [\, d_i = d'_j \,] .

    Short documents are packed into one row of a batch, so that nothing is computed for padding. A
    causal mask alone would let the second document read the first one. The numbers need not be
    sorted. Positions have to start again at 0 in each document, unless they are relative.

    Examples
    --------
    Documents of two tokens and of three:

    >>> from dlref.attention import causal_mask, document_mask
    >>> ids = [0, 0, 1, 1, 1]
    >>> document_mask(ids).astype(int)
    array([[1, 1, 0, 0, 0],
           [1, 1, 0, 0, 0],
           [0, 0, 1, 1, 1],
           [0, 0, 1, 1, 1],
           [0, 0, 1, 1, 1]])
    >>> (document_mask(ids) & causal_mask(5)).astype(int)[3]
    array([0, 0, 1, 1, 0])
    """
    of_queries = as_integers("ids", ids)
    of_keys = of_queries if key_ids is None else as_integers("key_ids", key_ids)
    for name, numbers in (("ids", of_queries), ("key_ids", of_keys)):
        check_ndim(name, numbers, 1)
    check_broadcast("key_ids", of_keys.shape[:-1], of_queries.shape[:-1], both=True)
    return np.asarray(of_queries[..., :, None] == of_keys[..., None, :])


def prefix_mask(T: int, prefix: int) -> npt.NDArray[np.bool_]:
    r"""
    Causal mask whose first keys are seen by all queries.

    Parameters
    ----------
    T : int
        Number of tokens.
    prefix : int
        Number of tokens at the start that everybody sees, from 0 to `T`.

    Returns
    -------
    ndarray of bool, shape (T, T)
        True where :math:`j \le i` or key j is in the prefix.

    Raises
    ------
    TypeError
        If an argument is not an integer.
    ValueError
        If `T` is negative, or `prefix` is not from 0 to `T`.

    See Also
    --------
    causal_mask : The same with an empty prefix.

    Notes
    -----
    .. math:: M_{ij} = [\, j \le i \ \text{or} \ j < P \,] .

    The tokens of the prefix see each other in both directions, as in an encoder; the tokens after
    it are generated one by one. It is the mask of a prefix language model (T5's experiments) and of
    PaliGemma, whose prefix is the image and the question. Only tokens after the prefix have a loss,
    because a token of the prefix sees the one that it would have to predict.

    References
    ----------
    - :cite:t:`Raffel2020`

    Examples
    --------
    >>> from dlref.attention import prefix_mask
    >>> prefix_mask(4, 2).astype(int)
    array([[1, 1, 0, 0],
           [1, 1, 0, 0],
           [1, 1, 1, 0],
           [1, 1, 1, 1]])
    """
    T = as_integer("T", T, least=0)
    prefix = as_integer("prefix", prefix, least=0, most=T)
    return causal_mask(T) | (np.arange(T) < prefix)


def chunk_mask(
    T: int, S: int | None = None, *, size: int, q_offset: npt.ArrayLike = 0
) -> npt.NDArray[np.bool_]:
    r"""
    Causal mask within chunks of equal size.

    Parameters
    ----------
    T : int
        Number of queries.
    S : int or None
        Number of keys; None is `T`.
    size : int
        Number of positions in a chunk, at least 1.
    q_offset : array_like of int, shape (...), default 0
        Position of query 0 among the keys; an array makes one mask for each of its elements.

    Returns
    -------
    ndarray of bool, shape (..., T, S)
        True where key j is not after query i and in the same chunk.

    Raises
    ------
    TypeError
        If an argument is not an integer.
    ValueError
        If `T` or `S` is negative, or `size` is less than 1.

    See Also
    --------
    window_mask : A window around each query.
    document_mask : Chunks of any size.

    Notes
    -----
    With the position :math:`i' = i + \text{offset}` of query i and chunks of C,

    .. math:: M_{ij} = [\, j \le i' \ \text{and} \ \lfloor j / C \rfloor
       = \lfloor i' / C \rfloor \,] .

    Three of four layers of Llama 4 have such a mask with C = 8192. It costs as little as a window
    of C keys. But the first token of a chunk sees itself alone, however long the text before it is,
    and stacked layers do not help: information crosses the border only in the layers that attend to
    everything.

    Examples
    --------
    >>> from dlref.attention import chunk_mask
    >>> chunk_mask(5, size=3).astype(int)
    array([[1, 0, 0, 0, 0],
           [1, 1, 0, 0, 0],
           [1, 1, 1, 0, 0],
           [0, 0, 0, 1, 0],
           [0, 0, 0, 1, 1]])
    """
    size = as_integer("size", size, least=1)
    distance = _distance(T, S, q_offset)
    keys = np.arange(distance.shape[-1])
    first = (keys - distance) // size * size  # of the chunk that the query is in
    return np.asarray((distance <= 0) & (keys >= first))


def tree_mask(parents: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    r"""
    Mask of a tree of tokens, in which a token attends to itself and its ancestors.

    Parameters
    ----------
    parents : array_like of int, shape (T,)
        Position of the parent of each token; -1 for a root.

    Returns
    -------
    ndarray of bool, shape (T, T)
        True where token j is token i or an ancestor of it.

    Raises
    ------
    TypeError
        If `parents` is not integer.
    ValueError
        If `parents` does not have one axis, holds anything other than -1 and positions, or if a
        token is its own ancestor.

    See Also
    --------
    causal_mask : A tree without branches.

    Notes
    -----
    With the parent p(i) of token i, and only the first term for a root,

    .. math:: M_{ij} = [\, i = j \,] \ \text{or} \ M_{p(i) j} .

    Speculative decoding proposes several continuations at once (Medusa, EAGLE). They share their
    beginnings, so they form a tree. With this mask, one pass over the tree gives each token the
    scores that it would have at the end of its own branch. A token's position is its depth, the
    number of its ancestors, and not its place in the array.

    References
    ----------
    - :cite:t:`Miao2023`

    Examples
    --------
    Token 0 has the continuations 1 and 2; token 3 continues 1.

    >>> from dlref.attention import tree_mask
    >>> mask = tree_mask([-1, 0, 0, 1])
    >>> mask.astype(int)
    array([[1, 0, 0, 0],
           [1, 1, 0, 0],
           [1, 0, 1, 0],
           [1, 1, 0, 1]])
    >>> mask.sum(axis=1) - 1  # the positions
    array([0, 1, 1, 2])
    """
    above = as_integers("parents", parents)
    check_axes("parents", above, 1)
    if above.size and (above.min() < -1 or above.max() >= above.size):
        worst = above.min() if above.min() < -1 else above.max()
        last = above.size - 1
        msg = f"Argument 'parents' must hold integers from -1 to {last}, not {worst}."
        raise ValueError(msg)
    start = above
    mask, tokens = np.eye(above.size, dtype=bool), np.arange(above.size)
    for _ in range(above.size):
        tokens, above = tokens[above >= 0], above[above >= 0]
        mask[tokens, above] = True
        above = start[above]
    if above.size and above.max() >= 0:
        msg = "Argument 'parents' must be a tree, not have a token that is its own ancestor."
        raise ValueError(msg)
    return mask


def block_mask(blocks: npt.ArrayLike, *, size: int) -> npt.NDArray[np.bool_]:
    r"""
    Expand a mask of blocks to a mask of tokens.

    Parameters
    ----------
    blocks : array_like of bool, shape (..., Tb, Sb)
        True where a block of queries attends to a block of keys.
    size : int
        Number of queries and of keys in a block, at least 1.

    Returns
    -------
    ndarray of bool, shape (..., Tb size, Sb size)
        The mask, each element repeated `size` times in both directions.

    Raises
    ------
    TypeError
        If `blocks` is not boolean or `size` is not an integer.
    ValueError
        If `blocks` has less than two axes, or `size` is less than 1.

    See Also
    --------
    chunk_mask : Blocks on the diagonal, causal.

    Notes
    -----
    With blocks of b tokens and the mask :math:`M'` of blocks,

    .. math:: M_{ij} = M'_{\lfloor i / b \rfloor \lfloor j / b \rfloor} .

    Sparse attention of BigBird, and the block masks of FlexAttention, choose whole blocks, because
    hidden blocks of a suitable size can be skipped, while single hidden elements cost as much as
    visible ones. A causal mask is still needed inside the blocks on the diagonal.

    References
    ----------
    - :cite:t:`Zaheer2020`

    Examples
    --------
    >>> from dlref.attention import block_mask
    >>> block_mask([[True, False], [True, True]], size=2).astype(int)
    array([[1, 1, 0, 0],
           [1, 1, 0, 0],
           [1, 1, 1, 1],
           [1, 1, 1, 1]])
    """
    mask, size = as_mask("blocks", blocks), as_integer("size", size, least=1)
    check_ndim("blocks", mask, 2)
    check_size(blocks=mask.size, size=size * size)
    return np.asarray(mask.repeat(size, axis=-1).repeat(size, axis=-2))
