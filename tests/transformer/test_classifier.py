"""The classifier: the formula, PyTorch, and what the class token is for."""

import numpy as np
import peers
import pytest
import trees

from dlref.formulas import transformer as formulas
from dlref.losses import cross_entropy
from dlref.transformer import (
    LanguageModelConfig,
    init_sequence_classifier,
    sequence_classifier,
    sequence_classifier_jvp,
    sequence_classifier_loss,
    sequence_classifier_loss_grad,
    sequence_classifier_loss_value_and_grad,
    sequence_classifier_vjp,
)

SCHEMES = ["learned", "sinusoidal", "rope", "alibi", "t5", "none"]


ROW = np.array([2.0, 0, 2, 1, 0])  # factors of dropout, of the class token first
FEATURES = np.array([0.0, 2, 2, 0, 1, 2, 0, 2])


def classifying(shape=(2, 4), lengths=None, drops=None, **fields):
    config = LanguageModelConfig(
        **{"vocab_size": 7, "d_model": 8, "num_heads": 2, "length": 6, **fields}
    )
    options = dict(drops or {})
    if lengths is not None:
        options["lengths"] = np.array(lengths)

    def problem(rng):
        params = trees.drawn(rng, init_sequence_classifier(rng, config, 3), 0.2)
        return (rng.integers(0, 7, shape), params), (config,), options

    return problem


class TestModel(trees.Contract):
    maps = (
        sequence_classifier,
        sequence_classifier_vjp,
        sequence_classifier_jvp,
        formulas.sequence_classifier,
    )
    problems = [  # noqa: RUF012
        classifying(biases=False),
        *(classifying(positions=scheme) for scheme in SCHEMES),
        classifying(lengths=[2, 4]),
        classifying(shape=(4,), lengths=3, norm_first=False, norm="rms", activation="swiglu"),
        classifying(shape=(3, 0)),
        classifying(drops={"embedding_dropout": FEATURES * ROW[:, None]}),
        classifying(drops={"attention_dropout": (None, ROW)}, positions="t5", lengths=[2, 4]),
        classifying(
            drops={
                "dropout": ((FEATURES, None), None),
                "attention_dropout": (ROW, np.stack([ROW, ROW[::-1]])[:, None]),
                "embedding_dropout": FEATURES,
            },
            positions="sinusoidal",
        ),
    ]


@pytest.mark.parametrize("soft", [False, True])
def test_pytorch(rng, soft):
    torch = peers.torch
    functional = torch.nn.functional
    config = LanguageModelConfig(7, 8, 2, num_layers=1, norm_first=False, positions="none")
    params = trees.drawn(rng, init_sequence_classifier(rng, config, 3), 0.2)
    tokens, classes = rng.integers(0, 7, (5, 4)), rng.integers(0, 3, 5)
    classes = rng.dirichlet(np.ones(3), 5) if soft else classes
    p = trees.mapped(lambda a: torch.tensor(a, requires_grad=True), params)
    x = torch.cat([p.class_token.expand(5, 1, 8), p.embedding[torch.tensor(tokens)]], dim=1)
    (block,) = p.blocks
    a, n = block.attention, block.feed_forward
    q, k, v = (
        functional.linear(x, w, b).unflatten(-1, (2, 4)).transpose(1, 2)
        for w, b in ((a.w_q, a.b_q), (a.w_k, a.b_k), (a.w_v, a.b_v))
    )
    out = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
    x = functional.layer_norm(x + functional.linear(out, a.w_o, a.b_o), (8,), *block.norm1)
    hidden = functional.gelu(functional.linear(x, n.w1, n.b1))
    x = functional.layer_norm(x + functional.linear(hidden, n.w2, n.b2), (8,), *block.norm2)
    loss = functional.cross_entropy(
        functional.linear(x[:, 0], p.w_head, p.b_head), torch.tensor(classes)
    )
    parameters = [t for t in flat(p) if t is not None]
    grads = torch.autograd.grad(loss, parameters)
    value, ours = sequence_classifier_loss_value_and_grad(tokens, classes, params, config)
    assert value == pytest.approx(loss.item(), rel=1e-14)
    trees.assert_close(ours, tuple(g.numpy() for g in grads), 1e-13)


def flat(tree):
    return [leaf for entry in tree for leaf in flat(entry)] if isinstance(tree, tuple) else [tree]


def test_loss_is_cross_entropy(rng):
    (tokens, params), (config,), _ = classifying()(rng)
    want = cross_entropy(sequence_classifier(tokens, params, config), [2, 0])
    assert sequence_classifier_loss(tokens, [2, 0], params, config) == want
    grads = sequence_classifier_loss_grad(tokens, [2, 0], params, config, lengths=[1, 4])
    assert np.all(np.isfinite(grads.embedding))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_padding_does_not_matter(rng, scheme):
    (tokens, params), (config,), _ = classifying(positions=scheme)(rng)
    short = sequence_classifier(tokens[:, :2], params, config)
    padded = sequence_classifier(tokens, params, config, lengths=[2, 2])
    np.testing.assert_allclose(padded, short, atol=1e-14)
    assert sequence_classifier(tokens, params, config, lengths=[0, 0])[0] == pytest.approx(
        sequence_classifier(tokens, params, config, lengths=[0, 0])[1]
    )


def test_without_positions_order_does_not_matter_and_with_them_it_does(rng):
    for scheme in SCHEMES:
        (tokens, params), (config,), _ = classifying(positions=scheme)(rng)
        tokens[0] = [1, 2, 3, 4]
        gap = abs(
            sequence_classifier(tokens, params, config)
            - sequence_classifier(tokens[:, ::-1], params, config)
        )[0].max()
        assert (gap < 1e-13) == (scheme == "none")


def test_every_token_is_heard(rng):
    (tokens, params), (config,), _ = classifying()(rng)
    for place in range(4):
        changed = tokens.copy()
        changed[:, place] = (changed[:, place] + 1) % 7
        got = sequence_classifier(changed, params, config)
        assert np.any(got != sequence_classifier(tokens, params, config))


class TestErrors:
    def test_dropout(self, rng):
        (tokens, params), (config,), _ = classifying()(rng)
        with pytest.raises(ValueError, match=r"'attention_dropout' must be a tuple of 2 arrays"):
            sequence_classifier(tokens, params, config, attention_dropout=())
        with pytest.raises(ValueError, match=r"'embedding_dropout' must have batch axes"):
            sequence_classifier(tokens, params, config, embedding_dropout=np.ones((4, 1)))
        factors = {"embedding_dropout": FEATURES, "attention_dropout": (ROW, ROW)}
        arguments = (tokens, [1, 2], params, config)
        value, grads = sequence_classifier_loss_value_and_grad(*arguments, **factors)
        assert value == sequence_classifier_loss(*arguments, **factors)
        assert value != sequence_classifier_loss(*arguments)
        trees.assert_close(sequence_classifier_loss_grad(*arguments, **factors), grads, 0)
        assert np.array_equal(grads.class_token == 0, FEATURES == 0)

    def test_lengths(self, rng):
        (tokens, params), (config,), _ = classifying()(rng)
        with pytest.raises(ValueError, match=r"'lengths' must hold integers from 0 to 4, not 5"):
            sequence_classifier(tokens, params, config, lengths=[5, 1])
        with pytest.raises(ValueError, match=r"'lengths' must have batch axes that broadcast"):
            sequence_classifier(tokens, params, config, lengths=[1, 1, 1])

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"class_token": np.ones(7)}, r"'params.class_token' must have shape \(8,\)"),
            ({"embedding": np.ones((6, 8))}, r"'params.embedding' must have shape \(7, 8\)"),
            ({"w_head": np.ones((3, 7))}, r"'params.w_head' must have shape \(3, 8\)"),
            ({"b_head": np.ones(4)}, r"'params.b_head' must have shape \(3,\)"),
            ({"norm": (np.ones(7),)}, r"'params.norm.weight' must have shape \(8,\)"),
            ({"blocks": None}, "'params.blocks' must be a tuple of num_layers = 2, not NoneType"),
        ],
    )
    def test_parameters(self, rng, change, message):
        (tokens, params), (config,), _ = classifying()(rng)
        with pytest.raises(ValueError, match=message):
            sequence_classifier(tokens, params._replace(**change), config)

    def test_arguments(self, rng):
        (tokens, params), (config,), _ = classifying()(rng)
        with pytest.raises(TypeError, match=r"'primals' must be a tuple of 2 entries"):
            sequence_classifier_jvp(tokens, (None, None), config)
        with pytest.raises(TypeError, match=r"'tangents' must be a tuple of 2 entries"):
            sequence_classifier_jvp((tokens, params), (tokens, None), config)
        with pytest.raises(ValueError, match=r"'classes' must be at least 1"):
            init_sequence_classifier(rng, config, 0)
        with pytest.raises(
            ValueError, match=r"'tokens' must have at most length = 6 positions, not 7"
        ):
            sequence_classifier([[1] * 6], params, config)


@pytest.mark.parametrize(
    "loss", [sequence_classifier_loss, sequence_classifier_loss_value_and_grad]
)
def test_classes_out_of_range_are_named(rng, loss):
    config = LanguageModelConfig(9, 8, 2)
    params = init_sequence_classifier(rng, config, 3)
    for classes, words in (
        ([3], "hold integers from 0 to 2, not 3"),
        ([0, 1], r"have shape \(1,\)"),
    ):
        with pytest.raises(ValueError, match=rf"'classes' must {words}"):
            loss([[1, 2]], classes, params, config)
    with pytest.raises(ValueError, match=r"'classes' must have shape \(1, 3\), not \(1,\)"):
        loss([[1, 2]], [0.5], params, config)
    with pytest.raises(TypeError, match=r"'classes' must be integer, .*, not complex128"):
        loss([[1, 2]], [[0.2, 0.3j, 0.5]], params, config)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_of_classes(rng, dtype):
    (tokens, params), (config,), _ = classifying()(rng)
    params, eps = trees.mapped(lambda a: a.astype(dtype), params), float(np.finfo(dtype).eps)
    q = rng.dirichlet(np.ones(params.w_head.shape[0]), len(tokens))
    logits = sequence_classifier(tokens, params, config)
    loss, grads = sequence_classifier_loss_value_and_grad(tokens, q, params, config)
    assert loss.dtype == sequence_classifier_loss(tokens, q, params, config).dtype == dtype
    assert loss == pytest.approx(cross_entropy(logits, q), rel=4 * eps)
    assert {leaf.dtype for leaf in flat(grads) if leaf is not None} == {np.dtype(dtype)}
    classes = np.arange(len(tokens)) % q.shape[-1]
    certain = np.eye(q.shape[-1], dtype=dtype)[classes]
    hard, soft = (
        sequence_classifier_loss_value_and_grad(tokens, y, params, config)
        for y in (classes, certain)
    )
    assert hard[0] == pytest.approx(soft[0], rel=4 * eps)
    trees.assert_close(hard[1], soft[1], 64 * eps)


def test_texts_of_class_minus_100_do_not_count(rng):
    config = LanguageModelConfig(9, 8, 2)
    params = init_sequence_classifier(rng, config, 3)
    both = sequence_classifier_loss([[1, 2], [3, 4]], [1, -100], params, config)
    assert both == pytest.approx(sequence_classifier_loss([[1, 2]], [1], params, config))
