"""The objects that the pages assume, in a temporary folder."""

import sys
from pathlib import Path

import pytest

collect_ignore = ["conf.py", "_build", "_ext", "_generated", "api/generated", "gallery"]


@pytest.fixture(scope="session")
def made():
    """Return the objects, which are made once."""
    sys.path.insert(0, str(Path(__file__).parent / "_ext"))
    import site_objects

    return site_objects.made()


# Pages on graphs that are not part of the repository.
GRAPHS = {
    "month_by_month.md": [f"covid_us_2020_{month:02}" for month in range(7, 13)],
    "natural_benchmark.md": ["villages_1", "villages_2"],
}


@pytest.fixture(autouse=True)
def _graphs_are_here(request):
    from graphtemper_research.graphs import datasets

    for name in GRAPHS.get(request.path.name, ()):
        if datasets.find(name) is None:
            pytest.skip(f"the graph {name} is not on this machine")


@pytest.fixture(autouse=True)
def _in_a_folder(doctest_namespace, made, tmp_path, monkeypatch):
    doctest_namespace.update(made)
    monkeypatch.chdir(tmp_path)
