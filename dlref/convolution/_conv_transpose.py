r"""The transpose of a convolution: every input writes a kernel to the output."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_tangents,
    check_given,
    check_shape,
    result,
)
from ._kernels.layout import Layout, layout_of, spaced
from ._kernels.products import correlate, spread, weight_grad
from ._kernels.windows import per_axis

NAMES = ("x", "weight", "bias")


def _arrays_by_name(x: Any, weight: Any, bias: Any) -> dict[str, Any]:
    check_given("x", x)
    check_given("weight", weight)
    return {"x": x, "weight": weight} | ({} if bias is None else {"bias": bias})


def _layout(
    names: tuple[str, ...], arrays: list[FloatArray], options: dict[str, Any]
) -> tuple[Layout, tuple[int, ...]]:
    """Check shapes and options; return the layout and the axes of space of the output."""
    layout = layout_of(names, arrays, options, transposed=True)
    at, space = layout.at, layout.at.last(arrays[0].shape)
    more = per_axis("output_padding", options["output_padding"], len(space), least=0)
    limit = tuple(max(s, d) for s, d in zip(at.stride, at.dilation, strict=True))
    if any(q >= most for q, most in zip(more, limit, strict=True)):
        msg = (
            "Argument 'output_padding' must be less than the stride or the dilation of its axis, "
            f"that is, than {limit}, not {more}."
        )
        raise ValueError(msg)
    sides = zip(space, at.stride, at.padding, at.extent, more, strict=True)
    out = tuple((n - 1) * s - 2 * p + e + q for n, s, p, e, q in sides)
    if 0 in space or min(out) < 1:
        msg = (
            f"Arguments {names[0]!r} and 'padding' must leave an output of at least 1 along each "
            f"axis of space, not {out} for {space}."
        )
        raise ValueError(msg)
    return layout, out


def conv_transpose(
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    bias: npt.ArrayLike | None = None,
    *,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    output_padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> FloatArray:
    r"""
    Transposed convolution over one, two or three axes of space.

    Parameters
    ----------
    x : array_like, shape (..., C, \*space)
        Input: C channels, then the axes of space.
    weight : array_like, shape (C, O / groups, \*kernel)
        Weights; the channels of the input come first.
    bias : array_like or None, shape (O,)
        One number for each output channel; None leaves it out.
    stride : int or tuple of int, default 1
        Steps in the output between the kernels of two neighboring inputs.
    padding : int or tuple of int, default 0
        How many outputs are dropped at the start, and how many at the end, of each axis.
    output_padding : int or tuple of int, default 0
        How many more outputs there are at the end. Less than the stride or the dilation.
    dilation : int or tuple of int, default 1
        Steps in the output between two places of a kernel.
    groups : int, default 1
        The channels are cut into so many groups, as in :func:`conv`.

    Returns
    -------
    ndarray, shape (..., O, \*space)
        Sums of kernels.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array, or an option is not an
        integer.
    ValueError
        If the shapes do not fit, `groups` does not divide the channels, the padding leaves no
        output, or an option is out of range.

    See Also
    --------
    conv_transpose_vjp : The backward pass.
    conv : The map that this is the adjoint of.

    Notes
    -----
    With stride s, padding p, dilation d and a kernel of K places, input t adds its kernel to the
    output, from place :math:`s t - p` on:

    .. math:: y_{o j} = b_o + \sum_c \sum_t \sum_{k=0}^{K-1} x_{c t}\, W_{c o k}\,
       [\, s t + d k - p = j\,] .

    The last place that a kernel reaches, without the dropped ones, gives the size. With the output
    padding q,

    .. math:: T' = (T - 1)\, s + d (K - 1) + 1 - 2 p + q .

    **The adjoint.** Without the bias this is the map that :func:`conv_vjp` applies to the upstream
    gradient. For the same weight and options, and for all x and z,

    .. math:: \sum_{c t} x_{c t}\, \operatorname{conv}(\vec z)_{c t}
       = \sum_{o j} \operatorname{conv}^\top(\vec x)_{o j}\, z_{o j} ,

    since both are the sum of :math:`x_{c t}\, W_{c o k}\, z_{o j}` over all pairs that the kernel
    connects. That is why the channels of the input come first in the weight: for the convolution
    they are the outputs. The matrix is the transposed one, for instance with K = 3, s = 2, T = 2:

    .. math:: \vec y = \begin{pmatrix} W_0 & 0 \\ W_1 & 0 \\ W_2 & W_0 \\ 0 & W_1 \\ 0 & W_2
       \end{pmatrix} \vec x + b .

    A transpose is not an inverse: a convolution followed by its transpose is a symmetric map, and
    the identity only for special kernels.

    **Why an output padding.** A convolution with stride s has the same output size for s sizes
    of its input. The transpose has to choose one of them; the smallest is q = 0. The additional
    places are not filled with zeros: kernels that reach them write there.

    **As a convolution.** Put s − 1 zeros between the inputs, reverse the kernel, and pad with
    :math:`d (K - 1) - p`, and q more at the end: this is a convolution of stride 1 with the same
    result. That is why it was called a *fractionally strided* convolution. It was also called
    *deconvolution*, but it does not undo a convolution.

    **Uneven overlap.** If the stride does not divide the size of the kernel, some outputs get more
    kernels than their neighbors, which shows as a checkerboard in generated images. A kernel of 4
    places with stride 2 covers all outputs twice, except at the ends.

    **Cost.** As many multiplications as the convolution it is the adjoint of, in the dtype of the
    input.

    References
    ----------
    - :cite:t:`DumoulinVisin2016`, Chapter 4
    - :cite:t:`OdenaDeconvolution2016` on checkerboards

    Examples
    --------
    >>> from dlref.convolution import conv, conv_transpose
    >>> conv_transpose([[1, 10]], [[[1, 2, 3]]], stride=2)
    array([[ 1.,  2., 13., 20., 30.]])

    Padding drops the ends, and an output padding takes one more at the end:

    >>> conv_transpose([[1, 10]], [[[1, 2, 3]]], stride=2, padding=1)
    array([[ 2., 13., 20.]])
    >>> conv_transpose([[1, 10]], [[[1, 2, 3]]], stride=2, padding=1, output_padding=1)
    array([[ 2., 13., 20., 30.]])

    Twice the same number, by the convolution and by its adjoint:

    >>> import numpy as np
    >>> z, x, weight = np.array([[1, 2, 3, 4, 5]]), np.array([[1, 10]]), [[[1, 2, 3]]]
    >>> (x * conv(z, weight, stride=2)).sum(), (z * conv_transpose(x, weight, stride=2)).sum()
    (np.float64(274.0), np.float64(274.0))
    """
    dtype, arrays = as_floats(_arrays_by_name(x, weight, bias), work=np.float32)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    layout, space = _layout(NAMES, arrays, {**options, "output_padding": output_padding})
    x, w, *rest = arrays
    with np.errstate(all="ignore"):
        out = layout.flat(spread(layout.image(x), layout.kernel(w), layout.at, space))
        if rest:
            out += spaced(rest[0], layout.at)
    return result(out, dtype)


def conv_transpose_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    bias: npt.ArrayLike | None = None,
    *,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    output_padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of a transposed convolution.

    Parameters
    ----------
    dout : array_like, shape (..., O, \*space)
        Cotangent :math:`u_{o j}` of the output.
    x, weight, bias, stride, padding, output_padding, dilation, groups : as in `conv_transpose`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape of `x`
        Gradient with respect to the input: a convolution of the cotangent.
    dweight : ndarray, shape of `weight`
        Gradient with respect to the weights, summed over the batch.
    dbias : ndarray, shape (O,)
        Sum of the cotangent over batch and space. Only if `bias` is given.

    Notes
    -----
    The bracket of the definition leaves one output for each input and each place,
    :math:`j = s t + d k - p`, so

    .. math::

        \pdv{L}{x_{c t}} = \sum_o \sum_k W_{c o k}\, u_{o,\, s t + d k - p} , \qquad
        \pdv{L}{W_{c o k}} = \sum_t x_{c t}\, u_{o,\, s t + d k - p} , \qquad
        \pdv{L}{b_o} = \sum_j u_{o j} ,

    where u is 0 outside of the output, and the last two are also summed over the batch. The first
    is :func:`conv` of the cotangent with the same weight: the transpose of the transpose. In the
    second, input and cotangent have changed places, compared with :func:`conv_vjp`.

    Examples
    --------
    >>> from dlref.convolution import conv, conv_transpose_vjp
    >>> u, weight = [[1, 0, 10, 0, 100]], [[[1, 2, 3]]]
    >>> dx, dweight = conv_transpose_vjp(u, [[1, 2]], weight, stride=2)
    >>> dx, conv(u, weight, stride=2)
    (array([[ 31., 310.]]), array([[ 31., 310.]]))
    >>> dweight
    array([[[ 21.,   0., 210.]]])
    """
    check_given("dout", dout)
    dtype, (u, *arrays) = as_floats(
        {"dout": dout, **_arrays_by_name(x, weight, bias)}, work=np.float32
    )
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    layout, space = _layout(NAMES, arrays, {**options, "output_padding": output_padding})
    (x, w, *rest), at = arrays, layout.at
    check_shape("dout", u, (*layout.batch, w.shape[1] * layout.groups, *space))
    with np.errstate(all="ignore"):
        cotangent = layout.image(u)
        dx = correlate(cotangent, layout.kernel(w), at, at.last(x.shape))
        grads = [layout.flat(dx)]
        grads.append(weight_grad(layout.image(x), cotangent, at).reshape(w.shape))
        if rest:
            by_channel = (0, *range(3, cotangent.ndim))
            grads.append(cotangent.sum(by_channel, dtype=np.float64).reshape(-1))
    return tuple(result(grad, dtype) for grad in grads)


def conv_transpose_jvp(
    primals: Any,
    tangents: Any,
    *,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    output_padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a transposed convolution.

    Parameters
    ----------
    primals : tuple (x, weight) or (x, weight, bias) of array_like
        The operands, as in `conv_transpose`; the bias may be None.
    tangents : tuple of array_like or None
        Directions, as many as `primals`, each of the shape of its operand; None is zero.
    stride, padding, output_padding, dilation, groups : as in `conv_transpose`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., O, \*space)
        Tangent of the output.

    Notes
    -----
    By the product rule,

    .. math:: \dot y_{o j} = \dot b_o + \sum_c \sum_t \sum_k \bigl( \dot x_{c t}\, W_{c o k}
       + x_{c t}\, \dot W_{c o k} \bigr) [\, s t + d k - p = j\,] .

    Examples
    --------
    >>> from dlref.convolution import conv_transpose_jvp
    >>> primals, moves = ([[1, 10]], [[[1, 2]]]), ([[1, 0]], [[[0, 5]]])
    >>> conv_transpose_jvp(primals, moves, stride=2)
    array([[ 1.,  7.,  0., 50.]])
    """
    if isinstance(primals, tuple | list) and len(primals) == 3 and primals[2] is None:
        primals = primals[:2]
        tangents = tangents[:2] if isinstance(tangents, tuple | list) else tangents
    count = 2 if isinstance(primals, tuple | list) and len(primals) == 2 else 3
    dtype, arrays, (dx, dw, *db) = as_tangents(primals, tangents, count=count, work=np.float32)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    names = tuple(f"primals[{i}]" for i in range(3))
    layout, space = _layout(names, arrays, {**options, "output_padding": output_padding})
    at, x, w = layout.at, layout.image(arrays[0]), layout.kernel(arrays[1])
    with np.errstate(all="ignore"):
        out = spread(layout.image(dx), w, at, space)
        out += spread(x, layout.kernel(dw), at, space)
        out = layout.flat(out)
        if db:
            out += spaced(db[0], at)
    return result(out, dtype)
