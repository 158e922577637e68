"""`POST /admin/language`: the language of the page that a reader chooses."""

from collections.abc import Callable
from typing import Final, get_args
from urllib.parse import parse_qs

from litestar import Request, Response, post
from litestar.datastructures import Cookie, State
from litestar.handlers import HTTPRouteHandler

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import PUBLIC, public_url
from strowger_gateway.gateway.console.admin.languages import COOKIE
from strowger_gateway.gateway.console.admin.page.answers import redirect
from strowger_gateway.gateway.console.admin.same_origin import over_tls
from strowger_gateway.gateway.governance.sign_in.attempt import HOME, local_path
from strowger_gateway.gateway.platform.language import Language
from strowger_gateway.schemas.errors import InvalidRequest

_LASTS_S: Final = 365 * 86_400
_BYTES: Final = 4096


def language_route(current: Callable[[], Gateway]) -> HTTPRouteHandler:
    """Build the route. It only changes what the reader's own browser shows, so anyone may."""

    @post("/language", role=PUBLIC, include_in_schema=False, request_max_body_size=_BYTES)
    async def choose(request: Request[object, object, State]) -> Response[str]:
        fields = parse_qs((await request.body()).decode("latin-1"), max_num_fields=8)
        chosen = fields.get("language", [""])[0]
        if chosen not in get_args(Language):
            known = ", ".join(get_args(Language))
            raise InvalidRequest(f"language: must be one of {known}", param="language")
        cookie = Cookie(
            COOKIE,
            path="/admin",
            value=chosen,
            max_age=_LASTS_S,
            secure=over_tls(request.scope, public_url(current())),
            httponly=True,
            samesite="lax",
        )
        return redirect(local_path(fields.get("return_to", [HOME])[0]), [cookie])

    return choose
