"""The series of the fraud tutorial drifts as it has to, and the months notebook runs."""

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


def test_the_series_drifts(text):
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


@pytest.mark.nightly
def test_the_months_notebook_runs_and_learns(docs):
    notebook = json.loads((docs / "tutorials" / "months.ipynb").read_text("utf-8"))
    assert notebook["nbformat"] == 4
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in code)
    names = {}
    for cell in code:
        exec("".join(cell["source"]), names)
    estimates, truth, error = names["estimates"], names["truth"], names["error"]
    assert (estimates[:, :3] > truth[:, None]).all()
    assert estimates[0, 3] == estimates[0, 2]
    assert error[3] < 0.5 * error[2] < 0.5 * error[0]
    assert names["held"][1] >= 6 > names["held"][0]
    # Written out: the months are answered before their labels are learned.
    graph, _, _, answers, true = names["rows"][0]
    assert true == (names["model"](graph).argmax(axis=1) == graph.labels).mean()
    again = names["recalibrate"](names["model"], graph.replace(labels=None), names["card"])
    assert again.accuracy == answers[1].accuracy
