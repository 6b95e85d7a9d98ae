"""sphinx-gallery scraper: every figure is drawn once, for light and for dark pages.

A legend becomes names at the ends of the lines, where they fit.
"""

import base64
import math
import pickle
import re
from html import escape
from io import BytesIO, StringIO
from pathlib import Path

import matplotlib.pyplot as plt
from alternative import describe, plain
from dark_figures import darken, keep_distinct
from direct_labels import label_directly
from light_images import lighten
from matplotlib.collections import Collection, QuadMesh
from matplotlib.text import Text
from PIL import Image
from sphinx.errors import ExtensionError
from sphinx_gallery.scrapers import figure_rst

STYLE = Path(__file__).parents[2] / "gallery" / "dlref.mplstyle"
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


def use_style(_gallery_conf, _fname):
    """Reset hook: one style for all scripts."""
    plt.style.use(STYLE)


def dark_name(path):
    """Return where the dark variant of an image is."""
    path = Path(path)
    return path.with_name(f"{path.stem}_dark{path.suffix}")


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
            keep_distinct(fig)
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
