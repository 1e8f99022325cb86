r"""A target read against a source card: its evidence, its signals, and the accuracy they imply.

**The natural prior.** Shifts that somebody draws (noise, rewiring, masking) leave the means of the
feature columns where they were. Shifts that happen (another month, country or release) move them.
An estimate that was learned from drawn shifts is then one opinion of three: another is that the
model is as right as its confidence says, and the third that it is a little over-confident, as
models under natural shift usually are. Let u, between 0 and 1, say whether column means have moved;
c be the log-odds of mean confidence at the source temperature; and m the atlas's centre. The answer
is centred at

.. math:: \hat\eta = c + (1 - (1 - w)\,u)\,(m - c) - s\,u, \qquad w = \frac{n^2}{n^2 + h^2},

and only a fraction 1 - u of an excess of the first two terms over c is kept. The weight w of the
atlas grows with the target's novelty n: confidence is hardly wrong near the source, and means
nothing on a graph that is like none of those it was calibrated on. The variance grows by

.. math:: \tau^2 \sqrt{u}\,(1 + \min(n, 5)^2)

and the interval reaches further down than up by the factor `lower_tail`. The estimate is the
median, which minimises the expected difference between mean confidence and accuracy. Without moved
column means nothing changes.

The four numbers are those of families of natural shift; ``graphtemper bench natural``
chooses them again, with every family left out in turn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from graphtemper._core.checks import FloatArray
from graphtemper._core.estimate import DEVIATIONS, Estimate
from graphtemper._core.numerics import log_odds, log_odds_variance, to_share
from graphtemper.card import earlier, environments
from graphtemper.card.card import SourceCard
from graphtemper.card.random_effects import CONSTANTS, Expected, expect
from graphtemper.card.response import Response
from graphtemper.errors import InputError, OtherClassesError
from graphtemper.signals import evidence
from graphtemper.signals.evidence import LEAD, Evidence, column_sketch
from graphtemper.signals.gains import Gains
from graphtemper.signals.observation import Observation
from graphtemper.signals.receptive_field import Sample

TAILS = 4.0
"""Degrees of freedom of the prior."""
# The 95 % quantile of a Student t with 4 degrees of freedom and scale 1.
_T_QUANTILE = 2.1318467863266495
# Farther than this from the atlas, nothing more is known about the error.
_FARTHEST = 5.0
# Log-odds beyond this are an accuracy of 0 or 1 in float64.
_FAR = 40.0
# Feature means have moved if class shares may have changed by this much, which no drawn noise, mask
# or change of edges looks like.
_MOVED = 0.0625
# Grid points at the prior's own scale, and points between the ends.
_OWN, _EVEN = 81, 81


@dataclass(frozen=True)
class Prior:
    """The accuracy before any label: a Student t on its log-odds, with two scales.

    ``centre`` is the median of the log-odds. The 90 % interval reaches 1.645 deviations up, as that
    of a normal does, and ``lower_tail`` times as far down.

    Examples
    --------
    >>> Prior(0.0, 0.3).estimate("atlas").value
    0.5
    """

    centre: float
    deviation: float
    lower_tail: float = 1.0

    def log_density(self, log_odds: FloatArray) -> FloatArray:
        """Return the logarithm of the density, up to a constant."""
        away = log_odds - self.centre
        side = np.where(away < 0.0, self.lower_tail, 1.0)  # half of the probability on each side
        square = (away / (side * self.deviation * DEVIATIONS / _T_QUANTILE)) ** 2
        return np.asarray(-0.5 * (TAILS + 1.0) * np.log1p(square / TAILS) - np.log(side))

    def quantiles(self, shares: FloatArray) -> FloatArray:
        """Return quantiles of the log-odds.

        Examples
        --------
        >>> Prior(0.0, 1.0, lower_tail=2.0).quantiles(np.array([0.05, 0.5, 0.95])).round(3).tolist()
        [-3.29, 0.0, 1.645]
        """
        from scipy.special import stdtrit

        scale = self.deviation * DEVIATIONS / _T_QUANTILE
        side = np.where(shares < 0.5, self.lower_tail, 1.0)
        return np.asarray(self.centre + side * scale * stdtrit(TAILS, shares))

    def grid(self) -> FloatArray:
        """Return log-odds at which to start: dense at the centre, then ever sparser."""
        steps = np.sinh(np.linspace(-5.3, 5.3, _OWN))  # to a hundred deviations
        own = self.centre + self.deviation * self.lower_tail * steps
        return np.unique(np.concatenate([own, np.linspace(-_FAR, _FAR, _EVEN)]))

    def estimate(self, method: str) -> Estimate:
        """Return the accuracy and its 90 % interval."""
        reach = DEVIATIONS * self.deviation
        steps = (-reach * self.lower_tail, 0.0, reach)
        low, value, high = (to_share(self.centre + step) for step in steps)
        return Estimate(value, low, high, method)


@dataclass(frozen=True)
class NaturalPrior:
    r"""Four numbers that say how to read a target whose feature means have moved.

    Attributes
    ----------
    halfway
        Novelty h at which the atlas and plain confidence count alike where column means have moved.
    shift
        Usual over-confidence s under natural shift, in log-odds.
    deviation
        Standard deviation :math:`\tau` of natural variation, in log-odds.
    lower_tail
        Factor by which the interval is longer below the estimate than above.
    """

    halfway: float = 2.0
    shift: float = 0.1
    deviation: float = 0.5
    lower_tail: float = 2.0

    def centre(self, confidence: float, atlas: float, fraction: float, novelty: float) -> float:
        """Return the log-odds of the accuracy.

        Parameters
        ----------
        confidence
            Log-odds of mean confidence at the source temperature.
        atlas
            Log-odds of the accuracy by the atlas.
        fraction
            Whether column means have moved, between 0 and 1.
        novelty
            Distance to the atlas; farther than `_FARTHEST` counts as that.

        Examples
        --------
        >>> prior = NaturalPrior()
        >>> prior.centre(2.0, 1.0, fraction=0.0, novelty=2.0)  # means did not move: the atlas
        1.0
        >>> prior.centre(2.0, 1.0, fraction=1.0, novelty=2.0)  # half of the way, minus 0.1
        1.4
        """
        far = min(novelty, _FARTHEST) ** 2
        weight = far / (far + self.halfway**2)
        centre = confidence + (1.0 - (1.0 - weight) * fraction) * (atlas - confidence)
        if centre > confidence:
            centre = confidence + (1.0 - fraction) * (centre - confidence)
        return float(centre - self.shift * fraction)

    def variance(self, novelty: float, fraction: float) -> float:
        """Return the variance that natural variation adds to the log-odds.

        Examples
        --------
        >>> NaturalPrior().variance(0.0, fraction=0.0), NaturalPrior().variance(1.0, fraction=1.0)
        (0.0, 0.5)
        """
        size = 1.0 + min(novelty, _FARTHEST) ** 2
        return float(self.deviation**2 * np.sqrt(fraction) * size)


NATURAL = NaturalPrior()


@dataclass(frozen=True, eq=False)
class Reading:
    """Evidence about an unlabelled target, in memory or in shards, compared with a card.

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
    earlier: FloatArray | None = None

    @property
    def blind(self) -> bool:
        """Whether the leading signal of the card cannot be measured on this target."""
        unreadable = self.gains is not None and self.gains.signal is None
        return unreadable and LEAD in self.response.names

    @cached_property
    def novelty(self) -> float:
        """Distance to the atlas, in units of how far left-out families lie from the others."""
        near = self.response.novelty(self.signals)
        return min([near, *(self._distance(item.signals) for item in self.card.environments)])

    def _distance(self, signals: dict[str, float]) -> float:
        """Return the distance to a labelled environment, in the unit of `novelty`."""
        apart = self.response.coordinates(self.signals) - self.response.coordinates(signals)
        return float(np.sqrt(apart @ apart)) / self.response.reach

    @cached_property
    def expected(self) -> Expected | None:
        """The accuracy predicted from the card's labelled environments; None without any."""
        card = self.card
        if not card.environments:
            return None
        moments = [(x.earlier, x.truth) for x in card.environments if x.earlier is not None]
        if self.earlier is not None and moments:
            return earlier.expect(moments, self.earlier, self.num_nodes)
        source = card.reference.accuracy
        sketch = None
        if self.moments is not None:
            std, size = card.probe.column_std, environments.SKETCH_SIZE
            sketch = column_sketch(self.moments[0], std, size).tolist()
        given = card.environments, self.response, source, self.signals, sketch
        known = environments.as_arrays(*given)
        estimates = np.array([log_odds(self.evidence.confidence), self.atlas_centre])
        constants = CONSTANTS.at(self.moved_fraction)
        return expect(known, estimates, self.num_nodes, constants, self.sampled)

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
    def prior(self) -> Prior:
        """The log-odds of the accuracy by the atlas and by the natural prior.

        With labelled environments in the card it is what they let expect (`expected`) instead.
        The variance adds up that of the response, the sampling errors of the n nodes here and of
        those that the card was built from, and natural variation.
        """
        if self.expected is not None:
            return Prior(self.expected.centre, self.expected.deviation)
        fraction, centre = self.moved_fraction, self.atlas_centre
        if fraction > 0.0:
            confidence = log_odds(self.evidence.confidence)
            centre = NATURAL.centre(confidence, centre, fraction, self.novelty)
        variance = self._variance(centre) + NATURAL.variance(self.novelty, fraction)
        lower_tail = 1.0 + (NATURAL.lower_tail - 1.0) * float(np.sqrt(fraction))
        return Prior(centre, float(np.sqrt(variance)), lower_tail)

    @property
    def atlas_centre(self) -> float:
        """Log-odds of the accuracy by the atlas."""
        return log_odds(self.card.reference.accuracy) + self.response.predict(self.signals)[0]

    @property
    def atlas_variance(self) -> float:
        """Variance of the log-odds by the atlas, without natural variation."""
        return self._variance(self.atlas_centre)

    def _variance(self, centre: float) -> float:
        """Return the variance of the response and of the sampling of both graphs' nodes."""
        card = self.card
        deviation = self.response.widening * self.response.predict(self.signals)[1]
        here = log_odds_variance(to_share(centre), self.num_nodes)
        source = log_odds_variance(card.reference.accuracy, card.effective_nodes)
        return float(deviation**2 + here + source + self.sampled)

    def numbers(self) -> dict[str, float]:
        """Return what was measured, each quantity once and on its natural scale.

        Signals that only the atlas holds are added: the accuracies that the class model and
        held-out edges imply, and the change of predicted shares.
        """
        found = {
            key: float(value)
            for key, value in self.evidence.to_dict().items()
            if isinstance(value, int | float)
        }
        if self.gains is not None:
            found["edge_accuracy"] = to_share(self.signals["edge agreement"])
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


def read(card: SourceCard, observation: Observation, sample: Sample | None = None) -> Reading:
    r"""Measure an observation, made at the source temperature, and compare it with the source.

    With a ``sample``, perturbed passes are those of a sample of the nodes. The signals are
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
    >>> observation = Observation(model, g, range(200, 400)).at(card.temperature)
    >>> bool(read(card, observation).novelty < 0.5)  # the source itself
    True
    """
    if observation.num_classes != card.num_classes:
        raise OtherClassesError(
            f"the card is for {card.num_classes} classes but the model gives "
            f"{observation.num_classes}."
        )
    if observation.temperature != card.temperature:
        raise InputError(
            f"the observation is at temperature {observation.temperature:g} but the card needs "
            f"{card.temperature:g}; pass observation.at(card.temperature)."
        )
    measured = evidence.measure(observation, card.probe, sample.observation if sample else None)
    flat = bool((observation.logits == observation.logits[:, :1]).all())
    reading = read_evidence(card, measured, observation.num_nodes, observation.own_moments, flat)
    if sample is None:
        return reading
    return replace(reading, sampled=sampling_variance(reading, sample.nodes.size, sample.num_links))


def read_evidence(
    card: SourceCard,
    measured: Evidence,
    num_nodes: int,
    moments: tuple[FloatArray, FloatArray] | None,
    flat: bool,
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
    """
    return Reading(
        card=card,
        evidence=measured,
        signals=evidence.read(measured, card.reference),
        response=card.response(measured.held is not None),
        gains=evidence.gains(measured, card.reference.evidence),
        num_nodes=num_nodes,
        moments=moments,
        flat=flat,
    )


def sampling_variance(reading: Reading, nodes: int, links: int) -> float:
    """Return the variance of the atlas's log-odds that is due to a sample of nodes and links."""
    reference, predict = reading.card.reference, reading.response.predict
    here = predict(reading.signals)[0]
    moved = (
        predict(evidence.read(item, reference))[0] for item in reading.evidence.moved(nodes, links)
    )
    return float(sum((there - here) ** 2 for there in moved))
