"""What changes the digest of an experiment's code, and what does not."""

import pytest

from graphtemper_research.harness import made_by

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
