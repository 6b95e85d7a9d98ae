r"""The displayed equations of the course, evaluated with the numbers of their lessons.

A lesson writes \frac{\partial L}{\partial w} for \pdv{L}{w}, frames results and sets braces below:
`in_macros` takes these away. Then an equation is read as those of the reference are. Derivatives
are complex steps through what the environment says, which has only the forward pass.
The numbers of a lesson are rounded, hence the tolerances.
"""

import re

import numpy as np
from equations import evaluate, ledger
from equations.evaluate import From, Of

from dlref.formulas.activations import relu, sigmoid, softmax

FOLDER = ledger.ROOT / "docs" / "learn"
READ = {}  # (lesson, number) -> (function, tolerance)
GROUP = r"[^{}]*(?:\{(?:[^{}]|\{[^{}]*\})*\}[^{}]*)*"
FRACTION = re.compile(
    rf"\\frac\{{(\\partial|d) ?(?:\\,)? ?(?=[\\A-Za-z])({GROUP})\}}"
    rf"\{{(?:\\partial|d) ?(?=[\\A-Za-z])({GROUP})\}}"
)
#: What stands for one name or one operation, and how the parser of the reference knows it.
WRITTEN = {
    r"(?<=[^\\]) \* ": r" \\odot ",
    r"\\[td]?frac(\d)(\d)": r"\\frac{\1}{\2}",
    r"\\[td]frac\b": r"\\frac",
    r"\\\\\[\dex\]": r"\\\\",
    r"\\(?:begin|end)\{aligned\}": "",
    r"(?:\\; ?)?\\(?:longrightarrow|to)\b(?: ?\\;)?": r"\\qquad",
    r"\\Delta (?:\\hat )?(\w)": r"\\mathrm{D\1}",  # a small change
    r"(?<!\w)d\\mat (\w)": r"\\mathrm{d\1}",  # the gradient of a matrix
    r"(?<![\w\\])d([sp])_": r"\\mathrm{d\1}_",
    r"\\text\{ReLU\}": r"\\operatorname{relu}",
    r"\\operatorname\{ReLU\}": r"\\operatorname{relu}",
    r"(?<=\()g\\, \\hat x(?=\))": r"g \\odot \\hat x",  # numbers of the same place
}


def behind(text, at):
    """Return the place behind the group in braces that begins at a place."""
    depth, end = 1, at + 1
    while depth:
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    return end


def unwrapped(text, mark):
    """Take a frame or a brace from around its formula; the words below a brace go, too."""
    while (at := text.find(mark + "{")) >= 0:
        end = behind(text, at + len(mark))
        inner, rest = text[at + len(mark) + 1 : end - 1], text[end:]
        if mark == r"\underbrace":
            rest = rest[behind(rest, 1) :]
        text = text[:at] + inner.strip().removeprefix(r"\;").removesuffix(r"\;") + rest
    return text


def in_macros(text):
    """Return an equation of a lesson as the reference would write it."""
    for mark in (r"\boxed", r"\underbrace"):
        text = unwrapped(text, mark)
    kinds = {"d": r"\dv", r"\partial": r"\pdv"}
    text = FRACTION.sub(lambda m: rf"{kinds[m[1]]}{{{m[2]}}}{{{m[3]}}}", text)
    for pattern, new in WRITTEN.items():
        text = re.sub(pattern, new, text)
    return text


def displayed(lesson):
    """Return the displayed equations of a lesson."""
    return ledger.displayed((FOLDER / f"{lesson}.rst").read_text(encoding="utf-8"))


def lessons():
    """Return the names of all lessons that display an equation."""
    return [path.stem for path in sorted(FOLDER.glob("*.rst")) if displayed(path.stem)]


def reads(lesson, *numbers, atol=1e-10):
    """Mark a function as the environment of equations of a lesson, counted from 1."""

    def mark(function):
        READ.update({(lesson, number): (function, atol) for number in numbers})
        return function

    return mark


def sides(lesson, number):
    """Yield the sides of an equation of a lesson, and the tolerance."""
    function, atol = READ[lesson, number]
    text = in_macros(displayed(lesson)[number - 1])
    values = function()
    with np.errstate(all="ignore"):
        for environment in [values] if isinstance(values, dict) else values:
            for line in evaluate.lines([text], environment):
                yield line, atol


# Backpropagation


@reads("slope", 1, 2)
def a_price():
    return {"w": 1, "x": 2, "y": 5, r"\hat{y}": 2, "L": 9}


@reads("slope", 5)
def the_line(w=1.0):
    value = Of(lambda w, x: w * x, "w", "x")
    return {"w": w, "x": 2.0, "y": 5.0, r"\hat{y}": value, "L": Of(squared, r"\hat{y}", "y")}


def squared(first, second):
    return (first - second) ** 2


@reads("chain_rule", 1, 2, 4)
def a_chain():
    return {
        "w": 1.0, "x": 2.0, "y": 5.0, "u": Of(lambda w, x: w * x, "w", "x"),
        r"\hat{y}": Of(lambda u: u**2, "u"), "L": Of(squared, r"\hat{y}", "y"),
    }  # fmt: skip


def slope_of_two_paths():
    environment = evaluate.Environment(two_paths())
    return environment.derivative(r"\hat{y}", "u_{1}")


@reads("paths", 1, 3)
def two_paths():
    return {
        "w": 1.0, "x": 2.0, "y": 5.0, "u_1": Of(lambda w, x: w * x, "w", "x"),
        "u_2": Of(lambda u: u + 1, "u_1"), r"\hat{y}": Of(lambda u, v: u * v, "u_1", "u_2"),
        "L": Of(squared, r"\hat{y}", "y"),
    }  # fmt: skip


@reads("neuron", 1)
def the_sum():
    return {"w": From(1, [1.0, 2.0]), "x": From(1, [2.0, 1.0]), "b": -3.0, "z": 1.0}


@reads("neuron", 2, 4, atol=6e-5)
def the_activation():
    return {"z": 1.0, "a": Of(sigmoid, "z"), r"\sigma": sigmoid}


@reads("neuron", 3)
def slope_of_the_sigmoid():
    return {
        "z": 0.7,
        r"\sigma": sigmoid,
        r"\dv{\sigma}{z}": evaluate.derivative_of(sigmoid, 1)(0.7),
    }


@reads("neuron", 5, 6, atol=6e-5)
def a_neuron_that_is_wrong():
    z = Of(lambda w, x, b: w @ x + b, "w", "x", "b")
    z_env = {"w": [1.0, 2.0], "x": [2.0, 1.0], "b": -3.0, "z": z, "a": Of(sigmoid, "z")}
    return {**z_env, "y": 0.0, "L": Of(squared, "a", "y"), r"\delta": 2 * 0.7310586 * 0.1966119}


W1 = np.array([[1.0, -1.0], [-1.0, 1.0], [1.0, 0.0]])


@reads("layer", 1, 2, 3, 4, 5)
def a_layer():
    rng = np.random.default_rng(0)
    W, b, x, delta = (
        rng.normal(size=(3, 2)),
        rng.normal(size=3),
        rng.normal(size=2),
        rng.normal(size=3),
    )
    z = Of(lambda W, x, b: W @ x + b, "W", "x", "b")
    return {"W": W, "b": b, "x": x, "z": z, r"\delta": delta, "L": Of(lambda z: delta @ z, "z")}


@reads("relu", 2)
def two_layers_without_a_bend():
    return dict(zip(("w_1", "w_2", "b_1", "b_2", "x"), (0.3, -2.0, 0.7, 1.1, 1.9), strict=True))


@reads("relu", 1)
def no_line_does_exclusive_or():
    return {"w_1": 0.3, "w_2": -2.0, "b": 0.7, "f": lambda x, y: 0.3 * x - 2 * y + 0.7}


@reads("relu", 5)
def gradient_of_a_bend():
    return [{"z": z, "h": Of(relu, "z"), "L": Of(lambda h: 3 * h, "h")} for z in (-1.0, 2.0)]


SCORES = np.log([1.0, 3.0, 6.0])


@reads("softmax_and_cross_entropy", 1, 2, 3, atol=6e-4)
def a_softmax():
    return {"z": SCORES, "p": Of(softmax, "z"), "y": 1, "L": 1.204}


@reads("softmax_and_cross_entropy", 4)
def the_loss_by_scores():
    return {"z": SCORES, "y": 1, "L": -np.log(0.3)}


@reads("softmax_and_cross_entropy", 5)
def slope_of_log_sum_exp():
    return {"z": SCORES, "p": softmax(SCORES)}


@reads("softmax_and_cross_entropy", 6)
def prediction_minus_truth():
    onehot = lambda y: np.eye(3)[y]  # noqa: E731
    L = Of(lambda z: -np.log(softmax(z))[1], "z")
    return {"z": SCORES, "p": softmax(SCORES), "y": 1, "onehot": onehot, "L": L}


# Training


BETA, STEPS = 0.5, range(1, 5)


@reads("momentum", 1)
def with_momentum():
    g = np.array([0.5, -1.0, 2.0, 0.25])
    m = [sum(BETA ** (t - s) * g[s] for s in range(t + 1)) for t in range(4)]
    w = 3.0 - 0.1 * np.cumsum([0.0, *m])
    return {
        "t": STEPS,
        r"\beta": BETA,
        r"\eta": 0.1,
        "g": From(1, g),
        "m": From(0, [0.0, *m]),
        "w": From(0, w),
    }


@reads("momentum", 2)
def four_equal_slopes():
    return {"m": From(1, [1.0, 1.5, 1.75, 1.875])}


@reads("adam", 1, 2)
def adam():
    g = np.array([0.5, -1.0, 2.0, 0.25])
    first, second, rate, eps = 0.9, 0.999, 0.1, 1e-8
    m = [(1 - first) * sum(first ** (t - s) * g[s] for s in range(t + 1)) for t in range(4)]
    v = [(1 - second) * sum(second ** (t - s) * g[s] ** 2 for s in range(t + 1)) for t in range(4)]
    m_hat = np.array([m[t] / (1 - first ** (t + 1)) for t in range(4)])
    v_hat = np.array([v[t] / (1 - second ** (t + 1)) for t in range(4)])
    w = 3.0 - rate * np.cumsum([0.0, *(m_hat / (np.sqrt(v_hat) + eps))])
    return {
        "t": STEPS, r"\beta_1": first, r"\beta_2": second, r"\eta": rate, r"\epsilon": eps,
        "g": From(1, g), "m": From(0, [0.0, *m]), "v": From(0, [0.0, *v]),
        r"\hat{m}": From(1, m_hat), r"\hat{v}": From(1, v_hat), "w": From(0, w),
    }  # fmt: skip


@reads("adam", 3, atol=6e-3)
def the_second_step_of_adam():
    return {r"\hat{m}_2": 0.947, r"\hat{v}_2": 1.999}


@reads("schedule_and_clipping", 1)
def a_long_gradient():
    return {"g": [6.0, 8.0]}


@reads("regularization", 1, 2)
def with_decay():
    loss = Of(lambda w: np.sum(np.sin(w)), "w")
    w = np.array([0.3, -1.0])
    new = w - 0.5 * (np.cos(w) + 0.1 * w)
    total = Of(lambda L, w: L + 0.1 / 2 * np.sum(w**2), "L", "w")
    return {
        "w": w,
        r"\lambda": 0.1,
        r"\eta": 0.5,
        "L": loss,
        r"L_{\text{total}}": total,
        r"w_{\text{new}}": new,
    }


@reads("regularization", 3)
def a_mean_with_dropout():
    return {"p": 0.2, "a": 3.0}


@reads("overfitting", 1, 2)
def a_coin_of_the_data():
    loss = Of(lambda p: -0.8 * np.log(p) - 0.2 * np.log(1 - p), "p")
    return {"p": 0.63, "L": loss}


@reads("overfitting", 3)
def where_its_slope_is_zero():
    return {"p": 0.8}


def normalized_row(center):
    rng = np.random.default_rng(1)
    x, g = rng.normal(size=6), rng.normal(size=6)
    mu = lambda x: x.mean() if center else 0.0  # noqa: E731
    sigma = lambda x: np.sqrt(np.mean((x - mu(x)) ** 2))  # noqa: E731
    hat = lambda x: (x - mu(x)) / sigma(x)  # noqa: E731
    return x, g, mu, sigma, hat


@reads("rms_norm", 2, 3, 4)
def rms_norm():
    x, g, _, size, hat = normalized_row(center=False)
    r = Of(size, "x")
    loss = Of(lambda x, r: g @ (x / r), "x", "r")
    return {"x": x, "g": g, "n": 6, "r": r, r"\hat{x}": hat(x), "L": loss, "mean": np.mean}


@reads("rms_norm", 5)
def the_numbers_of_rms_norm():
    return {}


@reads("layer_norm", 4)
def layer_norm():
    x, g, _, sigma, hat = normalized_row(center=True)
    loss = Of(lambda x: g @ hat(x), "x")
    return {"x": x, "g": g, r"\sigma": sigma(x), r"\hat{x}": hat(x), "L": loss, "mean": np.mean}


@reads("layer_norm", 2, 3)
def layer_norm_by_parts():
    x, g, mu, _, hat = normalized_row(center=True)
    size = Of(lambda u: np.sqrt(np.mean(u**2)), "u")
    loss = Of(lambda u, s: g @ (u / s), "u", r"\sigma")
    return {"u": x - mu(x), "g": g, "n": 6, r"\sigma": size, r"\hat{x}": hat(x), "L": loss}


@reads("batch_norm", 1, 2, 3)
def batch_norm():
    x, g, mu, sigma, _ = normalized_row(center=True)
    y = Of(lambda a, h, b: a * h + b, r"\gamma", r"\hat{x}", "b")
    return {
        "x": x, r"\mu": mu(x), r"\sigma": np.sqrt(sigma(x) ** 2 - 1e-5), r"\epsilon": 1e-5,
        r"\gamma": 1.3, "b": 0.4, r"\hat{x}": (x - mu(x)) / sigma(x), "y": y,
        "L": Of(lambda y: g @ y, "y"),
    }  # fmt: skip


@reads("batch_norm", 6)
def batch_norm_backward():
    x, g, _, sigma, hat = normalized_row(center=True)
    loss = Of(lambda x: g @ hat(x), "x")
    return {"x": x, "g": g, r"\sigma": sigma(x), r"\hat{x}": hat(x), "L": loss, "mean": np.mean}


# Sequences


@reads("rnn", 2)
def the_slope_of_tanh():
    return {"z": 0.7}


@reads("rnn", 3, atol=6e-4)
def three_states():
    return {"z": From(1, [0.693, 1.099, 0.693]), "h": From(1, [0.6, 0.8, 0.6])}


@reads("rnn", 4)
def from_state_to_state():
    z, h = Of(lambda h: 0.4 + 0.5 * h, "h_{t-1}"), Of(np.tanh, "z_t")
    return {"h_{t-1}": 0.3, "w_h": 0.5, "z_t": z, "h_t": h}


@reads("bptt", 2, atol=6e-5)
def three_steps_back():
    gradients = From(0, [0.01843, 0.0576, 0.32])
    return {
        r"\delta": From(1, [0.036864, 0.1152, 0.64]),
        r"\pdv{L}{h}": gradients,
        "h": From(0, [0.0] * 3),
    }


@reads("bptt", 3, atol=1e-4)
def one_weight_three_times():
    w = Of(last_state, "w_h")
    return {
        "w_h": 0.5,
        r"\delta": From(1, [0.0369, 0.1152, 0.64]),
        "h": From(0, [0.0, 0.6, 0.8]),
        "L": w,
    }


def last_state(w):
    """Return the state of the lesson after three inputs, whose sums make it 0.6, 0.8 and 0.6."""
    h = 0.0
    for z, before in zip(np.arctanh([0.6, 0.8, 0.6]), (0.0, 0.6, 0.8), strict=True):
        h = np.tanh(z - 0.5 * before + w * h)
    return h


@reads("bottleneck", 2, 4)
def a_state_that_forgets():
    return {"h_4": 9.5, "o": 7.5}


@reads("bottleneck", 3, 6, 7)
def a_weighted_mean():
    s, v = np.log([5.0, 1.0, 1.0, 1.0]), np.array([8.0, 0.0, 4.0, 16.0])
    return {"s": s, "p": Of(softmax, "s"), "v": v, "o": Of(lambda p: p @ v, "p")}


GATES = {"i": 0.25, "f": 0.9, "g": 0.6, "o": 0.5}


@reads("lstm", 3, 4, atol=1e-3)
def the_gates_of_a_step():
    return {**GATES, "c": 1.099, "h": 0.4}


@reads("lstm", 1)
@reads("lstm_backward", 1, 2, 3, atol=1e-3)
def an_lstm_step():
    c = Of(lambda f, c, i, g: f * c + i * g, "f", "c_{t-1}", "i", "g")
    h = Of(lambda o, c: o * np.tanh(c), "o", "c_t")
    step = {"c_{t-1}": 1.0540, "c_t": c, "h_t": h, "L": Of(lambda h: h, "h_t")}
    return {**GATES, **step, r"\text{later}": 0.0, "later": 0.0}


@reads("lstm_backward", 4, atol=1e-3)
def to_the_sums_of_the_gates():
    sums = {"i": -np.log(3), "f": np.log(9), "g": np.log(2), "o": 0.0}
    names = {gate: Of(np.tanh if gate == "g" else sigmoid, f"z_{gate}") for gate in sums}
    step = {**an_lstm_step(), **names, **{f"z_{gate}": z for gate, z in sums.items()}}
    environment = evaluate.Environment(step)
    deltas = {
        rf"\delta_{gate}": environment.derivative("L", evaluate.tex.key_of(f"z_{gate}"))
        for gate in sums
    }
    return {**an_lstm_step(), **deltas}


@reads("gru", 1)
@reads("gru", 3, atol=1e-3)
def a_step_of_a_gru():
    return {"u": 0.75, "n": 0.6, "h_{t-1}": 0.8, "h_t": 0.75}


@reads("gru", 4, atol=1e-3)
def a_gru_back():
    z = {"z_u": np.log(3), "z_r": 0.0}
    gates = {"u": Of(sigmoid, "z_u"), "r": Of(sigmoid, "z_r")}
    product = {"W_{nh}": 1.0, "h_{t-1}": 0.8}
    pre = Of(lambda r: 0.2931 + r * 0.8, "r")
    forward = {**z, **gates, "s": pre, "n": Of(np.tanh, "s")}
    loss = Of(lambda u, n: u * 0.8 + (1 - u) * n, "u", "n")
    slope = evaluate.Environment({**forward, "L": loss}).derivative
    deltas = {r"\delta_u": slope("L", "z_{u}"), r"\delta_r": slope("L", "z_{r}")}
    inner = evaluate.Environment({"s": np.log(2), "u": 0.75, "n": Of(np.tanh, "s"), "L": loss})
    return {
        "u": 0.75,
        "n": 0.6,
        "r": 0.5,
        **product,
        **deltas,
        r"\delta_n": inner.derivative("L", "s"),
    }


# Attention and positions


@reads("attention_backward", 1)
def an_attention():
    rng = np.random.default_rng(2)
    Q, K, V = rng.normal(size=(3, 4)), rng.normal(size=(5, 4)), rng.normal(size=(5, 2))
    up = rng.normal(size=(3, 2))
    S = Of(lambda Q, K: Q @ K.T / 2, "Q", "K")
    return {
        "Q": Q, "K": K, "V": V, "d": 4, "S": S, "P": Of(softmax, "S"), "softmax": softmax,
        "O": Of(lambda P, V: P @ V, "P", "V"), "L": Of(lambda O: np.sum(up * O), "O"), "up": up,
    }  # fmt: skip


@reads("attention_backward", 2, 4, 5)
def attention_back():
    forward = an_attention()
    slope = evaluate.Environment(forward).derivative
    gradients = {f"d{name}": slope("L", name) for name in "QKVSPO"}
    return {
        **forward,
        **{rf"\mathrm{{{k}}}": v for k, v in gradients.items()},
        "rowsum": lambda x: x.sum(-1, keepdims=True),
    }


@reads("attention", 2)
def two_tokens():
    Q = np.array([[2.0, 0, 0, 0], [0, 2.0, 0, 0]])
    K = np.array([[np.log(3), 0, 0, 0], [0, np.log(7), 0, 0]])
    V = np.array([[8.0, 0], [0, 16.0]])
    return {"Q": Q, "K": K, "V": V, "S": Q @ K.T / 2, "P": softmax(Q @ K.T / 2)}


@reads("heads", 2)
def two_outputs():
    return {"o": From(1, [8.0, 3.0])}


@reads("heads", 3)
def no_more_work():
    return {"H": 4.0, "T": 7.0, "d": 12.0}


def sums_of_attention(m):
    s, v = np.log([2.0, 1.0, 4.0]), np.array([[8.0, 1.0], [0.0, 2.0], [4.0, -1.0]])
    e = np.exp(s - m)
    return {"s": s, "v": v, "m": m, r"\ell": e.sum(), r"\tilde{o}": e @ v, "o": e @ v / e.sum()}


@reads("flash_attention", 1)
def three_sums():
    return sums_of_attention(0.0)


@reads("flash_attention", 2)
def three_sums_below_the_largest():
    return sums_of_attention(np.log(4.0))


@reads("flash_attention", 3)
def a_rescaled_term():
    return {"s": [0.3, 0.7], "m": 0.7, "m'": 1.9}


@reads("rope", 2, 4)
def only_the_distance():
    turn = lambda n: np.array([[np.cos(n), -np.sin(n)], [np.sin(n), np.cos(n)]])  # noqa: E731
    turns = {
        f"R_{{{k}}}": turn(v) for k, v in {"m": 2, "n": 5, "n-m": 3, "m-n": -3, "-m": -2}.items()
    }
    return {"q": [2.0, 1.0], "k": [-3.0, 4.0], **turns}


@reads("positions", 4)
def only_distances_of_sines():
    omega = np.array([1.0, 0.01])
    phi = lambda t: np.ravel([[np.sin(w * t), np.cos(w * t)] for w in omega])  # noqa: E731
    return {"m": 3.0, "n": 8.0, r"\omega": omega, r"\phi_m": phi(3), r"\phi_n": phi(8)}


@reads("residual", 2)
def a_shortcut():
    return {r"\pdv{L}{y}": 2.0, r"\pdv{L}{x}": 3.0, "x": 1.0, "f": lambda x: 0.5 * x}


@reads("residual", 4)
def three_blocks():
    return {}


@reads("feed_forward", 1)
def a_mean_stays_below():
    p, v = np.array([0.2, 0.8]), np.array([3.0, 1.0])
    return {"p": p, "v": v, "o": p @ v, r"v_{\max}": 3.0, "j": range(2)}


@reads("feed_forward", 2)
def a_network():
    rng = np.random.default_rng(3)
    W1, W2, b1, b2, x = (rng.normal(size=n) for n in [(3, 2), (2, 3), 3, 2, 2])
    h = relu(W1 @ x + b1)
    return {
        "W_1": W1, "W_2": W2, "b_1": b1, "b_2": b2, "x": x, "z": W1 @ x + b1, "h": h,
        "ReLU": relu, "output": W2 @ h + b2,
    }  # fmt: skip


# A language model, and beyond


@reads("language_model", 2)
def count_of_the_parameters():
    return {}


@reads("language_model", 4, atol=6e-3)
def the_loss_at_the_start():
    return {"L": 3.80, "n": 27}


@reads("generation", 1, 4)
def a_temperature():
    z = np.log([16.0, 4.0, 1.0, 1.0])
    p = Of(lambda z, t: softmax(z / t), "z", r"\tau")
    return {"z": z, r"\tau": 0.7, "p": p, r"\mu": softmax(z / 0.7) @ z}


@reads("generation", 2, atol=6e-5)
def its_probabilities():
    return {"p": [16 / 22, 4 / 22, 1 / 22, 1 / 22]}


@reads("convolution", 1, 2)
def a_convolution():
    rng = np.random.default_rng(4)
    x, w, delta = rng.normal(size=7), rng.normal(size=3), rng.normal(size=5)
    z = Of(lambda w, x: np.array([w @ x[t : t + 3] for t in range(5)]), "w", "x")
    return {
        "t": range(5),
        "j": range(3),
        "x": x,
        "w": w,
        "z": z,
        r"\delta": delta,
        "L": Of(lambda z: delta @ z, "z"),
    }


@reads("lora", 2, 3, 4, 5, 6)
def low_rank():
    rng = np.random.default_rng(5)
    W, B, A, x, delta = (rng.normal(size=n) for n in [(4, 4), (4, 2), (2, 4), 4, 4])
    u, z = (
        Of(lambda A, x: A @ x, "A", "x"),
        Of(lambda W, B, u, x: W @ x + B @ u, "W", "B", "u", "x"),
    )
    return {
        "W": W,
        "B": B,
        "A": A,
        "x": x,
        "u": u,
        "z": z,
        r"\delta": delta,
        "L": Of(lambda z: delta @ z, "z"),
    }


@reads("preference", 1, 3, 4)
def a_preference():
    names = {
        r"\ell_+": -3.0,
        r"\ell_-": -5.0,
        r"\ell_+^{\text{ref}}": -4.0,
        r"\ell_-^{\text{ref}}": -4.0,
    }
    z = Of(lambda a, b: 0.5 * ((a + 4) - (b + 4)), r"\ell_+", r"\ell_-")
    return {
        **names,
        r"\beta": 0.5,
        "z": z,
        r"\sigma": sigmoid,
        "L": Of(lambda z: -np.log(sigmoid(z)), "z"),
    }


@reads("preference", 2, atol=1e-4)
def its_loss():
    return {"z": 1.0, r"\sigma": sigmoid, "L": 0.3133}


@reads("diffusion", 1, 2)
def a_noisy_number():
    return {"z": 0.2, r"\alpha": 0.6, r"\sigma": 0.8, "x": 1.0, r"\varepsilon": -0.5}


@reads("diffusion", 5, atol=6e-3)
def a_mean_of_noise():
    return {}


# More of the same


@reads("autograd", 1)
def slopes_of_two_operations():
    return {"u_1": 3.0, "u_2": -2.0}


@reads("two_layers", 1, 2)
def a_network_forward():
    h, x = np.array([1.0, 0.0, 2.0]), np.array([2.0, 1.0])
    W2, b2 = np.array([[1.0, 1, 0], [-1, 2, 1], [1, -1, 0]]), np.log([1.0, 3.0, 6.0])
    W = np.array([[0.0, 1.0], [-1.0, 1.0], [1.0, 0.0]])
    p = softmax(W2 @ h + b2)
    return {
        "W_1": W, "x": x, "b_1": np.array([0.0, 0, 0]), "z_1": np.array([1.0, -1.0, 2.0]), "h": h,
        "W_2": W2, "b_2": b2, "z_2": W2 @ h + b2, "p": p, "y": 1, "L": -np.log(p[1]),
    }  # fmt: skip


@reads("two_layers", 3)
def its_first_gradient():
    return {
        "p": [0.1, 0.3, 0.6],
        "y": 1,
        "onehot": lambda y: np.eye(3)[y],
        r"\delta_2": [0.1, -0.7, 0.6],
    }


@reads("attention_backward", 6, 7)
def two_tokens_back():
    P = np.array([[0.75, 0.25], [0.125, 0.875]])
    V = np.array([[8.0, 0.0], [0.0, 16.0]])
    dP = V.T
    dS = P * (dP - (P * dP).sum(-1, keepdims=True))
    return {"P": P, "V": V, r"\mathrm{dV}": P.T, r"\mathrm{dP}": dP, r"\mathrm{dS}": dS}


@reads("attention_backward", 3)
@reads("causal_mask", 3)
def a_row_of_softmax():
    rng = np.random.default_rng(6)
    s, g = rng.normal(size=4), rng.normal(size=4)
    p = softmax(s)
    ds = evaluate.Environment({"s": s, "L": Of(lambda s: g @ softmax(s), "s")}).derivative("L", "s")
    return {"p": p, r"\mathrm{dp}": g, r"\mathrm{ds}": ds, "j": range(4), "i": range(4)}


@reads("bptt", 1)
@reads("rnn", 1)
def a_recurrent_network():
    h, W_x, W_h, b, x = [0.0], 0.7, 0.5, 0.0, [1.0, -0.4, 0.3]
    for value in x:
        h.append(np.tanh(W_x * value + W_h * h[-1]))
    return {
        "t": range(1, 4), "x": From(1, x), "h": From(0, h), "w_x": W_x, "w_h": W_h,
        "W_x": W_x, "W_h": W_h, "b": b,
    }  # fmt: skip


@reads("positions", 3, atol=6e-5)
def the_first_positions():
    phi = [[np.sin(t), np.cos(t), np.sin(t / 100), np.cos(t / 100)] for t in range(3)]
    return {r"\phi": np.array(phi)}


@reads("rope", 3)
def two_turns():
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    return {"R_1": turn, "R_2": turn @ turn, "q": [2.0, 1.0], "k": [5.0, 0.0]}


@reads("rope", 5)
def rope_back():
    turn = lambda n: np.array([[np.cos(n), -np.sin(n)], [np.sin(n), np.cos(n)]])  # noqa: E731
    g = np.array([0.3, -2.0])
    y = Of(lambda x: turn(2) @ x, "x")
    L = Of(lambda y: g @ y, "y")
    return {"x": [1.0, 3.0], "y": y, "L": L, "g": g, "R_n": turn(2), "R_{-n}": turn(-2)}


@reads("rms_norm", 1)
def rms_norm_forward():
    x, *_ = normalized_row(center=False)
    r = np.sqrt(np.mean(x**2) + 1e-5)
    gamma = np.linspace(1, 2, 6)
    return {
        "n": 6,
        "x": x,
        "r": r,
        r"\epsilon": 1e-5,
        r"\hat{x}": x / r,
        r"\gamma": gamma,
        "y": gamma * x / r,
    }


@reads("layer_norm", 1)
def the_row_of_layer_norm():
    x = np.array([1.0, 7.0, 9.0, 15.0])
    return {"x": x, r"\mu": 8.0, r"\sigma": 5.0, r"\hat{x}": (x - 8) / 5}


@reads("batch_norm", 5)
def batch_norm_by_parts():
    x, _, mu, sigma, hat = normalized_row(center=True)

    def slope(f):
        return np.array([np.imag(f(x + 1e-100j * row)) / 1e-100 for row in np.eye(6)]).T

    return {
        "x": x, "N": 6, r"\mu": mu(x), r"\sigma": sigma(x), r"\hat{x}": hat(x),
        "k": range(6), "i": range(6),
        r"\pdv{\sigma^2}{x}": slope(lambda x: sigma(x) ** 2), r"\pdv{\sigma}{x}": slope(sigma),
        r"\pdv{\hat{x}}{x}": slope(hat),
    }  # fmt: skip


@reads("relu", 3)
def a_bend():
    return {"z": -0.7}


@reads("relu", 4)
def exclusive_or():
    return [
        {"x_1": a, "x_2": b, "h_1": relu(a + b), "h_2": relu(a + b - 1), r"\hat{y}": float(a != b)}
        for a in (0.0, 1.0)
        for b in (0.0, 1.0)
    ]


@reads("residual", 1)
def with_a_shortcut():
    return {"x": 0.3, "y": 0.3 + np.sin(0.3), "f": np.sin}


@reads("residual", 3)
def three_shortcuts():
    return {"f'": 0.1, r"\dv{y}{x}": 1.331, "y": 0.0, "x": 0.0}


@reads("schedule_and_clipping", 2)
def a_clipped_gradient():
    return {"g": [6.0, 8.0], r"g_{\max}": 5.0, r"g_{\text{clipped}}": [3.0, 4.0]}


@reads("bottleneck", 1)
def half_of_each():
    h, x = [0.0], [16.0, 0.0, 4.0]
    for value in x:
        h.append(h[-1] / 2 + value / 2)
    return {"t": range(1, 4), "x": From(1, x), "h": From(0, h)}


@reads("lstm", 2)
def a_gate():
    z = 0.3 * 2 + 0.5 * -1 + 0.1
    inputs = {
        "W_x": 0.3,
        "x_t": 2.0,
        "W_h": 0.5,
        "h_{t-1}": -1.0,
        "b": 0.1,
        "z": z,
        r"\sigma": sigmoid,
    }
    sums = {"z_i": -1.0, "z_f": 2.0, "z_g": 0.7, "z_o": 0.0}
    return {**inputs, **sums, "i": sigmoid(-1.0), "f": sigmoid(2.0), "g": np.tanh(0.7), "o": 0.5}


@reads("gru", 2)
def a_candidate():
    r = sigmoid(0.4)
    names = {
        "W_{nx}": 0.3,
        "x_t": 2.0,
        "b_n": 0.1,
        "W_{nh}": 0.5,
        "h_{t-1}": -1.0,
        r"\sigma": sigmoid,
    }
    return {**names, "z_u": 1.0, "z_r": 0.4, "r": r, "u": sigmoid(1.0), "n": np.tanh(0.7 - 0.5 * r)}


@reads("kv_cache", 3)
def numbers_of_a_cache():
    return {}


@reads("chain_rule", 3)
def ratios():
    return {r"\mathrm{DL}": 0.3, r"\mathrm{Dw}": 0.1, r"\mathrm{Du}": 0.25, r"\mathrm{Dy}": 0.7}


@reads("paths", 4)
def a_change_of_a_product():
    small = {
        r"\mathrm{Dy}": 0.1 * 3 + 2 * 0.2 + 0.1 * 0.2,
        r"\mathrm{Du}_1": 0.1,
        r"\mathrm{Du}_2": 0.2,
    }
    return {"u_1": 2.0, "u_2": 3.0, **small}


@reads("flash_attention", 5, atol=1e-3)
def two_blocks_joined():
    return {r"\ell'": 2.0, r"\tilde{o}'": 11.0}


@reads("flash_attention", 6)
def slope_of_the_log_of_the_sum():
    s = np.array([0.3, -1.0, 0.7])
    return {"s": s, "p": softmax(s), r"\text{lse}": Of(lambda s: np.log(np.exp(s).sum()), "s")}


@reads("feed_forward", 3)
def its_weights():
    return {"W_1": np.array([[1.0, -1.0], [-1.0, 1.0]]), "W_2": np.array([[1.0, 1.0], [0.5, -0.5]])}


@reads("feed_forward", 5)
def its_way_back():
    W1, W2 = np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([[1.0, 1.0], [0.5, -0.5]])
    x, h, up = np.array([3.0, 1.0]), np.array([2.0, 0.0]), np.array([1.0, 0.0])
    dz = (W2.T @ up) * (h > 0)
    known = {
        "h": W2.T @ up,
        "W_2": np.outer(up, h),
        "z": dz,
        "x": W1.T @ dz,
        "W_1": np.outer(dz, x),
    }
    gradients = {rf"\pdv{{L}}{{{name}}}": value for name, value in known.items()}
    return {"W_1": W1, "W_2": W2, "x": x, "h": h, "z": x, "L": 0.0, **gradients}


@reads("slope", 3, 4)
def a_small_change():
    return {"w": 1.3, "x": 2.0, "y": 5.0, r"\mathrm{Dw}": 0.1, "L": lambda w: (w * 2 - 5) ** 2}


@reads("autograd", 3)
@reads("paths", 6)
def a_sum_over_paths():
    known = {r"\pdv{L}{v}": From(1, [2.0, -1.0]), r"\pdv{v}{u}": From(1, [0.5, 3.0])}
    total = {r"\pdv{L}{u}": -2.0, r"\dv{L}{u}": -2.0}
    return {"L": 0.0, "u": 0.0, "v": From(1, [0.0, 0.0]), "n": 2, **known, **total}


@reads("two_layers", 4, 6)
def its_gradients():
    x, W1 = np.array([2.0, 1.0]), np.array([[1.0, 2.0], [-1.0, 1.0], [1.0, -1.0]])
    W2 = np.array([[1.0, 1, 0], [-1, 2, 1], [1, -1, 0]])
    return {
        "x": x, "W_1": W1, "b_1": np.array([-3.0, 0.0, 1.0]), "W_2": W2,
        "b_2": np.log([1.0, 3.0, 6.0]), "z_1": Of(affine, "W_1", "x", "b_1"), "h": Of(relu, "z_1"),
        "z_2": Of(affine, "W_2", "h", "b_2"), "L": Of(lambda z: -np.log(softmax(z))[1], "z_2"),
        r"\delta_2": np.array([0.1, -0.7, 0.6]), r"\delta_1": np.array([1.4, 0.0, -0.7]),
    }  # fmt: skip


def affine(W, x, b):
    return W @ x + b


@reads("feed_forward", 4, 6)
def a_feed_forward_network_back():
    W1, W2 = np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([[1.0, 1.0], [0.5, -0.5]])
    return {
        "x": [3.0, 1.0], "W_1": W1, "W_2": W2, "z": Of(lambda W, x: W @ x, "W_1", "x"),
        "h": Of(relu, "z"), "L": Of(lambda W, h: (W @ h)[0], "W_2", "h"),
    }  # fmt: skip


@reads("convolution", 3, 4)
def a_convolution_back():
    rng = np.random.default_rng(4)
    x, w, delta = rng.normal(size=7), rng.normal(size=3), rng.normal(size=5)
    known = {r"\pdv{L}{x}": np.convolve(delta, w), r"\pdv{L}{w}": np.correlate(x, delta)}
    ranges = {"t": range(5), "j": range(3), "s": range(7)}
    return {**ranges, "x": x, "w": From(0, w, outside=0.0), r"\delta": delta, "L": 0.0, **known}


@reads("quantization", 1)
def a_rounded_weight():
    return {"w": 0.31, "s": 0.25, r"\hat{w}": 0.25}


@reads("quantization", 2)
def a_slope_across_a_step():
    return {"w": 0.31, "s": 0.25, r"\hat{w}": lambda w: 0.25 * np.round(np.real(w) / 0.25)}


@reads("rope", 1)
def a_rotation():
    c, s = np.cos(0.6), np.sin(0.6)
    return {"n": 3.0, r"\omega": 0.2, "R_n": np.array([[c, -s], [s, c]])}


@reads("block", 1)
def a_block():
    middle = 0.3 + np.tanh(2 * 0.3)
    norms = {"norm_1": lambda x: 2 * x, "norm_2": lambda x: 3 * x}
    maps = {"attention": np.tanh, "network": np.sin}
    return {"x": 0.3, "x'": middle, "output": middle + np.sin(3 * middle), **norms, **maps}
