r"""Convolution: one small set of weights, used at every place."""

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
from ._kernels.windows import check_space

NAMES = ("x", "weight", "bias")
Padding = int | str | tuple[int | tuple[int, int], ...]


def _arrays_by_name(x: Any, weight: Any, bias: Any) -> dict[str, Any]:
    check_given("x", x)
    check_given("weight", weight)
    return {"x": x, "weight": weight} | ({} if bias is None else {"bias": bias})


def _layout(names: tuple[str, ...], arrays: list[FloatArray], options: dict[str, Any]) -> Layout:
    """Check shapes and options."""
    layout = layout_of(names, arrays, options)
    check_space(names[0], arrays[0], layout.at)
    return layout


def conv(
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    bias: npt.ArrayLike | None = None,
    *,
    stride: int | tuple[int, ...] = 1,
    padding: Padding = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
) -> FloatArray:
    r"""
    Convolution over one, two or three axes of space.

    Parameters
    ----------
    x : array_like, shape (..., C, \*space)
        Input: C channels, then the axes of space.
    weight : array_like, shape (O, C / groups, \*kernel)
        Weights. The kernel has as many axes as there are of space, from 1 to 3.
    bias : array_like or None, shape (O,)
        One number for each output channel; None leaves it out.
    stride : int or tuple of int, default 1
        Steps between two windows. An integer holds for all axes of space.
    padding : int, str or tuple of int or of pairs, default 0
        How many places stand before, and how many after, each axis of space. A pair has a number
        for each side. "valid" is 0, "same" keeps the size, and "causal" has all of them before the
        axis.
    dilation : int or tuple of int, default 1
        Steps between two places of a window.
    groups : int, default 1
        The channels are cut into so many groups of neighbors, and each group of outputs reads only
        the group of inputs with the same number.
    padding_mode : {"zeros", "circular"}
        Whether the places of the padding are zeros, or the places of the other end of the axis, as
        if each axis of space were a ring.

    Returns
    -------
    ndarray, shape (..., O, \*space)
        One output for each window.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array, or an option is not an
        integer.
    ValueError
        If the shapes do not fit, `groups` does not divide the channels, a window does not fit
        into the padded input, an option is out of range or not known, the padding is "same" and
        the stride is not 1, or it is "causal" and circular.

    See Also
    --------
    conv_vjp : The backward pass, two more convolutions.
    conv_transpose : The adjoint map.
    causal_conv : One axis, one kernel for each channel, and no look into the future.
    dlref.neurons.linear : The same map, for a kernel of one place.

    Notes
    -----
    With stride s, padding p, dilation d and a kernel of K places, output channel o at place t is

    .. math:: y_{o t} = b_o + \sum_c \sum_{k=0}^{K-1} W_{o c k}\, x_{c,\, s t + d k - p} ,

    where x is 0 outside of its T places. With several axes t and k are tuples, and so are s, p, d.
    The last window has to end within the padded input, so the number of windows along an axis is

    .. math:: T' = \Bigl\lfloor \frac{T + 2 p - d (K - 1) - 1}{s} \Bigr\rfloor + 1 .

    An odd kernel with the padding :math:`p = d (K - 1) / 2` and stride 1 keeps the size. In general
    a size is kept by :math:`d (K - 1)` zeros on both sides together. "same" has half of them before
    the axis, rounded down, and the others after it, as in PyTorch; "causal" has all of them before
    it, so that an output reads no later input. With pairs p is the number before, and 2 p in the
    number of windows is the sum of both.

    With a circular padding x is not 0 outside of its places but repeats,

    .. math:: x_{c,\, j + T} = x_{c j} .

    The map then has no ends: it shifts with its input at every place, and on such a ring the
    discrete Fourier transform makes a product of it. Images of a panorama and fields with periodic
    boundaries need it.

    **As a matrix.** For one channel the map is a matrix with equal numbers along each diagonal, a
    *Toeplitz matrix*, for instance K = 3, p = 1, T = 4:

    .. math:: \vec y = \begin{pmatrix} W_1 & W_2 & 0 & 0 \\ W_0 & W_1 & W_2 & 0 \\
       0 & W_0 & W_1 & W_2 \\ 0 & 0 & W_0 & W_1 \end{pmatrix} \vec x + b .

    A stride of 2 keeps every second row, and dilation spreads the numbers of a row. So a
    convolution is a linear layer with two restrictions: a weight is 0 unless input and output are
    close (it is *local*), and weights of equal distance are equal (they are *shared*). Sharing
    makes it *equivariant*: with stride 1 and away from the ends, a shifted input gives the shifted
    output.

    **Groups.** With G groups, the sum over c runs over the C / G channels of the group of o.
    With G = C, a *depthwise* convolution, every channel has its own kernel and none are mixed. A
    kernel of one place mixes channels only.

    **Cost.** :math:`O\, T' K\, C / G` multiplications for each input, with the product over the
    axes in place of T' and K, in the dtype of the input. The code copies the windows of a block of
    outputs into the columns of a matrix, which stays in the processor's cache, and multiplies it by
    the weights (``dlref/convolution/_kernels/products.py``). In addition to input and output it
    needs a padded copy of some elements of the batch: of eight megabytes, or of one element if that
    takes more.

    **Conventions.** Signal processing calls this *cross-correlation*, and convolution the same with
    a reversed kernel, as ``numpy.convolve`` has it. Learned weights can absorb the reversal, so
    PyTorch, JAX, TensorFlow and ONNX leave it out; ``Conv`` of Flux, in Julia, does reverse.

    References
    ----------
    - :cite:t:`DumoulinVisin2016` on sizes, strides and padding
    - :cite:t:`LeCun1989` on sharing weights
    - :cite:t:`YuKoltun2016` on dilation

    Examples
    --------
    >>> from dlref.convolution import conv
    >>> x, weight = [[1, 2, 4, 8]], [[[1, 0, -1]]]
    >>> conv(x, weight, padding=1)
    array([[-2., -3., -6.,  4.]])

    The second output is :math:`1 \cdot 1 + 0 \cdot 2 - 1 \cdot 4`, and the first and last read a
    zero. With a stride of 2 every second one is left; with a dilation of 2 the windows are five
    places wide:

    >>> conv(x, weight, padding=1, stride=2), conv(x, weight, padding=2, dilation=2)
    (array([[-2., -6.]]), array([[-4., -8.,  1.,  2.]]))

    Two places and the size kept: the zero stands after the input, or before it.

    >>> for padding in ("same", "causal", ((0, 1),)):
    ...     print(conv(x, [[[1, -1]]], padding=padding))
    [[-1. -2. -4.  8.]]
    [[-1. -1. -2. -4.]]
    [[-1. -2. -4.  8.]]

    The columns of its Toeplitz matrix are the outputs for unit vectors:

    >>> import numpy as np
    >>> conv(np.eye(4)[:, None], [[[1, 2, 3]]], padding=1)[:, 0].T
    array([[2., 3., 0., 0.],
           [1., 2., 3., 0.],
           [0., 1., 2., 3.],
           [0., 0., 1., 2.]])

    On a ring every row of the matrix is the one before it, shifted:

    >>> conv(np.eye(4)[:, None], [[[1, 2, 3]]], padding=1, padding_mode="circular")[:, 0].T
    array([[2., 3., 0., 1.],
           [1., 2., 3., 0.],
           [0., 1., 2., 3.],
           [3., 0., 1., 2.]])
    """
    dtype, arrays = as_floats(_arrays_by_name(x, weight, bias), work=np.float32)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    options["padding_mode"] = padding_mode
    layout = _layout(NAMES, arrays, options)
    x, w, *rest = arrays
    with np.errstate(all="ignore"):
        out = layout.flat(correlate(layout.image(x), layout.kernel(w), layout.at))
        if rest:
            out += spaced(rest[0], layout.at)
    return result(out, dtype)


def conv_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    bias: npt.ArrayLike | None = None,
    *,
    stride: int | tuple[int, ...] = 1,
    padding: Padding = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of a convolution.

    Parameters
    ----------
    dout : array_like, shape (..., O, \*space)
        Cotangent :math:`u_{o t}` of the output.
    x, weight, bias, stride, padding, dilation, groups, padding_mode : as in `conv`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape of `x`
        Gradient with respect to the input.
    dweight : ndarray, shape of `weight`
        Gradient with respect to the weights, summed over all windows of the batch.
    dbias : ndarray, shape (O,)
        Sum of the cotangent over batch and space. Only if `bias` is given.

    Notes
    -----
    **The differential.** The output is linear in the input and in the weights:

    .. math:: \dd y_{o t} = \sum_c \sum_k \bigl( W_{o c k}\, \dd x_{c,\, s t + d k - p}
       + x_{c,\, s t + d k - p}\, \dd W_{o c k} \bigr) + \dd b_o .

    **The inner product.** :math:`\dd L = \sum_{o t} u_{o t}\, \dd y_{o t}`.

    **The transpose.** Input :math:`x_{c j}` is in window t at place k if :math:`s t + d k - p = j`,
    so the factors of the differentials are

    .. math::

        \pdv{L}{x_{c j}} &= \sum_o \sum_t \sum_k u_{o t}\, W_{o c k}\, [\, s t + d k - p = j\,] \\
        \pdv{L}{W_{o c k}} &= \sum_t u_{o t}\, x_{c,\, s t + d k - p} , \qquad
        \pdv{L}{b_o} = \sum_t u_{o t} ,

    and the last two are also summed over the batch. Both are convolutions again:

    **The input.** At stride 1 the bracket leaves :math:`t = j + p - d k`, and with
    :math:`k' = K - 1 - k`

    .. math:: \pdv{L}{x_{c j}} = \sum_o \sum_{k'} W_{o c,\, K - 1 - k'}\, u_{o,\, j + d k' - p'} ,
       \qquad p' = d (K - 1) - p :

    a convolution of the cotangent with the *reversed* kernel, the channels exchanged, and with the
    padding p', where a negative one cuts off places. At stride s the cotangent first gets s − 1
    zeros between its elements, and at its end one for each input that the last window leaves over.
    As a matrix it is the transposed Toeplitz matrix, and :func:`conv_transpose` is this map on its
    own.

    **On a ring.** Circular padding copies inputs, and the transpose of a copy is a sum. With the
    gradient :math:`g_{c i}` of the padded input, the first line above for every whole i, an input
    gets the sum over all places that are copies of it:

    .. math:: \pdv{L}{x_{c j}} = \sum_n g_{c,\, j + n T} .

    **The weights.** The formula above is a convolution of the input by the cotangent: the place in
    the kernel takes the part of the place of the output, so *stride and dilation are exchanged*. A
    strided convolution has a dilated one as its backward pass. Channels of the input stand where
    the batch stood, and the batch where the channels stood, since it is summed over.

    The code does not insert zeros: it adds the products of a block to the places that the window
    was read from, and multiplies the cotangent by the same columns as the forward pass. Cost: twice
    the forward pass.

    Examples
    --------
    The first input is read by two windows with padding, at their places 1 and 0:

    >>> from dlref.convolution import conv, conv_vjp
    >>> x, weight, u = [[1, 2, 4, 8]], [[[1, 2, 3]]], [[1, 10, 100, 1000]]
    >>> dx, dweight = conv_vjp(u, x, weight, padding=1)
    >>> dx
    array([[  12.,  123., 1230., 2300.]])
    >>> dweight
    array([[[4210., 8421.,  842.]]])

    Both by convolutions, the input with the reversed kernel:

    >>> conv(u, [[[3, 2, 1]]], padding=1)
    array([[  12.,  123., 1230., 2300.]])
    >>> conv(x, [u], padding=1)
    array([[4210., 8421.,  842.]])
    """
    check_given("dout", dout)
    given = {"dout": dout, **_arrays_by_name(x, weight, bias)}
    dtype, (u, *arrays) = as_floats(given, work=np.float32)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    options["padding_mode"] = padding_mode
    layout = _layout(NAMES, arrays, options)
    (x, w, *rest), at = arrays, layout.at
    space = at.last(x.shape)
    check_shape("dout", u, (*layout.batch, len(w), *at.outputs(space)))
    with np.errstate(all="ignore"):
        cotangent, kernel = layout.image(u), layout.kernel(w)
        grads = [layout.flat(spread(cotangent, kernel, at, space))]
        grads.append(weight_grad(cotangent, layout.image(x), at).reshape(w.shape))
        if rest:
            by_channel = (0, *range(3, cotangent.ndim))
            grads.append(cotangent.sum(by_channel, dtype=np.float64).reshape(-1))
    return tuple(result(grad, dtype) for grad in grads)


def conv_jvp(
    primals: Any,
    tangents: Any,
    *,
    stride: int | tuple[int, ...] = 1,
    padding: Padding = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a convolution.

    Parameters
    ----------
    primals : tuple (x, weight) or (x, weight, bias) of array_like
        The operands, as in `conv`; the bias may be None.
    tangents : tuple of array_like or None
        Directions, as many as `primals`, each of the shape of its operand; None is zero.
    stride, padding, dilation, groups, padding_mode : as in `conv`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., O, \*space)
        Tangent of the output.

    Notes
    -----
    The map is linear in the input and linear in the weights, so the product rule gives two
    convolutions:

    .. math:: \dot y_{o t} = \dot b_o + \sum_c \sum_k \bigl( \dot W_{o c k}\, x_{c,\, s t + d k - p}
       + W_{o c k}\, \dot x_{c,\, s t + d k - p} \bigr) .

    Examples
    --------
    >>> from dlref.convolution import conv_jvp
    >>> conv_jvp(([[1, 2, 4]], [[[1, -1]]]), ([[0, 1, 0]], [[[0, 10]]]))
    array([[19., 41.]])
    """
    if isinstance(primals, tuple | list) and len(primals) == 3 and primals[2] is None:
        primals = primals[:2]
        tangents = tangents[:2] if isinstance(tangents, tuple | list) else tangents
    count = 2 if isinstance(primals, tuple | list) and len(primals) == 2 else 3
    dtype, arrays, (dx, dw, *db) = as_tangents(primals, tangents, count=count, work=np.float32)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    options["padding_mode"] = padding_mode
    layout = _layout(tuple(f"primals[{i}]" for i in range(3)), arrays, options)
    x, w = layout.image(arrays[0]), layout.kernel(arrays[1])
    with np.errstate(all="ignore"):
        out = correlate(layout.image(dx), w, layout.at)
        out += correlate(x, layout.kernel(dw), layout.at)
        out = layout.flat(out)
        if db:
            out += spaced(db[0], layout.at)
    return result(out, dtype)
