"""Options: check_all has a case for each, and finds the kernel that ignores one."""

import inspect
import json

import numpy as np
import pytest
from chapters import CHAPTERS, FORMS
from scipy.special import expit

import dlref
from dlref import activations, attention, check, neurons, positions
from dlref._records import spec_of
from dlref.check._inputs import option_inputs
from dlref.check._oracle.examples import drawn_like

#: What returns more, is called or written to, in place of changing the result.
NOT_TOLD = {"return_lse", "return_weights", "callback", "cache", "chunk", "absorbed", "padding_id"}

#: What changes a map, but not its derivatives: the straight-through estimator.
STRAIGHT_THROUGH = {"hard"}


def maps(chapter):
    """Yield the maps of a chapter whose inputs are known, with their calls and their vjp."""
    module = getattr(dlref, chapter)
    for name in module.__all__:
        f = getattr(module, name)
        if not inspect.isfunction(f) or name.endswith(FORMS):
            continue
        try:
            check.hard_inputs(f, "float64")
        except TypeError:
            continue
        yield f, getattr(module, f"{name}_vjp", None)


def defaults(f):
    parameters = inspect.signature(f).parameters.values()
    own = {
        p.name: p.default
        for p in parameters
        if p.kind == p.KEYWORD_ONLY and p.default is not p.empty
    }
    return own | dict(spec_of(f)[0].fields)  # such as those of BlockOptions


def is_default(value, default):
    return value is default or (np.isscalar(value) and np.isscalar(default) and value == default)


def ignoring(f, key):
    """Return a function that does not hand an option on."""
    return lambda *args, **options: f(*args, **{k: v for k, v in options.items() if k != key})


def is_flagged(judge, f, key, *arguments, **kwargs):
    """Return whether a candidate that ignores an option is called wrong, or refuses the inputs."""
    try:
        return not judge(ignoring(f, key), *arguments, **kwargs)
    except (TypeError, ValueError):
        return True


MAPS = [
    pytest.param(chapter, f, vjp, id=f"{chapter}.{f.__name__}")
    for chapter in CHAPTERS
    for f, vjp in maps(chapter)
]


@pytest.mark.parametrize(("chapter", "f", "vjp"), MAPS)
def test_a_kernel_that_ignores_an_option_is_found(chapter, f, vjp):
    left = defaults(f)
    for case in check.hard_inputs(f, "float64", every_option=True):
        for key, value in case.options.items():
            if key not in left or is_default(value, left[key]):
                continue
            if is_flagged(check.check_forward, f, key, f, *case.inputs, **case.options):
                del left[key]
    message = f"dlref/_records/{chapter}.py: no call of {f.__name__} tells {left.keys()}"
    assert left.keys() <= NOT_TOLD, message


@pytest.mark.broad
@pytest.mark.parametrize(("chapter", "f", "vjp"), MAPS)
def test_dlref_is_right_with_each_option_and_a_vjp_that_ignores_it_is_found(chapter, f, vjp):
    rng = np.random.default_rng(0)
    for name, inputs, options in option_inputs(f, "float32"):
        assert check.check_forward(f, f, *inputs, **options), (f.__name__, name)
        if vjp is None or chapter == "transformer":  # whose vjps test_inputs.py has
            continue
        arguments = (f, drawn_like(f(*inputs, **options), rng), *inputs)
        assert check.check_vjp(vjp, *arguments, **options), (f.__name__, name)
        key = [*options][-1]
        if key in STRAIGHT_THROUGH:
            continue
        assert is_flagged(check.check_vjp, vjp, key, *arguments, **options), (f.__name__, name)


def test_options_that_a_candidate_does_not_take_are_named():
    report = check.check_all(lambda x: x * expit(x), activations.silu)
    assert report
    assert report.skipped_options == ("beta",)
    assert str(report).startswith("silu, float32: right in all cases\noptions not taken: beta\n")
    assert json.loads(report.to_json())["skipped_options"] == ["beta"]
    assert "options not taken: beta" in report.to_html()


def test_a_candidate_that_takes_any_option_has_to_heed_it():
    report = check.check_all(lambda x, **_: x * expit(x), activations.silu)
    alone, beyond = (row.case for row in report.failed)
    assert alone == "the option 'beta'"
    assert beyond.startswith("beyond tiles")
    assert report.causes == {"the option 'beta' is ignored": 2}
    assert not report.skipped_options


def silu(x):
    return x * expit(x)


def silu_of_any_options(x, **options):
    return silu(x, **options)


def slope(dout, x):
    return activations.silu_vjp(dout, x)


def test_options_that_are_refused_by_what_a_candidate_calls_are_not_taken():
    report = check.check_all(silu_of_any_options, activations.silu)
    assert report
    assert report.skipped_options == ("beta",)


@pytest.mark.parametrize("vjp", [slope, activations.silu_vjp])
def test_options_that_one_of_the_forms_does_not_take_are_left_out_of_all(vjp):
    report = check.check_all(silu, activations.silu, vjp=vjp)
    assert report
    assert {row.form for row in report.rows} == {"forward", "vjp"}
    assert report.skipped_options == ("beta",)


@pytest.mark.parametrize("candidate", [expit, max])
def test_what_has_other_arguments_or_no_signature_takes_no_options(candidate):
    report = check.check_all(candidate, activations.hard_sigmoid)
    assert not report
    assert report.skipped_options == ("alpha", "beta")


def test_attention_without_a_window_or_sink():
    def of_keys(q, k, v, *, mask=None, bias=None, is_causal=False, q_offset=0, scale=None,
                softcap=None):  # fmt: skip
        options = {"mask": mask, "bias": bias, "is_causal": is_causal, "q_offset": q_offset}
        return attention.scaled_dot_product_attention(
            q, k, v, **options, scale=scale, softcap=softcap
        )

    report = check.check_all(of_keys, attention.scaled_dot_product_attention)
    assert report
    outputs = ("return_lse", "return_weights")
    assert {*report.skipped_options} == {"window", "sink", "dropout", "indices", *outputs}


def test_an_option_of_a_hard_input_that_is_not_taken_is_left_out():
    report = check.check_all(lambda x: activations.softmax(x), activations.softmax)  # noqa: PLW0108
    assert report
    assert report.skipped_options == ("axis",)
    assert "{'axis': 0}" not in {row.case for row in report.rows}


def test_an_option_without_a_default_has_to_be_taken():
    def alibi(slopes):
        return slopes

    report = check.check_all(alibi, positions.alibi_bias)
    assert not report
    assert "the candidate does not take T, S" in {row.verdict.message for row in report.failed}


def test_every_option_is_true_or_false():
    with pytest.raises(TypeError, match="'every_option' must be True or False"):
        check.hard_inputs(activations.silu, "float32", every_option=1)


def with_another_default(t, dim, *, base=500000.0, **options):
    return positions.timestep_embedding(t, dim, base=base, **options)


def with_another_activation(x, params, *, activation="relu", **options):
    taken = {"tanh": "sigmoid"}.get(activation, activation)
    return neurons.mlp(x, params, activation=taken, **options)


@pytest.mark.parametrize(
    ("op", "kernel", "cause"),
    [
        (
            positions.timestep_embedding,
            with_another_default,
            "base is 500000.0, not 10000.0",
        ),
        (neurons.mlp, with_another_activation, "activation is sigmoid, not tanh"),
    ],
)
def test_another_value_in_the_place_of_one(op, kernel, cause):
    """Cases that are right, since they pass other values of the option, do not refute it."""
    report = check.check_all(kernel, op)
    assert 0 < len(report.failed) < len(report.rows)
    assert report._summary().endswith(f"): {cause}")
