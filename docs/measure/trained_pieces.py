"""
Train the smallest models of recent pieces: ``tox run -e measure -- trained_pieces`` (minutes).

Three comparisons, three seeds each. Blocks with attention, with gated delta rules and with one of
each learn to recall values by their keys, for a number of steps. Models with rotations in all
blocks, in every other one and in none, with and without windows, learn 32 characters of a text, and
read 128. Experts with and without the balancing loss learn a map that differs from region to
region. Writes docs/results/trained_pieces.csv.
"""

import csv
from pathlib import Path

import numpy as np

from dlref.losses import cross_entropy
from dlref.training import adamw_step, cosine_schedule
from dlref.transformer import (
    ExpertParams,
    GatedDeltaParams,
    LanguageModelConfig,
    associative_recall_task,
    init_language_model,
    language_model,
    language_model_loss_value_and_grad,
    load_balancing_loss,
    load_balancing_loss_grad,
    mixture_of_experts,
    mixture_of_experts_vjp,
    top_k_router,
    top_k_router_vjp,
)

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results" / "trained_pieces.csv"
TEXT = ROOT / "gallery" / "transformer" / "alice.txt"
SEEDS = 0, 1, 2


def trained(params, config, batches, rate, warmup):
    """Return parameters after a step for each batch of tokens and targets."""
    state = None
    for step, (tokens, targets) in enumerate(batches):
        _, grads = language_model_loss_value_and_grad(tokens, params, config, targets=targets)
        lr = rate * min(1, (step + 1) / warmup)
        params, state = adamw_step(
            params, grads, state, learning_rate=lr, betas=(0.9, 0.98), weight_decay=0.0
        )
    return params


# Delta rules and attention.

RECALL = {"pairs": 8, "keys": 8, "values": 8}
MIXERS = {
    "attention, attention": (False, False),
    "delta rule, delta rule": (True, True),
    "delta rule, attention": (True, False),
}


def delta_rule(rng, D, H, E):
    """Draw the parameters of a gated delta rule that forgets little at first."""
    wide = {"w_q": H * E, "w_k": H * E, "w_v": H * E, "w_z": H * E, "w_b": H, "w_a": H}
    drawn = {name: rng.normal(size=(rows, D)) / np.sqrt(D) for name, rows in wide.items()}
    conv = np.zeros((3 * H * E, 4))
    conv[:, -1] = 1.0
    conv += 0.2 * rng.normal(size=conv.shape)
    arrays = drawn | {
        "conv": conv, "a_log": np.zeros(H), "dt_bias": np.full(H, -4.0), "norm": np.ones(E),
        "w_o": rng.normal(size=(D, H * E)) / np.sqrt(2 * D),
    }  # fmt: skip
    return GatedDeltaParams(**{name: a.astype(np.float32) for name, a in arrays.items()})


def recall(mixers, seed, steps=250, D=32):
    """Return the share of values that a model of one head recalls after so many steps."""
    rng = np.random.default_rng(seed)
    config = LanguageModelConfig(
        RECALL["keys"] + RECALL["values"], D, 1, num_layers=2, d_ff=2 * D, positions="rope",
        rope_base=10.0, norm="rms", activation="swiglu", biases=False, tied=False,
        scale_embeddings=True,
    )  # fmt: skip
    params = init_language_model(rng, config, dtype=np.float32)
    blocks = [
        block._replace(attention=delta_rule(rng, D, 1, D)) if delta else block
        for block, delta in zip(params.blocks, mixers, strict=True)
    ]
    params = params._replace(blocks=tuple(blocks))
    batches = (associative_recall_task(rng, 32, **RECALL) for _ in range(steps))
    params = trained(params, config, batches, 5e-3, warmup=50)
    tokens, targets = associative_recall_task(np.random.default_rng(99), 400, **RECALL)
    best = language_model(tokens, params, config).argmax(-1)
    asked = targets >= 0
    return float(np.mean(best[asked] == targets[asked]))


# Rotations in some blocks.

WINDOW = {"window": (8, 0)}
ROTATIONS = {
    "rotations in all blocks": ({}, {}),
    "rotations in all, windows": (WINDOW, WINDOW),
    "in every other block": ({}, {"rope": None}),
    "in every other, windows there": (WINDOW, {"rope": None}),
    "in none": ({"rope": None}, {"rope": None}),
}
SHORT, LONG, LAST = 32, 128, 16


def read_on(blocks, seed, steps=300, D=48):
    """Return the losses of the last characters of short texts and of long ones."""
    text = TEXT.read_text(encoding="utf-8")
    characters = sorted(set(text))
    tokens = np.array([characters.index(c) for c in text])
    cut = len(tokens) * 9 // 10
    rng = np.random.default_rng(seed)
    config = LanguageModelConfig(len(characters), D, 4, positions="rope", blocks=blocks)

    def batches():
        for _ in range(steps):
            starts = rng.integers(0, cut - SHORT - 1, 16)
            pieces = tokens[starts[:, None] + np.arange(SHORT + 1)]
            yield pieces[:, :-1], pieces[:, 1:]

    params = init_language_model(rng, config, dtype=np.float32)
    params = trained(params, config, batches(), 4e-3, warmup=30)
    ends = np.arange(cut + LONG, len(tokens) - 1, 31)[:200]
    found = []
    for length in (SHORT, LONG):
        rows = tokens[ends[:, None] + np.arange(1 - length, 1)]
        logits = language_model(rows, params, config)[:, -LAST:]
        after = tokens[ends[:, None] + np.arange(2 - LAST, 2)]
        found.append(float(cross_entropy(logits, after)))
    return found


# Balance.

EXPERTS, BALANCE = 8, {"no balancing": 0.0, "balancing loss": 0.02}


def routed(weight_of_balance, seed, steps=600, D=8, F=16):
    """Return the error of trained experts, and the largest share of one among them."""
    rng = np.random.default_rng(seed)
    centers = 2 * rng.normal(size=(EXPERTS, D))
    maps = rng.normal(size=(EXPERTS, D, D)) / np.sqrt(D)
    shapes = (F, D), (F, D), (D, F)
    experts = ExpertParams(*(rng.normal(size=(EXPERTS, *s)) / np.sqrt(s[1]) for s in shapes))
    params, state = (0.5 * rng.normal(size=(EXPERTS, D)), experts), None

    def sample(count):
        which = rng.integers(0, EXPERTS, count)
        x = centers[which] + 0.3 * rng.normal(size=(count, D))
        return x, np.einsum("nij,nj->ni", maps[which], x)

    for step in range(steps):
        x, y = sample(128)
        router, experts = params
        off = mixture_of_experts(x, router, experts, k=1, normalize=False) - y
        _, drouter, dexperts = mixture_of_experts_vjp(
            2 * off / off.size, x, router, experts, k=1, normalize=False
        )[:3]
        if weight_of_balance:
            routing = top_k_router(x, router, k=1)
            dscores = weight_of_balance * load_balancing_loss_grad(routing.scores, routing.experts)
            drouter = drouter + top_k_router_vjp((None, None, dscores), x, router, k=1)[1]
        lr = cosine_schedule(step, peak=1e-2, steps=steps)
        params, state = adamw_step(
            params, (drouter, dexperts), state, learning_rate=lr, weight_decay=0.0
        )
    x, y = sample(2000)
    routing = top_k_router(x, params[0], k=1)
    error = np.mean((mixture_of_experts(x, *params, k=1, normalize=False) - y) ** 2) / np.var(y)
    share = np.bincount(routing.experts.ravel(), minlength=EXPERTS).max() / len(x)
    return float(error), float(share), float(load_balancing_loss(routing.scores, routing.experts))


def main():
    rows = []

    def add(piece, what, quantity, values):
        mean, spread = np.mean(values), np.ptp(values)
        rows.append([piece, what, quantity, f"{mean:.3f}", f"{spread:.3f}"])
        print(*rows[-1], sep=" | ", flush=True)

    for what, mixers in MIXERS.items():
        add("mixers", what, "recalled", [recall(mixers, seed) for seed in SEEDS])
    for what, blocks in ROTATIONS.items():
        short, long = zip(*(read_on(blocks, seed) for seed in SEEDS), strict=True)
        add("rotations", what, f"loss at {SHORT}", short)
        add("rotations", what, f"loss at {LONG}", long)
    for what, weight in BALANCE.items():
        error, share, _ = zip(*(routed(weight, seed) for seed in SEEDS), strict=True)
        add("experts", what, "error", error)
        add("experts", what, "largest share", share)
    with RESULTS.open("w", encoding="utf-8", newline="") as file:
        heads = "piece", "model", "quantity", "mean", "spread"
        csv.writer(file, lineterminator="\n").writerows([heads, *rows])


if __name__ == "__main__":
    main()
