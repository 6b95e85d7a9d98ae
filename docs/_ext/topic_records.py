"""All that a page says about a topic besides its docstrings: ``docs/topics/<chapter>.toml``.

A file has a table for the chapter, `Chapter`, and one for each topic, `Record`. The fields below
are the keys of these tables; only `lead` and `symbols` are always there.
"""

import dataclasses
import functools
import tomllib
from dataclasses import field
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "topics"


@dataclasses.dataclass(frozen=True)
class Record:
    """The table of a topic. In `lead`, `symbols` and `example`, ``$...$`` is mathematics."""

    #: Two sentences that define the topic and say where it is used.
    lead: str
    #: Its symbols. The upstream gradient u is added where there is a vjp.
    symbols: str
    #: The title of the page, where it is not the name of the topic.
    title: str = ""
    #: The topic that it follows on the chapter's page, where the page itself does not list it.
    beside: str = ""
    #: The version that has it first.
    since: str = "0.1.0"
    #: Words that people search for.
    search: str = ""
    #: A sentence before the examples, where the docstring begins with code.
    example: str = ""
    #: Parts of displayed equations for the cheat sheet, ``function:equation:parts``, where they are
    #: not the first equation and the gradients of the backward pass.
    formula: str = ""
    backward: str = ""
    #: The function that defines the topic, where it is not the first by name.
    first: str = ""
    #: Special cases and further forms, folded after the main results; a value with its gradient
    #: always is.
    special: list = field(default_factory=list)
    #: The gallery script that draws it, where it is not ``<chapter>/plot_<topic>``.
    script: str = ""
    #: A script and the number of its figure, where it is not the first one of `script`.
    figure: str = ""
    #: The precision that is stated where none was measured; or the chapter's.
    precision: str = ""
    #: Rows of docs/results/conventions.csv for "Conventions and traps", and further lines there.
    conventions: list = field(default_factory=list)
    traps: list = field(default_factory=list)
    #: Parts that the page does without, and why; a reason goes once the part is there.
    without: dict = field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Chapter:
    """The table of a chapter, with the records of its topics by name."""

    #: The figure of the chapter's page: a gallery script.
    figure: str
    #: What holds for each of its topics whose table does not say otherwise.
    precision: str = ""
    without: dict = field(default_factory=dict)
    topics: dict = field(default_factory=dict)


def make(kind, table, where):
    """Return a table as a record; a key that is unknown or missing is an error."""
    fields = dataclasses.fields(kind)
    wanted = {f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING}
    if missing := wanted - table.keys():
        msg = f"{where} lacks {', '.join(sorted(missing))}"
        raise ValueError(msg)
    if unknown := table.keys() - {f.name for f in fields}:
        msg = f"{where} has unknown keys: {', '.join(sorted(unknown))}"
        raise ValueError(msg)
    return kind(**table)


def read(path):
    """Return the chapter that a file describes."""
    tables, where = tomllib.loads(path.read_text(encoding="utf-8")), f"docs/topics/{path.name}"
    own = tables.pop("chapter", {})
    topics = {}
    for name, table in tables.items():
        default = {"script": f"{path.stem}/plot_{name}", "precision": own.get("precision", "")}
        topics[name] = make(Record, default | table, f"{where}: [{name}]")
    return make(Chapter, own | {"topics": topics}, f"{where}: [chapter]")


@functools.cache
def load():
    """Return all chapters by name."""
    return {path.stem: read(path) for path in sorted(FOLDER.glob("*.toml"))}
