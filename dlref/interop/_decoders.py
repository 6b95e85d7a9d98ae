r"""Decoder-only families whose checkpoints resemble LLaMA's."""

from __future__ import annotations

from typing import Any

from . import _kin_layouts as layouts
from . import _kin_settings as settings
from ._kin import BEFORE, BEHIND, SANDWICH, Kin
from ._kin_settings import GELU


def _defaults(*numbers: int | None, **more: Any) -> dict[str, Any]:
    """Return the defaults of a configuration; `numbers` go to the sizes in their order."""
    sizes = "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads"
    names = f"{sizes} num_key_value_heads".split()
    more = {"hidden_act": "silu"} | more if "hidden_activation" not in more else more
    eps = {"rms_norm_eps": 1e-6, "layer_norm_eps": 1e-5, "tie_word_embeddings": False}
    return dict(zip(names, numbers, strict=False)) | eps | more


#: The scaling of gpt-oss where a file has none.
OSS_YARN = {
    "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
    "original_max_position_embeddings": 4096,
}  # fmt: skip
#: The scaling of the Code World Model where a file has none.
OF_CWM = {
    "rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip
SPARSE = {".block_sparse_moe.": ".mlp."}  # names of mixtures, own and usual
KIN: dict[str, Kin] = {
    "mistral": Kin(
        "Mistral",
        "a window of attention and a width of heads of its own",
        _defaults(32000, 4096, 14336, 32, 32, 8, sliding_window=4096),
        settings.everywhere,
    ),
    "ministral": Kin(
        "Ministral",
        "a window of attention in some layers",
        _defaults(32000, 4096, 14336, 32, 32, 8, sliding_window=4096, head_dim=None),
        settings.where_typed,
    ),
    "qwen2": Kin(
        "Qwen2",
        "biases of queries, keys and values, but not of the output",
        _defaults(151936, 4096, 22016, 32, 32, 32, sliding_window=4096),
        settings.qwen2,
        biases="qkv",
    ),
    "qwen3": Kin(
        "Qwen3",
        "norms of queries and keys",
        _defaults(
            151936, 4096, 22016, 32, 32, 32, head_dim=128, sliding_window=4096, attention_bias=False
        ),
        settings.on_demand,
        qk_norm="each head",
    ),
    "smollm3": Kin(
        "SmolLM3",
        "layers without rotations",
        _defaults(
            128256, 2048, 11008, 36, 16, 4, rope_theta=2e6, tie_word_embeddings=True,
            sliding_window=None, attention_bias=False,
        ),
        settings.smollm3,
        network=layouts.network_with_biases,
    ),
    "gemma": Kin(
        "Gemma",
        "norms that multiply by 1 + w, and embeddings times the root of D",
        _defaults(
            256000, 3072, 24576, 28, 16, 16, head_dim=256, hidden_act=GELU,
            tie_word_embeddings=True, attention_bias=False,
        ),
        settings.gemma,
    ),
    "gemma2": Kin(
        "Gemma2",
        "norms before and after each sub-layer, caps, and windows in every other layer",
        _defaults(
            256000, 2304, 9216, 26, 8, 4, head_dim=256, hidden_activation=GELU,
            tie_word_embeddings=True, attention_bias=False, sliding_window=4096,
            query_pre_attn_scalar=256, attn_logit_softcapping=50.0, final_logit_softcapping=30.0,
        ),
        settings.gemma2,
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
        settings.gemma3,
        norms=SANDWICH,
        qk_norm="each head",
        by_kind=True,
    ),
    "mixtral": Kin(
        "Mixtral",
        "experts",
        _defaults(
            32000, 4096, 14336, 32, 32, 8, rope_theta=1e6, rms_norm_eps=1e-5, sliding_window=None,
            head_dim=None, experts=8, k=2,
        ),
        settings.mixtral,
        experts=layouts.experts,
    ),
    "qwen3_moe": Kin(
        "Qwen3Moe",
        "experts, and norms of queries and keys",
        _defaults(
            151936, 2048, 6144, 24, 32, 4, sliding_window=4096, attention_bias=False, experts=128,
            k=8,
        ),
        settings.qwen3_moe,
        qk_norm="each head",
        experts=layouts.experts,
    ),
    "olmoe": Kin(
        "Olmoe",
        "experts, and norms of all queries and keys at once",
        _defaults(
            50304, 2048, 2048, 16, 16, 16, rms_norm_eps=1e-5, attention_bias=False, experts=64, k=8
        ),
        settings.olmoe,
        qk_norm="all heads",
        experts=layouts.experts,
    ),
    "gpt_oss": Kin(
        "GptOss",
        "experts with bounded gates, sinks, and windows in every other layer",
        _defaults(
            201088, 2880, 2880, 36, 64, 8, rope_theta=150000.0, rms_norm_eps=1e-5, head_dim=64,
            sliding_window=128, attention_bias=True, experts=128, k=4, rope_scaling=OSS_YARN,
        ),
        settings.gpt_oss,
        sinks=True,
        experts=layouts.experts_with_biases,
    ),
    "granite": Kin(
        "Granite",
        "multipliers of embeddings, scores, sums and logits",
        _defaults(32000, 4096, 11008, 32, 32, 32, attention_bias=False),
        settings.granite,
        network=layouts.network_with_biases,
    ),
    "olmo2": Kin(
        "Olmo2",
        "norms of the sub-layers' outputs, and of all queries and keys at once",
        _defaults(50304, 4096, 11008, 32, 32, 32, attention_bias=False, rms_norm_eps=1e-5),
        norms=BEHIND,
        qk_norm="all heads",
    ),
    "phi3": Kin(
        "Phi3",
        "one matrix for queries, keys and values, and one for gate and up",
        _defaults(
            32064, 3072, 8192, 32, 32, 32, rms_norm_eps=1e-5, sliding_window=None,
            partial_rotary_factor=1.0,
        ),
        settings.phi3,
        projections=layouts.fused_projections,
        network=layouts.fused_network,
    ),
    "stablelm": Kin(
        "StableLm",
        "layer norms, and rotations of a quarter of the channels",
        _defaults(50304, 2560, 6912, 32, 32, 32, partial_rotary_factor=0.25),
        settings.stablelm,
        norm="layer",
        norm_bias=True,
        biases="qkv",
        qk_norm="by rows",
        qk_names=("q_layernorm", "k_layernorm"),
        qk_optional=True,
        one_norm=True,
    ),
    "deepseek_v3": Kin(
        "DeepseekV3",
        "latent attention, and experts that a correction chooses in groups",
        _defaults(129280, 7168, 18432, 61, 128, 128, attention_bias=False, experts=256, k=8),
        settings.deepseek_v3,
        latent=True,
        experts=layouts.with_both,
    ),
    "glm4_moe_lite": Kin(
        "Glm4MoeLite",
        "latent attention, and experts that a correction chooses",
        _defaults(
            154880, 2048, 10240, 47, 20, 20, rms_norm_eps=1e-5, attention_bias=False, experts=64,
            k=4,
        ),
        settings.glm4_moe_lite,
        latent=True,
        experts=layouts.with_both,
    ),
    "qwen3_next": Kin(
        "Qwen3Next",
        "gated delta rules, and attention with gates in every fourth layer",
        _defaults(
            151936, 2048, 5632, 48, 16, 2, head_dim=256, attention_bias=False, experts=512, k=10,
            partial_rotary_factor=0.25,
        ),
        settings.qwen3_next,
        qk_norm="each head",
        projections=layouts.gated_projections,
        experts=layouts.with_gated_shared,
    ),
    "qwen3_5_text": Kin(
        "Qwen3_5",
        "Qwen3-Next's pieces without experts, and one matrix for three projections",
        _defaults(
            248320, 4096, 12288, 32, 16, 4, head_dim=256, attention_bias=False,
            partial_rotary_factor=0.25,
        ),
        settings.qwen3_5,
        qk_norm="each head",
        projections=layouts.gated_projections,
    ),
    "qwen3_5_moe_text": Kin(
        "Qwen3_5Moe",
        "Qwen3-Next's pieces, and one matrix for three projections",
        _defaults(
            248320, 2048, 5632, 40, 16, 2, head_dim=256, attention_bias=False, experts=256, k=8,
            partial_rotary_factor=0.25,
        ),
        settings.qwen3_5,
        qk_norm="each head",
        projections=layouts.gated_projections,
        experts=layouts.with_gated_shared,
    ),
    "gpt_neox": Kin(
        "GPTNeoX",
        "attention and network side by side, each with a layer norm",
        _defaults(
            50432, 6144, 24576, 44, 64, hidden_act="gelu", partial_rotary_factor=0.25,
            attention_bias=True,
        ),
        settings.gpt_neox,
        norm="layer",
        norm_bias=True,
        projections=layouts.projections_by_head,
        gated=False,
        network=layouts.network_of_neox,
        tables=("gpt_neox.", "embed_in", "final_layer_norm."),
    ),
    "cohere": Kin(
        "Cohere",
        "attention and network side by side with one norm, and scaled logits",
        _defaults(
            256000, 8192, 22528, 40, 64, 64, rope_theta=5e5, tie_word_embeddings=True,
            attention_bias=False,
        ),
        settings.cohere,
        norms={"norm1": "input_layernorm"},
        norm="layer",
        qk_norm="by rows",
        qk_optional=True,
        interleaved=True,
    ),
    "helium": Kin(
        "Helium",
        "rotations of neighbors",
        _defaults(
            48000, 2560, 7040, 24, 20, 20, head_dim=128, rope_theta=1e5, rms_norm_eps=1e-8,
            attention_bias=False,
        ),
        settings.helium,
        biases="qkv",
        interleaved=True,
        network=layouts.network_with_biases,
    ),
    "ernie4_5": Kin(
        "Ernie4_5",
        "rotations of neighbors",
        _defaults(
            103424, 1024, 3072, 18, 16, 2, head_dim=128, rope_theta=5e5, rms_norm_eps=1e-5,
            tie_word_embeddings=True,
        ),
        settings.ernie4_5,
        interleaved=True,
        network=layouts.network_with_biases,
    ),
    "seed_oss": Kin(
        "SeedOss",
        "biases of queries, keys and values, but not of the output",
        _defaults(155136, 4096, 27648, 64, 80, 8, head_dim=128, attention_bias=True),
        settings.seed_oss,
        biases="qkv",
        some_biases="o",
        network=layouts.network_with_biases,
    ),
    "arcee": Kin(
        "Arcee",
        "a plain network with the square of relu",
        _defaults(
            32000, 2560, 18432, 32, 32, None, rms_norm_eps=1e-5, hidden_act="relu2",
            attention_bias=False, mlp_bias=False,
        ),
        settings.arcee,
        gated=False,
        network=layouts.plain_network("up_proj", "down_proj"),
    ),
    "nemotron": Kin(
        "Nemotron",
        "layer norms that multiply by 1 + w, and a plain network with the square of relu",
        _defaults(
            256000, 6144, 24576, 32, 48, None, head_dim=None, norm_eps=1e-5, hidden_act="relu2",
            partial_rotary_factor=0.5, attention_bias=False, mlp_bias=False,
        ),
        settings.nemotron,
        norm="layer",
        norm_bias=True,
        gated=False,
        network=layouts.plain_network("up_proj", "down_proj"),
    ),
    "starcoder2": Kin(
        "Starcoder2",
        "layer norms, and a plain network with biases",
        _defaults(
            49152, 3072, 12288, 30, 24, 2, hidden_act=GELU, norm_epsilon=1e-5,
            tie_word_embeddings=True, sliding_window=None,
        ),
        settings.starcoder2,
        norm="layer",
        norm_bias=True,
        gated=False,
        network=layouts.plain_network("c_fc", "c_proj"),
    ),
    "glm": Kin(
        "Glm",
        "rotations of neighbors in half of the channels, and one matrix for gate and up",
        _defaults(
            151552, 4096, 13696, 40, 32, 2, head_dim=128, rms_norm_eps=1.5625e-7,
            partial_rotary_factor=0.5, attention_bias=True,
        ),
        biases="qkv",
        interleaved=True,
        network=layouts.fused_network,
    ),
    "glm4": Kin(
        "Glm4",
        "GLM's pieces, and norms before and after each sub-layer",
        _defaults(
            151552, 4096, 13696, 40, 32, 2, head_dim=128, rms_norm_eps=1.5625e-7,
            partial_rotary_factor=0.5, attention_bias=True,
        ),
        norms=BEFORE
        | {"output_norm1": "post_self_attn_layernorm", "output_norm2": "post_mlp_layernorm"},
        biases="qkv",
        interleaved=True,
        network=layouts.fused_network,
    ),
    "olmo3": Kin(
        "Olmo3",
        "OLMo 2's pieces, and windows in three of four layers",
        _defaults(
            50304, 4096, 11008, 32, 32, None, rms_norm_eps=1e-5, rope_theta=5e5,
            attention_bias=False, sliding_window=4096,
        ),
        settings.olmo3,
        norms=BEHIND,
        qk_norm="all heads",
        by_kind=True,
    ),
    "exaone4": Kin(
        "Exaone4",
        "norms of the sub-layers' outputs, and rotations in layers with a window alone",
        _defaults(
            102400, 4096, 16384, 32, 32, 32, rms_norm_eps=1e-5, sliding_window=4096,
            sliding_window_pattern=4,
        ),
        settings.exaone4,
        norms=BEHIND,
        qk_norm="each head",
    ),
    "hunyuan_v1_dense": Kin(
        "HunYuanDenseV1",
        "norms of rotated queries and keys",
        _defaults(290943, 4096, 11008, 32, 32, None, rms_norm_eps=1e-5, attention_bias=False),
        settings.hunyuan,
        qk_norm="each head",
        qk_names=("query_layernorm", "key_layernorm"),
        alpha=True,
    ),
    "cohere2": Kin(
        "Cohere2",
        "Cohere's pieces, and rotations in layers with a window alone",
        _defaults(
            256000, 8192, 22528, 40, 64, None, tie_word_embeddings=True, attention_bias=False,
            sliding_window=4096,
        ),
        settings.cohere2,
        norms={"norm1": "input_layernorm"},
        norm="layer",
        interleaved=True,
    ),
    "qwen2_moe": Kin(
        "Qwen2Moe",
        "experts, one for all tokens with a gate, and biases of queries, keys and values",
        _defaults(
            151936, 2048, 5632, 24, 16, 16, sliding_window=4096, experts=60, k=4,
        ),
        settings.qwen2_moe,
        biases="qkv",
        experts=layouts.with_gated_shared,
    ),
    "glm4_moe": Kin(
        "Glm4Moe",
        "experts that a correction chooses, and rotations of half of the channels",
        _defaults(
            151552, 4096, 10944, 46, 96, 8, rms_norm_eps=1e-5, partial_rotary_factor=0.5,
            attention_bias=False, experts=128, k=8,
        ),
        settings.glm4_moe,
        biases="qkv",
        qk_norm="each head",
        qk_optional=True,
        experts=layouts.with_both,
    ),
    "minimax_m2": Kin(
        "MiniMaxM2",
        "experts that a correction chooses, and norms of all queries and keys at once",
        _defaults(
            200064, 3072, 1536, 62, 48, 8, head_dim=128, rope_theta=5e6, rotary_dim=None,
            partial_rotary_factor=1.0, experts=256, k=8,
        ),
        settings.minimax_m2,
        qk_norm="all heads",
        experts=layouts.experts_and_correction,
    ),
    "deepseek_v2": Kin(
        "DeepseekV2",
        "latent attention, and experts in groups",
        _defaults(102400, 4096, 11008, 32, 32, None, attention_bias=False, experts=64, k=6),
        settings.deepseek_v2,
        latent=True,
        interleaved=True,
        experts=layouts.with_shared,
    ),
    "olmo": Kin(
        "Olmo",
        "layer norms without parameters",
        _defaults(50304, 4096, 11008, 32, 32, None, attention_bias=False),
        settings.olmo,
        norm="layer",
        norm_weight=False,
    ),
    "dbrx": Kin(
        "Dbrx",
        "experts, layer norms without biases, and bounds of queries, keys and values",
        _defaults(
            32000, 2048, 3584, 24, 16, 1, experts=4, k=1, num_experts=4, num_experts_per_tok=1,
            clip_qkv=None,
        ),
        settings.dbrx,
        norm="layer",
        projections=layouts.fused_projections,
        experts=layouts.experts_in_rows,
        tables=("transformer.", "wte", "norm_f."),
        names={
            "blocks.": "layers.", "norm_attn_norm.norm_1.": "input_layernorm.",
            "norm_attn_norm.norm_2.": "post_attention_layernorm.",
            "norm_attn_norm.attn.": "self_attn.", ".Wqkv.": ".qkv_proj.", ".out_proj.": ".o_proj.",
            "ffn.router.layer.": "mlp.gate.", "ffn.experts.mlp.": "mlp.experts.",
        },
        entries={
            "ffn_config.hidden_size": "d_model", "d_model": "hidden_size",
            "n_heads": "num_attention_heads", "n_layers": "num_hidden_layers",
            "max_seq_len": "max_position_embeddings",
            "attn_config.clip_qkv": "clip_qkv", "attn_config.rope_theta": "rope_theta",
            "attn_config.kv_n_heads": "num_key_value_heads",
            "ffn_config.ffn_act_fn": "ffn_act_fn",
            "ffn_config.ffn_hidden_size": "intermediate_size",
            "ffn_config.moe_num_experts": "num_experts",
            "ffn_config.moe_top_k": "num_experts_per_tok",
            "ffn_config.moe_normalize_expert_weights": "moe_normalize_expert_weights",
        },
    ),
    "cwm": Kin(
        "Cwm",
        "windows in three of four layers",
        _defaults(
            128256, 6144, 21504, 64, 48, 8, head_dim=128, rms_norm_eps=1e-5, rope_theta=1e6,
            rope_scaling=OF_CWM, sliding_window=8192,
        ),
        settings.cwm,
        network=layouts.network_with_biases,
    ),
    "vaultgemma": Kin(
        "VaultGemma",
        "Gemma 2's pieces, and norms before each sub-layer alone",
        _defaults(
            256000, 2304, 9216, 26, 8, 4, head_dim=256, hidden_activation=GELU,
            tie_word_embeddings=True, attention_bias=False, sliding_window=4096,
            query_pre_attn_scalar=256, attn_logit_softcapping=50.0, final_logit_softcapping=30.0,
        ),
        settings.gemma2,
        norms={"norm1": "input_layernorm", "norm2": "pre_feedforward_layernorm"},
    ),
    "jais2": Kin(
        "Jais2",
        "layer norms, and a plain network with the square of relu and biases",
        _defaults(
            150272, 3328, 26624, 32, 26, None, hidden_act="relu2", attention_bias=True,
            mlp_bias=True,
        ),
        settings.arcee,
        norm="layer",
        norm_bias=True,
        gated=False,
        network=layouts.plain_network("up_proj", "down_proj"),
    ),
    "granite_swa": Kin(
        "GraniteSWA",
        "Granite's multipliers, sinks, and windows in three of four layers",
        _defaults(
            100352, 2560, 8192, 24, 20, 4, rms_norm_eps=1e-5, tie_word_embeddings=True,
            attention_bias=False, sliding_window=128,
        ),
        settings.granite_swa,
        sinks=True,
        network=layouts.network_with_biases,
    ),
    "granitemoe": Kin(
        "GraniteMoe",
        "Granite's multipliers, and experts",
        _defaults(
            32000, 4096, 11008, 32, 32, None, attention_bias=False, experts=8, k=2,
        ),
        settings.granitemoe,
        experts=layouts.experts_of_granite,
        names=SPARSE,
    ),
    "granitemoeshared": Kin(
        "GraniteMoeShared",
        "Granite's multipliers, experts, and one for all tokens",
        _defaults(
            32000, 4096, 11008, 32, 32, None, attention_bias=False, experts=8, k=2,
        ),
        settings.granitemoeshared,
        experts=layouts.with_shared_of_granite,
        names=SPARSE,
    ),
    "granitemoe_swa": Kin(
        "GraniteMoeSWA",
        "Granite's multipliers, experts, sinks, and windows in three of four layers",
        _defaults(
            32000, 4096, 11008, 32, 32, None, attention_bias=False, sliding_window=128, experts=8,
            k=2,
        ),
        settings.granitemoe_swa,
        sinks=True,
        experts=layouts.with_shared_of_granite,
        names=SPARSE,
    ),
    "hyperclovax": Kin(
        "HyperCLOVAX",
        "Granite's multipliers, and norms before and after each sub-layer",
        _defaults(
            32000, 4096, 11008, 32, 32, None, head_dim=None, attention_bias=False, mlp_bias=False
        ),
        settings.hyperclovax,
        norms=BEFORE | {"output_norm1": "post_norm1", "output_norm2": "post_norm2"},
        network=layouts.network_with_biases,
    ),
    "internlm3": Kin(
        "InternLM3",
        "LLaMA's pieces, and other names of the entries about biases",
        _defaults(128512, 4096, 10240, 48, 32, 2, head_dim=128, rms_norm_eps=1e-5),
        settings.internlm3,
        network=layouts.network_with_biases,
    ),
    "iquestcoder": Kin(
        "IQuestCoder",
        "LLaMA's pieces, and a width of heads of its own",
        _defaults(
            76800, 5120, 27648, 80, 40, 8, head_dim=128, rms_norm_eps=1e-5, attention_bias=False
        ),
        settings.helium,
        network=layouts.network_with_biases,
    ),
    "exaone_moe": Kin(
        "ExaoneMoe",
        "experts, one for all tokens, and rotations in layers with a window alone",
        _defaults(
            102400, 4096, 16384, 32, 32, 32, rms_norm_eps=1e-5, sliding_window=4096,
            sliding_window_pattern=4, experts=64, k=8,
        ),
        settings.exaone_moe,
        qk_norm="each head",
        experts=layouts.with_both,
    ),
    "hunyuan_v1_moe": Kin(
        "HunYuanMoEV1",
        "norms of rotated queries and keys, experts, and one for all tokens",
        _defaults(
            290943, 4096, 11008, 32, 32, None, rms_norm_eps=1e-5, attention_bias=False, experts=1,
            k=1,
        ),
        settings.hunyuan_moe,
        qk_norm="each head",
        qk_names=("query_layernorm", "key_layernorm"),
        alpha=True,
        experts=layouts.with_shared_of_hunyuan,
    ),
    "hy_v3": Kin(
        "HYV3",
        "experts that a correction chooses, and norms of queries and keys",
        _defaults(
            120832, 4096, 13312, 80, 64, 8, head_dim=128, rms_norm_eps=1e-5,
            rope_theta=11158840.0, attention_bias=False, experts=192, k=8,
        ),
        settings.hy_v3,
        qk_norm="each head",
        experts=layouts.with_both_of_hunyuan,
    ),
    "flex_olmo": Kin(
        "FlexOlmo",
        "OLMo 2's pieces, and experts",
        _defaults(
            100352, 4096, 11008, 32, 32, None, rope_theta=5e5, attention_bias=False, experts=7, k=5
        ),
        settings.olmoe,
        norms=BEHIND,
        qk_norm="all heads",
        experts=layouts.experts,
    ),
    "dots1": Kin(
        "Dots1",
        "experts that a correction chooses, and norms of queries and keys",
        _defaults(
            152064, 4608, 10944, 62, 32, 32, attention_bias=False, sliding_window=4096,
            max_window_layers=62, experts=128, k=6,
        ),
        settings.dots1,
        qk_norm="each head",
        experts=layouts.with_both,
    ),
    "solar_open": Kin(
        "SolarOpen",
        "experts that a correction chooses, in every layer",
        _defaults(
            196608, 4096, 10240, 48, 64, 8, head_dim=128, rms_norm_eps=1e-5, rope_theta=1e6,
            attention_bias=False, experts=128, k=8,
        ),
        settings.solar_open,
        biases="qkv",
        experts=layouts.with_both,
    ),
    "youtu": Kin(
        "Youtu",
        "latent attention, and a gated network",
        _defaults(
            128256, 2048, 6144, 32, 16, 16, tie_word_embeddings=True, attention_bias=False
        ),
        settings.youtu,
        latent=True,
    ),
    "afmoe": Kin(
        "Afmoe",
        "gates of attention, experts, and rotations in layers with a window alone",
        _defaults(
            200192, 2048, 6144, 32, 16, None, head_dim=128, rms_norm_eps=1e-5,
            attention_bias=False, sliding_window=1024, experts=64, k=6,
        ),
        settings.afmoe,
        norms=SANDWICH | {"norm2": "pre_mlp_layernorm", "output_norm2": "post_mlp_layernorm"},
        qk_norm="each head",
        projections=layouts.projections_and_gate,
        experts=layouts.with_both_of_afmoe,
    ),
    "aria_text": Kin(
        "Aria",
        "experts, and some for all tokens",
        _defaults(32000, 4096, 4096, 32, 32, None, attention_bias=False, experts=8, k=2),
        settings.aria,
        experts=layouts.with_shared_of_aria,
        entries={"moe_num_experts": "num_experts", "moe_topk": "num_experts_per_tok"},
    ),
    "axk1": Kin(
        "AXK1",
        "DeepSeek-V3's pieces, and norms of the experts' outputs",
        _defaults(163840, 7168, 18432, 61, 64, 64, attention_bias=False, experts=192, k=8),
        settings.axk1,
        norms_of_experts={"output_norm2": "mlp.post_mlp_layernorm"},
        latent=True,
        experts=layouts.with_optional_correction,
    ),
    "ernie4_5_moe": Kin(
        "Ernie4_5_Moe",
        "ERNIE's pieces, experts that a correction chooses, and some for all tokens",
        _defaults(
            103424, 2560, 12288, 28, 20, 4, rope_theta=5e5, rms_norm_eps=1e-5,
            tie_word_embeddings=True, experts=64, k=6,
        ),
        settings.ernie4_5_moe,
        interleaved=True,
        experts=layouts.with_optional_shared,
        entries={"moe_num_experts": "num_experts", "moe_k": "num_experts_per_tok"},
    ),
    "flint": Kin(
        "Flint",
        "sinks, experts by sigmoids, and rotations in layers with a window alone",
        _defaults(
            150144, 2048, 6144, 49, 32, 4, head_dim=128, attention_bias=False, sliding_window=513,
            experts=256, k=6,
        ),
        settings.flint,
        qk_norm="each head",
        sinks=True,
        experts=layouts.with_plain_shared,
    ),
    "mellum": Kin(
        "Mellum",
        "Qwen3's pieces, and a rotation of each kind of layer",
        _defaults(
            98304, 2304, 7168, 28, 32, 4, head_dim=128, attention_bias=False, sliding_window=1024,
            rope_theta=5e5, experts=64, k=8,
        ),
        settings.mellum,
        qk_norm="each head",
        by_kind=True,
        experts=layouts.experts,
    ),
    "minicpm3": Kin(
        "MiniCPM3",
        "latent attention, and factors of embeddings, sums and logits",
        _defaults(
            73448, 2560, 6400, 62, 40, 40, rms_norm_eps=1e-5, tie_word_embeddings=True,
            attention_bias=False,
        ),
        settings.minicpm3,
        latent=True,
    ),
    "gpt_neox_japanese": Kin(
        "GPTNeoXJapanese",
        "GPT-NeoX's pieces without biases but one",
        _defaults(
            32000, 2560, 10240, 32, 32, hidden_act="gelu", partial_rotary_factor=1.0,
            tie_word_embeddings=True,
        ),
        settings.gpt_neox_japanese,
        norm="layer",
        norm_bias=True,
        projections=layouts.projections_of_last_bias,
        gated=False,
        network=layouts.network_without_biases,
        tables=("gpt_neox_japanese.", "embed_in", "final_layer_norm."),
        names={"embed_out.": "lm_head."},
    ),
    "cohere_compass_text": Kin(
        "CohereCompass",
        "Cohere's pieces, and a rotation of each kind of layer",
        _defaults(
            256000, 8192, 22528, 40, 64, None, tie_word_embeddings=True, attention_bias=False,
            sliding_window=4096,
        ),
        settings.compass,
        norms={"norm1": "input_layernorm"},
        norm="layer",
        by_kind=True,
    ),
    "emu3_text_model": Kin(
        "Emu3",
        "LLaMA's pieces, and tokens of images",
        _defaults(
            184622, 4096, 14336, 32, 32, 8, rope_theta=1e6, rms_norm_eps=1e-5,
            attention_bias=False,
        ),
        settings.helium,
        network=layouts.network_with_biases,
    ),
}  # fmt: skip

KIN["gemma3"] = KIN["gemma3_text"]
KIN["kimi_k2"] = KIN["deepseek_v3"]
