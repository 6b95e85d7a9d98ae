r"""
How many bits a model needs
===========================

What does a trained model lose if its numbers are kept in fewer bits, and how
large are the files?
"""

# %%
# A small model learns from *Alice* for a moment. Its numbers are then rounded
# to fewer binary digits, in all arrays at once, and it is tested on the tenth
# of the text that it did not see.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from dlref.training import adamw_step
from dlref.transformer import (
    LanguageModelConfig,
    init_language_model,
    language_model_loss,
    language_model_loss_value_and_grad,
    load_params,
    save_params,
)

here = Path(__file__).parent if "__file__" in globals() else Path()
if not (here / "alice.txt").exists():
    msg = "Put alice.txt, which the page offers, beside the script."
    raise SystemExit(msg)
text = (here / "alice.txt").read_text()
characters = sorted(set(text))
tokens = np.array([characters.index(c) for c in text])
V, T = len(characters), 32
cut = len(tokens) * 9 // 10
held = tokens[cut:]
held = held[: len(held) // T * T].reshape(-1, T)
config = LanguageModelConfig(V, 32, 4, num_layers=1, positions="rope")
rng = np.random.default_rng(0)
params, state = init_language_model(rng, config, dtype=np.float32), None
for _ in range(150):
    start = rng.integers(0, cut - T, 16)
    batch = tokens[start[:, None] + np.arange(T + 1)]
    _, grads = language_model_loss_value_and_grad(batch, params, config)
    params, state = adamw_step(params, grads, state, learning_rate=1e-2)


def mapped(f, tree):
    """Apply f to every array of nested tuples."""
    if isinstance(tree, tuple):
        entries = [mapped(f, entry) for entry in tree]
        return (
            type(tree)(*entries) if hasattr(tree, "_fields") else tuple(entries)
        )
    return None if tree is None else f(tree)


def rounded(digits):
    """Keep some binary digits of each number."""

    def keep(array):
        mantissa, exponent = np.frexp(array)
        return np.ldexp(
            np.round(mantissa * 2.0**digits) / 2.0**digits, exponent
        )

    return mapped(keep, params)


digits = np.arange(1, 13)
exact = float(language_model_loss(held, params, config))
loss = [
    float(language_model_loss(held, rounded(int(d)), config)) for d in digits
]
fig, ax = plt.subplots()
ax.plot(digits, loss, "o-")
ax.axhline(exact, color="0.6", ls=":", lw=1)
for place, name in ((8, "bfloat16"), (11, "float16")):
    ax.annotate(
        name,
        (place, loss[place - 1]),
        (place, exact + 0.02),
        ha="center",
        arrowprops={"arrowstyle": "-", "color": "0.5"},
    )
ax.set(
    title="Loss after rounding all parameters",
    xlabel="binary digits kept",
    ylabel="nats per character",
)
assert abs(loss[-2] - exact) < 0.01

# %%
# Files
# -----
# Saved and read back, in three types.

sizes = {}
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.npz"
    for dtype in (np.float64, np.float32, np.float16):
        kept = mapped(lambda a, dtype=dtype: a.astype(dtype), params)
        save_params(path, kept, config)
        again, same = load_params(path)
        assert same == config
        assert np.array_equal(again.embedding, kept.embedding)
        sizes[np.dtype(dtype).name] = path.stat().st_size / 1024
fig, ax = plt.subplots(figsize=(7, 2.2))
ax.barh(list(sizes), list(sizes.values()))
for name, size in sizes.items():
    ax.annotate(f" {size:.0f} KiB", (size, name), va="center")
ax.set(
    title="Size of the file", xlabel="KiB", xlim=(0, 1.2 * max(sizes.values()))
)
ax.invert_yaxis()
