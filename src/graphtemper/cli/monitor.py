"""`graphtemper monitor`: a deployed model over time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from graphtemper.cli import result_file
from graphtemper.cli.output import (
    STYLES,
    Json,
    print_json,
    print_reasons,
    print_rows,
    progress,
    say,
    tell,
)
from graphtemper.errors import FileError, InputError

if TYPE_CHECKING:
    from graphtemper import SourceCard
    from graphtemper.monitor import Change, Entry, Gate, Log, Missed, Snapshot
    from graphtemper.monitor.log import Kind
    from graphtemper.monitor.watch import OnMissed, Progress

    Watch = Callable[[Log, Progress, OnMissed], Iterator[Entry]]

CLOSED = 3
"""Exit code where a gate is closed; bad input has 2, so that the two are told apart."""
UNREAD = 4
"""Exit code where a snapshot could not be measured, and no gate is closed."""
clock = time.time
"""Seconds since 1970."""


def monitor(
    *snapshots: str,
    card: Path,
    predict: str | None = None,
    log: Path = Path("monitor.sqlite"),
    page: Path | None = None,
    prometheus: Path | None = None,
    name: str | None = None,
    fail_on: Annotated[list[str], Parameter(negative="")] | None = None,
    windows: int | None = None,
    false_alarms: float = 0.01,
    alarm_every: int = 1,
    seed: int = 0,
    as_json: Json = False,
) -> None:
    """Follow a model over snapshots of its graph or its logits: a log, a page, alarms, and gates.

    Snapshots that are in the log already are not measured again. Exits with 3 where a gate closes
    on the newest snapshot (change closes on an alarm at any snapshot since the last run that ended
    with this gate), and else with 4 where a snapshot could not be measured; the others are followed
    all the same.

    Parameters
    ----------
    snapshots
        Graphs (.npz) or folders of them, taken in order of their names; with --windows one graph.
        Without --predict logits: Parquet, .npy, .npz with the key `logits`, folders of Parquet
        shards (each one snapshot), or folders of those.
    card
        The model's source card.
    predict
        The model: package.module:callable (the predictor itself), or a saved model (.npz). Not
        needed for logits.
    log
        Append-only record, SQLite; made with its first row where there is none.
    page
        An .html page with the time lines, drawn again each time; needs the extra [report].
    prometheus
        A text file with the newest numbers for Prometheus.
    name
        What Prometheus calls this watch (the label `watch`), so that several models are told apart;
        the name of the log unless given.
    fail_on
        A gate: abstain, caution, change, or a comparison such as "accuracy<0.8" of accuracy, low,
        high, temperature, slope or confidence by <, <=, > or >=; may be repeated.
    windows
        Cut one graph whose nodes have times into so many spans, and take each as a snapshot. The
        graph grows from span to span, which alone can raise an alarm.
    false_alarms
        The probability that a watch over an unchanging series ever raises an alarm, at most. It
        holds where the order of snapshots says nothing while nothing changes; where each is much
        like the one before, alarms come more often: see --alarm-every.
    alarm_every
        Test only every so many-th snapshot for changes: so far apart that they have little in
        common.
    seed
        Seed of the perturbed passes; a log goes on with the one that it was begun with.
    as_json
        Print JSON for machines.
    """
    from graphtemper import SourceCard
    from graphtemper._core.checks import check_whole
    from graphtemper._core.files import atomic_write
    from graphtemper.monitor import Gate, Log, alarms, exposition, fingerprint

    gates = [Gate.parse(text) for text in fail_on or ()]
    check_whole(alarm_every, "--alarm-every", 1)
    called = log.stem if name is None else name
    if not called.strip():
        raise InputError("--name must not be empty; it tells this watch from others.")
    if page is not None:
        result_file.check_report(page)
    source = SourceCard.load(card)
    watch, spans = _watch(source, predict, snapshots, windows)
    kind: Kind = "logits" if predict is None else "graphs"
    book = Log(log, fingerprint(source), kind=kind, seed=seed)
    if spans is not None:
        _check_spans(spans, book.entries())
    added: list[Entry] = []
    missed: list[Missed] = []
    try:
        with progress(as_json) as show:
            added.extend(watch(book, partial(show, "snapshots"), missed.append))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; {len(added)} snapshots were added to {log}: run the same command again "
            "to go on."
        ) from None
    entries = book.entries()
    if not entries:
        raise FileError(f"no snapshot could be measured; {missed[0].name}: {missed[0].reason}")
    changed = alarms(entries, false_alarms, seed, alarm_every)
    if page is not None:
        from graphtemper.monitor.page import write_page

        # Those that a later snapshot has followed are in the log, the others only in this run.
        every = list(dict.fromkeys([*book.missed(), *missed]))
        write_page(page, entries, changed, source.predictor, false_alarms, every, alarm_every)
    if prometheus is not None:
        told = exposition(entries[-1], len(entries), len(changed), clock(), len(missed), called)
        with atomic_write(prometheus) as stream:
            stream.write(told.encode())
    closed = _closed(gates, entries, changed, book.reported())
    if as_json:
        rate = {"false_alarms": false_alarms, "alarm_every": alarm_every}
        print_json(_facts(entries, added, changed, closed, missed) | rate | {"kind": kind})
    else:
        _print(entries, added, changed, closed, missed)
        for path in (log, page, prometheus):
            if path is not None:
                say(f"Written: {path}")
    if any(gate.field == "change" for gate in gates):
        book.report(len(entries))  # not earlier: a run that dies before has told nobody
    if closed or missed:
        sys.exit(CLOSED if closed else UNREAD)


def _watch(
    card: SourceCard, predict: str | None, given: tuple[str, ...], count: int | None
) -> tuple[Watch, list[Snapshot] | None]:
    """Return what follows the snapshots into a log, and the spans that a graph was cut into."""
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
            raise InputError("--windows cuts a graph, so it needs the model: name it by --predict.")
        logits = find_logits(given, card.num_classes)
        return partial(follow_logits, card, logits), None
    predictor = resolve(predict)
    check_model(predictor, card)
    if count is None:
        return partial(follow, predictor, card, find_snapshots(given)), None
    if len(given) != 1:
        raise InputError(f"--windows takes one graph with times, not {len(given)}.")
    spans = list(windows(load_graph(given[0]), count))
    return partial(follow, predictor, card, spans), spans


def _check_spans(shots: list[Snapshot], entries: Sequence[Entry]) -> None:
    known = {shot.name for shot in shots}
    moved = next((entry.name for entry in entries if entry.name not in known), None)
    if moved is not None:
        raise InputError(
            f"the log has the span {moved}, which this graph is not cut into; begin a new log for "
            "other spans."
        )


def _closed(
    gates: list[Gate], entries: Sequence[Entry], changed: Sequence[Change], reported: int
) -> list[str]:
    # Several snapshots may have come since the gate was last looked at; an alarm at any is news.
    first_new = min(reported, len(entries) - 1)
    alarmed = bool(changed) and changed[-1].position >= first_new
    return [gate.text for gate in gates if gate.closes(entries[-1], alarmed)]


def _facts(
    entries: Sequence[Entry],
    added: Sequence[Entry],
    changed: Sequence[Change],
    closed: list[str],
    missed: Sequence[Missed],
) -> dict[str, Any]:
    return {
        "snapshots": len(entries),
        "added": [entry.name for entry in added],
        "missed": [one._asdict() for one in missed],
        "newest": entries[-1].to_dict(),
        "alarms": [
            {"snapshot": entries[alarm.position].name, **alarm._asdict()} for alarm in changed
        ],
        "closed": closed,
    }


def _print(
    entries: Sequence[Entry],
    added: Sequence[Entry],
    changed: Sequence[Change],
    closed: list[str],
    missed: Sequence[Missed],
) -> None:
    newest = entries[-1]
    tell(f"Newest verdict: {newest.verdict}", STYLES[newest.verdict])
    print_rows(
        {
            "Snapshot": f"{newest.name}, number {len(entries)} of the log",
            "New": _counted(added),
            "Accuracy": f"{newest.accuracy:.1%} (90 % interval {newest.low:.1%} to "
            f"{newest.high:.1%})",
            "Temperature": f"{newest.temperature:.3g}"
            + ("" if newest.settled else ", the source's own: nothing is changed"),
            "Alarms": ", ".join(entries[alarm.position].name for alarm in changed) or "none",
        }
    )
    print_reasons(list(newest.reasons))
    for one in missed:
        tell(f"Not measured: {one.name}: {one.reason}", "bold red")
    for text in closed:
        tell(f"Gate closed: {text}", "bold red")


def _counted(added: Sequence[Entry]) -> str:
    from graphtemper.monitor.entry import VERDICTS

    counts = {word: sum(entry.verdict == word for entry in added) for word in VERDICTS}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "none"
