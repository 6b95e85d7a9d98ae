"""
More files config.json, written down before any of them was tried.

Those of `LOOKED_UP` were copied from public repositories that hold them whole; the others are from
memory, so that a size may be wrong there.
"""

from published import ENCODERS, LLAMA, LLAMA3, OPT, PUBLISHED, QWEN, _file, _sizes

#: In the model presets of MLC LLM, in Tenstorrent's tt-metal, in NVIDIA's aiconfigurator, and in
#: repositories of people who keep their fine-tuned models there.
LOOKED_UP = [
    "humain-ai/ALLaM-7B-Instruct-preview", "Qwen/Qwen3-Embedding-0.6B", "Qwen/Qwen1.5-1.8B-Chat",
    "allenai/Olmo-3.1-32B-Instruct", "codellama/CodeLlama-7b-hf",
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0", "mistralai/Mistral-7B-v0.3",
    "togethercomputer/RedPajama-INCITE-Base-3B-v1", "microsoft/Phi-4-mini-instruct",
    "google/gemma-2-2b-jpn-it", "google/gemma-2-9b", "CohereForAI/aya-23-8B",
    "HuggingFaceTB/SmolLM-360M", "HuggingFaceTB/SmolLM2-360M", "stabilityai/stablelm-2-zephyr-1_6b",
    "bigcode/starcoder2-15b, by MLC", "openai-community/gpt2-medium", "bigcode/santacoder, by MLC",
    "Qwen/Qwen3-Next-80B-A3B-Thinking", "Qwen/Qwen3.5-9B", "AshiqAbdulkhader/GPT2-Poet",
    "qwen3-0.6b-base-think-sft", "Snowflake/snowflake-arctic-embed-m",
    "cointegrated/rubert-tiny2, fine-tuned", "780Noman/NER_Using_BERT",
    "AXRZCE/electronix-ai-sentiment-analysis", "ASSERT-KTH/RewardRepair", "20161609/English-Drill",
    "3dmax810/Intention-classification-task",
]  # fmt: skip
OLD_LLAMA = {"hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2, "rms_norm_eps": 1e-5}
OLD_LLAMA |= {"pretraining_tp": 1, "rope_scaling": None, "tie_word_embeddings": False}
GEMMA2 = {
    "attention_bias": False, "attention_dropout": 0.0, "attn_logit_softcapping": 50.0,
    "bos_token_id": 2, "cache_implementation": "hybrid", "eos_token_id": 1,
    "final_logit_softcapping": 30.0, "hidden_activation": "gelu_pytorch_tanh", "pad_token_id": 0,
    "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "sliding_window": 4096, "vocab_size": 256000,
}  # fmt: skip
GPT2 = {
    "activation_function": "gelu_new", "attn_pdrop": 0.1, "bos_token_id": 50256,
    "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-5, "model_type": "gpt2", "resid_pdrop": 0.1,
    "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True,
    "summary_type": "cls_index", "summary_use_proj": True, "vocab_size": 50257,
    "architectures": ["GPT2LMHeadModel"],
}  # fmt: skip
THREE_THEN_ONE = ["sliding_attention"] * 3 + ["full_attention"]
DELTAS = ["linear_attention"] * 3 + ["full_attention"]
LATER = {
    "humain-ai/ALLaM-7B-Instruct-preview": _file(
        "llama", "Llama", version="4.53.0", **LLAMA | {"rms_norm_eps": 1e-5}, bos_token_id=1,
        eos_token_id=2, head_dim=128, internal_version="7b-alpha-v2.33.0.30", rope_scaling=None,
        rope_theta=1000000.0, **_sizes(64000, 4096, 11008, 32, 32, 32, 4096),
    ),
    "Qwen/Qwen3-Embedding-0.6B": PUBLISHED["Qwen/Qwen3-0.6B-Base"] | {
        "transformers_version": "4.51.3", "eos_token_id": 151643, "sliding_window": None,
        "vocab_size": 151669,
    },
    "Qwen/Qwen1.5-1.8B-Chat": _file(
        "qwen2", "Qwen2", version="4.37.2", **QWEN, _name_or_path="Qwen/Qwen1.5-1.8B-Chat",
        max_window_layers=21, rope_theta=1000000.0, sliding_window=32768,
        **_sizes(151936, 2048, 5504, 24, 16, 16, 4096),
    ) | {"tie_word_embeddings": True},
    "allenai/Olmo-3.1-32B-Instruct": {
        k: v for k, v in _file(
            "olmo3", "Olmo3", version="4.57.1", attention_bias=False, attention_dropout=0.0,
            eos_token_id=100257, hidden_act="silu", layer_types=THREE_THEN_ONE * 16,
            pad_token_id=100277, rms_norm_eps=1e-6, rope_theta=500000, sliding_window=4096,
            rope_scaling={
                "attention_factor": 1.2079441541679836, "beta_fast": 32, "beta_slow": 1,
                "factor": 8.0, "original_max_position_embeddings": 8192, "rope_type": "yarn",
            },
            tie_word_embeddings=False, **_sizes(100278, 5120, 27648, 64, 40, 8, 65536),
        ).items() if k != "torch_dtype"
    } | {"dtype": "bfloat16", "use_cache": False},
    "codellama/CodeLlama-7b-hf": _file(
        "llama", "Llama", version="4.33.0.dev0", _name_or_path="codellama/CodeLlama-7b-hf",
        **OLD_LLAMA, rope_theta=1000000, **_sizes(32016, 4096, 11008, 32, 32, 32, 16384),
    ),
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": _file(
        "llama", "Llama", version="4.35.0", attention_bias=False, **OLD_LLAMA,
        rope_theta=10000.0, **_sizes(32000, 2048, 5632, 22, 32, 4, 2048),
    ),
    "mistralai/Mistral-7B-v0.3": PUBLISHED["mistralai/Mistral-7B-v0.1"] | {
        "transformers_version": "4.42.0.dev0", "attention_dropout": 0.0, "rope_theta": 1000000.0,
        "sliding_window": None, "vocab_size": 32768,
    },
    "togethercomputer/RedPajama-INCITE-Base-3B-v1": PUBLISHED["EleutherAI/pythia-160m"] | {
        "_name_or_path": "/root/fm/models/rp_3b_800b_real_fp16", "hidden_size": 2560,
        "intermediate_size": 10240, "num_attention_heads": 32, "num_hidden_layers": 32,
        "rotary_pct": 1.0, "transformers_version": "4.28.1", "use_parallel_residual": False,
        "vocab_size": 50432,
    },
    "microsoft/Phi-4-mini-instruct": _file(
        "phi3", "Phi3", version="4.45.0", _name_or_path="Phi-4-mini-instruct",
        attention_bias=False, attention_dropout=0.0,
        auto_map={
            "AutoConfig": "configuration_phi3.Phi3Config",
            "AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM",
            "AutoTokenizer": "Xenova/gpt-4o",
        },
        bos_token_id=199999, embd_pdrop=0.0, eos_token_id=199999, full_attn_mod=1,
        hidden_act="silu", interpolate_factor=1, lm_head_bias=False, mlp_bias=False,
        original_max_position_embeddings=4096, pad_token_id=199999, partial_rotary_factor=0.75,
        resid_pdrop=0.0, rms_norm_eps=1e-5, rope_theta=10000.0, sliding_window=262144,
        rope_scaling={"long_factor": [1.0] * 48, "short_factor": [1.0] * 48, "type": "longrope"},
        tie_word_embeddings=True, **_sizes(200064, 3072, 8192, 32, 24, 8, 131072),
    ),
    "microsoft/Phi-4-mini-instruct, without its scaling": _file(
        "phi3", "Phi3", version="4.45.0", attention_bias=False, attention_dropout=0.0,
        auto_map={"AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM"},
        bos_token_id=199999, embd_pdrop=0.0, eos_token_id=199999, full_attn_mod=1,
        hidden_act="silu", interpolate_factor=1, lm_head_bias=False, mlp_bias=False,
        original_max_position_embeddings=4096, pad_token_id=199999, partial_rotary_factor=0.75,
        resid_pdrop=0.0, rms_norm_eps=1e-5, rope_theta=10000.0, sliding_window=262144,
        rope_scaling=None, tie_word_embeddings=True,
        **_sizes(200064, 3072, 8192, 32, 24, 8, 4096),
    ),
    "google/gemma-2-2b-jpn-it": _file(
        "gemma2", "Gemma2", version="4.44.2", **GEMMA2, dtype="bfloat16", head_dim=256,
        hidden_size=2304, intermediate_size=9216, max_position_embeddings=8192,
        num_attention_heads=8, num_hidden_layers=26, num_key_value_heads=4,
        query_pre_attn_scalar=224,
    ),
    "google/gemma-2-9b": _file(
        "gemma2", "Gemma2", version="4.42.0.dev0", **GEMMA2, head_dim=256,
        hidden_act="gelu_pytorch_tanh", hidden_size=3584, intermediate_size=14336,
        max_position_embeddings=8192, num_attention_heads=16, num_hidden_layers=42,
        num_key_value_heads=8, query_pre_attn_scalar=256, sliding_window_size=4096,
    ),
    "CohereForAI/aya-23-8B": _file(
        "cohere", "Cohere", "float16", "4.40.0.dev0", attention_bias=False, attention_dropout=0.0,
        bos_token_id=5, eos_token_id=255001, hidden_act="silu", layer_norm_eps=1e-5,
        logit_scale=0.0625, pad_token_id=0, rope_theta=10000, use_qk_norm=False,
        **_sizes(256000, 4096, 14336, 32, 32, 8, 8192),
    ),
    "HuggingFaceTB/SmolLM-360M": _file(
        "llama", "Llama", version="4.42.3", attention_bias=False, attention_dropout=0.0,
        _name_or_path="HuggingFaceTB/cosmo2-350M-webinst-sc2", mlp_bias=False, pad_token_id=2,
        **OLD_LLAMA | {"tie_word_embeddings": True}, rope_theta=10000.0,
        **_sizes(49152, 960, 2560, 32, 15, 5, 2048),
    ),
    "HuggingFaceTB/SmolLM2-360M": _file(
        "llama", "Llama", version="4.42.3", attention_bias=False, attention_dropout=0.0,
        is_llama_config=True, mlp_bias=False, pad_token_id=2, rope_interleaved=False,
        **OLD_LLAMA | {"tie_word_embeddings": True}, rope_theta=100000,
        **{"transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16", "fp16": "float16"}}},
        **_sizes(49152, 960, 2560, 32, 15, 5, 8192),
    ),
    "stabilityai/stablelm-2-zephyr-1_6b": _file(
        "stablelm", "StableLm", "float16", "4.38.0", bos_token_id=100257, eos_token_id=100257,
        hidden_act="silu", layer_norm_eps=1e-5, partial_rotary_factor=0.25, rope_theta=10000,
        tie_word_embeddings=False, use_qkv_bias=True,
        **_sizes(100352, 2048, 5632, 24, 32, 32, 4096),
    ),
    "bigcode/starcoder2-15b, by MLC": PUBLISHED["bigcode/starcoder2-7b"] | {
        "activation_function": "gelu", "attention_softmax_in_fp32": True,
    },
    "openai-community/gpt2-medium": PUBLISHED["openai-community/gpt2"] | {
        "n_embd": 1024, "n_head": 16, "n_layer": 24, "n_special": 0, "predict_special_tokens": True,
    },
    "bigcode/santacoder, by MLC": {
        k: v for k, v in GPT2.items() if k not in ("model_type", "architectures")
    } | {
        "activation_function": "gelu_pytorch_tanh", "architectures": ["GPTBigCodeForCausalLM"],
        "attention_softmax_in_fp32": True, "model_type": "gpt_bigcode", "multi_query": True,
        "n_embd": 2048, "n_head": 16, "n_inner": 8192, "n_layer": 24, "n_positions": 2048,
        "runner_max_sequence_length": None, "scale_attention_softmax_in_fp32": True,
        "scale_attn_weights": True, "transformers_version": "4.28.0.dev0", "use_cache": True,
        "vocab_size": 49280,
    },
    "AshiqAbdulkhader/GPT2-Poet": GPT2 | {
        "n_embd": 768, "n_head": 12, "n_inner": None, "n_layer": 12, "n_positions": 1024,
        "reorder_and_upcast_attn": False, "scale_attn_by_inverse_layer_idx": False,
        "scale_attn_weights": True, "transformers_version": "4.20.1", "use_cache": True,
    },
    "Qwen/Qwen3-Next-80B-A3B-Thinking": _file(
        "qwen3_next", "Qwen3Next", version="4.57.0.dev0", attention_dropout=0.0,
        bos_token_id=151643, decoder_sparse_step=1, eos_token_id=151645, full_attention_interval=4,
        head_dim=256, hidden_act="silu", linear_conv_kernel_dim=4, linear_key_head_dim=128,
        linear_num_key_heads=16, linear_num_value_heads=32, linear_value_head_dim=128,
        mlp_only_layers=[], moe_intermediate_size=512, norm_topk_prob=True, num_experts=512,
        num_experts_per_tok=10, output_router_logits=False, partial_rotary_factor=0.25,
        rms_norm_eps=1e-6, rope_scaling=None, rope_theta=10000000, router_aux_loss_coef=0.001,
        shared_expert_intermediate_size=512, tie_word_embeddings=False, use_sliding_window=False,
        **_sizes(151936, 2048, 5120, 48, 16, 2, 262144),
    ),
    "Qwen/Qwen3.5-9B": {
        "architectures": ["Qwen3_5ForConditionalGeneration"], "image_token_id": 21,
        "model_type": "qwen3_5",
        "text_config": {
            "attention_bias": False, "attention_dropout": 0.0, "attn_output_gate": True,
            "dtype": "bfloat16", "eos_token_id": 248044, "full_attention_interval": 4,
            "head_dim": 256, "hidden_act": "silu", "initializer_range": 0.02,
            "layer_types": DELTAS * 8, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
            "linear_num_key_heads": 16, "linear_num_value_heads": 32,
            "linear_value_head_dim": 128, "mlp_only_layers": [], "model_type": "qwen3_5_text",
            "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False,
            "rms_norm_eps": 1e-6, "use_cache": True, "mamba_ssm_dtype": "float32",
            "rope_parameters": {
                "mrope_interleaved": True, "mrope_section": [11, 11, 10], "rope_type": "default",
                "rope_theta": 10000000, "partial_rotary_factor": 0.25,
            },
            **_sizes(248320, 4096, 12288, 32, 16, 4, 262144),
        },
        "tie_word_embeddings": False, "transformers_version": "4.57.0.dev0", "video_token_id": 22,
        "vision_config": {
            "deepstack_visual_indexes": [], "depth": 1, "hidden_act": "gelu_pytorch_tanh",
            "hidden_size": 8, "in_channels": 3, "initializer_range": 0.02, "intermediate_size": 8,
            "model_type": "qwen3_5", "num_heads": 2, "num_position_embeddings": 16,
            "out_hidden_size": 32, "patch_size": 4, "spatial_merge_size": 2,
            "temporal_patch_size": 2,
        },
        "vision_end_token_id": 20, "vision_start_token_id": 19,
    },
    "qwen3-0.6b-base-think-sft": _file(
        "qwen3", "Qwen3", "float32", "4.54.0", **QWEN | {"tie_word_embeddings": True},
        attention_bias=False, head_dim=128, layer_types=["full_attention"] * 28,
        max_window_layers=28, rope_scaling=None, rope_theta=1000000, sliding_window=None,
        **_sizes(151936, 1024, 3072, 28, 16, 8, 40960),
    ),
    "NousResearch/Yarn-Llama-2-7b-64k": _file(
        "llama", "Llama", "bfloat16", "4.33.0", _name_or_path="meta-llama/Llama-2-7b-hf",
        auto_map={
            "AutoConfig": "configuration_llama.LlamaConfig",
            "AutoModelForCausalLM": "modeling_llama_together_yarn.LlamaForCausalLM",
        },
        **OLD_LLAMA | {"rope_scaling": {
            "factor": 16.0, "finetuned": True, "original_max_position_embeddings": 4096,
            "type": "yarn",
        }},
        pad_token_id=0, rope_theta=10000.0, **_sizes(32000, 4096, 11008, 32, 32, 32, 65536),
    ),
    "deepseek-ai/DeepSeek-R1-0528-Qwen3-8B": _file(
        "qwen3", "Qwen3", version="4.51.0", **QWEN, attention_bias=False, head_dim=128,
        max_window_layers=36, rope_theta=1000000, sliding_window=None,
        rope_scaling={
            "attn_factor": 0.8782488562869419, "factor": 4.0,
            "original_max_position_embeddings": 32768, "rope_type": "yarn",
        },
        **_sizes(151936, 4096, 12288, 36, 32, 8, 131072),
    ),
    "huggyllama/llama-7b": {
        "architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2,
        "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 11008,
        "initializer_range": 0.02, "max_sequence_length": 2048, "max_position_embeddings": 2048,
        "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
        "pad_token_id": 0, "rms_norm_eps": 1e-06, "torch_dtype": "float16",
        "transformers_version": "4.28.0.dev0", "use_cache": True, "vocab_size": 32000,
    },
    "AI-Sweden-Models/gpt-sw3-356m": GPT2 | {
        "activation_function": "gelu", "apply_query_key_layer_scaling": True, "eos_token_id": 3,
        "bos_token_id": 2, "pad_token_id": 0, "n_embd": 1024, "n_head": 16, "n_inner": 4096,
        "n_layer": 24, "n_positions": 2048, "normalize_attention_scores": True,
        "reorder_and_upcast_attn": False, "scale_attn_by_inverse_layer_idx": False,
        "scale_attn_weights": True, "tokenizer_class": "GPTSw3Tokenizer",
        "torch_dtype": "float32", "transformers_version": "4.22.1", "use_cache": True,
        "vocab_size": 64000,
    },
    "stanford-crfm/BioMedLM": GPT2 | {
        "n_embd": 2560, "n_head": 20, "n_inner": None, "n_layer": 32, "n_positions": 1024,
        "attn_pdrop": 0.1, "bos_token_id": 28895, "eos_token_id": 28895,
        "reorder_and_upcast_attn": False, "scale_attn_by_inverse_layer_idx": True,
        "scale_attn_weights": True, "torch_dtype": "float32", "transformers_version": "4.24.0",
        "use_cache": False, "use_flash": True, "vocab_size": 28896,
    },
    "ai-forever/rugpt3large_based_on_gpt2": GPT2 | {
        "n_ctx": 2048, "n_embd": 1536, "n_head": 16, "n_inner": None, "n_layer": 24,
        "n_positions": 2048, "gradient_checkpointing": False, "id2label": {"0": "LABEL_0"},
        "label2id": {"LABEL_0": 0}, "output_past": True, "use_cache": True,
    },
    "rinna/japanese-gpt-neox-3.6b": {
        "architectures": ["GPTNeoXForCausalLM"], "bos_token_id": 2, "eos_token_id": 3,
        "hidden_act": "gelu", "hidden_size": 2816, "initializer_range": 0.02,
        "intermediate_size": 11264, "layer_norm_eps": 1e-05, "max_position_embeddings": 2048,
        "model_type": "gpt_neox", "num_attention_heads": 22, "num_hidden_layers": 36,
        "rotary_emb_base": 10000, "rotary_pct": 1.0, "tie_word_embeddings": False,
        "torch_dtype": "float16", "use_cache": True, "use_parallel_residual": False,
        "vocab_size": 32000, "classifier_dropout": 0.1, "attention_bias": True,
    },
    "stabilityai/stablelm-base-alpha-7b": PUBLISHED["EleutherAI/pythia-160m"] | {
        "hidden_size": 6144, "intermediate_size": 24576, "max_position_embeddings": 4096,
        "num_attention_heads": 48, "num_hidden_layers": 16, "transformers_version": "4.28.1",
        "vocab_size": 50432,
    },
    "tiiuae/falcon-180B": {
        "alibi": False, "architectures": ["FalconForCausalLM"], "attention_dropout": 0.0,
        "bias": False, "bos_token_id": 11, "eos_token_id": 11, "hidden_dropout": 0.0,
        "hidden_size": 14848, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
        "model_type": "falcon", "multi_query": True, "new_decoder_architecture": True,
        "num_attention_heads": 232, "num_hidden_layers": 80, "num_kv_heads": 8,
        "parallel_attn": True, "torch_dtype": "bfloat16", "transformers_version": "4.32.0",
        "use_cache": True, "vocab_size": 65024,
    },
    "tiiuae/falcon-7b-instruct, as first published": {
        "apply_residual_connection_post_layernorm": False, "architectures": ["FalconForCausalLM"],
        "auto_map": {
            "AutoConfig": "configuration_falcon.FalconConfig",
            "AutoModel": "modeling_falcon.FalconModel",
            "AutoModelForCausalLM": "modeling_falcon.FalconForCausalLM",
        },
        "attention_dropout": 0.0, "alibi": False, "bias": False, "bos_token_id": 11,
        "eos_token_id": 11, "hidden_dropout": 0.0, "hidden_size": 4544, "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-05, "model_type": "falcon", "multi_query": True,
        "new_decoder_architecture": False, "num_attention_heads": 71, "num_hidden_layers": 32,
        "parallel_attn": True, "torch_dtype": "bfloat16", "transformers_version": "4.27.4",
        "use_cache": True, "vocab_size": 65024, "n_head": 71, "n_layer": 32, "quantization": None,
    },
    "mosaicml/mpt-7b-8k-chat": {
        "architectures": ["MPTForCausalLM"],
        "attn_config": {
            "alibi": True, "alibi_bias_max": 8, "attn_impl": "torch", "attn_pdrop": 0,
            "attn_type": "multihead_attention", "attn_uses_sequence_id": False, "clip_qkv": None,
            "prefix_lm": False, "qk_ln": False, "softmax_scale": None,
        },
        "auto_map": {
            "AutoConfig": "configuration_mpt.MPTConfig",
            "AutoModelForCausalLM": "modeling_mpt.MPTForCausalLM",
        },
        "d_model": 4096, "emb_pdrop": 0, "embedding_fraction": 1.0, "expansion_ratio": 4,
        "init_config": {
            "emb_init_std": None, "emb_init_uniform_lim": None, "fan_mode": "fan_in",
            "init_div_is_residual": True, "init_gain": 0.0, "init_nonlinearity": "relu",
            "init_std": None, "name": "kaiming_normal_", "verbose": 0,
        },
        "init_device": "cpu", "learned_pos_emb": True, "logit_scale": None, "max_seq_len": 8192,
        "model_type": "mpt", "n_heads": 32, "n_layers": 32, "no_bias": True,
        "norm_type": "low_precision_layernorm", "resid_pdrop": 0,
        "tokenizer_name": "EleutherAI/gpt-neox-20b", "torch_dtype": "bfloat16",
        "transformers_version": "4.30.2", "use_cache": False, "verbose": 0, "vocab_size": 50432,
    },
    "facebook/opt-30b": OPT | {
        "architectures": ["OPTForCausalLM"], "ffn_dim": 28672, "hidden_size": 7168,
        "model_type": "opt", "num_attention_heads": 56, "num_hidden_layers": 48,
        "torch_dtype": "float16", "transformers_version": "4.21.0.dev0", "use_cache": True,
        "word_embed_proj_dim": 7168,
    },
    "ibm-granite/granite-3.3-8b-instruct": PUBLISHED["ibm-granite/granite-3.1-2b-base"] | {
        "transformers_version": "4.49.0", "attention_dropout": 0.0,
        "attention_multiplier": 0.0078125, "logits_scaling": 16.0, "rope_theta": 10000000.0,
        "vocab_size": 49159, "hidden_size": 4096, "intermediate_size": 12800,
    },
    "ibm-granite/granite-8b-code-base-4k": _file(
        "llama", "Llama", version="4.41.0.dev0", attention_bias=True, attention_dropout=0.1,
        bos_token_id=0, eos_token_id=0, hidden_act="silu", mlp_bias=True, pad_token_id=0,
        pretraining_tp=1, rms_norm_eps=1e-5, rope_scaling=None, rope_theta=10000,
        tie_word_embeddings=True, **_sizes(49152, 4096, 14336, 36, 32, 8, 4096),
    ),
    "zai-org/GLM-4-32B-0414": PUBLISHED["zai-org/GLM-4-9B-0414"] | {
        "hidden_size": 6144, "intermediate_size": 23040, "num_hidden_layers": 61,
        "num_attention_heads": 48,
    },
    "deepseek-ai/DeepSeek-Coder-V2-Lite-Instruct": _file(
        "deepseek_v2", "DeepseekV2", version="4.39.3", attention_bias=False,
        attention_dropout=0.0, aux_loss_alpha=0.001, bos_token_id=100000, eos_token_id=100001,
        auto_map={
            "AutoConfig": "configuration_deepseek.DeepseekV2Config",
            "AutoModel": "modeling_deepseek.DeepseekV2Model",
            "AutoModelForCausalLM": "modeling_deepseek.DeepseekV2ForCausalLM",
        },
        first_k_dense_replace=1, hidden_act="silu", kv_lora_rank=512, moe_intermediate_size=1408,
        moe_layer_freq=1, n_group=1, n_routed_experts=64, n_shared_experts=2,
        norm_topk_prob=False, num_experts_per_tok=6, pretraining_tp=1, q_lora_rank=None,
        qk_nope_head_dim=128, qk_rope_head_dim=64, rms_norm_eps=1e-6,
        rope_scaling={
            "beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707,
            "mscale_all_dim": 0.707, "original_max_position_embeddings": 4096, "type": "yarn",
        },
        rope_theta=10000, routed_scaling_factor=1.0, scoring_func="softmax", seq_aux=True,
        tie_word_embeddings=False, topk_group=1, topk_method="greedy", v_head_dim=128,
        **_sizes(102400, 2048, 10944, 27, 16, 16, 163840),
    ),
}  # fmt: skip
BERT = {
    "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
    "initializer_range": 0.02, "layer_norm_eps": 1e-12, "max_position_embeddings": 512,
    "model_type": "bert", "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 0,
    "hidden_size": 768, "intermediate_size": 3072, "type_vocab_size": 2,
}  # fmt: skip
SAVED = {
    "classifier_dropout": None, "position_embedding_type": "absolute", "torch_dtype": "float32",
    "use_cache": True,
}  # fmt: skip
ROBERTA = {"layer_norm_eps": 1e-5, "max_position_embeddings": 514, "model_type": "roberta"}
ROBERTA |= {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1, "type_vocab_size": 1}
REMBERT = {
    "architectures": ["RemBertModel"], "attention_probs_dropout_prob": 0, "bos_token_id": 312,
    "classifier_dropout_prob": 0.1, "eos_token_id": 313, "hidden_act": "gelu",
    "hidden_dropout_prob": 0, "hidden_size": 1152, "initializer_range": 0.02,
    "input_embedding_size": 256, "intermediate_size": 4608, "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512, "model_type": "rembert", "num_attention_heads": 18,
    "num_hidden_layers": 32, "output_embedding_size": 1664, "pad_token_id": 0,
    "type_vocab_size": 2, "vocab_size": 250300,
}  # fmt: skip
LATER_ENCODERS = {
    "google/electra-small-discriminator": BERT | {
        "architectures": ["ElectraForPreTraining"], "embedding_size": 128, "hidden_size": 256,
        "intermediate_size": 1024, "model_type": "electra", "num_attention_heads": 4,
        "summary_activation": "gelu", "summary_last_dropout": 0.1, "summary_type": "first",
        "summary_use_proj": True, "vocab_size": 30522,
    },
    "google/rembert": REMBERT,
    "google/rembert, saved again": REMBERT | {
        "architectures": ["RemBertForMaskedLM"], "classifier_dropout_prob": 0.1,
        "output_past": True, "transformers_version": "4.40.0", "use_cache": True,
    },
    "google/electra-base-generator": BERT | {
        "architectures": ["ElectraForMaskedLM"], "embedding_size": 768, "hidden_size": 256,
        "intermediate_size": 1024, "model_type": "electra", "num_attention_heads": 4,
        "summary_activation": "gelu", "summary_last_dropout": 0.1, "summary_type": "first",
        "summary_use_proj": True, "vocab_size": 30522,
    },
    "Snowflake/snowflake-arctic-embed-m": BERT | SAVED | {
        "architectures": ["BertModel"], "gradient_checkpointing": False, "vocab_size": 30522,
        "transformers_version": "4.36.1",
    },
    "cointegrated/rubert-tiny2, fine-tuned": BERT | SAVED | {
        "add_cross_attention": False, "architectures": ["BertForSequenceClassification"],
        "bos_token_id": None, "dtype": "float32", "emb_size": 312, "eos_token_id": None,
        "gradient_checkpointing": False, "hidden_size": 312, "intermediate_size": 600,
        "id2label": {"0": "negative", "1": "neutral", "2": "positive"}, "is_decoder": False,
        "label2id": {"negative": 0, "neutral": 1, "positive": 2}, "max_position_embeddings": 2048,
        "num_hidden_layers": 3, "problem_type": "single_label_classification",
        "tie_word_embeddings": True, "transformers_version": "5.18.0", "use_cache": False,
        "vocab_size": 83828,
    },
    "780Noman/NER_Using_BERT": BERT | SAVED | {
        "architectures": ["BertForTokenClassification"], "gradient_checkpointing": False,
        "id2label": {"0": "O", "1": "B-PER"}, "label2id": {"O": 0, "B-PER": 1},
        "transformers_version": "4.55.2", "vocab_size": 28996,
    },
    "AXRZCE/electronix-ai-sentiment-analysis": BERT | SAVED | ROBERTA | {
        "architectures": ["RobertaForSequenceClassification"], "gradient_checkpointing": False,
        "problem_type": "single_label_classification", "transformers_version": "4.52.4",
        "vocab_size": 50265,
    },
    "20161609/English-Drill": BERT | SAVED | ROBERTA | {
        "_name_or_path": "xlm-roberta-base", "model_type": "xlm-roberta", "output_past": True,
        "architectures": ["XLMRobertaForSequenceClassification"], "problem_type": "regression",
        "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0},
        "transformers_version": "4.44.2", "vocab_size": 250002,
    },
    "3dmax810/Intention-classification-task": BERT | SAVED | {
        "architectures": ["BertForSequenceClassification"], "directionality": "bidi",
        "pooler_fc_size": 768, "pooler_num_attention_heads": 12, "pooler_num_fc_layers": 3,
        "pooler_size_per_head": 128, "pooler_type": "first_token_transform",
        "transformers_version": "4.49.0", "vocab_size": 21128,
    },
    "ASSERT-KTH/RewardRepair": ENCODERS["google-t5/t5-small"] | {
        "_name_or_path": "./model/T5Coconut", "num_decoder_layers": 6, "output_hidden_states": True,
        "task_specific_params": {"summarization": {"early_stopping": True, "num_beams": 4}},
    },
    "google/byt5-small": {
        "architectures": ["T5ForConditionalGeneration"], "d_ff": 3584, "d_kv": 64,
        "d_model": 1472, "decoder_start_token_id": 0, "dropout_rate": 0.1, "eos_token_id": 1,
        "feed_forward_proj": "gated-gelu", "gradient_checkpointing": False,
        "initializer_factor": 1.0, "is_encoder_decoder": True, "layer_norm_epsilon": 1e-06,
        "model_type": "t5", "num_decoder_layers": 4, "num_heads": 6, "num_layers": 12,
        "pad_token_id": 0, "relative_attention_num_buckets": 32, "tie_word_embeddings": False,
        "tokenizer_class": "ByT5Tokenizer", "transformers_version": "4.7.0.dev0",
        "use_cache": True, "vocab_size": 384,
    },
    "google/ul2": {
        "architectures": ["T5ForConditionalGeneration"], "d_ff": 16384, "d_kv": 256,
        "d_model": 4096, "decoder_start_token_id": 0, "dense_act_fn": "silu", "dropout_rate": 0.0,
        "eos_token_id": 1, "feed_forward_proj": "gated-silu", "initializer_factor": 1.0,
        "is_encoder_decoder": True, "is_gated_act": True, "layer_norm_epsilon": 1e-06,
        "model_type": "t5", "num_decoder_layers": 32, "num_heads": 16, "num_layers": 32,
        "output_past": True, "pad_token_id": 0, "relative_attention_max_distance": 128,
        "relative_attention_num_buckets": 32, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "transformers_version": "4.20.0.dev0", "use_cache": True,
        "vocab_size": 32128,
    },
    "microsoft/codebert-base": BERT | ROBERTA | {
        "architectures": ["RobertaModel"], "output_past": True, "vocab_size": 50265,
    },
}  # fmt: skip

# Files that were written down after the others had been tried, and what they showed was mended.
LOOKED_UP += [
    "jiahe7ay/infini-mini-transformer, its Gemma", "mistralai/Mistral-7B-Instruct-v0.3",
    "AtulDeshpande09/Fine-tuned-Economics-QA-using-smolLM", "Qwen/Qwen2.5-32B-Instruct",
    "a1701s/politicalbiasdetection", "djacoo/nlp-llm-project",
    "Suryanarayanan-Balaji/GPT-MolBERTa", "4lhafz/streamlit-ner-beritakorupsi",
]  # fmt: skip
#: Entries that the package once wrote into every file.
ALL_OF_4_38 = {
    "return_dict": True, "output_hidden_states": False, "output_attentions": False,
    "torchscript": False, "use_bfloat16": False, "tf_legacy_loss": False, "pruned_heads": {},
    "chunk_size_feed_forward": 0, "is_encoder_decoder": False, "is_decoder": False,
    "cross_attention_hidden_size": None, "add_cross_attention": False,
    "tie_encoder_decoder": False, "max_length": 20, "min_length": 0, "do_sample": False,
    "early_stopping": False, "num_beams": 1, "num_beam_groups": 1, "diversity_penalty": 0.0,
    "temperature": 1.0, "top_k": 50, "top_p": 1.0, "typical_p": 1.0, "repetition_penalty": 1.0,
    "length_penalty": 1.0, "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0,
    "bad_words_ids": None, "num_return_sequences": 1, "output_scores": False,
    "return_dict_in_generate": False, "forced_bos_token_id": None, "forced_eos_token_id": None,
    "remove_invalid_values": False, "exponential_decay_length_penalty": None,
    "suppress_tokens": None, "begin_suppress_tokens": None, "finetuning_task": None,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1},
    "tokenizer_class": None, "prefix": None, "sep_token_id": None, "decoder_start_token_id": None,
    "task_specific_params": None, "problem_type": None,
}  # fmt: skip
LATER |= {
    "jiahe7ay/infini-mini-transformer, its Gemma": PUBLISHED["google/gemma-2b"] | {
        "vocab_size": 151936, "num_hidden_layers": 14,
    },
    "mistralai/Mistral-7B-Instruct-v0.3": _file(
        "mistral", "Mistral", version="4.38.0", attention_dropout=0.0, hidden_act="silu",
        rms_norm_eps=1e-5, rope_theta=1000000.0, sliding_window=None, tie_word_embeddings=False,
        bos_token_id=1, pad_token_id=None, eos_token_id=2, **ALL_OF_4_38,
        _name_or_path="mistralai/Mistral-7B-Instruct-v0.3",
        **_sizes(32768, 4096, 14336, 32, 32, 8, 32768),
    ),
    "AtulDeshpande09/Fine-tuned-Economics-QA-using-smolLM": _file(
        "llama", "Llama", "float32", "4.53.3", attention_bias=False, attention_dropout=0.0,
        head_dim=64, is_llama_config=True, mlp_bias=False, rope_interleaved=False,
        **OLD_LLAMA | {"tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 0},
        rope_theta=100000, **_sizes(49153, 960, 2560, 32, 15, 5, 8192),
    ),
    "Qwen/Qwen2.5-32B-Instruct": _file(
        "qwen2", "Qwen2", version="4.43.1", **QWEN, max_window_layers=70, rope_theta=1000000.0,
        sliding_window=131072, **_sizes(152064, 5120, 27648, 64, 40, 8, 131072),
    ),
    "microsoft/DialoGPT-large": GPT2 | {
        "n_ctx": 1024, "n_embd": 1280, "n_head": 20, "n_layer": 36, "n_positions": 1024,
        "task_specific_params": {"conversational": {"max_length": 1000}},
    },
    "skt/kogpt2-base-v2": GPT2 | {
        "_num_labels": 1, "author": "Heewon Jeon(madjakarta@gmail.com)", "bos_token_id": 0,
        "created_date": "2021-04-28", "eos_token_id": 1, "gradient_checkpointing": False,
        "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}, "license": "CC-BY-NC-SA 4.0",
        "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_inner": None, "n_layer": 12,
        "n_positions": 1024, "pad_token_id": 3, "task_specific_params": {}, "use_cache": True,
        "transformers_version": "4.2.2", "vocab_size": 51200,
    },
    "togethercomputer/LLaMA-2-7B-32K": _file(
        "llama", "Llama", "float16", "4.31.0", _name_or_path="togethercomputer/Llama-2-7B-32K",
        auto_map={"AutoModelForCausalLM": "modeling_flash_llama.LlamaForCausalLM"},
        **OLD_LLAMA | {"rope_scaling": {"factor": 8.0, "type": "linear"}}, pad_token_id=0,
        **_sizes(32000, 4096, 11008, 32, 32, 32, 32768),
    ),
    "cyberagent/open-calm-7b": PUBLISHED["EleutherAI/pythia-160m"] | {
        "hidden_size": 4096, "intermediate_size": 16384, "num_attention_heads": 32,
        "num_hidden_layers": 32, "rotary_pct": 1.0, "transformers_version": "4.27.0.dev0",
        "use_parallel_residual": False, "vocab_size": 52224,
    },
    "openai/gpt-oss-120b": PUBLISHED["openai/gpt-oss-20b"] | {
        "layer_types": ["sliding_attention", "full_attention"] * 18, "num_local_experts": 128,
        "num_hidden_layers": 36,
    },
    "zai-org/GLM-4.6": PUBLISHED["zai-org/GLM-4.5"] | {"max_position_embeddings": 202752},
    "allenai/OLMo-2-0325-32B": PUBLISHED["allenai/OLMo-2-1124-7B"] | {
        "transformers_version": "4.49.0", "hidden_size": 5120, "intermediate_size": 27648,
        "num_hidden_layers": 64, "num_attention_heads": 40, "num_key_value_heads": 8,
    },
    "deepseek-ai/DeepSeek-V3.1-Base": _file(
        "deepseek_v3", "DeepseekV3", version="4.44.2", attention_bias=False,
        attention_dropout=0.0,
        auto_map={
            "AutoConfig": "configuration_deepseek.DeepseekV3Config",
            "AutoModel": "modeling_deepseek.DeepseekV3Model",
            "AutoModelForCausalLM": "modeling_deepseek.DeepseekV3ForCausalLM",
        },
        bos_token_id=0, eos_token_id=1, ep_size=1, first_k_dense_replace=3, hidden_act="silu",
        kv_lora_rank=512, moe_intermediate_size=2048, moe_layer_freq=1, n_group=8,
        n_routed_experts=256, n_shared_experts=1, norm_topk_prob=True, num_experts_per_tok=8,
        num_nextn_predict_layers=1, q_lora_rank=1536, qk_nope_head_dim=128, qk_rope_head_dim=64,
        rms_norm_eps=1e-6,
        rope_scaling={
            "beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
            "original_max_position_embeddings": 4096, "type": "yarn",
        },
        rope_theta=10000, routed_scaling_factor=2.5, scoring_func="sigmoid",
        tie_word_embeddings=False, topk_group=4, topk_method="noaux_tc", v_head_dim=128,
        **_sizes(129280, 7168, 18432, 61, 128, 128, 163840),
    ),
    "bigcode/tiny_starcoder_py": PUBLISHED["bigcode/starcoderbase"] | {
        "activation_function": "gelu_pytorch_tanh", "n_embd": 768, "n_head": 12, "n_inner": 3072,
        "n_layer": 20,
    },
}  # fmt: skip
LATER_ENCODERS |= {
    "a1701s/politicalbiasdetection": ENCODERS["distilbert/distilbert-base-uncased"] | {
        "_name_or_path": "/content/drive/MyDrive/colab_data/models/distilbert-political-tweets",
        "architectures": ["DistilBertForSequenceClassification"],
        "id2label": {"0": "Republican", "1": "Democrat"},
        "label2id": {"Democrat": "1", "Republican": "0"},
        "problem_type": "single_label_classification", "torch_dtype": "float32",
        "transformers_version": "4.16.2",
    },
    "djacoo/nlp-llm-project": ENCODERS["distilbert/distilbert-base-uncased"] | {
        "architectures": ["DistilBertForSequenceClassification"], "bos_token_id": None,
        "dtype": "float32", "eos_token_id": None,
        "id2label": {"0": "Billing and Payments", "1": "Customer Service"},
        "label2id": {"Billing and Payments": 0, "Customer Service": 1},
        "problem_type": "single_label_classification", "tie_word_embeddings": True,
        "transformers_version": "5.1.0",
    },
    "Suryanarayanan-Balaji/GPT-MolBERTa": BERT | SAVED | ROBERTA | {
        "architectures": ["RobertaForMaskedLM"], "layer_norm_eps": 1e-12, "num_hidden_layers": 6,
        "transformers_version": "4.24.0", "type_vocab_size": 2, "vocab_size": 50000,
    },
    "4lhafz/streamlit-ner-beritakorupsi": ENCODERS["google-bert/bert-base-multilingual-cased"] | {
        "_num_labels": 5, "add_cross_attention": False, "bos_token_id": None,
        "architectures": ["BertForTokenClassification"], "classifier_dropout": None,
        "decoder_start_token_id": None, "dtype": "float32", "eos_token_id": None,
        "finetuning_task": None, "is_decoder": False, "output_past": True,
        "id2label": {"0": "O", "1": "B-PERSON"}, "label2id": {"B-PERSON": 1, "O": 0},
        "prefix": None, "pruned_heads": {}, "task_specific_params": None,
        "tie_word_embeddings": True, "torchscript": False, "transformers_version": "5.0.0",
        "use_bfloat16": False, "use_cache": False, "vocab_size": 50000,
    },
    "intfloat/multilingual-e5-small": BERT | SAVED | {
        "_name_or_path": "intfloat/multilingual-e5-small", "architectures": ["BertModel"],
        "hidden_size": 384, "intermediate_size": 1536, "tokenizer_class": "XLMRobertaTokenizer",
        "transformers_version": "4.30.2", "vocab_size": 250037,
    },
    "amazon/chronos-t5-small": {
        "architectures": ["T5ForConditionalGeneration"], "d_ff": 2048, "d_kv": 64,
        "chronos_config": {
            "context_length": 512, "eos_token_id": 1, "model_type": "seq2seq",
            "n_special_tokens": 2, "n_tokens": 4096, "num_samples": 20, "pad_token_id": 0,
            "prediction_length": 64, "temperature": 1.0, "tokenizer_class": "MeanScaleUniformBins",
            "tokenizer_kwargs": {"high_limit": 15.0, "low_limit": -15.0}, "top_k": 50,
            "top_p": 1.0, "use_eos_token": True,
        },
        "d_model": 512, "decoder_start_token_id": 0, "dense_act_fn": "relu", "dropout_rate": 0.1,
        "eos_token_id": 1, "feed_forward_proj": "relu", "initializer_factor": 0.05,
        "is_encoder_decoder": True, "is_gated_act": False, "layer_norm_epsilon": 1e-06,
        "model_type": "t5", "n_positions": 512, "num_decoder_layers": 6, "num_heads": 8,
        "num_layers": 6, "pad_token_id": 0, "relative_attention_max_distance": 128,
        "relative_attention_num_buckets": 32, "torch_dtype": "bfloat16",
        "transformers_version": "4.37.2", "use_cache": True, "vocab_size": 4096,
    },
    "sentence-transformers/all-MiniLM-L6-v2": BERT | {
        "_name_or_path": "nreimers/MiniLM-L6-H384-uncased", "architectures": ["BertModel"],
        "gradient_checkpointing": False, "hidden_size": 384, "intermediate_size": 1536,
        "num_hidden_layers": 6, "position_embedding_type": "absolute", "use_cache": True,
        "transformers_version": "4.8.2", "vocab_size": 30522,
    },
}  # fmt: skip

# Files of a third round, once more written down first.
LATER |= {
    "mosaicml/mpt-30b-instruct": LATER["mosaicml/mpt-7b-8k-chat"] | {
        "d_model": 7168,
        "init_config": {"fan_mode": "fan_in", "init_nonlinearity": "relu", "name": "kaiming"},
        "n_heads": 64, "n_layers": 48, "tokenizer_name": "mosaicml/mpt-30b",
        "transformers_version": "4.28.1",
    },
    "CohereForAI/aya-expanse-32b": PUBLISHED["CohereForAI/c4ai-command-r-v01"] | {
        "transformers_version": "4.44.0", "model_max_length": 128000, "rope_scaling": None,
        "rope_theta": 4000000, "use_qk_norm": False, "intermediate_size": 24576,
        "num_key_value_heads": 8,
    },
    "stabilityai/stablelm-2-1_6b": LATER["stabilityai/stablelm-2-zephyr-1_6b"] | {
        "transformers_version": "4.40.0", "attention_dropout": 0.0, "hidden_dropout": 0.0,
        "qk_layernorm": False, "rope_scaling": None, "rotary_scaling_factor": 1.0,
        "use_parallel_residual": False,
    },
    "google/medgemma-27b-text-it": PUBLISHED["google/gemma-3-1b-it"] | {
        "transformers_version": "4.52.0.dev0", "eos_token_id": 106, "head_dim": 128,
        "query_pre_attn_scalar": 168, "rope_local_base_freq": 10000.0, "rope_theta": 1000000.0,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024,
        "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 62,
        "num_attention_heads": 32, "num_key_value_heads": 16, "max_position_embeddings": 131072,
    },
    "Qwen/Qwen3-235B-A22B-Instruct-2507": PUBLISHED["Qwen/Qwen3-30B-A3B"] | {
        "max_window_layers": 94, "moe_intermediate_size": 1536, "rope_theta": 5000000,
        "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 94,
        "num_attention_heads": 64, "max_position_embeddings": 262144,
    },
    "ibm-granite/granite-3.1-1b-a400m-instruct": _file(
        "granitemoe", "GraniteMoe", version="4.47.0", attention_bias=False,
        attention_dropout=0.1, attention_multiplier=0.015625, bos_token_id=0,
        embedding_multiplier=12.0, eos_token_id=0, hidden_act="silu", logits_scaling=6.0,
        num_experts_per_tok=8, num_local_experts=32, output_router_logits=False, pad_token_id=0,
        residual_multiplier=0.22, rms_norm_eps=1e-6, rope_scaling=None, rope_theta=1500000.0,
        router_aux_loss_coef=0.0, tie_word_embeddings=True,
        **_sizes(49155, 1024, 512, 24, 16, 8, 131072),
    ),
    "tencent/Hunyuan-MT-7B": _file(
        "hunyuan_v1_dense", "HunYuanDenseV1", version="4.56.0", add_classification_head=False,
        attention_bias=False, attention_dropout=0.0, attention_head_dim=128, bos_token_id=1,
        cla_share_factor=2, class_num=0, dense_list=[4096, 0], eod_token_id=127967,
        eos_token_id=127960, head_dim=128, hidden_act="silu", im_end_id=5, im_newline_id=11,
        im_start_id=4, mask_init_id=12, mlp_bias=False, norm_type="rms",
        org_vocab_size=128167, pad_id=-1, pad_token_id=-1, pool_type="last", pretraining_tp=1,
        rms_norm_eps=1e-5, rope_theta=10000.0, sep_token_id=127962, text_end_id=7,
        text_start_id=6, tie_word_embeddings=True, use_cla=False, use_qk_norm=True,
        use_rotary_pos_emb=True,
        rope_scaling={
            "alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0,
            "mscale_all_dim": 0.0, "type": "dynamic",
        },
        **_sizes(128256, 4096, 14336, 32, 32, 8, 32768),
    ),
    "facebook/galactica-1.3b": LATER["facebook/opt-30b"] | {
        "activation_function": "gelu", "attention_dropout": 0.1, "bos_token_id": 0,
        "vocab_size": 50000, "_name_or_path": "./", "enable_bias": True, "ffn_dim": 8192,
        "hidden_size": 2048, "layer_norm_elementwise_affine": True, "num_attention_heads": 32,
        "num_hidden_layers": 24, "scale_embeddings": False, "learned_embeddings": True,
        "transformers_version": "4.25.0.dev0", "word_embed_proj_dim": 2048,
    },
    "EleutherAI/pythia-12b": PUBLISHED["EleutherAI/pythia-160m"] | {
        "hidden_size": 5120, "intermediate_size": 20480, "num_attention_heads": 40,
        "num_hidden_layers": 36, "vocab_size": 50688,
    },
    "distilbert/distilgpt2": PUBLISHED["openai-community/gpt2"] | {
        "_num_labels": 1, "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}, "n_layer": 6,
    },
    "NousResearch/Hermes-3-Llama-3.2-3B": _file(
        "llama", "Llama", version="4.46.3", **LLAMA | {"tie_word_embeddings": True},
        _attn_implementation_autoset=True, _name_or_path="meta-llama/Llama-3.2-3B",
        bos_token_id=128000, eos_token_id=128039, head_dim=128, pad_token_id=128001,
        rope_scaling=LLAMA3 | {"factor": 32.0}, rope_theta=500000.0,
        **_sizes(128256, 3072, 8192, 28, 24, 8, 131072),
    ),
    "lmsys/vicuna-13b-v1.5": _file(
        "llama", "Llama", "float16", "4.31.0", _name_or_path="vicuna-13b-v1.5", **OLD_LLAMA,
        max_length=4096, pad_token_id=0, **_sizes(32000, 5120, 13824, 40, 40, 40, 4096),
    ),
    "google/gemma-3-12b-it": {
        "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 18,
        "eoi_token_index": 19, "eos_token_id": [1, 106], "image_token_index": 20,
        "initializer_range": 0.02, "mm_tokens_per_image": 256, "model_type": "gemma3",
        "text_config": {
            "hidden_size": 3840, "intermediate_size": 15360, "model_type": "gemma3_text",
            "num_attention_heads": 16, "num_hidden_layers": 48, "num_key_value_heads": 8,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024,
        },
        "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0",
        "vision_config": {
            "hidden_size": 1152, "image_size": 896, "intermediate_size": 4304,
            "model_type": "siglip_vision_model", "num_attention_heads": 16,
            "num_hidden_layers": 27, "patch_size": 14, "vision_use_head": False,
        },
    },
}  # fmt: skip
LATER_ENCODERS |= {
    "google/flan-t5-xxl": LATER_ENCODERS["google/ul2"] | {
        "d_ff": 10240, "d_kv": 64, "dense_act_fn": "gelu_new", "dropout_rate": 0.1,
        "feed_forward_proj": "gated-gelu", "num_decoder_layers": 24, "num_heads": 64,
        "num_layers": 24, "torch_dtype": "float32", "transformers_version": "4.24.0.dev0",
    },
    "google/mt5-xl": ENCODERS["google/mt5-small"] | {
        "_name_or_path": "/home/patrick/hugging_face/t5/mt5-xl", "d_ff": 5120, "d_model": 2048,
        "num_decoder_layers": 24, "num_heads": 32, "num_layers": 24, "output_past": True,
    },
    "BAAI/bge-m3": BERT | ROBERTA | SAVED | {
        "_name_or_path": "", "architectures": ["XLMRobertaModel"], "hidden_size": 1024,
        "intermediate_size": 4096, "max_position_embeddings": 8194, "model_type": "xlm-roberta",
        "num_attention_heads": 16, "num_hidden_layers": 24, "output_past": True,
        "transformers_version": "4.33.0", "vocab_size": 250002,
    },
    "cardiffnlp/twitter-roberta-base-sentiment-latest": BERT | ROBERTA | SAVED | {
        "_name_or_path": "tweeteval_new/roberta-base-rt-sentiment/",
        "architectures": ["RobertaForSequenceClassification"], "gradient_checkpointing": False,
        "id2label": {"0": "negative", "1": "neutral", "2": "positive"},
        "label2id": {"negative": 0, "neutral": 1, "positive": 2},
        "transformers_version": "4.13.0.dev0", "vocab_size": 50265,
    },
    "dslim/bert-base-NER": BERT | {
        "_num_labels": 9, "architectures": ["BertForTokenClassification"],
        "id2label": {"0": "O", "1": "B-MISC"}, "label2id": {"O": 0, "B-MISC": 1},
        "output_past": True, "vocab_size": 28996,
    },
    "vinai/bertweet-base": BERT | ROBERTA | {
        "architectures": ["RobertaForMaskedLM"], "gradient_checkpointing": False,
        "max_position_embeddings": 130, "model_type": "roberta", "tokenizer_class":
        "BertweetTokenizer", "vocab_size": 64001,
    },
}  # fmt: skip
