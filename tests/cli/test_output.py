"""Output on terminals of several widths, in a pipe, and with NO_COLOR."""

import os
import pty
import re
import sys

import pytest

fcntl = pytest.importorskip("fcntl", reason="there are no terminals of this kind here")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9][;m]|\x1b\[[0-9;]*38;")
JOB = ("target.npz", "--predict", "model.npz", "--card", "model.card.json")


@pytest.fixture
def folder(deployed):
    return deployed[0]


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


@pytest.mark.parametrize(("columns", "extra"), [(80, {}), (60, {"NO_COLOR": "1"})])
def test_lines_fit_the_terminal(folder, tmp_path, columns, extra):
    out = str(tmp_path / "a.npz")
    received = on_a_terminal(folder, "recalibrate", *JOB, "--out", out, columns=columns, **extra)
    assert bool(COLOUR.search(received)) == (not extra)
    lines = re.split(r"[\r\n]+", ESCAPE.sub("", received).partition("Written")[0])
    commands = [line for line in lines if line.startswith("  graphtemper ")]
    assert max(len(line.rstrip()) for line in lines if line not in commands) <= columns
    assert any(line.startswith("Verdict: ") for line in lines)
