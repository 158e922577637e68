"""`strowger chat`: talk to a model of a running gateway from the terminal."""

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import click
from msgspec import Struct
from rich.console import Console
from rich.text import Text

from gateway.cli.config_loading import Faults, config_option, load
from gateway.cli.conversation import Conversation
from gateway.cli.http_client import fetch, url_of
from gateway.cli.options import url_option

_UNSEEN = {code: None for code in (*range(32), 127, *range(128, 160)) if chr(code) not in "\n\t"}
"""Control characters: a model's words may not move the cursor."""


class _Model(Struct):
    id: str


class _Models(Struct):
    data: list[_Model]


@click.command()
@click.argument("model", required=False)
@url_option("The gateway; else where the configuration says that it listens.")
@click.option(
    "--key",
    default="",
    envvar="STROWGER_API_KEY",
    show_envvar=True,
    help="A client's key, where the gateway asks for one.",
)
@click.option("--user", default="", help="Sent as `user`: experiments and `sticky` go by it.")
@config_option
def chat(model: str | None, url: str | None, key: str, user: str, path: Path) -> None:
    """ChatSession to MODEL (the first one there, if absent), through a gateway that runs.

    /model NAME, /system TEXT, /clear, /why and /quit are for the conversation itself. Ctrl-C
    stops an answer. What is piped in is one question, and its answer all that is printed.
    """
    site = url_of(load(path)) if url is None else url
    if model is None:
        known = fetch(site, "/v1/models", _Models, key=key).data
        if not known:
            raise Faults((f"{site} has no model by name; give one",))
        model = known[0].id
    conversation = Conversation(site, model, key=key, user=user)
    if sys.stdin.isatty():
        ChatSession(conversation, site).run()
    else:
        _once(conversation)


def _once(conversation: Conversation) -> None:
    question = sys.stdin.read().strip()
    if not question:
        raise click.UsageError("there is no question on standard input")

    def hear(words: str, thought: bool) -> None:
        if not thought:
            sys.stdout.write(words)
            sys.stdout.flush()

    try:
        answer = conversation.ask(question, hear)
    except KeyboardInterrupt:
        sys.exit(130)
    if not answer.endswith("\n"):
        click.echo()


class ChatSession:
    """Questions and answers at a terminal, until /quit or Ctrl-D."""

    def __init__(self, conversation: Conversation, site: str) -> None:
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
            import_module("readline")  # input() then edits lines and remembers them
        self._note(f"{self._with.model} at {self._site}; /help tells the commands, /quit ends")
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
                self._note(f"there is no command {name}; /help tells those that there are")
            elif line:
                self._ask(line)

    def _ask(self, line: str) -> None:
        try:
            self._with.ask(line, self._hear)
        except KeyboardInterrupt:
            self._console.print()
            self._note("stopped")
        except Faults as exc:
            self._console.print()
            self._console.print(Text(exc.message.translate(_UNSEEN), style="red"))
        else:
            self._console.print()
        self._note(_way(self._with.told))

    def _hear(self, words: str, thought: bool) -> None:
        seen = Text(words.translate(_UNSEEN), style="dim italic" if thought else "")
        self._console.print(seen, end="", soft_wrap=True)

    def _note(self, words: str) -> None:
        if words:
            self._console.print(Text(words.translate(_UNSEEN), style="dim"))

    def _model(self, name: str) -> None:
        if name:
            self._with.model = name
        self._note(f"talking to {self._with.model}")

    def _system(self, words: str) -> None:
        self._with.system = words
        self._note("the system message is set" if words else "there is no system message")

    def _clear(self, _: str) -> None:
        self._with.clear()
        self._note("nothing was said")

    def _why(self, _: str) -> None:
        for name, value in self._with.told.items():
            self._note(f"{name}: {value}")
        if not self._with.told:
            self._note("nothing was answered yet, or the gateway does not tell")

    def _help(self, _: str) -> None:
        self._note(
            "/model NAME   talk to another model\n"
            "/system TEXT  the system message; without TEXT there is none\n"
            "/clear        forget what was said\n"
            "/why          how the last answer came about\n"
            "/quit         end, as Ctrl-D does; Ctrl-C stops an answer"
        )


def _way(told: Mapping[str, str]) -> str:
    """Who answered, in a line."""
    words = [told.get("x-gateway-backend", "")]
    if variant := told.get("x-gateway-variant"):
        words.append(f"variant {variant}")
    if (attempts := told.get("x-gateway-attempts", "1")) != "1":
        words.append(f"{attempts} attempts")
    if dropped := told.get("x-gateway-dropped-params"):
        words.append(f"without {dropped}")
    return " · ".join(filter(None, words))
