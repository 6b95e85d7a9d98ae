r"""Rotary embedding of positions with several coordinates, which share one set of frequencies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_bool,
    as_floats,
    as_integer,
    check_ndim,
    check_shape,
    result,
    shown,
)
from ._rotary import rope_tables


def _owners(sections: Sequence[int], pairs: int, interleaved: bool) -> npt.NDArray[np.int64]:
    """Return which coordinate turns each pair."""
    if not isinstance(sections, list | tuple):
        msg = f"Argument 'sections' must be a tuple of integers, not {shown(sections)}."
        raise TypeError(msg)
    counts = [as_integer(f"sections[{i}]", n, least=0) for i, n in enumerate(sections)]
    if sum(counts) != pairs or not counts:
        msg = (
            f"Argument 'sections' must have the sum {pairs}, one for each frequency, not {counts}."
        )
        raise ValueError(msg)
    if not interleaved:
        return np.repeat(np.arange(len(counts)), counts)
    pair = np.arange(pairs)
    axis = pair % len(counts)
    return np.where(pair < len(counts) * np.array(counts)[axis], axis, 0)


def rope_tables_multi(
    positions: npt.ArrayLike,
    frequencies: npt.ArrayLike,
    *,
    sections: Sequence[int],
    interleaved: bool = False,
    attention_factor: float = 1.0,
) -> tuple[FloatArray, FloatArray]:
    r"""
    Cosine and sine of the angles of tokens that have several coordinates.

    Models of images and videos give a token a time, a row and a column (M-RoPE of Qwen2-VL and
    Qwen3-VL). Each coordinate turns some of the pairs of channels.

    Parameters
    ----------
    positions : array_like, shape (..., A, T)
        A coordinates of each of T tokens: time, row and column for A = 3. The tokens of a text have
        three equal ones.
    frequencies : array_like, shape (n,)
        Radians per unit :math:`\theta_i`, one for each pair.
    sections : sequence of int, length A
        Number of pairs that belong to each coordinate; the sum is n.
    interleaved : bool, default False
        Whether coordinates take turns (Qwen3-VL), instead of having consecutive pairs (Qwen2-VL).
    attention_factor : float, default 1.0
        Factor m of both tables.

    Returns
    -------
    cos : ndarray, shape (..., T, n)
        :math:`m \cos p_{a(i)} \theta_i`.
    sin : ndarray, shape (..., T, n)
        :math:`m \sin p_{a(i)} \theta_i`.

    Raises
    ------
    TypeError
        If an array is not real, or an option has the wrong type.
    ValueError
        If `frequencies` does not have one axis, or `sections` does not fit.

    See Also
    --------
    rope_tables : One coordinate.
    apply_rope : Takes the tables.
    apply_rope_axial : Each coordinate has frequencies of its own.

    Notes
    -----
    Pair i is rotated by the coordinate a(i):

    .. math:: C_{ti} = m \cos p_{a(i), t}\, \theta_i , \qquad
       S_{ti} = m \sin p_{a(i), t}\, \theta_i .

    In sections, the first :math:`n_1` pairs belong to the first coordinate, the next
    :math:`n_2` to the second, and so on. Interleaved, pair i belongs to coordinate i mod A as long
    as that one has pairs left, :math:`i < A\, n_a`, and else to the first.

    **Sections or turns.** Frequencies fall with i. In sections time has all the fastest pairs, and
    the columns have only the slowest. Interleaved, each coordinate has fast and slow pairs.

    **The tokens of a text** have equal coordinates, for which both are :func:`rope_tables`: so
    a language model can learn images later. The next text token after an image has the
    largest coordinate so far plus 1.

    The score of a query and a key is a sum over the pairs, each a function of the difference in its
    own coordinate, as in :func:`apply_rope_axial`.

    **Conventions.** The module of Qwen2-VL concatenates each table with itself and splits it in six
    parts, ``mrope_section`` twice over; here each pair is listed once.

    References
    ----------
    - :cite:t:`Qwen2VL2024`
    - :cite:t:`Su2021`

    Examples
    --------
    An image token at time 1, row 2 and column 3, with four pairs of the same frequency. Its angles,
    in sections and interleaved:

    >>> import numpy as np
    >>> from dlref.positions import rope_tables_multi
    >>> place, same = [[1.0], [2.0], [3.0]], np.full(4, 0.1)
    >>> for interleaved in (False, True):
    ...     cos, sin = rope_tables_multi(place, same, sections=[2, 1, 1], interleaved=interleaved)
    ...     print(np.arctan2(sin, cos).round(12))
    [[0.1 0.1 0.2 0.3]]
    [[0.1 0.2 0.3 0.1]]

    For a text it is the usual table:

    >>> from dlref.positions import rope_tables
    >>> text = np.tile(np.arange(5), (3, 1))
    >>> cos, sin = rope_tables_multi(text, [1.0, 0.1, 0.01], sections=[1, 1, 1])
    >>> bool(np.all(cos == rope_tables(np.arange(5), [1.0, 0.1, 0.01])[0]))
    True
    """
    turns = as_bool("interleaved", interleaved)
    dtype, (p, f) = as_floats({"positions": positions, "frequencies": frequencies})
    check_shape("frequencies", f, (f.size,))
    owner = _owners(sections, f.size, turns)
    check_ndim("positions", p, 2)
    check_shape("positions", p, (*p.shape[:-2], len(sections), p.shape[-1]))
    cos, sin = (np.empty((*p.shape[:-2], p.shape[-1], f.size)) for _ in range(2))
    for a in range(len(sections)):
        own = owner == a
        tables = rope_tables(p[..., a, :], f[own], attention_factor=attention_factor)
        cos[..., own], sin[..., own] = tables
    return result(cos, dtype), result(sin, dtype)
