"""Read the files of `prompts`, and give experiments the texts that their variants name."""

import re
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path as FilePath
from typing import Final

from msgspec.structs import replace

from strowger_gateway.gateway.config.problems import Found, Path, Problems, nearest
from strowger_gateway.gateway.config.prompts.template import InvalidTemplate, parse_template
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.experiment import Experiment, Variant
from strowger_gateway.gateway.config.schema.prompts.section import Prompt, PromptVersion
from strowger_gateway.gateway.config.schema.units import MIB
from strowger_gateway.gateway.config.text_files import LARGEST, TooLarge, read_text

_DIGEST_BYTES: Final = 6
_STATEMENT: Final = re.compile(r"\{%.{0,60}?%\}")


def with_prompts(config: Config, problems: Problems) -> Config:
    """Return the configuration with the texts of its prompts, also in the variants that name them.

    Records files that cannot be read, texts that are no templates, and names that do not exist.
    """
    prompts = tuple(
        replace(
            prompt,
            versions=tuple(
                _read(version, ("prompts", at, "versions", place), problems)
                for place, version in enumerate(prompt.versions)
            ),
        )
        for at, prompt in enumerate(config.prompts)
    )
    known = {prompt.name: prompt for prompt in prompts}
    backends = {
        model.name: f"{model.backends[0].provider}/{model.backends[0].model}"
        for model in config.models
        if len(model.backends) == 1
    }
    experiments = tuple(
        _with_variants(one, backends.get(one.model, ""), known, ("experiments", at), problems)
        for at, one in enumerate(config.experiments)
    )
    return replace(config, prompts=prompts, experiments=experiments)


def digest_of(text: str) -> str:
    """Return twelve hexadecimal digits, in which two texts of one version differ."""
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _read(version: PromptVersion, path: Path, problems: Problems) -> PromptVersion:
    """Return the version with its text, which is "" if there is a fault."""
    place = (*path, "file")
    if problems.at(place):
        return version
    file = FilePath(version.file)
    try:
        text = read_text(file)
    except FileNotFoundError:
        problems.add(place, Found(str(file)), " cannot be read: no such file or folder")
        return version
    except OSError as exc:
        problems.add(place, Found(str(file)), f" cannot be read: {exc.strerror}")
        return version
    except TooLarge:
        problems.add(place, Found(str(file)), f" is larger than {LARGEST // MIB} MiB")
        return version
    except UnicodeDecodeError as exc:
        problems.add(place, Found(str(file)), f" is not UTF-8 text: see its byte {exc.start}")
        return version
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    try:
        parse_template(text)
    except InvalidTemplate as exc:
        for fault in exc.faults:
            problems.add(place, f"{file}:{fault.line}:{fault.column}: {fault.what}")
        return version
    _warn_statements(text, file, place, problems)
    return replace(version, text=text, digest=digest_of(text))


def _warn_statements(text: str, file: FilePath, place: Path, problems: Problems) -> None:
    found = _STATEMENT.search(text)
    if found is not None:
        line = text.count("\n", 0, found.start()) + 1
        problems.warn(
            place,
            f"{file}:{line}: ",
            Found(found[0]),
            " looks like a statement of Jinja, and is sent to the model as it is; templates have "
            "only fields",
        )


def _with_variants(
    experiment: Experiment,
    backend: str,
    prompts: Mapping[str, Prompt],
    path: Path,
    problems: Problems,
) -> Experiment:
    """backend: the model's only one, or ""."""
    variants = tuple(
        _with_text(
            one if one.backend or not one.prompt else replace(one, backend=backend),
            prompts,
            (*path, "variants", place),
            problems,
        )
        for place, one in enumerate(experiment.variants)
    )
    return replace(experiment, variants=variants)


def _with_text(
    variant: Variant, prompts: Mapping[str, Prompt], path: Path, problems: Problems
) -> Variant:
    if not variant.backend and not problems.at((*path, "backend")):
        why = f": {variant.prompt} does not say which of the model's backends"
        told = "is missing; give PROVIDER/MODEL"
        problems.add((*path, "backend"), told + (why if variant.prompt else ""))
    place = (*path, "prompt")
    if not variant.prompt or problems.at(place):
        return variant
    name, _, version = variant.prompt.partition("@")
    prompt = prompts.get(name)
    if prompt is None:
        hint = nearest(name, prompts) or "; prompts is empty"
        problems.add(place, "no prompt is named ", Found(name), hint)
        return variant
    found = prompt.version(version)
    if found is None:
        names = [one.name for one in prompt.versions]
        problems.add(
            place, f"{name} has no version ", Found(version), nearest(version, names, "versions:")
        )
        return variant
    return replace(variant, prompt_text=found.text, prompt_digest=found.digest)
