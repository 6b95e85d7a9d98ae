r"""Layer normalization, its Jacobian and the two Jacobian products."""

from __future__ import annotations

from typing import Any, overload

import numpy.typing as npt

from .._core.arguments import FloatArray, as_number, result
from ._kernels.rows import jvp_arguments, operands, rows, rows_jacobian, rows_jvp, rows_vjp


def layer_norm(
    x: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    *,
    eps: float = 1e-5,
) -> FloatArray:
    r"""
    Shift and scale each row to mean 0 and variance 1, then apply weight and bias.

    Parameters
    ----------
    x : array_like, shape (..., D)
        Rows of features.
    weight : array_like or None, shape (D,)
        Factor :math:`w_i` of each feature; None is 1.
    bias : array_like or None, shape (D,)
        Offset :math:`b_i` of each feature; None is 0.
    eps : float, default 1e-5
        Added to the variance, at least 0.

    Returns
    -------
    ndarray, shape of `x`
        Normalized rows.

    Raises
    ------
    TypeError
        If an array is not real or `eps` is not a number.
    ValueError
        If `x` is a scalar, `weight` or `bias` does not have shape (D,), or `eps` is negative.

    See Also
    --------
    layer_norm_jacobian : The derivative, with its derivation.
    rms_norm : Without subtracting the mean.
    batch_norm : Over the examples instead of the features.

    Notes
    -----
    Each row is normalized by itself, with its own mean and its own biased variance (divided by D,
    not D - 1). So the result does not depend on the other rows or on the size of the batch, and
    training and inference compute the same. Weight and bias, often written :math:`\gamma` and
    :math:`\beta`, are learned:

    .. math::

        \mu = \frac1D \sum_i x_i, \qquad
        \sigma^2 = \frac1D \sum_i (x_i - \mu)^2, \qquad
        \hat x_i = \frac{x_i - \mu}{\sqrt{\sigma^2 + \epsilon}}, \qquad
        y_i = w_i \hat x_i + b_i .

    **Geometry.** Subtracting the mean projects :math:`\vec x` onto the plane orthogonal to
    :math:`\vec 1`; dividing by :math:`\sigma = \norm{\vec x - \mu \vec 1} / \sqrt D` projects it
    onto the sphere of radius :math:`\sqrt D`. So :math:`\hat{\vec x}` lies on a sphere of D - 2
    dimensions, and does not change if :math:`\vec x` is shifted or, up to :math:`\epsilon`,
    multiplied by a positive number. (By a negative one, its sign changes.)

    **Numerics.** The textbook formula :math:`\sigma^2 = \overline{x^2} - \mu^2` loses all digits
    at a large mean. The code computes the mean first, which comes out rounded, as m; then it forms
    :math:`d_i = x_i - m` and gets

    .. math:: \mu = m + \overline d, \qquad \sigma^2 = \overline{d^2} - \overline d^2 .

    The correction :math:`\overline d` is the rounding error of m, so nothing cancels. Where all
    :math:`x_i` lie within a factor of two of m, :math:`d_i` is exact, and a large offset costs no
    digit of the result. Where a square overflows or underflows, the row is scaled by a power of two
    first, so that rows of any magnitude have their result.

    float32 (and narrower) inputs are computed in float64 and rounded once. (At a mean of
    :math:`10^4` a float32 *input* is already rounded to 0.001.) Each row is read from memory once.

    **Special values.** A constant row gives `bias`, as does a row of width 1. With
    :math:`\epsilon = 0` a constant row is 0/0, NaN. Infinity or NaN makes NaN of its row.

    References
    ----------
    - :cite:t:`Ba2016`

    Examples
    --------
    The mean of 1, 3, 5, 7 is 4 and the variance (9 + 1 + 1 + 9) / 4 = 5:

    >>> import numpy as np
    >>> from dlref.normalization import batch_norm, layer_norm
    >>> layer_norm([1, 3, 5, 7], eps=0) * np.sqrt(5)
    array([-3., -1., 1., 3.])

    Layer norm takes its mean along a row, batch norm along a column:

    >>> x = [[1.0, 3.0], [2.0, 6.0]]
    >>> layer_norm(x, eps=0)
    array([[-1., 1.],
           [-1., 1.]])
    >>> batch_norm(x, eps=0)
    array([[-1., -1.],
           [ 1., 1.]])

    Shifting a row and multiplying it by a positive number changes nothing; a negative number
    changes the sign:

    >>> x = np.array([1.0, 3, 5, 7])
    >>> bool(np.allclose(layer_norm(100 * x - 3, eps=0), layer_norm(x, eps=0), atol=1e-15))
    True
    >>> bool(np.all(layer_norm(-x) == -layer_norm(x)))
    True

    An image is one row if all its axes are to be normalized together, as by PyTorch's
    ``nn.LayerNorm([3, 2, 2])``; weight and bias have an entry for each pixel of each channel then:

    >>> images = np.arange(24.0).reshape(2, 3, 2, 2)
    >>> y = layer_norm(images.reshape(2, 12), eps=0).reshape(images.shape)
    >>> y.mean(axis=(1, 2, 3)).round(12) + 0.0, y.var(axis=(1, 2, 3))
    (array([0., 0.]), array([1., 1.]))

    In a constant row all differences from the mean are 0, so the result is the bias:

    >>> layer_norm([7.0, 7.0, 7.0], bias=[1.0, 2.0, 3.0])
    array([1., 2., 3.])
    """
    eps = as_number("eps", eps, least=0)
    dtype, x, (weight, bias) = operands(x, weight=weight, bias=bias)
    return result(rows(x, weight, bias, eps, about_mean=True), dtype)


@overload
def layer_norm_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, weight: None = ..., bias: None = ..., *, eps: float = ...
) -> FloatArray: ...
@overload
def layer_norm_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    bias: npt.ArrayLike | None = ...,
    *,
    eps: float = ...,
) -> tuple[FloatArray, ...]: ...
@overload
def layer_norm_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, weight: None, bias: npt.ArrayLike, *, eps: float = ...
) -> tuple[FloatArray, ...]: ...
def layer_norm_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    *,
    eps: float = 1e-5,
) -> FloatArray | tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of layer normalization.

    Parameters
    ----------
    dout : array_like, shape (..., D)
        Cotangent :math:`\vec u = \partial L / \partial \vec y`.
    x, weight, bias, eps : as in `layer_norm`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape (..., D)
        Gradient with respect to `x`; alone, not in a tuple, if it is the only one.
    dweight : ndarray, shape (D,)
        :math:`\sum_n u_{ni} \hat x_{ni}` over all rows n. Only if `weight` is given.
    dbias : ndarray, shape (D,)
        :math:`\sum_n u_{ni}`. Only if `bias` is given.

    Notes
    -----
    Let :math:`\tau = \sqrt{\sigma^2 + \epsilon}`, and let a bar be the mean over a row.

    **The differential.** The deviations from the mean sum to 0, so a change of the mean does not
    change the variance to first order: :math:`\dd \sigma^2 = 2\, \overline{(x - \mu)\, \dd x}`, and
    :math:`\dd \tau = \dd \sigma^2 / (2 \tau) = \overline{\hat x\, \dd x}`. Hence

    .. math::

        \dd \hat x_i = \frac{1}{\tau} \bigl( \dd x_i - \overline{\dd x}
            - \hat x_i \, \overline{\hat x\, \dd x} \bigr) , \qquad
        \dd y_i = w_i\, \dd \hat x_i + \hat x_i\, \dd w_i + \dd b_i .

    **The inner product.** The loss changes by :math:`\dd L = \sum_i u_i\, \dd y_i`, summed over all
    rows n. They share the weight and the bias, so the factors of :math:`\dd w_i` and
    :math:`\dd b_i` are

    .. math:: \pdv{L}{w_i} = \sum_n u_{ni} \hat x_{ni} , \qquad \pdv{L}{b_i} = \sum_n u_{ni} .

    **The transpose.** With :math:`g_i = w_i u_i`, what remains of a row is
    :math:`\sum_i g_i\, \dd \hat x_i`. The Jacobian of :math:`\hat{\vec x}` is symmetric: exchanging
    the names of the indices in its double sums moves both means from :math:`\dd x` to :math:`g`,
    and the factor of :math:`\dd x_j` is

    .. math::

        \pdv{L}{x_j} = \frac{1}{\tau} \Bigl( g_j - \overline{g}
            - \hat x_j \, \overline{g \hat x} \Bigr) .

    The part of :math:`\vec g` along :math:`\vec 1` is projected out, and for :math:`\epsilon = 0`
    the part along :math:`\hat{\vec x}`, too. The gradient with respect to the input is orthogonal
    to :math:`\vec 1`, and for :math:`\epsilon = 0` to :math:`\vec x`, because shifting or scaling a
    row does not change the loss. Because of the division by :math:`\tau`, inputs of large variance
    get small gradients.

    **Computation.** `x` and `dout` are read from memory once each: mean, variance and both
    projections come from four means taken at once, with :math:`d_i = x_i - m` as in
    :func:`layer_norm`, because

    .. math:: \overline{g \hat x} = \frac{1}{\tau}
        \bigl( \overline{g d} - \overline{g} \, \overline{d} \bigr) .

    The row is still in the cache for the result, in float64 until it is rounded once. The sums over
    rows are taken in blocks that depend on the shape alone, so that they have the same bits for any
    number of threads.

    References
    ----------
    - :cite:t:`Ba2016`

    Examples
    --------
    The row 1, 7, 7, 9 has the mean 6 and the deviation 3, so :math:`3 \hat x` is -5, 1, 1, 3. If
    the loss is the first output, then u is 1, 0, 0, 0: the mean of u is 1/4, and the mean of
    :math:`u \hat x` is -5/12. The gradient is a third of 1, 0, 0, 0 minus 1/4 everywhere, plus
    5/12 of :math:`\hat x`:

    >>> import numpy as np
    >>> from dlref.normalization import layer_norm_vjp
    >>> x, w, b = np.array([1.0, 7, 7, 9]), np.ones(4), np.zeros(4)
    >>> dx, dw, db = layer_norm_vjp([1, 0, 0, 0], x, w, b, eps=0)
    >>> dx * 54
    array([ 1., -2., -2., 3.])
    >>> dw * 3, db
    (array([-5., 0., 0., 0.]), array([1., 0., 0., 0.]))

    The gradient is orthogonal to a shift and to a scaling of the row:

    >>> x = np.array([1.0, 3, 5, 7])
    >>> dx = layer_norm_vjp([1, 0, 0, 2], x, eps=0)
    >>> bool(abs(dx.sum()) < 1e-15), bool(abs(dx @ x) < 1e-14)
    (True, True)

    The loss :math:`\sum_i \hat x_i` is constant, hence its gradient zero:

    >>> layer_norm_vjp([1, 1, 1, 1], x)
    array([0., 0., 0., 0.])
    """
    eps = as_number("eps", eps, least=0)
    dtype, x, (u, weight, bias) = operands(x, dout=dout, weight=weight, bias=bias)
    dx, dweight, dbias = rows_vjp(u, x, weight, eps, about_mean=True)
    grads = [result(dx, dtype)]
    if weight is not None:
        grads.append(result(dweight, dtype))
    if bias is not None:
        grads.append(result(dbias, dtype))
    return tuple(grads) if len(grads) > 1 else grads[0]


def layer_norm_jvp(primals: Any, tangents: Any, *, eps: float = 1e-5) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of layer normalization.

    Parameters
    ----------
    primals : tuple (x, weight, bias) of array_like
        Rows of features (..., D), and factors and offsets (D,) or None.
    tangents : tuple of array_like or None
        Directions :math:`\vec v, \dot{\vec w}, \dot{\vec b}`, each of the shape of its
        operand; None is zero.
    eps : as in `layer_norm`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., D)
        Tangent of the normalized rows.

    Notes
    -----
    The product rule on :math:`y_i = w_i \hat x_i + b_i`, with :math:`\tau = \sqrt{\sigma^2 +
    \epsilon}` and bars for means over the row:

    .. math::

        \dot y_i = \frac{w_i}{\tau} \Bigl( v_i - \overline{v} - \hat x_i \, \overline{v \hat x}
            \Bigr) + \dot w_i \hat x_i + \dot b_i .

    Examples
    --------
    The tangent of a shift of the row is mapped to 0:

    >>> from dlref.normalization import layer_norm_jvp
    >>> x = [1.0, 3.0, 5.0, 7.0]
    >>> layer_norm_jvp((x, None, None), ([1, 1, 1, 1], None, None))
    array([0., 0., 0., 0.])
    """
    eps = as_number("eps", eps, least=0)
    dtype, x, v, (weight, _), (dweight, dbias) = jvp_arguments(primals, tangents, count=3)
    return result(rows_jvp(v, x, weight, dweight, dbias, eps, about_mean=True), dtype)


def layer_norm_jacobian(
    x: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    *,
    eps: float = 1e-5,
) -> FloatArray:
    r"""
    Jacobian of layer normalization with respect to its input, one matrix per row.

    Parameters
    ----------
    x, weight : as in `layer_norm`
        The same.
    bias : array_like or None, shape (D,)
        Offset of each feature; it has no influence.
    eps : as in `layer_norm`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., D, D)
        ``J[..., i, j]`` is :math:`\partial y_i / \partial x_j` of that row.

    See Also
    --------
    layer_norm_vjp, layer_norm_jvp : Products with it, in time proportional to D.

    Notes
    -----
    Write :math:`d_i = x_i - \mu` and :math:`\tau = \sqrt{\sigma^2 + \epsilon}`. Three steps:

    1. The derivative of the mean is :math:`\partial \mu / \partial x_j = 1/D`, hence
       :math:`\partial d_i / \partial x_j = \delta_{ij} - 1/D`.
    2. The derivative of the variance is

       .. math::

           \pdv{\sigma^2}{x_j} = \frac2D \sum_i d_i \Bigl( \delta_{ij} - \frac1D \Bigr)
             = \frac2D d_j, \qquad \text{since } \sum_i d_i = 0,

       and the derivative of :math:`\tau` is
       :math:`\partial \tau / \partial x_j = d_j / (D \tau) = \hat x_j / D`.
    3. The quotient rule on :math:`\hat x_i = d_i / \tau`:

       .. math::

           \pdv{\hat x_i}{x_j} = \frac{1}{\tau} \pdv{d_i}{x_j} - \frac{d_i}{\tau^2} \pdv{\tau}{x_j}
             = \frac1\tau \Bigl( \delta_{ij} - \frac1D - \frac{\hat x_i \hat x_j}{D} \Bigr).

    As matrices, with :math:`\vec y = \operatorname{diag}(\vec w)\, \hat{\vec x} + \vec b`,

    .. math::
        :label: layer-norm-jacobian

        \mat J = \frac1\tau \operatorname{diag}(\vec w) \Bigl( \mat I
          - \underbrace{\tfrac1D \vec 1 \vec 1^\top}_{\text{onto } \vec 1}
          - \underbrace{\tfrac1D \hat{\vec x} \hat{\vec x}^\top}_{\text{onto } \hat{\vec x}}
          \Bigr).

    Both subtracted matrices are projections if :math:`\epsilon = 0`, for then
    :math:`\norm{\hat{\vec x}}^2 = D`; and they are orthogonal to each other, as
    :math:`\hat{\vec x}` has mean 0. The matrix in brackets then has D - 2 eigenvalues 1 and two
    eigenvalues 0. With :math:`\epsilon > 0`,
    :math:`\norm{\hat{\vec x}}^2 = D \sigma^2 / (\sigma^2 + \epsilon)`, and the eigenvalue that
    belongs to :math:`\hat{\vec x}` is :math:`1 - \norm{\hat{\vec x}}^2 / D`, that is
    :math:`\epsilon / (\sigma^2 + \epsilon)` instead of 0.

    At width 2 and :math:`\epsilon = 0` both directions are projected out: the output is
    :math:`\pm 1`, whatever the input.

    References
    ----------
    - :cite:t:`Ba2016`

    Examples
    --------
    Shift and scaling of the row are in the kernel; the rank is D - 2:

    >>> import numpy as np
    >>> from dlref.normalization import layer_norm_jacobian
    >>> x = np.array([1.0, 3.0, 5.0, 7.0])
    >>> J = layer_norm_jacobian(x, eps=0)
    >>> int(np.linalg.matrix_rank(J))
    2
    >>> (np.sqrt(5) * J * 10).round(6)
    array([[ 3., -4., -1.,  2.],
           [-4.,  7., -2., -1.],
           [-1., -2.,  7., -4.],
           [ 2., -1., -4.,  3.]])
    """
    eps = as_number("eps", eps, least=0)
    dtype, x, (weight, _) = operands(x, weight=weight, bias=bias)
    return result(rows_jacobian(x, weight, eps, about_mean=True), dtype)
