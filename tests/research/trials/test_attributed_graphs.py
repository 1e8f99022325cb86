"""The trial on graphs with attributes, on small graphs that are drawn here."""

import numpy as np
import pytest

pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

from graphtemper import Graph, csbm, shifts
from graphtemper_research.trials import attributed_graphs as trial

FEW = {"noise": (0.5, 1.5), "drop": (0.5,), "rewire": (0.5,), "mask": (0.5,)}


def drawn():
    return csbm.sample(400, degree=6, homophily=0.85, snr=0.5, num_features=6, seed=3)


def small(name):
    plain = drawn()
    rng = np.random.default_rng(0)
    arcs = np.concatenate([plain.edges, plain.edges[: plain.num_edges // 2, ::-1]])
    if name == "weighted":
        return plain.replace(edge_weight=rng.random(plain.num_edges) + 0.1)
    if name == "trust":
        return plain.replace(
            edges=arcs, directed=True, edge_features=rng.normal(size=(len(arcs), 1))
        )
    if name == "dependencies":
        return plain.replace(edges=arcs, directed=True, edge_type=rng.integers(2, size=len(arcs)))
    features = np.zeros((410, 8))
    features[:400, :6], features[400:, 6:] = plain.features, rng.normal(size=(10, 2))
    inside = np.column_stack([np.arange(400), 400 + np.arange(400) % 10])
    parts = [plain.edges, plain.edges[:, ::-1], inside, inside[:, ::-1]]
    return Graph(
        features=features,
        edges=np.concatenate(parts),
        directed=True,
        labels=np.append(plain.labels, np.full(10, -1)),
        edge_type=np.repeat([0, 0, 1, 2], [len(part) for part in parts]),
        edge_type_names=[
            "household__tie__household",
            "household__in__village",
            "village__has__household",
        ],
        node_type=np.repeat([0, 1], [400, 10]),
        node_type_names=["household", "village"],
        target_type=0,
        type_columns=[[0, 6], [6, 8]],
    )


@pytest.mark.nightly
@pytest.mark.parametrize("name", trial.CASES)
def test_every_module_is_recalibrated_under_a_known_shift(name):
    rows = list(
        trial.measure(
            name,
            graph=small(name),
            epochs=60,
            compositions=0,
            atlas=FEW,
            targets=[shifts.noise(1.5)],
        )
    )
    assert [row.case for row in rows] == [name]
    (row,) = rows
    assert row.accuracy > 0.5
    assert set(row.ece) == set(trial.METHODS)
    # Noise makes these models over-confident, which the answer must notice.
    assert row.ece["known family"] < row.ece["source T"] + 0.02
    assert name in trial.table(rows)
