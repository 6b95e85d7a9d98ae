"""
Let the n-th of everything fail in turn: allocations, writes, threads, locks.

After each failure the state is usable: the next call gives the right numbers, and a file is the old
one or the new one, whole. Each harness runs in a process of its own.
"""

import os
import subprocess
import sys

import pytest

from dlref._core.jit import COMPILED

COMMON = """
import os, resource, signal, sys, tempfile
from pathlib import Path
import numpy as np
import dlref
from dlref import activations, attention, losses, transformer
from dlref._core import threads

config = transformer.LanguageModelConfig(17, 32, 2)
params = transformer.init_language_model(np.random.default_rng(0), config)
other = transformer.init_language_model(np.random.default_rng(1), config)

def same(a, b):
    leaves = lambda tree: [x for t in tree for x in (leaves(t) if isinstance(t, tuple) else [t])]
    pairs = list(zip(leaves(a), leaves(b), strict=True))
    return all(x is y is None or np.array_equal(x, y) for x, y in pairs)
"""

WRITES = (
    COMMON
    + """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit fails with EFBIG
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.npz"
    transformer.save_params(path, params, config)
    size = path.stat().st_size
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    limits = [*range(0, 2000, 100), *range(2000, size + 2000, size // 60)]
    failed = 0
    for limit in limits:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            transformer.save_params(path, other, config)
            written = other
        except OSError:
            failed += 1
            written = params
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        found, of = transformer.load_params(path)
        assert of == config and same(found, written), limit
        assert os.listdir(folder) == ["model.npz"], "a part of a file is left"
        transformer.save_params(path, params, config)
    assert 60 < failed < len(limits)
print("writes", failed)
"""
)

ALLOCATIONS = (
    COMMON
    + """
import _testcapi
rng = np.random.default_rng(2)
z, t = rng.normal(size=(3, 5)), np.array([0, 1, 4])
q = rng.normal(size=(2, 3, 4))
calls = {
    "softmax": lambda: activations.softmax(z),
    "cross_entropy_vjp": lambda: losses.cross_entropy_vjp(1.0, z, t),
    "attention": lambda: attention.scaled_dot_product_attention(q, q, q, is_causal=True),
    "model": lambda: transformer.language_model([1, 2, 3], params, config),
}
want = {name: call() for name, call in calls.items()}
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.npz"
    transformer.save_params(path, params, config)
    calls["load"] = lambda: transformer.load_params(path)[0]
    want["load"] = calls["load"]()
    failed = 0
    for name, call in calls.items():
        # all of the first, and then fewer and fewer: a model takes thousands
        for n in sorted({int(1.13**k) + k for k in range(60)}):
            got = error = None
            _testcapi.set_nomemory(n, n + 1)
            try:
                got = call()
            except MemoryError:
                error = True
            except BaseException as found:  # lost on its way, as Python's own modules do
                error = found
            finally:
                _testcapi.remove_mem_hooks()
            if error is None:
                assert same((got,), (want[name],)), (name, n)
            failed += error is not None
            assert same((call(),), (want[name],)), (name, n, "afterwards")
print("allocations", failed)
"""
)

MEMORY = (
    COMMON
    + """
# One thread: where two share what is left, a small allocation inside a product of NumPy's may be
# the one that fails, and NumPy 2.4 does not survive that (4 of 100 runs on a busy machine).
dlref.set_num_threads(1)
q = np.random.default_rng(2).normal(size=(4, 512, 64))
calls = [
    lambda: attention.scaled_dot_product_attention(q, q, q),
    lambda: attention.scaled_dot_product_attention_vjp(q, q, q, q)[1],
    lambda: attention.attention_weights(q, q),
]
failed = []
for call in calls:
    want = call()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    failed.append(0)
    for room in range(0, 40 * 2**20, 2**20):
        resource.setrlimit(resource.RLIMIT_AS, (used + room, hard))
        try:
            got = call()
        except MemoryError:
            failed[-1] += 1
            got = None
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        assert got is None or np.array_equal(got, want)
        assert np.array_equal(call(), want)
print("memory", *failed, sum(failed))
"""
)

THREADS = (
    COMMON
    + """
import _thread
threads.available = lambda: 8
z = np.random.default_rng(2).normal(size=(4000, 500))
dlref.set_num_threads(1)
want = activations.softmax(z)
start, failed = _thread.start_new_thread, 0
for error in (RuntimeError("no thread"), KeyboardInterrupt(), MemoryError()):
    for nth in range(10):
        dlref.set_num_threads(8)
        count = 0
        def counted(*arguments):
            global count
            count += 1
            if count == nth + 1:
                raise error
            return start(*arguments)
        _thread.start_new_thread = counted
        try:
            assert np.array_equal(activations.softmax(z), want)
        except (KeyboardInterrupt, MemoryError):
            failed += 1
        finally:
            _thread.start_new_thread = start
        assert np.array_equal(activations.softmax(z), want)
        assert threads._pool.started <= 7
print("threads", failed)
"""
)

LOCKS = (
    COMMON
    + """
threads.available = lambda: 8
z = np.random.default_rng(2).normal(size=(4000, 500))
dlref.set_num_threads(1)
want = activations.softmax(z)

class Lock:
    '''A lock whose n-th step, to take it or to give it back, is interrupted.'''

    def __init__(self, inner, nth):
        self.inner, self.left = inner, nth

    def step(self):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt

    def __enter__(self):
        self.step()  # before it is taken
        self.inner.acquire()

    def __exit__(self, *error):
        self.inner.release()
        self.step()  # after it is given back

own, failed = threads._lock, 0
for nth in range(1, 12):
    dlref.set_num_threads(8)
    threads._lock = Lock(own, nth)
    try:
        for _ in range(3):
            assert np.array_equal(activations.softmax(z), want)
            dlref.set_num_threads(7)
    except KeyboardInterrupt:
        failed += 1
    threads._lock = own
    assert np.array_equal(activations.softmax(z), want)
    assert own.acquire(blocking=False)
    own.release()
print("locks", failed)
"""
)

COMPILATION = """
import os, resource, signal
from pathlib import Path
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(os.environ["LIMIT"]),) * 2)
import numpy as np
from dlref import activations
z = np.array([[0.0, np.log(3.0)]])
assert abs(activations.softmax(z) - [[0.25, 0.75]]).max() < 1e-15
found = [f for f in Path(os.environ["NUMBA_CACHE_DIR"]).rglob("*") if f.is_file()]
print("files", sum(1 for f in found if f.stat().st_size))
"""


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return int(done.stdout.split()[-1])


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="limits of a process")


@on_linux
def test_every_write_of_a_saved_model():
    assert run(WRITES) > 60


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="CPython's hooks of memory")
@pytest.mark.skipif(
    not COMPILED, reason="NumPy's single numbers do not survive a failed allocation"
)
def test_allocations_of_python():
    pytest.importorskip("_testcapi", reason="CPython without its test modules")
    assert run(ALLOCATIONS) > 100


@on_linux
@pytest.mark.skipif(not COMPILED, reason="interpreted attention takes other memory")
def test_memory_of_arrays():
    # kernels are compiled in another thread, whose arena of 64 MB would serve the calls
    assert run(MEMORY, MALLOC_ARENA_MAX="1") > 0


@pytest.mark.skipif(not COMPILED, reason="interpreted kernels take one thread")
def test_every_start_of_a_thread():
    assert run(THREADS) > 10


@pytest.mark.skipif(not COMPILED, reason="interpreted kernels take one thread")
def test_every_step_of_the_lock():
    assert run(LOCKS) > 5


@on_linux
@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_writes_of_the_cache(tmp_path):
    """Limits that no file of the cache, the small ones, or all of them stay below."""
    found = [
        run(COMPILATION, LIMIT=str(limit), NUMBA_CACHE_DIR=str(tmp_path))
        for limit in (0, 2000, 2**30)
    ]
    assert found[0] <= found[1] < found[2]
