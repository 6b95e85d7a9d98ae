r"""A cache of keys and values, for decoding token by token."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_integer,
    as_integers,
    check_ndim,
    check_pattern,
    check_range,
    check_shape,
    float_dtype,
    shown,
)


class KVCache:
    r"""
    Keys and values of the tokens so far, for decoding step by step.

    Parameters
    ----------
    keys : array_like, shape (..., Hk, S, E)
        Keys to begin with; they are copied.
    values : array_like, shape (..., Hk, S, V)
        Values that belong to them.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If the shapes do not fit.

    See Also
    --------
    multi_head_attention : Appends to the cache it is given.

    Notes
    -----
    ``KVCache.empty(batch_shape, num_kv_heads, head_width, value_width=None)``
        makes one that holds no token yet: batch axes, Hk, E, V (None is E). By keyword: ``dtype``,
        the type of the stored arrays, float32 by default; ``capacity``, the number of tokens
        for which memory is allocated at once; ``window`` and ``chunk``, which limit how many
        tokens are kept.

    ``cache.append(k, v)``
        appends keys (..., Hk, T, E) and values (..., Hk, T, V) of T new tokens, and returns all
        keys and values stored so far. With rotary positions the keys are rotated before.

    ``cache.reorder(texts)``
        keeps the texts with these indices on the first batch axis, in this order.

    ``cache.keys``, ``cache.values``, ``len(cache)``
        are the keys and values stored, as read-only views, and the number of tokens.

    ``cache.total``
        is the number of tokens that were ever appended, those no longer kept included.

    A cache is the one thing in dlref that is written to. Its buffers double when they are
    full, so that n tokens, appended one by one, cause at most 2 n row copies; n tokens take
    n Hk (E + V) numbers. Without it, step t of decoding would project all t tokens anew.

    A layer with a sliding window of W earlier tokens, or with chunks of C tokens, never looks at
    older keys again. With ``window=W`` or ``chunk=C`` the cache drops them: it keeps at most
    W or C tokens however long the text is, and the buffers hold at most 1.5 times as many.

    **Conventions.** The offset of the next query is ``len(cache)`` before its keys are appended,
    also for a cache that drops keys: an offset counts from the first key that is kept, which stands
    at position ``cache.total - len(cache)`` of the text. Only the angles of
    rotary positions begin at ``cache.total``. Hugging Face's ``sliding_window=W`` counts
    the query's own token: it is ``window=W - 1`` here, and ``window=(W - 1, 0)`` in attention.

    Examples
    --------
    >>> from dlref.attention import KVCache
    >>> cache = KVCache.empty((), 1, 2)
    >>> keys, values = cache.append([[[1.0, 2.0]]], [[[3.0, 4.0]]])
    >>> keys, values = cache.append([[[5.0, 6.0]]], [[[7.0, 8.0]]])
    >>> len(cache), keys[0].tolist()
    (2, [[1.0, 2.0], [5.0, 6.0]])

    A window of two earlier tokens: the third of five tokens that come one by one meets three keys,
    and so does the fifth:

    >>> import numpy as np
    >>> cache = KVCache.empty((), 1, 2, window=2)
    >>> met = [cache.append(np.ones((1, 1, 2)), np.ones((1, 1, 2)))[0].shape[1] for _ in range(5)]
    >>> met, len(cache), cache.total
    ([1, 2, 3, 3, 3], 2, 5)

    A model with ``sliding_window=3`` writes token by token. With ``len(cache)`` as the offset, the
    output of each token is the one of a call for the whole text:

    >>> from dlref.attention import scaled_dot_product_attention as attend
    >>> W, (q, k, v) = 3, np.random.default_rng(0).normal(size=(3, 1, 6, 2))
    >>> cache, steps = KVCache.empty((), 1, 2, dtype=np.float64, window=W - 1), []
    >>> for t in range(6):
    ...     offset, now = len(cache), slice(t, t + 1)
    ...     keys, values = cache.append(k[:, now], v[:, now])
    ...     steps.append(attend(q[:, now], keys, values, window=(W - 1, 0), q_offset=offset))
    >>> want = attend(q, k, v, window=(W - 1, 0))
    >>> bool(np.allclose(np.concatenate(steps, axis=1), want, rtol=1e-13))
    True
    """

    def __init__(self, keys: npt.ArrayLike, values: npt.ArrayLike) -> None:
        dtype, (k, v) = as_floats({"keys": keys, "values": values}, work=np.float32)
        check_ndim("keys", k, 3)
        check_pattern("values", v, (*k.shape[:-1], "V"))
        self._start: int = 0  # index of the first kept token in the buffers
        self._stop: int = k.shape[-2]
        self._total: int = k.shape[-2]
        self._window: int | None = None
        self._chunk: int | None = None
        self._keys, self._values = np.array(k, dtype), np.array(v, dtype)

    @classmethod
    def empty(
        cls,
        batch_shape: tuple[int, ...],
        num_kv_heads: int,
        head_width: int,
        value_width: int | None = None,
        *,
        dtype: npt.DTypeLike = np.float32,
        capacity: int = 0,
        window: int | None = None,
        chunk: int | None = None,
    ) -> KVCache:
        """
        Return a cache that holds no token yet.

        Parameters
        ----------
        batch_shape : tuple of int
            Lengths of the batch axes.
        num_kv_heads : int
            Number Hk of heads.
        head_width : int
            Width E of a key.
        value_width : int or None
            Width V of a value; None is E.
        dtype : dtype, default float32
            Type of the stored arrays.
        capacity : int, default 0
            Number of tokens for which memory is allocated at once.
        window : int or None
            Number of the latest tokens that are kept for the next one; None keeps all.
        chunk : int or None
            Number of tokens of a chunk: only tokens of the next one's chunk are kept; None keeps
            all.

        Returns
        -------
        KVCache
            An empty cache.
        """
        if not isinstance(batch_shape, tuple | list):
            msg = f"Argument 'batch_shape' must be a tuple of integers, not {shown(batch_shape)}."
            raise TypeError(msg)
        heads = as_integer("num_kv_heads", num_kv_heads, least=1)
        width = as_integer("head_width", head_width, least=0)
        value = width if value_width is None else as_integer("value_width", value_width, least=0)
        rows = as_integer("capacity", capacity, least=0)
        kind = float_dtype("dtype", dtype)
        lead = (
            *(as_integer(f"batch_shape[{i}]", n, least=0) for i, n in enumerate(batch_shape)),
            heads,
        )
        last = None if window is None else as_integer("window", window, least=0)
        size = None if chunk is None else as_integer("chunk", chunk, least=1)
        cache = cls(np.empty((*lead, 0, width), kind), np.empty((*lead, 0, value), kind))
        cache._window, cache._chunk = last, size
        most = cache._capacity
        cache._move(rows if most is None else min(rows, most + _spare(most)))
        return cache

    def __len__(self) -> int:
        return self._stop - self._start

    @property
    def total(self) -> int:
        """Number of tokens that were appended, whether they are kept or not."""
        return self._total

    @property
    def keys(self) -> FloatArray:
        """Keys so far, a read-only view."""
        return self._view(self._keys)

    @property
    def values(self) -> FloatArray:
        """Values so far, a read-only view."""
        return self._view(self._values)

    def _view(self, buffer: FloatArray, new: int = 0) -> FloatArray:
        view = buffer[..., self._start : self._stop + new, :]
        view.flags.writeable = False
        return view

    def append(self, k: npt.ArrayLike, v: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """
        Append keys and values, and return all there are now.

        Parameters
        ----------
        k : array_like, shape (..., Hk, T, E)
            Keys of T new tokens, already rotated if positions are rotary.
        v : array_like, shape (..., Hk, T, V)
            Their values.

        Returns
        -------
        keys, values : ndarray
            All keys and values kept before, then the new ones: read-only views that stay valid.
        """
        _, (k, v) = as_floats({"k": k, "v": v}, work=np.float32)
        check_pattern("k", k, (*self._keys.shape[:-2], "T", self._keys.shape[-1]))
        check_shape("v", v, (*k.shape[:-1], self._values.shape[-1]))
        seen = self._written(k, v)
        self._count(k.shape[-2])
        return seen

    def _written(self, k: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Write new tokens, not counted yet, and return all keys and values with them."""
        T = k.shape[-2]
        if self._stop + T > self._keys.shape[-2]:
            most = (
                2 * self._keys.shape[-2]
                if self._capacity is None
                else self._capacity + _spare(self._capacity)
            )
            self._move(max(len(self) + T, most))
        new = slice(self._stop, self._stop + T)
        with np.errstate(all="ignore"):  # a number may be too large for the dtype of the cache
            self._keys[..., new, :], self._values[..., new, :] = k, v
        return self._view(self._keys, T), self._view(self._values, T)

    def _count(self, tokens: int) -> None:
        """Count tokens that were written, and forget those that no later one will meet."""
        self._stop += tokens
        self._total += tokens
        if self._capacity is not None:
            self._forget(self._capacity)

    @property
    def _capacity(self) -> int | None:
        """Largest number of tokens that are kept, None if it has no bound."""
        return min((n for n in (self._window, self._chunk) if n is not None), default=None)

    def _forget(self, most: int) -> None:
        """Give up the tokens that no later one will meet, and their memory where it is much."""
        kept = min(len(self), most)
        if self._chunk is not None:
            kept = min(kept, self._total % self._chunk)
        self._start = self._stop - kept
        if self._keys.shape[-2] > most + _spare(most):
            self._move(kept)

    def reorder(self, texts: npt.ArrayLike) -> None:
        """
        Go on with some of the texts of the first batch axis, as beam search does.

        Parameters
        ----------
        texts : array_like of int, shape (B',)
            Their numbers in the new order; one may be wanted twice, another not at all.
        """
        which = as_integers("texts", texts)
        check_pattern("texts", which, ("B'",))
        check_ndim("keys", self._keys, 4)
        check_range("texts", which, len(self._keys))
        self._keys, self._values = self._keys[which], self._values[which]

    def _move(self, room: int) -> None:
        """Move the kept tokens to the start of new buffers; views of the old ones stay valid."""
        old, held = (self.keys, self.values), len(self)
        self._keys, self._values = (
            np.empty((*a.shape[:-2], room, a.shape[-1]), a.dtype) for a in old
        )
        self._keys[..., :held, :], self._values[..., :held, :] = old
        self._start, self._stop = 0, held


def _spare(kept: int) -> int:
    """Return for how many more tokens there is room, so that few appended ones move the others."""
    return (kept + 1) // 2 + 1


@contextmanager
def appended(
    cache: KVCache | None, k: FloatArray, v: FloatArray
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield the cached keys and values with the new ones; an error leaves the cache as it was."""
    if cache is None:
        yield k, v
        return
    for name, new, kept in (("keys", k, cache.keys), ("values", v, cache.values)):
        check_pattern(f"cache.{name}", kept, (*new.shape[:-2], "S", new.shape[-1]))
    yield cache._written(k, v)
    cache._count(k.shape[-2])
