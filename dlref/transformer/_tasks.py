r"""Synthetic tasks: small questions about texts, on which one can see what a model can do."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    as_generator,
    as_integer,
    check_size,
)

IntArray = npt.NDArray[np.int64]
IGNORED = -100  # where nothing is asked: the default of cross_entropy's ignore_index


def _inputs_and_targets(tokens: IntArray, first: int) -> tuple[IntArray, IntArray]:
    """Return inputs, and as targets the next token from place `first` on."""
    inputs, targets = tokens[:, :-1].copy(), tokens[:, 1:].copy()
    targets[:, : first - 1] = IGNORED
    return inputs, targets


def _symbols(
    rng: np.random.Generator, count: int, length: int, vocabulary: int
) -> tuple[IntArray, IntArray]:
    """Return texts of symbols 1 to V - 1, and a column of separators 0."""
    N, T = as_integer("count", count, least=0), as_integer("length", length, least=1)
    V = as_integer("vocabulary", vocabulary, least=2)
    check_size(count=N, length=T)
    text = as_generator("rng", rng).integers(1, V, (N, T))
    return text, np.zeros((N, 1), np.int64)


def copy_task(
    rng: np.random.Generator, count: int, *, length: int, vocabulary: int
) -> tuple[IntArray, IntArray]:
    r"""
    Write the text again.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of random numbers.
    count : int
        Number N of texts.
    length : int
        Number n of symbols of a text.
    vocabulary : int
        Number of tokens: symbols from 1 on, and the separator 0.

    Returns
    -------
    tokens : ndarray of int64, shape (N, 2 n)
        Symbols, separator, and the symbols again but the last, which is never read.
    targets : ndarray of int64, shape (N, 2 n)
        The next token where it can be known, −100 elsewhere.

    Raises
    ------
    TypeError
        If `rng` is not a generator or a size is not an integer.
    ValueError
        If a size is too small.

    See Also
    --------
    reverse_task : Backwards.
    language_model_loss : Takes both arrays.

    Notes
    -----
    A recurrent network has to keep n symbols in its state. Attention looks them up: at distance n,
    a constant, for which relative positions are made. Chance is
    :math:`\log (V - 1)` per symbol.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import copy_task
    >>> tokens, targets = copy_task(np.random.default_rng(0), 1, length=3, vocabulary=9)
    >>> tokens
    array([[7, 6, 5, 0, 7, 6]])
    >>> targets
    array([[-100, -100, -100,    7,    6,    5]])
    """
    text, between = _symbols(rng, count, length, vocabulary)
    return _inputs_and_targets(np.concatenate([text, between, text], axis=1), text.shape[1] + 1)


def reverse_task(
    rng: np.random.Generator, count: int, *, length: int, vocabulary: int
) -> tuple[IntArray, IntArray]:
    r"""
    Write the text backwards.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of random numbers.
    count : int
        Number N of texts.
    length : int
        Number n of symbols of a text.
    vocabulary : int
        Number of tokens: symbols from 1 on, and the separator 0.

    Returns
    -------
    tokens : ndarray of int64, shape (N, 2 n)
        Symbols, separator, and the symbols in reverse order but the last.
    targets : ndarray of int64, shape (N, 2 n)
        The next token where it can be known, −100 elsewhere.

    Raises
    ------
    TypeError
        If `rng` is not a generator or a size is not an integer.
    ValueError
        If a size is too small.

    See Also
    --------
    copy_task : Forwards.

    Notes
    -----
    The distance to the symbol that is looked up grows by two from symbol to symbol, so every odd
    offset from 1 to 2 n − 1 occurs. The first symbol to write is the last that was read, which a
    recurrent network knows best. Chance is :math:`\log (V - 1)` per symbol.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import reverse_task
    >>> tokens, targets = reverse_task(np.random.default_rng(0), 1, length=3, vocabulary=9)
    >>> tokens
    array([[7, 6, 5, 0, 5, 6]])
    >>> targets[0, 3:]
    array([5, 6, 7])
    """
    text, between = _symbols(rng, count, length, vocabulary)
    return _inputs_and_targets(
        np.concatenate([text, between, text[:, ::-1]], axis=1), text.shape[1] + 1
    )


def associative_recall_task(
    rng: np.random.Generator, count: int, *, pairs: int, keys: int, values: int
) -> tuple[IntArray, IntArray]:
    r"""
    Give the value that came with a key.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of random numbers.
    count : int
        Number N of texts.
    pairs : int
        Number n of different keys in a text, at most `keys`.
    keys : int
        Number of keys there are: tokens from 0 to keys − 1.
    values : int
        Number of values there are: tokens from keys to keys + values − 1.

    Returns
    -------
    tokens : ndarray of int64, shape (N, 4 n − 1)
        Keys, each followed by its value; then all again in another order, but for the last value.
    targets : ndarray of int64, shape (N, 4 n − 1)
        The value after each key of the second half, −100 elsewhere.

    Raises
    ------
    TypeError
        If `rng` is not a generator or a size is not an integer.
    ValueError
        If a size is too small, or `pairs` greater than `keys`.

    See Also
    --------
    language_model_trace : To see which head found the value.

    Notes
    -----
    What came after this token the last time? Answering takes two steps, and so two layers: one
    head writes into each position which token stands before it; a head of the next
    layer looks for the position whose predecessor is the present token, and copies the token
    there. The pair is called an induction head. Which value belongs to which key is
    drawn anew for each text, so nothing can be learned by heart; chance is log(values).

    References
    ----------
    - :cite:t:`Olsson2022`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import associative_recall_task
    >>> rng = np.random.default_rng(3)
    >>> tokens, targets = associative_recall_task(rng, 1, pairs=2, keys=4, values=6)
    >>> tokens
    array([[3, 5, 2, 8, 2, 8, 3]])
    >>> targets
    array([[-100, -100, -100, -100,    8, -100,    5]])
    """
    N, n = as_integer("count", count, least=0), as_integer("pairs", pairs, least=1)
    K, V = as_integer("keys", keys, least=1), as_integer("values", values, least=1)
    check_size(count=N, keys=K)
    if n > K:
        msg = f"Argument 'pairs' must be at most keys = {K}, not {n}."
        raise ValueError(msg)
    key = as_generator("rng", rng).permuted(np.tile(np.arange(K), (N, 1)), axis=1)[:, :n]
    value = K + rng.integers(0, V, (N, n))
    order = rng.permuted(np.tile(np.arange(n), (N, 1)), axis=1)
    halves = [
        np.stack([k, v], axis=-1).reshape(N, 2 * n)
        for k, v in (
            (key, value),
            (np.take_along_axis(key, order, 1), np.take_along_axis(value, order, 1)),
        )
    ]
    tokens, targets = _inputs_and_targets(np.concatenate(halves, axis=1), 2 * n + 1)
    targets[:, 1::2] = IGNORED
    return tokens, targets


def addition_task(
    rng: np.random.Generator, count: int, *, digits: int
) -> tuple[IntArray, IntArray]:
    r"""
    Add two numbers, digit by digit from the right.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of random numbers.
    count : int
        Number N of sums.
    digits : int
        Number n of digits of each number, leading zeros included, at most 17.

    Returns
    -------
    tokens : ndarray of int64, shape (N, 3 n + 2)
        Digits of both numbers, "+" (10), "=" (11) and the n + 1 digits of the sum but the last;
        every number begins with its ones.
    targets : ndarray of int64, shape (N, 3 n + 2)
        The digits of the sum, −100 elsewhere.

    Raises
    ------
    TypeError
        If `rng` is not a generator or a size is not an integer.
    ValueError
        If a size is out of range.

    See Also
    --------
    copy_task, reverse_task : Without carries.

    Notes
    -----
    Ones first, as on paper: then a digit of the sum depends on two digits and one carry, which can
    be read from the digits written so far. Written the usual way, the first digit would need
    all carries at once. Chance is log 10 per digit.

    Examples
    --------
    18 + 95 = 113, all backwards:

    >>> import numpy as np
    >>> from dlref.transformer import addition_task
    >>> tokens, targets = addition_task(np.random.default_rng(2), 1, digits=2)
    >>> a, b = tokens[0, :2] @ [1, 10], tokens[0, 3:5] @ [1, 10]
    >>> int(targets[0, 5:] @ [1, 10, 100]) == int(a + b)
    True
    """
    N, n = as_integer("count", count, least=0), as_integer("digits", digits, least=1, most=17)
    check_size(count=N, digits=n)
    powers = 10 ** np.arange(n + 1)
    a, b = as_generator("rng", rng).integers(0, 10**n, (2, N, 1))
    parts = [a // powers[:n] % 10, np.full((N, 1), 10), b // powers[:n] % 10]
    parts += [np.full((N, 1), 11), (a + b) // powers % 10]
    return _inputs_and_targets(np.concatenate(parts, axis=1), 2 * n + 2)
