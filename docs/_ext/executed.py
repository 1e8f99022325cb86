"""Run Python cells and keep what they print and draw."""

from __future__ import annotations

import ast
import contextlib
import io
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Cell:
    """A paragraph of text, the code below it, and what the code printed and drew."""

    text: str
    code: str
    output: str = ""
    figures: list[Path] = field(default_factory=list)


def cells(script: str) -> tuple[str, list[Cell]]:
    """Return the docstring of a script and its cells, which begin at lines ``# %%``.

    Comments directly below such a line are the text of the cell, in Markdown.
    """
    docstring = ast.get_docstring(ast.parse(script))
    if docstring is None:
        raise ValueError("an example begins with a docstring: its title and what it shows.")
    found = []
    for part in script.split("\n# %%\n")[1:]:
        lines = part.split("\n")
        end = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
        text = "\n".join(line[1:].removeprefix(" ") for line in lines[:end])
        found.append(Cell(text, "\n".join(lines[end:]).strip("\n")))
    return docstring, found


def run(code: str, namespace: dict, name: str, folder: Path) -> tuple[str, list[Path]]:
    """Run code; return what it prints, and the figures it draws, which are written to a folder."""
    import matplotlib as mpl

    from graphtemper.recalibration.report import style

    mpl.use("agg")
    from matplotlib import pyplot

    pyplot.close("all")
    figures = []
    size = {"figure.figsize": (7.0, 3.2)}
    with mpl.rc_context(size, style.SETTINGS), contextlib.redirect_stdout(io.StringIO()) as stream:
        exec(compile(code, name, "exec"), namespace)
        for figure in map(pyplot.figure, pyplot.get_fignums()):
            figures.append(folder / f"{name}_{figure.number}.png")
            figure.savefig(figures[-1], metadata={"Software": None})
    pyplot.close("all")
    output = "\n".join(line.rstrip() for line in stream.getvalue().rstrip().splitlines())
    return output, figures


def run_script(path: Path, folder: Path) -> tuple[str, list[Cell]]:
    """Run an example; its figures are written into a folder."""
    docstring, found = cells(path.read_text("utf-8"))
    namespace: dict = {"__name__": "__main__"}
    for number, cell in enumerate(found):
        name = f"{path.stem}_{number}"
        cell.output, cell.figures = run(cell.code, namespace, name, folder)
    return docstring, found


def fenced(language: str, text: str, *options: str) -> str:
    """Return a block of code."""
    return "\n".join([f"```{{code-block}} {language}", *options, "", text, "```"])


def page(path: Path, docstring: str, found: list[Cell], source: Path) -> str:
    """Return an example as a page in Markdown."""
    title, _, introduction = docstring.partition("\n")
    title = title.rstrip(".")
    parts = [f"# {title}", introduction.strip()]
    for cell in found:
        parts += [cell.text, fenced("python", cell.code)]
        if cell.output:
            parts.append(fenced("text", cell.output, ":class: output"))
        parts += [f"![{title}](/{figure.relative_to(source)})" for figure in cell.figures]
    parts.append(f"{{download}}`Download this example <../{path.name}>`")
    return "\n\n".join(part for part in parts if part) + "\n"
