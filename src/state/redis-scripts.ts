/**
 * Lua scripts of the state server; each runs in one call. The time is the server's, so the clocks of the replicas do not matter. Numbers
 * are sent as texts with 17 digits, which is exact.
 */

const NOW = `local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
`

/**
 * A bucket is a string with its units and their time. Without the key it is full. The arithmetic is that of buckets.ts. KEYS: the bucket.
 * ARGV: capacity, refill per ms, amount, `take` or `give`. Returns 1 or 0, and the units.
 */
export const BUCKET = `${NOW}local capacity, refill, amount = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local units = capacity
local before = redis.call('GET', KEYS[1])
if before then
  local had, at = string.match(before, '^(%S+) (%S+)$')
  units = math.min(capacity, tonumber(had) + math.max(0, now - tonumber(at)) * refill)
end
local taken = 1
if ARGV[4] == 'give' then
  units = math.min(capacity, units + amount)
elseif units + 1e-12 * capacity >= amount then
  units = units - amount
else
  return {0, string.format('%.17g', units)}
end
local full = (capacity - units) / refill
if full <= 0 then
  redis.call('DEL', KEYS[1])
else
  local ttl = string.format('%.0f', math.min(full, 1e13) + 1000)
  redis.call('SET', KEYS[1], string.format('%.17g %.17g', units, now), 'PX', ttl)
end
return {1, string.format('%.17g', units)}
`

/**
 * Takes a slot. A name has a hash with the number of slots of each replica. Those of a replica without a lease do not count. KEYS: the
 * hash, the leases. ARGV: the replica, the limit, the lifetime of the hash in ms. Returns how many slots are taken with this one, or 0.
 */
export const ENTER = `${NOW}local held = redis.call('HGETALL', KEYS[1])
local count = 0
for i = 1, #held, 2 do
  local lease = held[i] == ARGV[1] and now + 1 or tonumber(redis.call('ZSCORE', KEYS[2], held[i]) or 0)
  if lease > now then count = count + tonumber(held[i + 1]) else redis.call('HDEL', KEYS[1], held[i]) end
end
if count >= tonumber(ARGV[2]) then return 0 end
redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return count + 1
`

/** Gives a slot back. KEYS: the hash. ARGV: the replica. */
export const LEAVE = `if tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0) <= 1 then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
end
`

/** Sets the number of slots of a replica. KEYS: the hash. ARGV: the replica, the count, the lifetime of the hash in ms. */
export const DECLARE = `if tonumber(ARGV[2]) == 0 then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
`

/** Reads a version, or creates it. KEYS: the version. ARGV: its first number, and its lifetime in ms. */
export const VERSION = `local version = redis.call('GET', KEYS[1])
if version then return version end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]
`

/**
 * Renews the lease of a replica. It adds before it removes, because a full server refuses a script only at its first command. The leases of
 * a removed gateway expire. KEYS: the leases. ARGV: the replica, the length of a lease in ms. Returns whether the lease had not ended, and
 * the number of replicas with a lease.
 */
export const RENEW = `${NOW}local lease = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or 0)
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', 10 * ARGV[2]))
return {lease > now and 1 or 0, redis.call('ZCARD', KEYS[1])}
`
