r"""Dropout: a product with a random mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    check_constant,
    check_fits,
    check_shape,
    entries,
    result,
)
from .._core.threads import over_rows

COST = 1 / 16  #: nanoseconds, or elementary operations, a byte of x


def _product(x: FloatArray, mask: FloatArray) -> FloatArray:
    """Return x times a mask that broadcasts to it; threads share the first axis."""
    out = np.empty(x.shape or (1,), x.dtype)
    one, other = np.broadcast_to(x, out.shape), np.broadcast_to(mask, out.shape)

    def multiply(start: int, stop: int) -> None:
        with np.errstate(all="ignore"):
            np.multiply(one[start:stop], other[start:stop], out=out[start:stop])

    over_rows(multiply, len(out), COST * x.itemsize * x.size / max(1, len(out)))
    return out.reshape(x.shape)


def dropout(x: npt.ArrayLike, mask: npt.ArrayLike) -> FloatArray:
    r"""
    Drop some elements, and scale the others so that the mean does not change.

    Networks are trained with it against overfitting: in every step other units are missing, so
    that no unit can rely on another. A trained network runs without it.

    Parameters
    ----------
    x : array_like
        Activations, of any shape.
    mask : array_like
        Factors that broadcast to the shape of `x`: 0 for an element that is dropped with
        probability p, 1 / (1 − p) for the others. :func:`dlref.transformer.dropout_mask` draws it.

    Returns
    -------
    ndarray, shape of `x`
        The product.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If `mask` does not broadcast to the shape of `x`.

    See Also
    --------
    dropout_vjp, dropout_jvp : The derivatives.
    dlref.transformer.dropout_mask : Draws a mask.

    Notes
    -----
    With independent masks :math:`m_i \in \{0, \tfrac{1}{1 - p}\}`,

    .. math:: y_i = m_i x_i , \qquad \E[y_i] = x_i , \qquad
       \E[(y_i - x_i)^2] = \frac{p}{1 - p}\, x_i^2 .

    The mean is the reason for the factor: the layer after it sees sums with the same mean in
    training and at inference, where dropout does nothing (*inverted* dropout). The original paper
    scaled the weights by 1 − p at inference instead.

    **An ensemble.** Each mask of n elements selects one of :math:`2^n` networks with shared
    weights, and a step trains one of them. For one linear layer with a squared error the mean over
    all of them is known: of the input :math:`\vec x`, weights :math:`\vec w` and target t,

    .. math:: \E\bigl[ (\vec w \cdot \vec y - t)^2 \bigr] = (\vec w \cdot \vec x - t)^2
       + \frac{p}{1 - p} \sum_i w_i^2 x_i^2 ,

    a weight decay that is stronger for the weights of large inputs.

    **Broadcasting.** A mask of shape (..., 1, D) drops the same channels in all steps of a
    sequence, and one of shape (..., C, 1, 1) drops whole channels of an image
    (``torch.nn.Dropout2d``). A mask with one factor for each example of a batch, applied to what a
    block adds to its input, is *stochastic depth* (DropPath): the example passes the block
    unchanged with probability p. The backward pass has the same factor, so a dropped block gets no
    gradient from this example.

    **Conventions.** PyTorch and Keras take the probability to *drop*; the original paper gave the
    probability to keep.

    **Special values.** It is a product: NaN and infinities become NaN where they are dropped, as
    in PyTorch.

    References
    ----------
    - :cite:t:`Srivastava2014`
    - :cite:t:`HuangStochasticDepth2016`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.neurons import dropout
    >>> dropout([1.0, 2.0, 3.0, 4.0], [0, 2, 2, 0])
    array([0., 4., 6., 0.])

    The mean over all masks of p = 1/2 is the input:

    >>> masks = 2 * np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> dropout(np.tile([3.0, 5.0], (4, 1)), masks).mean(axis=0)
    array([3., 5.])

    Stochastic depth with p = 1/2: the first example keeps its input, the second gets twice the
    block's output.

    >>> x, added = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0, 5.0], [6.0, 7.0]])
    >>> x + dropout(added, [[0], [2]])
    array([[ 1.,  2.],
           [15., 18.]])
    """
    dtype, (x, m) = as_floats({"x": x, "mask": mask}, work=np.float32)
    check_fits("mask", m, x.shape, "x")
    return result(_product(x, m), dtype)


def dropout_vjp(dout: npt.ArrayLike, x: npt.ArrayLike, mask: npt.ArrayLike) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of dropout: the same mask.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Cotangent :math:`\vec u` of the output.
    x : array_like
        Activations. Only their shape and dtype matter.
    mask : as in `dropout`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of `x`
        Gradient with respect to the activations. The mask is a constant.

    Notes
    -----
    **The differential.** For a given mask the map is linear: :math:`\dd y_i = m_i\, \dd x_i`.

    **The inner product.** :math:`\dd L = \sum_i u_i\, \dd y_i`.

    **The transpose.** The Jacobian is diagonal and its own transpose, so

    .. math:: \pdv{L}{x_i} = m_i u_i .

    It must be the mask of the forward pass: a backward pass that draws another one multiplies by
    the Jacobian of another network. Frameworks that recompute activations (checkpointing) restore
    the state of the random generator for that reason.

    Examples
    --------
    >>> from dlref.neurons import dropout_vjp
    >>> dropout_vjp([1.0, 1.0, 1.0], [5.0, 5.0, 5.0], [0, 2, 2])
    array([0., 2., 2.])
    """
    dtype, (u, x, m) = as_floats({"dout": dout, "x": x, "mask": mask}, work=np.float32)
    check_fits("mask", m, x.shape, "x")
    check_shape("dout", u, x.shape)
    return result(_product(u, m), dtype)


def dropout_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of dropout.

    Parameters
    ----------
    primals : tuple (x, mask) of array_like
        Activations and factors.
    tangents : tuple (dx, None)
        Tangent of the activations; None is zero.

    Returns
    -------
    ndarray, shape of x
        Tangent of the output.

    Notes
    -----
    .. math:: \dot y_i = m_i \dot x_i .

    Examples
    --------
    >>> from dlref.neurons import dropout_jvp
    >>> dropout_jvp(([5.0, 5.0], [0, 2]), ([1.0, 3.0], None))
    array([0., 6.])
    """
    points, moves = entries("primals", primals, 2), entries("tangents", tangents, 2)
    check_constant("tangents[1]", moves.pop("tangents[1]"))
    given = {name: move for name, move in moves.items() if move is not None}
    dtype, (x, m, *rest) = as_floats({**points, **given}, work=np.float32)
    check_fits("primals[1]", m, x.shape, "x")
    moved = rest[0] if rest else np.zeros_like(x)
    check_shape("tangents[0]", moved, x.shape)
    return result(_product(moved, m), dtype)
