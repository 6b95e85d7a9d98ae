"""A page for each topic: one map with all its forms, in the order in which one understands it.

docs/topics has the two sentences and the symbols that it begins with. The definition, the examples
and the derivation of each form come from the docstrings; what is left of a docstring, its
parameters and errors, is folded at the end. The definition of a page of many maps begins with a
table from docs/tables. No text is written twice.
"""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from textwrap import dedent

import facts
import topic_heads as heads
from exports import exported
from numpy_blocks import Blocks
from stale import write_changed
from topic_heads import FORMS, ORDER, form

TOLD = {"Notes", "Examples", "References"}  # on the page, not in the folded docstring
LISTED = re.compile(r"^\.\. topics::\n\n((?: +\w+\n)+)", re.MULTILINE)
UPSTREAM = r"$u$: the upstream gradient, the derivative of the loss $L$ with respect to the output."
MANY = 32  # lines of examples before the others are folded
SENTENCE = re.compile(r"^(?!\.\. |\d\. |- |>>> )\S[^\n]*(?:\n\S[^\n]*)*\.\n\n", re.MULTILINE)
NUMBERED = re.compile(r"^(\d+)\. ", re.MULTILINE)
FORMULA = re.compile(r"^\.\. math::.*?(?=\n\S|\Z)", re.MULTILINE | re.DOTALL)


def sections(text):
    """Return the parts of a numpydoc docstring by title, the summary under ''."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}$\n?", text, flags=re.MULTILINE)
    titles = ["", *parts[1::2]]
    return {t: body.strip("\n") for t, body in zip(titles, parts[::2], strict=True)}


def with_roles(text, role="math"):
    """Return a text of a record with mathematics as roles."""
    return re.sub(r"\$([^$]+)\$", lambda m: f":{role}:`{m[1]}`", text)


def public_names(module):
    """Return the names that a topic exports, in the order of `__all__` if it has one."""
    order = getattr(module, "__all__", None)
    return sorted(exported(Path(module.__file__)), key=order.index if order else None)


class Topic:
    """A module of a chapter with what it exports.

    Its sections have labels for links: ``chapter.topic:section`` and ``chapter.function``.
    """

    def __init__(self, chapter, name, module, record):
        self.chapter, self.name, self.record = chapter, name, record
        public = public_names(module)
        names = [n for n in public if inspect.isroutine(getattr(module, n))]
        self.classes = [n for n in public if n not in names]
        self.first = record.first
        self.names = [*sorted(names, key=self.rank), *self.classes]
        self.maps = [n for n in self.names if not form(n)]
        self.first = self.first or (self.maps or self.names)[0]
        self.special = set(record.special)
        self.special |= {n for n in names if form(n) == "value_and_grad"}
        self.special |= set(self.classes) if names else set()
        self.parts = {n: sections(inspect.getdoc(getattr(module, n))) for n in self.names}
        title = record.title or name.replace("_", " ")
        self.title, self.symbols = title[0].upper() + title[1:], record.symbols
        self.table = ""  # of its maps, where they are many
        backward = any(form(n) == "vjp" for n in names)
        if backward and "upstream gradient" not in self.symbols.replace("not an upstream", ""):
            self.symbols = f"{self.symbols[:-1]}; {UPSTREAM}" if self.symbols else UPSTREAM

    def rank(self, name):
        """Maps, then derivatives; of each form the one of the map that the page is named after."""
        kind = form(name)
        of = name.removesuffix(f"_{kind}") if kind else name
        own = [self.name, self.first]
        return ORDER.index(kind) if kind else -1, own.index(of) if of in own else len(own)

    def label(self, section):
        """Return the target of a section."""
        return f"{self.chapter}.{self.name}:{section}"

    @property
    def page(self):
        return f"reference/{self.chapter}/{self.name}"

    @property
    def summary(self):
        """The first sentence of the lead, up to a colon."""
        return with_roles(re.split(r"(?<=\w)[.:;](?= |$)", self.record.lead)[0] + ".")


def load(chapters, records):
    """Return the topics of all chapters, by their pages."""
    topics = {}
    for chapter in chapters:
        package = importlib.import_module(f"dlref.{chapter}")
        for found in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{found.name}")
            if not found.ispkg and public_names(module):
                name = found.name.removeprefix("_")
                if name not in records[chapter].topics:
                    msg = f"docs/topics/{chapter}.toml has no table [{name}]"
                    raise ValueError(msg)
                topic = Topic(chapter, name, module, records[chapter].topics[name])
                topics[topic.page] = topic
    return topics


# -- The page ---------------------------------------------------------------------------


def heading(text, mark, label=""):
    target = f".. _{label}:\n\n" if label else ""
    return f"{target}{text}\n{mark * len(text)}\n"


def definition(notes):
    """Split notes into what introduces the first formula, the formula, and what follows.

    Notes that display no formula define in words: all of them introduce.
    """
    found = FORMULA.search(notes)
    if not found:
        return notes, "", ""
    titled = [m.start() for m in facts.RUN_IN.finditer(notes, 1) if m.start() < found.start()]
    if titled:  # the formula belongs to a later thought: the words before it define
        return notes[: titled[0]].strip("\n"), "", notes[titled[0] :]
    return (
        notes[: found.start()].strip("\n"),
        found.group().rstrip(),
        notes[found.end() :].strip("\n"),
    )


def continued(rest):
    """Split off what finishes the sentence of a first formula, with the formulas in it."""
    blocks, taken = re.split(r"\n\n(?=\S)", rest), []
    while blocks and blocks[0][:1].islower():
        taken.append(blocks.pop(0))
        while blocks and blocks[0].startswith(".. math::"):
            taken.append(blocks.pop(0))
    return "\n\n".join(taken), "\n\n".join(blocks)


def figure(srcdir, script, number=1):
    """Return a figure of a gallery script, light and dark; the first one if none is named."""
    path = srcdir / "gallery" / f"{script}.rst"
    if not path.exists():
        return ""
    text = path.read_text(encoding="utf-8")
    images = re.findall(r"^ *\.\. image-sg:: .*\n(?: +:.*\n)+", text, re.MULTILINE)
    light = [dedent(i) for i in images if "only-dark" not in i]
    dark = [dedent(i) for i in images if "only-dark" in i]
    return "\n".join(found[number - 1] for found in (light, dark) if found)


def hero(topic, srcdir):
    """Return the figure of a topic: the one that is chosen for it, or the first of its script."""
    script, number = (topic.record.figure or f"{topic.record.script} 1").split()
    return figure(srcdir, script, int(number))


def part(folder, topic, title=""):
    """Return a section, or the beginning of one, that has a file of its own, if there is one."""
    path = folder / topic.chapter / f"{topic.name}.rst"
    if not path.exists():
        return []
    above = [heading(title, "-", topic.label(folder.name))] if title else []
    text = path.read_text(encoding="utf-8")
    if folder.name == "exercises":  # each has an address
        text = NUMBERED.sub(rf"\1. .. _{topic.label('exercise')}-\1:\n\n   ", text)
    return [*above, text, ""]


def place(topic, blocks):
    """Share blocks out: those of a derivative go to its section, the others to the top."""
    top, below = [], {}
    for function, text in blocks:
        suffix = form(function.name)
        same = [n for n in topic.names if suffix and form(n) == suffix]
        home = function.name if function.name in same else next(iter(same), None)
        if home:
            below.setdefault(home, []).append(text)
        else:
            top.append((function.name, text))
    return top, below


def variant(name, text):
    """Return NumPy that is not the plain form: folded, as long blocks already are."""
    return text if ".. dropdown::" in text else facts.dropdown(f"``{name}`` in NumPy", text)


def opening(topic, srcdir, options):
    """Return the title, what the map is and where it is used, its symbols, and its figure."""
    plain = re.sub(r"\$[^$]*\$", "", topic.record.lead)
    out = [f".. meta::\n   :description: {plain}\n", heading(topic.title, "=")]
    out += [f".. currentmodule:: dlref.{topic.chapter}\n"]
    if topic.record.search:  # in the index, where the search finds them
        out += [f".. index:: {topic.record.search}\n"]
    out += [
        heads.signatures(topic),
        heads.learn_it(topic, options.course),
        f".. rst-class:: lead\n\n{with_roles(topic.record.lead)}\n",
    ]
    if topic.symbols:
        out += [f".. rst-class:: symbols\n\n*Symbols.* {with_roles(topic.symbols, 'sym')}\n"]
    return [*out, hero(topic, srcdir), "", heads.check_yours(topic), ""]


def grouped(topic, names):
    """Return names in groups: on the page of many maps, the forms of one map are one group."""
    if not topic.table:
        return [[name] for name in names]
    groups = {name.removesuffix(f"_{form(name)}"): [] for name in topic.names}
    for name in names:
        groups[name.removesuffix(f"_{form(name)}")].append(name)
    return [*filter(None, groups.values())]


def defined(topic, parts, code):
    """Return the definition, whose sentence ends before the code begins, and what follows it."""
    intro, formula, rest = definition(parts["kept"].removeprefix("**Definition.** "))
    finish, rest = continued(rest)
    shown = "\n\n".join(part for part in (formula, finish, code) if part)
    summary = topic.parts[topic.first][""]  # has the map itself where the notes derive from it
    above = summary if ":math:" in summary else ""
    head = [heading("Definition", "-", topic.label("definition"))]
    if topic.table:
        title = f"{FORMS[form(topic.first)]}: {topic.first}" if form(topic.first) else topic.first
        head += [topic.table, "", heading(title, "~")]
    return [*head, above, "", intro, "", shown, ""], rest


#: Where a backward pass takes the three steps of one page.
TEMPLATE = (
    "A backward pass below takes the three steps of :doc:`/adjoints`: the differential of the "
    "output, its inner product with the upstream gradient, and the transpose."
)


def derivations(topic, rest, notes, code_of, examples):
    """Return the sections of all forms, the main ones first and the special cases folded."""
    others = [n for n in topic.names if n != topic.first]
    if not rest and not others:
        return []
    derived = rest or any(form(n) for n in others)
    title = "Derivation" if derived else "Related functions"
    out = [heading(title, "-", topic.label("derivation")), rest, ""]
    if any("**The differential.**" in notes[name]["kept"] for name in topic.names):
        out += [f"{TEMPLATE}\n"]

    def body(name):
        return [topic.parts[name][""], "", notes[name]["kept"], "", *code_of.get(name, []), "",
                examples[name], ""]  # fmt: skip

    for name in (n for n in others if n not in topic.special):
        title = FORMS.get(form(name), "")
        label = f"{topic.chapter}.{name}"
        out += [heading(f"{title}: {name}" if title else name, "~", label), *body(name)]
    folded = [n for n in others if n in topic.special]
    if folded:
        out += [heading("Special cases and further forms", "~")]
    for names in grouped(topic, folded):
        title = FORMS.get(form(names[0]), "") if len(names) == 1 else ""
        summary = f"{title}: {names[0]}" if title else ", ".join(names)
        text = "\n".join(line for name in names for line in body(name))
        out += [facts.dropdown(summary, text.strip("\n"))]
    return out


def shortened(examples):
    """Return examples, those after the first lines folded if there are many."""
    blocks, shown, lines = re.split(r"\n\n(?=\S)", examples), [], 0
    while blocks and lines < MANY:
        shown.append(blocks.pop(0))
        lines += shown[-1].count("\n") + 2
    if blocks and shown[-1].endswith(":"):  # it announces what is folded
        blocks.insert(0, shown.pop())
    rest = "\n\n".join(blocks)
    if rest.count("\n") < MANY // 4:
        return [examples]
    return ["\n\n".join(shown), "", facts.dropdown("More examples", rest)]


def parameters(topic):
    """Return the section on arguments, results and errors, a folded part for each form."""
    out = [heading("Parameters and errors", "-")]
    for names in grouped(topic, topic.names):
        out += [f".. dropdown:: {', '.join(names)}\n"]
        kinds = ("class" if name in topic.classes else "function" for name in names)
        out += [f"   .. auto{kind}:: {name}\n" for kind, name in zip(kinds, names, strict=True)]
    return out


def optional(name, notes):
    """Return the paragraphs on options; those of derivatives are folded."""
    if not form(name):
        return notes["options"]
    text = "\n\n".join(filter(None, (notes["folded"], notes["options"])))
    return facts.dropdown(f"{FORMS[form(name)]}: {name}", text) if text else ""


def compose(topic, srcdir, kwargs):
    """Return the text of a topic's page."""
    first = topic.first
    notes = {n: facts.split_notes(topic.parts[n].get("Notes", "")) for n in topic.names}
    code, code_of = place(topic, kwargs.numpy.blocks(topic))
    if not topic.maps:  # the derivatives of an operation of NumPy: all of their code belongs here
        code += [(first, text) for text in code_of.pop(first, [])]
    examples = {n: topic.parts[n].get("Examples", "") for n in topic.names}
    if topic.record.example:
        examples[first] = f"{with_roles(topic.record.example)}\n\n{examples[first]}"
    topic.table = "\n".join(part(srcdir / "tables", topic))
    top, rest = defined(topic, notes[first], "".join(text for _, text in code[:1]))
    out = opening(topic, srcdir, kwargs) + top
    if not topic.maps:
        out += [*(text for _, text in code[1:]), ""]
    out += parameters(topic)
    out += [heading("Examples", "-"), *shortened(examples[first]), ""]
    out += part(srcdir / "steps", topic, "Backpropagation, step by step")
    out += part(srcdir / "tryit", topic, "Try it")
    rest = "\n\n".join([rest, *facts.folded(notes[first])]).strip("\n")
    out += derivations(topic, rest, notes, code_of, examples)
    options = [*filter(None, (optional(name, n) for name, n in notes.items()))]
    options += [variant(*block) for block in code[1:]] if topic.maps else []
    if options:
        out += [heading("Options and variants", "-"), "\n\n".join(options), ""]
    numerics = facts.numerics(topic, [n["numerics"] for n in notes.values()])
    traps = facts.conventions(
        topic,
        [n["traps"] for n in notes.values()],
        kwargs.answers.get(f"{topic.chapter}.{topic.name}", {}),
    )
    for title, section, text in (
        ("Numerics", "numerics", numerics),
        ("Conventions and traps", "traps", traps),
    ):
        out += [heading(title, "-", topic.label(section)), text, ""] if text else []
    out += part(srcdir / "exercises", topic, "Exercises")
    users = sorted(kwargs.uses[topic.page], key=lambda user: user.title)
    links = ", ".join(f":doc:`{u.title} </{u.page}>`" for u in users)
    out += [heading("Used in", "-"), f"{links}.", ""] if links else []
    sources = dict.fromkeys(
        line
        for n in topic.names
        for line in re.split(r"\n(?=- )", topic.parts[n].get("References", ""))
        if line
    )
    if sources:
        out += [heading("References", "-"), "\n".join(sources), ""]
    out += [".. only:: html and not epub\n"]
    out += [f"   .. minigallery:: ../gallery/{topic.record.script}.py"]
    out += ["      :add-heading: Figures", "      :heading-level: -", ""]
    return "\n".join(out)


class Told:
    """What the pages say that is not in their docstrings."""

    def __init__(self, app):
        topics = app.topics.values()
        self.course = app.course
        self.titles = {t.page: t.title for t in topics}
        self.numpy = Blocks(topics)
        self.answers = facts.answers(app.srcdir)
        self.uses = facts.uses(topics, self.numpy)
        keys = {f"{t.chapter}.{t.name}" for t in topics}
        if unknown := self.answers.keys() - keys:
            msg = f"Questions or misconceptions concern what is no topic: {sorted(unknown)}"
            raise ValueError(msg)


def write_pages(app):
    """Before the sources are read: write what has changed, drop what is gone."""
    app.topics = load(app.config.topic_chapters, app.config.topic_records)
    options = Told(app)
    for topic in app.topics.values():
        text = compose(topic, app.srcdir, options)
        path = app.srcdir / f"{topic.page}.rst"
        path.parent.mkdir(exist_ok=True)
        write_changed(path, text)
    for path in app.srcdir.glob("reference/*/*.rst"):
        if path.relative_to(app.srcdir).with_suffix("").as_posix() not in app.topics:
            path.unlink()


def with_figure(app, chapter, text):
    """Put the figure of a chapter behind its first paragraph that ends a thought."""
    script = app.config.topic_records[chapter].figure
    more = f":ref:`How it is drawn <sphx_glr_gallery_{script.replace('/', '_')}.py>`."
    end = SENTENCE.search(text).end()
    return f"{text[:end]}{figure(app.srcdir, script)}\n\n{more}\n\n{text[end:]}"


def with_relatives(names, records):
    """Return names of topics, each with those that stand beside it."""
    beside = {n: [m for m, record in records.items() if record.beside == n] for n in names}
    return [topic for n in names for topic in (n, *beside[n])]


def in_order(topics, chapter, text):
    """Return the topics of a chapter in the order in which its page, of this text, lists them."""
    here = {t.name: t for t in topics if t.chapter == chapter}
    names = [n for listed in LISTED.finditer(text) for n in listed[1].split()]
    return [here[n] for n in with_relatives(names, {n: t.record for n, t in here.items()})]


def list_topics(app, docname, source):
    """On a chapter's page: a figure, and an entry for each topic in place of its name."""
    if docname in facts.PAGES:
        source[0] = facts.label_answers(docname, source[0], app.topics)
    chapter = docname.rpartition("/")[2]
    if docname != f"reference/{chapter}" or chapter not in app.config.topic_chapters:
        return

    def entry(match):
        found = in_order(app.topics.values(), chapter, match[0])
        rows = [f":doc:`{t.title} <{t.chapter}/{t.name}>`\n   {t.summary}\n" for t in found]
        tree = "".join(f"   {t.chapter}/{t.name}\n" for t in found)
        return "\n".join(rows) + f"\n.. toctree::\n   :hidden:\n\n{tree}\n"

    source[0] = LISTED.sub(entry, with_figure(app, chapter, source[0]) + "\n")


def fold(app, _what, name, _obj, _options, lines):
    """Leave parameters, results and errors of a docstring: the page tells the rest."""
    if not app.env.docname.startswith("reference/") or app.env.docname not in app.topics:
        return
    parts = sections("\n".join(lines))
    kept = [f"{t}\n{'-' * len(t)}\n{body}\n" for t, body in parts.items() if t and t not in TOLD]
    lines[:] = "\n".join(kept).split("\n")


def setup(app):
    """Connect after the gallery is written and before the pages are read."""
    app.add_config_value("topic_chapters", [], "env", list)
    app.add_config_value("topic_records", {}, "env", dict)
    app.connect("builder-inited", write_pages, priority=700)
    app.connect("source-read", list_topics)
    app.connect("autodoc-process-docstring", fold, priority=100)  # before numpydoc
    return {"parallel_read_safe": True, "parallel_write_safe": True}
