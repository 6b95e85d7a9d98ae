"""Short runs of what ``docs/measure/signals.py`` does for long."""

import sys

import pytest
import signals

from dlref._core.jit import COMPILED

pytestmark = [
    pytest.mark.skipif(not COMPILED, reason="interpreted, all is done on one thread"),
    pytest.mark.skipif(sys.platform != "linux", reason="threads are counted as Linux lists them"),
]


@pytest.fixture(scope="module")
def digests():
    return signals.expected()


@pytest.mark.parametrize("handler", signals.HANDLERS)
def test_a_handler_harms_nothing(handler, digests):
    found = signals.watched(handler, 1.5, digests, compiled=True)
    assert found["outcome"] == "the same bits, no thread left", found.get("words")
    assert found["calls"] > 0
    assert found["signals"] > 0


def test_other_bits_are_seen(digests):
    found = signals.watched("calls", 0, {**digests, "lstm": "0"}, compiled=True)
    assert found["outcome"] == "other bits: lstm"


def test_silence_is_a_hanging_call(digests):
    assert signals.watched("calls", 5, digests, compiled=True, silence=1e-3)["outcome"] == "hangs"
