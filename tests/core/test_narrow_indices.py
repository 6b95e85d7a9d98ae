"""
The indices of a 32-bit platform (WebAssembly) on this one.

There NumPy's default integers are int32, so that an index that is computed in them overflows beyond
2**31, or raises an OverflowError where a constant does not fit. Every call of the records is
evaluated twice, interpreted: with the integers of this platform, and with int32 in their place.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dlref

TESTS = Path(__file__).parents[1]

PROGRAM = """
import sys
import numpy as np
sys.path.insert(0, {tests!r})
from cases import Problem, applicable, form_of, key_of, leaves, public_functions, SPECS

MAKERS = ["arange", "array", "asarray", "full", "cumsum", "argsort", "flatnonzero", "indices"]
WIDE = {{name: getattr(np, name) for name in (*MAKERS, "intp", "int_")}}

def in_32_bits(f):
    def made(*args, **options):
        result = f(*args, **options)
        told = options.get("dtype") is not None
        given = any(getattr(a, "dtype", None) == np.int64 for a in args)
        if told or given or getattr(result, "dtype", None) != np.int64:
            return result
        if result.size and abs(result).max() >= 2**31:
            raise OverflowError("an index beyond 2**31")
        return result.astype(np.int32)
    return made

def platform(narrow):
    for name, f in WIDE.items():
        if narrow:
            f = np.int32 if isinstance(f, type) else in_32_bits(f)
        setattr(np, name, f)

count = 0
for name, function in public_functions():
    for call in SPECS[key_of(name)].calls:
        problem = Problem(key_of(name), call)
        arguments, options = problem.arguments(form_of(name)), applicable(name, problem)
        results = []
        for narrow in (False, True):
            platform(narrow)
            try:
                results.append(function(*arguments, **options))
            except Exception as error:
                results.append(error)
            finally:
                platform(False)
        count += 1
        try:
            pairs = zip(leaves(results[0]), leaves(results[1]), strict=True)
            same = all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)
        except Exception:
            same = False
        if not same:
            print(name, call, repr(results[1])[:200])
print("calls", count)
"""


def run(code):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    return done.stdout.splitlines()


def test_every_call_is_the_same_with_indices_of_32_bits():
    *different, last = run(PROGRAM.format(tests=str(TESTS)))
    assert different == []
    assert int(last.split()[1]) > 500


def test_imports_load_no_part_of_scipy():
    code = """
import sys
import dlref
for chapter in dlref.__all__:
    module = getattr(dlref, chapter)
    for name in getattr(module, "__all__", ()):
        getattr(module, name)
print(*sorted(m for m in ("scipy.special", "scipy.optimize", "scipy.linalg") if m in sys.modules))
"""
    assert run(code) == [""]  # numba looks whether SciPy is there, and loads none of its parts


@pytest.mark.parametrize("window", [None, (None, 0), (2**40, 2**40), (3, None)])
def test_a_window_without_bound_and_the_largest_offset_fit(window):
    q = dlref.positions.sinusoidal(3, 4)[None]
    far = dlref._core.arguments.MAX_OFFSET
    whole = dlref.attention.scaled_dot_product_attention(q, q, q, window=window, q_offset=far)
    assert whole.shape == q.shape
    assert 2 * far + 2**30 - 1 <= 2**31 - 1
