"""The call under "Check yours" on the page of a topic runs, and takes what the page shows of it."""

import importlib

import pytest
import topic_records
import topics
from test_numpy_blocks import TOOLS
from topic_heads import check_call, function, main_names

from dlref import check

RECORDS = topic_records.load()
CALLS = {t.page: t for t in topics.load(RECORDS, RECORDS).values() if check_call(t)}


def test_most_maps_can_be_checked():
    assert len(CALLS) > 110


@pytest.mark.filterwarnings("ignore")  # a formula may divide by zero
@pytest.mark.parametrize("page", CALLS)
def test_the_call_runs(page, monkeypatch):
    """With the formulas as the kernels, at the first case that dlref has for the map."""
    topic, reports = CALLS[page], []

    def at_the_first_case(candidate, op, **options):
        case = next(check.hard_inputs(op, "float64"))
        reports.append(check_all(candidate, op, dtype="float64", cases=[case], **options))
        return reports[-1]

    check_all = check.check_all
    monkeypatch.setattr(check, "check_all", at_the_first_case)
    # what converts has no formula, and is its own kernel
    place = topic.chapter if topic.chapter in TOOLS else f"formulas.{topic.chapter}"
    kernels = importlib.import_module(f"dlref.{place}")
    names = {n: function(topic, n) for n in main_names(topic) if n}
    names |= {f"my_{n}": getattr(kernels, n) for n in names}
    exec(check_call(topic), names)
    assert reports
    for report in reports:
        assert report, str(report)
