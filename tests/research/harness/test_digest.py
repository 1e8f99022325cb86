"""What changes the digest of the code that measures, and what does not."""

import pytest

from graphtemper_research.harness import digest

HALF = "def half(x):\n    return x / 2\n"
COMMENTED = '''# Why.
def half(x):
    """Say it."""

    return x / 2
'''


@pytest.fixture
def written(tmp_path):
    """Return a function that writes a module of a small library and returns its digest."""

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
        return digest.of({"graphtemper": tmp_path})

    return write


def test_only_code_that_measures_counts(written):
    before = written("card/maths.py", HALF)
    assert written("card/maths.py", COMMENTED) == before
    assert written("cli/answers.py", HALF) == before
    assert written("card/maths.py", HALF.replace("2", "3")) != before
    assert written("card/maths.py", HALF) == before


def test_names_count(written, tmp_path):
    before = written("card/maths.py", HALF)
    (tmp_path / "card" / "maths.py").unlink()
    assert written("card/numbers.py", HALF) != before


def test_what_does_not_measure_exists():
    """A folder that was renamed would count again without anybody noticing."""
    for name in digest.NOT_MEASURING:
        package, _, rest = name.partition("/")
        assert (digest.ROOTS[package] / rest).exists(), name
