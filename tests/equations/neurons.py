"""The displayed equations of dlref.neurons."""

import numpy as np
from equations.ledger import equation
from equations.numeric import complex_step, jacobian_of

from dlref import neurons

RNG = np.random.default_rng(0)

# One neuron

w, x, b = RNG.normal(size=3), RNG.normal(size=3), 0.2


def pre_activation(w, b, x=x):
    return np.sum(w * x) + b


@equation(r"z = \sum_{i=1}^{D} w_i x_i + b , \qquad a = f(z) .")
def the_neuron():
    z = sum(w[i] * x[i] for i in range(3)) + b
    yield z, pre_activation(w, b), neurons.neuron(x, w, b, activation="identity")
    yield np.tanh(z), neurons.neuron(x, w, b, activation="tanh")


@equation(r"\pdv{z}{w_j} = \sum_i \pdv{w_i}{w_j}\, x_i = x_j , \qquad \pdv{z}{b} = 1 .")
def slopes_of_the_pre_activation():
    by_w = jacobian_of(lambda w: pre_activation(w, b), w)
    yield by_w, np.einsum("ij,i->j", jacobian_of(lambda w: w, w), x), x
    yield jacobian_of(lambda b: pre_activation(w, b), b), 1


@equation(r"\pdv{a}{\vec w} = f'(z)\, \vec x , \qquad \pdv{a}{b} = f'(z) .")
def gradient_of_a_neuron():
    slope = complex_step(np.tanh, pre_activation(w, b))
    yield jacobian_of(lambda w: np.tanh(pre_activation(w, b)), w), slope * x
    yield jacobian_of(lambda b: np.tanh(pre_activation(w, b)), b), slope


@equation(
    r"""\pdv{a}{\vec w} = \begin{cases} \vec 0 & z \le 0 \\ \vec x & z > 0 , \end{cases}
    \qquad
    \pdv{a}{b} = \begin{cases} 0 & z \le 0 \\ 1 & z > 0 . \end{cases}"""
)
def gradient_of_a_relu_neuron():
    def cases(z):
        return np.zeros(3) if z <= 0 else x, 0 if z <= 0 else 1

    for bias in (-5.0, 5.0):
        z = pre_activation(w, bias)
        by_w = jacobian_of(lambda w, c=bias: np.maximum(0, pre_activation(w, c)), w)
        by_b = jacobian_of(lambda c: np.maximum(0, pre_activation(w, c)), bias)
        yield from zip((by_w, by_b), cases(z), strict=True)
    at_the_kink = neurons.neuron_grad(x, 0 * w, 0.0)  # where a subgradient was chosen
    yield from zip(at_the_kink, cases(0.0), strict=True)


# A dense layer

ROWS = 6
X, W, B = RNG.normal(size=(ROWS, 3)), RNG.normal(size=(4, 3)), RNG.normal(size=4)
U = RNG.normal(size=(ROWS, 4))


@equation(r"\mat Y = \mat X \mat W^\top + \vec 1 \vec b^\top ,")
def the_dense_layer():
    rows = np.array([W @ X[n] + B for n in range(ROWS)])
    yield rows, X @ W.T + np.outer(np.ones(ROWS), B), neurons.linear(X, W, B)


@equation(
    r"""\pdv{y_i}{x_j} = \sum_m W_{im}\, \pdv{x_m}{x_j} = \sum_m W_{im}\, \delta_{mj}
    = W_{ij} ."""
)
def jacobian_of_a_dense_layer():
    yield (
        jacobian_of(lambda x: W @ x + B, x),
        np.einsum("im,mj->ij", W, jacobian_of(lambda x: x, x)),
        np.einsum("im,mj->ij", W, np.eye(3)),
        W,
    )


@equation(
    r"""\pdv{L}{X_{nj}} = \sum_i U_{ni} W_{ij} , \qquad
    \pdv{L}{W_{ij}} = \sum_n U_{ni} X_{nj} , \qquad
    \pdv{L}{b_i} = \sum_n U_{ni} ."""
)
def gradients_through_a_dense_layer():
    def loss(x, weight, bias):
        return np.sum(U * np.array([weight @ row + bias for row in x]))

    yield jacobian_of(lambda x: loss(x, W, B), X), np.einsum("ni,ij->nj", U, W)
    yield jacobian_of(lambda w: loss(X, w, B), W), np.einsum("ni,nj->ij", U, X)
    yield jacobian_of(lambda b: loss(X, W, b), B), np.einsum("ni->i", U)


# A multilayer perceptron, its layers counted from 1

D = (3, 4, 5, 2)
L = len(D) - 1
WEIGHTS = [None, *(RNG.normal(size=(D[k], D[k - 1])) for k in range(1, L + 1))]
BIASES = [None, *(RNG.normal(size=n) for n in D[1:])]
MASKS = [None, *(RNG.uniform(0.5, 2.0, size=n) for n in D[1:-1])]
OUT = RNG.normal(size=(ROWS, D[-1]))  # the gradient u, a row for each input
PARAMS = tuple(map(neurons.LinearParams, WEIGHTS[1:], BIASES[1:]))
OPTIONS = {"activation": "tanh", "dropout": tuple(MASKS[1:])}


def phi(z):
    return np.tanh(z)


def phi_slope(z):
    return complex_step(phi, z)


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


def deltas(x, u):
    """Return the gradients of the loss by the z of each layer, for one input."""
    z, _ = passed(x)
    return [None, *(jacobian_of(lambda v, k=k: rest(k, v, u), z[k]) for k in range(1, L + 1))]


@equation(
    r"""\vec z_l = \mat W_l \vec h_{l-1} + \vec b_l , \qquad
    \vec h_l = \vec m_l \odot \phi(\vec z_l) ,"""
)
def the_perceptron():
    h = X[0]
    for l in range(1, L + 1):
        z = WEIGHTS[l] @ h + BIASES[l]
        h = MASKS[l] * np.tanh(z) if l < L else None
    yield z, passed(X[0])[0][L], neurons.mlp(X[0], PARAMS, **OPTIONS)


@equation(
    r"""\vec \delta_K = \vec u , \qquad
    \vec \delta_l = \phi'(\vec z_l) \odot \vec m_l \odot \mat W_{l+1}^\top
    \vec \delta_{l+1} ."""
)
def recursion_of_the_deltas():
    x, u = X[0], OUT[0]
    (z, _), delta = passed(x), deltas(x, u)
    yield delta[L], u
    for l in range(1, L):
        yield delta[l], phi_slope(z[l]) * MASKS[l] * (WEIGHTS[l + 1].T @ delta[l + 1])
    yield from zip(neurons.mlp_deltas(u, x, PARAMS, **OPTIONS), delta[1:], strict=True)


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
    turns = [l * np.linalg.qr(weight)[0] for l, weight in enumerate(weights)]
    yield both_sides(turns, np.full((L, 3), s))  # which reach the bound


@equation(
    r"""\pdv{\vec h_l}{\vec z_l} = \operatorname{diag}(\vec m_l \odot \phi'(\vec z_l)) ,
    \qquad \pdv{\vec z_{l+1}}{\vec h_l} = \mat W_{l+1} ,"""
)
def jacobians_of_a_layer():
    z, h = passed(X[0])
    for l in range(1, L):
        activated = jacobian_of(lambda z, l=l: MASKS[l] * phi(z), z[l])
        yield activated, np.diag(MASKS[l] * phi_slope(z[l]))
        mapped = jacobian_of(lambda h, l=l: WEIGHTS[l + 1] @ h + BIASES[l + 1], h[l])
        yield mapped, WEIGHTS[l + 1]


@equation(
    r"""\vec \delta_l = \operatorname{diag}(\vec m_l \odot \phi'(\vec z_l))\,
    \mat W_{l+1}^\top \vec \delta_{l+1}
    = \vec m_l \odot \phi'(\vec z_l) \odot \mat W_{l+1}^\top \vec \delta_{l+1} ."""
)
def one_layer_back():
    x, u = X[0], OUT[0]
    (z, _), delta = passed(x), deltas(x, u)
    for l in range(1, L):
        slopes = MASKS[l] * phi_slope(z[l])
        back = WEIGHTS[l + 1].T @ delta[l + 1]
        yield delta[l], np.diag(slopes) @ back, slopes * back


@equation(
    r"""\pdv{L}{\mat W_l} = \sum_{\text{rows}} \vec \delta_l \vec h_{l-1}^\top , \qquad
    \pdv{L}{\vec b_l} = \sum_{\text{rows}} \vec \delta_l , \qquad
    \pdv{L}{\vec x} = \mat W_1^\top \vec \delta_1 ."""
)
def gradients_of_a_perceptron():
    def loss(x=X, u=OUT, weights=WEIGHTS, biases=BIASES):
        return np.sum(u * passed(x, weights, biases)[0][L])

    def replaced(arrays, l, array):
        return [*arrays[:l], array, *arrays[l + 1 :]]

    rows = [(deltas(x, u), passed(x)[1]) for x, u in zip(X, OUT, strict=True)]
    for l in range(1, L + 1):
        by_weight = jacobian_of(lambda w, l=l: loss(weights=replaced(WEIGHTS, l, w)), WEIGHTS[l])
        by_bias = jacobian_of(lambda b, l=l: loss(biases=replaced(BIASES, l, b)), BIASES[l])
        yield by_weight, sum(np.outer(delta[l], h[l - 1]) for delta, h in rows)
        yield by_bias, sum(delta[l] for delta, _ in rows)
    by_input = jacobian_of(lambda x: loss(x, OUT[0]), X[0])
    yield by_input, WEIGHTS[1].T @ rows[0][0][1]


@equation(
    r"""\dot{\vec z}_l = \dot{\mat W}_l \vec h_{l-1} + \mat W_l \dot{\vec h}_{l-1}
    + \dot{\vec b}_l , \qquad
    \dot{\vec h}_l = \vec m_l \odot \phi'(\vec z_l) \odot \dot{\vec z}_l ."""
)
def tangents_of_a_perceptron():
    rng = np.random.default_rng(1)
    dx, db = rng.normal(size=3), [None, *(rng.normal(size=n) for n in D[1:])]
    dw = [None, *(rng.normal(size=weight.shape) for weight in WEIGHTS[1:])]

    def moved(t):
        weights = [None, *(WEIGHTS[l] + t * dw[l] for l in range(1, L + 1))]
        biases = [None, *(BIASES[l] + t * db[l] for l in range(1, L + 1))]
        return passed(X[0] + t * dx, weights, biases)

    (z, h), h_dot = passed(X[0]), dx
    for l in range(1, L + 1):
        z_dot = dw[l] @ h[l - 1] + WEIGHTS[l] @ h_dot + db[l]
        yield complex_step(lambda t, l=l: moved(t)[0][l], 0.0), z_dot
        if l < L:
            h_dot = MASKS[l] * phi_slope(z[l]) * z_dot
            yield complex_step(lambda t, l=l: moved(t)[1][l], 0.0), h_dot
