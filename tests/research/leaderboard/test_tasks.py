"""A cell of the leaderboard: every method answers, and no method sees a label of the target."""

import json

import numpy as np
import pytest

from graphtemper import csbm, metrics, temperature
from graphtemper_research import baselines
from graphtemper_research.harness.cells import Case, stored
from graphtemper_research.harness.runner import QUICK_COMPOSITIONS, Request, run
from graphtemper_research.leaderboard import board
from graphtemper_research.leaderboard.board import QUICK_SHIFTS
from graphtemper_research.leaderboard.methods import (
    UNSEEN,
    Prediction,
    competitors,
)
from graphtemper_research.leaderboard.models import MODELS
from graphtemper_research.leaderboard.tasks import (
    KNOWN,
    NATURAL,
    ONE_PER_FAMILY,
    TITLED,
    UNSHIFTED,
    Task,
    measure,
    score,
)
from graphtemper_research.trials import shifted_targets
from graphtemper_research.trials.pairs import Pair
from graphtemper_research.trials.trial import ATLAS, ORACLE, SOURCE, hide_labels, split

FEW = ("VectorScaling", "RBS")


def sample(seed, homophily=0.8):
    return csbm.sample(1000, degree=6, homophily=homophily, snr=0.5, num_features=8, seed=seed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with two graphs of the same kind."""
    found = tmp_path_factory.mktemp("leaderboard")
    sample(1).save(found / "home.npz")
    sample(2, homophily=0.65).save(found / "away.npz")
    return found


@pytest.fixture(scope="module")
def outcome(folder):
    steps = []
    source, target = str(folder / "home.npz"), str(folder / "away.npz")
    bench = board.bench(["towns"], FEW, pairs=[Pair("towns", source, target)])
    request = Request(folder / "out", [source], ["SIGN"], quick=True)
    found = run(bench, request, lambda *step: steps.append(step))
    for name in ("known-home-SIGN-1", "natural-home-SIGN-1"):
        counts = [(done, total) for title, done, total in steps if title == name]
        assert counts == [(done, counts[-1][0]) for done in range(len(counts))]
    return found


def task_of(path, seed, shifts=QUICK_SHIFTS):
    return Task(str(path), "SIGN", seed, QUICK_COMPOSITIONS, shifts, calibrators=FEW)


def rows_of(folder, name):
    content = json.loads((folder / "out" / "cells" / f"{name}.json").read_text())
    found = {}
    for row in content["rows"]:
        found.setdefault(row["shift"], {})[row["method"]] = row
    return found


def test_everyone_answers_on_every_target(outcome, folder):
    known = rows_of(folder, "known-home-SIGN-1")
    assert tuple(known) == QUICK_SHIFTS
    assert all(set(row) == set(competitors("SIGN", FEW)) for row in known.values())
    assert known["noise(1)"][ATLAS] != known["noise(1)"][UNSEEN] | {"method": ATLAS}
    away = rows_of(folder, "natural-home-SIGN-1")
    assert tuple(away) == ("away",)
    assert UNSEEN not in away["away"]
    assert away["away"][ORACLE]["nodes"] == 1000


def test_source_t_and_a_calibrator_are_what_they_would_be_by_hand(outcome, folder):
    graph = sample(1)
    train, val, test = split(graph, 1)
    home = hide_labels(graph, test)
    model = MODELS["SIGN"](1).fit(home, train)
    known = rows_of(folder, "known-home-SIGN-1")["none"]
    fitted = temperature.fit(model(home)[val], graph.labels[val])
    p = temperature.apply(model(graph)[test], fitted)
    assert known[SOURCE]["ece"] == pytest.approx(metrics.ece(p, graph.labels[test]), abs=1e-6)
    by_hand = (
        baselines.VectorScaling().fit(model(home), home.labels, nodes=val).transform(model(graph))
    )
    nll = metrics.nll(by_hand[test], graph.labels[test])
    assert known["VectorScaling"]["nll"] == pytest.approx(nll, abs=1e-9)


def test_average_confidence_is_the_source_temperature(outcome, folder):
    for rows in rows_of(folder, "known-home-SIGN-1").values():
        assert rows["AverageConfidence"]["ece"] == pytest.approx(rows[SOURCE]["ece"], abs=1e-6)
        assert rows[ORACLE]["nll"] <= min(rows[name]["nll"] for name in (SOURCE, ATLAS)) + 1e-9


def test_labels_of_scored_nodes_change_no_answer(folder):
    """Swap the labels of the scored nodes: every probability must stay, so accuracies mirror."""
    graph = sample(1)
    _, _, test = split(graph, 1)
    swapped = graph.labels.copy()
    swapped[test] = 1 - swapped[test]
    graph.replace(labels=swapped).save(folder / "swapped.npz")
    task = task_of(folder / "swapped.npz", 1, QUICK_SHIFTS[:2])
    first = rows_of(folder, "known-home-SIGN-1")
    for row in measure(task):
        if row["method"] == ORACLE:
            continue
        before = first[row["shift"]][row["method"]]
        assert row["estimate"] == before["estimate"], row["method"]
        assert row["accuracy"] == pytest.approx(1.0 - before["accuracy"], abs=1e-9), row["method"]


def test_methods_that_change_predictions_are_scored_by_their_own():
    z, y = np.array([[0.0, 1.0], [0.0, 1.0]]), np.array([0, 0])
    found = score({"turned": Prediction(np.array([[0.9, 0.1], [0.9, 0.1]]))}, z, y)
    assert found["turned"]["accuracy"] == 1.0
    assert found["turned"]["ece"] == pytest.approx(0.1)
    assert found[ORACLE]["accuracy"] == 0.0


def test_the_outcome_has_both_settings_and_the_page_names_everyone(outcome):
    assert {row["setting"] for row in outcome.rows} == {KNOWN, NATURAL}
    page = board.BENCH.page(outcome.to_dict())
    assert all(f"| {name} |" in page for name in competitors("SIGN", FEW))
    assert {len(rows) for rows in board.BENCH.shown(outcome.to_dict()).values()} == {
        len(competitors("SIGN", FEW)),
        len(competitors("SIGN", FEW)) - 2,
    }


def test_one_known_shift_of_every_family():
    families = [TITLED[title].family for title in ONE_PER_FAMILY if title != UNSHIFTED]
    assert sorted(families) == sorted([*shifted_targets.families(), "homophily", "homophily"])


def test_finished_cells_are_read_back(outcome, folder):
    task = task_of(folder / "home.npz", 1)
    case = Case(task.title, task.head, pytest.fail)
    cell = stored(folder / "out" / "cells" / f"{task.title}.json", case)
    assert len(cell["rows"]) == len(task.targets) * len(task.methods)
    other = task_of(folder / "home.npz", 2)
    case = Case(other.title, other.head, pytest.fail)
    assert stored(folder / "out" / "cells" / f"{task.title}.json", case) is None
