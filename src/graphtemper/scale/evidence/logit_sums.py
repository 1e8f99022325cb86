"""Signals that need logits alone, as sums over nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphtemper import temperature as temperatures
from graphtemper._core.arrays import FloatArray
from graphtemper.scale.evidence.sums import Moments, Sums
from graphtemper.signals import pointwise as signals
from graphtemper.signals.covariances import centred
from graphtemper.signals.evidence import Evidence, Probe


@dataclass(frozen=True)
class LogitSums(Sums):
    """Sums over nodes of the logit signals of `graphtemper.signals.evidence`.

    Logits are divided by the source temperature. ``spread``, the largest difference of two logits
    of a node, is the only field that is not a sum.

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
    confidence: float
    confident: int
    certain: int
    predicted: NDArray[np.int64]
    top_gap: float
    spread: float

    @classmethod
    def of(cls, logits: FloatArray, probe: Probe) -> LogitSums:
        """Return the sums of logits (n, K)."""
        p = temperatures.apply(logits)
        confidence, entropy = signals.confidence(p), signals.entropy(p)
        return cls(
            moments=Moments.of(centred(logits)),
            confidence=float(confidence.sum()),
            confident=int((confidence >= probe.confidence_threshold).sum()),
            certain=int((-entropy >= probe.entropy_threshold).sum()),
            predicted=np.bincount(logits.argmax(axis=1), minlength=logits.shape[1]),
            top_gap=signals.mean_margin(logits) * len(logits),
            spread=float(np.ptp(logits, axis=1).max()),
        )

    def __add__(self, other: LogitSums) -> LogitSums:
        merged = super().__add__(other)
        object.__setattr__(merged, "spread", max(self.spread, other.spread))
        return merged

    def evidence(self, homophily: float | None, log_degree: float) -> Evidence:
        """Return the evidence of the sums and of two statistics of the graph."""
        count = self.moments.count
        return Evidence(
            confidence=self.confidence / count,
            confident_share=self.confident / count,
            certain_share=self.certain / count,
            mean=self.moments.mean,
            covariance=self.moments.covariance,
            predicted_shares=self.predicted / count,
            homophily=homophily,
            log_degree=log_degree,
            mean_abs_logit=self.top_gap / count,
        )
