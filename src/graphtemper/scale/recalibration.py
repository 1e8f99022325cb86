"""Recalibration of a model on a sharded graph."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import scipy

from graphtemper._core.checks import check_instance, check_integer
from graphtemper._core.source_digest import NOT_MEASURING, source_digest
from graphtemper._core.stamps import stamp
from graphtemper.card.card import SourceCard
from graphtemper.card.reading import Reading, read_evidence
from graphtemper.errors import InputError
from graphtemper.graph.operators import COLUMNS_AT_ONCE
from graphtemper.models.linear_passes import LinearPasses
from graphtemper.models.predictor import Predictor, passes_of
from graphtemper.recalibration.job import probabilities_at
from graphtemper.scale.answering import (
    ShardedRecalibration,
    answer,
    with_confidence,
    with_directory,
)
from graphtemper.scale.clean_pass import CleanPass, Run, ShardLogits, clean_pass
from graphtemper.scale.engine import Engine, Serial
from graphtemper.scale.evidence.measure import Progress, measure, report
from graphtemper.scale.evidence.sums import total
from graphtemper.scale.matching import LogitRange, nearest_temperature
from graphtemper.scale.modules.identity import module_numbers, stated_hops
from graphtemper.scale.modules.module_reading import read_module
from graphtemper.scale.modules.reach import Module
from graphtemper.scale.probability_files import (
    require_parquet,
    write_answer,
    write_probabilities,
)
from graphtemper.scale.storage.output_directory import draft_directory, locked_working_directory
from graphtemper.scale.storage.shards import ShardedGraph
from graphtemper.scale.storage.stage_directories import stage_directory
from graphtemper.scale.storage.workspace import Workspace, open_workspace
from graphtemper.signals.receptive_field import in_one_pass


def recalibrate_shards(
    model: Predictor,
    graph: ShardedGraph,
    card: SourceCard,
    out: str | os.PathLike[str],
    *,
    engine: Engine | None = None,
    seed: int = 0,
    workspace: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    hops: int | None = None,
    logits: str | os.PathLike[str] | None = None,
) -> ShardedRecalibration:
    """Recalibrate a model on every node of a sharded graph, within bounded memory.

    Evidence, accuracy, temperature and verdict are those of `graphtemper.recalibrate`, up to
    rounding. On more than 100,000 nodes, the noisy passes of a linear model are other draws of the
    same distributions. Numbers of nodes and the order of edges do not change the answer. Labels,
    one temperature per node and class shares are not supported.

    A linear model (`SIGN`, `SGC`) is propagated over all shards. Any other one, such as a wrapped
    PyG module, runs on the exact receptive fields of blocks of nodes, and its evidence is measured
    at a sample of nodes, as `recalibrate` does with given logits; up to 100,000 nodes it runs on
    the whole graph.

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
        ``_answer.json``. While it is written, finished stages are kept next to it in
        ``.NAME.graphtemper``. After a kill, an interruption or a full disk the same call resumes
        from them, to the same bytes, and a call with other arguments removes them. A second process
        for the same directory is refused.
    engine
        Runs the tasks (default: one after the other in this process); see
        `graphtemper.scale.engine`. The bytes do not depend on it.
    seed
        Seed of the perturbed passes.
    workspace
        A directory for stages and intermediate columns that every worker can access (default: next
        to ``out``).
    progress
        Called with what is being done, and how much of the work is finished, in percent of 100.
    hops
        For a model that is not linear: the number of edges over which it reads, its layers
        (default: found by a test).
    logits
        For a model that is not linear: its logits of all nodes, if they were already made, as a
        file or a directory of Parquet files with one row per node in the order of the nodes (see
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
    linear = _checked_model(model, graph, card)
    if linear is not None and (hops is not None or logits is not None):
        raise InputError("hops and logits are for models that are not linear; leave them out.")
    if hops is not None:
        check_integer(hops, "hops", 1)
    out, engine = Path(out).absolute(), engine or Serial()
    require_parquet()
    parts = (
        linear_numbers(linear) if linear is not None else module_numbers(model, graph, hops, logits)
    )
    name = run_identity(parts, graph, card, seed)
    with (
        locked_working_directory(out) as working,
        open_workspace(stage_directory(working, workspace, name), graph.num_nodes) as stages,
        draft_directory(working, out) as draft,
    ):
        clean: ShardLogits
        if linear is not None:
            clean, reading = _read_linear(engine, graph, linear, card, stages, seed, progress)
            reasons, passes = [], None
        else:
            module = Module(graph, in_one_pass(model), seed)
            found = read_module(
                engine,
                module,
                card,
                stages,
                hops=stated_hops(model, hops),
                logits=logits,
                progress=progress,
            )
            clean, reading = found.stored, found.reading
            reasons, passes = found.reasons, found.passes
        report(progress, "matching the temperature")
        shards, classes = len(graph.shards), clean.num_classes
        logit_range: LogitRange = total(
            engine.map(partial(_logit_range, clean=clean), range(shards))
        )

        def match(accuracy: float) -> tuple[float, str]:
            work = partial(nearest_temperature, engine, shards, clean.logit_blocks, classes)
            temperature, note = stages.stage("match", lambda: work(accuracy, logit_range))
            return temperature, note

        result = with_directory(answer(reading, match), out)
        result = replace(result, reasons=[*result.reasons, *reasons], passes=passes)
        report(progress, "writing probabilities")
        write = partial(_write_shard, clean=clean, relative=1.0 / result.slope, folder=draft)
        after = sum(engine.map(write, range(shards))) / graph.num_nodes
        result = with_confidence(result, after)
        write_answer(draft, result)
        if progress is not None:
            progress("finished", 100, 100)
    return result


def _read_linear(
    engine: Engine,
    graph: ShardedGraph,
    linear: LinearPasses,
    card: SourceCard,
    stages: Workspace,
    seed: int,
    progress: Progress | None,
) -> tuple[CleanPass, Reading]:
    report(progress, "running the model")
    clean = clean_pass(engine, graph, linear, card.probe.temperature, stages)
    measured = measure(Run(engine, stages, clean), card.probe, seed, progress)
    reading = read_evidence(
        card,
        measured.evidence,
        graph.num_nodes,
        (measured.column_mean, measured.column_std),
        flat=measured.logits.spread == 0.0,
    )
    return clean, reading


def _checked_model(model: Predictor, graph: ShardedGraph, card: SourceCard) -> LinearPasses | None:
    """Return the passes of a linear model; None if the model is not linear."""
    linear = passes_of(model)
    card.check(model, graph)
    if not isinstance(linear, LinearPasses):
        return None
    if card.probe.shared_splits:
        raise InputError(
            "the card was built with a limited budget, which linear models on shards are not "
            "measured with; build it with budget='thorough'."
        )
    if linear.num_classes != card.num_classes:
        raise InputError(
            f"the card is for {card.num_classes} classes but the model gives {linear.num_classes}."
        )
    return linear


def _logit_range(shard: int, *, clean: ShardLogits) -> LogitRange:
    return LogitRange.of(clean.logits(shard))


def _write_shard(shard: int, *, clean: ShardLogits, relative: float, folder: Path) -> float:
    first, last, _ = clean.graph.shards[shard]
    block = (np.arange(first, last), probabilities_at(clean.logits(shard), relative))
    return write_probabilities(folder / f"part-{shard:05d}.parquet", [block])


def linear_numbers(model: LinearPasses) -> list[bytes]:
    """Return what the passes of a linear model depend on."""
    settings = [list(model.hops_used), model.operator, model.weights.shape]
    return [
        json.dumps(settings).encode(),
        np.ascontiguousarray(model.weights).tobytes(),
        np.ascontiguousarray(model.intercept).tobytes(),
    ]


def run_identity(model: list[bytes], graph: ShardedGraph, card: SourceCard, seed: int) -> str:
    """Return a digest of everything that the numbers of a run depend on.

    This includes the source code of the library. ``model`` is what identifies the model, for
    instance its weights. A graph is identified by its manifest, and by the sizes, times and inodes
    of its files, so that a file which was changed in place makes a new run. Whether the files are
    as they were written is checked by `ShardedGraph.verify`.

    Examples
    --------
    >>> import tempfile
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> from graphtemper.scale.conversion.convert import convert_graph
    >>> g = csbm.sample(300, degree=6, homophily=0.8, snr=1.0, num_features=4, seed=1)
    >>> model = SIGN(hops=1).fit(g, range(200))
    >>> card = SourceCard.build(model, g, range(200, 300), compositions=0)
    >>> graph = convert_graph(g, tempfile.mkdtemp() + "/g")
    >>> len({run_identity([b"SIGN"], graph, card, seed) for seed in (0, 0, 1)})
    2
    """
    digest = hashlib.sha256()
    libraries = [source_digest(NOT_MEASURING), np.__version__, scipy.__version__]
    for part in (
        json.dumps([*libraries, seed, COLUMNS_AT_ONCE]).encode(),
        *model,
        card.to_json().encode(),
        repr(graph.shards).encode(),
        stamp(graph.files).text.encode(),
    ):
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:16]
