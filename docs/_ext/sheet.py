"""The cheat sheet of the reference: all topics by chapter, with formula and backward formula.

Chapters and topics stand in the order of the reference.

Formulas are parts of displayed equations of the topic's docstrings, which tests/equations checks.
By default they are the first equation of the definition and the gradients of the backward pass;
the record of a topic in docs/topics names other ones: the function, the number of its equation, and
the numbers of the parts of that equation, all from 0.
"""

import re

from topics import form, heading, in_order, with_roles

EQUATION = re.compile(r"^( *)\.\. math::(.*)\n((?:\1 +.*\n|\s*\n)*)", re.MULTILINE)
FIELD = re.compile(r"^\s*:(label|name):.*$", re.MULTILINE)
INLINE = re.compile(r":math:`([^`]+)`")
BETWEEN = ("\\qquad", "\\\\", "\\quad", "\\;\\;", ", &", ",\\; &")
FILTER = '.. raw:: html\n\n   <div class="sheet-filter"></div>\n'  # filter.js puts a field there
LONG = 150  # characters of TeX that still fit into a column


def equations(notes):
    """Return the displayed equations of a text, each on one line."""
    return [
        " ".join(f"{m[2]} {FIELD.sub('', m[3])}".split()) for m in EQUATION.finditer(notes + "\n")
    ]


def split(tex, marks):
    """Split where a mark stands outside of braces, square brackets and environments."""
    out, depth, start, k = [], 0, 0, 0
    while k < len(tex):
        if tex.startswith("\\begin{", k):
            depth += 1
        elif tex.startswith("\\end{", k):
            depth -= 1
        elif tex[k] in "{}[]" and tex[k - 1] != "\\":
            depth += 1 if tex[k] in "{[" else -1
        mark = next((m for m in marks if depth == 0 and tex.startswith(m, k)), None)
        if mark:
            out.append(tex[start:k])
            start = k = k + len(mark)
        else:
            k += 1
    return [*out, tex[start:]]


def clean(part):
    """Return a part without alignment and without punctuation at its end."""
    part = "".join(split(part, ["&"])).strip()
    part = re.sub(r"^\\text\{ ?(or|and|hence|that is|of which)\b[^}]*\}", "", part).strip()
    return re.sub(r"(\\[,;:]|\\|[.,;:\s])+$", "", part).strip()


def parts(equation):
    """Return the statements of an equation that are separated by room or lines."""
    return [p for p in map(clean, split(equation, BETWEEN)) if p]


def ends(statement):
    """Return left-hand side and last right-hand side of a chain of equalities."""
    chain = [side.strip() for side in split(statement, [" = "])]
    return f"{chain[0]} = {chain[-1]}" if len(chain) > 1 else statement


def named(topic, reference):
    """Return the statements that a record names: ``function:equation:parts``."""
    out = []
    for one in reference.split():
        function, number, *which = one.split(":")
        if function == "summary":  # the numbered formula of the first sentence
            out.append(INLINE.findall(topic.parts[topic.first][""])[int(number)])
            continue
        found = parts(equations(topic.parts[function].get("Notes", ""))[int(number)])
        out += [found[int(k)] for k in which[0].split(",")] if which else found
    return out


def forward(topic):
    """Return the statements that define a map."""
    if topic.record.formula:
        return named(topic, topic.record.formula)
    if not topic.maps:
        return INLINE.findall(topic.parts[topic.first][""])[-1:]
    found = equations(topic.parts[topic.first].get("Notes", ""))
    return [ends(p) if len(p) > LONG else p for p in parts(found[0])] if found else []


def backward(topic):
    """Return the gradients of a map, each as its last expression."""
    if topic.record.backward:
        return [ends(p) for p in named(topic, topic.record.backward)]
    names = [n for n in topic.names if n not in topic.special]
    for kind in ("vjp", "grad"):
        for name in (n for n in names if form(n) == kind):
            found = [p for e in equations(topic.parts[name].get("Notes", "")) for p in parts(e)]
            if grads := [ends(p) for p in found if p.startswith("\\pdv{L}")]:
                return grads
    return []


def cell(statements):
    """Return statements as a cell of a table, on as many lines as it takes."""
    return "\n       ".join(f":math:`{s}`" for s in statements) or "–"


def listed(heads, rows, kind, widths, caption=""):
    """Return a table with three heads; a row is a title, and the statements of two cells."""
    top = "\n     - ".join(heads)
    body = "".join(
        f"   * - {title}\n     - {cell(first)}\n     - {cell(second)}\n"
        for title, first, second in rows
    )
    options = f":class: {kind}\n   :header-rows: 1\n   :widths: {widths}"
    return f".. list-table:: {caption}\n   {options}\n\n   * - {top}\n{body}\n"


def table(topics, caption):
    """Return the rows of a chapter."""
    rows = ((f":doc:`{t.title} </{t.page}>`", forward(t), backward(t)) for t in topics)
    return listed(("Topic", "Formula", "Backward"), rows, "sheet filtered", "22 44 34", caption)


def plain_list(topics, caption):
    """Return the topics of a chapter of tools, with the first sentence of each."""
    rows = "".join(f"   * - :doc:`{t.title} </{t.page}>`\n     - {t.summary}\n" for t in topics)
    options = ":class: sheet filtered tools\n   :header-rows: 1\n   :widths: 22 78"
    return f".. list-table:: {caption}\n   {options}\n\n   * - Topic\n     - Purpose\n{rows}\n"


def exam_sheet(app):
    """Return the rows of the exam sheet, whose formulas docs/learn.toml names."""
    rows = []
    for row in app.course.sheet:
        topic = app.topics[f"reference/{row['topic']}"]
        note = f", {with_roles(row['note'])}" if row["note"] else ""
        title = f":doc:`{row['title']} </{topic.page}>`{note}"
        rows.append((title, named(topic, row["forward"]), named(topic, row["backward"])))
    return listed(("Topic", "Forward", "Gradients"), rows, "sheet exam", "20 36 44")


def chapter_table(app, chapter):
    """Return the table of a chapter under its title."""
    text = (app.srcdir / "reference" / f"{chapter}.rst").read_text(encoding="utf-8")
    topics = in_order(app.topics.values(), chapter, text)
    title = text.partition("\n")[0]
    tools = not any(forward(t) for t in topics) or chapter in {"check", "interop"}
    caption = f"Topics of the chapter :doc:`{title} <{chapter}>`"
    return f"{heading(title, '-')}\n\n{(plain_list if tools else table)(topics, caption)}"


def fill(app, docname, source):
    """Put the tables where reference/index.rst and the exam sheet want them."""
    if docname == "learn/exam_sheet":
        app.env.note_dependency(f"{app.srcdir}/learn.toml")
        source[0] = source[0].replace(".. sheet::\n", exam_sheet(app))
    if docname != "reference/index":
        return
    chapters = (chapter_table(app, chapter) for chapter in app.config.topic_chapters)
    source[0] = source[0].replace(".. sheet::\n", f"{FILTER}\n" + "\n".join(chapters))


def setup(app):
    """Connect after topics.py has the topics."""
    app.connect("source-read", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
