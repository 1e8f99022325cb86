"""The main job: a frozen model, an unlabelled graph and a source card give honest probabilities.

Reads top to bottom as the product's sentence: graph -> logits -> signals -> estimate ->
temperature -> probabilities -> report. The target graph's own labels are never read; those that a
caller hands over are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import temperature as temperatures
from graphtemper import theory
from graphtemper._core.arrays import FloatArray
from graphtemper._core.estimate import Estimate
from graphtemper._core.threads import one_blas_thread
from graphtemper.card.card import SourceCard
from graphtemper.errors import InputError
from graphtemper.graph.coercion import as_graph
from graphtemper.graph.graph import Graph, Nodes
from graphtemper.models.predictor import Predictor
from graphtemper.recalibration import answer as answers
from graphtemper.recalibration import node_temperatures
from graphtemper.recalibration.answer import Answer
from graphtemper.recalibration.answer_facts import as_facts
from graphtemper.recalibration.background import Background, nearest_families
from graphtemper.recalibration.class_shares import support
from graphtemper.recalibration.class_shares.support import ClassShares
from graphtemper.recalibration.labelling import LabelPlan, read_labels
from graphtemper.recalibration.reading import Reading
from graphtemper.recalibration.reasons import Reason
from graphtemper.recalibration.verdict import Verdict, direction
from graphtemper.signals.observation import Observation

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True, eq=False)
class Recalibration:
    """What graphtemper says about a model on a target graph.

    Attributes
    ----------
    temperature : float
        The graph's temperature, which divides the model's logits; the source's own where the
        verdict is ``abstain``.
    node_temperatures : (n,) array or None
        With ``per_node=True`` each chosen node's own temperature, used in place of the graph's.
    probabilities : (n, K) array
        softmax(logits / temperature) of the chosen nodes.
    accuracy : Estimate
        Estimated accuracy with a 90 % interval; a credible interval where labels were given.
    verdict, reasons
        ``trust``, ``caution`` or ``abstain``, and why: each reason has a stable ``code`` and a
        ``text``.
    slope : float
        Source temperature over target temperature: below 1 the model is over-confident.
    severity_bound : float
        The largest ECE that this slope allows at the source temperature (Proposition 4).
    signals : dict
        What was measured, without labels.
    nearest : list of (family, distance)
        Which shifts of the source look most like this graph.
    num_labels : int
        How many labels of the target the caller gave.
    class_shares : (K,) array or None
        Estimated class shares of the target; None where none explain its predictions, or the card
        is too old to tell.
    logit_shift : (K,) array or None
        What a correction for class shares added to every node's logits:
        softmax((logits + shift) / temperature). None without a correction.
    background : Background
        What `report` shows beside the answer.
    """

    temperature: float
    probabilities: FloatArray
    accuracy: Estimate
    verdict: Verdict
    reasons: list[Reason]
    slope: float
    severity_bound: float
    signals: dict[str, float]
    gains: dict[str, float]
    nearest: list[tuple[str, float]]
    nodes: NDArray[np.int64]
    mean_confidence: tuple[float, float]
    num_labels: int = 0
    class_shares: FloatArray | None = None
    logit_shift: FloatArray | None = None
    node_temperatures: FloatArray | None = None
    background: Background | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the per-node arrays as plain Python values."""
        return as_facts(self) | {
            "temperature": self.temperature,
            **node_temperatures.describe(self.node_temperatures),
            "num_nodes": len(self.probabilities),
            "num_labels": self.num_labels,
            "class_shares": _listed(self.class_shares),
            "logit_shift": _listed(self.logit_shift),
        }

    def report(self, path: str | os.PathLike[str], *, name: str | None = None) -> None:
        """Write the answer as one HTML page for people; ``name`` is what they call the graph."""
        from graphtemper.recalibration.report.page import write_report

        write_report(path, self, name)


@one_blas_thread(also_openmp=False)
def recalibrate(
    predictor: Predictor | ArrayLike,
    graph: Graph | Data,
    card: SourceCard,
    nodes: Nodes = None,
    *,
    seed: int = 0,
    labels: Mapping[int, int] | None = None,
    plan: LabelPlan | None = None,
    class_shares: ClassShares = "report",
    per_node: bool = False,
) -> Recalibration:
    """Estimate the accuracy of a frozen model on an unlabelled graph and recalibrate it.

    Parameters
    ----------
    predictor
        The model the card was built for, or its logits (N, K) on this graph. From logits alone
        nothing can be run again, so fewer signals are read and the interval is wider.
    graph
        The target. Its labels, if any, are removed before anything is measured. Of a PyG ``Data``
        it is checked that the model reads nothing that a `Graph` does not hold.
    card
        The source card.
    nodes
        The nodes to recalibrate (default all); nodes the model was trained on should be left out.
    seed
        Seed of the perturbed passes.
    labels
        Class of each target node that somebody has looked at: ``{node: class}``. The atlas is then
        the prior and the labels the likelihood, for the accuracy and for the temperature (see
        `graphtemper.recalibration.few_labels`). None and {} give the same bytes.
    plan
        From `suggest_labels`, if it picked the labelled nodes: its weights are used. Without a
        plan the labelled nodes count as drawn at random.
    class_shares
        ``"report"`` estimates the target's class shares and says so where they seem to have moved.
        ``"estimate"`` also corrects the logits for them, where the evidence supports that (see
        `graphtemper.recalibration.class_shares.support`); predictions may change, and
        accuracy, temperature and labels are then about the corrected ones.
    per_node
        Give every node its own temperature around the graph's, where the card knows how (see
        `graphtemper.recalibration.node_temperatures`): for shifts that hit a part of the
        graph. It finds wrong
        nodes better and lowers Brier score and NLL; binned ECE is often slightly higher than with
        one temperature. A node's temperature depends on which other nodes are chosen.

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

    Fifty labels, of nodes that the first answer asks for:

    >>> from graphtemper import suggest_labels
    >>> plan = suggest_labels(result, 50)
    >>> looked_up = {int(node): int(target.labels[node]) for node in plan.nodes}
    >>> better = recalibrate(model, target, card, labels=looked_up, plan=plan)
    >>> before, after = result.accuracy, better.accuracy
    >>> better.num_labels, after.high - after.low < before.high - before.low
    (50, True)
    """
    graph = as_graph(graph, predictor)
    support.check_wanted(class_shares, per_node)
    card.check(predictor, graph)
    seen = Observation(predictor, graph, nodes, temperature=card.probe.temperature, seed=seed)
    if seen.num_classes != card.num_classes:
        raise InputError(
            f"the card is for {card.num_classes} classes but the model gives {seen.num_classes}."
        )
    given = read_labels(labels, plan, seen.nodes, graph.num_nodes, seen.num_classes)
    target = Reading.of(seen, card)
    plain = answers.from_atlas(target)
    answer, moved = answers.with_labels(target, plain, given), answers.weigh_shares(target, plain)
    told, shift = support.unknown(class_shares), None
    if moved is not None:
        shares, corrected = moved
        if class_shares == "estimate" and shares.supported:
            better = answers.with_labels(target, corrected, given)
            shares = shares.unless(_against(answers.prefers(given, plain, corrected), better))
            if shares.supported:
                answer, shift = better, shares.offsets * card.probe.temperature
        told = shares.reasons(class_shares)
    divisors: FloatArray | None = None
    uneven: list[Reason] = []
    if per_node:
        divisors, uneven = node_temperatures.spread(
            answer.seen, card, answer.relative, answer.accuracy.value, answer.verdict == "abstain"
        )
    probabilities = keep_argmax(
        temperatures.apply(answer.seen.logits, answer.relative if divisors is None else divisors),
        answer.seen.predictions,
    )
    return Recalibration(
        temperature=answer.relative * card.probe.temperature,
        probabilities=probabilities,
        accuracy=answer.accuracy,
        verdict=answer.verdict,
        reasons=[direction(answer.claimed, answer.accuracy), *answer.reasons, *uneven, *told],
        slope=1.0 / answer.relative,
        severity_bound=float(theory.ece_bound(1.0 / answer.matched, target.shown.mean_abs_logit)),
        signals=target.numbers(),
        gains={} if target.gains is None else target.gains.to_dict(),
        nearest=nearest_families(target.response, target.signals, card.environments),
        nodes=seen.nodes,
        mean_confidence=(answer.claimed, float(probabilities.max(axis=1).mean())),
        num_labels=int(given.rows.size),
        class_shares=None if moved is None else moved[0].shares,
        logit_shift=shift,
        node_temperatures=None if divisors is None else divisors * card.probe.temperature,
        background=Background.of(answer.seen, given, card, target.response),
    )


def _against(liked: bool, better: Answer) -> str:
    """Say what speaks against a correction once it has been made, if anything does."""
    if not liked:
        return "the labels are less likely with it than without"
    if better.verdict == "abstain":
        return "the accuracy would not be known well enough"
    return ""


def _listed(values: FloatArray | None) -> list[float] | None:
    return None if values is None else values.tolist()


def keep_argmax(probabilities: FloatArray, predictions: NDArray[np.intp]) -> FloatArray:
    """Keep the prediction on top where a large temperature rounds a small lead to a tie."""
    rows = np.flatnonzero(probabilities.argmax(axis=1) != predictions)
    probabilities[rows, predictions[rows]] = np.nextafter(probabilities[rows].max(axis=1), 2.0)
    return probabilities
