"""Mistakes of public reports that were looked up after the set unsought: sequences."""

import math

import numpy as np

from dlref import attention as att
from dlref import losses, positions, transformer

from .kernels import Wrong, cases
from .losses import log_softmax
from .unsought_sequences import attend, layer_norm

R = np.random.default_rng(157)


def ctc_loss(log_probs, targets, blank=0, slip=""):
    """Probabilities of places go from step to step by a matrix of allowed moves."""
    T, letters = log_probs.shape[-2], targets.shape[-1]
    found = []
    for x, text in zip(log_probs, targets, strict=True):
        row = np.full(2 * letters + 1, 0 if slip == "blank is 0" else blank)
        row[1::2] = text
        moves = np.eye(len(row)) + np.eye(len(row), k=1)
        for place in range(2, len(row)):
            moves[place - 2, place] = row[place] not in (blank, row[place - 2])
        p = np.exp(x[:, row])
        alpha = np.where(np.arange(len(row)) < 2, p[0], 0)
        for t in range(1, T):
            alpha = alpha @ moves * p[t]
        found.append(-np.log(alpha[-1] + alpha[-2]))
    return np.mean(found) / letters


def kl_estimate(log_p, log_ref, slip=""):
    """The third estimate: a ratio less 1, less its logarithm."""
    log_ratio = log_ref - log_p
    ratio = np.exp(log_ratio)
    if slip == "square":
        return (log_ratio**2).mean()
    if slip == "exponential of the ratio":
        return (np.exp(ratio) - 1 - ratio).mean()
    return (ratio - 1 - log_ratio).mean()


def chunk_of_delta_rule(q, k, v, decay, beta, S, slip):
    """A chunk at once: solve for the writes, then read."""
    g, b = np.exp(np.cumsum(decay, -2)), beta[..., None]
    kept = np.tril(g / np.swapaxes(g, -1, -2))
    one = np.eye(kept.shape[-1])
    gram = np.tril(b * (k @ np.swapaxes(k, -1, -2)), -1)
    of_values, of_keys = one + kept * gram, one + gram
    if slip == "decay for both":
        of_keys = of_values
    w, u = np.linalg.solve(of_keys, b * k), np.linalg.solve(of_values, b * v)
    u = u - g * (w @ S)
    out = g * (q @ S) + (kept * (q @ np.swapaxes(k, -1, -2))) @ u
    last = g[..., -1:, :]
    return out, last * S + np.swapaxes(last / g * k, -1, -2) @ u


def gated_delta_rule(q, k, v, decay, beta, state, chunk=None, slip=""):
    """The gated delta rule, a chunk after another."""
    outs = []
    for first in range(0, q.shape[-2], chunk):
        rows = slice(first, first + chunk)
        parts = (x[..., rows, :] for x in (q, k, v, decay))
        out, state = chunk_of_delta_rule(*parts, beta[..., rows], state, slip)
        outs.append(out)
    return np.concatenate(outs, -2), state


def rwkv7(r, k, v, decay, erase, slip=""):
    """A state whose channels fade, from which one key's answer is removed."""
    S, out = np.zeros((*r.shape[:-2], r.shape[-1], v.shape[-1])), []
    removal, replacement = erase
    for t in range(r.shape[-2]):
        a, b = removal[..., t, :], replacement[..., t, :]
        removed = b[..., :, None] * np.einsum("...kv,...k->...v", S, a)[..., None, :]
        S = np.exp(decay[..., t, :, None]) * S + k[..., t, :, None] * v[..., t, None, :]
        if slip != "no removal":
            S = S + removed
        out.append(np.einsum("...kv,...k->...v", S, r[..., t, :]))
    return np.stack(out, -2), S


def generalized_jsd_loss(logits, teacher, temperature=1.0, kind="jsd", beta=0.5, slip=""):
    """The divergences of student and teacher from their mixture."""
    assert kind == "jsd", kind
    if slip == "no temperature":
        temperature = 1.0
    student, teacher = log_softmax(logits / temperature), log_softmax(teacher / temperature)
    mixture = np.logaddexp(student + np.log1p(-beta), teacher + np.log(beta))
    of_teacher = (np.exp(teacher) * (teacher - mixture)).sum(-1)
    of_student = (np.exp(student) * (student - mixture)).sum(-1)
    return temperature**2 * (beta * of_teacher + (1 - beta) * of_student).mean()


def su_rope(theta, scaling, seq_len, slip):
    """Frequencies are divided by a list of factors, which long texts have of their own."""
    short, long = (np.array(scaling[name]) for name in ("short_factor", "long_factor"))
    if slip == "long factors" or seq_len > scaling["original_max_position_embeddings"]:
        return theta / long
    return theta / short


def llama3_rope(theta, scaling, slip):
    """Long waves become longer by a factor, short ones stay."""
    factor = 8 if slip == "factor 8" else scaling["factor"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    old, wave = scaling["original_max_position_embeddings"], 2 * math.pi / theta
    smooth = (old / wave - low) / (high - low)
    scaled = np.where(wave > old / low, theta / factor, theta)
    middle = (wave >= old / high) & (wave <= old / low)
    return np.where(middle, (1 - smooth) * theta / factor + smooth * theta, scaled)


def rope_frequencies(dim, base=10000.0, scaling=None, seq_len=0, slip=""):
    """Frequencies of pairs, scaled for long texts."""
    theta = 1 / base ** (np.arange(0, dim, 2) / dim)
    if scaling["rope_type"] == "longrope":
        return su_rope(theta, scaling, seq_len, slip)
    return llama3_rope(theta, scaling, slip)


def feed_forward(x, p):
    return np.maximum(x @ p.w1.T + p.b1, 0) @ p.w2.T + p.b2


def encoder_block(x, params, num_heads, slip=""):
    """Attention and a network; each output and its input are added and normalized."""
    out = layer_norm(x + attend(x, x, params.attention, num_heads), params.norm1)
    kept = x if slip == "input of the block" else out
    return layer_norm(kept + feed_forward(out, params.feed_forward), params.norm2)


def decoder_block(x, memory, params, num_heads, norm_first=False, slip=""):
    """Masked attention, attention to the encoder, and a network."""
    p, mask = params, np.tri(len(x), dtype=bool)
    if norm_first:
        z = layer_norm(x, p.norm1)
        x = z if slip == "normalized" else x
        x = x + attend(z, z, p.self_attention, num_heads, mask)
        z = layer_norm(x, p.norm2)
        x = {"normalized": z, "memory": memory}.get(slip, x)
        x = x + attend(z, memory, p.cross_attention, num_heads)
        return x + feed_forward(layer_norm(x, p.norm3), p.feed_forward)
    y = attend(x, x, p.self_attention, num_heads, mask)
    x = layer_norm(x + y, p.norm1)
    y = attend(y if slip == "raw query" else x, memory, p.cross_attention, num_heads)
    x = layer_norm(x + y, p.norm1 if slip == "first norm" else p.norm2)
    return layer_norm(x + feed_forward(x, p.feed_forward), p.norm3)


def with_last_blank():
    def case(B, T, C, letters):
        log_probs = log_softmax(R.normal(size=(B, T, C)))
        return (log_probs, R.integers(0, C - 1, (B, letters))), {"blank": C - 1}

    return cases(case(3, 8, 5, 2), case(2, 9, 6, 4), case(4, 11, 7, 3))


def of_tokens():
    return cases(*(((-np.abs(R.normal(size=s)), -np.abs(R.normal(size=s))), {})
                   for s in ((7,), (3, 5), (4, 6))))  # fmt: skip


def in_chunks():
    def case(lead, T, E, V, chunk):
        q, k = R.normal(size=(2, *lead, T, E)) / math.sqrt(E)
        v, decay = R.normal(size=(*lead, T, V)), -R.uniform(0.1, 1, (*lead, T, 1))
        rest = R.uniform(0.2, 1, (*lead, T)), R.normal(size=(*lead, E, V))
        return (q, k, v, decay, *rest), {"chunk": chunk}

    return cases(case((), 7, 3, 5, 4), case((2,), 6, 4, 5, 3), case((2, 3), 9, 5, 4, 6))


def with_removal():
    def case(B, T, E, V):
        r, k, key = R.normal(size=(3, B, T, E))
        v, decay = R.normal(size=(B, T, V)), -R.uniform(0.1, 0.6, (B, T, E))
        key /= np.sqrt((key**2).sum(-1, keepdims=True))
        return (r, k, v, decay), {"erase": (-key, R.uniform(0.1, 0.9, (B, T, E)) * key)}

    return cases(case(2, 5, 3, 4), case(3, 6, 4, 2), case(1, 7, 5, 3))


def with_temperature():
    def case(temperature, beta, *shape):
        options = {"temperature": temperature, "kind": "jsd", "beta": beta}
        return tuple(2 * R.normal(size=(2, *shape))), options

    return cases(case(2.0, 0.5, 4, 7), case(0.7, 0.3, 5, 3), case(3.0, 0.8, 2, 3, 6))


def of_two_lists():
    def case(dim, length, seq_len):
        short, long = R.uniform(1, 1.5, dim // 2), R.uniform(2, 9, dim // 2)
        scaling = {"rope_type": "longrope", "short_factor": list(short), "long_factor": list(long)}
        scaling["original_max_position_embeddings"] = length
        return (dim,), {"scaling": scaling, "seq_len": seq_len}

    return cases(case(8, 64, 40), case(12, 100, 100), case(6, 32, 50))


def of_llama(*some):
    names = "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"
    return cases(*(((dim,), {"base": base, "scaling": {
        "rope_type": "llama3", **dict(zip(names, numbers, strict=True))}})
        for dim, base, *numbers in some))  # fmt: skip


def block_parts(D, F):
    """Parameters of attentions, norms and networks."""

    def attention():
        return att.AttentionParams(*R.normal(size=(4, D, D)) / 2)

    def norm():
        return transformer.NormParams(*R.normal(size=(2, D)))

    network = transformer.FeedForwardParams(
        R.normal(size=(F, D)) / 2, R.normal(size=F), R.normal(size=(D, F)) / 2, R.normal(size=D)
    )
    return attention, norm, network


def of_encoders():
    def case(T, D, H, F):
        attention, norm, network = block_parts(D, F)
        params = transformer.EncoderBlockParams(attention(), norm(), network, norm())
        return (2 * R.normal(size=(T, D)), params), {"num_heads": H}

    return cases(case(5, 4, 2, 7), case(3, 6, 2, 5), case(4, 9, 3, 8))


def of_decoders(norm_first, same_length):
    def case(T, S, D, H, F):
        attention, norm, network = block_parts(D, F)
        params = transformer.DecoderBlockParams(
            attention(), norm(), attention(), norm(), network, norm()
        )
        memory = R.normal(size=(T if same_length else S, D))
        return (2 * R.normal(size=(T, D)), memory, params), {
            "num_heads": H, "norm_first": norm_first}  # fmt: skip

    return cases(case(5, 3, 4, 2, 7), case(3, 5, 6, 2, 8), case(4, 7, 9, 3, 5))


DELTA, ROPE, KL, DECODER = (
    att.recurrent_linear_attention, positions.rope_frequencies, losses.kl_estimate,
    transformer.decoder_block,
)  # fmt: skip
UNASKED = [
    Wrong("liuhu-bigeye/enctc.crnn#9", losses.ctc_loss, "forward", ctc_loss, "blank is 0",
        "The class 0 stands between the letters, whatever blank is.",
        (r"'blank'|blank is|\b0\b.*blank|blank.*\b0\b",), with_last_blank()),
    Wrong("one-covenant/grail#42", KL, "forward", kl_estimate, "square",
        "The square of the log-ratio stands for the estimate.",
        (r"\*\* ?2|squar|k2",), of_tokens()),
    Wrong("NeuraLegion/shainet#170", DELTA, "forward", gated_delta_rule, "decay for both",
        "Within a chunk, keys that read the old state are solved for with the decay, too.",
        (r"chunk|decay.*(twice|error|correct|read)|fad.*(twice|error)",), in_chunks()),
    Wrong("ooples/AiDotNet.Tensors#895", DELTA, "forward", rwkv7, "no removal",
        "Nothing is erased: the state fades, and is added to.", (r"erase",), with_removal()),
    Wrong("huggingface/trl#6526", losses.distillation_loss, "forward", generalized_jsd_loss,
        "no temperature", "The temperature is ignored.", (r"temperature",), with_temperature()),
    Wrong("ml-explore/mlx-lm#660", ROPE, "forward", rope_frequencies, "long factors",
        "The factors of long texts are used, whatever the length.",
        (r"long_factor|short_factor|seq_len|is_long",), of_two_lists()),
    Wrong("swiss-ai/Megatron-LM#80", ROPE, "forward", rope_frequencies, "factor 8",
        "The factor is 8, whatever is given.", (r"\bfactor\b|\bs is\b|\b8 stands",),
        of_llama((16, 10000.0, 32.0, 1.0, 4.0, 512), (24, 5e5, 2.0, 1.0, 4.0, 8192),
                 (10, 1e4, 4.0, 1.0, 3.0, 1024))),
    Wrong("Rolv-Arild/rocket-learn#12", KL, "forward", kl_estimate, "exponential of the ratio",
        "The ratio stands for its logarithm: exp(ratio) - 1 - ratio.",
        (r"stands where rho|rho is|exp\(log_ref - log_p\) stands|exp.*twice|no logarithm",),
        of_tokens()),
    Wrong("ml-explore/mlx#3382", DECODER, "forward", decoder_block, "raw query",
        "Queries of the cross-attention are the output of the self-attention alone.",
        (r"look_up\(|\bquer(y|ies)\b|attend\(|cross.?attention (of|from|reads|looks)",),
        of_decoders(norm_first=False, same_length=False)),
    Wrong("georgepar/slp#26", DECODER, "forward", decoder_block, "memory",
        "The cross-attention's output is added to the memory.",
        (r"memory (\+|stands|is added)|\+ memory|residual|y \+",),
        of_decoders(norm_first=True, same_length=True)),
    Wrong("strutive07/transformer-tensorflow2.0#14", transformer.encoder_block, "forward",
        encoder_block, "input of the block", "The network's output is added to the block's input.",
        (r"\bx (\+|stands|is added)|input of the block|residual|where y is due",), of_encoders()),
    Wrong("datawhalechina/happy-llm#21", DECODER, "forward", decoder_block, "normalized",
        "The outputs of both attentions are added to their normalized inputs.",
        (r"residual|normalized|\bx \+|\by \+|norm\(x\)",),
        of_decoders(norm_first=True, same_length=False)),
    Wrong("ml-explore/mlx#1636", DECODER, "forward", decoder_block, "first norm",
        "After the cross-attention, the first norm is used again, not the second.",
        (r"norm1|norm2",), of_decoders(norm_first=False, same_length=False)),
]  # fmt: skip
