"""Options of a block whose value is found by a search, where no known mistake explains a port."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..._core.arguments import FloatArray, as_array
from ...positions import rope_frequencies, rope_tables
from ...transformer import LanguageModelConfig
from .common import LENGTH, Options, inner_eps

#: Steps of the search for a minimum between three values, each 0.62 as far apart. SciPy's searches
#: stop at the root of epsilon, which is too far from the minimum to say that two arrays agree.
STEPS, GOLDEN = 60, (5**0.5 - 1) / 2


#: Norms of a block that may have an epsilon of their own.
NORMS: dict[str, tuple[str, ...]] = {
    name: (name,) for name in ("norm1", "norm2", "norm3", "output_norm1", "output_norm2")
}
NORMS["the norms of the sub-layers' outputs"] = ("output_norm1", "output_norm2")


class Fit(NamedTuple):
    """An option: the message for a value, the grid of values, and the options with a value."""

    message: str
    grid: FloatArray
    options: Callable[[float], Any]
    whole: bool = False
    narrow: bool = False  # a case of another option, which goes before it


def fits_of(o: Any) -> Iterator[Fit]:
    """Yield the options of a block, a norm or a model that have a number as their value."""
    if isinstance(o, LanguageModelConfig):
        yield from _of_logits(o)
        return
    if o["chunk"] is not None:
        message = f"the chunks have {{:.0f}} tokens instead of {o['chunk']}"
        yield Fit(message, np.arange(1.0, 65.0), lambda v: o | {"chunk": int(v)}, whole=True)
    message = "eps is {:.3g}" + f" instead of {o['eps']:g}"
    yield Fit(message, np.logspace(-12, -1, 23), lambda v: o | {"eps": v})
    for which, names in NORMS.items():
        message = f"eps of {which} is {{:.3g}}" + f" instead of {o['eps']:g}"
        yield Fit(message, np.logspace(-12, -1, 23), _of_norms(o, names), narrow=True)
    message = "eps of the norms inside attention is {:.3g}" + f" instead of {inner_eps(o):g}"
    yield Fit(message, np.logspace(-12, -1, 23), lambda v: o | {"inner_eps": v})
    right = f" instead of {o['scale']:.4g}" if o["scale"] is not None else ""
    message = "the scale of the scores is {:.4g}" + right
    yield Fit(message, np.logspace(-3, 2, 31), lambda v: o | {"scale": v})
    right = f" instead of by {o['residual_scale']:.4g}" if o["residual_scale"] != 1 else ""
    message = "the sub-layers' outputs are multiplied by {:.4g} before the sums" + right
    yield Fit(message, np.logspace(-2, 2, 41), lambda v: o | {"residual_scale": v})
    cap = "instead of {:g}".format(o["softcap"]) if o["softcap"] is not None else "where none is"
    message = "the soft cap is {:.4g} " + cap
    yield Fit(message, np.logspace(-1, 3, 33), lambda v: o | {"softcap": v})
    cap = "instead of {:g}".format(o["clip_qkv"]) if o["clip_qkv"] is not None else "where none is"
    message = "the bound of queries, keys and values is {:.4g} " + cap
    yield Fit(message, np.logspace(-1, 3, 33), lambda v: o | {"clip_qkv": v})
    after = o["window"][1] if o["window"] else 0 if o["is_causal"] else None
    message = "the window ends {:.0f} keys to the left"
    yield Fit(message, np.arange(64.0), lambda v: o | {"window": (int(v), after)}, whole=True)
    if o.get("router"):
        yield from _of_router(o, o["router"])
        message = "the output of the shared expert is multiplied by {:.4g}"
        yield Fit(message, np.logspace(-2, 2, 33), lambda v: o | {"shared_factor": v})
    if o["rope"] is not None:
        cos, sin = (as_array("rope", table) for table in o["rope"])
        yield Fit("the base of the rotation is {:.6g}", np.logspace(1, 8, 57), _based(o, cos))
        yield Fit("the angles of the rotation are multiplied by {:.4g}", np.logspace(-2, 1, 61),
                  _rotated(o, np.arctan2(sin, cos)))  # fmt: skip
        yield from _of_scaling(o)


def _of_logits(config: LanguageModelConfig) -> Iterator[Fit]:
    """Yield the options of a model's logits; a factor that no cap follows is seen without it."""
    cap = config.logit_softcap
    message = "the soft cap of the logits is {:.4g} "
    message += "where none is" if cap is None else f"instead of {cap:g}"
    grid = np.logspace(-1, 3, 33)
    yield Fit(message, grid, lambda v: replace(config, logit_softcap=v))
    if cap is not None:
        message = f"the logits are multiplied by {{:.4g}} instead of by {config.logit_scale:g}"
        yield Fit(message, grid, lambda v: replace(config, logit_scale=v))


def _of_norms(o: Options, names: tuple[str, ...]) -> Callable[[float], Options]:
    return lambda eps: o | {"eps_of": dict.fromkeys(names, eps)}


def _of_scaling(o: Options) -> Iterator[Fit]:
    """Yield the options of a rotation's scaling that have a number as their value."""
    for name, (right, grid, rotated) in o.get("scaling", {}).items():
        message = f"the option {name} of the rotation's scaling is {{:.4g}} instead of {right:.4g}"
        yield Fit(message, grid, _rescaled(o, rotated), whole=name == LENGTH)


def _rescaled(o: Options, rotated: Callable[[float], Any]) -> Callable[[float], Options]:
    return lambda value: o | {"rope": rotated(value)}


def _of_router(o: Options, router: Any) -> Iterator[Fit]:
    """Yield the options of experts that have a number as their value."""
    for name, usual in (("limit", None), ("beta", 1.0), ("scale", 1.0)):
        right = router.get(name, usual)
        beside = f" instead of {right:.4g}" if right is not None else " where none is"
        message = f"the experts' option {name} is {{:.4g}}{beside}"
        yield Fit(message, np.logspace(-2, 2, 33), _routed(o, router, name))


def _routed(o: Options, router: Any, name: str) -> Callable[[float], Options]:
    return lambda value: o | {"router": dict(router) | {name: value}}


def _based(o: Options, cos: Any) -> Callable[[float], Options]:
    def options(base: float) -> Options:
        frequencies = rope_frequencies(2 * cos.shape[-1], base=base)
        tables = rope_tables(np.arange(len(cos)), frequencies)
        return o | {"rope": tuple(table.astype(cos.dtype) for table in tables)}

    return options


def _rotated(o: Options, angles: Any) -> Callable[[float], Options]:
    per_position = angles[1] if len(angles) > 1 else angles[0]  # below pi, where nothing wraps
    whole = np.arange(len(angles))[:, None] * per_position

    def options(factor: float) -> Options:
        tables = np.cos(factor * whole), np.sin(factor * whole)
        return o | {"rope": tuple(table.astype(angles.dtype) for table in tables)}

    return options


def least(misfit: Callable[[float], float], fit: Fit) -> float:
    """Return the value at which a misfit is least, sought on a grid and between its values."""
    misses = [misfit(float(value)) for value in fit.grid]
    k = int(np.argmin(misses))
    if fit.whole:
        return float(fit.grid[k])
    low, high = (float(np.log(fit.grid[i])) for i in (max(k - 1, 0), min(k + 1, len(misses) - 1)))
    for _ in range(STEPS):
        a, b = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        low, high = (low, b) if misfit(float(np.exp(a))) < misfit(float(np.exp(b))) else (a, high)
    found = float(np.exp((low + high) / 2))
    # A search ends some roundings from the minimum, and options are often round numbers.
    return min(float(f"{found:.4g}"), float(f"{found:.8g}"), found, key=misfit)
