"""Build a source card in four steps: plan, measure the source, survey the atlas, fit.

`plan` checks what was given and decides what to run within the budget. `measure` runs the model on
the labelled source. `survey` runs it under every planned shift. `fit` learns from these how to read
a target. `graphtemper.SourceCard.build` takes the four steps and puts the card together.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors, temperature
from graphtemper._core.checks import FloatArray, check_labels
from graphtemper._core.reproducible import stream
from graphtemper.card import atlas, suspicions
from graphtemper.card import budget as budgets
from graphtemper.card.atlas import AtlasNodes, AtlasPoint, Progress, Source
from graphtemper.card.budget import Budget, Spending
from graphtemper.card.class_profile import MOST_CLASSES
from graphtemper.card.environments import (
    LabelledGraph,
    check,
    check_disjoint,
    checked_environments,
)
from graphtemper.card.format import check_size
from graphtemper.card.graph_types import unread_fields
from graphtemper.card.node_response import NodeResponse, NodeRows
from graphtemper.card.privacy import (
    check_epsilon,
    pooled_moments,
    pooled_recalls,
    private_labels,
    secret_seed,
)
from graphtemper.card.response import Fitted, fit_atlas
from graphtemper.errors import GraphTemperWarning
from graphtemper.graph.graph import Graph, Nodes, select_labelled
from graphtemper.graph.operators import project
from graphtemper.models.passes import Passes, passes_of
from graphtemper.models.predictor import Predictor, check_repeatable, fingerprint, probe_graph
from graphtemper.shifts import Shift
from graphtemper.signals import evidence, views
from graphtemper.signals import pointwise as signals
from graphtemper.signals.changes import Baseline
from graphtemper.signals.drift import DriftBaseline
from graphtemper.signals.evidence import Probe, Reference
from graphtemper.signals.observation import Observation
from graphtemper.signals.passes import count_votes
from graphtemper.signals.second_opinion import SecondOpinion, sketch_weights
from graphtemper.signals.views import noisy_logits

FEWEST_NODES = 50
"""Fewer labelled nodes than this measure an accuracy too poorly to learn from."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What a build is going to do, after everything that was given was checked.

    Attributes
    ----------
    graph, labels
        The source, and the labels of its labelled nodes; randomised if the card is private.
    observation
        The model on the source at the labelled nodes.
    shifts, ends
        The shifts of the atlas, and those after which links carry no signal.
    budget
        How forward passes are spent.
    counted
        Whether passes are counted: the model has no fast ones, or there is a budget.
    secret
        The seed of all draws, which no card holds.
    fingerprint
        Logits on a small fixed graph; None if the model does not run there.
    environments
        Other labelled graphs, with their nodes.
    """

    predictor: Predictor
    graph: Graph
    labels: NDArray[np.int64]
    observation: Observation
    shifts: list[Shift]
    ends: dict[str, Shift]
    budget: Spending
    counted: bool
    secret: int
    fingerprint: FloatArray | None
    environments: list[tuple[Graph, Nodes]]

    @contextmanager
    def running(self, progress: Progress | bool | None) -> Iterator[Progress]:
        """Show a bar on a terminal or in a notebook while the model runs; True shows one anywhere.

        A function is called with (shifts finished, shifts in all) in place of the bar.
        """
        if callable(progress):
            yield progress
            return
        from rich.console import Console
        from rich.progress import Progress as Bar

        console = Console(stderr=True)
        visible = console.is_terminal or console.is_jupyter if progress is None else progress
        text = f"source card: {len(self.shifts)} shifts"
        text += f", {self.budget.passes:,} passes of the model" * self.counted
        with Bar(console=console, disable=not visible) as bar:
            task = bar.add_task(text, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)


def plan(
    predictor: Predictor,
    graph: Graph,
    compared: FloatArray | None,
    nodes: Nodes,
    shifts: Sequence[Shift],
    ends: dict[str, Shift],
    *,
    seed: int = 0,
    environments: Sequence[LabelledGraph] = (),
    budget: Budget = None,
    privacy: float | None = None,
) -> Plan:
    """Check what a card is built from, and decide which of the shifts to run within the budget.

    ``compared`` are the logits of the source, if they were made to check the model.
    """
    others = checked_environments(environments, graph, unread_fields(predictor))
    if privacy is not None and check_epsilon(privacy) and others:
        raise errors.conflict(
            "a private card is built without environments; let it learn from them afterwards."
        )
    rows, labels = _labelled(graph, nodes)
    passes, recorded = _recognised(predictor, graph)
    observation = Observation(predictor, graph, rows, seed=seed, logits=compared)
    _check_classes(observation, len(shifts), others)
    check_labels(labels, rows.size, observation.num_classes)
    suspicions.warn(_suspicions(graph, observation, labels))
    if privacy is not None:  # nothing below these lines reads a given label
        graph = _with_private_labels(graph, observation, privacy)
        rows, labels = select_labelled(graph, rows)
    checks = int(compared is not None) + 2 * int(recorded is None) + len(ends)
    allowed = budgets.resolved(budget, passes, budgets.CARD_BUDGET)
    spent = budgets.spend(
        allowed,
        [graph.is_plain and atlas.moves_edges_only(shift) for shift in shifts],
        sum(len(shift.parts) > 0 for shift in shifts),
        others=len(others),
        checks=checks,
    )
    return Plan(
        predictor,
        graph,
        labels,
        observation,
        list(shifts[: spent.shifts]),
        ends,
        spent,
        counted=not passes.cheap or allowed is not None,
        secret=secret_seed(seed, rows, labels),
        fingerprint=recorded,
        environments=others,
    )


def _with_private_labels(graph: Graph, observation: Observation, epsilon: float) -> Graph:
    assert graph.labels is not None  # `select_labelled` refuses a graph without
    logits, rows = observation.all_logits, observation.nodes
    return graph.replace(labels=private_labels(logits, graph.labels, rows, epsilon))


def _labelled(graph: Graph, nodes: Nodes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rows, labels = select_labelled(graph, nodes)
    where = ""
    if nodes is None and graph.train_masks is not None and len(graph.train_masks) == 1:
        held_out = ~graph.train_masks[0][rows]
        rows, labels, where = rows[held_out], labels[held_out], " outside the training mask"
    elif nodes is None:
        warnings.warn(
            f"the card takes all {rows.size} labelled nodes; if the model was trained on some of "
            "them, where it is better than elsewhere, pass the others (nodes=, --nodes).",
            GraphTemperWarning,
            stacklevel=2,
        )
    if rows.size < FEWEST_NODES:
        raise errors.too_few(
            f"a source card needs at least {FEWEST_NODES} labelled nodes{where}, but has "
            f"{rows.size}."
        )
    return rows, labels


def _suspicions(graph: Graph, observation: Observation, labels: NDArray[np.int64]) -> Iterator[str]:
    """Say where the card's nodes or labels do not look like those of a fair test."""
    rows, predictions = observation.nodes, observation.predictions
    found = list(suspicions.of_labels(predictions, labels, observation.num_classes, "the source"))
    yield from found
    if found:  # wrong labels are wrong everywhere
        return
    masks = graph.train_masks
    trained = int(masks[0][rows].sum()) if masks is not None and len(masks) == 1 else 0
    assert graph.labels is not None  # `select_labelled` refuses a graph without
    every = graph.labelled
    right = observation.all_logits[every].argmax(axis=1) == graph.labels[every]
    here = np.isin(every, rows)
    if trained:
        yield (
            f"{trained} of the card's {rows.size} nodes are in the graph's training mask; a card "
            "needs nodes that the model was not trained on, where it is as good as elsewhere."
        )
    elif suspicions.much_better(right, graph.labels[every], here):
        yield (
            f"the model is right at {right[here].mean():.1%} of the card's nodes and at "
            f"{right[~here].mean():.1%} of the other labelled ones; if it was trained on the "
            "card's nodes, pass the others (nodes=, --nodes)."
        )


def _recognised(predictor: Predictor, graph: Graph) -> tuple[Passes, FloatArray | None]:
    """Return the model's passes, and its fingerprint; None if it does not run on a tiny graph.

    A model that changes its input or its answers is refused before it sees the graph.
    """
    if not callable(predictor):
        raise errors.missing(
            "a card needs the model, to run it on shifted graphs: a function graph -> logits (N, "
            f"K), not a {type(predictor).__name__}."
        )
    passes, recorded = passes_of(predictor), fingerprint(predictor, graph.num_features)
    if not passes.cheap:
        tested = graph if recorded is None else probe_graph(graph.num_features)
        check_repeatable(predictor, tested.replace(labels=None))
    return passes, recorded


def _check_classes(
    observation: Observation, shifts: int, others: Sequence[tuple[Graph, Nodes]]
) -> None:
    """Refuse too many classes for the nodes or the card, and environments with other classes."""
    classes, rows = observation.num_classes, observation.nodes
    if rows.size < classes:
        raise errors.too_few(
            f"the model has {classes} classes but only {rows.size} labelled nodes are given; a "
            "source card needs at least one node per class."
        )
    check_size(classes, observation.graph.num_features, shifts)
    for number, (graph, nodes) in enumerate(others, start=1):
        check_disjoint(observation.graph, rows, graph, nodes, number)
        check(classes, graph, nodes, graph.name or f"environment {number}")


class Measured(NamedTuple):
    """The source, measured: its logits in units of its temperature, how, with what result."""

    observation: Observation
    logits: FloatArray
    probe: Probe
    reference: Reference
    source: Source
    population: DriftBaseline
    columns: Baseline


def measure(plan: Plan) -> Measured:
    """Run the model on the labelled source."""
    labels, graph = plan.labels, plan.graph
    fitted = temperature.solve(plan.observation.logits, labels)
    if fitted.status == "undetermined":
        raise errors.not_logits("every node's logits are equal, so there is nothing to calibrate.")
    observation, logits = plan.observation, plan.observation.logits / fitted.temperature
    predictions = observation.predictions
    accuracy = float((predictions == labels).mean())
    probe = _probe(observation, fitted.temperature, accuracy, plan.budget)
    probe, agreement = _with_second_opinion(plan, probe, predictions)
    moments = pooled_moments(logits, labels)
    # Under the shifts of the atlas fewer splits are measured, and compared with as few here.
    inside = replace(probe, splits=plan.budget.inside)
    whole = evidence.measure(observation, probe)
    compared_views = views.measure(observation, inside)
    found = evidence.both_show(whole, evidence.with_views(whole, compared_views))
    reference, compared = (
        Reference(replace(item, second_agreement=agreement), moments, accuracy) for item in found
    )
    nodes, start = observation.nodes, reference.signals
    classed = graph.replace(labels=_drawn_classes(plan, fitted.temperature))
    given = plan.predictor, classed, nodes, labels, inside, compared, plan.secret, start
    classes = observation.num_classes
    population = DriftBaseline.measure(graph, nodes, labels, predictions, classes, probe.column_std)
    population = replace(population, recalls=pooled_recalls(labels, predictions, classes))
    return Measured(
        observation,
        logits,
        probe,
        reference,
        Source(*given, own=observation if graph.is_plain else None),
        population,
        Baseline.measure(graph, nodes, observation.own_moments),
    )


def elsewhere(plan: Plan) -> float | None:
    """Return the accuracy at labelled nodes outside the card, with half a node right and wrong."""
    graph, observation = plan.graph, plan.observation
    others = np.setdiff1d(graph.labelled, observation.nodes)
    if others.size < FEWEST_NODES:
        return None
    assert graph.labels is not None  # `select_labelled` refuses a graph without
    right = observation.all_logits[others].argmax(axis=1) == graph.labels[others]
    return float((right.sum() + 0.5) / (others.size + 1.0))


def _with_second_opinion(
    plan: Plan, probe: Probe, predictions: NDArray[np.intp]
) -> tuple[Probe, float | None]:
    """Return the probe with a second opinion, and how often the model agrees with it.

    It is fitted to labelled nodes that the card does not score, as those that the model was trained
    on: whoever knew the labels of the card could repeat its secret draws. Without enough of these
    there is none.
    """
    graph, nodes = plan.graph, plan.observation.nodes
    classes = plan.observation.num_classes
    others = np.setdiff1d(graph.labelled, nodes)
    if classes > MOST_CLASSES or not others.size:  # the coefficients would fill the card
        return probe, None
    assert graph.labels is not None
    # Nobody knows which two thirds are fitted, and so what the equations of the optimum are about.
    draws = stream(plan.secret, "labels of the second opinion").permutation(others)
    others = np.sort(draws[: 2 * others.size // 3])
    sums = project(graph.features, sketch_weights(probe.column_std, probe.seed))
    expected = plan.observation.all_predictions[others]
    opinion = SecondOpinion.hiding(sums[others], graph.labels[others], expected, classes)
    if opinion is None:
        return probe, None
    agree = opinion.scores(sums[nodes]).argmax(axis=1) == predictions
    return replace(probe, second=opinion), float(agree.mean())


def _drawn_classes(plan: Plan, source_temperature: float) -> NDArray[np.int64]:
    """Return the labels, with a class drawn from calibrated probabilities for nodes without one.

    Shifts of the homophily move edges by class, and would leave those at other nodes where they
    are. The most likely class instead of a drawn one would agree too often with the predictions.
    """
    graph = plan.graph
    assert graph.labels is not None  # `select_labelled` refuses a graph without
    labels, rows = graph.labels.copy(), graph.classified
    rows = rows[labels[rows] < 0]
    p = temperature.apply(plan.observation.all_logits[rows], source_temperature)
    below = p.cumsum(axis=1)[:, :-1]
    draws = stream(plan.secret, "classes of unlabelled nodes").random((rows.size, 1))
    labels[rows] = (draws > below).sum(axis=1)
    return labels


def _probe(
    observation: Observation, source_temperature: float, accuracy: float, spent: Spending
) -> Probe:
    p = temperature.apply(observation.logits, source_temperature)
    return Probe(
        temperature=source_temperature,
        noise_level=_matching_noise(observation, 1.0 - accuracy),
        column_std=observation.column_moments[1],
        confidence_threshold=signals.atc_threshold(signals.confidence(p), accuracy),
        entropy_threshold=signals.atc_threshold(-signals.entropy(p), accuracy),
        splits=spent.splits,
    )


def _matching_noise(observation: Observation, error: float) -> float:
    """Return the noise under which the source disagrees with itself as often as it is wrong."""
    low, high = 0.02, 3.0
    for _ in range(budgets.NOISE_STEPS):
        middle = float(np.sqrt(low * high))
        runs = (
            noisy_logits(observation, middle, number)[observation.nodes]
            for number in range(budgets.NOISE_PASSES)
        )
        disagreement = signals.pairwise_disagreement(count_votes(runs))
        low, high = (middle, high) if disagreement < error else (low, middle)
    return float(np.sqrt(low * high))


def survey(
    plan: Plan, measured: Measured, progress: Progress
) -> tuple[tuple[AtlasPoint, ...], AtlasNodes]:
    """Run the model under every planned shift; return the atlas, and some nodes under each."""
    observation, probe = measured.observation, measured.probe
    size = observation.num_nodes
    at_source = NodeRows.draw(observation, plan.labels, probe, count=size)
    points, rows = atlas.survey(measured.source, plan.shifts, progress)
    return tuple(points), AtlasNodes(at_source, rows)


class Fit(NamedTuple):
    """What is learned from an atlas: responses of graphs and of nodes to shifts."""

    responses: dict[str, Fitted]
    node_responses: dict[str, NodeResponse] | None


def fit(
    points: Sequence[AtlasPoint], reference: Reference, num_nodes: int, nodes: AtlasNodes | None
) -> Fit:
    """Learn how accuracy and node temperatures respond to shifts; the latter need nodes."""
    responses = fit_atlas(points, reference, num_nodes)
    return Fit(responses, None if nodes is None else nodes.fit(points, reference.accuracy))
