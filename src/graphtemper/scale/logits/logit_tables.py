"""Logits that already live as Parquet, from any model and any job: recalibrated without the graph.

One pass over the files for statistics, where `estimate_logits` stops, and one to write
probabilities. From logits alone a card reads confidence signals only, and without features nothing
shows how far class shares have moved: the answer says so, and the verdict is at most ``caution``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper.card.card import SourceCard
from graphtemper.errors import FileError, InputError
from graphtemper.models.predictor import checked_logits
from graphtemper.recalibration.reading import ReadEvidence
from graphtemper.recalibration.reasons import Reason, ReasonCode
from graphtemper.scale.answering import (
    ShardedAnswer,
    ShardedRecalibration,
    filed,
    told,
    with_confidence,
)
from graphtemper.scale.conversion.tables import (
    are_lists_of_numbers,
    arrow,
    check_same_columns,
    is_text,
    no_rows,
    numbers,
    parquet_file,
    parquet_files,
)
from graphtemper.scale.engine import Engine, Serial
from graphtemper.scale.evidence.logit_sums import LogitSums
from graphtemper.scale.evidence.sums import Sums, total
from graphtemper.scale.logits.confidence_sketch import REACH, ConfidenceSketch
from graphtemper.scale.matching import Ends, match_confidence, smallest_gap
from graphtemper.scale.probability_files import (
    check_parquet,
    probabilities,
    write_answer,
    write_part,
)
from graphtemper.scale.storage.output_directory import atomic_directory
from graphtemper.scale.storage.parquet import check_footer, written_out
from graphtemper.scale.storage.shards import VALUES_AT_ONCE
from graphtemper.signals.evidence import Probe
from graphtemper.temperature.matching import nearest_defined

NODE, LIST = "node", "logits"
_NAMES_AT_ONCE = 200_000
_NO_FEATURES = Reason(
    ReasonCode.FEATURES_UNKNOWN,
    "the features are not known here, so nothing shows whether class shares have moved; they are "
    "taken to be the source's.",
)


class LogitParts(Protocol):
    """Logits in parts, each of which is read a batch at a time."""

    @property
    def num_classes(self) -> int:
        """Columns of the logits."""

    def __len__(self) -> int:
        """Return the number of parts."""

    def batches(self, shard: int) -> Iterator[tuple[Any, FloatArray]]:
        """Yield the nodes, where they are named, and the logits of a part."""


def pieces(parts: LogitParts, shard: int, temperature: float) -> Iterator[FloatArray]:
    """Yield the logits of a part, divided by a temperature, a batch at a time."""
    for _, logits in parts.batches(shard):
        yield logits / temperature


@dataclass(frozen=True)
class LogitTables:
    """Parquet files with one row a node: ``logit_0``, ``logit_1``, ..., or one list ``logits``.

    A column ``node`` names the nodes in the result; without it they are numbered in the order of
    the files' names.
    """

    files: tuple[Path, ...]
    num_classes: int

    @classmethod
    def open(cls, path: str | os.PathLike[str], num_classes: int) -> LogitTables:
        """Check that all files are there, whole, and have the same columns."""
        files = parquet_files(Path(path).absolute())  # workers may be in other places
        names = parquet_file(files[0]).schema_arrow.names
        check_same_columns(files, names)
        made = cls(tuple(files), num_classes)
        made._columns(names)
        return made

    def _columns(self, names: Sequence[str]) -> list[str]:
        if LIST in names:
            return [LIST]
        found = [name for name in names if re.fullmatch(r"logit_\d+", name)]
        if not found:
            raise FileError(
                f"{self.files[0].name} has neither columns logit_0, logit_1, ... nor a list logits."
            )
        wanted = [f"logit_{k}" for k in range(self.num_classes)]
        if sorted(found) != sorted(wanted):
            raise FileError(
                f"{self.files[0].name} has {len(found)} columns of logits, but the card is for "
                f"{self.num_classes} classes: name them logit_0 to {wanted[-1]}, without others."
            )
        return wanted

    def __len__(self) -> int:
        return len(self.files)

    def no_rows(self, shard: int) -> tuple[Any, FloatArray]:
        """Return the nodes, of the type they have in a file, and the logits of no row."""
        schema = parquet_file(self.files[shard]).schema_arrow
        named = NODE in schema.names
        nodes = arrow().array([], schema.field(NODE).type) if named else np.empty(0, np.int64)
        return nodes, np.empty((0, self.num_classes))

    def batches(self, shard: int) -> Iterator[tuple[NDArray[Any] | None, FloatArray]]:
        """Yield the nodes, where they are named, and the logits of a file, a batch at a time."""
        path = self.files[shard]
        kinds = parquet_file(path).schema_arrow
        named, columns, rows = NODE in kinds.names, self._columns(kinds.names), 0
        file = parquet_file(path, listed=[NODE] if named and is_text(kinds.field(NODE)) else [])
        self._check_types(file, columns, path)
        a_row = self.num_classes if columns == [LIST] else 1
        values = dict.fromkeys(columns, a_row) | ({NODE: 1} if named else {})
        check_footer(file, path, values)
        step = max(VALUES_AT_ONCE // self.num_classes, 1)
        step = min(step, _NAMES_AT_ONCE) if named else step
        try:
            for batch in file.iter_batches(batch_size=step, columns=list(values)):
                if not batch.num_rows:
                    continue
                nodes = written_out(batch[NODE], kinds.field(NODE).type, path) if named else None
                yield nodes, self._logits(batch, columns, path, rows)
                rows += batch.num_rows
        except FileError:
            raise
        except (OSError, ValueError, arrow().ArrowException) as error:
            raise FileError(f"{path} is truncated or damaged.") from error

    def _check_types(self, file: Any, columns: list[str], path: Path) -> None:
        empty = no_rows(file, columns)
        if columns != [LIST]:
            numbers(empty, columns, path)
        elif not are_lists_of_numbers(empty[LIST].type):
            raise FileError(
                f"{path}: the column logits must hold one list of {self.num_classes} numbers "
                f"a row, not {empty[LIST].type}."
            )

    def _logits(self, batch: Any, columns: list[str], path: Path, start: int) -> FloatArray:
        if columns == [LIST]:
            column = batch.column(LIST)
            lengths = arrow("pyarrow.compute").list_value_length(column).to_numpy(False)
            if column.null_count or not (lengths == self.num_classes).all():
                raise FileError(f"{path}: every list must hold {self.num_classes} logits.")
            values = column.flatten().to_numpy(zero_copy_only=False).reshape(-1, self.num_classes)
        else:
            values = numbers(batch, columns, path)
        try:
            return checked_logits(values, batch.num_rows)
        except InputError as error:
            raise FileError(f"{path}, from row {start} on: {error}") from error


@dataclass(frozen=True)
class _Statistics(Sums):
    sums: LogitSums
    ends: Ends
    sketch: ConfidenceSketch


def recalibrate_logits(
    tables: str | os.PathLike[str],
    card: SourceCard,
    out: str | os.PathLike[str],
    *,
    engine: Engine | None = None,
    moments: tuple[FloatArray, FloatArray] | None = None,
) -> ShardedRecalibration:
    """Recalibrate logits that live as Parquet files, without the graph and without the model.

    Parameters
    ----------
    tables
        A Parquet file, or a directory of them; see `LogitTables`.
    card
        The source card.
    out
        A new directory for the probabilities: files of the same names, and ``_answer.json``.
    engine
        Where tasks run, one a file (default: here); the bytes do not depend on it.
    moments
        Mean and standard deviation of each feature column over the same nodes, where they are
        known: how far the means moved says how far class shares may have.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(600, degree=6, homophily=0.8, snr=1.0, num_features=8, seed=1)
    >>> model = SIGN(hops=1).fit(g, range(300))
    >>> card = SourceCard.build(model, g, range(300, 600), compositions=0)
    >>> target = csbm.sample(600, degree=6, homophily=0.7, snr=1.0, num_features=8, seed=2)
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "logits").mkdir()
    >>> for part, logits in enumerate(np.split(model(target), 3)):
    ...     columns = {f"logit_{k}": column for k, column in enumerate(logits.T)}
    ...     pq.write_table(pa.table(columns), folder / "logits" / f"{part}.parquet")
    >>> found = recalibrate_logits(folder / "logits", card, folder / "answer")
    >>> found.num_nodes, sorted(path.name for path in found.out.iterdir())
    (600, ['0.parquet', '1.parquet', '2.parquet', '_answer.json'])
    """
    place, engine = Path(out).absolute(), engine or Serial()
    found = LogitTables.open(tables, card.num_classes)
    check_parquet()
    with atomic_directory(place) as folder:
        plain, _, counts = _measure(engine, found, card, moments)
        write = partial(
            _write,
            tables=found,
            starts=np.concatenate([[0], np.cumsum(counts)]).tolist(),
            temperature=card.probe.temperature,
            relative=1.0 / plain.slope,
            folder=folder,
        )
        after = sum(engine.map(write, range(len(found)))) / sum(counts)
        made = filed(with_confidence(plain, after), place)
        write_answer(folder, made)
    return made


def estimate_logits(
    parts: LogitParts,
    card: SourceCard,
    *,
    engine: Engine | None = None,
    moments: tuple[FloatArray, FloatArray] | None = None,
) -> ShardedAnswer:
    """Give the answer of `recalibrate_logits` after its first pass; nothing is written.

    Logits are read again only where the sketch of the first pass does not reach the temperature.

    Parameters
    ----------
    parts
        The logits: `LogitTables`, or anything else that has them in parts.
    card, engine, moments
        See `recalibrate_logits`.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(600, degree=6, homophily=0.8, snr=1.0, num_features=8, seed=1)
    >>> model = SIGN(hops=1).fit(g, range(300))
    >>> card = SourceCard.build(model, g, range(300, 600), compositions=0)
    >>> path = Path(tempfile.mkdtemp()) / "logits.parquet"
    >>> pq.write_table(pa.table({f"logit_{k}": z for k, z in enumerate(model(g).T)}), path)
    >>> found = estimate_logits(LogitTables.open(path, card.num_classes), card)
    >>> found.num_nodes, found.verdict
    (600, 'caution')
    """
    engine = engine or Serial()
    plain, seen, counts = _measure(engine, parts, card, moments)
    relative = 1.0 / plain.slope
    if abs(np.log(relative)) <= REACH:
        after = seen.sketch.mean_confidence(relative)
    else:
        read = partial(_confidence, tables=parts, temperature=plain.temperature)
        after = sum(engine.map(read, np.flatnonzero(counts).tolist())) / sum(counts)
    return with_confidence(plain, after)


def _measure(
    engine: Engine,
    parts: LogitParts,
    card: SourceCard,
    moments: tuple[FloatArray, FloatArray] | None,
) -> tuple[ShardedAnswer, _Statistics, list[int]]:
    """Return the answer, what it was read from, and the rows of each part."""
    read = partial(_statistics, tables=parts, probe=card.probe)
    each: list[_Statistics | None] = engine.map(read, range(len(parts)))
    counts = [0 if part is None else part.ends.nodes for part in each]
    filled = [part for part in each if part is not None]
    if not filled:
        raise FileError("there are no rows of logits; every file is empty.")
    seen: _Statistics = total(filled)
    target = ReadEvidence.read(
        seen.sums.evidence(None, 0.0),
        card,
        sum(counts),
        moments,
        flat=seen.sums.spread == 0.0,
    )

    def match(accuracy: float) -> tuple[float, str]:
        return _nearest(engine, parts, card.probe.temperature, seen, counts, accuracy)

    return _plain(told(target, match), known=moments is not None), seen, counts


def _confidence(shard: int, *, tables: LogitParts, temperature: float) -> float:
    each = (probabilities(piece, 1.0) for piece in pieces(tables, shard, temperature))
    return sum(float(piece.max(axis=1).sum()) for piece in each)


def _plain(found: ShardedAnswer, known: bool) -> ShardedAnswer:
    """Leave out what takes a graph, and say what takes features."""
    signals = {name: value for name, value in found.signals.items() if name != "log_degree"}
    if known:
        return replace(found, signals=signals)
    verdict = "caution" if found.verdict == "trust" else found.verdict
    return replace(found, signals=signals, verdict=verdict, reasons=[*found.reasons, _NO_FEATURES])


def _statistics(shard: int, *, tables: LogitParts, probe: Probe) -> _Statistics | None:
    parts = []
    for _, plain in tables.batches(shard):
        logits = plain / probe.temperature
        parts.append(
            _Statistics(LogitSums.of(logits, probe), Ends.of(logits), ConfidenceSketch.of(logits))
        )
    return total(parts) if parts else None


def _nearest(
    engine: Engine,
    tables: LogitParts,
    temperature: float,
    seen: _Statistics,
    counts: list[int],
    accuracy: float,
) -> tuple[float, str]:
    """Match by the sketch; read the logits again where it cannot tell T to its tolerance."""
    filled = [shard for shard, count in enumerate(counts) if count]

    def read(place: int) -> Iterator[FloatArray]:
        return pieces(tables, filled[place], temperature)

    def match() -> float:
        matched = seen.sketch.match(accuracy)
        if matched is not None:
            return matched.temperature
        return match_confidence(engine, len(filled), read, accuracy, seen.ends)

    return nearest_defined(
        accuracy,
        tables.num_classes,
        seen.ends,
        smallest=lambda: smallest_gap(engine, len(filled), read),
        match=match,
    )


def _write(
    shard: int,
    *,
    tables: LogitTables,
    starts: list[int],
    temperature: float,
    relative: float,
    folder: Path,
) -> float:
    def parts() -> Iterator[tuple[Any, FloatArray]]:
        at = starts[shard]
        for nodes, plain in tables.batches(shard):
            named = np.arange(at, at + len(plain)) if nodes is None else nodes
            yield named, probabilities(plain / temperature, relative)
            at += len(plain)
        if at == starts[shard]:  # Spark leaves empty files; what stands for one is a table too
            yield tables.no_rows(shard)

    return write_part(folder / tables.files[shard].name, parts())
