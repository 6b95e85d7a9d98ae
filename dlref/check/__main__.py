"""
Check a kernel: ``python -m dlref.check module:function dlref.chapter.function``.

The module is imported from the current folder or the installed packages. The status is 0 if every
case is right, 1 if one is not, and 2 if an argument is wrong or a file cannot be written.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .._core.arguments import printable
from . import check_all


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m dlref.check", description="Check a kernel.")
    parser.add_argument("candidate", help="module:function, or - to check derivatives alone")
    parser.add_argument("op", help="a function of dlref, as dlref.activations.softmax")
    parser.add_argument("--vjp", help='its backward pass, module:function or "autograd"')
    parser.add_argument("--jvp", help="its forward mode, module:function")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--framework", choices=("numpy", "torch", "jax"))
    parser.add_argument("--accum-dtype", default="float32")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--layout", help="order of the axes, as BTHE")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--json", help="where to write the numbers")
    parser.add_argument("--html", help="where to write a page")
    return parser


def _imported(name: str) -> Any:
    """Return the function that ``module:function`` names; dots alone name one, too."""
    module, _, path = name.partition(":")
    if not path:
        module, _, path = name.rpartition(".")
    try:
        value: Any = importlib.import_module(module)
    except ImportError:
        raise
    except (Exception, SystemExit) as error:  # whatever its lines do
        msg = f"The module {module} raises {type(error).__name__} when it is imported: {error}"
        raise ImportError(msg) from error
    for part in path.split("."):
        value = getattr(value, part)
    return value


def _report(candidate: Any, op: Any, **options: Any) -> Any:
    """Run the check; a kernel that ends the process has not passed it."""
    try:
        return check_all(candidate, op, **options)
    except SystemExit as error:
        sys.stderr.write(f"The kernel ends the process: SystemExit({error.code!r})\n")
        sys.exit(1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the check that a command line describes, and return its exit status."""
    parser = _parser()
    options = vars(parser.parse_args(arguments))
    sys.path.insert(0, str(Path.cwd()))
    paths = options.pop("json"), options.pop("html")
    try:
        for name in ("candidate", "op", "vjp", "jvp"):
            if options[name] not in (None, "-", "autograd"):
                options[name] = _imported(options[name])
        candidate = None if options["candidate"] == "-" else options.pop("candidate")
        options.pop("candidate", None)
        report = _report(candidate, options.pop("op"), **options)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        parser.error(printable(str(error)))
    finally:
        sys.path.remove(str(Path.cwd()))
    sys.stdout.write(f"{report}\n")
    try:
        for path, write in zip(paths, (report.to_json, report.to_html), strict=True):
            if path:
                write(path)
    except OSError as error:
        parser.error(str(error))
    return 0 if report else 1


if __name__ == "__main__":
    sys.exit(main())
