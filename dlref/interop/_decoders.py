r"""Decoder-only families whose checkpoints resemble LLaMA's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from .._core.arguments import as_integer, as_number, shown
from ..attention import AttentionParams, LatentAttentionParams
from ..transformer import (
    EncoderBlockParams,
    ExpertParams,
    FeedForwardParams,
    GatedDeltaParams,
    GatedFeedForwardParams,
    LanguageModelConfig,
    LanguageModelParams,
    MixtureParams,
)
from ._modules import norm_layout
from ._settings import Settings, rope_settings
from ._tensors import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

SLIDING = "sliding_attention"
#: Fields of a block's norms, and their names in a layer.
BEFORE = {"norm1": "input_layernorm", "norm2": "post_attention_layernorm"}
BEHIND = {
    "output_norm1": "post_attention_layernorm",
    "output_norm2": "post_feedforward_layernorm",
}
SANDWICH = {
    "norm1": "input_layernorm",
    "norm2": "pre_feedforward_layernorm",
    **BEHIND,
}


class Kin(NamedTuple):
    """A family: its defaults, and where it differs from LLaMA."""

    classes: str  # the first part of its classes' names
    more: str  # its special features in words, for error messages
    defaults: dict[str, Any]  # of its configuration
    settings: Callable[[Settings, Kin, dict[str, Any]], Any] = lambda s, kin, told: None
    norms: dict[str, str] = BEFORE
    norm: str = "rms"
    norm_bias: bool = False
    biases: str = "qkvo"  # which projections have one, where there are biases
    qk_norm: bool = False
    latent: bool = False  # whether keys and values are projected from latents


def _plain(s: Settings, kin: Kin, name: str) -> Any:
    """Return an entry of the configuration, null included, or the family's default."""
    s.known |= {name}
    return s.config.get(name, kin.defaults.get(name))


def decoder_config(s: Settings, kin: Kin) -> LanguageModelConfig:
    """Return the configuration of a model of a family."""
    d = kin.defaults
    width = s.integer(d["hidden_size"], "hidden_size")
    heads = s.integer(d["num_attention_heads"], "num_attention_heads")
    kv_heads = _plain(s, kin, "num_key_value_heads")
    kv_heads = as_integer("config.num_key_value_heads", kv_heads or heads, least=1)
    if heads % kv_heads:
        s.problems.append(f"'num_key_value_heads' must divide {heads}, not be {kv_heads}")
    E = _plain(s, kin, "head_dim") if "head_dim" in d else s.get(None, "head_dim")
    if E is None and width % heads and not kin.latent:
        s.problems.append(f"'num_attention_heads' must divide {width}, not be {heads}")
    E = width // heads if E is None else as_integer("config.head_dim", E, least=1)
    turning = E
    if kin.latent:  # whose heads have channels without a rotation, then channels with one
        kv_heads, turning = heads, s.integer(64, "qk_rope_head_dim")
        E = turning + s.integer(128, "qk_nope_head_dim")
    rotation = {"base": d.get("rope_theta", 10000.0), "partial": d.get("partial_rotary_factor")}
    by_kind = kin.settings is _gemma3
    base, scaling, rotated = rope_settings(s, turning, by_kind=by_kind, **rotation)
    s.refuse()
    name = next(n for n in ("hidden_activation", "hidden_act") if n in d)
    eps = "rms_norm_eps" if kin.norm == "rms" else "layer_norm_eps"
    blocks: dict[str, Any] = {"rope_interleaved": False}
    told: dict[str, Any] = {
        "vocab_size": s.integer(d["vocab_size"], "vocab_size"),
        "d_model": width,
        "num_heads": heads,
        "num_kv_heads": kv_heads,
        "num_layers": s.integer(d["num_hidden_layers"], "num_hidden_layers"),
        "d_ff": s.integer(d["intermediate_size"], "intermediate_size"),
        "positions": "rope",
        "norm": kin.norm,
        "activation": s.activation(d[name], name, gated="plain" not in d),
        "tied": s.flag(d.get("tie_word_embeddings", False), "tie_word_embeddings"),
        "biases": s.flag(d["attention_bias"], "attention_bias") if "attention_bias" in d else False,
        "rope_base": base,
        "rope_scaling": scaling,
        "rope_dim": rotated if rotated != E else None,
        "eps": s.number(d[eps], eps),
        "head_dim": E,
        "blocks": blocks,
    }
    each = kin.settings(s, kin, told)
    s.refuse()
    if each is not None:
        each = [blocks | own for own in each]
        told["blocks"] = each[0] if each and all(own == each[0] for own in each) else tuple(each)
        told["blocks"] = told["blocks"] or blocks
    return LanguageModelConfig(**told)


def _window(s: Settings, kin: Kin) -> dict[str, Any]:
    """Return the option of a block that sees so many tokens, itself among them."""
    size = _plain(s, kin, "sliding_window")
    if size is None:
        return {}
    return {"window": (as_integer("config.sliding_window", size, least=1) - 1, 0)}


def _types(s: Settings, layers: int, default: Callable[[int], bool]) -> list[bool]:
    """Return whether each layer has the window."""
    given = s.listed(None, "layer_types")
    if given is None:
        return [default(i) for i in range(layers)]
    fits = isinstance(given, list | tuple) and len(given) == layers
    if not fits or {*given} - {SLIDING, "full_attention"}:
        known = f"{layers} of {SLIDING!r} or 'full_attention'"
        s.problems.append(f"'layer_types' must be a list of {known}, not {shown(given)}")
        return [False] * layers
    return [kind == SLIDING for kind in given]


def _some_sliding(s: Settings, kin: Kin, told: Any, default: Callable[[int], bool]) -> Any:
    window = _window(s, kin)
    return [window if is_one else {} for is_one in _types(s, told["num_layers"], default)]


def _everywhere(s: Settings, kin: Kin, told: dict[str, Any]) -> Any:
    """Return the window of all layers (Mistral, Phi-3)."""
    return [_window(s, kin)] * told["num_layers"]


def _where_typed(s: Settings, kin: Kin, told: dict[str, Any]) -> Any:
    """Return the window of the layers whose type says so, all by default (Ministral)."""
    return _some_sliding(s, kin, told, lambda i: True)


def _on_demand(s: Settings, kin: Kin, told: dict[str, Any]) -> Any:
    """Return the window of the upper layers, if it is switched on (Qwen)."""
    on = s.flag(False, "use_sliding_window")
    first = s.integer(28, "max_window_layers") if s.get(28, "max_window_layers") else 0
    types = _types(s, told["num_layers"], lambda i: i >= first)
    window = _window(s, kin) if on else {}
    return [window if is_one else {} for is_one in types]


def _qwen2(s: Settings, kin: Kin, told: dict[str, Any]) -> Any:
    told["biases"] = True
    return _on_demand(s, kin, told)


def _smollm3(s: Settings, kin: Kin, told: dict[str, Any]) -> Any:
    layers, interval = told["num_layers"], s.integer(4, "no_rope_layer_interval")
    default = [int((i + 1) % interval != 0) for i in range(layers)]
    rotated = s.listed(default, "no_rope_layers")
    if len(rotated) != layers:
        s.problems.append(f"'no_rope_layers' must have {layers} entries, not {len(rotated)}")
        return None
    on = s.flag(False, "use_sliding_window")
    s.known |= {"max_window_layers"}
    types = _types(s, layers, lambda i: on and not rotated[i])
    window = _window(s, kin) if on else {}
    return [
        (window if sliding else {}) | ({} if rope else {"rope": None})
        for sliding, rope in zip(types, rotated, strict=True)
    ]


def _gemma(s: Settings, kin: Kin, told: dict[str, Any]) -> Any:
    told["embedding_scale"] = told["d_model"] ** 0.5
    told["blocks"]["norm_offset"] = 1.0
    if s.get(False, "use_bidirectional_attention"):
        s.problems.append("'use_bidirectional_attention' must be False or null")
    return None


def _caps(s: Settings, kin: Kin, told: dict[str, Any]) -> None:
    """Read the scale of the scores and both caps (Gemma 2, Gemma 3)."""
    scalar = as_number("config.query_pre_attn_scalar", _plain(s, kin, "query_pre_attn_scalar"))
    told["blocks"]["scale"] = scalar**-0.5
    scores, logits = (
        _plain(s, kin, f"{name}_softcapping") for name in ("attn_logit", "final_logit")
    )
    if scores is not None:
        told["blocks"]["softcap"] = as_number("config.attn_logit_softcapping", scores, above=0)
    if logits is not None:
        told["logit_softcap"] = as_number("config.final_logit_softcapping", logits, above=0)


def _gemma2(s: Settings, kin: Kin, told: dict[str, Any]) -> Any:
    _gemma(s, kin, told)
    _caps(s, kin, told)
    return _some_sliding(s, kin, told, lambda i: i % 2 == 0)


def _gemma3(s: Settings, kin: Kin, told: dict[str, Any]) -> Any:
    _gemma(s, kin, told)
    _caps(s, kin, told)
    pattern = s.integer(6, "sliding_window_pattern", "_sliding_window_pattern")
    types = _types(s, told["num_layers"], lambda i: (i + 1) % pattern != 0)
    window, local = _window(s, kin), s.number(10000.0, "rope_local_base_freq")
    near = s.rotations.get(SLIDING, {})
    base = as_number("config.rope_parameters", near.get("rope_theta", local), above=1)
    if near.get("rope_type", "default") != "default":
        s.problems.append("the rope type of sliding layers must be 'default'")
    rotation = {"rope": {"base": base, "scaling": None}}
    return [window | rotation if is_one else {} for is_one in types]


def _granite(s: Settings, kin: Kin, told: dict[str, Any]) -> Any:
    told["embedding_scale"] = s.number(1.0, "embedding_multiplier")
    told["logit_scale"] = 1 / s.number(1.0, "logits_scaling")
    told["blocks"]["residual_scale"] = s.number(1.0, "residual_multiplier")
    told["blocks"]["scale"] = s.number(1.0, "attention_multiplier")
    s.only("mlp_bias", False)


def _stablelm(s: Settings, kin: Kin, told: dict[str, Any]) -> Any:
    told["biases"] = s.flag(False, "use_qkv_bias")
    told["blocks"]["parallel"] = s.flag(False, "use_parallel_residual")
    s.only("qk_layernorm", False)


def _gpt_neox(s: Settings, kin: Kin, told: dict[str, Any]) -> Any:
    told["blocks"]["parallel"] = s.flag(True, "use_parallel_residual")


def _cohere(s: Settings, kin: Kin, told: dict[str, Any]) -> Any:
    told["blocks"] |= {"parallel": True, "rope_interleaved": True}
    told["logit_scale"] = s.number(0.0625, "logit_scale")
    s.only("use_qk_norm", False)


def _phi3(s: Settings, kin: Kin, told: dict[str, Any]) -> Any:
    s.known |= {"original_max_position_embeddings"}
    return _everywhere(s, kin, told)


def _router(s: Settings, kin: Kin, told: dict[str, Any], **options: Any) -> int:
    """Read how experts are chosen; return how many there are."""
    count = s.integer(kin.defaults["experts"], "num_local_experts", "num_experts")
    k = s.integer(kin.defaults["k"], "num_experts_per_tok")
    if k > count:
        s.problems.append(f"'num_experts_per_tok' must be at most {count}, not {k}")
    s.known |= {"router_aux_loss_coef", "router_jitter_noise"}  # of training
    told["blocks"]["router"] = {"k": k, **options}
    return count


def _mixtral(s: Settings, kin: Kin, told: dict[str, Any]) -> Any:
    _router(s, kin, told)
    return _everywhere(s, kin, told)


def _qwen3_moe(s: Settings, kin: Kin, told: dict[str, Any]) -> Any:
    _router(s, kin, told, normalize=s.flag(False, "norm_topk_prob"))
    s.known |= {"intermediate_size", "layer_types", "max_window_layers"}
    plain = s.listed([], "mlp_only_layers")
    step = s.integer(1, "decoder_sparse_step")
    dense = [i in plain or (i + 1) % step != 0 for i in range(told["num_layers"])]
    s.integer(768, "moe_intermediate_size")  # the tensors have it
    on = s.flag(False, "use_sliding_window")
    window = _window(s, kin) if on else {}
    return [window | ({"router": None} if d else {}) for d in dense]


def _olmoe(s: Settings, kin: Kin, told: dict[str, Any]) -> Any:
    _router(s, kin, told, normalize=s.flag(False, "norm_topk_prob"))
    s.only("clip_qkv", None)


def _gpt_oss(s: Settings, kin: Kin, told: dict[str, Any]) -> Any:
    limit, beta = s.number(7.0, "swiglu_limit"), s.number(1.702, "swiglu_alpha")
    _router(s, kin, told, score="softmax_of_top", limit=limit, shift=1.0, beta=beta)
    return _some_sliding(s, kin, told, lambda i: i % 2 == 0)


def _deepseek_v3(s: Settings, kin: Kin, told: dict[str, Any]) -> Any:
    s.known |= {"head_dim", "qk_head_dim", "v_head_dim", "kv_lora_rank", "q_lora_rank"}
    s.known |= {"num_key_value_heads", "moe_intermediate_size", "n_shared_experts"}  # in tensors
    s.known |= {"num_nextn_predict_layers", "num_mtp_layers", "ep_size", "moe_layer_freq"}
    s.only("scoring_func", "sigmoid")
    s.only("topk_method", "noaux_tc")
    s.only("rms_norm_eps", 1e-6)  # the norms of the latents have no other
    told["blocks"]["rope_interleaved"] = s.flag(True, "rope_interleave")
    scaling = told["rope_scaling"] or {}
    if scaling.get("mscale_all_dim"):
        m = 1 + 0.1 * scaling["mscale_all_dim"] * math.log(max(scaling["factor"], 1))
        told["blocks"]["scale"] = m * m / math.sqrt(told["head_dim"])
    s.config.setdefault("num_experts", s.integer(256, "n_routed_experts"))
    _router(
        s, kin, told, score="sigmoid", normalize=s.flag(True, "norm_topk_prob"),
        groups=s.integer(8, "n_group"), top_groups=s.integer(4, "topk_group"),
        scale=s.number(2.5, "routed_scaling_factor"),
    )  # fmt: skip
    dense = as_integer("config.first_k_dense_replace", s.get(3, "first_k_dense_replace"), least=0)
    return [{"router": None} if i < dense else {} for i in range(told["num_layers"])]


def _qwen3_next(s: Settings, kin: Kin, told: dict[str, Any]) -> Any:
    _router(s, kin, told, normalize=s.flag(True, "norm_topk_prob"))
    s.known |= {"moe_intermediate_size", "shared_expert_intermediate_size", "intermediate_size"}
    s.known |= {"linear_conv_kernel_dim", "linear_key_head_dim", "linear_value_head_dim"}
    told["blocks"]["norm_offset"] = 1.0
    keys = s.integer(16, "linear_num_key_heads")
    values = s.integer(32, "linear_num_value_heads")
    if values % keys:
        s.problems.append(f"'linear_num_key_heads' must divide {values}, not be {keys}")
    layers, interval = told["num_layers"], s.integer(4, "full_attention_interval")
    usual = [
        "full_attention" if (i + 1) % interval == 0 else "linear_attention" for i in range(layers)
    ]
    types = s.listed(usual, "layer_types")
    if len(types) != layers or not set(types) <= {*usual, "full_attention", "linear_attention"}:
        s.problems.append(
            f"'layer_types' must be a list of {layers} known types, not {shown(types)}"
        )
    plain, step = s.listed([], "mlp_only_layers"), s.integer(1, "decoder_sparse_step")
    dense = [i in plain or (i + 1) % step != 0 for i in range(layers)]
    return [
        ({"delta_heads": keys} if kind == "linear_attention" else {})
        | ({"router": None} if d else {})
        for kind, d in zip(types, dense, strict=False)
    ]


def _defaults(*numbers: int, **more: Any) -> dict[str, Any]:
    """Return the defaults of a configuration; `numbers` go to the sizes in their order."""
    sizes = "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads"
    names = f"{sizes} num_key_value_heads".split()
    more = {"hidden_act": "silu"} | more if "hidden_activation" not in more else more
    eps = {"rms_norm_eps": 1e-6, "layer_norm_eps": 1e-5, "tie_word_embeddings": False}
    return dict(zip(names, numbers, strict=False)) | eps | more


GELU = "gelu_pytorch_tanh"
KIN: dict[str, Kin] = {
    "mistral": Kin(
        "Mistral",
        "a window of attention and a width of heads of its own",
        _defaults(32000, 4096, 14336, 32, 32, 8, sliding_window=4096),
        _everywhere,
    ),
    "ministral": Kin(
        "Ministral",
        "a window of attention in some layers",
        _defaults(32000, 4096, 14336, 32, 32, 8, sliding_window=4096, head_dim=None),
        _where_typed,
    ),
    "qwen2": Kin(
        "Qwen2",
        "biases of queries, keys and values, but not of the output",
        _defaults(151936, 4096, 22016, 32, 32, 32, sliding_window=4096),
        _qwen2,
        biases="qkv",
    ),
    "qwen3": Kin(
        "Qwen3",
        "norms of queries and keys",
        _defaults(
            151936, 4096, 22016, 32, 32, 32, head_dim=128, sliding_window=4096, attention_bias=False
        ),
        _on_demand,
        qk_norm=True,
    ),
    "smollm3": Kin(
        "SmolLM3",
        "layers without rotations",
        _defaults(
            128256, 2048, 11008, 36, 16, 4, rope_theta=2e6, tie_word_embeddings=True,
            sliding_window=None, attention_bias=False,
        ),
        _smollm3,
    ),
    "gemma": Kin(
        "Gemma",
        "norms that multiply by 1 + w, and embeddings times the root of D",
        _defaults(
            256000, 3072, 24576, 28, 16, 16, head_dim=256, hidden_act=GELU,
            tie_word_embeddings=True, attention_bias=False,
        ),
        _gemma,
    ),
    "gemma2": Kin(
        "Gemma2",
        "norms before and after each sub-layer, caps, and windows in every other layer",
        _defaults(
            256000, 2304, 9216, 26, 8, 4, head_dim=256, hidden_activation=GELU,
            tie_word_embeddings=True, attention_bias=False, sliding_window=4096,
            query_pre_attn_scalar=256, attn_logit_softcapping=50.0, final_logit_softcapping=30.0,
        ),
        _gemma2,
        norms=SANDWICH,
    ),
    "gemma3_text": Kin(
        "Gemma3",
        "norms of queries and keys, two bases of rotations, and norms by 1 + w",
        _defaults(
            262208, 2304, 9216, 26, 8, 4, head_dim=256, hidden_activation=GELU,
            tie_word_embeddings=True, attention_bias=False, sliding_window=4096, rope_theta=1e6,
            query_pre_attn_scalar=256,
        ),
        _gemma3,
        norms=SANDWICH,
        qk_norm=True,
    ),
    "mixtral": Kin(
        "Mixtral",
        "experts",
        _defaults(
            32000, 4096, 14336, 32, 32, 8, rope_theta=1e6, rms_norm_eps=1e-5, sliding_window=None,
            head_dim=None, experts=8, k=2,
        ),
        _mixtral,
    ),
    "qwen3_moe": Kin(
        "Qwen3Moe",
        "experts, and norms of queries and keys",
        _defaults(
            151936, 2048, 6144, 24, 32, 4, sliding_window=4096, attention_bias=False, experts=128,
            k=8,
        ),
        _qwen3_moe,
        qk_norm=True,
    ),
    "olmoe": Kin(
        "Olmoe",
        "experts, and norms of all queries and keys at once",
        _defaults(
            50304, 2048, 2048, 16, 16, 16, rms_norm_eps=1e-5, attention_bias=False, experts=64, k=8
        ),
        _olmoe,
        qk_norm=True,
    ),
    "gpt_oss": Kin(
        "GptOss",
        "experts with bounded gates, sinks, and windows in every other layer",
        _defaults(
            201088, 2880, 2880, 36, 64, 8, rope_theta=150000.0, rms_norm_eps=1e-5, head_dim=64,
            sliding_window=128, attention_bias=True, experts=128, k=4,
        ),
        _gpt_oss,
    ),
    "granite": Kin(
        "Granite",
        "multipliers of embeddings, scores, sums and logits",
        _defaults(32000, 4096, 11008, 32, 32, 32, attention_bias=False),
        _granite,
    ),
    "olmo2": Kin(
        "Olmo2",
        "norms of the sub-layers' outputs, and of all queries and keys at once",
        _defaults(50304, 4096, 11008, 32, 32, 32, attention_bias=False, rms_norm_eps=1e-5),
        norms=BEHIND,
        qk_norm=True,
    ),
    "phi3": Kin(
        "Phi3",
        "one matrix for queries, keys and values, and one for gate and up",
        _defaults(
            32064, 3072, 8192, 32, 32, 32, rms_norm_eps=1e-5, sliding_window=None,
            partial_rotary_factor=1.0,
        ),
        _phi3,
    ),
    "stablelm": Kin(
        "StableLm",
        "layer norms, and rotations of a quarter of the channels",
        _defaults(50304, 2560, 6912, 32, 32, 32, partial_rotary_factor=0.25),
        _stablelm,
        norm="layer",
        norm_bias=True,
        biases="qkv",
    ),
    "deepseek_v3": Kin(
        "DeepseekV3",
        "latent attention, and experts that a correction chooses in groups",
        _defaults(129280, 7168, 18432, 61, 128, 128, attention_bias=False, experts=256, k=8),
        _deepseek_v3,
        latent=True,
    ),
    "qwen3_next": Kin(
        "Qwen3Next",
        "gated delta rules, and attention with gates in every fourth layer",
        _defaults(
            151936, 2048, 5632, 48, 16, 2, head_dim=256, attention_bias=False, experts=512, k=10,
            partial_rotary_factor=0.25,
        ),
        _qwen3_next,
        qk_norm=True,
    ),
    "gpt_neox": Kin(
        "GPTNeoX",
        "attention and network side by side, each with a layer norm",
        _defaults(
            50432, 6144, 24576, 44, 64, hidden_act="gelu", partial_rotary_factor=0.25,
            attention_bias=True, plain=True,
        ),
        _gpt_neox,
        norm="layer",
        norm_bias=True,
    ),
    "cohere": Kin(
        "Cohere",
        "attention and network side by side with one norm, and scaled logits",
        _defaults(
            256000, 8192, 22528, 40, 64, 64, rope_theta=5e5, tie_word_embeddings=True,
            attention_bias=False,
        ),
        _cohere,
        norms={"norm1": "input_layernorm"},
        norm="layer",
    ),
}  # fmt: skip

KIN["gemma3"] = KIN["gemma3_text"]


# Layouts.


def _projections(name: str, config: LanguageModelConfig, kin: Kin) -> list[Any]:
    """Return where the weights and biases of queries, keys, values and the output are."""
    rows = {"q": "Q, D", "k": "K, D", "v": "K, D", "o": "D, Q"}
    weights = [Tensor(f"{name}{x}_proj.weight", shape) for x, shape in rows.items()]
    has = kin.biases if config.biases else ""
    biases = [
        Tensor(f"{name}{x}_proj.bias", shape.split(", ")[0]) if x in has else None
        for x, shape in rows.items()
    ]
    return [*weights, *biases]


def _latent(name: str, config: LanguageModelConfig) -> LatentAttentionParams:
    """Return where the projections of latent attention are; `_with_one_name` names w_uq."""
    N = config.head_dim - (config.rope_dim or 0)
    both = Tensor(f"{name}kv_b_proj.weight", "KV, Rkv", grouped=config.num_heads, cut=(N,))
    layout: list[Any] = [
        Tensor(f"{name}q_a_proj.weight", "Rq, D", optional=True),
        Tensor(f"{name}q_a_layernorm.weight", "Rq", optional=True),
        Tensor(f"{name}q_b_proj.weight", "Q, Rq"),
        Tensor(f"{name}kv_a_proj_with_mqa.weight", "DKV, D"),
        Tensor(f"{name}kv_a_layernorm.weight", "Rkv"),
        both,
        both._replace(part=1),
        Tensor(f"{name}o_proj.weight", "D, HV"),
    ]
    return LatentAttentionParams(*layout)


def _gated(name: str, hidden: str) -> GatedFeedForwardParams:
    """Return where the matrices of a gated network are."""
    shapes = {"gate": f"{hidden}, D", "up": f"{hidden}, D", "down": f"D, {hidden}"}
    layout: list[Any] = [Tensor(f"{name}{x}_proj.weight", shape) for x, shape in shapes.items()]
    return GatedFeedForwardParams(*layout)


def _experts(name: str, kind: str) -> MixtureParams:
    """Return where a router and its experts are."""
    inner = f"{name}mlp.experts."
    if kind != "gpt_oss":
        both = Tensor(f"{inner}gate_up_proj", "n, 2 M, D", parts=2, form="side by side")
        arrays: list[Any] = [both, both._replace(part=1), Tensor(f"{inner}down_proj", "n, D, M")]
        router: Any = Tensor(f"{name}mlp.gate.weight", "n, D")
        found = MixtureParams(router, ExpertParams(*arrays))
        if kind == "deepseek_v3":
            correction: Any = Tensor(f"{name}mlp.gate.e_score_correction_bias", "n")
            shared = _gated(f"{name}mlp.shared_experts.", "MS")
            found = found._replace(correction=correction, shared=shared)
        if kind == "qwen3_next":
            gate: Any = Tensor(f"{name}mlp.shared_expert_gate.weight", "1, D")
            shared = _gated(f"{name}mlp.shared_expert.", "MS")
            found = found._replace(shared=shared, shared_gate=gate)
        return found
    both = Tensor(f"{inner}gate_up_proj", "n, D, 2 M", parts=2, form="in turn")
    bias = Tensor(f"{inner}gate_up_proj_bias", "n, 2 M", parts=2, form="in turn")
    down = Tensor(f"{inner}down_proj", "n, M, D", form="swapped")
    arrays = [both, both._replace(part=1), down, bias, bias._replace(part=1)]
    arrays.append(Tensor(f"{inner}down_proj_bias", "n, D"))
    router, of_router = (
        Tensor(f"{name}mlp.router.{x}", n) for x, n in (("weight", "n, D"), ("bias", "n"))
    )
    return MixtureParams(router, ExpertParams(*arrays), of_router)  # type: ignore[arg-type]


def _delta_rule(name: str) -> GatedDeltaParams:
    """Return where the parts of a gated delta rule are, once `apart` has been at the tensors."""
    rows = {"q": "KE", "k": "KE", "v": "HV", "z": "HV", "b": "HL", "a": "HL"}
    layout: list[Any] = [Tensor(f"{name}in_proj_{x}.weight", f"{n}, D") for x, n in rows.items()]
    layout += [Tensor(f"{name}conv1d.weight", "C, KC"), Tensor(f"{name}A_log", "HL")]
    layout += [Tensor(f"{name}dt_bias", "HL"), Tensor(f"{name}norm.weight", "VL")]
    layout.append(Tensor(f"{name}out_proj.weight", "D, HV"))
    return GatedDeltaParams(*layout)


def decoder_block(
    config: LanguageModelConfig, name: str, kind: str, number: int
) -> EncoderBlockParams:
    """Return where the parameters of a block are."""
    told: Any = config.blocks[number] if isinstance(config.blocks, tuple) else config.blocks
    kin, own = KIN[kind], f"{name}self_attn."
    parts: list[Any] = _projections(own, config, kin)
    if kin.qk_norm:
        sizes = ("Q", "K") if kind in ("olmo2", "olmoe") else ("E", "E")
        parts += [Tensor(f"{own}{x}_norm.weight", n) for x, n in zip("qk", sizes, strict=True)]
    network: Any = _gated(f"{name}mlp.", "F")
    if kind == "phi3":
        Q, K = (n * config.head_dim for n in (config.num_heads, config.num_kv_heads))
        fused = Tensor(f"{own}qkv_proj.weight", "QKV, D", cut=(Q, Q + K))
        parts[:3] = [fused._replace(part=i) for i in range(3)]
        both = Tensor(f"{name}mlp.gate_up_proj.weight", "2 F, D", parts=2)
        network = network._replace(w_gate=both, w_up=both._replace(part=1))
    if kind == "gpt_neox":
        own, H = f"{name}attention.", config.num_heads
        fused = Tensor(f"{own}query_key_value.weight", "3 Q, D", parts=3, grouped=H)
        biases = [fused._replace(name=f"{own}query_key_value.bias", shape="3 Q")] * 3
        o = Tensor(f"{own}dense.weight", "D, Q"), Tensor(f"{own}dense.bias", "D")
        parts = [*[fused._replace(part=i) for i in range(3)], o[0]]
        if config.biases:
            parts += [*(b._replace(part=i) for i, b in enumerate(biases)), o[1]]
        first, last = f"{name}mlp.dense_h_to_4h.", f"{name}mlp.dense_4h_to_h."
        shapes = {f"{first}weight": "F, D", f"{first}bias": "F", f"{last}weight": "D, F"}
        shapes[f"{last}bias"] = "D"
        network = FeedForwardParams(*(Tensor(n, s) for n, s in shapes.items()))  # type: ignore[arg-type]
    if (told or {}).get("router") is not None:
        network = _experts(name, kind)
    norms = {
        field: norm_layout(f"{name}{key}.", bias=kin.norm_bias) for field, key in kin.norms.items()
    }
    if kind == "stablelm" and (told or {}).get("parallel"):
        del norms["norm2"]
    if kind == "gpt_oss":
        parts += [None] * 4 + [Tensor(f"{own}sinks", "H")]
    if kind == "qwen3_next":
        both = Tensor(
            f"{own}q_proj.weight", "2 Q, D", grouped=config.num_heads, cut=(config.head_dim,)
        )
        parts[0], parts[10:] = both, [both._replace(part=1)]
        if config.biases:
            both = both._replace(name=f"{own}q_proj.bias", shape="2 Q")
            parts[4], parts[11:] = both, [both._replace(part=1)]
    attention: Any = AttentionParams(*parts)
    if kin.latent:
        attention = _latent(own, config)
    elif (told or {}).get("delta_heads"):
        attention = _delta_rule(f"{name}linear_attn.")
    block = EncoderBlockParams(attention, None, network, None)
    return block._replace(**norms)  # type: ignore[arg-type]


def decoder_layout(kind: str) -> Callable[[LanguageModelConfig, str], LanguageModelParams]:
    """Return the layout of a family."""

    def layout(config: LanguageModelConfig, base: str) -> LanguageModelParams:
        old = kind == "gpt_neox"
        head: Any = None if config.tied else Tensor("lm_head.weight", "V, D")
        names = ("embed_in", "final_layer_norm.") if old else ("embed_tokens", "norm.")
        embedding: Any = Tensor(f"{base}{names[0]}.weight", "V, D")
        blocks = [
            decoder_block(config, f"{base}layers.{i}.", kind, i) for i in range(config.num_layers)
        ]
        norm = norm_layout(f"{base}{names[1]}", bias=KIN[kind].norm_bias)
        return LanguageModelParams(embedding, None, tuple(blocks), norm, head)

    return layout
