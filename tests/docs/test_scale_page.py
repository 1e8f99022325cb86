"""The numbers of docs/scale.md are those of the benchmark's result file."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_page_shows_the_measurements():
    if not (ROOT / "docs" / "scale.md").is_file():
        pytest.skip("the documentation is not part of this checkout")
    place = ROOT / "benchmarks" / "throughput.py"
    spec = importlib.util.spec_from_file_location("throughput", place)
    throughput = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(throughput)
    facts = json.loads((ROOT / "docs" / "results" / "throughput.json").read_text())
    assert facts["billion"] == throughput.billion(facts["sizes"][-1])
    page = (ROOT / "docs" / "scale.md").read_text()
    assert throughput.markdown(facts) in page
