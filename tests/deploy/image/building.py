"""Build the images with buildah, on a base of Debian's packages, and run them with bubblewrap.

No registry is needed: mmdebstrap makes the base from the mirrors that apt uses on this machine, and
deploy/image/wheels.sh downloads the packages before the build.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from tests.deploy.image.dockerfile import ROOT, inherited, last

TOOLS = ("buildah", "mmdebstrap", "bwrap", "setpriv", "nsenter")
USER = 65532
BASE = "localhost/strowger-test-base"
SLIM = ("doc", "man", "locale", "info")
"""Folders below /usr/share that slim images lack."""
STATE = "/var/lib/strowger"
READY_S = 300.0


def missing() -> str:
    """Why no image can be built here; empty if one can."""
    if os.geteuid() != 0:
        return "buildah's chroot isolation needs root"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""


def called(*command: str | Path, **environment: str) -> str:
    """Run a command, which must succeed. Returns its standard output."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout.strip()


class Builder:
    """A store of images in a folder, and the context that they are built from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._context = folder / "context"

    def buildah(self, *words: str | Path) -> str:
        own = ("--root", self.folder / "store", "--runroot", self.folder / "run")
        return called("buildah", *own, *words)

    def prepare(self) -> None:
        """Make the base image and the context; download the packages of both images."""
        archive = self.folder / "base.tar"
        excluded = (f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in SLIM)
        called(
            *("mmdebstrap", "--variant=minbase", "--aptopt=APT::Install-Recommends 0"),
            *excluded,
            # Else usrmerge and all of Perl are installed to merge what is merged from the start.
            "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
            f"--setup-hook={_WITHOUT_USRMERGE}",
            *("--include=python3-venv,ca-certificates", "bookworm", archive),
        )
        container = self.buildah("from", "scratch")
        self.buildah("add", "--quiet", container, archive, "/")
        self.buildah("commit", "--quiet", "--rm", container, BASE)
        archive.unlink()
        files = called("git", "ls-files", "--cached", "--others", "--exclude-standard").splitlines()
        for file in files:
            if not file.startswith(("docs/", "tests/", "benchmarks/")):
                target = self._context / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, target)
        wheels = self._context / "requirements" / "wheels"
        called("sh", "deploy/image/wheels.sh", "engine", wheels, PYTHON=sys.executable)

    def build(self, target: str) -> "Image":
        base = ("--build-arg", f"BASE={BASE}", "--target", target)
        options = ("--isolation", "chroot", "--format", "docker", "--quiet")
        self.buildah("bud", *options, *base, "--tag", f"localhost/{target}", self._context)
        return Image(builder=self, target=target)


_WITHOUT_USRMERGE = (
    'mkdir -p "$1"/etc/apt/preferences.d && printf '
    '"Package: usrmerge\\nPin: release *\\nPin-Priority: -1\\n" '
    '>"$1"/etc/apt/preferences.d/merged'
)


class Image(Struct, frozen=True, kw_only=True, dict=True):
    """A built image."""

    builder: Builder
    target: str

    @cached_property
    def root(self) -> Path:
        """Its file system, mounted; other users may read it."""
        container = self.builder.buildah("from", f"localhost/{self.target}")
        mounted = Path(self.builder.buildah("mount", container))
        for folder in mounted.parents:
            if folder.is_relative_to(self.builder.folder):
                folder.chmod(0o711)
        return mounted

    def layers(self) -> list[int]:
        """Compressed sizes in bytes, as a registry stores them: gzip, from the base on."""
        folder = self.builder.folder / f"oci-{self.target}"
        folder.mkdir()
        self.builder.buildah("push", "--quiet", f"localhost/{self.target}", f"oci:{folder}:it")
        index = json.loads((folder / "index.json").read_text())
        digest = index["manifests"][0]["digest"].removeprefix("sha256:")
        manifest = json.loads((folder / "blobs" / "sha256" / digest).read_text())
        return [layer["size"] for layer in manifest["layers"]]

    def environment(self) -> dict[str, str]:
        """What its ENV instructions set."""
        found: dict[str, str] = {}
        for one in inherited(self.target):
            if one.name == "ENV":
                for pair in one.words:
                    name, _, value = pair.partition("=")
                    found[name] = value
        return found

    @contextmanager
    def running(self, state: Path, **environment: str) -> Generator["Container", None, None]:
        """Run it read-only, as its user, without a network; process 1 is its entry point."""
        state.mkdir(exist_ok=True)
        os.chown(state, USER, USER)
        variables = {**self.environment(), **environment}
        log = (state.parent / f"{self.target}.log").open("wb")
        process = subprocess.Popen(
            [
                *("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"),
                *("--no-new-privs", "bwrap", "--unshare-all", "--as-pid-1", "--die-with-parent"),
                *("--ro-bind", str(self.root), "/", "--proc", "/proc", "--dev", "/dev"),
                *("--bind", str(state), STATE, "--chdir", STATE, "--clearenv"),
                *(word for pair in variables.items() for word in ("--setenv", *pair)),
                *("--", *last(self.target, "ENTRYPOINT").words, *last(self.target, "CMD").words),
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield Container(process=process, log=Path(log.name), variables=variables)
        finally:
            process.kill()
            process.wait()
            log.close()


class Container(Struct, frozen=True, kw_only=True):
    """A running image. process: bubblewrap, which ends with process 1 and its status."""

    process: subprocess.Popen[bytes]
    log: Path
    variables: dict[str, str]

    def first(self) -> int:
        """The process id, outside, of process 1 inside."""
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            children = children_of(self.process.pid)
            if children and b"dumb-init" in Path(f"/proc/{children[0]}/cmdline").read_bytes():
                return children[0]
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise TimeoutError(self.log.read_text())

    def inside(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the container, as `docker exec` does."""
        entered = ("nsenter", "--all", f"--target={self.first()}", f"--setuid={USER}")
        variables = (f"{name}={value}" for name, value in self.variables.items())
        return subprocess.run(
            [*entered, f"--setgid={USER}", "env", "-i", *variables, *command],
            capture_output=True,
            text=True,
            check=False,
        )

    def healthy(self) -> str:
        """Wait until `strowger health` succeeds. Returns what it said."""
        deadline = time.monotonic() + READY_S
        while True:
            found = self.inside("/opt/strowger/bin/strowger", "health")
            if found.returncode == 0:
                return found.stdout
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.5)


def children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


@contextmanager
def builder() -> Generator[Builder, None, None]:
    """A store that other users may traverse; removed with its mounts afterwards."""
    with TemporaryDirectory(prefix="strowger-image-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o711)
        made = Builder(Path(folder))
        try:
            made.prepare()
            yield made
        finally:
            made.buildah("umount", "--all")
            made.buildah("rm", "--all")
            made.buildah("rmi", "--all", "--force")
