"""A hash of the configuration by which operators see that two gateways run the same one.

It is made from the file's values before references are resolved, so that an environment variable
or a file counts by its name, and without secrets: a setting that is one counts only by the
references in it. So the hash gives no secret away to guesses, and two gateways with different
secrets have the same one. Comments and the order of keys do not count. The texts of prompts do.
"""

import re
from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from strowger_gateway.gateway.config.changes import credentials_of, masked_by
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.yaml_document import Tree
from strowger_gateway.schemas.secret import Secret

_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_CREDENTIAL = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
_BYTES = 6


def tree_digest(tree: Tree, filled: Tree, config: Config, secrets: Iterable[str]) -> str:
    """Return twelve hexadecimal digits.

    tree, filled: the document before and after its references were resolved.
    secrets: what was read as a secret besides those of `config`.
    """
    known = (*credentials_of(config), *map(Secret, secrets))
    marked = _Marked({one.reveal() for one in known}, known)
    body = msgspec.json.encode(marked.tree(tree, filled), order="sorted")
    # The text of a prompt is a setting like others; only its file has a name in the document.
    body += "".join(one.digest for prompt in config.prompts for one in prompt.versions).encode()
    return blake2b(body, digest_size=_BYTES).hexdigest()


class _Marked:
    def __init__(self, values: set[str], secrets: Iterable[Secret]) -> None:
        self._values = values
        self._masked = masked_by(secrets)

    def tree(self, raw: Tree, filled: Tree) -> object:
        match raw, filled:
            case dict(), dict():
                return {key: self.tree(one, filled.get(key)) for key, one in raw.items()}
            case list(), list():
                return [self.tree(*pair) for pair in zip(raw, filled, strict=True)]
            case _:
                return self._leaf(raw, filled)

    def _leaf(self, raw: object, filled: object) -> object:
        """Return a scalar, or the names of the references in a secret."""
        if filled is not None and not isinstance(filled, bool) and str(filled) in self._values:
            return [_name(found) for found in _REFERENCE.findall(str(raw))]
        if not isinstance(raw, str):
            return raw
        named = _REFERENCE.sub(lambda found: f"${{{_open(found[1])}}}", raw)
        return self._masked(named)


def _name(inside: str) -> str:
    """Return a reference without its default."""
    return inside if inside.startswith("file:") else inside.partition(":-")[0]


def _open(inside: str) -> str:
    """Return a reference, without its default if that may be a credential."""
    return _name(inside) if _CREDENTIAL.search(_name(inside)) else inside
