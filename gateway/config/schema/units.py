"""The types of numbers and texts in config.yaml, with their ranges.

The `extra` entries of a Meta steer `gateway/config/decode.py`:
`size` also accepts text such as 512MiB, `path` and `model_path` resolve a relative path against
the folder of config.yaml,
`flatten` puts a Struct's fields at the level of its parent, and `resolved` is computed from other
places of the file and cannot be set in it.
"""

from typing import Annotated

from msgspec import Meta

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

Count = Annotated[int, Meta(ge=1)]
"""At least one."""

MOST_OF_A_LIMIT = 10**12
"""Redis's script answers with at most 14 digits."""
MOST_OF_A_BUDGET = 10**15
"""Tokens; sums have 64 bits."""
LONGEST_WAIT_S = 86_400
MOST_URGENT = 3
"""The most urgent priority of a key for which none is set: an operator grants 1 and 2."""
MOST_COUNTED_USD = 1e6

Amount = Annotated[int, Meta(ge=1, le=MOST_OF_A_LIMIT)]
"""Of a limit."""

ManyTokens = Annotated[int, Meta(ge=1, le=MOST_OF_A_BUDGET)]
"""Of a budget."""

Tokens = Annotated[int, Meta(ge=0)]
"""Zero or more tokens."""

Port = Annotated[int, Meta(ge=0, le=65535)]
"""0 lets the operating system choose."""

Size = Annotated[int, Meta(ge=1, extra={"size": True})]
"""Bytes; also written 512KiB, 512MiB, 2GiB."""

Seconds = Annotated[float, Meta(gt=0)]

SecondsOrZero = Annotated[float, Meta(ge=0)]
"""Seconds; 0 turns the feature off."""

Wait = Annotated[float, Meta(ge=0, le=LONGEST_WAIT_S)]
"""Seconds, at most a day; 0 turns the feature off."""

Share = Annotated[float, Meta(gt=0, le=1)]
"""A share of the whole: above 0, at most 1."""

Weight = Annotated[float, Meta(ge=0)]

Usd = Annotated[float, Meta(ge=0)]
"""US dollars per million tokens."""

Name = Annotated[str, Meta(min_length=1, max_length=256)]

RuleName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._@:+-]{1,64}$")]
"""The name of a limit or a budget of a key or a team, which follows their name and a slash."""

Path = Annotated[str, Meta(min_length=1, extra={"path": True})]
"""A file; a relative one starts at the folder of config.yaml."""

ModelPath = Annotated[str, Meta(min_length=1, extra={"model_path": True})]
"""bundled:NAME, package:NAME/FOLDER, a folder (relative ones start with a dot), or a hub name."""

Revision = Annotated[str, Meta(pattern=r"^([A-Za-z0-9][A-Za-z0-9._/+-]{0,254})?$")]
"""A commit, tag or branch at the Hugging Face hub; "" is the main branch."""

BackendName = Annotated[str, Meta(pattern=r"^[^/]+/.+$", description="PROVIDER/MODEL")]
"""PROVIDER/MODEL."""
