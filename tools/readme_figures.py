"""Copy the README's figures from docs/benchmarks.md: `python -m tools.readme_figures`."""

import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- figures: make figures -->", "<!-- end of figures -->"


def figures(benchmarks: str) -> str:
    """The paragraph, with ratios as the tables of docs/benchmarks.md have them.

    Raises ValueError, which names the row, if a row is missing or has another format.
    """
    (nginx,) = _found(r"CPU.*?request, one write \|.*?\(([\d.]+)x\)", benchmarks)
    (event,) = _found(r"CPU.*?SSE event \|.*?\(([\d.]+)x\)", benchmarks)
    decode = [
        _found(
            rf"{model}, `generate\(\)`, greedy, batch 1.*?\| [\d.]+ \| [\d.]+ \| ([\d.]+) \(",
            benchmarks,
        )[0]
        for model in ("125m", "0.5b")
    ]
    (batching,) = _found(
        r"125m, transformers' continuous batching, .*?\| [\d.]+ \| [\d.]+ \| ([\d.]+) \(",
        benchmarks,
    )
    llama = [
        _found(rf"125m, llama\.cpp BF16, {row} .*?\| \*\*([\d.]+)\*\* \(", benchmarks)[0]
        for row in ("batch 1", "8 concurrent")
    ]
    openvino = [
        _found(
            rf"125m, OpenVINO GenAI f32, {row} .*?\| [\d.]+ \| [\d.]+ \| ([\d.]+) \(", benchmarks
        )[0]
        for row in ("batch 1", "8 concurrent")
    ]
    paragraph = (
        f"With all features on, each request costs {nginx}x the CPU time of nginx as a plain "
        f"proxy, and each event of a stream {event}x. On two AVX2 cores, the engine decodes "
        f"{decode[0]}x (125m model) and {decode[1]}x (0.5b) as fast as transformers' "
        f"`generate()`, and {batching}x as fast as its continuous batching; "
        f"{llama[0]}x as fast as llama.cpp for one request and {llama[1]}x for eight concurrent "
        f"ones; {openvino[0]}x and {openvino[1]}x as fast as OpenVINO GenAI."
    )
    return textwrap.fill(paragraph, 120, break_on_hyphens=False)


def updated(readme: str, benchmarks: str) -> str:
    """The README with its figures replaced; raises ValueError if a marker is missing."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md: {BEGIN} or {END} is missing")
    return f"{before}{BEGIN}\n{figures(benchmarks)}\n{END}{after}"


def _found(row: str, page: str) -> tuple[str, ...]:
    match = re.search(rf"^\| {row}", page, re.MULTILINE)
    if match is None:
        raise ValueError(f"docs/benchmarks.md: no row matches {row}")
    return match.groups()


def main() -> None:
    readme = ROOT / "README.md"
    benchmarks = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    readme.write_text(updated(readme.read_text("utf-8"), benchmarks), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
