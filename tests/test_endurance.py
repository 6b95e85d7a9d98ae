"""Short runs of what ``docs/measure/endurance.py`` does for long."""

import battery
import endurance
import numpy as np
import pytest

from dlref import losses
from dlref._core.jit import COMPILED
from dlref.losses import _distillation_loss, _dpo_loss


def test_memory_does_not_grow():
    keys = [key for key in battery.cases() if key.endswith("/0/float64")][::17]
    cases = [battery.cases()[key] for key in keys]
    endurance.growth(2 * len(cases), cases)  # compiles
    assert endurance.growth(40 * len(cases), cases) < endurance.GROWTH


def test_growth_is_seen():
    class Keeping:
        kept = []  # noqa: RUF012

        def run(self):
            # More than malloc ever takes from holes that earlier tests left in the heap (32 MB).
            self.kept.append(bytearray(64 * endurance.MEGABYTE))

    assert endurance.growth(4, [Keeping()]) >= endurance.GROWTH


@pytest.mark.skipif(not COMPILED, reason="one thread, and minutes")
def test_training_has_the_same_bits_everywhere():
    digests = dict(endurance.digests(5))
    assert len(digests) == len(endurance.THREADS) + 1
    assert len(set(digests.values())) == 1


@pytest.mark.skipif(not COMPILED, reason="one thread, and minutes")
def test_training_of_other_steps_has_other_bits():
    assert endurance.trained(1, 1) != endurance.trained(2, 1)


def test_schedules_of_options_leave_nothing_behind():
    """A temperature or a beta that changes at every step must not stay in a cache."""
    x = np.zeros((2, 3))
    for step in range(100):
        losses.distillation_loss(x, x, temperature=1.0 + step / 100)
        losses.dpo_loss(x[:, 0], x[:, 1], beta=0.1 + step / 100)
    for module in (_distillation_loss, _dpo_loss):
        assert module._smooth.cache_info().currsize <= 16
