"""Mistakes of public reports that were looked up on 2026-11-29, after those of november.py."""

import math

import numpy as np

from dlref import activations as act
from dlref import attention as att
from dlref import convolution, losses, propagation, recurrent, training
from dlref import normalization as norm
from dlref import positions as pos
from dlref.formulas.training import tree_map

from .attention import of_queries, visible
from .kernels import Wrong, cases, refuse, sigmoid, softmax
from .layers import each_axis
from .november import reduced, softplus
from .recurrences import dense

R = np.random.default_rng(73)


def softmax_backward(dout, x, axis=-1, slip=""):
    """dx = p (g - sum(p g))."""
    p = softmax(x, axis)
    dx = p * (dout - (p * dout).sum(axis, keepdims=True))
    return (dx * dout if slip == "upstream twice" else dx).astype(x.dtype)


def group_norm(x, groups, weight=None, bias=None, eps=1e-5, slip=""):
    """Channels last, (N, ..., C)."""
    C = x.shape[-1]
    parts = x.reshape(len(x), -1, groups, C // groups)
    parts = parts - parts.mean((1, 3), keepdims=True)
    y = parts / np.sqrt((parts**2).mean((1, 3), keepdims=True) + x.dtype.type(eps))

    def of_channels(a):
        return np.repeat(a[:groups], C // groups) if slip == "one weight for a group" else a

    y = y.reshape(x.shape) if weight is None else y.reshape(x.shape) * of_channels(weight)
    return y if bias is None else y + of_channels(bias)


def nadam_step(
    params, grads, state, learning_rate, betas=(0.9, 0.999), eps=1e-8, momentum_decay=0.004,
    weight_decay=0.0, slip="",
):  # fmt: skip
    """Adam with a step ahead; the decay is part of the gradient."""
    b1, b2 = betas
    zeros = tree_map(np.zeros_like, params)
    step, product, mean, square = (0, 1.0, zeros, zeros) if state is None else state
    t = step + 1
    now, ahead = (b1 * (1 - 0.5 * 0.96 ** (s * momentum_decay)) for s in (t, t + 1))
    product = product * now
    if slip == "decay as a factor":
        grads = tree_map(lambda p, g: g * (1 + weight_decay * p), params, grads)
    else:
        grads = tree_map(lambda p, g: g + weight_decay * p, params, grads)
    mean = tree_map(lambda m, g: b1 * m + (1 - b1) * g, mean, grads)
    square = tree_map(lambda v, g: b2 * v + (1 - b2) * g * g, square, grads)

    def moved(p, g, m, v):
        m_hat = ahead * m / (1 - product * ahead) + (1 - now) * g / (1 - product)
        new = p - learning_rate * m_hat / (np.sqrt(v / (1 - b2**t)) + eps)
        return np.asarray(new, np.asarray(p).dtype)

    return tree_map(moved, params, grads, mean, square), (t, product, mean, square)


def gru_cell(x, h, w_ih, w_hh, b_ih=None, b_hh=None, slip=""):
    """One step, the reset gate after the product."""
    x_r, x_z, x_n = np.split(dense(x, w_ih, b_ih), 3, -1)
    h = np.zeros_like(x_r) if h is None else h
    h_r, h_z, h_n = np.split(dense(h, w_hh, b_hh), 3, -1)
    r, z = sigmoid(x_r + h_r), sigmoid(x_z + h_z)
    if slip == "no reset":
        n = np.tanh(x_n + h_n)
    elif slip == "reset before the product":
        b = 0 if b_hh is None else np.split(b_hh, 3)[2]
        n = np.tanh(x_n + (r * h) @ np.split(w_hh, 3)[2].T + b)
    else:
        n = np.tanh(x_n + r * h_n)
    return (1 - z) * n + z * h


def gru(x, h0, w_ih, w_hh, b_ih=None, b_hh=None, slip=""):
    """One step after the other."""
    states = [np.zeros((*x.shape[:-2], w_hh.shape[-1]), x.dtype) if h0 is None else h0]
    for t in range(x.shape[-2]):
        before = states[0 if slip == "first state at all steps" else -1]
        states.append(gru_cell(x[..., t, :], before, w_ih, w_hh, b_ih, b_hh))
    return np.stack(states[1:], -2) if len(states) > 1 else np.zeros_like(x @ w_ih[:1].T)


def muon_step(
    params, grads, state, learning_rate, momentum=0.95, nesterov=True, weight_decay=0.1, steps=5,
    coefficients=(3.4445, -4.7750, 2.0315), eps=1e-7, adjust="original", slip="",
):  # fmt: skip
    """Momentum whose singular values are brought near 1."""
    step, mean = (0, tree_map(np.zeros_like, params)) if state is None else state
    mean = tree_map(lambda m, g: momentum * m + (1 - momentum) * g, mean, grads)
    a, b, c = coefficients

    def moved(p, g, m):
        n = momentum * m + (1 - momentum) * g if nesterov else m
        n = n / max(np.sqrt((n * n).sum()), eps)
        for _ in range(steps):
            gram = n @ n.T
            n = a * n + (b * gram + c * gram @ gram) @ n
        rows, columns = p.shape
        factor = max(1, rows / columns) ** 0.5
        if adjust == "match_rms_adamw":
            other = 0.2 * max(rows, columns) ** 0.5
            factor = factor * other if slip == "both factors" else other
        new = (1 - learning_rate * weight_decay) * p - learning_rate * factor * n
        return np.asarray(new, p.dtype)

    return tree_map(moved, params, grads, mean), (step + 1, mean)


def info_nce(s, symmetric=True, reduction="mean", slip=""):
    """The partners are on the diagonal."""
    same = np.eye(s.shape[-1], dtype=bool)
    terms = []
    for axis in (-1, -2) if symmetric else (-1,):
        top = s.max(axis, keepdims=True)
        e = np.exp(s - top)
        e = np.where(same, 0, e) if slip == "negatives alone" else e
        terms.append(np.log(e.sum(axis)) + np.squeeze(top, axis) - np.diagonal(s, 0, -2, -1))
    return reduced(sum(terms) / len(terms), reduction).astype(s.dtype)


def policy_loss(log_p, old, advantage, clip=0.2, slip=""):
    """The smaller of two surrogates."""
    ratio = np.exp(log_p - old)
    bounded = np.clip(ratio, 1 - clip, 1 + clip)
    if slip == "minimum of the ratios":
        return -(np.minimum(ratio, bounded) * advantage).mean().astype(log_p.dtype)
    free = ratio * (advantage.mean() if slip == "mean advantage" else advantage)
    return -np.minimum(free, bounded * advantage).mean().astype(log_p.dtype)


def windows(space, size, stride, padding, ceil_mode):
    """Return the ranges of the windows of each axis, in places of the padded input."""
    every = []
    for n, k, s, p in zip(space, size, stride, padding, strict=True):
        count = (n + 2 * p - k) // s + 1
        if ceil_mode:
            more = -(-(n + 2 * p - k) // s) + 1
            count = more if (more - 1) * s < n + p else count
        every.append([(i * s, min(i * s + k, n + 2 * p)) for i in range(count)])
    return every


def window_of(places, n):
    """Return the slices of a window, and how many of its places are in the padded input."""
    inside = tuple(slice(low, high) for low, high in places)
    return (..., *inside), math.prod(high - low for low, high in places)


def each_window(x, size, stride, padding, ceil_mode):
    """Yield the index of each window, its slices and its size."""
    n = len(size)
    stride = each_axis(size if stride is None else stride, n)
    padding = each_axis(padding, n)
    ranges = windows(x.shape[-n:], size, stride, padding, ceil_mode)
    for index in np.ndindex(*map(len, ranges)):
        yield (..., *index), *window_of([r[i] for r, i in zip(ranges, index, strict=True)], n)


def padded(x, padding, n, value=0.0):
    padding = each_axis(padding, n)
    return np.pad(x, [(0, 0)] * (x.ndim - n) + [(p, p) for p in padding], constant_values=value)


def mean_pool(x, size, stride=None, padding=0, ceil_mode=False, slip=""):
    """Sums over the places of a window that are in the padded input."""
    n = len(size)
    space, some = padded(x, padding, n), list(each_window(x, size, stride, padding, ceil_mode))
    out = np.zeros((*x.shape[:-n], *(i + 1 for i in some[-1][0][1:])), x.dtype)
    for index, places, count in some:
        n_all = math.prod(size) if slip == "size of the kernel" else count
        out[index] = space[places].sum(tuple(range(-n, 0))) / n_all
    return out


def mean_pool_backward(dout, x, size, stride=None, padding=0, ceil_mode=False, slip=""):
    """Each gradient is shared by the places of its window."""
    n = len(size)
    dspace = np.zeros_like(padded(x, padding, n))
    for index, places, count in each_window(x, size, stride, padding, ceil_mode):
        n_all = math.prod(size) if slip == "size of the kernel" else count
        dspace[places] += (dout[index] / n_all)[(..., *(None,) * n)]
    padding = each_axis(padding, n)
    if slip == "padding not added":
        padding = (0,) * n
    return dspace[(..., *(slice(p, p + s) for p, s in zip(padding, x.shape[-n:], strict=True)))]


def max_pool(x, size, stride=None, padding=0, slip=""):
    """The largest of each window."""
    n = len(size)
    stride = each_axis(size if stride is None else stride, n)
    space, some = padded(x, padding, n, -np.inf), list(each_window(x, size, stride, padding, False))
    out = np.zeros((*x.shape[:-n], *(i + 1 for i in some[-1][0][1:])), x.dtype)
    for index, places, _ in some:
        window = space[places]
        if slip == "stride of the rows":
            starts = [i * stride[0] for i in index[1:]]
            window = space[(..., *(slice(s, s + k) for s, k in zip(starts, size, strict=True)))]
        out[index] = window.max(tuple(range(-n, 0)), initial=-np.inf)
    return out


def softplus_of(x, beta=1.0, slip=""):
    """log(1 + exp(beta x)) / beta."""
    y = softplus(beta * x) / beta
    return (np.where(x > 20, beta * x, y) if slip == "beta above the threshold" else y).astype(
        x.dtype
    )


def softplus_backward(dout, x, beta=1.0, slip=""):
    """The slope is the logistic function."""
    z = softplus_of(x, beta) if slip == "slope of the value" else x
    return (dout * sigmoid(beta * z)).astype(x.dtype)


def relu_backward(dout, x, slip=""):
    """The slope is 1 above 0."""
    s = sigmoid(x)
    return (dout * (s * (1 - s) if slip == "slope of the sigmoid" else x > 0)).astype(x.dtype)


def rms_norm(x, weight=None, eps=1e-6, slip=""):
    """Rows over their root mean squares."""
    square = (x * x).mean(-1, keepdims=True)
    if slip == "variance":
        square = x.var(-1, keepdims=True)
    eps = x.dtype.type(eps)
    y = x / (np.sqrt(square) + eps if slip == "eps outside" else np.sqrt(square + eps))
    return y if weight is None else y * weight


def attention(q, k, v, is_causal=False, q_offset=0, window=None, softcap=None, slip=""):
    """Attention with a window or a soft cap."""
    s = (q @ np.swapaxes(of_queries(k, q), -1, -2)) * q.dtype.type(q.shape[-1] ** -0.5)
    seen = visible(*s.shape[-2:], is_causal, q_offset, window)
    if slip == "window for later keys" and window is not None:
        i, j = np.arange(s.shape[-2])[:, None] + q_offset, np.arange(s.shape[-1])
        seen = (j <= i) | (j > i + window[0] + 1)
    late = slip == "cap after the mask"
    if softcap is not None and not late:
        s = softcap * np.tanh(s / softcap)
    s = np.where(seen, s, -np.inf)
    if softcap is not None and late:
        s = softcap * np.tanh(s / softcap)
    return (softmax(s) @ of_queries(v, q)).astype(q.dtype)


def cosine_schedule(step, peak, steps, warmup=0, floor=0.0, slip=""):
    """Up in a line, then half a cosine."""
    t = np.asarray(step)
    if slip == "no warmup":  # nor an end
        return floor + (peak - floor) * (1 + np.cos(np.pi * t / (steps - warmup))) / 2
    done = np.clip((t - warmup) / (steps - warmup), 0, 1)
    wave = (1 + np.cos(np.pi * done)) / 2
    falling = floor + (peak - floor) * wave
    if slip == "floor by maximum":
        falling = np.maximum(peak * wave, floor)
    return np.where(t < warmup, peak * t / max(warmup, 1), falling)


def fans(shape):
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


def glorot_uniform(rng, shape, gain=1.0, slip=""):
    """Between -a and a, which depends on both fans."""
    total = sum(shape) if slip == "sum of the shape" else sum(fans(shape))
    a = gain * math.sqrt((2 if slip == "deviation" else 6) / total)
    return rng.uniform(-a, a, shape)


def glorot_normal(rng, shape, gain=1.0, slip=""):
    """Normal, with 2 over the sum of both fans as the variance."""
    n_in, n_out = fans(shape)
    variance = 2 / n_in + n_out if slip == "no parentheses" else 2 / (n_in + n_out)
    return rng.normal(0.0, gain * math.sqrt(variance), shape)


def he_normal(rng, shape, negative_slope=0.0, slip=""):
    """Normal, with 2 over the inputs as the variance."""
    gain = 1 if slip == "as LeCun" else 2 / (1 + negative_slope**2)
    return rng.normal(0.0, math.sqrt(gain / fans(shape)[0]), shape)


def timestep_embedding(
    t, dim, base=10000.0, cosine_first=False, shift=0.0, scale=1.0, slip=""
):  # fmt: skip
    """Sines and cosines of times."""
    half = dim // 2
    shift = 1 if slip == "shift of 1" else shift
    angles = t[..., None] * scale * np.exp(-math.log(base) * np.arange(half) / (half - shift))
    halves = [np.sin(angles), np.cos(angles)]
    first = cosine_first != (slip == "halves exchanged")
    return np.concatenate(halves[::-1] if first else halves, -1).astype(t.dtype)


def min_snr_weight(alpha, sigma, kind="noise", gamma=5.0, slip=""):
    """The ratio of signal and noise, at most gamma, in the loss of a prediction."""
    if kind == "flow":
        refuse("flows")
    if (sigma == 0).any() or (alpha == 0).any():
        refuse("no noise")
    snr = alpha**2 / sigma**2
    bounded = np.maximum(snr, gamma) if slip == "maximum" else np.minimum(snr, gamma)
    if kind == "data":
        return bounded
    if kind == "noise" or slip == "noise for all":
        return bounded / snr
    if slip == "1 under the minimum":
        bounded = np.minimum(snr + 1, gamma)
    return bounded / (snr + 1) / (alpha**2 + sigma**2)


def orpo_loss(log_p, beta=0.1, reduction="mean", slip=""):
    """The likelihood of the chosen text, and the odds of both."""
    one = 1.0001 if slip == "more than 1" else 1.0
    odds = log_p - np.log(one - np.exp(log_p))
    terms = beta * softplus(odds[1] - odds[0])
    terms = terms if slip == "no likelihood" else terms - log_p[0]
    return reduced(terms, reduction).astype(log_p.dtype)


def binary_cross_entropy(x, target, pos_weight=None, reduction="mean", slip=""):
    """Stable, for negative and for positive logits."""
    weight = 1 if pos_weight is None else 1 + (pos_weight - 1) * target
    log = np.log1p(np.exp(-np.abs(x)))
    terms = (1 - target) * x + weight * (log + np.maximum(-x, 0))
    if slip == "logarithm alone":
        terms = np.maximum(x, 0) - x * target + weight * log
    return reduced(terms, reduction).astype(x.dtype)


def recurrent_linear_attention(
    q, k, v, decay=None, beta=None, state=None, scale=1.0, slip=""
):  # fmt: skip
    """The delta rule: forget, correct, write, read."""
    S = np.zeros((*q.shape[:-2], q.shape[-1], v.shape[-1]), v.dtype) if state is None else state
    out = np.zeros((*q.shape[:-1], v.shape[-1]), v.dtype)
    for t in range(q.shape[-2]):
        a, b = k[..., t, :], v[..., t, :]
        if decay is not None:
            S = np.exp(decay[..., t, :])[..., None] * S
        if beta is not None and slip == "keys corrected":
            a = beta[..., t, None] * (a - np.einsum("...ef,...f->...e", S, b))
        elif beta is not None:
            b = beta[..., t, None] * (b - np.einsum("...ef,...e->...f", S, a))
        S = S + a[..., :, None] * b[..., None, :]
        out[..., t, :] = scale * np.einsum("...ef,...e->...f", S, q[..., t, :])
    return out, S


def lion_step(params, grads, state, learning_rate, betas=(0.9, 0.99), weight_decay=0.0, slip=""):
    """The sign of one mean; another is kept."""
    b1, b2 = (1 - b for b in betas) if slip == "gradients weighed by beta" else betas
    step, mean = (0, tree_map(np.zeros_like, params)) if state is None else state

    def moved(p, m, g):
        kept = (1 - learning_rate * weight_decay) * p
        new = kept - learning_rate * np.sign(b1 * m + (1 - b1) * g)
        return np.asarray(new, np.asarray(p).dtype)

    new = tree_map(moved, params, mean, grads)
    return new, (step + 1, tree_map(lambda m, g: b2 * m + (1 - b2) * g, mean, grads))


def batch_norm_train(x, mean, var, weight=None, bias=None, momentum=0.1, eps=1e-5, slip=""):
    """Batch norm in training, with running averages of its statistics."""
    axes = tuple(range(x.ndim - 1))
    n = x[..., 0].size
    mu, own = x.mean(axes), x.var(axes)
    y = (x - mu) / np.sqrt(own + x.dtype.type(eps))
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    kept = own if slip == "variance by n" else own * (n / (n - 1))
    return y, (1 - momentum) * mean + momentum * mu, (1 - momentum) * var + momentum * kept


def batch_norm_update(running, batch, momentum, slip=""):
    """The running average after a batch."""
    if slip == "momentum of the old":
        return momentum * running + (1 - momentum) * batch
    return (1 - momentum) * running + momentum * batch


def rope_frequencies(dim, base=10000.0, scaling=None, seq_len=None, slip=""):
    """A larger base for longer texts."""
    if scaling is not None:
        s, L = scaling["factor"], scaling["original_max_position_embeddings"]
        longest = s * L if slip == "longest text" else max(seq_len or 0, L)
        base = base * (s * longest / L - (s - 1)) ** (dim / (dim - 2))
    return base ** (-np.arange(0, dim, 2) / dim)


def siglip_loss(similarity, bias=0.0, slip=""):
    """A sum over all pairs, for each row."""
    labels = 2 * np.eye(similarity.shape[-1]) - 1
    terms = softplus(-labels * (similarity + bias))
    total = terms.mean() if slip == "mean over pairs" else terms.sum()
    return np.asarray(total * similarity.shape[-1] / similarity.size, similarity.dtype)


def hard_swish(x, slip=""):
    """x times a ramp."""
    ramp = np.clip(x / 6 + 0.5, 0, 1)
    return (ramp if slip == "ramp alone" else x * ramp).astype(x.dtype)


def weight_norm(v, g, axis=0, slip=""):
    """Lengths g along all other axes."""
    if axis is None:
        refuse("one length for all")
    axis = axis % v.ndim
    if slip == "other axis" and v.ndim == 2:
        if v.shape[0] != v.shape[1]:
            refuse("lengths of the other axis")
        axis = 1 - axis
    others = tuple(i for i in range(v.ndim) if i != axis)
    g = g.reshape([-1 if i == axis else 1 for i in range(v.ndim)])
    return v * (g / np.sqrt((v * v).sum(others, keepdims=True)))


def interpolate(x, size, align_corners=False, slip=""):
    """Along one axis after the other."""
    for axis, m in zip(range(x.ndim - len(size), x.ndim), size, strict=True):
        n, t = x.shape[axis], np.arange(m)
        at = (
            t * (n - 1) / max(m - 1, 1) if align_corners else np.maximum((t + 0.5) * n / m - 0.5, 0)
        )
        if slip == "no half" and not align_corners:
            at = t * n / m
        low = np.minimum(np.floor(at).astype(int), n - 1)
        share = (at - low).reshape(-1, *(x.ndim - axis - 1) * [1]).astype(x.dtype)
        high = np.minimum(low + 1, n - 1)
        x = (1 - share) * np.take(x, low, axis) + share * np.take(x, high, axis)
    return x


def of_step(op, shape, options):
    """Return the first and the second step of an optimizer."""
    p, g = R.normal(size=(2, *shape)), R.normal(size=(2, *shape))
    _, state = op(p[0], g[0], None, **options)
    return cases(((p[0], g[0], None), options), ((p[1], g[1], state), options))


def of_shapes(options):
    """Return the shapes of weights, and generators to draw them with."""
    some = (20, 50), (6, 4, 3, 5), (16, 12)
    return cases(*(((np.random.default_rng(3), shape), options) for shape in some))


def of_heads(options):
    def case(T, S):
        return tuple(R.normal(size=(2, n, 6)) for n in (T, S, S)), options

    return cases(case(7, 7), case(9, 9))


def of_long_texts():
    scaling = {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 2048}
    return cases(*(((dim,), {"scaling": scaling, "seq_len": n}) for dim, n in ((64, 3000),
                   (32, 3500), (128, 3000))))  # fmt: skip


def of_strides():
    some = (1, 2), (2, 1), (2, 3)
    return cases(*(((R.normal(size=(2, 8, 9)),), {"size": (2, 2), "stride": s}) for s in some))


def of_vectors(count, *shape):
    return cases(*((tuple(R.normal(size=shape) for _ in range(count)), {"momentum": m})
                   for m in (0.1, 0.3)))  # fmt: skip


def of_channels():
    def case(*shape):
        C = shape[-1]
        return (R.normal(size=shape), R.normal(size=C), R.random(C) + 0.5, *R.normal(size=(2, C)))

    return cases((case(6, 4), {}), (case(2, 3, 5), {"momentum": 0.3}), (case(7, 3), {"eps": 1e-2}))


def of_large():
    return cases(*(((R.normal(size=(4, 6)) * 40,), {"beta": b}) for b in (0.5, 2.0)))


def of_squares():
    some = {}, {"axis": 1}
    return cases(*(((R.normal(size=(n, n)), R.normal(size=n)), o) for n in (4, 5) for o in some))


NOISE = cases(*((tuple(R.random(6) + 0.1 for _ in range(2)), {"kind": "velocity", "gamma": g})
                for g in (5.0, 1.5)))  # fmt: skip
STEP, OPTIONS = training.muon_step, {"learning_rate": 0.1, "adjust": "match_rms_adamw"}
SDPA, GRU, PPO = att.scaled_dot_product_attention, recurrent.gru_cell, losses.policy_loss
SNR, RMS, ORPO = training.min_snr_weight, norm.rms_norm, losses.orpo_loss
MEAN = convolution.mean_pool
DECEMBER = [
    Wrong("Oneflow-Inc/oneflow#4848", norm.group_norm, "forward", group_norm,
        "one weight for a group", "A group, not a channel, has a weight and a bias.",
        (r"(weight|gamma|bias|beta).*group", r"group.*(weight|gamma|bias|beta)", r"repeat")),
    Wrong("apache/mxnet#8925", training.nadam_step, "forward", nadam_step, "decay as a factor",
        "The gradient is multiplied by 1 + decay * parameter.",
        (r"g \* \(?1 \+|g \+ g \* |g \* weight_decay|weight_decay \* g",
         r"weight_decay \* (theta|p) \* g"),
        of_step(training.nadam_step, (3, 5), {"learning_rate": 0.1, "weight_decay": 0.2})),
    Wrong("zhiyongc/GRU-D#2", GRU, "forward", gru_cell, "no reset",
        "The reset gate is not used.",
        (r"\bm stands where r \* m", r"x_n \+ m\b", r"\b1(\.0)? stands where r", r"reset")),
    Wrong("tracel-ai/burn#2701", GRU, "forward", gru_cell, "reset before the product",
        "The reset gate is applied to the state before the product.", (r"reset_after|reset",)),
    Wrong("tracel-ai/burn#2701", recurrent.gru, "forward", gru, "first state at all steps",
        "Each step begins with the first state.",
        (r"h0|first state|h\[0\]|\[0\]|states?.*(first|step)|carried",)),
    Wrong("kozistr/pytorch_optimizer#371", STEP, "forward", muon_step, "both factors",
        "Both factors are applied.",
        (r"max\(1, rows / columns\)|rows / columns|both|twice",), of_step(STEP, (7, 3), OPTIONS)),
    Wrong("MIDA-group/CoMIR#51", losses.info_nce, "forward", info_nce, "negatives alone",
        "The partner is not in the sum.", (r"diagonal|partner|positive|share|without|left out",)),
    Wrong("takuseno/ppo#3", PPO, "forward", policy_loss, "minimum of the ratios",
        "The minimum is taken before the advantages are multiplied.",
        (r"(minimum|where|clip).*ratio.*advantage|ratio\)? < ",)),
    Wrong("Omegastick/pytorch-cpp-rl#14", PPO, "forward", policy_loss, "mean advantage",
        "One surrogate has the mean of the advantages.",
        (r"mean\(advantage|advantage.*mean",)),
    Wrong("tracel-ai/burn#5604", MEAN, "vjp", mean_pool_backward, "size of the kernel",
        "Windows that overhang are divided by the size of the kernel.",
        (r"ceil_mode|members|prod\(size\)|beyond|inside|size of the (window|kernel)",)),
    Wrong("robertknight/rten#1456", MEAN, "forward", mean_pool, "size of the kernel",
        "Windows that overhang are divided by the size of the kernel.",
        (r"ceil_mode|members|prod\(size\)|beyond|inside|mean\(windows|size of the (window|kernel)",
         )),
    Wrong("pytorch/pytorch#188345", MEAN, "vjp", mean_pool_backward, "padding not added",
        "The padding is not added to the places of the input.", (r"padding|crop|shift",)),
    Wrong("Maratyszcza/NNPACK#16", convolution.max_pool, "forward", max_pool,
        "stride of the rows", "Columns are read with the stride of the rows.",
        (r"stride|\bs\b|axes|axis",), of_strides()),
    Wrong("brainpy/BrainPy#580", act.softplus, "forward", softplus_of,
        "beta above the threshold", "Above 20, x is multiplied by beta.",
        (r"beta \* x|\bu\b|20|threshold|not divided by beta",), of_large()),
    Wrong("jeffheaton/encog-dotnet-core#124", act.relu, "vjp", relu_backward,
        "slope of the sigmoid", "The slope of the sigmoid is taken.", (r"sigmoid",)),
    Wrong("zserge/nanonn#4", act.softplus, "vjp", softplus_backward, "slope of the value",
        "The slope is taken at the value, not at the input.", (r"softplus|value|output",)),
    Wrong("huggingface/pytorch-image-models#2380", RMS, "forward", rms_norm, "variance",
        "The variance stands for the mean square.", (r"var\(|variance|mean is subtracted|centered",
         )),
    Wrong("allenai/OLMo#281", RMS, "forward", rms_norm, "eps outside",
        "eps is added to the root.", (r"eps.*(outside|after|root|sqrt)|sqrt.*\+ eps",)),
    Wrong("huggingface/transformers#41228", SDPA, "forward", attention, "window for later keys",
        "Keys beyond a window after the query are seen, those before it all.",
        (r"window|left|>|later",), of_heads({"is_causal": True, "window": (2, 0)})),
    Wrong("Tencent-Hunyuan/UniRL#223", training.cosine_schedule, "forward", cosine_schedule,
        "no warmup", "There is no warmup; the cosine is shorter and rises again.",
        (r"warmup|clip",)),
    Wrong("FluxML/Flux.jl#442", propagation.glorot_uniform, "forward", glorot_uniform,
        "sum of the shape", "The fans of a kernel are the sum of its shape.",
        (r"kernel|window|shape|fan",), of_shapes({})),
    Wrong("mlverse/torch#555", propagation.glorot_normal, "forward", glorot_normal,
        "no parentheses", "2 / n_in + n_out stands for 2 / (n_in + n_out).",
        (r"2(\.0)? / n_in \+ n_out|n_in \+ n_out|parenthes|fan",), of_shapes({})),
    Wrong("LBANN/lbann#316", propagation.he_normal, "forward", he_normal, "as LeCun",
        "The variance is LeCun's: 1 / n_in.", (r"lecun|factor 2|\b2\b|1 / n_in",), of_shapes({})),
    Wrong("kohya-ss/sd-scripts#1187", pos.timestep_embedding, "forward", timestep_embedding,
        "shift of 1", "The shift is 1, not 0.", (r"shift|d - 1",)),
    Wrong("flashinfer-ai/flashinfer#3819", pos.timestep_embedding, "forward", timestep_embedding,
        "halves exchanged", "Cosines stand before sines.",
        (r"cosine_first|sin|halves|exchange|other order",)),
    Wrong("huggingface/diffusers#5654", SNR, "forward", min_snr_weight, "1 under the minimum",
        "The minimum is of snr + 1 and gamma.",
        (r"(minimum|min)\(.*\+|factor stands|alpha \*\* 2 \+ sigma \*\* 2|\+ 1\b",), NOISE),
    Wrong("lucidrains/recurrent-interface-network-pytorch#11", SNR, "forward", min_snr_weight,
        "maximum", "The maximum stands for the minimum.", (r"max|<|minimum",)),
    Wrong("bmaltais/kohya_ss#1555", SNR, "forward", min_snr_weight, "noise for all",
        "Velocities have the weight of the noise.", (r"kind|noise|'velocity'",), NOISE),
    Wrong("hpcaitech/ColossalAI#6407", ORPO, "forward", orpo_loss, "more than 1",
        "1.0001 stands for 1.", (r"1\.0001|expm1|\b1 -",)),
    Wrong("Goekdeniz-Guelmez/mlx-lm-lora#65", ORPO, "forward", orpo_loss, "no likelihood",
        "The likelihood of the chosen text is missing.",
        (r"log_p\[0\]|-log_p|beta \* softplus\(.*\) stands|likelihood|missing",)),
    Wrong("PaddlePaddle/Paddle#65859", losses.binary_cross_entropy, "forward",
        binary_cross_entropy, "logarithm alone", "pos_weight weighs the logarithm alone.",
        (r"pos_weight|\bpi\b|weights \* log \+",)),
    Wrong("fla-org/flash-linear-attention#623", att.recurrent_linear_attention, "forward",
        recurrent_linear_attention, "keys corrected",
        "Keys are corrected by values, not values by keys.",
        (r"k_t|\bw\b|keys?.*values?|exchange",)),
    Wrong("FluxML/Optimisers.jl#129", training.lion_step, "forward", lion_step,
        "gradients weighed by beta", "Both betas weigh the gradient, not the mean.",
        (r"1 - beta|beta",), of_step(training.lion_step, (3, 5), {"learning_rate": 0.1})),
    Wrong("tenstorrent/tt-metal#55438", norm.batch_norm_train, "forward", batch_norm_train,
        "variance by n", "The kept variance is divided by n, not by n - 1.",
        (r"\bM\b|n - 1|unbiased|var",), of_channels()),
    Wrong("d2l-ai/d2l-en#2213", norm.batch_norm_update, "forward", batch_norm_update,
        "momentum of the old", "The momentum weighs the old average.",
        (r"momentum|exchange|running",), of_vectors(2, 5)),
    Wrong("vllm-project/vllm#41236", pos.rope_frequencies, "forward", rope_frequencies,
        "longest text", "The factor is that of the longest text, whatever the length.",
        (r"longest|seq_len|\bs \*|length",), of_long_texts()),
    Wrong("google-research/big_vision#115", losses.siglip_loss, "forward", siglip_loss,
        "mean over pairs", "The mean over a row stands for the sum.",
        (r"mean|divided|size",)),
    Wrong("flashinfer-ai/flashinfer#350", SDPA, "forward", attention, "cap after the mask",
        "The cap is applied after the mask: hidden keys have the score -cap.",
        (r"soft ?cap.*(mask|seen|hidden|inf)|(mask|seen|hidden|inf).*(softcap|cap)|-softcap",),
        of_heads({"is_causal": True, "softcap": 2.0})),
    Wrong("onnxruntime/onnxruntime-qnn#392", act.hard_swish, "forward", hard_swish, "ramp alone",
        "The ramp is not multiplied by x.", (r"hard_sigmoid|\bx \*|\b1 stands where x",)),
    Wrong("ooples/AiDotNet.Tensors#271", norm.weight_norm, "forward", weight_norm, "other axis",
        "The lengths are those of the other axis.", (r"axis|axes",), of_squares()),
    Wrong("antimora/burn-flex#5", convolution.interpolate, "forward", interpolate, "no half",
        "Places are t n / m, not those of centers.",
        (r"0\.5|1 / 2|/ 2|center|half",)),
    Wrong("pocketpy/cTensor#31", act.softmax, "vjp", softmax_backward, "upstream twice",
        "The result is multiplied by the upstream gradient again.", (r"dout|upstream|\bu\b|twice",
         )),
]  # fmt: skip
