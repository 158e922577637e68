"""`/admin` in a browser: the page, its files, and its refresh every two seconds."""

from collections.abc import Callable
from typing import Annotated

from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.params import FromPath, FromQuery, QueryParameter
from litestar.types import ControllerRouterHandler
from markupsafe import Markup

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import PUBLIC, identify
from strowger_gateway.gateway.console.admin.page.answers import GUARDED, html, redirect
from strowger_gateway.gateway.console.admin.page.chat import chat_section
from strowger_gateway.gateway.console.admin.page.document import page
from strowger_gateway.gateway.console.admin.page.framing import frame_of, frame_sections
from strowger_gateway.gateway.console.admin.page.overview import live_sections
from strowger_gateway.gateway.console.admin.page.sign_in import sign_in_path, unchecked
from strowger_gateway.gateway.console.admin.page.static_files import read_files
from strowger_gateway.gateway.console.admin.page.traffic_filters import filters_section
from strowger_gateway.gateway.console.admin.traffic.choice import Quantile, TrafficChoice
from strowger_gateway.gateway.console.admin.traffic.reader import TrafficReader
from strowger_gateway.gateway.governance.access.auth import EVERYONE
from strowger_gateway.gateway.storage.sql.traffic.windows import Window
from strowger_gateway.schemas.errors import RouteNotFound, Unavailable

_Request = Request[object, object, State]
KeyName = Annotated[str, QueryParameter(name="key")]


def page_routes(
    current: Callable[[], Gateway], traffic: TrafficReader
) -> list[ControllerRouterHandler]:
    """Build the routes that a browser reaches before signing in."""

    @get("/", role=PUBLIC, include_in_schema=False)
    async def show(
        request: _Request,
        window: FromQuery[Window] = "5m",
        quantile: FromQuery[Quantile] = "p95",
        model: FromQuery[str] = "",
        backend: FromQuery[str] = "",
        key: KeyName = "",
        team: FromQuery[str] = "",
    ) -> Response[str]:
        gateway = current()
        choice = TrafficChoice(
            window=window, quantile=quantile, model=model, backend=backend, key=key, team=team
        )
        try:
            who = await identify(gateway, request.scope)
        except Unavailable as exc:
            return unchecked(gateway, exc)
        if who is None:
            return redirect(sign_in_path(request.scope))
        *sections, recent = await live_sections(gateway, choice, traffic)
        sections.insert(0, await filters_section(gateway, choice, traffic))
        config = gateway.runtime.config
        box = chat_section(
            gateway.runtime.table.names(EVERYONE.may_use),
            keys=config.auth.mode != "none",
            experiments=config.experiments,
        )
        frame = await frame_of(gateway, request)
        return html(page(frame, sections, (recent, box), choice=choice))

    return [show, _static()]


def live_routes(
    current: Callable[[], Gateway], traffic: TrafficReader
) -> list[ControllerRouterHandler]:
    """Build the routes that return, as HTML, the frame's sections that change, and all of them."""

    @get("/live", role="viewer", include_in_schema=False)
    async def live(
        window: FromQuery[Window] = "5m",
        quantile: FromQuery[Quantile] = "p95",
        model: FromQuery[str] = "",
        backend: FromQuery[str] = "",
        key: KeyName = "",
        team: FromQuery[str] = "",
    ) -> Response[str]:
        gateway = current()
        choice = TrafficChoice(
            window=window, quantile=quantile, model=model, backend=backend, key=key, team=team
        )
        overview = await live_sections(gateway, choice, traffic)
        sections = [*await frame_sections(gateway), *overview]
        return html(Markup().join(sections))

    @get("/live/frame", role="viewer", include_in_schema=False)
    async def frame() -> Response[str]:
        return html(Markup().join(await frame_sections(current())))

    return [live, frame]


def _static() -> ControllerRouterHandler:
    files = read_files()

    @get("/static/{name:str}", role=PUBLIC, include_in_schema=False)
    async def static(request: _Request, name: FromPath[str]) -> Response[bytes]:
        file = files.get(name)
        if file is None:
            raise RouteNotFound(f"no route {request.scope['path']}")
        headers = {**GUARDED, "cache-control": "no-cache", "etag": file.tag}
        known_tags = request.headers.get("if-none-match", "")
        if file.tag in [tag.strip().removeprefix("W/") for tag in known_tags.split(",")]:
            return Response(b"", status_code=304, headers=headers)
        return Response(file.content, media_type=file.media_type, headers=headers)

    return static
