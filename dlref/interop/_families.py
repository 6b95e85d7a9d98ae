r"""Families of models as Hugging Face names their tensors and writes their configurations."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .._core.arguments import (
    as_array,
    check_mapping,
    float_dtype,
    shown,
)
from ..attention import AttentionParams
from ..transformer import (
    EncoderBlockParams,
    EncoderDecoderParams,
    FeedForwardParams,
    GatedFeedForwardParams,
    LanguageModelConfig,
    LanguageModelParams,
    NormParams,
)
from ._decoders import KIN
from ._encoders import (
    BUCKETS,
    LIKE_BERT,
    MT5,
    T5,
    Encoder,
    bert_config,
    bert_layout,
    distilbert_config,
    distilbert_layout,
    first_place,
    t5_config,
    t5_layout,
    whole_t5_config,
    whole_t5_layout,
    with_new_norms,
)
from ._fused import apart, apart_in_rows, together, together_in_rows
from ._kin import decoder_config
from ._kin_layouts import decoder_layout, network_with_biases
from ._like_gpt2 import LIKE_GPT2, config_like_gpt2, conv_layout, layout_like_gpt2, of_gpt
from ._modules import linear_layout, norm_layout
from ._settings import INSIDE, SIMILAR, Settings, rope_settings, text_config
from ._tensors import Sizes, Tensor, by_other_names, raise_all, read, write

# GPT-2.


def _gpt2_config(s: Settings) -> LanguageModelConfig:
    width = s.integer(768, "n_embd", "hidden_size")
    heads = s.divisor(width, 12, "n_head", "num_attention_heads")
    layers = s.integer(12, "n_layer", "num_hidden_layers")
    scale = (width / heads) ** -0.5 if s.flag(True, "scale_attn_weights") else 1.0
    by_layer = s.flag(False, "scale_attn_by_inverse_layer_idx")
    s.only("add_cross_attention", False)
    s.refuse()
    scales = tuple({"scale": scale / (i + 1 if by_layer else 1)} for i in range(layers))
    return LanguageModelConfig(
        s.integer(50257, "vocab_size"),
        width,
        heads,
        num_layers=layers,
        blocks=scales if by_layer or scale == 1 else None,
        d_ff=s.integer(4 * width, "n_inner"),
        activation=s.activation("gelu_new", "activation_function"),
        tied=s.flag(True, "tie_word_embeddings"),
        length=s.integer(1024, "n_positions", "max_position_embeddings"),
        eps=s.number(1e-5, "layer_norm_epsilon"),
    )


def _gpt2_block(name: str) -> EncoderBlockParams:
    first = conv_layout(f"{name}mlp.c_fc.", "F", "D")
    second = conv_layout(f"{name}mlp.c_proj.", "D", "F")
    return EncoderBlockParams(
        AttentionParams(*of_gpt(name)),
        norm_layout(f"{name}ln_1.", bias=True),
        FeedForwardParams(*first, *second),
        norm_layout(f"{name}ln_2.", bias=True),
    )


def _gpt2(config: LanguageModelConfig, base: str) -> LanguageModelParams:
    return _language_model(
        config,
        Tensor(f"{base}wte.weight", "V, D"),
        Tensor(f"{base}wpe.weight", "L, D"),
        [_gpt2_block(f"{base}h.{i}.") for i in range(config.num_layers)],
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
    s.biases_of_network(s.flag(False, "mlp_bias"))
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
        head_dim=E,
    )


def _llama_block(config: LanguageModelConfig, name: str) -> EncoderBlockParams:
    rows = {"q": ("Q", "D"), "k": ("K", "D"), "v": ("K", "D"), "o": ("D", "Q")}
    heads = {"q": config.num_heads, "k": config.num_kv_heads, "v": 0, "o": 0}
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
    return EncoderBlockParams(
        AttentionParams(*weights, *biases),  # type: ignore[arg-type]
        norm_layout(f"{name}input_layernorm.", bias=False),
        network_with_biases(name, config),
        norm_layout(f"{name}post_attention_layernorm.", bias=False),
    )


def _llama(config: LanguageModelConfig, base: str) -> LanguageModelParams:
    return _language_model(
        config,
        Tensor(f"{base}embed_tokens.weight", "V, D"),
        None,
        [_llama_block(config, f"{base}layers.{i}.") for i in range(config.num_layers)],
        norm_layout(f"{base}norm.", bias=False),
    )


# Names.


def _of_the_text_model(named: dict[str, Any], _: str) -> dict[str, Any]:
    """Return the tensors of a multimodal model's text model, under their current names."""
    for old, new in (
        ("model.language_model.", "model."),
        ("language_model.model.", "model."),
        ("model.text_model.", "model."),
        ("text_model.model.", "model."),
    ):
        if any(name.startswith(old) for name in named):
            inner = ("language_model.", "text_model.")
            heads = ("lm_head.", *(f"{one}lm_head." for one in inner))
            named = {
                re.sub(f"^({'|'.join(inner)})", "", name.replace(old, new, 1)): value
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
    by_layer: dict[str, dict[int, dict[int, Any]]] = {}
    rest: dict[str, Any] = {}
    for name, value in named.items():
        if match := ONE_EXPERT.fullmatch(name):
            layer, number, matrix = match.groups()
            matrices = by_layer.setdefault(layer, {}).setdefault(int(number), {})
            matrices[OF_GATE_UP_DOWN[matrix]] = value
        else:
            rest[name.replace(".block_sparse_moe.", ".mlp.")] = value
    for layer, experts in by_layer.items():
        whole = [experts[e] for e in sorted(experts)]
        if [*sorted(experts)] != [*range(len(whole))] or any(len(one) != 3 for one in whole):
            msg = f"Argument 'state' must hold gate, up and down of each expert of {layer!r}."
            raise ValueError(msg)
        rest[f"{layer}mlp.experts.gate_up_proj"] = Experts(layer, whole, (0, 1))
        rest[f"{layer}mlp.experts.down_proj"] = Experts(layer, whole, (2,))
    return rest


class Experts:
    """Matrices of all experts of a layer as one array, which is made whenever it is asked for."""

    def __init__(self, layer: str, each: list[dict[int, Any]], which: tuple[int, ...]) -> None:
        self.layer, self.each, self.which = layer, each, which

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return the array (n, rows, D), gate and up side by side."""
        stacks = [np.stack([_numbers(self.layer, e[i]) for e in self.each]) for i in self.which]
        return np.asarray(np.concatenate(stacks, axis=1) if len(stacks) > 1 else stacks[0], dtype)


def _with_one_table(named: dict[str, Any], _: str) -> dict[str, Any]:
    """Return a T5's tensors, its embeddings by the name that encoder and decoder share."""
    table = named.get("encoder.embed_tokens.weight")
    if table is None or "shared.weight" in named:
        return named
    rest = {key: value for key, value in named.items() if key != "encoder.embed_tokens.weight"}
    return rest | {"shared.weight": table}


def _with_one_name(named: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return a DeepSeek's tensors, its queries named as if they came from latents."""

    def one(name: str) -> str:
        start = name.removesuffix("q_proj.weight")
        alone = start != name and f"{start}q_a_proj.weight" not in named
        return f"{start}q_b_proj.weight" if alone else name

    named = _of_the_text_model(named, prefix)
    return {one(name): value for name, value in named.items()}


def _without_predictions(named: dict[str, Any], config: LanguageModelConfig, base: str) -> Any:
    """
    Return a DeepSeek's tensors without its layers for the tokens after the next one.

    They follow the last layer, and each begins with the projection ``eh_proj`` of a hidden state
    and an embedding. The model's logits do not need them, and transformers passes them over.
    """
    layer = re.compile(rf"{re.escape(base)}layers\.(\d+)\.")
    layer_of = {name: int(match[1]) for name in named if (match := layer.match(name))}
    spare = {
        number
        for number in layer_of.values()
        if number >= config.num_layers and f"{base}layers.{number}.eh_proj.weight" in named
    }
    return {name: value for name, value in named.items() if layer_of.get(name) not in spare}


def _without_mtp(named: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return a Qwen3-Next's tensors without its model for the tokens after the next one."""
    kept = {name: value for name, value in named.items() if not name.startswith("mtp.")}
    return _of_the_text_model(kept, prefix)


#: A row of the weights of a norm that each head has for itself (StableLM 2 12B).
ONE_HEAD = re.compile(r"(.*self_attn\.[qk]_layernorm)\.norms\.(\d+)\.weight")


class Rows:
    """Tensors of all heads as the rows of one array, which is made whenever it is asked for."""

    def __init__(self, name: str) -> None:
        self.name, self.each = name, dict[int, Any]()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return the array (H, E)."""
        rows = [_numbers(self.name, self.each[h]) for h in sorted(self.each)]
        return np.asarray(np.stack(rows), dtype)


def _with_heads_together(named: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return tensors in which the norms of all heads are one."""
    rest: dict[str, Any] = {}
    for name, value in _of_the_text_model(named, prefix).items():
        if match := ONE_HEAD.fullmatch(name):
            whole = f"{match[1]}.weight"
            rest.setdefault(whole, Rows(prefix + whole)).each[int(match[2])] = value
        else:
            rest[name] = value
    for rows in rest.values():
        if isinstance(rows, Rows) and [*sorted(rows.each)] != [*range(len(rows.each))]:
            msg = f"Argument 'state' must hold {rows.name!r} of each head."
            raise ValueError(msg)
    return rest


def _with_heads_apart(state: dict[str, Any], *_: Any) -> dict[str, Any]:
    """Return the same with a tensor for the norm of each head."""
    apart: dict[str, Any] = {}
    for name, value in state.items():
        stem = name.removesuffix(".weight")
        if re.search(r"self_attn\.[qk]_layernorm$", stem):
            apart |= {f"{stem}.norms.{h}.weight": row for h, row in enumerate(value)}
        else:
            apart[name] = value
    return apart


def _with_usual_names(
    named: dict[str, Any], prefix: str, names: Mapping[str, str]
) -> dict[str, Any]:
    """Return tensors by the names that other families have."""
    return _of_the_text_model(by_other_names(named, names), prefix)


def _with_own_names(state: dict[str, Any], *_: Any, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the same by the family's own names."""
    return by_other_names(state, {usual: own for own, usual in names.items()})


OF_GRANITE = {
    ".block_sparse_moe.input_linear.weight": ".mlp.experts.gate_up_proj",
    ".block_sparse_moe.output_linear.weight": ".mlp.experts.down_proj",
    ".block_sparse_moe.router.layer.weight": ".mlp.router.weight",
}
#: Other names of tensors in published files, and the ones of the modules of today.
AS_PUBLISHED = {
    "aria_text": {
        ".experts.fc1.weight": ".experts.gate_up_proj", ".experts.fc2.weight": ".experts.down_proj"
    },
    "axk1": {".post_mlp_layernorm.": ".mlp.post_mlp_layernorm."},
    "ernie4_5_moe": {".mlp.gate.moe_statics.": ".mlp.moe_statics."},
    "exaone_moe": {".mlp.e_score_correction_bias": ".mlp.gate.e_score_correction_bias"},
    "hy_v3": {
        ".mlp.router.gate.": ".mlp.gate.", ".mlp.shared_mlp.": ".mlp.shared_experts.",
        ".mlp.expert_bias": ".mlp.e_score_correction_bias",
    },
    "flint": {".self_attn.softmax_offset": ".self_attn.sinks"},
    **dict.fromkeys(("granitemoe", "granitemoeshared", "granitemoe_swa"), OF_GRANITE),
}  # fmt: skip


def _with_names_of_today(named: dict[str, Any], prefix: str, kind: str) -> dict[str, Any]:
    """Return tensors, without a model for the tokens after the next one, by the names of today."""

    def today(name: str) -> str:
        for old, new in AS_PUBLISHED.get(kind, {}).items():
            if old in name and new not in name:
                return name.replace(old, new)
        return name

    return _without_mtp({today(name): value for name, value in named.items()}, prefix)


#: The correction of ERNIE's router, which has a second axis.
OF_ROUTER, FLAT = ".moe_statics.e_score_correction_bias", ".gate.e_score_correction_bias"


def _with_flat_corrections(named: dict[str, Any], *_: Any) -> dict[str, Any]:
    """Return an ERNIE's tensors, the corrections of its routers as vectors."""
    return {
        name.replace(OF_ROUTER, FLAT): _flat(name, value) if OF_ROUTER in name else value
        for name, value in named.items()
    }


def _flat(name: str, value: Any) -> np.ndarray[Any, Any]:
    """Return the only row of an array."""
    array: np.ndarray[Any, Any] = as_array(name, value)
    if array.ndim != 2 or len(array) != 1:
        msg = f"Argument 'state[{name!r}]' must have shape (1, n), not {array.shape}."
        raise ValueError(msg)
    return array.reshape(-1)


def _with_statics(state: dict[str, Any], *_: Any) -> dict[str, Any]:
    """Return the same with the names and the shape of the module, the inverse."""
    new = ".gate.moe_statics.e_score_correction_bias"
    return {
        name.replace(FLAT, new): array[None] if FLAT in name else array
        for name, array in state.items()
    }


def _with_both_names(state: dict[str, Any], *_: Any) -> dict[str, Any]:
    """Return a DeepSeek's tensors, its queries named as in the module."""

    def own(name: str) -> str:
        start = name.removesuffix("q_b_proj.weight")
        alone = start != name and f"{start}q_a_proj.weight" not in state
        return f"{start}q_proj.weight" if alone else name

    return {own(name): array for name, array in state.items()}


# All of them.


def _same_names(named: dict[str, Any], *_: Any) -> dict[str, Any]:
    return named


class Family(NamedTuple):
    """How a family's checkpoints are laid out."""

    config: Callable[[Settings], Any]
    layout: Callable[[Any, str], Any]
    base: str  # before the names, in models that have a head
    twins: dict[str, str]  # tensors that may be there once more, and which they are
    left_out: str  # tensors that are no parameters here
    #: Older names become the names of the layout; called with tensors and the prefix.
    renamed: Callable[[dict[str, Any], str], dict[str, Any]] = _same_names
    #: Fused tensors become the tensors of the layout, and back; called with tensors, the
    #: configuration and the beginning of the names.
    apart: Callable[[dict[str, Any], Any, str], dict[str, Any]] = _same_names
    together: Callable[[dict[str, Any], Any, str], dict[str, Any]] = _same_names


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
        _of_the_text_model,
    ),
    "distilbert": Family(
        distilbert_config,
        distilbert_layout,
        "distilbert.",
        {},
        r"embeddings\.position_ids|(vocab_\w+|pre_classifier|classifier|qa_outputs)\..*",
        with_new_norms,
    ),
}
FAMILIES |= {
    kind: Family(
        functools.partial(bert_config, kin=kin),
        functools.partial(bert_layout, kin=kin),
        kin.base,
        {},
        r"embeddings\.(position|token_type)_ids|(cls|lm_head|classifier|qa_outputs)\..*"
        r"|(discriminator|generator)_\w+\..*"
        r"|encoder\.embed_positions\.weight",
        with_new_norms,
    )
    for kind, kin in LIKE_BERT.items()
}
TASKS_OF_T5 = "classification_head|classifier|qa_outputs"
FAMILIES |= {
    kind: Family(
        functools.partial(t5_config, defaults=defaults),
        t5_layout,
        "",
        {"encoder.embed_tokens.weight": "shared.weight"},
        rf"(lm_head|{TASKS_OF_T5})\..*",
        _with_one_table,
    )
    for kind, defaults in (("t5", T5), ("mt5", MT5))
}
#: Families that are laid out in another way where the state has a decoder.
WITH_DECODER = {
    kind: Family(
        functools.partial(whole_t5_config, defaults=defaults),
        whole_t5_layout,
        "",
        {
            "encoder.embed_tokens.weight": "shared.weight",
            "decoder.embed_tokens.weight": "shared.weight",
            "lm_head.weight": "shared.weight",
        },
        rf"({TASKS_OF_T5})\..*",
    )
    for kind, defaults in (("t5", T5), ("mt5", MT5))
}
SIMILAR |= KIN.keys()
FAMILIES |= {
    kind: Family(
        functools.partial(decoder_config, kin=kin),
        functools.partial(decoder_layout, kin=kin),
        kin.tables[0],
        {"lm_head.weight": f"{kin.tables[1]}.weight"},
        r"(layers\.\d+\.(self_attn|attention)\.)?rotary_emb\.inv_freq"
        r"|layers\.\d+\.attention\.(masked_)?bias",
        functools.partial(_with_usual_names, names=kin.names),
        together=functools.partial(_with_own_names, names=kin.names),
    )
    for kind, kin in KIN.items()
}
FAMILIES |= {
    kind: Family(
        functools.partial(config_like_gpt2, family=one),
        functools.partial(layout_like_gpt2, family=one),
        one.base,
        {"lm_head.weight": f"{one.tables[0]}.weight"},
        one.left_out,
        one.renamed,
        together=one.together,
    )
    for kind, one in LIKE_GPT2.items()
}
for of_deepseek in ("deepseek_v2", "deepseek_v3", "glm4_moe_lite", "kimi_k2", "minicpm3", "youtu"):
    FAMILIES[of_deepseek] = FAMILIES[of_deepseek]._replace(
        renamed=_with_one_name, apart=_without_predictions, together=_with_both_names
    )
for later in (*AS_PUBLISHED, "mellum"):
    FAMILIES[later] = FAMILIES[later]._replace(
        renamed=functools.partial(_with_names_of_today, kind=later)
    )
FAMILIES["ernie4_5_moe"] = FAMILIES["ernie4_5_moe"]._replace(
    apart=_with_flat_corrections, together=_with_statics
)
for qwen3_5 in ("qwen3_5_text", "qwen3_5_moe_text"):
    FAMILIES[qwen3_5] = FAMILIES[qwen3_5]._replace(
        renamed=_without_mtp, apart=apart_in_rows, together=together_in_rows
    )
FAMILIES["stablelm"] = FAMILIES["stablelm"]._replace(
    renamed=_with_heads_together, together=_with_heads_apart
)
FAMILIES["glm4_moe"] = FAMILIES["glm4_moe"]._replace(apart=_without_predictions)
FAMILIES["qwen3_next"] = FAMILIES["qwen3_next"]._replace(
    renamed=_without_mtp, apart=apart, together=together
)
#: The first part of the names of a family's classes, and its features in words.
KNOWN = {kind: (kin.classes, kin.more) for kind, kin in KIN.items()}
KNOWN |= {kind: (one.classes, one.more) for kind, one in LIKE_GPT2.items()}
KNOWN |= {
    "gpt2": ("GPT2", "learned positions and layer norms"),
    "llama": ("Llama", "rotations and RMS norms"),
    "distilbert": ("DistilBert", "no embeddings of sentences"),
    **{kind: (kin.classes, kin.more) for kind, kin in LIKE_BERT.items()},
    "t5": ("T5", "a bias of each distance"),
    "mt5": ("MT5", "T5's pieces, and outputs that are not scaled"),
}


def sizes_of(config: Any) -> Sizes:
    """Return the values of the layouts' symbols in a configuration."""
    if isinstance(config, Encoder):
        return dict(config.sizes)
    E = config.head_dim
    Q, K = config.num_heads * E, config.num_kv_heads * E
    return {
        "V": config.vocab_size, "D": config.d_model, "F": config.d_ff, "L": config.length,
        "E": E, "Q": Q, "K": K, "QKV": Q + 2 * K, "H": config.num_heads, "Hk": config.num_kv_heads,
        "buckets": BUCKETS,
    } | ({"C": config.embedding_dim} if config.embedding_dim else {})  # fmt: skip


class Prepared(NamedTuple):
    """The tensors of a model by the names of its layout, and its configuration."""

    named: dict[str, Any]
    family: Family
    config: Any
    base: str  # before the names of the layout
    whole: bool  # whether it has an encoder and a decoder


@functools.cache
def _entries_of_all() -> set[Any]:
    """Return the names of the entries that any family reads."""
    names = set[Any]()
    for kind, family in (*FAMILIES.items(), *WITH_DECODER.items()):
        settings = Settings({}, kind, KNOWN)
        with contextlib.suppress(ValueError):  # of files that lack an entry
            family.config(settings)
        names |= settings.known
    return names


def prepare(
    state: Mapping[str, Any], kind: str, config: Mapping[str, Any] | None, prefix: str
) -> Prepared:
    """Read a configuration, and bring tensors under the names of the family's layout."""
    config = text_config(config, _entries_of_all)
    _check_layers(config, len(state))
    named = {key[len(prefix) :]: value for key, value in state.items() if key.startswith(prefix)}
    named = FAMILIES[kind].renamed(named, prefix)
    whole = kind in WITH_DECODER and any(name.startswith("decoder.block.") for name in named)
    family, settings = (WITH_DECODER if whole else FAMILIES)[kind], Settings(config, kind, KNOWN)
    if settings.config.get(INSIDE) and settings.config["tie_word_embeddings"] is None:
        table = next((n for n in named if n.endswith("embed_tokens.weight")), "")
        settings.config["tie_word_embeddings"] = _is_tied(named, table, prefix)
    settled = family.config(settings)
    settings.finish(_entries_of_all)
    _check_tensors(named, settings, prefix, getattr(settled, "num_layers", 0))
    base = family.base if any(name.startswith(family.base) for name in named) else ""
    return Prepared(named, family, settled, base, whole)


def read_family(
    state: Mapping[str, Any], kind: str, config: Mapping[str, Any] | None, prefix: str
) -> tuple[Any, Any]:
    """Return parameters, and the configuration or the options of `encoder`."""
    named, family, settled, base, whole = prepare(state, kind, config, prefix)
    if isinstance(settled, Encoder):
        settled = settled._replace(pooler=f"{base}pooler.dense.weight" in named)
    elif whole:
        settled = dataclasses.replace(settled, tied=_is_tied(named, "shared.weight", prefix))
    named = family.apart(named, settled, base)
    layout = family.layout(settled, base)
    twins = {k: base + v for k, v in family.twins.items() if k in named and base + v in named}
    if not getattr(settled, "tied", True):
        twins.pop("lm_head.weight", None)
    _check_twins(named, twins, prefix)
    spare = re.compile(f"(?:{re.escape(base)})?(?:{family.left_out})")
    params = read(
        layout,
        {prefix + name: tensor for name, tensor in named.items()},
        kind,
        prefix=prefix,
        sizes=sizes_of(settled),
        base=family.base,
        left_out=lambda name: name in twins or bool(spare.fullmatch(name)),
        integers=False,
    )
    return params, settled.options if isinstance(settled, Encoder) else settled


def _is_tied(named: dict[str, Any], embedding: str, prefix: str) -> bool:
    """Whether there is no head, or one that equals the embeddings; no entry says so of a T5."""
    if not {embedding, "lm_head.weight"} <= named.keys():
        return "lm_head.weight" not in named
    return _same(*(_numbers(prefix + name, named[name]) for name in (embedding, "lm_head.weight")))


def _check_layers(config: Any, tensors: int) -> None:
    """Raise if there are far more layers than tensors: no layout is made of a number alone."""
    most = max(tensors // 4, 1024)  # a layer has more than four tensors
    for name in ("n_layer", "num_hidden_layers", "num_layers", "num_decoder_layers"):
        count = config.get(name) if isinstance(config, Mapping) else None
        if isinstance(count, int) and count > most:
            msg = (
                f"Argument 'config.{name}' must be at most {most} for a state of {tensors} "
                f"tensors, not {shown(count)}."
            )
            raise ValueError(msg)


def _check_tensors(named: dict[str, Any], settings: Settings, prefix: str, layers: int) -> None:
    """Raise if tensors are there that the configuration says are not, or the other way round."""
    counts = {end: sum(name.endswith(end) for name in named) for end in settings.tensors}
    problems = [
        f"{prefix}...{end!r} is {'missing' if wanted else 'there'}"
        for end, wanted in settings.tensors.items()
        if (counts[end] < (layers if wanted is True else wanted) if wanted else counts[end])
    ]
    raise_all("Argument 'state' must fit its configuration", problems)


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
    float_dtype(name, array.dtype, integers=False)  # raises an error that names the fault
    return array


def _same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays are equal, NaN being equal to itself."""
    return a.shape == b.shape and bool(np.all((a == b) | (np.isnan(a) & np.isnan(b))))


#: Entries that a configuration must have, since all models of the family do and no tensor shows it.
FIXED: dict[str, dict[str, Any]] = {
    kind: {"positions": "learned", "norm": "layer", "biases": True} for kind in ("gpt2", *LIKE_GPT2)
} | {
    "falcon": {"positions": "rope", "norm": "layer"},
    "mpt": {"positions": "alibi", "norm": "layer", "biases": False},
    "llama": {"positions": "rope", "norm": "rms"},
}
FIXED = {
    kind: entries | {"norm_first": True, "scale_embeddings": False}
    for kind, entries in FIXED.items()
}
FIXED["openai-gpt"]["norm_first"] = False
FIXED["opt"] = {"positions": "learned", "norm": "layer", "scale_embeddings": False}
FIXED |= {
    kind: {"positions": "t5", "norm": "rms", "norm_first": True, "biases": False}
    for kind in WITH_DECODER
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
    whole = kind in WITH_DECODER and isinstance(params, EncoderDecoderParams)
    family = (WITH_DECODER if whole else FAMILIES)[kind]
    if whole or (kind in FIXED and kind not in WITH_DECODER):
        _check_config(config, kind)
        layout, sizes = family.layout(config, family.base), sizes_of(config)
    else:
        if config is not None:
            check_mapping("config", config)
        blocks = getattr(params, "blocks", ())
        networks = {type(getattr(block, "feed_forward", None)) for block in blocks}
        pooler = getattr(params, "pooler", None) is not None
        encoder = Encoder(len(blocks), GatedFeedForwardParams in networks, pooler, {}, {})
        if kind in LIKE_BERT and LIKE_BERT[kind].counts:
            encoder = encoder._replace(first_place=first_place(config))
        encoder = encoder._replace(projected=getattr(params, "projection", None) is not None)
        layout, sizes = family.layout(encoder, ""), {}
    state = write(layout, params, kind, prefix=prefix, sizes=sizes)
    return family.together(state, config, prefix + family.base)
