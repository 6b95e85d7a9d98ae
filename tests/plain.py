"""
Plain NumPy for the pages that need another form than naive.py has: loops over time and tiles, steps
of optimizers, layers without their options, functions with helpers.

A heading names the topic whose page shows what follows it, and the first line of a docstring is
the caption there. Shapes are those of one example or one sequence, arguments those of dlref, u is
the upstream gradient. tests/test_plain.py compares each with the compiled function. Oracles of the
contract, which must accept complex numbers, stand in naive.py, with backward passes of a few lines.
"""

import itertools

import numpy as np
from naive import relu, sigmoid, silu

# == calculus.accumulation


def chain_cost(shapes, mode):
    """Multiplications of a product of Jacobians, from the left or from the right."""
    rows, columns = shapes[0][0], shapes[-1][1]
    if mode == "reverse":  # from the output: a matrix with the rows of the first
        return sum(rows * m * n for m, n in shapes[1:])
    return sum(m * n * columns for m, n in shapes[:-1])  # forward, from the input


# == activations.softmax, after naive.softmax


def softmax_shifted(x):
    """Without overflow."""
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def softmax_vjp(u, x):
    """Backward pass."""
    s = softmax_shifted(x)
    return s * (u - np.sum(u * s, axis=-1, keepdims=True))


# == neurons.neuron, after naive.neuron


def neuron_vjp(u, x, w, b):
    """Backward pass of a neuron with ReLU."""
    d = u * (w @ x + b > 0)
    return d * w, d * x, d


# == neurons.mlp, after naive.mlp


def mlp_vjp(u, x, params):
    """Backpropagation with ReLU, for rows of a batch: the input's gradient, and each layer's."""
    inputs, grads = [x], []
    for weight, bias in params[:-1]:
        inputs.append(np.maximum(inputs[-1] @ weight.T + bias, 0))
    for k in reversed(range(len(params))):
        grads.append((u.T @ inputs[k], np.sum(u, axis=0)))
        u = u @ params[k][0]
        if k > 0:
            u = u * (inputs[k] > 0)  # the ReLU of the layer below
    return u, tuple(grads[::-1])


# == neurons.embedding, after naive.embedding


def embedding_vjp(u, table, ids):
    """Backward pass: cotangents of the same token add up."""
    grad = np.zeros(table.shape)
    np.add.at(grad, ids, u)
    return grad


# == neurons.lora_linear, after naive.lora_linear


def lora_linear_vjp(u, x, weight, a, b, scale=1.0):
    """Backward pass: of the input and of both factors."""
    back = scale * (u @ b)
    return u @ weight + back @ a, back.T @ x, scale * u.T @ (x @ a.T)


# == convolution.conv


def conv(x, weight, stride=1, padding=0, dilation=1):
    """Convolution, for one axis: x (C, T), weight (O, C, K)."""
    x = np.pad(x, [(0, 0), (padding, padding)])
    K = weight.shape[2]
    count = (x.shape[1] - dilation * (K - 1) - 1) // stride + 1
    y = np.zeros((len(weight), count))
    for k in range(K):
        first = dilation * k
        y += weight[:, :, k] @ x[:, first : first + stride * count : stride]
    return y


def conv_vjp(u, x, weight, stride=1, padding=0, dilation=1):
    """Backward pass: the same slices, added to and read."""
    x = np.pad(x, [(0, 0), (padding, padding)])
    dx, dweight = np.zeros(x.shape), np.zeros(weight.shape)
    for k in range(weight.shape[2]):
        first = dilation * k
        part = slice(first, first + stride * u.shape[1], stride)
        dx[:, part] += weight[:, :, k].T @ u
        dweight[:, :, k] = u @ x[:, part].T
    return dx[:, padding : x.shape[1] - padding], dweight


# == convolution.conv_transpose


def conv_transpose(x, weight, stride=1, padding=0):
    """Transposed convolution, for one axis: x (C, T), weight (C, O, K)."""
    (_, O, K), T = weight.shape, x.shape[1]
    y = np.zeros((O, (T - 1) * stride + K))
    for k in range(K):
        y[:, k : k + stride * T : stride] += weight[:, :, k].T @ x
    return y[:, padding : y.shape[1] - padding]


def conv_transpose_vjp(u, x, weight, stride=1, padding=0):
    """Backward pass: a convolution of the cotangent, and the products of the weights."""
    u = np.pad(u, [(0, 0), (padding, padding)])
    dx, dweight, T = np.zeros(x.shape), np.zeros(weight.shape), x.shape[1]
    for k in range(weight.shape[2]):
        part = u[:, k : k + stride * T : stride]
        dx += weight[:, :, k] @ part
        dweight[:, :, k] = x @ part.T
    return dx, dweight


# == convolution.max_pool


def max_pool(x, size, stride):
    """Maximum of each window of a plane, and where it is."""
    k, l = size
    windows = np.lib.stride_tricks.sliding_window_view(x, size)[::stride, ::stride]
    flat = windows.reshape(*windows.shape[:2], k * l)
    return flat.max(-1), flat.argmax(-1)


def max_pool_vjp(u, x, size, stride):
    """Backward pass: each cotangent goes to the winner of its window."""
    _, winners = max_pool(x, size, stride)
    dx = np.zeros(x.shape)
    for (i, j), k in np.ndenumerate(winners):
        row, column = divmod(k, size[1])
        dx[stride * i + row, stride * j + column] += u[i, j]
    return dx


# == convolution.mean_pool


def mean_pool(x, size, stride):
    """Mean of each window of a plane."""
    return np.lib.stride_tricks.sliding_window_view(x, size)[::stride, ::stride].mean((2, 3))


def mean_pool_vjp(u, x, size, stride):
    """Backward pass: equal shares."""
    k, l = size
    dx = np.zeros(x.shape)
    for i, j in np.ndindex(u.shape):
        dx[stride * i : stride * i + k, stride * j : stride * j + l] += u[i, j] / (k * l)
    return dx


# == convolution.causal_conv


def causal_conv(x, weight, state):
    """For one sequence x (T, D); the state holds the K - 1 inputs before."""
    x = np.concatenate([state, x])
    K = weight.shape[1]
    T = len(x) - K + 1
    return np.sum([weight[:, k] * x[k : k + T] for k in range(K)], axis=0), x[T:]


def causal_conv_vjp(u, dstate, x, weight, state):
    """Backward pass: of the inputs, the weights and the first state."""
    x, K, T = np.concatenate([state, x]), weight.shape[1], len(u)
    dx, dweight = np.zeros(x.shape), np.zeros(weight.shape)
    dx[T:] = dstate
    for k in range(K):
        dx[k : k + T] += weight[:, k] * u
        dweight[:, k] = np.sum(u * x[k : k + T], axis=0)
    return dx[K - 1 :], dweight, dx[: K - 1]


# == losses.cross_entropy


def cross_entropy_of_classes(logits, target):
    """Mean over rows, without options."""
    m = np.max(logits, axis=-1)
    lse = m + np.log(np.sum(np.exp(logits - m[:, None]), axis=-1))
    return np.mean(lse - logits[np.arange(len(target)), target])


def cross_entropy_grad(logits, target):
    """Gradient: prediction minus truth."""
    g = softmax_shifted(logits)
    g[np.arange(len(target)), target] -= 1
    return g / len(target)


# == losses.linear_cross_entropy, after naive.linear_cross_entropy


def linear_cross_entropy_grad(x, weight, target, chunk=2):
    """Gradients of the mean, a chunk of rows at a time."""
    dx, dweight = np.zeros_like(x), np.zeros_like(weight)
    for start in range(0, len(x), chunk):
        rows = slice(start, start + chunk)
        d = cross_entropy_grad(x[rows] @ weight.T, target[rows])
        d *= len(d) / len(x)  # the mean over all rows, not over the chunk
        dx[rows], dweight = d @ weight, dweight + d.T @ x[rows]
    return dx, dweight


# == losses.ctc_loss, after naive.ctc_loss


def ctc_trellis(x, text, blank=0):
    """Forward: the places with blanks between letters, and the logarithms of all beginnings."""
    places = np.full(2 * len(text) + 1, blank)
    places[1::2] = text
    alpha = np.full((len(x), len(places)), -np.inf)
    alpha[0, :2] = x[0, places[:2]]
    for t in range(1, len(x)):
        for s, k in enumerate(places):
            before = [s, s - 1]
            if s > 1 and k != blank and k != places[s - 2]:
                before.append(s - 2)
            terms = [alpha[t - 1, r] for r in before if r >= 0]
            alpha[t, s] = x[t, k] + np.logaddexp.reduce(terms)
    return places, alpha


def ctc_loss_grad(x, text, blank=0):
    """Gradient of one text. The ends of paths are the beginnings of reversed ones."""
    places, alpha = ctc_trellis(x, text, blank)
    _, back = ctc_trellis(x[::-1], text[::-1], blank)
    beta = back[::-1, ::-1] - x[:, places]  # without the step itself
    loss = -np.logaddexp.reduce(alpha[-1, -2:])
    share = np.exp(alpha + beta + loss)
    grad = np.zeros(x.shape)
    for s, k in enumerate(places):
        grad[:, k] -= share[:, s]
    return loss, grad


# == training.sgd


def sgd_step(theta, g, learning_rate):
    """One step."""
    return theta - learning_rate * g


# == training.gradient_descent


def gradient_descent(value_and_grad, theta, learning_rate, steps):
    """The loop, with the loss before each step."""
    losses = []
    for _ in range(steps):
        value, g = value_and_grad(theta)
        losses.append(value)
        theta = theta - learning_rate * g
    return theta, losses


# == training.momentum


def momentum_step(theta, g, v, learning_rate, momentum=0.9):
    """One step of the heavy ball, without dampening; v starts at 0."""
    v = momentum * v + g
    return theta - learning_rate * v, v


def nesterov_step(theta, g, v, learning_rate, momentum=0.9):
    """One step of Nesterov's method."""
    v = momentum * v + g
    return theta - learning_rate * (g + momentum * v), v


# == training.adagrad


def adagrad_step(theta, g, s, learning_rate, eps=1e-10):
    """One step; s starts at 0."""
    s = s + g**2
    return theta - learning_rate * g / (np.sqrt(s) + eps), s


# == training.rmsprop


def rmsprop_step(theta, g, s, learning_rate, alpha=0.99, eps=1e-8):
    """One step, without momentum; s starts at 0."""
    s = alpha * s + (1 - alpha) * g**2
    return theta - learning_rate * g / (np.sqrt(s) + eps), s


# == training.adam


def adam_step(theta, g, m, v, t, learning_rate, beta1=0.9, beta2=0.999, eps=1e-8):
    """Step t = 1, 2, ...; m and v start at 0."""
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
    return theta - learning_rate * m_hat / (np.sqrt(v_hat) + eps), m, v


def adamw_step(theta, g, m, v, t, learning_rate, weight_decay=0.01):
    """AdamW: the decay stands outside the fraction."""
    kept = (1 - learning_rate * weight_decay) * theta
    return adam_step(kept, g, m, v, t, learning_rate)


# == training.lion


def lion_step(theta, g, m, learning_rate, beta1=0.9, beta2=0.99, weight_decay=0.0):
    """One step; m starts at 0."""
    sign = np.sign(beta1 * m + (1 - beta1) * g)
    theta = (1 - learning_rate * weight_decay) * theta - learning_rate * sign
    return theta, beta2 * m + (1 - beta2) * g


# == training.newton_schulz


def newton_schulz(x, steps=5, a=3.4445, b=-4.7750, c=2.0315):
    """All singular values near 1."""
    x = x / max(np.linalg.norm(x), 1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


# == training.muon


def muon_step(w, g, m, learning_rate, momentum=0.95, weight_decay=0.1):
    """One step for one matrix; m starts at 0."""
    m = momentum * m + (1 - momentum) * g
    step = newton_schulz((1 - momentum) * g + momentum * m)
    rate = learning_rate * np.sqrt(max(1, w.shape[0] / w.shape[1]))
    return (1 - learning_rate * weight_decay) * w - rate * step, m


# == training.diffusion_target


def diffusion_target(x, noise, alpha, sigma):
    """The mixture, and the four targets."""
    z = alpha * x + sigma * noise
    return z, noise, x, alpha * noise - sigma * x, noise - x


# == training.clipping


def clip_by_norm(grads, max_norm):
    """One factor for all arrays."""
    norm = np.sqrt(sum(np.sum(g * g) for g in grads))
    return [g * min(1.0, max_norm / norm) for g in grads]


def clip_by_value(grads, limit):
    """Each element by itself."""
    return [np.clip(g, -limit, limit) for g in grads]


# == training.schedules


def warmup_schedule(t, peak, warmup):
    """Up in a line, then constant."""
    return peak * np.minimum(1, t / warmup)


def cosine_schedule(t, peak, steps, warmup):
    """Up in a line, then down to 0 along half a cosine."""
    done = np.clip((t - warmup) / (steps - warmup), 0, 1)
    return np.where(t < warmup, peak * t / warmup, peak * (1 + np.cos(np.pi * done)) / 2)


def inverse_sqrt_schedule(t, peak, warmup):
    """Up in a line, then down as one over the root."""
    return peak * np.minimum(t / warmup, np.sqrt(warmup / t))


# == training.fit_neuron


def fit_neuron(X, y, w, b, learning_rate, epochs):
    """The loop, with the gradient of the mean squared error written out."""
    for _ in range(epochs):
        z = X @ w + b
        d = 2 / len(y) * (np.maximum(z, 0) - y) * (z > 0)
        w, b = w - learning_rate * X.T @ d, b - learning_rate * np.sum(d)
    return w, b


# == training.mlp_loss


def mlp_loss_grad(x, target, params):
    """Gradient: forward pass, loss, backpropagation."""
    h = x
    for weight, bias in params[:-1]:
        h = np.maximum(h @ weight.T + bias, 0)
    logits = h @ params[-1][0].T + params[-1][1]
    return mlp_vjp(cross_entropy_grad(logits, target), x, params)[1]


# == training.minibatch_descent


def minibatches(rng, x, y, batch_size):
    """One epoch: every example once, in a new order."""
    order = rng.permutation(len(x))
    for start in range(0, len(x), batch_size):
        rows = order[start : start + batch_size]
        yield x[rows], y[rows]


# == training.trees


def tree_ravel(arrays):
    """One vector of all parameters."""
    return np.concatenate([np.ravel(a) for a in arrays])


def tree_unravel(vector, like):
    """And the parameters back."""
    ends = np.cumsum([a.size for a in like])
    return [p.reshape(a.shape) for p, a in zip(np.split(vector, ends[:-1]), like, strict=True)]


# == propagation.initialization


def glorot_uniform(rng, n_out, n_in):
    """Glorot, also called Xavier, with the gain 1."""
    a = np.sqrt(6 / (n_in + n_out))
    return rng.uniform(-a, a, size=(n_out, n_in))


def he_normal(rng, n_out, n_in):
    """He, also called Kaiming: for ReLU."""
    return rng.normal(scale=np.sqrt(2 / n_in), size=(n_out, n_in))


def lecun_normal(rng, n_out, n_in):
    """LeCun: for SELU."""
    return rng.normal(scale=np.sqrt(1 / n_in), size=(n_out, n_in))


def orthogonal(rng, n):
    """A square matrix that keeps every length."""
    q, r = np.linalg.qr(rng.normal(size=(n, n)))
    return q * np.sign(np.diag(r))


# == quantization.quantize_blocks, after naive.quantize_blocks


def nvfp4(x, t=1.0):
    """Blocks of 16 in E2M1, with scales in E4M3: the numbers after rounding."""

    def nearest(v, mantissa, least, largest):
        size = np.maximum(np.abs(v), 2.0**least)
        d = 2.0 ** (np.floor(np.log2(size)) - mantissa)
        return np.clip(d * np.rint(v / d), -largest, largest)

    blocks = np.reshape(x, (-1, 16))
    top = np.max(np.abs(blocks), axis=1, keepdims=True)
    scale = t * nearest(top / 6 / t, 3, -6, 448)
    scale[scale == 0] = t  # all numbers of the block become 0
    return np.reshape(scale * nearest(blocks / scale, 1, 0, 6), np.shape(x))


# == propagation.signal_propagation


def forward_moments(rng, widths, samples=100):
    """Mean squares of the pre-activations, layer by layer, with He weights and ReLU."""
    h, moments = rng.normal(size=(samples, widths[0])), []
    for n_in, n_out in itertools.pairwise(widths):
        z = h @ he_normal(rng, n_out, n_in).T
        moments.append(np.mean(z**2))
        h = np.maximum(z, 0)
    return moments


# == normalization.layer_norm


def layer_norm(x, weight, bias, eps=1e-5):
    """Each row by its own mean and variance."""
    mu = np.mean(x, axis=-1, keepdims=True)
    var = np.mean((x - mu) ** 2, axis=-1, keepdims=True)
    x_hat = (x - mu) / np.sqrt(var + eps)
    return weight * x_hat + bias


def layer_norm_vjp(u, x, weight, bias, eps=1e-5):
    """Backward pass, for rows of a batch."""
    r = 1 / np.sqrt(np.var(x, axis=-1, keepdims=True) + eps)
    x_hat = r * (x - np.mean(x, axis=-1, keepdims=True))
    g = u * weight
    along = np.mean(g * x_hat, axis=-1, keepdims=True)
    dx = r * (g - np.mean(g, axis=-1, keepdims=True) - x_hat * along)
    return dx, np.sum(u * x_hat, axis=0), np.sum(u, axis=0)


# == normalization.rms_norm


def rms_norm(x, weight, eps=1e-6):
    """Each row by its own mean square."""
    return weight * x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)


def rms_norm_vjp(u, x, weight, eps=1e-6):
    """Backward pass, for rows of a batch."""
    r = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    g, x_hat = u * weight, r * x
    dx = r * (g - x_hat * np.mean(g * x_hat, axis=-1, keepdims=True))
    return dx, np.sum(u * x_hat, axis=0)


# == normalization.batch_norm


def batch_norm(x, weight, bias, eps=1e-5):
    """Each channel by its mean and variance over the batch."""
    mu = np.mean(x, axis=0)
    var = np.mean((x - mu) ** 2, axis=0)
    x_hat = (x - mu) / np.sqrt(var + eps)
    return weight * x_hat + bias


def batch_norm_vjp(u, x, weight, bias, eps=1e-5):
    """Backward pass: the means run over the batch."""
    r = 1 / np.sqrt(np.var(x, axis=0) + eps)
    x_hat = r * (x - np.mean(x, axis=0))
    g = u * weight
    dx = r * (g - np.mean(g, axis=0) - x_hat * np.mean(g * x_hat, axis=0))
    return dx, np.sum(u * x_hat, axis=0), np.sum(u, axis=0)


# == recurrent.rnn


def rnn(x, h, w_ih, w_hh, b):
    """Forward, one sequence."""
    states = []
    for x_t in x:
        h = np.tanh(w_ih @ x_t + w_hh @ h + b)
        states.append(h)
    return np.array(states)


def rnn_vjp(u, x, h0, w_ih, w_hh, b):
    """Backpropagation through time."""
    h = np.array([h0, *rnn(x, h0, w_ih, w_hh, b)])
    dx, dw_ih, dw_hh, db = map(np.zeros_like, (x, w_ih, w_hh, b))
    dh = np.zeros_like(h0)  # what comes back from later steps
    for t in reversed(range(len(x))):
        d = (u[t] + dh) * (1 - h[t + 1] ** 2)  # through tanh
        dx[t], dh = w_ih.T @ d, w_hh.T @ d
        dw_ih, dw_hh, db = dw_ih + np.outer(d, x[t]), dw_hh + np.outer(d, h[t]), db + d
    return dx, dh, dw_ih, dw_hh, db


# == recurrent.lstm


def lstm_cell(x, h, c, w_ih, w_hh, b):
    """One step; the gates stand in the order i, f, g, o."""
    i, f, g, o = np.split(w_ih @ x + w_hh @ h + b, 4)
    i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
    c = f * c + i * g
    return o * np.tanh(c), c, (i, f, g, o)


def lstm(x, h, c, w_ih, w_hh, b):
    """Forward, one sequence."""
    hs, cs = [], []
    for x_t in x:
        h, c, _ = lstm_cell(x_t, h, c, w_ih, w_hh, b)
        hs.append(h)
        cs.append(c)
    return np.array(hs), np.array(cs)


def lstm_vjp(u, x, h0, c0, w_ih, w_hh, b):
    """Backpropagation through time; u is the gradient with respect to all h."""
    h, c = lstm(x, h0, c0, w_ih, w_hh, b)
    h, c = np.array([h0, *h]), np.array([c0, *c])
    dx, dw_ih, dw_hh, db = map(np.zeros_like, (x, w_ih, w_hh, b))
    dh, dc = np.zeros_like(h0), np.zeros_like(c0)
    for t in reversed(range(len(x))):
        _, _, (i, f, g, o) = lstm_cell(x[t], h[t], c[t], w_ih, w_hh, b)
        dh, tanh_c = dh + u[t], np.tanh(c[t + 1])
        dc = dc + dh * o * (1 - tanh_c**2)
        di, df, dg, do = dc * g, dc * c[t], dc * i, dh * tanh_c
        d = [di * i * (1 - i), df * f * (1 - f), dg * (1 - g**2), do * o * (1 - o)]
        d = np.concatenate(d)  # of the four pre-activations
        dx[t], dh, dc = w_ih.T @ d, w_hh.T @ d, dc * f
        dw_ih, dw_hh, db = dw_ih + np.outer(d, x[t]), dw_hh + np.outer(d, h[t]), db + d
    return dx, dh, dc, dw_ih, dw_hh, db


# == recurrent.gru


def gru_cell(x, h, w_ih, w_hh, b_ih, b_hh):
    """One step, with the reset gate after the product as in PyTorch."""
    x_r, x_z, x_n = np.split(w_ih @ x + b_ih, 3)
    h_r, h_z, h_n = np.split(w_hh @ h + b_hh, 3)
    r, z = sigmoid(x_r + h_r), sigmoid(x_z + h_z)
    n = np.tanh(x_n + r * h_n)
    return (1 - z) * n + z * h, (r, z, n, h_n)


def gru_cell_reset_before(x, h, w_ih, w_hh, b_ih, b_hh):
    """One step, with the reset gate before the product as in the paper."""
    (w_r, w_z, w_n), (v_r, v_z, v_n) = np.split(w_ih, 3), np.split(w_hh, 3)
    b_r, b_z, b_n = np.split(b_ih + b_hh, 3)
    r, z = sigmoid(w_r @ x + v_r @ h + b_r), sigmoid(w_z @ x + v_z @ h + b_z)
    n = np.tanh(w_n @ x + v_n @ (r * h) + b_n)
    return (1 - z) * n + z * h


def gru(x, h, w_ih, w_hh, b_ih, b_hh):
    """Forward, one sequence."""
    states = []
    for x_t in x:
        h, _ = gru_cell(x_t, h, w_ih, w_hh, b_ih, b_hh)
        states.append(h)
    return np.array(states)


def gru_vjp(u, x, h0, w_ih, w_hh, b_ih, b_hh):
    """Backpropagation through time."""
    h = np.array([h0, *gru(x, h0, w_ih, w_hh, b_ih, b_hh)])
    dx, *grads = map(np.zeros_like, (x, w_ih, w_hh, b_ih, b_hh))
    dh = np.zeros_like(h0)
    for t in reversed(range(len(x))):
        _, (r, z, n, h_n) = gru_cell(x[t], h[t], w_ih, w_hh, b_ih, b_hh)
        dh = dh + u[t]
        dn = dh * (1 - z) * (1 - n**2)  # of the pre-activation of n
        dz = dh * (h[t] - n) * z * (1 - z)
        dr = dn * h_n * r * (1 - r)
        d_x, d_h = np.concatenate([dr, dz, dn]), np.concatenate([dr, dz, dn * r])
        dx[t], dh = w_ih.T @ d_x, w_hh.T @ d_h + dh * z
        new = np.outer(d_x, x[t]), np.outer(d_h, h[t]), d_x, d_h
        grads = [total + g for total, g in zip(grads, new, strict=True)]
    return dx, dh, *grads


# == recurrent.sequences


def bidirectional(x, forward, backward):
    """One network from the left, one from the right."""
    left, right = rnn(x, *forward), rnn(x[::-1], *backward)[::-1]
    return np.concatenate([left, right], axis=-1)


def sequence_to_vector(x, arguments, w_out, b_out):
    """Read the last state."""
    return w_out @ rnn(x, *arguments)[-1] + b_out


# == recurrent.selective_scan, after naive.selective_scan


def selective_scan_doubling(x, delta, a, b, c):
    """All steps at once, in rounds of combined pairs."""
    factor = np.exp(delta[:, :, None] * a)
    h = (delta * x)[:, :, None] * b[:, None, :]
    s = 1
    while s < len(x):  # each pair with the pair s steps before
        h[s:] = factor[s:] * h[:-s] + h[s:]
        factor[s:] = factor[s:] * factor[:-s]
        s *= 2
    return np.sum(c[:, None, :] * h, axis=-1)


def selective_scan_vjp(u, x, delta, a, b, c):
    """Backward pass, with the states of all steps."""
    decay, written = np.exp(delta[:, :, None] * a), (delta * x)[:, :, None] * b[:, None]
    h = [np.zeros(a.shape)]
    for t in range(len(x)):
        h.append(decay[t] * h[t] + written[t])
    g, da, dx, ddelta = np.zeros(a.shape), np.zeros(a.shape), 0 * x, 0 * x
    db, dc = 0 * b, 0 * c
    for t in reversed(range(len(x))):
        g = g + u[t][:, None] * c[t]  # of the state after this step
        kept = decay[t] * h[t]
        dx[t], db[t] = delta[t] * (g @ b[t]), (delta[t] * x[t]) @ g
        ddelta[t] = np.sum(g * a * kept, axis=1) + x[t] * (g @ b[t])
        da, dc[t] = da + delta[t][:, None] * g * kept, u[t] @ h[t + 1]
        g = decay[t] * g
    return dx, ddelta, da, db, dc


# == positions.sinusoidal


def sinusoidal(length, dim, base=10000.0):
    """The table, for an even width."""
    omega = base ** (-np.arange(0, dim, 2) / dim)
    angles = np.arange(length)[:, None] * omega
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, dim)


# == positions.rotary


def rope_interleaved(x, theta):
    """Neighbors as pairs (LLaMA's own weights, GPT-J); x has a row for each position."""
    angle = np.arange(len(x))[:, None] * theta
    z = (x[:, 0::2] + 1j * x[:, 1::2]) * np.exp(1j * angle)
    return np.stack([z.real, z.imag], axis=-1).reshape(x.shape)


def rope_half_split(x, theta):
    """Halves as pairs (GPT-NeoX, LLaMA in Hugging Face)."""
    angle = np.arange(len(x))[:, None] * theta
    x1, x2 = np.split(x, 2, axis=-1)
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([x1 * cos - x2 * sin, x1 * sin + x2 * cos], axis=-1)


def rope_vjp(u, theta):
    """Backward pass: rotate back."""
    return rope_half_split(u, -theta)


# == positions.rotary_scaling


def rope_frequencies(dim, base=10000.0):
    """Without scaling."""
    return base ** (-np.arange(0, dim, 2) / dim)


def linear_scaling(dim, factor, base=10000.0):
    """Position interpolation: all pairs slower."""
    return rope_frequencies(dim, base) / factor


def ntk_scaling(dim, factor, base=10000.0):
    """NTK-aware: a larger base, so that the fastest pair stays and the slowest is slowed fully."""
    return rope_frequencies(dim, base * factor ** (dim / (dim - 2)))


# == positions.alibi, after naive.alibi_bias


def alibi_slopes(heads):
    """Slopes, for a power of two heads."""
    return 2.0 ** (-8 * np.arange(1, heads + 1) / heads)


# == attention.masks


def causal_mask(T, S, q_offset=0):
    """True where query i may see key j; the offset is the length of a cache."""
    return np.arange(S) <= np.arange(T)[:, None] + q_offset


def window_mask(T, S, left, right, q_offset=0):
    """No further than `left` keys back and `right` ahead."""
    distance = np.arange(S) - (np.arange(T)[:, None] + q_offset)
    return (-left <= distance) & (distance <= right)


def padding_mask(lengths, S):
    """True where a key is no padding; with axes for heads and queries."""
    return (np.arange(S) < lengths[:, None])[:, None, None, :]


# == attention.scaled_dot_product


def attention(q, k, v):
    """Attention in three lines."""
    s = q @ k.T / np.sqrt(q.shape[-1])
    p = np.exp(s) / np.sum(np.exp(s), axis=-1, keepdims=True)
    return p @ v


def masked_attention(q, k, v, mask):
    """With a mask: no overflow, and a row without keys gives 0."""
    s = np.where(mask, q @ k.T / np.sqrt(q.shape[-1]), -np.inf)
    m = np.max(s, axis=-1, keepdims=True, initial=-1e300)  # finite, also without keys
    e = np.exp(s - m)
    z = np.sum(e, axis=-1, keepdims=True)
    return e / np.where(z == 0, 1, z) @ v


def attention_vjp(u, q, k, v):
    """Backward pass."""
    scale = 1 / np.sqrt(q.shape[-1])
    p = softmax_shifted(scale * q @ k.T)
    w = u @ v.T
    d = p * (w - np.sum(p * w, axis=-1, keepdims=True))  # of the scores
    return scale * d @ k, scale * d.T @ q, p.T @ u


def flash_attention(q, k, v, tile=2):
    """Flash attention: one pass over tiles of keys; returns also the log-sum-exp."""
    m = np.full((len(q), 1), -np.inf)  # largest score so far
    z, a = np.zeros((len(q), 1)), np.zeros((len(q), v.shape[-1]))
    for j in range(0, len(k), tile):
        s = q @ k[j : j + tile].T / np.sqrt(q.shape[-1])
        new = np.maximum(m, np.max(s, axis=-1, keepdims=True))
        e, fade = np.exp(s - new), np.exp(m - new)
        z = fade * z + np.sum(e, axis=-1, keepdims=True)
        a, m = fade * a + e @ v[j : j + tile], new
    return a / z, m + np.log(z)


def flash_attention_vjp(u, q, k, v, tile=2):
    """Flash attention backward: tiles of weights are computed again."""
    o, lse = flash_attention(q, k, v, tile)
    D, scale = np.sum(u * o, axis=-1, keepdims=True), 1 / np.sqrt(q.shape[-1])
    dq, dk, dv = map(np.zeros_like, (q, k, v))
    for j in range(0, len(k), tile):
        keys = slice(j, j + tile)
        p = np.exp(scale * q @ k[keys].T - lse)
        d = p * (u @ v[keys].T - D)
        dq += scale * d @ k[keys]
        dk[keys], dv[keys] = scale * d.T @ q, p.T @ u
    return dq, dk, dv


# == attention.multi_head


def multi_head_attention(x, w_q, w_k, w_v, w_o, heads):
    """All heads at once, without biases: split the channels, attend, merge."""

    def split(y):  # (T, D) to (heads, T, D / heads)
        return y.reshape(len(y), heads, -1).swapaxes(0, 1)

    q, k, v = (split(x @ w.T) for w in (w_q, w_k, w_v))
    p = softmax_shifted(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
    return (p @ v).swapaxes(0, 1).reshape(len(x), -1) @ w_o.T


# == attention.latent_attention


def rms_norm_of_latent(z, weight):
    """Norm of a latent."""
    return weight * z / np.sqrt(np.mean(z * z, axis=-1, keepdims=True) + 1e-6)


def latent_attention(x, w_dq, q_norm, w_uq, w_dkv, kv_norm, w_uk, w_uv, w_o, heads):
    """From the latents alone (absorbed), for one sequence without a rotated part."""
    q = (rms_norm_of_latent(x @ w_dq.T, q_norm) @ w_uq.T).reshape(len(x), heads, -1)
    c = rms_norm_of_latent(x @ w_dkv.T, kv_norm)  # all that a cache keeps
    out = []
    for h, (uk, uv) in enumerate(zip(np.split(w_uk, heads), np.split(w_uv, heads), strict=True)):
        s = (q[:, h] @ uk) @ c.T / np.sqrt(len(uk))
        p = softmax_shifted(np.where(np.tri(len(x)) > 0, s, -np.inf))
        out.append((p @ c) @ uv.T)
    return np.concatenate(out, axis=-1) @ w_o.T


# == transformer.blocks


def encoder_block(x, params, heads):
    """A block with the norms first (GPT, LLaMA) and ReLU."""
    (w_q, w_k, w_v, w_o), norm1, (w1, b1, w2, b2), norm2 = params
    x = x + multi_head_attention(layer_norm(x, *norm1), w_q, w_k, w_v, w_o, heads)
    return x + relu(layer_norm(x, *norm2) @ w1.T + b1) @ w2.T + b2


# == transformer.feed_forward


def feed_forward(x, w1, b1, w2, b2):
    """Two layers, applied at each position."""
    return np.maximum(x @ w1.T + b1, 0) @ w2.T + b2


def gated_feed_forward(x, w_gate, w_up, w_down):
    """Gated by SiLU, as in LLaMA."""
    return (silu(x @ w_gate.T) * (x @ w_up.T)) @ w_down.T


# == transformer.language_model


def gpt(tokens, params, heads):
    """A whole GPT-2: logits of the next token at each place."""
    embedding, positions, blocks, norm_f, _ = params

    def norm(x, weight, bias):
        centered = x - x.mean(-1, keepdims=True)
        return weight * centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5) + bias

    def attend(x, w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o):
        def split(y):  # (T, D) to (heads, T, D / heads)
            return y.reshape(len(y), heads, -1).swapaxes(0, 1)

        q, k, v = split(x @ w_q.T + b_q), split(x @ w_k.T + b_k), split(x @ w_v.T + b_v)
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        seen = np.tri(len(x), dtype=bool)  # no token sees what follows it
        scores = np.where(seen, scores, -np.inf)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p = p / p.sum(-1, keepdims=True)
        return (p @ v).swapaxes(0, 1).reshape(len(x), -1) @ w_o.T + b_o

    def network(x, w1, b1, w2, b2):
        z = x @ w1.T + b1
        h = z / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))  # GELU
        return h @ w2.T + b2

    x = embedding[tokens] + positions[: len(tokens)]
    for attention_weights, norm_1, network_weights, norm_2, *_ in blocks:
        x = x + attend(norm(x, *norm_1), *attention_weights[:8])
        x = x + network(norm(x, *norm_2), *network_weights)
    return norm(x, *norm_f) @ embedding.T


# == transformer.generation


def next_token_probabilities(logits, temperature=1.0, top_k=None, top_p=None):
    """Temperature, then top k, then top p."""
    p = softmax_shifted(logits / temperature)
    if top_k is not None:
        p = np.where(p >= np.sort(p)[-top_k], p, 0)
        p = p / p.sum()
    if top_p is not None:
        order = np.argsort(-p)
        before = np.cumsum(p[order]) - p[order]  # collected before this token
        p[order[before >= top_p]] = 0
        p = p / p.sum()
    return p


def greedy(model, tokens, steps):
    """The likeliest token, appended again and again."""
    for _ in range(steps):
        tokens = [*tokens, int(np.argmax(model(np.array(tokens))[-1]))]
    return tokens


# == transformer.stacks


def encoder(x, blocks, heads):
    """Block after block."""
    for params in blocks:
        x = encoder_block(x, params, heads)
    return x


# == transformer.tasks


def copy_task(rng, count, length, vocabulary):
    """Symbols, a separator 0, the same symbols again."""
    symbols = rng.integers(1, vocabulary, size=(count, length))
    return np.concatenate([symbols, np.zeros((count, 1), int), symbols], axis=1)


# == transformer.budget


def parameter_count(D, layers, width, vocabulary, context):
    """Parameters of a GPT-2, with a tied head."""
    attention_ = 4 * (D * D + D)
    network = 2 * D * width + width + D
    norms = 2 * 2 * D
    return (vocabulary + context) * D + layers * (attention_ + network + norms) + 2 * D
