"""The text for Prometheus."""

import re
from dataclasses import replace

import pytest

from graphtemper.monitor import Entry
from graphtemper.monitor.drop import Drop
from graphtemper.monitor.log import Labelled
from graphtemper.monitor.prometheus import exposition
from graphtemper.monitor.record import Scored

ENTRY = Entry("d", "0", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "caution", ("why",), {})
LABEL = r"[a-z_]+=\"(?:[^\"\\\n]|\\[\\\"n])*\""
LINE = re.compile(
    rf"(# (HELP|TYPE) graphtemper_\w+ .+)|(graphtemper_\w+\{{{LABEL}(,{LABEL})*\}} [-+.\de]+)"
)


def samples(text):
    """Return the values of a text by metric and labels, as Prometheus reads them."""
    rows = [row for row in text.rstrip("\n").split("\n") if not row.startswith("#")]
    return {row.rpartition(" ")[0]: float(row.rpartition(" ")[2]) for row in rows}


def test_lines_have_the_format_of_prometheus(standing):
    text = exposition(standing([ENTRY]), ran_at=1234.5, missed=2, watch="w")
    assert text.endswith("\n")
    assert all(LINE.fullmatch(row) for row in text.splitlines())
    values = samples(text)
    assert values['graphtemper_monitor_last_run_timestamp_seconds{watch="w"}'] == 1234.5
    assert values['graphtemper_monitor_unread_snapshots{watch="w"}'] == 2
    assert values['graphtemper_accuracy_low{watch="w"}'] == 0.7
    assert values['graphtemper_accuracy_high{watch="w"}'] == 0.9
    assert values['graphtemper_snapshot_info{watch="w",snapshot="d"}'] == 1
    assert values['graphtemper_source_accuracy{watch="w"}'] == 0.9
    assert values['graphtemper_dropped{watch="w"}'] == 0
    assert "coverage" not in text
    kinds = re.findall(r"# TYPE (\w+) (\w+)", text)
    assert len({name for name, _ in kinds}) == len(kinds)


@pytest.mark.parametrize(
    ("name", "escaped"),
    [('a"b', 'a\\"b'), ("a\\b", "a\\\\b"), ("a\nb", "a\\nb"), ("a\udcffb", "a\\\\xffb")],
)
def test_labels_are_escaped(standing, name, escaped):
    text = exposition(standing([replace(ENTRY, name=name)]), 0.0, watch=name)
    assert all(LINE.fullmatch(row) for row in text.rstrip("\n").split("\n"))
    assert f'graphtemper_snapshot_info{{watch="{escaped}",snapshot="{escaped}"}} 1\n' in text
    text.encode()


def test_an_abstention_has_neither_temperature_nor_slope(standing):
    abstained = replace(ENTRY, verdict="abstain", slope=1.0)
    text = exposition(standing([abstained]), 0.0)
    assert "temperature" not in text
    assert "slope" not in text


def test_drops_and_the_track_record_are_exposed(standing):
    scored = Scored(Labelled("d", 1, 10, 0.75, 0.0, 0.1, 0.1), ENTRY, ENTRY)
    drop = Drop(1, "source", 0.9, 0.85, begins=True)
    facts = samples(
        exposition(standing([ENTRY] * 2, record=[scored], drops=[drop]), 0.0, watch="w")
    )
    assert facts['graphtemper_dropped{watch="w"}'] == 1
    assert facts['graphtemper_drops_total{watch="w"}'] == 1
    assert facts['graphtemper_labelled_total{watch="w"}'] == 1
    assert facts['graphtemper_coverage{watch="w"}'] == 1
    assert facts['graphtemper_bias{watch="w"}'] == pytest.approx(0.05)
