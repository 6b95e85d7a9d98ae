r"""
Encoder, decoder and encoder-decoder
====================================

What is connected to what in an encoder, in a decoder-only model, and in an
encoder with a decoder?
"""

# %%
# The parts of a block
# --------------------
# A few lines draw boxes on a vertical line, the residual stream. Residual
# connections go around the boxes on the left; a color for each kind of layer.

import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

COLORS = {"attention": "C0", "network": "C1", "norm": "0.75", "ends": "C2"}


def box(ax, x, y, text, kind, height=0.62):
    """Draw a layer with its name, on the stream at x."""
    ax.add_patch(
        FancyBboxPatch(
            (x - 1.25, y),
            2.5,
            height,
            boxstyle="round,pad=0.02,rounding_size=0.1",
            facecolor=COLORS[kind],
            edgecolor="none",
            alpha=0.35 if kind != "norm" else 0.6,
        )
    )
    ax.text(x, y + height / 2, text, ha="center", va="center", fontsize=8)


def arrow(ax, start, end):
    """Draw an arrow between two points."""
    ax.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            mutation_scale=8,
            color="0.35",
            lw=1,
            shrinkA=0,
            shrinkB=0,
        )
    )


def sublayer(ax, x, y, text, kind, norm_first=True):
    """Draw a sub-layer, its norm and its residual sum; return where that is."""
    first, second = (("norm", "norm"), (text, kind))
    if not norm_first:
        first, second = second, first
        box(ax, x, y + 0.35, *first)
        plus = y + 1.3
        box(ax, x, y + 1.7, *second)
        arrow(ax, (x, y + 1.4), (x, y + 1.68))
        end = y + 2.35
    else:
        box(ax, x, y + 0.35, *first)
        box(ax, x, y + 1.3, *second)
        arrow(ax, (x, y + 0.99), (x, y + 1.28))
        plus = end = y + 2.2
    arrow(ax, (x, y), (x, y + 0.33))
    top = y + (0.97 if not norm_first else 1.92)
    arrow(ax, (x, top), (x, plus - 0.13))
    ax.plot(
        [x, x - 1.55, x - 1.55], [y + 0.12, y + 0.12, plus], color="0.35", lw=1
    )
    arrow(ax, (x - 1.55, plus), (x - 0.13, plus))
    ax.text(x, plus, "+", ha="center", va="center", fontsize=9)
    ax.add_patch(plt.Circle((x, plus), 0.13, fill=False, color="0.35", lw=1))
    return end + (0.13 if norm_first else 0.0)


def blocks(ax, x, y, layers, norm_first=True):
    """Draw a block of sub-layers, with a frame and the sign for repetition."""
    start = y
    for text, kind in layers:
        y = sublayer(ax, x, y, text, kind, norm_first)
    frame = Rectangle((x - 1.8, start + 0.02), 3.3, y - start + 0.1)
    frame.set(fill=False, edgecolor="0.6", ls=":", lw=1)
    ax.add_patch(frame)
    ax.text(x + 1.55, (start + y) / 2, "× L", fontsize=9, va="center")
    return y + 0.12


def finish(ax, x, y, layers):
    """Draw single layers one above the other; return the last place."""
    for text, kind in layers:
        arrow(ax, (x, y), (x, y + 0.28))
        box(ax, x, y + 0.3, text, kind)
        y += 0.94
    return y


def stage(width, height, title):
    fig, ax = plt.subplots(figsize=(width, height))
    ax.set_aspect("equal")
    ax.axis("off")
    ax.set_title(title)
    return fig, ax


# %%
# Before and after
# ----------------
# The order of 2017 normalizes the sum; nearly all models since GPT-2 normalize
# the input of a sub-layer, and leave the stream alone.

fig, ax = stage(6, 4.6, "One block of an encoder, in both orders")
PARTS = [("self-attention", "attention"), ("feed-forward", "network")]
for x, first, name in ((0, False, "post-norm"), (5, True, "pre-norm")):
    top = blocks(ax, x, 0, PARTS, first)
    arrow(ax, (x, -0.5), (x, 0))
    arrow(ax, (x, top - 0.05), (x, top + 0.4))
    ax.text(x, -0.85, name, ha="center")
ax.set(xlim=(-2.2, 7.5), ylim=(-1.1, 5.6))
fig.alt_text = (
    "Two columns of boxes. Post-norm: sub-layer, sum with the residual "
    "connection, norm. Pre-norm: norm, sub-layer, sum with the connection."
)

# %%
# The three families
# ------------------
# Encoder-only: every token sees all others, and a class token is read out.
# Decoder-only: the same block, with a causal mask; each place predicts the
# next token. Encoder-decoder: the decoder has a third sub-layer, whose keys
# and values come from the encoder's output.

fig, ax = stage(9.5, 6.6, "Encoder-only, decoder-only, encoder-decoder")
CAUSAL = [("causal self-attention", "attention"), ("feed-forward", "network")]
CROSS = [CAUSAL[0], ("cross-attention", "attention"), CAUSAL[1]]
columns = (
    (
        0,
        "BERT",
        PARTS,
        "[class] + text",
        [("norm", "norm"), ("class of the text", "ends")],
    ),
    (
        4.8,
        "GPT, LLaMA",
        CAUSAL,
        "text so far",
        [("norm", "norm"), ("next token", "ends")],
    ),
    (9.6, "encoder", PARTS, "text to read", [("norm", "norm")]),
    (
        14.4,
        "decoder",
        CROSS,
        "text so far",
        [("norm", "norm"), ("next token", "ends")],
    ),
)
for x, name, layers, text, last in columns:
    ax.text(x, -2.1, name, ha="center", fontweight="bold", fontsize=9)
    box(ax, x, -1.5, f"embed: {text}", "ends")
    arrow(ax, (x, -0.86), (x, 0))
    top = finish(ax, x, blocks(ax, x, 0, layers), last)
    if name == "encoder":
        memory = top
    if name == "decoder":
        into = 2.33 + 1.3 + 0.31  # the middle of the cross-attention
        ax.plot(
            [9.6, 9.6, 12, 12],
            [memory, memory + 0.35, memory + 0.35, into],
            color="C0",
            lw=1.5,
        )
        ax.annotate(
            "",
            (14.4 - 1.28, into),
            (12, into),
            arrowprops={
                "arrowstyle": "-|>",
                "color": "C0",
                "shrinkA": 0,
                "shrinkB": 0,
            },
        )
        ax.text(
            11.9,
            memory + 0.5,
            "keys and values",
            color="C0",
            fontsize=8,
            ha="right",
        )
ax.set(xlim=(-2.2, 16.8), ylim=(-2.4, 9.2))
fig.alt_text = (
    "Four columns. BERT: self-attention and feed-forward, then the class. "
    "GPT: causal self-attention and feed-forward, then the next token. "
    "Encoder beside decoder: the decoder's cross-attention reads the output "
    "of the encoder."
)
