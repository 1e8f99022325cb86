"""The watch on trial: a small run, and what its numbers mean."""

import pytest

from graphtemper.errors import InputError
from graphtemper_research.trials import monitoring


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    return monitoring.run(tmp_path_factory.mktemp("watch"), ["drift"], quick=True)


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


def test_snapshots_are_the_same_when_loaded_again(monkeypatch):
    monkeypatch.setattr(monitoring, "QUICK_COMPOSITIONS", 0)
    course = monitoring._course("drift", quick=True)
    shot = course.snapshots[50]
    assert shot.load().edges.tobytes() == shot.load().edges.tobytes()
    assert shot.load().edges.tobytes() != course.snapshots[51].load().edges.tobytes()


def test_pages_and_tables(outcome):
    assert "| drift 1 |" in monitoring.render(outcome)
    assert len(monitoring.shown(outcome)["drift"]) < 40


def test_unknown_series(tmp_path):
    with pytest.raises(InputError, match="there is no series"):
        monitoring.run(tmp_path, ["rain"])
