r"""Root-mean-square normalization, its Jacobian and the two Jacobian products."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_number, result
from ._kernels.rows import jvp_arguments, operands, rows, rows_jacobian, rows_jvp, rows_vjp


def _factor(weight: Any, weight_offset: float) -> FloatArray | None:
    with np.errstate(all="ignore"):
        return None if weight is None else np.asarray(weight, np.float64) + weight_offset


def rms_norm(
    x: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    *,
    eps: float = 1e-6,
    weight_offset: float = 0.0,
) -> FloatArray:
    r"""
    Scale each row to root mean square 1, then apply the weight.

    Parameters
    ----------
    x : array_like, shape (..., D)
        Rows of features.
    weight : array_like or None, shape (D,)
        Factor :math:`w_i` of each feature; None means that there is none.
    eps : float, default 1e-6
        Added to the mean square, at least 0.
    weight_offset : float, default 0.0
        Added to `weight`: 1 for models that learn the difference from 1.

    Returns
    -------
    ndarray, shape of `x`
        Normalized rows.

    Raises
    ------
    TypeError
        If an array is not real, or `eps` or `weight_offset` is not a number.
    ValueError
        If `x` is a scalar, `weight` does not have shape (D,), or `eps` is negative.

    See Also
    --------
    rms_norm_jacobian : The derivative, with its derivation.
    layer_norm : Subtracts the mean as well.

    Notes
    -----
    .. math::

        \rho = \sqrt{\frac1D \sum_i x_i^2 + \epsilon}, \qquad
        \hat x_i = \frac{x_i}{\rho}, \qquad
        y_i = (w_i + c) \, \hat x_i, \qquad c = \texttt{weight\_offset}.

    It is layer normalization without the projection orthogonal to :math:`\vec 1`; for rows of mean
    0 the two agree. It needs one sum less, and has no bias.

    **Conventions.** Gemma stores :math:`w - 1` (an offset of 1), so that weight decay pulls towards
    1 instead of 0. The default of `eps` is the value of LLaMA; ONNX has 1e-5, and PyTorch the
    machine epsilon of the dtype in which it computes: 2.2e-16 for float64, and 1.2e-7 for float32,
    float16 and bfloat16. :math:`\epsilon` stands inside the root. In 16 bits, models differ in the
    place where they round: LLaMA rounds :math:`\hat x` and multiplies by the weight in 16 bits,
    Gemma multiplies in float32 and rounds once, as here; :doc:`/reference/interop` lists the
    families.

    **With a gate.** Gated DeltaNet :cite:p:`YangKautz2024` multiplies the result by the SiLU of a
    gate of the same shape, ``rms_norm(x, weight) * silu(z)``; Mamba-2 :cite:p:`DaoGu2024`
    multiplies the input, ``rms_norm(x * silu(z), weight)``. Both are compositions, and
    :func:`rms_norm_vjp` has their gradients.

    **Numerics.** The sum is of squares: nothing cancels. float32 is computed in float64 and rounded
    once; each row is read from memory once. Where squares overflow or vanish, the row is rescaled
    first, as in :func:`layer_norm`.

    **Special values.** Zeros stay 0 if :math:`\epsilon > 0`, else they give NaN. Width 1 gives
    the sign, for :math:`\epsilon \to 0`.

    References
    ----------
    - :cite:t:`ZhangSennrich2019`

    Examples
    --------
    >>> from dlref.normalization import rms_norm
    >>> rms_norm([3, 4], eps=0) * 12.5**0.5
    array([3., 4.])

    The two orders in float16, LLaMA's and Gemma's:

    >>> import numpy as np
    >>> x, weight = np.float16([3, 5, 5]), np.float16([1.4, 1.7, 1.6])
    >>> x_hat = x / np.sqrt(np.mean(x**2, dtype=np.float32) + np.float32(1e-6))  # in float32
    >>> weight * x_hat.astype(np.float16)
    array([0.9473, 1.918 , 1.805 ], dtype=float16)
    >>> (weight * x_hat).astype(np.float16)
    array([0.9473, 1.917 , 1.804 ], dtype=float16)
    >>> rms_norm(x, weight)
    array([0.9473, 1.917 , 1.804 ], dtype=float16)

    Learned differences from one:

    >>> rms_norm([1, -1, 1], [0, 0, 1], eps=0, weight_offset=1)
    array([ 1., -1.,  2.])
    """
    eps, offset = as_number("eps", eps, least=0), as_number("weight_offset", weight_offset)
    dtype, x, (weight,) = operands(x, weight=weight)
    return result(rows(x, _factor(weight, offset), None, eps, about_mean=False), dtype)


@overload
def rms_norm_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    weight: None = ...,
    *,
    eps: float = ...,
    weight_offset: float = ...,
) -> FloatArray: ...
@overload
def rms_norm_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    *,
    eps: float = ...,
    weight_offset: float = ...,
) -> tuple[FloatArray, ...]: ...
def rms_norm_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    *,
    eps: float = 1e-6,
    weight_offset: float = 0.0,
) -> FloatArray | tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of RMS normalization.

    Parameters
    ----------
    dout : array_like, shape (..., D)
        Cotangent :math:`\vec u = \partial L / \partial \vec y`.
    x, weight, eps, weight_offset : as in `rms_norm`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape (..., D)
        Gradient with respect to `x`; alone, not in a tuple, if there is no weight.
    dweight : ndarray, shape (D,)
        :math:`\sum_n u_{ni} \hat x_{ni}` over all rows n. Only if `weight` is given.

    Notes
    -----
    Let :math:`\rho` and :math:`\hat x_i` be as in :func:`rms_norm`, and a bar the mean over a row.

    **The differential.** From :math:`\rho^2 = \overline{x^2} + \epsilon` follows
    :math:`\dd \rho = \overline{\hat x\, \dd x}`, and the quotient has

    .. math:: \dd \hat x_i = \frac{1}{\rho} \bigl( \dd x_i
        - \hat x_i \, \overline{\hat x\, \dd x} \bigr) , \qquad
        \dd y_i = (w_i + c)\, \dd \hat x_i + \hat x_i\, \dd w_i .

    **The inner product.** The loss changes by :math:`\dd L = \sum_i u_i\, \dd y_i`, summed over all
    rows n, which share the weight, so

    .. math:: \pdv{L}{w_i} = \sum_n u_{ni} \hat x_{ni} .

    **The transpose.** With :math:`g_i = (w_i + c) u_i`, the rest of a row is
    :math:`\sum_i g_i\, \dd \hat x_i`. The Jacobian of :math:`\hat{\vec x}` is symmetric. Exchanging
    the names of the indices in its double sum moves the mean from :math:`\dd x` to :math:`g`:

    .. math:: \pdv{L}{x_j} = \frac{1}{\rho} \bigl( g_j - \hat x_j \, \overline{g \hat x} \bigr).

    One projection instead of layer normalization's two: the gradient is orthogonal to the row
    (exactly so for :math:`\epsilon = 0`), but need not sum to zero. The kernel reads `x`
    and `dout` once each.

    **With a gate.** If the result is multiplied by :math:`\operatorname{silu}(z_i)`, the norm gets
    less of the upstream gradient, and the gate gets the rest of the product:

    .. math:: g_i = (w_i + c)\, u_i \operatorname{silu}(z_i) , \qquad
        \pdv{L}{z_i} = u_i\, (w_i + c)\, \hat x_i \operatorname{silu}'(z_i) .

    If the input is multiplied, the row is :math:`x_i \operatorname{silu}(z_i)`, and its gradient
    is multiplied by :math:`\operatorname{silu}(z_i)` for `x` and by
    :math:`x_i \operatorname{silu}'(z_i)` for the gate.

    References
    ----------
    - :cite:t:`ZhangSennrich2019`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.normalization import rms_norm_vjp
    >>> x = np.array([3.0, 4.0])
    >>> dx = rms_norm_vjp([1, 0], x, eps=0)
    >>> (dx * 12.5**0.5).round(6), bool(abs(dx @ x) < 1e-15)
    (array([ 0.64, -0.48]), True)

    A gate of 0 is closed: no gradient comes back to `x`, but the gate has one, because the slope
    of SiLU at 0 is 1/2:

    >>> from dlref.activations import silu, silu_vjp
    >>> from dlref.normalization import rms_norm
    >>> x, z, u = np.array([1.0, -1.0]), np.zeros(2), np.array([2.0, 2.0])
    >>> rms_norm_vjp(u * silu(z), x, eps=0), silu_vjp(u * rms_norm(x, eps=0), z)
    (array([0., 0.]), array([ 1., -1.]))
    """
    eps, offset = as_number("eps", eps, least=0), as_number("weight_offset", weight_offset)
    dtype, x, (u, weight) = operands(x, dout=dout, weight=weight)
    dx, dweight, _ = rows_vjp(u, x, _factor(weight, offset), eps, about_mean=False)
    if weight is None:
        return result(dx, dtype)
    return result(dx, dtype), result(dweight, dtype)


def rms_norm_jvp(
    primals: Any, tangents: Any, *, eps: float = 1e-6, weight_offset: float = 0.0
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of RMS normalization.

    Parameters
    ----------
    primals : tuple (x, weight) of array_like
        Rows of features (..., D), and factors (D,) or None.
    tangents : tuple of array_like or None
        Directions :math:`\vec v, \dot{\vec w}`, each of the shape of its operand; None is zero.
    eps, weight_offset : as in `rms_norm`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., D)
        Tangent of the normalized rows.

    Notes
    -----
    The product rule on :math:`y_i = (w_i + c)\, \hat x_i`, with a bar for the mean over the row:

    .. math::

        \dot y_i = \frac{w_i + c}{\rho} \bigl( v_i - \hat x_i \, \overline{v \hat x} \bigr)
            + \dot w_i \hat x_i

    Examples
    --------
    Scaling the row changes nothing, doubling the weight doubles the output:

    >>> from dlref.normalization import rms_norm_jvp
    >>> x, ones = [1.0, -1.0, 1.0], [1.0, 1.0, 1.0]
    >>> rms_norm_jvp((x, ones), (x, None), eps=0)
    array([0., 0., 0.])
    >>> rms_norm_jvp((x, ones), (None, ones), eps=0)
    array([ 1., -1.,  1.])
    """
    eps, offset = as_number("eps", eps, least=0), as_number("weight_offset", weight_offset)
    dtype, x, v, (weight,), (dweight,) = jvp_arguments(primals, tangents, count=2)
    factor = _factor(weight, offset)
    return result(rows_jvp(v, x, factor, dweight, None, eps, about_mean=False), dtype)


def rms_norm_jacobian(
    x: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    *,
    eps: float = 1e-6,
    weight_offset: float = 0.0,
) -> FloatArray:
    r"""
    Jacobian of RMS normalization with respect to its input, one matrix per row.

    Parameters
    ----------
    x, weight, eps, weight_offset : as in `rms_norm`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., D, D)
        ``J[..., i, j]`` is :math:`\partial y_i / \partial x_j` of that row.

    See Also
    --------
    rms_norm_vjp, rms_norm_jvp : Products with it, in time proportional to D.
    layer_norm_jacobian : One more projection.

    Notes
    -----
    From :math:`\rho^2 = \frac1D \sum_i x_i^2 + \epsilon` follows
    :math:`2 \rho \, \partial \rho / \partial x_j = 2 x_j / D`, hence
    :math:`\partial \rho / \partial x_j = \hat x_j / D`. The quotient rule on
    :math:`\hat x_i = x_i / \rho`:

    .. math::
        :label: rms-norm-jacobian

        \pdv{\hat x_i}{x_j} = \frac{\delta_{ij}}{\rho} - \frac{x_i}{\rho^2} \frac{\hat x_j}{D}
          = \frac1\rho \Bigl( \delta_{ij} - \frac{\hat x_i \hat x_j}{D} \Bigr),
        \qquad
        \mat J = \frac1\rho \operatorname{diag}(\vec w + c) \Bigl( \mat I
          - \underbrace{\tfrac1D \hat{\vec x} \hat{\vec x}^\top}_{\text{onto } \hat{\vec x}}
          \Bigr).

    For :math:`\epsilon = 0` the subtracted matrix is the projection onto the row: D - 1
    eigenvalues of the bracket are 1, one is 0. For :math:`\epsilon > 0` that one is
    :math:`\epsilon / \rho^2`.

    References
    ----------
    - :cite:t:`ZhangSennrich2019`

    Examples
    --------
    The row 3, 4 of root mean square :math:`\sqrt{12.5}`:

    >>> import numpy as np
    >>> from dlref.normalization import rms_norm_jacobian
    >>> J = rms_norm_jacobian([3.0, 4.0], eps=0)
    >>> (np.sqrt(12.5) * J).round(6)
    array([[ 0.64, -0.48],
           [-0.48,  0.36]])
    """
    eps, offset = as_number("eps", eps, least=0), as_number("weight_offset", weight_offset)
    dtype, x, (weight,) = operands(x, weight=weight)
    factor = _factor(weight, offset)
    return result(rows_jacobian(x, factor, eps, about_mean=False), dtype)
