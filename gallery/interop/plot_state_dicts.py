r"""
A port that rotates the wrong pairs
===================================

Someone has written LLaMA in NumPy and loaded a checkpoint. It runs, and it
talks nonsense. Where does it leave the path, and why?
"""

# %%
# The checkpoint
# --------------
# A model of two blocks with random numbers, in the names of Hugging Face.
# :func:`dlref.interop.from_state_dict` turns it into dlref's parameters.

import matplotlib.pyplot as plt
import numpy as np

from dlref.attention import attention_weights
from dlref.check import first_difference, trace
from dlref.interop import from_state_dict
from dlref.normalization import rms_norm
from dlref.positions import apply_rope, rope_frequencies, rope_tables
from dlref.transformer import (
    GatedFeedForwardParams,
    gated_feed_forward,
    language_model,
)

V, D, F, H, T = 50, 32, 48, 4, 12
settings = {
    "model_type": "llama",
    "vocab_size": V,
    "hidden_size": D,
    "intermediate_size": F,
}
settings |= {"num_hidden_layers": 2, "num_attention_heads": H}

block = {f"self_attn.{x}_proj.weight": (D, D) for x in "qkvo"}
block |= {"mlp.gate_proj.weight": (F, D), "mlp.up_proj.weight": (F, D)}
block |= {"mlp.down_proj.weight": (D, F), "input_layernorm.weight": (D,)}
block |= {"post_attention_layernorm.weight": (D,)}
shapes = {"model.embed_tokens.weight": (V, D), "model.norm.weight": (D,)}
shapes |= {"lm_head.weight": (V, D)}
for i in range(2):
    shapes |= {f"model.layers.{i}.{k}": shape for k, shape in block.items()}
rng = np.random.default_rng(0)
state = {k: rng.normal(0, 0.3, shape) for k, shape in shapes.items()}

params, config = from_state_dict(state, "llama", settings)
tokens = rng.integers(0, V, T)
right = trace(language_model, tokens, params, config)


# %%
# The port
# --------
# Parts that are known to be right are dlref's here, so that the port is short.
# It keeps some of its intermediates, by the names of :func:`dlref.check.trace`.

NETWORK = "gate", "up", "down"
tables = rope_tables(np.arange(T), rope_frequencies(D // H))


def heads(x):
    return x.reshape(T, H, -1).swapaxes(0, 1)


def port(state, interleaved):
    def dense(x, name):
        return x @ state[f"{name}.weight"].T

    def rotated(x):
        return apply_rope(x, *tables, interleaved=interleaved)

    x = state["model.embed_tokens.weight"][tokens]
    seen = {"embedding": x}
    for i in range(2):
        name = f"model.layers.{i}."
        y = rms_norm(x, state[f"{name}input_layernorm.weight"])
        q, k, v = (heads(dense(y, f"{name}self_attn.{c}_proj")) for c in "qkv")
        seen[f"blocks.{i}.attention.q"] = q
        weights = attention_weights(rotated(q), rotated(k), is_causal=True)
        seen[f"blocks.{i}.attention.weights"] = weights
        y = (weights @ v).swapaxes(0, 1).reshape(T, D)
        x = x + dense(y, f"{name}self_attn.o_proj")
        y = rms_norm(x, state[f"{name}post_attention_layernorm.weight"])
        network = [state[f"{name}mlp.{c}_proj.weight"] for c in NETWORK]
        x = x + gated_feed_forward(y, GatedFeedForwardParams(*network))
        seen[f"blocks.{i}.out"] = x
    return seen


ported = port(state, interleaved=True)

# %%
# Layer by layer
# --------------
# The embeddings agree, the first block does not: the mistake is in a block. And
# the first token is unaffected. At position 0 nothing is rotated, and a token
# that sees only itself has no use for its scores anyway. So the mistake has to
# do with scores; only the rotation differs between positions.


def distance(a, b):
    gap = np.linalg.norm(a - b, axis=-1) / np.linalg.norm(b, axis=-1)
    return np.maximum(gap, 1e-17)


fig, ax = plt.subplots()
for name in ("embedding", "blocks.0.out", "blocks.1.out"):
    ax.semilogy(distance(ported[name], right[name]), "o-", label=name)
ax.set(
    title="The port beside dlref",
    xlabel="position",
    ylabel="relative distance (0 drawn as 1e-17)",
    ylim=(3e-18, 10),
)
ax.legend(loc="center right")
fig.alt_text = (
    "Distance of a port from the reference, position by position. The "
    "embeddings agree everywhere. After both blocks position 0 agrees to "
    "rounding, all later ones are off by a tenth and more."
)

# %%
# The cause
# ---------
# :func:`dlref.check.first_difference` goes through the names in order. The
# queries agree, though the port keeps their channels in another layout, which
# is no mistake. The weights do not, and it says why.

print(first_difference(right, ported))

# %%
# Checkpoints of LLaMA keep the channels of a head in two halves: channel j is
# rotated with channel j + E/2. The port rotated neighbors. Nothing but an
# option has to change:

print(first_difference(right, port(state, interleaved=False)))
