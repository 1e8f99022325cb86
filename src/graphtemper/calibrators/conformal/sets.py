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
    check_shares,
    check_unit,
    check_vector,
)
from graphtemper._core.parameters import HasParameters
from graphtemper._core.reproducible import stream
from graphtemper.calibrators.conformal.scores import aps, diffuse, raps
from graphtemper.calibrators.conformal.threshold import ladder, threshold
from graphtemper.graph.graph import Graph, Nodes, select_nodes

Score = Literal["aps", "raps", "daps"]
SCHEMA = "graphtemper.sets/1"
# Number of quantiles that represent a class's scores; coverage can be 1 / STEPS too large.
STEPS = 100
# A larger count of labelled nodes is damage.
_MOST_NODES = 10**12


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
        The largest score in the set, per class; all equal unless made by `for_shares`. Infinite
        where too few nodes were labelled: such sets contain every class.
    counts_ : (K,) int array
        Labelled nodes of each class.
    ladder_ : (K, 100) array
        Quantiles of the scores of each class, for `for_shares`; NaN for a class without nodes.

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

    The record holds a threshold and a table of quantiles, and gives the same sets:

    >>> again = ConformalSets.from_dict(sets.to_dict())
    >>> print((again.predict(p[1000:]) == members).mean())
    1.0
    """

    threshold_: FloatArray
    counts_: NDArray[np.int64]
    ladder_: FloatArray

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
            of these weights, which is conservative for all new nodes up to that weight. For changed
            class shares use `for_shares`.
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
        self.counts_ = np.bincount(truth, minlength=p.shape[1])
        self.ladder_ = np.full((p.shape[1], STEPS), np.nan)
        for k in np.flatnonzero(self.counts_):
            self.ladder_[k] = ladder(scores[truth == k], STEPS)
        return self

    def for_shares(self, target_shares: ArrayLike) -> ConformalSets:
        r"""Return sets for a target with other class shares, for instance estimated ones.

        A labelled node of class k has the weight :math:`\pi_k / \hat s_k`, the target's share over
        that of the labelled nodes, and so has the candidate class, which gives each class its own
        threshold. Exact up to the steps of `ladder_`, which can only enlarge sets, **if only the
        shares changed and the target shares are exact**. A class without labelled nodes is in every
        set if its target share is positive.

        References
        ----------
        Podkopaev & Ramdas, "Distribution-free uncertainty quantification for classification under
        label shift", UAI 2021.

        Examples
        --------
        Class 1 is rare and never predicted. If it becomes frequent, sets must contain it:

        >>> p = [[0.9, 0.1]] * 95 + [[0.6, 0.4]] * 5
        >>> sets = ConformalSets(seed=None).fit(p, [0] * 95 + [1] * 5)
        >>> sets.threshold_.round(3).tolist()
        [0.9, 0.9]
        >>> sets.for_shares([0.5, 0.5]).threshold_.round(3).tolist()
        [1.0, 1.0]
        """
        self._check_fitted()
        shares = check_shares(target_shares, "target_shares", self.counts_.size)
        here = self.counts_ > 0
        weight = np.where(shares > 0.0, np.inf, 0.0)
        weight[here] = shares[here] * self.counts_.sum() / self.counts_[here]
        if np.isnan(self.ladder_[here]).any():
            raise errors.not_fitted(
                "these sets have no ladder of quantiles; fit them again to reweight."
            )
        if not (weight[here] > 0.0).any():
            raise errors.range("target_shares are zero for every class with labelled nodes.")
        mass = np.repeat(self.counts_[here] * weight[here] / STEPS, STEPS)
        sets = type(self)(**self.get_params())
        sets.counts_, sets.ladder_ = self.counts_, self.ladder_
        sets.threshold_ = threshold(self.ladder_[here].ravel(), self.level, mass, weight)
        return sets

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
        """Return the parameters and what `predict` and `for_shares` need, as plain JSON values.

        Infinite thresholds and quantiles of classes without nodes are None. In a class of fewer
        than 100 nodes every quantile is the score of one node; drop ``"ladder"`` where that must
        not be disclosed: only `for_shares` needs it.
        """
        self._check_fitted()
        return {
            "schema": SCHEMA,
            **self.get_params(),
            "threshold": [
                value if np.isfinite(value) else None for value in self.threshold_.tolist()
            ],
            "counts": self.counts_.tolist(),
            "ladder": [
                row.tolist() if count else None
                for row, count in zip(self.ladder_, self.counts_, strict=True)
            ],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> ConformalSets:
        """Rebuild sets from `to_dict`; raise if the record is damaged or of another version."""
        if not isinstance(content, Mapping) or content.get("schema") != SCHEMA:
            raise errors.content(f"this is not a {SCHEMA} record; write one with to_dict.")
        try:
            sets = cls(**{name: content[name] for name in cls().get_params()})
            sets.threshold_ = _limits(content["threshold"])
            size = sets.threshold_.size
            sets.counts_ = np.array(
                [check_integer(value, "counts", 0, _MOST_NODES) for value in content["counts"]],
                dtype=np.int64,
            )
            steps = content.get("ladder") or [None] * size
            sets.ladder_ = np.array(
                [[np.nan] * STEPS if row is None else row for row in steps], float
            )
        except (KeyError, TypeError, ValueError) as error:
            reason = str(error).rstrip(".")
            raise errors.content(f"the record of prediction sets is damaged: {reason}.") from error
        if sets.counts_.shape != (size,) or sets.ladder_.shape != (size, STEPS):
            raise errors.content("the record of prediction sets is damaged: its sizes disagree.")
        present = ~np.isnan(sets.ladder_).all(axis=1)
        if not (np.diff(sets.ladder_[present], axis=1) >= 0.0).all():
            raise errors.content(
                "the record of prediction sets is damaged: its ladder does not rise."
            )
        return sets

    def _check_fitted(self) -> None:
        if not hasattr(self, "threshold_"):
            raise errors.not_fitted("these prediction sets have no threshold yet; call fit first.")


def _select(values: ArrayLike, rows: NDArray[np.int64], count: int, name: str) -> NDArray[Any]:
    array = as_array(values, name)
    if array.shape != (count,):
        raise errors.shape(f"{name} must have shape ({count},), one per row, not {array.shape}.")
    return np.asarray(array[rows])


def _limits(values: Any) -> FloatArray:
    limits = np.array([np.inf if value is None else value for value in values], dtype=np.float64)
    if limits.size < 2 or np.isnan(limits).any() or np.isneginf(limits).any():
        raise errors.range("threshold must hold a number or null for each of at least two classes")
    return limits
