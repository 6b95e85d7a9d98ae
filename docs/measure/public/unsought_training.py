"""Mistakes of public reports that were looked up after the set unopened: training."""

import itertools
import math

import numpy as np

from dlref import losses, neurons, propagation, training

from .kernels import Wrong, cases, gradients, sigmoid, softmax

R = np.random.default_rng(137)


def adagrad_step(params, grads, state, learning_rate, weight_decay=0.0, eps=1e-10, slip=""):
    """A step over the root of the sum of all squares."""
    step, total = (0, np.zeros_like(params)) if state is None else state
    beside = slip == "decay beside the step"
    g = grads if beside else grads + weight_decay * params
    temp = learning_rate * g
    total = total + (temp if slip == "rate squared" else g) ** 2
    move = temp / (np.sqrt(total) + eps)
    if beside:
        move = move + learning_rate * weight_decay * params
    return params - move, (step + 1, total)


def adam_step(params, grads, state, learning_rate, betas=(0.9, 0.999), eps=1e-8, slip=""):
    """The corrected first moment over the root of the second."""
    b1, b2 = betas
    t, m, v, _ = (0, np.zeros_like(params), np.zeros_like(params), None) if state is None else state
    t, m, v = t + 1, b1 * m + (1 - b1) * grads, b2 * v + (1 - b2) * grads * grads
    scale = np.sqrt(v / (1 - b2**t)) + eps
    update = learning_rate * m / (1 - b1**t)
    update = update * scale if slip == "multiplied" else update / scale
    return params - update, (t, m, v, None)


def mlp_backward(dout, x, params, activation="sigmoid", slip=""):
    """Backpropagation from the last layer to the first."""
    outputs = [x]
    for layer in params[:-1]:
        outputs.append(sigmoid(outputs[-1] @ layer.weight.T + layer.bias))
    delta, grads = dout, []
    for layer, h in zip(params[::-1], outputs[::-1], strict=True):
        grad, weight = delta.T @ h, layer.weight
        grads.insert(0, type(layer)(grad, delta.sum(0)))
        if slip == "updated weights" and h is not x:
            weight = weight - grad
        error = delta @ weight
        delta = error * h * (1 - h)
    return error, tuple(grads)


def regression_grads(x, targets, params, loss="squared_error", slip=""):
    """Gradients of a network of two layers, the second without a bias."""
    first, second = params
    h2 = x @ first.weight.T + first.bias
    h3 = np.maximum(h2, 0)
    d_h4 = 2 * (h3 @ second.weight.T - targets) / targets.size
    d_h2 = d_h4 @ second.weight * (h2 > 0)
    d_b1 = d_h2.mean(0) if slip == "mean of the bias" else d_h2.sum(0)
    return type(first)(d_h2.T @ x, d_b1), type(second)(d_h4.T @ h3, None)


def word_vector_grads(x, targets, params, slip=""):
    """Gradients of a network of two layers with a softmax."""
    first, second = params
    h = np.maximum(x @ first.weight.T + first.bias, 0)
    y_hat = softmax(h @ second.weight.T + second.bias)
    d2 = (y_hat - np.eye(y_hat.shape[-1])[targets]) / len(x)
    d1 = d2 @ second.weight * (h > 0)
    w1, w2 = d1.T @ x, d2.T @ h
    b1, b2 = d1.sum(0), d2.sum(0)
    if slip == "sum of the weights":
        b1, b2 = w1.sum(1), w2.sum(1)
    return type(first)(w1, b1), type(second)(w2, b2)


def softmax_regression_backward(dout, x, weight, target, bias, reduction="sum", slip=""):
    """Gradients of softmax regression, whose loss is a sum over the rows."""
    probas = softmax(x @ weight.T + bias)
    d = dout * (probas - np.eye(len(weight))[target])
    db = np.full_like(bias, d.sum()) if slip == "one sum" else d.sum(0)
    return gradients(d @ weight, d.T @ x, db)


def min_snr_weight(alpha, sigma, kind="noise", gamma=5.0, slip=""):
    """The ratio of signal and noise, at most gamma, over the ratio or the ratio plus 1."""
    snr = (alpha / sigma) ** 2
    base = np.minimum(snr, gamma)
    if kind == "velocity" and slip != "1 added":
        return base / (snr + 1)
    return base / snr + (kind == "velocity")


def policy_loss(log_p, old, advantage, clip=0.2, slip=""):
    """The surrogate of PPO, the mean over all tokens."""
    ratio = np.exp(log_p - old)
    clipped = np.clip(ratio, 1 - clip, 1 + clip)
    if slip == "clipped alone":
        return -(clipped * advantage).mean()
    return -np.minimum(ratio * advantage, clipped * advantage).mean()


def orthogonal(rng, shape, gain=1.0, slip=""):
    """Orthonormal rows or columns, by a decomposition of random numbers."""
    rows, columns = shape[0], math.prod(shape[1:])
    size = max(rows, columns), min(rows, columns)
    flat = rng.uniform(size=size) if slip == "uniform numbers" else rng.normal(size=size)
    q, r = np.linalg.qr(flat)
    if slip != "no signs":
        d = np.diagonal(r)
        q = q * (d / np.abs(d))
    return gain * (q.T if rows < columns else q).reshape(shape)


def he_uniform(rng, shape, slip=""):
    """Uniform weights for rectifiers."""
    fan_in = math.prod(shape[1:])
    bound = math.sqrt((3 if slip == "as LeCun" else 6) / fan_in)
    if slip == "deviation":
        bound = math.sqrt(2 / fan_in)
    return rng.uniform(-bound, bound, shape)


def glorot_uniform(rng, shape, gain=1.0, slip=""):
    """Uniform weights by both fans."""
    fan_in = math.prod(shape[1:])
    window = 1 if slip == "no window" else math.prod(shape[2:])
    bound = gain * math.sqrt(6 / (fan_in + shape[0] * window))
    return rng.uniform(-bound, bound, shape)


def rmsprop_step(params, grads, state, learning_rate, alpha=0.99, eps=1e-8, slip=""):
    """A step over the root of a running mean of squares."""
    step, s = (0, np.zeros_like(params)) if state is None else state[:2]
    new = grads * grads
    s = alpha * s + (new if slip == "no 1 - alpha" else (1 - alpha) * new)
    if slip == "first square" and state is None:
        s = new
    root = s**2 if slip == "square" else np.sqrt(s)
    return params - learning_rate * grads / (root + eps), (step + 1, s, None, None)


def kl_estimate(log_p, log_ref, slip=""):
    """Schulman's third estimate."""
    log_ratio = log_p - log_ref if slip == "inverse ratio" else log_ref - log_p
    return (np.exp(log_ratio) - 1 - log_ratio).mean()


def info_nce(similarity, positives, symmetric=False, slip=""):
    """Cross-entropy of each row, whose positives have equal shares."""
    mask = positives.astype(float)
    if slip == "self as a positive":
        mask = np.maximum(mask, np.eye(len(mask)))
    mask = mask / mask.sum(1, keepdims=True)
    return -(mask * np.log(softmax(similarity))).sum(1).mean()


def lora_linear(x, weight, a, b, scale=1.0, slip=""):
    """A dense layer and a correction of low rank, scaled by alpha over the root of the rank."""
    rank = len(a)
    alpha = scale * math.sqrt(rank)
    scaling = alpha / rank if slip == "no root" else alpha / math.sqrt(rank)
    return x @ weight.T + scaling * (x @ a.T @ b.T)


def momentum_step(params, grads, state, learning_rate, momentum=0.9, slip=""):
    """The velocity, which has the rate in it, is added."""
    move = -learning_rate * grads
    if state is None:
        step, v = 0, -grads if slip == "no rate at first" else move
    else:
        step, v = state.step, momentum * -learning_rate * state.velocity + move
    return params + v, (step + 1, v / -learning_rate)


def distillation_loss(logits, teacher, kind="jsd", beta=0.5, slip=""):
    """The divergences of both from their mixture."""
    student, teacher = softmax(logits), softmax(teacher)
    share = 1 - beta if slip == "mixture exchanged" else beta
    mixture = share * teacher + (1 - share) * student

    def divergence(p):
        return (p * np.log(p / mixture)).sum(-1)

    return (beta * divergence(teacher) + (1 - beta) * divergence(student)).mean()


def steps(start, *some):
    """Parameters, gradients and the state after some steps, or none."""

    def case(shape, number, **options):
        p, g = R.normal(size=(2, *shape))
        return (p, g, start(number, shape) if number else None), options

    return cases(*(case(shape, number, **options) for shape, number, options in some))


def adagrad_state(number, shape):
    return training.AdagradState(number, R.uniform(0.5, 2, shape))


def adam_state(number, shape):
    return training.AdamState(number, R.normal(size=shape), R.uniform(0.1, 2, shape), None)


def rmsprop_state(number, shape):
    return training.RMSpropState(number, R.uniform(0.1, 2, shape), None, None)


def momentum_state(number, shape):
    return training.MomentumState(number, R.normal(size=shape))


def layers(*widths, last=True):
    """Parameters of layers, the last one with or without a bias."""
    params = []
    for number, (n, m) in enumerate(itertools.pairwise(widths)):
        has_bias = last or number < len(widths) - 2
        bias = R.normal(size=m) if has_bias else None
        params.append(neurons.LinearParams(R.normal(size=(m, n)) / 2, bias))
    return tuple(params)


def networks(*some):
    return cases(*(((R.normal(size=(n, widths[0])), layers(*widths)), {"activation": "sigmoid"})
                   for n, *widths in some))  # fmt: skip


def regressions():
    def case(n, d, h):
        inputs = R.normal(size=(n, d)), R.normal(size=(n, 1)), layers(d, h, 1, last=False)
        return inputs, {"loss": "squared_error"}

    return cases(case(5, 3, 4), case(4, 2, 6), case(7, 5, 3))


def contexts():
    def case(n, d, h, k):
        return (R.normal(size=(n, d)), R.integers(0, k, n), layers(d, h, k)), {}

    return cases(case(5, 3, 4, 6), case(4, 6, 3, 5), case(7, 2, 5, 3))


def labeled():
    def case(n, d, k):
        weight, bias = R.normal(size=(k, d)), R.normal(size=k)
        inputs = R.normal(size=(n, d)), weight, R.integers(0, k, n), bias
        return inputs, {"reduction": "sum"}

    return cases(case(5, 2, 3), case(6, 4, 5), case(4, 3, 7))


def of_times():
    def case(kind, gamma, n):
        angle = R.uniform(0.1, 1.4, n)
        return (np.cos(angle), np.sin(angle)), {"kind": kind, "gamma": gamma}

    return cases(case("velocity", 5.0, 9), case("velocity", 2.0, 12), case("noise", 5.0, 7))


def of_tokens():
    def case(clip, *shape):
        log_p = -R.uniform(0.2, 3, shape)
        return (log_p, log_p + R.normal(size=shape) / 2, R.normal(size=shape)), {"clip": clip}

    return cases(case(0.2, 3, 5), case(0.1, 4, 6), case(0.3, 5, 7))


def of_shapes(*shapes, **options):
    return cases(*(((np.random.default_rng(5), shape), options) for shape in shapes))


MATRICES = (4, 6), (7, 3), (5, 9)
WINDOWS = (4, 5, 3), (6, 3, 2, 3), (3, 7, 4)


def of_policies():
    def case(*shape):
        log_p = -R.uniform(0.2, 3, shape)
        return (log_p, log_p + R.normal(size=shape)), {}

    return cases(case(9), case(3, 5), case(4, 6))


def of_labels(*some):
    """Items are no partners of themselves, and hardly in the denominator."""

    def case(*labels):
        n, labels = len(labels), np.array(labels)
        similarity = np.where(np.eye(n, dtype=bool), -18, 2 * R.normal(size=(n, n)))
        positives = (labels[:, None] == labels) & ~np.eye(n, dtype=bool)
        return (similarity,), {"positives": positives, "symmetric": False}

    return cases(*(case(*labels) for labels in some))


def adapters():
    def case(scale, n, d, k, r):
        inputs = R.normal(size=(n, d)), R.normal(size=(k, d)), R.normal(size=(r, d))
        return (*inputs, R.normal(size=(k, r))), {"scale": scale}

    return cases(case(1.0, 3, 6, 5, 2), case(2.0, 4, 7, 8, 3), case(0.5, 2, 8, 6, 4))


def teachers():
    def case(beta, n, k):
        return tuple(R.normal(size=(2, n, k))), {"kind": "jsd", "beta": beta}

    return cases(case(0.25, 3, 5), case(0.9, 4, 6), case(0.3, 2, 7))


RATE = {"learning_rate": 0.1}
ADAGRAD = training.adagrad_step
RMSPROP = training.rmsprop_step
UNSOUGHT = [
    Wrong("PaddlePaddle/Paddle#4743", ADAGRAD, "forward", adagrad_step, "decay beside the step",
        "The decay is no part of the gradient: it is taken beside the step.",
        (r"decoupl|AdamW|decay.*(params|theta|kept|1 - |learning_rate|gradient)|with_decay",),
        steps(adagrad_state, ((3, 4), 0, {**RATE, "weight_decay": 0.3}),
              ((6,), 2, {**RATE, "weight_decay": 0.2}),
              ((2, 5), 3, {"learning_rate": 0.5, "weight_decay": 0.1}))),
    Wrong("stanfordnlp/GloVe#134", ADAGRAD, "forward", adagrad_step, "rate squared",
        "The gradients that are squared and summed have the rate as a factor.",
        (r"learning_rate|\beta\b|\brate\b",),
        steps(adagrad_state, ((3, 4), 1, RATE), ((6,), 2, {"learning_rate": 0.5}),
              ((2, 5), 0, {"learning_rate": 0.3}))),
    Wrong("oracle/tribuo#401", training.adam_step, "forward", adam_step, "multiplied",
        "The mean is multiplied by the root of the second moment, not divided.",
        (r"multiplied|product|\* stands where /|m(_hat)? \* \(|\* \((np\.)?sqrt",),
        steps(adam_state, ((3, 4), 1, RATE), ((6,), 4, RATE), ((2, 5), 0, RATE))),
    Wrong("joelgrus/data-science-from-scratch#31", neurons.mlp, "vjp", mlp_backward,
        "updated weights", "A layer's error comes through weights that have been updated.",
        (r"updated|new weight|weight - |- d?weight|weight.*grad",),
        networks((4, 3, 5, 2), (5, 2, 4, 3), (3, 4, 2, 5, 6))),
    Wrong("kvfrans/notes#5", training.mlp_loss_grad, "forward", regression_grads,
        "mean of the bias", "The gradient of the bias is a mean over the rows, not a sum.",
        (r"mean|averag|divided",), regressions()),
    Wrong("rust0258/Deeplearning.ai-Natural-Language-Processing-Specialization#64",
        training.mlp_loss_grad, "forward", word_vector_grads, "sum of the weights",
        "The gradient of a bias is the sum of that of the weights.",
        (r"dweight|sum of (the )?(gradient of )?(the )?weight|\bh\b|\binputs?\b",), contexts()),
    Wrong("rasbt/stat453-deep-learning-ss21#5", losses.linear_cross_entropy, "vjp",
        softmax_regression_backward, "one sum",
        "One sum over rows and classes stands for the gradients of all biases.",
        (r"axis|\ball\b|whole|bias.*(zero|0|sum)|sum.*(bias|dlogits)",), labeled()),
    Wrong("huggingface/diffusers#8466", training.min_snr_weight, "forward", min_snr_weight,
        "1 added", "1 is added to the weight of the noise, not to the ratio below.",
        (r"\b1\b|parenthes|added|plus",), of_times()),
    Wrong("tensorforce/tensorforce#106", losses.policy_loss, "forward", policy_loss,
        "clipped alone", "The clipped ratio alone counts: there is no minimum.",
        (r"minimum|\bmin\b|clipped|bounded|\bfree\b|unclipped",), of_tokens()),
    Wrong("tensorflow/tensorflow#10719", propagation.orthogonal, "forward", orthogonal,
        "uniform numbers", "The matrix is made of uniform numbers from 0 to 1, not of normal ones.",
        (r"uniform|normal",), of_shapes(*MATRICES)),
    Wrong("tensorflow/tensorflow#9429", propagation.orthogonal, "forward", orthogonal, "no signs",
        "The signs of the triangular matrix are not divided out.",
        (r"sign|diag|\br\b",), of_shapes((4, 6), (7, 3), (4, 3, 2), gain=2.0)),
    Wrong("Justin-A/DeepLearning101#10", propagation.he_uniform, "forward", he_uniform, "as LeCun",
        "The bound is LeCun's, sqrt(3 / n_in).", (r"lecun|\b3\b|half|sqrt\(2|0\.5|factor",),
        of_shapes(*MATRICES)),
    Wrong("keras-team/keras#2252", propagation.glorot_uniform, "forward", glorot_uniform,
        "no window", "The outputs of an input do not count the window.",
        (r"window|n_out|fan|prod",), of_shapes(*WINDOWS)),
    Wrong("LaurentMazare/tch-rs#573", propagation.he_uniform, "forward", he_uniform, "deviation",
        "The bound is the standard deviation: it lacks sqrt(3).",
        (r"deviation|normal|\b2\b|\b3\b|\b6\b|factor|third",), of_shapes(*WINDOWS)),
    Wrong("hiromis/notes#52", RMSPROP, "forward", rmsprop_step, "square",
        "The divisor is the square of the mean square, not its root.",
        (r"squar|sqrt|\*\* ?2|root",),
        steps(rmsprop_state, ((3, 4), 1, RATE), ((6,), 2, RATE), ((2, 5), 3, RATE))),
    Wrong("fastai/fastbook#342", RMSPROP, "forward", rmsprop_step, "no 1 - alpha",
        "The new square lacks the factor 1 - alpha.", (r"1 - alpha|\balpha\b|share",),
        steps(rmsprop_state, ((3, 4), 1, RATE), ((6,), 2, {**RATE, "alpha": 0.9}),
              ((2, 5), 0, {**RATE, "alpha": 0.8}))),
    Wrong("zc911/MatrixSlow#28", RMSPROP, "forward", rmsprop_step, "first square",
        "The first square counts in full, without the factor 1 - alpha.",
        (r"first|state is None|start|begin|1 - alpha|by 1 less the option 'alpha'",),
        steps(rmsprop_state, ((3, 4), 0, RATE), ((6,), 0, {**RATE, "alpha": 0.9}),
              ((2, 5), 2, RATE))),
    Wrong("walkinglabs/hands-on-modern-rl#27", losses.kl_estimate, "forward", kl_estimate,
        "inverse ratio", "The ratio is inverse: log_p and log_ref are exchanged.",
        (r"exchang|log_p.*log_ref|log_ref.*log_p|rho|inverse|revers|sign",), of_policies()),
    Wrong("alinlab/CSI#49", losses.info_nce, "forward", info_nce, "self as a positive",
        "Each item counts as its own positive, too.",
        (r"positives|diagonal|\beye\b|itself|\bown\b|\bself\b",),
        of_labels((0, 0, 1, 1), (0, 1, 0, 1, 1), (2, 0, 2, 1, 0, 1, 2))),
    Wrong("NVIDIA/TensorRT-LLM#1668", neurons.lora_linear, "forward", lora_linear, "no root",
        "alpha is divided by the rank, not by its root: the scale is too small.",
        (r"scale|sqrt|root|\brank\b|\br\b|a\.shape",), adapters()),
    Wrong("zc911/MatrixSlow#17", training.momentum_step, "forward", momentum_step,
        "no rate at first", "The first velocity lacks the rate.",
        (r"learning_rate|\beta\b|\brate\b",),
        steps(momentum_state, ((3, 4), 0, RATE), ((6,), 0, {**RATE, "momentum": 0.8}),
              ((2, 5), 2, {"learning_rate": 0.3}))),
    Wrong("huggingface/trl#3043", losses.distillation_loss, "forward", distillation_loss,
        "mixture exchanged", "Student and teacher are exchanged in the mixture.",
        (r"\bbeta\b|mixture|log_m|middle|exchang",), teachers()),
]  # fmt: skip
