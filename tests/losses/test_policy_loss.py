"""Losses of policies: PyTorch and TRL's code, identities, where gradients stop, errors."""

import numpy as np
import pytest

from dlref import check
from dlref.losses import policy_loss, policy_loss_grad, policy_loss_jvp, policy_loss_vjp

KINDS = ["ppo", "grpo", "dr_grpo", "gspo", "cispo"]
G, T = 4, 7


@pytest.fixture
def tokens(rng):
    return rng.normal(size=(G, T)) / 2, rng.normal(size=(G, T)) / 2, rng.normal(size=(G, T))


@pytest.fixture
def mask():
    return np.arange(T) < np.array([1, 7, 3, 5])[:, None]


def published(torch, log_p, old, advantage, mask, kind, low, high, **others):
    """The lines of TRL's trainer of GRPO, whose names of losses are others."""
    defaults = {"grpo": "sequence", "gspo": "sequence", "dr_grpo": "constant"}
    mean, delta = others.get("mean", defaults.get(kind, "token")), others.get("delta")
    log_ratio = log_p - old
    if others.get("level", "sequence" if kind == "gspo" else "token") == "sequence":
        log_ratio = (log_ratio * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)
        log_ratio = log_ratio.unsqueeze(-1)
    coef_1 = torch.exp(log_ratio)
    coef_2 = torch.clamp(coef_1, 1 - low, 1 + high)
    if kind == "cispo":
        per_token_loss = -coef_2.detach() * advantage * log_p
    else:
        if delta is not None:
            coef_1 = torch.clamp(coef_1, max=delta)
        per_token_loss = -torch.min(coef_1 * advantage, coef_2 * advantage)
    if mean == "sequence":
        means = (per_token_loss * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)
        return means.mean()
    divisor = per_token_loss.numel() if mean == "constant" else mask.sum().clamp(min=1.0)
    return (per_token_loss * mask).sum() / divisor


def assert_published(kind, tokens, mask, **options):
    """Compare the loss and its gradient with the published code in PyTorch."""
    peers = pytest.importorskip("peers")
    log_p, *_, advantage = tokens
    fixed = [
        peers.torch.tensor(a)
        for a in (*tokens[1:], np.ones((G, T), bool) if mask is None else mask)
    ]
    value, (grad,) = peers.value_and_vjp(
        lambda x: published(peers.torch, x, *fixed, kind, 0.1, 0.3, **options), log_p
    )
    options |= {"clip": 0.1, "clip_high": 0.3, "kind": kind, "mask": mask}
    got = policy_loss(*tokens, **options)
    np.testing.assert_allclose(got, value, rtol=0, atol=4e-15 * abs(advantage).max())
    got = policy_loss_grad(*tokens, **options)
    np.testing.assert_allclose(got, grad, rtol=0, atol=4e-15 * abs(grad).max())


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_published_code(kind, masked, tokens, mask):
    assert_published(kind, tokens, mask if masked else None)


CHOICES = [
    {"level": level, "mean": mean, "delta": delta}
    for level in ("token", "sequence")
    for mean in ("token", "sequence", "constant")
    for delta in (None, 1.4)
]


@pytest.mark.parametrize("choices", CHOICES, ids=str)
@pytest.mark.parametrize("kind", ["ppo", "gspo", "cispo"])
def test_published_code_with_every_choice(kind, choices, tokens, mask):
    if kind == "cispo":
        choices = {**choices, "delta": None}
    assert_published(kind, tokens, mask, **choices)


def test_the_dual_clip_bounds_bad_tokens_alone():
    log_p, old = np.log([[0.5, 2.0, 50.0]]), np.zeros((1, 3))
    for advantage, values, slopes in (
        (-1.0, [-0.8, -2.0, -3.0], [0.0, -2.0, 0.0]),
        (1.0, [0.5, 1.2, 1.2], [0.5, 0.0, 0.0]),
    ):
        got = [policy_loss(log_p[:, [i]], old[:, :1], [[advantage]], delta=3.0) for i in range(3)]
        np.testing.assert_allclose(got, np.negative(values), rtol=1e-15)
        grad = policy_loss_grad(log_p, old, [[advantage]], delta=3.0)
        np.testing.assert_allclose(3 * grad, [np.negative(slopes)], rtol=1e-15)


def test_the_limits_belong_to_the_inside_as_in_pytorch():
    peers = pytest.importorskip("peers")
    log_p, old = np.log([[1.25, 0.75, 1.25, 0.75]]), np.zeros((1, 4))
    advantage = np.array([[1.0, 1.0, -1.0, -1.0]])
    low, high = 1 - np.exp(log_p[0, 1]), np.exp(log_p[0, 0]) - 1
    fixed = [peers.torch.tensor(a) for a in (old, advantage, np.ones((1, 4), bool))]
    _, (want,) = peers.value_and_vjp(
        lambda x: published(peers.torch, x, *fixed, "ppo", low, high), log_p
    )
    got = policy_loss_grad(log_p, old, advantage, clip=low, clip_high=high)
    assert np.all(want)
    np.testing.assert_allclose(got, want, rtol=4e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_step_after_drawing_is_the_policy_gradient(kind, tokens, mask):
    log_p, _, advantage = tokens
    advantage = advantage[:, :1]
    got = policy_loss_grad(log_p, log_p, advantage, kind=kind, mask=mask)
    lengths = mask.sum(axis=1, keepdims=True)
    divisor = {"grpo": G * lengths, "gspo": G * lengths, "dr_grpo": G * T}.get(kind, mask.sum())
    np.testing.assert_allclose(got, np.where(mask, -advantage / divisor, 0), rtol=1e-14)


def test_kinds_agree_for_equal_lengths(tokens):
    values = [policy_loss(*tokens, kind=kind) for kind in ("ppo", "grpo", "dr_grpo")]
    np.testing.assert_allclose(values, values[0], rtol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_masked_tokens_may_hold_any_number(kind, tokens, mask):
    clean = [np.where(mask, a, 0.0) for a in tokens]
    for filler in (np.nan, np.inf, -np.inf, 1e300):
        dirty = [np.where(mask, a, filler) for a in tokens]
        moves = (np.where(mask, 1.0, filler), None, None)
        for f, args in (
            (policy_loss, ()),
            (policy_loss_grad, ()),
        ):
            got = f(*dirty, *args, kind=kind, mask=mask)
            np.testing.assert_array_equal(got, f(*clean, kind=kind, mask=mask))
        got = policy_loss_jvp(tuple(dirty), moves, kind=kind, mask=mask)
        want = policy_loss_jvp(tuple(clean), (mask * 1.0, None, None), kind=kind, mask=mask)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("kind", KINDS)
def test_sequences_without_tokens(kind, tokens, mask):
    mask = mask.copy()
    mask[0] = False
    assert np.isfinite(policy_loss(*tokens, kind=kind, mask=mask))
    assert not np.any(policy_loss_grad(*tokens, kind=kind, mask=mask)[0])
    nothing = np.zeros((G, T), bool)
    want = {"ppo": np.nan, "cispo": np.nan}.get(kind, 0.0)
    np.testing.assert_equal(abs(float(policy_loss(*tokens, kind=kind, mask=nothing))), want)
    assert not np.any(policy_loss_grad(*tokens, kind=kind, mask=nothing))


@pytest.mark.parametrize("kind", KINDS)
def test_no_sequences(kind):
    nothing = np.zeros((0, 3))
    assert np.isnan(policy_loss(nothing, nothing, nothing, kind=kind))
    assert policy_loss_vjp(1.0, nothing, nothing, nothing, kind=kind).shape == (0, 3)


def test_no_clip_is_importance_sampling(tokens):
    log_p, old, advantage = tokens
    got = policy_loss(*tokens, clip=np.inf)
    np.testing.assert_allclose(got, -np.mean(np.exp(log_p - old) * advantage), rtol=1e-14)


def test_large_ratios_of_good_tokens_are_bounded():
    log_p, old = np.array([[800.0, -800.0]]), np.zeros((1, 2))
    assert policy_loss(log_p, old, [[1.0]]) == -0.6
    np.testing.assert_array_equal(policy_loss_grad(log_p, old, [[1.0]]), [[0, 0]])
    assert policy_loss(log_p, old, [[-1.0]]) == np.inf


def overflowing(kind, dtype):
    """Return arguments whose ratios overflow where the advantage is 0."""
    log_p = np.array([[0.0, -1.0, -2.0], [-3.0, -1.0, -2.0]], dtype)
    old = np.array([[-1e4, -1e4, -1.0], [-3.5, -1e4, -1.0]], dtype)
    advantage = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, -1.0]], dtype)
    if kind == "gspo":  # the one ratio of a sequence
        advantage[1] = 0.0
    return log_p, old, advantage


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_advantage_is_no_loss_where_a_ratio_overflows(kind, dtype):
    log_p, old, advantage = overflowing(kind, dtype)
    near = np.maximum(old, -10)  # with ratios that do not overflow: 0 all the same
    arguments, options = (log_p, old, advantage), {"kind": kind, "clip_high": np.inf}
    assert policy_loss(*arguments, **options) == policy_loss(log_p, near, advantage, **options)
    grad = policy_loss_grad(*arguments, **options)
    np.testing.assert_array_equal(grad, policy_loss_grad(log_p, near, advantage, **options))
    np.testing.assert_array_equal(grad[advantage == 0], 0)
    np.testing.assert_array_equal(policy_loss_vjp(dtype(2), *arguments, **options), 2 * grad)
    pushed = policy_loss_jvp(arguments, (np.ones_like(log_p), None, None), **options)
    assert pushed == pytest.approx(grad.sum(), rel=1e-6)
    assert {a.dtype for a in (grad, pushed)} == {np.dtype(dtype)}


@pytest.mark.parametrize("kind", KINDS)
def test_no_advantage_is_nan_in_published_code_where_a_ratio_overflows(kind):
    torch = pytest.importorskip("torch")
    wide = [torch.from_numpy(a) for a in overflowing(kind, np.float64)]
    theirs = published(torch, *wide, torch.ones(2, 3), kind, 0.2, np.inf)
    assert np.isnan(float(theirs))


def test_no_advantage_hides_no_nan():
    one = np.zeros((1, 1))
    for kind in KINDS:
        assert np.isnan(policy_loss(one * np.nan, one, one, kind=kind))
    never = one - np.inf  # the logarithm of a probability of 0, a factor in CISPO
    assert policy_loss(never, one, one, kind="cispo") == 0.0
    assert policy_loss(never, one, one + 1, kind="cispo") == np.inf
    assert policy_loss(never, one, one + 1, kind="cispo", clip=1.0) == 0.0


class TestErrors:
    def test_shapes(self, tokens):
        log_p, old, advantage = tokens
        with pytest.raises(ValueError, match=r"^Argument 'log_p' must have 2 axes"):
            policy_loss(log_p[0], old[0], advantage[0])
        with pytest.raises(ValueError, match=r"^Argument 'old' must have shape \(4, 7\)"):
            policy_loss(log_p, old[:, :1], advantage)
        message = r"^Argument 'advantage' must have shape \(G, T\) = \(4, 7\) or \(G, 1\)"
        for wrong in (advantage[0], advantage[:, 0], advantage[:1]):
            with pytest.raises(ValueError, match=message):
                policy_loss_grad(log_p, old, wrong)
        with pytest.raises(ValueError, match=r"^Argument 'mask' must have shape"):
            policy_loss(*tokens, mask=np.ones((4, 1), bool))

    def test_options(self, tokens):
        with pytest.raises(ValueError, match=r"^Argument 'kind' must be 'ppo', 'grpo'"):
            policy_loss(*tokens, kind="PPO")
        with pytest.raises(TypeError, match=r"^Argument 'mask' must be boolean \(True = count\)"):
            policy_loss(*tokens, mask=np.ones((4, 7)))
        with pytest.raises(ValueError, match=r"^Argument 'level' must be 'token' or 'sequence'"):
            policy_loss(*tokens, level="batch")
        with pytest.raises(ValueError, match=r"^Argument 'mean' must be .* or 'constant', not"):
            policy_loss(*tokens, mean="batch")
        with pytest.raises(ValueError, match=r"^Argument 'delta' must be at least 1.3"):
            policy_loss(*tokens, clip_high=0.3, delta=1.2)
        with pytest.raises(ValueError, match=r"^Argument 'delta' must be None for the kind"):
            policy_loss(*tokens, kind="cispo", delta=3.0)
        for name in ("clip", "clip_high"):
            with pytest.raises(ValueError, match=rf"^Argument '{name}' must be at least 0"):
                policy_loss(*tokens, **{name: -0.1})
        with pytest.raises(ValueError, match=r"^Argument 'tangents\[2\]' must be None"):
            policy_loss_jvp(tokens, (None, None, tokens[2]))
        with pytest.raises(TypeError, match=r"^Argument 'primals\[0\]' must be an array"):
            policy_loss_jvp((None, *tokens[1:]), (None, None, None))


def through_the_clip(u, log_p, old, advantage, **_):
    return -u * np.exp(log_p - old) * advantage / log_p.size


def on_both_sides(u, log_p, old, advantage, **_):
    ratio = np.exp(log_p - old)
    return -u * np.where(abs(ratio - 1) <= 0.2, ratio * advantage, 0) / log_p.size


def without_a_minimum(log_p, old, advantage, **_):
    return -np.mean(np.clip(np.exp(log_p - old), 0.8, 1.2) * advantage)


def with_the_maximum(log_p, old, advantage, **_):
    ratio = np.exp(log_p - old)
    return -np.mean(np.maximum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage))


class TestVerdicts:
    @pytest.mark.parametrize(
        ("judge", "mistake", "words"),
        [
            (check.check_vjp, through_the_clip, "does not stop where the ratio is clipped"),
            (check.check_vjp, on_both_sides, "clipped on both sides"),
            (check.check_forward, without_a_minimum, "clipped on both sides"),
            (check.check_forward, with_the_maximum, "the maximum of the two gains"),
        ],
    )
    def test_mistakes(self, judge, mistake, words, tokens):
        verdict = judge(mistake, policy_loss, *([1.7] if judge is check.check_vjp else []), *tokens)
        assert not verdict
        assert words in verdict.cause

    @pytest.mark.parametrize("kind", ["grpo", "dr_grpo", "gspo"])
    def test_the_mean_of_another_kind_is_named(self, kind, tokens, mask):
        def token_mean(log_p, old, advantage, *, kind, mask):
            return policy_loss(log_p, old, advantage, mask=mask)

        verdict = check.check_forward(token_mean, policy_loss, *tokens, kind=kind, mask=mask)
        assert not verdict
        assert "the option 'kind' is ignored" in verdict.cause

    def test_right_kernels_are_right(self, tokens):
        for kind in KINDS:
            assert check.check_forward(policy_loss, policy_loss, *tokens, kind=kind)
            assert check.check_vjp(policy_loss_vjp, policy_loss, 1.7, *tokens, kind=kind)

    @pytest.mark.usefixtures("without_programs")
    @pytest.mark.parametrize("kind", ["grpo", "gspo", "cispo"])
    def test_other_mistakes_get_none_of_these_words(self, kind, tokens, rng):
        def crooked(x):
            return np.asarray(x) * (1.37 + 0.1 * np.sin(np.arange(np.size(x)))).reshape(np.shape(x))

        moves = rng.normal(size=(G, T)), None, None
        verdicts = (
            check.check_forward(
                lambda *x, **o: crooked(policy_loss(*x, **o)), policy_loss, *tokens, kind=kind
            ),
            check.check_vjp(
                lambda *x, **o: crooked(policy_loss_vjp(*x, **o)),
                policy_loss, 1.0, *tokens, kind=kind,
            ),
            check.check_jvp(
                lambda *x, **o: crooked(policy_loss_jvp(*x, **o)),
                policy_loss, tokens, moves, kind=kind,
            ),
        )  # fmt: skip
        for verdict in verdicts:
            assert not verdict
            assert not any(word in verdict.cause for word in ("clip", "maximum", "kind"))
