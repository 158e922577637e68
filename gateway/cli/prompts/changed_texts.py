"""Warn of versions whose text is another one than a gateway has had, before one serves it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema_store import SQLITE


def changed_texts(config: Config) -> Iterator[str]:
    """Yield a sentence for each version of which the store's SQLite file has another text alone.

    The file is only read. Servers are not asked: a check needs no connection.
    """
    address = config.store.url.reveal()
    file = Path(address.removeprefix(SQLITE)).absolute()
    if not config.prompts or not address.startswith(SQLITE) or not file.is_file():
        return
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
            sql = "SELECT prompt, version, digest FROM prompt_texts ORDER BY first_seen"
            found: list[tuple[str, str, str]] = connection.execute(sql).fetchall()
    except sqlite3.Error:  # nothing is known of it then, and serving has its own message
        return
    known: dict[tuple[str, str], list[str]] = {}
    for prompt, version, digest in found:
        known.setdefault((prompt, version), []).append(digest)
    for at, prompt in enumerate(config.prompts):
        for place, one in enumerate(prompt.versions):
            digests = known.get((prompt.name, one.name), [])
            if digests and one.digest not in digests:
                yield (
                    f"prompts[{at}].versions[{place}]: gateways have had another text under "
                    f"{prompt.name}@{one.name} ({digests[-1]}, now {one.digest}); give the new "
                    "text a version of its own, so that records and experiments name it"
                )
