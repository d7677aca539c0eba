"""The local Messages API at the HTTP level: keys, strict JSON, unknown paths, keep-alive, and the log over HTTP."""

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from app.llm.fake.request_log import RequestLog
from app.llm.fake_server import FakeClient, FakeServer
from tests.support.raw_api import HEADERS, ask, call

VERSION = {"anthropic-version": "2026-10-21"}
NOT_JSON = "The request body is not valid JSON: "


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeServer]:
    with FakeServer() as server:
        yield server


def test_request_without_a_key_is_unauthorized(fake: FakeServer) -> None:
    answer = call(fake.url, ask(), headers=VERSION)
    assert (answer.status, answer.error["type"]) == (401, "authentication_error")


@pytest.mark.parametrize("header", [{"x-api-key": "k"}, {"authorization": "Bearer k"}])
def test_either_form_of_key_is_accepted(fake: FakeServer, header: dict[str, str]) -> None:
    assert call(fake.url, ask(), headers={**VERSION, **header}).status == 200


def test_server_with_a_key_refuses_any_other() -> None:
    with FakeServer(api_key="right") as server:
        assert call(server.url, ask(), headers={**VERSION, "x-api-key": "right"}).status == 200
        assert call(server.url, ask(), headers={**VERSION, "x-api-key": "wrong"}).status == 401


def test_request_without_a_version_is_refused(fake: FakeServer) -> None:
    answer = call(fake.url, ask(), headers={"x-api-key": "k"})
    assert (answer.status, answer.error["message"]) == (400, "anthropic-version: header is required")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"",
        json.dumps(ask("caf\u00e9"), ensure_ascii=False).encode("latin-1"),
        json.dumps(ask("half \ud83d pair")).encode(),
        json.dumps(ask(max_tokens=float("nan"))).encode(),
    ],
    ids=["cut", "empty", "latin-1", "lone surrogate", "NaN"],
)
def test_body_that_is_not_strict_json_is_refused(fake: FakeServer, body: bytes) -> None:
    answer = call(fake.url, body)
    assert (answer.status, answer.error["type"]) == (400, "invalid_request_error")
    assert answer.error["message"].startswith(NOT_JSON)


def test_escaped_pairs_and_nul_are_legal(fake: FakeServer) -> None:
    assert call(fake.url, json.dumps(ask("\U0001f600 and \x00")).encode()).status == 200


@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/complete"), ("GET", "/v1/messages"), ("GET", "/")])
def test_unknown_path_is_not_found_in_anthropics_form(fake: FakeServer, method: str, path: str) -> None:
    answer = call(fake.url, method=method, path=path)
    assert (answer.status, answer.error["type"]) == (404, "not_found_error")


def test_body_over_the_limit_is_refused_unread(fake: FakeServer) -> None:
    with socket.create_connection(tuple(urlsplit(fake.url).netloc.split(":")), timeout=10) as raw:  # type: ignore[arg-type]
        raw.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n")
        response = http.client.HTTPResponse(raw)
        response.begin()
        assert response.status == 413
        assert json.loads(response.read())["error"]["type"] == "request_too_large"
        assert raw.recv(1) == b""


def test_connection_serves_many_requests_with_ids_of_their_own(fake: FakeServer) -> None:
    connection = http.client.HTTPConnection(urlsplit(fake.url).netloc, timeout=10)
    ids, ports = set(), set()
    for stream in (False, True, False):
        connection.request("POST", "/v1/messages", json.dumps(ask(stream=stream)), HEADERS)
        response = connection.getresponse()
        ids.add(response.headers["request-id"])
        assert response.headers["anthropic-ratelimit-requests-remaining"]
        response.read()
        ports.add(connection.sock.getsockname()[1])
    connection.close()
    assert len(ids) == 3
    assert len(ports) == 1


def test_other_processes_script_and_read_the_log_as_in_process(fake: FakeServer) -> None:
    client = FakeClient(fake.url)
    assert client.is_healthy()
    client.script("far", [{"content": [{"type": "text", "text": "scripted"}]}])
    body = json.dumps(ask("[script:far] \u00e9 \x00")).encode()
    assert b"scripted" in call(fake.url, body).body
    assert client.requests("far") == fake.requests("far")
    assert [entry.body for entry in client.requests("far")] == [body]


def test_bytes_that_are_no_text_come_back_from_the_log_unchanged() -> None:
    with FakeServer() as server:
        call(server.url, b'\xff\xfe"')
        assert [entry.body for entry in FakeClient(server.url).requests()] == [b'\xff\xfe"']


def test_wrong_script_is_refused_over_http_and_in_process(fake: FakeServer) -> None:
    for writer in (fake, FakeClient(fake.url)):
        with pytest.raises(ValueError, match="unknown field 'stopreason'"):
            writer.script("k", [{"content": [], "stopreason": "end_turn"}])


def test_reset_forgets_scripts_and_requests() -> None:
    with FakeServer() as server:
        server.script("k", [{"content": [{"type": "text", "text": "once"}]}])
        call(server.url, ask())
        FakeClient(server.url).reset()
        assert server.requests() == []
        assert call(server.url, ask("[script:k]")).status == 500


def test_log_that_dropped_requests_refuses_to_be_counted() -> None:
    log = RequestLog(max_bytes=10)
    log.add("k", b"123456", {})
    assert len(log.read()) == 1
    log.add("k", b"123456", {})
    with pytest.raises(LookupError, match="dropped 1 requests"):
        log.read()


def test_client_that_is_not_served_sees_an_unhealthy_server() -> None:
    with FakeServer() as server:
        client = FakeClient(server.url)
    assert not client.is_healthy()


def test_talking_to_the_server_does_not_import_anthropic() -> None:
    code = "import sys, app.llm.fake_server; sys.exit('anthropic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
