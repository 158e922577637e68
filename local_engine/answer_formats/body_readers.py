"""Choose how to read a call: by the first kind of body that can begin with the text."""

from strowger_gateway.local_engine.answer_formats.bracket_calls import (
    KeyedReader,
    PythonReader,
    begins_keyed,
    begins_python,
)
from strowger_gateway.local_engine.answer_formats.calls import CallReader, Functions
from strowger_gateway.local_engine.answer_formats.formats import (
    Body,
    JsonBody,
    KeyedBody,
    NamedBody,
    PythonBody,
    TaggedBody,
    ToolFormat,
)
from strowger_gateway.local_engine.answer_formats.json_calls import JsonReader, begins_json
from strowger_gateway.local_engine.answer_formats.named_calls import NamedReader, begins_named
from strowger_gateway.local_engine.answer_formats.tagged_calls import TaggedReader, begins_tagged


def reader_of(
    format: ToolFormat, text: str, functions: Functions, *, known: bool, first: bool
) -> tuple[CallReader | None, bool]:
    """Return the reader of the call that begins here, and whether more of the text is needed.

    known: only known functions are called. first: nothing but the mark is before the call; later
    calls of a format whose calls begin with a bare name have a mark of their own.
    """
    for body in format.bodies:
        if not first and _begins_with_a_name(body):
            continue
        begins = _begins(body, format, text)
        if begins:
            return _reader(body, format, functions, known=known), False
        if begins is None:
            return None, True
    return None, False


def _begins_with_a_name(body: Body) -> bool:
    return (isinstance(body, NamedBody) and not body.begin) or (
        isinstance(body, TaggedBody) and not body.call[0]
    )


def _begins(body: Body, format: ToolFormat, text: str) -> bool | None:
    match body:
        case JsonBody():
            return begins_json(text)
        case NamedBody():
            return begins_named(body, text)
        case TaggedBody():
            return begins_tagged(body, format.closes, text)
        case PythonBody():
            return begins_python(text)
        case KeyedBody():
            return begins_keyed(text)


def _reader(body: Body, format: ToolFormat, functions: Functions, *, known: bool) -> CallReader:
    match body:
        case JsonBody():
            return JsonReader(body, format.closes, functions, known=known)
        case NamedBody():
            return NamedReader(body)
        case TaggedBody():
            return TaggedReader(body, format.closes, functions)
        case PythonBody():
            return PythonReader(functions, known=known)
        case KeyedBody():
            return KeyedReader(body)
