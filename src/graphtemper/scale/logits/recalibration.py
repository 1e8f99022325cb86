"""Recalibration of logits that are stored in files, without the graph and the model.

One pass over the files computes statistics, which is all that `estimate_logits` needs; a second one
writes probabilities. From logits alone a card can use confidence signals only, and without features
a change of the class shares cannot be noticed: the answer says so, and the verdict is at most
``caution``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper._core.checks import check_instance
from graphtemper.card.card import SourceCard
from graphtemper.card.reading import read_evidence
from graphtemper.errors import FileError
from graphtemper.recalibration.job import probabilities_at
from graphtemper.recalibration.reasons import Reason, ReasonCode
from graphtemper.scale import answering
from graphtemper.scale.answering import (
    ShardedAnswer,
    ShardedRecalibration,
    with_confidence,
    with_directory,
)
from graphtemper.scale.engine import Engine, Serial
from graphtemper.scale.evidence.logit_sums import LogitSums
from graphtemper.scale.evidence.sums import Sums, total
from graphtemper.scale.logits.confidence_sketch import REACH, ConfidenceSketch
from graphtemper.scale.logits.logit_files import LogitArray, open_logits
from graphtemper.scale.logits.logit_tables import LogitParts, LogitTables, scaled_batches
from graphtemper.scale.matching import LogitRange, match_confidence, smallest_gap
from graphtemper.scale.probability_files import (
    require_parquet,
    write_answer,
    write_probabilities,
)
from graphtemper.scale.storage.output_directory import atomic_directory
from graphtemper.signals.evidence import Probe, check_logit_size
from graphtemper.temperature.scaling import nearest_defined

_NO_FEATURES = Reason(
    ReasonCode.FEATURES_UNKNOWN,
    "the features are not known here, so nothing shows whether they have moved; the interval is as "
    "wide as if they had.",
)


@dataclass(frozen=True)
class _Statistics(Sums):
    sums: LogitSums
    logit_range: LogitRange
    sketch: ConfidenceSketch


def recalibrate_logits(
    logits: str | os.PathLike[str],
    card: SourceCard,
    out: str | os.PathLike[str],
    *,
    engine: Engine | None = None,
    moments: tuple[FloatArray, FloatArray] | None = None,
) -> ShardedRecalibration:
    """Recalibrate logits that are stored in files, without the graph and the model.

    Parameters
    ----------
    logits
        A Parquet file or a directory of them, see
        `graphtemper.scale.logits.logit_tables.LogitTables`; or one file of another format, see
        `graphtemper.scale.logits.logit_files`.
    card
        The source card.
    out
        A new directory for the probabilities, in files of the same names, and ``_answer.json``.
    engine
        Runs one task per file (default: in this process); the result does not depend on it.
    moments
        Mean and standard deviation of each feature column over the same nodes, if known. The
        change of the means bounds the change of the class shares.

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
    >>> for part, rows in enumerate(np.split(model(target), 3)):
    ...     columns = {f"logit_{k}": column for k, column in enumerate(rows.T)}
    ...     pq.write_table(pa.table(columns), folder / "logits" / f"{part}.parquet")
    >>> result = recalibrate_logits(folder / "logits", card, folder / "answer")
    >>> result.num_nodes, sorted(path.name for path in result.out.iterdir())
    (600, ['0.parquet', '1.parquet', '2.parquet', '_answer.json'])
    """
    check_instance(card, SourceCard, "card", "recalibrate_logits(logits, card, out)")
    out, engine = Path(out).absolute(), engine or Serial()
    tables = open_logits(logits, card.num_classes)
    require_parquet()
    with atomic_directory(out) as folder:
        answer, _, counts = _measure(engine, tables, card, moments)
        write = partial(
            _write_shard,
            tables=tables,
            starts=np.concatenate([[0], np.cumsum(counts)]).tolist(),
            temperature=card.probe.temperature,
            relative=1.0 / answer.slope,
            folder=folder,
        )
        after = sum(engine.map(write, range(len(tables)))) / sum(counts)
        result = with_directory(with_confidence(answer, after), out)
        write_answer(folder, result)
    return result


def estimate_logits(
    parts: LogitParts,
    card: SourceCard,
    *,
    engine: Engine | None = None,
    moments: tuple[FloatArray, FloatArray] | None = None,
) -> ShardedAnswer:
    """Return the answer of `recalibrate_logits` from its first pass, without writing anything.

    Logits are read again only if the temperature is outside the range of the confidence sketch.

    Parameters
    ----------
    parts
        The logits: a `graphtemper.scale.logits.logit_tables.LogitTables`, or another `LogitParts`.
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
    >>> from graphtemper.scale.logits.logit_tables import LogitTables
    >>> path = Path(tempfile.mkdtemp()) / "logits.parquet"
    >>> pq.write_table(pa.table({f"logit_{k}": z for k, z in enumerate(model(g).T)}), path)
    >>> answer = estimate_logits(LogitTables.open(path, card.num_classes), card)
    >>> answer.num_nodes, answer.verdict
    (600, 'abstain')
    """
    engine = engine or Serial()
    answer, statistics, counts = _measure(engine, parts, card, moments)
    relative = 1.0 / answer.slope
    if abs(np.log(relative)) <= REACH:
        after = statistics.sketch.mean_confidence(relative)
    else:
        work = partial(_confidence_sum, parts=parts, temperature=answer.temperature)
        after = sum(engine.map(work, np.flatnonzero(counts).tolist())) / sum(counts)
    return with_confidence(answer, after)


def _measure(
    engine: Engine,
    parts: LogitParts,
    card: SourceCard,
    moments: tuple[FloatArray, FloatArray] | None,
) -> tuple[ShardedAnswer, _Statistics, list[int]]:
    """Return the answer, the statistics behind it, and the number of rows of each part."""
    work = partial(_statistics, parts=parts, probe=card.probe)
    by_part: list[_Statistics | None] = engine.map(work, range(len(parts)))
    counts = [0 if part is None else part.logit_range.nodes for part in by_part]
    non_empty = [part for part in by_part if part is not None]
    if not non_empty:
        raise FileError("there are no rows of logits; every file is empty.")
    statistics: _Statistics = total(non_empty)
    reading = read_evidence(
        card,
        statistics.sums.evidence(None, 0.0),
        sum(counts),
        moments,
        flat=statistics.sums.spread == 0.0,
    )

    def match(accuracy: float) -> tuple[float, str]:
        return _nearest_temperature(
            engine, parts, card.probe.temperature, statistics, counts, accuracy
        )

    said = answering.answer(reading, match)
    answer = _without_graph(said, features_known=moments is not None)
    return answer, statistics, counts


def _confidence_sum(shard: int, *, parts: LogitParts, temperature: float) -> float:
    batches = scaled_batches(parts, shard, temperature)
    return sum(float(probabilities_at(logits, 1.0).max(axis=1).sum()) for logits in batches)


def _without_graph(answer: ShardedAnswer, features_known: bool) -> ShardedAnswer:
    """Drop the signal that needs a graph, and lower the verdict if features are unknown."""
    signals = {name: value for name, value in answer.signals.items() if name != "log_degree"}
    if features_known:
        return replace(answer, signals=signals)
    verdict = "caution" if answer.verdict == "trust" else answer.verdict
    reasons = [*answer.reasons, _NO_FEATURES]
    return replace(answer, signals=signals, verdict=verdict, reasons=reasons)


def _statistics(shard: int, *, parts: LogitParts, probe: Probe) -> _Statistics | None:
    by_batch, row = [], 0
    for logits in scaled_batches(parts, shard, probe.temperature):
        check_logit_size(logits, range(row, row + len(logits)))
        sums, sketch = LogitSums.of(logits, probe), ConfidenceSketch.of(logits)
        by_batch.append(_Statistics(sums, LogitRange.of(logits), sketch))
        row += len(logits)
    return total(by_batch) if by_batch else None


def _nearest_temperature(
    engine: Engine,
    parts: LogitParts,
    temperature: float,
    statistics: _Statistics,
    counts: list[int],
    accuracy: float,
) -> tuple[float, str]:
    """Match by the sketch; read the logits again if its interval for T is too wide."""
    non_empty = [shard for shard, count in enumerate(counts) if count]

    def read(position: int) -> Iterator[FloatArray]:
        return scaled_batches(parts, non_empty[position], temperature)

    def match() -> float:
        matched = statistics.sketch.match(accuracy)
        if matched is not None:
            return matched.temperature
        return match_confidence(engine, len(non_empty), read, accuracy, statistics.logit_range)

    return nearest_defined(
        accuracy,
        parts.num_classes,
        statistics.logit_range,
        smallest=lambda: smallest_gap(engine, len(non_empty), read),
        match=match,
    )


def _write_shard(
    shard: int,
    *,
    tables: LogitArray | LogitTables,
    starts: list[int],
    temperature: float,
    relative: float,
    folder: Path,
) -> float:
    def blocks() -> Iterator[tuple[Any, FloatArray]]:
        row = starts[shard]
        for names, logits in tables.batches(shard):
            nodes = np.arange(row, row + len(logits)) if names is None else names
            yield nodes, probabilities_at(logits / temperature, relative)
            row += len(logits)
        if row == starts[shard]:  # Spark writes empty files; so does the result
            yield tables.empty_batch(shard)

    return write_probabilities(folder / tables.file_name(shard), blocks())
