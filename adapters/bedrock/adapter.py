"""Amazon Bedrock: chat by Converse and ConverseStream, embeddings by InvokeModel.

The base URL is a region's: `https://bedrock-runtime.REGION.amazonaws.com`. A model is a model id,
an inference profile, or an ARN. A key is a Bedrock API key; without one the gateway can sign.
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_Operations_Amazon_Bedrock_Runtime.html
"""

from collections.abc import Mapping
from typing import ClassVar, assert_never
from urllib.parse import quote

from strowger_gateway.adapters.anthropic.claude_models import takes_prefill
from strowger_gateway.adapters.anthropic.encode import BETA
from strowger_gateway.adapters.base import (
    PROVEN,
    Continues,
    Endpoint,
    Framing,
    Outbound,
    Range,
    Supports,
)
from strowger_gateway.adapters.bedrock.decode import ConverseDecoder
from strowger_gateway.adapters.bedrock.embeddings import (
    EMBEDDING_FIELDS,
    embeddings_body,
    embeddings_from,
    inputs_of,
)
from strowger_gateway.adapters.bedrock.encode import (
    INFERENCE,
    MERGED,
    MODEL_FIELDS,
    OWN,
    converse_body,
    count_body,
)
from strowger_gateway.adapters.bedrock.errors import error_from
from strowger_gateway.adapters.bedrock.reasoning_effort import lacks
from strowger_gateway.adapters.bedrock.repairs import BEDROCK_REPAIRS, is_claude
from strowger_gateway.adapters.client_fields.denied import withheld
from strowger_gateway.adapters.cohere.encode import name_and_purpose
from strowger_gateway.adapters.http_json import HttpJsonAdapter, base_path
from strowger_gateway.adapters.tasks import rerank
from strowger_gateway.adapters.tasks.form import AnyTaskForm
from strowger_gateway.adapters.tasks.score import score_by
from strowger_gateway.adapters.token_count import counted
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import GatewayError, InvalidRequest
from strowger_gateway.schemas.messages import CLAUDE
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
    TokenRequest,
)
from strowger_gateway.schemas.tasks.task import TaskRequest

REQUEST_ID = "x-amzn-requestid"

SUPPORTS = Supports(
    cache_marks=is_claude,
    client_fields=withheld("bedrock"),
    chat=frozenset(
        {
            *INFERENCE,
            "top_k",
            "tools",
            "tool_choice",
            "response_format",
            "reasoning_effort",
            "user",
            "metadata",
            "messages.image",
            "messages.audio",
            "messages.opaque",
        }
    ),
    embeddings=frozenset({"dimensions"}),
    extra_fields={"chat": OWN | MERGED | MODEL_FIELDS, "embeddings": EMBEDDING_FIELDS},
    thoughts=PROVEN,
    headers=frozenset({BETA}),
    lacks=lacks,
    continues=Continues(model=takes_prefill, trimmed=True),
    proofs=frozenset({CLAUDE}),
    repairs=BEDROCK_REPAIRS,
    ranges={
        "max_tokens": Range(minimum=1),
        "temperature": Range(minimum=0, maximum=1),
        "top_p": Range(minimum=0, maximum=1),
        "top_k": Range(minimum=0),
        "stop": Range(items=2500),
        "dimensions": Range(minimum=1),
    },
    translated={
        "chat": {
            **{field: f"inferenceConfig.{wire}" for field, wire in INFERENCE.items()},
            "top_k": "additionalModelRequestFields.top_k "
            "or additionalModelRequestFields.inferenceConfig.topK (Nova) "
            "or additionalModelRequestFields.k (Cohere)",
            "tools": "toolConfig.tools[].toolSpec",
            "tool_choice": "toolConfig.toolChoice",
            "response_format": "outputConfig.textFormat",
            "reasoning_effort": "outputConfig.effort "
            "or additionalModelRequestFields.thinking (Claude, with a budget) "
            "or additionalModelRequestFields.thinking + outputConfig.effort (later Claude) "
            "or additionalModelRequestFields.reasoning_effort (gpt-oss) "
            "or additionalModelRequestFields.reasoningConfig (Nova 2)",
            "user": "requestMetadata.user",
            "metadata": "requestMetadata",
            "messages.image": "messages[].content[].image",
            "messages.audio": "messages[].content[].audio",
            "messages.opaque": "messages[].content[].document (files)",
        },
        "embeddings": {
            "dimensions": "dimensions or output_dimension (Cohere) "
            "or singleEmbeddingParams.embeddingDimension (Nova)"
        },
    },
)


class BedrockAdapter(HttpJsonAdapter):
    """Chat, embeddings and reranking; no bare prompts and no tokens: every chat uses Converse."""

    name: ClassVar[str] = "bedrock"
    framing: ClassVar[Framing] = "eventstream"
    tasks: ClassVar[tuple[AnyTaskForm, ...]] = (rerank.BEDROCK, score_by(rerank.BEDROCK))

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, SUPPORTS, f"{base_path(endpoint)}/model")

    def encode(self, request: Request, model: str) -> Outbound:
        match request:
            case ChatRequest():
                verb = "converse-stream" if request.stream else "converse"
                body = converse_body(request, model)
                return self._call(model, verb, body, stream=request.stream)
            case EmbeddingsRequest():
                name = name_and_purpose(model)[0]
                return self._call(name, "invoke", embeddings_body(request, model))
            case TaskRequest():
                return self._task_outbound(request, model)
            case CompletionRequest() | TokenRequest():
                raise InvalidRequest(
                    f"{self._endpoint.name} accepts only conversations; send messages",
                    param="model",
                )
        assert_never(request)

    cannot_count: ClassVar[frozenset[int]] = frozenset({400})
    """Of models that answer conversations, and whose tokens Bedrock does not count.
    https://docs.aws.amazon.com/bedrock/latest/userguide/count-tokens.html"""

    def encode_count(self, request: ChatRequest, model: str) -> Outbound:
        """See TokenCounter."""
        return self._call(model, "count-tokens", count_body(request, model))

    def counted(self, body: bytes) -> int:
        """See TokenCounter."""
        return counted(self._endpoint, body, "inputTokens")

    def decoder(self, request: GenerateRequest) -> ConverseDecoder:
        return ConverseDecoder(self._endpoint, request)

    def decoder_of(self, request: GenerateRequest, headers: Mapping[str, str]) -> ConverseDecoder:
        """See HeadReader: only the head of an answer contains an id."""
        return ConverseDecoder(self._endpoint, request, headers.get(REQUEST_ID, ""))

    def embeddings(self, request: EmbeddingsRequest, body: bytes) -> Embeddings:
        return embeddings_from(self._endpoint, request, body)

    def inputs_of(self, model: str) -> int:
        """See InputsByModel."""
        return inputs_of(model)

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> GatewayError:
        return error_from(self._endpoint, status, headers, body)

    def _call(self, model: str, verb: str, body: bytes, *, stream: bool = False) -> Outbound:
        """Build a request; an ARN's colons and slashes are escaped in the path."""
        return self._outbound(f"/{quote(model, safe='')}/{verb}", body, stream=stream)
