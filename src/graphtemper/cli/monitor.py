"""`graphtemper monitor`: a deployed model over time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphtemper.cli import result_file
from graphtemper.cli.options import CardPath, Json, PassSeed, Predict, Repeated
from graphtemper.cli.output import (
    STYLES,
    print_json,
    print_line,
    print_reasons,
    print_rows,
    print_sentence,
    progress,
)
from graphtemper.errors import FileError, InputError

if TYPE_CHECKING:
    from graphtemper import SourceCard
    from graphtemper.monitor import Change, Entry, Gate, Log, Missed, Snapshot
    from graphtemper.monitor.log import Kind
    from graphtemper.monitor.watch import OnMissed, Progress

    Watch = Callable[[Log, Progress, OnMissed], Iterator[Entry]]

CLOSED = 3
"""Exit code if a gate is closed; it differs from that of bad input, which is 2."""
UNREAD = 4
"""Exit code if a snapshot could not be measured and no gate is closed."""
clock = time.time
"""Seconds since 1970."""


@dataclass(frozen=True)
class _Outcome:
    """The log after a run, and what the run added to it."""

    entries: Sequence[Entry]
    added: Sequence[Entry]
    missed: Sequence[Missed]
    changes: Sequence[Change]
    closed: Sequence[str]


def monitor(
    *snapshots: str,
    card: CardPath,
    predict: Predict | None = None,
    log: Path = Path("monitor.sqlite"),
    page: Path | None = None,
    prometheus: Path | None = None,
    name: str | None = None,
    fail_on: Repeated | None = None,
    windows: int | None = None,
    false_alarms: float = 0.01,
    alarm_every: int = 1,
    seed: PassSeed = 0,
    as_json: Json = False,
) -> None:
    """Follow a model over snapshots of its graph or its logits: a log, a page, alarms, and gates.

    Snapshots that are in the log are not measured again. The exit code is 3 if a gate closes on the
    newest snapshot (change closes on an alarm at any snapshot since the last run that ended with
    this gate), and otherwise 4 if a snapshot could not be measured; the others are still followed.
    A log is continued with the seed that it was started with.

    Parameters
    ----------
    snapshots
        Graphs (.npz) or folders of them, in the order of their names; with --windows one graph.
        Without --predict, logits: Parquet, .npy, .npz with the key `logits`, folders of Parquet
        shards (each one snapshot), or folders of those.
    log
        Append-only SQLite file; created with its first row.
    page
        An .html page with the time series, redrawn by every run; needs the extra [report].
    prometheus
        A text file with the newest numbers for Prometheus.
    name
        The label `watch` of the Prometheus metrics, which distinguishes several models. Default:
        the name of the log.
    fail_on
        A gate: abstain, caution, change, or a comparison such as "accuracy<0.8" of accuracy, low,
        high, temperature, slope or confidence by <, <=, > or >=; may be repeated.
    windows
        Cut one graph whose nodes have times into this number of spans, each of them a snapshot. The
        graph grows from span to span, which alone can raise an alarm.
    false_alarms
        Upper bound on the probability that an unchanging series ever raises an alarm. It holds if
        snapshots are exchangeable while nothing changes; if each resembles the one before, alarms
        are more frequent: see --alarm-every.
    alarm_every
        Test every N-th snapshot for changes, with N large enough that tested snapshots have little
        in common.
    """
    from graphtemper import SourceCard
    from graphtemper._core.checks import check_integer
    from graphtemper.monitor import Gate, Log, alarms, fingerprint

    gates = [Gate.parse(text) for text in fail_on or ()]
    check_integer(alarm_every, "--alarm-every", 1)
    label = log.stem if name is None else name
    if not label.strip():
        raise InputError("--name must not be empty; it distinguishes this watch from others.")
    result_file.check_outputs(
        {"--log": log, "--page": page, "--prometheus": prometheus}, (card, predict, *snapshots)
    )
    if page is not None:
        result_file.check_report(page)
    source = SourceCard.load(card)
    watch, spans = _watch(source, predict, snapshots, windows)
    kind: Kind = "logits" if predict is None else "graphs"
    book = Log(log, fingerprint(source), kind=kind, seed=seed)
    if spans is not None:
        _check_spans(spans, book.entries())
    added, missed = _follow(watch, book, log, as_json)
    entries = book.entries()
    if not entries:
        raise FileError(f"no snapshot could be measured; {missed[0].name}: {missed[0].reason}")
    changes = alarms(entries, false_alarms, seed, alarm_every)
    closed = _closed(gates, entries, changes, book.reported())
    outcome = _Outcome(entries, added, missed, changes, closed)
    if page is not None:
        from graphtemper.monitor.page import write_page

        # The log holds missed snapshots that a later one has followed; this run knows the others.
        every = list(dict.fromkeys([*book.missed(), *missed]))
        write_page(page, entries, changes, source.predictor, false_alarms, every, alarm_every)
    if prometheus is not None:
        _write_metrics(prometheus, outcome, label)
    if as_json:
        rate = {"false_alarms": false_alarms, "alarm_every": alarm_every}
        print_json(_facts(outcome) | rate | {"kind": kind})
    else:
        _print(outcome)
        for path in (log, page, prometheus):
            if path is not None:
                print_line(f"Written: {path}")
    if any(gate.field == "change" for gate in gates):
        book.report(len(entries))  # mark alarms as reported only after they were printed
    if closed or missed:
        sys.exit(CLOSED if closed else UNREAD)


def _follow(watch: Watch, book: Log, path: Path, quiet: bool) -> tuple[list[Entry], list[Missed]]:
    """Measure new snapshots into the log; return their entries, and those that failed."""
    added: list[Entry] = []
    missed: list[Missed] = []
    try:
        with progress(quiet) as show:
            added.extend(watch(book, partial(show, "snapshots"), missed.append))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; {len(added)} snapshots were added to {path}: run the same command again "
            "to resume."
        ) from None
    return added, missed


def _write_metrics(path: Path, outcome: _Outcome, label: str) -> None:
    from graphtemper._core.files import atomic_write
    from graphtemper.monitor import exposition

    entries, missed = outcome.entries, outcome.missed
    text = exposition(entries[-1], len(entries), len(outcome.changes), clock(), len(missed), label)
    with atomic_write(path) as stream:
        stream.write(text.encode())


def _watch(
    card: SourceCard, predict: str | None, names: tuple[str, ...], count: int | None
) -> tuple[Watch, list[Snapshot] | None]:
    """Return a function that follows the snapshots, and the spans that a graph was cut into."""
    from graphtemper.cli.arguments import load_graph, resolve
    from graphtemper.monitor import (
        check_model,
        find_logits,
        find_snapshots,
        follow,
        follow_logits,
        windows,
    )

    if predict is None:
        if count is not None:
            raise InputError("--windows cuts a graph and needs the model; give it with --predict.")
        logits = find_logits(names, card.num_classes)
        return partial(follow_logits, logits, card, isolate=True), None
    predictor = resolve(predict)
    check_model(predictor, card)
    if count is None:
        return partial(follow, predictor, find_snapshots(names), card), None
    if len(names) != 1:
        raise InputError(f"--windows takes one graph with times, not {len(names)}.")
    spans = list(windows(load_graph(names[0]), count))
    return partial(follow, predictor, spans, card), spans


def _check_spans(spans: list[Snapshot], entries: Sequence[Entry]) -> None:
    names = {span.name for span in spans}
    other = next((entry.name for entry in entries if entry.name not in names), None)
    if other is not None:
        raise InputError(
            f"the log holds the span {other}, which is not a span of this graph; start a new log "
            "for other spans."
        )


def _closed(
    gates: list[Gate], entries: Sequence[Entry], changes: Sequence[Change], reported: int
) -> list[str]:
    # Several snapshots may be new since the gate was last evaluated; an alarm at any counts.
    first_new = min(reported, len(entries) - 1)
    alarmed = bool(changes) and changes[-1].position >= first_new
    return [gate.text for gate in gates if gate.closes(entries[-1], alarmed)]


def _facts(outcome: _Outcome) -> dict[str, Any]:
    entries = outcome.entries
    return {
        "snapshots": len(entries),
        "added": [entry.name for entry in outcome.added],
        "missed": [missed._asdict() for missed in outcome.missed],
        "newest": entries[-1].to_dict(),
        "alarms": [
            {"snapshot": entries[change.position].name, **change._asdict()}
            for change in outcome.changes
        ],
        "closed": list(outcome.closed),
    }


def _print(outcome: _Outcome) -> None:
    entries, newest = outcome.entries, outcome.entries[-1]
    alarmed = ", ".join(entries[change.position].name for change in outcome.changes)
    note = "" if newest.settled else ", a best guess that should not be relied on"
    print_sentence(f"Newest verdict: {newest.verdict}", STYLES[newest.verdict])
    print_rows(
        {
            "Snapshot": f"{newest.name}, number {len(entries)} of the log",
            "New": _counts(outcome.added),
            "Accuracy": f"{newest.accuracy:.1%} (90 % interval {newest.low:.1%} to "
            f"{newest.high:.1%})",
            "Temperature": f"{newest.temperature:.3g}{note}",
            "Alarms": alarmed or "none",
        }
    )
    print_reasons(newest.reasons)
    for missed in outcome.missed:
        print_sentence(f"Not measured: {missed.name}: {missed.reason}", "bold red")
    for text in outcome.closed:
        print_sentence(f"Gate closed: {text}", "bold red")


def _counts(added: Sequence[Entry]) -> str:
    from graphtemper.monitor.entry import VERDICTS

    counts = {word: sum(entry.verdict == word for entry in added) for word in VERDICTS}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "none"
