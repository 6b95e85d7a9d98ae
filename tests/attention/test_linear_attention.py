"""Linear attention: parallel, recurrent, in blocks."""

import itertools
import tracemalloc

import numpy as np
import peers
import pytest

import dlref.attention._linear_attention
from dlref.attention import (
    linear_attention,
    linear_attention_jvp,
    linear_attention_vjp,
    recurrent_linear_attention,
    recurrent_linear_attention_jvp,
    recurrent_linear_attention_vjp,
)
from dlref.formulas import attention as formulas
from dlref.normalization import l2_norm

FEATURES = {
    "elu": lambda x: np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))),
    "exp": np.exp,
    "identity": lambda x: x,
}


class TestForms:
    @pytest.mark.parametrize("feature_map", FEATURES)
    def test_recurrent_is_parallel(self, rng, assert_close, feature_map):
        q, k = rng.normal(size=(2, 2, 9, 4))
        v = rng.normal(size=(2, 9, 3))
        phi = FEATURES[feature_map]
        options = {"feature_map": feature_map, "is_causal": True}
        plain = linear_attention(q, k, v, normalize=False, **options)
        out, state = recurrent_linear_attention(phi(q), phi(k), v)
        assert_close(out, plain)
        assert_close(state, np.swapaxes(phi(k), -1, -2) @ v)
        if feature_map != "identity":  # its denominator may be near 0
            ones = np.concatenate([v, np.ones((2, 9, 1))], -1)
            out, _ = recurrent_linear_attention(phi(q), phi(k), ones)
            assert_close(out[..., :3] / out[..., 3:], linear_attention(q, k, v, **options))

    @pytest.mark.parametrize("normalize", [False, True])
    def test_in_blocks_of_any_size(self, rng, assert_close, monkeypatch, normalize):
        q, k, u = rng.normal(size=(3, 11, 4))
        v = rng.normal(size=(11, 4))
        options = {"is_causal": True, "normalize": normalize}
        want = (
            linear_attention(q, k, v, **options),
            linear_attention_vjp(u, q, k, v, **options),
            linear_attention_jvp((q, k, v), (u, q, k), **options),
        )
        monkeypatch.setattr(dlref.attention._linear_attention, "BLOCK", 3)
        assert_close(linear_attention(q, k, v, **options), want[0])
        assert_close(linear_attention_vjp(u, q, k, v, **options), want[1])
        got = linear_attention_jvp((q, k, v), (u, q, k), **options)
        assert_close(got, want[2], tolerance=1e-14)

    def test_continues_from_a_state(self, rng, assert_close):
        q, k, v = rng.normal(size=(3, 7, 4))
        decay, beta = -rng.random((7, 4)), rng.random(7)
        want, last = recurrent_linear_attention(q, k, v, decay, beta)
        first = slice(None, 3), slice(3, None)
        out, state = recurrent_linear_attention(*(x[first[0]] for x in (q, k, v, decay, beta)))
        rest, end = recurrent_linear_attention(
            *(x[first[1]] for x in (q, k, v, decay, beta)), state
        )
        assert_close(np.concatenate([out, rest]), want)
        assert_close(end, last)

    def test_the_delta_rule_answers_with_what_was_written_last(self, rng, assert_close):
        k = rng.normal(size=(5, 3))
        k /= np.linalg.norm(k, axis=-1, keepdims=True)
        v = rng.normal(size=(5, 2))
        out, _ = recurrent_linear_attention(k, k, v, beta=np.ones(5))
        assert_close(out, v)

    def test_adding_answers_with_what_was_written_under_the_key_only(self, rng, assert_close):
        k, v = np.eye(2)[[0, 1, 0, 1]], rng.normal(size=(4, 2))
        out, _ = recurrent_linear_attention(k, k, v)
        assert_close(out[2:], v[:2] + v[2:])

    def test_one_state_is_kept_at_a_time(self, rng):
        q, k, v = rng.normal(size=(3, 200, 32))
        given = {"beta": np.ones(200), "decay": np.zeros((200, 1))}
        recurrent_linear_attention(q, k, v, **given)
        tracemalloc.start()
        recurrent_linear_attention(q, k, v, **given)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 40 * 8 * 32 * 32  # all states would be 200 of these matrices


class TestAgainstPyTorch:
    @pytest.mark.parametrize("is_causal", [False, True])
    def test_linear(self, rng, is_causal):
        def f(q, k, v):
            torch = peers.torch
            a, b = (torch.nn.functional.elu(x) + 1 for x in (q, k))
            w = a @ b.transpose(-1, -2)
            w = w.tril() if is_causal else w
            return w @ v / w.sum(-1, keepdim=True)

        operands = rng.normal(size=(3, 2, 6, 4))
        peers.assert_same("attention.linear_attention", f, *operands, rng=rng, is_causal=is_causal)

    def test_recurrent(self, rng):
        def f(q, k, v, decay, beta, state):
            out = []
            for t in range(5):
                state = decay[t].exp()[:, None] * state
                error = v[t] - k[t] @ state
                state = state + k[t][:, None] * (beta[t] * error)[None]
                out.append(q[t] @ state)
            return peers.torch.stack(out), state

        operands = [rng.normal(size=s) for s in ((5, 3), (5, 3), (5, 2), (5, 3), (5,), (3, 2))]
        peers.assert_same("attention.recurrent_linear_attention", f, *operands, rng=rng)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def remembered(rng, T, E=5, V=4, *, decay="channel", beta=True, state=True, batch=(2,)):
    """Return the operands of a memory with keys of length 1 and beta up to 2."""
    g = {"channel": E, "head": 1}.get(decay)
    return (
        rng.normal(size=(*batch, T, E)),
        unit(rng.normal(size=(*batch, T, E))),
        rng.normal(size=(*batch, T, V)),
        None if g is None else -rng.exponential(size=(*batch, T, g)),
        rng.uniform(0, 2, size=(*batch, T)) if beta else None,
        rng.normal(size=(*batch, E, V)) if state else None,
    )


def by_steps(torch, q, k, v, decay, beta, state):
    """Return output and last state, in one array, one step after the other."""
    out = []
    for t in range(q.shape[-2]):
        state = state if decay is None else decay[..., t, :, None].exp() * state
        w = v[..., t, :]
        if beta is not None:
            w = beta[..., t, None] * (w - (k[..., t, None, :] @ state)[..., 0, :])
        state = state + k[..., t, :, None] * w[..., None, :]
        out.append(q[..., t, None, :] @ state)
    return torch.cat([*out, state], -2)


CHUNKS = [1, 2, 3, 5, 8, 11, 64, None]


def assert_near(got, want, tolerance):
    """Compare arrays with others, each normwise."""
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * abs(other).max())


def assert_pytorch(rng, f, arrays, *steps, tolerances, **options):
    """Compare output and last state, in one array, and the gradients, with f in PyTorch."""
    dout = rng.normal(size=(2, 11 + 5, 4))
    given = [x for x in arrays if x is not None]
    value, grads = peers.value_and_vjp(f, *given, dout=dout)
    got = np.concatenate(recurrent_linear_attention(*steps, **options), -2)
    assert_near([got], [value], tolerances[0])
    u = dout[:, :11], dout[:, 11:]
    assert_near(recurrent_linear_attention_vjp(u, *steps, **options), grads, tolerances[1])


class TestChunks:
    @pytest.mark.parametrize("chunk", CHUNKS)
    @pytest.mark.parametrize("beta", [False, True])
    @pytest.mark.parametrize("decay", ["none", "head", "channel"])
    def test_pytorch(self, rng, decay, beta, chunk):
        operands = remembered(rng, 11, decay=decay, beta=beta)
        places = [i for i, x in enumerate(operands) if x is not None]

        def f(*arrays):
            found = dict(zip(places, arrays, strict=True))
            return by_steps(peers.torch, *(found.get(i) for i in range(6)))

        assert_pytorch(rng, f, operands, *operands, tolerances=(8e-15, 2e-14), chunk=chunk)

    @pytest.mark.parametrize("chunk", CHUNKS)
    def test_adjoint(self, rng, chunk):
        operands = remembered(rng, 11)
        tangents = [rng.normal(size=x.shape) for x in operands]
        u = rng.normal(size=(2, 11, 4)), rng.normal(size=(2, 5, 4))
        pushed = recurrent_linear_attention_jvp(operands, tangents, chunk=chunk)
        pulled = recurrent_linear_attention_vjp(u, *operands, chunk=chunk)
        there = sum(np.sum(a * b) for a, b in zip(u, pushed, strict=True))
        back = sum(np.sum(a * b) for a, b in zip(pulled, tangents, strict=True))
        size = sum(np.sum(abs(a * b)) for a, b in zip(pulled, tangents, strict=True))
        assert abs(there - back) < 4e-15 * size

    @pytest.mark.parametrize("width", [1, 5])
    @pytest.mark.parametrize("chunk", [3, 16, 64])
    def test_decays_down_to_exp_of_minus_80(self, rng, chunk, width):
        q, k, v, _, beta, state = remembered(rng, 70)
        decay = -rng.choice([0.0, 0.01, 1.0, 80.0], size=(2, 70, width))
        operands = q, k, v, decay, beta, state
        u = rng.normal(size=v.shape), rng.normal(size=state.shape)
        for f, arguments in (
            (recurrent_linear_attention, operands),
            (recurrent_linear_attention_vjp, (u, *operands)),
        ):
            assert_near(f(*arguments, chunk=chunk), f(*arguments, chunk=1), 2e-14)

    @pytest.mark.parametrize("chunk", [1, 4, None])
    def test_nan_reaches_later_steps_only(self, rng, chunk):
        q, k, v, *others = remembered(rng, 9)
        broken = v.copy()
        broken[:, 6] = np.nan
        out, state = recurrent_linear_attention(q, k, broken, *others, chunk=chunk)
        want, _ = recurrent_linear_attention(q, k, v, *others, chunk=1)
        np.testing.assert_array_equal(out[:, :6], want[:, :6])
        assert np.isnan(out[:, 6:]).all()
        assert np.isnan(state).all()

    @pytest.mark.parametrize("chunk", [1, 4, None])
    def test_a_decay_of_minus_infinity_clears_the_memory(self, rng, chunk):
        q, k, v, decay, beta, state = remembered(rng, 9)
        decay[:, 5] = -np.inf
        out, last = recurrent_linear_attention(q, k, v, decay, beta, state, chunk=chunk)
        again = (x[:, 5:] for x in (q, k, v, decay, beta))
        want, end = recurrent_linear_attention(*again, chunk=chunk)
        np.testing.assert_allclose(out[:, 5:], want, atol=1e-14)
        np.testing.assert_allclose(last, end, atol=1e-14)

    @pytest.mark.parametrize("chunk", [1, 4, None])
    def test_no_steps(self, chunk):
        q, state = np.ones((2, 0, 3)), np.ones((2, 3, 4))
        v = np.ones((2, 0, 4))
        out, last = recurrent_linear_attention(q, q, v, None, None, state, chunk=chunk)
        assert out.shape == v.shape
        np.testing.assert_array_equal(last, state)
        grads = recurrent_linear_attention_vjp((v, state), q, q, v, None, None, state, chunk=chunk)
        np.testing.assert_array_equal(grads[-1], state)

    def test_one_state_is_kept_for_each_chunk(self, rng):
        q, k, v, decay, beta, _ = remembered(rng, 2048, 32, 32, decay="head", batch=())
        u = np.ones(v.shape), np.ones((32, 32))
        most = []
        for steps in (1024, 2048):
            few = [x[:steps] for x in (q, k, v, decay, beta)]
            tracemalloc.start()
            grads = recurrent_linear_attention_vjp((u[0][:steps], u[1]), *few)
            most.append(tracemalloc.get_traced_memory()[1] - sum(g.nbytes for g in grads))
            tracemalloc.stop()
        assert most[1] - most[0] < 1.2 * 1024 / 32 * 8 * 32 * 32

    def test_errors(self, rng):
        operands = remembered(rng, 3)
        with pytest.raises(ValueError, match=r"^Argument 'chunk' must be at least 1, not 0"):
            recurrent_linear_attention(*operands, chunk=0)
        with pytest.raises(TypeError, match=r"^Argument 'chunk' must be an integer, not 1.5"):
            recurrent_linear_attention_jvp(operands, 6 * (None,), chunk=1.5)


def erasing(torch, q, k, v, decay, state, a, b):
    """Return output and last state, in one array, with the transition as a matrix."""
    out = []
    for t in range(q.shape[-2]):
        fade = torch.eye(q.shape[-1], dtype=q.dtype)
        if decay is not None:
            fade = decay[..., t, :, None].exp() * fade
        transition = fade + b[..., t, :, None] * a[..., t, None, :]
        state = transition @ state + k[..., t, :, None] * v[..., t, None, :]
        out.append(q[..., t, None, :] @ state)
    return torch.cat([*out, state], -2)


class TestErase:
    """A correction whose keys are not the key that is written to."""

    @pytest.mark.parametrize("chunk", CHUNKS)
    @pytest.mark.parametrize("decay", ["none", "head", "channel"])
    def test_pytorch(self, rng, decay, chunk):
        q, k, v, g, _, state = remembered(rng, 11, decay=decay, beta=False)
        operands = q, k, v, g, state, *rng.normal(size=(2, *q.shape)) / 2

        def f(*arrays):
            each = iter(arrays)
            return erasing(peers.torch, *(None if x is None else next(each) for x in operands))

        *inputs, state, a, b = operands
        options = {"state": state, "erase": (a, b), "chunk": chunk}
        assert_pytorch(rng, f, operands, *inputs, tolerances=(4e-15, 4e-15), **options)

    @pytest.mark.parametrize("decay", ["none", "head", "channel"])
    def test_is_the_formula(self, rng, assert_close, decay):
        *inputs, _, state = remembered(rng, 7, decay=decay, beta=False)
        erase, u = rng.normal(size=(2, 2, 7, 5)) / 2, (inputs[2], state)
        options = {"state": state, "erase": tuple(erase), "scale": 0.5}
        assert_close(
            recurrent_linear_attention(*inputs, **options),
            formulas.recurrent_linear_attention(*inputs, **options),
        )
        assert_close(
            recurrent_linear_attention_vjp(u, *inputs, **options),
            formulas.recurrent_linear_attention_vjp(u, *inputs, **options),
        )

    @pytest.mark.parametrize("decay", ["none", "channel"])
    def test_tangent_is_the_complex_step(self, rng, assert_close, decay):
        operands = remembered(rng, 7, decay=decay, beta=False)
        erase = tuple(rng.normal(size=(2, 2, 7, 5)) / 2)
        moves = tuple(None if x is None else rng.normal(size=x.shape) for x in operands)
        derase = tuple(rng.normal(size=(2, 2, 7, 5)))

        def stepped(x, dx):
            return None if x is None else x + 1e-30j * dx

        moved = [stepped(x, dx) for x, dx in zip(operands, moves, strict=True)]
        both = [stepped(x, dx) for x, dx in zip(erase, derase, strict=True)]
        want = formulas.recurrent_linear_attention(*moved, erase=both, scale=0.5)
        got = recurrent_linear_attention_jvp(operands, moves, erase=erase, derase=derase, scale=0.5)
        assert_close(got, tuple(x.imag / 1e-30 for x in want))

    def test_a_missing_tangent_is_zero(self, rng):
        operands = remembered(rng, 3, beta=False)
        erase = tuple(rng.normal(size=(2, 2, 3, 5)))
        for derase in (None, (None, None), np.zeros_like(erase)):
            out, state = recurrent_linear_attention_jvp(
                operands, 6 * (None,), erase=erase, derase=None if derase is None else (*derase,)
            )
            assert not out.any()
            assert not state.any()

    @pytest.mark.parametrize("chunk", [1, 4, None])
    def test_the_delta_rule_as_an_erasure(self, rng, chunk):
        q, k, v, g, beta, state = remembered(rng, 11)
        want = recurrent_linear_attention(q, k, v, g, beta, state)
        b = beta[..., None]
        got = recurrent_linear_attention(
            q, k, b * v, g, state=state, erase=(-np.exp(g) * k, b * k), chunk=chunk
        )
        assert_near(got, want, 1e-14)

    @pytest.mark.parametrize("width", [1, 5])
    @pytest.mark.parametrize("chunk", [3, 16, 64])
    def test_decays_down_to_exp_of_minus_80(self, rng, chunk, width):
        q, k, v, _, _, state = remembered(rng, 70)
        decay = -rng.choice([0.0, 0.01, 1.0, 80.0], size=(2, 70, width))
        operands, options = (q, k, v, decay), {"state": state, "erase": (-k, 0.9 * k)}
        u = rng.normal(size=v.shape), rng.normal(size=state.shape)
        for f, arguments in (
            (recurrent_linear_attention, operands),
            (recurrent_linear_attention_vjp, (u, *operands)),
        ):
            got = f(*arguments, **options, chunk=chunk)
            assert_near(got, f(*arguments, **options, chunk=1), 2e-14)

    @pytest.mark.parametrize("chunk", [1, 4, None])
    def test_nan_reaches_later_steps_only(self, rng, chunk):
        q, k, v, g, _, state = remembered(rng, 9, beta=False)
        broken = -k
        broken[:, 6] = np.nan
        options = {"state": state, "chunk": chunk}
        out, last = recurrent_linear_attention(q, k, v, g, erase=(broken, k), **options)
        want, _ = recurrent_linear_attention(q, k, v, g, erase=(-k, k), **options)
        np.testing.assert_allclose(out[:, :6], want[:, :6], rtol=1e-13)
        assert np.isnan(out[:, 6:]).all()
        assert np.isnan(last).all()

    def test_types(self, rng):
        q, k, v, g, *_ = remembered(rng, 5, beta=False)
        narrow = [x.astype(np.float32) for x in (q, k, v, g)]
        out, last = recurrent_linear_attention(*narrow, erase=(narrow[1], narrow[1]))
        assert out.dtype == last.dtype == np.float32
        assert recurrent_linear_attention(*narrow, erase=(k, k))[0].dtype == np.float64

    def test_errors(self, rng):
        q, k, v, g, beta, state = remembered(rng, 3)
        with pytest.raises(ValueError, match=r"^Argument 'beta' must be None where 'erase' is"):
            recurrent_linear_attention(q, k, v, g, beta, state, erase=(k, k))
        with pytest.raises(ValueError, match=r"^Argument 'erase' must be a tuple of 2 arrays"):
            recurrent_linear_attention(q, k, v, erase=(k,))
        with pytest.raises(ValueError, match=r"^Argument 'erase\[1\]' must have shape \(2, 3, 5\)"):
            recurrent_linear_attention(q, k, v, erase=(k, v))
        with pytest.raises(TypeError, match=r"^Argument 'erase\[0\]' must be an array, not None"):
            recurrent_linear_attention_vjp((None, None), q, k, v, erase=(None, k))
        primals = q, k, v, None, None, None
        with pytest.raises(ValueError, match=r"^Argument 'derase' must be None"):
            recurrent_linear_attention_jvp(primals, 6 * (None,), derase=(k, k))
        with pytest.raises(ValueError, match=r"^Argument 'derase\[1\]' must have shape"):
            recurrent_linear_attention_jvp(primals, 6 * (None,), erase=(k, k), derase=(k, v))

    def test_rwkv_7(self, rng):
        """Equations of the paper, whose memory is (V, E): rows are values."""
        T, E, V = 9, 5, 4
        r, k = rng.normal(size=(2, T, E))
        v, w, rate = rng.normal(size=(T, V)), rng.uniform(size=(T, E)), rng.uniform(size=(T, E))
        removed = unit(rng.normal(size=(T, E)))
        S, want = np.zeros((V, E)), []
        for t in range(T):
            transition = np.diag(w[t]) - np.outer(removed[t], rate[t] * removed[t])
            S = S @ transition + np.outer(v[t], k[t])
            want.append(S @ r[t])
        out, last = recurrent_linear_attention(r, k, v, np.log(w), erase=(-removed, rate * removed))
        np.testing.assert_allclose(out, want, atol=1e-14)
        np.testing.assert_allclose(last.T, S, atol=1e-14)

    def test_comba(self, rng):
        """One decay a head, and a rate of removal beside the rate of writing."""
        T, E, V = 9, 5, 4
        q, k = unit(rng.normal(size=(2, T, E)))
        v, fade = rng.normal(size=(T, V)), rng.uniform(size=T)
        write, remove = rng.uniform(size=(2, T))
        S, want = np.zeros((V, E)), []
        for t in range(T):
            transition = fade[t] * np.eye(E) - remove[t] * np.outer(k[t], k[t])
            S = S @ transition + write[t] * np.outer(v[t], k[t])
            want.append(S @ q[t])
        got, _ = recurrent_linear_attention(
            q, k, write[:, None] * v, np.log(fade)[:, None], erase=(-k, remove[:, None] * k)
        )
        np.testing.assert_allclose(got, want, atol=1e-14)

    def test_gated_deltanet_2(self, rng):
        """An erase gate on the channels of the key, a write gate on those of the value."""
        T, E, V = 9, 5, 4
        q, k = unit(rng.normal(size=(2, T, E)))
        v, g = rng.normal(size=(T, V)), -rng.exponential(size=(T, E))
        erase, write = rng.uniform(size=(T, E)), rng.uniform(size=(T, V))
        S, want = np.zeros((E, V)), []
        for t in range(T):
            S = np.exp(g[t])[:, None] * S
            S = S + np.outer(k[t], write[t] * v[t] - (erase[t] * k[t]) @ S)
            want.append(q[t] @ S)
        got, _ = recurrent_linear_attention(q, k, write * v, g, erase=(-np.exp(g) * erase * k, k))
        np.testing.assert_allclose(got, want, atol=1e-14)


#: Segment ids of two rows: long and short documents, and a number that comes back.
ROWS = np.array([[0, 0, 0, 0, 0, 5, 5, 1, 0, 0, 0], [2, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4]])


def by_documents(f, joined, steps, state, erase):
    """Return output and state of each row, one call of f for each document, in one array."""
    rows = []
    for i, ids in enumerate(ROWS):
        cuts, memory = [0, *(np.flatnonzero(np.diff(ids)) + 1), len(ids)], state[i]
        outs = []
        for start, stop in itertools.pairwise(cuts):
            of_steps = [None if x is None else x[i, start:stop] for x in steps]
            keys = None if erase is None else tuple(x[i, start:stop] for x in erase)
            out, memory = f(*of_steps, memory if start == 0 else 0 * state[i], keys)
            outs.append(out)
        rows.append(joined([*outs, memory]))
    return rows


KINDS = [
    ("none", True, False),
    ("head", True, False),
    ("channel", True, False),
    ("channel", False, False),
    ("none", False, True),
    ("head", False, True),
    ("channel", False, True),
]


def packed_operands(rng, decay, beta, erase):
    """Return steps, state and erase keys of two rows of 11 steps."""
    *steps, state = remembered(rng, 11, decay=decay, beta=beta)
    return steps, state, tuple(rng.normal(size=(2, 2, 11, 5)) / 2) if erase else None


class TestPackedDocuments:
    """Each document is as if it stood alone."""

    @pytest.mark.parametrize("chunk", CHUNKS)
    @pytest.mark.parametrize(("decay", "beta", "erase"), KINDS)
    def test_one_by_one(self, rng, decay, beta, erase, chunk):
        steps, state, keys = packed_operands(rng, decay, beta, erase)

        def alone(q, k, v, g, rate, memory, keys):
            return recurrent_linear_attention(q, k, v, g, rate, memory, erase=keys, chunk=chunk)

        want = np.stack(by_documents(alone, np.concatenate, steps, state, keys))
        got = recurrent_linear_attention(*steps, state, erase=keys, chunk=chunk, segment_ids=ROWS)
        assert_near([np.concatenate(got, -2)], [want], 4e-15)

    @pytest.mark.parametrize("chunk", [1, 3, 8, None])
    @pytest.mark.parametrize(("decay", "beta", "erase"), KINDS)
    def test_gradients_of_pytorch(self, rng, decay, beta, erase, chunk):
        steps, state, keys = packed_operands(rng, decay, beta, erase)
        every = [*steps, state, *(keys or ())]

        def alone(q, k, v, g, rate, memory, keys):
            if keys is None:
                both = by_steps(peers.torch, q, k, v, g, rate, memory)
            else:
                both = erasing(peers.torch, q, k, v, g, memory, *keys)
            return both[: len(q)], both[len(q) :]

        def f(*arrays):
            left = iter(arrays)
            *steps, state, a, b = [
                None if x is None else next(left) for x in [*every, None, None][:8]
            ]
            pair = None if a is None else (a, b)
            return peers.torch.stack(by_documents(alone, peers.torch.cat, steps, state, pair))

        options = {"erase": keys, "chunk": chunk, "segment_ids": ROWS}
        assert_pytorch(rng, f, every, *steps, state, tolerances=(4e-15, 8e-15), **options)

    @pytest.mark.parametrize(("decay", "beta", "erase"), KINDS)
    def test_tangents_are_the_complex_step_of_each(self, rng, assert_close, decay, beta, erase):
        steps, state, keys = packed_operands(rng, decay, beta, erase)

        def moves(arrays):
            return [None if x is None else rng.normal(size=x.shape) for x in arrays]

        def stepped(arrays, by):
            return [
                None if x is None else x + 1e-30j * dx for x, dx in zip(arrays, by, strict=True)
            ]

        dsteps, (dstate,), derase = moves(steps), moves([state]), moves(keys or ())

        def alone(q, k, v, g, rate, memory, keys):
            return formulas.recurrent_linear_attention(q, k, v, g, rate, memory, erase=keys)

        pair = tuple(stepped(keys, derase)) if keys else None
        (first,) = stepped([state], [dstate])
        want = by_documents(alone, np.concatenate, stepped(steps, dsteps), first, pair)
        got = recurrent_linear_attention_jvp(
            (*steps, state),
            (*dsteps, dstate),
            erase=keys,
            derase=tuple(derase) if keys else None,
            segment_ids=ROWS,
        )
        assert_close(np.concatenate(got, -2), np.stack(want).imag / 1e-30)

    @pytest.mark.parametrize("chunk", [1, 4, None])
    def test_nan_stays_in_its_document(self, rng, chunk):
        steps, state, keys = packed_operands(rng, "channel", False, True)
        options = {"erase": keys, "chunk": chunk, "segment_ids": ROWS[1]}
        q, k, v, g, _ = steps
        u = rng.normal(size=v.shape), rng.normal(size=state.shape)
        broken, of_broken = v.copy(), u[0].copy()
        broken[:, 0] = np.inf
        out, last = recurrent_linear_attention(q, k, broken, g, None, state * np.nan, **options)
        want, end = recurrent_linear_attention(q, k, v, g, None, state, **options)
        np.testing.assert_allclose(out[:, 1:], want[:, 1:], rtol=0, atol=1e-14)
        np.testing.assert_allclose(last, end, rtol=0, atol=1e-14)
        of_broken[:, 9:] = np.nan  # of the last document: the gradient runs to earlier steps
        grads = recurrent_linear_attention_vjp((of_broken, u[1]), *steps, state, **options)
        for got, of in zip(
            grads, recurrent_linear_attention_vjp(u, *steps, state, **options), strict=True
        ):
            np.testing.assert_allclose(got[:, :9], of[:, :9], rtol=0, atol=1e-13)

    @pytest.mark.parametrize("chunk", [1, 4, None])
    def test_no_gradient_of_the_decay_of_a_first_step(self, rng, chunk):
        steps, state, _ = packed_operands(rng, "channel", True, False)
        u = rng.normal(size=steps[2].shape), rng.normal(size=state.shape)
        *_, dg, _, _ = recurrent_linear_attention_vjp(
            u, *steps, state, chunk=chunk, segment_ids=ROWS
        )
        first = np.diff(ROWS, axis=1, prepend=ROWS[:, :1]) != 0
        np.testing.assert_array_equal(dg[first], 0)
        assert dg[~first].all()

    def test_a_decay_of_minus_infinity_is_the_same_without_erase_keys(self, rng):
        (q, k, v, g, beta), state, keys = packed_operands(rng, "channel", True, True)
        ids, cleared = np.arange(11) // 6, g.copy()
        cleared[:, 6] = -np.inf
        for rate, erase, same in ((beta, None, True), (None, None, True), (None, keys, False)):
            got = recurrent_linear_attention(q, k, v, cleared, rate, state, erase=erase)
            want = recurrent_linear_attention(q, k, v, g, rate, state, erase=erase, segment_ids=ids)
            assert np.allclose(got[0], want[0], rtol=0, atol=1e-14) == same
            assert np.allclose(got[1], want[1], rtol=0, atol=1e-14) == same

    def test_the_next_call_continues_the_last_document(self, rng):
        steps, state, _ = packed_operands(rng, "head", True, False)
        ids = np.array([0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4])
        whole, last = recurrent_linear_attention(*steps, state, segment_ids=ids)
        first, between = recurrent_linear_attention(
            *(x[:, :6] for x in steps), state, segment_ids=ids[:6]
        )
        second, end = recurrent_linear_attention(
            *(x[:, 6:] for x in steps), between, segment_ids=ids[6:]
        )
        np.testing.assert_allclose(np.concatenate([first, second], 1), whole, atol=1e-14)
        np.testing.assert_allclose(end, last, atol=1e-14)

    def test_heads_share_the_documents_of_their_row(self, rng):
        operands = remembered(rng, 11, batch=(2, 3))
        shared = recurrent_linear_attention(*operands, segment_ids=ROWS[:, None])
        every = np.repeat(ROWS[:, None], 3, axis=1)
        for got, want in zip(
            shared, recurrent_linear_attention(*operands, segment_ids=every), strict=True
        ):
            np.testing.assert_array_equal(got, want)

    @pytest.mark.parametrize(
        ("error", "message", "ids"),
        [
            (TypeError, "'segment_ids' must be integer, not float64", np.zeros(11)),
            (ValueError, r"'segment_ids' must broadcast to \(..., T\) = \(2, 11\)", ROWS[:, :3]),
        ],
    )
    def test_errors(self, rng, error, message, ids):
        operands = remembered(rng, 11)
        u = operands[2], operands[5]
        for call in (
            lambda: recurrent_linear_attention(*operands, segment_ids=ids),
            lambda: recurrent_linear_attention_vjp(u, *operands, segment_ids=ids),
            lambda: recurrent_linear_attention_jvp(operands, operands, segment_ids=ids),
        ):
            with pytest.raises(error, match=message):
                call()


class TestModels:
    """The arguments that make the models of the docstring."""

    def test_without_beta_it_is_masked_attention_with_decaying_weights(self, rng):
        """Retention and Mamba-2's SSD: the duality."""
        q, k, v, g, _, _ = remembered(rng, 20, decay="head", beta=False, state=False)
        c = np.cumsum(g[..., 0], -1)
        weights = np.tril(np.exp(np.minimum(c[:, :, None] - c[:, None], 0)))
        out, _ = recurrent_linear_attention(q, k, v, g)
        np.testing.assert_allclose(out, (weights * (q @ k.swapaxes(-1, -2))) @ v, atol=1e-14)

    def test_the_ssd_layer_of_mamba_2(self, rng):
        """The state-space equations, h = exp(dt a) h + dt x B', y = h C, head by head."""
        T, heads, width, N = 12, 3, 4, 5
        x, dt = rng.normal(size=(T, heads, width)), rng.uniform(0.01, 1, size=(T, heads))
        a, B, C = -rng.uniform(0.5, 4, size=heads), *rng.normal(size=(2, T, N))
        h, y = np.zeros((heads, width, N)), []
        for t in range(T):
            h = np.exp(dt[t] * a)[:, None, None] * h
            h = h + (dt[t, :, None] * x[t])[:, :, None] * B[t]
            y.append(h @ C[t])
        shared = np.tile(C, (heads, 1, 1)), np.tile(B, (heads, 1, 1))
        v = (dt[..., None] * x).swapaxes(0, 1)
        out, state = recurrent_linear_attention(*shared, v, (dt * a).T[..., None])
        np.testing.assert_allclose(out.swapaxes(0, 1), y, atol=1e-14)
        np.testing.assert_allclose(state.swapaxes(-1, -2), h, atol=1e-14)

    def test_gated_deltanet_of_qwen3_next(self, rng):
        module = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next")
        torch = pytest.importorskip("torch")
        q, k, v = rng.normal(size=(3, 2, 70, 3, 8)).astype(np.float32)  # (B, T, H, E)
        g = -rng.exponential(size=(2, 70, 3)).astype(np.float32)
        beta = rng.uniform(0, 1, size=(2, 70, 3)).astype(np.float32)
        want, state = module.torch_chunk_gated_delta_rule(
            *(torch.tensor(x) for x in (q, k, v)),
            g=torch.tensor(g),
            beta=torch.tensor(beta),
            output_final_state=True,
            use_qk_l2norm_in_kernel=True,
        )
        q, k, v = (x.swapaxes(1, 2) for x in (l2_norm(q), l2_norm(k), v))
        operands = q, k, v, g.swapaxes(1, 2)[..., None], beta.swapaxes(1, 2)
        out, last = recurrent_linear_attention(*operands, scale=8**-0.5)
        np.testing.assert_allclose(out.swapaxes(1, 2), want.numpy(), atol=2e-6)
        np.testing.assert_allclose(last, state.numpy(), atol=2e-6)


class TestEdges:
    def test_rows_without_weight_are_zero(self):
        zero, v = np.zeros((1, 2)), np.ones((1, 1))
        options = {"feature_map": "identity"}
        assert linear_attention(zero, zero, v, **options) == 0
        assert all(np.all(g == 0) for g in linear_attention_vjp(v, zero, zero, v, **options))
        assert linear_attention_jvp((zero, zero, v), (zero, zero, v), **options) == 0

    @pytest.mark.parametrize(("q", "k"), [(354.0, 354.0), (700.0, 8.0), (8.0, 700.0)])
    def test_exp_overflows_with_the_sum_of_query_and_key(self, q, k):
        def attend(k):
            return linear_attention([[q]], [[k]], [[1.0]], feature_map="exp").item()

        assert attend(k) == pytest.approx(1)
        assert np.isnan(attend(k + 2))

    def test_elu_features_do_not_overflow(self):
        x = np.array([[800.0, -800.0]])
        assert linear_attention(x, x, [[3.0]]) == 3


class TestErrors:
    def test_causal_needs_a_key_for_each_query(self):
        q, k = np.ones((3, 2)), np.ones((4, 2))
        with pytest.raises(ValueError, match=r"'k' must have shape \(3, 2\), not \(4, 2\)"):
            linear_attention(q, k, k, is_causal=True)

    def test_options(self):
        q = np.ones((3, 2))
        with pytest.raises(ValueError, match="'feature_map' must be 'elu', 'exp' or 'identity'"):
            linear_attention(q, q, q, feature_map="relu")
        with pytest.raises(TypeError, match="'normalize' must be True or False, not 3"):
            linear_attention(q, q, q, normalize=3)

    def test_recurrent(self):
        q = np.ones((3, 2))
        f = recurrent_linear_attention
        words = r"'decay' must have shape \(3, 1\) or \(3, 2\), not \(2, 2\)"
        with pytest.raises(ValueError, match=words):
            f(q, q, q, q[:2])
        with pytest.raises(ValueError, match=r"'beta' must have shape \(3,\), not \(3, 2\)"):
            f(q, q, q, None, q)
        with pytest.raises(ValueError, match=r"'state' must have shape \(2, 2\), not \(3, 2\)"):
            f(q, q, q, state=q)
        with pytest.raises(TypeError, match="'v' must be an array, not None"):
            f(q, q, None)
        with pytest.raises(ValueError, match=r"'tangents\[4\]' must be None, as it belongs"):
            recurrent_linear_attention_jvp((q, q, q, *3 * [None]), (q, q, q, None, q, None))
