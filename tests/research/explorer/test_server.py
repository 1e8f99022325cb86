"""The explorer's server: who may ask, what may be asked, and that the answer is Python's."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from urllib.request import urlopen

import pytest
from tests.helpers import raises

from graphtemper.errors import FileError
from graphtemper_research.explorer import server as explorer_server
from graphtemper_research.explorer.readings import State, readings
from graphtemper_research.explorer.server import LARGEST_BODY, ExplorerServer
from graphtemper_research.explorer.simulate import simulate

PAGE = "<!doctype html><title>page</title>"
QUESTION = {"h_source": 0.8, "h_target": 0.65, "degree": 8, "num_nodes": 500, "seed": 3}


@pytest.fixture(scope="module")
def server():
    with ExplorerServer(PAGE) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


@pytest.fixture
def ask(server):
    def inner(method, path, body=None, **headers):
        line = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
        line.request(method, path, body, headers)
        answer = line.getresponse()
        content = answer.read()
        line.close()
        return answer, content

    return inner


@pytest.fixture
def post(ask):
    def inner(body, **headers):
        text = body if isinstance(body, (str, bytes)) else json.dumps(body)
        answer, content = ask(
            "POST", "/simulate", text, **{"Content-Type": "application/json", **headers}
        )
        return answer.status, json.loads(content)

    return inner


def raw(server, text):
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as line:
        line.sendall(text.encode())
        return line.makefile("rb").read().decode()


def test_it_listens_on_loopback_only(server):
    assert server.socket.getsockname()[0] == "127.0.0.1"
    assert server.url == f"http://127.0.0.1:{server.server_port}/"


def test_the_page_comes_with_safe_headers(ask, server):
    for host in (f"127.0.0.1:{server.server_port}", f"localhost:{server.server_port}"):
        answer, content = ask("GET", "/", Host=host)
        assert (answer.status, content.decode()) == (200, PAGE)
    assert answer.headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    answer, content = ask("HEAD", "/")
    assert (answer.status, content) == (200, b"")


@pytest.mark.parametrize(
    "host",
    ["example.org", "127.0.0.1", "localhost", "example.org:{port}", "127.0.0.1:{port}x", ""],
)
def test_other_hosts_are_refused(ask, server, host):
    answer, content = ask("GET", "/", Host=host.format(port=server.server_port))
    assert answer.status == 403
    assert PAGE.encode() not in content


def test_no_host_or_two_are_refused(server):
    host = f"Host: 127.0.0.1:{server.server_port}\r\n"
    assert " 403 " in raw(server, "GET / HTTP/1.0\r\n\r\n").splitlines()[0]
    two = f"GET / HTTP/1.0\r\n{host}Host: example.org\r\n\r\n"
    assert " 403 " in raw(server, two).splitlines()[0]
    assert " 200 " in raw(server, f"GET / HTTP/1.0\r\n{host}\r\n").splitlines()[0]


def test_other_sites_are_refused(post, server):
    for origin in ("https://example.org", "null", f"https://127.0.0.1:{server.server_port}"):
        assert post(QUESTION, Origin=origin)[0] == 403
    assert post(QUESTION, Origin=f"http://127.0.0.1:{server.server_port}")[0] == 200


@pytest.mark.parametrize("path", ["/page.html", "/../server.py", "/simulate/", "/?x=1"])
def test_there_is_nothing_else(ask, path):
    assert ask("GET", path)[0].status == 404


def test_methods(ask):
    assert ask("GET", "/simulate")[0].status == 405
    assert ask("POST", "/", "{}")[0].status == 405
    assert ask("PUT", "/simulate", "{}")[0].status == 501


def test_a_simulation_is_what_python_gives(post):
    status, content = post(QUESTION)
    state = State(h_source=0.8, h_target=0.65, degree=8)
    assert status == 200
    assert content["measured"] == simulate(state, num_nodes=500, seed=3)
    assert content["theory"] == readings(state)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("{", "not JSON"),
        ("", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        ("[" * 4000, "not JSON"),
        ('{"snr": NaN}', "not JSON"),
        ([], "only these names"),
        ({"path": "/etc/passwd"}, "only these names"),
        ({"snr": 0}, "snr must be between"),
        ({"degree": 1e6}, "degree must be between"),
        ({"h_target": "0.5"}, "h_target must be a real number"),
        ({"num_classes": 2.5}, "num_classes must be an integer"),
        ({"num_nodes": 20_001}, "num_nodes must be an integer"),
        ({"num_nodes": 20_000, "degree": 51}, "half edges"),
        ({"seed": -1}, "seed must be an integer"),
    ],
)
def test_bad_questions_get_one_sentence(post, body, sentence):
    status, content = post(body)
    assert status == 400
    assert sentence in content["error"]


def test_bodies_are_small_typed_and_measured(post, server):
    assert post(" " * LARGEST_BODY)[0] == 400
    assert post(" " * (LARGEST_BODY + 1))[0] == 413
    assert post(QUESTION, **{"Content-Type": "text/plain"})[0] == 415
    head = f"POST /simulate HTTP/1.0\r\nHost: 127.0.0.1:{server.server_port}\r\n"
    head += "Content-Type: application/json\r\n"
    assert " 411 " in raw(server, f"{head}\r\n").splitlines()[0]
    for length, status in (("-1", 400), ("x", 400), ("9" * 5000, 413), ("²", 400)):
        assert f" {status} " in raw(server, f"{head}Content-Length: {length}\r\n\r\n")


def test_one_simulation_at_a_time(post, server):
    with server.simulating:
        assert post(QUESTION)[0] == 503
    assert post(QUESTION)[0] == 200
    assert post({"snr": 0})[0] == 400  # a refusal gives the place free again
    assert not server.simulating.locked()


def test_a_silent_client_is_let_go(server, monkeypatch):
    monkeypatch.setattr(explorer_server._Handler, "timeout", 0.2)
    head = f"POST /simulate HTTP/1.0\r\nHost: 127.0.0.1:{server.server_port}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 10\r\n\r\n"
    assert raw(server, head) == ""


def test_a_port_that_is_taken_or_none(server):
    with pytest.raises(FileError):
        ExplorerServer(PAGE, server.server_port)
    with raises("range"):
        ExplorerServer(PAGE, 70_000)


@pytest.mark.nightly
def test_the_command_serves_until_interrupted():
    pytest.importorskip("vl_convert")
    pytest.importorskip("jinja2")
    command = [sys.executable, "-m", "graphtemper", "explore", "--port", "0", "--json"]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        # A shell that runs the tests in its background has interruptions ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        url = json.loads(process.stdout.readline())["url"]
        with urlopen(url, timeout=30) as answer:
            assert 'id="simulate"' in answer.read().decode()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0


def test_two_hundred_requests_at_once_are_all_answered(server):
    """The connections are made before any is answered, so that they wait in the queue."""
    lines = []
    try:
        for _ in range(200):
            line = socket.create_connection(("127.0.0.1", server.server_port), timeout=30)
            line.sendall(f"GET / HTTP/1.0\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n".encode())
            lines.append(line)
        answers = [line.makefile("rb").read() for line in lines]
    finally:
        for line in lines:
            line.close()
    assert all(answer.endswith(PAGE.encode()) for answer in answers)


def test_a_client_that_never_ends_its_request_is_dropped(server, monkeypatch):
    monkeypatch.setattr(explorer_server._Handler, "deadline", 0.3)
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as line:
        line.sendall(b"GET / HT")
        line.settimeout(5)  # half of the time that a silent client has
        assert b"200" not in line.recv(100)
