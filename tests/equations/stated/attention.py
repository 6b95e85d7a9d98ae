"""Inline relations of attention, and of its exercises."""

import numpy as np
from equations.numeric import jacobian_of, rate
from equations.stated import draw, inner, slope, stated

from dlref import attention
from dlref.formulas.activations import softmax


@stated("dlref/attention/_attention_weights.py")
def of_attention_weights():
    (s, u), rng = draw(7, (2, 3), (2, 3)), np.random.default_rng(8)
    sink = 0.4
    below = np.exp(sink) + np.sum(np.exp(s), axis=1)
    p, at_sink = np.exp(s) / below[:, None], np.exp(sink) / below
    want = -sum(at_sink[i] * sum(p[i, m] * u[i, m] for m in range(3)) for i in range(2))

    def loss(sink):
        return np.sum(u * np.exp(s) / (np.exp(sink) + np.sum(np.exp(s), axis=1))[:, None])

    text = r"\partial L / \partial \sigma = -\sum_i p_{i\sigma} \sum_m p_{im} u_{im}"
    yield text, slope(loss, sink), want
    swap = np.eye(3)[[2, 0, 1]]
    P, V = softmax(rng.normal(size=(3, 3))), rng.normal(size=(3, 2))
    text = (
        r"\mat P \mat V \to \mat \Pi \mat P \mat \Pi^\top \mat \Pi \mat V ="
        r" \mat \Pi (\mat P \mat V)"
    )
    yield text, swap @ P @ swap.T @ swap @ V, swap @ (P @ V)


@stated("dlref/attention/_scaled_dot_product.py")
def of_attention():
    q, k, v, u = draw(9, 4, (3, 4), (3, 5), 5)
    s = k @ q / 2
    p = softmax(s)
    out = attention.scaled_dot_product_attention(q[None], k, v)[0]
    whole = r"\mat O = \operatorname{softmax}(\mat Q \mat K^\top / \sqrt E)\, \mat V"
    yield whole, out, p @ v
    m, larger = np.max(s), np.max(s) + 0.5
    yield (
        r"e^{s_j - m'} = e^{m - m'} e^{s_j - m}",
        np.exp(s - larger),
        np.exp(m - larger) * np.exp(s - m),
    )
    z = sum(np.exp(s - m))
    yield r"\ell = m + \log z", np.log(sum(np.exp(s))), m + np.log(z)
    a = sum(np.exp(s[j] - m) * v[j] for j in range(3))
    yield r"\vec o = \vec a / z", out, a / z
    of_p = jacobian_of(lambda p: u @ (p @ v), p)
    text = r"w_{ij} = \partial L / \partial p_{ij} = \vec u_i \cdot \vec v_j"
    yield text, of_p, [u @ v[j] for j in range(3)]
    sink, du = 0.3, 0.7  # and the cotangent of the log-sum-exp

    def loss(sink):
        total = np.exp(sink) + np.sum(np.exp(s))
        return u @ (np.exp(s) / total @ v) + du * np.log(total)

    lse = np.log(np.exp(sink) + sum(np.exp(s)))
    D = u @ (np.exp(s - lse) @ v)
    text = r"\partial L / \partial \sigma = \sum_i e^{\sigma - \ell_i} (u^\ell_i - D_i)"
    yield text, slope(loss, sink), np.exp(sink - lse) * (du - D)


@stated("dlref/attention/_multiplicative.py")
def of_multiplicative_attention():
    W, q, k, Q, K = draw(10, (4, 3), 4, 3, (2, 4), (2, 3))
    yield r"\vec q^\top \mat W \vec k = (\mat W^\top \vec q) \cdot \vec k", q @ W @ k, (W.T @ q) @ k
    text = (
        r"(\mat W_Q \vec x_i) \cdot (\mat W_K \vec x_j) = \vec x_i^\top "
        r"(\mat W_Q^\top \mat W_K)\, \vec x_j"
    )
    yield text, (Q @ q) @ (K @ k), q @ (Q.T @ K) @ k


@stated("dlref/attention/_merge_attention.py")
def of_merged_attention():
    l, dl = draw(11, 3, 3)
    lse = lambda l: np.log(np.sum(np.exp(l)))  # noqa: E731
    w = np.exp(l - lse(l))
    yield r"\sum_p w_p = 1", sum(w), 1
    d = rate(lse, [l], [dl])
    yield r"\dd \ell = \sum_p w_p\, \dd \ell_p", d, sum(w[p] * dl[p] for p in range(3))
    step = rate(lambda l: np.exp(l - lse(l)), [l], [dl])
    yield r"\dd w_p = w_p (\dd \ell_p - \dd \ell)", step, w * (dl - d)


@stated("dlref/attention/_attention_entropy.py")
def of_the_entropy():
    yield r"H = \log n", attention.attention_entropy(np.full(5, 0.2)), np.log(5)


ATTENTION = (2, 4), (3, 4), (3, 5)
WITH_DOTS = r"\dd L = \sum_i \vec g_i \cdot \dd \vec r_i + \dots"


@stated("dlref/attention/_multiplicative.py")
def of_the_change_by_dots():
    jvp, vjp = attention.multiplicative_attention_jvp, attention.multiplicative_attention_vjp
    yield WITH_DOTS, *inner(jvp, vjp, tuple(draw(51, (2, 4), (3, 5), (3, 6), (4, 5))))


@stated("dlref/attention/_linear_attention.py")
def of_linear_attention():
    text = (
        r"\dd L = \sum_i \vec u_i \cdot \dd \vec o_i = \sum_i \vec g_i \cdot (\dd \vec n_i, "
        r"\dd z_i)"
    )
    f, g = attention.linear_attention_jvp, attention.linear_attention_vjp
    yield text, *inner(f, g, tuple(draw(51, *ATTENTION)))


@stated("dlref/attention/_repeat_kv.py")
def of_copies():
    x, dx = draw(59, (2, 3, 4), (2, 3, 4))
    n = 3
    out = attention.repeat_kv(x, n)
    yield r"\dd y_{nh + m} = \dd x_h", attention.repeat_kv(dx, n)[n + 2], dx[1]
    u = draw(60, out.shape)[0]
    text = r"\dd L = \sum_{h, m} u_{nh + m}\, \dd y_{nh + m}"
    grad = np.stack([sum(u[n * h + m] for m in range(n)) for h in range(2)])
    yield text, np.vdot(u, attention.repeat_kv(dx, n)), np.vdot(grad, dx)


@stated("dlref/attention/_forgetting_bias.py")
def of_forgetting():
    f = -np.abs(draw(93, 5)[0])
    bias = attention.forgetting_bias(f)
    text = r"e^{b_{ij}} = \prod_{j < l \le i'} e^{f_l}"
    yield text, np.exp(bias[4, 1]), np.prod(np.exp(f[2:5]))
    yield r"b_{ii} = 0", np.diagonal(bias), np.zeros(5)


@stated("docs/exercises/attention/multi_head.rst")
def of_equivalent_heads():
    A, Q, K = draw(94, (2, 2), (2, 4), (2, 4))
    back = np.linalg.inv(A).T
    text = (
        r"(\mat A \mat W_Q)^\top \mat A^{-\top} \mat W_K = \mat W_Q^\top \mat A^\top"
        r" \mat A^{-\top} \mat W_K"
    )
    yield text, (A @ Q).T @ back @ K, Q.T @ A.T @ back @ K, Q.T @ K


@stated("docs/exercises/attention/masks.rst")
def of_a_triangle():
    text = r"1 + 2 + \dots + n = n(n+1)/2"
    yield text, sum(range(1, 8)), 7 * 8 / 2, int(attention.causal_mask(7, 7).sum())


@stated("dlref/attention/_recurrent_linear_attention.py")
def of_the_triangular_system():
    A, B, R, dA, dB, dR = draw(105, (3, 3), (3, 3), (3, 2), (3, 3), (3, 3), (3, 2))
    solve = lambda A, B, R: np.linalg.solve(np.eye(3) + B @ A, B @ R)  # noqa: E731
    W, dW = solve(A, B, R), rate(solve, [A, B, R], [dA, dB, dR])
    text = (
        r"(\mat I + \mat B \mat A)\, \dd \mat W = \dd \mat B\, (\mat R - \mat A \mat W) + "
        r"\mat B\, \dd \mat R - \mat B\, \dd \mat A\, \mat W"
    )
    yield text, (np.eye(3) + B @ A) @ dW, dB @ (R - A @ W) + B @ dR - B @ dA @ W


@stated("dlref/attention/_scaled_dot_product.py")
def of_attention_with_dropout():
    q, k, v, u = draw(106, (2, 4), (3, 4), (3, 5), (2, 5))
    m = np.array([[0.0, 2.0, 2.0], [2.0, 0.0, 2.0]])
    p = softmax(q @ k.T / 2)
    dv = attention.scaled_dot_product_attention_vjp(u, q, k, v, dropout=m)[2]
    text = r"\partial L / \partial \vec v_j = \sum_i m_{ij} p_{ij} \vec u_i"
    yield text, dv, [sum(m[i, j] * p[i, j] * u[i] for i in range(2)) for j in range(3)]
    out = attention.scaled_dot_product_attention(q, k, v, dropout=m)
    yield r"\vec o_i = \sum_j m_{ij} p_{ij} \vec v_j", out, (m * p) @ v


@stated("dlref/attention/_merge_attention.py")
def of_merged_parts():
    s, v = draw(60, 5, (5, 2))
    parts = slice(0, 2), slice(2, 5)
    ell = np.array([-np.log(softmax(s[p])[0]) + s[p][0] for p in parts])
    outs = np.array([softmax(s[p]) @ v[p] for p in parts])
    p, weights = parts[1], np.exp(ell - np.log(np.sum(np.exp(s))))
    yield r"\ell_p = \log \sum_{j \in K_p} e^{s_j}", ell[1], np.log(np.sum(np.exp(s[p])))
    text = r"\vec o_p = \sum_{j \in K_p} e^{s_j - \ell_p} \vec v_j"
    yield text, outs[1], np.exp(s[p] - ell[1]) @ v[p]
    merged, _ = attention.merge_attention(outs[:, None], ell[:, None])
    yield r"\vec o = \sum_p w_p\, \vec o_p", merged[0], weights @ outs, softmax(s) @ v
    yield r"w_p = e^{\ell_p - \ell}", weights, [softmax(s)[p].sum() for p in parts]
