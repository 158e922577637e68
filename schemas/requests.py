"""The requests that travel from a surface to a backend: chat, completion, embeddings, tokens.

The others, with one whole answer each, are in `schemas/tasks`.

`extra` holds the top-level fields outside our schema, as JSON; they are forwarded unchanged to
backends of the client's own dialect and rejected by name by all others.
`optional` names fields that may be omitted if no backend honours them: the client's dialect
promises that they are never rejected.
"""

from typing import ClassVar, Literal, final

from msgspec import UNSET, Raw, Struct, UnsetType, field

from strowger_gateway.schemas.messages import Message, ResponseFormat, Tool, ToolChoice
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.tasks.task import TaskRequest, Unsampled
from strowger_gateway.schemas.tensors import Tensor

Prompt = str | tuple[int, ...]


Continuing = Literal["prefix", "partial", "continue_final_message", "assistant_turn"]
"""How a vendor of the OpenAI dialect continues an answer whose beginning is the last message.

`prefix` and `partial`: that field of the last message is true. `continue_final_message`: that field
of the request is true, and `add_generation_prompt` false. `assistant_turn`: nothing is needed but
the last message."""


class Storage(Struct, frozen=True, kw_only=True, gc=False):
    """What the gateway stores of a request, and what it has stored before it.

    store:    the client wants the answer stored.
    previous: the id of the response that the request continues; "" for a new conversation.
    root:     the id of that conversation's first response; "" for a new conversation.
    input:    the client's own items, as JSON: a text or a list.
    """

    store: bool
    previous: str = ""
    root: str = ""
    input: Raw


class Compaction(Struct, frozen=True, kw_only=True, gc=False):
    """What a client wants of a conversation that has become long, as the Responses API has it.

    now:       the answer is nothing but a summary of the conversation.
    threshold: if its input has more tokens, the conversation is summarised before it is answered;
               0: as many as the model's context suggests. Unused with `now`.
    kept:      with a route of its own, the items that the client gets back with the summary, as a
               JSON list; `UNSET` on any other route.
    """

    now: bool = False
    threshold: int = 0
    kept: Raw | UnsetType = UNSET


class Original(Struct, frozen=True, kw_only=True, gc=False):
    """A request as its client wrote it, in a dialect other than OpenAI's.

    An adapter of the same dialect sends a field's JSON unchanged as long as the request still has
    the value that was read from it, because vendors cache prompts by their bytes.

    dialect: `anthropic`, `gemini`, `openai-responses` or `ollama`.
    fields:  the client's JSON, by the dialect's own field names.
    read:    the request that was read from it.
    own:     names in `extra` that OpenAI's chat dialect does not have; `None`: all.
    storage: of its dialect's stored answers; `None` where nothing is stored.
    refers:  the client will refer to items of the answer, although nothing is stored.
    unsent:  the conversation, if it is not among `fields` because no adapter may send it as it is.
    turns:   how many messages of `read` each entry of the client's list `messages` became, in their
             order and at the end of `read.messages`; () if unknown.
    compaction: `None` if the conversation is answered as it is, however long.
    """

    dialect: str
    fields: dict[str, Raw]
    read: "ChatRequest"
    own: frozenset[str] | None = None
    storage: Storage | None = None
    refers: bool = False
    unsent: Raw | UnsetType = UNSET
    turns: tuple[int, ...] = ()
    compaction: Compaction | None = None


@final
class ChatRequest(Struct, frozen=True, tag_field="task", tag="chat", gc=False):
    """A conversation to continue.

    include_usage: the client asked for usage at the end of its stream.
    continuous_usage: the client also wants the counts so far on every chunk, as vLLM sends them.
    priority:      1 (first) … 5. timeout_s: the request's own deadline, seconds.
    max_tokens_field: the name under which the client sent `sampling.max_tokens`.
    nested:        messages, tools, `tool_choice` or `response_format` have fields that our schema
                   does not have (schemas/unknown_fields.py).
    original:      what the client sent, if it used a dialect other than OpenAI's.
    begun:         the last message is the beginning of the answer, and the model continues it.
    private:       fields under the vendor's own names whose values are hashed with the name of the
                   client's key, so that no client reaches what is another's.
    written:       fields under the vendor's own names that a repair has added, as JSON.
    """

    task: ClassVar[Literal["chat"]] = "chat"
    model: str
    messages: tuple[Message, ...]
    sampling: Sampling = Sampling()
    tools: tuple[Tool, ...] | UnsetType = UNSET
    tool_choice: ToolChoice | UnsetType = UNSET
    parallel_tool_calls: bool | UnsetType = UNSET
    response_format: ResponseFormat | UnsetType = UNSET
    reasoning_effort: str | UnsetType = UNSET
    stream: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    user: str | UnsetType = UNSET
    metadata: Raw | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    timeout_s: float | UnsetType = UNSET
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | UnsetType = UNSET
    extra: dict[str, Raw] = {}
    nested: bool = False
    optional: tuple[str, ...] = ()
    original: Original | None = None
    begun: bool = False
    private: dict[str, str] | None = None
    written: dict[str, Raw] | None = None


class CompletionRequest(
    Struct, frozen=True, kw_only=True, tag_field="task", tag="completion", gc=False
):
    """Text, or tokens, to continue.

    prompts:        one or more; choice index = prompt index x n + choice.
    batch:          the client sent a list of prompts (a list of one is still a list).
    sampling:       with `logprobs` true and `top_logprobs` 0 … 5 for the client's `logprobs`.
    template:       wrap each prompt in the model's chat template (Databricks' use_raw_prompt,
                    inverted).
    prompt_template: replaces the model's chat template (Ollama).
    suffix:         fill in the middle; append_suffix: text put after each answer (Databricks).
    error_behavior: `truncate` cuts a prompt that is too long; a timeout returns a partial answer.
    dialect:        the client's, if it is not OpenAI's and its `extra` means something there only.
    """

    task: ClassVar[Literal["completion"]] = "completion"
    model: str
    prompts: tuple[Prompt, ...]
    batch: bool = False
    sampling: Sampling = Sampling()
    echo: bool | UnsetType = UNSET
    suffix: str | UnsetType = UNSET
    append_suffix: str | UnsetType = UNSET
    template: bool = False
    prompt_template: str | UnsetType = UNSET
    error_behavior: Literal["error", "truncate"] | UnsetType = UNSET
    stream: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    user: str | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    timeout_s: float | UnsetType = UNSET
    extra: dict[str, Raw] = {}
    optional: tuple[str, ...] = ()
    dialect: str = ""


@final
class EmbeddingsRequest(
    Unsampled, frozen=True, kw_only=True, tag_field="task", tag="embeddings", gc=False
):
    """Inputs to embed, one vector each.

    instruction: prepended to each input, as the model's card describes (Databricks).
    base64:      the client wants little-endian float32 in base64 rather than JSON numbers.
    batch:       the client sent a list of inputs.
    dialect:     as in CompletionRequest.
    """

    task: ClassVar[Literal["embeddings"]] = "embeddings"
    model: str
    inputs: tuple[Prompt, ...]
    batch: bool = False
    instruction: str | UnsetType = UNSET
    base64: bool = False
    dimensions: int | UnsetType = UNSET
    user: str | UnsetType = UNSET
    timeout_s: float | UnsetType = UNSET
    extra: dict[str, Raw] = field(default_factory=dict[str, Raw])
    optional: tuple[str, ...] = ()
    dialect: str = ""


class LoraRequest(Struct, frozen=True, kw_only=True, gc=False):
    """task_id is scoped to the API key; weights and config go together, on first use only."""

    task_id: int
    weights: Tensor | UnsetType = UNSET
    config: Tensor | UnsetType = UNSET


class PromptTable(Struct, frozen=True, kw_only=True, gc=False):
    """P-tuning: embeddings [P, hidden] that ids from the vocabulary's end on select."""

    table: Tensor
    vocab_size: int


class Draft(Struct, frozen=True, kw_only=True, gc=False):
    """Tokens to verify rather than generate; logits: [D, V] float32."""

    tokens: tuple[int, ...]
    logits: Tensor | UnsetType = UNSET


class TokenRequest(Struct, frozen=True, kw_only=True, tag_field="task", tag="tokens", gc=False):
    """Token ids in, token ids out: MindIE's /infer_token and TensorRT-LLM's InferenceRequest.

    details: the client wants finish reason, count and seed as well as the text.
    text:    the client wants the generated text as well as the token ids.
    """

    task: ClassVar[Literal["tokens"]] = "tokens"
    model: str
    tokens: tuple[int, ...]
    sampling: Sampling = Sampling()
    stream: bool = False
    details: bool = False
    text: bool = False
    priority: int | UnsetType = UNSET
    timeout_s: float | UnsetType = UNSET
    lora: LoraRequest | UnsetType = UNSET
    prompt_table: PromptTable | UnsetType = UNSET
    draft: Draft | UnsetType = UNSET
    return_context_logits: bool | UnsetType = UNSET
    return_generation_logits: bool | UnsetType = UNSET
    extra: dict[str, Raw] = {}
    optional: tuple[str, ...] = ()


GenerateRequest = ChatRequest | CompletionRequest | TokenRequest
WholeRequest = EmbeddingsRequest | TaskRequest
"""Requests with one whole answer: neither sampled nor streamed. All are `Unsampled`."""

Request = ChatRequest | CompletionRequest | TokenRequest | EmbeddingsRequest | TaskRequest


def expected_choices(request: GenerateRequest) -> int:
    """Return the number of prompts x n."""
    if type(request) is ChatRequest:  # an exact type: `isinstance` takes seven times as long
        return request.sampling.n or 1
    prompts = len(request.prompts) if isinstance(request, CompletionRequest) else 1
    return prompts * (request.sampling.n or 1)
