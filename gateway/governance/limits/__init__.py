"""Limits of requests, tokens and concurrent requests, by API key and model.

How a limit holds, from one process to many gateways:

1. A limit has an `Account` for each of its subjects, such as a key or a team: a `Window` for
   requests, one for tokens, and `ConcurrencySlots`, as far as the limit names them. A window
   slides: a use counts from the moment it is taken until one period later. `room` is what can
   still be taken (`window.py`).
2. `RequestLimits.of` finds the accounts of a request, by its key, team, user, end user, plan and
   model (`limits.py`).
3. Before it is planned, a request reserves in all of its accounts, or in none: one request, one
   slot, and its estimated prompt with the longest answer that it allows (`estimate.py`,
   `Accounts.reserve`). The result is a `Hold`.
4. When the request has ended, `Hold.settle` frees its slot and the tokens that it did not use.
   What it used beyond its reservation counts from then on.
5. A request that lacks room waits in turn with other keys, if its limits have `wait_s`
   (`queue.py`). Otherwise it is refused with status 429, before any backend has received it.
6. With several workers, the leader has the windows (`lease_leader.py`), and the room of a worker is
   what the leader has lent to it (`leased.py`). A worker asks for what its requests lack
   (`lease_worker.py`), and the leader recalls what other workers hold before it refuses; the steps
   of that are in `gateway/governance/leases`. With `exact: false`, a worker may first use up to a
   64th of a limit beyond its lease, while it asks (`overdraft.py`).
7. With `store.redis_url`, gateways share their limits. Redis has the windows, and each process
   holds leases there. One script grants all that a request lacks, or nothing
   (`over_gateways/limit_script.py`); leaders send it what their workers ask and report
   (`over_gateways/shared_limits.py`). Redis recalls nothing, so it lends in advance only while more
   than a quarter of a limit is free. While it does not answer, `on_outage` decides: each gateway
   limits alone, by what its own processes have used, or refuses what no lease covers.

What is reserved or lent counts as used. So a message that is late or lost, and a process that dies,
can make the room smaller than it is, but never larger.
"""
