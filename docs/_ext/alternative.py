"""The alternative text of a figure: what a reader who does not see it should know.

A script may say it (``fig.alt_text``). Otherwise it is composed from what is drawn: for each panel
its title, its axes, and of each curve where it begins and ends.
"""

import re

import numpy as np
from matplotlib.collections import PathCollection, QuadMesh
from matplotlib.colors import to_hex

LETTERS = (
    "alpha beta gamma delta epsilon zeta eta theta lambda mu nu xi pi rho sigma tau phi chi psi "
    "omega Delta Phi Sigma Omega"
)
GREEK = dict(zip(LETTERS.split(), "αβγδεζηθλμνξπρστφχψωΔΦΣΩ", strict=True))
SIGNS = GREEK | {
    "partial": "∂", "cdot": "·", "times": "×", "sqrt": "√", "le": "≤", "ge": "≥", "infty": "∞",
    "nabla": "∇", "sum": "Σ", "prod": "Π", "to": "→", "quad": " ", "odot": "⊙", "ell": "ℓ",
    "top": "ᵀ", "log": "log", "exp": "exp", "tanh": "tanh", "max": "max", "min": "min",
    "sin": "sin", "cos": "cos", "ne": "≠", "approx": "≈", "in": "∈", "pm": "±", "mid": "|",
    "Vert": "‖", "ldots": "…", "dots": "…", "cdots": "…", "langle": "⟨", "rangle": "⟩",
    "leftarrow": "←", "rightarrow": "→", "relu": "relu", "dot": "",
}  # fmt: skip
MOST_PANELS, MOST_CURVES = 4, 4


def plain(text):
    """Return a label without TeX."""

    def mathematics(match):
        tex = re.sub(r"\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}", r"\1 / \2", match[1])
        tex = re.sub(r"\\([a-zA-Z]+)", lambda m: SIGNS.get(m[1], ""), tex)
        tex = re.sub(r"_\{?(\w)\}?", r" \1", tex) if "_" in tex and "{" not in tex else tex
        return re.sub(r"[{}\\]", "", tex).replace("_", " ").strip()

    text = re.sub(r"\$([^$]*)\$", mathematics, text)
    return " ".join(text.replace("␣", "space").split())


def number(value):
    """Return a number in few digits."""
    return f"{value:.3g}".replace("-", "−")


def course(y):
    """Say how a curve goes: up, down, or through a least or largest value in between."""
    y = y[np.isfinite(y)]
    if len(y) < 2:
        return "is a single point"
    first, last, low, high = y[0], y[-1], y.min(), y.max()
    room = 0.05 * (high - low)
    if high - low <= 1e-9 * max(1.0, abs(high)):
        return f"stays at {number(first)}"
    if low < min(first, last) - room and high <= max(first, last) + room:
        return f"goes from {number(first)} down to {number(low)} and ends at {number(last)}"
    if high > max(first, last) + room and low >= min(first, last) - room:
        return f"goes from {number(first)} up to {number(high)} and ends at {number(last)}"
    if low < min(first, last) - room:
        return f"moves between {number(low)} and {number(high)}"
    return f"{'rises' if last > first else 'falls'} from {number(first)} to {number(last)}"


def trend(line):
    """Say how a line goes, or between which values its points lie if they are in no order."""
    x = np.asarray(line.get_xdata(orig=False), dtype=float)
    y = np.asarray(line.get_ydata(orig=False), dtype=float)
    if len(x) == len(y) and np.any(np.diff(x) < 0) and np.any(np.diff(x) > 0):
        low, high = np.nanmin(x), np.nanmax(x)
        return f"has {len(x)} points between {number(low)} and {number(high)}"
    return course(y)


def curves(ax):
    """Return the lines of a panel that are data: no helping lines, no single points."""
    lines = [line for line in ax.lines if line.get_visible() and np.size(line.get_ydata()) > 2]
    named = [line for line in lines if not line.get_label().startswith("_")]
    return named or lines


def of_axes(ax):
    """Say what the axes are, if they have names."""
    x, y = plain(ax.get_xlabel()), plain(ax.get_ylabel())
    return f" of {y} over {x}" if x and y else f" over {x}" if x else f" of {y}" if y else ""


def maps(ax):
    """Yield the arrays that a panel shows as colors."""
    for image in ax.images:
        yield np.asarray(image.get_array(), dtype=float)
    for mesh in ax.collections:
        if isinstance(mesh, QuadMesh) and mesh.get_array() is not None:
            yield np.asarray(mesh.get_array(), dtype=float)


def panel(ax):
    """Return what one panel shows, without its title."""
    shown = next((z for z in maps(ax) if z.ndim == 2), None)
    if shown is not None:
        finite = shown[np.isfinite(shown)]
        size = " by ".join(map(str, shown.shape))
        values = f", with values from {number(finite.min())} to {number(finite.max())}"
        return f"a map{of_axes(ax)}, {size} cells{values if finite.size else ''}"
    if lines := curves(ax):
        courses = []
        for k, line in enumerate(lines[:MOST_CURVES], 1):
            label = plain(line.get_label())
            name = label if label and not label.startswith("_") else f"curve {k}"
            name = "it" if len(lines) == 1 and name == "curve 1" else name
            courses.append(f"{name} {trend(line)}")
        count = "a curve" if len(lines) == 1 else f"{len(lines)} curves"
        return f"{count}{of_axes(ax)}; {', '.join(courses)}"
    bars = [
        bar.get_width()
        if getattr(container, "orientation", "") == "horizontal"
        else bar.get_height()
        for container in ax.containers
        for bar in getattr(container, "patches", [])
    ]
    if bars:
        span = f"from {number(min(bars))} to {number(max(bars))}"
        return f"{len(bars)} bars{of_axes(ax)}, with lengths {span}"
    points = [c for c in ax.collections if isinstance(c, PathCollection)]
    if points:
        total = sum(len(c.get_offsets()) for c in points)
        colors = {to_hex(c.get_facecolor()[0]) for c in points if len(c.get_facecolor())}
        groups = f" in {len(colors)} colors" if len(colors) > 1 else ""
        return f"{total} points{groups}{of_axes(ax)}"
    words = [plain(text.get_text()) for text in ax.texts if text.get_text().strip()]
    return (
        f"a drawing with the words {', '.join(words[:8])}" if words else f"a drawing{of_axes(ax)}"
    )


def describe(fig):
    """Return sentences on the panels of a figure, or '' if no panel has a title or a label."""
    panels = [
        ax
        for ax in fig.axes
        if ax.get_visible() and ax.axison | bool(ax.texts) and ax.get_label() != "<colorbar>"
    ]
    if not any(ax.get_title() or ax.get_xlabel() or ax.texts for ax in panels):
        return ""
    out = [f"{plain(fig.get_suptitle())}."] if fig.get_suptitle() else []
    for ax in panels[:MOST_PANELS]:
        title = plain(ax.get_title())
        name = f"“{title}”" if title else "The figure" if len(panels) == 1 else "A panel"
        out.append(f"{name} shows {panel(ax)}.")
    if rest := [plain(ax.get_title()) for ax in panels[MOST_PANELS:]]:
        names = ", ".join(filter(None, rest))
        out.append(f"{len(rest)} more panels are of the same kind{': ' if names else ''}{names}.")
    if len(panels) > 1:
        out.insert(0, f"The figure has {len(panels)} panels.")
    return " ".join(out)
