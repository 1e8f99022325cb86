"""`graphtemper data`."""

import json

import pytest
from tests.helpers import run_command

from graphtemper import datasets


def test_data_list():
    entries = json.loads(run_command("data", "list", "--json").stdout)
    assert {"cora", "roman_empire", "questions"} <= {entry["name"] for entry in entries}
    assert all(entry["licence"] for entry in entries)


@pytest.mark.parametrize("columns", [30, 50, 64, 80, 120])
def test_numbers_are_complete_on_any_terminal(columns):
    result = run_command("data", "list", COLUMNS=str(columns))
    assert result.returncode == 0, result.stderr
    assert max(len(line.rstrip()) for line in result.stdout.splitlines()[1:]) <= columns
    words = set(result.stdout.replace(",", " ").split())
    assert "…" not in result.stdout
    for name, entry in datasets.CATALOGUE.items():
        assert {name, str(entry.nodes), str(entry.edges)} <= words
