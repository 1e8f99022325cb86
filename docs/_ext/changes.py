"""What has to be made again, because something it depends on is newer."""

from functools import cache
from pathlib import Path


@cache
def library(source: Path) -> tuple[Path, ...]:
    """Return the files of both packages."""
    folders = (source.parent / "src", source.parent / "research" / "src")
    kinds = {".py", ".html", ".js", ".css", ".json"}
    return tuple(file for folder in folders for file in folder.rglob("*") if file.suffix in kinds)


def older(path: Path, files) -> bool:
    """Return whether a file is missing, or older than one of others."""
    newest = max((file.stat().st_mtime for file in files), default=0.0)
    return not path.is_file() or path.stat().st_mtime < newest


def put(path: Path, text: str) -> None:
    """Write a part only if it changed, so that pages which include it are not rebuilt in vain."""
    if not path.is_file() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")
