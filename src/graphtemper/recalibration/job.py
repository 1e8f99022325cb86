"""The main job: a frozen model, an unlabelled graph and a source card give honest probabilities.

Four steps: observe the model on the graph, at the source temperature; read the observation against
the card; answer with an accuracy, a temperature and a verdict; apply the answer to every node. The
labels of the target graph are never read, only those that the caller passes.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

from numpy.typing import ArrayLike

from graphtemper._core.checks import check_instance
from graphtemper._core.reproducible import one_blas_thread
from graphtemper.card import budget as budgets
from graphtemper.card.budget import Budget
from graphtemper.card.card import SourceCard
from graphtemper.card.reading import read
from graphtemper.errors import ChoiceError, ConflictError, GraphTemperWarning
from graphtemper.graph.graph import Graph, Nodes
from graphtemper.models.predictor import Predictor, graph_and_logits
from graphtemper.recalibration import node_temperatures
from graphtemper.recalibration.answer import answer
from graphtemper.recalibration.few_labels import NO_LABELS, Objective
from graphtemper.recalibration.labelling import LabelPlan, LabelsGiven, read_labels
from graphtemper.recalibration.reasons import Reason, sample_run, whole_graph_run
from graphtemper.recalibration.result import Recalibration, probabilities_at
from graphtemper.signals.observation import Observation
from graphtemper.signals.second_opinion import Second
from graphtemper.signals.views import num_passes

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from graphtemper.signals.receptive_field import Sample

ClassShares = Literal["estimate"] | None
"""Whether `recalibrate` estimates class shares and may correct logits for them."""


@one_blas_thread(also_openmp=False)
def recalibrate(
    predictor: Predictor | ArrayLike,
    graph: Graph | Data,
    card: SourceCard,
    nodes: Nodes = None,
    *,
    seed: int = 0,
    labels: LabelsGiven | None = None,
    plan: LabelPlan | None = None,
    objective: Objective = "balanced",
    class_shares: ClassShares = None,
    per_node: bool = False,
    budget: Budget = None,
    logits: ArrayLike | None = None,
    second: Second | None = None,
) -> Recalibration:
    """Estimate the accuracy of a frozen model on an unlabelled graph and recalibrate it.

    Parameters
    ----------
    predictor
        The model the card was built for, or its logits (N, K) on this graph. From logits alone
        nothing can be run again, so fewer signals are read and the interval is wider.
    graph
        The target. Its labels, if any, are removed before anything is measured. For a PyG ``Data``,
        it is checked that the model reads nothing that a `Graph` does not hold.
    card
        The source card.
    nodes
        The nodes to recalibrate (default all); nodes the model was trained on should be left out.
    seed
        Seed of the perturbed passes.
    labels
        Classes of target nodes that were labelled by hand: ``{node: class}``, or a pandas
        ``Series`` of classes indexed by node. The atlas is then the prior and the labels the
        likelihood, for the accuracy and for the temperature (see
        `graphtemper.recalibration.few_labels`). None and {} give the same result.
    plan
        From `suggest_labels`, if it chose the labelled nodes, so that its weights are used. Without
        a plan the labelled nodes are taken to be a random sample.
    objective
        How labels set the temperature: with ``"likelihood"`` by their likelihood, with
        ``"calibration"`` by their accuracy, which mean confidence then matches, and by default by
        both: most of the lower ECE of the second for little of the lower NLL of the first.
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
        The model's logits (N, K) on this graph, if they were already made elsewhere. The
        temperature is that of all of them. On more than 100,000 nodes the model then runs only on a
        sample of the nodes, with the neighbours that it reads (see
        `graphtemper.signals.receptive_field`), and the interval contains the sampling error. On
        smaller graphs, with ``per_node``, or where a sample reads most of the graph, it runs on the
        whole graph. Logits that the model does not give there are refused.
    second
        The second learner on this graph, if the card was built with one.

    Examples
    --------
    >>> from graphtemper import csbm, shifts
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(600, degree=6, homophily=0.8, snr=1.0, num_features=8, seed=1)
    >>> model = SIGN(hops=1).fit(g, range(300))
    >>> card = SourceCard.build(model, g, range(300, 600), compositions=0)
    >>> target = csbm.sample(600, degree=6, homophily=0.7, snr=1.0, num_features=8, seed=2)
    >>> result = recalibrate(model, target, card)
    >>> result.verdict in ("trust", "caution", "abstain")
    True
    >>> bool(abs(result.probabilities.sum(axis=1) - 1).max() < 1e-9)
    True

    Fifty labels, of nodes that the first result suggests:

    >>> from graphtemper import suggest_labels
    >>> plan = suggest_labels(result, 50)
    >>> labels = {int(node): int(target.labels[node]) for node in plan.nodes}
    >>> better = recalibrate(model, target, card, labels=labels, plan=plan)
    >>> before, after = result.accuracy, better.accuracy
    >>> better.num_labels, after.high - after.low < before.high - before.low
    (50, True)
    """
    _check_options(labels, plan, objective, class_shares, per_node)
    observation, compared = _observe(predictor, graph, card, nodes, seed, logits)
    given = NO_LABELS
    sample, ran = (None, []) if logits is None else _sampled(observation, per_node)
    passes = _passes(observation, card, budget, sample, compared)
    if labels is not None:
        size = observation.graph.num_nodes
        given = read_labels(labels, plan, observation.nodes, size, card.num_classes)
    reading = read(card, observation, sample, second)
    result = answer(reading, observation.logits, given, objective)
    result = replace(result, logits=observation.logits, labels=given)
    if class_shares is not None:
        from graphtemper.recalibration.class_shares import correct

        result = correct(result, observation, objective)
    result = _applied(result, observation, per_node)
    return replace(result, passes=passes, reasons=[*result.reasons, *ran])


def _check_options(
    labels: LabelsGiven | None,
    plan: LabelPlan | None,
    objective: Objective,
    class_shares: ClassShares,
    per_node: bool,
) -> None:
    if class_shares not in (None, "estimate"):
        raise ChoiceError(f"class_shares must be None or 'estimate', not {class_shares!r:.60}.")
    if per_node and class_shares is not None:
        raise ConflictError(
            "class_shares='estimate' changes predictions, for which no node temperatures were "
            "learned; use it without per_node."
        )
    if objective not in get_args(Objective):
        known = " or ".join(map(repr, get_args(Objective)))
        raise ChoiceError(f"objective must be {known}, not {objective!r:.60}.")
    if (labels is None or not len(labels)) and (plan is not None or objective != "balanced"):
        text = "plan and objective have no effect without labels; pass labels={node: class}."
        warnings.warn(text, GraphTemperWarning, stacklevel=4)  # one more for the decorator


def _observe(
    predictor: Predictor | ArrayLike,
    graph: Graph | Data,
    card: SourceCard,
    nodes: Nodes,
    seed: int,
    logits: ArrayLike | None,
) -> tuple[Observation, bool]:
    """Return the model on the graph, and whether it was compared with its module there."""
    check_instance(card, SourceCard, "card", "recalibrate(model, graph, card)")
    graph, made = graph_and_logits(
        graph,
        predictor,
        partial(card.check_graph, predictor),
        card.types.target_name,
        known=logits is not None,
    )
    card.check_model(predictor)
    if logits is not None and not callable(predictor):
        raise ConflictError("logits are given twice; pass the model first, or the logits alone.")
    given = made if logits is None else logits
    observation = Observation(predictor, graph, nodes, seed=seed, logits=given)
    return observation.at(card.temperature), made is not None


def _applied(result: Recalibration, observation: Observation, per_node: bool) -> Recalibration:
    """Return an answer with calibrated probabilities of the observed nodes."""
    divisors, reasons = None, list(result.reasons)
    if per_node:
        divisors, uneven = node_temperatures.spread(
            observation,
            result.reading.card,
            result.relative,
            result.accuracy.value,
            keep=result.verdict == "abstain",
        )
        reasons += uneven
    probabilities = probabilities_at(
        result.logits, result.relative if divisors is None else divisors
    )
    return replace(
        result,
        graph=observation.graph,
        nodes=observation.nodes,
        probabilities=probabilities,
        mean_confidence=(result.mean_confidence[0], float(probabilities.max(axis=1).mean())),
        node_temperatures=None if divisors is None else divisors * result.source_temperature,
        reasons=reasons,
    )


def _sampled(observation: Observation, per_node: bool) -> tuple[Sample | None, list[Reason]]:
    """Return the sample on which a model runs whose logits are known, and what to say about it.

    Logits that the model does not give are refused.
    """
    from graphtemper.signals import receptive_field

    small = observation.graph.num_nodes <= receptive_field.SMALL
    if small or per_node or observation.passes.cheap:
        receptive_field.check_whole(observation, observation.predictor)
        return None, []
    sample = receptive_field.draw(observation)
    if sample is None:
        return None, [whole_graph_run()]
    return sample, [sample_run(sample.nodes.size, sample.num_links, sample.depth)]


def _passes(
    observation: Observation,
    card: SourceCard,
    budget: Budget,
    sample: Sample | None,
    compared: bool,
) -> int | None:
    """Return the forward passes that a recalibration takes, or refuse too small a budget."""
    passes = observation.passes if observation.has_model else None
    if passes is None or (budget is None and passes.cheap):
        return None
    measured = num_passes(card.probe.splits) * (1.0 if sample is None else sample.work)
    needed = math.ceil(measured) + compared
    if budget is not None:
        budgets.check_target(budget, needed)
    return needed
