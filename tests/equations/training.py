"""The displayed equations of dlref.training."""

import itertools

import numpy as np
import scipy.optimize
from equations.ledger import equation
from equations.numeric import complex_step, jacobian_of

from dlref import neurons, training

RATE, EPS = 0.05, 1e-3
START = np.array([0.5, -2.0, 1.0])
GRADIENTS = np.random.default_rng(0).normal(size=(6, 3))


def path(step, *, gradients=GRADIENTS, **options):
    """Yield the parameters after each step of an optimizer of dlref."""
    params, state = START, None
    for g in gradients:
        params, state = step(params, g, state, learning_rate=RATE, **options)
        yield params


# Steps


@equation(
    r"""\theta^+ = \arg\min_{\vec t} \; \vec g \cdot (\vec t - \theta)
    + \frac{1}{2\eta} \norm{\vec t - \theta}^2 .""",
    rtol=1e-6,
)
def sgd():
    theta, g, eta = START, GRADIENTS[0], RATE

    def price(t):
        return np.dot(g, t - theta) + np.sum((t - theta) ** 2) / (2 * eta)

    least = scipy.optimize.minimize(price, theta, tol=1e-12).x
    yield training.sgd_step(theta, g, None, learning_rate=eta)[0], least
    yield jacobian_of(price, theta - eta * g), np.zeros(3)


@equation(
    r"""C(\theta + \vec d) \le C(\theta) - \eta\, \norm{\nabla C}^2
    + \tfrac12 \lambda \eta^2 \norm{\nabla C}^2 ,"""
)
def descent_lemma():
    rng = np.random.default_rng(1)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    for curvature in ([0.3, 1.0, 2.5], [2.5, 2.5, 2.5]):
        hessian = turn @ np.diag(curvature) @ turn.T
        lam = max(curvature)
        for theta in rng.normal(size=(10, 3)):
            slope = hessian @ theta
            for eta in (0.1, 1 / lam, 1.9 / lam, 3 / lam):
                there = theta - eta * slope
                left = there @ hessian @ there / 2
                right = theta @ hessian @ theta / 2
                right += -eta * slope @ slope + lam * eta**2 * slope @ slope / 2
                yield left <= right + 1e-12, True
                if len(set(curvature)) == 1:
                    yield left, right  # where all curvatures are the bound, both are equal


@equation(
    r"""\vec v_1 = \vec g_1 , \qquad
    \vec v_t = \mu\, \vec v_{t-1} + (1 - \tau)\, \vec g_t , \qquad
    \theta_t = \theta_{t-1} - \eta\, \vec v_t ."""
)
def momentum():
    mu, tau = 0.9, 0.3
    theta, v = START, GRADIENTS[0]
    steps = path(training.momentum_step, momentum=mu, dampening=tau)
    for t, g in enumerate(GRADIENTS, 1):
        v = v if t == 1 else mu * v + (1 - tau) * g
        theta = theta - RATE * v
        yield next(steps), theta


@equation(r"\vec v_t = \sum_{s=1}^{t} \mu^{t-s}\, \vec g_s .")
def velocity_unrolled():
    mu, v = 0.9, 0
    for t in range(1, 7):
        v = mu * v + GRADIENTS[t - 1]
        yield v, sum(mu ** (t - s) * GRADIENTS[s - 1] for s in range(1, t + 1))


@equation(r"""\theta_t - \theta_{t-1} = \mu (\theta_{t-1} - \theta_{t-2}) - \eta\, \vec g_t ,""")
def ball_with_inertia():
    mu = 0.9
    theta = [START, *path(training.momentum_step, momentum=mu)]
    for t in range(2, 7):
        left = theta[t] - theta[t - 1]
        yield left, mu * (theta[t - 1] - theta[t - 2]) - RATE * GRADIENTS[t - 1]


def quadratic_slope(at):
    """Return the gradient of a cost with the curvatures 1, 2 and 3."""
    return np.array([1.0, 2.0, 3.0]) * at


def nesterov_path(mu):
    """Yield theta, the velocity and the look-ahead point as the first form of the method says."""
    theta, v = START, np.zeros(3)
    yield theta, v, theta
    for _ in range(5):
        v = mu * v + quadratic_slope(theta - RATE * mu * v)
        theta = theta - RATE * v
        yield theta, v, theta - RATE * mu * v


@equation(
    r"""\vec v_t = \mu\, \vec v_{t-1} + \nabla C(\tilde\theta_{t-1}) , \qquad
    \theta_t = \theta_{t-1} - \eta\, \vec v_t ."""
)
def nesterov():
    mu, params, state = 0.8, START, None
    points = list(nesterov_path(mu))
    for _, _, phi in points[1:]:  # what dlref holds is the look-ahead point
        grads = quadratic_slope(params)
        params, state = training.nesterov_step(
            params, grads, state, learning_rate=RATE, momentum=mu
        )
        yield params, phi


@equation(
    r"""\tilde\theta_t = \theta_t - \eta \mu\, \vec v_t
    = \tilde\theta_{t-1} + \eta \mu\, \vec v_{t-1} - \eta\, \vec v_t - \eta \mu\, \vec v_t
    = \tilde\theta_{t-1} - \eta\, (\vec g_t + \mu\, \vec v_t) ."""
)
def look_ahead():
    mu = 0.8
    for (_, v_before, phi_before), (theta, v, phi) in itertools.pairwise(nesterov_path(mu)):
        g = quadratic_slope(phi_before)
        yield (
            phi,
            theta - RATE * mu * v,
            phi_before + RATE * mu * v_before - RATE * v - RATE * mu * v,
            phi_before - RATE * (g + mu * v),
        )


# Rates for each parameter


@equation(
    r"""s_t = s_{t-1} + g_t^2 , \qquad
    \theta_t = \theta_{t-1} - \eta\, \frac{g_t}{\sqrt{s_t} + \epsilon} ."""
)
def adagrad():
    theta, s = START, 0.0
    steps = path(training.adagrad_step, eps=EPS)
    for g in GRADIENTS:
        s = s + g**2
        theta = theta - RATE * g / (np.sqrt(s) + EPS)
        yield next(steps), theta


@equation(
    r"""s_t = \alpha\, s_{t-1} + (1 - \alpha)\, g_t^2 , \qquad
    d_t = \frac{g_t}{\sqrt{s_t} + \epsilon} , \qquad
    v_t = \mu\, v_{t-1} + d_t , \qquad \theta_t = \theta_{t-1} - \eta\, v_t ."""
)
def rmsprop():
    alpha, mu = 0.9, 0.7
    theta, s, v = START, 0.0, 0.0
    steps = path(training.rmsprop_step, alpha=alpha, momentum=mu, eps=EPS)
    for g in GRADIENTS:
        s = alpha * s + (1 - alpha) * g**2
        d = g / (np.sqrt(s) + EPS)
        v = mu * v + d
        theta = theta - RATE * v
        yield next(steps), theta


BETA_1, BETA_2 = 0.8, 0.9


def running_means():
    """Yield t and the two means of the gradient and of its square."""
    m, v = 0.0, 0.0
    for t, g in enumerate(GRADIENTS, 1):
        m = BETA_1 * m + (1 - BETA_1) * g
        v = BETA_2 * v + (1 - BETA_2) * g**2
        yield t, m, v


@equation(
    r"""\E[m_t] = (1 - \beta_1)\, \E[g] \sum_{s=1}^{t} \beta_1^{t-s}
    = (1 - \beta_1^t)\, \E[g] ,"""
)
def bias_of_the_start():
    values, t = np.array([-1.0, 0.5, 3.0]), 4  # of a gradient, equally likely
    means = []
    for draw in itertools.product(values, repeat=t):
        m = 0.0
        for g in draw:
            m = BETA_1 * m + (1 - BETA_1) * g
        means.append(m)
    series = sum(BETA_1 ** (t - s) for s in range(1, t + 1))
    expected = values.mean()
    yield np.mean(means), (1 - BETA_1) * expected * series, (1 - BETA_1**t) * expected


@equation(
    r"""m_t &= \beta_1 m_{t-1} + (1 - \beta_1)\, g_t , &
    \qquad \hat m_t &= \frac{m_t}{1 - \beta_1^t} , \\
    v_t &= \beta_2 v_{t-1} + (1 - \beta_2)\, g_t^2 , &
    \qquad \hat v_t &= \frac{v_t}{1 - \beta_2^t} , \\
    \theta_t &= \theta_{t-1} - \eta\, \frac{\hat m_t}{\sqrt{\hat v_t} + \epsilon} ."""
)
def adam():
    theta, state = START, None
    steps = path(training.adam_step, betas=(BETA_1, BETA_2), eps=EPS)
    for t, m, v in running_means():
        g = GRADIENTS[t - 1]
        _, state = training.adam_step(START, g, state, learning_rate=RATE, betas=(BETA_1, BETA_2))
        yield state[1], m
        yield state[2], v
        m_hat, v_hat = m / (1 - BETA_1**t), v / (1 - BETA_2**t)
        theta = theta - RATE * m_hat / (np.sqrt(v_hat) + EPS)
        yield next(steps), theta


@equation(
    r"""\theta_t = (1 - \eta \lambda)\, \theta_{t-1}
    - \eta\, \frac{\hat m_t}{\sqrt{\hat v_t} + \epsilon} ,"""
)
def adamw():
    theta, lam = START, 0.3
    steps = path(training.adamw_step, betas=(BETA_1, BETA_2), eps=EPS, weight_decay=lam)
    for t, m, v in running_means():
        m_hat, v_hat = m / (1 - BETA_1**t), v / (1 - BETA_2**t)
        theta = (1 - RATE * lam) * theta - RATE * m_hat / (np.sqrt(v_hat) + EPS)
        yield next(steps), theta


@equation(
    r"""c_t = \beta_1 m_{t-1} + (1 - \beta_1)\, g_t , \qquad
    \theta_t = (1 - \eta \lambda)\, \theta_{t-1} - \eta \operatorname{sign}(c_t) , \qquad
    m_t = \beta_2 m_{t-1} + (1 - \beta_2)\, g_t ."""
)
def lion():
    theta, m, lam = START, 0.0, 0.3
    steps = path(training.lion_step, betas=(BETA_1, BETA_2), weight_decay=lam)
    for g in GRADIENTS:
        c = BETA_1 * m + (1 - BETA_1) * g
        theta = (1 - RATE * lam) * theta - RATE * np.sign(c)
        m = BETA_2 * m + (1 - BETA_2) * g
        yield next(steps), theta


@equation(
    r"""\abs{\theta_t} - \frac{1}{\lambda} \le (1 - \eta \lambda)
    \Bigl( \abs{\theta_{t-1}} - \frac{1}{\lambda} \Bigr) ,"""
)
def bound_of_decayed_weights():
    lam = 0.4
    before = START
    closest = -np.inf
    for after in path(training.lion_step, weight_decay=lam, gradients=3 * [START, -START]):
        left = np.abs(after) - 1 / lam
        right = (1 - RATE * lam) * (np.abs(before) - 1 / lam)
        yield left <= right + 1e-15, np.full(3, True)
        closest, before = max(closest, np.max(left - right)), after
    yield closest, 0.0  # where the sign is against the weight, both are equal


# Singular values


def quintic(s, a, b, c):
    """Return the polynomial of a singular value."""
    return a * s + b * s**3 + c * s**5


@equation(
    r"""\mat X_0 = \frac{\mat X}{\max(\norm{\mat X}_F, \epsilon)} , \qquad
    \mat A_k = \mat X_k \mat X_k^\top , \qquad
    \mat X_{k+1} = a\, \mat X_k + (b\, \mat A_k + c\, \mat A_k^2)\, \mat X_k ."""
)
def newton_schulz():
    X, (a, b, c) = GRADIENTS, (3.1, -4.2, 1.9)
    for eps in (EPS, 100.0):
        X_k = X / max(np.sqrt(np.sum(X**2)), eps)
        for k in range(5):
            options = {"coefficients": (a, b, c), "eps": eps, "steps": k}
            yield training.newton_schulz(X, **options), X_k
            A = X_k @ X_k.T
            X_k = a * X_k + (b * A + c * A @ A) @ X_k


@equation(
    r"""\mat X_{k+1} = \mat U\, p(\mat S_k)\, \mat V^\top , \qquad
    p(s) = a s + b s^3 + c s^5 ."""
)
def polynomial_of_singular_values():
    a, b, c = 3.1, -4.2, 1.9
    X = GRADIENTS / np.sqrt(np.sum(GRADIENTS**2))
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    A = X @ X.T
    yield a * X + (b * A + c * A @ A) @ X, U @ np.diag(quintic(s, a, b, c)) @ Vt


@equation(r"(a, b, c) = \Bigl( \frac{15}{8}, -\frac{10}{8}, \frac{3}{8} \Bigr) .")
def coefficients_that_converge():
    # p(1) = 1, p'(1) = 0, p''(1) = 0
    conditions = [[1, 1, 1], [1, 3, 5], [0, 6, 20]]
    yield np.linalg.solve(conditions, [1, 0, 0]), (15 / 8, -10 / 8, 3 / 8)


@equation(
    r"""\mat M_t &= \mu\, \mat M_{t-1} + (1 - \mu)\, \mat G_t , \qquad
    \mat N_t = (1 - \mu)\, \mat G_t + \mu\, \mat M_t , \\
    \mat W_t &= (1 - \eta \lambda)\, \mat W_{t-1} - \eta\, r\, \operatorname{NS}(\mat N_t) ,
    \qquad r = \sqrt{\max(1, n / m)} ,"""
)
def muon():
    mu, lam = 0.7, 0.3
    for n, m in ((5, 2), (2, 5)):
        W, M, state = np.ones((n, m)), np.zeros((n, m)), None
        got = W
        for G in np.random.default_rng(0).normal(size=(4, n, m)):
            M = mu * M + (1 - mu) * G
            N = (1 - mu) * G + mu * M
            r = np.sqrt(max(1, n / m))
            W = (1 - RATE * lam) * W - RATE * r * training.newton_schulz(N)
            options = {"learning_rate": RATE, "momentum": mu, "weight_decay": lam}
            got, state = training.muon_step(got, G, state, **options)
            yield got, W


@equation(
    r"""\min_{\norm{\mat O}_2 \le 1} \; \sum_{ij} G_{ij}\, O_{ij} = -\sum_k s_k ,
    \qquad \mat O = -\mat U \mat V^\top ,"""
)
def steepest_step_of_bounded_singular_values():
    G, rng = GRADIENTS, np.random.default_rng(0)
    U, s, Vt = np.linalg.svd(G, full_matrices=False)
    O = -U @ Vt
    yield np.linalg.norm(O, 2), 1.0
    yield np.sum(G * O), -np.sum(s)
    for _ in range(100):
        other = O + rng.normal(size=G.shape) * rng.choice([1e-3, 0.1, 10.0])
        other /= max(1, np.linalg.norm(other, 2))
        yield np.sum(G * other) >= -np.sum(s) - 1e-12, True


# Targets of diffusion models


@equation(
    r"""z &= \alpha x + \sigma \epsilon , \\
    y_{noise} &= \epsilon , \qquad
    y_{data} = x , \qquad
    y_{velocity} = \alpha \epsilon - \sigma x , \qquad
    y_{flow} = \epsilon - x ."""
)
def targets_of_diffusion():
    x, eps, alpha, sigma = START, GRADIENTS[0], 0.7, 0.4
    targets = {
        "noise": eps,
        "data": x,
        "velocity": alpha * eps - sigma * x,
        "flow": eps - x,
    }
    for kind, y in targets.items():
        yield training.diffusion_target(x, eps, alpha, sigma, kind=kind), y
    z = alpha * x + sigma * eps
    y = targets["velocity"]
    yield z, (alpha**2 + sigma**2) / alpha * x + sigma / alpha * y


@equation(
    r"""\epsilon - \hat\epsilon = -\frac{\alpha}{\sigma} (x - \hat x) , \qquad
    y_{velocity} - \hat y_{velocity} = -\frac{\alpha^2 + \sigma^2}{\sigma} (x - \hat x) , \qquad
    y_{flow} - \hat y_{flow} = -\frac{\alpha + \sigma}{\sigma} (x - \hat x) ."""
)
def errors_of_diffusion():
    x, eps, alpha, sigma = START, GRADIENTS[0], 0.7, 0.4
    z, x_hat = alpha * x + sigma * eps, GRADIENTS[1]
    eps_hat = (z - alpha * x_hat) / sigma

    def error(kind):
        y, y_hat = (
            training.diffusion_target(data, noise, alpha, sigma, kind=kind)
            for data, noise in ((x, eps), (x_hat, eps_hat))
        )
        return y - y_hat

    yield eps - eps_hat, -alpha / sigma * (x - x_hat)
    yield error("velocity"), -(alpha**2 + sigma**2) / sigma * (x - x_hat)
    yield error("flow"), -(alpha + sigma) / sigma * (x - x_hat)


@equation(
    r"""\dv{z}{\phi} = \alpha \epsilon - \sigma x , \qquad
    \dv{z}{t} = \epsilon - x ,"""
)
def velocity_of_the_mixture():
    x, eps, phi, t = START, GRADIENTS[0], 0.3, 0.2
    alpha, sigma = np.cos(phi), np.sin(phi)
    yield complex_step(lambda p: np.cos(p) * x + np.sin(p) * eps, phi), alpha * eps - sigma * x
    yield complex_step(lambda t: (1 - t) * x + t * eps, t), eps - x


# Clipping and schedules


@equation(r"\vec g \; \leftarrow \; \vec g\, \min\Bigl( 1, \frac{c}{\norm{\vec g}} \Bigr) .")
def clipping():
    for g in GRADIENTS:
        for c in (0.5, 1.0, 9.0):
            norm = np.sqrt(np.sum(g**2))
            yield training.clip_by_norm((g[:1], g[1:]), c)[1], (g * min(1, c / norm))[1:]


PEAK, WARMUP, LAST, FLOOR = 0.7, 4, 10, 0.1


@equation(r"\eta_t = \eta\, \min\Bigl( 1, \frac{t}{W} \Bigr) .")
def warmup():
    for t in range(1, 9):
        rate = training.warmup_schedule(t, peak=PEAK, warmup=WARMUP)
        yield rate, PEAK * min(1, t / WARMUP)


@equation(
    r"""\eta_t = \eta_{min} + \frac{\eta - \eta_{min}}{2}
    \Bigl( 1 + \cos \pi \frac{t - W}{T - W} \Bigr) ."""
)
def cosine():
    def rate(t):
        turn = np.cos(np.pi * (t - WARMUP) / (LAST - WARMUP))
        return FLOOR + (PEAK - FLOOR) / 2 * (1 + turn)

    for t in range(WARMUP, LAST + 1):
        got = training.cosine_schedule(t, peak=PEAK, warmup=WARMUP, steps=LAST, floor=FLOOR)
        yield got, rate(t)
    yield rate(WARMUP), PEAK
    yield rate(LAST), FLOOR
    for end in (WARMUP, LAST):  # its slope
        yield complex_step(rate, end), 0


@equation(r"\eta_t = \eta\, \min\Bigl( \frac tW, \sqrt{\frac Wt} \Bigr) .")
def inverse_square_root():
    d = 16
    for t in range(1, 30):
        peak = (d * WARMUP) ** -0.5
        rate = peak * min(t / WARMUP, np.sqrt(WARMUP / t))
        yield training.inverse_sqrt_schedule(t, peak=peak, warmup=WARMUP), rate
        yield rate, d**-0.5 * min(t**-0.5, t * WARMUP**-1.5)  # the Transformer's


# Batches


@equation(
    r"""\vec g_B = \frac1m \sum_{n \in B} \nabla \ell_n , \qquad
    \E \vec g_B = \frac1N \sum_{n=1}^{N} \nabla \ell_n ,"""
)
def gradient_of_a_batch():
    m, N = 2, len(GRADIENTS)
    means = [sum(GRADIENTS[n] for n in B) / m for B in itertools.combinations(range(N), m)]
    yield np.mean(means, axis=0), sum(GRADIENTS) / N


@equation(r"\operatorname{Var} g_B = \frac{S^2}{m} \Bigl( 1 - \frac mN \Bigr) .")
def noise_of_a_batch():
    g = GRADIENTS[:, 0]
    N = len(g)
    square = np.sum((g - g.mean()) ** 2) / (N - 1)
    for m in range(1, N + 1):
        means = [g[list(B)].mean() for B in itertools.combinations(range(N), m)]
        yield np.var(means), square / m * (1 - m / N)


# The loss of a deep network

X, CLASSES = np.random.default_rng(2).normal(size=(4, 3)), np.array([0, 1, 1, 0])
LAYERS = [
    (np.random.default_rng(3).normal(size=(5, 3)), np.random.default_rng(4).normal(size=5)),
    (np.random.default_rng(5).normal(size=(2, 5)), np.random.default_rng(6).normal(size=2)),
]


def logits(x, layers=LAYERS):
    """Return the outputs of a network with tanh between its layers."""
    (w1, b1), (w2, b2) = layers
    return w2 @ np.tanh(w1 @ x + b1) + b2


def cost_of(z, target):
    """Return the cross-entropy of logits."""
    return np.log(np.sum(np.exp(z))) - z[target]


@equation(
    r"""L(\theta) = \frac{1}{N} \sum_{n=1}^{N}
    \ell\bigl(\operatorname{mlp}(\vec x_n; \theta), t_n\bigr) ."""
)
def loss_of_a_network():
    layers = [neurons.LinearParams(*layer) for layer in LAYERS]
    want = sum(cost_of(logits(x), t) for x, t in zip(X, CLASSES, strict=True)) / len(X)
    yield training.mlp_loss(X, CLASSES, layers, activation="tanh"), want


@equation(r"\vec \delta_K^{(n)} = \frac{1}{N} (\vec p_n - \vec t_n) ,")
def cotangent_of_the_logits():
    z = np.array([logits(x) for x in X])

    def cost(z):
        return sum(cost_of(row, t) for row, t in zip(z, CLASSES, strict=True)) / len(X)

    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    yield jacobian_of(cost, z), (p - np.eye(2)[CLASSES]) / len(X)


# The regret of Adagrad


def descent(gradients, rates, theta=0.2):
    """Return the points of descent on linear losses, kept in [-1, 1]."""
    points = [theta]
    for g, eta in zip(gradients, rates, strict=True):
        points.append(np.clip(points[-1] - eta * g, -1, 1))
    return np.array(points)


@equation(
    r"""(\theta_t - \theta^*)^2 - (\theta_{t-1} - \theta^*)^2
    = -2 \eta_t g_t (\theta_{t-1} - \theta^*) + \eta_t^2 g_t^2 ."""
)
def squared_distance_after_a_step():
    before, best, g, eta = np.random.default_rng(0).normal(size=(4, 20))
    after = before - eta * g
    left = (after - best) ** 2 - (before - best) ** 2
    yield left, -2 * eta * g * (before - best) + eta**2 * g**2


@equation(
    r"""\sum_{t=1}^{n} g_t (\theta_{t-1} - \theta^*)
    \le \frac{D^2}{2 \eta_n} + \frac12 \sum_{t=1}^{n} \eta_t g_t^2 .""",
    r"""\sum_{t=1}^{n} \frac{g_t^2}{\sqrt{s_t}} \le 2 \sqrt{s_n} , \qquad
    \text{regret} \le \Bigl( \frac{D^2}{2 \eta} + \eta \Bigr) \sqrt{s_n} ,""",
)
def regret_of_adagrad():
    rng, D = np.random.default_rng(0), 2.0
    drawn = [rng.normal(rng.normal(), 1, size=30) * rng.exponential(size=30) for _ in range(100)]
    short = [
        np.array(g) for n in range(1, 5) for g in itertools.product((-2.0, 1.0, 3.0), repeat=n)
    ]
    closest = 0.0
    for g in (*drawn, *short):
        s = np.cumsum(g**2)
        yield np.sum(g**2 / np.sqrt(s)) <= 2 * np.sqrt(s[-1]), True
        for eta, start in itertools.product((D / 4, D / 2, D / np.sqrt(2), 2 * D), (-1, 0.2, 1)):
            rates = eta / np.sqrt(s)
            points = descent(g, rates, start)
            for best in (-1, 1):  # of a linear loss, the best point is an end
                regret = np.sum(g * (points[:-1] - best))
                bound = D**2 / (2 * rates[-1]) + np.sum(rates * g**2) / 2
                of_root = (D**2 / (2 * eta) + eta) * np.sqrt(s[-1])
                assert regret <= bound * (1 + 1e-12), (g, eta, start)
                assert regret <= of_root * (1 + 1e-12), (g, eta, start)
                closest = max(closest, regret / of_root)
    yield closest > 0.7, True  # much less of a bound would be too little: D^2 / (4 eta) + eta is
    many = np.ones(100_000)
    yield round(np.sum(many / np.sqrt(np.cumsum(many))) / np.sqrt(many.size), 2), 2.0  # sharp
