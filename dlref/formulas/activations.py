"""
Activations of single numbers, gated units, and softmax with its relatives.

The input is x. `f_deriv` is the slope of f at x and `f_deriv2` the slope of that. An activation of
single numbers has a diagonal Jacobian, so the backward pass multiplies by the slope.
"""

import numpy as np
import scipy.special

from .calculus import absolute, sum_to_shape

# == shared


def clip(x, low, high):
    """The input, or the bound that it exceeds."""
    return np.where(x.real < low, low, np.where(x.real > high, high, x))


def saturate(x, low, high):
    """The input between two bounds, and a constant from each bound on, with the slope 0."""
    return np.where(x.real <= low, low, np.where(x.real >= high, high, x))


def one_hot(index, count):
    """Rows that are true at an index and false elsewhere."""
    return index[..., None] == np.arange(count)


def identity(x):
    """No activation."""
    return x


def identity_deriv(x):
    """Slope."""
    return np.ones_like(x)


def identity_deriv2(x):
    """A line does not bend."""
    return np.zeros_like(x)


def activation_of(name):
    """An activation and its slope, by name."""
    return globals()[name], globals()[f"{name}_deriv"]


def second_slope_of(name):
    """The second derivative of an activation, by name."""
    return globals()[f"{name}_deriv2"]


# == relu


def relu(x):
    """
    The input where it is positive.

    >>> x = np.array([-2.0, 0.0, 3.0])
    >>> print(relu(x))
    [0. 0. 3.]
    """
    return np.where(x.real > 0, x, 0)


def relu_deriv(x):
    """Slope; 0 at the kink."""
    return np.where(x.real > 0, np.ones_like(x), 0)


def relu_deriv2(x):
    """Slope of the slope, which is flat between its jumps."""
    return np.zeros_like(x)


def relu_vjp(dout, x):
    """
    Backward pass.

    >>> x = np.array([-2.0, 0.0, 3.0])
    >>> print(relu_vjp(np.array([10.0, 20.0, 30.0]), x))
    [ 0.  0. 30.]
    """
    return dout * relu_deriv(x)


# == relu_squared


def relu_squared(x):
    """
    Square of the input where it is positive.

    >>> x = np.array([-3.0, 0.0, 0.5, 3.0])
    >>> print(relu_squared(x))
    [0.   0.   0.25 9.  ]
    """
    return relu(x) ** 2


def relu_squared_deriv(x):
    """Slope."""
    return 2 * relu(x)


def relu_squared_deriv2(x):
    """Slope of the slope; 0 at its kink."""
    return 2 * relu_deriv(x)


def relu_squared_vjp(dout, x):
    """
    Backward pass.

    >>> x = np.array([-3.0, 0.0, 0.5, 3.0])
    >>> print(relu_squared_vjp(np.ones(4), x))
    [0. 0. 1. 6.]
    """
    return dout * relu_squared_deriv(x)


# == leaky_relu


def leaky_relu(x, *, negative_slope=0.01):
    """
    The input, times a small slope where it is negative.

    >>> x = np.array([-2.0, 3.0])
    >>> print(leaky_relu(x, negative_slope=0.25))
    [-0.5  3. ]
    """
    return np.where(x.real > 0, x, negative_slope * x)


def leaky_relu_deriv(x, *, negative_slope=0.01):
    """Slope, at the kink from the left."""
    return np.where(x.real > 0, np.ones_like(x), negative_slope)


def leaky_relu_deriv2(x, *, negative_slope=0.01):
    """Slope of the slope, which is flat between its jumps."""
    return np.zeros_like(x)


def leaky_relu_vjp(dout, x, *, negative_slope=0.01):
    """
    Backward pass.

    >>> x = np.array([-2.0, 3.0])
    >>> print(leaky_relu_vjp(np.array([8.0, 8.0]), x, negative_slope=0.25))
    [2. 8.]
    """
    return dout * leaky_relu_deriv(x, negative_slope=negative_slope)


# == prelu


def prelu(x, slope):
    """
    The input, times a learned slope where it is negative.

    >>> x, slope = np.array([-2.0, -3.0, 4.0]), np.array(0.25)
    >>> print(prelu(x, slope))
    [-0.5  -0.75  4.  ]
    """
    return np.where(x.real > 0, x, slope * x)


def prelu_vjp(dout, x, slope):
    """
    Backward pass: the slope learns from negative inputs.

    >>> x, slope = np.array([-2.0, -3.0, 4.0]), np.array(0.25)
    >>> print(*prelu_vjp(np.ones(3), x, slope))
    [0.25 0.25 1.  ] -5.0
    """
    dx = np.where(x > 0, dout, dout * slope)
    dslope = np.where(x > 0, 0, dout * x)
    return dx, sum_to_shape(dslope, slope.shape)


# == relu6


def relu6(x):
    """
    The input, between 0 and 6.

    >>> x = np.array([-1.0, 2.5, 8.0])
    >>> print(relu6(x))
    [0.  2.5 6. ]
    """
    return saturate(x, 0, 6)


def relu6_deriv(x):
    """Slope; 0 at both kinks."""
    inside = (x.real > 0) & (x.real < 6)
    return np.where(inside, np.ones_like(x), 0)


def relu6_deriv2(x):
    """Slope of the slope, which is flat between its jumps."""
    return np.zeros_like(x)


def relu6_vjp(dout, x):
    """
    Backward pass.

    >>> x = np.array([-1.0, 2.5, 8.0])
    >>> print(relu6_vjp(np.ones(3), x))
    [0. 1. 0.]
    """
    return dout * relu6_deriv(x)


# == thresholded_relu


def thresholded_relu(x, *, alpha=1.0):
    """
    The input where it is above a threshold.

    >>> x = np.array([0.5, 1.0, 1.5])
    >>> print(thresholded_relu(x))
    [0.  0.  1.5]
    """
    return np.where(x.real > alpha, x, 0)


def thresholded_relu_deriv(x, *, alpha=1.0):
    """Slope, which knows nothing of the jump."""
    return np.where(x.real > alpha, np.ones_like(x), 0)


def thresholded_relu_deriv2(x, *, alpha=1.0):
    """Slope of the slope, which is flat between its jumps."""
    return np.zeros_like(x)


def thresholded_relu_vjp(dout, x, *, alpha=1.0):
    """
    Backward pass.

    >>> x = np.array([0.5, 1.0, 1.5])
    >>> print(thresholded_relu_vjp(np.ones(3), x))
    [0. 0. 1.]
    """
    return dout * thresholded_relu_deriv(x, alpha=alpha)


# == hard_tanh


def hard_tanh(x):
    """
    The input, between -1 and 1.

    >>> x = np.array([-3.0, 0.5, 1.0, 7.0])
    >>> print(hard_tanh(x))
    [-1.   0.5  1.   1. ]
    """
    return saturate(x, -1, 1)


def hard_tanh_deriv(x):
    """Slope; 0 at both kinks."""
    inside = (x.real > -1) & (x.real < 1)
    return np.where(inside, np.ones_like(x), 0)


def hard_tanh_deriv2(x):
    """Slope of the slope, which is flat between its jumps."""
    return np.zeros_like(x)


def hard_tanh_vjp(dout, x):
    """
    Backward pass.

    >>> x = np.array([-3.0, 0.5, 1.0, 7.0])
    >>> print(hard_tanh_vjp(np.ones(4), x))
    [0. 1. 0. 0.]
    """
    return dout * hard_tanh_deriv(x)


# == hard_sigmoid


def hard_sigmoid(x, *, alpha=1 / 6, beta=0.5):
    """
    A line, between 0 and 1.

    >>> x = np.array([-6.0, 0.0, 1.5, 6.0])
    >>> print(hard_sigmoid(x))
    [0.   0.5  0.75 1.  ]
    """
    return saturate(alpha * x + beta, 0, 1)


def hard_sigmoid_deriv(x, *, alpha=1 / 6, beta=0.5):
    """Slope; 0 at both kinks."""
    line = alpha * x.real + beta
    inside = (line > 0) & (line < 1)
    return alpha * np.where(inside, np.ones_like(x), 0)


def hard_sigmoid_deriv2(x, *, alpha=1 / 6, beta=0.5):
    """Slope of the slope, which is flat between its jumps."""
    return np.zeros_like(x)


def hard_sigmoid_vjp(dout, x, *, alpha=1 / 6, beta=0.5):
    """
    Backward pass.

    >>> x = np.array([-6.0, 0.0, 1.5, 6.0])
    >>> print(hard_sigmoid_vjp(np.array([6.0, 6.0, 6.0, 6.0]), x))
    [0. 1. 1. 0.]
    """
    return dout * hard_sigmoid_deriv(x, alpha=alpha, beta=beta)


# == hard_swish


def hard_swish(x):
    """
    The input times a hard sigmoid.

    >>> x = np.array([-1.5, 0.0, 1.5, 4.0])
    >>> print(hard_swish(x))
    [-0.375  0.     1.125  4.   ]
    """
    return x * saturate((x + 3) / 6, 0, 1)


def hard_swish_deriv(x):
    """Slope, in three parts."""
    inside = (2 * x + 3) / 6
    return np.where(x.real <= -3, 0, np.where(x.real >= 3, 1, inside))


def hard_swish_deriv2(x):
    """Slope of the slope; 0 at both kinks."""
    inside = (x.real > -3) & (x.real < 3)
    return np.where(inside, np.ones_like(x), 0) / 3


def hard_swish_vjp(dout, x):
    """
    Backward pass.

    >>> x = np.array([-1.5, 0.0, 1.5, 4.0])
    >>> print(hard_swish_vjp(np.ones(4), x))
    [0.  0.5 1.  1. ]
    """
    return dout * hard_swish_deriv(x)


# == elu


def elu(x, *, alpha=1.0):
    """
    The input, or an exponential that levels off where it is negative.

    >>> x = np.log([0.25, 0.5, 1.0])
    >>> print(elu(x, alpha=2))
    [-1.5 -1.   0. ]
    """
    return np.where(x.real > 0, x, alpha * np.expm1(x))


def elu_deriv(x, *, alpha=1.0):
    """Slope, at 0 from the left."""
    return np.where(x.real > 0, 1, alpha * np.exp(x))


def elu_deriv2(x, *, alpha=1.0):
    """Slope of the slope, at 0 from the left."""
    return np.where(x.real > 0, 0, alpha * np.exp(x))


def elu_vjp(dout, x, *, alpha=1.0):
    """
    Backward pass.

    >>> x = np.log([0.25, 0.5, 1.0])
    >>> print(elu_vjp(np.ones(3), x, alpha=2))
    [0.5 1.  2. ]
    """
    return dout * elu_deriv(x, alpha=alpha)


# == selu


SELU_ALPHA = 1.6732632423543772
SELU_SCALE = 1.0507009873554805


def selu(x):
    """
    Scaled ELU, whose constants keep the mean 0 and the variance 1.

    >>> x, w = np.polynomial.hermite_e.hermegauss(180)
    >>> w = w / np.sum(w)  # Weights of a mean over normal inputs.
    >>> print(np.round(w @ selu(x) ** 2, 2))
    1.0
    """
    return SELU_SCALE * elu(x, alpha=SELU_ALPHA)


def selu_deriv(x):
    """Slope."""
    return SELU_SCALE * elu_deriv(x, alpha=SELU_ALPHA)


def selu_deriv2(x):
    """Slope of the slope."""
    return SELU_SCALE * elu_deriv2(x, alpha=SELU_ALPHA)


def selu_vjp(dout, x):
    """
    Backward pass.

    >>> x = np.array([-5.0, 1.0])
    >>> print(np.round(selu_vjp(np.ones(2), x), 4))
    [0.0118 1.0507]
    """
    return dout * selu_deriv(x)


# == celu


def celu(x, *, alpha=1.0):
    """
    ELU with the slope 1 on both sides of 0.

    >>> x = 2 * np.log([0.25, 0.5, 1.0])
    >>> print(celu(x, alpha=2))
    [-1.5 -1.   0. ]
    """
    return np.where(x.real > 0, x, alpha * np.expm1(x / alpha))


def celu_deriv(x, *, alpha=1.0):
    """Slope."""
    return np.where(x.real > 0, 1, np.exp(x / alpha))


def celu_deriv2(x, *, alpha=1.0):
    """Slope of the slope, at 0 from the left."""
    return np.where(x.real > 0, 0, np.exp(x / alpha) / alpha)


def celu_vjp(dout, x, *, alpha=1.0):
    """
    Backward pass.

    >>> x = 2 * np.log([0.25, 0.5, 1.0])
    >>> print(celu_vjp(np.array([8.0, 8.0, 8.0]), x, alpha=2))
    [2. 4. 8.]
    """
    return dout * celu_deriv(x, alpha=alpha)


# == sigmoid


def sigmoid(x):
    """
    Logistic function, without overflow.

    >>> x = np.array([0.0, np.log(3), -np.log(3)])
    >>> print(sigmoid(x))
    [0.5  0.75 0.25]
    """
    e = np.exp(-absolute(x))
    return np.where(x.real >= 0, 1, e) / (1 + e)


def sigmoid_deriv(x):
    """Slope."""
    return sigmoid(x) * sigmoid(-x)


def sigmoid_deriv2(x):
    """Slope of the slope."""
    return sigmoid_deriv(x) * (sigmoid(-x) - sigmoid(x))


def sigmoid_vjp(dout, x):
    """
    Backward pass.

    >>> x = np.array([0.0, np.log(3), -np.log(3)])
    >>> print(sigmoid_vjp(np.array([16.0, 16.0, 16.0]), x))
    [4. 3. 3.]
    """
    return dout * sigmoid_deriv(x)


# == log_sigmoid


def log_sigmoid(x):
    """
    Logarithm of the sigmoid.

    >>> x = np.array([0.0, np.log(3)])
    >>> print(np.exp(log_sigmoid(x)))
    [0.5  0.75]
    """
    return -softplus(-x)


def log_sigmoid_deriv(x):
    """Slope."""
    return sigmoid(-x)


def log_sigmoid_deriv2(x):
    """Slope of the slope."""
    return -sigmoid(x) * sigmoid(-x)


def log_sigmoid_vjp(dout, x):
    """
    Backward pass.

    >>> x = np.array([0.0, np.log(3)])
    >>> print(log_sigmoid_vjp(np.ones(2), x))
    [0.5  0.25]
    """
    return dout * log_sigmoid_deriv(x)


# == softplus


def softplus(x, *, beta=1.0):
    """
    Logarithm of one plus an exponential, without overflow.

    >>> x = np.array([0.0, np.log(3)])
    >>> print(np.exp(softplus(x)))
    [2. 4.]
    """
    u = beta * x
    return (relu(u) + np.log1p(np.exp(-absolute(u)))) / beta


def softplus_deriv(x, *, beta=1.0):
    """Slope."""
    return sigmoid(beta * x)


def softplus_deriv2(x, *, beta=1.0):
    """Slope of the slope."""
    return beta * sigmoid_deriv(beta * x)


def softplus_vjp(dout, x, *, beta=1.0):
    """
    Backward pass.

    >>> x = np.array([0.0, np.log(3)])
    >>> print(softplus_vjp(np.array([8.0, 8.0]), x))
    [4. 6.]
    """
    return dout * softplus_deriv(x, beta=beta)


# == squareplus


def squareplus(x, *, b=4.0):
    """
    The positive part of the input, plus a term that does not cancel.

    >>> x = np.array([-1.5, 0.0, 1.5])
    >>> print(squareplus(x))
    [0.5 1.  2. ]
    """
    r = np.sqrt(x**2 + b)
    return relu(x) + b / (2 * (absolute(x) + r))


def squareplus_deriv(x, *, b=4.0):
    """Slope."""
    return squareplus(x, b=b) / np.sqrt(x**2 + b)


def squareplus_deriv2(x, *, b=4.0):
    """Slope of the slope."""
    return b / (2 * np.sqrt(x**2 + b) ** 3)


def squareplus_vjp(dout, x, *, b=4.0):
    """
    Backward pass.

    >>> x = np.array([-1.5, 0.0, 1.5])
    >>> print(squareplus_vjp(np.array([10.0, 10.0, 10.0]), x))
    [2. 5. 8.]
    """
    return dout * squareplus_deriv(x, b=b)


# == tanh


def tanh(x):
    """
    Hyperbolic tangent.

    >>> x = np.array([0.0, np.log(2), -np.log(2)])
    >>> print(tanh(x))
    [ 0.   0.6 -0.6]
    """
    return np.tanh(x)


def tanh_deriv(x):
    """Slope."""
    return 1 - np.tanh(x) ** 2


def tanh_deriv2(x):
    """Slope of the slope."""
    return -2 * np.tanh(x) * tanh_deriv(x)


def tanh_vjp(dout, x):
    """
    Backward pass.

    >>> x = np.array([0.0, np.log(2), -np.log(2)])
    >>> print(tanh_vjp(np.ones(3), x))
    [1.   0.64 0.64]
    """
    return dout * tanh_deriv(x)


# == tanhshrink


def tanhshrink(x):
    """
    The input minus its hyperbolic tangent.

    >>> x = np.array([0.0, np.log(2)])
    >>> print(x - tanhshrink(x))
    [0.  0.6]
    """
    return x - np.tanh(x)


def tanhshrink_deriv(x):
    """Slope."""
    return np.tanh(x) ** 2


def tanhshrink_deriv2(x):
    """Slope of the slope."""
    return -tanh_deriv2(x)


def tanhshrink_vjp(dout, x):
    """
    Backward pass.

    >>> x = np.array([0.0, np.log(2)])
    >>> print(tanhshrink_vjp(np.ones(2), x))
    [0.   0.36]
    """
    return dout * tanhshrink_deriv(x)


# == softsign


def softsign(x):
    """
    The input over one plus its absolute value.

    >>> x = np.array([-3.0, 0.0, 1.0])
    >>> print(softsign(x))
    [-0.75  0.    0.5 ]
    """
    return x / (1 + absolute(x))


def softsign_deriv(x):
    """Slope."""
    return 1 / (1 + absolute(x)) ** 2


def softsign_deriv2(x):
    """Slope of the slope; 0 at its kink."""
    return -2 * np.sign(x.real) / (1 + absolute(x)) ** 3


def softsign_vjp(dout, x):
    """
    Backward pass.

    >>> x = np.array([-3.0, 0.0, 1.0])
    >>> print(softsign_vjp(np.ones(3), x))
    [0.0625 1.     0.25  ]
    """
    return dout * softsign_deriv(x)


# == silu


def silu(x, *, beta=1.0):
    """
    The input times its sigmoid.

    >>> x = np.log([1 / 3, 3.0])
    >>> print(silu(x) / x)
    [0.25 0.75]
    """
    return x * sigmoid(beta * x)


def silu_deriv(x, *, beta=1.0):
    """Slope, by the product rule."""
    u = beta * x
    return sigmoid(u) + u * sigmoid_deriv(u)


def silu_deriv2(x, *, beta=1.0):
    """Slope of the slope."""
    u = beta * x
    return beta * (2 * sigmoid_deriv(u) + u * sigmoid_deriv2(u))


def silu_vjp(dout, x, *, beta=1.0):
    """
    Backward pass.

    >>> x = np.array([0.0, 40.0])
    >>> print(silu_vjp(np.array([2.0, 2.0]), x))
    [1. 2.]
    """
    return dout * silu_deriv(x, beta=beta)


# == mish


def mish(x):
    """
    The input times the hyperbolic tangent of its softplus.

    >>> x = np.log([2.0, 0.5])
    >>> print(mish(x) / x * [10, 13])
    [8. 5.]
    """
    return x * np.tanh(softplus(x))


def mish_deriv(x):
    """Slope, by the product and the chain rule."""
    t = np.tanh(softplus(x))
    t1 = (1 - t**2) * sigmoid(x)
    return t + x * t1


def mish_deriv2(x):
    """Slope of the slope."""
    t = np.tanh(softplus(x))
    t1 = (1 - t**2) * sigmoid(x)
    t2 = t1 * (sigmoid(-x) - 2 * t * sigmoid(x))
    return 2 * t1 + x * t2


def mish_vjp(dout, x):
    """
    Backward pass.

    >>> x = np.array([0.0, 40.0])
    >>> print(mish_vjp(np.array([5.0, 5.0]), x))
    [3. 5.]
    """
    return dout * mish_deriv(x)


# == gelu


def normal_cdf(x):
    """Distribution function of the standard normal distribution."""
    return scipy.special.ndtr(x).astype(x.dtype)


def normal_density(x):
    """Density of the standard normal distribution."""
    return np.exp(-(x**2) / 2) / (2 * np.pi) ** 0.5


def gelu_exact(x):
    """
    The input times the normal distribution function.

    >>> x = np.array([-1.0, 0.0, 1.0])
    >>> print(np.round(gelu_exact(x), 4))
    [-0.1587  0.      0.8413]
    """
    return x * normal_cdf(x)


def gelu_exact_deriv(x):
    """
    Slope, by the product rule.

    >>> x = np.array([0.0, 2**0.5])  # It is steepest at the root of 2.
    >>> print(np.round(gelu_exact_deriv(x), 4))
    [0.5    1.1289]
    """
    return normal_cdf(x) + x * normal_density(x)


def gelu_exact_deriv2(x):
    """Slope of the slope."""
    return (2 - x**2) * normal_density(x)


def gelu_argument(x):
    """Odd polynomial of the approximation, with its first two derivatives."""
    c = (2 / np.pi) ** 0.5
    d = 0.044715 * c
    return c * x + d * x**3, c + 3 * d * x**2, 6 * d * x


def gelu_tanh(x):
    """
    Approximation by a hyperbolic tangent.

    >>> x = np.array([-1.0, 0.0, 1.0])
    >>> print(np.round(gelu_tanh(x), 4))
    [-0.1588  0.      0.8412]
    """
    v, _, _ = gelu_argument(x)
    return x * (1 + np.tanh(v)) / 2


def gelu_tanh_deriv(x):
    """Slope of the approximation."""
    v, v1, _ = gelu_argument(x)
    t = np.tanh(v)
    t1 = (1 - t**2) * v1
    return (1 + t + x * t1) / 2


def gelu_tanh_deriv2(x):
    """Slope of the slope of the approximation."""
    v, v1, v2 = gelu_argument(x)
    t = np.tanh(v)
    t1 = (1 - t**2) * v1
    t2 = (1 - t**2) * v2 - 2 * t * t1 * v1
    return t1 + x * t2 / 2


def gelu(x, *, approximate="none"):
    """
    GELU, or its approximation.

    >>> x = np.linspace(-4, 4, 801)
    >>> error = gelu(x, approximate="tanh") - gelu(x)
    >>> print(np.round(np.max(np.abs(error)), 6))
    0.000473
    """
    return gelu_tanh(x) if approximate == "tanh" else gelu_exact(x)


def gelu_deriv(x, *, approximate="none"):
    """Slope."""
    return gelu_tanh_deriv(x) if approximate == "tanh" else gelu_exact_deriv(x)


def gelu_deriv2(x, *, approximate="none"):
    """Slope of the slope."""
    return gelu_tanh_deriv2(x) if approximate == "tanh" else gelu_exact_deriv2(x)


def gelu_vjp(dout, x, *, approximate="none"):
    """
    Backward pass.

    >>> x = np.array([0.0, 40.0])
    >>> print(gelu_vjp(np.array([2.0, 2.0]), x))
    [1. 2.]
    """
    return dout * gelu_deriv(x, approximate=approximate)


# == glu


def glu(x, gate):
    """
    The input times the sigmoid of a gate.

    >>> x, gate = np.array([8.0, 8.0]), np.array([0.0, np.log(3)])
    >>> print(glu(x, gate))
    [4. 6.]
    """
    return x * sigmoid(gate)


def glu_vjp(dout, x, gate):
    """
    Backward pass.

    >>> x, gate = np.array([8.0, 8.0]), np.array([0.0, np.log(3)])
    >>> print(*glu_vjp(np.ones(2), x, gate))
    [0.5  0.75] [2.  1.5]
    """
    dx = dout * sigmoid(gate)
    dgate = dout * x * sigmoid_deriv(gate)
    return sum_to_shape(dx, x.shape), sum_to_shape(dgate, gate.shape)


# == reglu


def reglu(x, gate):
    """
    The input times the ReLU of a gate.

    >>> x, gate = np.array([3.0, 3.0]), np.array([-2.0, 2.0])
    >>> print(reglu(x, gate))
    [0. 6.]
    """
    return x * relu(gate)


def reglu_vjp(dout, x, gate):
    """
    Backward pass.

    >>> x, gate = np.array([3.0, 3.0]), np.array([-2.0, 2.0])
    >>> print(*reglu_vjp(np.ones(2), x, gate))
    [0. 2.] [0. 3.]
    """
    dx = dout * relu(gate)
    dgate = dout * x * relu_deriv(gate)
    return sum_to_shape(dx, x.shape), sum_to_shape(dgate, gate.shape)


# == geglu


def geglu(x, gate):
    """
    The input times the GELU of a gate.

    >>> x, gate = np.array([3.0, 3.0]), np.array([0.0, 40.0])
    >>> print(geglu(x, gate))
    [  0. 120.]
    """
    return x * gelu(gate)


def geglu_vjp(dout, x, gate):
    """
    Backward pass.

    >>> x, gate = np.array([3.0, 3.0]), np.array([0.0, 40.0])
    >>> print(*geglu_vjp(np.ones(2), x, gate))
    [ 0. 40.] [1.5 3. ]
    """
    dx = dout * gelu(gate)
    dgate = dout * x * gelu_deriv(gate)
    return sum_to_shape(dx, x.shape), sum_to_shape(dgate, gate.shape)


# == swiglu


def silu_gate(x, gate):
    """
    SwiGLU without options: the input times the SiLU of a gate.

    >>> x, gate = np.array([3.0, 3.0]), np.array([0.0, 40.0])
    >>> print(silu_gate(x, gate))
    [  0. 120.]
    """
    return x * silu(gate)


def silu_gate_vjp(dout, x, gate):
    """
    Backward pass without options.

    >>> x, gate = np.array([3.0, 3.0]), np.array([0.0, 40.0])
    >>> print(*silu_gate_vjp(np.ones(2), x, gate))
    [ 0. 40.] [1.5 3. ]
    """
    return dout * silu(gate), dout * x * silu_deriv(gate)


def swiglu(x, gate, *, beta=1.0, limit=None, shift=0.0):
    """
    SwiGLU, which may bound its inputs and shift the first.

    >>> x, gate = np.array([7.0, 1e30, 0.0]), np.array([40.0, 1e30, 40.0])
    >>> print(np.round(swiglu(x, gate, beta=1.702, limit=7, shift=1), 3))
    [56. 56.  7.]
    """
    if limit is not None:
        x = clip(x, -limit, limit)
        gate = clip(gate, -np.inf, limit)
    return (x + shift) * silu(gate, beta=beta)


def swiglu_vjp(dout, x, gate, *, beta=1.0, limit=None, shift=0.0):
    """
    Backward pass: inputs beyond a bound get nothing.

    >>> x, gate = np.array([3.0]), np.array([50.0])
    >>> print(*swiglu_vjp(np.ones(1), x, gate, limit=40))
    [40.] [0.]
    """
    x_inside, gate_inside = True, True
    x_shape, gate_shape = x.shape, gate.shape
    if limit is not None:
        x_inside = absolute(x) <= limit
        gate_inside = gate <= limit
        x = clip(x, -limit, limit)
        gate = clip(gate, -np.inf, limit)
    dx = dout * silu(gate, beta=beta) * x_inside
    dgate = dout * (x + shift) * silu_deriv(gate, beta=beta) * gate_inside
    return sum_to_shape(dx, x_shape), sum_to_shape(dgate, gate_shape)


# == softmax


def softmax(x, *, axis=-1):
    """
    Exponentials over their sum.

    >>> x = np.log([1.0, 2.0, 5.0])
    >>> print(softmax(x))
    [0.125 0.25  0.625]
    """
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def softmax_jacobian(x, *, axis=-1):
    """
    Jacobian: a diagonal matrix minus a product of rank 1.

    >>> x = np.log([1.0, 1.0, 2.0])
    >>> print(softmax_jacobian(x))
    [[ 0.1875 -0.0625 -0.125 ]
     [-0.0625  0.1875 -0.125 ]
     [-0.125  -0.125   0.25  ]]
    """
    s = np.moveaxis(softmax(x, axis=axis), axis, -1)
    delta = np.eye(s.shape[-1], dtype=s.dtype)
    return s[..., :, None] * (delta - s[..., None, :])


def softmax_vjp(dout, x, *, axis=-1):
    """
    Backward pass: each cotangent minus their mean, weighted.

    >>> x = np.log([1.0, 1.0, 2.0])
    >>> print(softmax_vjp(np.array([1.0, 0.0, 0.0]), x))
    [ 0.1875 -0.0625 -0.125 ]
    """
    s = softmax(x, axis=axis)
    mean = np.sum(s * dout, axis=axis, keepdims=True)
    return s * (dout - mean)


# == log_softmax


def log_softmax(x, *, axis=-1):
    """
    Logarithm of softmax.

    >>> x = np.log([1.0, 2.0, 5.0])
    >>> print(np.exp(log_softmax(x)))
    [0.125 0.25  0.625]
    """
    x = x - np.max(x, axis=axis, keepdims=True)
    return x - np.log(np.sum(np.exp(x), axis=axis, keepdims=True))


def log_softmax_jacobian(x, *, axis=-1):
    """
    Jacobian: the identity minus the probabilities in each row.

    >>> x = np.log([1.0, 1.0, 2.0])
    >>> print(log_softmax_jacobian(x))
    [[ 0.75 -0.25 -0.5 ]
     [-0.25  0.75 -0.5 ]
     [-0.25 -0.25  0.5 ]]
    """
    s = np.moveaxis(softmax(x, axis=axis), axis, -1)
    delta = np.eye(s.shape[-1], dtype=s.dtype)
    return delta - s[..., None, :]


def log_softmax_vjp(dout, x, *, axis=-1):
    """
    Backward pass.

    >>> x = np.log([1.0, 1.0, 2.0])
    >>> print(log_softmax_vjp(np.array([0.0, 0.0, -1.0]), x))
    [ 0.25  0.25 -0.5 ]
    """
    return dout - softmax(x, axis=axis) * np.sum(dout, axis=axis, keepdims=True)


# == logsumexp


def logsumexp(x, *, axis=-1):
    """
    Logarithm of the sum of exponentials, without overflow.

    >>> x = np.log([1.0, 2.0, 5.0])
    >>> print(np.round(logsumexp(x) / np.log(2), 4))
    3.0
    """
    m = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    m = np.where(np.isfinite(m), m, 0)  # Infinite scores need no shift.
    total = np.sum(np.exp(x - m), axis=axis)
    return np.squeeze(m, axis) + np.log(total)


def logsumexp_grad(x, *, axis=-1):
    """Gradient: softmax, over all axes together."""
    return softmax(x, axis=axis)


def logsumexp_hessian(x, *, axis=-1):
    """Second derivatives: the Jacobian of softmax."""
    return softmax_jacobian(x, axis=axis)


def logsumexp_vjp(dout, x, *, axis=-1):
    """
    Backward pass.

    >>> x = np.log([1.0, 2.0, 5.0])
    >>> print(logsumexp_vjp(np.array(8.0), x))
    [1. 2. 5.]
    """
    return np.expand_dims(dout, axis) * softmax(x, axis=axis)


# == hardmax


def hardmax(x, *, axis=-1):
    """
    1 at the first of the largest scores, 0 elsewhere.

    >>> x = np.array([1.0, 3.0, 2.0])
    >>> print(hardmax(x))
    [0. 1. 0.]
    """
    first = one_hot(np.argmax(x.real, axis=axis), x.shape[axis])
    return np.moveaxis(first, -1, axis).astype(x.dtype)


# == gumbel_softmax


def gumbel_softmax(logits, noise, *, temperature=1.0, hard=False):
    """
    Softmax of noisy scores, or the nearest one-hot vector.

    >>> logits, noise = np.log([2.0, 1.0, 1.0]), np.log([1.0, 3.0, 1.0])
    >>> print(gumbel_softmax(logits, noise) * 6)
    [2. 3. 1.]
    >>> print(gumbel_softmax(logits, noise, hard=True))
    [0. 1. 0.]
    """
    y = softmax((logits + noise) / temperature)
    if hard:
        # The real part is a constant, so that the derivative remains the one of the soft vector.
        y = hardmax(y) + (y - y.real)
    return y


def gumbel_softmax_vjp(dout, logits, noise, *, temperature=1.0, hard=False):
    """
    Backward pass, straight through the choice of a hard vector.

    >>> logits, noise = np.log([2.0, 1.0, 1.0]), np.log([1.0, 3.0, 1.0])
    >>> dlogits, _ = gumbel_softmax_vjp(np.array([0.0, 36.0, 0.0]), logits, noise, hard=True)
    >>> print(dlogits)
    [-6.  9. -3.]
    """
    dscores = softmax_vjp(dout, (logits + noise) / temperature) / temperature
    return dscores, dscores


# == sparsemax


def support(x):
    """Scores of each row that get a probability above 0."""
    falling = -np.sort(-x.real, axis=-1)
    k = np.arange(1, x.shape[-1] + 1)
    above = 1 + k * falling > np.cumsum(falling, axis=-1)
    size = np.sum(above, axis=-1, keepdims=True)
    return x.real >= np.take_along_axis(falling, size - 1, axis=-1)


def sparsemax(x, *, axis=-1):
    """
    Scores minus a threshold, where they exceed it.

    >>> x = np.array([1.0, 0.5, 0.0, -1.0])
    >>> print(sparsemax(x))
    [0.75 0.25 0.   0.  ]
    """
    x = np.moveaxis(x, axis, -1)
    inside = support(x)
    size = np.sum(inside, axis=-1, keepdims=True, dtype=x.dtype)
    tau = (np.sum(np.where(inside, x, 0), axis=-1, keepdims=True) - 1) / size
    return np.moveaxis(np.where(inside, x - tau, 0), -1, axis)


def sparsemax_jacobian(x, *, axis=-1):
    """
    Jacobian: the identity minus a mean, within the support.

    >>> x = np.array([1.0, 0.5, 0.0])
    >>> print(sparsemax_jacobian(x))
    [[ 0.5 -0.5  0. ]
     [-0.5  0.5  0. ]
     [ 0.   0.   0. ]]
    """
    s = support(np.moveaxis(x, axis, -1)).astype(x.dtype)
    size = np.sum(s, axis=-1)[..., None, None]
    delta = np.eye(s.shape[-1], dtype=s.dtype)
    product = s[..., :, None] * s[..., None, :]
    return s[..., :, None] * delta - product / size


def sparsemax_vjp(dout, x, *, axis=-1):
    """
    Backward pass: each cotangent minus their mean, within the support.

    >>> x = np.array([1.0, 0.5, 0.0])
    >>> print(sparsemax_vjp(np.array([4.0, 2.0, 9.0]), x))
    [ 1. -1.  0.]
    """
    dout = np.moveaxis(dout, axis, -1)
    s = support(np.moveaxis(x, axis, -1)).astype(x.dtype)
    mean = np.sum(s * dout, axis=-1, keepdims=True) / np.sum(s, axis=-1, keepdims=True)
    return np.moveaxis(s * (dout - mean), -1, axis)
