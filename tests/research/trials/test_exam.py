"""The exam: its scores and goals on numbers that are known, and a small run of every kind."""

import json

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import csbm
from graphtemper_research.harness.frame import select
from graphtemper_research.trials import exam, situations
from graphtemper_research.trials.exam import EVERYTHING, goals, scores, wilson
from graphtemper_research.trials.natural import Family
from graphtemper_research.trials.trial import MODELS, halves


def answer(held, verdict="trust", part="a", wilson=None):
    """Return an answer about a truth of 0.5, in an interval of width 0.2 or beside it."""
    low = 0.4 if held else 0.6
    ends = (None, None) if wilson is None else (0.5 - wilson / 2, 0.5 + wilson / 2)
    found = {"accuracy": 0.5, "low": low, "high": low + 0.2, "verdict": verdict, "part": part}
    return found | {"wilson_low": ends[0], "wilson_high": ends[1]}


@pytest.mark.parametrize(("right", "count"), [(0, 20), (17, 20), (50, 100), (20, 20)])
def test_wilsons_ends_solve_the_score_equation(right, count):
    effective = count * 399 / (400 - count)
    for end in wilson(right, count, 400):
        score = (right / count - end) ** 2 * effective
        assert score == pytest.approx(1.6448536269514722**2 * end * (1 - end), abs=1e-9)


def test_scores_count_what_answers_say():
    answers = [answer(True)] * 6 + [answer(False)] * 2 + [answer(False, "abstain", "b")] * 2
    found = scores(answers)
    assert (found["trust"], found["abstain"], found["trusted held"]) == (0.8, 0.2, 0.75)
    assert (found["held"], found["honest"]) == (0.6, 0.8)
    assert (found["worst part"], found["worst held"], found["held by part"]) == ("b", 0.0, 0.375)
    assert found["width"] == pytest.approx(0.2)
    assert found["wilson held"] is None


def test_labels_are_judged_by_family_and_against_wilson():
    answers = [answer(True, part="a", wilson=0.4)] * 9 + [answer(False, part="b", wilson=0.1)]
    found = scores(answers)
    assert found["width ratio"] == pytest.approx((0.5 + 2.0) / 2)
    row = {"row": "20 labels", "part": EVERYTHING, "model": "SIGN", **found}
    met = {goal.quantity: goal.met for goal in goals([row])}
    assert met == {
        "20 labels: intervals hold": True,
        "20 labels: worst family": False,
        "20 labels: width over Wilson's": False,
    }


@pytest.mark.parametrize(("trusted", "judged"), [(19, False), (20, True)])
def test_few_trusted_answers_are_not_judged(trusted, judged):
    answers = [answer(False)] * trusted + [answer(False, "abstain")] * 5
    row = {"row": situations.NO_SIGNAL, "part": EVERYTHING, **scores(answers)}
    found = {goal.quantity.partition(": ")[2]: goal for goal in goals([row])}
    assert ("trusted intervals hold" in found) == judged
    honest = found["interval holds or abstain"]
    assert honest.measured == pytest.approx(5 / (trusted + 5))
    assert honest.met is False


def test_what_can_be_known_must_be_trusted():
    found = scores([answer(True, "caution")] * 5)
    for name in set(situations.ROWS) - set(situations.LABELS):
        row = {"row": name, "part": EVERYTHING, **found}
        unmet = [goal.quantity for goal in goals([row]) if goal.met is False]
        known = name in (*exam.CAN_KNOW, situations.UNCHANGED)
        assert unmet == ([f"{name}: share of trust"] if known else [])


@pytest.fixture(scope="module")
def finished(tmp_path_factory, quick):
    """Return a run on a small block model and on a family of three small graphs."""
    folder = tmp_path_factory.mktemp("exam")
    kind = {"degree": 6, "snr": 1.5, "num_features": 5}
    names = tuple(str(folder / f"place_{number}.npz") for number in range(3))
    for number, name in enumerate(names):
        csbm.sample(240, homophily=0.8 - 0.1 * number, seed=number, **kind).save(name)
    bench = exam.bench([Family("places", names)])
    block = situations.Block(2, 5, 240, 1.5, (0.6,), degree=6.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(situations.BLOCKS, "2 classes", block)
        outcome = quick(bench, folder, ["2 classes", "places"])
    return folder, bench, outcome, names


@pytest.mark.cpu(30)
def test_every_row_is_measured(finished, tmp_path):
    _, bench, outcome, _ = finished
    whole = select(outcome.rows, part=EVERYTHING)
    assert [row["row"] for row in whole] == list(situations.ROWS[:-1])  # 240 nodes: not 200 labels
    counts = {row["row"]: row["answers"] for row in whole}
    assert counts[situations.FRESH] == exam.FRESH_GRAPHS
    assert counts[situations.ENDS] == len(situations.SHIFT_ENDS)
    assert counts[situations.ACCIDENTS] == len(situations.HAPPENED)
    assert counts["20 labels"] == exam.DRAWS
    for row in whole:
        assert sum(row[verdict] for verdict in exam.VERDICTS) == pytest.approx(1.0)
    page = bench.page(outcome.to_dict())
    assert all(f"| {row} |" in page for row in counts)
    assert outcome.write(tmp_path)[0].name == "exam.json"


def test_the_truth_is_that_of_the_frozen_model(finished):
    folder, _, _, names = finished
    cell = json.loads((folder / "cells" / "places-SIGN-1.json").read_text())
    source, target = (csbm.Graph.load(name) for name in (names[0], names[1]))
    model = MODELS["SIGN"](1).fit(source, halves(source, 1)[0])
    accuracy = np.mean(model(target).argmax(axis=1) == target.labels)
    natural = select(cell["rows"], row=situations.NATURAL)
    assert natural[0]["accuracy"] == pytest.approx(accuracy)
    assert {row["accuracy"] for row in select(cell["rows"], row="50 labels")} == {
        row["accuracy"] for row in natural
    }


def test_sources_go_by_name(tmp_path):
    with raises("choice", "unknown source 'moon'"):
        exam.cases([], exam.Request(tmp_path, ["moon"]))
    families = exam.separate(exam.FAMILIES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exam.graph_names, "present", lambda names: (list(names), []))
        found, _ = exam.cases(families, exam.Request(tmp_path))
    titles = [case.title for case in found]
    assert len(titles) == len(set(titles))
    assert {title for title in titles if "twitch" in title} == {"twitch-SIGN-1", "twitch-SIGN-2"}
    assert sum("lucene" in title for title in titles) == 2 * len(exam.TRIED)
