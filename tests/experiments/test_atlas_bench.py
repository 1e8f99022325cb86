"""The evaluation of the atlas, on a small stand-in for a real graph."""

import json

import numpy as np
import pytest

from graphtemper import SourceCard, csbm
from graphtemper.errors import InputError
from graphtemper.experiments import atlas_bench as bench
from graphtemper.models import SIGN

LABEL_FREE = ("temperature", "estimate", "low", "high", "verdict")


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(
        1000, degree=6, homophily=0.8, snr=1.0, num_classes=3, num_features=6, seed=1
    )


@pytest.fixture(scope="module")
def finished(graph, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    graph.save(folder / "standin.npz")
    seen = []
    outcome = bench.run(
        folder,
        [str(folder / "standin.npz")],
        quick=True,
        progress=lambda title, done, total: seen.append((title, done, total)),
    )
    return folder, outcome, seen


def test_the_shifts_of_the_protocol():
    assert len(bench.SHIFTS) == 16
    assert bench.SHIFTS[0] is None
    families = {shift.family for shift in bench.SHIFTS[1:]}
    known = {"noise", "mask", "rewire", "drop", "add", "shuffle", "heterogeneous", "scale"}
    assert families == known


def test_a_cell_has_every_shift_and_method(finished):
    folder, _, seen = finished
    (path,) = (folder / "cells").iterdir()
    assert path.name == "standin-SIGN-1.json"
    cell = json.loads(path.read_text())
    assert len(cell["rows"]) == 16 * len(bench.METHODS)
    assert cell["compositions"] == bench.QUICK_COMPOSITIONS
    assert seen[-1][0] == "standin-SIGN-1"
    assert seen[-1][1] == seen[-1][2]
    for row in cell["rows"]:
        assert 0 <= row["ece"] <= 1
        assert row["nll"] is None or np.isfinite(row["nll"])
        assert (row["verdict"] is not None) == row["method"].startswith("atlas")
    oracle = {row["shift"]: row["nll"] for row in cell["rows"] if row["method"] == "oracle-T"}
    assert all(
        row["nll"] is None or row["nll"] >= oracle[row["shift"]] - 1e-9 for row in cell["rows"]
    )


def test_the_summary_comes_from_the_cells(finished, tmp_path):
    folder, outcome, _ = finished
    average = {row["method"]: row for row in outcome.rows if row["graph"] == "average"}
    assert set(average) == set(bench.METHODS)
    assert average["oracle-T"]["ece_ratio"] == 1.0
    assert average["oracle-T"]["nll_regret"] == 0.0
    cell = json.loads((folder / "cells" / "standin-SIGN-1.json").read_text())
    mine = [row for row in cell["rows"] if row["method"] == bench.KNOWN]
    covered = np.mean([row["low"] <= row["accuracy"] <= row["high"] for row in mine])
    assert average[bench.KNOWN]["coverage"] == pytest.approx(covered)
    assert average[bench.KNOWN]["ece"] == pytest.approx(np.mean([row["ece"] for row in mine]))
    text = bench.render(outcome)
    assert text.count("| standin |") == len(bench.METHODS)
    written = outcome.write(tmp_path)
    assert [path.name for path in written] == [f"atlas_bench.{e}" for e in ("json", "csv", "png")]


def test_harm_is_counted_only_where_there_was_trust():
    def row(method, ece, verdict=None):
        return {"method": method, "shift": "none", "ece": ece, "nll": 1.0, "verdict": verdict} | {
            "accuracy": 0.5,
            "estimate": 0.5,
            "low": 0.4,
            "high": 0.6,
        }

    def cell(verdict):
        rows = [row("source-T", 0.05), row("oracle-T", 0.02), row(bench.KNOWN, 0.08, verdict)]
        return {"rows": rows}

    found = bench._summary(
        bench.KNOWN, "g", "SIGN", [cell("trust"), cell("caution"), cell("abstain")]
    )
    assert found["harmful"] == 1
    assert found["trust"] == pytest.approx(1 / 3)
    assert found["ece_ratio"] == pytest.approx(4.0)


def test_finished_cells_are_not_measured_again(finished, monkeypatch):
    folder, first, _ = finished

    def never(*arguments, **options):
        raise AssertionError("measured again")

    monkeypatch.setattr(bench, "measure", never)
    again = bench.run(folder, [str(folder / "standin.npz")], quick=True)
    assert again.to_dict() == first.to_dict()
    with pytest.raises(AssertionError, match="measured again"):  # another protocol
        bench.run(folder, [str(folder / "standin.npz")], seeds=1)


def test_a_damaged_cell_is_measured_again(tmp_path, monkeypatch):
    (tmp_path / "cells").mkdir()
    path = tmp_path / "cells" / "standin-SIGN-1.json"
    path.write_text('{"schema": ')
    assert bench._stored(path, {"schema": bench.SCHEMA}) is None
    assert bench._stored(path.with_name("missing.json"), {}) is None


def test_target_labels_reach_only_the_scores(graph, monkeypatch):
    monkeypatch.setattr(bench, "SHIFTS", (None, bench.SHIFTS[1], bench.SHIFTS[6]))
    _, _, test = bench.split(graph, 1)
    labels = graph.labels.copy()
    labels[test] = (labels[test] + 1) % 3
    rows = [bench.measure(g, "SIGN", 1, 0) for g in (graph, graph.replace(labels=labels))]
    for one, other in zip(*rows, strict=True):
        if one["method"] != "oracle-T":
            assert [one[key] for key in LABEL_FREE] == [other[key] for key in LABEL_FREE]
        assert one["accuracy"] != other["accuracy"]


def test_a_card_without_a_family(graph):
    train, val, _ = bench.split(graph, 1)
    model = SIGN(hops=1).fit(graph, train)
    card = SourceCard.build(model, graph, val, compositions=8)
    thin = bench.without(card, "noise")
    assert thin.excluded == ("noise",)
    assert all("noise" not in item.families for item in thin.environments)
    kept = [item for item in card.environments if "noise" not in item.families]
    assert list(thin.environments) == kept
    assert len(thin.response(True).points) == len(kept)
    # Compositions are drawn from the families that are there, so only singles are the same.
    direct = SourceCard.build(model, graph, val, compositions=0, exclude=("noise",))
    singles = {item.shift: item for item in thin.environments if len(item.families) == 1}
    for item in direct.environments:
        assert singles[item.shift].accuracy == pytest.approx(item.accuracy)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": ["MLP"]}, "unknown model 'MLP'"),
        ({"models": []}, "unknown model"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"graphs": []}, "no graph to measure"),
        ({"graphs": ["nonsense"]}, "unknown graph 'nonsense'"),
    ],
)
def test_odd_requests(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        bench.run(tmp_path, **options)


def test_a_small_graph_is_refused():
    small = csbm.sample(200, degree=6, homophily=0.8, snr=1.0)
    with pytest.raises(InputError, match="200 labelled nodes"):
        bench.measure(small, "SIGN", 1)


def test_an_infinite_loss_is_kept_out_of_json_but_not_out_of_the_mean():
    logits, labels = np.array([[0.0, 3.0], [0.0, 2.0], [1.0, 0.0]]), np.array([1, 0, 0])
    answers = {method: bench.Answer(1.0) for method in bench.METHODS}
    answers["ATC"] = bench.Answer(1e-6)
    rows = bench.score(logits, labels, answers)
    found = {row["method"]: row for row in rows}
    assert found["ATC"]["nll"] is None
    assert bench._summary("ATC", "g", "SIGN", [{"rows": rows}])["nll_regret"] == np.inf
