"""Routers: PyTorch's autograd, what the choice lets through, groups, and the two losses."""

import numpy as np
import peers
import pytest

from dlref.transformer import (
    Routing,
    load_balancing_loss,
    load_balancing_loss_grad,
    router_z_loss,
    router_z_loss_grad,
    top_k_router,
    top_k_router_jvp,
    top_k_router_vjp,
)

N, D = 8, 5
KINDS = [
    {"k": 2},
    {"k": 3, "normalize": False},
    {"k": 2, "score": "sigmoid", "scale": 2.5},
    {"k": 2, "score": "softmax_of_top", "normalize": False},
    {"k": 3, "score": "sigmoid", "groups": 4, "top_groups": 2},
    {"k": 3, "score": "softmax", "groups": 4, "top_groups": 2, "scale": 16.0, "normalize": False},
    {"k": 1},
]


def draw(rng, *, corrected):
    x, weight, bias = rng.normal(size=(2, 3, D)), rng.normal(size=(N, D)), rng.normal(size=N)
    return x, weight, bias, 0.3 * rng.normal(size=N) if corrected else None


def torch_router(x, weight, bias, o, experts):
    """Weights and scores of PyTorch for a given choice."""
    torch = peers.torch
    z = x @ weight.T + bias
    s = torch.sigmoid(z) if o.get("score") == "sigmoid" else torch.softmax(z, -1)
    if o.get("score") == "softmax_of_top":
        w = torch.softmax(z.gather(-1, torch.tensor(experts)), -1)
    else:
        w = s.gather(-1, torch.tensor(experts))
        w = w / w.sum(-1, keepdim=True) if o.get("normalize", True) else w
    return w * o.get("scale", 1.0), s


def chosen(s, correction, o):
    """The choice, one token at a time, by the definition."""
    by = s if correction is None else s + correction
    groups = o.get("groups", 1)
    out = np.empty((*s.shape[:-1], o["k"]), int)
    for at in np.ndindex(s.shape[:-1]):
        row, size = by[at].copy(), N // groups
        worth = [
            sum(sorted(row[g * size : (g + 1) * size])[-2 if o.get("score") == "sigmoid" else -1 :])
            for g in range(groups)
        ]
        for g in np.argsort(worth)[: groups - o.get("top_groups", groups)]:
            row[g * size : (g + 1) * size] = -np.inf
        out[at] = np.argsort(-row)[: o["k"]]
    return out


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("o", KINDS)
class TestRouter:
    def test_against_pytorch(self, rng, assert_close, o, corrected):
        x, weight, bias, correction = draw(rng, corrected=corrected)
        found = top_k_router(x, weight, bias=bias, correction=correction, **o)
        np.testing.assert_array_equal(found.experts, chosen(found.scores, correction, o))
        u, v = rng.normal(size=found.weights.shape), rng.normal(size=found.scores.shape)

        def f(x, weight, bias):
            return torch_router(x, weight, bias, o, found.experts)

        torch = peers.torch
        given = [torch.tensor(a, requires_grad=True) for a in (x, weight, bias)]
        w, s = f(*given)
        assert_close(found.weights, w.detach().numpy(), tolerance=1e-14)
        assert_close(found.scores, s.detach().numpy(), tolerance=1e-14)
        want = torch.autograd.grad((w, s), given, (torch.tensor(u), torch.tensor(v)))
        options = {"bias": bias, "correction": correction, **o}
        for g, grad in zip(top_k_router_vjp((None, u, v), x, weight, **options), want, strict=True):
            assert_close(g, grad.numpy(), tolerance=2e-14)

    def test_forward_mode_is_the_adjoint(self, rng, o, corrected):
        x, weight, bias, correction = draw(rng, corrected=corrected)
        options = {"bias": bias, "correction": correction, **o}
        found = top_k_router(x, weight, **options)
        u, v = rng.normal(size=found.weights.shape), rng.normal(size=found.scores.shape)
        dx, dweight, dbias = (rng.normal(size=a.shape) for a in (x, weight, bias))
        none, dw, ds = top_k_router_jvp((x, weight), (dx, dweight), dbias=dbias, **options)
        assert none is None
        grads = top_k_router_vjp((None, u, v), x, weight, **options)
        terms = [g * t for g, t in zip(grads, (dx, dweight, dbias), strict=True)]
        scale = sum(abs(t).sum() for t in terms)
        gap = np.sum(u * dw) + np.sum(v * ds) - sum(t.sum() for t in terms)
        assert abs(gap) <= 1e-14 * scale


class TestFacts:
    def test_softmax_of_the_top_is_the_softmax_normalized(self, rng):
        x, weight, _, _ = draw(rng, corrected=False)
        one = top_k_router(x, weight, k=3)
        two = top_k_router(x, weight, k=3, score="softmax_of_top", normalize=False)
        np.testing.assert_array_equal(one.weights, two.weights)

    def test_missing_cotangents_and_tangents_are_zero(self, rng):
        x, weight, _, _ = draw(rng, corrected=False)
        u = rng.normal(size=(2, 3, 2))
        got = top_k_router_vjp((None, u, None), x, weight, k=2)
        want = top_k_router_vjp((None, u, np.zeros((2, 3, N))), x, weight, k=2)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)
        none = top_k_router_vjp((None, None, None), x, weight, k=2)
        assert not any(a.any() for a in none)
        _, dw, ds = top_k_router_jvp((x, weight), (None, None), k=2)
        assert not dw.any()
        assert not ds.any()

    def test_scores_that_nearly_vanish(self):
        """The weights are s / (1e-20 + the sum of s), so that they vanish, too."""
        x, weight = np.ones((1, 1)), np.array([[-58.0], [-59.0], [-70.0]])
        options = {"k": 2, "score": "sigmoid"}

        def weights(t):
            return top_k_router(t * x, weight, **options).weights

        s = np.exp([-58.0, -59.0])
        np.testing.assert_allclose(weights(1.0)[0], s / (1e-20 + s.sum()), rtol=1e-13)
        h = 1e-4
        a, b, c, d = (weights(1.0 + t * h) for t in (-2, -1, 1, 2))
        want = (8 * (c - b) - (d - a)) / (12 * h)
        _, pushed, _ = top_k_router_jvp((x, weight), (x, None), **options)
        np.testing.assert_allclose(pushed, want, rtol=1e-8)
        u = np.array([[2.0, -1.0]])
        pulled, *_ = top_k_router_vjp((None, u, None), x, weight, **options)
        np.testing.assert_allclose(pulled, [[np.sum(u * want)]], rtol=1e-8)

    def test_ties_go_to_the_first(self):
        assert top_k_router([[0.0]], np.ones((3, 1)), k=2).experts.tolist() == [[0, 1]]

    @pytest.mark.parametrize("dtype", [np.float16, np.float32])
    def test_dtypes(self, rng, dtype):
        x, weight, _, _ = (
            None if a is None else a.astype(dtype) for a in draw(rng, corrected=False)
        )
        found = top_k_router(x, weight, k=2)
        assert isinstance(found, Routing)
        assert found.weights.dtype == found.scores.dtype == dtype
        assert found.experts.dtype == np.int64

    def test_errors(self, rng):
        x, weight, _, _ = draw(rng, corrected=False)
        for kwargs, words in (
            ({"k": 0}, "'k' must be at least 1"),
            ({"k": 9}, "'k' must be .* 8, not 9"),
            ({"k": 5, "groups": 4, "top_groups": 2}, "'k' must be .* 4, not 5"),
            ({"k": 2, "groups": 3}, "'groups' must divide the number of experts = 8, not 3"),
            ({"k": 2, "score": "tanh"}, "'score' must be"),
            ({"k": 2, "bias": np.ones(3)}, r"'bias' must have shape \(8,\)"),
            ({"k": 2, "correction": np.ones(3)}, r"'correction' must have shape \(8,\)"),
        ):
            with pytest.raises(ValueError, match=words):
                top_k_router(x, weight, **kwargs)
        with pytest.raises(ValueError, match=r"'weight' must have shape \(n, 5\)"):
            top_k_router(x, weight[:, :3], k=2)
        with pytest.raises(ValueError, match=r"'dout\[1\]' must have shape \(2, 3, 2\)"):
            top_k_router_vjp((None, np.ones((2, 3, 3)), None), x, weight, k=2)
        with pytest.raises(ValueError, match=r"'tangents\[1\]' must have shape"):
            top_k_router_jvp((x, weight), (None, np.ones(3)), k=2)
        with pytest.raises(TypeError, match="'normalize' must be"):
            top_k_router(x, weight, k=2, normalize=1)


class TestLosses:
    def test_balance_is_that_of_transformers(self, rng, assert_close):
        torch = peers.torch
        s = rng.dirichlet(np.ones(N), size=(4, 7))
        experts = np.argsort(-s, axis=-1)[..., :3]
        t = torch.tensor(s.reshape(-1, N), requires_grad=True)
        mask = torch.nn.functional.one_hot(torch.tensor(experts.reshape(-1, 3)), N).double()
        loss = torch.sum(mask.mean(0) * t.mean(0)[None]) * N
        assert_close(load_balancing_loss(s, experts), loss.item())
        [grad] = torch.autograd.grad(loss, t)
        assert_close(load_balancing_loss_grad(s, experts), grad.numpy().reshape(s.shape))

    def test_shares_of_choices_are_those_of_megatron(self, rng, assert_close):
        torch = peers.torch
        s = rng.dirichlet(np.ones(N), size=20)
        experts = np.argsort(-s, axis=-1)[:, :3]
        t = torch.tensor(s, requires_grad=True)
        counts = torch.bincount(torch.tensor(experts).ravel(), minlength=N).double()
        loss = torch.sum(t.sum(0) * counts) * N / (20 * 20 * 3)  # switch_load_balancing_loss_func
        assert_close(load_balancing_loss(s, experts, shares="choices"), loss.item())
        [grad] = torch.autograd.grad(loss, t)
        assert_close(load_balancing_loss_grad(s, experts, shares="choices"), grad.numpy())

    def test_even_load_has_k(self):
        s, experts = np.full((6, 3), 1 / 3), [[0, 1], [1, 2], [2, 0]] * 2
        assert load_balancing_loss(s, experts) == pytest.approx(2)
        assert load_balancing_loss(s, experts, shares="choices") == pytest.approx(1)

    def test_balance_is_not_the_least(self):
        scores = np.array([[1.0, 0.0], *3 * [[0.375, 0.625]]])
        experts = top_k_router(np.log(scores + 1e-300), np.eye(2), k=1).experts
        assert experts.ravel().tolist() == [0, 1, 1, 1]
        assert load_balancing_loss(scores, experts) == 0.96875

    def test_without_tokens(self):
        scores, experts = np.zeros((0, 3)), np.zeros((0, 1), int)
        assert np.isnan(load_balancing_loss(scores, experts))
        assert np.isnan(router_z_loss(scores))
        assert load_balancing_loss_grad(scores, experts).shape == (0, 3)
        assert router_z_loss_grad(scores).shape == (0, 3)

    def test_of_one_token_without_axes(self):
        assert load_balancing_loss([0.5, 0.5], [1]) == 1

    def test_z_loss(self, rng, assert_close):
        torch, z = peers.torch, rng.normal(size=(4, 7, N))
        t = torch.tensor(z, requires_grad=True)
        loss = torch.logsumexp(t, -1).square().mean()
        assert_close(router_z_loss(z), loss.item())
        [grad] = torch.autograd.grad(loss, t)
        assert_close(router_z_loss_grad(z), grad.numpy())

    def test_errors_and_dtypes(self):
        with pytest.raises(ValueError, match=r"'experts' must hold integers from 0 to 1, not 2"):
            load_balancing_loss([[0.5, 0.5]], [[2]])
        with pytest.raises(ValueError, match=r"'experts' must have shape \(1, k\)"):
            load_balancing_loss([[0.5, 0.5]], [0])
        with pytest.raises(ValueError, match=r"'shares' must be 'tokens' or 'choices'"):
            load_balancing_loss([[0.5, 0.5]], [[1]], shares="experts")
        with pytest.raises(ValueError, match=r"'logits' must have at least 1"):
            router_z_loss(1.0)
        assert load_balancing_loss_grad(np.ones((2, 2), "f4"), [[0], [1]]).dtype == np.float32
        assert router_z_loss_grad(np.ones((2, 2), "f4")).dtype == np.float32
