r"""A dense layer whose weight is frozen, with a trained correction of low rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_number,
    check_constant,
    check_given,
    check_ndim,
    check_pattern,
    check_shape,
    entries,
    result,
)
from .._math.dense import affine, as_matrix, blas_matmul, column_sums

NAMES = ("x", "weight", "a", "b", "bias")


def _check(names: dict[str, str], arrays: dict[str, FloatArray]) -> None:
    """Raise unless the shapes fit; `names` are the arguments' names in messages."""
    x, w = arrays["x"], arrays["weight"]
    check_ndim(names["x"], x, 1)
    check_pattern(names["weight"], w, ("n_out", x.shape[-1]))
    check_pattern(names["a"], arrays["a"], ("r", x.shape[-1]))
    check_shape(names["b"], arrays["b"], (len(w), len(arrays["a"])))
    if "bias" in arrays:
        check_shape(names["bias"], arrays["bias"], w.shape[:1])


def lora_linear(
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    bias: npt.ArrayLike | None = None,
    *,
    scale: float = 1.0,
) -> FloatArray:
    r"""
    Affine map with a frozen weight and a correction of low rank.

    Large models are adapted with it (LoRA): instead of a matrix, two thin ones are trained, and
    optimizer and checkpoint hold only these.

    Parameters
    ----------
    x : array_like, shape (..., n_in)
        Input, or rows of inputs.
    weight : array_like, shape (n_out, n_in)
        Matrix :math:`\mat W` of the model, a constant.
    a : array_like, shape (r, n_in)
        Projection :math:`\mat A` down to the rank r.
    b : array_like, shape (n_out, r)
        Projection :math:`\mat B` up. It starts at 0, so that training starts with the model.
    bias : array_like or None, shape (n_out,)
        Vector; None leaves it out.
    scale : float, default 1.0
        Factor of the correction: :math:`\alpha / r` in the paper, :math:`\alpha / \sqrt r` in
        rsLoRA.

    Returns
    -------
    ndarray, shape (..., n_out)
        One row of outputs for each row of `x`.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array, or `scale` is not a number.
    ValueError
        If `x` is a scalar or the shapes do not fit.

    See Also
    --------
    lora_linear_vjp, lora_linear_jvp : The derivatives.
    linear : The layer without the correction.

    Notes
    -----
    With the scale s,

    .. math:: \vec y = \mat W \vec x + s\, \mat B (\mat A \vec x) + \vec b_0
       = (\mat W + s\, \mat B \mat A)\, \vec x + \vec b_0 .

    The first form costs :math:`r (n_{in} + n_{out})` multiplications more than the layer; the
    second, *merged*, form costs nothing more, so a trained model is merged once. The code computes
    the first, in the order of the parentheses.

    **Parameters.** :math:`r (n_{in} + n_{out})` in place of :math:`n_{in} n_{out}`: for a matrix of
    4096 × 4096 and r = 16, 131,072 in place of 16,777,216.

    **How good it can be.** The best correction of rank r is the sum of the r largest terms of
    the singular value decomposition of the wanted change; the squared error that is left is the
    sum of the other squared singular values (Eckart and Young).

    **The scale.** If the rank and the size of the elements of A stay the same, the first step of
    SGD changes the output in proportion to :math:`s^2`. Adam's steps have one size for each element
    of B, so the change is in proportion to :math:`s r`, and with :math:`s = \alpha / r` one
    learning rate serves all ranks at first. The gradients then shrink as r grows, which
    :math:`\alpha / \sqrt r` avoids.

    **DoRA** gives each row of the merged weight a trained length :math:`m_i`, which starts as the
    length of the row of W :cite:p:`LiuDoRA2024`. It is a composition with
    :func:`~dlref.normalization.weight_norm`:

    .. math:: \vec y = \operatorname{diag}(\vec m)\, \mat E \vec x + \vec b_0 , \qquad
       E_{ij} = \frac{V_{ij}}{\sqrt{\sum_k V_{ik}^2}} , \qquad
       \mat V = \mat W + s\, \mat B \mat A .

    If :func:`~dlref.normalization.weight_norm_vjp` gives :math:`\mat G = \partial L / \partial
    \mat V`, the gradients are :math:`s\, \mat G \mat A^\top` of B and
    :math:`s\, \mat B^\top \mat G` of A. The paper and PEFT take the length of V for a constant in
    the backward pass, to save memory. Their :math:`\mat G` has no projection: row i is
    :math:`m_i / \norm{\vec v_i}` times the gradient of the weight.

    **Conventions.** In PEFT ``lora_A.weight`` has the shape (r, n_in) and ``lora_B.weight`` the
    shape (n_out, r), as here; ``lora_alpha / r`` is `scale`. Dropout acts on the input of A alone.

    References
    ----------
    - :cite:t:`HuLoRA2021`
    - :cite:t:`Kalajdzievski2023` on :math:`\alpha / \sqrt r`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.neurons import linear, lora_linear
    >>> x, W, A, B = [1.0, 2.0], np.eye(2), np.array([[1.0, 1.0]]), np.array([[0.0], [1.0]])
    >>> lora_linear(x, W, A, B, scale=10)
    array([ 1., 32.])

    Merged:

    >>> linear(x, W + 10 * B @ A)
    array([ 1., 32.])

    DoRA, with the lengths of W. The correction makes the second row (3, 4), and its length stays 1,
    so the second output is 11 / 5:

    >>> from dlref.normalization import weight_norm
    >>> linear(x, weight_norm(W + 3 * B @ A, [1.0, 1.0]))
    array([1. , 2.2])
    """
    factor = as_number("scale", scale)
    given = dict(zip(NAMES, (x, weight, a, b, bias), strict=True))
    arrays: dict[str, Any] = {n: v for n, v in given.items() if v is not None or n != "bias"}
    dtype, floats = as_floats(arrays, work=np.float32)
    ops = dict(zip(arrays, floats, strict=True))
    _check({n: n for n in NAMES}, ops)
    with np.errstate(all="ignore"):
        out = affine(ops["x"], ops["weight"], ops.get("bias"))
        low = affine(ops["x"], ops["a"])
        return result(out + ops["x"].dtype.type(factor) * affine(low, ops["b"]), dtype)


def lora_linear_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    bias: npt.ArrayLike | None = None,
    *,
    scale: float = 1.0,
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of a layer with a correction of low rank.

    Parameters
    ----------
    dout : array_like, shape (..., n_out)
        Cotangent :math:`\vec u` of each row of outputs.
    x, weight, a, b, bias, scale : as in `lora_linear`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape of `x`
        Gradient with respect to the input.
    da : ndarray, shape (r, n_in)
        Gradient with respect to `a`, summed over all rows.
    db : ndarray, shape (n_out, r)
        Gradient with respect to `b`, summed over all rows.
    dbias : ndarray, shape (n_out,)
        Gradient with respect to the bias. Only if there is one.

    Notes
    -----
    **The differential.** The correction is a product of three, and :math:`\mat W` is a constant:

    .. math:: \dd \vec y = \mat W\, \dd \vec x + s\, (\dd \mat B\, \mat A \vec x
       + \mat B\, \dd \mat A\, \vec x + \mat B \mat A\, \dd \vec x) .

    **The inner product.** :math:`\dd L = \sum_n \vec u_n \cdot \dd \vec y_n`, with one row of
    inputs n after the other.

    **The transpose.** In each term, the factor before a differential is transposed and the factor
    after it stays on the right:

    .. math::

        \pdv{L}{\mat B} = s \sum_n \vec u_n (\mat A \vec x_n)^\top , \qquad
        \pdv{L}{\mat A} = s \sum_n (\mat B^\top \vec u_n)\, \vec x_n^\top , \qquad
        \pdv{L}{\vec x_n} = \mat W^\top \vec u_n + s\, \mat A^\top \mat B^\top \vec u_n .

    **The frozen weight has no gradient**, and none is computed: that is a third of the work of a
    dense layer's training step. But the weight is needed for the gradient of the input. The
    gradient of the bias is the sum of the :math:`\vec u_n`.

    **The start.** At :math:`\mat B = 0` the gradient of A is 0, and B moves first. If both were 0,
    neither would ever move. With the gradient :math:`\mat G` of the merged weight, :math:`\partial
    L / \partial \mat B = s\, \mat G \mat A^\top`, so a step of SGD from there changes the merged
    weight by :math:`-\eta s^2\, \mat G \mat A^\top \mat A`: its rows are combinations of the rows
    of A. If these are orthonormal, it is s² times the step of SGD for the whole weight, projected
    onto the space that they span.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.neurons import lora_linear_vjp
    >>> x, W, A, B = [[1.0, 2.0]], np.eye(2), np.array([[1.0, 1.0]]), np.zeros((2, 1))
    >>> dx, da, db = lora_linear_vjp([[1.0, 10.0]], x, W, A, B)
    >>> dx, da, db.T
    (array([[ 1., 10.]]), array([[0., 0.]]), array([[ 3., 30.]]))
    """
    factor = as_number("scale", scale)
    given = dict(zip(NAMES, (x, weight, a, b, bias), strict=True))
    arrays: dict[str, Any] = {n: v for n, v in given.items() if v is not None or n != "bias"}
    check_given("dout", dout)
    dtype, (u, *floats) = as_floats({"dout": dout, **arrays}, work=np.float32)
    ops = dict(zip(arrays, floats, strict=True))
    _check({n: n for n in NAMES}, ops)
    check_shape("dout", u, (*ops["x"].shape[:-1], len(ops["weight"])))
    s = ops["x"].dtype.type(factor)
    with np.errstate(all="ignore"):
        rows, flat = as_matrix(u), as_matrix(ops["x"])
        low, back = blas_matmul(flat, ops["a"].T), s * blas_matmul(rows, ops["b"])
        dx = blas_matmul(rows, ops["weight"]) + blas_matmul(back, ops["a"])
        grads = [
            dx.reshape(ops["x"].shape),
            blas_matmul(back.T, flat),
            s * blas_matmul(rows.T, low),
        ]
        if "bias" in ops:
            grads.append(column_sums(rows))
    return tuple(result(g, dtype) for g in grads)


def lora_linear_jvp(primals: Any, tangents: Any, *, scale: float = 1.0) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a layer with a correction of low rank.

    Parameters
    ----------
    primals : tuple (x, weight, a, b, bias) of array_like
        The operands, as in `lora_linear`; the bias may be None.
    tangents : tuple of array_like or None
        Tangents, each of the shape of its operand; None is zero. The tangent of the weight,
        which is a constant, must be None.
    scale : as in `lora_linear`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., n_out)
        Tangent of the output.

    Notes
    -----
    .. math:: \dot{\vec y} = \mat W \dot{\vec x} + s \bigl( \dot{\mat B} \mat A \vec x
       + \mat B \dot{\mat A} \vec x + \mat B \mat A \dot{\vec x} \bigr) + \dot{\vec b}_0 .

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.neurons import lora_linear_jvp
    >>> primals = [1.0, 2.0], np.eye(2), np.array([[1.0, 1.0]]), np.zeros((2, 1)), None
    >>> moves = None, None, None, np.array([[1.0], [2.0]]), None
    >>> lora_linear_jvp(primals, moves)
    array([3., 6.])
    """
    factor = as_number("scale", scale)
    points, moves = entries("primals", primals, 5), entries("tangents", tangents, 5)
    names = dict(zip(NAMES, points, strict=True))
    check_constant("tangents[1]", moves["tangents[1]"])
    if points["primals[4]"] is None:
        check_constant("tangents[4]", moves["tangents[4]"])
        del points["primals[4]"]
    given = {name: move for name, move in moves.items() if move is not None}
    dtype, floats = as_floats({**points, **given}, work=np.float32)
    ops = (
        dict(zip(NAMES, floats, strict=False))
        if len(points) == 5
        else dict(zip(NAMES[:4], floats, strict=False))
    )
    _check(names, ops)
    moving = dict(zip(given, floats[len(points) :], strict=True))
    at = {}
    for label, name in zip(moves, NAMES, strict=True):
        if name in ops:
            at[name] = moving.get(label, np.zeros_like(ops[name]))
            check_shape(label, at[name], ops[name].shape)
    s = ops["x"].dtype.type(factor)
    with np.errstate(all="ignore"):
        low = affine(ops["x"], ops["a"])
        dlow = affine(ops["x"], at["a"]) + affine(at["x"], ops["a"])
        out = affine(at["x"], ops["weight"], at.get("bias"))
        return result(out + s * (affine(low, at["b"]) + affine(dlow, ops["b"])), dtype)
