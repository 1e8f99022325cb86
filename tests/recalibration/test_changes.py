"""What changed: accidents are named by their cause, ordinary change is not called broken."""

from dataclasses import replace

import numpy as np
import pytest
from tests.helpers import block_model, real_graph

from graphtemper import SourceCard, csbm, recalibrate
from graphtemper.models import SIGN
from graphtemper.monitor import Watch
from graphtemper.recalibration.gates import Gate, why_closed
from graphtemper.recalibration.report.page import read_report
from graphtemper.signals.changes import Baseline

FEW = {"noise": (0.5, 1.0), "mask": (0.5,), "drop": (0.3, 0.8), "rewire": (0.3, 0.7)}
MEANS, DEVIATIONS = (
    np.array([3.0, 0.5, -2.0, 10.0, 40.0, 1.0, 0.0, 6.0]),
    np.array([1.0, 0.2, 3.0, 2.0, 9.0, 0.1, 0.5, 1.5]),
)
NAMES = ("age", "rate", "balance", "visits", "income", "ratio", "score", "rooms")


def drawn(seed, homophily=0.75):
    """A block model whose columns have scales of their own, as measured ones have."""
    graph = csbm.sample(1500, 6, homophily, 1.0, num_classes=3, num_features=8, seed=seed)
    features = MEANS + DEVIATIONS * graph.features
    return graph.replace(features=features, feature_names=NAMES, class_names=None)


def trained(graph):
    """A model of half of the labelled nodes, a card of the others, and these."""
    order = np.random.default_rng(0).permutation(graph.labelled)
    halves = np.sort(order[: order.size // 2]), np.sort(order[order.size // 2 :])
    model = SIGN(hops=2).fit(graph, halves[0])
    given = {"compositions": 0, "shifts": FEW, "progress": False}
    return model, SourceCard.build(model, graph, halves[1], **given), halves[1]


@pytest.fixture(scope="module")
def generated():
    return *trained(drawn(1)), drawn(1), drawn(7)


@pytest.fixture(scope="module")
def months():
    source, target = (real_graph(f"covid_us_{month}") for month in ("2020_07", "2020_08"))
    return *trained(source), source, target


@pytest.fixture(params=["generated", "months"], scope="module")
def world(request):
    return request.getfixturevalue(request.param)


def with_features(graph, change):
    values = np.array(graph.features)
    changed = change(values)
    return graph.replace(features=np.ascontiguousarray(values if changed is None else changed))


def zero(x):
    x[:, 3] = 0.0


def scaled(x):
    x[:, 2] *= 1000.0


def filled(x):
    x[np.random.default_rng(0).random(len(x)) < 0.7, 0] = -1.0


def swapped(x):
    x[:, [0, 6]] = x[:, [6, 0]]


def shifted(x):
    x[:, 1] += 5.0 * x[:, 1].std()


# What happened, and the code and a word of the sentence that must name it.
ACCIDENTS = {
    "a join failed": (zero, "column_constant", "column 3"),
    "the columns are sorted backwards": (lambda x: x[:, ::-1], "columns_order", "order"),
    "a column was put in front": (lambda x: np.roll(x, 1, axis=1), "columns_order", "order"),
    "two columns are exchanged": (swapped, "columns_order", "exchanged"),
    "cents for euros": (lambda x: 100.0 * x, "columns_scale", "scale"),
    "metres for kilometres": (scaled, "column_scale", "column 2"),
    "missing values became -1": (filled, "column_filled", "column 0"),
    "an offset": (shifted, "column_mean", "column 1"),
    "all rows are alike": (lambda x: x * 0 + x[:1], "nodes_same", "same features"),
    "standardised twice": (
        lambda x: (x - x.mean(axis=0)) / x.std(axis=0),
        "columns_standardised",
        "standardised",
    ),
}
BROKEN = {"column_constant", "columns_order", "columns_scale", "column_scale", "nodes_same"}


@pytest.mark.parametrize("accident", ACCIDENTS)
def test_an_accident_of_the_features_is_named_by_its_cause(world, accident):
    model, card, _, _, target = world
    change, code, word = ACCIDENTS[accident]
    result = recalibrate(model, with_features(target, change), card)
    named = next(change for change in result.changes[:3] if change.code == code)
    assert word in str(named)
    assert str(named)[1:] in " ".join(result.summary().split())
    if code in BROKEN:
        assert result.verdict == "abstain"
        assert "input_broken" in [reason.code for reason in result.reasons]
        assert result.accuracy.high - result.accuracy.low > 0.6


@pytest.mark.parametrize(
    ("keep", "code", "word"),
    [(0.0, "edges_none", "no edges (was"), (0.1, "edges_fewer", "edges per node (was")],
)
def test_lost_edges_are_named(world, keep, code, word):
    model, card, _, _, target = world
    kept = np.random.default_rng(0).random(target.num_edges) < keep
    result = recalibrate(model, target.keep_edges(kept), card)
    assert result.changes[0].code == code
    assert word in str(result.changes[0])
    assert (result.verdict == "abstain") >= (code == "edges_none")


@pytest.mark.parametrize("what", ["features", "edges"])
def test_features_or_links_of_other_nodes_are_named(world, what):
    model, card, _, _, target = world
    order = np.random.default_rng(0).permutation(target.num_nodes)
    values = {"features": target.features[order], "edges": order[target.edges]}
    result = recalibrate(model, target.replace(**{what: values[what]}), card)
    assert "no_link_signal" in [change.code for change in result.changes[:3]]
    assert "may belong to other nodes" in " ".join(result.summary().split())
    assert result.verdict == "abstain"


def test_one_direction_of_each_edge_is_named(world):
    model, card, _, _, target = world
    result = recalibrate(model, target.replace(directed=True), card)
    assert "edges_one_way" in [change.code for change in result.changes[:2]]


def test_the_source_itself_has_not_changed(world):
    model, card, nodes, source, _ = world
    assert recalibrate(model, source, card, nodes=nodes).changes == ()


def test_an_ordinary_target_is_not_called_broken(world):
    model, card, _, _, target = world
    result = recalibrate(model, target, card)
    assert not any(change.broken for change in result.changes)
    assert len(result.changes) <= 3


@pytest.mark.parametrize("seed", range(5))
def test_a_fresh_graph_of_the_same_model_has_not_changed(generated, seed):
    model, card = generated[:2]
    assert recalibrate(model, drawn(20 + seed), card).changes == ()


def test_columns_with_equal_moments_are_not_said_to_be_in_another_order(card, model):
    target = block_model(5)
    order = np.random.default_rng(0).permutation(target.num_features)
    found = recalibrate(model, with_features(target, lambda x: x[:, order]), card).changes
    assert "columns_order" not in [change.code for change in found]


def test_a_rare_column_may_be_empty():
    rng = np.random.default_rng(0)
    rare = [(rng.random((1500, 1)) < 0.03).astype(float) for _ in range(2)]
    source, target = (
        graph.replace(features=np.hstack([graph.features, column]), feature_names=None)
        for graph, column in zip((drawn(1), drawn(2)), (rare[0], 0.0 * rare[1]), strict=True)
    )
    model, card, _ = trained(source)
    assert recalibrate(model, target, card).changes == ()


def test_columns_are_named_by_the_target(generated):
    model, card, _, _, target = generated
    broken = with_features(target, zero)
    assert recalibrate(model, broken, card).changes[0].name == "visits"
    anonymous = broken.replace(feature_names=None)
    assert recalibrate(model, anonymous, card).changes[0].name == "3"


def test_a_harmful_name_is_written_as_an_escape(generated):
    model, card, _, _, target = generated
    names = ("\x1b[2J",) * 8
    named = with_features(target, zero).replace(feature_names=names)
    assert "\x1b" not in recalibrate(model, named, card).summary()


def test_a_column_is_judged_against_how_it_moved_between_environments(generated):
    model, card, _, _, _ = generated

    def moved(seed, by):
        return with_features(drawn(seed), lambda x: x + np.eye(8)[5] * by * DEVIATIONS[5])

    code = [change.code for change in recalibrate(model, moved(9, 2.0), card).changes]
    assert "column_mean" in code
    wiser = card
    for month, by in enumerate((1.0, 3.0, -2.0)):
        wiser = wiser.learn(model, moved(30 + month, by), name=f"month {month}")
    assert recalibrate(model, moved(9, 2.0), wiser).changes == ()
    still = recalibrate(model, moved(9, 20.0), wiser).changes
    assert [change.name for change in still if change.kind == "column"] == ["ratio"]


def test_labels_overrule_a_broken_input(generated):
    model, card, _, _, target = generated
    broken = with_features(target, zero)
    labels = dict(enumerate(target.labels[:400].tolist()))
    assert recalibrate(model, broken, card).verdict == "abstain"
    result = recalibrate(model, broken, card, labels=labels)
    assert result.verdict != "abstain"
    assert result.changes[0].code == "column_constant"


def test_kinds_of_nodes_without_labels_are_named():
    source = drawn(1)
    strange = np.arange(1500) < 300
    features = np.array(source.features)
    features[strange] += 3.0 * DEVIATIONS
    labels = np.where(strange, -1, source.labels)
    source = source.replace(features=features, labels=labels)
    model, card, nodes = trained(source)
    assert [x.code for x in recalibrate(model, source, card).changes] == ["nodes_unseen"]
    assert recalibrate(model, source, card, nodes=nodes).changes == ()


def test_the_card_keeps_what_it_answers_with(generated, tmp_path):
    model, card, _, _, target = generated
    card.save(tmp_path / "a.card.json")
    loaded = SourceCard.load(tmp_path / "a.card.json")
    found = [recalibrate(model, with_features(target, zero), one) for one in (card, loaded)]
    assert found[0].to_dict() == found[1].to_dict()
    assert found[0].to_dict()["changes"][0]["code"] == "column_constant"


def test_a_card_without_columns_says_so_once(generated):
    model, card, _, _, target = generated
    result = recalibrate(model, with_features(target, zero), replace(card, columns=None))
    assert not any(change.kind == "column" for change in result.changes)
    assert result.summary().count("earlier version") == 1


def test_a_wide_card_stays_small():
    rng = np.random.default_rng(0)
    graph = csbm.sample(400, 6, 0.8, 1.0, num_features=1500, seed=1)
    graph = graph.replace(features=graph.features * (1.0 + rng.random(1500)))
    _, card, _ = trained(graph)
    kept = card.columns.columns.astype(int)
    assert kept.size == 1000
    spread = np.asarray(graph.features).std(axis=0)
    assert spread[kept].min() >= np.delete(spread, kept).max()
    assert len(card.to_json()) < 100_000


def test_gates_close_on_changes(generated):
    model, card, _, _, target = generated
    gates = [Gate.parse(text) for text in ("changes>0", "column_constant", "columns_order")]
    broken = recalibrate(model, with_features(target, zero), card)
    assert list(why_closed(gates, broken)) == ["changes>0", "column_constant"]
    assert why_closed(gates, recalibrate(model, target, card)) == {}


def test_the_report_shows_changes(generated, tmp_path):
    model, card, _, _, target = generated
    result = recalibrate(model, with_features(target, zero), card)
    result.report(tmp_path / "a.html")
    block = read_report(tmp_path / "a.html")
    assert block["changes"][0]["name"] == "visits"
    assert "Column 3, `visits`, is 0 everywhere" in (tmp_path / "a.html").read_text("utf-8")


def test_a_watch_keeps_and_shows_changes(generated, tmp_path):
    model, card, _, _, target = generated
    watch = Watch(tmp_path / "watch.sqlite", card)
    watch.add(model, target, name="2026-01")
    watch.add(model, with_features(target, zero), name="2026-02")
    first, newest = watch.standing.answers
    assert list(first.changes) == []
    assert newest.changes[0]["code"] == "column_constant"
    assert watch.gate("changes>0").startswith("on 2026-02")
    watch.page(tmp_path / "page.html")
    assert "Column 3, `visits`, is 0 everywhere" in (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.parametrize(("others", "same"), [(9, True), (10, False)])
def test_moments_never_tell_of_a_few_nodes(others, same):
    graph = drawn(1)
    columns = Baseline.measure(graph, np.arange(1500 - others), (MEANS, DEVIATIONS))
    assert np.array_equal(columns.nodes.mean, columns.whole.mean) == same
