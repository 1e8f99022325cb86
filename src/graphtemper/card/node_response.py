r"""The node response: which nodes of a shifted graph deserve more, and which less, confidence.

Learned over the nodes of the atlas's environments. Around the temperature T of the whole graph,

.. math:: \log \frac{T_i}{T} = (w + \Delta\, v)^\top (x_i - \bar x) + c_{\hat y_i} - \bar c

with node signals x (see `node_signals`) in units of their spread at the source, a number for the
predicted class, and :math:`\Delta`, the log-odds of the graph's accuracy against the source's.
Weights minimise the negative log-likelihood of the labels, softmax(z_i / T_i), plus a ridge.
Signals are centred in every environment, so that only differences between nodes of one graph are
learned and the level is left to the atlas. The penalty, whether v is used, and whether any of it
is, are settled by leaving out whole families of shifts, and with each of them a fold of the nodes:
all environments show the same labelled nodes, and what is only true of those is not worth
carrying.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper._core.log_odds import log_odds
from graphtemper._core.random_streams import stream
from graphtemper._core.threads import one_blas_thread
from graphtemper.signals import node_signals
from graphtemper.signals.evidence import Probe
from graphtemper.signals.node_signals import PLAIN_SIGNALS, SIGNALS, Classes, Float32
from graphtemper.signals.observation import Observation
from graphtemper.temperature.matching import nearest_temperature

KINDS = {"model": SIGNALS, "logits": PLAIN_SIGNALS}
"""What a response may read, by whether the model can be run."""
KEPT_NODES = 120
"""How many nodes of an environment are learned from."""
FOLDS = 4
PENALTIES = (0.01, 0.1, 1.0)
# With more classes than this there are too few nodes of each to learn a number from.
_MOST_CLASSES = 100
# Signals further from the source's mean, in its standard deviations, are not told apart.
_CLIP = 6.0
# log(T_i / T) beyond which probabilities are uniform or one-hot anyway.
REACH = 4.0
_LEAST_SCALE = 1e-3
_STEPS = 30


@dataclass(frozen=True, eq=False)
class NodeRows:
    """Some labelled nodes of one environment, in memory only; never part of a card.

    ``logits`` are in units of the source temperature; ``folds`` belong to the nodes, so that a
    node is in the same fold in every environment.
    """

    signals: Float32
    logits: Float32
    labels: NDArray[np.int64]
    folds: NDArray[np.int64]

    @classmethod
    def draw(
        cls, seen: Observation, labels: NDArray[np.int64], probe: Probe, count: int = KEPT_NODES
    ) -> NodeRows:
        """Measure an observation and keep at most ``count`` of its nodes, drawn with its seed."""
        size = seen.num_nodes
        kept = np.sort(stream(seen.seed, "node rows").permutation(size)[:count])
        folds = stream(probe.seed, "node folds").integers(0, FOLDS, size)
        return cls(
            signals=node_signals.measure(seen, probe)[kept],
            logits=seen.logits[kept].astype(np.float32),
            labels=labels[kept],
            folds=folds[kept],
        )


@dataclass(frozen=True, eq=False)
class NodeResponse:
    """What was learned: a few numbers a signal and one a class, nothing that belongs to a node.

    ``gain`` is the mean negative log-likelihood, in nats a node, saved on left-out families against
    one temperature for all nodes, and ``error`` its standard error over families. It is the best of
    six choices (three penalties, with or without v), so it is a little too good.
    """

    names: tuple[str, ...]
    origin: FloatArray
    scale: FloatArray
    weights: FloatArray
    slopes: FloatArray
    classes: FloatArray
    gain: float
    error: float

    @property
    def helps(self) -> bool:
        """Whether it beat one temperature for all on left-out families."""
        return self.gain > 0.0

    @property
    def in_words(self) -> str:
        """What it is worth, for people."""
        if self.helps:
            return f"saves {self.gain:.2g} +- {self.error:.1g} nats a node on left-out families"
        return "no better than one for all on left-out families, so not used"

    def log_temperatures(self, signals: Float32, predicted: Classes, moved: float) -> FloatArray:
        r"""Return :math:`\log T_i / T`, (n,), with mean zero.

        ``signals`` are those of `node_signals.measure`, ``moved`` is the log-odds of accuracy
        against the source's.
        """
        columns = [SIGNALS.index(name) for name in self.names]
        x = _standardised(signals[:, columns], self.origin, self.scale)
        value = x @ (self.weights + moved * self.slopes) + self.classes[predicted]
        return np.asarray(np.clip(value - value.mean(), -REACH, REACH))


def fit(
    source: NodeRows,
    rows: Sequence[NodeRows],
    families: Sequence[frozenset[str]],
    accuracies: Sequence[float],
    accuracy: float,
    names: Sequence[str] = SIGNALS,
) -> NodeResponse:
    """Fit the node response to the environments of an atlas.

    Parameters
    ----------
    source
        Nodes of the source itself: where signals have their origin and unit.
    rows, families, accuracies
        Nodes, families of shifts and accuracy of every environment.
    accuracy
        The source's.
    names
        The signals to read.
    """
    columns = [SIGNALS.index(name) for name in names]
    own = source.signals[:, columns].astype(np.float64)
    origin, scale = own.mean(axis=0), np.maximum(own.std(axis=0), _LEAST_SCALE)
    moved = [log_odds(value) - log_odds(accuracy) for value in accuracies]
    task = _task(rows, columns, origin, scale, moved, accuracies)
    out = _left_out(task, families)
    width, classes = len(columns), np.zeros(task.gaps.shape[1])
    everything = np.arange(task.design.shape[1])
    plain = np.concatenate([everything[:width], everything[2 * width :]])
    best: tuple[FloatArray, FloatArray] | None = None
    with one_blas_thread():
        for used in (plain, everything):
            part = task._replace(design=task.design[:, used])
            for penalty in PENALTIES:
                found = _minimum(part, penalty)
                gains = _left_out_gains(part, found, penalty, out)
                if best is None or gains.mean() > best[1].mean():
                    weights = np.zeros(everything.size)
                    weights[used] = found
                    best = weights, gains
    assert best is not None
    weights, gains = best
    classes[: weights.size - 2 * width] = weights[2 * width :]
    return NodeResponse(
        names=tuple(names),
        origin=origin,
        scale=scale,
        weights=weights[:width],
        slopes=weights[width : 2 * width],
        classes=classes,
        gain=float(gains.mean()),
        error=float(gains.std(ddof=1) / np.sqrt(gains.size)),
    )


class _Task(NamedTuple):
    """All rows of all environments: signals, gaps z - max z at the environment's temperature."""

    design: FloatArray
    gaps: FloatArray
    label_gaps: FloatArray
    weights: FloatArray
    environment: NDArray[np.int64]
    folds: NDArray[np.int64]


def _task(
    rows: Sequence[NodeRows],
    columns: Sequence[int],
    origin: FloatArray,
    scale: FloatArray,
    moved: Sequence[float],
    accuracies: Sequence[float],
) -> _Task:
    designs, gaps, label_gaps = [], [], []
    for item, change, accuracy in zip(rows, moved, accuracies, strict=True):
        logits = item.logits.astype(np.float64)
        x = _standardised(item.signals[:, columns], origin, scale)
        design = np.hstack([x, change * x, _indicators(logits)])
        designs.append(design - design.mean(axis=0))
        relative, _ = nearest_temperature(logits, accuracy)
        gap = (logits - logits.max(axis=1, keepdims=True)) / relative
        gaps.append(gap)
        label_gaps.append(gap[np.arange(len(gap)), item.labels])
    sizes = np.array([len(item.labels) for item in rows])
    return _Task(
        design=np.vstack(designs),
        gaps=np.vstack(gaps),
        label_gaps=np.concatenate(label_gaps),
        weights=np.repeat(1.0 / (sizes * sizes.size), sizes),
        environment=np.repeat(np.arange(sizes.size), sizes),
        folds=np.concatenate([item.folds for item in rows]),
    )


def _standardised(signals: Float32, origin: FloatArray, scale: FloatArray) -> FloatArray:
    return np.asarray(np.clip((signals - origin) / scale, -_CLIP, _CLIP))


def _indicators(logits: FloatArray) -> FloatArray:
    """Return which class is predicted, (n, K); no columns where there are too many classes."""
    classes = logits.shape[1]
    if classes > _MOST_CLASSES:
        return np.zeros((len(logits), 0))
    return np.asarray(np.eye(classes)[logits.argmax(axis=1)])


class _Bend(NamedTuple):
    """Each row's negative log-likelihood as a function of log T_i, with slope and curvature."""

    value: FloatArray
    slope: FloatArray
    curvature: FloatArray


def _bend(task: _Task, log_temperature: FloatArray) -> _Bend:
    r"""Differentiate :math:`\log\sum_j e^{\beta d_j} - \beta d_y` with beta = exp(-log T).

    The curvature is its expectation over labels drawn from the model, which is never negative.
    """
    beta = np.exp(-np.clip(log_temperature, -REACH, REACH))
    weights = np.exp(task.gaps * beta[:, None])
    total = weights.sum(axis=1)
    mean = (weights * task.gaps).sum(axis=1) / total
    square = (weights * task.gaps**2).sum(axis=1) / total
    return _Bend(
        value=np.log(total) - beta * task.label_gaps,
        slope=-beta * (mean - task.label_gaps),
        curvature=beta**2 * np.maximum(square - mean**2, 0.0),
    )


def _minimum(task: _Task, penalty: float) -> FloatArray:
    """Minimise the penalised likelihood by Fisher scoring with halved steps."""
    found = np.zeros(task.design.shape[1])
    bend = _bend(task, task.design @ found)
    loss = float(task.weights @ bend.value)
    for _ in range(_STEPS):
        gradient = task.design.T @ (task.weights * bend.slope) + penalty * found
        step = np.linalg.solve(_information(task, bend) + penalty * np.eye(found.size), gradient)
        decrease = float(gradient @ step)
        if decrease < 1e-9:
            break
        for halving in range(12):
            trial = found - step / 2.0**halving
            bend = _bend(task, task.design @ trial)
            value = float(task.weights @ bend.value) + 0.5 * penalty * float(trial @ trial)
            if value <= loss - 1e-4 * decrease / 2.0**halving:
                break
        else:
            return found
        found, loss = trial, value
    return found


def _information(task: _Task, bend: _Bend) -> FloatArray:
    weighted = task.design * (task.weights * bend.curvature)[:, None]
    return np.asarray(task.design.T @ weighted)


def _left_out(
    task: _Task, families: Sequence[frozenset[str]]
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return, for each family, the rows it must not be learned from and the rows to judge by."""
    found = []
    for index, name in enumerate(sorted(frozenset().union(*families))):
        has = np.array([name in family for family in families])[task.environment]
        fold = task.folds == index % FOLDS
        if has.all() or not (has & fold).any():
            continue
        found.append((np.flatnonzero(has | fold), np.flatnonzero(has & fold)))
    return found


def _left_out_gains(
    task: _Task,
    found: FloatArray,
    penalty: float,
    out: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> FloatArray:
    """Return what the response saves on every left-out family, in nats a node.

    The fit without some rows is one Fisher step away from the fit with all of them: at that fit
    the gradient of what stays is minus that of what goes.
    """
    bend = _bend(task, task.design @ found)
    whole = _information(task, bend) + penalty * np.eye(found.size)
    gains = []
    for gone, judged in out:
        part = _rows(task, gone)
        lost = _Bend(*(values[gone] for values in bend))
        slope = part.design.T @ (part.weights * lost.slope)
        # What is left keeps at least the penalty's curvature.
        thinner = found + np.linalg.solve(whole - _information(part, lost), slope)
        test = _rows(task, judged)
        now, before = (
            _bend(test, test.design @ weights).value for weights in (thinner, np.zeros_like(found))
        )
        gains.append(float(test.weights @ (before - now)) / float(test.weights.sum()))
    # Without two families to leave out nothing has been shown.
    return np.array(gains) if len(gains) > 1 else np.zeros(2)


def _rows(task: _Task, rows: NDArray[np.int64]) -> _Task:
    return _Task(
        design=task.design[rows],
        gaps=task.gaps[rows],
        label_gaps=task.label_gaps[rows],
        weights=task.weights[rows],
        environment=task.environment[rows],
        folds=task.folds[rows],
    )
