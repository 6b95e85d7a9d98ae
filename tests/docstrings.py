"""
Validate the docstring of every public object with numpydoc: ``tox run -e lint``.

numpydoc's own command reads files, and so takes private helpers for public functions.
"""

import re
import sys
import tomllib
from pathlib import Path

import dlref

SETTINGS = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
FORM = re.compile("_(jacobian|hessian|grad|deriv2?|vjp|jvp)$")
IGNORED = set(SETTINGS["tool"]["numpydoc_validation"]["checks"]) - {"all"}


def public_names():
    for name in dlref.__all__:
        members = getattr(getattr(dlref, name), "__all__", None)
        yield from (f"dlref.{name}.{m}" for m in members) if members else (f"dlref.{name}",)


def checked(name, code):
    """Whether a check holds for a name: derivatives need not refer to their map once more."""
    return code not in IGNORED and not (code == "SA01" and FORM.search(name))


def main():
    from numpydoc.validate import validate  # noqa: PLC0415  # only where the lint is

    names = list(public_names())
    problems = [
        f"{name}: {code} {text}"
        for name in names
        for code, text in validate(name)["errors"]
        if checked(name, code)
    ]
    print(*problems, f"{len(names)} docstrings, {len(problems)} problems", sep="\n")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
