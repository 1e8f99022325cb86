"""What goes into an archive next to a publication: graphs, results, and what identifies them.

`page` is DATA.md: every graph with its credit, licence and checksum, and the digest of the code
behind the results. `archive` puts the page, the results and the graphs into one file. The same
files give the same bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

from graphtemper import errors
from graphtemper._core.files import atomic_write
from graphtemper._core.version import __version__
from graphtemper_research.graphs import datasets
from graphtemper_research.harness.digest import digest
from graphtemper_research.results import stale

# Licences under which a graph may be passed on; the others are named, not included.
OPEN = ("CC BY 4.0", "CC BY-SA 3.0", "MIT", "Apache-2.0")
HEAD = """# Data

Written by `graphtemper data page`; do not edit. Graphs are not part of the packages: `graphtemper
data list` shows which of them are on a machine, and `graphtemper data fetch` downloads those with
a public address. *SHA-256* is the first part of the digest of a graph's content, whatever the
order of its edges; `graphtemper data inspect NAME` compares it. A licence marked "(repo)" is that
of the upstream repository and may not have been meant for the data. Graphs without a stated
licence are used for research here and are not passed on.

The results in this folder were made by graphtemper {version}, code `{code}`{others}.
`graphtemper data archive FILE.tar.gz` writes this page, the results, and the graphs whose licence
allows it into one file; the same files give the same bytes.

| graph | nodes | edges | licence | SHA-256 | credit | upstream |
| --- | ---: | ---: | --- | --- | --- | --- |
"""


def page(results: Path) -> str:
    """Return the page of all graphs, and of the code behind the results in a folder.

    Examples
    --------
    >>> print(page(Path("nowhere")).splitlines()[0])
    # Data
    """
    lines = [
        f"| {one.name} | {one.nodes:,} | {one.edges:,} | {one.licence} | {one.sha256[:12] or '-'} "
        f"| {one.publication} | {one.upstream} |"
        for one in datasets.CATALOGUE.values()
    ]
    old = [f"`{name}` ({code})" for name, code in stale(results).items()]
    others = f", except those of other code: {', '.join(old)}" if old else ""
    head = HEAD.format(version=__version__, code=digest(), others=others)
    return head + "\n".join(lines) + "\n"


def may_be_passed_on(licence: str) -> bool:
    """Say whether every licence that is stated for a graph is an open one.

    Examples
    --------
    >>> may_be_passed_on("MIT (repo)"), may_be_passed_on("none stated")
    (True, False)
    """
    stated = licence.replace(";", ",").split(",")
    return all(one.strip().startswith((*OPEN, "GPL-3.0")) for one in stated)


def archive(path: Path, results: Path) -> list[str]:
    """Write the archive and return the names of the graphs in it."""
    if not results.is_dir():
        raise errors.no_file(f"{results} is not a folder; name the folder of the results.")
    graphs = [
        (name, file)
        for name, one in datasets.CATALOGUE.items()
        if may_be_passed_on(one.licence) and (file := datasets.find(name)) is not None
    ]
    with (
        atomic_write(path) as stream,
        gzip.GzipFile("", "wb", fileobj=stream, mtime=0) as packed,
        tarfile.open(mode="w", fileobj=packed) as tar,
    ):
        checksums = []
        for name, content in _members(results, graphs):
            _add(tar, name, content)
            checksums.append(f"{hashlib.sha256(content).hexdigest()}  {name}\n")
        _add(tar, "SHA256SUMS", "".join(checksums).encode())
    return [name for name, _ in graphs]


def _members(results: Path, graphs: list[tuple[str, Path]]) -> Iterator[tuple[str, bytes]]:
    yield "DATA.md", page(results).encode("utf-8")
    for file in sorted(results.rglob("*")):
        if file.is_file() and file != results / "DATA.md":
            yield f"results/{file.relative_to(results).as_posix()}", file.read_bytes()
    for name, file in graphs:
        yield f"graphs/{name}.npz", file.read_bytes()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(f"graphtemper-{__version__}/{name}")
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))
