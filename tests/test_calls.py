"""What holds for the functions without a formula of their own: memory, dtypes, copies."""

import concurrent.futures
import copy
import inspect
import pickle
import threading
from operator import attrgetter

import numpy as np
import pytest
from calls import NO_ARRAYS, arrays, calls, function, mapped

import dlref
from dlref._records import CHAPTERS, UNKNOWN, spec_of

CALLS = calls()
#: Results that have no dtype of the input: integers, masks, figures about errors.
OF_THEIR_OWN = {
    "attention.block_mask",
    "attention.chunk_mask",
    "attention.document_mask",
    "attention.select_keys",
    "attention.tree_mask",
    "attention.causal_mask",
    "attention.padding_mask",
    "attention.window_mask",
    "check.numerical_jacobian",
    "check.ulp_error",
    "quantization.dequantize_blocks",
    "quantization.quantize_blocks",
    "interop.mask_convention",
    "transformer.beam_search",
    "transformer.encoder_decoder_generate",
    "training.gradient_descent",  # the record of the values
    "training.minibatch_descent",
    "transformer.generate",
}


def evaluate(name, args=None):
    given, options = CALLS[name]
    options = {key: copy.deepcopy(value) for key, value in options.items()}  # generators, too
    with np.errstate(all="raise", under="ignore"):
        return function(name)(*(given if args is None else args), **options)


def contents(value):
    """Return the arrays of a result, those of objects that are no tuples too."""
    if hasattr(value, "__dict__"):
        value = tuple(vars(value).values())
    return arrays(value)


def narrow(a):
    return a.astype(np.float32) if a.dtype == np.float64 else a


def test_every_function_has_a_call():
    names = {f"{c}.{n}" for c in dlref.__all__ for n in getattr(getattr(dlref, c), "__all__", ())}
    names |= {name for name in dlref.__all__ if inspect.isfunction(getattr(dlref, name))}
    functions = {name for name in names if _is_function(name) and not _has_samples(name)}
    assert functions == {*CALLS, *NO_ARRAYS}


def _has_samples(name):
    """Return whether a record says how it is called; tests/test_api.py says what has none."""
    record = spec_of(attrgetter(name)(dlref))[0]
    return bool(record.calls) or (record is UNKNOWN and name.partition(".")[0] in CHAPTERS)


def _is_function(name):
    return inspect.isfunction(attrgetter(name)(dlref))


#: Places of arrays, though other arguments of the same functions are trees.
TUPLES = [
    (name, position)
    for name, (given, _) in CALLS.items()
    for position, parameter in enumerate(inspect.signature(function(name)).parameters)
    if parameter in {"x", "dout", "memory"} and name.startswith(("neurons.", "transformer."))
    if position < len(given) and isinstance(given[position], np.ndarray)
]


def as_tuples(a):
    return tuple(map(as_tuples, a)) if isinstance(a, list) else a


@pytest.mark.parametrize(("name", "position"), TUPLES)
def test_tuples_of_numbers_are_arrays(name, position):
    given = list(CALLS[name][0])
    given[position] = as_tuples(given[position].tolist())
    assert isinstance(given[position], tuple)
    for got, want in zip(arrays(evaluate(name, given)), arrays(evaluate(name)), strict=True):
        np.testing.assert_array_equal(got, want)


def test_primals_and_tangents_may_be_tuples_of_numbers():
    params = (dlref.neurons.LinearParams(np.ones((3, 2))), dlref.neurons.LinearParams(np.eye(3)))
    x, v = (1.0, 2.0), (1.0, 0.0)
    got = dlref.neurons.mlp_jvp((x, params), (v, None))
    want = dlref.neurons.mlp_jvp((np.array(x), params), (np.array(v), None))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", CALLS)
class TestCall:
    def test_writes_to_no_input_and_shares_none(self, name):
        inputs = arrays(CALLS[name])
        before = [a.copy() for a in inputs]
        outputs = [a for a in contents(evaluate(name)) if a.size]
        for a, old in zip(inputs, before, strict=True):
            np.testing.assert_array_equal(a, old)
            assert not any(np.shares_memory(a, out) for out in outputs)
        for i, out in enumerate(outputs):
            assert not any(np.shares_memory(out, other) for other in outputs[:i])

    @pytest.mark.broad
    def test_takes_any_layout_and_read_only_memory(self, name):
        def spread(a):
            wide = np.repeat(a, 2, axis=-1)[..., ::2] if a.ndim else a.copy()
            wide.flags.writeable = False
            return wide

        got = contents(evaluate(name, mapped(spread, CALLS[name][0])))
        for g, want in zip(got, contents(evaluate(name)), strict=True):
            assert (g.dtype, g.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(g, want, rtol=1e-12, atol=1e-13)

    def test_returns_the_dtype_it_is_given(self, name):
        if name in OF_THEIR_OWN:
            pytest.skip("its result has a dtype of its own")
        args = mapped(narrow, CALLS[name][0])
        kinds = {a.dtype for a in arrays(args) if a.dtype.kind == "f"}
        for out in contents(evaluate(name, args)):
            assert out.dtype.kind in "iub" or not kinds or out.dtype == np.float32

    def test_result_is_copied_and_pickled(self, name):
        result = evaluate(name)
        for twin in (copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
            assert type(twin) is type(result)
            for a, b in zip(contents(twin), contents(result), strict=True):
                np.testing.assert_array_equal(a, b)
                assert a.dtype == b.dtype


def test_four_threads_make_all_calls_at_once():
    """In orders of their own. In Python without a GIL they run at once."""
    begin, found = threading.Barrier(4), [{} for _ in range(4)]

    def make(results, seed):
        begin.wait()
        for name in np.random.default_rng(seed).permutation(list(CALLS)):
            results[name] = contents(evaluate(name))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(make, results, k) for k, results in enumerate(found)]:
            future.result()
    for name in CALLS:
        want = contents(evaluate(name))
        for results in found:
            for got, array in zip(results[name], want, strict=True):
                np.testing.assert_array_equal(got, array)
