"""Inline relations of normalization, and of its exercises."""

import numpy as np
from equations.numeric import jacobian_of, rate
from equations.stated import draw, slope, stated

from dlref import normalization


@stated("dlref/normalization/_batch_norm.py")
def of_batch_norm():
    (x,), eps = draw(24, 5), 0.1
    M, mean = 5, np.mean(x)
    var = np.mean((x - mean) ** 2)
    tau = np.sqrt(var + eps)
    hat = (x - mean) / tau
    yield (
        r"\partial \tau / \partial \sigma^2 = 1 / (2 \tau)",
        slope(lambda v: np.sqrt(v + eps), var),
        1 / (2 * tau),
    )
    text = r"\partial \sigma^2 / \partial \mu = -\frac2M \sum_n (x_n - \mu) = 0"
    yield text, slope(lambda m: np.mean((x - m) ** 2), mean), -2 / M * sum(x - mean), 0
    text = r"\partial \sigma^2 / \partial x_m = 2 (x_m - \mu) / M = 2 \tau \hat x_m / M"
    of_x = jacobian_of(lambda x: np.mean((x - np.mean(x)) ** 2), x)
    yield text, of_x, 2 * (x - mean) / M, 2 * tau * hat / M


@stated("dlref/normalization/_layer_norm.py")
def of_layer_norm():
    x, D = draw(25, 6)[0], 6
    mean, var = np.mean(x), np.var(x)
    yield (
        r"\sigma = \norm{\vec x - \mu \vec 1} / \sqrt D",
        np.sqrt(var),
        np.linalg.norm(x - mean) / np.sqrt(D),
    )
    plain = normalization.layer_norm(x, eps=0.0)
    yield r"\norm{\hat{\vec x}}^2 = D", plain @ plain, D


@stated("docs/exercises/normalization/layer_norm.rst")
def of_the_exercises_on_layer_norm():
    x, dx = draw(30, 5, 5)
    mean, s = np.mean(x), np.std(x)
    hat = (x - mean) / s
    std = lambda x: np.sqrt(np.mean((x - np.mean(x)) ** 2))  # noqa: E731
    ds = rate(std, [x], [dx])
    yield r"\dd \sigma = \operatorname{mean}(\hat x\, \dd x)", ds, np.mean(hat * dx)
    text = (
        r"\dd \hat x = (\dd x - \dd \mu - \hat x \dd \sigma) / \sigma = \bigl( \dd x -"
        r" \operatorname{mean}(\dd x) - \hat x \operatorname{mean}(\hat x\, \dd x) \bigr) / \sigma"
    )
    step = rate(lambda x: (x - np.mean(x)) / std(x), [x], [dx])
    yield (
        text,
        step,
        (dx - np.mean(dx) - hat * ds) / s,
        (dx - np.mean(dx) - hat * np.mean(hat * dx)) / s,
    )
    a, var, eps = 3.0, s**2, 0.2
    text = (
        r"a (x - \mu) / \sqrt{a^2 \sigma^2 + \epsilon} ="
        r" (x - \mu) / \sqrt{\sigma^2 + \epsilon / a^2}"
    )
    yield text, a * (x - mean) / np.sqrt(a**2 * var + eps), (x - mean) / np.sqrt(var + eps / a**2)
    yield (
        r"\hat x = \frac13 (-5, 1, 1, 3)",
        normalization.layer_norm([1.0, 7, 7, 9], eps=0.0),
        np.array([-5, 1, 1, 3]) / 3,
    )
    bound = max(abs(normalization.layer_norm(r, eps=0.0)).max() for r in (x, np.eye(5)[0], dx))
    yield r"a^2 \le D - 1", bound**2 <= 4 + 1e-12, True


@stated("docs/exercises/normalization/batch_norm.rst")
def of_a_loss_behind_a_batch_norm():
    x, W, u = draw(84, (6, 3), (2, 3), (6, 2))

    def gradient(W):
        du = normalization.batch_norm_vjp(u, x @ W.T, eps=0.0)
        return du.T @ x

    a = 2.5
    yield r"\langle \nabla L(W), W \rangle = 0", np.vdot(gradient(W), W), 0
    yield r"a \nabla L(a W) = \nabla L(W)", a * gradient(a * W), gradient(W)
    value = [np.vdot(u, normalization.batch_norm(x @ V.T, eps=0.0)) for V in (a * W, W)]
    yield r"L(a W) = L(W)", *value


@stated("dlref/normalization/_batch_norm_inference.py")
def of_statistics():
    x, M = draw(114, 5)[0], 5
    yield r"\partial \mu / \partial x_m = 1/M", jacobian_of(np.mean, x), np.full(5, 1 / M)
    of_x = jacobian_of(lambda x: np.mean((x - np.mean(x)) ** 2), x)
    yield r"\partial \sigma^2 / \partial x_m = 2 (x_m - \mu) / M", of_x, 2 * (x - np.mean(x)) / M


@stated("dlref/normalization/_group_norm.py")
def of_group_norm():
    x, w, b, u = draw(115, (2, 5, 4), 4, 4, (2, 5, 4))
    dx, dw, db = draw(116, (2, 5, 4), 4, 4)
    dy = normalization.group_norm_jvp((x, 2, w, b), (dx, None, dw, db))
    grads = normalization.group_norm_vjp(u, x, 2, w, b)
    want = sum(np.vdot(g, d) for g, d in zip(grads, (dx, dw, db), strict=True))
    yield r"\dd L = \sum u_{npc}\, \dd y_{npc}", np.vdot(u, dy), want


@stated("docs/exercises/normalization/rms_norm.rst")
def of_a_lost_direction():
    x = draw(135, 4)[0]
    J = normalization.rms_norm_jacobian(x, eps=0.0)
    yield r"\mat J \hat{\vec x} = \vec 0", J @ normalization.rms_norm(x, eps=0.0), np.zeros(4)


@stated("dlref/normalization/_weight_norm.py")
def of_weight_norm():
    v, dv = draw(88, 5, 5)
    e = v / np.linalg.norm(v)
    of_norm = rate(lambda v: np.sqrt(np.sum(v * v)), [v], [dv])
    yield r"\dd \norm{\vec v} = \vec e \cdot \dd \vec v", of_norm, e @ dv


@stated("dlref/normalization/_batch_norm_inference.py")
def of_the_tangent_of_a_variance():
    yield r"2 \sigma = 2", slope(lambda sigma: sigma**2, 1.0), 2
