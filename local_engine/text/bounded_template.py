"""Chat templates that cannot take more than a bounded time and memory; no torch here.

A template is a program that comes with a model. jinja2's sandbox keeps it from files and Python's
internals, but not from loops without an end and from texts of gigabytes. Here every turn of a loop
and every call of a macro looks at the time, and what an operation would build is measured first.
https://jinja.palletsprojects.com/en/stable/sandbox/
"""

# jinja2 annotates its nodes and environment in part only:
# pyright: reportUnknownMemberType=false, reportIncompatibleMethodOverride=false

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final, cast

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from strowger_gateway.local_engine.text.template_meter import (
    METER,
    SECONDS,
    Meter,
    check_digits,
    check_format,
    check_join,
    check_replace,
    check_width,
    measure,
    number_in,
    product,
    text_of_value,
)

_TAKES: Final = "jinja_pass_arg"
"""jinja2's mark of a filter whose first argument is the environment or context."""

_PADDING: Final = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs", "to_bytes"})
_BUILDERS: Final = frozenset({"dict", "Namespace", "fromkeys"})
_CHECKED: Final = _PADDING | _BUILDERS | {"replace", "join"}
"""Names of what can build much from little."""


class BoundedTemplate:
    """One chat template, compiled. Safe to call from any thread."""

    def __init__(
        self,
        source: str,
        now: Callable[[], datetime] = datetime.now,
        *,
        seconds: float = SECONDS,
    ) -> None:
        """now: local time, for `strftime_now`. seconds: of processor time for one conversation.

        Raises jinja2.TemplateSyntaxError.
        """
        self._seconds = seconds
        environment = _Environment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
        )
        environment.filters |= _filters(environment.filters)
        names = cast("dict[str, object]", environment.globals)
        names.pop("lipsum")
        names["raise_exception"] = _refuse
        names["strftime_now"] = _clock(now)
        self._template = environment.from_string(source)

    def render(self, **variables: object) -> str:
        """Raises TemplateTooLarge, and whatever the template raises."""
        token = METER.set(Meter(self._seconds))
        try:
            return self._template.render(**variables)
        finally:
            METER.reset(token)


class _Generation(Extension):
    """`{% generation %}` marks the assistant's text for training; it has no effect here."""

    tags = {"generation"}  # noqa: RUF012  an attribute of jinja2's

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, **options: object) -> None:
        super().__init__(finalize=_written, **options)  # pyright: ignore[reportArgumentType]  # forwarded

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        return cast(nodes.Template, _Metering().visit(tree))

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        # Formats are jinja2's own functions, made in `wrap_str_format`.
        unbounded = attr in ("translate", "maketrans") and isinstance(obj, str)
        return not unbounded and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: object) -> Callable[..., str] | None:
        bound = super().wrap_str_format(value)
        if bound is None:
            return None
        text = cast(str, getattr(value, "__self__", ""))

        def formatted(*args: object, **kwargs: object) -> str:
            check_format(text, (*args, *kwargs.values()))
            return bound(*args, **kwargs)

        return formatted

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        if operator == "+" and isinstance(left, str) and isinstance(right, str):
            measure().build(len(left) + len(right))
            return left + right
        meter = measure()
        if operator == "+" and isinstance(left, list | tuple):
            meter.walk(cast(object, left))
            meter.walk(right)
        elif operator == "*":
            meter.build(product(left, right))
        elif operator == "**":
            check_digits(abs(number_in(right)) * number_in(left).bit_length())
        elif operator == "%" and isinstance(left, str | bytes):
            given = cast("tuple[object, ...]", right if isinstance(right, tuple) else (right,))
            check_format(str(left), given)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, obj: object, /, *args: object, **kwargs: object) -> object:
        name = cast(object, getattr(obj, "__name__", None))
        if name in _CHECKED:
            owner = cast(object, getattr(obj, "__self__", None))
            if isinstance(owner, str | bytes | int | float):
                args = _check_call(owner, str(name), args, kwargs)
            elif name in _BUILDERS:
                for one in (*args, *kwargs.values()):
                    measure().walk(one)
        return super().call(context, obj, *args, **kwargs)


def _check_call(
    owner: object, name: str, args: tuple[object, ...], kwargs: Mapping[str, object]
) -> tuple[object, ...]:
    """Check the call of a text's or number's method; return its arguments, generators as lists."""
    if name in _PADDING:
        check_width(*args, *kwargs.values())
    elif name == "replace" and len(args) > 1:
        check_replace(str(owner), str(args[0]), str(args[1]))
    elif name == "join" and args:
        joined = list(cast(Iterable[object], args[0]))
        check_join(joined, len(str(owner)))
        return joined, *args[1:]
    return args


class _Metering(NodeTransformer):
    """Adds a look at the meter to every loop and macro, and to every literal and `~`."""

    def get_visitor(self, node: nodes.Node) -> Callable[..., nodes.Node] | None:
        match node:
            case nodes.For() | nodes.Macro() | nodes.CallBlock():
                return self._ticking
            case nodes.Tuple(ctx="store"):
                return None
            case nodes.List() | nodes.Tuple() | nodes.Dict():
                return self._measured
            case nodes.Concat():
                return self._joined
            case _:
                return None

    def _joined(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(nodes.List(node.nodes, lineno=node.lineno), "_concat")

    def _ticking(self, node: nodes.For | nodes.Macro | nodes.CallBlock) -> nodes.Node:
        self.generic_visit(node)
        own = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
        tick = _filtered(nodes.Const(own, lineno=node.lineno), "_tick")
        node.body.insert(0, nodes.ExprStmt(tick, lineno=node.lineno))
        return node

    def _measured(self, node: nodes.List | nodes.Tuple | nodes.Dict) -> nodes.Node:
        self.generic_visit(node)
        plain = all(isinstance(one, nodes.Const) for one in node.items)
        return node if plain else _filtered(node, "_literal")


def _filtered(node: nodes.Expr, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


def _filters(own: Mapping[str, Callable[..., object]]) -> dict[str, Callable[..., object]]:
    """Return the filters that can build much from little, with checks, and ours."""

    def checked(name: str, check: Callable[..., object]) -> Callable[..., object]:
        run = own[name]

        def guarded(*args: object, **kwargs: object) -> object:
            # The environment's or context's own arguments come first in some filters.
            plain = args[1:] if hasattr(run, _TAKES) else args
            check(*plain, **kwargs)
            return run(*args, **kwargs)

        if (mark := getattr(run, _TAKES, None)) is not None:
            setattr(guarded, _TAKES, mark)
        return guarded

    def widths(value: object, *args: object, **kwargs: object) -> None:
        measure().walk(value)
        check_width(*args, *kwargs.values())

    def format(value: object, *args: object, **kwargs: object) -> None:
        check_format(str(value), (*args, *kwargs.values()))

    def replace(text: object, old: object, new: object, *_: object) -> None:
        check_replace(str(text), str(old), str(new))

    def written(value: object, *_: object, **__: object) -> None:
        measure().walk(value)

    found = {name: checked(name, widths) for name in ("center", "indent", "batch", "slice")}
    found |= {name: checked(name, widths) for name in ("round", "wordwrap", "truncate")}
    found |= {name: checked(name, written) for name in ("string", "pprint", "xmlattr", "list")}
    return {
        **found,
        "format": checked("format", format),
        "replace": checked("replace", replace),
        "join": _join,
        "sum": _sum,
        "tojson": _tojson,
        "_tick": _tick,
        "_concat": _concat,
        "_literal": _literal,
    }


@jinja2.pass_context
def _tick(context: Context, written: int) -> None:
    """written: characters of the template's own text in one turn."""
    meter = measure()
    meter.turn()
    meter.build(written)


@jinja2.pass_context
def _literal(context: Context, value: object) -> object:
    measure().walk(value)
    return value


@jinja2.pass_context
def _concat(context: Context, parts: list[object]) -> str:
    texts = [text_of_value(part) for part in parts]
    measure().build(sum(map(len, texts)))
    return "".join(texts)


def _join(value: Iterable[object], d: str = "", attribute: str | int | None = None) -> str:
    if attribute is not None:
        name = str(attribute)
        value = [_member(one, name) for one in value]
    items = list(value)
    texts = [text_of_value(one) for one in items]
    measure().build(sum(map(len, texts)) + len(d) * len(texts))
    return str(d).join(texts)


def _sum(value: Iterable[object], attribute: str | int | None = None, start: object = 0) -> object:
    items = list(value)
    if attribute is not None:
        items = [_member(one, str(attribute)) for one in items]
    meter = measure()
    meter.walk(items)
    sizes = [len(cast(list[object], one)) for one in items if isinstance(one, list | tuple)]
    meter.build(len(sizes) * sum(sizes))  # each addition of lists copies what is there
    return sum(cast(list[int], items), cast(int, start))


def _member(value: object, path: str) -> object:
    for part in path.split("."):
        if isinstance(value, Mapping):
            value = cast(Mapping[str, object], value).get(part, "")
        elif isinstance(value, list | tuple) and part.isdigit():
            value = cast(list[object], value)[int(part)]
        else:
            return ""
    return value


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Encode without Jinja's HTML escapes, which models were not trained on."""
    check_width(indent)
    measure().walk(value)
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _clock(now: Callable[[], datetime]) -> Callable[[str], str]:
    return lambda form: now().strftime(form)


def _refuse(message: str) -> str:
    raise jinja2.TemplateError(message)


def _written(value: object) -> object:
    """Called with each value that the template writes."""
    text = value if isinstance(value, str) else text_of_value(value)
    measure().build(len(text))
    return text
