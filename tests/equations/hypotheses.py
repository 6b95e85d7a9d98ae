r"""Sentences with a hypothesis: "only if", "as long as", "only where", "if and only if".

A check names the file where its sentences stand and yields each of them with two truth values: that
the statement holds where the hypothesis does, and that it fails beyond. Sentences that only say
when an array is returned are left to the tests of the contract.
"""

import itertools
import re

import numpy as np
from equations import inline, ledger
from equations.numeric import complex_step

from dlref import (
    activations,
    attention,
    calculus,
    convolution,
    losses,
    neurons,
    normalization,
    positions,
    propagation,
    recurrent,
    training,
)
from dlref.formulas.activations import softmax

HYPOTHESES = {}
WORDS = re.compile(
    r"\b(?:(?:[Oo]nly|recovers only) (?:if|where|when|for)|if and only if|[Aa]s long as|provided)\b"
)
#: Sentences with these words that state no hypothesis of a mathematical statement.
OTHERS = re.compile(
    r"times as long as|takes as long as"
    r"|[Oo]nly if (?:requested|they are given|there is one|[`\w]+ is given)"
    r"|each only if it is given|Only for (?:target probabilities|the kind)|count only if symmetric"
    r"|for as long as there is data|which is too much only for"
)
#: Packages and pages about programs.
PROGRAMS = re.compile(
    r"dlref/(?:check|interop|_core)|docs/(?:contributing|speed|withstands|changelog|check_your_kernel"
    r"|reference/interop|reference/check)"
)


#: Marks a function as the check of sentences with a hypothesis in a file.
hypothesis = ledger.kept_in(HYPOTHESES)


def sentences():
    """Yield each place with its sentences that have a hypothesis."""
    for place, text in inline.sources():
        if PROGRAMS.match(place):
            continue
        for paragraph in re.split(r"\n\s*\n", text):
            for sentence in re.split(r"(?<=[.:?])\s+(?=[A-Z:*`\"])", ledger.normalized(paragraph)):
                if WORDS.search(sentence) and not OTHERS.search(sentence):
                    yield place, sentence


def draw(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in shapes]


@hypothesis("dlref/activations/_glu.py")
def of_gates():
    def slope(x, gate):
        return abs(complex_step(lambda z: x / (1 + np.exp(-z)), gate))

    inside = min(slope(x, g) for x in (-1.3, 0.7) for g in (-2.0, 0.0, 2.0)) > 0.05
    outside = slope(0.0, 1.0) == 0 and slope(1.0, 40.0) < 1e-15 and slope(1.0, -40.0) < 1e-15
    _, grad = activations.glu_vjp([1.0], [0.0], [1.0])
    yield "The gate learns only where x is not zero and the gate not saturated.", inside, outside
    yield "The gate learns only where x is not zero", slope(0.7, 1.0) > 0, grad[0] == 0


@hypothesis("dlref/activations/_gumbel_softmax.py")
def of_forbidden_classes():
    noise = np.random.default_rng(0).gumbel(size=(500, 3))
    drawn = [
        activations.gumbel_softmax(np.array(logits), row, hard=True)[0]
        for row in noise
        for logits in ([-np.inf, 0.0, -9.0], [-np.inf, -np.inf, -np.inf])
    ]
    text = "A class with a logit of -inf is never drawn, as long as another one is left."
    yield text, max(drawn[::2]) == 0, not np.all(np.equal(drawn[1::2], 0))


@hypothesis("dlref/activations/_relu.py")
def of_subgradients():
    x = np.linspace(-2, 2, 401)

    def below(g):
        return bool(np.all(activations.relu(x) >= g * x))

    text = r":math:`\operatorname{relu}(x) \ge g x` for all x if and only if :math:`0 \le g \le 1`."
    yield text, all(map(below, (0, 0.3, 1))), not any(map(below, (-0.01, 1.01, 5)))


@hypothesis("dlref/calculus/_add.py")
def of_a_sum():
    J, _ = calculus.add_jacobian(*draw(4, 4))
    text = (
        ":math:`y_i = w_i + x_i` holds :math:`w_j` only if :math:`i = j`, and then with slope one"
    )
    yield text, bool(np.all(np.diag(J) == 1)), bool(np.all(J[~np.eye(4, dtype=bool)] == 0))


@hypothesis("dlref/calculus/_power.py")
def of_powers_of_negative_numbers():
    def exists(p, q, w=-1.7):
        """Whether a real root of y^q = w^p exists."""
        roots = np.roots([1, *[0] * (q - 1), -(w**p)])
        return bool(np.any(abs(roots.imag) < 1e-9))

    fractions = [(p, q) for p in range(1, 8) for q in range(1, 8) if np.gcd(p, q) == 1]
    odd = [exists(p, q) for p, q in fractions if q % 2]
    even = [exists(p, q) for p, q in fractions if q % 2 == 0]
    yield (
        "a real power exists only for rational exponents with an odd denominator.",
        all(odd),
        not any(even),
    )
    sign = {np.sign((-1.7) ** p) for p in (1, 2)}  # p / 1, and the same with p / 3, near each other
    yield "but near each of them the power takes both signs", len(sign) == 2, True


@hypothesis("dlref/convolution/_conv_transpose.py")
def of_the_transposed_convolution():
    def there_and_back(kernel):
        x, w = draw((1, 9))[0], np.reshape(kernel, (1, 1, 3))
        y = convolution.conv_transpose(convolution.conv(x, w, padding=1), w, padding=1)
        return np.allclose(y, x)

    text = "the identity only for special kernels."
    yield text, there_and_back([0.0, 1.0, 0.0]), not there_and_back([0.5, 1.0, -0.3])


@hypothesis("dlref/convolution/_max_pool.py")
def of_pools():
    x = np.array([[0.1, 0.3, 0.9, 0.2, 0.5, 0.4]])
    within, beyond = x.copy(), x.copy()
    within[:, [2, 0]], beyond[:, [2, 3]] = x[:, [0, 2]], x[:, [3, 2]]
    y, same, other = (convolution.max_pool(a, size=(3,)) for a in (x, within, beyond))
    text = "as long as the largest number stays within the window, its place does not matter."
    yield text, np.array_equal(y, same), not np.array_equal(y, other)


@hypothesis("dlref/losses/_gaussian_kl.py")
def of_gaussians():
    def terms(mu, sigma):
        return losses.gaussian_kl(np.array([mu]), np.array([2 * np.log(sigma)]))

    others = [terms(mu, s) for mu, s in ((0.1, 1.0), (-0.1, 1.0), (0.0, 0.9), (0.0, 1.1), (2, 3))]
    text = r"and is 0 only for :math:`\mu = 0` and :math:`\sigma = 1`."
    yield text, terms(0.0, 1.0) == 0, min(others) > 0


@hypothesis("dlref/losses/_info_nce.py")
def of_temperatures():
    def inside(scores):
        """Whether pairs are more alike than the softmaxes' means, and how the loss changes."""
        rows, columns = softmax(scores / 0.5), softmax(scores.T / 0.5).T
        alike = np.trace(scores) / 3
        mean = (np.sum(rows * scores) + np.sum(columns * scores)) / 6
        return alike > mean, slope(scores)

    def slope(scores):
        def loss(tau):
            z = scores / tau
            log_p, log_q = z - np.log(np.exp(z).sum(1, keepdims=True)), z - np.log(np.exp(z).sum(0))
            return -(np.trace(log_p) + np.trace(log_q)) / 6

        return complex_step(loss, 0.5)

    every = [
        inside(draw((3, 3), seed=seed)[0] + shift * np.eye(3))
        for seed in range(40)
        for shift in (0, 2)
    ]
    # descent lowers the inverse of the temperature where the loss grows with it
    grows = [s > 0 for alike, s in every if alike]
    falls = [s < 0 for alike, s in every if not alike]
    yield (
        "as long as the pairs are more alike than all items are on average",
        all(grows) and len(grows) > 9,
        all(falls) and len(falls) > 9,
    )


@hypothesis("dlref/losses/_kl_divergence.py")
def of_divergences():
    p, q = softmax(np.array(draw((2, 5))[0]))
    same, other = (losses.kl_divergence(np.log(a), q, reduction="sum") for a in (q, p))
    yield "and 0 only where p = q.", abs(same) < 1e-15, other > 1e-3


@hypothesis("dlref/losses/_sparsemax_loss.py")
def of_the_support():
    z = np.array([1.0, 0.8, -2.0])

    def threshold(z):
        s = activations.sparsemax(z)
        return (z - s)[s > 0][0]

    def slope(j, h):
        return (threshold(z + h * np.eye(3)[j]) - threshold(z)) / h

    inside = np.allclose([slope(j, 1e-6) for j in range(3)], [1 / 2, 1 / 2, 0])
    yield "As long as S does not change,", inside, not np.isclose(slope(2, 5.0), 0)


@hypothesis("dlref/neurons/_neuron.py")
def of_the_error_of_a_neuron():
    def relative(signs):
        rng, worst = np.random.default_rng(0), 0.0
        for _ in range(200):
            w = np.abs(rng.normal(size=8))
            x = signs * np.abs(rng.normal(size=8))
            x[-1] = -(w[:-1] @ x[:-1]) / w[-1] * (1 - 1e-9) if np.any(signs < 0) else x[-1]
            true = np.sum(w.astype(np.longdouble) * x)
            worst = max(
                worst, float(abs(neurons.neuron(x, w, 0.0, activation="identity") / true - 1))
            )
        return worst

    alternating = np.where(np.arange(8) % 2, -1.0, 1.0)
    yield (
        "relative to z only if the terms do not cancel.",
        relative(np.ones(8)) < 9 * 2.0**-53,
        relative(alternating) > 1e-11,
    )


@hypothesis("dlref/normalization/_batch_norm.py")
def of_the_scale_before_a_norm():
    x = draw((64, 3))[0]

    def moved(eps):
        y, scaled = (normalization.batch_norm(k * x, eps=eps) for k in (1.0, 10.0))
        return np.max(abs(y - scaled))

    text = r"as long as :math:`\epsilon` is small compared with the variance."
    yield text, moved(1e-12) < 1e-11, moved(1.0) > 0.1


@hypothesis("dlref/positions/_rope_score.py")
def of_scores_by_distance():
    theta, r = np.array([1.0, 0.3]), np.linspace(-8, 8, 33)

    def even(q, k):
        s = np.array([positions.rope_score(q, k, x, theta) for x in r])
        return np.allclose(s, s[::-1])

    q, k = draw(4, 4)
    yield (
        "for all r only if every :math:`b_i` is zero, for instance for q = k.",
        even(q, q),
        not even(q, k),
    )

    def comes_back(theta, period):
        s = [positions.rope_score(q, k, x, np.array(theta)) for x in np.stack([r, r + period])]
        return np.allclose(*s)

    periods = 2 * np.pi * np.arange(1, 60)
    outside = not any(comes_back([1.0, np.sqrt(2)], period) for period in periods)
    text = r"The score has a period in r only if the ratios of the :math:`\theta_i` are rational."
    yield text, comes_back([1.0, 0.1], 20 * np.pi), outside


@hypothesis("dlref/positions/_rotary_multi.py")
def of_interleaved_coordinates():
    A, counts = 3, (4, 2, 2)
    owner = [i % A if i < A * counts[i % A] else 0 for i in range(8)]
    tables = [
        positions.rope_tables_multi(p[:, None], np.ones(8), sections=counts, interleaved=True)[1][0]
        for p in np.eye(3)
    ]
    found = list(np.argmax(np.abs(tables), axis=0))
    text = (
        r"pair i belongs to coordinate i mod A as long as that one has pairs left, "
        r":math:`i < A\, n_a`, and else to the first."
    )
    yield text, found == owner, found != [i % A for i in range(8)]


@hypothesis("dlref/positions/_sinusoidal.py")
def of_pair_zero():
    def rows(p):
        return np.array([np.sin(p), np.cos(p)])

    inside = np.allclose(rows(0.7), rows(0.7 + 6 * np.pi))
    table = positions.sinusoidal(400, 2)
    apart = min(np.abs(a - b).max() for a, b in itertools.pairwise(table[np.argsort(table[:, 0])]))
    text = r"Two rows agree in pair 0 only if p and q differ by a multiple of :math:`2\pi`"
    yield text, inside, apart > 1e-6 and not np.allclose(rows(0.7), rows(0.7 + np.pi))


@hypothesis("dlref/propagation/_signal_propagation.py")
def of_the_fixed_point_of_the_variance():
    z, weight = np.polynomial.hermite_e.hermegauss(120)
    weight = weight / weight.sum()

    def variances(name, gain, start):
        """Return the slope of the recursion near 0, and the variance after 1000 layers."""
        f = getattr(activations, name)
        q = [start]
        while len(q) < 1000 and q[-1] < 1e6:
            q.append(gain**2 * (weight @ f(np.sqrt(q[-1]) * z) ** 2))
        return q[1] / q[0], q[-1]

    tanh, gelu = variances("tanh", 1.0, 1e-3), variances("gelu", 2.0, 1e-3)
    text = (
        r"The variance stays at :math:`q^*` only if the slope of the recursion for q is at most 1 "
        "there."
    )
    inside = propagation.critical_gain("tanh") == 1 and tanh[0] <= 1 and tanh[1] <= 1e-3
    yield text, inside, gelu[0] > 1 and gelu[1] > 1e6


@hypothesis("dlref/recurrent/_gru.py")
def of_two_biases():
    x, h, w_ih, w_hh, u = draw((4, 2), 3, (9, 2), (9, 3), (4, 3))
    biases = draw(9, 9, seed=1)

    def differ(after):
        grads = recurrent.gru_vjp(u, x, h, w_ih, w_hh, *biases, reset_after=after)
        return not np.allclose(grads[-2][6:], grads[-1][6:])

    yield "have different gradients only if the reset comes after", differ(True), not differ(False)


@hypothesis("dlref/recurrent/_lstm.py")
def of_coupled_gates():
    rng = np.random.default_rng(0)
    i, g, c = rng.uniform(0, 1, 200) * (rng.random(200) < 0.5), *rng.normal(size=(2, 200))

    def dropped_and_stored(f):
        return (1 - f) * c, f * c + i * g - f * c

    def only_where_dropped(f):
        dropped, stored = dropped_and_stored(f)
        return bool(np.all(stored[dropped == 0] == 0))

    text = "store something new only where something old is dropped"
    yield text, only_where_dropped(1 - i), not only_where_dropped(np.ones(200))


@hypothesis("dlref/training/_minibatch_descent.py")
def of_the_noise_of_batches():
    def noise(batch, N=1000):  # without replacement
        return np.sqrt((1 - batch / N) / batch)

    inside = abs(noise(5) / noise(20) - 2) < 0.02
    outside = noise(250) / noise(1000 - 1e-9) > 100
    yield (
        "As long as a batch is small compared with N, four times the batch halves the noise",
        inside,
        outside,
    )


@hypothesis("dlref/neurons/_embedding.py")
def of_rare_tokens():
    table = np.ones((2, 1))
    first = np.array([[1.0], [0.0]])
    after, state = training.adam_step(table, first[::-1], None, learning_rate=0.1)
    moved = []
    for _ in range(2000):
        before = after
        after, state = training.adam_step(after, first, state, learning_rate=0.1)
        moved.append(abs(after - before)[1, 0])
    plain, _ = training.adam_step(table, first, None, learning_rate=0.1)
    inside = moved[0] > 1e-3 and plain[1, 0] == 1
    text = (
        "Adam changes the other rows, too: by decay, and as long as their means of earlier "
        "gradients last."
    )
    yield text, inside, moved[-1] < 1e-12


@hypothesis("docs/conventions.rst")
def of_causal_masks():
    T, S = 3, 6
    for offset in (0, 2):
        mask = attention.causal_mask(T, S, q_offset=offset)
        pairs = [(i, j) for i in range(T) for j in range(S)]
        seen = all(mask[i, j] for i, j in pairs if j <= i + offset)
        beyond = any(mask[i, j] for i, j in pairs if j > i + offset)
        text = (
            r"query :math:`i` sees key :math:`j` if and only if "
            r":math:`j \le i + \text{q\_offset}`."
        )
        yield text, seen, not beyond


@hypothesis("docs/error_bounds.rst")
def of_bernoulli():
    u = 0.05

    def holds(k):
        return (1 - u) ** k >= 1 - k * u

    def bounded(k):
        return 0 <= (1 - u) ** -k - 1 <= k * u / (1 - k * u)

    ks, small = (1, 1.5, 7, 19.9, 60), (0.1, 0.5, 0.9)
    yield (
        r":math:`(1 - u)^k \ge 1 - k u` for :math:`k \ge 1`",
        all(map(holds, ks)),
        not any(map(holds, small)),
    )
    yield r"so as long as :math:`k u < 1`", all(map(bounded, ks[:-1])), not bounded(60)


@hypothesis("docs/glossary.rst")
def of_the_glossary():
    p, q = softmax(np.array(draw((2, 5), seed=3)[0]))
    yield (
        "The expected log-ratio of two distributions, 0 only where they are equal",
        abs(losses.kl_divergence(np.log(q), q, reduction="sum")) < 1e-15,
        losses.kl_divergence(np.log(p), q, reduction="sum") > 1e-3,
    )


@hypothesis("docs/misconceptions.rst")
def of_misconceptions():
    z = np.array([40.0, 0.0, 0.0])
    certain = losses.cross_entropy(z, np.array([1.0, 0, 0]))
    target = np.array([0.5, 0.25, 0.25])
    best = losses.cross_entropy(np.log(target), target)
    yield (
        '**"A perfect model has a loss of 0."** Only if the targets are certain.',
        certain < 1e-15,
        best > 1,
    )
    values = draw(10)[0]

    def means(*sizes):
        parts = np.split(values[: sum(sizes)], np.cumsum(sizes)[:-1])
        return np.isclose(np.mean([np.mean(p) for p in parts]), values[: sum(sizes)].mean())

    text = (
        '**"The mean of the batches\' losses is the loss of the epoch."** Only if all batches are '
        "of one size"
    )
    yield text, means(4, 4), not means(4, 4, 2)
    cache = attention.KVCache.empty((), 1, 2)
    q, k, v = draw((1, 1, 2), (1, 3, 2), (1, 3, 2))
    keys, values = cache.append(k, v)
    out = attention.scaled_dot_product_attention(q, keys, values)
    zeros = attention.scaled_dot_product_attention(q, 0 * k, 0 * v)
    text = (
        "Only if the keys and values of every step are written into it: a cache of zeros gives "
        "outputs of 0."
    )
    yield text, np.allclose(out, attention.scaled_dot_product_attention(q, k, v)), not np.any(zeros)
    text = (
        "**\"A model with 'rotary' in its name knows positions.\"** Only if something is rotated."
    )
    tables = positions.rope_tables(np.arange(3), [1.0])

    def attended(order, rotate):
        keys = positions.apply_rope(k[:, order], *tables) if rotate else k[:, order]
        return attention.scaled_dot_product_attention(q, keys, v[:, order])

    depends, blind = (
        not np.allclose(attended([0, 1, 2], rotate), attended([1, 0, 2], rotate))
        for rotate in (True, False)
    )
    text = (
        "**\"A model with 'rotary' in its name knows positions.\"** Only if something is rotated."
    )
    yield text, depends, not blind


@hypothesis("docs/misconceptions_positions.rst")
def of_misconceptions_of_positions():
    x = draw((4, 3))[0]
    order = [2, 0, 3, 1]

    def is_blind(causal):
        def f(x):
            return attention.scaled_dot_product_attention(
                x[None], x[None], x[None], is_causal=causal
            )[0]

        return np.allclose(f(x)[order], f(x[order]))

    yield (
        '**"Without position encodings, order is invisible."** Only if no mask is used.',
        is_blind(False),
        not is_blind(True),
    )
    t = np.linspace(0, 3, 31)
    back = np.cos(t) + np.cos(0.1 * t), np.cos(t) + np.cos(np.sqrt(2) * t)
    moved = [
        np.cos(t + p) + np.cos(f * (t + p))
        for f, p in ((0.1, 20 * np.pi), (np.sqrt(2), 20 * np.pi))
    ]
    text = "A sum of cosines has a period only where the ratios of their frequencies are rational"
    yield text, np.allclose(back[0], moved[0]), not np.allclose(back[1], moved[1])


@hypothesis("docs/rates_of_descent.rst")
def of_the_discriminant():
    mu = 0.36
    low, high = (1 - np.sqrt(mu)) ** 2, (1 + np.sqrt(mu)) ** 2

    def discriminant(a):
        return (1 + mu - a) ** 2 - 4 * mu

    inside = all(discriminant(a) <= 1e-12 for a in np.linspace(low, high, 50))
    outside = all(discriminant(a) > 0 for a in (0.9 * low, 1.1 * high, 9.0))
    yield "The discriminant is not positive as long as", inside, outside


@hypothesis("docs/reference/activations.rst")
def of_dead_units():
    x, w, b = np.abs(draw((6, 3))[0]), -np.ones(3), -1.0

    def gradient(x):
        z = x @ w + b
        return x.T @ activations.relu_vjp(np.ones(6), z)

    text = (
        "its weights get no gradient, and it recovers only if the layers below change its inputs."
    )
    yield text, bool(np.any(gradient(-3 * x))), not np.any(gradient(x))


@hypothesis("docs/reference/recurrent.rst")
def of_explosions():
    def grows(largest):
        rng = np.random.default_rng(0)
        left, _ = np.linalg.qr(rng.normal(size=(4, 4)))
        right, _ = np.linalg.qr(rng.normal(size=(4, 4)))
        W = left @ np.diag([largest, 0.5 * largest, 0.3, 0.2]) @ right
        u = rng.normal(size=4)
        return any(
            np.linalg.norm(np.linalg.matrix_power(W.T, n) @ v) > np.linalg.norm(v)
            for n in (1, 2, 5)
            for v in (u, left[:, 0])
        )

    yield "only if a singular value exceeds 1", grows(3.0), not grows(0.99)


@hypothesis("docs/exercises/activations/softmax.rst")
def of_equal_softmaxes():
    x = draw(4)[0]
    other = x + np.array([0.0, 0, 0, 0.1])
    text = "Two rows of scores have the same softmax if and only if their difference is a constant."
    yield (
        text,
        np.allclose(softmax(x), softmax(x + 3.7)),
        not np.allclose(softmax(x), softmax(other)),
    )


@hypothesis("docs/exercises/activations/swiglu.rst")
def of_the_linear_input():
    a = draw(20)[0]
    gate = a / (1 + np.exp(-a))
    yield (
        "The other enters linearly, and gives 0 only where it is 0 itself.",
        not np.any(gate * 0.0),
        bool(np.all(gate * 0.1 != 0)),
    )


@hypothesis("docs/exercises/losses/cross_entropy.rst")
def of_the_least_cross_entropy():
    y = softmax(draw(5)[0])
    entropy = -np.sum(y * np.log(y))
    others = [losses.cross_entropy(draw(5, seed=seed)[0], y) for seed in range(1, 50)]
    yield (
        "is at least the entropy of :math:`y`, with equality if and only if :math:`s = y`.",
        np.isclose(losses.cross_entropy(np.log(y), y), entropy),
        min(others) > entropy + 1e-6,
    )


@hypothesis("docs/exercises/training/adagrad.rst")
def of_a_rare_feature():
    state, p = None, np.zeros(1)
    for t in range(100):
        p, state = training.adagrad_step(
            p, np.array([1.0 if t == 40 else 0.0]), state, learning_rate=0.1
        )
    sums = [
        float(np.ravel(a)[0])
        for a in (state if isinstance(state, tuple) else (state,))
        if np.size(a) == 1
    ]
    always, state = np.zeros(1), None
    for _ in range(100):
        always, state = training.adagrad_step(always, np.ones(1), state, learning_rate=0.1)
    often = [
        float(np.ravel(a)[0])
        for a in (state if isinstance(state, tuple) else (state,))
        if np.size(a) == 1
    ]
    yield (
        "Its sum of squares grows only when it occurs: after 100 batches it is 1 and not 100.",
        1.0 in sums,
        100.0 in often,
    )
