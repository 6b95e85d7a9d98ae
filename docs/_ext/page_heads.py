"""Small things that every page owes: sizes of its images, a title of its own, a description.

With its size known, an image or a formula does not push the text down when it arrives.
"""

import re
from html import escape, unescape

from formula_room import displayed_height, inline_width
from PIL import Image

IMAGE = re.compile(r'<img (?![^>]*\bwidth=)([^>]*?src="[^"]*_images/([^"/]+\.png)"[^>]*?)(/?)>')
PARAGRAPH = re.compile(r"<p>(.*?)</p>", re.DOTALL)
#: Names, punctuation and space in code, which have the color of text: a third of a page.
PLAIN = re.compile(r'<span class="(?:n|p|w)">([^<]*)</span>')
DISPLAYED = re.compile(r'<div class="math [^>]*(?=>(.*?)</div>)', re.DOTALL)
INLINE = re.compile(r'<span class="math [^>]*(?=>\\\((.*?)\\\)</span>)', re.DOTALL)
#: How sphinx-gallery begins a page.
DOWNLOAD = "Go to the end to download"
START = "The mathematics of deep learning"


def sizes(app):
    """Return the size of each figure and thumbnail, by the name that it has on the site."""
    if not hasattr(app, "image_sizes"):
        app.image_sizes = {}
        for path in app.srcdir.glob("gallery/**/images/**/*.png"):
            with Image.open(path) as image:
                app.image_sizes[path.name] = image.size
    return app.image_sizes


def with_sizes(app, body):
    """Return the HTML of a page with the sizes of its images, which are loaded when seen.

    Of a figure's light and dark versions, the browser then loads only the one that it shows.
    """

    def sized(match):
        size = sizes(app).get(match[2])
        if size is None:
            return match[0]
        return f'<img loading="lazy" width="{size[0]}" height="{size[1]}" {match[1]}{match[3]}>'

    return IMAGE.sub(sized, body)


def with_room(body):
    """Return the HTML of a page in which formulas say about how much room they will take."""

    def high(match):
        return f'{match[0]} style="--room: {displayed_height(unescape(match[1])):.1f}rem"'

    def wide(match):
        return f'{match[0]} style="--room: {inline_width(unescape(match[1])):.1f}em"'

    return INLINE.sub(wide, DISPLAYED.sub(high, body))


def description(body):
    """Return the first paragraph of a page as plain text."""
    for found in PARAGRAPH.finditer(body):
        text = " ".join(re.sub(r"<[^>]*>|\\\(.*?\\\)", "", found[1]).split())
        if len(text) > 40 and not text.startswith(DOWNLOAD):
            return text if len(text) < 200 else text[:200].rsplit(" ", 1)[0] + " …"
    return ""


def complete(app, pagename, _template, context, _doctree):
    """Complete what a page says about itself."""
    body = context.get("body")
    if not body:
        return
    context["body"] = PLAIN.sub(r"\1", with_room(with_sizes(app, body)))
    if pagename == app.config.root_doc:
        context["title"] = START
    elif pagename.startswith("gallery/"):
        what = "gallery" if pagename.endswith("/index") else "figures"
        context["title"] = (
            f"{context['title']} ({what})" if pagename != "gallery/index" else "Gallery"
        )
    elif pagename.startswith("_modules/"):
        context["title"] = f"Source of {context['title']}"
    elif pagename.startswith("learn/"):
        context["title"] = f"{context['title']} (course)"
    elif pagename.startswith("equations/") and not pagename.endswith("index"):
        context["title"] = f"{context['title']} (equations)"
    text = description(body)
    if text and 'name="description"' not in context.get("metatags", ""):
        context["metatags"] = (
            context.get("metatags", "") + f'<meta name="description" content="{escape(text)}" />\n'
        )


def setup(app):
    """Connect after the theme has its context."""
    app.connect("html-page-context", complete, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
