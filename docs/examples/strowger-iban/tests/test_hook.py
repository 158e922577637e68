"""The contract of hooks, and what is special about IBANs."""

import pytest

from strowger_gateway.gateway.content.hooks.testing import Check, contract
from strowger_iban.hook import hook

# Examples of the registry: https://www.swift.com/standards/data-standards/iban
GERMAN = "DE89 3704 0044 0532 0130 00"
BRITISH = "GB82WEST12345698765432"
FINDS = {
    f"Pay to {GERMAN}, please.": GERMAN,
    f"{BRITISH} AND MORE": BRITISH,
    f"é {GERMAN}": GERMAN,
}
PASSES = [
    "DE89 3704 0044 0532 0130 01 has a wrong checksum.",
    "DE89 3704 is too short, XX89 3704 0044 0532 0130 00 unknown.",
    f"{GERMAN.replace(' ', '')}7 is too long.",
]


@pytest.mark.parametrize("check", contract(hook, {}, finds=FINDS, passes=PASSES), ids=str)
def test_contract(check: Check) -> None:
    check()


def test_only_the_countries_of_the_settings_are_found() -> None:
    text = f"{GERMAN} or {BRITISH}"
    [span] = hook({"countries": ["GB"], "replacement": "[x]"}).find(text, 0)
    assert (text[span.start : span.end], span.replacement) == (BRITISH, "[x]")


def test_an_unknown_country_is_refused() -> None:
    with pytest.raises(ValueError, match="countries: 'XX' is not known"):
        hook({"countries": ["XX"]})
