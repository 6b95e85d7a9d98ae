"""The displayed equations of dlref.neurons."""

import numpy as np
from equations import tex
from equations.evaluate import From, Of, mapped
from equations.ledger import equation, reads
from equations.numeric import jacobian_of

from dlref import neurons
from dlref.formulas import neurons as formulas
from dlref.formulas.activations import relu

RNG = np.random.default_rng(0)

# One neuron

w, x, b = RNG.normal(size=3), RNG.normal(size=3), 0.2


@reads(r"z = \sum_{i=1}^{D} w_i x_i + b , \qquad a = f(z) .")
def the_neuron():
    a = formulas.neuron(x, w, b, activation="tanh")
    return {"w": From(1, w), "x": From(1, x), "b": b, "D": 3, "f": np.tanh, "a": a}


@reads(
    r"\pdv{z}{w_j} = \sum_i \pdv{w_i}{w_j}\, x_i = x_j , \qquad \pdv{z}{b} = 1 .",
    r"\pdv{a}{\vec w} = f'(z)\, \vec x , \qquad \pdv{a}{b} = f'(z) .",
)
def slopes_and_gradient_of_a_neuron():
    return unit(np.tanh)


@reads(r"\pdv{a}{\vec w} = \begin{cases} \vec 0 & z \le 0 \\ \vec x & z > 0 , \end{cases}…")
def gradient_of_a_relu_neuron():
    slopes = neurons.neuron_grad(x, 0 * w, 0.0)  # where a subgradient was chosen
    kink = {"x": x, "z": 0.0, r"\pdv{a}{w}": slopes[0], r"\pdv{a}{b}": slopes[1]}
    return [unit(relu, -5.0), unit(relu, 5.0), kink]


def unit(f, bias=b):
    """Return the environment of a neuron."""
    z = Of(lambda w, x, b: w @ x + b, "w", "x", "b")
    return {"w": w, "x": x, "b": bias, "f": f, "z": z, "a": Of(f, "z")}


# A dense layer

ROWS = 6
X, W, B = RNG.normal(size=(ROWS, 3)), RNG.normal(size=(4, 3)), RNG.normal(size=4)


@reads(r"\mat Y = \mat X \mat W^\top + \vec 1 \vec b^\top ,")
def the_dense_layer():
    return {r"\mat X": X, "W": W, "b": B, r"\vec 1": np.ones(ROWS), "Y": formulas.linear(X, W, B)}


@reads(r"\pdv{y_i}{x_j} = \sum_m W_{im}\, \pdv{x_m}{x_j} = \sum_m W_{im}\, \delta_{mj} = W_{ij} .")
def jacobian_of_a_dense_layer():
    return {"x": x, "W": W, "y": Of(lambda x: formulas.linear(x, W, B), "x"), "m": range(3)}


@reads(r"\pdv{L}{X_{nj}} = \sum_i U_{ni} W_{ij} , \qquad \pdv{L}{W_{ij}} = \sum_n U_{ni} X_{nj} …")
def gradients_through_a_dense_layer():
    env = mapped(formulas.linear, {"X": X, "W": W, "b": B}, "Y")
    return {**env, "U": env["u"]}


# A multilayer perceptron, its layers counted from 1

D = (3, 4, 5, 2)
L = len(D) - 1
WEIGHTS = [None, *(RNG.normal(size=(D[k], D[k - 1])) for k in range(1, L + 1))]
BIASES = [None, *(RNG.normal(size=n) for n in D[1:])]
MASKS = [None, *(RNG.uniform(0.5, 2.0, size=n) for n in D[1:-1])]
OUT = RNG.normal(size=(ROWS, D[-1]))  # the gradient u, a row for each input
PARAMS = tuple(map(neurons.LinearParams, WEIGHTS[1:], BIASES[1:]))


def phi(z):
    return np.tanh(z)


def passed(x, weights=WEIGHTS, biases=BIASES):
    """Return all z and h of an input, or of rows of them."""
    z, h = [None], [x]
    for k in range(1, L + 1):
        z.append(h[-1] @ weights[k].T + biases[k])
        h += [MASKS[k] * phi(z[-1])] if k < L else []
    return z, h


def rest(k, z, u):
    """Return the loss as a function of z of the k-th layer."""
    for m in range(k, L):
        z = (MASKS[m] * phi(z)) @ WEIGHTS[m + 1].T + BIASES[m + 1]
    return np.sum(u * z)


def of_layer(l):
    """Return the environment of a layer below the last, by the names of the text."""
    (_, h), delta = passed(X[0]), deltas(X[0], OUT[0])
    inputs = {"h_{l-1}": h[l - 1], "W_l": WEIGHTS[l], "b_l": BIASES[l]}
    above = {"W_{l+1}": WEIGHTS[l + 1], "b_{l+1}": BIASES[l + 1], "m_l": MASKS[l], r"\phi": phi}
    affine = lambda h, w, b: w @ h + b  # noqa: E731
    layers = {"z_l": Of(affine, *inputs), "h_l": Of(lambda z: MASKS[l] * phi(z), "z_l")}
    layers["z_{l+1}"] = Of(affine, "h_l", "W_{l+1}", "b_{l+1}")
    back = {r"\delta_l": delta[l], r"\delta_{l+1}": delta[l + 1], r"\delta_K": delta[L]}
    return {**inputs, **above, **layers, **back, "u": OUT[0]}


def deltas(x, u):
    """Return the gradients of the loss by the z of each layer, for one input."""
    z, _ = passed(x)
    return [None, *(jacobian_of(lambda v, k=k: rest(k, v, u), z[k]) for k in range(1, L + 1))]


@reads(r"\vec z_l = \mat W_l \vec h_{l-1} + \vec b_l , \qquad \vec h_l = \vec m_l \odot \phi(\vec…")
def the_perceptron():
    layers = []
    for l in range(1, L):
        masks = tuple(MASKS[1:l])
        z = formulas.mlp(X[0], PARAMS[:l], activation="tanh", dropout=masks or None)
        layers.append({**of_layer(l), "z_l": z, "h_l": MASKS[l] * phi(z)})
    return layers


@reads(
    r"\vec \delta_K = \vec u , \qquad \vec \delta_l…",
    r"\pdv{\vec h_l}{\vec z_l} = \operatorname{diag}(\vec m_l \odot \phi'(\vec z_l)) …",
    r"\vec \delta_l = \operatorname{diag}(\vec m_l \odot \phi'(\vec z_l))\, \mat W_{l+1}^\top…",
    r"\dot{\vec z}_l = \dot{\mat W}_l \vec h_{l-1} + \mat W_l \dot{\vec h}_{l-1} +…",
)
def layers_of_a_perceptron():
    return [of_layer(l) for l in range(1, L)]


@equation(
    r"""\norm{\vec \delta_1} \le s^{K-1} \prod_{l=2}^{K} \sigma_l \; \norm{\vec \delta_K} ."""
)
def bound_of_the_first_delta():
    L, s = 4, 0.25

    def both_sides(weights, slopes):
        """Return the norm and its bound; weights and slopes are counted from 0, not used."""
        delta = [None] * L + [np.ones(3)]
        for l in range(L - 1, 0, -1):
            delta[l] = slopes[l] * (weights[l + 1].T @ delta[l + 1])
        sigma = [np.linalg.norm(weight, 2) for weight in weights]
        bound = s ** (L - 1) * np.prod([sigma[l] for l in range(2, L + 1)])
        return np.linalg.norm(delta[1]), bound * np.linalg.norm(delta[L])

    rng = np.random.default_rng(0)
    for _ in range(500):  # also nearly orthogonal layers, which come close to the bound
        weights = np.linalg.qr(rng.normal(size=(L + 1, 3, 3)))[0]
        weights += rng.exponential(0.3) * rng.normal(size=(L + 1, 3, 3))
        slopes = rng.uniform(rng.uniform(0, s), s, size=(L, 3))
        norm, bound = both_sides(weights, slopes)
        assert norm <= bound * (1 + 1e-12), (weights, slopes)
    turns = [np.multiply(l, np.linalg.qr(weight)[0]) for l, weight in enumerate(weights)]
    yield both_sides(turns, np.full((L, 3), s))  # which reach the bound


@reads(r"\pdv{L}{\mat W_l} = \sum_{\text{rows}} \vec \delta_l \vec h_{l-1}^\top , \qquad…")
def gradients_of_a_perceptron():
    def replaced(arrays, l, array):
        return [*arrays[:l], array, *arrays[l + 1 :]]

    def loss(weights=WEIGHTS, biases=BIASES):
        return np.sum(OUT * passed(X, weights, biases)[0][L])

    every = [(deltas(x, u), passed(x)[1]) for x, u in zip(X, OUT, strict=True)]
    by_input = jacobian_of(lambda x: np.sum(OUT[0] * passed(x)[0][L]), X[0])
    given = {r"\pdv{L}{x}": by_input, "W_1": WEIGHTS[1], r"\delta_1": every[0][0][1]}
    layers = []
    for l in range(1, L + 1):
        rows = [{r"\delta_l": delta[l], "h_{l-1}": h[l - 1]} for delta, h in every]
        keys = [{tex.key_of(name): value for name, value in row.items()} for row in rows]
        weight, bias = WEIGHTS[l], BIASES[l]
        found = {"W_l": weight, "b_l": bias, "rows": keys, **rows[0]}
        loss_of = lambda w, b, l=l: loss(replaced(WEIGHTS, l, w), replaced(BIASES, l, b))  # noqa: E731
        layers.append({**given, **found, "L": Of(loss_of, "W_l", "b_l")})
    return layers
