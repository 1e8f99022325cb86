"""Signals that need logits alone, as sums over nodes."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray
from graphtemper.scale.evidence.sums import Moments
from graphtemper.scale.logits.confidence_sketch import ConfidenceSketch
from graphtemper.signals import pointwise as signals
from graphtemper.signals import sampling
from graphtemper.signals.covariances import centred
from graphtemper.signals.evidence import Evidence, Probe
from graphtemper.temperature.inverse import summarise


@dataclass(frozen=True)
class LogitSums:
    """Sums over nodes of the logit signals of `graphtemper.signals.evidence`.

    Logits are divided by the source temperature. ``spread``, the largest spread of the logits of a
    node, is the only field that is not a sum.

    Examples
    --------
    >>> from graphtemper.signals.evidence import Probe
    >>> probe = Probe(1.0, 0.3, np.ones(1), 0.8, -0.5, seed=0)
    >>> z = np.random.default_rng(0).standard_normal((100, 3))
    >>> parts = LogitSums.of(z[:40], probe) + LogitSums.of(z[40:], probe)
    >>> bool(np.isclose(parts.confidence / 100, temperatures.mean_confidence(z)))
    True
    """

    moments: Moments
    sketch: ConfidenceSketch
    confidence: float
    confident: int
    certain: int
    predicted: NDArray[np.int64]
    strata: NDArray[np.int64]
    top_gap: float
    coldest: float
    spread: float

    @classmethod
    def of(cls, logits: FloatArray, probe: Probe) -> LogitSums:
        """Return the sums of logits (n, K)."""
        (count, classes), p = logits.shape, temperatures.apply(logits)
        confidence, entropy = signals.confidence(p), signals.entropy(p)
        summary = summarise(logits, None)
        return cls(
            moments=Moments.of(centred(logits)),
            sketch=ConfidenceSketch.of(logits),
            confidence=float(confidence.sum()),
            confident=int((confidence >= probe.confidence_threshold).sum()),
            certain=int((-entropy >= probe.entropy_threshold).sum()),
            predicted=np.bincount(logits.argmax(axis=1), minlength=classes),
            strata=np.bincount(sampling.strata(p), minlength=sampling.num_strata(classes)),
            top_gap=signals.mean_margin(logits) * count,
            coldest=summary.confidence_limit * count,
            spread=summary.largest_spread,
        )

    def __add__(self, other: LogitSums) -> LogitSums:
        names = (item.name for item in fields(self) if item.name != "spread")
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return LogitSums(**sums, spread=max(self.spread, other.spread))

    @property
    def count(self) -> int:
        """Number of nodes."""
        return self.moments.count

    @property
    def largest_spread(self) -> float:
        """The largest spread of the logits of a node."""
        return self.spread

    @property
    def confidence_limit(self) -> float:
        """Mean confidence as T -> 0, less than 1 where top logits tie."""
        return self.coldest / self.count

    def evidence(self, homophily: float | None, log_degree: float) -> Evidence:
        """Return the evidence of the sums and of two statistics of the graph."""
        return Evidence(
            confidence=self.confidence / self.count,
            confident_share=self.confident / self.count,
            certain_share=self.certain / self.count,
            mean=self.moments.mean,
            covariance=self.moments.covariance,
            predicted_shares=self.predicted / self.count,
            homophily=homophily,
            log_degree=log_degree,
            mean_abs_logit=self.top_gap / self.count,
        )
