"""Recalibration of logits that are stored in files, without the graph and the model.

One pass over the files computes sums, which is all that `estimate_logits` needs; a second one
writes probabilities. From logits alone a card can use confidence signals only, and without features
a change of the class shares cannot be noticed: the answer says so, and the verdict is at most
``caution``.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from graphtemper._core.checks import FloatArray, check_instance
from graphtemper.card.card import SourceCard
from graphtemper.card.reading import read_evidence
from graphtemper.recalibration.reasons import Reason, ReasonCode
from graphtemper.recalibration.result import Recalibration
from graphtemper.scale.answering import ShardedRecalibration
from graphtemper.scale.engine import Engine, Serial
from graphtemper.scale.evidence.logit_sums import LogitSums
from graphtemper.scale.logits.logit_files import open_logits
from graphtemper.scale.logits.logit_tables import LogitParts
from graphtemper.scale.storage.output_directory import atomic_directory
from graphtemper.scale.storage.parquet import arrow
from graphtemper.scale.streaming import (
    answer_from,
    mean_confidence,
    sum_logits,
    with_confidence,
    write_parts,
)

Moments = tuple[FloatArray, FloatArray]
_NO_FEATURES = Reason(
    ReasonCode.FEATURES_UNKNOWN,
    "the features are not known here, so nothing shows whether they have moved; the interval is as "
    "wide as if they had.",
)


def recalibrate_logits(
    logits: str | os.PathLike[str],
    card: SourceCard,
    out: str | os.PathLike[str],
    *,
    engine: Engine | None = None,
    moments: Moments | None = None,
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
    >>> import numpy as np
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
    parts = open_logits(logits, card.num_classes)
    arrow("pyarrow.parquet")  # before any long computation
    with atomic_directory(out) as folder:
        answer, _, counts = _measure(engine, parts, card, moments)
        after = write_parts(engine, parts, counts, answer.temperature, folder)
        return ShardedRecalibration.write(with_confidence(answer, after), folder, out)


def estimate_logits(
    parts: LogitParts,
    card: SourceCard,
    *,
    engine: Engine | None = None,
    moments: Moments | None = None,
) -> Recalibration:
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
    (600, 'caution')
    """
    engine = engine or Serial()
    answer, sums, _ = _measure(engine, parts, card, moments)
    after = mean_confidence(engine, parts, sums, answer)
    return with_confidence(answer, after)


def _measure(
    engine: Engine, parts: LogitParts, card: SourceCard, moments: Moments | None
) -> tuple[Recalibration, LogitSums, list[int]]:
    """Return the answer, the sums behind it, and the number of rows of each part."""
    sums, counts = sum_logits(engine, parts, card.probe)
    measured = sums.evidence(None, 0.0)
    reading = read_evidence(card, measured, sums.count, moments, flat=sums.spread == 0.0)
    answer = answer_from(engine, parts, sums, reading)
    # The mean degree needs a graph.
    signals = {name: value for name, value in answer.signals.items() if name != "log_degree"}
    if moments is not None:
        return replace(answer, signals=signals), sums, counts
    verdict = "caution" if answer.verdict == "trust" else answer.verdict
    reasons = [*answer.reasons, _NO_FEATURES]
    return replace(answer, signals=signals, verdict=verdict, reasons=reasons), sums, counts
