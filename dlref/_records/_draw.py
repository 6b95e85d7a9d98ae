"""How an input is drawn: from a generator, its shape, and the shape of the first input."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np


def normal(rng: Any, shape: Any, _first: Any = None, *, scale: float = 1.0) -> Any:
    return scale * rng.normal(size=shape)


def uniform(rng: Any, shape: Any, _first: Any = None, *, low: float, high: float) -> Any:
    return rng.uniform(low, high, shape)


moderate = functools.partial(normal, scale=0.5)
#: Logits of distributions that are far apart, or numbers beyond the range of few bits.
wide = functools.partial(normal, scale=4.0)
positive = functools.partial(uniform, low=0.5, high=2.0)
unit = functools.partial(uniform, low=0.0, high=1.0)


#: Logarithms of decays and of probabilities: neither is above 0.
log_decay = functools.partial(uniform, low=-1.0, high=0.0)
log_probability = functools.partial(uniform, low=-2.0, high=0.0)


def unit_rows(rng: Any, shape: Any, _first: Any = None) -> Any:
    """Draw rows of length 1, as keys are that states are corrected by."""
    rows = rng.normal(size=shape)
    return rows / np.sqrt((rows * rows).sum(-1, keepdims=True))


def nonzero(rng: Any, shape: Any, _first: Any = None) -> Any:
    return positive(rng, shape) * rng.choice([-1, 1], shape)


def booleans(rng: Any, shape: Any, _first: Any = None) -> Any:
    return rng.random(shape) < 0.5


def signs(rng: Any, shape: Any, _first: Any = None) -> Any:
    return rng.choice([-1.0, 1.0], shape)


def invertible(rng: Any, shape: Any, _first: Any = None) -> Any:
    return 3.0 * np.eye(shape[-1]) + rng.uniform(-0.5, 0.5, shape)


def log_distribution(rng: Any, shape: Any, _first: Any = None) -> Any:
    x = rng.normal(size=shape)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def distribution(rng: Any, shape: Any, _first: Any = None) -> Any:
    return np.exp(log_distribution(rng, shape))


def classes(rng: Any, shape: Any, first: Any) -> Any:
    """Draw a class for each row of the first input, or a distribution where the shapes agree."""
    if len(shape) == len(first):
        return distribution(rng, shape)
    return rng.integers(0, first[-1], shape)


def rows(rng: Any, shape: Any, first: Any) -> Any:
    return rng.integers(0, first[0], shape)


def angles(rng: Any, shape: Any, _first: Any = None) -> Any:
    """Draw angles; the record takes first their cosines, then their sines."""
    return rng.uniform(0, 2 * np.pi, shape)


#: The least and the largest number that an input may be, by how it is drawn.
DOMAINS: dict[Any, tuple[float, float]] = {
    positive: (0.0, np.inf),
    unit: (0.0, 1.0),
    log_decay: (-np.inf, 0.0),
    log_probability: (-np.inf, 0.0),
    unit_rows: (-1.0, 1.0),
    signs: (-1.0, 1.0),
    log_distribution: (-np.inf, 0.0),
    distribution: (0.0, 1.0),
}
