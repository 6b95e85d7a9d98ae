"""
More files config.json, so that each family has two; `published.py` holds the others.

Entries of K-EXAONE, Solar Open, Youtu-LLM, Qwen3.5, InternLM3, dots.llm1 and one XLM-RoBERTa were
looked up in public repositories that quote the files, some of them in part, as were parts of
SmolLM2, Qwen3-Coder and DBRX. All others are written from the configuration classes of transformers
5.23 and from memory of the files: a size may be wrong there. Where one model alone was published,
its second file is the one that transformers 5 saves after a fine-tuning, with the rotation as one
entry.
"""

from published import DEEPSEEK_YARN, GELU, LLAMA3, PUBLISHED, _file, _sizes

DEEPSEEK_YARN_OF_KIMI = DEEPSEEK_YARN | {"beta_fast": 1.0, "beta_slow": 1.0}
#: Entries of all models with multipliers of Granite.
GRANITE = {
    "attention_bias": False, "attention_dropout": 0.0, "attention_multiplier": 0.015625,
    "bos_token_id": 0, "embedding_multiplier": 12.0, "eos_token_id": 0, "hidden_act": "silu",
    "pad_token_id": 0, "residual_multiplier": 0.22, "rope_scaling": None,
    "tie_word_embeddings": True,
}  # fmt: skip


def _cycle(period, layers):
    return (period * layers)[:layers]


ONE_IN_FOUR = ["full_attention"] + ["sliding_attention"] * 3
THREE_THEN_ONE = ["sliding_attention"] * 3 + ["full_attention"]


def _resaved(name, given=None, **more):
    """Return a file as transformers 5 saves it after a fine-tuning: the rotation is one entry."""
    file = dict(PUBLISHED[name] if given is None else given[name])
    rotation = {"rope_type": "default"} | (file.pop("rope_scaling", None) or {})
    if "type" in rotation:
        rotation["rope_type"] = rotation.pop("type")
    for entry in ("rope_theta", "partial_rotary_factor"):
        if entry in file:
            rotation[entry] = file.pop(entry)
    file |= {"dtype": file.pop("torch_dtype"), "transformers_version": "5.3.0"}
    return {"rope_parameters": rotation} | file | more


OF_QWEN3_5 = {
    "attention_bias": False, "attention_dropout": 0.0, "attn_output_gate": True,
    "dtype": "bfloat16", "eos_token_id": 248044, "full_attention_interval": 4, "head_dim": 256,
    "hidden_act": "silu", "initializer_range": 0.02, "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_value_head_dim": 128,
    "mamba_ssm_dtype": "float32", "mlp_only_layers": [], "mtp_num_hidden_layers": 1,
    "mtp_use_dedicated_embeddings": False, "rms_norm_eps": 1e-6, "use_cache": True,
    "rope_parameters": {
        "mrope_interleaved": True, "mrope_section": [11, 11, 10], "rope_type": "default",
        "rope_theta": 10000000, "partial_rotary_factor": 0.25,
    },
}  # fmt: skip
SIGLIP = {
    "hidden_size": 1152, "image_size": 980, "intermediate_size": 4304,
    "model_type": "idefics3_vision", "num_attention_heads": 16, "num_hidden_layers": 27,
    "patch_size": 14,
}  # fmt: skip
OPENAI_GPT = {
    "afn": "gelu", "architectures": ["OpenAIGPTLMHeadModel"], "attn_pdrop": 0.1,
    "embd_pdrop": 0.1, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
    "model_type": "openai-gpt", "n_ctx": 512, "n_embd": 768, "n_head": 12, "n_layer": 12,
    "n_positions": 512, "n_special": 0, "predict_special_tokens": True, "resid_pdrop": 0.1,
    "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True,
    "summary_type": "cls_index", "summary_use_proj": True,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
    "vocab_size": 40478,
}  # fmt: skip
OF_QWEN_VISION = {
    "deepstack_visual_indexes": [], "depth": 1, "hidden_act": "gelu_pytorch_tanh",
    "hidden_size": 8, "in_channels": 3, "initializer_range": 0.02, "intermediate_size": 8,
    "num_heads": 2, "num_position_embeddings": 16, "out_hidden_size": 32, "patch_size": 4,
    "spatial_merge_size": 2, "temporal_patch_size": 2,
}  # fmt: skip


def _around(kind, classes, text, images, tied=False, **more):
    """Return a file of a model that holds one of text, with the sizes that `small` shrinks."""
    file = {
        "architectures": [f"{classes}ForConditionalGeneration"], "model_type": kind,
        "text_config": text, "torch_dtype": "bfloat16", "transformers_version": "4.48.0.dev0",
        "tie_word_embeddings": tied,
    } | more  # fmt: skip
    return file if images is None else file | {"vision_config": images}


DELTAS = ["linear_attention"] * 3 + ["full_attention"]


def _qwen3_5(kind, classes, tied=False, **text):
    """Return a file of Qwen3.5, which holds a model of images and one of text."""
    layers = text["num_hidden_layers"]
    text = OF_QWEN3_5 | {"model_type": f"{kind}_text", "tie_word_embeddings": tied} | text
    return {
        "architectures": [f"{classes}ForConditionalGeneration"], "image_token_id": 21,
        "model_type": kind, "tie_word_embeddings": tied, "transformers_version": "4.57.0.dev0",
        "text_config": text | {"layer_types": _cycle(DELTAS, layers)}, "video_token_id": 22,
        "vision_config": OF_QWEN_VISION | {"model_type": kind},
        "vision_end_token_id": 20, "vision_start_token_id": 19,
    }  # fmt: skip


MORE = {
    "mistralai/Ministral-8B-Instruct-2410, by its class": _file(
        "ministral", "Ministral", version="5.0.0", attention_dropout=0.0, bos_token_id=1,
        eos_token_id=2, head_dim=128, hidden_act="silu", rms_norm_eps=1e-5,
        layer_types=_cycle(ONE_IN_FOUR, 36), rope_theta=100000000.0, sliding_window=32768,
        tie_word_embeddings=False, **_sizes(131072, 4096, 12288, 36, 32, 8, 32768),
    ),
    "HuggingFaceTB/SmolLM3-3B-Base": _file(
        "smollm3", "SmolLM3", version="4.53.0.dev0", attention_bias=False, attention_dropout=0.0,
        bos_token_id=128000, eos_token_id=128001, hidden_act="silu", max_window_layers=28,
        pad_token_id=128004,
        mlp_bias=False, no_rope_layer_interval=4, no_rope_layers=[1, 1, 1, 0] * 9,
        pretraining_tp=2, rms_norm_eps=1e-6, rope_scaling=None, rope_theta=2000000.0,
        sliding_window=None, use_sliding_window=False,
        **_sizes(128256, 2048, 11008, 36, 16, 4, 4096),
    ),
    "allenai/OLMoE-1B-7B-0125-Instruct": PUBLISHED["allenai/OLMoE-1B-7B-0924"] | {
        "transformers_version": "4.48.1", "use_cache": False,
    },
    "zai-org/GLM-4.7-Flash, saved again": _resaved("zai-org/GLM-4.7-Flash"),
    "Qwen/Qwen3-Coder-Next": PUBLISHED["Qwen/Qwen3-Next-80B-A3B-Instruct"] | {
        "attention_bias": False, "layer_types": _cycle(DELTAS, 48), "rope_theta": 5000000,
        "transformers_version": "4.57.0",
    },
    "Qwen/Qwen3.5-27B": _qwen3_5(
        "qwen3_5", "Qwen3_5", linear_num_value_heads=48,
        **_sizes(248320, 5120, 17408, 64, 24, 4, 262144),
    ),
    "Qwen/Qwen3.5-2B": _qwen3_5(
        "qwen3_5", "Qwen3_5", tied=True, linear_num_value_heads=16,
        **_sizes(248320, 2048, 6144, 24, 8, 2, 262144),
    ),
    "Qwen/Qwen3.5-35B-A3B": _qwen3_5(
        "qwen3_5_moe", "Qwen3_5Moe", linear_num_value_heads=32, moe_intermediate_size=512,
        num_experts=256, num_experts_per_tok=8, router_aux_loss_coef=0.001,
        shared_expert_intermediate_size=512,
        **_sizes(248320, 2048, 512, 40, 16, 2, 262144),
    ),
    "Qwen/Qwen3.5-397B-A17B": _qwen3_5(
        "qwen3_5_moe", "Qwen3_5Moe", linear_num_value_heads=64, moe_intermediate_size=1024,
        num_experts=512, num_experts_per_tok=10, router_aux_loss_coef=0.001,
        shared_expert_intermediate_size=1024, output_router_logits=False,
        **_sizes(248320, 4096, 1024, 60, 32, 2, 262144),
    ),
    "kyutai/helium-1-preview-2b": _file(
        "helium", "Helium", version="4.47.0.dev0", attention_bias=False, attention_dropout=0.0,
        bos_token_id=1, eos_token_id=2, head_dim=128, hidden_act="silu", mlp_bias=False,
        pad_token_id=3, rms_norm_eps=1e-8, rope_theta=100000.0, tie_word_embeddings=False,
        **_sizes(48000, 2560, 7040, 24, 20, 20, 4096),
    ),
    "baidu/ERNIE-4.5-0.3B-Base-PT": PUBLISHED["baidu/ERNIE-4.5-0.3B-PT"] | {
        "architectures": ["Ernie4_5_ForCausalLM"],
        "auto_map": {"AutoConfig": "configuration_ernie4_5.Ernie4_5_Config"},
        "compression_ratio": 1.0, "rope_scaling": None, "_attn_implementation": "eager",
    },
    "ByteDance-Seed/Seed-OSS-36B-Base, saved again": _resaved(
        "ByteDance-Seed/Seed-OSS-36B-Instruct"
    ),
    "arcee-ai/AFM-4.5B-Base-Pre-Anneal": _file(
        "arcee", "Arcee", version="4.53.2", attention_bias=False, attention_dropout=0.0,
        bos_token_id=128000, eos_token_id=128001, head_dim=128, hidden_act="relu2",
        mlp_bias=False, rms_norm_eps=1e-5, rope_scaling=None, rope_theta=10000.0,
        tie_word_embeddings=False, **_sizes(128003, 2560, 18432, 36, 20, 4, 4096),
    ),
    "nvidia/Minitron-8B-Base": _file(
        "nemotron", "Nemotron", version="4.32.0.dev0", attention_bias=False,
        attention_dropout=0.0, bos_token_id=2, eos_token_id=3, head_dim=128, hidden_act="relu2",
        mlp_bias=False, norm_eps=1e-5, partial_rotary_factor=0.5, rope_theta=10000.0,
        tie_word_embeddings=False, **_sizes(256000, 4096, 16384, 32, 48, 8, 4096),
    ),
    "zai-org/glm-edge-1.5b-chat": _file(
        "glm", "Glm", version="4.47.0.dev0", attention_bias=False, attention_dropout=0.0,
        eos_token_id=[59246, 59253, 59255], head_dim=128, hidden_act="silu", pad_token_id=59246,
        partial_rotary_factor=1.0, rms_norm_eps=1e-5, rope_theta=10000.0,
        tie_word_embeddings=False, **_sizes(59264, 2048, 6144, 28, 16, 4, 8192),
    ),
    "allenai/Olmo-3-1125-32B": PUBLISHED["allenai/Olmo-3-1025-7B"]
    | {"layer_types": _cycle(THREE_THEN_ONE, 64)} | _sizes(100278, 5120, 27648, 64, 40, 8, 65536),
    "tencent/Hunyuan-0.5B-Instruct": _file(
        "hunyuan_v1_dense", "HunYuanDenseV1", version="4.55.0.dev0", attention_bias=False,
        attention_dropout=0.0, bos_token_id=120000, eod_token_id=120020, eos_token_id=120007,
        head_dim=128, hidden_act="silu", pad_id=-1, pad_token_id=120002, rms_norm_eps=1e-5,
        rope_scaling={
            "alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0,
            "mscale_all_dim": 1.0, "type": "dynamic",
        },
        rope_theta=10000.0, tie_word_embeddings=True, use_cla=False, use_qk_norm=True,
        **_sizes(120818, 1024, 3584, 24, 16, 8, 32768),
    ),
    "CohereForAI/c4ai-command-a-03-2025": _file(
        "cohere2", "Cohere2", version="4.49.0.dev0", attention_bias=False, attention_dropout=0.0,
        bos_token_id=5, cache_implementation="hybrid", eos_token_id=255001, head_dim=128,
        hidden_act="silu", layer_norm_eps=1e-5, logit_scale=0.25, pad_token_id=0, rope_scaling=None,
        rope_theta=50000, sliding_window=4096, sliding_window_pattern=4,
        **_sizes(256000, 12288, 36864, 64, 96, 8, 16384),
    ),
    "MiniMaxAI/MiniMax-M2.1, saved again": _resaved(
        "MiniMaxAI/MiniMax-M2", rope_parameters={
            "partial_rotary_factor": 0.5, "rope_theta": 5000000, "rope_type": "default",
        },
    ),
    "allenai/OLMo-1B-hf": PUBLISHED["allenai/OLMo-7B-hf"] | {
        "tie_word_embeddings": True, "hidden_size": 2048, "intermediate_size": 8192,
        "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 16,
    },
    "allenai/OLMo-7B-0724-hf": PUBLISHED["allenai/OLMo-7B-hf"] | {
        "clip_qkv": 8.0, "max_position_embeddings": 4096,
    },
    "HuggingFaceTB/SmolLM2-135M": _file(
        "llama", "Llama", version="4.40.1", attention_bias=False, attention_dropout=0.0,
        bos_token_id=0, eos_token_id=0, hidden_act="silu", is_llama_config=True, pretraining_tp=1,
        rms_norm_eps=1e-5, rope_interleaved=False, rope_scaling=None, rope_theta=100000,
        tie_word_embeddings=True, **_sizes(49152, 576, 1536, 30, 9, 3, 8192),
    ),
    "Qwen/Qwen3-Coder-30B-A3B-Instruct": PUBLISHED["Qwen/Qwen3-30B-A3B"] | {
        "intermediate_size": 5472, "max_position_embeddings": 262144, "max_window_layers": 28,
        "qkv_bias": False, "rope_theta": 10000000, "shared_expert_intermediate_size": 0,
        "transformers_version": "4.52.3", "use_qk_norm": True,
    },
    "LLM360/Amber": _file(
        "llama", "Llama", "float32", "4.28.1", bos_token_id=0, eos_token_id=1, hidden_act="silu",
        intermediate_size=11008, hidden_size=4096, max_position_embeddings=2048,
        max_sequence_length=2048, num_attention_heads=32, num_hidden_layers=32, pad_token_id=0,
        rms_norm_eps=1e-6, tie_word_embeddings=False, vocab_size=32000,
    ),
    "nvidia/Nemotron-Mini-4B-Instruct": PUBLISHED["nvidia/Minitron-4B-Base"] | {
        "rope_percent": 0.5, "transformers_version": "4.44.0",
    },
    "facebook/galactica-125m": PUBLISHED["facebook/opt-125m"] | {
        "activation_function": "gelu", "attention_dropout": 0.1, "bos_token_id": 0,
        "learned_embeddings": True, "scale_embeddings": False, "vocab_size": 50000,
    },
    "databricks/dolly-v2-3b": PUBLISHED["EleutherAI/pythia-160m"] | {
        "custom_pipelines": {"text-generation": {"pt": "AutoModelForCausalLM"}},
        "hidden_size": 2560, "intermediate_size": 10240, "num_attention_heads": 32,
        "num_hidden_layers": 32, "torch_dtype": "bfloat16", "vocab_size": 50280,
    },
    "EleutherAI/polyglot-ko-1.3b": PUBLISHED["EleutherAI/pythia-160m"] | {
        "hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 16,
        "num_hidden_layers": 24, "num_steps": "global_step175000", "rotary_pct": 0.5,
        "vocab_size": 30080,
    },
    "stabilityai/stable-code-3b": PUBLISHED["stabilityai/stablelm-3b-4e1t"] | {
        "attention_dropout": 0.0, "hidden_dropout": 0.0, "max_position_embeddings": 16384,
        "num_heads": 32, "rope_theta": 1000000, "rotary_scaling_factor": 1.0,
    },
    "databricks/dbrx-instruct, saved again": PUBLISHED["databricks/dbrx-instruct"] | {
        "attn_config": {"clip_qkv": 8, "kv_n_heads": 8, "rope_theta": 500000},
        "rope_parameters": {"rope_theta": 500000, "rope_type": "default"},
        "transformers_version": "5.3.0",
    },
    "facebook/cwm": _file(
        "cwm", "Cwm", version="4.57.0", attention_dropout=0.0, bos_token_id=128000,
        eos_token_id=[128001, 128008, 128009], head_dim=128, hidden_act="silu",
        layer_types=_cycle(ONE_IN_FOUR, 64), mlp_bias=False, pretraining_tp=1, rms_norm_eps=1e-5,
        rope_scaling=LLAMA3 | {"factor": 16.0}, rope_theta=1000000.0, sliding_window=8192,
        tie_word_embeddings=False, **_sizes(128256, 6144, 21504, 64, 48, 8, 131072),
    ),
    "google/vaultgemma-1b": _file(
        "vaultgemma", "VaultGemma", version="4.57.0.dev0", attention_bias=False,
        attention_dropout=0.0, attn_logit_softcapping=None, bos_token_id=2, eos_token_id=1,
        final_logit_softcapping=None, head_dim=256, hidden_activation=GELU,
        layer_types=["sliding_attention", "full_attention"] * 13, pad_token_id=0,
        query_pre_attn_scalar=256, rms_norm_eps=1e-6, rope_theta=10000.0, sliding_window=512,
        **_sizes(256000, 1152, 6912, 26, 4, 4, 1024),
    ),
    "inceptionai/Jais-2-8B-Chat": _file(
        "jais2", "Jais2", version="4.57.1", attention_bias=True, attention_dropout=0.0,
        bos_token_id=0, eos_token_id=150024, head_dim=128, hidden_act="relu2", layer_norm_eps=1e-5,
        mlp_bias=True, rope_scaling=None, rope_theta=500000.0, tie_word_embeddings=False,
        **_sizes(150272, 3328, 26624, 32, 26, 26, 8192),
    ),
    "inceptionai/Jais-2-70B-Chat": _file(
        "jais2", "Jais2", version="4.57.1", attention_bias=True, attention_dropout=0.0,
        bos_token_id=0, eos_token_id=150024, hidden_act="relu2", layer_norm_eps=1e-5,
        mlp_bias=True, rope_theta=500000.0, tie_word_embeddings=False,
        **_sizes(150272, 7168, 57344, 68, 56, 56, 8192),
    ),
    "ibm-granite/granite-swash-2b": _file(
        "granite_swa", "GraniteSWA", version="5.20.0",
        **GRANITE | {"attention_multiplier": 0.0078125}, layer_types=_cycle(ONE_IN_FOUR, 24),
        layer_rope_theta=_cycle([0, 10000.0, 10000.0, 10000.0], 24), logits_scaling=10.0,
        mlp_bias=False, rms_norm_eps=1e-5, sliding_window=128,
        **_sizes(100352, 2560, 8192, 24, 20, 4, 8192),
    ),
    "ibm-granite/granite-swash-2b, by its class alone": _file(
        "granite_swa", "GraniteSWA", version="5.20.0", attention_multiplier=0.015625,
        embedding_multiplier=12.0, logits_scaling=8.0, residual_multiplier=0.22,
        rope_parameters={"rope_theta": 10000.0, "rope_type": "default"},
        **_sizes(100352, 2560, 8192, 24, 20, 4, 8192),
    ),
    "ibm-granite/granite-3.1-3b-a800m-base": _file(
        "granitemoe", "GraniteMoe", version="4.47.0.dev0", **GRANITE, logits_scaling=6.0,
        num_experts_per_tok=8, num_local_experts=40, output_router_logits=False, rms_norm_eps=1e-6,
        rope_theta=5000000.0, router_aux_loss_coef=0.0,
        **_sizes(49152, 1536, 512, 32, 24, 8, 131072),
    ),
    "ibm-research/moe-7b-1b-active-shared-experts": _file(
        "granitemoeshared", "GraniteMoeShared", version="4.49.0.dev0", **GRANITE,
        logits_scaling=6.0, num_experts_per_tok=8, num_local_experts=62,
        output_router_logits=False, rms_norm_eps=1e-6, rope_theta=10000.0,
        router_aux_loss_coef=0.0, shared_intermediate_size=1024,
        **_sizes(49155, 1536, 512, 40, 24, 8, 4096),
    ),
    "ibm-granite/granite-swash-3b-a600m": _file(
        "granitemoe_swa", "GraniteMoeSWA", version="5.20.0", **GRANITE, logits_scaling=8.0,
        layer_types=_cycle(ONE_IN_FOUR, 32), layer_rope_theta=_cycle([0] + [10000.0] * 3, 32),
        num_experts_per_tok=8, num_local_experts=64, output_router_logits=False, rms_norm_eps=1e-5,
        router_aux_loss_coef=0.001, shared_intermediate_size=1024, sliding_window=128,
        **_sizes(100352, 1536, 512, 32, 12, 4, 8192),
    ),
    "ibm-granite/granite-swash-3b-a600m, without an expert for all tokens": _file(
        "granitemoe_swa", "GraniteMoeSWA", version="5.20.0", attention_multiplier=0.015625,
        embedding_multiplier=12.0, logits_scaling=8.0, num_local_experts=8, num_experts_per_tok=2,
        rope_parameters={"rope_theta": 10000.0, "rope_type": "default"}, residual_multiplier=0.22,
        shared_intermediate_size=0, **_sizes(100352, 1536, 512, 32, 12, 4, 8192),
    ),
    "internlm/internlm3-8b-instruct": _file(
        "internlm3", "InternLM3", version="4.47.1", attention_dropout=0.0,
        auto_map={"AutoConfig": "configuration_internlm3.InternLM3Config"}, bias=False,
        bos_token_id=1, eos_token_id=2, head_dim=128, hidden_act="silu", pad_token_id=2,
        qkv_bias=False, rms_norm_eps=1e-5, rope_scaling={"factor": 6.0, "rope_type": "dynamic"},
        rope_theta=50000000, tie_word_embeddings=False,
        **_sizes(128512, 4096, 10240, 48, 32, 2, 32768),
    ),
    "IQuestLab/IQuest-Coder-V1-40B-Instruct": _file(
        "iquestcoder", "IQuestCoder", version="4.55.4", attention_bias=False,
        attention_dropout=0.0, auto_map={"AutoConfig": "configuration_iquestcoder.IQuestCoder"},
        bos_token_id=1, clip_qkv=None, eos_token_id=[2, 75864, 75869], head_dim=128,
        hidden_act="silu", mlp_bias=False, rms_norm_eps=1e-5, rope_scaling=None,
        rope_theta=500000, tie_word_embeddings=False, use_sliding_window=False,
        **_sizes(76800, 5120, 27648, 80, 40, 8, 131072),
    ),
    "LGAI-EXAONE/K-EXAONE-236B-A23B": _file(
        "exaone_moe", "ExaoneMoE", version="5.0.0.dev0", attention_dropout=0.0, bos_token_id=1,
        eos_token_id=53, first_last_k_dense_replace=1, head_dim=128, hidden_act="silu",
        is_moe_layer=[False] + [True] * 47, layer_types=_cycle(THREE_THEN_ONE, 48),
        moe_intermediate_size=2048, n_group=1, norm_topk_prob=True, num_experts=128,
        num_experts_per_tok=8, num_shared_experts=1, pad_token_id=0, rms_norm_eps=1e-5,
        rope_scaling=None, rope_theta=1000000, routed_scaling_factor=2.5, scoring_func="sigmoid",
        sliding_window=128, sliding_window_pattern="LLLG", tie_word_embeddings=False,
        tokenizer_class="GPT2Tokenizer", topk_group=1, topk_method="noaux_tc",
        **_sizes(153600, 6144, 18432, 48, 64, 8, 262144),
    ),
    "tencent/Hunyuan-A13B-Instruct": _file(
        "hunyuan_v1_moe", "HunYuanMoEV1", version="4.41.2", add_classification_head=False,
        attention_bias=False, attention_dropout=0.1, attention_head_dim=128, bos_token_id=1,
        cla_share_factor=2, class_num=0, dense_list=[4096, 0], eod_token_id=127967,
        eos_token_id=127960, head_dim=128, hidden_act="silu", im_end_id=5, im_newline_id=11,
        im_start_id=4, mask_init_id=12, mlp_bias=False, moe_drop_tokens=False,
        moe_intermediate_size=[3072] * 32, moe_layer_num_skipped=0,
        moe_random_routing_dropped_token=False, moe_topk=[8] * 32, norm_type="rms",
        num_experts=64, num_shared_expert=[1] * 32, org_vocab_size=128167, pad_id=127961,
        pad_token_id=127961, pool_type="last", pretraining_tp=1, rms_norm_eps=1e-5,
        rope_scaling={
            "alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0,
            "mscale_all_dim": 1.0, "type": "dynamic",
        },
        rope_theta=10000.0, routed_scaling_factor=1.0, sep_token_id=127962, text_end_id=7,
        text_start_id=6, tie_word_embeddings=True, use_cla=False, use_mixed_mlp_moe=True,
        use_qk_norm=True, use_rotary_pos_emb=True, norm_topk_prob=True,
        **_sizes(128167, 4096, 3072, 32, 32, 8, 32768),
    ),
    "tencent/Hy3-preview": _file(
        "hy_v3", "HYV3", version="5.6.0", attention_bias=False, attention_dropout=0.0,
        bos_token_id=120000, enable_moe_fp32_combine=False, eos_token_id=120025,
        head_dim=128, hidden_act="silu", mlp_bias=False, moe_intermediate_size=1536,
        num_experts=192, num_experts_per_tok=8, num_nextn_predict_layers=1, num_shared_experts=1,
        output_router_logits=False, pad_token_id=120002, rms_norm_eps=1e-5,
        rope_parameters={"rope_theta": 11158840.0, "rope_type": "default"},
        router_scaling_factor=2.826, tie_word_embeddings=False,
        **_sizes(120832, 4096, 13312, 80, 64, 8, 262144),
    ),
    "allenai/FlexOlmo-7x7B-1T": _file(
        "flex_olmo", "FlexOlmo", version="4.55.0", attention_bias=False, attention_dropout=0.0,
        eos_token_id=100257, hidden_act="silu", norm_topk_prob=False, num_experts=7,
        num_experts_per_tok=5, output_router_logits=False, pad_token_id=100277, rms_norm_eps=1e-6,
        rope_scaling=None, rope_theta=500000, router_aux_loss_coef=0.01,
        tie_word_embeddings=False, **_sizes(100352, 4096, 11008, 32, 32, 32, 4096),
    ),
    "allenai/Flex-math-2x7B-1T": _file(
        "flex_olmo", "FlexOlmo", version="4.55.0", attention_bias=False, attention_dropout=0.0,
        eos_token_id=100257, hidden_act="silu", norm_topk_prob=False, num_experts=2,
        num_experts_per_tok=2, output_router_logits=False, pad_token_id=100277, rms_norm_eps=1e-6,
        rope_scaling=None, rope_theta=500000, router_aux_loss_coef=0.01,
        tie_word_embeddings=False, **_sizes(100352, 4096, 11008, 32, 32, 32, 4096),
    ),
    "rednote-hilab/dots.llm1.inst": _file(
        "dots1", "Dots1", version="4.46.3", attention_bias=False, attention_dropout=0.0,
        aux_loss_alpha=0.001, eos_token_id=151649, first_k_dense_replace=1, hidden_act="silu",
        max_window_layers=62, moe_intermediate_size=1408, moe_layer_freq=1, n_routed_experts=128,
        n_shared_experts=2, norm_topk_prob=True, num_experts_per_tok=6, pretraining_tp=1,
        rms_norm_eps=1e-5, rope_scaling=None, rope_theta=10000000, routed_scaling_factor=2.5,
        scoring_func="noaux_tc", sliding_window=None, tie_word_embeddings=False,
        **_sizes(152064, 4096, 10944, 62, 32, 32, 32768),
    ),
    "upstage/Solar-Open-100B": _file(
        "solar_open", "SolarOpen", version="4.57.3", attention_dropout=0.0, bos_token_id=1,
        eos_token_id=2, first_k_dense_replace=0, head_dim=128, hidden_act="silu",
        moe_intermediate_size=1280, n_group=1, n_routed_experts=128, n_shared_experts=1,
        norm_topk_prob=True, num_experts_per_tok=8, pad_token_id=2, partial_rotary_factor=1.0,
        rms_norm_eps=1e-5,
        rope_scaling={"factor": 2.0, "original_max_position_embeddings": 65536, "type": "yarn"},
        rope_theta=1000000, routed_scaling_factor=1.0, tie_word_embeddings=False, topk_group=1,
        **_sizes(196608, 4096, 10240, 48, 64, 8, 131072),
    ),
    "tencent/Youtu-LLM-2B": _file(
        "youtu", "Youtu", version="4.57.1", attention_bias=False, attention_dropout=0.0,
        bos_token_id=128000, eos_token_id=128001, hidden_act="silu", kv_lora_rank=512,
        mlp_bias=False, q_lora_rank=1536, qk_head_dim=192, qk_nope_head_dim=128,
        qk_rope_head_dim=64, rms_norm_eps=1e-6, rope_interleave=True,
        rope_parameters={"rope_theta": 1600000, "rope_type": "default"}, tie_word_embeddings=True,
        v_head_dim=128, **_sizes(128256, 2048, 6144, 32, 16, 16, 131072),
    ),
    "tencent/Youtu-LLM-2B-Base": _file(
        "youtu", "Youtu", version="4.56.0", attention_bias=False, attention_dropout=0.0,
        bos_token_id=128000, eos_token_id=128001, hidden_act="silu", kv_lora_rank=512,
        q_lora_rank=1536, qk_nope_head_dim=128, qk_rope_head_dim=64, rms_norm_eps=1e-6,
        rope_interleave=True, rope_scaling=None, rope_theta=500000.0, tie_word_embeddings=True,
        v_head_dim=128, **_sizes(128256, 2048, 6144, 32, 16, 16, 4096),
    ),
    "moonshotai/Kimi-K2-Instruct-0905": PUBLISHED["moonshotai/Kimi-K2-Instruct"] | {
        "max_position_embeddings": 262144,
        "rope_scaling": DEEPSEEK_YARN_OF_KIMI | {"factor": 64.0},
    },
    "arcee-ai/Trinity-Nano-Base": _file(
        "afmoe", "Afmoe", version="4.57.3", attention_dropout=0.0,
        auto_map={"AutoConfig": "configuration_afmoe.AfmoeConfig"}, global_attn_every_n_layers=4,
        head_dim=128, hidden_act="silu", moe_intermediate_size=256, mup_enabled=True, n_group=1,
        num_dense_layers=2, num_expert_groups=1, num_experts=128, num_experts_per_tok=8,
        num_limited_groups=1, num_shared_experts=1, rms_norm_eps=1e-5, rope_scaling=None,
        rope_theta=10000, route_norm=True, route_scale=2.826, score_func="sigmoid",
        sliding_window=2048, tie_word_embeddings=False, topk_group=1, use_grouped_mm=True,
        **_sizes(200192, 1024, 3072, 56, 8, 2, 131072),
    ),
    "arcee-ai/Trinity-Mini": _file(
        "afmoe", "Afmoe", version="4.57.3", attention_dropout=0.0, global_attn_every_n_layers=4,
        head_dim=128, hidden_act="silu", layer_types=_cycle(THREE_THEN_ONE, 32),
        load_balance_coeff=0.001, moe_intermediate_size=1024, mup_enabled=True, n_group=1,
        num_dense_layers=2, num_expert_groups=1, num_experts=128, num_experts_per_tok=8,
        num_limited_groups=1, num_shared_experts=1, rms_norm_eps=1e-5, rope_scaling=None,
        rope_theta=10000, route_norm=True, route_scale=2.826, score_func="sigmoid",
        sliding_window=2048, tie_word_embeddings=False, topk_group=1,
        **_sizes(200192, 2048, 6144, 32, 32, 4, 131072),
    ),
    "rhymes-ai/Aria": _around(
        "aria", "Aria", {
            "hidden_size": 2560, "intermediate_size": 1664, "max_position_embeddings": 65536,
            "model_type": "aria_text", "moe_num_experts": 64, "moe_num_shared_experts": 2,
            "moe_topk": 6, "num_attention_heads": 20, "num_hidden_layers": 28,
            "num_key_value_heads": 20, "rope_theta": 5000000, "vocab_size": 100352,
        },
        SIGLIP, image_token_index=9, projector_patch_to_query_dict={"4": 2},
    ),
    "rhymes-ai/Aria-Chat, its text alone": _file(
        "aria_text", "AriaText", version="4.48.0.dev0", attention_bias=False, hidden_act="silu",
        attention_dropout=0.0, head_dim=128, mlp_bias=False, moe_num_experts=64, moe_topk=6,
        moe_num_shared_experts=2, pretraining_tp=1, rms_norm_eps=1e-6, rope_scaling=None,
        rope_theta=5000000, tie_word_embeddings=False,
        **_sizes(100352, 2560, 1664, 28, 20, 20, 65536),
    ),
    "skt/A.X-K1": _file(
        "axk1", "AXK1", version="4.57.1", attention_bias=False, attention_dropout=0.0,
        bos_token_id=163691, eos_token_id=163691, first_k_dense_replace=1, hidden_act="silu",
        kv_lora_rank=512, moe_intermediate_size=2048, moe_layer_freq=1, n_group=8,
        n_routed_experts=192, n_shared_experts=1, norm_topk_prob=True, num_experts_per_tok=8,
        num_nextn_predict_layers=0, q_lora_rank=1536, qk_nope_head_dim=128, qk_rope_head_dim=64,
        rms_norm_eps=1e-6, rope_interleave=True, rope_theta=10000, routed_scaling_factor=2.5,
        scoring_func="sigmoid", tie_word_embeddings=False, topk_group=4, topk_method="noaux_tc",
        rope_scaling=DEEPSEEK_YARN | {"factor": 32.0}, v_head_dim=128,
        **_sizes(163840, 7168, 18432, 61, 64, 64, 131072),
    ),
    "baidu/ERNIE-4.5-21B-A3B-PT": _file(
        "ernie4_5_moe", "Ernie4_5_Moe", version="4.54.0.dev0", bos_token_id=1, eos_token_id=2,
        hidden_act="silu", moe_capacity=[64, 64, 64], moe_gate="topk", moe_intermediate_size=1536,
        moe_k=6, moe_layer_end_index=27, moe_layer_interval=1, moe_layer_start_index=1,
        moe_num_experts=64, moe_num_shared_experts=2, moe_use_aux_free=True,
        num_nextn_predict_layers=1, pad_token_id=0, rms_norm_eps=1e-5, rope_scaling=None,
        rope_theta=500000.0, tie_word_embeddings=True, use_bias=False,
        **_sizes(103424, 2560, 12288, 28, 20, 4, 131072),
    ),
    "baidu/ERNIE-4.5-300B-A47B-PT": _file(
        "ernie4_5_moe", "Ernie4_5_Moe", version="4.54.0.dev0", bos_token_id=1, eos_token_id=2,
        hidden_act="silu", moe_intermediate_size=3584, moe_k=8, moe_layer_end_index=53,
        moe_layer_interval=1, moe_layer_start_index=3, moe_num_experts=64,
        moe_num_shared_experts=0, output_router_logits=False, pad_token_id=0, rms_norm_eps=1e-5,
        rope_theta=500000.0, router_aux_loss_coef=0.001, tie_word_embeddings=False,
        use_bias=False, **_sizes(103424, 8192, 28672, 54, 64, 8, 131072),
    ),
    "RecursiveSI/flint": _file(
        "flint", "Flint", version="5.22.0", attention_bias=False, attention_dropout=0.0,
        decoder_sparse_step=1, head_dim=128, hidden_act="silu", mlp_only_layers=[0, 1],
        moe_intermediate_size=512, norm_topk_prob=True, num_experts=256, num_experts_per_tok=6,
        output_router_logits=False, rms_norm_eps=1e-6, router_aux_loss_coef=0.0005,
        rope_parameters={"rope_theta": 10000.0, "rope_type": "default"},
        shared_expert_intermediate_size=1024, sliding_window=513, tie_word_embeddings=False,
        **_sizes(150144, 2048, 6144, 49, 32, 4, 262144),
    ),
    "RecursiveSI/flint, with its layers written out": _file(
        "flint", "Flint", version="5.22.0", head_dim=128, mlp_only_layers=[0], num_experts=256,
        layer_types=["full_attention"] * 2 + _cycle(ONE_IN_FOUR[1:] + ONE_IN_FOUR[:1], 47),
        num_experts_per_tok=6, rope_parameters={"rope_theta": 1e6, "rope_type": "default"},
        shared_expert_intermediate_size=1024, sliding_window=513, moe_intermediate_size=512,
        **_sizes(150144, 2048, 6144, 49, 32, 4, 262144),
    ),
    "JetBrains/Mellum2-12B-A2.5B-Base": _file(
        "mellum", "Mellum", version="5.9.0", attention_bias=False, attention_dropout=0.0,
        head_dim=128, hidden_act="silu", layer_types=_cycle(ONE_IN_FOUR, 28),
        moe_intermediate_size=896, norm_topk_prob=True, num_experts=64, num_experts_per_tok=8,
        output_router_logits=False, rms_norm_eps=1e-6, router_aux_loss_coef=0.001,
        rope_parameters={
            "full_attention": {
                "beta_fast": 32.0, "beta_slow": 1.0, "factor": 16.0, "rope_theta": 500000.0,
                "original_max_position_embeddings": 8192, "rope_type": "yarn",
            },
            "sliding_attention": {"rope_theta": 500000.0, "rope_type": "default"},
        },
        sliding_window=1024, tie_word_embeddings=False,
        **_sizes(98304, 2304, 7168, 28, 32, 4, 131072),
    ),
    "JetBrains/Mellum2-12B-A2.5B-Base, without its rotation": _file(
        "mellum", "Mellum", version="5.9.0", head_dim=128, layer_types=_cycle(ONE_IN_FOUR, 28),
        mlp_layer_types=["dense"] + ["sparse"] * 27, moe_intermediate_size=896,
        num_local_experts=64, num_experts_per_tok=8, num_mtp_layers=1, sliding_window=1024,
        **_sizes(98304, 2304, 7168, 28, 32, 4, 131072),
    ),
    "openbmb/MiniCPM3-4B": _file(
        "minicpm3", "MiniCPM3", version="4.41.0", attention_bias=False, attention_dropout=0.0,
        auto_map={"AutoConfig": "configuration_minicpm.MiniCPM3Config"}, bos_token_id=1,
        dim_model_base=256, eos_token_id=[2, 73440], hidden_act="silu", kv_lora_rank=256,
        q_lora_rank=768, qk_nope_head_dim=64, qk_rope_head_dim=32, rms_norm_eps=1e-5,
        rope_scaling={
            "long_factor": [1.1] * 16, "original_max_position_embeddings": 32768,
            "short_factor": [1.0] * 16, "type": "longrope",
        },
        scale_depth=1.4, scale_emb=12, **_sizes(73448, 2560, 6400, 62, 40, 40, 32768),
    ),
    "abeja/gpt-neox-japanese-2.7b": {
        "architectures": ["GPTNeoXJapaneseForCausalLM"], "attention_dropout": 0.1,
        "bos_token_id": 31999, "eos_token_id": 31999, "hidden_act": "gelu", "hidden_dropout": 0.0,
        "hidden_size": 2560, "initializer_range": 0.02, "intermediate_multiple_size": 4,
        "layer_norm_eps": 1e-05, "max_position_embeddings": 2048,
        "model_type": "gpt_neox_japanese", "num_attention_heads": 32, "num_hidden_layers": 32,
        "rotary_emb_base": 10000, "rotary_pct": 1.0, "torch_dtype": "float32",
        "transformers_version": "4.23.0.dev0", "use_cache": True, "vocab_size": 32000,
    },
    "CohereLabs/North-Micro-Vision-Instruct": _around(
        "cohere_compass", "CohereCompass", {
            "attention_bias": False, "attention_dropout": 0.0, "head_dim": 128,
            "hidden_act": "silu", "layer_norm_eps": 1e-5, "logit_scale": 0.25,
            "model_type": "cohere_compass_text", "layer_types": _cycle(THREE_THEN_ONE, 32),
            "rope_parameters": {
                "full_attention": None, "rope_theta": 50000, "rope_type": "default",
                "sliding_attention": {
                    "mrope_interleaved": True, "mrope_section": [24, 20, 20],
                    "rope_theta": 50000, "rope_type": "default",
                },
            },
            "sliding_window": 4096, "tie_word_embeddings": True,
        } | _sizes(262144, 2048, 6144, 32, 16, 4, 131072),
        OF_QWEN_VISION | {"model_type": "cohere_compass_vision"}, image_token_id=21, tied=True,
        video_token_id=22, vision_end_token_id=20, vision_start_token_id=19,
    ),
    "CohereLabs/North-Micro-Vision-Instruct, its text alone": _file(
        "cohere_compass_text", "CohereCompass", version="5.20.0", attention_bias=False,
        attention_dropout=0.0, head_dim=128, hidden_act="silu", layer_norm_eps=1e-5,
        layer_types=_cycle(THREE_THEN_ONE, 32), pooling=None,
        rope_parameters={
            "full_attention": {"rope_theta": 5e4, "rope_type": "default"},
            "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"},
        },
        sliding_window=4096, **_sizes(262144, 2048, 6144, 32, 16, 4, 131072),
    ),
    "BAAI/Emu3-Chat-hf": _around(
        "emu3", "Emu3", {
            "attention_dropout": 0.1, "hidden_act": "silu", "initializer_range": 0.02,
            "model_type": "emu3_text_model", "pad_token_id": 151643, "rms_norm_eps": 1e-05,
            "rope_scaling": None,
            "rope_theta": 1000000.0, "torch_dtype": "bfloat16", "use_cache": True,
        } | _sizes(184622, 4096, 14336, 32, 32, 8, 9216),
        None, vocabulary_map={"<|visual token 000000|>": 3, "<image>": 4},
        vq_config={
            "attn_resolutions": [3], "base_channels": 32, "channel_multiplier": [1, 1],
            "codebook_size": 4, "embed_dim": 4, "hidden_size": 4, "in_channels": 3,
            "latent_channels": 4, "model_type": "emu3_vqgan", "num_attention_heads": 1,
            "num_res_blocks": 1, "out_channels": 3, "temporal_downsample_factor": 4,
        },
    ),
    "BAAI/Emu3-Gen-hf, its text alone": _file(
        "emu3_text_model", "Emu3", version="4.48.0.dev0", attention_bias=False, hidden_act="silu",
        attention_dropout=0.1, bos_token_id=151849, eos_token_id=151850, mlp_bias=False,
        pad_token_id=151643, rms_norm_eps=1e-5, rope_theta=1000000.0, tie_word_embeddings=False,
        **_sizes(184622, 4096, 14336, 32, 32, 8, 9216),
    ),
    "stepfun-ai/GOT-OCR-2.0-hf": _around(
        "got_ocr2", "GotOcr2", {
            "hidden_act": "silu", "max_window_layers": 24, "model_type": "qwen2",
            "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768,
            "tie_word_embeddings": True, "use_sliding_window": False,
        } | _sizes(151860, 1024, 2816, 24, 16, 16, 32768),
        {
            "global_attn_indexes": [0], "image_size": 32, "mlp_dim": 8, "window_size": 2,
            "model_type": "got_ocr2_vision", "output_channels": 8, "patch_size": 16,
        },
        ignore_index=-100, image_seq_length=576, image_token_index=21, tied=True,
    ),
    "microsoft/biogpt": {
        "activation_dropout": 0.0, "architectures": ["BioGptForCausalLM"],
        "attention_probs_dropout_prob": 0.1, "bos_token_id": 0, "eos_token_id": 2,
        "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 1024,
        "initializer_range": 0.02, "intermediate_size": 4096, "layer_norm_eps": 1e-12,
        "layerdrop": 0.0, "max_position_embeddings": 1024, "model_type": "biogpt",
        "num_attention_heads": 16, "num_hidden_layers": 24, "pad_token_id": 1,
        "scale_embedding": True, "torch_dtype": "float32", "transformers_version": "4.25.0.dev0",
        "use_cache": True, "vocab_size": 42384,
    },
    "openai-community/openai-gpt": OPENAI_GPT,
    "openai-community/openai-gpt, as a later version saves it": {
        name: value for name, value in OPENAI_GPT.items() if name not in ("n_ctx", "n_special")
    } | {"torch_dtype": "float32", "transformers_version": "4.22.2", "afn": "relu"},
}  # fmt: skip
for one in (
    "facebook/cwm", "google/vaultgemma-1b", "ibm-research/moe-7b-1b-active-shared-experts",
    "IQuestLab/IQuest-Coder-V1-40B-Instruct", "tencent/Hunyuan-A13B-Instruct",
    "tencent/Hy3-preview", "rednote-hilab/dots.llm1.inst", "upstage/Solar-Open-100B",
    "mistralai/Ministral-8B-Instruct-2410, by its class", "LGAI-EXAONE/K-EXAONE-236B-A23B",
    "skt/A.X-K1",
):  # fmt: skip
    MORE[f"{one}, saved again"] = _resaved(one, MORE)
MINICPM3 = "openbmb/MiniCPM3-4B"
MORE[f"{MINICPM3}, without its scaling"] = MORE[MINICPM3] | {"rope_scaling": None}
MORE[f"{MINICPM3}, saved again without it"] = _resaved(
    f"{MINICPM3}, without its scaling",
    MORE,
    v_head_dim=64,
    qk_head_dim=96,
    head_dim=32,
    dim_model_base=11,
)
MORE["abeja/gpt-neox-japanese-2.7b, with a head of its own"] = MORE[
    "abeja/gpt-neox-japanese-2.7b"
] | {"intermediate_multiple_size": 2, "rotary_pct": 0.5, "tie_word_embeddings": False}
MORE["microsoft/BioGPT-Large"] = MORE["microsoft/biogpt"] | {
    "hidden_size": 1600, "intermediate_size": 6400, "max_position_embeddings": 2048,
    "num_attention_heads": 25, "num_hidden_layers": 48, "vocab_size": 57717,
}  # fmt: skip
MORE["yonigozlan/GOT-OCR-2.0-hf, saved again"] = MORE["stepfun-ai/GOT-OCR-2.0-hf"] | {
    "text_config": MORE["stepfun-ai/GOT-OCR-2.0-hf"]["text_config"] | {"sliding_window": None},
}
INTERNLM3 = "internlm/internlm3-8b-instruct"
MORE[f"{INTERNLM3}, without its scaling"] = MORE[INTERNLM3] | {"rope_scaling": None}
MORE[f"{INTERNLM3}, saved again without it"] = _resaved(
    f"{INTERNLM3}, without its scaling", MORE, qkv_bias=True, bias=True
)
MORE["naver-hyperclovax/HyperCLOVAX-SEED-Think-14B, saved again"] = _resaved(
    "naver-hyperclovax/HyperCLOVAX-SEED-Think-14B"
)

#: Encoders, whose files differ in width, tokens and the task that they were trained for.
OF_ROBERTA = {
    "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
    "initializer_range": 0.02, "layer_norm_eps": 1e-05, "max_position_embeddings": 514,
    "pad_token_id": 1, "type_vocab_size": 1,
}  # fmt: skip
BASE = {
    "hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12,
    "num_hidden_layers": 12,
}  # fmt: skip
LARGE = {
    "hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16,
    "num_hidden_layers": 24,
}  # fmt: skip


def _encoder(kind, classes, *parts, **more):
    file = {"architectures": [classes], "model_type": kind}
    for part in parts:
        file |= part
    return file | more


MORE_ENCODERS = {
    "FacebookAI/roberta-large": _encoder(
        "roberta", "RobertaForMaskedLM", OF_ROBERTA, LARGE, bos_token_id=0, eos_token_id=2,
        vocab_size=50265,
    ),
    "almanach/camembert-base": _encoder(
        "camembert", "CamembertForMaskedLM", OF_ROBERTA, BASE, bos_token_id=5, eos_token_id=6,
        output_past=True, vocab_size=32005,
    ),
    "almanach/camembert-large": _encoder(
        "camembert", "CamembertForMaskedLM", OF_ROBERTA, LARGE, bos_token_id=0, eos_token_id=2,
        gradient_checkpointing=False, position_embedding_type="absolute", use_cache=True,
        transformers_version="4.4.0.dev0", vocab_size=32005,
    ),
    "FacebookAI/xlm-roberta-base": _encoder(
        "xlm-roberta", "XLMRobertaForMaskedLM", OF_ROBERTA, BASE, bos_token_id=0, eos_token_id=2,
        output_past=True, position_embedding_type="absolute", use_cache=True,
        transformers_version="4.17.0.dev0", vocab_size=250002,
    ),
    "AlexKay/xlm-roberta-large-qa-multilingual-finedtuned-ru": _encoder(
        "xlm-roberta", "XLMRobertaForQuestionAnswering", OF_ROBERTA, LARGE, bos_token_id=0,
        eos_token_id=2, gradient_checkpointing=False, language="english", name="XLMRoberta",
        output_past=True, position_embedding_type="absolute", transformers_version="4.6.1",
        use_cache=True, vocab_size=250002,
    ),
    "facebook/data2vec-text-base": _encoder(
        "data2vec-text", "Data2VecTextForMaskedLM", OF_ROBERTA, BASE, bos_token_id=0,
        classifier_dropout=None, eos_token_id=2, position_embedding_type="absolute",
        torch_dtype="float32", transformers_version="4.17.0.dev0", use_cache=True, vocab_size=50265,
    ),
    "facebook/data2vec-text-base, with the class's defaults": _encoder(
        "data2vec-text", "Data2VecTextModel", OF_ROBERTA, LARGE, layer_norm_eps=1e-12,
        type_vocab_size=2, vocab_size=50265,
    ),
    "google/bert_for_seq_generation_L-24_bbc_encoder": _encoder(
        "bert-generation", "BertGenerationEncoder", LARGE, attention_probs_dropout_prob=0.1,
        bos_token_id=2, eos_token_id=1, hidden_act="gelu", hidden_dropout_prob=0.1,
        initializer_range=0.02, layer_norm_eps=1e-12, max_position_embeddings=512, pad_token_id=0,
        vocab_size=50358,
    ),
    "google/roberta2roberta_L-24_discofuse, its encoder": _encoder(
        "bert-generation", "BertGenerationEncoder", LARGE, attention_probs_dropout_prob=0.1,
        hidden_act="gelu", hidden_dropout_prob=0.1, max_position_embeddings=512, vocab_size=50358,
        position_embedding_type="absolute", layer_norm_eps=1e-5, use_cache=True,
    ),
    "nvidia/megatron-bert-uncased-345m": _encoder(
        "megatron-bert", "MegatronBertForMaskedLM", LARGE, attention_probs_dropout_prob=0.1,
        hidden_act="gelu", hidden_dropout_prob=0.1, initializer_range=0.02, layer_norm_eps=1e-12,
        max_position_embeddings=512, type_vocab_size=2, vocab_size=29056,
    ),
    "KBLab/megatron-bert-base-swedish-cased-600k": _encoder(
        "megatron-bert", "MegatronBertForMaskedLM", BASE, attention_probs_dropout_prob=0.1,
        hidden_act="gelu", hidden_dropout_prob=0.1, initializer_range=0.02, layer_norm_eps=1e-12,
        max_position_embeddings=512, pad_token_id=0, position_embedding_type="absolute",
        type_vocab_size=2, use_cache=True, vocab_size=64128,
    ),
    "andreasmadsen/efficient_mlm_m0.40": _encoder(
        "roberta-prelayernorm", "RobertaPreLayerNormForMaskedLM", OF_ROBERTA, LARGE,
        bos_token_id=0, classifier_dropout=None, eos_token_id=2,
        position_embedding_type="absolute", torch_dtype="float32", use_cache=True, vocab_size=50265,
    ),
    "princeton-nlp/efficient_mlm_m0.15": _encoder(
        "roberta-prelayernorm", "RobertaPreLayerNormForMaskedLM", OF_ROBERTA, LARGE,
        gradient_checkpointing=False, vocab_size=50265, layer_norm_eps=1e-5, hidden_act="relu",
    ),
    "facebook/xlm-roberta-xl": _encoder(
        "xlm-roberta-xl", "XLMRobertaXLForMaskedLM", OF_ROBERTA, bos_token_id=0, eos_token_id=2,
        hidden_size=2560, intermediate_size=10240, num_attention_heads=32, num_hidden_layers=36,
        position_embedding_type="absolute", torch_dtype="float32", use_cache=True,
        vocab_size=250880,
    ),
    "facebook/xlm-roberta-xxl": _encoder(
        "xlm-roberta-xl", "XLMRobertaXLForMaskedLM", OF_ROBERTA, bos_token_id=0, eos_token_id=2,
        hidden_size=4096, intermediate_size=16384, num_attention_heads=32, num_hidden_layers=48,
        vocab_size=250880,
    ),
    "junnyu/roformer_chinese_base": _encoder(
        "roformer", "RoFormerForMaskedLM", BASE, attention_probs_dropout_prob=0.1,
        embedding_size=768, hidden_act="gelu", hidden_dropout_prob=0.1, initializer_range=0.02,
        layer_norm_eps=1e-12, max_position_embeddings=1536, pad_token_id=0, rotary_value=False,
        type_vocab_size=2, use_cache=True, vocab_size=50000,
    ),
    "junnyu/roformer_chinese_sim_char_ft_base, saved again": _encoder(
        "roformer", "RoFormerModel", BASE, attention_probs_dropout_prob=0.1, embedding_size=None,
        hidden_act="gelu", hidden_dropout_prob=0.1, max_position_embeddings=512, vocab_size=12000,
    ),
    "distilbert/distilbert-base-uncased-finetuned-sst-2-english": {
        "activation": "gelu", "architectures": ["DistilBertForSequenceClassification"],
        "attention_dropout": 0.1, "dim": 768, "dropout": 0.1, "finetuning_task": "sst-2",
        "hidden_dim": 3072, "id2label": {"0": "NEGATIVE", "1": "POSITIVE"},
        "initializer_range": 0.02, "label2id": {"NEGATIVE": 0, "POSITIVE": 1},
        "max_position_embeddings": 512, "model_type": "distilbert", "n_heads": 12, "n_layers": 6,
        "output_past": True, "pad_token_id": 0, "qa_dropout": 0.1, "seq_classif_dropout": 0.2,
        "sinusoidal_pos_embds": False, "tie_weights_": True, "vocab_size": 30522,
    },
    "google/mt5-base": {
        "architectures": ["MT5ForConditionalGeneration"], "d_ff": 2048, "d_kv": 64,
        "d_model": 768, "decoder_start_token_id": 0, "dropout_rate": 0.1, "eos_token_id": 1,
        "feed_forward_proj": "gated-gelu", "initializer_factor": 1.0, "is_encoder_decoder": True,
        "layer_norm_epsilon": 1e-06, "model_type": "mt5", "num_decoder_layers": 12,
        "num_heads": 12, "num_layers": 12, "output_past": True, "pad_token_id": 0,
        "relative_attention_num_buckets": 32, "tie_word_embeddings": False,
        "tokenizer_class": "T5Tokenizer", "vocab_size": 250112,
    },
}  # fmt: skip
