"""Every image that has a dark variant beside it gets it on HTML pages.

The variant of ``plot.png`` is ``plot_dark.png``.  The theme shows the image of class
``only-light`` or that of class ``only-dark``.  Both are in a box that scrolls sideways where the
screen is narrower than the least width of the figure, which the scraper found.
"""

import re
from pathlib import Path

from docutils import nodes
from dual_scraper import dark_name
from light_images import lighten
from PIL import Image, ImageOps
from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx_gallery.directives import imgsgnode
from sphinx_gallery.py_source_parser import extract_file_config


def darken_thumbnails(app):
    """Scale the dark variant of the figure that each script has as its thumbnail."""
    for thumb in app.srcdir.glob("gallery/**/thumb/sphx_glr_*_thumb.png"):
        stem = thumb.stem.removeprefix("sphx_glr_").removesuffix("_thumb")
        images = thumb.parents[1]
        script = images.with_name(f"{stem}.py").read_text(encoding="utf-8")
        number = extract_file_config(script).get("thumbnail_number", 1)
        figures = sorted(images.glob(f"sphx_glr_{stem}_[0-9][0-9][0-9]_dark.png"))
        if not figures:
            continue
        figure, twin = figures[number - 1 if number > 0 else number], dark_name(thumb)
        # a thumbnail with a new time would have every page that shows it written again
        if not twin.exists() or twin.stat().st_mtime < figure.stat().st_mtime:
            with Image.open(figure) as image:  # colors of a palette would not be blended
                whole = image.convert("RGBA")
            size = app.config.sphinx_gallery_conf["thumbnail_size"]
            ImageOps.pad(whole, size, color=(0, 0, 0, 0)).save(twin)
            lighten(twin)


LEAST = re.compile(r"least-(\d+)")
BOX = '<div class="figure-box" tabindex="0" role="group" aria-label="Figure" style="--least: {}px">'


def set_class(image, name):
    """Add a class; sphinx-gallery's own node keeps its classes elsewhere."""
    if isinstance(image, imgsgnode):
        image["class"] = [f"sphx-glr-single-img {name}"]
    else:
        image["classes"].append(name)


def least_width(image, file):
    """Return the least width of a figure: its class, on whatever page it is shown."""
    text = " ".join(image.get("class") or [])
    page = Path(file).parents[1] / f"{re.sub('^sphx_glr_|_[0-9]+$', '', Path(file).stem)}.rst"
    if not text and page.exists():
        text = page.read_text(encoding="utf-8").partition(f"{Path(file).name}\n")[2]
    found = LEAST.search(text)
    return found and found[1]


def raw(html):
    return nodes.raw("", html, format="html")


class DarkTwins(SphinxTransform):
    """Insert the dark variants, before Sphinx collects the images of a page."""

    default_priority = 500

    def apply(self):
        """Twin every image of the page."""
        images = [*self.document.findall(nodes.image), *self.document.findall(imgsgnode)]
        for image in images:
            _, file = self.env.relfn2path(image["uri"], self.env.docname)
            if not dark_name(file).exists():
                continue
            twin = image.deepcopy()
            twin["uri"] = dark_name(image["uri"]).as_posix()
            if twin.get("srcset"):
                twin["srcset"] = twin["srcset"].replace(".png", "_dark.png")
            least = least_width(image, file)
            set_class(image, "only-light")
            set_class(twin, "only-dark")
            only = addnodes.only("", twin, expr="html and not epub")
            at = image.parent.index(image)
            image.parent.insert(at + 1, [only, raw("</div>")] if least else only)
            if least:
                image.parent.insert(at, raw(BOX.format(least)))


def setup(app):
    """Register after sphinx-gallery, which draws at the default priority."""
    app.connect("builder-inited", darken_thumbnails, priority=900)
    app.add_transform(DarkTwins)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
