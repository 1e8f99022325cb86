"""The summary of known shifts, on rows made by hand."""

import numpy as np
import pytest

from graphtemper_research.trials import summary
from graphtemper_research.trials.summary import KNOWN, METHODS, UNKNOWN


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


def test_harm_is_counted_only_where_there_was_trust():
    def small(verdict):
        rows = [row("source-T", 0.05), row("oracle-T", 0.02), row(KNOWN, 0.08, verdict)]
        return {"rows": rows}

    verdicts = ("trust", "caution", "caution", "abstain")
    found = summary.summarise(KNOWN, "g", "SIGN", [small(verdict) for verdict in verdicts])
    assert found["harmful"] == 1
    assert [found[verdict] for verdict in ("trust", "caution", "abstain")] == [1, 2, 1]
    assert found["ece_ratio"] == pytest.approx(4.0)
    assert found["worst_excess"] == pytest.approx(0.03)
    assert found["accuracy_error"] == pytest.approx(0.02)
    other = summary.summarise("source-T", "g", "SIGN", [small("trust")])
    assert other["harmful"] == 0  # never worse than itself
    assert other["trust"] is None


def test_an_infinite_loss_is_not_left_out_of_the_mean():
    found = summary.summarise(KNOWN, "g", "SIGN", [cell(), cell(**{KNOWN: {"nll": None}})])
    assert found["nll_regret"] == np.inf


def test_the_sampling_floor_is_what_sampling_alone_shows():
    accuracy, card, scored = 0.7, 300, 500
    rng = np.random.default_rng(1)
    said = rng.binomial(card, accuracy, 200_000) / card
    true = rng.binomial(scored, accuracy, 200_000) / scored
    floor = summary.sampling_floor({"accuracy": accuracy, "card_nodes": card, "nodes": scored})
    assert floor == pytest.approx(np.abs(said - true).mean(), rel=0.01)


def test_bars_are_met_or_not():
    found = summary.outcome([cell("one"), cell("two")])
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
    found = summary.outcome([cell("cora"), worse])
    averages = {
        r["trial"]: r for r in found.rows if (r["graph"], r["method"]) == ("average", KNOWN)
    }
    assert list(averages) == ["SIGN", "SIGN+svd64"]
    assert averages["SIGN"]["accuracy_error"] == pytest.approx(0.02)
    assert averages["SIGN+svd64"]["accuracy_error"] == pytest.approx(0.4)
    text = summary.render(found)
    assert "## SIGN+svd64" in text
    assert text.count("\n| cora |") == text.count("\n| cora+svd64 |") == len(METHODS)
    shown = summary.shown(found)
    assert shown["SIGN: atlas, known family"][0]["t/c/a"] == "1/0/0"
    assert [row["graph"] for row in shown["SIGN+svd64: atlas, known family"]] == ["cora", "average"]
