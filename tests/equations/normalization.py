"""The displayed equations of dlref.normalization."""

import functools

import numpy as np
from equations.evaluate import Of, each, mapped
from equations.ledger import equation, reads
from equations.numeric import gradients, jacobian_of, rate

from dlref.formulas import normalization as formulas
from dlref.formulas.activations import silu, silu_deriv
from dlref.normalization import sinkhorn, sinkhorn_jvp

RNG = np.random.default_rng(0)
N, P, C, EPS = 5, 3, 4, 0.1
X, IMAGES = RNG.normal(size=(N, C)), RNG.normal(size=(2, P, C))
W, B = RNG.normal(size=C), RNG.normal(size=C)
V, DW, DB = RNG.normal(size=(N, C)), RNG.normal(size=C), RNG.normal(size=C)
U = RNG.normal(size=(N, C))
ROW, OFFSET = X[0], 0.6
GROUPS = 2
M, R, NEW = 0.3, *RNG.normal(size=(2, 4))
UPDATE = mapped(
    functools.partial(formulas.batch_norm_update, momentum=M), {"r": R, "s": NEW}, "r'", m=M
)
LENGTH = mapped(functools.partial(formulas.l2_norm, eps=EPS), {"x": ROW})
LENGTH |= {r"\ell": Of(lambda x: np.sqrt(np.sum(x * x) + EPS), "x"), r"\epsilon": EPS}
LENGTH |= {"v": V[0], r"\dot x": V[0]}


def deviation(x):
    return np.sqrt(variance(x) + EPS)


def variance(x):
    return np.mean((x - np.mean(x)) ** 2)


MOMENTS = {r"\mu": Of(np.mean, "x"), r"\sigma^2": Of(variance, "x"), r"\tau": Of(deviation, "x")}


def of_row(name):
    """Return the environment of layer norm or RMS norm of one row."""
    f, inputs = getattr(formulas, name), {"x": ROW, "w": W, "b": B}
    if name == "rms_norm":
        f = functools.partial(f, weight_offset=OFFSET)
        del inputs["b"]
    env = mapped(functools.partial(f, eps=EPS), inputs, D=C, v=V[0], c=OFFSET, **MOMENTS)
    env |= {r"\hat x": Of(functools.partial(getattr(formulas, name), eps=EPS), "x")}
    env |= {"g": env["u"] * (W + OFFSET * (name == "rms_norm")), r"\dot x": V[0]}
    env |= {"d": Of(lambda x: x - np.mean(x), "x"), r"\epsilon": EPS}
    env |= {r"\rho": Of(lambda x: np.sqrt(np.mean(x * x) + EPS), "x")}
    return {**env, r"\mat I": np.eye(C), r"\vec 1": np.ones(C)}


@reads(
    r"\pdv{L}{w} = \sum_n u_n \hat x_n , \qquad \pdv{L}{b} = \sum_n u_n .",
    r"\dot y_n = \frac{w}{\tau} \bigl( v_n - \overline v - \hat x_n \, \overline{v \hat x}…",
    r"\pdv{L}{x_n} = \frac w\tau \bigl( u_n - \overline u - \hat x_n\, \overline{u \hat x} \bigr)…",
    r"\dot y_n = \frac{w}{\tau} \bigl( v_n - \overline v - \hat x_n\, \overline{v \hat x} \bigr)…",
)
def of_channel():
    """Return the environment of batch norm of one channel."""
    f = lambda x, w, b: formulas.batch_norm(x[:, None], w, b, eps=EPS)[:, 0]  # noqa: E731
    env = mapped(f, {"x": X[:, 0], "w": W[0], "b": B[0]}, M=N, v=V[:, 0], **MOMENTS)
    env |= {r"\hat x": Of(lambda x: f(x, 1.0, 0.0), "x"), "g": env["u"] * W[0]}
    return {**env, r"\dot x": V[:, 0]}


@reads(
    r"\mu = \frac1m \sum_{S} x_{pc}, \qquad \sigma^2 = \frac1m \sum_{S} (x_{pc} - \mu)^2…",
    r"\pdv{L}{x_{pc}} = \frac1\tau \bigl( g_{pc} - \overline g - \hat x_{pc} \,…",
    r"\dot y_{pc} = \frac{w_c}{\tau} \bigl( v_{pc} - \overline v - \hat x_{pc} \,…",
)
def of_group():
    """Return the environment of group norm of one sample whose channels are one group."""
    f = lambda x, w, b: formulas.group_norm(x[None], 1, w, b, eps=EPS)[0]  # noqa: E731
    env = mapped(f, {"x": IMAGES[0], "w": W, "b": B}, m=P * C, v=IMAGES[1], **MOMENTS)
    env |= {r"\hat x": Of(lambda x: f(x, None, None), "x"), "g": env["u"] * W}
    entries = {"S": {"p": range(P), "c": range(C)}, r"\epsilon": EPS}
    return {**env, r"\dot x": IMAGES[1], **entries}


def standardized(x, axis):
    """Return values with mean 0 and variance 1 along axes, and the root they were divided by."""
    mu = x.mean(axis, keepdims=True)
    tau = np.sqrt(((x - mu) ** 2).mean(axis, keepdims=True) + EPS)
    return (x - mu) / tau, tau


@reads(r"\mu_c = \frac1M \sum_n x_{nc}, \qquad \sigma_c^2 = \frac1M \sum_n (x_{nc} - \mu_c)^2…")
def batch_norm_of_each_channel():
    y = formulas.batch_norm(X, W, B, eps=EPS)
    return {"x": X, "w": W, "b": B, r"\epsilon": EPS, "M": N, "y": y}


@reads(r"\pdv{L}{\sigma^2} = \sum_n g_n \pdv{\hat x_n}{\sigma^2}…")
def gradient_of_a_variance_by_complex_step():
    x, g = X[:, 0], W[0] * U[:, 0]
    hat = Of(lambda mu, variance: (x - mu) / np.sqrt(variance + EPS), r"\mu", r"\sigma^2")
    free = {r"\mu": 0.3, r"\sigma^2": 1.7, r"\tau": np.sqrt(1.7 + EPS)}
    return {"x": x, "g": g, r"\hat x": hat, "L": Of(lambda hat: g @ hat, r"\hat x"), **free}


@reads(r"\pdv{L}{\mu} = - \frac1\tau \sum_n g_n .")
def gradient_of_the_mean_by_complex_step():
    x, g = X[:, 0], W[0] * U[:, 0]

    def loss(mu):  # directly and through the variance
        return np.sum(g * (x - mu) / np.sqrt(np.mean((x - mu) ** 2) + EPS))

    given = {r"\mu": x.mean(), r"\tau": np.sqrt(x.var() + EPS)}
    return {"g": g, "L": Of(loss, r"\mu"), **given}


@reads(r"\pdv{L}{x_m} = \frac{g_m}{\tau} + \frac1M \pdv{L}{\mu} + \frac{2 \tau \hat x_m}{M}…")
def batch_norm_gradient_by_complex_step():
    env = of_channel()
    x, g = env["x"], env["g"]
    loss = lambda mu, variance: np.sum(g * (x - mu) / np.sqrt(variance + EPS))  # noqa: E731
    slopes = gradients(loss, x.mean(), x.var())
    return {**env, r"\pdv{L}{\mu}": slopes[0], r"\pdv{L}{\sigma^2}": slopes[1]}


@reads(r"y_{nc} = w_c \frac{x_{nc} - \mu_c}{\tau_c} + b_c…")
def batch_norm_as_an_affine_map():
    inputs = {r"\mu": DW, r"\sigma^2": DB**2, "w": W, "b": B}
    y = formulas.batch_norm_inference(X, *inputs.values(), eps=EPS)
    return {"x": X, **inputs, "y": y, r"\epsilon": EPS}


@reads(r"\dot y = w \Bigl( \frac{\dot x - \dot \mu}{\tau} - \hat x \,…")
def batch_norm_inference_tangent_by_complex_step():
    f = functools.partial(formulas.batch_norm_inference, eps=EPS)
    variance = 1.7
    inputs = {"x": X[0, 0], r"\mu": 0.3, r"\sigma^2": variance, "w": W[0], "b": B[0]}
    tau = np.sqrt(variance + EPS)
    more = {r"\tau": tau, r"\hat x": (X[0, 0] - 0.3) / tau, r"\dot{\sigma^2}": -0.8}
    return mapped(f, inputs, **more, **{r"\dot{(\sigma^2)}": -0.8})


@reads(r"r_t = (1 - m)^t r_0 + \sum_{k=1}^{t} m (1 - m)^{t - k} s_k .")
def repeated_updates():
    runs, batches = [R], RNG.normal(size=(5, 4))
    for k in range(1, 5):
        runs.append(formulas.batch_norm_update(runs[-1], batches[k], momentum=M))
    return {"r": np.array(runs), "s": batches, "m": M, "t": 4}


IMAGES_V, IMAGES_U = RNG.normal(size=(2, 2, P, C))


@reads(r"\pdv{L}{w_c} = \sum_{n, p} u_{npc} \hat x_{npc} , \qquad \pdv{L}{b_c}…")
def gradients_of_the_weight_and_bias_of_a_channel():
    hat = Of(lambda x: formulas.group_norm(x, GROUPS, eps=EPS), "x")
    f = lambda x, w, b: formulas.group_norm(x, GROUPS, w, b, eps=EPS)  # noqa: E731
    inputs = {"x": IMAGES, "w": W, "b": B}
    instance = Of(functools.partial(formulas.instance_norm, eps=EPS), "x")
    return [
        mapped(f, inputs, **{r"\hat x": hat}),
        mapped(functools.partial(formulas.instance_norm, eps=EPS), inputs, **{r"\hat x": instance}),
    ]


@reads(r"\mu_{nc} = \frac1P \sum_p x_{npc}, \qquad \sigma_{nc}^2…")
def instance_norm_of_each_channel():
    y = formulas.instance_norm(IMAGES, W, B, eps=EPS)
    return {"x": IMAGES, "w": W, "b": B, "P": P, r"\epsilon": EPS, "y": y}


@reads(r"\pdv{L}{x_{npc}} = \frac{w_c}{\tau_{nc}} \bigl( u_{npc} - \overline{u}_{nc} - \hat…")
def instance_norm_gradient_by_complex_step():
    f = functools.partial(formulas.instance_norm, eps=EPS)
    env = mapped(f, {"x": IMAGES, "w": W, "b": B})
    u, hat = env["u"], f(IMAGES)
    means = {r"\overline u": u.mean(1), r"\overline{(u \hat x)}": (u * hat).mean(1)}
    return {**env, r"\hat x": hat, r"\tau": np.sqrt(IMAGES.var(1) + EPS), **means}


@reads(r"\dot y = \frac{w}{\tau} \bigl( v - \overline v - \hat x \, \overline{v \hat x} \bigr)…")
def instance_norm_tangent_by_complex_step():
    hat, tau = standardized(IMAGES, 1)
    f = functools.partial(formulas.instance_norm, eps=EPS)
    dy = rate(f, (IMAGES, W, B), (IMAGES_V, DW, DB))
    rows = []
    for n, c in np.ndindex(2, C):
        one = {"v": IMAGES_V[n, :, c], r"\hat x": hat[n, :, c], r"\tau": tau[n, 0, c], "w": W[c]}
        rows.append({**one, r"\dot w": DW[c], r"\dot b": DB[c], r"\dot y": dy[n, :, c]})
    return rows


@reads(
    r"\mu = \frac1D \sum_i x_i, \qquad \sigma^2 = \frac1D \sum_i (x_i - \mu)^2…",
    r"\dd \hat x_i = \frac{1}{\tau} \bigl( \dd x_i - \overline{\dd x} - \hat x_i \,…",
    r"\pdv{L}{x_j} = \frac{1}{\tau} \Bigl( g_j - \overline{g} - \hat x_j \,…",
    r"\dot y_i = \frac{w_i}{\tau} \Bigl( v_i - \overline{v} - \hat x_i \, \overline{v \hat x}…",
    r"\pdv{\sigma^2}{x_j} = \frac2D \sum_i d_i \Bigl( \delta_{ij} - \frac1D \Bigr)…",
    r"\pdv{\hat x_i}{x_j} = \frac{1}{\tau} \pdv{d_i}{x_j} - \frac{d_i}{\tau^2} \pdv{\tau}{x_j}…",
)
def layer_norm_and_its_derivatives():
    return of_row("layer_norm")


@reads(r"\mu = m + \overline d, \qquad \sigma^2 = \overline{d^2} - \overline d^2 .")
def mean_and_variance_from_differences():
    return {**of_row("layer_norm"), "m": 0.3, "d": ROW - 0.3}


@reads(r"\pdv{L}{w_i} = \sum_n u_{ni} \hat x_{ni} , \qquad \pdv{L}{b_i} = \sum_n u_{ni} .")
def layer_norm_gradients_of_weight_and_bias():
    f = functools.partial(formulas.layer_norm, eps=EPS)
    return mapped(f, {"x": X, "w": W, "b": B}, **{r"\hat x": Of(f, "x")})


@reads(r"\overline{g \hat x} = \frac{1}{\tau} \bigl( \overline{g d} - \overline{g} \,…")
def projection_from_shifted_means():
    return {**of_row("layer_norm"), "d": ROW - 0.3}


@reads(r"\mat J = \frac1\tau \operatorname{diag}(\vec w) \Bigl( \mat I -…")
def layer_norm_jacobian_as_a_matrix():
    jacobian = formulas.layer_norm_jacobian(ROW, W, eps=EPS)
    return {**of_row("layer_norm"), "J": jacobian}


@reads(r"\rho = \sqrt{\frac1D \sum_i x_i^2 + \epsilon}, \qquad \hat x_i = \frac{x_i}{\rho}…")
def rms_norm_of_each_row():
    return {**of_row("rms_norm"), "weight_offset": OFFSET}


@reads(
    r"\pdv{L}{x_j} = \frac{1}{\rho} \bigl( g_j - \hat x_j \, \overline{g \hat x} \bigr).",
    r"\dd \hat x_i = \frac{1}{\rho} \bigl( \dd x_i - \hat x_i \, \overline{\hat x\, \dd x}…",
    r"\dot y_i = \frac{w_i + c}{\rho} \bigl( v_i - \hat x_i \, \overline{v \hat x} \bigr) +…",
)
def derivatives_of_rms_norm():
    return of_row("rms_norm")


@reads(r"\pdv{L}{w_i} = \sum_n u_{ni} \hat x_{ni} .")
def rms_norm_gradient_of_the_weight():
    f = functools.partial(formulas.rms_norm, eps=EPS, weight_offset=OFFSET)
    hat = Of(functools.partial(formulas.rms_norm, eps=EPS), "x")
    return mapped(f, {"x": X, "w": W}, **{r"\hat x": hat})


@equation(
    r"g_i = (w_i + c)\, u_i \operatorname{silu}(z_i) , \qquad \pdv{L}{z_i} = u_i\, (w_i + c)\,"
    r" \hat x_i \operatorname{silu}'(z_i) ."
)
def gradients_of_a_gated_rms_norm():
    z, u, weight = V[1], U[0], W + OFFSET
    norm = functools.partial(formulas.rms_norm, eps=EPS)
    by_gate, by_row = gradients(lambda z, x: u @ (weight * norm(x) * silu(z)), z, ROW)
    yield by_gate, u * weight * norm(ROW) * silu_deriv(z)
    g, hat, rho = weight * u * silu(z), norm(ROW), np.sqrt(np.mean(ROW**2) + EPS)
    yield by_row, (g - hat * np.mean(g * hat)) / rho


@reads(r"\pdv{\hat x_i}{x_j} = \frac{\delta_{ij}}{\rho} - \frac{x_i}{\rho^2} \frac{\hat x_j}{D}…")
def rms_norm_jacobian_by_complex_step():
    jacobian = formulas.rms_norm_jacobian(ROW, W, eps=EPS, weight_offset=OFFSET)
    return {**of_row("rms_norm"), "J": jacobian}


@reads(r"\hat x = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}}, \qquad y = w \hat x + b,")
def standardized_sets_of_all_variants():
    variants = (
        ((0, 1), formulas.batch_norm(IMAGES, W, B, eps=EPS)),
        (2, formulas.layer_norm(IMAGES, W, B, eps=EPS)),
        ((1, 2), formulas.group_norm(IMAGES, 1, W, B, eps=EPS)),
        (1, formulas.instance_norm(IMAGES, W, B, eps=EPS)),
    )
    environments = []
    for axes, y in variants:
        moments = IMAGES.mean(axes, keepdims=True), IMAGES.var(axes, keepdims=True)
        arrays = np.broadcast_arrays(IMAGES, *moments, W, B, y)
        names = "x", r"\mu", r"\sigma^2", "w", "b", "y"
        entries = {name: a.ravel() for name, a in zip(names, arrays, strict=True)}
        environments += each(entries, {r"\epsilon": EPS})
    return environments


@reads(r"\pdv{L}{x_{nc}} &= \frac{w_c\, u_{nc}}{\tau_c}, & \pdv{L}{\mu_c}…")
def batch_norm_inference_gradients_by_complex_step():
    f = functools.partial(formulas.batch_norm_inference, eps=EPS)
    inputs = {"x": X, r"\mu": DW, r"\sigma^2": DB**2, "w": W, "b": B}
    tau = np.sqrt(DB**2 + EPS)
    return mapped(f, inputs, **{r"\tau": tau, r"\hat x": (X - DW) / tau})


@reads(
    r"""r' = (1 - m)\, r + m\, s .""",
    r"""\pdv{L}{r} = (1 - m)\, u, \qquad \pdv{L}{s} = m\, u .""",
    r"""\dot r' = (1 - m)\, \dot r + m\, \dot s .""",
)
def one_update_and_its_derivatives():
    return UPDATE


@reads(
    r"y_i = \frac{x_i}{\ell} , \qquad \ell = \sqrt{\sum_j x_j^2 + \epsilon}",
    r"\dd \vec y = \frac{\dd \vec x}{\ell} - \frac{\vec x}{\ell^2}\, \dd \ell…",
    r"\dd L = \vec u \cdot \dd \vec y = \frac1\ell \bigl( \vec u - \vec y\, (\vec y \cdot \vec u)…",
    r"\pdv{L}{\vec x} = \frac1\ell \bigl( \vec u - \vec y\, (\vec y \cdot \vec u) \bigr) .",
    r"\dot{\vec y} = \frac1\ell \bigl( \vec v - \vec y\, (\vec y \cdot \vec v) \bigr)",
)
def row_of_length_one_and_its_derivatives():
    return LENGTH


@reads(
    r"\vec w = g\, \frac{\vec v}{\norm{\vec v}} .",
    r"\norm{\vec v - \eta \vec d}^2 = \norm{\vec v}^2 + \eta^2 \norm{\vec d}^2 , \qquad \vec d…",
    r"\dd \vec w = \vec e\, \dd g + \frac{g}{\norm{\vec v}} \bigl( \dd \vec v - \vec e\, (\vec e…",
    r"\dd L = \vec u \cdot \dd \vec w = (\vec e \cdot \vec u)\, \dd g + \frac{g}{\norm{\vec v}}…",
    r"\pdv{L}{g} = \vec e \cdot \vec u , \qquad \pdv{L}{\vec v}…",
    r"\dot{\vec w} = \dot g\, \vec e + \frac{g}{\norm{\vec v}} \bigl( \dot{\vec v} - \vec e\,…",
)
def of_weight_norm():
    """Return the environment of one row with its length."""
    f = functools.partial(formulas.weight_norm, axis=None)
    env = mapped(f, {"v": ROW, "g": 1.7}, "w", e=Of(lambda v: v / np.linalg.norm(v), "v"))
    env |= {r"\dot v": V[0], r"\dot g": -0.6, r"\eta": 0.3}
    return {**env, "d": formulas.weight_norm_vjp(env["u"], ROW, 1.7, axis=None)[0]}


@reads(r"y_n = w\, \frac{x_n - \mu}{\sqrt{\sigma^2 + \epsilon}} + b , \qquad \mu_\text{run}'…")
def a_training_step():
    running, spread = DW, DB**2
    y, mean, var = formulas.batch_norm_train(X, running, spread, W, B, momentum=0.3, eps=EPS)
    return [
        {
            "x": X[:, c],
            "w": W[c],
            "b": B[c],
            "y": y[:, c],
            "m": 0.3,
            "M": N,
            r"\mu": X[:, c].mean(),
            r"\sigma^2": X[:, c].var(),
            r"\epsilon": EPS,
            r"\mu_\text{run}": running[c],
            r"\mu_\text{run}'": mean[c],
            r"\sigma_\text{run}^2": spread[c],
            r"\sigma_\text{run}'^2": var[c],
        }
        for c in range(C)
    ]


SCORES, TANGENT = np.random.default_rng(11).normal(size=(2, 3, 3))
LIMIT = functools.partial(formulas.sinkhorn, steps=200)


def of_rows(z):
    return z - np.log(np.sum(np.exp(z), axis=-1, keepdims=True))


def entries(f):
    """Return the matrix of 3 by 3 with these entries."""
    return np.array([[f(i, j) for j in range(3)] for i in range(3)])


@equation(
    r"""Z_{ij} \leftarrow Z_{ij} - \log \sum_k e^{Z_{ik}} , \qquad
    Z_{ij} \leftarrow Z_{ij} - \log \sum_k e^{Z_{kj}} ."""
)
def half_steps_of_sinkhorn():
    Z = SCORES
    for steps in (1, 2, 3):
        Z = entries(lambda i, j, Z=Z: Z[i, j] - np.log(sum(np.exp(z) for z in Z[i])))
        Z = entries(lambda i, j, Z=Z: Z[i, j] - np.log(sum(np.exp(z) for z in Z.T[j])))
        yield np.exp(Z), formulas.sinkhorn(SCORES, steps=steps)


@reads(r"P_{ij} = r_i\, e^{X_{ij}}\, c_j .")
def scaled_rows_and_columns():
    P, e = formulas.sinkhorn(SCORES, steps=5), np.exp(SCORES)
    r, c = P[:, 0] / e[:, 0], (P[0] / e[0]) / (P[0, 0] / e[0, 0])
    return {"P": P, "X": SCORES, "r": r, "c": c}


@reads(
    r"\dd Z'_{ij} = \dd Z_{ij} - \sum_k P'_{ik}\, \dd Z_{ik} .",
    r"\dd L = \sum_{ij} G_{ij}\, \dd Z'_{ij}…",
    r"\pdv{L}{Z_{ij}} = G_{ij} - P'_{ij} \sum_k G_{ik} .",
)
def of_half_step():
    """Return the environment of a half step of Sinkhorn's iteration."""
    given = {"Z": SCORES, "Z'": Of(of_rows, "Z"), "G": TANGENT, "P'": np.exp(of_rows(SCORES))}
    return {**given, "L": Of(lambda z: np.sum(TANGENT * z), "Z'")}


@reads(r"\dot P_{ij} = P_{ij}\, \dot Z_{ij} .")
def tangent_of_sinkhorn():
    P, moved = sinkhorn(SCORES, steps=1), sinkhorn_jvp(SCORES, TANGENT, steps=1)
    logs = jacobian_of(lambda x: np.log(formulas.sinkhorn(x, steps=1)), SCORES).reshape(9, 9)
    return {"P": P, r"\dot P": moved, r"\dot Z": (logs @ TANGENT.ravel()).reshape(3, 3)}


@reads(
    r"\dd P_{ij} = P_{ij} \bigl( \dd X_{ij} + \alpha_i + \beta_j \bigr) .",
    r"\alpha_i + \sum_j P_{ij}\, \beta_j = -\sum_j P_{ij}\, \dd X_{ij} …",
)
def the_limit_of_sinkhorn():
    P, dX, jacobian = LIMIT(SCORES), TANGENT, jacobian_of(LIMIT, SCORES).reshape(9, 9)
    dP = (jacobian @ dX.ravel()).reshape(3, 3)
    rest = dP / P - dX  # alpha_i + beta_j
    return {
        "P": P,
        r"\dd X": dX,
        r"\dd P": dP,
        r"\alpha": rest[:, 0],
        r"\beta": rest[0] - rest[0, 0],
    }
