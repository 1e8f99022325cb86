"""Recalibration of a model on a sharded graph."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from graphtemper._core.checks import check_instance, check_integer
from graphtemper._core.reproducible import one_blas_thread
from graphtemper.card.card import SourceCard
from graphtemper.models.predictor import Predictor
from graphtemper.recalibration.job import recalibrate
from graphtemper.recalibration.result import Recalibration
from graphtemper.scale.answering import ShardedRecalibration
from graphtemper.scale.engine import Engine, Serial
from graphtemper.scale.logits.logit_files import open_logits, read_logits
from graphtemper.scale.modules.measuring import read_module
from graphtemper.scale.modules.reach import Module, find_reach
from graphtemper.scale.modules.sharded_fields import ShardedWhole
from graphtemper.scale.modules.stored_logits import StoredLogits, compute_shard
from graphtemper.scale.storage.output_directory import atomic_directory
from graphtemper.scale.storage.parquet import arrow
from graphtemper.scale.storage.shards import ShardedGraph
from graphtemper.scale.streaming import (
    answer_from,
    sum_logits,
    with_confidence,
    write_parts,
    write_probabilities,
)
from graphtemper.signals.graph_parts import Reach
from graphtemper.signals.receptive_field import in_one_pass

Progress = Callable[[str, int, int], None]


def recalibrate_shards(
    model: Predictor,
    graph: ShardedGraph,
    card: SourceCard,
    out: str | os.PathLike[str],
    *,
    engine: Engine | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    hops: int | None = None,
    logits: str | os.PathLike[str] | None = None,
) -> ShardedRecalibration:
    """Recalibrate a model on every node of a sharded graph, within bounded memory.

    A graph of up to 400,000 nodes, 4 million edges and 100 million features is loaded, and the
    answer is that of `graphtemper.recalibrate`. On a larger one the model runs on the exact
    receptive fields of blocks of nodes, and its evidence is measured at a sample of nodes, as
    `recalibrate` does with given logits. Labels, one temperature per node and class shares are not
    supported.

    Parameters
    ----------
    model
        The model that the card was built for.
    graph
        The sharded target graph.
    card
        The source card.
    out
        A new directory for the probabilities, as one Parquet file per shard, and
        ``_answer.json``. It appears when everything is written; every worker must be able to write
        next to it.
    engine
        Runs the tasks (default: one after the other in this process); see
        `graphtemper.scale.engine`. The bytes do not depend on it.
    seed
        Seed of the perturbed passes.
    progress
        Called with what is being done, and how much of the work is finished, in percent of 100.
    hops
        The number of edges over which the model reads, its layers (default: found by a test).
    logits
        The logits of all nodes, if they were already made, as a file or a directory of Parquet
        files with one row per node in the order of the nodes (see
        `graphtemper.scale.logits.logit_files`). The model then runs on a sample only.

    Examples
    --------
    >>> import tempfile
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> from graphtemper.scale import convert_graph
    >>> g = csbm.sample(600, degree=6, homophily=0.8, snr=1.0, num_features=8, seed=1)
    >>> model = SIGN(hops=1).fit(g, range(300))
    >>> card = SourceCard.build(model, g, range(300, 600), compositions=0)
    >>> target = csbm.sample(600, degree=6, homophily=0.7, snr=1.0, num_features=8, seed=2)
    >>> folder = Path(tempfile.mkdtemp())
    >>> shards = convert_graph(target, folder / "target", rows_per_shard=250)
    >>> result = recalibrate_shards(model, shards, card, folder / "answer")
    >>> result.verdict in ("trust", "caution", "abstain"), result.num_nodes
    (True, 600)
    >>> sorted(path.name for path in result.out.iterdir())[:2]
    ['_answer.json', 'part-00000.parquet']
    """
    call = "recalibrate_shards(model, graph, card, out)"
    check_instance(graph, ShardedGraph, "graph", call)
    check_instance(card, SourceCard, "card", call)
    card.check(model, graph)
    if hops is not None:
        check_integer(hops, "hops", 1)
    arrow("pyarrow.parquet")  # before any long computation
    out, engine = Path(out).absolute(), engine or Serial()
    given = None if logits is None else Path(logits).absolute()
    report = progress or (lambda *_: None)
    with atomic_directory(out) as folder:
        if is_loadable(graph):
            report("running the model", 0, 100)
            work = partial(
                _in_memory, graph=graph, card=card, seed=seed, logits=given, folder=folder
            )
            [found] = engine.map(work, [model])
        else:
            batches = getattr(model, "batches", None)
            stated = hops if batches is None else hops or max(int(batches.hops), 1)
            module = Module(graph, in_one_pass(model), seed)
            found = _on_fields(engine, module, card, stated, given, folder, report)
        result = ShardedRecalibration.write(found, folder, out)
    report("finished", 100, 100)
    return result


def is_loadable(graph: ShardedGraph) -> bool:
    """Return whether the whole graph is no larger than the largest part that is read."""
    return ShardedWhole(graph).readable(graph.num_nodes, graph.num_edges)


def _in_memory(
    model: Predictor,
    *,
    graph: ShardedGraph,
    card: SourceCard,
    seed: int,
    logits: Path | None,
    folder: Path,
) -> Recalibration:
    """Recalibrate a graph that may be loaded; return the answer without arrays of nodes."""
    given = None if logits is None else read_logits(logits, graph.num_nodes, card.num_classes)
    with one_blas_thread():
        result = recalibrate(model, graph.to_graph(), card, seed=seed, logits=given)
    for shard, (first, last, _) in enumerate(graph.shards):
        block = np.arange(first, last), result.probabilities[first:last]
        write_probabilities(folder / f"part-{shard:05d}.parquet", [block])
    none = np.empty((0, 0))
    return replace(result, logits=none, probabilities=none, nodes=np.empty(0, np.int64), graph=None)


def _on_fields(
    engine: Engine,
    module: Module,
    card: SourceCard,
    hops: int | None,
    logits: Path | None,
    folder: Path,
    report: Progress,
) -> Recalibration:
    """Recalibrate a graph of which only parts are read."""
    with TemporaryDirectory(dir=folder, prefix=".") as scratch:
        stored = StoredLogits(module.graph, card.num_classes, Path(scratch))
        report("finding how far the model reads", 0, 100)
        reach: Reach
        [reach] = engine.map(partial(find_reach, hops=hops), [module])
        report("running the model", 5, 100)
        if logits is not None:
            stored.copy(open_logits(logits, card.num_classes))
        else:
            work = partial(compute_shard, module=module, reach=reach, stored=stored)
            engine.map(work, range(len(stored)))
        report("running the model on a sample", 70, 100)
        sums, counts = sum_logits(engine, stored, card.probe)
        reading, ran = read_module(engine, module, reach, stored, sums, card)
        answer = answer_from(engine, stored, sums, reading)
        report("writing probabilities", 90, 100)
        after = write_parts(engine, stored, counts, answer.temperature, folder)
    return with_confidence(replace(answer, reasons=[*answer.reasons, ran]), after)
