"""A sample of the battery: a few faults at every public function, others for each."""

import copy
import functools
import random
import subprocess
import sys
from pathlib import Path

import battery
import numpy as np
import pytest

from dlref import check, recurrent, training, transformer

#: How many trials of a kind each function meets; the threads and processes have tests of their own.
SAMPLE = {"bad arrays": 3, "bad options": 2, "extreme values": 1, "odd memory": 1}

#: Kinds of trials that have tests of their own.
ALONE = ("eight threads", "other processes")


def trials_by_function():
    found = {}
    for kind, key, fault, where in battery.trials():
        by_kind = found.setdefault(key.split("/")[0], {})
        by_kind.setdefault(kind, []).append((kind, key, fault, where))
    return found


TRIALS = trials_by_function()


def half_of_them_nightly(names):
    """Return names as parameters of a test, every second one for each night."""
    return [
        pytest.param(name, marks=[pytest.mark.broad] * (n % 2))
        for n, name in enumerate(sorted(names))
    ]


@pytest.mark.parametrize("name", half_of_them_nightly(TRIALS))
def test_withstands(name):
    rng = random.Random(name)  # the same for a function, however many others there are
    for kind, count in SAMPLE.items():
        of_kind = TRIALS[name].get(kind, [])
        for _, key, fault, where in rng.sample(of_kind, min(count, len(of_kind))):
            wrong = battery.outcome(kind, battery.cases()[key], fault, where)
            assert not wrong, (kind, key, fault, where)


@pytest.mark.parametrize("name", random.Random(0).sample(sorted(TRIALS), 40))
def test_result_can_be_copied(name):
    key = TRIALS[name]["copies of results"][0][1]
    assert not battery.outcome("copies of results", battery.cases()[key], "", None)


def test_every_method_of_a_public_class_has_a_call():
    """They are found by inspection; a new one fails here until it has arguments to try."""
    assert battery.calls.methods() == battery.calls.method_calls().keys()
    assert {"attention.KVCache", "attention.KVCache.append"} <= TRIALS.keys()


def of_method(name):
    """Return all trials of a method, but for threads and processes."""
    found = TRIALS[name].items()
    return [trial for kind, some in found for trial in some if kind not in ALONE]


@pytest.mark.parametrize("name", battery.calls.method_calls())
def test_methods_withstand_all_faults(name):
    for kind, key, fault, where in of_method(name):
        wrong = battery.outcome(kind, battery.cases()[key], fault, where)
        assert not wrong, (kind, key, fault, where)


@pytest.mark.parametrize("name", battery.calls.method_calls())
def test_errors_of_methods_name_the_option(name):
    for _, key, fault, where in TRIALS[name].get("bad options", []):
        case = battery.cases()[key]
        try:
            case.run(options={**case.options, where: battery.VALUES[fault]()})
        except (TypeError, ValueError) as error:
            assert where in str(error)  # noqa: PT017


@pytest.mark.parametrize("path", [3, 2.5, True, b"a", ["a"], np.ones(2), object()])
def test_a_report_is_written_to_no_such_path(path):
    report = battery.calls.OBJECTS["check.CheckReport"]()
    for write in (report.to_html, report.to_json):
        with pytest.raises(TypeError, match="Argument 'path' must be the name of a file"):
            write(path)


def test_what_is_appended_shares_no_memory_with_the_cache():
    cache = battery.calls.OBJECTS["attention.KVCache"]()
    k, v = np.ones((2, 2, 1, 3, 4))
    before = cache.keys.copy()
    keys, values = cache.append(k, v)
    k[...] = v[...] = 7
    assert not np.shares_memory(keys, k)
    assert not np.shares_memory(values, v)
    assert not keys.flags.writeable
    assert not cache.keys.flags.writeable
    np.testing.assert_array_equal(keys[..., -1, :], 1)
    twin = copy.deepcopy(cache)
    twin.append(k, v)
    assert (len(cache), len(twin)) == (6, 9)
    for bad in (1j * k, np.full(k.shape, "a"), np.ma.masked_array(k, mask=True), k[..., :-1], None):
        for given in ((bad, v), (k, bad)):
            with pytest.raises((TypeError, ValueError), match=r"Argument '[kv]'"):
                cache.append(*given)
    np.testing.assert_array_equal(cache.keys[..., :3, :], before)  # as it was before the errors
    assert len(cache) == 6


class TestFaultsThatWereFound:
    """Each was found by the battery, and mended."""

    params = (np.ones(3), np.ones(2))

    def test_state_with_a_missing_part(self):  # corrupted the memory of the process
        state = training.MomentumState(1, (np.zeros(3), None))
        with pytest.raises(ValueError, match="'state'"):
            training.momentum_step(self.params, self.params, state, learning_rate=0.1)

    def test_state_of_another_dtype(self):
        state = training.MomentumState(1, np.zeros(3, complex))
        with pytest.raises(TypeError, match="'state'"):
            training.momentum_step(np.ones(3), np.ones(3), state, learning_rate=0.1)

    @pytest.mark.parametrize(
        ("step", "flag"), [(training.rmsprop_step, "centered"), (training.adam_step, "amsgrad")]
    )
    def test_flag_that_is_an_array(self, step, flag):
        with pytest.raises(TypeError, match=flag):
            step(np.ones(3), np.ones(3), None, learning_rate=0.1, **{flag: np.ones(3)})

    def test_direction_that_is_an_array(self):
        rng = np.random.default_rng(0)
        weights = rng.normal(size=(2, 3)), rng.normal(size=(2, 2))
        with pytest.raises(TypeError, match="reverse"):
            recurrent.rnn(np.ones((4, 3)), None, *weights, reverse=np.eye(2))

    def test_callback_that_cannot_be_called(self):
        with pytest.raises(TypeError, match="'callback'"):
            training.gradient_descent(
                lambda p: (0.0, p), np.ones(2), learning_rate=0.1, steps=1, callback="print"
            )

    def test_gradients_of_integers_and_long_doubles(self):
        with pytest.raises(TypeError, match="inputs"):
            check.check_gradients(np.sin, lambda u, x: u, np.ones(2, np.longdouble))

    def test_length_penalty_that_no_length_survives(self):
        with pytest.raises(ValueError, match="'length_penalty'"):
            transformer.beam_search(
                [0], None, None, steps=1, beams=2, stop=None, length_penalty=1e300
            )

    @pytest.mark.parametrize(
        "trial",
        [
            ("bad options", "transformer.decoder_block_vjp/0/float64", "infinite", "scale"),
            ("extreme values", "transformer.decoder_vjp/0/float32", "largest", 0),
        ],
    )
    def test_no_warning_from_the_gradients_of_a_block(self, trial):
        kind, key, fault, where = trial
        assert not battery.outcome(kind, battery.cases()[key], fault, where)

    def test_no_warning_where_a_product_is_not_a_number(self):
        gap = functools.partial(check.adjoint_gap, rng=np.random.default_rng(0))
        with np.errstate(all="raise"):
            assert np.isnan(gap(lambda _, v: v, lambda u, x: u * x, np.full(3, np.inf)))


def test_finds_a_planted_fault(monkeypatch):
    """What loses an answer, raises another error or takes too long is seen, and reduced."""
    case = battery.cases()["activations.softmax/0/float64"]
    faulty = {
        "IndexError": lambda x, **_: x[(0,) * 9],
        "accepted": lambda x, **_: np.zeros(3),
        "RuntimeWarning": lambda x, **_: np.exp(np.full(3, 1e9)),
    }
    for word, f in faulty.items():
        monkeypatch.setattr(battery.calls, "function", lambda _, f=f: f)
        assert word in battery.outcome("bad arrays", case, "complex", 0)
    small = battery.reduced("bad arrays", case, "complex", 0)
    assert battery.arrays(small.arguments)[0].size == 1


def test_sees_an_answer_that_is_lost():
    large, true = np.array([1e300, 1.0]), np.array([1e300, 2.0], np.longdouble)
    lost = functools.partial(battery.lost, want=true, plain=true, noise=0)
    assert lost(large) == ""  # right beside the largest number of the answer
    assert "inf" in lost(np.array([np.inf, 2.0]))
    assert "0 in place" in lost(np.zeros(2))
    assert "2.e+300" in lost(np.array([2e300, 2.0]))
    assert battery.lost(np.array([2e300, 2.0]), true, 3 * true, 0) == ""  # the formula is no better


def test_runs_and_resumes(tmp_path, monkeypatch):
    """A run that is stopped goes on where it was, and says how many failed."""
    pytest.importorskip("tqdm")
    script, results = Path(battery.__file__), tmp_path / "battery.jsonl"
    run = [sys.executable, str(script), "--only", "bad arrays/activations.relu/", "--results"]
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))  # as tox does
    first = subprocess.run([*run, str(results)], capture_output=True, text=True, check=True)
    lines = results.read_text().splitlines()
    assert f"{len(lines) // 2} trials, 0 failed" in first.stdout
    subprocess.run([*run, str(results)], capture_output=True, text=True, check=True)
    assert results.read_text().splitlines() == lines
