"""The numbers that the browser test expects are those of dlref."""

import json

import numpy as np
import tryit


def test_committed_values():
    committed = json.loads(tryit.VALUES.read_text())
    now = tryit.values()
    assert committed["scores"] == now["scores"]
    for name in ("rope", "attention"):
        assert [settings for settings, _ in committed[name]] == [s for s, _ in now[name]]
        then, expected = ([numbers for _, numbers in found[name]] for found in (committed, now))
        np.testing.assert_allclose(then, expected, rtol=0, atol=1e-12)
