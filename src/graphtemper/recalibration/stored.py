"""Recalibration of logits that are stored in files, with or without the graph and the model.

One pass over the logits computes sums, which is all that a temperature needs; a second one writes
probabilities. The model runs on a sample of the nodes (`graphtemper.signals.sample`). From logits
alone a card can use confidence signals only, and without features a change of the class shares
cannot be noticed: the answer says so, and the verdict is at most ``caution``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from graphtemper import errors
from graphtemper.card.card import SourceCard
from graphtemper.card.reading import read_evidence, sampling_variance
from graphtemper.models.predictor import Predictor
from graphtemper.recalibration import streaming
from graphtemper.recalibration.applied import probabilities_at
from graphtemper.recalibration.reasons import Reason, ReasonCode
from graphtemper.recalibration.result import Recalibration
from graphtemper.recalibration.streaming import sums_of, survey
from graphtemper.recalibration.verdict import sampled_run
from graphtemper.scale.engine import SERIAL, Engine, OnDask
from graphtemper.scale.logit_tables import LogitParts, LogitPlace, open_logits, read_logits
from graphtemper.scale.output import atomic_directory, write_parts
from graphtemper.scale.stored_graph import StoredGraph, StoredWhole, load, moments_of, some_links
from graphtemper.signals import sample as sampler
from graphtemper.signals.evidence import with_views

ANSWER = "_answer.json"
"""The file of a result's directory that holds the answer; the others are Parquet."""
Progress = Callable[[str, int, int], None]
MOST_LOADED = 4_000_000
"""Edges up to which a graph of at most `graphtemper.signals.sample.SMALL` nodes is loaded."""
_BLIND = "without features nothing shows whether they moved; the interval is as wide as if so."


@dataclass(frozen=True, eq=False, repr=False)
class StoredRecalibration(Recalibration):
    """A result, without arrays of nodes, whose probabilities were written to ``out``.

    ``out`` is a directory of Parquet files with one row per node: ``node``, ``probability_0``, ...
    It also holds ``_answer.json``, a name that readers of Parquet skip: the answer, and in
    ``parts`` the files.
    """

    out: Path = Path()


@dataclass(frozen=True, eq=False)
class StoredJob:
    """What a recalibration of stored logits is about; see `graphtemper.recalibrate`.

    Attributes
    ----------
    logits
        Files with the logits of every node, or logits that are open already.
    card
        The source card.
    graph
        The stored graph; without it there are logits alone.
    model
        The model, which gave the logits. Without it, only the features of the graph are read.
    seed
        Seed of the sample and of the perturbed passes.
    sample
        The number of nodes to run the model on; None for `graphtemper.signals.sample.SIZE` of a
        graph that is too large to be loaded.
    engine
        Runs the tasks.
    progress
        Called with what is being done, and how much of the work is finished, in percent of 100.
    in_memory
        `graphtemper.recalibrate`, for a graph that is loaded.
    """

    logits: LogitPlace
    card: SourceCard
    graph: StoredGraph | None
    model: Predictor | None
    seed: int
    sample: int | None
    engine: Engine
    progress: Progress
    in_memory: Callable[..., Recalibration]

    def run(self, out: str | os.PathLike[str] | None) -> Recalibration:
        """Return the answer, and write it with probabilities to a new directory if one is named."""
        if out is None:
            return self.answer()
        place = Path(out).absolute()
        with atomic_directory(place) as folder:
            found = self.answer()
            self.progress("writing probabilities", 90, 100)
            calibrated = partial(probabilities_at, temperature=found.temperature)
            confidence = write_parts(self.engine, self.parts, calibrated, folder)
            means = found.answer.claimed, confidence
            stored = StoredRecalibration(
                found.reading, found.answer, means, passes=found.passes, out=place
            )
            names = sorted(item.name for item in folder.iterdir() if item.name[0] != ".")
            text = json.dumps(stored.to_dict() | {"parts": names}, indent=1, allow_nan=False)
            (folder / ANSWER).write_text(f"{text}\n", "utf-8")
        self.progress("finished", 100, 100)
        return stored

    @property
    def parts(self) -> LogitParts:
        """The logits, open."""
        return open_logits(self.logits, self.card.num_classes)

    def answer(self) -> Recalibration:
        """Return the answer without writing anything."""
        graph, card = self.graph, self.card
        if graph is not None and graph.num_features != card.num_features:
            card.check_graph(np.empty(0), graph)  # which says so; types are checked on a part
        if self.model is None:
            self.progress("reading the logits", 0, 100)
            return self._of_logits()
        if graph is None or not graph.has_edges:
            raise errors.missing("the model runs on a sample of the nodes; give nodes and edges.")
        if self.parts.num_nodes != graph.num_nodes:
            raise errors.damaged(
                f"there are {self.parts.num_nodes:,} rows of logits for {graph.num_nodes:,} nodes."
            )
        if self._fits(graph):
            self.progress("running the model", 0, 100)
            return self._loaded(self.model, graph)
        card.check_model(self.model)
        return self._of_sample(self.model, graph)

    def _fits(self, graph: StoredGraph) -> bool:
        if self.sample is not None:
            return self.sample >= graph.num_nodes
        return graph.num_nodes <= sampler.SMALL and graph.num_edges <= MOST_LOADED

    def _loaded(self, model: Predictor, graph: StoredGraph) -> Recalibration:
        logits = read_logits(self.logits, graph.num_nodes, self.card.num_classes)
        loaded = load(self.engine, graph)
        found = self.in_memory(model, loaded, self.card, seed=self.seed, logits=logits)
        return Recalibration(
            found.reading, found.answer, found.mean_confidence, passes=found.passes
        )

    def _of_sample(self, model: Predictor, graph: StoredGraph) -> Recalibration:
        engine, card, parts = self.engine, self.card, self.parts
        size = sampler.SIZE if self.sample is None else self.sample
        self.progress("reading the logits", 0, 100)
        sums, predicted, pool = survey(engine, parts, card.probe, sampler.POOL * size, self.seed)
        self.progress("reading the nodes", 20, 100)
        moments = moments_of(engine, graph)
        self.progress("reading the edges", 40, 100)
        ends = predicted[some_links(engine, graph)]
        shares = np.bincount(ends.ravel(), minlength=card.num_classes) / max(ends.size, 1)
        share = float((ends[:, 0] == ends[:, 1]).mean()) if ends.size else None
        self.progress("running the model on a sample", 50, 100)
        large = sampler.Large(
            whole=StoredWhole(graph, engine),
            predictor=sampler.in_one_pass(model),
            probe=card.probe,
            pool=pool,
            moments=moments,
            covariance=sums.logits.moments.covariance,
            homophily=share,
            chance=float(shares @ shares),
            seed=self.seed,
            accept=lambda part: card.check_graph(model, part),
        )
        found = sampler.measure(large, size, sampler.layers(model))
        # The SNR of other nodes than all would be of other logits.
        measured = with_views(sums.logits.evidence(share, found.log_degree), found.evidence)
        measured = replace(measured, second_agreement=found.evidence.second_agreement)
        reading = read_evidence(card, measured, graph.num_nodes, moments, sums.flat)
        variance = sampling_variance(reading, found.num_nodes, int(found.worth))
        reading = replace(reading, sampled=variance)
        answer = streaming.answer(engine, parts, sums, reading).saying(sampled_run(found))
        return Recalibration(reading, answer, (answer.claimed, answer.claimed))

    def _of_logits(self) -> Recalibration:
        """Return the answer about logits alone, or with features.

        Logits are read again only if the temperature is outside the range of the sketch.
        """
        engine, card, parts, moments = self.engine, self.card, self.parts, None
        sums = sums_of(engine, parts, card.probe)
        if self.graph is not None:
            moments = moments_of(engine, self.graph)
        measured = sums.logits.evidence(None, None)  # both need a graph
        reading = read_evidence(card, measured, sums.logits.moments.count, moments, sums.flat)
        answer = streaming.answer(engine, parts, sums, reading)
        if moments is None:
            answer = answer.saying(Reason(ReasonCode.FEATURES_UNKNOWN, _BLIND))
            if answer.verdict == "trust":
                answer = replace(answer, verdict="caution")
        return Recalibration(reading, answer, (answer.claimed, answer.claimed))


def engine_of(client: Any) -> Engine:
    """Return an engine: None is this process, and a `distributed.Client` its cluster."""
    if client is None:
        return SERIAL
    return client if isinstance(client, Engine) else OnDask(client)
