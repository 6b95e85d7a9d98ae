"""What pages say under "Conventions and traps" of other libraries' habits, where it can be run."""

import ml_dtypes
import numpy as np
import pytest

from dlref.activations import softmax
from dlref.attention import scaled_dot_product_attention, scaled_dot_product_attention_vjp
from dlref.interop import conventions
from dlref.normalization import instance_norm, layer_norm, rms_norm

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("axes", "chosen"), [(1, 0), (2, 1), (3, 0), (4, 1)])
def test_axis_of_softmax_without_dim(axes, chosen):
    x = RNG.normal(size=(2, 3, 4, 5)[:axes])
    with pytest.warns(UserWarning, match="Implicit dimension"):
        theirs = torch.nn.functional.softmax(torch.tensor(x))
    np.testing.assert_allclose(theirs.numpy(), softmax(x, axis=chosen), rtol=1e-13)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_eps_of_rms_norm_is_that_of_float32_for_half_precision(dtype):
    small = 1e-8 if dtype == "float64" else 1e-4
    x = torch.tensor([small, -3 * small], dtype=getattr(torch, dtype))
    theirs = torch.nn.functional.rms_norm(x, (2,)).double().numpy()
    eps = np.finfo(np.float64 if dtype == "float64" else np.float32).eps
    rtol = 1e-12 if dtype == "float64" else 1e-2
    np.testing.assert_allclose(theirs, rms_norm(x.double().numpy(), eps=eps), rtol=rtol)
    (row,) = (row for row in conventions("eps of RMS norm") if row.library == "PyTorch")
    array = x.numpy() if dtype != "bfloat16" else x.float().numpy().astype(ml_dtypes.bfloat16)
    ours = eval(row.code, {"np": np, "rms_norm": rms_norm, "x": array})
    np.testing.assert_allclose(ours.astype(float), theirs, rtol=rtol)


def test_batch_norm_of_torch_with_one_example_in_training():
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        torch.nn.BatchNorm1d(3)(torch.ones(1, 3))
    x = RNG.normal(size=(1, 4, 3))  # with four positions
    theirs = torch.nn.BatchNorm1d(3, dtype=torch.float64)(torch.tensor(x.swapaxes(1, 2)))
    np.testing.assert_allclose(
        theirs.detach().numpy().swapaxes(1, 2), instance_norm(x), rtol=1e-10, atol=1e-12
    )


def test_layer_norm_of_the_annotated_transformer():
    x = torch.tensor(RNG.normal(size=(3, 5)))
    theirs = (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)
    want = np.sqrt(4 / 5) * layer_norm(x.numpy(), eps=0)
    np.testing.assert_allclose(theirs.numpy(), want, rtol=1e-12)


def test_several_axes_of_layer_norm_are_one_row():
    x = RNG.normal(size=(2, 3, 4))
    theirs = torch.nn.functional.layer_norm(torch.tensor(x), (3, 4)).numpy()
    np.testing.assert_allclose(theirs.reshape(2, 12), layer_norm(x.reshape(2, 12)), rtol=1e-12)


def test_large_negative_scores_are_no_mask():
    scores = torch.zeros(4, dtype=torch.float16)
    with pytest.raises(RuntimeError, match="overflow"):
        scores.masked_fill(torch.ones(4, dtype=torch.bool), -1e9)
    v = RNG.normal(size=(4, 2))
    weights = torch.softmax(torch.full((1, 4), -1e9, dtype=torch.float64), -1).numpy()
    np.testing.assert_array_equal(weights, np.full((1, 4), 0.25))
    q, k = np.zeros((1, 2)), np.zeros((4, 2))
    out = scaled_dot_product_attention(q, k, v, mask=np.zeros((1, 4), bool))
    np.testing.assert_array_equal(out, np.zeros((1, 2)))


@pytest.mark.parametrize(("dtype", "equal"), [(np.float64, False), (np.float32, True)])
def test_large_negative_numbers_added_to_scores_leave_their_differences_in_float64(dtype, equal):
    q, k = np.ones((1, 1), dtype), np.array([[0.0], [1.0], [2.0]], dtype)
    v, bias = np.eye(3, dtype=dtype), np.full((1, 3), -1e9, dtype)
    theirs = torch.nn.functional.scaled_dot_product_attention(
        *map(torch.tensor, (q, k, v)), attn_mask=torch.tensor(bias)
    )
    want = np.full((1, 3), 1 / 3) if equal else softmax([[0.0, 1.0, 2.0]])
    np.testing.assert_allclose(theirs.numpy(), want, rtol=1e-6)
    ours = scaled_dot_product_attention(q, k, v, bias=bias)
    np.testing.assert_allclose(ours, want, rtol=1e-6)


def test_gradients_of_a_row_without_keys_are_zero_where_its_output_is():
    q, k, v = RNG.normal(size=(1, 1, 1, 2)), *RNG.normal(size=(2, 1, 1, 3, 2))
    mask = np.zeros((1, 1, 1, 3), bool)
    for gradient in scaled_dot_product_attention_vjp(np.ones_like(q), q, k, v, mask=mask):
        assert not gradient.any()

    operands = [torch.tensor(x, requires_grad=True) for x in (q, k, v)]
    sdpa = torch.nn.functional.scaled_dot_product_attention
    out = sdpa(*operands, attn_mask=torch.tensor(mask))
    assert not out.any()
    for gradient in torch.autograd.grad(out.sum(), operands):
        assert not gradient.any()

    jax = pytest.importorskip("jax")

    def attend(*operands):
        return jax.nn.dot_product_attention(*operands, mask=mask)

    operands = [jax.numpy.asarray(np.swapaxes(x, 1, 2)) for x in (q, k, v)]
    np.testing.assert_allclose(attend(*operands).ravel(), v.mean(axis=(0, 1, 2)), rtol=1e-5)
    grads = jax.grad(lambda *operands: attend(*operands).sum(), argnums=(0, 1, 2))(*operands)
    assert not grads[0].any()
    assert not grads[1].any()
    np.testing.assert_allclose(grads[2], 1 / 3, rtol=1e-6)


def test_lstm_of_torch_draws_its_biases_within_one_over_the_root_of_its_width():
    cell = torch.nn.LSTMCell(3, 400)
    for values in cell.parameters():
        assert 0.9 / 20 < values.abs().max() <= 1 / 20
