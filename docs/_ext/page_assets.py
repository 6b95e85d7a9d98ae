"""Each page loads the scripts and style sheets that it needs, and no others."""

import re

#: For each file name, a pattern that matches the body of every page that needs the file.
NEEDED_BY = {
    "typeset.js": 'class="math',
    "ifig.js": 'class="ifig"',
    "steps.js": "graph-steps",
    "tryit.js": "rope-dials|attention-workbench|classifier-play",
    "filter.js": 'class="[^"]*\\bfiltered\\b',
    "sg-tags.js": "sg-tag",
    "sg_gallery.css": "sphx-glr",
    "sg_gallery-binder.css": "binder-badge",
    "sg_gallery-dataframe.css": "output_html|dataframe",
    "sg_gallery-rendered-html.css": "output_html|rendered_html",
    "design-tabs.js": "sd-tab",
    "sphinx-design.min.css": 'class="[^"]*\\bsd-',
    "clipboard.min.js": 'class="highlight',
    "copybutton.js": 'class="highlight',
    "copybutton.css": 'class="highlight',
}
SEARCH = ("minisearch/index.js", "search.js")


def needed(file, pagename, body):
    """Return whether a page needs a file."""
    name = str(file.filename or "")
    if name.endswith((*SEARCH, "later.js")):
        return (pagename == "search") != name.endswith("later.js")
    pattern = next((p for end, p in NEEDED_BY.items() if name.endswith(f"/{end}")), None)
    return pattern is None or re.search(pattern, body) is not None


def choose(_app, pagename, _template, context, _doctree):
    """Drop the scripts and style sheets that a page does not use."""
    body = context.get("body") or ""
    for kind in ("script_files", "css_files"):
        context[kind] = [file for file in context[kind] if needed(file, pagename, body)]


def setup(app):
    """Connect when all extensions have added their files and the body is complete."""
    app.connect("html-page-context", choose, priority=960)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
