"""Mistakes of public reports that were looked up when pairs of changes had joined the search."""

import numpy as np

from dlref import activations as act
from dlref import attention as att
from dlref import convolution, losses, quantization, recurrent, training, transformer
from dlref import normalization as norm

from .kernels import Wrong, cases, refuse, sigmoid, softmax
from .losses import log_softmax
from .november import reduced

R = np.random.default_rng(83)


def softmax_backward(dout, x, slip=""):
    """Probabilities times the cotangent less its mean under them."""
    s = softmax(x)
    if slip == "diagonal":
        return dout * (s * (1 - s))
    return s * (dout - (s * dout).sum(-1, keepdims=True))


def cross_entropy(logits, target, reduction="mean", slip=""):
    """-log p of the class, for rows of logits."""
    one_hot = np.arange(logits.shape[-1]) == target[..., None]
    terms = -np.where(one_hot, log_softmax(logits), 0)
    if slip == "mean of all" and reduction == "mean":
        return np.asarray(terms.mean(), logits.dtype)
    return reduced(terms.sum(-1), reduction).astype(logits.dtype)


def windowed_attention(q, k, v, window, slip=""):
    """Keys from some places before the query to some places after it."""
    left, right = window
    if slip == "both sides":
        right = left
    left += slip == "one more"
    ahead = np.arange(k.shape[-2]) - np.arange(q.shape[-2])[:, None]
    s = q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5
    return softmax(np.where((ahead >= -left) & (ahead <= right), s, -np.inf)) @ v


def adamw(params, grads, state, learning_rate, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01,
          slip=""):  # fmt: skip
    """Decay, then Adam."""
    b1, b2 = betas
    step, m, v = (0, 0 * params, 0 * params) if state is None else state[:3]
    t = step + 1
    m, v = b1 * m + (1 - b1) * grads, b2 * v + (1 - b2) * grads**2
    move = learning_rate * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
    kept = 1 - learning_rate * weight_decay
    new = kept * (params - move) if slip == "decay after the move" else kept * params - move
    return new, (t, m, v, None)


def batch_norm_train(x, mean, var, weight=None, bias=None, momentum=0.1, eps=1e-5, slip=""):
    """The variance is recovered from the inverse deviation that the forward pass stores."""
    axes = tuple(range(x.ndim - 1))
    count = x[..., 0].size
    mu = x.mean(axes)
    rstd = 1 / np.sqrt(x.var(axes) + eps)
    y = (x - mu) * rstd
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    sign = 1 if slip == "eps added" else -1
    unbiased = (1 / rstd**2 + sign * eps) * count / (count - 1)
    mean, var = ((1 - momentum) * a + momentum * b for a, b in ((mean, mu), (var, unbiased)))
    return y, mean, var


def gated_attention_backward(dout, q, k, v, decay, slip=""):
    """Backward pass of a linear attention whose state decays, in two passes of its steps."""
    do, dlast = dout if isinstance(dout, tuple) else (dout, None)
    (T, E), M = q.shape[-2:], v.shape[-1]
    states = [np.zeros((*q.shape[:-2], E, M))]
    for t in range(T):
        kept = np.exp(decay[..., t, :])[..., None] * states[-1]
        states.append(kept + k[..., t, :, None] * v[..., t, None, :])
    dq, dk, dv, dg = (np.zeros_like(a) for a in (q, k, v, decay))
    ds = np.zeros_like(states[0]) if dlast is None else dlast
    plain = np.zeros_like(ds) if dlast is None else dlast  # of a state that does not decay
    for t in reversed(range(T)):
        read = q[..., t, :, None] * do[..., t, None, :]
        ds, plain = ds + read, plain + read
        dq[..., t, :] = (states[t + 1] @ do[..., t, :, None])[..., 0]
        dk[..., t, :] = (ds @ v[..., t, :, None])[..., 0]
        of_v = plain if slip == "values without decay" else ds
        dv[..., t, :] = (k[..., t, None, :] @ of_v)[..., 0, :]
        ds = np.exp(decay[..., t, :])[..., None] * ds
        dg[..., t, :] = (ds * states[t]).sum(-1)
    return dq, dk, dv, dg


def selective_scan(x, delta, a, b, c, slip=""):
    """States that decay, are written to and are read."""
    h = np.zeros((*x.shape[:-2], x.shape[-1], a.shape[-1]))
    out = []
    for t in range(x.shape[-2]):
        step = delta[..., t, :, None]
        write = (np.exp(step * a) - 1) / a if slip == "exact hold" else step
        h = np.exp(step * a) * h + write * b[..., t, None, :] * x[..., t, :, None]
        out.append((h * c[..., t, None, :]).sum(-1))
    return np.stack(out, -2), h


def next_token(z, temperature=1.0, top_p=None, min_p=None, slip=""):
    """The temperature, then the most probable tokens that reach the mass, then likely ones."""
    if temperature == 0:
        refuse("temperature 0")
    late = slip == "temperature last"
    p = softmax(z if late else z / temperature)
    kept = np.ones(z.shape, bool)
    if top_p is not None:
        order = np.argsort(-p, -1, kind="stable")
        if slip == "not sorted":
            order = np.broadcast_to(np.arange(z.shape[-1]), z.shape)
        falling = np.take_along_axis(p, order, -1)
        inside = falling.cumsum(-1) - falling < top_p
        inside[..., 0] = True
        kept = np.take_along_axis(inside, np.argsort(order, -1), -1)
    if min_p is not None:
        of = z if slip == "min p of logits" else p
        kept = kept & (of >= min_p * of.max(-1, keepdims=True))
    return softmax(np.where(kept, z / temperature, -np.inf)).astype(z.dtype)


def top_k_router(x, weight, k, score="softmax", normalize=True, slip=""):
    """The k best experts, whose scores weigh them."""
    z = x @ weight.T
    scores = sigmoid(z) if score == "sigmoid" else softmax(z)
    experts = np.argsort(-scores, -1, kind="stable")[..., :k]
    chosen = np.take_along_axis(scores, experts, -1)
    if slip == "softmax again":
        chosen = softmax(chosen)
    elif slip == "over all scores" and normalize:
        chosen = chosen / scores.sum(-1, keepdims=True)
    elif normalize or slip == "always normalized":
        chosen = chosen / chosen.sum(-1, keepdims=True)
    return experts, chosen, scores


def fake_quantize(x, scale, zero_point=0, bits=8, slip=""):
    """Integers within their range, and back."""
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    q = np.clip(np.rint(x / scale) + zero_point, low, high)
    back = scale * q - zero_point if slip == "zero point not scaled" else scale * (q - zero_point)
    return np.asarray(back, x.dtype)


def conv_transpose_backward(dout, x, weight, stride=1, dilation=1, slip=""):
    """Windows of the cotangent, for one axis of space."""
    if slip == "stride and dilation":
        stride, dilation = dilation, stride
    n, taps = x.shape[-1], weight.shape[-1]
    by = 1 if slip == "stride ignored for the input" else stride
    dx, dw = np.zeros_like(x), np.zeros_like(weight)
    for j in range(taps):
        start = j * dilation
        part = dout[..., start : start + by * (n - 1) + 1 : by]
        dx += np.einsum("oc,bct->bot", weight[..., j], part)
        part = dout[..., start : start + stride * (n - 1) + 1 : stride]
        dw[..., j] = np.einsum("bot,bct->oc", x, part)
    return dx, dw


def conv_same(x, weight, padding="same", slip=""):
    """A correlation along one axis, padded to as many places."""
    taps = weight.shape[-1]
    before = (taps - 1) // 2
    sides = (taps - 1 - before, before) if slip == "more before" else (before, taps - 1 - before)
    padded = np.pad(x, [(0, 0), (0, 0), sides])
    windows = np.lib.stride_tricks.sliding_window_view(padded, taps, -1)
    return np.einsum("bctk,ock->bot", windows, weight)


def info_nce(similarity, symmetric=True, reduction="mean", slip=""):
    """Cross-entropy of rows and columns with the diagonal."""
    terms = []
    for s in (similarity, similarity.T) if symmetric else (similarity,):
        own = np.diag(s)
        others = np.where(np.eye(len(s), dtype=bool), -np.inf, s)
        among = others if slip == "negatives alone" else s
        top = among.max(-1)
        terms.append(top + np.log(np.exp(among - top[:, None]).sum(-1)) - own)
    return reduced(sum(terms) / len(terms), reduction)


def mean_pool(x, size, padding=0, count_include_pad=True, slip=""):
    """Means of windows along one axis, side by side."""
    (n,) = size
    pad = [(0, 0)] * (x.ndim - 1) + [(padding, padding)]
    windows, inside = (
        np.lib.stride_tricks.sliding_window_view(np.pad(a, pad), n, -1)[..., ::n, :]
        for a in (x, np.ones_like(x))
    )
    is_counted = count_include_pad and slip != "padding never counted"
    return windows.sum(-1) / (n if is_counted else inside.sum(-1))


def focal_loss(logits, target, gamma=2.0, reduction="mean", slip=""):
    """The loss of a row times a power of the probability that is missing."""
    loss = -np.take_along_axis(log_softmax(logits), target[..., None], -1)[..., 0]
    if slip == "of the mean":
        mean = loss.mean()
        return np.asarray((1 - np.exp(-mean)) ** gamma * mean)
    return reduced((1 - np.exp(-loss)) ** gamma * loss, reduction)


def windows(*ends):
    return cases(*((tuple(R.normal(size=(2, T, 6)) for _ in "qkv"), {"window": end})
                   for T, end in zip((7, 9, 8), ends, strict=True)))  # fmt: skip


def steps():
    first = [(R.normal(size=(4, 5)), R.normal(size=(4, 5)), None)]
    later = [
        (*R.normal(size=(2, 4, 5)), (t, R.normal(size=(4, 5)), R.uniform(0.1, 2, (4, 5)), None))
        for t in (1, 3, 7)
    ]
    return cases(*((c, {"learning_rate": r, "weight_decay": d})
                   for c, r, d in zip(first + later, (0.1, 0.03, 0.2, 0.05), (0.3, 0.2, 0.1, 0.4),
                                      strict=True)))  # fmt: skip


def of_decays():
    def case(T, E, M):
        q, k, v = (R.normal(size=(2, T, n)) for n in (E, E, M))
        return (q, k, v, -R.uniform(0.1, 1, (2, T, E))), {}

    return cases(case(5, 3, 4), case(7, 4, 2), case(6, 2, 3))


def of_scans():
    def case(T, D, N):
        x, b, c = R.normal(size=(2, T, D)), R.normal(size=(2, T, N)), R.normal(size=(2, T, N))
        delta, a = R.uniform(0.1, 1, (2, T, D)), -R.uniform(0.3, 2, (D, N))
        return (x, delta, a, b, c), {}

    return cases(case(5, 3, 4), case(7, 4, 2), case(6, 2, 3))


def tokens(*options):
    return cases(*(((2 * R.normal(size=(3, 12)),), o) for o in options))


def routes(*options):
    return cases(*(((R.normal(size=(6, 5)), R.normal(size=(8, 5))), {"k": 2 + i, **o})
                   for i, o in enumerate(options)))  # fmt: skip


def of_classes(**options):
    return cases(*(((R.normal(size=(rows, n)), R.integers(0, n, rows)), options)
                   for rows, n in ((5, 7), (9, 4), (6, 11))))  # fmt: skip


def of_transposed(*options):
    return cases(*(((R.normal(size=(2, 3, 5 + i)), R.normal(size=(3, 4, 3))), o)
                   for i, o in enumerate(options)))  # fmt: skip


SDPA, LINEAR = att.scaled_dot_product_attention, att.recurrent_linear_attention
NEXT, ROUTER = transformer.next_token_probabilities, transformer.top_k_router
TRANSPOSED = convolution.conv_transpose
BATCH = cases(*(((R.normal(size=(n, 5)), R.normal(size=5), R.uniform(0.5, 2, 5)), {"eps": eps})
                for n, eps in ((8, 0.1), (6, 0.05), (11, 0.2))))  # fmt: skip
UNFAMILIAR = [
    Wrong("Apiquet/DeepLearningFrameworkFromScratchCpp#1", act.softmax, "vjp", softmax_backward,
        "diagonal", "The diagonal of the Jacobian alone: s (1 - s) dout.",
        (r"sum|diagonal|1 - s|mean|off",)),
    Wrong("tinygrad/tinygrad#1427", losses.cross_entropy, "forward", cross_entropy, "mean of all",
        "The mean is over rows and classes, not over rows.",
        (r"classes|size|shape|mean|divided",), of_classes()),
    Wrong("ModelTC/LightLLM#1311", SDPA, "forward", windowed_attention, "both sides",
        "The window has as many keys after the query as before it.", (r"window|right|future",),
        windows((2, 0), (3, 0), (1, 0))),
    Wrong("vllm-project/vllm#3385", SDPA, "forward", windowed_attention, "one more",
        "The window has one key more.", (r"window|left|\+ 1|- 1",),
        windows((2, 0), (3, 1), (1, 0))),
    Wrong("bitsandbytes-foundation/bitsandbytes#2010", training.adamw_step, "forward", adamw,
        "decay after the move", "The decay is of the new parameters.",
        (r"decay|kept",), steps()),
    Wrong("flagos-ai/FlagGems#4885", norm.batch_norm_train, "forward", batch_norm_train,
        "eps added", "eps is added to the recovered variance, not subtracted: var + 2 eps.",
        (r"eps",), BATCH),
    Wrong("fla-org/flash-linear-attention#6", LINEAR, "vjp", gated_attention_backward,
        "values without decay", "The gradient of the values is of a state that does not decay.",
        (r"decay|exp|gate",), of_decays()),
    Wrong("state-spaces/mamba#19", recurrent.selective_scan, "forward", selective_scan,
        "exact hold", "The input is held exactly: (exp(delta a) - 1) / a for delta.",
        (r"exp|expm1|a\b.*delta|delta",), of_scans()),
    Wrong("fishaudio/fish-speech#1150", NEXT, "forward", next_token, "temperature last",
        "The nucleus is of the probabilities before the temperature.", (r"temperature",),
        tokens({"temperature": 0.5, "top_p": 0.8}, {"temperature": 2.0, "top_p": 0.7},
               {"temperature": 1.5, "top_p": 0.6})),
    Wrong("dmlc/gluon-nlp#1481", NEXT, "forward", next_token, "not sorted",
        "The tokens are not sorted before they are added up.", (r"sort|order|nucleus|-p",),
        tokens({"top_p": 0.8}, {"top_p": 0.7}, {"top_p": 0.6})),
    Wrong("state-spaces/mamba#1010", NEXT, "forward", next_token, "min p of logits",
        "min_p is compared with logits, not with probabilities.", (r"min_p|logits|softmax|\bz\b",),
        tokens({"min_p": 0.2}, {"min_p": 0.1}, {"min_p": 0.3})),
    Wrong("1bit-MONSTER/1bit-MONSTER#2090", ROUTER, "forward", top_k_router, "softmax again",
        "The chosen probabilities go through another softmax.", (r"softmax",),
        routes({"normalize": False}, {"normalize": False}, {})),
    Wrong("PaddlePaddle/PaddleFormers#2844", ROUTER, "forward", top_k_router, "over all scores",
        "The scores are divided by the sum of all, not of the chosen ones.",
        (r"scores|all|sum",), routes(*3 * ({"score": "sigmoid"},))),
    Wrong("flashinfer-ai/flashinfer#2889", ROUTER, "forward", top_k_router, "always normalized",
        "The weights are normalized, whatever the option says.", (r"normaliz",),
        routes({"normalize": False}, {}, {"normalize": False})),
    Wrong("zkonduit/ezkl#1027", quantization.fake_quantize, "forward", fake_quantize,
        "zero point not scaled", "The zero point is subtracted after the scale.",
        (r"zero_point|\bz\b",),
        cases(*(((R.normal(size=(4, 9)), s), {"zero_point": z})
                for s, z in ((0.03, 5), (0.07, -11), (0.05, 20))))),
    Wrong("huggingface/candle#2337", TRANSPOSED, "vjp", conv_transpose_backward,
        "stride and dilation", "Stride and dilation are exchanged.", (r"stride|dilation|\bs\b",),
        of_transposed({"stride": 2}, {"stride": 3, "dilation": 2}, {"stride": 3})),
    Wrong("pytorch/pytorch#63314", TRANSPOSED, "vjp", conv_transpose_backward,
        "stride ignored for the input", "The gradient of the input reads dout without strides.",
        (r"stride|\bs\b|step",), of_transposed({"stride": 2}, {"stride": 3}, {"stride": 2})),
    Wrong("tensorflow/tensorflow#45999", convolution.conv, "forward", conv_same, "more before",
        "Of an odd padding, the larger half is before the first place.",
        (r"padding|n - n // 2|n // 2|side|same",),
        cases(*(((R.normal(size=(2, 3, 6 + i)), R.normal(size=(4, 3, 4))), {"padding": "same"})
                for i in range(3)))),
    Wrong("Sara-Ahmed/SiT#26", losses.info_nce, "forward", info_nce, "negatives alone",
        "The denominator lacks the positive.", (r"diagonal|positive|negative",),
        cases(*(((R.normal(size=(n, n)),), {"reduction": "none"}) for n in (5, 7, 6)))),
    Wrong("sonos/tract#2654", convolution.mean_pool, "forward", mean_pool,
        "padding never counted", "The padding is never counted.", (r"count_include_pad|padding",),
        cases(*(((R.normal(size=(2, 9 + i)),), {"size": (3,), "padding": 1}) for i in range(3)))),
    Wrong("kaidic/LDAM-DRW#6", losses.softmax_focal_loss, "forward", focal_loss, "of the mean",
        "The focus is of the mean loss, not of each row's.", (r"mean|reduc",),
        of_classes()),
]  # fmt: skip
