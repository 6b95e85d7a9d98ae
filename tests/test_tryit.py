"""The numbers that the browser test expects are those of dlref."""

import json

import numpy as np
import tryit


def test_committed_values():
    committed = json.loads(tryit.VALUES.read_text())
    now = tryit.values()
    assert committed["scores"] == now["scores"]
    for name in ("rope", "attention", "statistics"):
        for (settings, then), (same, expected) in zip(committed[name], now[name], strict=True):
            assert settings == same
            for one, other in zip(then, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
