"""
Load a checkpoint of 1 GB: ``tox run -e measure -- checkpoints`` (some seconds, 1 GB of disk).

A LLaMA with random numbers is written as a file of safetensors. Two processes of their own read its
bytes, and make parameters of it; the best of three times counts, in seconds of the processor, the
file being in the cache of the system. Memory is the largest sum of arrays and buffers of Python, as
tracemalloc sees it. Writes docs/results/checkpoints.csv. ``--megabytes N`` makes a smaller one.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "checkpoints.csv"
LAYERS = 12
BYTES = """
import sys, time
start = time.process_time()
with open(sys.argv[1], "rb") as file:
    data = file.read()
print(time.process_time() - start)
"""
LOAD = """
import json, sys, time, tracemalloc
import numpy, safetensors.numpy, ml_dtypes
from dlref import interop, transformer
from dlref.interop import from_state_dict, read_state_dict
settings = json.loads(sys.argv[2])
small = transformer.LanguageModelConfig(8, 8, 2, positions="rope", norm="rms", biases=False,
                                        activation="swiglu", tied=False)
rng = numpy.random.default_rng(0)
state = interop.to_state_dict(transformer.init_language_model(rng, small), "llama", small)
del state
if sys.argv[3] == "memory":
    tracemalloc.start()
start = time.process_time()
given = sys.argv[1] if sys.argv[4] == "path" else read_state_dict(sys.argv[1])
params, config = from_state_dict(given, "llama", settings)
took = time.process_time() - start
print(tracemalloc.get_traced_memory()[1] if sys.argv[3] == "memory" else took)
"""


def settings_of(width):
    return {
        "model_type": "llama", "vocab_size": 16 * width, "hidden_size": width,
        "intermediate_size": 4 * width, "num_hidden_layers": LAYERS,
        "num_attention_heads": width // 64, "num_key_value_heads": width // 64,
        "tie_word_embeddings": False,
    }  # fmt: skip


def state_of(settings):
    """Return tensors in float32 with the names of a LLaMA."""
    rng = np.random.default_rng(0)
    D, F, V = (settings[k] for k in ("hidden_size", "intermediate_size", "vocab_size"))
    shapes = {"model.embed_tokens.weight": (V, D), "model.norm.weight": (D,)}
    shapes["lm_head.weight"] = V, D
    for i in range(LAYERS):
        name = f"model.layers.{i}."
        shapes |= {f"{name}self_attn.{x}_proj.weight": (D, D) for x in "qkvo"}
        shapes |= {f"{name}mlp.{x}_proj.weight": (F, D) for x in ("gate", "up")}
        shapes |= {f"{name}mlp.down_proj.weight": (D, F)}
        shapes |= {f"{name}{x}_layernorm.weight": (D,) for x in ("input", "post_attention")}
    return {name: rng.random(shape, np.float32) for name, shape in shapes.items()}


def in_a_process(code, *arguments):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


def measured(folder, megabytes, repeats=3):
    """Return the state's size, the seconds of reading bytes, then by way of loading: both."""
    from safetensors.numpy import save_file  # noqa: PLC0415  # only here

    # 12 blocks of 16 D^2 numbers, and two matrices of 16 D^2
    width = round((megabytes * 2**20 / 4 / (16 * LAYERS + 32)) ** 0.5 / 64) * 64
    settings = settings_of(width)
    path, state = Path(folder) / "model.safetensors", state_of(settings)
    size = sum(a.nbytes for a in state.values())
    save_file(state, path)
    del state
    told = json.dumps(settings)
    bytes_alone = min(in_a_process(BYTES, path) for _ in range(repeats))
    found = {}
    for way in ("path", "dict"):
        took = min(in_a_process(LOAD, path, told, "time", way) for _ in range(repeats))
        found[way] = took, in_a_process(LOAD, path, told, "memory", way)
    return size, bytes_alone, found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--megabytes", type=int, default=1024)
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        size, alone, found = measured(folder, told.megabytes)
    heads = "from", "MB", "seconds", "times reading the bytes", "memory by the state's size"
    words = {"path": "the file's name", "dict": "a dictionary of its tensors"}
    rows = [
        [words[way], size // 2**20, f"{took:.2f}", f"{took / alone:.2f}", f"{memory / size:.2f}"]
        for way, (took, memory) in found.items()
    ]
    print(f"reading the bytes: {alone:.2f} s", heads, *rows, sep="\n")
    if told.megabytes == parser.get_default("megabytes"):
        with RESULTS.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([heads, *rows])


if __name__ == "__main__":
    main()
