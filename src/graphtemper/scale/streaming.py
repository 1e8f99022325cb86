"""Logits in parts: one pass for their sums, a temperature, and one pass to write probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from math import exp, log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray
from graphtemper._core.files import atomic_write
from graphtemper._core.reproducible import stream
from graphtemper.card.reading import Reading
from graphtemper.errors import DamagedError, RangeError, TableError
from graphtemper.graph.neighbourhoods import Rows
from graphtemper.recalibration.answer import from_atlas
from graphtemper.recalibration.result import Recalibration, probabilities_at
from graphtemper.scale.engine import Engine
from graphtemper.scale.evidence.logit_sums import LogitSums
from graphtemper.scale.evidence.sums import total
from graphtemper.scale.logits.confidence_sketch import REACH, ConfidenceSketch
from graphtemper.scale.logits.logit_tables import LogitParts, NamedParts, as_numbers, checksum
from graphtemper.scale.parquet import arrow
from graphtemper.signals import sampling
from graphtemper.signals.evidence import Probe, check_logit_size
from graphtemper.signals.passes import mixed
from graphtemper.temperature.inverse import smallest_contribution
from graphtemper.temperature.scaling import nearest_defined

# Ranges of log T that overlap a little, as many as finite logits can need.
_STEP, _MOST_RANGES = 1.9 * REACH, 120


@dataclass(frozen=True, eq=False)
class Pool:
    """Random nodes, in increasing order, with their logits at the source temperature."""

    nodes: Rows
    logits: FloatArray

    @property
    def strata(self) -> Rows:
        """The strata of the nodes by predicted class and confidence."""
        return sampling.strata(temperatures.apply(self.logits))


class Draw(NamedTuple):
    """Which nodes are in a pool: those whose hash with a salt is below a limit."""

    salt: np.uint64
    limit: np.uint64
    starts: list[int]


class Seen(NamedTuple):
    """What one pass over the logits shows: sums, rows per part, and the predicted classes."""

    sums: LogitSums
    counts: list[int]
    predicted: NDArray[np.uint16]
    pool: Pool


def sum_logits(engine: Engine, parts: LogitParts, probe: Probe) -> tuple[LogitSums, list[int]]:
    """Return the sums of all logits, and the number of rows of each part."""
    by_part = engine.map(partial(_sums, parts=parts, probe=probe, draw=None), range(len(parts)))
    found = [sums for sums, *_ in by_part if sums is not None]
    if not found:
        raise TableError("there are no rows of logits; every file is empty.")
    return total(found), [0 if sums is None else sums.count for sums, *_ in by_part]


def survey(
    engine: Engine, parts: LogitParts, probe: Probe, num_nodes: int, size: int, seed: int
) -> Seen:
    """Return what one pass over the logits of numbered nodes shows, with a pool of some of them."""
    sizes = parts.sizes()
    if sum(sizes) != num_nodes:
        raise DamagedError(
            f"there are {sum(sizes):,} rows of logits, but the graph has {num_nodes:,} nodes."
        )
    limit = min(int(size / num_nodes * 2.0**64), 2**64 - 1)
    salt = sampling.salt(stream(seed, "pool of nodes"))
    draw = Draw(salt, np.uint64(limit), [0, *accumulate(sizes)])
    by_part = engine.map(partial(_sums, parts=parts, probe=probe, draw=draw), range(len(parts)))
    found = [part for part in by_part if part[0] is not None]
    predicted, numbers = np.empty(num_nodes, np.uint16), 0
    for _, nodes, classes, _ in found:
        numbers += checksum(nodes)
        predicted[nodes] = classes
    if numbers % 2**64 != checksum(np.arange(num_nodes)):
        raise DamagedError(
            f"the column node of the logits must hold 0 to {num_nodes - 1}, each once; some are "
            "missing or repeated."
        )
    drawn = [pool for *_, pool in found]
    nodes, logits = (np.concatenate(column) for column in zip(*drawn, strict=True))
    order = np.argsort(nodes)
    counts = [0 if part[0] is None else part[0].count for part in by_part]
    return Seen(
        total([part[0] for part in found]), counts, predicted, Pool(nodes[order], logits[order])
    )


def _sums(part: int, *, parts: LogitParts, probe: Probe, draw: Draw | None) -> tuple[Any, ...]:
    batches, row, seen = [], 0, []
    for names, raw in parts.batches(part):
        if not len(raw):
            continue
        logits = raw / probe.temperature
        check_logit_size(logits, range(row, row + len(logits)))
        batches.append(LogitSums.of(logits, probe))
        if draw is not None:
            seen.append(_numbered(names, logits, draw, draw.starts[part] + row))
        row += len(logits)
    if not seen or draw is None:
        return (total(batches) if batches else None), None, None, None
    nodes, classes = (np.concatenate([item[k] for item in seen]) for k in (0, 1))
    pool = tuple(np.concatenate([item[k] for item in seen]) for k in (2, 3))
    return total(batches), nodes, classes, pool


def _numbered(names: Any, logits: FloatArray, draw: Draw, start: int) -> tuple[Any, ...]:
    """Return the nodes of a batch, their classes, and those that are in the pool."""
    count = draw.starts[-1]
    nodes = np.arange(start, start + len(logits)) if names is None else as_numbers(names)
    if nodes.dtype.kind not in "iu" or nodes.min() < 0 or nodes.max() >= count:
        raise TableError(f"the column node of the logits must hold integers from 0 to {count - 1}.")
    here = mixed(nodes.astype(np.uint64) + draw.salt) <= draw.limit
    classes = logits.argmax(axis=1).astype(np.uint16)
    return nodes, classes, nodes[here].astype(np.int64), logits[here]


def scaled_batches(parts: LogitParts, part: int, temperature: float) -> Iterator[FloatArray]:
    """Yield the logits of a part in batches of at least one row, divided by a temperature."""
    for _, logits in parts.batches(part):
        if len(logits):
            yield logits / temperature


def answer_from(
    engine: Engine, parts: LogitParts, sums: LogitSums, reading: Reading
) -> Recalibration:
    """Return the answer of the atlas about logits in parts, as `recalibrate` gives it."""
    unit, everywhere = reading.card.probe.temperature, range(len(parts))

    def smallest() -> float:
        return min(engine.map(partial(_smallest, parts=parts, unit=unit), everywhere))

    def match(accuracy: float) -> tuple[float, str]:
        solve = partial(_match, engine, parts, unit, sums.sketch, accuracy)
        return nearest_defined(accuracy, parts.num_classes, sums, smallest=smallest, match=solve)

    return from_atlas(reading, match)


def _smallest(part: int, *, parts: LogitParts, unit: float) -> float:
    found = (smallest_contribution(logits) for logits in scaled_batches(parts, part, unit))
    return min(found, default=np.inf)


def _match(
    engine: Engine, parts: LogitParts, unit: float, sketch: ConfidenceSketch, accuracy: float
) -> float:
    """Return the temperature for an accuracy, relative to the unit, from one range or the next."""
    centre = 1.0
    for _ in range(_MOST_RANGES):
        found = sketch.match(accuracy)
        if found is not None:
            return centre * found
        centre *= exp(_STEP if sketch.mean_confidence(1.0) > accuracy else -_STEP)
        work = partial(_sketch, parts=parts, temperature=unit * centre)
        sketches = engine.map(work, range(len(parts)))
        sketch = total([item for item in sketches if item is not None])
    raise RangeError("the logits differ by too small or too large amounts; rescale the logits.")


def mean_confidence(
    engine: Engine, parts: LogitParts, sums: LogitSums, answer: Recalibration
) -> float:
    """Return mean confidence at the answer's temperature, without writing anything."""
    if abs(log(answer.relative)) <= REACH:
        return sums.sketch.mean_confidence(answer.relative)
    work = partial(_confidences, parts=parts, temperature=answer.temperature)
    return float(sum(engine.map(work, range(len(parts)))) / sums.count)


def with_confidence(answer: Recalibration, after: float) -> Recalibration:
    """Return the answer with the mean confidence after recalibration."""
    return replace(answer, mean_confidence=(answer.mean_confidence[0], after))


def _confidences(part: int, *, parts: LogitParts, temperature: float) -> float:
    batches = scaled_batches(parts, part, temperature)
    return sum(float(probabilities_at(logits, 1.0).max(axis=1).sum()) for logits in batches)


def _sketch(part: int, *, parts: LogitParts, temperature: float) -> ConfidenceSketch | None:
    found = [ConfidenceSketch.of(logits) for logits in scaled_batches(parts, part, temperature)]
    return total(found) if found else None


def write_parts(
    engine: Engine, parts: NamedParts, counts: list[int], temperature: float, folder: Path
) -> float:
    """Write the probabilities of every part as one Parquet file; return mean confidence."""
    starts = [0, *accumulate(counts)]
    write = partial(_write_part, parts=parts, starts=starts, temperature=temperature, folder=folder)
    return float(sum(engine.map(write, range(len(parts)))) / sum(counts))


def _write_part(
    part: int, *, parts: NamedParts, starts: list[int], temperature: float, folder: Path
) -> float:
    def blocks() -> Iterator[tuple[Any, FloatArray]]:
        row = starts[part]
        for names, logits in parts.batches(part):
            nodes = np.arange(row, row + len(logits)) if names is None else names
            yield nodes, probabilities_at(logits, temperature)
            row += len(logits)

    return write_probabilities(folder / parts.file_name(part), blocks())


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
    pyarrow, parquet = arrow(), arrow("pyarrow.parquet")
    writer, confidence = None, 0.0
    with atomic_write(path) as stream:
        try:
            for nodes, p in blocks:
                columns = {f"probability_{k}": column for k, column in enumerate(p.T)}
                table = pyarrow.table({"node": nodes} | columns)
                if writer is None:
                    writer = parquet.ParquetWriter(stream, table.schema, write_page_checksum=True)
                writer.write_table(table)
                confidence += float(p.max(axis=1).sum())
        finally:
            if writer is not None:
                writer.close()
    return confidence
