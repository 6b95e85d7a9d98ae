"""The end of a build: an honest cache, and where to look."""

from sphinx.application import ENV_PICKLE_FILENAME
from sphinx.util import logging

logger = logging.getLogger(__name__)


def forget_pages_with_warnings(app, _exception):
    """Drop the cache of a build that warned.

    Sphinx warns only about pages it reads, so that the next build would pass.
    """
    if app._warncount:
        (app.doctreedir / ENV_PICKLE_FILENAME).unlink(missing_ok=True)


def drop_source_maps(app, exception):
    """Remove the theme's source maps: two megabytes that only a debugger of the theme reads."""
    if exception is None and app.builder.format == "html":
        for path in (app.outdir / "_static").rglob("*.map"):
            path.unlink()


def say_where(app, exception):
    """Print the address of the start page."""
    if exception is None and app.builder.name == "html":
        logger.info("\nopen %s", (app.outdir / "index.html").as_uri())


def setup(app):
    """Connect all to the end of the build."""
    app.connect("build-finished", forget_pages_with_warnings, priority=900)
    app.connect("build-finished", drop_source_maps, priority=900)
    app.connect("build-finished", say_where, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
