"""Resolve the LoRA adapter and the prompt table that a request uses with a model."""

import asyncio
from hashlib import blake2b

from msgspec import UNSET, Struct
from torch import Tensor

from strowger_gateway.local_engine.child_process.fair_gate import Gate
from strowger_gateway.local_engine.execution.prompt_tuning import read_table
from strowger_gateway.local_engine.loading.checkpoint import Loaded
from strowger_gateway.local_engine.peft.lora_cache import AdapterKey, LoraCache
from strowger_gateway.local_engine.peft.lora_layers import Adapter
from strowger_gateway.local_engine.peft.trtllm_format import CONFIG, WEIGHTS, read_adapter
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.holdings import Holder
from strowger_gateway.schemas.requests import (
    GenerateRequest,
    LoraRequest,
    PromptTable,
    TokenRequest,
)

TASK = "lora_task_id"
TASK_IDS = 1 << 64

INLINE_BYTES = 1 << 16
"""Bytes of tensors that are read on the event loop; larger ones go to a thread."""


class RequestAdapters(Struct, frozen=True, kw_only=True, eq=False):
    """adapter: `None` for the model without one. borrowed: from the cache; `release` returns it.

    table: [P, hidden] rows for ids past the vocabulary.
    """

    adapter: Adapter | None = None
    borrowed: bool = False
    table: Tensor | None = None
    table_digest: bytes = b""

    def salt(self, tenant: bytes) -> bytes:
        """Return the prefix-cache salt: equal for equal tenant, adapter and table only."""
        if self.adapter is None and self.table is None:
            return tenant
        digest = blake2b(tenant, digest_size=32, person=b"conditions")
        digest.update(b"" if self.adapter is None else b"adapter" + self.adapter.digest)
        digest.update(b"" if self.table is None else b"table" + self.table_digest)
        return digest.digest()


class AdapterResolver:
    """Resolves the adapters of one served model's requests. Safe to call from any thread."""

    def __init__(
        self,
        loaded: Loaded,
        *,
        model: str,
        lora_cache: LoraCache,
        device: str,
        accept_lora: bool,
        adapter: Adapter | None = None,
    ) -> None:
        """model: the base model's name. adapter: applied to every request of this served model."""
        self._loaded = loaded
        self._model = model
        self._lora_cache = lora_cache
        self._device = device
        self._accept = accept_lora
        self._adapter = adapter

    def adapted(self, adapter: Adapter) -> "AdapterResolver":
        """Return the resolver of the same model with an adapter."""
        return AdapterResolver(
            self._loaded,
            model=self._model,
            lora_cache=self._lora_cache,
            device=self._device,
            accept_lora=self._accept,
            adapter=adapter,
        )

    async def resolve(
        self, request: GenerateRequest, holder: Holder, reading: Gate
    ) -> RequestAdapters:
        """Resolve a request's adapters; `release` them afterwards.

        reading: large tensors are read in turn by key, as long prompts are.
        Raises InvalidRequest, and UpstreamBusy if the adapter cache is full.
        """
        lora, table = _lora_of(request), _table_of(request)
        if lora is None and table is None:
            return RequestAdapters(adapter=self._adapter)
        if lora is not None:
            self._refuse(lora)
        if _size(lora, table) > INLINE_BYTES:
            async with reading.slot(holder):
                sent, rows, digest = await asyncio.to_thread(self._read, lora, table)
        else:
            sent, rows, digest = self._read(lora, table)
        return RequestAdapters(
            adapter=self._adapter if lora is None else self._borrow(lora.task_id, sent, holder.key),
            borrowed=lora is not None,
            table=rows,
            table_digest=digest,
        )

    def release(self, adapters: RequestAdapters) -> None:
        if adapters.borrowed and adapters.adapter is not None:
            self._lora_cache.release(adapters.adapter)

    def _refuse(self, lora: LoraRequest) -> None:
        """Reject what can be rejected without reading tensors."""
        if self._adapter is not None:
            raise _refused(
                TASK, "this model is already an adapter; send the request to its base model"
            )
        if not 0 <= lora.task_id < TASK_IDS:
            raise _refused(TASK, f"{lora.task_id} must be within 0 and 2^64 - 1")
        weights, config = lora.weights is not UNSET, lora.config is not UNSET
        if (weights or config) and not self._accept:
            raise _refused(
                WEIGHTS, "this engine does not accept adapters in requests (accept_lora)"
            )
        if weights != config:
            missing = CONFIG if weights else WEIGHTS
            raise _refused(missing, f"is missing; send {WEIGHTS} and {CONFIG} together")

    def _read(
        self, lora: LoraRequest | None, table: PromptTable | None
    ) -> tuple[Adapter | None, Tensor | None, bytes]:
        """Read the request's tensors. Takes nothing from the cache, so it is safe to cancel."""
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
                most = self._lora_cache.most_bytes
                adapter = read_adapter(weights, config, sites, most_bytes=most)
        return adapter, rows, digest

    def _borrow(self, id: int, sent: Adapter | None, tenant: str) -> Adapter:
        task = AdapterKey(model=self._model, tenant=tenant, id=id)
        if sent is not None:
            return self._lora_cache.put(task, sent)
        found = self._lora_cache.take(task)
        if found is None:
            raise _refused(TASK, self._unknown(id))
        return found

    def _unknown(self, id: int) -> str:
        if not self._accept:
            return f"{id}: this engine does not accept adapters in requests (accept_lora)"
        return f"{id} is not in the adapter cache; send {WEIGHTS} and {CONFIG} with it"


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
