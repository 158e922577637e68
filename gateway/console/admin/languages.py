"""The language of the page: the one that was chosen in it, else the browser's."""

from typing import Final, cast, get_args

from litestar import Request
from litestar.datastructures import State

from strowger_gateway.gateway.platform.language import Language, answer_in, preferred

COOKIE: Final = "strowger_language"


async def use_readers_language(request: Request[object, object, State]) -> None:
    """Set the language that the page's sentences have in the answer to a request."""
    chosen = request.cookies.get(COOKIE, "")
    if chosen in get_args(Language):
        answer_in(cast("Language", chosen))
    else:
        answer_in(preferred(request.headers.get("accept-language", "")))
