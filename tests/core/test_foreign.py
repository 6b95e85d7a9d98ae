"""Arrays of other libraries as inputs of every function."""

import numpy as np
import pytest

from dlref.activations import log_softmax, softmax, softmax_vjp
from dlref.neurons import linear

X = np.random.default_rng(0).normal(size=(3, 5))


class Device:
    """An array that says, as CuPy does, that it will not be copied silently."""

    dtype = X.dtype

    def __array__(self, dtype=None, copy=None):
        message = "Implicit conversion to a NumPy array is not allowed."
        raise TypeError(message)

    def get(self):
        return X


class Refuse:
    """A tensor whose conversion fails."""

    __module__ = "torch"
    ndim, dtype = 2, X.dtype

    def __init__(self, message):
        self.message = message

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError(self.message)


class Exported:
    """An array known by DLPack alone."""

    def __dlpack__(self, **options):
        return X.__dlpack__(**options)

    def __dlpack_device__(self):
        return X.__dlpack_device__()


class Wrapped:
    """An array known by `__array__`."""

    def __array__(self, dtype=None, copy=None):
        return X


@pytest.mark.parametrize("kind", [Device, Exported, Wrapped])
def test_arrays_by_protocol(kind):
    np.testing.assert_array_equal(softmax(kind()), softmax(X))
    np.testing.assert_array_equal(softmax_vjp(kind(), kind()), softmax_vjp(X, X))


def test_masked_arrays_are_refused():
    masked = np.ma.masked_array(X, mask=X > 0)
    with pytest.raises(TypeError, match="'x' must not be a masked array: its mask"):
        softmax(masked)
    with pytest.raises(TypeError, match="'weight' must not be a masked array"):
        linear(X, masked)
    for within in ([masked, masked], [[masked]], (masked,)):  # a list would drop the mask
        with pytest.raises(TypeError, match="'x' must not be a masked array: its mask"):
            softmax(within)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_tensors_of_pytorch(requires_grad):
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(X, requires_grad=requires_grad)
    found = log_softmax(tensor)
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, log_softmax(X))
    np.testing.assert_array_equal(log_softmax(tensor.mT), log_softmax(X.T))


def test_bfloat16_of_pytorch():
    torch = pytest.importorskip("torch")
    found = softmax(torch.tensor(X).bfloat16())
    assert found.dtype.name == "bfloat16"
    want = softmax(torch.tensor(X).bfloat16().double().numpy())
    np.testing.assert_allclose(found.astype(float), want, rtol=2**-8)


def test_arrays_of_jax():
    jnp = pytest.importorskip("jax.numpy")
    x = X.astype(np.float32)
    np.testing.assert_array_equal(softmax(jnp.asarray(x)), softmax(x))


def test_an_error_of_a_tensor_names_the_page_on_frameworks():
    refuse = Refuse("Can't call numpy() on Tensor that requires grad.\nUse tensor.detach().")
    words = r"^Argument 'x' must be an array, not Refuse: Can't call numpy\(\) on Tensor that"
    with pytest.raises(TypeError, match=words + r" requires grad\. See the page 'Use dlref inside"):
        softmax(refuse)
