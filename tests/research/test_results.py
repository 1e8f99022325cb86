"""Which committed results are of the current code, and what their pages say of it."""

import json
from pathlib import Path

import pytest

from graphtemper_research import benches, paper, results
from graphtemper_research.harness.digest import digest
from graphtemper_research.harness.outcome import made_by

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_results_of_other_code_are_found(tmp_path):
    (tmp_path / "slope.json").write_text(json.dumps({"code": digest()}))
    (tmp_path / "bound.json").write_text(json.dumps({"code": "0" * 12}))
    (tmp_path / "speed.json").write_text("[{}]")
    assert results.stale(tmp_path) == {"bound.json": "0" * 12, "speed.json": "None"}


def test_committed_pages_name_the_code_of_their_results():
    if not RESULTS.is_dir():
        pytest.skip("the committed results are not in this copy")
    figures = (RESULTS.parent / "results.md").read_text("utf-8")
    for path in RESULTS.rglob("*.json"):
        if path.stem in paper.FIGURES:
            section = figures.split(f"`graphtemper paper {path.stem}`")[1].split("\n")[0]
            assert made_by(json.loads(path.read_text("utf-8"))) in section, path.name
        elif path.stem in benches.MODULES:
            page = path.with_suffix(".md").read_text("utf-8")
            assert made_by(json.loads(path.read_text("utf-8"))) in page, path.name
