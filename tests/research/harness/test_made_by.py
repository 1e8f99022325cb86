"""Which committed results are of the current code, and what makes one stale."""

import json
import warnings
from pathlib import Path

import pytest

from graphtemper_research import benches, paper
from graphtemper_research.harness import made_by

RESULTS = Path(__file__).parents[3] / "docs" / "results"
STUDY = '''"""A study."""
from lib.maths import half


def run():
    from lib import late

    return half(late.ONE)
'''
COMMENTED = '''# Why.
def half(x):
    """Say it."""

    return x / 2
'''


def forget():
    for cached in (made_by.digest, made_by._meaning, made_by._tree, made_by._imports):
        cached.cache_clear()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a function that writes modules of a small library and returns its study's digest."""
    monkeypatch.setattr(made_by, "ROOTS", {"lib": tmp_path})

    def write(modules):
        for name, text in modules.items():
            path = tmp_path / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        forget()
        return made_by.digest("lib.study")

    yield write
    forget()


def test_only_code_that_runs_counts(package):
    half = "def half(x):\n    return x / 2\n"
    before = package({"study": STUDY, "maths": half, "late": "ONE = 1\n", "other": "TWO = 2\n"})
    assert package({"other": "TWO = 3\n"}) == before
    assert package({"maths": COMMENTED}) == before
    assert package({"maths": "def half(x):\n    return x / 3\n"}) != before
    assert package({"maths": half}) == before
    assert package({"late": "ONE = 2\n"}) != before


def test_a_package_passes_names_on(package):
    init = "from lib.tools.cut import saw\nfrom lib.tools.join import glue\n"
    before = package(
        {
            "study": "from lib.tools import saw\n",
            "tools/__init__": init,
            "tools/cut": "saw = 1\n",
            "tools/join": "glue = 1\n",
        }
    )
    assert package({"tools/join": "glue = 2\n"}) == before
    assert package({"tools/cut": "saw = 2\n"}) != before


def test_stale_results_say_why(tmp_path):
    current = made_by.digest(made_by.experiment("slope"))
    (tmp_path / "slope.json").write_text(json.dumps({"code": current}))
    (tmp_path / "bound.json").write_text(json.dumps({"code": "0" * 12}))
    (tmp_path / "concept.json").write_text("{}")
    (tmp_path / "something.json").write_text("{}")
    found = made_by.stale(tmp_path)
    assert set(found) == {"bound.json", "concept.json"}
    assert "made by code 000000000000" in found["bound.json"]
    assert "before results recorded" in found["concept.json"]


def test_every_experiment_has_a_digest():
    names = [*paper.FIGURES, *benches.MODULES]
    digests = {made_by.digest(str(made_by.experiment(name))) for name in names}
    assert len(digests) == len(names)
    library = made_by.closure("graphtemper_research.paper.slope")
    assert "graphtemper.theory.finite_degree" in library
    assert not any(name.startswith("graphtemper.monitor") for name in library)


def test_committed_results_of_cheap_figures_are_fresh():
    if not RESULTS.is_dir():
        pytest.skip("the committed results are not in this copy")
    found = made_by.stale(RESULTS)
    cheap = {f"{name}.json" for name in made_by.CHEAP}
    if others := {name: why for name, why in found.items() if name not in cheap}:
        lines = "; ".join(f"{name} ({why})" for name, why in others.items())
        warnings.warn(f"results of older code: {lines}", stacklevel=1)
    again = [name.removesuffix(".json") for name in found if name in cheap]
    commands = "; ".join(
        f"graphtemper paper {name} --out docs/results --results docs/results.md" for name in again
    )
    assert not again, f"results of other code, run: {commands}"
