"""Configurations of the families of decoders: what they have in common, and variants of each."""

import json

V, T = 23, 12
SIZES = {
    "vocab_size": V,
    "hidden_size": 32,
    "intermediate_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": None,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
TYPES = ["sliding_attention", "full_attention", "sliding_attention"]
LINEAR = {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}
SWITCHED_ON = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
CAPS = {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}
MULTIPLIERS = {
    "embedding_multiplier": 3.0,
    "logits_scaling": 2.5,
    "residual_multiplier": 0.3,
    "attention_multiplier": 0.2,
}
EXPERTS = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2}
OF_LATENTS = {
    "kv_lora_rank": 6, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6, "v_head_dim": 5,
    "num_key_value_heads": 4,
}  # fmt: skip
LATENT = OF_LATENTS | {
    "n_routed_experts": 8, "num_experts_per_tok": 3, "n_group": 4, "topk_group": 2,
    "moe_intermediate_size": 12, "n_shared_experts": 2,
}  # fmt: skip
DELTA = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 5,
    "linear_value_head_dim": 6, "linear_conv_kernel_dim": 3, "head_dim": 8, "num_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 12, "shared_expert_intermediate_size": 24,
}  # fmt: skip
OF_DELTA = {name: n for name, n in DELTA.items() if "expert" not in name and name[:3] != "moe"}
YARN = {
    "rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "mscale": 0.7, "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
OF_EACH_KIND = {
    "full_attention": YARN | {"mscale": None, "mscale_all_dim": None},
    "sliding_attention": {"rope_type": "default", "rope_theta": 300.0},
}
ALPHA = {"rope_type": "dynamic", "alpha": 50.0, "factor": 1.0, "rope_theta": 1e4}
SHARED = EXPERTS | {"moe_intermediate_size": 12, "shared_expert_intermediate_size": 24}
OF_GLM = {
    "n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 12,
    "n_shared_experts": 2, "head_dim": 8,
}  # fmt: skip
OF_DBRX = {
    "d_model": 32, "n_heads": 4, "n_layers": 3, "max_seq_len": 64,
    "ffn_config": {"ffn_hidden_size": 24, "moe_num_experts": 4, "moe_top_k": 2},
}  # fmt: skip
OF_HEADS = {"kv_n_heads": 2, "clip_qkv": 0.5}  # without which the package cannot run a DBRX
OF_EXAONE = {
    "num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 12,
    "num_shared_experts": 2, "head_dim": 10,
}  # fmt: skip
OF_ERNIE = {
    "moe_num_experts": 8, "moe_k": 3, "moe_intermediate_size": 12, "moe_num_shared_experts": 2,
}  # fmt: skip
OF_MELLUM = EXPERTS | {"moe_intermediate_size": 12}
OF_NEAR = {
    "full_attention": None, "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}
}  # fmt: skip
#: kind -> what its classes are called, and settings.
FAMILIES = {
    "mistral": (
        "Mistral",
        [{"sliding_window": 5}, {"sliding_window": None, "head_dim": 6}, {"sliding_window": 1}],
    ),
    "ministral": ("Ministral", [{"sliding_window": 4, "head_dim": 8, "layer_types": TYPES}]),
    "qwen2": ("Qwen2", [{}, SWITCHED_ON, {"tie_word_embeddings": True}]),
    "qwen3": ("Qwen3", [{"head_dim": 10}, SWITCHED_ON | {"head_dim": 8, "attention_bias": True}]),
    "smollm3": (
        "SmolLM3",
        [
            {"no_rope_layer_interval": 2},
            {"no_rope_layers": [1, 0, 0], "use_sliding_window": True, "sliding_window": 3}
            | {"mlp_bias": True},
        ],
    ),
    "gemma": (
        "Gemma",
        [{"head_dim": 10}, {"head_dim": 8, "hidden_act": "gelu", "tie_word_embeddings": False}],
    ),
    "gemma2": (
        "Gemma2",
        [
            {"head_dim": 10, "sliding_window": 4, "query_pre_attn_scalar": 7} | CAPS,
            {"head_dim": 8, "attn_logit_softcapping": None, "final_logit_softcapping": None},
        ],
    ),
    "gemma3_text": (
        "Gemma3Text",
        [
            {"head_dim": 10, "sliding_window": 4, "layer_types": TYPES},
            {"head_dim": 8, "final_logit_softcapping": 3.0, "query_pre_attn_scalar": 7},
        ],
    ),
    "granite": ("Granite", [MULTIPLIERS, {"mlp_bias": True, "attention_bias": True}]),
    "olmo2": ("Olmo2", [{}, {"attention_bias": True, "rope_parameters": LINEAR}]),
    "phi3": ("Phi3", [{"sliding_window": 4}, {"partial_rotary_factor": 0.5}]),
    "stablelm": (
        "StableLm",
        [
            {},
            {"use_qkv_bias": True, "use_parallel_residual": True},
            {"qk_layernorm": True, "use_parallel_residual": True},
        ],
    ),
    "gpt_neox": (
        "GPTNeoX",
        [
            {},
            {"use_parallel_residual": False, "attention_bias": False, "hidden_act": "gelu_new"},
            {"tie_word_embeddings": True},
        ],
    ),
    "cohere": (
        "Cohere",
        [{"logit_scale": 0.3}, {"attention_bias": True}, {"use_qk_norm": True}],
    ),
    "mixtral": ("Mixtral", [EXPERTS, EXPERTS | {"sliding_window": 4, "num_experts_per_tok": 3}]),
    "qwen3_moe": (
        "Qwen3Moe",
        [
            EXPERTS | {"head_dim": 8, "moe_intermediate_size": 12},
            EXPERTS
            | {"head_dim": 8, "moe_intermediate_size": 12, "mlp_only_layers": [1]}
            | {"norm_topk_prob": True},
        ],
    ),
    "olmoe": ("Olmoe", [EXPERTS, EXPERTS | {"clip_qkv": 0.5}]),
    "deepseek_v3": (
        "DeepseekV3",
        [
            LATENT | {"first_k_dense_replace": 1, "q_lora_rank": 5},
            LATENT
            | {"first_k_dense_replace": 2, "n_group": 1, "topk_group": 1}
            | {"norm_topk_prob": False, "rope_interleave": False, "q_lora_rank": None},
            LATENT | {"first_k_dense_replace": 0, "q_lora_rank": 5, "rope_parameters": YARN},
        ],
    ),
    "qwen3_next": (
        "Qwen3Next",
        [
            DELTA | {"layer_types": ["linear_attention", "full_attention", "linear_attention"]},
            DELTA
            | {"layer_types": ["full_attention", "linear_attention", "linear_attention"]}
            | {"linear_num_key_heads": 4}
            | {"mlp_only_layers": [1], "norm_topk_prob": False},
            DELTA | {"layer_types": ["full_attention"] * 3, "attention_bias": True},
        ],
    ),
    "qwen3_5_text": (
        "Qwen3_5Text",
        [
            OF_DELTA | {"layer_types": ["linear_attention", "full_attention", "linear_attention"]},
            OF_DELTA | {"layer_types": ["full_attention"] * 3, "attention_bias": True},
        ],
    ),
    "qwen3_5_moe_text": (
        "Qwen3_5MoeText",
        [
            DELTA | {"layer_types": ["full_attention", "linear_attention", "linear_attention"]},
            DELTA
            | {"layer_types": ["linear_attention"] * 2 + ["full_attention"]}
            | {"linear_num_key_heads": 4},
        ],
    ),
    "gpt_oss": ("GptOss", [EXPERTS | {"head_dim": 8, "sliding_window": 4}]),
    "helium": (
        "Helium",
        [{"head_dim": 8, "mlp_bias": True}, {"head_dim": 8, "attention_bias": True}],
    ),
    "ernie4_5": (
        "Ernie4_5",
        [{"head_dim": 10, "use_bias": True}, {"head_dim": 8, "tie_word_embeddings": False}],
    ),
    "seed_oss": (
        "SeedOss",
        [
            {"head_dim": 10, "attention_out_bias": True, "mlp_bias": True},
            {"head_dim": 8, "attention_bias": False},
        ],
    ),
    "arcee": ("Arcee", [{"mlp_bias": True}, {"attention_bias": True, "rope_parameters": LINEAR}]),
    "glm4_moe_lite": (
        "Glm4MoeLite",
        [
            LATENT | {"q_lora_rank": 5},
            LATENT
            | {"q_lora_rank": None, "rope_interleave": False, "rms_norm_eps": 0.1}
            | {"mlp_layer_types": ["sparse"] * 3, "first_k_dense_replace": 0},
        ],
    ),
    "nemotron": (
        "Nemotron",
        [{"head_dim": 8, "mlp_bias": True}, {"head_dim": 8, "attention_bias": True}],
    ),
    "starcoder2": (
        "Starcoder2",
        [{}, {"sliding_window": 4, "use_bias": False, "tie_word_embeddings": False}],
    ),
    "glm": ("Glm", [{"head_dim": 8}, {"head_dim": 8, "attention_bias": False}]),
    "glm4": ("Glm4", [{"head_dim": 8}, {"head_dim": 8, "attention_bias": False}]),
    "olmo3": (
        "Olmo3",
        [
            {"sliding_window": 4},
            {"sliding_window": 3, "layer_types": TYPES, "rope_parameters": OF_EACH_KIND},
        ],
    ),
    "exaone4": (
        "Exaone4",
        [
            {"sliding_window": 4, "sliding_window_pattern": 2, "head_dim": 10},
            {"sliding_window": None, "layer_types": ["full_attention"] * 3},
        ],
    ),
    "hunyuan_v1_dense": (
        "HunYuanDenseV1",
        [{"head_dim": 8}, {"head_dim": 8, "attention_bias": True, "rope_parameters": ALPHA}],
    ),
    "cohere2": (
        "Cohere2",
        [{"sliding_window": 4}, {"sliding_window": 3, "layer_types": TYPES, "logit_scale": 0.3}],
    ),
    "qwen2_moe": (
        "Qwen2Moe",
        [
            SHARED,
            SHARED | SWITCHED_ON | {"mlp_only_layers": [1], "norm_topk_prob": True},
            SHARED | {"qkv_bias": False, "decoder_sparse_step": 2},
        ],
    ),
    "glm4_moe": (
        "Glm4Moe",
        [
            OF_GLM | {"use_qk_norm": True, "attention_bias": True},
            OF_GLM
            | {"n_group": 4, "topk_group": 2, "first_k_dense_replace": 0}
            | {"norm_topk_prob": False, "routed_scaling_factor": 2.5},
        ],
    ),
    "minimax_m2": (
        "MiniMaxM2",
        [EXPERTS | {"head_dim": 8}, EXPERTS | {"head_dim": 8, "rotary_dim": 4}],
    ),
    "deepseek_v2": (
        "DeepseekV2",
        [
            LATENT | {"first_k_dense_replace": 1, "q_lora_rank": 5},
            LATENT
            | {"topk_method": "group_limited_greedy", "q_lora_rank": None}
            | {"routed_scaling_factor": 1.5, "rope_parameters": YARN},
        ],
    ),
    "olmo": (
        "Olmo",
        [{}, {"attention_bias": True, "rope_parameters": LINEAR}, {"clip_qkv": 0.5}],
    ),
    "dbrx": (
        "Dbrx",
        [
            OF_DBRX | {"attn_config": OF_HEADS | {"rope_theta": 1e4}},
            OF_DBRX
            | {"ffn_config": OF_DBRX["ffn_config"] | {"moe_normalize_expert_weights": None}}
            | {"rope_parameters": LINEAR, "attn_config": OF_HEADS | {"rope_theta": 500.0}},
        ],
    ),
    "cwm": (
        "Cwm",
        [
            {"head_dim": 10, "sliding_window": 4, "mlp_bias": True},
            {"layer_types": TYPES, "head_dim": 8},
        ],
    ),
    "vaultgemma": (
        "VaultGemma",
        [{"head_dim": 10, "sliding_window": 4, "query_pre_attn_scalar": 7} | CAPS],
    ),
    "jais2": ("Jais2", [{}, {"attention_bias": False, "mlp_bias": False}, {"mlp_bias": False}]),
    "granite_swa": (
        "GraniteSWA",
        [
            MULTIPLIERS | {"sliding_window": 4},
            {"layer_types": TYPES, "layer_rope_theta": [0, 50.0, 1e4], "sliding_window": 3}
            | {"mlp_bias": True},
        ],
    ),
    "granitemoe": ("GraniteMoe", [EXPERTS | MULTIPLIERS]),
    "granitemoeshared": (
        "GraniteMoeShared",
        [
            EXPERTS | MULTIPLIERS | {"shared_intermediate_size": 24},
            EXPERTS | {"shared_intermediate_size": 0},
        ],
    ),
    "granitemoe_swa": (
        "GraniteMoeSWA",
        [
            EXPERTS | MULTIPLIERS | {"sliding_window": 4},
            EXPERTS
            | {"layer_types": TYPES, "layer_rope_theta": [0, 50.0, 1e4], "sliding_window": 3}
            | {"shared_intermediate_size": 24},
        ],
    ),
    "hyperclovax": (
        "HyperCLOVAX",
        [MULTIPLIERS, {"mlp_bias": True, "attention_bias": True, "head_dim": 10}],
    ),
    "internlm3": (
        "InternLM3",
        [{"head_dim": 10}, {"head_dim": 8, "attention_bias": True, "mlp_bias": True}],
    ),
    "iquestcoder": (
        "IQuestCoder",
        [{"head_dim": 10}, {"head_dim": 8, "attention_bias": True, "mlp_bias": True}],
    ),
    "exaone_moe": (
        "ExaoneMoe",
        [
            OF_EXAONE | {"sliding_window": 4, "sliding_window_pattern": 2},
            OF_EXAONE
            | {"layer_types": TYPES, "sliding_window": 3, "mlp_layer_types": ["sparse"] * 3}
            | {"first_k_dense_replace": 0, "norm_topk_prob": False, "n_group": 4, "topk_group": 2},
        ],
    ),
    "hunyuan_v1_moe": (
        "HunYuanMoEV1",
        [
            {"head_dim": 8, "num_experts": 4, "moe_topk": 2},
            {"head_dim": 8, "num_experts": 4, "moe_topk": [2] * 3, "attention_bias": True}
            | {"rope_parameters": ALPHA},
        ],
    ),
    "hy_v3": (
        "HYV3",
        [
            OF_EXAONE | {"num_shared_experts": 1, "router_scaling_factor": 1.7},
            OF_EXAONE | {"mlp_layer_types": ["sparse"] * 3, "attention_bias": True},
        ],
    ),
    "flex_olmo": ("FlexOlmo", [EXPERTS, EXPERTS | {"norm_topk_prob": True}]),
    "dots1": (
        "Dots1",
        [
            OF_GLM | {"attention_bias": True, "first_k_dense_replace": 1},
            OF_GLM
            | {"n_group": 4, "topk_group": 2, "norm_topk_prob": True}
            | {"sliding_window": 4, "max_window_layers": 1},
        ],
    ),
    "solar_open": (
        "SolarOpen",
        [OF_GLM | {"attention_bias": True}, OF_GLM | {"n_group": 4, "topk_group": 2}],
    ),
    "youtu": (
        "Youtu",
        [
            OF_LATENTS | {"q_lora_rank": 5},
            OF_LATENTS | {"q_lora_rank": None, "rope_interleave": False, "rope_parameters": YARN},
        ],
    ),
    "afmoe": (
        "Afmoe",
        [
            OF_EXAONE | {"mup_enabled": True, "sliding_window": 4, "route_scale": 1.7},
            OF_EXAONE
            | {"layer_types": TYPES, "num_dense_layers": 0, "attention_bias": True}
            | {"sliding_window": 3},
        ],
    ),
    "aria_text": (
        "AriaText",
        [
            {"moe_num_experts": 4, "head_dim": 8},
            {"moe_num_experts": 4, "moe_topk": 3, "attention_bias": True, "head_dim": 8}
            | {"moe_num_shared_experts": 1},
        ],
    ),
    "axk1": (
        "AXK1",
        [
            LATENT | {"q_lora_rank": 5},
            LATENT
            | {"q_lora_rank": 5, "mlp_layer_types": ["sparse", "dense", "sparse"]}
            | {"rope_interleave": False, "norm_topk_prob": False, "rope_parameters": YARN},
        ],
    ),
    "ernie4_5_moe": (
        "Ernie4_5_Moe",
        [
            OF_ERNIE,
            OF_ERNIE | {"moe_layer_start_index": 0, "moe_layer_interval": 2, "head_dim": 10},
            OF_ERNIE | {"moe_layer_end_index": 1, "moe_num_shared_experts": 0},
        ],
    ),
    "flint": (
        "Flint",
        [
            SHARED | {"head_dim": 8, "sliding_window": 4},
            SHARED
            | {"head_dim": 10, "sliding_window": 3, "layer_types": TYPES, "mlp_only_layers": [1]}
            | {"norm_topk_prob": False, "attention_bias": True},
        ],
    ),
    "mellum": (
        "Mellum",
        [
            OF_MELLUM | {"head_dim": 8},
            OF_MELLUM
            | {"head_dim": 10, "layer_types": TYPES, "sliding_window": 4}
            | {"mlp_layer_types": ["dense", "sparse", "sparse"], "rope_parameters": OF_EACH_KIND},
        ],
    ),
    "minicpm3": (
        "MiniCPM3",
        [
            OF_LATENTS | {"q_lora_rank": 5, "dim_model_base": 12},
            OF_LATENTS | {"q_lora_rank": None, "scale_emb": 3, "scale_depth": 0.7},
        ],
    ),
    "gpt_neox_japanese": (
        "GPTNeoXJapanese",
        [
            {"intermediate_multiple_size": 2},
            {"hidden_act": "relu", "tie_word_embeddings": False},
        ],
    ),
    "cohere_compass_text": (
        "CohereCompassText",
        [
            {"layer_types": TYPES, "sliding_window": 4, "rope_parameters": OF_NEAR},
            {"rope_parameters": {"full_attention": LINEAR}, "logit_scale": 0.3},
            {"layer_types": TYPES, "rope_parameters": OF_NEAR | {"sliding_attention": None}},
        ],
    ),
    "emu3_text_model": (
        "Emu3Text",
        [{"pad_token_id": 0}, {"mlp_bias": True, "rope_parameters": LINEAR, "pad_token_id": 0}],
    ),
}
#: Packages of families whose name differs.
PACKAGES = {"gemma3_text": "gemma3", "qwen3_5_text": "qwen3_5", "qwen3_5_moe_text": "qwen3_5_moe"}
PACKAGES |= {"internlm3": "llama", "iquestcoder": "llama", "aria_text": "aria"}
PACKAGES |= {"cohere_compass_text": "cohere_compass", "emu3_text_model": "emu3"}
#: Classes of models whose configuration has another name.
CLASSES = {"Gemma3Text": "Gemma3", "Qwen3_5Text": "Qwen3_5", "Qwen3_5MoeText": "Qwen3_5Moe"}
CLASSES |= {"InternLM3": "Llama", "IQuestCoder": "Llama"}
CLASSES |= {"CohereCompassText": "CohereCompass", "Emu3Text": "Emu3"}


def made(name, settings, dtype, *, seed=0, spread=0.2, **entries):
    """
    Return a model of the package transformers, in evaluation mode, and its configuration.

    Every parameter is random. `entries` of the configuration go before all others.
    """
    import peers  # noqa: PLC0415  # only here, as is the package
    import transformers  # noqa: PLC0415

    torch = peers.torch
    torch.manual_seed(seed)
    neox = name.startswith("GPTNeoX")
    sizes = {k: v for k, v in SIZES.items() if not neox or k != "num_key_value_heads"}
    if "partial_rotary_factor" in settings:
        sizes["rope_parameters"] = {"rope_type": "default", "rope_theta": 1e4} | settings
        settings = {}
    config = getattr(transformers, f"{name}Config")(**sizes | settings | entries)
    config._attn_implementation = config._experts_implementation = "eager"
    cls = getattr(transformers, CLASSES.get(name, name) + "ForCausalLM")
    model = cls(config).to(dtype).eval()
    random = [*model.parameters()]
    random += [a for key, a in model.named_buffers() if key.endswith("correction_bias")]
    with torch.no_grad():
        for array in random:
            array.add_(torch.randn_like(array), alpha=spread)
    return model, json.loads(json.dumps(config.to_dict()))
