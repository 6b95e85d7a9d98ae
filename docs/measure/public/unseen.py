"""Mistakes of thirty public reports that were looked up after the set latest."""

import itertools

import numpy as np

from dlref import activations as act
from dlref import attention as att
from dlref import convolution, losses, neurons, training
from dlref import normalization as norm
from dlref import positions as pos
from dlref.formulas.training import tree_map

from .kernels import Wrong, cases, refuse, softmax
from .losses import log_softmax
from .november import reduced, softplus

R = np.random.default_rng(76)


def hinge(pred, target, squared=False, reduction="mean", slip=""):
    """How much a score falls short of the margin."""
    sign = 1 if slip == "sign of the score" else -1
    short = np.maximum(1 + sign * target * pred, 0)
    return reduced(short**2 if squared else short, reduction).astype(pred.dtype)


def hinge_backward(dout, pred, target, squared=False, reduction="mean", slip=""):
    """Examples within the margin have a slope."""
    short = 1 - target * pred
    rate = np.where(short > 0, -2 * short if squared else -1, 0)
    u = dout / (pred.size if reduction == "mean" else 1)
    dpred = u * rate * (target * pred if slip == "times the score" else target)
    return dpred.astype(pred.dtype), (u * rate * pred).astype(pred.dtype)


def triplet_margin_loss(anchor, positive, negative, margin=1.0, reduction="mean", slip=""):
    """How much nearer a positive is than a negative."""
    if slip == "margin of 0.1":
        margin = 0.1
    near, far = (np.sqrt(((anchor - other + 1e-6) ** 2).sum(-1)) for other in (positive, negative))
    if slip == "negative outside":
        short = np.maximum(margin + near, 0) - far
    else:
        short = np.maximum(margin + near - far, 0)
    return reduced(short, reduction).astype(anchor.dtype)


def cosine_schedule(step, peak, steps, warmup=0, floor=0.0, slip=""):
    """Up in a line, then half a cosine."""
    t = np.asarray(step)
    done = np.clip((t - warmup) / (steps - warmup), 0, 1)
    if slip == "quarter of a period":
        falling = floor + (peak - floor) * np.cos(np.pi / 2 * done)
    else:
        top, low = (floor, peak) if slip == "ends exchanged" else (peak, floor)
        falling = low + (top - low) * (1 + np.cos(np.pi * done)) / 2
    return np.where(t < warmup, peak * t / max(warmup, 1), falling)


def softmax_backward(dout, x, axis=-1, slip=""):
    """Probabilities times the difference of the cotangent from its mean."""
    y = softmax(x, axis)
    if slip == "diagonal alone":
        return (y * (1 - y) * dout).astype(x.dtype)
    mean = 0 if slip == "no sum" else (y * dout).sum(axis, keepdims=True)
    return (y * (dout - mean)).astype(x.dtype)


def tanh_backward(dout, x, slip=""):
    """The slope is 1 less the square of the value."""
    y = np.tanh(x)
    if slip == "of the cotangent":
        return 1 - np.tanh(dout) ** 2
    if slip == "no 1":
        return dout * -(y**2)
    return dout * (1 - (np.tanh(y) if slip == "of the value" else y) ** 2)


def lora_linear(x, weight, a, b, bias=None, scale=1.0, slip=""):
    """A dense layer with a correction of low rank."""
    scale = x.dtype.type(1.0 if slip == "not scaled" else scale)
    y = x @ weight.T + scale * ((x @ a.T) @ b.T)
    return y if bias is None else y + bias


def adam_step(
    params, grads, state, learning_rate, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, slip=""
):  # fmt: skip
    """Adam, with the decay as part of the gradient."""
    grads = tree_map(lambda p, g: g + weight_decay * p, params, grads)
    return moved(params, grads, state, learning_rate, betas, eps, lambda p: p, slip)


def adamw_step(
    params, grads, state, learning_rate, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, slip=""
):  # fmt: skip
    """Adam, with a decay of its own."""
    t = 1 if state is None else state[0] + 1
    rate = learning_rate
    if slip == "correction of the rate":
        rate = learning_rate * np.sqrt(1 - betas[1] ** t) / (1 - betas[0] ** t)
    return moved(
        params, grads, state, learning_rate, betas, eps, lambda p: p - rate * weight_decay * p, slip
    )


def moved(params, grads, state, learning_rate, betas, eps, kept, slip):
    """Return the parameters after a step of Adam, and the state."""
    b1, b2 = betas
    zeros = tree_map(np.zeros_like, params)
    step, mean, square = (0, zeros, zeros) if state is None else state[:3]
    t = step + 1
    mean = tree_map(lambda m, g: b1 * m + (1 - b1) * g, mean, grads)
    square = tree_map(lambda v, g: b2 * v + (1 - b2) * g * g, square, grads)
    first, second = 1 - b1**t, 1 - b2**t
    if slip == "multiplied":
        first, second = 1 / first, 1 / second
    if slip == "square for the power":
        second = 1 - b2**2
    if slip == "no power":
        first, second = 1 - b1, 1 - b2

    def new(p, m, v):
        if slip == "correction of the rate":
            direction = np.sqrt(second) / first * m / (np.sqrt(v) + eps)
        else:
            direction = m / first / (np.sqrt(v / second) + eps)
        return np.asarray(kept(p) - learning_rate * direction, np.asarray(p).dtype)

    new_params = tree_map(new, params, mean, square)
    if slip == "corrected in place":
        mean = tree_map(lambda m: m / first, mean)
        square = tree_map(lambda v: v / second, square)
    return new_params, (t, mean, square, None)


def adagrad_step(params, grads, state, learning_rate, eps=1e-10, slip=""):
    """Steps over the roots of the sums of squares."""
    step, total = (0, tree_map(np.zeros_like, params)) if state is None else state
    of = params if slip == "squares of the weights" else grads
    total = tree_map(lambda s, a: s + a * a, total, of)
    new = tree_map(
        lambda p, g, s: np.asarray(p - learning_rate * g / (np.sqrt(s) + eps), np.asarray(p).dtype),
        params, grads, total,
    )  # fmt: skip
    return new, (step + 1, total)


def binary_cross_entropy(logits, target, pos_weight=None, reduction="mean", slip=""):
    """-w y log p - (1 - y) log(1 - p), of logits."""
    w = 1 if pos_weight is None else pos_weight
    x = -logits if slip == "reversed" else logits
    terms = w * target * softplus(-x) + (1 - target) * softplus(x)
    if slip == "sum" and reduction == "mean":
        reduction = "sum"
    return reduced(terms, reduction).astype(logits.dtype)


def attention(q, k, v, scale=None, slip=""):
    """Dot products of queries and keys, over the root of their width."""
    if q.shape[:-2] != k.shape[:-2]:
        refuse("heads that share keys")
    if scale is None:
        scale = 1 / q.shape[-1] if slip == "no root" else q.shape[-1] ** -0.5
    return (softmax(q @ np.swapaxes(k, -1, -2) * scale) @ v).astype(q.dtype)


def rms_norm(x, weight=None, eps=1e-6, slip=""):
    """Rows over the root of their mean square."""
    axes = (-2, -1) if slip == "of a sequence" and x.ndim > 1 else -1
    y = x / np.sqrt((x * x).mean(axes, keepdims=True) + x.dtype.type(eps))
    if slip == "divided by the width":
        y = y / x.shape[-1]
    return (y if weight is None else y * weight).astype(x.dtype)


def max_pool_backward(dout, x, size, stride=None, padding=0, slip=""):
    """Each gradient goes to the largest element of its window."""
    if padding != 0 or not isinstance(stride, int):
        refuse("padding")
    dx, n = np.zeros_like(x), len(size)
    for place in itertools.product(*map(range, dout.shape[-n:])):
        window = (
            ..., *(slice(i * stride, i * stride + w) for i, w in zip(place, size, strict=True))
        )  # fmt: skip
        flat = x[window].reshape(*x.shape[:-n], -1)
        best = np.arange(flat.shape[-1]) == flat.argmax(-1)[..., None]
        best = best.reshape(x[window].shape)
        u = dout[(..., *place)][(..., *[None] * n)]
        if slip == "assigned":
            dx[window] = np.where(best, u, dx[window])
        else:
            dx[window] += np.where(best, u, 0)
        if slip == "first window alone":
            return dx
    return dx


def distillation_loss(logits, teacher, temperature=1.0, reduction="mean", slip=""):
    """KL(teacher || student) of softened probabilities, times the squared temperature."""
    T = logits.dtype.type(temperature)
    a = log_softmax(logits / T)
    b = log_softmax(teacher * T if slip == "teacher times temperature" else teacher / T)
    return reduced((np.exp(b) * (b - a)).sum(-1) * T * T, reduction).astype(logits.dtype)


def info_nce(s, symmetric=True, reduction="mean", slip=""):
    """Cross-entropy of the rows and of the columns."""
    if s.ndim > 2:
        refuse("batches")
    if slip == "positives without temperature":
        s = np.where(np.eye(*s.shape, dtype=bool), s.dtype.type(0.1) * s, s)
    rows = -np.diagonal(log_softmax(s))
    if symmetric:
        rows = (rows - np.diagonal(log_softmax(s.T))) / 2
    if slip == "temperature in the logarithm":
        rows = rows - np.log(s.dtype.type(0.5))
    return reduced(np.array(rows), reduction).astype(s.dtype)


def rope_frequencies(dim, base=10_000.0, slip=""):
    """A power of the base for each pair of channels."""
    i = np.arange(dim // 2) - (1 if slip == "one pair earlier" else 0)
    return base ** (-2 * i / dim)


def conv(x, weight, bias=None, slip=""):
    """Cross-correlation of two axes, without padding."""
    if x.ndim != 4 or weight.shape[1] != x.shape[1]:
        refuse("another rank, groups")
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], axis=(2, 3))
    y = np.einsum("ncijkl,ockl->noij", windows, weight)
    if bias is None:
        return y.astype(x.dtype)
    taps = weight[0].size if slip == "bias of each tap" else 1
    return (y + taps * bias[:, None, None]).astype(x.dtype)


def of_steps(op, steps=(1, 2, 4), **options):
    """Return steps of an optimizer, each with the state of those before."""

    def case(count):
        p, state = R.normal(size=(3, 5)), None
        for _ in range(count - 1):
            p, state = op(p, R.normal(size=(3, 5)), state, **options)
        return (p, R.normal(size=(3, 5)), state), options

    return cases(*map(case, steps))


def of_windows(size, stride):
    """Return a plane and a line of windows that overlap."""
    options = {"size": size, "stride": stride}
    return cases(*(((R.normal(size=(2, 3, n, m)),), options) for n, m in ((7, 9), (9, 11))))


def of_temperatures():
    return cases(*(((R.normal(size=(4, n)), R.normal(size=(4, n))), {"temperature": t})
                   for n, t in ((7, 2.0), (9, 4.0), (6, 1.0))))  # fmt: skip


def of_planes():
    def case(n, c, o):
        x, w, b = R.normal(size=(2, c, n, n)), R.normal(size=(o, c, 3, 2)), R.normal(size=o)
        return (x, w, b), {}

    return cases(case(7, 3, 4), case(6, 2, 5))


def of_triplets():
    def case(rows, n, options):
        return tuple(R.normal(size=(rows, n)) for _ in range(3)), options

    return cases(
        case(6, 4, {"reduction": "none"}), case(7, 5, {}), case(9, 3, {"margin": 2.0}),
        case(8, 5, {"margin": 0.5, "reduction": "none"}),
    )  # fmt: skip


ADAM, ADAMW, TRIPLET = training.adam_step, training.adamw_step, losses.triplet_margin_loss
ADAGRAD, COSINE, BCE = training.adagrad_step, training.cosine_schedule, losses.binary_cross_entropy
CONTRAST, POOL = losses.info_nce, convolution.max_pool
TRIPLETS, RATE = of_triplets(), {"learning_rate": 0.1}
UNSEEN = [
    Wrong("online-ml/river#28", losses.hinge, "vjp", hinge_backward, "times the score",
        "The gradient is the product of score and target, not the target alone.",
        (r"target \* pred|pred \* target|pred",)),
    Wrong("airbnb/aerosolve#94", losses.hinge, "forward", hinge, "sign of the score",
        "The score has the other sign.", (r"1 \+ |\+ target|-target|-pred|sign",)),
    Wrong("Atcold/NYU-DLSP20#832", TRIPLET, "forward", triplet_margin_loss, "negative outside",
        "The distance of the negative is subtracted outside of the maximum.",
        (r"relu|maximum|outside",), TRIPLETS),
    Wrong("taylover-pei/SSDG-CVPR2020#2", TRIPLET, "forward", triplet_margin_loss,
        "margin of 0.1", "The margin is 0.1, whatever is given.", (r"margin.*0\.1|0\.1.*margin",),
        TRIPLETS),
    Wrong("facebookresearch/fairseq#2916", COSINE, "forward", cosine_schedule, "ends exchanged",
        "Peak and floor are exchanged.", (r"exchanged|floor|peak|1 - np\.cos|1 - cos",)),
    Wrong("goodfire-ai/spd#311", COSINE, "forward", cosine_schedule, "quarter of a period",
        "A quarter of a period stands for a half.", (r"cos|pi",)),
    Wrong("deeplearning4j/libnd4j#440", act.softmax, "vjp", softmax_backward, "diagonal alone",
        "Only the diagonal of the Jacobian is there.", (r"sum|diagonal|1 - y|\(1 - ",)),
    Wrong("HomericIntelligence/Odyssey#2134", act.softmax, "vjp", softmax_backward, "no sum",
        "The weighted sum is missing.", (r"sum|mean|dout stands|y \* dout",)),
    Wrong("davidrmiller/neural2d#40", act.tanh, "vjp", tanh_backward, "of the value",
        "The derivative is taken at the value.", (r"at the output|tanh\(y\)|tanh\(tanh|twice",)),
    Wrong("scutan90/DeepLearning-500-questions#544", act.tanh, "vjp", tanh_backward, "no 1",
        "The 1 is missing.", (r"\b1\b|-tanh|-y|- ?y",)),
    Wrong("yizt/numpy_neural_network#6", act.tanh, "vjp", tanh_backward, "of the cotangent",
        "The derivative is taken at the cotangent, and not multiplied by it.", (r"dout",)),
    Wrong("hao-ai-lab/FastVideo#870", neurons.lora_linear, "forward", lora_linear, "not scaled",
        "The correction is not scaled.", (r"scale",)),
    Wrong("karpathy/convnetjs#70", ADAM, "forward", adam_step, "multiplied",
        "The moments are multiplied by their corrections, not divided.",
        (r"m \* \(1|v \* \(1|\* \(1 - b|\* stands where /|multipli|correct",),
        of_steps(ADAM, **RATE)),
    Wrong("ufal/npfl114#79", ADAM, "forward", adam_step, "square for the power",
        "The correction of the second moment has the exponent 2, not t.",
        (r"\*\* 2|\b2 stands|square|/ 0\.001999 ",), of_steps(ADAM, **RATE)),
    Wrong("eriklindernoren/ML-From-Scratch#35", ADAM, "forward", adam_step, "no power",
        "The corrections have no power of t.", (r"\*\* t|\*\* step|\bt\b|power|step",),
        of_steps(ADAM, **RATE)),
    Wrong("frgfm/holocron#1", ADAM, "forward", adam_step, "corrected in place",
        "The corrected moments are kept as the state.", (r"state|hat|return|correct|1 - b",),
        of_steps(ADAM, **RATE)),
    Wrong("Oneflow-Inc/oneflow#5960", ADAMW, "forward", adamw_step, "correction of the rate",
        "The correction is part of the rate, which eps and the decay have, too.",
        (r"eps.*(decay|eta|rate)|(decay|eta|rate).*eps",), of_steps(ADAMW, **RATE)),
    Wrong("yizt/numpy_neural_network#6", ADAGRAD, "forward", adagrad_step,
        "squares of the weights", "The weights are squared, not their gradients.",
        (r"params|theta|weights",), of_steps(ADAGRAD, **RATE)),
    Wrong("fastai/fastbook#515", BCE, "forward", binary_cross_entropy, "reversed",
        "p and 1 - p are exchanged.", (r"exchanged|-logits|-x|sign|1 - ",)),
    Wrong("PacktPublishing/Modern-Computer-Vision-with-PyTorch#35", BCE, "forward",
        binary_cross_entropy, "sum", "The sum stands for the mean.", (r"sum",)),
    Wrong("delzac/cntkx#10", att.scaled_dot_product_attention, "forward", attention, "no root",
        "Scores are divided by the width, not by its root.", (r"root|sqrt|\*\* -|0\.5|width|E\b",)),
    Wrong("bkitano/llama-from-scratch#4", norm.rms_norm, "forward", rms_norm, "of a sequence",
        "The mean square is taken over a sequence, not over a token.",
        (r"ax[ie]s|last two|-2|all",),
        cases(((R.normal(size=(2, 3, 5)),), {}), ((R.normal(size=(4, 6, 8)), R.normal(size=8)), {}),
              ((R.normal(size=(5, 7)),), {}))),
    Wrong("kyegomez/zeta#180", norm.rms_norm, "forward", rms_norm, "divided by the width",
        "The root of the width divides where it should multiply.",
        (r"divided|root|sqrt|shape|width",)),
    Wrong("riccardoandreoni0/CNN-from-scratch#1", POOL, "vjp", max_pool_backward,
        "first window alone", "The first window alone has a gradient.", (r"first|alone|\[0\]",),
        of_windows((2, 2), 2)),
    Wrong("0809zheng/CS231n-assignment2019#19", POOL, "vjp", max_pool_backward, "assigned",
        "Gradients of windows that overlap are assigned, not added.",
        (r"assign|overwrit|add|last|stands where.*\+",), of_windows((3, 3), 1)),
    Wrong("RElbers/info-nce-pytorch#17", CONTRAST, "forward", info_nce,
        "positives without temperature", "The logits of positives lack the temperature.",
        (r"0\.1|positive|diag|eye",)),
    Wrong("drboog/Lafite#25", CONTRAST, "forward", info_nce, "temperature in the logarithm",
        "The temperature is a factor within the logarithm.", (r"0\.693|log\(|2 \* sum\(exp",)),
    Wrong("bowang-lab/BLEEP#5", losses.distillation_loss, "forward", distillation_loss,
        "teacher times temperature", "The teacher's logits are multiplied by the temperature.",
        (r"teacher \* temperature|\* temperature",), of_temperatures()),
    Wrong("bkitano/llama-from-scratch#8", pos.rope_frequencies, "forward", rope_frequencies,
        "one pair earlier", "Each pair has the exponent of the pair before it.",
        (r"arange|-1|-2|- 2|base|shift|exponent|\(2|dim - ",), cases(((8,), {}), ((64,), {}),
        ((32,), {"base": 500.0}))),
    Wrong("LazaroHurtado/micrograd-rs#20", convolution.conv, "forward", conv, "bias of each tap",
        "The bias is added for each tap.", (r"bias",), of_planes()),
]  # fmt: skip
