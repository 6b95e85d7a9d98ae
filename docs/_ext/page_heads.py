"""Small things that every page owes: sizes of its images, a title of its own, a description.

With its size known, an image or a formula does not push the text down when it arrives.
"""

import re
from html import escape, unescape

from PIL import Image

IMAGE = re.compile(r'<img (?![^>]*\bwidth=)([^>]*?src="[^"]*_images/([^"/]+\.png)"[^>]*?)(/?)>')
PARAGRAPH = re.compile(r"<p>(.*?)</p>", re.DOTALL)
#: Names, punctuation and space in code, which have the color of text: a third of a page.
PLAIN = re.compile(r'<span class="(?:n|p|w)">([^<]*)</span>')
DISPLAYED = re.compile(r'<div class="math [^>]*(?=>\s*\\\[(.*?)\\\]\s*</div>)', re.DOTALL)
INLINE = re.compile(r'<span class="math [^>]*(?=>\\\((.*?)\\\)</span>)', re.DOTALL)
#: A formula in a line, and the punctuation behind it.
PUNCTUATED = re.compile(r'<span class="math [^>]*>[^<]*</span>[.,;:!?)]+')
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


#: MathJax makes an x of its font, which is 0.442 em high, as high as an x of the text around it.
X_HEIGHT = 0.442


def with_room(boxes, body):
    """Return the HTML of a page in which formulas say how much room they will take."""

    def high(match):
        _, height, depth = boxes.get((unescape(match[1]).strip(), True), (0, 1, 1))
        with_margins = height + depth + 2
        return f'{match[0]} style="--room: {with_margins / X_HEIGHT:.1f}ex"'

    def wide(match):
        width, _, _ = boxes.get((unescape(match[1]), False), (len(match[1]) / 2, 0, 0))
        return f'{match[0]} style="--room: {width / X_HEIGHT:.2f}ex"'

    return INLINE.sub(wide, DISPLAYED.sub(high, body))


def with_punctuation(body):
    """Keep punctuation on the line of the formula that it follows: browsers would break there."""
    return PUNCTUATED.sub(r'<span class="unbroken">\g<0></span>', body)


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
    sized = with_room(app.env.tex_boxes, with_sizes(app, body))
    context["body"] = PLAIN.sub(r"\1", with_punctuation(sized))
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
