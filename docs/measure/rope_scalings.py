"""
Write docs/results/rope_scalings.csv: RoPE on texts longer than it was trained on, by scaling.

``tox run -e measure -- rope_scalings`` (two minutes).  The model with RoPE of positions_measured.py
is trained once for each seed, without a scaling; then each scaling is put into its configuration,
and the same characters are predicted.  No weight is trained again.
"""

import csv
import dataclasses

import numpy as np
import positions_measured as measured

from dlref.transformer import language_model

FILE = measured.FILE.with_name("rope_scalings.csv")
HEADER = ["scaling", *(f"loss at {n}" for n in measured.LENGTHS), "spread"]
TRAINED = {"original_max_position_embeddings": measured.T}
FACTOR = measured.LENGTHS[-1] / measured.T


def ntk(factor):
    """Return the NTK scaling, none for the factor 1."""
    return {"type": "ntk", "factor": factor}


#: A scaling for a text of n tokens.  "dynamic" is NTK with the factor that belongs to n.
SCALINGS = {
    "none": lambda n: None,
    "linear": lambda n: {"type": "linear", "factor": FACTOR},
    "ntk": lambda n: ntk(FACTOR),
    "dynamic": lambda n: ntk(max(n / measured.T, 1.0)),
    "yarn": lambda n: {"type": "yarn", "factor": FACTOR, **TRAINED},
    "llama3": lambda n: {
        "type": "llama3", "factor": FACTOR, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        **TRAINED,
    },
}  # fmt: skip


def main():
    text = measured.TEXT.read_text()
    characters = sorted(set(text))
    tokens = np.array([characters.index(c) for c in text])
    cut = len(tokens) * 9 // 10
    plain = measured.configuration(len(characters), "rope")
    found = {name: [] for name in SCALINGS}
    for seed in measured.SEEDS:
        params = measured.trained_parameters("rope", tokens[:cut], len(characters), seed)
        for name, scaling in SCALINGS.items():

            def model(ids, params=params, scaling=scaling):
                config = dataclasses.replace(plain, rope_scaling=scaling(ids.shape[-1]))
                return language_model(ids, params, config)

            found[name].append(measured.losses(model, tokens[cut:]))
    with FILE.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        for name, each in found.items():
            spread = np.max(np.ptp(each, axis=0))
            row = [name, *(f"{loss:.2f}" for loss in np.mean(each, axis=0)), f"{spread:.2f}"]
            writer.writerow(row)
            print(*row)


if __name__ == "__main__":
    main()
