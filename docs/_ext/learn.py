"""The pages of the course: the box and the links of a lesson, its side bar, and its downloads.

docs/learn has the text of a lesson. The box under its title and the links to its solutions, its
neighbors and its downloads are added when it is read. Solutions and homework have a page for each
part.
"""

import itertools
from textwrap import indent

from course import ITEM, SOLUTION, Course
from stale import write_changed
from topics import heading


def link(lesson, text=""):
    return f":doc:`{text or lesson.title} </{lesson.page}>`"


def label(lesson, number, kind="exercise"):
    """Return the target of an exercise, or of its solution."""
    return f"{lesson.name}-{kind}-{number}".replace("_", "-")


def box(course, lesson):
    """Return the box under a title: part, number, minutes, and the lessons that it needs."""
    part = course.parts[lesson.part - 1]["title"]
    line = (
        f":doc:`Learn </learn>` · {part} · **Lesson {lesson.number} of {len(course.lessons)}** · "
    )
    line += f"{lesson.minutes} minutes"
    if lesson.needs:
        needed = [course.by_name[name] for name in lesson.needs]
        line += f" · needs {', '.join(link(n, f'{n.number}. {n.title}') for n in needed)}"
    return f".. container:: stop\n\n   {line}\n"


def numbered(lesson):
    """Return the text of a lesson with anchors on its exercises and links to their solutions."""
    count = itertools.count(1)

    def item(match):
        number = next(count)
        text = SOLUTION.sub("", match[1]).strip()
        solution = f":ref:`Solution <{label(lesson, number, 'solution')}>`"
        return f"#. .. _{label(lesson, number)}:\n\n   {text} {solution}\n\n"

    exercises = lesson.parts["Exercises"]
    return lesson.text.replace(exercises, ITEM.sub(item, exercises))


def foot(course, lesson, titles):
    """Return the end of a lesson: the next one, the reference, the program so far."""
    lines = []
    if lesson.number < len(course.lessons):
        lines.append(f"**Next:** {link(course.lessons[lesson.number])}")
    topics = [
        f":doc:`{titles[page]} </{page}>`" for page in map("reference/{}".format, lesson.topics)
    ]
    if topics:
        lines.append(f"In the reference: {', '.join(topics)}")
    program = f'<a href="{lesson.name}.py" download>The program after this lesson</a>'
    links = "\n".join(f"- {line}" for line in lines)
    return f"\n.. rst-class:: lesson-end\n\n{links}\n\n.. raw:: html\n\n   <p>{program}</p>\n"


def composed(course, lesson, titles):
    """Return a lesson as it is read."""
    title, line, rest = numbered(lesson).lstrip().split("\n", 2)
    above = f"{title}\n{line}\n\n{box(course, lesson)}"
    return f"{above}\n{rest.rstrip()}\n\n{foot(course, lesson, titles)}"


def exercises_of(course, number, *, solved):
    """Return the page with the exercises of a part, or with their solutions."""
    title = ("Solutions: " if solved else "Homework: ") + course.parts[number - 1]["title"]
    out = [":orphan:\n:nosearch:\n", heading(title, "=")]
    if not solved:
        out.append("All exercises of this part without their solutions, as a sheet to print.\n")
    for lesson in course.of(number):
        out += [heading(f"{lesson.number}. {lesson.title}", "-")]
        for k, exercise in enumerate(lesson.exercises, 1):
            if solved:
                out.append(f".. _{label(lesson, k, 'solution')}:\n")
                out.append(f":ref:`Exercise {k} <{label(lesson, k)}>`\n")
                out.append(f"{indent(exercise.solution, '   ')}\n")
            else:
                out.append(f"#. {indent(exercise.text, '   ').strip()}\n")
    return "\n".join(out)


def write_pages(app):
    """Read the course, and write the pages of exercises that have changed."""
    app.course = course = Course(app.srcdir)
    for number in range(1, len(course.parts) + 1):
        for name, solved in (("solutions", True), ("homework", False)):
            path = app.srcdir / "learn" / f"{name}_{number}.rst"
            write_changed(path, exercises_of(course, number, solved=solved))


def listing(course):
    """Return the parts with their lessons, for the page Learn."""
    out = []
    for number, part in enumerate(course.parts, 1):
        lessons = course.of(number)
        hours = sum(lesson.minutes for lesson in lessons) / 60
        out += [heading(f"{number}. {part['title']}", "-")]
        out.append(
            f"{part['about']} About {hours:.0f} hours; :doc:`homework </learn/homework_{number}>` "
            f"and :doc:`solutions </learn/solutions_{number}>`.\n"
        )
        out += [
            f"{lesson.number}. {link(lesson)}: {lesson.about}. *{lesson.minutes} minutes.*"
            for lesson in lessons
        ]
        out.append("")
    pages = "\n".join(f"   {lesson.page}" for lesson in course.lessons)
    return "\n".join(out) + f"\n.. toctree::\n   :hidden:\n\n{pages}\n"


def exam(course):
    """Return the questions of an exam, with the lessons that answer them."""
    rows = []
    for question, names in course.exam.items():
        lessons = [course.by_name[name] for name in names]
        minutes = sum(lesson.minutes for lesson in lessons)
        rows.append(f"#. {question} {', '.join(map(link, lessons))}. *{minutes} minutes.*")
    named = {name for names in course.exam.values() for name in names}
    total = sum(lesson.minutes for lesson in course.lessons if lesson.name in named) / 60
    return f"About {total:.0f} hours:\n\n" + "\n".join(rows) + "\n"


def compose(app, docname, source):
    """Complete a lesson, or put the lists where learn.rst wants them."""
    course = app.course
    if docname == "learn":
        app.env.note_dependency(f"{app.srcdir}/learn.toml")
        for mark, text in (("lessons", listing), ("exam", exam)):
            source[0] = source[0].replace(f".. learn:: {mark}\n", text(course))
    elif docname in course.by_page:
        titles = {t.page: t.title for t in app.topics.values()}
        source[0] = composed(course, course.by_page[docname], titles)


def side_bar(app, pagename, _template, context, _doctree):
    """Give the pages of the course its lessons for the side bar, and its own neighbors."""
    course = app.course
    if pagename != "learn" and not pagename.startswith("learn/"):
        return
    context["learn_parts"] = [
        (
            f"{number}. {part['title']}",
            [
                (
                    lesson.number, lesson.title, lesson.page == pagename,
                    app.builder.get_relative_uri(pagename, lesson.page),
                )
                for lesson in course.of(number)
            ],
        )
        for number, part in enumerate(course.parts, 1)
    ]  # fmt: skip
    if pagename == course.lessons[-1].page:
        context["next"] = None  # the reference does not follow on the last lesson


def write_programs(app, exception):
    """Write the program as it stands after each lesson."""
    if exception is None and app.builder.name == "html":
        for lesson in app.course.lessons:
            path = app.outdir / f"{lesson.page}.py"
            path.write_text(app.course.program(lesson), encoding="utf-8")


def setup(app):
    """Connect before the pages of topics, which link to the lessons, are written."""
    app.connect("builder-inited", write_pages, priority=650)
    app.connect("source-read", compose)
    app.connect("html-page-context", side_bar)
    app.connect("build-finished", write_programs)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
