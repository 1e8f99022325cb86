"""A headless Chromium, or the reason why there is none."""

import os
import shutil
from pathlib import Path

import pytest

SCREENS = Path(__file__).parents[2] / "artifacts" / "screens"


@pytest.fixture(scope="session")
def chromium():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    executable = next(filter(None, map(shutil.which, names)), None)
    if executable is None:
        pytest.skip("Chromium is not installed; run scripts/install_chromium.sh")
    # Chromium's own sandbox does not work for root.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def screens():
    SCREENS.mkdir(parents=True, exist_ok=True)
    return SCREENS


@pytest.fixture
def visit(chromium):
    """Open a file, and check in the end that it printed no message and requested nothing else."""
    contexts, messages, requests = [], [], []

    def open_page(path, **options):
        context = chromium.new_context(**options)
        contexts.append(context)
        sheet = context.new_page()
        sheet.on("console", lambda message: messages.append(message.text))
        sheet.on("pageerror", lambda error: messages.append(str(error)))
        sheet.on("request", lambda request: requests.append(request.url))
        sheet.goto(path.as_uri())
        return sheet

    yield open_page
    for context in contexts:
        context.close()
    assert messages == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
