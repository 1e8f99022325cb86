"""The numbers that pages and README cite are those of the committed results."""

import json
import re

import pytest
from tests.docs.conftest import ROOT

from graphtemper_research.harness.provenance import load


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


@pytest.fixture(scope="module")
def readme(evidence):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        yield __import__("readme")


def test_the_readme_shows_what_the_files_say(readme):
    text = (ROOT / "README.md").read_text("utf-8")
    assert readme.filled(text) == text, "run python scripts/readme.py"


def test_the_readme_follows_the_files(readme, monkeypatch, tmp_path):
    found = json.loads(readme.FILE.read_text("utf-8"))
    found["months"][0]["learned"] |= {"low": 0.9, "high": 0.95}
    (tmp_path / "months.json").write_text(json.dumps(found))
    text = (ROOT / "README.md").read_text("utf-8")
    count = int(re.search(r"it does in (\d) of \d", text)[1])
    monkeypatch.setattr(readme, "FILE", tmp_path / "months.json")
    assert f"it does in {count - 1} of {len(found['months'])}" in readme.filled(text)
    with pytest.raises(ValueError, match="<!-- table -->"):
        readme.filled(text.replace("<!-- table -->", ""))


def test_the_table_of_the_readme_has_plain_means(evidence, results):
    """Compare with means that are taken here, straight from the files."""
    found = evidence.settings(results)
    simulated, alone, places, few = found.values()
    rows = load(ROOT / "docs/results/atlas/labels.json")["rows"]
    for place, name in ((1, "ece source-T"), (2, "ece 50 alone"), (3, "ece 50")):
        assert few[place] == pytest.approx(sum(row[name] for row in rows) / len(rows))
    file = load(ROOT / "docs/results/atlas/natural_environments.json")
    quantities = {item["quantity"]: item for item in file["comparisons"]}
    ours = quantities["SIGN: mean ECE with all environments, against the best baseline"]
    assert places[3] == pytest.approx(ours["measured"], abs=1e-6)
    assert f"{places[2]:.4f}" in ours["note"]
    means = evidence.natural_means(results)
    assert (alone[1], alone[3]) == pytest.approx((means["source-T"], means["answer"]))
    assert simulated[4] < simulated[3] < simulated[1] < simulated[0]


@pytest.mark.nightly
@pytest.mark.cpu(60)
def test_the_months_of_the_readme_can_be_measured_again(readme):
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    from graphtemper_research.graphs import datasets

    if datasets.find("covid_us_2020_07") is None:
        pytest.skip("the graphs of the months are not on this machine")
    again = readme.measure((ROOT / "README.md").read_text("utf-8"))
    kept = json.loads(readme.FILE.read_text("utf-8"))
    assert again["printed"].split()[:2] == kept["printed"].split()[:2]
    for row, other in zip(again["months"], kept["months"], strict=True):
        assert row["true"] == pytest.approx(other["true"], abs=0.02)
        for kind in ("card", "learned"):
            assert row[kind]["verdict"] == other[kind]["verdict"]
            for name in ("estimate", "low", "high"):
                assert row[kind][name] == pytest.approx(other[kind][name], abs=0.02)
        assert row["ece"] == pytest.approx(other["ece"], abs=0.02)


def test_means_of_families_are_plain_means(evidence):
    class Two:
        def rows(self, name):
            names = (*evidence.NATURAL, "held")
            values = (("a", 0.1), ("a", 0.3), ("b", 0.6))
            rows = [dict.fromkeys(names, value) | {"family": family} for family, value in values]
            return [row | {"model": "SIGN"} for row in rows] + [{"model": "GCN"}]

    assert evidence.natural_means(Two())["answer"] == pytest.approx(0.4)
    assert "| a (2 pairs) | – | 0.200 |" in evidence.natural(Two())


def test_metrics_of_decisions_are_means_of_families(evidence):
    """Two families of natural shifts, of 0.1 and 0.3 against 0.2 and 0.4 at the source."""

    class Two:
        def rows(self, name):
            kinds = ("natural", "natural", "drawn", "rare")
            values = ((0.1, 0.2, 1.0), (0.3, 0.4, 0.8), (0.1, 0.1, 1.0), (0.2, None, 0.5))
            return [
                {"model": "SIGN", "kind": kind, "family": family, "method": method, "pairs": 5}
                | {
                    f"{what} {m}": v
                    for m in evidence.METRICS
                    for what, v in zip(("error", "source", "held"), value, strict=True)
                }
                for kind, family, value in zip(kinds, "abcd", values, strict=True)
                for method in evidence.DECISIONS
            ]

    assert numbers(evidence.decisions(Two()), "natural shift, environments") == [
        *["0.200"] * 3,
        "0.67",
        "0.62",
        *["90%"] * 3,
    ]
    assert numbers(evidence.decisions(Two()), "0.5, 2")[3:] == ["–", "–", *["50%"] * 3]
    assert "smaller mean error in: none." in evidence.decisions(Two())
    families = evidence.decisions_families(Two())
    assert "| b (5 pairs) | **80%** / **80%** / **80%** |" in families
    assert "in 12 of 24 cases" in families


def test_the_pages_show_the_tables(site, evidence, docs):
    page = (site / "how_good.html").read_text("utf-8")
    for row in ("mean of the families", "swapped classes", "labels of a quarter of the target"):
        assert row in page
    for number in numbers(evidence.tables(docs)["evidence_natural"], "**mean of the families**"):
        assert number in page


def test_the_weakest_place_of_trust_is_named(evidence):
    class Four:
        def measured(self, name, quantity):
            trial, _, kind = quantity.partition(" family")[0].split(", ")
            values = {("SIGN", "known"): 0.9, ("SIGN", "unknown"): 0.7, ("GCN", "known"): 0.8}
            return {"measured": values.get((trial, kind), 0.5)}

    words = evidence.homophily(Four())
    assert "in 90% of cases with SIGN and 80% with a GCN" in words
    assert "in 70% and 50% if they are left out" in words


def test_the_atlas_has_a_column_per_trial(evidence, results):
    rows = load(ROOT / "docs/results/atlas/atlas_bench.json")["rows"]
    table = evidence.atlas(results)
    trials = numbers(table, "mean over graphs")
    assert {"SIGN", "SIGN, homophily", "GCN"} <= set(trials)
    for method, name in (
        ("source-T", "source temperature"),
        ("atlas, unknown family", "**atlas, un"),
    ):
        found = [
            f"{row['ece_ratio']:.2f}"
            for trial in trials
            for row in rows
            if (row["trial"], row["graph"], row["method"]) == (trial, "average", method)
        ]
        assert numbers(table, f"ECE over the oracle's, {name}") == found


def test_words_about_labels_follow_the_errors(evidence):
    class Two:
        def rows(self, name):
            errors = {"ece 50": 0.2, "ece 50 alone": 0.1, "ece 200": 0.1, "ece 200 alone": 0.3}
            return [errors | {"group": "a"}]

    words = evidence.labels_words(Two())
    assert "with 50, that temperature has the smaller error (0.100 against 0.200)" in words
    assert "with 200, graphtemper has the smaller error (0.100 against 0.300)" in words


@pytest.fixture(scope="module")
def measured(extension):
    return extension("measured")


def test_comparisons_of_a_bench_are_a_table(measured, tmp_path):
    one = {"quantity": "SIGN: |log ratio|", "measured": 0.12345, "bar": "<= 0.1", "met": False}
    other = {"quantity": "GCN: error", "measured": None, "bar": "reported", "met": None, "note": ""}
    path = tmp_path / "bench.json"
    path.write_text(json.dumps({"comparisons": [one | {"note": "a"}, other]}))
    lines = measured.comparisons(path, "").splitlines()
    assert lines[2:] == [
        r"| \|log ratio\| | 0.123 | <= 0.1, missed | a |",
        "| GCN: error | – |  |  |",
    ]
    assert measured.comparisons(path, "SAGE") == measured.ABSENT
    assert measured.comparisons(tmp_path / "nothing.json", "") == measured.ABSENT


def test_every_table_of_the_method_is_included_somewhere(measured, docs):
    pages = "".join(page.read_text("utf-8") for page in docs.rglob("*.md"))
    for name in measured.tables(docs):
        assert f"_generated/{name}.md" in pages, name
