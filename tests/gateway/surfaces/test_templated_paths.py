"""Paths with a model's name in them."""

import pytest

from strowger_gateway.gateway.surfaces.hot_route import HotRoute, TemplatedPaths
from strowger_gateway.gateway.surfaces.openai.surface import CHAT
from strowger_gateway.gateway.surfaces.openai.wire import ChatWire


def routes(*paths: str) -> TemplatedPaths:
    return TemplatedPaths(
        [HotRoute(path=path, surface=CHAT, body=lambda: ChatWire, summary="x") for path in paths]
    )


ASKED = "/v1/models/{model}/ask"
VERSIONED = "/v1/models/{model}/versions/{version}/ask"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/v1/models/m/ask", (ASKED, "m")),
        ("/v1/models/org/m-1.5/ask", (ASKED, "org/m-1.5")),
        ("/v1/models/m/versions/1/ask", (VERSIONED, "m")),
        ("/v1/models//ask", ("", "")),
        ("/v1/models/m/ask/", ("", "")),
        ("/v1/models/m", ("", "")),
        ("/v1/models/m\n/ask", (ASKED, "m\n")),
    ],
)
def test_a_model_is_read_from_the_path(path: str, found: tuple[str, str]) -> None:
    assert routes("/v1/plain", VERSIONED, ASKED).find(path) == found


def test_a_path_without_a_name_matches_no_template() -> None:
    assert routes("/v1/plain").find("/v1/plain") == ("", "")
