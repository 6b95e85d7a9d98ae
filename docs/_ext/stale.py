"""Write generated pages that have changed; remove those of topics, scripts, modules that are gone.

Otherwise a page that nothing lists any more stays, and warns, until someone empties the folders.
"""

import shutil
from pathlib import Path

from facts import PAGES

BUILTIN = {"genindex", "py-modindex", "search", "_modules/index"}


def write_changed(path, text):
    """Write a generated page, unless it stands there already: its time would have it read again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def remove_sources(app):
    """Before pages are generated: drop those of scripts that are gone."""
    gallery = (app.srcdir / app.config.sphinx_gallery_conf["examples_dirs"]).resolve()
    for chapter in app.srcdir.glob("gallery/*/images/"):
        scripts = {page.stem for page in (gallery / chapter.parent.name).glob("plot_*.py")}
        drawn = {page.stem for page in chapter.parent.glob("plot_*.rst")}
        if not drawn or drawn - scripts:
            shutil.rmtree(chapter.parent)  # the chapter's other scripts run again


def read_again(app, _env, added, changed, removed):
    """Read the pages with lists of topics again when any page is: the lists may have changed."""
    if not (added or changed or removed):
        return []
    lists = {f"reference/{chapter}" for chapter in app.config.topic_chapters}
    return sorted(lists | {"learn", "reference/index", *PAGES})


def remove_pages(app, exception):
    """After a build: drop HTML pages that no longer have a source."""
    if exception or app.builder.name != "html":
        return
    modules = getattr(app.env, "_viewcode_modules", {})
    known = BUILTIN | app.env.all_docs.keys() | {f"_modules/{m.replace('.', '/')}" for m in modules}
    out = Path(app.outdir)
    for page in out.rglob("*.html"):
        name = page.relative_to(out).with_suffix("").as_posix()
        if name not in known and not name.startswith("_static/"):
            page.unlink()


def setup(app):
    """Connect before autosummary and sphinx-gallery, to the search for changes, and to the end."""
    app.connect("builder-inited", remove_sources, priority=200)
    app.connect("env-get-outdated", read_again)
    app.connect("build-finished", remove_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
