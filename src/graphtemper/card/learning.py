"""Let a card learn from labelled environments: other graphs on which the model was scored."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from graphtemper.card import environments as natural
from graphtemper.card import privacy as private
from graphtemper.card.class_profile import CardData
from graphtemper.card.format import at_file_precision, to_json
from graphtemper.card.graph_types import GraphTypes
from graphtemper.card.private_labels import effective_nodes, private_labels
from graphtemper.card.size import MAX_BYTES
from graphtemper.errors import InputError
from graphtemper.graph.checks import select_nodes
from graphtemper.graph.graph import Graph, Nodes, select_labelled
from graphtemper.models.predictor import Predictor
from graphtemper.signals.observation import Observation

Card = TypeVar("Card", bound=CardData)
LabelledGraph = Graph | tuple[Graph, Nodes]
"""A labelled environment: a graph, or a graph and some of its nodes."""


def learn(
    card: Card,
    predictor: Predictor,
    graph: Graph,
    nodes: Nodes = None,
    *,
    name: str | None = None,
    when: object = None,
) -> Card:
    """Return a card with one more labelled environment; see `graphtemper.SourceCard.learn`."""
    known = card.natural
    label = str(name or free_name(graph.name or f"environment {len(known) + 1}", card))[:200]
    moment = natural.checked_when(when)
    probe = card.probe
    if card.privacy is not None:
        graph = _private(graph, nodes, predictor, probe.seed, card.privacy)
    measured = natural.measure(probe, card.reference, predictor, graph, nodes, label, moment)
    if measured.sketch is not None:
        secret = private.secret_seed(probe.seed, *select_labelled(graph, nodes))
        size, most = measured.num_nodes, natural.SKETCH_SIZE
        exact = np.array(measured.sketch)
        noisy, _ = private.noisy_sketch(exact, size, probe.column_std, secret, most)
        kept = noisy.clip(-natural.FARTHEST, natural.FARTHEST).tolist()
        measured = replace(measured, sketch=tuple(kept))
    if card.privacy is not None:
        given = measured.num_nodes, measured.accuracy, card.num_classes, card.privacy
        measured = replace(measured, num_nodes=effective_nodes(*given))
    grown = natural.added(known, at_file_precision(replace(card, natural=(measured,))).natural[0])
    while len(grown) > natural.MOST_ENVIRONMENTS:
        grown = natural.merge_oldest(grown)
    larger = replace(card, natural=grown)
    while len(grown) > 2 and len(to_json(larger)) > MAX_BYTES:
        grown = natural.merge_oldest(grown)
        larger = replace(card, natural=grown)
    return replace(at_file_precision(larger), atlas_nodes=card.atlas_nodes)


def _private(graph: Graph, nodes: Nodes, predictor: Predictor, seed: int, epsilon: float) -> Graph:
    """Return an environment with randomised labels: they may be those of the source."""
    rows, _ = select_labelled(graph, nodes)
    assert graph.labels is not None  # `select_labelled` refuses a graph without
    logits = Observation(predictor, graph, rows, seed=seed).all_logits
    return graph.replace(labels=private_labels(logits, graph.labels, rows, epsilon))


def checked_environments(
    environments: Sequence[LabelledGraph], source: Graph, unread: Collection[str]
) -> list[tuple[Graph, Nodes]]:
    """Return labelled environments as pairs, or refuse those that the card could not learn from."""
    pairs: list[tuple[Graph, Nodes]] = []
    for number, item in enumerate(environments, start=1):
        graph, nodes = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
        if not isinstance(graph, Graph):
            raise InputError(
                f"environment {number} must be a Graph or a pair (graph, nodes), not "
                f"{type(item).__name__}."
            )
        if graph.num_features != source.num_features:
            raise InputError(
                f"environment {number} has {graph.num_features} feature columns but the source has "
                f"{source.num_features}; use the same feature space."
            )
        GraphTypes.of(source).check(graph, unread)
        pairs.append((graph, nodes))
    return pairs


def same_graph(one: Graph, other: Graph) -> bool:
    """Return whether two graphs have the same nodes and edges."""
    if one is other:
        return True
    if one.num_nodes != other.num_nodes or not np.array_equal(one.edges, other.edges):
        return False
    gap = one.features - other.features
    return not (gap.any() if isinstance(gap, np.ndarray) else gap.nnz)


def check_disjoint(graph: Graph, rows: NDArray[np.int64], nodes: Nodes, number: int) -> None:
    """Refuse an environment with nodes that the card itself is built from."""
    common = np.intersect1d(rows, select_nodes(nodes, graph.num_nodes, graph.classified))
    if common.size:
        raise InputError(
            f"environment {number} contains {common.size} of the nodes that the card itself is "
            "built from; choose other nodes."
        )


def free_name(name: str, card: CardData) -> str:
    """Return a name that no environment of the card has, with a number if it is taken."""
    taken = {item.name for item in card.natural}
    free = (f"{name} ({number})" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(one for one in free if one not in taken)
