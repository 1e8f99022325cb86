"""Cells on disk: kept where they are whole, measured again where they are not."""

import json
from functools import partial
from itertools import count

import pytest
from tests.helpers import raises

from graphtemper_research.harness import cells
from graphtemper_research.harness.cells import Case

HEAD = {"schema": "test/1", "seed": 1}
ROWS = [{"shift": "none", "method": name, "ece": 0.5} for name in "ab"]


@pytest.fixture
def finish(tmp_path, monkeypatch):
    """Return a function that finishes a cell, in a world where every cell takes two seconds."""
    calls = []
    for clock in ("perf_counter", "process_time"):
        ticks = count(0.0, 2.0)
        monkeypatch.setattr(cells, clock, partial(next, ticks))

    def measure(show):
        calls.append(show)
        return ROWS

    def run(head=HEAD, **options):
        case = Case("cell", head, measure)
        return cells.finish(case, tmp_path, **options), len(calls)

    return run


def test_a_finished_cell_is_not_measured_again(finish, tmp_path):
    first, times = finish()
    assert times == 1
    assert (first["wall_seconds"], first["cpu_seconds"]) == (2.0, 2.0)
    stored = json.loads((tmp_path / "cell.json").read_text())
    assert stored == first
    assert finish() == (first, 1)
    assert finish(HEAD | {"seed": 2})[1] == 2  # another protocol


@pytest.mark.parametrize("text", ['{"schema": ', "", "[]", "7", "[" * 100_000, "\0"])
def test_what_is_not_a_cell_is_measured_again(finish, tmp_path, text):
    (tmp_path / "cell.json").write_text(text)
    assert finish()[1] == 1


def test_cells_of_other_code_are_measured_again_and_left_out(finish, tmp_path, monkeypatch):
    first, _ = finish()
    monkeypatch.setattr(cells, "key", lambda *modules: "newer")
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "older.json").write_text((tmp_path / "cell.json").read_text())
    with raises("empty"):
        cells.finished(tmp_path, "test/1")
    again, times = finish()
    assert times == 2
    assert again == first | {"code": "newer"}
    assert finish()[1] == 2


def test_progress_carries_the_title(tmp_path):
    calls = []

    def measure(show):
        show(3, 7)
        return ROWS

    case = Case("cell", HEAD, measure)
    cells.finish(case, tmp_path, lambda *arguments: calls.append(arguments))
    assert calls == [("cell", 3, 7)]


def test_a_case_of_a_trial_can_be_pickled():
    import pickle

    from graphtemper_research.harness.runner import Request
    from graphtemper_research.trials import negative_controls

    (case,), _ = negative_controls.BENCH.cases(Request(None, ["cora"]))
    work = pickle.loads(pickle.dumps(case)).measure
    assert isinstance(work, partial)


@pytest.mark.parametrize("text", ["{", "[]", '["rows"]'])
def test_a_damaged_cell_is_named_where_finished_ones_are_collected(finish, tmp_path, text):
    cell, _ = finish()
    (tmp_path / "cells").mkdir()
    (tmp_path / "cell.json").rename(tmp_path / "cells" / "cell.json")
    (found,) = cells.finished(tmp_path, "test/1")
    assert found["rows"] == cell["rows"]
    (tmp_path / "cells" / "damaged.json").write_text(text)
    with raises("damaged"):
        cells.finished(tmp_path, "test/1")
