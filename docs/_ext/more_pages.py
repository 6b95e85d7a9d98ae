"""A side bar for the pages that belong to no chapter: essays, conventions, measurements."""

GROUPS = {
    "Essays": (
        *("gradients_through_depth", "rates_of_descent", "curvature", "gradient_estimators"),
        *("scores", "wide_networks", "why_attention", "connections_and_caches", "error_bounds"),
    ),
    "Before you derive": ("adjoints", "expectations"),
    "Conventions": ("conventions", "names", "conformance"),
    "How exact, how fast": ("accuracy", "elementary", "speed", "inside", "withstands"),
    "About dlref": ("about", "changelog", "contributing", "references"),
}
PAGES = [page for pages in GROUPS.values() for page in pages]


def add_groups(app, pagename, _template, context, _doctree):
    """Give the template of the side bar its groups: title, whether here, and address of a page."""
    if pagename in PAGES:
        titles = app.env.titles
        context["page_groups"] = [
            (name, [(titles[p].astext(), p == pagename, context["pathto"](p)) for p in pages])
            for name, pages in GROUPS.items()
        ]


def setup(app):
    """Connect before the page is written."""
    app.connect("html-page-context", add_groups)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
