"""Files that once got past a reader, and hostile ones made by hand, read again.

``corpus/TARGET/CASE`` is a file, with dashes for the dots of the target's name; of targets that are
folders CASE is a folder whose files take the place of those of a valid one. To keep a case that a
search finds, put it there under a name that says what is wrong with it.
"""

import shutil
import time
import tracemalloc
from pathlib import Path

import pytest
from tests.fuzz.targets import FOLDERS, TARGETS, one_sentence

CORPUS = Path(__file__).with_name("corpus")
NAMES = {name.replace(".", "-"): name for name in (*TARGETS, *FOLDERS)}
CASES = sorted(path.relative_to(CORPUS).as_posix() for path in CORPUS.glob("*/*"))
# What a reader may hold besides twice the file: parsers, and the modules it loads.
ROOM = 4_000_000


def test_every_target_has_cases():
    found = {NAMES[case.split("/")[0]] for case in CASES}
    assert found >= {*TARGETS, "dense.shards", "stages"}


@pytest.mark.parametrize("case", CASES)
def test_kept_cases(case, tmp_path):
    name = NAMES[case.split("/")[0]]
    path, size = tmp_path / name, 0
    if name in FOLDERS:
        FOLDERS[name].write(path)
        shutil.copytree(CORPUS / case, path, dirs_exist_ok=True)
        read = FOLDERS[name].read
    else:
        shutil.copy(CORPUS / case, path)
        read, size = TARGETS[name].read, path.stat().st_size
    tracemalloc.start()
    start = time.perf_counter()
    try:
        one_sentence(read, path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.perf_counter() - start < 5.0
    assert peak < 2 * size + ROOM
    assert [item.name for item in tmp_path.iterdir() if "outside" in item.name] == []
