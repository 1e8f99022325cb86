"""Build a source card: measure the labelled source, survey the atlas, fit the responses."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from graphtemper import temperature
from graphtemper._core.checks import check_integer
from graphtemper._core.numerics import log_odds
from graphtemper._core.reproducible import one_blas_thread
from graphtemper.card import atlas, response
from graphtemper.card.atlas import AtlasNodes, Environment, Shifts, Source, Workers
from graphtemper.card.data import CardData, ClassProfile, relative_log_odds, sampling_variance
from graphtemper.card.format import as_stored, at_file_precision
from graphtemper.card.journal import Journal, build_key
from graphtemper.card.node_response import NodeRows
from graphtemper.card.progress import Progress, shown
from graphtemper.card.response import Response
from graphtemper.card.size import check_size
from graphtemper.errors import InputError
from graphtemper.graph.graph import Graph, Nodes, select_labelled
from graphtemper.models.predictor import Predictor, declared_passes, probe_graph
from graphtemper.models.recognition import check_repeatable, fingerprint
from graphtemper.signals import evidence, node_signals
from graphtemper.signals import pointwise as signals
from graphtemper.signals.evidence import FEW_SIGNALS, LEAD, LOGIT_SIGNALS, Probe, Reference
from graphtemper.signals.gains import ClassMoments
from graphtemper.signals.observation import Observation
from graphtemper.signals.share_drift import DriftBaseline

FEWEST_NODES = 50
"""Fewer labelled nodes than this measure an accuracy too poorly to learn from."""
# Bisection of the noise level at the source: steps, and passes per step.
_NOISE_STEPS, _NOISE_PASSES = 9, 6
Card = TypeVar("Card", bound=CardData)


@one_blas_thread(also_openmp=False)
def build(
    kind: type[Card],
    predictor: Predictor,
    graph: Graph,
    nodes: Nodes = None,
    *,
    seed: int = 0,
    exclude: Collection[str] = (),
    compositions: int = atlas.COMPOSITIONS,
    shifts: Shifts | None = None,
    resume: str | os.PathLike[str] | None = None,
    progress: Progress | bool | None = None,
    workers: Workers | None = None,
) -> Card:
    """Build a card of the given type; see `graphtemper.SourceCard.build`."""
    check_integer(seed, "seed", 0, 2**62)
    planned = atlas.plan(seed, exclude, compositions, shifts)
    rows, labels = select_labelled(graph, nodes)
    if rows.size < FEWEST_NODES:
        raise InputError(
            f"a source card needs at least {FEWEST_NODES} labelled nodes, but has {rows.size}."
        )
    description = f"source card: {len(planned)} environments"
    if declared_passes(predictor) is None:
        passes = count_passes(len(planned), rows.size, graph.num_edges > 0)
        description += f", {passes:,} passes of the model"
    with shown(progress, description) as report:
        # A model that changes its input or its answers is refused before it sees the graph.
        recorded = fingerprint(predictor, graph.num_features)
        if declared_passes(predictor) is None:
            tested = graph if recorded is None else probe_graph(graph.num_features)
            check_repeatable(predictor, tested.replace(labels=None))
        observation = _at_source_temperature(Observation(predictor, graph, rows, seed=seed), labels)
        check_size(observation.num_classes, graph.num_features, len(planned))
        probe = _probe(observation, labels)
        reference = Reference(
            evidence=evidence.measure(observation, probe),
            moments=ClassMoments.measure(observation.logits, labels),
            accuracy=float((observation.predictions == labels).mean()),
        )
        at_source = NodeRows.draw(observation, labels, probe, count=observation.num_nodes)
        source = Source(predictor, graph, rows, labels, probe, reference)
        journal = Journal(resume, build_key(source, observation))
        environments, node_rows = atlas.survey(
            source,
            planned,
            known=journal.read(),
            done=journal.add,
            progress=report,
            workers=workers,
        )
    atlas_nodes = AtlasNodes(at_source, node_rows)
    fitted = fit_responses(environments, reference, rows.size)
    card = kind(
        predictor=getattr(predictor, "__name__", type(predictor).__name__)[:200],
        num_classes=observation.num_classes,
        num_features=graph.num_features,
        num_nodes=int(rows.size),
        fingerprint=recorded,
        probe=probe,
        reference=reference,
        population=DriftBaseline.measure(
            graph,
            rows,
            labels,
            observation.predictions,
            observation.num_classes,
            probe.column_std,
        ),
        environments=tuple(environments),
        names={kind: item.names for kind, item in fitted.items()},
        kernels={kind: item.kernel for kind, item in fitted.items()},
        widening={kind: item.widening for kind, item in fitted.items()},
        excluded=tuple(sorted(set(exclude))),
        class_profile=ClassProfile.measure(observation.logits, labels),
        node_responses=atlas_nodes.fit(environments, reference.accuracy),
    )
    # So that a card gives the same answers before and after it was saved.
    return replace(at_file_precision(card), atlas_nodes=atlas_nodes)


def count_passes(num_environments: int, num_nodes: int, has_edges: bool = True) -> int:
    """Return the number of forward passes of the model that a build takes.

    It counts the calls of a model that declares no fast passes (`graphtemper.models.Passes`), for n
    labelled nodes on a graph with or without edges. A split of the columns takes four passes: two
    halves, with and without neighbours.

    Examples
    --------
    >>> count_passes(0, 300), count_passes(132, 300), count_passes(132, 30_000)
    (110, 7106, 5510)
    """
    probe = Probe(1.0, 1.0, np.ones(1), 0.0, 0.0, seed=0)
    clean, own, halves = 1, 1, 4 * probe.splits
    noisy = 2 * probe.passes_over(num_nodes, fewest=2)  # deviations of the target and the source
    dropout = probe.passes_over(num_nodes) if has_edges else 0
    node_rows = own + 4 * node_signals.SPLITS
    each = clean + own + halves + noisy + dropout + node_rows
    bisection, recognised = _NOISE_STEPS * _NOISE_PASSES, 3  # once, and twice for equal answers
    return (num_environments + 1) * each + bisection + recognised


def without(card: Card, family: str) -> Card:
    """Return the card without a family of shifts; see `graphtemper.SourceCard.without`."""
    if family not in {*card.families, *card.excluded}:
        present = ", ".join(card.families)
        raise InputError(f"unknown family {family!r}; the atlas has {present}.")
    environments = [item for item in card.environments if family not in item.families]
    fitted = fit_responses(environments, card.reference, card.num_nodes)
    nodes = card.atlas_nodes
    return replace(
        card,
        environments=tuple(environments),
        names={kind: item.names for kind, item in fitted.items()},
        kernels={kind: item.kernel for kind, item in fitted.items()},
        widening={kind: item.widening for kind, item in fitted.items()},
        excluded=tuple(sorted({*card.excluded, family})),
        node_responses=None if nodes is None else nodes.fit(environments, card.reference.accuracy),
    )


def _at_source_temperature(observation: Observation, labels: NDArray[np.int64]) -> Observation:
    fitted = temperature.solve(observation.logits, labels)
    if fitted.status == "undetermined":
        raise InputError("every node's logits are equal, so there is nothing to calibrate.")
    return observation.at(fitted.temperature)


def _probe(observation: Observation, labels: NDArray[np.int64]) -> Probe:
    accuracy = float((observation.predictions == labels).mean())
    probabilities = observation.probabilities
    return Probe(
        temperature=observation.temperature,
        noise_level=_matching_noise(observation, 1.0 - accuracy),
        column_std=as_stored(observation.column_moments[1]),
        confidence_threshold=signals.atc_threshold(signals.confidence(probabilities), accuracy),
        entropy_threshold=signals.atc_threshold(-signals.entropy(probabilities), accuracy),
        seed=observation.seed,
    )


def _matching_noise(observation: Observation, error: float) -> float:
    """Return the noise under which the source disagrees with itself as often as it is wrong."""
    low, high = 0.02, 3.0
    for _ in range(_NOISE_STEPS):
        middle = float(np.sqrt(low * high))
        if 1.0 - evidence.noise_agreement(observation, middle, _NOISE_PASSES) < error:
            low = middle
        else:
            high = middle
    return float(np.sqrt(low * high))


def fit_responses(
    environments: Sequence[Environment], reference: Reference, num_nodes: int
) -> dict[str, Response]:
    """Fit the response for targets with a model and for targets with logits alone.

    With a model, a short and a long list of signals are tried. The one with the smaller error on
    left-out families of shifts is used: it is chosen to extrapolate, on source labels alone.
    """
    readable = reference.readable
    choices: dict[str, list[tuple[str, ...]]] = {
        "model": [readable, tuple(name for name in readable if name in FEW_SIGNALS)],
        "logits": [LOGIT_SIGNALS],
    }
    start = log_odds(reference.accuracy)
    truth = np.array([item.accuracy for item in environments])
    fitted = {}
    for kind, lists in choices.items():
        errors, surfaces = [], []
        for names in dict.fromkeys(lists):
            with one_blas_thread():
                surface, left_out = response.fit(
                    names,
                    [item.signals for item in environments],
                    relative_log_odds(environments, reference.accuracy),
                    sampling_variance(environments, num_nodes),
                    reference.signals,
                    [item.families for item in environments],
                    lead=LEAD,
                )
            predicted = 1.0 / (1.0 + np.exp(-(start + left_out.predicted)))
            errors.append(float(np.abs(predicted - truth[left_out.rows]).mean()))
            surfaces.append(surface)
        fitted[kind] = surfaces[int(np.argmin(errors))]
    return fitted
