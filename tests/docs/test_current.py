"""Numbers of the first pages come from results of the current code, and none is typed by hand."""

import builtins
import csv
import io
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from tests.docs.conftest import ROOT

from graphtemper_research import benches, results
from graphtemper_research.graphs import deposit
from graphtemper_research.harness.digest import digest
from graphtemper_research.harness.outcome import _csv as csv_text
from graphtemper_research.harness.outcome import read_outcome
from graphtemper_research.paper.audit_page import render
from graphtemper_research.paper.results_page import write_results

WRITTEN = ("README.md", "docs/index.md", "docs/how_good.md")
ADVICE = "measured by other code; run `make evidence` and commit what it writes"
LARGE = ("large.json", "large_peers.json", "sampling.json")
"""Graphs larger than memory, measured apart (`benchmarks.large`)."""

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


@pytest.fixture(scope="module")
def read(folder, extension, tmp_path_factory):
    """Make README, index, how_good and results again; return the result files that were read."""
    seen = set()

    def watched(open_file):
        def opened(file, *arguments, **options):
            if isinstance(file, (str, Path)) and str(file).startswith(str(folder)):
                seen.add(Path(file))
            return open_file(file, *arguments, **options)

        return opened

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        readme, evidence = __import__("readme"), extension("evidence")
        for module in (builtins, io, os):
            patch.setattr(module, "open", watched(module.open))
        readme.filled((ROOT / "README.md").read_text("utf-8"))
        evidence.tables(folder.parent)
        write_results(folder, tmp_path_factory.mktemp("pages") / "results.md")
    return sorted(path for path in seen if path.suffix == ".json")


def test_the_files_behind_the_first_pages_are_found(read):
    names = {path.stem for path in read}
    assert names >= {"months", "labels", "natural_environments", "natural_rule", "atlas_bench"}
    assert names >= {"leaderboard", "slope", "real", "benchmarks", "decisions"}


def test_numbers_of_the_first_pages_are_of_the_current_code(read):
    old = {path.name: found for path in read if (found := results.foreign(path))}
    assert not old, f"code {digest()}, but {ADVICE}"


@pytest.mark.parametrize("large", [False, True])
def test_every_result_is_of_the_current_code(folder, large):
    old = {name: code for name, code in results.stale(folder).items() if (name in LARGE) == large}
    assert not old, f"code {digest()}, but {ADVICE}"


def test_every_raw_row_of_the_leaderboard_is_of_the_current_code(folder):
    with (folder / "leaderboard_raw.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) > 10_000
    assert {row["code"] for row in rows} == {digest()}, ADVICE


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


def test_tables_hold_the_rows_of_their_files(folder):
    for path in folder.rglob("*.csv"):
        file = path.with_suffix(".json")
        if file.is_file():  # the raw rows of the leaderboard have no other file
            assert path.read_text("utf-8") == csv_text(read_outcome(file)["rows"]), path.name


def test_the_list_of_data_names_the_code_of_the_results(folder):
    assert (folder / "DATA.md").read_text("utf-8") == deposit.page(folder)


def test_no_result_names_another_version(folder):
    for path in (*folder.rglob("*.md"), folder.parent / "results.md"):
        assert not re.search(r"\bversion 0\.1\.0\b", path.read_text("utf-8")), path.name


def test_a_result_of_other_code_would_be_found(folder, tmp_path):
    content = json.loads((folder / "slope.json").read_text("utf-8"))
    for code, old in ((digest(), []), ("0" * 12, ["0" * 12]), (None, ["None"])):
        (tmp_path / "slope.json").write_text(json.dumps(content | {"code": code}))
        assert results.foreign(tmp_path / "slope.json") == old
