r"""
Rotary position embedding: queries and keys rotated by an angle that grows with the position.

A pair of channels is a complex number, and rotating it a multiplication by a phase.  The score of
two rotated vectors depends only on the difference of the two angles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    FloatDType,
    as_even,
    as_floats,
    as_number,
    check_broadcast,
    check_constant,
    check_even,
    check_flags,
    check_ndim,
    check_shape,
    entries,
    result,
)
from .._core.jit import kernel
from .._core.threads import over_rows
from ._kernels.circle import circles


@kernel
def _rotate_neighbours(
    start: int,
    stop: int,
    x: FloatArray,
    cos: FloatArray,
    sin: FloatArray,
    place: npt.NDArray[np.int64],
    sign: float,
    out: FloatArray,
) -> None:
    pairs = cos.shape[1]
    for r in range(start, stop):
        c, s, a, y = cos[place[r]], sin[place[r]], x[r], out[r]
        for i in range(pairs):
            u, v = np.float64(a[2 * i]), np.float64(a[2 * i + 1])
            ci, si = np.float64(c[i]), sign * np.float64(s[i])
            y[2 * i] = u * ci - v * si
            y[2 * i + 1] = u * si + v * ci
        for i in range(2 * pairs, y.size):
            y[i] = a[i]


@kernel
def _rotate_halves(
    start: int,
    stop: int,
    x: FloatArray,
    cos: FloatArray,
    sin: FloatArray,
    place: npt.NDArray[np.int64],
    sign: float,
    out: FloatArray,
) -> None:
    pairs = cos.shape[1]
    for r in range(start, stop):
        c, s, a, y = cos[place[r]], sin[place[r]], x[r], out[r]
        left, right = y[:pairs], y[pairs : 2 * pairs]
        for i in range(pairs):
            u, v = np.float64(a[i]), np.float64(a[pairs + i])
            ci, si = np.float64(c[i]), sign * np.float64(s[i])
            left[i] = u * ci - v * si
            right[i] = u * si + v * ci
        for i in range(2 * pairs, y.size):
            y[i] = a[i]


def rotated(
    v: FloatArray,
    cos: FloatArray,
    sin: FloatArray,
    sign: float,
    interleaved: bool,
    rotary_last: bool = False,
) -> FloatArray:
    """Rotate every row of v by sign times its angles."""
    check_flags(interleaved=interleaved, rotary_last=rotary_last)
    pairs = cos.shape[-1]
    if rotary_last:
        kept, turned = np.split(v, [v.shape[-1] - 2 * pairs], axis=-1)
        return np.concatenate([kept, rotated(turned, cos, sin, sign, interleaved)], axis=-1)
    rows = np.ascontiguousarray(v).reshape(-1, v.shape[-1]) if v.size else v
    out = np.empty_like(rows)
    if v.size:
        count = cos.size // pairs if pairs else 1
        places = np.arange(count, dtype=np.int64).reshape(cos.shape[:-1] if pairs else ())
        place = np.broadcast_to(places, v.shape[:-1]).ravel()
        tables = [np.ascontiguousarray(t).reshape(count, pairs) for t in (cos, sin)]
        turn = _rotate_neighbours if interleaved else _rotate_halves
        over_rows(turn, len(rows), v.shape[-1] / 2, rows, *tables, place, sign, out)
    return out.reshape(v.shape)


def checked_tables(
    names: tuple[str, str, str],
    x: FloatArray,
    cos: npt.ArrayLike,
    sin: npt.ArrayLike,
    rotary_dim: int | None,
) -> tuple[FloatArray, FloatArray]:
    """Check the arguments of apply_rope except x; return both tables."""
    check_ndim(names[0], x, 1)
    width = x.shape[-1]
    if rotary_dim is None:
        check_even(names[0], x)
        rotary_dim = width
    else:
        rotary_dim = as_even("rotary_dim", rotary_dim, most=width)
    _, (cos, sin) = as_floats({names[1]: cos, names[2]: sin}, work=np.float32)
    check_ndim(names[1], cos, 1)
    check_shape(names[1], cos, (*cos.shape[:-1], rotary_dim // 2))
    check_shape(names[2], sin, cos.shape)
    check_broadcast(names[1], cos.shape[:-1], x.shape[:-1])
    return cos, sin


def with_constants(
    primals: Any, tangents: Any, count: int
) -> tuple[FloatDType, FloatArray, FloatArray, list[npt.ArrayLike]]:
    """Unpack the arguments of a jvp in which all primals but the first are constants."""
    points, directions = entries("primals", primals, count), entries("tangents", tangents, count)
    names = list(directions)
    for name in names[1:]:
        check_constant(name, directions[name])
    tangent_arguments = {
        name: tangent for name, tangent in directions.items() if tangent is not None
    }
    x, *constants = points.values()
    dtype, (v, *rest) = as_floats({"primals[0]": x, **tangent_arguments}, work=np.float32)
    moved = rest[0] if rest else np.zeros_like(v)
    check_shape(names[0], moved, v.shape)
    return dtype, v, moved, constants


def rope_angles(positions: npt.ArrayLike, frequencies: npt.ArrayLike) -> FloatArray:
    r"""
    Angle of every pair of channels at every position.

    Parameters
    ----------
    positions : array_like, shape (...)
        Positions p, in tokens. They start anywhere and need not be integers.
    frequencies : array_like, shape (n,)
        Radians per token :math:`\theta_i`, one for each pair.

    Returns
    -------
    ndarray, shape (..., n)
        Angles :math:`p\, \theta_i` in radians, not reduced.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If `frequencies` does not have one axis.

    See Also
    --------
    rope_tables : Their cosines and sines, without the rounding error of the angle.
    rope_frequencies : The frequencies.

    Notes
    -----
    .. math:: \phi_{pi} = p\, \theta_i

    It is an outer product: each position times each frequency. The angle is rounded to the dtype
    of the arguments. In float32 the angle of pair 0 at position :math:`10^6` is a multiple of
    1/16, and in bfloat16 the position 257 does not exist; this is why the tables are not
    made from these angles.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.positions import rope_angles
    >>> rope_angles([0, 1, 2], [1.0, 0.5])
    array([[0. , 0. ],
           [1. , 0.5],
           [2. , 1. ]])
    """
    dtype, (p, f) = as_floats({"positions": positions, "frequencies": frequencies})
    check_shape("frequencies", f, (f.size,))
    with np.errstate(all="ignore"):
        return result(p[..., None] * f, dtype)


def rope_tables(
    positions: npt.ArrayLike, frequencies: npt.ArrayLike, *, attention_factor: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    r"""
    Cosine and sine of every angle, as `apply_rope` takes them.

    Parameters
    ----------
    positions : array_like, shape (...)
        Positions p, in tokens. With a cache of t earlier tokens they start at t.
    frequencies : array_like, shape (n,)
        Radians per token :math:`\theta_i`, one for each pair.
    attention_factor : float, default 1.0
        Factor m of both tables.

    Returns
    -------
    cos : ndarray, shape (..., n)
        :math:`m \cos p \theta_i`.
    sin : ndarray, shape (..., n)
        :math:`m \sin p \theta_i`.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array, or the factor is not a
        number.
    ValueError
        If `frequencies` does not have one axis.

    See Also
    --------
    apply_rope : The rotation by these tables.
    rope_attention_factor : The factor of YaRN and LongRoPE.

    Notes
    -----
    With the factor m, `attention_factor`,

    .. math::

        C_{pi} = m \cos p\, \theta_i, \qquad S_{pi} = m \sin p\, \theta_i .

    The tables do not depend on the input, so they are computed once and shared by all layers and
    heads. Both queries and keys are multiplied by m, hence the scores by :math:`m^2`: a
    temperature of the softmax that costs nothing.

    **Accuracy.** The product :math:`p\,\theta_i` is kept in two float64 and reduced to an
    eighth of a turn before it is rounded: 0.8 ULP in float64 at positions up to :math:`10^6`, 0.501
    in float32, where the tables of frameworks, computed from a float32 angle, are off by 0.06
    (0.04 for 64 channels). An angle of more than :math:`2^{49}` turns, or
    :math:`3.5 \cdot 10^{15}`, gives NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.positions import rope_tables
    >>> cos, sin = rope_tables([0, 1, 2, 3], [np.pi / 2])
    >>> cos.T.round(12) + 0.0, sin.T.round(12) + 0.0
    (array([[ 1., 0., -1., 0.]]), array([[ 0., 1., 0., -1.]]))

    A table for later positions is a part of the table for all:

    >>> whole, _ = rope_tables(np.arange(100), [1.0, 0.01])
    >>> late, _ = rope_tables(np.arange(90, 100), [1.0, 0.01])
    >>> bool(np.all(whole[90:] == late))
    True
    """
    dtype, (p, f) = as_floats({"positions": positions, "frequencies": frequencies})
    check_shape("frequencies", f, (f.size,))
    factor = as_number("attention_factor", attention_factor)
    cos, sin = circles(p, f, factor, np.result_type(dtype, np.float32))
    return result(cos, dtype), result(sin, dtype)


def apply_rope(
    x: npt.ArrayLike,
    cos: npt.ArrayLike,
    sin: npt.ArrayLike,
    *,
    interleaved: bool = True,
    rotary_dim: int | None = None,
    rotary_last: bool = False,
) -> FloatArray:
    r"""
    Rotate pairs of channels by angles that depend on the position.

    Parameters
    ----------
    x : array_like, shape (..., T, E)
        Queries or keys.
    cos, sin : array_like, shape (T, R / 2) or (..., T, R / 2)
        Tables of `rope_tables`. Axes before the last broadcast to the axes of `x`, for sequences
        with their own positions.
    interleaved : bool, default True
        Whether pair i consists of the channels 2i and 2i + 1, or else of i and i + R/2.
    rotary_dim : int or None
        Number R of channels that take part, even; None is all of them. The rest is copied.
    rotary_last : bool, default False
        Whether the last R channels of a head take part, or else the first R.

    Returns
    -------
    ndarray, shape (..., T, E)
        Rotated vectors, of the dtype of `x`.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array, `rotary_dim` is not an
        integer, or `interleaved` or `rotary_last` is not a bool.
    ValueError
        If `rotary_dim` (E if it is None) is odd, it is more than E, or the shapes do not fit.

    See Also
    --------
    rope_tables : The tables.
    rope_score : The score of two rotated vectors.
    rope_permutation : From interleaved pairs to halves.
    apply_rope_vjp, apply_rope_jvp : The products with the Jacobian, which is the rotation.

    Notes
    -----
    **Definition.** A vector at position p is rotated pair by pair. Pair i has the frequency
    :math:`\theta_i = 10000^{-2i/R}` of :func:`rope_frequencies`, and is rotated by the angle
    :math:`\phi = p\, \theta_i`. Three forms of this map:

    .. math::

       \begin{pmatrix} y_1 \\ y_2 \end{pmatrix}
         &= \begin{pmatrix} \cos\phi & -\sin\phi \\ \sin\phi & \cos\phi \end{pmatrix}
            \begin{pmatrix} x_1 \\ x_2 \end{pmatrix} \\
       y_1 &= x_1 \cos\phi - x_2 \sin\phi, \qquad y_2 = x_1 \sin\phi + x_2 \cos\phi \\
       y_1 + \mathrm i y_2 &= (x_1 + \mathrm i x_2)(\cos\phi + \mathrm i \sin\phi)
         = (x_1 + \mathrm i x_2)\, e^{\mathrm i \phi} .

    The second line is the first multiplied out, and the real and imaginary part of the third; the
    code computes the second. The matrix for all pairs would have E² entries, with only 2E of
    them not zero; the pairwise form takes 2E multiplications and reads the input once.

    **Where it is applied.** To the queries and keys of every layer and head, after their projection
    and before their scores. Values are not rotated, and nothing is added to the embeddings. The
    sinusoidal encoding has the same sines and cosines, but adds them, once and to the tokens, where
    they mix with the content; here they are factors, which mix the channels of a pair.

    **Why a rotation.** The score of a rotated query and a rotated key depends on the distance of
    their positions, and on nothing else of them:

    .. math::

       (\mat R_m \vec q) \cdot (\mat R_n \vec k) = \vec q^\top \mat R_m^\top \mat R_n \vec k
         = \vec q \cdot (\mat R_{n-m} \vec k) ,

    since the transpose of a rotation turns back: back by m and forward by n is forward by n − m.
    The lengths of both are kept, and the angle between them changes by n − m times the frequency.

    **The converse.** The converse also holds: rotations are the only way, if queries and keys go
    through the same map. Take a map f(x, p) of a vector at position p, linear in x, such that the
    score depends on the positions only through their difference:

    .. math:: \langle f(\vec q, m), f(\vec k, n) \rangle = g(\vec q, \vec k, n - m) .

    Write :math:`f(\vec x, p) = \mat R_p \vec x` and let vectors at position 0 be unchanged,
    :math:`\mat R_0 = \mat I`. Then :math:`\mat R_m^\top \mat R_n` depends on n − m alone; call it
    :math:`\mat S_{n-m}`.

    1. With n = m: :math:`\mat R_m^\top \mat R_m = \mat S_0 = \mat R_0^\top \mat R_0 = \mat I`.
       Every :math:`\mat R_m` is orthogonal, lengths are kept.
    2. With m = 0: :math:`\mat S_n = \mat R_n`, so that
       :math:`\mat R_m^\top \mat R_n = \mat R_{n - m}`, or
       :math:`\mat R_n = \mat R_m \mat R_{n-m}`: positions add where rotations multiply.
    3. Hence, by induction on p, :math:`\mat R_p = \mat R_1^p` for whole positions: powers of one
       orthogonal matrix. For real positions :math:`\mat R_1` is not enough, since :math:`2 \pi p`
       turns give :math:`\mat R_1 = \mat I`, too. If :math:`\mat R_p` is differentiable, the
       derivative of step 2 at m = 0 is :math:`\mat R_p' = \mat A \mat R_p` with the skew-symmetric
       generator :math:`\mat A = \mat R_0'`, so that :math:`\mat R_p = e^{p \mat A}`; the steps
       below then hold with :math:`\mat A` in place of :math:`\mat R_1`.
    4. Such a matrix consists of plane rotations. Its eigenvalues have absolute value 1, since
       lengths are kept. If one is not real, take the real and the imaginary part of its
       eigenvector :math:`\vec w = \vec a + \mathrm i \vec b`:

       .. math::

           \mat R_1 (\vec a + \mathrm i \vec b) = e^{\mathrm i \theta} (\vec a + \mathrm i \vec b)
           \quad\Rightarrow\quad
           \mat R_1 \vec a = \vec a \cos\theta - \vec b \sin\theta, \quad
           \mat R_1 (-\vec b) = -\vec a \sin\theta - \vec b \cos\theta .

       The two vectors are orthogonal and of equal length, because

       .. math::

           \abs{\vec a}^2 - \abs{\vec b}^2 + 2 \mathrm i\, \vec a \cdot \vec b = \vec w^\top \vec w
           = (\mat R_1 \vec w)^\top (\mat R_1 \vec w) = e^{2 \mathrm i \theta}\, \vec w^\top \vec w
           = 0,

       as :math:`e^{2 \mathrm i \theta} \ne 1` for a value that is not real. So :math:`\mat R_1`
       rotates the plane of :math:`\vec a` and :math:`-\vec b` by :math:`\theta`. Vectors orthogonal
       to this plane stay orthogonal to it, and the argument is repeated there, until only
       eigenvalues 1 and −1 are left.
    5. The orthonormal basis of these planes is absorbed by the projections before the score; the
       only choice left is an angle :math:`\theta_i` for each plane.

    So the requirement leaves rotations of planes, here of two channels each (and reflections, which
    only integer positions allow).

    **Pairing.** The paper and GPT-J pair neighbors; GPT-NeoX and LLaMA as converted for
    Transformers pair halves. Both are one map in two orders of the channels. Weights trained with
    one give nonsense with the other, unless their rows are permuted (`rope_permutation`).

    **Error.** Two products and a sum in float64, rounded once: at most :math:`2 \cdot 2^{-53}` of
    the length of the pair in float64, 0.501 ULP for float32 tables and input.

    :doc:`/positions_compared` has the loss, cost and cache of this scheme compared with all others.

    References
    ----------
    - :cite:t:`Su2021`
    - Two lectures to watch: :cite:t:`EfficientNLP2023`, from absolute and relative positions to the
      matrix, and :cite:t:`UmarJamil2023`, who writes it in PyTorch together with grouped heads,
      a key-value cache and RMS norm

    Examples
    --------
    The pair (1, 0), rotated by an eighth of a turn:

    >>> import numpy as np
    >>> from dlref.positions import apply_rope
    >>> c = np.sqrt(0.5)
    >>> apply_rope([[1.0, 0.0]], [[c]], [[c]])
    array([[0.70710678, 0.70710678]])

    The score of a query at position 2 and a key at 5 is the same as at positions 102 and 105:

    >>> from dlref.positions import rope_frequencies, rope_tables
    >>> rng = np.random.default_rng(0)
    >>> q, k = rng.normal(size=(2, 1, 8))
    >>> def rotated(x, p):
    ...     return apply_rope(x, *rope_tables([p], rope_frequencies(8)))
    >>> near, far, other = ((rotated(q, m) * rotated(k, n)).sum() for m, n in
    ...                     [(2, 5), (102, 105), (2, 6)])
    >>> bool(np.isclose(near, far)), bool(np.isclose(near, other))
    (True, False)

    Two of four channels are rotated by a quarter of a turn, as neighbors, the first two or the last
    two; then all four, in halves:

    >>> apply_rope([[1, 2, 3, 4]], [[0]], [[1]], rotary_dim=2)
    array([[-2., 1., 3., 4.]])
    >>> apply_rope([[1, 2, 3, 4]], [[0]], [[1]], rotary_dim=2, rotary_last=True)
    array([[ 1., 2., -4., 3.]])
    >>> apply_rope([[1, 2, 3, 4]], [[0, 0]], [[1, 1]], interleaved=False)
    array([[-3., -4., 1., 2.]])
    """
    dtype, (v,) = as_floats({"x": x}, work=np.float32)
    tables = checked_tables(("x", "cos", "sin"), v, cos, sin, rotary_dim)
    return result(rotated(v, *tables, 1.0, interleaved, rotary_last), dtype)


def apply_rope_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    cos: npt.ArrayLike,
    sin: npt.ArrayLike,
    *,
    interleaved: bool = True,
    rotary_dim: int | None = None,
    rotary_last: bool = False,
) -> FloatArray:
    r"""
    Reverse mode of `apply_rope`: rotation by the negative angle.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the rotated vectors.
    x : array_like, shape (..., T, E)
        Queries or keys. Only their shape and dtype matter.
    cos, sin : array_like, shape (T, R / 2) or (..., T, R / 2)
        Tables of `rope_tables`, constants.
    interleaved, rotary_dim, rotary_last : as in `apply_rope`
        The same.

    Returns
    -------
    ndarray, shape of `x`
        Gradient of that loss with respect to `x`.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If `dout` does not have the shape of `x`, or `apply_rope` would refuse.

    Notes
    -----
    **The differential.** The map is linear in x: :math:`\dd \vec y = \mat R_p\, \dd \vec x`.

    **The inner product.** :math:`\dd L = \vec u \cdot \mat R_p\, \dd \vec x`, for each position p.

    **The transpose.** The Jacobian is the rotation :math:`\mat R_p` itself, and

    .. math:: \pdv{L}{\vec x} = \mat R_p^\top\, \vec u = \mat R_{-p}\, \vec u,

    since the transpose of a rotation rotates back. In the code the sign of the sine changes. A
    factor in the tables is unchanged by the transposition: the gradient has it, too.

    Examples
    --------
    The backward pass applies the inverse rotation:

    >>> import numpy as np
    >>> from dlref.positions import apply_rope, apply_rope_vjp
    >>> x, cos, sin = np.array([[3.0, 4.0]]), [[0.6]], [[0.8]]
    >>> y = apply_rope(x, cos, sin)
    >>> y
    array([[-1.4, 4.8]])
    >>> apply_rope_vjp(y, x, cos, sin)
    array([[3., 4.]])
    """
    dtype, (u, v) = as_floats({"dout": dout, "x": x}, work=np.float32)
    tables = checked_tables(("x", "cos", "sin"), v, cos, sin, rotary_dim)
    check_shape("dout", u, v.shape)
    return result(rotated(u, *tables, -1.0, interleaved, rotary_last), dtype)


def apply_rope_jvp(
    primals: Any,
    tangents: Any,
    *,
    interleaved: bool = True,
    rotary_dim: int | None = None,
    rotary_last: bool = False,
) -> FloatArray:
    r"""
    Forward mode of `apply_rope`: the tangent is rotated.

    Parameters
    ----------
    primals : tuple (x, cos, sin) of array_like
        Queries or keys (..., T, E) and the tables.
    tangents : tuple (dx, None, None)
        Tangent of `x`; None is zero. The tables are constants.
    interleaved, rotary_dim, rotary_last : as in `apply_rope`
        The same.

    Returns
    -------
    ndarray, shape of x
        Tangent of the rotated vectors.

    Raises
    ------
    TypeError
        If an argument is not a tuple, an entry is not a real array, or a table has a tangent.
    ValueError
        If the tangent does not have the shape of x, or `apply_rope` would refuse.

    Notes
    -----
    The map is linear in x, so the tangent is rotated as the vector is:

    .. math::

        \dot{\vec y} = \mat R_p\, \dot{\vec x} .

    Examples
    --------
    >>> from dlref.positions import apply_rope_jvp
    >>> apply_rope_jvp(([[3.0, 4.0]], [[0.6]], [[0.8]]), ([[1.0, 0.0]], None, None))
    array([[0.6, 0.8]])
    """
    dtype, v, moved, (cos, sin) = with_constants(primals, tangents, 3)
    tables = checked_tables(("primals[0]", "primals[1]", "primals[2]"), v, cos, sin, rotary_dim)
    return result(rotated(moved, *tables, 1.0, interleaved, rotary_last), dtype)


def rope_matrix(position: npt.ArrayLike, frequencies: npt.ArrayLike) -> FloatArray:
    r"""
    Rotation of all pairs as one matrix, for interleaved channels.

    Parameters
    ----------
    position : array_like, shape (...)
        Position p, in tokens.
    frequencies : array_like, shape (n,)
        Radians per token :math:`\theta_i`, one for each pair.

    Returns
    -------
    ndarray, shape (..., 2n, 2n)
        Matrix :math:`\mat R_p` of 2 x 2 rotations along the diagonal.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If `frequencies` does not have one axis.

    See Also
    --------
    apply_rope : The same map without the zeros.
    sinusoidal_shift : Its transpose, acting on sinusoids.

    Notes
    -----
    .. math::

       \mat R_p = \operatorname{diag}(\mat D_{p\theta_0}, \dots, \mat D_{p\theta_{n-1}}), \qquad
       \mat D_\phi = \begin{pmatrix} \cos\phi & -\sin\phi \\ \sin\phi & \cos\phi \end{pmatrix}

    The addition theorems are the statement :math:`\mat D_\phi \mat D_\psi = \mat D_{\phi+\psi}`, so
    that :math:`\mat R_m^\top \mat R_n = \mat R_{n-m}`: the score of two rotated vectors depends on
    the difference of their positions only.

    Examples
    --------
    The matrix that shifts sinusoids is the transpose:

    >>> import numpy as np
    >>> from dlref.positions import rope_frequencies, rope_matrix, sinusoidal_shift
    >>> bool(np.all(sinusoidal_shift(3, 8) == rope_matrix(3, rope_frequencies(8)).T))
    True
    >>> rope_matrix(1, [np.pi / 2, 0.0]).round(12) + 0.0
    array([[ 0., -1., 0., 0.],
           [ 1., 0., 0., 0.],
           [ 0., 0., 1., 0.],
           [ 0., 0., 0., 1.]])
    >>> R = lambda p: rope_matrix(p, [1.0, 0.01])
    >>> bool(np.allclose(R(5).T @ R(12), R(7), atol=1e-15))
    True
    """
    dtype, (p, f) = as_floats({"position": position, "frequencies": frequencies})
    check_shape("frequencies", f, (f.size,))
    cos, sin = circles(p, f)
    out = np.zeros((*p.shape, 2 * f.size, 2 * f.size))
    first = 2 * np.arange(f.size)
    out[..., first, first] = out[..., first + 1, first + 1] = cos
    out[..., first, first + 1], out[..., first + 1, first] = -sin, sin
    return result(out, dtype)


def rope_permutation(dim: int) -> npt.NDArray[np.int64]:
    r"""
    Order of the channels that turns interleaved pairs into halves.

    Parameters
    ----------
    dim : int
        Number E of channels, even.

    Returns
    -------
    ndarray of int64, shape (E,)
        Indices :math:`\pi`: 0, 2, 4, ..., then 1, 3, 5, ...

    Raises
    ------
    TypeError
        If `dim` is not an integer.
    ValueError
        If `dim` is odd or negative.

    See Also
    --------
    apply_rope : Both conventions.

    Notes
    -----
    ``x[..., perm]`` has the first elements of all pairs in its first half and the second ones in
    the other. With h the map for halves and f the map for neighbors,

    .. math:: h(\vec x_\pi) = f(\vec x)_\pi .

    A checkpoint is converted by permuting the rows of the projections of queries and keys, head by
    head. Scores do not change, because both factors of the dot product are permuted alike;
    values are not touched. ``np.argsort(perm)`` is the inverse.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.positions import apply_rope, rope_permutation, rope_tables
    >>> perm = rope_permutation(6)
    >>> perm
    array([0, 2, 4, 1, 3, 5])
    >>> x, tables = np.arange(12.0).reshape(2, 6), rope_tables([3, 4], [1.0, 0.1, 0.01])
    >>> halves = apply_rope(x[:, perm], *tables, interleaved=False)
    >>> bool(np.all(halves == apply_rope(x, *tables)[:, perm]))
    True
    """
    dim = as_even("dim", dim)
    return np.arange(dim, dtype=np.int64).reshape(dim // 2, 2).T.ravel()
