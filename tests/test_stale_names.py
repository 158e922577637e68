"""Docs, docstrings and comments mention only files, attributes, parameters and names that exist."""

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tools.statements import statements

ROOT = Path(__file__).parent.parent
PACKAGES = ("adapters", "gateway", "local_engine", "schemas")
CODE = {".py", ".toml", ".yaml", ".yml", ".json", ".html", ".js", ".css", ".sh", ".tpl", ""}
GENERATED = ("docs/reference/", "docs/config.schema.json")
HERE = "tests/test_stale_names.py"
HISTORY = ("CHANGELOG.md", "changelog.d/", "docs/field-log.md", "docs/engine-families.md")
"""What once was, and lists of names of others."""

OTHERS_FILES = frozenset(
    {
        "attention/attention_v1.py",  # vllm-ascend
        "examples/hf_lora_convert.py",  # TensorRT-LLM
    }
)
OTHERS_NAMES = frozenset(
    {
        "accumulate_tokens",  # tensorrt_llm_bls
        "additional_tools",  # a field of Codex
        "cache_prompt",  # llama.cpp
        "connection_limit",  # Prisma, in LiteLLM's database_url
        "context_length_exceeded_behavior",  # Fireworks
        "difflib.SequenceMatcher.ratio",  # Python
        "dry_multiplier",  # llama.cpp
        "embedding_type",  # Jina
        "encode_special_tokens",  # Hugging Face
        "ext_proc",  # Envoy
        "ignore_startup_parameters",  # PgBouncer
        "internal_chat_message_metadata_passthrough",  # a field of Codex
        "is_global",  # Python's ipaddress
        "limit_conn",  # nginx
        "LlmProviders",  # LiteLLM
        "logrotate",  # Debian
        "malloc_info",  # glibc
        "maxIterTimes",  # MindIE
        "meta_info",  # SGLang
        "mod_reqtimeout",  # Apache
        "pg_dump",  # PostgreSQL
        "proxy_read_timeout",  # nginx
        "reasoning_format",  # Groq
        "SSLSocket.getpeercert",  # Python
        "stream_idle_timeout_ms",  # Codex
        "tcp_keepalive",  # Linux
        "unittest",  # Python
        "url_context_metadata",  # a field of Gemini
        "worker_connections",  # nginx
        "x5u",  # RFC 7515
    }
)
"""Names of other programs that our code does not use, and texts explain."""

PATTERNS = frozenset(
    {"ID__thought__SIGNATURE", "_SERVICE._PROTOCOL.NAME", "strowger_otlp_ITEMS_total"}
)
"""Names with a placeholder."""

PROSE = re.compile(
    r'''"""(?:[^\\]|\\.)*?"""|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|#[^\n]*''', re.DOTALL
)
WORD = re.compile(r"\w+")
FILE = re.compile(r"(?<![\w/.*@-])((?:[\w-]+/)*[\w-]+\.py)\b")
"""A Python file of ours: what follows a host or a placeholder is not."""

NAME = re.compile(r"`([A-Za-z_]\w*(?:\.\w+)*)(?:\(\))?`")
ON_PAGES = re.compile(r"`([a-z]+_\w+|[A-Za-z_]\w*(?:\.\w+)*(?=\(\)))(?:\(\))?`")
"""Words with underscores and functions: other words in quotes are values, options, or English."""

METHOD = re.compile(r"(?<![\w.])([A-Z]\w+)\.([a-z_]\w*)\b")
LABEL = re.compile(r"(?:^|[.:]\s+|\n\s*\n\s*)((?:[a-z_]\w*, )*[a-z_]\w*):\s", re.DOTALL)
"""What a docstring documents: `name: text` or `one, other: text` at the begin of a sentence."""


@cache
def tracked() -> tuple[str, ...]:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = (ROOT / name for name in listed.stdout.splitlines())
    return tuple(
        str(path.relative_to(ROOT)) for path in paths if path.is_file() and not path.is_symlink()
    )


@cache
def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8", errors="replace")


def described(token: str) -> bool:
    """Whether it is a docstring or a comment: other strings are data."""
    return token.startswith(('"""', "#"))


def explanations(name: str) -> str:
    """What a file explains: a page, or the docstrings and comments of code."""
    if not name.endswith(".py"):
        return text(name)
    return "\n".join(filter(described, PROSE.findall(text(name))))


def explained() -> Iterator[str]:
    """The files whose explanations have to be true: pages, and code that is not a test."""
    for name in tracked():
        if name.startswith((*GENERATED, *HISTORY, "tests/")):
            continue
        if name.endswith((".md", ".py")) or name == "Makefile":
            yield name


@cache
def words() -> frozenset[str]:
    """All words of code, configuration and data, without docstrings and comments."""
    found: set[str] = set()
    for name in tracked():
        if Path(name).suffix not in CODE or name.startswith((*GENERATED, HERE)):
            continue
        code = text(name)
        if name.endswith(".py"):
            code = PROSE.sub(lambda token: " " if described(token[0]) else token[0], code)
        found.update(WORD.findall(code))
    return frozenset(found)


def missing_files(page: str) -> list[str]:
    """The Python files that a text names and that no path in the repository ends with."""
    ends = path_ends()
    return [name for name in FILE.findall(page) if name not in ends and name not in OTHERS_FILES]


@cache
def path_ends() -> frozenset[str]:
    parts = [name.split("/") for name in tracked()]
    return frozenset("/".join(path[start:]) for path in parts for start in range(len(path)))


def test_files_that_texts_name_exist() -> None:
    found = [(name, file) for name in explained() for file in missing_files(explanations(name))]

    assert found == []


@cache
def metrics() -> tuple[str, ...]:
    return tuple(re.findall(r"`(strowger_\w+)`", text("docs/reference/metrics.md")))


def exists(part: str) -> bool:
    """A word of the code, or a metric's name, of which pages omit the begin."""
    known = {part, part.removesuffix("_total")} & words()
    return bool(known) or any(metric.endswith(f"_{part}") for metric in metrics())


def missing_names(found: Iterable[str]) -> list[str]:
    """The names of which a part exists nowhere in the code."""
    return [
        name
        for name in found
        if name not in OTHERS_NAMES | PATTERNS and not all(map(exists, name.split(".")))
    ]


def test_names_that_docstrings_and_comments_quote_exist_in_the_code() -> None:
    found = [
        (name, quoted)
        for name in explained()
        if name.endswith(".py")
        for quoted in missing_names(NAME.findall(explanations(name)))
    ]

    assert found == []


def test_names_with_underscores_and_functions_that_pages_quote_exist_in_the_code() -> None:
    found = [
        (name, quoted)
        for name in explained()
        if name.endswith(".md")
        for quoted in missing_names(ON_PAGES.findall(text(name)))
    ]

    assert found == []


Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Described:
    """A class or function with its docstring and the words of its code, which has no docstring."""

    def __init__(self, file: str, node: Definition) -> None:
        self.place = f"{file}:{node.lineno} {node.name}"
        self.name = node.name
        self.docstring = ast.get_docstring(node) or ""
        lines = text(file).splitlines()
        first = node.body[0]
        own = lines[node.lineno - 1 : first.lineno - 1] + lines[first.end_lineno : node.end_lineno]
        self.words = set(WORD.findall("\n".join(own)))
        bases = node.bases if isinstance(node, ast.ClassDef) else []
        self.bases = {word for base in bases for word in WORD.findall(ast.unparse(base))}
        self.is_class = isinstance(node, ast.ClassDef)


@cache
def definitions() -> tuple[Described, ...]:
    return tuple(
        Described(name, node)
        for name in tracked()
        if name.endswith(".py") and name.startswith(tuple(f"{one}/" for one in PACKAGES))
        for node in statements(ast.parse(text(name)))
        if isinstance(node, Definition) and ast.get_docstring(node)
    )


@cache
def classes() -> dict[str, list[Described]]:
    found: dict[str, list[Described]] = {}
    for one in definitions():
        if one.is_class:
            found.setdefault(one.name, []).append(one)
    return found


def inherited(one: Described, seen: frozenset[str] = frozenset()) -> set[str]:
    """The words of a class and of those of ours that it inherits from."""
    found = set(one.words)
    for base in one.bases - seen:
        for other in classes().get(base, ()):
            found |= inherited(other, seen | {one.name})
    return found


def labels(docstring: str) -> list[str]:
    return [label for group in LABEL.findall(docstring) for label in group.split(", ")]


def undocumented(docstring: str, known: set[str]) -> list[str]:
    """The names that a docstring documents and that are not known; private ones may be."""
    return [name for name in labels(docstring) if not {name, f"_{name}"} & known]


def test_docstrings_document_only_attributes_and_parameters_that_exist() -> None:
    found = [
        (one.place, name)
        for one in definitions()
        for name in undocumented(one.docstring, inherited(one) if one.is_class else one.words)
    ]

    assert found == []


def test_methods_that_texts_name_exist() -> None:
    found = [
        (name, f"{cls}.{method}")
        for name in explained()
        for cls, method in METHOD.findall(explanations(name))
        if cls in classes() and not any(method in inherited(one) for one in classes()[cls])
    ]

    assert found == []


@pytest.mark.parametrize(
    "page", ["see `gateway/no_such_file.py`", "in intervals.py", "# ours are in resources/none.py"]
)
def test_a_file_that_does_not_exist_is_found(page: str) -> None:
    assert missing_files(page) != []


@pytest.mark.parametrize(
    "page", ["https://github.com/a/b/c/none.py", "`adapters/registry.py`", "tests/*/test_none.py"]
)
def test_files_of_others_and_files_that_exist_are_not_found(page: str) -> None:
    assert missing_files(page) == []


@pytest.mark.parametrize(
    ("docstring", "names"),
    [
        ("Times in seconds.\n\nqueue: until it begins. prefill: until the first.", 2),
        ("A view.\n\ncode, message: of a failure.", 2),
        ("None of them; of these\nqueue: is prose.", 0),
    ],
)
def test_what_a_docstring_documents_is_found(docstring: str, names: int) -> None:
    assert len(undocumented(docstring, set())) == names


def test_a_name_that_is_nowhere_is_found() -> None:
    assert missing_names(["no_such_" + "name", "Gateway.no_such_" + "name"]) != []
