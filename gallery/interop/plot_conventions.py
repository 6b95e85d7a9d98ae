r"""
Boolean masks of PyTorch, JAX and ONNX
======================================

What does a causal model see if its mask is read with the wrong polarity?
"""

# %%
# Weights under a mask
# --------------------
# Equal scores for six tokens. Left the causal mask as it was meant; in the
# middle the same booleans taken for "blocked": every token sees its future
# alone, and the last one nothing. Right a causal mask of four late queries,
# aligned to the top left instead of the bottom right.

import matplotlib.pyplot as plt
import numpy as np

from dlref.interop import mask_convention

causal = np.tri(6, dtype=bool)
wrong = mask_convention(causal, "torch_mha", "dlref")
late = np.tri(4, 6, dtype=bool)


def weights(attend):
    """Share equal scores among the keys that are seen."""
    seen = attend.sum(-1, keepdims=True)
    return attend / np.maximum(seen, 1)


fig, axes = plt.subplots(1, 3, figsize=(10, 3.2))
for ax, mask, title in (
    (axes[0], causal, "True = attend"),
    (axes[1], wrong, "True = blocked"),
    (axes[2], late, "4 queries, top left"),
):
    image = ax.imshow(weights(mask), vmin=0, vmax=1)
    ax.set(title=title, xlabel="key", ylabel="query")
fig.colorbar(image, ax=axes, label="weight")
