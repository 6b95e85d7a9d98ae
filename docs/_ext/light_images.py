"""Figures with a palette of 256 colors: a third of the size, and no difference that one sees."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

from PIL import Image


def lighten(path, drawn=None):
    """Write a figure that was drawn with a palette, or the one that is there with all colors."""
    with nullcontext(drawn) if drawn else Image.open(path) as image:
        if image.mode != "P":
            small = image.quantize(256, method=Image.Quantize.FASTOCTREE)
            keep_paper(image, small)
            small.save(path, optimize=True)


def keep_paper(image, small):
    """Give the paper, which is in the corner, the color of the page: an octree takes one beside."""
    mode, corner = small.palette.mode, (0, 0)
    colors, at = small.getpalette(mode), len(mode) * small.getpixel(corner)
    colors[at : at + len(mode)] = image.convert(mode).getpixel(corner)
    small.putpalette(colors, mode)


def reduce(app):
    """After the gallery ran: all its figures, two at once, since Pillow lets other threads run."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lighten, app.srcdir.glob("gallery/**/images/**/*.png")))


def setup(app):
    """Connect after sphinx-gallery and before the pages of topics are written."""
    app.connect("builder-inited", reduce, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
