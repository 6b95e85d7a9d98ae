"""
Write the stub of each chapter, from which it is loaded lazily: ``tox run -e written``.

A stub names the module of each public function and class, whose docstrings have the sections of a
page; helpers have a sentence.  With ``--check``, as in ``tox run -e lint``, nothing is written and
stubs that are not up to date fail.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "dlref"
sys.path.insert(0, str(ROOT / "docs" / "_ext"))

from exports import exported  # noqa: E402


def natural(name):
    """Sort as ruff sorts imports: classes before functions."""
    return name.islower(), name


def stub(chapter):
    modules = sorted(path for path in chapter.glob("_*.py") if not path.name.startswith("__"))
    lines = [
        f"from .{path.stem} import {name} as {name}\n"
        for path in modules
        for name in sorted(exported(path), key=natural)
    ]
    return "".join(lines)


def main():
    stale = []
    for init in sorted(PACKAGE.glob("*/__init__.pyi")):
        wanted = stub(init.parent)
        if init.read_text() != wanted:
            stale.append(str(init.relative_to(PACKAGE.parent)))
            if "--check" not in sys.argv:
                init.write_text(wanted)
    if stale:
        print("not up to date:" if "--check" in sys.argv else "written:", *stale, sep="\n")
    return bool(stale and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
