"""The sixteen shifts and those of the homophily, on a small stand-in for a real graph."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import csbm
from graphtemper.card import atlas
from graphtemper_research.harness.runner import QUICK_COMPOSITIONS, Request, run
from graphtemper_research.trials import graph_names, known_shifts, shifted_targets, trial
from graphtemper_research.trials.known_shifts import BENCH, KNOWN, METHODS, UNKNOWN
from graphtemper_research.trials.trial import split

LABEL_FREE = ("temperature", "estimate", "low", "high", "verdict")


@pytest.fixture(scope="module", autouse=True)
def few_strengths():
    """Give every family of the atlas two strengths: what is tested does not depend on more."""
    with pytest.MonkeyPatch.context() as patch:
        few = {name: levels[:: len(levels) - 1] for name, levels in atlas.LEVELS.items()}
        patch.setattr(atlas, "LEVELS", few)
        yield


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(
        1000, degree=6, homophily=0.8, snr=1.0, num_classes=3, num_features=6, seed=1
    )


@pytest.fixture(scope="module")
def finished(graph, tmp_path_factory, quick):
    folder = tmp_path_factory.mktemp("bench")
    graph.save(folder / "standin.npz")
    steps = []
    outcome = quick(BENCH, folder, [str(folder / "standin.npz")], lambda *step: steps.append(step))
    return folder, outcome, steps


def test_the_shifts_of_the_protocol():
    assert len(shifted_targets.SHIFTS) == 16
    assert shifted_targets.SHIFTS[0] is None
    families = {shift.family for shift in shifted_targets.SHIFTS[1:]}
    known = {"noise", "mask", "rewire", "drop", "add", "shuffle", "heterogeneous", "scale"}
    assert families == known


def test_a_cell_has_every_shift_and_method(finished):
    folder, _, steps = finished
    (path,) = (folder / "cells").iterdir()
    assert path.name == "standin-SIGN-1.json"
    cell = json.loads(path.read_text())
    assert len(cell["rows"]) == (16 + 4) * len(METHODS)
    assert cell["compositions"] == QUICK_COMPOSITIONS
    assert steps[-1][0] == "standin-SIGN-1"
    assert steps[-1][1] == steps[-1][2]
    for row in cell["rows"]:
        assert 0 <= row["ece"] <= 1
        assert row["nll"] is None or np.isfinite(row["nll"])
        assert (row["verdict"] is not None) == row["method"].startswith("atlas")
        assert row["card_nodes"] == row["nodes"] == 250
    oracle = {row["shift"]: row["nll"] for row in cell["rows"] if row["method"] == "oracle-T"}
    assert all(
        row["nll"] is None or row["nll"] >= oracle[row["shift"]] - 1e-9 for row in cell["rows"]
    )


@pytest.mark.parametrize(("name", "count"), [("SIGN", 16), ("SIGN, homophily", 4)])
def test_the_summary_comes_from_the_cells(finished, name, count):
    folder, outcome, _ = finished
    found = [row for row in outcome.rows if row["trial"] == name and row["graph"] == "average"]
    average = {row["method"]: row for row in found}
    assert tuple(average) == METHODS
    assert average["oracle-T"]["ece_ratio"] == 1.0
    assert average["oracle-T"]["nll_regret"] == 0.0
    cell = json.loads((folder / "cells" / "standin-SIGN-1.json").read_text())
    of_homophily = [row for row in cell["rows"] if row["shift"].startswith("homophily")]
    chosen = of_homophily if count == 4 else [r for r in cell["rows"] if r not in of_homophily]
    own = [row for row in chosen if row["method"] == KNOWN]
    assert len(own) == count
    covered = [row["low"] <= row["accuracy"] <= row["high"] for row in own]
    assert average[KNOWN]["coverage"] == pytest.approx(np.mean(covered))
    trusted = [one for one, row in zip(covered, own, strict=True) if row["verdict"] == "trust"]
    stated = average[KNOWN]["trusted_coverage"]
    assert stated == (pytest.approx(np.mean(trusted)) if trusted else None)
    assert average[KNOWN]["ece"] == pytest.approx(np.mean([row["ece"] for row in own]))
    assert sum(average[KNOWN][verdict] for verdict in ("trust", "caution", "abstain")) == count


def test_the_page_has_a_row_per_trial_and_method(finished, tmp_path):
    _, outcome, _ = finished
    assert BENCH.page(outcome.to_dict()).count("\n| standin |") == 2 * len(METHODS)
    written = outcome.write(tmp_path)
    assert [path.name for path in written] == [f"atlas_bench.{e}" for e in ("json", "png")]


def test_targets_of_the_homophily_have_no_labels_and_another_homophily(graph):
    found = list(shifted_targets.shifted(graph, 1, shifted_targets.HOMOPHILY))
    assert all(target.labels is None for _, target, _ in found)

    def share(edges):
        return float((graph.labels[edges[:, 0]] == graph.labels[edges[:, 1]]).mean())

    shares = [share(target.edges) for _, target, _ in found]
    assert shares == sorted(shares)
    assert shares[1] < share(graph.edges) < shares[2]


def test_target_labels_reach_only_the_scores(graph, finished, monkeypatch):
    """Other labels on the scored nodes change no answer, and no labels at all change none."""
    folder, _, _ = finished
    first = json.loads((folder / "cells" / "standin-SIGN-1.json").read_text())["rows"]
    chosen = (None, shifted_targets.SHIFTS[1], shifted_targets.SHIFTS[6])
    names = [shifted_targets.title(shift) for shift in chosen]
    first = [row for row in first if row["shift"] in names]
    parts = split(graph, 1)
    labels = graph.labels.copy()
    labels[parts[2]] = -1
    monkeypatch.setattr(shifted_targets, "SHIFTS", shifted_targets.SHIFTS[:7])
    monkeypatch.setattr(known_shifts, "HOMOPHILY", ())  # these targets themselves read labels
    monkeypatch.setattr(trial, "split", lambda *_: parts)
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
    assert len(rows) == len(first) == 3 * len(METHODS)
    for one, other in zip(first, rows, strict=True):
        assert [one[key] for key in LABEL_FREE] == [other[key] for key in LABEL_FREE]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"models": ["MLP"]}, "choice"),
        ({"seeds": 0}, "range"),
        ({"names": []}, "empty"),
        ({"names": ["nonsense"]}, "choice"),
    ],
)
def test_odd_requests(tmp_path, options, error):
    with raises(error):
        run(BENCH, Request(tmp_path, **options))


def test_a_small_graph_is_refused():
    small = csbm.sample(200, degree=6, homophily=0.8, snr=1.0)
    with raises("too-few"):
        known_shifts.measure(small, "SIGN", 1, 0)


def row(method, ece, verdict=None, **other):
    fixed = {"shift": "none", "nll": 1.0, "accuracy": 0.5, "estimate": 0.52, "low": 0.4}
    fixed |= {"high": 0.6, "nodes": 100, "card_nodes": 100, "temperature": 1.0}
    return fixed | {"method": method, "ece": ece, "verdict": verdict} | other


def cell(graph="g", **changes):
    ece = dict.fromkeys(METHODS, 0.05) | {"oracle-T": 0.02, KNOWN: 0.021, UNKNOWN: 0.08}
    rows = [
        row(m, ece[m], "trust" if m in (KNOWN, UNKNOWN) else None, **changes.get(m, {}))
        for m in METHODS
    ]
    return {"graph": graph, "model": "SIGN", "seed": 1, "compositions": 10, "rows": rows}


def summarised(method, cells):
    """Return the row of one method on the first graph."""
    return next(row for row in known_shifts.summarise(cells) if row["method"] == method)


def test_harm_is_counted_only_where_there_was_trust():
    def small(seed, verdict):
        rows = [row("source-T", 0.05), row("oracle-T", 0.02), row(KNOWN, 0.08, verdict)]
        return {"graph": "g", "model": "SIGN", "seed": seed, "rows": rows}

    verdicts = ("trust", "caution", "caution", "abstain")
    found = summarised(KNOWN, [small(*item) for item in enumerate(verdicts)])
    assert found["harmful"] == 1
    assert [found[verdict] for verdict in ("trust", "caution", "abstain")] == [1, 2, 1]
    assert found["ece_ratio"] == pytest.approx(4.0)
    assert found["worst_excess"] == pytest.approx(0.03)
    assert found["accuracy_error"] == pytest.approx(0.02)
    other = summarised("source-T", [small(1, "trust")])
    assert other["harmful"] == 0  # never worse than itself
    assert other["trust"] is None


def test_an_infinite_loss_is_not_left_out_of_the_mean():
    certain = cell(**{KNOWN: {"nll": None}}) | {"seed": 2}
    found = summarised(KNOWN, [cell(), certain])
    assert found["nll_regret"] == np.inf


def test_the_sampling_floor_is_what_sampling_alone_shows():
    accuracy, card, scored = 0.7, 300, 500
    rng = np.random.default_rng(1)
    estimated = rng.binomial(card, accuracy, 200_000) / card
    true = rng.binomial(scored, accuracy, 200_000) / scored
    floor = known_shifts.sampling_floor({"accuracy": accuracy, "card_nodes": card, "nodes": scored})
    assert floor == pytest.approx(np.abs(estimated - true).mean(), rel=0.01)


def test_bars_are_met_or_not():
    found = BENCH.outcome([cell("one"), cell("two")])
    bars = {bar.quantity: bar for bar in found.comparisons}
    assert bars["SIGN, known family: ECE over oracle's"].met
    assert bars["SIGN, known family: ECE over oracle's"].measured == pytest.approx(1.05)
    assert not bars["SIGN, unknown family: ECE over oracle's"].met
    assert not bars["SIGN, known family: error of the accuracy"].met
    assert "sampling floor 0.0564" in bars["SIGN, known family: error of the accuracy"].note
    assert bars["SIGN, known family: harmful trust"].met
    assert bars["SIGN, unknown family: harmful trust"].measured == 2
    assert bars["SIGN, unknown family: harmful trust"].note == "2 trust, 0 caution, 0 abstain"
    assert not bars["SIGN, unknown family: coverage of the 90 % interval"].met
    assert bars["SIGN, known family: coverage of the 90 % interval"].met is None


def test_embeddings_have_their_own_average():
    worse = cell("cora+svd64", **{KNOWN: {"estimate": 0.9}})
    found = BENCH.outcome([cell("cora"), worse])
    averages = {
        r["trial"]: r for r in found.rows if (r["graph"], r["method"]) == ("average", KNOWN)
    }
    assert list(averages) == ["SIGN", "SIGN+svd64"]
    assert averages["SIGN"]["accuracy_error"] == pytest.approx(0.02)
    assert averages["SIGN+svd64"]["accuracy_error"] == pytest.approx(0.4)
    text = BENCH.page(found.to_dict())
    assert "## SIGN+svd64" in text
    assert text.count("\n| cora |") == text.count("\n| cora+svd64 |") == len(METHODS)
    shown = BENCH.shown(found.to_dict())
    assert shown["SIGN: atlas, known family"][0]["t/c/a"] == "1/0/0"
    assert [row["graph"] for row in shown["SIGN+svd64: atlas, known family"]] == ["cora", "average"]


def test_smaller_graphs_are_measured_with_a_gcn_too():
    def titles(**chosen):
        return [case.title for case in BENCH.cases(Request(Path("out"), **chosen))[0]]

    if not (here := shifted_targets_here()):
        pytest.skip("the graphs are not on this machine")
    every = titles()
    assert {f"{here[0]}-{model}-1" for model in ("SIGN", "GCN")} <= set(every)
    assert len(every) == len(set(every))
    assert not any("GCN" in title for title in titles(models=["SIGN"]))


def shifted_targets_here():
    return graph_names.present(known_shifts.GCN_GRAPHS)[0]
