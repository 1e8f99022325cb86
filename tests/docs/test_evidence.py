"""The numbers that pages and README cite are those of the committed results."""

import pytest
from tests.docs.conftest import ROOT


@pytest.fixture(scope="module")
def evidence(extension):
    return extension("evidence")


@pytest.fixture(scope="module")
def results(evidence, docs):
    return evidence.Results(docs / "results")


def numbers(table, row):
    """Return the cells of the row of a Markdown table that begins with a word."""
    line = next(line for line in table.splitlines() if line.startswith(f"| {row}"))
    return [cell.strip(" *") for cell in line.strip("|").split("|")][1:]


def readme_row(words):
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    line = next(line for line in lines if line.startswith("|") and words in line)
    return [cell.split()[0] for cell in line.strip("|").split("|")[1:]]


def test_the_readme_shows_the_known_shifts(evidence, results):
    table = evidence.known(results)
    before = numbers(table, "source temperature")[0]
    for words, row in (("sixteen known", "in the card"), ("the same, kind", "not in the card")):
        name = f"**graphtemper**, kind of shift {row}"
        assert readme_row(words) == [before, numbers(table, name)[0], "1"]


def test_the_readme_shows_the_natural_shifts(evidence, results):
    means = evidence.natural_means(results)
    expected = [f"{means[name]:.3f}" for name in ("source-T", "answer", "true accuracy")]
    assert readme_row("families of natural shift") == expected


def test_the_readme_shows_the_labels(evidence, results):
    before, _, fifty, _, best = numbers(evidence.labels(results), "graphtemper")
    assert readme_row("natural shifts with 50 labels") == [before, fifty, best]


def test_the_picture_of_the_readme_is_that_of_the_demo(docs, site):
    image = pytest.importorskip("matplotlib.image", reason="matplotlib is not installed")
    committed, drawn = (
        image.imread(docs / folder / "demo.png") for folder in ("results", "_generated")
    )
    assert committed.shape == drawn.shape
    difference = abs(committed - drawn).mean()
    assert difference < 0.02, "copy docs/_generated/demo.png to docs/results/demo.png"


def test_means_of_families_are_plain_means(evidence):
    class Two:
        def rows(self, name):
            names = (*evidence.NATURAL, "held")
            values = (("a", 0.1), ("a", 0.3), ("b", 0.6))
            rows = [dict.fromkeys(names, value) | {"family": family} for family, value in values]
            return [row | {"model": "SIGN"} for row in rows] + [{"model": "GCN"}]

    assert evidence.natural_means(Two())["answer"] == pytest.approx(0.4)
    assert "| a (2 pairs) | 0.200 |" in evidence.natural(Two())


def test_the_pages_show_the_tables(site, evidence, docs):
    page = (site / "how_good.html").read_text("utf-8")
    for row in ("mean of the families", "swapped classes", "labels of a quarter of the target"):
        assert row in page
    for number in numbers(evidence.tables(docs)["evidence_natural"], "**mean of the families**"):
        assert number in page
