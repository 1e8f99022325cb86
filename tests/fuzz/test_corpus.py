"""Regression cases: files that a reader once accepted wrongly, and hostile files made by hand.

``corpus/TARGET/CASE`` is a file, with dashes for the dots of the target's name. For targets that
are folders, CASE is a folder whose files replace those of a valid one. To add a case that a search
has produced, store it under a name that says what is wrong with it.
"""

import json
import os
import shutil
import signal
import sys
import time
import traceback
import tracemalloc
from pathlib import Path

import pytest
from tests.fuzz.targets import TARGETS, one_sentence
from tests.helpers import mostly_nightly

CORPUS = Path(__file__).with_name("corpus")
NAMES = {name.replace(".", "-"): name for name in TARGETS}
CASES = sorted(path.relative_to(CORPUS).as_posix() for path in CORPUS.glob("*/*"))
# One of each target, for the tests that run by day.
FIRST = {*{case.split("/")[0]: case for case in reversed(CASES)}.values()}
# Bytes that a reader may use in addition to twice the file: allocations of Python and NumPy, which
# tracemalloc counts, and resident memory, which includes Arrow and SQLite.
TRACED, RESIDENT = 4_000_000, 16_000_000

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="memory is read from /proc"
)


def test_every_target_has_cases():
    covered = {NAMES[case.split("/")[0]] for case in CASES}
    assert covered >= {*TARGETS}


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    """Return a function that writes a valid file or folder of a target once."""
    folder, paths = tmp_path_factory.mktemp("valid"), {}

    def find(name):
        if name not in paths:
            paths[name] = folder / name
            TARGETS[name].write(paths[name])
        return paths[name]

    return find


def status(key):
    """Return an entry of this process's memory statistics, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return 1024 * int(line.split()[1])
    raise KeyError(key)


def measured(read, good, path):
    """Read a file; return the processor time, and the peak growth of traced and touched memory.

    A valid file is read first, so that code which runs for the first time is not counted.
    """
    one_sentence(read, good)
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts from here
    before, start = status("VmHWM"), time.process_time()
    tracemalloc.start()
    one_sentence(read, path)
    traced = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return time.process_time() - start, traced, status("VmHWM") - before


def in_a_fork(work, seconds=600):
    """Return the result of a function that runs in a forked process with fresh memory.

    The process is ended after some seconds, or when it ends itself by a signal.
    """
    ours, theirs = os.pipe()
    process = os.fork()
    if not process:
        signal.alarm(seconds)
        try:
            message = json.dumps(work())
        except BaseException:  # the test shows any error
            message = json.dumps(traceback.format_exc())
        os.write(theirs, message.encode()[-60_000:])
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as stream:
        message = stream.read()
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return json.loads(message) if message else f"ended by signal {-code}"


@pytest.mark.parametrize("case", mostly_nightly(CASES, FIRST.__contains__))
def test_kept_cases(case, tmp_path, valid):
    name = NAMES[case.split("/")[0]]
    path, good = tmp_path / name, valid(name)
    shutil.copy(CORPUS / case, path)
    size = path.stat().st_size
    measurement = in_a_fork(lambda: measured(TARGETS[name].read, good, path))
    assert not isinstance(measurement, str), measurement
    seconds, traced, resident = measurement
    assert seconds < 5.0
    assert traced < 2 * size + TRACED
    assert resident < 2 * size + RESIDENT
    assert [item.name for item in tmp_path.iterdir() if "outside" in item.name] == []
