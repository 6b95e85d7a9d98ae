"""The displayed equations of dlref.positions."""

import functools

import mpmath
import numpy as np
from equations.evaluate import From, Of, each, mapped
from equations.ledger import equation, reads
from equations.numeric import gradients, rate

from dlref.attention import attention_scores, scaled_dot_product_attention
from dlref.formulas import positions as formulas
from dlref.formulas.activations import relu, sigmoid
from dlref.positions import (
    alibi_slopes,
    apply_rope,
    apply_rope_axial,
    apply_xpos,
    cope,
    disentangled_scores_jvp,
    disentangled_scores_vjp,
    fourier_features_vjp,
    relative_bias_grid,
    relative_bias_grid_jvp,
    relative_bias_grid_vjp,
    rope_attention_factor,
    rope_frequencies,
    rope_matrix,
    rope_permutation,
    rope_score,
    rope_tables,
    sinusoidal,
    sinusoidal_grid,
    sinusoidal_shift,
    t5_relative_position_bucket,
    xpos_scales,
)

RNG = np.random.default_rng(0)
H, T, S, E, OFFSET = 2, 3, 5, 4, 2
QUERY, KEY = np.arange(T)[:, None] + OFFSET, np.arange(S)  # positions
BEFORE, BOTH = np.maximum(QUERY - KEY, 0), abs(QUERY - KEY)  # distances
U = RNG.normal(size=(H, T, S))
Q, K = RNG.normal(size=(T, E)), RNG.normal(size=(S, E))


def of_alibi(symmetric):
    """Return the environment of slopes times distances."""
    f = lambda m: formulas.alibi_bias(m, T, S, q_offset=OFFSET, symmetric=symmetric)  # noqa: E731
    env = mapped(f, {"m": M}, "B", d=BOTH if symmetric else BEFORE)
    return {**env, "U": env["u"]}


@reads(r"m_h = 2^{-a h / H}, \qquad h = 1, \dots, H .")
def slopes_of_a_power_of_two_heads():
    of_stories = formulas.alibi_slopes(4, exponent=16.0)
    return [
        {"h": range(1, 9), "H": 8, "a": 8, "m": From(1, formulas.alibi_slopes(8))},
        {"h": range(1, 7), "H": 6, "a": 8, "m": From(1, formulas.alibi_slopes(6, rule="paper"))},
        {"h": range(1, 5), "H": 4, "a": 16, "m": From(1, of_stories)},
    ]


@reads(r"m_h = 2^{-a h/P}, \; h = 1, \dots, P; \qquad m_{P + h} = 2^{-a (2h - 1)/(2 P)}, \; h = 1…")
def slopes_of_other_heads():
    return {"h": range(1, 4), "H": 7, "P": 4, "a": 16, "m": From(1, alibi_slopes(7, exponent=16))}


M = RNG.uniform(size=H)  # slopes


@reads(r"B_{hij} = -m_h\, (i + \text{q\_offset} - j)_+…")
def alibi_of_each_pair():
    env = {"m": M, "q_offset": OFFSET}
    f = functools.partial(formulas.alibi_bias, M, T, S, q_offset=OFFSET)
    return [{**env, "branch": n, "B": f(symmetric=bool(n))} for n in (0, 1)]


@reads(
    r"\pdv{L}{m_h} = -\sum_{ij} U_{hij}\, d_{ij} .",
    r"\dot B_{hij} = -\dot m_h\, d_{ij}",
)
def derivatives_of_alibi():
    return [of_alibi(False), of_alibi(True)]


P = 4
SCORES, TABLE = RNG.normal(size=(T, S)), RNG.normal(size=(P, E))


def counted(scores):
    """Return the sums of the gates of a key and of those after it, at most P - 1."""
    sums = np.cumsum(sigmoid(scores)[:, ::-1], axis=1)[:, ::-1]
    return np.where(sums.real < P - 1, sums, P - 1)


def between(z, positions):
    """Return products with the vectors at positions between those of whole numbers."""
    n = np.floor(positions.real).astype(int)
    w, padded = positions - n, np.column_stack([z, np.zeros(len(z))])
    lower, upper = (np.take_along_axis(padded, n + k, axis=1) for k in (0, 1))
    return (1 - w) * lower + w * upper


@reads(
    r"g_{ij} = \sigma(s_{ij}), \qquad p_{ij} = \min\Bigl(\sum_{t \ge j} g_{it},\; P - 1\Bigr),…",
    r"c_{ij} = (1 - w)\, z_{i,n} + w\, z_{i,n+1}, \qquad n = \lfloor p_{ij} \rfloor,\; w =…",
)
def scores_at_counted_positions():
    at = lambda p: np.array([np.interp(p, np.arange(P), TABLE[:, e]) for e in range(E)])  # noqa: E731
    z = np.column_stack([Q @ TABLE.T, np.zeros(T)])  # its weight is 0 beyond the table
    given = {"s": SCORES, "q": Q, "a": at, "z": z, "P": P, r"\sigma": sigmoid}
    return {**given, "c": cope(Q, SCORES, TABLE)}


@reads(r"\dot c_{ij} = (1 - w)\, \dot z_{i,n} + w\, \dot z_{i,n+1} + (z_{i,n+1} - z_{i,n})…")
def counted_scores_move_by_complex_step():
    p = counted(SCORES)
    z = Of(lambda q, a: q @ a.T, "q", "a")
    c = Of(lambda q, s, a: between(q @ a.T, counted(s)), "q", "s", "a")
    given = {"q": Q, "s": SCORES, "a": TABLE, "z": z, "c": c, r"\sigma": sigmoid}
    inside = [(i, j) for i, j in np.ndindex(T, S) if p[i, j] < P - 1]
    assert 0 < len(inside) < p.size
    at = [{"i": i, "j": j, "n": int(p[i, j]), "w": p[i, j] % 1} for i, j in inside]
    return [{**given, **place} for place in at]


UNITS = 6
FIRE = (
    RNG.normal(size=UNITS),
    RNG.normal(size=UNITS),
    RNG.normal(size=(H, UNITS)),
    RNG.normal(size=H),
    np.array(0.7),
    np.array(2.5),  # threshold, between two positions of queries
)


def share(c, threshold):
    """Return the distance as a share of the text so far."""
    longest = np.where(threshold.real > QUERY, threshold, QUERY)
    return np.log(1 + c * BOTH) / np.log(1 + c * longest)


def hidden(w1, b1, u):
    return relu(w1 * u[..., None] + b1)


def fire(w1, b1, w2, b2, c, threshold):
    return b2[:, None, None] + np.einsum("hf,ijf->hij", w2, hidden(w1, b1, share(c, threshold)))


@reads(r"u_{ij} = \frac{\psi(\abs{i - j})}{\psi(\max(M, i))}, \qquad B_{hij}…")
def network_of_each_distance():
    w1, b1, w2, b2, c, threshold = FIRE
    given = {"w^{(1)}": w1, "b^{(1)}": b1, "w^{(2)}": w2, "b^{(2)}": b2, "M": threshold}
    bias = formulas.fire_bias(*FIRE, T, S)
    return {**given, r"\psi": lambda x: np.log(1 + c * x), "B": bias, "i": range(T), "j": range(S)}


@equation(
    r"\pdv{L}{w^{(2)}_{hf}} &= \sum_{ij} U_{hij}\, h_f, & \pdv{L}{b^{(2)}_h} &= \sum_{ij} "
    r"U_{hij}, & g_f &= [h_f > 0] \sum_h U_{hij}\, w^{(2)}_{hf}, \\ \pdv{L}{w^{(1)}_f} &= "
    r"\sum_{ij} g_f\, u_{ij}, & \pdv{L}{b^{(1)}_f} &= \sum_{ij} g_f .",
)
def network_gradients_by_complex_step():
    w1, b1, w2, _, c, threshold = FIRE
    u = share(c, threshold)
    h = hidden(w1, b1, u)
    dw1, db1, dw2, db2, *_ = gradients(lambda *x: np.sum(U * fire(*x)), *FIRE)
    g = np.zeros((T, S, UNITS))
    for i, j, f in np.ndindex(T, S, UNITS):
        g[i, j, f] = (h[i, j, f] > 0) * sum(U[n, i, j] * w2[n, f] for n in range(H))
    yield dw2, [[np.sum(U[n] * h[..., f]) for f in range(UNITS)] for n in range(H)]
    yield db2, [np.sum(U[n]) for n in range(H)]
    before = w1 * u[..., None] + b1
    yield gradients(lambda a: np.sum(U * np.einsum("hf,ijf->hij", w2, relu(a))), before)[0], g
    yield dw1, [np.sum(g[..., f] * u) for f in range(UNITS)]
    yield db1, [np.sum(g[..., f]) for f in range(UNITS)]


@reads(r"\pdv{u}{c} = \frac{1}{\psi(m)} \left( \frac{d}{1 + c d} - \frac{u\, m}{1 + c m} \right)…")
def slopes_of_the_share_by_complex_step():
    f = lambda c, M: np.log(1 + c * 1.3) / np.log(1 + c * M)  # noqa: E731
    more = {"m": 2.5, "d": 1.3, "i": 2, r"\psi": lambda x: np.log(1 + 0.7 * x)}
    return {"c": 0.7, "M": 2.5, "u": Of(f, "c", "M"), **more}


@equation(
    r"\dot h_f &= [h_f > 0] \left( \dot w^{(1)}_f u + w^{(1)}_f \dot u + \dot b^{(1)}_f "
    r"\right), \\ \dot B_h &= \dot b^{(2)}_h + \sum_f \left( \dot w^{(2)}_{hf} h_f + w^{(2)}_{hf} "
    r"\dot h_f \right)",
)
def network_tangents_by_complex_step():
    tangents = dw1, db1, dw2, db2, dc, dthreshold = [RNG.normal(size=x.shape) for x in FIRE]
    w1, b1, w2, _, c, threshold = FIRE
    u, du = share(c, threshold), rate(share, (c, threshold), (dc, dthreshold))
    h = hidden(w1, b1, u)
    dh = np.stack(
        [(h[..., f] > 0) * (dw1[f] * u + w1[f] * du + db1[f]) for f in range(UNITS)], axis=-1
    )
    yield rate(hidden, (w1, b1, u), (dw1, db1, du)), dh
    moved = [
        db2[n] + sum(dw2[n, f] * h[..., f] + w2[n, f] * dh[..., f] for f in range(UNITS))
        for n in range(H)
    ]
    yield rate(fire, FIRE, tangents), np.array(moved)


@reads(r"\cos(a + b) = \cos a \cos b - \sin a \sin b, \qquad \sin(a + b)…")
def cosine_and_sine_of_a_sum():
    a, b = RNG.normal(size=(2, 7))
    return each({"a": a, "b": b})


R1, R2 = RNG.uniform(0.5, 1.5, size=(2, H))


@reads(r"B_{hij} = -r_1 \log(1 + r_2\, d_{ij}) \qquad\text{or}\qquad -r_1\, d_{ij}^{\,r_2} .")
def kerple_of_each_pair():
    env = {"r_1": R1[0], "r_2": R2[0], "d": BOTH}
    f = functools.partial(
        formulas.kerple_bias, R1[:1], R2[:1], T, S, q_offset=OFFSET, symmetric=True
    )
    return [{**env, "branch": n, "B": f(kind=kind)} for n, kind in enumerate(("log", "power"))]


DIAGONALS, G = np.arange(1, 6), RNG.normal(size=(H, 5))  # distances, and sums of cotangents


def kerple_log(r1, r2):
    return -r1[:, None] * np.log(1 + r2[:, None] * DIAGONALS)


def kerple_power(r1, r2):
    return -r1[:, None] * np.exp(r2[:, None] * np.log(DIAGONALS))


@equation(
    r"\pdv{L}{r_1} &= -\sum_d G_d \log(1 + r_2 d), & \pdv{L}{r_2} &= -\sum_d G_d\, \frac{r_1 "
    r"d}{1 + r_2 d}; \\ \pdv{L}{r_1} &= -\sum_d G_d\, d^{\,r_2}, & \pdv{L}{r_2} &= -\sum_d "
    r"G_d\, r_1\, d^{\,r_2} \log d .",
)
def kerple_gradients_by_complex_step():
    d, r1, r2 = DIAGONALS, R1[:, None], R2[:, None]
    dr1, dr2 = gradients(lambda *r: np.sum(G * kerple_log(*r)), R1, R2)
    yield dr1, -np.sum(G * np.log(1 + r2 * d), axis=1)
    yield dr2, -np.sum(G * r1 * d / (1 + r2 * d), axis=1)
    dr1, dr2 = gradients(lambda *r: np.sum(G * kerple_power(*r)), R1, R2)
    yield dr1, -np.sum(G * d**r2, axis=1)
    yield dr2, -np.sum(G * r1 * d**r2 * np.log(d), axis=1)


@reads(r"\dot B = \pdv{B}{r_1}\, \dot r_1 + \pdv{B}{r_2}\, \dot r_2")
def kerple_tangent_from_partial_derivatives():
    def bias(r1, r2, kind):
        return formulas.kerple_bias(np.array([r1]), np.array([r2]), 1, 1, q_offset=3, kind=kind)[
            0, 0, 0
        ]

    inputs = {"r_1": R1[0], "r_2": R2[0]}
    return [mapped(functools.partial(bias, kind=kind), inputs, "B") for kind in ("log", "power")]


LENGTH = 6
ROWS, AT = RNG.normal(size=(LENGTH, E)), np.array([4, 0, 4, 1])  # a table, and where it is read


@reads(
    r"y_{nd} = W_{p_n d} = \sum_l [p_n = l]\, W_{l d}",
    r"""\dot y_{nd} = \dot W_{p_n d} .""",
)
def of_rows():
    """Return the environment of rows of a table."""
    return mapped(lambda w: formulas.learned_positions(w, AT), {"W": ROWS}, p=AT)


@reads(r"\pdv{L}{W_{ld}} = \sum_n U_{nd}\, [p_n = l] .")
def table_gradient_by_complex_step():
    env = of_rows()
    return {**env, "U": env["u"]}


OFFSETS = RNG.normal(size=(H, T + S - 1))


@reads(
    r"B_{hij} = b_{h,\, j - i + T - 1}",
    r"\pdv{L}{b_{hr}} = \sum_i U_{h, i,\, r + i - T + 1} ,",
    r"""\dot B_{hij} = \dot b_{h,\, j - i + T - 1} .""",
)
def of_offsets():
    """Return the environment of a number for each offset."""
    env = mapped(lambda b: formulas.relative_bias(b, T, S), {"b": OFFSETS}, "B", T=T)
    return {**env, "U": From(0, env["u"], outside=0), "i": range(T)}


PAIRS = 3
THETA = RNG.uniform(size=PAIRS)
X, Y = RNG.normal(size=(2, 2 * PAIRS))  # a query and a key


def rotation(p):
    """Return the matrix that rotates each pair of neighbors by its angle at a position."""
    matrix = np.zeros((2 * PAIRS, 2 * PAIRS))
    for i, phi in enumerate(p * THETA):
        plane = [[np.cos(phi), -np.sin(phi)], [np.sin(phi), np.cos(phi)]]
        matrix[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = plane
    return matrix


def rotated(x, p, theta=THETA):
    """Return a vector with its pairs rotated, without complex numbers."""
    first, second, phi = x[0::2], x[1::2], p * theta
    cos, sin = np.cos(phi), np.sin(phi)
    return np.stack([first * cos - second * sin, first * sin + second * cos], -1).reshape(x.shape)


@reads(
    r"\pdv{L}{\vec x} = \mat R_p^\top\, \vec u = \mat R_{-p}\, \vec u,",
    r"""\dot{\vec y} = \mat R_p\, \dot{\vec x} .""",
)
def of_rotation():
    """Return the environment of one rotated vector."""
    f = lambda x: formulas.apply_rope(x[None], *rope_tables([7.3], THETA))[0]  # noqa: E731
    return mapped(f, {"x": X}, R_p=rotation(7.3), **{"R_{-p}": rotation(-7.3)})


@reads(
    r"\vec y_a = \mat R_{p_a} \vec x_a, \qquad a = 1, \dots, A .",
    r"\pdv{L}{\vec x_a} = \mat R_{p_a}^\top\, \vec u_a = \mat R_{-p_a}\, \vec u_a, \qquad a…",
    r"\dot{\vec y}_a = \mat R_{p_a}\, \dot{\vec x}_a, \qquad a = 1, \dots, A .",
)
def of_axes():
    """Return the environment of blocks that are rotated by coordinates."""
    places = np.array([3, -2])

    def f(x):
        tables = rope_tables(places[None] * 1.0, THETA)
        return formulas.apply_rope_axial(x.reshape(1, -1), *tables).reshape(2, -1)

    return mapped(f, {"x": RNG.normal(size=(2, 2 * PAIRS))}, p=places, R=rotation)


@reads(r"\dot s = \sum_i \bigl( \dot a_i \cos\phi_i + \dot b_i \sin\phi_i + (b_i \cos\phi_i - a_i…")
def of_score():
    """Return the environment of the score of a query and a key at a distance."""
    names = "q", "k", "r", r"\theta"
    env = dict(zip(names, (X, Y, np.float64(-2.3), THETA), strict=True))
    products = lambda q, k: q[0::2] * k[0::2] + q[1::2] * k[1::2]  # noqa: E731
    crossed = lambda q, k: q[1::2] * k[0::2] - q[0::2] * k[1::2]  # noqa: E731
    env |= {"a": Of(products, "q", "k"), "b": Of(crossed, "q", "k")}
    env |= {r"\phi": Of(np.multiply, "r", r"\theta"), "s": Of(formulas.rope_score, *names)}
    return {**env, "R_r": rotation(-2.3), "R_{-r}": rotation(2.3)}


def pairs(x):
    return x[0::2] + 1j * x[1::2]


def score(q, k, r, theta):
    return q @ rotated(k, r, theta)


@equation(
    r"\operatorname{Re} \sum_i \overline{z_i e^{\mathrm i m \theta_i}}\, w_i e^{\mathrm i n "
    r"\theta_i} &= \operatorname{Re} \sum_i \bar z_i w_i\, e^{\mathrm i (n - m) \theta_i} \\ &= "
    r"\sum_i \bigl( a_i \cos r \theta_i + b_i \sin r \theta_i \bigr), \\ "
    r"a_i = q_{i1} k_{i1} + q_{i2} k_{i2}&, \qquad b_i = "
    r"q_{i2} k_{i1} - q_{i1} k_{i2} .",
)
def score_of_pairs_as_complex_numbers():
    m, n = 7.3, 4.6
    r, z, w = n - m, pairs(X), pairs(Y)
    a = X[0::2] * Y[0::2] + X[1::2] * Y[1::2]
    b = X[1::2] * Y[0::2] - X[0::2] * Y[1::2]
    yield (
        np.sum(np.conj(z * np.exp(1j * m * THETA)) * w * np.exp(1j * n * THETA)).real,
        np.sum(np.conj(z) * w * np.exp(1j * (n - m) * THETA)).real,
        np.sum(a * np.cos(r * THETA) + b * np.sin(r * THETA)),
        rotated(X, m) @ rotated(Y, n),
        rope_score(X, Y, r, THETA),
    )


@reads(r"\pdv{L}{\vec q} = u\, \mat R_r \vec k, \qquad \pdv{L}{\vec k} = u\, \mat R_{-r} \vec q .")
def score_gradients_of_vectors_by_complex_step():
    env = of_score()
    return {**env, "L": Of(lambda s: 1.7 * s, "s"), "u": 1.7}


@reads(r"\pdv{L}{r} = \sum_i g_i\, \theta_i, \qquad \pdv{L}{\theta_i} = \sum g_i\, r .")
def score_gradients_of_angles_by_complex_step():
    r, u = 1.3, 0.7
    a = X[0::2] * Y[0::2] + X[1::2] * Y[1::2]
    b = X[1::2] * Y[0::2] - X[0::2] * Y[1::2]
    g = u * (b * np.cos(r * THETA) - a * np.sin(r * THETA))
    loss = Of(lambda r, theta: u * score(X, Y, r, theta), "r", r"\theta")
    return {"r": r, r"\theta": THETA, "g": g, "L": loss}


@reads(r"\phi_{pi} = p\, \theta_i")
def angle_of_each_position():
    return {r"\theta": THETA, r"\phi": formulas.rope_angles(np.arange(5.0), THETA)}


def rope(x, p, **options):
    """Return what dlref makes of a vector at a position."""
    return apply_rope(x[None], *rope_tables([p], THETA), **options)[0]


@reads(r"\langle f(\vec q, m), f(\vec k, n) \rangle = g(\vec q, \vec k, n - m) .")
def score_depends_on_the_difference_alone():
    def g(q, k, r):
        return np.sum(np.conj(pairs(q)) * pairs(k) * np.exp(1j * r * THETA)).real

    given = {"f": rope, "g": g, "q": X, "k": Y}
    return [{**given, "m": 7.3 + shift, "n": 4.6 + shift} for shift in (0, 2.5, -40)]


@reads(r"\begin{pmatrix} y_1 \\ y_2 \end{pmatrix}…")
def three_forms_of_a_rotated_pair():
    y = apply_rope(X[None], *rope_tables([7.3], THETA))[0]
    pair = {"x_1": X[0], "x_2": X[1], "y_1": y[0], "y_2": y[1]}
    return {**pair, r"\phi": 7.3 * THETA[0]}


@reads(r"\mat R_p = \operatorname{diag}(\mat D_{p\theta_0}, \dots, \mat D_{p\theta_{n-1}}),…")
def rotation_as_a_matrix():
    given = {r"\theta": THETA, "n": PAIRS, "p": 7.3, r"\phi": 0.4}
    given["D"] = lambda *factors: plane(np.prod(factors))
    return [{**given, "R_p": rotation(7.3)}, {**given, "R_p": rope_matrix(7.3, THETA)}]


@equation(
    r"h(\vec x_\pi) = f(\vec x)_\pi .",
)
def halves_and_neighbours_are_permuted():
    order, p = np.r_[0 : 2 * PAIRS : 2, 1 : 2 * PAIRS : 2], 7.3
    yield order, rope_permutation(2 * PAIRS)
    first, second = np.split(X[order], 2)
    cos, sin = np.cos(p * THETA), np.sin(p * THETA)
    halves = np.concatenate([first * cos - second * sin, first * sin + second * cos])
    yield halves, rotated(X, p)[order]
    yield rope(X[order], p, interleaved=False), rope(X, p)[order]


@equation(
    r"\sum_a g_a(p'_a - p_a),",
)
def score_of_two_places_is_a_sum_over_the_axes():
    x, y = RNG.normal(size=(2, 4 * PAIRS))
    here, there = np.array([3.0, -1.0]), np.array([0.5, 6.0])

    def g(a, r):
        z, w = pairs(np.split(x, 2)[a]), pairs(np.split(y, 2)[a])
        return np.sum(np.conj(z) * w * np.exp(1j * r * THETA)).real

    one, other = (
        apply_rope_axial(v[None], *rope_tables(place[None], THETA))[0]
        for v, place in ((x, here), (y, there))
    )
    yield sum(g(a, there[a] - here[a]) for a in range(2)), one @ other


@reads(r"b'^{-(d-2)/d} = \frac{b^{-(d-2)/d}}{s} \quad\Rightarrow\quad b' = b\, s^{d/(d-2)}…")
def base_that_divides_the_last_frequency():
    d, b, s = 16, 10000.0, 4.0
    new = formulas.rope_frequencies(d, base=b, scaling={"type": "ntk", "factor": s})
    theta = {r"\theta": formulas.rope_frequencies(d, base=b), r"\theta'": new}
    return {"d": d, "b": b, "s": s, "b'": new[1] ** (-d / 2), **theta}


@equation(
    r"i(r) = \frac{d}{2} \cdot \frac{\log (L / 2\pi r)}{\log b}, \qquad \theta'_i = \theta_i "
    r"\Bigl( (1 - \gamma_i) + \frac{\gamma_i}{s} \Bigr), \quad \gamma_i = "
    r"\operatorname{clip}_0^1 \frac{i - l}{h - l},",
)
def ramp_between_fast_and_slow_pairs():
    d, b, s, length = 64, 10000.0, 4.0, 4096

    def index(r):
        return d / 2 * np.log(length / (2 * np.pi * r)) / np.log(b)

    for r in 1.0, 32.0:
        yield length * b ** (-2 * index(r) / d), 2 * np.pi * r
    i = np.arange(d // 2)
    theta = b ** (-2 * i / d)
    scaling = {"type": "yarn", "factor": s, "original_max_position_embeddings": length}
    for truncate in True, False:
        low, high = index(32), index(1)
        if truncate:
            low, high = np.floor(low), np.ceil(high)
        gamma = np.clip((i - low) / (high - low), 0, 1)
        computed = rope_frequencies(d, base=b, scaling={**scaling, "truncate": truncate})
        yield theta * ((1 - gamma) + gamma / s), computed


@equation(
    r"\frac{0.1\, \text{mscale} \log s + 1}{0.1\, \text{mscale\_all\_dim} \log s + 1},",
)
def ratio_of_two_scales():
    s, one, other = 16.0, 1.3, 0.7
    scaling = {"type": "yarn", "factor": s, "original_max_position_embeddings": 4096}
    computed = rope_attention_factor({**scaling, "mscale": one, "mscale_all_dim": other})
    yield (0.1 * one * np.log(s) + 1) / (0.1 * other * np.log(s) + 1), computed


LIMIT = 1  # greatest distance that Shaw's table tells apart
VECTORS = RNG.normal(size=(2 * LIMIT + 1, E))


@reads(r"s_{ij} = \vec q_i \cdot (\vec k_j + \vec a_{\operatorname{clip}(j - i, -K, K)})…")
def scores_of_clipped_offsets():
    keys = RNG.normal(size=(T, E))
    moved = formulas.shaw_scores(Q, VECTORS)
    given = {"q": Q, "k": keys, "a": From(-LIMIT, VECTORS), "K": LIMIT}
    return {**given, "s'": moved, "s": Q @ keys.T + moved}


@reads(r"\pdv{L}{q_{ie}} = \sum_c G_{ic}\, a_{ce}, \qquad \pdv{L}{a_{ce}}…")
def gradients_of_clipped_offsets_by_complex_step():
    env = mapped(formulas.shaw_scores, {"q": Q, "a": VECTORS}, "s")
    g = np.zeros((T, len(VECTORS)))
    for i, j in np.ndindex(T, T):
        g[i, np.clip(j - i, -LIMIT, LIMIT) + LIMIT] += env["u"][i, j]
    return {**env, "G": g}


@reads(r"PE_{p, 2i} = \sin p\, \omega_i, \qquad PE_{p, 2i + 1} = \cos p\, \omega_i…")
def table_of_sines_and_cosines():
    table = sinusoidal(5, 6, base=100.0)
    return {"P": 1.0, "E": table, "b": 100.0, "D": 6, "p": range(5), "i": range(3)}


@reads(r"\begin{pmatrix} \sin((p + k)\, \omega) \\ \cos((p + k)\, \omega) \end{pmatrix}…")
def table_shifted_by_a_rotation():
    return dict(zip(("p", "k", r"\omega"), RNG.normal(size=3), strict=True))


FAR_OFFSETS = np.arange(-300, 301)


def bucket(offset, n, longest):
    """Return T5's bucket of an offset in one direction of n buckets, as the formula says."""
    r, e = -offset, n // 2
    if r < e:
        return max(r, 0)
    logarithm = (n - e) * np.log(r / e) / np.log(longest / e)
    return min(e + int(np.floor(logarithm + 1e-9)), n - 1)  # exact powers are whole numbers


@equation(
    r"\text{bucket} = e + \Bigl\lfloor (n - e) \frac{\log (r / e)}{\log (M / e)} \Bigr\rfloor, "
    r"\qquad\text{at most } n - 1,",
)
def bucket_of_each_offset():
    both = [bucket(-abs(r), 16, 128) + 16 * (r > 0) for r in FAR_OFFSETS]
    yield both, t5_relative_position_bucket(FAR_OFFSETS)
    options = {"bidirectional": False, "num_buckets": 9, "max_distance": 100}
    yield (
        [bucket(r, 9, 100) for r in FAR_OFFSETS],
        t5_relative_position_bucket(FAR_OFFSETS, **options),
    )


BUCKETS = RNG.normal(size=(6, H))
T5 = {"bidirectional": False, "q_offset": OFFSET, "max_distance": 5}


@reads(
    r"B_{hij} = b_{\text{bucket}(j - i - \text{q\_offset}),\, h}",
    r"\pdv{L}{b_{ch}} = \sum_{ij} U_{hij}\, [\text{bucket}(j - i - \text{q\_offset}) = c]",
    r"""\dot B_{hij} = \dot b_{\text{bucket}(j - i - \text{q\_offset}),\, h} .""",
)
def of_buckets():
    """Return the environment of a number for each bucket."""
    env = mapped(lambda b: formulas.t5_bias(b, T, S, **T5), {"b": BUCKETS}, "B", q_offset=OFFSET)
    options = {"bidirectional": False, "num_buckets": 6, "max_distance": 5}

    def bucket_of(offset):
        return formulas.t5_relative_position_bucket(np.array([int(offset)]), **options)[0]

    return {**env, "U": env["u"], "bucket": bucket_of}


@reads(r"(\mat W_q (\vec e_i + \vec p_i)) \cdot (\mat W_k (\vec e_j + \vec p_j))…")
def score_of_sums_expanded():
    w_q, w_k = RNG.normal(size=(2, E, E))
    e, p = RNG.normal(size=(2, T, E))
    return {"W_q": w_q, "W_k": w_k, "e": e, "p": p, "q": e @ w_q.T, "k": e @ w_k.T}


XL = Q, K, RNG.normal(size=(T + S - 1, E)), *RNG.normal(size=(2, E))


@reads(
    r"s_{ij} = (\vec q_i + \vec u) \cdot \vec k_j + (\vec q_i + \vec v) \cdot \vec r_{j-i} .",
    r"\dot s_{ij} = (\dot{\vec q}_i + \dot{\vec u}) \cdot \vec k_j + (\vec q_i + \vec u) \cdot…",
)
def of_content():
    """Return the environment of scores by content and by offset."""
    names = "q", "k", "r", "u", "v"
    arrays = dict(zip(names, XL, strict=True)) | {"r": From(1 - T, XL[2])}
    return {**arrays, "s": Of(formulas.transformer_xl_scores, *names)}


@reads(r"\pdv{L}{\mat Q} &= \mat U \mat K + \mat G \mat R, & \pdv{L}{\vec u}…")
def gradients_by_content_and_offset():
    u = RNG.normal(size=(T, S))
    g = np.zeros((T, T + S - 1))
    for i, j in np.ndindex(T, S):
        g[i, j - i + T - 1] = u[i, j]
    wide = {r"\mat Q": Q, r"\mat K": K, r"\mat R": XL[2], "u": XL[3], "v": XL[4]}
    loss = Of(lambda *a: np.sum(u * formulas.transformer_xl_scores(*a)), *wide)
    return {**wide, r"\mat U": u, r"\mat G": g, "L": loss, "i": range(T)}


GAMMA, SCALE_BASE = 0.3, 50.0
ZETA = (2 * np.arange(PAIRS) / (2 * PAIRS) + GAMMA) / (1 + GAMMA)


def xpos(x, p, **options):
    """Return what dlref makes of a vector at a position."""
    scales = xpos_scales([p], 2 * PAIRS, gamma=GAMMA, scale_base=SCALE_BASE)
    return apply_xpos(x[None], *rope_tables([p], THETA), scales, **options)[0]


@reads(r"\zeta_i = \frac{2i/d + \gamma}{1 + \gamma}, \qquad i = 0, \dots, d/2 - 1")
def factor_of_each_pair():
    zeta = xpos_scales(SCALE_BASE, 2 * PAIRS, gamma=GAMMA, scale_base=SCALE_BASE)
    return {r"\zeta": zeta, "d": 2 * PAIRS, r"\gamma": GAMMA, "i": range(PAIRS)}


@equation(
    r"z_i\, \zeta_i^{m/b} e^{\mathrm i m \theta_i}, \qquad w_i\, \zeta_i^{-n/b} e^{\mathrm i n "
    r"\theta_i}",
)
def scaled_and_rotated_pairs():
    m, n = 7.3, 4.6
    query = pairs(X) * ZETA ** (m / SCALE_BASE) * np.exp(1j * m * THETA)
    key = pairs(Y) * ZETA ** (-n / SCALE_BASE) * np.exp(1j * n * THETA)
    yield query, pairs(xpos(X, m))
    yield key, pairs(xpos(Y, n, inverse=True))


@equation(
    r"\operatorname{Re} \sum_i \bar z_i w_i\, e^{\mathrm i r \theta_i}\, \zeta_i^{-r/b}, \qquad "
    r"r = n - m .",
)
def score_that_decays():
    m, n = 7.3, 4.6
    r = n - m
    terms = np.conj(pairs(X)) * pairs(Y) * np.exp(1j * r * THETA) * ZETA ** (-r / SCALE_BASE)
    query, key = xpos(X, m), xpos(Y, n, inverse=True)
    yield np.sum(terms).real, np.sum(np.conj(pairs(query)) * pairs(key)).real, query @ key


@equation(r"\mat S \to \mat\Pi \mat S \mat\Pi^\top, \qquad \mat O \to \mat\Pi \mat O .")
def attention_to_permuted_tokens():
    x, p = RNG.normal(size=(S, E)), np.eye(S)[[2, 0, 4, 3, 1]]
    weights = np.exp(x @ x.T / np.sqrt(E))
    o = weights / weights.sum(axis=1, keepdims=True) @ x
    moved = p @ x
    yield p @ (x @ x.T / np.sqrt(E)) @ p.T, attention_scores(moved, moved)
    yield p @ o, scaled_dot_product_attention(moved, moved, moved)


# Derivatives of linear maps, and the steps to rotations and to features


@reads(r"""C_{pi} = m \cos p\, \theta_i, \qquad S_{pi} = m \sin p\, \theta_i .""")
def tables_of_cosines_and_sines():
    cos, sin = formulas.rope_tables(np.arange(5.0), THETA, attention_factor=1.3)
    return {"m": 1.3, r"\theta": THETA, "C": cos, "S": sin}


def plane(phi):
    return np.array([[np.cos(phi), -np.sin(phi)], [np.sin(phi), np.cos(phi)]])


def scaled(x, p):
    """Return pairs that are rotated and scaled."""
    return (rotated(x, p).reshape(-1, 2) * ZETA[:, None] ** (p / SCALE_BASE)).ravel()


@reads(
    r"\pdv{L}{\vec x_i} = (c_i \mat D_{\phi_i})^\top\, \vec u_i = c_i \mat D_{-\phi_i}\, \vec…",
    r"\dot{\vec y}_i = c_i \mat D_{\phi_i}\, \dot{\vec x}_i .",
)
def derivatives_of_a_scaled_rotation():
    p, scales = 11.0, xpos_scales([11.0], 2 * PAIRS, gamma=GAMMA, scale_base=SCALE_BASE)
    tables = rope_tables([p], THETA)
    f = lambda x: formulas.apply_xpos(x.reshape(1, -1), *tables, scales).reshape(-1, 2)  # noqa: E731
    env = mapped(f, {"x": X.reshape(-1, 2)}, D=plane)
    return {**env, r"\zeta": ZETA, r"\theta": THETA, "p": p, "b": SCALE_BASE}


@reads(r"\bar z_{in} &= \sum_{j:\, \lfloor p_{ij} \rfloor = n} (1 - w_{ij})\, U_{ij}…")
def gradients_of_counted_scores():
    u, p = U[0], counted(SCORES)
    z = np.column_stack([Q @ TABLE.T, np.zeros(T)])
    (bar_z,) = gradients(lambda z: np.sum(u * between(z, p)), z[:, :P])
    loss = Of(lambda q, a: np.sum(u * between(q @ a.T, p)), "q", "a")
    given = {"q": Q, "a": TABLE, "p": p, "w": p % 1, "U": u, "n": range(P)}
    return {**given, "L": loss, r"\bar z": bar_z}


@reads(r"\bar p_{ij} = U_{ij} (z_{i,n+1} - z_{i,n}), \qquad \pdv{L}{s_{it}}…")
def gradients_of_the_positions():
    u, p, z = U[0], counted(SCORES), Q @ TABLE.T
    (bar_p,) = gradients(lambda p: np.sum(u * between(z, p)), p)
    bar_p = np.where(p < P - 1, bar_p, 0)  # which is constant where it is bounded
    loss = Of(lambda s: np.sum(u * between(z, counted(s))), "s")
    given = {"s": SCORES, "z": z, "U": u, "L": loss, r"\bar p": bar_p, r"\sigma": sigmoid}
    inside = [(i, j) for i, j in np.ndindex(T, S) if p[i, j] < P - 1]
    return [{**given, "i": i, "j": j, "n": int(p[i, j]), "t": range(S)} for i, j in inside]


@reads(r"\dot s'_{ij} = \dot{\vec q}_i \cdot \vec a_c + \vec q_i \cdot \dot{\vec a}_c, \qquad c…")
def tangent_of_clipped_offsets():
    scores = Of(formulas.shaw_scores, "q", "a")
    return {"q": Q, "a": From(-LIMIT, VECTORS), "s'": scores, "K": LIMIT}


@reads(r"\mat M_k = \operatorname{diag}(\mat B_{k\omega_0}, \dots, \mat B_{k\omega_{n-1}})…")
def matrix_of_a_shift():
    omega = 10000.0 ** (-np.arange(2) / 2)
    given = {"k": 3.0, r"\omega": omega, "n": 2, r"\phi": 0.4}
    return {**given, "M_k": sinusoidal_shift(3.0, 4), "B": lambda *i: plane(np.prod(i)).T}


@reads(
    r"\mat R_1 (\vec a + \mathrm i \vec b) = e^{\mathrm i \theta} (\vec a + \mathrm i \vec b)…",
    r"\abs{\vec a}^2 - \abs{\vec b}^2 + 2 \mathrm i\, \vec a \cdot \vec b = \vec w^\top \vec w…",
)
def orthogonal_matrix_rotates_a_plane():
    matrix = np.linalg.qr(RNG.normal(size=(5, 5)))[0]
    values, vectors = np.linalg.eig(matrix)
    n = np.argmax(values.imag)
    w, theta = vectors[:, n], np.angle(values[n])
    return {"R_1": matrix, "a": w.real, "b": w.imag, "w": w, r"\theta": theta}


@equation(
    r"""-\log(1 + r_2\, d) = \int_0^\infty \bigl( e^{-r_2 d\, t} - 1 \bigr) \frac{e^{-t}}{t}\,
    dt, \qquad
    -d^{\,r_2} \propto \int_0^\infty \frac{\cos(d\, t) - 1}{t^{1 + r_2}}\, dt \quad (r_2 <
    2).""",
    rtol=1e-7,
)
def penalties_as_mixtures():
    t, weight = np.polynomial.laguerre.laggauss(100)
    for r2, d in (0.5, 1.0), (1.0, 3.0):
        yield -np.log(1 + r2 * d), np.sum(weight * (np.exp(-r2 * d * t) - 1) / t)

    def mixture(d, r2):
        end = 2 * np.pi / d
        head = mpmath.quad(lambda t: (mpmath.cos(d * t) - 1) / t ** (1 + r2), [0, end])
        tail = mpmath.quadosc(lambda t: mpmath.cos(d * t) / t ** (1 + r2), [end, np.inf], omega=d)
        return float(head + tail - end**-r2 / r2)

    for r2 in 0.7, 1.5:
        yield mixture(3.0, r2) / mixture(1.0, r2), 3.0**r2
        yield mixture(1.0, r2) < 0, True


@reads(r"B_{ij} + C = \vec\phi_i \cdot \vec\phi_j…")
def bias_as_features_of_positions():
    n, c, (q, k) = 6, 12.0, RNG.normal(size=(2, 6, E))
    b = -1.3 * np.log(1 + 0.8 * abs(np.subtract.outer(np.arange(n), np.arange(n))))
    phi = np.linalg.cholesky(b + c)  # exists, as the matrix is positive definite
    return {"B": b, "C": c, r"\phi": phi, "q": q, "k": k}


TIMES = np.array([0.3, 1.7, 40.0])


TIMES_OPTIONS = {"base": 50.0, "shift": 0.5, "scale": 3.0}


@reads(
    r"\omega_i = c\, b^{-i / (d - s)} , \qquad y_i = \sin(\omega_i t) , \qquad y_{d + i}…",
    r"\pdv{L}{t} = \sum_i \omega_i \bigl( u_i \cos(\omega_i t) - u_{d + i} \sin(\omega_i t)…",
    r"\dot y_i = \omega_i \cos(\omega_i t)\, \dot t , \qquad \dot y_{d + i}…",
)
def of_time():
    """Return the environments of the waves of a time."""
    f = functools.partial(formulas.timestep_embedding, dim=8, **TIMES_OPTIONS)
    options = {"c": 3.0, "b": 50.0, "d": 4, "s": 0.5, "i": range(4)}
    options |= {r"\omega": formulas.timestep_frequencies(TIMES, 8, 50.0, 0.5, 3.0)}
    return [mapped(f, {"t": t}, **options) for t in TIMES]


@reads(
    r"y_m = \cos(2 \pi\, \vec f_m \cdot \vec x) , \qquad y_{M + m}…",
    r"\dot y_m = -2 \pi\, y_{M + m}\, \dot z_m , \qquad \dot y_{M + m}…",
)
def of_point():
    """Return the environment of the features of a point."""
    inputs = {"x": RNG.normal(size=2), "f": RNG.normal(size=(3, 2))}
    z = Of(lambda x, f: f @ x, "x", "f")
    return mapped(formulas.fourier_features, inputs, z=z, M=3, m=range(3))


def features(x, f):
    z = 2 * np.pi * x @ f.T
    return np.concatenate([np.cos(z), np.sin(z)], -1)


@reads(r"\vec y(\vec x) \cdot \vec y(\vec x')…")
def product_of_two_features():
    f = RNG.normal(size=(3, 2))
    x, other = RNG.normal(size=(2, 2))
    return {"f": f, "x": x, "x'": other, "y": lambda x: formulas.fourier_features(x, f)}


@reads(r"\pdv{L}{\vec x} = \sum_m g_m \vec f_m , \qquad \pdv{L}{\vec f_m} = \sum_{\text{points}}…")
def derivatives_of_fourier_features():
    x, f, u = RNG.normal(size=(4, 2)), RNG.normal(size=(3, 2)), RNG.normal(size=(4, 6))
    of = lambda z: np.concatenate([np.cos(2 * np.pi * z), np.sin(2 * np.pi * z)], -1)  # noqa: E731
    (g,) = gradients(lambda z: np.sum(u * of(z)), x @ f.T)
    by_x, by_f = fourier_features_vjp(u, x, f)
    points = [{"x": point, "g": by_z} for point, by_z in zip(x, g, strict=True)]
    loss = Of(
        lambda x0, f: np.sum(u * formulas.fourier_features(np.stack([x0, *x[1:]]), f)), "x", "f"
    )
    given = {"f": f, "points": points, **points[0]}
    return [
        {**given, "L": loss},
        {**given, r"\pdv{L}{x}": by_x[0], r"\pdv{L}{f}": by_f},
    ]


@reads(r"C_{ti} = m \cos p_{a(i), t}\, \theta_i , \qquad S_{ti} = m \sin p_{a(i), t}\, \theta_i .")
def tables_of_several_coordinates():
    p, theta, owner = RNG.normal(size=(3, 4)), RNG.uniform(size=5), [0, 0, 1, 2, 2]
    cos, sin = formulas.rope_tables_multi(p, theta, sections=(2, 1, 2), attention_factor=1.5)
    return {"p": p, r"\theta": theta, "a": lambda i: owner[int(i)], "m": 1.5, "C": cos, "S": sin}


@equation(r"G_{rc} = \bigl( PE^{(D/2)}_r ,\, PE^{(D/2)}_c \bigr) .")
def sinusoids_of_a_grid():
    half = sinusoidal(4, 6, layout="halves")
    want = [[np.concatenate([half[r], half[c]]) for c in range(4)] for r in range(3)]
    yield want, sinusoidal_grid((3, 4), 12)


GRID = 2, 3
GRID_TABLE = RNG.normal(size=(15, 2))
PLACES = [(r, c) for r in range(2) for c in range(3)]


def gridded(b):
    h, w = GRID
    return np.array(
        [
            [
                [b[(r - y + h - 1) * (2 * w - 1) + (c - x + w - 1), k] for y, x in PLACES]
                for r, c in PLACES
            ]
            for k in range(2)
        ]
    )


@equation(
    r"""B_{k,\, (r, c),\, (r', c')} = b_{(r - r' + h - 1)(2 w - 1) + (c - c' + w - 1),\, k} .""",
    r"""\dot B_{k,\, (r, c),\, (r', c')} = \dot b_{(r - r' + h - 1)(2 w - 1) +
    (c - c' + w - 1),\, k} .""",
)
def bias_of_a_grid():
    yield gridded(GRID_TABLE), relative_bias_grid(GRID_TABLE, *GRID)
    moved = RNG.normal(size=GRID_TABLE.shape)
    pushed = relative_bias_grid_jvp(GRID_TABLE, moved, *GRID)
    yield rate(gridded, [GRID_TABLE], [moved]), gridded(moved), pushed


@equation(
    r"""\pdv{L}{b_{(\delta + h - 1)(2 w - 1) + \gamma + w - 1,\, k}} = \sum_{r, c}
    U_{k,\, (r, c),\, (r - \delta,\, c - \gamma)} ,"""
)
def gradient_of_the_bias_of_a_grid():
    u, (h, w) = RNG.normal(size=(2, 6, 6)), GRID
    by_hand = np.zeros(GRID_TABLE.shape)
    for down in range(1 - h, h):
        for across in range(1 - w, w):
            for k in range(2):
                by_hand[(down + h - 1) * (2 * w - 1) + across + w - 1, k] = sum(
                    u[k, i, PLACES.index((r - down, c - across))]
                    for i, (r, c) in enumerate(PLACES)
                    if (r - down, c - across) in PLACES
                )
    (grad,) = gradients(lambda b: np.sum(u * gridded(b)), GRID_TABLE)
    yield grad, by_hand, relative_bias_grid_vjp(u, GRID_TABLE, *GRID)


DEBERTA = tuple(RNG.normal(size=s) for s in ((1, T, E), (1, S, E), (1, 4, E), (1, 4, E)))


def row_of(i, j, L=4, beta=lambda offset: offset):
    return min(max(beta(i - j) + L // 2, 0), L - 1)


def disentangled(q, k, pos_q, pos_k, **beta):
    L = pos_q.shape[1]
    return np.array(
        [
            [
                q[0, i] @ k[0, j]
                + q[0, i] @ pos_k[0, row_of(i, j, L, **beta)]
                + k[0, j] @ pos_q[0, row_of(i, j, L, **beta)]
                for j in range(k.shape[1])
            ]
            for i in range(q.shape[1])
        ]
    )


@reads(r"s_{ij} = \vec q_i \cdot \vec k_j + \vec q_i \cdot \vec a^k_{r(i, j)} + \vec k_j \cdot…")
def scores_of_deberta():
    q, k, pos_q, pos_k = DEBERTA
    s = formulas.disentangled_scores(*DEBERTA)[0]
    given = {
        "q": q[0],
        "k": k[0],
        "a^q": pos_q[0],
        "a^k": pos_k[0],
        "s": s,
        "L": 4,
        "i": range(T),
        "j": range(S),
    }
    return {**given, "r": lambda i, j: row_of(int(i), int(j)), r"\beta": lambda offset: offset}


@reads(r"\beta(\delta) = \operatorname{sign}(\delta) \biggl( m + \biggl\lceil…")
def bucket_of_deberta():
    beta = lambda offset: formulas.log_bucket(np.asarray(offset), 128, 200)  # noqa: E731
    return [{r"\delta": n, "m": 64, "M": 200, r"\beta": beta} for n in range(65, 200, 5)]


@equation(
    r"""G_{ir} = \sum_{j :\, r(i, j) = r} U_{ij} , \qquad
    F_{jr} = \sum_{i :\, r(i, j) = r} U_{ij} ;""",
    r"""\pdv{L}{\vec q_i} &= \sum_j U_{ij} \vec k_j + \sum_r G_{ir}\, \vec a^k_r , \qquad
    \pdv{L}{\vec a^k_r} = \sum_i G_{ir}\, \vec q_i \\
    \pdv{L}{\vec k_j} &= \sum_i U_{ij} \vec q_i + \sum_r F_{jr}\, \vec a^q_r , \qquad
    \pdv{L}{\vec a^q_r} = \sum_j F_{jr}\, \vec k_j .""",
)
def gradients_of_deberta():
    u, (q, k, pos_q, pos_k) = RNG.normal(size=(T, S)), DEBERTA
    G = [[sum(u[i, j] for j in range(S) if row_of(i, j) == r) for r in range(4)] for i in range(T)]
    F = [[sum(u[i, j] for i in range(T) if row_of(i, j) == r) for r in range(4)] for j in range(S)]
    dq = u @ k[0] + G @ pos_k[0]
    dk = u.T @ q[0] + F @ pos_q[0]
    by_hand = dq, dk, np.transpose(F) @ k[0], np.transpose(G) @ q[0]
    want = gradients(lambda *x: np.sum(u * disentangled(*x)), *DEBERTA)
    got = disentangled_scores_vjp([u], *DEBERTA)
    for a, b, c in zip(want, by_hand, got, strict=True):
        yield a, [b], c


@equation(
    r"""\dot s_{ij} = \dot{\vec q}_i \cdot (\vec k_j + \vec a^k_r) + \dot{\vec k}_j \cdot
    (\vec q_i + \vec a^q_r) + \vec q_i \cdot \dot{\vec a}^k_r + \vec k_j \cdot \dot{\vec a}^q_r ."""
)
def tangent_of_deberta():
    moves = tuple(RNG.normal(size=x.shape) for x in DEBERTA)
    (q, k, pos_q, pos_k), (dq, dk, dpos_q, dpos_k) = DEBERTA, moves
    by_hand = np.zeros((T, S))
    for i in range(T):
        for j in range(S):
            r = row_of(i, j)
            by_hand[i, j] = (
                dq[0, i] @ (k[0, j] + pos_k[0, r])
                + dk[0, j] @ (q[0, i] + pos_q[0, r])
                + q[0, i] @ dpos_k[0, r]
                + k[0, j] @ dpos_q[0, r]
            )
    yield [rate(disentangled, DEBERTA, moves)], [by_hand], disentangled_scores_jvp(DEBERTA, moves)
