"""The main job: a frozen model, an unlabelled graph and a source card give honest probabilities.

Five steps: observe the model on the graph, at the source temperature; read the observation against
the card; answer with an accuracy, a temperature and a verdict; apply the answer to every node. The
labels of the target graph are never read, only those that the caller passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from graphtemper._core.threads import one_blas_thread
from graphtemper.card.card import SourceCard
from graphtemper.graph.coercion import as_graph
from graphtemper.graph.graph import Graph, Nodes
from graphtemper.models.predictor import Predictor
from graphtemper.recalibration import answer as answers
from graphtemper.recalibration.class_shares import support
from graphtemper.recalibration.class_shares.support import ClassShares
from graphtemper.recalibration.few_labels import NO_LABELS
from graphtemper.recalibration.labelling import LabelPlan, read_labels
from graphtemper.recalibration.result import Recalibration
from graphtemper.signals.observation import Observation

if TYPE_CHECKING:
    from torch_geometric.data import Data


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
        The target. Its labels, if any, are removed before anything is measured. For a PyG ``Data``,
        it is checked that the model reads nothing that a `Graph` does not hold.
    card
        The source card.
    nodes
        The nodes to recalibrate (default all); nodes the model was trained on should be left out.
    seed
        Seed of the perturbed passes.
    labels
        Classes of target nodes that were labelled by hand: ``{node: class}``. The atlas is then the
        prior and the labels the likelihood, for the accuracy and for the temperature (see
        `graphtemper.recalibration.few_labels`). None and {} give the same bytes.
    plan
        From `suggest_labels`, if it chose the labelled nodes, so that its weights are used. Without
        a plan the labelled nodes are taken to be a random sample.
    class_shares
        ``"report"`` estimates the target's class shares and says if they seem to have moved.
        ``"estimate"`` also corrects the logits for them if the evidence supports it (see
        `graphtemper.recalibration.class_shares.support`). Predictions may then change, and
        accuracy, temperature and labels refer to the corrected ones.
    per_node
        Give every node its own temperature around the graph's (see
        `graphtemper.recalibration.node_temperatures`), for shifts that affect a part of the graph.
        It ranks errors better and lowers Brier score and NLL; binned ECE is often slightly higher
        than with one temperature. A node's temperature depends on which other nodes are chosen.

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
    graph = as_graph(graph, predictor)
    card.check(predictor, graph)
    observation = Observation(predictor, graph, nodes, seed=seed).at(card.temperature)
    given = NO_LABELS
    if labels is not None:
        given = read_labels(labels, plan, observation.nodes, graph.num_nodes, card.num_classes)
    reading = card.read(observation)
    answer = answers.answer(reading, observation.logits, given, class_shares)
    return Recalibration.of(answer, observation, given, per_node)
