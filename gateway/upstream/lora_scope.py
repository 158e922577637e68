"""A LoRA's id belongs to the API key that names it, on a server that knows no keys, too."""

from hashlib import blake2b
from typing import TypeVar

import msgspec
from msgspec import UnsetType

from schemas.requests import GenerateRequest, TokenRequest

_AnyRequest = TypeVar("_AnyRequest", bound=GenerateRequest)


def scope_lora_ids(request: _AnyRequest, tenant: str) -> _AnyRequest:
    """The request with a task id of the tenant's own: 64 bits, the same for the same two.

    tenant: the key's name; "" (without keys) keeps the client's id.
    """
    if not tenant or not isinstance(request, TokenRequest):
        return request
    lora = request.lora
    if isinstance(lora, UnsetType):
        return request
    key = blake2b(tenant.encode(), digest_size=32).digest()
    digest = blake2b(lora.task_id.to_bytes(8, "little"), digest_size=8, key=key).digest()
    own = msgspec.structs.replace(lora, task_id=int.from_bytes(digest, "little"))
    return msgspec.structs.replace(request, lora=own)
