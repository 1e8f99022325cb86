"""The main job: a frozen model, an unlabelled graph and a source card give honest probabilities.

Four steps: observe the model on the graph; read the observation against
the card; answer with an accuracy, a temperature and a verdict; apply the answer to every node. The
labels of the target graph are never read, only those that the caller passes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors
from graphtemper._core.checks import FloatArray, check_instance, check_integer
from graphtemper._core.reproducible import one_blas_thread
from graphtemper.card import budget as budgets
from graphtemper.card.budget import Budget
from graphtemper.card.card import SourceCard
from graphtemper.card.earlier import agreement, design
from graphtemper.card.earlier import checked as checked_earlier
from graphtemper.card.reading import read
from graphtemper.graph.graph import Graph, Nodes
from graphtemper.models.predictor import Predictor, as_graph, compared
from graphtemper.recalibration import node_temperatures
from graphtemper.recalibration.answer import about
from graphtemper.recalibration.labels.few_labels import NO_LABELS, Labels
from graphtemper.recalibration.labels.given import LabelsGiven, read_labels
from graphtemper.recalibration.reasons import Reason
from graphtemper.recalibration.result import Recalibration
from graphtemper.recalibration.stored import Progress, StoredJob, engine_of
from graphtemper.recalibration.verdict import earlier_labels, sampled_run, whole_graph_run
from graphtemper.scale.logit_tables import LogitPlace
from graphtemper.scale.stored_graph import StoredGraph
from graphtemper.signals.observation import Observation
from graphtemper.signals.sample import LEAST, SIZE, SMALL, Sampled, check_whole, in_memory
from graphtemper.signals.views import num_passes

if TYPE_CHECKING:
    from torch_geometric.data import Data


ClassShares = Literal["estimate"] | None
"""Whether `recalibrate` estimates class shares and may correct logits for them."""


@one_blas_thread(also_openmp=False)
def recalibrate(
    predictor: Predictor | ArrayLike | LogitPlace,
    graph: Graph | Data | StoredGraph | None,
    card: SourceCard,
    nodes: Nodes = None,
    *,
    seed: int = 0,
    labels: LabelsGiven | None = None,
    earlier: ArrayLike | None = None,
    proxies: Mapping[str, ArrayLike] | None = None,
    class_shares: ClassShares = None,
    per_node: bool = False,
    budget: Budget = None,
    logits: ArrayLike | LogitPlace | None = None,
    out: str | os.PathLike[str] | None = None,
    sample: int | None = None,
    client: Any = None,
    progress: Progress | None = None,
) -> Recalibration:
    """Estimate the accuracy of a frozen model on an unlabelled graph and recalibrate it.

    Parameters
    ----------
    predictor
        The model the card was built for, or its logits on this graph: an array (N, K), or the place
        of files. From logits alone nothing can be run again, so fewer signals are read and the
        interval is wider.
    graph
        The target. Its labels, if any, are removed before anything is measured. For a PyG ``Data``,
        it is checked that the model reads nothing that a `Graph` does not hold. A graph in Parquet
        is a `graphtemper.scale.StoredGraph`, of any size; with it, or with None if there are files
        of logits alone, ``logits``, ``out``, ``sample``, ``client``, ``progress`` and ``seed`` are
        the options.
    card
        The source card.
    nodes
        The nodes to recalibrate (default all); nodes the model was trained on should be left out.
    seed
        Seed of the perturbed passes.
    labels
        Classes of target nodes that were labelled by hand: ``{node: class}``, a pandas ``Series``
        of classes indexed by node, or one class per node of the graph, -1 where unknown. They are
        taken to be a random sample (`suggest_labels` draws one). The answer without labels is then
        the prior (see `graphtemper.recalibration.labels.few_labels`); None and {} give that answer.
        Labels that come in batches, until enough is known, are a `graphtemper.LabelSession`.
    earlier
        Labels of the *same nodes* from an earlier period: one class per node of the graph, -1 where
        unknown, or a list of such arrays, the newest last. They set the estimate if the card has
        learned environments with ``learn(..., earlier=...)``, and explain a part of new labels (see
        `graphtemper.card.earlier`).
    proxies
        Other predictions by name, as ``{"xgboost": array}``: classes (N,), -1 where there is none,
        or probabilities (N, K), of all nodes or of ``nodes``. They explain a part of new labels.
    class_shares
        ``"estimate"`` estimates the target's class shares, and corrects the logits for them if the
        evidence supports it (see `graphtemper.recalibration.class_shares`). Predictions may then
        change, and accuracy, temperature and labels refer to the corrected ones. This assumes that
        nothing else has changed: the verdict is ``"trust"`` only if it is without the correction as
        well. By default nothing is done about class shares.
    per_node
        Give every node its own temperature around the graph's (see
        `graphtemper.recalibration.node_temperatures`), for shifts that affect a part of the graph.
        It ranks errors better and lowers Brier score and NLL; binned ECE is often slightly higher
        than with one temperature. A node's temperature depends on which other nodes are chosen.
    budget
        The most forward passes of the model to take; by default 12 for a card that was built with
        a budget. How many are needed depends on the card, and is in ``result.passes``.
    logits
        The model's logits (N, K) on this graph, if they were already made elsewhere; of a graph in
        files, the place of files (`graphtemper.scale.open_logits`). The temperature is that of all
        of them. On more than 100,000 nodes the model then runs only on a sample of the nodes, with
        the neighbours that it reads (see `graphtemper.signals.sample`), and the interval contains
        the sampling error. On smaller graphs, with ``per_node``, or where a sample reads most of
        the graph, it runs on the whole graph. Logits that the model does not give there are
        refused.
    out
        Of a graph in files: a new directory for the probabilities, in Parquet files of the names of
        those of the logits, and ``_answer.json``. It appears when everything is written; every
        worker must be able to write next to it. Without it nothing is written.
    sample
        The number of nodes to run the model on where logits are given; default 2,000 of a graph of
        more than 100,000 nodes, and all nodes of a smaller one.
    client
        Of a graph in files: a `distributed.Client`, or an engine of `graphtemper.scale`, that runs
        the tasks (default: this process). The result has the same bytes on any number of workers.
    progress
        Of a graph in files: called with what is being done, and how much of the work is finished,
        in percent of 100.

    Examples
    --------
    >>> from graphtemper import csbm, shifts
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(600, degree=6, homophily=0.8, snr=1.0, num_features=8, seed=1)
    >>> model = SIGN(hops=1).fit(g, range(300))
    >>> card = SourceCard.build(model, g, range(300, 600), compositions=0)
    >>> target = csbm.sample(600, degree=6, homophily=0.7, snr=1.0, num_features=8, seed=2)
    >>> result = recalibrate(model, target, card)
    >>> print(f"{result.verdict}, {result.accuracy.value:.2f}, T = {result.temperature:.2f}")
    trust, 0.84, T = 1.35
    >>> print(result.probabilities[:2].round(2))
    [[0.26 0.74]
     [0.1  0.9 ]]

    Fifty labels, of nodes that the first result suggests:

    >>> from graphtemper import suggest_labels
    >>> labels = {node: target.labels[node] for node in suggest_labels(result, 50)}
    >>> better = recalibrate(model, target, card, labels=labels)
    >>> before, after = result.accuracy, better.accuracy
    >>> better.num_labels, round(before.high - before.low, 2), round(after.high - after.low, 2)
    (50, 0.14, 0.11)
    """
    check_instance(card, SourceCard, "card", "recalibrate(model, graph, card)")
    if sample is not None:
        check_integer(sample, "sample", LEAST)
    if graph is None or isinstance(graph, StoredGraph):
        refused = {"nodes": nodes, "labels": labels, "earlier": earlier, "proxies": proxies}
        refused |= {"class_shares": class_shares, "per_node": per_node or None, "budget": budget}
        _refuse(refused, "a graph in files")
        model, place = (None, predictor) if logits is None else (predictor, logits)
        return StoredJob(
            logits=cast("LogitPlace", place),
            card=card,
            graph=graph,
            model=cast("Predictor | None", model),
            seed=seed,
            sample=sample,
            engine=engine_of(client),
            progress=progress or (lambda *_: None),
            in_memory=recalibrate,
        ).run(out)
    _refuse({"out": out, "client": client, "progress": progress}, "a graph in memory")
    _check_options(class_shares, per_node)
    observation, compared = _observe(
        cast("Predictor | ArrayLike", predictor),
        graph,
        card,
        nodes,
        seed,
        cast("ArrayLike | None", logits),
    )
    sampled, ran = (None, []) if logits is None else _sampled(observation, card, per_node, sample)
    passes = _passes(observation, card, budget, sampled, compared)
    size = observation.graph.num_nodes, card.num_classes
    reading, columns = read(card, observation, sampled), []
    if earlier is not None:
        old = checked_earlier(earlier, *size)[observation.nodes]
        reading = replace(
            reading, earlier=design(observation.logits / card.temperature, old).mean(axis=0)
        )
        columns.append(agreement(observation.logits, old))
        learned = sum(item.earlier is not None for item in card.environments)
        ran = [*ran, earlier_labels(int((old >= 0).sum()), old.size, learned)]
    for name, values in (proxies or {}).items():
        columns.append(_proxy(name, np.asarray(values), observation, *size))
    given = NO_LABELS if labels is None else read_labels(labels, observation.nodes, *size)
    if columns:
        given = replace(given, columns=np.hstack(columns))
    answered, shares, shift = about(reading, observation.logits, given), None, None
    if class_shares is not None:
        from graphtemper.recalibration.class_shares import correct

        answered, shares, shift = correct(answered, reading, observation, given)
    divisors: FloatArray | None = None
    if per_node:
        divisors, uneven = node_temperatures.spread(
            observation,
            card,
            answered.temperature,
            answered.accuracy.value,
            keep=not answered.settled,
        )
        answered = answered.saying(*uneven)
    return Recalibration.of(
        reading,
        answered.saying(*ran),
        observation.logits,
        shift,
        divisors,
        nodes=observation.nodes,
        graph=observation.graph,
        labels=given,
        class_shares=shares,
        passes=passes,
    )


def _proxy(
    name: str, given: NDArray[Any], observation: Observation, num_nodes: int, num_classes: int
) -> FloatArray:
    """Return what another predictor says about the model's predictions of the chosen nodes.

    Its classes give two columns, whether it has one and whether it agrees, and its probabilities
    one, that of the predicted class.
    """
    rows, predictions = observation.nodes, observation.predictions
    if given.shape[:1] == (num_nodes,):
        given = given[rows]
    kind, shape = given.dtype.kind, given.shape
    if kind in "iu" and shape == rows.shape and ((given >= -1) & (given < num_classes)).all():
        return np.column_stack([given >= 0, given == predictions]).astype(np.float64)
    shares = kind == "f" and shape == (rows.size, num_classes)
    if shares and ((given >= 0.0) & (given <= 1.0)).all():
        return np.asarray(given[np.arange(rows.size), predictions][:, None], np.float64)
    raise errors.shape(
        f"the proxy {name!r:.60} must have, for each of the graph's {num_nodes} nodes or of the "
        f"{rows.size} chosen ones, a class below {num_classes}, -1 where there is none, or "
        f"{num_classes} probabilities."
    )


def relabelled(result: Recalibration, labels: Labels) -> Recalibration:
    """Return a result with other labels; nothing is measured again."""
    return Recalibration.of(
        result.reading,
        about(result.reading, result.logits, labels),
        result.logits,
        nodes=result.nodes,
        graph=result.graph,
        labels=labels,
        passes=result.passes,
    )


def _check_options(class_shares: ClassShares, per_node: bool) -> None:
    if class_shares not in (None, "estimate"):
        raise errors.choice(f"class_shares must be None or 'estimate', not {class_shares!r:.60}.")
    if per_node and class_shares is not None:
        raise errors.conflict(
            "class_shares='estimate' changes predictions, for which no node temperatures were "
            "learned; use it without per_node."
        )


def _observe(
    predictor: Predictor | ArrayLike,
    graph: Graph | Data,
    card: SourceCard,
    nodes: Nodes,
    seed: int,
    logits: ArrayLike | None,
) -> tuple[Observation, bool]:
    """Return the model on the graph, and whether it was compared with its module there."""
    target = card.types.target_name
    converted = as_graph(graph, predictor, target)
    card.check_graph(predictor, converted)
    made = None
    if logits is None:
        converted, made = compared(graph, predictor, converted, target)
    card.check_model(predictor)
    if logits is not None and not callable(predictor):
        raise errors.conflict("logits are given twice; pass the model first, or the logits alone.")
    given = made if logits is None else logits
    unit = card.temperature
    observation = Observation(
        predictor, converted, nodes, temperature=unit, seed=seed, logits=given
    )
    return observation, made is not None


def _sampled(
    observation: Observation, card: SourceCard, per_node: bool, sample: int | None
) -> tuple[Sampled | None, list[Reason]]:
    """Return the evidence of a sample for a model whose logits are known, and what to say of it.

    Logits that the model does not give are refused.
    """
    most = SMALL if sample is None else sample
    if observation.num_nodes <= most or per_node or observation.passes.cheap:
        check_whole(observation)
        return None, []
    sampled = in_memory(observation, card.probe, sample or SIZE)
    return sampled, [whole_graph_run() if sampled is None else sampled_run(sampled)]


def _refuse(given: Mapping[str, Any], what: str) -> None:
    """Refuse options that are for another kind of graph."""
    names = [name for name, value in given.items() if value is not None]
    if names:
        raise errors.conflict(f"{', '.join(names)} cannot be used with {what}.")


def _passes(
    observation: Observation,
    card: SourceCard,
    budget: Budget,
    sampled: Sampled | None,
    compared: bool,
) -> int | None:
    """Return the forward passes that a recalibration takes, or refuse too small a budget."""
    passes = observation.passes if observation.has_model else None
    if passes is None or (budget is None and passes.cheap):
        return None
    measured = num_passes(card.probe.splits) * (1.0 if sampled is None else sampled.work)
    needed = math.ceil(measured) + compared
    if budget is not None:
        budgets.check_target(budget, needed)
    return needed
