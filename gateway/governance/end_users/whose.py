"""The caller whose limits and budgets an operator looks at, and one of its end users."""

from collections.abc import Callable, Iterable

from strowger_gateway.gateway.config.checks.identities import token_caller
from strowger_gateway.gateway.config.problems import nearest
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.end_users.end_users import LONGEST
from strowger_gateway.gateway.governance.limits.scope import Whose
from strowger_gateway.schemas.errors import InvalidRequest

TeamAndUser = tuple[str, str]
"""Of a key; "" for none."""


def whose_of(
    config: Config,
    key: str,
    end_user: str,
    find: Callable[[str], TeamAndUser | None],
    names: Callable[[], Iterable[str]],
    account: Callable[[str, str], str],
    of_token: Whose,
) -> Whose | None:
    """Return the caller and the account of its end user; `None` if neither is given.

    key: its name. end_user: as clients name it. find: a key by its name. names: of all keys.
    account: the name of a key's end user's account. of_token: team, user and plan of a caller with
    a token, who is in no list.
    Raises InvalidRequest, which names the parameter.
    """
    extra = {name: getattr(of_token, name) for name in ("team", "user", "plan")}
    given = next((name for name, value in extra.items() if value), "")
    if not key:
        if given:
            raise InvalidRequest(f"{given}: needs key, the name of the caller", param=given)
        if not end_user:
            return None
        if config.auth.mode == "keys":
            text = "end_user: needs key, because each key has its own end users"
            raise InvalidRequest(text, param="end_user")
    if len(end_user.encode("utf-8", "surrogatepass")) > LONGEST:
        raise InvalidRequest(f"end_user: has at most {LONGEST} bytes", param="end_user")
    known = find(key) if key else ("", "")
    if known is not None:
        if given:
            text = f"{given}: is only for callers with tokens; the key {key!r} has its own"
            raise InvalidRequest(text, param=given)
        extra["team"], extra["user"] = known
    elif not token_caller(key, config):
        hint = nearest(key, sorted(names())) or "; no keys are configured"
        raise InvalidRequest(f"key: no key is named {key!r}{hint}", param="key")
    return Whose(key=key, end_user=account(key, end_user) if end_user else "", **extra)
