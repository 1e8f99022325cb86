"""A check of calibrators, as scikit-learn's ``check_estimator`` is one of estimators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import FloatArray
from graphtemper.calibrators.base import Calibrator, Granularity, Need
from graphtemper.errors import InputError
from graphtemper.graph.graph import Graph
from graphtemper.theory import csbm

_OVERCONFIDENT = 4.0


def check(calibrator: Calibrator, graph: Graph | None = None, other: Graph | None = None) -> None:
    r"""Raise an error that says what a calibrator does wrong; return None if it keeps the protocol.

    A third of the nodes have trained a model, a third are fitted, and the calibrator is applied to
    this graph and to another one. Tried are: parameters in `get_params` make an equal object;
    probabilities are finite and their rows sum to one, with the predictions of the logits where
    ``preserves_argmax`` says so; a second fit that sees no other labels, and is used on one graph
    first, gives the same bytes on the other; arguments are not written to; an unfitted object,
    logits that are not finite or of other classes, and labels of another length are refused. The
    object itself is not fitted. It runs at its own settings: pass few epochs.

    Parameters
    ----------
    calibrator : Calibrator
        An object of the class to check.
    graph, other : Graph, optional
        Two labelled graphs with the same classes, for a calibrator that holds a predictor of graphs
        of one kind (default: block models of three classes).

    Examples
    --------
    >>> from graphtemper import calibrators, temperature
    >>> calibrators.check(calibrators.TemperatureScaling())
    >>> class Sharpen(calibrators.Calibrator):
    ...     reference = "unpublished"
    ...     preserves_argmax = True
    ...     def _fit(self, inputs, labelled):
    ...         self.power_ = 2.0
    ...     def _transform(self, inputs):
    ...         return temperature.apply(inputs.logits) ** self.power_
    >>> calibrators.check(Sharpen())
    Traceback (most recent call last):
    graphtemper.errors.InputError: Sharpen() gives probabilities whose rows do not sum to one.
    """
    _check_facts(calibrator)
    drawn = partial(csbm.sample, degree=8, homophily=0.75, snr=0.5, num_classes=3, num_features=8)
    graph = graph if graph is not None else drawn(500, seed=0)
    other = other if other is not None else drawn(300, seed=1)
    if graph.labels is None:
        raise errors.no_labels("check takes a labelled graph.")
    predictor = getattr(calibrator, "predictor", None) or _nearest_mean(graph)
    thirds = np.array_split(np.arange(graph.num_nodes), 3)
    logits = np.asarray(predictor(graph), dtype=np.float64)
    given = _Given(calibrator, graph, logits, np.array(graph.labels), thirds[1], thirds[0])
    first = given.fitted(graph, given.labels)
    here = first.transform(given.logits, graph, train_nodes=given.train)
    there_logits = predictor(other)
    there = first.transform(there_logits, other)
    for found, of in ((here, logits), (there, there_logits)):
        _check_probabilities(calibrator, found, of)
    hidden = np.full_like(given.labels, -1)
    visible = np.concatenate(thirds[:2])
    hidden[visible] = given.labels[visible]
    again = given.fitted(graph.replace(labels=None), hidden)
    if again.transform(given.logits, graph, train_nodes=given.train).tobytes() != here.tobytes():
        raise _wrong(
            calibrator, "gives other bytes in a second fit, or reads labels not given to it"
        )
    if again.transform(there_logits, other.replace(labels=None)).tobytes() != there.tobytes():
        raise _wrong(calibrator, "depends on the graph that it was last used on, or on its labels")
    _check_refusals(given, first)


@dataclass(frozen=True)
class _Given:
    """A calibrator, and what it is fitted to."""

    calibrator: Calibrator
    graph: Graph
    logits: NDArray[Any]
    labels: NDArray[Any]
    nodes: NDArray[Any]
    train: NDArray[Any]

    def fresh(self) -> Calibrator:
        return type(self.calibrator)(**self.calibrator.get_params())

    def fitted(self, graph: Graph, labels: Any) -> Calibrator:
        calibrator, logits, before = self.fresh(), self.logits.copy(), labels.copy()
        found = calibrator.fit(logits, labels, graph, self.nodes, train_nodes=self.train)
        if found is not calibrator:
            raise _wrong(calibrator, "does not return itself from fit")
        if not (np.array_equal(logits, self.logits) and np.array_equal(labels, before)):
            raise _wrong(calibrator, "writes to its arguments")
        return calibrator


def _check_facts(calibrator: Calibrator) -> None:
    if not isinstance(calibrator, Calibrator):
        raise errors.wrong_type(f"check takes a Calibrator, not {calibrator!r:.60}.")
    if not set(calibrator.needs) <= set(get_args(Need)):
        raise _wrong(calibrator, f"needs {calibrator.needs}, which are not among {get_args(Need)}")
    if calibrator.granularity not in get_args(Granularity):
        raise _wrong(calibrator, f"has a granularity that is not among {get_args(Granularity)}")
    if not calibrator.reference:
        raise _wrong(calibrator, "does not say where it is published, in reference")
    if repr(type(calibrator)(**calibrator.get_params())) != repr(calibrator):
        raise _wrong(calibrator, "changes its arguments in the constructor")


def _check_probabilities(calibrator: Calibrator, found: FloatArray, logits: Any) -> None:
    if np.shape(found) != np.shape(logits) or found.dtype != np.float64:
        raise _wrong(
            calibrator, f"gives {found.dtype} of shape {np.shape(found)}, not float64 (N, K)"
        )
    if not (np.isfinite(found).all() and (found >= 0).all()):
        raise _wrong(calibrator, "gives numbers that are no probabilities")
    if np.abs(found.sum(axis=1) - 1.0).max() > 1e-9:
        raise _wrong(calibrator, "gives probabilities whose rows do not sum to one")
    if calibrator.preserves_argmax and (found.argmax(axis=1) != np.argmax(logits, axis=1)).any():
        raise _wrong(calibrator, "changes predictions, which preserves_argmax denies")


def _check_refusals(given: _Given, fitted: Calibrator) -> None:
    logits, labels, graph = given.logits, given.labels, given.graph
    spoiled = logits.copy()
    spoiled[7, 1] = np.nan
    wide = np.hstack([logits, logits])
    jobs: dict[str, Callable[[], object]] = {
        "before it is fitted": lambda: given.fresh().transform(logits, graph),
        "for logits of other classes": lambda: fitted.transform(wide, graph),
        "for logits that are not finite": lambda: fitted.transform(spoiled, graph),
        "for logits of another graph": lambda: fitted.transform(logits[:-1], graph),
        "fitted to logits that are not finite": lambda: given.fresh().fit(spoiled, labels, graph),
        "fitted to labels of another length": lambda: given.fresh().fit(logits, labels[:9], graph),
        "fitted to text": lambda: given.fresh().fit(logits, labels.astype(str), graph),
        "fitted to another class": lambda: given.fresh().fit(
            logits, np.full_like(labels, logits.shape[1]), graph
        ),
    }
    if "graph" in given.calibrator.needs:
        jobs["without the graph that it needs"] = lambda: fitted.transform(logits)
    for when, job in jobs.items():
        try:
            job()
        except InputError:
            continue
        raise _wrong(given.calibrator, f"gives no InputError {when}")


def _nearest_mean(graph: Graph) -> Callable[[Graph], FloatArray]:
    """Return a far too confident classifier of block models: logits by class means of features."""
    features = np.asarray(graph.features, dtype=np.float64)
    means = np.array([features[graph.labels == k].mean(axis=0) for k in range(graph.num_classes)])

    def logits(target: Graph) -> FloatArray:
        squares = ((np.asarray(target.features)[:, None, :] - means) ** 2).sum(axis=2)
        return np.asarray(-_OVERCONFIDENT * squares / 2.0)

    return logits


def _wrong(calibrator: Calibrator, what: str) -> InputError:
    return InputError(f"{calibrator!r} {what}.")
