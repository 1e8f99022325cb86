"""The leaderboard's page in a real browser: filters, intervals and the download."""

import csv
import itertools

import numpy as np
import pytest

from graphtemper_research.leaderboard import raw
from graphtemper_research.leaderboard.page import write_page
from graphtemper_research.leaderboard.standings import Interval

pytestmark = pytest.mark.nightly

pytest.importorskip("playwright.sync_api")
METHODS = ("source-T", "RBS", "atlas")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    cells = itertools.product(("a", "b"), ("SIGN", "GCN"), (1, 2), METHODS)
    found = []
    for graph, model, seed, method in cells:
        for setting, family in (
            ("known shifts", "none"),
            ("known shifts", "noise"),
            ("known shifts", "drop"),
            ("natural shifts", "towns"),
        ):
            row = {"setting": setting, "graph": graph, "model": model, "seed": seed}
            row |= {"family": family, "shift": family if family == "none" else f"{family}(1)"}
            row |= {"method": method, "cpu_seconds": 3, "wall_seconds": 4}
            row |= dict.fromkeys(("nll", "brier", "accuracy"), 0.5)
            row["ece"] = round(rng.uniform(0.1, 0.2) - 0.03 * METHODS.index(method), 4)
            found.append(dict.fromkeys(raw.COLUMNS) | row)
    return found


@pytest.fixture
def page(visit, rows, tmp_path):
    write_page(tmp_path / "leaderboard.html", rows)
    return visit(tmp_path / "leaderboard.html", accept_downloads=True)


def shown(page):
    """Return the values of the table by method, in the order of the page."""
    found = {}
    for row in page.query_selector_all("#table tbody tr"):
        places = row.query_selector_all("td")
        found[row.get_attribute("data-method")] = {
            place.get_attribute("data-key"): (
                None if (value := place.get_attribute("data-value")) is None else float(value)
            )
            for place in places
        }
    return found


def expected(rows, method, **chosen):
    """The same numbers by hand: means over targets, then over cells, paired with source-T."""

    def cells(name):
        values = {}
        for row in rows:
            if row["method"] != name or row["shift"] == "none":
                continue
            if any(row[key] != value for key, value in chosen.items()):
                continue
            key = (row["setting"], row["graph"], row["model"], row["seed"])
            values.setdefault(key, []).append(row["ece"])
        return {key: float(np.mean(numbers)) for key, numbers in values.items()}

    own, base = cells(method), cells("source-T")
    graphs = {}
    for key in own:
        graphs.setdefault(key[:2], []).append(own[key] - base[key])
    gap = Interval.of([np.mean(gaps) for gaps in graphs.values()])
    return {
        "mean": float(np.mean(list(own.values()))),
        "difference": gap.mean,
        "low": gap.low,
        "high": gap.high,
        "cells": len(own),
    }


@pytest.mark.parametrize(
    "chosen",
    [
        {"setting": "known shifts"},
        {"setting": "natural shifts", "model": "GCN"},
        {"setting": "known shifts", "family": "drop", "graph": "b", "model": "SIGN"},
    ],
)
def test_filters_show_the_numbers_of_their_rows(page, rows, chosen):
    for name, value in chosen.items():
        page.select_option(f"#{name}", value)
    found = shown(page)
    assert set(found) == set(METHODS)
    for method in METHODS:
        for key, value in expected(rows, method, **chosen).items():
            assert found[method][key] == pytest.approx(value, abs=1e-9), (method, key)


def test_the_download_is_the_raw_table(page, rows):
    with page.expect_download() as download:
        page.click("#download")
    with open(download.value.path(), encoding="utf-8", newline="") as stream:
        found = list(csv.DictReader(stream))
    assert [row["method"] for row in found] == [row["method"] for row in rows]
    assert [float(row["ece"]) for row in found] == [row["ece"] for row in rows]
