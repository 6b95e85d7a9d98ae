r"""Text from a language model: a token at a time, with a cache of keys and values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    FloatDType,
    as_floats,
    as_generator,
    as_integer,
    as_number,
    check_ndim,
    check_range,
    check_size,
    result,
)
from .._core.jit import inline_reassoc, kernel
from .._core.pytree import as_float_trees
from .._math.dense import affine
from .._math.elementary import Number, exp
from ..activations import log_softmax, softmax
from ..activations._gelu import FORMS
from ..activations._kernels.elementwise import _loop, _map
from ..activations._relu import _relu
from ..activations._silu import _silu, _steep
from ..attention import scaled_dot_product_attention
from ..normalization._kernels.rows import _rows
from ..normalization._kernels.rows import as_vector as vector
from ..positions import apply_rope
from ._blocks import EncoderBlockParams, NormParams
from ._configuration import (
    GATED,
    LanguageModelConfig,
    LanguageModelParams,
    check_config,
    places,
    rotations,
)
from ._feed_forward import GatedFeedForwardParams, activation_of
from ._language_model import as_params, as_tokens, check_params

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["beam_search", "generate", "next_token_probabilities"]


FORMULAS: dict[str, tuple[Any, ...]] = {
    "gelu": (FORMS["none"][0],),
    "relu": (_relu,),
    "silu": (_steep(_silu, 1.0), np.float64(1.0)),
}


@inline_reassoc
def _dot(x: FloatArray, y: FloatArray) -> Number:
    total = x.dtype.type(0.0)
    for k in range(x.size):
        total += x[k] * y[k]
    return total


@kernel
def _turn(x: FloatArray, cos: FloatArray, sin: FloatArray, out: FloatArray) -> None:
    """Rotate neighbouring channels; without angles, copy."""
    for e in range(cos.size):
        a, b = x[2 * e], x[2 * e + 1]
        out[2 * e] = a * cos[e] - b * sin[e]
        out[2 * e + 1] = a * sin[e] + b * cos[e]
    if not cos.size:
        out[:] = x


@kernel
def _attend_newest(
    qkv: FloatArray,
    cos: FloatArray,
    sin: FloatArray,
    bias: FloatArray,
    scale: Number,
    keys: FloatArray,
    values: FloatArray,
    length: int,
    out: FloatArray,
) -> None:
    """Append one key and value for each text, and let one query of each head attend to all."""
    zero = scale - scale  # of the arrays' dtype
    batch, groups, _, width = keys.shape
    heads = out.shape[1] // width
    many = heads // groups
    q, weights = np.empty(width, keys.dtype), np.empty(length, keys.dtype)
    for b in range(batch):
        for g in range(groups):
            at = (heads + g) * width
            _turn(qkv[b, at : at + width], cos, sin, keys[b, g, length - 1])
            at += groups * width
            values[b, g, length - 1, :] = qkv[b, at : at + width]
        for h in range(heads):
            g = h // many
            _turn(qkv[b, h * width : (h + 1) * width], cos, sin, q)
            top = zero - np.inf
            for j in range(length):
                score = _dot(q, keys[b, g, j]) * scale
                if bias.size:
                    score += bias[h, j]
                weights[j] = score
                top = max(top, score)
            total = zero
            to = out[b, h * width : (h + 1) * width]
            to[:] = zero
            for j in range(length):
                weights[j] = exp(np.float64(weights[j] - top))
                total += weights[j]
            for j in range(length):
                w, v = weights[j] / total, values[b, g, j]
                for e in range(to.size):
                    to[e] += w * v[e]


Norm = tuple[FloatArray, FloatArray]  # weight and bias, as the kernel takes them


class _Layer(NamedTuple):
    """What a block needs for one token after another."""

    block: EncoderBlockParams
    norm1: Norm
    norm2: Norm
    w_qkv: FloatArray
    b_qkv: FloatArray | None
    keys: FloatArray  # (B, Hk, L, E), filled as far as the text goes
    values: FloatArray


class Session:
    """A model in the middle of texts: parameters, caches and what the scheme of positions says."""

    def __init__(
        self, p: LanguageModelParams, config: LanguageModelConfig, batch: int, length: int
    ) -> None:
        """Make room for texts of `length` tokens."""
        dtype = p.embedding.dtype
        self.params, self.config, self.length, self.limit = p, config, 0, length
        self.norm = None if p.norm is None else _norm(p.norm, config.width, dtype)
        self.activation = _activation(GATED.get(config.activation, config.activation), dtype)
        self.scale = dtype.type(1 / math.sqrt(config.head_width))
        self.head = p.embedding if p.head is None else p.head
        shape = batch, config.kv_heads, length
        self.layers = [_layer(block, shape, config, dtype) for block in p.blocks]
        all_places = (
            places(config, p.positions, length, dtype)
            if config.positions
            in (
                "learned",
                "sinusoidal",
            )
            else None
        )
        self.vectors = None if all_places is None else all_places.vectors
        none = np.empty((length, 0), dtype)
        self.cos, self.sin = none, none
        if config.positions == "rope":
            self.cos, self.sin = (t.astype(dtype) for t in rotations(config, 0, length))
        # the last row of the biases: what the newest token sees, by distance
        last = places(config, p.positions, 1, dtype, start=length - 1).bias if length else None
        self.bias = np.empty((0, 0), dtype) if last is None else np.ascontiguousarray(last[:, 0])

    def feed(self, tokens: npt.NDArray[np.int64]) -> FloatArray:
        """Append tokens (B, t) and return the logits (B, V) of what comes next."""
        t = tokens.shape[1]
        start, stop = self.length, self.length + t
        x = self.params.embedding[tokens]
        if self.config.scale_embeddings:
            x *= x.dtype.type(self.config.embedding_scale)
        if self.vectors is not None:
            x += self.vectors[start:stop]
        self.length = stop
        if t == 1:
            x = x[:, 0]
            for layer in self.layers:
                x = self._block(x, layer, self._newest)
        else:
            for layer in self.layers:
                x = self._block(x, layer, self._several)
            x = x[:, -1]
        if self.norm is not None:
            x = self._normalized(np.ascontiguousarray(x), self.norm)
        return _times(x, self.head)

    def keep(self, which: npt.NDArray[np.int64]) -> None:
        """Go on with these texts, in this order; some may be wanted twice, others not at all."""
        self.layers = [
            layer._replace(keys=layer.keys[which], values=layer.values[which])
            for layer in self.layers
        ]

    def _normalized(self, x: FloatArray, norm: Norm) -> FloatArray:
        config, out = self.config, np.empty_like(x)
        matrix, to = (a.reshape(-1, config.width) for a in (x, out))
        _rows(0, len(matrix), matrix, *norm, config.eps, config.norm == "layer", to)
        return out

    def _block(self, x: FloatArray, layer: _Layer, attend: Any) -> FloatArray:
        p, first = layer.block, self.config.norm_first
        z: Any = self._normalized(x, layer.norm1) if first else x
        y: Any = x + _times(
            attend(_times(z, layer.w_qkv, layer.b_qkv), layer), p.attention.w_o, p.attention.b_o
        )
        y = y if first else self._normalized(y, layer.norm1)
        z = self._normalized(y, layer.norm2) if first else y
        y = y + self._network(z, p.feed_forward)
        return y if first else self._normalized(y, layer.norm2)

    def _network(self, x: FloatArray, p: Any) -> FloatArray:
        f = self.activation
        if isinstance(p, GatedFeedForwardParams):
            return _times(f(_times(x, p.w_gate)) * _times(x, p.w_up), p.w_down)
        return _times(f(_times(x, p.w1, p.b1)), p.w2, p.b2)

    def _newest(self, qkv: FloatArray, layer: _Layer) -> FloatArray:
        S = self.length
        out = np.empty((len(qkv), self.config.width), qkv.dtype)
        bias = self.bias[:, self.limit - S :] if self.bias.size else self.bias
        cos, sin = self.cos[S - 1], self.sin[S - 1]
        _attend_newest(qkv, cos, sin, bias, self.scale, layer.keys, layer.values, S, out)
        return out

    def _several(self, qkv: FloatArray, layer: _Layer) -> FloatArray:
        config, t = self.config, qkv.shape[1]
        start, stop, E = self.length - t, self.length, config.head_width
        parts = np.moveaxis(qkv.reshape(*qkv.shape[:2], -1, E), 2, 1)  # (B, heads, t, E)
        q, k, v = np.split(parts, [config.heads, config.heads + config.kv_heads], axis=1)
        if config.positions == "rope":
            tables = self.cos[start:stop], self.sin[start:stop]
            q, k = apply_rope(q, *tables), apply_rope(k, *tables)
        layer.keys[:, :, start:stop], layer.values[:, :, start:stop] = k, v
        out = scaled_dot_product_attention(
            q,
            layer.keys[:, :, :stop],
            layer.values[:, :, :stop],
            bias=places(config, self.params.positions, t, q.dtype, start=start).bias
            if self.bias.size
            else None,
            is_causal=True,
            q_offset=start,
        )
        return np.moveaxis(np.asarray(out), 1, 2).reshape(*qkv.shape[:2], config.width)


def _layer(
    block: EncoderBlockParams, shape: tuple[int, int, int], config: LanguageModelConfig, dtype: Any
) -> _Layer:
    """Put the projections together, so that one product serves all three."""
    p = block.attention
    biases = [p.b_q, p.b_k, p.b_v]
    b_qkv = None
    if any(b is not None for b in biases):
        pairs = zip(biases, (p.w_q, p.w_k, p.w_v), strict=True)
        b_qkv = np.concatenate([np.zeros(len(w), dtype) if b is None else b for b, w in pairs])
    w_qkv = np.concatenate([p.w_q, p.w_k, p.w_v])
    keys, values = (np.zeros((*shape, config.head_width), dtype) for _ in range(2))
    norm1, norm2 = (_norm(n, config.width, dtype) for n in (block.norm1, block.norm2))
    return _Layer(block, norm1, norm2, w_qkv, b_qkv, keys, values)


def _norm(p: NormParams, width: int, dtype: Any) -> Norm:
    """Return weight and bias as the kernel wants them: a row for each group, here one."""
    return vector(p.weight, 1.0, width)[None], vector(p.bias, 0.0, width)[None]


def _activation(name: str, dtype: FloatDType) -> Callable[[FloatArray], FloatArray]:
    """Return an activation; the usual ones without the checks of the public functions."""
    if name not in FORMULAS:
        return activation_of(name)[0]
    formula, *options = FORMULAS[name]
    loop = _loop(_map, formula, dtype)

    def applied(x: FloatArray) -> FloatArray:
        out = np.empty_like(x)
        loop(0, x.size, x.reshape(-1), tuple(options), out.reshape(-1))
        return out

    return applied


def _times(x: FloatArray, w: FloatArray, b: FloatArray | None = None) -> FloatArray:
    """Return an affine map; of few rows without the detours that pay for many."""
    if x.ndim > 2:
        return affine(x, w, b)
    y: FloatArray = np.dot(x, w.T)
    if b is not None:
        y += b
    return y


def next_token_probabilities(
    logits: npt.ArrayLike,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> FloatArray:
    r"""
    Distribution from which the next token is drawn.

    Parameters
    ----------
    logits : array_like, shape (..., V)
        Scores of the tokens.
    temperature : float, default 1.0
        Divides the logits, at least 0. With 0 all probability is on the largest.
    top_k : int or None
        Keep the k most probable tokens, all those that tie with the k-th included.
    top_p : float or None
        Keep the fewest most probable tokens that together have at least this probability, which is
        greater than 0 and at most 1.

    Returns
    -------
    ndarray, shape (..., V)
        Probabilities, which sum to 1 in each row.

    Raises
    ------
    TypeError
        If `logits` is not real or an option is not a number.
    ValueError
        If `logits` is a scalar or an option is out of range.

    See Also
    --------
    generate : Draws from it again and again.

    Notes
    -----
    1. **Temperature.** :math:`p_i \propto e^{z_i / \tau}`: below 1 it sharpens, above 1 it
       flattens. The odds of two tokens are raised to the power :math:`1 / \tau`.
    2. **Top k.** Tokens with :math:`z_i` below the k-th largest get 0.
    3. **Top p.** With the rest sorted by falling probability, :math:`p_{(1)} \ge p_{(2)} \ge
       \dots`, those are kept before which less than p has been collected: the nucleus. Its size
       follows the model's certainty, which that of top k does not.
    4. What is kept is divided by its sum.

    At temperature 0 the first of several equal maxima is taken, the limit of greedy decoding.

    References
    ----------
    - :cite:t:`Holtzman2020` on top p; :cite:t:`Fan2018` on top k

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import next_token_probabilities
    >>> logits = np.log([0.5, 0.3, 0.15, 0.05])
    >>> next_token_probabilities(logits, top_k=2)
    array([0.625, 0.375, 0.   , 0.   ])
    >>> next_token_probabilities(logits, top_p=0.9).round(3)
    array([0.526, 0.316, 0.158, 0.   ])
    >>> next_token_probabilities(logits, temperature=0)
    array([1., 0., 0., 0.])

    At half the temperature the odds are squared, 5 : 3 becomes 25 : 9:

    >>> p = next_token_probabilities(logits, temperature=0.5)
    >>> float(p[0] / p[1]) - 25 / 9 < 1e-14
    True
    """
    tau, k, mass = _sampling(temperature, top_k, top_p)
    dtype, [z] = as_floats({"logits": logits})
    check_ndim("logits", z, 1)
    return result(_probabilities(z, tau, k, mass), dtype)


def _sampling(
    temperature: float, top_k: int | None, top_p: float | None
) -> tuple[float, int | None, float | None]:
    tau = as_number("temperature", temperature, least=0)
    k = None if top_k is None else as_integer("top_k", top_k, least=1)
    return tau, k, None if top_p is None else as_number("top_p", top_p, above=0, most=1)


def _probabilities(z: FloatArray, tau: float, k: int | None, mass: float | None) -> FloatArray:
    if not z.size:
        return np.zeros_like(z)
    if tau == 0:
        best: FloatArray = np.arange(z.shape[-1]) == np.argmax(z, axis=-1)[..., None]
        return best.astype(z.dtype)
    with np.errstate(all="ignore"):
        z = z / tau
        if k is not None and k < z.shape[-1]:
            least = np.partition(z, -k, axis=-1)[..., -k, None]
            z = np.where(z < least, -np.inf, z)
        p = softmax(z)
        if mass is not None:
            order = np.argsort(-p, axis=-1, kind="stable")
            sorted_p = np.take_along_axis(p, order, -1)
            before = np.cumsum(sorted_p, axis=-1) - sorted_p
            kept = before < mass
            kept[..., 0] = True
            out = np.zeros_like(p)
            np.put_along_axis(out, order, np.where(kept, sorted_p, 0.0), -1)
            p = out / out.sum(-1, keepdims=True)
        return np.asarray(p)


def _start(
    prompt: npt.ArrayLike, params: Any, config: LanguageModelConfig, steps: int, beams: int = 1
) -> tuple[npt.NDArray[np.int64], tuple[int, ...], int, Session]:
    """Check; return the prompts (B, T), their batch axes, the number of steps and a session."""
    check_config(config)
    p = as_params("params", params, config)
    _, [p] = as_float_trees({"params": p})
    check_params("params", p, config)
    ids = as_tokens("prompt", prompt, config.vocabulary)
    if not ids.shape[-1]:
        msg = f"Argument 'prompt' must have at least 1 token, not shape {ids.shape}."
        raise ValueError(msg)
    steps = as_integer("steps", steps, least=0)
    check_size(prompt=ids.size, beams=beams, steps=steps)
    texts = ids.reshape(-1, ids.shape[-1])
    needed = ids.shape[-1] + max(steps - 1, 0)  # the last token is not read again
    return texts, ids.shape[:-1], steps, Session(p, config, beams * len(texts), needed)


def generate(
    prompt: npt.ArrayLike,
    params: LanguageModelParams,
    config: LanguageModelConfig,
    *,
    steps: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    rng: np.random.Generator | None = None,
    stop: int | None = None,
) -> npt.NDArray[np.int64]:
    r"""
    Continue texts, a token at a time.

    Parameters
    ----------
    prompt : array_like of int, shape (..., T)
        Beginnings of texts, at least one token each.
    params : LanguageModelParams
        Parameters.
    config : LanguageModelConfig
        What the model consists of.
    steps : int
        Number of tokens to append.
    temperature : float, default 1.0
        As for :func:`next_token_probabilities`; 0 is greedy and needs no `rng`.
    top_k, top_p : int or float or None
        As for :func:`next_token_probabilities`.
    rng : numpy.random.Generator or None
        Source of random numbers, one for each token. The same state gives the same text.
    stop : int or None
        Token that ends a text; what would follow it is filled with it.

    Returns
    -------
    ndarray of int64, shape (..., T + steps)
        Prompts and what follows.

    Raises
    ------
    TypeError
        If an argument has the wrong type; `rng` is needed unless the temperature is 0.
    ValueError
        If a token is out of range, the prompt empty, the text longer than a learned
        table, or an option out of range.

    See Also
    --------
    beam_search : Look for a probable text instead.
    next_token_probabilities : One step.

    Notes
    -----
    Repeat: run the model on the text so far, turn the last logits into probabilities, draw a
    token, append it. Sampling with temperature 1 and no limits draws texts from the model's
    distribution of texts.

    **The cache.** The causal mask makes keys and values of a token independent of what follows it.
    So they are computed once and kept, and a new token costs one pass of a single position, whose
    query attends to all keys kept: :math:`2 D S` multiplications a layer for S tokens,
    instead of the whole text again. The logits are those of :func:`language_model` up to rounding.
    Memory is :math:`2 L H_k E S` numbers a text.

    **Drawing.** The token is the first whose cumulative probability exceeds a uniform number from
    `rng`, so equal states of the generator give equal texts.

    Examples
    --------
    A text of the untrained model; and the same again, from the same seed:

    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig, generate, init_language_model
    >>> config = LanguageModelConfig(9, 16, 2, positions="rope")
    >>> params = init_language_model(np.random.default_rng(0), config)
    >>> texts = [
    ...     generate([1, 2], params, config, steps=6, rng=np.random.default_rng(1)).tolist()
    ...     for _ in range(2)
    ... ]
    >>> texts[0][:2], len(texts[0]), texts[0] == texts[1]
    ([1, 2], 8, True)

    Greedy decoding takes the largest logit:

    >>> from dlref.transformer import language_model
    >>> text = generate([1, 2], params, config, steps=1, temperature=0)
    >>> int(text[-1]) == int(language_model([1, 2], params, config)[-1].argmax())
    True
    """
    options = _sampling(temperature, top_k, top_p)
    if options[0] > 0:
        as_generator("rng", rng)
    if stop is not None:
        check_range("stop", np.array(as_integer("stop", stop, least=0)), config.vocabulary)
    texts, batch, steps, session = _start(prompt, params, config, steps)
    out = np.empty((len(texts), texts.shape[1] + steps), np.int64)
    out[:, : texts.shape[1]] = texts
    done = np.zeros(len(texts), bool)
    fed = 0
    for at in range(texts.shape[1], out.shape[1]):
        if not done.all() if len(texts) else False:
            token = _drawn(session.feed(out[:, fed:at]), options, rng)
            fed = at
            out[:, at] = token if stop is None else np.where(done, stop, token)
            if stop is not None:
                done |= out[:, at] == stop
        else:
            out[:, at] = stop or 0
    return out.reshape(*batch, out.shape[1])


def _drawn(
    logits: FloatArray,
    options: tuple[float, int | None, float | None],
    rng: np.random.Generator | None,
) -> npt.NDArray[np.int64]:
    if options[0] == 0:
        return np.asarray(np.argmax(logits, axis=-1))
    assert rng is not None
    p = _probabilities(np.asarray(logits, np.float64), *options)
    total = np.cumsum(p, axis=-1)
    where = rng.random((len(p), 1)) * total[:, -1:]
    return np.asarray(np.argmax(total > where, axis=-1))


def beam_search(
    prompt: npt.ArrayLike,
    params: LanguageModelParams,
    config: LanguageModelConfig,
    *,
    steps: int,
    beams: int = 4,
    stop: int | None = None,
    length_penalty: float = 0.0,
) -> tuple[npt.NDArray[np.int64], FloatArray]:
    r"""
    Look for a probable continuation, keeping several at each step.

    Parameters
    ----------
    prompt : array_like of int, shape (..., T)
        Beginnings of texts, at least one token each.
    params : LanguageModelParams
        Parameters.
    config : LanguageModelConfig
        What the model consists of.
    steps : int
        Number of tokens to append.
    beams : int, default 4
        Number K of continuations kept.
    stop : int or None
        Token that ends a text; what would follow it is filled with it and counts nothing.
    length_penalty : float, default 0.0
        Power a of the length by which log-probabilities are divided when texts are compared.

    Returns
    -------
    texts : ndarray of int64, shape (..., K, T + steps)
        Prompts and continuations, the best first.
    scores : ndarray of float64, shape (..., K)
        Their log-probabilities, divided by (length)^a.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a token is out of range, the prompt empty, the text longer than a learned
        table, or an option out of range.

    See Also
    --------
    generate : Draw, or take the best token at each step, which is this with one beam.

    Notes
    -----
    The log-probability of a continuation is the sum of those of its tokens. Of the K V texts that
    are one token longer than those kept, the K best are kept. That is exact if
    :math:`K \ge V^{n-1}` for n steps, and else a heuristic: the best text may begin
    with a token that looked bad. The length counts the tokens appended, up to and including
    `stop`. Where fewer than K texts exist, scores of the rest are −inf.

    A probable text is not a typical one: models repeat themselves under beam search. It is for
    tasks with one right answer.

    Examples
    --------
    Enough beams find the most probable of all texts of two more tokens:

    >>> import itertools
    >>> import numpy as np
    >>> from dlref.activations import log_softmax
    >>> from dlref.transformer import LanguageModelConfig, init_language_model
    >>> from dlref.transformer import beam_search, language_model
    >>> config = LanguageModelConfig(3, 16, 2, positions="rope")
    >>> params = init_language_model(np.random.default_rng(0), config)
    >>> texts, scores = beam_search([0], params, config, steps=2, beams=3)
    >>> every = [[0, *pair] for pair in itertools.product(range(3), repeat=2)]
    >>> logp = log_softmax(language_model(every, params, config))
    >>> total = [logp[i, 0, t[1]] + logp[i, 1, t[2]] for i, t in enumerate(every)]
    >>> texts[0].tolist() == every[int(np.argmax(total))]
    True
    >>> bool(np.isclose(scores[0], max(total)))
    True
    """
    K = as_integer("beams", beams, least=1)
    power = as_number("length_penalty", length_penalty, least=0)
    if stop is not None:
        check_range("stop", np.array(as_integer("stop", stop, least=0)), config.vocabulary)
    texts, batch, steps, session = _start(prompt, params, config, steps, K)
    B, T, V = len(texts), texts.shape[1], config.vocabulary
    out = np.zeros((B, K, T + steps), np.int64)
    out[:, :, :T] = texts[:, None]
    total = np.full((B, K), -np.inf)
    total[:, 0] = 0.0  # at first all beams are the same text
    length, done = np.zeros((B, K)), np.zeros((B, K), bool)
    fed = 0
    for at in range(T, T + steps if B else T):
        logits = session.feed(out[:, :, fed:at].reshape(B * K, at - fed))
        fed = at
        logp = log_softmax(np.asarray(logits, np.float64)).reshape(B, K, V)
        if stop is not None:
            logp[done] = np.where(np.arange(V) == stop, 0.0, -np.inf)
        sums = total[:, :, None] + logp
        lengths = length + ~done
        ranks = (sums / np.maximum(lengths, 1)[:, :, None] ** power).reshape(B, K * V)
        best = np.argsort(-ranks, axis=1, kind="stable")[:, :K]
        beam, token = np.divmod(best, V)
        row = np.arange(B)[:, None]
        out, total = out[row, beam], sums.reshape(B, K * V)[row, best]
        length, done = lengths[row, beam], done[row, beam]
        out[:, :, at] = token
        if stop is not None:
            done |= token == stop
        session.keep((row * K + beam).ravel())
    scores = total / np.maximum(length, 1) ** power
    return out.reshape(*batch, K, T + steps), scores.reshape(*batch, K)
