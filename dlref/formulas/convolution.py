"""
Convolutions and pooling, over one or several axes of space.

Channels come before the axes of space, and batches before the channels. Place k of the kernel meets
the same slice of the input for all windows at once; `stride`, `padding` and `dilation` are integers
or have an entry for each axis of space.
"""

import math

import numpy as np

from .neurons import as_rows

# == shared


def for_each_axis(option, axes):
    """One entry for each axis of space."""
    return option if isinstance(option, tuple) else axes * (option,)


def pair_of(p):
    """Padding before and after an axis."""
    return p if isinstance(p, tuple) else (p, p)


def sides_of_space(padding, kernel, dilation):
    """Padding of each axis of space, where a name may stand for it."""
    if not isinstance(padding, str):
        return for_each_axis(padding, len(kernel))
    total = [d * (K - 1) for K, d in zip(kernel, dilation, strict=True)]
    if padding == "same":
        return tuple((n // 2, n - n // 2) for n in total)
    return tuple((n, 0) if padding == "causal" else 0 for n in total)


def pad_space(x, padding, value=0):
    """Surround the axes of space with a number."""
    widths = [(0, 0)] * (x.ndim - len(padding)) + [pair_of(p) for p in padding]
    return np.pad(x, widths, constant_values=value)


def crop_space(x, padding):
    """Remove the padding around the axes of space."""
    space = x.shape[x.ndim - len(padding) :]
    pairs = [pair_of(p) for p in padding]
    inner = [slice(p, n - q) for n, (p, q) in zip(space, pairs, strict=True)]
    return x[(..., *inner)]


def ring_of(T, p):
    """Places of a ring of T places that stand in a padded axis."""
    p, q = pair_of(p)
    return np.arange(-p, T + q) % T


def pad_ring(x, padding):
    """Surround the axes of space with their other ends."""
    for axis, p in enumerate(padding, x.ndim - len(padding)):
        x = np.take(x, ring_of(x.shape[axis], p), axis)
    return x


def fold_ring(dpadded, space, padding):
    """Add the gradients of all copies of a place."""
    for axis, (T, p) in enumerate(zip(space, padding, strict=True), -len(space)):
        copies = np.moveaxis(dpadded, axis, 0)
        sums = np.zeros((T, *copies.shape[1:]), dpadded.dtype)
        np.add.at(sums, ring_of(T, p), copies)
        dpadded = np.moveaxis(sums, 0, axis)
    return dpadded


def count_windows(space, kernel, stride, padding, dilation):
    """Windows that fit into the padded input, along each axis."""
    counts = []
    for T, K, s, p, d in zip(space, kernel, stride, padding, dilation, strict=True):
        counts.append((T + 2 * p - d * (K - 1) - 1) // s + 1)
    return tuple(counts)


def slices_at(k, windows, stride, dilation):
    """Part of the padded input that stands at place k of all windows."""
    parts = []
    for i, count, s, d in zip(k, windows, stride, dilation, strict=True):
        parts.append(slice(d * i, d * i + s * count, s))
    return (..., *parts)


def matrix_of_groups(x, groups, axes):
    """Channels of each group as rows, places of space as columns."""
    batch, channels, space = x.shape[: -axes - 1], x.shape[-axes - 1], x.shape[-axes:]
    return x.reshape(*batch, groups, channels // groups, math.prod(space))


def kernels_of_groups(weight, groups):
    """Weights with an axis for the groups."""
    return weight.reshape(groups, len(weight) // groups, *weight.shape[1:])


def read_windows(padded, weight, windows, stride, dilation, groups):
    """Convolution of a padded input: a product of matrices for each place of the kernel."""
    axes = len(windows)
    w = kernels_of_groups(weight, groups)
    y = 0
    for k in np.ndindex(weight.shape[2:]):
        part = padded[slices_at(k, windows, stride, dilation)]
        y = y + w[(..., *k)] @ matrix_of_groups(part, groups, axes)
    return y.reshape(*padded.shape[: -axes - 1], len(weight), *windows)


def write_windows(u, weight, space, stride, dilation, groups):
    """Transposed convolution, with its padding: it adds where the convolution reads."""
    windows = u.shape[-len(space) :]
    axes = len(windows)
    w = kernels_of_groups(weight, groups)
    channels = groups * weight.shape[1]
    padded = np.zeros((*u.shape[: -axes - 1], channels, *space), np.result_type(u, weight))
    for k in np.ndindex(weight.shape[2:]):
        part = slices_at(k, windows, stride, dilation)
        added = w[(..., *k)].mT @ matrix_of_groups(u, groups, axes)
        padded[part] += added.reshape(padded[part].shape)
    return padded


def multiply_windows(u, padded, weight, stride, dilation, groups):
    """Gradient of the weights: cotangents times inputs, summed over windows and batch."""
    axes = weight.ndim - 2
    windows = u.shape[-axes:]
    dweight = np.zeros_like(weight)
    dw = kernels_of_groups(dweight, groups)
    for k in np.ndindex(weight.shape[2:]):
        part = padded[slices_at(k, windows, stride, dilation)]
        products = matrix_of_groups(u, groups, axes) @ matrix_of_groups(part, groups, axes).mT
        batch = tuple(range(products.ndim - 3))
        dw[(..., *k)] = np.sum(products, axis=batch)
    return dweight


def add_bias(y, bias, axes):
    """Add a number to each channel."""
    return y if bias is None else y + bias.reshape(-1, *axes * (1,))


def bias_grad(dout, axes):
    """Sum over the batch and over space."""
    channels = dout.ndim - axes - 1
    others = tuple(i for i in range(dout.ndim) if i != channels)
    return np.sum(dout, axis=others)


# == conv


def conv_line(x, weight, stride=1, padding=0, dilation=1):
    """
    Convolution along one axis: x (C, T), weight (O, C, K).

    >>> x, weight = np.array([[1.0, 2.0, 4.0, 8.0]]), np.array([[[1.0, 0.0, -1.0]]])
    >>> print(conv_line(x, weight, padding=1))
    [[-2. -3. -6.  4.]]
    """
    x = np.pad(x, [(0, 0), (padding, padding)])
    O, _, K = weight.shape
    count = (x.shape[1] - dilation * (K - 1) - 1) // stride + 1
    y = np.zeros((O, count), np.result_type(x, weight))
    for k in range(K):
        first = dilation * k
        y += weight[:, :, k] @ x[:, first : first + stride * count : stride]
    return y


def conv_line_vjp(dout, x, weight, stride=1, padding=0, dilation=1):
    """
    Backward pass: the same slices are added to and read.

    >>> x, weight = np.array([[1.0, 2.0, 4.0, 8.0]]), np.array([[[1.0, 2.0, 3.0]]])
    >>> dout = np.array([[1.0, 10.0, 100.0, 1000.0]])
    >>> dx, dweight = conv_line_vjp(dout, x, weight, padding=1)
    >>> print(dx, dweight)
    [[  12.  123. 1230. 2300.]] [[[4210. 8421.  842.]]]
    """
    x = np.pad(x, [(0, 0), (padding, padding)])
    dx, dweight = np.zeros_like(x), np.zeros_like(weight)
    for k in range(weight.shape[2]):
        first = dilation * k
        part = slice(first, first + stride * dout.shape[1], stride)
        dx[:, part] += weight[:, :, k].T @ dout
        dweight[:, :, k] = dout @ x[:, part].T
    return dx[:, padding : x.shape[1] - padding], dweight


def conv(x, weight, bias=None, *, stride=1, padding=0, dilation=1, groups=1, padding_mode="zeros"):
    """
    Convolution along any number of axes, with groups of channels.

    >>> x = np.arange(9.0).reshape(1, 3, 3)
    >>> weight = np.array([[[[1.0, 0.0], [0.0, -1.0]]]])
    >>> print(conv(x, weight)[0])
    [[-4. -4.]
     [-4. -4.]]
    """
    axes = weight.ndim - 2
    s, d = for_each_axis(stride, axes), for_each_axis(dilation, axes)
    p = sides_of_space(padding, weight.shape[2:], d)
    padded = pad_ring(x, p) if padding_mode == "circular" else pad_space(x, p)
    windows = count_windows(padded.shape[-axes:], weight.shape[2:], s, axes * (0,), d)
    y = read_windows(padded, weight, windows, s, d, groups)
    return add_bias(y, bias, axes)


def conv_vjp(
    dout, x, weight, bias=None, *, stride=1, padding=0, dilation=1, groups=1, padding_mode="zeros"
):
    """
    Backward pass: the input's gradient is a transposed convolution.

    >>> x = np.arange(9.0).reshape(1, 3, 3)
    >>> weight = np.array([[[[1.0, 0.0], [0.0, -1.0]]]])
    >>> dx, dweight = conv_vjp(np.ones((1, 2, 2)), x, weight)
    >>> print(dx[0])
    [[ 1.  1.  0.]
     [ 1.  0. -1.]
     [ 0. -1. -1.]]
    >>> print(dweight[0, 0])
    [[ 8. 12.]
     [20. 24.]]
    """
    axes = weight.ndim - 2
    s, d = for_each_axis(stride, axes), for_each_axis(dilation, axes)
    p = sides_of_space(padding, weight.shape[2:], d)
    ring = padding_mode == "circular"
    padded = pad_ring(x, p) if ring else pad_space(x, p)
    dpadded = write_windows(dout, weight, padded.shape[-axes:], s, d, groups)
    dx = fold_ring(dpadded, x.shape[-axes:], p) if ring else crop_space(dpadded, p)
    dweight = multiply_windows(dout, padded, weight, s, d, groups)
    return (dx, dweight) if bias is None else (dx, dweight, bias_grad(dout, axes))


# == conv_transpose


def conv_transpose_line(x, weight, stride=1, padding=0):
    """
    Transposed convolution along one axis: x (C, T), weight (C, O, K).

    >>> x, weight = np.array([[1.0, 10.0]]), np.array([[[1.0, 2.0, 3.0]]])
    >>> print(conv_transpose_line(x, weight, stride=2))
    [[ 1.  2. 13. 20. 30.]]
    """
    (_, O, K), T = weight.shape, x.shape[1]
    y = np.zeros((O, (T - 1) * stride + K), np.result_type(x, weight))
    for k in range(K):
        y[:, k : k + stride * T : stride] += weight[:, :, k].T @ x
    return y[:, padding : y.shape[1] - padding]


def conv_transpose_line_vjp(dout, x, weight, stride=1, padding=0):
    """
    Backward pass: a convolution of the cotangent, and the products for the weights.

    >>> x, weight = np.array([[1.0, 10.0]]), np.array([[[1.0, 2.0, 3.0]]])
    >>> dout = np.array([[1.0, 0.0, 10.0, 0.0, 100.0]])
    >>> print(*conv_transpose_line_vjp(dout, x, weight, stride=2))
    [[ 31. 310.]] [[[ 101.    0. 1010.]]]
    """
    dout = np.pad(dout, [(0, 0), (padding, padding)])
    dx, dweight, T = np.zeros_like(x), np.zeros_like(weight), x.shape[1]
    for k in range(weight.shape[2]):
        part = dout[:, k : k + stride * T : stride]
        dx += weight[:, :, k] @ part
        dweight[:, :, k] = x @ part.T
    return dx, dweight


def conv_transpose(
    x, weight, bias=None, *, stride=1, padding=0, output_padding=0, dilation=1, groups=1
):
    """
    Transposed convolution: each input adds its kernel to the output.

    >>> x, weight = np.array([[1.0, 10.0]]), np.array([[[1.0, 2.0, 3.0]]])
    >>> print(conv_transpose(x, weight, stride=2, padding=1))
    [[ 2. 13. 20.]]
    >>> print(conv_transpose(x, weight, stride=2, padding=1, output_padding=1))
    [[ 2. 13. 20. 30.]]
    """
    axes = weight.ndim - 2
    s, p, d = (for_each_axis(option, axes) for option in (stride, padding, dilation))
    space = []
    for T, K, i, j, q in zip(
        x.shape[-axes:], weight.shape[2:], s, d, for_each_axis(output_padding, axes), strict=True
    ):
        space.append((T - 1) * i + j * (K - 1) + 1 + q)
    y = crop_space(write_windows(x, weight, space, s, d, groups), p)
    return add_bias(y, bias, axes)


def conv_transpose_vjp(
    dout, x, weight, bias=None, *, stride=1, padding=0, output_padding=0, dilation=1, groups=1
):
    """
    Backward pass: input and cotangent have changed places.

    >>> x, weight = np.array([[1.0, 10.0]]), np.array([[[1.0, 2.0, 3.0]]])
    >>> dout = np.array([[1.0, 10.0, 100.0]])
    >>> print(*conv_transpose_vjp(dout, x, weight, stride=2, padding=1))
    [[ 32. 210.]] [[[ 100. 1001.   10.]]]
    """
    axes = weight.ndim - 2
    s, p, d = (for_each_axis(option, axes) for option in (stride, padding, dilation))
    padded = pad_space(dout, p)
    dx = read_windows(padded, weight, x.shape[-axes:], s, d, groups)
    dweight = multiply_windows(x, padded, weight, s, d, groups)
    return (dx, dweight) if bias is None else (dx, dweight, bias_grad(dout, axes))


# == max_pool


def max_pool_plane(x, size, stride):
    """
    Maximum of each window of a plane, and where it is.

    >>> x = np.array([[1.0, 2.0, 0.0], [4.0, 3.0, 5.0], [0.0, 9.0, 8.0]])
    >>> largest, places = max_pool_plane(x, (2, 2), stride=1)
    >>> print(largest)
    [[4. 5.]
     [9. 9.]]
    >>> print(places)
    [[2 3]
     [3 2]]
    """
    windows = np.lib.stride_tricks.sliding_window_view(x, size)[::stride, ::stride]
    flat = windows.reshape(*windows.shape[:2], math.prod(size))
    return np.max(flat, axis=-1), np.argmax(flat, axis=-1)


def max_pool_plane_vjp(dout, x, size, stride):
    """
    Backward pass of a plane: each cotangent goes to the winner of its window.

    >>> x = np.array([[1.0, 2.0, 0.0], [4.0, 3.0, 5.0], [0.0, 9.0, 8.0]])
    >>> dout = np.array([[1.0, 10.0], [20.0, 30.0]])
    >>> print(max_pool_plane_vjp(dout, x, (2, 2), stride=1))
    [[ 0.  0.  0.]
     [ 1.  0. 10.]
     [ 0. 50.  0.]]
    """
    _, winners = max_pool_plane(x, size, stride)
    dx = np.zeros_like(x)
    for (i, j), k in np.ndenumerate(winners):
        row, column = divmod(k, size[1])
        dx[stride * i + row, stride * j + column] += dout[i, j]
    return dx


def pool_layout(space, size, stride, padding, dilation, ceil_mode):
    """Options for each axis, the number of windows, and how far the last one reaches beyond."""
    axes = len(size)
    s, p = for_each_axis(size if stride is None else stride, axes), for_each_axis(padding, axes)
    d = for_each_axis(dilation, axes)
    extent = np.array(d) * (np.array(size) - 1) + 1
    around = np.array(space) + 2 * np.array(p)
    counts = (around - extent) // s + 1
    if ceil_mode:  # One more that is not whole, if it begins before the padding at the end.
        is_cut = (around - extent) % s > 0
        counts = counts + (is_cut & (counts * s < np.array(space) + p))
    beyond = np.maximum((counts - 1) * s + extent - around, 0)
    return s, p, d, tuple(counts), tuple(beyond)


def windows_of(x, size, stride, padding, value, dilation=1, ceil_mode=False, beyond=None):
    """All windows, with their elements along the last axis; another value beyond the padding."""
    space = x.shape[x.ndim - len(size) :]
    s, p, d, counts, more = pool_layout(space, size, stride, padding, dilation, ceil_mode)
    widths = [(0, 0)] * (x.ndim - len(size)) + [(0, n) for n in more]
    padded = np.pad(
        pad_space(x, p, value), widths, constant_values=value if beyond is None else beyond
    )
    return np.stack([padded[slices_at(k, counts, s, d)] for k in np.ndindex(size)], axis=-1)


def windows_of_vjp(dwindows, x, size, stride, padding, dilation=1, ceil_mode=False):
    """Backward pass of the windows: an element adds up all windows that it is in."""
    space = x.shape[x.ndim - len(size) :]
    s, p, d, counts, more = pool_layout(space, size, stride, padding, dilation, ceil_mode)
    widths = [(0, 0)] * (x.ndim - len(size)) + [(0, n) for n in more]
    dpadded = np.pad(pad_space(np.zeros_like(x), p), widths)
    for number, k in enumerate(np.ndindex(size)):
        dpadded[slices_at(k, counts, s, d)] += dwindows[..., number]
    return dpadded[(..., *(slice(q, q + n) for q, n in zip(p, space, strict=True)))]


def winners_of(x, size, stride, padding, **shape):
    """Number of the first of the largest elements of each window, outside of the padding."""
    values = windows_of(x.real, size, stride, padding, -np.inf, **shape)
    inside = windows_of(np.ones(x.shape, bool), size, stride, padding, False, **shape)
    largest = values == np.max(values, axis=-1, keepdims=True)
    return np.argmax(largest & inside, axis=-1)[..., None]


def max_pool(x, *, size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """
    Maximum of each window, along any number of axes.

    >>> x = np.array([1.0, 3.0, 2.0, 7.0, 5.0])
    >>> print(max_pool(x, size=(2,)))
    [3. 7.]
    """
    shape = {"dilation": dilation, "ceil_mode": ceil_mode}
    values = windows_of(x, size, stride, padding, -np.inf, **shape)
    winners = winners_of(x, size, stride, padding, **shape)
    return np.take_along_axis(values, winners, axis=-1)[..., 0]


def max_pool_vjp(dout, x, *, size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """
    Backward pass: to the winners, whose windows may overlap.

    >>> x = np.array([1.0, 3.0, 2.0, 7.0, 5.0])
    >>> print(max_pool_vjp(np.array([10.0, 20.0]), x, size=(2,)))
    [ 0. 10.  0. 20.  0.]
    """
    shape = {"dilation": dilation, "ceil_mode": ceil_mode}
    is_winner = np.arange(math.prod(size)) == winners_of(x, size, stride, padding, **shape)
    return windows_of_vjp(dout[..., None] * is_winner, x, size, stride, padding, **shape)


# == mean_pool


def mean_pool_plane(x, size, stride):
    """
    Mean of each window of a plane.

    >>> x = np.array([[4.0, 8.0, 0.0], [4.0, 0.0, 4.0], [0.0, 4.0, 8.0]])
    >>> print(mean_pool_plane(x, (2, 2), stride=1))
    [[4. 3.]
     [2. 4.]]
    """
    windows = np.lib.stride_tricks.sliding_window_view(x, size)[::stride, ::stride]
    return np.mean(windows, axis=(2, 3))


def mean_pool_plane_vjp(dout, x, size, stride):
    """
    Backward pass of a plane: equal shares.

    >>> x = np.array([[4.0, 8.0, 0.0], [4.0, 0.0, 4.0], [0.0, 4.0, 8.0]])
    >>> print(mean_pool_plane_vjp(4 * np.ones((2, 2)), x, (2, 2), stride=1))
    [[1. 2. 1.]
     [2. 4. 2.]
     [1. 2. 1.]]
    """
    rows, columns = size
    dx = np.zeros_like(x)
    for i, j in np.ndindex(dout.shape):
        top, left = stride * i, stride * j
        dx[top : top + rows, left : left + columns] += dout[i, j] / (rows * columns)
    return dx


def count_members(x, size, stride, padding, ceil_mode, count_include_pad):
    """Number of elements of each window, with or without the padding."""
    space = np.ones(x.shape[x.ndim - len(size) :], x.real.dtype)
    inside = windows_of(
        space, size, stride, padding, int(count_include_pad), ceil_mode=ceil_mode, beyond=0
    )
    return np.sum(inside, axis=-1)


def mean_pool(x, *, size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """
    Mean of each window, along any number of axes.

    >>> x = np.array([1.0, 3.0, 5.0, 7.0, 100.0])
    >>> print(mean_pool(x, size=(2,)))
    [2. 6.]
    """
    members = count_members(x, size, stride, padding, ceil_mode, count_include_pad)
    windows = windows_of(x, size, stride, padding, 0, ceil_mode=ceil_mode)
    return np.sum(windows, axis=-1) / members


def mean_pool_vjp(
    dout, x, *, size, stride=None, padding=0, ceil_mode=False, count_include_pad=True
):
    """
    Backward pass: equal shares from all windows of an element.

    >>> x = np.array([1.0, 3.0, 5.0, 7.0, 100.0])
    >>> print(mean_pool_vjp(np.array([2.0, 6.0]), x, size=(2,)))
    [1. 1. 3. 3. 0.]
    """
    share = dout / count_members(x, size, stride, padding, ceil_mode, count_include_pad)
    shares = np.broadcast_to(share[..., None], (*dout.shape, math.prod(size)))
    return windows_of_vjp(shares, x, size, stride, padding, ceil_mode=ceil_mode)


# == interpolate


def places_between(n, m, align_corners):
    """The two places of n that each of m outputs is read from, and the share of the second."""
    t = np.arange(m)
    at = t * (n - 1) / max(m - 1, 1) if align_corners else (t + 0.5) * n / m - 0.5
    at = np.maximum(at, 0)
    low = np.minimum(np.floor(at).astype(int), n - 1)
    return low, np.minimum(low + 1, n - 1), at - low


def interpolate_line(x, size, align_corners=False):
    """
    Along a line.

    >>> x = np.array([0.0, 4.0, 8.0])
    >>> print(interpolate_line(x, 6))
    [0. 1. 3. 5. 7. 8.]
    """
    low, high, share = places_between(len(x), size, align_corners)
    return (1 - share) * x[low] + share * x[high]


def interpolate(x, *, size, align_corners=False):
    """
    Along one axis after the other.

    >>> x = np.array([[0.0, 4.0], [8.0, 12.0]])
    >>> print(interpolate(x, size=(2, 3), align_corners=True))
    [[ 0.  2.  4.]
     [ 8. 10. 12.]]
    """
    for axis, m in zip(range(x.ndim - len(size), x.ndim), size, strict=True):
        low, high, share = places_between(x.shape[axis], m, align_corners)
        share = share.reshape(-1, *(x.ndim - axis - 1) * [1]).astype(x.real.dtype)
        x = (1 - share) * np.take(x, low, axis) + share * np.take(x, high, axis)
    return x


def interpolate_vjp(dout, x, *, size, align_corners=False):
    """
    Backward pass: every cotangent goes back to both places.

    >>> x, dout = np.array([0.0, 4.0, 8.0]), np.array([0.0, 8.0, 0.0, 0.0, 0.0])
    >>> print(interpolate_vjp(dout, x, size=(5,), align_corners=True))
    [4. 4. 0.]
    """
    for axis, m in zip(range(x.ndim - len(size), x.ndim), size, strict=True):
        low, high, share = (a[:, None] for a in places_between(x.shape[axis], m, align_corners))
        places = np.arange(x.shape[axis])
        weights = (1 - share) * (low == places) + share * (high == places)
        dx = np.moveaxis(dout, axis, -1) @ weights.astype(x.real.dtype)
        dout = np.moveaxis(dx, -1, axis)
    return dout


# == causal_conv


def causal_conv_sequence(x, weight, state):
    """
    Weighted sum of the last K inputs, and the state after them: x (T, D), weight (D, K).

    >>> x, weight = np.array([[1.0], [2.0], [4.0], [8.0]]), np.array([[100.0, 10.0, 1.0]])
    >>> y, state = causal_conv_sequence(x, weight, np.zeros((2, 1)))
    >>> print(y.ravel(), state.ravel())
    [  1.  12. 124. 248.] [4. 8.]
    """
    T, K = len(x), weight.shape[1]
    x = np.concatenate([state, x])  # The state holds the K - 1 inputs before the first.
    y = 0
    for k in range(K):
        y = y + weight[:, k] * x[k : k + T]
    return y, x[T:]


def causal_conv_sequence_vjp(dy, dlast, x, weight, state):
    """
    Backward pass of one sequence: gradients of inputs, weights and the first state.

    >>> x, weight = np.array([[1.0], [2.0], [4.0], [8.0]]), np.array([[100.0, 10.0, 1.0]])
    >>> dy, zero = np.array([[0.0], [0.0], [1.0], [0.0]]), np.zeros((2, 1))
    >>> dx, dweight, dstate = causal_conv_sequence_vjp(dy, zero, x, weight, zero)
    >>> print(dx.ravel(), dstate.ravel())
    [100.  10.   1.   0.] [0. 0.]
    >>> print(dweight)
    [[1. 2. 4.]]
    """
    T, K = len(x), weight.shape[1]
    x = np.concatenate([state, x])
    dx, dweight = np.zeros_like(x), np.zeros_like(weight)
    dx[T:] = dlast
    for k in range(K):
        dx[k : k + T] += weight[:, k] * dy
        dweight[:, k] = np.sum(dy * x[k : k + T], axis=0)
    return dx[K - 1 :], dweight, dx[: K - 1]


def with_state(x, weight, state):
    """Inputs of all steps, after the K - 1 inputs before the first."""
    D, K = weight.shape
    before = np.zeros((*x.shape[:-2], K - 1, D), x.dtype) if state is None else state
    return np.concatenate([before, x], axis=-2)


def documents(x, weight, segment_ids):
    """Number of the document of each input, from 0 on, after the K - 1 inputs before the first."""
    K = weight.shape[1]
    numbers = np.zeros((*x.shape[:-2], K - 1 + x.shape[-2]), int)
    if segment_ids is not None:
        numbers[..., K:] = np.cumsum(segment_ids[..., 1:] != segment_ids[..., :-1], axis=-1)
    return numbers


def causal_conv(x, weight, bias=None, state=None, *, segment_ids=None):
    """
    Causal convolution of batches, which may begin without a state and hold several documents.

    >>> x, weight = np.array([[1.0], [2.0], [4.0], [8.0]]), np.array([[100.0, 10.0, 1.0]])
    >>> first, state = causal_conv(x[:1], weight)
    >>> second, state = causal_conv(x[1:], weight, None, state)
    >>> print(first.ravel(), second.ravel())
    [1.] [ 12. 124. 248.]
    >>> y, state = causal_conv(x, weight, segment_ids=np.array([0, 0, 1, 1]))
    >>> print(y.ravel())
    [ 1. 12.  4. 48.]
    """
    T, K = x.shape[-2], weight.shape[1]
    n = documents(x, weight, segment_ids)[..., None]
    x = with_state(x, weight, state)
    y = 0 if bias is None else bias
    for k in range(K):
        own = n[..., k : k + T, :] == n[..., K - 1 :, :]
        y = y + np.where(own, weight[:, k] * x[..., k : k + T, :], 0)
    return y, np.where(n[..., T:, :] == n[..., -1:, :], x[..., T:, :], 0)


def causal_conv_vjp(dout, x, weight, bias=None, state=None, *, segment_ids=None):
    """
    Backward pass, from the cotangents of the outputs and of the last state.

    >>> x, weight = np.array([[1.0], [2.0], [4.0], [8.0]]), np.array([[100.0, 10.0, 1.0]])
    >>> dout = np.array([[0.0], [0.0], [1.0], [0.0]]), None
    >>> dx, dweight = causal_conv_vjp(dout, x, weight)
    >>> print(dx.ravel(), dweight)
    [100.  10.   1.   0.] [[1. 2. 4.]]
    """
    T, K = x.shape[-2], weight.shape[1]
    n = documents(x, weight, segment_ids)[..., None]
    x = with_state(x, weight, state)
    u = np.zeros_like(x[..., :T, :]) if dout[0] is None else dout[0]
    v = np.zeros_like(x[..., T:, :]) if dout[1] is None else dout[1]
    dx, dweight = np.zeros_like(x), np.zeros_like(weight)
    dx[..., T:, :] += np.where(n[..., T:, :] == n[..., -1:, :], v, 0)
    for k in range(K):
        own = n[..., k : k + T, :] == n[..., K - 1 :, :]
        dx[..., k : k + T, :] += np.where(own, weight[:, k] * u, 0)
        dweight[:, k] = np.sum(as_rows(np.where(own, u * x[..., k : k + T, :], 0)), axis=0)
    grads = [dx[..., K - 1 :, :], dweight]
    if bias is not None:
        grads.append(np.sum(as_rows(u), axis=0))
    if state is not None:
        grads.append(dx[..., : K - 1, :])
    return tuple(grads)
