"""The names under which a table may list a model: as it is, without a region, without a date."""

import re
from collections.abc import Iterator
from typing import Final

_REGION: Final = re.compile(r"^(?:us|eu|apac|au|jp|global|us-gov)\.")
"""Of Bedrock's inference profiles.
https://docs.aws.amazon.com/bedrock/latest/userguide/inference-profiles-support.html"""

_DATE: Final = re.compile(
    r"[-@](?:20\d\d-[01]\d-[0-3]\d|20\d\d[01]\d[0-3]\d|[01]\d-20\d\d|\d{4}|latest|default)$"
)
"""A date at a name's end, in the forms of OpenAI, Anthropic, Cohere, and Mistral, or an alias."""


def spellings(model: str) -> Iterator[str]:
    """Yield the names to look a model up by, the most exact first; some may be equal."""
    yield model
    bare = _REGION.sub("", model.rpartition("/")[2] if model.startswith(("arn:", "pub")) else model)
    bare = bare.removeprefix("models/")
    yield bare
    yield bare.replace("@", "-")
    yield _DATE.sub("", bare)
