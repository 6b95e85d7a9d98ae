r"""Families of models as Hugging Face names their tensors and writes their configurations."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._core.arguments import (
    FloatArray,
    as_array,
    as_integer,
    as_number,
    check_mapping,
    float_dtype,
    shown,
)
from .._core.pytree import displayed
from ..attention import AttentionParams
from ..neurons import LinearParams
from ..positions import rope_attention_factor, rope_frequencies
from ..transformer import (
    EncoderBlockParams,
    FeedForwardParams,
    GatedFeedForwardParams,
    LanguageModelConfig,
    LanguageModelParams,
    NormParams,
)
from ._modules import linear_layout, norm_layout
from ._tensors import Sizes, Tensor, raise_all, read, write

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BertParams", "T5EncoderParams"]


@displayed
class BertParams(NamedTuple):
    r"""
    Parameters of BERT.

    Parameters
    ----------
    embedding : ndarray, shape (V, D)
        One vector for each token.
    positions : ndarray, shape (L, D)
        One for each place.
    types : ndarray, shape (2, D)
        One for each of the two sentences that a text may consist of.
    norm : NormParams
        Normalization of the sum of the three.
    blocks : tuple of EncoderBlockParams
        Parameters of each block.
    pooler : LinearParams or None
        Dense layer, with tanh, for the first token of the output.

    See Also
    --------
    from_state_dict : Reads them from a checkpoint of the family "bert".
    dlref.transformer.encoder : Runs the blocks.

    Notes
    -----
    With the options that :func:`from_state_dict` returns with them, the model is::

        x = params.embedding[tokens] + params.positions[:T] + params.types[0]
        x = layer_norm(x, *params.norm, eps=options["eps"])
        h = encoder(x, params.blocks, **options)

    Blocks normalize after each sum. The pooled output is ``np.tanh(linear(h[..., 0, :],
    *params.pooler))``.

    Examples
    --------
    >>> from dlref.interop import BertParams
    >>> BertParams._fields
    ('embedding', 'positions', 'types', 'norm', 'blocks', 'pooler')
    """

    embedding: FloatArray
    positions: FloatArray
    types: FloatArray
    norm: NormParams
    blocks: tuple[EncoderBlockParams, ...]
    pooler: LinearParams | None = None


@displayed
class T5EncoderParams(NamedTuple):
    r"""
    Parameters of T5's encoder.

    Parameters
    ----------
    embedding : ndarray, shape (V, D)
        One vector for each token.
    positions : ndarray, shape (32, H)
        Bias of the scores, for each bucket of distances and each head.
    blocks : tuple of EncoderBlockParams
        Parameters of each block, without biases.
    norm : NormParams
        RMS norm of the last sum.

    See Also
    --------
    from_state_dict : Reads them from a checkpoint of the family "t5".
    dlref.transformer.encoder : Runs the blocks.
    dlref.positions.t5_bias : The bias of all pairs of positions.

    Notes
    -----
    With the options that :func:`from_state_dict` returns with them, the encoder is::

        bias = t5_bias(params.positions, T, T)
        x = params.embedding[tokens]
        h = encoder(x, params.blocks, params.norm, bias=bias, **options)

    All blocks share the bias. Scores are not divided by the root of the head's width: among the
    options is ``scale=1``. A model whose configuration has a ``relative_attention_max_distance``
    other than 128 needs it as ``max_distance`` of :func:`~dlref.positions.t5_bias`.

    Examples
    --------
    >>> from dlref.interop import T5EncoderParams
    >>> T5EncoderParams._fields
    ('embedding', 'positions', 'blocks', 'norm')
    """

    embedding: FloatArray
    positions: FloatArray
    blocks: tuple[EncoderBlockParams, ...]
    norm: NormParams


#: Activations by Hugging Face's names.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "hardswish": "hard_swish",
    "linear": "identity",
    "silu": "silu",
    "swish": "silu",
    **{name: name for name in ("leaky_relu", "mish", "relu", "relu6", "sigmoid", "tanh")},
}
#: Activations of a gate, by LanguageModelConfig's names.
GATES = {"silu": "swiglu", "gelu": "geglu", "gelu_tanh": "geglu_tanh", "relu": "reglu"}
GATES |= {"sigmoid": "glu", "identity": "bilinear"}

#: Entries of configurations that say nothing about the map: training, generation, book-keeping.
IRRELEVANT = re.compile(
    r"_.*|.*dropout.*|.*_pdrop|.*_token_id|initializer_.*|summary_.*|output_.*|.*label.*|n_ctx"
    r"|architectures|model_type|auto_map|(torch_)?dtype|transformers_version|return_dict.*"
    r"|use_cache|chunk_size_feed_forward|problem_type|task_specific_params|pretraining_tp"
    r"|gradient_checkpointing|reorder_and_upcast_attn|is_encoder_decoder|finetuning_task"
    r"|torchscript|use_bfloat16|pruned_heads|tokenizer_class|prefix|.*(max|min)_length|do_sample"
    r"|early_stopping|num_beam.*|temperature|top_[kp]|typical_p|.*_penalty|bad_words_ids"
    r"|.*no_repeat_ngram_size|num_return_sequences|remove_invalid_values|suppress_tokens"
    r"|begin_suppress_tokens|exponential_decay.*|cross_attention_hidden_size|tf_legacy_loss"
    r"|n_positions|num_decoder_layers|scale_decoder_outputs|pooler_.*|directionality"
)


class Settings:
    """A configuration as it is found, and the entries read so far."""

    def __init__(self, config: Mapping[str, Any] | None, family: str) -> None:
        if config is not None:
            check_mapping("config", config)
        self.config = {} if config is None else dict(config)
        self.known: set[Any] = set()
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.only("model_type", family)

    def get(self, default: Any, *names: str) -> Any:
        """Return the value set under the first of the names, or the default."""
        self.known |= {*names}
        there = [name for name in names if self.config.get(name) is not None]
        return self.config[there[0]] if there else default

    def integer(self, default: int | None, *names: str) -> int:
        return as_integer(f"config.{names[0]}", self.get(default, *names), least=1)

    def divisor(self, whole: int, default: int, *names: str) -> int:
        """Return a number of heads, and note a problem unless it divides the whole."""
        n = self.integer(default, *names)
        if whole % n:
            self.problems.append(f"{names[0]!r} must divide {whole}, not be {n}")
        return n

    def number(self, default: float, name: str) -> float:
        return as_number(f"config.{name}", self.get(default, name), least=0)

    def flag(self, default: bool, name: str) -> bool:
        value = self.get(default, name)
        if not isinstance(value, bool):
            self.problems.append(f"{name!r} must be True or False, not {shown(value)}")
        return bool(value)

    def only(self, name: str, wanted: Any) -> None:
        """Note a problem unless dlref can express an entry."""
        value = self.get(wanted, name)
        if value != wanted:
            self.problems.append(f"{name!r} must be {wanted!r}, not {shown(value)}")

    def activation(self, default: str, name: str, *, gated: bool = False) -> str:
        return self.translated(name, self.get(default, name), gated=gated)

    def translated(self, name: str, value: Any, *, gated: bool = False) -> str:
        """Return dlref's name of an activation."""
        if not isinstance(value, str) or value not in ACTIVATIONS:
            self.problems.append(f"{name!r} must be one of {sorted(ACTIVATIONS)}, not {value!r}")
            return "identity"
        plain = ACTIVATIONS[value]
        if gated and plain not in GATES:
            self.problems.append(f"{name!r} must not be {value!r} for a gate")
        return GATES.get(plain, "identity") if gated else plain

    def refuse(self) -> None:
        """Raise the problems found so far."""
        raise_all("Argument 'config' must be what dlref can express", self.problems)

    def finish(self) -> None:
        """Raise the problems found, and warn of entries that nothing has read."""
        self.refuse()
        for note in self.notes:
            warnings.warn(f"Argument 'config' {note}.", UserWarning, stacklevel=4)
        rest = [k for k in self.config if k not in self.known and not IRRELEVANT.fullmatch(str(k))]
        if rest:
            names = ", ".join(map(repr, rest))
            msg = f"Argument 'config' has entries of which nothing is known; ignored: {names}."
            warnings.warn(msg, UserWarning, stacklevel=4)


# GPT-2.


def _gpt2_config(s: Settings) -> LanguageModelConfig:
    width = s.integer(768, "n_embd", "hidden_size")
    heads = s.divisor(width, 12, "n_head", "num_attention_heads")
    s.only("scale_attn_weights", True)
    s.only("scale_attn_by_inverse_layer_idx", False)
    s.only("add_cross_attention", False)
    s.refuse()
    return LanguageModelConfig(
        s.integer(50257, "vocab_size"),
        width,
        heads,
        layers=s.integer(12, "n_layer", "num_hidden_layers"),
        hidden=s.integer(4 * width, "n_inner"),
        activation=s.activation("gelu_new", "activation_function"),
        tied=s.flag(True, "tie_word_embeddings"),
        length=s.integer(1024, "n_positions", "max_position_embeddings"),
        eps=s.number(1e-5, "layer_norm_epsilon"),
    )


def _transposed(name: str, columns: str, rows: str) -> tuple[Any, Any]:
    """Return where weight and bias of a Conv1D are, which is a dense layer stored (n_in, n_out)."""
    return Tensor(f"{name}weight", f"{columns}, {rows}", transposed=True), Tensor(
        f"{name}bias", rows
    )


def _gpt2_block(name: str) -> EncoderBlockParams:
    stacked = [part._replace(parts=3) for part in _transposed(f"{name}attn.c_attn.", "D", "3 D")]
    weights, biases = ([part._replace(part=i) for i in range(3)] for part in stacked)
    w_o, b_o = _transposed(f"{name}attn.c_proj.", "D", "D")
    first = _transposed(f"{name}mlp.c_fc.", "D", "F")
    second = _transposed(f"{name}mlp.c_proj.", "F", "D")
    return EncoderBlockParams(
        AttentionParams(*weights, w_o, *biases, b_o),  # type: ignore[call-arg]
        norm_layout(f"{name}ln_1.", bias=True),
        FeedForwardParams(*first, *second),
        norm_layout(f"{name}ln_2.", bias=True),
    )


def _gpt2(config: LanguageModelConfig, base: str) -> LanguageModelParams:
    return _language_model(
        config,
        Tensor(f"{base}wte.weight", "V, D"),
        Tensor(f"{base}wpe.weight", "L, D"),
        [_gpt2_block(f"{base}h.{i}.") for i in range(config.layers)],
        norm_layout(f"{base}ln_f.", bias=True),
    )


def _language_model(
    config: LanguageModelConfig, embedding: Any, positions: Any, blocks: Any, norm: NormParams
) -> LanguageModelParams:
    head: Any = None if config.tied else Tensor("lm_head.weight", "V, D")
    return LanguageModelParams(embedding, positions, tuple(blocks), norm, head)


# LLaMA.


TRAINED = "original_max_position_embeddings"


def _scaling(s: Settings) -> tuple[str, dict[str, Any]]:
    """Return the entry that describes the rotation: rope_scaling, or the newer rope_parameters."""
    given = {key: s.get({}, key) for key in ("rope_scaling", "rope_parameters")}
    for key, value in given.items():
        check_mapping(f"config.{key}", value)
    key = next((key for key, value in given.items() if value), "rope_scaling")
    if any(isinstance(value, Mapping) for value in given[key].values()):
        s.problems.append(f"{key!r} must not be one for each kind of layer")
    return key, dict(given[key])


def _rope(s: Settings, width: int) -> tuple[float, dict[str, Any] | None]:
    """Return base and scaling of heads of a width."""
    key, scaling = _scaling(s)
    base = s.get(10000.0, "rope_theta")
    length, trained = s.integer(2048, "max_position_embeddings"), s.get(None, TRAINED)
    base = as_number("config.rope_theta", scaling.pop("rope_theta", base), above=1)
    if scaling.pop("partial_rotary_factor", s.get(1.0, "partial_rotary_factor")) != 1:
        s.problems.append("'partial_rotary_factor' must be 1: all channels are rotated")
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if not scaling or kind == "default":
        return base, None
    if kind in ("dynamic", "longrope"):
        s.problems.append(f"the rope type must not be {kind!r}, which depends on the text's length")
        return base, None
    if kind in ("llama3", "yarn"):
        scaling[TRAINED] = trained or scaling.get(TRAINED) or length
    if kind == "yarn" and scaling.get("factor") is None:
        scaling["factor"] = length / as_integer(f"config.{TRAINED}", scaling[TRAINED], least=1)
    if not s.problems:
        try:
            rope_frequencies(width, base=base, scaling=scaling)
            rope_attention_factor(scaling)
        except (TypeError, ValueError) as error:
            s.problems.append(f"{key!r} does not fit: {str(error).rstrip('.')}")
    return base, scaling


def _llama_config(s: Settings) -> LanguageModelConfig:
    width = s.integer(4096, "hidden_size")
    heads = s.divisor(width, 32, "num_attention_heads")
    kv_heads = s.divisor(heads, heads, "num_key_value_heads")
    s.only("head_dim", width // heads)
    if width // heads % 2:
        s.problems.append(f"the width of a head, {width // heads}, must be even: pairs are rotated")
    s.only("mlp_bias", False)
    base, scaling = _rope(s, width // heads)
    s.refuse()
    return LanguageModelConfig(
        s.integer(32000, "vocab_size"),
        width,
        heads,
        kv_heads,
        s.integer(32, "num_hidden_layers"),
        s.integer(11008, "intermediate_size"),
        "rope",
        "rms",
        s.activation("silu", "hidden_act", gated=True),
        tied=s.flag(False, "tie_word_embeddings"),
        biases=s.flag(False, "attention_bias"),
        rope_base=base,
        rope_scaling=scaling,
        eps=s.number(1e-6, "rms_norm_eps"),
    )


def _llama_block(config: LanguageModelConfig, name: str) -> EncoderBlockParams:
    rows = {"q": "D", "k": "K", "v": "K", "o": "D"}
    heads = {"q": config.heads, "k": config.kv_heads, "v": 0, "o": 0}
    pairs = [
        linear_layout(f"{name}self_attn.{x}_proj.", n, "D", bias=config.biases)
        for x, n in rows.items()
    ]
    weights, biases = (
        [
            None if t is None else t._replace(heads=n)
            for t, n in zip(part, heads.values(), strict=True)
        ]
        for part in zip(*pairs, strict=True)
    )
    network = [
        Tensor(f"{name}mlp.{x}_proj.weight", shape)
        for x, shape in (("gate", "F, D"), ("up", "F, D"), ("down", "D, F"))
    ]
    return EncoderBlockParams(
        AttentionParams(*weights, *biases),  # type: ignore[arg-type]
        norm_layout(f"{name}input_layernorm.", bias=False),
        GatedFeedForwardParams(*network),  # type: ignore[arg-type]
        norm_layout(f"{name}post_attention_layernorm.", bias=False),
    )


def _llama(config: LanguageModelConfig, base: str) -> LanguageModelParams:
    return _language_model(
        config,
        Tensor(f"{base}embed_tokens.weight", "V, D"),
        None,
        [_llama_block(config, f"{base}layers.{i}.") for i in range(config.layers)],
        norm_layout(f"{base}norm.", bias=False),
    )


# BERT.


class Encoder(NamedTuple):
    """The sizes that the layout of an encoder depends on, and the options of `encoder`."""

    layers: int
    gated: bool
    pooler: bool
    sizes: Sizes
    options: dict[str, Any]


def _bert_config(s: Settings) -> Encoder:
    s.only("position_embedding_type", "absolute")
    s.only("is_decoder", False)
    s.only("add_cross_attention", False)
    s.get(None, "tie_word_embeddings")
    width = s.integer(768, "hidden_size")
    heads = s.divisor(width, 12, "num_attention_heads")
    sizes = {
        "V": s.integer(30522, "vocab_size"),
        "D": width,
        "F": s.integer(3072, "intermediate_size"),
        "L": s.integer(512, "max_position_embeddings"),
        "types": s.integer(2, "type_vocab_size"),
    }
    options = {
        "num_heads": heads,
        "norm": "layer",
        "activation": s.activation("gelu", "hidden_act"),
        "eps": s.number(1e-12, "layer_norm_eps"),
    }
    return Encoder(s.integer(12, "num_hidden_layers"), False, False, sizes, options)


def _bert_block(name: str) -> EncoderBlockParams:
    parts = ("self.query", "self.key", "self.value", "output.dense")
    pairs = [linear_layout(f"{name}attention.{x}.", "D", "D", bias=True) for x in parts]
    weights, biases = zip(*pairs, strict=True)
    first = linear_layout(f"{name}intermediate.dense.", "F", "D", bias=True)
    second = linear_layout(f"{name}output.dense.", "D", "F", bias=True)
    return EncoderBlockParams(
        AttentionParams(*weights, *biases),
        norm_layout(f"{name}attention.output.LayerNorm.", bias=True),
        FeedForwardParams(*first, *second),
        norm_layout(f"{name}output.LayerNorm.", bias=True),
    )


def _bert(encoder: Encoder, base: str) -> BertParams:
    tables = {"word": "V, D", "position": "L, D", "token_type": "types, D"}
    names = [(f"{base}embeddings.{x}_embeddings.weight", shape) for x, shape in tables.items()]
    pooler = linear_layout(f"{base}pooler.dense.", "D", "D", bias=True)
    return BertParams(  # type: ignore[call-arg]
        *(Tensor(name, shape) for name, shape in names),  # type: ignore[arg-type]
        norm_layout(f"{base}embeddings.LayerNorm.", bias=True),
        tuple(_bert_block(f"{base}encoder.layer.{i}.") for i in range(encoder.layers)),
        LinearParams(*pooler) if encoder.pooler else None,
    )


# T5.


def _t5_config(s: Settings) -> Encoder:
    s.get(None, "tie_word_embeddings")  # of no concern here
    s.only("is_decoder", False)
    farthest = s.integer(128, "relative_attention_max_distance")
    if farthest != 128:
        s.notes.append(
            f"has 'relative_attention_max_distance' = {farthest}, which is to be given to t5_bias "
            f"as max_distance={farthest}"
        )
    heads = s.integer(8, "num_heads", "num_attention_heads")
    gated, activation = _t5_network(s)
    sizes = {
        "V": s.integer(32128, "vocab_size"),
        "D": s.integer(512, "d_model", "hidden_size"),
        "F": s.integer(2048, "d_ff"),
        "K": heads * s.integer(64, "d_kv", "head_dim"),
        "H": heads,
        "buckets": s.integer(32, "relative_attention_num_buckets"),
    }
    options = {
        "num_heads": heads,
        "norm_first": True,
        "norm": "rms",
        "activation": activation,
        "scale": 1.0,
        "eps": s.number(1e-6, "layer_norm_epsilon"),
    }
    layers = s.integer(6, "num_layers", "num_hidden_layers")
    return Encoder(layers, gated, False, sizes, options)


def _t5_network(s: Settings) -> tuple[bool, str]:
    """Return whether the network is gated, and its activation."""
    projection = s.get("relu", "feed_forward_proj")
    gate, _, activation = str(projection).rpartition("-")
    if gate not in ("", "gated"):
        s.problems.append(f"'feed_forward_proj' must not be {projection!r}")
    if projection == "gated-gelu":
        activation = "gelu_new"  # as Hugging Face reads it
    gated, named = s.flag(gate == "gated", "is_gated_act"), s.get(None, "dense_act_fn")
    if named is not None:  # these two override feed_forward_proj
        return gated, s.translated("dense_act_fn", named)
    return gated, s.translated("feed_forward_proj", activation)


def _t5_block(name: str, gated: bool) -> EncoderBlockParams:
    own, network = f"{name}layer.0.SelfAttention.", f"{name}layer.1.DenseReluDense."
    weights = [Tensor(f"{own}{x}.weight", "K, D") for x in "qkv"]
    first = [
        Tensor(f"{network}{x}.weight", "F, D") for x in (("wi_0", "wi_1") if gated else ("wi",))
    ]
    second = Tensor(f"{network}wo.weight", "D, F")
    hidden: Any = (
        GatedFeedForwardParams(*first, second)  # type: ignore[arg-type, call-arg]
        if gated
        else FeedForwardParams(first[0], None, second, None)  # type: ignore[arg-type]
    )
    return EncoderBlockParams(
        AttentionParams(*weights, Tensor(f"{own}o.weight", "D, K")),  # type: ignore[arg-type, call-arg]
        norm_layout(f"{name}layer.0.layer_norm.", bias=False),
        hidden,
        norm_layout(f"{name}layer.1.layer_norm.", bias=False),
    )


def _t5(encoder: Encoder, base: str) -> T5EncoderParams:
    table = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    return T5EncoderParams(
        Tensor(f"{base}shared.weight", "V, D"),  # type: ignore[arg-type]
        Tensor(base + table, "buckets, H"),  # type: ignore[arg-type]
        tuple(_t5_block(f"{base}encoder.block.{i}.", encoder.gated) for i in range(encoder.layers)),
        norm_layout(f"{base}encoder.final_layer_norm.", bias=False),
    )


# All of them.


class Family(NamedTuple):
    """How a family's checkpoints are laid out."""

    config: Callable[[Settings], Any]
    layout: Callable[[Any, str], Any]
    base: str  # before the names, in models that have a head
    twins: dict[str, str]  # tensors that may be there once more, and which they are
    left_out: str  # tensors that are no parameters here


FAMILIES: dict[str, Family] = {
    "gpt2": Family(
        _gpt2_config,
        _gpt2,
        "transformer.",
        {"lm_head.weight": "wte.weight"},
        r"h\.\d+\.attn\.(masked_)?bias",
    ),
    "llama": Family(
        _llama_config,
        _llama,
        "model.",
        {"lm_head.weight": "embed_tokens.weight"},
        r"(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq",
    ),
    "bert": Family(
        _bert_config,
        _bert,
        "bert.",
        {},
        r"embeddings\.(position|token_type)_ids|(cls|classifier|qa_outputs)\..*",
    ),
    "t5": Family(
        _t5_config,
        _t5,
        "",
        {"encoder.embed_tokens.weight": "shared.weight"},
        r"(decoder|lm_head|classification_head|classifier|qa_outputs)\..*",
    ),
}
OLD_NAMES = {".gamma": ".weight", ".beta": ".bias"}  # of norms, in the first checkpoints


def _with_new_names(state: Mapping[str, Any], prefix: str, kind: str) -> dict[str, Any]:
    """Return the tensors after the prefix, by the names of today."""
    named = {key[len(prefix) :]: value for key, value in state.items() if key.startswith(prefix)}
    if kind == "bert":
        ends = {key: re.search(r"LayerNorm(\.gamma|\.beta)$", key) for key in named}
        today = {
            key: key.removesuffix(end[1]) + OLD_NAMES[end[1]] if end else key
            for key, end in ends.items()
        }
        twice = [
            f"{prefix + key!r} is {prefix + new!r} once more"
            for key, new in today.items()
            if key != new and new in named
        ]
        raise_all("Argument 'state' must hold each tensor once", twice)
        named = {today[key]: value for key, value in named.items()}
    if kind == "t5" and "shared.weight" not in named and "encoder.embed_tokens.weight" in named:
        named["shared.weight"] = named.pop("encoder.embed_tokens.weight")
    return named


def _sizes(config: Any) -> Sizes:
    """Return the values of the layouts' symbols in a configuration."""
    if isinstance(config, Encoder):
        return dict(config.sizes)
    keys = config.kv_heads * config.head_width
    return {
        "V": config.vocabulary, "D": config.width, "F": config.hidden, "K": keys, "L": config.length
    }  # fmt: skip


def read_family(
    state: Mapping[str, Any], kind: str, config: Mapping[str, Any] | None, prefix: str
) -> tuple[Any, Any]:
    """Return parameters, and the configuration or the options of `encoder`."""
    family, settings = FAMILIES[kind], Settings(config, kind)
    found = family.config(settings)
    settings.finish()
    named = _with_new_names(state, prefix, kind)
    base = family.base if any(name.startswith(family.base) for name in named) else ""
    if isinstance(found, Encoder):
        found = found._replace(pooler=f"{base}pooler.dense.weight" in named)
    layout = family.layout(found, base)
    twins = {k: base + v for k, v in family.twins.items() if k in named and base + v in named}
    if getattr(found, "tied", True):
        _check_twins(named, twins, prefix)
    else:
        twins = {}
    spare = re.compile(f"(?:{re.escape(base)})?(?:{family.left_out})")
    params = read(
        layout,
        {prefix + name: tensor for name, tensor in named.items()},
        kind,
        prefix=prefix,
        sizes=_sizes(found),
        base=family.base,
        left_out=lambda name: name in twins or bool(spare.fullmatch(name)),
    )
    return params, found.options if isinstance(found, Encoder) else found


def _check_twins(named: dict[str, Any], twins: dict[str, str], prefix: str) -> None:
    """Raise if tensors that are to be one are two."""
    problems = [
        f"{prefix + name!r} must equal {prefix + other!r}, as embeddings are tied"
        for name, other in twins.items()
        if not _same(*(_numbers(prefix + key, named[key]) for key in (name, other)))
    ]
    raise_all("Argument 'state' must fit its configuration", problems)


def _numbers(name: str, value: Any) -> np.ndarray[Any, Any]:
    array = as_array(name, value)
    float_dtype(name, array.dtype)  # raises an error that names the fault
    return array


def _same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays are equal, NaN being equal to itself."""
    return a.shape == b.shape and bool(np.all((a == b) | (np.isnan(a) & np.isnan(b))))


#: Entries that a configuration must have, since all models of the family do and no tensor shows it.
FIXED: dict[str, dict[str, Any]] = {
    "gpt2": {"positions": "learned", "norm": "layer", "biases": True},
    "llama": {"positions": "rope", "norm": "rms"},
}
FIXED = {
    kind: entries | {"norm_first": True, "scale_embeddings": False}
    for kind, entries in FIXED.items()
}


def _check_config(config: Any, kind: str) -> None:
    """Raise if a family has no such model."""
    if not isinstance(config, LanguageModelConfig):
        msg = f"Argument 'config' must be a LanguageModelConfig, not {shown(config)}."
        raise TypeError(msg)
    problems = [
        f"{name!r} must be {value!r}, not {getattr(config, name)!r}"
        for name, value in FIXED[kind].items()
        if getattr(config, name) != value
    ]
    raise_all(f"Argument 'config' must be that of a model of the family {kind}", problems)


def write_family(params: Any, kind: str, config: Any, prefix: str) -> dict[str, Any]:
    """Return the state dict of a model with its head, if it has one."""
    family = FAMILIES[kind]
    if kind in ("gpt2", "llama"):
        _check_config(config, kind)
        layout, sizes = family.layout(config, family.base), _sizes(config)
    else:
        if config is not None:
            check_mapping("config", config)
        blocks = getattr(params, "blocks", ())
        networks = {type(getattr(block, "feed_forward", None)) for block in blocks}
        pooler = getattr(params, "pooler", None) is not None
        found = Encoder(len(blocks), GatedFeedForwardParams in networks, pooler, {}, {})
        layout, sizes = family.layout(found, family.base if kind == "t5" else ""), {}
    return write(layout, params, kind, prefix=prefix, sizes=sizes)
