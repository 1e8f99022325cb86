"""Labelled environments in a card: what other places and periods taught about natural shift.

An environment of the atlas is the source under a shift that was drawn; a `LabelledEnvironment` is
another labelled graph, or a part of one: last month, another country, an earlier release. It leaves
a few aggregates in the card, and no row that belongs to a node. How they set the accuracy expected
in the next environment is in `graphtemper.card.random_effects`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from graphtemper import temperature
from graphtemper._core.arrays import FloatArray
from graphtemper._core.numerics import log_odds
from graphtemper._core.printable import natural_key
from graphtemper.card.random_effects import Environments, distances, sampling_variance
from graphtemper.card.response import Response
from graphtemper.card.rounding import coarse_log, coarse_share, coarse_signals
from graphtemper.errors import GraphTemperWarning, InputError
from graphtemper.graph.graph import Graph, Nodes, select_labelled
from graphtemper.models.predictor import Predictor
from graphtemper.signals import evidence
from graphtemper.signals.evidence import Probe, Reference
from graphtemper.signals.observation import Observation
from graphtemper.signals.share_drift import column_sketch

FEWEST_NODES = 10
"""Fewer labelled nodes than this say nothing about an environment."""
MOST_ENVIRONMENTS = 40
"""When a card has more labelled environments than this, the two oldest are merged into one."""
SKETCH_SIZE = 32
"""Most random combinations of feature means that a card keeps of an environment."""
FARTHEST = 1e3
"""Combinations of feature means count as no farther from the source's than this."""
When = str | float
# Where every prediction is right or wrong, the likeliest temperature is 0 or infinite.
_TEMPERATURES = (1e-3, 1e3)


@dataclass(frozen=True, eq=False)
class LabelledEnvironment:
    """Aggregates of one labelled environment, or of several that were merged.

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
    count
        Number of environments that were merged into this one.
    sketch
        Random combinations of the means of the feature columns, with noise; None if unknown.
    """

    name: str
    when: When | None
    num_nodes: int
    accuracy: float
    confidence: float
    temperature: float
    signals: dict[str, float]
    count: int = 1
    sketch: tuple[float, ...] | None = None

    @property
    def truth(self) -> float:
        """Log-odds of the accuracy, with half a node added to the right and the wrong ones."""
        right = self.accuracy * self.num_nodes
        return float(np.log((right + 0.5) / (self.num_nodes - right + 0.5)))

    @property
    def variance(self) -> float:
        """Sampling variance of `truth`."""
        return sampling_variance(self.truth, self.num_nodes)

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
) -> LabelledEnvironment:
    """Run a frozen model in a labelled environment and keep aggregates.

    ``probe`` and ``reference`` are those of the card, ``nodes`` labelled nodes of the graph. The
    sketch has no noise yet.
    """
    if not callable(predictor):
        raise InputError("an environment is measured with the model; pass it in place of logits.")
    rows, labels = select_labelled(graph, nodes)
    check(reference.moments.shares.size, graph, rows, labels, name)
    observation = Observation(predictor, graph, rows, seed=probe.seed).at(probe.temperature)
    measured = evidence.measure(observation, probe)
    optimum = temperature.solve(observation.logits, labels).temperature
    # Rounded to half a standard error (see `graphtemper.card.privacy`): few environments may set a
    # whole interval, and coarser ones would look too much alike.
    size = 4 * rows.size
    return LabelledEnvironment(
        name=name,
        when=when,
        num_nodes=int(rows.size),
        accuracy=float(coarse_share((observation.predictions == labels).mean(), size)),
        confidence=float(coarse_share(measured.confidence, size)),
        temperature=coarse_log(float(np.clip(optimum, *_TEMPERATURES)), size),
        signals=coarse_signals(evidence.read(measured, reference), size),
        sketch=tuple(column_sketch(observation.own_moments[0], probe.column_std).tolist()),
    )


def check(
    num_classes: int,
    graph: Graph,
    rows: NDArray[np.int64],
    labels: NDArray[np.int64],
    name: str,
) -> None:
    """Refuse an environment that the card cannot learn from; warn about nodes of the training."""
    if rows.size < FEWEST_NODES:
        raise InputError(
            f"environment {name!r} has {rows.size} labelled nodes; at least {FEWEST_NODES} are "
            "needed to learn from it."
        )
    if np.unique(rows).size < rows.size:
        raise InputError(f"environment {name!r} lists a node twice; list each node once.")
    unknown = labels[labels >= num_classes]
    if unknown.size:
        raise InputError(
            f"environment {name!r} has labels of class {unknown[0]} but the card is for "
            f"{num_classes} classes; number its classes as at the source."
        )
    if graph.train_masks is not None and len(graph.train_masks) == 1:
        trained = int(graph.train_masks[0][rows].sum())
        if trained:
            warnings.warn(
                f"environment {name!r} contains {trained} nodes of its graph's training mask; "
                "where the model was trained it looks better than elsewhere, so leave them out.",
                GraphTemperWarning,
                stacklevel=2,
            )


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
    raise InputError(f"when must be a date, a number or a short string, not {when!r:.60}.")


def added(
    known: Sequence[LabelledEnvironment], new: LabelledEnvironment
) -> tuple[LabelledEnvironment, ...]:
    """Return the environments with one more, in order of time where there is one."""
    for item in known:
        if item.name == new.name:
            raise InputError(
                f"the card already has an environment {new.name!r}; give this one another name."
            )
        if item.signals == new.signals and item.accuracy == new.accuracy:
            raise InputError(
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


def in_order(environments: Sequence[LabelledEnvironment]) -> tuple[LabelledEnvironment, ...]:
    """Return environments from the oldest to the newest; those without a time come first.

    Digits in strings count as numbers: "2020-9" is before "2020-10".
    """
    timed = [item for item in environments if item.when is not None]
    untimed = [item for item in environments if item.when is None]
    return (*untimed, *sorted(timed, key=lambda item: _in_time(item.when)))


def _in_time(when: When | None) -> tuple[float, list[tuple[int, str]]]:
    return (0.0, natural_key(when)) if isinstance(when, str) else (when or 0.0, [])


def merge_oldest(
    environments: Sequence[LabelledEnvironment],
) -> tuple[LabelledEnvironment, ...]:
    """Return the environments with the two oldest merged into one.

    Its log-odds are the averages over the environments that it stands for, so that its gap is their
    mean gap.

    Examples
    --------
    >>> from dataclasses import replace
    >>> one = LabelledEnvironment("a", 1.0, 100, 0.8, 0.9, 1.5, {"confidence": 2.0})
    >>> two = replace(one, name="b", when=2.0, num_nodes=300, signals={"confidence": 1.0})
    >>> merged, last = merge_oldest((one, two, replace(one, name="c", when=3.0)))
    >>> merged.name, merged.count, merged.num_nodes, merged.signals
    ('a, b', 2, 400, {'confidence': 1.5})
    """
    first, second, *rest = environments
    count = first.count + second.count
    share = first.count / count

    def mean(one: float, other: float) -> float:
        return share * one + (1.0 - share) * other

    def mean_fraction(one: float, other: float) -> float:
        return float(1.0 / (1.0 + np.exp(-mean(log_odds(one), log_odds(other)))))

    name = f"{count} merged environments" if count > 2 else f"{first.name}, {second.name}"
    merged = LabelledEnvironment(
        name=name[:200],
        when=second.when,
        num_nodes=first.num_nodes + second.num_nodes,
        accuracy=mean_fraction(first.accuracy, second.accuracy),
        confidence=mean_fraction(first.confidence, second.confidence),
        temperature=float(np.exp(mean(np.log(first.temperature), np.log(second.temperature)))),
        signals={key: mean(value, second.signals[key]) for key, value in first.signals.items()},
        count=count,
        sketch=_mean_sketch(first.sketch, second.sketch, share),
    )
    return (merged, *rest)


def _mean_sketch(
    one: tuple[float, ...] | None, other: tuple[float, ...] | None, share: float
) -> tuple[float, ...] | None:
    if one is None or other is None:
        return None
    pairs = zip(one, other, strict=False)  # the shorter one decides
    return tuple(share * first + (1.0 - share) * second for first, second in pairs)


def as_arrays(
    environments: Sequence[LabelledEnvironment],
    response: Response,
    accuracy: float,
    signals: dict[str, float],
    sketch: Sequence[float] | None,
) -> Environments:
    """Return environments as arrays, with the atlas's estimate in each.

    ``accuracy`` is the source's; ``signals`` and ``sketch`` are those of a new environment, to
    which the distances are measured: by signals, by feature means, and by steps in time where there
    is an order.
    """
    start = log_odds(accuracy)
    estimates = [
        (log_odds(item.confidence), start + response.predict(item.signals)[0])
        for item in environments
    ]
    rows = [*(item.signals for item in environments), signals]
    views = [np.array([response.coordinates(row) for row in rows])]
    sketches = [one for one in (*(item.sketch for item in environments), sketch) if one is not None]
    if len(sketches) == len(rows):
        size = min(len(one) for one in sketches)
        views.append(np.array([one[:size] for one in sketches]))
    ordered = environments[-1].when is not None
    if ordered:
        views.append(_steps(environments)[:, None])
    return Environments(
        truth=np.array([item.truth for item in environments]),
        variance=np.array([item.variance for item in environments]),
        estimates=np.array(estimates),
        distances=distances(views),
        ordered=ordered,
    )


def _steps(environments: Sequence[LabelledEnvironment]) -> FloatArray:
    """Return the places in time of environments in order, and of a new one after all of them.

    Environments of the same time have the same place; those without a time are the oldest.
    """
    times = [item.when for item in environments]
    moves = [one != other for one, other in pairwise(times)]
    return np.cumsum([0.0, *moves, 1.0])
