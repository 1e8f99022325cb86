"""One call on logits, tables and a model: from a sample it says what the whole graph says."""

import json

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import Graph, recalibrate, scale
from graphtemper.scale import StoredGraph

from .conftest import answered, pa, pq, stored, written


@pytest.mark.parametrize("sample", [20_000, 2000])
def test_with_all_nodes_the_answer_is_that_in_memory(problem, tmp_path, sample):
    found = answered(problem, tmp_path / "out", sample=sample)
    logits = problem.model(problem.target)
    expected = recalibrate(problem.model, problem.target, problem.card, logits=logits)
    assert found.accuracy == expected.accuracy
    assert found.temperature == expected.temperature
    p = pq.read_table(found.out)["probability_2"].to_numpy()
    np.testing.assert_allclose(p, expected.probabilities[:, 2], rtol=1e-6)


def test_the_answer_of_a_sample_is_near_and_its_interval_wider(problem, serial):
    found, whole = serial.answer, recalibrate(problem.model, problem.target, problem.card)
    assert found.signals["confidence"] == pytest.approx(whole.signals["confidence"], rel=1e-6)
    assert found.signals["homophily"] == pytest.approx(whole.signals["homophily"], rel=1e-9)
    assert found.signals["second_agreement"] == whole.signals["second_agreement"]
    assert found.signals["log_degree"] == pytest.approx(whole.signals["log_degree"], abs=0.03)
    deviation = (whole.accuracy.high - whole.accuracy.low) / 3.29
    assert 0.0 < abs(found.accuracy.value - whole.accuracy.value) < deviation
    assert found.reading.sampled > 0.0
    assert found.accuracy.high - found.accuracy.low > whole.accuracy.high - whole.accuracy.low
    [reason] = [item.text for item in found.reasons if item.code == "sample_run"]
    assert "on 400 sampled nodes" in reason


def test_what_needs_no_fields_is_measured_at_more_nodes(problem, serial):
    """Here at all nodes, which are fewer than ten times the sample."""
    found = serial.answer.reading.evidence
    whole = recalibrate(problem.model, problem.target, problem.card).reading.evidence
    for name in ("edge", "wedge", "own_feature"):
        assert getattr(found, name) == pytest.approx(getattr(whole, name), rel=1e-4), name
    for name in ("feature", "held"):
        value, error = getattr(found, name)
        assert abs(value - getattr(whole, name).value) < 1.5 * error, name


def test_the_seed_decides(problem, serial, tmp_path):
    again = answered(problem, tmp_path / "again")
    assert written(again.out) == serial.written
    other = answered(problem, tmp_path / "other", seed=1)
    assert other.accuracy.value != serial.answer.accuracy.value


def test_rows_in_another_order_have_the_same_answer(problem, serial, tmp_path):
    graph, order = problem.target, np.random.default_rng(3).permutation(2000)
    tables = stored(graph, problem.model(graph), tmp_path / "turned", order=order)
    found = answered(problem, tmp_path / "out", **tables)
    for name, value in serial.answer.signals.items():
        assert found.signals[name] == pytest.approx(value, rel=1e-5)


def test_probabilities_keep_the_nodes_and_the_manifest_names_the_files(problem, serial):
    facts = json.loads(serial.written["_answer.json"])
    assert facts["parts"] == ["part-0.parquet", "part-1.parquet", "part-2.parquet"]
    z = problem.model(problem.target) / facts["temperature"]
    table = pq.read_table(serial.answer.out)
    np.testing.assert_array_equal(table["node"].to_numpy(), np.arange(2000))
    expected = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(table["probability_0"].to_numpy(), expected[:, 0], rtol=1e-5)


def test_edges_in_both_directions_are_links_once(problem, serial, tmp_path):
    """As exports of an `edge_index` hold them."""
    edges = problem.target.edges
    both = np.vstack([edges, edges[:, ::-1]])
    pq.write_table(pa.table({"src": both[:, 0], "dst": both[:, 1]}), tmp_path / "e.parquet")
    found = answered(problem, tmp_path / "out", graph=tmp_path / "e.parquet")
    assert found.signals == pytest.approx(serial.answer.signals, rel=1e-9)
    assert found.accuracy.value == pytest.approx(serial.answer.accuracy.value, rel=1e-9)


def test_the_depth_of_a_model_that_declares_none_is_found(problem, tmp_path):
    found = answered(problem, tmp_path / "out", model=lambda graph: problem.model(graph))
    assert "with all nodes within 2 edges" in str(found.reasons[-1])


def test_logits_of_other_nodes_are_refused(problem, tmp_path):
    logits = np.roll(problem.model(problem.target), 1, axis=0)
    tables = stored(problem.target, logits, tmp_path / "g")
    with raises("other-model", match="tables are of one graph"):
        answered(problem, tmp_path / "out", **tables)
    assert [path.name for path in tmp_path.iterdir()] == ["g"]


@pytest.mark.parametrize("case", ["fewer", "repeated", "outside"])
def test_logits_and_nodes_that_do_not_match(problem, tmp_path, case):
    rows = {"fewer": np.arange(1999), "repeated": np.arange(2000), "outside": np.arange(2000)}[case]
    if case != "fewer":
        rows[5] = 2000 if case == "outside" else 6
    logits = problem.model(problem.target)[np.minimum(rows, 1999)]
    columns = {f"logit_{k}": column for k, column in enumerate(logits.T)}
    pq.write_table(pa.table({"node": rows} | columns), tmp_path / "z.parquet")
    said = {"fewer": "1,999 rows", "repeated": "each once", "outside": "integers from 0 to 1999"}
    with raises("damaged" if case != "outside" else Exception, match=said[case]):
        answered(problem, tmp_path / "out", logits=tmp_path / "z.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["z.parquet"]


def test_an_answer_is_never_replaced(problem, tmp_path):
    answered(problem, tmp_path / "out", model=None)
    before = written(tmp_path / "out")
    with raises("write", match="exists already"):
        answered(problem, tmp_path / "out", model=None)
    assert written(tmp_path / "out") == before


def test_arguments_that_do_not_fit(problem, tmp_path):
    tables, model, card = problem.tables, problem.model, problem.card
    nodes = StoredGraph.open(tables["features"])
    with raises("missing", match="give nodes and edges"):
        recalibrate(model, nodes, card, logits=tables["logits"], out=tmp_path / "out")
    with raises("range", match="sample"):
        answered(problem, tmp_path / "out", sample=5)
    for name, value in {"labels": {1: 0}, "per_node": True, "nodes": [1], "budget": 5}.items():
        with raises("conflict", match=f"{name} cannot be used with a graph in files"):
            answered(problem, tmp_path / "out", **{name: value})
    with raises("conflict", match="out cannot be used with a graph in memory"):
        recalibrate(model, problem.target, card, out=tmp_path / "out")
    pq.write_table(pa.table({"x0": np.zeros(2000)}), tmp_path / "n.parquet")
    for model in (None, problem.model):
        with raises("other-features", match="12 feature columns"):
            answered(problem, tmp_path / "out", features=tmp_path / "n.parquet", model=model)


def test_without_a_place_nothing_is_written(problem, serial):
    found = answered(problem, None)
    assert found.accuracy == serial.answer.accuracy
    assert found.temperature == serial.answer.temperature


def test_arrays_of_logits_need_no_parquet(problem, tmp_path, monkeypatch):
    np.save(tmp_path / "z.npy", problem.model(problem.target))
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    found = recalibrate(tmp_path / "z.npy", None, problem.card)
    logits = problem.model(problem.target)
    blind = Graph(features=np.zeros((2000, 12)), edges=[])
    expected = recalibrate(logits, blind, problem.card).signals["confidence"]
    assert found.signals["confidence"] == pytest.approx(expected, rel=1e-9)


def test_the_former_call_gives_the_same_answer_and_says_what_replaces_it(problem, tmp_path):
    known = {"card": problem.card, "model": problem.model, "sample": 400}
    with pytest.warns(DeprecationWarning, match="use graphtemper.recalibrate"):
        found = scale.recalibrate(**problem.tables, **known, out=tmp_path / "former")
    expected = answered(problem, tmp_path / "now")
    assert written(found.out) == written(expected.out)
