"""Frequencies of rotations, and buckets of distances."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..calls import Call
from .common import Trials


def other_scalings(call: Call) -> Trials:
    """Yield frequencies with another rule, or with the ramp of YaRN or Llama 3 the other way."""
    told = call.settings["scaling"]
    if not told:
        return
    own, kind = dict(told), told.get("rope_type", told.get("type"))
    factor, slow = own.get("factor", 1.0), np.asarray(call.run())
    plain = np.asarray(call.with_options(scaling=None).run())
    if kind in ("yarn", "llama3"):
        yield "the ramp goes the other way: slow pairs stay", [plain * (1 + 1 / factor) - slow]
    if kind == "yarn":
        other = own | {"truncate": not own.get("truncate", True)}
        words = "the ends of the ramp are" + (" rounded" if other["truncate"] else " not rounded")
        yield words, call.with_options(scaling=other)
        length = "original_max_position_embeddings"
        by_turns = {"type": "llama3", "factor": factor, length: own[length]}
        by_turns["low_freq_factor"] = own.get("beta_slow", 1.0)
        by_turns["high_freq_factor"] = own.get("beta_fast", 32.0)
        words = "the ramp is linear in the number of turns, not in the number of the pair"
        yield words, call.with_options(scaling=by_turns)
    for simple in ("linear", "ntk"):
        if simple != kind and "factor" in own:
            words = f"all frequencies are scaled as by the type {simple!r}"
            yield words, call.with_options(scaling={"type": simple, "factor": factor})


def other_signs(call: Call) -> Trials:
    """Yield buckets of distances with the other sign."""
    words = "the distance is from the key to the query: its sign is reversed"
    if call.core.__name__ == "t5_relative_position_bucket":
        yield words, call.with_inputs(-np.asarray(call.inputs[0]))
    elif call.form == "forward" and call.settings["bidirectional"]:
        table: Any = np.array(call.inputs[0])
        half = len(table) // 2
        table[1:half], table[half + 1 :] = call.inputs[0][half + 1 :], call.inputs[0][1:half]
        yield words, call.with_inputs(table, *call.inputs[1:])


def other_buckets(call: Call) -> Trials:
    """Yield buckets of distances that are one off, and of ends that are rounded."""
    settings = call.settings
    if call.core.__name__ != "t5_relative_position_bucket":
        for by, words in ((-1, "large"), (1, "small")):
            moved = call.with_options(q_offset=settings["q_offset"] + by)
            yield f"the distance is one too {words}", moved
        return
    distance = np.asarray(call.inputs[0])
    for by, words in ((1, "large"), (-1, "small")):
        yield f"the distance is one too {words}", call.with_inputs(distance + by)
    both, count = settings["bidirectional"], settings["num_buckets"]
    count = count // 2 if both else count
    exact = count // 2
    size = np.abs(distance) if both else np.maximum(-distance, 0)
    share = np.log(np.maximum(size, exact) / exact) / np.log(settings["max_distance"] / exact)
    for words, rounded in (("rounded", np.rint), ("rounded up", np.ceil)):
        far = np.minimum(exact + rounded(share * (count - exact)).astype(int), count - 1)
        bucket = np.where(size < exact, size, far) + both * count * (distance > 0)
        yield f"buckets of far distances are {words}, not down", [bucket]
