r"""Sines and cosines of the position: a table to add to embeddings, and its shift."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_even,
    as_floats,
    as_integer,
    as_number,
    check_size,
    choice,
    entries,
    float_dtype,
)
from ._kernels.circle import circles_of_turns, fill, powers_in_turns

LAYOUTS = ("interleaved", "halves")
SPACINGS = ("paper", "tensor2tensor")


def _turns(dim: int, base: float, spacing: str) -> tuple[FloatArray, FloatArray]:
    base = as_number("base", base, above=1.0)
    choice("spacing", spacing, SPACINGS)
    count = (dim + 1) // 2
    if spacing == "paper":
        return powers_in_turns(base, 2, max(dim, 1), count)
    return powers_in_turns(base, 1, max(dim // 2 - 1, 1), count)


def sinusoidal(
    length: int,
    dim: int,
    *,
    base: float = 10000.0,
    layout: str = "interleaved",
    spacing: str = "paper",
    offset: float = 0,
    dtype: npt.DTypeLike = np.float64,
) -> FloatArray:
    r"""
    Table of sines and cosines, a row for each position.

    Parameters
    ----------
    length : int
        Number of positions.
    dim : int
        Width D of the table, at least 1. It may be odd.
    base : float, default 10000.0
        Base b of the wavelengths.
    layout : {"interleaved", "halves"}
        Whether sine and cosine alternate, or all sines come first.
    spacing : {"paper", "tensor2tensor"}
        Exponents of the base, see below.
    offset : float, default 0
        First position; it need not be an integer.
    dtype : dtype, default float64
        Type of the table, float64, float32 or narrower.

    Returns
    -------
    ndarray, shape (length, D)
        The table PE.

    Raises
    ------
    TypeError
        If `length` or `dim` is not an integer, `base` or `offset` is not a number, `dtype` is
        neither integer nor a real floating-point type.
    ValueError
        If `length` is negative, `dim` less than 1, `base` not above 1, `layout` or `spacing`
        unknown.

    See Also
    --------
    sinusoidal_shift : The matrix that moves a row by k positions.
    learned_positions : A table of parameters instead.
    apply_rope : The same angles, as a rotation.

    Notes
    -----
    With frequencies :math:`\omega_i` in radians per position,

    .. math:: PE_{p, 2i} = \sin p\, \omega_i, \qquad PE_{p, 2i + 1} = \cos p\, \omega_i, \qquad
       \omega_i = b^{-2i/D} .

    **Two conventions.** The formula above is the paper's. The authors' library tensor2tensor puts
    all sines before all cosines and takes :math:`\omega_i = b^{-i / (n - 1)}` for
    :math:`n = \lfloor D/2 \rfloor` pairs (and :math:`\omega_0 = 1` for a single one), so that the
    last wavelength is exactly :math:`2\pi b`. The order is a permutation, which the next layer
    absorbs; the spacing is not: for D = 64 the values differ by up to 1.07 in the first 100
    positions. `layout` and `spacing` choose one of the four combinations.

    **Odd widths.** An additive table needs no pairs. Interleaved, the last cosine is omitted; in
    halves, the last column is zero, as tensor2tensor pads it.

    **Shift.** By the addition theorems,

    .. math::

       \begin{pmatrix} \sin((p + k)\, \omega) \\ \cos((p + k)\, \omega) \end{pmatrix}
         = \begin{pmatrix} \cos k\omega & \sin k\omega \\ -\sin k\omega & \cos k\omega \end{pmatrix}
           \begin{pmatrix} \sin p\, \omega \\ \cos p\, \omega \end{pmatrix} ,

    a map that does not depend on p.

    **Gram matrix.** :math:`\langle PE_p, PE_q \rangle = \sum_i \sin p\omega_i \sin q\omega_i
    + \cos p\omega_i \cos q\omega_i = \sum_i \cos (p - q) \omega_i`: constant along diagonals
    (Toeplitz), D/2 on the main one. All rows of an even table have the length
    :math:`\sqrt{D/2}`.

    **Every position has a row of its own.** Two rows agree in pair 0 only if p and q differ by a
    multiple of :math:`2\pi`, since :math:`\omega_0 = 1`. No integer but 0 is one, as :math:`\pi` is
    irrational: the rows of all whole positions differ, at any length. How much, the Gram matrix
    says: :math:`\abs{PE_p - PE_q}^2 = D - 2 \sum_i \cos (p - q) \omega_i`. Among 512 rows of width
    128 the smallest distance is 1.95, between neighbors.

    **Effect on scores.** With a row added to the token, the score of two tokens has four terms
    (:func:`transformer_xl_scores`): content with content, content with position twice, and position
    with position. For embeddings of variance 1 each of the first three has a spread of about
    :math:`\sqrt D` or less, while the last is the Gram matrix, up to D/2 and the same for all
    tokens. The squared length of the sum is on average the squared length of the token plus D/2.

    **Low columns are fast.** Column 0 has the wavelength :math:`2\pi`, the last ones nearly
    :math:`2\pi b`: over 512 positions they hardly change.

    **Accuracy.** Frequencies have 106 bits and angles are reduced before they are rounded: 0.9
    ULP in float64 up to position :math:`10^6`, 0.501 ULP in float32. A table of width 128
    made in float32 throughout is off by 6e-6 in 100 positions and by 8e-3 in 131 072.

    :doc:`/positions_compared` has the loss, cost and cache of this scheme compared with all others.

    References
    ----------
    - :cite:t:`Vaswani2017`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.positions import sinusoidal
    >>> sinusoidal(3, 4).round(4)
    array([[ 0.    ,  1.    ,  0.    ,  1.    ],
           [ 0.8415,  0.5403,  0.01  ,  1.    ],
           [ 0.9093, -0.4161,  0.02  ,  0.9998]])

    The smallest distance of two rows, and squared lengths before and after the sum:

    >>> rows = sinusoidal(512, 128)
    >>> apart = np.linalg.norm(rows[:, None] - rows, axis=-1) + 9.0 * np.eye(512)
    >>> round(float(apart.min()), 2), bool(np.isclose(apart.min(), apart[0, 1]))
    (1.95, True)
    >>> tokens = np.random.default_rng(0).normal(size=(512, 128))
    >>> [round(float((x**2).sum(1).mean())) for x in (tokens, rows, tokens + rows)]
    [128, 64, 191]

    The terms of the scores: content alone, content with position, position alone.

    >>> e, p = tokens, rows
    >>> terms = e[:256] @ e[256:].T, e @ p.T, p @ p.T
    >>> [float(x.mean().round()) + 0.0 for x in terms], [float(x.std().round()) for x in terms]
    ([0.0, 0.0, 27.0], [11.0, 8.0, 8.0])

    A later start gives the later rows; every row has the same length:

    >>> bool(np.all(sinusoidal(2, 6, offset=98) == sinusoidal(100, 6)[98:]))
    True
    >>> np.linalg.norm(sinusoidal(3, 8, offset=1_000_000), axis=1)
    array([2., 2., 2.])

    An odd width lacks a cosine, or has a column of zeros:

    >>> sinusoidal(2, 3).shape, sinusoidal(2, 3, layout="halves")[:, 2]
    ((2, 3), array([0., 0.]))
    """
    length = as_integer("length", length, least=0)
    dim = as_integer("dim", dim, least=1, most=2**20)
    check_size(length=length, dim=dim)
    choice("layout", layout, LAYOUTS)
    turns = _turns(dim, base, spacing)
    first = as_number("offset", offset)
    kind = float_dtype("dtype", dtype)
    pairs, odd = divmod(dim, 2)
    width, interleaved = dim + odd, layout == "interleaved"
    out = np.empty((length, width), np.result_type(kind, np.float32))
    out[:, 2 * pairs :] = 0.0
    if not interleaved:  # an odd width has a column of zeros, and no sine without cosine
        turns = turns[0][:pairs], turns[1][:pairs]
    flat = out.reshape(-1)
    cos = flat[pairs:]
    fill(first + np.arange(length), turns, 1.0, cos, flat, width=width, interleaved=interleaved)
    out = np.ascontiguousarray(out[:, :dim])
    return out.astype(kind, copy=False)


def sinusoidal_grid(
    shape: tuple[int, int],
    dim: int,
    *,
    base: float = 10000.0,
    layout: str = "halves",
    dtype: npt.DTypeLike = np.float64,
) -> FloatArray:
    r"""
    Table of sines and cosines, a row for each place of a grid.

    Vision transformers add it to the patches of an image (MoCo v3, MAE, DiT).

    Parameters
    ----------
    shape : tuple (height, width) of int
        Rows and columns of the grid.
    dim : int
        Number D of channels, a multiple of 4.
    base : float, default 10000.0
        Base b of the wavelengths.
    layout : {"halves", "interleaved"}
        Whether all sines of an axis come before its cosines, or they alternate.
    dtype : dtype, default float64
        Type of the table, float64, float32 or narrower.

    Returns
    -------
    ndarray, shape (height, width, D)
        The table; its first half is the row's, its second half the column's.

    Raises
    ------
    TypeError
        If a size is not an integer, `base` is not a number, `shape` is not a tuple, or `dtype` is
        neither integer nor a real floating-point type.
    ValueError
        If a size is negative, `dim` is no multiple of 4, `base` not above 1, `layout` unknown.

    See Also
    --------
    sinusoidal : One axis.
    apply_rope_axial : The same angles, as rotations.
    relative_bias_grid : A learned number for each offset.

    Notes
    -----
    Half of the channels count rows, the other half columns, each a table of :func:`sinusoidal` with
    the width D / 2:

    .. math:: G_{rc} = \bigl( PE^{(D/2)}_r ,\, PE^{(D/2)}_c \bigr) .

    The dot product of two places is a sum of two terms, one of the difference of rows and one of
    the difference of columns. So places on one circle around another are not equally alike: the
    level lines follow the axes.

    **Conventions.** In the port of ViT-MAE in transformers the row comes first. The authors' own
    code names its grids the other way round, and has the column first.

    References
    ----------
    - :cite:t:`Vaswani2017`

    Examples
    --------
    >>> from dlref.positions import sinusoidal, sinusoidal_grid
    >>> table = sinusoidal_grid((3, 5), 8)
    >>> table.shape
    (3, 5, 8)
    >>> bool((table[2, 4, :4] == sinusoidal(3, 4, layout="halves")[2]).all())
    True
    """
    height, width = (
        as_integer(name, n, least=0)
        for name, n in entries("shape", shape, 2, of="integers").items()
    )
    channels = as_integer("dim", dim, least=4)
    if channels % 4:
        msg = f"Argument 'dim' must be a multiple of 4, not {channels}."
        raise ValueError(msg)
    check_size(height=height, width=width, dim=channels)
    options: Any = {"base": base, "layout": layout, "dtype": dtype}
    rows, columns = (sinusoidal(n, channels // 2, **options) for n in (height, width))
    out = np.empty((height, width, channels), rows.dtype)
    out[..., : channels // 2] = rows[:, None]
    out[..., channels // 2 :] = columns
    return out


def sinusoidal_shift(
    k: npt.ArrayLike,
    dim: int,
    *,
    base: float = 10000.0,
    layout: str = "interleaved",
    spacing: str = "paper",
) -> FloatArray:
    r"""
    Matrix that moves a row of the sinusoidal table by k positions.

    Parameters
    ----------
    k : array_like, shape (...)
        Number of positions, of any sign.
    dim : int
        Width D of the table, even.
    base : float, default 10000.0
        Base b of the wavelengths.
    layout : {"interleaved", "halves"}
        Order of the columns.
    spacing : {"paper", "tensor2tensor"}
        Exponents of the base.

    Returns
    -------
    ndarray, shape (..., D, D)
        :math:`\mat M_k` with :math:`PE_{p+k} = \mat M_k PE_p` for every p.

    Raises
    ------
    TypeError
        If `k` is not real, `dim` not an integer or `base` is not a number.
    ValueError
        If `dim` is odd or less than 2, `base` not above 1, `layout` or `spacing` unknown.

    See Also
    --------
    sinusoidal : The table, with the derivation.
    rope_matrix : Its transpose: there the token is rotated, here the table is.

    Notes
    -----
    One block for each pair (sine, cosine), here for ``layout="interleaved"``; in halves, rows and
    columns have the other order:

    .. math::

        \mat M_k = \operatorname{diag}(\mat B_{k\omega_0}, \dots, \mat B_{k\omega_{n-1}}), \qquad
        \mat B_\phi = \begin{pmatrix} \cos\phi & \sin\phi \\ -\sin\phi & \cos\phi \end{pmatrix},

    a rotation, hence :math:`\mat M_k^{-1} = \mat M_k^\top = \mat M_{-k}` and
    :math:`\mat M_j \mat M_k = \mat M_{j+k}`. A layer that multiplies queries by it looks k
    positions ahead, from any position. An odd width has no such matrix, as its last sine lacks the
    cosine.

    References
    ----------
    - :cite:t:`Vaswani2017`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.positions import sinusoidal, sinusoidal_shift
    >>> PE = sinusoidal(20, 6)
    >>> bool(np.allclose(sinusoidal_shift(5, 6) @ PE[3], PE[8], atol=1e-15))
    True
    >>> sinusoidal_shift(1, 2).round(4)
    array([[ 0.5403,  0.8415],
           [-0.8415,  0.5403]])
    """
    dtype, (k,) = as_floats({"k": k})
    dim = as_even("dim", dim, least=2, most=2**20)
    check_size(k=k.size, dim=dim * dim)
    choice("layout", layout, LAYOUTS)
    cos, sin = circles_of_turns(k, *_turns(dim, base, spacing))
    n = dim // 2
    sines = 2 * np.arange(n) if layout == "interleaved" else np.arange(n)
    cosines = sines + 1 if layout == "interleaved" else sines + n
    out = np.zeros((*k.shape, dim, dim))
    out[..., sines, sines] = out[..., cosines, cosines] = cos
    out[..., sines, cosines], out[..., cosines, sines] = sin, -sin
    return out.astype(dtype, copy=False)
