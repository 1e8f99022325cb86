"""Progress bars: on a terminal or on request, and nowhere else."""

import pytest
import rich.console

from graphtemper.card.progress import shown


def test_a_function_is_used_as_it_is():
    calls = []

    def tick(done, total):
        calls.append((done, total))

    with shown(tick, "card") as report:
        report(1, 2)
    assert calls == [(1, 2)]


@pytest.mark.parametrize("progress", [None, False])
def test_nothing_is_shown_where_standard_error_is_no_terminal(progress, capsys):
    with shown(progress, "card") as report:
        assert report is None
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_a_bar_unless_it_is_switched_off(monkeypatch, capsys):
    monkeypatch.setattr(rich.console.Console, "is_terminal", True)
    with shown(False, "card") as report:
        assert report is None
    with shown(None, "card: 7,104 passes") as report:
        report(1, 4)
    out, err = capsys.readouterr()
    assert out == ""
    assert "card: 7,104 passes" in err
    assert "1/4" in err


def test_a_bar_can_be_requested(capsys):
    with shown(True, "source [/b] card") as report:
        report(3, 4)
    assert "source [/b] card" in capsys.readouterr().err
