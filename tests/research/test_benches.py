"""Every committed page of a bench is what its committed JSON file says."""

import pickle
from pathlib import Path

import pytest

from graphtemper_research import benches
from graphtemper_research.harness.outcome import read_outcome
from graphtemper_research.harness.runner import Request
from graphtemper_research.trials import graph_names

RESULTS = Path(__file__).parents[2] / "docs" / "results"
FILES = {path.stem: path for name in benches.MODULES for path in RESULTS.rglob(f"{name}.json")}


@pytest.mark.parametrize("name", FILES)
def test_the_page_is_what_its_file_says(name):
    bench, content = benches.load(name), read_outcome(FILES[name])
    assert bench.name == content["name"] == name
    assert bench.title == content["title"]
    assert bench.page(content) == FILES[name].with_suffix(".md").read_text("utf-8")


def test_every_committed_outcome_of_a_trial_has_its_bench():
    assert {path.stem for path in (RESULTS / "atlas").glob("*.json")} < set(benches.MODULES)


@pytest.mark.parametrize("name", benches.MODULES)
def test_other_processes_can_measure_every_case(name, tmp_path, monkeypatch):
    monkeypatch.setattr(graph_names, "present", lambda names: (list(names), []))
    cases, _ = benches.load(name).cases(Request(tmp_path))
    assert [case.title for case in pickle.loads(pickle.dumps(cases))]
