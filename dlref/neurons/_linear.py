r"""The dense layer: many neurons that read the same input, before their activation."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_tangents,
    check_ndim,
    check_shape,
    result,
)
from .._math.dense import blas_matmul


def _arguments(
    x: npt.ArrayLike, weight: npt.ArrayLike, bias: npt.ArrayLike | None
) -> dict[str, npt.ArrayLike]:
    return {"x": x, "weight": weight} | ({} if bias is None else {"bias": bias})


def _check(x: FloatArray, weight: FloatArray, bias: FloatArray | None, *names: str) -> None:
    check_ndim(names[0], x, 1)
    check_ndim(names[1], weight, 2)
    check_shape(names[1], weight, (weight.shape[0], x.shape[-1]))
    if bias is not None:
        check_shape(names[2], bias, weight.shape[:1])


def linear(
    x: npt.ArrayLike, weight: npt.ArrayLike, bias: npt.ArrayLike | None = None
) -> FloatArray:
    r"""
    Affine map of a dense layer, :math:`\vec y = \mat W \vec x + \vec b`.

    Parameters
    ----------
    x : array_like, shape (..., n_in)
        Input, or rows of inputs.
    weight : array_like, shape (n_out, n_in)
        Matrix :math:`\mat W`; row i holds the weights of neuron i.
    bias : array_like or None, shape (n_out,)
        Vector :math:`\vec b`; None leaves it out.

    Returns
    -------
    ndarray, shape (..., n_out)
        One row of outputs per row of `x`.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If `x` is a scalar or the shapes do not fit.

    See Also
    --------
    linear_jacobian : The derivation of the derivative.
    neuron : One row of the layer, with its activation.

    Notes
    -----
    Each output is a neuron of its own, :math:`y_i = \sum_j W_{ij} x_j + b_i`. With the inputs
    as the rows of a matrix :math:`\mat X`, all of them at once are

    .. math:: \mat Y = \mat X \mat W^\top + \vec 1 \vec b^\top ,

    where :math:`\vec 1` is a column of ones, which adds the bias to every row. Each row of this
    equation is the equation :math:`\vec y = \mat W \vec x + \vec b` of one example, transposed. The
    layout of `weight` is PyTorch's; Keras and the papers that write
    :math:`\vec x \mat W` keep its transpose.

    **Cost.** The product costs :math:`n_{out} n_{in}` multiplications per row. NumPy's BLAS
    computes it in the dtype of the input: in float32, with :math:`n_{in} = 1000`, the error is some
    :math:`5 \cdot 10^{-7}` of the largest element. For more digits, pass float64.

    Examples
    --------
    >>> from dlref.neurons import linear
    >>> linear([1, 2, 3], [[0.5, -1, 2], [1, 1, 1]], [0.1, 0])
    array([4.6, 6. ])

    Two layers with nothing between them are one layer:

    >>> import numpy as np
    >>> W, V, x = np.array([[1, 2], [3, 4]]), np.array([[0, 1], [1, 1]]), [5, 6]
    >>> linear(linear(x, W), V)
    array([39., 56.])
    >>> linear(x, V @ W)
    array([39., 56.])
    """
    dtype, (x, weight, *rest) = as_floats(_arguments(x, weight, bias), work=np.float32)
    _check(x, weight, rest[0] if rest else None, "x", "weight", "bias")
    with np.errstate(all="ignore"):
        out = blas_matmul(np.atleast_2d(x), weight.T).reshape(*x.shape[:-1], len(weight))
        if rest:
            out = out + rest[0]
        return result(out, dtype)


def linear_jacobian(
    x: npt.ArrayLike, weight: npt.ArrayLike, bias: npt.ArrayLike | None = None
) -> FloatArray:
    r"""
    Jacobian of a dense layer with respect to its input, one matrix per row.

    Parameters
    ----------
    x, weight, bias : as in `linear`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., n_out, n_in)
        :math:`\mat W`, once per row of `x`.

    See Also
    --------
    linear_vjp, linear_jvp : The products, for all three operands.
    dlref.calculus.matmul_jacobian : The Jacobian with respect to the weights, too.

    Notes
    -----
    From :math:`y_i = \sum_m W_{im} x_m + b_i`,

    .. math::

        \pdv{y_i}{x_j} = \sum_m W_{im}\, \pdv{x_m}{x_j} = \sum_m W_{im}\, \delta_{mj} = W_{ij} .

    Neither `x` nor `bias` occurs in the result: an affine map has the same slope everywhere.

    Examples
    --------
    >>> from dlref.neurons import linear_jacobian
    >>> linear_jacobian([7, 8, 9], [[0.5, -1, 2], [1, 1, 1]])
    array([[ 0.5, -1. ,  2. ],
           [ 1. ,  1. ,  1. ]])
    """
    dtype, (x, weight, *rest) = as_floats(_arguments(x, weight, bias))
    _check(x, weight, rest[0] if rest else None, "x", "weight", "bias")
    return result(np.broadcast_to(weight, x.shape[:-1] + weight.shape).copy(), dtype)


def linear_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    bias: npt.ArrayLike | None = None,
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of a dense layer.

    Parameters
    ----------
    dout : array_like, shape (..., n_out)
        Cotangent :math:`\mat U = \partial L / \partial \mat Y`.
    x, weight, bias : as in `linear`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape (..., n_in)
        :math:`\mat U \mat W`.
    dweight : ndarray, shape (n_out, n_in)
        :math:`\mat U^\top \mat X`, summed over the rows.
    dbias : ndarray, shape (n_out,)
        The sum of the rows of `dout`. Only if `bias` is given.

    See Also
    --------
    dlref.calculus.matmul_vjp : The product alone.

    Notes
    -----
    **The differential.** Row n of the output is :math:`Y_{ni} = \sum_j W_{ij} X_{nj} + b_i`, so

    .. math:: \dd Y_{ni} = \sum_j (W_{ij}\, \dd X_{nj} + X_{nj}\, \dd W_{ij}) + \dd b_i .

    **The inner product.** :math:`\dd L = \sum_{ni} U_{ni}\, \dd Y_{ni}`.

    **The transpose.** The factor of each differential is its gradient. The Jacobian with respect to
    a row is :math:`\mat W`, and its transpose multiplies the upstream gradient of the row:

    .. math::

        \pdv{L}{X_{nj}} = \sum_i U_{ni} W_{ij} , \qquad
        \pdv{L}{W_{ij}} = \sum_n U_{ni} X_{nj} , \qquad
        \pdv{L}{b_i} = \sum_n U_{ni} .

    The gradient of the weights is a sum of outer products, one per row: the upstream gradient
    times the input. Its rank is therefore at most the number of rows. Both products
    together cost twice the forward one.

    Examples
    --------
    >>> from dlref.neurons import linear_vjp
    >>> dx, dweight, dbias = linear_vjp([[1, 10]], [[1, 2, 3]], [[1, 0, 2], [0, 1, 0]], [0, 0])
    >>> dx
    array([[ 1., 10.,  2.]])
    >>> dweight
    array([[ 1.,  2.,  3.],
           [10., 20., 30.]])
    >>> dbias
    array([ 1., 10.])
    """
    dtype, (dout, x, weight, *rest) = as_floats(
        {"dout": dout, **_arguments(x, weight, bias)}, work=np.float32
    )
    _check(x, weight, rest[0] if rest else None, "x", "weight", "bias")
    check_shape("dout", dout, (*x.shape[:-1], weight.shape[0]))
    rows = int(np.prod(x.shape[:-1], dtype=np.intp))
    u = dout.reshape(rows, weight.shape[0])
    with np.errstate(all="ignore"):
        dx = blas_matmul(np.atleast_2d(dout), weight).reshape(x.shape)
        grads = [dx, blas_matmul(u.T, x.reshape(rows, x.shape[-1]))]
        if rest:
            grads.append(np.sum(u, axis=0, dtype=np.float64))
    return tuple(result(grad, dtype) for grad in grads)


def linear_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a dense layer.

    Parameters
    ----------
    primals : tuple (x, weight) or (x, weight, bias) of array_like
        Rows of inputs (..., n_in), matrix (n_out, n_in) and, unless left out or None, bias
        (n_out,). Raises the same errors as `linear`.
    tangents : tuple of array_like or None
        Directions, as many as `primals`, each of the shape of its operand; None is zero.

    Returns
    -------
    ndarray, shape (..., n_out)
        Tangent of the output.

    Notes
    -----
    .. math::

        \dot{\mat Y} = \dot{\mat X} \mat W^\top + \mat X \dot{\mat W}^\top
          + \vec 1 \dot{\vec b}^\top

    The map is linear in each operand separately, but not in `x` and `weight` together; the two
    products are the two terms of the product rule.

    Examples
    --------
    Weights that grow by a small fraction and an input that shrinks by the same fraction: to first
    order the output does not change.

    >>> from dlref.neurons import linear_jvp
    >>> x, weight = [2.0, 4.0], [[1.0, 3.0]]
    >>> linear_jvp((x, weight), ([-2.0, -4.0], [[1.0, 3.0]]))
    array([0.])
    """
    without = isinstance(primals, tuple | list) and (
        len(primals) == 2 or (len(primals) == 3 and primals[2] is None)
    )
    if without and len(primals) == 3:
        primals = primals[:2]
        tangents = tangents[:2] if isinstance(tangents, tuple | list) else tangents
    dtype, (x, weight, *rest), (dx, dweight, *moved) = as_tangents(
        primals, tangents, count=2 if without else 3
    )
    _check(x, weight, rest[0] if rest else None, *(f"primals[{i}]" for i in range(3)))
    with np.errstate(all="ignore"):
        out = dx @ weight.T + x @ dweight.T
        if moved:
            out = out + moved[0]
        return result(out, dtype)
