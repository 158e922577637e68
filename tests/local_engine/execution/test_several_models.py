"""Several models on one device run alternately, and engines divide the machine."""

from threading import Event

import pytest

from strowger_gateway.gateway.backends.engines.process.process import cores, engine_settings
from strowger_gateway.gateway.config.schema.config import Engine as EngineSection
from strowger_gateway.gateway.config.schema.config import EngineModel, Provider
from strowger_gateway.local_engine.execution.engine_loop import Engine
from strowger_gateway.local_engine.execution.jobs import Delta, Job
from strowger_gateway.local_engine.scheduling.sequence import new_sequence
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.execution.lane_runs import hosted, settled

GREEDY = Sampling(temperature=0.0, ignore_eos=True)
BUSY, TOKENS, SOON_S = 8, 20, 60.0


def job(lane: str, id: int, *, prompt: int, new: int) -> Job:
    sequence = new_sequence(id=id, prompt=[7 + id] * prompt, max_total=prompt + new)
    return Job(lane=lane, sequence=sequence, params=settled(GREEDY))


def test_a_busy_model_does_not_starve_another(folder: Folder) -> None:
    """Between two tokens of the quiet model, the busy one makes one step."""
    turns: list[str] = []
    over = Event()

    def deliver(deltas: list[Delta]) -> None:
        quiet = [delta for delta in deltas if delta.id == 99]
        turns.append("quiet" if quiet else "busy")
        if any(delta.outcome for delta in quiet):
            over.set()

    lanes = {name: hosted(folder("llama")).lane for name in ("busy", "quiet")}
    engine = Engine(lanes, deliver)
    for id in range(BUSY):
        engine.submit(job("busy", id + 1, prompt=40, new=150))
    engine.submit(job("quiet", 99, prompt=5, new=TOKENS))
    engine.start()
    assert over.wait(SOON_S)
    engine.stop()

    begun = turns.index("quiet")
    ended = len(turns) - turns[::-1].index("quiet")
    assert turns[begun:ended].count("quiet") == TOKENS
    assert turns[begun:ended].count("busy") == TOKENS - 1


@pytest.mark.parametrize("engines", [1, 2, 3])
def test_engines_on_one_machine_divide_its_cores(engines: int) -> None:
    section = EngineSection(models=(EngineModel(name="m", path="bundled:tiny-chat"),))
    provider = Provider(name="here", adapter="local", engine=section)

    settings = engine_settings(provider, engines=engines)

    assert settings.threads == max(1, cores() // engines)
    assert settings.engines == engines
