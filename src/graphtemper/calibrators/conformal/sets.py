"""Prediction sets with a threshold from labelled nodes, and their JSON record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors
from graphtemper._core.checks import (
    FloatArray,
    as_array,
    check_choice,
    check_instance,
    check_integer,
    check_labels,
    check_level,
    check_matrix,
    check_non_negative,
    check_unit,
    check_vector,
)
from graphtemper._core.parameters import HasParameters
from graphtemper._core.reproducible import stream
from graphtemper.calibrators.conformal.scores import aps, diffuse, raps
from graphtemper.calibrators.conformal.threshold import threshold
from graphtemper.graph.graph import Graph, Nodes, select_nodes

Score = Literal["aps", "raps", "daps"]
SCHEMA = "graphtemper.sets/1"


class ConformalSets(HasParameters):
    r"""Sets that contain the true class with probability ``level`` if nodes are exchangeable.

    A set is :math:`\{k : s_{ik} \le \hat q_k\}` with a score s and the threshold of labelled nodes
    that the model was not trained on. It is never empty: the class that fits best is always in it,
    which only adds coverage. **The guarantee needs labelled and new nodes to be exchangeable**; on
    a shifted graph there is none.

    Parameters
    ----------
    score
        ``"aps"``, ``"raps"`` (a penalty on ranks) or ``"daps"`` (scores averaged with those of
        neighbours; `fit` and `predict` then need the graph and the probabilities of all its nodes).
    level
        The target coverage, in (0, 1).
    lam, k_reg
        Penalty of ``"raps"``, and the ranks that are free of it. Defaults are for few classes.
    delta
        Weight of the neighbours in ``"daps"``.
    seed
        Seed of the randomised scores; None for scores without randomness and larger sets.

    Attributes
    ----------
    threshold_ : (K,) array
        The largest score in the set, per class. Infinite where too few nodes were labelled: such
        sets contain every class.

    Examples
    --------
    >>> from graphtemper import metrics
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([0.5] * 4, size=2000)
    >>> labels = np.array([rng.choice(4, p=row) for row in p])
    >>> sets = ConformalSets(level=0.9).fit(p[:1000], labels[:1000])
    >>> members = sets.predict(p[1000:])
    >>> members.shape, round(metrics.coverage(members, labels[1000:]), 2)
    ((1000, 4), 0.91)

    The record holds a threshold, and gives the same sets:

    >>> again = ConformalSets.from_dict(sets.to_dict())
    >>> print((again.predict(p[1000:]) == members).mean())
    1.0
    """

    threshold_: FloatArray

    def __init__(
        self,
        score: Score = "aps",
        level: float = 0.9,
        *,
        lam: float = 0.1,
        k_reg: int = 1,
        delta: float = 0.5,
        seed: int | None = 0,
    ) -> None:
        self.score: Score = check_choice(score, get_args(Score), "score")
        self.level = check_level(level)
        self.lam = check_non_negative(lam, "lam")
        self.k_reg = check_integer(k_reg, "k_reg", 0)
        self.delta = check_unit(delta, "delta")
        self.seed = None if seed is None else check_integer(seed, "seed", 0)

    def scores(
        self, probabilities: ArrayLike, graph: Graph | None = None, *, stage: str = "predict"
    ) -> FloatArray:
        """Return how badly each class fits each node, (n, K).

        Random numbers come from one stream per ``stage``, so that labelled and new nodes are
        independent. With ``"daps"`` a node's neighbours matter, labelled or not: there each node
        of a graph has one number for both stages, so that splits of a graph are exchangeable.
        """
        p = check_matrix(probabilities, "probabilities")
        name = "graph" if self.score == "daps" else stage
        u = None if self.seed is None else stream(self.seed, f"conformal {name}").random(len(p))
        if self.score == "raps":
            return raps(p, u, lam=self.lam, k_reg=self.k_reg)
        if self.score == "aps":
            return aps(p, u)
        if graph is None:
            raise errors.missing('score "daps" averages over neighbours; pass the graph.')
        return diffuse(aps(p, u), graph, self.delta)

    def fit(
        self,
        probabilities: ArrayLike,
        labels: ArrayLike,
        graph: Graph | None = None,
        nodes: Nodes = None,
        weights: ArrayLike | None = None,
    ) -> Self:
        """Set the threshold from labelled nodes that the model was not trained on.

        Parameters
        ----------
        probabilities : (n, K) array
        labels : (n,) integer array
            One per row; those of nodes that are not selected are not read.
        graph
            Needed by ``"daps"``; rows are then its nodes.
        nodes
            The rows to calibrate on (default all).
        weights : (n,) array, optional
            Ratio of the target's density to the source's at each row. A new node has the largest
            of these weights, which is conservative for all new nodes up to that weight.
        """
        if graph is not None:
            check_instance(graph, Graph, "graph", "fit(probabilities, labels, graph, nodes)")
        p = check_matrix(probabilities, "probabilities")
        rows = select_nodes(nodes, len(p))
        y = _select(labels, rows, len(p), "labels")
        truth = check_labels(y, rows.size, p.shape[1])
        scores = self.scores(p, graph, stage="fit")[rows, truth]
        if weights is None:
            limit = threshold(scores, self.level)
        else:
            density = check_vector(_select(weights, rows, len(p), "weights"), "weights")
            limit = threshold(scores, self.level, density, density.max())
        self.threshold_ = np.full(p.shape[1], float(limit))
        return self

    def predict(
        self, probabilities: ArrayLike, graph: Graph | None = None, nodes: Nodes = None
    ) -> NDArray[np.bool_]:
        """Return which classes are in the set of each selected row, (n, K)."""
        self._check_fitted()
        p = check_matrix(probabilities, "probabilities")
        if p.shape[1] != self.threshold_.size:
            raise errors.other_classes(
                f"the threshold is for {self.threshold_.size} classes, but probabilities has "
                f"{p.shape[1]} columns."
            )
        rows = select_nodes(nodes, len(p))
        scores = self.scores(p, graph)[rows]
        members = scores <= self.threshold_
        members[np.arange(rows.size), scores.argmin(axis=1)] = True
        return np.asarray(members)

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters and the threshold as plain JSON values; None if it is infinite."""
        self._check_fitted()
        limits = [x if np.isfinite(x) else None for x in self.threshold_.tolist()]
        return {"schema": SCHEMA, **self.get_params(), "threshold": limits}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> ConformalSets:
        """Rebuild sets from `to_dict`; raise if the record is damaged or of another version."""
        if not isinstance(content, Mapping) or content.get("schema") != SCHEMA:
            raise errors.content(f"this is not a {SCHEMA} record; write one with to_dict.")
        try:
            sets = cls(**{name: content[name] for name in cls().get_params()})
            limits = [np.inf if value is None else value for value in content["threshold"]]
            sets.threshold_ = np.array(limits, dtype=np.float64)
        except (KeyError, TypeError, ValueError) as error:
            reason = str(error).rstrip(".")
            raise errors.content(f"the record of prediction sets is damaged: {reason}.") from error
        if sets.threshold_.size < 2 or not (sets.threshold_ > -np.inf).all():
            raise errors.content("threshold must hold a number or null for two classes or more.")
        return sets

    def _check_fitted(self) -> None:
        if not hasattr(self, "threshold_"):
            raise errors.not_fitted("these prediction sets have no threshold yet; call fit first.")


def _select(values: ArrayLike, rows: NDArray[np.int64], count: int, name: str) -> NDArray[Any]:
    array = as_array(values, name)
    if array.shape != (count,):
        raise errors.shape(f"{name} must have shape ({count},), one per row, not {array.shape}.")
    return np.asarray(array[rows])
