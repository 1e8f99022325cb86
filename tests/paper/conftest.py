"""Committed results: full runs take too long for every day, so that samples of them are run."""

from pathlib import Path

import pytest

from graphtemper_research.harness.outcome import read_outcome

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.fixture(scope="session")
def committed():
    """Return a function that reads a committed result.

    Rows that are measured again must be found in it, digit by digit.
    """
    if not RESULTS.is_dir():
        pytest.skip("the committed results are not in this copy")
    return lambda name: read_outcome(RESULTS / f"{name}.json")


@pytest.fixture(scope="session")
def holds():
    """Return a function that asserts that a result has a row with these numbers."""

    def near(value, other):
        if isinstance(value, float):
            return other == pytest.approx(value, rel=1e-4, abs=1e-7)
        return other == value

    def check(content, row):
        found = [item for item in content["rows"] if row.keys() <= item.keys()]
        assert any(all(near(row[key], item[key]) for key in row) for item in found), row

    return check
