"""Labels that a person gives: which to ask for, what is refused, and what they do to the answer."""

import numpy as np
import pytest
from tests.helpers import answer_bytes, block_model, raises

from graphtemper import metrics, recalibrate, shifts, suggest_labels
from graphtemper import temperature as temperatures
from graphtemper.recalibration.labels.given import read_earlier_file, read_label_file, read_labels

NUM_CLASSES = 3


@pytest.fixture(scope="module")
def target():
    return shifts.noise(0.8)(block_model(2, num_nodes=1000), 5)


def _truth(graph, nodes):
    return {int(node): int(graph.labels[node]) for node in nodes}


def _width(result):
    return result.accuracy.high - result.accuracy.low


# --- recalibrate with labels ----------------------------------------------------------------


def test_no_labels_are_the_same_bytes(card, model, target):
    plain = recalibrate(model, target, card)
    for extra in ({"labels": None}, {"labels": {}}):
        assert answer_bytes(recalibrate(model, target, card, **extra)) == answer_bytes(plain)
    assert plain.num_labels == 0
    assert plain.accuracy.method == "atlas"


def test_labels_narrow_the_interval_and_are_named(card, model, target):
    plain = recalibrate(model, target, card)
    truth = (model(target).argmax(axis=1) == target.labels).mean()
    widths = [_width(plain)]
    for n in (20, 100, 400):
        chosen = suggest_labels(plain, n)
        result = recalibrate(model, target, card, labels=_truth(target, chosen))
        widths.append(_width(result))
        assert result.num_labels == result.to_dict()["num_labels"] == n
        assert any(f"of {n} labelled nodes" in reason.text for reason in result.reasons)
        assert (result.probabilities.argmax(axis=1) == plain.probabilities.argmax(axis=1)).all()
    assert widths[0] > widths[2] > widths[3]
    assert widths[1] > widths[2]
    assert result.accuracy.low - 0.02 <= truth <= result.accuracy.high + 0.02


def test_all_labels_are_the_oracle(card, model):
    graph = shifts.noise(1.2)(block_model(3, num_nodes=4000), 6)
    logits = np.asarray(model(graph), np.float64)
    result = recalibrate(model, graph, card, labels=_truth(graph, range(4000)))
    exact = (logits.argmax(axis=1) == graph.labels).mean()
    assert result.accuracy.low == result.accuracy.value == result.accuracy.high == exact
    assert result.probabilities.max(axis=1).mean() == pytest.approx(exact, abs=1e-6)
    assert result.verdict == "trust"


def test_labels_on_the_graph_are_still_not_read(card, model, target):
    given = _truth(target, range(30))
    scrambled = np.random.default_rng(0).permutation(target.labels)
    variants = [target, target.replace(labels=None), target.replace(labels=scrambled)]
    assert len({answer_bytes(recalibrate(model, g, card, labels=given)) for g in variants}) == 1


def test_labels_lift_an_abstention(card, model):
    """A million times the features: outside the atlas, so that labels have to settle it."""
    graph = shifts.scale(1e6)(block_model(4, num_nodes=2000), 1)
    plain = recalibrate(model, graph, card)
    assert plain.verdict == "abstain"
    (helps,) = (reason.text for reason in plain.reasons if reason.code == "labels_needed")
    needed = int(helps.split("labels of about ")[1].split()[0])
    few = recalibrate(model, graph, card, labels=_truth(graph, range(2)))
    assert few.verdict != "trust"
    chosen = suggest_labels(plain, 2 * needed)
    many = recalibrate(model, graph, card, labels=_truth(graph, chosen))
    assert many.verdict == "trust"
    logits = np.asarray(model(graph), np.float64)
    nll = [
        metrics.nll(temperatures.apply(logits, r.temperature), graph.labels) for r in (plain, many)
    ]
    assert nll[1] < nll[0]


def test_a_wrong_atlas_is_repaired_by_fifty_labels(card, model):
    """Features and labels that no longer belong together: the atlas cannot see it, labels can."""
    gaps = []
    for seed in range(5):
        graph = block_model(50 + seed, num_nodes=1000)
        rng = np.random.default_rng(seed)
        turned = rng.random(1000) < 0.35
        labels = np.where(turned, rng.integers(0, NUM_CLASSES, 1000), graph.labels)
        plain = recalibrate(model, graph, card)
        chosen = suggest_labels(plain, 50, seed)
        given = {int(node): int(labels[node]) for node in chosen}
        result = recalibrate(model, graph, card, labels=given)
        gaps.append(
            [metrics.nll(r.probabilities, labels) for r in (plain, result)]
            + [
                abs(r.accuracy.value - (r.probabilities.argmax(axis=1) == labels).mean())
                for r in (plain, result)
            ]
        )
    nll_plain, nll_labels, error_plain, error_labels = np.mean(gaps, axis=0)
    assert nll_labels < nll_plain
    assert error_labels < error_plain


def test_equal_logits_stay_an_abstention_with_a_known_accuracy(card, target):
    logits = np.ones((1000, NUM_CLASSES))
    result = recalibrate(logits, target, card, labels=_truth(target, range(500)))
    assert result.verdict == "abstain"
    assert result.temperature == card.probe.temperature
    assert result.accuracy.value == pytest.approx((target.labels == 0).mean(), abs=0.05)
    assert result.reasons[-1].code == "no_temperature_helps"
    for reason in result.reasons:
        assert reason.text.endswith(".")


@pytest.mark.parametrize("size", [30.0, 1000.0])
def test_a_few_broken_nodes_do_not_decide_for_all(model, card, size):
    """Five nodes with huge features are certain and often wrong; labels are drawn over them too."""
    clean = block_model(2, num_nodes=1000)
    features = clean.features.copy()
    features[:5] *= size
    broken = clean.replace(features=features)
    plain = recalibrate(model, broken, card)
    chosen = suggest_labels(plain, 200)
    found = recalibrate(model, broken, card, labels=_truth(broken, chosen))
    truth = float((model(broken).argmax(axis=1) == broken.labels).mean())
    claimed = float(found.probabilities.max(axis=1).mean())
    assert abs(claimed - truth) < 0.06
    assert metrics.ece(found.probabilities, broken.labels) < 0.08


BAD = {
    "unknown node": ({1000: 0}, "range"),
    "node that is text": ({"3": 0}, "range"),
    "class too large": ({5: NUM_CLASSES}, "range"),
    "class that is a fraction": ({5: 1.0}, "range"),
    "class that is true": ({5: True}, "range"),
    "not chosen": ({900: 0}, "foreign"),
    "a shorter vector": (np.zeros(900, int), "wrong-type"),
    "a vector below -1": (np.full(1000, -2), "wrong-type"),
    "pairs": ([(3, 1)], "wrong-type"),
}


def test_a_vector_of_all_nodes_gives_the_labels_of_the_chosen_ones(card, model, target):
    whole = np.where(np.arange(1000) % 20 == 0, target.labels, -1)
    given = {k: int(target.labels[k]) for k in range(0, 500, 20)}
    one, two = (
        recalibrate(model, target, card, range(500), labels=labels) for labels in (whole, given)
    )
    assert one.num_labels == 25
    assert answer_bytes(one) == answer_bytes(two)


def test_a_node_that_cannot_be_labelled_is_left_out(card, model, target):
    known = _truth(target, range(30))
    one, two = (
        recalibrate(model, target, card, labels=labels) for labels in (known, known | {40: None})
    )
    assert answer_bytes(one) == answer_bytes(two)


def test_labels_as_a_series_give_the_same_bytes():
    pandas = pytest.importorskip("pandas")
    given = {7: 1, 3: 0, 5: 1}
    found, known = (
        read_labels(labels, np.arange(10), 10, 2) for labels in (pandas.Series(given), given)
    )
    assert np.array_equal(found.rows, known.rows)
    assert np.array_equal(found.classes, known.classes)
    for labels, error in (
        (pandas.Series([1, 0], index=[3, 3]), "repeated"),
        (pandas.Series([1.0, np.nan]), "range"),
        (pandas.DataFrame({"class": [1, 0]}), "shape"),
        (pandas.Series([1], index=["a"]), "range"),
    ):
        with raises(error):
            read_labels(labels, np.arange(10), 10, 2)


@pytest.mark.parametrize("name", BAD)
def test_bad_labels_are_one_clear_sentence(card, model, target, name):
    labels, error = BAD[name]
    with raises(error) as caught:
        recalibrate(model, target, card, nodes=range(900), labels=labels)
    assert "\n" not in str(caught.value)


# --- files ----------------------------------------------------------------------------------


def _file(tmp_path, text):
    path = tmp_path / "labels.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_what_spreadsheets_do_to_a_table_is_forgiven(tmp_path):
    path = _file(tmp_path, '\ufeffnode,class\r\n 3 ,"1"\r\n\r\n3,1\r\n,\r\n4,0\r\n')
    assert read_label_file(path, 10, 2) == {3: 1, 4: 0}
    assert read_label_file(_file(tmp_path, "node,class\n"), 10, 2) == {}


def test_other_columns_open_nodes_and_nodes_that_cannot_be_labelled(tmp_path):
    text = "node,predicted,class\n3,0 cat,1\n4,1,\n5,1,?\n"
    assert read_label_file(_file(tmp_path, text), 10, 2) == {3: 1, 5: None}


def test_the_newest_earlier_label_of_a_node_counts(tmp_path):
    text = "period,node,class\n2026-10,3,1\n2026-9,3,0\n2026-9,4,0\n2026-9,4,0\n"
    path = _file(tmp_path, text)
    assert read_earlier_file(path, 6, 2).tolist() == [-1, -1, -1, 1, 0, -1]
    assert read_earlier_file(path, None, 2).tolist() == [-1, -1, -1, 1, 0]
    assert read_earlier_file(_file(tmp_path, "node,class\n"), None, 2).size == 0
    for bad in ("node,class\n3,1\n3,0\n", "node,class\n3,\n", "class\n1\n"):
        with raises("table"):
            read_earlier_file(_file(tmp_path, bad), 6, 2)


BAD_FILES = {
    "": "first line must have",
    "node,class,class\n3,1,1\n": "first line must have",
    "node,class\n3,1\n10,0\n": "line 3: node '10' is not an integer from 0 to 9",
    "node,class\n3,2\n": "line 2: class '2' is not an integer from 0 to 1",
    "node,class\nx,1\n": "line 2: node 'x'",
    "node,class\n3,1,1\n": "line 2: there are 3 columns instead of 2",
    "node,class\n3,1\n4,0\n3,0\n": "line 4: node 3 has another class before",
    "node,class\n3,1\n3,?\n": "line 3: node 3 has another class before",
    'node,class\n3,"1\n': "line 2",
    b"node,class\n\xff\xfe,1\n": "UTF-8",
}


@pytest.mark.parametrize("text", BAD_FILES, ids=repr)
def test_bad_files_are_one_clear_sentence(tmp_path, text):
    with raises(("damaged", "table")) as caught:
        read_label_file(_file(tmp_path, text), 10, 2)
    assert "\n" not in str(caught.value)
