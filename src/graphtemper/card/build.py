"""Build a source card: measure the labelled source, survey the atlas, fit the responses."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from graphtemper import temperature
from graphtemper._core.arrays import FloatArray
from graphtemper._core.checks import check_integer
from graphtemper._core.heap import reused_memory
from graphtemper._core.numerics import log_odds
from graphtemper._core.reproducible import one_blas_thread
from graphtemper.card import atlas, environments as natural, response
from graphtemper.card import budget as budgets
from graphtemper.card import privacy as private
from graphtemper.card.atlas import AtlasNodes, Shifts, Workers
from graphtemper.card.budget import Budget, Plan
from graphtemper.card.class_profile import CardData, relative_log_odds, sampling_variance
from graphtemper.card.format import as_stored, at_file_precision
from graphtemper.card.graph_types import GraphTypes, unread_fields
from graphtemper.card.journal import Journal, build_key
from graphtemper.card.learning import (
    LabelledGraph,
    check_disjoint,
    checked_environments,
    free_name,
    learn,
    same_graph,
)
from graphtemper.card.node_response import NodeResponse, NodeRows
from graphtemper.card.private_labels import check_epsilon, private_labels
from graphtemper.card.progress import Progress, shown
from graphtemper.card.response import Response
from graphtemper.card.rounding import coarse_log, coarse_quantile, coarse_share
from graphtemper.card.size import check_size
from graphtemper.card.source import Environment, Source
from graphtemper.errors import InputError
from graphtemper.graph.graph import Graph, Nodes, select_labelled
from graphtemper.models.predictor import Predictor, declared_passes, probe_graph
from graphtemper.models.recognition import check_repeatable, fingerprint
from graphtemper.shifts import Shift
from graphtemper.signals import copies as copies_of_nodes
from graphtemper.signals import covariances, evidence, shared_passes
from graphtemper.signals import pointwise as signals
from graphtemper.signals.evidence import (
    FEW_SIGNALS,
    LEAD,
    LOGIT_SIGNALS,
    Probe,
    Reference,
)
from graphtemper.signals.observation import Observation
from graphtemper.signals.passes import count_votes

FEWEST_NODES = 50
"""Fewer labelled nodes than this measure an accuracy too poorly to learn from."""
PUBLIC_SEED = 0
"""Seed of the column halves, which targets repeat; the seed of a build is in no card."""
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
    environments: Sequence[LabelledGraph] = (),
    budget: Budget = None,
    privacy: float | None = None,
) -> Card:
    """Build a card of the given type; see `graphtemper.SourceCard.build`."""
    others = checked_environments(environments, graph, unread_fields(predictor))
    epsilon = None if privacy is None else check_epsilon(privacy)
    if others and epsilon is not None:
        raise InputError(
            "a private card is built without environments; let it learn from them afterwards."
        )
    check_integer(seed, "seed", 0, 2**62)
    if not callable(predictor):
        raise InputError("a card needs the model, to run it on shifted graphs, not its logits.")
    allowed = budgets.resolved(budget, predictor, budgets.CARD_BUDGET)
    planned = atlas.plan(seed, exclude, compositions, shifts)
    rows, labels = select_labelled(graph, nodes)
    if rows.size < FEWEST_NODES:
        raise InputError(
            f"a source card needs at least {FEWEST_NODES} labelled nodes, but has {rows.size}."
        )
    # A model that changes its input or its answers is refused before it sees the graph.
    recorded = fingerprint(predictor, graph.num_features)
    called = declared_passes(predictor) is None
    if called:
        tested = graph if recorded is None else probe_graph(graph.num_features)
        check_repeatable(predictor, tested.replace(labels=None))
    observation = Observation(predictor, graph, rows, seed=seed)
    if rows.size < observation.num_classes:
        raise InputError(
            f"the model has {observation.num_classes} classes but only {rows.size} labelled nodes "
            "are given; a source card needs at least one node per class."
        )
    if epsilon is not None:
        assert graph.labels is not None  # `select_labelled` refuses a graph without
        drawn = private_labels(observation.all_logits, graph.labels, rows, epsilon)
        # Nothing below this line reads a given label.
        graph, labels = graph.replace(labels=drawn), drawn[rows]
    secret = private.secret_seed(seed, rows, labels)
    for number, (other, chosen) in enumerate(others, start=1):
        if same_graph(other, graph):
            check_disjoint(graph, rows, chosen, number)
        name = other.name or f"environment {number}"
        natural.check(observation.num_classes, other, *select_labelled(other, chosen), name)
    copies = allowed is not None and copies_of_nodes.reads_copies(observation)
    spent = budgets.plan(
        allowed,
        [graph.is_plain and atlas.moves_edges_only(shift) for shift in planned],
        sum(len(shift.parts) > 0 for shift in planned),
        rows.size,
        has_edges=graph.num_edges > 0,
        copies=copies,
        labelled=[select_labelled(other, chosen)[0].size for other, chosen in others],
        # A module whose first operation is to be found out may refuse one call, see `pyg.deferred`.
        extra=int(hasattr(predictor, "deferred")),
    )
    planned = planned[: spent.environments]
    description = f"source card: {len(planned)} environments"
    if called or allowed is not None:
        description += f", {spent.passes:,} passes of the model"
    with shown(progress, description) as report, reused_memory(called):
        observation = _at_source_temperature(observation, labels)
        check_size(observation.num_classes, graph.num_features, len(planned))
        probe = _probe(observation, labels, spent)
        measured = private.coarse_evidence(
            evidence.measure(observation, probe), observation, secret
        )
        moments = private.coarse_moments(observation.logits, labels, measured.covariance, secret)
        accuracy = _accuracy(observation, labels)
        inside, few = probe, measured
        if spent.inside != spent.shared_splits:
            inside = replace(probe, shared_splits=spent.inside)
            measured, few = private.both_show(measured, evidence.measure(observation, inside))
        reference = Reference(measured, moments, accuracy)
        compared = reference if few is measured else Reference(few, moments, accuracy)
        at_source = NodeRows.draw(observation, labels, probe, count=observation.num_nodes)
        own = shared_passes.own_views(observation, inside) if inside.shared_splits else None
        start = reference.signals
        source = Source(predictor, graph, rows, labels, inside, compared, secret, start, own)
        journal = Journal(resume, build_key(source, observation))
        surveyed, node_rows = atlas.survey(
            source,
            planned,
            known=journal.read(),
            done=journal.add,
            progress=report,
            workers=workers,
        )
    atlas_nodes = AtlasNodes(at_source, node_rows, secret)
    fitted = fit_responses(surveyed, reference, rows.size)
    card = kind(
        predictor=getattr(predictor, "__name__", type(predictor).__name__)[:200],
        num_classes=observation.num_classes,
        num_features=graph.num_features,
        num_nodes=int(rows.size),
        types=GraphTypes.of(graph),
        fingerprint=recorded,
        probe=probe,
        reference=reference,
        population=private.coarse_population(observation, labels, probe, secret),
        environments=tuple(surveyed),
        names={kind: item.names for kind, item in fitted.items()},
        kernels={kind: item.kernel for kind, item in fitted.items()},
        widening={kind: item.widening for kind, item in fitted.items()},
        excluded=tuple(sorted(set(exclude))),
        node_responses=_node_responses(atlas_nodes, surveyed, reference.accuracy, rows.size),
        passes=spent.passes if called or allowed is not None else None,
        privacy=epsilon,
    )
    weight = card.effective_nodes / rows.size
    profile = private.coarse_profile(observation.logits, labels, secret, weight)
    profile = private.with_dependence(profile, observation, labels)
    card = replace(card, class_profile=profile)
    # So that a card gives the same answers before and after it was saved.
    card = replace(at_file_precision(card), atlas_nodes=atlas_nodes)
    for number, (other, chosen) in enumerate(others, start=1):
        name = free_name(other.name or f"environment {number}", card)
        card = learn(card, predictor, other, chosen, name=name, when=None)
    return card


def count_passes(
    shifts: Sequence[Shift],
    num_nodes: int,
    has_edges: bool = True,
    budget: Budget = budgets.CARD_BUDGET,
) -> int:
    """Return the number of forward passes of the model that a build takes.

    It counts the passes of a model that declares no fast ones (`graphtemper.models.Passes`), for
    n labelled nodes on a graph without attributes, and leaves out environments beyond the budget.

    Examples
    --------
    >>> shifts = atlas.plan()
    >>> count_passes(shifts, 300), count_passes(shifts, 300, budget="thorough")
    (496, 7106)
    """
    allowed = budgets.resolved(budget, print, budgets.CARD_BUDGET)
    same = [atlas.moves_edges_only(shift) for shift in shifts]
    return budgets.plan(allowed, same, len(same), num_nodes, has_edges=has_edges).passes


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
        node_responses=None
        if nodes is None
        else _node_responses(nodes, environments, card.reference.accuracy, card.num_nodes),
    )


def _at_source_temperature(observation: Observation, labels: NDArray[np.int64]) -> Observation:
    fitted = temperature.solve(observation.logits, labels)
    if fitted.status == "undetermined":
        raise InputError("every node's logits are equal, so there is nothing to calibrate.")
    return observation.at(coarse_log(fitted.temperature, labels.size))


def _accuracy(observation: Observation, labels: NDArray[np.int64]) -> float:
    return float(coarse_share((observation.predictions == labels).mean(), labels.size))


def _node_responses(
    nodes: AtlasNodes, environments: Sequence[Environment], accuracy: float, count: int
) -> dict[str, NodeResponse]:
    fitted = nodes.fit(environments, accuracy)
    secret = nodes.secret
    return {kind: private.coarse_response(item, count, secret) for kind, item in fitted.items()}


def _probe(observation: Observation, labels: NDArray[np.int64], spent: Plan) -> Probe:
    accuracy = _accuracy(observation, labels)
    probabilities = observation.probabilities
    confidence, certainty = signals.confidence(probabilities), -signals.entropy(probabilities)
    std = private.coarse_columns(observation.graph, observation.column_moments[1])
    return Probe(
        temperature=observation.temperature,
        noise_level=_matching_noise(observation, 1.0 - accuracy, spent),
        column_std=as_stored(std),
        confidence_threshold=_threshold(confidence, accuracy),
        entropy_threshold=_threshold(certainty, accuracy),
        seed=PUBLIC_SEED,
        shared_splits=spent.shared_splits,
        copies=spent.copies,
    )


def _threshold(scores: FloatArray, accuracy: float) -> float:
    return coarse_quantile(scores, signals.atc_threshold(scores, accuracy), 1.0 - accuracy)


def _matching_noise(observation: Observation, error: float, spent: Plan) -> float:
    """Return the noise under which the source disagrees with itself as often as it is wrong."""
    low, high = 0.02, 3.0
    for _ in range(spent.noise_steps):
        middle = float(np.sqrt(low * high))
        if 1.0 - _noise_agreement(observation, middle, spent) < error:
            low = middle
        else:
            high = middle
    return float(np.sqrt(low * high))


def _noise_agreement(observation: Observation, level: float, spent: Plan) -> float:
    if not spent.shared_splits:
        return covariances.noise_agreement(observation, level, spent.noise_passes)
    runs = shared_passes.noisy_passes(observation, level, spent.noise_passes)
    return 1.0 - signals.pairwise_disagreement(count_votes(runs))


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
