"""
Formulas of the chapter on positions.

T queries stand at positions i, from q_offset on, and S keys at positions j, from 0 on; an offset is
a key's position minus a query's, a distance is never negative. theta or frequencies are radians
per position, one for each pair of channels. Scores and biases have the shape (..., T, S).
"""

import numpy as np

from .activations import one_hot, relu, sigmoid, sigmoid_deriv
from .calculus import sum_to_shape
from .neurons import linear, linear_vjp

# == shared


def offsets(T, S, q_offset=0):
    """Position of each key minus position of each query."""
    return np.arange(S) - (np.arange(T)[:, None] + q_offset)


def distances(T, S, q_offset, symmetric, dtype):
    """How far back each key lies; keys after the query count only if symmetric."""
    back = -offsets(T, S, q_offset)
    d = np.abs(back) if symmetric else np.maximum(back, 0)
    return d.astype(dtype)


def transposed(x):
    """Rows and columns exchanged, in each matrix of a stack."""
    return np.swapaxes(x, -1, -2)


def read_rows(z, place):
    """Entry place[i, j] of row i, for each pair of a query and a key."""
    T, S = place.shape[-2:]
    return np.take_along_axis(z, np.broadcast_to(place, (*z.shape[:-2], T, S)), axis=-1)


def read_rows_vjp(dout, place, count):
    """Backward pass: the sum of all pairs that read an entry."""
    return np.einsum("...ij,...ijr->...ir", dout, one_hot(place, count))


# == sinusoidal


def simple_sinusoidal(length, dim, base=10000.0):
    """
    The table, for an even width.

    >>> print(simple_sinusoidal(3, 4).round(4))
    [[ 0.      1.      0.      1.    ]
     [ 0.8415  0.5403  0.01    1.    ]
     [ 0.9093 -0.4161  0.02    0.9998]]
    """
    omega = base ** (-np.arange(0, dim, 2) / dim)
    angles = np.arange(length)[:, None] * omega
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, dim)


def sinusoidal_frequencies(dim, base, spacing):
    """Radians per position of each pair; an odd width has half a pair more."""
    i = np.arange((dim + 1) // 2)
    if spacing == "paper":
        return base ** (-2 * i / dim)
    n = dim // 2
    return base ** (-i / max(n - 1, 1))


def sinusoidal(
    length, dim, *, base=10000.0, layout="interleaved", spacing="paper", offset=0, dtype=np.float64
):  # fmt: skip
    """
    The table: an odd width has no last cosine, or in halves a column of zeros.

    >>> print(sinusoidal(2, 3, layout="halves", offset=1).round(4))
    [[ 0.8415  0.5403  0.    ]
     [ 0.9093 -0.4161  0.    ]]
    """
    p = offset + np.arange(length)
    angles = p[:, None] * sinusoidal_frequencies(dim, base, spacing)
    sines, cosines = np.sin(angles), np.cos(angles)
    if layout == "interleaved":
        table = np.stack([sines, cosines], axis=-1).reshape(length, 2 * angles.shape[1])[:, :dim]
    else:
        n = dim // 2
        zeros = np.zeros((length, dim - 2 * n))
        table = np.concatenate([sines[:, :n], cosines[:, :n], zeros], axis=-1)
    return table.astype(dtype)


def sinusoidal_grid(shape, dim, *, base=10000.0, layout="halves", dtype=np.float64):
    """
    Half of the channels for the row, half for the column.

    >>> print(sinusoidal_grid((2, 2), 4).reshape(4, 4).round(4))
    [[0.     1.     0.     1.    ]
     [0.     1.     0.8415 0.5403]
     [0.8415 0.5403 0.     1.    ]
     [0.8415 0.5403 0.8415 0.5403]]
    """
    height, width = shape
    half = dim // 2
    of_row = sinusoidal(height, half, base=base, layout=layout, dtype=dtype)
    of_column = sinusoidal(width, half, base=base, layout=layout, dtype=dtype)
    rows = np.broadcast_to(of_row[:, None], (height, width, half))
    columns = np.broadcast_to(of_column, (height, width, half))
    return np.concatenate([rows, columns], axis=-1)


def sinusoidal_shift(k, dim, *, base=10000.0, layout="interleaved", spacing="paper"):
    """
    A rotation of each pair of sine and cosine.

    >>> first, second = np.array([np.sin(1), np.cos(1)]), np.array([np.sin(2), np.cos(2)])
    >>> print((sinusoidal_shift(1, 2) @ first).round(4), second.round(4))
    [ 0.9093 -0.4161] [ 0.9093 -0.4161]
    """
    k = np.asarray(k)
    omega = sinusoidal_frequencies(dim, base, spacing).astype(np.result_type(k.real, 0.0))
    cos, sin = np.cos(k[..., None] * omega), np.sin(k[..., None] * omega)
    n = dim // 2
    sines = 2 * np.arange(n) if layout == "interleaved" else np.arange(n)
    cosines = sines + 1 if layout == "interleaved" else sines + n
    shift = np.zeros((*k.shape, dim, dim), cos.dtype)
    shift[..., sines, sines] = cos
    shift[..., sines, cosines] = sin
    shift[..., cosines, sines] = -sin
    shift[..., cosines, cosines] = cos
    return shift


# == timestep_embedding


def timestep_frequencies(t, dim, base, shift, scale):
    """Angle of each pair of channels in a unit of time."""
    d = dim // 2
    omega = scale * base ** (-np.arange(d) / (d - shift))
    return omega.astype(np.result_type(t.real, 0.0))


def timestep_embedding(t, dim, *, base=10000.0, cosine_first=False, shift=0.0, scale=1.0):
    """
    All sines, then all cosines, or the other way round.

    >>> t = np.array([np.pi / 2])
    >>> print(timestep_embedding(t, 4, base=4.0, cosine_first=True).round(4))
    [[0.     0.7071 1.     0.7071]]
    """
    angle = t[..., None] * timestep_frequencies(t, dim, base, shift, scale)
    halves = [np.sin(angle), np.cos(angle)]
    return np.concatenate(halves[::-1] if cosine_first else halves, axis=-1)


def timestep_embedding_vjp(
    dout, t, dim, *, base=10000.0, cosine_first=False, shift=0.0, scale=1.0
):  # fmt: skip
    """
    Backward pass: a sine becomes a cosine, a cosine minus a sine.

    >>> t, dout = np.array([0.0]), np.array([[3.0, 5.0]])
    >>> print(timestep_embedding_vjp(dout, t, 2))
    [3.]
    """
    omega = timestep_frequencies(t, dim, base, shift, scale)
    angle = t[..., None] * omega
    first, second = np.split(dout, 2, axis=-1)
    of_sine, of_cosine = (second, first) if cosine_first else (first, second)
    return np.sum(omega * (of_sine * np.cos(angle) - of_cosine * np.sin(angle)), axis=-1)


# == fourier_features


def fourier_features(x, frequencies):
    """
    All cosines, then all sines.

    >>> x, frequencies = np.array([0.5]), np.array([[2.0], [3.0]])
    >>> print(fourier_features(x, frequencies).round(4) + 0.0)
    [ 1. -1.  0.  0.]
    """
    angle = 2 * np.pi * linear(x, frequencies)
    return np.concatenate([np.cos(angle), np.sin(angle)], axis=-1)


def fourier_features_vjp(dout, x, frequencies):
    """
    Backward pass: the waves, then the dense layer that makes their angles.

    >>> x, frequencies, dout = np.array([0.5]), np.array([[2.0]]), np.array([0.0, 1.0])
    >>> dx, dfrequencies = fourier_features_vjp(dout, x, frequencies)
    >>> print(dx / np.pi, dfrequencies / np.pi)
    [4.] [[1.]]
    """
    angle = 2 * np.pi * linear(x, frequencies)
    of_cosine, of_sine = np.split(dout, 2, axis=-1)
    g = 2 * np.pi * (of_sine * np.cos(angle) - of_cosine * np.sin(angle))
    return linear_vjp(g, x, frequencies)


# == learned


def learned_positions(table, positions):
    """
    A row for each position.

    >>> table = np.array([[0, 1], [10, 11], [20, 21]])
    >>> print(learned_positions(table, np.array([2, 0, 2])))
    [[20 21]
     [ 0  1]
     [20 21]]
    """
    return table[positions]


def learned_positions_vjp(dout, table, positions):
    """
    Backward pass: rows that are read several times get the sum.

    >>> table, positions = np.zeros((4, 1)), np.array([2, 0, 2])
    >>> print(learned_positions_vjp(np.array([[1.0], [2.0], [4.0]]), table, positions).T)
    [[2. 0. 5. 0.]]
    """
    dtable = np.zeros_like(table)
    np.add.at(dtable, positions, dout)
    return dtable


# == rotary


def rope_interleaved(x, theta):
    """
    Neighbors as pairs (LLaMA's own weights, GPT-J); x has a row for each position.

    >>> x, theta = np.array([[1.0, 2.0, 3.0, 4.0]] * 2), np.array([np.pi / 2, np.pi / 2])
    >>> print(rope_interleaved(x, theta))
    [[ 1.  2.  3.  4.]
     [-2.  1. -4.  3.]]
    """
    angle = np.arange(len(x))[:, None] * theta
    z = (x[:, 0::2] + 1j * x[:, 1::2]) * np.exp(1j * angle)
    return np.stack([z.real, z.imag], axis=-1).reshape(x.shape)


def rope_half_split(x, theta):
    """
    Halves as pairs (GPT-NeoX, LLaMA in Hugging Face).

    >>> x, theta = np.array([[1.0, 2.0, 3.0, 4.0]] * 2), np.array([np.pi / 2, np.pi / 2])
    >>> print(rope_half_split(x, theta))
    [[ 1.  2.  3.  4.]
     [-3. -4.  1.  2.]]
    """
    angle = np.arange(len(x))[:, None] * theta
    x1, x2 = np.split(x, 2, axis=-1)
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([x1 * cos - x2 * sin, x1 * sin + x2 * cos], axis=-1)


def rope_half_split_vjp(dout, theta):
    """
    Backward pass: rotate back.

    >>> dout = np.array([[1.0, 2.0, 3.0, 4.0], [-3.0, -4.0, 1.0, 2.0]])
    >>> print(rope_half_split_vjp(dout, np.array([np.pi / 2, np.pi / 2])))
    [[1. 2. 3. 4.]
     [1. 2. 3. 4.]]
    """
    return rope_half_split(dout, -theta)


def as_array(positions, frequencies):
    """A plain number becomes an array of the dtype of the frequencies."""
    plain = isinstance(positions, int | float)
    return np.asarray(positions, frequencies.dtype if plain else None)


def rope_angles(positions, frequencies):
    """
    Each position times each frequency.

    >>> print(rope_angles(np.arange(3), np.array([1.0, 0.5])))
    [[0.  0. ]
     [1.  0.5]
     [2.  1. ]]
    """
    return as_array(positions, frequencies)[..., None] * frequencies


def rope_tables(positions, frequencies, *, attention_factor=1.0):
    """
    Cosine and sine of each angle.

    >>> cos, sin = rope_tables(np.arange(4), np.array([np.pi / 2]))
    >>> print(cos.T.round(4) + 0.0, sin.T.round(4) + 0.0)
    [[ 1.  0. -1.  0.]] [[ 0.  1.  0. -1.]]
    """
    phi = rope_angles(positions, frequencies)
    return attention_factor * np.cos(phi), attention_factor * np.sin(phi)


def pairs(x, interleaved):
    """The first and the second channels of all pairs."""
    half = x.shape[-1] // 2
    return (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])


def from_pairs(x1, x2, interleaved):
    """The channels of such pairs."""
    joined = np.stack([x1, x2], axis=-1 if interleaved else -2)
    return joined.reshape(*x1.shape[:-1], 2 * x1.shape[-1])


def apply_rope(x, cos, sin, *, interleaved=True, rotary_dim=None, rotary_last=False):
    """
    Rotate the pairs; the result has the dtype of x, not of the tables.

    >>> x, cos, sin = np.array([[3.0, 4.0, 5.0]]), np.array([[0.6]]), np.array([[0.8]])
    >>> print(apply_rope(x, cos, sin, rotary_dim=2))
    [[-1.4  4.8  5. ]]
    """
    R = x.shape[-1] if rotary_dim is None else rotary_dim
    first = x.shape[-1] - R if rotary_last else 0
    x1, x2 = pairs(x[..., first : first + R], interleaved)
    y1 = x1 * cos - x2 * sin
    y2 = x1 * sin + x2 * cos
    rotated = from_pairs(y1, y2, interleaved).astype(x.dtype)
    return np.concatenate([x[..., :first], rotated, x[..., first + R :]], axis=-1)


def apply_rope_vjp(dout, x, cos, sin, *, interleaved=True, rotary_dim=None, rotary_last=False):
    """
    Backward pass: rotate back.

    >>> x, cos, sin = np.array([[3.0, 4.0, 5.0]]), np.array([[0.6]]), np.array([[0.8]])
    >>> dout = np.array([[-1.4, 4.8, 5.0]])
    >>> print(apply_rope_vjp(dout, x, cos, sin, rotary_dim=2))
    [[3. 4. 5.]]
    """
    options = {"interleaved": interleaved, "rotary_dim": rotary_dim, "rotary_last": rotary_last}
    return apply_rope(dout, cos, -sin, **options)


def rope_matrix(position, frequencies):
    """
    A block of 2 x 2 for each pair.

    >>> print(rope_matrix(1, np.array([np.pi / 2, 0.0])).round(4) + 0.0)
    [[ 0. -1.  0.  0.]
     [ 1.  0.  0.  0.]
     [ 0.  0.  1.  0.]
     [ 0.  0.  0.  1.]]
    """
    cos, sin = rope_tables(position, frequencies)
    n = len(frequencies)
    first = 2 * np.arange(n)
    second = first + 1
    matrix = np.zeros((*cos.shape[:-1], 2 * n, 2 * n), cos.dtype)
    matrix[..., first, first] = cos
    matrix[..., first, second] = -sin
    matrix[..., second, first] = sin
    matrix[..., second, second] = cos
    return matrix


def rope_permutation(dim):
    """
    The first channels of all pairs, then the second ones.

    >>> print(rope_permutation(6))
    [0 2 4 1 3 5]
    """
    return np.concatenate([np.arange(0, dim, 2), np.arange(1, dim, 2)])


# == rope_score


def rope_score(q, k, offset, frequencies, *, interleaved=True):
    """
    A sum of waves of the offset, two for each pair.

    >>> q, k = np.array([1.0, 2.0, 3.0, 4.0]), np.array([4.0, 3.0, 2.0, 1.0])
    >>> print(rope_score(q, k, np.array([-3, 0, 3]), np.array([1.0, 0.1])).round(4))
    [-2.5298 20.      1.8366]
    """
    q1, q2 = pairs(q, interleaved)
    k1, k2 = pairs(k, interleaved)
    cos, sin = rope_tables(offset, frequencies)
    a = q1 * k1 + q2 * k2
    b = q2 * k1 - q1 * k2
    return np.sum(a * cos + b * sin, axis=-1)


def rope_score_vjp(dout, q, k, offset, frequencies, *, interleaved=True):
    """
    Backward pass: the key rotated, the query rotated back, and the slopes of the waves.

    >>> q, k, frequencies = np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([3.0])
    >>> dq, dk, doffset, dfrequencies = rope_score_vjp(1.0, q, k, 0.0, frequencies)
    >>> print(dq, dk, doffset)
    [0. 1.] [1. 0.] -3.0
    """
    q1, q2 = pairs(q, interleaved)
    k1, k2 = pairs(k, interleaved)
    cos, sin = rope_tables(offset, frequencies)
    a = q1 * k1 + q2 * k2
    b = q2 * k1 - q1 * k2
    u = np.asarray(dout)[..., None]
    dq = from_pairs(u * (k1 * cos - k2 * sin), u * (k1 * sin + k2 * cos), interleaved)
    dk = from_pairs(u * (q1 * cos + q2 * sin), u * (q2 * cos - q1 * sin), interleaved)
    g = u * (b * cos - a * sin)  # of the angle of each pair
    doffset = np.sum(g * frequencies, axis=-1)
    dfrequencies = g * as_array(offset, frequencies)[..., None]
    return (
        sum_to_shape(dq, q.shape),
        sum_to_shape(dk, k.shape),
        sum_to_shape(doffset, np.shape(offset)),
        sum_to_shape(dfrequencies, frequencies.shape),
    )


# == rotary_axial


def apply_rope_axial(x, cos, sin, *, interleaved=True):
    """
    One block of channels for each coordinate.

    >>> x = np.array([[1.0, 0.0, 1.0, 0.0]])
    >>> cos, sin = np.array([[[0.0], [1.0]]]), np.array([[[1.0], [0.0]]])
    >>> print(apply_rope_axial(x, cos, sin))
    [[0. 1. 1. 0.]]
    """
    A = cos.shape[-2]
    blocks = x.reshape(*x.shape[:-1], A, x.shape[-1] // A)
    return apply_rope(blocks, cos, sin, interleaved=interleaved).reshape(x.shape)


def apply_rope_axial_vjp(dout, x, cos, sin, *, interleaved=True):
    """
    Backward pass: rotate each block back.

    >>> x = dout = np.array([[1.0, 0.0, 1.0, 0.0]])
    >>> cos, sin = np.array([[[0.0], [1.0]]]), np.array([[[1.0], [0.0]]])
    >>> print(apply_rope_axial_vjp(dout, x, cos, sin))
    [[ 0. -1.  1.  0.]]
    """
    return apply_rope_axial(dout, cos, -sin, interleaved=interleaved)


# == rotary_multi


def pair_owners(sections, interleaved):
    """The coordinate that turns each pair: one after the other, or in turns while it has pairs."""
    A = len(sections)
    if not interleaved:
        return np.repeat(np.arange(A), sections)
    i = np.arange(sum(sections))
    own = i % A
    return np.where(i < A * np.array(sections)[own], own, 0)


def rope_tables_multi(
    positions, frequencies, *, sections, interleaved=False, attention_factor=1.0
):  # fmt: skip
    """
    Cosine and sine, each pair with the angle of its own coordinate.

    >>> positions, frequencies = np.array([[1.0], [2.0], [3.0]]), np.full(4, 0.1)
    >>> cos, sin = rope_tables_multi(positions, frequencies, sections=[2, 1, 1])
    >>> print(np.arctan2(sin, cos))
    [[0.1 0.1 0.2 0.3]]
    """
    p = transposed(positions)
    phi = p[..., pair_owners(sections, interleaved)] * frequencies
    return attention_factor * np.cos(phi), attention_factor * np.sin(phi)


# == xpos


def xpos_scales(positions, dim, *, gamma=0.4, scale_base=512.0):
    """
    A power of the position for each pair.

    >>> print(xpos_scales(np.array([0.0, 512.0, 1024.0]), 4, gamma=0.5).round(4))
    [[1.     1.    ]
     [0.3333 0.6667]
     [0.1111 0.4444]]
    """
    zeta = (np.arange(0, dim, 2) / dim + gamma) / (1 + gamma)
    zeta = zeta.astype(np.result_type(positions.real, 0.0))
    return zeta ** (positions[..., None] / scale_base)


def apply_xpos(
    x, cos, sin, scales, *, inverse=False, interleaved=True, rotary_dim=None
):  # fmt: skip
    """
    Rotate and scale the pairs: queries grow with the position, keys shrink.

    >>> x, cos, sin = np.array([[3.0, 4.0]]), np.array([[0.6]]), np.array([[0.8]])
    >>> q = apply_xpos(x, cos, sin, np.array([[0.5]]))
    >>> k = apply_xpos(x, cos, sin, np.array([[0.5]]), inverse=True)
    >>> print(q, k)
    [[-0.7  2.4]] [[-2.8  9.6]]
    """
    c = 1 / scales if inverse else scales
    return apply_rope(x, c * cos, c * sin, interleaved=interleaved, rotary_dim=rotary_dim)


def apply_xpos_vjp(
    dout, x, cos, sin, scales, *, inverse=False, interleaved=True, rotary_dim=None
):  # fmt: skip
    """
    Backward pass: rotate back, with the same scale.

    >>> x, cos, sin = np.array([[3.0, 4.0]]), np.array([[0.6]]), np.array([[0.8]])
    >>> print(apply_xpos_vjp(np.array([[-0.7, 2.4]]), x, cos, sin, np.array([[0.5]])))
    [[0.75 1.  ]]
    """
    c = 1 / scales if inverse else scales
    return apply_rope(dout, c * cos, -c * sin, interleaved=interleaved, rotary_dim=rotary_dim)


# == rotary_scaling


def linear_scaling(theta, s):
    """
    Position interpolation: all pairs slower.

    >>> print(linear_scaling(np.array([1.0, 0.1, 0.01, 0.001]), 4))
    [0.25    0.025   0.0025  0.00025]
    """
    return theta / s


def ntk_scaling(theta, s):
    """
    NTK-aware: a larger base, so that the fastest pair stays and the slowest is divided by s.

    >>> theta = np.array([1.0, 0.1, 0.01, 0.001])
    >>> print(ntk_scaling(theta, 8) / theta)
    [1.    0.5   0.25  0.125]
    """
    d = 2 * len(theta)
    i = np.arange(d // 2)
    return theta * s ** (-2 * i / (d - 2))


def dynamic_scaling(theta, s, L, seq_len):
    """
    NTK-aware, with a factor that grows with the text.

    >>> theta = np.array([1.0, 0.1, 0.01, 0.001])
    >>> print(dynamic_scaling(theta, 2, 4096, seq_len=18432) / theta)
    [1.    0.5   0.25  0.125]
    """
    longest = max(seq_len or 0, L)
    return ntk_scaling(theta, s * longest / L - (s - 1))


def yarn_scaling(theta, s, L, base, beta_fast=32.0, beta_slow=1.0, truncate=True):
    """
    Fast pairs stay, slow ones are divided by s, with a ramp between.

    >>> theta = np.array([1.0, 0.5, 0.25, 0.125])
    >>> print(yarn_scaling(theta, 4, 16 * np.pi, 16, beta_fast=4, beta_slow=1) / theta)
    [1.    1.    0.625 0.25 ]
    """
    d = 2 * len(theta)

    def index(turns):
        return d / 2 * np.log(L / (2 * np.pi * turns)) / np.log(base)

    low, high = index(beta_fast), index(beta_slow)
    if truncate:
        low, high = np.floor(low), np.ceil(high)
    low, high = max(low, 0), min(high, d - 1)
    width = high - low if high != low else 0.001
    gamma = np.clip((np.arange(d // 2) - low) / width, 0, 1)
    return theta * ((1 - gamma) + gamma / s)


def longrope_scaling(theta, short_factor, long_factor, L, seq_len):
    """
    A factor of its own for each pair, another one beyond the length of training.

    >>> theta, short, long = np.array([1.0, 0.5, 0.25]), [1.0, 1.0, 1.0], [1.0, 2.0, 4.0]
    >>> print(longrope_scaling(theta, short, long, 4096, seq_len=8192))
    [1.     0.25   0.0625]
    """
    is_long = seq_len is not None and seq_len > L
    return theta / np.asarray(long_factor if is_long else short_factor)


def llama3_scaling(theta, s, low, high, L):
    """
    As yarn, with a ramp that is linear in the number of turns.

    >>> theta = np.array([1.0, 0.5, 0.25, 0.125])
    >>> print(llama3_scaling(theta, 4, 1, 5, 16 * np.pi) / theta)
    [1.     0.8125 0.4375 0.25  ]
    """
    turns = L * theta / (2 * np.pi)
    g = np.clip((turns - low) / (high - low), 0, 1)
    return theta * ((1 - g) / s + g)


def proportional_scaling(theta, share, s=1.0):
    """
    Only the first pairs turn.

    >>> print(proportional_scaling(np.array([1.0, 0.1, 0.01, 0.001]), 0.5))
    [1.  0.1 0.  0. ]
    """
    turning = int(share * len(theta))
    return np.where(np.arange(len(theta)) < turning, theta / s, 0)


def scaling_of(scaling):
    """The type of a dictionary of a configuration, and the numbers in it."""
    given = {key: value for key, value in (scaling or {}).items() if value is not None}
    kind = given.get("rope_type", given.get("type", "default"))
    return kind, given


def rope_frequencies(dim, *, base=10000.0, scaling=None, seq_len=None):
    """
    A geometric sequence, scaled for texts longer than in training.

    >>> print(rope_frequencies(8), rope_frequencies(4, scaling={"type": "linear", "factor": 4}))
    [1.    0.1   0.01  0.001] [0.25   0.0025]
    """
    theta = base ** (-np.arange(0, dim, 2) / dim)
    kind, given = scaling_of(scaling)
    s, L = given.get("factor", 1.0), given.get("original_max_position_embeddings")
    if kind == "linear":
        theta = linear_scaling(theta, s)
    elif kind == "ntk":
        theta = ntk_scaling(theta, s)
    elif kind == "dynamic":
        theta = dynamic_scaling(theta, s, L, seq_len)
    elif kind == "yarn":
        names = ("beta_fast", "beta_slow", "truncate")
        options = {name: given[name] for name in names if name in given}
        theta = yarn_scaling(theta, s, L, base, **options)
    elif kind == "longrope":
        theta = longrope_scaling(theta, given["short_factor"], given["long_factor"], L, seq_len)
    elif kind == "llama3":
        theta = llama3_scaling(theta, s, given["low_freq_factor"], given["high_freq_factor"], L)
    elif kind == "proportional":
        theta = proportional_scaling(theta, given["partial_rotary_factor"], s)
    return theta


def rope_attention_factor(scaling, *, max_position_embeddings=None):
    """
    Factor of the tables: longer texts need sharper scores.

    >>> yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    >>> print(round(rope_attention_factor(yarn), 4), rope_attention_factor(None))
    1.1386 1.0
    """
    kind, given = scaling_of(scaling)
    s, L = given.get("factor"), given.get("original_max_position_embeddings")
    if "attention_factor" in given:
        return float(given["attention_factor"])
    if kind == "yarn":
        over, under = given.get("mscale", 0), given.get("mscale_all_dim", 0)
        if over and under:
            return float((0.1 * over * np.log(s) + 1) / (0.1 * under * np.log(s) + 1))
        return float(0.1 * np.log(s) + 1)
    if kind == "longrope":
        if s is None:
            s = max((max_position_embeddings or L) / L, 1)
        return float(np.sqrt(1 + np.log(s) / np.log(L))) if s > 1 else 1.0
    return 1.0


# == alibi


def alibi_slopes(num_heads, *, rule="official", exponent=8.0):
    """
    Powers of two, and for other numbers of heads some that lie between them.

    >>> print(1 / alibi_slopes(8), alibi_slopes(12)[[0, 7, 8, 11]].round(4))
    [  2.   4.   8.  16.  32.  64. 128. 256.] [0.5    0.0039 0.7071 0.0884]
    """
    P = num_heads if rule == "paper" else 2 ** (num_heads.bit_length() - 1)
    h = np.arange(1, P + 1)
    between = np.arange(1, num_heads - P + 1)
    added = 2.0 ** (-exponent * (2 * between - 1) / (2 * P))
    return np.concatenate([2.0 ** (-exponent * h / P), added])


def offset_of_heads(q_offset):
    """One offset of each sequence for all of its heads, queries and keys."""
    return np.asarray(q_offset)[..., None, None, None] if np.ndim(q_offset) else q_offset


def alibi_bias(slopes, T, S, *, q_offset=0, symmetric=False):
    """
    Minus a slope times the distance.

    >>> print(alibi_bias(np.array([0.5]), 1, 4, q_offset=3) + 0.0)
    [[[-1.5 -1.  -0.5  0. ]]]
    """
    d = distances(T, S, offset_of_heads(q_offset), symmetric, slopes.real.dtype)
    return -slopes[..., None, None] * d


def alibi_bias_vjp(dout, slopes, T, S, *, q_offset=0, symmetric=False):
    """
    Backward pass: a slope gathers the distances of all pairs.

    >>> print(alibi_bias_vjp(np.ones((1, 3, 3)), np.array([0.5]), 3, 3))
    [-4.]
    """
    d = distances(T, S, offset_of_heads(q_offset), symmetric, slopes.real.dtype)
    return sum_to_shape(-np.sum(dout * d, axis=(-2, -1)), slopes.shape)


# == t5


def t5_relative_position_bucket(
    relative_position, *, bidirectional=True, num_buckets=32, max_distance=128
):  # fmt: skip
    """
    Exact near zero, on a logarithmic scale further away.

    >>> offset = np.array([-1000, -128, -91, -90, -8, -7, -1, 0, 1, 7, 8, 1000])
    >>> print(t5_relative_position_bucket(offset))
    [15 15 15 14  8  7  1  0 17 23 24 31]
    """
    offset = np.asarray(relative_position)
    n = num_buckets // 2 if bidirectional else num_buckets
    r = np.abs(offset) if bidirectional else np.maximum(-offset, 0)
    e = n // 2
    part = np.log(np.maximum(r, e) / e) / np.log(max_distance / e)
    # Where the logarithms make a whole number, it must not fall short of it by rounding.
    far = e + np.floor((n - e) * part + 1e-9).astype(int)
    bucket = np.where(r < e, r, np.minimum(far, n - 1))
    return np.where(bidirectional & (offset > 0), bucket + n, bucket)


def t5_bias(table, T, S, *, bidirectional=True, q_offset=0, max_distance=128):
    """
    A learned number for every bucket and head.

    >>> print(t5_bias(np.arange(32.0)[:, None], 3, 4))
    [[[ 0. 17. 18. 19.]
      [ 1.  0. 17. 18.]
      [ 2.  1.  0. 17.]]]
    """
    bucket = t5_relative_position_bucket(
        offsets(T, S, q_offset),
        bidirectional=bidirectional, num_buckets=len(table), max_distance=max_distance,
    )  # fmt: skip
    return np.moveaxis(table[bucket], -1, 0)


def t5_bias_vjp(dout, table, T, S, *, bidirectional=True, q_offset=0, max_distance=128):
    """
    Backward pass: the sum of all pairs in a bucket.

    >>> dtable = t5_bias_vjp(np.ones((1, 3, 4)), np.zeros((32, 1)), 3, 4)
    >>> print(dtable[[0, 1, 2, 17, 18, 19], 0])
    [3. 2. 1. 3. 2. 1.]
    """
    bucket = t5_relative_position_bucket(
        offsets(T, S, q_offset),
        bidirectional=bidirectional, num_buckets=len(table), max_distance=max_distance,
    )  # fmt: skip
    return np.einsum("hij,ijc->ch", dout, one_hot(bucket, len(table)))


# == relative_bias


def relative_bias(table, T, S):
    """
    A learned number for every offset.

    >>> print(relative_bias(np.array([-2, -1, 0, 1, 2]), 3, 3))
    [[ 0  1  2]
     [-1  0  1]
     [-2 -1  0]]
    """
    return table[..., offsets(T, S) + T - 1]


def relative_bias_vjp(dout, table, T, S):
    """
    Backward pass: sums along the diagonals.

    >>> dout = np.array([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]])
    >>> print(relative_bias_vjp(dout, np.zeros(4), 2, 3))
    [ 8. 17. 34.  4.]
    """
    place = offsets(T, S) + T - 1
    return np.einsum("...ij,ijr->...r", dout, one_hot(place, T + S - 1))


# == relative_bias_grid


def grid_offsets(height, width):
    """The row of the table for each pair of places, counted row by row."""
    row, column = np.divmod(np.arange(height * width), width)
    down = row[:, None] - row + height - 1
    across = column[:, None] - column + width - 1
    return down * (2 * width - 1) + across


def relative_bias_grid(table, height, width):
    """
    A learned number for every offset of two places, and for every head.

    >>> print(relative_bias_grid(np.array([[-1.0], [0.0], [1.0]]), 1, 2))
    [[[ 0. -1.]
      [ 1.  0.]]]
    """
    return np.moveaxis(table[grid_offsets(height, width)], -1, 0)


def relative_bias_grid_vjp(dout, table, height, width):
    """
    Backward pass: the sum of all pairs with an offset.

    >>> dout = np.array([[[1.0, 2.0], [4.0, 8.0]]])
    >>> print(relative_bias_grid_vjp(dout, np.zeros((3, 1)), 1, 2).T)
    [[2. 9. 4.]]
    """
    return np.einsum("kij,ijr->rk", dout, one_hot(grid_offsets(height, width), len(table)))


# == kerple


def power_of_distance(d, r2):
    """The power, which is 0 at a distance of 0."""
    return np.where(d == 0, 0, np.where(d == 0, 1, d) ** r2)


def kerple_bias(r1, r2, T, S, *, kind="log", q_offset=0, symmetric=False):
    """
    Minus a logarithm or a power of the distance.

    >>> r1, r2 = np.array([1.0]), np.array([1.0])
    >>> print(np.exp(kerple_bias(r1, r2, 1, 5, q_offset=4)).round(4))
    [[[0.2    0.25   0.3333 0.5    1.    ]]]
    """
    d = distances(T, S, q_offset, symmetric, r1.real.dtype)
    r1, r2 = r1[..., None, None], r2[..., None, None]
    if kind == "log":
        return -r1 * np.log1p(r2 * d)
    return -r1 * power_of_distance(d, r2)


def kerple_bias_vjp(dout, r1, r2, T, S, *, kind="log", q_offset=0, symmetric=False):
    """
    Backward pass: each parameter gathers from all pairs.

    >>> r1, r2, dout = np.array([3.0]), np.array([1.0]), np.array([[[8.0, 4.0, 0.0]]])
    >>> dr1, dr2 = kerple_bias_vjp(dout, r1, r2, 1, 3, q_offset=2)
    >>> print(dr2)
    [-22.]
    """
    d = distances(T, S, q_offset, symmetric, r1.real.dtype)
    r1, r2 = r1[..., None, None], r2[..., None, None]
    if kind == "log":
        by_r1 = -np.log1p(r2 * d)
        by_r2 = -r1 * d / (1 + r2 * d)
    else:
        power = power_of_distance(d, r2)
        by_r1 = -power
        by_r2 = -r1 * power * np.log(np.where(d == 0, 1, d))
    return np.sum(dout * by_r1, axis=(-2, -1)), np.sum(dout * by_r2, axis=(-2, -1))


# == fire


def fire_distances(c, threshold, T, S, q_offset):
    """Distance d, length m that it is a share of, and the share u, of logarithms."""
    dtype = np.result_type(c.real, threshold.real)
    d = np.abs(offsets(T, S, q_offset)).astype(dtype)
    i = (np.arange(T)[:, None] + q_offset).astype(dtype)
    m = np.where(threshold.real >= i, threshold, i)
    u = np.log1p(c * d) / np.log1p(c * m)
    return d, m, u


def fire_bias(w1, b1, w2, b2, c, threshold, T, S, *, q_offset=0):
    """
    A small network of the distance, as a share of the text so far.

    >>> w1, b1, w2, b2 = np.array([1.0]), np.array([0.0]), np.array([[1.0]]), np.array([0.0])
    >>> c, threshold = np.array(1.0), np.array(3.0)
    >>> print(fire_bias(w1, b1, w2, b2, c, threshold, 8, 8)[0][[1, 3, 7], :2].round(4))
    [[0.5    0.    ]
     [1.     0.7925]
     [1.     0.9358]]
    """
    _, _, u = fire_distances(c, threshold, T, S, q_offset)
    hidden = relu(u[..., None] * w1 + b1)
    return np.moveaxis(linear(hidden, w2, b2), -1, 0)


def fire_bias_vjp(dout, w1, b1, w2, b2, c, threshold, T, S, *, q_offset=0):
    """
    Backward pass: the network, then the quotient of logarithms.

    >>> w1, b1, w2, b2 = np.array([2.0]), np.array([0.5]), np.array([[3.0]]), np.array([0.0])
    >>> dout, c, threshold = np.array([[[1.0]]]), np.array(1.0), np.array(4.0)
    >>> dw1, db1, dw2, db2, *_ = fire_bias_vjp(dout, w1, b1, w2, b2, c, threshold, 1, 1)
    >>> print(dw1, db1, dw2, db2)
    [0.] [3.] [[0.5]] [1.]
    """
    d, m, u = fire_distances(c, threshold, T, S, q_offset)
    hidden = relu(u[..., None] * w1 + b1)
    dhidden, dw2, db2 = linear_vjp(np.moveaxis(dout, 0, -1), hidden, w2, b2)
    g = np.where(hidden > 0, dhidden, 0)
    dw1 = np.sum(g * u[..., None], axis=(0, 1))
    db1 = np.sum(g, axis=(0, 1))
    du = g @ w1
    psi = np.log1p(c * m)
    by_c = (d / (1 + c * d) - u * m / (1 + c * m)) / psi
    i = np.arange(T)[:, None] + q_offset
    by_threshold = np.where(threshold >= i, -u * c / (psi * (1 + c * m)), 0)
    return dw1, db1, dw2, db2, np.sum(du * by_c), np.sum(du * by_threshold)


# == shaw_scores


def clipped_offsets(T, most):
    """The row of the table for each pair."""
    return np.clip(offsets(T, T), -most, most) + most


def shaw_scores(q, table):
    """
    A learned vector for every offset, up to a largest one.

    >>> q, table = np.array([[1.0], [1.0], [1.0], [2.0]]), np.array([[-1.0], [0.0], [1.0]])
    >>> print(shaw_scores(q, table))
    [[ 0.  1.  1.  1.]
     [-1.  0.  1.  1.]
     [-1. -1.  0.  1.]
     [-2. -2. -2.  0.]]
    """
    place = clipped_offsets(q.shape[-2], len(table) // 2)
    return read_rows(q @ table.T, place)


def shaw_scores_vjp(dout, q, table):
    """
    Backward pass: sums over equal offsets, then two products of matrices.

    >>> q, table = np.array([[3.0], [5.0]]), np.array([[-1.0], [0.0], [1.0]])
    >>> dq, dtable = shaw_scores_vjp(np.ones((2, 2)), q, table)
    >>> print(dq.T, dtable.T)
    [[ 1. -1.]] [[5. 8. 3.]]
    """
    place = clipped_offsets(q.shape[-2], len(table) // 2)
    G = read_rows_vjp(dout, place, len(table))
    return linear_vjp(G, q, table)


# == transformer_xl_scores


def transformer_xl_scores(q, k, r, u, v):
    """
    Content with content, and content with offset, each with a bias of the query.

    >>> q, r = np.zeros((3, 1)), np.array([[-2.0], [-1.0], [0.0], [1.0], [2.0]])
    >>> print(transformer_xl_scores(q, q, r, np.array([0.0]), np.array([1.0])))
    [[ 0.  1.  2.]
     [-1.  0.  1.]
     [-2. -1.  0.]]
    """
    T, S = q.shape[-2], k.shape[-2]
    by_content = (q + u) @ transposed(k)
    by_offset = (q + v) @ transposed(r)
    return by_content + read_rows(by_offset, offsets(T, S) + T - 1)


def transformer_xl_scores_vjp(dout, q, k, r, u, v):
    """
    Backward pass: G is dout with each row moved back to its offsets.

    >>> q, k, r = np.array([[2.0]]), np.array([[3.0]]), np.array([[5.0]])
    >>> u, v, dout = np.array([7.0]), np.array([11.0]), np.array([[1.0]])
    >>> print(*transformer_xl_scores_vjp(dout, q, k, r, u, v))
    [[8.]] [[9.]] [[13.]] [3.] [5.]
    """
    T, S = q.shape[-2], k.shape[-2]
    G = read_rows_vjp(dout, offsets(T, S) + T - 1, T + S - 1)
    by_content, by_offset = dout @ k, G @ r
    dk = transposed(dout) @ (q + u)
    dr = sum_to_shape(transposed(G) @ (q + v), r.shape)
    du = sum_to_shape(by_content, u.shape)
    dv = sum_to_shape(by_offset, v.shape)
    return by_content + by_offset, dk, dr, du, dv


# == disentangled_scores


def log_bucket(offset, num_buckets, max_distance):
    """Small offsets as they are, large ones on a logarithmic scale."""
    m = num_buckets // 2
    part = np.log(np.maximum(np.abs(offset), m) / m) / np.log((max_distance - 1) / m)
    far = np.sign(offset) * (m + np.ceil(part * (m - 1)).astype(int))
    return np.where(np.abs(offset) <= m, offset, far)


def disentangled_places(T, S, L, num_buckets, max_distance):
    """The row of both tables for each pair: the query's position minus the key's, clipped."""
    back = -offsets(T, S)
    if num_buckets is not None:
        back = log_bucket(back, num_buckets, max_distance)
    return np.clip(back + L // 2, 0, L - 1)


def disentangled_scores(
    q, k, pos_q, pos_k, *, num_buckets=None, max_distance=None, c2p=True, p2c=True
):  # fmt: skip
    """
    Content with content, content with position, position with content.

    >>> q, k = np.array([[[0.0], [1.0]]]), np.zeros((1, 2, 1))
    >>> table = np.array([[[0.0], [10.0], [20.0], [30.0]]])
    >>> print(disentangled_scores(q, k, table, table))
    [[[ 0.  0.]
      [30. 20.]]]
    """
    T, S, L = q.shape[-2], k.shape[-2], pos_q.shape[-2]
    place = disentangled_places(T, S, L, num_buckets, max_distance)
    s = q @ transposed(k)
    if c2p:
        s = s + read_rows(q @ transposed(pos_k), place)
    if p2c:
        s = s + transposed(read_rows(k @ transposed(pos_q), place.T))
    return s


def disentangled_scores_vjp(
    dout, q, k, pos_q, pos_k, *, num_buckets=None, max_distance=None, c2p=True, p2c=True
):  # fmt: skip
    """
    Backward pass: G and F are sums over equal offsets, of each query and of each key.

    >>> q, k, table = np.array([[[3.0]]]), np.array([[[5.0]]]), np.ones((1, 2, 1))
    >>> dq, dk, dpos_q, dpos_k = disentangled_scores_vjp(np.ones((1, 1, 1)), q, k, table, table)
    >>> print(dq.ravel(), dk.ravel(), dpos_q.ravel(), dpos_k.ravel())
    [6.] [4.] [0. 5.] [0. 3.]
    """
    T, S, L = q.shape[-2], k.shape[-2], pos_q.shape[-2]
    place = disentangled_places(T, S, L, num_buckets, max_distance)
    dq, dk = dout @ k, transposed(dout) @ q
    dpos_q, dpos_k = np.zeros_like(pos_q), np.zeros_like(pos_k)
    if c2p:
        G = read_rows_vjp(dout, place, L)
        dq = dq + G @ pos_k
        dpos_k = sum_to_shape(transposed(G) @ q, pos_k.shape)
    if p2c:
        F = read_rows_vjp(transposed(dout), place.T, L)
        dk = dk + F @ pos_q
        dpos_q = sum_to_shape(transposed(F) @ k, pos_q.shape)
    return dq, dk, dpos_q, dpos_k


# == cope


def sums_from(x):
    """The sum of each entry and all that follow it."""
    return np.flip(np.cumsum(np.flip(x, axis=-1), axis=-1), axis=-1)


def cope_places(scores, last):
    """The rows before and after each position, its share of the second, and if it is free."""
    p = sums_from(sigmoid(scores))
    free = p.real < last
    p = np.where(free, p, last)
    n = np.floor(p.real)
    low = n.astype(int)
    return low, np.minimum(low + 1, last), p - n, free


def cope(q, scores, table):
    """
    Positions that count open gates, between two rows of a table.

    >>> q, scores = np.array([[1.0]]), np.array([[-40.0, 40.0, -40.0, -40.0, 40.0]])
    >>> print(cope(q, scores, np.array([[0.0], [10.0], [20.0], [30.0]])))
    [[20. 20. 10. 10. 10.]]
    """
    low, high, w, _ = cope_places(scores, len(table) - 1)
    z = q @ table.T
    return (1 - w) * read_rows(z, low) + w * read_rows(z, high)


def cope_vjp(dout, q, scores, table):
    """
    Backward pass: the interpolation, then the gates that a position is the sum of.

    >>> q, scores, table = np.array([[1.0]]), np.zeros((1, 2)), np.array([[0.0], [4.0], [8.0]])
    >>> dq, dscores, dtable = cope_vjp(np.ones((1, 2)), q, scores, table)
    >>> print(dq, dscores, dtable.T)
    [[6.]] [[1. 2.]] [[0.5 1.5 0. ]]
    """
    P = len(table)
    low, high, w, free = cope_places(scores, P - 1)
    z = q @ table.T
    dz = read_rows_vjp((1 - w) * dout, low, P) + read_rows_vjp(w * dout, high, P)
    dq, dtable = linear_vjp(dz, q, table)
    dp = np.where(free, dout * (read_rows(z, high) - read_rows(z, low)), 0)
    dscores = sigmoid_deriv(scores) * np.cumsum(dp, axis=-1)
    return dq, dscores, dtable
