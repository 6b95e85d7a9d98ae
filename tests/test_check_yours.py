"""The call under "Check yours" on the page of a topic runs, and takes what the page shows of it."""

import importlib
from types import SimpleNamespace

import pytest
from test_numpy_blocks import TOPICS
from topic_heads import check_call, function, main_names
from topic_records import load

from dlref import check

RECORDS = load()


def as_on_its_page(topic):
    """Return a topic with what decides which of its maps is the main one."""
    record = RECORDS[topic.chapter].topics[topic.name]
    classes = [name for name in topic.names if isinstance(getattr(topic.module, name), type)]
    maps = [name for name in topic.names if name not in classes]
    first = record.first or (topic.name if topic.name in maps else next(iter(maps), ""))
    return SimpleNamespace(**vars(topic) | {"first": first, "classes": classes})


CALLS = {topic.name: topic for topic in map(as_on_its_page, TOPICS) if check_call(topic)}


def test_most_maps_can_be_checked():
    assert len(CALLS) > 110


@pytest.mark.filterwarnings("ignore")  # a formula may divide by zero
@pytest.mark.parametrize("name", CALLS)
def test_the_call_runs(name, monkeypatch):
    """With the formulas as the kernels, at the first case that dlref has for the map."""
    topic, reports = CALLS[name], []

    def at_the_first_case(candidate, op, **options):
        case = next(check.hard_inputs(op, "float64"))
        reports.append(check_all(candidate, op, dtype="float64", cases=[case], **options))
        return reports[-1]

    check_all = check.check_all
    monkeypatch.setattr(check, "check_all", at_the_first_case)
    formulas = importlib.import_module(f"dlref.formulas.{topic.chapter}")
    names = {n: function(topic, n) for n in main_names(topic) if n}
    names |= {f"my_{n}": getattr(formulas, n) for n in names}
    exec(check_call(topic), names)
    assert reports
    for report in reports:
        assert report, str(report)
