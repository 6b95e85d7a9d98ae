"""The end of a build: an honest cache, nothing that no page loads, and where to look."""

import re

from sphinx.application import ENV_PICKLE_FILENAME
from sphinx.util import logging

logger = logging.getLogger(__name__)


def forget_pages_with_warnings(app, _exception):
    """Drop the cache of a build that warned.

    Sphinx warns only about pages it reads, so that the next build would pass.
    """
    if app._warncount:
        (app.doctreedir / ENV_PICKLE_FILENAME).unlink(missing_ok=True)


#: Files of the theme that no page loads: for its debugger, and its icons, which dlref.css draws.
UNUSED = ("**/*.map", "scripts/fontawesome.js*", "vendor/fontawesome/webfonts/*")

#: What its style sheet says of two thousand icons.
ICONS = re.compile(r'(?:\.fa-[\w-]+,?)+\{--fa:"[^"]*"\}|@font-face\{[^}]*fontawesome[^}]*\}')


def drop_unused(app, exception):
    """Remove what no page loads: more than two megabytes."""
    if exception is None and app.builder.format == "html":
        for pattern in UNUSED:
            for path in (app.outdir / "_static").glob(pattern):
                path.unlink()
        style = app.outdir / "_static" / "styles" / "pydata-sphinx-theme.css"
        style.write_text(ICONS.sub("", style.read_text(encoding="utf-8")), encoding="utf-8")


def say_where(app, exception):
    """Print the address of the start page."""
    if exception is None and app.builder.name == "html":
        logger.info("\nopen %s", (app.outdir / "index.html").as_uri())


def setup(app):
    """Connect all to the end of the build."""
    app.connect("build-finished", forget_pages_with_warnings, priority=900)
    app.connect("build-finished", drop_unused, priority=900)
    app.connect("build-finished", say_where, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
