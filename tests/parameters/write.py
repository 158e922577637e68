"""Write docs/parameters.md, as a program."""

from pathlib import Path

from tests.parameters.page import page

DOCUMENT = Path(__file__).parents[2] / "docs" / "parameters.md"


def main() -> None:
    text = page()
    DOCUMENT.write_text(text)
    print(f"{DOCUMENT.name}: {len(text.splitlines())} lines")


if __name__ == "__main__":
    main()
