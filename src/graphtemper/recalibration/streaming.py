"""Logits in parts: one pass for their sums, and a temperature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import exp
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import FloatArray
from graphtemper._core.reproducible import mixed, stream
from graphtemper.card.reading import Reading
from graphtemper.recalibration.answer import Answer, from_reading
from graphtemper.scale.confidence_sketch import REACH, ConfidenceSketch
from graphtemper.scale.engine import Engine, each
from graphtemper.scale.logit_tables import LogitParts, as_numbers, check_all
from graphtemper.scale.sums import limit, total
from graphtemper.signals import sampling
from graphtemper.signals.evidence import LogitSums, Probe
from graphtemper.signals.sample import Pool
from graphtemper.temperature.inverse import smallest_contribution, summarise
from graphtemper.temperature.scaling import nearest_defined

# Ranges of log T that overlap a little, as many as finite logits can need.
_STEP, _MOST_RANGES = 1.9 * REACH, 120
_MISSING = np.uint16(2**16 - 1)


Measure = Callable[[Any, FloatArray], Any]


class Streamed(NamedTuple):
    """Sums over the rows of logits: those of their evidence, and what a temperature needs.

    ``ties`` is the sum of confidence as T -> 0, less than one per row where top logits tie, and
    ``largest_spread`` the largest spread of the logits of a row. Both, as the sketch, are of logits
    in units of the source temperature.
    """

    logits: LogitSums
    sketch: ConfidenceSketch
    ties: float
    largest_spread: float

    @classmethod
    def of(cls, names: Any, logits: FloatArray, probe: Probe) -> Streamed:
        """Return the sums of raw logits (n, K) of nodes with these names."""
        sums = LogitSums.of(names, logits, probe)
        logits = logits / probe.temperature
        summary = summarise(logits, None)
        ties = summary.confidence_limit * len(logits)
        return cls(sums, ConfidenceSketch.of(logits), ties, summary.largest_spread)

    @classmethod
    def total(cls, parts: Sequence[Streamed]) -> Streamed:
        """Return the sums of parts, in their order."""
        if not parts:
            raise errors.table("there are no rows of logits; every file is empty.")
        sums, sketches, ties, spreads = zip(*parts, strict=True)
        return cls(LogitSums.total(sums), total(sketches), total(ties), max(spreads))

    @property
    def spread(self) -> float:
        """The largest spread, which is zero if every row's logits are all equal."""
        return self.largest_spread

    @property
    def flat(self) -> bool:
        """Whether every row's logits are all equal."""
        return self.largest_spread == 0.0

    @property
    def confidence_limit(self) -> float:
        """Mean confidence as T -> 0."""
        return self.ties / self.logits.moments.count


def over_batches(engine: Engine, parts: LogitParts, unit: float, measure: Measure) -> list[Any]:
    """Return what is measured of the names and the logits, over a unit, of each batch of rows."""
    found = each(engine, parts, _measured, parts=parts, unit=unit, measure=measure)
    return [item for part in found for item in part]


def _measured(part: int, *, parts: LogitParts, unit: float, measure: Any) -> list[Any]:
    return [measure(names, logits / unit) for names, logits in parts.batches(part) if len(logits)]


def sums_of(engine: Engine, parts: LogitParts, probe: Probe) -> Streamed:
    """Return the sums of one pass over the logits."""
    work = partial(Streamed.of, probe=probe)
    return Streamed.total(over_batches(engine, parts, 1.0, work))


def survey(
    engine: Engine, parts: LogitParts, probe: Probe, size: int, seed: int
) -> tuple[Streamed, NDArray[np.uint16], Pool]:
    """Return the sums of one pass over the logits, the classes of all nodes, and a random pool.

    The pool holds about ``size`` nodes: those whose hash is below a limit.
    """
    salt, most = sampling.salt(stream(seed, "pool of nodes")), limit(size / parts.num_nodes)
    work = partial(_seen, probe=probe, size=parts.num_nodes, salt=salt, most=most)
    found = over_batches(engine, parts, 1.0, work)
    sums, names, classes, *pool = zip(*found, strict=True)
    predicted = np.full(parts.num_nodes, _MISSING)
    for nodes, some in zip(names, classes, strict=True):
        predicted[nodes] = some
    check_all(predicted != _MISSING)
    drawn, logits = map(np.concatenate, pool)
    order = np.argsort(drawn)
    return Streamed.total(sums), predicted, Pool(drawn[order].astype(np.int64), logits[order])


def _seen(names: Any, logits: FloatArray, *, probe: Probe, size: int, salt: Any, most: Any) -> Any:
    nodes, classes = as_numbers(names, size), logits.argmax(axis=1).astype(np.uint16)
    inside = mixed(nodes.astype(np.uint64) + salt) <= most
    return Streamed.of(names, logits, probe), nodes, classes, nodes[inside], logits[inside]


def answer(engine: Engine, parts: LogitParts, sums: Streamed, reading: Reading) -> Answer:
    """Return the answer of the atlas about logits in parts, as `recalibrate` gives it."""
    unit, over = reading.card.probe.temperature, partial(over_batches, engine, parts)

    def smallest() -> float:
        return float(min(over(unit, lambda _, logits: smallest_contribution(logits))))

    def match(accuracy: float) -> tuple[float, str]:
        solve = partial(match_confidence, over, unit, sums.sketch, accuracy)
        found = nearest_defined(accuracy, parts.num_classes, sums, smallest=smallest, match=solve)
        return unit * found[0], found[1]

    return from_reading(reading, match)


def match_confidence(over: Any, unit: float, sketch: ConfidenceSketch, accuracy: float) -> float:
    """Return the temperature for an accuracy, relative to the unit, from one range or the next."""
    centre = 1.0
    for _ in range(_MOST_RANGES):
        found = sketch.match(accuracy)
        if found is not None:
            return centre * found
        centre *= exp(_STEP if sketch.mean_confidence(1.0) > accuracy else -_STEP)
        sketch = total(over(unit * centre, lambda _, logits: ConfidenceSketch.of(logits)))
    raise errors.range("the logits differ by too small or too large amounts; rescale the logits.")
