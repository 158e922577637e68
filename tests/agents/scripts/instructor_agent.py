"""instructor: python FILE URL MODEL TASK chat|messages. JOB: in the environment.

Every step of the work is a structured answer, which the script carries out.
"""

# pyright: basic, reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false

import os
import sys
from typing import Literal

import anthropic
import instructor
from instructor.processing.multimodal import PDF
from pydantic import BaseModel, Field
from work import read_text, replace_text, run_command


class Step(BaseModel):
    """The next step of the work: read or replace a text, run a command, or say the result."""

    kind: Literal["read", "replace", "run", "say"]
    file: str = Field(default="", max_length=500)
    before: str = ""
    after: str = ""
    command: str = ""
    text: str = Field(default="", description="what to say", max_length=2000)


def done(step: Step) -> str:
    match step.kind:
        case "read":
            return read_text(step.file)
        case "replace":
            return replace_text(step.file, step.before, step.after)
        case _:
            return run_command(step.command)


def main(url: str, name: str, task: str, api: str) -> None:
    if api == "messages":
        client = instructor.from_anthropic(anthropic.Anthropic(base_url=url, api_key="k"))
        more = {"model": name, "max_tokens": 1000}
    else:
        client = instructor.from_provider(f"openai/{name}", base_url=f"{url}/v1", api_key="k")
        more = {}
    content = [task, PDF.from_path("prices.pdf")] if os.environ["JOB"] == "pdf" else task
    messages = [{"role": "user", "content": content}]
    for _ in range(10):
        step = client.create(response_model=Step, messages=messages, **more)
        if step.kind == "say":
            print(step.text)
            return
        messages.append({"role": "assistant", "content": step.model_dump_json()})
        messages.append({"role": "user", "content": f"It gave: {done(step)}"})


main(*sys.argv[1:])
