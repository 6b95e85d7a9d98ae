"""
Any value of JSON at any entry of a configuration: it is read, or the error names the entry.

The normal run takes a sample. ``DLREF_FUZZ=20`` takes twenty times as many, with other seeds.
"""

import functools
import json
import os
import random
import re
import time
import warnings

import decoders
import numpy as np
import pytest
from interop import like_gpt2
from interop_models import BERT, GPT2, LLAMA, T5, bert_shapes, gpt2_shapes, llama_shapes, t5_shapes
from interop_states import configured, state_of

from dlref.interop import from_state_dict
from dlref.interop._settings import Settings

#: How many times as many trials, and the first seed.
TIMES = int(os.environ.get("DLREF_FUZZ", "1"))
TRIALS, MOST, SECONDS = 12, 2_000, 5
DEEP = json.loads("[" * 200 + "]" * 200)
VALUES = [
    *(None, True, False, 0, 1, -1, 7, 10**6, 2**31, 2**63, 10**30, 10**400),
    *(2.5, 0.5, -0.0, 5e-324, 1e308, -1e308, float("nan"), float("inf")),
    *("", "x", "gelu", "default", "full_attention", "\x1b[2J\x00", "long " * 40_000, "\ud800"),
    *([], [1], [None], ["x"], [[1]], [True] * 100, [1e308], [{}], [{"a": [{}]}], DEEP, [0] * 10**5),
    *({}, {"": None}, {"a": 1}, {"a": {"b": []}}, {"type": "x"}, {"rope_type": []}, {"a": DEEP}),
    *({"factor": 2.0}, {"rope_type": "linear", "factor": [1]}, {"type": "yarn", "factor": 10**400}),
]
#: Entries that no family reads, and some that only one does.
OTHERS = ("architectures", "model_type", "quantity", "logit_scale", "layer_types", "vision_config")
OLDER = {
    "gpt2": (GPT2, gpt2_shapes),
    "llama": ({"model_type": "llama", "tie_word_embeddings": True} | LLAMA, llama_shapes),
    "bert": (BERT, bert_shapes),
    "t5": (T5, lambda: t5_shapes(False)),
}
OLDER |= {
    kind: (like_gpt2.settings_of(kind, 0), functools.partial(like_gpt2.shapes_of, kind))
    for kind in like_gpt2.MODELS
}


def model_of(kind):
    """Return a configuration of a family, and a state dict that fits."""
    if kind in OLDER:
        config, shapes = OLDER[kind]
        return config, {name: np.zeros(shape) for name, shape in shapes().items()}
    config = configured(kind, decoders.FAMILIES[kind][1][0])
    return config, state_of(kind, config, np.random.default_rng(0))


def synonyms_of(kind, config, state, monkeypatch):
    """Return the entries that a family reads, each with the names that it may have."""
    found = {name: {name} for name in (*config, *OTHERS)}
    get = Settings.get

    def noted(self, default, *names):
        for name in names:
            found.setdefault(name, {name}).update(names)
        return get(self, default, *names)

    with monkeypatch.context() as patch:
        patch.setattr(Settings, "get", noted)
        from_state_dict(state, kind, config)
    return found


def wrong(kind, config, state, names, value):
    """Return what is wrong with how a value among the entries is read, "" if nothing."""
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            from_state_dict(state, kind, config)
    except (TypeError, ValueError, NotImplementedError) as error:
        text = str(error)
        if len(text) > MOST:
            return f"a message of {len(text)} signs"
        if not text.replace("\n", "").isprintable():
            return f"control characters: {text!a}"
        # a value that is read may still not fit the tensors, or another entry
        other = any(repr(name) in text for name in config) and str(value) in text
        fits = text.startswith("Argument 'state'") or other
        if not (fits or any(name in text for name in names)):
            return f"the entry is not named: {text}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    seconds = time.process_time() - start
    return f"{seconds:.0f} s" if seconds > SECONDS else ""


@pytest.mark.parametrize("kind", [*OLDER, *decoders.FAMILIES])
def test_any_value_at_any_entry(kind, monkeypatch):
    config, state = model_of(kind)
    entries = synonyms_of(kind, config, state, monkeypatch)
    for seed in range(TIMES):
        rng = random.Random(f"{kind} {seed}")
        for _ in range(TRIALS):
            entry, value = rng.choice(sorted(entries)), rng.choice(VALUES)
            message = wrong(kind, {**config, entry: value}, state, entries[entry], value)
            assert not message, (entry, repr(value)[:80], message)


#: A family, an entry and a value that led to an error of Python, or to one that named nothing.
FOUND = [
    ("gpt2", "architectures", 10**30),
    ("bert", "architectures", 2.5),
    ("llama", "model_type", [[1]]),
    ("llama", "model_type", {"a": 1}),
    ("llama", "partial_rotary_factor", 1e308),
    ("gemma", "rope_pct", float("nan")),
    ("mistral", "head_dim", 1),
    ("qwen2", "head_dim", 2**31),
    ("phi3", "partial_rotary_factor", 7),
    ("smollm3", "no_rope_layers", 0),
    ("smollm3", "no_rope_layers", [[1]] * 3),
    ("ministral", "layer_types", [[1]] * 3),
    ("ministral", "layer_types", "long " * 40_000),
    ("qwen3_next", "layer_types", 7),
    ("qwen3_moe", "mlp_only_layers", 7),
    ("t5", "feed_forward_proj", "long " * 40_000),
    ("gpt2", "activation_function", "long " * 40_000),
]


@pytest.mark.parametrize(("kind", "entry", "value"), FOUND)
def test_values_that_led_to_foreign_errors(kind, entry, value, monkeypatch):
    config, state = model_of(kind)
    names = synonyms_of(kind, config, state, monkeypatch)[entry]
    with pytest.raises((TypeError, ValueError)):
        from_state_dict(state, kind, {**config, entry: value})
    assert not wrong(kind, {**config, entry: value}, state, names, value)


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_a_scaling_needs_a_type(key):
    config, state = model_of("llama")
    for options in ({"a": 1}, {"factor": 2.0}, {"low_freq_factor": 1.0, "factor": 1.0}):
        names = ", ".join(map(repr, sorted(options)))
        with pytest.raises(ValueError, match=rf"'{key}' has {names}, and must have a rope_type"):
            from_state_dict(state, "llama", {**config, key: options})
    for options in ({}, {"rope_type": "default"}, {"rope_theta": 500.0}, {"factor": 1.0}):
        assert from_state_dict(state, "llama", {**config, key: options})


@pytest.mark.parametrize(
    ("kind", "entry"),
    [
        ("gpt2", "scale_attn_weights"),
        ("gpt2", "model_type"),
        ("gpt2", "architectures"),
        ("gpt2", "n_head"),
        ("llama", "tie_word_embeddings"),
        ("llama", "rope_scaling"),
        ("mistral", "sliding_window"),
        ("granite", "embedding_multiplier"),
        ("ministral", "layer_types"),
        ("llama", "quantity"),
    ],
)
def test_an_array_is_no_value(kind, entry):
    config, state = model_of(kind)
    inner = np.ones(2)
    for value in (inner, np.ones(()), np.array(["a", "b"]), [inner], {"a": inner}, object()):
        with pytest.raises((TypeError, ValueError), match=re.escape(entry)):
            from_state_dict(state, kind, {**config, entry: value})
    same = {**config, "torch_dtype": np.dtype("float32")}  # as a configuration's to_dict() has it
    assert from_state_dict(state, kind, same)
    numbers = {name: np.int64(v) if type(v) is int else v for name, v in config.items()}
    assert from_state_dict(state, kind, numbers)
