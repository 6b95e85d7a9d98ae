"""The displayed equations of dlref.normalization."""

import numpy as np
from equations.ledger import definition, equation
from equations.numeric import gradients, jacobian_of, rate

from dlref.normalization import (
    batch_norm,
    batch_norm_inference,
    batch_norm_train,
    batch_norm_train_jvp,
    batch_norm_train_vjp,
    batch_norm_update,
    batch_norm_vjp,
    group_norm,
    group_norm_vjp,
    instance_norm,
    instance_norm_vjp,
    l2_norm,
    l2_norm_jvp,
    l2_norm_vjp,
    layer_norm,
    layer_norm_jacobian,
    layer_norm_vjp,
    rms_norm,
    rms_norm_jacobian,
    rms_norm_vjp,
)

RNG = np.random.default_rng(0)
N, P, C, EPS = 5, 3, 4, 0.1
X, IMAGES = RNG.normal(size=(N, C)), RNG.normal(size=(2, P, C))
W, B = RNG.normal(size=C), RNG.normal(size=C)
V, DW, DB = RNG.normal(size=(N, C)), RNG.normal(size=C), RNG.normal(size=C)
U = RNG.normal(size=(N, C))


def standardized(x, axis):
    """Return values with mean 0 and variance 1 along axes, and the root they were divided by."""
    mu = x.mean(axis, keepdims=True)
    tau = np.sqrt(((x - mu) ** 2).mean(axis, keepdims=True) + EPS)
    return (x - mu) / tau, tau


def projected(g, x, axis):
    """Return g without its parts along 1 and along the standardized x, and then divided by tau."""
    hat, tau = standardized(x, axis)
    mean, along = g.mean(axis, keepdims=True), (g * hat).mean(axis, keepdims=True)
    return (g - mean - hat * along) / tau


@definition(
    r"\mu_c = \frac1M \sum_n x_{nc}, \qquad \sigma_c^2 = \frac1M \sum_n (x_{nc} - \mu_c)^2, "
    r"\qquad y_{nc} = w_c \frac{x_{nc} - \mu_c}{\sqrt{\sigma_c^2 + \epsilon}} + b_c .",
)
def batch_norm_of_each_channel():
    y = np.empty((N, C))
    for c in range(C):
        mu = sum(X[n, c] for n in range(N)) / N
        variance = sum((X[n, c] - mu) ** 2 for n in range(N)) / N
        y[:, c] = [W[c] * (X[n, c] - mu) / np.sqrt(variance + EPS) + B[c] for n in range(N)]
    yield y, batch_norm(X, W, B, eps=EPS)


@equation(
    r"\pdv{L}{\sigma^2} = \sum_n g_n \pdv{\hat x_n}{\sigma^2} = - \sum_n g_n \frac{x_n - "
    r"\mu}{2 \tau^3} = - \frac{1}{2 \tau^2} \sum_n g_n \hat x_n .",
)
def gradient_of_a_variance_by_complex_step():
    x, u, w, mu, variance = X[:, 0], U[:, 0], W[0], 0.3, 1.7  # mean and variance are free here
    tau, g = np.sqrt(variance + EPS), w * u
    hat = (x - mu) / tau

    def loss(variance):
        return np.sum(u * w * (x - mu) / np.sqrt(variance + EPS))

    slope = rate(lambda variance: (x - mu) / np.sqrt(variance + EPS), [variance], [1])
    yield (
        rate(loss, [variance], [1]),
        np.sum(g * slope),
        -np.sum(g * (x - mu) / (2 * tau**3)),
        -np.sum(g * hat) / (2 * tau**2),
    )


@equation(
    r"\pdv{L}{\mu} = - \frac1\tau \sum_n g_n .",
)
def gradient_of_the_mean_by_complex_step():
    x, u, w = X[:, 0], U[:, 0], W[0]

    def loss(mu):  # directly and through the variance
        tau = np.sqrt(np.mean((x - mu) ** 2) + EPS)
        return np.sum(u * w * (x - mu) / tau)

    tau = np.sqrt(x.var() + EPS)
    yield rate(loss, [x.mean()], [1]), -np.sum(w * u) / tau


@equation(r"\pdv{L}{w} = \sum_n u_n \hat x_n , \qquad \pdv{L}{b} = \sum_n u_n .")
def batch_norm_gradients_of_weight_and_bias():
    x, u, w, b = X[:, 0], U[:, 0], W[0], B[0]
    hat = standardized(x, 0)[0]
    of_w, of_b = gradients(lambda w, b: np.sum(u * (w * hat + b)), w, b)
    own = batch_norm_vjp(U, X, W, B, eps=EPS)
    yield of_w, sum(u[n] * hat[n] for n in range(N)), own[1][0]
    yield of_b, sum(u[n] for n in range(N)), own[2][0]


@equation(
    r"\pdv{L}{x_m} = \frac{g_m}{\tau} + \frac1M \pdv{L}{\mu} + \frac{2 \tau \hat x_m}{M} "
    r"\pdv{L}{\sigma^2} = \frac1\tau \bigl( g_m - \overline g - \hat x_m \, \overline{g \hat "
    r"x} \bigr).",
)
def batch_norm_gradient_by_complex_step():
    x, u, w = X[:, 0], U[:, 0], W[0]
    (hat, tau), g = standardized(x, 0), w * u
    expected = gradients(lambda x: np.sum(u * (w * standardized(x, 0)[0])), x)[0]

    def of_statistics(mu, variance):
        return np.sum(g * (x - mu) / np.sqrt(variance + EPS))

    of_mu, of_variance = gradients(of_statistics, x.mean(), x.var())
    yield (
        expected,
        g / tau + of_mu / N + 2 * tau * hat / N * of_variance,
        (g - g.mean() - hat * np.mean(g * hat)) / tau,
    )


@equation(
    r"\dot y_n = \frac{w}{\tau} \bigl( v_n - \overline v - \hat x_n \, \overline{v \hat x} "
    r"\bigr) + \dot w \hat x_n + \dot b .",
)
def batch_norm_tangent_by_complex_step():
    operands, moved = (X[:, 0], W[0], B[0]), (V[:, 0], DW[0], DB[0])
    (x, w, _), (v, dw, db) = operands, moved
    hat, tau = standardized(x, 0)
    dy = w / tau * (v - v.mean() - hat * np.mean(v * hat)) + dw * hat + db
    yield rate(lambda x, w, b: w * standardized(x, 0)[0] + b, operands, moved), dy


@definition(
    r"y_{nc} = w_c \frac{x_{nc} - \mu_c}{\tau_c} + b_c = \frac{w_c}{\tau_c} x_{nc} + \Bigl( "
    r"b_c - \frac{w_c \mu_c}{\tau_c} \Bigr), \qquad \tau_c = \sqrt{\sigma_c^2 + \epsilon} .",
)
def batch_norm_as_an_affine_map():
    mean, variance = RNG.normal(size=C), RNG.uniform(1, 2, size=C)
    tau = np.sqrt(variance + EPS)
    yield (
        W * (X - mean) / tau + B,
        W / tau * X + (B - W * mean / tau),
        batch_norm_inference(X, mean, variance, W, B, eps=EPS),
    )


@equation(
    r"\dot y = w \Bigl( \frac{\dot x - \dot \mu}{\tau} - \hat x \, \frac{\dot{(\sigma^2)}}{2 "
    r"\tau^2} \Bigr) + \dot w \hat x + \dot b .",
)
def batch_norm_inference_tangent_by_complex_step():
    mean, variance = RNG.normal(size=C), RNG.uniform(1, 2, size=C)
    dmean, dvariance = RNG.normal(size=(2, C))

    def inference(x, mean, variance, w, b):
        return w * (x - mean) / np.sqrt(variance + EPS) + b

    tau = np.sqrt(variance + EPS)
    hat = (X - mean) / tau
    dy = W * ((V - dmean) / tau - hat * dvariance / (2 * tau**2)) + DW * hat + DB
    moved = V, dmean, dvariance, DW, DB
    yield rate(inference, (X, mean, variance, W, B), moved), dy


@definition(
    r"r_t = (1 - m)^t r_0 + \sum_{k=1}^{t} m (1 - m)^{t - k} s_k .",
)
def repeated_updates():
    m, t, start, batches = 0.3, 4, RNG.normal(size=C), RNG.normal(size=(5, C))
    running = start
    for k in range(1, t + 1):
        running = batch_norm_update(running, batches[k], momentum=m)
    weighted = sum(m * (1 - m) ** (t - k) * batches[k] for k in range(1, t + 1))
    yield (1 - m) ** t * start + weighted, running


GROUPS = 2
IMAGES_V, IMAGES_U = RNG.normal(size=(2, 2, P, C))


def grouped(function):
    """Apply a function to the sets of a group of channels of a sample, as rows."""

    def applied(*images):
        rows = [x.reshape(2, P, GROUPS, C // GROUPS).swapaxes(1, 2) for x in images]
        result = function(*(x.reshape(2 * GROUPS, -1) for x in rows))
        return result.reshape(2, GROUPS, P, C // GROUPS).swapaxes(1, 2).reshape(2, P, C)

    return applied


def group_standardized(x):
    return grouped(lambda rows: standardized(rows, -1)[0])(x)


@definition(
    r"\mu = \frac1m \sum_{S} x_{pc}, \qquad \sigma^2 = \frac1m \sum_{S} (x_{pc} - \mu)^2, "
    r"\qquad y_{pc} = w_c \frac{x_{pc} - \mu}{\sqrt{\sigma^2 + \epsilon}} + b_c .",
)
def group_norm_of_each_set():
    y, width = np.empty(IMAGES.shape), C // GROUPS
    for n, p, c in np.ndindex(IMAGES.shape):
        group = range(c // width * width, (c // width + 1) * width)
        members = [IMAGES[n, p, c] for p in range(P) for c in group]
        m = len(members)
        mu = sum(members) / m
        variance = sum((x - mu) ** 2 for x in members) / m
        y[n, p, c] = W[c] * (IMAGES[n, p, c] - mu) / np.sqrt(variance + EPS) + B[c]
    yield y, group_norm(IMAGES, GROUPS, W, B, eps=EPS)


@equation(
    r"\pdv{L}{x_{pc}} = \frac1\tau \bigl( g_{pc} - \overline g - \hat x_{pc} \, \overline{g "
    r"\hat x} \bigr).",
)
def group_norm_gradient_by_complex_step():
    def loss(x):
        return np.sum(IMAGES_U * (W * group_standardized(x) + B))

    g = W * IMAGES_U
    yield gradients(loss, IMAGES)[0], grouped(lambda g, x: projected(g, x, -1))(g, IMAGES)


@equation(
    r"\pdv{L}{w_c} = \sum_{n, p} u_{npc} \hat x_{npc} , \qquad \pdv{L}{b_c} = \sum_{n, p} "
    r"u_{npc} .",
)
def gradients_of_the_weight_and_bias_of_a_channel():
    of_instance = standardized(IMAGES, 1)[0]
    for hat, own in (
        (group_standardized(IMAGES), group_norm_vjp(IMAGES_U, IMAGES, GROUPS, W, B, eps=EPS)),
        (of_instance, instance_norm_vjp(IMAGES_U, IMAGES, W, B, eps=EPS)),
    ):
        of_w, of_b = gradients(lambda w, b, hat=hat: np.sum(IMAGES_U * (w * hat + b)), W, B)
        for c in range(C):
            pairs = [(n, p, c) for n in range(len(IMAGES)) for p in range(P)]
            yield of_w[c], sum(IMAGES_U[at] * hat[at] for at in pairs), own[1][c]
            yield of_b[c], sum(IMAGES_U[at] for at in pairs), own[2][c]


@equation(
    r"\dot y_{pc} = \frac{w_c}{\tau} \bigl( v_{pc} - \overline v - \hat x_{pc} \, \overline{v "
    r"\hat x} \bigr) + \dot w_c \hat x_{pc} + \dot b_c .",
)
def group_norm_tangent_by_complex_step():
    hat = group_standardized(IMAGES)
    of_input = grouped(lambda v, x: projected(v, x, -1))(IMAGES_V, IMAGES)
    dy = rate(lambda x, w, b: w * group_standardized(x) + b, (IMAGES, W, B), (IMAGES_V, DW, DB))
    yield dy, W * of_input + DW * hat + DB


@definition(
    r"\mu_{nc} = \frac1P \sum_p x_{npc}, \qquad \sigma_{nc}^2 = \frac1P \sum_p (x_{npc} - "
    r"\mu_{nc})^2, \qquad y_{npc} = w_c \frac{x_{npc} - \mu_{nc}}{\sqrt{\sigma_{nc}^2 + "
    r"\epsilon}} + b_c .",
)
def instance_norm_of_each_channel():
    y = np.empty(IMAGES.shape)
    for n, p, c in np.ndindex(IMAGES.shape):
        mu = sum(IMAGES[n, p, c] for p in range(P)) / P
        variance = sum((IMAGES[n, p, c] - mu) ** 2 for p in range(P)) / P
        y[n, p, c] = W[c] * (IMAGES[n, p, c] - mu) / np.sqrt(variance + EPS) + B[c]
    yield y, instance_norm(IMAGES, W, B, eps=EPS)


@equation(
    r"\pdv{L}{x_{npc}} = \frac{w_c}{\tau_{nc}} \bigl( u_{npc} - \overline{u}_{nc} - \hat "
    r"x_{npc} \, \overline{(u \hat x)}_{nc} \bigr).",
)
def instance_norm_gradient_by_complex_step():
    def loss(x):
        return np.sum(IMAGES_U * (W * standardized(x, 1)[0] + B))

    hat, tau = standardized(IMAGES, 1)
    mean, along = (z.mean(1, keepdims=True) for z in (IMAGES_U, IMAGES_U * hat))
    yield gradients(loss, IMAGES)[0], W / tau * (IMAGES_U - mean - hat * along)


@equation(
    r"\dot y = \frac{w}{\tau} \bigl( v - \overline v - \hat x \, \overline{v \hat x} \bigr) + "
    r"\dot w \hat x + \dot b .",
)
def instance_norm_tangent_by_complex_step():
    hat, tau = standardized(IMAGES, 1)
    mean, along = (z.mean(1, keepdims=True) for z in (IMAGES_V, IMAGES_V * hat))
    dy = rate(lambda x, w, b: w * standardized(x, 1)[0] + b, (IMAGES, W, B), (IMAGES_V, DW, DB))
    yield dy, W / tau * (IMAGES_V - mean - hat * along) + DW * hat + DB


@definition(
    r"\mu = \frac1D \sum_i x_i, \qquad \sigma^2 = \frac1D \sum_i (x_i - \mu)^2, \qquad \hat "
    r"x_i = \frac{x_i - \mu}{\sqrt{\sigma^2 + \epsilon}}, \qquad y_i = w_i \hat x_i + b_i .",
)
def layer_norm_of_each_row():
    y = np.empty((N, C))
    for n, x in enumerate(X):
        mu = sum(x) / C
        variance = sum((x[i] - mu) ** 2 for i in range(C)) / C
        hat = [(x[i] - mu) / np.sqrt(variance + EPS) for i in range(C)]
        y[n] = [W[i] * hat[i] + B[i] for i in range(C)]
    yield y, layer_norm(X, W, B, eps=EPS)


@equation(
    r"\mu = m + \overline d, \qquad \sigma^2 = \overline{d^2} - \overline d^2 .",
)
def mean_and_variance_from_differences():
    x, m = X[0], 0.3
    d = x - m
    mu = sum(x) / C
    yield mu, m + np.mean(d)
    yield sum((x - mu) ** 2) / C, np.mean(d**2) - np.mean(d) ** 2


@equation(
    r"\dd \hat x_i = \frac{1}{\tau} \bigl( \dd x_i - \overline{\dd x} - \hat x_i \, "
    r"\overline{\hat x\, \dd x} \bigr) , \qquad \dd y_i = w_i\, \dd \hat x_i + \hat x_i\, \dd "
    r"w_i + \dd b_i .",
)
def differential_of_layer_norm():
    hat, tau = standardized(X, 1)
    mean, along = (z.mean(1, keepdims=True) for z in (V, hat * V))
    dhat = (V - mean - hat * along) / tau
    yield rate(lambda x: standardized(x, 1)[0], [X], [V]), dhat
    dy = rate(lambda x, w, b: w * standardized(x, 1)[0] + b, (X, W, B), (V, DW, DB))
    yield dy, W * dhat + hat * DW + DB


@equation(
    r"\pdv{L}{w_i} = \sum_n u_{ni} \hat x_{ni} , \qquad \pdv{L}{b_i} = \sum_n u_{ni} .",
)
def layer_norm_gradients_of_weight_and_bias():
    hat = standardized(X, 1)[0]
    found = gradients(lambda w, b: np.sum(U * (w * standardized(X, 1)[0] + b)), W, B)
    for i in range(C):
        of_w, of_b = sum(U[n, i] * hat[n, i] for n in range(N)), sum(U[n, i] for n in range(N))
        own = layer_norm_vjp(U, X, W, B, eps=EPS)
        yield found[0][i], of_w, own[1][i]
        yield found[1][i], of_b, own[2][i]


@equation(
    r"\pdv{L}{x_j} = \frac{1}{\tau} \Bigl( g_j - \overline{g} - \hat x_j \, \overline{g \hat "
    r"x} \Bigr) .",
)
def layer_norm_gradient_by_complex_step():
    hat, tau = standardized(X, 1)
    g = W * U
    mean, along = (z.mean(1, keepdims=True) for z in (g, g * hat))
    dx = gradients(lambda x: np.sum(U * (W * standardized(x, 1)[0] + B)), X)[0]
    yield dx, (g - mean - hat * along) / tau


@equation(
    r"\overline{g \hat x} = \frac{1}{\tau} \bigl( \overline{g d} - \overline{g} \, "
    r"\overline{d} \bigr) .",
)
def projection_from_shifted_means():
    g, x, m = U[0], X[0], 0.3
    (hat, tau), d = standardized(x, 0), x - m
    yield np.mean(g * hat), (np.mean(g * d) - np.mean(g) * np.mean(d)) / tau


@equation(
    r"\dot y_i = \frac{w_i}{\tau} \Bigl( v_i - \overline{v} - \hat x_i \, \overline{v \hat x} "
    r"\Bigr) + \dot w_i \hat x_i + \dot b_i .",
)
def layer_norm_tangent_by_complex_step():
    hat, tau = standardized(X, 1)
    mean, along = (z.mean(1, keepdims=True) for z in (V, V * hat))
    dy = rate(lambda x, w, b: w * standardized(x, 1)[0] + b, (X, W, B), (V, DW, DB))
    yield dy, W / tau * (V - mean - hat * along) + DW * hat + DB


ROW = X[0]


@equation(
    r"\pdv{\sigma^2}{x_j} = \frac2D \sum_i d_i \Bigl( \delta_{ij} - \frac1D \Bigr) = \frac2D "
    r"d_j, \qquad \text{since } \sum_i d_i = 0,",
)
def slope_of_the_variance_by_complex_step():
    d, bracket = ROW - ROW.mean(), np.eye(C) - 1 / C
    yield jacobian_of(lambda x: x - x.mean(), ROW), bracket  # what is summed with weights d
    slope = gradients(lambda x: np.mean((x - x.mean()) ** 2), ROW)[0]
    sums = [2 / C * sum(d[i] * bracket[i, j] for i in range(C)) for j in range(C)]
    yield slope, sums, 2 / C * d
    yield np.sum(d), 0


@equation(
    r"\pdv{\hat x_i}{x_j} = \frac{1}{\tau} \pdv{d_i}{x_j} - \frac{d_i}{\tau^2} \pdv{\tau}{x_j} "
    r"= \frac1\tau \Bigl( \delta_{ij} - \frac1D - \frac{\hat x_i \hat x_j}{D} \Bigr).",
)
def slope_of_the_normalized_row_by_complex_step():
    d, (hat, tau), delta = ROW - ROW.mean(), standardized(ROW, 0), np.eye(C)
    slope_of_d = jacobian_of(lambda x: x - x.mean(), ROW)
    slope_of_tau = jacobian_of(lambda x: standardized(x, 0)[1], ROW)
    yield (
        jacobian_of(lambda x: standardized(x, 0)[0], ROW),
        slope_of_d / tau - d[:, None] / tau**2 * slope_of_tau,
        (delta - 1 / C - hat[:, None] * hat / C) / tau,
    )


@equation(
    r"\mat J = \frac1\tau \operatorname{diag}(\vec w) \Bigl( \mat I - \underbrace{\tfrac1D "
    r"\vec 1 \vec 1^\top}_{\text{onto } \vec 1} - \underbrace{\tfrac1D \hat{\vec x} \hat{\vec "
    r"x}^\top}_{\text{onto } \hat{\vec x}} \Bigr).",
)
def layer_norm_jacobian_as_a_matrix():
    (hat, tau), one = standardized(ROW, 0), np.ones(C)
    bracket = np.eye(C) - np.outer(one, one) / C - np.outer(hat, hat) / C
    slope = jacobian_of(lambda x: W * standardized(x, 0)[0] + B, ROW)
    yield slope, np.diag(W) @ bracket / tau, layer_norm_jacobian(ROW, W, eps=EPS)


OFFSET = 0.6  # of the weight, c


def root_mean_square(x):
    return np.sqrt(np.sum(x**2, axis=-1, keepdims=True) / x.shape[-1] + EPS)


def rms_normalized(x, w):
    return (w + OFFSET) * x / root_mean_square(x)


@definition(
    r"\rho = \sqrt{\frac1D \sum_i x_i^2 + \epsilon}, \qquad \hat x_i = \frac{x_i}{\rho}, "
    r"\qquad y_i = (w_i + c) \, \hat x_i, \qquad c = \texttt{weight\_offset}.",
)
def rms_norm_of_each_row():
    y = np.empty((N, C))
    for n, x in enumerate(X):
        rho = np.sqrt(sum(x[i] ** 2 for i in range(C)) / C + EPS)
        y[n] = [(W[i] + OFFSET) * x[i] / rho for i in range(C)]
    yield y, rms_norm(X, W, eps=EPS, weight_offset=OFFSET)


@equation(
    r"\pdv{L}{x_j} = \frac{1}{\rho} \bigl( g_j - \hat x_j \, \overline{g \hat x} \bigr).",
)
def rms_norm_gradient_by_complex_step():
    g, rho = (W + OFFSET) * U, root_mean_square(X)
    hat = X / rho
    dx = gradients(lambda x: np.sum(U * rms_normalized(x, W)), X)[0]
    yield dx, (g - hat * np.mean(g * hat, axis=1, keepdims=True)) / rho


@equation(
    r"\dd \hat x_i = \frac{1}{\rho} \bigl( \dd x_i - \hat x_i \, \overline{\hat x\, \dd x} "
    r"\bigr) , \qquad \dd y_i = (w_i + c)\, \dd \hat x_i + \hat x_i\, \dd w_i .",
)
def differential_of_rms_norm():
    rho = root_mean_square(X)
    hat = X / rho
    dhat = (V - hat * np.mean(hat * V, axis=1, keepdims=True)) / rho
    yield rate(lambda x: x / root_mean_square(x), [X], [V]), dhat
    yield rate(rms_normalized, (X, W), (V, DW)), (W + OFFSET) * dhat + hat * DW


@equation(r"\pdv{L}{w_i} = \sum_n u_{ni} \hat x_{ni} .")
def rms_norm_gradient_of_the_weight():
    hat = X / root_mean_square(X)
    found = gradients(lambda w: np.sum(U * rms_normalized(X, w)), W)[0]
    own = rms_norm_vjp(U, X, W, eps=EPS, weight_offset=OFFSET)[1]
    for i in range(C):
        yield found[i], sum(U[n, i] * hat[n, i] for n in range(N)), own[i]


@equation(
    r"\dot y_i = \frac{w_i + c}{\rho} \bigl( v_i - \hat x_i \, \overline{v \hat x} \bigr) + "
    r"\dot w_i \hat x_i",
)
def rms_norm_tangent_by_complex_step():
    rho = root_mean_square(X)
    hat = X / rho
    along = np.mean(V * hat, axis=1, keepdims=True)
    dy = (W + OFFSET) / rho * (V - hat * along) + DW * hat
    yield rate(rms_normalized, (X, W), (V, DW)), dy


@equation(
    r"\pdv{\hat x_i}{x_j} = \frac{\delta_{ij}}{\rho} - \frac{x_i}{\rho^2} \frac{\hat x_j}{D} = "
    r"\frac1\rho \Bigl( \delta_{ij} - \frac{\hat x_i \hat x_j}{D} \Bigr), \qquad \mat J = "
    r"\frac1\rho \operatorname{diag}(\vec w + c) \Bigl( \mat I - \underbrace{\tfrac1D "
    r"\hat{\vec x} \hat{\vec x}^\top}_{\text{onto } \hat{\vec x}} \Bigr).",
)
def rms_norm_jacobian_by_complex_step():
    rho, delta = root_mean_square(ROW), np.eye(C)
    hat = ROW / rho
    yield (
        jacobian_of(lambda x: x / root_mean_square(x), ROW),
        delta / rho - (ROW / rho**2)[:, None] * hat / C,
        (delta - hat[:, None] * hat / C) / rho,
    )
    bracket = np.eye(C) - np.outer(hat, hat) / C
    yield (
        jacobian_of(lambda x: rms_normalized(x, W), ROW),
        np.diag(W + OFFSET) @ bracket / rho,
        rms_norm_jacobian(ROW, W, eps=EPS, weight_offset=OFFSET),
    )


@definition(r"\hat x = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}}, \qquad y = w \hat x + b,")
def standardized_sets_of_all_variants():
    variants = (
        ((0, 1), batch_norm(IMAGES, W, B, eps=EPS)),
        (2, layer_norm(IMAGES, W, B, eps=EPS)),
        ((1, 2), group_norm(IMAGES, 1, W, B, eps=EPS)),
        (1, instance_norm(IMAGES, W, B, eps=EPS)),
    )
    for axes, computed in variants:
        mu, variance = IMAGES.mean(axes, keepdims=True), IMAGES.var(axes, keepdims=True)
        hat = (IMAGES - mu) / np.sqrt(variance + EPS)
        yield W * hat + B, computed


@equation(
    r"""\pdv{L}{x_{nc}} &= \frac{w_c\, u_{nc}}{\tau_c}, &
    \pdv{L}{\mu_c} &= -\frac{w_c}{\tau_c} \sum_n u_{nc}, &
    \pdv{L}{\sigma_c^2} &= -\frac{w_c}{2 \tau_c^2} \sum_n u_{nc} \hat x_{nc}, \\
    \pdv{L}{w_c} &= \sum_n u_{nc} \hat x_{nc}, & \pdv{L}{b_c} &= \sum_n u_{nc} ."""
)
def batch_norm_inference_gradients_by_complex_step():
    n, c, eps = 5, 3, 0.1
    x, u, (mu, w, b), var = (
        *RNG.normal(size=(2, n, c)),
        RNG.normal(size=(3, c)),
        RNG.uniform(size=c),
    )

    def loss(x, mu, var, w, b):
        return np.sum(u * (w * (x - mu) / np.sqrt(var + eps) + b))

    dx, dmu, dvar, dw, db = gradients(loss, x, mu, var, w, b)
    tau = np.sqrt(var + eps)
    hat = (x - mu) / tau
    yield dx, w * u / tau
    yield dmu, -w / tau * sum(u)
    yield dvar, -w / (2 * tau**2) * sum(u * hat)
    yield dw, sum(u * hat)
    yield db, sum(u)


M, R, NEW = 0.3, *RNG.normal(size=(2, 4))


@definition(r"""r' = (1 - m)\, r + m\, s .""")
def one_update():
    yield (1 - M) * R + M * NEW, batch_norm_update(R, NEW, momentum=M)


@equation(r"""\pdv{L}{r} = (1 - m)\, u, \qquad \pdv{L}{s} = m\, u .""")
def update_gradients_by_complex_step():
    u = RNG.normal(size=4)
    dr, ds = gradients(lambda r, s: np.sum(u * ((1 - M) * r + M * s)), R, NEW)
    yield dr, (1 - M) * u
    yield ds, M * u


@equation(r"""\dot r' = (1 - m)\, \dot r + m\, \dot s .""")
def update_tangents_by_complex_step():
    dr, ds = RNG.normal(size=(2, 4))
    moved = rate(lambda r, s: (1 - M) * r + M * s, (R, NEW), (dr, ds))
    yield moved, (1 - M) * dr + M * ds


@definition(r"y_i = \frac{x_i}{\ell} , \qquad \ell = \sqrt{\sum_j x_j^2 + \epsilon}")
def row_of_length_one():
    for x in X:
        length = np.sqrt(sum(value**2 for value in x) + EPS)
        yield [value / length for value in x], l2_norm(x, eps=EPS)


@equation(
    r"""\dd \vec y = \frac{\dd \vec x}{\ell} - \frac{\vec x}{\ell^2}\, \dd \ell
    = \frac1\ell \bigl( \dd \vec x - \vec y\, (\vec y \cdot \dd \vec x) \bigr) .""",
    r"""\dd L = \vec u \cdot \dd \vec y = \frac1\ell \bigl( \vec u
    - \vec y\, (\vec y \cdot \vec u) \bigr) \cdot \dd \vec x .""",
    r"""\pdv{L}{\vec x} = \frac1\ell \bigl( \vec u - \vec y\, (\vec y \cdot \vec u) \bigr) .""",
    r"""\dot{\vec y} = \frac1\ell \bigl( \vec v - \vec y\, (\vec y \cdot \vec v) \bigr)""",
)
def derivatives_of_the_division_by_the_length():
    x, u, v = X[0], U[0], V[0]
    length = np.sqrt(x @ x + EPS)
    y = x / length

    def unit(x):
        return x / np.sqrt(np.sum(x * x) + EPS)

    moved = rate(lambda x: np.sqrt(np.sum(x * x) + EPS), [x], [v])
    pushed = (v - y * (y @ v)) / length
    yield (
        rate(unit, [x], [v]),
        v / length - x / length**2 * moved,
        pushed,
        l2_norm_jvp(x, v, eps=EPS),
    )
    grad = (u - y * (y @ u)) / length
    yield u @ pushed, grad @ v
    yield gradients(lambda x: np.sum(u * unit(x)), x)[0], grad, l2_norm_vjp(u, x, eps=EPS)


@definition(
    r"""y_n = w\, \frac{x_n - \mu}{\sqrt{\sigma^2 + \epsilon}} + b , \qquad
    \mu_\text{run}' = (1 - m)\, \mu_\text{run} + m\, \mu , \qquad
    \sigma_\text{run}'^2 = (1 - m)\, \sigma_\text{run}^2 + m\, \frac{M}{M - 1}\, \sigma^2 ."""
)
def a_training_step():
    m, running, spread = 0.3, DW, DB**2
    for c in range(C):
        x = X[:, c]
        mu = x.sum() / N
        biased = ((x - mu) ** 2).sum() / N
        got = batch_norm_train(X, running, spread, W, B, momentum=m, eps=EPS)
        yield W[c] * (x - mu) / np.sqrt(biased + EPS) + B[c], got[0][:, c]
        yield (1 - m) * running[c] + m * mu, got[1][c]
        yield (1 - m) * spread[c] + m * N / (N - 1) * biased, got[2][c]


@equation(
    r"""\pdv{L}{x_n} = \frac w\tau \bigl( u_n - \overline u - \hat x_n\, \overline{u \hat x}
    \bigr) .""",
    r"""\dot y_n = \frac{w}{\tau} \bigl( v_n - \overline v - \hat x_n\, \overline{v \hat x}
    \bigr) + \dot w\, \hat x_n + \dot b .""",
)
def derivatives_of_a_training_step():
    def f(x, w, b):
        return w * standardized(x, 0)[0] + b

    hat, tau = standardized(X, 0)
    statistics, options = (np.zeros(C), np.ones(C)), {"momentum": 0.3, "eps": EPS}
    got = batch_norm_train_vjp(U, X, *statistics, W, B, **options)
    by_hand = W / tau * (U - U.mean(0) - hat * (U * hat).mean(0))
    yield gradients(lambda x: np.sum(U * f(x, W, B)), X)[0], by_hand, got[0]
    yield gradients(lambda w: np.sum(U * f(X, w, B)), W)[0], got[1]
    yield gradients(lambda b: np.sum(U * f(X, W, b)), B)[0], got[2]
    by_hand = W / tau * (V - V.mean(0) - hat * (V * hat).mean(0)) + DW * hat + DB
    moves = V, *statistics, DW, DB
    yield rate(f, [X, W, B], [V, DW, DB]), by_hand
    yield by_hand, batch_norm_train_jvp((X, *statistics, W, B), moves, **options)
