"""The path of the page Learn, from docs/learn.toml: its list, a box on each stop, a side bar.

How long a stop takes is estimated from its page: the words that are not folded, at the pace at
which one reads mathematics, and the exercises.
"""

import itertools
import re
import tomllib
from pathlib import Path

PACE = 70  # words per minute, with a pencil
#: Minutes of an exercise, by its grade.
EXERCISES = {"Compute": 5, "Derive": 7, "Prove": 10, "": 6}
FOLDED = re.compile(r"^( *)\.\. dropdown::.*\n(?:\1 +.*\n|\s*\n)*", re.MULTILINE)
BACK_MATTER = re.compile(
    r"^(Numerics|Used in|References|Parameters and errors)\n-+\n", re.MULTILINE
)


class Stop:
    """A page of the path, with its number and its neighbors."""

    def __init__(self, entry, part, number):
        self.page = f"reference/{entry['page']}"
        self.part, self.number = part, number
        self.about, self.before = entry["about"], entry["before"]
        self.question, self.answer = entry["question"], entry["answer"]
        self.previous = self.next = None


class Route:
    """All stops, by their pages."""

    def __init__(self, srcdir):
        data = tomllib.loads((Path(srcdir) / "learn.toml").read_text(encoding="utf-8"))
        self.parts, self.stops, self.minutes = data["part"], {}, {}
        self.friday = [f"reference/{page}" for page in data["friday"]]
        for number, part in enumerate(self.parts, 1):
            for entry in part["stop"]:
                stop = Stop(entry, number, len(self.stops) + 1)
                self.stops[stop.page] = stop
        line = list(self.stops.values())
        for one, other in itertools.pairwise(line):
            one.next, other.previous = other, one

    def measure(self, page, text):
        """Estimate how many minutes a page takes, to five."""
        if page in self.stops:
            grades = re.findall(
                r"^\d+\. (?:\*(\w+)\.\*)?", text.partition("Exercises\n----")[2], re.MULTILINE
            )
            exercises = sum(EXERCISES.get(grade, EXERCISES[""]) for grade in grades)
            words = 0
            for section in re.split(r"^(?=[A-Z].*\n-{4,}\n)", text, flags=re.MULTILINE):
                if not BACK_MATTER.match(section):
                    words += len(FOLDED.sub("", section).split())
            self.minutes[page] = max(10, 5 * round((words / PACE + exercises) / 5))

    def box(self, page, titles):
        """Return the box of a stop: where it is, what comes before and next."""
        stop = self.stops.get(page)
        if stop is None:
            return []
        part = self.parts[stop.part - 1]["title"]
        links = [
            f"{word}: :doc:`{titles[other.page]} </{other.page}>`"
            for word, other in (("before", stop.previous), ("next", stop.next))
            if other
        ]
        where = f"Stop {stop.number} of {len(self.stops)}"
        line = (
            f":doc:`Learn </learn>`, part {stop.part}, {part} · **{where}** · {' · '.join(links)}"
        )
        return [f".. container:: stop\n\n   {line}\n"]

    def question(self, page, titles):
        """Return the section that ends a stop."""
        stop = self.stops.get(page)
        if stop is None:
            return []
        on = "This was the last stop of :doc:`Learn </learn>`."
        if stop.next:
            on = f"Next stop: :doc:`{titles[stop.next.page]} </{stop.next.page}>`."
        title = "Before you go on\n----------------\n"
        answer = f".. dropdown:: Answer\n\n   {stop.answer}\n"
        return ["\n".join((title, f"{stop.question}\n", answer, f"{on}\n"))]

    def listing(self, titles):
        """Return the parts with their stops, for the page itself."""
        out = []
        for number, part in enumerate(self.parts, 1):
            stops = [s for s in self.stops.values() if s.part == number]
            hours = sum(self.minutes[s.page] for s in stops) / 60
            title = f"{number}. {part['title']}"
            out.append(f"{title}\n{'-' * len(title)}\n\n{part['about']} About {hours:.0f} hours.\n")
            for stop in stops:
                mark = f"{stop.number}. "
                out.append(
                    f"{mark}:doc:`/{stop.page}`: {stop.about}.\n{' ' * len(mark)}*Before:* "
                    f"{stop.before}. *{self.minutes[stop.page]} minutes.*"
                )
            out.append("")
        return "\n".join(out)

    def route(self, titles):
        """Return the route of those who have an exam on Monday."""
        stops = [self.stops[page] for page in self.friday]
        total = sum(self.minutes[s.page] for s in stops) / 60
        links = [f"#. :doc:`/{s.page}`: {s.about} (stop {s.number})" for s in stops]
        return f"Seven stops, about {total:.0f} hours:\n\n" + "\n".join(links) + "\n"


def fill(app, docname, source):
    """Put the list and the short route where learn.rst wants them."""
    if docname == "learn":
        app.env.note_dependency(f"{app.srcdir}/learn.toml")
        titles = {t.page: t.title for t in app.topics.values()}
        for mark, text in (("path", app.learn.listing), ("friday", app.learn.route)):
            source[0] = source[0].replace(f".. learn:: {mark}\n", text(titles))


def side_bar(app, pagename, _template, context, _doctree):
    """Give the page its path, for the side bar."""
    if pagename == "learn":
        titles = {t.page: t.title for t in app.topics.values()}
        context["learn_parts"] = [
            (
                f"{number}. {part['title']}",
                [
                    (s.number, titles[s.page], app.builder.get_relative_uri(pagename, s.page))
                    for s in app.learn.stops.values()
                    if s.part == number
                ],
            )
            for number, part in enumerate(app.learn.parts, 1)
        ]


def setup(app):
    """Connect; topics.py makes the path when it has the topics."""
    app.connect("source-read", fill)
    app.connect("html-page-context", side_bar)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
