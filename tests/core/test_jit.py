"""Tests of imports, of the compiler's cache, and of doing without the compiler."""

import _thread
import gc
import importlib.util
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import pytest

import dlref
from dlref._core import jit
from dlref._core.jit import COMPILED, kernel

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
        assert run(code, cwd=ROOT) == f"{jit.numba is not None}\n"

    def test_costs_less_than_50_ms_of_cpu_over_numpy(self):
        code = """
import time, numpy
start = time.process_time()
import dlref
print(time.process_time() - start)
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
start = time.process_time()
norm_grad([3.0, 4.0])
print(time.process_time() - start)
"""
        first, *later = (float(run(code, cwd=copy, XDG_CACHE_HOME=str(tmp_path))) for _ in range(4))
        assert min(later) < 0.1 < first

    def test_an_edit_in_another_file_is_not_answered_by_stale_code(self, copy, tmp_path):
        (copy / "dlref" / "_constant.py").write_text(
            "from ._core.jit import kernel\n\n@kernel\ndef constant(out):\n    out[0] = 1.0\n"
        )
        (copy / "dlref" / "_user.py").write_text(
            "from ._constant import constant\nfrom ._core.jit import kernel\n\n"
            "@kernel\ndef use(out):\n    constant(out)\n"
        )
        code = "import numpy as np; from dlref._user import use; o = np.zeros(1); use(o); print(o)"
        assert run(code, cwd=copy, XDG_CACHE_HOME=str(tmp_path)) == "[1.]\n"
        edited = (copy / "dlref" / "_constant.py").read_text().replace("1.0", "2.0")
        (copy / "dlref" / "_constant.py").write_text(edited)
        assert run(code, cwd=copy, XDG_CACHE_HOME=str(tmp_path)) == "[2.]\n"

    def test_is_kept_where_numba_is_told_to(self, copy, tmp_path):
        run(CALL, cwd=copy, NUMBA_CACHE_DIR=str(tmp_path / "here"))
        assert list((tmp_path / "here" / "dlref").glob("*/*"))
        assert not list(copy.rglob("*.nb?"))

    def test_works_without_a_folder_that_can_be_written(self, copy, tmp_path):
        blocked = tmp_path / "home"
        blocked.write_text("")  # root may write anywhere: a file in the way stops it too
        assert run(CALL + "print(out)", cwd=copy, HOME=str(blocked)) == "[0.6 0.8]\n"

    def test_numba_is_not_configured_anew(self):
        """Another thread could see it, and keep its own functions among dlref's."""
        code = """
import types, numba
class Watched(types.ModuleType):
    def __setattr__(self, name, value):
        raise AssertionError(name)
numba.config.__class__ = Watched
"""
        run(code + CALL, cwd=ROOT)


KERNELS = """
from dlref._core.jit import kernel

@kernel
def double(x, out):
    for i in range(x.size):
        out[i] = x[i] + x[i]

@kernel
def square(x, out):
    for i in range(x.size):
        out[i] = x[i] * x[i]
"""


@compiled_only
class TestFilesOfKernels:
    """In one process: a kernel that is made once more knows of nothing but files."""

    @pytest.fixture
    def folder(self, monkeypatch, tmp_path):
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
        jit.cache_folder.cache_clear()
        yield jit.cache_folder()
        jit.cache_folder.cache_clear()

    @pytest.fixture
    def module(self, tmp_path):
        path = tmp_path / "some_kernels.py"
        path.write_text(KERNELS)
        spec = importlib.util.spec_from_file_location("some_kernels", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["some_kernels"] = module  # where code that is loaded looks for its globals
        spec.loader.exec_module(module)
        yield module
        del sys.modules["some_kernels"]

    def call(self, function, dtype=np.float64):
        """Call a kernel made anew; return whether its code was loaded."""
        anew, x = kernel(function.py_func), np.arange(4).astype(dtype)
        out = np.zeros_like(x)
        anew(x, out)
        np.testing.assert_array_equal(out, x + x if function.__name__ == "double" else x * x)
        return bool(anew.stats.cache_hits)

    def test_are_loaded(self, folder, module):
        dtypes = (np.float32, np.float64, np.int64)
        for loaded in (False, True):
            for dtype in dtypes:
                for function in (module.double, module.square):
                    assert self.call(function, dtype) == loaded
        assert len(list(folder.glob("[!.]*"))) == 6

    @pytest.mark.parametrize(
        "damage",
        [
            lambda path: path.write_bytes(b""),
            lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
            lambda path: path.write_bytes(b"nonsense" * 1000),
            lambda path: path.write_bytes(bytes(path.stat().st_size)),
            lambda path: path.unlink(),
            lambda path: shutil.rmtree(path.parent),
        ],
    )
    def test_that_are_damaged_are_replaced(self, folder, module, damage):
        self.call(module.double)
        [path] = folder.glob("[!.]*")
        damage(path)
        assert not self.call(module.double)
        assert self.call(module.double)

    def test_whose_content_fits_but_cannot_be_used(self, folder, module, monkeypatch):
        monkeypatch.setattr(jit, "read", lambda *_: b"no pickle")
        assert not self.call(module.double)
        monkeypatch.setattr(jit, "read", lambda *_: pickle.dumps((1, 2, 3)))
        assert not self.call(module.double)

    def test_in_a_folder_that_became_a_file(self, folder, module):
        self.call(module.double)
        shutil.rmtree(folder)
        folder.write_text("")
        assert not self.call(module.double)

    def test_of_another_signature_are_not_used(self, folder, module):
        """As numba's index may say after a race: wrong values, if the sizes are the same."""
        self.call(module.double, np.float64)
        [first] = folder.glob("[!.]*")
        self.call(module.double, np.int64)
        [second] = set(folder.glob("[!.]*")) - {first}
        shutil.copy(first, second)
        assert not self.call(module.double, np.int64)

    def test_of_a_file_that_was_edited_are_not_used(self, folder, module):
        self.call(module.double)
        jit._hash_of_file.cache_clear()
        path = Path(module.__file__)
        path.write_text(path.read_text() + "# edited")
        assert not self.call(module.double)

    def test_kernels_without_a_file_have_none(self, folder):
        names = {"kernel": kernel}
        exec(KERNELS, names)
        assert not self.call(names["double"])
        assert not list(folder.glob("[!.]*"))

    def test_with_addresses_of_this_process_are_not_written(self, folder, module, monkeypatch):
        library = jit.numba.core.codegen.CodeLibrary
        monkeypatch.setattr(library, "has_dynamic_globals", True)
        assert not self.call(module.double)
        assert not list(folder.glob("[!.]*"))


@compiled_only
def test_processes_that_start_together(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        KERNELS
        + """
import pathlib, sys, time
import numpy as np
x, out = np.arange(5).astype(sys.argv[1]), np.zeros(5, sys.argv[1])
pathlib.Path(sys.argv[1]).touch()
while len(list(pathlib.Path().glob("*"))) < 3:
    time.sleep(0.001)
for function in (double, square):
    function(x, out)
print(out.tolist() == [0, 1, 4, 9, 16], sum(f.stats.cache_hits.total() for f in (double, square)))
"""
    )
    together, cache = tmp_path / "together", tmp_path / "cache"
    together.mkdir()
    env = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    commands = [[sys.executable, program, dtype] for dtype in ("float32", "float64", "int64")]
    options = {"env": env, "cwd": together, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **options) for command in commands]
    assert {p.communicate(timeout=120)[0] for p in processes} == {"True 0\n"}
    last = subprocess.run(commands[-1], **options, timeout=60, check=True)
    assert last.stdout == "True 2\n"


@compiled_only
class TestTarget:
    CODE = """
from dlref._core.jit import cache_folder
from dlref._math.gemm_tiles import WIDTH_BYTES
print(cache_folder().name, WIDTH_BYTES)
"""

    def test_has_a_folder_of_its_own_and_the_width_of_its_vectors(self, tmp_path):
        """One home, unlike machines; or one machine, for which numba compiles as for others."""
        found = [
            run(self.CODE, cwd=ROOT, NUMBA_CACHE_DIR=str(tmp_path), **environment).split()
            for environment in (
                {"NUMBA_CPU_NAME": "generic"},
                {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "+avx512f"},
                {"NUMBA_CPU_NAME": "generic", "NUMBA_BOUNDSCHECK": "1"},
            )
        ]
        names, widths = zip(*found, strict=True)
        assert len(set(names)) == len(names)
        assert widths == ("64", "128", "64")

    def test_features_that_are_hidden_change_the_folder(self, monkeypatch, tmp_path):
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
        names = set()
        for features in ("+avx2,+avx512f", "+avx2,-avx512f"):
            monkeypatch.setattr(jit, "_target", lambda found=features: ("linux", "x", found))
            jit.cache_folder.cache_clear()
            names.add(jit.cache_folder().name)
            assert jit.target_has("avx512f") == ("+avx512f" in features)
        jit.cache_folder.cache_clear()
        assert len(names) == 2


@compiled_only
class TestMemory:
    def test_no_kernel_counts_the_users_of_a_row(self):
        def copy(x, out):
            for r in range(len(x)):
                row, to = x[r], out[r]
                for j in range(len(to)):
                    to[j] = row[j]

        compiled = jit.numba.njit(**jit.OPTIONS)(copy)
        compiled(np.ones((2, 3)), np.ones((2, 3)))
        [code] = compiled.inspect_llvm().values()
        assert "NRT_" not in code

    def test_a_kernel_that_allocates_is_refused(self):
        with pytest.raises(Exception, match="NRT required"):
            kernel(lambda n: np.empty(n).size)(3)


def seen_by_compilations(monkeypatch, look, delay=0.0):
    """Return a list that gets the result of `look` whenever a kernel is compiled or loaded."""
    seen = []
    load = jit._Cache.load_overload

    def noted(self, *arguments):
        seen.append(look())
        time.sleep(delay)
        return load(self, *arguments)

    monkeypatch.setattr(jit._Cache, "load_overload", noted)
    return seen


@compiled_only
class TestCompilations:
    @pytest.fixture
    def thresholds(self, monkeypatch):
        """Return the thresholds of the garbage collector while a kernel is compiled."""
        usual = gc.get_threshold()
        yield seen_by_compilations(monkeypatch, gc.get_threshold)
        gc.set_threshold(*usual)

    @pytest.mark.parametrize(
        ("usual", "meanwhile"),
        [(700, jit.OBJECTS), (0, 0), (2 * jit.OBJECTS, 2 * jit.OBJECTS)],
    )
    def test_garbage_is_looked_for_seldom(self, thresholds, usual, meanwhile):
        gc.set_threshold(usual, 9, 8)
        before = gc.get_threshold()
        assert kernel(lambda a: a[0] + 1.0)(np.ones(1)) == 2
        assert [first for first, *_ in thresholds] == [meanwhile]
        assert gc.get_threshold() == before

    def test_garbage_is_looked_for_as_usual_after_an_error(self, thresholds):
        before = gc.get_threshold()
        with pytest.raises(jit.numba.TypingError):
            kernel(lambda a: a[0] + 1.0)("text")
        assert len(thresholds) == 1
        assert gc.get_threshold() == before

    def test_what_kernels_call_has_no_way_in_from_python(self):
        doubled = jit.inline_fma(lambda x: 2.0 * x)
        assert kernel(lambda a: doubled(a[0]))(np.ones(1)) == 2
        assert not doubled.signatures
        assert doubled(3.0) == 6
        assert len(doubled.signatures) == 1
        assert kernel(lambda a: doubled(a[0]) + 1.0)(np.ones(1)) == 3


class TestWithoutNumba:
    CODE = """
import sys
if {hide}:
    sys.modules["numba"] = None  # import numba: ImportError
import numpy as np
from dlref._core.jit import COMPILED
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


@pytest.mark.skipif(os.name != "posix", reason="a terminal of POSIX")
@pytest.mark.parametrize(
    ("settings", "lines"), [({}, 1), ({"DLREF_QUIET": "1"}, 0)], ids=["spoken", "quiet"]
)
@compiled_only
def test_a_first_compilation_is_announced_once_on_a_terminal(tmp_path, settings, lines):
    ours, theirs = os.openpty()
    code = "from dlref.activations import relu, silu; relu([1.0]); silu([1.0])"
    env = {k: v for k, v in os.environ.items() if k != "DLREF_QUIET"}
    env |= {"NUMBA_CACHE_DIR": str(tmp_path), **settings}
    options = []
    for _ in range(2):  # the second time nothing is left to be compiled
        subprocess.run([sys.executable, "-c", code], env=env, stderr=theirs, check=True)
        os.write(theirs, b"end\n")
        said = b""
        while b"end" not in said:  # a terminal hands over what it has, not all that is written
            said += os.read(ours, 10_000)
        options.append(said.decode().splitlines())
    os.close(ours)
    os.close(theirs)
    assert [len(t) for t in options] == [lines + 1, 1]
    assert not lines or (
        "compile for this processor" in options[0][0] and str(tmp_path) in options[0][0]
    )


def test_nothing_is_announced_to_a_file(monkeypatch, capsys):
    jit.announce.__wrapped__()
    monkeypatch.setattr(sys, "stderr", None)
    jit.announce.__wrapped__()
    assert capsys.readouterr().err == ""


def test_the_announcement_says_where_code_is_kept(monkeypatch, capsys):
    monkeypatch.delenv("DLREF_QUIET", raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for folder, words in (("/there", "; kept in /there\n"), (None, "this processor\n")):
        monkeypatch.setattr(jit, "cache_folder", lambda folder=folder: folder)
        jit.announce.__wrapped__()
        assert capsys.readouterr().err.endswith(words)


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_a_cache_that_fails_is_said_and_costs_a_compilation(monkeypatch):
    """As if another version of numba had changed its private interface."""

    def fail(*_):
        raise AttributeError

    monkeypatch.setattr(jit._Cache, "_name", fail)

    @jit.kernel
    def double(x):
        for i in range(x.size):
            x[i] *= 2.0

    x = np.ones(2)
    with pytest.warns(RuntimeWarning, match="cache of compiled code failed: AttributeError"):
        double(x)
    assert x.tolist() == [2.0, 2.0]


#: What another version of numba might lack: all that dlref uses of its private interface.
PRIVATE = [
    "numba.core.caching.FunctionCache",
    "numba.core.serialize.dumps",
    "numba.core.compiler_lock.global_compiler_lock",
    "numba.core.compiler.CompileResult._rebuild",
    "numba.core.registry.cpu_target",
]


@compiled_only
@pytest.mark.parametrize("name", [*PRIVATE, "an option"])
def test_another_numba_compiles_without_a_cache_and_with_a_warning(name, tmp_path):
    code = f"""
import warnings
import numpy as np
import numba

name = {name!r}
if name == "an option":
    njit = numba.njit
    def only_public(*function, **options):
        if "_nrt" in options:
            raise KeyError("Unrecognized options: '_nrt'")
        return njit(*function, **options)
    numba.njit = only_public
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    if name != "an option":
        holder, _, attribute = name.rpartition(".")
        holder = eval(holder)
        hidden = getattr(holder, attribute)
        delattr(holder, attribute)
    import dlref._core.jit
    if name != "an option":
        setattr(holder, attribute, hidden)  # numba itself needs it
    from dlref.activations import softmax
    print(softmax(np.log([1.0, 1.0, 2.0])))
    assert not dlref._core.jit.target_has("avx512f")  # of an unknown processor
print([str(w.message) for w in caught if "does not know numba" in str(w.message)])
"""
    out = run(code, cwd=ROOT, NUMBA_CACHE_DIR=str(tmp_path))
    values, warnings = out.split("\n", 1)
    assert values == "[0.25 0.25 0.5 ]"
    assert "every process will compile anew" in warnings
    assert not [*tmp_path.rglob("dlref/*/*")]


@compiled_only
def test_a_late_switch_to_the_interpreter(tmp_path):
    code = """
import numba, numpy as np
from dlref.activations import softmax
numba.config.DISABLE_JIT = True
from dlref.normalization import layer_norm
print(softmax(np.zeros(2)), layer_norm(np.array([1.0, 3.0]), eps=0.0))
"""
    assert run(code, cwd=ROOT, NUMBA_CACHE_DIR=str(tmp_path)) == "[0.5 0.5] [-1.  1.]\n"


@compiled_only
@pytest.mark.parametrize(
    "before",
    [
        "import threading; threading.stack_size(65536)",
        "import _thread; _thread.start_new_thread = lambda *_: 0",  # as gevent replaces it
    ],
)
def test_a_first_call_where_threads_are_changed(before, tmp_path):
    code = f"import dlref, numpy as np\nfrom dlref.activations import softmax\n{before}\n"
    code += "print(softmax(np.zeros(2)))"
    assert run(code, cwd=ROOT, NUMBA_CACHE_DIR=str(tmp_path)) == "[0.5 0.5]\n"


@compiled_only
class TestCompilationAndSignals:
    """Handlers of signals run in the main thread only, so another one compiles."""

    @pytest.fixture
    def places(self, monkeypatch):
        """Return the threads that compile a kernel; each takes half a second longer."""
        return seen_by_compilations(monkeypatch, threading.get_ident, delay=0.5)

    @staticmethod
    def fresh():
        return kernel(lambda a: a[0] + 1.0)

    def test_another_thread_compiles(self, places):
        assert self.fresh()(np.ones(1)) == 2
        assert len(places) == 1
        assert places[0] != threading.get_ident()

    def test_a_thread_that_is_not_the_main_one_compiles_itself(self, places):
        function, found = self.fresh(), []
        thread = threading.Thread(target=lambda: found.append(function(np.ones(1))))
        thread.start()
        thread.join()
        assert (found, places) == ([2], [thread.ident])

    def test_one_that_compiles_already_compiles_all(self, places):
        with jit.COMPILING:
            assert self.fresh()(np.ones(1)) == 2
        assert places == [threading.get_ident()]

    def test_the_main_thread_compiles_where_there_is_no_other(self, places, monkeypatch):
        def refuse(*_):
            raise RuntimeError

        monkeypatch.setattr(jit, "_start_new_thread", refuse)
        assert self.fresh()(np.ones(1)) == 2
        assert places == [threading.get_ident()]

    def test_errors_arrive(self):
        with pytest.raises(jit.numba.TypingError):
            self.fresh()("text")

    def test_results_and_errors_are_answered(self):
        done, calls, answers = SimpleQueue(), [(0,), (2,)], []
        jit._answer(lambda a: 1 / a, calls, answers, done)
        jit._answer(lambda a: 1 / a, calls, answers, done)
        assert (calls, answers[0], done.qsize()) == ([], (0.5, None), 2)
        assert isinstance(answers[1][1], ZeroDivisionError)

    def test_the_thread_that_compiles_holds_no_array(self, monkeypatch):
        """It may end later than the caller, on a processor that has other work."""
        let_end, ended = threading.Event(), threading.Event()

        def start(function, arguments):
            def run_and_wait():
                function(*arguments)
                let_end.wait(20)
                ended.set()

            return _thread.start_new_thread(run_and_wait, ())

        monkeypatch.setattr(jit, "_start_new_thread", start)
        argument = np.ones(1)
        held = weakref.ref(argument)
        assert self.fresh()(argument) == 2
        del argument
        assert held() is None
        let_end.set()
        assert ended.wait(20)

    @pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer on this platform")
    def test_a_handler_that_raises_does_not_end_a_compilation(self, places):
        def handle(*_):
            raise TimeoutError

        function = self.fresh()
        before = signal.signal(signal.SIGALRM, handle)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(TimeoutError):
                function(np.ones(1))
        finally:
            signal.signal(signal.SIGALRM, before)
        assert jit.COMPILING._lock.acquire(blocking=False) is False  # the other one goes on
        assert function(np.ones(1)) == 2
        assert len(places) == 1  # the second call waited for the first one's code

    @pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer on this platform")
    def test_a_handler_may_call_what_is_being_compiled(self, places):
        function, found = self.fresh(), []
        before = signal.signal(signal.SIGALRM, lambda *_: found.append(function(np.ones(1))))
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            assert function(np.full(1, 2.0)) == 3
        finally:
            signal.signal(signal.SIGALRM, before)
        assert found == [2]

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
    def test_a_fork_waits_for_a_compilation(self, places):
        function = self.fresh()
        thread = threading.Thread(target=function, args=(np.ones(1),))
        thread.start()
        while not places:
            time.sleep(0.01)
        child = os.fork()
        if child == 0:  # pragma: no cover  # the child reports nothing
            signal.alarm(20)
            os._exit(int(self.fresh()(np.ones(1, np.float32)) != 2))
        assert os.waitpid(child, 0)[1] == 0
        thread.join()
