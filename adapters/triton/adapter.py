"""The base of the adapters for Triton servers, one for each kind of model."""

import re
from typing import ClassVar
from urllib.parse import quote

from msgspec.structs import replace

from strowger_gateway.adapters.base import Endpoint, Outbound, Supports
from strowger_gateway.adapters.headers import merged_headers
from strowger_gateway.adapters.http_json import HttpJsonAdapter, base_path
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import CompletionRequest, EmbeddingsRequest

_MODEL = re.compile(r"(?P<name>[^/]+)(?P<version>/versions/[0-9]+)?")


class TritonAdapter(HttpJsonAdapter):
    """A kind of model on a Triton server. Triton ignores keys, but a proxy may read them.

    offers: what the gateway can request of the kind.
    """

    offers: ClassVar[Supports]

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, self.offers, f"{base_path(endpoint)}/v2/models/")

    def embeddings(self, request: EmbeddingsRequest, body: bytes) -> Embeddings:
        raise self._not_offered(request)

    def _infer(
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
        usual = self._outbound(path, body, stream=stream)
        return replace(usual, headers=merged_headers(usual.headers, headers)) if headers else usual


def prompt_of(request: CompletionRequest) -> str:
    """Raises InvalidRequest for token ids, and for more than one prompt."""
    prompt = request.prompts[0]
    if len(request.prompts) != 1 or not isinstance(prompt, str):
        raise InvalidRequest("prompt: this backend accepts a single text prompt", param="prompt")
    return prompt
