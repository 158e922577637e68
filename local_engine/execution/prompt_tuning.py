"""Prompt tuning: prompt ids past the vocabulary select rows of the request's own table.

TensorRT-LLM's convention: row i is id V + i, V being the model's vocabulary
(https://nvidia.github.io/TensorRT-LLM/advanced/inference-request.html, prompt_embedding_table).
"""

from collections.abc import Sequence
from hashlib import blake2b

import torch
from msgspec import Struct
from torch import Tensor

from strowger_gateway.local_engine.protocol.tensors import floats
from strowger_gateway.local_engine.scheduling.sequence import Sequence as TokenSequence
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import PromptTable

FIELD, COUNT_FIELD = "prompt_embedding_table", "prompt_vocab_size"


class Overlay(Struct, frozen=True, kw_only=True, eq=False):
    """Replacement embeddings of some packed tokens. rows: [n] int64. values: [n, hidden]."""

    rows: Tensor
    values: Tensor


def table_rows(prompt_table: PromptTable, hidden: int) -> int:
    """Return the number of rows of the table.

    Accepts [P, hidden], [1, P, hidden] and a flat [P x hidden]. hidden: 0 for a model that does not
    support tables. Raises InvalidRequest.
    """
    if hidden == 0:
        raise _refused("not supported by this model: its layers also use the token ids")
    shape = prompt_table.table.shape
    match shape:
        case (rows, width) | (1, rows, width):
            flat = False
        case (count,):
            rows, width, flat = count // hidden, hidden, True
            if rows * hidden != count:
                raise _refused(f"{count} numbers are not a multiple of {hidden}, the model's width")
        case _:
            raise _refused(f"shape {list(shape)} must be [P, {hidden}] or [1, P, {hidden}]")
    if width != hidden:
        raise _refused(f"a row has {width} numbers; it must have {hidden}, the model's width")
    if rows < 1:
        raise _refused("the table has no rows")
    if prompt_table.vocab_size != rows:
        given = f"{shape[0]} numbers" if flat else f"shape {list(shape)}"
        raise InvalidRequest(
            f"{COUNT_FIELD}: {prompt_table.vocab_size}, but the table has {rows} rows ({given})",
            param=COUNT_FIELD,
        )
    return rows


def read_table(
    prompt_table: PromptTable, *, hidden: int, dtype: torch.dtype, device: str
) -> tuple[Tensor, bytes]:
    """Return the table, [P, hidden] in the model's dtype, and its digest. Raises InvalidRequest."""
    rows = table_rows(prompt_table, hidden)
    table = floats(prompt_table.table, FIELD).reshape(rows, hidden).to(device=device, dtype=dtype)
    if not bool(table.isfinite().all()):
        raise _refused("a number is infinite or NaN in the model's dtype")
    digest = blake2b(prompt_table.table.dtype.encode(), digest_size=16)
    digest.update(prompt_table.table.data)
    return table, digest.digest()


def overlay(
    chunks: Sequence[tuple[TokenSequence, int]], ids: list[int], vocabulary: int, device: str
) -> Overlay | None:
    """Replace ids past the vocabulary in a packed step by 0; return their embeddings.

    chunks: each chunk's sequence and token count, in packed order. ids: of all their tokens;
    changed in place.
    """
    if all(sequence.table is None for sequence, _ in chunks):
        return None
    rows: list[int] = []
    values: list[Tensor] = []
    start = 0
    for sequence, count in chunks:
        mine = [row for row in range(start, start + count) if ids[row] >= vocabulary]
        start += count
        if sequence.table is None or not mine:
            continue
        selected = torch.tensor([ids[row] - vocabulary for row in mine], device=device)
        values.append(sequence.table.index_select(0, selected))
        rows += mine
    for row in rows:
        ids[row] = 0
    if not rows:
        return None
    return Overlay(rows=torch.tensor(rows, device=device), values=torch.cat(values))


def _refused(why: str) -> InvalidRequest:
    return InvalidRequest(f"{FIELD}: {why}", param=FIELD)
