"""The first lines of a topic: import and signatures, the call that checks a kernel, the lesson."""

import importlib
import inspect
from textwrap import indent

import facts

from dlref._records import spec_of

#: A derivative, by the end of its name, in the order of a page.
FORMS = {
    "deriv": "First derivative",
    "grad": "Gradient",
    "jacobian": "Jacobian",
    "vjp": "Backward pass (vjp)",
    "jvp": "Forward mode (jvp)",
    "value_and_grad": "Value and gradient",
    "deriv2": "Second derivative",
    "hessian": "Hessian",
}
ORDER = list(FORMS)


def form(name):
    """Return the suffix that makes a name a derivative, or ''."""
    found = [s for s in ORDER if name.endswith(f"_{s}")]
    return max(found, key=len, default="")


def function(topic, name):
    """Return a function of a topic as its chapter exports it."""
    return getattr(importlib.import_module(f"dlref.{topic.chapter}"), name)


def main_names(topic):
    """Return the map that a topic is named after, and its backward pass or None."""
    functions = [name for name in topic.names if name not in topic.classes]
    if topic.first not in functions:
        return None, None
    if form(topic.first):  # the derivatives of an operation of NumPy
        return next((n for n in functions if form(n) == "vjp"), topic.first), None
    backward = (f"{topic.first}_{kind}" for kind in ("vjp", "grad"))
    return topic.first, next((name for name in backward if name in functions), None)


def check_call(topic):
    """Return the code that checks a kernel of a topic, or "" if no inputs are known for it."""
    name, backward = main_names(topic)
    if not name or spec_of(function(topic, name))[0].why_not:
        return ""
    lines = ["from dlref.check import check_all", ""]
    if backward and form(backward) == "vjp":
        lines.append(f"print(check_all(my_{name}, {name}, vjp=my_{backward}))")
    else:
        lines.append(f"print(check_all(my_{name}, {name}))")
        if backward:
            lines.append(f"print(check_all(my_{backward}, {backward}))")
    return "\n".join(lines)


def signatures(topic):
    """Return the line that imports a map with its backward pass, and their signatures, linked."""
    shown = [name for name in main_names(topic) if name]
    if not shown:
        return ""
    links = []
    for name in shown:
        signature = inspect.signature(function(topic, name))
        plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
        links.append(f":obj:`{name}`\\ ``{inspect.Signature(plain)}``")
    line = f"from dlref.{topic.chapter} import {', '.join(shown)}"
    since = f"Since version {topic.record.since}."
    head = f".. code-block:: python\n   :class: import\n\n   {line}\n"
    return f"{head}\n.. rst-class:: signatures\n\n| " + "\n| ".join([*links, since]) + "\n"


def check_yours(topic):
    """Return the code that checks a kernel, folded."""
    code = check_call(topic)
    if not code:
        return ""
    text = (
        "If you have written this map yourself, print a report on "
        ":doc:`your kernel </check_your_kernel>`:\n\n.. code-block:: python\n\n"
    )
    return facts.dropdown("Check yours", text + indent(code, "   "))


def learn_it(topic, course):
    """Return the links to the lessons that introduce a topic."""
    lessons = course.teaching(f"{topic.chapter}/{topic.name}")
    links = [f":doc:`lesson {n.number}, {n.title} </{n.page}>`" for n in lessons]
    return f".. rst-class:: learn-it\n\nLearn it first: {', '.join(links)}.\n" if links else ""
