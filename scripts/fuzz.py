"""Search for files that break a reader, guided by the code that they reach.

    python scripts/fuzz.py [--seconds S] [--targets NAME ...] [--folder FOLDER]

For every target of `tests/fuzz/targets.py`, atheris (libFuzzer) changes the valid file and the
cases of `tests/fuzz/corpus`, and keeps each change that reaches new code. The folder keeps what was
found, so that the next run continues there. Checksums are not compared, because a random change
would not get past them. A reader may answer or raise `GraphTemperError` with a message of one line;
any other exception, a crash, more than 20 seconds or more than 2 GB is a fault. Each is stored
once, under ``FOLDER/faults``; the exit code is 1 if there are any.

Prints a table: files tried, files kept, and the share of the lines that these reach in functions of
the package which the target runs at all. `make fuzz` installs atheris.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import sys
import tempfile
import traceback
import zipfile
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import atheris

ROOT = Path(__file__).parents[1]
PACKAGES = ("graphtemper", "graphtemper_research")
SECONDS_PER_FILE, MEGABYTES = 20, 2048
sys.path.insert(0, str(ROOT))
with atheris.instrument_imports(include=list(PACKAGES)):
    from tests.fuzz.targets import TARGETS, Target

    from graphtemper._core import safe_reading
    from graphtemper.errors import GraphTemperError
    from graphtemper.monitor import log


def ignore_checksums() -> None:
    """Let changed content through, as if its checksum had been computed again."""
    zipfile.ZipExtFile._update_crc = lambda self, data: None  # type: ignore[attr-defined]
    vars(safe_reading)["_checksum"] = lambda content: content.get("crc32")
    vars(log)["check_seals"] = lambda *arguments: None


def attempt(target: Target, path: Path, content: bytes) -> str | None:
    """Read a file; return None, or the traceback of a violated rule."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    try:
        target.read(path)
    except GraphTemperError as error:
        if not str(error) or "\n" in str(error):
            return f"{type(error).__name__} with a message that is not one line: {error!r}"
    except Exception:
        return traceback.format_exc()
    return None


def search(name: str, place: Path, kept: Path, faults: Path, seconds: int) -> None:
    """Run libFuzzer on a target; this process ends with it."""
    ignore_checksums()
    target, path = TARGETS[name], place / name
    target.write(path)
    (kept / "valid").write_bytes(path.read_bytes())
    for case in (ROOT / "tests/fuzz/corpus" / name.replace(".", "-")).glob("*"):
        if case.is_file():
            shutil.copy(case, kept)

    def one(content: bytes) -> None:
        problem = attempt(target, path, content)
        if problem is not None:
            *_, where = [line for line in problem.splitlines() if line.startswith("  File")] or [""]
            stem = hashlib.sha256(f"{where}{problem.splitlines()[-1][:30]}".encode()).hexdigest()
            case = faults / f"{name}-{stem[:8]}"
            if not case.exists():
                case.write_bytes(content)
                case.with_name(f"{case.name}.txt").write_text(problem, "utf-8")

    options = (
        f"-max_total_time={seconds}",
        f"-timeout={SECONDS_PER_FILE}",
        f"-rss_limit_mb={MEGABYTES}",
        f"-artifact_prefix={faults}/{name}-",
        f"-max_len={max(4096, 4 * path.stat().st_size)}",
    )
    atheris.Setup([sys.argv[0], *options, str(kept)], one)
    atheris.Fuzz()


def coverage(name: str, place: Path, kept: Path) -> None:
    """Print how many lines the kept files reach, of how many in the functions they reach."""
    ignore_checksums()
    reached: dict[CodeType, set[int]] = defaultdict(set)

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if f"/{PACKAGES[0]}" not in frame.f_code.co_filename:
            return None
        reached[frame.f_code].add(frame.f_lineno)
        return trace

    target, path = TARGETS[name], place / name
    target.write(path)
    for case in sorted(kept.iterdir()):
        sys.settrace(trace)
        try:
            attempt(target, path, case.read_bytes())
        finally:
            sys.settrace(None)
    lines = {code: {line for *_, line in code.co_lines() if line} for code in reached}
    print(sum(len(reached[code] & lines[code]) for code in lines), sum(map(len, lines.values())))


def in_child(task: Callable[[], None], output: Path) -> int:
    """Run a task in a fork, with its output in a file; return how it ended."""
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    code = 70
    try:
        stream = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(stream, 1)
        os.dup2(stream, 2)
        task()
        code = 0
    finally:
        sys.stdout.flush()
        os._exit(code)


def main() -> int:
    """Search every target in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument(
        "--targets", nargs="+", choices=TARGETS, default=list(TARGETS), metavar="NAME"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "artifacts/fuzz")
    options = parser.parse_args()
    faults = options.folder.absolute() / "faults"
    faults.mkdir(parents=True, exist_ok=True)
    print(
        "| reader | files tried | kept | lines reached | ended |\n| --- | --: | --: | --: | --- |"
    )
    for name in options.targets:
        kept = options.folder.absolute() / name
        kept.mkdir(exist_ok=True)
        output, lines = (options.folder.absolute() / f"{name}.{end}" for end in ("log", "lines"))
        with tempfile.TemporaryDirectory() as place:
            task = partial(search, name, Path(place), kept, faults, options.seconds)
            end = in_child(task, output)
        tried = re.findall(r"^#(\d+)\s", output.read_text("utf-8", "replace"), re.M)
        with tempfile.TemporaryDirectory() as place:
            in_child(partial(coverage, name, Path(place), kept), lines)
        numbers = re.findall(r"\d+", lines.read_text("utf-8"))[-2:]
        share = f"{int(numbers[0]) / int(numbers[1]):.0%} of {numbers[1]}" if numbers else "?"
        count = int(tried[-1]) if tried else 0
        files = len(list(kept.iterdir()))
        ended = "in time" if end == 0 else f"by {end}"
        print(f"| {name} | {count:,} | {files} | {share} | {ended} |", flush=True)
    found = sorted(path.name for path in faults.iterdir() if path.suffix != ".txt")
    print(f"{len(found)} faults in {faults}" + "".join(f"\n  {name}" for name in found))
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main())
