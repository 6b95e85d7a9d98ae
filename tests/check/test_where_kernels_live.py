"""Kernels on a device, kernels that lack a case, and kernels that are compiled for each shape."""

import re

import numpy as np
import peers
import pytest

from dlref import activations as act
from dlref import attention as att
from dlref import check, neurons
from dlref.check._oracle.arrays import device_of, handed

R = np.random.default_rng(7)
SDPA = att.scaled_dot_product_attention


def strided():
    """Return arrays whose memory has gaps, an offset, another order, or strides of 0."""
    whole = R.normal(size=40).astype(np.float32)
    return {
        "gaps": whole.reshape(4, 10)[:, ::2],
        "an offset": whole[5:25].reshape(4, 5),
        "transposed": whole[:20].reshape(5, 4).T,
        "strides of 0": np.broadcast_to(np.float32(0.75), (4, 5)),
        "bytes": np.arange(20).reshape(4, 5) % 3 > 0,
        "no axes": np.float32(0.5),
        "no elements": np.zeros((0, 5), np.float32),
    }


@pytest.mark.parametrize("name", strided())
def test_a_device_gets_the_memory_of_an_array(name):
    torch, array = peers.torch, strided()[name]
    tensor = handed(array, "torch", torch.device("cpu"))
    np.testing.assert_array_equal(tensor.numpy(), array)
    if np.size(array) and np.ndim(array):
        assert tensor.stride() == tuple(s // array.itemsize for s in array.strides)
    assert tensor.storage_offset() == (5 if name == "an offset" else 0)


def test_the_device_is_the_one_that_is_named_or_the_inputs():
    class Tensor:
        device = "cuda:0"

    assert device_of((np.ones(2), [Tensor()]), "torch") == "cuda:0"
    assert device_of((), "torch", "cpu") == "cpu"
    assert device_of((np.ones(2),), "numpy") is None
    with pytest.raises(ValueError, match="'device' must be None where 'framework' is not 'torch'"):
        check.check_forward(np.abs, act.relu, np.ones(2), device="cuda")


def test_all_cases_on_a_device():
    torch, seen = peers.torch, []

    def vjp(dout, x):
        seen.append(dout.stride())
        assert dout.device == x.device == torch.device("cpu")
        return dout * (x > 0)

    report = check.check_all(torch.relu, act.relu, vjp=vjp, device="cpu")
    assert report, str(report)
    assert any(0 in stride for stride in seen if len(stride) > 1)


def test_writes_on_a_device_are_seen():
    pytest.importorskip("torch")
    verdict = check.check_forward(
        lambda x: x.relu_(), act.relu, R.normal(size=5), device="cpu", framework="torch"
    )
    assert "wrote to argument 0" in str(verdict)


def test_a_kernel_that_ignores_strides_is_found_on_a_device():
    torch = peers.torch

    def flat(x):
        return torch.as_strided(x, x.shape, (x.shape[-1], 1), 0).relu()

    x = np.swapaxes(R.normal(size=(5, 4)), 0, 1)
    assert not check.check_forward(flat, act.relu, x, framework="torch", device="cpu")


# What is not supported.


def attention(q, k, v, is_causal=False):
    if q.shape[-3] != k.shape[-3]:
        msg = "grouped heads"
        raise NotImplementedError(msg)
    return SDPA(q, k, v, is_causal=is_causal)


def test_a_case_that_is_not_implemented_is_skipped_and_counted():
    report = check.check_all(attention, SDPA)
    assert report, str(report)
    assert any("grouped heads" in case for case in report.unsupported)
    assert re.search(rf"cases not supported \({len(report.unsupported)}\): forward, ", str(report))
    assert '"unsupported"' in report.to_json()


def test_a_message_that_there_is_no_kernel_is_no_mistake():
    def relu(x):
        if x.ndim > 2:
            msg = '"relu" not implemented for three axes'
            raise RuntimeError(msg)
        return act.relu(x)

    report = check.check_all(relu, act.relu)
    assert report
    assert report.unsupported

    def broken(x):
        msg = "an illegal memory access"
        raise RuntimeError(msg)

    assert check.check_all(broken, act.relu).failed


def test_nothing_that_is_supported_is_nothing_that_is_right():
    def none(x):
        raise NotImplementedError

    report = check.check_all(none, act.relu)
    assert not report
    assert not report.rows
    assert "no case is supported" in str(report)


def test_the_caller_may_say_what_is_supported():
    def even(case):
        return all(a.shape[-1] % 2 == 0 for a in case.inputs if np.ndim(a))

    seen = []

    def linear(x, w, b=None):
        seen.append(x.shape[-1] % 2)
        return neurons.linear(x, w, b)

    report = check.check_all(linear, neurons.linear, supports=even)
    assert report
    assert not any(seen)
    assert report.unsupported
    with pytest.raises(TypeError, match="'supports' must be"):
        check.check_all(linear, neurons.linear, supports="even")


def test_few_shapes_on_request():
    shapes = set()

    def softmax(x, axis=-1):
        shapes.add(x.shape)
        return act.softmax(x, axis=axis)

    report = check.check_all(softmax, act.softmax, max_shapes=2)
    assert report
    assert len(shapes) == 2
    assert len(report.rows) > 4
    with pytest.raises(ValueError, match="'max_shapes' must"):
        check.check_all(softmax, act.softmax, max_shapes=0)
