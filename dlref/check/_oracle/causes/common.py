"""Helpers of several explanations."""

from __future__ import annotations

import contextlib
import importlib
import math
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ..calls import ReferenceCall

#: Messages, each with the call, or the list of outputs, of a mistaken kernel.
Trials = Iterator[tuple[str, Any]]
LN2 = math.log(2)


class OutOfTimeError(Exception):
    """A search has taken all the time that it is given."""


class _Limit(threading.local):
    """When the search of a thread ends, by the time that the thread has computed."""

    end = math.inf


_LIMIT = _Limit()


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Give programs so many seconds of computing; the next one raises `OutOfTimeError`."""
    _LIMIT.end = time.thread_time() + seconds
    try:
        yield
    finally:
        _LIMIT.end = math.inf


def check_time() -> None:
    """Raise `OutOfTimeError` if the time of a search is over."""
    if time.thread_time() > _LIMIT.end:
        raise OutOfTimeError


def chapter(name: str) -> Any:
    """Return a chapter that only some explanations need: it is loaded where it is asked for."""
    return importlib.import_module(f"dlref.{name}")


def replaced(call: ReferenceCall, i: int, value: Any) -> ReferenceCall:
    """Return a call with another input in place of one."""
    return call.with_inputs(*call.inputs[:i], value, *call.inputs[i + 1 :])


def named(call: ReferenceCall, **values: Any) -> ReferenceCall:
    """Return a call with other inputs in place of the ones with these names."""
    pairs = zip(call.names, call.inputs, strict=True)
    return call.with_inputs(*(values.get(name, a) for name, a in pairs))


def with_dout(call: ReferenceCall, dout: Any) -> ReferenceCall:
    """Return a vjp with another upstream gradient."""
    return replace(call, arguments=(dout, *call.inputs))


def reduced(losses: Any, how: str) -> Any:
    """Return losses, their mean or their sum."""
    return losses if how == "none" else np.asarray(losses.mean() if how == "mean" else losses.sum())


def probabilities(x: Any, axis: int = -1) -> Any:
    """Return a softmax."""
    p = np.exp(x - np.max(x, axis, keepdims=True))
    return p / p.sum(axis, keepdims=True)
