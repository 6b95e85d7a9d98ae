"""A sample of what tests/normwise.py measures."""

import normwise
import numpy as np
import pytest
from conftest import FUSED

pytestmark = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="long doubles are no wider than float64 here"
)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("case", "path", "bounds"),
    [
        ("", "losses.kl_divergence", (2, 2)),
        ("mean 1e4", "normalization.layer_norm", (3, 4)),
        ("mean 1e4", "normalization.instance_norm", (3, 4)),
        ("", "recurrent.rnn", (6, 12) if FUSED else (12, 25)),
    ],
)
def test_errors_are_a_few_roundings(case, path, bounds, dtype):
    value, gradient = normwise.errors(case, path, dtype, normwise.of_dlref)
    assert 0 < value < bounds[0]
    assert 0 < gradient < bounds[1]


def test_a_wrong_result_is_seen():
    def wrong(*arguments):
        value, *gradients = normwise.of_dlref(*arguments)
        return [value * np.float32(1 + 1e-5), *gradients]

    value, _ = normwise.errors("", "losses.squared_error", np.float32, wrong)
    assert 80 < value < 90  # 1e-5 in units of 2^-23
