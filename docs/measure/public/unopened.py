"""Mistakes of public reports that were looked up after the set unwritten had been tried."""

import math

import numpy as np

from dlref import (
    activations,
    convolution,
    losses,
    neurons,
    positions,
    propagation,
    recurrent,
    training,
    transformer,
)

from .december import cosine_schedule, glorot_uniform
from .kernels import Wrong, cases, gradients, sigmoid
from .unread import interpolate, load_balancing_loss, of_router

R = np.random.default_rng(113)


def gru(x, h0, w_ih, w_hh, b_ih, b_hh, segment_ids, slip=""):
    """A GRU whose state begins anew with each segment."""
    n = w_hh.shape[1]
    h, out = h0, []
    for t in range(x.shape[-2]):
        if t and segment_ids[t] != segment_ids[t - 1]:
            old, h = h, np.zeros_like(h)
        else:
            old = h
        a, b = x[..., t, :] @ w_ih.T + b_ih, h @ w_hh.T + b_hh
        r, z = sigmoid(a[..., :n] + b[..., :n]), sigmoid(a[..., n : 2 * n] + b[..., n : 2 * n])
        g = np.tanh(a[..., 2 * n :] + r * b[..., 2 * n :])
        h = (1 - z) * g + z * (old if slip == "old state" else h)
        out.append(h)
    return np.stack(out, -2)


def gaussian_kl(mean, log_var, slip=""):
    """The divergence from the standard Gaussian."""
    var = np.exp(log_var / 2) if slip == "deviation" else np.exp(log_var)
    terms = (mean**2 + var - log_var - 1) / 2
    if slip == "whole logarithm":
        terms = (mean**2 + var - 1) / 2 - log_var
    return terms.sum(-1).mean()


def sigmoid_focal_loss(logits, target, alpha=0.25, gamma=2.0, slip=""):
    """Binary cross-entropy in which hard elements count more."""
    p = sigmoid(logits)
    p_t = np.where(target == 1, p, 1 - p)
    weight = np.where(target == 1, alpha, 1 if slip == "negatives by 1" else 1 - alpha)
    return -(weight * (1 - p_t) ** gamma * np.log(p_t)).mean()


def adamw_step(
    params, grads, state, learning_rate, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, slip=""
):
    """A step of Adam, with a decay of its own."""
    b1, b2 = betas
    t = state.step + 1
    m, v = b1 * state.mean + (1 - b1) * grads, b2 * state.square + (1 - b2) * grads * grads
    k = 1 if slip == "no power" else t
    m_hat, v_hat = m / (1 - b1**k), v / (1 - b2**k)
    kept = params * (1 - learning_rate * weight_decay)
    return kept - learning_rate * m_hat / (np.sqrt(v_hat) + eps), (t, m, v, None)


def conv_transpose(x, weight, stride=1, padding=0, output_padding=0, slip=""):
    """Each input adds its kernel to the output."""
    B, _, T = x.shape
    K = weight.shape[-1]
    length = (T - 1) * stride + K
    y = np.zeros((B, weight.shape[1], length + output_padding))
    for t in range(T):
        y[..., t * stride : t * stride + K] += np.einsum("bi,iok->bok", x[..., t], weight)
    y = y[..., padding : y.shape[-1] - padding]
    if slip == "zeros" and output_padding:
        y[..., -output_padding:] = 0
    return y


def dpo_loss(log_p, log_ref, beta=0.1, slip=""):
    """The logistic loss of preferences."""
    gain = beta * (log_p - log_ref)
    margin = gain[0] - gain[1]
    return np.logaddexp(0, -(beta * margin if slip == "beta twice" else margin)).mean()


def rope_attention_factor(scaling, slip=""):
    """The factor of YaRN, which a configuration may give."""
    s, given = scaling["factor"], scaling.get("attention_factor")
    log = 0.1 * math.log(s)
    if given is None:
        return log + 1
    return {"in the logarithm": log * given + 1, "twice": (log + 1) * given}.get(slip, given)


def rope_frequencies(dim, base=10000.0, scaling=None, slip=""):
    """YaRN: fast pairs as they are, slow ones slower, with a ramp between."""
    s, L = scaling["factor"], scaling["original_max_position_embeddings"]
    pairs = np.arange(0, dim, 2) / dim
    slow = base**-pairs / s
    other = base * s ** (dim / (dim - 2)) if slip == "base of NTK" else base
    fast = other**-pairs

    def index(turns):
        return dim / 2 * math.log(L / (2 * math.pi * turns)) / math.log(base)

    low, high = max(math.floor(index(32)), 0), min(math.ceil(index(1)), dim - 1)
    ramp = np.clip((np.arange(dim // 2) - low) / max(high - low, 0.001), 0, 1)
    return fast * (1 - ramp) + slow * ramp


def huber(pred, target, delta=1.0, slip=""):
    """A square near zero, a line beyond."""
    d = pred - target
    near = d <= delta if slip == "no absolute value" else np.abs(d) <= delta
    return np.where(near, d * d / 2, delta * (np.abs(d) - delta / 2)).mean()


def triplet_margin_loss(anchor, positive, negative, margin=1.0, eps=1e-6, slip=""):
    """How much a positive is nearer than a negative, short of a margin."""

    def distance(x, y):
        square = ((x - y + eps) ** 2).sum(-1)
        return square if slip == "squared" else np.sqrt(square)

    return np.maximum(distance(anchor, positive) - distance(anchor, negative) + margin, 0).mean()


def rnn_backward(dout, x, h0, w_ih, w_hh, b_ih, b_hh, slip=""):
    """Backpropagation through time."""
    states = [h0]
    for t in range(x.shape[1]):
        states.append(np.tanh(x[:, t] @ w_ih.T + states[-1] @ w_hh.T + b_ih + b_hh))
    dx, dw_ih, dw_hh, db = np.empty_like(x), 0, 0, 0
    dh = np.zeros_like(h0)
    for t in reversed(range(x.shape[1])):
        dz = (dout[:, t] + dh) * (1 - states[t + 1] ** 2)
        before = states[2] if slip == "its own state" and t == 1 else states[t]
        dw_ih, dw_hh, db = dw_ih + dz.T @ x[:, t], dw_hh + dz.T @ before, db + dz.sum(0)
        dx[:, t], dh = dz @ w_ih, dz @ w_hh
    return gradients(dx, dh, dw_ih, dw_hh, db, db)


def swiglu(x, gate, slip=""):
    """The gate's SiLU times the value."""
    silu = gate * sigmoid(gate)
    return silu if slip == "SiLU alone" else silu * x


def gated_feed_forward(x, params, slip=""):
    """A gated network with SiLU."""
    p = params
    a, b = x @ p.w_gate.T + p.b_gate, x @ p.w_up.T
    if slip != "no bias":
        b = b + p.b_up
    return (a * sigmoid(a) * b) @ p.w_down.T + p.b_down


def hinge_backward(dout, pred, target, squared=False, slip=""):
    """The gradient of the prediction."""
    short = np.maximum(1 - target * pred, 0)
    factor = 1 if slip == "no factor 2" else 2
    slope = factor * short if squared else (short > 0)
    return -dout * target * slope / pred.size


def neuron_backward(dout, x, w, b, activation="sigmoid", slip=""):
    """The gradients of a neuron with a sigmoid."""
    z = x @ w + b
    y = sigmoid(z)
    delta = dout if slip == "no slope" else dout * y * (1 - y)
    return gradients(delta[..., None] * w, np.tensordot(delta, x, delta.ndim), delta.sum())


def apply_rope_axial(x, cos, sin, interleaved=False, slip=""):
    """Each block of channels is rotated by the angles of its own coordinate."""
    axes, half = cos.shape[-2:]
    out = np.empty_like(x)
    for a in range(axes):
        use = 0 if slip == "first angles" else a
        c, s = cos[..., use, :], sin[..., use, :]
        block = x[..., 2 * half * a : 2 * half * (a + 1)]
        first, second = block[..., :half], block[..., half:]
        out[..., 2 * half * a : 2 * half * (a + 1)] = np.concatenate(
            [first * c - second * s, first * s + second * c], -1
        )
    return out


def lstm_cell(x, h, c, w_ih, w_hh, b_ih, b_hh, w_p, slip=""):
    """A step of an LSTM with peepholes."""
    i, f, g, o = np.split(x @ w_ih.T + h @ w_hh.T + b_ih + b_hh, 4, -1)
    p_i, p_f, p_o = np.split(w_p.ravel(), 3)
    c_new = sigmoid(f + p_f * c) * c + sigmoid(i + p_i * c) * np.tanh(g)
    out = sigmoid(o) + p_o * c_new if slip == "after the sigmoid" else sigmoid(o + p_o * c_new)
    return out * np.tanh(c_new), c_new


def of_segments():
    def case(B, D, H, ids):
        weights = (R.normal(size=(3 * H, n)) / 2 for n in (D, H))
        inputs = R.normal(size=(B, len(ids), D)), R.normal(size=(B, H)), *weights
        return (*inputs, *R.normal(size=(2, 3 * H))), {"segment_ids": np.array(ids)}

    return cases(
        case(2, 3, 5, [0, 0, 1, 1, 1]), case(3, 4, 2, [0, 1, 1, 2]), case(4, 2, 3, [5, 5, 5, 6])
    )


def of_gaussians():
    return cases(*(((*R.normal(size=(2, *shape)),), {}) for shape in ((3, 4), (5, 2), (6, 7))))


def of_targets():
    def case(alpha, gamma, *shape):
        inputs = R.normal(size=shape), R.integers(0, 2, shape).astype(float)
        return inputs, {"alpha": alpha, "gamma": gamma}

    return cases(case(0.25, 2.0, 9), case(0.6, 1.0, 3, 4), case(0.4, 3.0, 2, 7))


def later_steps():
    def case(step, rate, *shape):
        p, g, m = R.normal(size=(3, *shape))
        state = training.AdamState(step, m, R.uniform(0.1, 2, shape), None)
        return (p, g, state), {"learning_rate": rate}

    return cases(case(1, 0.1, 3, 4), case(4, 0.2, 6), case(9, 0.05, 2, 5))


def of_steps():
    def case(steps, warmup, peak, floor):
        step = np.arange(0.0, steps + 1, 3)
        return (step,), {"steps": steps, "warmup": warmup, "peak": peak, "floor": floor}

    return cases(case(30, 6, 1.0, 0.1), case(40, 0, 0.3, 0.05), case(60, 12, 2.0, 0.5))


def of_shapes():
    def case(gain, *shape):
        return (np.random.default_rng(3), shape), {"gain": gain}

    return cases(case(1.0, 4, 6), case(2.0, 5, 3), case(1.0, 3, 2, 3))


def to_sizes(*some):
    return cases(*(((R.normal(size=(2, n)),), {"size": (m,)}) for n, m in some))


def of_strides():
    def case(T, i, o, K, **options):
        return (R.normal(size=(2, i, T)), R.normal(size=(i, o, K))), options

    return cases(
        case(5, 3, 2, 3, stride=2, padding=1, output_padding=1),
        case(4, 2, 3, 4, stride=3, padding=1, output_padding=2),
        case(6, 1, 2, 3, stride=2, output_padding=1),
    )


def pairs():
    return cases(*(((-R.uniform(5, 30, (2, n)), -R.uniform(5, 30, (2, n))), {"beta": beta})
                   for n, beta in ((4, 0.1), (5, 0.3), (3, 0.5))))  # fmt: skip


def configurations(*some):
    return cases(*((({"rope_type": "yarn", **given},), {}) for given in some))


def of_scalings():
    def case(dim, factor, length):
        given = {"factor": factor, "original_max_position_embeddings": length}
        return (dim,), {"scaling": {"rope_type": "yarn", **given}}

    return cases(case(16, 4.0, 2048), case(32, 8.0, 4096), case(24, 2.0, 512))


def of_differences():
    return cases(*(((3 * R.normal(size=n), 3 * R.normal(size=n)), {"delta": d})
                   for n, d in ((9, 1.0), (12, 0.5), (7, 2.0))))  # fmt: skip


def triplets():
    return cases(*(((*R.normal(size=(3, n, d)),), {"margin": m})
                   for n, d, m in ((4, 3, 1.0), (5, 6, 2.0), (3, 4, 0.5))))  # fmt: skip


def of_rnn():
    def case(B, T, D, H):
        inputs = R.normal(size=(B, T, D)), R.normal(size=(B, H))
        weights = R.normal(size=(H, D)) / 2, R.normal(size=(H, H)) / 2
        return (*inputs, *weights, *R.normal(size=(2, H))), {}

    return cases(case(2, 3, 4, 5), case(3, 4, 2, 3), case(1, 5, 3, 4))


def gates(*shapes):
    return cases(*(((*R.normal(size=(2, *s)),), {}) for s in shapes))


def networks():
    def case(n, d, k):
        def matrix(*shape):
            return R.normal(size=shape) / 2

        weights = matrix(k, d), matrix(k, d), matrix(d, k), matrix(k), matrix(k), matrix(d)
        return (R.normal(size=(n, d)), transformer.GatedFeedForwardParams(*weights)), {}

    return cases(case(3, 4, 5), case(2, 3, 6), case(5, 2, 3))


def margins():
    def case(squared, *shape):
        return (R.normal(size=shape), R.choice([-1.0, 1.0], shape)), {"squared": squared}

    return cases(case(True, 9), case(True, 3, 4), case(False, 7))


def of_neurons():
    def case(n, d):
        inputs = R.normal(size=(n, d)), R.normal(size=d), np.array(0.3)
        return inputs, {"activation": "sigmoid"}

    return cases(case(4, 3), case(6, 2), case(3, 5))


def grids():
    def case(T, axes, half):
        angles = R.uniform(-3, 3, (T, axes, half))
        inputs = R.normal(size=(2, T, 2 * axes * half)), np.cos(angles), np.sin(angles)
        return inputs, {"interleaved": False}

    return cases(case(4, 2, 3), case(5, 3, 2), case(3, 2, 4))


def peepholes():
    def case(B, D, H):
        inputs = R.normal(size=(B, D)), *R.normal(size=(2, B, H))
        weights = R.normal(size=(4 * H, D)) / 2, R.normal(size=(4 * H, H)) / 2
        options = {"w_p": R.normal(size=3 * H)}
        return (*inputs, *weights, *R.normal(size=(2, 4 * H))), options

    return cases(case(2, 3, 4), case(3, 2, 5), case(4, 5, 2))


YARN = tuple(
    {"factor": factor, "attention_factor": given, "original_max_position_embeddings": 4096}
    for factor, given in ((4.0, 1.3), (64.0, 1.5))
)
UNOPENED = [
    Wrong("mquad/hgru4rec#11", recurrent.gru, "forward", gru, "old state",
        "Where a segment begins, the last blend takes the state of the segment before.",
        (r"segment|begin|first|reset|h_prev|state|previous",), of_segments()),
    Wrong("pytorch/examples#225", losses.gaussian_kl, "forward", gaussian_kl, "deviation",
        "The last term is the standard deviation, not the variance.",
        (r"log_?var.*/ ?2|exp.*0\.5|deviation|sqrt|halved?|half",), of_gaussians()),
    Wrong("KarenUllrich/Tutorial_BayesianCompressionForDL#8", losses.gaussian_kl, "forward",
        gaussian_kl, "whole logarithm", "The logarithm of the variance lacks the factor 1/2.",
        (r"log_?var.*2|2.*log_?var|factor|half|/ 2",), of_gaussians()),
    Wrong("mathiaszinnen/focal_loss_torch#2", losses.sigmoid_focal_loss, "forward",
        sigmoid_focal_loss, "negatives by 1", "Negatives have the weight 1, not 1 - alpha.",
        (r"alpha",), of_targets()),
    Wrong("ZhangZhiPku/cutile-examples#4", training.adamw_step, "forward", adamw_step, "no power",
        "The corrections are 1 - beta, without the number of steps.",
        (r"\*\* ?(t|step)|power|correct|\bt\b|step",), later_steps()),
    Wrong("paiml/aprender#2162", transformer.load_balancing_loss, "forward", load_balancing_loss,
        "selected alone", "The mean probabilities count selected experts alone.",
        (r"select|chosen|mean|experts",),
        of_router((6, 5, 2, "tokens"), (7, 4, 3, "tokens"), (9, 6, 2, "tokens"))),
    Wrong("EleutherAI/gpt-neox#1008", training.cosine_schedule, "forward", cosine_schedule,
        "floor by maximum", "The wave falls to zero and is cut off at the floor.",
        (r"floor|max",), of_steps()),
    Wrong("denizyuret/Knet.jl#311", propagation.glorot_uniform, "forward", glorot_uniform,
        "deviation", "The bound is sqrt(2 / fans), the standard deviation.",
        (r"\b2\b|\b6\b|factor|sqrt|normal|deviation",), of_shapes()),
    Wrong("pytorch/pytorch#61166", convolution.interpolate, "forward", interpolate, "one pixel",
        "An output of one pixel is the first pixel, not the middle.",
        (r"one|single|size.*1|middle|first|align|scale",), to_sizes((4, 1), (6, 1), (5, 3))),
    Wrong("mila-iqia/myia#338", convolution.conv_transpose, "forward", conv_transpose, "zeros",
        "The output padding is filled with zeros.",
        (r"output_padding|zero|last|tail|not written",), of_strides()),
    Wrong("AI-Hypercomputer/maxtext#1530", losses.dpo_loss, "forward", dpo_loss, "beta twice",
        "beta is a factor twice.", (r"beta",), pairs()),
    Wrong("NVIDIA/TensorRT-LLM#16379", positions.rope_attention_factor, "forward",
        rope_attention_factor, "in the logarithm",
        "The factor of the configuration is a factor of the logarithm.",
        (r"attention_factor|mscale|log",), configurations(*YARN)),
    Wrong("sgl-project/sglang#33558", positions.rope_attention_factor, "forward",
        rope_attention_factor, "twice",
        "The factor of the configuration multiplies the computed one.",
        (r"attention_factor|mscale|log",), configurations(*YARN)),
    Wrong("paiml/aprender#2161", positions.rope_frequencies, "forward", rope_frequencies,
        "base of NTK", "Fast pairs have the base that NTK scaling changes.",
        (r"base|ntk",), of_scalings()),
    Wrong("ml-explore/mlx#1986", losses.huber, "forward", huber, "no absolute value",
        "The difference, not its absolute value, is compared.",
        (r"abs|<|delta|compar|where",), of_differences()),
    Wrong("VisualComputingInstitute/triplet-reid#12", losses.triplet_margin_loss, "forward",
        triplet_margin_loss, "squared", "The distances are squared.",
        (r"squar|sqrt|\*\* ?2|root|norm",), triplets()),
    Wrong("VikParuchuri/zero_to_gpt#9", recurrent.rnn, "vjp", rnn_backward, "its own state",
        "The second step's weights get the state after it, not before.",
        (r"w_hh|h_t|h\[|state|t ?[-+] ?1|before|after",), of_rnn()),
    Wrong("google-research/timesfm#493", activations.swiglu, "forward", swiglu, "SiLU alone",
        "The value is left out: it is SiLU.", (r"silu|x is|left out|without|instead of|gate",),
        gates((3, 4), (2, 5), (7,))),
    Wrong("bclarkson-code/Tricycle#19", transformer.gated_feed_forward, "forward",
        gated_feed_forward, "no bias", "The value has no bias.",
        (r"bias|b_up",), networks()),
    Wrong("stdlib-js/stdlib#13111", losses.hinge, "vjp", hinge_backward, "no factor 2",
        "The slope of the square lacks the factor 2.",
        (r"factor|\b2\b|twice|half|0\.5",), margins()),
    Wrong("Bot-Academy/NeuralNetworkFromScratch#3", neurons.neuron, "vjp", neuron_backward,
        "no slope", "The slope of the sigmoid is left out.",
        (r"slope|derivative|deriv|activation|sigmoid|left out|f'",), of_neurons()),
    Wrong("Tencent/ncnn#6833", positions.apply_rope_axial, "forward", apply_rope_axial,
        "first angles", "All blocks are rotated by the angles of the first coordinate.",
        (r"cos|sin|coordinate|axis|axes|first|angle|block",), grids()),
    Wrong("Lasagne/Lasagne#448", recurrent.lstm_cell, "forward", lstm_cell, "after the sigmoid",
        "The peephole of the output gate is added after the sigmoid.",
        (r"peephole|p_o|w_p|after|sigmoid",), peepholes()),
]  # fmt: skip
