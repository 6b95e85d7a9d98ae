"""The displayed equations of the chapter convolution."""

import functools
import itertools

import numpy as np
from equations.evaluate import From, Of, mapped
from equations.ledger import equation, reads

from dlref.convolution import (
    conv,
    conv_vjp,
)
from dlref.formulas import convolution as formulas

RNG = np.random.default_rng(0)
C, O, T, K = 2, 3, 8, 3
S, P, D = 2, 3, 2  # stride, padding, dilation
OPTIONS = {"stride": S, "padding": P, "dilation": D}
COUNT = (T + 2 * P - D * (K - 1) - 1) // S + 1
X, W, B, U = (RNG.normal(size=s) for s in ((C, T), (O, C, K), (O,), (O, COUNT)))
CHANNELS, OUTPUTS, PLACES = range(C), range(O), range(K)


@reads(
    r"y_{o t} = b_o + \sum_c \sum_{k=0}^{K-1} W_{o c k}\, x_{c,\, s t + d k - p} ,",
    r"\pdv{L}{x_{c j}} &= \sum_o \sum_t \sum_k u_{o t}\, W_{o c k}\, [\, s t + d k - p = j\,]…",
    r"\dot y_{o t} = \dot b_o + \sum_c \sum_k \bigl( \dot W_{o c k}\, x_{c,\, s t + d k - p} +…",
)
def of_convolution():
    """Return the environment of a convolution of a row of channels."""
    inputs = {"x": From(0, X, outside=0), "W": W, "b": B}
    f = lambda x, w, b: formulas.conv(x[None], w, b, **OPTIONS)[0]  # noqa: E731
    env = mapped(lambda x, w, b: f(getattr(x, "values", x), w, b), inputs)
    return {**env, "y": Of(f, "x", "W", "b"), "K": K, "s": S, "p": P, "d": D}


def inside(x, c, j):
    """Return an element, 0 outside."""
    return x[c, j] if 0 <= j < x.shape[1] else 0.0


def summed(x, w, o, t):
    """Return the sum over channels and places of the kernel."""
    return sum(w[o, c, k] * inside(x, c, S * t + D * k - P) for c in CHANNELS for k in PLACES)


@reads(r"T' = \Bigl\lfloor \frac{T + 2 p - d (K - 1) - 1}{s} \Bigr\rfloor + 1 .")
def number_of_windows():
    environments = []
    for T, K, s, p, d in itertools.product((5, 6, 7), (1, 2, 3), (1, 2, 3), (0, 1), (1, 2)):
        ends = [t for t in range(99) if s * t + d * (K - 1) <= T + 2 * p - 1]  # inside
        environments.append({"T": T, "K": K, "s": s, "p": p, "d": d, "T'": len(ends)})
    return environments


@reads(r"\vec y = \begin{pmatrix} W_1 & W_2 & 0 & 0 \\ W_0 & W_1 & W_2 & 0 \\ 0 & W_0 & W_1 & W_2…")
def matrix_of_a_convolution():
    x, w, b = RNG.normal(size=4), RNG.normal(size=3), np.array([0.3])
    y = formulas.conv(x[None, None], w[None, None], b, padding=1)[0, 0]
    return {"W_0": w[0], "W_1": w[1], "W_2": w[2], "x": x, "b": 0.3, "y": y}


@equation(r"x_{c,\, j + T} = x_{c j} .")
def input_on_a_ring():
    read = lambda c, j: X[c, j % T]  # noqa: E731
    by_hand = [
        [
            B[o] + sum(W[o, c, k] * read(c, S * t + D * k - P) for c in CHANNELS for k in PLACES)
            for t in range(COUNT)
        ]
        for o in OUTPUTS
    ]
    yield by_hand, conv(X, W, B, padding_mode="circular", **OPTIONS)


@equation(r"\pdv{L}{x_{c j}} = \sum_n g_{c,\, j + n T} .")
def gradient_on_a_ring():
    around = np.arange(-P, T + P)
    g = conv_vjp(U, X[:, around % T], W, stride=S, dilation=D)[0]
    by_hand = [[g[c, around % T == j].sum() for j in range(T)] for c in CHANNELS]
    yield by_hand, conv_vjp(U, X, W, padding_mode="circular", **OPTIONS)[0]


@reads(r"\pdv{L}{x_{c j}} = \sum_o \sum_{k'} W_{o c,\, K - 1 - k'}\, u_{o,\, j + d k' - p'} …")
def gradient_by_the_reversed_kernel():
    rows = []
    for p in (0, 1, 3, 5):
        u = RNG.normal(size=(O, T + 2 * p - D * (K - 1)))
        row = {r"\pdv{L}{x}": conv_vjp(u, X, W, padding=p, dilation=D)[0], "W": W, "K": K, "d": D}
        row |= {"u": lambda o, j, u=u: inside(u, o, j), "c": range(C), "j": range(T)}
        rows.append({**row, "p": p, "o": OUTPUTS, "k'": PLACES})
    return rows


STEPS, WIDTH, TAPS = 5, 2, 4
SEQUENCE = tuple(
    RNG.normal(size=s) for s in ((STEPS, WIDTH), (WIDTH, TAPS), (WIDTH,), (TAPS - 1, WIDTH))
)


@reads(
    r"y_{t d} = b_d + \sum_{k=0}^{K-1} W_{d k}\, x_{t - K + 1 + k,\, d} ,",
    r"\vec h_T = (\vec x_{T - K + 1}, \dots, \vec x_{T - 1})",
    r"\pdv{L}{x_{t d}} = \sum_{k=0}^{K-1} W_{d k}\, u_{t + K - 1 - k,\, d} +…",
    r"\dot y_{t d} = \dot b_d + \sum_{k=0}^{K-1} \bigl( \dot W_{d k}\, x_{t - K + 1 + k,\, d}…",
)
def of_sequence():
    """Return the environment of a causal convolution, whose inputs begin with the state."""
    x, w, b, state = SEQUENCE
    inputs = {"x": From(1 - TAPS, np.concatenate([state, x])), "W": w, "b": b}
    u, v = RNG.normal(size=x.shape), RNG.normal(size=state.shape)

    def both(x, w, b):
        return formulas.causal_conv(x[TAPS - 1 :], w, b, x[: TAPS - 1])

    def loss(x, w, b):
        y, last = both(x, w, b)
        return np.sum(u * y) + np.sum(v * last)

    env = {**inputs, "y": Of(lambda *a: both(*a)[0], *inputs), "L": Of(loss, *inputs)}
    env["h_T"] = Of(lambda *a: both(*a)[1], *inputs)
    back = {"u": From(0, u, outside=0), "v": From(0, v, outside=0)}
    return {**env, **back, "K": TAPS, "T": STEPS}


#: Segment ids of the steps: three documents, the last one as short as a step.
PACKED = np.array([3, 3, 1, 1, 3])


@reads(
    r"n_t = \sum_{s=1}^{t} [\, z_s \ne z_{s-1}\,] , \qquad y_{t d}…",
    r"\pdv{L}{x_{t d}} &= \sum_{k=0}^{K-1} W_{d k}\, u_{t + K - 1 - k,\, d}\, [\,…",
)
def of_packed_documents():
    """Return the environment of a causal convolution over several documents."""
    env = of_sequence()
    u, v = env["u"].values, env["v"].values

    def both(x, w, b):
        first = x[TAPS - 1 :], w, b, x[: TAPS - 1]
        return formulas.causal_conv(*first, segment_ids=PACKED)

    def loss(x, w, b):
        y, last = both(x, w, b)
        return np.sum(u * y) + np.sum(v * last)

    env["y"], env["L"] = Of(lambda *a: both(*a)[0], "x", "W", "b"), Of(loss, "x", "W", "b")
    numbers = From(1 - TAPS, (TAPS - 1) * [0] + [0, 0, 1, 1, 2], outside=-1)
    return {**env, "z": PACKED, "n": numbers}


# transposed convolution: from the channels of O to those of C, with the weight (O, C, K)

Q = 1  # output padding
UP = {**OPTIONS, "output_padding": Q}
SHORT = 6
SIZE = (SHORT - 1) * S + D * (K - 1) + 1 - 2 * P + Q
V, VB, VU = (RNG.normal(size=s) for s in ((O, SHORT), (C,), (C, SIZE)))
PAIRS = list(itertools.product(range(SHORT), PLACES))


@reads(
    r"y_{o j} = b_o + \sum_c \sum_t \sum_{k=0}^{K-1} x_{c t}\, W_{c o k}\, [\, s t + d k - p =…",
    r"\pdv{L}{x_{c t}} = \sum_o \sum_k W_{c o k}\, u_{o,\, s t + d k - p} …",
    r"\dot y_{o j} = \dot b_o + \sum_c \sum_t \sum_k \bigl( \dot x_{c t}\, W_{c o k} +…",
)
def of_transposed():
    """Return the environment of a transposed convolution."""
    f = lambda x, w, b: formulas.conv_transpose(x[None], w, b, **UP)[0]  # noqa: E731
    env = mapped(f, {"x": V, "W": W, "b": VB}, K=K, s=S, p=P, d=D)
    return {**env, "u": From(0, env["u"], outside=0)}


def written(x, w, o, j):
    """Return what all inputs write to an output."""
    return sum(x[c, t] * w[c, o, k] * (S * t + D * k - P == j) for c in OUTPUTS for t, k in PAIRS)


@reads(r"T' = (T - 1)\, s + d (K - 1) + 1 - 2 p + q .")
def size_of_a_transposed_convolution():
    environments = []
    for T, K, s, p, d in itertools.product((3, 4), (2, 3), (1, 2, 3), (0, 1), (1, 2)):
        # the last place that a kernel reaches, without the padding at both ends
        last = max(s * t + d * k for t in range(T) for k in range(K))
        sizes = {"T": T, "K": K, "s": s, "p": p, "d": d}
        environments += [{**sizes, "q": q, "T'": last + 1 - 2 * p + q} for q in range(max(s, d))]
    return environments


@equation(
    r"""\sum_{c t} x_{c t}\, \operatorname{conv}(\vec z)_{c t}
    = \sum_{o j} \operatorname{conv}^\top(\vec x)_{o j}\, z_{o j} ,"""
)
def adjoint_of_a_convolution():
    z = RNG.normal(size=(C, SIZE))
    y = np.array([[summed(z, W, c, t) for t in range(SHORT)] for c in OUTPUTS])
    back = np.array([[written(V, W, o, j) for j in range(SIZE)] for o in CHANNELS])
    yield conv(z, W, **OPTIONS), y
    yield sum(V[c, t] * y[c, t] for c in OUTPUTS for t in range(SHORT)), np.sum(back * z)


@reads(r"\vec y = \begin{pmatrix} W_0 & 0 \\ W_1 & 0 \\ W_2 & W_0 \\ 0 & W_1 \\ 0 & W_2…")
def matrix_of_a_transposed_convolution():
    x, w, b = RNG.normal(size=2), RNG.normal(size=3), np.array([0.3])
    y = formulas.conv_transpose(x[None, None], w[None, None], b, stride=2)[0, 0]
    return {"W_0": w[0], "W_1": w[1], "W_2": w[2], "x": x, "b": 0.3, "y": y}


# pooling: windows of four places, two steps apart, of a row of nine with one more at both ends

ROW, PLACES_OF_A_WINDOW = RNG.normal(size=9), range(4)
POOLED = {"size": (4,), "stride": 2, "padding": 1}
WINDOWS = range((9 + 2 - 4) // 2 + 1)


def of_pool(f, outside):
    """Return the environment of pooling a row."""
    env = mapped(functools.partial(f, **POOLED), {"x": ROW}, K=4, s=2, p=1)
    return {**env, "x": From(0, ROW, outside=outside)}


def of_row(x, j, beyond):
    return x[j] if 0 <= j < 9 else beyond


def winner(t):
    return max(PLACES_OF_A_WINDOW, key=lambda k: of_row(ROW, 2 * t + k - 1, -np.inf))


@reads(r"y_t = \max_{0 \le k < K} x_{s t + k - p} ,")
def maximum_of_a_window():
    return {**of_pool(formulas.max_pool, -np.inf), "k": range(4)}


@reads(
    r"\pdv{L}{x_j} = \sum_t u_t\, [\, s t + k_t - p = j\,] .",
    r"\dot y_t = \dot x_{s t + k_t - p} .",
)
def derivatives_of_the_maximum_of_a_window():
    winners = np.array([winner(t) for t in WINDOWS])
    return {**of_pool(formulas.max_pool, 0), "k": winners}


@reads(
    r"y_t = \frac{1}{K} \sum_{k=0}^{K-1} x_{s t + k - p} ,",
    r"\pdv{L}{x_j} = \frac{1}{K} \sum_t \sum_{k=0}^{K-1} u_t\, [\, s t + k - p = j\,] .",
    r"\dot y_t = \frac{1}{K} \sum_{k=0}^{K-1} \dot x_{s t + k - p} .",
)
def mean_of_a_window_and_its_derivatives():
    return of_pool(formulas.mean_pool, 0)


# interpolation: a row of nine, read at thirteen and at five places


def of_interpolation(m, *, aligned=False):
    """Return the environment of a row, with the places that it is read at."""
    f = functools.partial(formulas.interpolate, size=(m,), align_corners=aligned)
    low, high, share = formulas.places_between(9, m, aligned)
    env = {**mapped(f, {"x": ROW}, N=9, M=m), "l": low, "h": high, r"\alpha": share}
    return {**env, r"\dot x": RNG.normal(size=9)}


INTERPOLATED = [of_interpolation(13), of_interpolation(5), of_interpolation(13, aligned=True)]


@reads(r"y_t = (1 - \alpha_t)\, x_{l_t} + \alpha_t\, x_{h_t} , \qquad l_t = \lfloor q_t \rfloor …")
def value_between_two_places():
    rows = []
    for m, aligned in itertools.product((5, 13), (False, True)):
        y = formulas.interpolate(ROW, size=(m,), align_corners=aligned)
        q = formulas.interpolate(np.arange(9.0), size=(m,), align_corners=aligned)
        rows.append({"x": ROW, "y": y, "q": q, "N": 9, "t": range(m)})
    return rows


@equation(
    r"""q_t = \max \Bigl( \frac{N}{M} \bigl(t + \tfrac12\bigr) - \tfrac12, 0 \Bigr) ,
    \qquad q_t = \frac{N - 1}{M - 1}\, t ."""
)
def places_of_the_outputs():
    places = np.arange(9.0)  # a row whose values are its places is read at them
    for m in (5, 13):
        inside = np.array([min(max(9 / m * (t + 0.5) - 0.5, 0), 8) for t in range(m)])
        yield formulas.interpolate(places, size=(m,)), inside
        aligned = formulas.interpolate(places, size=(m,), align_corners=True)
        yield aligned, np.array([8 / (m - 1) * t for t in range(m)])


@reads(
    r"\pdv{L}{x_j} = \sum_t u_t \bigl( (1 - \alpha_t)\, [\, l_t = j\,] + \alpha_t\, [\, h_t =…",
    r"\dot y_t = (1 - \alpha_t)\, \dot x_{l_t} + \alpha_t\, \dot x_{h_t} .",
)
def derivatives_of_the_value_between_two_places():
    return INTERPOLATED
