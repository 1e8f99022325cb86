"""Any model on shards: a killed run resumes, and clusters write the bytes of one process."""

import os
import signal

import numpy as np
import pytest

from graphtemper.models.predictor import predict
from graphtemper.scale import OnDask, Serial, recalibrate_shards
from graphtemper.scale.modules.identity import module_numbers

pytest.importorskip("pyarrow")


def written(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class Stopping(Serial):
    """Kills the process before the last task of a list."""

    def __init__(self, at):
        self.left = at

    def map(self, function, items):
        self.left -= 1
        if self.left:
            return super().map(function, items)
        super().map(function, items[:-1])
        os.kill(os.getpid(), signal.SIGKILL)
        return []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the runs are forked to be killed")
# The lists: the depth, logits, classes, ..., node keys, the evidence, ..., the probabilities.
@pytest.mark.parametrize(("at", "rows"), [(2, 0.7), (4, 0.5), (14, 0.01)])
def test_a_killed_run_resumes_to_the_same_bytes(called, target, tmp_path, at, rows):
    model, arguments = called.model, (called.model, target.sharded, called.card)
    recalibrate_shards(*arguments, tmp_path / "whole")
    process = os.fork()
    if not process:
        recalibrate_shards(*arguments, tmp_path / "out", engine=Stopping(at))
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(process, 0)[1])
    assert not (tmp_path / "out").exists()
    model.rows = 0
    recalibrate_shards(*arguments, tmp_path / "undisturbed")
    all_rows, model.rows = model.rows, 0
    recalibrate_shards(*arguments, tmp_path / "out")
    assert model.rows < rows * all_rows
    assert written(tmp_path / "out") == written(tmp_path / "whole")
    assert not list(tmp_path.glob(".out*"))


@pytest.mark.parametrize(
    ("network", "workers"),
    [
        pytest.param("GraphSAGE", 1, marks=pytest.mark.slow),
        pytest.param("GCN", 2, marks=pytest.mark.nightly),
    ],
    indirect=["network"],
)
def test_a_cluster_writes_the_bytes_of_one_process(network, target, tmp_path, workers):
    distributed = pytest.importorskip("distributed")
    arguments = network.model, target.sharded, network.card
    recalibrate_shards(*arguments, tmp_path / "one")
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
        recalibrate_shards(*arguments, tmp_path / "other", engine=OnDask(client))
    assert written(tmp_path / "other") == written(tmp_path / "one")


def test_what_identifies_a_model(network, called, target, tmp_path):
    torch = pytest.importorskip("torch")
    model, graph = network.model, target.sharded
    np.save(tmp_path / "z.npy", predict(model, target.graph))
    names = [
        module_numbers(model, graph, None, None),
        module_numbers(called.model, graph, None, None),
        module_numbers(model, graph, 2, None),
        module_numbers(model, graph, None, tmp_path / "z.npy"),
    ]
    assert module_numbers(model, graph, None, None) == names[0]
    first = next(model.module.parameters())
    with torch.no_grad():
        first.view(-1)[0] += 1e-3
        names.append(module_numbers(model, graph, None, None))
        first.view(-1)[0] -= 1e-3
    assert len({tuple(name) for name in names}) == 5


def test_a_model_that_nothing_identifies_is_never_the_same(target):
    """Its weights are out of sight and it fails on the test graph, so no run may resume it."""

    def opaque(graph):
        raise ValueError("too few nodes")

    one, other = (module_numbers(opaque, target.sharded, None, None) for _ in range(2))
    assert one != other
