"""Tests of dlref.interop._conventions."""

import itertools

import numpy as np
import peers
import pytest

from dlref.interop import Convention, conventions, mask_convention

NAMES = ["dlref", "torch_sdpa", "torch_mha", "jax", "onnx", "keras", "additive"]


@pytest.mark.parametrize(("source", "target"), list(itertools.product(NAMES, NAMES)))
def test_there_and_back(source, target):
    causal = np.tri(4, dtype=bool)
    mask = mask_convention(causal, "dlref", source)
    back = mask_convention(mask_convention(mask, source, target), target, "dlref")
    np.testing.assert_array_equal(back, causal)
    assert mask_convention(mask, source, source) is not mask


def test_polarity_by_pytorch(rng):
    torch = peers.torch
    x = torch.tensor(rng.normal(size=(1, 4, 8)))
    allowed = np.tri(4, dtype=bool)
    layer = torch.nn.MultiheadAttention(8, 1, batch_first=True, dtype=torch.float64)
    blocked = torch.tensor(mask_convention(allowed, "dlref", "torch_mha"))
    with torch.no_grad():
        weights = layer(x, x, x, attn_mask=blocked)[1][0].numpy()
        np.testing.assert_array_equal(weights > 0, allowed)
        sdpa = torch.nn.functional.scaled_dot_product_attention
        want = sdpa(x, x, x, is_causal=True)
        for name in ("torch_sdpa", "additive"):
            mask = torch.tensor(mask_convention(allowed, "dlref", name))
            torch.testing.assert_close(sdpa(x, x, x, attn_mask=mask), want)


def test_dtype_of_additive_masks():
    assert mask_convention([True], "dlref", "additive").dtype == np.float64
    half = np.array([0, -np.inf], np.float16)
    assert mask_convention(half, "additive", "additive").dtype == np.float16


def test_table_is_selected_by_topic():
    assert all(isinstance(row, Convention) for row in conventions())
    assert {row.topic for row in conventions("MASK, t")} == {"Causal mask, T = 2, S = 5"}
    assert conventions("no such topic") == ()


def test_errors():
    with pytest.raises(TypeError, match=r"^Argument 'mask' must be boolean, not float64"):
        mask_convention([0.0], "torch_mha", "dlref")
    with pytest.raises(ValueError, match=r"^Argument 'mask' must hold only 0 and -inf, not -1"):
        mask_convention([0.0, -1e9], "additive", "dlref")
    with pytest.raises(ValueError, match=r"^Argument 'target' must be 'dlref', "):
        mask_convention([True], "dlref", "mlx")
    with pytest.raises(TypeError, match=r"^Argument 'topic' must be text, not 3"):
        conventions(3)
