"""Amounts that a leader lends to its workers, so that rules hold over several processes.

Limits and budgets share this protocol. A rule allows an amount of a quantity to each subject: that
is a *place*. Each place has a `LeasePool` at the leader, which knows the amounts that count, and a
`LeasedQuantity` at each worker, whose room is the part of the pool that is lent to this worker.

1. A request reserves what it may use from the leases of its worker. No message is sent.
2. If a lease lacks room, the worker sends a `LeaseAsk` with what is lacking at all places of the
   request (`worker.py`).
3. The leader lends that, or nothing. While a pool has much room, it lends more in advance: at most
   a 64th of what is allowed, so that a worker that dies costs little (`leader.py`).
4. The `LeaseGrant` enters the leases and the request is reserved in one step, so no other request
   takes what was lent for this one.
5. If a pool lacks room, the leader first sends a `LeaseRecall` to the workers that hold a part of
   it, and decides when they have answered, or after a quarter of a second; a worker that got
   something in between is recalled again. Only then it sends a
   `LeaseDenial`, so no request is refused while another process has unused room. Only requests that
   need more than one of the amount, at the same time, may each find the room that the other needs.
6. Every tenth of a second, a worker sends a `LeaseReport`: what was used of each lease, what was
   used beyond it, and what it gives back because nothing was used for a second. The leader moves
   what was used from lent to counted.

What is lent counts as used. So whatever is late or lost, a rule is never exceeded, and a lost
amount is one that was lent:

- A worker that dies: the leader decides what becomes of what it held, which may have been used.
  Requests of the worker that wait are dropped.
- A grant for a request that has left: it enters the leases, and returns when they are idle.
- A message that arrives twice: its number says so, and it has no effect.
- A reload: a pool that begins again has lent nothing, so what a worker uses or gives back of the
  pool before it changes nothing: a worker can only use or give back what it holds. A lease that a
  reload replaces at a worker is reported until nothing is left of it, because the leader reloads
  first and may have lent for it from the new pool.
"""
