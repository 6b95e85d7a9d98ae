r"""The shape of a model: its configuration, its parameters, and where they start."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    MAX_INTEGER,
    FloatArray,
    as_even,
    as_generator,
    as_integer,
    as_number,
    check_flags,
    check_keys,
    check_mapping,
    choice,
    float_dtype,
    shown,
)
from .._core.pytree import declared, rounded
from ..activations._by_name import ACTIVATIONS
from ..attention import AttentionParams
from ..positions import (
    alibi_bias,
    alibi_slopes,
    rope_attention_factor,
    rope_frequencies,
    rope_tables,
    sinusoidal,
    t5_bias,
    t5_bias_vjp,
)
from ..propagation import lecun_normal
from ._feed_forward import GATED
from ._options import BlockOptions, as_options
from ._params import (
    DecoderBlockParams,
    EncoderBlockParams,
    FeedForwardParams,
    GatedFeedForwardParams,
    LanguageModelParams,
    NormParams,
)
from ._structure import norm_fields, sublayer_fields

POSITIONS = ("learned", "sinusoidal", "rope", "alibi", "t5", "none")
T5_BUCKETS = 32
#: More layers than any model has. Each has options of its own, so that a number alone takes memory.
MOST_LAYERS = 2**16


Block = TypeVar("Block")


class Frozen(dict[str, Any]):
    """A dictionary that can be hashed and not be changed, as the configuration that holds it."""

    def __hash__(self) -> int:  # type: ignore[override]
        """Return the hash of the entries, arrays and lists of factors as tuples."""
        return hash(frozenset((key, _hashable(value)) for key, value in self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to make a copy, which would fill itself entry by entry otherwise."""
        return Frozen, (dict(self),)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        msg = "the configuration is frozen: dataclasses.replace makes another"
        raise TypeError(msg)

    __setitem__ = __delitem__ = __ior__ = update = pop = popitem = clear = setdefault = _refuse


def _frozen(name: str, entries: Any) -> Frozen:
    """Return a dictionary that can be hashed, with those in it."""
    check_mapping(name, entries)
    inner = {k: v for k, v in entries.items() if isinstance(v, Mapping)}
    return Frozen(entries | {k: _frozen(f"{name}[{k!r}]", v) for k, v in inner.items()})


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | np.ndarray) else value


@dataclass(frozen=True)
class LanguageModelConfig:
    r"""
    Hyperparameters of a model: its architecture, apart from its parameters.

    Parameters
    ----------
    vocab_size : int
        Number V of tokens.
    d_model : int
        Number D of features of a position, a multiple of `num_heads` unless ``head_dim`` is given.
    num_heads : int
        Number H of attention heads.
    num_kv_heads : int or None
        Number of heads of keys and values, a divisor of `num_heads`; None is `num_heads`.
    num_layers : int, default 2
        Number L of blocks, at most 65,536.
    d_ff : int or None
        Number F of hidden units of the feed-forward networks; None is 4 D, or 8 D / 3
        if they are gated.
    positions : {"learned", "sinusoidal", "rope", "alibi", "t5", "none"}
        Scheme of positions.
    norm : {"layer", "rms"}
        Kind of normalization.
    activation : str, default "gelu"
        Activation of the feed-forward networks, as for :func:`feed_forward`; or, which makes
        them gated, "swiglu", "geglu", "geglu_tanh", "reglu", "glu" or "bilinear".
    norm_first : bool, default True
        Whether each sub-layer's input is normalized, instead of the sum.
    tied : bool, default True
        Whether the last layer's weights are the embeddings.
    biases : bool, default True
        Whether dense layers, and layer norms, have biases. Gated networks have none.
    length : int, default 1024
        Number of rows of the table of learned positions. Other schemes have no such limit.
    rope_base : float, default 10000.0
        Base of the frequencies of rotary positions.
    rope_scaling : dict or None
        Their scaling, as :func:`dlref.positions.rope_frequencies` takes it.
    scale_embeddings : bool or None
        Whether embeddings are multiplied by :math:`\sqrt D`; None does so for sinusoidal
        positions.
    eps : float, default 1e-5
        Epsilon of the normalizations.
    head_dim : int or None
        Number E of features of a head; None is D / H.
    rope_dim : int or None
        Number of rotated channels of each head, the first ones; None is all.
    blocks : dict or tuple of dict or None
        Further options of the blocks: fields of :class:`BlockOptions`, for all blocks or for each
        one. They override the other fields of the configuration. In place of tables ``rope`` may be
        None, for a block without rotations, or a dictionary with ``base``, ``scaling`` or ``dim``
        in place of ``rope_base``, ``rope_scaling`` or ``rope_dim``.
    embedding_scale : float or None
        Factor of the embeddings; None is :math:`\sqrt D` or 1, as ``scale_embeddings`` says.
    logit_scale : float, default 1.0
        Factor of the logits.
    logit_softcap : float or None
        Bound c of the logits z, which are :math:`c \tanh(z / c)` then.
    num_decoder_layers : int or None
        Number of blocks of the decoder of an encoder-decoder model; None is ``num_layers``. Another
        number needs the same ``blocks`` for all blocks.
    alibi_exponent : float, default 8.0
        The least slope of ALiBi is 2 to the power of minus this number, as for
        :func:`dlref.positions.alibi_slopes`.
    embedding_dim : int or None
        Number C of features of an embedding of a :func:`language_model`, with matrices that lead to
        the D features of the blocks and back to the head; None is D, without matrices.

    Raises
    ------
    TypeError
        If a field has the wrong type.
    ValueError
        If a field is out of range or does not fit another; the message names it.

    See Also
    --------
    init_language_model : Parameters of such a model.
    language_model : The model that they make.
    parameter_counts : How many numbers that makes.

    Notes
    -----
    GPT-2 is ``LanguageModelConfig(50257, 768, 12, num_layers=12, activation="gelu_tanh")``: learned
    positions, layer norm before each sub-layer, GELU in its tanh form, biases, tied embeddings.
    LLaMA is ``LanguageModelConfig(32000, 4096, 32, num_layers=32, d_ff=11008, positions="rope",
    norm="rms", activation="swiglu", tied=False, biases=False, eps=1e-6)``; its later versions have
    fewer heads of keys.

    T5's table has 32 buckets up to distance 128 and is shared by all blocks. ALiBi's slopes
    are as in its code. The same configuration serves
    :func:`sequence_classifier` and :func:`encoder_decoder_model`, where positions are seen
    from both sides.

    Examples
    --------
    >>> from dlref.transformer import LanguageModelConfig
    >>> config = LanguageModelConfig(256, 64, 4, activation="swiglu", positions="rope")
    >>> config.head_dim, config.num_kv_heads, config.d_ff
    (16, 4, 171)
    >>> LanguageModelConfig(256, 10, 3)
    Traceback (most recent call last):
    ValueError: Argument 'num_heads' must divide d_model = 10, not 3.
    """

    vocab_size: int
    d_model: int
    num_heads: int
    num_kv_heads: int = field(default=None)  # type: ignore[assignment]
    num_layers: int = 2
    d_ff: int = field(default=None)  # type: ignore[assignment]
    positions: str = "learned"
    norm: str = "layer"
    activation: str = "gelu"
    norm_first: bool = True
    tied: bool = True
    biases: bool = True
    length: int = 1024
    rope_base: float = 10000.0
    rope_scaling: Mapping[str, Any] | None = None
    scale_embeddings: bool = field(default=None)  # type: ignore[assignment]
    eps: float = 1e-5
    head_dim: int = field(default=None)  # type: ignore[assignment]
    rope_dim: int | None = None
    blocks: Mapping[str, Any] | tuple[Mapping[str, Any], ...] | None = None
    embedding_scale: float = field(default=None)  # type: ignore[assignment]
    logit_scale: float = 1.0
    logit_softcap: float | None = None
    num_decoder_layers: int | None = None
    alibi_exponent: float = 8.0
    embedding_dim: int | None = None

    def __post_init__(self) -> None:
        """Check every field, and fill in those that follow from others."""
        choice("positions", self.positions, POSITIONS)
        choice("norm", self.norm, ("layer", "rms"))
        choice("activation", self.activation, (*ACTIVATIONS, *GATED))
        check_flags(norm_first=self.norm_first, tied=self.tied, biases=self.biases)
        self._integer("vocab_size")
        self._integer("d_model")
        self._integer("num_heads")
        if self.head_dim is None:
            self._divides("num_heads", "d_model")
        width = 2**20 if self.positions == "rope" else MAX_INTEGER  # of a table of rotations
        self._integer("head_dim", self.d_model // self.num_heads, most=width)
        self._integer("num_kv_heads", self.num_heads)
        self._divides("num_kv_heads", "num_heads")
        self._integer("num_layers", least=0, most=MOST_LAYERS)
        if self.num_decoder_layers is not None:
            self._integer("num_decoder_layers", least=0, most=MOST_LAYERS)
        if self.embedding_dim is not None:
            self._integer("embedding_dim")
        gated = (8 * self.d_model + 2) // 3
        self._integer("d_ff", gated if self.gated else 4 * self.d_model)
        self._integer("length")
        self._set("rope_base", as_number("rope_base", self.rope_base, above=0))
        self._set("eps", as_number("eps", self.eps, least=0))
        exponent = as_number("alibi_exponent", self.alibi_exponent, above=0)
        self._set("alibi_exponent", exponent)
        if self.scale_embeddings is None:
            self._set("scale_embeddings", self.positions == "sinusoidal")
        check_flags(scale_embeddings=self.scale_embeddings)
        if self.rope_scaling is not None:
            check_mapping("rope_scaling", self.rope_scaling)
            self._set("rope_scaling", _frozen("rope_scaling", self.rope_scaling))
        root = math.sqrt(self.d_model) if self.scale_embeddings else 1.0
        scale = root if self.embedding_scale is None else self.embedding_scale
        self._set("embedding_scale", as_number("embedding_scale", scale))
        self._set("logit_scale", as_number("logit_scale", self.logit_scale))
        if self.logit_softcap is not None:
            self._set("logit_softcap", as_number("logit_softcap", self.logit_softcap, above=0))
        if self.rope_dim is not None:
            as_even("rope_dim", self.rope_dim, least=2, most=self.head_dim)
        if self.positions == "rope" and self.rope_dim is None and self.head_dim % 2:
            odd = f"head_dim = {self.head_dim} is odd: rotations turn pairs"
            msg = f"Argument 'positions' must not be 'rope' where {odd}."
            raise ValueError(msg)
        self._freeze_blocks()

    def _freeze_blocks(self) -> None:
        """Check the further options of the blocks, by making them."""
        if isinstance(self.blocks, tuple | list):
            if len(self.blocks) != self.num_layers:
                count = len(self.blocks)
                some = f"a tuple of num_layers = {self.num_layers} dictionaries, not {count}"
                msg = f"Argument 'blocks' must be a dictionary or {some}."
                raise ValueError(msg)
            if self.num_decoder_layers not in (None, self.num_layers):
                msg = "Argument 'blocks' must be no tuple where both halves differ in depth."
                raise ValueError(msg)
            each = (_frozen(f"blocks[{i}]", options) for i, options in enumerate(self.blocks))
            self._set("blocks", tuple(each))
        elif self.blocks is not None:
            self._set("blocks", _frozen("blocks", self.blocks))
        block_options(self)

    def _repr_html_(self) -> str:
        """Return a table, for notebooks."""
        rows = "".join(
            f"<tr><td>{name}</td><td>{escape(repr(value))}</td></tr>"
            for name, value in asdict(self).items()
        )
        return f"<table>{rows}</table>"

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)  # frozen: only here

    def _integer(
        self, name: str, default: int | None = None, *, least: int = 1, most: int = MAX_INTEGER
    ) -> None:
        value = getattr(self, name)
        value = default if value is None else value
        self._set(name, as_integer(name, value, least=least, most=most))

    def _divides(self, name: str, whole: str) -> None:
        count, total = getattr(self, name), getattr(self, whole)
        if total % count:
            msg = f"Argument {name!r} must divide {whole} = {total}, not {count}."
            raise ValueError(msg)

    @property
    def gated(self) -> bool:
        """Whether the feed-forward networks are gated."""
        return self.activation in GATED


def depth_of_decoder(config: LanguageModelConfig) -> int:
    """Return the number of blocks of a decoder that reads an encoder's output."""
    depth = config.num_decoder_layers
    return config.num_layers if depth is None else depth


def zeros_if(wanted: bool, size: int) -> FloatArray | None:
    """Return a bias that starts at zero, or none."""
    return np.zeros(size) if wanted else None


def init_norm(config: LanguageModelConfig) -> NormParams:
    """Return a norm that does nothing more than to normalize."""
    with_bias = config.biases and config.norm == "layer"
    return NormParams(np.ones(config.d_model), zeros_if(with_bias, config.d_model))


def init_attention(
    rng: np.random.Generator, config: LanguageModelConfig, shrink: float
) -> AttentionParams:
    """Draw projections; those whose output is added to the residual stream are smaller."""
    D, E = config.d_model, config.head_dim
    asked, keys = config.num_heads * E, config.num_kv_heads * E
    w_q, w_k, w_v = (lecun_normal(rng, (rows, D)) for rows in (asked, keys, keys))
    w_o = shrink * lecun_normal(rng, (D, asked))
    b_q, b_k, b_v, b_o = (zeros_if(config.biases, rows) for rows in (asked, keys, keys, D))
    return AttentionParams(w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o)


def init_network(
    rng: np.random.Generator, config: LanguageModelConfig, shrink: float
) -> FeedForwardParams | GatedFeedForwardParams:
    """Draw the weights of a feed-forward network."""
    D, F = config.d_model, config.d_ff
    if config.gated:
        gate, up = (lecun_normal(rng, (F, D)) for _ in range(2))
        return GatedFeedForwardParams(gate, up, shrink * lecun_normal(rng, (D, F)))
    w1, w2 = lecun_normal(rng, (F, D)), shrink * lecun_normal(rng, (D, F))
    return FeedForwardParams(w1, zeros_if(config.biases, F), w2, zeros_if(config.biases, D))


def init_blocks(
    rng: np.random.Generator, config: LanguageModelConfig, kind: type[Block]
) -> tuple[Block, ...]:
    """Draw the parameters of all blocks."""
    layers = depth_of_decoder(config) if kind is DecoderBlockParams else config.num_layers
    sums = len(sublayer_fields(kind)) * max(layers, 1)
    shrink = 1 / math.sqrt(sums) if config.norm_first else 1.0
    needed = [name for name in declared(kind) if name not in kind._field_defaults]  # type: ignore[attr-defined]

    def drawn(field: str) -> Any:
        if field in norm_fields(kind):
            return init_norm(config)
        draw = init_network if field == "feed_forward" else init_attention
        return draw(rng, config, shrink)

    return tuple(kind(*map(drawn, needed)) for _ in range(layers))


def init_embedding(rng: np.random.Generator, config: LanguageModelConfig, rows: int) -> FloatArray:
    """Draw embeddings."""
    sd = 0.02 if config.embedding_scale == 1 else 1 / config.embedding_scale
    return as_generator("rng", rng).normal(0.0, sd, (rows, config.embedding_dim or config.d_model))


def init_positions(
    rng: np.random.Generator, config: LanguageModelConfig, rows: int
) -> FloatArray | None:
    """Draw the table that the scheme needs, if it needs one."""
    if config.positions == "learned":
        return rng.normal(0.0, 0.02, (rows, config.d_model))
    return np.zeros((T5_BUCKETS, config.num_heads)) if config.positions == "t5" else None


def init_language_model(
    rng: np.random.Generator,
    config: LanguageModelConfig,
    *,
    dtype: npt.DTypeLike = np.float64,
) -> LanguageModelParams:
    r"""
    Draw the parameters of a language model.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of random numbers.
    config : LanguageModelConfig
        Architecture of the model.
    dtype : dtype, default float64
        Type of the parameters. float32 trains twice as fast.

    Returns
    -------
    LanguageModelParams
        Arrays of `dtype`.

    Raises
    ------
    TypeError
        If `rng` is not a generator, `config` is not a configuration or `dtype` is neither integer
        nor a real floating-point type.

    See Also
    --------
    language_model : Takes them.
    dlref.propagation.lecun_normal : Where the matrices come from.

    Notes
    -----
    Weights of a dense layer are normal with variance 1 / n_in: so its outputs have the second
    moments of its inputs, which are normalized.
    The matrices whose output is added to the residual stream are divided by
    :math:`\sqrt{2 L}`, if norms come first: the stream is a sum of 2 L terms, and so its
    variance does not grow with the depth. The pre-activations of a network have variance about 1,
    where GELU is far from linear: the best line explains 72 % of the variance of
    :math:`\operatorname{gelu}(z)` for a standard normal z. Embeddings have standard deviation
    0.02, as in GPT-2, or
    :math:`1 / \sqrt D` where they are multiplied by :math:`\sqrt D`. So the first
    logits are small and the first loss is about :math:`\log V`; embeddings that are both
    multiplied and tied begin higher, because every token predicts itself. Biases and T5's
    table are 0, weights of norms 1.

    References
    ----------
    - :cite:t:`Radford2019`, section 2.3, on the residual layers.

    Examples
    --------
    The first loss is a guess's, log 50 = 3.91:

    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig, init_language_model, language_model_loss
    >>> rng = np.random.default_rng(0)
    >>> config = LanguageModelConfig(50, 32, 4)
    >>> params = init_language_model(rng, config)
    >>> round(float(language_model_loss(rng.integers(0, 50, (8, 20)), params, config)), 1)
    3.9
    """
    as_generator("rng", rng)
    check_config(config)
    kind = float_dtype("dtype", dtype)
    embedding = init_embedding(rng, config, config.vocab_size)
    params = LanguageModelParams(
        embedding,
        init_positions(rng, config, config.length),
        init_blocks(rng, config, EncoderBlockParams),
        init_norm(config) if config.norm_first else None,
        None if config.tied else rng.normal(0.0, 0.02, embedding.shape),
    )
    if config.embedding_dim is not None:
        D, C = config.d_model, config.embedding_dim
        into, out = lecun_normal(rng, (D, C)), lecun_normal(rng, (C, D))
        params = params._replace(embedding_in=into, embedding_out=out)
    return rounded(params, kind)


def check_config(config: Any) -> None:
    """Raise TypeError unless `config` is one."""
    if not isinstance(config, LanguageModelConfig):
        msg = f"Argument 'config' must be a LanguageModelConfig, not {shown(config)}."
        raise TypeError(msg)


class Places(NamedTuple):
    """The contribution of a scheme of positions to a model: one of these, or nothing."""

    vectors: FloatArray | None  # (T, D), added to the embeddings
    bias: FloatArray | None  # (H, T, S), added to the scores


def places(
    config: LanguageModelConfig,
    table: FloatArray | None,
    T: int,
    dtype: npt.DTypeLike,
    *,
    start: int = 0,
    causal: bool = True,
) -> Places:
    """Return the contribution to T positions from `start`, which see all up to their last."""
    S, scheme = start + T, config.positions
    vectors, bias = None, None
    if scheme == "learned":
        assert table is not None
        if len(table) < S:
            msg = f"Argument 'tokens' must have at most length = {len(table)} positions, not {S}."
            raise ValueError(msg)
        vectors = table[start:S]
    elif scheme == "sinusoidal":
        vectors = sinusoidal(T, config.d_model, offset=start).astype(dtype)
    elif scheme == "alibi" and T:
        slopes = alibi_slopes(config.num_heads, exponent=config.alibi_exponent)
        bias = alibi_bias(slopes, T, S, q_offset=start, symmetric=not causal).astype(dtype)
    elif scheme == "t5" and T:
        assert table is not None
        bias = np.asarray(t5_bias(table, T, S, bidirectional=not causal, q_offset=start))
    return Places(vectors, bias)


def block_options(
    config: LanguageModelConfig,
    T: int = 0,
    dtype: npt.DTypeLike = np.float64,
    *,
    start: int = 0,
    causal: bool = True,
) -> list[BlockOptions]:
    """Return the options of each block, and at least of one, for T positions from `start`."""
    whole: dict[str, Any] = {
        "num_heads": config.num_heads,
        "num_kv_heads": config.num_kv_heads,
        "norm_first": config.norm_first,
        "norm": config.norm,
        "activation": GATED.get(config.activation, config.activation),
        "is_causal": causal,
        "eps": config.eps,
    }
    dim = config.rope_dim or config.head_dim
    default = {"base": config.rope_base, "scaling": config.rope_scaling, "dim": dim}
    given = config.blocks if isinstance(config.blocks, tuple) else (config.blocks,)
    resolved: dict[Any, BlockOptions] = {}  # equal blocks share their tables
    for options in given:
        if options not in resolved:
            own = whole | dict(options or {})
            rotation = own.pop("rope", {} if config.positions == "rope" else None)
            rope = None
            if isinstance(rotation, Mapping):
                check_keys("blocks['rope']", rotation, set(), {*default})
                cos, sin = _rotation_tables(start, T, **(default | dict(rotation)))
                rope = cos.astype(dtype), sin.astype(dtype)
            resolved[options] = as_options(None, own | {"rope": rope})
    each = [resolved[options] for options in given]
    count = max(config.num_layers, depth_of_decoder(config), 1)
    return each * count if len(each) == 1 else each


def _rotation_tables(
    start: int, T: int, *, base: float, scaling: Mapping[str, Any] | None, dim: int
) -> tuple[FloatArray, FloatArray]:
    """Return cosine and sine for the positions from `start`."""
    scaling = None if scaling is None else dict(scaling)
    frequencies = rope_frequencies(dim, base=base, scaling=scaling)
    factor = 1.0 if scaling is None else rope_attention_factor(scaling)
    return rope_tables(np.arange(start, start + T), frequencies, attention_factor=factor)


@np.errstate(all="ignore")
def places_vjp(
    config: LanguageModelConfig,
    table: FloatArray | None,
    du: FloatArray,
    dbias: FloatArray | None,
    *,
    causal: bool = True,
) -> FloatArray | None:
    """Return the gradient of the table, given the gradients of the vectors and of the bias."""
    if table is None:
        return None
    T = du.shape[-2]
    if config.positions == "t5":
        if dbias is None:  # no blocks, or no tokens
            return np.zeros_like(table)
        return t5_bias_vjp(dbias, table, T, T, bidirectional=not causal)
    out = np.zeros_like(table)
    np.sum(du, axis=tuple(range(du.ndim - 2)), out=out[:T])
    return out
