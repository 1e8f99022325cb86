"""Which committed results are of the current code, and how a stale one is named."""

import json
import warnings
from pathlib import Path

import pytest

from graphtemper_research import benches, paper, results
from graphtemper_research.harness.cells import outdated
from graphtemper_research.harness.made_by import closure, digest
from graphtemper_research.harness.outcome import Outcome, made_by

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_an_outcome_of_mixed_code_has_no_digest():
    def outcome(comparisons):
        return Outcome("labels", "Labels", {}, comparisons, [], lambda figure: None)

    assert results.stamped(outcome([])).code == digest("graphtemper_research.trials.label_budgets")
    assert results.stamped(outcome(outdated([{"code": "other"}]))).code is None


def test_stale_results_say_why(tmp_path):
    current = digest(results.experiment("slope"))
    (tmp_path / "slope.json").write_text(json.dumps({"code": current}))
    (tmp_path / "bound.json").write_text(json.dumps({"code": "0" * 12}))
    (tmp_path / "concept.json").write_text("{}")
    (tmp_path / "something.json").write_text("{}")
    older = {"code": None, "settings": {"code of the cells": ["1" * 12]}}
    (tmp_path / "leaderboard.json").write_text(json.dumps(older))
    found = results.stale(tmp_path)
    assert set(found) == {"bound.json", "concept.json", "leaderboard.json"}
    assert "measured by code 111111111111" in found["leaderboard.json"]
    assert "made by code 000000000000" in found["bound.json"]
    assert "before results recorded" in found["concept.json"]


def test_committed_pages_name_the_code_of_their_results():
    if not RESULTS.is_dir():
        pytest.skip("the committed results are not in this copy")
    figures = (RESULTS.parent / "results.md").read_text("utf-8")
    for path in RESULTS.rglob("*.json"):
        if results.experiment(path.stem) is None:
            continue
        content = json.loads(path.read_text("utf-8"))
        if path.stem in paper.FIGURES:
            section = figures.split(f"`graphtemper paper {path.stem}`")[1].split("\n")[0]
            assert made_by(content) in section, path.name
        else:
            assert made_by(content) in path.with_suffix(".md").read_text("utf-8"), path.name


def test_every_experiment_has_a_digest():
    names = [*paper.FIGURES, *benches.MODULES]
    digests = {digest(str(results.experiment(name))) for name in names}
    assert len(digests) == len(names)
    library = closure("graphtemper_research.paper.slope")
    assert "graphtemper.theory.finite_degree" in library
    assert not any(name.startswith("graphtemper.monitor") for name in library)


def test_committed_results_of_other_code_are_named():
    """Any change of a module that a figure imports makes its digest another one.

    So this warns; `tests/paper` measures rows of the cheap figures again and compares digits.
    """
    if not RESULTS.is_dir():
        pytest.skip("the committed results are not in this copy")
    found = results.stale(RESULTS)
    page = (RESULTS.parent / "results.md").read_text("utf-8")
    # What was made before results recorded their code, the page names too.
    for name, why in found.items():
        assert "before results" not in why or f"`{name}`: {why}" in page
    if found:
        lines = "; ".join(f"{name} ({why})" for name, why in found.items())
        warnings.warn(f"results of older code: {lines}", stacklevel=1)


@pytest.mark.slow
def test_committed_results_of_cheap_figures_are_fresh():
    found = results.stale(RESULTS)
    again = [name for name in results.CHEAP if f"{name}.json" in found]
    commands = "; ".join(
        f"graphtemper paper {name} --out docs/results --results docs/results.md" for name in again
    )
    assert not again, f"results of other code, run: {commands}"
