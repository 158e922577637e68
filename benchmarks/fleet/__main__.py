"""Simulate a fleet of gateways and replicas in virtual time: `python -m benchmarks.fleet`.

Policies, breakers, probe leases, budgets, limits and the messages between gateways are the
gateway's own code; sockets, model servers and Redis are simulated.
"""

import argparse
from time import process_time

from benchmarks.fleet.run import Size, run


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Simulate a fleet of gateways and replicas in virtual time."
    )
    default = Size()
    parser.add_argument("--gateways", type=int, default=default.gateways)
    parser.add_argument("--replicas", type=int, default=default.replicas)
    parser.add_argument("--load", type=float, default=default.load, help="of all slots, 0 to 1")
    parser.add_argument("--seconds", type=float, default=default.seconds, help="of virtual time")
    parser.add_argument("--keys", type=int, default=default.keys, help="of clients")
    parser.add_argument("--seed", type=int, default=default.seed)
    chosen = parser.parse_args()
    size = Size(**vars(chosen))
    started = process_time()
    found = run(size)
    cpu_s = process_time() - started
    print(f"{size.gateways} gateways, {size.replicas} replicas, load {size.load:g}")
    print(f"{size.seconds:g} s of virtual time in {cpu_s:.0f} s of CPU, seed {size.seed}\n")
    over = max(0, found.admitted - found.limit)
    for name, value in (
        ("requests; refused by limits", f"{found.requests}; {found.refused}"),
        ("largest difference from the mean", f"{found.spread:.1%}"),
        ("one standard deviation of a random choice", f"{found.chance:.1%}"),
        ("replicas that went away", f"{found.gone}"),
        ("attempts at them while they were away", f"{found.attempts_down}"),
        ("until every gateway had all circuits open", f"{found.open_s:.1f} s"),
        ("answers broken; requests failed", f"{found.broken}; {found.failed}"),
        ("hedges", f"{found.hedges}"),
        ("probes; most at one replica at a time", f"{found.probes}; {found.together}"),
        ("from their return to 90 % of their share", f"{found.back_s:.0f} s"),
        (
            "most requests at one of them, before; after; at others after",
            f"{found.most_before}; {found.most_after}; {found.most_others}",
        ),
        ("limit per minute; most admitted", f"{found.limit}; {found.admitted}"),
        ("beyond the limit; bound", f"{over}; {found.lease * size.gateways}"),
        ("commands to Redis per second", f"{found.commands:.0f}"),
        ("of these, scripts of limits", f"{found.scripts:.0f}"),
        ("notices read per second", f"{found.notices:.0f}"),
        ("polls of one replica per second", f"{found.polls:g}"),
    ):
        print(f"{name:62}{value:>16}")


if __name__ == "__main__":
    main()
