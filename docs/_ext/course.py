"""The lessons of docs/learn.toml as they are written: their words, exercises, code and outputs.

The blocks of Python of all lessons, in order, are one program; blocks that are indented, as those
in other frameworks are, do not belong to it.
"""

import re
import tomllib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from textwrap import dedent

PACE = 70  # words per minute, with a pencil
BLOCK = re.compile(
    r"^\.\. code-block:: (python|none)\n(?:   :.*\n)*\n((?:   .*\n|\n)+)", re.MULTILINE
)
SECTION = re.compile(r"^(\S.*)\n-{3,}\n", re.MULTILINE)
ITEM = re.compile(r"^#\. ((?:.*\n)(?:   .*\n|\n)*)", re.MULTILINE)
SOLUTION = re.compile(r"^   \.\. solution::\n((?:      .*\n|\n)*)", re.MULTILINE)
GRADE = re.compile(r"\*(Compute|Derive|Think|Code), (\d+) minutes?\.\*")
#: Parts of a page that a reader of the running text does not meet.
ASIDE = re.compile(
    r"^( *)\.\. (?:code-block|dropdown|math|solution|container|include)::.*\n(?:\1 +.*\n|\s*\n)*",
    re.MULTILINE,
)
#: A sketch: its description, and the lines that draw it.
SKETCH = re.compile(r"^\.\. sketch:: (.*\n(?:   \S.*\n)*)\n((?:   .*\n|\n)+)", re.MULTILINE)


@dataclass(frozen=True)
class Exercise:
    """An exercise: how it asks, how long it takes, its text, and its solution."""

    grade: str
    minutes: int
    text: str
    solution: str


@dataclass(frozen=True)
class Block:
    """A piece of the program, and its output as the page shows it."""

    code: str
    output: str


@dataclass(eq=False)
class Lesson:
    """A page of the course."""

    name: str
    about: str
    needs: list[str]
    topics: list[str]
    symbols: str
    part: int
    number: int
    text: str
    replaces: list[str] = field(default_factory=list)

    @property
    def page(self):
        return f"learn/{self.name}"

    @cached_property
    def title(self):
        return self.text.lstrip().partition("\n")[0]

    @cached_property
    def blocks(self):
        """The blocks of Python at the margin, each with the output after it."""
        found = [(kind, dedent(code).strip("\n")) for kind, code in BLOCK.findall(self.text)]
        outputs = [*found[1:], ("", "")]
        return [
            Block(code, after if then == "none" else "")
            for (kind, code), (then, after) in zip(found, outputs, strict=True)
            if kind == "python"
        ]

    @cached_property
    def parts(self):
        """The sections by title, and the beginning under ''."""
        titles = ["", *SECTION.findall(self.text)]
        return dict(zip(titles, SECTION.split(self.text)[::2], strict=True))

    @cached_property
    def exercises(self):
        out = []
        for item in ITEM.findall(self.parts["Exercises"]):
            grade, solution = GRADE.search(item), SOLUTION.search(item)
            if not grade or not solution:
                msg = f"{self.page}: an exercise has no grade, no minutes or no solution: {item}"
                raise ValueError(msg)
            text = dedent(f"   {SOLUTION.sub('', item)}").strip()
            out.append(Exercise(grade[1], int(grade[2]), text, dedent(solution[1]).strip()))
        return out

    @cached_property
    def words(self):
        """The number of words that are read: not those in code, formulas and dropdowns."""
        running = ASIDE.sub("", SKETCH.sub(r"\1", self.text))
        return len(
            re.findall(r"[A-Za-z]+(?:['’-][A-Za-z]+)*", re.sub(r":math:`[^`]*`", "", running))
        )

    @property
    def minutes(self):
        """An estimate: the pace at which one reads mathematics, and the exercises, to five."""
        exercises = sum(exercise.minutes for exercise in self.exercises)
        return max(10, 5 * round((self.words / PACE + exercises) / 5))


class Course:
    """All lessons, in order, and the parts that they are in."""

    def __init__(self, srcdir):
        srcdir = Path(srcdir)
        data = tomllib.loads((srcdir / "learn.toml").read_text(encoding="utf-8"))
        self.exam, self.sheet = data["exam"], data["sheet"]
        self.parts, self.lessons = data["part"], []
        for part, record in enumerate(self.parts, 1):
            for entry in record["lesson"]:
                path = srcdir / "learn" / f"{entry['name']}.rst"
                text, number = path.read_text(encoding="utf-8"), len(self.lessons) + 1
                self.lessons.append(Lesson(**entry, part=part, number=number, text=text))
        self.by_name = {lesson.name: lesson for lesson in self.lessons}
        self.by_page = {lesson.page: lesson for lesson in self.lessons}

    def of(self, part):
        """Return the lessons of a part."""
        return [lesson for lesson in self.lessons if lesson.part == part]

    def teaching(self, topic):
        """Return the lessons that introduce a topic of the reference."""
        return [lesson for lesson in self.lessons if topic in lesson.topics]

    def program(self, last):
        """Return the program as it stands after a lesson."""
        about = f'The program of the course of dlref, after the lesson "{last.title}".'
        out = [f'"""\n{about}\n\nIt needs NumPy alone.\n"""']
        for lesson in self.lessons[: last.number]:
            out.append(f"# Lesson {lesson.number}: {lesson.title}")
            out += [block.code for block in lesson.blocks]
        return "\n\n\n".join(out) + "\n"
