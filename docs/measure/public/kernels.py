"""What is said of a kernel: what it should compute, its mistake, and which words name that."""

from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from dlref import check

#: The dtypes of 16 bits, whose statistics and sums people keep in 32.
NARROW = ("float16", "bfloat16")


class Wrong(NamedTuple):
    """
    A kernel with a mistake.

    ``source`` is an issue or a pull request, or a part of our own findings. The kernel is right
    unless it is given the name of its slip. A headline names the mistake if one of ``named``, which
    are regular expressions, is found in it; ``truth`` is for people who judge a headline by hand.
    """

    source: str
    op: Any
    form: str
    kernel: Any
    slip: str
    truth: str
    named: tuple[str, ...]
    options: Any = MappingProxyType({})


class Right(NamedTuple):
    """A kernel without a mistake: where it is from, or what it does otherwise."""

    source: str
    op: Any
    form: str
    kernel: Any
    options: Any = MappingProxyType({})


def cases(*some, dtype="float64", **kwargs):
    """Return options of check_all with cases, each a tuple of inputs and a dictionary."""
    named = [
        check.TestCase(f"case {number}", inputs, options)
        for number, (inputs, options) in enumerate(some)
    ]
    return {"cases": named, "dtype": dtype, **kwargs}


def refuse(what):
    """Say that a kernel does not take a case."""
    raise NotImplementedError(what)


def gradients(*grads):
    """Return the gradients of inputs that are given: an array if there is one."""
    given = tuple(grad for grad in grads if grad is not None)
    return given if len(given) > 1 else given[0]


def softmax(x, axis=-1):
    """Probabilities of scores; of a row of nothing but -inf, zeros."""
    top = x.max(axis, keepdims=True)
    e = np.exp(x - np.where(np.isfinite(top), top, 0))
    total = e.sum(axis, keepdims=True)
    return e / np.where(total == 0, 1, total)


def sigmoid(x):
    """The logistic function, without overflow."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


def wide(a):
    """Return an array as a kernel loads it: numbers of 16 bits in 32."""
    return a if a is None or a.dtype.name not in NARROW else a.astype(np.float32)
