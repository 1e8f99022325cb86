"""Files that once got past a reader, and hostile ones made by hand, read again.

``corpus/TARGET/CASE`` is a file, with dashes for the dots of the target's name; of targets that are
folders CASE is a folder whose files take the place of those of a valid one. To keep a case that a
search finds, put it there under a name that says what is wrong with it.
"""

import json
import os
import shutil
import sys
import time
import traceback
import tracemalloc
from pathlib import Path

import pytest
from tests.fuzz.targets import FOLDERS, TARGETS, one_sentence

CORPUS = Path(__file__).with_name("corpus")
NAMES = {name.replace(".", "-"): name for name in (*TARGETS, *FOLDERS)}
CASES = sorted(path.relative_to(CORPUS).as_posix() for path in CORPUS.glob("*/*"))
# What a reader may hold besides twice the file: of Python's and NumPy's memory, which tracemalloc
# counts whether it is touched or not, and of all that is touched, Arrow's and SQLite's too.
TRACED, TOUCHED = 4_000_000, 16_000_000

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="memory is read from /proc"
)


def test_every_target_has_cases():
    found = {NAMES[case.split("/")[0]] for case in CASES}
    assert found >= {*TARGETS, "dense.shards", "stages"}


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    """Give a valid file or folder of a target, each written once."""
    room, made = tmp_path_factory.mktemp("valid"), {}

    def find(name):
        if name not in made:
            made[name] = room / name
            (TARGETS | FOLDERS)[name].write(made[name])
        return made[name]

    return find


def status(key):
    """Return an entry of what the system says about this process's memory, in bytes."""
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


def in_a_fork(work):
    """Return what a function gives in a process of its own, whose memory is fresh every time."""
    ours, theirs = os.pipe()
    process = os.fork()
    if not process:
        try:
            told = json.dumps(work())
        except BaseException:  # whatever it is, the test is to show it
            told = json.dumps(traceback.format_exc())
        os.write(theirs, told.encode()[-60_000:])
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as stream:
        told = stream.read()
    os.waitpid(process, 0)
    return json.loads(told)


@pytest.mark.parametrize("case", CASES)
def test_kept_cases(case, tmp_path, valid):
    name = NAMES[case.split("/")[0]]
    path, good, size = tmp_path / name, valid(name), 0
    if name in FOLDERS:
        shutil.copytree(good, path)
        shutil.copytree(CORPUS / case, path, dirs_exist_ok=True)
    else:
        shutil.copy(CORPUS / case, path)
        size = path.stat().st_size
    found = in_a_fork(lambda: measured((TARGETS | FOLDERS)[name].read, good, path))
    assert not isinstance(found, str), found
    seconds, traced, touched = found
    assert seconds < 5.0
    assert traced < 2 * size + TRACED
    assert touched < 2 * size + TOUCHED
    assert [item.name for item in tmp_path.iterdir() if "outside" in item.name] == []
