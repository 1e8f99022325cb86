"""Compile ``_kernels.c`` with the system's C compiler; without one the package is pure Python.

Hatchling calls this for wheels and editable installs. ``python hatch_build.py`` builds in place and
needs no package. The extension uses Python's stable ABI: one wheel serves all versions from 3.11.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # `python hatch_build.py` where only Python is installed
    BuildHookInterface = object

ROOT = Path(__file__).parent
FOLDER = Path("src", "graphtemper", "_core")
NAME = "_kernels.abi3.so"
# No fused multiply-add and no reordering: every build and every processor gives the same bits.
FLAGS = (
    "-O3",
    "-g0",
    "-fPIC",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fvisibility=hidden",
)
LINK = {
    "linux": ("-shared", "-s", "-Wl,--build-id=none"),
    "darwin": ("-bundle", "-undefined", "dynamic_lookup"),
}


def build(out: Path) -> str:
    """Compile to ``out``. Return why it could not be done, or an empty string."""
    link = LINK.get(sys.platform)
    if link is None:
        return f"not supported on {sys.platform}"
    command = shlex.split(os.environ.get("CC", "") or "cc")
    if not command or shutil.which(command[0]) is None:
        return "no C compiler"
    include = sysconfig.get_paths()["include"]
    if not Path(include, "Python.h").is_file():
        return "Python.h is not installed"
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        # Relative paths, so that the file does not depend on where it was built.
        made = Path(folder, NAME)
        source = FOLDER / "_kernels.c"
        done = subprocess.run(
            [
                *command,
                *FLAGS,
                *link,
                f"-I{include}",
                str(source),
                "-lm",
                "-o",
                str(made.resolve()),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"{command[0]} failed"]
            return lines[0][:200]
        os.replace(made, out)
    return ""


def build_in_place() -> str:
    """Build beside the source, unless that is newer than the source; return a line about it."""
    out, source = ROOT / FOLDER / NAME, ROOT / FOLDER / "_kernels.c"
    newest = max(source.stat().st_mtime, Path(__file__).stat().st_mtime)
    if out.is_file() and out.stat().st_mtime > newest:
        return "graphtemper engine: compiled"
    reason = build(out)
    if reason:
        out.unlink(missing_ok=True)  # an older one may not fit the source
        return f"graphtemper engine: reference ({reason})"
    return "graphtemper engine: compiled"


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc, type-arg]
    """Add the compiled loops to a wheel, or build them in place for an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before hatchling collects files."""
        if self.target_name != "wheel":
            return
        if version == "editable":
            self.app.display_info(build_in_place())
            return
        folder = Path(self.directory)
        folder.mkdir(parents=True, exist_ok=True)
        out = folder / NAME
        reason = build(out)
        if reason:
            self.app.display_info(f"graphtemper engine: reference ({reason})")
            return
        self._made = out
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{platform}"
        build_data["force_include"][str(out)] = f"graphtemper/_core/{NAME}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the compiled file from the folder of the wheels."""
        made = getattr(self, "_made", None)
        if made is not None:
            made.unlink(missing_ok=True)


if __name__ == "__main__":
    print(build_in_place())
