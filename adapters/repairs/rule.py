"""A repair rule: what a backend refuses, and the nearly equal request that it accepts.

1. A backend's `Supports.repairs` lists its rules, in the order in which they run.
2. The plan looks at the request's facts (schemas/content_facts.py) and at the backend's model. A
rule
   whose facts the request lacks, or that does not concern the model, costs nothing further.
3. `repaired` runs the others, each on the result of the one before. A rule returns `None` if it
   finds nothing to do; a second run of all rules always does.
4. Changes are reported under the rule's name in `x-gateway-repairs`, omitted fields in
   `x-gateway-dropped-params`, and `undo` gives the answer the client's names and ends.

A changed part of a request is encoded again: the client's own JSON of it is never sent
(adapters/repairs/rewriting.py).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from strowger_gateway.schemas.content_facts import OF_FIELDS
from strowger_gateway.schemas.requests import Request

Loss = Literal["none", "hint", "constraint"]
"""What an answer may lack because of a repair. none: nothing. hint: what backends may ignore.
constraint: a limit on the answer, such as a schema's bound or a temperature, is not enforced."""

_ORDER: Final[Mapping[Loss, int]] = {"none": 0, "hint": 1, "constraint": 2}


Operator = Callable[[str], bool | None]
"""Whether the operator allows the field at a path (true), denies it (false), or says nothing."""


class Aim(Struct, frozen=True, kw_only=True, gc=False):
    """Where a repaired request goes, and on whose behalf.

    model:  the provider's name of the model.
    tenant: the name of the client's key; "" without keys.
    dialect: see strowger_gateway.adapters.base.Supports.
    """

    model: str
    tenant: str = ""
    dialect: str = ""


class Undo(Struct, frozen=True, kw_only=True):
    """What has to be done to an answer so that it is the one that the client asked for.

    tools: the names of functions as sent -> the client's.
    stops: strings at which the answer ends, because the vendor does not know all of them.
    answer_tool: the function whose arguments are the answer's text; "" for none.
    one_call: of several calls in an answer, the client gets the first.
    """

    tools: Mapping[str, str] = {}
    stops: tuple[str, ...] = ()
    answer_tool: str = ""
    one_call: bool = False


class Repaired(Struct, frozen=True, kw_only=True):
    """A rule's result.

    changed:  the paths of what is sent in another form, as `messages[].role`.
    left_out: the paths of what is not sent.
    """

    request: Request
    changed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    undo: Undo | None = None


_NOTHING: Final = Undo()


def every_model(_: str) -> bool:
    """Return true: the rule holds for all models of the backend."""
    return True


class Repair(Struct, frozen=True, kw_only=True, eq=False):
    """One rule.

    name:   a short identifier, reported to clients, as `developer_role`.
    about:  what the rule does, as a sentence without a subject for the documentation.
    source: the address where the vendor documents the limit, or where its refusal is reported.
    facts:  bits of schemas/content_facts.py, of which the request has at least one; 0: any request.
            A repair that reads the texts of messages names a fact that is not in `OF_FIELDS`, or 0.
    apply:  returns the repaired request, or `None` if there is nothing to repair.
    example: a request that the rule repairs; the adapter contract checks the rule with it.
    example_model: the model that the example is for, by the provider's name.
    loss:   see `Loss`.
    models: whether the rule holds for a model of the provider, by its name there.
    fields: paths of fields that clients may not send as they are; the rule gives them a form in
            which they may. An operator who allows or denies one of them switches the rule off.
    within: returns the rule with an operator's word on single names (`Operator`), if it has some.
    light:  the repair changes nothing by which capabilities are judged, so that plans of requests
            that need it can be cached.
    """

    name: str
    about: str = ""
    source: str
    facts: int
    apply: Callable[[Request, Aim], Repaired | None]
    example: Request
    example_model: str = "model-1"
    loss: Loss = "none"
    models: Callable[[str], bool] = every_model
    fields: tuple[str, ...] = ()
    within: "Callable[[Operator], Repair] | None" = None
    light: bool = False

    def reads_text(self, facts: int) -> bool:
        """Whether the texts of messages may decide what it does to a request with these facts."""
        return not self.facts or bool(self.facts & facts & ~OF_FIELDS)


class Repairs(Struct, frozen=True, kw_only=True):
    """What all rules of a backend made of a request.

    made:     `PATH:RULE` for each change.
    left_out: paths.
    loss:     the greatest of the rules that changed anything; lossy: their names.
    """

    request: Request
    made: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    loss: Loss = "none"
    lossy: tuple[str, ...] = ()
    undo: Undo | None = None


def applicable(rules: Sequence[Repair], facts: int, model: str) -> tuple[Repair, ...]:
    """Return the rules that may have something to do for requests with these facts."""
    found = [one for one in rules if one.facts & facts or not one.facts]
    return tuple([one for one in found if one.models(model)])


def repaired(request: Request, rules: Sequence[Repair], aim: Aim) -> Repairs:
    """Run rules in their order. rules: the `applicable` ones."""
    made: list[str] = []
    left_out: list[str] = []
    lossy: list[str] = []
    loss: Loss = "none"
    tools: dict[str, str] = {}
    stops: tuple[str, ...] = ()
    answer_tool, one_call = "", False
    for rule in rules:
        found = rule.apply(request, aim)
        if found is None:
            continue
        request = found.request
        made += [f"{path}:{rule.name}" for path in found.changed]
        left_out += found.left_out
        if _ORDER[rule.loss] > _ORDER[loss]:
            loss = rule.loss
        if rule.loss == "constraint":
            lossy.append(rule.name)
        if found.undo is not None:
            earlier = {sent: tools.get(name, name) for sent, name in found.undo.tools.items()}
            tools = {**tools, **earlier}
            stops = stops or found.undo.stops
            answer_tool = answer_tool or found.undo.answer_tool
            one_call = one_call or found.undo.one_call
    undo = Undo(tools=tools, stops=stops, answer_tool=answer_tool, one_call=one_call)
    return Repairs(
        request=request,
        made=tuple(dict.fromkeys(made)),
        left_out=tuple(dict.fromkeys(left_out)),
        loss=loss,
        lossy=tuple(lossy),
        undo=undo if undo != _NOTHING else None,
    )
