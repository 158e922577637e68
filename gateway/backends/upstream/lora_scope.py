"""Scope LoRA ids to the API key that sends them, also on a server without keys."""

from hashlib import blake2b
from typing import TypeVar

import msgspec
from msgspec import UnsetType

from strowger_gateway.schemas.requests import GenerateRequest, TokenRequest

_AnyRequest = TypeVar("_AnyRequest", bound=GenerateRequest)


def scope_lora_ids(request: _AnyRequest, tenant: str) -> _AnyRequest:
    """Replace the LoRA task id by one per tenant: 64 bits, derived from tenant and id.

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
