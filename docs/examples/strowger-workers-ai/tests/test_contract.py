"""The Workers AI adapter passes the contract of every adapter."""

from pathlib import Path

import pytest

from strowger_gateway.adapters.testing import Check, contract
from strowger_workers_ai.adapter import WorkersAiAdapter

FIXTURES = Path(__file__).parent / "fixtures" / "workers-ai"
ACCOUNT = "https://api.cloudflare.com/client/v4/accounts/a1/ai"


@pytest.mark.parametrize("check", contract(WorkersAiAdapter, FIXTURES, base_url=ACCOUNT), ids=str)
def test_contract(check: Check) -> None:
    check()
