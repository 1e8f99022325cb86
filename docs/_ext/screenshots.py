"""Photograph the project's own pages with Chromium, for the pages that describe them.

Everything is made while the site is built, so that a picture cannot show an old version. Without
playwright or Chromium the pictures are left out, and a note takes the place of each.
"""

import contextlib
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

import changes
from docutils import nodes
from docutils.parsers.rst.directives.images import Figure
from sphinx.util import logging

FOLDER = "_generated/screens"
PRINTED = "method"
# What to photograph: the file, the height of the picture, and what to wait for.
SCREENS = {
    "report": ("report.html", 900, "html[data-charts=ready]"),
    "watch": ("watch.html", 1450, "html[data-charts=ready]"),
    "explorer": ("explore.html", 900, "[data-reading=slope]"),
}
NO_BROWSER = "This picture is made with Chromium, which was not available when the site was built."


def setup(app):
    """Take the pictures before pages are read; register the figure."""
    app.connect("builder-inited", _write, priority=600)  # after the demo's report is written
    app.connect("build-finished", _print)
    app.add_directive("screenshot", Screenshot)
    app.add_role("methodpdf", _link)
    return {"parallel_read_safe": True}


class Screenshot(Figure):
    """A figure that shows one of `SCREENS`, or a note that there was no browser."""

    def run(self):
        """Return the figure or the note."""
        env = self.state.document.settings.env
        name = f"{FOLDER}/{self.arguments[0]}.png"
        env.note_dependency(name)
        if not (Path(env.srcdir) / name).is_file():
            return [nodes.note("", nodes.paragraph("", NO_BROWSER))]
        self.arguments[0] = f"/{name}"
        self.options["figclass"] = ["screenshot"]
        return super().run()


def _link(name, rawtext, text, lineno, inliner, options=None, content=None):
    if _executable() is None:
        return [nodes.Text(f"{text} if the site is built with Chromium")], []
    document = inliner.document.settings.env.docname
    address = "../" * document.count("/") + f"{PRINTED}.pdf"
    return [nodes.reference(rawtext, text, refuri=address, internal=True)], []


def _executable():
    """Return where Chromium is, or None without it or without playwright."""
    if importlib.util.find_spec("playwright") is None:
        return None
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


@contextlib.contextmanager
def browser():
    """Start Chromium, or give None where it cannot be started."""
    executable = _executable()
    if executable is None:
        yield None
        return
    from playwright.sync_api import Error, sync_playwright

    # Chromium's own sandbox does not work for root.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        try:
            chromium = playwright.chromium.launch(executable_path=executable, args=arguments)
        except Error:
            yield None
            return
        yield chromium
        chromium.close()


def _write(app):
    source = Path(app.srcdir)
    folder = source / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    last = folder / f"{list(SCREENS)[-1]}.png"
    if not changes.older(last, changes.library(source)):
        return
    with browser() as chromium, tempfile.TemporaryDirectory() as temporary:
        if chromium is None:
            logging.getLogger(__name__).info("no Chromium: screenshots are left out")
            return
        _write_pages(Path(temporary), source)
        for name, (file, height, ready) in SCREENS.items():
            _take(chromium, Path(temporary) / file, folder / f"{name}.png", height, ready)


def keep(file, name, height):
    """Keep a page that a block has written: the file in a folder of the site, and its picture."""
    generated = Path(__file__).parents[1] / "_generated"
    folder = generated / Path(FOLDER).name
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, generated / f"{name}.html")
    with browser() as chromium:
        if chromium is not None:
            _take(chromium, file, folder / f"{name}.png", height, SCREENS["watch"][2])


def _take(chromium, file, out, height, ready):
    page = chromium.new_page(viewport={"width": 1100, "height": height})
    page.goto(file.as_uri())
    page.wait_for_selector(ready, timeout=60_000)
    page.screenshot(path=out)
    page.close()


def _print(app, error):
    """Write the method page as PDF next to it."""
    page = Path(app.outdir) / f"{PRINTED}.html"
    document = page.with_suffix(".pdf")
    if error is not None or not page.is_file() or not changes.older(document, [page]):
        return
    with browser() as chromium:
        if chromium is not None:
            sheet = chromium.new_page()
            sheet.goto(page.as_uri())
            sheet.evaluate(
                "for (const part of document.querySelectorAll('details')) part.open = true"
            )
            margins = dict.fromkeys(("top", "bottom", "left", "right"), "18mm")
            sheet.pdf(path=document, format="A4", margin=margins)
            sheet.close()


def _write_pages(folder, source):
    """Write the pages that are photographed."""
    from graphtemper_research.explorer.page import write_page as write_explorer

    shutil.copy(source / "_generated" / "report.html", folder)
    write_explorer(folder / "explore.html")
    _watch(folder)


def _watch(folder):
    """Follow a graph whose neighbours agree less and less, with the command that users run."""
    from site_objects import made

    from graphtemper import csbm
    from graphtemper.cli import app

    made()["model"].save(folder / "model.npz")
    made()["card"].save(folder / "model.card.json")
    snapshots = folder / "snapshots"
    snapshots.mkdir()
    for month in range(18):
        homophily = 0.8 - 0.02 * max(month - 7, 0)
        graph = csbm.sample(800, 6, homophily, snr=1.0, num_features=6, seed=100 + month)
        graph.save(snapshots / f"{2025 + month // 12}-{month % 12 + 1:02}.npz")
    common = f"""{snapshots} --predict {folder / "model.npz"}
    --card {folder / "model.card.json"} --log {folder / "watch.sqlite"}
    --page {folder / "watch.html"} --fail-on accuracy<0.8 --json"""
    late = [f"monitor labels --of {name}.npz" for name in ("2025-03", "2025-09", "2025-12")]
    for command in ("monitor", *late):
        with contextlib.redirect_stdout(None), contextlib.suppress(SystemExit):
            app(f"{command} {common}".split())
