"""Pages say what their files say, and the numbers are plain means of the rows."""

import re
from pathlib import Path
from statistics import mean

import pytest

from graphtemper_research.numbers import exam, quality, tables, values

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def results():
    if not DOCS.is_dir():
        pytest.skip("the results are not part of this installation")
    return tables.Results(DOCS / "results")


@pytest.fixture(scope="module")
def named(results):
    return values(results.folder)


class Fixed(tables.Results):
    """Results that hold what a test gives them."""

    def __init__(self, **contents):
        super().__init__(Path("nowhere"))
        self.read = lambda name: contents[name.rpartition("/")[2]]


def cells(table, name):
    """Return the cells of the row that begins with a name."""
    line = next(line for line in table.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip(" *") for cell in line.strip("|").split("|")][1:]


@pytest.mark.cpu(20)
def test_pages_say_what_their_files_say(results):
    pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")
    from graphtemper_research.pages import pages

    for path, text in pages(ROOT).items():
        assert path.read_text("utf-8") == text, f"{path}: python -m graphtemper_research.pages"


def test_every_value_is_shown_and_nothing_else_is_asked_for(named):
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]
    text = "".join(path.read_text("utf-8") for path in pages)
    shown = set(re.findall(r"\{\{ (\w+) \}\}|<!-- (\w+) -->", text))
    assert set(named) <= {name for pair in shown for name in pair}


def test_whoever_shows_the_source_temperature_shows_doing_nothing(named):
    every = [t for text in named.values() for t in re.findall(r"(?:^\|.*\n?)+", text, re.M)]
    assert len(every) > 20
    for table in every:
        words = [cell.strip(" *") for line in table.splitlines() for cell in line.split("|")]
        if tables.SOURCE in words:
            assert tables.NOTHING in words, table


def test_means_are_over_families_first():
    errors = (("a", 0.1), ("a", 0.3), ("b", 0.6))
    rows = [{"family": family, "ece": error} for family, error in errors]
    table = tables.grid("", tables.by_family(rows), {"ECE": "ece", "nll": "nll"}, "all")
    assert cells(table, "a (2 pairs)") == ["0.200", "–"]
    assert cells(table, "**all**") == ["0.400", "–"]


def test_the_first_table_has_plain_means(results, named):
    rows = results.rows("atlas/labels")
    expected = [
        f"{mean(row[f'ece {name}'] for row in rows):.3f}"
        for name in ("uncalibrated", "source-T", "50 alone", "50", "oracle-T")
    ]
    name = f"{len(rows)} pairs of months, places or years, with 50 labels of the second"
    assert cells(named["summary"], name) == expected
    ours = results.bar(
        "atlas/natural_environments",
        "SIGN: mean ECE with all environments, against the best baseline",
    )
    assert quality.settings(results)[
        next(name for name in quality.settings(results) if "further months" in name)
    ][3] == pytest.approx(ours["measured"], abs=1e-6)


def test_the_best_of_a_row_is_bold_but_never_what_needs_the_truth(named):
    for line in named["summary"].splitlines()[2:6]:
        *own, best = line.strip("| ").split(" | ")[1:]
        errors = [float(cell.strip("*")) for cell in own if cell != "–"]
        (bold,) = (cell for cell in own if cell.startswith("*"))
        assert float(bold.strip("*")) == min(errors) >= float(best)


def test_ratios_of_decisions_are_of_sums_and_of_families():
    """Two families with errors of 0.1 and 0.3 against 0.2 and 0.4 at the source."""
    rows = [
        {"model": "SIGN", "kind": "natural", "family": family, "method": "environments", "pairs": 5}
        | {f"error {m}": error for m in quality.METRICS}
        | {f"source {m}": source for m in quality.METRICS}
        | {f"held {m}": held for m in quality.METRICS}
        for family, error, source, held in (("a", 0.1, 0.2, 1.0), ("b", 0.3, 0.4, 0.8))
    ]
    results = Fixed(decisions={"rows": rows})
    shown = cells(quality.decisions(results), "natural shift, environments")
    assert shown == [*["0.200"] * 3, "0.67", "0.62", *["90%"] * 3]
    families = quality.decisions_families(results)
    assert cells(families, "b (5 pairs)")[1] == "80%** / **80%** / **80%"
    assert "in 3 of 6 cases" in families


def test_words_follow_the_numbers():
    errors = {"ece 50": 0.2, "ece 50 alone": 0.1, "ece 200": 0.1, "ece 200 alone": 0.3}
    words = quality.labels_words(Fixed(labels={"rows": [errors]}))
    assert "with 50, that temperature has the smaller error (0.100 against 0.200)" in words
    assert "with 200, graphtemper has the smaller error (0.100 against 0.300)" in words
    answers = {"low": 0.4, "high": 0.6}
    ece = dict.fromkeys(("nothing", "source", "card", "learned", "labels"), 0.1)
    months = [
        {"true": true, "card": answers, "learned": answers, "ece": ece} for true in (0.5, 0.7)
    ]
    assert "it does in 1 of 2" in quality.months_caption(Fixed(months={"months": months}))


def test_the_exam_shows_models_side_by_side_and_what_is_missed_in_bold():
    plain = {"part": "all", "answers": 10, "trust": 0.9, "trusted held": 0.5, "held": 1.0}
    plain |= {"honest": 1.0, "width": 0.2, "trusted": 4, "width ratio": None}
    few = plain | {"row": "20 labels", "worst held": 0.7, "wilson held": 0.9, "wilson worst": 0.8}
    rows = [
        plain | {"row": "ends", "model": "SIGN"},
        plain | {"row": "ends", "model": "PyG-GCN", "trusted": 0, "trusted held": None},
        few | {"model": "SIGN", "width ratio": 0.9},
        plain | {"row": "ends", "part": "noise(5)", "model": "SIGN"},
    ]
    missed = {"measured": 0.5, "bar": ">= 0.88", "met": False}
    bars = [
        {"quantity": "SIGN: ends: trusted intervals hold", **missed},
        {"quantity": "PyG-GCN: ends: intervals hold", **missed, "met": True},
    ]
    results = Fixed(exam={"rows": rows, "comparisons": bars, "settings": {"sources": ["a"]}})
    shown = cells(exam.exam(results), "ends (20 answers)")
    assert shown == ["90% / 90%", "50%** / –", "100% / 100%", "100% / 100%", "0.20 / 0.20"]
    assert "| **50%** / – |" in exam.exam(results)
    assert cells(exam.exam_labels(results), "20 labels (10 answers)")[1] == "70%"
    assert "1 of 2 goals" in exam.exam_goals(results)
    assert cells(exam.exam_goals(results), "SIGN, ends: trusted intervals hold") == [
        "0.5",
        ">= 0.88",
    ]
    words = exam.exam_words(results)
    assert "50% of 4 trusted" in words
    assert "(SIGN, 1 sources)" in words


def test_comparisons_are_a_table():
    one = {"quantity": "SIGN: |log ratio|", "measured": 0.12345, "bar": "<= 0.1", "met": False}
    other = {"quantity": "GCN: error", "measured": None, "bar": "reported", "met": None}
    bars = [one | {"note": "a"}, other | {"note": ""}]
    table = tables.compared(Fixed(bench={"comparisons": bars}), "bench")
    assert table.splitlines()[2:] == [
        r"| \|log ratio\| | 0.123 | <= 0.1, missed | a |",
        "| GCN: error | – |  |  |",
    ]
