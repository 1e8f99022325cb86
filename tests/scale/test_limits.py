"""Recalibration within half the memory that the features would take."""

import sys

import numpy as np
import pytest
from tests.helpers import needs, run_alone

from graphtemper import csbm
from graphtemper.models import SIGN

LIMIT = 336 << 20
"""Bytes of private memory; an idle interpreter with NumPy, SciPy and pyarrow uses half of it."""
NODES, COLUMNS = 10_752, 16_384

JOB = """
import resource, sys
from pathlib import Path
import numpy as np
import pyarrow.csv
from graphtemper.signals.evidence import Probe
from graphtemper.models import load
from graphtemper.scale import Serial, convert_tables
from graphtemper.scale.evidence.measure import measure
from graphtemper.scale.clean_pass import Run, clean_pass
from graphtemper.scale.storage.workspace import open_workspace

action, limit, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
if action == "load":
    np.load(folder + "/x.npy")
graph = convert_tables(folder + "/edges.csv", folder + "/x.npy", folder + "/g", rows_per_shard=2000)
probe = Probe(1.0, 0.3, np.ones(graph.num_features), 0.8, -0.5, seed=0, splits=2, passes=2)
model = load(folder + "/model.npz")
with open_workspace(Path(folder) / "stages", graph.num_nodes) as workspace:
    clean = clean_pass(Serial(), graph, model.fast_passes(), 1.0, workspace)
    evidence = measure(Run(Serial(), workspace, clean), probe, 0).evidence
    print(evidence.confidence, evidence.feature.value)
"""


def run(*arguments):
    # Arrow's allocator reserves a gigabyte of addresses that it does not use.
    return run_alone(JOB, *arguments, ARROW_DEFAULT_MEMORY_POOL="system")


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """Dense features of twice the limit, on disk and never completely in memory."""
    needs("pyarrow", "resource")
    folder = tmp_path_factory.mktemp("wide")
    shape = (NODES, COLUMNS)
    features = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, shape)
    assert features.nbytes >= 2 * LIMIT
    graph = csbm.sample(NODES, degree=6, homophily=0.8, snr=1.0, num_features=4, seed=1)
    model = SIGN(hops=1)
    model.weights_ = np.zeros((2, COLUMNS, 2))
    model.weights_[:, ::4096, 1] = 0.7
    model.intercept_, model.converged_ = np.zeros(2), True
    # Four columns are informative and the others zero; only the size matters.
    features[:, ::4096] = graph.features
    del features
    np.savetxt(folder / "edges.csv", graph.edges, "%d", ",")
    model.save(folder / "model.npz")
    return folder, graph


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA counts mapped memory on Linux")
def test_features_of_twice_the_memory(wide):
    folder, graph = wide
    loaded = run("load", LIMIT, folder)
    assert loaded.returncode != 0
    assert "MemoryError" in loaded.stderr  # the limit is effective
    sharded = run("shards", LIMIT, folder)
    assert sharded.returncode == 0, sharded.stderr
    small = SIGN(hops=1)
    small.weights_ = np.zeros((2, 4, 2))
    small.weights_[:, :, 1], small.intercept_ = 0.7, np.zeros(2)
    logit = np.abs(small(graph)[:, 1].astype(np.float64))
    assert float(sharded.stdout.split()[0]) == pytest.approx((1 / (1 + np.exp(-logit))).mean())
