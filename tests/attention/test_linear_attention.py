"""Linear attention: parallel, recurrent, in blocks."""

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
        recurrent_linear_attention(q, k, v)
        tracemalloc.start()
        recurrent_linear_attention(q, k, v, beta=np.ones(200), decay=np.zeros((200, 1)))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 40 * 8 * 32 * 32  # all states would be 200 of these matrices


class TestAgainstPyTorch:
    @pytest.mark.parametrize("is_causal", [False, True])
    def test_linear(self, rng, assert_close, is_causal):
        def f(q, k, v):
            torch = peers.torch
            a, b = (torch.nn.functional.elu(x) + 1 for x in (q, k))
            w = a @ b.transpose(-1, -2)
            w = w.tril() if is_causal else w
            return w @ v / w.sum(-1, keepdim=True)

        q, k, u = rng.normal(size=(3, 2, 6, 4))
        v = rng.normal(size=(2, 6, 4))
        value, grads = peers.value_and_vjp(f, q, k, v, dout=u)
        assert_close(linear_attention(q, k, v, is_causal=is_causal), value)
        assert_close(linear_attention_vjp(u, q, k, v, is_causal=is_causal), grads)

    def test_recurrent(self, rng, assert_close):
        def f(q, k, v, decay, beta, state):
            out = []
            for t in range(5):
                state = decay[t].exp()[:, None] * state
                error = v[t] - k[t] @ state
                state = state + k[t][:, None] * (beta[t] * error)[None]
                out.append(q[t] @ state)
            return peers.torch.cat([*out, state.reshape(-1)])

        shapes = (5, 3), (5, 3), (5, 2), (5, 3), (5,), (3, 2)
        operands = [rng.normal(size=s) for s in shapes]
        u, d = rng.normal(size=(5, 2)), rng.normal(size=(3, 2))
        dout = np.concatenate([u.ravel(), d.ravel()])
        value, grads = peers.value_and_vjp(f, *operands, dout=dout)
        out, state = recurrent_linear_attention(*operands)
        assert_close(np.concatenate([out.ravel(), state.ravel()]), value)
        got = recurrent_linear_attention_vjp((u, d), *operands)
        assert_close(got, grads, tolerance=1e-14)


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
        with pytest.raises(ValueError, match=r"'decay' must have shape \(3, 2\), not \(2, 2\)"):
            f(q, q, q, q[:2])
        with pytest.raises(ValueError, match=r"'beta' must have shape \(3,\), not \(3, 2\)"):
            f(q, q, q, None, q)
        with pytest.raises(ValueError, match=r"'state' must have shape \(2, 2\), not \(3, 2\)"):
            f(q, q, q, state=q)
        with pytest.raises(TypeError, match="'v' must be an array, not None"):
            f(q, q, None)
        with pytest.raises(ValueError, match=r"'tangents\[4\]' must be None, as it belongs"):
            recurrent_linear_attention_jvp((q, q, q, *3 * [None]), (q, q, q, None, q, None))
