"""What is special about group and instance normalization."""

import itertools

import numpy as np
import peers
import pytest
from complex_step import complex_step

from dlref.formulas import normalization as formulas
from dlref.normalization import (
    batch_norm,
    group_norm,
    group_norm_jvp,
    group_norm_vjp,
    instance_norm,
    instance_norm_jvp,
    instance_norm_vjp,
    layer_norm,
)
from dlref.normalization._kernels import channels


def channels_second(f):
    # contiguous: in the channels-last layout PyTorch takes E x^2 - mean^2, off by 2e-7 at 1e4
    return lambda x, *rest: f(x.movedim(-1, 1).contiguous(), *rest).movedim(1, -1)


@pytest.mark.broad
@pytest.mark.parametrize(("offset", "tolerance"), [(0, 4e-15), (1e4, 1e-11)])
@pytest.mark.parametrize(
    ("positions", "groups"),
    [*itertools.product([(7,), (3, 4), (400,)], [1, 2, 3, 60, None]), ((), 1), ((), 3)],
)
def test_against_pytorch(rng, assert_close, positions, groups, offset, tolerance):
    shape = (3, *positions, 60)
    primals = rng.normal(size=shape) + offset, rng.normal(size=60), rng.normal(size=60)
    u, tangents = rng.normal(size=shape), tuple(rng.normal(size=p.shape) for p in primals)
    if groups is None:
        f = channels_second(
            lambda x, w, b: peers.torch.nn.functional.instance_norm(x, None, None, w, b)
        )
        got = instance_norm(*primals), instance_norm_vjp(u, *primals)
        pushed = instance_norm_jvp(primals, tangents)
    else:
        f = channels_second(lambda x, w, b: peers.torch.nn.functional.group_norm(x, groups, w, b))
        x, w, b = primals
        got = group_norm(x, groups, w, b), group_norm_vjp(u, x, groups, w, b)
        pushed = group_norm_jvp((x, groups, w, b), (tangents[0], None, *tangents[1:]))
    value, grads = peers.value_and_vjp(f, *primals, dout=u)
    assert_close(got[0], value, tolerance=tolerance)
    for mine, theirs in zip(got[1], grads, strict=True):
        assert_close(mine, theirs, tolerance=tolerance)
    assert_close(pushed, peers.jvp(f, primals, tangents), tolerance=tolerance)


def test_without_positions_it_is_a_norm_of_rows(rng, assert_close):
    x, u, v = rng.normal(size=(3, 5, 6))
    w, b, dw, db = rng.normal(size=(4, 6))
    assert_close(group_norm(x, 2, w, b), layer_norm(x.reshape(5, 2, 3)).reshape(5, 6) * w + b)
    want = complex_step(lambda x, w, b: formulas.group_norm(x, 2, w, b), (x, w, b), (v, dw, db))
    assert_close(group_norm_jvp((x, 2, w, b), (v, None, dw, db)), want)
    dx, dweight, dbias = group_norm_vjp(u, x, 2, w, b)
    assert_close(np.sum(dx * v) + np.sum(dweight * dw) + np.sum(dbias * db), np.sum(u * want))


@pytest.mark.parametrize("groups", [1, 3, 12])
@pytest.mark.parametrize("positions", [7, 64, 1000])  # one or several positions in a row, pieces
def test_pieces_are_combined_into_the_moments_of_all(
    rng, monkeypatch, exactly_standardized, groups, positions
):
    monkeypatch.setattr(channels, "PIECE", 2000)
    x = rng.normal(size=(2, positions, 12)) + 1e4
    x[:, : positions // 2] += 100  # pieces differ in their means
    got = group_norm(x, groups)
    for sample in range(2):
        for g in range(groups):
            part = np.s_[sample, :, g * 12 // groups : (g + 1) * 12 // groups]
            want = exactly_standardized(x[part].ravel(), 1e-5)
            assert np.max(abs(got[part].ravel() - want)) < 2e-15 * np.max(abs(want))


@pytest.mark.parametrize("offset", [0.0, 3.0, -1e4])
def test_float32_is_exact_up_to_one_rounding(rng, exactly_standardized, offset):
    x = (rng.normal(size=(1, 100, 6)) + offset).astype(np.float32)
    got = group_norm(x, 2)[..., :3].ravel()
    want = exactly_standardized(x[..., :3].ravel(), 1e-5)
    assert got.dtype == np.float32
    assert np.max(abs(got - want) / np.spacing(abs(want).astype(np.float32))) < 0.501


def test_as_many_groups_as_channels_is_instance_norm(rng):
    x = rng.normal(size=(2, 5, 6))
    assert np.array_equal(group_norm(x, 6), instance_norm(x))


def test_one_group_is_layer_norm_of_the_sample(rng, assert_close):
    x = rng.normal(size=(2, 5, 6))
    want = layer_norm(x.reshape(2, 30)).reshape(2, 5, 6)
    assert_close(group_norm(x, 1), want)


def test_instance_norm_is_batch_norm_sample_by_sample(rng):
    x = rng.normal(size=(3, 5, 6))
    assert np.array_equal(instance_norm(x), np.stack([batch_norm(sample) for sample in x]))


def test_brightness_and_contrast_go(rng, assert_close):
    x = rng.normal(size=(2, 50, 3))
    assert_close(instance_norm(5 * x + 2, eps=0), instance_norm(x, eps=0), tolerance=2e-15)


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e12])
def test_large_offsets_cost_no_digits(rng, exactly_standardized, offset):
    x = rng.normal(size=(1, 300, 4)) + offset
    want = exactly_standardized(x[..., :2].ravel(), 1e-5)
    got = group_norm(x, 2)[..., :2].ravel()
    assert np.max(abs(got - want)) < 2e-15 * np.max(abs(want))


def test_one_position_has_no_variance(rng):
    x, b = rng.normal(size=(3, 4)), rng.normal(size=4)
    assert np.array_equal(instance_norm(x, bias=b), np.stack([b, b, b]))


def test_without_channels_or_samples():
    assert instance_norm(np.ones((2, 3, 0))).shape == (2, 3, 0)
    assert group_norm(np.ones((0, 3, 4)), 2).shape == (0, 3, 4)


@pytest.mark.parametrize("groups", [2, np.int32(2), np.array(2)])
def test_groups_may_be_any_integer(rng, groups):
    x = rng.normal(size=(2, 4))
    assert np.array_equal(group_norm(x, groups), group_norm(x, 2))


class TestErrors:
    def test_groups_divide_the_channels(self):
        with pytest.raises(ValueError, match="'groups' must divide the number of channels 4"):
            group_norm(np.ones((2, 4)), 3)
        with pytest.raises(ValueError, match=r"'primals\[1\]' must divide"):
            group_norm_jvp((np.ones((2, 4)), 3, None, None), (None,) * 4)

    @pytest.mark.parametrize("bad", [0, -1])
    def test_groups_are_positive(self, bad):
        with pytest.raises(ValueError, match="'groups' must be at least 1"):
            group_norm(np.ones((2, 4)), bad)

    @pytest.mark.parametrize("bad", [2.0, None, "2"])
    def test_groups_are_an_integer(self, bad):
        with pytest.raises(TypeError, match="'groups' must be integer"):
            group_norm(np.ones((2, 4)), bad)

    def test_groups_do_not_vary(self):
        with pytest.raises(ValueError, match=r"'tangents\[1\]' must be None"):
            group_norm_jvp((np.ones((2, 4)), 2, None, None), (None, 1.0, None, None))

    @pytest.mark.parametrize("f", [instance_norm, lambda x: group_norm(x, 1)])
    def test_two_axes(self, f):
        with pytest.raises(ValueError, match="'x' must have at least 2 axes"):
            f(np.ones(3))
