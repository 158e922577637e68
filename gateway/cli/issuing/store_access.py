"""Open the store for commands that read or change issued keys."""

from collections.abc import Generator
from contextlib import contextmanager, suppress

from msgspec.structs import replace

from strowger_gateway.gateway.audit.event import Action, AuditEvent
from strowger_gateway.gateway.cli.config_loading import Faults, faults_shown
from strowger_gateway.gateway.cli.os_user import os_user
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.issued_keys.authority import KeyAuthority, KeyEvent
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.open import open_existing, open_store
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.errors import CallerError


@contextmanager
def reading(config: Config) -> Generator[KeyAuthority]:
    """Open the store and show errors as lines; a missing SQLite file is not created."""
    with faults_shown():
        store = open_existing(config.store.url)
    with _closing(store):
        yield _authority(store, config)


@contextmanager
def changing(config: Config, action: Action, name: str) -> Generator[KeyAuthority]:
    """The same for a change of the key `name`; the audit log gets it also if it is refused."""
    with faults_shown():
        store = open_store(config.store.url)
    with _closing(store):
        try:
            yield _authority(store, config)
        except CallerError as exc:
            if config.audit.log != "off":
                event = AuditEvent.by(os_user(), action, target=name, reason=exc.message)
                with suppress(StoreUnavailable):  # the refusal is what the operator must see
                    store.audit.append((replace(event, outcome="refused"),))
            raise


@contextmanager
def _closing(store: SqlStore) -> Generator[None]:
    try:
        yield
    except StoreUnavailable as exc:
        raise Faults((f"store.url: {exc.message}",)) from exc
    except CallerError as exc:
        raise Faults((exc.message,)) from exc
    finally:
        store.close()


def _authority(store: SqlStore, config: Config) -> KeyAuthority:
    return KeyAuthority(store.issued_keys, lambda: config, _ignore)


def _ignore(event: KeyEvent) -> None:
    """The command prints what it did."""
