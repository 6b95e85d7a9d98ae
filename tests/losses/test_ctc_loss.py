"""Texts that are not aligned: PyTorch, all paths, scaled probabilities, edges, errors."""

import itertools

import numpy as np
import pytest

from dlref import check
from dlref._core.jit import COMPILED
from dlref.formulas.activations import log_softmax, log_softmax_vjp
from dlref.losses import ctc_loss, ctc_loss_grad, ctc_loss_jvp, ctc_loss_vjp


def of_pytorch(torch, y, steps, letters, blank, reduction):
    def f(z):
        log_probs = z.log_softmax(-1).transpose(0, 1)
        return torch.nn.functional.ctc_loss(
            log_probs, *(torch.tensor(a) for a in (y, steps, letters)), blank, reduction
        )

    return f


def numbers(rng, N, T, C, S, blank):
    z = 2 * rng.normal(size=(N, T, C))
    y = rng.integers(0, C - 1, (N, S))
    y += y >= blank
    letters = rng.integers(0, S + 1, N)
    steps = np.array([rng.integers(2 * s + 1, T + 1) for s in letters])
    return z, y, steps, letters


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    ("N", "T", "C", "S", "blank"), [(3, 12, 5, 4, 0), (1, 7, 2, 3, 1), (4, 30, 9, 9, 4)]
)
def test_pytorch(N, T, C, S, blank, reduction, rng):
    peers = pytest.importorskip("peers")
    z, y, steps, letters = numbers(rng, N, T, C, S, blank)
    options = {
        "blank": blank,
        "lengths": steps,
        "target_lengths": letters,
        "reduction": reduction,
    }
    x = log_softmax(z)
    u = rng.normal(size=np.shape(ctc_loss(x, y, **options)))
    f = of_pytorch(peers.torch, y, steps, letters, blank, reduction)
    value, (want,) = peers.value_and_vjp(f, z, dout=u)
    np.testing.assert_allclose(ctc_loss(x, y, **options), value, rtol=4e-15 * T)
    got = log_softmax_vjp(ctc_loss_vjp(u, x, y, **options), x)
    np.testing.assert_allclose(got, want, rtol=0, atol=4e-15 * T * abs(u).max())


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_an_infinite_loss_counts_as_zero(reduction, rng):
    peers = pytest.importorskip("peers")
    z, y = rng.normal(size=(3, 4, 5)), np.array([[1, 2, 3], [2, 2, 2], [3, 1, 4]])
    steps, letters = np.array([4, 4, 2]), np.array([3, 3, 3])  # the first alone has a path
    options = {"lengths": steps, "zero_infinity": True, "reduction": reduction}
    x = log_softmax(z)

    def f(z):
        log_probs = z.log_softmax(-1).transpose(0, 1)
        sizes = (peers.torch.tensor(a) for a in (y, steps, letters))
        return peers.torch.nn.functional.ctc_loss(
            log_probs, *sizes, 0, reduction, zero_infinity=True
        )

    u = rng.normal(size=np.shape(ctc_loss(x, y, **options)))
    value, (want,) = peers.value_and_vjp(f, z, dout=u)
    np.testing.assert_allclose(ctc_loss(x, y, **options), value, rtol=1e-14)
    pulled = ctc_loss_vjp(u, x, y, **options)
    got = log_softmax_vjp(pulled, x)
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-14 * abs(u).max())
    assert not pulled[1:].any()
    pushed = ctc_loss_jvp((x, y), (np.ones_like(x), None), **options)
    np.testing.assert_allclose(np.sum(u * pushed), pulled.sum(), rtol=1e-13)


def test_the_mean_still_divides_by_texts_without_a_path():
    x, y = np.log(np.full((2, 2, 2), 0.5)), np.array([[1, 1], [1, 1]])
    options = {"target_lengths": np.array([1, 2]), "zero_infinity": True}
    assert ctc_loss(x, y, **options) == pytest.approx(-np.log(0.75) / 2, rel=1e-15)
    grad = ctc_loss_grad(x, y, **options)
    np.testing.assert_array_equal(grad[1], 0)
    np.testing.assert_allclose(grad[0], ctc_loss_grad(x[0], y[0, :1]) / 2, rtol=1e-14)


def test_the_gradient_of_pytorch_has_the_probabilities_too(rng):
    """It is no derivative of the loss by ``log_probs``."""
    peers = pytest.importorskip("peers")
    x, y = log_softmax(rng.normal(size=(1, 6, 4))), np.array([[1, 3]])

    def f(x):
        return peers.torch.nn.functional.ctc_loss(
            x.transpose(0, 1), *map(peers.torch.tensor, (y, [6], [2])), reduction="sum"
        )

    _, (theirs,) = peers.value_and_vjp(f, x)
    ours = ctc_loss_grad(x, y, reduction="sum")
    np.testing.assert_allclose(theirs - ours, np.exp(x), atol=1e-14)
    h, move = 1e-6, rng.normal(size=x.shape)
    slope = (
        ctc_loss(x + h * move, y, reduction="sum") - ctc_loss(x - h * move, y, reduction="sum")
    ) / (2 * h)
    assert np.sum(ours * move) == pytest.approx(slope, rel=1e-8)
    assert abs(np.sum(theirs * move) - slope) > 0.1


def test_every_text_has_its_share_of_all_paths(rng):
    """The probabilities of all texts of T steps add up to 1."""
    T, C = 4, 3
    x = log_softmax(rng.normal(size=(T, C)))
    texts = [t for S in range(T + 1) for t in itertools.product((1, 2), repeat=S)]
    p = [np.exp(-ctc_loss(x, np.array(t, int), reduction="sum")) for t in texts]
    assert sum(p) == pytest.approx(1, rel=1e-14)
    assert p[texts.index((1, 1, 1))] == 0  # needs five steps


def scaled(y, text, blank=0):
    """Rabiner's forward pass: probabilities, each row divided by its sum, without logarithms."""
    places = np.full(2 * len(text) + 1, blank)
    places[1::2] = text
    skips = np.zeros(len(places), bool)
    skips[3::2] = places[3::2] != places[1:-2:2]
    row, total = np.where(np.arange(len(places)) < 2, y[0, places], 0.0), 0.0
    for t in range(len(y)):
        if t:
            moved, skipped = np.zeros((2, len(places)))
            moved[1:], skipped[2:] = row[:-1], row[:-2]
            row = y[t, places] * (row + moved + skips * skipped)
        total += np.log(row.sum())
        row = row / row.sum()
    return -(total + np.log(row[-2:].sum()))


LONG = [(20, 6), (500, 100), (3000, 40)]


@pytest.mark.parametrize(("T", "S"), LONG if COMPILED else LONG[:1])
def test_long_recordings(T, S, rng):
    """Their probabilities underflow: below 1e-308 from some hundred steps on."""
    x = log_softmax(rng.normal(size=(T, 12)))
    y = rng.integers(1, 12, S)
    got = ctc_loss(x, y, reduction="sum")
    np.testing.assert_allclose(got, scaled(np.exp(x), y), rtol=1e-14)
    grad = ctc_loss_grad(x, y, reduction="sum")
    np.testing.assert_allclose(grad.sum(-1), -1, rtol=1e-15)
    move = rng.normal(size=x.shape)
    h = 1e-4
    slope = (scaled(np.exp(x + h * move), y) - scaled(np.exp(x - h * move), y)) / (2 * h)
    assert np.sum(grad * move) == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("lost", [4e-17, 1e-20, 3e-13])
def test_nearly_sure_paths_keep_their_digits(lost):
    """The letter, then the letter or a blank: log(e^-lost + lost / 2) is nearly -lost / 2."""
    log_probs = np.array([[[-np.inf, 0.0], [-lost, np.log(lost / 2)]]])
    got = ctc_loss(log_probs, [[1]], reduction="sum")
    np.testing.assert_allclose(got, -np.log1p(np.expm1(-lost) + lost / 2), rtol=1e-14)


class TestEdges:
    def test_repeated_letters_need_a_blank_between(self):
        half = np.log(np.full((4, 2), 0.5))
        for T, want in ((2, 0.0), (3, 1 / 8), (4, 5 / 16)):
            p = np.exp(-ctc_loss(half[:T], [1, 1], reduction="sum"))
            assert p == pytest.approx(want, rel=1e-15)

    def test_an_empty_text(self, rng):
        x = log_softmax(rng.normal(size=(5, 3)))
        loss = ctc_loss(x, np.zeros(0, int))
        assert loss == pytest.approx(-x[:, 0].sum(), rel=1e-15)
        np.testing.assert_allclose(ctc_loss_grad(x, np.zeros(0, int)), np.tile([-1, 0, 0], (5, 1)))

    def test_no_steps(self):
        x = np.zeros((2, 0, 3))
        letters = np.array([0, 1])
        got = ctc_loss(x, [[1], [1]], target_lengths=letters, reduction="none")
        np.testing.assert_array_equal(got, [0, np.inf])
        grad = ctc_loss_grad(x, [[1], [1]], target_lengths=letters, reduction="sum")
        assert grad.shape == x.shape
        got = ctc_loss(np.zeros((1, 4, 3)), [[1]], lengths=[0])
        assert got == np.inf

    def test_impossible_texts_are_as_in_pytorch(self, rng):
        peers = pytest.importorskip("peers")
        z, y = rng.normal(size=(2, 4, 3)), np.array([[1, 1], [1, 2]])
        steps, letters = np.array([2, 3]), np.array([2, 2])
        f = of_pytorch(peers.torch, y, steps, letters, 0, "sum")
        value, _ = peers.value_and_vjp(f, z)
        options = {"lengths": steps, "target_lengths": letters, "reduction": "sum"}
        assert ctc_loss(log_softmax(z), y, **options) == value == np.inf
        grad = ctc_loss_grad(log_softmax(z), y, **options)
        assert np.isnan(grad[0, :2]).all()
        assert not grad[0, 2:].any()
        assert np.isfinite(grad[1]).all()

    def test_letters_that_cannot_be(self, rng):
        x = rng.normal(size=(6, 4))
        x[2:4, :] = -np.inf
        x[2:4, 3] = 0.0  # both are the letter 3, or nothing is
        assert ctc_loss(x, [1, 2]) == np.inf
        got = ctc_loss_grad(x, [1, 3], reduction="sum")
        np.testing.assert_allclose(got[2:4], [[0, 0, 0, -1]] * 2, atol=1e-15)
        assert np.isnan(ctc_loss(np.where(np.isinf(x), np.nan, x), [1, 2]))

    def test_numbers_outside_are_never_read(self, rng):
        x, y = log_softmax(rng.normal(size=(2, 6, 4))), rng.integers(1, 4, (2, 3))
        options = {"lengths": np.array([6, 4]), "target_lengths": np.array([3, 1])}
        dirty, others = x.copy(), y.copy()
        dirty[1, 4:], others[1, 1:] = np.nan, [-7, 99]
        np.testing.assert_array_equal(ctc_loss(dirty, others, **options), ctc_loss(x, y, **options))
        got, want = ctc_loss_grad(dirty, others, **options), ctc_loss_grad(x, y, **options)
        np.testing.assert_array_equal(got, want)
        assert not want[1, 4:].any()
        move = rng.normal(size=x.shape)
        moves = [(np.where(np.isnan(dirty), np.nan, move), None), (move, None)]
        np.testing.assert_array_equal(
            ctc_loss_jvp((dirty, others), moves[0], **options),
            ctc_loss_jvp((x, y), moves[1], **options),
        )

    def test_a_batch_is_its_sequences(self, rng):
        x, y = log_softmax(rng.normal(size=(2, 3, 7, 4))), rng.integers(1, 4, (2, 3, 3))
        each = ctc_loss(x, y, reduction="none")
        grad = ctc_loss_grad(x, y, reduction="sum")
        for n in np.ndindex(2, 3):
            assert each[n] == ctc_loss(x[n], y[n], reduction="sum")
            np.testing.assert_array_equal(grad[n], ctc_loss_grad(x[n], y[n], reduction="sum"))
        assert ctc_loss(x, y) == pytest.approx(each.mean() / 3, rel=1e-14)

    def test_no_sequences(self):
        x, y = np.zeros((0, 3, 2)), np.zeros((0, 1), int)
        assert np.isnan(ctc_loss(x, y))
        assert ctc_loss(x, y, reduction="sum") == 0
        assert ctc_loss_grad(x, y).shape == x.shape

    def test_nothing_need_add_up_to_one(self, rng):
        """A number added to a step lowers the loss by it."""
        x, y = rng.normal(size=(5, 3)), [1, 2]
        moved = x + np.array([[1.0], [0], [0], [-3], [0]])
        assert ctc_loss(moved, y, reduction="sum") == pytest.approx(
            ctc_loss(x, y, reduction="sum") + 2, rel=1e-14
        )


class TestErrors:
    x = np.zeros((2, 4, 3))

    def test_texts(self):
        with pytest.raises(ValueError, match=r"^Argument 'targets' must have shape \(2, S\)"):
            ctc_loss(self.x, [1, 2])
        message = r"classes from 0 to 2 other than blank = 0, not 0 at index \(1, 0\)\.$"
        with pytest.raises(ValueError, match=message):
            ctc_loss(self.x, [[1], [0]])
        with pytest.raises(ValueError, match=r"not 3 at index \(0, 1\)"):
            ctc_loss(self.x, [[1, 3], [1, 2]])
        with pytest.raises(TypeError, match=r"^Argument 'targets' must be integer"):
            ctc_loss(self.x, np.ones((2, 1)))

    def test_lengths(self):
        y = np.ones((2, 1), int)
        with pytest.raises(ValueError, match=r"^Argument 'lengths' must have shape \(2,\)"):
            ctc_loss(self.x, y, lengths=4)
        with pytest.raises(ValueError, match=r"^Argument 'lengths' must hold integers from 0 to 4"):
            ctc_loss(self.x, y, lengths=[4, 5])
        with pytest.raises(ValueError, match=r"^Argument 'target_lengths' .* from 0 to 1, not -1"):
            ctc_loss(self.x, y, target_lengths=[1, -1])

    def test_others(self):
        y = np.ones((2, 1), int)
        with pytest.raises(ValueError, match=r"^Argument 'blank' must be at most 2, not 3"):
            ctc_loss(self.x, y, blank=3)
        with pytest.raises(ValueError, match=r"^Argument 'log_probs' must have at least 2 axes"):
            ctc_loss(np.zeros(3), y)
        with pytest.raises(ValueError, match=r"^Argument 'log_probs' must have a non-empty last"):
            ctc_loss(np.zeros((2, 4, 0)), y)
        with pytest.raises(ValueError, match=r"^Argument 'reduction' must be 'mean' or 'sum'"):
            ctc_loss_grad(self.x, y, reduction="none")
        with pytest.raises(ValueError, match=r"^Argument 'reduction' must be 'mean', 'sum'"):
            ctc_loss(self.x, y, reduction="all")
        with pytest.raises(ValueError, match=r"^Argument 'tangents\[1\]' must be None"):
            ctc_loss_jvp((self.x, y), (None, y))


class TestVerdicts:
    @pytest.fixture
    def text(self, rng):
        return log_softmax(rng.normal(size=(2, 8, 5))), np.array([[1, 1, 3], [2, 3, 1]])

    def test_the_gradient_of_logits_is_named(self, text):
        def theirs(u, x, y, **options):
            grad = ctc_loss_vjp(u, x, y, **options)
            return log_softmax_vjp(grad, x)

        verdict = check.check_vjp(theirs, ctc_loss, 1.7, *text)
        assert not verdict
        assert "as PyTorch returns it" in verdict.cause

    def test_another_blank_is_named(self, text):
        def last(x, y, **options):
            return ctc_loss(x, y, blank=4, **options)

        def first(x, y, *, blank, **options):
            return ctc_loss(x, y, **options)

        verdict = check.check_forward(last, ctc_loss, *text)
        assert "the blank is the last class" in verdict.cause
        verdict = check.check_forward(first, ctc_loss, *text, blank=4)
        assert "the blank is class 0" in verdict.cause

    def test_missing_blanks_are_named(self, text, rng):
        x, y = text

        def merged(x, y, lengths=None, target_lengths=None, reduction="mean"):
            """Skip the blank between any two letters."""
            each = np.array([loss_of_any(x[n], y[n]) for n in range(len(x))])
            return {"mean": np.mean(each / 3), "sum": each.sum(), "none": each}[reduction]

        def loss_of_any(x, text):
            places = np.zeros(2 * len(text) + 1, int)
            places[1::2] = text
            row = np.where(np.arange(len(places)) < 2, np.exp(x[0, places]), 0)
            for t in range(1, len(x)):
                moved, skipped = np.zeros((2, len(places)))
                moved[1:], skipped[3::2] = row[:-1], row[1:-2:2]
                row = np.exp(x[t, places]) * (row + moved + skipped)
            return -np.log(row[-2:].sum())

        for reduction in ("mean", "sum", "none"):
            verdict = check.check_forward(merged, ctc_loss, x, y, reduction=reduction)
            assert not verdict
            assert "equal letters need no blank" in verdict.cause
        steps, letters = np.array([8, 7]), np.array([3, 2])
        kwargs = {"lengths": steps, "target_lengths": letters, "reduction": "none"}

        def padded(x, y, **_):
            return np.array([loss_of_any(x[n, : steps[n]], y[n, : letters[n]]) for n in (0, 1)])

        verdict = check.check_forward(padded, ctc_loss, x, y, **kwargs)
        assert "equal letters need no blank" in verdict.cause

    def test_other_means_are_named(self, text):
        letters = np.array([3, 1])

        def plain_mean(x, y, **options):
            return np.mean(ctc_loss(x, y, target_lengths=letters, reduction="none"))

        def by_letters(x, y, **options):
            return ctc_loss(x, y, target_lengths=letters, reduction="sum") / letters.sum()

        for f, words in ((plain_mean, "not divided by the lengths"), (by_letters, "all letters")):
            verdict = check.check_forward(f, ctc_loss, *text, target_lengths=letters)
            assert not verdict
            assert words in verdict.cause

        def of_plain_mean(u, x, y, **options):
            return ctc_loss_vjp(u / 2, x, y, target_lengths=letters, reduction="sum")

        verdict = check.check_vjp(of_plain_mean, ctc_loss, 1.3, *text, target_lengths=letters)
        assert "not divided by the lengths" in verdict.cause

    def test_right_kernels_are_right(self, text):
        assert check.check_forward(ctc_loss, ctc_loss, *text)
        assert check.check_vjp(ctc_loss_vjp, ctc_loss, 1.0, *text)
        assert check.check_jvp(ctc_loss_jvp, ctc_loss, text, (np.ones(text[0].shape), None))

    @pytest.mark.usefixtures("without_programs")
    @pytest.mark.parametrize("blank", [0, 4])
    def test_other_mistakes_get_none_of_these_words(self, text, blank, rng):
        x, y = text
        y = y - (blank == 4)

        def crooked(x):
            return np.asarray(x) * (1.37 + 0.1 * np.sin(np.arange(np.size(x)))).reshape(np.shape(x))

        moves, kwargs = (rng.normal(size=x.shape), None), {"blank": blank}
        verdicts = (
            check.check_forward(
                lambda *x, **o: crooked(ctc_loss(*x, **o)), ctc_loss, x, y, **kwargs
            ),
            check.check_vjp(
                lambda *x, **o: crooked(ctc_loss_vjp(*x, **o)), ctc_loss, 1.0, x, y, **kwargs
            ),
            check.check_jvp(
                lambda *x, **o: crooked(ctc_loss_jvp(*x, **o)), ctc_loss, (x, y), moves, **kwargs
            ),
        )
        for verdict in verdicts:
            assert not verdict
            assert not any(word in verdict.cause for word in ("blank", "logits", "letters"))
