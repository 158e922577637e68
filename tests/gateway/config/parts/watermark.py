"""A part with a section of every kind of setting: it would sign the answers of models."""

from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Final, Literal

from msgspec import Struct

from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.problems import Found, Problems, nearest
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.units import KIB, Count, Name, Path, Share, Size
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.schemas.secret import Secret
from tests.gateway.config.configs import ADAPTERS, GOOD


class Signer(Struct, frozen=True, kw_only=True):
    name: Name
    key: Secret = Secret("")
    share: Share = 1.0


class Watermark(Struct, frozen=True, kw_only=True):
    text: Name
    place: Literal["start", "end"] = "end"
    every: Count = 1
    most: Size = 4 * KIB
    models: tuple[Name, ...] = ()
    signers: tuple[Signer, ...] = ()
    headers: Mapping[str, Secret] = {}
    letters: Mapping[int, str] = {}
    font: Path = "fonts/plain.ttf"
    digest: bool = False


class WatermarkPart(Part):
    name = "watermark"
    section = Watermark

    def check(self, config: Config, problems: Problems) -> None:
        found = config.section(Watermark)
        if found is None:
            return
        known = [model.name for model in config.models]
        for index, name in enumerate(found.models):
            place = ("watermark", "models", index)
            if name not in known and not problems.at(place):
                problems.add(place, "no model is named ", Found(name), nearest(name, known))
        if found.every > 1000:
            problems.warn(("watermark", "every"), "has almost no effect")

    def restart_needed(self, old: Config, new: Config) -> Mapping[str, str]:
        before, after = old.section(Watermark), new.section(Watermark)
        if before is None or after is None or before.font == after.font:
            return {}
        return {"watermark.font": "fonts are read when the gateway starts"}


class Stamp(Struct, frozen=True, kw_only=True):
    colour: Literal["red", "black"] = "red"


class StampPart(Part):
    name = "stamp"
    section = Stamp


PARTS: Final = (WatermarkPart(), StampPart())


def read(
    section: str, env: Mapping[str, str] | None = None, folder: FilePath | None = None
) -> Config:
    """Read a valid configuration with a section. Raises InvalidConfig."""
    return read_config(
        GOOD + section,
        source="config.yaml",
        env=env or {},
        folder=folder,
        adapters=ADAPTERS,
        parts=PARTS,
    )
