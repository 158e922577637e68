"""The gateways that are attacked: configurations of one machine with what an attack needs."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

HOSTILE: Final = "attacker"
KEY: Final = "victim-key"


class Setup(Struct, frozen=True, kw_only=True):
    """A configuration. extra: top-level settings besides those of every gateway. keys: how many
    clients have one; the attacker and the victim are two of them. engine: whether it has the
    bundled model. cache: of its engine, whose memory grows as it fills, up to this size.
    descriptors: its limit of open files, 0: unchanged.
    """

    extra: str = ""
    server: str = ""
    keys: int = 2
    engine: bool = True
    cache: str = "64MiB"
    descriptors: int = 0

    def config(self, *, port: int, provider: int, first: int, hostile: int, tokenizer: str) -> str:
        """Return the config.yaml. provider, first, hostile: ports of providers."""
        more = "".join(f"  - {{name: k{n}, key: key-{n}}}\n" for n in range(self.keys - 2))
        local = _LOCAL.format(cache=self.cache) if self.engine else ""
        chat = "{provider: here, model: tiny-chat}, " if self.engine else ""
        return _CONFIG.format(
            port=port,
            provider=provider,
            first=first,
            hostile=hostile,
            tokenizer=tokenizer,
            server=self.server,
            more=more,
            local=local,
            chat=chat,
            extra=self.extra,
        )


_LOCAL: Final = """
  - name: here
    adapter: local
    engine: {{device: cpu, threads: 1, kv_cache: {cache}, models: [
      {{name: tiny-chat, path: "bundled:tiny-chat"}}]}}"""
_CONFIG: Final = """
server: {{port: {port}{server}}}
auth:
  mode: keys
  metrics: open
  keys:
  - {{name: attacker, key: attacker-key}}
  - {{name: victim, key: victim-key}}
{more}
providers:
  - {{name: away, adapter: openai, base_url: "http://127.0.0.1:{provider}/v1", api_key: k}}
  - {{name: bridged, adapter: triton-tokens, base_url: "http://127.0.0.1:{provider}",
     tokenizer: {tokenizer}}}
  - {{name: first, adapter: openai, base_url: "http://127.0.0.1:{first}/v1", api_key: k}}
  - {{name: second, adapter: openai, base_url: "http://127.0.0.1:{provider}/v1", api_key: k}}
  - {{name: bad, adapter: openai, base_url: "http://127.0.0.1:{hostile}/v1", api_key: k}}{local}
models:
  - name: chat
    policy: in_order
    backends: [{chat}{{provider: away, model: a}}]
  - {{name: bridged, backends: [{{provider: bridged, model: a}}]}}
  - name: quick
    policy: in_order
    backends: [{{provider: first, model: quick}}, {{provider: second, model: quick}}]
  - name: slow
    policy: in_order
    backends: [{{provider: first, model: slow}}, {{provider: second, model: slow}}]
  - {{name: "bad/*", backends: [{{provider: bad, model: "*"}}]}}
logging: {{format: json}}
{extra}
"""

_GUARDED: Final = """
guardrails:
  - {name: keys, use: secrets, mode: mask}
  - {name: words, use: patterns, mode: mask, settings: {words: [project falcon]}}
"""

SETUPS: Final[Mapping[str, Setup]] = {
    "engine": Setup(server=", max_in_flight: 50"),
    "crowded engine": Setup(),
    "crowded engine, 200 keys": Setup(keys=200),
    "small cache": Setup(cache="16MiB"),
    "remote": Setup(engine=False),
    "remote, 200 keys": Setup(engine=False, keys=200),
    "guarded": Setup(engine=False, extra=_GUARDED),
    "storing": Setup(
        engine=False,
        extra="responses: {store: on}\nstore: {url: 'sqlite:///FOLDER/isolation.db'}\n",
    ),
    "few descriptors": Setup(engine=False, descriptors=256),
}
