"""Targets of the fuzz tests: every reader of a file or folder, with a valid one for each.

A target has a function that writes a valid file or folder and one that reads it and uses the
result, so that errors which appear late are found as well.
"""

import json
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from graphtemper import Graph, LabelSession, SourceCard, csbm, models, recalibrate
from graphtemper.cli.arguments import choose_nodes
from graphtemper.errors import GraphTemperError
from graphtemper.models import SIGN
from graphtemper.monitor import Entry
from graphtemper.monitor.log import Labelled, Log, Missed
from graphtemper.monitor.record import track_record
from graphtemper.monitor.snapshots import snapshots_of
from graphtemper.recalibration.labels.given import read_label_file
from graphtemper.recalibration.report.page import read_report
from graphtemper.scale import Serial, StoredGraph
from graphtemper.scale.logit_tables import LogitTables, read_logits
from graphtemper.scale.stored_graph import load, moments_of
from graphtemper.signals.evidence import Probe
from graphtemper_research.harness import provenance
from graphtemper_research.harness.outcome import Comparison, Outcome, render_results

NODES = 60
ENTRY = Entry("a", "0", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "trust", ("why",), {"s": 1.0})
PROBE = Probe(1.0, 0.3, np.ones(3), 0.8, -0.5, seed=0, splits=2)
GRAPH = csbm.sample(NODES, 4, 0.8, 1.0, num_features=3, seed=1)
MODEL = SIGN(hops=1).fit(GRAPH)


@dataclass(frozen=True)
class Target:
    """A function that writes a valid file, and one that reads any file of its kind."""

    write: object
    read: object


def read_log(path):
    log = Log(path, {"card": "card"}).read()
    return log.answers, log.missed, log.reported("drop"), track_record(log), log.cards


def write_log(path):
    """Write a log with late labels."""
    log = Log(path, {"card": "card"})
    log.append(replace(ENTRY, name="a", when="2026-05"), [Missed("b", "damaged")])
    log.append(replace(ENTRY, name="c", stamp="s"))
    again = replace(ENTRY, name="c", revision=1)
    log.add_labels(Labelled("a", 1, 10, 0.7, 0.0, 0.1, 0.1), "{}", [again])


def read_watched(path):
    (snapshot,) = snapshots_of([path], 2, logits=True)
    parts = snapshot.load(2)
    batches = [logits for part in range(len(parts)) for _, logits in parts.batches(part)]
    assert all(np.isfinite(logits).all() for logits in batches)


def read_whole(path):
    assert np.isfinite(read_logits(path, NODES, 2)).all()


def read_tables(path):
    tables = LogitTables.open(path, 2)
    return [logits.sum() for _, logits in tables.batches(0)]


def read_edges(path):
    """Load a graph with these edges, and others that are whole."""
    nodes = path.with_name("whole-nodes.parquet")
    pq.write_table(pa.table(COLUMNS), nodes)
    load(Serial(), StoredGraph.open(nodes, path))


def read_nodes(path):
    moments_of(Serial(), StoredGraph.open(path))


def write_graph(path):
    GRAPH.replace(train_masks=np.ones((1, NODES), bool), time=np.arange(NODES)).save(path)


@cache
def card():
    return SourceCard.build(MODEL, GRAPH, GRAPH.labelled, compositions=0)


def write_tables(path):
    pq.write_table(pa.table({f"logit_{k}": z for k, z in enumerate(MODEL(GRAPH).T)}), path)


def write_lists(path):
    names = [f"user {row}" for row in range(NODES)]
    pq.write_table(pa.table({"node": names, "logits": list(MODEL(GRAPH))}), path)


def write_text(text):
    return lambda path: path.write_text(text)


def write_block(path):
    block = json.dumps({"schema": "graphtemper.report/3"})
    path.write_text(f'<script type="application/json" id="graphtemper-report">{block}</script>')


def write_session(path):
    LabelSession(recalibrate(MODEL, GRAPH, card()), goal=0.05).save(path)


COMPARISON = Comparison("accuracy", 0.5, "0.4 to 0.6", True, published=0.5, note="of one seed")
OUTCOME = Outcome(
    "outcome",
    "One",
    {"seeds": 1},
    [COMPARISON],
    [{"seed": 1}],
    draw=None,
    measured=provenance.stamp("graphtemper paper outcome"),
).to_dict()
EDGES = {"source": GRAPH.edges[:, 0], "target": GRAPH.edges[:, 1]}
COLUMNS = {f"x{k}": column for k, column in enumerate(GRAPH.features.T)}

TARGETS = {
    "graph.npz": Target(write_graph, Graph.load),
    "card.json": Target(lambda path: card().save(path), SourceCard.load),
    "session.json": Target(write_session, LabelSession.load),
    "model.npz": Target(MODEL.save, models.load),
    "logits.npz": Target(lambda path: np.savez(path, logits=MODEL(GRAPH)), read_whole),
    "logits.npy": Target(lambda path: np.save(path, MODEL(GRAPH)), read_whole),
    "logits.csv": Target(
        lambda path: np.savetxt(path, MODEL(GRAPH), "%.9g", ",", header="0,1", comments=""),
        read_whole,
    ),
    "watched.npy": Target(
        lambda path: np.save(path, np.asfortranarray(MODEL(GRAPH))), read_watched
    ),
    "logits.parquet": Target(write_tables, read_tables),
    "lists.parquet": Target(write_lists, read_tables),
    "labels.csv": Target(
        write_text("node,class,note\n1,0,a\n5,1,b\n7,?,c\n"),
        lambda path: read_label_file(path, NODES, 2),
    ),
    "nodes.txt": Target(write_text("3\n17\n59\n"), lambda path: choose_nodes(GRAPH, path)),
    "edges.parquet": Target(lambda path: pq.write_table(pa.table(EDGES), path), read_edges),
    "features.parquet": Target(lambda path: pq.write_table(pa.table(COLUMNS), path), read_nodes),
    "watch.sqlite": Target(write_log, read_log),
    "outcome.json": Target(
        write_text(provenance.text(OUTCOME)), lambda path: render_results(path.parent, [path.stem])
    ),
    "report.html": Target(write_block, read_report),
}


def one_sentence(read, path):
    """Read a file; anything but a result or an error of one line fails the test."""
    try:
        read(path)
    except GraphTemperError as error:
        message = str(error)
        assert message
        assert "\n" not in message
