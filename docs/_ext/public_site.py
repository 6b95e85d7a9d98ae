"""For a site that is published: a site map, a picture for links, a page for wrong addresses.

All of them need the site's address (``html_baseurl``). Pages that are read from files have none.
"""

from html import escape
from urllib.parse import quote

from page_heads import START, description
from PIL import Image

#: Pages that nobody should find by a search engine.
UNLISTED = ("404", "search", "genindex")
CARD, CARD_SIZE = "_static/card.png", (880, 462)


def address_of(base, page):
    return f"{base}{quote(page)}.html"


def site_map(base, pages):
    """Return the site map, one address a line."""
    addresses = (escape(address_of(base, page)) for page in sorted(pages) if page not in UNLISTED)
    lines = "".join(f"<url><loc>{address}</loc></url>\n" for address in addresses)
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    return f'<?xml version="1.0" encoding="utf-8"?>\n<urlset xmlns="{space}">\n{lines}</urlset>\n'


def tags(base, page, title, text):
    """Return the tags that a chat or a network reads to show a link to the page."""
    if page == "404":  # it is shown for any address, so that its own links need a base
        return f'<base href="{escape(base)}" />\n'
    options = {
        "og:title": START if page == "index" else title,
        "og:description": text,
        "og:url": address_of(base, page),
        "og:image": f"{base}{CARD}",
        "og:type": "article",
    }
    lines = "".join(
        f'<meta property="{name}" content="{escape(value)}" />\n'
        for name, value in options.items()
        if value
    )
    return f'{lines}<meta name="twitter:card" content="summary_large_image" />\n'


def add_tags(app, pagename, _template, context, _doctree):
    """Add the tags to a page."""
    base, body = app.config.html_baseurl, context.get("body")
    if base and body:
        more = tags(base, pagename, context["title"], description(body))
        context["metatags"] = context.get("metatags", "") + more


def write_files(app, exception):
    """Write the site map, and the first screen of the README's picture as the card."""
    base = app.config.html_baseurl
    if exception is None and base and app.builder.name == "html":
        pages = app.env.found_docs
        (app.outdir / "sitemap.xml").write_text(site_map(base, pages), encoding="utf-8")
        with Image.open(app.srcdir / "_static" / "readme.png") as image:
            image.crop((0, 0, *CARD_SIZE)).save(app.outdir / CARD)


def setup(app):
    """Connect after page_heads, which gives pages their titles."""
    app.connect("html-page-context", add_tags, priority=950)
    app.connect("build-finished", write_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
