"""Recordings behind one gateway, read by a vendor's own SDK: from the vendor, and through us.

The vendor is a server on loopback that answers with the recording whose name is the model's. Each
recording is read twice in one run, so that tests only compare.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct

from strowger_gateway.adapters.conformance.recordings import Recording, recordings, request_for
from strowger_gateway.schemas.fields import Task, task_of
from tests.gateway.serving import serving
from tests.identity.differences import Difference
from tests.stand_ins.provider import Answer, Received, provider

Json = dict[str, object]

PATHS: Mapping[str, str] = {
    "anthropic": "",
    "azure": "/openai/v1",
    "databricks": "/serving-endpoints",
    "gemini": "/v1beta",
    "ollama": "",
}
"""Where an adapter's API is, for those that are not at /v1."""


class Case(Struct, frozen=True):
    """One recording and the adapter of its vendor. model: names both, to the gateway too."""

    adapter: str
    recording: Recording

    @property
    def model(self) -> str:
        return f"{self.adapter}--{self.recording.name.replace('/', '--')}"


class Dialect(Struct, frozen=True, eq=False):
    """What an SDK reads, and whose recordings.

    adapters: with the beginnings of the recordings' names. rare: differences that only recordings
    outside the repository show. without: recordings that are not such answers.
    surface: the path of ours, as the SDK's address. vendor: of the vendor's, by adapter, where the
    SDK adds what the adapter's address has.
    """

    name: str
    task: Task
    reader: "Reader"
    differences: tuple[Difference, ...]
    adapters: Mapping[str, tuple[str, ...]]
    rare: tuple[Difference, ...] = ()
    without: tuple[str, ...] = ()
    surface: str = "/v1"
    vendor: Mapping[str, str] = {}

    def cases(self, root: Path) -> list[Case]:
        """Return the recorded answers under a folder of recordings."""
        return [
            Case(adapter, one)
            for adapter, names in self.adapters.items()
            for folder in dict.fromkeys(name.partition("/")[0] for name in names)
            for one in recordings(root / folder)
            if one.name.startswith(names) and one.status == 200 and "error" not in one.name
            if one.name not in self.without and task_of(request_for(one)) == self.task
        ]


class Read(Struct, frozen=True):
    """What the SDK read: from the vendor, and through the gateway."""

    direct: object
    ours: object


Reader = Callable[[str, Case], Awaitable[object]]
"""Ask a server, given its address, for the answer to a case; returns what the SDK read."""


@cache
def read_all(dialect: Dialect, root: Path) -> dict[str, Read]:
    """Return what was read of each recording under a folder, by its model."""
    return asyncio.run(_read_all(dialect, dialect.cases(root)))


async def _read_all(dialect: Dialect, found: list[Case]) -> dict[str, Read]:
    by_model = {case.model: case for case in found}

    async def vendor(request: Received, answer: Answer) -> None:
        recording = by_model[_model(request)].recording
        if not recording.streamed:
            await answer.body(recording.body, "application/json")
            return
        await answer.begin_stream()
        await answer.chunk(recording.body)
        await answer.raw(b"0\r\n\r\n")

    with tempfile.TemporaryDirectory() as run_dir:
        async with (
            provider(vendor) as behind,
            serving(config_of(found, behind.origin), Path(run_dir)) as gateway,
        ):
            read: dict[str, Read] = {}
            for model, case in by_model.items():
                path = PATHS.get(case.adapter, "/v1")
                read[model] = Read(
                    direct=await dialect.reader(
                        behind.origin + dialect.vendor.get(case.adapter, path), case
                    ),
                    ours=await dialect.reader(f"{gateway.url}{dialect.surface}", case),
                )
    return read


def _model(request: Received) -> str:
    """Return the model, which is in the body, or at Google in the path."""
    in_path = request.path.partition("/models/")[2].partition(":")[0]
    return in_path or str(request.json["model"])


def config_of(found: Iterable[Case], origin: str) -> str:
    """Return the configuration: a provider for each adapter, a model for each recording."""
    adapters = dict.fromkeys(case.adapter for case in found)
    providers = [
        f"  - {{name: {one}, adapter: {one}, api_key: k, "
        f'base_url: "{origin}{PATHS.get(one, "/v1")}"}}'
        for one in adapters
    ]
    models = [
        f'  - {{name: "{case.model}", '
        f'backends: [{{provider: {case.adapter}, model: "{case.model}"}}]}}'
        for case in found
    ]
    return "\n".join(["providers:", *providers, "models:", *models])
