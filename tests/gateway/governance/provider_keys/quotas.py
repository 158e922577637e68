"""A vendor whose keys have quotas, strictly: what a key may not do is refused in its own form."""

import json
from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from tests.stand_ins import anthropic_server
from tests.stand_ins.gemini_server import error as google_error
from tests.stand_ins.gemini_server import gemini
from tests.stand_ins.provider import Answer, Received, answers


class Account(Struct, kw_only=True):
    """What one key may do. left: requests; retry_after: as its 429 says, "" for none.

    models: that it may use; `None`: all. revoked, broke: 401; no credit.
    """

    left: int = 1_000
    retry_after: str = "30"
    models: tuple[str, ...] | None = None
    revoked: bool = False
    broke: bool = False


class QuotaVendor:
    """Speaks the dialect of the path. used: calls that were answered, by key; asked: all calls."""

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self.accounts = dict(accounts)
        self.used: Counter[str] = Counter()
        self.asked: list[str] = []
        self.bodies: list[tuple[str, bytes]] = []

    async def __call__(self, request: Received, answer: Answer) -> None:
        key = key_of(request)
        self.asked.append(key)
        self.bodies.append((key, request.body))
        account = self.accounts.get(key)
        if account is None or account.revoked:
            await _refuse(request, answer, 401, "Incorrect API key provided", "invalid_api_key")
        elif account.broke:
            await _refuse(
                request, answer, 429, "You exceeded your current quota", "insufficient_quota"
            )
        elif account.left <= 0:
            headers = {"retry-after": account.retry_after} if account.retry_after else {}
            await _refuse(
                request, answer, 429, "Rate limit reached", "rate_limit_exceeded", headers
            )
        elif account.models is not None and _model(request) not in account.models:
            name = _model(request)
            await _refuse(
                request,
                answer,
                404,
                f"The model `{name}` does not exist or you do not have access to it.",
                "model_not_found",
            )
        else:
            account.left -= 1
            self.used[key] += 1
            await _answer(request, answer)


def key_of(request: Received) -> str:
    """The key, wherever the dialect has it; exactly one header may have it."""
    headers = request.headers
    found = [
        headers[name].removeprefix("Bearer ")
        for name in ("authorization", "x-api-key", "api-key", "x-goog-api-key")
        if name in headers
    ]
    assert len(found) == 1, headers
    return found[0]


def _model(request: Received) -> str:
    return str(json.loads(request.body).get("model", ""))


async def _answer(request: Received, answer: Answer) -> None:
    if "/v1beta/" in request.path:
        await gemini(request, answer)
    elif request.path == "/v1/messages":
        own = {**request.headers, "x-api-key": anthropic_server.KEY}
        await anthropic_server.messages_api(
            Received(method=request.method, path=request.path, headers=own, body=request.body),
            answer,
        )
    elif request.path.endswith("/v2/chat"):
        await _cohere(answer)
    else:
        await answers(request, answer)


async def _cohere(answer: Answer) -> None:
    message = {"role": "assistant", "content": [{"type": "text", "text": "hello"}]}
    tokens = {"input_tokens": 7, "output_tokens": 3}
    usage = {"billed_units": tokens, "tokens": tokens}
    await answer.json({"id": "c", "finish_reason": "COMPLETE", "message": message, "usage": usage})


async def _refuse(
    request: Received,
    answer: Answer,
    status: int,
    message: str,
    code: str,
    headers: Mapping[str, str] | None = None,
) -> None:
    if "/v1beta/" in request.path:
        word = {401: "UNAUTHENTICATED", 404: "NOT_FOUND"}.get(status, "RESOURCE_EXHAUSTED")
        await answer.json(google_error(status, word, message), status, headers)
    elif request.path == "/v1/messages":
        kind = {401: "authentication_error", 404: "not_found_error"}.get(status, "rate_limit_error")
        body = {"type": "error", "error": {"type": kind, "message": message}}
        await answer.json(body, status, headers)
    elif request.path.endswith("/v2/chat"):
        await answer.json({"message": message}, status, headers)
    else:
        kind = "invalid_request_error" if status in (401, 404) else code
        error = {"message": message, "type": kind, "param": None, "code": code}
        await answer.json({"error": error}, status, headers)
