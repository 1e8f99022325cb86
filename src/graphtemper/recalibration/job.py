"""The main job: a frozen model, an unlabelled graph and a source card give honest probabilities.

Five steps: observe the model on the graph, at the source temperature; read the observation against
the card; answer with an accuracy, a temperature and a verdict; apply the answer to every node. The
labels of the target graph are never read, only those that the caller passes.
"""

from __future__ import annotations

import math
import os
import warnings
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import temperature as temperatures
from graphtemper._core.arrays import FloatArray
from graphtemper._core.checks import check_instance
from graphtemper._core.reproducible import one_blas_thread
from graphtemper.card import budget as budgets
from graphtemper.card.budget import Budget
from graphtemper.card.card import SourceCard
from graphtemper.card.reading import read
from graphtemper.errors import GraphTemperWarning, InputError, MissingExtraError
from graphtemper.graph.graph import Graph, Nodes
from graphtemper.models.predictor import (
    Predictor,
    checked_logits,
    graph_and_logits,
)
from graphtemper.recalibration import answer as answers
from graphtemper.recalibration import node_temperatures
from graphtemper.recalibration.answer import Answer
from graphtemper.recalibration.class_shares import support
from graphtemper.recalibration.class_shares.support import ClassShares
from graphtemper.recalibration.few_labels import NO_LABELS, Labels, Objective
from graphtemper.recalibration.findings import Background, Findings
from graphtemper.recalibration.labelling import LabelPlan, LabelsGiven, read_labels
from graphtemper.recalibration.reasons import Reason, sample_run, whole_graph_run
from graphtemper.signals.observation import Observation
from graphtemper.signals.views import num_passes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame
    from torch_geometric.data import Data

    from graphtemper.signals.receptive_field import Sample


class Recalibration(Findings):
    """Calibrated probabilities of a model on a target graph, with a verdict and its reasons.

    See `graphtemper.recalibration.findings` for the attributes.
    """

    @classmethod
    def of(
        cls, answer: Answer, observation: Observation, labels: Labels, per_node: bool = False
    ) -> Recalibration:
        """Turn an answer into calibrated probabilities of the observed nodes."""
        reading, unit = answer.reading, answer.reading.card.probe.temperature
        logits = answer.shifted(observation.logits)
        divisors: FloatArray | None = None
        uneven: list[Reason] = []
        if per_node:
            divisors, uneven = node_temperatures.spread(
                observation,
                reading.card,
                answer.relative,
                answer.accuracy.value,
                keep=answer.verdict == "abstain",
            )
        probabilities = probabilities_at(logits, answer.relative if divisors is None else divisors)
        return cls(
            temperature=answer.temperature,
            accuracy=answer.accuracy,
            verdict=answer.verdict,
            reasons=[*answer.reasons, *uneven, *answer.share_reasons],
            slope=answer.slope,
            severity_bound=answer.severity_bound,
            signals=reading.numbers(),
            gains={} if reading.gains is None else reading.gains.to_dict(),
            nearest=reading.nearest_families(),
            mean_confidence=(answer.confidence, float(probabilities.max(axis=1).mean())),
            probabilities=probabilities,
            nodes=observation.nodes,
            num_labels=int(labels.rows.size),
            effective_labels=answer.effective_labels,
            class_shares=answer.class_shares,
            logit_shift=None if answer.offsets is None else answer.offsets * unit,
            node_temperatures=None if divisors is None else divisors * unit,
            background=_background(answer, observation, labels),
        )

    def apply(self, logits: ArrayLike) -> FloatArray:
        """Return calibrated probabilities of other logits (m, K) of the same model.

        The temperature is the graph's, also if `node_temperatures` were computed, and a correction
        for class shares is added first.

        Examples
        --------
        >>> from graphtemper._core.estimate import Estimate
        >>> result = Recalibration(
        ...     temperature=2.0, accuracy=Estimate(0.7, 0.6, 0.8, "atlas"), verdict="trust",
        ...     reasons=[], slope=0.5, severity_bound=0.1, signals={}, gains={}, nearest=[],
        ...     mean_confidence=(0.9, 0.7), probabilities=np.full((1, 2), 0.5), nodes=np.arange(1),
        ... )
        >>> result.apply([[0.0, 2.0]]).round(3).tolist()
        [[0.269, 0.731]]
        """
        shape = np.shape(logits)
        values = checked_logits(logits, shape[0] if shape else 0)
        if self.logit_shift is not None:
            values = values + self.logit_shift
        return probabilities_at(values, self.temperature)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw confidence before and after against the accuracy interval; needs matplotlib.

        ``ax`` are the axes to draw on (default: new ones). They are returned.
        """
        from graphtemper.recalibration.plot import plot_confidence

        return plot_confidence(self, ax)

    def to_frame(self) -> DataFrame:
        """Return one row per chosen node as a pandas ``DataFrame``; needs pandas.

        The index holds the nodes. Columns are the prediction, its confidence, the probabilities
        and, with ``per_node=True``, the node's temperature.
        """
        try:
            from pandas import DataFrame, Index
        except ImportError as error:
            raise MissingExtraError("to_frame needs pandas; run pip install pandas.") from error

        columns = {"prediction": self.predictions, "confidence": self.probabilities.max(axis=1)}
        columns |= {f"probability_{k}": values for k, values in enumerate(self.probabilities.T)}
        if self.node_temperatures is not None:
            columns["temperature"] = self.node_temperatures
        return DataFrame(columns, index=Index(self.nodes, name="node"))

    def _repr_html_(self) -> str:
        from graphtemper.recalibration import notebook
        from graphtemper.recalibration.plot import plot_confidence

        rows = self.summary_rows()
        rows["Reasons"] = " ".join(reason.text for reason in self.reasons)
        image = notebook.picture(
            lambda ax: plot_confidence(self, ax), "confidence before and after"
        )
        return notebook.table(f"Verdict: {self.verdict}", rows) + image

    def report(
        self, path: str | os.PathLike[str], *, name: str | None = None, date: str = ""
    ) -> None:
        """Write the result as one HTML page for people, an .html file.

        ``name`` is what they call the graph, and ``date`` when it was observed, as text.
        """
        from graphtemper.recalibration.report.page import write_report

        write_report(path, self, name, date)


def probabilities_at(logits: FloatArray, temperature: float | FloatArray) -> FloatArray:
    """Return softmax(logits / T) with the largest logit of every row on top.

    A large temperature may round a small lead to a tie, which would change the prediction.

    Examples
    --------
    >>> probabilities_at(np.array([[0.0, 1e-20]]), 1e10).argmax(axis=1).tolist()
    [1]
    """
    return keep_argmax(temperatures.apply(logits, temperature), logits.argmax(axis=1))


def keep_argmax(probabilities: FloatArray, predictions: NDArray[np.intp]) -> FloatArray:
    """Raise the probability of a prediction where rounding has put another class on top."""
    rows = np.flatnonzero(probabilities.argmax(axis=1) != predictions)
    probabilities[rows, predictions[rows]] = np.nextafter(probabilities[rows].max(axis=1), 2.0)
    return probabilities


def _background(answer: Answer, observation: Observation, labels: Labels) -> Background:
    graph = observation.graph
    probabilities = observation.probabilities
    if answer.offsets is not None:
        probabilities = temperatures.apply(answer.shifted(observation.logits))
    return Background(
        card=answer.reading.card,
        response=answer.reading.response,
        signals=answer.reading.signals,
        novelty=answer.reading.novelty,
        name=graph.name,
        class_names=graph.class_names or (),
        confidence=probabilities.max(axis=1),
        predictions=answer.shifted(observation.logits).argmax(axis=1),
        degrees=np.asarray(graph.degrees[observation.nodes], dtype=np.int64),
        labels=labels,
        labelled=probabilities[labels.rows],
    )


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
    class_shares: ClassShares = "report",
    per_node: bool = False,
    budget: Budget = None,
    logits: ArrayLike | None = None,
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
        ``"report"`` estimates the target's class shares and says if they seem to have moved.
        ``"estimate"`` also corrects the logits for them if the evidence supports it (see
        `graphtemper.recalibration.class_shares.support`). Predictions may then change, and
        accuracy, temperature and labels refer to the corrected ones. This assumes that nothing else
        has changed: the verdict is ``"trust"`` only if it is without the correction as well.
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
    support.check_request(class_shares, per_node)
    if objective not in get_args(Objective):
        known = " or ".join(map(repr, get_args(Objective)))
        raise InputError(f"objective must be {known}, not {objective!r:.60}.")
    if (labels is None or not len(labels)) and (plan is not None or objective != "balanced"):
        text = "plan and objective have no effect without labels; pass labels={node: class}."
        warnings.warn(text, GraphTemperWarning, stacklevel=3)  # one more for the decorator
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
        raise InputError("logits are given twice; pass the model first, or the logits alone.")
    observation = Observation(
        predictor, graph, nodes, seed=seed, logits=made if logits is None else logits
    )
    observation = observation.at(card.temperature)
    sample, ran = (None, []) if logits is None else _sampled(observation, per_node)
    passes = _passes(observation, card, budget, sample)
    given = NO_LABELS
    if labels is not None:
        given = read_labels(labels, plan, observation.nodes, graph.num_nodes, card.num_classes)
    reading = read(card, observation, sample)
    effect = partial(support.target_effect, card.class_profile, observation)
    answer = answers.answer(reading, observation.logits, given, class_shares, objective, effect)
    result = Recalibration.of(answer, observation, given, per_node)
    return replace(result, passes=passes, reasons=[*result.reasons, *ran])


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
) -> int | None:
    """Return the forward passes that a recalibration takes, or refuse too small a budget."""
    passes = observation.passes if observation.has_model else None
    allowed = budgets.resolved(budget, passes, budgets.TARGET_BUDGET)
    if passes is None or (budget is None and passes.cheap):
        return None
    needed = math.ceil(num_passes(card.probe.splits) * (1.0 if sample is None else sample.work))
    if budget is not None:
        budgets.check_target(allowed, needed)
    return needed
