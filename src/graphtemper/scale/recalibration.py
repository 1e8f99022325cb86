"""The main job on shards: a linear model, a sharded graph and a source card give probabilities."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np

from graphtemper.card.card import SourceCard
from graphtemper.errors import InputError
from graphtemper.graph.graph import Graph
from graphtemper.models.linear import LinearGNN
from graphtemper.models.predictor import Predictor
from graphtemper.recalibration.reading import ReadEvidence
from graphtemper.scale.answering import ShardedRecalibration, answer, with_confidence
from graphtemper.scale.clean_pass import Clean, Run, clean_pass
from graphtemper.scale.engine import Engine, Serial
from graphtemper.scale.evidence.measure import Progress, measure
from graphtemper.scale.evidence.sums import total
from graphtemper.scale.identity import identity
from graphtemper.scale.matching import Ends, nearest_temperature
from graphtemper.scale.probability_files import (
    check_parquet,
    probabilities,
    write_answer,
    write_part,
)
from graphtemper.scale.storage.output_directory import draft, sole_folder
from graphtemper.scale.storage.shards import ShardedGraph
from graphtemper.scale.storage.stage_directories import stages_folder
from graphtemper.scale.storage.workspace import workspace
from graphtemper.signals.passes import is_linear


def recalibrate_shards(
    model: Predictor,
    graph: ShardedGraph,
    card: SourceCard,
    out: str | os.PathLike[str],
    *,
    engine: Engine | None = None,
    seed: int = 0,
    room: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> ShardedRecalibration:
    """Recalibrate a linear model on every node of a sharded graph, within bounded memory.

    Evidence, accuracy, temperature and verdict are those of `graphtemper.recalibrate`: the same
    numbers to rounding where nothing is drawn, and other draws of the same distributions where
    something is. Labels, one temperature per node and class shares are not available here.

    Parameters
    ----------
    model
        The `SIGN` or `SGC` that the card was built for.
    graph
        The target.
    card
        The source card.
    out
        A new directory for the probabilities: Parquet, one file a shard, and ``_answer.json``.
        While it is made, finished stages lie beside it in ``.NAME.graphtemper``: after a kill, an
        interruption or a full disk the same call goes on from them, to the same bytes, and a call
        with other arguments removes them. A second process on the same directory is refused.
    engine
        Where tasks run (default: here, one after the other); see `graphtemper.scale.engine`. The
        bytes do not depend on it.
    seed
        Seed of the perturbed passes.
    room
        A directory for stages and intermediate columns that every worker sees (default: beside
        ``out``).
    progress
        Called with a stage, stages done and stages in all.

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
    >>> found = recalibrate_shards(model, shards, card, folder / "answer")
    >>> found.verdict in ("trust", "caution", "abstain"), found.num_nodes
    (True, 600)
    >>> sorted(path.name for path in found.out.iterdir())[:2]
    ['_answer.json', 'part-00000.parquet']
    """
    linear = _checked(model, graph, card)
    place, engine = Path(out).absolute(), engine or Serial()
    check_parquet()
    with (
        sole_folder(place) as hidden,
        workspace(
            stages_folder(hidden, room, identity(linear, graph, card, seed)), graph.num_nodes
        ) as hall,
        draft(hidden, place) as folder,
    ):
        clean = clean_pass(engine, graph, linear, card.probe.temperature, hall)
        run = Run(engine, hall, clean)
        seen = measure(run, card.probe, seed, progress)
        target = ReadEvidence.read(
            seen.evidence,
            card,
            graph.num_nodes,
            (seen.column_mean, seen.column_std),
            flat=seen.logits.spread == 0.0,
        )
        ends: Ends = total(run.map(partial(_ends, clean=clean)))
        shards, classes = len(graph.shards), clean.num_classes

        def match(accuracy: float) -> tuple[float, str]:
            work = partial(nearest_temperature, engine, shards, clean.pieces, classes)
            temperature, note = hall.stage("match", lambda: work(accuracy, ends))
            return temperature, note

        found = answer(target, match, place)
        write = partial(_write, clean=clean, relative=1.0 / found.slope, folder=folder)
        found = with_confidence(found, sum(run.map(write)) / graph.num_nodes)
        write_answer(folder, found)
    return found


def _checked(model: Predictor, graph: ShardedGraph, card: SourceCard) -> LinearGNN:
    if not is_linear(model):
        raise InputError(
            "a sharded graph needs a linear model (SIGN or SGC), whose passes can be taken a shard "
            "at a time; for another one write its logits as Parquet and recalibrate those."
        )
    # The card looks at the number of columns alone, for which one node will do.
    one = np.zeros((1, graph.num_features), np.float32)
    card.check(model, Graph(features=one, edges=np.empty((0, 2), np.int32)))
    if model.intercept_.size != card.num_classes:
        raise InputError(
            f"the card is for {card.num_classes} classes but the model gives "
            f"{model.intercept_.size}."
        )
    return model


def _ends(shard: int, *, clean: Clean) -> Ends:
    return Ends.of(clean.logits(shard))


def _write(shard: int, *, clean: Clean, relative: float, folder: Path) -> float:
    first, last, _ = clean.graph.shards[shard]
    part = (np.arange(first, last), probabilities(clean.logits(shard), relative))
    return write_part(folder / f"part-{shard:05d}.parquet", [part])
