"""The script by which Redis keeps limits over several gateways, in one step per request.

Each quantity of each account is a hash: `u:TIME` has what stops to count then, `h:HOLDER` what a
process holds and has not used, `t:HOLDER` when it last called, `r:HOLDER` what its running requests
have reserved of what counts, and `q:HOLDER` when it said so. Times are milliseconds of the
server's clock, corrected so that they never step back. https://redis.io/docs/latest/commands/eval/
"""

from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.governance.limits.ledger import RESERVED_NS

SILENT_MS: Final = 5000
"""A holder that is silent for so long has died; what it held counts as used.

If no holder of an account was heard for so long, Redis itself was away: each gets as long again.
"""

RESERVED_MS: Final = RESERVED_NS // 1_000_000
"""When to retry if running requests have reserved what is missing."""

SCRIPT: Final = """
local clock = redis.call('TIME')
local real = clock[1] * 1000 + math.floor(clock[2] / 1000)
local ask = cjson.decode(ARGV[1])
local function text(number) return string.format('%.0f', number) end
local accounts, refused, longest, reserved = {}, 0, -1, false

for place, item in ipairs(ask.items) do
  local key, uses, held, seen = KEYS[place], {}, {}, {}
  local running, told = {}, {}
  local last, step = 0, 0
  local flat = redis.call('HGETALL', key)
  for at = 1, #flat, 2 do
    local field, value = flat[at], tonumber(flat[at + 1])
    local kind, name = string.sub(field, 1, 2), string.sub(field, 3)
    if kind == 'u:' then uses[tonumber(name)] = value
    elseif kind == 'h:' then held[name] = value
    elseif kind == 't:' then seen[name] = value
    elseif kind == 'r:' then running[name] = value
    elseif kind == 'q:' then told[name] = value
    elseif field == 'last' then last = value
    elseif field == 'step' then step = value end
  end
  local now = real + step
  if now < last then step = step + last - now; now = last end
  if last > 0 and now - last > tonumber(ARGV[2]) then
    for holder, _ in pairs(held) do
      seen[holder] = now
      redis.call('HSET', key, 't:' .. holder, text(now))
    end
  end

  local function use(expires, amount)
    uses[expires] = (uses[expires] or 0) + amount
    redis.call('HSET', key, 'u:' .. text(expires), text(uses[expires]))
  end
  for holder, amount in pairs(held) do
    if holder ~= ask.holder and now - (seen[holder] or 0) > tonumber(ARGV[2]) then
      if item.period > 0 and amount > 0 then use(now + item.period, amount) end
      redis.call('HDEL', key, 'h:' .. holder, 't:' .. holder)
      held[holder] = 0
    end
  end

  if item.running > 0 then
    running[ask.holder], told[ask.holder] = item.running, now
    redis.call('HSET', key, 'r:' .. ask.holder, text(item.running), 'q:' .. ask.holder, text(now))
  elseif item.running == 0 then
    running[ask.holder] = nil
    redis.call('HDEL', key, 'r:' .. ask.holder, 'q:' .. ask.holder)
  end

  local mine = (held[ask.holder] or 0) + item.over
  for _, one in ipairs(item.uses) do
    local left, amount = one[1], one[2]
    if amount > 0 then
      if left > 0 then use(now + left, amount) end
      mine = math.max(0, mine - amount)
    else
      local best
      for expires, known in pairs(uses) do
        if known >= -amount and expires > now
          and (not best or math.abs(expires - now - left) < math.abs(best - now - left)) then
          best = expires
        end
      end
      if best then use(best, amount) end
      mine = mine - amount
    end
  end
  mine = math.max(0, mine - item.back)
  if item.holds >= 0 then
    if item.period > 0 and mine > item.holds then use(now + item.period, mine - item.holds) end
    mine = item.holds
  end
  held[ask.holder] = mine

  local total, ends = 0, {}
  for expires, amount in pairs(uses) do
    if expires <= now or amount == 0 then
      redis.call('HDEL', key, 'u:' .. text(expires))
    else
      total = total + amount
      ends[#ends + 1] = expires
    end
  end
  for _, amount in pairs(held) do total = total + amount end
  accounts[place] = {mine = mine, total = total, step = step, now = now}

  if item.need > 0 and total + item.need > item.limit then
    local wait = item.period
    if item.period > 0 then
      table.sort(ends)
      local after = total
      for _, expires in ipairs(ends) do
        after = after - uses[expires]
        if after + item.need <= item.limit then wait = expires - now; break end
      end
    end
    local free = 0
    for holder, amount in pairs(running) do
      if now - (told[holder] or 0) > tonumber(ARGV[2]) then
        redis.call('HDEL', key, 'r:' .. holder, 'q:' .. holder)
      else free = free + amount end
    end
    local soon = item.need <= item.limit and total + item.need - free <= item.limit and free > 0
    if soon then wait = math.min(wait, tonumber(ARGV[3])) end
    if wait > longest then refused, longest, reserved = place, wait, soon end
  end
end

local answer = {
  refused = refused, wait = longest, reserved = reserved, granted = {}, left = {}, mine = {}
}
for place, item in ipairs(ask.items) do
  local key, one, granted = KEYS[place], accounts[place], 0
  if refused == 0 and item.need > 0 then
    granted = item.need
    local spare = item.limit - one.total - item.need
    if spare > item.limit / 4 then granted = granted + math.min(item.advance, spare) end
  end
  one.mine, one.total = one.mine + granted, one.total + granted
  redis.call('HSET', key, 'last', text(one.now), 'step', text(one.step))
  if one.mine > 0 then
    redis.call('HSET', key, 'h:' .. ask.holder, text(one.mine), 't:' .. ask.holder, text(one.now))
  else
    redis.call('HDEL', key, 'h:' .. ask.holder, 't:' .. ask.holder)
  end
  redis.call('PEXPIRE', key, text(item.period + 60000))
  answer.granted[place], answer.mine[place] = granted, one.mine
  answer.left[place] = math.max(0, item.limit - one.total)
end
return cjson.encode(answer)
"""
"""KEYS: a hash for each item. ARGV: the request, as ScriptRequest in JSON; SILENT_MS;
RESERVED_MS."""


class ScriptItem(Struct, frozen=True, kw_only=True):
    """One quantity of one account.

    limit: the most of it. period: milliseconds; 0 for requests at the same time. need: what a
    request lacks. advance: what may be leased besides. uses: milliseconds until each use stops to
    count, and its amount. back, over: what the holder gives back, or has used beyond its lease.
    holds: all that it holds after that, or -1; what else Redis has for it counts as used.
    running: what its running requests have reserved; -1 if that is not said.
    """

    limit: int
    period: int
    need: int = 0
    advance: int = 0
    uses: tuple[tuple[int, int], ...] = ()
    back: int = 0
    over: int = 0
    holds: int = -1
    running: int = -1


class ScriptRequest(Struct, frozen=True, kw_only=True):
    """Everything that one call of the script does."""

    holder: str
    items: tuple[ScriptItem, ...]


class ScriptAnswer(Struct, frozen=True, kw_only=True):
    """refused: the item without room, from 1, or 0. wait: milliseconds. Lists are per item.

    reserved: see LimitRefusal.
    granted: what was leased. left: what no process holds. mine: what the holder holds now.
    """

    refused: int
    wait: int
    granted: tuple[int, ...]
    left: tuple[int, ...]
    mine: tuple[int, ...]
    reserved: bool = False
