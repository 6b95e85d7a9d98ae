"""No function of dlref returns memory that it has not written."""

import copy

import numpy as np
import pytest
from calls import arrays, calls, function, method_calls
from cases import SPECS, Problem, applicable, form_of, key_of, public_functions

from dlref.check._oracle.unwritten import NAN, ZERO, _glibc, poisoned

pytestmark = pytest.mark.skipif(_glibc() is None, reason="only glibc fills all new memory")
FUNCTIONS = dict(public_functions())
CALLS = calls() | method_calls()


def bits(result):
    """Return the bytes of all arrays of a result, of an object's too."""
    own = tuple(vars(result).values()) if hasattr(result, "__dict__") else result
    return [a.tobytes() for a in arrays(own)]


def in_memory_of(byte, f, arguments, options):
    given, kwargs = copy.deepcopy((arguments, options))  # some of it is written to, or drawn from
    with np.errstate(all="ignore"), poisoned((), byte):
        return bits(f(*given, **kwargs))


def same_in_any_memory(f, arguments, options):
    results = [in_memory_of(byte, f, arguments, options) for byte in (NAN, ZERO)]
    assert results[0] == results[1]


@pytest.mark.broad
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_a_function_writes_all_of_its_result(name, kind):
    for call in SPECS[key_of(name)].calls:
        problem = Problem(key_of(name), call, dtype=kind)
        arguments = problem.arguments(form_of(name))
        same_in_any_memory(FUNCTIONS[name], arguments, applicable(name, problem))


@pytest.mark.broad
@pytest.mark.parametrize("name", CALLS)
def test_models_optimizers_and_methods_write_all_of_their_result(name):
    same_in_any_memory(function(name), *CALLS[name])


def test_a_function_that_does_not_would_fail():
    with pytest.raises(AssertionError):
        same_in_any_memory(np.empty_like, (np.ones(9),), {})
