"""Families that are not read, and the pieces that dlref's models lack for them."""

from __future__ import annotations

GROWING = "scores whose scale grows with the position of the query"
SCAN = "blocks of selective scans (Mamba-2)"
HEAD_BIAS = "a bias of the head"

#: Published models and the missing pieces, by ``model_type``.
MISSING = {
    "apertus": ("Apertus", "xIELU, an activation with learned parameters"),
    "bamba": ("Bamba", SCAN),
    "bart": ("BART", "a norm of the embeddings"),
    "bloom": ("BLOOM", "a norm of the embeddings"),
    "deepseek_v32": ("DeepSeek-V3.2", "attention to tokens that an indexer chooses, in a block"),
    "falcon_h1": ("Falcon-H1", SCAN),
    "gemma3n_text": ("Gemma 3n", "several residual streams, and embeddings for each block"),
    "gemma4_text": ("Gemma 4", "embeddings for each block, and keys that blocks share"),
    "gptj": ("GPT-J", HEAD_BIAS),
    "granitemoehybrid": ("Granite 4.0", SCAN),
    "lfm2": ("LFM2", "blocks of gated short convolutions"),
    "llama4_text": ("Llama 4", f"{GROWING}, and experts that get weighted inputs"),
    "ministral3": ("Ministral 3", GROWING),
    "nemotron_h": ("Nemotron-H", SCAN),
    "phi": ("Phi-1.5, Phi-2", HEAD_BIAS),
}
