r"""The node response: which nodes of a shifted graph deserve more confidence than others.

Learned over the nodes of the atlas's environments. Around the temperature T of the whole graph,

.. math:: \log \frac{T_i}{T} = (w + \Delta\, v)^\top (x_i - \bar x) + c_{\hat y_i} - \bar c

with node signals x (see `node_signals`) in units of their spread at the source, a constant per
predicted class, and :math:`\Delta`, the log-odds of the graph's accuracy relative to the source's.
Weights minimise the negative log-likelihood of the labels under softmax(z_i / T_i), plus a ridge
penalty. Signals are centred in every environment, so that only differences between nodes of one
graph are learned; the level is left to the atlas. The penalty, whether v is used, and whether the
response is used at all are chosen on left-out families of shifts. With each family a fold of the
nodes is left out as well, because all environments contain the same labelled nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.checks import FloatArray
from graphtemper._core.numerics import RANGE, log_odds
from graphtemper._core.reproducible import one_blas_thread, stream
from graphtemper.signals import node_signals
from graphtemper.signals.evidence import Probe
from graphtemper.signals.node_signals import PLAIN_SIGNALS, SIGNALS, Classes
from graphtemper.signals.observation import Observation
from graphtemper.signals.second_opinion import Float32
from graphtemper.temperature.scaling import nearest_temperature

KINDS = {"model": SIGNALS, "logits": PLAIN_SIGNALS}
"""The signals of a response, for targets with a model and for targets with logits alone."""
ROWS_PER_ENVIRONMENT = 120
"""Number of nodes per environment to learn from."""
FOLDS = 4
PENALTIES = (0.01, 0.1, 1.0)
# With more classes than this there are too few nodes of each to learn a constant from.
_MOST_CLASSES = 100
# Signals are clipped at this distance from the source's mean, in its standard deviations.
_CLIP = 6.0
# log(T_i / T) beyond which probabilities are uniform or one-hot anyway.
REACH = 4.0
_LEAST_SCALE = 1e-3
_STEPS = 30


@dataclass(frozen=True, eq=False)
class NodeRows:
    """Some labelled nodes of one environment; never part of a card file.

    ``logits`` are in units of the source temperature. A node is in the same fold in every
    environment.
    """

    signals: Float32
    logits: Float32
    labels: NDArray[np.int64]
    folds: NDArray[np.int64]

    @classmethod
    def draw(
        cls,
        observation: Observation,
        labels: NDArray[np.int64],
        probe: Probe,
        count: int = ROWS_PER_ENVIRONMENT,
    ) -> NodeRows:
        """Measure an observation and draw at most ``count`` of its nodes, with its seed."""
        size = observation.num_nodes
        rows = drawn_rows(observation.seed, size, count)
        return cls(
            signals=node_signals.measure(observation, probe, rows),
            logits=(observation.logits[rows] / probe.temperature).astype(np.float32),
            labels=labels[rows],
            folds=_folds(probe, size)[rows],
        )


def drawn_rows(seed: int, size: int, count: int = ROWS_PER_ENVIRONMENT) -> NDArray[np.int64]:
    """Return the places of the nodes that `NodeRows.draw` takes from ``size`` observed nodes."""
    return np.sort(stream(seed, "node rows").permutation(size)[:count])


def _folds(probe: Probe, size: int) -> NDArray[np.int64]:
    return stream(probe.seed, "node folds").integers(0, FOLDS, size)


@dataclass(frozen=True, eq=False)
class NodeResponse:
    """The fitted response: a few numbers per signal and one per class, nothing about single nodes.

    ``gain`` is the reduction of the negative log-likelihood on left-out families, in nats per node,
    against one temperature for all nodes, and ``error`` its standard error over families. It is the
    best of six choices (three penalties, with and without v), so it is slightly optimistic.
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
        """Whether it was better than one temperature for all on left-out families."""
        return self.gain > 0.0

    def log_temperatures(self, signals: Float32, predicted: Classes, change: float) -> FloatArray:
        r"""Return :math:`\log T_i / T`, (n,), with mean zero.

        ``signals`` are those of `node_signals.measure`; ``change`` is the log-odds of the accuracy
        relative to the source's.
        """
        columns = [SIGNALS.index(name) for name in self.names]
        x = _standardised(signals[:, columns], self.origin, self.scale)
        value = x @ (self.weights + change * self.slopes) + self.classes[predicted]
        return np.asarray(np.clip(value - value.mean(), -REACH, REACH))


def fit(
    source: NodeRows,
    rows: Sequence[NodeRows],
    families: Sequence[frozenset[str]],
    accuracies: Sequence[float],
    accuracy: float,
    names: Sequence[str] = SIGNALS,
    measured: Sequence[str] = SIGNALS,
) -> NodeResponse:
    """Fit the node response to the environments of an atlas.

    Parameters
    ----------
    source
        Nodes of the unshifted source, which give the signals their origin and unit.
    rows, families, accuracies
        Nodes, families of shifts and accuracy of every environment.
    accuracy
        Accuracy of the source.
    names, measured
        The signals to read, and the columns of the rows; an experiment may measure others.
    """
    columns = [list(measured).index(name) for name in names]
    at_source = source.signals[:, columns].astype(np.float64)
    origin = at_source.mean(axis=0)
    scale = np.maximum(at_source.std(axis=0), _LEAST_SCALE)
    changes = [log_odds(value) - log_odds(accuracy) for value in accuracies]
    task = _task(rows, columns, origin, scale, changes, accuracies)
    left_out = _left_out(task, families)
    width, classes = len(columns), np.zeros(task.gaps.shape[1])
    everything = np.arange(task.design.shape[1])
    plain = np.concatenate([everything[:width], everything[2 * width :]])
    best: tuple[FloatArray, FloatArray] | None = None
    with one_blas_thread():
        for used in (plain, everything):
            part = task._replace(design=task.design[:, used])
            for penalty in PENALTIES:
                optimum = _minimum(part, penalty)
                gains = _left_out_gains(part, optimum, penalty, left_out)
                if best is None or gains.mean() > best[1].mean():
                    weights = np.zeros(everything.size)
                    weights[used] = optimum
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
    changes: Sequence[float],
    accuracies: Sequence[float],
) -> _Task:
    designs, gaps, label_gaps = [], [], []
    for item, change, accuracy in zip(rows, changes, accuracies, strict=True):
        logits = item.logits.astype(np.float64)
        x = _standardised(item.signals[:, columns], origin, scale)
        design = np.hstack([x, change * x, _indicators(logits)])
        designs.append(design - design.mean(axis=0))
        # Accuracies are those of a part of the nodes, and may be 1 where others are wrong.
        relative, _ = nearest_temperature(logits, float(np.clip(accuracy, *RANGE)))
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
    """Return indicators of the predicted class, (n, K); (n, 0) if there are too many classes."""
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
    """Minimise the penalised likelihood by Fisher scoring with step halving."""
    weights = np.zeros(task.design.shape[1])
    bend = _bend(task, task.design @ weights)
    loss = float(task.weights @ bend.value)
    for _ in range(_STEPS):
        gradient = task.design.T @ (task.weights * bend.slope) + penalty * weights
        step = np.linalg.solve(_information(task, bend) + penalty * np.eye(weights.size), gradient)
        decrease = float(gradient @ step)
        if decrease < 1e-9:
            break
        for halving in range(12):
            trial = weights - step / 2.0**halving
            bend = _bend(task, task.design @ trial)
            value = float(task.weights @ bend.value) + 0.5 * penalty * float(trial @ trial)
            if value <= loss - 1e-4 * decrease / 2.0**halving:
                break
        else:
            return weights
        weights, loss = trial, value
    return weights


def _information(task: _Task, bend: _Bend) -> FloatArray:
    weighted = task.design * (task.weights * bend.curvature)[:, None]
    return np.asarray(task.design.T @ weighted)


def _left_out(
    task: _Task, families: Sequence[frozenset[str]]
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return, per family, the rows to leave out of the fit and the rows to score."""
    pairs = []
    for index, name in enumerate(sorted(frozenset().union(*families))):
        has = np.array([name in family for family in families])[task.environment]
        fold = task.folds == index % FOLDS
        if has.all() or not (has & fold).any():
            continue
        pairs.append((np.flatnonzero(has | fold), np.flatnonzero(has & fold)))
    return pairs


def _left_out_gains(
    task: _Task,
    weights: FloatArray,
    penalty: float,
    left_out: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> FloatArray:
    """Return the gain of the response on every left-out family, in nats per node.

    The fit without some rows is one Fisher step away from the fit with all of them, where the
    gradient of the remaining rows is minus that of the rows left out.
    """
    bend = _bend(task, task.design @ weights)
    whole = _information(task, bend) + penalty * np.eye(weights.size)
    gains = []
    for excluded, scored in left_out:
        part = _rows(task, excluded)
        lost = _Bend(*(values[excluded] for values in bend))
        slope = part.design.T @ (part.weights * lost.slope)
        # The curvature of the remaining rows is at least the penalty's.
        refitted = weights + np.linalg.solve(whole - _information(part, lost), slope)
        test = _rows(task, scored)
        now, before = (
            _bend(test, test.design @ point).value for point in (refitted, np.zeros_like(weights))
        )
        gains.append(float(test.weights @ (before - now)) / float(test.weights.sum()))
    # With fewer than two families to leave out there is no evidence for a gain.
    return np.array(gains) if len(gains) > 1 else np.zeros(2)


def _rows(task: _Task, rows: NDArray[np.int64]) -> _Task:
    parts: list[Any] = [values[rows] for values in task]
    return _Task(*parts)
