"""Late labels: scores, a card that learns, answers given again, and labels that are refused."""

from dataclasses import replace

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import SourceCard, metrics, recalibrate, temperature
from graphtemper.errors import InputError
from graphtemper.models import SIGN
from graphtemper.monitor import (
    Labelled,
    Log,
    LogitArray,
    Snapshot,
    add_labels,
    alarms,
    fingerprint,
    follow,
    read_log,
    track_record,
)


@pytest.fixture
def followed(watched, day, tmp_path):
    """A log of five months, and its snapshots."""
    model, card = watched
    snapshots = [
        Snapshot(f"month {k}", None, lambda k=k: day(k), when=f"2026-0{k + 1}") for k in range(5)
    ]
    log = Log(tmp_path / "watch.sqlite", fingerprint(card))
    list(follow(model, snapshots, card, log))
    return model, card, snapshots, log


def test_labels_score_what_was_answered(followed, day):
    model, card, snapshots, log = followed
    before = log.entries()
    late = add_labels(model, snapshots, card, log, "month 1")
    graph, labelled = day(1), late.scored.labelled
    logits = model(graph)
    assert labelled.accuracy == (logits.argmax(axis=1) == graph.labels).mean()
    assert (labelled.num_labels, labelled.deviation) == (400, 0.0)  # all nodes, so it is exact
    for value, chosen in (
        (labelled.ece_before, card.temperature),
        (labelled.ece_after, before[1].temperature),
    ):
        assert value == metrics.ece(temperature.apply(logits, chosen), graph.labels)
    assert late.scored.first == before[1]
    assert log.entries() == before
    assert [item.first.name for item in track_record(log)] == ["month 1"]


def test_later_snapshots_are_answered_again_as_by_the_card_that_learned(followed, day):
    model, card, snapshots, log = followed
    before = log.entries()
    late = add_labels(model, snapshots, card, log, "month 1")
    wiser = card.learn(model, day(1), name="month 1", when="2026-02")
    assert late.card.to_json() == wiser.to_json()
    assert [entry.name for entry in late.answered] == ["month 2", "month 3", "month 4"]
    expected = recalibrate(model, day(3).replace(labels=None), wiser).accuracy
    answers = log.answers()
    assert (answers[3].accuracy, answers[3].low) == (expected.value, expected.low)
    assert answers[:2] == before[:2]
    assert [entry.revision for entry in answers] == [0, 0, 1, 1, 1]
    assert answers[3].when == "2026-04"
    assert [entry.revision for entry in log.history()] == [0] * 5 + [1] * 3


def test_new_snapshots_are_answered_by_the_card_that_learned(followed, day):
    model, card, snapshots, log = followed
    wiser = add_labels(model, snapshots, card, log, "month 1").card
    new = Snapshot("month 5", None, lambda: day(5), when="2026-06")
    (entry,) = follow(model, [*snapshots, new], card, log)
    expected = recalibrate(model, day(5).replace(labels=None), wiser).accuracy
    assert (entry.accuracy, entry.revision) == (expected.value, 1)
    assert log.entries()[-1] == entry


def test_labels_come_in_any_order_and_labelled_snapshots_keep_their_answers(followed):
    model, card, snapshots, log = followed
    add_labels(model, snapshots, card, log, "month 3")
    second = add_labels(model, snapshots, card, log, "month 1")
    assert [entry.name for entry in second.answered] == ["month 2", "month 4"]
    assert [item.name for item in second.card.environments] == ["month 1", "month 3"]  # by time
    assert [entry.revision for entry in log.answers()] == [0, 0, 2, 0, 2]
    third = add_labels(model, snapshots, card, log, "month 4")
    assert third.scored.latest.revision == 2
    assert third.scored.first.revision == 0


def test_the_same_labels_as_a_table_and_in_the_graph(followed, watched, day, tmp_path):
    model, card, snapshots, log = followed
    other = Log(tmp_path / "other.sqlite", fingerprint(card))
    list(follow(model, snapshots, card, other))
    given = dict(enumerate(day(1).labels.tolist()))
    unlabelled = [
        replace(s, load=lambda k=k: day(k).replace(labels=None)) for k, s in enumerate(snapshots)
    ]
    one = add_labels(model, snapshots, card, log, "month 1")
    two = add_labels(model, unlabelled, card, other, "month 1", given)
    assert one.card.to_json() == two.card.to_json()
    assert one.scored == two.scored
    assert log.answers() == other.answers()


def test_few_labels_have_a_sampling_error(followed, day):
    model, card, snapshots, log = followed
    chosen = np.random.default_rng(0).choice(400, 50, replace=False)
    given = {int(node): int(day(1).labels[node]) for node in chosen}
    labelled = add_labels(model, snapshots, card, log, "month 1", given).scored.labelled
    share = (labelled.accuracy * 50 + 0.5) / 51
    assert labelled.deviation == pytest.approx(np.sqrt(share * (1 - share) / 50 * 350 / 399))


def test_the_record_of_a_drifting_model_is_the_truth(watched, day, tmp_path):
    """A block model whose homophily falls, and whose true accuracies are known."""
    model, card = watched
    graphs = [day(50 + k, level) for k, level in enumerate(np.linspace(0.85, 0.65, 8))]
    snapshots = [Snapshot(f"{k}", None, lambda k=k: graphs[k]) for k in range(8)]
    log = Log(tmp_path / "drift.sqlite", fingerprint(card))
    first = list(follow(model, snapshots, card, log))
    for k in (1, 4, 7):
        add_labels(model, snapshots[k : k + 1], card, log, f"{k}")
    truths = {
        k: float((model(graphs[k]).argmax(axis=1) == graphs[k].labels).mean()) for k in (1, 4, 7)
    }
    record = track_record(log)
    assert [item.labelled.accuracy for item in record] == list(truths.values())
    assert [item.covered for item in record] == [
        first[k].low <= truth <= first[k].high for k, truth in truths.items()
    ]
    assert truths[1] > truths[7] + 0.04


REFUSED = [
    ("month 1", {400: 0}),
    ("month 1", {3: 2}),
    ("month 9", {3: 1}),
    ("month 1", dict.fromkeys(range(9), 0)),
    ("month 1", {}),
]


@pytest.mark.parametrize(("name", "given"), REFUSED)
def test_impossible_labels_are_refused(followed, name, given):
    model, card, snapshots, log = followed
    with pytest.raises(InputError):
        add_labels(model, snapshots, card, log, name, given)
    assert log.labelled() == []
    assert log.learned() == (None, 0)


def test_labels_that_contradict_those_of_the_snapshot_are_refused(followed, day):
    model, card, snapshots, log = followed
    given = {node: int(day(1).labels[node]) for node in range(50)}
    with raises("conflict"):
        add_labels(model, snapshots, card, log, "month 1", given | {7: 1 - given[7]})
    assert log.labelled() == []
    add_labels(model, snapshots, card, log, "month 1", given)


def test_a_snapshot_is_labelled_once(followed, day):
    model, card, snapshots, log = followed
    add_labels(model, snapshots, card, log, "month 1")
    with pytest.raises(InputError):
        add_labels(model, snapshots, card, log, "month 1")
    some = {node: int(day(1).labels[node]) for node in range(50)}
    with pytest.raises(InputError):
        add_labels(model, snapshots, card, log, "month 1", some)
    assert len(log.labelled()) == 1


def test_another_model_and_other_content_are_refused(followed, day):
    model, card, snapshots, log = followed
    other = SIGN(hops=2).fit(day(1), np.arange(300))
    with pytest.raises(InputError):
        add_labels(other, snapshots, card, log, "month 1")
    changed = [replace(snapshot, load=lambda: day(77)) for snapshot in snapshots]
    with pytest.raises(InputError):
        add_labels(model, changed, card, log, "month 1")
    with pytest.raises(InputError):
        add_labels(model, snapshots[2:], card, log, "month 1")
    with pytest.raises(InputError):
        add_labels(None, snapshots, card, log, "month 1", {1: 1})


def test_later_snapshots_that_are_gone_keep_their_answers(followed, day):
    model, card, snapshots, log = followed
    before = log.entries()
    given = [snapshots[1], snapshots[2], replace(snapshots[3], load=lambda: day(77))]
    late = add_labels(model, given, card, log, "month 1")
    assert [entry.name for entry in late.answered] == ["month 2"]
    assert [missed.name for missed in late.unanswered] == ["month 3", "month 4"]
    assert log.answers()[3:] == before[3:]


def test_a_run_that_began_before_the_labels_does_not_mix_answers(followed, day):
    model, card, snapshots, log = followed
    new = [Snapshot(f"month {k}", None, lambda k=k: day(k)) for k in (5, 6)]
    running = follow(model, [*snapshots, *new], card, log)
    next(running)
    add_labels(model, [*snapshots, *new], card, log, "month 1")
    with pytest.raises(InputError):
        next(running)
    assert [entry.revision for entry in follow(model, [*snapshots, *new], card, log)] == [1]


def test_answers_of_two_cards_are_not_a_change(followed):
    entry = followed[3].entries()[0]
    rng = np.random.default_rng(1)
    steady = [
        replace(entry, accuracy=float(value), signals={}) for value in rng.uniform(0.8, 0.82, 60)
    ]
    lower = [
        replace(item, accuracy=item.accuracy - 0.2, low=0.5, revision=1) for item in steady[30:]
    ]
    assert alarms([*steady[:30], *lower]) == []
    assert alarms([*steady[:30], *(replace(item, revision=0) for item in lower)]) != []


def test_answers_given_again_raise_no_change_and_move_none(followed):
    """Changes refer to what was answered at the time, so late labels leave them as they are."""
    _, card, _, log = followed
    entry = replace(log.entries()[0], signals={})
    rng = np.random.default_rng(1)
    levels = [0.85] * 40 + [0.7] * 30
    names = [f"day {k}" for k in range(70)]
    book = Log(log.path.with_name("long.sqlite"), fingerprint(card))
    for name, level in zip(names, levels, strict=True):
        accuracy = level + float(rng.uniform(-0.01, 0.01))
        book.append(replace(entry, name=name, accuracy=accuracy, low=0.5, high=0.95))
    before = read_log(book, card).changes
    assert 40 < before[0].position < 70
    again = [
        replace(entry, name=name, accuracy=0.6 + 0.003 * k, low=0.5, high=0.95, revision=1)
        for k, name in enumerate(names[1:])
    ]
    labelled = Labelled("day 0", 1, 100, 0.8, 0.0, 0.1, 0.1)
    book.add_labels(labelled, card.to_json(), again)
    standing = read_log(book, card)
    assert standing.answers[1:] == [*again]
    assert alarms(standing.answers) != before
    assert standing.changes == before


def test_labels_of_logits_are_scored(watched, day, tmp_path):
    model, card = watched
    snapshots = [Snapshot(f"{k}", None, lambda k=k: LogitArray(model(day(k)), 2)) for k in range(3)]
    log = Log(tmp_path / "logits.sqlite", fingerprint(card), kind="logits")
    list(follow(None, snapshots, card, log))
    given = dict(enumerate(day(1).labels.tolist()))
    late = add_labels(None, snapshots, card, log, "1", given)
    assert late.scored.labelled.accuracy == (model(day(1)).argmax(axis=1) == day(1).labels).mean()
    assert late.answered == []
    assert log.learned() == (None, 0)
    with pytest.raises(InputError):
        add_labels(None, snapshots, card, log, "2", {1000: 0})
    other = [replace(s, load=lambda: LogitArray(2 * model(day(2)), 2)) for s in snapshots]
    with pytest.raises(InputError):
        add_labels(None, other, card, log, "2", given)


def test_a_card_that_learned_elsewhere_belongs_to_another_log(followed, day):
    model, card, _, log = followed
    assert isinstance(card, SourceCard)
    wiser = card.learn(model, day(9), name="elsewhere")
    with pytest.raises(InputError):
        Log(log.path, fingerprint(wiser))
