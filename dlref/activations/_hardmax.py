r"""Hardmax: the limit of softmax for large scores."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_floats, result
from .._math.softmax_rows import as_rows_along


def hardmax(x: npt.ArrayLike, *, axis: int = -1) -> FloatArray:
    r"""
    One at the largest score, zero elsewhere.

    Parameters
    ----------
    x : array_like, shape (..., k)
        Scores.
    axis : int, default -1
        The axis of the scores that belong together.

    Returns
    -------
    ndarray, shape of `x`
        Zeros, and a one at the first of the largest scores along `axis`.

    Raises
    ------
    TypeError
        If `x` is not real or `axis` is not an integer.
    ValueError
        If `x` is a scalar or has no such axis.

    See Also
    --------
    softmax : The smooth map.

    Notes
    -----
    With the index a of the first of the largest scores,

    .. math:: y_i = \delta_{ia} , \qquad a = \min \{ i : x_i = \max_j x_j \} .

    If the maximum is unique, it is the limit of softmax for scores of growing size,
    :math:`\lim_{c \to \infty} s(c x)`. Where there are several, softmax gives them equal shares;
    here the first gets the one, as in ONNX. The derivative is zero wherever it exists, hence there
    is no vjp.

    NaN among the scores makes NaN of all results along the axis.

    Examples
    --------
    >>> from dlref.activations import hardmax, softmax
    >>> hardmax([1.0, 3.0, 2.0])
    array([0., 1., 0.])
    >>> hardmax([3.0, 3.0]), softmax([300.0, 300.0])
    (array([1., 0.]), array([0.5, 0.5]))
    """
    dtype, [array] = as_floats({"x": x}, work=np.float32)
    [rows], back = as_rows_along(axis, array)
    out = np.zeros_like(rows)
    if rows.size:
        out[np.arange(len(rows)), rows.argmax(-1)] = 1.0
        out[np.isnan(rows).any(-1)] = np.nan
    return result(back(out), dtype)
