"""The wheel builds to the same bytes everywhere, holds only the library, and needs no extra."""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from tests.helpers import needs

ROOT = Path(__file__).parents[2]
SHIPPED = {".mplstyle", ".py", ".js", ".css", ".html", ".json", ".csv", ".typed", ".txt"}
ABOUT = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "LICENSE"}
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")


def build(folder, mask):
    """Build a wheel from a fresh copy of the sources."""
    copy = folder / "copy"
    shutil.copytree(
        ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so")
    )
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copyfile(ROOT / name, copy / name)  # with the time of copying
    for path in copy.rglob("*.py"):
        path.touch()
    command = [sys.executable, *PIP, "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run(
        [*command, "--wheel-dir", str(folder / "wheel"), str(copy)],
        check=True,
        capture_output=True,
        env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"},
        umask=mask,
    )
    (wheel,) = (folder / "wheel").glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    needs("hatchling", "fcntl")
    return build(tmp_path_factory.mktemp("first"), 0o022)


@pytest.mark.nightly
def test_the_wheel_has_the_same_bytes_wherever_it_is_built(wheel, tmp_path):
    assert build(tmp_path, 0o027).read_bytes() == wheel.read_bytes()


@pytest.mark.nightly
def test_the_wheel_holds_code_and_pages_only(wheel):
    with zipfile.ZipFile(wheel) as archive:
        members = {PurePosixPath(member.filename): member for member in archive.infolist()}
    for path, member in members.items():
        assert not {"tests", "benchmarks", "docs", "scripts"} & set(path.parts), path
        if path.parts[0] == "graphtemper":
            assert path.suffix in SHIPPED, path
        else:
            assert path.parts[0].endswith(".dist-info"), path
            assert path.name in ABOUT, path
        assert member.file_size < 100_000, path  # a graph would not fit
    code = {path.relative_to(ROOT / "src") for path in (ROOT / "src").rglob("*.py")}
    assert {PurePosixPath(path) for path in code} == {p for p in members if p.suffix == ".py"}


BARE = """
import importlib.util
for name in ("torch", "matplotlib", "pyarrow", "dask", "jinja2", "pytest"):
    assert importlib.util.find_spec(name) is None, name
import numpy as np
import graphtemper
from graphtemper import SourceCard, csbm, recalibrate
from graphtemper.models import SIGN
assert "site-packages" in graphtemper.__file__
g = csbm.sample(300, 6, 0.8, 1.0, num_features=6, seed=1)
g.save("g.npz")
model = SIGN(hops=1).fit(g, range(150))
model.save("model.npz")
SourceCard.build(model, g, range(150, 300), compositions=0).save("model.card.json")
print(recalibrate(model, g, SourceCard.load("model.card.json")).verdict)
"""


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_venv_without_extras(wheel, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    place = tmp_path / "venv" / "bin"
    outside = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}

    def run(*command):
        return subprocess.run(
            [*map(str, command)], capture_output=True, text=True, cwd=tmp_path, env=outside
        )

    pins = ("--constraint", ROOT / "constraints.txt")
    installed = run(place / "python", *PIP, "install", *pins, wheel)
    if installed.returncode and re.search("connection|No matching|resolve", installed.stderr):
        pytest.skip(f"no package index here: {installed.stderr.splitlines()[-1]}")
    assert installed.returncode == 0, installed.stderr
    bare = run(place / "python", "-c", BARE)
    assert bare.returncode == 0, bare.stderr
    job = ("recalibrate", "g.npz", "--predict", "model.npz", "--card", "model.card.json")
    done = run(place / "graphtemper", *job, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == bare.stdout.strip()
    for extra in ((*job, "--report", "r.html"), ("paper", "concept")):
        refused = run(place / "graphtemper", *extra)
        assert refused.returncode == 2, refused.stderr
        assert refused.stderr.count("\n") == 1
        assert "pip install" in refused.stderr


def workflows():
    return {path.name: path.read_text("utf-8") for path in (ROOT / ".github").rglob("*.yml")}


def test_actions_are_pinned_by_hash_and_say_their_version():
    used = [line for text in workflows().values() for line in re.findall(r"uses: (.*)", text)]
    assert len(used) > 10
    pins = {}
    for line in used:
        found = re.fullmatch(r"([\w./-]+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)", line)
        assert found, line
        name, *pin = found.groups()
        assert pins.setdefault(name, pin) == pin, f"two versions of {name}"
