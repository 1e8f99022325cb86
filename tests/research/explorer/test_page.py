"""The page as a file: one piece, nothing fetched, and its scripts allowed by their hashes."""

import base64
import doctest
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from graphtemper.cli import app
from graphtemper_research.explorer.presets import PRESETS
from graphtemper_research.explorer.script import MODULES, script
from graphtemper_research.explorer.sliders import CONTROLS

pytest.importorskip("vl_convert")
pytest.importorskip("jinja2")
LOADING = ("src", "href", "srcset", "data", "action", "poster", "background", "formaction")


class Outline(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.loads, self.elements, self.scripts, self._script = [], [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.loads += [value for key, value in attrs if key in LOADING]
        self._script = tag == "script"
        if self._script:
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._script = False

    def handle_data(self, data):
        if self._script:
            self.scripts[-1] += data

    def ids(self):
        return [found["id"] for _, found in self.elements if "id" in found]


@pytest.fixture(scope="module")
def pages():
    from graphtemper_research.explorer.page import render

    return {"static": render(), "served": render(simulate=True)}


@pytest.mark.parametrize("kind", ["static", "served"])
def test_one_file_that_fetches_nothing(pages, kind):
    seen = Outline(pages[kind])
    assert set(seen.loads) == {"#answer", "data:,"}
    assert len(pages[kind].encode()) < 1_500_000
    own = script(*MODULES, "drawing", "wording", "explorer")
    assert "//" not in re.sub(r"^\s*//.*$", "", own, flags=re.M)  # comments only, no addresses
    policy = next(found["content"] for _, found in seen.elements if "http-equiv" in found)
    assert "default-src 'none'" in policy
    assert ("connect-src 'self'" if kind == "served" else "connect-src 'none'") in policy
    data, *code = seen.scripts
    hashes = re.findall(r"'sha256-([^']+)'", policy)
    assert hashes == [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in code
    ]
    assert json.loads(data)["simulate"] == (kind == "served")


def test_only_the_served_page_can_simulate(pages):
    assert "simulate" not in Outline(pages["static"]).ids()
    assert "simulate" in Outline(pages["served"]).ids()


def test_every_input_has_a_name_and_every_id_is_used_once(pages):
    seen = Outline(pages["served"])
    ids = seen.ids()
    assert len(ids) == len(set(ids))
    labelled = {found.get("for") for tag, found in seen.elements if tag == "label"}
    fields = [found for tag, found in seen.elements if tag in ("input", "select")]
    assert len(fields) == 2 * len(CONTROLS) + 3
    for found in fields:
        assert found["id"] in labelled or found["aria-labelledby"] in ids


def test_presets_are_on_the_page(pages):
    facts = json.loads(Outline(pages["static"]).scripts[0])
    assert list(facts["presets"]) == [preset.name for preset in PRESETS]
    for preset in PRESETS:
        assert preset.title in pages["static"]


def test_the_command_writes_the_page(pages, tmp_path, capsys):
    target = tmp_path / "explorer.html"
    app(["explore", "--out", str(target), "--json"], result_action="return_value")
    said = json.loads(capsys.readouterr().out)
    assert said == {"page": str(target), "bytes": target.stat().st_size}
    assert target.read_text("utf-8") == pages["static"]


def test_scripts_have_no_modules_left():
    text = script(*MODULES, "drawing", "wording", "explorer")
    assert not re.search(r"^\s*(import|export)\b", text, re.M)
    assert "</" not in text


def test_the_page_of_the_documentation_runs():
    page = Path(__file__).parents[3] / "docs" / "explorer.md"
    found = doctest.testfile(str(page), module_relative=False)
    assert found.attempted > 4
    assert found.failed == 0
