"""The leaderboard's page in a real browser: filters, sorting, intervals and the download."""

import csv

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
    found = []
    for setting, families in (("known shifts", ("noise", "drop")), ("natural shifts", ("towns",))):
        for graph in ("a", "b"):
            for model in ("SIGN", "GCN"):
                for seed in (1, 2):
                    for family in ("none", *families):
                        for level, method in enumerate(METHODS):
                            shift = family if family == "none" else f"{family}(1)"
                            scores = rng.uniform(0.1, 0.2, 4).round(4) - 0.03 * level
                            found.append(
                                dict.fromkeys(raw.COLUMNS)
                                | {"setting": setting, "graph": graph, "model": model}
                                | {"seed": seed, "family": family}
                                | {"cpu_seconds": 3, "wall_seconds": 4}
                                | {"shift": shift, "method": method}
                                | dict(
                                    zip(
                                        ("ece", "nll", "brier", "accuracy"),
                                        scores.tolist(),
                                        strict=True,
                                    )
                                )
                            )
    found[2]["nll"] = None
    return found


@pytest.fixture
def page(chromium, rows, tmp_path):
    path = tmp_path / "leaderboard.html"
    write_page(path, rows)
    context = chromium.new_context(accept_downloads=True)
    sheet = context.new_page()
    problems = []
    sheet.on("console", lambda message: problems.append(message.text))
    sheet.on("pageerror", lambda error: problems.append(str(error)))
    sheet.on("requestfailed", lambda request: problems.append(request.url))
    sheet.goto(path.as_uri())
    yield sheet
    assert problems == []
    context.close()


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


def expected(rows, method, metric="ece", **chosen):
    """The same numbers by hand: means over targets, then over cells, paired with source-T."""

    def cells(name):
        values = {}
        for row in rows:
            if row["method"] != name or row["shift"] == "none":
                continue
            if any(row[key] != value for key, value in chosen.items()):
                continue
            key = (row["setting"], row["graph"], row["model"], row["seed"])
            values.setdefault(key, []).append(row[metric])
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
        {"setting": "known shifts", "family": "noise"},
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


def test_metric_and_infinite_loss(page, rows):
    page.select_option("#metric", "brier")
    value = expected(rows, "RBS", "brier", setting="known shifts")["mean"]
    assert shown(page)["RBS"]["mean"] == pytest.approx(value)
    page.select_option("#metric", "error")
    assert shown(page) == {}
    assert "No cell" in page.inner_text("#count")


def test_columns_sort_both_ways(page):
    first = [line["mean"] for line in shown(page).values()]
    assert first == sorted(first)
    page.click("th button:has-text('mean')")
    again = [line["mean"] for line in shown(page).values()]
    assert again == sorted(first, reverse=True)
    assert page.inner_text('th[aria-sort="descending"]') == "mean"
    page.click("th button:has-text('method')")
    assert list(shown(page)) == sorted(METHODS)


def test_the_download_is_the_raw_table(page, rows):
    with page.expect_download() as download:
        page.click("#download")
    with open(download.value.path(), encoding="utf-8", newline="") as stream:
        found = list(csv.DictReader(stream))
    assert [row["method"] for row in found] == [row["method"] for row in rows]
    assert [float(row["ece"]) for row in found] == [row["ece"] for row in rows]
