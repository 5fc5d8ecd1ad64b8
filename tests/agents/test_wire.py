"""What goes over the wire, and where: held to what OpenAI's own SDK sends."""

from __future__ import annotations

import asyncio
import gzip
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agents.model.wire import Address, Response, Unreachable, Wire
from telemetry.edge.errors import BadInput
from tests.conftest import REPOSITORY
from tests.worlds.loopback import Loopback, Reply, Request, chat

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
