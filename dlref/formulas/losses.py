"""
Losses, their gradients and their reductions.

A loss has a term for each element, each row or each pair; `reduction` takes their mean or their
sum, or leaves them as they are. A `_grad` is the backward pass of a cotangent of 1. The classes of
a row stand along the last axis.
"""

import itertools
import math

import numpy as np

from .activations import (
    clip,
    log_softmax,
    logsumexp,
    one_hot,
    relu,
    relu_deriv,
    sigmoid,
    softmax,
    softplus,
    sparsemax,
    support,
)
from .calculus import absolute, absolute_deriv
from .neurons import as_rows, linear

# == shared


def reduce(terms, reduction):
    """Mean or sum of all terms, or the terms themselves."""
    if reduction == "none":
        return terms
    return np.sum(terms) / terms.size if reduction == "mean" else np.sum(terms)


def reduce_grad(slopes, count, reduction):
    """Slopes of the reduced loss, from the slopes of its terms."""
    return slopes / count if reduction == "mean" else slopes


def count_rows(x):
    """Number of rows along the last axis."""
    return math.prod(x.shape[:-1])


def of_rows(dout):
    """Cotangent of each row, with an axis for the elements of the row."""
    return np.asarray(dout)[..., None]


def class_weights(weight, scores):
    """Weight of each class, 1 unless it is given."""
    weight = np.ones(scores.shape[-1]) if weight is None else weight
    return np.asarray(weight, scores.dtype)


# == squared_error


def squared_error(pred, target, *, reduction="mean"):
    """
    Square of the difference.

    >>> pred, target = np.array([1.0, 2.0, 3.0]), np.array([1.0, 4.0, 6.0])
    >>> print(squared_error(pred, target, reduction="none"))
    [0. 4. 9.]
    """
    return reduce((pred - target) ** 2, reduction)


def squared_error_grad(pred, target, *, reduction="mean"):
    """
    Gradient: twice the difference.

    >>> pred, target = np.array([1.0, 2.0, 3.0]), np.array([1.0, 4.0, 6.0])
    >>> print(squared_error_grad(pred, target, reduction="sum"))
    [ 0. -4. -6.]
    """
    return reduce_grad(2 * (pred - target), pred.size, reduction)


def squared_error_vjp(dout, pred, target, *, reduction="mean"):
    """Backward pass."""
    dpred = dout * squared_error_grad(pred, target, reduction=reduction)
    return dpred, -dpred


# == neuron_squared_error


def neuron_squared_error(X, y, w, b):
    """
    Mean squared error of a neuron with ReLU.

    >>> X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    >>> y = np.array([10.0, 20.0, 30.0])
    >>> loss = neuron_squared_error(X, y, np.array([0.5, -1.0, 2.0]), 0.1)
    >>> print(np.round(loss, 4))
    138.9767
    """
    z = X @ w + b
    return np.mean((relu(z) - y) ** 2)


def neuron_squared_error_deltas(X, y, w, b):
    """Gradients with respect to the errors and to the pre-activations."""
    z = X @ w + b
    error = relu(z) - y
    derror = 2 * error / y.size
    return derror, derror * relu_deriv(z)


def neuron_squared_error_grad(X, y, w, b):
    """
    Gradients of the weights and the bias, by the chain rule.

    >>> X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    >>> y = np.array([10.0, 20.0, 30.0])
    >>> dw, db = neuron_squared_error_grad(X, y, np.array([0.5, -1.0, 2.0]), 0.1)
    >>> print(dw, np.round(db, 4))
    [-109.2 -131.  -152.8] -21.8
    """
    _, delta = neuron_squared_error_deltas(X, y, w, b)
    return delta @ X, np.sum(delta)


def neuron_squared_error_vjp(dout, X, y, w, b):
    """
    Backward pass, with the gradients of the examples.

    >>> X, y = np.array([[1.0], [-1.0]]), np.array([5.0, 5.0])
    >>> _, dy, dw, db = neuron_squared_error_vjp(1.0, X, y, np.array([2.0]), 0.0)
    >>> print(dy, dw, db)
    [3. 5.] [-3.] -3.0
    """
    derror, delta = neuron_squared_error_deltas(X, y, w, b)
    dX = delta[:, None] * w
    dw, db = neuron_squared_error_grad(X, y, w, b)
    return dout * dX, -dout * derror, dout * dw, dout * db


# == absolute_error


def absolute_error(pred, target, *, reduction="mean"):
    """
    Absolute value of the difference.

    >>> pred, target = np.array([0.0, 1.0, 2.0]), np.array([1.0, 1.0, -100.0])
    >>> print(absolute_error(pred, target, reduction="sum"))
    103.0
    """
    return reduce(absolute(pred - target), reduction)


def absolute_error_grad(pred, target, *, reduction="mean"):
    """
    Gradient: the sign of the difference, 0 at the kink.

    >>> pred, target = np.array([0.0, 1.0, 2.0]), np.array([1.0, 1.0, -100.0])
    >>> print(absolute_error_grad(pred, target, reduction="sum"))
    [-1.  0.  1.]
    """
    return reduce_grad(np.sign(pred - target), pred.size, reduction)


def absolute_error_vjp(dout, pred, target, *, reduction="mean"):
    """Backward pass."""
    dpred = dout * absolute_error_grad(pred, target, reduction=reduction)
    return dpred, -dpred


# == huber


def huber(pred, target, *, delta=1.0, reduction="mean"):
    """
    A parabola, continued by its tangents where the difference is large.

    >>> pred, target = np.array([0.5, 1.0, 3.0, -10.0]), np.zeros(4)
    >>> print(huber(pred, target, reduction="none"))
    [0.125 0.5   2.5   9.5  ]
    """
    e = pred - target
    size = absolute(e)
    terms = np.where(size.real <= delta, e**2 / 2, delta * (size - delta / 2))
    return reduce(terms, reduction)


def huber_grad(pred, target, *, delta=1.0, reduction="mean"):
    """
    Gradient: the difference between two bounds.

    >>> pred, target = np.array([0.5, 1.0, 3.0, -10.0]), np.zeros(4)
    >>> print(huber_grad(pred, target, reduction="sum"))
    [ 0.5  1.   1.  -1. ]
    """
    return reduce_grad(clip(pred - target, -delta, delta), pred.size, reduction)


def huber_vjp(dout, pred, target, *, delta=1.0, reduction="mean"):
    """Backward pass."""
    dpred = dout * huber_grad(pred, target, delta=delta, reduction=reduction)
    return dpred, -dpred


# == hinge


def hinge(pred, target, *, squared=False, reduction="mean"):
    """
    How much a score falls short of a margin of 1.

    >>> pred, target = np.array([2.0, 0.25, -1.0]), np.array([1.0, 1.0, 1.0])
    >>> print(hinge(pred, target, reduction="none"))
    [0.   0.75 2.  ]
    """
    shortfall = relu(1 - target * pred)
    return reduce(shortfall**2 if squared else shortfall, reduction)


def hinge_grad(pred, target, *, squared=False, reduction="mean"):
    """
    Gradient: examples beyond the margin have none.

    >>> pred, target = np.array([2.0, 0.25, -1.0]), np.array([1.0, 1.0, 1.0])
    >>> print(hinge_grad(pred, target, reduction="sum"))
    [ 0. -1. -1.]
    """
    shortfall = 1 - target * pred
    rate = 2 * shortfall if squared else 1
    slopes = np.where(shortfall.real > 0, -target * rate, 0)
    return reduce_grad(slopes, pred.size, reduction)


def hinge_vjp(dout, pred, target, *, squared=False, reduction="mean"):
    """
    Backward pass: scores and targets are exchangeable.

    >>> pred, target = np.array([0.5, 3.0]), np.array([-1.0, 1.0])
    >>> print(*hinge_vjp(np.array([10.0, 10.0]), pred, target, reduction="none"))
    [10.  0.] [-5.  0.]
    """
    options = {"squared": squared, "reduction": reduction}
    return dout * hinge_grad(pred, target, **options), dout * hinge_grad(target, pred, **options)


# == multi_margin_loss


def shortfalls(scores, target, margin):
    """How much each wrong score is too near to the right one, and where the right one is."""
    own = one_hot(target, scores.shape[-1])
    right = np.sum(np.where(own, scores, 0), axis=-1, keepdims=True)
    return np.where(own, 0, relu(scores - right + margin)), own


def multi_margin_loss(scores, target, *, p=1, margin=1.0, weight=None, reduction="mean"):
    """
    How much wrong scores are too near to the right one, a mean over the classes.

    >>> scores = np.array([2.0, 1.5, 1.75, 0.0])
    >>> print(multi_margin_loss(scores, np.array(0)) * 4)
    1.25
    """
    h, own = shortfalls(scores, target, margin)
    w = np.sum(np.where(own, class_weights(weight, scores), 0), axis=-1)
    return reduce(w * np.sum(h**p, axis=-1) / h.shape[-1], reduction)


def multi_margin_loss_grad(scores, target, *, p=1, margin=1.0, weight=None, reduction="mean"):
    """
    Gradient: the right score is pulled once for each class that is too near.

    >>> scores = np.array([2.0, 1.5, 1.75, 0.0])
    >>> print(multi_margin_loss_grad(scores, np.array(0)) * 4)
    [-2.  1.  1.  0.]
    """
    h, own = shortfalls(scores, target, margin)
    w = np.sum(np.where(own, class_weights(weight, scores), 0), axis=-1, keepdims=True)
    g = w / h.shape[-1] * np.where(h.real > 0, p * h ** (p - 1), 0)
    slopes = np.where(own, -np.sum(g, axis=-1, keepdims=True), g)
    return reduce_grad(slopes, count_rows(scores), reduction)


def multi_margin_loss_vjp(dout, scores, target, *, p=1, margin=1.0, weight=None, reduction="mean"):
    """Backward pass."""
    options = {"p": p, "margin": margin, "weight": weight, "reduction": reduction}
    return of_rows(dout) * multi_margin_loss_grad(scores, target, **options)


# == triplet_margin_loss


def norm_of_order(v, p):
    """Norm of each row, and its gradient."""
    d = np.sum(absolute(v) ** p, axis=-1, keepdims=True) ** (1 / p)
    return d, absolute_deriv(v) * (absolute(v) / np.where(d == 0, 1, d)) ** (p - 1)


def triplet_parts(anchor, positive, negative, margin, p, eps, swap):
    """How much is missing, both gradients, and where the distance of the positive counts."""
    near, g_near = norm_of_order(anchor - positive + eps, p)
    far, g_far = norm_of_order(anchor - negative + eps, p)
    other, g_other = norm_of_order(positive - negative + eps, p)
    swapped = (other.real < far.real) & swap
    missing = relu(margin + near - np.where(swapped, other, far))
    return missing, g_near, np.where(swapped, g_other, g_far), swapped


def triplet_margin_loss(
    anchor, positive, negative, *, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction="mean"
):
    """
    How much a positive is nearer than a negative, short of a margin.

    >>> triplet = np.array([0.0, 0.0]), np.array([3.0, 4.0]), np.array([6.0, 8.0])
    >>> print(triplet_margin_loss(*triplet, margin=6, eps=0))
    1.0
    """
    triplet = anchor, positive, negative
    missing, *_ = triplet_parts(*triplet, margin, p, eps, swap)
    return reduce(missing[..., 0], reduction)


def triplet_margin_loss_grad(
    anchor, positive, negative, *, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction="mean"
):
    """
    Gradient: the positive is pulled and the negative is pushed.

    >>> triplet = np.array([0.0, 0.0]), np.array([3.0, 4.0]), np.array([0.0, 8.0])
    >>> print(*triplet_margin_loss_grad(*triplet, margin=6, eps=0))
    [-0.6  0.2] [0.6 0.8] [ 0. -1.]
    """
    triplet = anchor, positive, negative
    missing, near, far, swapped = triplet_parts(*triplet, margin, p, eps, swap)
    near, far = (np.where(missing.real > 0, g, 0) for g in (near, far))
    slopes = near - np.where(swapped, 0, far), -near - np.where(swapped, far, 0), far
    return tuple(reduce_grad(slope, count_rows(anchor), reduction) for slope in slopes)


def triplet_margin_loss_vjp(
    dout, anchor, positive, negative, *, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction="mean"
):
    """Backward pass."""
    options = {"margin": margin, "p": p, "eps": eps, "swap": swap, "reduction": reduction}
    grads = triplet_margin_loss_grad(anchor, positive, negative, **options)
    return tuple(of_rows(dout) * grad for grad in grads)


# == binary_cross_entropy


def logistic_loss(logits, target):
    """
    Binary cross-entropy without options, the mean.

    >>> logits, target = np.log([1.0, 3.0]), np.array([1.0, 0.0])
    >>> print(np.round(logistic_loss(logits, target) / np.log(2), 4))
    1.5
    """
    return np.mean(target * softplus(-logits) + (1 - target) * softplus(logits))


def logistic_loss_grad(logits, target):
    """
    Gradient without options: prediction minus target.

    >>> logits, target = np.log([1.0, 3.0]), np.array([1.0, 0.0])
    >>> print(logistic_loss_grad(logits, target))
    [-0.25   0.375]
    """
    return (sigmoid(logits) - target) / logits.size


def element_weights(weight, pos_weight, logits):
    """Weight of each element and of each positive target, 1 unless they are given."""
    w = 1 if weight is None else weight
    pi = 1 if pos_weight is None else pos_weight
    return np.asarray(w, logits.dtype), np.asarray(pi, logits.dtype)


def binary_cross_entropy(logits, target, *, weight=None, pos_weight=None, reduction="mean"):
    """
    Binary cross-entropy, with weights of elements and of positive targets.

    >>> logits, target = np.log([1.0, 3.0]), np.array([1.0, 0.0])
    >>> loss = binary_cross_entropy(logits, target, pos_weight=3.0, reduction="none")
    >>> print(loss / np.log(2))
    [3. 2.]
    """
    w, pi = element_weights(weight, pos_weight, logits)
    terms = w * (pi * target * softplus(-logits) + (1 - target) * softplus(logits))
    return reduce(terms, reduction)


def binary_cross_entropy_grad(logits, target, *, weight=None, pos_weight=None, reduction="mean"):
    """
    Gradient.

    >>> logits, target = np.log([1.0, 3.0]), np.array([1.0, 0.0])
    >>> print(binary_cross_entropy_grad(logits, target, pos_weight=3.0, reduction="sum"))
    [-1.5   0.75]
    """
    w, pi = element_weights(weight, pos_weight, logits)
    slopes = w * ((1 - target) * sigmoid(logits) - pi * target * sigmoid(-logits))
    return reduce_grad(slopes, logits.size, reduction)


def binary_cross_entropy_vjp(
    dout, logits, target, *, weight=None, pos_weight=None, reduction="mean"
):
    """Backward pass: the loss is linear in the target."""
    w, pi = element_weights(weight, pos_weight, logits)
    options = {"weight": weight, "pos_weight": pos_weight, "reduction": reduction}
    dlogits = dout * binary_cross_entropy_grad(logits, target, **options)
    slopes = w * ((pi - 1) * softplus(-logits) - logits)
    return dlogits, dout * reduce_grad(slopes, logits.size, reduction)


# == sigmoid_focal_loss


def focal_parts(logits, target, alpha):
    """Weight, probability of the wrong answer, and cross-entropy of each element."""
    p = sigmoid(logits)
    a = alpha * target + (1 - alpha) * (1 - target) if alpha >= 0 else np.ones_like(target)
    b = target * softplus(-logits) + (1 - target) * softplus(logits)
    return a, target * sigmoid(-logits) + (1 - target) * p, b, p


def sigmoid_focal_loss(logits, target, *, alpha=0.25, gamma=2.0, reduction="mean"):
    """
    Binary cross-entropy times a power of the probability of the wrong answer.

    >>> logits, target = np.log([3.0]), np.array([1.0])
    >>> print(np.round(sigmoid_focal_loss(logits, target, alpha=-1) / np.log(4 / 3), 4))
    0.0625
    """
    a, q, b, _ = focal_parts(logits, target, alpha)
    return reduce(a * q**gamma * b, reduction)


def sigmoid_focal_loss_grad(logits, target, *, alpha=0.25, gamma=2.0, reduction="mean"):
    """
    Gradient: the focus and the cross-entropy both depend on the logit.

    >>> logits, target = np.array([0.0]), np.array([1.0])
    >>> print(sigmoid_focal_loss_grad(logits, target, alpha=-1, gamma=0))
    [-0.5]
    """
    a, q, b, p = focal_parts(logits, target, alpha)
    # The derivative of q, over q.
    rate = (1 - 2 * target) / (1 + target * np.exp(-logits) + (1 - target) * np.exp(logits))
    return reduce_grad(a * q**gamma * (p - target + gamma * rate * b), logits.size, reduction)


def sigmoid_focal_loss_vjp(dout, logits, target, *, alpha=0.25, gamma=2.0, reduction="mean"):
    """Backward pass: the target is in all three factors."""
    options = {"alpha": alpha, "gamma": gamma, "reduction": reduction}
    dlogits = dout * sigmoid_focal_loss_grad(logits, target, **options)
    a, q, b, p = focal_parts(logits, target, alpha)
    da = 2 * alpha - 1 if alpha >= 0 else 0
    by_focus = gamma * q ** (gamma - 1) * (1 - 2 * p) if gamma else 0
    slopes = da * q**gamma * b + a * (by_focus * b - q**gamma * logits)
    return dlogits, dout * reduce_grad(slopes, logits.size, reduction)


# == cross_entropy


def cross_entropy_of_classes(logits, target):
    """
    Cross-entropy without options: the mean of minus the logarithms of probabilities.

    >>> logits, target = np.log([[1.0, 1.0, 2.0], [1.0, 1.0, 2.0]]), np.array([0, 2])
    >>> print(np.round(cross_entropy_of_classes(logits, target) / np.log(2), 4))
    1.5
    """
    rows = np.arange(len(target))
    return np.mean(logsumexp(logits) - logits[rows, target])


def cross_entropy_of_classes_grad(logits, target):
    """
    Gradient without options: softmax minus one-hot.

    >>> logits, target = np.log([[1.0, 1.0, 2.0], [1.0, 1.0, 2.0]]), np.array([0, 2])
    >>> print(cross_entropy_of_classes_grad(logits, target))
    [[-0.375  0.125  0.25 ]
     [ 0.125  0.125 -0.25 ]]
    """
    return (softmax(logits) - one_hot(target, logits.shape[-1])) / len(target)


def weighted_target(logits, target, weight, ignore_index, label_smoothing):
    """Target q of each row, the rows that count, and the divisor of the mean."""
    classes = logits.shape[-1]
    w = class_weights(weight, logits)
    if target.ndim < logits.ndim:  # Classes rather than probabilities.
        counts = target != ignore_index
        t = (one_hot(target, classes) & counts[..., None]).astype(logits.dtype)
        divisor = np.sum(w * t)
    else:
        counts = np.ones(target.shape[:-1], bool)
        t = target
        divisor = counts.size
    q = w * ((1 - label_smoothing) * t + label_smoothing / classes)
    return np.where(counts[..., None], q, 0), counts, divisor


def cross_entropy(
    logits,
    target,
    *,
    weight=None,
    ignore_index=-100,
    label_smoothing=0.0,
    z_loss=0.0,
    reduction="mean",
):
    """
    Cross-entropy of classes or probabilities, with all options.

    >>> logits, target = np.log([[1.0, 1.0], [9.0, 1.0]]), np.array([0, -100])
    >>> print(np.round(cross_entropy(logits, target) / np.log(2), 4))
    1.0
    """
    q, counts, divisor = weighted_target(logits, target, weight, ignore_index, label_smoothing)
    lam = logsumexp(logits)
    terms = np.where(q == 0, 0, q * (lam[..., None] - logits))
    rows = np.sum(terms, axis=-1) + np.where(counts, z_loss * lam**2, 0)
    return np.sum(rows) / divisor if reduction == "mean" else reduce(rows, reduction)


def cross_entropy_grad(
    logits,
    target,
    *,
    weight=None,
    ignore_index=-100,
    label_smoothing=0.0,
    z_loss=0.0,
    reduction="mean",
):
    """
    Gradient with all options.

    >>> logits, target = np.log([[1.0, 1.0], [9.0, 1.0]]), np.array([0, -100])
    >>> print(cross_entropy_grad(logits, target))
    [[-0.5  0.5]
     [ 0.   0. ]]
    """
    q, counts, divisor = weighted_target(logits, target, weight, ignore_index, label_smoothing)
    total = np.sum(q, axis=-1)
    pull = total + 2 * z_loss * logsumexp(logits)
    slopes = np.where(counts[..., None], pull[..., None] * softmax(logits) - q, 0)
    return reduce_grad(slopes, divisor, reduction)


def cross_entropy_value_and_grad(
    logits,
    target,
    *,
    weight=None,
    ignore_index=-100,
    label_smoothing=0.0,
    z_loss=0.0,
    reduction="mean",
):
    """Loss and gradient together."""
    options = {
        "weight": weight,
        "ignore_index": ignore_index,
        "label_smoothing": label_smoothing,
        "z_loss": z_loss,
        "reduction": reduction,
    }
    loss = cross_entropy(logits, target, **options)
    return loss, cross_entropy_grad(logits, target, **options)


def cross_entropy_vjp(
    dout,
    logits,
    target,
    *,
    weight=None,
    ignore_index=-100,
    label_smoothing=0.0,
    z_loss=0.0,
    reduction="mean",
):
    """
    Backward pass; the loss is linear in target probabilities.

    >>> logits, target = np.log([4.0, 2.0, 1.0, 1.0]), np.array([0.25, 0.25, 0.25, 0.25])
    >>> dlogits, dtarget = cross_entropy_vjp(1.0, logits, target)
    >>> print(dlogits)
    [ 0.25   0.    -0.125 -0.125]
    >>> print(dtarget / np.log(2))
    [1. 2. 3. 3.]
    """
    options = {
        "weight": weight,
        "ignore_index": ignore_index,
        "label_smoothing": label_smoothing,
        "z_loss": z_loss,
        "reduction": reduction,
    }
    dlogits = of_rows(dout) * cross_entropy_grad(logits, target, **options)
    if target.ndim < logits.ndim:
        return dlogits
    share = (1 - label_smoothing) * class_weights(weight, logits)
    slopes = np.where(share == 0, 0, share * -log_softmax(logits))
    return dlogits, of_rows(dout) * reduce_grad(slopes, count_rows(logits), reduction)


# == linear_cross_entropy


def linear_cross_entropy(
    x,
    weight,
    target,
    bias=None,
    *,
    ignore_index=-100,
    label_smoothing=0.0,
    z_loss=0.0,
    reduction="mean",
    chunk=None,
):
    """
    Cross-entropy of the logits of a dense layer.

    >>> x, weight = np.eye(2), np.zeros((3, 2))
    >>> print(np.round(linear_cross_entropy(x, weight, np.array([0, 2])) / np.log(3), 4))
    1.0
    """
    return cross_entropy(
        linear(x, weight, bias),
        target,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        z_loss=z_loss,
        reduction=reduction,
    )


def chunked_cross_entropy_grad(x, weight, target, chunk):
    """
    Gradients without options, a chunk of rows at a time.

    >>> x, weight, target = np.array([[1.0], [3.0]]), np.zeros((2, 1)), np.array([0, 0])
    >>> _, dweight = chunked_cross_entropy_grad(x, weight, target, chunk=1)
    >>> print(dweight)
    [[-1.]
     [ 1.]]
    """
    dx, dweight = np.zeros_like(x), np.zeros_like(weight)
    for start in range(0, len(x), chunk):
        rows = slice(start, start + chunk)
        dlogits = cross_entropy_of_classes_grad(x[rows] @ weight.T, target[rows])
        dlogits = dlogits * len(dlogits) / len(x)  # The mean over all rows, not over the chunk.
        dx[rows] = dlogits @ weight
        dweight += dlogits.T @ x[rows]
    return dx, dweight


def linear_cross_entropy_grad(
    x,
    weight,
    target,
    bias=None,
    *,
    ignore_index=-100,
    label_smoothing=0.0,
    z_loss=0.0,
    reduction="mean",
    chunk=None,
):
    """
    Gradients with all options.

    >>> x, weight, target = np.array([[1.0], [3.0]]), np.zeros((2, 1)), np.array([0, 0])
    >>> _, dweight = linear_cross_entropy_grad(x, weight, target)
    >>> print(dweight)
    [[-1.]
     [ 1.]]
    """
    return linear_cross_entropy_vjp(
        np.ones((), x.dtype),
        x,
        weight,
        target,
        bias,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        z_loss=z_loss,
        reduction=reduction,
    )


def linear_cross_entropy_vjp(
    dout,
    x,
    weight,
    target,
    bias=None,
    *,
    ignore_index=-100,
    label_smoothing=0.0,
    z_loss=0.0,
    reduction="mean",
    chunk=None,
):
    """
    Backward pass: of the loss, then of the layer.

    >>> x, weight, target = np.array([[1.0], [3.0]]), np.zeros((2, 1)), np.array([0, 0])
    >>> _, dweight, dbias = linear_cross_entropy_vjp(8.0, x, weight, target, np.zeros(2))
    >>> print(dweight)
    [[-8.]
     [ 8.]]
    >>> print(dbias)
    [-4.  4.]
    """
    dlogits = cross_entropy_vjp(
        dout,
        linear(x, weight, bias),
        target,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        z_loss=z_loss,
        reduction=reduction,
    )
    dx = dlogits @ weight
    dweight = as_rows(dlogits).T @ as_rows(x)
    dbias = np.sum(as_rows(dlogits), axis=0)
    return (dx, dweight) if bias is None else (dx, dweight, dbias)


# == nll


def picked_weights(log_probs, target, weight, ignore_index):
    """Weight of the class of each row in its place, 0 elsewhere, and the divisor of the mean."""
    counts = (target != ignore_index)[..., None]
    picked = one_hot(target, log_probs.shape[-1]) & counts
    w = np.where(picked, class_weights(weight, log_probs), 0)
    return w, np.sum(w)


def nll(log_probs, target, *, weight=None, ignore_index=-100, reduction="mean"):
    """
    Minus the logarithm of the probability of a class.

    >>> log_probs = np.log([[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]])
    >>> loss = nll(log_probs, np.array([1, 0]), reduction="none")
    >>> print(loss / np.log(2))
    [2. 3.]
    """
    w, divisor = picked_weights(log_probs, target, weight, ignore_index)
    rows = -np.sum(np.where(w == 0, 0, w * log_probs), axis=-1)
    return np.sum(rows) / divisor if reduction == "mean" else reduce(rows, reduction)


def nll_grad(log_probs, target, *, weight=None, ignore_index=-100, reduction="mean"):
    """
    Gradient: minus one-hot, weighted.

    >>> log_probs = np.log([[0.5, 0.5], [0.25, 0.75]])
    >>> print(-nll_grad(log_probs, np.array([1, -100])))
    [[0. 1.]
     [0. 0.]]
    """
    w, divisor = picked_weights(log_probs, target, weight, ignore_index)
    return reduce_grad(-w, divisor, reduction)


def nll_vjp(dout, log_probs, target, *, weight=None, ignore_index=-100, reduction="mean"):
    """Backward pass."""
    options = {"weight": weight, "ignore_index": ignore_index, "reduction": reduction}
    return of_rows(dout) * nll_grad(log_probs, target, **options)


# == softmax_focal_loss


def focal_rows(logits, target, weight, ignore_index):
    """Weight and cross-entropy of each row, both 0 where it is ignored, and how many count."""
    counts = target != ignore_index
    own = one_hot(target, logits.shape[-1]) & counts[..., None]
    w = np.sum(np.where(own, class_weights(weight, logits), 0), axis=-1)
    b = np.sum(np.where(own, logsumexp(logits)[..., None] - logits, 0), axis=-1)
    return w, b, int(np.sum(counts)), own


def softmax_focal_loss(
    logits, target, *, gamma=2.0, weight=None, ignore_index=-100, reduction="mean"
):
    """
    Cross-entropy times a power of the probability of all wrong classes.

    >>> logits, target = np.log([[1.0, 2.0, 1.0], [1.0, 1.0, 2.0]]), np.array([0, 2])
    >>> print(np.round(softmax_focal_loss(logits, target, reduction="none") / np.log(2), 4))
    [1.125 0.25 ]
    """
    w, b, count, _ = focal_rows(logits, target, weight, ignore_index)
    rows = np.where(w == 0, 0, w * (-np.expm1(-b)) ** gamma * b)
    return np.sum(rows) / count if reduction == "mean" else reduce(rows, reduction)


def softmax_focal_loss_grad(
    logits, target, *, gamma=2.0, weight=None, ignore_index=-100, reduction="mean"
):
    """
    Gradient: the one of cross-entropy times a factor for each row.

    >>> logits = np.array([0.0, 0.0])
    >>> print(softmax_focal_loss_grad(logits, np.array(1), gamma=0))
    [ 0.5 -0.5]
    """
    w, b, count, own = focal_rows(logits, target, weight, ignore_index)
    ratio = np.where(b == 0, 1, b / np.where(b == 0, 1, np.expm1(b)))
    f = w * (-np.expm1(-b)) ** gamma * (1 + gamma * ratio)
    slopes = np.where(w == 0, 0, f)[..., None] * (softmax(logits) - own)
    return reduce_grad(slopes, count, reduction)


def softmax_focal_loss_vjp(
    dout, logits, target, *, gamma=2.0, weight=None, ignore_index=-100, reduction="mean"
):
    """Backward pass."""
    options = {"gamma": gamma, "weight": weight, "ignore_index": ignore_index}
    dlogits = softmax_focal_loss_grad(logits, target, reduction=reduction, **options)
    return of_rows(dout) * dlogits


# == sparsemax_loss


def sparsemax_loss(scores, target, *, reduction="mean"):
    """
    Loss of classes that goes with sparsemax.

    >>> scores = np.array([[1.0, 0.0], [0.0, 0.0], [-3.0, 0.0]])
    >>> print(sparsemax_loss(scores, np.array([0, 0, 0]), reduction="none"))
    [0.   0.25 3.  ]
    """
    own = one_hot(target, scores.shape[-1])
    z = scores - np.sum(np.where(own, scores, 0), axis=-1, keepdims=True)
    size = np.sum(support(z), axis=-1, keepdims=True, dtype=z.dtype)
    tau = (np.sum(np.where(support(z), z, 0), axis=-1, keepdims=True) - 1) / size
    # Half a squared distance from one-hot, and how far the right score is below the threshold.
    distance = np.sum((sparsemax(z) - own) ** 2, axis=-1)
    return reduce(distance / 2 + relu(tau[..., 0]), reduction)


def sparsemax_loss_grad(scores, target, *, reduction="mean"):
    """
    Gradient: sparsemax minus one-hot.

    >>> scores = np.array([0.5, 0.0, -2.0])
    >>> print(sparsemax_loss_grad(scores, np.array(0)))
    [-0.25  0.25  0.  ]
    """
    slopes = sparsemax(scores) - one_hot(target, scores.shape[-1])
    return reduce_grad(slopes, count_rows(scores), reduction)


def sparsemax_loss_vjp(dout, scores, target, *, reduction="mean"):
    """Backward pass."""
    return of_rows(dout) * sparsemax_loss_grad(scores, target, reduction=reduction)


# == kl_divergence


def kl_divergence(log_p, q, *, elementwise=False, reduction="mean"):
    """
    Mean logarithm of the ratio of two distributions, under the second.

    >>> p, q = np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.25, 0.5])
    >>> print(np.round(kl_divergence(np.log(p), q) / np.log(2), 4))
    0.25
    """
    # A class of probability 0 costs nothing.
    terms = np.where(q == 0, 0, q * (np.log(q) - log_p))
    return reduce(terms if elementwise else np.sum(terms, axis=-1), reduction)


def kl_divergence_grad(log_p, q, *, elementwise=False, reduction="mean"):
    """
    Gradient with respect to the logarithms of the first distribution.

    >>> p, q = np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.25, 0.5])
    >>> print(kl_divergence_grad(np.log(p), q))
    [-0.25 -0.25 -0.5 ]
    """
    return reduce_grad(-q, q.size if elementwise else count_rows(q), reduction)


def kl_divergence_vjp(dout, log_p, q, *, elementwise=False, reduction="mean"):
    """
    Backward pass.

    >>> q = np.array([0.25, 0.25, 0.5])
    >>> dlog_p, dq = kl_divergence_vjp(1.0, np.log(q), q)
    >>> print(dlog_p, dq)
    [-0.25 -0.25 -0.5 ] [1. 1. 1.]
    """
    u = np.asarray(dout) if elementwise else of_rows(dout)
    u = u * reduce_grad(1, q.size if elementwise else count_rows(q), reduction)
    return -u * q, u * (np.log(q) + 1 - log_p)


# == gaussian_kl


def gaussian_kl(mean, log_var, *, reduction="mean"):
    """
    Divergence of a Gaussian from the standard Gaussian.

    >>> mean = np.array([[0.0], [2.0], [0.0]])
    >>> log_var = np.array([[0.0], [0.0], [-2.0]])
    >>> print(np.round(gaussian_kl(mean, log_var, reduction="none"), 4))
    [0.     2.     0.5677]
    """
    terms = (mean**2 + np.expm1(log_var) - log_var) / 2
    return reduce(np.sum(terms, axis=-1), reduction)


def gaussian_kl_grad(mean, log_var, *, reduction="mean"):
    """
    Gradients: both pull to 0.

    >>> mean, log_var = np.array([[3.0, 0.0]]), np.array([[0.0, np.log(5)]])
    >>> print(*gaussian_kl_grad(mean, log_var))
    [[3. 0.]] [[0. 2.]]
    """
    dmean = reduce_grad(mean, count_rows(mean), reduction)
    dlog_var = reduce_grad(np.expm1(log_var) / 2, count_rows(mean), reduction)
    return dmean, dlog_var


def gaussian_kl_vjp(dout, mean, log_var, *, reduction="mean"):
    """Backward pass."""
    dmean, dlog_var = gaussian_kl_grad(mean, log_var, reduction=reduction)
    return of_rows(dout) * dmean, of_rows(dout) * dlog_var


# == kl_estimate


def kl_estimate(log_p, log_ref, *, kind="k3", reduction="mean"):
    """
    Estimates of a divergence from drawn tokens.

    >>> p, ref = np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.25, 0.5])
    >>> estimates = kl_estimate(np.log(p), np.log(ref), reduction="none")
    >>> print(np.round(p @ estimates / np.log(2), 4))
    0.25
    """
    rho = log_ref - log_p
    if kind == "k1":
        terms = -rho
    elif kind == "k2":
        terms = rho**2 / 2
    else:
        terms = np.expm1(rho) - rho
    return reduce(terms, reduction)


def kl_estimate_grad(log_p, log_ref, *, kind="k3", reduction="mean"):
    """
    Gradient.

    >>> p, ref = np.array([0.5, 0.25]), np.array([0.25, 0.5])
    >>> print(kl_estimate_grad(np.log(p), np.log(ref), reduction="sum"))
    [ 0.5 -1. ]
    """
    rho = log_ref - log_p
    if kind == "k1":
        slopes = np.ones_like(rho)
    elif kind == "k2":
        slopes = -rho
    else:
        slopes = -np.expm1(rho)
    return reduce_grad(slopes, log_p.size, reduction)


def kl_estimate_vjp(dout, log_p, log_ref, *, kind="k3", reduction="mean"):
    """Backward pass."""
    dlog_p = dout * kl_estimate_grad(log_p, log_ref, kind=kind, reduction=reduction)
    return dlog_p, -dlog_p


# == dpo_loss


def preference_margin(log_p, log_ref, beta):
    """How much more the chosen answer has gained over the reference than the rejected one."""
    gain = log_p - log_ref
    return beta * (gain[0] - gain[1])


def dpo_loss(log_p, log_ref, *, beta=0.1, kind="sigmoid", label_smoothing=0.0, reduction="mean"):
    """
    Loss of preferences: logistic, hinge or square.

    >>> log_p = np.array([[-20.0, -15.0], [-30.0, -35.0]])
    >>> log_ref = np.array([[-20.0, -20.0], [-30.0, -30.0]])
    >>> print(np.round(dpo_loss(log_p, log_ref, reduction="none"), 4))
    [0.6931 0.3133]
    """
    z = preference_margin(log_p, log_ref, beta)
    if kind == "hinge":
        terms = np.where(z.real < 1, 1 - z, 0)
    elif kind == "ipo":
        terms = (z / beta - 1 / (2 * beta)) ** 2
    else:
        terms = (1 - label_smoothing) * softplus(-z) + label_smoothing * softplus(z)
    return reduce(terms, reduction)


def dpo_loss_grad(
    log_p, log_ref, *, beta=0.1, kind="sigmoid", label_smoothing=0.0, reduction="mean"
):
    """
    Gradient, opposite for the chosen and the rejected answers.

    >>> log_p = log_ref = np.array([[-20.0], [-30.0]])
    >>> print(dpo_loss_grad(log_p, log_ref, beta=0.5))
    [[-0.25]
     [ 0.25]]
    """
    z = preference_margin(log_p, log_ref, beta)
    if kind == "hinge":
        slope = np.where(z < 1, -beta, 0)
    elif kind == "ipo":
        slope = 2 * (z / beta - 1 / (2 * beta))
    else:
        slope = beta * (label_smoothing * sigmoid(z) - (1 - label_smoothing) * sigmoid(-z))
    return reduce_grad(np.stack([slope, -slope]), z.size, reduction)


def dpo_loss_vjp(
    dout, log_p, log_ref, *, beta=0.1, kind="sigmoid", label_smoothing=0.0, reduction="mean"
):
    """Backward pass."""
    options = {"kind": kind, "label_smoothing": label_smoothing, "reduction": reduction}
    dlog_p = dout * dpo_loss_grad(log_p, log_ref, beta=beta, **options)
    return dlog_p, -dlog_p


# == kto_loss


def kto_terms(log_p, log_ref, desirable, beta, kl, weights):
    """Reward beyond the reference point, and the sign and the weight of each answer."""
    z = beta * (log_p - log_ref - kl)
    pairs = (1, -1), weights
    return z, *(np.where(desirable, *pair).astype(z.real.dtype) for pair in pairs)


def kto_loss(
    log_p,
    log_ref,
    desirable,
    *,
    beta=0.1,
    kl=0.0,
    desirable_weight=1.0,
    undesirable_weight=1.0,
    reduction="mean",
):
    """
    Loss of single answers, desirable or not.

    >>> log_p, zero = np.array([0.0, 10 * np.log(3), 10 * np.log(3)]), np.zeros(3)
    >>> print(kto_loss(log_p, zero, np.array([True, True, False]), reduction="none").round(4))
    [0.5  0.25 0.75]
    """
    weights = desirable_weight, undesirable_weight
    z, y, w = kto_terms(log_p, log_ref, desirable, beta, kl, weights)
    return reduce(w * sigmoid(-y * z), reduction)


def kto_loss_grad(
    log_p,
    log_ref,
    desirable,
    *,
    beta=0.1,
    kl=0.0,
    desirable_weight=1.0,
    undesirable_weight=1.0,
    reduction="mean",
):
    """
    Gradient, largest at the reference point.

    >>> zero = np.zeros(2)
    >>> print(kto_loss_grad(zero, zero, np.array([True, False]), beta=0.5, reduction="sum"))
    [-0.125  0.125]
    """
    weights = desirable_weight, undesirable_weight
    z, y, w = kto_terms(log_p, log_ref, desirable, beta, kl, weights)
    return reduce_grad(-y * w * beta * sigmoid(z) * sigmoid(-z), z.size, reduction)


def kto_loss_vjp(
    dout,
    log_p,
    log_ref,
    desirable,
    *,
    beta=0.1,
    kl=0.0,
    desirable_weight=1.0,
    undesirable_weight=1.0,
    reduction="mean",
):
    """Backward pass."""
    options = {"desirable_weight": desirable_weight, "undesirable_weight": undesirable_weight}
    options |= {"beta": beta, "kl": kl, "reduction": reduction}
    dlog_p = dout * kto_loss_grad(log_p, log_ref, desirable, **options)
    return dlog_p, -dlog_p


# == orpo_loss


def log_odds(log_p):
    """Logarithm of the odds p / (1 - p)."""
    return log_p - np.log(-np.expm1(log_p))


def orpo_loss(log_p, *, beta=0.1, reduction="mean"):
    """
    Cross-entropy of chosen answers, and the loss of the odds of pairs.

    >>> print(np.round(np.exp(-orpo_loss(np.log(np.array([0.75, 0.25])), beta=1.0)), 4))
    0.675
    """
    odds = log_odds(log_p)
    return reduce(-log_p[0] + beta * softplus(odds[1] - odds[0]), reduction)


def orpo_loss_grad(log_p, *, beta=0.1, reduction="mean"):
    """
    Gradient, which raises chosen answers by at least 1.

    >>> print(orpo_loss_grad(np.log(np.array([0.5, 0.5])), beta=0.25))
    [-1.25  0.25]
    """
    odds = log_odds(log_p)
    wrong = beta * sigmoid(odds[1] - odds[0])
    chosen, rejected = -np.expm1(log_p)
    slopes = np.stack([-1 - wrong / chosen, wrong / rejected])
    return reduce_grad(slopes, wrong.size, reduction)


def orpo_loss_vjp(dout, log_p, *, beta=0.1, reduction="mean"):
    """Backward pass."""
    return dout * orpo_loss_grad(log_p, beta=beta, reduction=reduction)


# == distillation_loss


def divergence(log_q, log_p):
    """Mean of the difference of two logarithms, under the first distribution."""
    return np.sum(np.exp(log_q) * (log_q - log_p), axis=-1, keepdims=True)


def log_middle(log_p, log_q, beta):
    """Logarithm of a mean of two distributions, with a weight of the second."""
    log_p, log_q = log_p + math.log(1 - beta), log_q + math.log(beta)
    return log_p + softplus(log_q - log_p)


def kind_at_the_ends(kind, beta):
    """The divergence of a weight of 0 or 1, where the loss of the mean would be 0."""
    return {0: "kl", 1: "reverse"}.get(beta, kind) if kind == "jsd" else kind


def distillation_loss(logits, teacher, *, temperature=1.0, kind="kl", beta=0.5, reduction="mean"):
    """
    Divergence of softened probabilities from the teacher's.

    >>> student, teacher = np.zeros(2), np.log([3.0, 1.0])
    >>> print(np.round(distillation_loss(student, teacher), 4))
    0.1308
    """
    log_p = log_softmax(logits / temperature)
    log_q = log_softmax(teacher / temperature)
    kind = kind_at_the_ends(kind, beta)
    if kind == "kl":
        terms = divergence(log_q, log_p)
    elif kind == "reverse":
        terms = divergence(log_p, log_q)
    else:
        log_m = log_middle(log_p, log_q, beta)
        terms = beta * divergence(log_q, log_m) + (1 - beta) * divergence(log_p, log_m)
    return reduce(temperature**2 * terms[..., 0], reduction)


def distillation_loss_grad(
    logits, teacher, *, temperature=1.0, kind="kl", beta=0.5, reduction="mean"
):
    """
    Gradient of the student.

    >>> student, teacher = np.zeros(2), np.log([3.0, 1.0])
    >>> print(distillation_loss_grad(student, teacher))
    [-0.25  0.25]
    """
    log_p = log_softmax(logits / temperature)
    log_q = log_softmax(teacher / temperature)
    p, q = np.exp(log_p), np.exp(log_q)
    kind = kind_at_the_ends(kind, beta)
    if kind == "kl":
        slopes = p - q
    elif kind == "reverse":
        slopes = p * (log_p - log_q - divergence(log_p, log_q))
    else:
        log_m = log_middle(log_p, log_q, beta)
        slopes = (1 - beta) * p * (log_p - log_m - divergence(log_p, log_m))
    return reduce_grad(temperature * slopes, count_rows(logits), reduction)


def distillation_loss_vjp(
    dout, logits, teacher, *, temperature=1.0, kind="kl", beta=0.5, reduction="mean"
):
    """
    Backward pass: reversed, the teacher is the student.

    >>> student, teacher = np.zeros(2), np.log([3.0, 1.0])
    >>> dlogits, dteacher = distillation_loss_vjp(1.0, student, teacher)
    >>> print(dlogits, np.round(dteacher, 4))
    [-0.25  0.25] [ 0.206 -0.206]
    """
    reverse = {"kl": "reverse", "reverse": "kl", "jsd": "jsd"}[kind]
    options = {"temperature": temperature, "reduction": reduction}
    dlogits = distillation_loss_grad(logits, teacher, kind=kind, beta=beta, **options)
    dteacher = distillation_loss_grad(teacher, logits, kind=reverse, beta=1 - beta, **options)
    return of_rows(dout) * dlogits, of_rows(dout) * dteacher


# == info_nce


def partners_of(similarity, positives, axis):
    """Share of each positive in its row or column; the partner on the diagonal by default."""
    if positives is None:
        positives = np.eye(similarity.shape[-1], dtype=bool)
    positives = np.broadcast_to(positives, similarity.shape)
    counts = np.sum(positives, axis=axis, keepdims=True)
    return (positives / np.maximum(counts, 1)).astype(similarity.real.dtype)


def info_nce(similarity, *, positives=None, symmetric=True, reduction="mean"):
    """
    Cross-entropy of each row, and of each column, with its positives as the classes.

    >>> similarity = np.log(3) * np.eye(2)
    >>> print(np.round(info_nce(similarity) / np.log(4 / 3), 4))
    1.0
    """
    terms = []
    for axis in (-1, -2) if symmetric else (-1,):
        share = partners_of(similarity, positives, axis)
        log_p = log_softmax(similarity, axis=axis)
        terms.append(-np.sum(np.where(share > 0, share * log_p, 0), axis=axis))
    return reduce(sum(terms) / len(terms), reduction)


def info_nce_grad(similarity, *, positives=None, symmetric=True, reduction="mean"):
    """
    Gradient: softmax minus the shares of the positives, along the rows and along the columns.

    >>> similarity = np.log(3) * np.eye(2)
    >>> print(info_nce_grad(similarity))
    [[-0.125  0.125]
     [ 0.125 -0.125]]
    """
    options = {"positives": positives, "symmetric": symmetric, "reduction": reduction}
    return info_nce_vjp(np.ones((), similarity.dtype), similarity, **options)


def info_nce_vjp(dout, similarity, *, positives=None, symmetric=True, reduction="mean"):
    """Backward pass."""
    pairs = similarity.shape[:-1]
    u = np.broadcast_to(reduce_grad(dout, math.prod(pairs), reduction), pairs)
    slopes = []
    for axis in (-1, -2) if symmetric else (-1,):
        share = partners_of(similarity, positives, axis)
        has_any = np.any(share > 0, axis=axis, keepdims=True)
        delta = np.where(has_any, softmax(similarity, axis=axis) - share, 0)
        slopes.append(np.expand_dims(u, axis) * delta)
    return sum(slopes) / len(slopes)


# == siglip_loss


def pair_labels(similarity):
    """1 for pairs, which stand on the diagonal, and -1 for all others."""
    return 2 * np.eye(similarity.shape[-1], dtype=similarity.dtype) - 1


def siglip_loss(similarity, bias=0.0, *, reduction="mean"):
    """
    Logistic loss of all combinations, summed over each row.

    >>> similarity = np.zeros((2, 2))
    >>> print(np.round(siglip_loss(similarity) / np.log(2), 4))
    2.0
    """
    y = pair_labels(similarity)
    terms = softplus(-y * (similarity + bias))
    return reduce(np.sum(terms, axis=-1), reduction)


def siglip_loss_grad(similarity, bias=0.0, *, reduction="mean"):
    """
    Gradients of the similarities and of the bias.

    >>> similarity = np.zeros((2, 2))
    >>> dsimilarity, dbias = siglip_loss_grad(similarity, reduction="sum")
    >>> print(dsimilarity)
    [[-0.5  0.5]
     [ 0.5 -0.5]]
    >>> print(dbias)
    0.0
    """
    dout = np.ones((), similarity.dtype)
    return siglip_loss_vjp(dout, similarity, bias, reduction=reduction)


def siglip_loss_vjp(dout, similarity, bias=0.0, *, reduction="mean"):
    """Backward pass: the bias adds up over all combinations."""
    y = pair_labels(similarity)
    slopes = -y * sigmoid(-y * (similarity + bias))
    dsimilarity = of_rows(dout) * reduce_grad(slopes, count_rows(similarity), reduction)
    return dsimilarity, np.sum(dsimilarity)


# == policy_loss


def ppo_loss(log_p, old, advantage, epsilon=0.2):
    """
    Loss of PPO without options, the mean over all tokens.

    >>> log_p, old = np.log([[0.5, 2.0], [0.5, 2.0]]), np.zeros((2, 2))
    >>> advantage = np.array([[1.0], [-1.0]])
    >>> print(np.round(4 * ppo_loss(log_p, old, advantage), 4))
    1.1
    """
    ratio = np.exp(log_p - old)
    free = ratio * advantage
    bounded = clip(ratio, 1 - epsilon, 1 + epsilon) * advantage
    return -np.mean(np.where(free.real < bounded.real, free, bounded))


def ppo_loss_grad(log_p, old, advantage, epsilon=0.2):
    """
    Gradient without options: no further beyond a limit.

    >>> log_p, old = np.log([[0.5, 2.0], [0.5, 2.0]]), np.zeros((2, 2))
    >>> advantage = np.array([[1.0], [-1.0]])
    >>> print(4 * ppo_loss_grad(log_p, old, advantage))
    [[-0.5  0. ]
     [ 0.   2. ]]
    """
    ratio = np.exp(log_p - old)
    stops = np.where(advantage > 0, ratio > 1 + epsilon, ratio < 1 - epsilon)
    return np.where(stops, 0, -ratio * advantage) / ratio.size


def tokens_of_sequences(log_p, mask):
    """Tokens that count, and their number in each sequence, at least 1."""
    mask = np.ones(log_p.shape, bool) if mask is None else np.asarray(mask)
    lengths = np.sum(mask, axis=1, keepdims=True, dtype=log_p.real.dtype)
    return mask, np.maximum(lengths, 1)


def policy_choices(kind, level, mean):
    """Level of the ratio and kind of the mean; those that are None follow from the kind."""
    if mean is None:
        mean = {"grpo": "sequence", "gspo": "sequence", "dr_grpo": "constant"}.get(kind, "token")
    if level is None:
        level = "sequence" if kind == "gspo" else "token"
    return level, mean


def policy_ratio(log_p, old, level, mask, lengths):
    """Ratio of each token, or one for a sequence."""
    log_ratio = log_p - old
    if level == "sequence":
        log_ratio = np.sum(np.where(mask, log_ratio, 0), axis=1, keepdims=True) / lengths
    return np.exp(log_ratio)


def limit_ratio(ratio, low, high):
    """Ratio, no further below and above 1 than two limits."""
    return clip(ratio, 1 - low, 1 + high)


def policy_divisor(mean, mask, lengths):
    """The divisor of each token's gain in the mean."""
    if mean == "sequence":
        return lengths * len(mask)
    if mean == "constant":
        return mask.size
    return np.sum(mask, dtype=lengths.dtype)


def policy_loss(
    log_p,
    old,
    advantage,
    *,
    clip=0.2,
    clip_high=None,
    delta=None,
    kind="ppo",
    level=None,
    mean=None,
    mask=None,
):
    """
    Loss of a policy, with masks and several means.

    >>> log_p, advantage = np.zeros((2, 3)), np.array([[6.0], [0.0]])
    >>> mask = np.array([[True, False, False], [True, True, True]])
    >>> print(policy_loss(log_p, log_p, advantage, mask=mask))
    -1.5
    >>> print(policy_loss(log_p, log_p, advantage, kind="grpo", mask=mask))
    -3.0
    """
    level, mean = policy_choices(kind, level, mean)
    mask, lengths = tokens_of_sequences(log_p, mask)
    ratio = policy_ratio(log_p, old, level, mask, lengths)
    high = clip if clip_high is None else clip_high
    clipped = limit_ratio(ratio, clip, high)
    if kind == "cispo":
        # The clipped ratio is a constant factor, which a complex step must not see.
        gain = clipped.real * advantage * log_p
    else:
        most = np.inf if delta is None else delta
        free = np.where(ratio.real > most, most, ratio) * advantage
        bounded = clipped * advantage
        gain = np.where(free.real < bounded.real, free, bounded)
    return -np.sum(np.where(mask, gain, 0) / policy_divisor(mean, mask, lengths))


def policy_loss_grad(
    log_p,
    old,
    advantage,
    *,
    clip=0.2,
    clip_high=None,
    delta=None,
    kind="ppo",
    level=None,
    mean=None,
    mask=None,
):
    """
    Gradient of the log-probabilities.

    >>> log_p, old, advantage = np.zeros((1, 2)), np.zeros((1, 2)), np.array([[1.0, -3.0]])
    >>> print(policy_loss_grad(log_p, old, advantage))
    [[-0.5  1.5]]
    >>> print(policy_loss_grad(log_p, old, advantage, kind="gspo"))
    [[0.5 0.5]]
    """
    level, mean = policy_choices(kind, level, mean)
    mask, lengths = tokens_of_sequences(log_p, mask)
    ratio = policy_ratio(log_p, old, level, mask, lengths)
    high = clip if clip_high is None else clip_high
    if kind == "cispo":
        slopes = limit_ratio(ratio, clip, high) * advantage
    else:
        most = np.inf if delta is None else delta
        stops_above = (advantage > 0) & (ratio > 1 + high)
        stops_below = (advantage < 0) & ((ratio < 1 - clip) | (ratio > most))
        slopes = np.where(stops_above | stops_below, 0, ratio * advantage)
    slopes = np.where(mask, slopes, 0)
    if level == "sequence" and kind != "cispo":  # Each token has its share in the ratio.
        slopes = np.where(mask, np.sum(slopes, axis=1, keepdims=True) / lengths, 0)
    return -slopes / policy_divisor(mean, mask, lengths)


def policy_loss_vjp(
    dout,
    log_p,
    old,
    advantage,
    *,
    clip=0.2,
    clip_high=None,
    delta=None,
    kind="ppo",
    level=None,
    mean=None,
    mask=None,
):
    """Backward pass; the old probabilities and the advantages are constants."""
    options = {"clip": clip, "clip_high": clip_high, "delta": delta, "mask": mask}
    options |= {"kind": kind, "level": level, "mean": mean}
    return dout * policy_loss_grad(log_p, old, advantage, **options)


# == ctc_loss


def ctc_of_all_paths(x, text, blank=0):
    """
    Definition, for a text: the sum over all paths that become it.

    >>> x, text = np.log(np.full((2, 2), 0.5)), np.array([1])
    >>> print(np.round(np.exp(-ctc_of_all_paths(x, text)), 4))
    0.75
    """
    steps, classes = x.shape
    total = 0
    for path in itertools.product(range(classes), repeat=steps):
        merged = [k for k, _ in itertools.groupby(path)]
        letters = [k for k in merged if k != blank]
        if letters == list(text):
            total = total + np.exp(np.sum(x[range(steps), path]))
    return -np.log(total)


def ctc_places(text, blank):
    """The text with blanks before, between and after its letters."""
    places = np.full(2 * len(text) + 1, blank)
    places[1::2] = text
    return places


def ctc_trellis(x, text, blank=0):
    """
    Forward: logarithms of the sums over all beginnings, by step and place.

    >>> x, text = np.log(np.full((2, 2), 0.5)), np.array([1])
    >>> print(np.exp(ctc_trellis(x, text)))
    [[0.5  0.5  0.  ]
     [0.25 0.5  0.25]]
    """
    places = ctc_places(text, blank)
    number = np.arange(len(places))
    before = np.roll(places, 2)
    may_skip = (number > 1) & (places != blank) & (places != before)
    alpha = np.where(number < 2, x[0, places], -np.inf)
    rows = [alpha]
    for scores in x[1:]:
        stay = alpha
        move = np.where(number > 0, np.roll(alpha, 1), -np.inf)
        skip = np.where(may_skip, np.roll(alpha, 2), -np.inf)
        alpha = scores[places] + logsumexp(np.stack([stay, move, skip]), axis=0)
        rows.append(alpha)
    return np.stack(rows)


def ctc_of_text(x, text, blank=0):
    """
    Loss of a text: its paths end with the last letter or with the blank after it.

    >>> x, text = np.log(np.full((2, 2), 0.5)), np.array([1])
    >>> print(np.round(np.exp(-ctc_of_text(x, text)), 4))
    0.75
    """
    if len(x) == 0:
        return np.where(len(text) == 0, x.dtype.type(0), np.inf)
    alpha = ctc_trellis(x, text, blank)
    return -logsumexp(alpha[-1, -2:])


def ctc_of_text_grad(x, text, blank=0):
    """
    Gradient: minus the probability of each class, given the text.

    >>> x, text = np.log(np.full((2, 2), 0.5)), np.array([1])
    >>> print(np.round(3 * ctc_of_text_grad(x, text), 4))
    [[-1. -2.]
     [-1. -2.]]
    """
    # The ends of all paths are the beginnings of the reversed ones.
    places = ctc_places(text, blank)
    alpha = ctc_trellis(x, text, blank)
    beta = ctc_trellis(x[::-1], text[::-1], blank)[::-1, ::-1] - x[:, places]
    share = np.exp(alpha + beta + ctc_of_text(x, text, blank))
    return -share @ one_hot(places, x.shape[1])


def ctc_lengths(log_probs, targets, lengths, target_lengths):
    """Steps of each sequence, and letters of each text."""
    *batch, T, _ = log_probs.shape
    steps = np.broadcast_to(T if lengths is None else lengths, batch)
    letters = targets.shape[-1] if target_lengths is None else target_lengths
    return steps, np.broadcast_to(letters, batch)


def ctc_loss(
    log_probs,
    targets,
    *,
    blank=0,
    lengths=None,
    target_lengths=None,
    zero_infinity=False,
    reduction="mean",
):
    """
    Losses of sequences; in the mean, each is divided by the letters of its text.

    >>> x, texts = np.log(np.full((2, 2, 2), 0.5)), np.array([[1], [1]])
    >>> losses = ctc_loss(x, texts, lengths=np.array([2, 1]), reduction="none")
    >>> print(np.round(np.exp(-losses), 4))
    [0.75 0.5 ]
    """
    steps, letters = ctc_lengths(log_probs, targets, lengths, target_lengths)
    losses = np.zeros(steps.shape, log_probs.dtype)
    for n in np.ndindex(steps.shape):
        losses[n] = ctc_of_text(log_probs[n][: steps[n]], targets[n][: letters[n]], blank)
        if zero_infinity and losses[n].real == np.inf:
            losses[n] = 0
        if reduction == "mean":
            losses[n] /= max(letters[n], 1)
    return reduce(losses, reduction)


def ctc_loss_grad(
    log_probs,
    targets,
    *,
    blank=0,
    lengths=None,
    target_lengths=None,
    zero_infinity=False,
    reduction="mean",
):
    """
    Gradient, 0 beyond the end of a sequence.

    >>> x, text = np.log(np.full((2, 2), 0.5)), np.array([1])
    >>> print(np.round(3 * ctc_loss_grad(x, text), 4))
    [[-1. -2.]
     [-1. -2.]]
    """
    steps, letters = ctc_lengths(log_probs, targets, lengths, target_lengths)
    grad = np.zeros_like(log_probs)
    for n in np.ndindex(steps.shape):
        x, text = log_probs[n][: steps[n]], targets[n][: letters[n]]
        if len(x) == 0 or (zero_infinity and ctc_of_text(x, text, blank) == np.inf):
            continue
        grad[n][: steps[n]] = ctc_of_text_grad(x, text, blank)
        if reduction == "mean":
            grad[n] /= max(letters[n], 1)
    return reduce_grad(grad, steps.size, reduction)


def ctc_loss_vjp(
    dout,
    log_probs,
    targets,
    *,
    blank=0,
    lengths=None,
    target_lengths=None,
    zero_infinity=False,
    reduction="mean",
):
    """Backward pass."""
    grad = ctc_loss_grad(
        log_probs,
        targets,
        blank=blank,
        lengths=lengths,
        target_lengths=target_lengths,
        zero_infinity=zero_infinity,
        reduction=reduction,
    )
    return np.asarray(dout)[..., None, None] * grad
