"""The selective scan: PyTorch, Mamba's block, and the maps that it is equal to."""

import numpy as np
import pytest

from dlref.activations import silu
from dlref.attention import recurrent_linear_attention
from dlref.recurrent import selective_scan, selective_scan_jvp, selective_scan_vjp
from dlref.recurrent._kernels import scan

OPERANDS = ("x", "delta", "a", "b", "c", "d", "state")


def inputs(rng, B=2, T=5, D=3, N=2):
    return (
        rng.normal(size=(B, T, D)),
        rng.uniform(0.1, 1.0, (B, T, D)),
        -rng.uniform(0.1, 2.0, (D, N)),
        *rng.normal(size=(2, B, T, N)),
        rng.normal(size=D),
        rng.normal(size=(B, D, N)),
    )


def reference(torch):
    """Transcribe selective_scan_ref of mamba-ssm, with time second to last."""

    def f(x, delta, a, b, c, d, state):
        delta = torch.nn.functional.softplus(delta)
        out = []
        for t in range(x.shape[1]):
            kept = torch.exp(torch.einsum("bd,dn->bdn", delta[:, t], a))
            written = torch.einsum("bd,bn,bd->bdn", delta[:, t], b[:, t], x[:, t])
            state = kept * state + written
            out.append(torch.einsum("bdn,bn->bd", state, c[:, t]) + d * x[:, t])
        return torch.cat([torch.stack(out, 1).flatten(), state.flatten()])

    return f


# shapes with more than one block of channels, and more than one state that is kept
@pytest.mark.parametrize(("T", "D"), [(1, 1), (5, 3), (16, 64), (33, 65), (40, 130)])
def test_pytorch(rng, T, D):
    peers = pytest.importorskip("peers")
    args = inputs(rng, T=T, D=D)
    u, dstate = rng.normal(size=args[0].shape), rng.normal(size=args[-1].shape)
    flat = np.concatenate([u.ravel(), dstate.ravel()])
    value, grads = peers.value_and_vjp(reference(peers.torch), *args, dout=flat)
    out, state = selective_scan(*args, delta_softplus=True)
    got = np.concatenate([out.ravel(), state.ravel()])
    np.testing.assert_allclose(got, value, rtol=0, atol=4e-15 * abs(value).max())
    found = selective_scan_vjp((u, dstate), *args, delta_softplus=True)
    for name, got, want in zip(OPERANDS, found, grads, strict=True):
        near = 4e-15 * max(abs(want).max(), 4 * T**0.5)
        np.testing.assert_allclose(got, want, rtol=0, atol=near, err_msg=name)


def test_the_tangent_is_the_adjoint_over_blocks(rng):
    args = inputs(rng, T=33, D=65)
    moves = tuple(rng.normal(size=a.shape) for a in args)
    u = tuple(rng.normal(size=y.shape) for y in selective_scan(*args))
    pushed, pulled = selective_scan_jvp(args, moves), selective_scan_vjp(u, *args)
    left = sum(np.sum(a * b) for a, b in zip(u, pushed, strict=True))
    terms = [a * b for a, b in zip(pulled, moves, strict=True)]
    right, scale = sum(map(np.sum, terms)), sum(np.sum(abs(term)) for term in terms)
    assert abs(left - right) <= 4e-15 * scale


def test_with_one_rate_it_is_linear_attention(rng):
    x, delta, _, b, c, _, state = inputs(rng, T=9)
    step = delta[..., :1]
    out, last = selective_scan(x, np.tile(step, 3), np.full((3, 2), -0.7), b, c, None, state)
    want, memory = recurrent_linear_attention(
        c, b, step * x, -0.7 * step, None, state.swapaxes(-1, -2)
    )
    np.testing.assert_allclose(out, want, rtol=0, atol=2e-14)
    np.testing.assert_allclose(last, memory.swapaxes(-1, -2), rtol=0, atol=2e-14)


def test_in_two_parts(rng):
    x, delta, a, b, c, d, state = inputs(rng, T=20)
    whole, last = selective_scan(x, delta, a, b, c, d, state)
    first, between = selective_scan(x[:, :7], delta[:, :7], a, b[:, :7], c[:, :7], d, state)
    second, end = selective_scan(x[:, 7:], delta[:, 7:], a, b[:, 7:], c[:, 7:], d, between)
    np.testing.assert_array_equal(np.concatenate([first, second], axis=1), whole)
    np.testing.assert_array_equal(end, last)


def test_a_step_of_zero_skips_its_token(rng):
    x, delta, a, b, c, _, state = inputs(rng, T=4)
    delta[:, 1] = 0
    _, last = selective_scan(x, delta, a, b, c, None, state)
    keep = [0, 2, 3]
    _, want = selective_scan(
        *(y[:, keep] for y in (x, delta)), a, b[:, keep], c[:, keep], None, state
    )
    np.testing.assert_array_equal(last, want)


def test_a_large_step_forgets(rng):
    x, delta, a, b, c, *_ = inputs(rng, T=3)
    delta[:, 1] = 1e5
    for state in (np.zeros((2, 3, 2)), np.ones((2, 3, 2))):
        out, last = selective_scan(x, delta, a, b, c, None, state)
        if state[0, 0, 0] == 0:
            want = out[:, 1:], last
    np.testing.assert_array_equal(out[:, 1:], want[0])
    np.testing.assert_array_equal(last, want[1])


def test_memory_of_the_backward_pass():
    """One state of 16 is kept, so that the workspace is smaller than all states."""
    T, D, N = 4096, 64, 16
    kept = (T // scan.STEPS + scan.STEPS + 1) * N * scan.BLOCK
    assert kept < T * D * N / 15


def mixer(torch, transformers):
    settings = {"hidden_size": 4, "state_size": 3, "num_hidden_layers": 1, "vocab_size": 5}
    config = transformers.MambaConfig(**settings, time_step_rank=2, use_cache=False)
    module = transformers.models.mamba.modeling_mamba.MambaMixer(config, 0).double().eval()
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn(p.shape, dtype=torch.float64) / 2)
    return module


def test_the_block_of_mamba(rng):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    module = mixer(torch, transformers)
    x = rng.normal(size=(2, 6, 4))
    with torch.no_grad():
        want = module(torch.tensor(x)).numpy()
    p = {name: w.detach().numpy() for name, w in module.named_parameters()}
    y, gate = np.split(x @ p["in_proj.weight"].T, 2, axis=-1)
    padded = np.concatenate([np.zeros((2, 3, y.shape[-1])), y], axis=1)
    kernel = p["conv1d.weight"][:, 0]
    y = silu(sum(padded[:, k : k + 6] * kernel[:, k] for k in range(4)) + p["conv1d.bias"])
    step, b, c = np.split(y @ p["x_proj.weight"].T, [2, 5], axis=-1)
    delta = step @ p["dt_proj.weight"].T + p["dt_proj.bias"]
    out, _ = selective_scan(y, delta, -np.exp(p["A_log"]), b, c, p["D"], delta_softplus=True)
    got = (out * silu(gate)) @ p["out_proj.weight"].T
    # the module rounds the rates, the skip and the bias to float32
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-6 * abs(want).max())


def test_errors():
    x, row, a = np.ones((3, 2)), np.ones((3, 4)), np.ones((2, 4))
    with pytest.raises(ValueError, match=r"^Argument 'a' must have shape \(2, N\), not \(4, 2\)"):
        selective_scan(x, x, a.T, row, row)
    with pytest.raises(ValueError, match=r"^Argument 'a' must have 2 axes"):
        selective_scan(x, x, a[0], row, row)
    with pytest.raises(ValueError, match=r"^Argument 'b' must have shape \(3, 4\), not \(3, 2\)"):
        selective_scan(x, x, a, x, row)
    with pytest.raises(ValueError, match=r"^Argument 'd' must have shape \(2,\), not \(4,\)"):
        selective_scan(x, x, a, row, row, np.ones(4))
    with pytest.raises(ValueError, match=r"^Argument 'state' must have shape \(2, 4\)"):
        selective_scan(x, x, a, row, row, None, a.T)
    with pytest.raises(TypeError, match=r"^Argument 'delta' must be an array, not None"):
        selective_scan(x, None, a, row, row)
    with pytest.raises(TypeError, match=r"^Argument 'delta_softplus' must be True or False"):
        selective_scan(x, x, a, row, row, delta_softplus=1)
    with pytest.raises(ValueError, match=r"^Argument 'tangents\[5\]' must be None"):
        selective_scan_jvp((x, x, a, row, row, None, None), 5 * (None,) + (np.ones(2), None))
