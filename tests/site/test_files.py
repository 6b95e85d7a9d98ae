"""What can be checked in the built files, without a browser."""

import ast
import itertools
import json
import re
import tomllib
import zipfile
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree as ET

import pytest
from course import Course
from topic_records import load

ROOT = Path(__file__).parents[2]
COURSE = Course(ROOT / "docs")
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
SVG = "{http://www.w3.org/2000/svg}"
#: Scripts, and what is on each page that loads them.
USED_BY = {
    "ifig.js": "//figure[@class='ifig']",
    "steps.js": "//*[contains(@class, 'graph-steps')]",
    "tryit.js": "//*[contains(@class, 'rope-dials') or contains(@class, 'attention-workbench')"
    " or contains(@class, 'classifier-play')]",
    "filter.js": "//table[contains(concat(' ', @class, ' '), ' filtered ')]",
    "fontawesome.js": "//no-page",
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


CODE = (
    "//div[contains(@class, 'highlight-python') and not(contains(@class, 'import '))]"
    "[not(ancestor::section[@id='exercises'])]"
)
#: The nine parts of a topic's page, and the name under which a topic may say that it has none.
PARTS = {
    "": {
        "lead": "//section[h1]/p[contains(@class, 'lead')][string-length() > 60]",
        "figure": "//section[h1]/*[self::img or descendant::img][following::section]",
        "definition": "//section[@id='definition']",
        "examples": "//section[@id='examples']//*[@class='gp']",
        "parameters": "//section[@id='parameters-and-errors']//details//dl",
        "gallery": "//*[contains(@class, 'sphx-glr-thumbcontainer')]",
    },
    "numpy": {"code": CODE},
    "derivation": {"derivation": "//section[@id='derivation']"},
    "numerics": {"numerics": "//section[@id='numerics']//li"},
    "conventions": {"conventions": "//section[@id='conventions-and-traps']/*[2]"},
    "exercises": {"exercises": "//section[@id='exercises']//details[.//*[@class='gp']]"},
}


def test_every_topic_has_its_parts(topics, report):
    """Or says in docs/topics why not; a reason of its own goes once the part is there."""
    problems, reasons = [], set()
    for page, tree in topics.items():
        chapter = load()[page.parent.name]
        own = chapter.topics[page.stem].without.keys()
        reasons |= own | chapter.without.keys()
        for declared, parts in PARTS.items():
            for part, path in parts.items():
                if not tree.xpath(path) and declared not in own | chapter.without.keys():
                    problems.append((page, f"no {part}"))
                elif tree.xpath(path) and declared in own:
                    problems.append((page, f"has {part}, and a reason why not"))
    assert reasons == PARTS.keys() - {""}
    report(problems)


#: A formula in the definition of a topic: its symbols are explained above.
FORMULA = "//section[@id='definition']//div[contains(@class, 'math')]"


def test_every_topic_begins_with_two_sentences_and_its_symbols(topics, report):
    """Where there is a formula. The upstream gradient is introduced wherever there is a vjp."""
    problems = []
    for page, tree in topics.items():
        lead = tree.xpath("string(//section[h1]/p[contains(@class, 'lead')])")
        symbols = tree.xpath("string(//section[h1]/p[contains(@class, 'symbols')])")
        if len(re.findall(r"[.?!](?: |$)", lead)) < 2:
            problems.append((page, f"begins with less than two sentences: {lead[:60]}"))
        if tree.xpath(FORMULA) and len(symbols) < 30:
            problems.append((page, "has a formula, and explains no symbols"))
        if tree.xpath("//dt[contains(@id, '_vjp')]") and "upstream gradient" not in symbols:
            problems.append((page, "has a backward pass and does not introduce u"))
    report(problems)


def test_sections_of_a_topic_stand_in_the_order_of_understanding(topics, report):
    order = [
        "definition", "parameters-and-errors", "examples", "try-it", "derivation",
        "options-and-variants", "numerics", "conventions-and-traps", "exercises",
        "before-you-go-on", "used-in", "references",
    ]  # fmt: skip
    for page, tree in topics.items():
        found = [s.get("id") for s in tree.xpath("//section[h1]/section") if s.get("id") in order]
        assert found == sorted(found, key=order.index), page


#: Topics whose derivation has special cases, and what must come before them.
MAIN = {
    "recurrent/lstm": ("lstm_vjp", ["lstm_cell_vjp", "lstm_gates_vjp"]),
    "recurrent/gru": ("gru_vjp", ["gru_cell_vjp"]),
    "recurrent/rnn": ("rnn_vjp", ["rnn_cell_vjp"]),
    "losses/cross_entropy": ("cross_entropy_grad", ["cross_entropy_value_and_grad"]),
    "neurons/mlp": ("mlp_vjp", ["mlp_deltas"]),
    "transformer/blocks": ("encoder_block_vjp", ["decoder_block_vjp"]),
    "transformer/stacks": ("encoder_vjp", ["decoder_vjp"]),
    "transformer/language_model": ("language_model_vjp", ["language_model_loss_value_and_grad"]),
}


@pytest.mark.parametrize("topic", MAIN)
def test_the_main_result_comes_before_its_special_cases(site, trees, topic):
    main, special = MAIN[topic]
    titles = "//section[@id='derivation']//*[self::h3 or self::summary]"
    text = [t.text_content() for t in trees[site / "reference" / f"{topic}.html"].xpath(titles)]
    places = {name: next(k for k, t in enumerate(text) if name in t) for name in [main, *special]}
    assert all(places[main] < places[name] for name in special), places


def test_special_cases_are_folded_and_last(topics, report):
    problems, count = [], 0
    special = "//section[@id='special-cases-and-further-forms']"
    for page, tree in topics.items():
        for fold in tree.xpath(f"{special}/details"):
            count += 1
            if fold.get("open") is not None:
                problems.append((page, "unfolded special case"))
        if tree.xpath(f"{special}/following-sibling::section"):
            problems.append((page, "a main result after special cases"))
        if "value-and-grad" in " ".join(tree.xpath("//section[@id='derivation']/section/@id")):
            problems.append((page, "a value with its gradient that is not folded"))
    assert count > 25
    report(problems)


def test_no_sentence_is_cut_by_code(topics, report):
    """A sentence, or its formula, has ended where code begins, and another begins after it."""
    problems, count = [], 0
    caption = "//section[@id='definition']//p[strong[starts-with(., 'In NumPy')]]"
    after = "following-sibling::*[self::div or self::details][1]/following-sibling::*[1][self::p]"
    for page, tree in topics.items():
        for p in tree.xpath(caption):
            count += 1
            above = p.xpath("preceding-sibling::*[not(self::span)][1]")
            end = above[0].text_content().rstrip("\\)] \n✓#¶") if above else "."
            if above and above[0].tag in "div p" and end.endswith(","):
                problems.append((page, f"code after a comma: {end[-40:]}"))
            if above and above[0].tag == "p" and not end.endswith((".", ":", "!", "?", ")")):
                problems.append((page, f"code in a sentence: {end[-40:]}"))
            problems += [
                (page, f"goes on in lower case after code: {q.text_content()[:60]}")
                for q in p.xpath(after)
                if (q.text or "").lstrip()[:1].islower()
            ]
    assert count > 100
    report(problems)


def test_examples_begin_with_words(topics, report):
    report(
        (page, "its examples begin with code")
        for page, tree in topics.items()
        if not tree.xpath("//section[@id='examples']/*[2][self::p]")
        and tree.xpath("//section[@id='examples']")
    )


def test_a_topic_begins_with_its_import_and_signatures(topics, report):
    """In the first screen: the line to copy, and what the functions take, linked."""
    report(
        (page, "no import, or no signature with a link, before the figure")
        for page, tree in topics.items()
        if tree.xpath("//section[@id='parameters-and-errors']//dl[contains(@class, 'function')]")
        and not (
            tree.xpath("//article//div[contains(@class, 'import')]//pre[contains(., 'import')]")
            and tree.xpath("//*[contains(@class, 'signatures')]//a[contains(@class, 'internal')]")
        )
    )


def test_titles_and_descriptions(trees, report):
    """No two pages have one title; every page that is written has a description."""
    titles = Counter(tree.xpath("string(//title)") for tree in trees.values())
    problems = [
        (page, f"{titles[title]} pages have the title {title}")
        for page, tree in trees.items()
        if titles[title := tree.xpath("string(//title)")] > 1
    ]
    problems += [
        (page, "no description")
        for page, tree in trees.items()
        if page.parent.parent.name == "reference" and not tree.xpath("//meta[@name='description']")
    ]  # fmt: skip
    problems += [
        (page, "a description that is the same on all pages of the gallery")
        for page, tree in trees.items()
        if tree.xpath("//meta[@name='description'][starts-with(@content, 'Go to the end')]")
    ]
    report(problems)


def test_alternative_texts_are_sentences_without_tex(trees, report):
    problems, count = [], 0
    for page, tree in trees.items():
        for image in tree.xpath("//img[contains(@class, 'sphx-glr-single-img')]"):
            alt, count = image.get("alt"), count + 1
            if re.search(r"\\|\$|_\{|\^\{", alt):
                problems.append((page, f"TeX in an alternative text: {alt[:60]}"))
            if len(alt.split()) < 6 or not alt.rstrip().endswith((".", "?", "!", "”")):
                problems.append((page, f"not a sentence: {alt[:60]}"))
    assert count > 400
    report(problems)


def test_formulas_are_kept_with_the_punctuation_behind_them(trees, report):
    def problems():
        for page, tree in trees.items():
            for formula in tree.iterfind(".//article//span[@class]"):
                behind = (formula.tail or "")[:1] in ".,;:!?)"
                if formula.get("class").startswith("math ") and formula.tail and behind:
                    kept = formula.getparent()
                    if kept.get("class") != "unbroken" or len(kept) != 1:
                        yield page, formula.text

    report(problems())


def test_images_have_their_sizes(trees, report):
    report(
        (page, f"no size: {image.get('src')}")
        for page, tree in trees.items()
        for image in tree.xpath("//article//img[contains(@src, '_images/sphx_glr')]")
        if not (image.get("width") and image.get("height"))
    )


def test_every_topic_is_on_the_cheat_sheet(site, trees, topics):
    """With its formula, if it defines by one, and with gradients, if it has a backward pass."""
    sheet = trees[site / "reference" / "index.html"]
    rows = {
        (site / "reference" / row.xpath("string(td[1]//a/@href)")).resolve(): row
        for row in sheet.xpath("//table[contains(@class, 'sheet')]//tbody/tr")
    }
    assert rows.keys() == topics.keys()
    for page, tree in topics.items():
        cells = [cell.xpath(".//*[contains(@class, 'math')]") for cell in rows[page].xpath("td")]
        if len(cells) == 3 and tree.xpath(FORMULA):
            assert cells[1], page
        if len(cells) == 3 and tree.xpath("//dt[contains(@id, '_vjp')]"):
            assert cells[2], page


def test_formulas_of_the_cheat_sheet_are_parts_of_checked_equations(site, trees, topics):
    """Without room and alignment, each side of a formula stands on the page of its topic."""

    def bare(tex):
        return re.sub(r"\\(qquad|quad|[,;:! ])|[&\s~{}]|\\\\(?=\s)", "", tex)

    sheet, count = trees[site / "reference" / "index.html"], 0
    for row in sheet.xpath("//table[contains(@class, 'sheet')]//tbody/tr"):
        page = (site / "reference" / row.xpath("string(td[1]//a/@href)")).resolve()
        shown = topics[page].xpath("//*[contains(@class, 'math')]")
        text = bare(" ".join(node.text_content() for node in shown))
        for formula in row.xpath("td[position() > 1]//*[contains(@class, 'math')]"):
            for side in formula.text_content()[2:-2].split(" = "):
                count += 1
                assert bare(side).rstrip(".,") in text, (page.stem, side)
    assert count > 500


def test_a_topic_shows_forward_and_backward_in_numpy(site, trees):
    """Those that people come for, each with what it must show."""
    wanted = {
        "activations/softmax": ["def softmax(", "def softmax_vjp("],
        "normalization/layer_norm": ["def layer_norm(", "def layer_norm_vjp("],
        "normalization/rms_norm": ["def rms_norm(", "def rms_norm_vjp("],
        "normalization/batch_norm": ["def batch_norm(", "def batch_norm_vjp("],
        "losses/cross_entropy": ["def cross_entropy_grad("],
        "neurons/linear": ["def linear(", "def linear_vjp("],
        "recurrent/rnn": ["def simple_rnn(", "def simple_rnn_vjp("],
        "recurrent/lstm": ["def simple_lstm_cell(", "def simple_lstm_vjp("],
        "recurrent/gru": ["def simple_gru_cell(", "def simple_gru_cell_reset_before("],
        "positions/rotary": ["def rope_interleaved(", "def rope_half_split_vjp("],
        "attention/scaled_dot_product": [
            "def attention(", "def masked_attention(", "def attention_vjp(",
            "def flash_attention(", "def flash_attention_vjp(",
        ],
        "training/adam": ["def simple_adam_step(", "def simple_adamw_step("],
        "training/momentum": ["def simple_momentum_step("],
        "transformer/language_model": ["def gpt("],
    }  # fmt: skip
    for topic, functions in wanted.items():
        tree = trees[site / "reference" / f"{topic}.html"]
        code = "\n".join(block.text_content() for block in tree.xpath(CODE))
        assert [f for f in functions if f not in code] == [], topic


ANSWERS = ("questions", "questions_positions", "misconceptions", "misconceptions_positions")


@pytest.mark.parametrize("page", ANSWERS)
def test_answers_and_topics_link_to_each_other(site, trees, page):
    """Both ways, for each question and misconception that concerns a topic."""
    tree, found = trees[site / f"{page}.html"], 0
    for place in tree.xpath("//p[contains(@class, 'concerned')]"):
        anchor = place.get("id") or place.xpath("preceding-sibling::*[1]/@id | span/@id")[0]
        for link in place.xpath(".//a[contains(@class, 'internal')]/@href"):
            topic = trees[(site / link).resolve()]
            back = topic.xpath(
                f"//section[@id='conventions-and-traps']//a[@href='../../{page}.html#{anchor}']"
            )
            assert back, (link, anchor)
            found += 1
    assert found > 8


@pytest.mark.parametrize("page", ["questions", "misconceptions"])
def test_every_chapter_is_asked_about(site, trees, page):
    links = trees[site / f"{page}.html"].xpath("//p[contains(@class, 'concerned')]//a/@href")
    chapters = {link.split("/")[1] for link in links}
    assert chapters >= {
        "activations", "losses", "training", "propagation", "normalization", "recurrent",
        "attention", "transformer", "check", "interop",
    }  # fmt: skip


#: Eight more questions, and a topic that answers: from the start page to the list, and on.
SECOND_CLICK = {
    "Why is the gradient of a bias a sum over the batch?": "neurons/linear",
    "Logits or probabilities?": "losses/cross_entropy",
    "What should the loss be at the start?": "losses/cross_entropy",
    "What is the difference between Adam with weight decay and AdamW?": "training/adam",
    "What does clipping by norm keep?": "training/clipping",
    "What is the backward pass of RoPE?": "positions/rotary",
    "What is in a KV cache, and why not queries?": "transformer/generation",
    "Pre-norm or post-norm?": "transformer/blocks",
}


@pytest.mark.parametrize("question", SECOND_CLICK)
def test_a_question_is_two_clicks_from_the_start_page(site, trees, question):
    assert trees[site / "index.html"].xpath("//article//a[contains(@href, 'questions.html')]")
    [asked] = [
        p for p in trees[site / "questions.html"].xpath("//article//p[strong]")
        if p.find("strong").text_content() == question
    ]  # fmt: skip
    links = asked.xpath("preceding-sibling::p[contains(@class, 'concerned')][1]//a/@href")
    assert f"reference/{SECOND_CLICK[question]}.html" in links


def test_gallery_code_is_folded_below_its_figure(site, trees):
    pages = {p: t for p, t in trees.items() if p.match("gallery/*/plot_*.html")}
    assert len(pages) > 80
    code = "//article//div[contains(@class, 'highlight-Python')]"
    for page, tree in pages.items():
        blocks = tree.xpath(code)
        assert blocks, page
        assert all(block.xpath("ancestor::details[not(@open)]") for block in blocks), page
        for image in tree.xpath("//article//img[contains(@class, 'sphx-glr-single-img')]"):
            assert image.xpath("following::details[contains(@class, 'script-code')]"), page


def test_figures_of_the_gallery_can_be_had_for_slides(trees):
    """As SVG, all of a page in one file that is the same in each build, with text as text."""
    pages = {p: t for p, t in trees.items() if p.match("gallery/*/plot_*.html")}
    assert len(pages) > 80
    for page, tree in pages.items():
        figures = tree.xpath("//article//img[contains(@class, 'only-light')]/@src")
        [link] = tree.xpath("//a[@download][contains(., 'Figures as SVG (zip)')]/@href")
        with zipfile.ZipFile((page.parent / unquote(link)).resolve()) as archive:
            entries = archive.infolist()
            drawn = {f"sphx_glr_{Path(entry.filename).stem}" for entry in entries}
            assert drawn == {Path(source).stem for source in figures}, page
            assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}, page
            for entry in entries:
                root = ET.fromstring(archive.read(entry))
                assert root.tag == f"{SVG}svg", entry.filename
                assert [*root.iter(f"{SVG}text")], entry.filename


def test_a_page_loads_the_scripts_that_it_needs(trees, report):
    """And the search, which weighs as much as a page, only when somebody looks for something."""
    problems = []
    for page, tree in trees.items():
        names = {Path(urlsplit(url).path).name for url in tree.xpath("//script/@src")}
        searches = {"searchindex.js", "searchtools.js", "search.js"}
        if names & searches != (searches if page.name == "search.html" else set()):
            problems.append((page, f"scripts of the search: {names & searches}"))
        for script, place in USED_BY.items():
            if (script in names) != bool(tree.xpath(place)):
                problems.append((page, f"{script}, and nothing that needs it, or no {script}"))
    report(problems)


def test_the_side_bar_shows_the_chapter_of_the_page(site, trees, topics):
    """With its topics, and the other chapters as links: all of them would be a third of a page."""
    bar = "//div[@id='pst-primary-sidebar']//nav[contains(@class, 'bd-docs-nav')]"
    for page, tree in topics.items():
        chapter = page.parent.name
        links = followed(page, tree.xpath(f"{bar}//a[not(@aria-current)]/@href"))
        shown = {link for link in links if link.parent.parent == site / "reference"}
        assert shown == {p for p in topics if p.parent.name == chapter and p != page}, page
        chapters = {link for link in links if link.parent == site / "reference"}
        assert {page.parent.with_suffix(".html"), site / "reference" / "check.html"} <= chapters


def test_every_page_says_version_license_and_citation(site, trees, report):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    problems = []
    for page, tree in trees.items():
        [foot] = tree.xpath("//footer//p[@class='colophon']") or [None]
        if foot is None:
            problems.append((page, "no colophon"))
            continue
        if not re.search(
            rf"dlref \d+\.\d+.*{project['license']} license", " ".join(foot.text_content().split())
        ):
            problems.append((page, foot.text_content()))
        address = project["urls"]["Repository"]
        if (address in foot.xpath(".//a/@href")) == (".example/" in address):
            problems.append((page, "a link to a placeholder, or none to the repository"))
    report(problems)
    said = " ".join(trees[site / "about.html"].find(".//article").text_content().split())
    for name in ("LICENSE", "CITATION.cff"):
        assert " ".join((ROOT / name).read_text(encoding="utf-8").split()) in said


def test_every_chapter_has_a_figure(site, trees):
    chapters = [t for p, t in trees.items() if p.match("reference/*.html") and p.stem != "index"]
    chapters = [t for t in chapters if t.xpath("//article//dl//a[contains(@href, '.html')]")]
    assert len(chapters) == 15
    assert all(t.xpath("//article//img[@alt]") for t in chapters)


def test_every_card_of_a_chapter_says_what_is_in_it(site, trees):
    cards = trees[site / "index.html"].xpath(
        "//*[contains(@class, 'chapters')]//*[contains(@class, 'sd-card-body')]"
    )
    assert len(cards) == 15
    for card in cards:
        assert len(card.xpath("string(.//p[contains(@class, 'sd-card-text')])")) > 15, (
            card.text_content()
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


@pytest.mark.parametrize("script", ["mathjax/LICENSE", "minisearch/LICENSE.txt"])
def test_copied_scripts_have_their_licences(site, script):
    assert "copyright" in (site / "_static" / script).read_text().lower()


def test_the_copied_font_names_its_licence(site):
    package = site / "_static" / "mathjax" / "fonts" / "mathjax-newcm-font" / "package.json"
    assert json.loads(package.read_text())["license"] == "Apache-2.0"
    assert "Apache License" in (site / "_static" / "mathjax" / "LICENSE").read_text()


def test_pages_of_scripts_offer_what_these_read(site, trees):
    offered = {}
    for page, tree in trees.items():
        for link in tree.xpath("//a[@download][contains(., 'Needed beside the script')]/@href"):
            assert (page.parent / link).is_file()
            offered.setdefault(Path(link).name, []).append(page)
    tables = {"speed.csv", "accuracy.csv", "trained_pieces.csv"}
    assert set(offered) == {"interactive.py", "alice.txt"} | tables
    assert [len(offered[name]) for name in ("interactive.py", "alice.txt")] == [8, 5]


def test_no_page_is_heavy(site, report):
    report(
        (page, f"{page.stat().st_size / 1000:.0f} kB")
        for page in site.rglob("*.html")
        if page.stat().st_size > 300_000 and page.name != "genindex.html"
    )


def test_the_site_is_light(site):
    files = (p for p in site.rglob("*") if p.is_file())
    assert sum(p.stat().st_size for p in files) <= 80e6


@pytest.fixture
def lessons(site):
    """The pages of the course, in order."""
    return [site / f"{lesson.page}.html" for lesson in COURSE.lessons]


def followed(page, links):
    """Return where links of a page lead, without what comes after #."""
    return [(page.parent / link.partition("#")[0]).resolve() for link in links]


def test_learn_lists_the_lessons(site, trees, lessons):
    page = site / "learn.html"
    links = trees[page].xpath("//article//ol/li/p[contains(., 'minutes')]/a/@href")
    assert followed(page, links)[: len(lessons)] == lessons
    named = {name for names in COURSE.exam.values() for name in names}
    assert {p.stem for p in followed(page, links)[len(lessons) :]} == named


def test_every_lesson_knows_where_it_is(trees, lessons):
    """Its number, the lesson after it in two places, and all lessons at its side."""
    for number, page in enumerate(lessons, 1):
        [box] = trees[page].xpath("//div[contains(@class, 'stop')][contains(., 'Lesson')]")
        assert f"Lesson {number} of {len(lessons)}" in box.text_content()
        bar = trees[page].xpath("//nav[@class='learn-path']//a")
        assert followed(page, [a.get("href") for a in bar if not a.get("aria-current")]) == [
            other for other in lessons if other != page
        ]
        foot = trees[page].xpath("//ul[contains(@class, 'lesson-end')]//a/@href")
        footer = trees[page].xpath("//a[@class='right-next']/@href")
        if number < len(lessons):
            assert followed(page, [foot[0], *footer]) == 2 * [lessons[number]], page
        else:
            assert not footer
        before = trees[page].xpath("//a[@class='left-prev']/@href")
        previous = lessons[number - 2] if number > 1 else page.parents[1] / "learn.html"
        assert followed(page, before) == [previous]


def test_pages_beside_the_chapters_list_each_other(site, trees):
    """Essays, conventions, measurements: each has a bar with all of them, and knows which it is."""
    pages = [p for p in trees if trees[p].xpath("//nav[@aria-label='Pages beside the chapters']")]
    assert {"curvature.html", "accuracy.html", "changelog.html"} <= {p.name for p in pages}
    for page in pages:
        bar = trees[page].xpath("//nav[@aria-label='Pages beside the chapters']//a")
        assert {*followed(page, [a.get("href") for a in bar if a.get("href") != "#"])} == (
            {*pages} - {page}
        )
        [here] = [a for a in bar if a.get("aria-current")]
        assert here.text_content() == trees[page].xpath("//h1/text()")[0]


def test_lessons_and_topics_link_to_each_other(site, trees):
    """Topics of the reference say where to learn them; lessons, where everything stands."""
    taught = {}
    for lesson in COURSE.lessons:
        page = site / f"{lesson.page}.html"
        foot = trees[page].xpath("//ul[contains(@class, 'lesson-end')]//a/@href")
        topics = [site / "reference" / f"{topic}.html" for topic in lesson.topics]
        assert [p for p in followed(page, foot) if "reference" in p.parts] == topics
        for topic in topics:
            taught.setdefault(topic, []).append(page)
    for page, tree in trees.items():
        links = tree.xpath("//p[contains(@class, 'learn-it')]//a/@href")
        assert followed(page, links) == taught.get(page, [])


def test_the_program_can_be_had_as_of_each_lesson(lessons):
    programs = [page.with_suffix(".py").read_text(encoding="utf-8") for page in lessons]
    for shorter, longer in itertools.pairwise(programs):
        ast.parse(longer)
        assert longer.partition("# Lesson 1")[2].startswith(
            shorter.partition("# Lesson 1")[2].rstrip()
        )


def test_every_exercise_of_the_course_has_its_solution_elsewhere(site, trees, lessons):
    for lesson, page in zip(COURSE.lessons, lessons, strict=True):
        links = trees[page].xpath("//section[@id='exercises']//a[.='Solution']/@href")
        assert len(links) == len(lesson.exercises)
        assert {p.name for p in followed(page, links)} == {f"solutions_{lesson.part}.html"}
        for link in links:
            anchor, solutions = link.partition("#")[2], trees[followed(page, [link])[0]]
            assert len(solutions.xpath(f"//*[@id='{anchor}']")) == 1
    for part in range(1, len(COURSE.parts) + 1):
        sheet = trees[site / "learn" / f"homework_{part}.html"]
        count = sum(len(lesson.exercises) for lesson in COURSE.of(part))
        assert len(sheet.xpath("//article//section/section/ol/li")) == count


def test_every_exercise_has_an_address(trees, report):
    report(
        (page, "an exercise without an id")
        for page, tree in trees.items()
        for item in tree.xpath("//section[@id='exercises']/ol/li")
        if not item.xpath("self::*[@id] | ./*[1]//@id | ./*[1]/@id")
    )


def test_every_page_with_exercises_has_folded_solutions(trees):
    for page, tree in trees.items():
        if "reference" in page.parts and tree.xpath("//section[@id='exercises']"):
            solutions = tree.xpath("//section[@id='exercises']//li//details")
            assert len(solutions) >= 1, page
            assert all(solution.get("open") is None for solution in solutions), page
