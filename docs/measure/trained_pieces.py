"""
Train the smallest models of recent pieces: ``tox run -e measure -- trained_pieces`` (minutes).

Six comparisons, three seeds each. Blocks with attention, with gated delta rules and with one of
each learn to recall values by their keys, for a number of steps. Models with rotations in all
blocks, in every other one and in none, with and without windows, learn 32 characters of a text, and
read 128. Experts with and without the balancing loss learn a map that differs from region to
region. Models of the text have residual connections, several streams or attention over depth;
predict one character or several; and keep keys and values of all layers and heads or fewer numbers.
Writes docs/results/trained_pieces.csv; with names of comparisons (``mixers``, ``rotations``,
``experts``, ``connections``, ``targets``, ``caches``) it measures these and keeps the others' rows.
"""

import csv
import functools
import sys
from pathlib import Path

import connected_models as models
import numpy as np

from dlref.losses import cross_entropy, cross_entropy_grad
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


# Connections between blocks, targets and caches: models of the text.


def characters():
    """Return the text as numbers, and how many characters there are."""
    text = TEXT.read_text(encoding="utf-8")
    known = sorted(set(text))
    return np.array([known.index(c) for c in text]), len(known)


def read(kind, seed, steps, *, D, depth, connected=models.chain, **parts):
    """Return a model that has learned to read on, as logits of held-out text, and its targets.

    `kind` is the number of characters that each position predicts.
    """
    tokens, vocabulary = characters()
    cut, rng = len(tokens) * 9 // 10, np.random.default_rng(seed)
    params, state = models.draw(rng, vocabulary, D, depth, **parts), None

    def targets(pieces):
        return [pieces[:, k + 1 : k + 1 + SHORT] for k in range(kind)]

    for step in range(steps):
        starts = rng.integers(0, cut - SHORT - kind, 16)
        pieces = tokens[starts[:, None] + np.arange(SHORT + kind)]
        logits, back = models.model(pieces[:, :SHORT], params, connected)
        pairs = zip(logits, targets(pieces), strict=True)
        grads = back([cross_entropy_grad(z, right) for z, right in pairs])
        params, state = adamw_step(
            params, grads, state, learning_rate=3e-3 * min(1, (step + 1) / 30),
            betas=(0.9, 0.98), weight_decay=0.0,
        )  # fmt: skip
    starts = np.arange(cut, len(tokens) - SHORT - kind, SHORT)
    pieces = tokens[starts[:, None] + np.arange(SHORT + kind)]
    logits, _ = models.model(pieces[:, :SHORT], params, connected)
    return logits, targets(pieces), params


def loss_of(logits, targets):
    return float(cross_entropy(logits, targets))


SINGLE, DOUBLE = models.free_streams, models.doubly_stochastic_streams
CONNECTIONS = {
    "residual connections": {},
    "four streams, mixed freely": {"connected": SINGLE, "connect": models.draw_streams(1.0)},
    "four streams, doubly stochastic": {"connected": DOUBLE, "connect": models.draw_streams(4.0)},
    "attention over depth": {"connected": models.over_depth, "connect": models.draw_queries},
}


def connections(parts, seed, steps=300, D=32, depth=8):
    """Return the loss, and the largest factor by which the mixtures of all layers enlarge."""
    logits, targets, params = read(1, seed, steps, D=D, depth=depth, **parts)
    gain = 1.0
    if parts.get("connected") in (SINGLE, DOUBLE):
        mix = models.sinkhorn_few if parts["connected"] is DOUBLE else np.asarray
        matrices = [mix(scores) for scores, *_ in reversed(params.connections[:-1])]
        gain = float(np.linalg.norm(functools.reduce(np.matmul, matrices), 2))
    return loss_of(logits[0], targets[0]), gain


TARGETS = {"one character": 1, "two characters": 2, "four characters": 4}


def several(count, seed, steps=300, D=48):
    """Return the loss of the next character, of the one after it, and how many would be accepted.

    That is the share of positions at which the second head already names the character that the
    first head names one step later.
    """
    logits, targets, _ = read(count, seed, steps, D=D, depth=2, heads=count)
    after = [loss_of(logits[1], targets[1])] if count > 1 else []
    ahead = [z.argmax(-1) for z in logits[:2]]
    same = [float(np.mean(ahead[1][:, :-1] == ahead[0][:, 1:]))] if count > 1 else []
    return loss_of(logits[0], targets[0]), *after, *same


CACHES = {
    "own keys in 4 heads and 4 layers": {},
    "one head of keys in each layer": {"attention": models.heads_of_keys(1)},
    "latents in each layer": {"attention": models.latents(24, 8)},
    "two heads, shared by 2 layers": {"attention": models.heads_of_keys(2), "share": 2},
    "four heads, shared by all layers": {"share": 4},
}


def cached(parts, D=64, depth=4):
    """Return how many numbers a token leaves in the cache."""
    drawn = parts.get("attention", models.heads_of_keys(models.HEADS))
    p = drawn(np.random.default_rng(0), D, 1.0)
    numbers = len(p.w_dkv) if models.is_latent(p) else len(p.w_k) + len(p.w_v)
    return numbers * depth // parts.get("share", 1)


def caches(parts, seed, steps=300, D=64, depth=4):
    """Return the loss of a model."""
    parts = dict(parts)
    chain = functools.partial(models.chain, share=parts.pop("share", 1))
    logits, targets, _ = read(1, seed, steps, D=D, depth=depth, connected=chain, **parts)
    return loss_of(logits[0], targets[0])


# All comparisons: rows of a model, a quantity and its values.


def of_mixers():
    for what, mixers in MIXERS.items():
        yield what, "recalled", [recall(mixers, seed) for seed in SEEDS]


def of_rotations():
    for what, blocks in ROTATIONS.items():
        short, long = zip(*(read_on(blocks, seed) for seed in SEEDS), strict=True)
        yield what, f"loss at {SHORT}", short
        yield what, f"loss at {LONG}", long


def of_experts():
    for what, weight in BALANCE.items():
        error, share, _ = zip(*(routed(weight, seed) for seed in SEEDS), strict=True)
        yield what, "error", error
        yield what, "largest share", share


def of_connections():
    for what, parts in CONNECTIONS.items():
        loss, gain = zip(*(connections(parts, seed) for seed in SEEDS), strict=True)
        yield what, "loss", loss
        if "streams" in what:
            yield what, "gain of the mixtures", gain


def of_targets():
    for what, count in TARGETS.items():
        found = zip(*(several(count, seed) for seed in SEEDS), strict=True)
        quantities = "loss of the next", "loss of the one after", "accepted"
        for quantity, values in zip(quantities, found, strict=False):
            yield what, quantity, values


def of_caches():
    for what, parts in CACHES.items():
        yield what, "loss", [caches(parts, seed) for seed in SEEDS]
        yield what, "cached numbers", [cached(parts)] * len(SEEDS)


PIECES = {
    "mixers": of_mixers,
    "rotations": of_rotations,
    "experts": of_experts,
    "connections": of_connections,
    "targets": of_targets,
    "caches": of_caches,
}


def main():
    rows, wanted = [], sys.argv[1:] or list(PIECES)
    with RESULTS.open(encoding="utf-8", newline="") as file:
        heads, *known = csv.reader(file)
    for piece, compare in PIECES.items():
        if piece not in wanted:
            rows += [row for row in known if row[0] == piece]
            continue
        for what, quantity, values in compare():
            mean, spread = np.mean(values), np.ptp(values)
            rows.append([piece, what, quantity, f"{mean:.3f}", f"{spread:.3f}"])
            print(*rows[-1], sep=" | ", flush=True)
    with RESULTS.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([heads, *rows])


if __name__ == "__main__":
    main()
