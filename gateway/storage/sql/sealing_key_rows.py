"""The keys that seal items of responses, where the configuration has none: one per deployment.

A key seals for as long as its seals are valid, and then opens for as long again.
"""

import os
from base64 import urlsafe_b64encode
from typing import Final

from strowger_gateway.gateway.storage.sql.database import Database

_BYTES: Final = 32


class SealingKeyRows:
    """The sealing keys in one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keys(self, at: float, valid_s: float) -> list[str]:
        """Return the keys, the one that seals first; create one if there is none, or it is old.

        at: Unix seconds. valid_s: of a seal. Raises StoreUnavailable.
        """
        with self._database.writing() as session:
            session.run("DELETE FROM sealing_keys WHERE created < ?", at - 2 * valid_s)
            found = session.rows(
                tuple[str, float],
                "SELECT secret, created FROM sealing_keys ORDER BY created DESC, secret",
            )
            if not found or found[0][1] < at - valid_s:
                found.insert(0, (urlsafe_b64encode(os.urandom(_BYTES)).decode(), at))
                session.run("INSERT INTO sealing_keys (secret, created) VALUES (?, ?)", *found[0])
        return [secret for secret, _ in found]
