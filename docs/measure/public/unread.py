"""Mistakes of public reports that were looked up after the set unheard had been tried."""

import numpy as np

from dlref import attention as att
from dlref import convolution, losses, quantization, recurrent, training, transformer
from dlref import normalization as norm

from .kernels import Wrong, cases, gradients, sigmoid
from .losses import log_softmax

R = np.random.default_rng(98)


def gru(x, h0, w_ih, w_hh, b_ih, b_hh, slip=""):
    """A GRU whose first state may be missing."""
    n = w_hh.shape[1]
    h = np.zeros((*x.shape[:-2], n)) if h0 is None else h0
    out = []
    for t in range(x.shape[-2]):
        a, b = x[..., t, :] @ w_ih.T + b_ih, h @ w_hh.T + b_hh
        r, z = sigmoid(a[..., :n] + b[..., :n]), sigmoid(a[..., n : 2 * n] + b[..., n : 2 * n])
        hidden = b[..., 2 * n :]
        if slip == "no bias without a state" and h0 is None and t == 0:
            hidden = np.zeros_like(hidden)
        g = np.tanh(a[..., 2 * n :] + r * hidden)
        h = (1 - z) * g + z * h
        out.append(h)
    return np.stack(out, -2)


def group_norm(x, groups, weight=None, bias=None, eps=1e-5, slip=""):
    """Each group of channels, which come last, on its own."""
    N, C = len(x), x.shape[-1]
    parts = x.reshape(N, -1, groups, C // groups)
    count = parts.shape[1] * parts.shape[3]
    mean, var = parts.mean((1, 3), keepdims=True), parts.var((1, 3), keepdims=True)
    if slip == "padded positions":
        padded = np.pad(parts, ((0, 0), (0, -parts.shape[1] % 8), (0, 0), (0, 0)))
        mean, var = padded.mean((1, 3), keepdims=True), padded.var((1, 3), keepdims=True)
    if slip == "lanes of the next group":
        width, flat = 1 << (parts.shape[3] - 1).bit_length(), x.reshape(N, -1, C)
        for g in range(groups):
            lanes = flat[..., g * parts.shape[3] : g * parts.shape[3] + width]
            mean[:, 0, g, 0] = lanes.sum((1, 2)) / count
            var[:, 0, g, 0] = ((lanes - mean[:, :, g]) ** 2).sum((1, 2)) / count
    out = ((parts - mean) / np.sqrt(var + eps)).reshape(x.shape)
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def load_balancing_loss(scores, experts, shares="tokens", slip=""):
    """Shares of the experts times their mean probabilities."""
    n = scores.shape[-1]
    counts = np.bincount(experts.ravel(), minlength=n)
    tokens = scores.size // n
    per_token = shares == "tokens" or slip == "not divided by k"
    if slip == "selected alone":
        selected = (experts[..., None] == np.arange(n)).any(-2)
        scores = np.where(selected, scores, 0)
    return n * (counts / (tokens if per_token else experts.size) * scores.mean(0)).sum()


def kl_divergence(log_p, q, slip=""):
    """The divergence, as a mean over all distributions."""
    total = (q * (np.log(q) - log_p)).sum()
    return total / (len(q) if slip == "batches alone" else q[..., 0].size)


def softmax_focal_loss(logits, target, weight, gamma=2.0, slip=""):
    """Weighted cross-entropy times a power of the probability of being wrong."""
    ce = -np.take_along_axis(log_softmax(logits), target[:, None], -1)[:, 0]
    weighted = weight[target] * ce
    p = np.exp(-(weighted if slip == "weighted probability" else ce))
    return ((1 - p) ** gamma * weighted).mean()


def fake_quantize(x, scale, zero_point=0, bits=8, slip=""):
    """The nearest level of an integer format."""
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    if slip == "truncated":
        q = np.trunc(x / scale) + zero_point
    elif slip == "rounded after the zero point":
        q = np.round(x / scale + zero_point)
    else:
        q = np.round(x / scale) + zero_point
    return scale * (np.clip(q, low, high) - zero_point)


def layer_norm_backward(dout, x, weight, bias, eps=1e-5, slip=""):
    """The gradients of input, weight and bias."""
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    x_hat = (x - mean) / np.sqrt(var + eps)
    d = dout * weight
    m1, m2 = d.mean(-1, keepdims=True), (d * x_hat).mean(-1, keepdims=True)
    dx = (d - m1 - x_hat * m2) / np.sqrt(var + eps)
    axes = tuple(range(x.ndim - 1))
    dweight = ((d if slip == "weight twice" else dout) * x_hat).sum(axes)
    dbias = dout.sum(axes)
    return gradients(dx, *((dbias, dweight) if slip == "exchanged" else (dweight, dbias)))


def delta_chunk(q, k, v, decay, beta, slip=""):
    """All steps of one chunk, with a decay for each head."""
    c = np.cumsum(decay[..., 0], -1)
    fade = np.tril(np.exp(np.minimum(c[..., :, None] - c[..., None, :], 0)))
    past = np.tril(np.ones((q.shape[-2],) * 2), -1)
    eye, b = np.eye(q.shape[-2]), beta[..., None]
    updates = np.linalg.solve(eye + b * past * fade * (k @ np.swapaxes(k, -1, -2)), b * v)
    inside = np.tril(q @ np.swapaxes(k, -1, -2))
    out = (inside if slip == "mask without decay" else inside * fade) @ updates
    last = np.swapaxes(k * np.exp(c[..., -1:, None] - c[..., None]), -1, -2) @ updates
    return out, last


def attention(q, k, v, softcap=None, slip=""):
    """Attention with a soft cap."""
    s = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    if softcap is not None and slip != "no cap":
        s = softcap * np.tanh(s / softcap)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def policy_loss(log_p, old, advantage, clip=0.2, slip=""):
    """PPO's loss of tokens."""
    if slip == "sums of sequences":
        log_p, old = log_p.sum(1, keepdims=True), old.sum(1, keepdims=True)
        advantage = advantage.mean(1, keepdims=True)
    ratio = np.exp(log_p - old)
    return -np.minimum(ratio * advantage, np.clip(ratio, 1 - clip, 1 + clip) * advantage).mean()


def adafactor_step(params, grads, state, learning_rate, d=1.0, slip=""):
    """Adafactor's first step for a matrix."""
    del state
    square = grads * grads
    row, column = square.mean(-1, keepdims=True), square.mean(-2, keepdims=True)
    v = row * column / row.mean(-2, keepdims=True)
    update = grads / np.sqrt(v)
    size = np.sqrt((update**2).mean())
    update = update / (min(1, size * d) if slip == "least of both" else max(1, size / d))
    rate = learning_rate * max(np.sqrt((params**2).mean()), 1e-3)
    return params - rate * update, (1, row, column, None)


def interpolate(x, size, align_corners=False, slip=""):
    """Linear interpolation along the last axis."""
    n, (m,) = x.shape[-1], size
    if align_corners or slip == "corners aligned":
        places = np.arange(m) * (n - 1) / (m - 1)
    else:
        scale = 0 if slip == "one pixel" and m == 1 else n / m
        places = np.clip((np.arange(m) + 0.5) * scale - 0.5, 0, n - 1)
    low = np.minimum(places.astype(int), n - 1)
    high, share = np.minimum(low + 1, n - 1), places - low
    return (1 - share) * x[..., low] + share * x[..., high]


def of_gru():
    def case(B, T, D, H, begins):
        h0 = R.normal(size=(B, H)) if begins else None
        weights = (R.normal(size=(3 * H, n)) / 2 for n in (D, H))
        return (R.normal(size=(B, T, D)), h0, *weights, *R.normal(size=(2, 3 * H))), {}

    return cases(case(2, 4, 3, 5, False), case(3, 5, 4, 2, True), case(4, 3, 2, 6, False))


def of_groups(*some):
    return cases(*(((R.normal(1, 1, size=shape),), {"groups": n}) for shape, n in some))


def of_router(*some):
    def case(tokens, n, k, shares):
        scores = R.dirichlet(np.ones(n), tokens)
        return (scores, np.argsort(-scores, -1)[:, :k]), {"shares": shares}

    return cases(*(case(*c) for c in some))


def of_distributions(*shapes):
    def distribution(shape):
        return R.dirichlet(np.ones(shape[-1]), shape[:-1])

    return cases(*(((np.log(distribution(s)), distribution(s)), {}) for s in shapes))


def of_classes():
    def case(n, c, gamma):
        inputs = R.normal(size=(n, c)), R.integers(0, c, n)
        return inputs, {"weight": R.uniform(0.5, 2, c), "gamma": gamma}

    return cases(case(5, 4, 2.0), case(7, 3, 1.0), case(6, 5, 3.0))


def levels():
    return cases(*(((R.normal(size=(4, 9)), s), {"zero_point": z})
                   for s, z in ((0.1, 0), (0.07, 5), (0.2, -9))))  # fmt: skip


def halves():
    places = np.arange(-6, 7) / 2
    return cases(*(((s * places, s), {"zero_point": z})
                   for s, z in ((0.5, 1), (0.25, 3), (2.0, -5), (1.0, 2))))  # fmt: skip


def rows(*shapes):
    return cases(*(((R.normal(size=s), R.uniform(0.5, 2, s[-1]), R.normal(size=s[-1])), {})
                   for s in shapes))  # fmt: skip


def chunks():
    def case(B, T, E, V):
        q, k = R.normal(size=(2, B, 2, T, E)) / 2
        decay, beta = -R.uniform(0.05, 0.7, (B, 2, T, 1)), R.uniform(0, 1, (B, 2, T))
        return (q, k, R.normal(size=(B, 2, T, V)), decay, beta), {}

    return cases(case(1, 5, 3, 4), case(2, 7, 4, 3), case(3, 6, 2, 5))


def heads():
    return cases(*(((*R.normal(size=(3, 2, T, 4)),), {"softcap": c})
                   for T, c in ((5, 2.0), (6, 1.0), (7, 0.5))))  # fmt: skip


def samples():
    def case(*shape):
        old = -R.uniform(0.5, 3, shape)
        advantage = np.repeat(R.normal(size=(shape[0], 1)), shape[1], axis=1)
        return (old + R.normal(size=shape) / 5, old, advantage), {}

    return cases(case(3, 4), case(5, 6), case(4, 7))


def of_matrices():
    return cases(*(((R.normal(size=s), R.normal(size=s) * 3, None), {"learning_rate": 0.1, "d": d})
                   for s, d in (((4, 5), 0.5), ((3, 6), 2.0), ((5, 3), 0.25))))  # fmt: skip


def lines():
    return cases(*(((R.normal(size=(2, n)),), {"size": (m,)}) for n, m in ((4, 9), (5, 7), (6, 4))))


FAKE, LINEAR = quantization.fake_quantize, att.recurrent_linear_attention
UNREAD = [
    Wrong("ml-explore/mlx#3249", recurrent.gru, "forward", gru, "no bias without a state",
        "Without a first state, the first step lacks the new gate's hidden bias.",
        (r"b_hh|bias|first|h0|state",), of_gru()),
    Wrong("tenstorrent/tt-metal#50682", norm.group_norm, "forward", group_norm,
        "padded positions", "Mean and variance count zeros of the padding.",
        (r"pad|tile|block|zeros|multiple",),
        of_groups(((2, 5, 6), 3), ((3, 11, 4), 2), ((2, 9, 6), 2))),
    Wrong("flagos-ai/FlagGems#4984", norm.group_norm, "forward", group_norm,
        "lanes of the next group", "The sums run over channels of the next group, too.",
        (r"next|channels?|lanes?|power of (two|2)|block|beyond",),
        of_groups(((2, 4, 6), 2), ((3, 5, 12), 4), ((2, 3, 15), 3))),
    Wrong("huggingface/transformers#43775", transformer.load_balancing_loss, "forward",
        load_balancing_loss, "not divided by k", "The shares add up to k, not to 1.",
        (r"shares|tokens|choices|experts.*size|top.?k",),
        of_router((6, 5, 2, "choices"), (7, 4, 3, "choices"), (9, 6, 2, "choices"))),
    Wrong("neuralmagic/sparseml#674", losses.kl_divergence, "forward", kl_divergence,
        "batches alone", "The sum is divided by the first axis alone.",
        (r"first|len\(|shape\[0\]|batch|axis|size",),
        of_distributions((3, 4, 5), (2, 6, 3), (4, 3, 6))),
    Wrong("gokulprasadthekkel/pytorch-multi-class-focal-loss#1", losses.softmax_focal_loss,
        "forward", softmax_focal_loss, "weighted probability",
        "The probability is taken of the weighted loss.", (r"weight|\bw\b",), of_classes()),
    Wrong("sgl-project/sglang-jax#1598", FAKE, "forward", fake_quantize, "truncated",
        "Numbers are truncated, not rounded.", (r"trunc|toward|round|floor",), levels()),
    Wrong("apache/tvm#11867", FAKE, "forward", fake_quantize, "rounded after the zero point",
        "The zero point is added before the rounding.",
        (r"round.*(z\b|zero)|(z\b|zero).*round|tie|half",), halves()),
    Wrong("pytorch/pytorch#18233", norm.layer_norm, "vjp", layer_norm_backward, "weight twice",
        "The gradient of the weight has the weight as a factor.", (r"weight|\bw\b|gamma",),
        rows((3, 5), (2, 4, 6), (4, 3))),
    Wrong("Oneflow-Inc/oneflow#6149", norm.layer_norm, "vjp", layer_norm_backward, "exchanged",
        "The gradients of weight and bias are exchanged.",
        (r"exchang|swap|order|(weight.*bias|bias.*weight)",), rows((3, 5), (2, 4, 6), (4, 3))),
    Wrong("NVlabs/GatedDeltaNet#15", LINEAR, "forward", delta_chunk, "mask without decay",
        "Within a chunk, reads ignore the decay.", (r"decay|fade",), chunks()),
    Wrong("sgl-project/sgl-kernel-xpu#491", att.scaled_dot_product_attention, "forward", attention,
        "no cap", "The option softcap is ignored.", (r"softcap",), heads()),
    Wrong("akaszubski/autonomous-dev#413", losses.policy_loss, "forward", policy_loss,
        "sums of sequences", "The ratio is one of whole sequences, by the sums of their tokens.",
        (r"sequence|sum|level",), samples()),
    Wrong("huggingface/pytorch-image-models#2790", training.adafactor_step, "forward",
        adafactor_step, "least of both", "The divisor is min(1, rms d), not max(1, rms / d).",
        (r"max|min|\bd\b|rms|clip",), of_matrices()),
    Wrong("antimora/burn-flex#7", convolution.interpolate, "forward", interpolate,
        "corners aligned", "Corners are aligned, though the option is False.",
        (r"align_corners|corner",), lines()),
]  # fmt: skip
