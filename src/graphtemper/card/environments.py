"""Labelled environments of a card: what other places and periods taught about natural shift.

A point of the atlas is the source under a shift that was drawn; an `Environment` is another
labelled graph, or a part of one: last month, another country, an earlier release. It leaves a few
aggregates in the card, and no row that belongs to a node. How they set the accuracy expected in
the next environment is in `graphtemper.card.random_effects`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors, temperature
from graphtemper._core.checks import FloatArray
from graphtemper._core.numerics import log_odds, log_odds_variance, to_share
from graphtemper._core.printable import natural_key
from graphtemper.card import earlier, suspicions
from graphtemper.card.class_profile import FEWEST, fit_biases
from graphtemper.card.graph_types import GraphTypes
from graphtemper.card.privacy import effective_nodes, private_labels
from graphtemper.card.random_effects import Environments, distances
from graphtemper.card.response import Response
from graphtemper.errors import InputError
from graphtemper.graph.checks import select_nodes
from graphtemper.graph.graph import Graph, Nodes, select_labelled
from graphtemper.models.predictor import Predictor
from graphtemper.signals import evidence
from graphtemper.signals.drift import column_sketch
from graphtemper.signals.evidence import Probe, Reference
from graphtemper.signals.observation import Observation

FEWEST_NODES = 10
"""Fewer labelled nodes than this say nothing about an environment."""
MOST_ENVIRONMENTS = 40
"""A card that learns from more labelled environments than this forgets the oldest."""
SKETCH_SIZE = 32
"""Random combinations of feature means that a card keeps of an environment."""
FARTHEST = 1e3
"""Combinations of feature means count as no farther from the source's than this."""
When = str | float
LabelledGraph = Graph | tuple[Graph, Nodes]
"""A labelled environment: a graph, or a graph and some of its nodes."""
# Where every prediction is right or wrong, the likeliest temperature is 0 or infinite.
_TEMPERATURES = (1e-3, 1e3)


@dataclass(frozen=True, eq=False)
class Environment:
    """Aggregates of one labelled environment.

    Attributes
    ----------
    name, when
        What people call it; its place in time, a number or a string that sorts by time such as
        ``"2026-05"``, or None.
    num_nodes
        Number of labelled nodes.
    accuracy, confidence
        Accuracy, and mean confidence at the source temperature.
    temperature
        The temperature that minimises the NLL of the labels, in units of the source temperature.
    signals
        The signals, measured without labels and read against the card.
    sketch
        Random combinations of the means of the feature columns.
    shares, biases : (K,) arrays
        Class shares, and the biases that make the probabilities of each class right there. Classes
        with few members share theirs.
    second_agreement
        How often the model and the second opinion agree; None without one.
    earlier : (p, p + 1) array or None
        Moments of a regression on earlier labels (`graphtemper.card.earlier`), if there were any.
    """

    name: str
    when: When | None
    num_nodes: int
    accuracy: float
    confidence: float
    temperature: float
    signals: dict[str, float]
    sketch: tuple[float, ...]
    shares: FloatArray
    biases: FloatArray
    second_agreement: float | None = None
    earlier: FloatArray | None = None

    @property
    def log_shares(self) -> FloatArray:
        """Logarithms of the class shares, with half a node added to every class."""
        members = self.shares * self.num_nodes + 0.5
        return np.asarray(np.log(members / members.sum()))

    @property
    def truth(self) -> float:
        """Log-odds of the accuracy, with half a node added to the right and the wrong ones."""
        right = self.accuracy * self.num_nodes
        return float(np.log((right + 0.5) / (self.num_nodes - right + 0.5)))

    @property
    def variance(self) -> float:
        """Sampling variance of `truth`."""
        return float(log_odds_variance(to_share(self.truth), self.num_nodes))

    @property
    def gap(self) -> float:
        """Log-odds of the accuracy minus those of mean confidence; negative if over-confident."""
        return self.truth - log_odds(self.confidence)


def measure(
    probe: Probe,
    reference: Reference,
    predictor: Predictor,
    graph: Graph,
    nodes: Nodes,
    name: str,
    when: When | None,
    privacy: float | None = None,
    old: ArrayLike | None = None,
) -> Environment:
    """Run a frozen model in a labelled environment and keep aggregates.

    ``probe``, ``reference`` and ``privacy`` are those of the card. With an epsilon, labels are
    randomised first: they may be those of the source. ``old`` are earlier labels of the same nodes.
    """
    if not callable(predictor):
        raise errors.missing(
            "an environment is measured with the model; pass it in place of logits."
        )
    classes = reference.moments.shares.size
    rows, labels = check(classes, graph, nodes, name)
    if old is not None:
        old = earlier.checked(old, graph.num_nodes, classes)[rows]
        if privacy is not None:
            raise errors.conflict(
                "earlier labels would not be private; learn from them with a card without privacy."
            )
    observation = Observation(predictor, graph, rows, seed=probe.seed)
    suspicions.warn(_suspicions(observation, labels, graph.train_masks, reference.accuracy, name))
    if privacy is not None:
        assert graph.labels is not None  # `check` refuses a graph without
        labels = private_labels(observation.all_logits, graph.labels, rows, privacy)[rows]
    logits = observation.logits / probe.temperature
    measured = evidence.measure(observation, probe)
    optimum = temperature.solve(logits, labels).temperature
    accuracy, size = float((observation.predictions == labels).mean()), int(rows.size)
    sketch = column_sketch(observation.own_moments[0], probe.column_std, SKETCH_SIZE)
    shares = np.bincount(labels, minlength=classes) / size
    biases = fit_biases(logits, labels)[1]
    small = shares * size < FEWEST
    if small.any():
        shares[small], biases[small] = shares[small].mean(), biases[small].mean()
    return Environment(
        name=name,
        when=when,
        num_nodes=effective_nodes(size, accuracy, classes, privacy),
        accuracy=accuracy,
        confidence=measured.confidence,
        temperature=float(np.clip(optimum, *_TEMPERATURES)),
        signals=evidence.read(measured, reference, 1.0 / size),
        sketch=tuple(sketch.clip(-FARTHEST, FARTHEST).tolist()),
        shares=shares,
        biases=biases,
        second_agreement=measured.second_agreement,
        earlier=None
        if old is None
        else earlier.moments(logits, old, observation.predictions == labels),
    )


def _suspicions(
    observation: Observation,
    labels: NDArray[np.int64],
    masks: NDArray[np.bool_] | None,
    accuracy: float,
    name: str,
) -> Iterator[str]:
    """Say what does not look like labelled nodes that the model was not trained on.

    A training mask alone is no sign: it may be that of another model. The model's own training
    nodes are those where it is right more often than at the others, or than at the source.
    """
    right, where = observation.predictions == labels, f"environment {name!r}"
    yield from suspicions.of_labels(observation.predictions, labels, observation.num_classes, where)
    if masks is None or len(masks) != 1:
        return
    here, classes = masks[0][observation.nodes], labels
    trained = right[here]
    if here.all():  # then with the source, as if of as many nodes
        right = np.append(right, np.arange(right.size) < accuracy * right.size)
        here, classes = np.arange(right.size) < here.size, np.zeros(right.size, np.int64)
    if suspicions.much_better(right, classes, here):
        yield (
            f"environment {name!r} contains {trained.size} nodes of its graph's training mask, and "
            f"the model is right at {trained.mean():.1%} of them; if it was trained on them, leave "
            "them out: there it looks better than elsewhere."
        )


def check(
    num_classes: int, graph: Graph, nodes: Nodes, name: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the labelled nodes that a card can learn from, and their labels."""
    rows, labels = select_labelled(graph, nodes)
    if rows.size < FEWEST_NODES:
        raise errors.too_few(
            f"environment {name!r} has {rows.size} labelled nodes; at least {FEWEST_NODES} are "
            "needed to learn from it."
        )
    if np.unique(rows).size < rows.size:
        raise errors.repeated(f"environment {name!r} lists a node twice; list each node once.")
    unknown = labels[labels >= num_classes]
    if unknown.size:
        raise errors.range(
            f"environment {name!r} has labels of class {unknown[0]} but the card is for "
            f"{num_classes} classes; number its classes as at the source."
        )
    return rows, labels


def checked_environments(
    environments: Sequence[LabelledGraph], source: Graph, unread: Collection[str]
) -> list[tuple[Graph, Nodes]]:
    """Return labelled environments as pairs, or refuse those that the card could not learn from."""
    pairs: list[tuple[Graph, Nodes]] = []
    for number, item in enumerate(environments, start=1):
        graph, nodes = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
        if not isinstance(graph, Graph):
            raise errors.wrong_type(
                f"environment {number} must be a Graph or a pair (graph, nodes), not "
                f"{type(item).__name__}."
            )
        if graph.num_features != source.num_features:
            raise errors.other_features(
                f"environment {number} has {graph.num_features} feature columns but the source has "
                f"{source.num_features}; use the same feature space."
            )
        GraphTypes.of(source).check(graph, unread)
        pairs.append((graph, nodes))
    return pairs


def check_disjoint(
    source: Graph, rows: NDArray[np.int64], graph: Graph, nodes: Nodes, number: int
) -> None:
    """Refuse an environment with nodes that the card itself is built from."""
    if graph.num_nodes != source.num_nodes or not np.array_equal(graph.edges, source.edges):
        return
    gap = graph.features - source.features
    if gap.any() if isinstance(gap, np.ndarray) else gap.nnz:
        return
    common = np.intersect1d(rows, select_nodes(nodes, graph.num_nodes, graph.classified))
    if common.size:
        raise errors.foreign(
            f"environment {number} contains {common.size} of the nodes that the card itself is "
            "built from; choose other nodes."
        )


def free_name(name: str, known: Sequence[Environment]) -> str:
    """Return a name that no known environment has, with a number if it is taken."""
    taken = {item.name for item in known}
    free = (f"{name} ({number})" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(one for one in free if one not in taken)


def checked_when(when: object) -> When | None:
    """Return a place in time as a string or a finite number.

    Examples
    --------
    >>> import datetime
    >>> checked_when(datetime.date(2026, 5, 1)), checked_when(3), checked_when(None)
    ('2026-05-01', 3.0, None)
    """
    if when is None or (isinstance(when, str) and 0 < len(when) <= 100):
        return when
    if hasattr(when, "isoformat"):
        return str(when.isoformat())
    if isinstance(when, np.datetime64):
        return str(when)
    if isinstance(when, Real) and not isinstance(when, bool) and np.isfinite(float(when)):
        return float(when)
    raise errors.wrong_type(f"when must be a date, a number or a short string, not {when!r:.60}.")


def added(known: Sequence[Environment], new: Environment) -> tuple[Environment, ...]:
    """Return the environments with one more, in order of time where there is one."""
    for item in known:
        if item.name == new.name:
            raise errors.repeated(
                f"the card already has an environment {new.name!r}; give this one another name."
            )
        if _same(item, new):
            raise errors.repeated(
                f"environment {new.name!r} has the same nodes and labels as {item.name!r}, which "
                "the card already has; learn each one once."
            )
        both = item.when is not None and new.when is not None
        if both and type(item.when) is not type(new.when):
            raise InputError(
                f"environment {item.name!r} has when={item.when!r} but {new.name!r} has "
                f"when={new.when!r}; give all of them the same kind of time."
            )
    return in_order((*known, new))


def _same(one: Environment, other: Environment) -> bool:
    """Return whether two environments agree up to the digits that a card holds."""
    gaps = [one.signals[name] - other.signals[name] for name in one.signals]
    close = max(map(abs, [one.accuracy - other.accuracy, *gaps])) < 1e-5
    return one.num_nodes == other.num_nodes and close


def in_order(environments: Sequence[Environment]) -> tuple[Environment, ...]:
    """Return environments from the oldest to the newest; those without a time come first.

    Digits in strings count as numbers: "2020-9" is before "2020-10".
    """

    def place(item: Environment) -> tuple[bool, float, list[tuple[int, str]]]:
        if isinstance(item.when, str):
            return True, 0.0, natural_key(item.when)
        return item.when is not None, item.when or 0.0, []

    return tuple(sorted(environments, key=place))


def as_arrays(
    environments: Sequence[Environment],
    estimates: FloatArray,
    response: Response,
    signals: dict[str, float],
    sketch: Sequence[float] | None,
) -> Environments:
    """Return environments as arrays, with label-free estimates of the log-odds of accuracy (m, 2).

    ``signals`` and ``sketch`` are those of a new environment, to which the distances are measured:
    by signals, by feature means, and by steps in time where there is an order.
    """
    rows = [*(item.signals for item in environments), signals]
    views = [np.array([response.coordinates(row) for row in rows])]
    if sketch is not None:
        views.append(np.array([*(item.sketch for item in environments), sketch]))
    if environments[-1].when is not None:
        views.append(_steps(environments)[:, None])
    return Environments(
        truth=np.array([item.truth for item in environments]),
        variance=np.array([item.variance for item in environments]),
        estimates=estimates,
        distances=distances(views),
    )


def _steps(environments: Sequence[Environment]) -> FloatArray:
    """Return the places in time of environments in order, and of a new one after all of them.

    Environments of the same time have the same place; those without a time are the oldest.
    """
    times = [item.when for item in environments]
    moves = [one != other for one, other in pairwise(times)]
    return np.cumsum([0.0, *moves, 1.0])
