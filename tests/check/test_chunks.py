"""Kernels that compute all steps of a chunk at once, and what goes wrong within one."""

import itertools

import numpy as np
import pytest

from dlref import attention as att
from dlref import check
from dlref.check._oracle import usual
from dlref.formulas import attention

R = np.random.default_rng(12)
LINEAR = att.recurrent_linear_attention


def tokens(B, T, E, V, *, width=1, scale=0.5):
    q, k = R.normal(0, scale, size=(2, B, 2, T, E))
    decay, beta = -R.uniform(0.05, 0.7, (B, 2, T, width)), R.uniform(0, 1, (B, 2, T))
    return q, k, R.normal(size=(B, 2, T, V)), decay, beta


@pytest.mark.parametrize("width", [1, 3])
def test_all_steps_at_once_are_one_after_the_other(width):
    q, k, v, decay, beta = tokens(2, 5, 3, 4, width=width)
    state = R.normal(size=(2, 2, 3, 4))
    for some in itertools.product((decay, None), (beta, None), (state, None)):
        given = q, k, v, *some
        got = usual.recurrent_linear_attention_by_chunks(*given, scale=0.25)
        want = attention.recurrent_linear_attention(*given, scale=0.25)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "options",
    [{"segment_ids": np.array([0, 0, 1, 1])}, {"erase": tuple(R.normal(size=(2, 1, 2, 4, 3)))}],
)
def test_documents_and_erased_keys_are_taken_step_by_step(options):
    given = tokens(1, 4, 3, 2)
    got = usual.recurrent_linear_attention_by_chunks(*given, **options)
    want = attention.recurrent_linear_attention(*given, **options)
    assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))


def chunk(q, k, v, decay, beta, slip=""):
    """One chunk, whose system is solved by substitution."""
    c = np.cumsum(decay[..., 0], -1)
    fade = np.exp(np.minimum(c[..., :, None] - c[..., None, :], 0))
    below, b = np.tri(q.shape[-2], k=-1), beta[..., None]
    keys = k @ k.mT * below * (1 if slip == "keys without decay" else fade)
    w = b * v
    for t in range(1, q.shape[-2]):
        w[..., t, :] -= b[..., t, :] * (keys[..., t, None, :t] @ w[..., :t, :])[..., 0, :]
    seen = below if slip == "no own key" else np.tri(q.shape[-2])
    out = (q @ k.mT * seen * fade) @ w
    rest = np.exp(c[..., -1:, None] - c[..., None])
    return out, (k if slip == "a state without decay" else rest * k).mT @ w


CASES = [
    check.TestCase(f"case {n}", tokens(*shape), {})
    for n, shape in enumerate([(1, 5, 3, 4), (2, 7, 4, 3), (3, 6, 2, 5)])
]


@pytest.mark.parametrize(
    ("slip", "message"),
    [
        ("keys without decay", "k[..., :, None, :] stands where k[..., :, None, :] * fade is due"),
        ("no own key", "comes after out.append("),
        ("a state without decay", "k stands where exp(c[..., -1:, :] - c) * k is due"),
    ],
)
def test_mistakes_within_a_chunk_are_named(slip, message):
    report = check.check_all(lambda *a: chunk(*a, slip=slip), LINEAR, cases=CASES, dtype="float64")
    assert len(report.failed) == 3
    assert all(message in cause for cause in report.causes), report


def test_a_right_chunk_is_right():
    assert check.check_all(chunk, LINEAR, cases=CASES, dtype="float64")
