"""Mistakes of public reports that were looked up on 2026-11-29, before the search was changed."""

import itertools

import numpy as np

from dlref import activations as act
from dlref import convolution, losses, positions, recurrent, training, transformer
from dlref import normalization as norm
from dlref.formulas.training import tree_map

from .kernels import Wrong, cases, gradients, refuse, sigmoid, softmax
from .layers import conv_backward
from .recurrences import flat, lstm_backward

R = np.random.default_rng(72)
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def reduced(terms, reduction):
    """Mean, sum or all of the terms, as an array of the dtype of the terms."""
    return np.asarray({"mean": np.mean, "sum": np.sum, "none": np.asarray}[reduction](terms))


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def rms_norm(x, weight=None, eps=1e-6, weight_offset=0.0, slip=""):
    """RMS normalization, whose weight may be stored as its difference from 1."""
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + x.dtype.type(eps))
    if weight is None:
        return y
    return y * (weight if slip == "offset ignored" else weight + x.dtype.type(weight_offset))


def rms_norm_backward(dout, x, weight=None, eps=1e-6, weight_offset=0.0, slip=""):
    """dx = (g - x_hat mean(g x_hat)) / rms, g the upstream gradient times the weight."""
    var = (x * x).mean(-1, keepdims=True)
    inverse = 1 / np.sqrt(var + x.dtype.type(eps))
    if slip == "variance for the inverse root":
        inverse = var
    x_hat = x * inverse
    w = 1 if weight is None else weight + x.dtype.type(weight_offset)
    g = dout * w
    second = x_hat * (g * x_hat).mean(-1, keepdims=True)
    if slip == "weight twice":
        second = second * w
    elif slip == "constant root":
        second = 0
    dx = ((g - second) * inverse).astype(x.dtype)
    dweight = None if weight is None else flat(dout * x_hat).sum(0, dtype=float).astype(x.dtype)
    return gradients(dx, dweight)


def selu(x, slip=""):
    """Scaled ELU."""
    scale, alpha = map(x.dtype.type, (SELU_SCALE, SELU_ALPHA))
    below = scale * alpha * np.expm1(np.minimum(x, 0))
    above = scale * x
    if slip == "leaky":
        below = scale * alpha * x
    elif slip == "factors exchanged":
        above = alpha * x
    elif slip == "not scaled":
        below, above = alpha * np.expm1(np.minimum(x, 0)), x
    return np.where(x > 0, above, below)


def mish_backward(dout, x, slip=""):
    """One quotient of sums of exponentials, as in thinc; the slope is 1 far above 0."""
    z = np.minimum(x, x.dtype.type(20))
    e = np.exp(z)
    omega = 4 * (z + 1) + 4 * e**2 + e * (4 * z + 6)
    if slip != "no cube":
        omega = omega + e**3
    delta = 2 * e + e**2 + 2
    return (dout * np.where(x < 20, e * omega / delta**2, 1)).astype(x.dtype)


def nesterov_step(
    params, grads, state, learning_rate, momentum=0.9, weight_decay=0.0, slip=""
):  # fmt: skip
    """A step along the gradient and the new velocity."""
    step, old = (0, tree_map(np.zeros_like, params)) if state is None else state
    grads = tree_map(lambda p, g: g + weight_decay * p, params, grads)
    if slip == "ahead of the old velocity":
        grads = tree_map(lambda g, v: g + momentum * v, grads, old)
        velocity = tree_map(lambda g, v: momentum * v + (1 - momentum) * g, grads, old)
        new = tree_map(lambda p, v: p - learning_rate * v, params, velocity)
    else:
        sign = -1 if slip == "velocity subtracted" else 1
        velocity = tree_map(lambda g, v: momentum * v + g, grads, old)
        new = tree_map(
            lambda p, g, v: p - learning_rate * (g + sign * momentum * v), params, grads, velocity
        )
    new = tree_map(lambda p, a: np.asarray(a, np.asarray(p).dtype), params, new)
    return new, (step + 1, velocity)


def momentum_step(
    params, grads, state, learning_rate, momentum=0.9, dampening=0.0, weight_decay=0.0, slip=""
):
    """A heavy ball; the first gradient is not dampened."""
    first = state is None and slip != "first step dampened"
    step, old = (0, tree_map(np.zeros_like, params)) if state is None else state
    grads = tree_map(lambda p, g: g + weight_decay * p, params, grads)
    share = 1 if first else 1 - dampening
    velocity = tree_map(lambda g, v: momentum * v + share * g, grads, old)
    new = tree_map(
        lambda p, v: np.asarray(p - learning_rate * v, np.asarray(p).dtype), params, velocity
    )
    return new, (step + 1, velocity)


def group_norm(x, groups, weight=None, bias=None, eps=1e-5, slip=""):
    """Channels last, (N, ..., C)."""
    if slip == "no transpose":  # the axis of groups is put before the positions
        parts, axes = x.reshape(len(x), groups, -1), (2,)
    else:
        parts, axes = x.reshape(len(x), -1, groups, x.shape[-1] // groups), (1, 3)
    parts = parts - parts.mean(axes, keepdims=True)
    y = parts / np.sqrt((parts**2).mean(axes, keepdims=True) + x.dtype.type(eps))
    y = y.reshape(x.shape) if weight is None else y.reshape(x.shape) * weight
    return y if bias is None else y + bias


def cross_entropy(x, target, label_smoothing=0.0, reduction="mean", slip=""):
    """The loss of classes, whose labels may be smoothed."""
    if target.ndim == x.ndim or (target < 0).any():
        refuse("probabilities, or ignored rows")
    x = x - x.max(-1, keepdims=True)
    logs = x - np.log(np.exp(x).sum(-1, keepdims=True))
    V, eps = x.shape[-1], label_smoothing
    kept, mass = 1 - eps, eps / V
    if slip == "one over the classes" and eps:
        mass = 1 / V
    elif slip == "too much is kept":
        kept = 1 - eps / V
    elif slip == "too little is kept":
        kept = 1 - eps * V / (V - 1)
    q = kept * (np.arange(V) == target[..., None]) + mass
    return reduced(-(q * logs).sum(-1), reduction).astype(x.dtype)


def focal_loss(x, target, alpha=0.25, gamma=2.0, reduction="mean", slip=""):
    """A term for the positives and one for the negatives; of labels that are 0 or 1."""
    p, q = sigmoid(x), sigmoid(-x)
    a, b = (alpha, 1 - alpha) if alpha >= 0 else (1, 1)
    if slip == "alpha for both":
        b = a
    elif slip == "alpha exchanged":
        a, b = b, a
    focus = gamma * q if slip == "product for the power" else q**gamma
    other = q**gamma if slip == "focus of the other class" else p**gamma
    terms = a * target * focus * softplus(-x) + b * (1 - target) * other * softplus(x)
    return reduced(terms, reduction).astype(x.dtype)


def gaussian_kl(mean, log_var, reduction="mean", slip=""):
    """Half of mu^2 + sigma^2 - log sigma^2 - 1, summed over the last axis."""
    terms = (mean**2 + np.expm1(log_var) - log_var) / 2
    if slip == "sign of the logarithm":
        terms = (mean**2 + np.expm1(log_var) + log_var) / 2
    elif slip == "deviation for the logarithm":
        terms = (mean**2 + log_var**2 - np.log(log_var**2) - 1) / 2
    elif slip == "halves missing":
        terms = mean**2 + np.exp(log_var) - log_var / 2 - 0.5
    return reduced(terms.sum(-1), reduction).astype(mean.dtype)


def gumbel_softmax(logits, noise, temperature=1.0, slip=""):
    """Softmax of noisy scores."""
    z = logits - noise if slip == "noise subtracted" else logits + noise
    return softmax(z / logits.dtype.type(temperature))


def swiglu(x, gate, slip=""):
    """The gate goes through SiLU."""
    x, gate = (gate, x) if slip == "gate exchanged" else (x, gate)
    return x * gate * sigmoid(gate)


def swiglu_backward(dout, x, gate, slip=""):
    """One row after the other."""
    if x.shape != gate.shape:
        refuse("a broadcast")
    s = sigmoid(gate)
    rows = [dout * gate * s, dout * x * s * (1 + gate * (1 - s))]
    out = [np.empty(x.shape, x.dtype) for _ in rows]
    for i, a in enumerate(rows):
        for n, row in enumerate(flat(np.atleast_2d(a))):
            flat(np.atleast_2d(out[i]))[0 if slip == "all rows into the first" else n] = row
    return tuple(out)


def interpolate(x, size, align_corners=False, slip=""):
    """Along one axis after the other."""
    for axis, m in zip(range(x.ndim - len(size), x.ndim), size, strict=True):
        n, t = x.shape[axis], np.arange(m)
        corners = align_corners or (slip == "corners of fractions" and m % n != 0)
        at = t * (n - 1) / max(m - 1, 1) if corners else np.maximum((t + 0.5) * n / m - 0.5, 0)
        low = np.minimum(np.floor(at).astype(int), n - 1)
        share = (at - low).reshape(-1, *(x.ndim - axis - 1) * [1]).astype(x.dtype)
        high = np.minimum(low + 1, n - 1)
        x = (1 - share) * np.take(x, low, axis) + share * np.take(x, high, axis)
    return x


def alibi_slopes(num_heads, slip=""):
    """Powers of two, and others between them."""
    P = 2 ** int(np.log2(num_heads))
    first = 0 if slip == "from the power 0" else 1
    h, more = np.arange(first, P + first), np.arange(num_heads - P)
    return np.concatenate([2.0 ** (-8 * h / P), 2.0 ** (-4 * (2 * more + 1) / P)])


def alibi_bias(slopes, T, S, slip=""):
    """Slopes times distances to the earlier keys."""
    distance = np.arange(S) - np.arange(T)[:, None]
    distance = np.minimum(distance, 0) - (slip == "one too far")
    return slopes[..., None, None] * distance.astype(slopes.dtype)


def router(x, weight, k, score="softmax", normalize=True, slip=""):
    """The k best experts, whose scores weigh them."""
    z = x @ weight.T
    scores = sigmoid(z) if score == "sigmoid" else softmax(z)
    experts = np.argsort(-scores, -1, kind="stable")[..., :k]
    chosen = np.take_along_axis(scores, experts, -1)
    if slip == "softmax of the best":
        chosen = softmax(np.take_along_axis(z, experts, -1))
    elif slip == "softmax for the sigmoid":
        chosen = np.take_along_axis(softmax(z), experts, -1)
    if normalize and slip != "not normalized":
        chosen = chosen / chosen.sum(-1, keepdims=True)
    return experts, chosen, scores


def next_token_probabilities(z, temperature=1.0, top_p=None, slip=""):
    """The most probable tokens that reach the mass."""
    if temperature == 0:
        refuse("temperature 0")
    p = softmax((z - z.max(-1, keepdims=True)) / z.dtype.type(temperature))
    if top_p is not None:
        order = np.argsort(-p, -1, kind="stable")
        rows = np.take_along_axis(p, order, -1)
        reached = np.cumsum(rows, -1)
        kept = np.concatenate([reached[..., :1] > 0, reached[..., :-1] < top_p], -1)
        if slip == "first count":  # the number of kept tokens is read at the first place
            kept = reached < top_p
            np.put_along_axis(kept, np.cumsum(kept, -1)[..., :1], True, -1)
        new = np.zeros_like(p)
        np.put_along_axis(new, order, np.where(kept, rows, 0), -1)
        p = new / new.sum(-1, keepdims=True)
    return p.astype(z.dtype)


def of_router(options):
    """Return cases of a router."""
    return cases(*((tuple(R.normal(size=shape) for shape in ((n, 4), (e, 4))), options)
                   for n, e in itertools.product((3, 7), (5, 8))))  # fmt: skip


def of_labels():
    """Return logits with labels that are 0 or 1."""
    some = {}, {"alpha": 0.6}, {"gamma": 1.5}, {"alpha": 0.6, "gamma": 3.0}
    return cases(*(((R.normal(size=(5, 7)), R.integers(0, 2, (5, 7)) * 1.0), options)
                   for options in some))  # fmt: skip


def of_step(op, options):
    """Return the first and the second step of an optimizer."""
    p, g = R.normal(size=(2, 3, 5)), R.normal(size=(2, 3, 5))
    _, state = op(p[0], g[0], None, **options)
    return cases(((p[0], g[0], None), options), ((p[1], g[1], state), options))


CE, FOCAL, KL = losses.cross_entropy, losses.sigmoid_focal_loss, losses.gaussian_kl
ROUTER, NESTEROV = transformer.top_k_router, training.nesterov_step
RMS, LSTM = norm.rms_norm, recurrent.lstm
LABELS = of_labels()
NOVEMBER = [
    Wrong("NVIDIA/Megatron-LM#6859", RMS, "forward", rms_norm, "offset ignored",
        "The weight is not offset by 1.", (r"weight_offset",)),
    Wrong("NVIDIA/Megatron-LM#6859", RMS, "vjp", rms_norm_backward, "weight twice",
        "The term of the variance is multiplied by the weight twice.",
        (r"weight.*(twice|again)", r"weight.*x_hat \* mean\(g", r"x_hat \* mean\(g.*weight")),
    Wrong("ooples/AiDotNet#695", RMS, "vjp", rms_norm_backward, "constant root",
        "The root mean square counts as constant: dx = g / rms.",
        (r"constant", r"\bg stands where g - x_hat", r"missing")),
    Wrong("flagos-ai/FlagGems#5771", RMS, "vjp", rms_norm_backward,
        "variance for the inverse root",
        "The mean square is read where the reciprocal root is due.",
        (r"mean\(x \* x.*(rho|sqrt)", r"1 / \(?mean", r"(rho|sqrt|tau) stands",
         r"where rho is due")),
    Wrong("jax-ml/jax#1446", act.selu, "forward", selu, "leaky",
        "A leaky ReLU stands where ELU is due.",
        (r"leaky", r"alpha \* x", r"\bx stands where expm1")),
    Wrong("tenstorrent/tt-metal#55252", act.selu, "forward", selu, "factors exchanged",
        "Scale and alpha are exchanged: positive numbers are multiplied by alpha.",
        (r"SELU_ALPHA|alpha",)),
    Wrong("NVIDIA/caffe#565", act.selu, "forward", selu, "not scaled",
        "The scale is missing.",
        (r"elu\(x, alpha=SELU_ALPHA\) stands", r"0\.95", r"SELU_SCALE|scale")),
    Wrong("explosion/thinc#578", act.mish, "vjp", mish_backward, "no cube",
        "The term exp(3 x) is missing in the numerator.", (r"exp\(3|e \*\* 3|cube",)),
    Wrong("PaddlePaddle/Paddle#12231", NESTEROV, "forward", nesterov_step, "velocity subtracted",
        "The velocity is subtracted from the gradient, not added.",
        (r"g - momentum \* v",), of_step(NESTEROV, {"learning_rate": 0.1})),
    Wrong("ml-explore/mlx#87", NESTEROV, "forward", nesterov_step, "ahead of the old velocity",
        "The gradient is moved by the old velocity, and the mean of both weighs them.",
        (r"1 - momentum", r"old velocity"), of_step(NESTEROV, {"learning_rate": 0.1})),
    Wrong("ml-explore/mlx#473", training.momentum_step, "forward", momentum_step,
        "first step dampened", "The first gradient is dampened, too.",
        (r"dampening.*(state|first|branch)", r"(state|first|branch).*(dampening|share)",
         r"1 - dampening stands", r"state is None.*never"),
        of_step(training.momentum_step, {"learning_rate": 0.1, "dampening": 0.25})),
    Wrong("tensorflow/addons#751", norm.group_norm, "forward", group_norm, "no transpose",
        "Positions and channels are mixed: groups are reshaped without a transpose.",
        (r"reshape|transpos|swap|axes",)),
    Wrong("TimDettmers/ConvE#55", CE, "forward", cross_entropy, "one over the classes",
        "The mass of each class is 1 / C, in place of eps / C.",
        (r"1(\.0)? / classes", r"label_smoothing / classes is due",
         r"1 stands where label_smoothing")),
    Wrong("ildoonet/pytorch-randaugment#30", CE, "forward", cross_entropy, "too much is kept",
        "The class of the label keeps 1 - eps / C, in place of 1 - eps.",
        (r"label_smoothing / (classes|logits\.shape)",)),
    Wrong("fastai/fastai#1814", CE, "forward", cross_entropy, "too little is kept",
        "The class of the label keeps 1 - eps C / (C - 1), in place of 1 - eps.",
        (r"classes / \(classes - 1\)", r"shape\[-1\] - 1")),
    Wrong("fudannlp16/focal-loss#2", FOCAL, "forward", focal_loss, "product for the power",
        "For positives, gamma is a factor, not an exponent.",
        (r"gamma \* |\* gamma",), LABELS),
    Wrong("yqyao/SSD_Pytorch#32", FOCAL, "forward", focal_loss, "focus of the other class",
        "The focus of negatives is (1 - p)^gamma, not p^gamma.",
        (r"1 - p|sigmoid\(-logits\)|-logits|1 - target|\bq stands",), LABELS),
    Wrong("qubvel/segmentation_models#187", FOCAL, "forward", focal_loss, "alpha for both",
        "Negatives are weighed by alpha, not by 1 - alpha.", (r"alpha",), LABELS),
    Wrong("clcarwin/focal_loss_pytorch#10", FOCAL, "forward", focal_loss, "alpha exchanged",
        "alpha and 1 - alpha are exchanged.", (r"alpha",), LABELS),
    Wrong("FluxML/model-zoo#147", KL, "forward", gaussian_kl, "sign of the logarithm",
        "The logarithm of the variance is added, not subtracted.",
        (r"\+ log_var",)),
    Wrong("deepchem/deepchem#4888", KL, "forward", gaussian_kl, "deviation for the logarithm",
        "log_var is taken for the standard deviation.",
        (r"log_var \*\* 2|square\(log_var\)|log\(log_var|log\(square",)),
    Wrong("SupaeroDataScience/deep-learning#6", KL, "forward", gaussian_kl, "halves missing",
        "mu^2 + sigma^2 lacks the factor 1/2.",
        (r"2(\.0)? \* \(?(mean|expm1)|/ 2|0\.5 \* log_var|twice|half",)),
    Wrong("chainer/chainerrl#104", act.gumbel_softmax, "forward", gumbel_softmax,
        "noise subtracted", "The noise is subtracted.", (r"logits - noise|-noise|- noise",)),
    Wrong("ooples/AiDotNet.Tensors#46", act.swiglu, "forward", swiglu, "gate exchanged",
        "SiLU is applied to x, not to the gate.", (r"exchange|silu\(x|gate stands|other order",)),
    Wrong("ByteDance-Seed/Triton-distributed#180", act.swiglu, "vjp", swiglu_backward,
        "all rows into the first", "All rows are written to the first one; the others are not.",
        (r"not written|row",)),
    Wrong("CaptainE/RNN-LSTM-in-numpy#1", LSTM, "vjp", lstm_backward, "no derivative",
        "The sigmoid of the forget gate stands where its slope is due.",
        (r"sigmoid\(f\)|f \* \(1 - f\)|\(1 - f\)",)),
    Wrong("deeplearning4j/deeplearning4j#8838", LSTM, "vjp", lstm_backward, "last cell state",
        "The upstream gradient of the last cell state is not used.",
        (r"dout\.1|\bdc\b|cell",)),
    Wrong("llvm/torch-mlir#4437", convolution.conv, "vjp", conv_backward, "not flipped",
        "The kernel is not flipped where it has one axis longer than 1.",
        (r"flip|reversed|order of weight",)),
    Wrong("ml-explore/mlx#3908", convolution.interpolate, "forward", interpolate,
        "corners of fractions", "Corners are aligned wherever the ratio of sizes is no integer.",
        (r"align_corners|corner",)),
    Wrong("paiml/aprender#2143", positions.alibi_slopes, "forward", alibi_slopes,
        "from the power 0", "The exponents begin at 0, not at 1.",
        (r"arange|\bh - 1|\+ 1|P\b",), cases(*(((n,), {}) for n in (4, 8, 12, 6)))),
    Wrong("vllm-project/vllm#945", positions.alibi_bias, "forward", alibi_bias, "one too far",
        "All distances are one too large.", (r"[+-] 1\b|distances|shift|off by one",)),
    Wrong("lablup/mlxcel#391", ROUTER, "forward", router, "softmax of the best",
        "The softmax is over the chosen experts alone, as if they were normalized.",
        (r"normalize|sum\(chosen|softmax",), of_router({"k": 2, "normalize": False})),
    Wrong("pytorch/torchtitan#1418", ROUTER, "forward", router, "not normalized",
        "The weights are not divided by their sum.",
        (r"normalize|sum\(chosen",), of_router({"k": 2, "score": "sigmoid"})),
    Wrong("MetaX-MACA/vLLM-metax#270", ROUTER, "forward", router, "softmax for the sigmoid",
        "Experts are weighed by the softmax, not by the sigmoid.",
        (r"softmax|'score' is ignored",),
        of_router({"k": 2, "score": "sigmoid", "normalize": False})),
    Wrong("facebookresearch/fairseq#882", transformer.next_token_probabilities, "forward",
        next_token_probabilities, "first count",
        "The token that crosses top_p is left out, but for the first two.",
        (r"top_p|cumsum|nucleus|before",)),
]  # fmt: skip
