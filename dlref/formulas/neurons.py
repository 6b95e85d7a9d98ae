"""
Neurons, dense layers and networks of them.

Inputs x are vectors or rows of a batch. Row i of `weight` holds the weights of output i, z is the
pre-activation, and delta the gradient with respect to z.
"""

import math

import numpy as np

from .activations import activation_of, relu
from .calculus import sum_to_shape

# == shared


def as_rows(x):
    """All leading axes as one."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


# == neuron


def neuron(x, w, b, *, activation="relu"):
    """Activation of a weighted sum."""
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
    """Backward pass: one number for each row determines all gradients."""
    _, slope = activation_of(activation)
    z = np.sum(w * x, axis=-1) + b
    delta = dout * slope(z)
    dx = delta[..., None] * w
    dw = sum_to_shape(delta[..., None] * x, w.shape)
    return dx, dw, np.sum(delta)


# == linear


def linear(x, weight, bias=None):
    """Dense layer, for a vector or for rows of a batch."""
    y = x @ weight.T
    return y if bias is None else y + bias


def linear_jacobian(x, weight, bias=None):
    """Jacobian of the input: the weights, once for each row."""
    return np.broadcast_to(weight, x.shape[:-1] + weight.shape)


def linear_vjp(dout, x, weight, bias=None):
    """Backward pass: the weights and the bias add up over the rows."""
    dx = dout @ weight
    dweight = as_rows(dout).T @ as_rows(x)
    dbias = np.sum(as_rows(dout), axis=0)
    return (dx, dweight) if bias is None else (dx, dweight, dbias)


# == embedding


def embedding(table, ids, *, padding_id=None, scale=1.0):
    """Row of a table for each token."""
    if padding_id is not None:
        # The row of the padding is a constant: a complex step must not see a change of it.
        is_padding = np.arange(len(table)) == padding_id
        table = np.where(is_padding[:, None], table.real, table)
    return scale * table[ids]


def embedding_vjp(dout, table, ids, *, padding_id=None, scale=1.0):
    """Backward pass: cotangents of the same token add up."""
    dtable = np.zeros_like(table)
    np.add.at(dtable, ids, dout)
    if padding_id is not None:
        dtable[padding_id] = 0
    return scale * dtable


# == dropout


def dropout(x, mask):
    """Factors of 0, or of slightly more than 1."""
    return x * mask


def dropout_vjp(dout, x, mask):
    """Backward pass: the same factors."""
    return dout * mask


# == lora_linear


def lora_linear(x, weight, a, b, bias=None, *, scale=1.0):
    """Dense layer with a correction of low rank."""
    low = x @ a.T
    y = x @ weight.T + scale * (low @ b.T)
    return y if bias is None else y + bias


def lora_linear_vjp(dout, x, weight, a, b, bias=None, *, scale=1.0):
    """Backward pass: of the input and both factors, not of the frozen weight."""
    low = x @ a.T
    dlow = scale * (dout @ b)
    dx = dout @ weight + dlow @ a
    da = as_rows(dlow).T @ as_rows(x)
    db = scale * (as_rows(dout).T @ as_rows(low))
    dbias = np.sum(as_rows(dout), axis=0)
    return (dx, da, db) if bias is None else (dx, da, db, dbias)


# == mlp


def relu_network(x, params):
    """Dense layers with a ReLU between them."""
    for weight, bias in params[:-1]:
        x = relu(linear(x, weight, bias))
    return linear(x, *params[-1])


def relu_network_vjp(dout, x, params):
    """Backpropagation: gradients of the input and of each layer, for rows of a batch."""
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
    """Network with any activation, and masks of dropout after it."""
    _, zs = mlp_pass(x, params, activation, dropout)
    return zs[-1]


def mlp_deltas(dout, x, params, *, activation="relu", dropout=None):
    """Gradients of the pre-activations, from the last layer to the first."""
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
    """Backpropagation: the gradients of each layer, of its input and its delta."""
    inputs, _ = mlp_pass(x, params, activation, dropout)
    deltas = mlp_deltas(dout, x, params, activation=activation, dropout=dropout)
    dparams = []
    for layer, h, delta in zip(params, inputs, deltas, strict=True):
        dweight = as_rows(delta).T @ as_rows(h)
        dbias = None if layer.bias is None else np.sum(as_rows(delta), axis=0)
        dparams.append(type(layer)(dweight, dbias))
    dx = deltas[0] @ params[0].weight
    return dx, tuple(dparams)
