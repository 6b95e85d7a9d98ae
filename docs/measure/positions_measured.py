"""
Write docs/results/positions_measured.csv: position schemes trained, and their attention timed.

``tox run -e measure -- positions_measured [SCHEME ...]`` (ten minutes).  A small language model is
trained for each scheme and each of three seeds, on pieces of 32 characters.  Then the same
characters of a held-out text are predicted after 16 to 32, 48 to 64 and 112 to 128 characters of
context, so that only the length differs.  What `LanguageModelConfig` does not offer is built here
from the functions of dlref and their vjps.

tests/test_positions_measured.py checks the gradients of what is built here, and the file.
"""

import csv
import sys
import time
from pathlib import Path

import numpy as np
import position_table

import dlref
from dlref import positions as P
from dlref.activations import softmax, softmax_vjp
from dlref.attention import scaled_dot_product_attention, scaled_dot_product_attention_vjp
from dlref.losses import cross_entropy, cross_entropy_value_and_grad
from dlref.neurons import linear, linear_vjp
from dlref.normalization import layer_norm, layer_norm_vjp
from dlref.training import adamw_step, cosine_schedule
from dlref.transformer import (
    LanguageModelConfig,
    feed_forward,
    feed_forward_vjp,
    init_language_model,
    language_model,
    language_model_loss_value_and_grad,
)

HERE = Path(__file__).parents[2]
FILE = HERE / "docs" / "results" / "positions_measured.csv"
TEXT = HERE / "gallery" / "transformer" / "alice.txt"
T, LENGTHS, LAST = 32, (32, 64, 128), 16  # trained, read, and characters predicted of each piece
D, H, LAYERS, STEPS, B, SEEDS = 48, 4, 2, 300, 16, (0, 1, 2)
E, HIDDEN = D // H, 32
HEADER = ["scheme", *(f"loss at {n}" for n in LENGTHS), "spread", "cost", "backward"]


class Scheme:
    """
    Scores of queries and keys (B, H, T, E), scaled but not masked; here, no positions.

    `scores` returns them and a pullback to (dq, dk, dextra); `extra` are parameters of one layer.
    """

    def extra(self, _rng):
        return ()

    def scores(self, q, k, _extra):
        scale = q.dtype.type(E**-0.5)

        def pullback(u):
            return scale * (u @ k), scale * (np.swapaxes(u, -1, -2) @ q), ()

        return scale * (q @ np.swapaxes(k, -1, -2)), pullback


class Bias(Scheme):
    """A number added for each pair, from parameters."""

    def bias(self, n, *extra):
        raise NotImplementedError

    def bias_vjp(self, u, n, *extra):
        raise NotImplementedError

    def scores(self, q, k, extra):
        s, back = super().scores(q, k, ())

        def pullback(u):
            du = self.bias_vjp(u.sum(0), q.shape[-2], *extra)
            return *back(u)[:2], tuple(np.asarray(g, q.dtype) for g in du)

        return s + self.bias(q.shape[-2], *extra).astype(q.dtype), pullback


class Relative(Bias):
    """A number for each offset, up to the longest text; those never trained stay at 0."""

    def extra(self, _rng):
        return (np.zeros((H, 2 * LENGTHS[-1] - 1)),)

    def bias(self, n, table):
        return P.relative_bias(table[:, LENGTHS[-1] - n :][:, : 2 * n - 1], n, n)

    def bias_vjp(self, u, n, table):
        du, first = np.zeros_like(table), LENGTHS[-1] - n
        used = table[:, first : first + 2 * n - 1]
        du[:, first : first + 2 * n - 1] = P.relative_bias_vjp(u, used, n, n)
        return (du,)


class Kerple(Bias):
    """The logarithm of the distance; its two positive numbers are exponentials."""

    def extra(self, _rng):
        return np.zeros(H), np.zeros(H)

    def bias(self, n, a, b):
        return P.kerple_bias(np.exp(a), np.exp(b), n, n)

    def bias_vjp(self, u, n, a, b):
        da, db = P.kerple_bias_vjp(u, np.exp(a), np.exp(b), n, n)
        return da * np.exp(a), db * np.exp(b)


class Fire(Bias):
    """A network of the distance; scale and threshold are exponentials."""

    def extra(self, rng):
        w1, b1 = rng.normal(size=(2, HIDDEN))
        w2 = rng.normal(0, HIDDEN**-0.5, (H, HIDDEN))
        return w1, b1, w2, np.zeros(H), np.log(0.1), np.log(T / 4)

    def bias(self, n, *extra):
        *network, c, threshold = extra
        return P.fire_bias(*network, np.exp(c), np.exp(threshold), n, n)

    def bias_vjp(self, u, n, *extra):
        *network, c, threshold = extra
        *du, dc, dthreshold = P.fire_bias_vjp(u, *network, np.exp(c), np.exp(threshold), n, n)
        return *du, dc * np.exp(c), dthreshold * np.exp(threshold)


class XPos(Scheme):
    """Rotations with a scale, which begins to matter at `scale_base`: here the trained length."""

    def scores(self, q, k, _extra):
        at = np.arange(q.shape[-2])
        cos, sin = P.rope_tables(at, P.rope_frequencies(E))
        tables = [t.astype(q.dtype) for t in (cos, sin, P.xpos_scales(at, E, scale_base=float(T)))]
        s, back = super().scores(
            P.apply_xpos(q, *tables), P.apply_xpos(k, *tables, inverse=True), ()
        )

        def pullback(u):
            dq, dk, _ = back(u)
            dk = P.apply_xpos_vjp(dk, k, *tables, inverse=True)
            return P.apply_xpos_vjp(dq, q, *tables), dk, ()

        return s, pullback


class Shaw(Scheme):
    """A vector for each offset up to 16, which all heads share."""

    def extra(self, rng):
        return (rng.normal(0, 0.02, (33, E)),)

    def scores(self, q, k, extra):
        s, back = super().scores(q, k, ())
        scale = q.dtype.type(E**-0.5)

        def pullback(u):
            dq, dk, _ = back(u)
            more, dtable = P.shaw_scores_vjp(scale * u, q, *extra)
            return dq + more, dk, (dtable,)

        return s + scale * P.shaw_scores(q, *extra), pullback


class Disentangled(Scheme):
    """Queries and keys of relative positions, clipped at 16; three terms have a scale of 3 E."""

    def extra(self, rng):
        return rng.normal(0, 0.02, (H, 32, E)), rng.normal(0, 0.02, (H, 32, E))

    def scores(self, q, k, extra):
        scale = q.dtype.type((3 * E) ** -0.5)

        def pullback(u):
            dq, dk, *dextra = P.disentangled_scores_vjp(scale * u, q, k, *extra)
            return dq, dk, tuple(dextra)

        return scale * P.disentangled_scores(q, k, *extra), pullback


class TransformerXL(Scheme):
    """Projected sinusoids of the distance; what a causal mask hides needs no vector."""

    def extra(self, rng):
        return rng.normal(0, D**-0.5, (D, D)), np.zeros((H, 1, E)), np.zeros((H, 1, E))

    def scores(self, q, k, extra):
        w, u, v = extra
        n, scale = q.shape[-2], q.dtype.type(E**-0.5)
        rows = np.zeros((2 * n - 1, D), q.dtype)
        rows[:n] = P.sinusoidal(n, D)[::-1]
        r = np.swapaxes(linear(rows, w).reshape(2 * n - 1, H, E), 0, 1)

        def pullback(g):
            dq, dk, dr, du, dv = P.transformer_xl_scores_vjp(scale * g, q, k, r, u, v)
            dr = np.swapaxes(dr, 0, 1).reshape(2 * n - 1, D)
            return dq, dk, (linear_vjp(dr, rows, w)[1], du, dv)

        return scale * P.transformer_xl_scores(q, k, r, u, v), pullback


class CoPE(Scheme):
    """Positions counted by gates, up to the trained length."""

    def extra(self, rng):
        return (rng.normal(0, 0.02, (T, E)),)

    def scores(self, q, k, extra):
        s, back = super().scores(q, k, ())
        s = masked(s)

        def pullback(u):
            dq_table, ds, dtable = P.cope_vjp(u, q, s, *extra)
            dq, dk, _ = back(u + np.where(np.isfinite(s), ds, 0))
            return dq + dq_table, dk, (dtable,)

        return s + P.cope(q, s, *extra), pullback


#: By the names of the functions; text: an option of `LanguageModelConfig`.
SCHEMES = {
    "none": "none",
    "sinusoidal": "sinusoidal",
    "learned_positions": "learned",
    "apply_rope": "rope",
    "apply_xpos": XPos(),
    "alibi_bias": "alibi",
    "t5_bias": "t5",
    "relative_bias": Relative(),
    "kerple_bias": Kerple(),
    "fire_bias": Fire(),
    "shaw_scores": Shaw(),
    "transformer_xl_scores": TransformerXL(),
    "disentangled_scores": Disentangled(),
    "cope": CoPE(),
}


def masked(s):
    """Hide the keys after the query."""
    return np.where(np.tri(s.shape[-1], dtype=bool), s, s.dtype.type(-np.inf))


def heads(x):
    """Cut the features into heads: (B, T, D) to (B, H, T, E)."""
    return np.swapaxes(x.reshape(*x.shape[:-1], H, E), -2, -3)


def joined(x):
    """Put the heads side by side, the inverse."""
    x = np.swapaxes(x, -2, -3)
    return x.reshape(*x.shape[:-2], D)


def attention(x, p, scheme, extra):
    """Attend with the scores of a scheme; the pullback returns (dx, dp, dextra)."""
    q, k, v = (heads(linear(x, w, b)) for w, b in ((p.w_q, p.b_q), (p.w_k, p.b_k), (p.w_v, p.b_v)))
    s, back = scheme.scores(q, k, extra)
    s = masked(s)
    weights = softmax(s)
    merged = joined(weights @ v)

    def pullback(u):
        du, dw_o, db_o = linear_vjp(u, merged, p.w_o, p.b_o)
        du = heads(du)
        ds = np.where(np.isfinite(s), softmax_vjp(du @ np.swapaxes(v, -1, -2), s), 0)
        dq, dk, dextra = back(ds.astype(x.dtype))
        dv = np.swapaxes(weights, -1, -2) @ du
        dx_q, dw_q, db_q = linear_vjp(joined(dq), x, p.w_q, p.b_q)
        dx_k, dw_k, db_k = linear_vjp(joined(dk), x, p.w_k, p.b_k)
        dx_v, dw_v, db_v = linear_vjp(joined(dv), x, p.w_v, p.b_v)
        dp = p._replace(
            w_q=dw_q, w_k=dw_k, w_v=dw_v, w_o=dw_o, b_q=db_q, b_k=db_k, b_v=db_v, b_o=db_o
        )
        return dx_q + dx_k + dx_v, dp, dextra

    return linear(merged, p.w_o, p.b_o), pullback


def run(tokens, params, extras, scheme):
    """Return the logits of a model, and a pullback to the gradients of both trees."""
    steps, x = [], params.embedding[tokens]
    for p, extra in zip(params.blocks, extras, strict=True):
        out, back = attention(layer_norm(x, *p.norm1), p.attention, scheme, extra)
        y = x + out
        z = layer_norm(y, *p.norm2)
        steps.append((p, x, back, y, z))
        x = y + feed_forward(z, p.feed_forward, activation="gelu")
    last = layer_norm(x, *params.norm)

    def pullback(u):
        u, dhead, _ = linear_vjp(u, last, params.head, np.zeros(len(params.head), u.dtype))
        u, *dnorm = layer_norm_vjp(u, x, *params.norm)
        dblocks, dextras = [], []
        for p, x_in, back, y, z in reversed(steps):
            dz, dnetwork = feed_forward_vjp(u, z, p.feed_forward, activation="gelu")
            dy, *dnorm2 = layer_norm_vjp(dz, y, *p.norm2)
            u = u + dy
            dz, dattention, dextra = back(u)
            dx, *dnorm1 = layer_norm_vjp(dz, x_in, *p.norm1)
            u = u + dx
            norms = type(p.norm1)(*dnorm1), type(p.norm2)(*dnorm2)
            dblocks.insert(0, type(p)(dattention, norms[0], dnetwork, norms[1]))
            dextras.insert(0, dextra)
        dembedding = P.learned_positions_vjp(u, params.embedding, tokens)
        grads = params._replace(
            embedding=dembedding,
            blocks=tuple(dblocks),
            norm=type(params.norm)(*dnorm),
            head=dhead,
        )
        return grads, tuple(dextras)

    return linear(last, params.head), pullback


def configuration(vocabulary, scheme):
    """Return the model around a scheme."""
    options = scheme if isinstance(scheme, str) else "none"
    return LanguageModelConfig(
        vocabulary, D, H, num_layers=LAYERS, positions=options, length=LENGTHS[-1], tied=False
    )


def init(scheme, config, seed, dtype=np.float32):
    """Draw the parameters of a model and of its scheme; the same for all but the latter."""
    params = init_language_model(np.random.default_rng(seed), config, dtype=dtype)
    rng = np.random.default_rng(seed + 100)
    extras = tuple(tuple(np.asarray(a, dtype) for a in scheme.extra(rng)) for _ in range(LAYERS))
    return params, extras


def value_and_grad(batch, trees, scheme):
    """Return the loss of a scheme built here, and the gradients of its trees."""
    logits, pullback = run(batch[:, :-1], *trees, scheme)
    loss, dlogits = cross_entropy_value_and_grad(logits, batch[:, 1:])
    return loss, pullback(dlogits)


def trained_parameters(scheme, tokens, vocabulary, seed):
    """Train a model; return its parameters, and for a scheme built here also the scheme's."""
    config = configuration(vocabulary, scheme)
    places, state = np.random.default_rng(seed + 1), None
    built = not isinstance(scheme, str)
    trees = (
        init(scheme, config, seed)
        if built
        else init_language_model(np.random.default_rng(seed), config, dtype=np.float32)
    )
    for step in range(1, STEPS + 1):
        start = places.integers(0, len(tokens) - T, B)
        batch = tokens[start[:, None] + np.arange(T + 1)]
        if built:
            _, grads = value_and_grad(batch, trees, scheme)
        else:
            _, grads = language_model_loss_value_and_grad(batch, trees, config)
        rate = cosine_schedule(step, peak=5e-3, warmup=20, steps=STEPS)
        trees, state = adamw_step(trees, grads, state, learning_rate=rate, betas=(0.9, 0.98))
    return trees


def trained(scheme, tokens, vocabulary, seed):
    """Train a model; return a function from tokens to logits."""
    trees = trained_parameters(scheme, tokens, vocabulary, seed)
    if isinstance(scheme, str):
        config = configuration(vocabulary, scheme)
        return lambda ids: language_model(ids, trees, config)
    return lambda ids: run(ids, *trees, scheme)[0]


def losses(model, held):
    """Return the loss of the same characters after contexts of each length."""
    longest = LENGTHS[-1]
    ends = np.arange(longest + 1, len(held) + 1, LAST)  # every character is predicted once
    pieces = held[ends[:, None] + np.arange(-longest - 1, 0)]
    found = []
    for length in LENGTHS:
        logits = model(pieces[:, -length - 1 : -1])[:, -LAST:]
        found.append(float(cross_entropy(logits.astype(np.float64), pieces[:, -LAST:])))
    return found


class Attention:
    """
    Attention of 1024 tokens, 8 heads of 64, with each scheme, a method of its name; or the vjp.

    The vjp computes the forward pass anew, and has the gradients of the scheme's parameters.
    """

    def __init__(self, n=1024, h=8, e=64, *, backward):
        rng = np.random.default_rng(0)

        def normal(*shape):
            return rng.normal(size=shape).astype(np.float32)

        self.backward, self.n, self.width = backward, n, h * e
        self.q, self.k, self.v, self.u = normal(4, h, n, e)
        self.x, self.table = normal(2, n, h * e)
        self.frequencies, self.scale = P.rope_frequencies(e), np.float32(e**-0.5)
        self.slopes, self.positive = P.alibi_slopes(h), np.ones(h, np.float32)
        self.near, self.far, self.places = normal(33, e), normal(64, e), normal(h, 32, e)
        self.numbers, self.buckets = normal(h, 2 * n - 1), normal(32, h)
        self.network = *normal(2, 32), normal(h, 32), self.positive, 0.1, min(256.0, n)
        self.zero, self.w = np.zeros((h, 1, e), np.float32), normal(h * e, h * e)
        self.sinusoids = np.zeros((2 * n - 1, h * e), np.float32)
        self.sinusoids[:n] = P.sinusoidal(n, h * e)[::-1]

    def none(self, q=None, k=None, bias=None):
        given = self.q if q is None else q, self.k if k is None else k, self.v
        if self.backward:
            return scaled_dot_product_attention_vjp(self.u, *given, bias=bias, is_causal=True)
        return scaled_dot_product_attention(*given, bias=bias, is_causal=True)

    def sinusoidal(self):
        self.none()
        return self.x + P.sinusoidal(self.n, self.width).astype(np.float32)

    def learned_positions(self):
        self.none()
        if self.backward:
            P.learned_positions_vjp(self.x, self.table, np.arange(self.n))
        return self.x + P.learned_positions(self.table, np.arange(self.n))

    def tables(self):
        return [t.astype(np.float32) for t in P.rope_tables(np.arange(self.n), self.frequencies)]

    def apply_rope(self):
        both = self.tables()
        found = self.none(P.apply_rope(self.q, *both), P.apply_rope(self.k, *both))
        if self.backward:
            P.apply_rope_vjp(found[0], self.q, *both)
            P.apply_rope_vjp(found[1], self.k, *both)

    def apply_xpos(self):
        scales = P.xpos_scales(np.arange(self.n), 2 * self.frequencies.size)
        tables = *self.tables(), scales.astype(np.float32)
        q, k = P.apply_xpos(self.q, *tables), P.apply_xpos(self.k, *tables, inverse=True)
        found = self.none(q, k)
        if self.backward:
            P.apply_xpos_vjp(found[0], self.q, *tables)
            P.apply_xpos_vjp(found[1], self.k, *tables, inverse=True)

    def biased(self, name, *parameters, **options):
        arguments = *parameters, self.n, self.n
        found = self.none(bias=getattr(P, name)(*arguments, **options).astype(np.float32))
        if self.backward and name != "alibi_bias":  # whose slopes are fixed
            getattr(P, f"{name}_vjp")(found[3], *arguments, **options)

    def alibi_bias(self):
        self.biased("alibi_bias", self.slopes)

    def t5_bias(self):
        self.biased("t5_bias", self.buckets, bidirectional=False)

    def relative_bias(self):
        self.biased("relative_bias", self.numbers)

    def kerple_bias(self):
        self.biased("kerple_bias", self.positive, self.positive)

    def fire_bias(self):
        self.biased("fire_bias", *self.network)

    def shaw_scores(self):
        found = self.none(bias=self.scale * P.shaw_scores(self.q, self.near))
        if self.backward:
            P.shaw_scores_vjp(self.scale * found[3], self.q, self.near)

    def disentangled_scores(self):
        given = self.q, self.k, self.places, self.places
        found = self.none(bias=self.scale * P.disentangled_scores(*given))
        if self.backward:
            P.disentangled_scores_vjp(self.scale * found[3], *given)

    def transformer_xl_scores(self):
        h, _, e = self.q.shape
        keys = np.swapaxes((self.sinusoids @ self.w.T).reshape(-1, h, e), 0, 1)
        given = np.zeros_like(self.q), self.k, keys, self.zero, self.zero
        found = self.none(bias=self.scale * P.transformer_xl_scores(*given))
        if self.backward:
            dkeys = P.transformer_xl_scores_vjp(self.scale * found[3], *given)[2]
            np.swapaxes(dkeys, 0, 1).reshape(-1, self.width).T @ self.sinusoids

    def cope(self):
        given = self.q, masked(self.scale * (self.q @ np.swapaxes(self.k, -1, -2))), self.far
        found = self.none(bias=P.cope(*given))
        if self.backward:
            _, ds, _ = P.cope_vjp(found[3], *given)
            ds @ self.k, np.swapaxes(ds, -1, -2) @ self.q


def costs(names, rounds=9):
    """
    Return the time of schemes, and of their vjp, as multiples of those without positions.

    One thread, and the time of the processor: what else runs then matters little.
    """
    before = dlref.get_num_threads()
    dlref.set_num_threads(1)
    both = Attention(backward=False), Attention(backward=True)
    best = {name: [np.inf, np.inf] for name in ("none", *names)}
    for _ in range(rounds + 1):  # the first compiles
        for name, fastest in best.items():
            for i in (0, 0, 1, 1):  # the first call after another one is slower
                start = time.process_time()
                getattr(both[i], name)()
                fastest[i] = min(fastest[i], time.process_time() - start)
    dlref.set_num_threads(before)
    return {
        name: [t / base for t, base in zip(times, best["none"], strict=True)]
        for name, times in best.items()
    }


def main(*names):
    """Measure everything, or what has these names, and write both tables."""
    names = names or tuple(SCHEMES)
    text = TEXT.read_text()
    characters = sorted(set(text))
    tokens = np.array([characters.index(c) for c in text])
    cut = len(tokens) * 9 // 10
    runs = [costs(names) for _ in range(3)]
    cost = {name: np.median([run[name] for run in runs], axis=0) for name in names}
    with FILE.open(newline="") as file:
        rows = {row[0]: row for row in csv.reader(file)}
    print(cost, flush=True)
    for name, scheme in [(name, SCHEMES[name]) for name in names]:
        each = [
            losses(trained(scheme, tokens[:cut], len(characters), seed), tokens[cut:])
            for seed in SEEDS
        ]
        mean, spread = np.mean(each, axis=0), np.max(np.ptp(each, axis=0))
        times = [f"{each:.2g}" for each in cost[name]]
        row = [name, *(f"{loss:.2f}" for loss in mean), f"{spread:.2f}", *times]
        rows[name] = row
        print(*row, np.ptp(each, axis=0).round(3), flush=True)
    with FILE.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *(rows[name] for name in SCHEMES)])
    position_table.write()


if __name__ == "__main__":
    main(*sys.argv[1:])
