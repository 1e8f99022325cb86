"""The README is one screen for somebody who has never heard of any of this."""

import json
import re

import pytest
from tests.docs.conftest import ROOT

# What a trained modeller may have to look up; a pattern of several words is one term.
TERMS = r"""frozen model|predictor|logits?|softmax|temperatures?|ECE|calibration error|reliability
|confidence|verdict|trust|caution|abstain|source card|card|atlas|shift|environments?|signals?|gain
|homophily|slope|kappa|oracle|prior|budget|recalibrat\w+|intervals?|GCN|SIGN|proxies|session
|signal-to-noise ratio|conformal"""
SAME = {"ECE": "calibration error", "temperatures": "temperature", "intervals": "interval"}


@pytest.fixture(scope="module")
def readme():
    return (ROOT / "README.md").read_text("utf-8")


def test_it_has_at_most_120_lines(readme):
    assert len(readme.splitlines()) <= 120


def test_few_terms_come_before_the_first_code(readme):
    first = readme.partition("```python")[0].replace("graphtemper", "")
    terms = TERMS.replace("\n", "")
    words = re.findall(rf"(?<![\w-])(?:{terms})(?![\w-])", " ".join(first.split()))
    found = {SAME.get(word, word) for word in words}
    assert 2 < len(found) <= 6, sorted(found)


def test_it_says_what_to_expect_and_how_to_install_before_the_limits(readme):
    heads = re.findall(r"^## (.*)", readme, flags=re.M)
    assert heads.index("What to expect") < heads.index("How good is it?")
    assert heads.index("Install") < heads.index("What it cannot do")
    assert "pip install 'graphtemper[pyg,report]'" in readme.partition("```python")[0]


def test_every_table_shows_doing_nothing(readme):
    for head in re.findall(r"^\|(.*)\|\n\| ---", readme, flags=re.M):
        assert "doing nothing" in head


def test_examples_print_more_than_true(docs):
    pages = [ROOT / "README.md", *docs.glob("*.md"), *docs.glob("[!_]*/*.md")]
    assert len(pages) > 30
    for page in pages:
        found = re.findall(r"^>>> .*\nTrue$", page.read_text("utf-8"), flags=re.M)
        assert not found, (page, found)


def test_what_pages_say_of_results_is_what_the_files_say(readme, docs, extension):
    """Sentences without a number, which nothing fills in, are held against the numbers."""
    evidence = extension("evidence")
    results = evidence.Results(docs / "results")
    assert "Probabilities get better on average, not always." in readme
    nothing, source, _, ours, _ = list(evidence.settings(results).values())[1]
    assert ours < min(nothing, source)
    months = json.loads((docs / "results" / "months.json").read_text("utf-8"))["months"]
    assert "fifty are better" in readme
    mean = {key: sum(row["ece"][key] for row in months) for key in months[0]["ece"]}
    assert mean["labels"] < mean["card"]
    page = " ".join((docs / "howto" / "month_by_month.md").read_text("utf-8").split())
    assert "A GCN on nine months ([the picture](../index.md)) is less well calibrated." in page
    assert len(months) == 9
    own = float(re.search(r"doing nothing +(\d\.\d+)", page)[1])
    assert mean["nothing"] / 9 > own
    assert "labels of the other months lower the mean error, also below that of doing" in page
    rows = [
        row
        for row in results.rows("natural_environments")
        if (row["model"], row["family"]) == ("SIGN", "covid_us")
    ]
    others = ("no environment", "uncalibrated", "source-T")
    total = {
        name: sum(row[f"ece {name}"] for row in rows) for name in (*others, "all environments")
    }
    assert total.pop("all environments") < min(total.values())
