"""Cells on disk: kept where they are whole, measured again where they are not."""

import json

import pytest

from graphtemper_research.harness import cells
from graphtemper_research.trials.trial import SCORES

HEAD = {"schema": "test/1", "seed": 1}
EXPECTED = [{"shift": "none", "method": "a"}, {"shift": "none", "method": "b"}]


def rows():
    return [dict.fromkeys(SCORES, 0.5) | wanted for wanted in EXPECTED]


@pytest.fixture
def finish(tmp_path):
    count = []

    def measure(show):
        count.append(show)
        return rows()

    def run(head=HEAD, expected=EXPECTED):
        found = cells.finish(tmp_path, "cell", head, expected, measure)
        return found, len(count)

    return run


def test_a_finished_cell_is_not_measured_again(finish, tmp_path):
    first, count = finish()
    assert count == 1
    assert json.loads((tmp_path / "cell.json").read_text()) == first
    assert finish() == (first, 1)
    assert finish(HEAD | {"seed": 2})[1] == 2  # another protocol


def without_column(cell):
    del cell["rows"][1]["ece"]


def fewer_rows(cell):
    del cell["rows"][1]


def other_method(cell):
    cell["rows"][1]["method"] = "c"


def no_rows(cell):
    del cell["rows"]


def rows_of_text(cell):
    cell["rows"] = ["a", "b"]


@pytest.mark.parametrize(
    "damage", [without_column, fewer_rows, other_method, no_rows, rows_of_text]
)
def test_a_damaged_cell_is_measured_again(finish, tmp_path, damage):
    first, _ = finish()
    cell = json.loads(json.dumps(first))
    damage(cell)
    (tmp_path / "cell.json").write_text(json.dumps(cell))
    assert finish() == (first, 2)


@pytest.mark.parametrize("text", ['{"schema": ', "", "[]", "7", "[" * 100_000, "\0"])
def test_what_is_not_a_cell_is_measured_again(finish, tmp_path, text):
    (tmp_path / "cell.json").write_text(text)
    assert finish()[1] == 1


def test_cells_of_other_code_are_counted(finish):
    first, _ = finish()
    assert cells.outdated([first]) == []
    (line,) = cells.outdated([first, first | {"code": "older"}])
    assert line.measured == 1
    assert line.met is None


def test_progress_carries_the_title(tmp_path):
    seen = []

    def measure(show):
        show(3, 7)
        return rows()

    cells.finish(tmp_path, "cell", HEAD, EXPECTED, measure, lambda *told: seen.append(told))
    assert seen == [("cell", 3, 7)]
