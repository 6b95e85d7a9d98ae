"""sphinx-gallery scraper: every figure drawn once for light, once for dark pages.

Grays are ink or paper and are mirrored; colors are data and stay. A legend becomes names at the
ends of the lines, where they fit.
"""

import base64
import math
import pickle
import re
from html import escape
from io import BytesIO, StringIO
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from alternative import describe, plain
from direct_labels import label_directly
from light_images import lighten
from matplotlib.collections import Collection, QuadMesh
from matplotlib.colors import ListedColormap, to_rgba, to_rgba_array
from matplotlib.contour import ContourSet
from matplotlib.text import Text
from PIL import Image
from sphinx.errors import ExtensionError
from sphinx_gallery.scrapers import figure_rst

STYLE = Path(__file__).parents[2] / "gallery" / "dlref.mplstyle"
DARK_INK = np.array(to_rgba("#ced6dd")[:3])
DARK_PAPER = np.array(to_rgba("#14181e")[:3])  # the theme's dark page
GRAY = 0.03  # largest spread of a gray's channels; mirrored grays, bluish, lie above it
#: Scripts whose first figure has a panel on the start page, and which.
CARDS = {
    "plot_arithmetic": 2,
    "plot_smooth_rectifiers": 1,
    "plot_neuron": 0,
    "plot_conv": 0,
    "plot_cross_entropy": 0,
    "plot_gradient_descent": 2,
    "plot_quantize_blocks": 0,
    "plot_gradient_magnitude": 0,
    "plot_layer_norm": 2,
    "plot_lstm": 0,
    "plot_sinusoidal": 0,
    "plot_scaled_dot_product": 2,
    "plot_language_model": 0,
    "plot_errors": 1,
    "plot_layouts": 0,
}
FINE = 2  # pixels per point of a drawing
READABLE = 9  # pixels: on no screen is the smallest text of a figure shown smaller
#: Coordinates of an SVG, and a number among them with more than two digits behind the point.
COORDINATES = re.compile(r'(?<= d=")[^"]+|(?<= [xy]=")[^"]+|(?<=translate\()[^)]+')
DIGITS = re.compile(r"(\.\d\d)\d+")
EMBEDDED = re.compile(r"(?<=data:image/png;base64,)[^\"]+")
PATHS = 500  # a collection with more of them is a picture in an SVG, not a path for each
COLORS = ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor")


def use_style(_gallery_conf, _fname):
    """Reset hook: one style for all scripts."""
    plt.style.use(STYLE)


def dark_name(path):
    """Return where the dark variant of an image is."""
    path = Path(path)
    return path.with_name(f"{path.stem}_dark{path.suffix}")


def mirror(color):
    """Turn grays between black and white into grays between dark ink and dark paper."""
    rgba = np.array(to_rgba_array(color), dtype=float)
    gray = np.ptp(rgba[:, :3], axis=1) <= GRAY
    level = rgba[gray, :3].mean(axis=1, keepdims=True)
    rgba[gray, :3] = DARK_INK + level * (DARK_PAPER - DARK_INK)
    return rgba


def recolour(artist):
    """Mirror the grays of one artist; mapped colors are data."""
    if isinstance(artist, ContourSet) and artist.colors is not None:
        artist.set_cmap(ListedColormap(mirror(artist.cmap.colors)))
    if isinstance(artist, Collection) and artist.get_array() is not None:
        return
    for name in COLORS:
        get = getattr(artist, f"get_{name}", None)
        if get is None or not hasattr(artist, f"set_{name}"):
            continue
        old = to_rgba_array(get())
        if len(old) and old[:, 3].any():  # "none" stays none
            new = mirror(old)
            getattr(artist, f"set_{name}")(new if isinstance(artist, Collection) else new[0])


def hidden_parts(artist):
    """Yield the parts that findobj does not find."""
    if isinstance(artist, Text):
        yield from filter(None, [artist.get_bbox_patch(), getattr(artist, "arrow_patch", None)])
    elif getattr(artist, "name", None) == "3d":
        for axis in (artist.xaxis, artist.yaxis, artist.zaxis):
            yield from (axis.pane, axis.line)


def on_data(ax):
    """Return the artists drawn over a heat map, which looks the same on both papers."""
    maps = [c for c in ax.collections if isinstance(c, QuadMesh) or getattr(c, "filled", False)]
    return {*ax.lines, *ax.patches, *ax.collections} if ax.images or maps else set()


def luminance(color):
    """Return the relative luminance that WCAG defines."""
    c = np.asarray(color)[:3]
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(a, b):
    """Return the contrast ratio that WCAG defines, from 1 to 21."""
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


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


def darken(fig):
    """Recolour a figure that has been drawn once for dark paper."""
    texts = [text for text in fig.findobj(Text) if text.get_text() and text.get_visible()]
    before = [to_rgba(text.get_color()) for text in texts]
    keep = set().union(*(on_data(ax) for ax in fig.axes))
    for artist in fig.findobj():
        for part in (artist, *hidden_parts(artist)):
            if part not in keep:
                recolour(part)
        if getattr(artist, "name", None) == "3d":
            for axis in (artist.xaxis, artist.yaxis, artist.zaxis):
                grid = axis._axinfo["grid"]
                grid["color"] = mirror(grid["color"])[0]
    if not any(on_data(ax) or ax.patches for ax in fig.axes):
        return  # all texts lie on paper
    for text, old, under in zip(texts, before, backdrops(fig, texts), strict=True):
        if under is not None and contrast(old, under) > contrast(to_rgba(text.get_color()), under):
            text.set_color(old)  # it lies on data


def alt_text(fig, where):
    """Return the figure's alternative text, or refuse the figure."""
    alt = plain(getattr(fig, "alt_text", "")) or describe(fig)
    if not alt:
        msg = (
            f"{where}: figure {fig.number} has no alternative text. Give its axes titles, "
            "or set fig.alt_text to what it shows."
        )
        raise ExtensionError(msg)
    return escape(" ".join(alt.split()))


def least_width(fig):
    """Return the width in pixels at which the smallest text is just readable."""
    texts = [t.get_fontsize() for t in fig.findobj(Text) if t.get_text() and t.get_visible()]
    whole = fig.get_figwidth() * fig.dpi
    return math.ceil(whole * min(1, READABLE / (min(texts, default=10) * fig.dpi / 72)))


def save(fig, sizes, rename):
    """Write a figure for screens with one and with two pixels per point, from one drawing."""
    drawn = BytesIO()
    fig.savefig(drawn, dpi=FINE * fig.dpi, pil_kwargs={"compress_level": 0})
    with Image.open(drawn) as fine:
        for scale, path in sizes.items():
            file, image = rename(path), fine if scale else fine.reduce(FINE)
            if file == path and not scale:  # sphinx-gallery makes a thumbnail of it, of all colors
                image.save(file)
            else:
                lighten(file, image)


def save_svg(fig, path):
    """Write a figure for slides: its text can be edited, and it is the same in each build."""
    for artist in fig.findobj(Collection):
        count = len(artist.get_paths()) + len(artist.get_offsets())
        artist.set_rasterized(isinstance(artist, QuadMesh) or count > PATHS)
    drawn = StringIO()
    with plt.rc_context({"svg.hashsalt": path.name, "svg.fonttype": "none"}):
        fig.savefig(drawn, format="svg", dpi=2 * fig.dpi, metadata={"Date": None})
    text = drawn.getvalue().replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    text = EMBEDDED.sub(with_palette, COORDINATES.sub(in_hundredths, text))
    path.write_text(text, encoding="utf-8")


def in_hundredths(coordinates):
    """Cut coordinates to hundredths of a point."""
    return DIGITS.sub(r"\1", coordinates[0])


def with_palette(encoded):
    """Give an embedded picture 256 colors, as the figures of the pages have."""
    picture, small = BytesIO(base64.b64decode(encoded[0])), BytesIO()
    with Image.open(picture) as image:
        image.quantize(256, method=Image.Quantize.FASTOCTREE).save(small, "png", optimize=True)
    return base64.b64encode(small.getvalue()).decode()


def card(fig, panel):
    """Return a copy of one panel for the start page: 2.6 by 1 inch, without words around it."""
    copy = pickle.loads(pickle.dumps(fig))
    copy.set_layout_engine("none")
    copy.set_size_inches(2.6, 1.0)
    kept = copy.axes[panel]
    for ax in copy.axes:
        ax.set_visible(ax is kept)
    kept.set(title="", xlabel="", ylabel="", position=[0.03, 0.06, 0.94, 0.88])
    kept.tick_params(which="both", length=0, labelbottom=False, labelleft=False)
    if getattr(kept, "name", None) == "3d":
        kept.set(zlabel="", zticks=[], xticks=[], yticks=[], position=[0, -0.6, 1, 2.2])
    else:
        kept.set_aspect("auto")
    if kept.get_legend():
        kept.get_legend().remove()
    for text in copy.texts:
        text.set_visible(False)
    for text in kept.texts:
        text.set_fontsize(6)
    return copy


def save_cards(fig, block_vars, path):
    """Write the card of a script's first figure, light and dark."""
    stem = Path(block_vars["src_file"]).stem
    if stem not in CARDS or not path.stem.endswith("_001"):
        return
    copy = card(fig, CARDS[stem])
    sizes = {2.0: path.with_name(f"card_{stem}.png")}
    save(copy, sizes, Path)
    darken(copy)
    save(copy, sizes, dark_name)


def dual_scraper(block, block_vars, gallery_conf):
    """Save light and dark variants of all open figures; the page names the light ones."""
    rst = []
    try:
        for number, name in zip(plt.get_fignums(), block_vars["image_path_iterator"], strict=False):
            fig, path = plt.figure(number), Path(name)
            alt = alt_text(fig, f"{block_vars['src_file']}:{block.lineno}")
            sizes = {0: path, 2.0: path.with_name(f"{path.stem}_2_00x.png")}
            save_cards(fig, block_vars, path)
            # One layout for all variants: that of axes with an aspect changes from draw to draw.
            fig.draw_without_rendering()
            if label_directly(fig):
                fig.draw_without_rendering()
            fig.set_layout_engine("none")
            save(fig, sizes, Path)
            save_svg(fig, path.with_suffix(".svg"))
            least = least_width(fig)
            darken(fig)
            save(fig, sizes, dark_name)
            image = figure_rst([path.as_posix()], gallery_conf["src_dir"], alt, [sizes])
            rst.append(image.replace("single-img", f"single-img least-{least}"))
    finally:
        plt.close("all")
    return "".join(rst)
