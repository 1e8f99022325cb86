"""One contract for every reader of a file: a correct result, or one sentence that names the file.

Readers are registered in `targets`. What is not registered fails here: the source is searched for
functions that open files, and each of them must run when the registered readers do.
"""

import ast
import os
import socket
import stat
import sys
import threading
from pathlib import Path

import pytest
from tests.fuzz.targets import TARGETS
from tests.fuzz.test_corpus import in_a_fork, status
from tests.helpers import mostly_nightly

import graphtemper
import graphtemper_research
from graphtemper.errors import GraphTemperError

PACKAGES = [Path(package.__file__).parent for package in (graphtemper, graphtemper_research)]
# The only functions that open files of others. A reader calls one of them.
READERS = {"open_regular", "read_bytes", "read_npz", "open_array"}
# What opens a file without these checks.
RAW = {
    "read_text",
    "load",
    "loadtxt",
    "genfromtxt",
    "memmap",
    "fromfile",
    "ZipFile",
    "connect",
    "ParquetFile",
    "open_csv",
    "read_table",
    "open",
}
# Raw openings that are allowed, with the reason.
ALLOWED = {
    "_core/files.py:atomic_write": "writes",
    "_core/files.py:flush": "flushes what was written",
    "_core/files.py:read_npz": "opens the stream of open_regular",
    "_core/files.py:open_array": "maps the stream of open_regular",
    "_core/files.py:_read_member": "a member of an open archive",
    "_core/files.py:_unpacked_bytes": "a member of an open archive",
    "_core/safe_reading.py:open_regular": "the check itself",
    "cli/output.py:discard_output": "/dev/null",
    "graphs/datasets.py:_catalogue": "a file of the package",
    "graphs/datasets.py:fetch": "a network address, and a file of its own",
    "graphs/datasets.py:git_blob_id": "a file of its own",
    "models/logit_files.py:_read_csv": "after read_lines",
    "monitor/log.py:_opened": "after open_regular",
    "recalibration/report/schema.py:*": "a file of the package",
    "recalibration/report/html.py:text_of": "a file of the package",
    "scale/parquet.py:open_parquet": "after open_regular",
    "gats/__main__.py:*": "a script on files of the repository",
    "harness/memory.py:*": "/proc/self/status",
    "evidence.py:collect": "results of its own jobs",
    "pages.py:pages": "pages of the repository",
    "trials/months.py:main": "the README of the repository",
    "evidence.py:*": "results of its own jobs",
    "harness/uses.py:*": "files of the packages",
}
# Functions that call a reader and are not reached by a target, with the reason.
NOT_REACHED = {
    "evidence.py:archive": "results of its own jobs",
    "_core/files.py:_remove_leftovers": "locks leftovers of killed writes",
    "_core/safe_reading.py:read_bytes": "a reader itself",
    "evidence.py:collect": "results of its own jobs",
    "monitor/snapshots.py:_content_of": "compares a checksum",
    "trials/graph_names.py:content": "compares a checksum",
}


def modules():
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            yield path.relative_to(package).as_posix(), path


def calls():
    """Yield the place, ``module:function``, of every call by the last part of its name."""
    for name, path in modules():
        tree = ast.parse(path.read_text("utf-8"))
        stack = [(tree, [])]
        while stack:
            node, scope = stack.pop()
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                scope = [*scope, node.name]
            if isinstance(node, ast.Call):
                function = node.func
                called = getattr(function, "attr", getattr(function, "id", ""))
                owner = getattr(getattr(function, "value", None), "id", None)
                yield f"{name}:{'.'.join(scope)}", called, owner, node
            stack += [(child, scope) for child in ast.iter_child_nodes(node)]


def is_raw(called, owner, node):
    if called == "read_bytes":  # of a path; ours is called by its name
        return not isinstance(node.func, ast.Name)
    if called in ("load", "open"):  # methods of our own classes have these names too
        ours = {"json", "models", "datasets", "Graph", "SourceCard", "StoredGraph", "LogitTables"}
        ours |= {"Table", "watch", "cls", "graph_names"}
        if called == "load":
            return owner == "np"
        return owner not in ours and bool(node.args)
    return called in RAW


def test_files_are_opened_in_one_place():
    """A new reader uses `graphtemper._core.safe_reading`, or says here why not."""
    found = {place for place, *call in calls() if is_raw(*call)}
    allowed = {place.removesuffix(":*") for place in ALLOWED}
    unexpected = {p for p in found if p not in ALLOWED and p.split(":")[0] not in allowed}
    assert unexpected == set()


@pytest.mark.cpu(4)  # every call is traced
def test_every_reader_is_registered(tmp_path):
    """Every function that opens a file runs when the registered targets are read."""
    expected = {place for place, called, *_ in calls() if called in READERS} - set(NOT_REACHED)
    names = {str(path): name for name, path in modules()}
    reached = set()

    def trace(frame, event, argument):
        name = names.get(frame.f_code.co_filename)
        if event == "call" and name is not None:
            reached.add(f"{name}:{frame.f_code.co_qualname.replace('.<locals>', '')}")

    for name, target in TARGETS.items():
        target.write(tmp_path / name)
        threading.setprofile(trace)
        sys.setprofile(trace)
        try:
            target.read(tmp_path / name)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    assert sorted(expected - reached) == []


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
    "cell.json": set(ODD),  # it is measured again
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
