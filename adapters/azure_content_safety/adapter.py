"""Azure AI Content Safety, which judges a text or an image per call, by severity.

The base URL is the resource's own, https://NAME.cognitiveservices.azure.com. The service has no
models: the name in the configuration is for people.
https://learn.microsoft.com/en-us/rest/api/contentsafety/text-operations/analyze-text
"""

from typing import ClassVar

from strowger_gateway.adapters.base import Decoder, Endpoint, Outbound, Supports
from strowger_gateway.adapters.http_json import HttpJsonAdapter, base_path
from strowger_gateway.adapters.tasks import moderate
from strowger_gateway.adapters.tasks.form import AnyTaskForm
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.requests import EmbeddingsRequest, GenerateRequest, Request
from strowger_gateway.schemas.tasks.task import TaskRequest


class AzureContentSafetyAdapter(HttpJsonAdapter):
    """Moderation alone."""

    name: ClassVar[str] = "azure-content-safety"
    tasks: ClassVar[tuple[AnyTaskForm, ...]] = (moderate.AZURE,)

    def __init__(self, endpoint: Endpoint) -> None:
        key = endpoint.key.reveal()
        credentials = (("ocp-apim-subscription-key", key),) if key else ()
        super().__init__(endpoint, Supports(), base_path(endpoint, "/contentsafety"), credentials)

    def encode(self, request: Request, model: str) -> Outbound:
        if isinstance(request, TaskRequest):
            return self._task_outbound(request, model)
        raise self._not_offered(request)

    def decoder(self, request: GenerateRequest) -> Decoder:
        raise self._not_offered(request)

    def embeddings(self, request: EmbeddingsRequest, body: bytes) -> Embeddings:
        raise self._not_offered(request)
