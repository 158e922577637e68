"""Several Redis servers of the tests: a master with Sentinels, and a Cluster."""

import shutil
import subprocess
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.stand_ins.redis_server import SOON_S, RedisServer, running_redis

SERVICE = "strowger"
_FORMED_S = 6 * SOON_S


def redis_cli(port: int, *words: str) -> str:
    """The answer of a server to a command, as redis-cli prints it to a pipe; "" if none."""
    command = ("redis-cli", "-h", "127.0.0.1", "-p", str(port), *words)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SOON_S, check=False)
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout.strip()


def until(done: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _FORMED_S
    while not done():
        assert time.monotonic() < end, what
        time.sleep(0.05)


class Watched:
    """A master and a replica, watched by three Sentinels."""

    def __init__(self, servers: Sequence[RedisServer], sentinels: Sequence[RedisServer]) -> None:
        self.servers = servers
        self.sentinels = sentinels
        places = ",".join(f"127.0.0.1:{one.port}" for one in sentinels)
        self.url = f"redis+sentinel://{places}/{SERVICE}/0"

    def master(self) -> RedisServer:
        """The master as the Sentinels name it."""
        for sentinel in self.sentinels:
            words = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
            found = redis_cli(sentinel.port, *words).split()
            for server in self.servers:
                if found[1:] == [str(server.port)]:
                    return server
        raise AssertionError("the Sentinels know no master")

    def formed(self) -> bool:
        """True if every Sentinel knows the two others and a replica in sync."""
        return all(self._knows_all(sentinel) for sentinel in self.sentinels)

    def _knows_all(self, sentinel: RedisServer) -> bool:
        lines = redis_cli(sentinel.port, "SENTINEL", "MASTER", SERVICE).splitlines()
        known = dict(zip(lines[::2], lines[1::2], strict=False))
        replicas = redis_cli(sentinel.port, "SENTINEL", "REPLICAS", SERVICE)
        return (known.get("num-other-sentinels"), known.get("num-slaves"), known.get("flags")) == (
            "2",
            "1",
            "master",
        ) and "master-link-status\nok" in replicas


class Cluster:
    """Three masters, each with a replica."""

    def __init__(self, servers: Sequence[RedisServer]) -> None:
        self.servers = servers
        places = ",".join(f"127.0.0.1:{one.port}" for one in servers[:3])
        self.url = f"redis+cluster://{places}"

    def master_of(self, key: str) -> RedisServer:
        """The server that has the slot of a key."""
        for server in self.servers:
            slot = redis_cli(server.port, "CLUSTER", "KEYSLOT", key)
            if slot:
                break
        else:
            raise AssertionError("no server answers")
        for line in redis_cli(server.port, "CLUSTER", "NODES").splitlines():
            (
                _,
                address,
                flags,
                *_,
            ) = line.split()
            ranges = [one.partition("-") for one in line.split()[8:] if not one.startswith("[")]
            if "fail" not in flags and any(
                int(low) <= int(slot) <= int(high or low) for low, _, high in ranges
            ):
                port = int(address.partition("@")[0].rpartition(":")[2])
                return next(one for one in self.servers if one.port == port)
        raise AssertionError("the slot belongs to no server")

    def keys(self) -> dict[int, list[str]]:
        """The keys of each master that answers, by its port."""
        found: dict[int, list[str]] = {}
        for server in self.servers:
            if redis_cli(server.port, "ROLE").startswith("master"):
                found[server.port] = redis_cli(server.port, "KEYS", "*").split()
        return found

    def formed(self) -> bool:
        """True if there are three masters and three replicas in sync, and all know it.

        A killed master that is back takes itself for a master until others contradict.
        """
        roles = [redis_cli(server.port, "INFO", "REPLICATION") for server in self.servers]
        masters = sum("role:master" in one and "connected_slaves:1" in one for one in roles)
        linked = sum("master_link_status:up" in one for one in roles)
        return (masters, linked) == (3, 3) and all(self._agrees(one) for one in self.servers)

    def _agrees(self, server: RedisServer) -> bool:
        info = redis_cli(server.port, "CLUSTER", "INFO")
        nodes = redis_cli(server.port, "CLUSTER", "NODES")
        return "cluster_state:ok" in info and nodes.count("slave ") == 3 and "fail" not in nodes


@contextmanager
def running_sentinels() -> Generator[Watched]:
    """Run the servers until the block ends; the failover begins after 0.6 s of silence."""
    with running_redis() as master, TemporaryDirectory(prefix="strowger-sentinel-") as folder:
        with running_redis("--replicaof", "127.0.0.1", str(master.port)) as replica:
            sentinels = [_sentinel(Path(folder) / str(at), master) for at in range(3)]
            try:
                for one in sentinels:
                    one.start()
                watched = Watched((master, replica), sentinels)
                until(watched.formed, "the Sentinels do not find each other")
                yield watched
            finally:
                for one in sentinels:
                    one.kill()


def _sentinel(folder: Path, master: RedisServer) -> RedisServer:
    program = shutil.which("redis-server")
    assert program is not None
    folder.mkdir()
    file = folder / "sentinel.conf"
    file.write_text(
        f"sentinel monitor {SERVICE} 127.0.0.1 {master.port} 2\n"
        f"sentinel down-after-milliseconds {SERVICE} 600\n"
        f"sentinel failover-timeout {SERVICE} 3000\n"
    )
    return RedisServer(program, folder, ("--sentinel",), config=file)


@contextmanager
def running_cluster() -> Generator[Cluster]:
    """Run the servers until the block ends; the failover begins after a second of silence."""
    if shutil.which("redis-server") is None:
        pytest.skip("Redis is not installed (on Debian: apt-get install redis-server)")
    with TemporaryDirectory(prefix="strowger-cluster-") as folder:
        servers = [_node(Path(folder) / str(at)) for at in range(6)]
        try:
            for one in servers:
                one.start()
            places = [f"127.0.0.1:{one.port}" for one in servers]
            create = ("redis-cli", "--cluster", "create", *places, "--cluster-replicas", "1")
            made = subprocess.run(
                (*create, "--cluster-yes"), capture_output=True, text=True, check=False
            )
            assert made.returncode == 0, made.stdout + made.stderr
            cluster = Cluster(servers)
            until(cluster.formed, "the Cluster does not form")
            yield cluster
        finally:
            for one in servers:
                one.kill()


def _node(folder: Path) -> RedisServer:
    program = shutil.which("redis-server")
    assert program is not None
    folder.mkdir()
    options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000")
    return RedisServer(program, folder, options, bus=True)
