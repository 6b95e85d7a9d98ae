"""Attention by softmax, by features and by latents, and scores that choose keys."""

import numpy as np

from dlref import attention as att

from .kernels import Wrong, cases, gradients, refuse, softmax

R = np.random.default_rng(54)


def power_of_two(n):
    """Return the next power of 2."""
    return 1 << (n - 1).bit_length()


def of_queries(k, q):
    """Repeat the heads of keys for the queries of their group."""
    return k if k.ndim < 3 or k.shape[-3] == q.shape[-3] else np.repeat(
        k, q.shape[-3] // k.shape[-3], -3)  # fmt: skip


def of_keys(dk, k):
    """Add the gradients of all queries of a group."""
    if k.ndim < 3 or dk.shape[-3] == k.shape[-3]:
        return dk
    heads = k.shape[-3]
    return dk.reshape(*dk.shape[:-3], heads, -1, *dk.shape[-2:]).sum(-3)


def visible(T, S, is_causal, q_offset, window):
    """Return which keys a query sees, by place."""
    i, j = np.arange(T)[:, None] + q_offset, np.arange(S)
    seen = np.ones((T, S), bool)
    if is_causal:
        seen &= j <= i
    left, right = window or (None, None)
    if left not in (None, -1):
        seen &= j >= i - left
    if right not in (None, -1):
        seen &= j <= i + right
    return seen


def scores_of(q, k, mask, is_causal, q_offset, window, scale):
    """Scaled products, -inf where a pair is hidden."""
    if isinstance(scale, np.ndarray):
        refuse("a scale for each query")
    scale = q.dtype.type(q.shape[-1] ** -0.5 if scale is None else scale)
    s = (q @ np.swapaxes(of_queries(k, q), -1, -2)) * scale
    seen = visible(*s.shape[-2:], is_causal, q_offset, window)
    return np.where(seen if mask is None else seen & mask, s, -np.inf).astype(q.dtype), scale


def softmax_with_sink(s, sink):
    """Probabilities of the keys, beside logits that no value belongs to."""
    top = np.maximum(s.max(-1, keepdims=True), sink)
    e = np.exp(s - top)
    return e / (e.sum(-1, keepdims=True) + np.exp(sink - top))


def capped_attention(q, k, v, is_causal=False, softcap=None, sink=None, slip=""):
    """Attention with a soft cap, or with sinks."""
    s, _ = scores_of(q, k, None, is_causal, 0, None, None)
    if softcap is not None and slip != "softcap ignored":
        s = np.where(np.isfinite(s), softcap * np.tanh(s / softcap), s)
    if sink is None:
        return softmax(s) @ of_queries(v, q)
    if sink.ndim != 1:
        refuse("sinks of batches")
    more = np.log(2) if slip == "sink counts twice" else 0
    p = softmax_with_sink(s, sink[:, None, None] + more)
    return p @ of_queries(v, q)


def attention(q, k, v, mask=None, is_causal=False, q_offset=0, window=None, scale=None, slip=""):
    """Scaled dot-product attention with grouped heads, masks and windows."""
    if slip == "padded width" and scale is None:
        scale = power_of_two(q.shape[-1] + 1) ** -0.5
    if window is not None and window[0] not in (None, -1):
        left = {"window minus 1 twice": max(window[0] - 1, 0), "negative window": None}
        window = left.get(slip, window[0]), window[1]
        if slip == "no window for one token" and q.shape[-2] == 1:
            window = None
    s, _ = scores_of(q, k, mask, is_causal, q_offset, window, scale)
    return softmax(s) @ of_queries(v, q)


def attention_backward(
    dout, q, k, v, mask=None, is_causal=False, q_offset=0, window=None, scale=None, slip=""
):  # fmt: skip
    """dq, dk, dv from probabilities that are computed anew."""
    s, scale = scores_of(q, k, mask, is_causal, q_offset, window, scale)
    p = softmax(s)
    if slip == "hidden keys count" and mask is not None:
        # exp(s - lse) of all keys, where lse is that of the forward pass
        free, _ = scores_of(q, k, None, is_causal, q_offset, window, scale)
        top = s.max(-1, keepdims=True)
        top = np.where(np.isfinite(top), top, 0)
        total = np.exp(s - top).sum(-1, keepdims=True)
        p = np.where(total == 0, 0, np.exp(free - top) / np.where(total == 0, 1, total))
        p = p.astype(q.dtype)
    elif slip == "padded width":
        scale = q.dtype.type((-(-q.shape[-1] // 16) * 16) ** -0.5)
    kq, vq = of_queries(k, q), of_queries(v, q)
    w = dout @ np.swapaxes(vq, -1, -2)
    of_seen = softmax(s)
    ds = p * (w - (of_seen * w).sum(-1, keepdims=True)) * scale
    dk = of_keys(np.swapaxes(ds, -1, -2) @ q, k)
    dv = of_keys(np.swapaxes(of_seen, -1, -2) @ dout, v)
    return ds @ kq, dk, dv


def features(x):
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def linear_attention(q, k, v, is_causal=False, normalize=True, slip=""):
    """Features elu + 1, and weights that are normalized."""
    weights = features(q) @ np.swapaxes(features(k), -1, -2)
    weights = np.tril(weights) if is_causal else weights
    out = weights @ v
    z = weights.sum(-1, keepdims=True)
    return out / np.where(z == 0, 1, z) if normalize and slip != "not normalized" else out


def linear_attention_backward(dout, q, k, v, is_causal=False, normalize=True, slip=""):
    """Backward pass through the weights and the divisor."""
    a, b = features(q), features(k)
    weights = a @ np.swapaxes(b, -1, -2)
    weights = np.tril(weights) if is_causal else weights
    g, of_divisor = dout, np.zeros_like(dout[..., :1])
    if normalize:
        z = weights.sum(-1, keepdims=True)
        z = np.where(z == 0, 1, z)
        g = dout / z
        of_divisor = -(g * (weights @ v / z)).sum(-1, keepdims=True)
    along = g @ np.swapaxes(v, -1, -2)
    dweights = along + of_divisor
    for_keys = along if slip == "divisor is constant for keys" else dweights
    if is_causal:
        dweights, for_keys = np.tril(dweights), np.tril(for_keys)
    slope = lambda x: np.where(x > 0, 1, np.exp(np.minimum(x, 0)))  # noqa: E731
    dq = slope(q) * (dweights @ b)
    dk = slope(k) * (np.swapaxes(for_keys, -1, -2) @ a)
    return gradients(dq, dk, np.swapaxes(weights, -1, -2) @ g)


def latent_attention(x, params, num_heads, rope=None, is_causal=True, slip=""):
    """Attention from latents, scaled by the width of the whole head: both parts of it."""
    scale = None
    if slip == "width of a part":
        scale = (params.w_uk.shape[0] // num_heads) ** -0.5
    return att.latent_attention(
        x, params, num_heads=num_heads, rope=rope, is_causal=is_causal, scale=scale
    )


def indexer_scores(q, k, w, slip=""):
    """Weighted sums over heads of positive products."""
    z = q @ np.swapaxes(k, -1, -2)[..., None, :, :]
    return np.einsum("...th,...hts->...ts", w, z if slip == "no relu" else np.maximum(z, 0))


SDPA = att.scaled_dot_product_attention
Q, K, V = (R.normal(size=s) for s in ((2, 4, 40, 12), (2, 2, 40, 12), (2, 2, 40, 12)))
LAST = (Q[:, :, -1:], K, V)
GIVEN = [
    Wrong("C", SDPA, "forward", attention, "padded width",
        "The scale is of the width padded to a power of two.",
        (r"scale", r"\b16\b|padded|power of (2|two)"), cases(((Q, K, V), {}), (LAST, {}))),
    Wrong("C", att.linear_attention, "forward", linear_attention, "not normalized",
        "The weights are not normalized.",
        (r"normaliz", r"divi", r"\bz\b")),
    Wrong("D", att.latent_attention, "forward", latent_attention, "width of a part",
        "The scale has the width of the part without rotation alone.",
        (r"scale.*(part|width|rotation|rope|nope|without)", r"(width|N \+ R).*scale",
         r"1 / sqrt\(N\)",
         r"N \*\* -0\.5|scale is 0\.5")),
    Wrong("D", att.indexer_scores, "forward", indexer_scores, "no relu",
        "The relu of the products is missing.",
        (r"relu", r"negative products|np\.where\(z|z stands where|positive")),
]  # fmt: skip
FRESH = [
    Wrong("microsoft/unilm#1612", SDPA, "forward", attention, "window minus 1 twice",
        "1 is subtracted from the window twice: it is one key too short.",
        (r"one (key )?too short(?! on both)", r"one key (less|fewer)",
         r"left.*(short|- 1)|window(\[0\]|.*left).*- 1", r"^r > -left stands")),
    Wrong("proger/hippogriff#7", SDPA, "forward", attention, "negative window",
        "The window is unbounded to the left: its left end is ignored.",
        (r"window.*(ignored|left|unbounded|None)", r"left.*(ignored|unbounded|None)")),
    Wrong("karpathy/nanochat#452", SDPA, "forward", attention, "no window for one token",
        "The window is ignored where there is one query.",
        (r"window.*(ignored|one (query|token)|unbounded|None)", r"one (query|token)",
         r"window has no left end"),
        cases((LAST, {"q_offset": 39, "window": (5, 0)})
              , (LAST, {"q_offset": 39, "is_causal": True}),
              ((Q, K, V), {"window": (5, 0)}))),
    Wrong("tile-ai/tilelang-ascend#1670", SDPA, "vjp", attention_backward, "padded width",
        "The gradients of queries and keys are scaled by the padded width.",
        (r"scale", r"padded|\b16\b|width"), cases(((Q, K, V), {}), (LAST, {}))),
    Wrong("hao-ai-lab/FastVideo#925", SDPA, "vjp", attention_backward, "hidden keys count",
        "The backward pass does not apply the mask: hidden keys have gradients.",
        (r"mask.*(ignored|not applied|missing|backward)", r"masked_scores|\bseen\b",
         r"(hidden|masked|pad\w+).*(key|pair|not)")),
    Wrong("fla-org/flash-linear-attention#875", att.linear_attention, "vjp",
        linear_attention_backward, "divisor is constant for keys",
        "The gradient of the keys lacks the term of the divisor.",
        (r"(divisor|normali\w+|dz|denominator).*(constant|missing|lacks|ignored|0)",
         r"(lacks|without|missing).*(dz|divisor|normali|denominator)", r"dweights",
         r"gradient of k.*stands where g @ v\.mT \+ dz")),
    Wrong("ROCm/rocm-libraries#12229", SDPA, "forward", capped_attention, "sink counts twice",
        "The sink counts twice in the sum.",
        (r"sink.*(twice|two|2|log|times|double)", r"(twice|2(\.0)? \*).*sink"),
        cases(((Q, K, V), {"sink": R.normal(size=4)}),
              (LAST, {"sink": R.normal(size=4)}))),
    Wrong("kekzl/imp#688", SDPA, "forward", capped_attention, "softcap ignored",
        "The soft cap is ignored.",
        (r"soft ?cap",),
        cases(((Q, K, V), {"softcap": 1.0, "is_causal": True}), (LAST, {"softcap": 2.0}))),
]  # fmt: skip
