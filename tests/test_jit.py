"""Tests of imports, of the compiler's cache, and of doing without the compiler."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dlref
from dlref import _jit
from dlref._jit import COMPILED, cache_folder

ROOT = Path(dlref.__file__).parents[1]
compiled_only = pytest.mark.skipif(not COMPILED, reason="kernels are interpreted here")

#: A kernel of one file that inlines a constant function of another.
CALL = "from dlref.calculus import norm_grad; out = norm_grad([3.0, 4.0]); "


def run(code, *, cwd, **environment):
    """Run code in a fresh process, with the package of the folder `cwd`."""
    env = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        # no .pyc files: Python itself overlooks an edit of the same length in the same second
        env={**env, "PYTHONPATH": str(cwd), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def copy(tmp_path):
    """Give a copy of the package that may be edited."""
    shutil.copytree(
        ROOT / "dlref", tmp_path / "src" / "dlref", ignore=shutil.ignore_patterns("__pycache__")
    )
    return tmp_path / "src"


class TestImport:
    def test_loads_neither_numba_nor_scipy(self, tmp_path):
        code = "import sys, dlref; print({'numba', 'scipy', 'numpy'} & set(sys.modules))"
        assert run(code, cwd=ROOT) in ("set()\n", "{'numpy'}\n")

    def test_numba_is_loaded_with_the_first_function_that_needs_it(self):
        code = """
import sys
from dlref.calculus import chain_rule
chain_rule([[2.0]], [[3.0]])
assert "numba" not in sys.modules
from dlref.calculus import norm_grad
print("numba" in sys.modules)
"""
        assert run(code, cwd=ROOT) == f"{_jit.numba is not None}\n"

    def test_costs_less_than_50_ms_over_numpy(self):
        code = """
import time, numpy
start = time.perf_counter()
import dlref
print(time.perf_counter() - start)
"""
        assert min(float(run(code, cwd=ROOT)) for _ in range(3)) < 0.05

    def test_unknown_names_are_attribute_errors(self):
        with pytest.raises(AttributeError):
            dlref.no_such_chapter  # noqa: B018


@compiled_only
class TestCache:
    def test_second_process_calls_a_compiled_function_within_100_ms(self, copy, tmp_path):
        code = """
import time
from dlref.calculus import norm_grad
start = time.perf_counter()
norm_grad([3.0, 4.0])
print(time.perf_counter() - start)
"""
        first, *later = (float(run(code, cwd=copy, XDG_CACHE_HOME=str(tmp_path))) for _ in range(4))
        assert min(later) < 0.1 < first

    def test_an_edit_in_another_file_is_not_answered_by_stale_code(self, copy, tmp_path):
        (copy / "dlref" / "_constant.py").write_text(
            "from ._jit import kernel\n\n@kernel\ndef constant(out):\n    out[0] = 1.0\n"
        )
        (copy / "dlref" / "_user.py").write_text(
            "from ._constant import constant\nfrom ._jit import kernel\n\n"
            "@kernel\ndef use(out):\n    constant(out)\n"
        )
        code = "import numpy as np; from dlref._user import use; o = np.zeros(1); use(o); print(o)"
        assert run(code, cwd=copy, XDG_CACHE_HOME=str(tmp_path)) == "[1.]\n"
        edited = (copy / "dlref" / "_constant.py").read_text().replace("1.0", "2.0")
        (copy / "dlref" / "_constant.py").write_text(edited)
        assert run(code, cwd=copy, XDG_CACHE_HOME=str(tmp_path)) == "[2.]\n"

    def test_is_kept_where_numba_is_told_to(self, copy, tmp_path):
        run(CALL, cwd=copy, NUMBA_CACHE_DIR=str(tmp_path / "here"))
        assert list((tmp_path / "here").rglob("*.nbi"))
        assert not list(copy.rglob("*.nbi"))

    @pytest.mark.parametrize("home", ["a file, not a folder", "missing"])
    def test_works_without_a_folder_that_can_be_written(self, copy, tmp_path, home):
        blocked = tmp_path / "home"
        blocked.write_text("")  # root may write anywhere: a file in the way stops it too
        cache = {"XDG_CACHE_HOME": str(blocked)} if home == "missing" else {}
        out = run(CALL + "print(out)", cwd=copy, HOME=str(blocked), **cache)
        assert out == "[0.6 0.8]\n"
        assert not list(tmp_path.rglob("*.nbi"))

    def test_other_peoples_numba_functions_keep_their_own_cache(self):
        code = """
import numba
before = numba.config.CACHE_DIR
import dlref.calculus
dlref.calculus.norm_grad
assert numba.config.CACHE_DIR == before
"""
        run(code, cwd=ROOT)


class TestCacheFolder:
    def test_is_named_after_version_and_sources(self):
        assert re.fullmatch(rf"{re.escape(dlref.__version__)}-[0-9a-f]{{16}}", cache_folder().name)

    @pytest.mark.parametrize(
        ("platform", "environment", "folder"),
        [
            ("linux", {"XDG_CACHE_HOME": "/x"}, "/x"),
            ("linux", {}, "/home/me/.cache"),
            ("darwin", {}, "/home/me/Library/Caches"),
            ("win32", {"LOCALAPPDATA": "/local"}, "/local"),
            ("win32", {}, "/home/me/AppData/Local"),
            ("linux", {"NUMBA_CACHE_DIR": "/n", "XDG_CACHE_HOME": "/x"}, "/n"),
        ],
    )
    def test_is_where_the_platform_keeps_caches(self, monkeypatch, platform, environment, folder):
        for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "platform", platform)
        monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
        assert _jit._user_cache() == Path(folder)

    def test_is_none_where_nothing_can_be_written(self, monkeypatch, tmp_path):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
        assert cache_folder() is None


class TestWithoutNumba:
    CODE = """
import sys
if {hide}:
    sys.modules["numba"] = None  # import numba: ImportError
import numpy as np
from dlref._jit import COMPILED
from dlref.calculus import max_grad, norm_grad, prod_grad
x = np.random.default_rng(0).normal(size=50)
print(COMPILED, *(f(x).tobytes().hex() for f in (max_grad, prod_grad)), norm_grad(x).tolist())
"""

    def test_gives_the_same_results(self):
        compiled, *bits, norm = run(self.CODE.format(hide=False), cwd=ROOT).split(maxsplit=3)
        without, *same, other = run(self.CODE.format(hide=True), cwd=ROOT).split(maxsplit=3)
        assert (compiled, without) == (str(COMPILED), "False")
        assert bits == same
        np.testing.assert_allclose(json.loads(norm), json.loads(other), rtol=1e-14)

    def test_warns_no_more_than_compiled_code(self):
        code = """
import sys, warnings
sys.modules["numba"] = None
warnings.simplefilter("error")
from dlref.calculus import norm_grad
print(norm_grad([float("inf"), 1.0]))
"""
        assert run(code, cwd=ROOT) == "[nan  0.]\n"


def test_what_is_no_kernel_has_nothing_to_exchange():
    assert _jit.exchanged(len, {abs: len}, "other") is len
    assert _jit.exchanged(abs, {abs: len}, "other") is len
