"""A model watched over time: a small run, and what its numbers mean."""

import json

import pytest
from tests.helpers import raises

from graphtemper_research.trials import monitoring

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def finished(tmp_path_factory, quick):
    folder = tmp_path_factory.mktemp("watch")
    return folder, quick(monitoring.BENCH, folder, ["drift"])


@pytest.fixture(scope="module")
def outcome(finished):
    return finished[1]


def test_the_alarm_comes_after_the_change(outcome):
    positions = [k for k, row in enumerate(outcome.rows) if row["alarm"]]
    assert positions
    assert positions[0] >= 30  # the drift begins there, of 100
    late = next(c for c in outcome.comparisons if "from the change" in c.quantity)
    assert late.measured == positions[0] - 30


def test_accuracy_falls_and_the_estimate_follows(outcome):
    first, last = outcome.rows[:10], outcome.rows[-10:]
    for key in ("true", "said"):
        assert sum(row[key] for row in first) > sum(row[key] for row in last) + 0.5


def test_snapshots_are_the_same_when_loaded_again():
    course = monitoring._course("drift", quick=True, compositions=0)
    shot = course.snapshots[50]
    assert shot.load(2).edges.tobytes() == shot.load(2).edges.tobytes()
    assert shot.load(2).edges.tobytes() != course.snapshots[51].load(2).edges.tobytes()


def test_pages_and_tables(outcome):
    assert "| drift 1 |" in monitoring.BENCH.page(outcome.to_dict())
    assert len(monitoring.BENCH.shown(outcome.to_dict())["drift"]) < 40


def test_a_finished_series_is_not_followed_again(finished, from_cells):
    folder, outcome = finished
    assert from_cells(monitoring.BENCH, folder, ["drift"]).to_dict() == outcome.to_dict()


def test_costs_are_stated_for_a_long_run_that_was_not_interrupted(finished):
    folder, _ = finished
    cell = json.loads((folder / "cells" / "drift.json").read_text())
    assert "drift: CPU seconds in all" not in quantities(cell)
    cell["quick"] = False
    bars = quantities(cell)
    assert bars["drift: CPU seconds in all"].measured == sum(row["seconds"] for row in cell["rows"])
    assert bars["drift: growth of memory, GB"].measured == cell["rows"][-1]["growth"]
    cell["rows"][0]["seconds"] = None  # followed by an earlier run
    assert "drift: CPU seconds in all" not in quantities(cell)


def quantities(cell):
    return {bar.quantity: bar for bar in monitoring.BENCH.outcome([cell]).comparisons}


def test_unknown_series(tmp_path, quick):
    with raises("choice"):
        quick(monitoring.BENCH, tmp_path, ["rain"])
