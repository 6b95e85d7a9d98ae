"""
Neurons, dense layers and networks of them.

Inputs x are vectors or rows of a batch. Row i of `weight` holds the weights of output i, z is the
pre-activation, and delta the gradient with respect to z.
"""

import math

import numpy as np

from .activations import activation_of, relu, relu_deriv
from .calculus import sum_to_shape

# == shared


def as_rows(x):
    """All leading axes as one."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


# == neuron


def relu_neuron(x, w, b):
    """
    ReLU of a weighted sum, for one input.

    >>> x, w = np.array([1.0, 2.0, 3.0]), np.array([0.5, -1.0, 2.0])
    >>> print(relu_neuron(x, w, 0.1))
    4.6
    """
    z = w @ x + b
    return relu(z)


def relu_neuron_vjp(dout, x, w, b):
    """
    Backward pass with ReLU: nothing passes where the neuron is inactive.

    >>> x, w = np.array([1.0, 2.0, 3.0]), np.array([0.5, -1.0, 2.0])
    >>> print(*relu_neuron_vjp(10.0, x, w, 0.1))
    [  5. -10.  20.] [10. 20. 30.] 10.0
    """
    z = w @ x + b
    delta = dout * relu_deriv(z)
    return delta * w, delta * x, delta


def neuron(x, w, b, *, activation="relu"):
    """
    Activation of the weighted sum of each row.

    >>> x, w = np.array([[1.0, 2.0, 3.0], [1.0, 8.0, 3.0]]), np.array([0.5, -1.0, 2.0])
    >>> print(neuron(x, w, 0.1, activation="identity"))
    [ 4.6 -1.4]
    >>> print(neuron(x, w, 0.1))
    [4.6 0. ]
    """
    f, _ = activation_of(activation)
    z = np.sum(w * x, axis=-1) + b
    return f(z)


def neuron_grad(x, w, b, *, activation="relu"):
    """Gradients of the weights and the bias, for each row."""
    _, slope = activation_of(activation)
    z = np.sum(w * x, axis=-1) + b
    da_db = slope(z)
    return da_db[..., None] * x, da_db


def neuron_vjp(dout, x, w, b, *, activation="relu"):
    """
    Backward pass: one number for each row determines all gradients.

    >>> x, w = np.array([[1.0, 2.0, 3.0], [1.0, 8.0, 3.0]]), np.array([0.5, -1.0, 2.0])
    >>> _, dw, db = neuron_vjp(np.array([10.0, 10.0]), x, w, 0.1)
    >>> print(dw, db)
    [10. 20. 30.] 10.0
    """
    _, slope = activation_of(activation)
    z = np.sum(w * x, axis=-1) + b
    delta = dout * slope(z)
    dx = delta[..., None] * w
    dw = sum_to_shape(delta[..., None] * x, w.shape)
    return dx, dw, np.sum(delta)


# == linear


def linear(x, weight, bias=None):
    """
    Dense layer, for a vector or for rows of a batch.

    >>> x, weight = np.array([1.0, 2.0, 3.0]), np.array([[0.5, -1.0, 2.0], [1.0, 1.0, 1.0]])
    >>> print(linear(x, weight, np.array([0.1, 0.0])))
    [4.6 6. ]
    """
    y = x @ weight.T
    return y if bias is None else y + bias


def linear_jacobian(x, weight, bias=None):
    """Jacobian of the input: the weights, once for each row."""
    return np.broadcast_to(weight, x.shape[:-1] + weight.shape)


def linear_vjp(dout, x, weight, bias=None):
    """
    Backward pass: the weights and the bias add up over the rows.

    >>> x, weight = np.array([1.0, 2.0, 3.0]), np.array([[0.5, -1.0, 2.0], [1.0, 1.0, 1.0]])
    >>> dx, dweight, dbias = linear_vjp(np.array([1.0, 10.0]), x, weight, np.array([0.1, 0.0]))
    >>> print(dx, dbias)
    [10.5  9.  12. ] [ 1. 10.]
    >>> print(dweight)
    [[ 1.  2.  3.]
     [10. 20. 30.]]
    """
    dx = dout @ weight
    dweight = as_rows(dout).T @ as_rows(x)
    dbias = np.sum(as_rows(dout), axis=0)
    return (dx, dweight) if bias is None else (dx, dweight, dbias)


# == embedding


def embedding(table, ids, *, padding_id=None, scale=1.0):
    """
    Row of a table for each token.

    >>> table, ids = np.arange(8.0).reshape(4, 2), np.array([3, 0, 3])
    >>> print(embedding(table, ids))
    [[6. 7.]
     [0. 1.]
     [6. 7.]]
    """
    if padding_id is not None:
        # The row of the padding is a constant: a complex step must not see a change of it.
        is_padding = np.arange(len(table)) == padding_id
        table = np.where(is_padding[:, None], table.real, table)
    return scale * table[ids]


def embedding_vjp(dout, table, ids, *, padding_id=None, scale=1.0):
    """
    Backward pass: cotangents of the same token add up.

    >>> table, ids = np.arange(8.0).reshape(4, 2), np.array([3, 0, 3])
    >>> print(embedding_vjp(np.ones((3, 2)), table, ids))
    [[1. 1.]
     [0. 0.]
     [0. 0.]
     [2. 2.]]
    """
    dtable = np.zeros_like(table)
    np.add.at(dtable, ids, dout)
    if padding_id is not None:
        dtable[padding_id] = 0
    return scale * dtable


# == dropout


def dropout(x, mask):
    """
    Each input times its factor, which is 0 where the input is dropped.

    >>> x, mask = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, 2.0, 2.0, 0.0])
    >>> print(dropout(x, mask))
    [0. 4. 6. 0.]
    """
    return x * mask


def dropout_vjp(dout, x, mask):
    """
    Backward pass: the same factors.

    >>> x, mask = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, 2.0, 2.0, 0.0])
    >>> print(dropout_vjp(np.ones(4), x, mask))
    [0. 2. 2. 0.]
    """
    return dout * mask


# == lora_linear


def lora_linear(x, weight, a, b, bias=None, *, scale=1.0):
    """
    Dense layer with a correction of low rank.

    >>> x, weight = np.array([1.0, 2.0]), np.eye(2)
    >>> a, b = np.array([[1.0, 1.0]]), np.array([[0.0], [1.0]])
    >>> print(lora_linear(x, weight, a, b, scale=10))
    [ 1. 32.]
    """
    low = x @ a.T
    y = x @ weight.T + scale * (low @ b.T)
    return y if bias is None else y + bias


def lora_linear_vjp(dout, x, weight, a, b, bias=None, *, scale=1.0):
    """
    Backward pass: of the input and both factors, not of the frozen weight.

    >>> x, weight = np.array([1.0, 2.0]), np.eye(2)
    >>> a, b = np.array([[1.0, 1.0]]), np.array([[0.0], [1.0]])
    >>> dx, da, db = lora_linear_vjp(np.array([1.0, 10.0]), x, weight, a, b, scale=10)
    >>> print(dx, da)
    [101. 110.] [[100. 200.]]
    >>> print(db)
    [[ 30.]
     [300.]]
    """
    low = x @ a.T
    dlow = scale * (dout @ b)
    dx = dout @ weight + dlow @ a
    da = as_rows(dlow).T @ as_rows(x)
    db = scale * (as_rows(dout).T @ as_rows(low))
    dbias = np.sum(as_rows(dout), axis=0)
    return (dx, da, db) if bias is None else (dx, da, db, dbias)


# == mlp


def relu_network(x, params):
    """
    Dense layers with a ReLU between them.

    >>> hidden = np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([0.0, -1.0])
    >>> out = np.array([[1.0, -2.0]]), np.array([0.0])
    >>> x = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> print(relu_network(x, (hidden, out)))
    [[0.]
     [1.]
     [1.]
     [0.]]
    """
    for weight, bias in params[:-1]:
        x = relu(linear(x, weight, bias))
    return linear(x, *params[-1])


def relu_network_vjp(dout, x, params):
    """
    Backpropagation: gradients of the input and of each layer, for rows of a batch.

    >>> hidden = np.array([[1.0, 2.0], [-1.0, 1.0]]), np.zeros(2)
    >>> out = np.array([[3.0, 5.0]]), np.zeros(1)
    >>> dx, dparams = relu_network_vjp(np.ones((1, 1)), np.ones((1, 2)), (hidden, out))
    >>> print(dx)
    [[3. 6.]]
    >>> print(dparams[0][0])
    [[3. 3.]
     [0. 0.]]
    """
    inputs = [x]
    for weight, bias in params[:-1]:
        inputs.append(relu(linear(inputs[-1], weight, bias)))
    delta, dparams = dout, []
    for l in reversed(range(len(params))):
        weight, _ = params[l]
        dparams.append((delta.T @ inputs[l], np.sum(delta, axis=0)))
        dh = delta @ weight
        delta = dh * (inputs[l] > 0)  # The ReLU of the layer below.
    return dh, tuple(dparams[::-1])


def mlp_pass(x, params, activation, dropout):
    """Inputs and pre-activations of all layers."""
    f, _ = activation_of(activation)
    inputs, zs = [x], []
    for l, (weight, bias) in enumerate(params):
        zs.append(linear(inputs[-1], weight, bias))
        if l < len(params) - 1:
            h = f(zs[-1])
            masked = dropout is not None and dropout[l] is not None
            inputs.append(h * dropout[l] if masked else h)
    return inputs, zs


def mlp(x, params, *, activation="relu", dropout=None):
    """
    Network with any activation, and masks of dropout after it.

    >>> hidden = np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([0.0, -1.0])
    >>> out = np.array([[1.0, -2.0]]), None
    >>> x = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> print(mlp(x, (hidden, out), activation="relu"))
    [[0.]
     [1.]
     [1.]
     [0.]]
    """
    _, zs = mlp_pass(x, params, activation, dropout)
    return zs[-1]


def mlp_deltas(dout, x, params, *, activation="relu", dropout=None):
    """
    Gradients of the pre-activations, from the last layer to the first.

    >>> from collections import namedtuple
    >>> Layer = namedtuple("Layer", ("weight", "bias"))
    >>> layers = 5 * (Layer(np.ones((1, 1)), None),)
    >>> deltas = mlp_deltas(np.array([1.0]), np.array([0.0]), layers, activation="sigmoid")
    >>> print(np.round(np.concatenate(deltas), 4))
    [0.003  0.012  0.0512 0.2253 1.    ]
    """
    _, slope = activation_of(activation)
    _, zs = mlp_pass(x, params, activation, dropout)
    deltas = [dout]
    for l in reversed(range(len(params) - 1)):
        dh = deltas[0] @ params[l + 1].weight
        masked = dropout is not None and dropout[l] is not None
        dh = dh * dropout[l] if masked else dh
        deltas.insert(0, slope(zs[l]) * dh)
    return tuple(deltas)


def mlp_vjp(dout, x, params, *, activation="relu", dropout=None):
    """
    Backpropagation: the gradients of each layer, of its input and its delta.

    >>> from collections import namedtuple
    >>> Layer = namedtuple("Layer", ("weight", "bias"))
    >>> hidden = Layer(np.array([[1.0, 2.0], [-1.0, 1.0]]), None)
    >>> out = Layer(np.array([[3.0, 5.0]]), None)
    >>> dx, dparams = mlp_vjp(np.ones(1), np.ones(2), (hidden, out))
    >>> print(dx)
    [3. 6.]
    >>> print(dparams[0].weight)
    [[3. 3.]
     [0. 0.]]
    """
    inputs, _ = mlp_pass(x, params, activation, dropout)
    deltas = mlp_deltas(dout, x, params, activation=activation, dropout=dropout)
    dparams = []
    for layer, h, delta in zip(params, inputs, deltas, strict=True):
        dweight = as_rows(delta).T @ as_rows(h)
        dbias = None if layer.bias is None else np.sum(as_rows(delta), axis=0)
        dparams.append(type(layer)(dweight, dbias))
    dx = deltas[0] @ params[0].weight
    return dx, tuple(dparams)
