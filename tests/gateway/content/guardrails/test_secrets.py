"""Secrets: tokens of any length, whole and streamed, and texts that are made to be slow."""

from pathlib import Path
from random import Random
from time import process_time

import pytest

from strowger_gateway.gateway.content.guardrails.secrets import FORMATS, secret_hook
from strowger_gateway.gateway.governance.issued_keys.secret import PATTERN, new_secret
from tests.gateway.content.hooks.test_guarded_requests import CHAT, SECRETS, guarded, shown

pytestmark = pytest.mark.anyio

MASKS = SECRETS.format(mode="mask", where="both")
TOKEN = f"eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJ{'c3ViIjoi' * 200}.{'Sg-_' * 85}"

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
DIGITS = "0123456789"


def drawn(length: int, alphabet: str = LETTERS + DIGITS) -> str:
    return "".join(Random(length).choices(alphabet, k=length))


KEYS = {
    "strowger_key": new_secret(),
    "openai_key": f"sk-proj-{drawn(74)}T3BlbkFJ{drawn(72)}-_A",
    "anthropic_key": f"sk-ant-api03-{drawn(60)}-_{drawn(31)}AA",
    "openrouter_key": f"sk-or-v1-{drawn(64, '0123456789abcdef')}",
    "sk_key": f"sk-{drawn(32, '0123456789abcdef')}",
    "google_api_key": f"AIza{drawn(33)}-_",
    "huggingface_token": f"hf_{drawn(34, LETTERS)}",
    "groq_key": f"gsk_{drawn(52)}",
    "xai_key": f"xai-{drawn(80)}",
    "perplexity_key": f"pplx-{drawn(48)}",
    "replicate_token": f"r8_{drawn(37)}",
    "cerebras_key": f"csk-{drawn(48, LETTERS[26:] + DIGITS)}",
    "together_key": f"tgp_v1_{drawn(42)}-",
    "fireworks_key": f"fw_{drawn(24)}",
    "nvidia_key": f"nvapi-{drawn(62)}-_",
    "databricks_token": f"dapi{drawn(32, '0123456789abcdef')}",
    "bedrock_key": f"ABSKQmVkcm9ja0FQSUtleS{drawn(90)}=",
    "azure_ai_key": f"{drawn(52)}JQQJ99{drawn(10)}ACOGabcd{drawn(8)}",
}
"""Keys that open nothing, drawn in the formats of their issuers."""

ORDINARY = """
The sk-learn package, `sk-fading-circle` in CSS, a task-force, risk-adjusted-return-on-capital,
desk-top-publishing-for-beginners-and-experts, hf_hub_download(repo_id), hf_transfer, gsk_plc,
r8_unorm, xai-explainability-for-models, pplx-api, fw_printenv, csk-2024, nvapi-docs, AIza, dapi,
sk-ant-api03-..., sk-proj-..., sk-strw-..., ABSK, bedrock-api-key-rotation-and-expiry, AKIA.
const key = process.env.OPENAI_API_KEY; headers = {"authorization": f"Bearer {key}"}
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA
https://example.com/a/very-long-slug-with-sk-in-it-and-hf_in_it/0123456789abcdef0123456789abcdef
sk-this-is-a-very-long-name-of-a-branch-that-somebody-made-in-a-repository
"""


@pytest.mark.parametrize("name", KEYS)
def test_the_key_of_a_vendor_of_models_is_found_as_itself(name: str) -> None:
    hook = secret_hook({"only": [name]})
    for text in (KEYS[name], f'{{"key": "{KEYS[name]}"}}', f"export KEY={KEYS[name]}\nnext"):
        found = hook.find(text, 0)
        assert [one.rule for one in found] == [name], text


def test_our_own_keys_are_found_by_the_format_that_is_documented_for_scanners() -> None:
    assert FORMATS["strowger_key"] == PATTERN


def test_ordinary_text_and_code_has_no_secrets() -> None:
    assert secret_hook({}).find(ORDINARY, 0) == ()


async def test_the_gateways_own_key_and_a_vendors_are_masked_in_both_directions(
    tmp_path: Path,
) -> None:
    own, vendors = KEYS["strowger_key"], KEYS["anthropic_key"]
    async with guarded(tmp_path, MASKS, f"It is {own}.") as at:
        answer = await at.ask(CHAT, f"Use {vendors} here")
        assert answer.json()["choices"][0]["message"]["content"] == "It is [secret]."
        assert at.received[0].json["messages"] == [{"role": "user", "content": "Use [secret] here"}]


async def test_a_json_web_token_with_many_claims_is_masked(tmp_path: Path) -> None:
    async with guarded(tmp_path, MASKS, f"It is {TOKEN}") as at:
        answer = await at.ask(CHAT, f"Use {TOKEN}")
        assert answer.json()["choices"][0]["message"]["content"] == "It is [secret]"
        assert at.received[0].json["messages"] == [{"role": "user", "content": "Use [secret]"}]


async def test_the_longest_key_is_masked_in_a_stream(tmp_path: Path) -> None:
    text = f"It is {KEYS['openai_key']} as asked."
    pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
    async with guarded(tmp_path, MASKS, *pieces) as at:
        answer = await at.ask(CHAT, "hi", stream=True)
        assert shown(CHAT, answer.text) == "It is [secret] as asked."


@pytest.mark.parametrize("size", [1, 7, 100])
async def test_a_json_web_token_longer_than_the_hold_back_is_masked_in_a_stream(
    size: int, tmp_path: Path
) -> None:
    text = f"It is {TOKEN} as asked."
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    async with guarded(tmp_path, MASKS, *pieces) as at:
        answer = await at.ask(CHAT, "hi", stream=True)
        assert shown(CHAT, answer.text) == "It is [secret] as asked."


async def test_a_text_of_beginnings_takes_about_as_long_as_others(tmp_path: Path) -> None:
    draw = Random(3)
    texts = ["".join(draw.choices(["-eyJ", "-aaa", "-b"], k=90_000)), "-aaa" * 80_000]
    async with guarded(tmp_path, MASKS, "hello") as at:
        took: list[float] = []
        for text in texts:
            begun = process_time()
            assert (await at.ask(CHAT, text)).status_code == 200
            took.append(process_time() - begun)
        assert took[0] < 0.5 + 5 * took[1]
