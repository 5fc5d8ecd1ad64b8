"""What goes over the wire, and where: held to what OpenAI's own SDK sends."""

from __future__ import annotations

import asyncio
import base64
import gzip
import os
import shutil
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agents.model.connection import Response, Unreachable
from agents.model.reply import unreachable
from agents.model.wire import Address, Wire
from telemetry.edge.errors import BadInput
from tests.conftest import REPOSITORY
from tests.worlds.loopback import Loopback, Reply, Request, chat
from tests.worlds.tunnel import Tunnel

KEY = "a-key-that-nobody-may-see"
BODY: dict[str, Any] = {
    "model": "gpt-4.1-mini",
    "messages": [{"role": "user", "content": "Größe 日本 \u2028"}],
    "temperature": 0.2,
    "response_format": {"type": "json_object"},
}
SHAPE = ("authorization", "accept", "content-type", "openai-organization", "openai-project")


def send(url: str, body: dict[str, Any] = BODY) -> Response:
    async def sent() -> Response:
        wire = Wire.open(asyncio.get_running_loop(), KEY, Address.of(url))
        try:
            return await wire.post(body)
        finally:
            await wire.close()

    return asyncio.run(sent())


def seen(request: Request) -> tuple[Any, ...]:
    return request.method, request.path, {name: request.headers.get(name) for name in SHAPE}, request.json()


@pytest.mark.parametrize("query", ["", "?api-version=2026-01-01&tag=a.b"])
def test_a_request_is_the_one_that_the_sdk_of_openai_would_send(
    query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import openai

    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")

    async def official(url: str, asked: dict[str, str]) -> None:
        async with openai.AsyncOpenAI(api_key=KEY, base_url=url, default_query=asked) as client:
            await client.chat.completions.create(**BODY)

    with Loopback([chat('{"a": 1}')]) as server:
        send(server.url + query)
        asyncio.run(official(server.url, dict(Address.of(server.url + query).query)))
    ours, theirs = map(seen, server.requests)
    assert ours == theirs


def test_a_redirection_is_not_followed() -> None:
    with Loopback([chat("{}")]) as other:
        away = Reply(307, headers={"Location": f"{other.url}/chat/completions"})
        with Loopback([away]) as server:
            assert send(server.url).status == 307
    assert other.requests == []


def test_a_proxy_of_the_environment_is_asked_unless_the_host_is_excepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Loopback([chat('{"by": "proxy"}')]) as proxy, Loopback([chat('{"by": "host"}')]) as server:
        monkeypatch.setenv("http_proxy", proxy.origin)
        assert b"proxy" in send(server.url).content
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert b"host" in send(server.url).content
    assert proxy.requests[0].path == f"{server.url}/chat/completions"
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
    with pytest.raises(BadInput, match="HTTP_PROXY"):
        send(server.url)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(fault="reset"),
        Reply(body=b"{}" * 50, fault="cut"),
        Reply(body=gzip.compress(b"{}")[5:], headers={"Content-Encoding": "gzip"}),
        Reply(headers={"Content-Length": "two"}),
    ],
    ids=["reset", "cut", "broken gzip", "no HTTP"],
)
def test_a_request_that_got_no_whole_answer_may_have_been_billed(reply: Reply) -> None:
    with Loopback([reply]) as server, pytest.raises(Unreachable) as caught:
        send(server.url)
    assert caught.value.sent and str(caught.value)


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, str]:
    """A server's side of TLS, and the file that vouches for it."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("certified")
    key, certificate = str(folder / "key.pem"), str(folder / "certificate.pem")
    asked = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=here -addext subjectAltName=IP:127.0.0.1"
    command = ["openssl", *asked.split(), "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, certificate


def test_a_secured_endpoint_is_believed_only_if_somebody_vouches_for_it(
    certified: tuple[ssl.SSLContext, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Loopback([chat('{"a": 1}')], certified[0]) as server:
        with pytest.raises(Unreachable, match="certificate") as caught:
            send(server.url)
        assert not caught.value.sent and server.requests == []
        failure = unreachable("m", server.url, caught.value)
        assert not failure.retry and "SSL_CERT_FILE" in failure.message
        monkeypatch.setenv("SSL_CERT_FILE", certified[1])
        assert send(server.url).status == 200


def test_a_secured_endpoint_is_reached_through_a_proxy_that_sees_nothing_of_it(
    certified: tuple[ssl.SSLContext, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", certified[1])
    with Loopback([chat('{"a": 1}')], certified[0]) as server, Tunnel() as proxy:
        monkeypatch.setenv("https_proxy", proxy.url)
        assert send(server.url).status == 200
    assert len(server.requests) == 1 and "proxy-authorization" not in server.requests[0].headers
    [head] = proxy.heads
    assert head.startswith(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n")
    assert f"Basic {base64.b64encode(b'who:so').decode()}" in head and KEY not in head
    with Tunnel(status=407) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url)
        with pytest.raises(Unreachable, match="407") as caught:
            send(server.url)
    assert not caught.value.sent


def test_connections_are_used_again_and_never_by_two_calls_at_once() -> None:
    async def many(url: str) -> None:
        wire = Wire.open(asyncio.get_running_loop(), KEY, Address.of(url))
        for _ in range(3):
            await asyncio.gather(*(wire.post(BODY) for _ in range(4)))
        await wire.close()

    with Loopback([chat("{}", delay_s=0.02)]) as server:
        asyncio.run(many(server.url))
    assert (len(server.requests), server.connections) == (12, 4)


@pytest.mark.parametrize("hung_up", ["by the other end", "for want of use"])
def test_a_connection_that_may_be_gone_is_not_used_again(
    hung_up: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def twice(url: str) -> list[int]:
        wire = Wire.open(asyncio.get_running_loop(), KEY, Address.of(url))
        statuses = []
        for _ in range(2):
            statuses.append((await wire.post(BODY)).status)
            await asyncio.sleep(0.05)
        await wire.close()
        return statuses

    closing = {"Connection": "close"} if hung_up == "by the other end" else {}
    if not closing:
        monkeypatch.setattr("agents.model.wire.IDLE_S", 0.01)
    with Loopback([chat("{}", headers=closing)]) as server:
        assert asyncio.run(twice(server.url)) == [200, 200]
    assert server.connections == 2


def test_a_key_of_two_lines_is_no_header_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org\r\nX-Admin: yes")
    with Loopback([chat("{}")]) as server, pytest.raises(BadInput, match="OpenAI-Organization"):
        send(server.url)
    assert server.requests == []


def test_who_could_not_connect_sent_nothing() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with pytest.raises(Unreachable) as caught:
            send(f"http://127.0.0.1:{nobody.getsockname()[1]}/v1")
    assert not caught.value.sent and str(caught.value)


@pytest.mark.parametrize("ends", ["asyncio.run(model.complete(HELLO))", "call_llm(HELLO)"])
def test_a_process_that_never_closed_its_connections_ends_without_a_word(ends: str, tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from agents.llm_client import call_llm, model_from_env\n"
        "from telemetry.edge.files import working_in\n"
        "HELLO = [{'role': 'user', 'content': 'JSON'}]\n"
        f"with working_in(Path(sys.argv[1])):\n    model = model_from_env()\n    {ends}"
    )
    with Loopback([chat('{"a": 1}')]) as server:
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path)],
            cwd=REPOSITORY,
            env={**os.environ, "OPENAI_BASE_URL": server.url},
            capture_output=True,
            text=True,
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(server.requests) == 1
