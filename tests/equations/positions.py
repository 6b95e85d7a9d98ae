"""The displayed equations of dlref.positions."""

import math

import mpmath
import numpy as np
from equations.ledger import equation
from equations.numeric import gradients, rate

from dlref.attention import attention_scores, scaled_dot_product_attention
from dlref.formulas.activations import relu, sigmoid
from dlref.positions import (
    alibi_bias,
    alibi_slopes,
    apply_rope,
    apply_rope_axial,
    apply_rope_vjp,
    apply_xpos,
    cope,
    disentangled_scores,
    disentangled_scores_jvp,
    disentangled_scores_vjp,
    fire_bias,
    fourier_features,
    fourier_features_jvp,
    fourier_features_vjp,
    kerple_bias,
    learned_positions,
    relative_bias,
    relative_bias_grid,
    relative_bias_grid_jvp,
    relative_bias_grid_vjp,
    rope_angles,
    rope_attention_factor,
    rope_frequencies,
    rope_matrix,
    rope_permutation,
    rope_score,
    rope_tables,
    rope_tables_multi,
    shaw_scores,
    sinusoidal,
    sinusoidal_grid,
    sinusoidal_shift,
    t5_bias,
    t5_relative_position_bucket,
    timestep_embedding,
    timestep_embedding_jvp,
    timestep_embedding_vjp,
    transformer_xl_scores,
    xpos_scales,
)

RNG = np.random.default_rng(0)
H, T, S, E, OFFSET = 2, 3, 5, 4, 2
QUERY, KEY = np.arange(T)[:, None] + OFFSET, np.arange(S)  # positions
BEFORE, BOTH = np.maximum(QUERY - KEY, 0), abs(QUERY - KEY)  # distances
U = RNG.normal(size=(H, T, S))
Q, K = RNG.normal(size=(T, E)), RNG.normal(size=(S, E))


@equation(
    r"m_h = 2^{-8 h / H}, \qquad h = 1, \dots, H .",
)
def slopes_of_a_power_of_two_heads():
    yield [2 ** (-8 * h / 8) for h in range(1, 9)], alibi_slopes(8)
    yield [2 ** (-8 * h / 6) for h in range(1, 7)], alibi_slopes(6, rule="paper")


@equation(
    r"2^{-8h/P}, \; h = 1, \dots, P; \qquad 2^{-4 (2h - 1)/P}, \; h = 1, \dots, H - P .",
)
def slopes_of_other_heads():
    heads, p = 7, 4
    first = [2 ** (-8 * h / p) for h in range(1, p + 1)]
    second = [2 ** (-4 * (2 * h - 1) / p) for h in range(1, heads - p + 1)]
    yield first + second, alibi_slopes(heads)


M = RNG.uniform(size=H)  # slopes


@equation(
    r"B_{hij} = -m_h\, (i + \text{q\_offset} - j)_+ \qquad\text{or}\qquad -m_h\, \abs{i + "
    r"\text{q\_offset} - j}",
)
def alibi_of_each_pair():
    ahead, both = np.empty((H, T, S)), np.empty((H, T, S))
    for h, i, j in np.ndindex(H, T, S):
        ahead[h, i, j] = -M[h] * max(i + OFFSET - j, 0)
        both[h, i, j] = -M[h] * abs(i + OFFSET - j)
    yield ahead, alibi_bias(M, T, S, q_offset=OFFSET)
    yield both, alibi_bias(M, T, S, q_offset=OFFSET, symmetric=True)


@equation(
    r"\pdv{L}{m_h} = -\sum_{ij} U_{hij}\, d_{ij} .",
)
def alibi_gradient_by_complex_step():
    for d in BEFORE, BOTH:
        dm = gradients(lambda m, d=d: np.sum(U * -m[:, None, None] * d), M)[0]
        yield dm, [-np.sum(U[h] * d) for h in range(H)]


@equation(
    r"\dot B_{hij} = -\dot m_h\, d_{ij}",
)
def alibi_tangent_by_complex_step():
    dm = RNG.normal(size=H)
    for d in BEFORE, BOTH:
        moved = [-dm[h] * d for h in range(H)]
        yield rate(lambda m, d=d: -m[:, None, None] * d, [M], [dm]), np.array(moved)


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


@equation(
    r"g_{ij} = \sigma(s_{ij}), \qquad p_{ij} = \min\Bigl(\sum_{t \ge j} g_{it},\; P - 1\Bigr), "
    r"\qquad c_{ij} = \vec q_i \cdot \vec a(p_{ij})",
    r"c_{ij} = (1 - w)\, z_{i,n} + w\, z_{i,n+1}, \qquad n = \lfloor p_{ij} \rfloor,\; w = "
    r"p_{ij} - n .",
)
def scores_at_counted_positions():
    c, interpolated = np.empty((T, S)), np.empty((T, S))
    g, z = 1 / (1 + np.exp(-SCORES)), np.array([[q @ a for a in TABLE] for q in Q])
    for i, j in np.ndindex(T, S):
        p = min(sum(g[i, t] for t in range(j, S)), P - 1)
        vector = [np.interp(p, np.arange(P), TABLE[:, e]) for e in range(E)]
        c[i, j] = Q[i] @ vector
        n = int(np.floor(p))
        w = p - n
        interpolated[i, j] = (1 - w) * z[i, n] + (w * z[i, n + 1] if n + 1 < P else 0)
    yield c, interpolated, cope(Q, SCORES, TABLE)


@equation(
    r"\dot c_{ij} = (1 - w)\, \dot z_{i,n} + w\, \dot z_{i,n+1} + (z_{i,n+1} - z_{i,n}) "
    r"\sum_{t \ge j} \sigma'(s_{it})\, \dot s_{it}",
)
def counted_scores_move_by_complex_step():
    dq, ds, da = (RNG.normal(size=x.shape) for x in (Q, SCORES, TABLE))
    z, dz, p = Q @ TABLE.T, dq @ TABLE.T + Q @ da.T, counted(SCORES)
    slope = sigmoid(SCORES) * (1 - sigmoid(SCORES))
    dc = np.empty((T, S))
    for i, j in np.ndindex(T, S):
        n = int(p[i, j])
        w = p[i, j] - n
        if n == P - 1:  # the bound
            dc[i, j] = dz[i, n]
            continue
        gates = sum(slope[i, t] * ds[i, t] for t in range(j, S))
        dc[i, j] = (1 - w) * dz[i, n] + w * dz[i, n + 1] + (z[i, n + 1] - z[i, n]) * gates
    moved = rate(lambda q, s, a: between(q @ a.T, counted(s)), (Q, SCORES, TABLE), (dq, ds, da))
    yield moved, dc
    yield np.any(p == P - 1), True
    yield np.any(p < P - 1), True


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


@equation(
    r"u_{ij} = \frac{\psi(\abs{i - j})}{\psi(\max(M, i))}, \qquad B_{hij} = b^{(2)}_h + \sum_f "
    r"w^{(2)}_{hf} \operatorname{relu}(w^{(1)}_f u_{ij} + b^{(1)}_f) .",
)
def network_of_each_distance():
    w1, b1, w2, b2, c, threshold = FIRE

    def psi(x):
        return np.log(1 + c * x)

    bias = np.empty((H, T, S))
    for h, row, j in np.ndindex(H, T, S):
        i = row + OFFSET
        u = psi(abs(i - j)) / psi(max(threshold, i))
        bias[h, row, j] = b2[h] + sum(w2[h, f] * max(w1[f] * u + b1[f], 0) for f in range(UNITS))
    yield bias, fire_bias(*FIRE, T, S, q_offset=OFFSET)


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


@equation(
    r"\pdv{u}{c} = \frac{1}{\psi(m)} \left( \frac{d}{1 + c d} - \frac{u\, m}{1 + c m} \right), "
    r"\qquad \pdv{u}{M} = -\frac{u\, c}{\psi(m)\,(1 + c m)} \quad\text{where } M \ge i ,",
)
def slopes_of_the_share_by_complex_step():
    c, threshold = FIRE[-2:]
    u, d, m = share(c, threshold), BOTH, np.maximum(threshold, QUERY)
    psi = np.log(1 + c * m)
    yield (
        rate(lambda c: share(c, threshold), [c], [1]),
        (d / (1 + c * d) - u * m / (1 + c * m)) / psi,
    )
    slope = np.where(threshold >= QUERY, -u * c / (psi * (1 + c * m)), 0)
    yield rate(lambda threshold: share(c, threshold), [threshold], [1]), slope


@equation(
    r"\dot h_f &= [h_f > 0] \left( \dot w^{(1)}_f u + w^{(1)}_f \dot u + \dot b^{(1)}_f "
    r"\right), \\ \dot B_h &= \dot b^{(2)}_h + \sum_f \dot w^{(2)}_{hf} h_f + w^{(2)}_{hf} "
    r"\dot h_f",
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


@equation(
    r"\cos(a + b) = \cos a \cos b - \sin a \sin b, \qquad \sin(a + b) = \sin a \cos b + \cos a "
    r"\sin b .",
)
def cosine_and_sine_of_a_sum():
    a, b = RNG.normal(size=(2, 7))
    yield np.cos(a + b), np.cos(a) * np.cos(b) - np.sin(a) * np.sin(b)
    yield np.sin(a + b), np.sin(a) * np.cos(b) + np.cos(a) * np.sin(b)


R1, R2 = RNG.uniform(0.5, 1.5, size=(2, H))


@equation(
    r"B_{hij} = -r_1 \log(1 + r_2\, d_{ij}) \qquad\text{or}\qquad -r_1\, d_{ij}^{\,r_2} .",
)
def kerple_of_each_pair():
    log, power = np.empty((H, T, S)), np.empty((H, T, S))
    for h, i, j in np.ndindex(H, T, S):
        d = abs(i + OFFSET - j)
        log[h, i, j] = -R1[h] * np.log(1 + R2[h] * d)
        power[h, i, j] = -R1[h] * d ** R2[h]
    for kind, bias in ("log", log), ("power", power):
        computed = kerple_bias(R1, R2, T, S, kind=kind, q_offset=OFFSET, symmetric=True)
        yield bias, computed
        computed = kerple_bias(R1, R2, T, S, kind=kind, q_offset=OFFSET)
        yield np.where(QUERY >= KEY, bias, 0), computed


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


@equation(
    r"\dot B = \pdv{B}{r_1}\, \dot r_1 + \pdv{B}{r_2}\, \dot r_2",
)
def kerple_tangent_from_partial_derivatives():
    dr1, dr2 = RNG.normal(size=(2, H))
    zero, one = np.zeros(H), np.ones(H)
    for bias in kerple_log, kerple_power:
        of_r1, of_r2 = (rate(bias, (R1, R2), moved) for moved in ((one, zero), (zero, one)))
        yield rate(bias, (R1, R2), (dr1, dr2)), of_r1 * dr1[:, None] + of_r2 * dr2[:, None]


LENGTH = 6
ROWS, AT = RNG.normal(size=(LENGTH, E)), np.array([4, 0, 4, 1])  # a table, and where it is read


def read(table):
    return np.array(
        [[sum((p == n) * table[n, d] for n in range(LENGTH)) for d in range(E)] for p in AT]
    )


@equation(
    r"y_{nd} = W_{p_n d} = \sum_l [p_n = l]\, W_{l d}",
)
def rows_read_and_as_a_product():
    rows = np.array([[ROWS[p, d] for d in range(E)] for p in AT])
    yield rows, read(ROWS), learned_positions(ROWS, AT)


@equation(
    r"\pdv{L}{W_{ld}} = \sum_n U_{nd}\, [p_n = l] .",
)
def table_gradient_by_complex_step():
    u = RNG.normal(size=(len(AT), E))
    sums = np.zeros((LENGTH, E))
    for row, d in np.ndindex(LENGTH, E):
        sums[row, d] = sum(u[n, d] * (AT[n] == row) for n in range(len(AT)))
    yield gradients(lambda table: np.sum(u * table[AT]), ROWS)[0], sums


OFFSETS = RNG.normal(size=(H, T + S - 1))


def along_diagonals(b):
    return b[:, np.arange(S) - np.arange(T)[:, None] + T - 1]


@equation(
    r"B_{hij} = b_{h,\, j - i + T - 1}",
)
def number_of_each_offset():
    bias = np.empty((H, T, S))
    for h, i, j in np.ndindex(H, T, S):
        bias[h, i, j] = OFFSETS[h, j - i + T - 1]
    yield bias, relative_bias(OFFSETS, T, S)


@equation(
    r"\pdv{L}{b_{hr}} = \sum_i U_{h, i,\, r + i - T + 1} ,",
)
def diagonal_sums_by_complex_step():
    sums = np.zeros((H, T + S - 1))
    for h, r in np.ndindex(sums.shape):
        columns = [(i, r + i - T + 1) for i in range(T)]
        sums[h, r] = sum(U[h, i, j] for i, j in columns if 0 <= j < S)
    yield gradients(lambda b: np.sum(U * along_diagonals(b)), OFFSETS)[0], sums


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


def pairs(x):
    return x[0::2] + 1j * x[1::2]


def score(q, k, r, theta):
    return q @ rotated(k, r, theta)


@equation(
    r"\operatorname{Re} \sum_i \overline{z_i e^{\mathrm i m \theta_i}}\, w_i e^{\mathrm i n "
    r"\theta_i} &= \operatorname{Re} \sum_i \bar z_i w_i\, e^{\mathrm i (n - m) \theta_i} \\ &= "
    r"\sum_i a_i \cos r \theta_i + b_i \sin r \theta_i, \\ a_i = q_{i1} k_{i1} + q_{i2} k_{i2}&, "
    r"\qquad b_i = "
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


@equation(
    r"\pdv{L}{\vec q} = u\, \mat R_r \vec k, \qquad \pdv{L}{\vec k} = u\, \mat R_{-r} \vec q .",
)
def score_gradients_of_vectors_by_complex_step():
    u, r = 1.7, -2.3
    dq, dk = gradients(lambda q, k: u * score(q, k, r, THETA), X, Y)
    yield dq, u * rotation(r) @ Y
    yield dk, u * rotation(-r) @ X


@equation(
    r"\pdv{L}{r} = \sum_i g_i\, \theta_i, \qquad \pdv{L}{\theta_i} = \sum g_i\, r .",
)
def score_gradients_of_angles_by_complex_step():
    u, offsets = RNG.normal(size=T), RNG.normal(size=T)
    dr, dtheta = gradients(
        lambda r, theta: sum(u[n] * score(X, Y, r[n], theta) for n in range(T)), offsets, THETA
    )
    a = X[0::2] * Y[0::2] + X[1::2] * Y[1::2]
    b = X[1::2] * Y[0::2] - X[0::2] * Y[1::2]
    phi = offsets[:, None] * THETA
    g = u[:, None] * (b * np.cos(phi) - a * np.sin(phi))
    yield dr, [sum(g[n, i] * THETA[i] for i in range(PAIRS)) for n in range(T)]
    yield dtheta, [sum(g[n, i] * offsets[n] for n in range(T)) for i in range(PAIRS)]


@equation(
    r"\dot s = \sum_i \dot a_i \cos\phi_i + \dot b_i \sin\phi_i + (b_i \cos\phi_i - a_i "
    r"\sin\phi_i)\, \dot\phi_i,",
)
def score_tangent_by_complex_step():
    r, dr, (dx, dy), dtheta = -2.3, 0.9, RNG.normal(size=(2, 2 * PAIRS)), RNG.normal(size=PAIRS)

    def products(x, y):
        return x[0::2] * y[0::2] + x[1::2] * y[1::2], x[1::2] * y[0::2] - x[0::2] * y[1::2]

    (a, b), of_x, of_y = products(X, Y), products(dx, Y), products(X, dy)
    da, db = of_x[0] + of_y[0], of_x[1] + of_y[1]
    phi, dphi = r * THETA, dr * THETA + r * dtheta
    cos, sin = np.cos(phi), np.sin(phi)
    ds = sum(da * cos + db * sin + (b * cos - a * sin) * dphi)
    yield rate(score, (X, Y, r, THETA), (dx, dy, dr, dtheta)), ds


@equation(
    r"\phi_{pi} = p\, \theta_i",
)
def angle_of_each_position():
    positions = RNG.normal(size=T)
    yield [[p * theta for theta in THETA] for p in positions], rope_angles(positions, THETA)


def rope(x, p, **options):
    """Return what dlref makes of a vector at a position."""
    return apply_rope(x[None], *rope_tables([p], THETA), **options)[0]


@equation(
    r"\langle f(\vec q, m), f(\vec k, n) \rangle = g(\vec q, \vec k, n - m) .",
)
def score_depends_on_the_difference_alone():
    m, n = 7.3, 4.6

    def g(q, k, r):
        return np.sum(np.conj(pairs(q)) * pairs(k) * np.exp(1j * r * THETA)).real

    for shift in 0, 2.5, -40:
        inner = rotation(m + shift) @ X @ (rotation(n + shift) @ Y)
        yield inner, rope(X, m + shift) @ rope(Y, n + shift), g(X, Y, n - m)


@equation(
    r"\begin{pmatrix} y_1 \\ y_2 \end{pmatrix} &= \begin{pmatrix} \cos\phi & -\sin\phi \\ "
    r"\sin\phi & \cos\phi \end{pmatrix} \begin{pmatrix} x_1 \\ x_2 \end{pmatrix} \\ y_1 &= x_1 "
    r"\cos\phi - x_2 \sin\phi, \qquad y_2 = x_1 \sin\phi + x_2 \cos\phi \\ y_1 + \mathrm i "
    r"y_2 &= (x_1 + \mathrm i x_2)(\cos\phi + \mathrm i \sin\phi) = (x_1 + \mathrm i x_2)\, "
    r"e^{\mathrm i \phi} .",
)
def three_forms_of_a_rotated_pair():
    (x1, x2), p = X[:2], 7.3
    phi = p * THETA[0]
    matrix = np.array([[np.cos(phi), -np.sin(phi)], [np.sin(phi), np.cos(phi)]])
    y1, y2 = x1 * np.cos(phi) - x2 * np.sin(phi), x1 * np.sin(phi) + x2 * np.cos(phi)
    yield matrix @ [x1, x2], [y1, y2], rope(X, p)[:2]
    yield (
        y1 + 1j * y2,
        (x1 + 1j * x2) * (np.cos(phi) + 1j * np.sin(phi)),
        (x1 + 1j * x2) * np.exp(1j * phi),
    )


@equation(
    r"\pdv{L}{\vec x} = \mat R_p^\top\, \vec u = \mat R_{-p}\, \vec u,",
)
def rotation_gradient_by_complex_step():
    u, p = RNG.normal(size=2 * PAIRS), 7.3
    dx = gradients(lambda x: np.sum(u * rotated(x, p)), X)[0]
    computed = apply_rope_vjp(u[None], X[None], *rope_tables([p], THETA))
    yield dx, rotation(p).T @ u, rotation(-p) @ u, np.ravel(computed)


@equation(
    r"\mat R_p = \operatorname{diag}(\mat D_{p\theta_0}, \dots, \mat D_{p\theta_{n-1}}), "
    r"\qquad \mat D_\phi = \begin{pmatrix} \cos\phi & -\sin\phi \\ \sin\phi & \cos\phi "
    r"\end{pmatrix}",
)
def rotation_as_a_matrix():
    yield rotation(7.3), rope_matrix(7.3, THETA)
    yield rotation(7.3) @ X, rotated(X, 7.3)


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
    r"\vec y_a = \mat R_{p_a} \vec x_a, \qquad a = 1, \dots, A .",
)
def blocks_are_rotated_by_their_coordinates():
    x, place = RNG.normal(size=4 * PAIRS), np.array([3.0, -1.5])
    y = apply_rope_axial(x[None], *rope_tables(place[None], THETA))[0]
    for block, p, rotated_block in zip(np.split(x, 2), place, np.split(y, 2), strict=True):
        yield rotation(p) @ block, rotated_block


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


@equation(
    r"b'^{-(d-2)/d} = \frac{b^{-(d-2)/d}}{s} \quad\Rightarrow\quad b' = b\, s^{d/(d-2)}, "
    r"\qquad \theta'_i = \theta_i\, s^{-2i/(d-2)} .",
)
def base_that_divides_the_last_frequency():
    d, b, s = 16, 10000.0, 4.0
    new, i = b * s ** (d / (d - 2)), np.arange(d // 2)
    yield new ** (-(d - 2) / d), b ** (-(d - 2) / d) / s
    theta = b ** (-2 * i / d)
    computed = rope_frequencies(d, base=b, scaling={"type": "ntk", "factor": s})
    yield new ** (-2 * i / d), theta * s ** (-2 * i / (d - 2)), computed


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


def shaw(q, a):
    """Return the product of each query with the vector of the clipped offset to each key."""
    place = [[min(max(j - i, -LIMIT), LIMIT) + LIMIT for j in range(T)] for i in range(T)]
    return np.einsum("ie,ije->ij", q, a[place])


@equation(
    r"s_{ij} = \vec q_i \cdot (\vec k_j + \vec a_{\operatorname{clip}(j - i, -K, K)}), "
    r"\qquad\text{of which}\quad s'_{ij} = \vec q_i \cdot \vec a_{\operatorname{clip}(j - i, "
    r"-K, K)}",
)
def scores_of_clipped_offsets():
    keys = RNG.normal(size=(T, E))
    s, of_offsets = np.empty((T, T)), np.empty((T, T))
    for i, j in np.ndindex(T, T):
        a = VECTORS[min(max(j - i, -LIMIT), LIMIT) + LIMIT]
        s[i, j], of_offsets[i, j] = Q[i] @ (keys[j] + a), Q[i] @ a
    yield s, Q @ keys.T + of_offsets
    yield of_offsets, shaw(Q, VECTORS), shaw_scores(Q, VECTORS)


@equation(
    r"\pdv{L}{q_{ie}} = \sum_c G_{ic}\, a_{ce}, \qquad \pdv{L}{a_{ce}} = \sum_i G_{ic}\, "
    r"q_{ie} .",
)
def gradients_of_clipped_offsets_by_complex_step():
    u, g = U[0, :, :T], np.zeros((T, len(VECTORS)))
    for i, j in np.ndindex(T, T):
        g[i, np.clip(j - i, -LIMIT, LIMIT) + LIMIT] += u[i, j]
    dq, da = gradients(lambda q, a: np.sum(u * shaw(q, a)), Q, VECTORS)
    yield dq, np.einsum("ic,ce->ie", g, VECTORS)
    yield da, np.einsum("ic,ie->ce", g, Q)


@equation(
    r"PE_{p, 2i} = \sin p\, \omega_i, \qquad PE_{p, 2i + 1} = \cos p\, \omega_i, \qquad "
    r"\omega_i = b^{-2i/D} .",
)
def table_of_sines_and_cosines():
    length, width, b = 5, 6, 100.0
    table = np.empty((length, width))
    for p, i in np.ndindex(length, width // 2):
        omega = b ** (-2 * i / width)
        table[p, 2 * i], table[p, 2 * i + 1] = np.sin(p * omega), np.cos(p * omega)
    yield table, sinusoidal(length, width, base=b)


@equation(
    r"\begin{pmatrix} \sin (p + k) \omega \\ \cos (p + k) \omega \end{pmatrix} = "
    r"\begin{pmatrix} \cos k\omega & \sin k\omega \\ -\sin k\omega & \cos k\omega "
    r"\end{pmatrix} \begin{pmatrix} \sin p\, \omega \\ \cos p\, \omega \end{pmatrix} ,",
)
def table_shifted_by_a_rotation():
    p, k, omega = RNG.normal(size=3)
    cos, sin = np.cos(k * omega), np.sin(k * omega)
    moved = np.array([[cos, sin], [-sin, cos]]) @ [np.sin(p * omega), np.cos(p * omega)]
    yield [np.sin((p + k) * omega), np.cos((p + k) * omega)], moved


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
    offsets = np.arange(-300, 301)
    both = [bucket(-abs(r), 16, 128) + 16 * (r > 0) for r in offsets]
    yield both, t5_relative_position_bucket(offsets)
    options = {"bidirectional": False, "num_buckets": 9, "max_distance": 100}
    yield [bucket(r, 9, 100) for r in offsets], t5_relative_position_bucket(offsets, **options)


BUCKETS = RNG.normal(size=(6, H))
T5 = {"bidirectional": False, "q_offset": OFFSET, "max_distance": 5}
IN_BUCKET = np.array([[bucket(j - i - OFFSET, 6, 5) for j in range(S)] for i in range(T)])


@equation(
    r"B_{hij} = b_{\text{bucket}(j - i - \text{q\_offset}),\, h}",
)
def number_of_each_bucket():
    bias = np.empty((H, T, S))
    for h, i, j in np.ndindex(H, T, S):
        bias[h, i, j] = BUCKETS[bucket(j - i - OFFSET, 6, 5), h]
    yield bias, t5_bias(BUCKETS, T, S, **T5)


@equation(
    r"\pdv{L}{b_{ch}} = \sum_{ij} U_{hij}\, [\text{bucket}(j - i - \text{q\_offset}) = c]",
)
def bucket_sums_by_complex_step():
    sums = np.zeros(BUCKETS.shape)
    for c, h in np.ndindex(sums.shape):
        pairs = np.ndindex(T, S)
        sums[c, h] = sum(U[h, i, j] * (bucket(j - i - OFFSET, 6, 5) == c) for i, j in pairs)
    loss = gradients(lambda b: np.sum(U * np.moveaxis(b[IN_BUCKET], -1, 0)), BUCKETS)[0]
    yield loss, sums


@equation(
    r"""(\mat W_q (\vec e_i + \vec p_i)) \cdot (\mat W_k (\vec e_j + \vec p_j))
    = \underbrace{\vec q_i \cdot \vec k_j}_{(a)}
    + \underbrace{\vec q_i \cdot \mat W_k \vec p_j}_{(b)}
    + \underbrace{\mat W_q \vec p_i \cdot \vec k_j}_{(c)}
    + \underbrace{\mat W_q \vec p_i \cdot \mat W_k \vec p_j}_{(d)} ."""
)
def score_of_sums_expanded():
    w_q, w_k = RNG.normal(size=(2, E, E))
    e_i, p_i, e_j, p_j = RNG.normal(size=(4, E))
    q, k = w_q @ e_i, w_k @ e_j
    expanded = q @ k + q @ (w_k @ p_j) + w_q @ p_i @ k + w_q @ p_i @ (w_k @ p_j)
    yield (w_q @ (e_i + p_i)) @ (w_k @ (e_j + p_j)), expanded


XL = Q, K, RNG.normal(size=(T + S - 1, E)), *RNG.normal(size=(2, E))


def xl_scores(q, k, r, u, v):
    row, column = np.ogrid[:T, :S]
    return (q + u) @ k.T + ((q + v) @ r.T)[row, column - row + T - 1]


@equation(
    r"s_{ij} = (\vec q_i + \vec u) \cdot \vec k_j + (\vec q_i + \vec v) \cdot \vec r_{j-i} .",
)
def scores_by_content_and_offset():
    q, k, r, u, v = XL
    s = np.empty((T, S))
    for i, j in np.ndindex(T, S):
        s[i, j] = (q[i] + u) @ k[j] + (q[i] + v) @ r[j - i + T - 1]
    yield s, transformer_xl_scores(*XL)


@equation(
    r"\pdv{L}{\mat Q} &= \mat U \mat K + \mat G \mat R, & \pdv{L}{\vec u} &= \sum_i (\mat U "
    r"\mat K)_i, & \pdv{L}{\vec v} &= \sum_i (\mat G \mat R)_i, \\ \pdv{L}{\mat K} &= \mat "
    r"U^\top (\mat Q + \vec u), & \pdv{L}{\mat R} &= \mat G^\top (\mat Q + \vec v) .",
)
def gradients_by_content_and_offset():
    q, k, r, u, v = XL
    cotangent = U[0]
    g = np.zeros((T, T + S - 1))
    for i, j in np.ndindex(T, S):
        g[i, j - i + T - 1] = cotangent[i, j]
    dq, dk, dr, du, dv = gradients(lambda *x: np.sum(cotangent * xl_scores(*x)), *XL)
    yield dq, cotangent @ k + g @ r
    yield du, sum(cotangent @ k)
    yield dv, sum(g @ r)
    yield dk, cotangent.T @ (q + u)
    yield dr, g.T @ (q + v)


GAMMA, SCALE_BASE = 0.3, 50.0
ZETA = (2 * np.arange(PAIRS) / (2 * PAIRS) + GAMMA) / (1 + GAMMA)


def xpos(x, p, **options):
    """Return what dlref makes of a vector at a position."""
    scales = xpos_scales([p], 2 * PAIRS, gamma=GAMMA, scale_base=SCALE_BASE)
    return apply_xpos(x[None], *rope_tables([p], THETA), scales, **options)[0]


@equation(
    r"\zeta_i = \frac{2i/d + \gamma}{1 + \gamma}, \qquad i = 0, \dots, d/2 - 1",
)
def factor_of_each_pair():
    d = 2 * PAIRS
    zeta = np.array([(2 * i / d + GAMMA) / (1 + GAMMA) for i in range(d // 2)])
    for p in SCALE_BASE, 17.0:
        computed = xpos_scales(p, d, gamma=GAMMA, scale_base=SCALE_BASE)
        yield zeta ** (p / SCALE_BASE), computed


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


def at_places(x, places):
    """Return a vector of two blocks of channels, each rotated by a coordinate."""
    halves = np.split(x, 2)
    return np.concatenate([rotated(h, p) for h, p in zip(halves, places, strict=True)])


@equation(
    r"""\pdv{L}{\vec x_a} = \mat R_{p_a}^\top\, \vec u_a = \mat R_{-p_a}\, \vec u_a, \qquad a =
    1, \dots, A .""",
    r"""\dot{\vec y}_a = \mat R_{p_a}\, \dot{\vec x}_a, \qquad a = 1, \dots, A .""",
)
def derivatives_of_an_axial_rotation():
    places, (x, u, dx) = (2.0, -7.0), RNG.normal(size=(3, 4 * PAIRS))
    gradient = gradients(lambda x: u @ at_places(x, places), x)[0]
    moved = rate(lambda x: at_places(x, places), [x], [dx])
    blocks = zip(places, *(np.split(a, 2) for a in (gradient, u, moved, dx)), strict=True)
    for p, dl, u_a, dy, dx_a in blocks:
        yield dl, rotation(p).T @ u_a, rotation(-p) @ u_a
        yield dy, rotation(p) @ dx_a


@equation(r"""\dot{\vec y} = \mat R_p\, \dot{\vec x} .""")
def tangent_of_a_rotation():
    p, dx = 5.0, RNG.normal(size=2 * PAIRS)
    yield rate(lambda x: rotated(x, p), [X], [dx]), rotation(p) @ dx


@equation(r"""C_{pi} = m \cos p\, \theta_i, \qquad S_{pi} = m \sin p\, \theta_i .""")
def tables_of_cosines_and_sines():
    m, positions = 1.3, [0, 2, 5]
    cos, sin = rope_tables(positions, THETA, attention_factor=m)
    yield [[m * np.cos(p * angle) for angle in THETA] for p in positions], cos
    yield [[m * np.sin(p * angle) for angle in THETA] for p in positions], sin


def plane(phi):
    return np.array([[np.cos(phi), -np.sin(phi)], [np.sin(phi), np.cos(phi)]])


def scaled(x, p):
    """Return pairs that are rotated and scaled."""
    return (rotated(x, p).reshape(-1, 2) * ZETA[:, None] ** (p / SCALE_BASE)).ravel()


@equation(
    r"""\pdv{L}{\vec x_i} = (c_i \mat D_{\phi_i})^\top\, \vec u_i = c_i \mat D_{-\phi_i}\, \vec
    u_i, \qquad
    c_i = \zeta_i^{p/b}, \quad \phi_i = p\, \theta_i .""",
    r"""\dot{\vec y}_i = c_i \mat D_{\phi_i}\, \dot{\vec x}_i .""",
)
def derivatives_of_a_scaled_rotation():
    p, (u, dx) = 11.0, RNG.normal(size=(2, 2 * PAIRS))
    yield scaled(X, p), xpos(X, p)
    gradient = gradients(lambda x: u @ scaled(x, p), X)[0].reshape(-1, 2)
    moved = rate(lambda x: scaled(x, p), [X], [dx]).reshape(-1, 2)
    for i in range(PAIRS):
        c, phi, pair = ZETA[i] ** (p / SCALE_BASE), p * THETA[i], slice(2 * i, 2 * i + 2)
        yield gradient[i], (c * plane(phi)).T @ u[pair], c * plane(-phi) @ u[pair]
        yield moved[i], c * plane(phi) @ dx[pair]


@equation(
    r"""\bar z_{in} &= \sum_{j:\, \lfloor p_{ij} \rfloor = n} (1 - w_{ij})\, U_{ij}
    + \sum_{j:\, \lfloor p_{ij} \rfloor = n - 1} w_{ij}\, U_{ij}, \\
    \pdv{L}{\vec q_i} &= \sum_n \bar z_{in}\, \vec a_n, \qquad
    \pdv{L}{\vec a_n} = \sum_i \bar z_{in}\, \vec q_i .""",
    r"""\bar p_{ij} = U_{ij} (z_{i,n+1} - z_{i,n}), \qquad
    \pdv{L}{s_{it}} = \sigma'(s_{it}) \sum_{j \le t} \bar p_{ij} .""",
)
def gradients_of_counted_scores():
    u, z, p = U[0], Q @ TABLE.T, counted(SCORES)
    dq, ds, da = gradients(
        lambda q, s, a: np.sum(u * between(q @ a.T, counted(s))), Q, SCORES, TABLE
    )
    n = np.floor(p).astype(int)
    w, bar_z, bar_p = p - n, np.zeros((T, P + 1)), np.zeros((T, S))
    for i, j in np.ndindex(T, S):
        bar_z[i, n[i, j]] += (1 - w[i, j]) * u[i, j]
        bar_z[i, n[i, j] + 1] += w[i, j] * u[i, j]
        if n[i, j] < P - 1:
            bar_p[i, j] = u[i, j] * (z[i, n[i, j] + 1] - z[i, n[i, j]])
    yield dq, np.array([sum(bar_z[i, m] * TABLE[m] for m in range(P)) for i in range(T)])
    yield da, np.array([sum(bar_z[i, m] * Q[i] for i in range(T)) for m in range(P)])
    slope = sigmoid(SCORES) * (1 - sigmoid(SCORES))
    yield ds, np.array([[slope[i, t] * sum(bar_p[i, : t + 1]) for t in range(S)] for i in range(T)])


@equation(r"""\dot y_{nd} = \dot W_{p_n d} .""")
def tangents_of_rows_that_are_read():
    rows, (table, d_table) = [3, 0, 3], RNG.normal(size=(2, 4, E))
    moved = rate(lambda w: w[rows], [table], [d_table])
    for n, d in np.ndindex(len(rows), E):
        yield moved[n, d], d_table[rows[n], d]


@equation(
    r"""\dot B_{hij} = \dot b_{h,\, j - i + T - 1} .""",
    r"""\dot B_{hij} = \dot b_{\text{bucket}(j - i - \text{q\_offset}),\, h} .""",
)
def tangents_of_numbers_for_offsets():
    (offsets, d_offsets), d_buckets = RNG.normal(size=(2, H, T + S - 1)), RNG.normal(size=(6, H))
    by_offset = rate(along_diagonals, [offsets], [d_offsets])
    by_bucket = rate(lambda b: np.moveaxis(b[IN_BUCKET], -1, 0), [BUCKETS], [d_buckets])
    for h, i, j in np.ndindex(H, T, S):
        yield by_offset[h, i, j], d_offsets[h, j - i + T - 1]
        yield by_bucket[h, i, j], d_buckets[bucket(j - i - OFFSET, 6, 5), h]


@equation(
    r"""\dot s'_{ij} = \dot{\vec q}_i \cdot \vec a_c + \vec q_i \cdot \dot{\vec a}_c, \qquad
    c = \operatorname{clip}(j - i, -K, K) ."""
)
def tangent_of_clipped_offsets():
    dq, da = RNG.normal(size=Q.shape), RNG.normal(size=VECTORS.shape)
    moved = rate(shaw, (Q, VECTORS), (dq, da))
    for i, j in np.ndindex(T, T):
        c = min(max(j - i, -LIMIT), LIMIT) + LIMIT
        yield moved[i, j], dq[i] @ VECTORS[c] + Q[i] @ da[c]


@equation(
    r"""\mat M_k = \operatorname{diag}(\mat B_{k\omega_0}, \mat B_{k\omega_1}, \dots), \qquad
    \mat B_\phi = \begin{pmatrix} \cos\phi & \sin\phi \\ -\sin\phi & \cos\phi \end{pmatrix},"""
)
def matrix_of_a_shift():
    k, omega = 3.0, 10000.0 ** (-np.arange(2) / 2)
    m = np.zeros((4, 4))
    for i, phi in enumerate(k * omega):
        block = [[np.cos(phi), np.sin(phi)], [-np.sin(phi), np.cos(phi)]]
        m[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = block
    yield m, sinusoidal_shift(k, 4)


@equation(
    r"""\dot s_{ij} = (\dot{\vec q}_i + \dot{\vec u}) \cdot \vec k_j
    + (\vec q_i + \vec u) \cdot \dot{\vec k}_j
    + (\dot{\vec q}_i + \dot{\vec v}) \cdot \vec r_{j-i}
    + (\vec q_i + \vec v) \cdot \dot{\vec r}_{j-i} ."""
)
def tangent_by_content_and_offset():
    q, k, r, u, v = XL
    dq, dk, dr, du, dv = tangents = [RNG.normal(size=np.shape(a)) for a in XL]
    moved = rate(xl_scores, XL, tangents)
    for i, j in np.ndindex(T, S):
        n = j - i + T - 1
        content = (dq[i] + du) @ k[j] + (q[i] + u) @ dk[j]
        yield moved[i, j], content + (dq[i] + dv) @ r[n] + (q[i] + v) @ dr[n]


@equation(
    r"""\mat R_1 (\vec a + \mathrm i \vec b) = e^{\mathrm i \theta} (\vec a + \mathrm i \vec b)
    \quad\Rightarrow\quad
    \mat R_1 \vec a = \vec a \cos\theta - \vec b \sin\theta, \quad
    \mat R_1 (-\vec b) = -\vec a \sin\theta - \vec b \cos\theta .""",
    r"""\abs{\vec a}^2 - \abs{\vec b}^2 + 2 \mathrm i\, \vec a \cdot \vec b = \vec w^\top \vec w
    = (\mat R_1 \vec w)^\top (\mat R_1 \vec w) = e^{2 \mathrm i \theta}\, \vec w^\top \vec w
    = 0,""",
)
def orthogonal_matrix_rotates_a_plane():
    matrix = np.linalg.qr(RNG.normal(size=(5, 5)))[0]
    values, vectors = np.linalg.eig(matrix)
    n = np.argmax(values.imag)
    w, theta = vectors[:, n], np.angle(values[n])
    a, b = w.real, w.imag
    yield matrix @ (a + 1j * b), np.exp(1j * theta) * (a + 1j * b)
    yield matrix @ a, a * np.cos(theta) - b * np.sin(theta)
    yield matrix @ -b, -a * np.sin(theta) - b * np.cos(theta)
    squares = a @ a - b @ b + 2j * (a @ b)
    yield squares, w @ w, (matrix @ w) @ (matrix @ w), np.exp(2j * theta) * (w @ w), 0
    yield abs(np.exp(2j * theta) - 1) > 1e-3, True


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


@equation(
    r"""B_{ij} + C = \vec\phi_i \cdot \vec\phi_j \quad\Rightarrow\quad
    \frac{e^{\vec q_i \cdot \vec k_j + B_{ij}}}{\sum_m e^{\vec q_i \cdot \vec k_m + B_{im}}}
    = \frac{e^{(\vec q_i, \vec\phi_i) \cdot (\vec k_j, \vec\phi_j)}}
    {\sum_m e^{(\vec q_i, \vec\phi_i) \cdot (\vec k_m, \vec\phi_m)}} ."""
)
def bias_as_features_of_positions():
    n, c, (q, k) = 6, 12.0, RNG.normal(size=(2, 6, E))
    b = -1.3 * np.log(1 + 0.8 * abs(np.subtract.outer(np.arange(n), np.arange(n))))
    phi = np.linalg.cholesky(b + c)  # exists, as the matrix is positive definite
    longer = np.exp(np.hstack([q, phi]) @ np.hstack([k, phi]).T)
    e = np.exp(q @ k.T + b)
    yield b + c, phi @ phi.T
    yield e / e.sum(1, keepdims=True), longer / longer.sum(1, keepdims=True)


TIMES = np.array([0.3, 1.7, 40.0])


def embedded(t, first=False):
    rates = 3.0 * 50.0 ** (-np.arange(4) / (4 - 0.5))
    angle = np.multiply.outer(t, rates)
    waves = [np.sin(angle), np.cos(angle)]
    return np.concatenate(waves[::-1] if first else waves, -1), rates


TIMES_OPTIONS = {"base": 50.0, "shift": 0.5, "scale": 3.0}


@equation(
    r"""\omega_i = c\, b^{-i / (d - s)} , \qquad
    y_i = \sin(\omega_i t) , \qquad y_{d + i} = \cos(\omega_i t) , \qquad i = 0, \dots, d - 1 ."""
)
def waves_of_a_time():
    for first in (False, True):
        got = timestep_embedding(TIMES, 8, cosine_first=first, **TIMES_OPTIONS)
        yield embedded(TIMES, first)[0], got


@equation(
    r"""\pdv{L}{t} = \sum_i \omega_i \bigl( u_i \cos(\omega_i t) - u_{d + i} \sin(\omega_i t)
    \bigr) .""",
    r"""\dot y_i = \omega_i \cos(\omega_i t)\, \dot t , \qquad
    \dot y_{d + i} = -\omega_i \sin(\omega_i t)\, \dot t .""",
)
def derivatives_of_the_waves_of_a_time():
    u, dt, (_, rates) = RNG.normal(size=(3, 8)), RNG.normal(size=3), embedded(TIMES)
    angle = TIMES[:, None] * rates
    by_hand = np.sum(rates * (u[:, :4] * np.cos(angle) - u[:, 4:] * np.sin(angle)), -1)
    (grad,) = gradients(lambda t: np.sum(u * embedded(t)[0]), TIMES)
    yield grad, by_hand, timestep_embedding_vjp(u, TIMES, 8, **TIMES_OPTIONS)
    pushed = np.concatenate([rates * np.cos(angle), -rates * np.sin(angle)], -1) * dt[:, None]
    moved = timestep_embedding_jvp(TIMES, dt, 8, **TIMES_OPTIONS)
    yield rate(lambda t: embedded(t)[0], [TIMES], [dt]), pushed, moved


def features(x, f):
    z = 2 * np.pi * x @ f.T
    return np.concatenate([np.cos(z), np.sin(z)], -1)


@equation(
    r"""y_m = \cos(2 \pi\, \vec f_m \cdot \vec x) , \qquad
    y_{M + m} = \sin(2 \pi\, \vec f_m \cdot \vec x) ."""
)
def features_of_a_point():
    x, f = RNG.normal(size=2), RNG.normal(size=(3, 2))
    angles = [2 * np.pi * row @ x for row in f]
    yield [*np.cos(angles), *np.sin(angles)], fourier_features(x, f)


@equation(
    r"""\vec y(\vec x) \cdot \vec y(\vec x') = \sum_m \cos \bigl( 2 \pi\, \vec f_m \cdot
    (\vec x - \vec x') \bigr) ,"""
)
def product_of_two_features():
    (x, other), f = RNG.normal(size=(2, 2)), RNG.normal(size=(3, 2))
    yield features(x, f) @ features(other, f), np.sum(np.cos(2 * np.pi * f @ (x - other)))


@equation(
    r"""\pdv{L}{\vec x} = \sum_m g_m \vec f_m , \qquad
    \pdv{L}{\vec f_m} = \sum_{\text{points}} g_m \vec x .""",
    r"""\dot y_m = -2 \pi\, y_{M + m}\, \dot z_m , \qquad
    \dot y_{M + m} = 2 \pi\, y_m\, \dot z_m .""",
)
def derivatives_of_fourier_features():
    x, f, u = RNG.normal(size=(4, 2)), RNG.normal(size=(3, 2)), RNG.normal(size=(4, 6))
    dx, df = RNG.normal(size=(4, 2)), RNG.normal(size=(3, 2))
    y = features(x, f)
    g = 2 * np.pi * (u[:, 3:] * y[:, :3] - u[:, :3] * y[:, 3:])
    found = gradients(lambda x, f: np.sum(u * features(x, f)), x, f)
    yield from zip(found, (g @ f, g.T @ x), fourier_features_vjp(u, x, f), strict=True)
    dz = dx @ f.T + x @ df.T
    pushed = 2 * np.pi * np.concatenate([-y[:, 3:] * dz, y[:, :3] * dz], -1)
    yield rate(features, [x, f], [dx, df]), pushed, fourier_features_jvp((x, f), (dx, df))


@equation(
    r"""C_{ti} = m \cos p_{a(i), t}\, \theta_i , \qquad
    S_{ti} = m \sin p_{a(i), t}\, \theta_i ."""
)
def tables_of_several_coordinates():
    p, theta, owner = RNG.normal(size=(3, 4)), RNG.uniform(size=5), [0, 0, 1, 2, 2]
    want = [
        [1.5 * np.cos(p[a, t] * f) for a, f in zip(owner, theta, strict=True)] for t in range(4)
    ]
    cos, sin = rope_tables_multi(p, theta, sections=(2, 1, 2), attention_factor=1.5)
    yield want, cos
    want = [
        [1.5 * np.sin(p[a, t] * f) for a, f in zip(owner, theta, strict=True)] for t in range(4)
    ]
    yield want, sin
    turns = [i % 3 if i < 3 * (2, 1, 2)[i % 3] else 0 for i in range(5)]
    cos, _ = rope_tables_multi(p, theta, sections=(2, 1, 2), interleaved=True)
    yield [[np.cos(p[a, 1] * f) for a, f in zip(turns, theta, strict=True)]], cos[1:2]


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


def log_bucket(offset, m, far):
    if abs(offset) <= m:
        return offset
    steps = math.ceil(math.log(abs(offset) / m) / math.log((far - 1) / m) * (m - 1))
    return int(np.sign(offset)) * (m + steps)


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


@equation(
    r"""s_{ij} = \vec q_i \cdot \vec k_j + \vec q_i \cdot \vec a^k_{r(i, j)}
    + \vec k_j \cdot \vec a^q_{r(i, j)} , \qquad
    r(i, j) = \operatorname{clip}\bigl( \beta(i - j) + \tfrac L2 ,\, 0,\, L - 1 \bigr) .""",
    r"""\beta(\delta) = \operatorname{sign}(\delta) \biggl( m + \biggl\lceil
    \frac{\log (\abs\delta / m)}{\log ((M - 1) / m)}\, (m - 1) \biggr\rceil \biggr) , \qquad
    \abs\delta > m ,""",
)
def scores_of_deberta():
    yield [disentangled(*DEBERTA)], disentangled_scores(*DEBERTA)
    q, k = RNG.normal(size=(2, 1, 40, 2))
    tables = RNG.normal(size=(2, 1, 16, 2))
    told = {"num_buckets": 8, "max_distance": 30}
    want = disentangled(q, k, *tables, beta=lambda offset: log_bucket(offset, 4, 30))
    yield [want], disentangled_scores(q, k, *tables, **told)
    yield log_bucket(29, 4, 30), 7  # the last bucket, 2 m - 1


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
