r"""Gradients that are too long: clip every element, or rescale the whole."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.arguments import as_number
from .._core.pytree import leaves, tree_map


def clip_by_value(grads: Any, limit: float) -> Any:
    r"""
    Clip every element of a gradient to a limit.

    Parameters
    ----------
    grads : array_like, or tuple
        Gradient: an array, or tuples and named tuples of arrays, nested.
    limit : float
        Largest absolute value :math:`c > 0` of the result, in units of the gradient.

    Returns
    -------
    array, or tuple
        The clipped gradient, in the structure and the dtypes of `grads`.

    Raises
    ------
    TypeError
        If an array is not real or `limit` is not a number.
    ValueError
        If `limit` is not greater than 0.

    See Also
    --------
    clip_by_norm : Keeps the direction.

    Notes
    -----
    .. math:: \hat g_i = \min(\max(g_i, -c), c)

    Each element is clipped independently of the others. The signs agree with the gradient's, but
    the direction need not: a small step against it still goes down, since
    :math:`\vec g \cdot \hat{\vec g} = \sum_i \abs{g_i} \min(\abs{g_i}, c) > 0` unless the gradient
    is 0, but it leans towards a corner of the cube :math:`[-c, c]^n`. With a small limit only the
    signs remain. NaN stays NaN.

    Examples
    --------
    The gradient points nearly along the first axis; clipped, along the diagonal:

    >>> from dlref.training import clip_by_value
    >>> clip_by_value([100.0, 2.0], 1.0)
    array([1., 1.])
    """
    limit = as_number("limit", limit, above=0)
    return tree_map("grads", lambda g: np.clip(g, -limit, limit), grads)


def clip_by_norm(grads: Any, max_norm: float) -> Any:
    r"""
    Clip a gradient to a maximum norm, keeping its direction.

    Parameters
    ----------
    grads : array_like, or tuple
        Gradient: an array, or tuples and named tuples of arrays, nested. All arrays together
        are one vector.
    max_norm : float
        Largest Euclidean norm :math:`c > 0` of the result, in units of the gradient.

    Returns
    -------
    array, or tuple
        The clipped gradient, in the structure and the dtypes of `grads`.

    Raises
    ------
    TypeError
        If an array is not real or `max_norm` is not a number.
    ValueError
        If `max_norm` is not greater than 0.

    See Also
    --------
    clip_by_value : Element by element.

    Notes
    -----
    With the norm :math:`\norm{\vec g} = \sqrt{\sum_i g_i^2}` over *all* arrays,

    .. math:: \vec g \; \leftarrow \; \vec g\, \min\Bigl( 1, \frac{c}{\norm{\vec g}} \Bigr) .

    One factor multiplies all elements: the direction and the ratios between the layers do not
    change. :cite:t:`Pascanu2013` propose this against exploding gradients: where the loss has a
    cliff its gradient is long but still points the right way. Clipping each array by its own norm,
    or each element by its value, would change it.

    PyTorch divides by :math:`\norm{\vec g} + 10^{-6}`, which leaves the result shorter by one part
    in a million for a norm of 1. The norm is computed from elements scaled by the largest, so that
    it neither overflows nor underflows. A NaN anywhere makes all of it NaN; so does an infinite
    element, whose direction cannot be preserved.

    Examples
    --------
    >>> from dlref.training import clip_by_norm
    >>> clip_by_norm([30.0, 40.0], 5.0)
    array([3., 4.])

    The norm is taken over all arrays together, and a short gradient is returned unchanged:

    >>> clip_by_norm(([0.0, 3.0], 4.0), 2.5)
    (array([0. , 1.5]), np.float64(2.0))
    >>> clip_by_norm([3.0, 4.0], 7.0)
    array([3., 4.])
    """
    max_norm = as_number("max_norm", max_norm, above=0)
    arrays = list(leaves("grads", grads))
    with np.errstate(all="ignore"):
        largest = np.max([np.max(np.abs(g), initial=0.0) for g in arrays], initial=0.0)
        scale = largest if largest > 0.0 else np.float64(1.0)  # NaN is not greater
        ratio = np.sqrt(sum(np.sum((g / scale) ** 2) for g in arrays))  # norm / scale
        factor = np.float64(1.0) if scale * ratio <= max_norm else max_norm / scale / ratio
    return tree_map("grads", lambda g: g * factor, grads)
