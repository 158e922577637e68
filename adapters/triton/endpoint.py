"""One Triton server as its adapters use it: request targets, headers, and tasks not offered."""

import re
from urllib.parse import quote, urlsplit

from adapters.base import Endpoint, Outbound
from adapters.openai.adapter import accept, merged_headers
from schemas.errors import InvalidRequest
from schemas.fields import task_of
from schemas.requests import CompletionRequest, Request

_MODEL = re.compile(r"(?P<name>[^/]+)(?P<version>/versions/[0-9]+)?")


class TritonEndpoint:
    """Builds requests for one endpoint. Triton itself ignores keys, but a proxy may read them."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._name = endpoint.name
        self._models = f"{urlsplit(endpoint.base_url).path.rstrip('/')}/v2/models"
        key = endpoint.key.reveal()
        credentials = (("authorization", f"Bearer {key}"),) if key else ()
        self._headers = {
            stream: merged_headers(credentials, accept(stream), endpoint.headers)
            for stream in (False, True)
        }

    def outbound(
        self,
        model: str,
        route: str,
        body: bytes,
        *,
        stream: bool = False,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> Outbound:
        """route: the last part of the path. headers: in addition to the usual ones.

        Raises InvalidRequest for a model other than `NAME` or `NAME/versions/VERSION`: behind a
        wildcard the client names the model, and must not reach other paths of the server.
        """
        found = _MODEL.fullmatch(model)
        if found is None or found["name"] in (".", ".."):
            raise InvalidRequest(
                f"model: {model!r} is not a Triton model name; send NAME or NAME/versions/VERSION",
                param="model",
            )
        path = f"{quote(found['name'], safe='')}{found['version'] or ''}/{route}"
        usual = self._headers[stream]
        return Outbound(
            target=f"{self._models}/{path}",
            headers=merged_headers(usual, headers) if headers else usual,
            body=body,
            stream=stream,
        )

    def not_offered(self, request: Request) -> InvalidRequest:
        return InvalidRequest(f"{self._name} does not offer {task_of(request)}", param="model")


def prompt_of(request: CompletionRequest) -> str:
    """Raises InvalidRequest for token ids, and for more than one prompt."""
    prompt = request.prompts[0]
    if len(request.prompts) != 1 or not isinstance(prompt, str):
        raise InvalidRequest("prompt: this backend accepts a single text prompt", param="prompt")
    return prompt
