"""A changed trial makes its cells stale; a changed command does not."""

import shutil

import pytest

from graphtemper_research.harness import code_digest
from graphtemper_research.harness.source_digest import source_digest


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """Return a copy of the research package that the digests read."""
    package = tmp_path / "graphtemper_research"
    shutil.copytree(code_digest.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code_digest, "PACKAGE", package)
    source_digest.cache_clear()
    return package


def changed(package, name):
    """Change a module and return which of the two digests differ."""
    before = code_digest.code_digest(), code_digest.whole_digest()
    with (package / name).open("a") as stream:
        stream.write("\n# changed\n")
    source_digest.cache_clear()
    after = code_digest.code_digest(), code_digest.whole_digest()
    return [one != other for one, other in zip(before, after, strict=True)]


def test_what_makes_cells_stale(copy):
    assert changed(copy, "trials/negative_controls.py") == [True, True]
    assert changed(copy, "leaderboard/methods.py") == [True, True]
    assert changed(copy, "commands/bench.py") == [False, True]
    assert changed(copy, "explorer/specifications.py") == [False, True]
