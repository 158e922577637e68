"""What a request's tokens are computed with beside the model: an adapter, and a prompt table."""

import asyncio
from hashlib import blake2b

from msgspec import UNSET, Struct
from torch import Tensor

from local_engine.execution.prompt_tuning import read_table
from local_engine.loading.checkpoint import Loaded
from local_engine.peft.lora_cache import AdapterBank, AdapterKey
from local_engine.peft.lora_layers import Adapter
from local_engine.peft.trtllm_format import CONFIG, WEIGHTS, read_adapter
from schemas.errors import InvalidRequest
from schemas.requests import GenerateRequest, LoraRequest, PromptTable, TokenRequest

TASK = "lora_task_id"
TASK_IDS = 1 << 64

INLINE_BYTES = 1 << 16
"""Tensors that are read on the event loop; larger ones go to a side thread."""


class RequestAdapters(Struct, frozen=True, kw_only=True, eq=False):
    """adapter: `None` for the model as it is. borrowed: it is the bank's, and goes back.

    table: [P, hidden] rows for ids past the vocabulary.
    """

    adapter: Adapter | None = None
    borrowed: bool = False
    table: Tensor | None = None
    table_digest: bytes = b""

    def salt(self, tenant: bytes) -> bytes:
        """Sequences of one salt may share keys and values: same tenant, adapter and table."""
        if self.adapter is None and self.table is None:
            return tenant
        digest = blake2b(tenant, digest_size=32, person=b"conditions")
        digest.update(b"" if self.adapter is None else b"adapter" + self.adapter.digest)
        digest.update(b"" if self.table is None else b"table" + self.table_digest)
        return digest.digest()


class AdapterResolver:
    """Settles the conditions of one served model's requests. Safe to call from any thread."""

    def __init__(
        self,
        loaded: Loaded,
        *,
        model: str,
        bank: AdapterBank,
        device: str,
        accept_lora: bool,
        adapter: Adapter | None = None,
    ) -> None:
        """model: the base model's name. adapter: this served model is the base with it."""
        self._loaded = loaded
        self._model = model
        self._bank = bank
        self._device = device
        self._accept = accept_lora
        self._adapter = adapter

    def adapted(self, adapter: Adapter) -> "AdapterResolver":
        """The same for the model with an adapter, under a name of its own."""
        return AdapterResolver(
            self._loaded,
            model=self._model,
            bank=self._bank,
            device=self._device,
            accept_lora=self._accept,
            adapter=adapter,
        )

    async def resolve(self, request: GenerateRequest, tenant: str) -> RequestAdapters:
        """`release` what it gives. Raises InvalidRequest, and UpstreamBusy for want of room."""
        lora, table = _lora_of(request), _table_of(request)
        if lora is None and table is None:
            return RequestAdapters(adapter=self._adapter)
        if lora is not None:
            self._refuse(lora)
        if _size(lora, table) > INLINE_BYTES:
            brought, rows, digest = await asyncio.to_thread(self._read, lora, table)
        else:
            brought, rows, digest = self._read(lora, table)
        return RequestAdapters(
            adapter=self._adapter if lora is None else self._borrow(lora.task_id, brought, tenant),
            borrowed=lora is not None,
            table=rows,
            table_digest=digest,
        )

    def release(self, adapters: RequestAdapters) -> None:
        if adapters.borrowed and adapters.adapter is not None:
            self._bank.release(adapters.adapter)

    def _refuse(self, lora: LoraRequest) -> None:
        """What need not be read to be refused."""
        if self._adapter is not None:
            raise _refused(TASK, "this model is an adapter itself; ask for the one it adapts")
        if not 0 <= lora.task_id < TASK_IDS:
            raise _refused(TASK, f"{lora.task_id} must be within 0 and 2^64 - 1")
        weights, config = lora.weights is not UNSET, lora.config is not UNSET
        if (weights or config) and not self._accept:
            raise _refused(WEIGHTS, "this engine takes no adapters from requests (accept_lora)")
        if weights != config:
            missing = CONFIG if weights else WEIGHTS
            raise _refused(missing, f"is missing; {WEIGHTS} and {CONFIG} go together")

    def _read(
        self, lora: LoraRequest | None, table: PromptTable | None
    ) -> tuple[Adapter | None, Tensor | None, bytes]:
        """What the request brings; takes nothing from the bank, so that it may be abandoned."""
        adapter, rows, digest = None, None, b""
        sites = self._loaded.sites
        if table is not None:
            rows, digest = read_table(
                table,
                hidden=self._loaded.hidden,
                dtype=self._loaded.module.dtype,
                device=self._device,
            )
        if sites is not None and lora is not None:
            weights, config = lora.weights, lora.config
            if weights is not UNSET and config is not UNSET:
                most = self._bank.most_bytes
                adapter = read_adapter(weights, config, sites, most_bytes=most)
        return adapter, rows, digest

    def _borrow(self, id: int, brought: Adapter | None, tenant: str) -> Adapter:
        task = AdapterKey(model=self._model, tenant=tenant, id=id)
        if brought is not None:
            return self._bank.put(task, brought)
        found = self._bank.take(task)
        if found is None:
            raise _refused(TASK, self._unknown(id))
        return found

    def _unknown(self, id: int) -> str:
        if not self._accept:
            return f"{id}: this engine takes no adapters from requests (accept_lora)"
        return f"{id} is not in the cache; send {WEIGHTS} and {CONFIG} with it"


def _lora_of(request: GenerateRequest) -> LoraRequest | None:
    lora = request.lora if isinstance(request, TokenRequest) else UNSET
    return None if lora is UNSET else lora


def _table_of(request: GenerateRequest) -> PromptTable | None:
    table = request.prompt_table if isinstance(request, TokenRequest) else UNSET
    return None if table is UNSET else table


def _size(lora: LoraRequest | None, table: PromptTable | None) -> int:
    size = 0 if table is None else len(table.table.data)
    if lora is not None and lora.weights is not UNSET:
        size += len(lora.weights.data)
    return size


def _refused(field: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {why}", param=field)
