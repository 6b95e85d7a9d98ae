r"""Configurations of families of decoders: the entries that LLaMA does not have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .._core.arguments import as_integer, as_number, shown
from ._kin import SLIDING, Kin, plain
from ._settings import Settings

OF_LATENTS = 1e-6  # the epsilon of their norms, whatever the configuration says
GELU = "gelu_pytorch_tanh"


def _window(s: Settings, kin: Kin) -> dict[str, Any]:
    """Return the option of a block that sees so many tokens, itself among them."""
    size = plain(s, kin, "sliding_window")
    if size is None:
        return {}
    return {"window": (as_integer("config.sliding_window", size, least=1) - 1, 0)}


def _types(s: Settings, layers: int, default: Callable[[int], bool]) -> list[bool]:
    """Return whether each layer has the window."""
    given = s.list_entry(None, "layer_types")
    if given is None:
        return [default(i) for i in range(layers)]
    fits = isinstance(given, list | tuple) and len(given) == layers
    if not fits or {*given} - {SLIDING, "full_attention"}:
        known = f"{layers} of {SLIDING!r} or 'full_attention'"
        s.problems.append(f"'layer_types' must be a list of {known}, not {shown(given)}")
        return [False] * layers
    return [kind == SLIDING for kind in given]


def _some_sliding(s: Settings, kin: Kin, options: Any, default: Callable[[int], bool]) -> Any:
    window = _window(s, kin)
    return [{**window} if is_one else {} for is_one in _types(s, options["num_layers"], default)]


def everywhere(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    """Return the window of all layers (Mistral, Phi-3)."""
    return [_window(s, kin)] * options["num_layers"]


def where_typed(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    """Return the window of the layers whose type says so, all by default (Ministral)."""
    return _some_sliding(s, kin, options, lambda i: True)


def _switched(s: Settings, kin: Kin) -> dict[str, Any]:
    """Return the window if it is switched on (Qwen, SmolLM3)."""
    s.known |= {"sliding_window"}
    return _window(s, kin) if s.flag(False, "use_sliding_window") else {}


def on_demand(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    """Return the window of the upper layers, if it is switched on (Qwen)."""
    first = s.integer(28, "max_window_layers") if s.get(28, "max_window_layers") else 0
    types = _types(s, options["num_layers"], lambda i: i >= first)
    window = _switched(s, kin)
    return [window if is_one else {} for is_one in types]


def qwen2(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    options["biases"] = True
    return on_demand(s, kin, options)


def smollm3(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    layers, interval = options["num_layers"], s.integer(4, "no_rope_layer_interval")
    default = [int((i + 1) % interval != 0) for i in range(layers)]
    rotated = s.list_entry(default, "no_rope_layers")
    if len(rotated) != layers:
        s.problems.append(f"'no_rope_layers' must have {layers} entries, not {len(rotated)}")
        return None
    window = _switched(s, kin)
    s.known |= {"max_window_layers"}
    s.biases_of_network(s.flag(False, "mlp_bias"))
    types = _types(s, layers, lambda i: bool(window) and not rotated[i])
    return [
        (window if sliding else {}) | ({} if rope else {"rope": None})
        for sliding, rope in zip(types, rotated, strict=True)
    ]


def _of_gemma(s: Settings, options: dict[str, Any]) -> None:
    """Read the entries that Gemma 1, 2 and 3 share."""
    options["embedding_scale"] = options["d_model"] ** 0.5
    options["blocks"]["norm_offset"] = 1.0
    if s.get(False, "use_bidirectional_attention"):
        s.problems.append("'use_bidirectional_attention' must be False or null")


def gemma(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    _of_gemma(s, options)
    if options["activation"] == "geglu":  # the first files say "gelu" and mean its tanh form
        options["activation"] = "geglu_tanh"
    other = s.get(GELU, "hidden_activation")
    if s.translated("hidden_activation", other, gated=True) != options["activation"]:
        s.problems.append(f"'hidden_activation' must be as 'hidden_act', not {shown(other)}")


def _caps(s: Settings, kin: Kin, options: dict[str, Any]) -> None:
    """Read the scale of the scores and both caps (Gemma 2, Gemma 3)."""
    scalar = as_number("config.query_pre_attn_scalar", plain(s, kin, "query_pre_attn_scalar"))
    options["blocks"]["scale"] = scalar**-0.5
    scores, logits = (
        plain(s, kin, f"{name}_softcapping") for name in ("attn_logit", "final_logit")
    )
    if scores is not None:
        options["blocks"]["softcap"] = as_number("config.attn_logit_softcapping", scores, above=0)
    if logits is not None:
        options["logit_softcap"] = as_number("config.final_logit_softcapping", logits, above=0)


def gemma2(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    _of_gemma(s, options)
    _caps(s, kin, options)
    s.known |= {"hidden_act"}  # hidden_activation goes before it
    s.only("sliding_window_size", plain(s, kin, "sliding_window"))
    return _some_sliding(s, kin, options, lambda i: i % 2 == 0)


def gemma3(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    _of_gemma(s, options)
    s.only("attn_logit_softcapping", None)  # transformers ignores it
    _caps(s, kin, options)
    s.known |= {"hidden_act"}  # hidden_activation goes before it
    types = _by_pattern(s, options, 6)
    near = _window(s, kin) | _near_rotation(s, options, s.number(10000.0, "rope_local_base_freq"))
    return [near if is_one else {} for is_one in types]


def _by_pattern(s: Settings, options: dict[str, Any], usual: int) -> list[bool]:
    """Return whether each layer has the window: all but each sixth, say."""
    pattern = s.integer(usual, "sliding_window_pattern")
    return _types(s, options["num_layers"], lambda i: (i + 1) % pattern != 0)


def _near_rotation(s: Settings, options: dict[str, Any], base: float) -> dict[str, Any]:
    """Return the option of blocks with a window, whose rotation has no scaling."""
    near = s.rotations.get(SLIDING) or {}
    base = as_number("config.rope_parameters", near.get("rope_theta", base), above=1)
    if near.get("rope_type", near.get("type", "default")) != "default":
        s.problems.append("the rope type of sliding layers must be 'default'")
    if options["rope_scaling"] is None and base == options["rope_base"]:
        return {}
    return {"rope": {"base": base, "scaling": None}}


def olmo3(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    types, usual = _by_pattern(s, options, 4), kin.defaults["rope_theta"]
    if not s.rotations and options["rope_base"] != usual:  # transformers gives it to one kind alone
        s.problems.append(f"'rope_theta' must be {usual} unless 'rope_parameters' has each kind")
    near = _window(s, kin) | _near_rotation(s, options, usual)
    return [near if is_one else {} for is_one in types]


def _multipliers(s: Settings, options: dict[str, Any]) -> None:
    """Read the factors that Granite's models have."""
    options["embedding_scale"] = s.number(1.0, "embedding_multiplier")
    options["logit_scale"] = 1 / s.number(1.0, "logits_scaling")
    options["blocks"]["residual_scale"] = s.number(1.0, "residual_multiplier")
    options["blocks"]["scale"] = s.number(1.0, "attention_multiplier")


def granite(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    _multipliers(s, options)
    s.biases_of_network(s.flag(False, "mlp_bias"))


def granitemoe(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    _multipliers(s, options)
    _router(s, kin, options)


def hyperclovax(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    """Read the factors of HyperCLOVA X, whose logits are multiplied where Granite's are divided."""
    options["embedding_scale"] = s.number(1.0, "embedding_multiplier")
    options["logit_scale"] = s.number(1.0, "logits_scaling")
    options["blocks"]["residual_scale"] = s.number(1.0, "residual_multiplier")
    if s.get(None, "attention_multiplier") is not None:
        options["blocks"]["scale"] = s.number(1.0, "attention_multiplier")
    s.biases_of_network(s.flag(False, "mlp_bias"))
    s.only("use_post_norm", True)


def internlm3(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    options["biases"] = bool(s.get(False, "attention_bias", "qkv_bias"))
    there = bool(s.get(False, "mlp_bias", "bias"))
    if there != options["biases"]:
        s.problems.append("'bias' must be as 'qkv_bias'")
    s.biases_of_network(there)


def granitemoeshared(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    granitemoe(s, kin, options)
    _shared_of_granite(s, options, 1024)


def _shared_of_granite(s: Settings, options: dict[str, Any], usual: int) -> None:
    """Read whether there is an expert for all tokens; its width is in the tensors."""
    width = s.get(usual, "shared_intermediate_size")
    width = as_integer("config.shared_intermediate_size", width, least=0)
    s.tensors |= {f"shared_mlp.{x}put_linear.weight": width > 0 for x in ("in", "out")}
    _only_silu(s, options)


def granitemoe_swa(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    granitemoe(s, kin, options)
    _shared_of_granite(s, options, 0)
    return _bases_of_layers(s, kin, options)


def granite_swa(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    granite(s, kin, options)
    return _bases_of_layers(s, kin, options)


def _bases_of_layers(s: Settings, kin: Kin, kwargs: dict[str, Any]) -> Any:
    """Return windows, and the base of each layer's rotation; a layer with 0 has none."""
    layers, base = kwargs["num_layers"], kwargs["rope_base"]
    bases = s.get([base] * layers, "layer_rope_theta")
    if not isinstance(bases, list) or len(bases) != layers:
        s.problems.append(f"'layer_rope_theta' must be a list of {layers}, not {shown(bases)}")
        return None
    windows = _some_sliding(s, kin, kwargs, lambda i: i % 4 != 0)
    scaling = kwargs["rope_scaling"]
    for options, one in zip(windows, bases, strict=True):
        number = as_number("config.layer_rope_theta", one, least=0)
        if number != base:
            options |= {"rope": {"base": number, "scaling": scaling} if number else None}
    return windows


def stablelm(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    options["biases"] = s.flag(False, "use_qkv_bias")
    options["blocks"]["parallel"] = s.flag(False, "use_parallel_residual")
    there = s.flag(False, "qk_layernorm")
    s.tensors |= {f"self_attn.{x}_layernorm.weight": there for x in "qk"}


def helium(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    s.biases_of_network(s.flag(False, "mlp_bias"))


def arcee(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    s.biases_of_network(s.flag(kin.defaults["mlp_bias"], "mlp_bias"), "up_proj", "down_proj")


def nemotron(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    options["blocks"]["norm_offset"] = 1.0
    arcee(s, kin, options)


def cwm(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    s.biases_of_network(s.flag(False, "mlp_bias"))
    return _some_sliding(s, kin, options, lambda i: i % 4 != 0)


def ernie4_5(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    options["biases"] = s.flag(False, "use_bias")
    s.biases_of_network(options["biases"])
    s.only("compression_ratio", 1.0)


def seed_oss(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    s.tensors["self_attn.o_proj.bias"] = s.flag(False, "attention_out_bias")
    s.biases_of_network(s.flag(False, "mlp_bias"))


def hunyuan(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    options["blocks"]["norm_after_rope"] = True
    s.only_these(
        attention_head_dim=options["head_dim"], mlp_bias=False, norm_type="rms", use_cla=False,
        use_qk_norm=True, use_rotary_pos_emb=True, add_classification_head=False,
    )  # fmt: skip
    s.known |= {"cla_share_factor", "class_num", "dense_list", "pool_type", "org_vocab_size"}
    s.known |= {name for name in s.config if str(name).endswith("_id")}  # of tokens
    s.known |= {"mask_init_id"} | {name for name in s.config if str(name).startswith("im_")}


def starcoder2(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    options["biases"] = s.flag(True, "use_bias")
    s.biases_of_network(options["biases"], "c_fc", "c_proj")
    s.known |= {"activation_function"}  # hidden_act goes before it
    s.only("layer_norm_epsilon", options["eps"])
    s.known |= {"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32"}  # dtypes
    s.only("scale_attn_weights", True)
    s.only("mlp_type", "default")
    s.only("norm_type", "layer_norm")
    return everywhere(s, kin, options)


def exaone4(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    """Return windows; the layers without one do not rotate (EXAONE 4)."""
    window, pattern = _window(s, kin), plain(s, kin, "sliding_window_pattern")
    is_period = isinstance(pattern, int) and pattern > 0
    if window and s.list_entry(None, "layer_types") is None and not is_period:
        given = f"'sliding_window_pattern', which is {shown(pattern)}"
        s.problems.append(f"'layer_types' must be beside {given}")
        return None
    types = _types(s, options["num_layers"], lambda i: bool(window) and (i + 1) % pattern != 0)
    far = {"rope": None} if window else {}
    return [window if is_one else far for is_one in types]


def cohere2(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    """Return windows; the layers without one do not rotate (Command R7B)."""
    cohere(s, kin, options)
    s.only("head_dim", options["d_model"] // options["num_heads"])
    window, types = _window(s, kin), _by_pattern(s, options, 4)
    s.only_these(
        layer_switch=s.get(4, "sliding_window_pattern"), use_gated_activation=True,
        order_of_interleaved_layers="local_attn_first", position_embedding_type="rope_gptj",
        use_embedding_sharing=True, use_parallel_block=True, rotary_pct=1.0,
    )  # fmt: skip
    s.known |= {"use_parallel_embedding"}  # of training on several devices
    return [window if is_one and window else {"rope": None} for is_one in types]


def gpt_neox(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    options["blocks"]["parallel"] = s.flag(True, "use_parallel_residual")
    s.only("num_key_value_heads", options["num_heads"])


def cohere(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    options["blocks"]["parallel"] = True
    options["logit_scale"] = s.number(0.0625, "logit_scale")
    if kin.qk_norm:  # of Command R+
        there = s.flag(False, "use_qk_norm")
        s.tensors |= {f"self_attn.{x}_norm.weight": there for x in "qk"}


def phi3(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    s.known |= {"original_max_position_embeddings"}
    s.only_these(full_attn_mod=1, interpolate_factor=1, lm_head_bias=False)  # of Phi-4-mini's code
    return everywhere(s, kin, options)


def _router(s: Settings, kin: Kin, kwargs: dict[str, Any], **options: Any) -> int:
    """Read how experts are chosen; return how many there are."""
    count = s.integer(kin.defaults["experts"], "num_local_experts", "num_experts")
    k = s.integer(kin.defaults["k"], "num_experts_per_tok")
    if k > count:
        name = s.entry_name("num_experts_per_tok")
        s.problems.append(f"{name!r} must be at most {count}, not {k}")
    kwargs["blocks"]["router"] = {"k": k, **options}
    return count


def mixtral(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    _router(s, kin, options)
    return everywhere(s, kin, options)


def qwen3_moe(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    _router(s, kin, options, normalize=s.flag(False, "norm_topk_prob"))
    s.known |= {"moe_intermediate_size", "layer_types", "max_window_layers"}
    window = _switched(s, kin)
    return [window | d for d in _dense(s, options["num_layers"])]


def qwen2_moe(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    options["biases"] = s.flag(True, "qkv_bias")
    _only_silu(s, options)
    _router(s, kin, options, normalize=s.flag(False, "norm_topk_prob"))
    s.known |= {"moe_intermediate_size", "shared_expert_intermediate_size"}
    window, first = _switched(s, kin), s.get(28, "max_window_layers")
    types = _types(s, options["num_layers"], lambda i: bool(window) and i % 2 == 0 and i < first)
    dense = _dense(s, options["num_layers"])
    return [(window if is_one else {}) | d for is_one, d in zip(types, dense, strict=True)]


def _dense(s: Settings, layers: int, usual: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    """Return the option of each layer that switches the experts off, or none (Qwen)."""
    plain, step = s.list_entry([*usual], "mlp_only_layers"), s.integer(1, "decoder_sparse_step")
    return [{"router": None} if i in plain or (i + 1) % step else {} for i in range(layers)]


def _dense_first(
    s: Settings, options: dict[str, Any], usual: int, name: str = "first_k_dense_replace"
) -> list[dict[str, Any]]:
    """Return the same where the first layers have no experts (DeepSeek)."""
    count = as_integer(f"config.{name}", s.get(usual, name), least=0)
    return [{"router": None} if i < count else {} for i in range(options["num_layers"])]


def _only_silu(s: Settings, options: dict[str, Any]) -> None:
    """Note a problem unless gates have silu, as the experts for all tokens do here."""
    if options["activation"] != "swiglu":
        s.problems.append("'hidden_act' must be 'silu'")


def _bounds(s: Settings, options: dict[str, Any]) -> None:
    """Read the bound of queries, keys and values (OLMo)."""
    if s.get(None, "clip_qkv") is not None:
        bound = as_number("config.clip_qkv", s.get(None, "clip_qkv"), above=0)
        options["blocks"]["clip_qkv"] = bound


def olmo(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    _bounds(s, options)
    s.only("layer_norm_eps", 1e-5)  # whatever the configuration says


def olmoe(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    _bounds(s, options)
    _router(s, kin, options, normalize=s.flag(False, "norm_topk_prob"))


def dbrx(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    _bounds(s, options)
    _only_silu(s, options)
    base, rotation = s.get(None, "rope_theta"), s.get({}, "rope_parameters")
    if base is not None and rotation.get("rope_theta", base) != base:
        wanted = f"'rope_theta' of 'attn_config', {shown(base)}"
        s.problems.append(f"'rope_parameters' must have the {wanted}")
    norm = s.config.get("moe_normalize_expert_weights", 1)  # null is none
    s.only("moe_normalize_expert_weights", 1)
    s.only_these(ffn_act_fn={"name": "silu"}, norm_topk_prob=norm is not None, layer_norm_eps=1e-5)
    _router(s, kin, options, normalize=norm is not None)


def gpt_oss(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    limit, beta = s.number(7.0, "swiglu_limit"), s.number(1.702, "swiglu_alpha")
    _only_silu(s, options)
    s.known |= {"initial_context_length"}  # the scaling has it
    s.get(None, "num_experts_per_tok", "experts_per_token")
    _router(s, kin, options, score="softmax_of_top", limit=limit, shift=1.0, beta=beta)
    return _some_sliding(s, kin, options, lambda i: i % 2 == 0)


def _of_deepseek(s: Settings, options: dict[str, Any], usual: int, score: str) -> None:
    """Read the entries that DeepSeek-V2 and V3 share; `usual` is the number of experts."""
    _latents(s, options)
    _shared_experts(s, options, usual)
    s.only("moe_layer_freq", 1)
    s.only("scoring_func", score)


def _latents(s: Settings, options: dict[str, Any]) -> None:
    """Read the entries of latent attention."""
    s.known |= {"head_dim", "qk_head_dim", "v_head_dim", "kv_lora_rank", "q_lora_rank"}
    s.known |= {"num_key_value_heads"}  # in the tensors
    if options["eps"] != OF_LATENTS:
        options["blocks"]["inner_eps"] = OF_LATENTS
    scaling = options["rope_scaling"] or {}
    if scaling.get("mscale_all_dim"):
        m = 1 + 0.1 * scaling["mscale_all_dim"] * math.log(max(scaling["factor"], 1))
        options["blocks"]["scale"] = m * m / math.sqrt(options["head_dim"])


def _shared_experts(s: Settings, options: dict[str, Any], usual: int) -> None:
    """Read the experts of DeepSeek and GLM, with those that process every token."""
    s.known |= {"moe_intermediate_size", "n_shared_experts"}  # in the tensors
    s.known |= {"num_nextn_predict_layers", "num_mtp_layers"}  # layers that are left out
    _only_silu(s, options)
    s.config.setdefault("num_experts", s.integer(usual, "n_routed_experts"))


def _no_default(s: Settings, *names: str) -> None:
    """Note a problem for each entry that is missing, of those without a default in transformers."""
    for name in names if s.config else ():
        if s.get(None, name) is None:
            s.problems.append(f"{name!r} must be there")


def deepseek_v2(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    _no_default(s, "num_experts_per_tok")
    _of_deepseek(s, options, 64, "softmax")
    s.only_these(mlp_bias=False, norm_topk_prob=False)
    method, groups = s.get("greedy", "topk_method"), (s.get(1, "n_group"), s.get(1, "topk_group"))
    if method not in ("greedy", "group_limited_greedy"):
        given = f"greedy or group_limited_greedy, not {shown(method)}"
        s.problems.append(f"'topk_method' must be {given}")
    groups = groups if method == "group_limited_greedy" else (1, 1)
    scale = s.number(1.0, "routed_scaling_factor")
    _router(s, kin, options, normalize=False, groups=groups[0], top_groups=groups[1], scale=scale)
    return _dense_first(s, options, 0)


def deepseek_v3(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    _deepseek_in_groups(s, kin, options)
    return _dense_first(s, options, 3)


def _deepseek_in_groups(s: Settings, kin: Kin, options: dict[str, Any]) -> None:
    """Read latent attention, and experts that a correction chooses in groups."""
    _of_deepseek(s, options, kin.defaults["experts"], "sigmoid")
    s.only("topk_method", "noaux_tc")
    options["blocks"]["rope_interleaved"] = s.flag(True, "rope_interleave")
    _sigmoid_router(s, kin, options, groups=(8, 4), scale=2.5)


def youtu(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    _latents(s, options)
    options["blocks"]["rope_interleaved"] = s.flag(True, "rope_interleave")
    s.known |= {"embedding_initializer_range"}


def glm4_moe_lite(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    _of_deepseek(s, options, 64, "sigmoid")
    options["blocks"]["rope_interleaved"] = s.flag(True, "rope_interleave")
    s.only("topk_method", "noaux_tc")
    _sigmoid_router(s, kin, options, groups=(1, 1), scale=1.8)
    blocks = _dense_first(s, options, 1)
    usual = ["dense" if i < 1 else "sparse" for i in range(len(blocks))]
    types = s.list_entry(usual, "mlp_layer_types")
    if len(types) != len(blocks) or not set(types) <= {"dense", "sparse"}:
        s.problems.append(f"'mlp_layer_types' must be {len(blocks)} of 'dense' and 'sparse'")
    elif types != ["dense" if own else "sparse" for own in blocks]:
        s.problems.append("'first_k_dense_replace' must be as 'mlp_layer_types'")
    return blocks


def _sigmoid_router(
    s: Settings, kin: Kin, options: dict[str, Any], *, groups: tuple[int, int], scale: float,
    normalize: bool = True,
) -> None:  # fmt: skip
    """Read how experts are chosen by sigmoids, in groups; the defaults are given."""
    _router(
        s, kin, options, score="sigmoid", normalize=s.flag(normalize, "norm_topk_prob"),
        groups=s.integer(groups[0], "n_group"), top_groups=s.integer(groups[1], "topk_group"),
        scale=s.number(scale, "routed_scaling_factor"),
    )  # fmt: skip


def glm4_moe(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    _shared_experts(s, options, 128)
    there = s.flag(False, "use_qk_norm")
    s.tensors |= {f"self_attn.{x}_norm.weight": there for x in "qk"}
    _sigmoid_router(s, kin, options, groups=(1, 1), scale=1.0)
    return _dense_first(s, options, 1)


def solar_open(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    s.known |= {"first_k_dense_replace"}  # no layer is dense
    _shared_experts(s, options, 128)
    _sigmoid_router(s, kin, options, groups=(1, 1), scale=1.0)


def exaone_moe(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    s.known |= {"moe_intermediate_size", "num_shared_experts"}  # in the tensors
    s.known |= {"num_nextn_predict_layers", "mtp_loss_type"}  # layers that are left out
    s.only_these(scoring_func="sigmoid", topk_method="noaux_tc")
    _only_silu(s, options)
    _sigmoid_router(s, kin, options, groups=(1, 1), scale=2.5)
    windows, layers = exaone4(s, kin, options), options["num_layers"]
    first = _dense_first(s, options, 1)
    dense = _dense_typed(s, ["dense" if own else "sparse" for own in first])
    s.only("is_moe_layer", [not own for own in dense])
    s.known |= {"first_last_k_dense_replace"}  # which transformers ignores, as the list has it
    return [own | d for own, d in zip(windows or [{}] * layers, dense, strict=True)]


def _dense_typed(s: Settings, usual: list[str]) -> list[dict[str, Any]]:
    """Return the option of each layer that switches the experts off, or none, by their types."""
    types = s.list_entry(usual, "mlp_layer_types")
    if len(types) != len(usual) or not set(types) <= {"dense", "sparse"}:
        s.problems.append(f"'mlp_layer_types' must be {len(usual)} of 'dense' and 'sparse'")
        types = usual
    return [{"router": None} if kind == "dense" else {} for kind in types]


def hy_v3(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    s.known |= {"moe_intermediate_size", "num_shared_experts"}  # in the tensors
    s.known |= {"enable_moe_fp32_combine", "num_nextn_predict_layers"}  # a dtype; layers left out
    s.only("mlp_bias", False)
    _only_silu(s, options)
    _router(s, kin, options, score="sigmoid", scale=s.number(2.826, "router_scaling_factor"))
    return _dense_typed(s, ["dense"] + ["sparse"] * (options["num_layers"] - 1))


def hunyuan_moe(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    """Read the experts, which may be counted for each layer: then all must have as many."""
    hunyuan(s, kin, options)
    _only_silu(s, options)
    s.known |= {"moe_intermediate_size", "num_shared_expert", "moe_layer_num_skipped"}
    s.only_these(use_mixed_mlp_moe=True, norm_topk_prob=True, routed_scaling_factor=1.0)
    s.known |= {"moe_drop_tokens", "moe_random_routing_dropped_token"}  # of training
    for name, new in (("num_experts", "num_local_experts"), ("moe_topk", "num_experts_per_tok")):
        given = s.get(1, name)
        every = given if isinstance(given, list) and given else [given]
        if any(one != every[0] for one in every):
            s.problems.append(f"{name!r} must be the same in all layers, not {shown(given)}")
        s.config[name] = s.config[new] = every[0]
    _router(s, kin, options)


def dots1(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    _no_default(s, "num_experts_per_tok", "n_routed_experts", "n_shared_experts")
    s.only("moe_layer_freq", 1)
    if s.get("sigmoid", "scoring_func") not in ("sigmoid", "noaux_tc"):  # as published
        s.problems.append("'scoring_func' must be 'sigmoid' or 'noaux_tc'")
    _shared_experts(s, options, kin.defaults["experts"])
    _sigmoid_router(s, kin, options, groups=(1, 1), scale=1.0, normalize=False)
    first = as_integer("config.max_window_layers", plain(s, kin, "max_window_layers"), least=0)
    windows = _some_sliding(s, kin, options, lambda i: i >= first)
    return [own | d for own, d in zip(windows, _dense_first(s, options, 0), strict=True)]


def minimax_m2(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    _router(s, kin, options, score="sigmoid")
    s.only_these(
        scoring_func="sigmoid", use_qk_norm=True, qk_norm_type="per_layer", use_routing_bias=True,
        shared_intermediate_size=0, attn_type_list=[1] * options["num_layers"],
    )  # fmt: skip
    s.known |= {"use_mtp", "num_mtp_modules", "mtp_transformer_layers"}  # layers that are left out
    # of a shared expert, which is not there
    s.known |= {"shared_moe_mode", "mlp_intermediate_size"}
    s.known |= {f"layernorm_{name}_beta" for name in ("full_attention", "linear_attention", "mlp")}


def qwen3_next(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    _router(s, kin, options, normalize=s.flag(True, "norm_topk_prob"))
    s.known |= {"moe_intermediate_size", "shared_expert_intermediate_size", "intermediate_size"}
    dense = _dense(s, options["num_layers"])
    return [own | d for own, d in zip(_delta_rules(s, options), dense, strict=False)]


def qwen3_5(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    s.known |= {"attn_output_gate", "mamba_ssm_dtype", "mlp_only_layers"}  # always; of dtypes
    s.known |= {"mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"}  # layers that are left out
    if kin.experts is not None:
        _router(s, kin, options)
        s.known |= {"moe_intermediate_size", "shared_expert_intermediate_size", "norm_topk_prob"}
    return _delta_rules(s, options)


def _delta_rules(s: Settings, options: dict[str, Any]) -> list[dict[str, Any]]:
    """Return which layers have a gated delta rule (Qwen3-Next, Qwen3.5)."""
    s.known |= {"linear_conv_kernel_dim", "linear_key_head_dim", "linear_value_head_dim"}
    s.known |= {"use_sliding_window", "sliding_window", "max_window_layers"}  # there are none
    options["blocks"]["norm_offset"] = 1.0
    _only_silu(s, options)  # which the delta rule's convolution has, too
    keys = s.integer(16, "linear_num_key_heads")
    values = s.integer(32, "linear_num_value_heads")
    if values % keys:
        s.problems.append(f"'linear_num_key_heads' must divide {values}, not be {keys}")
    layers, interval = options["num_layers"], s.integer(4, "full_attention_interval")
    usual = [
        "full_attention" if (i + 1) % interval == 0 else "linear_attention" for i in range(layers)
    ]
    types = s.list_entry(usual, "layer_types")
    if len(types) != layers or not set(types) <= {*usual, "full_attention", "linear_attention"}:
        known = f"{layers} known types"
        s.problems.append(f"'layer_types' must be a list of {known}, not {shown(types)}")
    return [{"delta_heads": keys} if kind == "linear_attention" else {} for kind in types]


def afmoe(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    """Return windows; the layers without one do not rotate (Trinity)."""
    _only_silu(s, options)
    if s.flag(False, "mup_enabled"):
        options["embedding_scale"] = options["d_model"] ** 0.5
    s.only_these(
        score_func="sigmoid", route_norm=True, n_group=1, topk_group=1, num_expert_groups=1,
        num_limited_groups=1,
    )  # fmt: skip
    s.known |= {"moe_intermediate_size", "num_shared_experts"}  # in the tensors
    s.known |= {"use_grouped_mm", "load_balance_coeff"}  # of the computation and of training
    _router(s, kin, options, score="sigmoid", scale=s.number(1.0, "route_scale"))
    every = s.integer(4, "global_attn_every_n_layers")
    types = _types(s, options["num_layers"], lambda i: (i + 1) % every != 0)
    window, dense = _window(s, kin), _dense_first(s, options, 1, "num_dense_layers")
    return [(window if near else {"rope": None}) | d for near, d in zip(types, dense, strict=True)]


def aria(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    _only_silu(s, options)
    s.only("mlp_bias", False)
    s.known |= {"moe_num_shared_experts", "moe_intermediate_size"}  # in the tensors
    s.known |= {"moe_z_loss_coeff", "moe_aux_loss_coeff"}  # of training
    _router(s, kin, options, score="softmax_of_top")


def axk1(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    _deepseek_in_groups(s, kin, options)
    first = _dense_first(s, options, 1)
    return _dense_typed(s, ["dense" if one else "sparse" for one in first])


def ernie4_5_moe(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    """Read which layers have experts: one in `moe_layer_interval` of a range."""
    _only_silu(s, options)
    s.only_these(
        use_bias=False, moe_norm_min=1e-12, moe_gate="topk", moe_use_aux_free=True,
        moe_gate_act="softmax",
    )  # fmt: skip
    s.known |= {"moe_intermediate_size"}  # in the tensors
    s.known |= {"moe_capacity", "num_nextn_predict_layers"}  # of training; layers left out
    _router(s, kin, options)
    layers, step = options["num_layers"], s.integer(1, "moe_layer_interval")
    bounds = [s.get(usual, f"moe_layer_{end}_index") for end, usual in (("start", 1), ("end", -1))]
    first, last = (as_integer("config.moe_layer_end_index", n, least=-1) for n in bounds)
    last = layers - 1 if last == -1 else last
    mixed = [first <= i <= last and (i + 1) % step == 0 for i in range(layers)]
    shared = as_integer(
        "config.moe_num_shared_experts", s.get(2, "moe_num_shared_experts"), least=0
    )
    for matrix in ("gate", "up", "down"):
        end = f"mlp.shared_experts.{matrix}_proj.weight"
        s.tensors[end] = sum(mixed) if shared else False
    return [{} if one else {"router": None} for one in mixed]


def flint(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    """Return windows; the layers without one do not rotate (Flint)."""
    _only_silu(s, options)
    s.known |= {"moe_intermediate_size", "shared_expert_intermediate_size"}  # in the tensors
    _router(s, kin, options, score="sigmoid", normalize=s.flag(True, "norm_topk_prob"))
    layers, window = options["num_layers"], _window(s, kin)
    types = _types(s, layers, lambda i: not (i < 2 or i % 4 == 1 or i == layers - 1))
    dense = _dense(s, layers, (0, 1))
    return [(window if near else {"rope": None}) | d for near, d in zip(types, dense, strict=True)]


def mellum(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    _only_silu(s, options)
    s.only("rope_theta", None)  # transformers reads rope_parameters alone
    s.only("rope_scaling", None)
    s.known |= {"moe_intermediate_size"}  # in the tensors
    s.known |= {"mtp_layer_types", "mtp_mlp_layer_types", "num_mtp_layers"}  # layers left out
    s.known |= {"num_nextn_predict_layers", "use_sliding_window", "max_window_layers"}
    _router(s, kin, options, normalize=s.flag(True, "norm_topk_prob"))
    layers = options["num_layers"]
    near = _window(s, kin) | _near_rotation(s, options, 10000.0)
    types = _types(s, layers, lambda i: False)
    dense = _dense_typed(s, ["sparse"] * layers)
    return [(near if is_one else {}) | d for is_one, d in zip(types, dense, strict=True)]


def minicpm3(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    _latents(s, options)
    s.only("mlp_bias", False)
    options["embedding_scale"] = s.number(12.0, "scale_emb")
    depth = s.number(1.4, "scale_depth") / math.sqrt(options["num_layers"])
    options["blocks"]["residual_scale"] = depth
    options["logit_scale"] = s.number(256.0, "dim_model_base") / options["d_model"]


def gpt_neox_japanese(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    options["d_ff"] = int(options["d_model"] * s.number(4.0, "intermediate_multiple_size"))


def compass(s: Settings, kin: Kin, options: dict[str, Any]) -> Any:
    """Return windows; layers of a kind without a rotation have none (Compass)."""
    options["blocks"]["parallel"] = True
    options["logit_scale"] = s.number(1.0, "logit_scale")
    s.known |= {"pooling"}  # of a classifier
    types = _types(s, options["num_layers"], lambda i: False)
    kinds = {SLIDING if is_one else "full_attention" for is_one in types}
    if missing := kinds - s.rotations.keys():
        s.problems.append(f"'rope_parameters' must have {sorted(missing)}")
    far = {} if s.rotations.get("full_attention") else {"rope": None}
    turned = _near_rotation(s, options, 10000.0) if s.rotations.get(SLIDING) else {"rope": None}
    near = _window(s, kin) | turned
    return [near if is_one else far for is_one in types]
