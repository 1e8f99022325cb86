"""Recalibration of logits that are stored in files, with or without the graph and the model.

One pass over the logits computes sums, which is all that a temperature needs; a second one writes
probabilities. The model runs on a sample of the nodes (`graphtemper.scale.evidence.sample`). From
logits alone a card can use confidence signals only, and without features a change of the class
shares cannot be noticed: the answer says so, and the verdict is at most ``caution``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from graphtemper import errors
from graphtemper._core.checks import check_instance, check_integer
from graphtemper.card.card import SourceCard
from graphtemper.card.reading import read_evidence, sampling_variance
from graphtemper.models.predictor import Predictor
from graphtemper.recalibration.job import recalibrate as recalibrate_in_memory
from graphtemper.recalibration.reasons import Reason, ReasonCode
from graphtemper.recalibration.result import Recalibration
from graphtemper.scale import streaming
from graphtemper.scale.engine import SERIAL, Engine, OnDask
from graphtemper.scale.evidence import sample as sampled
from graphtemper.scale.logits.logit_tables import LogitParts, open_logits, read_logits
from graphtemper.scale.output_directory import atomic_directory
from graphtemper.scale.parquet import Place
from graphtemper.scale.stored_graph import StoredGraph, StoredWhole, load, moments_of, some_links
from graphtemper.scale.streaming import sums_of, survey, write_parts

ANSWER = "_answer.json"
"""The file of a result's directory that holds the answer; the others are Parquet."""
Progress = Callable[[str, int, int], None]
SMALL_NODES, SMALL_EDGES = 400_000, 4_000_000
"""A graph of up to this size is loaded, and the answer is that of `graphtemper.recalibrate`."""
SAMPLE = 2_000
"""The number of nodes that a model runs on."""
# Nodes that a sample is drawn from, for each of its nodes.
_POOL = 10
_BLIND = "without features nothing shows whether they moved; the interval is as wide as if so."


@dataclass(frozen=True, eq=False, repr=False)
class StoredRecalibration(Recalibration):
    """A result, without arrays of nodes, whose probabilities were written to ``out``.

    ``out`` is a directory of Parquet files with one row per node: ``node``, ``probability_0``, ...
    It also holds ``_answer.json``, a name that readers of Parquet skip: the answer, and in
    ``parts`` the files.
    """

    out: Path = Path()


def recalibrate(
    logits: Place,
    card: SourceCard,
    out: str | os.PathLike[str],
    *,
    graph: Place | None = None,
    features: Place | None = None,
    model: Predictor | None = None,
    hops: int | None = None,
    directed: bool = False,
    sample: int = SAMPLE,
    client: Any = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> StoredRecalibration:
    """Recalibrate logits of any number of nodes, which are stored in files.

    Logits and tables are streamed, with the same bytes on any number of workers. The model runs on
    a sample of the nodes with all that it reads around them, and the interval contains the sampling
    error. A graph of up to 400,000 nodes and 4 million edges, or of no more nodes than ``sample``,
    is loaded; the answer is then that of `graphtemper.recalibrate`. Labels, one temperature per
    node and class shares are not supported.

    Parameters
    ----------
    logits
        Files with the logits of every node: ``logit_0``, ``logit_1``, ... or one list ``logits``,
        and optionally ``node``. A place of files is a Parquet file, a directory of them, a pattern
        such as ``"logits/*.parquet"``, or an address such as ``"s3://bucket/logits"``. Logits may
        also be one file of another format, see `graphtemper.models.logit_files`.
    card
        The source card.
    out
        A new directory for the probabilities, in files of the same names, and ``_answer.json``. It
        appears when everything is written; every worker must be able to write next to it.
    graph, features
        Files with the edges and with the nodes, see `graphtemper.scale.stored_graph.StoredGraph`.
    model
        The model that the card was built for, which gave the logits. Without it confidence is the
        only signal, and of the tables only the features are read.
    hops
        Over how many edges the model reads: its layers (default: as the model declares).
    directed
        Whether edges are ordered pairs; otherwise a pair that is stored twice counts once.
    sample
        The number of nodes to run the model on.
    client
        A `distributed.Client`, or an `Engine`, that runs the tasks (default: this process).
    seed
        Seed of the sample and of the perturbed passes.
    progress
        Called with what is being done, and how much of the work is finished, in percent of 100.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(600, degree=6, homophily=0.8, snr=1.0, num_features=8, seed=1)
    >>> model = SIGN(hops=1).fit(g, range(300))
    >>> card = SourceCard.build(model, g, range(300, 600), compositions=0)
    >>> target = csbm.sample(600, degree=6, homophily=0.7, snr=1.0, num_features=8, seed=2)
    >>> folder = Path(tempfile.mkdtemp())
    >>> tables = {"edges": target.edges, "nodes": target.features, "logits": model(target)}
    >>> names = {"edges": ["source", "target"], "logits": ["logit_0", "logit_1"]}
    >>> for name, rows in tables.items():
    ...     columns = names.get(name, [f"x{j}" for j in range(8)])
    ...     pq.write_table(pa.table(dict(zip(columns, rows.T))), folder / f"{name}.parquet")
    >>> result = recalibrate(
    ...     logits=folder / "logits.parquet",
    ...     graph=folder / "edges.parquet",
    ...     features=folder / "nodes.parquet",
    ...     card=card,
    ...     model=model,
    ...     out=folder / "answer",
    ... )
    >>> result.num_nodes, sorted(path.name for path in result.out.iterdir())
    (600, ['_answer.json', 'logits.parquet'])
    """
    check_instance(card, SourceCard, "card", "recalibrate(logits, card, out)")
    check_integer(sample, "sample", sampled.LEAST)
    out, report = Path(out).absolute(), progress or (lambda *_: None)
    engine = client if isinstance(client, Engine) else OnDask(client)
    engine = SERIAL if client is None else engine
    tables = Tables(logits, graph, features, directed)
    with atomic_directory(out) as folder:
        found = tables.answer(card, model, seed, engine, hops, sample, report)
        report("writing probabilities", 90, 100)
        parts = open_logits(logits, card.num_classes)
        confidence = found.answer.claimed, write_parts(engine, parts, found.temperature, folder)
        stored = StoredRecalibration(
            found.reading, found.answer, confidence, passes=found.passes, out=out
        )
        names = sorted(item.name for item in folder.iterdir() if item.name[0] != ".")
        text = json.dumps(stored.to_dict() | {"parts": names}, indent=1, allow_nan=False)
        (folder / ANSWER).write_text(f"{text}\n", "utf-8")
    report("finished", 100, 100)
    return stored


class Tables(NamedTuple):
    """Where the logits of a target are, and its edges and nodes; see `recalibrate`."""

    logits: Place
    graph: Place | None = None
    features: Place | None = None
    directed: bool = False

    def answer(
        self,
        card: SourceCard,
        model: Predictor | None,
        seed: int = 0,
        engine: Engine = SERIAL,
        hops: int | None = None,
        sample: int = SAMPLE,
        report: Progress = lambda *_: None,
    ) -> Recalibration:
        """Return the answer of `recalibrate` without writing anything."""
        parts = open_logits(self.logits, card.num_classes)
        if model is None:
            report("reading the logits", 0, 100)
            nodes = None if self.features is None else StoredGraph.open(self.features)
            return of_logits(parts, card, nodes, engine)
        if self.graph is None or self.features is None:
            raise errors.missing(
                "the model runs on a sample of the nodes; give graph and features."
            )
        graph = StoredGraph.open(self.features, self.graph, self.directed)
        _check_columns(card, graph)
        count = graph.num_nodes
        if parts.num_nodes != count:
            raise errors.damaged(
                f"there are {parts.num_nodes:,} rows of logits for {count:,} nodes."
            )
        small = count <= SMALL_NODES and graph.edges.num_rows <= SMALL_EDGES
        if small or sample >= count:
            report("running the model", 0, 100)
            logits = read_logits(self.logits, count, card.num_classes)
            loaded, none, rows = load(engine, graph), np.empty((0, 0)), np.empty(0, np.int64)
            result = recalibrate_in_memory(model, loaded, card, seed=seed, logits=logits)
            return replace(result, graph=None, logits=none, probabilities=none, nodes=rows)
        card.check_model(model)
        report("reading the logits", 0, 100)
        sums, predicted, pool = survey(engine, parts, card.probe, _POOL * sample, seed)
        report("reading the nodes", 20, 100)
        moments = moments_of(engine, graph)
        report("reading the edges", 40, 100)
        ends = predicted[some_links(engine, graph)]
        shares = np.bincount(ends.ravel(), minlength=card.num_classes) / max(ends.size, 1)
        share = float((ends[:, 0] == ends[:, 1]).mean()) if ends.size else None
        report("running the model on a sample", 50, 100)
        known = moments, sums.moments.covariance, share, float(shares @ shares)
        given = sampled.Given(StoredWhole(graph, engine), model, card, pool, *known, seed)
        found, log_degree, said = sampled.measure(given, hops, sample)
        whole: dict[str, Any]
        whole = {k: x for k, x in vars(sums.evidence(share, log_degree)).items() if x is not None}
        # The SNR of other nodes than all would be of other logits.
        measured, flat = replace(found.evidence, **{"snr": None} | whole), sums.spread == 0.0
        reading = read_evidence(card, measured, count, moments, flat)
        variance = sampling_variance(reading, found.nodes, int(found.worth))
        reading = replace(reading, sampled=variance)
        answer = streaming.answer(engine, parts, sums, reading).saying(said)
        return Recalibration(reading, answer, (answer.claimed, answer.claimed))


def of_logits(
    parts: LogitParts, card: SourceCard, nodes: StoredGraph | None = None, engine: Engine = SERIAL
) -> Recalibration:
    """Return the answer about logits alone, or with features, without writing anything.

    Logits are read again only if the temperature is outside the range of the confidence sketch.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> from graphtemper.scale.logits.logit_tables import LogitArray
    >>> g = csbm.sample(600, degree=6, homophily=0.8, snr=1.0, num_features=8, seed=1)
    >>> model = SIGN(hops=1).fit(g, range(300))
    >>> card = SourceCard.build(model, g, range(300, 600), compositions=0)
    >>> answer = of_logits(LogitArray(model(g), 2), card)
    >>> answer.num_nodes, answer.verdict
    (600, 'caution')
    """
    sums, moments = sums_of(engine, parts, card.probe), None
    if nodes is not None:
        _check_columns(card, nodes)
        moments = moments_of(engine, nodes)
    measured = sums.evidence(None, None)  # both need a graph
    reading = read_evidence(card, measured, sums.moments.count, moments, flat=sums.spread == 0.0)
    answer = streaming.answer(engine, parts, sums, reading)
    if moments is None:
        answer = answer.saying(Reason(ReasonCode.FEATURES_UNKNOWN, _BLIND))
        if answer.verdict == "trust":
            answer = replace(answer, verdict="caution")
    return Recalibration(reading, answer, (answer.claimed, answer.claimed))


def _check_columns(card: SourceCard, graph: StoredGraph) -> None:
    if graph.num_features != card.num_features:
        card.check_graph(np.empty(0), graph)  # which says so; types are checked on a part
