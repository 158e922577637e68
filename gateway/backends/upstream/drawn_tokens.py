"""The tokens that a local engine has drawn for a streamed answer, so that another can resume it."""

import os
from typing import Protocol, runtime_checkable

from msgspec import UNSET, Struct
from msgspec.structs import replace

from strowger_gateway.schemas.requests import GenerateRequest


class DrawnTokens(Struct, kw_only=True, eq=False):
    """What one attempt at a local engine has drawn; an attempt elsewhere leaves it empty.

    replayed: the tokens that the answer had before the attempt. ids: these and those drawn since.
    weights:  of the model that drew them, see ResumesAnswers; "" if none did.
    request:  as the engine got it, with its seed.
    """

    replayed: tuple[int, ...] = ()
    ids: list[int]
    weights: str = ""
    request: GenerateRequest | None = None

    def begin(self, request: GenerateRequest, weights: str) -> GenerateRequest:
        """An attempt begins. Return the request with a seed, so that its draws can be repeated."""
        self.ids[:] = self.replayed
        if request.sampling.seed in (UNSET, None):
            sampling = replace(request.sampling, seed=_random_seed())
            request = replace(request, sampling=sampling)
        self.weights, self.request = weights, request
        return request


@runtime_checkable
class ResumesAnswers(Protocol):
    """An upstream whose engine can resume an answer from its tokens (`Call.drawn`)."""

    def weights_of(self, model: str) -> str:
        """Return what identifies the weights and settings on which the model's draws depend."""
        ...


def _random_seed() -> int:
    """63 random bits, without the import of `secrets`: the importing process needs no OpenSSL."""
    return int.from_bytes(os.urandom(8), "big") >> 1
