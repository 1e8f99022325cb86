"""Logits in parts: one pass for their sums, a temperature, and one pass to write probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from math import exp
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
from graphtemper.scale.logits.logit_tables import LogitParts, as_numbers
from graphtemper.scale.parquet import arrow
from graphtemper.signals import sampling
from graphtemper.signals.evidence import Probe, check_logit_size
from graphtemper.signals.passes import mixed
from graphtemper.temperature.inverse import smallest_contribution
from graphtemper.temperature.scaling import nearest_defined

# Ranges of log T that overlap a little, as many as finite logits can need.
_STEP, _MOST_RANGES = 1.9 * REACH, 120
_MISSING = np.uint16(2**16 - 1)


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
    """Which of the nodes 0 to N - 1 are in a pool: those whose hash is below a limit."""

    salt: np.uint64
    limit: np.uint64
    num_nodes: int

    @classmethod
    def of(cls, num_nodes: int, size: int, seed: int) -> Draw:
        """Return a draw of about ``size`` nodes."""
        limit = min(int(size / num_nodes * 2.0**64), 2**64 - 1)
        return cls(sampling.salt(stream(seed, "pool of nodes")), np.uint64(limit), num_nodes)

    def takes(self, nodes: Rows) -> NDArray[np.bool_]:
        """Return which of some nodes are in the pool."""
        return np.asarray(mixed(nodes.astype(np.uint64) + self.salt) <= self.limit)


class Seen(NamedTuple):
    """What one pass over the logits shows; classes and a pool only of numbered nodes."""

    sums: LogitSums
    predicted: NDArray[np.uint16]
    pool: Pool


def survey(engine: Engine, parts: LogitParts, probe: Probe, draw: Draw | None = None) -> Seen:
    """Return what one pass over the logits shows, with a pool of numbered nodes."""
    work = partial(_seen, parts=parts, probe=probe, draw=draw)
    found = [item for item in engine.map(work, range(len(parts))) if item is not None]
    if not found:
        raise TableError("there are no rows of logits; every file is empty.")
    sums, nodes, classes, drawn, logits = zip(*found, strict=True)
    predicted = np.full(0 if draw is None else draw.num_nodes, _MISSING)
    for own, some in zip(nodes, classes, strict=True):
        predicted[own] = some
    if (predicted == _MISSING).any():
        raise DamagedError(
            f"the column node of the logits must hold 0 to {predicted.size - 1}, each once, but "
            f"node {predicted.argmax()} is missing."
        )
    order = np.argsort(np.concatenate(drawn))
    pool = Pool(np.concatenate(drawn)[order], np.concatenate(logits)[order])
    return Seen(total(sums), predicted, pool)


def _seen(part: int, *, parts: LogitParts, probe: Probe, draw: Draw | None) -> Any:
    """Return the sums of a part, its nodes with their classes, and those in the pool; or None."""
    found, row = [], 0
    for names, raw in parts.batches(part):
        if not len(raw):
            continue
        logits, nodes = raw / probe.temperature, np.empty(0, np.int64)
        check_logit_size(logits, range(row, row + len(logits)))
        row += len(logits)
        if draw is not None:
            nodes = as_numbers(names, parts.file_name(part))
            if not 0 <= nodes.min() <= nodes.max() < draw.num_nodes:
                raise TableError(
                    f"{parts.file_name(part)}: the column node must hold integers from 0 to "
                    f"{draw.num_nodes - 1}, the numbers of the nodes."
                )
        here = np.zeros(0, bool) if draw is None else draw.takes(nodes)
        classes = logits[: nodes.size].argmax(axis=1).astype(np.uint16)
        inside = nodes[here].astype(np.int64), logits[: nodes.size][here]
        found.append((LogitSums.of(logits, probe), nodes, classes, *inside))
    if not found:
        return None
    sums, *columns = zip(*found, strict=True)
    return total(sums), *map(np.concatenate, columns)


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
        sketch = total(engine.map(work, range(len(parts))))
    raise RangeError("the logits differ by too small or too large amounts; rescale the logits.")


def _sketch(part: int, *, parts: LogitParts, temperature: float) -> ConfidenceSketch | None:
    batches = scaled_batches(parts, part, temperature)
    sketch: ConfidenceSketch | None = total([ConfidenceSketch.of(logits) for logits in batches])
    return sketch


def write_parts(engine: Engine, parts: LogitParts, temperature: float, folder: Path) -> float:
    """Write the probabilities of every part as one Parquet file; return mean confidence."""
    write = partial(_write_part, parts=parts, temperature=temperature, folder=folder)
    return sum(engine.map(write, range(len(parts)))) / parts.num_nodes


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
    tables = ((_table(nodes, p), float(p.max(axis=1, initial=0.0).sum())) for nodes, p in blocks)
    first, confidence = next(tables)
    writing = {"schema": first.schema, "write_page_checksum": True}
    with (
        atomic_write(path) as stream,
        arrow("pyarrow.parquet").ParquetWriter(stream, **writing) as writer,
    ):
        writer.write_table(first)
        for table, more in tables:
            writer.write_table(table)
            confidence += more
    return confidence


def _table(nodes: Any, p: FloatArray) -> Any:
    return arrow().table({"node": nodes} | {f"probability_{k}": x for k, x in enumerate(p.T)})
