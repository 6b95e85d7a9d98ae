"""Helpers of several explanations."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from typing import Any

from ..calls import Call

#: Words and a call or a list of outputs, again and again.
Trials = Iterator[tuple[str, Any]]
LN2 = math.log(2)


def chapter(name: str) -> Any:
    """Return a chapter that only some explanations need: it is loaded where it is asked for."""
    return importlib.import_module(f"dlref.{name}")


def replaced(call: Call, i: int, value: Any) -> Call:
    """Return a call with another input in place of one."""
    inputs = list(call.inputs)
    inputs[i] = value
    return call.with_inputs(*inputs)
