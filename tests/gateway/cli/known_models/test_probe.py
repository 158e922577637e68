"""`strowger models --probe` describes what is wrong with a provider."""

import asyncio
import ssl
from pathlib import Path
from typing import cast

import pytest
import trustme
from click.testing import CliRunner, Result

from strowger_gateway.gateway.cli.continuing import BEGUN, FORMS
from strowger_gateway.gateway.cli.main import strowger
from tests.stand_ins.doubles import Peer, answering, raw_server, sized
from tests.stand_ins.provider import Answer, Behaviour, Received, answers, provider

pytestmark = pytest.mark.anyio

SECRET = "sk-secret-of-the-operator"
CONFIG = """
providers:
  - {{name: remote, adapter: openai, base_url: "{url}", api_key: {secret}}}
models:
  - {{name: chat, backends: [{{provider: remote, model: m-1}}]}}
"""
WILD = '  - {name: "wild-*", backends: [{provider: remote, model: "*"}]}\n'


async def probe(folder: Path, url: str, *words: str, more: str = "") -> Result:
    """Run in a thread, because the command runs its own event loop."""
    path = folder / "config.yaml"
    path.write_text(CONFIG.format(url=url, secret=SECRET) + more)
    given = ["models", "--probe", "--config", str(path), *words]
    result = await asyncio.to_thread(CliRunner().invoke, strowger, given)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert SECRET not in result.output
    return result


async def probe_of(folder: Path, behaviour: Behaviour) -> Result:
    async with provider(behaviour) as remote:
        return await probe(folder, remote.base_url)


def refusing(status: int, message: str) -> Behaviour:
    async def behaviour(request: Received, answer: Answer) -> None:
        await answer.json({"error": {"message": message}}, status)

    return behaviour


async def test_a_backend_that_answers_is_fine_after_a_request_for_one_token(tmp_path: Path) -> None:
    """And after a few more, which show that it does not continue answers."""
    async with provider(answers) as remote:
        result = await probe(tmp_path, remote.base_url, more=WILD)

    assert result.exit_code == 0
    assert "remote/m-1" in result.output
    assert "answers chat" in result.output
    assert "matches any model" in result.output
    assert "does not continue answers" in result.output
    first, *others = remote.requests
    assert first.json["max_tokens"] == 1
    assert len(others) == len(FORMS)


def _goes_on(form: str, *, repeats: bool = False) -> Behaviour:
    """A server that continues an answer in one form, and starts a new one in all others."""

    async def behaviour(request: Received, answer: Answer) -> None:
        body = request.json
        last = cast("list[dict[str, object]]", body["messages"])[-1]
        marked = {
            "assistant_turn": last["role"] == "assistant",
            "continue_final_message": body.get("continue_final_message") is True,
            "prefix": last.get("prefix") is True,
            "partial": last.get("partial") is True,
        }[form]
        text = f"{BEGUN} seven eight" if repeats else " seven eight"
        await answer.chat(text if marked else "one two three")

    return behaviour


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("form", FORMS)
async def test_the_form_in_which_a_server_continues_answers_is_found(
    tmp_path: Path, form: str, repeats: bool
) -> None:
    result = await probe_of(tmp_path, _goes_on(form, repeats=repeats))

    assert f"continues: {form}" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("continues: prefix", "answers chat, continues answers"),
        ("continues: partial", "does not continue answers, as configured"),
        ("continues: no", "answers chat"),
    ],
)
async def test_a_form_that_is_configured_is_tried_alone(
    tmp_path: Path, setting: str, words: str
) -> None:
    async with provider(_goes_on("prefix")) as remote:
        path = tmp_path / "config.yaml"
        text = CONFIG.format(url=remote.base_url, secret=SECRET)
        path.write_text(text.replace("api_key:", f"{setting}, api_key:"))
        given = ["models", "--probe", "--config", str(path)]
        result = await asyncio.to_thread(CliRunner().invoke, strowger, given)

    assert words in " ".join(result.output.split())
    assert len(remote.requests) == (1 if setting.endswith("no") else 2)


async def test_a_model_that_only_embeds_is_found_to_embed(tmp_path: Path) -> None:
    async def embeds(request: Received, answer: Answer) -> None:
        if request.path.endswith("/embeddings"):
            await answers(request, answer)
        else:
            await answer.json({"error": {"message": "not a chat model"}}, 404)

    result = await probe_of(tmp_path, embeds)

    assert result.exit_code == 0
    assert "answers embeddings" in result.output


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "the key is invalid or lacks permission: remote: "),
        (403, "the key is invalid or lacks permission: remote: "),
        (404, "unknown model: "),
        (400, "the request was rejected (400): "),
        (500, "remote: "),
    ],
)
async def test_a_refusal_is_shown_as_text(tmp_path: Path, status: int, words: str) -> None:
    result = await probe_of(tmp_path, refusing(status, "no luck today"))

    assert result.exit_code == 1
    assert words in result.output
    assert "no luck today" in result.output
    assert "fails" in result.output


async def test_a_busy_provider_works(tmp_path: Path) -> None:
    result = await probe_of(tmp_path, refusing(429, "slow down"))

    assert result.exit_code == 0
    assert "the key works, but the provider is busy" in result.output


async def test_a_web_page_is_not_the_api(tmp_path: Path) -> None:
    page = sized(b"<html>hello</html>", "200 OK", "content-type: text/html")
    async with raw_server(answering(page)) as server:
        result = await probe(tmp_path, server.base_url)

    assert result.exit_code == 1
    assert "the server does not speak this API; check base_url" in result.output


async def test_a_provider_that_never_answers_is_left(tmp_path: Path) -> None:
    async def silent(request: Received, answer: Answer) -> None:
        await answer.gone.wait()

    async with provider(silent) as remote:
        result = await probe(tmp_path, remote.base_url, "--timeout", "0.3")

    assert result.exit_code == 1
    assert "no response" in result.output


async def test_where_nothing_listens_the_connection_is_to_blame(tmp_path: Path) -> None:
    async with provider(answers) as remote:
        url = remote.base_url

    result = await probe(tmp_path, url)

    assert result.exit_code == 1
    assert "connection: remote: no connection to 127.0.0.1" in result.output


async def test_a_host_that_is_not_known_is_a_matter_of_dns(tmp_path: Path) -> None:
    result = await probe(tmp_path, "http://nowhere.invalid/v1")

    assert result.exit_code == 1
    assert "DNS: remote: no address for nowhere.invalid" in result.output


async def test_an_untrusted_certificate_is_a_tls_error(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(context)  # pyright: ignore[reportUnknownMemberType] - pyOpenSSL is not here
    async with raw_server(answering(sized(b"{}")), tls=context, host="localhost") as server:
        result = await probe(tmp_path, server.base_url)

    assert result.exit_code == 1
    assert "TLS: remote: the certificate of localhost" in result.output
    assert "see tls.ca_file" in result.output


async def test_plain_http_where_tls_was_meant_is_a_matter_of_tls(tmp_path: Path) -> None:
    async def plain(peer: Peer) -> None:
        await peer.send(sized(b"", "400 Bad Request"))

    async with raw_server(plain) as server:
        result = await probe(tmp_path, server.base_url.replace("http:", "https:"))

    assert result.exit_code == 1
    assert "TLS: remote: no TLS with 127.0.0.1" in result.output


async def test_an_adapter_and_a_probe_do_not_go_together(tmp_path: Path) -> None:
    result = await probe(tmp_path, "http://nowhere.invalid/v1", "openai")

    assert result.exit_code == 2
