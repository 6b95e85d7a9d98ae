r"""Families of models as Hugging Face names their tensors and writes their configurations."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._core.arguments import (
    FloatArray,
    as_array,
    check_mapping,
    float_dtype,
    shown,
)
from .._core.pytree import displayed
from ..attention import AttentionParams
from ..neurons import LinearParams
from ..transformer import (
    EncoderBlockParams,
    FeedForwardParams,
    GatedFeedForwardParams,
    LanguageModelConfig,
    LanguageModelParams,
    NormParams,
)
from ._decoders import KIN, Kin, decoder_config, decoder_layout
from ._modules import linear_layout, norm_layout
from ._settings import Settings, rope_settings
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


def _llama_config(s: Settings) -> LanguageModelConfig:
    width = s.integer(4096, "hidden_size")
    heads = s.divisor(width, 32, "num_attention_heads")
    kv_heads = s.divisor(heads, heads, "num_key_value_heads")
    E = s.integer(width // heads, "head_dim")
    s.only("mlp_bias", False)
    base, scaling, _ = rope_settings(s, E)
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
        head_width=E,
    )


def _llama_block(config: LanguageModelConfig, name: str) -> EncoderBlockParams:
    rows = {"q": ("Q", "D"), "k": ("K", "D"), "v": ("K", "D"), "o": ("D", "Q")}
    heads = {"q": config.heads, "k": config.kv_heads, "v": 0, "o": 0}
    pairs = [
        linear_layout(f"{name}self_attn.{x}_proj.", *shape, bias=config.biases)
        for x, shape in rows.items()
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


def _kin_config(s: Settings, kin: Kin) -> LanguageModelConfig:
    return decoder_config(s, kin)


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
FAMILIES |= {
    kind: Family(
        functools.partial(_kin_config, kin=kin),
        decoder_layout(kind),
        "gpt_neox." if kind == "gpt_neox" else "model.",
        {"lm_head.weight": "embed_in.weight" if kind == "gpt_neox" else "embed_tokens.weight"},
        r"(layers\.\d+\.(self_attn|attention)\.)?rotary_emb\.inv_freq"
        r"|layers\.\d+\.attention\.(masked_)?bias",
    )
    for kind, kin in KIN.items()
}
#: The first part of the names of a family's classes, and its features in words.
KNOWN = {kind: (kin.classes, kin.more) for kind, kin in KIN.items()}
KNOWN |= {
    "gpt2": ("GPT2", "learned positions and layer norms"),
    "llama": ("Llama", "rotations and RMS norms"),
    "bert": ("Bert", "norms after the sums"),
    "t5": ("T5", "a bias of each distance"),
}


def _of_text(config: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the configuration of the text model inside a multimodal configuration."""
    inner = config.get("text_config") if isinstance(config, Mapping) else None
    return inner if isinstance(inner, Mapping) else config


def _of_the_text_model(named: dict[str, Any]) -> dict[str, Any]:
    """Return the tensors of a multimodal model's text model, under their current names."""
    for old, new in (
        ("model.language_model.", "model."),
        ("language_model.model.", "model."),
    ):
        if any(name.startswith(old) for name in named):
            heads = ("lm_head.", "language_model.lm_head.")
            named = {
                name.replace(old, new, 1).removeprefix("language_model."): value
                for name, value in named.items()
                if name.startswith((old, *heads))
            }
    return _with_experts_together(
        {
            "lm_head.weight" if name == "embed_out.weight" else name: value
            for name, value in named.items()
        }
    )


#: Names of one expert's matrices in published files, of gate, up and down.
ONE_EXPERT = re.compile(
    r"(.*)(?:block_sparse_moe|mlp)\.experts\.(\d+)\.(w1|w3|w2|gate_proj|up_proj|down_proj)\.weight"
)
OF_GATE_UP_DOWN = {"w1": 0, "gate_proj": 0, "w3": 1, "up_proj": 1, "w2": 2, "down_proj": 2}


def _with_experts_together(named: dict[str, Any]) -> dict[str, Any]:
    """Return tensors in which all experts of a layer are one, as in the modules of today."""
    found: dict[str, dict[int, dict[int, Any]]] = {}
    rest: dict[str, Any] = {}
    for name, value in named.items():
        if match := ONE_EXPERT.fullmatch(name):
            layer, number, matrix = match.groups()
            found.setdefault(layer, {}).setdefault(int(number), {})[OF_GATE_UP_DOWN[matrix]] = value
        else:
            rest[name.replace("block_sparse_moe.gate.", "mlp.gate.")] = value
    for layer, experts in found.items():
        whole = [experts[e] for e in sorted(experts)]
        if [*sorted(experts)] != [*range(len(whole))] or any(len(one) != 3 for one in whole):
            msg = f"Argument 'state' must hold gate, up and down of each expert of {layer!r}."
            raise ValueError(msg)
        gate, up, down = (np.stack([_numbers(layer, one[i]) for one in whole]) for i in range(3))
        rest[f"{layer}mlp.experts.gate_up_proj"] = np.concatenate([gate, up], axis=1)
        rest[f"{layer}mlp.experts.down_proj"] = down
    return rest


OLD_NAMES = {".gamma": ".weight", ".beta": ".bias"}  # of norms, in the first checkpoints


def _with_new_names(state: Mapping[str, Any], prefix: str, kind: str) -> dict[str, Any]:
    """Return the tensors after the prefix, by the names of today."""
    named = {key[len(prefix) :]: value for key, value in state.items() if key.startswith(prefix)}
    if kind in KIN:
        named = _of_the_text_model(named)
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
    E = config.head_width
    Q, K = config.heads * E, config.kv_heads * E
    return {
        "V": config.vocabulary, "D": config.width, "F": config.hidden, "L": config.length,
        "E": E, "Q": Q, "K": K, "QKV": Q + 2 * K, "H": config.heads,
    }  # fmt: skip


def read_family(
    state: Mapping[str, Any], kind: str, config: Mapping[str, Any] | None, prefix: str
) -> tuple[Any, Any]:
    """Return parameters, and the configuration or the options of `encoder`."""
    config = _of_text(config)
    _check_layers(config, len(state))
    family, settings = FAMILIES[kind], Settings(config, kind, KNOWN)
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


def _check_layers(config: Any, tensors: int) -> None:
    """Raise if there are far more layers than tensors: no layout is made of a number alone."""
    most = max(tensors, 1024)
    for name in ("n_layer", "num_hidden_layers", "num_layers", "num_decoder_layers"):
        count = config.get(name) if isinstance(config, Mapping) else None
        if isinstance(count, int) and count > most:
            msg = (
                f"Argument 'config.{name}' must be at most {most} for a state of {tensors} "
                f"tensors, not {shown(count)}."
            )
            raise ValueError(msg)


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
FIXED |= {
    kind: {"positions": "rope", "norm": kin.norm, "norm_first": True} for kind, kin in KIN.items()
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
    if kind in FIXED:
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
