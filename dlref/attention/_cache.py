r"""A cache of keys and values, for decoding token by token."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_array,
    as_floats,
    as_integer,
    as_integers,
    check_ndim,
    check_pattern,
    check_range,
    check_shape,
    float_dtype,
)

__all__ = ["KVCache"]


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
        the type of what is stored, float32 by default, and ``capacity``, the number of tokens for
        which memory is allocated at once.

    ``cache.append(k, v)``
        appends keys (..., Hk, T, E) and values (..., Hk, T, V) of T new tokens, and returns all
        keys and values stored so far. With rotary positions the keys are rotated before.

    ``cache.reorder(texts)``
        keeps the texts with these indices on the first batch axis, in this order.

    ``cache.keys``, ``cache.values``, ``len(cache)``
        are the keys and values stored, as read-only views, and the number of tokens.

    A cache is the one thing in dlref that is written to. Its buffers double when they are
    full, so that n tokens, appended one by one, cause at most 2 n row copies; n tokens take
    n Hk (E + V) numbers. Without it, step t of decoding would project all t tokens anew.

    Examples
    --------
    >>> from dlref.attention import KVCache
    >>> cache = KVCache.empty((), 1, 2)
    >>> keys, values = cache.append([[[1.0, 2.0]]], [[[3.0, 4.0]]])
    >>> keys, values = cache.append([[[5.0, 6.0]]], [[[7.0, 8.0]]])
    >>> len(cache), keys[0].tolist()
    (2, [[1.0, 2.0], [5.0, 6.0]])
    """

    def __init__(self, keys: npt.ArrayLike, values: npt.ArrayLike) -> None:
        dtype, (k, v) = as_floats({"keys": keys, "values": values}, work=np.float32)
        check_ndim("keys", k, 3)
        check_pattern("values", v, (*k.shape[:-1], "V"))
        self._length: int = k.shape[-2]
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
            Type of what is stored.
        capacity : int, default 0
            Number of tokens for which memory is allocated at once.

        Returns
        -------
        KVCache
            An empty cache.
        """
        heads = as_integer("num_kv_heads", num_kv_heads, least=1)
        width = as_integer("head_width", head_width, least=0)
        value = width if value_width is None else as_integer("value_width", value_width, least=0)
        rows = as_integer("capacity", capacity, least=0)
        kind = float_dtype("dtype", dtype)
        lead = (
            *(as_integer(f"batch_shape[{i}]", n, least=0) for i, n in enumerate(batch_shape)),
            heads,
        )
        cache = cls(np.empty((*lead, rows, width), kind), np.empty((*lead, rows, value), kind))
        cache._length = 0
        return cache

    def __len__(self) -> int:
        return self._length

    @property
    def keys(self) -> FloatArray:
        """Keys so far, a read-only view."""
        return self._seen(self._keys)

    @property
    def values(self) -> FloatArray:
        """Values so far, a read-only view."""
        return self._seen(self._values)

    def _seen(self, buffer: FloatArray) -> FloatArray:
        view = buffer[..., : self._length, :]
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
            All keys and values, read-only views that stay valid.
        """
        k, v = as_array("k", k), as_array("v", v)
        check_pattern("k", k, (*self._keys.shape[:-2], "T", self._keys.shape[-1]))
        check_shape("v", v, (*k.shape[:-1], self._values.shape[-1]))
        start, stop = self._length, self._length + k.shape[-2]
        if stop > self._keys.shape[-2]:
            room = max(stop, 2 * self._keys.shape[-2])
            self._keys, self._values = (self._grown(b, room) for b in (self._keys, self._values))
        self._keys[..., start:stop, :] = k
        self._values[..., start:stop, :] = v
        self._length = stop
        return self.keys, self.values

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

    def _grown(self, buffer: FloatArray, room: int) -> FloatArray:
        larger = np.empty((*buffer.shape[:-2], room, buffer.shape[-1]), buffer.dtype)
        larger[..., : self._length, :] = buffer[..., : self._length, :]
        return larger
