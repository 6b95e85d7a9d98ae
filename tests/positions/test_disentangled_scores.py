"""Scores of DeBERTa, against the module of DeBERTa-v2."""

import numpy as np
import pytest

from dlref.positions import (
    disentangled_scores,
    disentangled_scores_vjp,
    shaw_scores,
)

H, E = 2, 3


@pytest.mark.parametrize("kinds", [["c2p"], ["p2c"], ["c2p", "p2c"]])
@pytest.mark.parametrize(("buckets", "T"), [(None, 5), (8, 40)])
def test_the_module_of_deberta(rng, kinds, buckets, T):
    torch = pytest.importorskip("torch")
    source = pytest.importorskip("transformers.models.deberta_v2.modeling_deberta_v2")
    config = source.DebertaV2Config(
        hidden_size=H * E, num_attention_heads=H, relative_attention=True, pos_att_type=kinds,
        position_buckets=buckets or -1, max_relative_positions=16, share_att_key=False,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    module = source.DisentangledSelfAttention(config).double().eval()
    span = module.pos_ebd_size
    table = rng.normal(size=(2 * span, H * E))
    q, k = rng.normal(size=(2, H, T, E))
    n = 1 + len(kinds)
    with torch.no_grad():
        want = module.disentangled_attention_bias(
            torch.tensor(q), torch.tensor(k), None, torch.tensor(table), n
        ).numpy()

    def projected(name):
        if not hasattr(module, name):
            return np.zeros((H, 2 * span, E))
        with torch.no_grad():
            rows = getattr(module, name)(torch.tensor(table)).numpy()
        return rows.reshape(2 * span, H, E).swapaxes(0, 1)

    options = {} if buckets is None else {"num_buckets": buckets, "max_distance": 16}
    got = disentangled_scores(
        q, k, projected("pos_query_proj"), projected("pos_key_proj"), c2p="c2p" in kinds,
        p2c="p2c" in kinds, **options,
    )  # fmt: skip
    got = (got - q @ k.swapaxes(-1, -2)) / np.sqrt(E * n)
    # the module rounds its scale to float32
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-7 * abs(want).max())


def test_pytorch(rng):
    peers = pytest.importorskip("peers")
    T, S, L = 5, 6, 4
    args = tuple(rng.normal(size=s) for s in ((2, H, T, E), (2, H, S, E), (H, L, E), (H, L, E)))
    row = peers.torch.tensor(np.clip(np.arange(T)[:, None] - np.arange(S) + L // 2, 0, L - 1))

    def f(q, k, pos_q, pos_k):
        content = q @ k.mT
        c2p = peers.torch.einsum("bhie,hije->bhij", q, pos_k[:, row])
        return content + c2p + peers.torch.einsum("bhje,hije->bhij", k, pos_q[:, row])

    peers.assert_same("positions.disentangled_scores", f, *args, rng=rng)


def test_keys_of_zero_leave_shaw(rng):
    q, table = rng.normal(size=(6, E)), rng.normal(size=(5, E))
    rows = np.concatenate([table[::-1], table[:1]])[None]  # the offset i - j, and an even length
    got = disentangled_scores(q[None], np.zeros((1, 6, E)), 0 * rows, rows, p2c=False)
    near = abs(np.subtract.outer(np.arange(6), np.arange(6))) <= 1
    np.testing.assert_allclose(got[0][near], _shifted(q, table)[near], rtol=0, atol=1e-14)


def _shifted(q, table):
    """Return Shaw's scores with the table one offset later, since 0 is the row 3 of 6."""
    return shaw_scores(q, np.roll(table, 1, axis=0))


def test_flags_have_no_gradient(rng):
    args = tuple(rng.normal(size=s) for s in ((H, 3, E), (H, 3, E), (H, 4, E), (H, 4, E)))
    grads = disentangled_scores_vjp(np.ones((H, 3, 3)), *args, c2p=False)
    assert not grads[3].any()
    assert grads[2].any()


def test_errors():
    q, table = np.ones((H, 3, E)), np.ones((H, 4, E))
    for change, words in (
        ({"num_buckets": 3}, "'num_buckets' must be at least 4"),
        ({"num_buckets": 5}, "'num_buckets' must be even"),
        ({"num_buckets": 8, "max_distance": 5}, "'max_distance' must be at least 6"),
        ({"max_distance": 5}, "'max_distance' must be None without num_buckets"),
    ):
        with pytest.raises(ValueError, match=f"^Argument {words}"):
            disentangled_scores(q, q, table, table, **change)
    with pytest.raises(TypeError, match=r"^Argument 'max_distance' must be an integer, not None"):
        disentangled_scores(q, q, table, table, num_buckets=4)
    with pytest.raises(ValueError, match=r"^Argument 'pos_q' must have shape \(2, L, 3\)"):
        disentangled_scores(q, q, table[0], table)
    with pytest.raises(ValueError, match=r"^Argument 'pos_k' must have shape \(2, 4, 3\)"):
        disentangled_scores(q, q, table, table[:, 1:])
    with pytest.raises(ValueError, match=r"^Argument 'pos_q' must have an even number of rows"):
        disentangled_scores(q, q, table[:, 1:], table[:, 1:])
    with pytest.raises(ValueError, match=r"^Argument 'pos_q' must have an even number of rows"):
        disentangled_scores(q, q, table[:, :0], table[:, :0])
    with pytest.raises(TypeError, match=r"^Argument 'c2p' must be True or False"):
        disentangled_scores(q, q, table, table, c2p=1)
