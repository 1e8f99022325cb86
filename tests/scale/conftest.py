from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from graphtemper import SourceCard, csbm, recalibrate, shifts
from graphtemper.models import SIGN
from graphtemper.scale import StoredGraph

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def sample(num_nodes, homophily, seed):
    return csbm.sample(num_nodes, 8, homophily, snr=1.0, num_classes=4, num_features=12, seed=seed)


def save(folder, columns, parts=3):
    """Write columns as a folder of Parquet files."""
    folder.mkdir(parents=True)
    size = len(next(iter(columns.values())))
    for part, rows in enumerate(np.array_split(np.arange(size), parts)):
        table = pa.table({name: values[rows] for name, values in columns.items()})
        pq.write_table(table, folder / f"part-{part}.parquet")
    return folder


def stored(graph, logits, folder, *, order=None):
    """Write a graph and logits of its nodes; ``order`` is the order of the rows."""
    rows = np.arange(graph.num_nodes) if order is None else order
    ends = dict(zip(("source", "target"), graph.edges.T, strict=True))
    if graph.edge_weight is not None:
        ends["weight"] = graph.edge_weight
    if graph.edge_type is not None:
        ends["type"] = graph.edge_type
    if graph.edge_features is not None:
        ends |= {f"a{j}": column for j, column in enumerate(graph.edge_features.T)}
    features = {f"x{j}": column[rows] for j, column in enumerate(graph.features.T)}
    columns = {f"logit_{k}": column[rows] for k, column in enumerate(logits.T)}
    return {
        "graph": save(folder / "edges", ends),
        "features": save(folder / "nodes", {"node": rows} | features),
        "logits": save(folder / "logits", {"node": rows} | columns),
    }


def written(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="session")
def problem(tmp_path_factory):
    """A model, its card, and a shifted target in memory and in Parquet."""
    source = sample(1500, 0.7, 1)
    model = SIGN(hops=2, operator="mean").fit(source, range(700))
    card = SourceCard.build(model, source, range(700, 1500), compositions=0)
    # Two passes of each kind instead of six, to save time; every stage still runs.
    card = replace(card, probe=replace(card.probe, splits=2))
    target = shifts.noise(0.5)(sample(2000, 0.6, 2), 3).replace(name="target")
    tables = stored(target, model(target), tmp_path_factory.mktemp("stored") / "target")
    return SimpleNamespace(model=model, card=card, target=target, tables=tables)


def answered(problem, out, *, graph=None, features=None, logits=None, card=None, **changes):
    """Recalibrate the stored target of a problem, on a sample of 400 nodes by default."""
    tables = problem.tables
    nodes, edges = features or tables["features"], graph or tables["graph"]
    given = {"logits": logits or tables["logits"], "out": out, "sample": 400} | changes
    model = given.pop("model", problem.model)
    directed = given.pop("directed", False)
    stored = StoredGraph.open(nodes, edges, directed)
    if model is None:
        given = {name: value for name, value in given.items() if name != "logits"}
        return recalibrate(logits or tables["logits"], stored, card or problem.card, **given)
    return recalibrate(model, stored, card or problem.card, **given)


@pytest.fixture(scope="session")
def serial(problem, tmp_path_factory):
    """The answer of one process from a sample, the bytes it wrote, and what reads such bytes."""
    out = tmp_path_factory.mktemp("serial") / "answer"
    answer = answered(problem, out)
    return SimpleNamespace(answer=answer, written=written(out), read=written)
