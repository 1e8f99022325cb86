"""One contract for every reader of a file: a correct result, or one sentence that names the file.

Readers are registered in `targets`.
"""

import os
import socket
import stat
import sys
from pathlib import Path

import pytest
from tests.fuzz.targets import TARGETS
from tests.fuzz.test_corpus import in_a_fork, status
from tests.helpers import mostly_nightly

from graphtemper.errors import GraphTemperError


def pipe(path):
    os.mkfifo(path)


def unix_socket(path):
    place = os.getcwd()
    os.chdir(path.parent)  # an address may have a hundred characters
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(place)


def link_to(target):
    return lambda path: path.symlink_to(target)


def sparse_file(path):
    with path.open("wb") as stream:
        stream.truncate(1 << 40)


ODD = {
    "missing": lambda path: None,
    "a folder": Path.mkdir,
    "empty": Path.touch,
    "a pipe": pipe,
    "a socket": unix_socket,
    "an endless device": link_to("/dev/zero"),
    "a random device": link_to("/dev/urandom"),
    "a terminal": link_to("/dev/tty"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": link_to("nowhere"),
    "a terabyte of zeros": sparse_file,
    "zeros": lambda path: path.write_bytes(bytes(100_000)),
}
# An empty or missing file is a valid list or log, or means that nothing was measured.
MAY_BE_ACCEPTED = {
    "watch.sqlite": {"missing", "empty", "a link to nothing", "a link to itself"},
    "outcome.json": set(ODD) - {"empty", "zeros"},  # figures that are missing are left out
}


def outcome(read, path):
    before = status("VmHWM")
    try:
        read(path)
        message = None
    except GraphTemperError as error:
        message = str(error)
    return message, status("VmHWM") - before


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="devices and memory of Linux")
@pytest.mark.parametrize("kind", mostly_nightly(ODD, {"a folder", "zeros"}.__contains__))
@pytest.mark.parametrize("name", TARGETS)
def test_odd_files(name, kind, tmp_path):
    path = tmp_path / name
    ODD[kind](path)
    before = path.lstat() if os.path.lexists(path) else None
    result = in_a_fork(lambda: outcome(TARGETS[name].read, path), seconds=20)
    assert not isinstance(result, str), result
    message, memory = result
    assert memory < 64_000_000
    if message is None:
        assert kind in MAY_BE_ACCEPTED.get(name, ()), "accepted"
    else:
        assert "\n" not in message
        assert name in message  # the file is named
    if before is not None and not stat.S_ISREG(before.st_mode):
        assert path.lstat().st_ino == before.st_ino  # and left as it was
