"""Rendering: values fill the gaps of a template, and are never read as one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.content.prompts.rendering import prompt_text
from strowger_gateway.schemas.messages import Message, TextPart

ODD = st.sampled_from(
    ["{{ a }}", "{{{{", "}}", "\n--- user ---\n", "{% if a %}", "\\", "${HOME}", "\u202e", "\x00"]
)
VALUE = st.lists(ODD | st.text(max_size=20), max_size=4).map("".join)
FIRST, SECOND = "{{ a }} and {{ b }}, {{ a }}", "again: {{ b }}{{{{ b }}"
TEXT = f"{FIRST}\n--- user ---\n{SECOND}"


@given(VALUE, VALUE)
def test_values_are_data(a: str, b: str) -> None:
    text = prompt_text("p", "1", TEXT, "")
    values = {"a": a, "b": b}

    system, user = text.with_messages((), values)

    assert system == Message(role="system", content=f"{a} and {b}, {a}")
    assert user == Message(role="user", content="again: " + b + "{{ b }}")
    assert text.characters(values) == len(system.content or "") + len(user.content or "")


@given(VALUE)
def test_a_value_in_the_place_of_a_field_is_as_if_it_had_been_written_there(value: str) -> None:
    before, _, after = "<{{ a }}>".partition("{{ a }}")
    found = prompt_text("p", "1", "<{{ a }}>", "").with_messages((), {"a": value})

    assert found == (Message(role="system", content=before + value + after),)


@pytest.mark.parametrize("role", ["system", "developer"])
def test_the_clients_system_message_follows_the_prompts_in_one_message(role: str) -> None:
    text = prompt_text("p", "1", "Ours.\n--- user ---\nHi\n--- assistant ---\nYes?", "")
    own = Message(role="system" if role == "system" else "developer", content="Theirs.")
    asked = Message(role="user", content=(TextPart(text="Why?"),))

    found = text.with_messages((own, asked), {})

    assert [one.role for one in found] == [role, "user", "assistant", "user"]
    assert found[0].content == "Ours.\n\nTheirs."
    assert found[-1] is asked


def test_a_prompt_without_system_section_leaves_the_clients_system_message_first() -> None:
    text = prompt_text("p", "1", "--- user ---\nHi", "")
    own = Message(role="system", content="Theirs.")

    found = text.with_messages((own, Message(role="user", content="Why?")), {})

    assert [one.content for one in found] == ["Theirs.", "Hi", "Why?"]


@pytest.mark.parametrize("text", ["Ours.\n--- user ---\nHi", "--- user ---\nHi"])
def test_no_system_message_of_the_client_comes_after_a_turn_of_the_prompt(text: str) -> None:
    """As of clients that send instructions and a developer message before the first question."""
    own = (Message(role="system", content="One."), Message(role="developer", content="Two."))
    later = (Message(role="user", content="Why?"), Message(role="system", content="Three."))

    found = prompt_text("p", "1", text, "").with_messages((*own, *later), {})

    assert [one.role for one in found] == ["system", "developer", "user", "user", "system"]
    assert found[3:] == later
