"""Committed results, which stand for full runs where these take too long for every day."""

from pathlib import Path

import pytest

from graphtemper_research.harness.made_by import digest
from graphtemper_research.harness.outcome import read_outcome
from graphtemper_research.results import experiment

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.fixture(scope="session")
def committed():
    """Return a function that reads a committed result, which must be of the current code."""
    if not RESULTS.is_dir():
        pytest.skip("the committed results are not in this copy")

    def read(name):
        content = read_outcome(RESULTS / f"{name}.json")
        again = f"graphtemper paper {name} --out docs/results --results docs/results.md"
        assert content["code"] == digest(experiment(name)), f"a result of other code, run: {again}"
        return content

    return read
