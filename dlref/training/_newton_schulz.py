r"""Newton–Schulz: a matrix with all singular values near 1, from products alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_floats, as_integer, as_number, check_ndim, result

#: Coefficients of Jordan's quintic, which PyTorch and most code of Muon have.
QUINTIC = (3.4445, -4.7750, 2.0315)


def checked_polynomial(
    steps: Any, coefficients: Any, eps: Any
) -> tuple[int, tuple[float, float, float], float]:
    """Check the options of the iteration."""
    count = as_integer("steps", steps, least=0)
    if not isinstance(coefficients, tuple | list) or len(coefficients) != 3:
        msg = f"Argument 'coefficients' must be a tuple of 3 numbers, not {coefficients!r}."
        raise TypeError(msg)
    a, b, c = (as_number(f"coefficients[{i}]", v) for i, v in enumerate(coefficients))
    return count, (a, b, c), as_number("eps", eps, above=0)


def orthogonalized(
    x: FloatArray, steps: int, coefficients: tuple[float, float, float], eps: float
) -> FloatArray:
    """Apply the iteration in the dtype of x."""
    a, b, c = (x.dtype.type(v) for v in coefficients)
    # The largest element first, so that squares in the norm stay within the dtype.
    largest = np.max(np.abs(x), axis=(-2, -1), keepdims=True, initial=0.0)
    largest = np.where(largest > 0, largest, x.dtype.type(1))
    x = x / largest
    norm = np.sqrt(np.sum(x * x, axis=(-2, -1), keepdims=True))
    x = x / np.maximum(norm, x.dtype.type(eps) / largest)
    wide = x.shape[-2] <= x.shape[-1]
    x = x if wide else np.swapaxes(x, -1, -2)
    for _ in range(steps):
        gram = x @ np.swapaxes(x, -1, -2)
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x if wide else np.swapaxes(x, -1, -2)


def newton_schulz(
    x: npt.ArrayLike,
    *,
    steps: int = 5,
    coefficients: tuple[float, float, float] = QUINTIC,
    eps: float = 1e-7,
) -> FloatArray:
    r"""
    Bring all singular values of a matrix near 1, with a polynomial in place of an SVD.

    Muon turns each gradient of a weight matrix into its step with it. Products of matrices are all
    it needs, which is why it runs well on a GPU.

    Parameters
    ----------
    x : array_like, shape (..., n, m)
        Matrix :math:`\mat X`, or a stack of matrices.
    steps : int, default 5
        Number K of steps, at least 0.
    coefficients : tuple of float
        Coefficients a, b and c of the polynomial. ``(1.875, -1.25, 0.375)`` converge to 1.
    eps : float, default 1e-7
        Least norm :math:`\epsilon > 0` to divide by.

    Returns
    -------
    ndarray, shape (..., n, m)
        The matrix :math:`\mat X_K`, with the singular vectors of `x`.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array, the number of steps is not an
        integer, or `coefficients` are not three numbers.
    ValueError
        If `x` has fewer than two axes, the number of steps is negative, or `eps` is not greater
        than 0.

    See Also
    --------
    muon_step : The optimizer that takes these steps.

    Notes
    -----
    The matrix is divided by its Frobenius norm, so that its largest singular value is at most 1.
    Then each step adds products of the matrix with itself:

    .. math::

        \mat X_0 = \frac{\mat X}{\max(\norm{\mat X}_F, \epsilon)} , \qquad
        \mat A_k = \mat X_k \mat X_k^\top , \qquad
        \mat X_{k+1} = a\, \mat X_k + (b\, \mat A_k + c\, \mat A_k^2)\, \mat X_k .

    **What it does to singular values.** Write :math:`\mat X_k = \mat U\, \mat S_k \mat V^\top` with
    a diagonal :math:`\mat S_k`. Then :math:`\mat A_k = \mat U\, \mat S_k^2\, \mat U^\top`, and

    .. math:: \mat X_{k+1} = \mat U\, p(\mat S_k)\, \mat V^\top , \qquad
       p(s) = a s + b s^3 + c s^5 .

    The singular vectors do not change, and each singular value follows the polynomial on its own.
    If it came to 1 for all of them, the result would be :math:`\mat U \mat V^\top`, the orthogonal
    factor of the polar decomposition.

    **Which polynomial.** With :math:`p(1) = 1` and :math:`p'(1) = p''(1) = 0` the iteration
    converges to 1, and its coefficients are

    .. math:: (a, b, c) = \Bigl( \frac{15}{8}, -\frac{10}{8}, \frac{3}{8} \Bigr) .

    It does so from every start in :math:`(0, 1]`, where the norm has put all singular values,
    because for :math:`0 < s < 1` both of the following are positive:

    .. math:: p(s) - s = \frac s8 (1 - s^2)(7 - 3 s^2) , \qquad
       1 - p(s) = \frac{(1 - s)^3}{8} (8 + 9 s + 3 s^2) .

    By the first the values grow, by the second they stay below 1, and a limit is a fixed point, of
    which 1 is the only one. Near it the distance from 1 is cubed in each step, and multiplied by
    5/2. A singular value that is 0 stays 0.

    A small singular value grows by the factor a in each step, and 15/8 is slow. The default
    coefficients give up the limit for a steep start: :math:`a^5 \approx 485`. After five steps all
    singular values that began between 0.0052 and 1 are between 0.68 and 1.13, and further steps do
    not narrow this interval, because 1 is not a fixed point: :math:`p(1) = 0.70`. Muon trains as
    well with these values as with 1.

    **Cost.** A step takes three products with the smaller side n: :math:`4 n^2 m + 2 n^3`
    operations. A tall matrix is transposed before and after, which gives the same numbers.

    **Numerics.** Rounding errors grow like small singular values, by up to the factor a in each
    step, so the last three digits may be wrong after five steps. PyTorch computes in bfloat16, and
    its result differs by some percent. The norm is right also where its square is out of the range
    of the dtype.

    References
    ----------
    - :cite:t:`JordanMuon2024`

    Examples
    --------
    The singular values 4, 1 and 0.1, and a rotation that does not matter:

    >>> import numpy as np
    >>> from dlref.training import newton_schulz
    >>> q = np.array([[0.8, 0.6, 0.0], [-0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])
    >>> x = q @ np.diag([4.0, 1.0, 0.1])
    >>> np.linalg.svd(newton_schulz(x), compute_uv=False).round(2)
    array([0.88, 0.74, 0.74])

    With the coefficients that converge, and enough steps, they are all 1:

    >>> converging = {"coefficients": (1.875, -1.25, 0.375), "steps": 12}
    >>> newton_schulz(x, **converging).round(6)
    array([[ 0.8,  0.6,  0. ],
           [-0.6,  0.8,  0. ],
           [ 0. ,  0. ,  1. ]])
    """
    count, polynomial, eps = checked_polynomial(steps, coefficients, eps)
    dtype, (matrix,) = as_floats({"x": x}, work=np.float32)
    check_ndim("x", matrix, 2)
    with np.errstate(all="ignore"):
        return result(orthogonalized(matrix, count, polynomial, eps), dtype)
