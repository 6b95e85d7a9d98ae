"""The displayed equations of dlref.training."""

import functools
import itertools

import numpy as np
import scipy.optimize
from equations.evaluate import From, Of, Random, each
from equations.ledger import equation, reads
from equations.numeric import complex_step, jacobian_of

from dlref import neurons, training
from dlref.formulas import training as formulas

RATE, EPS = 0.05, 1e-3
START = np.array([0.5, -2.0, 1.0])
GRADIENTS = np.random.default_rng(0).normal(size=(6, 3))


def path(step, *, gradients=GRADIENTS, **options):
    """Yield the parameters after each step of an optimizer of dlref."""
    params, state = START, None
    for g in gradients:
        params, state = step(params, g, state, learning_rate=RATE, **options)
        yield params


def run(step, state, *, gradients=GRADIENTS, **options):
    """Return the environment of all steps of an optimizer; its state has names, 0 at first."""
    thetas, states, known = [START], [], None
    for g in gradients:
        theta, known = step(thetas[-1], g, known, learning_rate=RATE, **options)
        thetas.append(theta)
        states.append(known[1:])
    env = {r"\theta": From(0, thetas), "g": From(1, gradients), r"\eta": RATE, r"\epsilon": EPS}
    for name, values in zip(state, zip(*states, strict=True), strict=False):
        if name:
            env[name] = From(0, [0 * START, *values])
    return {**env, "t": range(1, len(gradients) + 1)}


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


@reads(r"\vec v_1 = \vec g_1 , \qquad \vec v_t = \mu\, \vec v_{t-1} + (1 - \tau)\, \vec g_t …")
def momentum():
    env = run(formulas.momentum_step, ["v"], momentum=0.9, dampening=0.3)
    return {**env, r"\mu": 0.9, r"\tau": 0.3, "t": range(2, 7)}


@reads(r"\vec v_t = \sum_{s=1}^{t} \mu^{t-s}\, \vec g_s .")
def velocity_unrolled():
    return {**run(formulas.momentum_step, ["v"], momentum=0.9), r"\mu": 0.9}


@reads(r"""\theta_t - \theta_{t-1} = \mu (\theta_{t-1} - \theta_{t-2}) - \eta\, \vec g_t ,""")
def ball_with_inertia():
    return {**run(formulas.momentum_step, ["v"], momentum=0.9), r"\mu": 0.9, "t": range(2, 7)}


@reads(
    r"\vec v_t = \mu\, \vec v_{t-1} + \nabla C(\tilde\theta_{t-1}) , \qquad \theta_t…",
    r"\tilde\theta_t = \theta_t - \eta \mu\, \vec v_t…",
)
def of_nesterov():
    """Return the environment of the method that holds the look-ahead point."""
    mu, ahead, velocity, state = 0.8, [START], [0 * START], None
    for _ in range(5):
        grads = quadratic_slope(ahead[-1])
        options = {"learning_rate": RATE, "momentum": mu}
        point, state = formulas.nesterov_step(ahead[-1], grads, state, **options)
        ahead.append(point)
        velocity.append(state[1])
    v, ahead = np.array(velocity), np.array(ahead)
    arrays = {r"\tilde\theta": ahead, "v": v, r"\theta": ahead + RATE * mu * v}
    env = {name: From(0, a) for name, a in arrays.items()}
    env |= {r"\nabla C": quadratic_slope, "g": From(1, quadratic_slope(ahead[:-1]))}
    return {**env, r"\mu": mu, r"\eta": RATE, "t": range(1, 6)}


def quadratic_slope(at):
    """Return the gradient of a cost with the curvatures 1, 2 and 3."""
    return np.array([1.0, 2.0, 3.0]) * at


# Rates for each parameter


@reads(r"s_t = s_{t-1} + g_t^2 , \qquad \theta_t…")
def adagrad():
    return run(formulas.adagrad_step, ["s"], eps=EPS)


@reads(r"s_t = \alpha\, s_{t-1} + (1 - \alpha)\, g_t^2 , \qquad d_t…")
def rmsprop():
    env = run(formulas.rmsprop_step, ["s", "", "v"], alpha=0.9, momentum=0.7, eps=EPS)
    return {**env, r"\alpha": 0.9, r"\mu": 0.7}


BETA_1, BETA_2 = 0.8, 0.9
BETAS = {r"\beta_1": BETA_1, r"\beta_2": BETA_2}


@reads(r"\E[m_t] = (1 - \beta_1)\, \E[g] \sum_{s=1}^{t} \beta_1^{t-s} = (1 - \beta_1^t)\, \E[g] ,")
def bias_of_the_start():
    t, names = 4, [f"g_{s}" for s in range(1, 5)]
    drawn = [Random([1, 1, 1], **{name: [-1.0, 0.5, 3.0]}) for name in [*names, "g"]]

    def average(*gradients):
        m = 0.0
        for g in gradients:
            m = BETA_1 * m + (1 - BETA_1) * g
        return m

    given = {**dict.fromkeys([*names, "g"], 0.0), r"\E": drawn, r"\beta_1": BETA_1, "t": t}
    return {**given, "m_t": Of(average, *names)}


@reads(r"m_t &= \beta_1 m_{t-1} + (1 - \beta_1)\, g_t , & \qquad \hat m_t…")
def adam():
    return {**run(formulas.adam_step, ["m", "v"], betas=(BETA_1, BETA_2), eps=EPS), **BETAS}


@reads(r"\theta_t = (1 - \eta \lambda)\, \theta_{t-1} - \eta\,…")
def adamw():
    options = {"betas": (BETA_1, BETA_2), "eps": EPS, "weight_decay": 0.3}
    env = run(formulas.adamw_step, ["m", "v"], **options)
    t = np.arange(1, 7)[:, None]
    hats = {r"\hat m": env["m"].values[1:] / (1 - BETA_1**t)}
    hats |= {r"\hat v": env["v"].values[1:] / (1 - BETA_2**t)}
    return {**env, **{key: From(1, a) for key, a in hats.items()}, r"\lambda": 0.3}


@reads(
    r"\mu_t &= \beta_1 \left( 1 - \tfrac12\, 0.96^{\psi t} \right) , \qquad \Pi_t…",
    r"1 - \bigl( \mu_t\, (1 - \Pi_{t-1}) + (1 - \mu_t) \bigr) = \Pi_t .",
)
def of_nadam():
    """Return the environment of steps of NAdam, with the momentum and its products."""
    psi = 3.0
    options = {"betas": (BETA_1, BETA_2), "eps": EPS, "momentum_decay": psi}
    env = run(formulas.nadam_step, ["", "m", "v"], **options)
    mu = BETA_1 * (1 - 0.96 ** (psi * np.arange(1, 8)) / 2)
    square = env["v"].values[1:] / (1 - BETA_2 ** np.arange(1, 7)[:, None])
    products = np.array([1.0, *np.cumprod(mu)])
    old, new = (a[:, None] for a in (1 - products[1:-1], 1 - products[2:]))
    mixture = mu[1:, None] * env["m"].values[1:] / new + (1 - mu[:-1, None]) * GRADIENTS / old
    env |= {r"\mu": From(1, mu), r"\Pi": From(0, products), "n": From(1, mixture)}
    return {**env, **BETAS, r"\hat v": From(1, square), r"\psi": psi}


@reads(r"c_t = \beta_1 m_{t-1} + (1 - \beta_1)\, g_t , \qquad \theta_t…")
def lion():
    gradients = np.random.default_rng(1).normal(size=(60, 3))
    options = {"betas": (BETA_1, BETA_2), "weight_decay": 0.3}
    env = run(formulas.lion_step, ["m"], gradients=gradients, **options)
    return {**env, **BETAS, r"\lambda": 0.3}


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


@equation(
    r"""r_i &\leftarrow (1 - t^\gamma)\, r_i + t^\gamma\, \frac1m \sum_j G_{ij}^2 , \qquad
    c_j \leftarrow (1 - t^\gamma)\, c_j + t^\gamma\, \frac1n \sum_i G_{ij}^2 , \\
    V_{ij} &= \frac{r_i\, c_j}{\max(\frac1n \sum_k r_k, \epsilon_1)} , \qquad
    D_{ij} = \frac{G_{ij}}{\max(\sqrt{V_{ij}}, \epsilon_1)} , \\
    \mat W &\leftarrow (1 - \eta \lambda)\, \mat W
    - \min\Bigl(\eta, \tfrac{1}{\sqrt t}\Bigr)
    \frac{\max(\operatorname{rms}(\mat W), \epsilon_2)}{\max(1, \operatorname{rms}(\mat D) / d)}
    \, \mat D ."""
)
def adafactor():
    n, m, gamma, lam = 3, 4, -0.6, 0.2
    rng = np.random.default_rng(2)
    for eta, eps1, eps2, d in ((0.5, 1e-3, 1e-3, 1.0), (2.0, 1.5, 3.0, 0.25)):
        W, r, c, state = rng.normal(size=(n, m)), np.zeros(n), np.zeros(m), None
        for t in (1, 2, 3):
            G = rng.normal(size=(n, m))
            options = {"eps": (eps1, eps2), "d": d, "weight_decay": lam, "beta2_decay": gamma}
            moved, state = formulas.adafactor_step(W, G, state, learning_rate=eta, **options)
            for i in range(n):
                r[i] = (1 - t**gamma) * r[i] + t**gamma / m * sum(G[i, j] ** 2 for j in range(m))
            for j in range(m):
                c[j] = (1 - t**gamma) * c[j] + t**gamma / n * sum(G[i, j] ** 2 for i in range(n))
            mean = max(sum(r) / n, eps1)
            V = np.array([[r[i] * c[j] / mean for j in range(m)] for i in range(n)])
            D = G / np.maximum(np.sqrt(V), eps1)
            rms_of_w, rms_of_d = (np.linalg.norm(a) / np.sqrt(a.size) for a in (W, D))
            factor = min(eta, 1 / np.sqrt(t)) * max(rms_of_w, eps2) / max(1, rms_of_d / d)
            yield moved, (1 - eta * lam) * W - factor * D
            yield state[1][:, 0], r.copy()
            yield state[2][0], c.copy()
            W = moved


def nearest_of_rank_one():
    """Return a positive matrix, and the row and column that a search finds."""
    S = np.random.default_rng(3).uniform(0.5, 2.0, (2, 3))

    def divergence(logs):
        product = np.exp(logs[:2, None] + logs[2:])
        return np.sum(S * np.log(S / product) - S + product)

    found = scipy.optimize.minimize(divergence, np.zeros(5), tol=1e-12).x
    return S, np.exp(found[:2]), np.exp(found[2:])


@reads(r"\sum_j \Bigl( c_j - \frac{S_{ij}}{r_i} \Bigr) = 0 , \qquad r_i…", rtol=1e-05, atol=1e-06)
def slope_of_the_divergence():
    S, r, c = nearest_of_rank_one()
    return {"S": S, "r": r, "c": c}


@reads(r"""r_i\, c_j = \frac{\sum_l S_{il} \sum_k S_{kj}}{\sum_{kl} S_{kl}} ,""", rtol=1e-05)
def product_of_sums():
    S, r, c = nearest_of_rank_one()
    return {"S": S, "r": r, "c": c}


# Singular values


def quintic(s, a, b, c):
    """Return the polynomial of a singular value."""
    return a * s + b * s**3 + c * s**5


@reads(r"\mat X_0 = \frac{\mat X}{\max(\norm{\mat X}_F, \epsilon)} , \qquad \mat A_k…")
def newton_schulz():
    (a, b, c), rows = (3.1, -4.2, 1.9), []
    for eps in (EPS, 100.0):
        options = {"coefficients": (a, b, c), "eps": eps}
        X = np.array([training.newton_schulz(GRADIENTS, steps=k, **options) for k in range(6)])
        given = {"X": GRADIENTS, r"\epsilon": eps, "a": a, "b": b, "c": c, "k": range(5)}
        rows.append({**given, "X_0": X[0], "X_k": lambda k, X=X: X[k], "X": GRADIENTS})
    return [
        {**row, "X_k": row["X_k"](k), "X_{k+1}": row["X_k"](k + 1)}
        for row in rows
        for k in range(5)
    ]


@reads(r"\mat X_{k+1} = \mat U\, p(\mat S_k)\, \mat V^\top , \qquad p(s) = a s + b s^3 + c s^5 .")
def polynomial_of_singular_values():
    a, b, c = 3.1, -4.2, 1.9
    X = GRADIENTS / np.sqrt(np.sum(GRADIENTS**2))
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    new = training.newton_schulz(X, coefficients=(a, b, c), steps=1, eps=EPS)
    of_values = U.T @ new @ Vt.T
    given = {"a": a, "b": b, "c": c, "U": U, "V": Vt.T, "S_k": np.diag(s), "X_{k+1}": new}
    rows = {
        "p": lambda at: (
            of_values if np.ndim(at) else np.interp(at, s[::-1], np.diag(of_values)[::-1])
        )
    }
    return [{**given, **rows, "s": value} for value in s]


@reads(r"(a, b, c) = \Bigl( \frac{15}{8}, -\frac{10}{8}, \frac{3}{8} \Bigr) .")
def coefficients_that_converge():
    conditions = [[1, 1, 1], [1, 3, 5], [0, 6, 20]]  # p(1) = 1, p'(1) = 0, p''(1) = 0
    return dict(zip("abc", np.linalg.solve(conditions, [1, 0, 0]), strict=True))


@reads(r"p(s) - s = \frac s8 (1 - s^2)(7 - 3 s^2) , \qquad 1 - p(s)…")
def steps_towards_one():
    p = lambda s: quintic(s, 15 / 8, -10 / 8, 3 / 8)  # noqa: E731
    return each({"s": np.array([0.01, 0.3, 0.9, 1.0, 1.4])}, {"p": p})


@reads(r"\mat M_t &= \mu\, \mat M_{t-1} + (1 - \mu)\, \mat G_t , \qquad \mat N_t…")
def muon():
    environments = []
    for n, m in ((5, 2), (2, 5)):
        gradients = np.random.default_rng(0).normal(size=(4, n, m))
        W, M, state = [np.ones((n, m))], [np.zeros((n, m))], None
        for G in gradients:
            options = {"learning_rate": RATE, "momentum": 0.7, "weight_decay": 0.3}
            new, state = formulas.muon_step(W[-1], G, state, **options)
            W.append(new)
            M.append(state[1])
        sizes = {"n": n, "m": m, r"\mu": 0.7, r"\lambda": 0.3, r"\eta": RATE, "t": range(1, 5)}
        arrays = {"W": From(0, W), "M": From(0, M), "G": From(1, gradients)}
        environments.append({**sizes, **arrays, "NS": formulas.newton_schulz})
    return environments


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

DIFFUSION = {"x": START, r"\epsilon": GRADIENTS[0], r"\alpha": 0.7, r"\sigma": 0.4}
DIFFUSION |= {
    rf"y_{{{kind}}}": formulas.diffusion_target(START, GRADIENTS[0], 0.7, 0.4, kind=kind)
    for kind in ("noise", "data", "velocity", "flow")
}
DIFFUSION["z"] = formulas.diffusion_mixture(START, GRADIENTS[0], 0.7, 0.4)


@reads(r"z &= \alpha x + \sigma \epsilon , \\ y_{noise} &= \epsilon , \qquad y_{data} = x …")
def targets_of_diffusion():
    return DIFFUSION


@reads(r"\epsilon - \hat\epsilon = -\frac{\alpha}{\sigma} (x - \hat x) …")
def errors_of_diffusion():
    x, noise, alpha, sigma = START, GRADIENTS[0], 0.7, 0.4
    x_hat = GRADIENTS[1]
    noise_hat = (alpha * x + sigma * noise - alpha * x_hat) / sigma
    guesses = {
        rf"\hat y_{{{kind}}}": formulas.diffusion_target(x_hat, noise_hat, alpha, sigma, kind=kind)
        for kind in ("velocity", "flow")
    }
    return {**DIFFUSION, **guesses, r"\hat x": x_hat, r"\hat\epsilon": noise_hat}


@reads(r"w_{data} = \min(\rho, \gamma) , \qquad w_{noise} = \frac{\min(\rho, \gamma)}{\rho} …")
def weights_of_diffusion():
    environments = []
    for alpha, sigma in ((0.9, 0.1), (0.5, 0.4), (1.2, 1.3)):
        env = {r"\alpha": alpha, r"\sigma": sigma, r"\gamma": 3.0, r"\rho": alpha**2 / sigma**2}
        for kind in ("data", "noise", "velocity", "flow"):
            weight = formulas.min_snr_weight(np.array(alpha), np.array(sigma), kind=kind, gamma=3.0)
            env[f"w_{{{kind}}}"] = weight
        environments.append(env)
    return environments


@reads(r"w_{velocity} = \frac{\min(\rho, \gamma)}{\rho + 1} .")
def weight_of_the_velocity():
    alpha, sigma = np.cos(0.3), np.sin(0.3)
    weight = formulas.min_snr_weight(alpha, sigma, kind="velocity", gamma=3.0)
    return {r"\gamma": 3.0, r"\rho": alpha**2 / sigma**2, "w_{velocity}": weight}


@reads(r"\dv{z}{\phi} = \alpha \epsilon - \sigma x , \qquad \dv{z}{t} = \epsilon - x ,")
def velocity_of_the_mixture():
    x, noise, phi = START, GRADIENTS[0], 0.3
    turn = complex_step(lambda p: np.cos(p) * x + np.sin(p) * noise, phi)
    slopes = {
        r"\dv{z}{\phi}": turn,
        r"\dv{z}{t}": complex_step(lambda t: (1 - t) * x + t * noise, 0.2),
    }
    return {"x": x, r"\epsilon": noise, r"\alpha": np.cos(phi), r"\sigma": np.sin(phi), **slopes}


# Clipping and schedules


@reads(r"\vec g \; \leftarrow \; \vec g\, \min\Bigl( 1, \frac{c}{\norm{\vec g}} \Bigr) .")
def clipping():
    return [
        {"g": g, "c": c, "g'": formulas.clip_by_norm(g, c)}
        for g in GRADIENTS
        for c in (0.5, 1.0, 9.0)
    ]


PEAK, WARMUP, LAST, FLOOR = 0.7, 4, 10, 0.1


@reads(r"\eta_t = \eta\, \min\Bigl( 1, \frac{t}{W} \Bigr) .")
def warmup():
    f = functools.partial(formulas.warmup_schedule, peak=PEAK, warmup=WARMUP)
    return [{r"\eta_t": f(t), r"\eta": PEAK, "t": t, "W": WARMUP} for t in range(1, 9)]


@reads(r"\eta_t = \eta_{min} + \frac{\eta - \eta_{min}}{2} \Bigl( 1 + \cos \pi…")
def cosine():
    options = {"peak": PEAK, "warmup": WARMUP, "steps": LAST, "floor": FLOOR}
    f = functools.partial(formulas.cosine_schedule, **options)
    given = {r"\eta": PEAK, r"\eta_{min}": FLOOR, "W": WARMUP, "T": LAST}
    return [{r"\eta_t": f(t), "t": t, **given} for t in range(WARMUP, LAST + 1)]


@reads(r"\eta_t = \eta\, \min\Bigl( \frac tW, \sqrt{\frac Wt} \Bigr) .")
def inverse_square_root():
    f = functools.partial(formulas.inverse_sqrt_schedule, peak=PEAK, warmup=WARMUP)
    return [{r"\eta_t": f(t), r"\eta": PEAK, "t": t, "W": WARMUP} for t in range(1, 30)]


@reads(r"\eta_t &= \eta_{min} + (\eta - \eta_{min})\, f(u) , \qquad u = \frac{t - T + D}{D}…")
def warmup_stable_decay():
    given = {"peak": PEAK, "warmup": WARMUP, "steps": LAST, "floor": FLOOR, "decay": 5}
    rows, names = [], {r"\eta_{min}": FLOOR, r"\eta": PEAK, "T": LAST, "D": 5}
    for branch, kind in enumerate(("linear", "1-sqrt", "cosine")):
        for t in range(LAST - 5, LAST + 1):
            rate = formulas.wsd_schedule(t, kind=kind, **given)
            fall = (rate - FLOOR) / (PEAK - FLOOR)
            row = {r"\eta_t": rate, "t": t, "f": lambda _, fall=fall: fall, "branch": branch}
            rows.append({**names, **row, "u": (t - LAST + 5) / 5})
    return rows


# Batches


@reads(r"\vec g_B = \frac1m \sum_{n \in B} \nabla \ell_n , \qquad \E \vec g_B = \frac1N…")
def gradient_of_a_batch():
    N = len(GRADIENTS)
    batches = [list(B) for B in itertools.combinations(range(1, N + 1), 2)]
    drawn = Random(np.ones(len(batches)), B=batches)
    return {"m": 2, "N": N, "B": batches[0], r"\E": [drawn], r"\nabla \ell": From(1, GRADIENTS)}


@reads(r"\operatorname{Var} g_B = \frac{S^2}{m} \Bigl( 1 - \frac mN \Bigr) .")
def noise_of_a_batch():
    g, rows = GRADIENTS[:, 0], []
    for m in range(1, len(g) + 1):
        means = [g[list(B)].mean() for B in itertools.combinations(range(len(g)), m)]
        drawn = {r"\E": [Random(np.ones(len(means)), g_B=means)], "g_B": 0.0}
        rows.append({**drawn, "S": np.std(g, ddof=1), "m": m, "N": len(g)})
    return rows


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


@reads(r"L(\theta) = \frac{1}{N} \sum_{n=1}^{N} \ell\bigl(\operatorname{mlp}(\vec x_n; \theta),…")
def loss_of_a_network():
    layers = [neurons.LinearParams(*layer) for layer in LAYERS]
    loss = lambda _: training.mlp_loss(X, CLASSES, layers, activation="tanh")  # noqa: E731
    given = {"x": From(1, X), "t": From(1, CLASSES), "N": len(X), r"\theta": 0.0}
    return {**given, "L": loss, r"\ell": cost_of, "mlp": lambda x, _: logits(x)}


@reads(r"\vec \delta_K^{(n)} = \frac{1}{N} (\vec p_n - \vec t_n) ,")
def cotangent_of_the_logits():
    z = np.array([logits(x) for x in X])
    cost = lambda z: sum(cost_of(row, t) for row, t in zip(z, CLASSES, strict=True)) / 4  # noqa: E731
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return {r"\delta_K": jacobian_of(cost, z), "p": p, "t": np.eye(2)[CLASSES], "N": 4}


# The regret of Adagrad


def descent(gradients, rates, theta=0.2):
    """Return the points of descent on linear losses, kept in [-1, 1]."""
    points = [theta]
    for g, eta in zip(gradients, rates, strict=True):
        points.append(np.clip(points[-1] - eta * g, -1, 1))
    return np.array(points)


@reads(r"(\theta_t - \theta^*)^2 - (\theta_{t-1} - \theta^*)^2…")
def squared_distance_after_a_step():
    before, best, g, eta = np.random.default_rng(0).normal(size=(4, 20))
    names = r"\theta_{t-1}", r"\theta^*", "g_t", r"\eta_t"
    arrays = dict(zip(names, (before, best, g, eta), strict=True))
    return each({**arrays, r"\theta_t": before - eta * g})


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
    for g, eta in itertools.product((*drawn, *short), (D / 4, D / 2, D / np.sqrt(2), D, 2 * D)):
        rates, of_rates, of_root, total, of_total = bounds_of_adagrad(g, eta, D)
        assert total <= of_total * (1 + 1e-12), g
        for start, best in itertools.product((-1, 0.2, 1), (-1, 1)):
            # Of a linear loss, the best point is an end.
            regret = np.sum(g * (descent(g, rates, start)[:-1] - best))
            assert regret <= of_rates * (1 + 1e-12), (g, eta, start)
            assert regret <= of_root * (1 + 1e-12), (g, eta, start)
            closest = max(closest, regret / of_rates)
    yield closest, 1.0  # by one step to the best point
    for eta in (D / 100, 100 * D):  # where one of the two terms is nearly all
        _, of_rates, of_root, total, of_total = bounds_of_adagrad(np.ones(100_000), eta, D)
        yield round(of_rates / of_root, 2), 1.0
        yield round(total / of_total, 2), 1.0


def bounds_of_adagrad(g, eta, D):
    """Return the rates, both bounds of the regret, and the sum over roots with its bound."""
    s = np.cumsum(g**2)
    rates = eta / np.sqrt(s)
    of_rates = D**2 / (2 * rates[-1]) + np.sum(rates * g**2) / 2
    of_root = (D**2 / (2 * eta) + eta) * np.sqrt(s[-1])
    return rates, of_rates, of_root, np.sum(g**2 / np.sqrt(s)), 2 * np.sqrt(s[-1])


@reads(
    r"\dot{\vec \delta}_K = \frac1N \bigl( \operatorname{diag}(\vec p) - \vec p\, \vec p^\top…",
    r"\vec g_l &= \mat W_{l+1}^\top \vec \delta_{l+1} , \qquad \dot{\vec g}_l = \mat W_{l+1}^\top…",
)
def tangents_of_backpropagation():
    rng = np.random.default_rng(21)
    W, deltas, h = rng.normal(size=(3, 4)), rng.normal(size=(2, 3)), rng.normal(size=2)
    softmax = lambda z: np.exp(z) / np.sum(np.exp(z))  # noqa: E731
    z_K, z, mask = deltas[0], rng.normal(size=4), np.array([2.0, 0.0, 2.0, 2.0])
    return {
        "N": 4, "z_K": z_K, "p": softmax(z_K), "W_{l+1}": W, r"\delta_{l+1}": deltas[1],
        r"\delta_K": Of(lambda z: (softmax(z) - np.eye(3)[1]) / 4, "z_K"),
        "g_l": Of(lambda W, delta: W.T @ delta, "W_{l+1}", r"\delta_{l+1}"),
        r"\delta_l": Of(lambda z, g: mask * (1 - np.tanh(z) ** 2) * g, "z_l", "g_l"),
        "m_l": mask, r"\phi": np.tanh, "z_l": z, "h_{l-1}": h,
        "D_l": Of(np.multiply.outer, r"\delta_l", "h_{l-1}"),
    }  # fmt: skip
