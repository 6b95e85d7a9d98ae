r"""Decoders besides GPT-2 whose checkpoints resemble its: configurations and layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .._core.arguments import shown
from ..attention import AttentionParams
from ..transformer import (
    EncoderBlockParams,
    FeedForwardParams,
    LanguageModelConfig,
    LanguageModelParams,
    NormParams,
)
from ._modules import linear_layout, norm_layout
from ._settings import Settings, rope_settings
from ._tensors import Tensor, by_other_names


class LikeGPT2(NamedTuple):
    """A family: what its classes are called, its features in words, and where its parts are."""

    classes: str
    more: str
    #: Fields of a configuration: default, and names of the entry. Without one, the field's default.
    entries: dict[str, tuple[Any, ...]]
    settings: Callable[[Settings, dict[str, Any]], None]  # what else its entries say
    attention: Callable[[str, LanguageModelConfig], list[Any]]
    parts: tuple[str, str, str, str]  # of a layer: first norm, second norm, both dense layers
    tables: tuple[str, str, str] = ("wte", "wpe", "ln_f.")
    base: str = "transformer."
    layers: str = "h."
    first: int = 0  # rows of positions before the one of the first token
    norm_bias: bool = True
    dense: Callable[..., tuple[Any, Any]] = linear_layout  # of the network
    #: Other names of the norms become the names in `parts`, and back, as for a `Family`.
    renamed: Callable[[dict[str, Any], str], dict[str, Any]] = lambda named, prefix: named
    together: Callable[[dict[str, Any], Any, str], dict[str, Any]] = lambda state, *_: state
    left_out: str = r"h\.\d+\.attn\.(attention\.)?(masked_)?bias"


def config_like_gpt2(s: Settings, family: LikeGPT2) -> LanguageModelConfig:
    """Return the configuration of a model of a family."""
    entries = dict(family.entries)
    width = s.integer(*entries.pop("d_model"))
    options: dict[str, Any] = {"d_model": width, "tied": s.flag(True, "tie_word_embeddings")}
    options["num_heads"] = s.divisor(width, *entries.pop("num_heads"))
    readers: dict[str, Callable[..., Any]] = {"eps": s.number, "activation": s.activation}
    for field, (default, *names) in entries.items():
        usual = 4 * width if default is None else default
        options[field] = readers.get(field, s.integer)(usual, *names)
    if "length" in options:
        options["length"] += family.first
    family.settings(s, options)
    s.refuse()
    return LanguageModelConfig(**options)


def conv_layout(name: str, rows: str, columns: str, *, bias: bool = True) -> tuple[Any, Any]:
    """Return where weight and bias of a Conv1D are, which is a dense layer stored (n_in, n_out)."""
    weight = Tensor(f"{name}weight", f"{columns}, {rows}", transposed=True)
    return weight, Tensor(f"{name}bias", rows)


def of_gpt(name: str, config: LanguageModelConfig | None = None) -> list[Any]:
    """Return one matrix of all queries, keys and values, stored (n_in, n_out) (GPT, GPT-2)."""
    stacked = [part._replace(parts=3) for part in conv_layout(f"{name}attn.c_attn.", "3 D", "D")]
    weights, biases = ([part._replace(part=i) for i in range(3)] for part in stacked)
    w_o, b_o = conv_layout(f"{name}attn.c_proj.", "D", "D")
    return [*weights, w_o, *biases, b_o]


#: Entries of StarCoder's files that say how it is computed.
OF_RUNNERS = {
    "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "inference_runner",
    "pad_key_length", "pre_allocate_kv_cache", "validate_runner_input", "max_batch_size",
    "max_sequence_length",
}  # fmt: skip


def bigcode(s: Settings, options: dict[str, Any]) -> None:
    s.only("add_cross_attention", False)
    options["num_kv_heads"] = 1 if s.flag(True, "multi_query") else options["num_heads"]
    s.only("num_key_value_heads", options["num_kv_heads"])
    s.known |= OF_RUNNERS
    if not s.flag(True, "scale_attn_weights"):
        options["blocks"] = {"scale": 1.0}


def _of_bigcode(name: str, config: LanguageModelConfig) -> list[Any]:
    """Return one matrix of all queries, keys and values; by heads, if each has its own keys."""
    E, H = config.head_dim, config.num_heads
    fused = Tensor(f"{name}attn.c_attn.weight", "QKV, D", cut=(H * E, H * E + E))
    if config.num_kv_heads == H:
        fused = fused._replace(parts=3, grouped=H, cut=())
    bias = fused._replace(name=f"{name}attn.c_attn.bias", shape="QKV")
    w_o, b_o = linear_layout(f"{name}attn.c_proj.", "D", "Q", bias=True)
    weights, biases = ([a._replace(part=i) for i in range(3)] for a in (fused, bias))
    return [*weights, w_o, *biases, b_o]


#: Layers of GPT-Neo see all tokens, or a window.
KINDS = ("global", "local")


def neo(s: Settings, options: dict[str, Any]) -> None:
    window = {"window": (s.integer(256, "window_size") - 1, 0)}
    kinds = _kinds_of_layers(s, options["num_layers"])
    options["blocks"] = tuple(
        {"scale": 1.0} | (window if kind == "local" else {}) for kind in kinds
    )


def _kinds_of_layers(s: Settings, layers: int) -> list[str]:
    """Return "global" or "local" of each layer, which a list of periods and counts gives."""
    periods = s.get(None, "attention_types")
    kinds = [KINDS[i % 2] for i in range(layers)] if periods is None else _expanded(periods, layers)
    if kinds is None:
        known = f"periods of 'global' and 'local' for {layers} layers, and their counts"
        s.problems.append(f"'attention_types' must be {known}, not {shown(periods)}")
    s.only("attention_layers", kinds)  # the same, written out
    return kinds or []


def _expanded(periods: Any, layers: int) -> list[str] | None:
    """Return the kinds of so many layers from periods and counts, None if they do not fit."""
    fits = isinstance(periods, list) and all(
        isinstance(one, list)
        and len(one) == 2
        and isinstance(one[0], list)
        and all(kind in KINDS for kind in one[0])
        and type(one[1]) is int
        for one in periods
    )
    if not fits or sum(len(period) * max(count, 0) for period, count in periods) != layers:
        return None
    return [kind for period, count in periods for kind in period * count]


def _of_neo(name: str, config: LanguageModelConfig) -> list[Any]:
    """Return matrices without biases, of the output alone with one."""
    own = f"{name}attn.attention."
    weights = [Tensor(f"{own}{x}_proj.weight", "Q, D") for x in "qkv"]
    w_o, b_o = linear_layout(f"{own}out_proj.", "D", "Q", bias=True)
    return [*weights, w_o, None, None, None, b_o]


def opt(s: Settings, options: dict[str, Any]) -> None:
    options["norm_first"] = s.flag(True, "do_layer_norm_before")
    options["biases"] = s.flag(True, "enable_bias")
    s.only_these(_remove_final_layer_norm=False, learned_embeddings=True)
    width = s.integer(options["d_model"], "word_embed_proj_dim")
    options["embedding_dim"] = None if width == options["d_model"] else width
    s.known |= {"layerdrop", "init_std"}  # of training
    s.only("layer_norm_elementwise_affine", True)


def biogpt(s: Settings, options: dict[str, Any]) -> None:
    if s.flag(True, "scale_embedding"):
        options["embedding_scale"] = options["d_model"] ** 0.5
    s.known |= {"layerdrop", "layer_norm_eps"}  # of training; whatever it says, 1e-5 holds


#: Activations of the first GPT by its own names, which mean other ones than today.
OF_GPT = {"gelu": "gelu_new", "swish": "silu"}


def openai_gpt(s: Settings, options: dict[str, Any]) -> None:
    options["norm_first"] = False
    given = s.get("gelu", "afn")
    options["activation"] = s.translated("afn", OF_GPT.get(given, given))


def _of_opt(name: str, config: LanguageModelConfig) -> list[Any]:
    pairs = [
        linear_layout(f"{name}self_attn.{x}.", "Q", "D", bias=config.biases)
        for x in ("q_proj", "k_proj", "v_proj", "out_proj")
    ]
    weights, biases = zip(*pairs, strict=True)
    return [*weights, *biases]


def falcon(s: Settings, options: dict[str, Any]) -> None:
    width, heads = options["d_model"], options["num_heads"]
    is_new = s.flag(False, "new_decoder_architecture")
    is_parallel = s.flag(True, "parallel_attn")
    s.only("alibi", False, "ALiBi's bias rounded to bfloat16 and scaled like the scores")
    s.only("apply_residual_connection_post_layernorm", False)
    if is_new and not is_parallel:
        s.problems.append("'parallel_attn' must be True beside 'new_decoder_architecture'")
    norms = s.integer(2 if is_new else 1, "num_ln_in_parallel_attn")
    if norms > 1 + is_new:
        given = f"{1 + is_new} at most, not {norms}"
        s.problems.append(f"'num_ln_in_parallel_attn' must be {given}")
    s.tensors["ln_mlp.weight"] = norms == 2 or not is_parallel
    has_one = s.flag(True, "multi_query") and not is_new
    kv_heads = 1 if has_one else s.integer(heads, "num_kv_heads")
    s.known |= {"num_kv_heads", "ff_factor"}  # of a model with one head of keys; in the tensors
    if heads % kv_heads:
        s.problems.append(f"'num_kv_heads' must divide {heads}, not be {kv_heads}")
    if kv_heads != heads and not has_one and not is_new:
        s.problems.append(f"'num_kv_heads' must be {heads} without 'multi_query'")
    base, scaling, rotated = rope_settings(s, width // heads)
    options |= {
        "num_kv_heads": kv_heads,
        "positions": "rope",
        "biases": s.flag(False, "bias"),
        "rope_base": base,
        "rope_scaling": scaling,
        "rope_dim": None if rotated == width // heads else rotated,
        "blocks": {"rope_interleaved": False, "parallel": is_parallel},
    }


#: Norms of the first Falcon models and of the ones with two norms for parts side by side.
OF_FALCON = {".input_layernorm.": ".ln_attn.", ".post_attention_layernorm.": ".ln_mlp."}


def _with_names_of_two(named: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return a Falcon's tensors, its norms by the names that they have where there are two."""
    return {_replaced(name, OF_FALCON): array for name, array in named.items()}


def _with_names_of_falcon(state: dict[str, Any], config: Any, base: str) -> dict[str, Any]:
    """Return the same by the names of the model, which depend on the number of norms."""
    if config.blocks["parallel"] and any(".ln_mlp." in name for name in state):
        return state
    back = {new: old for old, new in OF_FALCON.items()}
    return {_replaced(name, back): array for name, array in state.items()}


def _replaced(name: str, pairs: dict[str, str]) -> str:
    old = next((old for old in pairs if old in name), "")
    return name.replace(old, pairs[old]) if old else name


def _of_falcon(name: str, config: LanguageModelConfig) -> list[Any]:
    """Return one matrix of groups: queries, then the key and the value that they share."""
    E, groups = config.head_dim, config.num_kv_heads
    own = config.num_heads // groups * E
    fused = Tensor(f"{name}self_attention.query_key_value.weight", "QKV, D")
    fused = fused._replace(grouped=groups, cut=(own, own + E))
    bias = fused._replace(name=f"{name}self_attention.query_key_value.bias", shape="QKV")
    w_o, b_o = linear_layout(f"{name}self_attention.dense.", "D", "Q", bias=config.biases)
    weights = [fused._replace(part=i) for i in range(3)]
    biases = [bias._replace(part=i) if config.biases else None for i in range(3)]
    return [*weights, w_o, *biases, b_o]


#: Entries of MPT's files that change no number, beside the ones of all families.
OF_MPT = {
    "attn_impl", "attn_uses_sequence_id", "expansion_ratio", "init_config", "init_device",
    "learned_pos_emb", "max_seq_len", "tokenizer_name", "verbose", "rope_theta",
}  # fmt: skip


def mpt(s: Settings, options: dict[str, Any]) -> None:
    s.known |= OF_MPT
    s.only_these(
        no_bias=True, embedding_fraction=1.0, norm_type="low_precision_layernorm", logit_scale=None
    )
    own = s.inside("attn_config", OF_MPT)
    own.only_these(alibi=True, attn_type="multihead_attention", prefix_lm=False, qk_ln=False)
    options |= {"positions": "alibi", "biases": False}
    options["alibi_exponent"] = own.number(8.0, "alibi_bias_max")
    blocks = {}
    if own.number(0.0, "clip_qkv"):
        blocks["clip_qkv"] = own.number(0.0, "clip_qkv")
    if own.get(None, "softmax_scale") is not None:
        blocks["scale"] = own.number(1.0, "softmax_scale")
    options["blocks"] = blocks or None
    own.finish()


def _of_mpt(name: str, config: LanguageModelConfig) -> list[Any]:
    fused = Tensor(f"{name}attn.Wqkv.weight", "3 Q, D", parts=3)
    w_o: Any = Tensor(f"{name}attn.out_proj.weight", "D, Q")
    return [*(fused._replace(part=i) for i in range(3)), w_o]


#: The head of BioGPT by its own name, and as others call it.
HEAD = {"output_projection.": "lm_head."}


#: Entries of sizes as OpenAI names them, and as others do.
OPENAI = {
    "vocab_size": (50257, "vocab_size"), "d_model": (768, "n_embd", "hidden_size"),
    "num_heads": (12, "n_head", "num_attention_heads"),
    "num_layers": (12, "n_layer", "num_hidden_layers"),
    "length": (1024, "n_positions", "max_position_embeddings"),
    "eps": (1e-5, "layer_norm_epsilon"),
}  # fmt: skip
OTHERS = {"num_heads": (16, "num_attention_heads"), "num_layers": (24, "num_hidden_layers")}

LIKE_GPT2 = {
    "biogpt": LikeGPT2(
        "BioGpt",
        "positions that count from 2, and embeddings times the root of D",
        OTHERS
        | {
            "vocab_size": (42384, "vocab_size"), "d_model": (1024, "hidden_size"),
            "d_ff": (4096, "intermediate_size"), "activation": ("gelu", "hidden_act"),
            "length": (1024, "max_position_embeddings"),
        },
        biogpt,
        _of_opt,
        ("self_attn_layer_norm.", "final_layer_norm.", "fc1.", "fc2."),
        ("embed_tokens", "embed_positions", "layer_norm."),
        "biogpt.",
        "layers.",
        first=2,
        renamed=lambda named, prefix: by_other_names(named, HEAD),
        together=lambda state, *_: by_other_names(state, {v: k for k, v in HEAD.items()}),
        left_out="(?!)",
    ),
    "openai-gpt": LikeGPT2(
        "OpenAIGPT",
        "norms after the sums, and none at the end",
        OPENAI
        | {
            "vocab_size": (40478, "vocab_size"),
            "length": (512, "n_positions", "max_position_embeddings"),
        },
        openai_gpt,
        of_gpt,
        ("ln_1.", "ln_2.", "mlp.c_fc.", "mlp.c_proj."),
        ("tokens_embed", "positions_embed", ""),
        dense=conv_layout,
    ),
    "falcon": LikeGPT2(
        "Falcon",
        "attention and network side by side, and one matrix for groups of heads",
        {
            "vocab_size": (65024, "vocab_size"), "d_model": (4544, "hidden_size"),
            "num_heads": (71, "num_attention_heads"), "num_layers": (32, "num_hidden_layers"),
            "d_ff": (None, "ffn_hidden_size"), "activation": ("gelu", "activation"),
            "eps": (1e-5, "layer_norm_epsilon"),
        },
        falcon,
        _of_falcon,
        ("ln_attn.", "ln_mlp.", "mlp.dense_h_to_4h.", "mlp.dense_4h_to_h."),
        ("word_embeddings", "", "ln_f."),
        left_out=r"h\.\d+\.self_attention\.rotary_emb\.inv_freq",
        renamed=_with_names_of_two,
        together=_with_names_of_falcon,
    ),
    "gpt_bigcode": LikeGPT2(
        "GPTBigCode",
        "one head of keys and values, and one matrix for all three projections",
        OPENAI
        | {"d_ff": (None, "n_inner"), "activation": ("gelu_pytorch_tanh", "activation_function")},
        bigcode,
        _of_bigcode,
        ("ln_1.", "ln_2.", "mlp.c_fc.", "mlp.c_proj."),
    ),
    "gpt_neo": LikeGPT2(
        "GPTNeo",
        "scores that are not scaled, and windows in every other layer",
        {
            "vocab_size": (50257, "vocab_size"), "d_model": (2048, "hidden_size"),
            "num_heads": (16, "num_heads", "num_attention_heads"),
            "num_layers": (24, "num_layers", "num_hidden_layers"),
            "d_ff": (None, "intermediate_size"), "activation": ("gelu_new", "activation_function"),
            "length": (2048, "max_position_embeddings"), "eps": (1e-5, "layer_norm_epsilon"),
        },
        neo,
        _of_neo,
        ("ln_1.", "ln_2.", "mlp.c_fc.", "mlp.c_proj."),
    ),
    "mpt": LikeGPT2(
        "Mpt",
        "ALiBi, and layer norms without biases",
        {
            "vocab_size": (50368, "vocab_size"), "d_model": (2048, "d_model", "hidden_size"),
            "num_heads": (16, "n_heads", "num_attention_heads"),
            "num_layers": (24, "n_layers", "num_hidden_layers"),
            "eps": (1e-5, "layer_norm_epsilon"),
        },
        mpt,
        _of_mpt,
        ("norm_1.", "norm_2.", "ffn.up_proj.", "ffn.down_proj."),
        ("wte", "", "norm_f."),
        layers="blocks.",
        left_out="(?!)",
        norm_bias=False,
    ),
    "opt": LikeGPT2(
        "OPT",
        "positions that count from 2",
        {
            "vocab_size": (50272, "vocab_size"), "d_model": (768, "hidden_size"),
            "num_heads": (12, "num_attention_heads"), "num_layers": (12, "num_hidden_layers"),
            "d_ff": (3072, "ffn_dim"), "activation": ("relu", "activation_function"),
            "length": (2048, "max_position_embeddings"),
        },
        opt,
        _of_opt,
        ("self_attn_layer_norm.", "final_layer_norm.", "fc1.", "fc2."),
        ("embed_tokens", "embed_positions", "final_layer_norm."),
        "model.decoder.",
        "layers.",
        first=2,
        left_out="(?!)",
    ),
}  # fmt: skip


def _optional(norm: NormParams, there: bool) -> Any:
    """Return a norm that need not be there: sub-layers side by side may share the first."""
    parts: tuple[Any, ...] = norm
    return NormParams(*(t and t._replace(optional=there) for t in parts))


def layout_like_gpt2(
    config: LanguageModelConfig, base: str, family: LikeGPT2
) -> LanguageModelParams:
    """Return where the parameters of a model are."""
    table, places, last = family.tables
    norm1, norm2, first, second = family.parts
    parallel = isinstance(config.blocks, Mapping) and config.blocks.get("parallel", False)

    def block(name: str) -> EncoderBlockParams:
        network = (
            *family.dense(f"{name}{first}", "F", "D", bias=config.biases),
            *family.dense(f"{name}{second}", "D", "F", bias=config.biases),
        )
        return EncoderBlockParams(
            AttentionParams(*family.attention(name, config)),
            norm_layout(f"{name}{norm1}", bias=family.norm_bias),
            FeedForwardParams(*network),
            _optional(norm_layout(f"{name}{norm2}", bias=family.norm_bias), parallel),
        )

    positions: Any = None
    if places:
        positions = Tensor(f"{base}{places}.weight", "L, D", first=family.first)
    shape = "V, D" if config.embedding_dim is None else "V, C"
    embedding: Any = Tensor(f"{base}{table}.weight", shape)
    head: Any = None if config.tied else Tensor("lm_head.weight", shape)
    blocks = [block(f"{base}{family.layers}{i}.") for i in range(config.num_layers)]
    ends = last and config.norm_first  # the last of the norms after the sums is in a block
    norm = norm_layout(f"{base}{last}", bias=family.norm_bias) if ends else None
    factors: list[Any] = []
    if config.embedding_dim is not None:  # of OPT 350M
        factors.append(Tensor(f"{base}project_in.weight", "D, C"))
        factors.append(Tensor(f"{base}project_out.weight", "C, D"))
    return LanguageModelParams(embedding, positions, tuple(blocks), norm, head, *factors)
