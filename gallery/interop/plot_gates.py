r"""
Gate orders of LSTM and GRU
===========================

Where in a matrix of weights does each library keep which gate, and what
happens if one takes them in the wrong order?
"""

# %%
# Four libraries
# --------------
# Each row is the first axis of the weights of a layer, from top to bottom of
# the matrix; the letters are the ones dlref uses.

import matplotlib.pyplot as plt
import numpy as np

from dlref.interop import convert_gates
from dlref.recurrent import lstm

LIBRARIES = {
    "PyTorch, dlref": "torch",
    "ONNX": "onnx",
    "Keras": "keras",
    "TensorFlow 1": "tensorflow",
}
fig, axes = plt.subplots(1, 2, figsize=(8.5, 3), width_ratios=[4, 3])
for ax, cell, letters in zip(
    axes, ("lstm", "gru"), ("ifgo", "rzn"), strict=True
):
    for row, library in enumerate(LIBRARIES.values()):
        order = convert_gates(
            np.arange(len(letters)), "torch", library, cell=cell
        )
        for place, gate in enumerate(order.astype(int)):
            ax.barh(row, 0.96, left=place, color=f"C{gate}", alpha=0.45)
            ax.text(place + 0.48, row, letters[gate], ha="center", va="center")
    ax.set(title=cell.upper(), xlabel="block of H rows", xticks=[])
    ax.set_yticks(range(4), LIBRARIES if cell == "lstm" else [""] * 4)
    ax.invert_yaxis()
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.tick_params(length=0)
fig.alt_text = (
    "Blocks of gates. LSTM: PyTorch and Keras i, f, g, o; ONNX i, o, f, g; "
    "TensorFlow 1 i, g, f, o. GRU: PyTorch and TensorFlow 1 r, z, n; ONNX and "
    "Keras z, r, n."
)

# %%
# The wrong order
# ---------------
# Weights of an ONNX file, read without conversion: the result has the right
# shape, stays within its bounds, and is wrong.

rng = np.random.default_rng(0)
x = rng.normal(size=(40, 3))
right = rng.normal(size=(16, 3)), rng.normal(size=(16, 4))
stored = [convert_gates(w, "torch", "onnx", cell="lstm") for w in right]
read = [convert_gates(w, "onnx", "torch", cell="lstm") for w in stored]

fig, ax = plt.subplots()
ax.plot(lstm(x, None, None, *right)[0][:, 0], lw=5, alpha=0.35, label="right")
ax.plot(lstm(x, None, None, *read)[0][:, 0], label="converted")
ax.plot(lstm(x, None, None, *stored)[0][:, 0], "--", label="as they are")
ax.set(
    title="One unit of an LSTM",
    xlabel="step",
    ylabel="state",
    ylim=(-1, 1),
)
ax.legend()
