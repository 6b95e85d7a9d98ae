"""The selective scan: PyTorch, Mamba's block, and the maps that it is equal to."""

import functools
import itertools

import numpy as np
import pytest

from dlref.activations import silu
from dlref.attention import recurrent_linear_attention
from dlref.formulas import recurrent as formulas
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


#: Segment ids of two rows of 40 steps: documents across, and at the ends of, 16 steps.
ROWS = np.repeat([[0, 1, 0, 3, 3, 4, 5, 6], [2, 2, 2, 2, 2, 2, 7, 8]], [1, 15, 8, 1, 7, 5, 2, 1], 1)


def documents(ids):
    """Return the slices of time of the documents of a row."""
    return [
        slice(*ends)
        for ends in itertools.pairwise([0, *(np.flatnonzero(np.diff(ids)) + 1), len(ids)])
    ]


def one_by_one(f, joined, ids, x, delta, a, b, c, d, state):
    """Return outputs and last state of one row, one call of f for each of its documents."""
    outs = []
    for i, part in enumerate(documents(ids)):
        steps = x[part], delta[part], a, b[part], c[part], d
        out, last = f(*steps, 0 * state if i else state)
        outs.append(out)
    return joined(outs), last


@pytest.mark.parametrize("through", [False, True])
@pytest.mark.parametrize(("D", "steps"), [(3, 40), (65, 40), (2, 16)])
def test_packed_documents_are_the_documents_one_by_one(rng, D, steps, through):
    x, delta, a, b, c, d, state = inputs(rng, T=steps, D=D)
    ids, f = ROWS[:, :steps], functools.partial(selective_scan, delta_softplus=through)
    out, last = f(x, delta, a, b, c, d, state, segment_ids=ids)
    for i in range(2):
        row = x[i], delta[i], a, b[i], c[i], d, state[i]
        want, end = one_by_one(f, np.concatenate, ids[i], *row)
        np.testing.assert_array_equal(out[i], want)
        np.testing.assert_array_equal(last[i], end)
    shared, _ = f(x, delta, a, b, c, d, state, segment_ids=ids[1])
    np.testing.assert_array_equal(shared[1], out[1])


@pytest.mark.parametrize(("D", "steps"), [(3, 40), (65, 40), (2, 16)])
def test_gradients_of_packed_documents_against_pytorch(rng, D, steps):
    peers = pytest.importorskip("peers")
    args, ids = inputs(rng, T=steps, D=D), ROWS[:, :steps]
    u, dstate = rng.normal(size=args[0].shape), rng.normal(size=args[-1].shape)

    def scan_of_one(*row):
        row = [part if i in (2, 5) else part[None] for i, part in enumerate(row)]
        flat, count = reference(peers.torch)(*row), row[0].numel()
        return flat[:count].reshape(row[0].shape[1:]), flat[count:].reshape(row[-1].shape[1:])

    def f(x, delta, a, b, c, d, state):
        rows = [
            one_by_one(scan_of_one, peers.torch.cat, *row[:3], a, *row[3:5], d, row[5])
            for row in zip(ids, x, delta, b, c, state, strict=True)
        ]
        parts = (part for both in zip(*rows, strict=True) for part in both)
        return peers.torch.cat([part.flatten() for part in parts])

    flat = np.concatenate([u.ravel(), dstate.ravel()])
    value, grads = peers.value_and_vjp(f, *args, dout=flat)
    options = {"delta_softplus": True, "segment_ids": ids}
    out, state = selective_scan(*args, **options)
    got = np.concatenate([out.ravel(), state.ravel()])
    np.testing.assert_allclose(got, value, rtol=0, atol=4e-15 * abs(value).max())
    found = selective_scan_vjp((u, dstate), *args, **options)
    for name, got, want in zip(OPERANDS, found, grads, strict=True):
        near = 4e-15 * max(abs(want).max(), 4 * steps**0.5)
        np.testing.assert_allclose(got, want, rtol=0, atol=near, err_msg=name)


def test_tangents_of_packed_documents_are_the_complex_step_of_each(rng):
    args = inputs(rng, T=40)
    moves = tuple(rng.normal(size=a.shape) for a in args)
    x, delta, a, b, c, d, state = (y + 1e-30j * dy for y, dy in zip(args, moves, strict=True))
    f = functools.partial(formulas.selective_scan, delta_softplus=True)
    rows = [
        one_by_one(f, np.concatenate, ids, x[i], delta[i], a, b[i], c[i], d, state[i])
        for i, ids in enumerate(ROWS)
    ]
    got = selective_scan_jvp(args, moves, delta_softplus=True, segment_ids=ROWS)
    for ours, want in zip(got, zip(*rows, strict=True), strict=True):
        near = np.stack(want).imag / 1e-30
        np.testing.assert_allclose(ours, near, rtol=0, atol=4e-15 * abs(near).max())


def test_nan_stays_in_its_document(rng):
    x, delta, a, b, c, d, state = inputs(rng, T=40)
    u, dstate = rng.normal(size=x.shape), rng.normal(size=state.shape)
    ids, broken, of_broken = np.arange(40) // 13, x.copy(), u.copy()
    broken[:, 3], of_broken[:, 30] = np.nan, np.inf
    out, last = selective_scan(broken, delta, a, b, c, d, state * np.inf, segment_ids=ids)
    want, end = selective_scan(x, delta, a, b, c, d, state, segment_ids=ids)
    np.testing.assert_array_equal(out[:, 13:], want[:, 13:])
    np.testing.assert_array_equal(last, end)
    operands = x, delta, a, b, c, d, state
    got = selective_scan_vjp((of_broken, dstate), *operands, segment_ids=ids)
    want = selective_scan_vjp((u, dstate), *operands, segment_ids=ids)
    for i in (0, 1, 3, 4):
        np.testing.assert_array_equal(got[i][:, :26], want[i][:, :26])
    np.testing.assert_array_equal(got[6], want[6])


@pytest.mark.parametrize(
    ("error", "message", "ids"),
    [
        (TypeError, "'segment_ids' must be integer, not float64", np.zeros(40)),
        (ValueError, r"'segment_ids' must broadcast to \(..., T\) = \(2, 40\)", ROWS[:, :3]),
    ],
)
def test_errors_of_segment_ids(rng, error, message, ids):
    args = inputs(rng, T=40)
    for call in (
        lambda: selective_scan(*args, segment_ids=ids),
        lambda: selective_scan_vjp((args[0], None), *args, segment_ids=ids),
        lambda: selective_scan_jvp(args, args, segment_ids=ids),
    ):
        with pytest.raises(error, match=message):
            call()


def test_memory_of_the_backward_pass():
    """One state of 16 is kept, so that the workspace is smaller than all states."""
    T, D, N = 8192, 64, 16
    kept = (T // scan.STEPS + scan.STEPS + 2) * N * scan.BLOCK
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
