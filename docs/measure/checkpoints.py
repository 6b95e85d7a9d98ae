"""
Load a checkpoint of 1 GB: ``tox run -e measure -- checkpoints`` (some seconds, 1 GB of disk).

A LLaMA with random numbers is written as a file of safetensors, which stays in the cache of the
system. It is brought into memory in five ways, each in a process of its own: NumPy and Python read
the bytes, the package safetensors reads the tensors, dlref the parameters. The best of five times
counts, in seconds of the processor. The first is among them, but is hardly ever the best, since the
system has to find memory for it. Memory is the largest sum of arrays and buffers of Python, as
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

RESULTS = Path(__file__).parents[1] / "results" / "checkpoints.csv"
LAYERS = 12
TIMES = """
import json, sys, time, tracemalloc
import ml_dtypes, numpy, safetensors.numpy
from dlref.interop import from_state_dict, read_state_dict
path, settings, way, count = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], int(sys.argv[4])
if not count:
    tracemalloc.start()
found = []
for _ in range(count or 1):
    start = time.process_time()
    if way == "numpy":
        got = numpy.fromfile(path, numpy.uint8)
    elif way == "python":
        with open(path, "rb") as file:
            got = file.read()
    elif way == "safetensors":
        got = safetensors.numpy.load_file(path)
    else:
        given = path if way == "path" else read_state_dict(path)
        got = from_state_dict(given, "llama", settings)
        given = None
    found.append(time.process_time() - start)
    got = None
print(min(found) if count else tracemalloc.get_traced_memory()[1])
"""
WAYS = {
    "numpy": "the bytes, by ``np.fromfile``",
    "python": "the bytes, by ``file.read``",
    "safetensors": "the tensors, by the package safetensors",
    "path": "the parameters, from the file's name",
    "dict": "the parameters, from a dictionary of its tensors",
}


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


def in_a_process(*arguments):
    command = [sys.executable, "-c", TIMES, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


def measured(folder, megabytes, repeats=5):
    """Return the state's size, then seconds and memory by way of loading."""
    from safetensors.numpy import save_file  # noqa: PLC0415  # only here

    # 12 blocks of 16 D^2 numbers, and two matrices of 16 D^2
    width = round((megabytes * 2**20 / 4 / (16 * LAYERS + 32)) ** 0.5 / 64) * 64
    settings = settings_of(width)
    path, state = Path(folder) / "model.safetensors", state_of(settings)
    size = sum(a.nbytes for a in state.values())
    save_file(state, path)
    del state
    options = json.dumps(settings)
    ways = {way: [in_a_process(path, options, way, n) for n in (repeats, 0)] for way in WAYS}
    return size, ways


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--megabytes", type=int, default=1024)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        size, found = measured(folder, options.megabytes)
    heads = "contents", "MB", "seconds", "times ``np.fromfile``", "memory by the state's size"
    shortest = found["numpy"][0]
    rows = [
        [WAYS[way], size // 2**20, f"{took:.2f}", f"{took / shortest:.1f}", f"{memory / size:.2f}"]
        for way, (took, memory) in found.items()
    ]
    print(heads, *rows, sep="\n")
    if options.megabytes == parser.get_default("megabytes"):
        with RESULTS.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([heads, *rows])


if __name__ == "__main__":
    main()
