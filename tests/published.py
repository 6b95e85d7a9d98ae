"""
Files config.json as their authors published them, and the same with small sizes.

Only the entry ``quantization_config`` of gpt-oss and DeepSeek-V3 is left out, as it has to be where
the weights have been dequantized.
"""

V, T = 23, 12
GELU = "gelu_pytorch_tanh"


def _file(kind, classes, dtype="bfloat16", version="4.40.0", **entries):
    """Return a file; the entries that all files have come from the arguments."""
    return {
        "architectures": [f"{classes}ForCausalLM"], "model_type": kind, "torch_dtype": dtype,
        "transformers_version": version, "use_cache": True, "initializer_range": 0.02,
    } | entries  # fmt: skip


def _sizes(vocab, width, hidden, layers, heads, kv_heads, length, **more):
    return {
        "vocab_size": vocab, "hidden_size": width, "intermediate_size": hidden,
        "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "max_position_embeddings": length,
    } | more  # fmt: skip


LLAMA3 = {
    "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192, "rope_type": "llama3",
}  # fmt: skip
LLAMA = {"attention_bias": False, "attention_dropout": 0.0, "hidden_act": "silu", "mlp_bias": False}
LLAMA |= {"pretraining_tp": 1, "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
QWEN = {"attention_dropout": 0.0, "hidden_act": "silu", "rms_norm_eps": 1e-6}
QWEN |= {"use_sliding_window": False, "tie_word_embeddings": False, "bos_token_id": 151643}
QWEN |= {"eos_token_id": 151645}
DEEPSEEK_YARN = {
    "beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 4096, "type": "yarn",
}  # fmt: skip
#: Entries of both models of DeepSeek-V2.
DEEPSEEK = {
    "attention_bias": False, "attention_dropout": 0.0, "aux_loss_alpha": 0.001,
    "auto_map": {"AutoConfig": "configuration_deepseek.DeepseekV2Config"},
    "bos_token_id": 100000, "eos_token_id": 100001, "hidden_act": "silu", "kv_lora_rank": 512,
    "moe_layer_freq": 1, "n_shared_experts": 2, "norm_topk_prob": False, "pretraining_tp": 1,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000,
    "scoring_func": "softmax", "seq_aux": True, "tie_word_embeddings": False, "v_head_dim": 128,
}  # fmt: skip

#: Entries of all files of Falcon, OPT, GPT-Neo, StarCoder and MPT.
FALCON = {
    "alibi": False, "apply_residual_connection_post_layernorm": False, "attention_dropout": 0.0,
    "bias": False, "bos_token_id": 11, "eos_token_id": 11, "hidden_dropout": 0.0,
    "layer_norm_epsilon": 1e-5, "parallel_attn": True,
}  # fmt: skip
OPT = {
    "_remove_final_layer_norm": False, "activation_dropout": 0.0, "activation_function": "relu",
    "attention_dropout": 0.0, "bos_token_id": 2, "do_layer_norm_before": True, "dropout": 0.1,
    "eos_token_id": 2, "init_std": 0.02, "layerdrop": 0.0, "max_position_embeddings": 2048,
    "pad_token_id": 1, "prefix": "</s>", "vocab_size": 50272,
}  # fmt: skip
NEO = {
    "activation_function": "gelu_new", "attention_dropout": 0, "bos_token_id": 50256,
    "embed_dropout": 0, "eos_token_id": 50256, "gradient_checkpointing": False,
    "intermediate_size": None, "layer_norm_epsilon": 1e-5, "max_position_embeddings": 2048,
    "resid_dropout": 0, "summary_activation": None, "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True, "summary_type": "cls_index", "summary_use_proj": True,
    "vocab_size": 50257, "window_size": 256,
}  # fmt: skip
BIGCODE = {
    "attention_softmax_in_fp32": True, "attn_pdrop": 0.1, "embd_pdrop": 0.1,
    "layer_norm_epsilon": 1e-5, "multi_query": True, "resid_pdrop": 0.1,
    "scale_attention_softmax_in_fp32": True, "scale_attn_weights": True,
    "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True,
    "summary_type": "cls_index", "summary_use_proj": True,
}  # fmt: skip
MPT = {
    "emb_pdrop": 0, "embedding_fraction": 1.0, "expansion_ratio": 4, "init_device": "cpu",
    "init_config": {"fan_mode": "fan_in", "init_nonlinearity": "relu", "name": "kaiming_normal_"},
    "learned_pos_emb": True, "logit_scale": None, "no_bias": True, "resid_pdrop": 0, "verbose": 0,
    "norm_type": "low_precision_layernorm", "tokenizer_name": "EleutherAI/gpt-neox-20b",
}  # fmt: skip
DBRX = {
    "attn_config": {"clip_qkv": 8, "kv_n_heads": 8, "model_type": "", "rope_theta": 500000},
    "auto_map": {"AutoConfig": "configuration_dbrx.DbrxConfig"}, "d_model": 6144, "emb_pdrop": 0.0,
    "ffn_config": {
        "ffn_hidden_size": 10752, "model_type": "", "moe_jitter_eps": 0.01,
        "moe_loss_weight": 0.05, "moe_num_experts": 16, "moe_top_k": 4,
    },
    "max_seq_len": 32768, "n_heads": 48, "n_layers": 40, "output_router_logits": False,
    "resid_pdrop": 0.0, "router_aux_loss_coef": 0.05, "tie_word_embeddings": False,
    "vocab_size": 100352,
}  # fmt: skip
OF_MPT = {
    "alibi": True, "alibi_bias_max": 8, "attn_impl": "torch", "attn_pdrop": 0,
    "attn_type": "multihead_attention", "attn_uses_sequence_id": False, "clip_qkv": None,
    "prefix_lm": False, "qk_ln": False, "softmax_scale": None,
}  # fmt: skip

PUBLISHED = {
    "openai-community/gpt2": {
        "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
        "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768,
        "n_head": 12, "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1,
        "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True,
        "summary_type": "cls_index", "summary_use_proj": True,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
        "vocab_size": 50257,
    },
    "meta-llama/Llama-2-7b-hf": _file(
        "llama", "Llama", "float16", "4.31.0.dev0", _name_or_path="meta-llama/Llama-2-7b-hf",
        bos_token_id=1, eos_token_id=2, hidden_act="silu", pretraining_tp=1, rms_norm_eps=1e-5,
        rope_scaling=None, tie_word_embeddings=False,
        **_sizes(32000, 4096, 11008, 32, 32, 32, 4096),
    ),
    "meta-llama/Llama-3.1-8B": _file(
        "llama", "Llama", version="4.43.0.dev0", **LLAMA, bos_token_id=128000,
        eos_token_id=128001, rope_theta=500000.0, rope_scaling=LLAMA3,
        **_sizes(128256, 4096, 14336, 32, 32, 8, 131072),
    ),
    "meta-llama/Llama-3.2-1B": _file(
        "llama", "Llama", version="4.45.0.dev0", **LLAMA | {"tie_word_embeddings": True},
        bos_token_id=128000, eos_token_id=128001, rope_theta=500000.0,
        rope_scaling=LLAMA3 | {"factor": 32.0}, head_dim=64,
        **_sizes(128256, 2048, 8192, 16, 32, 8, 131072),
    ),
    "deepseek-ai/deepseek-coder-6.7b-base": _file(
        "llama", "Llama", version="4.34.1", bos_token_id=32013, eos_token_id=32014,
        hidden_act="silu", pretraining_tp=1, rms_norm_eps=1e-6, rope_theta=100000,
        rope_scaling={"factor": 4.0, "type": "linear"}, tie_word_embeddings=False,
        **_sizes(32256, 4096, 11008, 32, 32, 32, 16384),
    ),
    "mistralai/Mistral-7B-v0.1": _file(
        "mistral", "Mistral", version="4.34.0.dev0", bos_token_id=1, eos_token_id=2,
        hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0, sliding_window=4096,
        tie_word_embeddings=False, **_sizes(32000, 4096, 14336, 32, 32, 8, 32768),
    ),
    "mistralai/Mistral-Nemo-Base-2407": _file(
        "mistral", "Mistral", version="4.43.0.dev0", attention_dropout=0.0, bos_token_id=1,
        eos_token_id=2, head_dim=128, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=1000000.0,
        sliding_window=None, tie_word_embeddings=False,
        **_sizes(131072, 5120, 14336, 40, 32, 8, 128000),
    ),
    "Qwen/Qwen2.5-7B-Instruct": _file(
        "qwen2", "Qwen2", version="4.43.1", **QWEN, max_window_layers=28, rope_theta=1000000.0,
        sliding_window=131072, **_sizes(152064, 3584, 18944, 28, 28, 4, 32768),
    ),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": _file(
        "qwen2", "Qwen2", version="4.44.0", **QWEN, max_window_layers=21, rope_theta=10000,
        sliding_window=4096, use_mrope=False, **_sizes(151936, 1536, 8960, 28, 12, 2, 131072),
    ),
    "Alibaba-NLP/gte-Qwen2-1.5B-instruct": _file(
        "qwen2", "Qwen2", "float32", "4.41.2", **QWEN, max_window_layers=21, rope_theta=1000000.0,
        sliding_window=131072, is_causal=False,
        auto_map={"AutoModel": "modeling_qwen.Qwen2Model"},
        **_sizes(151646, 1536, 8960, 28, 12, 2, 131072),
    ),
    "Qwen/Qwen3-8B": _file(
        "qwen3", "Qwen3", version="4.51.0", **QWEN, attention_bias=False, head_dim=128,
        max_window_layers=36, rope_scaling=None, rope_theta=1000000, sliding_window=None,
        **_sizes(151936, 4096, 12288, 36, 32, 8, 40960),
    ),
    "Qwen/Qwen3-0.6B-Base": _file(
        "qwen3", "Qwen3", version="4.51.0", **QWEN | {"tie_word_embeddings": True},
        attention_bias=False, head_dim=128, max_window_layers=28, rope_scaling=None,
        rope_theta=1000000, sliding_window=32768, **_sizes(151936, 1024, 3072, 28, 16, 8, 32768),
    ),
    "Qwen/Qwen3-30B-A3B": _file(
        "qwen3_moe", "Qwen3Moe", version="4.51.0", **QWEN, attention_bias=False,
        decoder_sparse_step=1, head_dim=128, max_window_layers=48, mlp_only_layers=[],
        moe_intermediate_size=768, norm_topk_prob=True, num_experts=128, num_experts_per_tok=8,
        output_router_logits=False, rope_scaling=None, rope_theta=1000000.0,
        router_aux_loss_coef=0.001, sliding_window=None,
        **_sizes(151936, 2048, 6144, 48, 32, 4, 40960),
    ),
    "Qwen/Qwen3-Next-80B-A3B-Instruct": _file(
        "qwen3_next", "Qwen3Next", version="4.57.0.dev0", attention_dropout=0.0,
        bos_token_id=151643, decoder_sparse_step=1, eos_token_id=151645,
        full_attention_interval=4, head_dim=256, hidden_act="silu", linear_conv_kernel_dim=4,
        linear_key_head_dim=128, linear_num_key_heads=16, linear_num_value_heads=32,
        linear_value_head_dim=128, mlp_only_layers=[], moe_intermediate_size=512,
        norm_topk_prob=True, num_experts=512, num_experts_per_tok=10, output_router_logits=False,
        partial_rotary_factor=0.25, rms_norm_eps=1e-6, rope_scaling=None, rope_theta=10000000,
        router_aux_loss_coef=0.001, shared_expert_intermediate_size=512,
        tie_word_embeddings=False, use_sliding_window=False,
        **_sizes(151936, 2048, 5120, 48, 16, 2, 262144),
    ),
    "HuggingFaceTB/SmolLM3-3B": _file(
        "smollm3", "SmolLM3", version="4.54.0.dev0", attention_bias=False, attention_dropout=0.0,
        bos_token_id=None, eos_token_id=128012, hidden_act="silu",
        layer_types=["full_attention"] * 36, max_window_layers=28, mlp_bias=False,
        no_rope_layer_interval=4,
        no_rope_layers=[1, 1, 1, 0] * 9, pad_token_id=128004, pretraining_tp=2, rms_norm_eps=1e-6,
        rope_scaling=None, rope_theta=5000000.0, sliding_window=None, tie_word_embeddings=True,
        use_sliding_window=False, **_sizes(128256, 2048, 11008, 36, 16, 4, 65536),
    ),
    "google/gemma-2b": _file(
        "gemma", "Gemma", version="4.38.0.dev0", attention_bias=False, attention_dropout=0.0,
        bos_token_id=2, eos_token_id=1, head_dim=256, hidden_act="gelu", pad_token_id=0,
        rms_norm_eps=1e-6, rope_scaling=None, rope_theta=10000.0,
        **_sizes(256000, 2048, 16384, 18, 8, 1, 8192),
    ),
    "google/gemma-1.1-7b-it": _file(
        "gemma", "Gemma", version="4.40.0.dev0", attention_bias=False, attention_dropout=0.0,
        bos_token_id=2, eos_token_id=1, head_dim=256, hidden_act=GELU, hidden_activation=GELU,
        pad_token_id=0, rms_norm_eps=1e-6, rope_scaling=None, rope_theta=10000.0,
        **_sizes(256000, 3072, 24576, 28, 16, 16, 8192),
    ),
    "google/gemma-2-2b": _file(
        "gemma2", "Gemma2", "float32", "4.42.4", attention_bias=False, attention_dropout=0.0,
        attn_logit_softcapping=50.0, bos_token_id=2, cache_implementation="hybrid",
        eos_token_id=1, final_logit_softcapping=30.0, head_dim=256, hidden_act=GELU,
        hidden_activation=GELU, pad_token_id=0, query_pre_attn_scalar=256, rms_norm_eps=1e-6,
        rope_theta=10000.0, sliding_window=4096, **_sizes(256000, 2304, 9216, 26, 8, 4, 8192),
    ),
    "google/gemma-3-1b-it": _file(
        "gemma3_text", "Gemma3", version="4.50.0.dev0", attention_bias=False,
        attention_dropout=0.0, attn_logit_softcapping=None, bos_token_id=2,
        cache_implementation="hybrid", eos_token_id=[1, 106], final_logit_softcapping=None,
        head_dim=256, hidden_activation=GELU, pad_token_id=0, query_pre_attn_scalar=256,
        rms_norm_eps=1e-6, rope_local_base_freq=10000, rope_scaling=None, rope_theta=1000000,
        sliding_window=512, sliding_window_pattern=6, **_sizes(262144, 1152, 6912, 26, 4, 1, 32768),
    ),
    "google/gemma-3-4b-it": {
        "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255999,
        "eoi_token_index": 256000, "eos_token_id": [1, 106], "image_token_index": 262144,
        "initializer_range": 0.02, "mm_tokens_per_image": 256, "model_type": "gemma3",
        "text_config": {
            "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
            "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
            "sliding_window": 1024,
        },
        "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0",
        "vision_config": {
            "hidden_size": 1152, "image_size": 896, "intermediate_size": 4304,
            "model_type": "siglip_vision_model", "num_attention_heads": 16,
            "num_hidden_layers": 27, "patch_size": 14, "vision_use_head": False,
        },
    },
    "llava-hf/llava-1.5-7b-hf": {
        "architectures": ["LlavaForConditionalGeneration"], "ignore_index": -100,
        "image_token_index": 22, "model_type": "llava", "pad_token_id": 32001,
        "projector_hidden_act": "gelu", "tie_word_embeddings": False, "torch_dtype": "float16",
        "text_config": {
            "_name_or_path": "lmsys/vicuna-7b-v1.5", "architectures": ["LlamaForCausalLM"],
            "max_position_embeddings": 4096, "model_type": "llama", "rms_norm_eps": 1e-05,
            "torch_dtype": "float16", "vocab_size": 32064,
        },
        "transformers_version": "4.36.0.dev0", "vocab_size": 32064,
        "vision_config": {
            "hidden_size": 1024, "image_size": 336, "intermediate_size": 4096,
            "model_type": "clip_vision_model", "num_attention_heads": 16,
            "num_hidden_layers": 24, "patch_size": 14, "projection_dim": 768,
            "vocab_size": 32000,
        },
        "vision_feature_layer": -2, "vision_feature_select_strategy": "default",
    },
    "llava-hf/llava-onevision-qwen2-0.5b-ov-hf": {
        "architectures": ["LlavaOnevisionForConditionalGeneration"], "ignore_index": -100,
        "image_grid_pinpoints": [[384, 384], [384, 768]], "image_token_index": 21,
        "model_type": "llava_onevision", "projector_hidden_act": "gelu",
        "text_config": {
            "_name_or_path": "Qwen/Qwen2-0.5B-Instruct", "architectures": ["Qwen2ForCausalLM"],
            "bos_token_id": 151643, "eos_token_id": 151645, "hidden_size": 896,
            "intermediate_size": 4864, "max_window_layers": 24, "model_type": "qwen2",
            "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2,
            "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": True,
            "torch_dtype": "bfloat16", "use_sliding_window": False, "vocab_size": 152000,
        },
        "tie_word_embeddings": True, "torch_dtype": "float16", "use_image_newline_parameter": True,
        "transformers_version": "4.45.0.dev0", "video_token_index": 22,
        "vision_aspect_ratio": "anyres_max_9", "vision_feature_layer": -1,
        "vision_config": {
            "hidden_size": 1152, "image_size": 384, "intermediate_size": 4304,
            "model_type": "siglip_vision_model", "num_attention_heads": 16,
            "num_hidden_layers": 26, "patch_size": 14, "vision_use_head": False,
        },
        "vision_feature_select_strategy": "full",
    },
    "mistralai/Mistral-Small-3.1-24B-Instruct-2503": {
        "architectures": ["Mistral3ForConditionalGeneration"], "image_token_index": 10,
        "model_type": "mistral3", "multimodal_projector_bias": False,
        "projector_hidden_act": "gelu", "spatial_merge_size": 2,
        "text_config": {
            "attention_dropout": 0.0, "head_dim": 128, "hidden_act": "silu", "hidden_size": 5120,
            "initializer_range": 0.02, "intermediate_size": 32768,
            "max_position_embeddings": 131072, "model_type": "mistral",
            "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8,
            "rms_norm_eps": 1e-05, "rope_theta": 1000000000.0, "sliding_window": None,
            "use_cache": True, "vocab_size": 131072,
        },
        "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0",
        "vision_config": {
            "attention_dropout": 0.0, "head_dim": 64, "hidden_act": "gelu", "hidden_size": 1024,
            "image_size": 1540, "initializer_range": 0.02, "intermediate_size": 4096,
            "model_type": "pixtral", "num_attention_heads": 16, "num_channels": 3,
            "num_hidden_layers": 24, "patch_size": 14, "rope_theta": 10000.0,
        },
        "vision_feature_layer": -1,
    },
    "microsoft/Phi-3-mini-4k-instruct": _file(
        "phi3", "Phi3", version="4.40.2", attention_bias=False, attention_dropout=0.0,
        auto_map={"AutoConfig": "configuration_phi3.Phi3Config"}, bos_token_id=1, embd_pdrop=0.0,
        eos_token_id=32000, hidden_act="silu", original_max_position_embeddings=4096,
        pad_token_id=32000, resid_pdrop=0.0, rms_norm_eps=1e-5, rope_scaling=None,
        rope_theta=10000.0, sliding_window=2047, tie_word_embeddings=False,
        **_sizes(32064, 3072, 8192, 32, 32, 32, 4096),
    ),
    "microsoft/phi-4": _file(
        "phi3", "Phi3", version="4.47.0", attention_bias=False, attention_dropout=0.0,
        bos_token_id=100257, embd_pdrop=0.0, eos_token_id=100265, hidden_act="silu",
        original_max_position_embeddings=16384, pad_token_id=100349, resid_pdrop=0.0,
        rms_norm_eps=1e-5, rope_scaling=None, rope_theta=250000, sliding_window=None,
        tie_word_embeddings=False, **_sizes(100352, 5120, 17920, 40, 40, 10, 16384),
    ),
    "microsoft/Phi-3-mini-128k-instruct": _file(
        "phi3", "Phi3", version="4.40.2", attention_bias=False, attention_dropout=0.0,
        bos_token_id=1, embd_pdrop=0.0, eos_token_id=32000, hidden_act="silu",
        original_max_position_embeddings=4096, pad_token_id=32000, resid_pdrop=0.0,
        rms_norm_eps=1e-5, rope_theta=10000.0, sliding_window=262144, tie_word_embeddings=False,
        rope_scaling={"long_factor": [1.1] * 48, "short_factor": [1.0] * 48, "type": "longrope"},
        **_sizes(32064, 3072, 8192, 32, 32, 32, 131072),
    ),
    "openai/gpt-oss-20b": _file(
        "gpt_oss", "GptOss", version="4.55.0.dev0", attention_bias=True, attention_dropout=0.0,
        eos_token_id=200002, experts_per_token=4, head_dim=64, hidden_act="silu",
        initial_context_length=4096,
        layer_types=["sliding_attention", "full_attention"] * 12, num_experts_per_tok=4,
        num_local_experts=32, output_router_logits=False, pad_token_id=199999, rms_norm_eps=1e-5,
        rope_scaling={
            "beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
            "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": False,
        },
        rope_theta=150000, router_aux_loss_coef=0.9, sliding_window=128, swiglu_limit=7.0,
        tie_word_embeddings=False, **_sizes(201088, 2880, 2880, 24, 64, 8, 131072),
    ),
    "openai/gpt-oss-20b, without the rotation": _file(
        "gpt_oss", "GptOss", version="4.55.0.dev0", attention_bias=True, attention_dropout=0.0,
        eos_token_id=200002, head_dim=64, hidden_act="silu", num_experts_per_tok=4,
        num_local_experts=32, rms_norm_eps=1e-5, sliding_window=128, swiglu_limit=7.0,
        tie_word_embeddings=False, **_sizes(201088, 2880, 2880, 24, 64, 8, 131072),
    ),
    "allenai/OLMo-7B-hf": _file(
        "olmo", "Olmo", "float32", "4.40.0.dev0", attention_bias=False, attention_dropout=0.0,
        clip_qkv=None, eos_token_id=50279, hidden_act="silu", pad_token_id=1, rope_scaling=None,
        rope_theta=10000.0, tie_word_embeddings=False,
        **_sizes(50304, 4096, 11008, 32, 32, 32, 2048),
    ),
    "allenai/OLMo-2-1124-7B": _file(
        "olmo2", "Olmo2", "float32", "4.47.0.dev0", attention_bias=False, attention_dropout=0.0,
        eos_token_id=100257, hidden_act="silu", pad_token_id=100277, rms_norm_eps=1e-6,
        rope_scaling=None, rope_theta=500000, tie_word_embeddings=False,
        **_sizes(100352, 4096, 11008, 32, 32, 32, 4096),
    ),
    "allenai/OLMoE-1B-7B-0924": _file(
        "olmoe", "Olmoe", version="4.43.0.dev0", attention_bias=False, attention_dropout=0.0,
        clip_qkv=None, eos_token_id=50279, hidden_act="silu", norm_topk_prob=False,
        num_experts=64, num_experts_per_tok=8, output_router_logits=False, pad_token_id=1,
        rms_norm_eps=1e-5, rope_scaling=None, rope_theta=10000.0, router_aux_loss_coef=0.01,
        tie_word_embeddings=False, **_sizes(50304, 2048, 1024, 16, 16, 16, 4096),
    ),
    "mistralai/Mixtral-8x7B-v0.1": _file(
        "mixtral", "Mixtral", version="4.36.0.dev0", attention_dropout=0.0, bos_token_id=1,
        eos_token_id=2, hidden_act="silu", num_experts_per_tok=2, num_local_experts=8,
        output_router_logits=False, rms_norm_eps=1e-5, rope_theta=1000000.0,
        router_aux_loss_coef=0.02, sliding_window=None, tie_word_embeddings=False,
        **_sizes(32000, 4096, 14336, 32, 32, 8, 32768),
    ),
    "EleutherAI/pythia-160m": _file(
        "gpt_neox", "GPTNeoX", "float16", "4.24.0", bos_token_id=0, eos_token_id=0,
        hidden_act="gelu", layer_norm_eps=1e-5, rotary_emb_base=10000, rotary_pct=0.25,
        tie_word_embeddings=False, use_parallel_residual=True, vocab_size=50304, hidden_size=768,
        intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12,
        max_position_embeddings=2048,
    ),
    "EleutherAI/gpt-neox-20b": _file(
        "gpt_neox", "GPTNeoX", "float16", "4.19.0.dev0", attention_probs_dropout_prob=0,
        bos_token_id=0, eos_token_id=0, hidden_act="gelu_fast", hidden_dropout_prob=0,
        layer_norm_eps=1e-5, rotary_emb_base=10000, rotary_pct=0.25, tie_word_embeddings=False,
        vocab_size=50432, hidden_size=6144, intermediate_size=24576, num_hidden_layers=44,
        num_attention_heads=64, max_position_embeddings=2048,
    ),
    "stabilityai/stablelm-3b-4e1t": _file(
        "stablelm", "StableLm", version="4.38.0", bos_token_id=0, eos_token_id=0,
        hidden_act="silu", layer_norm_eps=1e-5, partial_rotary_factor=0.25, rope_theta=10000,
        tie_word_embeddings=False, use_qkv_bias=False,
        **_sizes(50304, 2560, 6912, 32, 32, 32, 4096),
    ),
    "stabilityai/stablelm-2-12b": _file(
        "stablelm", "StableLm", version="4.40.0.dev0", attention_dropout=0.0, bos_token_id=100257,
        eos_token_id=100257, hidden_act="silu", hidden_dropout=0.0, layer_norm_eps=1e-5,
        partial_rotary_factor=0.25, qk_layernorm=True, rope_scaling=None, rope_theta=10000,
        tie_word_embeddings=False, use_parallel_residual=True, use_qkv_bias=False,
        **_sizes(100352, 5120, 13824, 40, 32, 8, 4096),
    ),
    "CohereForAI/c4ai-command-r-v01": _file(
        "cohere", "Cohere", "float16", "4.38.2", attention_bias=False, attention_dropout=0.0,
        bos_token_id=5, eos_token_id=255001, hidden_act="silu", layer_norm_eps=1e-5,
        logit_scale=0.0625, model_max_length=131072, pad_token_id=0, rope_theta=8000000.0,
        **_sizes(256000, 8192, 22528, 40, 64, 64, 8192),
    ),
    "CohereForAI/c4ai-command-r-plus": _file(
        "cohere", "Cohere", "float16", "4.40.0.dev0", attention_bias=False, attention_dropout=0.0,
        bos_token_id=5, eos_token_id=255001, hidden_act="silu", layer_norm_eps=1e-5,
        logit_scale=0.8333333333333334, pad_token_id=0, rope_theta=75000000.0, use_qk_norm=True,
        **_sizes(256000, 12288, 33792, 64, 96, 8, 131072),
    ),
    "ibm-granite/granite-3.0-2b-base": _file(
        "granite", "Granite", version="4.46.0.dev0", attention_bias=False, attention_dropout=0.1,
        attention_multiplier=0.015625, bos_token_id=0, embedding_multiplier=12.0, eos_token_id=0,
        hidden_act="silu", logits_scaling=8.0, mlp_bias=False, pad_token_id=0,
        residual_multiplier=0.22, rms_norm_eps=1e-5, rope_scaling=None, rope_theta=10000.0,
        tie_word_embeddings=True, **_sizes(49155, 2048, 8192, 40, 32, 8, 4096),
    ),
    "ibm-granite/granite-3.0-1b-a400m-base": _file(
        "granitemoe", "GraniteMoe", version="4.46.0.dev0", attention_bias=False,
        attention_dropout=0.0, attention_multiplier=0.015625, bos_token_id=0,
        embedding_multiplier=12.0, eos_token_id=0, hidden_act="silu", logits_scaling=6.0,
        num_experts_per_tok=8, num_local_experts=32, output_router_logits=False, pad_token_id=0,
        residual_multiplier=0.22, rms_norm_eps=1e-6, rope_scaling=None, rope_theta=10000,
        router_aux_loss_coef=0.0, tie_word_embeddings=True,
        **_sizes(49155, 1024, 512, 24, 16, 8, 4096),
    ),
    "deepseek-ai/DeepSeek-V3": _file(
        "deepseek_v3", "DeepseekV3", version="4.33.1", attention_bias=False,
        attention_dropout=0.0,
        auto_map={"AutoConfig": "configuration_deepseek.DeepseekV3Config"}, aux_loss_alpha=0.001,
        bos_token_id=0, eos_token_id=1, ep_size=1, first_k_dense_replace=3, hidden_act="silu",
        kv_lora_rank=512, moe_intermediate_size=2048, moe_layer_freq=1, n_group=8,
        n_routed_experts=256, n_shared_experts=1, norm_topk_prob=True, num_experts_per_tok=8,
        num_nextn_predict_layers=1, pretraining_tp=1, q_lora_rank=1536, qk_nope_head_dim=128,
        qk_rope_head_dim=64, rms_norm_eps=1e-6, rope_scaling=DEEPSEEK_YARN, rope_theta=10000,
        routed_scaling_factor=2.5, scoring_func="sigmoid", seq_aux=True,
        tie_word_embeddings=False, topk_group=4, topk_method="noaux_tc", v_head_dim=128,
        **_sizes(129280, 7168, 18432, 61, 128, 128, 163840),
    ),
    "moonshotai/Moonlight-16B-A3B": _file(
        "deepseek_v3", "DeepseekV3", version="4.43.3", attention_bias=False,
        attention_dropout=0.0, auto_map={"AutoConfig": "configuration_deepseek.DeepseekV3Config"},
        aux_loss_alpha=0.001, bos_token_id=163584, eos_token_id=163585, first_k_dense_replace=1,
        hidden_act="silu", kv_lora_rank=512, moe_intermediate_size=1408, moe_layer_freq=1,
        n_group=1, n_routed_experts=64, n_shared_experts=2, norm_topk_prob=True,
        num_experts_per_tok=6, num_nextn_predict_layers=0, pretraining_tp=1, q_lora_rank=None,
        qk_nope_head_dim=128, qk_rope_head_dim=64, rms_norm_eps=1e-5, rope_theta=50000.0,
        routed_scaling_factor=2.446, scoring_func="sigmoid", seq_aux=True,
        tie_word_embeddings=False, topk_group=1, topk_method="noaux_tc", v_head_dim=128,
        **_sizes(163840, 2048, 11264, 27, 16, 16, 8192),
    ),
    "kyutai/helium-1-2b": _file(
        "helium", "Helium", version="4.51.0.dev0", attention_bias=False, attention_dropout=0.0,
        bos_token_id=1, eos_token_id=2, head_dim=128, hidden_act="silu", mlp_bias=False,
        pad_token_id=3, rms_norm_eps=1e-8, rope_theta=20000.0, tie_word_embeddings=False,
        **_sizes(64000, 2048, 8192, 28, 16, 8, 4096),
    ),
    "baidu/ERNIE-4.5-0.3B-PT": _file(
        "ernie4_5", "Ernie4_5", version="4.54.0.dev0", bos_token_id=1, eos_token_id=2,
        head_dim=128, hidden_act="silu", pad_token_id=0, rms_norm_eps=1e-5, rope_theta=500000.0,
        tie_word_embeddings=True, use_bias=False,
        **_sizes(103424, 1024, 3072, 18, 16, 2, 131072),
    ),
    "ByteDance-Seed/Seed-OSS-36B-Instruct": _file(
        "seed_oss", "SeedOss", version="4.55.0", attention_bias=True, attention_dropout=0.1,
        attention_out_bias=False, bos_token_id=0, eos_token_id=2, head_dim=128,
        hidden_act="silu", mlp_bias=False, pad_token_id=1, residual_dropout=0.1,
        rms_norm_eps=1e-6, rope_scaling={"rope_type": "default"}, rope_theta=10000000.0,
        tie_word_embeddings=False, **_sizes(155136, 5120, 27648, 64, 80, 8, 524288),
    ),
    "arcee-ai/AFM-4.5B": _file(
        "arcee", "Arcee", version="4.53.2", attention_bias=False, attention_dropout=0.0,
        bos_token_id=128000, eos_token_id=128003, head_dim=128, hidden_act="relu2",
        mlp_bias=False, pad_token_id=128004, rms_norm_eps=1e-5,
        rope_scaling={
            "beta_fast": 32.0, "beta_slow": 1.0, "factor": 20.0, "mscale": 1.0,
            "original_max_position_embeddings": 4096, "rope_type": "yarn", "type": "yarn",
        },
        rope_theta=10000.0, tie_word_embeddings=False,
        **_sizes(128005, 2560, 18432, 36, 20, 4, 65536),
    ),
    "nvidia/Minitron-4B-Base": _file(
        "nemotron", "Nemotron", version="4.32.0.dev0", attention_bias=False,
        attention_dropout=0.0, bos_token_id=2, eos_token_id=3, head_dim=128, hidden_act="relu2",
        mlp_bias=False, norm_eps=1e-5, partial_rotary_factor=0.5, rope_scaling=None,
        rope_theta=10000.0, tie_word_embeddings=False,
        **_sizes(256000, 3072, 9216, 32, 24, 8, 4096),
    ),
    "bigcode/starcoder2-3b": _file(
        "starcoder2", "Starcoder2", "float32", "4.37.0.dev0", activation_function=GELU,
        attention_dropout=0.1, attention_softmax_in_fp32=True, bos_token_id=0,
        embedding_dropout=0.1, eos_token_id=0, hidden_act=GELU, layer_norm_epsilon=1e-5,
        mlp_type="default", norm_epsilon=1e-5, norm_type="layer_norm", residual_dropout=0.1,
        rope_theta=999999.4420358813, scale_attention_softmax_in_fp32=True,
        scale_attn_weights=True, sliding_window=4096, use_bias=True,
        **_sizes(49152, 3072, 12288, 30, 24, 2, 16384),
    ),
    "zai-org/glm-4-9b-hf": _file(
        "glm", "Glm", version="4.47.0.dev0", attention_bias=True, attention_dropout=0.0,
        eos_token_id=[151329, 151336, 151338], head_dim=128, hidden_act="silu",
        pad_token_id=151329, partial_rotary_factor=0.5, rms_norm_eps=1.5625e-7, rope_theta=10000.0,
        tie_word_embeddings=False, **_sizes(151552, 4096, 13696, 40, 32, 2, 8192),
    ),
    "zai-org/GLM-4-9B-0414": _file(
        "glm4", "Glm4", version="4.52.0.dev0", attention_bias=False, attention_dropout=0.0,
        eos_token_id=[151329, 151336, 151338], head_dim=128, hidden_act="silu",
        pad_token_id=151329, partial_rotary_factor=0.5, rms_norm_eps=1e-5, rope_theta=10000.0,
        tie_word_embeddings=False, **_sizes(151552, 4096, 13696, 40, 32, 2, 32768),
    ),
    "zai-org/GLM-Z1-9B-0414, with biases": _file(
        "glm4", "Glm4", version="4.52.0.dev0", attention_bias=True, attention_dropout=0.0,
        eos_token_id=[151329, 151336, 151338], head_dim=128, hidden_act="silu",
        pad_token_id=151329, rms_norm_eps=1e-5, rope_theta=10000.0,
        tie_word_embeddings=False, **_sizes(151552, 4096, 13696, 40, 32, 2, 32768),
    ),
    "allenai/Olmo-3-1025-7B": _file(
        "olmo3", "Olmo3", version="4.57.0", attention_bias=False, attention_dropout=0.0,
        bos_token_id=100257, eos_token_id=100257, hidden_act="silu",
        layer_types=(["sliding_attention"] * 3 + ["full_attention"]) * 8, pad_token_id=100277,
        rms_norm_eps=1e-6,
        rope_scaling={
            "attention_factor": 1.2079441541679836, "beta_fast": 32.0, "beta_slow": 1.0,
            "factor": 8.0, "original_max_position_embeddings": 8192, "rope_type": "yarn",
        },
        rope_theta=500000, sliding_window=4096, tie_word_embeddings=False,
        **_sizes(100278, 4096, 11008, 32, 32, 32, 65536),
    ),
    "LGAI-EXAONE/EXAONE-4.0-32B": _file(
        "exaone4", "Exaone4", version="4.54.0.dev0", attention_dropout=0.0, bos_token_id=1,
        eos_token_id=361, head_dim=128, hidden_act="silu",
        layer_types=(["sliding_attention"] * 3 + ["full_attention"]) * 16, pad_token_id=0,
        rms_norm_eps=1e-5, rope_scaling=LLAMA3 | {"factor": 16.0}, rope_theta=1000000,
        sliding_window=4096, sliding_window_pattern="LLLG", tie_word_embeddings=False,
        **_sizes(102400, 5120, 27392, 64, 40, 8, 131072),
    ),
    "LGAI-EXAONE/EXAONE-4.0-1.2B": _file(
        "exaone4", "Exaone4", version="4.54.0.dev0", attention_dropout=0.0, bos_token_id=1,
        eos_token_id=361, head_dim=64, hidden_act="silu", layer_types=["full_attention"] * 30,
        pad_token_id=0, rms_norm_eps=1e-5, rope_scaling=LLAMA3 | {"factor": 16.0},
        rope_theta=1000000, sliding_window=None, sliding_window_pattern=None,
        tie_word_embeddings=True, **_sizes(102400, 2048, 4096, 30, 32, 8, 65536),
    ),
    "tencent/Hunyuan-7B-Instruct": _file(
        "hunyuan_v1_dense", "HunYuanDenseV1", version="4.41.2", add_classification_head=False,
        attention_bias=False, attention_dropout=0.1, attention_head_dim=128, bos_token_id=1,
        cla_share_factor=2, class_num=0, dense_list=[4096, 0], eod_token_id=127967,
        eos_token_id=127960, head_dim=128, hidden_act="silu", im_end_id=5, im_newline_id=11,
        im_start_id=4, mask_init_id=12, mlp_bias=False, norm_type="rms", org_vocab_size=128167,
        pad_id=127961, pad_token_id=127961, pool_type="last", pretraining_tp=1,
        rms_norm_eps=1e-5,
        rope_scaling={
            "alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0,
            "mscale_all_dim": 1.0, "type": "dynamic",
        },
        rope_theta=10000.0, sep_token_id=127962, text_end_id=7, text_start_id=6,
        tie_word_embeddings=False, use_cla=False, use_qk_norm=True, use_rotary_pos_emb=True,
        xdrope_section=None, **_sizes(128167, 4096, 14336, 32, 32, 8, 32768),
    ),
    "CohereForAI/c4ai-command-r7b-12-2024": _file(
        "cohere2", "Cohere2", version="4.48.0.dev0", attention_bias=False, attention_dropout=0.0,
        bos_token_id=5, cache_implementation="hybrid", eos_token_id=255001, head_dim=128,
        hidden_act="silu", layer_norm_eps=1e-5, layer_switch=4, logit_scale=0.25,
        order_of_interleaved_layers="local_attn_first", pad_token_id=0,
        position_embedding_type="rope_gptj", rope_scaling=None, rope_theta=50000, rotary_pct=1.0,
        sliding_window=4096, sliding_window_pattern=4, use_embedding_sharing=True,
        use_gated_activation=True, use_parallel_block=True, use_parallel_embedding=True,
        **_sizes(256000, 4096, 14336, 32, 32, 8, 8192),
    ),
    "Qwen/Qwen1.5-MoE-A2.7B": _file(
        "qwen2_moe", "Qwen2Moe", version="4.39.0.dev0", **QWEN, decoder_sparse_step=1,
        max_window_layers=21, moe_intermediate_size=1408, norm_topk_prob=False, num_experts=60,
        num_experts_per_tok=4, output_router_logits=False, rope_theta=1000000.0,
        router_aux_loss_coef=0.001, shared_expert_intermediate_size=5632, sliding_window=32768,
        **_sizes(151936, 2048, 5632, 24, 16, 16, 8192),
    ),
    "zai-org/GLM-4.5": _file(
        "glm4_moe", "Glm4Moe", version="4.54.0", attention_bias=True, attention_dropout=0.0,
        eos_token_id=[151329, 151336, 151338], first_k_dense_replace=3, head_dim=128,
        hidden_act="silu", moe_intermediate_size=1536, n_group=1, n_routed_experts=160,
        n_shared_experts=1, norm_topk_prob=True, num_experts_per_tok=8,
        num_nextn_predict_layers=1, pad_token_id=151329, partial_rotary_factor=0.5,
        rms_norm_eps=1e-5, rope_scaling=None, rope_theta=1000000, routed_scaling_factor=2.5,
        tie_word_embeddings=False, topk_group=1, use_qk_norm=True,
        **_sizes(151552, 5120, 12288, 92, 96, 8, 131072),
    ),
    "MiniMaxAI/MiniMax-M2": _file(
        "minimax_m2", "MiniMaxM2", version="4.57.1", attention_dropout=0.0,
        attn_type_list=[1] * 62, bos_token_id=None, eos_token_id=None, head_dim=128,
        hidden_act="silu", layernorm_full_attention_beta=1.0, layernorm_linear_attention_beta=1.0,
        layernorm_mlp_beta=1.0, mlp_intermediate_size=8192, mtp_transformer_layers=1,
        num_experts_per_tok=8, num_local_experts=256, num_mtp_modules=3,
        output_router_logits=False, qk_norm_type="per_layer", rms_norm_eps=1e-6,
        rope_theta=5000000, rotary_dim=64, router_aux_loss_coef=0.001, router_jitter_noise=0.0,
        scoring_func="sigmoid", shared_intermediate_size=0, shared_moe_mode="sigmoid",
        sliding_window=None, tie_word_embeddings=False, use_mtp=True, use_qk_norm=True,
        use_routing_bias=True, **_sizes(200064, 3072, 1536, 62, 48, 8, 196608),
    ),
    "zai-org/GLM-4.7-Flash": _file(
        "glm4_moe_lite", "Glm4MoeLite", version="5.0.0rc0", attention_bias=False,
        attention_dropout=0.0, eos_token_id=[154820, 154827, 154829], first_k_dense_replace=1,
        hidden_act="silu", kv_lora_rank=512, moe_intermediate_size=1536, n_group=1,
        n_routed_experts=64, n_shared_experts=1, norm_topk_prob=True, num_experts_per_tok=4,
        num_nextn_predict_layers=1, pad_token_id=154820, partial_rotary_factor=1.0,
        q_lora_rank=768, qk_nope_head_dim=192, qk_rope_head_dim=64, rms_norm_eps=1e-5,
        rope_scaling=None, rope_theta=1000000, routed_scaling_factor=1.8,
        tie_word_embeddings=False, topk_group=1, topk_method="noaux_tc", v_head_dim=256,
        **_sizes(154880, 2048, 10240, 47, 20, 20, 202752),
    ),
    "moonshotai/Kimi-K2-Instruct": _file(
        "kimi_k2", "DeepseekV3", version="4.48.3",
        **DEEPSEEK | {"bos_token_id": 163584, "eos_token_id": 163585, "n_shared_experts": 1}
        | {"norm_topk_prob": True, "scoring_func": "sigmoid", "rope_theta": 50000.0},
        first_k_dense_replace=1, moe_intermediate_size=2048, n_group=1, n_routed_experts=384,
        num_experts_per_tok=8, num_nextn_predict_layers=0, q_lora_rank=1536,
        rope_scaling=DEEPSEEK_YARN | {"beta_fast": 1.0, "beta_slow": 1.0, "factor": 32.0},
        routed_scaling_factor=2.827, topk_group=1, topk_method="noaux_tc",
        **_sizes(163840, 7168, 18432, 61, 64, 64, 131072),
    ),
    "deepseek-ai/DeepSeek-V2-Lite": _file(
        "deepseek_v2", "DeepseekV2", version="4.33.1", **DEEPSEEK, first_k_dense_replace=1,
        moe_intermediate_size=1408, n_group=1, n_routed_experts=64, num_experts_per_tok=6,
        q_lora_rank=None, rope_scaling=DEEPSEEK_YARN | {"mscale": 0.707, "mscale_all_dim": 0.707},
        routed_scaling_factor=1.0, topk_group=1, topk_method="greedy",
        **_sizes(102400, 2048, 10944, 27, 16, 16, 163840),
    ),
    "deepseek-ai/DeepSeek-V2": _file(
        "deepseek_v2", "DeepseekV2", version="4.39.3", **DEEPSEEK, first_k_dense_replace=1,
        moe_intermediate_size=1536, n_group=8, n_routed_experts=160, num_experts_per_tok=6,
        q_lora_rank=1536, rope_scaling=DEEPSEEK_YARN | {"mscale": 0.707, "mscale_all_dim": 0.707},
        routed_scaling_factor=16.0, topk_group=3, topk_method="group_limited_greedy",
        **_sizes(102400, 5120, 12288, 60, 128, 128, 163840),
    ),
    "tiiuae/falcon-7b": _file(
        "falcon", "Falcon", version="4.27.4", vocab_size=65024, hidden_size=4544,
        num_hidden_layers=32, num_attention_heads=71, multi_query=True,
        new_decoder_architecture=False, **FALCON,
    ),
    "tiiuae/falcon-40b": _file(
        "falcon", "Falcon", version="4.27.4", vocab_size=65024, hidden_size=8192,
        num_hidden_layers=60, num_attention_heads=128, num_kv_heads=8,
        new_decoder_architecture=True, **FALCON,
    ),
    "tiiuae/falcon-11B": _file(
        "falcon", "Falcon", version="4.39.2", vocab_size=65024, hidden_size=4096,
        num_hidden_layers=60, num_attention_heads=32, num_kv_heads=8, activation="gelu",
        ff_factor=4, ffn_hidden_size=16384, max_position_embeddings=8192,
        new_decoder_architecture=True, num_ln_in_parallel_attn=1, rope_scaling=None,
        rope_theta=5000042.0, tie_word_embeddings=False, **FALCON,
    ),
    "tiiuae/falcon-rw-1b": _file(
        "falcon", "Falcon", version="4.27.4", vocab_size=50304, hidden_size=2048,
        num_hidden_layers=24, num_attention_heads=32, multi_query=False,
        new_decoder_architecture=False,
        **FALCON | {"alibi": True, "bias": True, "parallel_attn": False},
    ),
    "facebook/opt-125m": _file(
        "opt", "OPT", "float16", "4.21.0.dev0", **OPT, ffn_dim=3072, hidden_size=768,
        num_attention_heads=12, num_hidden_layers=12, word_embed_proj_dim=768,
    ),
    "facebook/opt-1.3b": _file(
        "opt", "OPT", "float16", "4.21.0.dev0", **OPT, ffn_dim=8192, hidden_size=2048,
        num_attention_heads=32, num_hidden_layers=24, word_embed_proj_dim=2048,
    ),
    "facebook/opt-350m": _file(
        "opt", "OPT", "float16", "4.20.0.dev0", **OPT | {"do_layer_norm_before": False},
        ffn_dim=4096, hidden_size=1024, num_attention_heads=16, num_hidden_layers=24,
        word_embed_proj_dim=512,
    ),
    "EleutherAI/gpt-neo-125m": _file(
        "gpt_neo", "GPTNeo", **NEO, attention_layers=["global", "local"] * 6,
        attention_types=[[["global", "local"], 6]], hidden_size=768, num_heads=12, num_layers=12,
    ),
    "EleutherAI/gpt-neo-1.3B": _file(
        "gpt_neo", "GPTNeo", **NEO, attention_layers=["global", "local"] * 12,
        attention_types=[[["global", "local"], 12]], hidden_size=2048, num_heads=16,
        num_layers=24,
    ),
    "bigcode/starcoderbase": _file(
        "gpt_bigcode", "GPTBigCode", "float32", "4.28.1", **BIGCODE, activation_function="gelu",
        n_embd=6144, n_head=48, n_inner=24576, n_layer=40, n_positions=8192, vocab_size=49152,
        bos_token_id=0, eos_token_id=0, inference_runner=0, max_batch_size=None,
        max_sequence_length=None, pad_key_length=True, pre_allocate_kv_cache=False,
        validate_runner_input=True,
    ),
    "bigcode/gpt_bigcode-santacoder": _file(
        "gpt_bigcode", "GPTBigCode", "float32", "4.28.0.dev0", **BIGCODE,
        activation_function="gelu_pytorch_tanh", n_embd=2048, n_head=16, n_inner=8192,
        n_layer=24, n_positions=2048, vocab_size=49280, bos_token_id=49152, eos_token_id=49152,
    ),
    "mosaicml/mpt-7b": _file(
        "mpt", "MPT", version="4.28.1", **MPT, attn_config=OF_MPT, d_model=4096, n_heads=32,
        n_layers=32, max_seq_len=2048, vocab_size=50432,
    ),
    "mosaicml/mpt-30b": _file(
        "mpt", "MPT", version="4.30.2", **MPT, attn_config=OF_MPT, d_model=7168, n_heads=64,
        n_layers=48, max_seq_len=8192, vocab_size=50432,
    ),
    "databricks/dbrx-instruct": _file(
        "dbrx", "Dbrx", version="4.38.2", **DBRX,
    ),
    "naver-hyperclovax/HyperCLOVAX-SEED-Think-14B": _file(
        "hyperclovax", "HyperCLOVAX", "float32", "4.52.4",
        **_sizes(110592, 6144, 14336, 38, 48, 8, 131072), head_dim=128, attention_bias=False,
        attention_dropout=0.0, attention_multiplier=0.0078125, embedding_multiplier=10.0,
        logits_scaling=0.125, residual_multiplier=1.0, resid_pdrop=0.0, mlp_bias=False,
        hidden_act="silu", rms_norm_eps=1e-5, rope_scaling=None, rope_theta=100000000,
        summary_first_dropout=0.0, pretraining_tp=1, tie_word_embeddings=False, use_post_norm=True,
        bos_token_id=100257, eos_token_id=100257, pad_token_id=100257, end_token_id=100257,
    ),
    "bigcode/starcoder2-7b": _file(
        "starcoder2", "Starcoder2", version="4.37.0.dev0",
        **_sizes(49152, 4608, 18432, 32, 36, 4, 16384), attention_dropout=0.1, bos_token_id=0,
        eos_token_id=0, activation_function="gelu_pytorch_tanh", embedding_dropout=0.1,
        hidden_act="gelu_pytorch_tanh", layer_norm_epsilon=1e-5, mlp_type="default",
        norm_epsilon=1e-5, norm_type="layer_norm", residual_dropout=0.1, rope_theta=1000000,
        scale_attention_softmax_in_fp32=True, scale_attn_weights=True, sliding_window=4096,
        use_bias=True,
    ),
    "Qwen/Qwen2-57B-A14B": _file(
        "qwen2_moe", "Qwen2Moe", version="4.40.1", **_sizes(151936, 3584, 18944, 28, 28, 4, 131072),
        **QWEN, decoder_sparse_step=1, max_window_layers=28, moe_intermediate_size=2560,
        norm_topk_prob=False, num_experts=64, num_experts_per_tok=8, output_router_logits=False,
        rope_theta=1000000.0, router_aux_loss_coef=0.001, shared_expert_intermediate_size=20480,
        sliding_window=65536,
    ),
}  # fmt: skip
PUBLISHED |= {  # relatives of the files above
    "stanford-crfm/alias-gpt2-small-x21": PUBLISHED["openai-community/gpt2"] | {
        "gradient_checkpointing": False, "n_inner": None, "reorder_and_upcast_attn": True,
        "scale_attn_by_inverse_layer_idx": True, "scale_attn_weights": True,
        "torch_dtype": "float32", "transformers_version": "4.10.0.dev0", "use_cache": True,
    },
    "Qwen/Qwen3-30B-A3B, with the window of Qwen3-0.6B": PUBLISHED["Qwen/Qwen3-30B-A3B"] | {
        "sliding_window": 32768,
    },
    "google/gemma-2-27b": PUBLISHED["google/gemma-2-2b"] | {
        "transformers_version": "4.42.0.dev0", "head_dim": 128, "query_pre_attn_scalar": 144,
        "sliding_window_size": 4096, "_attn_implementation": "eager", "hidden_size": 4608,
        "intermediate_size": 36864, "num_hidden_layers": 46, "num_attention_heads": 32,
        "num_key_value_heads": 16,
    },
    "zai-org/GLM-4.5-Air": PUBLISHED["zai-org/GLM-4.5"] | {
        "first_k_dense_replace": 1, "moe_intermediate_size": 1408, "n_routed_experts": 128,
        "routed_scaling_factor": 1.0, "use_qk_norm": False, "hidden_size": 4096,
        "intermediate_size": 10944, "num_hidden_layers": 46,
    },
    "mosaicml/mpt-7b-storywriter": PUBLISHED["mosaicml/mpt-7b"] | {
        "attn_config": OF_MPT | {"alibi_bias_max": 16, "clip_qkv": 6}, "max_seq_len": 65536,
    },
    "mistralai/Mixtral-8x22B-v0.1": PUBLISHED["mistralai/Mixtral-8x7B-v0.1"] | {
        "transformers_version": "4.38.0", "hidden_size": 6144, "intermediate_size": 16384,
        "num_hidden_layers": 56, "num_attention_heads": 48, "max_position_embeddings": 65536,
        "rope_theta": 1000000, "router_aux_loss_coef": 0.001,
    },
    "allenai/OLMo-2-1124-13B": PUBLISHED["allenai/OLMo-2-1124-7B"] | {
        "hidden_size": 5120, "intermediate_size": 13824, "num_hidden_layers": 40,
        "num_attention_heads": 40, "num_key_value_heads": 40,
    },
    "ibm-granite/granite-3.1-2b-base": PUBLISHED["ibm-granite/granite-3.0-2b-base"] | {
        "transformers_version": "4.47.0.dev0", "vocab_size": 49152,
        "max_position_embeddings": 131072, "rope_theta": 5000000.0,
    },
}  # fmt: skip

#: Models with an encoder, alone or before a decoder.
ENCODERS = {
    "google-bert/bert-base-uncased": {
        "architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1,
        "gradient_checkpointing": False, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
        "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
        "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "bert",
        "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 0,
        "position_embedding_type": "absolute", "transformers_version": "4.6.0.dev0",
        "type_vocab_size": 2, "use_cache": True, "vocab_size": 30522,
    },
    "google-bert/bert-base-multilingual-cased": {
        "architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1,
        "directionality": "bidi", "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
        "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
        "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "bert",
        "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 0,
        "pooler_fc_size": 768, "pooler_num_attention_heads": 12, "pooler_num_fc_layers": 3,
        "pooler_size_per_head": 128, "pooler_type": "first_token_transform",
        "type_vocab_size": 2, "vocab_size": 119547,
    },
    "FacebookAI/roberta-base": {
        "architectures": ["RobertaForMaskedLM"], "attention_probs_dropout_prob": 0.1,
        "bos_token_id": 0, "eos_token_id": 2, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
        "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
        "layer_norm_eps": 1e-05, "max_position_embeddings": 514, "model_type": "roberta",
        "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 1,
        "type_vocab_size": 1, "vocab_size": 50265,
    },
    "distilbert/distilbert-base-uncased": {
        "activation": "gelu", "architectures": ["DistilBertForMaskedLM"],
        "attention_dropout": 0.1, "dim": 768, "dropout": 0.1, "hidden_dim": 3072,
        "initializer_range": 0.02, "max_position_embeddings": 512, "model_type": "distilbert",
        "n_heads": 12, "n_layers": 6, "pad_token_id": 0, "qa_dropout": 0.1,
        "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": False, "tie_weights_": True,
        "transformers_version": "4.10.0.dev0", "vocab_size": 30522,
    },
    "google-t5/t5-small": {
        "architectures": ["T5ForConditionalGeneration"], "d_ff": 2048, "d_kv": 64,
        "d_model": 512, "decoder_start_token_id": 0, "dropout_rate": 0.1, "eos_token_id": 1,
        "initializer_factor": 1.0, "is_encoder_decoder": True, "layer_norm_epsilon": 1e-06,
        "model_type": "t5", "n_positions": 512, "num_heads": 8, "num_layers": 6,
        "output_past": True, "pad_token_id": 0, "relative_attention_num_buckets": 32,
        "task_specific_params": {"translation_en_to_de": {"prefix": "translate: "}},
        "vocab_size": 32128,
    },
    "google/flan-t5-base": {
        "architectures": ["T5ForConditionalGeneration"], "d_ff": 2048, "d_kv": 64,
        "d_model": 768, "decoder_start_token_id": 0, "dropout_rate": 0.1, "eos_token_id": 1,
        "feed_forward_proj": "gated-gelu", "initializer_factor": 1.0, "is_encoder_decoder": True,
        "layer_norm_epsilon": 1e-06, "model_type": "t5", "n_positions": 512,
        "num_decoder_layers": 12, "num_heads": 12, "num_layers": 12, "output_past": True,
        "pad_token_id": 0, "relative_attention_max_distance": 128,
        "relative_attention_num_buckets": 32, "task_specific_params": {},
        "tie_word_embeddings": False, "transformers_version": "4.23.1", "use_cache": True,
        "vocab_size": 32128,
    },
    "google/mt5-small": {
        "architectures": ["MT5ForConditionalGeneration"], "d_ff": 1024, "d_kv": 64,
        "d_model": 512, "decoder_start_token_id": 0, "dropout_rate": 0.1, "eos_token_id": 1,
        "feed_forward_proj": "gated-gelu", "initializer_factor": 1.0, "is_encoder_decoder": True,
        "layer_norm_epsilon": 1e-06, "model_type": "mt5", "num_decoder_layers": 8,
        "num_heads": 6, "num_layers": 8, "pad_token_id": 0,
        "relative_attention_num_buckets": 32, "tie_word_embeddings": False,
        "tokenizer_class": "T5Tokenizer", "transformers_version": "4.10.0.dev0",
        "use_cache": True, "vocab_size": 250112,
    },
}  # fmt: skip

#: Sizes of small models, by the names of their entries.
SMALL = {
    "vocab_size": V, "hidden_size": 32, "n_embd": 32, "intermediate_size": 24,
    "num_hidden_layers": 4, "n_layer": 4, "num_attention_heads": 4, "n_head": 4,
    "max_position_embeddings": 64, "n_positions": 64, "n_ctx": 64, "head_dim": 8,
    "num_experts": 8, "num_local_experts": 8, "n_routed_experts": 8, "num_experts_per_tok": 3,
    "experts_per_token": 3, "moe_intermediate_size": 12, "shared_expert_intermediate_size": 24,
    "kv_lora_rank": 6, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6, "v_head_dim": 5,
    "linear_key_head_dim": 5, "linear_value_head_dim": 6, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "original_max_position_embeddings": 16,
    "dim": 32, "n_heads": 4, "n_layers": 4, "hidden_dim": 24, "d_model": 32, "d_ff": 24,
    "d_kv": 8, "num_heads": 4, "num_layers": 4, "num_decoder_layers": 4,
    "initial_context_length": 16, "attention_head_dim": 8, "rotary_dim": 4, "n_inner": 24,
    "moe_num_experts": 8, "moe_k": 3, "embedding_size": 32, "moe_topk": 3,
    "input_embedding_size": 20, "output_embedding_size": 28,
    "shared_intermediate_size": 20, "num_kv_heads": 2, "ffn_hidden_size": 24,
    "ffn_dim": 24, "word_embed_proj_dim": 32, "kv_n_heads": 2, "moe_top_k": 3,
}  # fmt: skip
#: Sizes of tokens and of windows, which are given where the text has so many.
TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}
OF_IMAGES = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "image_size": 28}
OF_IMAGES |= {"num_attention_heads": 2}
INNER = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
INNER += ("vocab_size",)
GEMMA3 = {"num_key_value_heads": 2, "head_dim": 8}


def _four_layers_of_neo(found):
    """Return the entries of GPT-Neo that say which layer has a window, for four layers."""
    if "attention_types" not in found:
        return {}
    types = [[["global", "local"], 2]]
    return {"attention_types": types, "attention_layers": ["global", "local"] * 2, "window_size": 3}


#: Models whose positions count from the padding token end in one of these.
OF_ROBERTA = ("roberta", "camembert", "data2vec-text", "prelayernorm", "roberta-xl", "biogpt")


def _tokens_of(published):
    """Return the numbers of special tokens."""
    kind = published.get("model_type", "")
    if kind.endswith(OF_ROBERTA):
        return TOKENS | {"pad_token_id": 1}  # from which its positions count
    return TOKENS | ({"pad_token_id": 0} if kind.startswith("emu3") else {})  # it must have one


def _of_inner_parts(published):
    """Return a bound that small models exceed, a width of embeddings, and inner entries."""
    found = {"clip_qkv": 0.5} if published.get("clip_qkv") else {}
    if published.get("word_embed_proj_dim") not in (None, published.get("hidden_size")):
        found["word_embed_proj_dim"] = 16
    inner = ("attn_config", "ffn_config")
    return found | {name: small(published[name]) for name in inner if name in published}


def small(published):
    """Return a published file with small sizes: other entries, and which there are, stay."""
    found = {k: v if v == 0 else SMALL.get(k, v) for k, v in published.items()}
    found |= {name: value for name, value in _tokens_of(published).items() if name in found}
    layers = found.get("num_hidden_layers", 4)
    found |= _four_layers_of_neo(found)
    for name, value in published.items():
        if isinstance(value, list) and len(value) == published.get("num_hidden_layers"):
            found[name] = [SMALL.get(name, one) for one in value[:layers]]
    if (keys := published.get("num_key_value_heads")) is not None:
        whole = keys == published["num_attention_heads"]
        found["num_key_value_heads"] = 4 if whole else min(keys, 2)
    for name in ("sliding_window", "sliding_window_size"):
        if found.get(name):
            found[name] = 5
    found |= _of_inner_parts(published)
    if published.get("n_group", 1) > 1:
        found |= {"n_group": 4, "topk_group": 2}
    if published.get("q_lora_rank"):
        found["q_lora_rank"] = 5
    if published.get("embedding_size") not in (None, published.get("hidden_size")):
        found["embedding_size"] = 20
    if found.get("query_pre_attn_scalar"):
        found["query_pre_attn_scalar"] = 11
    if scaling := published.get("rope_scaling"):
        trained = {k: SMALL[k] for k in ("original_max_position_embeddings",) if k in scaling}
        short = {k: v[:4] for k, v in scaling.items() if isinstance(v, list)}  # one a pair
        found["rope_scaling"] = scaling | trained | short
    if "vision_config" in published:
        given = published["vision_config"]
        found["vision_config"] = given | (OF_IMAGES if "depth" not in given else {})
    if inner := published.get("text_config"):
        sizes = GEMMA3 if published["model_type"] == "gemma3" else {}
        found["text_config"] = {k: SMALL[k] for k in INNER} | sizes | small(inner)
    return found
