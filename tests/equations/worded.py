r"""Sentences whose result is a number in words, such as "ten times the step": each is computed.

A check names the file where its sentences stand and yields each of them, the number in square
brackets, with the value that dlref or the formula gives; a third entry says how far the two may
be apart, relative to the value, where the sentence rounds. `sentences.toml`
has those whose value is one expression: a line each, or one line for several numbers. Its section
`phrases` has turns of many pages, such as "mean 0 and variance 1", with # for the number.
"""

import csv
import functools
import math
import re
import tomllib
from fractions import Fraction
from pathlib import Path

import numpy as np
from equations import backed, ledger, quantities

from dlref import (
    activations,
    attention,
    calculus,
    convolution,  # noqa: F401  # an expression of the register uses it
    losses,
    neurons,
    normalization,
    positions,
    propagation,
    quantization,
    recurrent,
    training,
    transformer,
)

WORDED = {}
#: Turns with a number, and the expressions that give it, wherever they stand.
PHRASES = {}
#: Numbers that no program computes, by the words around them: of models, of papers, of quotations.
#: The register says why, and which numbers they are, so that another one is seen.
GIVEN = {}
BRACKETS = re.compile(r"\[([^]]+)\]")


#: Marks a function as the check of sentences of a file.
worded = ledger.kept_in(WORDED)


def number(word):
    """Return the value of a number in words or digits."""
    if word in backed.NUMBERS:
        return backed.NUMBERS[word]
    if word.endswith(" %"):
        return float(word.removesuffix(" %")) / 100
    return (
        float(Fraction(word)) if "/" in word else float(re.sub("[, ]", "", word).replace("−", "-"))
    )


def marked(sentence):
    """Return the sentence as it stands in the file, and the value of the number in brackets."""
    (word,) = BRACKETS.findall(sentence)
    return BRACKETS.sub(r"\1", sentence), number(word)


def holds(said, value, slack=1e-9):
    return math.isclose(said, value, rel_tol=slack, abs_tol=1e-12)


# The register of sentences


def registered():
    """Register the sentences of the list, each with the values of its expression."""
    file = Path(__file__).with_name("sentences.toml")
    for place, rows in tomllib.loads(file.read_text(encoding="utf-8")).items():
        if place == "given":
            GIVEN.update({phrase: set(numbers) for phrase, (_, *numbers) in rows.items()})
        elif place == "names":
            backed.KNOWN.update(rows["known"])
        elif place == "phrases":
            PHRASES.update(rows)
        else:
            WORDED[f"register of {place}"] = place, functools.partial(valued, rows)


@functools.cache
def evaluated(expression):
    """Return the values of an expression, one for each number in brackets."""
    found = eval(expression, globals() | vars(quantities))
    return tuple(map(float, found)) if isinstance(found, (tuple, list)) else (float(found),)


def valued(rows):
    """Yield each number of each sentence by itself, with its value."""
    for sentence, value in rows.items():
        expression, *slack = [value] if isinstance(value, str) else value
        numbers = list(BRACKETS.finditer(sentence))
        for m, found in zip(numbers, evaluated(expression), strict=True):
            before, after = sentence[: m.start()], sentence[m.end() :]
            bare = [BRACKETS.sub(r"\1", part) for part in (before, after)]
            yield f"{bare[0]}{m[0]}{bare[1]}", found, *slack


def phrased(text):
    """Yield the places in a text where a phrase has a number, and whether it is the right one."""
    for phrase, expression in PHRASES.items():
        for m in re.finditer(with_number(phrase), text):
            yield m, holds(number(m["number"]), *evaluated(expression))


@functools.cache
def with_number(phrase):
    """Return a phrase as an expression that has its number as a group."""
    return phrase.replace("#", rf"(?P<number>{backed.NUMBER.pattern})")


@functools.cache
def texts(file):
    """Return the sentences of a file that are checked, each with the span of its number."""
    checks = [check for path, check in WORDED.values() if path == file]
    found = [(sentence, BRACKETS.search(sentence)) for c in checks for sentence, *_ in c()]
    return [(BRACKETS.sub(r"\1", text), range(m.start(), m.end() - 2)) for text, m in found]


def is_computed(place, sentence, spot):
    """Whether a number of a sentence is checked."""
    if any(m.start("number") == spot.start() for m, _ in phrased(sentence)):
        return True
    return any(
        spot.start() - m.start() in span
        for text, span in texts(place.partition("::")[0])
        for m in re.finditer(re.escape(text), sentence)
    )


def is_alone(place, part, sentence, spot):
    """Whether nothing backs a number of a sentence, computes it or says that it is given."""
    return (
        backed.is_backed(place, part, sentence, spot) is False
        and not is_computed(place, sentence, spot)
        and not is_given(sentence, spot)
    )


def given(text):
    """Yield the places in a text where a number is given, and whether the register has it."""
    for phrase, numbers in GIVEN.items():
        for m in re.finditer(with_number(phrase), text):
            yield m, m["number"] in numbers


def is_given(sentence, spot):
    """Whether a number of a sentence is one that no program computes."""
    return any(m.start("number") == spot.start() and known for m, known in given(sentence))


registered()


@worded("dlref/training/_momentum.py")
def of_momentum():
    def last(gradients):
        params, state = np.zeros(()), None
        for g in gradients:
            before = params
            params, state = training.momentum_step(
                params, np.float64(g), state, learning_rate=1.0, momentum=0.9
            )
        return abs(params - before)

    same, alternating = last(np.ones(400)), last((-1.0) ** np.arange(400))
    yield r"[ten] times the step for :math:`\mu = 0.9`", same
    yield "about [half] the step. Eliminating", alternating, 0.06


@worded("dlref/training/_lion.py")
def of_lion():
    p = np.ones(8)
    _, lion = training.lion_step(p, p, None, learning_rate=0.1)
    _, adam = training.adam_step(p, p, None, learning_rate=0.1)

    def size(state):
        return sum(a.size for a in state if isinstance(a, np.ndarray))

    yield "Its state is [half] as large as Adam's", size(lion) / size(adam)


@worded("dlref/training/_schedules.py")
def of_schedules():
    def cosine(t):
        return float(training.cosine_schedule(t, peak=3.0, steps=30, warmup=10, floor=1.0))

    yield "Half way from W to T, [half] of the fall is done", (3 - cosine(20)) / (3 - cosine(30))
    rate = [float(training.inverse_sqrt_schedule(t, peak=1.0, warmup=10)) for t in (50, 200)]
    yield "[four] times the steps halve the rate", 200 / 50
    yield "four times the steps [halve] the rate", rate[1] / rate[0]
    yield "for width d = 512 and W = 4000 that is [0.0007]", (512 * 4000) ** -0.5, 0.01


@worded("dlref/training/_minibatch_descent.py")
def of_minibatches():
    noise = [math.sqrt(1 / m * (1 - m / 1e9)) for m in (10, 40)]
    yield "[four] times the batch halves the noise", 40 / 10
    yield "four times the batch [halves] the noise", noise[1] / noise[0], 1e-6


@worded("dlref/propagation/_initialization.py")
def of_initialization():
    z, weight = np.polynomial.hermite_e.hermegauss(120)
    weight = weight / weight.sum()
    kept = weight @ np.maximum(z, 0) ** 2 / (weight @ z**2)
    yield "because a rectifier keeps [half] of the second moment", kept
    yield r"after 50 layers :math:`2^{-50}`, [1e-15], is left", kept**50, 0.2
    yield "one in [370] is larger in size than three", 1 / math.erfc(3 / math.sqrt(2)), 0.005
    yield "weights are at most [1.73] standard deviations from 0", math.sqrt(3), 0.003


@worded("dlref/propagation/_signal_propagation.py")
def of_signals():
    z, weight = np.polynomial.hermite_e.hermegauss(100)
    weight = weight / weight.sum()
    yield "[half] of the slopes are 0", weight @ (z < 0)
    gain = propagation.critical_gain("sigmoid")
    yield "root mean square of the slopes is [0.099]", 1 / gain, 0.006


@worded("dlref/normalization/_batch_norm_train.py")
def of_running_statistics():
    x = np.array([[-1.0], [1.0]])
    yield "With batches of 2 it is [twice] as large", np.var(x, ddof=1) / np.var(x)


@worded("dlref/normalization/_batch_norm.py")
def of_batch_norm():
    x, u = np.random.default_rng(0).normal(size=(2, 64, 3))
    small, large = (normalization.batch_norm_vjp(u, k * x, eps=0.0)[0] for k in (1, 10))
    yield "Ten times the weights before it get [a tenth] of the gradient", np.median(large / small)


@worded("dlref/normalization/_layer_norm.py")
def of_layer_norm():
    x = np.array([1.0, 7, 7, 9])
    yield "The row 1, 7, 7, 9 has the mean [6]", x.mean()
    yield "has the mean 6 and the deviation [3]", x.std()
    x_hat = (x - 6) / 3
    yield r"the mean of :math:`u \hat x` is [-5/12]", (np.eye(4)[0] * x_hat).mean()
    grad = normalization.layer_norm_vjp(np.eye(4)[0], x, eps=0.0)
    factor = (grad[1] - 5 / 36 * x_hat[1]) / (0 - 1 / 4)
    yield "The gradient is [a third] of 1, 0, 0, 0 minus 1/4 everywhere", factor


@worded("dlref/normalization/_l2_norm.py")
def of_l2_norm():
    y = normalization.l2_norm([0.6, 0.8], eps=1.25)
    yield "A row of length 1 loses [a third] of its length if eps is 1.25", 1 - np.hypot(*y)


@worded("dlref/activations/_softplus.py")
def of_softplus():
    steep, usual = activations.softplus(0.0, beta=4), activations.softplus(0.0)
    yield "Four times as steep, it exceeds relu by [a quarter] as much at 0", steep / usual


@worded("dlref/activations/_relu_squared.py")
def of_squares():
    f = activations.relu_squared
    yield "Twice the input gives [four] times the output", f(2.6) / f(1.3)
    yield "multiplies the gradient by [twice] its size", activations.relu_squared_deriv(7.0) / 7
    relative = activations.relu_squared_jvp(3.0, 3e-3) / f(3.0) / 1e-3
    yield "becomes [twice] that relative change of the output", relative


@worded("dlref/activations/_sigmoid.py")
def of_the_sigmoid():
    moved = activations.sigmoid_jvp(0.0, 1.0)
    yield "a change of the input arrives as [a quarter]", moved
    slopes = activations.sigmoid_deriv(np.linspace(-9, 9, 1801))
    yield r":math:`\sigma(x) \sigma(-x)`, at most [1/4]", slopes.max()


@worded("dlref/activations/_tanh.py")
def of_the_tangent():
    second = activations.tanh_deriv2(0.4) / activations.sigmoid_deriv2(0.8)
    yield "[eight] times the second derivative of the sigmoid at 2x", second


@worded("dlref/activations/_softmax.py")
def of_the_softmax():
    s = activations.softmax([1.0, 1.0 + math.log(2), 0.3])
    yield r"a score that is larger by :math:`\log 2` gets [twice] the probability", s[1] / s[0]


@worded("dlref/activations/_geglu.py")
def of_gates():
    yield "the second is [half] of x: a closed unit can open", activations.gelu_deriv(0.0)


@worded("dlref/activations/_mish.py")
def of_mish():
    yield "At 0 [three fifths] of the gradient pass", activations.mish_deriv(0.0)
    yield "against [half] of it for silu and gelu", activations.silu_deriv(0.0)


@worded("dlref/losses/_neuron_squared_error.py")
def of_a_neuron():
    X, y, w = np.array([[1.0, 2], [3, 1]]), np.array([0.5, 1.0]), np.array([0.7, 0.2])
    error = X @ w + 0.1 - y
    grad = losses.neuron_squared_error_grad(X, y, w, 0.1)[0]
    ratio = np.linalg.norm(grad) / np.linalg.norm((error[:, None] * X).mean(0))
    yield "The gradient of the weights is [twice] the mean of the examples", ratio


@worded("dlref/losses/_huber.py")
def of_huber():
    ratio = losses.huber([3.0], [0.0], delta=1e9) / 9
    yield r"Large :math:`\delta` gives [half] the squared error", ratio


@worded("dlref/losses/_squared_error.py")
def of_the_squared_error():
    p, t, v = np.random.default_rng(1).normal(size=(3, 5))
    moved = losses.squared_error_jvp((p, t), (v, None), reduction="sum")
    yield "the sum changes by [twice] the inner product of the error", moved / ((p - t) @ v)


@worded("dlref/losses/_cross_entropy.py")
def of_cross_entropy():
    z, target = np.array([0.2, 0.5, -0.3]), np.array([0.2, 0.3, 0.5])
    slope = losses.cross_entropy_grad(z, target)
    squared = 2 * (activations.softmax(z) - target)
    yield "is also the gradient of [half] the squared error", slope[0] / squared[0]


@worded("dlref/losses/_siglip_loss.py")
def of_siglip():
    loss = losses.siglip_loss(np.zeros((2, 2)), 0.0, reduction="sum")
    yield "[Four] combinations of probability one half", loss / math.log(2)


@worded("dlref/calculus/_minimum.py")
def of_the_minimum():
    dw, _ = calculus.minimum_vjp(1.0, 2.0, 2.0)
    yield "where :math:`w` is smaller, [half] of it at a tie", dw


@worded("dlref/calculus/_maximum.py")
def of_the_maximum():
    dw, _ = calculus.maximum_vjp(1.0, 2.0, 2.0)
    yield "where :math:`w` is larger, [half] of it at a tie", dw


@worded("dlref/neurons/_mlp.py")
def of_sigmoids_in_a_row():
    slopes = activations.sigmoid_deriv(np.linspace(-9, 9, 1801))
    yield "The slope of the sigmoid is at most [1/4]", slopes.max()
    yield "Each passes at most [a quarter] of the gradient", slopes.max()


@worded("dlref/neurons/_embedding.py")
def of_embeddings():
    grad = neurons.embedding_vjp(np.ones((10, 1)), np.zeros((3, 1)), np.full(10, 1))
    yield "A token that occurs ten times gets the sum of [ten] cotangents", grad[1, 0]


@worded("dlref/recurrent/_lstm.py")
def of_the_lstm():
    w = np.zeros((4, 1))
    _, c = recurrent.lstm_cell([1.0], [0.0], [3.0], w, w)
    yield "the candidate is 0; the cell state [halves]", c[0] / 3
    _, _, dc, *_ = recurrent.lstm_cell_vjp(([0.0], [1.0]), [1.0], [0.0], [3.0], w, w)
    yield "Weights of 0: [half] of the gradient of the cell state goes back", dc[0]
    yield "A gate at 0.99 keeps [37 %] over 100 steps", 0.99**100, 0.02


@worded("dlref/recurrent/_gru.py")
def of_the_gru():
    w = np.zeros((3, 1))
    _, dh, *_ = recurrent.gru_cell_vjp([1.0], [1.0], [3.0], w, w)
    yield "Weights of 0: [half] of the gradient goes back along the direct path", dh[0]
    yield "a bias of 4 keeps [98 %] of it", activations.sigmoid(4.0), 0.005


@worded("dlref/quantization/_fake_quantize.py")
def of_rounding():
    x = np.linspace(-0.9, 0.9, 3601)
    off = np.abs(quantization.fake_quantize(x, 0.25) - x).max() / 0.25
    yield "Within the range the error is at most [half] a step", off


@worded("dlref/quantization/_quantize_blocks.py")
def of_saturation():
    yield "an error of up to [one eighth] of the largest number of a block", (512 - 448) / 512
    yield "for E2M1 all above 7, [a quarter]", (8 - 6) / 8


@worded("dlref/transformer/_generation.py")
def of_temperature():
    logits = np.log([5.0, 3.0])
    p = transformer.next_token_probabilities(logits, temperature=0.5)
    power = math.log(p[0] / p[1]) / math.log(5 / 3)
    yield "At half the temperature the odds are [squared]", power
    yield "5 : 3 becomes [25] : 9", 9 * p[0] / p[1]


@worded("dlref/attention/_scaled_dot_product.py")
def of_weights():
    k = np.zeros((3, 4))
    k[:, 0] = [0.0, 2 * math.log(2), 2 * math.log(5)]
    q, v = np.eye(4)[:1], np.array([[8.0], [16.0], [0.0]])
    weights = activations.softmax(q @ k.T / 2)[0]
    yield "So the weights are [1/8], 2/8 and 5/8", weights[0]
    yield "So the weights are 1/8, 2/8 and [5/8]", weights[2]
    out = attention.scaled_dot_product_attention(q, k, v)
    yield "values 8, 16 and 0 is [1] + 4 + 0", out[0, 0] - 4


@worded("docs/error_bounds.rst")
def of_the_measured_errors():
    largest = {}
    table = (ledger.ROOT / "docs/results/error_bounds.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(table.splitlines()):
        if row["computed by"].startswith("plain"):
            largest[row["map"]] = max(largest.get(row["map"], 0.0), float(row["share"]))
    yield "a plain program reaches at least [60 %] of each bound", min(largest.values()), 0.05
    u = 2.0**-53
    moved = math.expm1(60 * u) / u  # if the rounding of the difference is u, relative to it
    yield "a probability of :math:`e^{-60}` can be off by [60] units", moved, 1e-6


@worded("docs/rates_of_descent.rst")
def of_the_rates():
    def steps(factor, share):
        return math.log(share) / math.log(factor)

    kappa = 1e4
    yield "each further digit takes [11,500] steps", steps((kappa - 1) / (kappa + 1), 0.1), 0.002
    ball, descent = 9 / 11, 99 / 101
    yield "it is [0.82] in place of 0.98", ball, 0.005
    yield "it is 0.82 in place of [0.98]", descent, 0.005
    yield "in about [35] steps in place of 345", steps(ball, 0.001), 0.02
    yield "in about 35 steps in place of [345]", steps(descent, 0.001), 0.002
    ratio = math.log(1 - 1 / math.sqrt(1e6)) / math.log((1e3 - 1) / (1e3 + 1))
    yield "That is about [half] the speed of the heavy ball", ratio, 0.01


@worded("docs/gradients_through_depth.rst")
def of_depth():
    yield "which is [0.00003]", 0.9**100, 0.15
    yield "the gradient grows to [14,000] times its size", 1.1**100, 0.02
    z, weight = np.polynomial.hermite_e.hermegauss(120)
    kept = weight @ np.maximum(z, 0) ** 2 / (weight @ z**2)
    yield "so it needs [twice] as much", 1 / kept
    x, u = np.random.default_rng(0).normal(size=(2, 8))
    ratio = normalization.layer_norm_vjp(u, x, eps=0.0) / normalization.layer_norm_vjp(
        u, 10 * x, eps=0.0
    )
    yield "receives a gradient [ten] times as small", np.median(ratio)
    yield "which is [0.953], and the network can learn", activations.sigmoid(3.0), 5e-4


@worded("docs/why_attention.rst")
def of_the_cost_of_attention():
    T = 1000
    above = np.sum(~attention.causal_mask(T, T)) / T**2
    yield "a causal mask makes [one half] of the scores superfluous", above, 0.002


@worded("docs/questions.rst")
def of_the_questions():
    slope = activations.tanh_deriv(np.array([0.0, 2.0, 5.0]))
    yield "[1] at 0, 0.07 at 2, 0.00018 at 5", slope[0]
    yield "1 at 0, [0.07] at 2, 0.00018 at 5", slope[1], 0.02
    yield "1 at 0, 0.07 at 2, [0.00018] at 5", slope[2], 0.02
    first = (1 - 0.9) / math.sqrt(1 - 0.999)
    yield "Without the correction the first step would be [3.2] times as long", first, 0.02


@worded("docs/misconceptions_positions.rst")
def of_slow_pairs():
    turns = 4096 * positions.rope_frequencies(128) / (2 * math.pi)
    yield "of 64 pairs [18] have not been once around after 4096 tokens", np.sum(turns < 1)
    yield "of [64] pairs 18 have not been once around", turns.size
