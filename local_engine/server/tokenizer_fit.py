"""Whether a tokenizer belongs to the model next to it."""

from collections.abc import Collection

from strowger_gateway.local_engine.loading.weight_files import listed
from strowger_gateway.local_engine.text.tokenizer import Tokenizer
from strowger_gateway.schemas.errors import InvalidConfig

REMEDY = "copy the tokenizer's files from where the weights are from"


def refuse_other_tokenizer(
    tokenizer: Tokenizer, path: str, vocabulary: int, *, ends: Collection[int] = ()
) -> None:
    """Refuse a tokenizer whose tokens the model lacks, or that lacks the model's end token.

    vocabulary: the model's tokens. ends: the ids that end its answers; empty if it names none.
    Some tokenizers have a token for padding behind the vocabulary, which no text needs: a request
    that spells it is an error of that request. Raises InvalidConfig.
    """
    tokens = tokenizer.tokens()
    beyond = {text: id for text, id in tokens.items() if id >= vocabulary}
    if beyond:
        used = tokenizer.needed(beyond)
        if used:
            raise _refused(
                path,
                f"has {len(beyond)} tokens that the model lacks, which has {vocabulary}: "
                f"{listed(map(repr, used))}",
            )
        tokenizer.limit(vocabulary)
    known = set(tokens.values())
    if ends and known.isdisjoint(ends):
        raise _refused(
            path,
            f"lacks the token that ends the model's answers ({', '.join(map(str, sorted(ends)))}), "
            f"and has {len(known)} tokens",
        )


def _refused(path: str, problem: str) -> InvalidConfig:
    return InvalidConfig(
        (f"the tokenizer at {path} belongs to another model: it {problem}; {REMEDY}",)
    )
