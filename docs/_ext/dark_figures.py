"""
Figures for light and dark pages.

Grays are ink or paper, and dark pages mirror them.  Colors are data and stay, but for thin lines
and points that the page would swallow, such as the two ends of a color map.
"""

import numpy as np
from matplotlib.collections import Collection, LineCollection, PathCollection, QuadMesh
from matplotlib.colors import ListedColormap, to_rgba, to_rgba_array
from matplotlib.contour import ContourSet
from matplotlib.lines import Line2D
from matplotlib.text import Text

DARK_INK = np.array(to_rgba("#ced6dd")[:3])
DARK_PAPER = np.array(to_rgba("#14181e")[:3])  # the theme's dark page
LIGHT_PAPER = np.ones(3)
CONTRAST = 3  # the least that WCAG asks of graphics
GRAY = 0.03  # largest spread of a gray's channels; mirrored grays, bluish, lie above it
COLORS = ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor")


def luminance(color):
    """Return the relative luminance that WCAG defines."""
    c = np.asarray(color)[..., :3]
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(a, b):
    """Return the contrast ratio that WCAG defines, from 1 to 21."""
    a, b = luminance(a), luminance(b)
    return (np.maximum(a, b) + 0.05) / (np.minimum(a, b) + 0.05)


def mirror(color):
    """Turn grays between black and white into grays between dark ink and dark paper."""
    rgba = np.array(to_rgba_array(color), dtype=float)
    gray = np.ptp(rgba[:, :3], axis=1) <= GRAY
    level = rgba[gray, :3].mean(axis=1, keepdims=True)
    rgba[gray, :3] = DARK_INK + level * (DARK_PAPER - DARK_INK)
    return rgba


def distinct(color, paper):
    """Mix colors with white, or on light paper with black, until they stand out from it."""
    rgba = np.array(to_rgba_array(color), dtype=float)
    end = np.full(3, float(luminance(paper) < 0.5))
    for row in rgba:
        mixed = row[:3] + np.linspace(0, 1, 41)[:, None] * (end - row[:3])
        row[:3] = mixed[np.argmax(contrast(mixed, paper) >= CONTRAST)]
    return rgba


def with_distinct_map(artist, paper):
    """Change the color map of lines and points, if they have one, and the labels of contours."""
    thin = isinstance(artist, (LineCollection, PathCollection))
    if isinstance(artist, ContourSet):
        thin = not artist.filled and artist.colors is None
        for text in artist.labelTexts:
            text.set_color(distinct(text.get_color(), paper)[0])
    if thin and artist.get_array() is not None:
        colors = artist.cmap(np.linspace(0, 1, 256))
        artist.set_cmap(ListedColormap(distinct(colors, paper)))


def recolour(artist):
    """Mirror the grays of one artist; mapped colors are data."""
    if isinstance(artist, ContourSet) and artist.colors is not None:
        artist.set_cmap(ListedColormap(mirror(artist.cmap.colors)))
    with_distinct_map(artist, DARK_PAPER)
    if isinstance(artist, Collection) and artist.get_array() is not None:
        return
    thin = isinstance(artist, (Line2D, LineCollection, Text))
    for name in COLORS:
        get = getattr(artist, f"get_{name}", None)
        if get is None or not hasattr(artist, f"set_{name}"):
            continue
        old = to_rgba_array(get())
        if len(old) and old[:, 3].any():  # "none" stays none
            new = mirror(old)
            colored = np.ptp(old[:, :3], axis=1) > GRAY
            if thin and colored.any():
                new[colored] = distinct(old[colored], DARK_PAPER)
            getattr(artist, f"set_{name}")(new if isinstance(artist, Collection) else new[0])


def hidden_parts(artist):
    """Yield the parts that findobj does not find."""
    if isinstance(artist, Text):
        yield from filter(None, [artist.get_bbox_patch(), getattr(artist, "arrow_patch", None)])
    elif getattr(artist, "name", None) == "3d":
        for axis in (artist.xaxis, artist.yaxis, artist.zaxis):
            yield from (axis.pane, axis.line)


def has_map(ax):
    """Return whether there is a heat map, which looks the same on both papers."""
    filled = (isinstance(c, QuadMesh) or getattr(c, "filled", False) for c in ax.collections)
    return bool(ax.images) or any(filled)


def on_data(fig):
    """Return the artists drawn over heat maps, but for their texts."""
    maps = [ax for ax in fig.axes if has_map(ax)]
    return {artist for ax in maps for artist in (*ax.lines, *ax.patches, *ax.collections)}


def backdrops(fig, texts):
    """Return the color under each text, None for a text outside the figure."""
    alphas = [text.get_alpha() for text in texts]
    for text in texts:
        text.set_alpha(0)
    fig.canvas.draw()  # also brings the texts' extents from the last savefig back to this size
    pixels = np.asarray(fig.canvas.buffer_rgba())[::-1, :, :3] / 255
    for text, alpha in zip(texts, alphas, strict=True):
        text.set_alpha(alpha)
        box = Text.get_window_extent(text)  # an annotation's own would include its arrow
        (left, bottom), (right, top) = np.maximum(box.get_points(), 0).astype(int)
        under = pixels[bottom : top + 1, left : right + 1].reshape(-1, 3)
        yield np.median(under, axis=0) if len(under) else None


def keep_distinct(fig):
    """Change the color maps of lines that light paper would swallow."""
    keep = on_data(fig)
    for artist in fig.findobj(Collection):
        if artist not in keep:
            with_distinct_map(artist, LIGHT_PAPER)


def darken(fig):
    """Recolour a figure that has been drawn once for dark paper."""
    texts = [text for text in fig.findobj(Text) if text.get_text() and text.get_visible()]
    before = [to_rgba(text.get_color()) for text in texts]
    keep = on_data(fig)
    for artist in fig.findobj():
        for part in (artist, *hidden_parts(artist)):
            if part not in keep:
                recolour(part)
        if getattr(artist, "name", None) == "3d":
            for axis in (artist.xaxis, artist.yaxis, artist.zaxis):
                grid = axis._axinfo["grid"]
                grid["color"] = mirror(grid["color"])[0]
    if not any(has_map(ax) or ax.patches for ax in fig.axes):
        return  # all texts lie on paper
    for text, old, under in zip(texts, before, backdrops(fig, texts), strict=True):
        if under is not None and contrast(old, under) > contrast(to_rgba(text.get_color()), under):
            text.set_color(old)  # it lies on data
