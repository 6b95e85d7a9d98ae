"""Kernels that leave memory unwritten fail, though it held the right result of an earlier call."""

import ctypes
import gc
import importlib.util
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import peers
import pytest

from dlref import activations as act
from dlref import attention as att
from dlref import check, neurons, positions
from dlref.check._oracle import unwritten

R = np.random.default_rng(5)
X, U = R.normal(size=(2, 6, 9)).astype(np.float32)
W, B = R.normal(size=(4, 9)).astype(np.float32), np.zeros(4, np.float32)
LONG = R.normal(size=(70, 50)).astype(np.float32)
QKV = R.normal(size=(3, 1, 2, 5, 4)).astype(np.float32)
TIMES = 20


def without(*where):
    """Return how to copy an array to new memory, but for some elements."""

    def partly(library, array):
        kept = np.ones(tuple(array.shape), bool)
        kept[where] = False
        mask = kept if library is np else library.from_numpy(kept)
        out = library.empty(array.shape, dtype=array.dtype)
        out[mask] = array[mask]
        return out

    return partly


def with_gaps(library, array):
    """Return a part of wider memory, without its last column."""
    out = library.empty((*array.shape[:-1], array.shape[-1] + 3), dtype=array.dtype)
    out = out[..., : array.shape[-1]]
    out[..., :-1] = array[..., :-1]
    return out


def of_output(number, spoil):
    """Return how to spoil one output of several."""

    def partly(library, outputs):
        return tuple(spoil(library, a) if i == number else a for i, a in enumerate(outputs))

    return partly


def relu(library):
    return lambda x: np.maximum(x, 0) if library is np else library.relu(x)


def affine_vjp(library):
    return lambda dout, x, w, b: (dout @ w, dout.T @ x, dout.sum(0))


def tanh_vjp(library):
    return lambda dout, x: dout * (1 - library.tanh(x) ** 2)


def attention_with_lse(library):
    def attention(q, k, v, return_lse=True):
        exp = library.exp(library.einsum("...te,...se->...ts", q, k) / 2)
        total = exp.sum(-1)
        return (exp / total[..., None]) @ v, library.log(total)

    return attention


def in_library(f):
    """Return a function of dlref that returns arrays of the library."""

    def of(library):
        def called(*given, **options):
            out = f(*map(np.asarray, given), **options)
            return out if library is np else library.from_numpy(out)

        return called

    return of


def causal(library):
    return lambda T, S: library.ones((T, S), dtype=bool if library is np else library.bool).tril()


#: A right kernel, how its result is spoiled, the check, the function of dlref, and the arguments.
KERNELS = {
    "a row": (relu, without(0), "forward", act.relu, (X,), {}),
    "the tail": (relu, without(slice(4, None)), "forward", act.relu, (X,), {}),
    "one element": (relu, without(2, 3), "forward", act.relu, (X,), {}),
    "one of many": (relu, without(69, 49), "forward", act.relu, (LONG,), {}),
    "gaps": (relu, with_gaps, "forward", act.relu, (X,), {}),
    "float16": (relu, without(0), "forward", act.relu, (X.astype(np.float16),), {}),
    "float64": (relu, without(1), "forward", act.relu, (LONG.astype(float),), {}),
    "the second output": (
        attention_with_lse,
        of_output(1, without(0, 1)),
        "forward",
        att.scaled_dot_product_attention,
        QKV,
        {"return_lse": True},
    ),
    "integers": (
        in_library(positions.t5_relative_position_bucket),
        without(slice(3, 9)),
        "forward",
        positions.t5_relative_position_bucket,
        (np.arange(-40, 41).reshape(9, 9),),
        {},
    ),
    "booleans": (in_library(att.causal_mask), without(0), "forward", att.causal_mask, (5, 7), {}),
    "where NaN is right": (
        relu,
        without(2, 3),
        "forward",
        act.relu,
        (np.where(np.arange(54).reshape(6, 9) == 21, np.nan, X),),
        {},
    ),
    "a gradient": (tanh_vjp, without(0), "vjp", act.tanh, (U, X), {}),
    "one of three gradients": (
        affine_vjp,
        of_output(2, without(3)),
        "vjp",
        neurons.linear,
        (U[:, :4], X, W, B),
        {},
    ),
}
LIBRARIES = ("numpy", "torch")


def library_of(framework):
    return np if framework == "numpy" else peers.torch


def judged(candidate, form, op, given, options, framework):
    f = {"forward": check.check_forward, "vjp": check.check_vjp}[form]
    return f(candidate, op, *given, framework=framework, **options)


@pytest.mark.parametrize("framework", LIBRARIES)
@pytest.mark.parametrize("name", KERNELS)
def test_memory_that_is_not_written_holds_no_earlier_result(name, framework):
    library = library_of(framework)
    kernel, spoil, *call = KERNELS[name]
    right = kernel(library)
    assert judged(right, *call, framework)
    for _ in range(TIMES):
        verdict = judged(lambda *a, **o: spoil(library, right(*a, **o)), *call, framework)
        assert not verdict
        assert verdict.cause.startswith("not written (")


@pytest.mark.parametrize("name", ["one element", "where NaN is right", "one of three gradients"])
def test_without_glibc_blocks_that_were_freed_are_filled(name, monkeypatch):
    monkeypatch.setattr(unwritten, "_glibc", lambda: None)
    test_memory_that_is_not_written_holds_no_earlier_result(name, "numpy")


@pytest.mark.parametrize(
    ("target", "name", "value"),
    [
        (sys, "platform", "darwin"),
        (ctypes, "CDLL", lambda _: object()),
        (unwritten, "HANDLER_VERSION", -1),
    ],
)
def test_other_libraries_have_no_such_memory(target, name, value, monkeypatch):
    unwritten._glibc.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(target, name, value)
        assert unwritten._glibc() is None
    unwritten._glibc.cache_clear()


@pytest.mark.skipif(unwritten._glibc() is None, reason="only glibc fills all new memory")
def test_an_array_may_outlive_the_handler_that_allocated_it():
    """The cache was cleared, and the freed structure made a later garbage collection crash."""
    code = """if True:
        import gc
        import numpy as np
        from dlref.check._oracle import unwritten
        with unwritten.poisoned(()):
            kept = [np.ones(n) for n in (1, 40, 40_000)]
        unwritten._glibc.cache_clear()
        gc.collect()
        memory = [unwritten._Handler() for _ in range(1000)]
        del kept
    """
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_sizes_are_those_of_arrays():
    assert unwritten._sizes(("a", np.ones(2, np.float32))) == [8, 16]


def test_freed_blocks_of_pytorch_are_filled(monkeypatch):
    made = []

    def empty(size, **_):
        made.append(np.zeros(size, np.uint8))
        return made[-1]

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(empty=empty, uint8=np.uint8))
    unwritten._fill_freed([3], unwritten.NAN, "torch", None)
    assert len(made) == unwritten.BLOCKS
    assert all((a == unwritten.NAN).all() for a in made)


def test_memory_of_a_device_is_filled():
    for byte in (unwritten.NAN, unwritten.ZERO):
        with unwritten.poisoned((X,), byte, "torch", peers.torch.device("cpu")):
            out = peers.torch.empty(X.shape)
        assert (out.numpy().view(np.uint8) == byte).all()


@pytest.mark.parametrize("count", [1, 3, 100, 300, 5000, 10**6])
def test_all_new_memory_has_the_byte_and_zeros_are_zero(count):
    torch = peers.torch if importlib.util.find_spec("torch") else None
    for byte in (unwritten.NAN, unwritten.ZERO):
        for _ in range(3):
            np.full(count, 7.0)  # to be handed out again
            with unwritten.poisoned((np.ones(1),), byte):
                own, zeros = np.empty(count), np.zeros(count)
                new = [own] if torch is None else [own, torch.empty(count).numpy()]
                if unwritten._glibc() is not None:
                    assert all((a.view(np.uint8) == byte).all() for a in new)
                assert not zeros.any()
    assert not np.zeros(count).any()


def test_the_memory_of_a_right_kernel_stays_when_the_check_is_over():
    results = []

    def kept(x):
        results.append(np.maximum(x, 0))
        return results[-1]

    assert check.check_forward(kept, act.relu, X)
    results[0].resize(100, refcheck=False)
    np.testing.assert_array_equal(results[0][:54], np.maximum(X, 0).ravel())


def test_a_kernel_that_is_compiled():
    numba = pytest.importorskip("numba")

    @numba.njit
    def right(x):
        return np.maximum(x, np.float32(0))

    @numba.njit
    def wrong(x):
        out = np.empty_like(x)
        for i in range(1, len(x)):
            out[i] = np.maximum(x[i], np.float32(0))
        return out

    for x in (X, LONG):
        for _ in range(TIMES):
            assert check.check_forward(right, act.relu, x)
            assert not check.check_forward(wrong, act.relu, x)


@pytest.mark.parametrize("collects", [True, False])
def test_no_garbage_is_collected_in_such_memory(collects):
    """Numba crashed in a collection while it compiled: freed memory is filled, too."""
    seen = []

    def right(x):
        seen.append(gc.isenabled())
        return np.maximum(x, 0)

    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        assert check.check_forward(right, act.relu, X)
        assert gc.isenabled() is collects
    finally:
        (gc.enable if before else gc.disable)()
    assert not any(seen)


def test_a_nan_that_is_computed_is_not_called_unwritten():
    def divided(x):
        with np.errstate(all="ignore"):
            return np.maximum(x, 0) + 0 * (x / (x - X[0, 0]))

    verdict = check.check_forward(divided, act.relu, X)
    assert not verdict
    assert "not written" not in verdict.cause
    nan = check.check_forward(lambda x: np.full_like(x, np.nan), act.relu, X)
    assert "not written" not in nan.cause


def test_integers_that_differ_at_the_second_call_are_off():
    calls = []

    def right_once(T, S):
        calls.append(T)
        return att.causal_mask(T, S) if len(calls) == 1 else ~att.causal_mask(T, S)

    verdict = check.check_forward(right_once, att.causal_mask, 5, 7)
    assert len(calls) == 2
    assert verdict.worst.num_wrong == 35
    assert verdict.error == np.inf
    assert check.check_forward(att.causal_mask, att.causal_mask, 5, 7)


def test_a_reference_may_be_a_number_of_python():
    assert check.check_forward(lambda x: x * 0 + 2, lambda x: 2, 3)
    assert not check.check_forward(lambda x: x, lambda x: 2, 3)


def test_gradients_without_a_reference():
    def vjp(dout, x):
        return without(0)(np, dout * (1 - np.tanh(x) ** 2))

    def jvp(x, dx):
        return vjp(dx, x)

    x = X.astype(float)
    for _ in range(TIMES):
        assert check.check_gradients(np.tanh, lambda u, x: u * (1 - np.tanh(x) ** 2), x, fast=True)
        assert not check.check_gradients(np.tanh, vjp, x, fast=True)
        rng = np.random.default_rng(0)
        assert not check.adjoint_gap(act.tanh_jvp, vjp, x, rng) < 1e-10
        assert not check.adjoint_gap(jvp, act.tanh_vjp, x, rng) < 1e-10
