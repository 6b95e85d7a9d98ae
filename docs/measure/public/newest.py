"""Mistakes of public reports that were looked up when the search had the changes of december.py."""

import numpy as np

from dlref import attention as att
from dlref import convolution, losses, recurrent, training, transformer
from dlref import normalization as norm
from dlref import positions as pos
from dlref.formulas.training import tree_map

from .attention import of_queries
from .kernels import Wrong, cases, gradients, refuse, sigmoid, softmax
from .layers import conv_backward
from .losses import log_softmax
from .november import reduced, softplus
from .recurrences import dense, flat

R = np.random.default_rng(74)


def adagrad_step(
    params, grads, state, learning_rate, lr_decay=0.0, weight_decay=0.0, eps=1e-10, slip=""
):  # fmt: skip
    """Steps against gradients over the roots of their sums of squares."""
    step, total = (0, tree_map(np.zeros_like, params)) if state is None else state
    grads = tree_map(lambda p, g: g + weight_decay * p, params, grads)
    total = tree_map(lambda s, g: s + g * g, total, grads)
    eta = learning_rate / (1 + step * lr_decay) * (-1 if slip == "with the gradient" else 1)

    def moved(p, g, s):
        return np.asarray(p - eta * g / (np.sqrt(s) + eps), np.asarray(p).dtype)

    return tree_map(moved, params, grads, total), (step + 1, total)


def squared_error_backward(dout, pred, target, reduction="mean", slip=""):
    """Twice the difference."""
    if reduction != "mean" or np.shape(dout) or pred.shape != target.shape:
        refuse("another reduction")
    d = (1 if slip == "no factor 2" else 2) * (pred - target) * dout / pred.size
    return d.astype(pred.dtype), (-d).astype(pred.dtype)


def top_k_router(x, weight, k, score="softmax", normalize=True, scale=1.0, slip=""):
    """The k best experts, whose scores weigh them."""
    z = x @ weight.T
    scores = sigmoid(z) if score == "sigmoid" else softmax(z)
    experts = np.argsort(-scores, -1, kind="stable")[..., :k]
    chosen = np.take_along_axis(scores, experts, -1)
    if normalize:
        chosen = chosen / chosen.sum(-1, keepdims=True)
    if slip == "scale of normalized weights" and not normalize:
        scale = 1.0
    if slip == "scale of other weights" and normalize:
        scale = 1.0
    return experts, scale * chosen, scores


def distillation_loss(logits, teacher, temperature=1.0, reduction="mean", slip=""):
    """The divergence of softened probabilities, times the temperature squared."""
    log_p = log_softmax((teacher if slip == "teacher twice" else logits) / temperature)
    log_q = log_softmax(teacher / temperature)
    if slip == "other direction":
        log_p, log_q = log_q, log_p
    rows = (np.exp(log_q) * (log_q - log_p)).sum(-1)
    rows = rows if slip == "no temperature" else rows * temperature**2
    return reduced(rows, reduction).astype(logits.dtype)


def alibi_slopes(num_heads, slip=""):
    """Powers of two, and others between them."""
    if slip == "one sequence":
        return 2.0 ** (-8 * np.arange(1, num_heads + 1) / num_heads)
    P = 2 ** int(np.log2(num_heads))
    h, more = np.arange(1, P + 1), np.arange(num_heads - P)
    return np.concatenate([2.0 ** (-8 * h / P), 2.0 ** (-4 * (2 * more + 1) / P)])


def attention(q, k, v, mask=None, slip=""):
    """Softmax of scaled products, along the keys."""
    s = (q @ np.swapaxes(of_queries(k, q), -1, -2)) * q.dtype.type(q.shape[-1] ** -0.5)
    if slip == "mask after the softmax" and mask is not None:
        p = np.where(mask, softmax(s), -np.inf)
    else:
        s = s if mask is None else np.where(mask, s, -np.inf)
        p = softmax(s, -2 if slip == "softmax of queries" else -1)
    return (p @ of_queries(v, q)).astype(q.dtype)


def layer_norm(x, weight=None, bias=None, eps=1e-5, slip=""):
    """Rows by their own statistics."""
    centered, n, eps = x - x.mean(-1, keepdims=True), x.shape[-1], x.dtype.type(eps)
    total = (centered**2).sum(-1, keepdims=True)
    y = centered / np.sqrt(total / (n + eps) if slip == "eps in the size" else total / n + eps)
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias).astype(x.dtype)


def layer_norm_backward(dout, x, weight=None, bias=None, eps=1e-5, slip=""):
    """dx = (g - mean(g) - x_hat mean(g x_hat)) / std."""
    eps = x.dtype.type(eps)
    centered = x - x.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt((centered**2).mean(-1, keepdims=True) + eps)
    if slip == "inverted twice":
        inverse = 1 / np.sqrt(inverse + eps)
    x_hat = centered * inverse
    g = dout if weight is None else dout * weight
    dx = (g - g.mean(-1, keepdims=True) - x_hat * (g * x_hat).mean(-1, keepdims=True)) * inverse
    dweight = None if weight is None else flat(dout * x_hat).sum(0, dtype=float).astype(x.dtype)
    dbias = None if bias is None else flat(dout).sum(0, dtype=float).astype(x.dtype)
    return gradients(dx.astype(x.dtype), dweight, dbias)


def rnn(x, h0, w_ih, w_hh, b_ih=None, b_hh=None, slip=""):
    """Steps with tanh."""
    h = np.zeros((*x.shape[:-2], w_hh.shape[1]), x.dtype) if h0 is None else h0
    out = np.zeros((*x.shape[:-1], w_hh.shape[1]), x.dtype)
    for t in range(x.shape[-2]):
        h = np.tanh(dense(x[..., t, :], w_ih, b_ih) + dense(h, w_hh, b_hh))
        out[..., t, :] = h
    if slip == "last state in all places" and x.shape[-2]:
        out[:] = h[..., None, :]
    return out


def rnn_cell(x, h, w_ih, w_hh, b_ih=None, b_hh=None, slip=""):
    """One step with tanh."""
    z = dense(x, w_ih, b_ih)
    z = z + dense(np.zeros((*x.shape[:-1], w_hh.shape[1]), x.dtype) if h is None else h, w_hh, b_hh)
    return z if slip == "no tanh" else np.tanh(z)


def gaussian_kl(mean, log_var, reduction="mean", slip=""):
    """Half of mu^2 + sigma^2 - log sigma^2 - 1, summed over the last axis."""
    terms = (mean**2 + np.expm1(log_var) - log_var) / 2
    if slip == "1 subtracted once":
        rows = ((mean**2 + np.exp(log_var) - log_var) / 2).sum(-1) - 0.5
    elif slip == "sum of all":
        rows = np.full(terms.shape[:-1], terms.sum())
    else:
        rows = terms.mean(-1) if slip == "mean of the axis" else terms.sum(-1)
    return reduced(rows, reduction).astype(mean.dtype)


def rope_frequencies(dim, base=10000.0, slip=""):
    """Powers of the base."""
    exponents = np.arange(0, dim, 2) / dim
    if slip == "odd exponents":
        exponents = (np.arange(0, dim, 2) + 1) / dim
    return base ** (exponents if slip == "no minus" else -exponents)


def apply_rope(x, cos, sin, interleaved=True, rotary_dim=None, slip=""):
    """Turn pairs of channels, of the first ones alone if that is wanted."""
    r = x.shape[-1] if rotary_dim is None else rotary_dim
    if cos.shape[-1] != r // 2:
        refuse("tables of another size")
    i = np.arange(r // 2)
    if interleaved:
        first, second = 2 * i, 2 * i + 1
    else:
        away = x.shape[-1] if slip == "half of the head" else r
        first, second = i, i + away // 2
    y = x.copy()
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., first] * sin + x[..., second] * cos
    return y


def next_token_probabilities(z, temperature=1.0, top_k=None, top_p=None, slip=""):
    """The most probable tokens, by number or by mass."""
    if temperature == 0 or (top_k is not None and top_p is not None):
        refuse("temperature 0, or both filters")
    p = softmax((z - z.max(-1, keepdims=True)) / z.dtype.type(temperature))
    if top_k is not None and top_k < z.shape[-1]:
        kept = p >= np.sort(p, -1)[..., -top_k, None]
        p = np.where(~kept if slip == "others kept" else kept, p, 0)
    if top_p is not None:
        order = np.argsort(-p, -1, kind="stable")
        rows = np.take_along_axis(p, order, -1)
        before = np.concatenate([0 * rows[..., :1], np.cumsum(rows, -1)[..., :-1]], -1)
        mass = 1 - top_p if slip == "rest of the mass" else top_p
        new = np.zeros_like(p)
        kept = (before < mass) | (np.arange(p.shape[-1]) == 0)
        np.put_along_axis(new, order, np.where(kept, rows, 0), -1)
        p = new
    return (p / p.sum(-1, keepdims=True)).astype(z.dtype)


def focal_loss(x, target, alpha=0.25, gamma=2.0, reduction="mean", slip=""):
    """A term for the positives and one for the negatives; of labels that are 0 or 1."""
    p, q = sigmoid(x), sigmoid(-x)
    a, b = (alpha, 1 - alpha) if alpha >= 0 else (1, 1)
    gamma = 0 if slip == "no focus" else gamma
    terms = a * target * q**gamma * softplus(-x) + b * (1 - target) * p**gamma * softplus(x)
    return reduced(terms, reduction).astype(x.dtype)


def of_step(op, options):
    """Return the first and the second step of an optimizer."""
    p, g = R.normal(size=(2, 3, 5)), R.normal(size=(2, 3, 5))
    _, state = op(p[0], g[0], None, **options)
    return cases(((p[0], g[0], None), options), ((p[1], g[1], state), options))


def of_router(options):
    return cases(*((tuple(R.normal(size=shape) for shape in ((n, 4), (e, 4))), options)
                   for n, e in ((3, 5), (7, 8), (4, 6))))  # fmt: skip


def of_labels():
    some = {}, {"alpha": 0.6}, {"gamma": 1.5}
    return cases(*(((R.normal(size=(5, 7)), R.integers(0, 2, (5, 7)) * 1.0), options)
                   for options in some))  # fmt: skip


def of_parts():
    """Return rotations of the first channels of a head."""

    def case(T, d, r):
        angles = np.arange(T)[:, None] * 10.0 ** -np.arange(r // 2)
        inputs = R.normal(size=(2, T, d)), np.cos(angles), np.sin(angles)
        return inputs, {"interleaved": False, "rotary_dim": r}

    return cases(case(5, 8, 4), case(7, 12, 8))


def of_masks():
    def case(T, S):
        q, k, v = (R.normal(size=(2, n, 6)) for n in (T, S, S))
        return (q, k, v), {"mask": R.random((T, S)) < 0.7}

    return cases(case(5, 7), case(6, 9))


def of_sampling(options):
    return cases(*(((R.normal(size=(3, n)) * 2,), options) for n in (9, 12)))


def of_strides():
    def case(n, stride):
        x, w = R.normal(size=(2, 3, n, n)), R.normal(size=(4, 3, 2, 2))
        return (x, w), {"stride": stride}

    return cases(case(7, 2), case(9, 3))


SDPA, ROUTER, KL = att.scaled_dot_product_attention, transformer.top_k_router, losses.gaussian_kl
DISTILL, SAMPLE = losses.distillation_loss, transformer.next_token_probabilities
DIMS = cases(((8,), {}), ((64,), {}), ((32,), {"base": 500.0}))
NEWEST = [
    Wrong("PaddlePaddle/Paddle#4184", training.adagrad_step, "forward", adagrad_step,
        "with the gradient", "The step is along the gradient, not against it.",
        (r"theta \+ eta|\+ eta \* d|-eta|sign|-\(?(direction|d|eta|learning_rate|grads)",),
        of_step(training.adagrad_step, {"learning_rate": 0.1})),
    Wrong("Open-Deep-ML/DML-OpenProblem#54", losses.squared_error, "vjp", squared_error_backward,
        "no factor 2", "The factor 2 is missing.", (r"\b2\b|0\.5|half",)),
    Wrong("sgl-project/sglang-jax#1282", ROUTER, "forward", top_k_router,
        "scale of normalized weights", "Weights that are not normalized are not scaled.",
        (r"scale",), of_router({"k": 2, "normalize": False, "scale": 2.5})),
    Wrong("sgl-project/sglang#31449", ROUTER, "forward", top_k_router, "scale of other weights",
        "Normalized weights are not scaled.", (r"scale",), of_router({"k": 2, "scale": 2.5})),
    Wrong("labmlai/annotated_deep_learning_paper_implementations#66", DISTILL, "forward",
        distillation_loss, "teacher twice", "The teacher stands for the student: the loss is 0.",
        (r"teacher|log_q",)),
    Wrong("paiml/aprender#2153", DISTILL, "forward", distillation_loss, "other direction",
        "The divergence is that of the student from the teacher.",
        (r"reverse|exchange|direction|kind",)),
    Wrong("IntelLabs/distiller#122", DISTILL, "forward", distillation_loss, "no temperature",
        "The factor temperature squared is missing.", (r"temperature",)),
    Wrong("ml-explore/mlx#3071", pos.alibi_slopes, "forward", alibi_slopes, "one sequence",
        "Heads that are no power of 2 have one geometric sequence.",
        (r"rule|paper|num_heads|power of (2|two)",), cases(*(((n,), {}) for n in (6, 12, 5)))),
    Wrong("huggingface/pytorch-image-models#2236", SDPA, "forward", attention,
        "mask after the softmax", "The mask is applied after the softmax: weights are -inf.",
        (r"mask.*(after|softmax)|-inf",), of_masks()),
    Wrong("labmlai/annotated_deep_learning_paper_implementations#146", SDPA, "forward", attention,
        "softmax of queries", "The softmax is along the queries.", (r"axis|quer",)),
    Wrong("xlite-dev/LeetCUDA#317", norm.layer_norm, "forward", layer_norm, "eps in the size",
        "eps is added to the size, not to the variance.",
        (r"eps.*(size|shape|count|\bn\b)|(size|shape|count|\bn\b).*eps",)),
    Wrong("ooples/AiDotNet.Tensors#784", norm.layer_norm, "vjp", layer_norm_backward,
        "inverted twice", "The inverse deviation is taken for the variance.",
        (r"1 / (sqrt|tau|np)|(tau|sqrt).*(var|1 /)|inver",)),
    Wrong("Kulbear/deep-learning-coursera#34", convolution.conv, "vjp", conv_backward,
        "stride missing", "The stride is missing in the backward pass.", (r"stride|\bs\b|step",),
        of_strides()),
    Wrong("pytorch/pytorch#142303", recurrent.rnn, "forward", rnn, "last state in all places",
        "All places have the last state.", (r"last|\[-1\]|-1",)),
    Wrong("pytorch/tutorials#193", recurrent.rnn_cell, "forward", rnn_cell, "no tanh",
        "There is no activation.", (r"tanh|activation|\bz\b|identity",)),
    Wrong("mkusner/grammarVAE#2", KL, "forward", gaussian_kl, "mean of the axis",
        "The mean over the last axis stands for the sum.", (r"mean|size|divided",)),
    Wrong("ericjang/draw#6", KL, "forward", gaussian_kl, "1 subtracted once",
        "1 is subtracted once for a row, not for each element.",
        (r"- 1\b|exp\(log_var\)|expm1|- 0\.5|once|sum\(mean \*\* 2 \+ var - log_var",)),
    Wrong("EDAPINENUT/GNTPP#4", KL, "forward", gaussian_kl, "sum of all",
        "The sum is over all axes.", (r"axis|all",)),
    Wrong("stanford-cs336/assignment1-basics#22", pos.rope_frequencies, "forward",
        rope_frequencies, "odd exponents", "The exponents are odd: (2 i + 1) / dim.",
        (r"arange\(1|\+ 1|arange\(0, dim, 2\)|exponent|odd",), DIMS),
    Wrong("labmlai/annotated_deep_learning_paper_implementations#313", pos.rope_frequencies,
        "forward", rope_frequencies, "no minus", "The exponents lack the minus.",
        (r"-np\.arange|-arange|arange\(0, dim, 2\)|1 / |minus|reciprocal",), DIMS),
    Wrong("pie-project/pie#602", pos.apply_rope, "forward", apply_rope, "half of the head",
        "The second channel of a pair is half of the head away, not half of the rotated part.",
        (r"half|R\b|rotary_dim|shape\[-1\]|pair",), of_parts()),
    Wrong("EricLBuehler/mistral.rs#1316", SAMPLE, "forward", next_token_probabilities,
        "others kept", "The best tokens are removed, not kept.",
        (r"[<>]=? |where\(|top_k",), of_sampling({"top_k": 3})),
    Wrong("lucidrains/x-transformers#184", SAMPLE, "forward", next_token_probabilities,
        "rest of the mass", "The mass is 1 - top_p.", (r"1 - top_p|top_p",),
        of_sampling({"top_p": 0.8})),
    Wrong("davisking/dlib#2552", losses.sigmoid_focal_loss, "forward", focal_loss, "no focus",
        "gamma is ignored.", (r"gamma",), of_labels()),
]  # fmt: skip
