"""Signals that need logits alone, as sums over nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from graphtemper import errors
from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray
from graphtemper.scale.evidence.sums import Moments, total
from graphtemper.scale.logits.confidence_sketch import ConfidenceSketch
from graphtemper.signals import pointwise as signals
from graphtemper.signals.covariances import centred
from graphtemper.signals.evidence import Evidence, Probe, check_logit_size
from graphtemper.temperature.inverse import summarise


class LogitSums(NamedTuple):
    """Sums over nodes of the logit signals of `graphtemper.signals.evidence`.

    Logits are divided by the source temperature. ``sums`` are those of the margin, of confidence as
    T -> 0, of confidence, of whether confidence and entropy are beyond the thresholds of the probe,
    and of the predicted classes. ``spread``, the largest spread of the logits of a node, is the
    only field that is not a sum.

    Examples
    --------
    >>> from graphtemper.signals.evidence import Probe
    >>> probe = Probe(1.0, 0.3, np.ones(1), 0.8, -0.5, seed=0)
    >>> z = np.random.default_rng(0).standard_normal((100, 3))
    >>> parts = [LogitSums.of(range(50), rows, probe) for rows in np.split(z, 2)]
    >>> whole = LogitSums.total(parts).evidence(None, 0.0)
    >>> bool(np.isclose(whole.confidence, temperatures.mean_confidence(z)))
    True
    """

    moments: Moments
    sketch: ConfidenceSketch
    sums: FloatArray
    spread: float

    @classmethod
    def of(cls, names: Any, logits: FloatArray, probe: Probe) -> LogitSums:
        """Return the sums of logits (n, K) of nodes with these names."""
        check_logit_size(logits, names)
        (count, classes), p = logits.shape, temperatures.apply(logits)
        confidence, summary = signals.confidence(p), summarise(logits, None)
        means = signals.mean_margin(logits), summary.confidence_limit, confidence.mean()
        sure = (confidence >= probe.confidence_threshold).sum()
        certain = (-signals.entropy(p) >= probe.entropy_threshold).sum()
        predicted = np.bincount(logits.argmax(axis=1), minlength=classes)
        sums = np.array([*np.multiply(means, count), sure, certain, *predicted])
        moments, sketch = Moments.of(centred(logits)), ConfidenceSketch.of(logits)
        return cls(moments, sketch, sums, summary.largest_spread)

    @classmethod
    def total(cls, parts: Sequence[LogitSums]) -> LogitSums:
        """Return the sums of parts, in their order."""
        if not parts:
            raise errors.table("there are no rows of logits; every file is empty.")
        moments, sketches, sums, spread = zip(*parts, strict=True)
        return cls(total(moments), total(sketches), total(sums), max(spread))

    @property
    def largest_spread(self) -> float:
        """The largest spread of the logits of a node."""
        return self.spread

    @property
    def confidence_limit(self) -> float:
        """Mean confidence as T -> 0, less than 1 where top logits tie."""
        return float(self.sums[1]) / self.moments.count

    def evidence(self, homophily: float | None, log_degree: float | None) -> Evidence:
        """Return the evidence of the sums and of two statistics of the graph."""
        margin, _, confidence, confident, certain, *shares = self.sums / self.moments.count
        return Evidence(
            confidence=round(float(confidence), 12),  # whatever the batches
            confident_share=float(confident),
            certain_share=float(certain),
            mean=self.moments.mean,
            covariance=self.moments.covariance,
            predicted_shares=np.array(shares),
            homophily=homophily,
            log_degree=log_degree,
            mean_abs_logit=float(margin),
        )
