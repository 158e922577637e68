"""The example package installed with the gateway: found by its entry point, on the wire."""

import sys
import tomllib
from pathlib import Path
from typing import cast

import pytest

from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.content.guardrails.setup import guards_of
from strowger_gateway.gateway.content.hooks.contract import GROUP
from strowger_gateway.schemas.errors import InvalidConfig
from tests.gateway.content.hooks.test_guarded_requests import CHAT, guarded, shown
from tests.gateway.serving import one_model

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).parents[4] / "docs" / "examples" / "strowger-iban"
IBAN = "DE89 3704 0044 0532 0130 00"
CONFIG = (
    "guardrails: [{name: accounts, use: iban, mode: mask, settings: {replacement: '[account]'}}]"
)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an installer writes of the package's pyproject.toml, and all that discovery reads."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    plugins = cast("dict[str, str]", project["entry-points"][GROUP])
    lines = [f"{name} = {value}" for name, value in plugins.items()]
    about = tmp_path / "site" / "strowger_iban-0.1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: strowger-iban\nVersion: 0.1.0\n")
    (about / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines, ""]))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])


@pytest.mark.usefixtures("installed")
async def test_account_numbers_are_masked_in_both_directions(tmp_path: Path) -> None:
    async with guarded(tmp_path, CONFIG, *f"Pay to {IBAN} now") as at:
        whole = await at.ask(CHAT, f"mine is {IBAN}")
        stream = await at.ask(CHAT, "hello", stream=True)
        assert "mine is [account]" in at.received[0].body.decode()
        assert "Pay to [account] now" in whole.text
        assert shown(CHAT, stream.text) == "Pay to [account] now"


@pytest.mark.usefixtures("installed")
def test_invalid_settings_and_unknown_hooks_are_reported_together() -> None:
    rails = "guardrails: [{name: a, use: iban, settings: {countries: [XX]}}, {name: b, use: ibam}]"
    text = one_model("http://127.0.0.1:1/v1", rails)
    config = read_config(text, source="config.yaml", env={})
    with pytest.raises(InvalidConfig) as refused:
        guards_of(config)
    first, second = refused.value.problems
    assert first.startswith("guardrails[0].settings: countries: 'XX' is not known")
    assert second.startswith("guardrails[1].use: no hook is named 'ibam'; known: patterns, ")
    assert second.endswith("iban")
