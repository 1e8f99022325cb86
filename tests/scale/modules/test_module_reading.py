"""Any model on shards: the logits and the answer of the graph in memory."""

import numpy as np
import pytest

from graphtemper import SourceCard, recalibrate
from graphtemper.errors import FileError, InputError
from graphtemper.models.predictor import predict
from graphtemper.scale import convert_graph, recalibrate_shards
from graphtemper.scale.evidence.measure import STAGES as COMMON
from graphtemper.scale.modules import measuring, module_reading, sharded_fields
from graphtemper.scale.modules.module_reading import STAGES
from graphtemper.signals import evidence, receptive_field, sampling
from graphtemper.signals.graph_parts import InMemory, Reach
from graphtemper.signals.observation import Observation
from graphtemper.temperature import apply

from .conftest import FEW, read_probabilities

pytest.importorskip("pyarrow")


def codes(result):
    return [reason.code for reason in result.reasons]


def test_a_network_has_its_logits_and_its_answer_in_memory(network, target, tmp_path, monkeypatch):
    # Fields of a shard are too large for this limit, so smaller blocks are run.
    monkeypatch.setattr(sharded_fields, "MOST_ROWS", 12_000)
    seen = []
    result = recalibrate_shards(
        network.model,
        target.sharded,
        network.card,
        tmp_path / "out",
        progress=lambda *state: seen.append(state),
    )
    logits = predict(network.model, target.graph)
    expected = apply(logits, result.temperature)
    np.testing.assert_allclose(read_probabilities(result.out), expected, atol=1e-6)
    whole = recalibrate(network.model, target.graph, network.card)
    assert "sample_run" in codes(result)
    assert result.accuracy.low < whole.accuracy.value < result.accuracy.high
    assert result.mean_confidence[0] == pytest.approx(whole.mean_confidence[0], abs=1e-6)
    assert result.passes > 1
    assert result.to_dict()["passes"] == result.passes
    names, done, _ = zip(*seen, strict=True)
    assert names == (*STAGES, *list(COMMON)[-2:], "finished")
    assert list(done) == sorted(set(done))


def test_the_evidence_is_that_of_the_same_sample_in_memory(network, target, tmp_path, monkeypatch):
    kept = {}
    monkeypatch.setattr(measuring, "draw_nodes", lambda *a: kept.setdefault("drawn", original(*a)))
    monkeypatch.setattr(
        measuring, "read_evidence", lambda values: kept.setdefault("evidence", read(values))
    )
    recalibrate_shards(network.model, target.sharded, network.card, tmp_path / "out")
    logits, drawn = predict(network.model, target.graph), kept["drawn"]
    observation = Observation(network.model, target.graph, logits=logits)
    observation = observation.at(network.card.temperature)
    padded = "GCN" in repr(network.model)
    sample = receptive_field.sample(
        InMemory(observation),
        drawn,
        network.model,
        Reach(2, padded),
        observation.column_moments,
        0,
    )
    np.testing.assert_array_equal(
        sample.nodes, receptive_field._drawn(observation, sample.nodes.size)
    )
    groups = sampling.strata(observation.probabilities)
    shares = [np.bincount(g, minlength=96) / g.size for g in (groups, groups[sample.nodes])]
    np.testing.assert_allclose(*shares, atol=1.01 / sample.nodes.size)
    seen = sample.observation.at(network.card.temperature)
    known = evidence.measure(observation, network.card.probe, seen)
    for name, value in known.to_dict().items():
        np.testing.assert_allclose(
            kept["evidence"].to_dict()[name], value, rtol=2e-4, atol=2e-5, err_msg=name
        )


original, read = measuring.draw_nodes, measuring.read_evidence


def test_given_logits_leave_the_model_only_the_sample(called, target, tmp_path):
    model, card = called.model, called.card
    logits = predict(model, target.graph)
    np.save(tmp_path / "z.npy", logits)
    model.rows = 0
    computed = recalibrate_shards(model, target.sharded, card, tmp_path / "computed")
    rows, model.rows = model.rows, 0
    given = recalibrate_shards(
        model, target.sharded, card, tmp_path / "given", logits=tmp_path / "z.npy"
    )
    assert model.rows <= rows - 60_000
    assert given.passes < computed.passes
    assert given.accuracy.value == pytest.approx(computed.accuracy.value, abs=1e-6)
    np.testing.assert_allclose(
        read_probabilities(given.out), read_probabilities(computed.out), atol=1e-6
    )


def test_given_logits_of_other_rows_are_refused(called, target, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    logits = predict(called.model, target.graph)
    arguments = called.model, target.sharded, called.card, tmp_path / "out"
    np.save(tmp_path / "turned.npy", logits[::-1])
    with pytest.raises(InputError, match="not those of the model"):
        recalibrate_shards(*arguments, logits=tmp_path / "turned.npy")
    for rows, problem in ((59_999, "59,999 rows"), (60_001, "more rows")):
        np.save(tmp_path / "short.npy", np.resize(logits, (rows, 3)))
        with pytest.raises(FileError, match=problem):
            recalibrate_shards(*arguments, logits=tmp_path / "short.npy")
    columns = {f"logit_{k}": z for k, z in enumerate(logits.T)}
    pq.write_table(pa.table({"node": np.arange(60_000)[::-1]} | columns), tmp_path / "z.parquet")
    with pytest.raises(FileError, match="sort the rows by node"):
        recalibrate_shards(*arguments, logits=tmp_path / "z.parquet")
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("loadable")
def test_a_small_graph_has_the_answer_of_the_graph_in_memory(called, target, tmp_path, monkeypatch):
    monkeypatch.setattr(receptive_field, "SMALL", 100_000)
    result = recalibrate_shards(called.model, target.sharded, called.card, tmp_path / "out")
    whole = recalibrate(called.model, target.graph, called.card)
    assert codes(result) == codes(whole)
    assert result.passes == whole.passes
    assert result.accuracy.value == pytest.approx(whole.accuracy.value, abs=1e-9)
    np.testing.assert_allclose(read_probabilities(result.out), whole.probabilities, atol=1e-9)


def mean_subtracted(graph):
    return graph.features[:, :3] - graph.features[:, :3].mean(axis=0)


@pytest.mark.usefixtures("loadable")
def test_a_model_that_reads_the_whole_graph_says_so(source, target, tmp_path, monkeypatch):
    card = SourceCard.build(mean_subtracted, source, shifts=FEW, compositions=0)
    result = recalibrate_shards(mean_subtracted, target.sharded, card, tmp_path / "out")
    assert "whole_graph_run" in codes(result)
    whole = recalibrate(mean_subtracted, target.graph, card)
    np.testing.assert_allclose(read_probabilities(result.out), whole.probabilities, atol=1e-9)
    monkeypatch.setattr(module_reading, "MOST_LINKS", 1000)
    with pytest.raises(InputError, match=r"most of the graph.*recalibrate where the graph fits"):
        recalibrate_shards(mean_subtracted, target.sharded, card, tmp_path / "other")


def test_a_stated_depth_is_used_and_checked(network, target, tmp_path):
    arguments = network.model, target.sharded, network.card
    found = recalibrate_shards(*arguments, tmp_path / "found")
    stated = recalibrate_shards(*arguments, tmp_path / "stated", hops=2)
    assert stated.to_dict() == found.to_dict()
    with pytest.raises(InputError, match="farther than hops=1 edges"):
        recalibrate_shards(*arguments, tmp_path / "short", hops=1)
    with pytest.raises(InputError, match="hops must be an integer of at least 1"):
        recalibrate_shards(*arguments, tmp_path / "none", hops=0)


def test_a_graph_without_edges(called, target, tmp_path):
    alone = target.graph.replace(edges=np.empty((0, 2), int))
    sharded = convert_graph(alone, tmp_path / "g", rows_per_shard=25_000)
    result = recalibrate_shards(called.model, sharded, called.card, tmp_path / "out")
    expected = apply(predict(called.model, alone), result.temperature)
    np.testing.assert_allclose(read_probabilities(result.out), expected, atol=1e-6)
    whole = recalibrate(called.model, alone, called.card)
    assert result.accuracy.low < whole.accuracy.value < result.accuracy.high


def test_hops_of_a_linear_model_are_refused(problem, tmp_path):
    with pytest.raises(InputError, match="for models that are not linear"):
        recalibrate_shards(problem.model, problem.sharded, problem.card, tmp_path / "out", hops=2)
