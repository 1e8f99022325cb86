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


@pytest.fixture(autouse=True)
def _in_a_folder(doctest_namespace, made, tmp_path, monkeypatch):
    doctest_namespace.update(made)
    monkeypatch.chdir(tmp_path)
