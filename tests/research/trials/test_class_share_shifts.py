"""Changed class shares: the rows, and what the summary counts."""

import json

import numpy as np
import pytest

from graphtemper import csbm, shifts
from graphtemper_research.trials import class_share_shifts
from graphtemper_research.trials.class_share_shifts import BENCH, ESTIMATORS, METHODS
from graphtemper_research.trials.share_targets import CASES

# A graph as it is, new shares, a control alone and with them.
FEW = (CASES[0], *CASES[-6:-4], *CASES[5:8])


@pytest.fixture(scope="module", autouse=True)
def few_cases():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_share_shifts, "CASES", FEW)
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory, few_cases, quick):
    folder = tmp_path_factory.mktemp("class_shares")
    large = csbm.sample(
        700, degree=6, homophily=0.7, snr=0.5, num_classes=2, num_features=5, seed=1
    )
    # Unequal classes: only then do predictions lean on their shares.
    kept = shifts.resample_classes(large.labels, None, [0.75, 0.25])
    labels = np.full(large.num_nodes, -1)
    labels[kept] = large.labels[kept]
    large.replace(labels=labels).save(folder / "standin.npz")
    return folder, quick(BENCH, folder, [str(folder / "standin.npz")])


def test_every_case_is_reported(finished, tmp_path):
    folder, outcome = finished
    cell = json.loads((folder / "cells" / "standin-SIGN-1.json").read_text())
    assert [row["method"] for row in cell["rows"]] == [*METHODS] * len(FEW)
    assert len(outcome.rows) == len(FEW)
    for row in outcome.rows:
        assert all(
            row[f"l1 {name}"] is None or 0.0 <= row[f"l1 {name}"] <= 2.0 for name in ESTIMATORS
        )
        assert 0.0 <= row["ece uncalibrated"] <= 1.0
        if not row["applied"]:
            assert row["ece before"] == row["ece after"]
            assert row["accuracy before"] == row["accuracy after"]
    as_it_is = outcome.rows[0]
    assert as_it_is["ece source-T"] != as_it_is["ece uncalibrated"]
    assert len(outcome.comparisons) == 11
    assert "## SIGN: share errors by graph" in BENCH.page(outcome.to_dict())
    assert len(BENCH.shown(outcome.to_dict())) == 2
    assert outcome.write(tmp_path)[0].name == "class_shares.json"


def _row(before, after, applied=True, shift="none", strength=1.0):
    shares = {f"l1 {name}": 0.2 for name in ESTIMATORS} | {"l1 reported": 0.05}
    answers = {"accuracy before": 0.7, "accuracy after": 0.8}
    answers |= {"estimate before": 0.75, "estimate after": 0.79}
    case = {"shift": shift, "strength": strength, "applied": applied}
    eces = {"ece uncalibrated": 0.2, "ece source-T": 0.15}
    return case | shares | answers | eces | {"ece before": before, "ece after": after}


def test_the_bars_count_what_they_say():
    rows = [_row(0.10, 0.05)] * 17 + [_row(0.10, 0.103)] + [_row(0.1, 0.1, applied=False)] * 2
    rows += [_row(0.1, 0.2, shift="noise(1)"), _row(0.1, 0.1, applied=False, strength=0.0)]
    bars = {bar.quantity: bar for bar in class_share_shifts.compare(rows)}
    share = bars["share error where shares are reported, over that of predicted shares"]
    assert (share.measured, share.met) == (pytest.approx(0.25), True)
    fine = bars["cases in which the ECE is no worse with the correction"]
    assert (fine.measured, fine.met) == (pytest.approx(0.95), True)
    assert bars["corrected cases in which the ECE is worse"].note == "1 of 18"
    assert bars["corrected cases in which it is worse by 0.005"].note == "0 of 18"
    assert bars["controls in which that made the ECE worse"].note == "1 of 1"
    note = bars["mean ECE of corrected cases"].note
    assert "0.1500 at source-T, 0.2000 uncalibrated" in note
