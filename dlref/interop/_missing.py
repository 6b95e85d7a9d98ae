"""Families that are not read, and the pieces that dlref's models lack for them."""

from __future__ import annotations

GROWING = "scores whose scale grows with the position of the query"
SCAN = "blocks of selective scans (Mamba-2)"
SCAN_1 = "blocks of selective scans (Mamba)"
HEAD_BIAS = "a bias of the head"
OF_EMBEDDINGS = "a norm of the embeddings"
BLOCKS = "embeddings for each block, and keys that blocks share"
SHORT = "blocks of gated short convolutions"
INDEXER = "attention to tokens that an indexer chooses, in a block"
STREAMS = "several residual streams"
DECAYS = "delta rules whose decay differs between channels"
HALVES = "sinusoidal positions whose sines all come first"
HEADS = "heads whose number differs between blocks"
INSIDE = "norms before the last projection of attention and network"
SOUND = "an encoder of sounds"
CODES = "texts of several codes in a position"
ADAPTERS = "adapters of languages in each block"

#: Published models and the missing pieces, by ``model_type``.
MISSING = {
    "apertus": ("Apertus", "xIELU, an activation with learned parameters"),
    "axk2": ("A.X K2", f"norms with gates, and {INDEXER}"),
    "bailing_hybrid": ("Ling 3", DECAYS),
    "bamba": ("Bamba", SCAN),
    "bart": ("BART", OF_EMBEDDINGS),
    "beam": ("Beam", GROWING),
    "big_bird": ("BigBird", "attention to blocks of tokens that are drawn at random"),
    "bigbird_pegasus": ("BigBird-Pegasus", f"BigBird's attention, and {HALVES}"),
    "bitnet": ("BitNet b1.58", INSIDE),
    "blenderbot": ("Blenderbot", HEAD_BIAS),
    "blenderbot-small": ("Blenderbot, small", OF_EMBEDDINGS),
    "bloom": ("BLOOM", OF_EMBEDDINGS),
    "blt": ("Byte Latent Transformer", "patches of bytes that a model chooses"),
    "codegen": ("CodeGen", HEAD_BIAS),
    "cohere2_moe": ("North", "experts whose sum is averaged with the one for all tokens"),
    "cpmant": ("CPM-Ant", "a bias of the scores by segments of the text"),
    "ctrl": ("CTRL", f"{HEAD_BIAS}, and {HALVES}"),
    "deepseek_v32": ("DeepSeek-V3.2", INDEXER),
    "deepseek_v4": ("DeepSeek-V4", f"{STREAMS}, and {INDEXER}"),
    "diffllama": ("DiffLlama", "differential attention, in a block"),
    "doge": ("Doge", "masks that values choose"),
    "dots3_note": ("dots.note", INDEXER),
    "dots3_note_text": ("dots.note", INDEXER),
    "ernie": ("ERNIE 2 and 3", "embeddings of tasks"),
    "falcon_h1": ("Falcon-H1", SCAN),
    "falcon_mamba": ("Falcon Mamba", SCAN_1),
    "fuyu": ("Fuyu", "biases of the norms of queries and keys"),
    "gemma3n": ("Gemma 3n", f"{STREAMS}, and embeddings for each block"),
    "gemma3n_text": ("Gemma 3n", f"{STREAMS}, and embeddings for each block"),
    "gemma4": ("Gemma 4", BLOCKS),
    "gemma4_assistant": ("Gemma 4, drafting", "keys and values of another model"),
    "gemma4_text": ("Gemma 4", BLOCKS),
    "gemma4_unified": ("Gemma 4", BLOCKS),
    "gemma4_unified_assistant": ("Gemma 4, drafting", "keys and values of another model"),
    "gemma4_unified_text": ("Gemma 4", BLOCKS),
    "git": ("GIT", OF_EMBEDDINGS),
    "glm_moe_dsa": ("GLM-5", INDEXER),
    "gptj": ("GPT-J", HEAD_BIAS),
    "granitemoehybrid": ("Granite 4.0", SCAN),
    "hrm_text": ("HRM", "blocks that run several times"),
    "hy_v4": ("Hunyuan 4", f"{STREAMS}, and {INDEXER}"),
    "inkling2_text": ("Inkling 2", "short convolutions in attention, and sums over earlier blocks"),
    "inkling_text": ("Inkling", "short convolutions in attention"),
    "jamba": ("Jamba", SCAN_1),
    "jetmoe": ("JetMoE", "experts in attention"),
    "kimi_linear": ("Kimi Linear", DECAYS),
    "kolibri1": ("Kolibri", "a correction of the router's logits"),
    "laguna": ("Laguna", HEADS),
    "lfm2": ("LFM2", SHORT),
    "lfm2_moe": ("LFM2 with experts", SHORT),
    "lfm3": ("LFM3", SHORT),
    "llama4": ("Llama 4", f"{GROWING}, and experts that get weighted inputs"),
    "llama4_text": ("Llama 4", f"{GROWING}, and experts that get weighted inputs"),
    "longcat_flash": ("LongCat-Flash", "two attentions in a block, and experts that do nothing"),
    "longt5": ("LongT5", "attention to means of blocks of tokens"),
    "mamba": ("Mamba", SCAN_1),
    "mamba2": ("Mamba-2", SCAN),
    "marian": ("OPUS-MT", f"{HEAD_BIAS}, and {HALVES}"),
    "mbart": ("mBART", OF_EMBEDDINGS),
    "mimo_v2_flash": ("MiMo-V2-Flash", HEADS),
    "minimax": ("MiniMax-Text-01", "linear attention with a decay (Lightning), in a block"),
    "minimax_m3_vl_text": ("MiniMax-M3", INDEXER),
    "ministral3": ("Ministral 3", GROWING),
    "mllama": ("Llama 3.2 Vision", "attention to an image in some blocks"),
    "modernbert-decoder": ("Ettin", OF_EMBEDDINGS),
    "moshi": ("Moshi", CODES),
    "moss_transcribe_diarize": ("MOSS", SOUND),
    "musicgen": ("MusicGen", CODES),
    "musicgen_melody": ("MusicGen Melody", CODES),
    "mvp": ("MVP", OF_EMBEDDINGS),
    "nanochat": ("nanochat", OF_EMBEDDINGS),
    "nemotron_h": ("Nemotron-H", SCAN),
    "olmo_hybrid": ("OLMo Hybrid", "delta rules whose rates reach 2"),
    "pegasus": ("PEGASUS", HALVES),
    "persimmon": ("Persimmon", "biases of the norms of queries and keys"),
    "phi": ("Phi-1.5, Phi-2", HEAD_BIAS),
    "phi4_multimodal": ("Phi-4-multimodal", "adapters of images and sounds in each block"),
    "phimoe": ("Phi-3.5-MoE", f"a router that masks all but near scores, and {HEAD_BIAS}"),
    "plbart": ("PLBART", OF_EMBEDDINGS),
    "prophetnet": ("ProphetNet", "streams that predict several tokens"),
    "qwen4_exp": ("Qwen4, experimental", f"{STREAMS}, and {INDEXER}"),
    "qwen4_exp_text": ("Qwen4, experimental", f"{STREAMS}, and {INDEXER}"),
    "recurrent_gemma": ("RecurrentGemma", "blocks of gated linear recurrences"),
    "reformer": ("Reformer", "attention to tokens with one hash"),
    "roc_bert": ("RoCBert", "embeddings of shapes and sounds"),
    "rwkv": ("RWKV-4", "RWKV's recurrence"),
    "switch_transformers": ("Switch Transformers", "experts with a capacity"),
    "trocr": ("TrOCR", OF_EMBEDDINGS),
    "umt5": ("umT5", "a table of distances for each block"),
    "whisper": ("Whisper", SOUND),
    "xglm": ("XGLM", HALVES),
    "xlm": ("XLM", "embeddings of languages"),
    "xlnet": ("XLNet", "attention to relative sinusoids, in two streams"),
    "xlstm": ("xLSTM", "blocks of an LSTM with matrices"),
    "xmod": ("X-MOD", ADAPTERS),
    "zamba": ("Zamba", SCAN_1),
    "zamba2": ("Zamba2", SCAN),
    "zaya": ("ZAYA1", "convolutions of queries and keys"),
}
