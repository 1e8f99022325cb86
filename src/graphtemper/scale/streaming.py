"""Logits in parts: one pass for their sums, a temperature, and one pass to write probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from math import exp
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import FloatArray
from graphtemper._core.files import atomic_write
from graphtemper._core.reproducible import stream
from graphtemper.card.reading import Reading
from graphtemper.graph.neighbourhoods import Rows
from graphtemper.recalibration.answer import Answer, from_reading
from graphtemper.recalibration.result import probabilities_at
from graphtemper.scale.engine import Engine, each
from graphtemper.scale.evidence.logit_sums import LogitSums
from graphtemper.scale.evidence.sums import limit, total
from graphtemper.scale.logits.confidence_sketch import REACH, ConfidenceSketch
from graphtemper.scale.logits.logit_tables import LogitParts, as_numbers, check_all
from graphtemper.scale.parquet import arrow
from graphtemper.signals import sampling
from graphtemper.signals.evidence import Probe
from graphtemper.signals.passes import mixed
from graphtemper.temperature.inverse import smallest_contribution
from graphtemper.temperature.scaling import nearest_defined

# Ranges of log T that overlap a little, as many as finite logits can need.
_STEP, _MOST_RANGES = 1.9 * REACH, 120
_MISSING = np.uint16(2**16 - 1)


Measure = Callable[[Any, FloatArray], Any]


class Pool(NamedTuple):
    """Random nodes, in increasing order, with their logits."""

    nodes: Rows
    logits: FloatArray


def over_batches(engine: Engine, parts: LogitParts, unit: float, measure: Measure) -> list[Any]:
    """Return what is measured of the names and the logits, over a unit, of each batch of rows."""
    found = each(engine, parts, _measured, parts=parts, unit=unit, measure=measure)
    return [item for part in found for item in part]


def _measured(part: int, *, parts: LogitParts, unit: float, measure: Any) -> list[Any]:
    return [measure(names, logits / unit) for names, logits in parts.batches(part) if len(logits)]


def sums_of(engine: Engine, parts: LogitParts, probe: Probe) -> LogitSums:
    """Return the sums of one pass over the logits."""
    work = partial(LogitSums.of, probe=probe)
    return LogitSums.total(over_batches(engine, parts, probe.temperature, work))


def survey(
    engine: Engine, parts: LogitParts, probe: Probe, size: int, seed: int
) -> tuple[LogitSums, NDArray[np.uint16], Pool]:
    """Return the sums of one pass over the logits, the classes of all nodes, and a random pool.

    The pool holds about ``size`` nodes: those whose hash is below a limit.
    """
    salt, most = sampling.salt(stream(seed, "pool of nodes")), limit(size / parts.num_nodes)
    work = partial(_seen, probe=probe, size=parts.num_nodes, salt=salt, most=most)
    found = over_batches(engine, parts, probe.temperature, work)
    sums, names, classes, *pool = zip(*found, strict=True)
    predicted = np.full(parts.num_nodes, _MISSING)
    for nodes, some in zip(names, classes, strict=True):
        predicted[nodes] = some
    check_all(predicted != _MISSING)
    drawn, logits = map(np.concatenate, pool)
    order = np.argsort(drawn)
    pool_logits = probe.temperature * logits[order]
    return LogitSums.total(sums), predicted, Pool(drawn[order].astype(np.int64), pool_logits)


def _seen(names: Any, logits: FloatArray, *, probe: Probe, size: int, salt: Any, most: Any) -> Any:
    nodes, classes = as_numbers(names, size), logits.argmax(axis=1).astype(np.uint16)
    inside = mixed(nodes.astype(np.uint64) + salt) <= most
    return LogitSums.of(names, logits, probe), nodes, classes, nodes[inside], logits[inside]


def answer(engine: Engine, parts: LogitParts, sums: LogitSums, reading: Reading) -> Answer:
    """Return the answer of the atlas about logits in parts, as `recalibrate` gives it."""
    unit, over = reading.card.probe.temperature, partial(over_batches, engine, parts)

    def smallest() -> float:
        return float(min(over(unit, lambda _, logits: smallest_contribution(logits))))

    def match(accuracy: float) -> tuple[float, str]:
        solve = partial(_match, over, unit, sums.sketch, accuracy)
        found = nearest_defined(accuracy, parts.num_classes, sums, smallest=smallest, match=solve)
        return unit * found[0], found[1]

    return from_reading(reading, match)


def _match(over: Any, unit: float, sketch: ConfidenceSketch, accuracy: float) -> float:
    """Return the temperature for an accuracy, relative to the unit, from one range or the next."""
    centre = 1.0
    for _ in range(_MOST_RANGES):
        found = sketch.match(accuracy)
        if found is not None:
            return centre * found
        centre *= exp(_STEP if sketch.mean_confidence(1.0) > accuracy else -_STEP)
        sketch = total(over(unit * centre, lambda _, logits: ConfidenceSketch.of(logits)))
    raise errors.range("the logits differ by too small or too large amounts; rescale the logits.")


def write_parts(engine: Engine, parts: LogitParts, temperature: float, folder: Path) -> float:
    """Write the probabilities of every part as one Parquet file; return mean confidence."""
    found = each(engine, parts, _write_part, parts=parts, temperature=temperature, folder=folder)
    return float(sum(found)) / parts.num_nodes


def _write_part(part: int, *, parts: LogitParts, temperature: float, folder: Path) -> float:
    found = ((nodes, probabilities_at(z, temperature)) for nodes, z in parts.batches(part))
    return write_probabilities(folder / parts.file_name(part), found)


def write_probabilities(path: Path, blocks: Iterable[tuple[NDArray[Any], FloatArray]]) -> float:
    """Write (nodes, probabilities) blocks as one Parquet file; return the sum of confidences.

    At least one block is needed, possibly without rows: a Parquet file has a schema.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "part.parquet"
    >>> write_probabilities(path, [(np.array([3]), np.array([[0.25, 0.75]]))])
    0.75
    >>> arrow("pyarrow.parquet").read_table(path).to_pydict()
    {'node': [3], 'probability_0': [0.25], 'probability_1': [0.75]}
    """
    confidence, writer, new = 0.0, None, arrow("pyarrow.parquet").ParquetWriter
    with atomic_write(path) as stream, ExitStack() as stack:
        for nodes, p in blocks:
            columns = {f"probability_{k}": column for k, column in enumerate(p.T)}
            table, known = arrow().table({"node": nodes} | columns), {"write_page_checksum": True}
            writer = writer or stack.enter_context(new(stream, table.schema, **known))
            writer.write_table(table)
            confidence += float(p.max(axis=1, initial=0.0).sum())
    return confidence
