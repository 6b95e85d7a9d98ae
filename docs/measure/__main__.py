"""
Run a script of this folder: ``tox run -e measure -- NAME [OPTIONS]``; without a name, list them.

They measure what the pages quote, and write it to docs/results.
"""

import ast
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main():
    scripts = {path.stem: path for path in sorted(HERE.glob("*.py")) if path.stem != "__main__"}
    if len(sys.argv) > 1 and sys.argv[1] in scripts:
        path = scripts[sys.argv[1]]
        sys.argv = [str(path), *sys.argv[2:]]
        runpy.run_path(str(path), run_name="__main__")
        return
    for name, path in scripts.items():
        first = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).splitlines()[0]
        print(f"{name:20} {first}")
    sys.exit(f"There is no script {sys.argv[1]!r}." if len(sys.argv) > 1 else 0)


if __name__ == "__main__":
    main()
