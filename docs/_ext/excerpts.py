"""Data of the search that Sphinx's index lacks: the first words of each section, and aliases.

The index of Sphinx has words and headings, but no sentences. It has the entries of index
directives, too, but an incremental build loses the entries of all pages that it does not read
again. The browser loads this file with the first search; it also says which pages of the gallery
draw which topics, so that a topic is listed once.
"""

import json
import re
from pathlib import Path

from docutils import nodes

from dlref._core.names import called

MOST = 150  # characters of an excerpt
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


def page(doctree):
    """Return [anchor, title, first words] for each section of a page; the page itself first."""
    out = []
    for section in doctree.findall(nodes.section):
        title = section.next_node(nodes.title).astext()
        if title not in SKIPPED:
            anchor = section["ids"][0] if out else ""
            out.append([anchor, title, first_words(section)])
    return out


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
    content = {"pages": pages, "drawn": drawn, "aliases": named}
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
    return {"version": "1", "env_version": 2, **safe}
