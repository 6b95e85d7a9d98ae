"""Mistakes of public reports that were looked up after the set unopened: sequences."""

import math

import numpy as np

from dlref import attention as att
from dlref import positions, recurrent, transformer

from .kernels import Wrong, cases, sigmoid, softmax

R = np.random.default_rng(131)


def t5_bias(table, T, S, bidirectional=True, q_offset=0, max_distance=128, slip=""):
    """Distances in buckets, which have a learned number for each head."""
    first = 0 if slip == "queries from 0" else q_offset
    n = (first + np.arange(T))[:, None] - np.arange(S)
    buckets, bucket = len(table), 0
    if bidirectional:
        buckets //= 2
        bucket, n = buckets * (n < 0), np.abs(n)
    else:
        n = np.maximum(n, 0)
    exact = buckets // 2
    steps = np.log(np.maximum(n, 1) / exact) / math.log(max_distance / exact) * (buckets - exact)
    far = np.minimum(exact + steps.astype(int), buckets - 1)
    return table[bucket + np.where(n < exact, n, far)].transpose(2, 0, 1)


def transformer_xl_scores(q, k, r, u, v, slip=""):
    """Rows of products with offsets are shifted by a column of zeros and a view."""
    S = k.shape[-2]
    products = (q + v) @ np.swapaxes(r, -1, -2)
    *batch, T, L = products.shape
    padded = np.concatenate([np.zeros((*batch, T, 1)), products], -1).reshape(*batch, L + 1, T)
    cut = padded[..., :-1, :] if slip == "last row" else padded[..., 1:, :]
    shifted = cut.reshape(*batch, T, L)[..., :S]
    return (q + u) @ np.swapaxes(k, -1, -2) + shifted


def disentangled_scores(q, k, pos_q, pos_k, slip=""):
    """Content with content, content with position, position with content."""
    (T, S), span = (q.shape[-2], k.shape[-2]), pos_q.shape[-2] // 2
    distance = np.arange(T)[:, None] - np.arange(S)
    place = np.clip(distance + span, 0, 2 * span - 1)
    other = np.clip(span - distance, 0, 2 * span - 1) if slip == "other sign" else place
    c2p = np.einsum("...id,...ijd->...ij", q, pos_k[..., place, :])
    p2c = np.einsum("...jd,...ijd->...ij", k, pos_q[..., other, :])
    return q @ np.swapaxes(k, -1, -2) + c2p + p2c


def layer_norm(x, p, eps=1e-5):
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + eps) * p.weight + p.bias


def attend(x, memory, p, num_heads, mask=None):
    """Attention of several heads, without biases."""
    q, k, v = (
        (z @ w.T).reshape(len(z), num_heads, -1).swapaxes(0, 1)
        for z, w in ((x, p.w_q), (memory, p.w_k), (memory, p.w_v))
    )  # fmt: skip
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    scores = scores if mask is None else np.where(mask, scores, -np.inf)
    return (softmax(scores) @ v).swapaxes(0, 1).reshape(len(x), -1) @ p.w_o.T


def encoder_block(x, params, num_heads, norm_first=False, slip=""):
    """Attention and a network, each with a residual connection and a norm."""

    def first(z):
        return attend(z, z, params.attention, num_heads)

    def second(z):
        p = params.feed_forward
        return np.maximum(z @ p.w1.T + p.b1, 0) @ p.w2.T + p.b2

    for f, p in ((first, params.norm1), (second, params.norm2)):
        if not norm_first:
            h = f(x)
            x = layer_norm(h, p) + x if slip == "added after" else layer_norm(x + h, p)
        elif slip == "added before":
            x = f(layer_norm(x, p) + x)
        else:
            z = layer_norm(x, p)
            x = f(z) + (z if slip == "normalized" and f is second else x)
    return x


def mixture_of_experts(x, weight, params, k, normalize=True, limit=None, slip=""):
    """Each token goes through its best experts."""
    p = softmax(x @ weight.T)
    best = np.argsort(-p, -1)[..., :k]
    w = np.take_along_axis(p, best, -1)
    w = w / w.sum(-1, keepdims=True) if normalize else w
    out = np.zeros_like(x)
    for e in range(len(weight)):
        token, place = np.nonzero(best == e)
        factor = w[token, place, None]
        z = x[token] * factor if slip == "of the input" else x[token]
        gate, up = z @ params.w_gate[e].T, z @ params.w_up[e].T
        if limit is not None and slip != "no limit":
            gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
        y = gate * sigmoid(gate) * up @ params.w_down[e].T
        out[token] += y if slip == "of the input" else factor * y
    return out


def lstm(x, h0, c0, w_ih, w_hh, b_ih, b_hh, reverse=False, slip=""):
    """A layer that goes backwards on demand; its outputs are in the order of the inputs."""
    h, c, hs, cs = h0, c0, [], []
    steps = range(x.shape[-2])
    for t in reversed(steps) if reverse else steps:
        i, f, g, o = np.split(x[..., t, :] @ w_ih.T + h @ w_hh.T + b_ih + b_hh, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        hs.append(h)
        cs.append(c)
    if reverse and slip != "not turned back":
        hs, cs = hs[::-1], cs[::-1]
    return np.stack(hs, -2), np.stack(cs, -2)


def bidirectional(f, x, forward, backward, slip=""):
    """Two LSTMs, side by side."""
    assert f == "lstm", f
    there, back = lstm(x, *forward), lstm(x, *backward, reverse=True, slip=slip)
    return tuple(np.concatenate(both, -1) for both in zip(there, back, strict=True))


def beam_search(prompt, params, config, steps, beams, stop, length_penalty, slip=""):
    """Texts of each prompt, by their log-probability over a power of their length."""
    found = []
    for row, text in enumerate(prompt):
        more = {"with the prompt": len(text), "once for each prompt": row}.get(slip, 0)
        found.append(texts_of(text, params, config, steps, beams, stop, length_penalty, more, slip))
    texts, scores = zip(*found, strict=True)
    return np.array(texts), np.array(scores)


def texts_of(text, params, config, steps, beams, stop, length_penalty, more, slip):
    """The best texts; what has ended is continued by the same token at no cost."""
    ids = np.repeat(text[None], beams, 0)
    total, length = np.array([0.0] + [-np.inf] * (beams - 1)), np.zeros(beams)
    ended = np.zeros(beams, bool)
    for step in range(steps):
        logits = transformer.language_model(ids, params, config)[:, -1]
        log_p = np.log(softmax(logits))
        log_p[ended] = -np.inf
        log_p[ended, stop] = 0
        length = np.full(beams, step + 1.0) if slip == "of the step" else length + ~ended
        all_sums = total[:, None] + log_p
        scores = all_sums / ((length + more) ** length_penalty)[:, None]
        best = np.argsort(-scores.ravel(), kind="stable")[:beams]
        parent, token = best // log_p.shape[1], best % log_p.shape[1]
        ids = np.append(ids[parent], token[:, None], 1)
        total, length = all_sums[parent, token], length[parent]
        ended = ended[parent] | (token == stop)
    return ids, total / (length + more) ** length_penalty


def attention_backward(dout, q, k, v, slip=""):
    """Two passes: one for the keys and values, one for the queries."""
    scale, width = 1 / math.sqrt(q.shape[-1]), q.shape[-1]
    p = softmax(scale * q @ np.swapaxes(k, -1, -2))
    delta = (dout * (p @ v)).sum(-1, keepdims=True)
    dp = dout @ np.swapaxes(v, -1, -2)
    dk = scale * np.swapaxes(p * (dp - delta), -1, -2) @ q
    if slip == "width of the keys":
        dp = dout[..., :width] @ np.swapaxes(v[..., :width], -1, -2)
    dq = scale * (p * (dp - delta)) @ k
    return dq, dk, np.swapaxes(p, -1, -2) @ dout


def attention(q, k, v, return_lse=True, slip=""):
    """The mean key is subtracted first, and given back to the log-sum-exp."""
    scale, mean = 1 / math.sqrt(q.shape[-1]), k.mean(-2, keepdims=True)
    s = scale * q @ np.swapaxes(k - mean, -1, -2)
    top = s.max(-1, keepdims=True)
    e = np.exp(s - top)
    lse = (top + np.log(e.sum(-1, keepdims=True)))[..., 0]
    if slip != "of centered keys":
        lse = lse + scale * (q * mean).sum(-1)
    return e / e.sum(-1, keepdims=True) @ v, lse


def alibi_bias(slopes, T, S, q_offset=0, slip=""):
    """The further away a key is, the less it counts."""
    q_idx, kv_idx = np.arange(T)[:, None] + q_offset, np.arange(S)
    bias = q_idx - kv_idx if slip == "query minus key" else kv_idx - q_idx
    return slopes[:, None, None] * np.where(kv_idx > q_idx, 0.0, bias)


def rope_tables_multi(positions, frequencies, sections, interleaved=False, slip=""):
    """Tables for time, height and width, whose pairs stand in sections or in turns."""
    angles = positions[..., None] * frequencies
    if interleaved and slip != "in sections":
        chosen = angles[0].copy()
        for axis in range(1, len(sections)):
            turns = slice(axis, sections[axis] * len(sections), len(sections))
            chosen[..., turns] = angles[axis][..., turns]
    else:
        parts = np.split(angles, np.cumsum(sections)[:-1], -1)
        chosen = np.concatenate([part[axis] for axis, part in enumerate(parts)], -1)
    return np.cos(chosen), np.sin(chosen)


def grouped_router(x, weight, k, score, correction, groups, top_groups, slip=""):
    """The best experts of the best groups."""
    assert score == "sigmoid", score
    scores = sigmoid(x @ weight.T)
    members = (scores + correction).reshape(len(x), groups, -1)
    two = 1 if slip == "best expert" else 2
    of_groups = np.sort(members, -1)[..., -two:].sum(-1)
    kept = np.zeros(of_groups.shape, bool)
    np.put_along_axis(kept, np.argsort(-of_groups, -1)[:, :top_groups], values=True, axis=-1)
    hidden = 0 if slip == "zero" else -np.inf
    choice = np.where(kept[..., None], members, hidden).reshape(scores.shape)
    experts = np.argsort(-choice, -1, kind="stable")[:, :k]
    w = np.take_along_axis(scores, experts, -1)
    return experts, w / w.sum(-1, keepdims=True), scores


def linear_attention(q, k, v, is_causal=True, slip=""):
    """Sums of keys and of products up to each step."""
    a, b = (np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (q, k))
    products, keys = b[..., None] * v[..., None, :], b
    if is_causal:
        products = products.cumsum(-3)
        keys = keys.cumsum(-3 if slip == "over heads" else -2)
    else:
        products, keys = products.sum(-3, keepdims=True), keys.sum(-2, keepdims=True)
    if slip == "each feature":
        return np.einsum("...d,...de->...e", a, products / keys[..., None])
    out, divisor = np.einsum("...d,...de->...e", a, products), (a * keys).sum(-1, keepdims=True)
    return out * divisor if slip == "product" else out / divisor


def of_offsets():
    def case(buckets, heads, T, S, both):
        table, options = R.normal(size=(buckets, heads)), {"q_offset": S - T, "max_distance": 21}
        return (table, T, S), {"bidirectional": both, **options}

    return cases(case(8, 3, 4, 9, True), case(12, 2, 3, 11, False), case(6, 4, 5, 13, True))


def with_offsets():
    def case(T, S, d):
        q, k, r = (R.normal(size=(n, d)) for n in (T, S, T + S - 1))
        return (q, k, r, *R.normal(size=(2, d))), {}

    return cases(case(3, 5, 4), case(4, 7, 2), case(2, 6, 3))


def of_tables():
    def case(heads, T, S, d, span):
        q, k = R.normal(size=(heads, T, d)), R.normal(size=(heads, S, d))
        return (q, k, *R.normal(size=(2, heads, 2 * span, d))), {}

    return cases(case(2, 4, 5, 3, 6), case(3, 5, 4, 2, 3), case(1, 6, 3, 4, 2))


def of_blocks(norm_first):
    def case(T, D, H, F):
        matrices = transformer.FeedForwardParams(
            R.normal(size=(F, D)) / 2, R.normal(size=F), R.normal(size=(D, F)) / 2, R.normal(size=D)
        )
        norms = (transformer.NormParams(*R.normal(size=(2, D))) for _ in range(2))
        attention = att.AttentionParams(*R.normal(size=(4, D, D)) / 2)
        params = transformer.EncoderBlockParams(attention, next(norms), matrices, next(norms))
        return (2 * R.normal(size=(T, D)), params), {"num_heads": H, "norm_first": norm_first}

    return cases(case(5, 4, 2, 7), case(3, 6, 2, 5), case(4, 9, 3, 8))


def of_experts(k, **options):
    def case(n, d, width, count):
        sizes = (count, width, d), (count, width, d), (count, d, width)
        params = transformer.ExpertParams(*(R.normal(size=s) for s in sizes))
        return (R.normal(size=(n, d)), R.normal(size=(count, d)), params), {"k": k, **options}

    return cases(case(5, 4, 3, 6), case(7, 3, 5, 4), case(4, 2, 6, 3))


def lstm_weights(B, D, H):
    weights = R.normal(size=(4 * H, D)) / 2, R.normal(size=(4 * H, H)) / 2
    return *R.normal(size=(2, B, H)), *weights, *R.normal(size=(2, 4 * H))


def backwards():
    return cases(*(((R.normal(size=(B, T, D)), *lstm_weights(B, D, H)), {"reverse": True})
                   for B, T, D, H in ((2, 5, 3, 4), (3, 4, 2, 5), (1, 6, 4, 2))))  # fmt: skip


def both_ways():
    def case(B, T, D, H):
        networks = lstm_weights(B, D, H), lstm_weights(B, D, H)
        return ("lstm", R.normal(size=(B, T, D)), *networks), {}

    return cases(case(2, 5, 3, 4), case(3, 4, 2, 5), case(1, 6, 4, 2))


def of_prompts():
    def case(B, T, V, beams, stop, penalty):
        config = transformer.LanguageModelConfig(
            vocab_size=V, d_model=4, num_heads=2, num_layers=1, length=16
        )
        params = transformer.init_language_model(R, config)
        params = params._replace(embedding=40 * params.embedding)
        options = {"steps": 3, "beams": beams, "stop": stop, "length_penalty": penalty}
        return (R.integers(0, V, (B, T)), params, config), options

    return cases(case(3, 4, 5, 2, 1, 1.0), case(2, 5, 6, 3, 2, 0.7), case(4, 2, 7, 3, 3, 1.5))


def of_values():
    def case(B, T, S, d, width):
        q, k, v = R.normal(size=(B, T, d)), R.normal(size=(B, S, d)), R.normal(size=(B, S, width))
        return (q, k, v), {}

    return cases(case(2, 3, 4, 5, 8), case(1, 4, 6, 2, 3), case(3, 5, 2, 4, 6))


def of_lse():
    def case(B, T, S, d, width):
        q, k, v = R.normal(size=(B, T, d)), R.normal(size=(B, S, d)), R.normal(size=(B, S, width))
        return (q, k, v), {"return_lse": True}

    return cases(case(2, 3, 4, 5, 6), case(1, 4, 6, 2, 3), case(3, 5, 2, 4, 7))


def of_slopes():
    return cases(*(((R.uniform(0.1, 1, H), T, S), {"q_offset": S - T})
                   for H, T, S in ((3, 4, 6), (2, 5, 7), (4, 3, 8))))  # fmt: skip


def of_coordinates():
    def case(T, *sections):
        frequencies = 10.0 ** -R.uniform(0, 2, sum(sections))
        places = R.integers(0, 40, (3, T)).astype(float)
        return (places, frequencies), {"sections": list(sections), "interleaved": True}

    return cases(case(4, 4, 2, 2), case(5, 3, 3, 3), case(7, 4, 3, 3))


def in_groups(shift):
    def case(n, d, experts, groups, top_groups, k):
        inputs = R.normal(size=(n, d)), R.normal(size=(experts, d))
        options = {"k": k, "score": "sigmoid", "groups": groups, "top_groups": top_groups}
        return inputs, {"correction": R.normal(size=experts) / 4 + shift, **options}

    return cases(case(7, 3, 12, 3, 1, 2), case(9, 4, 16, 4, 2, 3), case(5, 2, 15, 5, 2, 4))


def of_features():
    def case(B, H, T, d, width):
        q, k, v = (R.normal(size=(B, H, T, n)) for n in (d, d, width))
        return (q, k, v), {"is_causal": True}

    return cases(case(2, 3, 5, 4, 6), case(1, 2, 4, 3, 5), case(3, 4, 6, 2, 1))


SDPA, LINEAR, BLOCK = (
    att.scaled_dot_product_attention, att.linear_attention, transformer.encoder_block
)  # fmt: skip
ROUTER, EXPERTS, BEAM = (
    transformer.top_k_router, transformer.mixture_of_experts, transformer.beam_search
)  # fmt: skip
UNSOUGHT = [
    Wrong("lucidrains/x-transformers#103", positions.t5_bias, "forward", t5_bias,
        "queries from 0", "Queries are counted from 0, though earlier keys stand before them.",
        (r"q_offset",), of_offsets()),
    Wrong("labmlai/annotated_deep_learning_paper_implementations#185",
        positions.transformer_xl_scores, "forward", transformer_xl_scores, "last row",
        "The shift of the offsets drops the last row of the padded products, not the first.",
        (r"offsets\(|shift|roll|place|by_offset|T - 1|later|earlier",), with_offsets()),
    Wrong("nntrainer/nntrainer#3982", positions.disentangled_scores, "forward",
        disentangled_scores, "other sign",
        "Position with content is read at key minus query, not at query minus key.",
        (r"p2c|pos_q|place|\bback\b|sign|L // 2|offsets\(",), of_tables()),
    Wrong("SHI-Labs/Compact-Transformers#25", BLOCK, "forward", encoder_block, "normalized",
        "The network's output is added to its normalized input.",
        (r"residual|norm2|normalized|second|network|\bx \+|\bz\b",), of_blocks(True)),
    Wrong("mashrurmorshed/Torch-KWT#13", BLOCK, "forward", encoder_block, "added after",
        "The input is added after the norm of each output, not before.",
        (r"residual|sum|output.?norm|added|before|after|post|\bx \+",), of_blocks(False)),
    Wrong("probml/pml-book#709", BLOCK, "forward", encoder_block, "added before",
        "The input is added to its norm, in front of each sub-layer, and not to the output.",
        (r"residual|added|before|in front|\bx \+|\+ x\b|skip",), of_blocks(True)),
    Wrong("labmlai/annotated_deep_learning_paper_implementations#95", EXPERTS, "forward",
        mixture_of_experts, "of the input", "The weight multiplies an expert's input.",
        (r"input|weights? \* x|x \* w|\* x, of_expert.*stands|before the expert",),
        of_experts(1, normalize=False)),
    Wrong("keras-team/keras#1431", recurrent.lstm, "forward", lstm, "not turned back",
        "The states of the way back are in the order in which they were computed.",
        (r"revers|arranged|order|flip|turned|\[::-1\]",), backwards()),
    Wrong("sbillburg/CRNN-with-STN#12", recurrent.bidirectional, "forward", bidirectional,
        "not turned back", "The states of the way back are in the order of their computation.",
        (r"revers|arranged|order|flip|turned|\[::-1\]",), both_ways()),
    Wrong("huggingface/transformers#26624", BEAM, "forward", beam_search, "with the prompt",
        "The length counts the prompt.", (r"length|prompt",), of_prompts()),
    Wrong("huggingface/transformers#23127", BEAM, "forward", beam_search, "once for each prompt",
        "The length is one larger for each prompt of the batch before it.",
        (r"length|batch|row",), of_prompts()),
    Wrong("OpenNMT/OpenNMT-tf#456", BEAM, "forward", beam_search, "of the step",
        "The length is the number of steps, also for texts that have ended.",
        (r"length|done|stop|ended|steps",), of_prompts()),
    Wrong("XunhaoLai/native-sparse-attention-triton#27", SDPA, "vjp", attention_backward,
        "width of the keys", "For dq, values have only as many channels as keys.",
        (r"channel|width|first \d|columns|v\[|dout\[|shape\[-1\]",), of_values()),
    Wrong("meta-pytorch/attention-gym#86", positions.alibi_bias, "forward", alibi_bias,
        "query minus key", "The bias is positive: slope times distance.",
        (r"sign|minus|-slopes|negat|opposite|-1",), of_slopes()),
    Wrong("vllm-project/vllm-gaudi#1437", positions.rope_tables_multi, "forward",
        rope_tables_multi, "in sections", "The pairs stand in sections, though interleaved is set.",
        (r"interleaved",), of_coordinates()),
    Wrong("sgl-project/sglang#3705", ROUTER, "forward", grouped_router, "zero",
        "Experts outside the best groups have the score 0, not minus infinity.",
        (r"inf|\b0 stands|zero|outside|hidden|masked",), in_groups(-1.1)),
    Wrong("vllm-project/vllm#13474", ROUTER, "forward", grouped_router, "best expert",
        "A group is as good as its best expert, not as its two best ones.",
        (r"max|\bcount\b|\b[12]\b|best|two",), in_groups(0)),
    Wrong("sgl-project/sglang#39939", EXPERTS, "forward", mixture_of_experts, "no limit",
        "The limit of the activation is ignored.", (r"limit",), of_experts(2, limit=0.6)),
    Wrong("ROCm/aiter#3334", SDPA, "forward", attention, "of centered keys",
        "The log-sum-exp is that of keys without their mean.",
        (r"mean|center|average|k - ",), of_lse()),
    Wrong("fla-org/flash-linear-attention#594", LINEAR, "forward", linear_attention, "over heads",
        "The keys of the divisor are added up over heads, not over time.",
        (r"head|axis|cumsum|-3",), of_features()),
    Wrong("lucidrains/performer-pytorch#21", LINEAR, "forward", linear_attention, "each feature",
        "Each feature is divided by its own sum of keys, and the queries are left out of it.",
        (r"feature|channel|each|divid|normaliz|/ ",), of_features()),
    Wrong("lucidrains/performer-pytorch#40", LINEAR, "forward", linear_attention, "product",
        "The output is multiplied by the divisor.",
        (r"multiplied|product|\* ?z|divid|1 / z|out / |reciprocal|instead of /",), of_features()),
]  # fmt: skip
