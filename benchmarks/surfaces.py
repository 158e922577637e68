"""CPU time per request of every surface, compared with a plain chat in OpenAI's dialect.

python -m benchmarks.surfaces [--rounds 5] [--seconds 2] [--against CHECKOUT] [--only responses]:
one gateway in front of a constant provider, 64 connections, whole answers, no two requests with the
same body; then streams, per event. Rounds alternate between the surfaces. Prints medians and
ratios. Token requests go to a provider with MindIE's token interface; "from text" to one that
answers in text, which the gateway tokenizes (docs/tokens.md). "Stored" responses are in SQLite when
they leave. `--against` measures another checkout of the project in the same rounds; `--only` limits
the surfaces to those with the word in their names, and the plain chats that they are compared with.
"""

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.gateway.contenders import (
    LOAD_CORE,
    ROOT,
    Contender,
    Place,
    Recipe,
    mocks,
    running,
    serve_command,
)
from benchmarks.gateway.load import answers
from benchmarks.gateway.mock import EVENTS
from benchmarks.gateway.processes import cpu_s, used_s
from benchmarks.gateway.requests import KEY, Halves

_CONFIG: Final = """
server: {{port: {port}}}
auth: {{mode: keys, keys: [{{name: bench, key: {key}, models: [chat, stream, ids, text]}}]}}
providers:
  - {{name: whole, adapter: openai, base_url: "http://127.0.0.1:{whole}/v1", api_key: k}}
  - {{name: stream, adapter: openai, base_url: "http://127.0.0.1:{stream}/v1", api_key: k}}
  - {{name: ids, adapter: mindie, base_url: "http://127.0.0.1:{whole}", api_key: k}}
  - name: text
    adapter: openai
    base_url: "http://127.0.0.1:{whole}/v1"
    api_key: k
    tokenizer: {tokenizer}
models:
  - {{name: chat, backends: [{{provider: whole, model: mock-1}}]}}
  - {{name: stream, backends: [{{provider: stream, model: mock-1}}]}}
  - {{name: ids, backends: [{{provider: ids, model: mock-1}}]}}
  - {{name: text, backends: [{{provider: text, model: mock-1}}]}}
responses: {{store: on}}
logging: {{format: json}}
"""
_TOKENIZER: Final = ROOT / "local_engine" / "bundled" / "tiny-chat"
_PROMPT: Final = "Explain in one paragraph why the sky is blue, for a child of ten. " * 18
_MESSAGES: Final = [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": f"@@@@@@@@@@ {_PROMPT}"},
]
_IDS: Final = [1, *range(20, 370)]
_TEXT: Final = "@@@@@@@@@@"
_INFER: Final = {
    "id": _TEXT,
    "inputs": [
        {"name": "input_ids", "shape": [1, len(_IDS)], "datatype": "INT32", "data": _IDS},
        {"name": "request_output_len", "shape": [1, 1], "datatype": "INT32", "data": [64]},
    ],
}
_INFER_TOKEN: Final = {"input_id": _IDS, "parameters": {"max_new_tokens": 64, "seed": _TEXT}}
Shape = tuple[str, Mapping[str, object]]
"""A path and a body; `_TEXT` in it is replaced by a number."""

Measured = dict[str, list[float]]
"""CPU microseconds per part of an answer, by surface and round."""

_ANTHROPIC: Final = {
    "model": "chat",
    "max_tokens": 512,
    "system": "You are a helpful assistant.",
    "messages": _MESSAGES[1:],
    "temperature": 0.5,
}
_RESPONSE: Final = {
    "model": "chat",
    "instructions": "You are a helpful assistant.",
    "input": _MESSAGES[1:],
    "temperature": 0.5,
}
SURFACES: Final[Mapping[str, Shape]] = {
    "OpenAI, chat": (
        "/v1/chat/completions",
        {"model": "chat", "messages": _MESSAGES, "temperature": 0.5},
    ),
    "OpenAI, completions": (
        "/v1/completions",
        {"model": "chat", "prompt": f"{_TEXT} {_PROMPT}", "temperature": 0.5},
    ),
    "Anthropic, messages": ("/v1/messages", _ANTHROPIC),
    "OpenAI, responses": ("/v1/responses", {**_RESPONSE, "store": False}),
    "OpenAI, responses (stored)": ("/v1/responses", _RESPONSE),
    "Databricks, chat": (
        "/serving-endpoints/chat/invocations",
        {"messages": _MESSAGES, "temperature": 0.5},
    ),
    "KServe, text": (
        "/v2/models/chat/generate",
        {"text_input": f"{_TEXT} {_PROMPT}", "max_tokens": 64, "temperature": 0.5},
    ),
    "KServe, tokens": ("/v2/models/ids/infer", _INFER),
    "KServe, tokens from text": ("/v2/models/text/infer", _INFER),
    "MindIE, tokens": ("/v1/models/ids/infer_token", _INFER_TOKEN),
    "MindIE, tokens from text": ("/v1/models/text/infer_token", _INFER_TOKEN),
}
STREAMS: Final[Mapping[str, Shape]] = {
    "OpenAI, chat": (
        "/v1/chat/completions",
        {"model": "stream", "messages": _MESSAGES, "temperature": 0.5, "stream": True},
    ),
    "Anthropic, messages": ("/v1/messages", {**_ANTHROPIC, "model": "stream", "stream": True}),
    "OpenAI, responses": (
        "/v1/responses",
        {**_RESPONSE, "model": "stream", "stream": True, "store": False},
    ),
    "OpenAI, responses (stored)": (
        "/v1/responses",
        {**_RESPONSE, "model": "stream", "stream": True},
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT")
    parser.add_argument("--only", default="", metavar="WORD")
    options = parser.parse_args()
    os.sched_setaffinity(0, {int(LOAD_CORE)})
    recipes = [Recipe(name="Strowger", command=_command)]
    if options.against is not None:
        checkout = options.against.resolve()
        recipes.append(Recipe(name="before", command=_command, checkout=checkout))
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        constant = stack.enter_context(mocks(folder))
        subjects = [
            stack.enter_context(running(one, folder / f"gateway-{number}", constant))
            for number, one in enumerate(recipes)
        ]
        found: list[tuple[str, list[Measured]]] = []
        for title, surfaces, parts in (
            ("CPU per request", SURFACES, 1),
            ("CPU per event of a stream", STREAMS, EVENTS),
        ):
            chosen = {
                name: shape
                for place, (name, shape) in enumerate(surfaces.items())
                if place == 0 or options.only in name
            }
            _measured(subjects, chosen, 1, 1)  # warm up
            used = _measured(subjects, chosen, options.rounds, options.seconds, parts=parts)
            found.append((title, used))
    for title, used in found:
        Console(width=120).print(_table(title, used))


def _command(place: Place) -> Sequence[str]:
    config = place.folder / "strowger.yaml"
    config.write_text(
        _CONFIG.format(
            port=place.port,
            key=KEY,
            whole=place.mocks.whole,
            stream=place.mocks.stream,
            tokenizer=_TOKENIZER,
        )
    )
    return serve_command(config, place.checkout)


def _measured(
    subjects: Sequence[Contender],
    surfaces: Mapping[str, Shape],
    rounds: int,
    seconds: float,
    *,
    parts: int = 1,
) -> list[Measured]:
    """Measure each gateway, in the order of `subjects`. parts: of each answer."""
    found: list[Measured] = [{name: [] for name in surfaces} for _ in subjects]
    for turn in range(rounds):
        names = list(surfaces) if turn % 2 == 0 else list(surfaces)[::-1]
        for name in names:
            for subject, values in zip(subjects, found, strict=True):
                before = cpu_s(subject.pid)
                answered = answers(
                    subject.port, _requests(*surfaces[name]), lambda load: load.closed_loop(seconds)
                )
                used = sum(used_s(before, cpu_s(subject.pid)))
                values[name].append(used / len(answered.latencies_s) / parts * 1e6)
    return found


def _requests(path: str, body: Mapping[str, object]) -> Iterator[Halves]:
    whole = json.dumps(body, separators=(",", ":"))
    quoted = f'"{_TEXT}"' if '"seed"' in whole else _TEXT
    before, _, after = whole.encode().partition(quoted.encode())
    length = len(before) + 10 + len(after)
    head = (
        f"POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer {KEY}\r\ncontent-length: {length}\r\n\r\n"
    ).encode()
    for number in count(1_000_000_000):
        yield head, b"%b%d%b" % (before, number, after)


def _table(caption: str, found: Sequence[Measured]) -> Table:
    """found: this checkout's values, then those of the other, if there is one."""
    now, *others = found
    table = Table(title=caption)
    titles = ["µs", "least … most", "× a plain chat"]
    for title in ["surface", *titles, *[f"before: {title}" for title in titles if others]]:
        table.add_column(title, justify="left" if title == "surface" else "right")
    for name in now:
        table.add_row(name, *[cell for one in found for cell in _cells(one, name)])
    return table


def _cells(found: Measured, name: str) -> tuple[str, str, str]:
    base = statistics.median(next(iter(found.values())))
    values = found[name]
    middle = statistics.median(values)
    spread = f"{min(values):.1f} … {max(values):.1f}"
    return f"{middle:.1f}", spread, f"{middle / base:.2f}"


if __name__ == "__main__":
    main()
