"""
Derivatives of the maps that NumPy has: arithmetic, reductions, matrices, chains.

Operands are w and x, matrices a and b, and y is the output. The cotangent `dout` has the shape of
the output. A `_grad` is the backward pass of a cotangent of 1.
"""

import functools
import math

import numpy as np
import scipy.special

# == shared


def absolute(x):
    """Absolute value."""
    # np.abs would drop the imaginary part, in which a complex step has the derivative.
    return np.where(x.real < 0, -x, x)


def sum_to_shape(dout, shape):
    """Backward pass of a broadcast: the sum over all copies of an element."""
    added = dout.ndim - len(shape)
    stretched = [i for i, n in enumerate(shape) if n == 1]
    dout = np.sum(dout, axis=tuple(range(added)))
    return np.sum(dout, axis=tuple(stretched), keepdims=True)


def spread(dout, x, axis, keepdims):
    """Hand the cotangent of each slice to all elements of the slice."""
    if axis is not None and not keepdims:
        dout = np.expand_dims(dout, axis)
    return np.broadcast_to(dout, x.shape)


def slice_size(x, axis):
    """Number of elements that a reduction combines."""
    if axis is None:
        return x.size
    axes = axis if isinstance(axis, tuple) else (axis,)
    return math.prod(x.shape[i] for i in axes)


# == accumulation


def cost_of_mode(shapes, mode):
    """
    Multiplications of a product of Jacobians, from the left or from the right.

    >>> loss = [(1, 10), (10, 100), (100, 1000)]
    >>> print(cost_of_mode(loss, "reverse"), cost_of_mode(loss, "forward"))
    101000 1010000
    """
    rows, columns = shapes[0][0], shapes[-1][1]
    cost = 0
    if mode == "reverse":  # From the output: each product has the rows of the first Jacobian.
        for m, n in shapes[1:]:
            cost += rows * m * n
    if mode == "forward":  # From the input: each product has the columns of the last one.
        for m, n in shapes[:-1]:
            cost += m * n * columns
    return cost


def chain_cost(shapes, *, mode="optimal"):
    """
    Cheapest order of multiplication, by the best last product of each part of the chain.

    >>> chain = [(10, 30), (30, 2), (2, 30), (30, 10)]
    >>> print(*chain_cost(chain))
    1400 ((0, 1), (2, 3))
    """
    widths = [shapes[0][0], *(columns for _, columns in shapes)]

    @functools.cache
    def best(i, j):
        if i == j:
            return 0, i
        splits = {"forward": [i], "reverse": [j - 1], "optimal": range(j - 1, i - 1, -1)}[mode]
        candidates = []
        for k in splits:
            left, left_order = best(i, k)
            right, right_order = best(k + 1, j)
            last = widths[i] * widths[k + 1] * widths[j + 1]
            candidates.append((left + right + last, (left_order, right_order)))
        return sorted(candidates, key=lambda candidate: candidate[0])[0]

    return best(0, len(shapes) - 1)


# == chain_rule


def matrix_chain(*jacobians):
    """
    Jacobian of a composition of maps of vectors, the outermost map first.

    >>> x = 1.0
    >>> u = np.array([x**2, np.sin(x)])
    >>> J_f, J_g = np.array([[1.0, 1.0], [u[1], u[0]]]), np.array([[2 * x], [np.cos(x)]])
    >>> print(np.round(matrix_chain(J_f, J_g), 4))
    [[2.5403]
     [2.2232]]
    """
    return functools.reduce(np.matmul, jacobians)


def scalar_variables(jacobians):
    """Which variables of a chain are scalars, from the output to the input."""
    # A Jacobian with one axis has a scalar on one side and a vector on the other. The first one
    # with another number of axes decides; a chain without such a Jacobian begins with a row.
    decisive = [k for k, jacobian in enumerate(jacobians) if jacobian.ndim != 1]
    output = True
    if decisive:
        k = decisive[0]
        output = (jacobians[k].ndim == 0) != (k % 2 == 1)
    variables = [output]
    for jacobian in jacobians:
        changes = jacobian.ndim == 1
        variables.append(variables[-1] != changes)
    return variables


def chain_rule(*jacobians):
    """
    Jacobian of a composition, between scalars and vectors.

    >>> gradient, velocity = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    >>> print(chain_rule(gradient, velocity))
    32.0
    """
    is_scalar = scalar_variables(jacobians)
    matrices = []
    for jacobian, output, given in zip(jacobians, is_scalar, is_scalar[1:], strict=False):
        shape = (1 if output else -1, 1 if given else -1)
        matrices.append(jacobian if jacobian.ndim > 1 else jacobian.reshape(shape))
    product = matrix_chain(*matrices)
    product = product[..., 0, :] if is_scalar[0] else product
    return product[..., 0] if is_scalar[-1] else product


def total_derivative(partials, inner):
    """
    Sum over all paths from the input to the output.

    >>> x, one = np.array(2.0), np.array(1.0)  # y = x + u with u = x ** 2
    >>> print(total_derivative([one, one], [one, 2 * x]))
    5.0
    """
    return np.sum([chain_rule(f, u) for f, u in zip(partials, inner, strict=True)], axis=0)


# == elementary


def exp(x):
    """Exponential."""
    return np.exp(x)


def exp_deriv(x):
    """
    Slope of the exponential: the exponential.

    >>> x = np.array([0.0, np.log(3.0)])
    >>> print(np.round(exp_deriv(x), 4))
    [1. 3.]
    """
    return np.exp(x)


def exp_vjp(dout, x):
    """Backward pass."""
    return dout * exp_deriv(x)


def log(x):
    """Natural logarithm."""
    return np.log(x)


def log_deriv(x):
    """
    Slope of the logarithm.

    >>> x = np.array([0.25, 1.0, 4.0])
    >>> print(log_deriv(x))
    [4.   1.   0.25]
    """
    return np.where(x.real < 0, np.nan, 1 / absolute(x))


def log_vjp(dout, x):
    """Backward pass."""
    return dout * log_deriv(x)


def log1p(x):
    """Logarithm of 1 + x."""
    return np.log1p(x)


def log1p_deriv(x):
    """
    Slope of the logarithm of 1 + x.

    >>> x = np.array([0.0, 3.0, -0.5])
    >>> print(log1p_deriv(x))
    [1.   0.25 2.  ]
    """
    return log_deriv(1 + x)


def log1p_vjp(dout, x):
    """Backward pass."""
    return dout * log1p_deriv(x)


def expm1(x):
    """Exponential minus 1."""
    return np.expm1(x)


def expm1_deriv(x):
    """
    Slope of the exponential minus 1: the constant has none.

    >>> x = np.array([0.0, np.log(3.0)])
    >>> print(np.round(expm1_deriv(x), 4))
    [1. 3.]
    """
    return np.exp(x)


def expm1_vjp(dout, x):
    """Backward pass."""
    return dout * expm1_deriv(x)


def sqrt(x):
    """Square root."""
    return np.sqrt(x)


def sqrt_deriv(x):
    """
    Slope of the square root.

    >>> x = np.array([0.25, 4.0])
    >>> print(sqrt_deriv(x))
    [1.   0.25]
    """
    return 1 / (2 * absolute(np.sqrt(x)))


def sqrt_vjp(dout, x):
    """Backward pass."""
    return dout * sqrt_deriv(x)


def sin(x):
    """Sine."""
    return np.sin(x)


def sin_deriv(x):
    """
    Slope of the sine.

    >>> x = np.array([0.0, np.pi / 3])
    >>> print(np.round(sin_deriv(x), 4))
    [1.  0.5]
    """
    return np.cos(x)


def sin_vjp(dout, x):
    """Backward pass."""
    return dout * sin_deriv(x)


def cos(x):
    """Cosine."""
    return np.cos(x)


def cos_deriv(x):
    """
    Slope of the cosine.

    >>> x = np.array([np.pi / 2, np.pi / 6])
    >>> print(np.round(cos_deriv(x), 4))
    [-1.  -0.5]
    """
    return -np.sin(x)


def cos_vjp(dout, x):
    """Backward pass."""
    return dout * cos_deriv(x)


def tan(x):
    """Tangent."""
    return np.tan(x)


def tan_deriv(x):
    """
    Slope of the tangent.

    >>> x = np.array([0.0, np.pi / 4])
    >>> print(np.round(tan_deriv(x), 4))
    [1. 2.]
    """
    return 1 + np.tan(x) ** 2


def tan_vjp(dout, x):
    """Backward pass."""
    return dout * tan_deriv(x)


def erf(x):
    """Error function."""
    return scipy.special.erf(x)


def erf_deriv(x):
    """
    Slope of the error function: its integrand.

    >>> x = np.array([0.0, 1.0])
    >>> print(np.round(erf_deriv(x), 4))
    [1.1284 0.4151]
    """
    return 2 / np.pi**0.5 * np.exp(-(x**2))


def erf_vjp(dout, x):
    """Backward pass."""
    return dout * erf_deriv(x)


def absolute_deriv(x):
    """
    Slope of the absolute value, 0 at the kink.

    >>> x = np.array([-2.0, 0.0, 0.5])
    >>> print(absolute_deriv(x))
    [-1.  0.  1.]
    """
    return np.sign(x.real)


def absolute_vjp(dout, x):
    """Backward pass."""
    return dout * absolute_deriv(x)


def clip(x, *, min=None, max=None):
    """The input, or the limit that it exceeds."""
    x = x if min is None else np.where(x.real < min, min, x)
    return x if max is None else np.where(x.real > max, max, x)


def clip_deriv(x, *, min=None, max=None):
    """
    Slope of a restriction to an interval: 1 inside and at the limits, 0 outside.

    >>> x = np.array([-3.0, -1.0, 0.5, 1.0, 3.0])
    >>> print(clip_deriv(x, min=-1, max=1))
    [0. 1. 1. 1. 0.]
    """
    slope = np.where(np.isnan(x), x, np.ones_like(x))
    slope = slope if min is None else np.where(x < min, 0, slope)
    return slope if max is None else np.where(x > max, 0, slope)


def clip_vjp(dout, x, *, min=None, max=None):
    """Backward pass."""
    return dout * clip_deriv(x, min=min, max=max)


# == add


def add(w, x):
    """
    Sum of two operands.

    >>> w, x = np.array([2.0, 3.0, 4.0]), np.array([5.0, 6.0, 7.0])
    >>> print(add(w, x))
    [ 7.  9. 11.]
    """
    return w + x


def add_vjp(dout, w, x):
    """
    Backward pass: a sum copies the cotangent.

    >>> w, x = np.array([2.0, 3.0, 4.0]), np.array([5.0])
    >>> dout = np.array([1.0, 10.0, 100.0])
    >>> print(*add_vjp(dout, w, x))
    [  1.  10. 100.] [111.]
    """
    return sum_to_shape(dout, w.shape), sum_to_shape(dout, x.shape)


# == subtract


def subtract(w, x):
    """
    Difference of two operands.

    >>> w, x = np.array([2.0, 3.0, 4.0]), np.array([5.0, 6.0, 7.0])
    >>> print(subtract(w, x))
    [-3. -3. -3.]
    """
    return w - x


def subtract_vjp(dout, w, x):
    """
    Backward pass.

    >>> w, x = np.array([3.0, 1.0, 2.0]), np.array([2.0])
    >>> dout = np.array([1.0, 2.0, 4.0])
    >>> print(*subtract_vjp(dout, w, x))
    [1. 2. 4.] [-7.]
    """
    return sum_to_shape(dout, w.shape), sum_to_shape(-dout, x.shape)


# == multiply


def multiply(w, x):
    """
    Product of two operands.

    >>> w, x = np.array([2.0, 3.0, 4.0]), np.array([5.0, 6.0, 7.0])
    >>> print(multiply(w, x))
    [10. 18. 28.]
    """
    return w * x


def multiply_vjp(dout, w, x):
    """
    Backward pass: a product swaps its operands.

    >>> w, x = np.array([2.0, 3.0, 4.0]), np.array([5.0])
    >>> print(*multiply_vjp(np.ones(3), w, x))
    [5. 5. 5.] [9.]
    """
    return sum_to_shape(dout * x, w.shape), sum_to_shape(dout * w, x.shape)


# == divide


def divide(w, x):
    """
    Quotient of two operands.

    >>> w, x = np.array(3.0), np.array(4.0)
    >>> print(divide(w, x))
    0.75
    """
    return w / x


def divide_vjp(dout, w, x):
    """
    Backward pass.

    >>> w, x = np.array(3.0), np.array(4.0)
    >>> print(*divide_vjp(np.array(1.0), w, x))
    0.25 -0.1875
    """
    y = w / x
    dw = dout / x
    dx = -dout * y / x
    return sum_to_shape(dw, w.shape), sum_to_shape(dx, x.shape)


# == power


def power(w, x):
    """
    Power of two operands.

    >>> w, x = np.array(2.0), np.array([1.0, 2.0, 3.0])
    >>> print(power(w, x))
    [2. 4. 8.]
    """
    return w**x


def power_vjp(dout, w, x):
    """
    Backward pass.

    >>> w, x = np.array(2.0), np.array([1.0, 2.0, 3.0])
    >>> dw, dx = power_vjp(np.ones(3), w, x)
    >>> print(dw, dx / np.log(2))
    17.0 [2. 4. 8.]
    """
    slope_w = np.where(x == 0, 0, x * w ** (x - 1))
    slope_x = np.where((w == 0) & (x.real >= 0), 0, w**x * np.log(w))
    return sum_to_shape(dout * slope_w, w.shape), sum_to_shape(dout * slope_x, x.shape)


# == maximum


def maximum(w, x):
    """
    The larger of two operands.

    >>> w, x = np.array([3.0, 1.0, 2.0]), np.array([1.0, 3.0, 2.0])
    >>> print(maximum(w, x))
    [3. 3. 2.]
    """
    return np.where(w.real > x.real, w, x)


def maximum_vjp(dout, w, x):
    """
    Backward pass: to the larger operand, or half to each at a tie.

    >>> w, x = np.array([3.0, 1.0, 2.0]), np.array([1.0, 3.0, 2.0])
    >>> print(*maximum_vjp(np.ones(3), w, x))
    [1.  0.  0.5] [0.  1.  0.5]
    """
    dw = dout * np.heaviside(w - x, 0.5)
    dx = dout * np.heaviside(x - w, 0.5)
    return sum_to_shape(dw, w.shape), sum_to_shape(dx, x.shape)


# == minimum


def minimum(w, x):
    """
    The smaller of two operands.

    >>> w, x = np.array([3.0, 1.0, 2.0]), np.array([1.0, 3.0, 2.0])
    >>> print(minimum(w, x))
    [1. 1. 2.]
    """
    return np.where(w.real < x.real, w, x)


def minimum_vjp(dout, w, x):
    """
    Backward pass: to the smaller operand, or half to each at a tie.

    >>> w, x = np.array([3.0, 1.0, 2.0]), np.array([1.0, 3.0, 2.0])
    >>> print(*minimum_vjp(np.ones(3), w, x))
    [0.  1.  0.5] [1.  0.  0.5]
    """
    dw = dout * np.heaviside(x - w, 0.5)
    dx = dout * np.heaviside(w - x, 0.5)
    return sum_to_shape(dw, w.shape), sum_to_shape(dx, x.shape)


# == sum


def sum(x, *, axis=None, keepdims=False):
    """
    Sum over axes.

    >>> x = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> print(sum(x, axis=1))
    [ 6. 15.]
    """
    return np.sum(x, axis=axis, keepdims=keepdims)


def sum_grad(x, *, axis=None):
    """Gradient: every element counts once."""
    return np.ones_like(x)


def sum_vjp(dout, x, *, axis=None, keepdims=False):
    """
    Backward pass: every element gets the cotangent of its sum.

    >>> x = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> print(sum_vjp(np.array([10.0, 20.0]), x, axis=1))
    [[10. 10. 10.]
     [20. 20. 20.]]
    """
    return spread(dout, x, axis, keepdims) * sum_grad(x, axis=axis)


# == mean


def mean(x, *, axis=None, keepdims=False):
    """
    Mean over axes.

    >>> x = np.array([2.0, 3.0, 4.0, 5.0])
    >>> print(mean(x))
    3.5
    """
    n = slice_size(x, axis)
    return np.sum(x, axis=axis, keepdims=keepdims) / n


def mean_grad(x, *, axis=None):
    """Gradient: equal shares."""
    n = slice_size(x, axis)
    return np.ones_like(x) / n


def mean_vjp(dout, x, *, axis=None, keepdims=False):
    """
    Backward pass.

    >>> x = np.array([2.0, 3.0, 4.0, 5.0])
    >>> print(mean_vjp(1.0, x))
    [0.25 0.25 0.25 0.25]
    """
    return spread(dout, x, axis, keepdims) * mean_grad(x, axis=axis)


# == prod


def prod(x, *, axis=None, keepdims=False):
    """
    Product over axes.

    >>> x = np.array([[2.0, 3.0], [0.0, 5.0]])
    >>> print(prod(x, axis=1))
    [6. 0.]
    """
    return np.prod(x, axis=axis, keepdims=keepdims)


def product_of_others(x):
    """Product of all other elements of a row, for each element."""
    itself = np.eye(x.shape[-1], dtype=bool)
    others = np.where(itself, 1, x[..., None, :])
    return np.prod(others, axis=-1)


def prod_grad(x, *, axis=None):
    """Gradient: the slope of a factor is the product of the others."""
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    last = tuple(range(-len(axes), 0))
    slices = np.moveaxis(x, axes, last)
    rows = slices.reshape(-1, slice_size(x, axis))
    return np.moveaxis(product_of_others(rows).reshape(slices.shape), last, axes)


def prod_vjp(dout, x, *, axis=None, keepdims=False):
    """
    Backward pass.

    >>> x = np.array([[2.0, 3.0], [0.0, 5.0]])
    >>> print(prod_vjp(np.array([1.0, 10.0]), x, axis=1))
    [[ 3.  2.]
     [50.  0.]]
    """
    return spread(dout, x, axis, keepdims) * prod_grad(x, axis=axis)


# == max


def max(x, *, axis=None, keepdims=False):
    """
    Largest element over axes.

    >>> x = np.array([7.0, 2.0, 7.0, 4.0])
    >>> print(max(x))
    7.0
    """
    # Complex numbers compare by their real parts first.
    return np.max(x, axis=axis, keepdims=keepdims)


def max_grad(x, *, axis=None):
    """Gradient: 1 at the largest element, shared evenly among equals."""
    largest = np.max(x, axis=axis, keepdims=True)
    winners = (x == largest).astype(x.dtype)
    return winners / np.sum(winners, axis=axis, keepdims=True)


def max_vjp(dout, x, *, axis=None, keepdims=False):
    """
    Backward pass.

    >>> x = np.array([7.0, 2.0, 7.0, 4.0])
    >>> print(max_vjp(1.0, x))
    [0.5 0.  0.5 0. ]
    """
    return spread(dout, x, axis, keepdims) * max_grad(x, axis=axis)


# == min


def min(x, *, axis=None, keepdims=False):
    """
    Smallest element over axes.

    >>> x = np.array([7.0, 2.0, 2.0, 4.0])
    >>> print(min(x))
    2.0
    """
    return -max(-x, axis=axis, keepdims=keepdims)


def min_grad(x, *, axis=None):
    """Gradient: 1 at the smallest element, shared evenly among equals."""
    return max_grad(-x, axis=axis)


def min_vjp(dout, x, *, axis=None, keepdims=False):
    """
    Backward pass.

    >>> x = np.array([7.0, 2.0, 2.0, 4.0])
    >>> print(min_vjp(1.0, x))
    [0.  0.5 0.5 0. ]
    """
    return spread(dout, x, axis, keepdims) * min_grad(x, axis=axis)


# == scans


def rows_so_far(x, nothing, axis, reverse, exclusive):
    """The elements that each number of a scan combines, with `nothing` for all others."""
    x = np.moveaxis(x, axis, -1)
    n = x.shape[-1]
    i, j = np.indices((n, n))
    earlier = j < i if exclusive else j <= i
    earlier = earlier.T if reverse else earlier
    return np.where(earlier, x[..., None, :], np.array(nothing, x.dtype)), earlier


def cumsum(x, *, axis=-1, reverse=False, exclusive=False):
    """
    Sum of all elements so far.

    >>> x = np.array([1.0, 2.0, 3.0, 4.0])
    >>> print(cumsum(x))
    [ 1.  3.  6. 10.]
    """
    rows, _ = rows_so_far(x, 0, axis, reverse, exclusive)
    return np.moveaxis(np.sum(rows, axis=-1), -1, axis)


def cumsum_vjp(dout, x, *, axis=-1, reverse=False, exclusive=False):
    """
    Backward pass: the sum in the other direction.

    >>> dout, x = np.array([1.0, 0.0, 5.0]), np.zeros(3)
    >>> print(cumsum_vjp(dout, x))
    [6. 5. 5.]
    """
    return cumsum(dout, axis=axis, reverse=not reverse, exclusive=exclusive)


def cumprod(x, *, axis=-1, reverse=False, exclusive=False):
    """
    Product of all elements so far.

    >>> x = np.array([2.0, 3.0, 4.0])
    >>> print(cumprod(x))
    [ 2.  6. 24.]
    """
    rows, _ = rows_so_far(x, 1, axis, reverse, exclusive)
    return np.moveaxis(np.prod(rows, axis=-1), -1, axis)


def cumprod_vjp(dout, x, *, axis=-1, reverse=False, exclusive=False):
    """
    Backward pass: in each product, the slope of a factor is the product of the others.

    >>> dout, x = np.array([1.0, 1.0, 1.0]), np.array([2.0, 0.0, 5.0])
    >>> print(cumprod_vjp(dout, x))
    [ 1. 12.  0.]
    """
    rows, earlier = rows_so_far(x, 1, axis, reverse, exclusive)
    slopes = np.where(earlier, product_of_others(rows), 0)
    dout = np.moveaxis(dout, axis, -1)[..., None]
    return np.moveaxis(np.sum(dout * slopes, axis=-2), -1, axis)


def cumlogsumexp(x, *, axis=-1, reverse=False, exclusive=False):
    """
    Log-sum-exp of all elements so far.

    >>> x = np.log(np.array([1.0, 2.0, 3.0]))
    >>> print(np.round(np.exp(cumlogsumexp(x)), 4))
    [1. 3. 6.]
    """
    rows, _ = rows_so_far(x, -np.inf, axis, reverse, exclusive)
    top = np.max(rows.real, axis=-1, keepdims=True, initial=-np.inf)
    top = np.where(np.isinf(top), 0, top)
    sums = np.sum(np.exp(rows - top), axis=-1)
    return np.moveaxis(top[..., 0] + np.log(sums), -1, axis)


def cumlogsumexp_vjp(dout, x, *, axis=-1, reverse=False, exclusive=False):
    """
    Backward pass: a softmax over the elements so far, for each result.

    >>> dout, x = np.array([1.0, 1.0]), np.array([1000.0, 1000.0])
    >>> print(cumlogsumexp_vjp(dout, x))
    [1.5 0.5]
    """
    options = {"axis": axis, "reverse": reverse, "exclusive": exclusive}
    y = np.moveaxis(cumlogsumexp(x, **options), axis, -1)[..., None]
    rows, _ = rows_so_far(x, -np.inf, **options)
    weights = np.exp(rows - np.where(np.isinf(y), 0, y))
    dout = np.moveaxis(dout, axis, -1)[..., None]
    return np.moveaxis(np.sum(dout * weights, axis=-2), -1, axis)


# == structure


def scatter_add(x, indices, updates, *, axis=0):
    """
    Add numbers at given places, which may repeat.

    >>> x, updates = np.zeros(3), np.array([1.0, 10.0, 100.0])
    >>> print(scatter_add(x, np.array([2, 0, 2]), updates))
    [ 10.   0. 101.]
    """
    y = x.astype(np.result_type(x, updates))
    before = (slice(None),) * (axis % x.ndim)
    np.add.at(y, (*before, indices), updates)
    return y


def scatter_add_vjp(dout, x, indices, updates, *, axis=0):
    """
    Backward pass: each update gets the gradient of its place.

    >>> x, updates = np.zeros(3), np.zeros(3)
    >>> _, dupdates = scatter_add_vjp(np.array([5.0, 6.0, 7.0]), x, np.array([2, 0, 2]), updates)
    >>> print(dupdates)
    [7. 5. 7.]
    """
    return dout, take(dout, indices, axis=axis)


def take(x, indices, *, axis=0):
    """Entries along an axis."""
    return np.take(x, indices, axis=axis)


def take_vjp(dout, x, indices, *, axis=0):
    """
    Backward pass: the gradients of each entry add up.

    >>> dout = np.array([1.0, 10.0, 100.0])
    >>> print(take_vjp(dout, np.zeros(3), np.array([2, 0, 2])))
    [ 10.   0. 101.]
    """
    return scatter_add(np.zeros_like(x), indices, dout, axis=axis)


def where(condition, w, x):
    """One operand where a condition holds, the other elsewhere."""
    return np.where(condition, w, x)


def where_vjp(dout, condition, w, x):
    """
    Backward pass: to the operand that was chosen.

    >>> condition = np.array([True, False, True])
    >>> print(*where_vjp(np.array([1.0, 2.0, 3.0]), condition, np.zeros(3), np.zeros(1)))
    [1. 0. 3.] [2.]
    """
    zero = np.zeros_like(dout)
    dw, dx = np.where(condition, dout, zero), np.where(condition, zero, dout)
    return sum_to_shape(dw, w.shape), sum_to_shape(dx, x.shape)


def concatenate(*arrays, axis=0):
    """Arrays one after the other."""
    return np.concatenate(arrays, axis=axis)


def concatenate_vjp(dout, *arrays, axis=0):
    """
    Backward pass: the gradient is cut where the arrays meet.

    >>> dout = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    >>> print(*concatenate_vjp(dout, np.zeros(2), np.zeros(3)))
    [1. 2.] [3. 4. 5.]
    """
    lengths = [array.shape[axis] for array in arrays]
    return tuple(np.split(dout, np.cumsum(lengths)[:-1], axis=axis))


def pad(x, *, pad_width, mode="constant"):
    """An array with more entries at its borders."""
    return np.pad(x, pad_width, mode=mode)


def pad_vjp(dout, x, *, pad_width, mode="constant"):
    """
    Backward pass: an entry and its copies add up.

    >>> dout = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    >>> print(pad_vjp(dout, np.zeros(3), pad_width=2, mode="reflect"))
    [10. 12.  6.]
    """
    numbers = np.arange(x.size).reshape(x.shape)
    constants = {"constant_values": -1} if mode == "constant" else {}
    source = np.pad(numbers, pad_width, mode=mode, **constants)
    dx = np.zeros(x.size, x.dtype)
    np.add.at(dx, source[source >= 0], dout[source >= 0])
    return dx.reshape(x.shape)


def einsum(*operands, subscripts):
    """Sum of products by indices."""
    return np.einsum(subscripts, *operands)


def written_out(subscripts, operands):
    """Terms and output of subscripts, with letters in place of three dots."""
    left, arrow, out = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    unused = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in subscripts]
    hidden = [
        x.ndim - len(t) + 3 if "..." in t else 0 for x, t in zip(operands, terms, strict=True)
    ]
    dots = "".join(unused[: sorted(hidden)[-1]])
    if not arrow:
        once = [c for c in sorted({*left} - {*".,"}) if left.count(c) == 1]
        out = "..." + "".join(once)
    pairs = zip(terms, hidden, strict=True)
    return [t.replace("...", dots[len(dots) - n :]) for t, n in pairs], out.replace("...", dots)


def einsum_vjp(dout, *operands, subscripts):
    """
    Backward pass for any subscripts: identity matrices in place of an operand.

    >>> a = np.array([[1.0, 0.0], [3.0, 4.0]])
    >>> print(einsum_vjp(np.array([5.0, 6.0]), a, subscripts="ii->i"))
    [[5. 0.]
     [0. 6.]]
    """
    terms, out = written_out(subscripts, operands)
    shapes = [dict(zip(t, x.shape, strict=True)) for t, x in zip(terms, operands, strict=True)]
    unused = [c for c in "zyxwvutsrqponmlkjihgfedcba" if c not in "".join([*terms, out])]
    gradients = []
    for k, x in enumerate(operands):
        # Axis i of the operand has a new letter, tied to its own one by an identity matrix, or by
        # a column of ones where the axis has the length 1 and is repeated.
        texts, factors = [out], [np.asarray(dout)]
        for term, other in zip(
            terms[:k] + terms[k + 1 :], operands[:k] + operands[k + 1 :], strict=True
        ):
            texts.append(term)
            factors.append(other)
        for letter, new, n in zip(terms[k], unused, x.shape, strict=False):
            length = n if n != 1 else sorted(shape.get(letter, 1) for shape in shapes)[-1]
            texts.append(letter + new)
            factors.append(
                np.eye(n, dtype=x.dtype) if n == length else np.ones((length, n), x.dtype)
            )
        text = ",".join(texts) + "->" + "".join(unused[: x.ndim])
        gradients.append(np.einsum(text, *factors))
    return tuple(gradients) if len(gradients) > 1 else gradients[0]


# == norm


def norm(x, *, axis=None, keepdims=False):
    """
    Root of the sum of squares.

    >>> x = np.array([3.0, 4.0])
    >>> print(norm(x))
    5.0
    """
    return np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))


def norm_grad(x, *, axis=None):
    """Gradient: the unit vector along x, or 0 at the origin."""
    y = norm(x, axis=axis, keepdims=True)
    return x / np.where(y == 0, 1, y)


def norm_vjp(dout, x, *, axis=None, keepdims=False):
    """
    Backward pass.

    >>> x = np.array([3.0, 4.0])
    >>> print(norm_vjp(10.0, x))
    [6. 8.]
    """
    return spread(dout, x, axis, keepdims) * norm_grad(x, axis=axis)


# == dot


def dot(w, x):
    """
    Dot product of two vectors, or of each row of two arrays.

    >>> w, x = np.array([2.0, 3.0, 4.0]), np.array([5.0, 6.0, 7.0])
    >>> print(dot(w, x))
    56.0
    """
    return np.sum(w * x, axis=-1)


def dot_grad(w, x):
    """Gradients: each vector is the gradient of the other."""
    return x, w


def dot_vjp(dout, w, x):
    """
    Backward pass.

    >>> w, x = np.array([2.0, 3.0, 4.0]), np.array([5.0, 6.0, 7.0])
    >>> print(*dot_vjp(1.0, w, x))
    [5. 6. 7.] [2. 3. 4.]
    """
    dout = np.asarray(dout)[..., None]
    return dout * x, dout * w


# == scaled_sum


def scaled_sum(x, z):
    """
    Sum of a vector, times one number.

    >>> x, z = np.array([2.0, 3.0, 4.0]), np.array(5.0)
    >>> print(scaled_sum(x, z))
    45.0
    """
    return np.sum(x * np.reshape(z, ()))


def scaled_sum_grad(x, z):
    """Gradients."""
    gx = np.full_like(x, np.reshape(z, ()))
    gz = np.full_like(z, np.sum(x))
    return gx, gz


def scaled_sum_vjp(dout, x, z):
    """
    Backward pass.

    >>> x, z = np.array([2.0, 3.0, 4.0]), np.array(5.0)
    >>> print(*scaled_sum_vjp(1.0, x, z))
    [5. 5. 5.] 9.0
    """
    gx, gz = scaled_sum_grad(x, z)
    return dout * gx, dout * gz


# == matmul


def matmul(a, b):
    """
    Product of two matrices.

    >>> a, b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([5.0, 6.0])
    >>> print(matmul(a, b))
    [17. 39.]
    """
    return a @ b


def matrix_product_vjp(dout, a, b):
    """
    Backward pass, for two matrices.

    >>> a, b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0], [6.0]])
    >>> da, db = matrix_product_vjp(np.array([[1.0], [10.0]]), a, b)
    >>> print(da)
    [[ 5.  6.]
     [50. 60.]]
    >>> print(db)
    [[31.]
     [42.]]
    """
    return dout @ b.mT, a.mT @ dout


def matmul_vjp(dout, a, b):
    """
    Backward pass, for vectors and stacks of matrices, too.

    >>> a, b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([5.0, 6.0])
    >>> da, db = matmul_vjp(np.array([1.0, 10.0]), a, b)
    >>> print(da)
    [[ 5.  6.]
     [50. 60.]]
    >>> print(db)
    [31. 42.]
    """
    row = a[None, :] if a.ndim == 1 else a
    column = b[:, None] if b.ndim == 1 else b
    dout = np.expand_dims(dout, -1) if b.ndim == 1 else dout
    dout = np.expand_dims(dout, -2) if a.ndim == 1 else dout
    da, db = matrix_product_vjp(dout, row, column)
    da = sum_to_shape(da, row.shape)
    db = sum_to_shape(db, column.shape)
    return da.reshape(a.shape), db.reshape(b.shape)


# == quadratic_form


def quadratic_form(x, a):
    """
    A vector times a matrix times the vector again.

    >>> x, a = np.array([1.0, 2.0]), np.array([[1.0, 4.0], [0.0, 3.0]])
    >>> print(quadratic_form(x, a))
    21.0
    """
    return np.einsum("...i,...ij,...j->...", x, a, x)


def quadratic_form_grad(x, a):
    """Gradients."""
    gx = ((a + a.mT) @ x[..., None])[..., 0]
    ga = x[..., :, None] * x[..., None, :]
    return gx, ga


def quadratic_form_vjp(dout, x, a):
    """
    Backward pass.

    >>> x, a = np.array([1.0, 2.0]), np.array([[1.0, 4.0], [0.0, 3.0]])
    >>> dx, da = quadratic_form_vjp(1.0, x, a)
    >>> print(dx)
    [10. 16.]
    >>> print(da)
    [[1. 2.]
     [2. 4.]]
    """
    dout = np.asarray(dout)
    gx, ga = quadratic_form_grad(x, a)
    return dout[..., None] * gx, dout[..., None, None] * ga


# == trace


def trace(a):
    """
    Sum of the diagonal.

    >>> a = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> print(trace(a))
    5.0
    """
    return np.einsum("...ii->...", a)


def trace_grad(a):
    """Gradient: the identity."""
    return np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)


def trace_vjp(dout, a):
    """
    Backward pass.

    >>> a = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> print(trace_vjp(3.0, a))
    [[3. 0.]
     [0. 3.]]
    """
    return np.asarray(dout)[..., None, None] * trace_grad(a)


# == inverse


def inverse(a):
    """
    Inverse of a matrix.

    >>> a = np.array([[2.0, 1.0], [0.0, 4.0]])
    >>> print(inverse(a))
    [[ 0.5   -0.125]
     [ 0.     0.25 ]]
    """
    return np.linalg.inv(a)


def inverse_vjp(dout, a):
    """
    Backward pass.

    >>> a = np.array([[2.0, 1.0], [0.0, 4.0]])
    >>> print(inverse_vjp(np.array([[16.0, 16.0], [16.0, 16.0]]), a))
    [[-3.   -2.  ]
     [-0.75 -0.5 ]]
    """
    y = np.linalg.inv(a)
    return -y.mT @ dout @ y.mT


# == solve


def as_columns(b):
    """Right-hand sides as columns of a matrix."""
    return b[:, None] if b.ndim == 1 else b


def solve(a, b):
    """
    Solution of a linear system.

    >>> a = np.array([[2.0, 0.0], [1.0, 4.0]])
    >>> print(solve(a, np.array([2.0, 9.0])))
    [1. 2.]
    """
    return np.linalg.solve(a, b)


def solve_vjp(dout, a, b):
    """
    Backward pass: one more solution, with the transposed matrix.

    >>> a = np.array([[2.0, 0.0], [1.0, 4.0]])
    >>> da, db = solve_vjp(np.array([1.0, 0.0]), a, np.array([2.0, 9.0]))
    >>> print(db)
    [0.5 0. ]
    """
    y, g = np.linalg.solve(a, b), np.linalg.solve(a.mT, dout)
    return -as_columns(g) @ as_columns(y).mT, g


# == logdet


def logdet(a):
    """
    Logarithm of the absolute value of the determinant.

    >>> a = np.array([[2.0, 1.0], [0.0, 4.0]])
    >>> print(np.round(logdet(a) / np.log(2), 4))
    3.0
    """
    return np.log(absolute(np.linalg.det(a)))


def logdet_grad(a):
    """Gradient: the transposed inverse."""
    return np.linalg.inv(a).mT


def logdet_vjp(dout, a):
    """
    Backward pass.

    >>> a = np.array([[2.0, 1.0], [0.0, 4.0]])
    >>> print(logdet_vjp(1.0, a))
    [[ 0.5    0.   ]
     [-0.125  0.25 ]]
    """
    return np.asarray(dout)[..., None, None] * logdet_grad(a)
