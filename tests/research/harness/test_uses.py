"""Which code a cell uses, tried on a copy of the library: what makes it stale, what does not."""

import re
import shutil

import pytest

from graphtemper_research import benches
from graphtemper_research.harness import uses

BENCH = "graphtemper_research.trials.negative_controls"
PACKAGES = ("graphtemper", "graphtemper_research")


@pytest.fixture
def copy(tmp_path):
    """Return a folder with copies of both packages."""
    for package, folder in zip(PACKAGES, uses.FOLDERS, strict=False):
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(folder / package, tmp_path / package, ignore=ignored)
    return tmp_path


def changed(copy, file, old, new):
    """Say whether an edit makes the bench stale."""
    path, edited = copy / "graphtemper" / file, copy / "edited"
    text = path.read_text("utf-8") if path.exists() else ""
    assert old in text
    for package in PACKAGES:
        shutil.copytree(copy / package, edited / package)
    (edited / "graphtemper" / file).write_text(text.replace(old, new, 1), "utf-8")
    return uses.key(BENCH, folders=(edited,)) != uses.key(BENCH, folders=(copy,))


def test_a_constant_of_the_response_counts(copy):
    text = (copy / "graphtemper" / "card" / "response.py").read_text("utf-8")
    number = re.search(r"^_?[A-Z_]+(: \w+)? = .*?(\d+\.\d+)", text, re.M)
    assert changed(copy, "card/response.py", number[0], f"{number[0]}1")


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("calibrators/mine.py", "", "class Mine:\n    pass\n"),
        (
            "calibrators/__init__.py",
            "from ",
            "from graphtemper.calibrators.base import A as B\nfrom ",
        ),
        ("errors.py", '"""', '"""Another sentence. '),
        ("errors.py", "class ", "MESSAGE = 'another'\n\n\nclass "),
        ("recalibration/report/__init__.py", '"""', 'SENTENCE = "another"\n"""'),
        ("card/response.py", '"""', '"""Another sentence. '),
        ("card/response.py", "from __", "# A comment\nfrom __"),
    ],
)
def test_other_edits_do_not(copy, file, old, new):
    assert not changed(copy, file, old, new)


def test_the_message_of_an_error_does_not_count(tmp_path):
    (tmp_path / "a.py").write_text("if x:\n    raise ValueError(f'no {x}')\n")
    (tmp_path / "b.py").write_text("if x:\n    # a comment\n    raise ValueError('never')\n")
    (tmp_path / "c.py").write_text("if y:\n    raise ValueError('never')\n")
    one, two, other = (uses.meaning(tmp_path / f"{name}.py") for name in "abc")
    assert one == two != other


WITHOUT_CARDS = {"calibrators_in_distribution", "cf_gnn_sets"}


@pytest.mark.parametrize("name", sorted(set(benches.MODULES) - {"leaderboard"} - WITHOUT_CARDS))
def test_benches_of_cards_use_no_published_calibrator(name):
    module = benches.MODULES[name].partition(":")[0]
    modules = uses.used(f"graphtemper_research.{module}")
    assert "graphtemper.card.response" in modules
    assert "graphtemper.calibrators.gats" not in modules


def test_the_leaderboard_uses_every_calibrator():
    modules = uses.used("graphtemper_research.leaderboard.board")
    assert {"graphtemper.calibrators.gats", "graphtemper.card.response"} <= modules.keys()


@pytest.mark.parametrize("name", ["graphtemper.cli", "graphtemper.errors"])
def test_what_only_prints_is_not_used(name):
    assert uses.used(name) == {}
    assert uses.used("graphtemper.temperature")
