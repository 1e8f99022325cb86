import os
import stat

import pytest
from tests.helpers import raises

from graphtemper._core.files import atomic_write
from graphtemper._core.printable import printable
from graphtemper._core.safe_reading import parse_json, read_bytes, read_lines
from graphtemper.errors import InputError


def test_a_limit_holds_for_files_that_report_no_size():
    """Files of /proc have size 0 and content."""
    if not os.path.exists("/proc/self/status"):
        pytest.skip("there is no /proc")
    with raises("oversize"):
        read_bytes("/proc/self/status", 10)


def test_a_line_without_end_is_refused(tmp_path):
    path = tmp_path / "nodes.txt"
    path.write_bytes(b"1\n" + b"2" * 200_000)
    with raises("oversize"):
        list(read_lines(path))


@pytest.mark.parametrize(
    "text", ['{"a": [{"b": 1, "b": 1}]}', "[NaN]", "[-Infinity]", "[1", b"\xff"]
)
def test_json_that_programs_read_differently_is_refused(text):
    with pytest.raises(InputError):
        parse_json(text)


def test_a_name_cannot_command_a_terminal():
    hostile = "a\x1b]52;c;x\x07\x9b2J\u202e\ud800\r\x00"
    shown = printable(hostile)
    assert shown.isprintable()
    shown.encode("utf-8")
    assert printable(shown) == shown
    assert printable("Zürich, 東京 👩‍👩‍👧\n") == "Zürich, 東京 👩‍👩‍👧\n"


def test_the_mode_of_a_file_is_kept(tmp_path):
    path = tmp_path / "secret"
    path.write_bytes(b"old")
    path.chmod(0o600)
    with atomic_write(path) as stream:
        stream.write(b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_appears_meanwhile_is_kept(tmp_path):
    path = tmp_path / "labels.csv"

    def write():
        with atomic_write(path, replace=False) as stream:
            stream.write(b"new")
            path.write_bytes(b"somebody's labels")

    with raises("write"):
        write()
    assert path.read_bytes() == b"somebody's labels"
    assert os.listdir(tmp_path) == ["labels.csv"]
