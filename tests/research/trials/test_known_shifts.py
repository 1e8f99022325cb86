"""The sixteen shifts, on a small stand-in for a real graph."""

import json

import numpy as np
import pytest

from graphtemper import SourceCard, csbm
from graphtemper.errors import InputError
from graphtemper.models import SIGN
from graphtemper_research.trials import known_shifts, summary, trial
from graphtemper_research.trials.trial import QUICK_COMPOSITIONS, split

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
    outcome = known_shifts.run(
        folder,
        [str(folder / "standin.npz")],
        quick=True,
        progress=lambda title, done, total: seen.append((title, done, total)),
    )
    return folder, outcome, seen


def test_the_shifts_of_the_protocol():
    assert len(known_shifts.SHIFTS) == 16
    assert known_shifts.SHIFTS[0] is None
    families = {shift.family for shift in known_shifts.SHIFTS[1:]}
    known = {"noise", "mask", "rewire", "drop", "add", "shuffle", "heterogeneous", "scale"}
    assert families == known


def test_a_cell_has_every_shift_and_method(finished):
    folder, _, seen = finished
    (path,) = (folder / "cells").iterdir()
    assert path.name == "standin-SIGN-1.json"
    cell = json.loads(path.read_text())
    assert len(cell["rows"]) == 16 * len(summary.METHODS)
    assert cell["compositions"] == QUICK_COMPOSITIONS
    assert seen[-1][0] == "standin-SIGN-1"
    assert seen[-1][1] == seen[-1][2]
    for row in cell["rows"]:
        assert 0 <= row["ece"] <= 1
        assert row["nll"] is None or np.isfinite(row["nll"])
        assert (row["verdict"] is not None) == row["method"].startswith("atlas")
        assert row["card_nodes"] == row["nodes"] == 250
    oracle = {row["shift"]: row["nll"] for row in cell["rows"] if row["method"] == "oracle-T"}
    assert all(
        row["nll"] is None or row["nll"] >= oracle[row["shift"]] - 1e-9 for row in cell["rows"]
    )


def test_the_summary_comes_from_the_cells(finished, tmp_path):
    folder, outcome, _ = finished
    average = {row["method"]: row for row in outcome.rows if row["graph"] == "average"}
    assert tuple(average) == summary.METHODS
    assert average["oracle-T"]["ece_ratio"] == 1.0
    assert average["oracle-T"]["nll_regret"] == 0.0
    cell = json.loads((folder / "cells" / "standin-SIGN-1.json").read_text())
    mine = [row for row in cell["rows"] if row["method"] == summary.KNOWN]
    covered = np.mean([row["low"] <= row["accuracy"] <= row["high"] for row in mine])
    assert average[summary.KNOWN]["coverage"] == pytest.approx(covered)
    assert average[summary.KNOWN]["ece"] == pytest.approx(np.mean([row["ece"] for row in mine]))
    assert sum(average[summary.KNOWN][verdict] for verdict in ("trust", "caution", "abstain")) == 16
    assert summary.render(outcome).count("\n| standin |") == len(summary.METHODS)
    written = outcome.write(tmp_path)
    assert [path.name for path in written] == [f"atlas_bench.{e}" for e in ("json", "csv", "png")]


def test_finished_cells_are_not_measured_again(finished, monkeypatch):
    folder, first, _ = finished

    def never(*arguments, **options):
        raise AssertionError("measured again")

    monkeypatch.setattr(known_shifts, "measure", never)
    again = known_shifts.run(folder, [str(folder / "standin.npz")], quick=True)
    assert again.to_dict() == first.to_dict()
    with pytest.raises(AssertionError, match="measured again"):  # another protocol
        known_shifts.run(folder, [str(folder / "standin.npz")], seeds=1)


def test_target_labels_reach_only_the_scores(graph, finished, monkeypatch):
    """Other labels on the scored nodes change no answer, and no labels at all change none."""
    folder, _, _ = finished
    first = json.loads((folder / "cells" / "standin-SIGN-1.json").read_text())["rows"]
    chosen = (None, known_shifts.SHIFTS[1], known_shifts.SHIFTS[6])
    names = [known_shifts.title(shift) for shift in chosen]
    first = [row for row in first if row["shift"] in names]
    parts = split(graph, 1)
    labels = graph.labels.copy()
    labels[parts[2]] = -1
    monkeypatch.setattr(known_shifts, "SHIFTS", known_shifts.SHIFTS[:7])
    monkeypatch.setattr(known_shifts, "split", lambda *_: parts)
    monkeypatch.setattr(known_shifts, "FEWEST_NODES", 0)
    truth, score = graph.labels[parts[2]], known_shifts.score
    monkeypatch.setattr(
        known_shifts, "score", lambda logits, _, answers: score(logits, truth, answers)
    )
    left_out, ask = [], trial.Source.ask

    def spy(self, target, nodes, seed, card=None):
        left_out.append((card or self.card).excluded)
        return ask(self, target, nodes, seed, card)

    monkeypatch.setattr(trial.Source, "ask", spy)
    rows = known_shifts.measure(graph.replace(labels=labels), "SIGN", 1, QUICK_COMPOSITIONS)
    families = ["noise", "noise", "noise", "mask", "mask", "rewire"]
    assert left_out == [(), *(card for name in families for card in ((), (name,)))]
    rows = [row for row in rows if row["shift"] in names]
    assert len(rows) == len(first) == 3 * len(summary.METHODS)
    for one, other in zip(first, rows, strict=True):
        assert [one[key] for key in LABEL_FREE] == [other[key] for key in LABEL_FREE]


def test_a_card_without_a_family_has_never_seen_it(graph):
    train, val, _ = split(graph, 1)
    model = SIGN(hops=1).fit(graph, train)
    card = SourceCard.build(model, graph, val, compositions=8)
    thin = card.without("noise")
    assert thin.excluded == ("noise",)
    kept = [item for item in card.environments if "noise" not in item.families]
    assert 0 < len(kept) < len(card.environments)
    assert list(thin.environments) == kept
    # Compositions are drawn from the families that are there, so only singles are the same.
    direct = SourceCard.build(model, graph, val, compositions=0, exclude=("noise",))
    singles = {item.shift: item for item in thin.environments if len(item.families) == 1}
    for item in direct.environments:
        assert singles[item.shift].accuracy == pytest.approx(item.accuracy)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": ["MLP"]}, "unknown model 'MLP'"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"graphs": []}, "no graph to measure"),
        ({"graphs": ["nonsense"]}, "unknown graph 'nonsense'"),
    ],
)
def test_odd_requests(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        known_shifts.run(tmp_path, **options)


def test_a_small_graph_is_refused():
    small = csbm.sample(200, degree=6, homophily=0.8, snr=1.0)
    with pytest.raises(InputError, match="200 labelled nodes"):
        known_shifts.measure(small, "SIGN", 1)
