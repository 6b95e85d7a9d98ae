"""The displayed equations of the loss of texts that are not aligned."""

import itertools

import numpy as np
from equations.evaluate import From, Of, Shifted
from equations.ledger import equation, reads

from dlref.formulas.activations import log_softmax
from dlref.losses import ctc_loss, ctc_loss_jvp, ctc_loss_vjp

RNG = np.random.default_rng(0)
T, C, BLANK = 5, 3, 0
Z, V = RNG.normal(size=(2, T, C))
X = Z - np.log(np.sum(np.exp(Z), axis=1, keepdims=True))
TEXTS = ([1, 2], [1, 1], [2, 1, 2])


def becomes(path):
    return [k for k, _ in itertools.groupby(path) if k != BLANK]


def paths(text):
    return [p for p in itertools.product(range(C), repeat=T) if becomes(p) == text]


def loss(x, text):
    return -np.log(sum(np.prod([np.exp(x[t, p[t]]) for t in range(T)]) for p in paths(text)))


def places(text):
    return [BLANK, *itertools.chain.from_iterable((k, BLANK) for k in text)]


def may_skip(label, s):
    return s >= 2 and label[s] != BLANK and label[s] != label[s - 2]


@np.errstate(divide="ignore")
def beginnings(x, text):
    """Return alpha, its places counted from 0."""
    label = places(text)
    alpha = np.full((T, len(label)), -np.inf)
    alpha[0, 0], alpha[0, 1] = x[0, BLANK], x[0, text[0]]
    for t, s in itertools.product(range(1, T), range(len(label))):
        total = np.exp(alpha[t - 1, s])
        total += np.exp(alpha[t - 1, s - 1]) if s >= 1 else 0
        total += np.exp(alpha[t - 1, s - 2]) if may_skip(label, s) else 0
        alpha[t, s] = x[t, label[s]] + np.log(total)
    return alpha


@np.errstate(divide="ignore")
def ends(x, text):
    """Return beta, its places counted from 0."""
    label = places(text)
    count = len(label)
    beta = np.full((T, count), -np.inf)
    beta[-1, -2:] = 0
    for t, s in itertools.product(reversed(range(T - 1)), range(count)):
        total = np.exp(beta[t + 1, s] + x[t + 1, label[s]])
        if s + 1 < count:
            total += np.exp(beta[t + 1, s + 1] + x[t + 1, label[s + 1]])
        if s + 2 < count and may_skip(label, s + 2):
            total += np.exp(beta[t + 1, s + 2] + x[t + 1, label[s + 2]])
        beta[t, s] = np.log(total)
    return beta


def listed(text):
    """Return the share of the paths that pass each label at each time, of all paths."""
    out, total = np.zeros((T, C)), np.exp(-loss(X, text))
    for p in paths(text):
        for t in range(T):
            out[t, p[t]] += np.prod([np.exp(X[r, p[r]]) for r in range(T)]) / total
    return out


def of_text(text):
    """Return the environment of both recursions; places and times are counted from 1."""
    label, gamma, S = places(text), listed(text), len(text)

    def entries(table):
        def entry(t, s):
            return table[t - 1, int(s) - 1] if 1 <= s <= 2 * S + 1 else -np.inf

        return lambda t: lambda s: entry(t, s)

    return {
        "x": From(1, X), "L": Of(lambda x: loss(x, text), "x"), "T": T, "S": S, "b": BLANK,
        "l'": lambda s: label[s - 1] if 1 <= s <= 2 * S + 1 else BLANK,
        r"\alpha": entries(beginnings(X, text)), r"\beta": entries(ends(X, text)),
        r"\gamma": lambda t: lambda k: gamma[t - 1, int(k)],
        "s": range(1, 2 * S + 2), "t": range(2, T + 1), "k": range(C),
    }  # fmt: skip


@equation(r"L = -\log \sum_{\pi :\, B(\pi) = l} \prod_t e^{x_{t \pi_t}} .")
def loss_of_all_paths():
    for text in TEXTS:
        yield loss(X, text), ctc_loss(X, text, reduction="sum")


@reads(
    r"\alpha_t(s) = x_{t l'_s} + \log \bigl( e^{\alpha_{t-1}(s)} + e^{\alpha_{t-1}(s-1)} + [l'_s…",
    r"L = -\log \bigl( e^{\alpha_T(2S+1)} + e^{\alpha_T(2S)} \bigr) .",
)
def recursion_of_beginnings():
    return [of_text(text) for text in TEXTS]


@reads(r"\beta_t(s) = \log \bigl( e^{\beta_{t+1}(s) + x_{t+1, l'_s}} +…")
def recursion_of_ends():
    return [{**of_text(text), "t": range(1, T)} for text in TEXTS]


@reads(r"\gamma_t(k) = \sum_{s :\, l'_s = k} e^{\alpha_t(s) + \beta_t(s) + L} …")
def share_of_the_paths():
    return [{**of_text(text), "t": range(1, T + 1)} for text in TEXTS]


def shares(text):
    alpha, beta, label = beginnings(X, text), ends(X, text), places(text)
    gamma = np.zeros((T, C))
    for t, s in itertools.product(range(T), range(len(label))):
        gamma[t, label[s]] += np.exp(alpha[t, s] + beta[t, s] + loss(X, text))
    return gamma


@reads(r"\pdv{L}{z_{tk}} = -\gamma_t(k) + y_{tk} \sum_j \gamma_t(j) = y_{tk} - \gamma_t(k) .")
def gradient_of_logits():
    rows = []
    for text in TEXTS:
        gamma = listed(text)
        loss_of = Of(lambda z, text=text: loss(log_softmax(z), text), "z")
        given = {"z": From(1, Z), "L": loss_of, "y": From(1, np.exp(X))}
        rows.append(
            {
                **given,
                r"\gamma": lambda t, g=gamma: lambda k: g[t - 1, int(k)],
                "k": range(C),
                "j": range(C),
            }
        )
    return rows


@reads(
    r"\pdv{L}{x_{tk}} = -u\, \gamma_t(k) , \qquad \pdv{L_{mean}}{x_{ntk}}…",
    r"\dot L = -\sum_{tk} \gamma_t(k)\, v_{tk} .",
)
def products_of_unaligned_texts():
    u, both, rows = 1.7, np.stack([X, X]), []
    padded, lengths = np.array([[1, 2, 0], [2, 1, 2]]), np.array([2, 3])
    mean = ctc_loss_vjp(u, both, padded, target_lengths=lengths)
    gammas = [listed([1, 2]), listed([2, 1, 2])]
    for n, text in enumerate(([1, 2], [2, 1, 2])):

        def gamma(*i, n=n):
            """Return the share of a path, of the first text or of a text of a batch."""
            which = i[0] if len(i) == 2 else n
            return lambda k: gammas[which][i[-1] - 1, int(k)]

        slopes = {
            r"\pdv{L}{x_{tk}}": From(1, ctc_loss_vjp(u, X, text, reduction="sum")),
            r"\pdv{L_{mean}}{x_{ntk}}": Shifted([0, 1, 0], mean),
            r"\dot L": ctc_loss_jvp((X, text), (V, None), reduction="sum"),
        }
        given = {"u": u, "v": From(1, V), "N": 2, "S": lengths, "L_{mean}": 0.0, r"\gamma": gamma}
        rows.append({**slopes, **given, "n": range(2), "t": range(1, T + 1), "k": range(C)})
    return rows
