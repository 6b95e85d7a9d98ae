"""What can be checked in the built files, without a browser."""

from collections import Counter
from urllib.parse import unquote, urlsplit

import pytest

#: Attributes from which a browser loads something by itself.
LOADS = {
    "audio": ("src",),
    "iframe": ("src",),
    "img": ("src", "srcset"),
    "link": ("href",),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
}
#: Relations of a <link> that name a page and load nothing.
NAMES_A_PAGE = {"author", "canonical", "index", "next", "prev", "search", "top"}


def elements(tree):
    return (e for e in tree.iter() if isinstance(e.tag, str))


def ids(tree):
    named = [e.get("name") for e in tree.iter("a") if e.get("name")]
    return {*(e.get("id") for e in elements(tree) if e.get("id")), *named}


def loaded(element):
    """Return the addresses that a browser loads for this element."""
    if element.tag == "link" and set((element.get("rel") or "").split()) & NAMES_A_PAGE:
        return []
    urls = []
    for attribute in LOADS.get(element.tag, ()):
        value = element.get(attribute)
        if value and attribute == "srcset":
            urls += [candidate.split()[0] for candidate in value.split(",")]
        elif value:
            urls.append(value)
    return urls


def links(element):
    return [element.get("href")] if element.tag == "a" and element.get("href") else []


@pytest.fixture(scope="module")
def anchors(trees):
    return {page: ids(tree) for page, tree in trees.items()}


@pytest.fixture
def report(site):
    """Fail with the pages and what is wrong in them."""

    def check(problems):
        lines = sorted({f"{page.relative_to(site)}: {what}" for page, what in problems})
        assert not lines, "\n".join(["", *lines[:40], f"{len(lines)} in all"])

    return check


def test_there_are_pages_of_every_kind(sample):
    assert all(page.exists() for page in sample.values())


def test_every_local_address_exists(trees, anchors, report):
    problems = []
    for page, tree in trees.items():
        for element in elements(tree):
            for url in links(element) + loaded(element):
                parts = urlsplit(url)
                if parts.scheme or parts.netloc:
                    continue
                target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
                fragment = unquote(parts.fragment)
                if not target.exists():
                    problems.append((page, f"broken link {url}"))
                elif fragment and target in anchors and fragment not in anchors[target]:
                    problems.append((page, f"broken anchor {url}"))
    report(problems)


def test_nothing_is_loaded_from_elsewhere(trees, report):
    report(
        (page, f"<{element.tag}> loads {url}")
        for page, tree in trees.items()
        for element in elements(tree)
        for url in loaded(element)
        if urlsplit(url).netloc
    )


def test_style_sheets_load_nothing_from_elsewhere(site, report):
    report(
        (path, "loads from the network")
        for path in (site / "_static").rglob("*.css")
        if any(f"url({q}{s}" in path.read_text() for q in ("", "'", '"') for s in ("http", "//"))
    )


def test_ids_are_unique(trees, report):
    report(
        (page, f"id {name} occurs {count} times")
        for page, tree in trees.items()
        for name, count in Counter(e.get("id") for e in elements(tree) if e.get("id")).items()
        if count > 1
    )


def test_every_figure_has_alternative_text(trees, report):
    report(
        (page, f"no alternative text: {image.get('src')}")
        for page, tree in trees.items()
        for image in tree.iter("img")
        if not (image.get("alt") or "").strip()
        # A thumbnail is decoration: the link around it has the script's title.
        and not any("sphx-glr-thumb" in (e.get("class") or "") for e in image.iterancestors())
    )


def test_every_gallery_figure_is_sharp_and_has_a_dark_twin(trees, report):
    problems = []
    for page, tree in trees.items():
        figures = tree.xpath("//img[contains(@class, 'sphx-glr-single-img')]")
        variants = Counter(
            variant
            for image in figures
            for variant in ("only-light", "only-dark")
            if variant in image.get("class")
        )
        if variants["only-light"] != variants["only-dark"] or variants.total() != len(figures):
            problems.append((page, f"light and dark figures: {dict(variants)}"))
        problems += [
            (page, f"one resolution only: {image.get('src')}")
            for image in figures
            if "2.00x" not in (image.get("srcset") or "")
        ]
    report(problems)


@pytest.fixture
def topics(site, trees):
    """The pages of topics: everything in a folder of a chapter."""
    folders = [path for path in (site / "reference").iterdir() if path.is_dir()]
    chapters = {path for path in folders if path.with_suffix(".html").exists()}
    return {page: tree for page, tree in trees.items() if page.parent in chapters}


def test_every_function_of_a_topic_links_to_its_source(topics, report):
    assert len(topics) > 100
    report(
        (page, f"no link to the source of {name.get('id')}")
        for page, tree in topics.items()
        for name in tree.xpath("//dt[starts-with(@id, 'dlref.') and contains(@class, 'sig')]")
        if not name.xpath(".//*[@class='viewcode-link']")
    )


def test_every_topic_has_its_parts(topics, report):
    report(
        (page, f"no {part}")
        for page, tree in topics.items()
        for part, path in {
            "figure": "//*[contains(@class, 'sphx-glr-thumbcontainer')]",
            "definition": "//section[@id='definition']",
            "examples": "//section[@id='examples']//*[@class='gp']",
            "parameters": "//section[@id='parameters-and-errors']//details//dl",
        }.items()
        if not tree.xpath(path)
    )


def test_what_has_a_formula_or_a_derivative_has_a_derivation(topics, report):
    formula = "//section[@id='definition']//div[contains(@class, 'math')]"
    derivative = "//dt[contains(@id, '_vjp') or contains(@id, '_jvp')]"
    derivation = "//section[@id='derivation']"
    pages = {p: t for p, t in topics.items() if t.xpath(formula) or t.xpath(derivative)}
    assert len(pages) > 80
    report((page, "no derivation") for page, tree in pages.items() if not tree.xpath(derivation))


def test_every_equation_of_a_topic_is_marked_with_its_check(topics, report):
    """But those of steps and exercises, which have a doctest beside each."""
    own = "ancestor::section[@id='exercises' or starts-with(@id, 'backpropagation-step')]"
    unmarked = f"//div[contains(@class, 'math') and contains(@class, 'notranslate')][not({own})]"
    following = "following-sibling::*[1]//a[contains(@class, 'checked')]"
    equations = {page: tree.xpath(unmarked) for page, tree in topics.items()}
    assert sum(map(len, equations.values())) > 300
    report(
        (page, f"no mark: {equation.text_content().strip()[:60]}")
        for page, found in equations.items()
        for equation in found
        if not equation.xpath(following)
    )


def test_old_addresses_lead_to_every_public_function(site, topics):
    functions = {
        name.get("id")
        for tree in topics.values()
        for name in tree.xpath("//dt[starts-with(@id, 'dlref.') and contains(@class, 'sig')]")
    }
    old = {page.stem for page in site.glob("reference/generated/dlref.*.html")}
    assert functions - old == set()
    assert len(functions) > 450


@pytest.mark.parametrize("script", ["mathjax/LICENSE", "minisearch/LICENSE.txt"])
def test_copied_scripts_have_their_licences(site, script):
    assert "copyright" in (site / "_static" / script).read_text().lower()


def test_no_page_is_heavy(site, report):
    report(
        (page, f"{page.stat().st_size / 1000:.0f} kB")
        for page in site.rglob("*.html")
        if page.stat().st_size > 300_000 and page.name != "genindex.html"
    )


def test_the_site_is_light(site):
    files = (p for p in site.rglob("*") if p.is_file())
    assert sum(p.stat().st_size for p in files) < 60e6


def test_every_stop_of_the_path_has_exercises_with_folded_solutions(site, trees):
    learn = trees[site / "learn.html"]
    stops = {
        (site / link.partition("#")[0]).resolve()
        for link in learn.xpath("//article//li/p/a[contains(@href, 'reference/')]/@href")
    }
    assert len(stops) > 20
    for page in stops:
        solutions = trees[page].xpath("//section[@id='exercises']//li//details[.//*[@class='gp']]")
        assert len(solutions) >= 2, page
        assert all(solution.get("open") is None for solution in solutions), page
