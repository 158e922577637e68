"""The sections of the page that change, rendered for the current moment, in their order."""

import time

from markupsafe import Markup

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.backends import listed
from strowger_gateway.gateway.console.admin.page.events import events_section
from strowger_gateway.gateway.console.admin.page.experiments import experiments_section
from strowger_gateway.gateway.console.admin.page.models import ServedModels, models_section
from strowger_gateway.gateway.console.admin.page.recent_requests import recent_requests_section
from strowger_gateway.gateway.console.admin.page.traffic import Traffic, traffic_section
from strowger_gateway.gateway.console.admin.traffic.choice import TrafficChoice
from strowger_gateway.gateway.console.admin.traffic.reader import TrafficReader
from strowger_gateway.gateway.experiments.process_side import ExperimentsSide
from strowger_gateway.gateway.routing.backend_events.book import KEPT
from strowger_gateway.gateway.routing.backend_events.process_side import BackendEventsSide

SHOWN = 15
"""Number of recent requests."""


async def live_sections(
    gateway: Gateway, choice: TrafficChoice, reader: TrafficReader
) -> list[Markup]:
    """Return the sections of the overview below the frame."""
    reports = await gateway.processes.engine_reports()
    at = time.time()
    runtime = gateway.runtime
    order = tuple(dict.fromkeys(backend.name for backend in runtime.backends.values()))
    traffic = Traffic(
        choice=choice,
        now=at,
        found=await reader.read(choice.window, at, choice.only),
        order=order,
        in_flight=gateway.admission.in_flight + gateway.admission.others_in_flight,
    )
    served = ServedModels(
        models=listed(runtime, gateway.processes.clock()).models,
        engines=reports,
    )
    past = await gateway.side(ExperimentsSide).history()
    events = await gateway.side(BackendEventsSide).newest(KEPT)
    return [
        traffic_section(traffic),
        models_section(served, traffic),
        events_section(events, at),
        experiments_section(past, at),
        recent_requests_section(
            await gateway.processes.recent(SHOWN), runtime.config.logging.payloads
        ),
    ]
