"""Names at the ends of lines, in place of a legend, where they fit.

A legend makes the eye go to and fro between a line and its name. Where all lines of a legend run
to the right edge of their panel, and end far enough apart, each has its name there. A script has
nothing to do for it.
"""

from itertools import pairwise

import numpy as np
from matplotlib.lines import Line2D

EDGE = 0.95  # share of a panel's width behind which a line has reached the right edge
APART = (
    0.5  # least distance of two ends, in heights of a name: below, nobody can tell which is whose
)
MOVED = 0.7  # largest distance of a name from the end of its line, in the same unit
WIDEST = 0.3  # largest share of a panel's width that names may take
GAP = 4  # points between a line and its name


def end(ax, line):
    """Return where a line ends, in pixels, or None if it does not end at the right edge."""
    points = np.column_stack([line.get_xdata(orig=False), line.get_ydata(orig=False)])
    points = np.asarray(points, dtype=float)
    if line.get_linestyle() == "None" or len(points) < 2 or not line.get_visible():
        return None
    if not np.isfinite(points[-1]).all() or np.any(np.diff(points[:, 0]) < 0):
        return None
    where = line.get_transform().transform(points[-1])
    x, y = ax.transAxes.inverted().transform(where)
    return where if EDGE < x < 1.02 and -0.01 < y < 1.01 else None


def named_lines(ax):
    """Return the lines that a panel's legend names, if it names nothing else."""
    legend = ax.get_legend()
    if legend is None or legend.get_title().get_text() or getattr(ax, "name", "") != "rectilinear":
        return []
    lines, names = ax.get_legend_handles_labels()
    shown = [text.get_text() for text in legend.get_texts()]
    plain = shown == names and len(names) > 1 and all(isinstance(line, Line2D) for line in lines)
    return lines if plain else []


def spread(ends, height):
    """Return how far up each name moves, so that they stand a height apart, or None: no room."""
    order = np.argsort(ends)
    at = np.asarray(ends, dtype=float)[order]
    if any(high - low < APART * height for low, high in pairwise(at)):
        return None
    placed = at.copy()
    for _ in range(50):
        for k in range(len(placed) - 1):
            if (lack := height - (placed[k + 1] - placed[k])) > 0:
                placed[k] -= lack / 2
                placed[k + 1] += lack / 2
    moved = np.empty(len(ends))
    moved[order] = placed - at
    return moved if np.abs(moved).max() <= MOVED * height else None


def alone(fig, ax):
    """Say whether no other axes share the place of a panel, as twins do."""
    return all(other is ax or not ax.bbox.overlaps(other.bbox) for other in fig.axes)


def label_directly(fig):
    """Replace each legend whose names fit at the ends of their lines; say whether one was."""
    replaced = False
    for ax in fig.axes:
        lines = named_lines(ax)
        ends = [end(ax, line) for line in lines]
        if not lines or any(place is None for place in ends) or not alone(fig, ax):
            continue
        texts = ax.get_legend().get_texts()
        boxes = [text.get_window_extent() for text in texts]
        height = 1.1 * max(box.height for box in boxes)
        moved = spread([y for _, y in ends], height)
        if moved is None or max(box.width for box in boxes) > WIDEST * ax.bbox.width:
            continue
        for line, text, up in zip(lines, texts, moved, strict=True):
            ax.annotate(
                text.get_text(),
                (line.get_xdata(orig=False)[-1], line.get_ydata(orig=False)[-1]),
                (GAP, up * 72 / fig.dpi),
                textcoords="offset points",
                annotation_clip=False,
                va="center",
                size=text.get_fontsize(),
                gid="direct",
            )
        ax.get_legend().remove()
        replaced = True
    return replaced
