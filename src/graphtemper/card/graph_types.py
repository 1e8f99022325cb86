"""What a source graph holds next to features and edges, which a target is compared with."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper.errors import GraphTemperWarning

MOST_TYPES = 10_000
"""Types that a card lists."""


OPTIONAL_FIELDS = ("edge_weight", "edge_features", "edge_type", "node_type")
"""What a graph may hold for a model next to features and edges."""
_NAMES = {"edge_features": "edge_features (edge_attr in PyG)"}


def unread_fields(predictor: object) -> tuple[str, ...]:
    """Return the optional fields of a graph that a model is known not to read.

    A model says it in an attribute ``unread``. Logits read nothing.

    Examples
    --------
    >>> unread_fields(lambda graph: graph.features), unread_fields([[0.5, 1.0]])[:1]
    ((), ('edge_weight',))
    """
    return tuple(getattr(predictor, "unread", ())) if callable(predictor) else OPTIONAL_FIELDS


@dataclass(frozen=True)
class GraphTypes:
    """What a source graph holds next to features and edges; empty if it is plain.

    Attributes
    ----------
    node, edge
        Numbers of the types that occur, ascending.
    node_names, edge_names
        Names of the types, if they have any.
    edge_weight
        Whether edges have weights.
    edge_features
        Shape of the attributes of one edge, () for a number and (D,) for a row; None without.
    target_name
        Name of the node type that is classified; None without.

    Examples
    --------
    >>> from graphtemper import Graph
    >>> g = Graph(features=[[1.0], [2.0]], edges=[[0, 1]], edge_type=[3])
    >>> GraphTypes.of(g).edge
    (3,)
    >>> GraphTypes.of(g).check(g.replace(edge_type=[4]))
    Traceback (most recent call last):
    graphtemper.errors.InputError: the graph has edges of type 4, which the source graph ...
    >>> GraphTypes.of(g).check(g.replace(edge_type=None))
    Traceback (most recent call last):
    graphtemper.errors.InputError: the source graph had edge_type but this graph has none; ...
    """

    node: tuple[int, ...] = ()
    edge: tuple[int, ...] = ()
    node_names: tuple[str, ...] = ()
    edge_names: tuple[str, ...] = ()
    edge_weight: bool = False
    edge_features: tuple[int, ...] | None = None
    target_name: str | None = None

    @classmethod
    def of(cls, graph: object) -> GraphTypes:
        """Return what a graph holds; a graph on disk holds none of this."""
        values = getattr(graph, "edge_features", None)
        names, target = (getattr(graph, key, None) for key in ("node_type_names", "target_type"))
        return cls(
            _numbers(getattr(graph, "node_type", None)),
            _numbers(getattr(graph, "edge_type", None)),
            tuple(names or ()),
            tuple(getattr(graph, "edge_type_names", None) or ()),
            getattr(graph, "edge_weight", None) is not None,
            None if values is None else tuple(values.shape[1:]),
            names[target] if names and target is not None else None,
        )

    def check(self, graph: object, unread: Collection[str] = ()) -> None:
        """Refuse a graph that lacks what the source graph has, or has types that it has not.

        A model may ignore such edges silently, read ones for weights, or fail. What it is known
        not to read, ``unread``, may be missing. Where a graph has more than the source graph, the
        answer is about other inputs, which is a warning.
        """
        target = GraphTypes.of(graph)
        had = {
            "edge_weight": self.edge_weight,
            "edge_features": self.edge_features is not None,
            "edge_type": bool(self.edge),
            "node_type": bool(self.node),
        }
        for name in sorted(had.keys() - set(unread)):
            has = getattr(graph, name, None) is not None
            if has and not had[name]:
                warnings.warn(
                    f"the graph has {_NAMES.get(name, name)} but the source graph had not; if the "
                    "model reads it, build a card of a graph that has it.",
                    GraphTemperWarning,
                    stacklevel=4,
                )
            elif had[name] and not has:
                raise errors.other_types(
                    f"the source graph had {_NAMES.get(name, name)} but this graph has none; set "
                    "it, to any values if the model does not read it."
                )
        if None not in (self.edge_features, target.edge_features) and (
            self.edge_features != target.edge_features and "edge_features" not in unread
        ):
            raise errors.other_types(
                f"an edge has edge_features of shape {target.edge_features} but had "
                f"{self.edge_features} at the source; use those that the model was trained on."
            )
        self._check_types("node", target)
        self._check_types("edge", target)
        if "edge_type" not in unread:
            self._check_order(target)

    def _check_order(self, target: GraphTypes) -> None:
        """Warn of edge types in another order, because HGTConv of PyG gives other logits then."""
        known = [name for name in self.edge_names if name in target.edge_names]
        given = [name for name in target.edge_names if name in self.edge_names]
        if known != given:
            warnings.warn(
                "the edge types come in another order than at the source; some layers, as HGTConv "
                "of PyG, give other logits then, so add them to the data in the same order.",
                GraphTemperWarning,
                stacklevel=5,
            )

    def _check_types(self, kind: str, target: GraphTypes) -> None:
        known, given = (getattr(types, f"{kind}_names") for types in (self, target))
        if not (known and given):
            known, given = (getattr(types, kind) for types in (self, target))
        new = sorted(set(given) - set(known))
        if known and new:
            raise errors.other_types(
                f"the graph has {kind}s of type {new[0]}, which the source graph had not; "
                "build a card on a graph with this type, or leave it out."
            )


def _numbers(types: NDArray[np.int64] | None) -> tuple[int, ...]:
    return () if types is None else tuple(np.unique(types)[:MOST_TYPES].tolist())
