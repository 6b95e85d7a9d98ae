"""What a topic's page says besides its docstrings: measurements, conventions, uses, answers.

All of it is read from where it stands once: docs/results, the imports of the package, the pages of
questions and misconceptions, and the record of the topic in docs/topics.
"""

import ast
import csv
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
ANSWERS = {
    "Questions": ("questions", "questions_positions"),
    "Misconceptions": ("misconceptions", "misconceptions_positions"),
}
PAGES = [page for pages in ANSWERS.values() for page in pages]
#: Benchmarks that are not named after a chapter.
TIMED_APART = "draws", "scans"
#: An answer with what it concerns: topics, and after a bar what a link to it says.
CONCERNS = re.compile(r"^\.\. concerns: ([^|\n]+?)(?: \| ([^\n]+))?\n\n\*\*(.+?)\*\*", re.M | re.S)
RUN_IN = re.compile(r"^(?=\*\*[A-Z][^*\n]*\*\*)", re.MULTILINE)
TITLE = re.compile(r"\*\*([^*\n]+?)\.?\*\*")
#: Paragraphs of a docstring, by their first words, that have a section of their own.
NUMERICS = {
    "Accuracy", "Computation", "Cost", "Error", "Numerics", "Range", "Special values", "Stability",
    "Which formula",
}  # fmt: skip
TRAPS = {
    "Conventions", "Mean", "Mean or sum", "NaN in the other operand", "Pairing",
    "Rows without keys", "Scalar expansion", "The kink", "The kinks of a clip", "Thresholds",
    "Ties", "Two conventions", "What to compare with",
}  # fmt: skip


#: Paragraphs that the plain form does without: they stand after the derivation.
OPTIONS = {
    "All options", "AMSGrad", "Cache", "Dropout", "Gradient with all options",
    "Grouped heads", "In chunks",
    "Label smoothing and z-loss", "Norms of queries and keys", "Odd widths", "Output gate",
    "Peepholes", "Positions", "Relatives", "Truncation", "With a bound", "Yogi",
}  # fmt: skip


#: Paragraphs that a first reading does without: they are folded after the derivation.
FOLDED = {"A kernel smoother", "A softmax dilutes", "One pass in tiles", "The converse"}


def split_notes(notes):
    """Return the notes without their paragraphs of other sections, and these by section."""
    places = {"numerics": NUMERICS, "traps": TRAPS, "options": OPTIONS, "folded": FOLDED}
    parts = {"kept": [], **{place: [] for place in places}}
    for part in RUN_IN.split(notes):
        title = TITLE.match(part)
        found = (name for name, titles in places.items() if title and title[1] in titles)
        parts[next(found, "kept")].append(part.strip("\n"))
    return {name: "\n\n".join(filter(None, texts)) for name, texts in parts.items()}


def folded(notes):
    """Return the paragraphs that are folded, each under its title."""
    parts = filter(None, RUN_IN.split(notes["folded"]))
    return [dropdown(TITLE.match(p)[1], p[TITLE.match(p).end() :].strip()) for p in parts]


def rows(name):
    """Return the rows of a table of measurements, or none if it was not measured."""
    path = RESULTS / f"{name}.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def first_of(topic, names):
    """Return the first function of a topic, its maps before its derivatives, that is named."""
    return next((n for n in topic.names if n in names), None)


def place(text):
    """Return where an error occurs: at a number, or what the table says."""
    try:
        return f"at {float(text):.4g}".replace("-", "−")
    except ValueError:
        return text


def measured(row):
    """Return one largest error in words: its unit, where it occurs, among how many points."""
    unit = {"ULP": "ULP", "2^-53": ":math:`2^{-53}`"}.get(row["unit"], row["unit"])
    where = [place(row["at"])] if row["at"] else []
    where += [f"of {int(float(row['points'])):,} points"] if row["points"] else []
    found = f" ({', '.join(where)})" if where else ""
    return f"{row['largest error']} {unit} in {row['dtype']}{found}"


def accuracy(topic):
    """Return one line: the largest error that was measured, or what is promised."""
    largest = {}
    for row in rows("largest"):
        largest.setdefault(row["function"].rpartition(".")[2], []).append(row)
    if name := first_of(topic, largest):
        found = "; ".join(measured(row) for row in largest[name])
        return f"*Largest error measured*, of ``{name}``: {found} (:doc:`/accuracy`)."
    units = {}
    for row in rows("accuracy"):
        units.setdefault(row["function"], []).append(f"{row['dlref max']} in {row['dtype']}")
    if name := first_of(topic, units):
        found = ", ".join(units[name])
        return (
            f"*Largest error measured*, of ``{name}`` in units in the last place: {found} "
            "(:doc:`/accuracy`)."
        )
    norms = {}
    for row in rows("normwise"):
        norms.setdefault(row["function"], []).append(f"{row['largest error']} in {row['dtype']}")
    if name := first_of(topic, norms):
        found = ", ".join(norms[name])
        return (
            f"*Largest error found*, of ``{name}``, in machine epsilons times the size of what is "
            f"added up: {found} (:doc:`/accuracy`)."
        )
    return f"*Precision.* {topic.record.precision}" if topic.record.precision else ""


def speed(topic):
    """Return one line: the time of the largest call that was measured."""
    table = [r for r in rows("speed") if r["chapter"] in (topic.chapter, *TIMED_APART)]
    name = first_of(topic, {r["function"] for r in table})
    if not name:
        return ""
    row = [r for r in table if r["function"] == name and r["dtype"] == "float32"][-1]
    others = [
        f"{lib} takes {row[lib]} times as long" for lib in ("NumPy", "PyTorch", "JAX") if row[lib]
    ]
    than = f"; {', '.join(others)}" if others else ""
    time = float(row["dlref µs"])
    takes = f"{time:.3g} µs" if time < 1000 else f"{time / 1000:.3g} ms"
    call = f"``{name}`` of float32 with the sizes {row['shape'].replace('x', ' × ')}"
    return f"*Speed.* {call} takes {takes}{than} (:doc:`/speed`)."


def numerics(topic, notes):
    """Return the section on numerics, folded: a line each on error and speed, and details."""
    lines = [f"- {line}" for line in (accuracy(topic), speed(topic)) if line]
    text = "\n\n".join(filter(None, ["\n".join(lines), *notes]))
    return dropdown("Details: precision, speed, and how it is computed", text) if text else ""


def dropdown(title, text):
    """Return a folded part of a page."""
    folded = "\n".join(f"   {line}".rstrip() for line in text.split("\n"))
    return f".. dropdown:: {title}\n\n{folded}\n"


#: Conventions that are compared in sight of the reader; more of them are folded.
FEW = 3


def conventions(topic, notes, found):
    """Return the section on conventions: where libraries differ, traps, answers elsewhere."""
    out = []
    table = rows("conventions")
    for title in topic.record.conventions:
        own = [r for r in table if r["topic"] == title]
        if not own:
            msg = f"docs/results/conventions.csv has no rows on {title!r}"
            raise ValueError(msg)
        lines = []
        for row in own:
            does = row["what it does"]
            code = f": {row['with dlref']}" if row["with dlref"] else ""
            lines.append(f"- {row['library']}: {does}{code}")
        many = len(topic.record.conventions) > FEW
        out += [dropdown(title, "\n".join(lines))] if many else [f"**{title}**\n", *lines, ""]
    if out:
        out.append(
            "Each line was compared with the library, or with its rule, by running both: "
            ":doc:`/conformance`.\n"
        )
    out += [f"{n}\n" for n in notes if n]  # a paragraph each
    if topic.record.traps:
        out += ["", *(f"- {line}" for line in topic.record.traps)]
    for title, pages in ANSWERS.items():
        links = [f":ref:`{text} <{label}>`" for p in pages for label, text in found.get(p, [])]
        if links:
            out += ["", f"*{title}:* {' · '.join(links)}"]
    return "\n".join(out).strip("\n")


def plain(text):
    """Return what a link may say: no markup, no quotation marks around all of it."""
    text = re.sub(r":[\w:]+:`~?([^`<]+?)(?: <[^>]*>)?`", r"\1", " ".join(text.split()))
    return text.replace("``", "").strip().strip('"').rstrip(".").strip()


def answers(srcdir):
    """Return for each topic the questions and misconceptions that concern it."""
    found = {}
    for page in PAGES:
        text = (srcdir / f"{page}.rst").read_text(encoding="utf-8")
        for number, match in enumerate(CONCERNS.finditer(text), 1):
            for key in match[1].split():
                links = found.setdefault(key, {}).setdefault(page, [])
                links.append((f"{page}-{number}", plain(match[2] or match[3])))
    return found


def label_answers(page, text, topics):
    """Turn the marks of a page of answers into targets, and into links to what they concern."""
    number = iter(range(1, 10**6))

    def mark(match):
        concerned = [topics[f"reference/{key.replace('.', '/')}"] for key in match[1].split()]
        links = " · ".join(f":doc:`{t.title} </{t.page}>`" for t in concerned)
        label = f"{page}-{next(number)}"
        return f".. _{label}:\n\n.. rst-class:: concerned\n\n{links}\n\n**{match[3]}**"

    return CONCERNS.sub(mark, text)


def uses(topics, blocks):
    """Return for each topic those whose modules import from it, or whose NumPy calls it."""
    of_name = {(t.chapter, n): t for t in topics for n in t.names}
    of_module = {(t.chapter, t.name): t for t in topics}
    found = {t.page: set() for t in topics}
    for user in topics:
        for key in blocks.topics_called(user):
            found[f"reference/{key.replace('.', '/')}"].add(user)
        path = ROOT / "dlref" / user.chapter / f"_{user.name}.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            chapter, _, module = (node.module or "").partition(".")
            if node.level == 1:
                chapter, module = user.chapter, node.module or ""
            for alias in node.names:
                used = of_name.get((chapter, alias.name))
                used = used or of_module.get((chapter, module.removeprefix("_")))
                if used and used is not user:
                    found[used.page].add(user)
    return found
