"""The built site: where it is, its pages, and a browser without a network."""

import os
import shutil
from pathlib import Path

import pytest
from lxml import html

ROOT = Path(__file__).parents[2]
SITE = Path(os.environ.get("DLREF_SITE", ROOT / "docs" / "_build" / "html")).resolve()
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


#: The end of MathJax's work, where there are formulas; 15 s are too long.
TYPESETTING = """
() => Promise.race([
    window.MathJax?.startup?.promise?.then(() => true),
    new Promise((_, fail) => setTimeout(fail, 15_000, new Error('typesetting does not end'))),
])
"""
TYPESET = """
() => document.querySelectorAll('.math').length === 0
    || (document.querySelector('mjx-container') && !document.querySelector('script[type^=math]')
        && [...document.querySelectorAll('.math')].every(e => e.querySelector('mjx-container')))
"""


@pytest.fixture(scope="session")
def typeset():
    """Wait until the formulas of a page are typeset, all of them."""

    def wait(page):
        page.evaluate(TYPESETTING)
        assert page.evaluate(TYPESET), "formulas are not typeset"

    return wait


@pytest.fixture(scope="session")
def site():
    if not (SITE / "index.html").exists():
        pytest.fail(f"There is no site in {SITE}: run tox -e docs, or set DLREF_SITE.")
    return SITE


@pytest.fixture(scope="session")
def trees(site):
    """Every page, parsed; the theme's own files in _static are not pages."""
    pages = sorted(p for p in site.rglob("*.html") if "_static" not in p.parts)
    return {page: html.parse(str(page)).getroot() for page in pages}


@pytest.fixture(scope="session")
def sample(site):
    """One page of each kind, by what it is."""
    chapters = [p for p in sorted(site.glob("reference/*.html")) if p.stem != "index"]
    scripts = sorted(site.glob("gallery/*/plot_*.html"))
    return {
        "start": site / "index.html",
        "conventions": site / "conventions.html",
        "topic": site / "reference" / "activations" / "softmax.html",
        "chapter": chapters[0],
        "gallery": site / "gallery" / "index.html",
        "script": scripts[0],
        "contributing": site / "contributing.html",
        "references": site / "references.html",
        "search": site / "search.html",
    }


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    # Without the parts that draw windows it takes a fifth less of a processor.
    names = ("chromium-headless-shell", "chromium")
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("needs Chromium: on PATH, or named by CHROMIUM")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def contexts(browser):
    """Contexts without a network, by their options.

    Each keeps an empty page: the first page of a context takes 0.6 s of a processor more than a
    page beside another. To typeset the formulas of a page takes a second more, which tests of
    something else need not wait for.
    """
    found = {}

    def of(*, formulas=True, **options):
        key = str((formulas, sorted(options.items())))
        if key not in found:
            found[key] = browser.new_context(offline=True, **options)
            if not formulas:
                found[key].route("**/mathjax/*.js", lambda route: route.fulfill(body=""))
            found[key].new_page()
        return found[key]

    yield of
    for context in found.values():
        context.close()


@pytest.fixture(scope="session")
def schemes():
    """A loop over both color schemes of a page, each at once in its final colors."""

    def both(page):
        for theme in ("light", "dark"):
            page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
            page.evaluate("() => document.getAnimations().forEach(a => a.finish())")
            yield theme

    return both


@pytest.fixture(scope="session")
def axe():
    """The source of axe-core, which the build of the site installed."""
    return (ROOT / "docs" / "node_modules" / "axe-core" / "axe.min.js").read_text()
