"""CONTRIBUTING.md says where the tests of every file are, and what other tests are for."""

import subprocess
import sys

import pytest

from tests.counterparts import (
    GUIDE,
    code_files,
    elsewhere,
    files_with_tests,
    folders,
    folders_of,
    imported,
    named_after,
    place_of_tests,
    purposes,
    python_files,
    superfluous,
    unexplained,
    without_tests,
)
from tests.imports import PACKAGES, ROOT

TESTS = tuple(file for file in python_files() if file.startswith("tests/"))


def test_every_file_of_the_code_has_a_folder_of_tests_within_its_wing() -> None:
    assert list(without_tests(code_files(), folders_of(files_with_tests()))) == []


def test_every_folder_of_tests_has_a_counterpart_or_a_purpose_in_the_guide() -> None:
    listed = purposes(GUIDE.read_text("utf-8"))

    assert list(unexplained(TESTS, folders(), listed)) == []
    assert list(superfluous(TESTS, folders(), listed)) == []


def test_a_test_that_is_named_after_a_file_it_imports_is_with_that_files_tests() -> None:
    places = folders_of(files_with_tests())
    named = {test: named_after(test, code_files()) for test in files_with_tests()}

    tested = {
        test: imported((ROOT / test).read_text("utf-8")).intersection(code)
        for test, code in named.items()
        if elsewhere(test, code, places)
    }

    assert {test: code for test, code in tested.items() if elsewhere(test, code, places)} == {}


PLANTED = folders_of(("tests/gateway/routing/planning/test_plan.py", "tests/schemas/test_usage.py"))


@pytest.mark.parametrize(
    ("code", "tests"),
    [
        ("gateway/routing/planning/plan.py", "tests/gateway/routing/planning"),
        ("gateway/routing/planning/deeper/plan.py", "tests/gateway/routing/planning"),
        ("gateway/routing/execution/attempt.py", "tests/gateway/routing"),
        ("gateway/content/cache/key.py", "tests/gateway"),
        ("adapters/base.py", "tests"),
    ],
)
def test_the_tests_of_a_file_are_at_its_path_or_in_the_nearest_folder_above(
    code: str, tests: str
) -> None:
    assert place_of_tests(code, PLANTED) == tests


def test_a_file_without_tests_in_its_wing_is_found() -> None:
    code = ("gateway/routing/execution/attempt.py", "gateway/content/cache/key.py", "adapters/a.py")

    assert list(without_tests(code, PLANTED)) == list(code[1:])


def test_a_folder_of_tests_without_counterpart_and_purpose_is_found() -> None:
    tests = ("tests/test_a.py", "tests/gateway/cli/test_b.py", "tests/odd/test_c.py")
    tests += ("tests/stand_ins/deep/server.py", "tests/stand_ins_of_others/server.py")

    found = list(unexplained(tests, {"gateway/cli"}, {"tests/stand_ins"}))

    assert found == ["tests/odd/test_c.py", "tests/stand_ins_of_others/server.py"]


def test_a_purpose_of_a_folder_that_is_gone_or_has_a_counterpart_is_found() -> None:
    listed = ["tests/gateway/cli", "tests/gone", "tests/stand_ins"]

    found = superfluous(("tests/stand_ins/deep/server.py",), {"gateway/cli"}, listed)

    assert list(found) == ["tests/gateway/cli", "tests/gone"]


def test_a_test_away_from_the_file_that_it_is_named_after_is_found() -> None:
    code = "gateway/routing/planning/plan.py"

    assert named_after("tests/gateway/http/test_plan.py", [code, "schemas/usage.py"]) == [code]
    assert elsewhere("tests/gateway/http/test_plan.py", [code], PLANTED)
    assert not elsewhere("tests/gateway/routing/planning/deeper/test_plan.py", [code], PLANTED)
    lines = (
        "from strowger_gateway.gateway.routing.planning import plan",
        "def test() -> None:\n    from strowger_gateway.gateway.routing.planning.plan import Plan",
        "import strowger_gateway.gateway.routing.planning.plan",
    )
    assert all(code in imported(line) for line in lines)


def test_a_command_prints_where_the_tests_of_a_file_are() -> None:
    program = [sys.executable, "-m", "tests.counterparts", "gateway/config/redaction.py"]

    shown = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True)
    refused = subprocess.run(
        [*program[:3], "README.md"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert shown.stdout == "tests/gateway/config\n  tests/gateway/config/test_redaction.py\n"
    assert refused.stderr == f"README.md: not a file of {', '.join(PACKAGES)}\n"
