"""Candidates and inputs of other libraries, for check_forward, check_vjp and check_gradients."""

import sys
import types

import ml_dtypes
import numpy as np
import peers
import pytest

from dlref import activations, neurons
from dlref.check import check_all, check_forward, check_gradients, check_vjp
from dlref.check._oracle import arrays


class Tensor:
    """What a tensor of PyTorch does here, where PyTorch is not installed."""

    def __init__(self, array, dtype="torch.float64"):
        self.array, self.dtype = array, dtype

    def detach(self):
        return self

    cpu = resolve_conj = resolve_neg = detach

    def numpy(self):
        return self.array

    def view(self, dtype):
        return Tensor(self.array.view(np.int16), f"torch.{dtype}")

    def storage_offset(self):
        return arrays.lead_of(self.array)

    def as_strided(self, shape, strides, offset):
        assert (strides, offset) == ((1,), 0)
        return Tensor(np.ndarray(shape, self.array.dtype, self.array.base))


Tensor.__module__ = "torch"


@pytest.fixture
def fake(monkeypatch):
    torch = types.SimpleNamespace(int16="int16", bfloat16="bfloat16", from_numpy=Tensor)
    monkeypatch.setitem(sys.modules, "torch", torch)


def test_tensors_by_a_stand_in(fake):
    x = np.array([1.0, -2.0])
    assert check_forward(
        lambda t: Tensor(np.maximum(t.array, 0)), activations.relu, x, framework="torch"
    )
    narrow = x.astype(ml_dtypes.bfloat16)

    def relu(t):
        assert t.dtype == "torch.bfloat16"
        return Tensor(np.maximum(t.array.view(ml_dtypes.bfloat16), 0), "torch.bfloat16")

    assert check_forward(relu, activations.relu, narrow, framework="torch")
    verdict = check_forward(lambda t: Tensor(np.maximum(t.array, 0)), activations.relu, Tensor(x))
    assert verdict


def test_a_storage_offset_by_a_stand_in(monkeypatch):
    class Memory:
        def __init__(self, array):
            self.array = array

        def view(self, dtype):
            return Memory(self.array.view(dtype))

        def as_strided(self, shape, strides, offset):
            asked.append((shape, tuple(strides), offset))
            return Tensor(
                np.ndarray(shape, float, self.array, 8 * offset, [8 * n for n in strides])
            )

    asked, torch = [], types.SimpleNamespace(float64=np.float64, from_numpy=Memory)
    monkeypatch.setitem(sys.modules, "torch", torch)
    x = np.arange(-3.0, 5.0)[2:].reshape(2, 3)
    relu = lambda t: Tensor(np.maximum(t.array, 0))  # noqa: E731
    assert check_forward(relu, activations.relu, x, framework="torch")
    assert set(asked) == {((2, 3), (3, 1), 2)}


def test_the_offset_of_a_tensor_is_kept_by_a_stand_in(fake):
    relu = lambda x: np.maximum(from_the_beginning(x), 0)  # noqa: E731
    memory = np.arange(-3.0, 5.0)
    message = "the storage offset of x is ignored: memory is read from its beginning"
    for dtype in (float, ml_dtypes.bfloat16):
        x = memory.astype(dtype)[2:].reshape(2, 3)
        kind = "torch.float64" if dtype is float else "torch.bfloat16"
        verdict = check_forward(relu, activations.relu, Tensor(x, kind), framework="numpy")
        assert verdict.cause == message
    none = Tensor(memory[2:2])
    assert check_forward(lambda x: x.copy(), activations.relu, none, framework="numpy")


def test_rows_in_reverse_order_are_copied_for_pytorch(fake):
    def relu(t):
        assert t.array.strides == (8,)
        return Tensor(np.maximum(t.array, 0))

    x = np.array([1.0, -2.0, 3.0])[::-1]
    assert check_forward(relu, activations.relu, x, framework="torch")


def test_jax_by_a_stand_in(monkeypatch):
    asked = []

    class Context:
        def __enter__(self):
            asked.append("in")

        def __exit__(self, *_):
            asked.append("out")

    experimental = types.SimpleNamespace(enable_x64=lambda on: Context())
    monkeypatch.setitem(sys.modules, "jax", types.SimpleNamespace(enable_x64=lambda on: Context()))
    monkeypatch.setitem(sys.modules, "jax.numpy", types.SimpleNamespace(asarray=np.asarray))
    for module in (experimental, types.SimpleNamespace()):
        monkeypatch.setitem(sys.modules, "jax.experimental", module)
        assert check_forward(np.abs, np.abs, np.ones(2), framework="jax")
    assert asked == ["in", "out"] * 2


def test_arrays_that_are_not_numpys():
    x = np.array([1.0, -2.0])

    class OnDevice:
        """As CuPy's: no silent copy."""

        dtype = x.dtype

        def __array__(self, *_, **__):
            msg = "Implicit conversion is not allowed."
            raise TypeError(msg)

        def get(self):
            return np.maximum(x, 0)

    class Silent:
        def __array__(self, *_, **__):
            return np.maximum(x, 0)

    class OnlyDLPack:
        def __dlpack__(self, **_):
            return np.maximum(x, 0).__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    for kind in (OnDevice, Silent, OnlyDLPack):
        assert check_forward(lambda x, kind=kind: kind(), activations.relu, x)
    assert arrays.as_numpy(len) is len
    assert arrays.framework_of([(x, [x]), None]) == "numpy"


LAYOUTS = {
    "gaps": lambda x: np.repeat(x, 2, -1)[:, ::2],
    "columns first": np.asfortranarray,
    "backwards": lambda x: x[::-1, ::-1],
    "repeated": lambda x: np.broadcast_to(x[:1], (4, 6)),
    "a part": lambda x: np.pad(x, 3)[3:-3, 3:-3],
    "no rows": lambda x: x[:0],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_candidates_get_memory_as_it_is(layout, rng):
    x = LAYOUTS[layout](rng.normal(size=(4, 6)))
    seen = []

    def relu(x):
        seen.append(x.strides)
        return np.maximum(x, 0)

    assert check_forward(relu, activations.relu, x)
    assert x.size == 0 or seen == [x.strides]


def test_a_kernel_that_takes_rows_for_contiguous_is_found(rng):
    x = np.repeat(rng.normal(size=(4, 6)), 2, -1)[:, ::2]

    def flat_kernel(x):
        memory = x.__array_interface__["data"][0]
        owner = x
        while owner.base is not None and hasattr(owner.base, "strides"):
            owner = owner.base
        start = memory - owner.__array_interface__["data"][0]
        rows = np.ndarray(x.shape, x.dtype, owner, start)
        return np.maximum(rows, 0)

    assert not check_forward(flat_kernel, activations.relu, x)
    assert check_forward(flat_kernel, activations.relu, x.copy())


def from_the_beginning(x):
    """Read an array from the beginning of its storage on, as kernels do that forget an offset."""
    owner = x
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return np.ndarray(x.shape, x.dtype, owner, 0, x.strides)


def test_a_storage_offset_that_is_ignored_is_named(rng):
    memory = rng.normal(size=27)
    x, w = memory[3:].reshape(4, 6), rng.normal(size=33)[3:].reshape(5, 6)

    def of_both(x, w):
        return from_the_beginning(x) @ from_the_beginning(w).T

    message = "the storage offset of {} is ignored: memory is read from its beginning"
    relu = lambda x: np.maximum(from_the_beginning(x), 0)  # noqa: E731
    assert check_forward(relu, activations.relu, x).cause == message.format("x")
    assert check_forward(relu, activations.relu, x[2:]).cause == message.format("x")
    far = rng.normal(size=300)[203:].reshape(-1, 1)  # the same rest in place of 203 numbers
    assert arrays.lead_of(arrays.copied(far)) == arrays.lead_of(far) == 8 + 203 % 8
    assert check_forward(relu, activations.relu, far).cause == message.format("x")
    assert check_forward(of_both, neurons.linear, x, w).cause == message.format("x and weight")
    kernel = lambda x, w: x @ from_the_beginning(w).T  # noqa: E731
    assert check_forward(kernel, neurons.linear, x, w).cause == message.format("weight")
    own = np.concatenate([np.zeros(3), np.ones(24)])[3:].reshape(4, 6)
    backward = lambda u, x: from_the_beginning(u) * (x > 0)  # noqa: E731
    assert check_vjp(backward, activations.relu, own, x).cause == message.format("dout")


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_pytorch_gets_a_storage_offset(dtype):
    torch = peers.torch

    def relu(x):
        return torch.as_strided(x, x.shape, x.stride(), 0).relu()

    assert check_all(torch.relu, activations.relu, framework="torch", dtype=dtype)
    report = check_all(relu, activations.relu, framework="torch", dtype=dtype)
    assert [row.case for row in report.failed] == [
        "memory with gaps along rows",
        "memory that is read-only, after an offset",
    ]
    for row in report.failed:
        assert "the storage offset of x" in row.verdict.cause

    def contiguous(x):  # a kernel that copies what is not contiguous, and forgets the rest
        return relu(x.contiguous())

    report = check_all(contiguous, activations.relu, framework="torch", dtype=dtype)
    assert [row.case for row in report.failed] == ["memory that is read-only, after an offset"]


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("offset", [3, 203])
def test_a_tensor_of_ones_own_keeps_its_storage_offset(dtype, offset):
    torch = peers.torch
    memory = torch.linspace(-3, 4, offset + 24, dtype=getattr(torch, dtype))
    seen = []

    def from_beginning(t):
        return torch.as_strided(t, t.shape, t.stride(), 0)

    def relu(x):
        seen.append((x.stride(), x.storage_offset()))
        return from_beginning(x).relu()

    x = memory[offset:].reshape(6, 4)
    for own in (x, x.T, x[:, ::2], memory[offset:]):
        assert own.storage_offset() == offset
        verdict = check_forward(relu, activations.relu, own)
        assert not verdict
        assert "the storage offset of x is ignored" in verdict.cause
        assert seen.pop() == (own.stride(), min(offset, 8 + offset % 8))
        assert check_forward(torch.relu, activations.relu, own)
    backward = lambda u, x: from_beginning(u) * (x > 0)  # noqa: E731
    verdict = check_vjp(backward, activations.relu, x, torch.ones_like(x))
    assert "the storage offset of dout is ignored" in verdict.cause
    assert check_forward(torch.relu, activations.relu, memory[offset:offset])


def test_pytorch_gets_memory_as_it_is(rng):
    torch = peers.torch
    x = rng.normal(size=(4, 6))
    seen = []

    def relu(x):
        seen.append(x.stride())
        return x.relu()

    for dtype in ("float32", ml_dtypes.bfloat16):
        wide = np.repeat(x, 2, -1).astype(dtype)[:, ::2]
        assert check_forward(relu, activations.relu, wide, framework="torch")
        assert check_forward(relu, activations.relu, wide[::-1], framework="torch")
        narrow = torch.as_tensor(x).to(torch.bfloat16).T
        assert check_forward(relu, activations.relu, narrow)
    assert seen == [(12, 2), (6, 1), (1, 6)] * 2


def test_pytorch(rng):
    torch = peers.torch
    x, w, b, u = (
        torch.tensor(rng.normal(size=s), requires_grad=True) for s in ((4, 3), (2, 3), (2,), (4, 2))
    )
    assert check_forward(torch.nn.functional.linear, neurons.linear, x, w, b)
    gradients = lambda u, x, w, b: [u @ w, u.T @ x, u.sum(0)]  # noqa: E731
    assert check_vjp(gradients, neurons.linear, u, x, w, b)
    assert check_gradients(torch.nn.functional.linear, gradients, x, w, b)
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        narrow = [a.to(dtype) for a in (x, w, b)]
        assert check_forward(torch.nn.functional.linear, neurons.linear, *narrow)

    def in_place(x):
        return x.relu_().clone()

    assert "wrote to argument 0" in str(check_forward(in_place, activations.relu, x))


def test_jax(rng):
    jnp = pytest.importorskip("jax.numpy")
    x = rng.normal(size=(4, 3))
    for dtype in ("float64", "float32", ml_dtypes.bfloat16):
        got = check_forward(jnp.abs, np.abs, x.astype(dtype), framework="jax")
        assert got
    assert check_forward(lambda x: jnp.maximum(x, 0), activations.relu, jnp.ones(3))
