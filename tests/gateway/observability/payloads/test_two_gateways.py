"""During a hand-over, the old gateway and the new one write the same payload files."""

from pathlib import Path

from strowger_gateway.gateway.observability.payloads.files import RotatedFile


def test_no_line_is_lost_while_both_rotate(tmp_path: Path) -> None:
    old, new = [RotatedFile(tmp_path, 0, max_bytes=200, files=50) for _ in range(2)]
    lines = [b"line %03d\n" % number for number in range(300)]
    for number, line in enumerate(lines):
        (new if number % 3 else old).write(line)
    old.close()
    new.close()

    files = list(tmp_path.iterdir())
    written = [line for file in files for line in file.read_bytes().splitlines(keepends=True)]
    assert sorted(written) == lines
    assert len(files) > 5
