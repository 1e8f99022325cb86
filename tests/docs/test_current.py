"""Pages say what their result files say, and no measured number is typed by hand."""

import re
import shutil

import pytest
from tests.docs.conftest import ROOT

from graphtemper_research import benches
from graphtemper_research.harness.outcome import read_outcome
from graphtemper_research.paper.audit_page import render
from graphtemper_research.paper.results_page import write_results

WRITTEN = ("README.md", "docs/index.md", "docs/how_good.md")

GENERATED = re.compile(r"<!-- (\w+) -->\n.*?<!-- /\1 -->", re.S)
CODE = re.compile(r"```.*?```|^    .*?$|`[^`\n]*`", re.S | re.M)
TARGET = re.compile(r"\]\([^)]*\)|<[^>]*>")
MEASURED = re.compile(r"\d*\.\d+|\d+(?=(?: ?%| times\b))")
NOT_MEASURED = ("Python 3.11", "90 % interval")


def typed(text):
    """Return what looks measured in what a person wrote: decimals, percentages, ratios."""
    for pattern in (GENERATED, CODE, TARGET):
        text = pattern.sub(" ", text)
    for known in NOT_MEASURED:
        text = text.replace(known, " ")
    return MEASURED.findall(text)


@pytest.fixture(scope="module")
def folder(docs):
    return docs / "results"


@pytest.mark.parametrize("page", WRITTEN)
def test_no_measured_number_is_typed_by_hand(docs, page):
    assert typed((ROOT / page).read_text("utf-8")) == []


def test_typed_numbers_are_seen():
    text = "ECE is 0.079, 4.7 % better in 13 of 14 and 3 times as fast; 90 % interval, Python 3.11"
    assert typed(text) == ["0.079", "4.7", "3"]
    generated = "<!-- table -->\n0.5\n<!-- /table -->\n"
    assert typed(f"{generated}`--at 0.5` [x](v0.2.md)\n\n    pip install a==0.2\n") == []
    assert typed(f"{generated}but really .6") == [".6"]


def test_pages_of_results_are_those_of_the_files(folder, docs, tmp_path):
    copy = tmp_path / "results"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*.png", "*.csv", "*.md"))
    write_results(copy, tmp_path / "results.md")
    assert (tmp_path / "results.md").read_text("utf-8") == (docs / "results.md").read_text("utf-8")
    assert render(copy) == (docs / "audit.md").read_text("utf-8")
    for name in benches.MODULES:
        for path in folder.rglob(f"{name}.json"):
            page = path.with_suffix(".md").read_text("utf-8")
            assert benches.load(name).page(read_outcome(path)) == page, name


def test_no_result_names_another_version(folder):
    for path in (*folder.rglob("*.md"), folder.parent / "results.md"):
        assert not re.search(r"\bversion 0\.1\.0\b", path.read_text("utf-8")), path.name
