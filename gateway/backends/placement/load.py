"""Read placement.yaml, with every fault found."""

from collections.abc import Mapping
from pathlib import Path

from strowger_gateway.gateway.backends.discovery.watch import MOST
from strowger_gateway.gateway.backends.placement.settings import Placement
from strowger_gateway.gateway.config.checks.providers import check_engine
from strowger_gateway.gateway.config.decode import Decoder
from strowger_gateway.gateway.config.interpolate import Interpolation
from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.text_files import TooLarge, read_text
from strowger_gateway.gateway.config.yaml_document import parse
from strowger_gateway.schemas.errors import InvalidConfig


def load_placement(path: Path, env: Mapping[str, str]) -> Placement:
    """Raises InvalidConfig with every fault found. Files of nodes are not looked for."""
    try:
        text = read_text(path)
    except (OSError, TooLarge, UnicodeDecodeError) as exc:
        raise InvalidConfig((f"{path}: cannot be read: {exc}",)) from exc
    problems = Problems(str(path))
    tree = parse(text, problems)
    if tree is None:
        problems.raise_if_any()
        raise InvalidConfig((f"{path}: is empty; it needs file, engine, listen, tls and ray",))
    filled = Interpolation(env, path.parent, problems).fill(tree)
    found = Decoder(path.parent, problems).struct(filled, Placement, ())
    _check(found, problems)
    problems.raise_if_any()
    return found


def _check(found: Placement, problems: Problems) -> None:
    if not problems.under(("engine",)):
        check_engine(found.engine, ("engine",), problems, here=False)
    replicas = found.replicas
    if replicas.max < replicas.min:
        problems.add(
            ("replicas", "max"), f"is less than replicas.min, {replicas.min}; give at least that"
        )
    if replicas.max > MOST:
        problems.add(("replicas", "max"), f"is over {MOST}, the most replicas of one provider")
    if not problems.at(("ray", "resources")) and not found.ray.resources:
        problems.add(("ray", "resources"), "is empty; give what an engine needs, as {NPU: 1}")
    if not problems.at(("listen",)):
        _check_listen(found, problems)
    for name in ("cert", "key", "ca"):
        if not problems.at(("tls", name)) and not Path(getattr(found.tls, name)).is_file():
            problems.add(("tls", name), f"no such file: {getattr(found.tls, name)}")
    if not problems.at(("file",)) and not Path(found.file).parent.is_dir():
        problems.add(("file",), f"there is no folder {Path(found.file).parent}; create it")


def _check_listen(found: Placement, problems: Problems) -> None:
    ports = found.listen.ports
    if ports is not None and (len(ports) != 2 or not 0 < ports[0] <= ports[1]):
        problems.add(("listen", "ports"), "give the first and the last port, as [9000, 9031]")
    for name in ("cert", "key", "ca"):
        node_path = str(getattr(found.listen, name))
        if node_path and not node_path.startswith("/"):
            problems.add(
                ("listen", name), "is a file of each node; give its whole path, which begins with /"
            )
