"""The leaderboard: which cells a request means, and what its bars say."""

from pathlib import Path

import pytest
from tests.helpers import raises

from graphtemper_research.harness import frame
from graphtemper_research.harness.runner import Request, run
from graphtemper_research.leaderboard import board
from graphtemper_research.leaderboard.board import BENCH
from graphtemper_research.leaderboard.families import FAMILIES
from graphtemper_research.leaderboard.section import section
from graphtemper_research.leaderboard.tasks import KNOWN, balanced, known
from graphtemper_research.numbers.tables import Results
from graphtemper_research.trials.trial import ATLAS, ORACLE, SOURCE


def test_the_prediction_names_who_contradicts_it(cells):
    found = {bar.quantity: bar for bar in BENCH.outcome(cells).comparisons}
    against = found[f"{KNOWN}: source-fitted calibrators with less ECE than source-T over graphs"]
    assert (against.measured, against.met) == (1, False)
    assert against.note == "GATS (-0.058)" or against.note == "GATS (-0.057)"
    best = found[f"{KNOWN}: share of source-T's excess ECE that the atlas removes"]
    assert best.met is True


def test_the_paragraph_is_made_of_the_files(tmp_path, cells, make_cell):
    BENCH.outcome(cells).write(tmp_path)
    text = section(Results(tmp_path), "results/")
    assert "![Every calibrator under shift](results/leaderboard.png)" in text
    (row,) = (line for line in text.splitlines() if line.startswith("| Known shifts"))
    means = frame.grouped(BENCH.outcome(cells).rows, "method")
    for method in (SOURCE, ATLAS, ORACLE):
        assert f"{means[method,][0]['ece']:.3f}" in row
    assert "GATS (known shifts) by 0.05" in text
    calm = [
        make_cell("SIGN", graph, 1, source=0.2, RBS=0.21, atlas=0.1, per_node=0.1, oracle=0.05)
        for graph in ("a", "b")
    ]
    BENCH.outcome(calm).write(tmp_path)
    assert "inherit its failure: none." in section(Results(tmp_path))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"models": ["MLP"]}, "choice"),
        ({"calibrators": ["GAST"]}, "choice"),
        ({"retrain": ["Tant"]}, "choice"),
        ({"groups": ["mars"]}, "choice"),
        ({"seeds": 0}, "range"),
        ({"names": []}, "empty"),
    ],
)
def test_wrong_requests(tmp_path, options, error):
    chosen = {"names": ["cora"], "models": ["SIGN"]} | options
    request = {key: chosen.pop(key) for key in ("names", "models", "seeds") if key in chosen}
    with raises(error):
        run(board.bench(**chosen), Request(tmp_path, **request))


def test_models_and_groups_of_a_request(tmp_path):
    def titles(bench, **request):
        cases, _ = bench.cases(Request(tmp_path, **request))
        return [case.title for case in cases]

    cheap = board.bench(calibrators=["RBS"])
    named = titles(cheap, names=["cora"], models=["SIGN"], seeds=2)
    assert named == ["known-cora-SIGN-1", "known-cora-SIGN-2"]
    # Slow calibrators have cells of their own, after all others.
    some = board.bench(calibrators=["RBS", "GATS", "Tent"])
    assert titles(some, names=["cora"], models=["SIGN", "GCN"], seeds=1) == [
        "known-cora-SIGN-1",
        "known-cora-GCN-1",
        "known-cora-SIGN-1-GATS",
        "known-cora-GCN-1-GATS",
        "known-cora-GCN-1-Tent",
    ]
    assert titles(BENCH, names=["cora"], quick=True)[0] == "known-cora-SIGN-1"
    (case, slow), _ = board.bench(calibrators=["RBS"], retrain=["Tent"]).cases(
        Request(tmp_path, ["cora"], ["GCN"], 1, quick=True)
    )
    assert (case.title, slow.title) == ("known-cora-GCN-1", "known-cora-GCN-1-Tent")
    assert slow.head["methods"] == ["Tent"]
    assert "Tent" not in case.head["methods"]


def test_a_beginning_of_the_run_is_spread_over_graphs_and_models():
    tasks = balanced(known("abc", ["SIGN", "GCN", "SGC"], [1, 2], 0, (), ()))
    assert [task.seed for task in tasks] == [1] * 9 + [2] * 9
    for start in (0, 3, 6):
        part = tasks[start : start + 3]
        assert {task.source for task in part} == set("abc")
        assert {task.model for task in part} == {"SIGN", "GCN", "SGC"}


def test_the_whole_protocol_has_six_graphs_five_backbones_and_eight_families(tmp_path):
    cases, missing = BENCH.cases(Request(tmp_path))
    heads = [case.head for case in cases]
    drawn = [head for head in heads if head["setting"] == KNOWN]
    assert len({head["model"] for head in heads}) >= 5
    assert len({head["seed"] for head in heads}) >= 3
    assert len({pair.group for pair in FAMILIES}) >= 8
    if not missing:
        assert len({head["graph"] for head in drawn}) >= 6
        assert len(drawn) >= 90
    # Titles name files: no two cells share one.
    assert len({case.title for case in cases}) == len(cases)


def test_slow_methods_are_measured_where_they_can_be():
    """All networks in every cell; folds and what trains for every target on the first seed."""
    names = ["villages_1", "county_2012"]
    request = Request(Path("out"), names=names, models=["GCN", "SIGN"])
    cases, _ = board.bench(retrain=["GDeltaUQ", "GDASpecReg"]).cases(request)
    titles = [case.title for case in cases]

    def count(method):
        return sum(title.split("-")[-1].split("+")[0] == method for title in titles)

    assert len(titles) == len(set(titles))
    assert count("1") + count("2") + count("3") == count("CaGCN") == 12
    assert (count("CaGCN folds"), count("GDeltaUQ"), count("GDASpecReg")) == (4, 6, 2)
