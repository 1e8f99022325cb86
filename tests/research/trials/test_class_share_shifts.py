"""Changed class shares on trial: the targets, the rows, and what the summary counts."""

import json

import numpy as np
import pytest

from graphtemper import csbm, shifts
from graphtemper.errors import InputError
from graphtemper_research.trials import class_share_shifts as class_shares
from graphtemper_research.trials import class_shares_summary
from graphtemper_research.trials.class_share_shifts import CASES, FEWEST_TARGET_NODES, resampled
from graphtemper_research.trials.class_shares_summary import CORRECTED, ESTIMATORS, PLAIN


@pytest.mark.parametrize("strength", [0.5, 2.0])
def test_stronger_targets_have_newer_shares_and_enough_nodes(strength):
    labels = np.random.default_rng(0).integers(4, size=2000)
    nodes = np.arange(500, 2000)
    drawn = [resampled(labels, nodes, strength, seed) for seed in range(20)]
    moves = []
    for kept in drawn:
        assert np.isin(kept, nodes).all()
        assert kept.size == np.unique(kept).size >= FEWEST_TARGET_NODES
        moves.append(np.abs(np.bincount(labels[kept], minlength=4) / kept.size - 0.25).sum())
    assert (np.mean(moves) > 0.7) == (strength == 2.0)
    assert (resampled(labels, nodes, strength, 3) == drawn[3]).all()
    assert resampled(labels, nodes, 0.0, 3).size == 1000


# A graph as it is, new shares, a control alone and with them.
FEW = (CASES[0], *CASES[-6:-4], *CASES[5:8])


@pytest.fixture(scope="module", autouse=True)
def few_cases():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_shares, "CASES", FEW)
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory, few_cases):
    folder = tmp_path_factory.mktemp("class_shares")
    large = csbm.sample(
        700, degree=6, homophily=0.7, snr=0.5, num_classes=2, num_features=5, seed=1
    )
    # Unequal classes: only then do predictions lean on their shares.
    kept = shifts.resample_classes(large.labels, None, [0.75, 0.25])
    labels = np.full(large.num_nodes, -1)
    labels[kept] = large.labels[kept]
    large.replace(labels=labels).save(folder / "standin.npz")
    return folder, class_shares.run(folder, [str(folder / "standin.npz")], quick=True)


def test_every_case_is_reported(finished, tmp_path):
    folder, outcome = finished
    cell = json.loads((folder / "cells" / "standin-SIGN-1.json").read_text())
    assert [row["method"] for row in cell["rows"]] == [PLAIN, CORRECTED] * len(FEW)
    assert len(outcome.rows) == len(FEW)
    for row in outcome.rows:
        assert all(
            row[f"l1 {name}"] is None or 0.0 <= row[f"l1 {name}"] <= 2.0 for name in ESTIMATORS
        )
        if not row["applied"]:
            assert row["ece before"] == row["ece after"]
            assert row["accuracy before"] == row["accuracy after"]
    assert len(outcome.comparisons) == 11
    assert "## SIGN: share errors by graph" in class_shares_summary.render(outcome)
    assert len(class_shares_summary.shown(outcome)) == 2
    assert outcome.write(tmp_path)[0].name == "class_shares.json"


def test_finished_cells_are_not_measured_again(finished, monkeypatch):
    folder, first = finished
    monkeypatch.setattr(class_shares, "measure", lambda *a, **o: pytest.fail("measured again"))
    again = class_shares.run(folder, [str(folder / "standin.npz")], quick=True)
    assert again.to_dict() == first.to_dict()


def test_missing_graphs_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(class_shares, "QUICK_GRAPHS", ("nowhere.npz",))
    with pytest.raises(InputError, match="no graph to measure"):
        class_shares.run(tmp_path, quick=True)


def _row(before, after, applied=True, shift="none", strength=1.0):
    shares = {f"l1 {name}": 0.2 for name in ESTIMATORS} | {"l1 reported": 0.05}
    answers = {"accuracy before": 0.7, "accuracy after": 0.8}
    answers |= {"estimate before": 0.75, "estimate after": 0.79}
    case = {"shift": shift, "strength": strength, "applied": applied}
    return case | shares | answers | {"ece before": before, "ece after": after}


def test_the_bars_count_what_they_say():
    rows = [_row(0.10, 0.05)] * 17 + [_row(0.10, 0.103)] + [_row(0.1, 0.1, applied=False)] * 2
    rows += [_row(0.1, 0.2, shift="noise(1)"), _row(0.1, 0.1, applied=False, strength=0.0)]
    bars = {bar.quantity: bar for bar in class_shares_summary.compare("SIGN", rows)}
    share = bars["SIGN: share error where shares are reported, over that of predicted shares"]
    assert (share.measured, share.met) == (pytest.approx(0.25), True)
    fine = bars["SIGN: cases in which the ECE is no worse with the correction"]
    assert (fine.measured, fine.met) == (pytest.approx(0.95), True)
    assert bars["SIGN: corrected cases in which the ECE is worse"].note == "1 of 18"
    assert bars["SIGN: corrected cases in which it is worse by 0.005"].note == "0 of 18"
    assert bars["SIGN: controls in which that made the ECE worse"].note == "1 of 1"
