import json
import math
import re
import sys
from dataclasses import replace

import numpy as np
import pytest

from graphtemper import SourceCard, csbm, recalibrate, shifts
from graphtemper._core.checksum import sealed
from graphtemper._core.safe_reading import seal, unseal
from graphtemper.card.card import MAX_BYTES
from graphtemper.card.format import as_stored, to_json
from graphtemper.errors import FileError, GraphTemperError, InputError
from graphtemper.models import SGC, SIGN
from graphtemper.models.recognition import fingerprint
from graphtemper.signals import node_signals
from graphtemper.signals.observation import Observation

NODES = np.arange(150, 300)
# What a card does with an atlas does not depend on its size.
LEVELS = {
    "noise": (0.5, 2.0),
    "mask": (0.3, 0.8),
    "rewire": (0.2, 0.8),
    "drop": (0.5,),
    "homophily": (-0.5,),
}
SINGLES = sum(map(len, LEVELS.values()))


def build(*arguments, **options):
    return SourceCard.build(*arguments, shifts=LEVELS, **options)


def _sample(seed=1, num_features=6, num_classes=3):
    return csbm.sample(
        300,
        degree=6,
        homophily=0.8,
        snr=1.0,
        num_classes=num_classes,
        num_features=num_features,
        seed=seed,
    )


@pytest.fixture(scope="module")
def graph():
    return _sample()


@pytest.fixture(scope="module")
def model(graph):
    return SIGN(hops=1).fit(graph, range(150))


@pytest.fixture(scope="module")
def card(graph, model):
    return build(model, graph, NODES, compositions=3)


@pytest.fixture
def text(card, tmp_path):
    card.save(tmp_path / "card.json")
    return (tmp_path / "card.json").read_text()


def _write(tmp_path, content):
    path = tmp_path / "edited.json"
    path.write_text(content if isinstance(content, str) else sealed(content))
    return path


def _edit(content, where, value):
    """Set one field, by its path; `...` removes it."""
    *parents, last = where
    inner = content
    for key in parents:
        inner = inner[key]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return content


def test_a_card_answers_alike_before_and_after_it_has_travelled(card, model, tmp_path):
    card.save(tmp_path / "a.json")
    again = SourceCard.load(tmp_path / "a.json")
    again.save(tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    target = shifts.noise(1.0)(_sample(seed=2), 3)
    for predictor in (model, model(target)):
        one, two = (recalibrate(predictor, target, c) for c in (card, again))
        assert one.to_dict() == two.to_dict()
        assert one.probabilities.tobytes() == two.probabilities.tobytes()


def test_a_card_is_small_and_holds_no_row_of_a_node(card, text):
    assert len(text) < MAX_BYTES
    content = json.loads(text)
    # Classes, a covariance with its error, the fixed path of six nodes, the atlas, and thirds of
    # the confidences in each predicted class.
    allowed = {3, 2, 6, 9, len(card.environments), len(content["signals"])}
    assert len(content["population"]["sketch"]) <= 8
    allowed |= {len(node_signals.SIGNALS), len(node_signals.PLAIN_SIGNALS)}
    allowed.add(len(content["population"]["sketch"]))

    def check(value, where):
        if isinstance(value, dict):
            for key, item in value.items():
                check(item, f"{where}.{key}")
        elif isinstance(value, list):
            texts = all(isinstance(item, str) for item in value)
            assert texts or len(value) in allowed, where
            for item in value:
                check(item, where)
        elif isinstance(value, str):
            assert len(value) < 200, where  # nothing is packed into a text

    check(content, "card")
    assert len(content["probe"]["column_std"]["codes"]) == 8  # six columns, in base64


def test_the_default_atlas_on_many_columns_and_classes_fits(card):
    environments = (card.environments * 10)[:126]
    probe = replace(card.probe, column_std=np.random.default_rng(0).random(8000) + 0.1)
    large = replace(card, environments=environments, probe=probe, num_features=8000)
    assert len(to_json(large)) < MAX_BYTES


def test_a_card_is_not_edited_by_accident(card):
    with pytest.raises(AttributeError):
        card.num_nodes = 1


def test_column_strengths_keep_a_few_percent(card):
    std = np.concatenate([[0.0], 10.0 ** np.random.default_rng(1).uniform(-4, 2, 500)])
    kept = as_stored(std)
    assert kept[0] == 0.0
    np.testing.assert_allclose(kept[1:], std[1:], rtol=0.03)
    np.testing.assert_allclose(as_stored(kept), kept, rtol=1e-6)
    assert as_stored(np.zeros(3)).tolist() == [0.0, 0.0, 0.0]
    np.testing.assert_allclose(as_stored(np.full(3, 0.7)), 0.7, rtol=1e-6)


def test_the_same_seed_gives_the_same_bytes(card, graph, model, tmp_path):
    card.save(tmp_path / "a.json")
    build(model, graph, NODES, compositions=3).save(tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_labels_outside_the_chosen_nodes_are_never_read(card, graph, model):
    """Only `homophily` re-draws edges by label, at the source; the others never look."""
    names = [name for name in LEVELS if name != "homophily"]
    hidden = np.where(np.isin(np.arange(300), NODES), graph.labels, -1)
    cards = [
        build(model, g, NODES, compositions=2, exclude=("homophily",))
        for g in (graph, graph.replace(labels=hidden, class_names=graph.class_names))
    ]
    assert [e.__dict__ for e in cards[0].environments] == [
        e.__dict__ for e in cards[1].environments
    ]
    assert set().union(*(e.families for e in cards[0].environments)) == set(names)


EDITS = [
    (("schema",), ..., "'schema' is missing"),
    (("schema",), "graphtemper.card/9", "'schema' is 'graphtemper.card/9'"),
    (("schema",), 1, "'schema'"),
    (("predictor",), 5, "'predictor'"),
    (("num_classes",), ..., "'num_classes' is missing"),
    (("num_classes",), 3.0, "'num_classes'"),
    (("num_classes",), True, "'num_classes'"),
    (("num_classes",), 4, "4"),
    (("num_features",), 7, "column_std.codes"),
    (("num_features",), -6, "'num_features'"),
    (("num_nodes",), -1, "'num_nodes'"),
    (("num_nodes",), 10**400, "'num_nodes'"),
    (("fingerprint",), [[1.0, 2.0]], "'fingerprint'"),
    (("fingerprint",), "none", "'fingerprint'"),
    (("excluded",), "noise", "'excluded'"),
    (("excluded",), [3], r"'excluded\[0\]'"),
    (("probe",), [], "'probe'"),
    (("probe", "temperature"), 0.0, "'probe.temperature'"),
    (("probe", "temperature"), -1.0, "'probe.temperature'"),
    (("probe", "temperature"), 1e-300, "'probe.temperature'"),
    (("probe", "temperature"), "1.0", "'probe.temperature'"),
    (("probe", "temperature"), 10**400, "'probe.temperature'"),
    (("probe", "noise_level"), None, "'probe.noise_level'"),
    (("probe", "passes"), -6, "'probe.passes'"),
    (("probe", "passes"), 1, "'probe.passes'"),
    (("probe", "splits"), 10**9, "'probe.splits'"),
    (("probe", "seed"), -1, "'probe.seed'"),
    (("probe", "edge_share"), 1.5, "'probe.edge_share'"),
    (("probe", "column_std"), "AAAA", "'probe.column_std'"),
    (("probe", "column_std", "low"), -1000.0, "'probe.column_std.low'"),
    (("probe", "column_std", "high"), 1000.0, "'probe.column_std.high'"),
    (("probe", "column_std", "high"), -100.0, "'probe.column_std.high'"),
    (("probe", "column_std", "codes"), "AA*A", "'probe.column_std.codes'"),
    (("probe", "column_std", "codes"), "AAAAA", "'probe.column_std.codes'"),
    (("probe", "column_std", "codes"), "ÄÖ==", "'probe.column_std.codes'"),
    (("probe", "column_std", "codes"), "AAAA", "'probe.column_std.codes'"),
    (("probe", "column_std", "codes"), 7, "'probe.column_std.codes'"),
    (("reference", "accuracy"), 1.1, "'reference.accuracy'"),
    (("reference", "moments", "shares"), [-1.0, 1.0, 1.0], "'reference.moments.shares'"),
    (("reference", "moments", "shares"), [1e9, 1.0, 1.0], "'reference.moments.shares'"),
    (("reference", "moments", "shares"), ["0.5", "0.3", "0.2"], "'reference.moments.shares'"),
    (("reference", "moments", "shares"), [True, False, False], "'reference.moments.shares'"),
    (("reference", "moments", "offsets"), [[0.0] * 3] * 2, "'reference.moments.offsets'"),
    (("reference", "moments", "offsets"), [[0.0] * 3, [0.0]], "'reference.moments.offsets'"),
    (("reference", "moments", "offsets", 0, 0), 10**400, "'reference.moments.offsets'"),
    (("reference", "moments", "offsets", 0, 0), None, "'reference.moments.offsets'"),
    (("reference", "moments", "offsets", 0, 0), [1.0], "'reference.moments.offsets'"),
    (("reference", "evidence", "held"), [1.0, -1.0], "evidence.held' has a negative error"),
    (("reference", "evidence", "covariance", 0, 0), -1.0, "evidence.covariance'"),
    (("population", "recalls"), [5.0, 0.0, 0.0], "population.recalls'"),
    (("signals",), ["confidence"], "'signals' lacks"),
    (("reference", "evidence", "covariance", 0, 0), 1e300, "'reference.evidence.covariance'"),
    (("reference", "evidence", "feature"), None, "evidence.feature'"),
    (("reference", "evidence", "held"), [1.0], "evidence.held'"),
    (("population", "sketch"), [0.0] * 129, "population.sketch'"),
    (("population", "separation"), 0.0, "population.separation'"),
    (("population", "recalls"), ..., "population.recalls'"),
    (("reference", "evidence", "edge_agreement"), ..., "edge_agreement' is missing"),
    (("reference", "evidence", "predicted_shares"), [0.5, 0.5], "predicted_shares'"),
    (("names", "model"), [], "'names.model'"),
    (("names", "model"), ["telepathy"], "'names.model'"),
    (("names", "logits"), ["noise agreement"], "'names.logits'"),
    (("names", "logits"), ["confidence", "confidence"], "'names.logits'"),
    (("kernels", "model"), ..., "'kernels.model' is missing"),
    (("kernels", "model", "noise"), 0.0, "'kernels.model.noise'"),
    (("kernels", "logits", "linear"), 1e300, "'kernels.logits.linear'"),
    (("widening", "model"), 0.5, "'widening.model'"),
    (("widening", "logits"), [], "'widening.logits'"),
    (("environments",), [], "'environments'"),
    (("environments",), {}, "'environments'"),
    (("environments", 2), None, r"'environments\[2\]'"),
    (("environments", 2, "accuracy"), -0.1, r"'environments\[2\].accuracy'"),
    (("environments", 2, "families"), "noise", r"'environments\[2\].families'"),
    (("environments", 2, "signals"), [0.5], r"'environments\[2\].signals' must be a list"),
    (("environments", 2, "signals", 3), 1e9, r"'environments\[2\].signals\[3\]'"),
]


@pytest.mark.parametrize(("where", "value", "named"), EDITS)
def test_an_edited_card_is_refused_by_field(text, tmp_path, where, value, named):
    path = _write(tmp_path, _edit(json.loads(text), where, value))
    with pytest.raises(FileError, match=named) as caught:
        SourceCard.load(path)
    assert "\n" not in str(caught.value)


def test_every_field_is_needed(text, tmp_path):
    """Leave out each key in turn, at every depth: none is forgotten, and each is named."""

    def keys(value, where=()):
        if isinstance(value, dict):
            for key, item in value.items():
                yield (*where, key)
                yield from keys(item, (*where, key))
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            yield from keys(value[0], (*where, 0))

    optional = {("class_profile",), ("node_response",), ("crc32",), ("natural",)}
    for where in set(keys(json.loads(text))) - optional:
        path = _write(tmp_path, _edit(json.loads(text), where, ...))
        with pytest.raises(FileError, match=f"{where[-1]}' is missing"):
            SourceCard.load(path)


def test_the_signal_that_the_rows_lack_is_named(text, tmp_path):
    for name in json.loads(text)["signals"]:
        content = json.loads(text)
        content["signals"].remove(name)
        with pytest.raises(FileError, match=f"'signals' lacks '{name}'"):
            SourceCard.load(_write(tmp_path, content))


def test_unknown_fields_are_ignored(card, text, tmp_path):
    content = json.loads(text)
    content["later"] = {"deep": [1, {"er": None}]}
    content["probe"]["later"] = 3
    content["environments"][0]["later"] = "x"
    content["signals"].append("later")
    for row in content["environments"]:
        row["signals"].append(0.5)
    SourceCard.load(_write(tmp_path, content)).save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == text


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[:-1],
        lambda text: text[: len(text) // 2],
        lambda text: "not json",
        lambda text: "[]",
        lambda text: "null",
        lambda text: "3",
        lambda text: "[" * 100_000,
        lambda text: '{"schema":' * 50_000,
        lambda text: text.replace('"num_classes":3', '"num_classes":NaN'),
        lambda text: text.replace('"num_classes":3', '"num_classes":Infinity'),
        lambda text: text.replace('"accuracy":0.', '"accuracy":1e999, "x":0.', 1),
        lambda text: text.replace('"num_nodes":150', '"num_nodes":' + "9" * 5000),
        lambda text: text + " " * 500_000,
        lambda text: text + "{}",
    ],
)
def test_a_damaged_file_is_refused_in_one_sentence(text, tmp_path, damage):
    with pytest.raises(FileError, match=r"edited\.json") as caught:
        SourceCard.load(_write(tmp_path, damage(text)))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_blanks_are_forgiven_up_to_the_largest_file(card, text, tmp_path):
    padded = text + " " * (4 * MAX_BYTES - len(text))
    assert to_json(SourceCard.load(_write(tmp_path, padded))) == to_json(card)
    with pytest.raises(FileError, match="larger than the 400,000 bytes"):
        SourceCard.load(_write(tmp_path, padded + " "))


def test_files_that_are_no_text_or_not_there_are_refused(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00\x80PK")
    for path in (tmp_path / "binary", tmp_path / "nowhere", tmp_path):
        with pytest.raises(FileError):
            SourceCard.load(path)


def test_another_model_is_refused(card, graph, model):
    card.check(model, graph)
    card.check(lambda g: model(g), graph)
    card.check(model(graph), graph)
    with pytest.raises(InputError, match="6 feature columns but this one has 5"):
        card.check(model, _sample(num_features=5))
    other = SIGN(hops=1).fit(_sample(num_features=5))
    narrow = _sample(num_classes=2)
    for wrong in (
        SIGN(hops=1).fit(graph, range(100)),
        SIGN(hops=2).fit(graph, range(150)),
        SGC(hops=1).fit(graph, range(150)),
        SIGN(hops=1).fit(narrow),
        lambda g: 1.05 * model(g),
        lambda g: model(g)[:, [1, 0, 2]],
    ):
        with pytest.raises(InputError, match="card"):
            card.check(wrong, graph)
    with pytest.raises(InputError, match="fitted on 5 feature columns"):
        card.check(other, graph)  # cannot even run on this many columns


def test_a_model_that_knows_only_its_own_graph_has_no_fingerprint(graph, model):
    table = {graph.num_nodes: model}

    def transductive(g):
        return table[g.num_nodes](g)  # a lookup that fails elsewhere, as that of embeddings does

    card = build(transductive, graph, NODES, compositions=0)
    assert card.fingerprint is None
    card.check(transductive, graph)
    assert np.isfinite(recalibrate(transductive, graph, card).probabilities).all()


def test_a_probe_graph_says_nothing_of_the_source(card, model):
    assert card.fingerprint.shape == (6, 3)
    np.testing.assert_allclose(fingerprint(model, 6), card.fingerprint, rtol=1e-5)


def test_odd_arguments_are_refused_before_any_work(graph, model):
    def never(g):
        raise AssertionError("the model ran")

    for arguments in (
        {"seed": -1},
        {"seed": 1.5},
        {"compositions": -1},
        {"exclude": ("fog",)},
        {"exclude": "noise"},
        {"nodes": range(20)},
    ):
        with pytest.raises(InputError):
            build(never, graph, **({"nodes": NODES} | arguments))
    with pytest.raises(InputError, match="label"):
        build(never, graph.replace(labels=None), NODES)
    with pytest.raises(InputError, match="logits are equal"):
        build(lambda g: np.ones((g.num_nodes, 3)), graph, NODES)
    with pytest.raises(InputError, match="model"):
        build(model(graph), graph, NODES)


def test_a_card_that_would_be_too_large_is_not_written(card, tmp_path):
    with pytest.raises(InputError, match="environments"):
        replace(card, environments=card.environments * 90).save(tmp_path / "large.json")
    assert not list(tmp_path.iterdir())


def test_exclude_leaves_the_family_out_and_says_so(graph, model):
    card = build(model, graph, NODES, compositions=6, exclude=["noise", "mask"])
    assert any(len(item.families) > 1 for item in card.environments)
    families = set().union(*(item.families for item in card.environments))
    assert families == set(LEVELS) - {"noise", "mask"}
    assert card.excluded == ("mask", "noise")
    assert "left out: mask, noise" in card.summary()


def test_the_atlas_is_what_the_caller_chose(card):
    assert card.families == tuple(sorted(LEVELS))
    assert sum(len(item.families) == 1 for item in card.environments) == SINGLES


def test_a_family_that_the_atlas_does_not_have_cannot_be_left_out(card):
    with pytest.raises(InputError, match="the atlas has drop, homophily, mask, noise, rewire"):
        card.without("scale")
    thinner = card.without("noise")
    assert "noise" not in thinner.families
    assert thinner.without("noise").families == thinner.families


def test_the_summary_is_for_people(card):
    lines = card.summary().splitlines()
    assert lines[0] == "SIGN: 3 classes, 6 feature columns"
    assert "150 source nodes" in lines[1]
    assert all(line and len(line) < 200 for line in lines)


class Stops:
    """The same model; after some calls the machine goes down."""

    def __init__(self, model, calls, error):
        self.model, self.left, self.error = model, calls, error

    def __call__(self, graph):
        self.left -= 1
        if self.left < 0:
            raise self.error
        return self.model(graph)


def _calls(model, graph, budget="thorough", **other):
    """Return a card and the calls it took."""
    counting = Stops(model, 10**9, None)
    card = build(counting, graph, NODES, compositions=0, budget=budget, **other)
    return card, 10**9 - counting.left


@pytest.mark.parametrize("budget", ["thorough", 500])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("power")])
def test_a_build_that_was_stopped_goes_on(graph, model, tmp_path, error, budget):
    whole, calls = _calls(model, graph, budget)
    journal = tmp_path / "deep" / "journal.jsonl"
    with pytest.raises(type(error)):
        build(
            Stops(model, round(0.85 * calls), error),
            graph,
            NODES,
            compositions=0,
            resume=journal,
            budget=budget,
        )
    kept = len(journal.read_text().splitlines())
    assert 0 < kept < SINGLES
    with journal.open("ab") as stream:  # the line that was being written
        stream.write(b'{"key": "0:1.0", "shift": "noise(\xff')
    ticks = []
    again, needed = _calls(
        model, graph, budget, resume=journal, progress=lambda *n: ticks.append(n)
    )
    assert needed < calls
    assert ticks[0] == (kept, SINGLES)
    assert ticks[-1] == (SINGLES, SINGLES)
    for card, name in ((whole, "a"), (again, "b")):
        card.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    # All are now in the file, none of them lost to the broken line.
    _, last = _calls(model, graph, budget, resume=journal)
    at_source = 110 if budget == "thorough" else 27
    assert last == at_source
    # No environment was measured twice, but for the one that was under way.
    assert round(0.85 * calls) + needed - at_source <= calls + math.ceil((calls - last) / SINGLES)


def test_damaged_lines_of_a_resume_file_are_not_used(graph, model, tmp_path):
    journal = tmp_path / "journal.jsonl"
    fresh, calls = _calls(model, graph, resume=journal)
    lines = journal.read_bytes().splitlines()
    digit = re.compile(rb'"accuracy": 0\.(\d)')
    damaged = [digit.sub(lambda found: b'"accuracy": 0.%d' % ((int(found[1]) + 1) % 10), line)
               for line in lines]  # fmt: skip
    assert all(old != new for old, new in zip(lines, damaged, strict=True))
    journal.write_bytes(b"\n".join(damaged) + b"\n")
    again, needed = _calls(model, graph, resume=journal)
    assert needed == calls
    assert [e.__dict__ for e in again.environments] == [e.__dict__ for e in fresh.environments]


def _started(journal, *arguments, **other):
    ticks = []
    build(*arguments, resume=journal, compositions=0, progress=lambda *n: ticks.append(n), **other)
    return ticks[0][0]


def test_a_resume_file_of_another_input_is_not_used(graph, model, tmp_path):
    """Every input is part of the key, also those that do not change the source's logits."""
    journal = tmp_path / "journal.jsonl"

    def plain(given):  # reads no edges
        return given.features[:, :3] * 2.0

    assert _started(journal, plain, graph, NODES) == 0
    assert _started(journal, plain, graph, NODES) == SINGLES
    other_edges = graph.replace(edges=graph.edges[:-1])
    other_labels = graph.replace(labels=np.where(np.arange(len(graph.labels)) == NODES[0],
                                                 (graph.labels + 1) % 3, graph.labels))  # fmt: skip
    assert _started(journal, plain, other_edges, NODES) == 0
    assert _started(journal, plain, other_labels, NODES) == 0
    assert _started(journal, plain, graph, NODES[:-1]) == 0
    assert _started(journal, plain, graph, NODES, seed=9) == 0
    assert _started(journal, lambda given: plain(given) * (1 + 1e-6), graph, NODES) == 0
    assert _started(journal, plain, graph, NODES) == SINGLES


def test_a_resume_file_of_another_version_of_the_code_is_not_used(
    graph, model, tmp_path, monkeypatch
):
    journal = tmp_path / "journal.jsonl"
    _started(journal, model, graph, NODES)
    monkeypatch.setattr("graphtemper.card.journal.source_digest", lambda exclude: "other")
    assert _started(journal, model, graph, NODES) == 0


def test_a_file_that_is_no_journal_is_not_appended_to(graph, model, tmp_path):
    path = tmp_path / "graph.npz"
    graph.save(path)
    before = path.read_bytes()
    with pytest.raises(FileError, match="not the journal"):
        build(model, graph, NODES, compositions=0, resume=path)
    assert path.read_bytes() == before


def test_invalid_rows_of_a_resume_file_are_named(graph, model, tmp_path):
    journal = tmp_path / "journal.jsonl"
    _started(journal, model, graph, NODES)
    row = json.loads(unseal(journal.read_bytes().splitlines()[0]))
    for edit in ({"signals": {}}, {"accuracy": "high"}):
        journal.write_bytes(seal(json.dumps(row | edit).encode()) + b"\n")
        with pytest.raises(FileError, match=r"journal\.jsonl: field"):
            build(model, graph, NODES, compositions=0, resume=journal)


def test_no_digit_of_a_card_changes_unnoticed(text, tmp_path):
    """Change each digit in turn, of a sample of the positions."""
    positions = [place for place, letter in enumerate(text) if letter.isdigit()]
    rng = np.random.default_rng(0)
    for place in rng.choice(positions, 200, replace=False):
        digit = str((int(text[place]) + int(rng.integers(1, 10))) % 10)
        with pytest.raises(FileError):
            SourceCard.load(_write(tmp_path, text[:place] + digit + text[place + 1 :]))


def test_a_card_without_its_checksum_is_refused_and_ones_of_earlier_schemas_are_read(
    card, text, tmp_path
):
    content = json.loads(text)
    assert content.pop("crc32")
    with pytest.raises(FileError, match="checksum"):
        SourceCard.load(_write(tmp_path, json.dumps(content)))
    content["schema"] = "graphtemper.card/2"
    assert SourceCard.load(_write(tmp_path, json.dumps(content))).to_json() == text
    content["schema"] = "graphtemper.card/3"
    content["population"]["sketch"] = [0.5] * 128
    assert SourceCard.load(_write(tmp_path, content)).population.sketch.size == 128


def test_white_space_and_order_do_not_matter_to_the_checksum(text, tmp_path):
    content = json.loads(text)
    turned = dict(reversed(content.items()))
    assert SourceCard.load(_write(tmp_path, json.dumps(turned, indent=2))).to_json() == text


def test_a_key_twice_in_a_card_is_refused(text, tmp_path):
    with pytest.raises(FileError, match="'predictor' occurs twice"):
        SourceCard.load(_write(tmp_path, text[:-1] + ',"predictor":"other"}'))


def test_a_resume_file_that_cannot_be_written_is_one_sentence(graph, model, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(GraphTemperError, match="cannot write"):
        build(model, graph, NODES, compositions=0, resume=tmp_path / "file" / "journal")


def test_the_repr_is_short_and_says_what_matters(card):
    text = repr(card)
    assert len(text) < 400
    assert "'SIGN'" in text
    assert f"{card.temperature:.4g}" in text
    assert f"environments={len(card.environments)} of 5 families" in text
    long = replace(card, predictor="x" * 200, excluded=tuple(f"drop_columns{i}" for i in range(13)))
    assert len(repr(long)) < 400


def test_notebooks_show_a_table_and_a_picture(card, monkeypatch):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    html = replace(card, predictor="<script>")._repr_html_()
    assert "<script>" not in html
    assert f"{card.reference.accuracy:.1%}" in html
    assert 'src="data:image/png;base64,' in html
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "<img" not in card._repr_html_()


def test_an_observation_is_read_at_the_source_temperature_only(card, graph, model):
    observation = Observation(model, graph, NODES)
    assert card.read(observation.at(card.temperature)).num_nodes == NODES.size
    with pytest.raises(InputError, match=r"at\(card.temperature\)"):
        card.read(observation)


def test_the_response_is_computed_once_per_card(card):
    assert card.response(has_model=True) is card.response(has_model=True)
    assert replace(card).response(has_model=True) is not card.response(has_model=True)
