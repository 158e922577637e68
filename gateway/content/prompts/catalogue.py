"""The prompts of one configuration, and which of them a request gets.

A request that names no version gets the default one, and a request of an experiment whose variants
have prompts gets the version of its variant. Both are decided here once, before limits, guardrails
and the cache see the request, so that all of them see the text that the model will read.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.config.problems import nearest
from strowger_gateway.gateway.config.prompts.template import FIELD_NAME
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.prompts.section import Prompt
from strowger_gateway.gateway.content.prompts.reference import (
    HEADER,
    NO_VALUES,
    REFERENCE_FIELDS,
    Reference,
    names_no_chat,
    reference_of,
    without_reference,
)
from strowger_gateway.gateway.content.prompts.rendering import PromptText, prompt_text
from strowger_gateway.gateway.routing.planning.enrolment import Enrolment
from strowger_gateway.gateway.routing.planning.planner import Planner
from strowger_gateway.gateway.routing.planning.request_facts import RequestFacts
from strowger_gateway.gateway.routing.planning.route import Route
from strowger_gateway.schemas.close_names import close_names
from strowger_gateway.schemas.errors import InvalidRequest, PromptNotFound
from strowger_gateway.schemas.requests import ChatRequest, Request

UNUSED = "unused_variable"
"""The repair that leaves a value out."""

AS_TEXT = "as_text"
"""The repair that takes a number or a boolean as the text that JSON writes it with."""

_LONGEST_SHOWN = 64


class Prompted(Struct, frozen=True, kw_only=True, eq=False):
    """A request with the prompt that it gets.

    text:      `None` if it gets none.
    enrolment: in the experiment of its route, if its variants have prompts; else `None`.
    left_out:  why their prompts do not fit the request; "" if they do, `None` without them.
    why:       it gets this one: the end of a sentence; "" if it gets none.
    repairs:   as `PATH:RULE`.
    added:     characters that the prompt has added, at most.
    """

    request: Request
    text: PromptText | None = None
    enrolment: Enrolment | None = None
    left_out: str | None = None
    why: str = ""
    repairs: tuple[str, ...] = ()
    added: int = 0


class PromptCatalogue:
    """The prompts of one configuration. most: characters that one prompt may become."""

    def __init__(self, config: Config) -> None:
        self.most = config.server.max_body_bytes
        self._prompts = {one.name: one for one in config.prompts}
        self._texts = {
            (prompt.name, one.name): prompt_text(prompt.name, one.name, one.text, one.digest)
            for prompt in config.prompts
            for one in prompt.versions
        }
        self._arms: dict[str, dict[str, PromptText | None]] = {}
        for experiment in config.experiments:
            arms = {one.name: self._of_ref(one.prompt) for one in experiment.variants}
            if any(arms.values()):
                self._arms[experiment.model] = arms

    def prompted(
        self, request: Request, route: Route, planner: Planner, facts: RequestFacts
    ) -> Prompted:
        """Return the request with its prompt, or as it is if it gets none.

        Raises PromptNotFound for a prompt or a version that does not exist, InvalidRequest for a
        field without a value, for a value that is too long, for a conversation that is empty, and
        for a replay of what does not fit; also what `Planner.enrol` raises.
        """
        header = facts.header(HEADER)
        if not isinstance(request, ChatRequest):
            field = names_no_chat(request)
            if field:
                told = f"{field}: prompts are for conversations; send one, or the text itself"
                raise InvalidRequest(told, param=field)
            return Prompted(request=request)
        reference = reference_of(request, header)
        arms = self._arms.get(route.name)
        if reference is None and request.extra.keys() & REFERENCE_FIELDS:
            request = replace(request, extra=without_reference(request.extra))
        if reference is None and arms is None:
            _check_messages(request, None)
            return Prompted(request=request)
        named = None if reference is None else self._named(reference)
        if reference is not None:
            request = replace(request, extra=without_reference(request.extra))
            self._check_lengths(reference)
        values = NO_VALUES if reference is None else reference.values
        if arms is None:
            return self._rendered(request, named, reference)
        if None in arms.values():
            self._rendered(request, named, reference)  # what it asks for has to be valid, too
        left_out = self._why_left_out(request, reference, arms.values())
        facts = replace(facts, left_out=left_out)
        enrolment = self._enrol(request, values, arms, named, route, planner, facts)
        if left_out and enrolment is not None and enrolment.participation.replayed:
            raise InvalidRequest(f"the variant's prompt does not fit this request: {left_out}")
        arm = None if enrolment is None or left_out else enrolment.arm
        own = None if arm is None else arms[arm.name]
        found = self._rendered(request, own or named, reference)
        if arm is not None and own is not None:
            found = replace(found, why=f"that of variant {arm.name!r}")
        return replace(found, enrolment=enrolment, left_out=left_out)

    def _enrol(
        self,
        request: ChatRequest,
        values: Mapping[str, str],
        arms: Mapping[str, PromptText | None],
        named: PromptText | None,
        route: Route,
        planner: Planner,
        facts: RequestFacts,
    ) -> Enrolment | None:
        """Enrol the request. A rule that matches with the prompt of one variant excludes it.

        Otherwise a rule about the length of the prompt would take requests from one variant alone.
        """
        tried: list[PromptText | None] = [None]
        if route.rules:
            tried = [named] if facts.left_out else [one or named for one in arms.values()]
        found: Enrolment | None = None
        for one in tried:
            sent = request
            if one is not None and not one.missing(values):
                sent = replace(request, messages=one.with_messages(request.messages, values))
            found = planner.enrol(route, sent, facts)
            if found is not None and found.arm is None:
                break
        return found

    def _why_left_out(
        self,
        request: ChatRequest,
        reference: Reference | None,
        arms: Iterable[PromptText | None],
    ) -> str:
        """Return why not every variant's prompt fits the request; "" if they all do.

        It leaves the experiment then, so that no variant loses requests that another one keeps.
        """
        values = NO_VALUES if reference is None else reference.values
        for one in arms:
            if one is None:
                continue
            if reference is not None and reference.name != one.prompt:
                return f"it names the prompt {reference.name}, and a variant has {one.ref}"
            missing = one.missing(values)
            if missing:
                return f"{one.ref} needs a value of {missing[0]}"
            if not one.template.asks and not _says_something(request):
                return f"it has no message, and {one.ref} does not end with a user section"
            if one.characters(values) > self.most:
                return f"its values are too long for {one.ref}"
        return ""

    def _of_ref(self, ref: str) -> PromptText | None:
        name, _, version = ref.partition("@")
        return self._texts[name, version] if ref else None

    def _named(self, reference: Reference) -> PromptText:
        """Raises PromptNotFound."""
        prompt = self._prompts.get(reference.name)
        if prompt is None:
            hint = nearest(reference.name, self._prompts)
            told = f"{reference.id_field}: no prompt is named {_shown(reference.name)}{hint}"
            raise PromptNotFound(told, param=reference.id_field)
        version = reference.version or prompt.default_name
        found = self._texts.get((prompt.name, version))
        if found is None:
            hint = nearest(version, [one.name for one in prompt.versions], "versions:")
            told = (
                f"{reference.version_field}: {prompt.name} has no version {_shown(version)}{hint}"
            )
            raise PromptNotFound(told, param=reference.version_field)
        return found

    def _check_lengths(self, reference: Reference) -> None:
        prompt: Prompt = self._prompts[reference.name]
        for name, value in reference.values.items():
            if len(value) > prompt.longest_value:
                field = f"{reference.values_field}.{name[:_LONGEST_SHOWN]}"
                told = (
                    f"{field} has {len(value)} characters; the prompt {prompt.name} takes at most "
                    f"{prompt.longest_value} in one value"
                )
                raise InvalidRequest(told, param=field)

    def _rendered(
        self, request: ChatRequest, text: PromptText | None, reference: Reference | None
    ) -> Prompted:
        if text is None:
            _check_messages(request, None)
            return Prompted(request=request)
        values = NO_VALUES if reference is None else reference.values
        field = "prompt_variables" if reference is None else reference.values_field
        _check_values(text, values, field)
        added = text.characters(values)
        if added > self.most:
            told = (
                f"{field}: {text.ref} becomes {added} characters with these values; at most "
                f"{self.most} are allowed"
            )
            raise InvalidRequest(told, param=field)
        _check_messages(request, text)
        request = replace(request, messages=text.with_messages(request.messages, values))
        named = reference is not None and reference.version
        return Prompted(
            request=request,
            text=text,
            why="which the request names" if named else "the default version",
            repairs=(*_repairs(text.unused(values), field), *_literals(text, reference)),
            added=added,
        )


def _says_something(request: ChatRequest) -> bool:
    return any(one.role not in ("system", "developer") for one in request.messages)


def _check_messages(request: ChatRequest, text: PromptText | None) -> None:
    """Raise InvalidRequest for a conversation that would ask for nothing. request: the client's."""
    if (request.messages and text is None) or _says_something(request):
        return
    if text is not None and text.template.asks:
        return
    original = request.original
    dialect = "" if original is None else original.dialect
    if dialect == "ollama" and text is None:
        return  # it loads the model (gateway/surfaces/ollama/loading.py)
    field = {"gemini": "contents", "openai-responses": "input"}.get(dialect, "messages")
    why = "has no message of the user" if request.messages else "is empty"
    if text is not None:
        why += f", and the prompt {text.ref} does not end with a user section"
    raise InvalidRequest(f"{field} {why}; send at least one message", param=field)


def _check_values(text: PromptText, values: Mapping[str, str], field: str) -> None:
    """Raise InvalidRequest for a field without a value. field: where the client has values."""
    missing = text.missing(values)
    if not missing:
        return
    close = close_names(missing[0], text.unused(values))
    hint = f", and no {_shown(close[0])}" if close else ""
    named = ", ".join(
        f"{name} (optional)" if name in text.template.defaults else name
        for name in text.template.fields
    )
    where = f"{field}.{missing[0]}"
    told = f"{where} is required: the prompt {text.ref} has the fields {named}{hint}"
    raise InvalidRequest(told, param=where)


def _repairs(unused: Sequence[str], field: str) -> tuple[str, ...]:
    """Name the values that no field takes; only a name that a field could have is repeated."""
    named = [one if FIELD_NAME.fullmatch(one) else "" for one in unused]
    places = [f"{field}.{one}" if one else field for one in named]
    return tuple(dict.fromkeys(f"{place}:{UNUSED}" for place in places))


def _literals(text: PromptText, reference: Reference | None) -> tuple[str, ...]:
    if reference is None:
        return ()
    named = (one for one in reference.literals if one in text.template.fields)
    return tuple(f"{reference.values_field}.{one}:{AS_TEXT}" for one in named)


def _shown(name: str) -> str:
    return repr(name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}…")
