"""Tests of dlref.positions._t5."""

import itertools

import numpy as np
import pytest

import dlref.positions as P

SETTINGS = [
    {"bidirectional": b, "num_buckets": n, "max_distance": m}
    for b, (n, m) in itertools.product([True, False], [(32, 128), (64, 256), (8, 20), (33, 100)])
]
OFFSETS = range(-2000, 2001)


def by_integers(r, bidirectional, num_buckets, max_distance):
    """Return the bucket of one offset, with integers only."""
    n = num_buckets // 2 if bidirectional else num_buckets
    exact = n // 2
    wide = n - exact
    distance = abs(r) if bidirectional else max(-r, 0)
    bucket = distance
    if distance >= exact:
        steps = 0
        while distance**wide >= max_distance ** (steps + 1) * exact ** (wide - steps - 1):
            steps += 1
            if steps == wide:
                break
        bucket = min(exact + steps, n - 1)
    return bucket + (n if bidirectional and r > 0 else 0)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_buckets_by_integer_arithmetic(settings):
    got = P.t5_relative_position_bucket(np.array(OFFSETS), **settings)
    assert got.dtype == np.int64
    assert got.tolist() == [by_integers(r, **settings) for r in OFFSETS]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_properties(settings):
    n = settings["num_buckets"] // (2 if settings["bidirectional"] else 1)
    past = P.t5_relative_position_bucket(-np.arange(2000), **settings)
    assert np.all(np.diff(past) >= 0)
    assert past[: n // 2].tolist() == list(range(n // 2))
    assert np.all(past[settings["max_distance"] :] == n - 1)
    future = P.t5_relative_position_bucket(np.arange(1, 2000), **settings)
    want = past[1:] + n if settings["bidirectional"] else np.zeros(1999)
    np.testing.assert_array_equal(future, want)


def test_published_thresholds():
    buckets = P.t5_relative_position_bucket(-np.arange(200))
    starts = [int(np.argmax(buckets == b)) for b in range(8, 16)]
    assert starts == [8, 12, 16, 23, 32, 46, 64, 91]
    assert P.t5_relative_position_bucket([-128, -1000]).tolist() == [15, 15]


@pytest.mark.parametrize("extreme", [np.iinfo(np.int64).min, np.iinfo(np.int64).max])
def test_extreme_offsets(extreme):
    assert P.t5_relative_position_bucket(extreme) == (31 if extreme > 0 else 15)
    got = P.t5_relative_position_bucket(extreme, bidirectional=False)
    assert got == (0 if extreme > 0 else 31)


def test_the_formula_in_float64_elsewhere():
    """PyTorch, away from distances whose logarithm is a whole number of steps."""
    torch = pytest.importorskip("peers").torch
    r = torch.arange(8, 2000, dtype=torch.float64)
    steps = (r / 8).log() / np.log(16) * 8
    clear = ((steps - steps.round()).abs() > 1e-9).numpy()
    want = (8 + steps.long()).clamp(max=15).numpy()[clear]
    got = P.t5_relative_position_bucket(-np.arange(8, 2000)[clear])
    np.testing.assert_array_equal(got, want)


class TestBias:
    def test_a_cache_takes_the_last_rows(self, rng):
        table = rng.normal(size=(32, 4))
        for options in ({}, {"bidirectional": False}):
            whole = P.t5_bias(table, 300, 300, **options)
            last = P.t5_bias(table, 2, 300, q_offset=298, **options)
            np.testing.assert_array_equal(last, whole[:, 298:])

    def test_is_the_table_at_the_bucket(self, rng):
        table = rng.normal(size=(32, 3)).astype(np.float32)
        offsets = np.arange(50) - np.arange(40)[:, None]
        want = table[P.t5_relative_position_bucket(offsets)].transpose(2, 0, 1)
        got = P.t5_bias(table, 40, 50)
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, want)

    def test_pytorch(self, rng):
        peers = pytest.importorskip("peers")
        offsets = np.arange(70) - np.arange(60)[:, None]
        buckets = peers.torch.tensor(P.t5_relative_position_bucket(offsets))
        lookup = peers.torch.nn.functional.embedding
        f = lambda t: lookup(buckets, t).permute(2, 0, 1)  # noqa: E731
        table, sizes = rng.normal(size=(32, 4)), {"T": 60, "S": 70}
        peers.assert_same("positions.t5_bias", f, table, rng=rng, tolerance=4e-14, **sizes)


class TestErrors:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"num_buckets": 3}, "'num_buckets' must be at least 4, not 3"),
            ({"num_buckets": 1, "bidirectional": False}, "'num_buckets' must be at least 2, not 1"),
            ({"max_distance": 8}, "'max_distance' must be at least 9, not 8"),
            (
                {"max_distance": 2**200},
                f"'max_distance' must be at most {2**31}, not 16.*",
            ),
            ({"num_buckets": 2**62}, f"'num_buckets' must be at most 4096, not {2**62}"),
        ],
    )
    def test_sizes(self, options, words):
        with pytest.raises(ValueError, match=rf"^Argument {words}\.$"):
            P.t5_relative_position_bucket([0], **options)

    def test_flag(self):
        with pytest.raises(TypeError, match=r"'bidirectional' must be True or False, not \[1\]"):
            P.t5_relative_position_bucket([0], bidirectional=[1])

    def test_the_most_buckets_and_the_largest_distance(self):
        far = P.t5_relative_position_bucket([2**62], num_buckets=4096, max_distance=2**31)
        assert far == [4095]

    def test_offsets_are_integers(self):
        with pytest.raises(TypeError, match=r"^Argument 'relative_position' must be integer, not"):
            P.t5_relative_position_bucket([0.5])

    def test_bias(self):
        with pytest.raises(
            ValueError, match=r"^Argument 'table' must have 2 axes, not shape \(32,\)"
        ):
            P.t5_bias(np.ones(32), 2, 2)
        with pytest.raises(ValueError, match=r"^Argument 'T' must be at least 1, not 0"):
            P.t5_bias(np.ones((32, 1)), 0, 2)
        with pytest.raises(ValueError, match=r"^Argument 'q_offset' must be at least 0, not -1"):
            P.t5_bias(np.ones((32, 1)), 1, 2, q_offset=-1)
        with pytest.raises(ValueError, match=r"^Argument 'num_buckets' must be at least 4, not 2"):
            P.t5_bias(np.ones((2, 1)), 1, 2)
