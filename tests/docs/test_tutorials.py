"""The fraud tutorial says what its tables show, and the months notebook runs."""

import html
import json
import re

import numpy as np
import pytest


def blocks(page):
    """Return the code that a page runs."""
    found = re.findall(r"^```\{show\}\n(.*?)^```", page, re.M | re.S)
    return [re.sub(r"^:\w+: .*\n", "", block, flags=re.M) for block in found]


@pytest.fixture(scope="module")
def text(docs):
    return (docs / "tutorials" / "fraud.md").read_text("utf-8")


@pytest.fixture(scope="module")
def built(site):
    """Return what the blocks of the page printed when the site was built."""
    page = (site / "tutorials" / "fraud.html").read_text("utf-8")
    found = re.findall(r'<div class="output [^>]*>.*?<pre>(.*?)</pre>', page, re.S)
    return [html.unescape(re.sub("<[^>]+>", "", block)) for block in found]


@pytest.fixture(scope="module")
def months(built):
    """Return the table of the truth: nothing, source, card, answered, low, high, true."""
    (table,) = (block for block in built if block.startswith("month "))
    lines = [line for line in table.splitlines() if line.startswith("2026-")]
    return np.array([[float(n) for n in re.findall(r"\d\.\d\d", line)] for line in lines])


def test_the_series_is_what_the_page_says(text):
    names = {}
    exec(blocks(text)[0], names)
    shares, rings, gaps = [], [], []
    for month, graph in names["graphs"].items():
        fraud = names["truth"][month] == 1
        ends = fraud[graph.edges]
        shares.append(fraud.mean())
        rings.append(ends.all(axis=1).sum() / fraud.sum())
        gaps.append(graph.features[fraud, 0].mean() - graph.features[~fraud, 0].mean())
        assert graph.num_nodes == 4000
        assert graph.labels is None
    assert all(0.02 <= share <= 0.05 for share in shares)
    assert np.polyfit(range(9), rings, 1)[0] < -0.05  # links inside rings per fraud account
    assert rings[-1] < 0.7 * rings[0]
    assert np.polyfit(range(9), gaps, 1)[0] < -0.05
    again = names["accounts"](3)
    np.testing.assert_array_equal(again.features, names["graphs"]["2026-03"].features)


def test_the_estimates_did_not_see_labels_of_the_months_they_answer(text):
    later = "\n".join(blocks(text)[1:])
    assert "due = months[today - 2] " in later
    assert re.findall(r"truth\[(\w+)\]", later.partition("subprocess")[0]) == ["due"]
    followed = re.findall(r"Snapshot\(name, name, lambda name=name: (\w+)\[name\]\)", later)
    assert followed == ["graphs"]


def test_what_held_and_what_missed_is_computed(built, months):
    nothing, source, card, answered, low, high, true = months.T
    (table,) = (block for block in built if block.startswith("month "))
    printed = re.search(
        r"hold the truth: (\d) of (\d), on average (.*) wide\nsmallest mean error: (.*)\n"
        r"January to August: nothing (.*), answered (.*), true (.*)\n"
        r"answered too high: (\d) of \d months, most in (.*) by (.*)\n"
        r"lowest true precision: (.*), in (.*)",
        table,
    ).groups()
    held = (low <= true) & (true <= high)
    assert printed[:2] == (str(held.sum()), str(len(true)))
    assert [line.endswith("yes") for line in table.splitlines()[1:9]] == held.tolist()
    assert float(printed[2]) == pytest.approx((high - low).mean(), abs=0.011)
    columns = {"nothing": nothing, "source T": source, "card": card, "answered": answered}
    errors = {name: np.abs(column - true).mean() for name, column in columns.items()}
    assert errors[printed[3]] <= min(errors.values()) + 0.011
    for text, column in zip(printed[4:7], (nothing, answered, true), strict=True):
        assert float(text) == pytest.approx(column[-1] - column[0], abs=0.011)
    off = answered - true
    assert int(printed[7]) == (off > 0).sum()
    assert off[int(printed[8][-1]) - 1] == pytest.approx(off.max(), abs=0.011)
    assert float(printed[9]) == pytest.approx(off.max(), abs=0.011)
    assert float(printed[10]) == true.min() == true[int(printed[11][-1]) - 1]


def test_the_lesson_of_the_series_is_in_the_table(text, months):
    """The page says why claim, answer and truth part; the series has to show it."""
    nothing, source, _, answered, _, _, true = months.T
    lesson = text.partition("## The truth")[2]
    assert "own claim hardly moves while the true precision falls" in lesson
    assert max(np.ptp(nothing), np.ptp(source)) < 0.5 * (true[0] - true[-1])
    assert "The answers come down as late labels arrive" in lesson
    assert answered[-1] < answered[:2].min() - 0.05
    assert "estimates stay too high" in lesson
    assert (answered[3:] > true[3:]).all()


def test_the_gate_closes_and_the_session_decides(built, months):
    gate = next(block for block in built if "exit code" in block)
    assert gate.splitlines()[-1] == "exit code 2"
    session = next(block for block in built if "accounts reviewed" in block)
    assert session.rstrip().endswith(", above 0.33")
    labels, flagged, value, low, high = map(float, re.findall(r"\d+\.\d+|\d+", session)[:5])
    assert labels < flagged
    assert low <= months[-1, -1] <= high
    assert 0.33 < low <= value <= high


def test_the_page_of_the_monitor_comes_with_the_site(site):
    page = (site / "tutorials" / "fraud.html").read_text("utf-8")
    address = re.search(r'href="(\.\./_downloads/[^"]+fraud_watch\.html)"', page)[1]
    watch = (site / "tutorials" / address).resolve().read_text("utf-8")
    assert "2026-08" in watch


@pytest.mark.nightly
def test_the_months_notebook_runs_and_says_what_it_prints(docs):
    notebook = json.loads((docs / "tutorials" / "months.ipynb").read_text("utf-8"))
    assert notebook["nbformat"] == 4
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in code)
    names = {}
    for cell in code:
        exec("".join(cell["source"]), names)
    text = "".join("".join(cell["source"]) for cell in notebook["cells"])
    estimates, truth, error = names["estimates"], names["truth"], names["error"]
    assert "too high in every month" in text
    assert (estimates[:, :3] > truth[:, None]).all()
    assert estimates[0, 3] == estimates[0, 2]
    assert error[3] < 0.5 * error[2] < 0.5 * error[0]
    assert names["held"][1] >= 6 > names["held"][0]
    # Written out: the months are answered before their labels are learned.
    graph, _, _, answers, true = names["rows"][0]
    assert true == (names["model"](graph).argmax(axis=1) == graph.labels).mean()
    again = names["recalibrate"](names["model"], graph.replace(labels=None), names["card"])
    assert again.accuracy == answers[1].accuracy
