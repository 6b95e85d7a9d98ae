"""
Formulas of the chapter on normalization.

x_hat is the normalized input and tau the number that divided it. Features or channels are the last
axis; weight and bias have a number for each of them, and None leaves them out. In backward passes
g is the gradient that arrives at x_hat.
"""

import math

import numpy as np

# == shared


def batch_axes(x):
    """All axes but the last."""
    return tuple(range(x.ndim - 1))


def scale_and_shift(x_hat, weight, bias):
    """Weight and bias, where they are given."""
    y = x_hat if weight is None else weight * x_hat
    return y if bias is None else y + bias


def scale_and_shift_vjp(dout, x_hat, weight, bias):
    """Backward pass: the gradients of x_hat and, where they are given, of weight and bias."""
    grads = [dout if weight is None else weight * dout]
    if weight is not None:
        grads.append(np.sum(dout * x_hat, axis=batch_axes(x_hat)))
    if bias is not None:
        grads.append(np.sum(dout, axis=batch_axes(x_hat)))
    return tuple(grads)


# == layer_norm


def layer_norm(x, weight=None, bias=None, *, eps=1e-5):
    """
    Each row by its own mean and variance.

    >>> x = np.array([1.0, 3.0, 5.0, 7.0])
    >>> print(layer_norm(x, eps=0) * np.sqrt(5))
    [-3. -1.  1.  3.]
    """
    mu = np.mean(x, axis=-1, keepdims=True)
    var = np.mean((x - mu) ** 2, axis=-1, keepdims=True)
    x_hat = (x - mu) / np.sqrt(var + eps)
    return scale_and_shift(x_hat, weight, bias)


def layer_norm_vjp(dout, x, weight=None, bias=None, *, eps=1e-5):
    """
    Backward pass: the means run over the row.

    >>> x, weight, bias = np.array([1.0, 7.0, 7.0, 9.0]), np.ones(4), np.zeros(4)
    >>> dout = np.array([1.0, 0.0, 0.0, 0.0])
    >>> dx, dweight, dbias = layer_norm_vjp(dout, x, weight, bias, eps=0)
    >>> print(dx * 54, dweight * 3, dbias)
    [ 1. -2. -2.  3.] [-5.  0.  0.  0.] [1. 0. 0. 0.]
    """
    mu = np.mean(x, axis=-1, keepdims=True)
    var = np.mean((x - mu) ** 2, axis=-1, keepdims=True)
    tau = np.sqrt(var + eps)
    x_hat = (x - mu) / tau
    g, *dparams = scale_and_shift_vjp(dout, x_hat, weight, bias)
    mean_g = np.mean(g, axis=-1, keepdims=True)
    along = np.mean(g * x_hat, axis=-1, keepdims=True)
    dx = (g - mean_g - x_hat * along) / tau
    return (dx, *dparams) if dparams else dx


def layer_norm_jacobian(x, weight=None, bias=None, *, eps=1e-5):
    """
    The identity without two projections, for each row.

    >>> x = np.array([1.0, 3.0, 5.0, 7.0])
    >>> print(layer_norm_jacobian(x, eps=0) * 10 * np.sqrt(5))
    [[ 3. -4. -1.  2.]
     [-4.  7. -2. -1.]
     [-1. -2.  7. -4.]
     [ 2. -1. -4.  3.]]
    """
    D = x.shape[-1]
    mu = np.mean(x, axis=-1, keepdims=True)
    tau = np.sqrt(np.mean((x - mu) ** 2, axis=-1, keepdims=True) + eps)
    x_hat = (x - mu) / tau
    onto_x_hat = x_hat[..., :, None] * x_hat[..., None, :] / D
    jacobian = (np.eye(D, dtype=x.dtype) - 1 / D - onto_x_hat) / tau[..., None]
    return jacobian if weight is None else weight[:, None] * jacobian


# == rms_norm


def rms_norm(x, weight=None, *, eps=1e-6, weight_offset=0.0):
    """
    Each row by its own mean square.

    >>> x = np.array([3.0, 4.0])
    >>> print(rms_norm(x, eps=0) * np.sqrt(12.5))
    [3. 4.]
    """
    rho = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    x_hat = x / rho
    return x_hat if weight is None else (weight + weight_offset) * x_hat


def rms_norm_vjp(dout, x, weight=None, *, eps=1e-6, weight_offset=0.0):
    """
    Backward pass: the mean runs over the row.

    >>> x, dout = np.array([3.0, 4.0]), np.array([1.0, 0.0])
    >>> dx = rms_norm_vjp(dout, x, eps=0)
    >>> print(dx * np.sqrt(12.5))
    [ 0.64 -0.48]
    """
    rho = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    x_hat = x / rho
    g = dout if weight is None else (weight + weight_offset) * dout
    dx = (g - x_hat * np.mean(g * x_hat, axis=-1, keepdims=True)) / rho
    if weight is None:
        return dx
    return dx, np.sum(dout * x_hat, axis=batch_axes(x))


def rms_norm_jacobian(x, weight=None, *, eps=1e-6, weight_offset=0.0):
    """
    The identity without one projection, for each row.

    >>> x = np.array([3.0, 4.0])
    >>> print(rms_norm_jacobian(x, eps=0) * np.sqrt(12.5))
    [[ 0.64 -0.48]
     [-0.48  0.36]]
    """
    D = x.shape[-1]
    rho = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    x_hat = x / rho
    onto_x_hat = x_hat[..., :, None] * x_hat[..., None, :] / D
    jacobian = (np.eye(D, dtype=x.dtype) - onto_x_hat) / rho[..., None]
    return jacobian if weight is None else (weight + weight_offset)[:, None] * jacobian


# == l2_norm


def l2_length(x, eps, clamp):
    """Length of each row, with eps in the root, or as the least length."""
    squares = np.sum(x * x, axis=-1, keepdims=True)
    if not clamp:
        return np.sqrt(squares + eps)
    length = np.sqrt(squares)
    return np.where(length.real < eps, eps, length)


def l2_norm(x, *, eps=1e-6, clamp=False):
    """
    Each row by its length.

    >>> x = np.array([3.0, 4.0])
    >>> print(l2_norm(x, eps=0))
    [0.6 0.8]
    """
    return x / l2_length(x, eps, clamp)


def l2_norm_vjp(dout, x, *, eps=1e-6, clamp=False):
    """
    Backward pass: the part of the cotangent along the row drops out.

    >>> x, dout = np.array([3.0, 4.0]), np.array([25.0, 0.0])
    >>> print(l2_norm_vjp(dout, x, eps=0))
    [ 3.2 -2.4]
    """
    length = l2_length(x, eps, clamp)
    y = x / length
    along = y * np.sum(y * dout, axis=-1, keepdims=True)
    if clamp:  # A row that is divided by a constant has no length in its gradient.
        along = np.where(np.sqrt(np.sum(x * x, axis=-1, keepdims=True)) < eps, 0, along)
    return (dout - along) / length


# == weight_norm


def weight_norm(v, g, *, axis=0):
    """
    Each row gets its length.

    >>> v, g = np.array([[3.0, 4.0], [0.0, 5.0]]), np.array([10.0, 2.0])
    >>> print(weight_norm(v, g))
    [[6. 8.]
     [0. 2.]]
    """
    unit, _, lengths = directions(v, g, axis)
    return lengths * unit


def other_axes(v, axis):
    """All axes but one."""
    return tuple(k for k in range(v.ndim) if axis is None or k != axis % v.ndim)


def directions(v, g, axis):
    """Rows of length 1, the lengths that they had, and the ones that they get."""
    norm = np.sqrt(np.sum(v * v, axis=other_axes(v, axis), keepdims=True))
    return v / norm, norm, np.expand_dims(g, other_axes(v, axis))


def weight_norm_vjp(dout, v, g, *, axis=0):
    """
    Backward pass: the part along the row is for the length, the rest for the direction.

    >>> dout, v, g = np.array([[25.0, 0.0]]), np.array([[3.0, 4.0]]), np.array([10.0])
    >>> dv, dg = weight_norm_vjp(dout, v, g)
    >>> print(dv, dg)
    [[ 32. -24.]] [15.]
    """
    unit, norm, lengths = directions(v, g, axis)
    along = np.sum(unit * dout, axis=other_axes(v, axis), keepdims=True)
    return lengths / norm * (dout - unit * along), np.reshape(along, np.shape(g))


# == sinkhorn


def half_steps(x, steps):
    """Divide rows and columns by their sums, by turns; each matrix with the axis of its sums."""
    p, out = np.exp(x - np.max(x.real, axis=-1, keepdims=True)), []
    for _ in range(steps):
        for axis in (-1, -2):
            p = p / np.sum(p, axis=axis, keepdims=True)
            out.append((axis, p))
    return out


def sinkhorn(x, *, steps=20):
    """
    The matrix after the last half step.

    >>> x = np.log(np.array([[4.0, 1.0], [1.0, 1.0]]))
    >>> print(sinkhorn(x).round(4))
    [[0.6667 0.3333]
     [0.3333 0.6667]]
    """
    return half_steps(x, steps)[-1][1] if x.size else x


def sinkhorn_vjp(dout, x, *, steps=20):
    """
    Backward pass: the half steps in reverse, on the gradient of the logarithms.

    >>> dout = np.array([[8.0, 0.0], [0.0, 0.0]])
    >>> print(sinkhorn_vjp(dout, np.zeros((2, 2))))
    [[ 1. -1.]
     [-1.  1.]]
    """
    if not x.size:
        return x
    halves = half_steps(x, steps)
    g = dout * halves[-1][1]
    for axis, p in reversed(halves):
        g = g - p * np.sum(g, axis=axis, keepdims=True)
    return g


# == batch_norm


def batch_norm(x, weight=None, bias=None, *, eps=1e-5):
    """
    Each channel by its mean and variance over the batch.

    >>> x = np.array([[1.0, 10.0], [3.0, 10.0], [5.0, 40.0], [7.0, 40.0]])
    >>> print(batch_norm(x, eps=0).round(4))
    [[-1.3416 -1.    ]
     [-0.4472 -1.    ]
     [ 0.4472  1.    ]
     [ 1.3416  1.    ]]
    """
    mu = np.mean(x, axis=batch_axes(x))
    var = np.mean((x - mu) ** 2, axis=batch_axes(x))
    x_hat = (x - mu) / np.sqrt(var + eps)
    return scale_and_shift(x_hat, weight, bias)


def batch_norm_vjp(dout, x, weight=None, bias=None, *, eps=1e-5):
    """
    Backward pass: the means run over the batch.

    >>> x, dout = np.array([[1.0], [3.0], [5.0], [7.0]]), np.array([[1.0], [0.0], [0.0], [0.0]])
    >>> weight, bias = np.array([np.sqrt(5)]), np.array([0.0])
    >>> dx, dweight, dbias = batch_norm_vjp(dout, x, weight, bias, eps=0)
    >>> print(dx.ravel(), dweight.round(4), dbias)
    [ 0.3 -0.4 -0.1  0.2] [-1.3416] [1.]
    """
    mu = np.mean(x, axis=batch_axes(x))
    var = np.mean((x - mu) ** 2, axis=batch_axes(x))
    tau = np.sqrt(var + eps)
    x_hat = (x - mu) / tau
    g, *dparams = scale_and_shift_vjp(dout, x_hat, weight, bias)
    mean_g = np.mean(g, axis=batch_axes(x))
    along = np.mean(g * x_hat, axis=batch_axes(x))
    dx = (g - mean_g - x_hat * along) / tau
    return (dx, *dparams) if dparams else dx


# == batch_norm_train


def batch_norm_train(x, mean, var, weight=None, bias=None, *, momentum=0.1, eps=1e-5):
    """
    The normalized batch, and the running statistics moved towards its own.

    >>> x, mean, var = np.array([[1.0], [3.0]]), np.array([0.0]), np.array([1.0])
    >>> y, mean, var = batch_norm_train(x, mean, var, momentum=0.25, eps=0)
    >>> print(y.ravel(), mean, var)
    [-1.  1.] [0.5] [1.25]
    """
    M = x[..., 0].size
    mu = np.mean(x, axis=batch_axes(x))
    unbiased = np.sum((x - mu) ** 2, axis=batch_axes(x)) / (M - 1)
    y = batch_norm(x, weight, bias, eps=eps)
    mean = batch_norm_update(mean, mu, momentum=momentum)
    var = batch_norm_update(var, unbiased, momentum=momentum)
    return y, mean, var


def batch_norm_train_vjp(dout, x, mean, var, weight=None, bias=None, *, momentum=0.1, eps=1e-5):
    """
    Backward pass: the running statistics are a record, and get no gradient.

    >>> x, dout = np.array([[1.0], [3.0], [5.0], [7.0]]), np.array([[1.0], [0.0], [0.0], [0.0]])
    >>> mean, var, weight = np.array([0.0]), np.array([1.0]), np.array([np.sqrt(5)])
    >>> dx, dweight = batch_norm_train_vjp(dout, x, mean, var, weight, eps=0)
    >>> print(dx.ravel(), dweight.round(4))
    [ 0.3 -0.4 -0.1  0.2] [-1.3416]
    """
    return batch_norm_vjp(dout, x, weight, bias, eps=eps)


# == batch_norm_inference


def batch_norm_inference(x, mean, var, weight=None, bias=None, *, eps=1e-5):
    """
    Each channel by given statistics.

    >>> x, mean, var = np.array([4.0, 5.0]), np.array([2.0, 1.0]), np.array([4.0, 16.0])
    >>> weight, bias = np.array([1.0, 2.0]), np.array([0.0, 1.0])
    >>> print(batch_norm_inference(x, mean, var, weight, bias, eps=0))
    [1. 3.]
    """
    x_hat = (x - mean) / np.sqrt(var + eps)
    return scale_and_shift(x_hat, weight, bias)


def batch_norm_inference_vjp(dout, x, mean, var, weight=None, bias=None, *, eps=1e-5):
    """
    Backward pass: the statistics are inputs like any others.

    >>> x, mean, var = np.array([4.0]), np.array([2.0]), np.array([4.0])
    >>> dx, dmean, dvar = batch_norm_inference_vjp(np.array([8.0]), x, mean, var, eps=0)
    >>> print(dx, dmean, dvar)
    [4.] [-4.] [-1.]
    """
    tau = np.sqrt(var + eps)
    x_hat = (x - mean) / tau
    g, *dparams = scale_and_shift_vjp(dout, x_hat, weight, bias)
    dx = g / tau
    dmean = -np.sum(dx, axis=batch_axes(x))
    dvar = -np.sum(g * x_hat, axis=batch_axes(x)) / (2 * tau**2)
    return dx, dmean, dvar, *dparams


# == batch_norm_update


def batch_norm_update(running, batch, *, momentum):
    """
    A mean whose weights fade exponentially.

    >>> x = np.array([[1.0, 0.0], [3.0, 4.0]])
    >>> print(batch_norm_update(np.zeros(2), x.mean(axis=0), momentum=0.25))
    [0.5 0.5]
    """
    return (1 - momentum) * running + momentum * batch


def batch_norm_update_vjp(dout, running, batch, *, momentum):
    """
    Backward pass: the cotangent in two shares.

    >>> dout, running, batch = np.array([4.0]), np.array([1.0]), np.array([2.0])
    >>> print(*batch_norm_update_vjp(dout, running, batch, momentum=0.25))
    [3.] [1.]
    """
    return (1 - momentum) * dout, momentum * dout


# == group_norm


def rows_of_groups(x, groups):
    """A row for each sample and group: all positions of its channels."""
    N, *positions, C = x.shape
    T, size = math.prod(positions), C // groups
    parts = x.reshape(N, T, groups, size)
    return np.swapaxes(parts, 1, 2).reshape(N, groups, T * size)


def groups_of_rows(rows, shape):
    """The samples that such rows were made of."""
    N, groups, width = rows.shape
    size = shape[-1] // groups
    parts = rows.reshape(N, groups, width // size, size)
    return np.swapaxes(parts, 1, 2).reshape(shape)


def group_norm(x, groups, weight=None, bias=None, *, eps=1e-5):
    """
    Layer normalization of the groups, then the factors of the channels.

    >>> x = np.array([[1.0, 3.0, 10.0, 10.0]])
    >>> print(group_norm(x, 2).round(4))
    [[-1.  1.  0.  0.]]
    """
    rows = layer_norm(rows_of_groups(x, groups), eps=eps)
    x_hat = groups_of_rows(rows, x.shape)
    return scale_and_shift(x_hat, weight, bias)


def group_norm_vjp(dout, x, groups, weight=None, bias=None, *, eps=1e-5):
    """
    Backward pass: the factors of the channels first, then the groups.

    >>> x = np.array([[1.0, 3.0, 5.0, 7.0, 7.0, 5.0, 3.0, 1.0]])
    >>> dout = np.array([[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
    >>> print(group_norm_vjp(dout, x, 2, eps=0) * 10 * np.sqrt(5))
    [[ 3. -4. -1.  2.  0.  0.  0.  0.]]
    """
    rows = rows_of_groups(x, groups)
    x_hat = groups_of_rows(layer_norm(rows, eps=eps), x.shape)
    g, *dparams = scale_and_shift_vjp(dout, x_hat, weight, bias)
    drows = layer_norm_vjp(rows_of_groups(g, groups), rows, eps=eps)
    dx = groups_of_rows(drows, x.shape)
    return (dx, *dparams) if dparams else dx


# == instance_norm


def instance_norm(x, weight=None, bias=None, *, eps=1e-5):
    """
    Every channel is a group of its own.

    >>> image = np.array([[1.0], [3.0], [5.0], [7.0]])
    >>> x = np.stack([image, 10 * image + 50])
    >>> print(instance_norm(x, eps=0)[..., 0] * np.sqrt(5))
    [[-3. -1.  1.  3.]
     [-3. -1.  1.  3.]]
    """
    return group_norm(x, x.shape[-1], weight, bias, eps=eps)


def instance_norm_vjp(dout, x, weight=None, bias=None, *, eps=1e-5):
    """
    Backward pass: every image and channel by itself.

    >>> x = np.array([[[1.0], [3.0], [5.0], [7.0]]])
    >>> dout = np.array([[[1.0], [0.0], [0.0], [0.0]]])
    >>> dx, dweight = instance_norm_vjp(dout, x, np.array([np.sqrt(5)]), eps=0)
    >>> print(dx.ravel(), dweight.round(4))
    [ 0.3 -0.4 -0.1  0.2] [-1.3416]
    """
    return group_norm_vjp(dout, x, x.shape[-1], weight, bias, eps=eps)
