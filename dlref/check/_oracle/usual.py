"""
Formulas that kernels write in another way than `dlref.formulas`, and tangents.

A function stands in the place of the one of its name in `dlref.formulas`, wherever that is called.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np

from ...formulas import activations, attention, losses, normalization, positions, training
from ...formulas.activations import SELU_ALPHA, SELU_SCALE, elu, logsumexp, softmax, softplus
from ...formulas.attention import (
    allowed_pairs,
    attention_scores,
    for_all_queries,
    for_all_queries_vjp,
    masked_scores,
    recurrent_linear_attention,
    scaled_dot_product_attention,
    scaled_products,
    score_gradients,
    sink_gradient,
    weights_and_lse,
)
from ...formulas.losses import element_weights, reduce, reduce_grad
from ...formulas.neurons import linear
from ...formulas.normalization import scale_and_shift
from ...formulas.transformer import next_token_probabilities, nucleus

# Activations.


def sigmoid(x: Any) -> Any:
    """Return the quotient as it stands; 0 where an exponential overflows is nearly right."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def sigmoid_deriv(x: Any) -> Any:
    """Return s (1 - s)."""
    s = sigmoid(x)
    return s * (1 - s)


def elu_deriv(x: Any, *, alpha: float = 1.0) -> Any:
    """Return y + alpha, of an output y whose expm1 is two roundings off, as vectorized ones are."""
    y = np.nextafter(np.nextafter(elu(x, alpha=alpha), -np.inf), -np.inf)
    return np.where(x > 0, 1, y + alpha)


def celu_deriv(x: Any, *, alpha: float = 1.0) -> Any:
    """Return y / alpha + 1."""
    return elu_deriv(x / alpha)


def features(x: Any, feature_map: str) -> Any:
    """Return elu(x) + 1 as it stands, which cancels where x is far below 0."""
    if feature_map == "elu":
        return np.where(x > 0, x + 1, features_deriv(x, feature_map))
    return attention.features(x, feature_map)


def features_deriv(x: Any, feature_map: str) -> Any:
    """Return the slope of elu(x) + 1, from its output."""
    if feature_map == "elu":
        return elu_deriv(np.minimum(x, 0))  # the exponential of a large x would overflow
    return attention.features_deriv(x, feature_map)


def tanhshrink_deriv(x: Any) -> Any:
    """Return the difference of 1 and the slope of tanh."""
    t = np.tanh(x)
    return 1 - (1 - t * t)


def softsign_vjp(dout: Any, x: Any) -> Any:
    """Return the vjp of the quotient, term by term."""
    d = 1 + abs(x)
    return dout / d - (dout * x / d / d) * np.sign(x)


def hard_swish_deriv(x: Any) -> Any:
    """Return the slope in three parts; 1/2 + x/3 within."""
    return np.where(x < 3, np.where(x > -3, x / 3 + 1 / 2, 0), 1)


# Losses.


def binary_cross_entropy(
    logits: Any, target: Any, *, weight: Any = None, pos_weight: Any = None, reduction: Any = "mean"
) -> Any:
    """Return x - x y + log(1 + exp(-x)), which cancels for each sign of x."""
    w, pi = element_weights(weight, pos_weight, logits)
    line = np.where(logits > 0, logits - logits * target, (1 - target) * logits)
    terms = w * (line + (1 + (pi - 1) * target) * softplus(-logits))
    return reduce(terms, reduction)


def binary_cross_entropy_grad(
    logits: Any, target: Any, *, weight: Any = None, pos_weight: Any = None, reduction: Any = "mean"
) -> Any:
    """Return s - y, weighed."""
    w, pi = element_weights(weight, pos_weight, logits)
    slopes = w * ((1 + (pi - 1) * target) * sigmoid(logits) - pi * target)
    return reduce_grad(slopes, logits.size, reduction)


def binary_cross_entropy_vjp(
    dout: Any,
    logits: Any,
    target: Any,
    *,
    weight: Any = None,
    pos_weight: Any = None,
    reduction: Any = "mean",
) -> Any:
    """Return the gradients; the gradient of the target is a difference of losses."""
    w, pi = element_weights(weight, pos_weight, logits)
    slopes = binary_cross_entropy_grad(
        logits, target, weight=weight, pos_weight=pos_weight, reduction=reduction
    )
    of_target = w * (pi * softplus(-logits) - softplus(logits))
    return dout * slopes, dout * reduce_grad(of_target, logits.size, reduction)


# As textbooks write them: overflow is left to the reader.


def sigmoid_deriv_by_exponentials(x: Any) -> Any:
    """Return the slope by the quotient rule."""
    e = np.exp(-x)
    return e / (1 + e) ** 2


def silu_deriv_by_exponentials(x: Any, *, beta: float = 1.0) -> Any:
    """Return the slope by the quotient rule."""
    e = np.exp(-beta * x)
    return (1 + e + beta * x * e) / (1 + e) ** 2


def selu_in_two_parts(x: Any) -> Any:
    """Return the scaled input, or the scaled exponential below 0."""
    below = SELU_SCALE * SELU_ALPHA * np.expm1(np.minimum(x, 0))
    return np.where(x > 0, SELU_SCALE * x, below)


def mish_deriv_by_exponentials(x: Any) -> Any:
    """Return one quotient of sums of exponentials."""
    e = np.exp(x)
    omega = 4 * (x + 1) + 4 * e**2 + e**3 + e * (4 * x + 6)
    delta = 2 * e + e**2 + 2
    return e * omega / delta**2


def focal_loss_of_both_classes(
    logits: Any, target: Any, *, alpha: float = 0.25, gamma: float = 2.0, reduction: Any = "mean"
) -> Any:
    """Return a term for the positives and one for the negatives."""
    p, q = activations.sigmoid(logits), activations.sigmoid(-logits)
    a, b = (alpha, 1 - alpha) if alpha >= 0 else (1, 1)
    positive = a * target * q**gamma * softplus(-logits)
    negative = b * (1 - target) * p**gamma * softplus(logits)
    return reduce(positive + negative, reduction)


def gaussian_kl_by_variances(mean: Any, log_var: Any, *, reduction: Any = "mean") -> Any:
    """Return half of the variance and the square of the mean, less the logarithm and 1."""
    var = np.exp(log_var)
    terms = (mean**2 + var - log_var - 1) / 2
    return reduce(np.sum(terms, axis=-1), reduction)


def binary_cross_entropy_of_signs(
    logits: Any, target: Any, *, weight: Any = None, pos_weight: Any = None, reduction: Any = "mean"
) -> Any:
    """Return the stable sum, whose logarithm is of the exponential of -|x|."""
    w, pi = element_weights(weight, pos_weight, logits)
    log, weights = np.log1p(np.exp(-np.abs(logits))), 1 + (pi - 1) * target
    terms = w * ((1 - target) * logits + weights * (log + np.maximum(-logits, 0)))
    return reduce(terms, reduction)


def log_odds_as_they_stand(log_p: Any) -> Any:
    """Return log p - log(1 - p)."""
    return log_p - np.log(1.0 - np.exp(log_p))


def min_snr_weight_by_ratios(
    alpha: Any, sigma: Any, *, kind: str = "noise", gamma: float = 5.0
) -> Any:
    """Return the ratio of signal and noise, at most gamma, over the factor of each prediction."""
    snr = alpha**2 / sigma**2
    bounded = np.minimum(snr, gamma)
    if kind == "data":
        return bounded
    if kind == "noise":
        return bounded / snr
    if kind == "velocity":
        return bounded / (snr + 1) / (alpha**2 + sigma**2)
    return bounded * sigma**2 / (alpha + sigma) ** 2


def layer_norm_by_sums(x: Any, weight: Any = None, bias: Any = None, *, eps: float = 1e-5) -> Any:
    """Return normalized rows, whose squared deviations are added up and divided by their number."""
    mu, n = np.mean(x, axis=-1, keepdims=True), x.shape[-1]
    sigma = np.sqrt(np.sum((x - mu) ** 2, axis=-1, keepdims=True) / n + eps)
    return scale_and_shift((x - mu) / sigma, weight, bias)


def softplus_as_it_stands(x: Any, *, beta: float = 1.0) -> Any:
    """Return log(1 + exp(x))."""
    return np.log(1 + np.exp(beta * x)) / beta


def log_softmax_as_it_stands(x: Any, *, axis: int = -1) -> Any:
    """Return x less the logarithm of the sum of exponentials."""
    return x - np.log(np.sum(np.exp(x), axis=axis, keepdims=True))


def softmax_vjp_by_products(dout: Any, x: Any, *, axis: int = -1) -> Any:
    """Return p dout less p times the sum of p dout."""
    p = activations.softmax(x, axis=axis)
    return p * dout - p * np.sum(p * dout, axis=axis, keepdims=True)


def recurrent_linear_attention_by_chunks(
    q: Any,
    k: Any,
    v: Any,
    decay: Any = None,
    beta: Any = None,
    state: Any = None,
    *,
    scale: Any = 1.0,
    **options: Any,
) -> Any:
    """
    Compute all steps at once, as kernels do within a chunk.

    This is `delta_rule_chunk` for a stack of sequences, with or without gates. It has products
    instead of einsum, so that the search can leave out each factor.
    """
    if options.get("erase") is not None or options.get("segment_ids") is not None:
        return recurrent_linear_attention(q, k, v, decay, beta, state, scale=scale, **options)
    T = q.shape[-2]
    c = np.zeros_like(k) if decay is None else np.cumsum(decay, axis=-2)
    # Later keys, whose difference would be positive, are left out below.
    fade = np.exp(np.minimum(c[..., :, None, :] - c[..., None, :, :], 0))
    keys = np.tril(np.sum(k[..., :, None, :] * fade * k[..., None, :, :], axis=-1), -1)
    scores = np.tril(np.sum(q[..., :, None, :] * fade * k[..., None, :, :], axis=-1))
    S = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]), v.dtype) if state is None else state
    w = v
    if beta is not None:
        right = beta[..., None] * (v - (np.exp(c) * k) @ S)
        w = np.linalg.solve(np.eye(T) + beta[..., None] * keys, right)
    out = scale * ((np.exp(c) * q) @ S + scores @ w)
    last = np.exp(c[..., -1, :])[..., None] * S + (np.exp(c[..., -1:, :] - c) * k).mT @ w
    return out, last


def next_token_probabilities_by_logits(
    logits: Any, *, temperature: Any = 1.0, top_k: Any = None, top_p: Any = None, min_p: Any = None
) -> Any:
    """Return the softmax of logits that one option after the other has set to -inf."""
    if temperature == 0:
        return next_token_probabilities(logits, temperature=0)
    z = logits - np.max(logits, axis=-1, keepdims=True)
    z = z / temperature
    if top_k is not None and top_k < z.shape[-1]:
        z = np.where(z < np.sort(z, axis=-1)[..., -top_k, None], -np.inf, z)
    if top_p is not None:
        z = np.where(nucleus(softmax(z), top_p) == 0, -np.inf, z)
    if min_p is not None:
        z = np.where(z < np.log(min_p) + np.max(z, axis=-1, keepdims=True), -np.inf, z)
    return softmax(z)


def recomputed_scores(q: Any, k: Any, **options: Any) -> Any:
    """Return the scores again, in the backward pass."""
    return attention_scores(q, k, **options)


def attention_vjp_by_logsumexp(
    dout: Any,
    q: Any,
    k: Any,
    v: Any,
    *,
    dlse: Any = None,
    mask: Any = None,
    bias: Any = None,
    is_causal: Any = False,
    q_offset: Any = 0,
    window: Any = None,
    scale: Any = None,
    softcap: Any = None,
    sink: Any = None,
    dropout: Any = None,
    indices: Any = None,
) -> Any:
    """Return the gradients as FlashAttention computes them, which recomputes the weights."""
    allowed = allowed_pairs(q.shape[-2], k.shape[-2], mask=mask, indices=indices)
    scored = allowed, bias, is_causal, q_offset, window, scale, softcap, None
    _, lse = weights_and_lse(masked_scores(q, k, *scored), sink)
    s = recomputed_scores(
        q,
        k,
        mask=allowed,
        bias=bias,
        is_causal=is_causal,
        q_offset=q_offset,
        window=window,
        scale=scale,
        softcap=softcap,
    )
    p = np.exp(s - np.where(lse == -np.inf, 0, lse)[..., None])
    kept = p if dropout is None else dropout * p
    dv = for_all_queries_vjp(kept.mT @ dout, v, q)
    w = dout @ for_all_queries(v, q).mT
    w = w if dropout is None else dropout * w
    D = np.sum(p * w, axis=-1)
    of_row = -D if dlse is None else dlse - D
    d = p * (w + of_row[..., None])
    dq, dk, *dbias = score_gradients(d, q, k, bias=bias, scale=scale, softcap=softcap)
    grads = dq, dk, dv, *dbias
    return grads if sink is None else (*grads, sink_gradient(of_row, lse, sink))


# By the logarithms of probabilities.


def softmax_by_logsumexp(x: Any, *, axis: int = -1) -> Any:
    """Return exponentials of x minus logsumexp(x)."""
    return np.exp(x - np.expand_dims(logsumexp(x, axis=axis), axis))


def weights_by_logsumexp(s: Any, sink: Any = None) -> Any:
    """Return the same as FlashAttention: exponentials of scores less the logarithm of their sum."""
    _, lse = attention.weights_and_lse(s, sink)
    return np.exp(s - np.where(lse == -np.inf, 0, lse)[..., None]), lse


# Positions.


def sinusoidal_by_channels(length: int, dim: int, **options: Any) -> Any:
    """Return the table with the exponent of each channel, as the paper has it."""
    if {"layout", "spacing"} & options.keys():
        return positions.sinusoidal(length, dim, **options)
    base, offset = options.get("base", 10000.0), options.get("offset", 0)
    i = np.arange(dim)
    exponents = 2 * (i // 2) / dim
    angles = (offset + np.arange(length))[:, None] * (1 / base) ** exponents
    table = np.where(i % 2 == 0, np.sin(angles), np.cos(angles))
    return table.astype(options.get("dtype", np.float64))


_OWN: dict[Any, tuple[Any, ...]] = {
    activations: (
        *(sigmoid, sigmoid_deriv, elu_deriv, celu_deriv, tanhshrink_deriv),
        *(softsign_vjp, hard_swish_deriv),
    ),
    attention: (features, features_deriv),
    losses: (binary_cross_entropy, binary_cross_entropy_grad, binary_cross_entropy_vjp),
}
#: The functions that stand in the place of formulas.
INSTEAD = {getattr(module, f.__name__): f for module, fs in _OWN.items() for f in fs}
#: Formulas in the spelling of textbooks, whose changes are tried as causes as well.
TEXTBOOK: dict[Any, Any] = {
    activations.sigmoid_deriv: sigmoid_deriv_by_exponentials,
    activations.silu_deriv: silu_deriv_by_exponentials,
    activations.selu: selu_in_two_parts,
    activations.mish_deriv: mish_deriv_by_exponentials,
    activations.softplus: softplus_as_it_stands,
    activations.log_softmax: log_softmax_as_it_stands,
    activations.softmax_vjp: softmax_vjp_by_products,
    attention.scaled_dot_product_attention_vjp: attention_vjp_by_logsumexp,
    recurrent_linear_attention: recurrent_linear_attention_by_chunks,
    losses.sigmoid_focal_loss: focal_loss_of_both_classes,
    losses.gaussian_kl: gaussian_kl_by_variances,
    losses.binary_cross_entropy: binary_cross_entropy_of_signs,
    normalization.layer_norm: layer_norm_by_sums,
    losses.log_odds: log_odds_as_they_stand,
    training.min_snr_weight: min_snr_weight_by_ratios,
    next_token_probabilities: next_token_probabilities_by_logits,
    positions.sinusoidal: sinusoidal_by_channels,
}
#: The probabilities, from their logarithms.
BY_LOGSUMEXP: dict[Any, Any] = {
    activations.softmax: softmax_by_logsumexp,
    attention.weights_and_lse: weights_by_logsumexp,
}


# Attention.


def forgetting_bias(log_forget: Any, *, q_offset: int = 0, T: int | None = None) -> Any:
    """Return differences of cumulative sums."""
    z = np.add.accumulate(log_forget, -1)
    S = z.shape[-1]
    places = q_offset + np.arange(S - q_offset if T is None else T)
    out = z[..., np.maximum(places, 0), None] - z[..., None, :]
    return np.where(np.arange(S) < places[:, None], out, out.dtype.type(0))


def gradient_of_decays_by_sums(
    dout: Any,
    q: Any,
    k: Any,
    v: Any,
    decay: Any = None,
    beta: Any = None,
    state: Any = None,
    **options: Any,
) -> Any:
    """Return the vjp of linear attention; the decays have running sums of q dq - k dk."""
    inputs = q, k, v, decay, beta, state
    grads = attention.recurrent_linear_attention_vjp(dout, *inputs, **options)
    if decay is None or beta is not None or options.get("segment_ids") is not None:
        return grads  # Corrections of the state, or its end, have no such sums.
    dq, dk, dv, ddecay, *rest = grads
    terms = q * dq - k * dk
    if dout[1] is not None:
        _, last = attention.recurrent_linear_attention(*inputs, **options)
        at_the_end = np.sum(dout[1] * last, axis=-1)[..., None, :]
        terms = np.concatenate([terms[..., :-1, :], terms[..., -1:, :] + at_the_end], axis=-2)
    sums = np.flip(np.add.accumulate(np.flip(terms, -2), -2), -2)
    ddecay = sums if decay.shape == sums.shape else np.sum(sums, axis=-1, keepdims=True)
    return dq, dk, dv, ddecay, *rest


# Gradients through the maximum.


def through_maximum(
    formula: Any, dout: Any, x: Any, *others: Any, total: bool = False, **options: Any
) -> Any:
    """
    Return a vjp as autograd computes it, which sends a gradient through the maximum, too.

    It is the total, dout or 0, less the sum of the gradients: 0, but for its rounding.
    """
    axis = options.get("axis", -1)
    grads = formula(dout, x, *others, **options)
    grad, *rest = grads if isinstance(grads, tuple) else (grads,)
    own = (np.expand_dims(dout, axis) if total else 0) - np.sum(grad, axis=axis, keepdims=True)
    here = np.zeros(grad.shape, bool)
    np.put_along_axis(here, np.expand_dims(x.argmax(axis), axis), True, axis)
    grad = np.where(here, grad + own, grad)
    return (grad, *rest) if rest else grad


# Tangents.


def log_softmax_jvp(x: Any, dx: Any, *, axis: int = -1) -> Any:
    """Return dx minus its mean, by the exponential of a logarithm of p."""
    y = activations.log_softmax(x, axis=axis)
    return dx - np.sum(np.exp(y) * dx, axis=axis, keepdims=True)


def _shifted(x: Any, dx: Any, axis: int) -> tuple[Any, Any, Any]:
    """Return the exponentials of x less its maximum, their sum, and the tangent of that."""
    at = np.expand_dims(x.argmax(axis), axis)
    e = np.exp(x - np.take_along_axis(x, at, axis))
    return e, np.sum(e, axis=axis, keepdims=True), dx - np.take_along_axis(dx, at, axis)


def softmax_jvp_shifted(x: Any, dx: Any, *, axis: int = -1) -> Any:
    """Return the tangent of softmax by the quotient rule, with the maximum's subtracted first."""
    e, total, dz = _shifted(x, dx, axis)
    return e * dz / total - e * np.sum(e * dz, axis=axis, keepdims=True) / (total * total)


def log_softmax_jvp_shifted(x: Any, dx: Any, *, axis: int = -1) -> Any:
    e, total, dz = _shifted(x, dx, axis)
    return dz - np.sum(e * dz, axis=axis, keepdims=True) / total


def logsumexp_jvp(x: Any, dx: Any, *, axis: int = -1) -> Any:
    """Return the maximum's tangent plus the mean of the remainders."""
    e, total, dz = _shifted(x, dx, axis)
    mean = np.sum(e * dz, axis=axis, keepdims=True) / total
    return (dx - dz + mean).take(0, axis)


def attention_jvp(
    primals: Any,
    tangents: Any,
    *,
    scale: Any = None,
    softcap: Any = None,
    dropout: Any = None,
    **options: Any,
) -> Any:
    """Return the tangent of attention by its textbook formula."""
    q, k, v = primals
    dq, dk, dv = (
        np.zeros_like(a) if d is None else d for a, d in zip(primals, tangents, strict=True)
    )
    _, p = scaled_dot_product_attention(
        q, k, v, scale=scale, softcap=softcap, return_weights=True, **options
    )
    ds = scaled_products(dq, k, scale) + scaled_products(q, dk, scale)
    if softcap is not None:
        t = np.tanh(scaled_products(q, k, scale) / softcap)
        ds = ds * (1 - t * t)
    dp = p * (ds - np.sum(p * ds, axis=-1, keepdims=True))
    drop = 1 if dropout is None else dropout
    return (dp * drop) @ for_all_queries(v, q) + (p * drop) @ for_all_queries(dv, q)


def _gates(primals: Any, tangents: Any, count: int) -> tuple[list[Any], list[Any]]:
    """Return the pre-activations from x and from h, gate by gate, and their tangents."""
    if len(primals) != 6 or any(a is None for a in (*primals, *tangents)):
        raise NotImplementedError
    (x, h, w, r, b, d), (dx, dh, dw, dr, db, dd) = primals, tangents
    sums = linear(x, w, b), linear(h, r, d)
    moved = linear(dx, w) + linear(x, dw, db), linear(dh, r) + linear(h, dr, dd)
    return [np.split(s, count, -1) for s in sums], [np.split(s, count, -1) for s in moved]


def gru_cell_jvp(primals: Any, tangents: Any) -> Any:
    """Return the tangent of a step of a GRU."""
    h, dh = primals[1], tangents[1]
    sums, moved = _gates(primals, tangents, 3)
    ((ri, zi, ni), (rh, zh, nh)), ((dri, dzi, dni), (drh, dzh, dnh)) = sums, moved
    r, z = sigmoid(ri + rh), sigmoid(zi + zh)
    n = np.tanh(ni + r * nh)
    dr, dz = r * (1 - r) * (dri + drh), z * (1 - z) * (dzi + dzh)
    dn = (1 - n * n) * (dni + dr * nh + r * dnh)
    return dn - dz * n - z * dn + dz * h + z * dh


def lstm_cell_jvp(primals: Any, tangents: Any) -> Any:
    """Return the tangents of a step of an LSTM."""
    if primals[2] is None or tangents[2] is None:
        raise NotImplementedError
    c, dc = primals[2], tangents[2]
    values, steps = ((*given[:2], *given[3:]) for given in (primals, tangents))
    sums, moved = ([a + b for a, b in zip(*x, strict=True)] for x in _gates(values, steps, 4))
    i, f, o = (sigmoid(sums[k]) for k in (0, 1, 3))
    g = np.tanh(sums[2])
    di, df, do = (s * (1 - s) * moved[k] for s, k in ((i, 0), (f, 1), (o, 3)))
    t = np.tanh(f * c + i * g)
    dc = df * c + f * dc + di * g + i * (1 - g * g) * moved[2]
    return do * t + o * (1 - t * t) * dc, dc
