"""Read what a page shows: its text, the fields of its forms, a new secret."""

import re
from datetime import UTC, datetime
from html import unescape

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)


def text_of(html: str) -> str:
    """The text of a page, with single spaces."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def fields_of(html: str, action: str) -> dict[str, str]:
    """The fields of the form that posts to a path, with what they contain, as a browser sends."""
    form = re.search(
        rf'<form method="post" action="{re.escape(action)}">(.*?)</form>', html, re.DOTALL
    )
    assert form is not None, f"no form posts to {action}"
    fields: dict[str, str] = {}
    for tag in re.findall(r"<input [^>]*>", form[1], re.DOTALL):
        given = dict(re.findall(r'([\w-]+)="([^"]*)"', tag))
        if given.get("type") != "checkbox":
            fields[given["name"]] = unescape(given.get("value", ""))
    for name, inside in re.findall(r'<select name="(\w+)">(.*?)</select>', form[1], re.DOTALL):
        values = re.findall(r'<option value="([^"]*)"( selected)?>', inside)
        chosen = [value for value, selected in values if selected] or [values[0][0]]
        fields[name] = unescape(chosen[0])
    return fields


def secret_in(html: str) -> str:
    found = re.search(r"sk-strw-[0-9A-Za-z]{49}", html)
    assert found is not None, text_of(html)
    return found[0]
