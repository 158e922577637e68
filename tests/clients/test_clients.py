"""Clients from their packages, each as it comes, against a gateway with the local engine.

`make nightly-clients` installs them (tests/clients/packages.py) and runs this.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol, cast

import msgspec
import pytest
from msgspec import Struct

from tests.clients.packages import CLIENTS
from tests.gateway.commanded import Commanded, commanded

pytest.importorskip("torch")
pytest.importorskip("transformers")

pytestmark = [pytest.mark.anyio, pytest.mark.nightly]

CONFIG = """
providers:
  - {{name: here, adapter: local, engine: {{dtype: float32, threads: 1, models: [
      {{name: tiny, path: "bundled:tiny-chat"}}, {{name: mini, path: "{mini}", task: embed}}]}}}}
models:
  - {{name: tiny, aliases: [system.ai.tiny], backends: [{{provider: here, model: tiny}}]}}
  - {{name: mini, backends: [{{provider: here, model: mini}}]}}
"""
SCRIPTS = Path(__file__).parent / "scripts"
QUESTION, TEXT = "What is 17 + 25?", "the quick brown fox"
WANTED = os.environ.get("STROWGER_CLIENTS", "").split() or list(CLIENTS)
"""The clients of this run."""

CLIENT_S, START_S = 900.0, 240.0
Json = dict[str, object]


class Usage(Struct, frozen=True, kw_only=True):
    prompt_tokens: int
    completion_tokens: int


class Message(Struct, frozen=True, kw_only=True):
    content: str


class Choice(Struct, frozen=True, kw_only=True):
    message: Message


class Answer(Struct, frozen=True, kw_only=True):
    choices: list[Choice]
    usage: Usage

    @property
    def said(self) -> str:
        return self.choices[0].message.content

    @property
    def seen(self) -> list[object]:
        """Text and counts, as the scripts print them."""
        return [self.said, self.usage.prompt_tokens, self.usage.completion_tokens]


class Sample(Struct, frozen=True, kw_only=True):
    """filtered_resps: log-likelihood, and whether greedy decoding would give the choice."""

    doc_id: int
    filtered_resps: list[tuple[float, bool]]


class Encodes(Protocol):
    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...


@pytest.fixture(scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Commanded, None]:
    from tests.local_engine.embeddings.tiny_embedders import CASES, save_embedder

    folder = tmp_path_factory.mktemp("run")
    mini = save_embedder(folder / "mini", CASES["bert-cls"])
    async with commanded(folder / "config.yaml", CONFIG.format(mini=mini)) as running:
        async with asyncio.timeout(START_S), running.client() as ask:
            while (await ask.get("/readyz")).status_code != 200:  # noqa: ASYNC110  it tells only when asked
                await asyncio.sleep(0.2)
        yield running


@pytest.fixture(scope="module")
async def answer(up: Commanded) -> Answer:
    """What every chat client asks for, asked plainly."""
    body = {
        "model": "tiny",
        "temperature": 0,
        "messages": [{"role": "user", "content": QUESTION}],
    }
    async with up.client() as ask:
        found = await ask.post("/v1/chat/completions", json=body)
    return msgspec.json.decode(found.content, type=Answer)


async def ran(*command: str | Path, env: Mapping[str, str] | None = None) -> bytes:
    """A client's standard output. Its program is in the folder of its client."""
    with TemporaryDirectory() as folder:  # some leave files where they run
        process = await asyncio.create_subprocess_exec(
            *command,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=folder,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", **(env or {})},
        )
        try:
            out, problems = await asyncio.wait_for(process.communicate(), CLIENT_S)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 0, (problems + out)[-4000:].decode(errors="replace")
    return out


async def script(name: str, client: str, *arguments: str, **env: str) -> Json:
    """The last line that a script of ours prints, run by the client's interpreter."""
    out = await ran(CLIENTS[client].interpreter, SCRIPTS / name, *arguments, env=env)
    return msgspec.json.decode(out.splitlines()[-1], type=Json)


@pytest.fixture(scope="module", autouse=True)
def versions() -> None:
    """Shown with the run; each client that takes part must be installed as the table says."""
    for name in WANTED:
        client = CLIENTS[name]
        assert client.installed, f"{name} is not installed: make nightly-clients"
        print(name, *client.pins, file=sys.stderr)


def needs(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(name not in WANTED, reason=f"STROWGER_CLIENTS lacks {name}")


@needs("lm-eval")
async def test_lm_evals_log_likelihoods_are_transformers_own(up: Commanded, tmp_path: Path) -> None:
    """Choices that differ in their last tokens: a token that is lost changes the winner."""
    import torch
    from transformers.modeling_utils import PreTrainedModel
    from transformers.models.auto.modeling_auto import AutoModelForCausalLM
    from transformers.models.auto.tokenization_auto import AutoTokenizer

    from strowger_gateway.local_engine.bundled import bundled_path

    folder = bundled_path("tiny-chat")
    sums = [(17, 25), (3, 4), (40, 2), (12, 30), (9, 9), (21, 34)]
    endings = [[f"{a + b}.", f"{a + b + 1}.", f"{a + b}!"] for a, b in sums]
    rows: list[Json] = [
        {"question": f"{a} + {b} =", "choices": choices, "right": 0}
        for (a, b), choices in zip(sums, endings, strict=True)
    ]
    (tmp_path / "sums.json").write_text("\n".join(json.dumps(row) for row in rows))
    (tmp_path / "sums.yaml").write_text(TASK.format(data=tmp_path / "sums.json"))
    model = (
        f"model=tiny,base_url={up.url}/v1/completions,tokenizer={folder},"
        "tokenizer_backend=huggingface,num_concurrent=1,max_retries=1,max_length=1024"
    )

    await ran(
        CLIENTS["lm-eval"].folder / "bin" / "lm_eval",
        *("--model", "local-completions", "--model_args", model, "--tasks", "sums"),
        *("--include_path", tmp_path, "--output_path", tmp_path / "out", "--log_samples"),
        env={"OPENAI_API_KEY": "k"},
    )

    encodes = cast(Encodes, AutoTokenizer.from_pretrained(folder))  # pyright: ignore[reportUnknownMemberType]  # transformers
    reference = cast(PreTrainedModel, AutoModelForCausalLM.from_pretrained(folder)).eval()  # pyright: ignore[reportUnknownMemberType]  # transformers
    (file,) = (tmp_path / "out").rglob("samples_sums_*.jsonl")
    samples = [
        msgspec.json.decode(line, type=Sample, strict=False)
        for line in file.read_bytes().splitlines()
    ]
    assert len(samples) == len(rows)
    for sample in samples:
        question, choices = rows[sample.doc_id]["question"], endings[sample.doc_id]
        start = len(encodes.encode(str(question), add_special_tokens=False))
        for choice, (found, _) in zip(choices, sample.filtered_resps, strict=True):
            whole = encodes.encode(f"{question} {choice}", add_special_tokens=False)
            ids = torch.tensor([whole])
            with torch.inference_mode():
                logits = cast(torch.Tensor, reference(ids).logits)[0].float()
            each = torch.log_softmax(logits[:-1], -1).gather(1, ids[0, 1:, None])[:, 0]
            assert float(found) == pytest.approx(float(each[start - 1 :].sum()), abs=1e-4)


TASK = """
task: sums
dataset_path: json
dataset_kwargs: {{data_files: {{test: "{data}"}}}}
output_type: multiple_choice
test_split: test
doc_to_text: "{{{{question}}}}"
doc_to_choice: choices
doc_to_target: right
metric_list: [{{metric: acc}}]
metadata: {{version: 1}}
"""


@needs("langchain-openai")
async def test_langchain_openai_chats_counts_and_embeds(up: Commanded, answer: Answer) -> None:
    seen = await script("langchain_openai_client.py", "langchain-openai", up.url)
    async with up.client() as ask:
        vectors = await ask.post("/v1/embeddings", json={"model": "mini", "input": TEXT})

    for text, usage in (seen["whole"], seen["streamed"]):  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]
        counts = cast("dict[str, int]", usage)
        assert [text, counts["input_tokens"], counts["output_tokens"]] == answer.seen
    assert seen["vector"] == pytest.approx(vectors.json()["data"][0]["embedding"], abs=1e-6)


async def test_tokens_of_another_model_are_refused_with_langchains_remedy(up: Commanded) -> None:
    """OpenAIEmbeddings sends cl100k's token ids by default; it fetches that encoding from the web,
    so they are sent as it sends them."""
    async with up.client() as ask:
        refused = await ask.post("/v1/embeddings", json={"model": "mini", "input": [[15339, 1917]]})

    assert refused.status_code == 400
    assert "check_embedding_ctx_length=False" in refused.json()["error"]["message"]


@needs("langchain-openai")
async def test_langchain_openai_knows_a_prompt_that_is_too_long(up: Commanded) -> None:
    seen = await script("langchain_openai_client.py", "langchain-openai", up.url)

    assert "ContextOverflowError" in cast("dict[str, list[str]]", seen["overflow"])["kinds"]


@needs("databricks-langchain")
async def test_databricks_langchain_gets_usage_of_streams(up: Commanded, answer: Answer) -> None:
    seen = await script(
        "databricks_langchain_client.py",
        "databricks-langchain",
        DATABRICKS_HOST=up.url,
        DATABRICKS_TOKEN="k",
    )

    usages = [one for one in cast("list[dict[str, int] | None]", seen["usage"]) if one]
    assert seen["text"] == answer.said
    assert [answer.said, usages[-1]["input_tokens"], usages[-1]["output_tokens"]] == answer.seen


@needs("databricks-openai")
async def test_databricks_openai_uses_the_ai_gateways_paths(up: Commanded, answer: Answer) -> None:
    seen = await script(
        "databricks_openai_client.py",
        "databricks-openai",
        DATABRICKS_HOST=up.url,
        DATABRICKS_TOKEN="k",
    )

    assert seen == {
        "addresses": ["/ai-gateway/mlflow/v1/", "/ai-gateway/openai/v1/"],
        "whole": answer.said,
        "streamed": answer.said,
        "response": answer.said,
    }


@needs("pydantic-ai")
async def test_pydantic_ai_chats_whole_and_streamed(up: Commanded, answer: Answer) -> None:
    seen = await script("pydantic_ai_client.py", "pydantic-ai", up.url)

    assert seen == {"whole": answer.seen, "streamed": answer.seen}


@needs("ai-sdk")
async def test_the_ai_sdk_chats_whole_and_streamed(up: Commanded, answer: Answer) -> None:
    out = await ran("node", SCRIPTS / "ai_sdk_client.mjs", up.url, CLIENTS["ai-sdk"].folder)

    seen = msgspec.json.decode(out.splitlines()[-1], type=Json)
    assert seen == {"whole": answer.seen, "streamed": answer.seen}


async def vector_of(up: Commanded) -> object:
    async with up.client() as ask:
        answer = await ask.post("/v1/embeddings", json={"model": "mini", "input": TEXT})
    return pytest.approx(answer.json()["data"][0]["embedding"], abs=1e-6)


@needs("ollama-js")
async def test_ollamas_client_for_javascript_lists_pulls_chats_and_embeds(
    up: Commanded, answer: Answer
) -> None:
    folder = CLIENTS["ollama-js"].folder
    out = await ran("node", SCRIPTS / "ollama_js_client.mjs", up.url, folder)

    seen = msgspec.json.decode(out.splitlines()[-1], type=Json)
    assert seen["whole"] == seen["streamed"] == seen["prompted"] == answer.seen
    assert seen["listed"] == ["tiny", "mini"]
    assert "completion" in cast("list[str]", seen["capabilities"])
    assert seen["vector"] == await vector_of(up)
    assert "model 'nobody' not found" in str(seen["refusal"])


@needs("langchain-ollama")
async def test_langchain_ollama_chats_counts_and_embeds(up: Commanded, answer: Answer) -> None:
    seen = await script("langchain_ollama_client.py", "langchain-ollama", up.url)

    for text, usage in cast("list[tuple[str, dict[str, int]]]", [seen["whole"], seen["streamed"]]):
        assert [text, usage["input_tokens"], usage["output_tokens"]] == answer.seen
    assert seen["reason"] == "stop"
    assert seen["vector"] == await vector_of(up)


@needs("llama-index-ollama")
async def test_llama_index_chats_completes_and_embeds(up: Commanded, answer: Answer) -> None:
    seen = await script("llama_index_ollama_client.py", "llama-index-ollama", up.url)

    texts = [seen[name] for name in ("whole", "streamed", "completed")]
    assert texts == [answer.said] * 3
    assert cast("int", seen["context"]) > 0
    assert seen["vector"] == await vector_of(up)


@needs("google-genai")
async def test_googles_sdk_chats_calls_counts_and_embeds(up: Commanded, answer: Answer) -> None:
    folder = CLIENTS["google-genai"].folder
    out = await ran("node", SCRIPTS / "google_genai_client.mjs", up.url, folder)

    seen = msgspec.json.decode(out.splitlines()[-1], type=Json)
    assert seen == {
        "whole": answer.seen,
        "streamed": answer.seen,
        "called": [["weather", ["city"]]],
        "counted": answer.usage.prompt_tokens,
        "embedded": [True, True],
        "names": ["models/tiny", "models/mini", "models/system.ai.tiny"],
    }


@needs("guidellm")
async def test_guidellm_completes_all_its_requests(up: Commanded, tmp_path: Path) -> None:
    from strowger_gateway.local_engine.bundled import bundled_path

    report = tmp_path / "report.json"

    await ran(
        CLIENTS["guidellm"].folder / "bin" / "guidellm",
        "run",
        *("--backend", f"kind=openai_http,target={up.url},model=tiny"),
        *("--profile", "kind=synchronous", "--constraint", "kind=max_requests,count=8"),
        *("--tokenizer", f"kind=huggingface_auto,model={bundled_path('tiny-chat')}"),
        *("--data", "kind=synthetic_text,prompt_tokens=24,output_tokens=8"),
        *("--output", f"kind=json,path={report}", "--disable-console"),
    )

    (benchmark,) = json.loads(report.read_text())["benchmarks"]
    totals = benchmark["metrics"]["request_totals"]
    assert (totals["successful"], totals["errored"]) == (8, 0)


@needs("schemathesis")
async def test_schemathesis_finds_answers_as_described(up: Commanded) -> None:
    await ran(
        CLIENTS["schemathesis"].folder / "bin" / "schemathesis",
        *("run", f"{up.url}/openapi.json", "--url", up.url, "--generation-deterministic"),
        *("--max-examples", "5", "--checks", ",".join(CHECKS)),
    )


CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
