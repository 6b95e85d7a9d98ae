"""Mistakes of public reports that were looked up after the last change of the search for causes."""

import numpy as np

from dlref import activations as act
from dlref import attention as att
from dlref import losses, training
from dlref import normalization as norm
from dlref import positions as pos
from dlref import recurrent as rec
from dlref.formulas.training import tree_map

from .kernels import Wrong, cases, refuse, sigmoid, softmax

R = np.random.default_rng(71)


def reduced(terms, reduction):
    return {"mean": np.mean, "sum": np.sum, "none": np.asarray}[reduction](terms)


def huber(pred, target, delta=1.0, reduction="mean", slip=""):
    """Quadratic near 0, linear further away."""
    e = pred - target
    size = np.abs(e)
    far = delta * (size - delta / 2)
    if slip == "linear part of delta 1":
        far = size - 0.5
    near = size <= delta
    terms = np.where(near, e * e / 2, far)
    if slip == "negative errors are 0":
        terms = near * e * e / 2 + (e > delta) * delta * (size - delta / 2)
    return reduced(terms.astype(pred.dtype), reduction)


def adam_step(params, grads, state, learning_rate, betas=(0.9, 0.999), eps=1e-8, slip=""):
    """Adam, one array after the other."""
    b1, b2 = betas
    zeros = tree_map(np.zeros_like, params)
    step, mean, square = (0, zeros, zeros) if state is None else state[:3]
    t = step + 1
    new = (1, 1) if slip == "gradients not weighted" else (1 - b1, 1 - b2)
    mean = tree_map(lambda m, g: b1 * m + new[0] * g, mean, grads)
    square = tree_map(lambda v, g: b2 * v + new[1] * g * g, square, grads)

    def moved(p, m, v):
        m_hat, v_hat = m / (1 - b1**t), v / (1 - b2**t)
        root = np.sqrt(v_hat + eps if slip == "eps twice" else v_hat) + eps
        if slip == "eps before the correction":
            root = (np.sqrt(v) + eps) / np.sqrt(1 - b2**t)
        return (p - learning_rate * m_hat / root).astype(p.dtype)

    return tree_map(moved, params, mean, square), (t, mean, square, None)


def rmsprop_step(params, grads, state, learning_rate, alpha=0.99, eps=1e-8, slip=""):
    """RMSprop without momentum."""
    step, square = (0, tree_map(np.zeros_like, params)) if state is None else state[:2]
    square = tree_map(lambda v, g: alpha * v + (1 - alpha) * g * g, square, grads)

    def moved(p, g, v):
        root = np.sqrt(v + eps) if slip == "eps under the root" else np.sqrt(v) + eps
        return (p - learning_rate * g / root).astype(p.dtype)

    return tree_map(moved, params, grads, square), (step + 1, square, None, None)


def elu_backward(u, x, alpha=1.0, slip=""):
    """The slope below 0 is the value plus alpha."""
    value = x if slip == "input for the value" else alpha * np.expm1(np.minimum(x, 0))
    return (u * np.where(x > 0, 1, value + alpha)).astype(x.dtype)


def leaky_relu(x, negative_slope=0.01, slip=""):
    z = np.maximum(x, 0) if slip == "relu first" else x
    return np.where(z > 0, z, x.dtype.type(negative_slope) * z)


def leaky_relu_backward(u, x, negative_slope=0.01, slip=""):
    if slip == "slope ignored":
        negative_slope = 0.01
    slope = 0 if slip == "as relu" else negative_slope
    return (u * np.where(x > 0, 1, slope)).astype(x.dtype)


def lstm_cell(x, h, c, w_ih, w_hh, b_ih=None, b_hh=None, slip=""):
    """One step, gates in the order i, f, g, o."""
    z = x @ w_ih.T
    n = z.shape[-1] // 4
    h, c = (np.zeros_like(z[..., :n]) if s is None else s for s in (h, c))
    z = z + h @ w_hh.T
    for b in (b_ih, b_hh):
        if b is not None:
            o = b[3 * n :]
            z = z + (np.concatenate([o, o, b[2 * n : 3 * n], o]) if slip == "biases of o" else b)
    i, f, g, o = np.split(z, 4, -1)
    i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
    c = (1 - i if slip == "coupled gates" else f) * c + i * g
    return o * np.tanh(c), c


def distillation_loss(logits, teacher, temperature=1.0, reduction="mean", slip=""):
    """The divergence of softened probabilities, times the temperature squared."""
    logs, p = (act.log_softmax(a / temperature) for a in (logits, teacher))
    mean = np.mean if slip == "mean over classes" else np.sum
    rows = mean(np.exp(p) * (p - logs), -1) * temperature**2
    return reduced(rows, reduction).astype(logits.dtype)


def kl_divergence(log_p, q, reduction="mean", slip=""):
    """The divergence of q from p, which is given by logarithms."""
    other = np.exp(log_p) if slip == "no logarithm" else log_p
    rows = np.sum(np.where(q > 0, q * (np.log(np.where(q > 0, q, 1)) - other), 0), -1)
    return reduced(rows, reduction).astype(q.dtype)


def sinusoidal(length, dim, base=10000.0, slip=""):
    """Sines of even channels, cosines of odd ones."""
    i = np.arange(dim)
    exponents = i // 2 * 2 / dim
    if slip == "odd exponents":
        exponents = i / dim
    elif slip == "exponents doubled":
        exponents = 2 * i / dim
    theta = base**-exponents
    if slip == "power exchanged":
        theta = exponents ** (1 / base)
    elif slip == "floor of the quotient":
        theta = np.exp(i // 2 * 2 * (-np.log(base) / dim // 2))
    angles = np.arange(length)[:, None] * theta
    return np.where(i % 2, np.cos(angles), np.sin(angles))


def layer_norm(x, weight=None, bias=None, eps=1e-5, slip=""):
    """Normalize rows by their own statistics."""
    centered = x - x.mean(-1, keepdims=True)
    n = x.shape[-1]
    var = (centered**2).sum(-1, keepdims=True) / (n - ("unbiased" in slip and n > 1))
    std = np.sqrt(var + x.dtype.type(eps))
    if "eps outside" in slip:
        std = np.sqrt(var) + x.dtype.type(eps)
    elif slip == "square for the root":
        std = (var + eps) ** 2
    out = centered * std if slip == "times the deviation" else centered / std
    out = out if weight is None else out * weight
    return (out if bias is None else out + bias).astype(x.dtype)


def multi_head_attention(x_q, x_kv, params, num_heads, slip=""):
    """Heads side by side."""
    w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o, *rest = params
    if any(a is not None for a in rest):
        refuse("norms, gates and sinks")
    q, k, v = x_q @ w_q.T + b_q, x_kv @ w_k.T + b_k, x_kv @ w_v.T + b_v
    width = q.shape[-1] // num_heads

    def heads(a):
        if slip == "no transpose":
            return a.reshape(*a.shape[:-2], num_heads, a.shape[-2], -1)
        return np.swapaxes(a.reshape(*a.shape[:-1], num_heads, -1), -2, -3)

    q, k, v = map(heads, (q, k, v))
    size = x_q.shape[-1] if slip == "width of the model" else width
    out = softmax(q @ np.swapaxes(k, -1, -2) * size**-0.5) @ v
    out = np.swapaxes(out, -2, -3)
    return out.reshape(*out.shape[:-2], -1) @ w_o.T + b_o


def attention(q, k, v, scale=None, slip=""):
    """Dot products of queries and keys, over the root of their width."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if q.shape[:-2] != k.shape[:-2]:
        refuse("heads that share keys")
    scores = q @ np.swapaxes(k, -1, -2)
    if slip == "neither scale nor softmax":
        return scores @ v
    scores = scores / scale if slip == "divided by the scale" else scores * scale
    return (softmax(scores) @ v).astype(q.dtype)


def l2_norm(x, eps=1e-6, slip=""):
    """Rows over their lengths."""
    x = x * x if slip == "of the squares" else x
    return (x / np.sqrt((x * x).sum(-1, keepdims=True) + x.dtype.type(eps))).astype(x.dtype)


def of_step(options):
    """Return cases of an optimizer whose eps matters."""
    p, g = R.normal(size=(2, 3, 5)), 1e-2 * R.normal(size=(2, 3, 5))
    return cases(*(((p[i], g[i], None), options) for i in range(2)))


def of_heads():
    def case(*shape):
        d = shape[-1]
        params = att.AttentionParams(*R.normal(size=(4, d, d)) / d**0.5, *R.normal(size=(4, d)))
        return (R.normal(size=shape), R.normal(size=(*shape[:-2], 7, d)), params), {"num_heads": 2}

    return cases(case(5, 8), case(2, 4, 12))


STEP = of_step({"learning_rate": 0.1, "eps": 1e-3})
TABLE = cases(((12, 8), {}), ((7, 6), {}))
ADAM, ELU = training.adam_step, act.elu
SDPA, MHA = att.scaled_dot_product_attention, att.multi_head_attention
LATER = [
    Wrong("tensorforce/tensorforce#139", losses.huber, "forward", huber, "linear part of delta 1",
        "The linear part is |e| - 0.5, whatever delta.", (r"delta",)),
    Wrong("marlbenchmark/on-policy#47", losses.huber, "forward", huber, "negative errors are 0",
        "Large negative errors have no loss, since e > delta has no absolute value.",
        (r"abs|\be\b|> delta|negative",)),
    Wrong("kozistr/pytorch_optimizer#397", ADAM, "forward", adam_step, "eps twice",
        "eps is added under the root, too.",
        (r"eps.*(twice|root|sqrt)|sqrt.*eps|square\) \+ eps stands",), STEP),
    Wrong("PennyLaneAI/pennylane#1928", ADAM, "forward", adam_step, "gradients not weighted",
        "The moments lack the factors 1 - beta of the new gradients.",
        (r"beta|1 - b[12]|\bg\b",), STEP),
    Wrong("pytorch/pytorch#22628", ADAM, "forward", adam_step, "eps before the correction",
        "eps is added before the bias correction, which divides it as well.",
        (r"eps.*(correction|bias|before)|correction.*eps|sqrt\(v\)|eps (/|stands)",), STEP),
    Wrong("keras-team/keras#17391", training.rmsprop_step, "forward", rmsprop_step,
        "eps under the root", "eps is added under the root.",
        (r"eps.*(root|sqrt)|sqrt.*eps",), STEP),
    Wrong("mlpack/mlpack#1540", ELU, "vjp", elu_backward, "input for the value",
        "The slope below 0 is x + alpha, of the input in place of the value.",
        (r"\bx \+ alpha|alpha \+ x|\bx stands where|x.*expm1",)),
    Wrong("tflearn/tflearn#784", act.leaky_relu, "forward", leaky_relu, "relu first",
        "The input goes through a ReLU first: negative numbers become 0.",
        (r"relu|negative_slope.*0|ReLU|maximum",)),
    Wrong("deeplearning4j/deeplearning4j#8178", act.leaky_relu, "vjp", leaky_relu_backward,
        "slope ignored", "The slope is not used in the backward pass.", (r"negative_slope",)),
    Wrong("scientific-computing/FKB#15", act.leaky_relu, "vjp", leaky_relu_backward, "as relu",
        "The derivative is that of ReLU.", (r"relu|negative_slope|ReLU|written|zero",)),
    Wrong("ddbourgin/numpy-ml#42", rec.lstm_cell, "forward", lstm_cell, "biases of o",
        "The gates i and f have the bias of o.", (r"b_ih|b_hh|bias",)),
    Wrong("glample/tagger#25", rec.lstm_cell, "forward", lstm_cell, "coupled gates",
        "The forget gate is 1 - i.", (r"1 - i\b|one minus the input gate|coupled",)),
    Wrong("HikariTJU/LD#74", losses.distillation_loss, "forward", distillation_loss,
        "mean over classes", "The divergence is the mean over classes, not the sum.",
        (r"mean|axis.*(size|divided)|divided by.*(size|axis)",)),
    Wrong("microsoft/ProDA#20", losses.kl_divergence, "forward", kl_divergence, "no logarithm",
        "Probabilities of the student stand for their logarithms.",
        (r"exp\(log_p\)|\bp\b.*log_p",)),
    Wrong("maxjcohen/transformer#62", pos.sinusoidal, "forward", sinusoidal, "odd exponents",
        "The exponents of cosines are odd: i / dim, not 2 (i // 2) / dim.",
        (r"arange|expon|// 2|repeat|theta|\*\*",), TABLE),
    Wrong("jadore801120/attention-is-all-you-need-pytorch#32", pos.sinusoidal, "forward",
        sinusoidal, "exponents doubled",
        "The exponent is 2 i / dim for channel i, not 2 (i // 2) / dim.",
        (r"arange|expon|// 2|repeat|theta|\*\*",), TABLE),
    Wrong("ivanvovk/WaveGrad#12", pos.sinusoidal, "forward", sinusoidal, "power exchanged",
        "Base and exponent are exchanged.", (r"\*\*|expon|base",), TABLE),
    Wrong("zju3dv/LoFTR#41", pos.sinusoidal, "forward", sinusoidal, "floor of the quotient",
        "log(base) / dim // 2 is rounded down to -1: the frequencies are exp(-2 i).",
        (r"floor|//|log\(base\)|exp",), TABLE),
    Wrong("hkproj/pytorch-transformer#31", norm.layer_norm, "forward", layer_norm, "eps outside",
        "eps is added to the deviation, not to the variance.",
        (r"eps.*(outside|deviation|after|root)|sqrt\(var\) \+ eps|sqrt.*\+ eps",)),
    Wrong("harvardnlp/annotated-transformer#119", norm.layer_norm, "forward", layer_norm,
        "unbiased, eps outside",
        "The deviation is the corrected one, and eps is added to it.",
        (r"(n - 1|unbiased|corrected|Bessel|N - 1|shape\[-1\] - 1|ddof)",)),
    Wrong("FluxML/Flux.jl#529", norm.layer_norm, "forward", layer_norm, "unbiased",
        "The variance is divided by n - 1.",
        (r"(n - 1|unbiased|corrected|Bessel|N - 1|shape\[-1\] - 1|ddof)",)),
    Wrong("131250208/TPlinker-joint-extraction#37", norm.layer_norm, "forward", layer_norm,
        "square for the root", "The square stands for the root.", (r"square|\*\* 2",)),
    Wrong("szymanowiczs/viewset-diffusion#1", norm.layer_norm, "forward", layer_norm,
        "times the deviation", "x is multiplied by the deviation, not divided.",
        (r"\* (tau|sqrt)|times|divid|1 / (tau|sqrt)",)),
    Wrong("omihub777/ViT-CIFAR#12", MHA, "forward", multi_head_attention, "width of the model",
        "The scale is that of the model's width, not of a head's.",
        (r"shape\[-1\]|scale|num_heads|width|d_model|head",), of_heads()),
    Wrong("reczoo/FuxiCTR#30", MHA, "forward", multi_head_attention, "no transpose",
        "Heads are split by a reshape without a transpose.",
        (r"head|transpos|reshape|swap|axes",), of_heads()),
    Wrong("esceptico/perceiver-io#9", SDPA, "forward", attention, "divided by the scale",
        "The scores are divided by d^(-1/2), not multiplied.",
        (r"/ scale|divided|scale|\*\* 0\.5|sqrt",)),
    Wrong("flexflow/flexflow-train#467", SDPA, "forward", attention, "neither scale nor softmax",
        "Neither scale nor softmax is there.", (r"softmax|weights|scores stands",)),
    Wrong("waychin-weiqin/ITSA#3", norm.l2_norm, "forward", l2_norm, "of the squares",
        "The squares are normalized.", (r"square\(x\)|x \*\* 2|x \* x",)),
]  # fmt: skip
