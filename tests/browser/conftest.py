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
