"""Mistakes of public reports that were looked up after the set unopened: layers."""

import ml_dtypes
import numpy as np

from dlref import activations, calculus, convolution, losses, quantization
from dlref import normalization as norm

from .kernels import Wrong, cases, gradients

R = np.random.default_rng(127)
#: Of formats: the dtype, the exponent of the largest number, and the largest number.
FORMATS = {
    "mxfp8_e4m3": (ml_dtypes.float8_e4m3fn, 8, 448.0),
    "mxfp4": (ml_dtypes.float4_e2m1fn, 2, 6.0),
}


def cumprod_backward(dout, x, slip=""):
    """Each factor's gradient: the sum of the later products, with 1 in its place."""
    if slip == "quotient 0":
        total = np.cumsum((dout * np.cumprod(x, -1))[..., ::-1], -1)[..., ::-1]
        return np.where(x == 0, 0, total / np.where(x == 0, 1, x))
    dx = np.empty_like(x)
    for i in range(x.shape[-1]):
        others = x.copy()
        others[..., i] = 1
        dx[..., i] = (dout * np.cumprod(others, -1))[..., i:].sum(-1)
    return dx


def instance_norm(x, weight, bias, eps=1e-5, slip=""):
    """Each channel of each image has its own mean and variance."""
    axes = (0, 1, 2) if slip == "of the batch" else (1, 2)
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    if slip == "variance of variances":
        var = x.var(1, keepdims=True).var(2, keepdims=True)
    return weight * (x - mean) / np.sqrt(var + eps) + bias


def batch_norm_train(x, mean, var, weight, bias, momentum=0.1, eps=1e-5, slip=""):
    """The batch's own statistics normalize it, and go into the averages."""
    axes, count = tuple(range(x.ndim - 1)), x.size / x.shape[-1]
    own, spread = x.mean(axes), x.var(axes)
    inverse = 1 / np.sqrt(spread + eps)
    kept = inverse if slip == "inverse deviation" else spread * count / (count - 1)
    means, variances = mean + momentum * (own - mean), var + momentum * (kept - var)
    return weight * (x - own) * inverse + bias, means, variances


def gather_backward(dout, x, indices, slip=""):
    """Row by row, the gradients go back to where their rows are from."""
    dx = np.zeros_like(x)
    for row, index in zip(dout, indices, strict=True):
        dx[index] = row if slip == "overwritten" else dx[index] + row
    return dx


def scatter(x, indices, updates, slip=""):
    """Row by row, the updates are added to the rows of their indices."""
    y = x.copy()
    for index, row in zip(indices, updates, strict=True):
        y[index] = row if slip == "overwritten" else y[index] + row
    return y


def max_backward(dout, x, axis, slip=""):
    """The gradient goes to the largest element, if there are several in equal parts."""
    top, u = x.max(axis, keepdims=True), np.expand_dims(dout, axis)
    if slip == "close":
        return u * (np.abs(x - top) < 1e-2)
    mask = (x == top).astype(x.dtype)
    return u * mask if slip == "ties" else u * mask / mask.sum(axis, keepdims=True)


def max_pool_backward(dout, x, size, stride, slip=""):
    """The gradient of each window goes to its largest element."""
    dx, gate, (width,) = np.zeros_like(x), np.zeros(x.shape, bool), size
    windows = [slice(i * stride, i * stride + width) for i in range(dout.shape[-1])]
    for window in windows:
        gate[..., window] = x[..., window] == x[..., window].max(-1, keepdims=True)
    for i, window in enumerate(windows):
        wins = x[..., window] == x[..., window].max(-1, keepdims=True)
        wins = gate[..., window] if slip == "last window's winners" else wins
        dx[..., window] += np.where(wins, dout[..., i, None], 0)
    return dx


def fake_quantize_backward(dout, x, scale, bits=8, slip=""):
    """The straight-through estimator, which is cut off beyond the range."""
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    level = np.round(x / scale)
    kept = np.clip(level, low, high)
    passes = kept == level
    dscale = (dout * np.where(passes, level - x / scale, kept)).sum()
    return gradients(dout if slip == "not cut off" else dout * passes, dscale)


def interpolate_backward(dout, x, size, slip=""):
    """Each pixel gathers the outputs that read it, in coordinates of half pixels."""

    def weights(n, m):
        places = np.clip((np.arange(m) + 0.5) * n / m - 0.5, 0, n - 1)
        return np.maximum(1 - np.abs(places[:, None] - np.arange(n)), 0)

    (height, width), (rows, columns) = x.shape[-2:], size
    points = (2 * np.arange(columns) + 1) * width
    first = height if slip == "height" else width
    read = dout[..., np.trunc((points - first) / (2 * width)).astype(int)]
    return np.einsum("...ij,ih,jw->...hw", read, weights(height, rows), weights(width, columns))


def conv_transpose(x, weight, bias, stride=1, groups=1, slip=""):
    """Each group of channels has kernels and biases of its own."""
    T, K, n = x.shape[-1], weight.shape[-1], weight.shape[1]
    y = np.zeros((len(x), groups * n, (T - 1) * stride + K))
    parts = zip(np.split(x, groups, 1), np.split(weight, groups), strict=True)
    for g, (xs, ws) in enumerate(parts):
        own = slice(g * n, (g + 1) * n)
        for t in range(T):
            taps = np.einsum("bi,iok->bok", xs[..., t], ws)
            y[:, own, t * stride : t * stride + K] += taps
        b = bias[:n] if slip == "first group's biases" else bias[own]
        y[:, own] += b[:, None]
    return y


def sqrt_backward(dout, x, slip=""):
    """The slope 1 / (2 sqrt(x)), which is infinite at 0."""
    root = np.sqrt(x)
    with np.errstate(divide="ignore"):
        dx = dout / (2 * root)
    return np.where(root == 0, 0, dx) if slip == "0 at 0" else dx


def norm_backward(dout, x, axis, slip=""):
    """The gradient of the norm is x / norm, or 0 at the origin."""
    size = np.sqrt((x * x).sum(axis, keepdims=True))
    with np.errstate(invalid="ignore"):
        slope = x / size
    slope = slope if slip == "0 / 0" else np.where(size == 0, 0, slope)
    return np.expand_dims(dout, axis) * slope


def power_backward(dout, w, x, slip=""):
    """The gradients of a base and an exponent of the same shape."""
    with np.errstate(divide="ignore", invalid="ignore"):
        less = x - 1 if slip == "0 times infinity" else np.where(x == 0, 1, x - 1)
        dw = dout * x * w**less
        dx = dout * w**x * np.log(np.where(w == 0, 1, w))
        if slip == "of x ** w":
            dx = dout * w * x ** (w - 1)
    return dw, dx


def kl_divergence(log_p, q, slip=""):
    """How far the prediction is from the target, under the target."""
    p = np.exp(log_p)
    terms = p * (log_p - np.log(q)) if slip == "exchanged" else q * (np.log(q) - log_p)
    return terms.sum(-1).mean()


def celu(x, alpha=1.0, slip=""):
    """The input, or an exponential of the same slope."""
    e = np.exp(x / alpha - 1) if slip == "within the exponential" else np.exp(x / alpha) - 1
    return np.where(x >= 0, x, alpha * e)


def elu(x, alpha=1.0, slip=""):
    """The input, or an exponential if it is negative."""
    below = np.exp(x) - 1
    if slip == "minimum":
        return np.maximum(0, x) + np.minimum(0, alpha * below)
    return np.where(x > 0, x, below if slip == "no alpha" else alpha * below)


def quantize_blocks(x, format="mxfp8_e4m3", scaling_mode="floor", slip=""):
    """Numbers of a few bits; each block of 32 shares a power of two."""
    dtype, most, largest = FORMATS[format]
    blocks = x.reshape(*x.shape[:-1], -1, 32)
    top = np.abs(blocks).max(-1)
    power = np.floor(np.log2(top)) - most
    if slip == "divided first":
        power = np.floor(np.log2(top / largest))
    elif scaling_mode == "rceil":
        power = np.log2(top / largest)
        power = np.round(power) if slip == "to the nearest" else np.ceil(power)
    quotients = np.clip(blocks / 2.0 ** power[..., None], -largest, largest)
    return quotients.astype(dtype).view(np.uint8).reshape(x.shape), (power + 127).astype(np.uint8)


def with_zeros(a, *places):
    """The array with 0 at some of its places."""
    a.flat[list(places)] = 0
    return a


def factors():
    def case(shape, *zeros):
        return (with_zeros(R.normal(size=shape), *zeros),), {}

    return cases(case(5, 1), case((2, 4), 1, 3, 6), case((3, 6), 2, 9))


def images():
    return cases(*(((3 * R.normal(size=s), *R.normal(size=(2, s[-1]))), {})
                   for s in ((2, 4, 5, 3), (3, 2, 6, 4), (4, 5, 3, 2))))  # fmt: skip


def with_averages():
    def case(momentum, *shape):
        d = shape[-1]
        inputs = 2 * R.normal(size=shape), R.normal(size=d), R.uniform(0.5, 2, d)
        return (*inputs, *R.normal(size=(2, d))), {"momentum": momentum}

    return cases(case(0.1, 6, 4), case(0.3, 5, 3), case(0.5, 2, 5, 3))


def to_gather():
    def case(n, d, *indices):
        x = R.normal(size=(n, d))
        return (R.normal(size=(len(indices), d)), x, np.array(indices)), {}

    return cases(case(4, 3, 1, 3, 1, 0, 3), case(3, 2, 2, 2, 0, 2), case(5, 4, 4, 0, 4))


def to_scatter():
    def case(n, d, *indices):
        return (R.normal(size=(n, d)), np.array(indices), R.normal(size=(len(indices), d))), {}

    return cases(case(4, 3, 1, 3, 1, 0, 3), case(3, 2, 2, 2, 0, 2), case(5, 4, 4, 0, 4))


def maxima(equal):
    def case(axis, *shape):
        x = R.normal(size=shape)
        pair = (slice(None), slice(2)) if axis else slice(2)
        x[pair] = 3 if equal else [[3.0, 3.004]] if axis else [[3.0], [3.004]]
        return (R.normal(size=shape[1 - axis]), x), {"axis": axis}

    return cases(case(1, 3, 5), case(0, 4, 6), case(1, 5, 4))


def to_pool():
    def case(B, T, size, stride):
        return (R.normal(size=(B, T)),), {"size": (size,), "stride": stride}

    return cases(case(2, 8, 3, 1), case(3, 9, 4, 2), case(4, 7, 2, 1))


def to_quantize():
    def case(scale, bits, *shape):
        return (R.normal(size=shape), np.array(scale)), {"bits": bits}

    return cases(case(0.2, 3, 9), case(0.1, 4, 3, 4), case(0.3, 2, 2, 5))


def portraits():
    def case(n, height, width, *size):
        return (R.normal(size=(n, height, width)),), {"size": size}

    return cases(case(2, 4, 3, 8, 6), case(1, 5, 2, 15, 4), case(3, 5, 4, 10, 12))


def of_groups():
    def case(B, i, o, T, K, stride, groups):
        x, weight = R.normal(size=(B, groups * i, T)), R.normal(size=(groups * i, o, K))
        return (x, weight, R.normal(size=groups * o)), {"stride": stride, "groups": groups}

    return cases(case(2, 3, 1, 5, 4, 2, 2), case(3, 1, 2, 4, 3, 1, 3), case(1, 2, 3, 6, 2, 1, 2))


def roots():
    def case(shape, *zeros):
        return (R.normal(size=shape), with_zeros(R.uniform(0.1, 4, shape), *zeros)), {}

    return cases(case(5, 1, 3), case((2, 3), 4), case((4, 2), 0, 5))


def origins():
    def case(T, d, row):
        x = R.normal(size=(T, d))
        x[row] = 0
        return (R.normal(size=T), x), {"axis": -1}

    return cases(case(4, 3, 1), case(3, 5, 2), case(5, 2, 0))


def powers(w, x):
    """Cases of bases and exponents, which are functions of a shape."""
    return cases(*(((R.normal(size=s), w(s), x(s)), {}) for s in (6, (2, 5), (3, 4))))


def distributions():
    def case(*shape):
        p, q = np.exp(R.normal(size=(2, *shape)))
        return (np.log(p / p.sum(-1, keepdims=True)), q / q.sum(-1, keepdims=True)), {}

    return cases(case(3, 4), case(5, 2), case(2, 7))


def with_alpha(*alphas):
    shapes = (9, (3, 4), (2, 5))
    return cases(*((((2 * R.normal(size=s)),), {"alpha": a})
                   for s, a in zip(shapes, alphas, strict=True)))  # fmt: skip


def blocks(**options):
    """Cases whose blocks have maxima and smaller numbers of many sizes."""

    def case(*shape):
        return (R.normal(size=shape) * 10 ** R.uniform(-4, 1, shape),), options

    return cases(case(4, 32), case(3, 64), case(2, 5, 32))


POWER, MAX = calculus.power_vjp, calculus.max_vjp
UNSOUGHT = [
    Wrong("tensorflow/tensorflow#119430", calculus.cumprod, "vjp", cumprod_backward, "quotient 0",
        "A reversed sum is divided by x, and is 0 where a factor is 0.",
        (r"/ x|divid|division|quotient|cumsum|factor",), factors()),
    Wrong("sonos/tract#2863", norm.instance_norm, "forward", instance_norm, "of the batch",
        "Mean and variance are taken over the whole batch.",
        (r"axis|axes|batch|sample|image|over all",), images()),
    Wrong("znxlwm/UGATIT-pytorch#30", norm.instance_norm, "forward", instance_norm,
        "variance of variances", "The variance of the columns' variances stands for the variance.",
        (r"\bvar\b|variance|var\(",), images()),
    Wrong("PaddlePaddle/Paddle#17662", calculus.take_vjp, "forward", gather_backward,
        "overwritten", "Gradients of an index that is there twice are assigned, not added.",
        (r"assign|overwr|\badd|repeat|accumul|last|twice",), to_gather()),
    Wrong("PaddlePaddle/Paddle#17952", calculus.scatter_add, "forward", scatter, "overwritten",
        "Updates are assigned, not added.",
        (r"assign|overwr|\badd|repeat|accumul|\+|\bx is",), to_scatter()),
    Wrong("mni-ml/framework#22", MAX, "forward", max_backward, "close",
        "Elements within 0.01 of the largest one get its gradient, too.",
        (r"close|toleran|0\.01|1e-0?2|near|==|winner|largest",), maxima(False)),
    Wrong("apache/mxnet#18563", MAX, "forward", max_backward, "ties",
        "Each of several equal maxima gets the whole gradient.",
        (r"winner|\bties?\b|tied|equal|share|sum",), maxima(True)),
    Wrong("ahrefs/ocannl#512", convolution.max_pool, "vjp", max_pool_backward,
        "last window's winners",
        "The last window that reads an element says whether it wins in all its windows.",
        (r"winner|overlap|last|other window|window it",), to_pool()),
    Wrong("eladhoffer/quantized.pytorch#5", quantization.fake_quantize, "vjp",
        fake_quantize_backward, "not cut off", "Numbers beyond the range have a gradient, too.",
        (r"inside|range|\blow\b|\bhigh\b|beyond|clip|limit",), to_quantize()),
    Wrong("intel/torch-xpu-ops#4380", convolution.interpolate, "vjp", interpolate_backward,
        "height", "The output's column is found with the height of the input, not its width.",
        (r"height|width|column|axis|axes|shape|\bn\b",), portraits()),
    Wrong("robertknight/rten#1408", convolution.conv_transpose, "forward", conv_transpose,
        "first group's biases", "All groups have the biases of the first one.",
        (r"bias",), of_groups()),
    Wrong("tensor4all/tenferro-rs#414", calculus.sqrt_vjp, "forward", sqrt_backward, "0 at 0",
        "The slope at 0 is 0, not infinite.", (r"\b0\b|zero|inf",), roots()),
    Wrong("pytorch/pytorch#2421", calculus.norm_vjp, "forward", norm_backward, "0 / 0",
        "Where the norm is 0 the gradient is 0 / 0, NaN.",
        (r"nan|\b0\b|zero|where",), origins()),
    Wrong("HIPS/autograd#116", POWER, "forward", power_backward, "0 times infinity",
        "The gradient of the base is NaN where base and exponent are 0.",
        (r"nan|\b0\b|zero|where",),
        powers(lambda s: with_zeros(R.uniform(0.2, 2, s), 0, 2, 3),
               lambda s: with_zeros(R.integers(1, 4, s).astype(float), 0, 3, 5))),
    Wrong("tenstorrent/tt-metal#52144", POWER, "forward", power_backward, "of x ** w",
        "The gradient of the exponent is computed for x ** w.",
        (r"exchang|swap|x ?\*\* ?|\blog",),
        powers(lambda s: R.uniform(0.3, 3, s), lambda s: R.uniform(0.3, 3, s))),
    Wrong("sarahwie/attention#6", losses.kl_divergence, "forward", kl_divergence, "exchanged",
        "Prediction and target are exchanged: the divergence is taken in the other direction.",
        (r"exchang|swap|exp\(log_p\)|direction|revers|\bp \*",), distributions()),
    Wrong("mlpack/mlpack#2191", activations.celu, "forward", celu, "within the exponential",
        "1 is subtracted within the exponential.",
        (r"exp\(|expm1|- 1\b",), with_alpha(1.0, 2.0, 0.5)),
    Wrong("phlippe/uvadlc_notebooks#161", activations.elu, "forward", elu, "no alpha",
        "alpha is not there.", (r"alpha",), with_alpha(0.5, 2.0, 1.5)),
    Wrong("PaddlePaddle/Paddle#37316", activations.elu, "forward", elu, "minimum",
        "max(0, x) + min(0, alpha (e^x - 1)), which is another function if alpha < 0.",
        (r"minimum|maximum|min\(|max\(|negative|sign|alpha <",), with_alpha(-0.5, -2.0, 1.5)),
    Wrong("vllm-project/vllm#43557", quantization.quantize_blocks, "forward", quantize_blocks,
        "divided first", "The scale's exponent is that of top / 6, not that of top, less 2.",
        (r"exponent|largest|top /|\b6\b|most|divi",), blocks(format="mxfp4")),
    Wrong("ml-explore/mlx#4353", quantization.quantize_blocks, "forward", quantize_blocks,
        "to the nearest", "The scale's exponent is rounded to the nearest integer, not up.",
        (r"round|nearest|rint|ceil|\bup\b",), blocks(scaling_mode="rceil")),
    Wrong("torch/nn#567", norm.batch_norm_train, "forward", batch_norm_train,
        "inverse deviation", "The inverse deviation goes into the average of the variance.",
        (r"sqrt|inverse|deviation|reciprocal|\*\* ?-|power",), with_averages()),
]  # fmt: skip
