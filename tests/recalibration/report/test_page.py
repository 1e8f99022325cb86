import base64
import hashlib
import json
import re
import sys
from html.parser import HTMLParser

import pytest
from tests.helpers import raises

from graphtemper.errors import MissingExtraError, VersionError
from graphtemper.recalibration.report import html
from graphtemper.recalibration.report.content import content
from graphtemper.recalibration.report.page import read_report, render

pytest.importorskip("vl_convert")
LOADING = ("src", "href", "srcset", "data", "action", "poster", "background", "formaction")


class Outline(HTMLParser):
    """Elements, attributes that load something, scripts and visible text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.loads, self.scripts, self.attributes, self.text = [], [], [], [], ""
        self._open = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))
        self.loads += [value for key, value in attrs if key in LOADING]
        self._open = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag):
        self._open = None

    def handle_data(self, data):
        if self._open == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)
        elif self._open != "style":
            self.text += data


@pytest.fixture(scope="module")
def pages(reported):
    return {name: render(content(result)) for name, result in reported.items()}


@pytest.fixture(scope="module")
def hostile(pages):
    return Outline(pages["hostile"])


def test_a_page_is_small_and_fetches_nothing(pages):
    for text in pages.values():
        assert len(text.encode()) < 2_000_000
        outline = Outline(text)
        assert all(value.startswith("#") for value in outline.loads)
        assert not {"link", "iframe", "object", "embed", "img", "base", "form"} & set(outline.tags)
        style = text[text.index("<style>") : text.index("</style>")]
        assert "url(" not in style
        assert "@import" not in style


def test_the_same_result_gives_the_same_bytes(reported, tmp_path):
    first, second = tmp_path / "a.html", tmp_path / "b.html"
    reported["labels"].report(first)
    html.vega_bundle.cache_clear()
    reported["labels"].report(second)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("name", ["report.pdf", "report", "report.html.gz", ""])
def test_other_files_than_pages_are_refused(reported, tmp_path, name):
    with raises("conflict"):
        reported["plain"].report(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_the_json_block_is_the_content(reported, tmp_path):
    for name in ("labels", "hostile"):
        reported[name].report(tmp_path / "report.html", name="a graph")
        read = json.dumps(read_report(tmp_path / "report.html"))
        # Characters that could reorder or break text are escaped in names.
        assert read.replace("\\\\u2028", "\\u2028") == json.dumps(
            content(reported[name], "a graph")
        )


def test_texts_of_files_are_escaped(pages, hostile):
    assert hostile.tags.count("script") == Outline(pages["plain"]).tags.count("script") == 4
    assert "img" not in hostile.tags
    # As text it is all there: verdict, title, class names, shifts; a template does not read it.
    assert hostile.text.count("window.hacked") > 10
    assert "{{7*7}}" in hostile.text
    names = {key for _, attributes in hostile.attributes for key in attributes}
    assert not [key for key in names if key.startswith("on")]


def test_json_cannot_end_its_script(hostile):
    blocks = [text for attributes, text in hostile.scripts if "id" in attributes]
    assert len(blocks) == 2
    for text in blocks:
        assert not set("<>&\u2028") & set(text)
        json.loads(text)


def test_only_the_two_scripts_of_the_page_may_run(hostile):
    policy = next(
        attributes["content"]
        for tag, attributes in hostile.attributes
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    allowed = re.findall(r"'sha256-([^']+)'", policy)
    running = [text for attributes, text in hostile.scripts if "type" not in attributes]
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()) for text in running]
    assert [digest.decode() for digest in digests] == allowed
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in rules["script-src"]


@pytest.mark.parametrize("module", ["jinja2", "vl_convert"])
def test_a_missing_extra_names_the_command(reported, tmp_path, monkeypatch, module):
    html.vega_bundle.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    for job in (html.check_extra, lambda: reported["plain"].report(tmp_path / "report.html")):
        with pytest.raises(MissingExtraError):
            job()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text", ["", "<p>", '<script type="application/json" id="graphtemper-report">{}</script>']
)
def test_other_pages_are_not_reports(tmp_path, text):
    (tmp_path / "other.html").write_text(text)
    with pytest.raises(VersionError):
        read_report(tmp_path / "other.html")


def test_names_on_a_page_cannot_reorder_its_text(reported):
    report = content(next(iter(reported.values())))
    report["name"] = "gpj\u202eexe\ud800"
    text = render(report)
    text.encode("utf-8")
    assert "\u202e" not in text
    assert "\\u202e" in text
