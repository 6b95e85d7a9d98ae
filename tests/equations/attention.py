"""The displayed equations of dlref.attention."""

import functools
import itertools

import numpy as np
from equations.evaluate import From, Of, Shifted, each, mapped
from equations.ledger import equation, reads
from equations.numeric import gradients, rate

from dlref.attention import (
    AttentionParams,
    attention_entropy,
    attention_rollout,
    attention_scores,
    attention_shares,
    chunk_mask,
    forgetting_bias,
    forgetting_bias_jvp,
    forgetting_bias_vjp,
    merge_attention,
    merge_attention_jvp,
    merge_attention_vjp,
    multi_head_attention,
    recurrent_linear_attention_vjp,
    select_keys,
    tree_mask,
)
from dlref.formulas import attention as formulas
from dlref.formulas.activations import logsumexp, sigmoid, softmax

RNG = np.random.default_rng(0)
T, S, E, V = 3, 4, 5, 2
Q, K, VALUES = RNG.normal(size=(T, E)), RNG.normal(size=(S, E)), RNG.normal(size=(S, V))
QKV = Q, K, VALUES
ONES = np.ones(S)
U = RNG.normal(size=(T, V))  # cotangent of an output
DQ, DK, DVALUES = (RNG.normal(size=x.shape) for x in QKV)


def attend(q, k, v):
    return softmax(q @ k.T / np.sqrt(q.shape[-1])) @ v


def of_attention():
    """Return the environment of attention in one head."""
    scores = Of(formulas.scaled_products, "q", "k")
    env = mapped(formulas.attention, {"q": Q, "k": K, "v": VALUES}, "o", s=scores, E=E, c=E**-0.5)
    return {**env, "p": Of(softmax, "s"), r"\ell": Of(logsumexp, "s")}


A_UNITS, D_K = 3, 6
KEYS = RNG.normal(size=(S, D_K))
W, W_U, A = RNG.normal(size=(A_UNITS, E)), RNG.normal(size=(A_UNITS, D_K)), RNG.normal(size=A_UNITS)
ADDITIVE = Q, KEYS, VALUES, W, W_U, A


@reads(r"s_{ij} = \vec a^\top \tanh(\mat W \vec q_i + \mat U \vec k_j), \qquad p_{ij}…")
def additive_scores_weights_and_averages():
    o = formulas.additive_attention(*ADDITIVE)
    return {"q": Q, "k": KEYS, "v": VALUES, "W": W, "U": W_U, "a": A, "o": o}


@reads(r"d_i = \sum_j p_{ij}\, |j - i - \text{offset}| .")
def distance():
    p = softmax(RNG.normal(size=(T, S)))
    return {"p": p, "d": formulas.attention_distance(p, q_offset=2), "offset": 2}


@equation(
    r"H = -\sum_j p_j \log p_j, \qquad 0 \log 0 = 0 .",
)
def entropy():
    p = np.array([0.2, 0.5, 0.3])
    yield -sum(x * np.log(x) for x in p), attention_entropy(p), attention_entropy([0, *p])


@reads(
    r"\pdv{L}{p_j} = -u\, (\log p_j + 1) .",
    r"\dot H = -\sum_j (\log p_j + 1)\, \dot p_j ,",
)
def derivatives_of_the_entropy():
    return mapped(formulas.attention_entropy, {"p": softmax(B[0])}, "H")


LAYERS, HEADS, SHARE = 3, 2, 0.3
MAPS = softmax(RNG.normal(size=(LAYERS, HEADS, T, T)))


def mixtures(maps):
    return SHARE * np.eye(T) + (1 - SHARE) / HEADS * maps.sum(1)


def rollout(maps):
    first, second, third = mixtures(maps)
    return third @ second @ first


@reads(r"\mat A_l = r\, \mat I + \frac{1 - r}{H} \sum_h \mat P_{lh}, \qquad \mat R = \mat A_L…")
def rollout_of_three_layers():
    given = {"r": SHARE, "I": np.eye(T), "H": HEADS, "L": LAYERS, "P": From(1, MAPS)}
    return {**given, "R": attention_rollout(MAPS, residual=SHARE)}


@reads(r"\dd \mat R = \mat B\, \dd \mat A_l\, \mat C \quad\Rightarrow\quad \pdv{L}{\mat A_l}…")
def rollout_gradient_by_complex_step():
    c, _, b = mixtures(MAPS)  # the middle one of three
    only = np.zeros(MAPS.shape)
    only[1] = RNG.normal(size=MAPS.shape[1:])
    layers = Of(lambda p: From(1, mixtures(p)), "P")
    product = Of(lambda a: a[2] @ a[1] @ a[0], "A")
    u = RNG.normal(size=(T, T))
    given = {"P": From(1, MAPS), "A": layers, "R": product, "B": b, "C": c, "U": u}
    loss = Of(lambda r: np.sum(u * r), "R")
    return {**given, r"\dot P": From(1, only), "L": loss, "r": SHARE, "H": HEADS, "l": 2}


@reads(r"\dot{\mat R}_l = \dot{\mat A}_l \mat R_{l-1} + \mat A_l \dot{\mat R}_{l-1} .")
def rollout_tangent_by_complex_step():
    def products(a):
        return From(0, [np.eye(T), a[0], a[1] @ a[0], a[2] @ a[1] @ a[0]])

    return {"A": From(1, mixtures(MAPS)), "R": Of(products, "A"), "l": range(1, 4)}


@reads(
    r"\pdv{L}{p_{ij}} &= \vec u_i \cdot \vec v_j, \qquad \pdv{L}{\vec v_j}…",
    r"\dot{\vec h}_{ij} &= (1 - \vec h_{ij}^2) \odot (\dot{\mat W} \vec q_i + \mat W…",
)
def of_additive():
    """Return the environment of additive attention."""
    names = "q", "k", "W", "U", "a"
    env = {"q": Q, "k": KEYS, "v": VALUES, "W": W, "U": W_U, "a": A, "u": U}
    h = Of(lambda q, k, w, u, a: np.tanh((q @ w.T)[:, None] + (k @ u.T)[None]), *names)
    env |= {"h": h, "s": Of(lambda h, a: h @ a, "h", "a"), "p": Of(softmax, "s")}
    return {**env, "o": Of(np.matmul, "p", "v"), "L": Of(lambda o: np.sum(U * o), "o")}


SCALE, CAP = 0.8, 1.5
B = RNG.normal(size=(T, S))


@reads(
    r"r_{ij} = (1 - t_{ij}^2)\, u_{ij}, \qquad \pdv{L}{\vec q_i} = c \sum_j r_{ij} \vec k_j…",
    r"\dot s_{ij} = (1 - t_{ij}^2)\, c\, (\dot{\vec q}_i \cdot \vec k_j + \vec q_i \cdot…",
)
def of_scores():
    """Return the environment of scores with a cap and a bias."""
    f = lambda q, k, b: formulas.attention_scores(q, k, bias=b, scale=SCALE, softcap=CAP)  # noqa: E731
    t = Of(lambda q, k: np.tanh(SCALE * (q @ k.T) / CAP), "q", "k")
    return mapped(f, {"q": Q, "k": K, "b": B}, "s", t=t, c=SCALE)


@reads(r"s_{ij} = a \tanh \Bigl( \frac{c\, \vec q_i \cdot \vec k_j}{a} \Bigr) + b_{ij}…")
def scores_with_cap_and_bias():
    given = {"q": Q, "k": K, "a": CAP, "c": SCALE, "b": B}
    options = {"bias": B, "scale": SCALE, "softcap": CAP}
    masked = attention_scores(Q, K, mask=np.zeros((T, S), bool), **options)
    both = attention_scores(Q, K, **options), masked
    return [{**given, "branch": n, "s": s} for n, s in enumerate(both)]


@reads(r"p_{ij} = \frac{e^{s_{ij}}}{e^{\sigma} + \sum_m e^{s_{im}}}")
def weights_with_a_sink():
    s = Q @ K.T / np.sqrt(E)
    return {
        "s": s,
        r"\sigma": 0.4,
        "p": formulas.attention_weights(Q[None], K[None], sink=np.array([0.4]))[0],
    }


@reads(r"d_{ij} = p_{ij} \Bigl( u_{ij} - \sum_m p_{im} u_{im} \Bigr),")
def softmax_gradient_by_complex_step():
    env = mapped(softmax, {"s": B}, "p")
    (d,) = gradients(lambda s: np.sum(env["u"] * softmax(s)), B)
    return {**env, "d": d}


@reads(r"\dot p_{ij} = p_{ij} \Bigl( \dot s_{ij} - \sum_m p_{im} \dot s_{im} \Bigr) .")
def softmax_tangent_by_complex_step():
    return mapped(softmax, {"s": B}, "p")


def phi(x):
    return np.where(x.real > 0, x + 1, np.exp(x))  # ELU + 1


@reads(
    r"\vec g_i = \Bigl( \frac{\vec u_i}{z_i},\; -\frac{\vec u_i \cdot \vec o_i}{z_i} \Bigr),",
    r"\pdv{L}{\vec a_i} = \sum_j (\vec g_i \cdot \vec c_j)\, \vec b_j, \qquad \pdv{L}{\vec b_j}…",
    r"(\dot{\vec n}_i, \dot z_i) = \sum_j \bigl( (\dot{\vec a}_i \cdot \vec b_j + \vec a_i…",
    r"\pdv{L}{\vec q_i} = \phi'(\vec q_i) \odot \pdv{L}{\vec a_i}, \qquad \pdv{L}{\vec k_j}…",
    r"\dot{\vec a}_i = \phi'(\vec q_i) \odot \dot{\vec q}_i, \qquad \dot{\vec b}_j…",
)
def of_features():
    """Return the environment of linear attention, whose values have a column of ones."""
    env = {"q": Q, "k": K, "v": VALUES, "a": Of(phi, "q"), "b": Of(phi, "k"), r"\phi": phi}
    env |= {"z": Of(lambda a, b: np.sum(a @ b.T, axis=1), "a", "b")}
    env |= {
        "n": Of(lambda a, b, v: a @ b.T @ v, "a", "b", "v"),
        "c": np.column_stack([VALUES, ONES]),
    }
    env |= {"o": Of(formulas.linear_attention, "q", "k", "v"), "u": U}
    loss = lambda a, b, c: np.sum(U * ((a @ b.T @ c)[:, :V] / (a @ b.T @ c)[:, V:]))  # noqa: E731
    return {**env, "L": Of(loss, "a", "b", "c")}


@reads(r"\vec o_i = \frac{\sum_j \bigl( \phi(\vec q_i) \cdot \phi(\vec k_j) \bigr)\, \vec v_j}…")
def linear_attention_in_both_orders():
    o = formulas.linear_attention(Q, K, VALUES)
    return {"q": Q, "k": K, "v": VALUES, r"\phi": phi, "o": o}


@reads(r"\vec y_i = \vec b_O + \sum_h \sum_j p_{hij}\, \mat W_O^{(h)} \mat W_V^{(h)} \vec x_j ,")
def sum_over_heads():
    x, w = RNG.normal(size=(T, 6)), RNG.normal(size=(3, 2, 4, 6))
    w_o, b_o = RNG.normal(size=(5, 8)), RNG.normal(size=5)
    params = AttentionParams(*w.reshape(3, 8, 6), w_o, None, None, None, b_o)
    q, k = np.einsum("hed,id->hie", w[0], x), np.einsum("hed,id->hie", w[1], x)
    given = {"x": x, "p": softmax(q @ k.swapaxes(1, 2) / 2), "W_V": w[2], "b_O": b_o}
    y = formulas.multi_head_attention(x, x, params, num_heads=2)
    return {**given, "W_O": np.array(np.split(w_o, 2, axis=1)), "y": y}


@reads(r"\vec q_{hi} = \mat W_Q^{(h)} \vec x_i + \vec b_Q^{(h)}, \qquad \vec o_{hi}…")
def heads_side_by_side():
    heads, width, out = 2, 4, 5
    x = RNG.normal(size=(T, 6))
    (w_q, w_k, w_v), (b_q, b_k, b_v) = RNG.normal(size=(3, 2, 4, 6)), RNG.normal(size=(3, 2, 4))
    w_o, b_o = RNG.normal(size=(out, heads * width)), RNG.normal(size=out)
    q, k, v = (
        np.einsum("hed,id->hie", w, x) + b[:, None] for w, b in ((w_q, b_q), (w_k, b_k), (w_v, b_v))
    )
    found = {"q": q, "v": v, "p": softmax(q @ k.swapaxes(1, 2) / 2), "W_Q": w_q, "b_Q": b_q}
    merged = [m.reshape(heads * width, 6) for m in (w_q, w_k, w_v)]
    params = AttentionParams(*merged, w_o, b_q.ravel(), b_k.ravel(), b_v.ravel(), b_o)
    y = multi_head_attention(x, x, params, num_heads=heads)
    given = {"x": x, "W_O": w_o, "b_O": b_o, "y": y, "H": heads}
    return {**given, **{name: From(1, value) for name, value in found.items()}}


FORM = RNG.normal(size=(E, D_K))


@reads(r"s_{ij} = c\, \vec q_i^\top \mat W \vec k_j, \qquad \vec o_i…")
def bilinear_scores_and_averages():
    f = formulas.multiplicative_attention
    env = {"q": Q, "k": KEYS, "v": VALUES, "W": FORM}
    return [{**env, "c": c, "o": f(Q, KEYS, VALUES, FORM, scale=c)} for c in (1.0, 0.3)]


@reads(r"\pdv{L}{\vec q_i} = \mat W \vec g_i, \qquad \pdv{L}{\mat W}…")
def bilinear_gradients_by_complex_step():
    f = lambda q, w: formulas.multiplicative_attention(q, KEYS, VALUES, w)  # noqa: E731
    env = mapped(f, {"q": Q, "W": FORM}, "o")
    of_projected = lambda r: np.sum(env["u"] * (softmax(r @ KEYS.T) @ VALUES))  # noqa: E731
    return {**env, "g": gradients(of_projected, Q @ FORM)[0]}


STEPS = 4
MEMORY = (
    RNG.normal(size=(STEPS, E)) / 2,
    RNG.normal(size=(STEPS, E)) / 2,
    RNG.normal(size=(STEPS, V)),
    -RNG.uniform(size=(STEPS, E)),
    RNG.uniform(size=STEPS),
    RNG.normal(size=(E, V)),
)


def remember(q, k, v, g, beta, state):
    """Return all outputs and states, and the states that had faded."""
    outputs, states, faded = [], [state], []
    for t in range(STEPS):
        faded.append(np.diag(np.exp(g[t])) @ states[-1])
        w = v[t] if beta is None else beta[t] * (v[t] - faded[-1].T @ k[t])
        states.append(faded[-1] + np.outer(k[t], w))
        outputs.append(SCALE * states[-1].T @ q[t])
    return np.array(outputs), np.array(states), np.array(faded)


@reads(r"\mat S'_t &= \operatorname{diag}(e^{\vec g_t})\, \mat S_{t-1} && \text{(forget)}…")
def memory_that_forgets_and_is_corrected():
    return [of_memory(False, 0), of_memory(True, 1)]


@equation(
    r"\mat D &\leftarrow \mat D + c\, \vec q_t \vec u_t^\top, \qquad \pdv{L}{\vec q_t} = c\, "
    r"\mat S_t \vec u_t \\ \vec d_t &= \mat D^\top \vec k_t, \qquad \pdv{L}{\vec k_t} = \mat D "
    r"\vec w_t, \qquad \pdv{L}{\vec v_t} = \beta_t \vec d_t \\ \pdv{L}{\beta_t} &= \vec d_t "
    r"\cdot (\vec v_t - \mat S_t'^\top \vec k_t), \qquad \pdv{L}{\vec k_t} \mathrel{-}= "
    r"\beta_t \mat S'_t \vec d_t, \qquad \mat D \leftarrow \mat D - \beta_t \vec k_t \vec "
    r"d_t^\top \\ \pdv{L}{g_{te}} &= e^{g_{te}} \sum_v D_{ev} S_{t-1,ev}, \qquad \mat D "
    r"\leftarrow \operatorname{diag}(e^{\vec g_t})\, \mat D ,",
)
def memory_gradients_by_complex_step():
    u, last = RNG.normal(size=(STEPS, V)), RNG.normal(size=(E, V))
    q, k, v, g, beta, _ = MEMORY

    def loss(*operands):
        outputs, states, _ = remember(*operands)
        return np.sum(u * outputs) + np.sum(last * states[-1])

    _, states, faded = remember(*MEMORY)
    d_state, result = last, [np.zeros_like(x) for x in MEMORY]
    dq, dk, dv, dg, db, _ = result
    for t in reversed(range(STEPS)):
        w = beta[t] * (v[t] - faded[t].T @ k[t])
        d_state = d_state + SCALE * np.outer(q[t], u[t])
        dq[t] = SCALE * states[t + 1] @ u[t]
        d = d_state.T @ k[t]
        dk[t] = d_state @ w
        dv[t] = beta[t] * d
        db[t] = d @ (v[t] - faded[t].T @ k[t])
        dk[t] -= beta[t] * faded[t] @ d
        d_state = d_state - beta[t] * np.outer(k[t], d)
        dg[t] = np.exp(g[t]) * np.sum(d_state * states[t], axis=1)
        d_state = np.diag(np.exp(g[t])) @ d_state
    yield from zip(gradients(loss, *MEMORY), [dq, dk, dv, dg, db, d_state], strict=True)


def of_memory(rule, n=0):
    """Return the environment of a memory, with a rule of what to write."""
    q, k, v, g, beta, state = MEMORY
    rule = beta if rule else None
    states, out = [state], None
    for t in range(1, STEPS + 1):
        steps = [a[:t] for a in (q, k, v, g)] + [None if rule is None else rule[:t]]
        out, last = formulas.recurrent_linear_attention(*steps, state, scale=SCALE)
        states.append(last)
    arrays = {"q": q, "k": k, "v": v, "g": g, r"\beta": beta, "o": out}
    env = {name: From(1, a) for name, a in arrays.items()}
    return {**env, "S": From(0, states), "c": SCALE, "t": range(1, STEPS + 1), "branch": n}


ERASE = RNG.normal(size=(2, STEPS, E)) / 2


def erasing(q, k, v, g, state, a, b):
    """Return all outputs, all states and the answers of a memory with own erase keys."""
    outputs, states, answers = [], [state], []
    for t in range(STEPS):
        answers.append(states[-1].T @ a[t])
        transition = np.diag(np.exp(g[t])) + np.outer(b[t], a[t])
        states.append(transition @ states[-1] + np.outer(k[t], v[t]))
        outputs.append(SCALE * states[-1].T @ q[t])
    return np.array(outputs), np.array(states), np.array(answers)


@reads(r"\vec r_t &= \mat S_{t-1}^\top \vec a_t \\ \mat S_t…")
def memory_with_own_erase_keys():
    q, k, v, g, _, state = MEMORY
    a, b = ERASE
    states = [state]
    for t in range(STEPS):
        options = {"state": state, "erase": ERASE[:, : t + 1]}
        states.append(
            formulas.recurrent_linear_attention(*(x[: t + 1] for x in (q, k, v, g)), **options)[1]
        )
    given = {"k": From(1, k), "v": From(1, v), "g": From(1, g), "a": From(1, a), "b": From(1, b)}
    return {**given, "S": np.array(states), "t": range(1, STEPS + 1)}


@equation(
    r"(\mat I - \mat H)\, \mat R = \bar{\mat A}\, \mat S_0 + \mat A \mat V .",
)
def answers_of_one_chunk():
    q, k, v, g, _, state = MEMORY
    a, b = ERASE
    outputs, _, answers = erasing(q, k, v, g, state, a, b)
    c = np.vstack([np.zeros(E), np.cumsum(g, axis=0)])  # from c_0 on

    def pairs(x):
        return np.array(
            [
                [(j < t) * np.sum(a[t] * np.exp(c[t] - c[j + 1]) * x[j]) for j in range(STEPS)]
                for t in range(STEPS)
            ]
        )

    right = (np.exp(c[:STEPS]) * a) @ state + pairs(k) @ v
    yield (np.eye(STEPS) - pairs(b)) @ answers, right
    got = formulas.recurrent_linear_attention(q, k, v, g, None, state, erase=(a, b), scale=SCALE)
    yield outputs, got[0]


@equation(
    r"\vec z_t &= \mat D^\top \vec b_t, \qquad \pdv{L}{\vec k_t} = \mat D \vec v_t, \qquad "
    r"\pdv{L}{\vec v_t} = \mat D^\top \vec k_t \\ \pdv{L}{\vec b_t} &= \mat D \vec r_t, \qquad "
    r"\pdv{L}{\vec a_t} = \mat S_{t-1} \vec z_t ,"
)
def erasure_gradients_by_complex_step():
    u, d_state = RNG.normal(size=(STEPS, V)), RNG.normal(size=(E, V))
    q, k, v, g, _, state = MEMORY
    a, b = ERASE

    def loss(*operands):
        outputs, states, _ = erasing(*operands)
        return np.sum(u * outputs) + np.sum(d_state * states[-1])

    _, dk, dv, dg, dstate, da, db = gradients(loss, q, k, v, g, state, a, b)
    _, states, answers = erasing(q, k, v, g, state, a, b)
    for t in reversed(range(STEPS)):
        d_state = d_state + SCALE * np.outer(q[t], u[t])
        z = d_state.T @ b[t]
        yield dk[t], d_state @ v[t]
        yield dv[t], d_state.T @ k[t]
        yield db[t], d_state @ answers[t]
        yield da[t], states[t] @ z
        yield dg[t], np.exp(g[t]) * np.sum(d_state * states[t], axis=1)
        d_state = np.diag(np.exp(g[t])) @ d_state + np.outer(a[t], z)
    yield dstate, d_state


class Chunk:
    """All steps of MEMORY as one chunk, pair by pair."""

    def __init__(self, q, k, v, g, beta, state):
        self.sums = np.cumsum(g, axis=0)
        steps = range(STEPS)
        kept = np.exp(self.sums[:, None] - self.sums)  # of step t from step j, by channel
        self.A = np.array(
            [[(j < t) * np.sum(k[t] * kept[t, j] * k[j]) for j in steps] for t in steps]
        )
        self.P = np.array(
            [[(j <= t) * np.sum(q[t] * kept[t, j] * k[j]) for j in steps] for t in steps]
        )
        self.asked, self.read = k * np.exp(self.sums), q * np.exp(self.sums)
        self.written = k * np.exp(self.sums[-1] - self.sums)
        self.B, self.right = np.diag(beta), v - self.asked @ state
        self.W = np.linalg.solve(np.eye(STEPS) + self.B @ self.A, self.B @ self.right)


@reads(
    r"\mat S_t = \operatorname{diag}(e^{\vec c_t})\, \mat S_0 + \sum_{j \le t}…",
    r"\vec w_t = \beta_t \Bigl( \vec v_t - \mat S_0^\top (e^{\vec c_t} \odot \vec k_t) -…",
    r"(\mat I + \mat B \mat A)\, \mat W = \mat B\, (\mat V - \tilde{\mat K} \mat S_0) .",
    r"\mat O = c\, (\tilde{\mat Q} \mat S_0 + \mat P \mat W) , \qquad \mat S_C…",
)
def memory_in_one_chunk():
    _, k, v, _, beta, _ = MEMORY
    _, states, faded = remember(*MEMORY)
    at = Chunk(*MEMORY)
    w = np.array([beta[t] * (v[t] - faded[t].T @ k[t]) for t in range(STEPS)])
    outputs, _ = formulas.recurrent_linear_attention(*MEMORY, scale=SCALE)
    rows = {r"\vec c": at.sums, "k": k, "v": v, "w": w, r"\beta": beta}
    env = {name: From(1, a) for name, a in rows.items()}
    env |= {"S": From(0, states), "A": Shifted([1, 1], at.A), "t": range(1, STEPS + 1), "C": STEPS}
    env["c"] = SCALE
    wide = {r"\mat A": at.A, r"\mat B": at.B, r"\mat W": w, r"\mat V": v, r"\mat I": np.eye(STEPS)}
    wide |= {r"\tilde{\mat K}": at.asked, r"\tilde{\mat Q}": at.read, r"\hat{\mat K}": at.written}
    return {**env, **wide, r"\mat P": at.P, r"\mat O": outputs}


@equation(
    r"""\pdv{L}{\mat W} = c\, \mat P^\top \mat U + \hat{\mat K} \mat D , \qquad
    \mat Z = (\mat I + \mat B \mat A)^{-\top} \pdv{L}{\mat W} , \qquad
    \pdv{L}{\mat V} = \mat B \mat Z .""",
    r"""\pdv{L}{\beta_t} &= \vec z_t \cdot (\mat R - \mat A \mat W)_t , \qquad
    \pdv{L}{\mat A} = -\mat B \mat Z \mat W^\top , \qquad
    \pdv{L}{\mat P} = c\, \mat U \mat W^\top \\
    \pdv{L}{\tilde{\mat K}} &= -\mat B \mat Z \mat S_0^\top , \qquad
    \pdv{L}{\tilde{\mat Q}} = c\, \mat U \mat S_0^\top , \qquad
    \pdv{L}{\hat{\mat K}} = \mat W \mat D^\top \\
    \pdv{L}{\mat S_0} &= \operatorname{diag}(e^{\vec c_C})\, \mat D
    + c\, \tilde{\mat Q}^\top \mat U - \tilde{\mat K}^\top \mat B \mat Z ,""",
)
def memory_gradients_in_one_chunk():
    u, d = RNG.normal(size=(STEPS, V)), RNG.normal(size=(E, V))
    _, _, v, _, beta, state = MEMORY
    at = Chunk(*MEMORY)
    kept = np.exp(at.sums[-1])

    def solved(v, beta, A, asked, state):
        right = beta[:, None] * (v - asked @ state)
        return np.linalg.solve(np.eye(STEPS) + beta[:, None] * A, right)

    def of_rows(w, P, read, written, state):
        last = kept[:, None] * state + written.T @ w
        return np.sum(u * SCALE * (read @ state + P @ w)) + np.sum(d * last)

    def loss(v, beta, A, asked, P, read, written, state):
        return of_rows(solved(v, beta, A, asked, state), P, read, written, state)

    dw = SCALE * at.P.T @ u + at.written @ d
    fixed = at.P, at.read, at.written, state
    yield gradients(lambda w: of_rows(w, *fixed), at.W)[0], dw
    z = np.linalg.solve((np.eye(STEPS) + at.B @ at.A).T, dw)
    found = gradients(loss, v, beta, at.A, at.asked, at.P, at.read, at.written, state)
    below, on = np.tril(np.ones((STEPS, STEPS)), -1), np.tril(np.ones((STEPS, STEPS)))
    yield found[0], at.B @ z
    yield found[1], [z[t] @ (at.right - at.A @ at.W)[t] for t in range(STEPS)]
    yield below * found[2], below * (-at.B @ z @ at.W.T)
    yield found[3], -at.B @ z @ state.T
    yield on * found[4], on * (SCALE * u @ at.W.T)
    yield found[5], SCALE * u @ state.T
    yield found[6], at.W @ d.T
    by_hand = np.diag(kept) @ d + SCALE * at.read.T @ u - at.asked.T @ at.B @ z
    yield found[7], by_hand
    got = recurrent_linear_attention_vjp((u, d), *MEMORY, scale=SCALE, chunk=STEPS)
    yield at.B @ z, got[2]
    yield found[1], got[4]
    yield by_hand, got[5]


@reads(r"\dot{\mat S}'_t &= \operatorname{diag}(e^{\vec g_t}) (\dot{\mat S}_{t-1} +…")
def memory_tangents_by_complex_step():
    names = "q", "k", "v", "g", r"\beta", "S_0"
    inputs = {name: From(1, a) for name, a in zip(names[:5], MEMORY, strict=False)}

    def part(n, start):
        return Of(lambda *a: From(start, remember(*a)[n]), *names)

    return {
        **inputs,
        "S_0": MEMORY[5],
        "o": part(0, 1),
        "S": part(1, 0),
        "S'": part(2, 1),
        "w": Of(
            lambda v, b, k, s: From(1, b[:, None] * (v - np.einsum("tev,te->tv", s, k))),
            "v",
            r"\beta",
            "k",
            "S'",
        ),
        "c": SCALE,
        "t": range(1, STEPS + 1),
    }


@reads(r"y_{h} = x_{\lfloor h / n \rfloor} .")
def heads_side_by_side_copied():
    x = RNG.normal(size=(2, S, E))
    return {"x": x, "n": 3, "y": formulas.repeat_kv(x, 3)}


@reads(r"s_{ij} = \frac{\vec q_i \cdot \vec k_j}{\sqrt E}, \qquad p_{ij}…")
def scores_weights_and_averages():
    return {"q": Q, "k": K, "v": VALUES, "E": E, "o": formulas.attention(*QKV)}


@equation(
    r"z \leftarrow e^{m - m'} z + \sum_{j\ \text{new}} e^{s_j - m'}, \qquad \vec a \leftarrow "
    r"e^{m - m'} \vec a + \sum_{j\ \text{new}} e^{s_j - m'} \vec v_j ,",
)
def row_taken_in_two_tiles():
    s, v = RNG.normal(size=2 * S), RNG.normal(size=(2 * S, V))
    s[S] = 5  # the second tile has a larger score
    m, m_new, new = s[:S].max(), s.max(), slice(S, None)
    z, a = np.exp(s[:S] - m).sum(), np.exp(s[:S] - m) @ v[:S]
    z = np.exp(m - m_new) * z + np.exp(s[new] - m_new).sum()
    a = np.exp(m - m_new) * a + np.exp(s[new] - m_new) @ v[new]
    yield z, np.sum(np.exp(s - m_new))
    yield a, np.exp(s - m_new) @ v
    yield a / z, softmax(s) @ v


@reads(r"d_{ij} = p_{ij} \Bigl( w_{ij} - \sum_m p_{im} w_{im} \Bigr) .")
def gradient_of_scores_by_complex_step():
    (w,) = gradients(lambda p: np.sum(U * (p @ VALUES)), softmax(B))
    (d,) = gradients(lambda s: np.sum(U * (softmax(s) @ VALUES)), B)
    return {"p": softmax(B), "w": w, "d": d}


@reads(r"\sum_m p_{im} w_{im} = \sum_m p_{im}\, \vec u_i \cdot \vec v_m…")
def the_sum_needs_no_weights():
    (w,) = gradients(lambda p: np.sum(U * (p @ VALUES)), softmax(B))
    o = softmax(B) @ VALUES
    return {"p": softmax(B), "w": w, "u": U, "v": VALUES, "o": o, "D": np.sum(U * o, axis=1)}


@reads(r"d_{ij} = p_{ij} (w_{ij} - D_i + u^\ell_i), \qquad p_{ij} = e^{s_{ij} - \ell_i} .")
def gradient_of_scores_with_log_sum_exp():
    cotangent, o = RNG.normal(size=T), softmax(B) @ VALUES
    loss = lambda s: np.sum(U * (softmax(s) @ VALUES)) + np.sum(cotangent * logsumexp(s))  # noqa: E731
    given = {"s": B, "p": softmax(B), "w": U @ VALUES.T, "D": np.sum(U * o, axis=1)}
    return {**given, r"\ell": logsumexp(B), r"u^\ell": cotangent, "d": gradients(loss, B)[0]}


@reads(r"\pdv{L}{\vec q_i} = c \sum_j d_{ij} \vec k_j, \qquad \pdv{L}{\vec k_j}…")
def gradients_of_queries_and_keys():
    env = of_attention()
    s = Q @ K.T / np.sqrt(E)
    return {**env, "d": gradients(lambda s: np.sum(env["u"] * (softmax(s) @ VALUES)), s)[0]}


@reads(r"\dot\ell_i = \mu_i, \qquad \dot{\vec o}_i…")
def attention_tangents_by_complex_step():
    s, ds = Q @ K.T / np.sqrt(E), (DQ @ K.T + Q @ DK.T) / np.sqrt(E)
    moved = {r"\dot q": DQ, r"\dot k": DK, r"\mu": np.sum(softmax(s) * ds, axis=1)}
    return {**of_attention(), **moved}


@reads(r"\mat O = \operatorname{softmax} \Bigl( \frac{\mat Q \mat K^\top}{\sqrt E} \Bigr) \mat V .")
def attention_in_matrices():
    names = {r"\mat Q": Q, r"\mat K": K, r"\mat V": VALUES, "E": E}
    return {**names, r"\mat O": formulas.attention(*QKV)}


# Statistics, masks and copies: linear maps

OFFSET = 1
P, DP = RNG.normal(size=(2, T, S))


@reads(
    r"\pdv{L}{p_{ij}} = u_i\, |j - i - \text{offset}| .",
    r"\dot d_i = \sum_j \dot p_{ij}\, |j - i - \text{offset}| .",
)
def distance_derivatives_by_complex_step():
    f = functools.partial(formulas.attention_distance, q_offset=OFFSET)
    return mapped(f, {"p": P}, "d", offset=OFFSET)


def shares(p, offset=OFFSET):
    """Return three weights of each query, 0 where there is no key."""
    keys = [(0, i + offset - 1, i + offset) for i in range(T)]
    return np.array([[p[i, j] if 0 <= j < S else 0 * p[i, 0] for j in keys[i]] for i in range(T)])


@reads(r"\vec a_i = \bigl( p_{i, 0},\; p_{i,\, i + o - 1},\; p_{i,\, i + o} \bigr), \qquad o…")
def shares_of_three_keys():
    found = [{"a": attention_shares(P, q_offset=o), "o": o, "offset": o} for o in (0, OFFSET)]
    return [{**shares, "p": P, "i": range(1, min(T, S - shares["o"]))} for shares in found]


@reads(r"\pdv{L}{p_{ij}} = u_{i1}\, [j = 0] + u_{i2}\, [j = i + o - 1] + u_{i3}\, [j = i + o] .")
def gradient_of_shares():
    env = mapped(shares, {"p": P}, "a", o=OFFSET)
    return {**env, "u": Shifted([0, 1], env["u"])}


@reads(r"\dot{\vec a}_i = \bigl( \dot p_{i, 0},\; \dot p_{i,\, i + o - 1},\; \dot p_{i,\, i + o}…")
def tangent_of_shares():
    return {"p": From(0, P, outside=0), "a": Of(shares, "p"), "o": OFFSET, "i": range(T)}


@reads(r"""M_{ij} = [\, j \le i + \text{offset} \,] .""")
def mask_of_the_past():
    return {"M": formulas.causal_mask(T, S, q_offset=OFFSET), "offset": OFFSET}


@reads(r"""M_{ij} = [\, -\text{left} \le j - (i + \text{offset}) \le \text{right} \,] .""")
def mask_of_a_window():
    M = formulas.window_mask(T, S, left=1, right=2, q_offset=OFFSET)
    return {"M": M, "offset": OFFSET, "left": 1, "right": 2}


@reads(r"""M_{n, 1, 1, j} = [\, j < \ell_n \,], \qquad j = 0, \dots, S - 1 .""")
def mask_of_padding():
    lengths = np.array([0, 2, 4])
    M = Shifted([0, 1, 1, 0], formulas.padding_mask(lengths, S))
    return {"M": M, r"\ell": lengths, "S": S}


@reads(
    r"\pdv{L}{x_h} = \sum_{m=0}^{n-1} u_{nh + m} .",
    r"\dot y_h = \dot x_{\lfloor h / n \rfloor} .",
)
def derivatives_of_repeated_heads():
    f = functools.partial(formulas.repeat_kv, n=3)
    return mapped(f, {"x": RNG.normal(size=(2, S, E))}, n=3)


# Chains of projections

WIDTH, N_HEADS = 4, 2  # of a head, and their number
TOKENS = RNG.normal(size=(T, 6))
PROJECTIONS = (*RNG.normal(size=(3, N_HEADS * WIDTH, 6)), RNG.normal(size=(5, N_HEADS * WIDTH)))
BIASES = *RNG.normal(size=(3, N_HEADS * WIDTH)), RNG.normal(size=5)
SELF = TOKENS, *PROJECTIONS, *BIASES
NOTHING = np.zeros((T, N_HEADS * WIDTH))


def turn(x):
    """Rotate the first two channels of each head by the position."""
    rows = []
    for i, row in enumerate(x):
        c, s = np.cos(i), np.sin(i)
        plane = np.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
        rows.append((row.reshape(-1, WIDTH) @ plane.T).ravel())
    return np.array(rows)


def heads_of(q, k, v):
    """Attend per head, and put the outputs side by side."""
    parts = zip(*(np.split(a, N_HEADS, axis=1) for a in (q, k, v)), strict=True)
    return np.concatenate([attend(*part) for part in parts], axis=1)


def project(x, w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o, bumps=(NOTHING,) * 4, rotated=NOTHING):
    """Return queries, outputs of the heads and the result; bumps of q, k, v and o."""
    q, k, v = x @ w_q.T + b_q + bumps[0], x @ w_k.T + b_k + bumps[1], x @ w_v.T + b_v + bumps[2]
    o = heads_of(turn(q) + rotated, turn(k), v) + bumps[3]
    return q, o, o @ w_o.T + b_o


@reads(r"\pdv{L}{\mat W_O} = \sum_i \vec u_i\, \vec o_i^\top, \qquad \pdv{L}{\vec b_O}…")
def gradients_of_the_last_projection():
    inputs = {"o": project(*SELF)[1], "W_O": PROJECTIONS[3], "b_O": BIASES[3]}
    return mapped(lambda o, w, b: o @ w.T + b, inputs)


@reads(r"\pdv{L}{\mat W_Q} &= \sum_i \vec g_i\, \vec x_i^\top, \qquad \pdv{L}{\vec b_Q}…")
def gradients_of_the_first_projections():
    u = RNG.normal(size=(T, 5))
    names = "x", "W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O"
    loss = lambda *operands, **bumps: np.sum(u * project(*operands, **bumps)[2])  # noqa: E731
    g = gradients(lambda *b: loss(*SELF, bumps=b), *(NOTHING,) * 4)
    env = dict(zip(names, SELF, strict=True))
    return {**env, "L": Of(loss, *names), "g": g[0], "g^k": g[1], "g^v": g[2]}


@equation(r"""\vec g_{hi} = \mat R_i^\top \pdv{L}{(\mat R_i \vec q_{hi})} .""")
def chain_of_gradients_by_complex_step():
    u, (w_q, w_k, w_v, w_o) = RNG.normal(size=(T, 5)), PROJECTIONS

    def loss(*operands, **bumps):
        return np.sum(u * project(*operands, **bumps)[2])

    dx, dw_q, *_, dw_o, db_q, _, _, db_o = gradients(loss, *SELF)
    g_q, g_k, g_v, d_o = gradients(lambda *b: loss(*SELF, bumps=b), *(NOTHING,) * 4)
    o = project(*SELF)[1]
    yield dw_o, sum(np.outer(u[i], o[i]) for i in range(T))
    yield db_o, sum(u)
    yield d_o, np.array([w_o.T @ u[i] for i in range(T)])
    of_rotated = gradients(lambda b: loss(*SELF, rotated=b), NOTHING)[0]
    for i in range(T):
        columns = [turn(np.eye(N_HEADS * WIDTH)[[n] * T])[i] for n in range(N_HEADS * WIDTH)]
        yield g_q[i], np.array(columns) @ of_rotated[i]  # rows are the transposed rotation
    yield dw_q, sum(np.outer(g_q[i], TOKENS[i]) for i in range(T))
    yield db_q, sum(g_q)
    yield dx, np.array([w_q.T @ g_q[i] + w_k.T @ g_k[i] + w_v.T @ g_v[i] for i in range(T)])


@reads(r"\dd \vec q_{hi} = \mat W_Q^{(h)}\, \dd \vec x_i + \dd \mat W_Q^{(h)}\, \vec x_i + \dd…")
def differentials_of_the_projections():
    x, w = TOKENS, PROJECTIONS[0].reshape(N_HEADS, WIDTH, 6)
    q = Of(lambda x, w, b: np.einsum("hed,id->hie", w, x) + b[:, None], "x", "W_Q", "b_Q")
    y = Of(lambda o, w, b: o @ w.T + b, "o", "W_O", "b_O")
    last = {"o": project(*SELF)[1], "W_O": PROJECTIONS[3], "b_O": BIASES[3]}
    return {"x": x, "W_Q": w, "b_Q": BIASES[0].reshape(N_HEADS, WIDTH), "q": q, "y": y, **last}


W_GATE, B_GATE = RNG.normal(size=(N_HEADS * WIDTH, 6)), RNG.normal(size=N_HEADS * WIDTH)
Q_NORM, K_NORM = RNG.normal(size=(2, WIDTH))
SHIFT, NORM_EPS = 0.4, 0.05


def logistic(x):
    return 1 / (1 + np.exp(-x))


def normed_rows(x, w):
    """Normalize each head of rows, by the displayed formula."""
    parts = [
        (w + SHIFT) * part / np.sqrt(np.sum(part**2, axis=1, keepdims=True) / WIDTH + NORM_EPS)
        for part in np.split(x, N_HEADS, axis=1)
    ]
    return np.concatenate(parts, axis=1)


def whole(x, w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o, q_norm, k_norm, w_gate, b_gate, **bumps):
    """Return the result with norms and a gate; bumps of k, of normed k, of o and of z."""
    q, k, v = x @ w_q.T + b_q, x @ w_k.T + b_k + bumps.get("k", 0), x @ w_v.T + b_v
    normed = normed_rows(k, k_norm) + bumps.get("normed", 0)
    o = heads_of(turn(normed_rows(q, q_norm)), turn(normed), v) + bumps.get("o", 0)
    z = x @ w_gate.T + b_gate + bumps.get("z", 0)
    return o, z, (logistic(z) * o) @ w_o.T + b_o


ALL = *SELF, Q_NORM, K_NORM, W_GATE, B_GATE


@reads(r"\vec y_i = \mat W_O \bigl( \sigma(\mat W_G \vec x_i + \vec b_G) \odot \vec o_i \bigr) +…")
def the_gate():
    options = {"num_heads": N_HEADS, "norm_eps": NORM_EPS, "norm_offset": SHIFT}
    angles = np.arange(T)[:, None]
    options["rope"] = np.cos(angles), np.sin(angles)
    params = AttentionParams(*ALL[1:])
    y = formulas.multi_head_attention(TOKENS, TOKENS, params, **options)
    weights = {"W_O": PROJECTIONS[3], "b_O": BIASES[3], "W_G": W_GATE, "b_G": B_GATE}
    return {"x": TOKENS, "o": whole(*ALL)[0], r"\sigma": sigmoid, **weights, "y": y}


def of_heads_of(q, normed):
    """Return the environment of normalized and rotated queries, by head and token."""
    pair = {r"q": q, r"\hat q": normed}
    parts = {name: a.reshape(T, N_HEADS, WIDTH).swapaxes(0, 1) for name, a in pair.items()}
    turns = [turn(np.tile(np.eye(WIDTH)[n], (T, N_HEADS)))[:, :WIDTH] for n in range(WIDTH)]
    given = {r"\delta": SHIFT, r"\epsilon": NORM_EPS, "E": WIDTH}
    return {**parts, **given, "R": np.stack(turns, -1)}


@reads(r"\hat{\vec q}_{hi} = \mat R_i \bigl( (\vec w^q + \delta) \odot \vec n_{hi} \bigr), \qquad…")
def norms_and_gate():
    options = {"num_heads": N_HEADS, "norm_eps": NORM_EPS, "norm_offset": SHIFT}
    angles = np.arange(T)[:, None]
    options["rope"] = np.cos(angles), np.sin(angles)
    got = multi_head_attention(TOKENS, TOKENS, AttentionParams(*ALL[1:]), **options)
    np.testing.assert_allclose(whole(*ALL)[2], got, rtol=1e-10)
    q = TOKENS @ ALL[1].T + ALL[5]
    return {**of_heads_of(q, turn(normed_rows(q, Q_NORM))), "w^q": Q_NORM}


BOUND = 0.4


@reads(r"\tilde q_{hie} = \max ( -c, \min ( c, q_{hie} ) ), \qquad \tilde k_{hje}…")
def bounds_of_heads():
    raw = RNG.normal(size=(3, 2, T, WIDTH))
    q, k, v = (formulas.bound_heads(z, BOUND) for z in raw)
    before = dict(zip("qkv", raw, strict=True))
    return {**before, "c": BOUND, r"\tilde{q}": q, r"\tilde{k}": k, r"\tilde{v}": v}


@reads(r"\pdv{L}{q_{hie}} = \begin{cases} g_{hie} & -c \le q_{hie} \le c \\ 0…")
def gradients_of_the_bounds():
    q, g = RNG.normal(size=(2, 2, T, WIDTH))
    loss = Of(lambda q: np.sum(g * formulas.bound_heads(q, BOUND)), "q")
    return {"q": q, "g": g, "c": BOUND, "L": loss}


ROWS_Q, ROWS_K = RNG.normal(size=(2, N_HEADS, WIDTH))


def centered_rows(x, w):
    """Normalize each head of rows by its own mean, variance and row of the weight."""
    parts = []
    for part, row in zip(np.split(x, N_HEADS, axis=1), w, strict=True):
        mu = np.sum(part, axis=1, keepdims=True) / WIDTH
        tau = np.sqrt(np.sum((part - mu) ** 2, axis=1, keepdims=True) / WIDTH + NORM_EPS)
        parts.append((row + SHIFT) * (part - mu) / tau)
    return np.concatenate(parts, axis=1)


@reads(r"\hat{\vec q}_{hi} = \mat R_i \bigl( (\vec w^q_h + \delta) \odot \frac…")
def layer_norms_of_heads():
    options = {"num_heads": N_HEADS, "norm_eps": NORM_EPS, "norm_offset": SHIFT}
    angles = np.arange(T)[:, None]
    options["rope"] = np.cos(angles), np.sin(angles)
    x, w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o = SELF
    before = x @ w_q.T + b_q
    q, k = centered_rows(before, ROWS_Q), centered_rows(x @ w_k.T + b_k, ROWS_K)
    o = heads_of(turn(q), turn(k), x @ w_v.T + b_v)
    params = AttentionParams(*SELF[1:], ROWS_Q, ROWS_K)
    got = multi_head_attention(x, x, params, **options)
    np.testing.assert_allclose(o @ w_o.T + b_o, got, rtol=1e-10)
    return {**of_heads_of(before, turn(q)), "w^q": ROWS_Q}


@reads(r"\pdv{L}{\vec o_i} = \sigma(\vec z_i) \odot \vec u'_i, \qquad \pdv{L}{\vec z_i}…")
def gradients_of_the_gate():
    o, z, _ = whole(*ALL)
    u = RNG.normal(size=(T, 5))
    back = u @ PROJECTIONS[3]
    loss = Of(lambda o, z: np.sum(back * sigmoid(z) * o), "o", "z")
    return {"o": o, "z": z, "u'": back, r"\sigma": sigmoid, "L": loss}


@equation(
    r"""\pdv{L}{\vec w^k} = \sum_h \sum_j \vec n_{hj} \odot \vec g_{hj}, \qquad
    \pdv{L}{\vec k_{hj}} = \frac{1}{\rho_{hj}} \Bigl( \vec a_{hj} - \vec n_{hj}\,
    \frac{\vec n_{hj} \cdot \vec a_{hj}}{E} \Bigr) ."""
)
def gradients_of_norms_and_gate_by_complex_step():
    u = RNG.normal(size=(T, 5))

    def loss(*operands, **bumps):
        return np.sum(u * whole(*operands, **bumps)[2])

    def of(name):
        return gradients(lambda b: loss(*ALL, **{name: b}), NOTHING)[0]

    dw = gradients(lambda w: loss(*ALL[:10], w, *ALL[11:]), K_NORM)[0]
    (x, _, w_k, *_), b_k = ALL, ALL[6]
    k = np.split(x @ w_k.T + b_k, N_HEADS, axis=1)
    g, dk, total = (*(np.split(of(n), N_HEADS, axis=1) for n in ("normed", "k")), 0)
    for h in range(N_HEADS):
        for j in range(T):
            rho = np.sqrt(np.mean(k[h][j] ** 2) + NORM_EPS)
            n, a = k[h][j] / rho, (K_NORM + SHIFT) * g[h][j]
            total = total + n * g[h][j]
            yield dk[h][j], (a - n * (n @ a) / WIDTH) / rho
    yield dw, total
    o, z, _ = whole(*ALL)
    back = u @ ALL[4]
    yield of("o"), logistic(z) * back
    yield of("z"), logistic(z) * logistic(-z) * o * back


@reads(r"\dot{\vec q}_i &= \dot{\mat W}_Q \vec x_i + \mat W_Q \dot{\vec x}_i + \dot{\vec b}_Q…")
def chain_of_tangents_by_complex_step():
    q = Of(lambda x, w, b: x @ w.T + b, "x", "W_Q", "b_Q")
    y = Of(lambda o, w, b: o @ w.T + b, "o", "W_O", "b_O")
    given = {"x": TOKENS, "W_Q": PROJECTIONS[0], "b_Q": BIASES[0], "o": project(*SELF)[1]}
    return {**given, "W_O": PROJECTIONS[3], "b_O": BIASES[3], "q": q, "y": y}


@reads(r"\dot{\vec r}_i = \mat W^\top \dot{\vec q}_i + \dot{\mat W}^\top \vec q_i…")
def bilinear_tangents_by_complex_step():
    scores = Of(lambda r, k: 0.3 * r @ k.T, "r", "k")
    return {"q": Q, "k": KEYS, "W": FORM, "r": Of(np.matmul, "q", "W"), "s": scores, "c": 0.3}


@reads(r'\phi(x) = \begin{cases} x + 1 & x > 0 \\ e^x & x \le 0 \end{cases} \quad (\text{"elu"})…')
def features_of_linear_attention():
    return [
        {**row, r"\phi": functools.partial(formulas.features, feature_map=name), "branch": name}
        for name in ("elu", "exp", "identity")
        for row in each({"x": Q.ravel()})
    ]


@reads(r"M_{ij} = [\, d_i = d'_j \,] .")
def same_document():
    d, other = np.array([0, 0, 2, 1]), np.array([1, 0, 2])
    return {"d": d, "d'": other, "M": formulas.document_mask(d, other)}


@reads(r"M_{ij} = [\, j \le i \ \text{or} \ j < P \,] .")
def a_prefix_seen_by_all():
    return {"M": formulas.prefix_mask(5, 2), "P": 2}


@reads(r"M_{ij} = [\, j \le i' \ \text{and} \ \lfloor j / C \rfloor = \lfloor i' / C \rfloor \,] .")
def causal_in_chunks():
    rows = []
    for offset in (0, 2, -1):
        mask = chunk_mask(4, 7, size=3, q_offset=offset).astype(float)
        rows += [
            {"M": mask, "i": range(i, i + 1), "i'": i + offset, "C": 3, "j": range(7)}
            for i in range(4)
        ]
    return rows


@equation(r"M_{ij} = [\, i = j \,] \ \text{or} \ M_{p(i) j} .")
def ancestors():
    parents = [-1, 0, 0, 1, 2, 4]

    def seen(i, j):
        return i == j or (parents[i] >= 0 and seen(parents[i], j))

    yield [[seen(i, j) for j in range(6)] for i in range(6)], tree_mask(parents)


@reads(r"M_{ij} = M'_{\lfloor i / b \rfloor \lfloor j / b \rfloor} .")
def blocks_expanded():
    blocks = np.array([[True, False, True], [False, False, True]])
    return {"M'": blocks, "b": 2, "M": formulas.block_mask(blocks, size=2)}


PARTS, LSES = RNG.normal(size=(3, T, V)), RNG.normal(size=(3, T))
U_PARTS, U_LSE = RNG.normal(size=(T, V)), RNG.normal(size=T)
D_PARTS, D_LSES = RNG.normal(size=(3, T, V)), RNG.normal(size=(3, T))


def merged(o, lse):
    total = np.log(np.sum(np.exp(lse), 0))
    return np.sum(np.exp(lse - total)[..., None] * o, 0), total


@reads(r"\ell = \log \sum_p e^{\ell_p} , \qquad \vec o = \sum_p \sum_{j \in K_p} e^{s_j…")
def parts_of_an_attention():
    s, v = RNG.normal(size=7), RNG.normal(size=(7, V))
    parts = [[0, 3], [1, 2, 6], [4, 5]]
    lse = np.array([np.log(np.exp(s[keys]).sum()) for keys in parts])
    o = np.array([np.exp(s[keys] - z) @ v[keys] for keys, z in zip(parts, lse, strict=True)])
    out, last = merge_attention(o[:, None], lse[:, None])
    given = {"s": s, "v": v, r"\ell_\cdot": lse, r"o_\cdot": o, "K": lambda p: parts[p]}
    wholes = (last[0], out[0]), (np.log(np.exp(s).sum()), softmax(s) @ v)
    return [{**given, r"\ell": total, "o": whole, "p": range(3)} for total, whole in wholes]


@reads(
    r"\dd \vec o = \sum_p w_p \bigl( \dd \vec o_p + (\vec o_p - \vec o)\, \dd \ell_p \bigr) .",
    r"\pdv{L}{\vec o_p} = w_p\, \vec u , \qquad \pdv{L}{\ell_p} = w_p \bigl( \vec u \cdot (\vec…",
    r"\dot{\vec o} = \sum_p w_p \bigl( \dot{\vec o}_p + (\vec o_p - \vec o)\, \dot\ell_p \bigr)…",
)
def derivatives_of_the_merge():
    parts, lse, u, u_lse = PARTS[:, 0], LSES[:, 0], U_PARTS[0], U_LSE[0]
    names = r"o_\cdot", r"\ell_\cdot"
    out = [Of(lambda *x, k=k: merged(*x)[k], *names) for k in range(2)]
    w = Of(lambda lse: np.exp(lse) / np.sum(np.exp(lse)), names[1])
    loss = Of(lambda *x: u @ merged(*x)[0] + u_lse * merged(*x)[1], *names)
    moved = {r"\dot o_\cdot": D_PARTS[:, 0], r"\dot\ell_\cdot": D_LSES[:, 0]}
    pushed = merge_attention_jvp((PARTS, LSES), (D_PARTS, D_LSES))
    pulled = merge_attention_vjp((U_PARTS, U_LSE), PARTS, LSES)
    by = dict(zip((r"\pdv{L}{o_\cdot}", r"\pdv{L}{\ell_\cdot}"), pulled, strict=True))
    given = {names[0]: parts, names[1]: lse, "o": out[0], r"\ell": out[1], "w": w, "L": loss}
    given |= {"u": u, r"u^\ell": u_lse, **moved}
    got = {r"\dot o": pushed[0][0], r"\dot\ell": pushed[1][0]}
    return [given, {**given, **got, **{name: value[:, 0] for name, value in by.items()}}]


@reads(r"""b_{ij} = \begin{cases} \sum_{j < l \le i'} f_l & j \le i' \\ 0 & j > i' \end{cases}""")
def forgetting_as_a_bias():
    f = RNG.normal(size=6)
    rows = [(i, offset) for offset in (0, 2) for i in range(4)]
    given = {"f": f, "j": range(6), "l": range(6)}
    biases = {offset: forgetting_bias(f, q_offset=offset) for offset in (0, 2)}
    return [{**given, "b": biases[o], "i": range(i, i + 1), "i'": i + o} for i, o in rows]


@equation(
    r"\pdv{L}{f_l} = \sum_{i' \ge l} \sum_{j < l} u_{ij} .",
    r"""\dot b_{ij} = \begin{cases} \sum_{j < l \le i'} \dot f_l & j \le i' \\ 0 & j > i'
    \end{cases}""",
)
def derivatives_of_forgetting():
    f, df, u = RNG.normal(size=6), RNG.normal(size=6), RNG.normal(size=(4, 6))

    def bias(f):
        rows = [[np.sum(f[j + 1 : i + 1]) if j <= i else 0 for j in range(6)] for i in range(2, 6)]
        return np.array(rows)

    pairs = [(i, j) for i in range(2, 6) for j in range(i)]
    by_hand = [sum(u[i - 2, j] for i, j in pairs if j < l <= i) for l in range(6)]
    (grad,) = gradients(lambda f: np.sum(u * bias(f)), f)
    yield grad, by_hand, forgetting_bias_vjp(u, f, q_offset=2)
    yield rate(bias, [f], [df]), bias(df), forgetting_bias_jvp(f, df, q_offset=2)


INDEXER = RNG.normal(size=(2, T, E)), RNG.normal(size=(S, E)), RNG.normal(size=(T, 2))


@reads(
    r"I_{ts} = \sum_h w_{th} \max(\vec q_{th} \cdot \vec k_s, 0)",
    r"\pdv{L}{w_{th}} = \sum_s u_{ts} \max(z_{hts}, 0) , \qquad \pdv{L}{\vec q_{th}}…",
    r"\dot I_{ts} = \sum_h \bigl( \dot w_{th} \max(z_{hts}, 0) + w_{th}\, [z_{hts} > 0]…",
)
def of_indexer():
    """Return the environment of the indexer, whose queries have the axes of the text."""
    q, k, w = INDEXER
    f = lambda q, k, w: formulas.indexer_scores(q.swapaxes(0, 1), k, w)  # noqa: E731
    env = mapped(f, {"q": q.swapaxes(0, 1), "k": k, "w": w}, "I")
    z = np.einsum("hie,je->hij", q, k)
    g = env["u"] * w.T[..., None] * (z > 0)
    return {**env, "z": z, "g": g}


@equation(
    r"""\mathcal{S}_t = \operatorname*{argmax}_{\mathcal{S} \subseteq \mathcal{V}_t,\;
    |\mathcal{S}| = \min(k, |\mathcal{V}_t|)} \sum_{s \in \mathcal{S}} I_{ts} ."""
)
def selected_keys():
    scores = RNG.normal(size=(4, 6))
    got = select_keys(scores, count=3, q_offset=1)
    for t in range(4):
        visible = range(min(t + 2, 6))
        sets = itertools.combinations(visible, min(3, len(visible)))
        best = max(sets, key=lambda keys: scores[t, list(keys)].sum())
        yield sorted(best), sorted(got[t][got[t] >= 0])


PAIRS = RNG.normal(size=(4, S, E))


@reads(
    r"\vec o_i = \sum_j \bigl( p^{(1)}_{ij} - \lambda\, p^{(2)}_{ij} \bigr) \vec v_j…",
    r"\dot{\vec o}_i = \dot{\vec o}^{(1)}_i - \lambda\, \dot{\vec o}^{(2)}_i - \dot\lambda\,…",
)
def of_difference():
    """Return the environment of the difference of two maps."""
    q1, k1, q2, k2 = PAIRS
    inputs = {"q_1": q1, "k_1": k1, "q_2": q2, "k_2": k2, "v": VALUES, r"\lambda": 0.3}
    env = mapped(formulas.differential_attention, inputs, "o")
    for n in (1, 2):
        env[f"p^{{({n})}}"] = Of(formulas.attention_weights, f"q_{n}", f"k_{n}")
        env[f"o^{{({n})}}"] = Of(formulas.attention, f"q_{n}", f"k_{n}", "v")
    return env


@reads(r"\pdv{L}{\lambda} = -\sum_{h, i} \vec u_{hi} \cdot \vec o^{(2)}_{hi} ,")
def gradient_of_the_share():
    env = of_difference()
    second = formulas.attention(PAIRS[2], PAIRS[3], VALUES)[None]  # of one head
    return {
        r"\lambda": 0.3,
        "u": env["u"][None],
        "o^{(2)}": second,
        "L": env["L"],
        "o": env["o"],
        **{n: env[n] for n in ("q_1", "k_1", "q_2", "k_2", "v")},
    }
