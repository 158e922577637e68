"""In a fork: collects a file when its first test comes, because the whole suite is known already.

The process that the fork comes from has collected all tests, and the names are the same. Collecting
them in each worker takes 3.4 s of CPU, of which a worker needs a seventh.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, cast, overload

import pytest
from pluggy import HookCaller
from xdist.remote import WorkerInteractor

_Key = tuple[str, int]


class KnownTests(Sequence[pytest.Item]):
    """The tests of a session, in the order of their names; collects those of a file together."""

    def __init__(self, session: pytest.Session, names: Sequence[str]) -> None:
        self._session = session
        self._names = names
        self._keys = tuple(_keys(names))
        self._files: dict[str, pytest.Collector] = {}
        self._known: dict[_Key, pytest.Item] = {}

    def find_files(self) -> None:
        """Collect the folders, and not yet what is in files."""
        session = self._session
        everything = session.genitems

        def genitems(node: pytest.Item | pytest.Collector) -> Iterator[pytest.Item]:
            if isinstance(node, pytest.File):
                self._files[node.nodeid] = node
            else:
                yield from everything(node)

        with pytest.MonkeyPatch.context() as patch, _finishing(session):
            patch.setattr(session, "genitems", genitems)
            session.perform_collect()
            self._keep(session.items)

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, index: int) -> pytest.Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[pytest.Item]: ...
    def __getitem__(self, index: int | slice) -> pytest.Item | list[pytest.Item]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        key = self._keys[index]
        if key not in self._known:
            file = self._files.pop(key[0].partition("::")[0], None)
            if file is not None:
                self._collect(file)
        if key not in self._known:
            name = self._names[index]
            raise pytest.UsageError(f"{name} was collected before the fork, and not after it")
        return self._known[key]

    def of_file(self, file: str) -> list[pytest.Item]:
        """Return the tests of a file. file: its path, as names begin with it."""
        head = f"{file}::"
        return [self[place] for place, name in enumerate(self._names) if name.startswith(head)]

    def _collect(self, file: pytest.Collector) -> None:
        """Collect a file; hooks see a whole collection."""
        session = self._session
        session.items = list(session.genitems(file))
        session.config.hook.pytest_collection_modifyitems(
            session=session, config=session.config, items=session.items
        )
        with _finishing(session) as finish:
            finish(session=session)
        self._keep(session.items)

    def _keep(self, items: Sequence[pytest.Item]) -> None:
        self._known.update(zip(_keys([one.nodeid for one in items]), items, strict=True))
        self._session.items = cast(list[pytest.Item], self)
        self._session.testscollected = len(self)


def _keys(names: Iterable[str]) -> Iterator[_Key]:
    """Yield the names without backslashes, of which pytest writes more when it collects again.

    A number distinguishes names that are equal without them, in their order.
    """
    seen = Counter[str]()
    for name in names:
        plain = name.replace("\\", "")
        seen[plain] += 1
        yield plain, seen[plain]


class ByFile:
    """A plug-in that reports all tests to pytest-xdist at once and collects them file by file."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names: Final = names

    @pytest.hookimpl
    def pytest_collection(self, session: pytest.Session) -> bool:
        """Let the session know its tests in place of collecting them."""
        KnownTests(session, self._names).find_files()
        _interactor(session).sendevent(
            "collectionfinish", topdir=str(session.config.rootpath), ids=list(self._names)
        )
        return True


def tests_of(session: pytest.Session, file: str) -> list[pytest.Item]:
    """Return the tests of a file that this run has. file: its path, as names begin with it."""
    items: Sequence[pytest.Item] = session.items
    if isinstance(items, KnownTests):
        return items.of_file(file)
    return [one for one in items if one.nodeid.startswith(f"{file}::")]


@contextmanager
def _finishing(session: pytest.Session) -> Generator[HookCaller]:
    """Within, pytest-xdist, which sends all names, does not see that a collection is finished."""
    config, name = session.config, "pytest_collection_finish"
    others = config.pluginmanager.subset_hook_caller(name, [_interactor(session)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config.hook, name, others)
        yield others


def _interactor(session: pytest.Session) -> WorkerInteractor:
    """Pytest-xdist's plug-in in this worker."""
    plugins = session.config.pluginmanager.get_plugins()
    # Its module is executed in the worker, not imported, so the class is another one.
    found = next(one for one in plugins if type(one).__name__ == WorkerInteractor.__name__)
    return cast(WorkerInteractor, found)
