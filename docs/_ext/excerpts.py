"""Data of the search that Sphinx's index lacks: what each section says, and aliases.

The index of Sphinx has the words of a page, and not in which of its sections they stand. It has the
entries of index directives, too, but an incremental build loses the entries of all pages that it
does not read again. The browser loads this file with the first search; it also says which pages of
the gallery draw which topics, so that a topic is listed once.
"""

import json
import re
from collections import Counter
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

from dlref._core.names import called

MOST = 150  # characters of an excerpt
COMMON = 0.15  # share of the sections of the site that have a word which tells them apart no more
WORD = re.compile(r"[a-z][a-z0-9]+")
NO_WORDS = nodes.math, nodes.math_block, nodes.doctest_block, nodes.literal_block, nodes.comment
WITHOUT_WORDS = "gallery/", "learn/", "changelog"  # pages of one subject, or of all
NO_PROSE = {"symbols", "learn-it", "concerned"}
SKIPPED = ("Used in", "References", "Figures", "Before you go on")


def words(node):
    """Return the text of a paragraph, with mathematics as plain as it gets."""
    out = []
    for leaf in node.findall(nodes.Text):
        text = leaf.astext()
        if isinstance(leaf.parent, nodes.math):
            text = re.sub(r"\\([a-zA-Z]+|.) ?", lambda m: m[1] if len(m[1]) > 3 else "", text)
            text = re.sub(r"[{}]|\b(vec|text|frac|partial|operatorname)\b", "", text)
        out.append(text)
    text = " ".join("".join(out).split())
    return text if len(text) <= MOST else text[:MOST].rsplit(" ", 1)[0] + " …"


def first_words(section):
    """Return the beginning of the first paragraph of a section that is no symbols and no links."""
    for child in section.children:
        if isinstance(child, nodes.section):
            break
        prose = isinstance(child, nodes.paragraph) and not NO_PROSE & {*child["classes"]}
        if prose and len(text := words(child)) > 15:
            return text
    return ""


def vocabulary(section):
    """Return the words of a section without its subsections: prose and names, no formulas."""
    found = set()
    for leaf in section.findall(nodes.Text):
        above = leaf.parent
        while above is not section and not isinstance(above, (nodes.section, *NO_WORDS)):
            above = above.parent
        if above is section:
            found |= {*WORD.findall(leaf.astext().lower())}
    return found


def searched_for(section):
    """Return the words of the index directives of a section, which people search for."""
    directives = (child for child in section.children if isinstance(child, addnodes.index))
    texts = (entry[1] for node in directives for entry in node["entries"])
    return {word for text in texts for word in WORD.findall(text.lower())}


def page(doctree):
    """Return [anchor, title, first words, names, words] of each section; the page itself first."""
    out = []
    for section in doctree.findall(nodes.section):
        title = section.next_node(nodes.title).astext()
        if title not in SKIPPED:
            anchor = section["ids"][0] if out else ""
            names = " ".join(sorted(searched_for(section))) if out else ""
            out.append([anchor, title, first_words(section), names, vocabulary(section)])
    return out


def telling(pages):
    """Return the pages with the words of each section that few sections of the site have."""
    sections = [section for page in pages.values() for section in page]
    count = Counter(word for *_, words in sections for word in words)
    most = COMMON * len(sections)
    return {
        doc: [
            [*section, " ".join(sorted(w for w in words if count[w] <= most))]
            if not doc.startswith(WITHOUT_WORDS)
            else section
            for *section, words in page
        ]
        for doc, page in pages.items()
    }


def aliases(env, doc):
    """Return the entries of a page's index directives: words that people search for."""
    entries = env.domains.index_domain.entries.get(doc, [])
    return sorted({text for _, text, *_ in entries if " (" not in text})  # no functions


def elsewhere(topic):
    """Return the names that the maps of a topic have in other libraries, without modules."""
    known = called()
    names = (name for own in topic.maps for name in known.get(f"{topic.chapter}.{own}", ()))
    return {name.rpartition(".")[2].replace("_", " ") for name in names}


def init(_app, env, *_):
    """Create the store of the sections of all pages, unless the environment has it."""
    env.excerpts = getattr(env, "excerpts", {})


def collect(app, doctree):
    """Remember the sections of a page that was read."""
    app.env.excerpts[app.env.docname] = page(doctree)


def purge(_app, env, docname):
    """Forget a page that is read again or gone."""
    env.excerpts.pop(docname, None)


def merge(_app, env, docnames, other):
    """Add the sections that a parallel reader has collected."""
    env.excerpts |= {d: other.excerpts[d] for d in docnames if d in other.excerpts}


def write(app, exception):
    """Write the file for the browser."""
    if exception or app.builder.name != "html":
        return
    skipped = ("equations/", "_modules/")
    pages = {
        doc: app.env.excerpts[doc]
        for doc in sorted(app.env.found_docs)
        if not doc.startswith(skipped)
    }
    drawn = {}
    for topic in app.topics.values():
        drawn.setdefault(f"gallery/{topic.record.script}", []).append(topic.page)
    named = {doc: found for doc in pages if (found := aliases(app.env, doc))}
    for topic in app.topics.values():
        if known := elsewhere(topic):
            named[topic.page] = sorted({*named.get(topic.page, ()), *known})
    content = {"pages": telling(pages), "drawn": drawn, "aliases": named}
    data = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    path = Path(app.outdir) / "_static" / "excerpts.js"
    path.write_text(f"window.dlrefExcerpts={data};\n", encoding="utf-8")


def setup(app):
    """Connect to the reading of pages, at its end, and to the end of the build."""
    app.connect("env-before-read-docs", init, priority=100)
    app.connect("doctree-read", collect, priority=900)
    app.connect("env-purge-doc", purge)
    app.connect("env-merge-info", merge)
    app.connect("build-finished", write)
    safe = {"parallel_read_safe": True, "parallel_write_safe": True}
    return {"version": "1", "env_version": 3, **safe}
