"""Frequencies of rotations, and buckets of distances."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..calls import ReferenceCall
from .common import Trials


def other_scalings(call: ReferenceCall) -> Trials:
    """Yield frequencies with another rule, or with the ramp of YaRN or Llama 3 the other way."""
    scaling = call.settings["scaling"]
    if not scaling:
        return
    own, kind = dict(scaling), scaling.get("rope_type", scaling.get("type"))
    factor, slow = own.get("factor", 1.0), np.asarray(call.run())
    plain = np.asarray(call.with_options(scaling=None).run())
    if kind in ("yarn", "llama3"):
        yield "the ramp goes the other way: slow pairs stay", [plain * (1 + 1 / factor) - slow]
    if kind == "yarn":
        other = own | {"truncate": not own.get("truncate", True)}
        message = "the ends of the ramp are" + (" rounded" if other["truncate"] else " not rounded")
        yield message, call.with_options(scaling=other)
        length = "original_max_position_embeddings"
        by_turns = {"type": "llama3", "factor": factor, length: own[length]}
        by_turns["low_freq_factor"] = own.get("beta_slow", 1.0)
        by_turns["high_freq_factor"] = own.get("beta_fast", 32.0)
        message = "the ramp is linear in the number of turns, not in the number of the pair"
        yield message, call.with_options(scaling=by_turns)
    for simple in ("linear", "ntk"):
        if simple != kind and "factor" in own:
            message = f"all frequencies are scaled as by the type {simple!r}"
            yield message, call.with_options(scaling={"type": simple, "factor": factor})


def other_signs(call: ReferenceCall) -> Trials:
    """Yield buckets of distances with the other sign."""
    message = "the distance is from the key to the query: its sign is reversed"
    if call.core.__name__ == "t5_relative_position_bucket":
        yield message, call.with_inputs(-np.asarray(call.inputs[0]))
    elif call.form == "forward" and call.settings["bidirectional"]:
        table: Any = np.array(call.inputs[0])
        half = len(table) // 2
        table[1:half], table[half + 1 :] = call.inputs[0][half + 1 :], call.inputs[0][1:half]
        yield message, call.with_inputs(table, *call.inputs[1:])


def other_buckets(call: ReferenceCall) -> Trials:
    """Yield buckets of distances that are one off, and of ends that are rounded."""
    settings = call.settings
    if call.core.__name__ != "t5_relative_position_bucket":
        for by, message in ((-1, "large"), (1, "small")):
            moved = call.with_options(q_offset=settings["q_offset"] + by)
            yield f"the distance is one too {message}", moved
        return
    distance = np.asarray(call.inputs[0])
    for by, message in ((1, "large"), (-1, "small")):
        yield f"the distance is one too {message}", call.with_inputs(distance + by)
    both, count = settings["bidirectional"], settings["num_buckets"]
    count = count // 2 if both else count
    exact = count // 2
    size = np.abs(distance) if both else np.maximum(-distance, 0)
    share = np.log(np.maximum(size, exact) / exact) / np.log(settings["max_distance"] / exact)
    for message, rounded in (("rounded", np.rint), ("rounded up", np.ceil)):
        far = np.minimum(exact + rounded(share * (count - exact)).astype(int), count - 1)
        bucket = np.where(size < exact, size, far) + both * count * (distance > 0)
        yield f"buckets of far distances are {message}, not down", [bucket]
