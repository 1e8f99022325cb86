"""Downloads from a server on 127.0.0.1 that fails in each of the ways that servers fail."""

import hashlib
import http.server
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import csbm
from graphtemper.errors import FileError, InputError
from graphtemper.graph.graph import Graph
from graphtemper_research.graphs import datasets
from graphtemper_research.graphs.download import RetryPolicy, download, exclusive, git_blob_id

NAME = "roman_empire"
QUICK = RetryPolicy(timeout=0.3, attempts=3, pause=0.01)
CONTENT = np.random.default_rng(0).bytes(300_000)


def blob_id(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server = self.server
        range_ = self.headers.get("Range")
        server.ranges.append(range_)
        fault = server.faults.pop(0) if server.faults else "none"
        if str(fault).startswith(("http:", "https:")):
            self.send_response(302)
            self.send_header("Location", fault)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if isinstance(fault, int):
            self.send_error(fault)
            return
        start = 0
        if range_ and server.supports_range:
            start = int(re.fullmatch(r"bytes=(\d+)-", range_)[1])
            if start >= len(server.content):
                self.send_error(416)
                return
        body = server.content[start:]
        self.send_response(206 if start else 200)
        if start:
            end = len(server.content)
            first = start + 1 if fault == "shifted" else start
            self.send_header("Content-Range", f"bytes {first}-{end - 1}/{end}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.close_connection = True
        if fault == "none" or fault == "shifted":
            self.wfile.write(body)
            return
        self.wfile.write(body[: len(body) // 2])
        self.wfile.flush()
        if fault == "stall":
            server.released.wait(5)

    def log_message(self, *_):
        pass


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.content, server.faults, server.ranges = CONTENT, [], []
    server.supports_range, server.released = True, threading.Event()
    server.url = f"http://127.0.0.1:{server.server_port}/{NAME}.npz"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.released.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def part(tmp_path):
    return tmp_path / "file.part"


def get(server, part, **options):
    download(server.url, part, blob_id(CONTENT), retry=QUICK, **options)


def test_a_good_file_arrives_with_progress_to_the_end(server, part):
    steps = []
    get(server, part, progress=lambda done, total: steps.append((done, total)))
    assert part.read_bytes() == CONTENT
    assert steps[0] == (0, len(CONTENT))
    assert steps[-1] == (len(CONTENT), len(CONTENT))
    assert steps == sorted(steps)


def test_a_truncated_file_is_resumed_where_it_broke(server, part):
    server.faults = ["cut", "cut"]
    get(server, part)
    assert part.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=150000-", "bytes=225000-"]


def test_a_later_call_resumes_an_earlier_one(server, part):
    server.faults = ["cut"] * 3
    with raises("download"):
        get(server, part)
    assert part.read_bytes() == CONTENT[:262_500]
    get(server, part)
    assert part.read_bytes() == CONTENT
    assert server.ranges[-1] == "bytes=262500-"


def test_a_server_without_ranges_starts_over(server, part):
    server.supports_range = False
    server.faults = ["cut"]
    get(server, part)
    assert part.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=150000-"]


def test_wrong_content_is_deleted_and_named(server, part):
    server.content = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])
    with raises("download"):
        get(server, part)
    assert not part.exists()
    assert len(server.ranges) == 1


def test_a_kept_part_that_is_wrong_is_replaced(server, part):
    part.write_bytes(b"something else")
    get(server, part)
    assert part.read_bytes() == CONTENT
    assert server.ranges == ["bytes=14-", None]


def test_a_kept_part_that_is_too_long_is_replaced(server, part):
    part.write_bytes(CONTENT + b"more")
    get(server, part)
    assert part.read_bytes() == CONTENT


def test_a_whole_part_needs_no_request(server, part):
    part.write_bytes(CONTENT)
    get(server, part)
    assert server.ranges == []


@pytest.mark.parametrize("status", [404, 410])
def test_a_missing_file_is_reported_at_once(server, part, status):
    server.faults = [status]
    with raises("no-file"):
        get(server, part)
    assert len(server.ranges) == 1


def test_a_refusal_is_reported_at_once(server, part):
    server.faults = [403]
    with raises("download"):
        get(server, part)


def test_a_temporary_error_is_retried(server, part):
    server.faults = [503, 429]
    get(server, part)
    assert part.read_bytes() == CONTENT


def test_a_stall_ends_and_names_the_host(server, part):
    server.faults = ["stall"] * 3
    with raises("download"):
        get(server, part)
    assert part.stat().st_size == 262_500


def test_a_stall_is_resumed(server, part):
    server.faults = ["stall"]
    get(server, part)
    assert part.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=150000-"]


def test_another_range_than_the_requested_one_is_refused(server, part):
    part.write_bytes(CONTENT[:10])
    server.faults = ["shifted"]
    with raises("download"):
        get(server, part)


def test_an_unreachable_server_is_named(part):
    with raises("download"):
        download("http://127.0.0.1:9/x.npz", part, "0" * 40, retry=QUICK)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/hostname",
        "ftp://host/x",
        "roman_empire",
        "https://",
        "http://example.org/x",
        "http://127.0.0.1.example.org/x",
    ],
)
def test_other_addresses_are_refused(part, url):
    with pytest.raises(InputError):
        download(url, part, "0" * 40)


def test_a_redirect_stays_on_https(server, part):
    server.faults = ["http://example.org/x.npz"]
    with raises("download"):
        get(server, part)
    server.faults = [server.url]
    get(server, part)
    assert part.read_bytes() == CONTENT


def test_a_download_has_a_deadline(server, part):
    with raises("download"):
        download(server.url, part, blob_id(CONTENT), retry=RetryPolicy(deadline=1e-9))
    get(server, part)
    assert part.read_bytes() == CONTENT


def test_an_endless_response_is_cut_off(server, part, monkeypatch):
    monkeypatch.setattr("graphtemper_research.graphs.download._MAX_BYTES", 1 << 16)
    with raises("oversize"):
        get(server, part)
    assert part.stat().st_size == 0


def test_messages_do_not_show_credentials(part):
    with pytest.raises(InputError) as caught:
        download("http://user:secret@example.org/x", part, "0" * 40)
    assert "secret" not in str(caught.value)
    with pytest.raises(FileError) as failed:
        download("http://user:secret@127.0.0.1:9/x", part, "0" * 40, retry=QUICK)
    assert "secret" not in str(failed.value)


def test_the_deadline_holds_over_all_attempts(server, part):
    server.faults = [503] * 50
    policy = RetryPolicy(timeout=0.3, attempts=50, pause=0.05, deadline=0.1)
    with raises("download"):
        download(server.url, part, blob_id(CONTENT), retry=policy)
    assert len(server.ranges) < 6


def test_messages_do_not_show_signed_addresses(server, part):
    """Storage services redirect to addresses whose parameters are credentials."""
    server.faults = [f"{server.url}?signature=secret", 403]
    with pytest.raises(FileError) as caught:
        get(server, part)
    assert "secret" not in str(caught.value)
    part.write_bytes(CONTENT[:1000])
    server.faults = [f"{server.url}?signature=secret", "shifted"]
    with raises("download") as caught:
        get(server, part)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("wrong", [{"timeout": 0}, {"attempts": 0}, {"pause": -1}, {"deadline": 0}])
def test_retry_policies_are_checked(wrong):
    with pytest.raises(InputError):
        RetryPolicy(**wrong)


def test_the_blob_id_is_that_of_git(tmp_path):
    path = tmp_path / "hello"
    path.write_bytes(b"hello\n")
    assert git_blob_id(path) == "ce013625030ba8dba906f756967f9e9ca394464a"


def test_the_lock_admits_one_at_a_time(tmp_path):
    inside, most = [], []

    def enter(i):
        with exclusive(tmp_path / "lock"):
            inside.append(i)
            most.append(len(inside))
            threading.Event().wait(0.01)
            inside.remove(i)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(enter, range(8)))
    assert max(most) == 1
    assert len(most) == 8


@pytest.fixture
def graph():
    return csbm.sample(200, degree=6, homophily=0.3, snr=1.0, num_classes=4, seed=3)


@pytest.fixture
def upstream(server, graph, tmp_path, monkeypatch):
    """Serve a graph as the authors store theirs: both directions, shuffled, other keys."""
    rng = np.random.default_rng(1)
    both = np.concatenate([graph.edges, graph.edges[:, ::-1]])
    masks = rng.integers(0, 3, (10, graph.num_nodes))
    path = tmp_path / "upstream.npz"
    np.savez_compressed(
        path,
        node_features=graph.features,
        node_labels=graph.labels,
        edges=rng.permutation(both).astype(np.int64),
        train_masks=masks == 0,
        val_masks=masks == 1,
        test_masks=masks == 2,
    )
    server.content = path.read_bytes()
    monkeypatch.setitem(datasets.BLOB_IDS, NAME, blob_id(server.content))
    monkeypatch.setenv("GRAPHTEMPER_MIRROR", server.url.rpartition("/")[0] + "/")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets, "folders", lambda: [datasets.cache_folder()])
    return server


def test_fetch_converts_and_is_found_afterwards(upstream, graph):
    path = datasets.fetch(NAME, retry=QUICK)
    assert path == datasets.find(NAME)
    assert path.parent == datasets.cache_folder()
    fetched = datasets.load(NAME)
    assert np.array_equal(fetched.features, graph.features)
    assert np.array_equal(fetched.labels, graph.labels)
    assert np.array_equal(fetched.edges, np.unique(graph.edges, axis=0))
    assert fetched.train_masks.shape == (10, 200)
    assert (fetched.train_masks ^ fetched.val_masks ^ fetched.test_masks).all()
    assert fetched.name == NAME
    assert sorted(p.name for p in path.parent.iterdir()) == [f".{NAME}.npz.lock", f"{NAME}.npz"]
    datasets.fetch(NAME, retry=QUICK)
    assert len(upstream.ranges) == 1


def test_a_graph_with_another_sha256_is_deleted(upstream, monkeypatch):
    entry = replace(datasets.CATALOGUE[NAME], sha256="0" * 64)
    monkeypatch.setitem(datasets.CATALOGUE, NAME, entry)
    with raises("download"):
        datasets.fetch(NAME, retry=QUICK)
    assert [p.name for p in datasets.cache_folder().iterdir()] == [f".{NAME}.npz.lock"]


def test_load_downloads_only_on_request(upstream, graph):
    with raises("no-file"):
        datasets.load(NAME)
    assert upstream.ranges == []
    assert datasets.load(NAME, download=True).num_edges == graph.num_edges


def test_an_interrupted_fetch_is_invisible_and_resumed(upstream):
    upstream.faults = ["cut"] * 3
    with pytest.raises(FileError):
        datasets.fetch(NAME, retry=QUICK)
    assert datasets.find(NAME) is None
    assert (datasets.cache_folder() / f"{NAME}.npz.part").exists()
    datasets.fetch(NAME, retry=QUICK)
    assert upstream.ranges[-1].startswith("bytes=")
    assert not (datasets.cache_folder() / f"{NAME}.npz.part").exists()


def test_fetches_at_the_same_time_download_once(upstream):
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: datasets.fetch(NAME, retry=QUICK), range(4)))
    assert len(set(paths)) == 1
    assert Graph.load(paths[0]).num_nodes == 200
    assert len(upstream.ranges) == 1


def test_a_verified_file_in_another_format_is_named(upstream, tmp_path, monkeypatch):
    path = tmp_path / "other.npz"
    np.savez(path, node_features=np.ones((2, 1)))
    upstream.content = path.read_bytes()
    monkeypatch.setitem(datasets.BLOB_IDS, NAME, blob_id(upstream.content))
    with raises("damaged"):
        datasets.fetch(NAME, retry=QUICK)
    assert datasets.find(NAME) is None


def test_a_cache_that_cannot_be_written_is_named(upstream, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    with raises("write"):
        datasets.fetch(NAME, retry=QUICK)
