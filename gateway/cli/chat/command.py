"""`strowger chat`: chat with a model of a running gateway in the terminal."""

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import click
from msgspec import Struct
from rich.console import Console
from rich.text import Text

from strowger_gateway.gateway.cli.address import Address, address_of, url_option
from strowger_gateway.gateway.cli.chat.apis import ApiName
from strowger_gateway.gateway.cli.chat.conversation import Conversation
from strowger_gateway.gateway.cli.config_loading import Faults, config_option, load
from strowger_gateway.gateway.cli.http_client import fetch
from strowger_gateway.gateway.cli.terminal_output import without_controls
from strowger_gateway.gateway.config.schema.config import Tls


class _Model(Struct):
    id: str


class _Models(Struct):
    data: list[_Model]


@click.command()
@click.argument("model", required=False)
@url_option("URL of the gateway. Default: the address in the configuration.")
@click.option(
    "--key",
    default="",
    envvar="STROWGER_API_KEY",
    show_envvar=True,
    help="Client key, if the gateway requires one.",
)
@click.option("--user", default="", help="Sent as `user`, for experiments and `sticky`.")
@click.option(
    "--api",
    type=click.Choice(["chat", "messages", "responses"]),
    default="chat",
    show_default=True,
    help="The API to use: OpenAI's chat completions, Anthropic's Messages, or OpenAI's Responses.",
)
@config_option
def chat(
    address: Address | None,
    tls: Tls,
    model: str | None,
    key: str,
    user: str,
    api: ApiName,
    path: Path,
) -> None:
    """Chat with MODEL (default: the first one) through a running gateway.

    /model NAME, /system TEXT, /clear, /why and /quit control the conversation. Ctrl-C stops an
    answer. Piped input is one question; only its answer is printed.
    """
    site = address_of(load(path), tls) if address is None else address
    if model is None:
        known = fetch(site, "/v1/models", _Models, key=key).data
        if not known:
            raise Faults((f"{site} lists no model; give MODEL",))
        model = known[0].id
    conversation = Conversation(site, model, key=key, user=user, api=api)
    if sys.stdin.isatty():
        ChatSession(conversation, site).run()
    else:
        _once(conversation)


def _once(conversation: Conversation) -> None:
    try:
        question = sys.stdin.buffer.read().decode().strip()
    except UnicodeDecodeError as exc:
        raise click.UsageError("the question on standard input is not UTF-8 text") from exc
    if not question:
        raise click.UsageError("no question on standard input")

    seen = sys.stdout.isatty()

    def on_text(words: str, thought: bool) -> None:
        if seen:
            words = without_controls(words)
        if not thought:
            click.echo(words.encode(), nl=False)  # as text, click would remove escape sequences

    try:
        answer = conversation.ask(question, on_text)
    except KeyboardInterrupt:
        sys.exit(130)
    if not answer.endswith("\n"):
        click.echo()


class ChatSession:
    """Questions and answers at a terminal, until /quit or Ctrl-D."""

    def __init__(self, conversation: Conversation, site: Address) -> None:
        self._with = conversation
        self._site = site
        self._console = Console(highlight=False)
        self._commands: Mapping[str, Callable[[str], None]] = {
            "/model": self._model,
            "/system": self._system,
            "/clear": self._clear,
            "/why": self._why,
            "/help": self._help,
        }

    def run(self) -> None:
        with suppress(ImportError):
            import_module("readline")  # gives input() line editing and a history
        self._note(f"{self._with.model} at {self._site}; /help lists the commands, /quit exits")
        while True:
            try:
                line = input("> ").strip()
            except KeyboardInterrupt:
                self._console.print()
                continue
            except EOFError:
                self._console.print()
                return
            if line == "/quit":
                return
            name, _, rest = line.partition(" ")
            if name in self._commands:
                self._commands[name](rest.strip())
            elif line.startswith("/"):
                self._note(f"unknown command {name}; /help lists the commands")
            elif line:
                self._ask(line)

    def _ask(self, line: str) -> None:
        try:
            self._with.ask(line, self._on_text)
        except KeyboardInterrupt:
            self._console.print()
            self._note("stopped")
        except Faults as exc:
            self._console.print()
            self._console.print(Text(without_controls(exc.message), style="red"))
        else:
            self._console.print()
        self._note(_summary(self._with.headers))

    def _on_text(self, words: str, thought: bool) -> None:
        seen = Text(without_controls(words), style="dim italic" if thought else "")
        self._console.print(seen, end="", soft_wrap=True)

    def _note(self, words: str) -> None:
        if words:
            self._console.print(Text(without_controls(words), style="dim"))

    def _model(self, name: str) -> None:
        if name:
            self._with.model = name
        self._note(f"model: {self._with.model}")

    def _system(self, words: str) -> None:
        self._with.system = words
        self._note("system message set" if words else "no system message")

    def _clear(self, _: str) -> None:
        self._with.clear()
        self._note("conversation cleared")

    def _why(self, _: str) -> None:
        for name, value in self._with.headers.items():
            self._note(f"{name}: {value}")
        if not self._with.headers:
            self._note("no answer yet, or the gateway sends no x-gateway-* headers")

    def _help(self, _: str) -> None:
        self._note(
            "/model NAME   switch to another model\n"
            "/system TEXT  set the system message; without TEXT: remove it\n"
            "/clear        clear the conversation\n"
            "/why          show the gateway's headers of the last answer\n"
            "/quit         exit, as Ctrl-D does; Ctrl-C stops an answer"
        )


def _summary(headers: Mapping[str, str]) -> str:
    """Summarise in one line which backend answered."""
    words = [headers.get("x-gateway-backend", "")]
    if variant := headers.get("x-gateway-variant"):
        words.append(f"variant {variant}")
    if (attempts := headers.get("x-gateway-attempts", "1")) != "1":
        words.append(f"{attempts} attempts")
    if dropped := headers.get("x-gateway-dropped-params"):
        words.append(f"without {dropped}")
    return " · ".join(filter(None, words))
