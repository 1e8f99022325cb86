r"""A target read against a source card: its evidence, its signals, and the accuracy they imply.

**Features that moved.** Shifts that somebody draws (noise, rewiring, masking) leave the means of
the feature columns where they were; there the atlas answers. Shifts that happen (another month,
country or release) move them, and nothing unlabelled then tells the size of the drop: what the
classes mean may have changed. The smallest rule that held on families left out stands in: the model
is as right as its confidence at the source temperature says, or as its agreement with a second
opinion (`graphtemper.signals.second_opinion`) says if that is less,

.. math:: \hat\eta = (1 - u)\,m + u\,\big(\min(c, r) - \beta\,d\big), \qquad
          d = \max(\min(c, r) - s,\, 0), \qquad
          \mathrm{Var} = (1 - u)\,v + u\,\big(\tau^2 + (\beta\,d)^2\big),

in log-odds, with u between 0 and 1 for whether column means have moved, m and v the centre and the
variance by the atlas, c mean confidence, r the second opinion's estimate and s the accuracy at the
source. A model seldom gets better where its features moved, so of a *rise* d above the source the
share :math:`\beta = 0.75` is taken back, and is a further deviation: confidence beyond anything
seen gives a wide interval, not a high one. The deviation :math:`\tau = 0.75` is that of natural
families around the rule. Without a second opinion, c minus the usual over-confidence of 0.36 takes
the place of the minimum. A target that is unlike all shifts of the atlas gets the same deviation,
and the same is done with a rise of the atlas's answer there.

**Links without signal.** Features that belong to other nodes and edges that lead to other nodes
leave the same signals: neighbours agree no more than by chance. The accuracies differ, and nothing
unlabelled tells which one holds (`docs/theory/apart.md`). Such a target is recognised by the
covariances over edges and wedges (`graphtemper.signals.covariances`), and its interval contains
that of the atlas and the source's accuracy in both cases, which the card holds.

**What the model knows by heart.** A model that is nearly always right at its training nodes is
helped by them at their neighbours too, which no fresh graph has. Its signals are then larger at the
source than anywhere else, and the atlas exaggerates a drop. With the memory

.. math:: \mu = \mathrm{clip}\big(\tfrac12 (\operatorname{logit} a' - s) - 1,\ 0,\ 1\big),

where a' is the accuracy at labelled nodes outside the card, 0.15 of a drop is taken back and 0.2 of
it is a further deviation: of two models of the same block models with 10 and 20 classes, one asked
for a third of it and the other for nothing.

**Nothing to read.** Where the input is broken, all nodes have the same logits or the same features,
or the target is farther from the atlas than it reaches, the answer lies half way between guessing
and the source's accuracy, in log-odds, with a deviation of 1.5 and of as much as they are apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from graphtemper import errors
from graphtemper._core.checks import FloatArray
from graphtemper._core.estimate import DEVIATIONS, Estimate
from graphtemper._core.lazy import cached_property
from graphtemper._core.numerics import log_odds, log_odds_variance, to_share
from graphtemper.card import earlier, environments
from graphtemper.card.card import SourceCard
from graphtemper.card.random_effects import CONSTANTS, expect
from graphtemper.card.response import Response
from graphtemper.signals import changes, evidence
from graphtemper.signals.changes import Change, Profile
from graphtemper.signals.drift import column_sketch
from graphtemper.signals.evidence import LEAD, Evidence, Reference
from graphtemper.signals.gains import NEIGHBOURS, Gains
from graphtemper.signals.observation import Observation
from graphtemper.signals.sample import Sampled
from graphtemper.signals.second_opinion import moved_accuracy

ATLAS, USUAL, BROKEN = "atlas", "usual over-confidence", "broken input"
"""Methods of an estimate without labels of the target and without labelled environments."""
MOVED = 0.5
"""Share of a move of the feature means from which on the atlas no longer answers."""
# Feature means have moved if class shares may have changed by this much, which no drawn noise, mask
# or change of edges looks like.
_MOVED = 0.0625
# Deviation of the log-odds of accuracy in natural families around the rule for features that moved,
# and how far below mean confidence they usually lie. `graphtemper bench natural` measures both.
NATURAL_DEVIATION, USUAL_GAP = 0.75, 0.36
TAKEN_BACK = 0.75
"""Share of a rise above the source's accuracy that is taken back, and is a further deviation."""
MEMORY_TAKEN_BACK, MEMORY_DEVIATION = 0.15, 0.2
"""Shares of a drop below the source's accuracy, for a model that knows its source by heart."""
LARGEST_RISE = 4.0
"""A rise by more than this, in log-odds, is no larger: logits may be of any size."""
VAGUE = 1.5
"""Deviation of the log-odds of accuracy where there is nothing to read."""
NEAR, FAR = 1.5, 4.0
"""Novelty from which on a target is unlike the atlas, and at which the atlas says nothing."""
# Standard errors of a covariance over links from which on it is signal at the source, and below
# which it is none at a target; and the share of the source's that is none either.
_SIGNAL, _NO_SIGNAL, _NO_SHARE = 6.0, 3.0, 0.1
# How far beyond the ends, in log-odds, the interval of links without signal reaches: smoothed
# chance has groups of nodes right or wrong together, so that the ends of two graphs differ.
_MARGIN = 0.3
# The model does not read edges if the accuracy moves by less than this when they are dropped.
_SAME = 0.005
# Links that stand for a node in the sampling error of agreement over links.
_LINKS_PER_NODE = 2


@dataclass(frozen=True, eq=False)
class Reading:
    """Evidence about an unlabelled target, in memory or in files, compared with a card.

    Attributes
    ----------
    card
        The card.
    evidence, signals
        What was measured, and the few numbers that the atlas learns from.
    response
        The card's response surface for what could be measured.
    gains
        Gains of the signal against the source; None without a model.
    num_nodes
        Number of measured nodes.
    moments
        Mean and standard deviation of their feature columns; None if features are unknown.
    flat
        Whether every node's logits are all equal.
    sampled
        Variance of the log-odds by the atlas where signals are those of a sample of the nodes.
    profile
        Columns and edges of the target; None if the card or the target does not show them.
    earlier : (p,) array or None
        Means of the columns of `graphtemper.card.earlier`, if there are earlier labels.
    """

    card: SourceCard
    evidence: Evidence
    signals: dict[str, float]
    response: Response
    gains: Gains | None
    num_nodes: int
    moments: tuple[FloatArray, FloatArray] | None
    flat: bool
    sampled: float = 0.0
    profile: Profile | None = None
    earlier: FloatArray | None = None

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """What differs from the source, largest first."""
        card, source = self.card, self.card.reference
        seen = [item.signals["confidence"] for item in card.atlas]
        seen += [log_odds(item.confidence) for item in card.environments]
        shares = source.moments.shares
        moves = [np.zeros_like(shares), *(np.abs(x.shares - shares) for x in card.environments)]
        lost = [item.accuracy for item in card.atlas if item.families == {"drop"}]
        return changes.compare(
            card.columns,
            self.profile,
            source.evidence,
            self.evidence,
            seen,
            np.max(moves, axis=0),
            num_nodes=self.num_nodes,
            unlinked=self.unlinked,
            reads_edges=not lost or max(abs(x - source.accuracy) for x in lost) > _SAME,
        )

    @cached_property
    def broken(self) -> Change | None:
        """The largest change that no input that was meant has, if there is one."""
        return next((item for item in self.changes if item.broken), None)

    @property
    def blind(self) -> bool:
        """Whether the leading signal of the card cannot be measured on this target."""
        unreadable = self.gains is not None and self.gains.signal is None
        return unreadable and LEAD in self.response.names

    @property
    def constant(self) -> bool:
        """Whether all nodes have the same features."""
        return self.moments is not None and not np.any(self.moments[1] > 0.0)

    @property
    def unreadable(self) -> bool:
        """Whether nothing was measured that an accuracy could follow from.

        All nodes have the same features, which they had not at the source, or the leading signal
        cannot be measured and nothing else takes its place.
        """
        varied = self.num_nodes > 1 and np.any(self.card.probe.column_std > 0.0)
        return bool(self.constant and varied) or (self.blind and self.alone)

    @property
    def alone(self) -> bool:
        """Whether the atlas alone answers: without environments, and no feature means moved."""
        return self.expected is None and self.moved_fraction < MOVED

    @cached_property
    def unlinked(self) -> bool:
        """Whether links carry no signal here, and would show it if they did as at the source.

        At the source a covariance over links is more than 6 standard errors from 0, and by as much
        here if it were the same share of the variance of the logits. But all of them are within 3
        standard errors of 0, or a tenth of that share.
        """
        here, source = self.evidence, self.card.reference.evidence
        unit = float(np.trace(here.covariance)), float(np.trace(source.covariance))
        telling = False
        for name in NEIGHBOURS:
            now, then = getattr(here, name), getattr(source, name)
            if now is None or then is None or not now.error > 0.0:
                return False
            shown = abs(then.value) > _SIGNAL * then.error
            expected = abs(then.value) * unit[0] / unit[1] if shown and unit[1] > 0.0 else 0.0
            if abs(now.value) > max(_NO_SIGNAL * now.error, _NO_SHARE * expected):
                return False
            telling |= expected > _SIGNAL * now.error
        return telling

    @cached_property
    def novelty(self) -> float:
        """Distance to the atlas, in units of how far left-out families lie from the others."""
        near = self.response.novelty(self.signals)
        return min([near, *(self._distance(item.signals) for item in self.card.environments)])

    def _distance(self, signals: dict[str, float]) -> float:
        """Return the distance to a labelled environment, in the unit of `novelty`."""
        apart = self.response.coordinates(self.signals) - self.response.coordinates(signals)
        return float(np.sqrt(apart @ apart)) / self.response.reach

    @property
    def expected(self) -> Estimate | None:
        """The accuracy predicted from the card's labelled environments; None without any."""
        return self.expectation[0]

    @property
    def outlier(self) -> int | None:
        """The place of the labelled environment, if any, that does not go with the others."""
        return self.expectation[1]

    @cached_property
    def expectation(self) -> tuple[Estimate | None, int | None]:
        """What labelled environments let expect, and which of them is strange.

        Where feature means have not moved, the estimate that is corrected is that of the atlas.
        """
        known, measured = self.card.environments, self.evidence
        if not known:
            return None, None
        moments = [(x.earlier, x.truth) for x in known if x.earlier is not None]
        if self.earlier is not None and moments:
            return earlier.expect(moments, self.earlier, self.num_nodes), None
        sketch = None
        if self.moments is not None:
            std, size = self.card.probe.column_std, environments.SKETCH_SIZE
            sketch = column_sketch(self.moments[0], std, size).tolist()
        estimates = [
            self._opinions(item.confidence, item.signals, item.second_agreement) for item in known
        ]
        given = environments.as_arrays(
            known, np.array(estimates), self.response, self.signals, sketch
        )
        here = self._opinions(measured.confidence, self.signals, measured.second_agreement)
        usual = 1.0 - (1.0 - CONSTANTS.weight) * self.moved_fraction
        constants = replace(CONSTANTS, weight=usual)
        return expect(given, np.array(here), self.num_nodes, constants, self.sampled)

    def _opinions(
        self, confidence: float, signals: dict[str, float], agreement: float | None
    ) -> tuple[float, float]:
        """Return log-odds of the accuracy by confidence, and by second opinion and atlas."""
        source, claimed = self.card.reference, log_odds(confidence)
        atlas = log_odds(source.accuracy) + self.response.predict(signals)[0]
        second = second_estimate(claimed, source, agreement)
        return claimed, atlas + 0.5 * self.moved_fraction * (second - atlas)

    @cached_property
    def drift(self) -> float:
        """How far class shares may have moved unnoticed, judging by feature means.

        It is 0 if features are unknown; `moved_fraction` is then 1.
        """
        if self.moments is None:
            return 0.0
        std = self.card.probe.column_std
        return self.card.population.drift(*self.moments, self.num_nodes, std)

    @cached_property
    def moved_fraction(self) -> float:
        """Whether feature means have moved, between 0 and 1; 1 if features are unknown."""
        return 1.0 if self.moments is None else min(self.drift / _MOVED, 1.0)

    @cached_property
    def estimate(self) -> Estimate:
        """The accuracy before any label of the target, and what it rests on (``method``).

        With labelled environments in the card it is what they let expect (`expected`). Without, it
        is that of the atlas, or of the rule for features that moved (see above), with the sampling
        errors of the n nodes here and of those that the card was built from. If the input is
        broken, it may be almost anything.
        """
        if self.broken is not None:
            return self._vague(BROKEN)
        found = self._readable
        if self.flat or self.unreadable or (self.expected is None and self.novelty > FAR):
            return self._vague(found.method)
        return self._around_ends(found) if self.unlinked else found

    @cached_property
    def _readable(self) -> Estimate:
        """The estimate by what was measured, if that says anything."""
        if self.expected is not None:
            return self.expected
        moved = self.moved_fraction
        unlike = float(np.clip((self.novelty - NEAR) / (FAR - NEAR), 0.0, 1.0))
        beyond = unlike * TAKEN_BACK * self._rise(self.atlas_centre)
        drop = self.memory * max(log_odds(self.card.reference.accuracy) - self.atlas_centre, 0.0)
        atlas = self.atlas_centre - beyond + MEMORY_TAKEN_BACK * drop
        centre = (1.0 - moved) * atlas + moved * self.natural_centre
        response = (self.response.widening * self.response.predict(self.signals)[1]) ** 2
        response += beyond**2 + (MEMORY_DEVIATION * drop) ** 2
        variance = (1.0 - moved) * (response + self.measured_variance)
        taken = TAKEN_BACK * self._rise(self.usual_centre)
        variance += max(moved, unlike) * NATURAL_DEVIATION**2
        variance += moved * (taken**2 + unlike * VAGUE**2)
        deviation = float(np.sqrt(variance + self._sampling_variance(centre)))
        return Estimate.of_log_odds(centre, deviation, USUAL if moved >= MOVED else ATLAS)

    def _vague(self, method: str) -> Estimate:
        """Return an accuracy about which only guessing and the source's are known."""
        reference = self.card.reference
        ends = log_odds(reference.chance), log_odds(reference.accuracy)
        deviation = np.hypot(VAGUE, 0.5 * abs(ends[1] - ends[0]) / DEVIATIONS)
        return Estimate.of_log_odds(0.5 * (ends[0] + ends[1]), float(deviation), method)

    def _around_ends(self, found: Estimate) -> Estimate:
        """Return an estimate whose interval contains one and both accuracies without link signal.

        An older card lacks these; guessing and the source's accuracy take their place.
        """
        reference, reach = self.card.reference, DEVIATIONS * found.deviation
        ends = self.card.ends.known
        if len(ends) < 2:
            ends = (*ends, reference.chance, reference.accuracy)
        likely = [log_odds(end) + step for end in ends for step in (-_MARGIN, _MARGIN)]
        low = min(found.centre - reach, *likely)
        high = max(found.centre + reach, *likely)
        middle, deviation = 0.5 * (low + high), 0.5 * (high - low) / DEVIATIONS
        return Estimate.of_log_odds(middle, deviation, found.method)

    @cached_property
    def memory(self) -> float:
        """Whether the model knows the nodes that it was trained on by heart, between 0 and 1."""
        if self.card.elsewhere is None:
            return 0.0
        gap = log_odds(self.card.elsewhere) - log_odds(self.card.reference.accuracy)
        return float(np.clip(0.5 * gap - 1.0, 0.0, 1.0))

    @property
    def usual_centre(self) -> float:
        """Log-odds of the accuracy by confidence or the second opinion, whichever is lower."""
        claimed = log_odds(self.evidence.confidence)
        agreement = self.evidence.second_agreement
        return min(claimed, second_estimate(claimed, self.card.reference, agreement))

    @property
    def natural_centre(self) -> float:
        """Log-odds of the accuracy where features moved: most of a rise is taken back."""
        source, rise = log_odds(self.card.reference.accuracy), self._rise(self.usual_centre)
        return min(self.usual_centre, source + rise) - TAKEN_BACK * rise

    def _rise(self, centre: float) -> float:
        """Return how far log-odds lie above those of the source's accuracy, within reason."""
        rise = centre - log_odds(self.card.reference.accuracy)
        return float(np.clip(rise, 0.0, LARGEST_RISE))

    @property
    def atlas_centre(self) -> float:
        """Log-odds of the accuracy by the atlas."""
        return log_odds(self.card.reference.accuracy) + self.response.predict(self.signals)[0]

    @property
    def atlas_variance(self) -> float:
        """Variance of the log-odds by the atlas, without natural variation."""
        deviation = self.response.widening * self.response.predict(self.signals)[1]
        known = deviation**2 + self._sampling_variance(self.atlas_centre)
        return known + self.measured_variance

    @cached_property
    def measured_variance(self) -> float:
        """Variance of the log-odds by the atlas because signals are averages over n nodes.

        Other nodes of the same population would have shown others, at the target as at the source.
        """
        own = sampling_variance(self, self.num_nodes, _LINKS_PER_NODE * self.num_nodes)
        return max(self.sampled, own)

    def _sampling_variance(self, centre: float) -> float:
        """Return the variance that is due to the sampling of both graphs' nodes."""
        card = self.card
        here = log_odds_variance(to_share(centre), self.num_nodes)
        return float(here + log_odds_variance(card.reference.accuracy, card.effective_nodes))

    def numbers(self) -> dict[str, float]:
        """Return what was measured, each quantity once and on its natural scale.

        Signals that only the atlas holds are added: the accuracy that the class model implies, and
        the change of predicted shares.
        """
        found = {
            key: float(value)
            for key, value in self.evidence.to_dict().items()
            if isinstance(value, int | float)
        }
        if self.gains is not None:
            found["predicted_shares_change"] = self.signals["predicted shares"]
            if self.gains.signal is not None:
                found["signal_accuracy"] = to_share(self.signals[LEAD])
        return found

    def nearest_families(self) -> list[tuple[str, float]]:
        """Return each family's distance to the target, through its nearest environment.

        Distances are in atlas standard deviations; the family ``none`` is the source itself.
        """
        x = self.response.coordinates(self.signals)
        distance = np.sqrt(((self.response.points - x) ** 2).sum(axis=1))
        best: dict[str, float] = {"none": float(np.sqrt((x**2).sum()))}
        for item, value in zip(self.card.atlas, distance, strict=True):
            if len(item.families) == 1:
                name = next(iter(item.families))
                best[name] = min(best.get(name, np.inf), float(value))
        return sorted(best.items(), key=lambda pair: pair[1])


def second_estimate(claimed: float, source: Reference, agreement: float | None) -> float:
    """Return the log-odds of the accuracy by agreement with the second opinion at a target.

    Without one it is mean confidence, ``claimed`` in log-odds, minus the usual over-confidence.
    """
    at_source = source.evidence.second_agreement
    if agreement is None or at_source is None:
        return claimed - USUAL_GAP
    return log_odds(moved_accuracy(source.accuracy, at_source, agreement))


def read(
    card: SourceCard,
    observation: Observation,
    sampled: Sampled | None = None,
) -> Reading:
    r"""Measure an observation and compare it with the source.

    With ``sampled`` evidence, perturbed passes are those of a sample of the nodes. The signals are
    functions of a few averages, each with a standard error :math:`s_k` over the sampled nodes or
    links, and the answer's variance grows by
    :math:`\sum_k ( \eta(q + s_k e_k) - \eta(q) )^2`, where :math:`\eta` are the log-odds of the
    accuracy by the atlas and q the averages.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(400, degree=6, homophily=0.8, snr=1.0, num_features=6, seed=1)
    >>> model = SIGN(hops=1).fit(g, range(200))
    >>> few = {"noise": (0.5, 1.0), "drop": (0.5,), "rewire": (0.3,)}
    >>> card = SourceCard.build(model, g, range(200, 400), compositions=0, shifts=few)
    >>> observation = Observation(model, g, range(200, 400))
    >>> bool(read(card, observation).novelty < 0.5)  # the source itself
    True
    """
    if observation.num_classes != card.num_classes:
        raise errors.other_classes(
            f"the card is for {card.num_classes} classes but the model gives "
            f"{observation.num_classes}."
        )
    shown = None if sampled is None else sampled.evidence
    measured = evidence.measure(observation, card.probe, shown)
    flat = bool((observation.logits == observation.logits[:, :1]).all())
    given = observation.num_nodes, observation.own_moments, flat
    profile = None
    if card.columns is not None:
        profile = card.columns.profile(observation.graph, observation.nodes, given[1])
    reading = read_evidence(card, measured, *given, profile)
    if sampled is None:
        return reading
    variance = sampling_variance(reading, sampled.num_nodes, int(sampled.worth))
    return replace(reading, sampled=variance)


def read_evidence(
    card: SourceCard,
    measured: Evidence,
    num_nodes: int,
    moments: tuple[FloatArray, FloatArray] | None,
    flat: bool,
    profile: Profile | None = None,
) -> Reading:
    """Compare evidence, measured as the card's probe says, with the source's.

    Parameters
    ----------
    card, measured
        The card, and the evidence of the target.
    num_nodes
        Number of measured nodes.
    moments
        Mean and standard deviation of their feature columns; None if features are unknown.
    flat
        Whether every node's logits are all equal.
    profile
        Columns and edges, if more than their moments is known.
    """
    if profile is None and card.columns is not None and moments is not None:
        profile = card.columns.of_moments(moments, num_nodes)
    target = evidence.gains(measured, card.reference.evidence)
    return Reading(
        card=card,
        evidence=measured,
        signals=_signals(card, measured, target, num_nodes),
        response=card.response(measured.held is not None),
        gains=target,
        num_nodes=num_nodes,
        moments=moments,
        flat=flat,
        profile=profile,
    )


def _signals(
    card: SourceCard, measured: Evidence, target: Gains | None, num_nodes: int
) -> dict[str, float]:
    by_chance = 1.0 / num_nodes + 1.0 / card.num_nodes
    return evidence.signals_of(measured, card.reference, target, by_chance)


def sampling_variance(reading: Reading, nodes: int, links: int) -> float:
    """Return the variance of the atlas's log-odds that is due to a sample of nodes and links."""
    card, predict, known = reading.card, reading.response.predict, reading.gains
    here = predict(reading.signals)[0]
    variance = 0.0
    for moved, is_covariance in reading.evidence.moved(nodes, links):
        target = evidence.gains(moved, card.reference.evidence) if is_covariance else known
        there = predict(_signals(card, moved, target, reading.num_nodes))[0]
        variance += (there - here) ** 2
    return float(variance)
