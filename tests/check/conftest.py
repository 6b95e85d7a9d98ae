"""An error inside a mistake ends a test, where a verdict of a user outlives it."""

import pytest

from dlref.check._oracle import causes


@pytest.fixture(autouse=True)
def raise_errors_of_mistakes(monkeypatch):
    monkeypatch.setattr(causes, "RAISE", True)
