"""Kernels that are right with each option alone: they are wrong with two, and called so."""

import inspect
import itertools

import numpy as np
import pytest
from chapters import CHAPTERS, FORMS

import dlref
from dlref import attention as att
from dlref import check, losses, training, transformer
from dlref._records._spec import INSEPARABLE, SEPARABLE
from dlref.check import _candidates
from dlref.check._inputs import joint_inputs, large_inputs
from dlref.check._oracle.pairwise_options import pairwise_cases


def z_loss_of_ignored(x, target, weight=None, ignore_index=-100, z_loss=0.0, reduction="mean"):
    options = {"weight": weight, "ignore_index": ignore_index}
    right = losses.cross_entropy(x, target, **options, z_loss=z_loss, reduction=reduction)
    if reduction != "sum" or target.ndim == x.ndim:
        return right
    z = np.log(np.exp(x).sum(-1))[target == ignore_index]
    return (right + z_loss * (z**2).sum()).astype(x.dtype)


def of_all_tokens(log_p, old, advantage, clip=0.2, kind="ppo", mask=None):
    """Take the mean over tokens, where the mean of the sequences' means is due."""
    if kind == "grpo":
        kind = "ppo"
    return losses.policy_loss(log_p, old, advantage, clip=clip, kind=kind, mask=mask)


def dampened_at_first(p, g, state, *, learning_rate, momentum=0.9, dampening=0.0):
    options = {"learning_rate": learning_rate, "momentum": momentum, "dampening": dampening}
    if state is not None:
        return training.momentum_step(p, g, state, **options)
    g = training.tree_map(lambda a: (1 - a.dtype.type(dampening)) * a, g)
    return training.momentum_step(p, g, None, learning_rate=learning_rate, momentum=momentum)


def nucleus_without_temperature(logits, temperature=1.0, top_p=None):
    kept = transformer.next_token_probabilities(logits, top_p=top_p) > 0
    p = kept * transformer.next_token_probabilities(logits, temperature=temperature)
    return p / p.sum(-1, keepdims=True)


def bias_of_the_first_row(dout, q, k, v, bias=None):
    """Leave out the sum over the batch, where the bias has an axis of length one for it."""
    grads = att.scaled_dot_product_attention_vjp(dout, q, k, v, bias=bias)
    if bias is None or bias.ndim < 4 or len(bias) == len(q):
        return grads
    first = att.scaled_dot_product_attention_vjp(dout[:1], q[:1], k[:1], v[:1], bias=bias)
    return *grads[:3], first[3]


def transposed_bias(q, k, v, bias=None):
    if bias is not None and bias.shape[-1] == bias.shape[-2]:
        bias = np.swapaxes(bias, -1, -2)
    return att.scaled_dot_product_attention(q, k, v, bias=bias)


CANDIDATES = [
    (losses.cross_entropy, z_loss_of_ignored, None),
    (losses.policy_loss, of_all_tokens, None),
    (training.momentum_step, dampened_at_first, None),
    (transformer.next_token_probabilities, nucleus_without_temperature, None),
    (att.scaled_dot_product_attention, transposed_bias, None),
    (att.scaled_dot_product_attention, None, bias_of_the_first_row),
]


@pytest.mark.parametrize("row", CANDIDATES, ids=lambda row: (row[1] or row[2]).__name__)
def test_a_kernel_that_is_wrong_with_two_options(row, monkeypatch):
    op, candidate, vjp = row
    monkeypatch.setattr(_candidates, "cause_of", lambda *_: "")  # whatever the cause is
    report = check.check_all(candidate, op, vjp=vjp)
    assert not report
    assert all(
        row.case.startswith((SEPARABLE, INSEPARABLE, "one bias", "beyond tiles"))
        for row in report.failed
    )


#: Maps some pairs of whose options need other parameters, in nested tuples.
OTHER_PARAMETERS = {
    *("multi_head_attention", "language_model", "language_model_loss", "mlp_loss", "mlp_loss_hvp")
}


def maps(chapter):
    module = getattr(dlref, chapter)
    for name in module.__all__:
        f = getattr(module, name)
        if inspect.isfunction(f) and not name.endswith(FORMS) and name not in OTHER_PARAMETERS:
            yield f


#: Options that a map does not take together.
EXCLUSIVE = {("dpo_loss", ("kind", "label_smoothing"))}


@pytest.mark.parametrize("chapter", [name for name in CHAPTERS if name != "check"])
def test_every_two_options_stand_together_in_some_case(chapter):
    for f in maps(chapter):
        try:
            joint = [*joint_inputs(f, "float32")]
        except TypeError:  # nothing is known of its inputs
            continue
        cases = *joint, *check.hard_inputs(f, "float32", every_option=True)
        key_sets = [case.options.keys() for case in (*cases, *large_inputs(f, "float32"))]
        known = inspect.signature(f).parameters.values()
        optional = {p.name for p in known if p.kind == p.KEYWORD_ONLY and p.default is not p.empty}
        used = sorted(optional.intersection(*[set().union(*key_sets)]))
        for pair in itertools.combinations(used, 2):
            there = any({*pair} <= keys for keys in key_sets)
            assert there or (f.__name__, pair) in EXCLUSIVE, (f.__name__, pair)
        names = [case.name for case in joint]
        assert len({*names}) == len(names)


def test_options_that_exclude_each_other_stand_together_by_two():
    def f(x, *, a=0, b=0, c=0):
        if a and b:
            raise ValueError
        return x + a + b + c

    x = np.ones(3)
    cases = [("none", (x,), {}), *(("the option " + key, (x,), {key: 1}) for key in "abc")]
    names = [name for name, _, _ in pairwise_cases(f, cases, {*"abc"}, [])]
    assert names == ["the options a and c together", "the options b and c together"]
    assert [*pairwise_cases(f, cases[2:], {*"abc"}, [{"b": 1, "c": 1}])] == []
    many = [(str(i), (x,), {f"o{i}": i}) for i in range(7)]
    (case,) = pairwise_cases(lambda x, **_: x, many, {f"o{i}" for i in range(7)}, [])
    assert case[0] == "all of the options o0, o1, o2, o3, 3 more together"


def test_forms_have_no_joint_cases_of_their_own():
    assert [*joint_inputs(att.scaled_dot_product_attention_vjp, "float32")] == []


def test_inputs_that_need_options_are_for_kernels_that_take_them():
    """As the weights of a norm of queries are, which are a part of the parameters."""
    names = [case.name for case in joint_inputs(att.multi_head_attention, "float32")]
    assert {name.startswith(INSEPARABLE) for name in names} == {True, False}

    def heads(x_q, x_kv, p, num_heads):
        assert p.q_norm is None
        return att.multi_head_attention(x_q, x_kv, p, num_heads=num_heads)

    assert check.check_all(heads, att.multi_head_attention)
