"""Read an embeddings request to token rows: instructions, limits and validation."""

from typing import Final

from msgspec import UNSET, Struct, UnsetType

from strowger_gateway.local_engine.child_process.text_encoder import Offload
from strowger_gateway.local_engine.embeddings.encoder import EmbeddingShape
from strowger_gateway.local_engine.embeddings.sentence_transformers import (
    SentenceTransformersConfig,
)
from strowger_gateway.local_engine.protocol.capabilities import SUPPORTED
from strowger_gateway.local_engine.text.text_length import reach_of
from strowger_gateway.local_engine.text.tokenizer import Tokenizer
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.fields import extra_fields, sent_fields
from strowger_gateway.schemas.prompt_too_long import CONTEXT_LENGTH, too_long_message
from strowger_gateway.schemas.requests import EmbeddingsRequest, Prompt

REMEDY: Final = "send text (in LangChain: OpenAIEmbeddings(check_embedding_ctx_length=False))"
"""LangChain's class sends ids of OpenAI's tokenizer by default.
https://reference.langchain.com/python/integrations/langchain_openai/embeddings/base/"""


class TokenRows(Struct, frozen=True, kw_only=True):
    """A request, ready for the engine.

    rows:  token ids of each input. skip: number of instruction tokens at the beginning of each.
    width: numbers to return of each vector, from its beginning.
    """

    rows: tuple[tuple[int, ...], ...]
    skip: int
    width: int
    timeout_s: float | None

    @property
    def tokens(self) -> int:
        """Tokens of all inputs, including instructions and special tokens."""
        return sum(len(row) for row in self.rows)


class TextReader:
    """Reads requests for one embedding model. Safe to call from any thread."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        st_config: SentenceTransformersConfig,
        shape: EmbeddingShape,
        *,
        shrinks: bool,
        takes_tokens: bool,
    ) -> None:
        """The operator's settings. shrinks: vectors may be shortened. takes_tokens: clients that
        send token ids use this model's tokenizer.
        """
        self._tokenizer = tokenizer
        self._st_config = st_config
        self._shape = shape
        self._shrinks = shrinks or st_config.shrinks
        self._takes_tokens = takes_tokens
        self.reach = reach_of(tokenizer.describe(), shape.longest)
        self._width = min(st_config.width or shape.width, shape.width)

    def read(self, request: EmbeddingsRequest, offload: Offload | None = None) -> TokenRows:
        """Raises InvalidRequest naming the field. offload: see TextEncoder.encode."""
        _refuse_unsupported(request)
        if not self._takes_tokens and not all(isinstance(one, str) for one in request.inputs):
            raise InvalidRequest(
                f"input: token ids are not accepted (their tokenizer is unknown); {REMEDY}, "
                "or have the operator set token_inputs: accept if they are this model's ids",
                param="input",
            )
        instruction = self._instruction(request)
        rows = tuple(
            self._row(prompt, f"input[{place}]" if request.batch else "input", instruction, offload)
            for place, prompt in enumerate(request.inputs)
        )
        return TokenRows(
            rows=rows,
            skip=self._length(instruction) if instruction else 0,
            width=self._requested_width(request.dimensions),
            timeout_s=None if request.timeout_s is UNSET else request.timeout_s,
        )

    def _instruction(self, request: EmbeddingsRequest) -> str:
        """Return the client's instruction (looked up if it is a name), or the model's default."""
        requested = request.instruction
        texts = all(isinstance(prompt, str) for prompt in request.inputs)
        if requested is UNSET:
            return self._st_config.default if texts else ""
        if not texts:
            raise InvalidRequest(
                "instruction: requires text inputs; send the inputs as text, or remove it",
                param="instruction",
            )
        return self._st_config.prompts.get(requested, requested)

    def _row(
        self, prompt: Prompt, where: str, instruction: str, offload: Offload | None
    ) -> tuple[int, ...]:
        if isinstance(prompt, str):
            text = instruction + prompt
            self.reach.refuse(text, where)
            row, count = self._encode(text, offload)
        else:
            row, count = prompt, len(prompt)
            for place, token in enumerate(row[: self._shape.longest]):
                if not 0 <= token < self._shape.vocabulary:
                    raise InvalidRequest(
                        f"{where}[{place}]: token {token} must be within 0 and "
                        f"{self._shape.vocabulary - 1}; if another tokenizer made it, {REMEDY}",
                        param=where,
                    )
        if not row:
            raise InvalidRequest(f"{where} must not be empty", param=where)
        if count > self._shape.longest:
            raise InvalidRequest(
                too_long_message(
                    f", and {where} has {count}; shorten it or split it", self._shape.longest
                ),
                param=where,
                code=CONTEXT_LENGTH,
            )
        return row

    def _encode(self, text: str, offload: Offload | None = None) -> tuple[tuple[int, ...], int]:
        """Return the last tokens, as many as the model supports, and the count of all."""
        lowered = text.lower() if self._st_config.lower_case else text
        ids, count = self._tokenizer.encode_prompt(
            lowered, most=self._shape.longest, offload=offload
        )
        return tuple(ids), count

    def _length(self, instruction: str) -> int:
        """Return the tokens of an instruction with the prefix of a text, without its suffix."""
        row, _ = self._encode(instruction)
        return len(row) - (row[-1] in self._tokenizer.specials)

    def _requested_width(self, requested: int | UnsetType) -> int:
        if requested is UNSET or requested == self._width:
            return self._width
        if not self._shrinks:
            raise InvalidRequest(
                f"dimensions: this model's vectors have {self._width} numbers, and it was not "
                "trained for fewer; remove dimensions (the operator can set matryoshka: true)",
                param="dimensions",
            )
        if not 1 <= requested <= self._shape.width:
            raise InvalidRequest(
                f"dimensions: {requested} must be within 1 and {self._shape.width}",
                param="dimensions",
            )
        return requested


def _refuse_unsupported(request: EmbeddingsRequest) -> None:
    supported = SUPPORTED["embeddings"] or frozenset()
    for field in (*sorted(sent_fields(request) - supported), *sorted(extra_fields(request))):
        raise InvalidRequest(
            f"{field}: not supported by the local engine; remove it or use another model",
            param=field,
        )
