"""`make demo`: serve config.yaml, run the simulated crowd, and print the report.

On a terminal the gateway keeps running until Ctrl-C, so that you can look at its page.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import crowd
import httpx
from rich.console import Console

HERE = Path(__file__).resolve().parent
STROWGER = (sys.executable, "-m", "strowger_gateway.gateway.cli")
READY_S = 180.0

console = Console()


def main() -> int:
    """Returns the exit status of the crowd."""
    parser = argparse.ArgumentParser(description="An A/B test of two bundled models.")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--people", type=int, default=2_000, help="maximum number of people")
    parser.add_argument("--seed", type=int, default=1, help="seed of the crowd")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="strowger-demo-") as folder:
        env = {**os.environ, "DEMO_FOLDER": folder}
        url = f"http://127.0.0.1:{arguments.port}"
        with gateway(url, arguments.port, env):
            console.print(f"Admin page with the live chart: [bold]{url}/admin[/] (key: demo)")
            settings = crowd.Settings(
                url=url,
                people=arguments.people,
                seed=arguments.seed,
                admin_key=env.get("STROWGER_ADMIN_KEY", "demo"),
                key="",
            )
            status = asyncio.run(crowd.run(settings))
            report = (*STROWGER, "experiments", "report", crowd.EXPERIMENT)
            subprocess.run([*report, "--config", str(HERE / "config.yaml")], env=env, check=True)
            if sys.stdout.isatty():
                wait_for_ctrl_c()
    return status


@contextmanager
def gateway(url: str, port: int, env: dict[str, str]) -> Generator[None, None, None]:
    """A gateway that is ready; its log is a file next to the database."""
    command = (*STROWGER, "serve", "--config", str(HERE / "config.yaml"), "--port", str(port))
    log = Path(env["DEMO_FOLDER"]) / "gateway.log"
    with log.open("wb") as out, subprocess.Popen(command, env=env, stdout=out, stderr=out) as run:
        try:
            with console.status("loading two models"):
                wait_until_ready(url, run)
            yield
        except RuntimeError:
            console.print(log.read_text()[-2_000:])
            raise
        finally:
            run.terminate()


def wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the gateway exited with status {process.returncode}")
        try:
            if httpx.get(f"{url}/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise RuntimeError(f"the gateway was not ready within {READY_S:g} s")


def wait_for_ctrl_c() -> None:
    console.print("The gateway keeps running until Ctrl-C.")
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        console.print("Stopping.")


if __name__ == "__main__":
    sys.exit(main())
