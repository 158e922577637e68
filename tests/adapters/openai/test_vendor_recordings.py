"""Every row of the catalogue is held to answers of its vendor, whole and streamed.

The contract (`tests/adapters/conformance/test_contract.py`) reads each of them.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.conformance.recordings import recordings
from adapters.openai.vendor_profile import VendorProfile
from adapters.openai.vendor_profiles import VENDORS
from tests.adapters.traffic import FIXTURES

UNSEEN = "no public recording of the vendor was found"
BOTH = ("whole", "streamed")

WITHOUT: dict[tuple[str, str], str] = {
    ("cerebras", "streamed"): "only of its models behind Hugging Face's router",
    ("llama-cpp", "whole"): UNSEEN,
    ("llama-cpp", "streamed"): "handwritten, after the server's source",
    ("triton-openai", "streamed"): "handwritten; NVIDIA documents whole answers only",
    ("triton-openai", "whole"): "NVIDIA's documentation has one, no recording was found",
    **{
        (name, form): UNSEEN
        for name in (
            "deepinfra",
            "fireworks",
            "huawei-maas",
            "lm-studio",
            "lmdeploy",
            "minimax",
            "nebius",
            "novita",
            "nvidia-nim",
            "oci",
            "qianfan",
            "sambanova",
            "siliconflow",
            "volcengine",
        )
        for form in BOTH
    },
    ("jina", "whole"): UNSEEN,
}
"""Rows that no recording shows, and why. It only shrinks: a new row comes with its recordings."""


def forms(vendor: VendorProfile) -> Iterator[str]:
    """Yield the forms in which a vendor answers; one that only embeds does not stream."""
    yield from BOTH if vendor.chat else BOTH[:1]


def recorded(vendor: str) -> set[str]:
    """Return the forms of which there is a recording, not a handwritten answer."""
    return {
        BOTH[one.streamed]
        for one in recordings(FIXTURES / vendor)
        if one.status == 200
        and "error" not in one.name
        and (FIXTURES / one.name / "SOURCE").is_file()
    }


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda one: one.name)
def test_a_row_has_a_recording_whole_and_streamed_or_says_why_not(vendor: VendorProfile) -> None:
    found = recorded(vendor.name)

    assert {form: form in found for form in forms(vendor)} == {
        form: (vendor.name, form) not in WITHOUT for form in forms(vendor)
    }


def test_only_answers_that_a_row_could_have_are_excused() -> None:
    could = {(vendor.name, form) for vendor in VENDORS for form in forms(vendor)}

    assert set(WITHOUT) <= could
    assert len(WITHOUT) <= 34


@pytest.mark.parametrize("source", sorted(FIXTURES.glob("*/*/SOURCE")), ids=str)
def test_a_recording_names_its_kind_repository_path_and_licence(source: Path) -> None:
    kind, repository, path, licence, *_ = source.read_text().split(" | ")

    assert kind in ("raw", "reserialised", "fixture", "docs")
    assert repository.count("/") == 1
    assert "@" in repository
    assert path
    assert licence.strip() in ("MIT", "Apache-2.0", "BSD-3-Clause")
