"""Recalibration of logits that are stored in files, with or without the graph and the model.

One pass over the logits computes sums, which is all that a temperature needs; a second one writes
probabilities. The model runs on a sample of the nodes (`graphtemper.scale.evidence.sample`). From
logits alone a card can use confidence signals only, and without features a change of the class
shares cannot be noticed: the answer says so, and the verdict is at most ``caution``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.checks import FloatArray, check_instance, check_integer
from graphtemper.card.card import SourceCard
from graphtemper.card.reading import read_evidence, sampling_variance
from graphtemper.errors import MissingError
from graphtemper.models.predictor import Predictor
from graphtemper.recalibration.job import recalibrate as recalibrate_in_memory
from graphtemper.recalibration.reasons import Reason, ReasonCode
from graphtemper.recalibration.result import Recalibration
from graphtemper.scale.answering import StoredRecalibration
from graphtemper.scale.engine import Engine, OnDask, Serial
from graphtemper.scale.evidence import sample as sampled
from graphtemper.scale.evidence.logit_sums import LogitSums
from graphtemper.scale.logits.logit_files import LogitArray, in_order, open_logits
from graphtemper.scale.logits.logit_tables import LogitParts, LogitTables
from graphtemper.scale.output_directory import atomic_directory
from graphtemper.scale.parquet import Place, arrow
from graphtemper.scale.stored_graph import StoredGraph, homophily, known_of_nodes, load
from graphtemper.scale.streaming import (
    answer_from,
    mean_confidence,
    sum_logits,
    survey,
    with_confidence,
    write_parts,
)
from graphtemper.signals.evidence import Evidence, Probe
from graphtemper.signals.second_opinion import sketch_weights

Progress = Callable[[str, int, int], None]
SMALL_NODES, SMALL_EDGES = 400_000, 4_000_000
"""A graph of up to this size is loaded, and the answer is that of `graphtemper.recalibrate`."""
SAMPLE = 2_000
"""The number of nodes that a model runs on."""
# Nodes that a sample is drawn from, for each of its nodes.
_POOL = 4
# From other nodes than all of them it would be of other logits.
_NOT_OF_A_SAMPLE = "snr"
_NO_FEATURES = Reason(
    ReasonCode.FEATURES_UNKNOWN,
    "the features are not known here, so nothing shows whether they have moved; the interval is as "
    "wide as if they had.",
)


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
        also be one file of another format, see `graphtemper.scale.logits.logit_files`.
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
    call = "recalibrate(logits, card, out)"
    check_instance(card, SourceCard, "card", call)
    check_integer(sample, "sample", sampled.LEAST)
    arrow("pyarrow.parquet")  # before any long computation
    out, report = Path(out).absolute(), progress or (lambda *_: None)
    engine = client if client is None or isinstance(client, Serial | OnDask) else OnDask(client)
    engine = engine or Serial()
    parts = open_logits(logits, card.num_classes)
    tables = Tables(logits, graph, features, directed)
    with atomic_directory(out) as folder:
        answer, counts = _answer(engine, tables, card, model, hops, sample, seed, report)
        report("writing probabilities", 90, 100)
        after = write_parts(engine, parts, counts, answer.temperature, folder)
        result = StoredRecalibration.write(with_confidence(answer, after), folder, out)
    report("finished", 100, 100)
    return result


class Tables(NamedTuple):
    """Where the logits of a target are, and its edges and nodes; see `recalibrate`."""

    logits: Place
    graph: Place | None = None
    features: Place | None = None
    directed: bool = False

    def estimate(self, card: SourceCard, model: Predictor | None, seed: int = 0) -> Recalibration:
        """Return the answer of `recalibrate` without writing anything."""
        return _answer(Serial(), self, card, model, None, SAMPLE, seed, lambda *_: None)[0]


def _answer(
    engine: Engine,
    tables: Tables,
    card: SourceCard,
    model: Predictor | None,
    hops: int | None,
    sample: int,
    seed: int,
    report: Progress,
) -> tuple[Recalibration, list[int]]:
    """Return the answer about a target, and the number of rows of each part of its logits."""
    parts = open_logits(tables.logits, card.num_classes)
    if model is None:
        return _of_logits(engine, parts, card, tables.features, report)
    if tables.graph is None or tables.features is None:
        raise MissingError("the model runs on a sample of the nodes; give graph and features.")
    graph = StoredGraph.open(tables.features, tables.graph, tables.directed)
    return _of_model(engine, parts, card, graph, model, hops, sample, seed, report)


def estimate_logits(parts: LogitParts, card: SourceCard) -> Recalibration:
    """Return the answer about logits alone, without writing anything.

    Logits are read again only if the temperature is outside the range of the confidence sketch.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> from graphtemper.scale.logits.logit_files import LogitArray
    >>> g = csbm.sample(600, degree=6, homophily=0.8, snr=1.0, num_features=8, seed=1)
    >>> model = SIGN(hops=1).fit(g, range(300))
    >>> card = SourceCard.build(model, g, range(300, 600), compositions=0)
    >>> answer = estimate_logits(LogitArray(model(g), 2), card)
    >>> answer.num_nodes, answer.verdict
    (600, 'caution')
    """
    engine = Serial()
    sums, _ = sum_logits(engine, parts, card.probe)
    answer = _from_confidence(engine, parts, card, sums, None)
    return with_confidence(answer, mean_confidence(engine, parts, sums, answer))


def _of_logits(
    engine: Engine, parts: LogitParts, card: SourceCard, features: Place | None, report: Progress
) -> tuple[Recalibration, list[int]]:
    """Return the answer about logits, and the number of rows of each part."""
    report("reading the logits", 0, 100)
    sums, counts = sum_logits(engine, parts, card.probe)
    moments = None
    if features is not None:
        tables = StoredGraph.open(features)
        _check_columns(card, tables)
        moments = known_of_nodes(engine, tables).moments
    return _from_confidence(engine, parts, card, sums, moments), counts


def _check_columns(card: SourceCard, graph: StoredGraph) -> None:
    if graph.num_features != card.num_features:
        card.check_graph(np.empty(0), graph)  # which says so; types are checked on a part


def _from_confidence(
    engine: Engine,
    parts: LogitParts,
    card: SourceCard,
    sums: LogitSums,
    moments: tuple[FloatArray, FloatArray] | None,
) -> Recalibration:
    measured = sums.evidence(None, 0.0)
    reading = read_evidence(card, measured, sums.count, moments, flat=sums.spread == 0.0)
    answer = answer_from(engine, parts, sums, reading)
    # The mean degree needs a graph.
    signals = {name: value for name, value in answer.signals.items() if name != "log_degree"}
    if moments is not None:
        return replace(answer, signals=signals)
    verdict = "caution" if answer.verdict == "trust" else answer.verdict
    reasons = [*answer.reasons, _NO_FEATURES]
    return replace(answer, signals=signals, verdict=verdict, reasons=reasons)


def _of_model(
    engine: Engine,
    parts: LogitArray | LogitTables,
    card: SourceCard,
    graph: StoredGraph,
    model: Predictor,
    hops: int | None,
    sample: int,
    seed: int,
    report: Progress,
) -> tuple[Recalibration, list[int]]:
    """Return the answer about a model, and the number of rows of each part of its logits."""
    _check_columns(card, graph)
    small = graph.num_nodes <= SMALL_NODES and graph.num_edges <= SMALL_EDGES
    if small or sample >= graph.num_nodes:
        report("running the model", 0, 100)
        logits, loaded = in_order(parts, graph.num_nodes), load(engine, graph)
        result = recalibrate_in_memory(model, loaded, card, seed=seed, logits=logits)
        none, nodes = np.empty((0, 0)), np.empty(0, np.int64)
        result = replace(result, graph=None, logits=none, probabilities=none, nodes=nodes)
        return result, parts.sizes()
    card.check_model(model)
    report("reading the logits", 0, 100)
    seen = survey(engine, parts, card.probe, graph.num_nodes, _POOL * sample, seed)
    report("reading the nodes", 20, 100)
    known = known_of_nodes(engine, graph, seen.predicted, _second(card.probe))
    report("reading the edges", 40, 100)
    links = homophily(engine, graph, seen.predicted)
    report("running the model on a sample", 50, 100)
    given = sampled.Given(engine, graph, model, card, seen.pool, known.moments, seed)
    found, log_degree = sampled.measure(given, hops, sample)
    whole = replace(seen.sums.evidence(links, log_degree), second_agreement=known.second)
    names = {item.name for item in fields(Evidence) if getattr(whole, item.name) is None}
    rest = {name: getattr(found.evidence, name) for name in names - {_NOT_OF_A_SAMPLE}}
    flat = seen.sums.spread == 0.0
    reading = read_evidence(card, replace(whole, **rest), graph.num_nodes, known.moments, flat)
    variance = sampling_variance(reading, found.nodes, found.links)
    answer = answer_from(engine, parts, seen.sums, replace(reading, sampled=variance))
    ran = found.reason()
    return replace(answer, reasons=[*answer.reasons, ran]), seen.counts


def _second(probe: Probe) -> Callable[[NDArray[Any]], NDArray[Any]] | None:
    """Return the classes of features by the card's second opinion, or None without one."""
    if probe.second is None:
        return None
    weights = probe.second.weights
    columns = sketch_weights(probe.column_std, probe.seed) @ weights[:-1]
    return partial(_classes, columns=columns, offsets=weights[-1])


def _classes(dense: NDArray[Any], columns: NDArray[Any], offsets: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.nan_to_num(dense @ columns + offsets).argmax(axis=1))
