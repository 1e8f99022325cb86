"""Any model on shards: the logits and the answer of the graph in memory."""

import numpy as np
import pytest

from graphtemper import SourceCard, recalibrate
from graphtemper.errors import FileError, InputError
from graphtemper.models import SIGN
from graphtemper.models.predictor import predict
from graphtemper.scale import OnDask, convert_graph, recalibrate_shards, recalibration
from graphtemper.scale.modules import measuring, sharded_fields
from graphtemper.scale.modules.measuring import draw_nodes
from graphtemper.signals import evidence, receptive_field, sampling
from graphtemper.signals.graph_parts import InMemory, Reach
from graphtemper.signals.observation import Observation
from graphtemper.temperature import apply

from .conftest import FEW, read_probabilities

pytest.importorskip("pyarrow")


def codes(result):
    return [reason.code for reason in result.reasons]


def written(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.nightly
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
    # Of 2,000 sampled nodes, with a card of few shifts.
    assert result.accuracy.value == pytest.approx(whole.accuracy.value, abs=0.06)
    assert result.mean_confidence[0] == pytest.approx(whole.mean_confidence[0], abs=1e-6)
    _, done, _ = zip(*seen, strict=True)
    assert list(done) == sorted(set(done))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("operator", ["mean", "symmetric"])
def test_a_linear_model_takes_the_same_path(source, target, tmp_path, operator):
    model = SIGN(hops=2, operator=operator).fit(source, range(400))
    card = SourceCard.build(model, source, range(400, 900), shifts=FEW, compositions=0)
    result = recalibrate_shards(model, target.sharded, card, tmp_path / "out")
    whole = recalibrate(model, target.graph, card)
    assert result.accuracy.low < whole.accuracy.value < result.accuracy.high
    expected = apply(predict(model, target.graph), result.temperature)
    np.testing.assert_allclose(read_probabilities(result.out), expected, atol=1e-6)


def test_the_evidence_is_that_of_the_same_sample_in_memory(network, target, tmp_path, monkeypatch):
    kept = {}
    monkeypatch.setattr(
        measuring, "draw_nodes", lambda *a: kept.setdefault("drawn", draw_nodes(*a))
    )
    original = measuring.read_evidence
    monkeypatch.setattr(
        measuring,
        "read_evidence",
        lambda card, found, *a, **b: original(card, kept.setdefault("found", found), *a, **b),
    )
    recalibrate_shards(network.model, target.sharded, network.card, tmp_path / "out")
    logits, drawn = predict(network.model, target.graph), kept["drawn"]
    observation = Observation(network.model, target.graph, logits=logits)
    observation = observation.at(network.card.temperature)
    nodes = drawn(2000)
    groups = sampling.strata(observation.probabilities)
    shares = [np.bincount(g, minlength=96) / g.size for g in (groups, groups[nodes])]
    np.testing.assert_allclose(*shares, atol=1.01 / nodes.size)

    class Numbered(InMemory):
        def keys(self, nodes):
            return sharded_fields.ShardedWhole(target.sharded).keys(nodes)

    reach = Reach(2, padded="GCN" in repr(network.model))
    sample = receptive_field.sample(
        Numbered(observation), drawn, network.model, reach, observation.column_moments, 0
    )
    seen = sample.observation.at(network.card.temperature)
    known = evidence.measure(observation, network.card.probe, seen)
    for name, value in known.to_dict().items():
        if name not in ("snr", "second_agreement"):  # of all nodes, and of the sample
            found = kept["found"].to_dict()[name]
            np.testing.assert_allclose(found, value, rtol=2e-4, atol=2e-5, err_msg=name)


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
    with pytest.raises(InputError):
        recalibrate_shards(*arguments, logits=tmp_path / "turned.npy")
    for rows in (59_999, 60_001):
        np.save(tmp_path / "short.npy", np.resize(logits, (rows, 3)))
        with pytest.raises(FileError):
            recalibrate_shards(*arguments, logits=tmp_path / "short.npy")
    columns = {f"logit_{k}": z for k, z in enumerate(logits.T)}
    pq.write_table(pa.table({"node": np.arange(60_000)[::-1]} | columns), tmp_path / "z.parquet")
    with pytest.raises(FileError):
        recalibrate_shards(*arguments, logits=tmp_path / "z.parquet")
    assert not list(tmp_path.glob("*out*"))


def test_a_loaded_graph_has_the_answer_of_the_graph_in_memory(
    called, target, tmp_path, monkeypatch
):
    monkeypatch.undo()
    assert recalibration.is_loadable(target.sharded)
    result = recalibrate_shards(called.model, target.sharded, called.card, tmp_path / "out")
    whole = recalibrate(called.model, target.graph, called.card)
    assert codes(result) == codes(whole)
    assert result.accuracy == whole.accuracy
    np.testing.assert_array_equal(read_probabilities(result.out), whole.probabilities)


def mean_subtracted(graph):
    return graph.features[:, :3] - graph.features[:, :3].mean(axis=0)


def test_a_model_that_reads_the_whole_graph_is_refused(source, target, tmp_path):
    card = SourceCard.build(mean_subtracted, source, shifts=FEW, compositions=0)
    with pytest.raises(InputError):
        recalibrate_shards(mean_subtracted, target.sharded, card, tmp_path / "other")


@pytest.mark.cpu(4)
def test_a_stated_depth_is_used_and_checked(network, target, tmp_path):
    arguments = network.model, target.sharded, network.card
    found = recalibrate_shards(*arguments, tmp_path / "found")
    stated = recalibrate_shards(*arguments, tmp_path / "stated", hops=2)
    assert stated.to_dict() == found.to_dict()
    for hops in (0, 1):
        with pytest.raises(InputError):
            recalibrate_shards(*arguments, tmp_path / "short", hops=hops)


def test_a_graph_without_edges(called, target, tmp_path):
    alone = target.graph.replace(edges=np.empty((0, 2), int))
    sharded = convert_graph(alone, tmp_path / "g", rows_per_shard=25_000)
    result = recalibrate_shards(called.model, sharded, called.card, tmp_path / "out")
    expected = apply(predict(called.model, alone), result.temperature)
    np.testing.assert_allclose(read_probabilities(result.out), expected, atol=1e-6)
    whole = recalibrate(called.model, alone, called.card)
    assert result.accuracy.low < whole.accuracy.value < result.accuracy.high


def on_workers(workers, arguments, out):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=":0",
        ) as local,
        distributed.Client(local) as client,
    ):
        recalibrate_shards(*arguments, out, engine=OnDask(client))


@pytest.mark.nightly
def test_two_workers_write_the_bytes_of_one_process(called, target, tmp_path):
    arguments = called.model.model, target.sharded, called.card
    recalibrate_shards(*arguments, tmp_path / "one")
    on_workers(2, arguments, tmp_path / "two")
    assert written(tmp_path / "two") == written(tmp_path / "one")


@pytest.mark.nightly
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_write_the_bytes_of_one_process(network, target, tmp_path, workers):
    arguments = network.model, target.sharded, network.card
    recalibrate_shards(*arguments, tmp_path / "one")
    on_workers(workers, arguments, tmp_path / "other")
    assert written(tmp_path / "other") == written(tmp_path / "one")
