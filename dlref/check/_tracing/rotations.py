"""The rotation of a block by the settings of its model, and mistaken ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..._core.arguments import FloatArray
from ...positions import rope_attention_factor, rope_frequencies, rope_tables
from .common import LENGTH, Options

#: Types of scalings that multiply the tables by a factor of their own.
SHARPENED = ("yarn", "longrope")


def rotation_of(config: Any, own: Any, others: list[Any], T: int, dtype: Any) -> Options:
    """Return the rotation of a block, and mistaken ones; `own` and `others` are settings."""
    E = config.head_dim
    default = {"base": config.rope_base, "scaling": config.rope_scaling, "dim": config.rope_dim}

    def tables_of(frequencies: FloatArray, factor: float) -> Any:
        pair = rope_tables(np.arange(T), frequencies, attention_factor=factor)
        return tuple(a.astype(dtype) for a in pair)

    def tables(options: Any) -> Any:
        return tables_of(_frequencies(options, E), _factor(options["scaling"]))

    settings = None if own is None else default | own
    wrong: Options = {}
    for j, other in others:
        message = f"the block has the rotation of block {j}"
        message = f"queries and keys are rotated, as in block {j}" if settings is None else message
        wrong[message] = default | other
        wrong |= dict(_in_part(settings, wrong[message], j))
    if settings is None:
        return {"rope": None, "scalings": {text: tables(other) for text, other in wrong.items()}}
    wrong |= dict(_settings(settings, E))
    cast = {text: tables(other) for text, other in wrong.items()}
    scaling = settings["scaling"]
    factor = _factor(scaling)
    if factor != 1:
        message = f"the rotation's attention factor of {factor:.4g} is missing"
        cast[message] = tuple(a / a.dtype.type(factor) for a in tables(settings))
    for message, frequencies in _other_frequencies(settings, E):
        cast[message] = tables_of(frequencies, factor)

    def with_number(name: str) -> Callable[[float], Any]:
        def tables_with(value: float) -> Any:
            number = int(value) if name == LENGTH else value
            return tables(settings | {"scaling": dict(scaling) | {name: number}})

        return tables_with

    scaled = {name: (right, grid, with_number(name)) for name, right, grid in _numbers(scaling)}
    return {"rope": tables(settings), "scalings": cast, "scaling": scaled}


def _in_part(settings: Any, other: Any, j: int) -> Iterator[tuple[str, Any]]:
    """Yield the settings of a block with one of another block's, where several differ."""
    if settings is None:
        return
    differ = [name for name in SETTINGS if settings[name] != other[name]]
    for name in differ if len(differ) > 1 else ():
        yield f"the block has {SETTINGS[name]} of block {j}", settings | {name: other[name]}


#: The settings of a rotation, as messages call them.
SETTINGS = {
    "base": "the base of the rotation",
    "scaling": "the scaling of the rotation",
    "dim": "the number of rotated channels",
}


def _frequencies(settings: Any, width: int) -> FloatArray:
    dim = settings["dim"] or width
    return rope_frequencies(dim, base=settings["base"], scaling=settings["scaling"])


def _kind(scaling: Mapping[str, Any]) -> Any:
    """Return the type of a scaling, which older files call by the shorter name."""
    return scaling.get("rope_type", scaling.get("type"))


def _factor(scaling: Any) -> float:
    return 1.0 if scaling is None else rope_attention_factor(scaling)


def _settings(settings: Any, E: int) -> Iterator[tuple[str, Any]]:
    """Yield other settings of a rotation: another scaling, or another share of the channels."""
    scaling = settings["scaling"]
    for message, other in _scalings(scaling):
        yield message, settings | {"scaling": other}
    for share, message in {1: "all", 2: "half of the", 4: "a quarter of the"}.items():
        of_pairs = scaling is not None and "long_factor" in scaling  # a factor for each pair
        if not of_pairs and E % (2 * share) == 0 and (settings["dim"] or E) * share != E:
            yield f"{message} channels of a head are rotated", settings | {"dim": E // share}


def _other_frequencies(settings: Any, E: int) -> Iterator[tuple[str, FloatArray]]:
    """Yield frequencies that no settings give."""
    scaling, R = settings["scaling"], settings["dim"] or E
    if scaling is None:
        if R < E:
            message = f"the frequencies are the first ones of {E} channels, not the ones of {R}"
            yield message, settings["base"] ** (-np.arange(0, R, 2) / E)
        return
    right, plain = _frequencies(settings, E), rope_frequencies(R, base=settings["base"])
    kind = _kind(scaling)
    divided = plain / scaling.get("factor", 1.0)
    if kind not in ("yarn", "llama3") or (plain == divided).all():
        return
    kept = (right - divided) / (plain - divided)
    for message, share in _shares(scaling, kind, kept, plain):
        yield f"{message} in the scaling of the rotation", share * plain + (1 - share) * divided
    shares = {"": kept} | {f", and {m}": s for m, s in _shares(scaling, kind, kept, plain)}
    for message, share in shares.items():
        if not ((share > 0) & (share < 1)).any():
            continue  # nothing is blended
        said = f"wavelengths are blended instead of frequencies{message}"
        yield f"{said} in the scaling of the rotation", 1 / (share / plain + (1 - share) / divided)


def _shares(
    scaling: Mapping[str, Any], kind: str, kept: FloatArray, plain: FloatArray
) -> Iterator[tuple[str, FloatArray]]:
    """Yield other shares of the frequencies that are kept, beside those that are divided."""
    between = (kept > 0) & (kept < 1)
    yield "frequencies that are kept and divided are exchanged", 1 - kept
    if not between.any():
        return
    yield "the blending weights are exchanged", np.where(between, 1 - kept, kept)
    yield "frequencies are kept instead of blended", np.ceil(kept)
    yield "frequencies are divided instead of blended", np.floor(kept)
    if kind == "llama3":
        turns = scaling[LENGTH] * plain / (2 * math.pi)
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        share = np.clip((1 / low - 1 / turns) / (1 / low - 1 / high), 0, 1)
        message = "the blending weights follow the wavelength, not the frequency"
        yield message, share
        yield f"{message}, and are exchanged", np.where(between, 1 - share, share)


#: Lengths of texts in training that a search tries.
LENGTHS = 2.0 ** np.arange(1, 21)


def _numbers(scaling: Any) -> Iterator[tuple[str, float, FloatArray]]:
    """Yield the options of a scaling that a search finds, with their values and a grid."""
    if scaling is None:
        return
    kind = _kind(scaling)
    grids: dict[str, Any] = {"factor": np.logspace(0, 3, 49)}
    if kind in SHARPENED:
        grids["attention_factor"] = np.logspace(-1, 1, 33)
    if kind == "llama3":
        low, high = (float(scaling[f"{name}_freq_factor"]) for name in ("low", "high"))
        grids["low_freq_factor"] = np.geomspace(high / 1e4, high * 0.99, 49)
        grids["high_freq_factor"] = np.geomspace(low * 1.01, low * 1e4, 49)
        grids[LENGTH] = LENGTHS
    right = {"attention_factor": _factor(scaling)} | dict(scaling)
    for name, grid in grids.items():
        if name in right:
            yield name, right[name], grid


#: Factors of a rotation's scaling that published models have.
FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0)


def _scalings(scaling: Any) -> Iterator[tuple[str, Any]]:
    """Yield other scalings of a rotation: none, of a simpler type, or with another option."""
    if scaling is None:
        return
    yield "the scaling of the rotation is missing", None
    kind = _kind(scaling)
    if "factor" in scaling:
        for factor in FACTORS:
            if factor != scaling["factor"]:
                message = f"the factor of the scaling is {factor:g}, not {scaling['factor']:g}"
                yield message, dict(scaling) | {"factor": factor}
        for other in ("linear", "ntk"):
            if other != kind:
                message = f"the scaling of the rotation is {other} instead of {kind}"
                yield message, {"rope_type": other, "factor": scaling["factor"]}
    for name in ("attention_factor", "mscale", "mscale_all_dim"):
        if scaling.get(name) is not None:
            message = f"the option {name} of the rotation's scaling is ignored"
            yield message, {key: value for key, value in scaling.items() if key != name}
    if kind == "yarn":
        truncate = scaling.get("truncate", True)
        done = "not rounded" if truncate else "rounded"
        yield f"YaRN's bounds are {done} (truncate)", dict(scaling) | {"truncate": not truncate}
        for name, usual in (("beta_fast", 32.0), ("beta_slow", 1.0)):
            if scaling.get(name, usual) != usual:
                message = f"YaRN's {name} is {usual:g}, not {scaling[name]:g}"
                yield message, dict(scaling) | {name: usual}
