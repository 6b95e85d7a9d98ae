"""A page for each topic: one map with all its forms, composed of what the docstrings say.

The definition, the examples and the derivation of each form become sections of the page. What is
left of a docstring, its parameters and errors, is folded at the end. No text is written twice.
"""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from textwrap import dedent, indent

import facts
from sphinx.util import logging
from transcripts import Transcripts

logger = logging.getLogger(__name__)
#: A derivative, by the end of its name.
FORMS = {
    "value_and_grad": "Value and gradient",
    "deriv": "First derivative",
    "deriv2": "Second derivative",
    "grad": "Gradient",
    "jacobian": "Jacobian",
    "hessian": "Hessian",
    "vjp": "Backward pass (vjp)",
    "jvp": "Forward mode (jvp)",
}
ORDER = list(FORMS)
TOLD = {"Notes", "Examples", "References"}  # on the page, not in the folded docstring
LISTED = re.compile(r"\.\. autosummary::\n +:toctree: generated\n\n((?: +\w+\n|\n(?= ))+)")
SENTENCE = re.compile(r"^(?!\.\. |\d\. |- |>>> )\S[^\n]*(?:\n\S[^\n]*)*\.\n\n", re.MULTILINE)
FORMULA = re.compile(r"^\.\. math::.*?(?=\n\S|\Z)", re.MULTILINE | re.DOTALL)


def sections(text):
    """Return the parts of a numpydoc docstring by title, the summary under ''."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}$\n?", text, flags=re.MULTILINE)
    titles = ["", *parts[1::2]]
    return {t: body.strip("\n") for t, body in zip(titles, parts[::2], strict=True)}


def form(name):
    """Return the suffix that makes a name a derivative, or ''."""
    return next((s for s in ORDER if name.endswith(f"_{s}")), "")


class Topic:
    """A module of a chapter with what it exports."""

    def __init__(self, chapter, module, words):
        self.chapter, self.name = chapter, module.__name__.rpartition("._")[2]
        names = [n for n in module.__all__ if inspect.isroutine(getattr(module, n))]
        names.sort(key=lambda n: (ORDER.index(form(n)) if form(n) else -1, n not in self.name))
        self.classes = [n for n in module.__all__ if n not in names]
        self.names = [*names, *self.classes]
        self.parts = {n: sections(inspect.getdoc(getattr(module, n))) for n in self.names}
        self.title, _, self.aliases = words.get(self.name, self.name.replace("_", " ")).partition(
            " | "
        )
        self.title = self.title[0].upper() + self.title[1:]

    @property
    def page(self):
        return f"reference/{self.chapter}/{self.name}"

    @property
    def summary(self):
        first = next((n for n in self.names if not form(n)), self.names[0])
        return " ".join(self.parts[first][""].split("\n\n")[0].split())


def load(chapters, words):
    """Return the topics of all chapters, by their pages."""
    topics = {}
    for chapter in chapters:
        package = importlib.import_module(f"dlref.{chapter}")
        for found in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{found.name}")
            if not found.ispkg and getattr(module, "__all__", None):
                topic = Topic(chapter, module, words)
                topics[topic.page] = topic
    return topics


# -- The page ---------------------------------------------------------------------------


def heading(text, mark):
    return f"{text}\n{mark * len(text)}\n"


def definition(notes):
    """Split notes into what introduces the first formula, the formula, and what follows.

    Notes that display no formula define in words: all of them introduce.
    """
    found = FORMULA.search(notes)
    if not found:
        return notes, "", ""
    return (
        notes[: found.start()].strip("\n"),
        found.group().rstrip(),
        notes[found.end() :].strip("\n"),
    )


def side_by_side(formula, code):
    """Formula and code in two columns; CSS puts them one below the other if they are too wide."""
    if not code or not formula:
        return f"{formula}\n\n{code}\n"
    columns = "".join(
        f"   .. container:: column\n\n{indent(text, '      ')}\n\n" for text in (formula, code)
    )
    return f".. container:: twofold\n\n{columns}"


def figure(srcdir, script):
    """Return the first figure of a gallery script, light and dark."""
    path = srcdir / "gallery" / f"{script}.rst"
    if not path.exists():
        return ""
    text = path.read_text(encoding="utf-8")
    images = re.findall(r"^ *\.\. image-sg:: .*\n(?: +:.*\n)+", text, re.MULTILINE)
    first = [dedent(i) for i in images]
    light = [i for i in first if "only-dark" not in i][:1]
    dark = [i for i in first if "only-dark" in i][:1]
    return "\n".join(light + dark)


def part(folder, topic, title):
    """Return a section that is written in a file of its own, if there is one."""
    path = folder / topic.chapter / f"{topic.name}.rst"
    return [heading(title, "-"), path.read_text(encoding="utf-8"), ""] if path.exists() else []


def place(topic, blocks):
    """Share transcriptions out: those of a derivative go to its section, the others to the top."""
    top, below = [], {}
    for function, text in blocks:
        suffix = form(function.name)
        home = next((n for n in topic.names if suffix and form(n) == suffix), None)
        if home:
            below.setdefault(home, []).append(text)
        else:
            top.append(text)
    return top, below


def compose(topic, srcdir, script, told):
    """Return the text of a topic's page."""
    maps = [n for n in topic.names if not form(n)]
    first = maps[0] if maps else topic.names[0]
    notes = {n: facts.split_notes(topic.parts[n].get("Notes", "")) for n in topic.names}
    intro, formula, rest = definition(notes[first][0])
    code, code_of = place(topic, told.transcripts.blocks(topic))
    if not maps:  # the derivatives of an operation of NumPy: all of their code belongs here
        code += code_of.pop(first, [])
    out = [heading(topic.title, "="), f".. currentmodule:: dlref.{topic.chapter}\n"]
    if topic.aliases:  # also in the index, where the search finds them
        out.append(f".. index:: {topic.aliases}\n\n*Also looked for as* {topic.aliases}.\n")
    out += [topic.parts[first][""], "", figure(srcdir, script), ""]
    out += [heading("Definition", "-"), intro, "", side_by_side(formula, "".join(code[:1])), ""]
    out += [*code[1:], ""]
    examples = {n: topic.parts[n].get("Examples", "") for n in topic.names}
    out += [heading("Examples", "-"), examples[first], ""]
    out += part(srcdir / "steps", topic, "Backpropagation, step by step")
    out += part(srcdir / "tryit", topic, "Try it")
    others = [n for n in topic.names if n != first]
    if rest or others:
        derived = rest or any(form(n) for n in others)
        out += [heading("Derivation" if derived else "Related functions", "-"), rest, ""]
    for name in others:
        title = FORMS.get(form(name), "")
        own = f"{title}: {name}" if title else name
        out += [heading(own, "~"), topic.parts[name][""], "", notes[name][0], ""]
        out += [*code_of.get(name, []), "", examples[name], ""]
    for title, text in {
        "Numerics": facts.numerics(topic, told.facts, [n[1] for n in notes.values()]),
        "Conventions and traps": facts.conventions(
            topic,
            told.facts,
            [n[2] for n in notes.values()],
            told.answers.get(f"{topic.chapter}.{topic.name}", {}),
        ),
    }.items():
        out += [heading(title, "-"), text, ""] if text else []
    out += part(srcdir / "exercises", topic, "Exercises")
    users = sorted(told.uses[topic.page], key=lambda user: user.title)
    links = ", ".join(f":doc:`{u.title} </{u.page}>`" for u in users)
    out += [heading("Used in", "-"), f"{links or 'No other topic is built on it'}.", ""]
    sources = dict.fromkeys(
        line
        for n in topic.names
        for line in re.split(r"\n(?=- )", topic.parts[n].get("References", ""))
        if line
    )
    if sources:
        out += [heading("References", "-"), "\n".join(sources), ""]
    out += [heading("Parameters and errors", "-")]
    for name in topic.names:
        kind = "class" if name in topic.classes else "function"
        out += [f".. dropdown:: {name}\n", f"   .. auto{kind}:: {name}\n"]
    out += [".. only:: html and not epub\n", f"   .. minigallery:: ../gallery/{script}.py"]
    out += ["      :add-heading: Figures", "      :heading-level: -", ""]
    return "\n".join(out)


class Told:
    """What the pages say that is not in their docstrings."""

    def __init__(self, app):
        topics = app.topics.values()
        self.facts = app.config.topic_facts
        self.transcripts = Transcripts(topics)
        self.answers = facts.answers(app.srcdir)
        self.uses = facts.uses(topics, self.transcripts)
        keys = {f"{t.chapter}.{t.name}" for t in topics}
        if unknown := self.answers.keys() - keys:
            msg = f"Questions or misconceptions concern what is no topic: {sorted(unknown)}"
            raise ValueError(msg)


def write_pages(app):
    """Before the sources are read: write what has changed, drop what is gone."""
    app.topics = load(app.config.topic_chapters, app.config.topic_words)
    told = Told(app)
    for topic in app.topics.values():
        script = app.config.topic_scripts[f"{topic.chapter}.{topic.name}"]
        text = compose(topic, app.srcdir, script, told)
        path = app.srcdir / f"{topic.page}.rst"
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for path in app.srcdir.glob("reference/*/*.rst"):
        if path.relative_to(app.srcdir).with_suffix("").as_posix() not in app.topics:
            path.unlink()


def with_figure(app, chapter, text):
    """Put the figure of a chapter behind its first paragraph that ends a thought."""
    script = app.config.topic_facts["figures"][chapter]
    image = figure(app.srcdir, f"{chapter}/{script}")
    more = f":ref:`How it is drawn <sphx_glr_gallery_{chapter}_{script}.py>`."
    end = SENTENCE.search(text).end()
    return f"{text[:end]}{image}\n\n{more}\n\n{text[end:]}"


def list_topics(app, docname, source):
    """On a chapter's page: a figure, and one entry for each topic in place of its functions."""
    if docname in facts.PAGES:
        source[0] = facts.label_answers(docname, source[0], app.topics)
    chapter = docname.rpartition("/")[2]
    if docname != f"reference/{chapter}" or chapter not in app.config.topic_chapters:
        return
    page_of = {n: t for t in app.topics.values() if t.chapter == chapter for n in t.names}
    listed = set()

    def entry(match):
        found = dict.fromkeys(page_of[n] for n in match[1].split())
        fresh = [t for t in found if t not in listed]
        listed.update(fresh)
        rows = [f":doc:`{t.title} <{t.chapter}/{t.name}>`\n   {t.summary}\n" for t in fresh]
        if not rows:
            return ""
        tree = "".join(f"   {t.chapter}/{t.name}\n" for t in fresh)
        return "\n".join(rows) + f"\n.. toctree::\n   :hidden:\n\n{tree}\n"

    source[0] = LISTED.sub(entry, with_figure(app, chapter, source[0]) + "\n")


def fold(app, _what, name, _obj, _options, lines):
    """Leave parameters, results and errors of a docstring: the page tells the rest."""
    if not app.env.docname.startswith("reference/") or app.env.docname not in app.topics:
        return
    parts = sections("\n".join(lines))
    kept = [f"{t}\n{'-' * len(t)}\n{body}\n" for t, body in parts.items() if t and t not in TOLD]
    lines[:] = "\n".join(kept).split("\n")


def redirect(app, exception):
    """Old addresses, a page for each function, lead to the topic's page."""
    if exception or app.builder.name != "html":
        return
    old = Path(app.outdir) / "reference" / "generated"
    old.mkdir(parents=True, exist_ok=True)
    moved = {f"dlref.{n}": "../../conventions.html" for n in ("get_num_threads", "set_num_threads")}
    for topic in app.topics.values():
        page = f"../{topic.chapter}/{topic.name}.html"
        moved |= {f"dlref.{topic.chapter}.{n}": page for n in topic.names}
    for name, page in moved.items():
        new = f"{page}#{name}"
        (old / f"{name}.html").write_text(
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{name}</title>'
            f'<meta http-equiv="refresh" content="0; url={new}">'
            f'<p>Moved to <a href="{new}">{name}</a>.</p></html>\n',
            encoding="utf-8",
        )


def setup(app):
    """Connect after the gallery is written and before the pages are read."""
    app.add_config_value("topic_chapters", [], "env", list)
    app.add_config_value("topic_scripts", {}, "env", dict)
    app.add_config_value("topic_words", {}, "env", dict)
    app.add_config_value("topic_facts", {}, "env", dict)
    app.connect("builder-inited", write_pages, priority=700)
    app.connect("source-read", list_topics)
    app.connect("autodoc-process-docstring", fold, priority=100)  # before numpydoc
    app.connect("build-finished", redirect, priority=950)  # after stale pages are removed
    return {"parallel_read_safe": True, "parallel_write_safe": True}
