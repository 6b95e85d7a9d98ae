"""The displayed equations of the essay on error bounds, of programs that round to float32."""

import functools
import importlib.util
import itertools
import sys

import numpy as np
from equations.ledger import ROOT, equation

U = 2.0**-24  #: the unit roundoff of float32
C = 2  #: exponentials and logarithms are computed in float64, and rounded
EPS = np.float32(2.0**-20)


def measuring(name):
    """Return a program of docs/measure, where this file's own name is also one."""
    folder = ROOT / "docs" / "measure"
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    spec = importlib.util.spec_from_file_location(f"measured_{name}", folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


#: The program that computes the proved bounds once more, in long doubles.
measured = measuring("error_bounds")


def gamma(k):
    return k * U / (1 - k * U)


def is_counted(got, true, k):
    """Whether numbers are others times ⟨k⟩, but for the rounding of float64 here."""
    ratio = np.asarray(got, float) / true
    ends = -np.asarray(k) * np.log1p(-U) + 1e-13
    return bool(np.all(abs(np.log(ratio)) <= ends))


def added(a):
    return np.cumsum(a, axis=-1)[..., -1]


def narrow(function, x):
    return function(x.astype(float)).astype(np.float32)


def float32(*shape, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    return (spread * rng.normal(size=shape)).astype(np.float32)


def crumbs(n):
    """Return 1 and numbers just above half a unit in its last place: each addition rounds up."""
    a = np.full(n, U * (1 + 2.0**-10), np.float32)
    a[0] = 1
    return a


def rows(n):
    """Yield rows of numbers."""
    yield crumbs(n)
    for seed in range(20):
        yield float32(n, seed=seed)
        yield float32(n, seed=seed) + np.float32(50)


@equation(
    r"""\langle j \rangle \langle k \rangle = \langle j + k \rangle , \qquad
    \frac{1}{\langle k \rangle} = \langle k \rangle , \qquad
    \sqrt{\langle k \rangle} = \langle k / 2 \rangle , \qquad
    \sum_i a_i \langle k \rangle = \langle k \rangle \sum_i a_i \quad (a_i \ge 0) ."""
)
def rules_of_counting():
    rng = np.random.default_rng(0)

    def drawn(k, count=()):  # ends included
        return (1 - U) ** (k * rng.choice([-1, -0.4, 0, 0.7, 1], count))

    def extreme(k, count=()):
        return (1 - U) ** (k * np.ones(count))

    for j, k in itertools.product((0, 0.5, 1, 30), (0, 1, 7.5)):
        a = rng.uniform(0, 1, 9)
        rules = (
            (lambda d, j=j, k=k: d(j) * d(k), j + k),
            (lambda d, k=k: 1 / d(k), k),
            (lambda d, k=k: np.sqrt(d(k)), k / 2),
            (lambda d, k=k, a=a: np.sum(a * d(k, 9)) / np.sum(a), k),
        )
        for rule, count in rules:
            yield is_counted(rule(drawn), 1, count), True
            yield is_counted(rule(extreme), 1, 0.9 * count), count == 0  # no smaller count
    mixed = np.array([1.0, -0.9])
    apart = np.sum(mixed * (1 - U) ** np.array([1, -1]))
    yield is_counted(apart, np.sum(mixed), 1), False  # of both signs


@equation(
    r"""\abs{\langle k \rangle - 1} \le \frac{1}{1 - k u} - 1
    = \frac{k u}{1 - k u} = \gamma_k .""",
    atol=1e-15,
)
def counts_become_bounds():
    for k in (1, 1.5, 40, 1e6):
        ends = [abs((1 - U) ** (sign * k) - 1) for sign in (1, -1)]
        bound = 1 / (1 - k * U) - 1
        yield max(ends) <= bound * (1 + 1e-6), True
        yield max(ends) > 0.9 * bound, True
        yield bound, k * U / (1 - k * U), gamma(k), measured.gamma(k, np.float32)


@equation(
    r"""\hat s = \sum_{i=1}^{n} a_i \langle n - 1 \rangle , \qquad\text{hence}\qquad
    \abs{\hat s - s} \le \gamma_{n-1} \sum_{i=1}^{n} \abs{a_i} ."""
)
def a_sum_of_roundings():
    n, shares, counts = 50, [], []
    for a in rows(n):
        terms = np.zeros(n)  # what is left of each term in the computed sum
        partial = np.float32(0)
        for i in range(n):
            terms[i] = a[i]
            exact = float(partial) + float(a[i])
            partial = partial + a[i]
            terms[np.arange(n) <= i] *= float(partial) / exact if exact else 1.0
        yield terms.sum(), float(added(a))
        count = n - 1
        yield is_counted(terms, a.astype(float), count), True
        counts.append(is_counted(terms, a.astype(float), 0.98 * count))
        error = abs(added(a) - a.sum(dtype=float))
        bound = gamma(n - 1) * np.sum(abs(a), dtype=float)
        yield error <= bound, True
        shares.append(error / bound)
    yield all(counts), False  # no smaller count
    yield max(shares) > 0.99, True  # of the crumbs


def layers():
    """Yield weights, input and bias, with the output computed in float32."""
    n = 30
    for x in rows(n):
        w, b = float32(4, n, seed=1), float32(4, seed=2)
        w[0], b[0] = 1, 0
        terms = np.concatenate([w * x, b[:, None]], axis=1)
        yield n, w, x, b, added(terms)


@equation(
    r"""\hat{\vec y} = (\mat W + \Delta \mat W)\, \vec x + \vec b + \Delta \vec b , \qquad
    \abs{\Delta W_{ij}} \le \gamma_{n+1} \abs{W_{ij}} , \quad
    \abs{\Delta b_i} \le \gamma_{n+1} \abs{b_i} ."""
)
def a_layer_of_other_weights():
    for n, w, x, b, computed in layers():
        W, X, B = w.astype(float), x.astype(float), b.astype(float)
        y, size = W @ X + B, abs(W) @ abs(X) + abs(B)
        share = (computed - y) / size  # the same share of each parameter
        dW, db = share[:, None] * np.sign(X) * abs(W), share * abs(B)
        yield computed.astype(float), (W + dW) @ X + B + db
        bound, bound_of_bias = gamma(n + 1) * abs(W), gamma(n + 1) * abs(B)
        yield bool(np.all(abs(dW) <= bound)), True
        yield bool(np.all(abs(db) <= bound_of_bias)), True
        of_ones = measured.linear(np.float32, np.eye(n), W, 0 * B)[1].T  # each weight by itself
        of_nothing = measured.linear(np.float32, np.zeros((1, n)), W, B)[1][0]
        yield bound, of_ones
        yield bound_of_bias, of_nothing


@equation(
    r"""\abs{\hat y_i - y_i} \le \gamma_{n+1} \Bigl( \sum_{j=1}^{n} \abs{W_{ij} x_j}
    + \abs{b_i} \Bigr) ."""
)
def error_of_a_layer():
    largest = 0
    for n, w, x, b, computed in layers():
        W, X, B = w.astype(float), x.astype(float), b.astype(float)
        for i in range(4):
            bound = gamma(n + 1) * (sum(abs(W[i, j] * X[j]) for j in range(n)) + abs(B[i]))
            error = abs(computed[i] - (W[i] @ X + B[i]))
            yield error <= bound, True
            yield bound, measured.linear(np.float32, X[None], W, B)[1][0, i]
            largest = max(largest, error / bound)
    yield largest > 0.9, True  # of the crumbs


def scores(n):
    """Yield rows of scores with their distances from the largest one."""
    every = [float32(n, seed=seed, spread=spread) for seed in range(20) for spread in (1, 5)]
    for x in [narrow(np.log, crumbs(n)), *every]:
        yield x, (x.max() - x.astype(float))


@equation(r"\hat s_i = s_i \, \bigl\langle n + 2 c + D_i + \log n \bigr\rangle .")
def roundings_of_a_softmax():
    n, tight = 40, []
    for x, D in scores(n):
        e = narrow(np.exp, x - x.max())
        computed, s = e / added(e), np.exp(-D) / np.sum(np.exp(-D))
        count = n + 2 * C + D + np.log(n)
        yield is_counted(computed, s, count), True
        yield s * gamma(count), measured.softmax(np.float32, x.astype(float))[1]
        tight.append(not is_counted(computed, s, 0.75 * (count - D)))
    yield any(tight), True


@equation(
    r"""\frac1Z \sum_j e^{-D_j} e^{-\delta_j D_j} \le \sum_j s_j (e^{D_j})^u
    \le \Bigl( \sum_j s_j e^{D_j} \Bigr)^u \le n^u ."""
)
def jensen_for_softmax():
    rng, n, u = np.random.default_rng(0), 6, 0.05  # an u that is seen

    def chain(x, delta):
        D = x.max() - x
        Z = np.sum(np.exp(-D))
        s = np.exp(-D) / Z
        return (
            1 / Z * np.sum(np.exp(-D) * np.exp(-delta * D)),
            np.sum(s * np.exp(D) ** u),
            np.sum(s * np.exp(D)) ** u,
            n**u,
        )

    for spread in (0.1, 1, 10, 100):
        x = spread * rng.normal(size=n)
        yield bool(np.all(np.diff(chain(x, rng.uniform(-u, u, n))) >= -1e-12)), True
        D = x.max() - x
        s = np.exp(-D) / np.sum(np.exp(-D))
        yield np.sum(s * np.exp(D) ** -u) >= n**-u, True  # the other direction
        first, second, *_ = chain(x, np.full(n, -u))
        yield first, second  # each of the three bounds is attained
    _, second, third, _ = chain(np.zeros(n), np.zeros(n))
    yield second, third
    yield chain(100.0 * np.arange(n), np.zeros(n))[2:]


@equation(
    r"""\abs{\hat \ell_i - \ell_i} \le \gamma_{c+1} \abs{\ell_i}
    + \gamma_{n + 2 c + \log n} ."""
)
def error_of_a_log_softmax():
    n, share = 40, 0
    for x, D in scores(n):
        d = x - x.max()
        computed = d - narrow(np.log, added(narrow(np.exp, d)))
        true = -D - np.log(np.sum(np.exp(-D)))
        bound = gamma(C + 1) * abs(true) + gamma(n + 2 * C + np.log(n))
        off = abs(computed - true)
        yield bool(np.all(off <= bound)), True
        yield bound, measured.log_softmax(np.float32, x.astype(float))[1]
        share = max(share, np.max(off / bound))
    yield share > 0.7, True


@equation(
    r"""(1 + \gamma_j) (1 + \gamma_k) = \frac{1}{(1 - j u)(1 - k u)} \le \frac{1}{1 - (j + k) u}
    = 1 + \gamma_{j+k} . \qquad ∎"""
)
def bounds_add_up():
    for j, k in ((1, 1), (3, 1e6), (1e5, 4e6)):
        product, bound = 1 / ((1 - j * U) * (1 - k * U)), 1 / (1 - (j + k) * U)
        yield (1 + gamma(j)) * (1 + gamma(k)), product
        yield product <= bound, True
        yield bound, 1 + gamma(j + k), 1 + measured.gamma(j + k, np.float32)


@equation(r"\hat \ell = \ell\, \bigl\langle n - 2 + 2 c + \log(n - 1) + D \bigr\rangle .")
def roundings_of_a_sure_loss():
    for n in (2, 40):
        for x, _ in scores(n):
            for ahead in (0, 15):
                z = np.sort(x)[::-1] + np.float32(ahead) * (np.arange(n) == 0)
                computed = narrow(np.log1p, added(narrow(np.exp, z[1:] - z[0])))
                D = float(z[0]) - z[1:].astype(float)
                count = n - 2 + 2 * C + np.log(n - 1) + D[0]
                true = np.log1p(np.sum(np.exp(-D)))
                yield is_counted(computed, true, count), True
                bound = measured.log_of_the_largest(np.float32, z.astype(float))[1]
                yield [true * gamma(count)], bound


@equation(r"\hat y_i = y_i \, \langle n / 2 + 4 \rangle .")
def roundings_of_an_rms_norm():
    n, tight = 40, []
    for x in (np.sqrt(crumbs(n)), *rows(n)):
        w = float32(n, seed=9)
        computed = x / np.sqrt(added(x * x) / np.float32(n) + EPS) * w
        X = x.astype(float)
        y, count = w * X / np.sqrt(np.mean(X**2) + float(EPS)), n / 2 + 4
        yield is_counted(computed, y, count), True
        value, bound, _ = measured.rms_norm(np.float32, X, w.astype(float))
        yield gamma(count) * abs(value), bound
        tight.append(not is_counted(computed, y, 0.7 * count))
    yield any(tight), True


def layer_norm(x):
    """Return deviations, s, the error of the mean, and the outputs computed in float32."""
    n, X = x.size, x.astype(float)
    d = X - X.mean()
    s = np.sqrt(np.mean(d**2) + float(EPS))
    mean = added(x) / np.float32(n)
    z = (x - mean) / np.sqrt(added((x - mean) ** 2) / np.float32(n) + EPS)
    return d, s, float(mean) - X.mean(), z


def condition(x, s):
    n = x.size
    kappa = 1 / s * 1 / n * sum(abs(float(x[j])) for j in range(n))
    return kappa, gamma(n) * kappa


@equation(
    r"""\kappa = \frac1s \cdot \frac1n \sum_{j=1}^{n} \abs{x_j} , \qquad
    \rho = \gamma_n\, \kappa ."""
)
def condition_of_a_layer_norm():
    for x in rows(40):
        _, s, moved, _ = layer_norm(x)
        kappa, rho = condition(x, s)
        yield kappa, np.mean(abs(x.astype(float))) / s
        yield rho, measured.gamma(40, np.float32) * kappa
        yield abs(moved) / s <= rho, True  # for which ρ is made


@equation(
    r"""\abs{\hat z_i - z_i} \le \gamma_{n/2+5}\, (\abs{z_i} + \rho) + \rho
    + \frac{\rho^2}{2} \abs{z_i} ."""
)
def error_of_a_layer_norm():
    n, share = 40, 0
    for x in rows(n):
        d, s, _, computed = layer_norm(x)
        z, (_, rho) = d / s, condition(x, s)
        bound = gamma(n / 2 + 5) * (abs(z) + rho) + rho + rho**2 / 2 * abs(z)
        off = abs(computed - z)
        yield bool(np.all(off <= bound)), True
        yield bound, measured.layer_norm(np.float32, x.astype(float))[1]
        share = max(share, np.max(off / bound))
    yield share > 0.5, True


@equation(
    r"""\frac1n \sum_{j=1}^{n} (d_j - \Delta)^2 = \frac1n \sum_{j=1}^{n} d_j^2 + \Delta^2 ,"""
)
def squares_about_another_mean():
    n = 7
    d = np.random.default_rng(0).normal(size=n)
    d -= d.mean()
    for moved in (0.3, -2.0):
        left = sum((d[j] - moved) ** 2 for j in range(n)) / n
        yield left, sum(d[j] ** 2 for j in range(n)) / n + moved**2


@equation(
    r"""\tilde z_i = \frac{d_i - \Delta}{\sqrt{s^2 + \Delta^2}} , \qquad
    \abs{\tilde z_i - z_i} \le \frac{\abs \Delta}{s}
    + \abs{z_i} \Bigl( 1 - \frac{1}{\sqrt{1 + \Delta^2 / s^2}} \Bigr)
    \le \rho + \frac{\rho^2}{2} \abs{z_i} ,"""
)
def normalized_about_another_mean():
    for x in rows(40):
        d, s, moved, computed = layer_norm(x)
        _, rho = condition(x, s)
        other = (d - moved) / np.sqrt(s**2 + moved**2)
        near = abs(computed / other - 1) <= gamma(40 / 2 + 5)
        yield bool(np.all(near)), True
        for delta in (moved, 0.5 * s, -3 * s, 1e-3 * s):  # large ones as well
            r = max(rho, abs(delta) / s)
            z, tilde = d / s, (d - delta) / np.sqrt(s**2 + delta**2)
            first, second = abs(delta) / s, abs(z) * (1 - 1 / np.sqrt(1 + delta**2 / s**2))
            bound = r + r**2 / 2 * abs(z)
            yield bool(np.all(abs(tilde - z) <= first + second + 1e-14)), True
            yield bool(np.all(first + second <= bound + 1e-14)), True
        yield second, abs(z - d / np.sqrt(s**2 + delta**2))  # without the change of the mean
        yield bool(np.all(abs(tilde - z + np.sign(z) * second) >= 0.999 * first)), True
        if r == first:  # a small change: the last bound is attained
            yield bool(np.sum(second) >= 0.999 * np.sum(bound - first)), True


@equation(
    r"""\hat o = \sum_{j=1}^{S} p_j v_j \langle K \rangle , \qquad
    K = 2 S + 2 c + \log S + 2 (E + 3) \frac{A}{1 - (E + 2) u} ."""
)
def roundings_of_attention():
    S, E = 12, 5
    for seed, spread in itertools.product(range(30), (0.5, 5)):
        draw = functools.partial(float32, seed=seed)
        q, k, v = draw(E, spread=spread), draw(S, E), draw(S)
        e = added(k * q) / np.sqrt(np.float32(E))
        e = narrow(np.exp, e - e.max())
        weights = e / added(e)
        Q, K, V = (a.astype(float) for a in (q, k, v))
        p = np.exp(K @ Q / np.sqrt(E))
        p /= np.sum(p)
        A = max(np.sum(abs(Q * K[j])) for j in range(S)) / np.sqrt(E)
        count = 2 * S + 2 * C + np.log(S) + 2 * (E + 3) * A / (1 - (E + 2) * U)
        yield is_counted(weights, p, count), True
        bound = gamma(count) * np.sum(p * abs(V))
        yield abs(added(weights * v) - p @ V) <= bound, True
        yield [[bound]], measured.attend(np.float32, Q[None], K, V[:, None])[1]
