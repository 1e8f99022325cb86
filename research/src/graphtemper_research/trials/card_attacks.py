"""What a card reveals: attacks on labels and on membership.

Run ``python -m graphtemper_research.trials.card_attacks``. It prints the table of SECURITY.md.
The attacker has the card, the code, the model, the graph without labels and, for labels, the list
of labelled nodes.

*Labels*: the accuracies of the atlas are linear equations for the labels, if the predictions behind
them are known. Without the secret of the draws they are not, and their mean over draws of the
attacker's own stands in. The equations are solved by linear estimation around what the card says
about the class of each node, and for two classes by least squares within bounds. The best attack
counts, chosen in hindsight.

*Membership*: an average over the labelled nodes is compared with that over all candidates, in the
metric of its sampling error, which for normal averages is the likelihood ratio (Homer et al., PLoS
Genetics 2008). Sums that contain labels are attacked through the classes that the model expects.

Private cards draw their answers from the operating system, so no seed repeats their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear
from scipy.stats import rankdata

from graphtemper import SourceCard, csbm
from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray
from graphtemper._core.reproducible import stream
from graphtemper.card import atlas
from graphtemper.card.atlas import shift_seed
from graphtemper.card.privacy import secret_seed
from graphtemper.graph.graph import Graph
from graphtemper.models import SIGN
from graphtemper.models.predictor import Predictor
from graphtemper.shifts import Shift
from graphtemper.signals.covariances import centred
from graphtemper.signals.evidence import column_sketch
from graphtemper_research.trials import graph_names

GRAPHS = ("block model", "county_2012", "twitch_ptbr")
SIZES = (200, 300, 1000)
EPSILONS = (3.0, 1.0)
# Draws of the attacker's own, labelled nodes that the model is trained on.
_DRAWS, _TRAINED = 3, 300
# Sampling errors of an accuracy, as a factor, that an attacker tries.
_NOISES = (1e-3, 0.1, 1.0, 3.0)


@dataclass(frozen=True, eq=False)
class Victim:
    """A labelled source with its card."""

    graph: Graph
    model: Predictor
    nodes: NDArray[np.int64]
    others: NDArray[np.int64]
    card: SourceCard
    shifts: dict[str, Shift]

    @classmethod
    def draw(
        cls,
        graph: Graph,
        size: int,
        epsilon: float | None,
        shifts: atlas.Shifts | None = None,
        compositions: int = atlas.COMPOSITIONS,
    ) -> Victim:
        """Train a model and build a card from some labelled nodes; as many others are no members.

        The attacker guesses the default seed and with it the plan of the atlas.
        """
        assert graph.labels is not None
        order = np.random.default_rng(0).permutation(np.flatnonzero(graph.labels >= 0))
        nodes, train = np.sort(order[:size]), order[size : size + _TRAINED]
        model = SIGN(hops=2).fit(graph, train)
        options: dict[str, Any] = {"compositions": compositions, "shifts": shifts}
        card = SourceCard.build(model, graph, nodes, privacy=epsilon, progress=False, **options)
        planned = {repr(shift): shift for shift in atlas.plan(0, **options)}
        return cls(graph, model, nodes, order[size + _TRAINED :][: 4 * size], card, planned)

    @property
    def labels(self) -> NDArray[np.int64]:
        """The labels that an attacker wants."""
        assert self.graph.labels is not None
        return self.graph.labels[self.nodes]

    @property
    def logits(self) -> FloatArray:
        """Logits of all nodes at the source temperature."""
        return np.asarray(self.model(self.graph) / self.card.temperature)

    def guess(self) -> float:
        """Return the share of labels that the model or the largest class guesses."""
        predicted = self.logits[self.nodes].argmax(axis=1)
        largest = np.bincount(self.labels).max() / self.labels.size
        return max(float((predicted == self.labels).mean()), float(largest))

    def recovered(self, *, known: bool) -> float:
        """Return the share of labels that the best attack recovers, with the draws known or not."""
        accuracies = [self.card.reference.accuracy]
        one_hot = np.eye(self.card.num_classes)
        designs = [one_hot[self.logits[self.nodes].argmax(axis=1)] / self.nodes.size]
        secret = secret_seed(0, self.nodes, self.labels)
        for point in self.card.atlas:
            shift = self.shifts[point.shift]
            if "homophily" in shift.families:  # it reads labels, so an attacker cannot repeat it
                continue
            seeds = [shift_seed(secret, shift)] if known else range(1000, 1000 + _DRAWS)
            rows = np.mean([one_hot[self._predicted(shift, seed)] for seed in seeds], axis=0)
            if known:
                rows *= self._scored(shift_seed(secret, shift))[:, None]
            designs.append(rows / rows.sum())
            accuracies.append(point.accuracy)
        return self._solved(np.array(designs), np.array(accuracies))

    def _predicted(self, shift: Shift, seed: int) -> NDArray[np.int64]:
        shifted = shift(self.graph.replace(labels=None), seed)
        return np.asarray(self.model(shifted)[self.nodes].argmax(axis=1))

    def _scored(self, seed: int) -> FloatArray:
        """Return which nodes an accuracy of the atlas is counted on."""
        size = self.nodes.size
        chosen = np.zeros(size)
        chosen[stream(seed, "scored nodes").permutation(size)[: 2 * size // 3]] = 1.0
        return chosen

    def _solved(self, designs: FloatArray, accuracies: FloatArray) -> float:
        size, classes = designs.shape[1:]
        design = designs.reshape(len(designs), -1)
        found = list(self._priors())
        for prior in list(found):
            spread = np.stack([np.diag(p) - np.outer(p, p) for p in prior])
            weighted = np.einsum("mnk,nkl->mnl", designs, spread).reshape(len(design), -1)
            missed = accuracies - design @ prior.ravel()
            for noise in _NOISES:
                variance = noise * np.maximum(accuracies * (1.0 - accuracies), 0.02) / size
                gain = np.linalg.solve(weighted @ design.T + np.diag(variance), missed)
                found.append(prior + (weighted.T @ gain).reshape(size, classes))
        if classes == 2:  # the relaxation of the integer program
            first, second = designs[:, :, 0], designs[:, :, 1]
            weight = 0.02 / size**0.5
            rows = np.vstack([second - first, weight * np.eye(size)])
            wanted = np.concatenate([accuracies - first.sum(axis=1), weight * found[0][:, 1]])
            share = lsq_linear(rows, wanted, bounds=(0.0, 1.0), max_iter=30).x
            found.append(np.column_stack([1.0 - share, share]))
        return max(float((item.argmax(axis=1) == self.labels).mean()) for item in found)

    def _priors(self) -> Iterator[FloatArray]:
        """Yield what the card says about the class of each node, apart from the atlas."""
        logits, profile = self.logits[self.nodes], self.card.class_profile
        yield temperatures.apply(logits)
        if profile is None:
            return
        yield temperatures.apply(profile.calibrated(logits))
        cells = [int(profile.cells(row[None, :]).argmax()) for row in logits]
        likely = profile.counts[cells] + 0.1
        yield likely / likely.sum(axis=1, keepdims=True)

    def membership(self) -> tuple[float, float]:
        """Return the area under the curve of an attack on logits, and of one on features."""
        rows, card = np.concatenate([self.nodes, self.others]), self.card
        logits, evidence, moments = (
            self.logits[rows],
            card.reference.evidence,
            card.reference.moments,
        )
        z, p = centred(logits), temperatures.apply(logits)
        upper = np.triu_indices(card.num_classes)
        second = evidence.covariance + np.outer(evidence.mean, evidence.mean)
        means = moments.offsets + evidence.mean
        by_logits = [
            (z, evidence.mean),
            (z[:, upper[0]] * z[:, upper[1]], second[upper]),
            (np.eye(card.num_classes)[logits.argmax(axis=1)], evidence.predicted_shares),
            (p, moments.shares),
            ((p[:, :, None] * z[:, None, :]).reshape(len(z), -1), means * moments.shares[:, None]),
        ]
        features = self.graph.features[rows]
        dense = features if isinstance(features, np.ndarray) else features.toarray()
        std, sketch = card.probe.column_std, card.population.sketch
        columns = [column_sketch(unit, std, sketch.size) for unit in np.eye(std.size)]
        return self._area(by_logits), self._area([(dense @ np.array(columns), sketch)])

    def _area(self, parts: Sequence[tuple[FloatArray, FloatArray]]) -> float:
        """Return how well averages tell members, which come first, from other candidates."""
        contributions = np.hstack([rows for rows, _ in parts])
        published = np.concatenate([values.ravel() for _, values in parts])
        centre = contributions.mean(axis=0)
        moved = contributions - centre
        inverse = np.linalg.pinv(np.cov(moved.T), rcond=1e-6, hermitian=True)
        ranks = rankdata(moved @ inverse @ (published - centre))[: self.nodes.size]
        lowest = (self.nodes.size + 1) / 2
        return float((ranks.mean() - lowest) / (len(moved) - self.nodes.size))


def load(name: str) -> Graph:
    """Return a graph by name; the block model has 4,000 nodes."""
    if name != "block model":
        return graph_names.load(name)
    return csbm.sample(4000, degree=5, homophily=0.7, snr=0.8, num_features=16, seed=1)


def main() -> None:
    """Attack cards of every graph, size and budget, and print a table."""
    private = " | ".join(f"privacy={epsilon:g}" for epsilon in EPSILONS)
    print(
        f"| source | nodes | guess | labels | {private} | draws known | by logits | by features |"
    )
    print("| --- |" + " --: |" * (6 + len(EPSILONS)))
    for name in GRAPHS:
        graph = load(name)
        for size in SIZES:
            victim = Victim.draw(graph, size, None)
            cards = [victim, *(Victim.draw(graph, size, epsilon) for epsilon in EPSILONS)]
            found = [victim.guess(), *(card.recovered(known=False) for card in cards)]
            found += [victim.recovered(known=True), *victim.membership()]
            print(
                f"| {name} | {size:,} | {' | '.join(f'{item:.2f}' for item in found)} |", flush=True
            )


if __name__ == "__main__":
    main()
