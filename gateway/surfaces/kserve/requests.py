"""Requests with the format of their KServe answer, which backends do not need to know."""

from msgspec import Struct

from strowger_gateway.schemas.requests import CompletionRequest, TokenRequest


class RequestedOutput(Struct, frozen=True, kw_only=True):
    """One output tensor of an answer, and whether its data goes after the JSON."""

    name: str
    binary: bool = False


class InferReply(Struct, frozen=True, kw_only=True):
    """id: echoed, "" for none. outputs: in the order of the answer.

    pad:        token that pads rows of unequal length; it may be -1.
    with_input: each row begins with the prompt (exclude_input_in_output is false).
    """

    id: str = ""
    outputs: tuple[RequestedOutput, ...]
    pad: int = -1
    with_input: bool = False


class InferRequest(TokenRequest, frozen=True, kw_only=True):
    """`/infer`: tensors in, tensors out."""

    reply: InferReply


class InferTextRequest(CompletionRequest, frozen=True, kw_only=True):
    """`/infer` with text_input: text in, text out, in tensors of strings."""

    reply: InferReply


class GenerateReply(Struct, frozen=True, kw_only=True):
    """The fields of a `/generate` or `/generate_stream` answer besides its text or tokens.

    pieces:     send one frame per piece; else one for the whole answer.
    sequences:  frames carry the index of their answer.
    """

    id: str = ""
    pieces: bool = False
    sequences: bool = False
    pad: int = -1
    with_input: bool = False
    log_probs: bool = False
    context_logits: bool = False
    generation_logits: bool = False
    num_input_tokens: bool = False
    num_output_tokens: bool = False
    finish_reason: bool = False


class GenerateTextRequest(CompletionRequest, frozen=True, kw_only=True):
    """`text_input` in, `text_output` out."""

    reply: GenerateReply


class GenerateTokensRequest(TokenRequest, frozen=True, kw_only=True):
    """`input_ids` in, `output_ids` out."""

    reply: GenerateReply
