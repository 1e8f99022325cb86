"""Output on terminals of several widths, in a pipe, and with NO_COLOR."""

import os
import pty
import re
import subprocess
import sys

import pytest
from rich.console import Console
from tests.helpers import FEW_SHIFTS

from graphtemper import SourceCard, csbm, shifts
from graphtemper.card.atlas import LEVELS
from graphtemper.cli import output
from graphtemper.models import SIGN

fcntl = pytest.importorskip("fcntl", reason="there are no terminals of this kind here")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9][;m]|\x1b\[[0-9;]*38;")
JOB = ("target.npz", "--predict", "model.npz", "--card", "model.card.json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("terminal")
    settings = {"degree": 6, "snr": 1.0, "num_features": 6}
    source = csbm.sample(400, homophily=0.8, seed=1, **settings)
    model = SIGN(hops=1).fit(source, range(200))
    model.save(place / "model.npz")
    card = SourceCard.build(model, source, range(200, 400), compositions=0, shifts=FEW_SHIFTS)
    card.save(place / "model.card.json")
    source.save(place / "source.npz")
    target = csbm.sample(400, homophily=0.7, seed=2, **settings)
    shifts.noise(0.8)(target, 5).save(place / "target.npz")
    (place / "nodes.txt").write_text("\n".join(map(str, range(200, 400))))
    return place


def surroundings(**extra):
    """Return an environment in which only `extra` sets colours and widths."""
    unset = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE")
    others = {name: value for name, value in os.environ.items() if name not in unset}
    return others | {"TERM": "xterm-256color", "OPENBLAS_NUM_THREADS": "1"} | extra


def on_a_terminal(folder, *arguments, columns=80, **extra):
    """Run a command on its own terminal and return every byte that it received."""
    import struct
    import termios

    child, terminal = pty.fork()
    if child == 0:  # pragma: no cover
        os.chdir(folder)
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        command = [sys.executable, "-m", "graphtemper", *arguments]
        os.execve(sys.executable, command, surroundings(**extra))
    received = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other side has closed
            break
        if not part:
            break
        received += part
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, received.decode()
    return received.decode()


def left_on_screen(received):
    """Return the lines that remain at the end, without what a progress bar has erased."""
    lines, row = [""], 0
    for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\r|\n)", received):
        if part == "\n":
            row += 1
            lines += [""] * (row == len(lines))
        elif re.fullmatch(r"\x1b\[\d*A", part):
            row -= int(part[2:-1] or 1)
        elif part == "\x1b[2K":
            lines[row] = ""
        elif not ESCAPE.fullmatch(part) and part != "\r":
            lines[row] += part
    return [line.rstrip() for line in lines]


def piped(folder, *arguments, **extra):
    return subprocess.run(
        [sys.executable, "-m", "graphtemper", *arguments],
        cwd=folder,
        env=surroundings(**extra),
        capture_output=True,
        text=True,
        check=True,
    )


def test_recalibrate_on_80_columns(folder):
    received = on_a_terminal(folder, "recalibrate", *JOB, "--out", "a.npz")
    lines = left_on_screen(received)
    assert max(map(len, lines)) <= 80
    assert COLOUR.search(received)  # the verdict
    words = ["Verdict", "Accuracy", "Confidence", "Temperature", "-"]
    starts = [line.split()[0].rstrip(":") for line in lines if line and line[0] != " "]
    assert starts[:5] == words
    assert starts[-1] == "Written"
    assert not any("measuring" in line for line in lines)  # the spinner has gone
    # A wrapped sentence is indented.
    first = lines.index(next(line for line in lines if line.startswith("- ")))
    assert lines[first + 1].startswith("  ")


def test_recalibrate_on_60_columns_without_colours(folder):
    received = on_a_terminal(
        folder, "recalibrate", *JOB, "--out", "b.npz", columns=60, NO_COLOR="1"
    )
    assert not COLOUR.search(received)
    lines = left_on_screen(received)
    assert max(map(len, lines)) <= 60
    assert lines[0].startswith("Verdict: ")


@pytest.mark.nightly
def test_a_bar_leaves_nothing_behind(folder):
    arguments = ("source.npz", "--predict", "model.npz", "--nodes", "nodes.txt", "--out", "c.json")
    fewer = [word for family in set(LEVELS) - set(FEW_SHIFTS) for word in ("--exclude", family)]
    received = on_a_terminal(folder, "card", "build", *arguments, *fewer)
    assert "shifts" in ESCAPE.sub("", received)
    lines = left_on_screen(received)
    assert lines[0].startswith("SIGN: 2 classes")
    assert "━" not in "".join(lines)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    "arguments",
    [("diagnose", *JOB), ("card", "show", "model.card.json")],
    ids=lambda arguments: arguments[0],
)
def test_a_pipe_gets_plain_lines(folder, arguments):
    result = piped(folder, *arguments)
    assert result.stderr == ""
    assert "\x1b" not in result.stdout
    assert "\r" not in result.stdout
    assert "…" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_a_wide_table_keeps_every_digit(capsys):
    """Headings and text are wrapped before numbers are."""
    rows = [
        {"method": f"a method with a long name, number {i}"}
        | {f"share of case {j}": f"{i / 7 + j:.4f}" for j in range(7)}
        for i in range(3)
    ]
    console = Console(width=80)
    with console.capture() as capture:
        console.print(output.table("wide", rows))
    text = capture.get()
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "…" not in text
    for row in rows:
        for value in list(row.values())[1:]:
            assert value in text
    assert "number 2" in " ".join(text.split())
