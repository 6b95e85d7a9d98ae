"""Signaling NaN, subclasses of arrays and objects with `__array__`, in every public function."""

import contextlib
import warnings

import numpy as np
import pytest
from cases import SPECS, Problem, applicable, form_of, key_of, public_functions

from dlref.training import gradient_descent, tree_map
from dlref.transformer import (
    LanguageModelConfig,
    encoder_decoder_model,
    encoder_decoder_model_loss_grad,
    init_encoder_decoder_model,
)

FUNCTIONS = dict(public_functions())
SIGNAL = np.array([0x7FF0000000000001], np.uint64).view(np.float64)
#: Formats, each with the bits of a NaN that is signaling.
SIGNALS = {np.float64: (np.uint64, 0x7FF0000000000001), np.float32: (np.uint32, 0x7F800001)}
SIGNALS[np.float16] = np.uint16, 0x7C01


def problems(name):
    return [Problem(key_of(name), call) for call in SPECS[key_of(name)].calls[:3]]


def arrays_of(argument, change):
    """Change every array of an argument, which may be a tuple of them."""
    if isinstance(argument, tuple):
        return tuple(arrays_of(part, change) for part in argument)
    return change(argument) if isinstance(argument, np.ndarray) else argument


def in_format(argument, kind):
    """Round every array of floats in an argument, and in tuples."""
    return arrays_of(argument, lambda a: a.astype(kind) if a.dtype == np.float64 else a)


def variants(name, change, kind=np.float64):
    """Yield the function called with one argument or option after the other changed."""
    for problem in problems(name):
        arguments = [in_format(a, kind) for a in problem.arguments(form_of(name))]
        options = {key: in_format(a, kind) for key, a in applicable(name, problem).items()}
        for place, argument in enumerate(arguments):
            changed = list(arguments)
            changed[place] = arrays_of(argument, change)
            yield lambda at=tuple(changed), options=options: FUNCTIONS[name](*at, **options)
        for key, value in options.items():
            if isinstance(value, np.ndarray):
                other = options | {key: change(value)}
                yield lambda at=tuple(arguments), other=other: FUNCTIONS[name](*at, **other)


def signaling(array):
    """Return an array of floats whose first number is a signaling NaN."""
    if array.dtype.type not in SIGNALS or not array.size:
        return array
    kind, bits = SIGNALS[array.dtype.type]
    spoilt = array.copy()
    spoilt.reshape(-1)[:1].view(kind)[...] = bits
    return spoilt


@pytest.mark.broad
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", SIGNALS)
def test_a_signalling_nan_leaks_no_warning(name, kind):
    for call in variants(name, signaling, kind):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with contextlib.suppress(ValueError):  # refused, as every NaN
                call()


@pytest.mark.broad
def test_a_signalling_nan_in_a_model_leaks_no_warning():
    config = LanguageModelConfig(9, 8, 2)
    params = init_encoder_decoder_model(np.random.default_rng(0), config)
    count = 0

    def number(_):
        nonlocal count
        count += 1
        return np.zeros(())

    tree_map(number, params)
    for place in range(count):
        left = iter(range(count))
        spoilt = tree_map(
            lambda a, left=left, at=place: signaling(a) if next(left) == at else a, params
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            encoder_decoder_model([1, 2], [1, 2], spoilt, config)
            encoder_decoder_model_loss_grad([1, 2], [1, 2, 3], spoilt, config)


@pytest.mark.parametrize(
    ("loss", "start", "grad"),
    [(1.0, 1.0, SIGNAL), (SIGNAL[0], 1.0, np.ones(1)), (1.0, SIGNAL, np.ones(1))],
)
def test_a_signalling_nan_in_gradient_descent_leaks_no_warning(loss, start, grad):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradient_descent(lambda _: (loss, grad), np.full(1, start), learning_rate=0.1, steps=2)


class Watching(np.ndarray):
    """A subclass that notes which functions of NumPy are dispatched to it."""

    seen: list = []  # noqa: RUF012

    def __array_function__(self, function, types, arguments, options):
        Watching.seen.append(function.__name__)
        return super().__array_function__(function, types, arguments, options)

    def __array_ufunc__(self, ufunc, method, *arguments, **options):
        Watching.seen.append(ufunc.__name__)
        plain = [
            np.asarray(a.view(np.ndarray)) if isinstance(a, Watching) else a for a in arguments
        ]
        return getattr(ufunc, method)(*plain, **options)


@pytest.mark.broad
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_subclass_is_converted_before_anything_is_computed(name):
    for call in variants(name, lambda a: a.view(Watching)):
        Watching.seen.clear()
        call()
        assert Watching.seen == []


class Foreign:
    """An object that knows how to become an array, and counts how often it had to."""

    count = 0

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        Foreign.count += 1
        return np.array(self.array, dtype=dtype)


@pytest.mark.broad
@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_object_is_converted_once(name):
    made = 0

    def foreign(array):
        nonlocal made
        made += 1
        return Foreign(array)

    for call in variants(name, foreign):
        Foreign.count = 0
        call()
        assert Foreign.count <= made
        made = 0
