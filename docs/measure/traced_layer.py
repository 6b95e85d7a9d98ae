"""
Judge a layer of a model of 70 billion numbers: ``tox run -e measure -- traced_layer``.

A shard of 1.6 GB with layer 40 of a LLaMA of width 8192 and 28672, random numbers in bfloat16,
stands in a folder whose index names 80 layers; the other shards are missing. A port, in PyTorch and
float32, runs the layer on 16 tokens, once right and once with gate and up exchanged. In a process
of its own each is judged by `trace_checkpoint` and `first_difference`. Memory is the largest
resident set of the process (Linux), time is that of the clock. Writes the table
docs/results/traced_layer.csv; ``--width N`` makes a smaller layer, and writes nothing.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parents[1] / "results" / "traced_layer.csv"
LAYER, LAYERS, TOKENS = 40, 80, 16
JUDGED = """
import re, sys, time
from pathlib import Path
import numpy as np
from dlref.check import first_difference
from dlref.interop import trace_checkpoint
folder, port = sys.argv[1:3]
other = dict(np.load(port))
tokens, start = np.zeros(len(other["blocks.40.out"]), int), time.perf_counter()
steps = trace_checkpoint(folder, tokens, layers=[40], given=other)
traced = time.perf_counter()
found = first_difference(steps, other)
judged = time.perf_counter()
status = Path("/proc/self/status").read_text()
most = int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) / 2**20
print(found.name if found else "", found.cause if found else "", traced - start, judged - traced,
      most, sep=" | ")
"""


def settings_of(width):
    return {
        "model_type": "llama", "vocab_size": 128256, "hidden_size": width,
        "intermediate_size": width * 7 // 2, "num_hidden_layers": LAYERS,
        "num_attention_heads": width // 128, "num_key_value_heads": max(width // 1024, 1),
        "rms_norm_eps": 1e-5, "rope_theta": 5e5, "tie_word_embeddings": False,
    }  # fmt: skip


def names_of(layer, settings):
    """Return the shapes of a layer's tensors by name."""
    D, F = settings["hidden_size"], settings["intermediate_size"]
    K = 128 * settings["num_key_value_heads"]
    start = f"model.layers.{layer}."
    rows = {"q": (D, D), "k": (K, D), "v": (K, D), "o": (D, D)}
    found = {f"{start}self_attn.{x}_proj.weight": shape for x, shape in rows.items()}
    found |= {f"{start}mlp.{x}_proj.weight": (F, D) for x in ("gate", "up")}
    found[f"{start}mlp.down_proj.weight"] = D, F
    return found | {f"{start}{x}_layernorm.weight": (D,) for x in ("input", "post_attention")}


def written(folder, settings):
    """Write the shard of one layer, the index of all, and the configuration."""
    import torch  # noqa: PLC0415  # only here
    from safetensors.torch import save_file  # noqa: PLC0415

    torch.manual_seed(0)
    width = settings["hidden_size"]
    state = {}
    for name, shape in names_of(LAYER, settings).items():
        array = torch.empty(shape, dtype=torch.bfloat16)
        state[name] = array.normal_(0, width**-0.5) if len(shape) == 2 else array.uniform_(0.5, 1.5)
    outside = ("model.embed_tokens.weight", "model.norm.weight", "lm_head.weight")
    places = dict.fromkeys(outside, "model-outside.safetensors")
    for i in range(LAYERS):
        places |= dict.fromkeys(names_of(i, settings), f"model-{i}.safetensors")
    save_file(state, folder / f"model-{LAYER}.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    (folder / "config.json").write_text(json.dumps(settings))
    return sum(a.nbytes for a in state.values())


def port(folder, settings, exchanged):
    """Run the layer in PyTorch, and return its steps; gate and up may be exchanged."""
    import torch  # noqa: PLC0415
    from safetensors import safe_open  # noqa: PLC0415

    start, width = f"model.layers.{LAYER}.", settings["hidden_size"]
    shard = safe_open(folder / f"model-{LAYER}.safetensors", "pt")

    def weight(name):
        return shard.get_tensor(f"{start}{name}.weight").float()

    def heads(x):
        return x.unflatten(-1, (-1, 128)).transpose(0, 1)

    def norm(x, name):
        return weight(name) * x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt()

    def rotated(x):
        angles = torch.outer(torch.arange(TOKENS), 5e5 ** (-torch.arange(0, 128, 2) / 128))
        cos, sin = (f(angles).repeat(1, 2) for f in (torch.cos, torch.sin))
        return x * cos + torch.cat([-x[..., 64:], x[..., :64]], -1) * sin

    f = torch.nn.functional
    torch.manual_seed(1)
    x = torch.randn(TOKENS, width)
    steps = {f"blocks.{LAYER - 1}.out": x}
    y = norm(x, "input_layernorm")
    q, k, v = (heads(f.linear(y, weight(f"self_attn.{n}_proj"))) for n in "qkv")
    y = f.scaled_dot_product_attention(
        rotated(q)[None], rotated(k)[None], v[None], is_causal=True, enable_gqa=True
    )[0]
    y = f.linear(y.transpose(0, 1).flatten(1), weight("self_attn.o_proj"))
    x, steps[f"blocks.{LAYER}.attention.out"] = x + y, y
    y = steps[f"blocks.{LAYER}.norm2"] = norm(x, "post_attention_layernorm")
    first, second = ("up", "gate") if exchanged else ("gate", "up")
    gate = f.silu(f.linear(y, weight(f"mlp.{first}_proj")))
    y = f.linear(gate * f.linear(y, weight(f"mlp.{second}_proj")), weight("mlp.down_proj"))
    steps[f"blocks.{LAYER}.out"] = x + y
    return {name: array.numpy() for name, array in steps.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--width", type=int, default=8192)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder, settings = Path(name), settings_of(options.width)
        size = written(folder, settings)
        for kind, exchanged in (("right", False), ("gate and up exchanged", True)):
            np.savez(folder / "port.npz", **port(folder, settings, exchanged))
            command = [sys.executable, "-c", JUDGED, name, str(folder / "port.npz")]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            step, cause, traced, judged, most = done.stdout.rstrip("\n").split(" | ")
            numbers = [f"{float(x):.1f}" for x in (traced, judged)]
            rows.append([kind, step, cause, *numbers, f"{float(most):.2f}"])
    heads = "port", "first difference", "cause", "s to trace", "s to judge", "GB of memory"
    print(f"{size / 2**30:.2f} GB in the shard", heads, *rows, sep="\n")
    if options.width == parser.get_default("width"):
        with RESULTS.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([heads, *rows])


if __name__ == "__main__":
    main()
