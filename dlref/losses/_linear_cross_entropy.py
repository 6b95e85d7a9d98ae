r"""Linear layer and cross-entropy in one, so that no array of all logits is needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    FloatDType,
    as_array,
    as_floats,
    as_integer,
    check_constant,
    check_ndim,
    check_shape,
    choice,
    entries,
    result,
)
from .._math.dense import blas_matmul
from ._cross_entropy import _Options, _problem
from ._kernels.classes import as_classes
from ._kernels.reduction import REDUCTIONS, divided_sum

#: Logits that are in memory at a time, unless `chunk` is given.
LOGITS = 2**22


class _Rows:
    """Checked arguments, and the logits of some rows at a time."""

    def __init__(
        self,
        names: tuple[str, ...],
        arrays: list[FloatArray],
        target: Any,
        options: _Options,
        chunk: int | None,
    ) -> None:
        x, weight, *bias = arrays
        check_ndim(names[0], x, 1)
        check_ndim(names[1], weight, 2)
        check_shape(names[1], weight, (weight.shape[0], x.shape[-1]))
        if bias:
            check_shape(names[3], bias[0], weight.shape[:1])
        choice("reduction", options.reduction, REDUCTIONS)
        self.shape, classes = x.shape[:-1], weight.shape[0]
        scores = np.broadcast_to(np.zeros(()), (*self.shape, classes))
        self.target, valid = as_classes(names[2], target, scores, options.ignore_index)
        counted = self.target.size if valid is None else np.count_nonzero(valid)
        self.divisor = np.float64(counted if options.reduction == "mean" else 1.0)
        self.x, self.weight, self.bias = x.reshape(self.target.size, x.shape[-1]), weight, bias
        least = max(1, LOGITS // max(classes, 1))
        self.chunk = least if chunk is None else as_integer("chunk", chunk, least=1)
        self.options = options
        self.part(slice(0, 0))  # checks the options, also where there are no rows

    def part(self, rows: slice) -> Any:
        """Return the cross-entropy of some rows."""
        z = blas_matmul(self.x[rows], self.weight.T)
        z = z + self.bias[0] if self.bias else z
        return _problem(("x", "target"), z, self.target[rows], self.options)

    def parts(self) -> Iterator[tuple[slice, Any]]:
        """Yield the rows of each chunk, and their cross-entropy."""
        for start in range(0, len(self.x), self.chunk):
            rows = slice(start, start + self.chunk)
            yield rows, self.part(rows)

    def reduced(self, losses: FloatArray) -> Any:
        """Reduce the losses of the rows."""
        if self.options.reduction == "none":
            return losses.reshape(self.shape)
        return divided_sum(losses, self.divisor)

    def pulled(self, dout: FloatArray) -> list[FloatArray]:
        """Return the gradients, given the cotangent of the loss."""
        check_shape("dout", dout, self.shape if self.options.reduction == "none" else ())
        seeds = np.broadcast_to(dout / self.divisor, self.shape).reshape(-1)
        dx, dweight = np.empty_like(self.x), np.zeros(self.weight.shape, self.weight.dtype)
        dbias = np.zeros(len(self.weight))
        for rows, problem in self.parts():
            slopes = problem.solve(seeds[rows])[1]
            dx[rows] = blas_matmul(slopes, self.weight)
            dweight += blas_matmul(slopes.T, self.x[rows])
            dbias += np.sum(slopes, axis=0, dtype=np.float64)
        return [dx.reshape(*self.shape, dx.shape[-1]), dweight, dbias][: 2 + len(self.bias)]


def _as_float_arrays(
    x: npt.ArrayLike, weight: npt.ArrayLike, bias: npt.ArrayLike | None, **dout: npt.ArrayLike
) -> tuple[FloatDType, list[FloatArray]]:
    arrays = {**dout, "x": x, "weight": weight} | ({} if bias is None else {"bias": bias})
    return as_floats(arrays, work=np.float32)


NAMES = ("x", "weight", "target", "bias")


def linear_cross_entropy(
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    target: npt.ArrayLike,
    bias: npt.ArrayLike | None = None,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    reduction: str = "mean",
    chunk: int | None = None,
) -> FloatArray:
    r"""
    Cross-entropy of the logits of a linear layer, a chunk of rows at a time.

    It is the last layer and the loss of a language model. The array of all logits, which is the
    largest array of the training, is never in memory.

    Parameters
    ----------
    x : array_like, shape (..., D)
        Inputs :math:`x` of the layer, a row for each token.
    weight : array_like, shape (C, D)
        Weights :math:`W` of the layer, a row for each of C classes.
    target : array_like of int, shape (...)
        Class :math:`t` of each row.
    bias : array_like, shape (C,), optional
        Bias :math:`b` of the layer.
    ignore_index, label_smoothing, z_loss : as in `cross_entropy`
        Raises the same errors.
    reduction : str
        ``"mean"`` over the rows that are not ignored, ``"sum"`` or ``"none"``.
    chunk : int or None
        Number of rows whose logits are in memory at a time; None takes as many as have four
        million logits. It changes nothing but rounding.

    Returns
    -------
    ndarray or scalar
        The loss in nats: a scalar, or for ``"none"`` an array of the shape of `target`. The mean is
        NaN if all targets are ignored.

    Raises
    ------
    TypeError
        If `target` or the size of chunks is not integer, or another array is not real.
    ValueError
        If the shapes do not fit, a target is not a class, or an option is out of range.

    See Also
    --------
    cross_entropy : The loss of logits.
    dlref.neurons.linear : The layer.

    Notes
    -----
    For row n, with :math:`\epsilon` for `label_smoothing` and :math:`\zeta` for `z_loss`,

    .. math::

        z_{nc} = \sum_j W_{cj} x_{nj} + b_c , \qquad
        \lambda_n = \log \sum_c e^{z_{nc}} , \qquad
        \ell_n = \lambda_n - (1 - \epsilon)\, z_{n t_n} - \frac{\epsilon}{C} \sum_c z_{nc}
          + \zeta \lambda_n^2 .

    The rows are independent until the sum, so a chunk of them is finished, gradients included,
    before the next one begins. An ignored row has the loss 0, without the z-loss, too.

    **Memory.** With 8192 tokens and 128,256 classes, all logits take 4.2 GB in float32, and their
    gradient as much. In chunks of 32 rows they take 16 MB. The products are the same, so the time
    is, too; a layer that keeps nothing for the backward pass computes the logits twice.

    **A vocabulary in parts.** Where the classes are split over devices, each has the log-sum-exp of
    its own; the log-sum-exp of these numbers is :math:`\lambda_n`. Only they and the logit of the
    target are sent.

    **Conventions.** PyTorch 2.13 has ``torch.nn.functional.linear_cross_entropy``, whose bias is
    the keyword ``linear_bias``. It also takes weights of classes, and probabilities as targets; it
    has no z-loss. Liger :cite:p:`HsuLiger2024` and cut cross-entropy :cite:p:`WijmansCCE2024` are
    kernels for the same function.

    **Numerics.** Products of matrices are computed in the dtype of the inputs, the loss of a row as
    in :func:`cross_entropy`.

    Examples
    --------
    Two tokens, and three classes that the layer cannot tell apart yet:

    >>> import numpy as np
    >>> from dlref.losses import linear_cross_entropy
    >>> x, weight = np.eye(2), np.zeros((3, 2))
    >>> float(linear_cross_entropy(x, weight, [0, 2]) / np.log(3))
    1.0
    """
    options = _Options(None, ignore_index, label_smoothing, z_loss, reduction)
    dtype, arrays = _as_float_arrays(x, weight, bias)
    with np.errstate(all="ignore"):
        rows = _Rows(NAMES, arrays, target, options, chunk)
        losses = np.zeros(len(rows.x))
        for part, problem in rows.parts():
            losses[part] = problem.solve(None)[0]
        return result(rows.reduced(losses), dtype)


def linear_cross_entropy_grad(
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    target: npt.ArrayLike,
    bias: npt.ArrayLike | None = None,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    reduction: str = "mean",
    chunk: int | None = None,
) -> tuple[FloatArray, ...]:
    r"""
    Gradient of the cross-entropy of a linear layer.

    Parameters
    ----------
    x, weight, target, bias, ignore_index, label_smoothing, z_loss : as in `linear_cross_entropy`
        Raises the same errors.
    reduction : str
        ``"mean"`` or ``"sum"``.
    chunk : int or None
        As in `linear_cross_entropy`.

    Returns
    -------
    dx : ndarray, shape (..., D)
        Gradient with respect to the inputs; rows of ignored targets are 0.
    dweight : ndarray, shape (C, D)
        Gradient with respect to the weights.
    dbias : ndarray, shape (C,)
        Gradient with respect to the bias. Only if `bias` is given.

    See Also
    --------
    linear_cross_entropy_vjp : The derivation.

    Notes
    -----
    Without options, and with the probabilities p of N rows that are not ignored, each row sends
    prediction minus truth to its input and to the weights:

    .. math::

        \pdv{L}{x_{nj}} = \frac1N \sum_c \bigl( p_{nc} - [c = t_n] \bigr) W_{cj} , \qquad
        \pdv{L}{W_{cj}} = \frac1N \sum_n \bigl( p_{nc} - [c = t_n] \bigr)\, x_{nj} .

    For a sum the factor is 1 in place of 1/N. The formulas with the options are the ones of
    :func:`linear_cross_entropy_vjp`, where this factor is the upstream gradient.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import linear_cross_entropy_grad
    >>> dx, dweight = linear_cross_entropy_grad([[2.0]], np.zeros((2, 1)), [1])
    >>> dweight
    array([[ 1.],
           [-1.]])
    """
    choice("reduction", reduction, REDUCTIONS[:2])
    options = _Options(None, ignore_index, label_smoothing, z_loss, reduction)
    dtype, arrays = _as_float_arrays(x, weight, bias)
    with np.errstate(all="ignore"):
        grads = _Rows(NAMES, arrays, target, options, chunk).pulled(np.ones(()))
        return tuple(result(grad, dtype) for grad in grads)


def linear_cross_entropy_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    target: npt.ArrayLike,
    bias: npt.ArrayLike | None = None,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    reduction: str = "mean",
    chunk: int | None = None,
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of the cross-entropy of a linear layer.

    Parameters
    ----------
    dout : array_like
        Cotangent u of the loss: a scalar, or for the reduction ``"none"`` of the shape of `target`.
    x, weight, target, bias : as in `linear_cross_entropy`
        Raises the same errors.
    ignore_index, label_smoothing, z_loss, reduction, chunk : as in `linear_cross_entropy`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape (..., D)
        Gradient with respect to the inputs; rows of ignored targets are 0.
    dweight : ndarray, shape (C, D)
        Gradient with respect to the weights.
    dbias : ndarray, shape (C,)
        Gradient with respect to the bias. Only if `bias` is given.

    Notes
    -----
    With the softmax :math:`p_{nc} = e^{z_{nc} - \lambda_n}` and the cotangent :math:`u_n` of each
    row's loss, the slope by a logit goes through both products of the layer:

    .. math::

        D_{nc} &= (1 + 2 \zeta \lambda_n)\, p_{nc} - (1 - \epsilon)\, [c = t_n]
          - \frac{\epsilon}{C} , \\
        \pdv{L}{x_{nj}} &= u_n \sum_c D_{nc} W_{cj} , \qquad
        \pdv{L}{W_{cj}} = \sum_n u_n D_{nc}\, x_{nj} , \qquad
        \pdv{L}{b_c} = \sum_n u_n D_{nc} .

    The first needs the rows of its own chunk only; the other two are sums over chunks.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import linear_cross_entropy_vjp
    >>> dx, dweight, dbias = linear_cross_entropy_vjp(
    ...     8.0, [[1.0], [3.0]], np.zeros((2, 1)), [0, 0], [0.0, 0.0]
    ... )
    >>> dweight
    array([[-8.],
           [ 8.]])
    >>> dbias
    array([-4.,  4.])
    """
    options = _Options(None, ignore_index, label_smoothing, z_loss, reduction)
    dtype, (u, *arrays) = _as_float_arrays(x, weight, bias, dout=dout)
    with np.errstate(all="ignore"):
        grads = _Rows(NAMES, arrays, target, options, chunk).pulled(u)
        return tuple(result(grad, dtype) for grad in grads)


def linear_cross_entropy_jvp(
    primals: Any,
    tangents: Any,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    reduction: str = "mean",
    chunk: int | None = None,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the cross-entropy of a linear layer.

    Parameters
    ----------
    primals : tuple (x, weight, target) or (x, weight, target, bias) of array_like
        Inputs (..., D), weights (C, D), classes (...) and, unless left out or None, bias (C,).
    tangents : tuple (dx, dweight, None) or (dx, dweight, None, dbias) of array_like or None
        Directions, of the shapes of `primals`; None is zero, and the only tangent of classes.
    ignore_index, label_smoothing, z_loss, reduction, chunk : as in `linear_cross_entropy`
        Raises the same errors.

    Returns
    -------
    ndarray or scalar
        Tangent of the loss, of its shape.

    Notes
    -----
    With the slopes D of :func:`linear_cross_entropy_vjp`,

    .. math:: \dot\ell_n = \sum_c D_{nc} \Bigl( \sum_j \bigl( \dot W_{cj} x_{nj}
       + W_{cj} \dot x_{nj} \bigr) + \dot b_c \Bigr) .

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.losses import linear_cross_entropy_jvp
    >>> x, weight = np.eye(2), np.zeros((2, 2))
    >>> float(linear_cross_entropy_jvp((x, weight, [0, 1]), (None, np.eye(2), None)))
    -0.5
    """
    options = _Options(None, ignore_index, label_smoothing, z_loss, reduction)
    count = 3 + (isinstance(primals, tuple | list) and len(primals) == 4)
    points, moves = (
        entries(name, value, count)
        for name, value in (("primals", primals), ("tangents", tangents))
    )
    target = as_array("primals[2]", points.pop("primals[2]"))
    check_constant("tangents[2]", moves.pop("tangents[2]"))
    if count == 4 and points["primals[3]"] is None:
        points.pop("primals[3]")
        check_constant("tangents[3]", moves.pop("tangents[3]"))
    moving = {name: move for name, move in moves.items() if move is not None}
    dtype, arrays = as_floats({**points, **moving}, work=np.float32)
    fixed, moved = arrays[: len(points)], dict(zip(moving, arrays[len(points) :], strict=True))
    with np.errstate(all="ignore"):
        names = tuple(f"primals[{i}]" for i in range(4))
        rows = _Rows(names, fixed, target, options, chunk)
        for name, point in zip(moves, fixed, strict=True):
            check_shape(name, moved.setdefault(name, np.zeros_like(point)), point.shape)
        dx, dweight, *dbias = (moved[name] for name in moves)
        dx = dx.reshape(rows.x.shape)
        losses = np.zeros(len(rows.x))
        for part, problem in rows.parts():
            slopes = problem.solve(np.ones(problem.shape))[1]
            dz = blas_matmul(dx[part], rows.weight.T) + blas_matmul(rows.x[part], dweight.T)
            dz = dz + dbias[0] if dbias else dz
            losses[part] = np.sum(np.multiply(slopes, dz, dtype=np.float64), axis=-1)
        return result(rows.reduced(losses), dtype)
