"""
Formulas of the Transformer: networks, blocks, stacks and models.

Tokens are rows x (..., T, D) of T positions. Parameters p are named tuples, and gradients are
returned in the same type. The kind of a block is a dictionary o of its options; masks, dropout and
whatever else belongs to one pass are another one, `call`. Backward passes compute the intermediate
results of the forward pass again where they need them.
"""

from typing import NamedTuple

import numpy as np

from .activations import (
    activation_of,
    log_softmax,
    logsumexp,
    relu,
    sigmoid,
    sigmoid_deriv,
    sigmoid_vjp,
    silu,
    silu_deriv,
    softmax,
    softmax_vjp,
    softplus,
    softplus_deriv,
)
from .attention import (
    AttentionParams,
    causal_self_attention,
    cross_attention,
    dense_vjp,
    document_mask,
    expanded_operands,
    latent_forward,
    latent_gradients,
    latent_scale,
    latent_steps,
    merge_heads,
    multi_head_gradients,
    multi_head_steps,
    padding_mask,
    recurrent_linear_attention,
    recurrent_linear_attention_vjp,
    repeat_kv,
    repeat_kv_vjp,
    scaled_dot_product_attention,
    self_attention,
    self_attention_vjp,
    split_heads,
)
from .convolution import causal_conv, causal_conv_vjp
from .losses import cross_entropy, cross_entropy_grad
from .neurons import embedding_vjp, linear, linear_vjp
from .normalization import (
    l2_norm,
    l2_norm_vjp,
    layer_norm,
    layer_norm_vjp,
    rms_norm,
    rms_norm_vjp,
)
from .positions import (
    alibi_bias,
    alibi_slopes,
    rope_attention_factor,
    rope_frequencies,
    rope_tables,
    sinusoidal,
    t5_bias,
    t5_bias_vjp,
)
from .propagation import lecun_normal

IGNORED = -100  # a target that counts nothing
T5_BUCKETS = 32

#: Kinds of gated units, and the activations of their gates.
GATES = {
    "swiglu": "silu",
    "geglu": "gelu",
    "geglu_tanh": "gelu_tanh",
    "reglu": "relu",
    "glu": "sigmoid",
    "bilinear": "identity",
}
UNITS = {gate: unit for unit, gate in GATES.items()}

# == params


class NormParams(NamedTuple):
    """Weight and bias of a norm, without bias of an RMS norm."""

    weight: np.ndarray
    bias: np.ndarray = None


class FeedForwardParams(NamedTuple):
    """Weights and biases of a network of two layers."""

    w1: np.ndarray
    b1: np.ndarray
    w2: np.ndarray
    b2: np.ndarray


class GatedFeedForwardParams(NamedTuple):
    """Weights and biases of a gated network."""

    w_gate: np.ndarray
    w_up: np.ndarray
    w_down: np.ndarray
    b_gate: np.ndarray = None
    b_up: np.ndarray = None
    b_down: np.ndarray = None


class ExpertParams(NamedTuple):
    """Weights and biases of gated networks, one after the other along the first axis."""

    w_gate: np.ndarray
    w_up: np.ndarray
    w_down: np.ndarray
    b_gate: np.ndarray = None
    b_up: np.ndarray = None
    b_down: np.ndarray = None


class EncoderBlockParams(NamedTuple):
    """Parameters of an encoder block; most have no norms of the outputs."""

    attention: AttentionParams
    norm1: NormParams
    feed_forward: FeedForwardParams
    norm2: NormParams
    output_norm1: NormParams = None
    output_norm2: NormParams = None


class DecoderBlockParams(NamedTuple):
    """Parameters of a decoder block."""

    self_attention: AttentionParams
    norm1: NormParams
    cross_attention: AttentionParams
    norm2: NormParams
    feed_forward: FeedForwardParams
    norm3: NormParams


class LanguageModelParams(NamedTuple):
    """Parameters of a language model; where the head is None, it is the embeddings."""

    embedding: np.ndarray
    positions: np.ndarray
    blocks: tuple
    norm: NormParams
    head: np.ndarray
    embedding_in: np.ndarray = None
    embedding_out: np.ndarray = None


class SequenceClassifierParams(NamedTuple):
    """Parameters of a classifier of texts."""

    class_token: np.ndarray
    embedding: np.ndarray
    positions: np.ndarray
    blocks: tuple
    norm: NormParams
    w_head: np.ndarray
    b_head: np.ndarray


class EncoderDecoderParams(NamedTuple):
    """Parameters of an encoder-decoder model, whose halves share the embeddings."""

    embedding: np.ndarray
    source_positions: np.ndarray
    positions: np.ndarray
    encoder: tuple
    encoder_norm: NormParams
    decoder: tuple
    norm: NormParams
    head: np.ndarray


# == feed_forward


def two_layers(x, w1, b1, w2, b2):
    """
    Two layers with ReLU, the same for every position.

    >>> w1, w2 = np.array([[1.0], [-1.0]]), np.array([[1.0, 1.0]])
    >>> x = np.array([[-3.0], [2.0]])
    >>> print(two_layers(x, w1, np.zeros(2), w2, np.zeros(1)))  # relu(x) + relu(-x)
    [[3.]
     [2.]]
    """
    return relu(x @ w1.T + b1) @ w2.T + b2


def two_layers_vjp(dout, x, w1, b1, w2, b2):
    """
    Backward pass, for rows of a matrix.

    >>> w1, w2 = np.array([[1.0], [-1.0]]), np.array([[1.0, 1.0]])
    >>> x, dout = np.array([[-3.0], [2.0]]), np.ones((2, 1))
    >>> dx, dw1, db1, dw2, db2 = two_layers_vjp(dout, x, w1, np.zeros(2), w2, np.zeros(1))
    >>> print(dx.ravel(), dw1.ravel(), dw2)
    [-1.  1.] [ 2. -3.] [[2. 3.]]
    """
    a = x @ w1.T + b1
    h = relu(a)
    da = (dout @ w2) * (a > 0)
    return da @ w1, da.T @ x, np.sum(da, axis=0), dout.T @ h, np.sum(dout, axis=0)


def gated_unit(x, w_gate, w_up, w_down):
    """
    Two layers gated by SiLU, as in LLaMA.

    >>> x = np.array([[1.0], [-1.0]])
    >>> w_gate, w_up, w_down = np.array([[100.0]]), np.array([[3.0]]), np.array([[0.01]])
    >>> print(np.round(gated_unit(x, w_gate, w_up, w_down), 4))  # open, closed
    [[3.]
     [0.]]
    """
    return (silu(x @ w_gate.T) * (x @ w_up.T)) @ w_down.T


def feed_forward(x, params, *, activation="relu"):
    """
    Two layers with any activation between them.

    >>> from dlref.formulas.transformer import FeedForwardParams
    >>> params = FeedForwardParams(np.array([[1.0], [-1.0]]), None, np.array([[1.0, 1.0]]), None)
    >>> print(feed_forward(np.array([[-3.0], [2.0]]), params))
    [[3.]
     [2.]]
    """
    p = params
    f, _ = activation_of(activation)
    h = f(linear(x, p.w1, p.b1))
    return linear(h, p.w2, p.b2)


def feed_forward_vjp(dout, x, params, *, activation="relu"):
    """
    Backward pass: of the second layer, the activation, the first layer.

    >>> from dlref.formulas.transformer import FeedForwardParams
    >>> params = FeedForwardParams(np.array([[1.0], [-1.0]]), None, np.array([[5.0, 7.0]]), None)
    >>> dx, dparams = feed_forward_vjp(np.array([[1.0]]), np.array([[2.0]]), params)
    >>> print(dx, dparams.w1.ravel(), dparams.w2)
    [[5.]] [10.  0.] [[2. 0.]]
    """
    p = params
    f, f_deriv = activation_of(activation)
    a = linear(x, p.w1, p.b1)
    dh, dw2, db2 = dense_vjp(dout, f(a), p.w2, p.b2)
    da = dh * f_deriv(a)
    dx, dw1, db1 = dense_vjp(da, x, p.w1, p.b1)
    return dx, type(p)(w1=dw1, b1=db1, w2=dw2, b2=db2)


def gated_feed_forward(x, params, *, activation="silu"):
    """
    The hidden units are multiplied by a gate.

    >>> from dlref.formulas.transformer import GatedFeedForwardParams
    >>> x, one = np.array([[3.0], [-4.0]]), np.ones((1, 1))
    >>> params = GatedFeedForwardParams(w_gate=one, w_up=one, w_down=one)
    >>> print(gated_feed_forward(x, params, activation="identity"))
    [[ 9.]
     [16.]]
    """
    p = params
    f, _ = activation_of(activation)
    h = f(linear(x, p.w_gate, p.b_gate)) * linear(x, p.w_up, p.b_up)
    return linear(h, p.w_down, p.b_down)


def gated_feed_forward_vjp(dout, x, params, *, activation="silu"):
    """
    Backward pass: the product rule for gate and unit.

    >>> from dlref.formulas.transformer import GatedFeedForwardParams
    >>> x, one = np.array([[3.0], [-4.0]]), np.ones((1, 1))
    >>> params = GatedFeedForwardParams(w_gate=one, w_up=one, w_down=one)
    >>> dx, dparams = gated_feed_forward_vjp(np.ones((2, 1)), x, params, activation="identity")
    >>> print(dx.ravel(), dparams.w_down)
    [ 6. -8.] [[25.]]
    """
    p = params
    f, f_deriv = activation_of(activation)
    gate, up = linear(x, p.w_gate, p.b_gate), linear(x, p.w_up, p.b_up)
    dh, dw_down, db_down = dense_vjp(dout, f(gate) * up, p.w_down, p.b_down)
    dup = dh * f(gate)
    dgate = dh * up * f_deriv(gate)
    dx_up, dw_up, db_up = dense_vjp(dup, x, p.w_up, p.b_up)
    dx_gate, dw_gate, db_gate = dense_vjp(dgate, x, p.w_gate, p.b_gate)
    weights = {"w_gate": dw_gate, "w_up": dw_up, "w_down": dw_down}
    return dx_up + dx_gate, type(p)(**weights, b_gate=db_gate, b_up=db_up, b_down=db_down)


# == router

TINY = 1e-20  # so that sigmoids that are all 0 have weights


class Routing(NamedTuple):
    """Numbers of the chosen experts, their weights, and the scores of all experts."""

    experts: np.ndarray
    weights: np.ndarray
    scores: np.ndarray


def best_experts(x, weight, k):
    """
    The k most probable experts, and their probabilities, which are made to sum to 1.

    >>> x, weight = np.log([[0.5, 0.1, 0.4]]), np.eye(3)
    >>> experts, weights = best_experts(x, weight, k=2)
    >>> print(experts, np.round(weights, 3))
    [[0 2]] [[0.556 0.444]]
    """
    p = softmax(x @ weight.T)
    experts = np.argsort(-p, axis=-1, kind="stable")[..., :k]
    chosen = np.take_along_axis(p, experts, axis=-1)
    return experts, chosen / np.sum(chosen, axis=-1, keepdims=True)


def router_scores(z, score):
    """Scores of all experts, from their logits."""
    return sigmoid(z) if score == "sigmoid" else softmax(z)


def router_scores_vjp(dout, z, score):
    """Backward pass."""
    return sigmoid_vjp(dout, z) if score == "sigmoid" else softmax_vjp(dout, z)


def within_best_groups(scores, score, groups, top_groups):
    """Minus infinity for the experts outside the best groups."""
    members = scores.reshape(*scores.shape[:-1], groups, -1)
    count = 2 if score == "sigmoid" else 1
    best = np.sum(np.sort(members, axis=-1)[..., -count:], axis=-1)
    kept = np.argsort(-best, axis=-1, kind="stable")[..., :top_groups]
    inside = np.any(kept[..., None] == np.arange(groups), axis=-2)
    return np.where(inside[..., None], members, -np.inf).reshape(scores.shape)


def choose_experts(scores, k, score, correction, groups, top_groups):
    """Numbers of the k experts with the largest corrected scores."""
    s = scores.real if correction is None else scores.real + correction
    if groups > 1:
        s = within_best_groups(s, score, groups, top_groups)
    return np.argsort(-s, axis=-1, kind="stable")[..., :k]


def top_k_router(
    x, weight, *, k, bias=None, score="softmax", correction=None, groups=1, top_groups=1,
    normalize=True, scale=1.0,
):  # fmt: skip
    """
    Choose experts by their scores, and weigh them by their scores, with all options.

    >>> from dlref.formulas.transformer import Routing
    >>> x, correction = np.log([[0.5, 0.1, 0.4]]), np.array([0, 1, 0])
    >>> routing = top_k_router(x, np.eye(3), k=1, correction=correction, normalize=False)
    >>> print(routing.experts, routing.weights)
    [[1]] [[0.1]]
    """
    scores = router_scores(linear(x, weight, bias), score)
    experts = choose_experts(scores, k, score, correction, groups, top_groups)
    chosen = np.take_along_axis(scores, experts, axis=-1)
    if normalize or score == "softmax_of_top":
        chosen = chosen / (np.sum(chosen, axis=-1, keepdims=True) + TINY)
    return Routing(experts, scale * chosen, scores)


def top_k_router_vjp(
    dout, x, weight, *, k, bias=None, score="softmax", correction=None, groups=1, top_groups=1,
    normalize=True, scale=1.0,
):  # fmt: skip
    """
    Backward pass: nothing flows through the choice.

    >>> x = np.log([[0.5, 0.1, 0.4]])
    >>> dout = None, np.array([[1.0]]), None  # of the weights alone
    >>> dx, dweight = top_k_router_vjp(dout, x, np.eye(3), k=1, normalize=False)
    >>> print(dx)
    [[ 0.25 -0.05 -0.2 ]]
    """
    _, dweights, dscores = dout
    z = linear(x, weight, bias)
    scores = router_scores(z, score)
    experts = choose_experts(scores, k, score, correction, groups, top_groups)
    g = np.zeros_like(scores) if dscores is None else dscores
    if dweights is not None:
        u = scale * dweights
        if normalize or score == "softmax_of_top":
            chosen = np.take_along_axis(scores, experts, axis=-1)
            total = np.sum(chosen, axis=-1, keepdims=True) + TINY
            u = (u - np.sum(u * chosen, axis=-1, keepdims=True) / total) / total
        g = g + dense_weights(u, experts, scores.shape[-1])
    return linear_vjp(router_scores_vjp(g, z, score), x, weight, bias)


def dense_weights(weights, experts, n):
    """A weight for each of n experts, 0 for those that are not chosen."""
    is_chosen = experts[..., None] == np.arange(n)
    return np.sum(np.where(is_chosen, weights[..., None], 0), axis=-2)


def expert_shares(scores, experts, shares):
    """Share of the tokens, or of the choices, that each expert gets."""
    n = scores.shape[-1]
    counts = np.bincount(np.ravel(experts), minlength=n)
    total = scores.size // n if shares == "tokens" else np.size(experts)
    return (counts / total).astype(scores.real.dtype)


def load_balancing_loss(scores, experts, *, shares="tokens"):
    """
    Shares of tokens times mean probabilities, times the number of experts.

    >>> scores, experts = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0], [0]])
    >>> print(load_balancing_loss(scores, experts))  # all tokens go to one of two experts
    2.0
    """
    n = scores.shape[-1]
    mean = np.mean(scores.reshape(-1, n), axis=0)
    return n * np.sum(expert_shares(scores, experts, shares) * mean)


def load_balancing_loss_grad(scores, experts, *, shares="tokens"):
    """
    Gradient: the shares are counts, and constant.

    >>> scores, experts = np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([[0], [0]])
    >>> print(load_balancing_loss_grad(scores, experts))
    [[1. 0.]
     [1. 0.]]
    """
    n = scores.shape[-1]
    tokens = scores.size // n
    f = expert_shares(scores, experts, shares)
    return np.broadcast_to(n * f / tokens, scores.shape)


def router_z_loss(logits):
    """
    Mean of the squared log-sum-exp.

    >>> print(router_z_loss(np.array([[3.0], [1.0]])))
    5.0
    """
    return np.mean(logsumexp(logits, axis=-1) ** 2)


def router_z_loss_grad(logits):
    """
    Gradient: the derivative of the log-sum-exp is the softmax.

    >>> print(router_z_loss_grad(np.array([[3.0], [1.0]])))
    [[3.]
     [1.]]
    """
    sums = logsumexp(logits, axis=-1)[..., None]
    return 2 * sums * softmax(logits) / sums.size


# == experts


def one_token_through_experts(x, router, experts, k):
    """
    The sum of the best k networks; `experts` are functions.

    >>> x, router = np.array([1.0, 0.0]), np.log([[3.0, 1.0], [1.0, 1.0], [0.5, 1.0]])
    >>> experts = [lambda x: 10 * x, lambda x: 100 * x, lambda x: 1000 * x]
    >>> print(one_token_through_experts(x, router, experts, k=2))  # 3/4 and 1/4
    [32.5  0. ]
    """
    scores = softmax(router @ x)
    chosen = np.argsort(-scores)[:k]
    weights = scores[chosen] / np.sum(scores[chosen])
    return sum(w * experts[e](x) for w, e in zip(weights, chosen, strict=True))


def expert_units(gate, up, activation, limit, shift, beta):
    """Hidden units of an expert."""
    f, _ = activation_of(GATES[activation])
    if limit is not None:
        gate = np.where(gate.real <= limit, gate, limit)
        up = np.where(up.real <= limit, np.where(up.real >= -limit, up, -limit), limit)
    return f(beta * gate) / beta * (up + shift)


def expert_units_vjp(dout, gate, up, activation, limit, shift, beta):
    """Backward pass: beyond the limits there is no gradient."""
    f, f_deriv = activation_of(GATES[activation])
    gate_inside = up_inside = True
    if limit is not None:
        gate_inside = gate <= limit
        up_inside = np.abs(up) <= limit
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    dgate = dout * f_deriv(beta * gate) * (up + shift)
    dup = dout * f(beta * gate) / beta
    return np.where(gate_inside, dgate, 0), np.where(up_inside, dup, 0)


def of_expert(p, e):
    """The parameters of one expert."""
    return type(p)(*(None if a is None else a[e] for a in p))


def expert(x, p, units):
    """The network of one expert; `units` are the options of its hidden units."""
    h = expert_units(linear(x, p.w_gate, p.b_gate), linear(x, p.w_up, p.b_up), **units)
    return linear(h, p.w_down, p.b_down)


def expert_vjp(dout, x, p, units):
    """Backward pass."""
    gate, up = linear(x, p.w_gate, p.b_gate), linear(x, p.w_up, p.b_up)
    dh, dw_down, db_down = dense_vjp(dout, expert_units(gate, up, **units), p.w_down, p.b_down)
    dgate, dup = expert_units_vjp(dh, gate, up, **units)
    dx_gate, dw_gate, db_gate = dense_vjp(dgate, x, p.w_gate, p.b_gate)
    dx_up, dw_up, db_up = dense_vjp(dup, x, p.w_up, p.b_up)
    grads = type(p)(
        w_gate=dw_gate, w_up=dw_up, w_down=dw_down, b_gate=db_gate, b_up=db_up, b_down=db_down
    )
    return dx_gate + dx_up, grads


def shared_expert(x, shared, shared_gate):
    """The network that all tokens go through, with its gate."""
    y = gated_feed_forward(x, shared)
    return y if shared_gate is None else sigmoid(linear(x, shared_gate)) * y


def shared_expert_vjp(dout, x, shared, shared_gate):
    """Backward pass."""
    if shared_gate is None:
        return *gated_feed_forward_vjp(dout, x, shared), None
    gate = linear(x, shared_gate)
    dx, dshared = gated_feed_forward_vjp(sigmoid(gate) * dout, x, shared)
    dopen = np.sum(dout * gated_feed_forward(x, shared), axis=-1, keepdims=True)
    dx_gate, dshared_gate = linear_vjp(sigmoid_vjp(dopen, gate), x, shared_gate)
    return dx + dx_gate, dshared, dshared_gate


def mixture_of_experts(
    x, weight, params, *, k, score="softmax", correction=None, groups=1, top_groups=1,
    normalize=True, scale=1.0, router_bias=None, activation="swiglu", limit=None, shift=0.0,
    beta=1.0, shared=None, shared_gate=None,
):  # fmt: skip
    """
    The weighted sum of all experts; most weights are 0.

    >>> from dlref.formulas.transformer import ExpertParams
    >>> gate, up = np.array([[[1.0, 0.0]], [[0.0, 1.0]]]), np.array([[[10.0, 0.0]], [[0.0, 100.0]]])
    >>> params = ExpertParams(gate, up, np.ones((2, 2, 1)))
    >>> print(mixture_of_experts(np.eye(2), np.eye(2), params, k=1, activation="reglu"))
    [[ 10.  10.]
     [100. 100.]]
    """
    units = {"activation": activation, "limit": limit, "shift": shift, "beta": beta}
    experts, weights, _ = top_k_router(
        x, weight, k=k, bias=router_bias, score=score, correction=correction, groups=groups,
        top_groups=top_groups, normalize=normalize, scale=scale,
    )  # fmt: skip
    n = len(weight)
    w = dense_weights(weights, experts, n)
    out = sum(w[..., e, None] * expert(x, of_expert(params, e), units) for e in range(n))
    return out if shared is None else out + shared_expert(x, shared, shared_gate)


def mixture_of_experts_vjp(
    dout, x, weight, params, *, k, score="softmax", correction=None, groups=1, top_groups=1,
    normalize=True, scale=1.0, router_bias=None, activation="swiglu", limit=None, shift=0.0,
    beta=1.0, shared=None, shared_gate=None,
):  # fmt: skip
    """
    Backward pass: to the chosen experts, weighted, and to the router.

    >>> from dlref.formulas.transformer import ExpertParams
    >>> gate, up = np.array([[[1.0, 0.0]], [[0.0, 1.0]]]), np.array([[[10.0, 0.0]], [[0.0, 100.0]]])
    >>> params, x = ExpertParams(gate, up, np.ones((2, 2, 1))), np.array([[1.0, 0.0]])
    >>> options = {"k": 1, "activation": "reglu"}
    >>> dout, weight = np.ones((1, 2)), np.eye(2)
    >>> dx, dweight, dparams = mixture_of_experts_vjp(dout, x, weight, params, **options)
    >>> print(dx, dparams.w_down.ravel())  # the second expert is not asked
    [[40.  0.]] [10. 10.  0.  0.]
    """
    units = {"activation": activation, "limit": limit, "shift": shift, "beta": beta}
    routing = {
        "k": k, "bias": router_bias, "score": score, "correction": correction, "groups": groups,
        "top_groups": top_groups, "normalize": normalize, "scale": scale,
    }  # fmt: skip
    experts, weights, _ = top_k_router(x, weight, **routing)
    n = len(weight)
    w = dense_weights(weights, experts, n)
    dx, dw, dexperts = np.zeros_like(x), [], []
    for e in range(n):
        own = of_expert(params, e)
        dw.append(np.sum(dout * expert(x, own, units), axis=-1))
        dx_expert, dexpert = expert_vjp(w[..., e, None] * dout, x, own, units)
        dx = dx + dx_expert
        dexperts.append(dexpert)
    dparams = (None if g[0] is None else np.stack(g) for g in zip(*dexperts, strict=True))
    dweights = np.take_along_axis(np.stack(dw, axis=-1), experts, axis=-1)
    dx_router, dweight, *drouter_bias = top_k_router_vjp(
        (None, dweights, None), x, weight, **routing
    )
    dx = dx + dx_router
    dmore = []
    if shared is not None:
        dx_shared, *dmore = shared_expert_vjp(dout, x, shared, shared_gate)
        dx = dx + dx_shared
    grads = dx, dweight, type(params)(*dparams), *drouter_bias, *dmore
    return tuple(grad for grad in grads if grad is not None)


# == options

#: Fields of the options of a block, and their defaults.
BLOCK_OPTIONS = {
    "num_heads": None,
    "num_kv_heads": None,
    "norm_first": False,
    "norm": None,
    "activation": "relu",
    "is_causal": None,
    "rope": None,
    "rope_interleaved": True,
    "window": None,
    "chunk": None,
    "scale": None,
    "cross_scale": None,
    "softcap": None,
    "eps": 1e-5,
    "inner_eps": None,
    "norm_offset": 0.0,
    "norm_after_rope": False,
    "clip_qkv": None,
    "delta_heads": None,
    "parallel": False,
    "residual_scale": 1.0,
    "router": None,
}


def inner_eps(o):
    """The epsilon of the norms inside attention: of queries, keys and latents."""
    return o["eps"] if o["inner_eps"] is None else o["inner_eps"]


def kind_of_block(options, keywords, causal):
    """The options of a block as a dictionary; keywords change those that are given."""
    o = dict(BLOCK_OPTIONS)
    if options is not None:
        o |= {name: getattr(options, name) for name in BLOCK_OPTIONS}
    o |= keywords
    o["is_causal"] = causal if o["is_causal"] is None else o["is_causal"]
    return o


def call_with(
    mask=None, bias=None, q_offset=0, dropout=None, attention_dropout=None, memory_mask=None
):
    """The options of one pass through blocks, which do not depend on their kind."""
    return {
        "mask": mask,
        "bias": bias,
        "q_offset": q_offset,
        "dropout": dropout,
        "attention_dropout": attention_dropout,
        "memory_mask": memory_mask,
    }


# == blocks


def pre_norm(x, f, norm):
    """
    A sub-layer of GPT and LLaMA: the sum is never normalized.

    >>> x = np.array([1.0, 3.0])
    >>> print(pre_norm(x, f=lambda z: 10 * z, norm=lambda z: z - np.mean(z)))
    [-9. 13.]
    """
    return x + f(norm(x))


def post_norm(x, f, norm):
    """
    A sub-layer of 2017: the sum is normalized.

    >>> x = np.array([1.0, 3.0])
    >>> print(post_norm(x, f=lambda z: 10 * z, norm=lambda z: z - np.mean(z)))
    [-11.  11.]
    """
    return norm(x + f(x))


def pre_norm_block(x, params, heads):
    """
    A block with the norms first and ReLU, for one sequence.

    >>> zero, one, norm = np.zeros((2, 2)), np.eye(2), (np.ones(2), np.zeros(2))
    >>> params = (zero, zero, one, one), norm, (one, np.zeros(2), one, np.zeros(2)), norm
    >>> x = np.array([[1.0, 3.0], [3.0, 5.0]])
    >>> print(np.round(pre_norm_block(x, params, heads=1), 4))
    [[0. 5.]
     [2. 7.]]
    """
    attention, norm1, network, norm2 = params
    y = x + self_attention(layer_norm(x, *norm1), *attention, heads)
    return y + two_layers(layer_norm(y, *norm2), *network)


def pre_norm_block_vjp(dout, x, params, heads):
    """
    Backward pass: each sum hands its cotangent to both of its terms.

    >>> zero, one, norm = np.zeros((2, 2)), np.eye(2), (np.ones(2), np.zeros(2))
    >>> params = (zero, zero, one, one), norm, (one, np.zeros(2), one, np.zeros(2)), norm
    >>> x, dout = np.array([[1.0, 3.0], [3.0, 5.0]]), np.ones((2, 2))
    >>> dx, (dattention, dnorm1, dnetwork, dnorm2) = pre_norm_block_vjp(dout, x, params, heads=1)
    >>> print(np.round(dx, 4))
    [[1. 1.]
     [1. 1.]]
    >>> print(np.round(dnetwork[2], 4))
    [[0. 2.]
     [0. 2.]]
    """
    attention, norm1, network, norm2 = params
    z1 = layer_norm(x, *norm1)
    y = x + self_attention(z1, *attention, heads)
    z2 = layer_norm(y, *norm2)
    dz2, *dnetwork = two_layers_vjp(dout, z2, *network)
    dy_norm, *dnorm2 = layer_norm_vjp(dz2, y, *norm2)
    dy = dout + dy_norm
    dz1, *dattention = self_attention_vjp(dy, z1, *attention, heads)
    dx_norm, *dnorm1 = layer_norm_vjp(dz1, x, *norm1)
    return dy + dx_norm, (dattention, dnorm1, dnetwork, dnorm2)


def pre_norm_decoder_block(x, memory, params, heads):
    """
    A decoder block looks at its own text, then at the memory.

    >>> zero, one, norm = np.zeros((2, 2)), np.eye(2), (np.ones(2), np.zeros(2))
    >>> own, cross, network = (zero,) * 4, (zero, zero, one, one), (zero, np.zeros(2)) * 2
    >>> params = own, norm, cross, norm, network, norm
    >>> x, memory = np.array([[1.0, 3.0], [5.0, 1.0]]), np.array([[10.0, 0.0], [20.0, 0.0]])
    >>> print(pre_norm_decoder_block(x, memory, params, heads=1))  # adds the mean of the memory
    [[16.  3.]
     [20.  1.]]
    """
    own, norm1, cross, norm2, network, norm3 = params
    y = x + causal_self_attention(layer_norm(x, *norm1), *own, heads)
    w = y + cross_attention(layer_norm(y, *norm2), memory, *cross, heads)
    return w + two_layers(layer_norm(w, *norm3), *network)


def dropout_mask(rng, shape, *, rate, dtype=np.float64):
    """
    Factors: 0 with probability `rate`, else scaled up so that the mean is 1.

    >>> factors = dropout_mask(np.random.default_rng(0), (4, 25), rate=0.2)
    >>> print(np.unique(factors))
    [0.   1.25]
    """
    kept = rng.random(shape) >= rate
    return np.where(kept, 1 / (1 - rate) if rate < 1 else 0.0, 0.0).astype(dtype)


def is_layer_norm(p, o):
    """Whether a norm is a layer norm: as the options say, or if it has a bias."""
    return o["norm"] == "layer" or (o["norm"] is None and p.bias is not None)


def normalize(x, p, o):
    """The norm of a block; without parameters, None, the identity."""
    if p is None:
        return x
    if is_layer_norm(p, o):
        weight = None if p.weight is None else p.weight + x.dtype.type(o["norm_offset"])
        return layer_norm(x, weight, p.bias, eps=o["eps"])
    return rms_norm(x, p.weight, eps=o["eps"], weight_offset=o["norm_offset"])


def normalize_vjp(dout, x, p, o):
    """Backward pass, with the gradients of the parameters."""
    if p is None:
        return dout, None
    if is_layer_norm(p, o):
        weight = None if p.weight is None else p.weight + x.dtype.type(o["norm_offset"])
        grads = layer_norm_vjp(dout, x, weight, p.bias, eps=o["eps"])
    else:
        offset = o["norm_offset"]
        grads = rms_norm_vjp(dout, x, p.weight, eps=o["eps"], weight_offset=offset)
    dx, *rest = grads if isinstance(grads, tuple) else (grads,)
    dweight = None if p.weight is None else rest.pop(0)
    dbias = None if p.bias is None else rest.pop(0)
    return dx, type(p)(weight=dweight, bias=dbias)


def gated_delta_steps(x, p, key_heads, eps):
    """A gated delta rule in place of attention (Qwen3-Next): all intermediate results."""
    H, width = len(p.a_log), len(p.w_q)
    s = {}
    s["rows"] = linear(x, np.concatenate([p.w_q, p.w_k, p.w_v]))
    s["filtered"], _ = causal_conv(s["rows"], p.conv)
    q, k, v = np.split(silu(s["filtered"]), [width, 2 * width], axis=-1)
    s["q"], s["k"], s["v"] = split_heads(q, key_heads), split_heads(k, key_heads), split_heads(v, H)
    queries = repeat_kv(l2_norm(s["q"]), H // key_heads)
    keys = repeat_kv(l2_norm(s["k"]), H // key_heads)
    s["scores"] = linear(x, p.w_b)
    s["beta"] = np.swapaxes(sigmoid(s["scores"]), -1, -2)
    s["steps"] = linear(x, p.w_a) + p.dt_bias
    decay = -np.exp(p.a_log) * softplus(s["steps"])
    s["decay"] = np.swapaxes(decay, -1, -2)[..., None]
    s["operands"] = queries, keys, s["v"], s["decay"], s["beta"]
    s["read"], _ = recurrent_linear_attention(*s["operands"], scale=(width // key_heads) ** -0.5)
    s["gate"] = split_heads(linear(x, p.w_z), H)
    s["normed"] = rms_norm(s["read"], p.norm, eps=eps)
    s["merged"] = merge_heads(s["normed"] * silu(s["gate"]))
    s["out"] = linear(s["merged"], p.w_o)
    return s


def gated_delta_vjp(dout, x, p, key_heads, eps):
    """Backward pass: from the output to the gate, the memory, the convolution, the tokens."""
    H, width = len(p.a_log), len(p.w_q)
    s = gated_delta_steps(x, p, key_heads, eps)
    dmerged, dw_o = linear_vjp(dout, s["merged"], p.w_o)
    dgated = split_heads(dmerged, H)
    dgate = merge_heads(dgated * s["normed"] * silu_deriv(s["gate"]))
    dread, dnorm = rms_norm_vjp(dgated * silu(s["gate"]), s["read"], p.norm, eps=eps)
    dqueries, dkeys, dv, ddecay, dbeta = recurrent_linear_attention_vjp(
        (dread, None), *s["operands"], scale=(width // key_heads) ** -0.5
    )

    dscores = np.swapaxes(dbeta, -1, -2) * sigmoid_deriv(s["scores"])
    ddecay = np.swapaxes(ddecay[..., 0], -1, -2)
    rates = -np.exp(p.a_log)
    dsteps = ddecay * rates * softplus_deriv(s["steps"])
    of_tokens = tuple(range(x.ndim - 1))
    da_log = np.sum(ddecay * rates * softplus(s["steps"]), axis=of_tokens)
    ddt_bias = np.sum(dsteps, axis=of_tokens)

    dq = l2_norm_vjp(repeat_kv_vjp(dqueries, s["q"], H // key_heads), s["q"])
    dk = l2_norm_vjp(repeat_kv_vjp(dkeys, s["k"], H // key_heads), s["k"])
    dactive = np.concatenate([merge_heads(d) for d in (dq, dk, dv)], axis=-1)
    dfiltered = dactive * silu_deriv(s["filtered"])
    drows, dconv, *_ = causal_conv_vjp((dfiltered, None), s["rows"], p.conv)

    dx_rows, dw_rows = linear_vjp(drows, x, np.concatenate([p.w_q, p.w_k, p.w_v]))
    dw_q, dw_k, dw_v = np.split(dw_rows, [width, 2 * width])
    dx_gate, dw_z = linear_vjp(dgate, x, p.w_z)
    dx_scores, dw_b = linear_vjp(dscores, x, p.w_b)
    dx_steps, dw_a = linear_vjp(dsteps, x, p.w_a)
    dparams = type(p)(
        w_q=dw_q, w_k=dw_k, w_v=dw_v, w_z=dw_z, w_b=dw_b, w_a=dw_a, conv=dconv, a_log=da_log,
        dt_bias=ddt_bias, norm=dnorm, w_o=dw_o,
    )  # fmt: skip
    return dx_rows + dx_gate + dx_scores + dx_steps, dparams


def preparation_of_heads(o):
    """How a block normalizes, bounds and rotates queries and keys."""
    return {
        "rope": o["rope"],
        "rope_interleaved": o["rope_interleaved"],
        "norm_eps": inner_eps(o),
        "norm_offset": o["norm_offset"],
        "norm_after_rope": o["norm_after_rope"],
        "clip_qkv": o["clip_qkv"],
    }


def options_of_scores(T, o, call):
    """The options of the scores of self-attention; chunks are a mask."""
    mask, start = call["mask"], call["q_offset"]
    if o["chunk"] is not None:
        queries = np.arange(start, start + T) // o["chunk"]
        same = document_mask(queries, np.arange(T) // o["chunk"])
        mask = same if mask is None else mask & same
    return {
        "mask": mask,
        "bias": call["bias"],
        "is_causal": o["is_causal"],
        "q_offset": start,
        "window": o["window"],
        "scale": o["scale"],
        "softcap": o["softcap"],
        "dropout": call["attention_dropout"],
    }


def is_latent(p):
    """Whether parameters belong to latent attention."""
    return hasattr(p, "w_dkv")


def is_delta(p):
    """Whether parameters belong to a gated delta rule."""
    return hasattr(p, "a_log")


def attend(z, p, o, call):
    """Let every position look at the others: by attention, by latents, or by a delta rule."""
    options = options_of_scores(z.shape[-2], o, call)
    if is_delta(p):
        return gated_delta_steps(z, p, o["delta_heads"] or len(p.a_log), o["eps"])["out"]
    if is_latent(p):
        options["scale"] = latent_scale(p, o["num_heads"], o["scale"])
        turned = o["rope"], o["rope_interleaved"]
        return latent_forward(z, p, o["num_heads"], *turned, inner_eps(o), options)
    return attend_steps(z, p, o, call)["out"]


def attend_steps(z, p, o, call):
    """All intermediate results of self-attention with heads."""
    options = options_of_scores(z.shape[-2], o, call) | {"sink": p.sink}
    heads = o["num_heads"], o["num_kv_heads"]
    return multi_head_steps(z, z, p, *heads, preparation_of_heads(o), options)


def attend_vjp(dout, z, p, o, call):
    """Backward pass: gradients of tokens, parameters and bias."""
    options = options_of_scores(z.shape[-2], o, call)
    if is_delta(p):
        return *gated_delta_vjp(dout, z, p, o["delta_heads"] or len(p.a_log), o["eps"]), None
    if is_latent(p):
        options["scale"] = latent_scale(p, o["num_heads"], o["scale"])
        turned = o["rope"], o["rope_interleaved"]
        grads = latent_gradients(dout, z, p, o["num_heads"], *turned, inner_eps(o), options)
    else:
        s = attend_steps(z, p, o, call)
        options["sink"] = p.sink
        grads = multi_head_gradients(dout, z, z, p, s, preparation_of_heads(o), options)
    dz_queries, dz_keys, dp, *dbias = grads
    return dz_queries + dz_keys, dp, dbias[0] if dbias else None


def options_of_cross_attention(p, o, call):
    """The memory is not rotated, and has a mask and a scale of its own."""
    preparation = preparation_of_heads(o) | {"rope": None}
    options = {"mask": call["memory_mask"], "scale": o["cross_scale"], "sink": p.sink}
    return preparation, options


def look_up_steps(z, memory, p, o, call):
    """All intermediate results of cross-attention."""
    preparation, options = options_of_cross_attention(p, o, call)
    return multi_head_steps(z, memory, p, o["num_heads"], o["num_kv_heads"], preparation, options)


def look_up(z, memory, p, o, call):
    """Cross-attention: let every position look at the memory."""
    return look_up_steps(z, memory, p, o, call)["out"]


def look_up_vjp(dout, z, memory, p, o, call):
    """Backward pass: gradients of tokens, memory and parameters."""
    preparation, options = options_of_cross_attention(p, o, call)
    s = look_up_steps(z, memory, p, o, call)
    return multi_head_gradients(dout, z, memory, p, s, preparation, options)


def options_of_mixture(p, o):
    """The options of a block's mixture of experts."""
    own = {
        "router_bias": p.router_bias,
        "correction": p.correction,
        "shared": p.shared,
        "shared_gate": p.shared_gate,
    }
    return own | {"activation": UNITS[o["activation"]]} | dict(o["router"])


def network(z, p, o):
    """The network of a block: two layers, a gated one, or a mixture of experts."""
    if hasattr(p, "experts"):
        return mixture_of_experts(z, p.router, p.experts, **options_of_mixture(p, o))
    run = gated_feed_forward if hasattr(p, "w_gate") else feed_forward
    return run(z, p, activation=o["activation"])


def network_vjp(dout, z, p, o):
    """Backward pass."""
    if hasattr(p, "experts"):
        dz, drouter, dexperts, *rest = mixture_of_experts_vjp(
            dout, z, p.router, p.experts, **options_of_mixture(p, o)
        )
        given = ("router_bias", "shared", "shared_gate")
        more = {name: rest.pop(0) for name in given if getattr(p, name) is not None}
        still = None if p.correction is None else np.zeros_like(p.correction)
        return dz, p._replace(router=drouter, experts=dexperts, correction=still, **more)
    run_vjp = gated_feed_forward_vjp if hasattr(p, "w_gate") else feed_forward_vjp
    return run_vjp(dout, z, p, activation=o["activation"])


def sublayer(x, z, f, norm, output_norm, factor, o):
    """Add f(z) to x, with norms before f and of its output, or of the sum."""
    h = f(normalize(z, norm, o) if o["norm_first"] else z)
    h = normalize(h, output_norm, o)
    h = h if factor is None else factor * h
    total = x + o["residual_scale"] * h
    return total if o["norm_first"] else normalize(total, norm, o)


def sublayer_vjp(dout, x, z, f, f_vjp, norm, output_norm, factor, o):
    """Backward pass: gradients of x, of z, of both norms, and the other results of `f_vjp`."""
    z_norm = normalize(z, norm, o) if o["norm_first"] else z
    h = f(z_norm)
    scale = o["residual_scale"] * (1 if factor is None else factor)
    dx, dnorm = dout, None
    if not o["norm_first"]:
        total = x + scale * normalize(h, output_norm, o)
        dx, dnorm = normalize_vjp(dout, total, norm, o)
    dh, doutput_norm = normalize_vjp(scale * dx, h, output_norm, o)
    dz, *rest = f_vjp(dh, z_norm)
    if o["norm_first"]:
        dz, dnorm = normalize_vjp(dz, z, norm, o)
    return dx, dz, dnorm, doutput_norm, *rest


def factors_of(call, count):
    """The factors of dropout of the sub-layers' outputs."""
    return (None,) * count if call["dropout"] is None else call["dropout"]


def second_input(x, y, p, o):
    """The input of an encoder block's network, and its norm: parallel to attention or after."""
    if not o["parallel"]:
        return y, p.norm2
    return x, p.norm1 if p.norm2 is None else p.norm2


def encoder_states(x, p, o, call):
    """The results of both sub-layers of an encoder block."""
    first, second = factors_of(call, 2)
    y = sublayer(x, x, lambda z: attend(z, p.attention, o, call), p.norm1, p.output_norm1, first, o)
    z, norm2 = second_input(x, y, p, o)
    out = sublayer(y, z, lambda z: network(z, p.feed_forward, o), norm2, p.output_norm2, second, o)
    return y, out


def encoder_gradients(dout, x, p, o, call):
    """Backward pass of an encoder block: gradients of x, parameters and bias."""
    first, second = factors_of(call, 2)
    y, _ = encoder_states(x, p, o, call)
    z, norm2 = second_input(x, y, p, o)
    dy, dz, dnorm2, doutput_norm2, dnetwork = sublayer_vjp(
        dout, y, z,
        lambda z: network(z, p.feed_forward, o),
        lambda u, z: network_vjp(u, z, p.feed_forward, o),
        norm2, p.output_norm2, second, o,
    )  # fmt: skip
    if not o["parallel"]:
        dy = dy + dz
    dx, dz1, dnorm1, doutput_norm1, dattention, dbias = sublayer_vjp(
        dy, x, x,
        lambda z: attend(z, p.attention, o, call),
        lambda u, z: attend_vjp(u, z, p.attention, o, call),
        p.norm1, p.output_norm1, first, o,
    )  # fmt: skip
    dx = dx + dz1
    if o["parallel"]:
        dx = dx + dz
        if p.norm2 is None and p.norm1 is not None:  # both sub-layers have read its output
            dnorm1, dnorm2 = sum_of_norms(dnorm1, dnorm2), None
    dparams = type(p)(
        attention=dattention, norm1=dnorm1, feed_forward=dnetwork, norm2=dnorm2,
        output_norm1=doutput_norm1, output_norm2=doutput_norm2,
    )  # fmt: skip
    return dx, dparams, dbias


def sum_of_norms(a, b):
    """The sum of two gradients of the same norm."""
    return type(a)(*(None if g is None else g + h for g, h in zip(a, b, strict=True)))


def encoder_block(
    x, params, options=None, *, mask=None, bias=None, q_offset=0, dropout=None,
    attention_dropout=None, **keywords,
):  # fmt: skip
    """
    Self-attention and a network, with all options.

    >>> from dlref.formulas.transformer import AttentionParams, EncoderBlockParams
    >>> from dlref.formulas.transformer import FeedForwardParams, NormParams
    >>> zero, one, norm = np.zeros((2, 2)), np.eye(2), NormParams(np.ones(2), np.zeros(2))
    >>> attention = AttentionParams(zero, zero, one, one)
    >>> network = FeedForwardParams(one, None, one, None)
    >>> params = EncoderBlockParams(attention, norm, network, norm)
    >>> x = np.array([[1.0, 3.0], [3.0, 5.0]])
    >>> print(encoder_block(x, params, num_heads=1, norm_first=True, eps=0))
    [[0. 5.]
     [2. 7.]]
    """
    o = kind_of_block(options, keywords, causal=False)
    call = call_with(mask, bias, q_offset, dropout, attention_dropout)
    _, out = encoder_states(x, params, o, call)
    return out


def encoder_block_vjp(
    dout, x, params, options=None, *, mask=None, bias=None, q_offset=0, dropout=None,
    attention_dropout=None, **keywords,
):  # fmt: skip
    """
    Backward pass, with all options.

    >>> from dlref.formulas.transformer import AttentionParams, EncoderBlockParams
    >>> from dlref.formulas.transformer import FeedForwardParams, NormParams
    >>> zero, one, norm = np.zeros((2, 2)), np.eye(2), NormParams(np.ones(2), np.zeros(2))
    >>> attention = AttentionParams(zero, zero, one, one)
    >>> network = FeedForwardParams(one, None, one, None)
    >>> params = EncoderBlockParams(attention, norm, network, norm)
    >>> x = np.array([[1.0, 3.0], [3.0, 5.0]])
    >>> options = {"num_heads": 1, "norm_first": True, "eps": 0}
    >>> dx, dparams = encoder_block_vjp(np.ones((2, 2)), x, params, **options)
    >>> print(dx)
    [[1. 1.]
     [1. 1.]]
    >>> print(dparams.feed_forward.w2)
    [[0. 2.]
     [0. 2.]]
    """
    o = kind_of_block(options, keywords, causal=False)
    call = call_with(mask, bias, q_offset, dropout, attention_dropout)
    dx, dparams, dbias = encoder_gradients(dout, x, params, o, call)
    return (dx, dparams) if bias is None else (dx, dparams, dbias)


def decoder_states(x, memory, p, o, call):
    """The results of the three sub-layers of a decoder block."""
    first, second, third = factors_of(call, 3)
    y = sublayer(x, x, lambda z: attend(z, p.self_attention, o, call), p.norm1, None, first, o)
    w = sublayer(
        y, y, lambda z: look_up(z, memory, p.cross_attention, o, call), p.norm2, None, second, o
    )
    out = sublayer(w, w, lambda z: network(z, p.feed_forward, o), p.norm3, None, third, o)
    return y, w, out


def decoder_gradients(dout, x, memory, p, o, call):
    """Backward pass of a decoder block: gradients of x, memory, parameters and bias."""
    first, second, third = factors_of(call, 3)
    y, w, _ = decoder_states(x, memory, p, o, call)
    dw, dz, dnorm3, _, dnetwork = sublayer_vjp(
        dout, w, w,
        lambda z: network(z, p.feed_forward, o),
        lambda u, z: network_vjp(u, z, p.feed_forward, o),
        p.norm3, None, third, o,
    )  # fmt: skip
    dy, dz2, dnorm2, _, dmemory, dcross = sublayer_vjp(
        dw + dz, y, y,
        lambda z: look_up(z, memory, p.cross_attention, o, call),
        lambda u, z: look_up_vjp(u, z, memory, p.cross_attention, o, call),
        p.norm2, None, second, o,
    )  # fmt: skip
    dx, dz1, dnorm1, _, dself, dbias = sublayer_vjp(
        dy + dz2, x, x,
        lambda z: attend(z, p.self_attention, o, call),
        lambda u, z: attend_vjp(u, z, p.self_attention, o, call),
        p.norm1, None, first, o,
    )  # fmt: skip
    dparams = type(p)(
        self_attention=dself, norm1=dnorm1, cross_attention=dcross, norm2=dnorm2,
        feed_forward=dnetwork, norm3=dnorm3,
    )  # fmt: skip
    return dx + dz1, dmemory, dparams, dbias


def decoder_block(
    x, memory, params, options=None, *, mask=None, bias=None, q_offset=0, dropout=None,
    attention_dropout=None, memory_mask=None, **keywords,
):  # fmt: skip
    """
    Self-attention, attention to a memory, and a network, with all options.

    >>> from dlref.formulas.transformer import AttentionParams, DecoderBlockParams
    >>> from dlref.formulas.transformer import FeedForwardParams, NormParams
    >>> zero, one, norm = np.zeros((2, 2)), np.eye(2), NormParams(np.ones(2))
    >>> own, cross = AttentionParams(zero, zero, zero, zero), AttentionParams(zero, zero, one, one)
    >>> network = FeedForwardParams(zero, None, zero, None)
    >>> params = DecoderBlockParams(own, norm, cross, norm, network, norm)
    >>> x, memory = np.array([[1.0, 3.0], [5.0, 1.0]]), np.array([[10.0, 0.0], [20.0, 0.0]])
    >>> print(decoder_block(x, memory, params, num_heads=1, norm_first=True))  # adds its mean
    [[16.  3.]
     [20.  1.]]
    """
    o = kind_of_block(options, keywords, causal=True)
    call = call_with(mask, bias, q_offset, dropout, attention_dropout, memory_mask)
    _, _, out = decoder_states(x, memory, params, o, call)
    return out


def decoder_block_vjp(
    dout, x, memory, params, options=None, *, mask=None, bias=None, q_offset=0, dropout=None,
    attention_dropout=None, memory_mask=None, **keywords,
):  # fmt: skip
    """
    Backward pass, with all options.

    >>> from dlref.formulas.transformer import AttentionParams, DecoderBlockParams
    >>> from dlref.formulas.transformer import FeedForwardParams, NormParams
    >>> zero, one, norm = np.zeros((2, 2)), np.eye(2), NormParams(np.ones(2))
    >>> own, cross = AttentionParams(zero, zero, zero, zero), AttentionParams(zero, zero, one, one)
    >>> network = FeedForwardParams(zero, None, zero, None)
    >>> params = DecoderBlockParams(own, norm, cross, norm, network, norm)
    >>> x, memory = np.array([[1.0, 3.0], [5.0, 1.0]]), np.array([[10.0, 0.0], [20.0, 0.0]])
    >>> options = {"num_heads": 1, "norm_first": True, "memory_mask": np.array([True, False])}
    >>> dx, dmemory, dparams = decoder_block_vjp(np.eye(2), x, memory, params, **options)
    >>> print(dmemory)  # the second row is hidden
    [[1. 1.]
     [0. 0.]]
    """
    o = kind_of_block(options, keywords, causal=True)
    call = call_with(mask, bias, q_offset, dropout, attention_dropout, memory_mask)
    dx, dmemory, dparams, dbias = decoder_gradients(dout, x, memory, params, o, call)
    return (dx, dmemory, dparams) if bias is None else (dx, dmemory, dparams, dbias)


# == stacks


def pre_norm_blocks(x, blocks, heads):
    """
    Block after block.

    >>> zero, one, norm = np.zeros((2, 2)), np.eye(2), (np.ones(2), np.zeros(2))
    >>> block = (zero, zero, one, one), norm, (one, np.zeros(2), one, np.zeros(2)), norm
    >>> x = np.array([[1.0, 3.0], [3.0, 5.0]])
    >>> print(np.round(pre_norm_blocks(x, [block, block], heads=1), 4))
    [[-1.  7.]
     [ 1.  9.]]
    """
    for params in blocks:
        x = pre_norm_block(x, params, heads)
    return x


def pre_norm_blocks_vjp(dout, x, blocks, heads):
    """
    Backward pass, from the last block to the first, with the input of each.

    >>> zero, one, norm = np.zeros((2, 2)), np.eye(2), (np.ones(2), np.zeros(2))
    >>> block = (zero, zero, one, one), norm, (one, np.zeros(2), one, np.zeros(2)), norm
    >>> x, dout = np.array([[1.0, 3.0], [3.0, 5.0]]), np.ones((2, 2))
    >>> dx, dblocks = pre_norm_blocks_vjp(dout, x, [block, block], heads=1)
    >>> print(np.round(dx, 4))
    [[1. 1.]
     [1. 1.]]
    """
    inputs = []
    for params in blocks:
        inputs.append(x)
        x = pre_norm_block(x, params, heads)
    grads = []
    for params, z in zip(reversed(blocks), reversed(inputs), strict=True):
        dout, dparams = pre_norm_block_vjp(dout, z, params, heads)
        grads.append(dparams)
    return dout, grads[::-1]


def kinds_of_blocks(options, keywords, count, causal):
    """The options of each block of a stack; there is at least one, for the last norm."""
    each = options if isinstance(options, tuple) else (options,) * max(count, 1)
    return [kind_of_block(own, keywords, causal) for own in each]


def call_of_block(call, i):
    """The arguments of the call of block i, which has its own factors of dropout."""
    own = {
        name: None if call[name] is None else call[name][i]
        for name in ("dropout", "attention_dropout")
    }
    return call | own


def stack(x, blocks, norm, kinds, call, memory=None):
    """The input, the result of each block, and the result of the last norm."""
    states = [x]
    for i, (p, o) in enumerate(zip(blocks, kinds, strict=False)):
        own = call_of_block(call, i)
        if memory is None:
            *_, x = encoder_states(x, p, o, own)
        else:
            *_, x = decoder_states(x, memory, p, o, own)
        states.append(x)
    return states, normalize(x, norm, kinds[-1])


def stack_vjp(dout, x, blocks, norm, kinds, call, memory=None):
    """Backward pass, from the last block to the first: of x, memory, blocks, norm and bias."""
    states, _ = stack(x, blocks, norm, kinds, call, memory)
    dx, dnorm = normalize_vjp(dout, states[-1], norm, kinds[-1])
    dmemory = None if memory is None else np.zeros_like(memory)
    dbias = None if call["bias"] is None else np.zeros_like(call["bias"])
    dblocks = []
    for i in reversed(range(len(blocks))):
        own = call_of_block(call, i)
        if memory is None:
            dx, dblock, dterm = encoder_gradients(dx, states[i], blocks[i], kinds[i], own)
        else:
            dx, dread, dblock, dterm = decoder_gradients(
                dx, states[i], memory, blocks[i], kinds[i], own
            )
            dmemory = dmemory + dread  # every block reads the same memory
        dbias = None if dbias is None else dbias + dterm
        dblocks.append(dblock)
    return dx, dmemory, tuple(reversed(dblocks)), dnorm, dbias


def encoder(
    x, params, final_norm=None, options=None, *, mask=None, bias=None, q_offset=0, dropout=None,
    attention_dropout=None, **keywords,
):  # fmt: skip
    """
    Encoder blocks, one after the other, and a last norm.

    >>> from dlref.formulas.transformer import AttentionParams, EncoderBlockParams
    >>> from dlref.formulas.transformer import FeedForwardParams, NormParams
    >>> zero, one, norm = np.zeros((2, 2)), np.eye(2), NormParams(np.ones(2), np.zeros(2))
    >>> attention = AttentionParams(zero, zero, one, one)
    >>> network = FeedForwardParams(one, None, one, None)
    >>> block = EncoderBlockParams(attention, norm, network, norm)
    >>> x = np.array([[1.0, 3.0], [3.0, 5.0]])
    >>> options = {"num_heads": 1, "norm_first": True, "eps": 0}
    >>> print(encoder(x, (block, block), **options))
    [[-1.  7.]
     [ 1.  9.]]
    >>> print(encoder(x, (block, block), norm, **options))
    [[-1.  1.]
     [-1.  1.]]
    """
    kinds = kinds_of_blocks(options, keywords, len(params), causal=False)
    call = call_with(mask, bias, q_offset, dropout, attention_dropout)
    _, out = stack(x, params, final_norm, kinds, call)
    return out


def encoder_vjp(
    dout, x, params, final_norm=None, options=None, *, mask=None, bias=None, q_offset=0,
    dropout=None, attention_dropout=None, **keywords,
):  # fmt: skip
    """
    Backward pass, from the last block to the first.

    >>> from dlref.formulas.transformer import AttentionParams, EncoderBlockParams
    >>> from dlref.formulas.transformer import FeedForwardParams, NormParams
    >>> zero, one, norm = np.zeros((2, 2)), np.eye(2), NormParams(np.ones(2), np.zeros(2))
    >>> attention = AttentionParams(zero, zero, one, one)
    >>> network = FeedForwardParams(one, None, one, None)
    >>> block = EncoderBlockParams(attention, norm, network, norm)
    >>> x = np.array([[1.0, 3.0], [3.0, 5.0]])
    >>> options = {"num_heads": 1, "norm_first": True, "eps": 0}
    >>> dx, dblocks = encoder_vjp(np.ones((2, 2)), x, (block, block), **options)
    >>> print(dx, len(dblocks))
    [[1. 1.]
     [1. 1.]] 2
    """
    kinds = kinds_of_blocks(options, keywords, len(params), causal=False)
    call = call_with(mask, bias, q_offset, dropout, attention_dropout)
    dx, _, dblocks, dnorm, dbias = stack_vjp(dout, x, params, final_norm, kinds, call)
    ends = [dnorm] * (final_norm is not None) + [dbias] * (bias is not None)
    return dx, dblocks, *ends


def decoder(
    x, memory, params, final_norm=None, options=None, *, mask=None, bias=None, q_offset=0,
    dropout=None, attention_dropout=None, memory_mask=None, **keywords,
):  # fmt: skip
    """
    Decoder blocks, one after the other, which read the same memory, and a last norm.

    >>> from dlref.formulas.transformer import AttentionParams, DecoderBlockParams
    >>> from dlref.formulas.transformer import FeedForwardParams, NormParams
    >>> zero, one, norm = np.zeros((2, 2)), np.eye(2), NormParams(np.ones(2))
    >>> own, cross = AttentionParams(zero, zero, zero, zero), AttentionParams(zero, zero, one, one)
    >>> network = FeedForwardParams(zero, None, zero, None)
    >>> block = DecoderBlockParams(own, norm, cross, norm, network, norm)
    >>> x, memory = np.array([[1.0, 3.0], [5.0, 1.0]]), np.array([[10.0, 0.0], [20.0, 0.0]])
    >>> print(decoder(x, memory, (block, block), num_heads=1, norm_first=True))
    [[31.  3.]
     [35.  1.]]
    """
    kinds = kinds_of_blocks(options, keywords, len(params), causal=True)
    call = call_with(mask, bias, q_offset, dropout, attention_dropout, memory_mask)
    _, out = stack(x, params, final_norm, kinds, call, memory)
    return out


def decoder_vjp(
    dout, x, memory, params, final_norm=None, options=None, *, mask=None, bias=None, q_offset=0,
    dropout=None, attention_dropout=None, memory_mask=None, **keywords,
):  # fmt: skip
    """
    Backward pass: the gradients of the memory from all blocks add up.

    >>> from dlref.formulas.transformer import AttentionParams, DecoderBlockParams
    >>> from dlref.formulas.transformer import FeedForwardParams, NormParams
    >>> zero, one, norm = np.zeros((2, 2)), np.eye(2), NormParams(np.ones(2))
    >>> own, cross = AttentionParams(zero, zero, zero, zero), AttentionParams(zero, zero, one, one)
    >>> network = FeedForwardParams(zero, None, zero, None)
    >>> block = DecoderBlockParams(own, norm, cross, norm, network, norm)
    >>> x, memory = np.array([[1.0, 3.0], [5.0, 1.0]]), np.array([[10.0, 0.0], [20.0, 0.0]])
    >>> options = {"num_heads": 1, "norm_first": True}
    >>> dx, dmemory, dblocks = decoder_vjp(np.eye(2), x, memory, (block, block), **options)
    >>> print(dmemory)  # a half from each block
    [[1. 1.]
     [1. 1.]]
    """
    kinds = kinds_of_blocks(options, keywords, len(params), causal=True)
    call = call_with(mask, bias, q_offset, dropout, attention_dropout, memory_mask)
    dx, dmemory, dblocks, dnorm, dbias = stack_vjp(dout, x, params, final_norm, kinds, call, memory)
    ends = [dnorm] * (final_norm is not None) + [dbias] * (bias is not None)
    return dx, dmemory, dblocks, *ends


# == configuration


class Configuration(NamedTuple):
    """Numbers and choices that define a model; `configuration` replaces None."""

    vocab_size: int
    d_model: int
    num_heads: int
    num_kv_heads: int = None
    num_layers: int = 2
    d_ff: int = None
    positions: str = "learned"
    norm: str = "layer"
    activation: str = "gelu"
    norm_first: bool = True
    tied: bool = True
    biases: bool = True
    length: int = 1024
    rope_base: float = 10000.0
    rope_scaling: dict = None
    eps: float = 1e-5
    head_dim: int = None
    rope_dim: int = None
    blocks: dict = None
    embedding_scale: float = None
    logit_scale: float = 1.0
    logit_softcap: float = None
    num_decoder_layers: int = None
    alibi_exponent: float = 8.0
    embedding_dim: int = None
    gated: bool = None


def configuration(vocab_size, d_model, num_heads, **choices):
    """
    Numbers and choices of a model; some follow from others, unless they are given.

    >>> from dlref.formulas.transformer import Configuration
    >>> config = configuration(256, 64, 4, activation="swiglu", positions="rope")
    >>> print(config.head_dim, config.num_kv_heads, config.d_ff)
    16 4 171
    """
    c = Configuration(vocab_size, d_model, num_heads, **choices)
    gated = c.activation in GATES
    follows = {
        "gated": gated,
        "num_kv_heads": num_heads,
        "head_dim": d_model // num_heads,
        "d_ff": (8 * d_model + 2) // 3 if gated else 4 * d_model,  # as many weights either way
        "embedding_scale": d_model**0.5 if c.positions == "sinusoidal" else 1.0,
    }
    return c._replace(**{name: v for name, v in follows.items() if getattr(c, name) is None})


def zeros_if(wanted, size):
    """A bias that starts at zero, or none."""
    return np.zeros(size) if wanted else None


def init_norm(config):
    """A norm that does nothing more than to normalize."""
    with_bias = config.biases and config.norm == "layer"
    return NormParams(np.ones(config.d_model), zeros_if(with_bias, config.d_model))


def init_attention(rng, config, shrink):
    """Projections; those whose output is added to the residual stream are smaller."""
    D = config.d_model
    Q, K = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    w_q, w_k, w_v = (lecun_normal(rng, (rows, D)) for rows in (Q, K, K))
    w_o = shrink * lecun_normal(rng, (D, Q))
    biases = (zeros_if(config.biases, rows) for rows in (Q, K, K, D))
    return AttentionParams(w_q, w_k, w_v, w_o, *biases)


def init_network(rng, config, shrink):
    """Weights of a feed-forward network."""
    D, F = config.d_model, config.d_ff
    if config.gated:
        w_gate, w_up = lecun_normal(rng, (F, D)), lecun_normal(rng, (F, D))
        return GatedFeedForwardParams(w_gate, w_up, shrink * lecun_normal(rng, (D, F)))
    w1, w2 = lecun_normal(rng, (F, D)), shrink * lecun_normal(rng, (D, F))
    return FeedForwardParams(w1, zeros_if(config.biases, F), w2, zeros_if(config.biases, D))


def decoder_depth(config):
    """The number of blocks of a decoder that reads an encoder's output."""
    return config.num_layers if config.num_decoder_layers is None else config.num_decoder_layers


def shrink_of(config, sublayers):
    """
    One over the root of the number of terms of the residual stream, if norms come first.

    >>> from dlref.formulas.transformer import configuration
    >>> print(shrink_of(configuration(256, 64, 4, num_layers=8), sublayers=2))
    0.25
    """
    layers = config.num_layers if sublayers == 2 else decoder_depth(config)
    terms = sublayers * max(layers, 1)
    return terms**-0.5 if config.norm_first else 1.0


def init_encoder_block(rng, config):
    """Parameters of an encoder block."""
    shrink = shrink_of(config, 2)
    attention = init_attention(rng, config, shrink)
    norm1, norm2 = init_norm(config), init_norm(config)
    return EncoderBlockParams(attention, norm1, init_network(rng, config, shrink), norm2)


def init_decoder_block(rng, config):
    """Parameters of a decoder block."""
    shrink = shrink_of(config, 3)
    own, cross = init_attention(rng, config, shrink), init_attention(rng, config, shrink)
    norm1, norm2, norm3 = init_norm(config), init_norm(config), init_norm(config)
    return DecoderBlockParams(own, norm1, cross, norm2, init_network(rng, config, shrink), norm3)


def init_embedding(rng, config, rows):
    """Embeddings; smaller where they are multiplied."""
    deviation = 0.02 if config.embedding_scale == 1 else 1 / config.embedding_scale
    return rng.normal(0.0, deviation, (rows, config.embedding_dim or config.d_model))


def init_positions(rng, config):
    """The table that the scheme of positions needs, if it needs one."""
    if config.positions == "learned":
        return rng.normal(0.0, 0.02, (config.length, config.d_model))
    return np.zeros((T5_BUCKETS, config.num_heads)) if config.positions == "t5" else None


def init_head(rng, config):
    """Weights of the last layer, if they are not the embeddings."""
    width = config.embedding_dim or config.d_model
    return None if config.tied else rng.normal(0.0, 0.02, (config.vocab_size, width))


def init_last_norm(config):
    """The norm after the blocks, of models that normalize first."""
    return init_norm(config) if config.norm_first else None


def cast(tree, dtype):
    """A tree of arrays in another dtype."""
    if tree is None:
        return None
    if isinstance(tree, tuple):
        parts = [cast(part, dtype) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    return tree.astype(dtype)


def init_language_model(rng, config, *, dtype=np.float64):
    """
    Parameters of a language model.

    >>> from dlref.formulas.transformer import LanguageModelParams, configuration
    >>> from dlref.formulas.transformer import language_model_loss
    >>> rng = np.random.default_rng(0)
    >>> config = configuration(vocab_size=50, d_model=32, num_heads=4)
    >>> params = init_language_model(rng, config)
    >>> tokens = rng.integers(0, 50, (8, 20))
    >>> print(np.round(language_model_loss(tokens, params, config), 1), np.round(np.log(50), 1))
    3.9 3.9
    """
    embedding = init_embedding(rng, config, config.vocab_size)
    positions = init_positions(rng, config)
    blocks = tuple(init_encoder_block(rng, config) for _ in range(config.num_layers))
    head = init_head(rng, config)
    params = LanguageModelParams(embedding, positions, blocks, init_last_norm(config), head)
    if config.embedding_dim is not None:
        D, C = config.d_model, config.embedding_dim
        into, out = lecun_normal(rng, (D, C)), lecun_normal(rng, (C, D))
        params = params._replace(embedding_in=into, embedding_out=out)
    return cast(params, dtype)


def kinds_of_model(config, T, causal, dtype):
    """The options of each block: the configuration's, changed by its own."""
    given = config.blocks
    count = max(config.num_layers, decoder_depth(config), 1)
    each = given if isinstance(given, tuple) else (given,) * count
    whole = {
        "num_heads": config.num_heads,
        "num_kv_heads": config.num_kv_heads,
        "norm_first": config.norm_first,
        "norm": config.norm,
        "activation": GATES.get(config.activation, config.activation),
        "is_causal": causal,
        "eps": config.eps,
    }
    kinds = []
    for own in each:
        o = BLOCK_OPTIONS | whole | dict(own or {})
        rotation = dict(own or {}).get("rope", {} if config.positions == "rope" else None)
        o["rope"] = None if rotation is None else rotation_tables(config, rotation, T, dtype)
        kinds.append(o)
    return kinds


def rotation_tables(config, rotation, T, dtype):
    """Tables of sines and cosines for T positions."""
    scaling = rotation.get("scaling", config.rope_scaling)
    dim = rotation.get("dim", config.rope_dim or config.head_dim)
    scaling = None if scaling is None else dict(scaling)
    frequencies = rope_frequencies(
        dim, base=rotation.get("base", config.rope_base), scaling=scaling
    )
    factor = 1.0 if scaling is None else rope_attention_factor(scaling)
    cos, sin = rope_tables(np.arange(T), frequencies, attention_factor=factor)
    return cos.astype(dtype), sin.astype(dtype)


def bias_of_positions(config, table, T, causal, dtype):
    """The bias of the scores, in schemes of positions that have one."""
    if config.positions == "alibi":
        slopes = alibi_slopes(config.num_heads, exponent=config.alibi_exponent)
        return alibi_bias(slopes, T, T, symmetric=not causal).astype(dtype)
    if config.positions == "t5":
        return t5_bias(table, T, T, bidirectional=not causal)
    return None


def call_of_model(config, table, T, causal, dtype, drops, mask=None, memory_mask=None):
    """The arguments of the call of the blocks of a model."""
    dropout, attention_dropout, _ = drops
    bias = bias_of_positions(config, table, T, causal, dtype)
    return call_with(mask, bias, 0, dropout, attention_dropout, memory_mask)


def embed(tokens, embedding, table, config, drops, class_token=None):
    """Vectors of the tokens and of their places: the input of the first block."""
    x = embedding[tokens]
    if class_token is not None:
        first = np.broadcast_to(class_token, (*x.shape[:-2], 1, x.shape[-1]))
        x = np.concatenate([first, x], axis=-2)
    x = config.embedding_scale * x
    T, D = x.shape[-2:]
    if config.positions == "learned":
        x = x + table[:T]
    if config.positions == "sinusoidal":
        x = x + sinusoidal(T, D).astype(x.real.dtype)
    *_, factors = drops
    return x if factors is None else factors * x


def embed_vjp(dx, dbias, tokens, embedding, table, config, causal, drops, class_token=None):
    """Backward pass: gradients of embedding, table of positions and class token."""
    *_, factors = drops
    dx = dx if factors is None else factors * dx
    T, D = dx.shape[-2:]
    dtable = None
    if config.positions == "learned":
        dtable = np.zeros_like(table)
        dtable[:T] = np.sum(dx.reshape(-1, T, D), axis=0)
    if config.positions == "t5":
        dtable = t5_bias_vjp(dbias, table, T, T, bidirectional=not causal)
    dx = config.embedding_scale * dx
    dclass_token = None
    if class_token is not None:
        dclass_token = np.sum(dx[..., 0, :].reshape(-1, D), axis=0)
        dx = dx[..., 1:, :]
    return embedding_vjp(dx, embedding, tokens), dtable, dclass_token


def head_of(p):
    """Weights of the last layer, which may be the embeddings."""
    return p.embedding if p.head is None else p.head


def widened(p):
    """The same model with a table of D columns, and another one for the head: products."""
    if p.embedding_in is None:
        return p
    table, head = p.embedding @ p.embedding_in.T, head_of(p) @ p.embedding_out
    return p._replace(embedding=table, head=head, embedding_in=None, embedding_out=None)


def widened_vjp(du, p):
    """Backward pass: gradients of the factors of both tables."""
    if p.embedding_in is None:
        return du
    dembedding, dhead = du.embedding @ p.embedding_in, du.head @ p.embedding_out.T
    into, out = du.embedding.T @ p.embedding, head_of(p).T @ du.head
    if p.head is None:
        dembedding, dhead = dembedding + dhead, None
    return du._replace(embedding=dembedding, head=dhead, embedding_in=into, embedding_out=out)


def logits_of(h, p, config):
    """Scores of all tokens, scaled and capped."""
    z = config.logit_scale * linear(h, head_of(p))
    cap = config.logit_softcap
    return z if cap is None else cap * np.tanh(z / cap)


def logits_vjp(dout, h, p, config):
    """Backward pass: gradients of h and of the head."""
    dz = dout
    if config.logit_softcap is not None:
        t = logits_of(h, p, config) / config.logit_softcap
        dz = (1 - t * t) * dz
    return linear_vjp(config.logit_scale * dz, h, head_of(p))


# == language_model


def gpt(tokens, params, heads):
    """
    A whole GPT-2: logits of the next token at each place.

    >>> from dlref.formulas.transformer import configuration, init_language_model
    >>> config = configuration(vocab_size=9, d_model=16, num_heads=2)
    >>> params = init_language_model(np.random.default_rng(0), config)
    >>> a, b = (gpt(tokens, params, heads=2) for tokens in ([1, 2, 3, 4], [1, 2, 3, 8]))
    >>> print(np.all(np.isclose(a, b), axis=-1))  # the past does not know of the last token
    [ True  True  True False]
    """
    embedding, positions, blocks, norm_f, *_ = params

    def norm(x, weight, bias):
        centered = x - x.mean(-1, keepdims=True)
        return weight * centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5) + bias

    def attend(x, w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o):
        def split(y):  # (T, D) to (heads, T, D / heads)
            return y.reshape(len(y), heads, -1).swapaxes(0, 1)

        q, k, v = split(x @ w_q.T + b_q), split(x @ w_k.T + b_k), split(x @ w_v.T + b_v)
        scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
        seen = np.tri(len(x), dtype=bool)  # no token sees later ones
        scores = np.where(seen, scores, -np.inf)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p = p / p.sum(-1, keepdims=True)
        return (p @ v).swapaxes(0, 1).reshape(len(x), -1) @ w_o.T + b_o

    def network(x, w1, b1, w2, b2):
        z = x @ w1.T + b1
        h = z / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (z + 0.044715 * z**3)))  # GELU
        return h @ w2.T + b2

    x = embedding[tokens] + positions[: len(tokens)]
    for attention_weights, norm_1, network_weights, norm_2, *_ in blocks:
        x = x + attend(norm(x, *norm_1), *attention_weights[:8])
        x = x + network(norm(x, *norm_2), *network_weights)
    return norm(x, *norm_f) @ embedding.T


def places_of_texts(lengths, T, padding):
    """Which places hold tokens once texts stand at the front, and the way there and back."""
    steps, lengths = np.arange(T), np.asarray(lengths)[..., None]
    shift = T - lengths if padding == "left" else 0
    inside = steps < lengths
    there, back = (steps + shift) % T, (steps - shift) % T
    return inside, np.broadcast_to(there, inside.shape), np.broadcast_to(back, inside.shape)


def tokens_to_the_front(tokens, places, fill=0):
    """Move each text to the beginning of its row, and fill the rest."""
    inside, there, _ = places
    return np.where(inside, np.take_along_axis(tokens, there, axis=-1), fill)


def rows_to_the_front(array, places):
    """Move the rows (..., T, N) of tokens likewise; 0 beyond the ends."""
    inside, there, _ = places
    moved = np.take_along_axis(array, there[..., None], axis=-2)
    return np.where(inside[..., None], moved, 0)


def rows_back(array, places):
    """Move rows back to where the tokens were; 0 where there is no token."""
    inside, _, back = places
    clean = np.where(inside[..., None], array, 0)
    return np.take_along_axis(clean, back[..., None], axis=-2)


def pairs_back(weights, places):
    """Move weights (..., H, T, T) of pairs of tokens back."""
    of_heads = [a[..., None, :] for a in places]
    rows = rows_back(weights, of_heads)
    return np.swapaxes(rows_back(np.swapaxes(rows, -1, -2), of_heads), -1, -2)


def language_model_states(ids, p, config, drops):
    """The input of the blocks, the result of each, and the result of the last norm."""
    p = widened(p)
    T, dtype = ids.shape[-1], p.embedding.real.dtype
    x = embed(ids, p.embedding, p.positions, config, drops)
    kinds = kinds_of_model(config, T, True, dtype)
    call = call_of_model(config, p.positions, T, True, dtype, drops)
    return stack(x, p.blocks, p.norm, kinds, call)


def language_model_logits(ids, p, config, drops):
    """Embed, run the blocks, compare with all tokens."""
    _, h = language_model_states(ids, p, config, drops)
    return logits_of(h, widened(p), config)


def language_model_gradients(dlogits, ids, params, config, drops):
    """Backward pass: from the logits to the embeddings, which are used twice if they are tied."""
    p = widened(params)
    T, dtype = ids.shape[-1], p.embedding.real.dtype
    (x, *_), h = language_model_states(ids, p, config, drops)
    kinds = kinds_of_model(config, T, True, dtype)
    call = call_of_model(config, p.positions, T, True, dtype, drops)
    dh, dhead = logits_vjp(dlogits, h, p, config)
    dx, _, dblocks, dnorm, dbias = stack_vjp(dh, x, p.blocks, p.norm, kinds, call)
    dembedding, dtable, _ = embed_vjp(dx, dbias, ids, p.embedding, p.positions, config, True, drops)
    if p.head is None:
        dembedding, dhead = dembedding + dhead, None
    dp = type(p)(embedding=dembedding, positions=dtable, blocks=dblocks, norm=dnorm, head=dhead)
    return widened_vjp(dp, params)


def language_model(
    tokens, params, config, *, lengths=None, padding="right", dropout=None,
    attention_dropout=None, embedding_dropout=None,
):  # fmt: skip
    """
    Logits of the next token at every position, with all options.

    >>> from dlref.formulas.transformer import configuration, init_language_model
    >>> config = configuration(vocab_size=9, d_model=16, num_heads=2, positions="rope")
    >>> params = init_language_model(np.random.default_rng(0), config)
    >>> a, b = (language_model(tokens, params, config) for tokens in ([1, 2, 3, 4], [1, 2, 3, 8]))
    >>> print(np.all(np.isclose(a, b), axis=-1))
    [ True  True  True False]
    """
    drops = dropout, attention_dropout, embedding_dropout
    ids = np.asarray(tokens)
    if lengths is None:
        return language_model_logits(ids, params, config, drops)
    places = places_of_texts(lengths, ids.shape[-1], padding)
    logits = language_model_logits(tokens_to_the_front(ids, places), params, config, drops)
    return rows_back(logits, places)


def language_model_vjp(
    dout, tokens, params, config, *, lengths=None, padding="right", dropout=None,
    attention_dropout=None, embedding_dropout=None,
):  # fmt: skip
    """
    Backward pass, with all options.

    >>> from dlref.formulas.transformer import configuration, init_language_model
    >>> config = configuration(vocab_size=4, d_model=8, num_heads=2, tied=False)
    >>> params = init_language_model(np.random.default_rng(0), config)
    >>> grads = language_model_vjp(np.eye(2, 4), [3, 1], params, config)
    >>> print(np.any(grads.embedding != 0, axis=-1))  # of the tokens 1 and 3
    [False  True False  True]
    """
    drops = dropout, attention_dropout, embedding_dropout
    ids = np.asarray(tokens)
    if lengths is not None:
        places = places_of_texts(lengths, ids.shape[-1], padding)
        ids, dout = tokens_to_the_front(ids, places), rows_to_the_front(dout, places)
    return language_model_gradients(dout, ids, params, config, drops)


def inputs_and_targets(tokens, targets=None, lengths=None, padding="right"):
    """Input and targets of the model; each position predicts the next token by default."""
    ids = np.asarray(tokens)
    if lengths is None:
        return (ids[..., :-1], ids[..., 1:]) if targets is None else (ids, np.asarray(targets))
    places = places_of_texts(lengths, ids.shape[-1], padding)
    if targets is not None:
        wanted = tokens_to_the_front(np.asarray(targets), places, IGNORED)
        return tokens_to_the_front(ids, places), wanted
    ids = tokens_to_the_front(ids, places, IGNORED)
    read, wanted = ids[..., :-1], ids[..., 1:]
    return np.where(read == IGNORED, 0, read), wanted  # padding is read as any token


def language_model_loss(
    tokens, params, config, *, targets=None, lengths=None, padding="right", dropout=None,
    attention_dropout=None, embedding_dropout=None,
):  # fmt: skip
    """
    Mean cross-entropy of the next token.

    >>> from dlref.formulas.transformer import configuration, init_language_model
    >>> config = configuration(vocab_size=9, d_model=16, num_heads=2, tied=False)
    >>> params = init_language_model(np.random.default_rng(0), config)
    >>> guess = params._replace(head=0 * params.head)
    >>> loss = language_model_loss([1, 2, 3], guess, config)
    >>> print(np.round(np.exp(loss), 4))  # the guess of nine tokens alike
    9.0
    """
    drops = dropout, attention_dropout, embedding_dropout
    ids, wanted = inputs_and_targets(tokens, targets, lengths, padding)
    return cross_entropy(language_model_logits(ids, params, config, drops), wanted)


def language_model_loss_value_and_grad(
    tokens, params, config, *, targets=None, lengths=None, padding="right", dropout=None,
    attention_dropout=None, embedding_dropout=None,
):  # fmt: skip
    """
    The loss and its gradient: probability minus truth, backwards through the model.

    >>> from dlref.formulas.transformer import configuration, init_language_model
    >>> config = configuration(vocab_size=9, d_model=16, num_heads=2)
    >>> params = init_language_model(np.random.default_rng(0), config)
    >>> loss, grads = language_model_loss_value_and_grad([1, 2, 3, 4, 5], params, config)
    >>> own = grads.blocks[0].attention  # a bias of all keys moves all scores of a query alike
    >>> print(np.max(abs(own.b_k)) < 1e-15, np.max(abs(own.b_v)) > 1e-3)
    True True
    """
    drops = dropout, attention_dropout, embedding_dropout
    ids, wanted = inputs_and_targets(tokens, targets, lengths, padding)
    logits = language_model_logits(ids, params, config, drops)
    dlogits = cross_entropy_grad(logits, wanted)
    grads = language_model_gradients(dlogits, ids, params, config, drops)
    return cross_entropy(logits, wanted), grads


def language_model_loss_grad(
    tokens, params, config, *, targets=None, lengths=None, padding="right", dropout=None,
    attention_dropout=None, embedding_dropout=None,
):  # fmt: skip
    """The gradient alone."""
    _, grads = language_model_loss_value_and_grad(
        tokens, params, config, targets=targets, lengths=lengths, padding=padding,
        dropout=dropout, attention_dropout=attention_dropout, embedding_dropout=embedding_dropout,
    )  # fmt: skip
    return grads


class LanguageModelTrace(NamedTuple):
    """The tokens before the first block and after each, and the weights of each."""

    residual: tuple
    weights: tuple


def weights_of_block(x, p, o, call):
    """Attention weights of an encoder block; a delta rule has none."""
    if is_delta(p.attention):
        return None
    z = normalize(x, p.norm1, o) if o["norm_first"] else x
    if is_latent(p.attention):
        options = options_of_scores(z.shape[-2], o, call)
        return latent_weights(z, p.attention, o, options)
    return attend_steps(z, p.attention, o, call)["weights"]


def latent_weights(z, p, o, options):
    """Attention weights of latent attention."""
    H = o["num_heads"]
    s = latent_steps(z, p, H, o["rope"], o["rope_interleaved"], inner_eps(o))
    q, k, v = expanded_operands(s, p, H, s["latent"], s["shared"])
    options["scale"] = latent_scale(p, H, o["scale"])
    _, weights = scaled_dot_product_attention(q, k, v, **options, return_weights=True)
    return weights


def language_model_trace(tokens, params, config, *, lengths=None, padding="right"):
    """
    Residual stream and attention weights of each block.

    >>> from dlref.formulas.transformer import LanguageModelTrace
    >>> from dlref.formulas.transformer import configuration, init_language_model
    >>> config = configuration(vocab_size=9, d_model=16, num_heads=2)
    >>> params = init_language_model(np.random.default_rng(0), config)
    >>> trace = language_model_trace([3, 1, 4], params, config)
    >>> print(len(trace.residual), trace.weights[0].shape)
    3 (2, 3, 3)
    >>> print(trace.weights[1][:, 0])  # the first token sees itself alone
    [[1. 0. 0.]
     [1. 0. 0.]]
    """
    p, drops = params, (None, None, None)
    ids = np.asarray(tokens)
    places = None if lengths is None else places_of_texts(lengths, ids.shape[-1], padding)
    if places is not None:
        ids = tokens_to_the_front(ids, places)
    residual, _ = language_model_states(ids, p, config, drops)
    T, dtype = ids.shape[-1], p.embedding.real.dtype
    kinds = kinds_of_model(config, T, True, dtype)
    call = call_of_model(config, p.positions, T, True, dtype, drops)
    weights = [
        weights_of_block(x, block, o, call)
        for x, block, o in zip(residual, p.blocks, kinds, strict=False)
    ]
    if places is not None:
        residual = [rows_back(x, places) for x in residual]
        weights = [None if w is None else pairs_back(w, places) for w in weights]
    return LanguageModelTrace(tuple(residual), tuple(weights))


# == classifier


def classify(tokens, class_token, embedding, blocks, w_head, b_head, heads):
    """
    A token before the text summarizes it for the classes; without positions and last norm.

    >>> zero, one, norm = np.zeros((2, 2)), np.eye(2), (np.ones(2), np.zeros(2))
    >>> block = (zero, zero, one, one), norm, (zero, np.zeros(2)) * 2, norm
    >>> embedding, class_token = np.array([[1.0, 3.0], [3.0, 1.0]]), np.zeros(2)
    >>> logits = classify([0, 0, 1], class_token, embedding, [block], one, np.zeros(2), heads=1)
    >>> print(np.round(logits, 4))  # the mean of (-1, 1) twice, (1, -1) and (0, 0)
    [-0.25  0.25]
    """
    x = np.concatenate([class_token[None], embedding[tokens]])
    x = pre_norm_blocks(x, blocks, heads)
    return w_head @ x[0] + b_head


def init_sequence_classifier(rng, config, classes, *, dtype=np.float64):
    """Parameters of a classifier of texts."""
    class_token = init_embedding(rng, config, 1)[0]
    embedding = init_embedding(rng, config, config.vocab_size)
    positions = init_positions(rng, config)
    blocks = tuple(init_encoder_block(rng, config) for _ in range(config.num_layers))
    w_head = rng.normal(0.0, 0.02, (classes, config.d_model))
    params = SequenceClassifierParams(
        class_token, embedding, positions, blocks, init_last_norm(config), w_head,
        zeros_if(config.biases, classes),
    )  # fmt: skip
    return cast(params, dtype)


def classifier_setup(ids, p, config, lengths, drops):
    """Input, options and call of the blocks of a classifier; all tokens see all others."""
    T, dtype = ids.shape[-1] + 1, p.embedding.real.dtype
    x = embed(ids, p.embedding, p.positions, config, drops, p.class_token)
    kinds = kinds_of_model(config, T, False, dtype)
    mask = None if lengths is None else padding_mask(np.asarray(lengths) + 1, T)
    return x, kinds, call_of_model(config, p.positions, T, False, dtype, drops, mask)


def classifier_logits(ids, p, config, lengths, drops):
    """Read the place of the class token after the last block."""
    x, kinds, call = classifier_setup(ids, p, config, lengths, drops)
    _, h = stack(x, p.blocks, p.norm, kinds, call)
    return linear(h[..., 0, :], p.w_head, p.b_head)


def classifier_gradients(dlogits, ids, p, config, lengths, drops):
    """Backward pass: only the place of the class token has a cotangent."""
    x, kinds, call = classifier_setup(ids, p, config, lengths, drops)
    _, h = stack(x, p.blocks, p.norm, kinds, call)
    dread, dw_head, db_head = dense_vjp(dlogits, h[..., 0, :], p.w_head, p.b_head)
    dh = np.zeros_like(h)
    dh[..., 0, :] = dread
    dx, _, dblocks, dnorm, dbias = stack_vjp(dh, x, p.blocks, p.norm, kinds, call)
    dembedding, dtable, dclass_token = embed_vjp(
        dx, dbias, ids, p.embedding, p.positions, config, False, drops, p.class_token
    )
    return type(p)(
        class_token=dclass_token, embedding=dembedding, positions=dtable, blocks=dblocks,
        norm=dnorm, w_head=dw_head, b_head=db_head,
    )  # fmt: skip


def sequence_classifier(
    tokens, params, config, *, lengths=None, dropout=None, attention_dropout=None,
    embedding_dropout=None,
):  # fmt: skip
    """
    Logits of the classes, with all options.

    >>> from dlref.formulas.transformer import configuration, init_sequence_classifier
    >>> config = configuration(vocab_size=9, d_model=16, num_heads=2)
    >>> params = init_sequence_classifier(np.random.default_rng(0), config, 3)
    >>> a, b = sequence_classifier([[4, 5, 0], [4, 5, 8]], params, config, lengths=[2, 2])
    >>> print(a.shape, np.allclose(a, b))  # padding has no effect
    (3,) True
    """
    drops = dropout, attention_dropout, embedding_dropout
    return classifier_logits(np.asarray(tokens), params, config, lengths, drops)


def sequence_classifier_vjp(
    dout, tokens, params, config, *, lengths=None, dropout=None, attention_dropout=None,
    embedding_dropout=None,
):  # fmt: skip
    """
    Backward pass: it begins at the place of the class token.

    >>> from dlref.formulas.transformer import configuration, init_sequence_classifier
    >>> config = configuration(vocab_size=4, d_model=8, num_heads=2)
    >>> params = init_sequence_classifier(np.random.default_rng(0), config, 2)
    >>> grads = sequence_classifier_vjp(np.array([1.0, 0.0]), [3, 2, 1], params, config, lengths=2)
    >>> print(np.any(grads.embedding != 0, axis=-1))  # of the tokens 2 and 3
    [False False  True  True]
    """
    drops = dropout, attention_dropout, embedding_dropout
    return classifier_gradients(dout, np.asarray(tokens), params, config, lengths, drops)


def sequence_classifier_loss(
    tokens, classes, params, config, *, lengths=None, dropout=None, attention_dropout=None,
    embedding_dropout=None,
):  # fmt: skip
    """
    Mean cross-entropy of the classes.

    >>> from dlref.formulas.transformer import configuration, init_sequence_classifier
    >>> config = configuration(vocab_size=4, d_model=8, num_heads=2)
    >>> params = init_sequence_classifier(np.random.default_rng(0), config, 2)
    >>> guess = params._replace(w_head=0 * params.w_head)
    >>> loss = sequence_classifier_loss([[3, 1], [2, 0]], [0, 1], guess, config)
    >>> print(np.round(np.exp(loss), 4))
    2.0
    """
    drops = dropout, attention_dropout, embedding_dropout
    logits = classifier_logits(np.asarray(tokens), params, config, lengths, drops)
    return cross_entropy(logits, np.asarray(classes))


def sequence_classifier_loss_value_and_grad(
    tokens, classes, params, config, *, lengths=None, dropout=None, attention_dropout=None,
    embedding_dropout=None,
):  # fmt: skip
    """
    The loss and its gradient: probability minus truth, backwards through the model.

    >>> from dlref.formulas.transformer import configuration, init_sequence_classifier
    >>> config = configuration(vocab_size=4, d_model=8, num_heads=2)
    >>> params = init_sequence_classifier(np.random.default_rng(0), config, 2)
    >>> guess = params._replace(w_head=0 * params.w_head)
    >>> loss, grads = sequence_classifier_loss_value_and_grad([3, 1], 0, guess, config)
    >>> print(grads.b_head)
    [-0.5  0.5]
    """
    drops = dropout, attention_dropout, embedding_dropout
    ids, classes = np.asarray(tokens), np.asarray(classes)
    logits = classifier_logits(ids, params, config, lengths, drops)
    dlogits = cross_entropy_grad(logits, classes)
    grads = classifier_gradients(dlogits, ids, params, config, lengths, drops)
    return cross_entropy(logits, classes), grads


def sequence_classifier_loss_grad(
    tokens, classes, params, config, *, lengths=None, dropout=None, attention_dropout=None,
    embedding_dropout=None,
):  # fmt: skip
    """The gradient alone."""
    _, grads = sequence_classifier_loss_value_and_grad(
        tokens, classes, params, config, lengths=lengths, dropout=dropout,
        attention_dropout=attention_dropout, embedding_dropout=embedding_dropout,
    )  # fmt: skip
    return grads


# == encoder_decoder


def encode_and_decode(source, target, embedding, encoder_blocks, decoder_blocks, heads):
    """
    The decoder reads its own text and the encoded source; without positions and last norms.

    >>> zero, one, norm = np.zeros((2, 2)), np.eye(2), (np.ones(2), np.zeros(2))
    >>> own, cross, network = (zero,) * 4, (zero, zero, one, one), (zero, np.zeros(2)) * 2
    >>> block = own, norm, cross, norm, network, norm  # adds the mean of the memory
    >>> embedding = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> print(encode_and_decode([0, 1], [0], embedding, [], [block], heads=1))
    [[1.5 0.5 2. ]]
    """
    memory = pre_norm_blocks(embedding[source], encoder_blocks, heads)
    x = embedding[target]
    for params in decoder_blocks:
        x = pre_norm_decoder_block(x, memory, params, heads)
    return x @ embedding.T


def init_encoder_decoder_model(rng, config, *, dtype=np.float64):
    """Parameters of an encoder-decoder model."""
    embedding = init_embedding(rng, config, config.vocab_size)
    source_positions, positions = init_positions(rng, config), init_positions(rng, config)
    encoder_blocks = tuple(init_encoder_block(rng, config) for _ in range(config.num_layers))
    decoder_blocks = tuple(init_decoder_block(rng, config) for _ in range(decoder_depth(config)))
    head = init_head(rng, config)
    params = EncoderDecoderParams(
        embedding, source_positions, positions, encoder_blocks, init_last_norm(config),
        decoder_blocks, init_last_norm(config), head,
    )  # fmt: skip
    return cast(params, dtype)


def drops_of_halves(dropout, attention_dropout, embedding_dropout):
    """The factors of dropout of the encoder and of the decoder."""
    pairs = [
        (None, None) if d is None else d for d in (dropout, attention_dropout, embedding_dropout)
    ]
    encoder_drops, decoder_drops = zip(*pairs, strict=True)
    return encoder_drops, decoder_drops


def encoder_setup(source, p, config, lengths, drops):
    """Input, options and call of the blocks of the encoder."""
    S, dtype = source.shape[-1], p.embedding.real.dtype
    x = embed(source, p.embedding, p.source_positions, config, drops)
    kinds = kinds_of_model(config, S, False, dtype)
    mask = None if lengths is None else padding_mask(lengths, S)
    return x, kinds, call_of_model(config, p.source_positions, S, False, dtype, drops, mask)


def decoder_setup(source, target, p, config, lengths, drops):
    """Input, options and call of the blocks of the decoder."""
    T, dtype = target.shape[-1], p.embedding.real.dtype
    x = embed(target, p.embedding, p.positions, config, drops)
    kinds = kinds_of_model(config, T, True, dtype)
    seen = None if lengths is None else padding_mask(lengths, source.shape[-1])
    call = call_of_model(config, p.positions, T, True, dtype, drops, memory_mask=seen)
    return x, kinds, call


def encode(source, p, config, lengths, drops):
    """The memory: the encoder's output for the source."""
    x, kinds, call = encoder_setup(source, p, config, lengths, drops)
    _, memory = stack(x, p.encoder, p.encoder_norm, kinds, call)
    return memory


def encoder_decoder_logits(source, target, p, config, lengths, drops):
    """Encode the source, decode the target, compare with all tokens."""
    encoder_drops, decoder_drops = drops
    memory = encode(source, p, config, lengths, encoder_drops)
    x, kinds, call = decoder_setup(source, target, p, config, lengths, decoder_drops)
    _, h = stack(x, p.decoder, p.norm, kinds, call, memory)
    return logits_of(h, p, config)


def encoder_decoder_gradients(dlogits, source, target, p, config, lengths, drops):
    """Backward pass: the decoder first, then, with the gradient of the memory, the encoder."""
    encoder_drops, decoder_drops = drops
    memory = encode(source, p, config, lengths, encoder_drops)
    x, kinds, call = decoder_setup(source, target, p, config, lengths, decoder_drops)
    _, h = stack(x, p.decoder, p.norm, kinds, call, memory)
    dh, dhead = logits_vjp(dlogits, h, p, config)
    dx, dmemory, ddecoder, dnorm, dbias = stack_vjp(dh, x, p.decoder, p.norm, kinds, call, memory)
    dwritten, dtable, _ = embed_vjp(
        dx, dbias, target, p.embedding, p.positions, config, True, decoder_drops
    )

    x, kinds, call = encoder_setup(source, p, config, lengths, encoder_drops)
    dx, _, dencoder, dencoder_norm, dbias = stack_vjp(
        dmemory, x, p.encoder, p.encoder_norm, kinds, call
    )
    dread, dsource_table, _ = embed_vjp(
        dx, dbias, source, p.embedding, p.source_positions, config, False, encoder_drops
    )

    dembedding = dwritten + dread
    if p.head is None:
        dembedding, dhead = dembedding + dhead, None
    return type(p)(
        embedding=dembedding, source_positions=dsource_table, positions=dtable, encoder=dencoder,
        encoder_norm=dencoder_norm, decoder=ddecoder, norm=dnorm, head=dhead,
    )  # fmt: skip


def encoder_decoder_model(
    source, target, params, config, *, lengths=None, dropout=None, attention_dropout=None,
    embedding_dropout=None,
):  # fmt: skip
    """
    Logits of the next token of one text, given all of another, with all options.

    >>> from dlref.formulas.transformer import configuration, init_encoder_decoder_model
    >>> config = configuration(vocab_size=9, d_model=16, num_heads=2)
    >>> params = init_encoder_decoder_model(np.random.default_rng(0), config)
    >>> pairs = ([1, 2, 3], [4, 5]), ([1, 2, 8], [4, 5]), ([1, 2, 3], [4, 8])
    >>> a, other_source, other_target = (encoder_decoder_model(*p, params, config) for p in pairs)
    >>> print(np.all(np.isclose(a, other_source), axis=-1))
    [False False]
    >>> print(np.all(np.isclose(a, other_target), axis=-1))
    [ True False]
    """
    drops = drops_of_halves(dropout, attention_dropout, embedding_dropout)
    texts = np.asarray(source), np.asarray(target)
    return encoder_decoder_logits(*texts, params, config, lengths, drops)


def encoder_decoder_model_vjp(
    dout, source, target, params, config, *, lengths=None, dropout=None, attention_dropout=None,
    embedding_dropout=None,
):  # fmt: skip
    """
    Backward pass: the decoder first, then the encoder.

    >>> from dlref.formulas.transformer import configuration, init_encoder_decoder_model
    >>> config = configuration(vocab_size=5, d_model=8, num_heads=2, tied=False)
    >>> params = init_encoder_decoder_model(np.random.default_rng(0), config)
    >>> grads = encoder_decoder_model_vjp(np.eye(1, 5), [1, 2], [4], params, config, lengths=1)
    >>> print(np.any(grads.embedding != 0, axis=-1))  # of the tokens 1 and 4
    [False  True False False  True]
    """
    drops = drops_of_halves(dropout, attention_dropout, embedding_dropout)
    texts = np.asarray(source), np.asarray(target)
    return encoder_decoder_gradients(dout, *texts, params, config, lengths, drops)


def encoder_decoder_model_loss(
    source, target, params, config, *, targets=None, lengths=None, dropout=None,
    attention_dropout=None, embedding_dropout=None,
):  # fmt: skip
    """
    Mean cross-entropy of the next token of the target.

    >>> from dlref.formulas.transformer import configuration, init_encoder_decoder_model
    >>> config = configuration(vocab_size=9, d_model=16, num_heads=2, tied=False)
    >>> params = init_encoder_decoder_model(np.random.default_rng(0), config)
    >>> guess = params._replace(head=0 * params.head)
    >>> loss = encoder_decoder_model_loss([1, 2], [0, 2, 1], guess, config)
    >>> print(np.round(np.exp(loss), 4))
    9.0
    """
    drops = drops_of_halves(dropout, attention_dropout, embedding_dropout)
    ids, wanted = inputs_and_targets(target, targets)
    logits = encoder_decoder_logits(np.asarray(source), ids, params, config, lengths, drops)
    return cross_entropy(logits, wanted)


def encoder_decoder_model_loss_value_and_grad(
    source, target, params, config, *, targets=None, lengths=None, dropout=None,
    attention_dropout=None, embedding_dropout=None,
):  # fmt: skip
    """
    The loss and its gradient: probability minus truth, backwards through both halves.

    >>> from dlref.formulas.transformer import configuration, init_encoder_decoder_model
    >>> config = configuration(vocab_size=9, d_model=16, num_heads=2)
    >>> params = init_encoder_decoder_model(np.random.default_rng(0), config)
    >>> loss, grads = encoder_decoder_model_loss_value_and_grad([1, 2], [0, 2, 1], params, config)
    >>> print(np.any(grads.encoder[0].attention.w_v))  # it reaches the first block of the encoder
    True
    """
    drops = drops_of_halves(dropout, attention_dropout, embedding_dropout)
    ids, wanted = inputs_and_targets(target, targets)
    texts = np.asarray(source), ids
    logits = encoder_decoder_logits(*texts, params, config, lengths, drops)
    dlogits = cross_entropy_grad(logits, wanted)
    grads = encoder_decoder_gradients(dlogits, *texts, params, config, lengths, drops)
    return cross_entropy(logits, wanted), grads


def encoder_decoder_model_loss_grad(
    source, target, params, config, *, targets=None, lengths=None, dropout=None,
    attention_dropout=None, embedding_dropout=None,
):  # fmt: skip
    """The gradient alone."""
    _, grads = encoder_decoder_model_loss_value_and_grad(
        source, target, params, config, targets=targets, lengths=lengths, dropout=dropout,
        attention_dropout=attention_dropout, embedding_dropout=embedding_dropout,
    )  # fmt: skip
    return grads


def encoder_decoder_generate(source, params, config, *, start, steps, stop=None, lengths=None):
    """
    Write the most probable token again and again.

    >>> from dlref.formulas.transformer import configuration, init_encoder_decoder_model
    >>> config = configuration(vocab_size=9, d_model=16, num_heads=2)
    >>> params = init_encoder_decoder_model(np.random.default_rng(0), config)
    >>> text = encoder_decoder_generate([1, 2], params, config, start=0, steps=3)
    >>> logits = encoder_decoder_model([1, 2], text[:-1], params, config)
    >>> print(text[1:] == np.argmax(logits, axis=-1))
    [ True  True  True]
    """
    source = np.asarray(source)
    text = np.full((*source.shape[:-1], 1), start)
    done = np.full(source.shape[:-1], False)
    for _ in range(steps):
        logits = encoder_decoder_model(source, text, params, config, lengths=lengths)
        token = np.argmax(logits[..., -1, :], axis=-1)
        if stop is not None:
            token = np.where(done, stop, token)
            done = done | (token == stop)
        text = np.concatenate([text, token[..., None]], axis=-1)
    return text


def encoder_decoder_weights(source, target, params, config, *, lengths=None):
    """
    Cross-attention weights of each block: where the decoder looks in the source.

    >>> from dlref.formulas.transformer import configuration, init_encoder_decoder_model
    >>> config = configuration(vocab_size=9, d_model=16, num_heads=2)
    >>> params = init_encoder_decoder_model(np.random.default_rng(0), config)
    >>> first, second = encoder_decoder_weights([1, 2, 3], [0, 4], params, config)
    >>> print(first.shape, np.allclose(np.sum(first, axis=-1), 1))
    (2, 2, 3) True
    """
    p, drops = params, (None, None, None)
    source, target = np.asarray(source), np.asarray(target)
    memory = encode(source, p, config, lengths, drops)
    x, kinds, call = decoder_setup(source, target, p, config, lengths, drops)
    weights = []
    for block, o in zip(p.decoder, kinds, strict=False):
        y, _, out = decoder_states(x, memory, block, o, call)
        z = normalize(y, block.norm2, o) if o["norm_first"] else y
        weights.append(look_up_steps(z, memory, block.cross_attention, o, call)["weights"])
        x = out
    return tuple(weights)


# == generation


def greedy(model, tokens, steps):
    """
    The likeliest token, appended again and again; `model` gives the logits of a text.

    >>> def model(tokens):  # counts up to 3, then from 0 again
    ...     return np.eye(4)[(tokens + 1) % 4]
    >>> print(greedy(model, [1], steps=3))
    [1, 2, 3, 0]
    """
    for _ in range(steps):
        tokens = [*tokens, int(np.argmax(model(np.array(tokens))[-1]))]
    return tokens


def filtered_probabilities(logits, temperature=1.0, top_k=None, top_p=None):
    """
    Temperature, then top k, then top p, for one row of logits.

    >>> logits = np.log([0.5, 0.3, 0.15, 0.05])
    >>> print(filtered_probabilities(logits, top_k=2))
    [0.625 0.375 0.    0.   ]
    >>> print(np.round(filtered_probabilities(logits, top_p=0.9), 3))
    [0.526 0.316 0.158 0.   ]
    """
    p = softmax(logits / temperature)
    if top_k is not None:
        p = np.where(p >= np.sort(p)[-top_k], p, 0)
        p = p / np.sum(p)
    if top_p is not None:
        order = np.argsort(-p)
        before = np.cumsum(p[order]) - p[order]  # collected before this token
        p[order[before >= top_p]] = 0
        p = p / np.sum(p)
    return p


def next_token_probabilities(logits, *, temperature=1.0, top_k=None, top_p=None, min_p=None):
    """
    The same for rows of logits; at temperature 0 the likeliest token.

    >>> logits = np.log([[0.5, 0.3, 0.15, 0.05], [0.05, 0.15, 0.3, 0.5]])
    >>> print(next_token_probabilities(logits, top_k=2))
    [[0.625 0.375 0.    0.   ]
     [0.    0.    0.375 0.625]]
    """
    z = np.asarray(logits)
    if temperature == 0:
        best = np.arange(z.shape[-1]) == np.argmax(z, axis=-1)[..., None]
        known = np.max(z, axis=-1, keepdims=True) > -np.inf  # False also for NaN
        return np.where(known, best, np.nan).astype(z.dtype)
    z = (z - np.max(z, axis=-1, keepdims=True)) / temperature
    if top_k is not None and top_k < z.shape[-1]:
        least = np.sort(z, axis=-1)[..., -top_k, None]
        z = np.where(z < least, -np.inf, z)
    p = softmax(z)
    if top_p is not None:
        p = nucleus(p, top_p)
    if min_p is not None:
        p = np.where(p < min_p * np.max(p, axis=-1, keepdims=True), 0, p)
        p = p / np.sum(p, axis=-1, keepdims=True)
    return p


def nucleus(p, top_p):
    """The most probable tokens before which less than `top_p` has been collected."""
    order = np.argsort(-p, axis=-1, kind="stable")
    falling = np.take_along_axis(p, order, axis=-1)
    before = np.cumsum(falling, axis=-1) - falling
    kept = before < top_p
    kept[..., 0] = True
    rank = np.argsort(order, axis=-1)  # of each token, in falling order
    p = np.where(np.take_along_axis(kept, rank, axis=-1), p, 0)
    return p / np.sum(p, axis=-1, keepdims=True)


def prompts_of(prompt, lengths):
    """Prompts one by one, the tokens to the left of each, and their batch axes, if any."""
    if lengths is None and len({np.shape(text) for text in prompt}) > 1:
        texts = [np.asarray(text) for text in prompt]  # a list of different lengths
        return texts, [text[:0] for text in texts], None
    ids = np.asarray(prompt)
    rows = ids.reshape(-1, ids.shape[-1])
    T = rows.shape[-1]
    counts = np.broadcast_to(T if lengths is None else lengths, ids.shape[:-1]).ravel()
    cut = list(zip(rows, T - counts, strict=True))
    return [row[n:] for row, n in cut], [row[:n] for row, n in cut], ids.shape[:-1]


def results_of(texts, pads, batch):
    """Texts with the tokens to the left of their prompts, in the shape of the prompts."""
    whole = [
        np.concatenate([np.broadcast_to(pad, (*text.shape[:-1], len(pad))), text], axis=-1)
        for text, pad in zip(texts, pads, strict=True)
    ]
    return whole if batch is None else np.reshape(whole, (*batch, *whole[0].shape))


def drawn_token(logits, r, temperature, **options):
    """The first token whose cumulative probability exceeds r; the likeliest at temperature 0."""
    if temperature == 0:
        return np.argmax(logits)
    p = next_token_probabilities(logits, temperature=temperature, **options)
    total = np.cumsum(p)
    return np.argmax(total > r * total[-1])


def generate(
    prompt, params, config, *, steps, temperature=1.0, top_k=None, top_p=None, min_p=None, rng=None,
    stop=None, lengths=None, padding="left",
):  # fmt: skip
    """
    Run the model on the text so far, draw a token, append it.

    >>> from dlref.formulas.transformer import configuration, init_language_model
    >>> config = configuration(vocab_size=9, d_model=16, num_heads=2, positions="rope")
    >>> params = init_language_model(np.random.default_rng(0), config)
    >>> text = generate([1, 2], params, config, steps=3, temperature=0)
    >>> logits = language_model(text[:-1], params, config)
    >>> print(text[2:] == np.argmax(logits[1:], axis=-1))
    [ True  True  True]
    """
    prompts, pads, batch = prompts_of(prompt, lengths)
    options = {"top_k": top_k, "top_p": top_p, "min_p": min_p}
    numbers = np.zeros((steps, len(prompts))) if rng is None else rng.random((steps, len(prompts)))
    texts = []
    for i, start in enumerate(prompts):
        text, done = start, False
        for r in numbers[:, i]:
            token = stop
            if not done:
                logits = language_model(text, params, config)[-1]
                token = drawn_token(logits, r, temperature, **options)
            done = stop is not None and token == stop
            text = np.append(text, token)
        texts.append(text)
    return results_of(texts, pads, batch)


def searched(text, params, config, steps, beams, stop, length_penalty):
    """The best continuations of one text, and their scores."""
    K, V = beams, config.vocab_size
    texts = np.tile(text, (K, 1))
    total = np.full(K, -np.inf)
    total[0] = 0  # at first all beams are the same text
    length, done = np.zeros(K), np.full(K, False)
    for _ in range(steps):
        logp = log_softmax(language_model(texts, params, config)[:, -1])
        if stop is not None:  # a text that has ended goes on with `stop`, at no cost
            logp = np.where(done[:, None], np.where(np.arange(V) == stop, 0, -np.inf), logp)
        sums = total[:, None] + logp
        length = length + ~done
        scores = sums / np.maximum(length, 1)[:, None] ** length_penalty
        best = np.argsort(-scores, axis=None, kind="stable")[:K]
        beam, token = np.divmod(best, V)
        texts = np.concatenate([texts[beam], token[:, None]], axis=-1)
        total, length, done = sums.ravel()[best], length[beam], done[beam]
        if stop is not None:
            done = done | (token == stop)
    return texts, total / np.maximum(length, 1) ** length_penalty


def beam_search(
    prompt, params, config, *, steps, beams=4, stop=None, length_penalty=0.0, lengths=None,
    padding="left",
):  # fmt: skip
    """
    Of all texts that are one token longer than those kept, keep the best.

    >>> from dlref.formulas.transformer import configuration, generate, init_language_model
    >>> config = configuration(vocab_size=9, d_model=16, num_heads=2, positions="rope")
    >>> params = init_language_model(np.random.default_rng(0), config)
    >>> texts, scores = beam_search([1, 2], params, config, steps=3, beams=1)
    >>> greedy = generate([1, 2], params, config, steps=3, temperature=0)
    >>> print(texts.shape, texts[0] == greedy)
    (1, 5) [ True  True  True  True  True]
    """
    prompts, pads, batch = prompts_of(prompt, lengths)
    pairs = [searched(text, params, config, steps, beams, stop, length_penalty) for text in prompts]
    scores = np.array([score for _, score in pairs])
    scores = scores if batch is None else scores.reshape(*batch, beams)
    return results_of([text for text, _ in pairs], pads, batch), scores


# == budget


class ParameterCounts(NamedTuple):
    """How many parameters each component has."""

    embedding: int
    positions: int
    attention: int
    feed_forward: int
    norms: int
    head: int

    @property
    def total(self):
        """The sum of all components."""
        return sum(self)


class MultiplicationCounts(NamedTuple):
    """How many multiplications each component needs."""

    projections: int
    scores: int
    feed_forward: int
    head: int

    @property
    def total(self):
        """The sum of all components."""
        return sum(self)


def gpt_parameter_count(D, layers, width, vocabulary, context):
    """
    Parameters of a GPT-2, with a tied head.

    >>> print(gpt_parameter_count(768, layers=12, width=3072, vocabulary=50257, context=1024))
    124439808
    """
    attention = 4 * (D * D + D)
    network = 2 * D * width + width + D
    norms = 2 * 2 * D
    return (vocabulary + context) * D + layers * (attention + network + norms) + 2 * D


def width_of_embeddings(config):
    """Features of an embedding, and the size of the matrices to the blocks and back."""
    C, D = config.embedding_dim, config.d_model
    return (D, 0) if C is None else (C, 2 * C * D)


def parameter_counts(config):
    """
    Parameters of a language model, by component.

    >>> from dlref.formulas.transformer import ParameterCounts, configuration
    >>> counts = parameter_counts(configuration(50257, 768, 12, num_layers=12))
    >>> print(counts.total, round(counts.feed_forward / counts.total, 2))
    124439808 0.46
    """
    D, F, L, V = config.d_model, config.d_ff, config.num_layers, config.vocab_size
    Q, K = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    attention = D * Q + 2 * D * K + Q * D
    network = 3 * D * F if config.gated else 2 * D * F
    if config.biases:
        attention += Q + 2 * K + D
        network += 0 if config.gated else F + D
    norm = 2 * D if config.biases and config.norm == "layer" else D
    norms = 2 * L + 1 if config.norm_first else 2 * L
    tables = {"learned": config.length * D, "t5": T5_BUCKETS * config.num_heads}
    C, factors = width_of_embeddings(config)
    return ParameterCounts(
        V * C + factors, tables.get(config.positions, 0), L * attention, L * network, norms * norm,
        0 if config.tied else V * C,
    )  # fmt: skip


def multiplication_counts(config, *, context):
    """
    Multiplications for one token, with `context` tokens to attend to.

    >>> from dlref.formulas.transformer import MultiplicationCounts, configuration
    >>> counts = multiplication_counts(configuration(50257, 768, 12, num_layers=12), context=512)
    >>> print(counts.total, round(counts.scores / counts.total, 2))
    132969216 0.07
    """
    D, F, L, V = config.d_model, config.d_ff, config.num_layers, config.vocab_size
    Q, K = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    projections = L * (D * Q + 2 * D * K + Q * D)
    scores = L * 2 * Q * context
    network = L * (3 if config.gated else 2) * D * F
    C, factors = width_of_embeddings(config)
    return MultiplicationCounts(projections, scores, network, V * C + factors)


# == tasks


def next_from(tokens, first):
    """Inputs, and as targets the next tokens from place `first` on."""
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    asked = np.arange(targets.shape[1]) >= first - 1
    return inputs, np.where(asked, targets, IGNORED)


def copy_task(rng, count, *, length, vocabulary):
    """
    Symbols, a separator 0, the same symbols again.

    >>> tokens, targets = copy_task(np.random.default_rng(0), 1, length=3, vocabulary=9)
    >>> print(tokens, targets)
    [[7 6 5 0 7 6]] [[-100 -100 -100    7    6    5]]
    """
    symbols = rng.integers(1, vocabulary, (count, length))
    separator = np.zeros((count, 1), symbols.dtype)
    return next_from(np.concatenate([symbols, separator, symbols], axis=1), length + 1)


def reverse_task(rng, count, *, length, vocabulary):
    """
    Symbols, a separator 0, the same symbols backwards.

    >>> tokens, targets = reverse_task(np.random.default_rng(0), 1, length=3, vocabulary=9)
    >>> print(tokens, targets)
    [[7 6 5 0 5 6]] [[-100 -100 -100    5    6    7]]
    """
    symbols = rng.integers(1, vocabulary, (count, length))
    separator = np.zeros((count, 1), symbols.dtype)
    return next_from(np.concatenate([symbols, separator, symbols[:, ::-1]], axis=1), length + 1)


def associative_recall_task(rng, count, *, pairs, keys, values):
    """
    Keys, each followed by its value; then all of them again in another order.

    >>> rng = np.random.default_rng(3)
    >>> tokens, targets = associative_recall_task(rng, 1, pairs=2, keys=4, values=6)
    >>> print(tokens, targets)
    [[3 5 2 8 2 8 3]] [[-100 -100 -100 -100    8 -100    5]]
    """
    key = rng.permuted(np.tile(np.arange(keys), (count, 1)), axis=1)[:, :pairs]
    value = keys + rng.integers(0, values, (count, pairs))
    order = rng.permuted(np.tile(np.arange(pairs), (count, 1)), axis=1)
    first = np.stack([key, value], axis=-1)
    again = np.take_along_axis(first, order[:, :, None], axis=1)
    text = np.concatenate([first, again], axis=1).reshape(count, 4 * pairs)
    tokens, targets = next_from(text, 2 * pairs + 1)
    is_value = np.arange(targets.shape[1]) % 2 == 0  # a target that follows a key
    return tokens, np.where(is_value, targets, IGNORED)


def addition_task(rng, count, *, digits):
    """
    Two numbers and their sum, each with its last digit first.

    >>> tokens, targets = addition_task(np.random.default_rng(2), 1, digits=2)
    >>> print(tokens)  # 83 + 26 =
    [[ 3  8 10  6  2 11  9  0]]
    >>> print(targets)
    [[-100 -100 -100 -100 -100    9    0    1]]
    """
    powers = 10 ** np.arange(digits + 1)
    a, b = rng.integers(0, 10**digits, (2, count, 1))
    plus, equals = np.full((count, 1), 10), np.full((count, 1), 11)
    parts = [a // powers[:-1] % 10, plus, b // powers[:-1] % 10, equals, (a + b) // powers % 10]
    return next_from(np.concatenate(parts, axis=1), 2 * digits + 2)
