/**
 * State that replicas share: several replicas in this process, each with its own connection to one real server. Calls have a time
 * limit only in tests that lose the server, so that a busy machine makes no other call late.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { BucketShape, Grant, Log, Slot } from '#contract'
import { createBuckets } from '../../src/state/buckets.ts'
import { openRedisState, type RedisStateOptions } from '../../src/state/redis-state.ts'
import type { State } from '../../src/state/state.ts'
import { countsOf } from '../helpers/counts.ts'
import { LIMIT_MS } from '../helpers/limit.ts'
import { describeWith } from '../helpers/missing.ts'
import { type RedisServer, startRedis, WITHOUT_REDIS } from '../helpers/redis.ts'
import { until } from '../helpers/until.ts'
import { testClock } from '../store/helpers.ts'

const counts = countsOf('corpus')

const SILENT: Log = { info() {}, warn() {}, error() {} }
const clock = { now: () => performance.now() }
const LEASES = 'tollgate:replicas'

async function server(options: readonly string[] = []): Promise<RedisServer> {
  const started = await startRedis(options)
  onTestFinished(() => started[Symbol.asyncDispose]())
  return started
}

async function replica(url: string, options: Partial<RedisStateOptions> = {}): Promise<State> {
  const all = { clock, log: SILENT, leaseMs: LIMIT_MS, connectMs: LIMIT_MS, now: () => 0, ...options }
  const state = await openRedisState({ url, ...all })
  // Do not wait for the close: the server may be stopped.
  onTestFinished(() => void state.close())
  return state
}

/** Starts replicas that know from their start how many there are. @param options of all of them */
async function replicas({ url, client }: RedisServer, count = 3, options: Partial<RedisStateOptions> = {}) {
  const places = Array.from({ length: count - 1 }, (_, index) => `place ${index}`)
  const farMs = Date.now() + 10 * LIMIT_MS
  for (const place of places) await client.zadd(LEASES, farMs, place)
  const states: State[] = []
  while (states.length < count) {
    states.push(await replica(url, options))
    const place = places.pop()
    if (place !== undefined) await client.zrem(LEASES, place)
  }
  return states
}

/** A server that the test loses. While it is lost, calls have their time limit. */
async function losable() {
  const redis = await server()
  let isLost = false
  const now = () => (isLost ? performance.now() : 0)
  return {
    redis,
    now,
    pair: () => Promise.all([replica(redis.url, { now, leaseMs: 500 }), replica(redis.url, { now, leaseMs: 500 })]),
    begin() {
      isLost = true
    },
    end() {
      isLost = false
    },
    stop() {
      redis.stop()
      isLost = true
    },
    goOn() {
      redis.goOn()
      isLost = false
    },
  }
}

/** The time of the server, in milliseconds. */
async function timeOf(client: RedisServer['client']): Promise<number> {
  const [seconds, micros] = await client.time()
  return Number(seconds) * 1000 + Number(micros) / 1000
}

/** The concurrent callers of each replica. */
const CALLERS = 8

/**
 * Takes from the bucket with all states, as fast as possible, until `isEnough`. Returns the number taken and the time. `broken` counts calls
 * in progress when the server was lost: these may count twice, at the server and in a share. `waited` counts calls that waited for a lost
 * server.
 */
async function hammer(states: readonly State[], shape: BucketShape, isEnough: (taken: number, ms: number) => boolean) {
  const begun = performance.now()
  let [taken, broken, waited] = [0, 0, 0]
  const one = async ({ buckets, health }: State) => {
    while (!isEnough(taken, performance.now() - begun)) {
      const before = health()
      const grant = buckets.take('hammered', shape, 1)
      if (!before.isUp && grant instanceof Promise) waited++
      if ((await grant).taken) taken++
      if (health().lost > before.lost && grant instanceof Promise) broken++
      await sleep(1)
    }
  }
  await Promise.all(states.flatMap(state => Array.from({ length: CALLERS }, () => one(state))))
  return { taken, broken, waited, ms: performance.now() - begun }
}

const isUp = (states: readonly State[]) => states.every(state => state.health().isUp)
/** So slow that nothing refills during a test. */
const slowly = (capacity: number): BucketShape => ({ capacity, refillPerMs: 1e-9 })

describeWith(WITHOUT_REDIS, 'buckets on a server', () => {
  test('answer like those in memory', async () => {
    const { url } = await server()
    const { buckets } = await replica(url)
    const step = fc.record({ verb: fc.constantFrom('take', 'give'), amount: fc.nat(40) })
    let round = 0
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 60 }), fc.array(step, { maxLength: 30 }), async (capacity, steps) => {
        const local = createBuckets(testClock())
        const name = `bucket ${round++}`
        for (const { verb, amount } of steps) {
          if (verb === 'give') {
            for (const each of [local, buckets]) each.give(name, slowly(capacity), amount - 20)
            continue
          }
          const said = await buckets.take(name, slowly(capacity), amount)
          const { taken, remaining } = local.take(name, slowly(capacity), amount)
          expect(said).toMatchObject({ taken, remaining })
        }
      }),
      { numRuns: counts(30, 300) },
    )
  })

  test('refill with the time of the server, and return when to retry', async () => {
    const { url, client } = await server()
    const { buckets } = await replica(url)
    // A unit takes longer than any test.
    const slow = { capacity: 2, refillPerMs: 1 / (10 * LIMIT_MS) }
    const begun = await timeOf(client)
    await buckets.take('slow', slow, 2)
    const refused = await buckets.take('slow', slow, 1)
    expect(refused.taken).toBe(false)
    expect(refused.retryAfterMs).toBeGreaterThanOrEqual(10 * LIMIT_MS - (await timeOf(client)) + begun - 1)
    expect(refused.retryAfterMs).toBeLessThanOrEqual(10 * LIMIT_MS)
    // If the machine was so slow that the bucket has refilled, try another bucket.
    const shape = { capacity: 2, refillPerMs: 1 / 200 }
    for (let name = 0; ; name++) {
      await buckets.take(`fast ${name}`, shape, 2)
      const grant = await buckets.take(`fast ${name}`, shape, 1)
      if (grant.taken) continue
      expect(grant.retryAfterMs).toBeLessThanOrEqual(200)
      await sleep(grant.retryAfterMs + 1)
      expect((await buckets.take(`fast ${name}`, shape, 1)).taken).toBe(true)
      break
    }
  })

  test('limit three replicas together, at most 2 % above the limit', async () => {
    const states = await replicas(await server())
    const shape = { capacity: 50, refillPerMs: 0.2 }
    const { taken, ms } = await hammer(states, shape, taken => taken >= 7 * shape.capacity)
    expect(taken).toBeLessThanOrEqual((shape.capacity + shape.refillPerMs * ms) * 1.02)
    expect(isUp(states)).toBe(true)
  })

  test('that are full leave nothing on the server; an abandoned one is removed when it is full', async () => {
    const { url, client } = await server()
    const { buckets } = await replica(url)
    await buckets.take('a', slowly(10), 4)
    expect(await client.pttl('tollgate:bucket:a')).toBeGreaterThan(1000)
    buckets.give('a', slowly(10), 4)
    await expect.poll(() => client.exists('tollgate:bucket:a')).toBe(0)
  })
})

describeWith(WITHOUT_REDIS, 'slots on a server', () => {
  test('are never more than the limit, for any mix of takers, and all are returned', async () => {
    const redis = await server()
    const { client } = redis
    const states = await replicas(redis)
    let [inside, most] = [0, 0]
    const full = Promise.withResolvers<void>()
    const one = async ({ slots }: State) => {
      for (let i = 0; i < 20; i++) {
        const slot = await slots.enter('a', 5)
        if (slot === null) continue
        most = Math.max(most, ++inside, slot.inside)
        if (inside === 5) full.resolve()
        // No request leaves before the limit is reached.
        await full.promise
        await sleep(2)
        inside--
        slot.free()
      }
    }
    await Promise.all(states.flatMap(state => Array.from({ length: 6 }, () => one(state))))
    expect(most).toBe(5)
    await expect.poll(() => client.exists('tollgate:slots:a')).toBe(0)
  })

  test('that one replica gives back go to a waiting request of another', async () => {
    const [one, two] = await replicas(await server())
    const taken = (await one!.slots.enter('a', 1)) as Slot
    expect(await two!.slots.enter('a', 1)).toBeNull()
    const queue = { length: 2, wait: LIMIT_MS }
    const waiting = [1, 2].map(() => two!.slots.wait('a', 1, queue, new AbortController().signal))
    await until(() => expect(two!.queued()).toBe(2))
    await sleep(120)
    taken.free()
    const first = (await waiting[0]) as Slot
    expect(first.inside).toBe(1)
    first.free()
    expect(((await waiting[1]) as Slot).inside).toBe(1)
  })

  test('of a replica that has closed are free at once, of a dead one when its lease ends', async () => {
    const { url, client } = await server()
    const [left, lives] = await Promise.all([replica(url), replica(url)])
    await left.slots.enter('a', 1)
    expect(await lives.slots.enter('a', 1)).toBeNull()
    await left.close()
    expect(await lives.slots.enter('a', 2)).toMatchObject({ inside: 1 })
    // As after the kill of a replica: it has a slot, and a lease that is not renewed.
    await client.hset('tollgate:slots:b', 'dead', 1)
    await client.zadd(LEASES, (await timeOf(client)) + LIMIT_MS, 'dead')
    expect(await lives.slots.enter('b', 1)).toBeNull()
    const overMs = (await timeOf(client)) + 200
    await client.zadd(LEASES, overMs, 'dead')
    await expect.poll(async () => (await lives.slots.enter('b', 1))?.inside).toBe(1)
    expect(await timeOf(client)).toBeGreaterThanOrEqual(overMs)
  })

  test('are reported again to a server that has lost them', async () => {
    const redis = await server()
    const [one, two] = await replicas(redis)
    const held = (await one!.slots.enter('a', 2)) as Slot
    await redis.restart()
    for (const each of [one!, two!]) await each.buckets.take('noticed', slowly(9), 1)
    await expect.poll(() => isUp([one!, two!])).toBe(true)
    await expect.poll(async () => Object.values(await redis.client.hgetall('tollgate:slots:a'))).toEqual(['1'])
    expect(await two!.slots.enter('a', 1)).toBeNull()
    held.free()
    await expect.poll(async () => (await two!.slots.enter('a', 1))?.inside).toBe(1)
  })
})

describeWith(WITHOUT_REDIS, 'texts on a server', () => {
  test('are shared by all replicas; cached answers only by replicas with the same configuration', async () => {
    const [one, two] = await replicas(await server())
    one!.kv.set('a', 'ä\n', 60_000)
    one!.cacheOf('x').open('main/cache', 1).set('key', 'an answer', 60_000)
    expect(await one!.kv.get('a')).toBe('ä\n')
    expect(await two!.kv.get('a')).toBe('ä\n')
    expect(await two!.cacheOf('x').open('main/cache', 1).get('key')).toBe('an answer')
    expect(await two!.cacheOf('y').open('main/cache', 1).get('key')).toBeUndefined()
    expect(await two!.cacheOf('x').open('main/other', 1).get('key')).toBeUndefined()
    two!.kv.delete('a')
    await expect.poll(() => one!.kv.get('a')).toBeUndefined()
    one!.kv.set('b', 'short', 20)
    await expect.poll(() => two!.kv.get('b')).toBeUndefined()
  })
})

describeWith(WITHOUT_REDIS, 'all that a replica writes', () => {
  test('has keys that begin with tollgate: and expire, after its lease', async () => {
    const leaseMs = 15_000
    const { url, client } = await server()
    const { buckets, slots, kv, versions } = await replica(url, { leaseMs })
    await buckets.take('a', slowly(2), 1)
    await slots.enter('a', 1)
    kv.set('a', 'text', 60_000)
    await kv.get('a')
    await versions.get('a')
    const keys = await client.keys('*')
    expect(keys.length).toBeGreaterThanOrEqual(5)
    expect(keys).toContain('tollgate:replicas')
    for (const key of keys) {
      expect(key).toMatch(/^tollgate:/)
      expect(await client.pttl(key), key).toBeGreaterThan(leaseMs)
    }
  })
})

describeWith(WITHOUT_REDIS, 'versions on a server', () => {
  test('all replicas see a change at once, and later a change that was made while the server was lost', async () => {
    const { redis, pair, stop, goOn } = await losable()
    const [one, two] = await pair()
    const seen = await two.versions.get('a')
    expect([await two.versions.get('a'), await one.versions.get('a')]).toEqual([seen, seen])
    await one.versions.change('a')
    const changed = await two.versions.get('a')
    expect(changed).not.toBe(seen)
    expect(await two.versions.get('b')).not.toBe(changed)
    await redis.client.flushall()
    expect(await two.versions.get('a')).not.toBe(changed)
    const before = await two.versions.get('a')
    stop()
    const local = await one.versions.get('a')
    await one.versions.change('a')
    expect(await one.versions.get('a')).not.toBe(local)
    goOn()
    await expect.poll(() => isUp([one, two])).toBe(true)
    await expect.poll(() => two.versions.get('a')).not.toBe(before)
  })

  test('a change whose answer comes too late is sent again', async () => {
    const { redis, pair, stop, goOn } = await losable()
    const [one, two] = await pair()
    const before = await two.versions.get('a')
    stop()
    await one.versions.change('a')
    expect(one.health().isUp).toBe(false)
    goOn()
    await expect.poll(() => isUp([one, two])).toBe(true)
    await expect.poll(() => two.versions.get('a')).not.toBe(before)
    const [key] = await redis.client.keys('*version:a')
    expect(await redis.client.pttl(key!)).toBeGreaterThan(0)
  })

  test('all changes during the loss of the server are sent, at any number', async () => {
    const { redis, pair, stop, goOn } = await losable()
    const [one, two] = await pair()
    const names = Array.from({ length: 10_000 }, (_, index) => `a/${index}`)
    const some = names.filter((_, index) => index % 1000 === 0)
    const read = () => Promise.all(some.map(name => redis.client.get(`tollgate:version:${name}`)))
    await Promise.all(some.map(name => two.versions.get(name)))
    const before = await read()
    stop()
    for (const name of names) await one.versions.change(name)
    const local = await one.versions.get(names.at(-1)!)
    goOn()
    await expect.poll(() => isUp([one, two])).toBe(true)
    expect(await one.versions.get(names.at(-1)!)).not.toBe(local)
    const isSent = async () => (await read()).every((value, index) => value !== before[index])
    await expect.poll(isSent).toBe(true)
    expect(isUp([one, two])).toBe(true)
  })

  test('no number comes back: neither after a second loss nor from a server that has forgotten the last change', async () => {
    const { redis, pair, stop, goOn } = await losable()
    const [one, two] = await pair()
    const seen = [await two.versions.get('a')]
    const old = await redis.client.get('tollgate:version:a')
    for (const isForgotten of [true, false]) {
      await one.versions.change('a')
      stop()
      await two.versions.get('b')
      seen.push(await two.versions.get('a'))
      goOn()
      await expect.poll(() => isUp([one, two])).toBe(true)
      if (!isForgotten) continue
      await redis.client.set('tollgate:version:a', old!)
      seen.push(await two.versions.get('a'))
    }
    expect(new Set(seen).size, seen.join(', ')).toBe(seen.length)
  })
})

/** A fault of the server, and its repair. */
const LOSSES: [string, (redis: RedisServer) => Promise<unknown>, (redis: RedisServer) => Promise<unknown>][] = [
  ['killed', redis => redis.kill(), redis => redis.restart()],
  ['stopped', async redis => redis.stop(), async redis => redis.goOn()],
  [
    'full',
    ({ client }) => client.config('SET', 'maxmemory', '1'),
    ({ client }) => client.config('SET', 'maxmemory', '0'),
  ],
  ['read-only', ({ client }) => client.replicaof('127.0.0.1', 1), ({ client }) => client.replicaof('NO', 'ONE')],
  ['slow', async redis => void slowDown(redis), async redis => void slow.delete(redis)],
]

const slow = new Set<RedisServer>()

/** Lets the server answer for 5 ms of every 85 ms, until it is removed from the set. */
async function slowDown(redis: RedisServer): Promise<void> {
  slow.add(redis)
  while (slow.has(redis)) {
    redis.stop()
    await sleep(80)
    redis.goOn()
    await sleep(5)
  }
}

describeWith(WITHOUT_REDIS, 'a server that is lost', () => {
  test.each(LOSSES)(
    '%s: each replica uses its share, no call waits while the server is lost, and the server is used again',
    async (_how, lose, mend) => {
      const { redis, now, begin, end } = await losable()
      const lines: string[] = []
      const note = (_fields: object, line: string) => void lines.push(line)
      const states = await replicas(redis, 3, { now, log: { ...SILENT, info: note, error: note } })
      const shape = { capacity: 60, refillPerMs: 0.06 }
      await hammer(states, shape, taken => taken > shape.capacity)
      states[0]!.kv.set('kept', 'text', LIMIT_MS)
      await states[0]!.kv.get('kept')
      const isLost = () => states.every(state => state.health().lost > 0)
      const lost = hammer(states, shape, (_taken, ms) => ms > 1_500 && isLost())
      begin()
      await lose(redis)
      const { taken, ms, broken, waited } = await lost
      // A call at the moment of the loss may be admitted by a share, although the server has counted it already.
      expect(taken).toBeLessThanOrEqual((shape.capacity + shape.refillPerMs * ms) * 1.02 + broken)
      expect(waited).toBe(0)
      expect(await states[0]!.kv.get('kept')).toBe('text')
      expect((await states[0]!.slots.enter('a', 9))?.inside).toBe(1)
      await mend(redis)
      end()
      await expect.poll(() => isUp(states)).toBe(true)
      expect(new Set(lines)).toEqual(
        new Set(['the state server is lost: each replica limits by its share', 'the state server answers again']),
      )
      const after = await hammer(states, shape, taken => taken > shape.capacity)
      expect(after.taken).toBeLessThanOrEqual((shape.capacity + shape.refillPerMs * after.ms) * 1.02)
      expect(isUp(states)).toBe(true)
    },
  )

  test('a call has 50 ms, and later calls do not wait', async () => {
    const redis = await server()
    let atMs = 0
    const [one] = await replicas(redis, 3, { now: () => atMs })
    const { buckets, health } = one!
    redis.stop()
    const first = buckets.take('a', slowly(9), 1)
    atMs = 49
    const second = buckets.take('a', slowly(9), 1)
    // The timer looks every 50 ms.
    await sleep(120)
    expect(health()).toEqual({ isUp: true, lost: 0 })
    atMs = 50
    expect((await first).taken).toBe(true)
    expect(health()).toEqual({ isUp: false, lost: 1 })
    atMs = 99
    expect((await second).taken).toBe(true)
    expect(buckets.take('a', slowly(9), 1)).toMatchObject({ taken: true })
    expect(buckets.take('a', slowly(9), 1)).toMatchObject({ taken: false })
  })

  test('the share of a small limit is one, and an amount that fits the bucket fits the share', async () => {
    const { redis, now, begin } = await losable()
    const [one] = await replicas(redis, 3, { now })
    begin()
    await redis.kill()
    const { buckets, slots } = one!
    const grants: Grant[] = []
    for (let i = 0; i < 2; i++) grants.push(await buckets.take('a', slowly(2), 1))
    expect(grants.map(({ taken }) => taken)).toEqual([true, false])
    expect((await buckets.take('b', slowly(300), 300)).taken).toBe(true)
    expect((await buckets.take('b', slowly(300), 1)).taken).toBe(false)
    expect((await buckets.take('c', slowly(300), 301)).taken).toBe(false)
    expect([await slots.enter('a', 2), await slots.enter('a', 2)]).toEqual([expect.anything(), null])
  })
})

describeWith(WITHOUT_REDIS, 'after a loss', () => {
  test('the server knows what was taken from the shares, as far as it has not refilled', async () => {
    const { redis, now, stop, goOn } = await losable()
    const [one, two] = (await replicas(redis, 2, { now })) as [State, State]
    stop()
    // The first call finds the server lost. Then each replica has half of ten.
    for (let i = 0; i < 6; i++) await one.buckets.take('a', slowly(10), 1)
    two.buckets.give('a', slowly(10), 0)
    goOn()
    await expect.poll(() => isUp([one, two])).toBe(true)
    await one.buckets.take('a', slowly(10), 0)
    // Five were taken from the share. The server may have executed the late call too.
    const remaining = async () => (await two.buckets.take('a', slowly(10), 0)).remaining
    await expect.poll(remaining).toBeLessThan(6)
    expect(await remaining()).toBeGreaterThan(3)
  })

  test('the server also knows it if a flood of addresses came meanwhile', async () => {
    const { redis, now, stop, end } = await losable()
    const { buckets, health } = await replica(redis.url, { now })
    stop()
    await buckets.take('main/few/key:key_1', slowly(10), 10)
    expect(health().isUp).toBe(false)
    for (let index = 0; index < 65_536; index++) buckets.take(`main/few/address:${index}`, slowly(10), 1)
    // The restarted server did not execute the late call: it gets only the debt.
    await redis.restart()
    end()
    await expect.poll(() => health().isUp).toBe(true)
    expect(await buckets.take('main/few/key:key_1', slowly(10), 1)).toMatchObject({ taken: false })
  })
})

describe('the start', () => {
  test('without a server fails, and the message does not contain the password', async () => {
    const opened = replica('redis://me:hidden@127.0.0.1:2/3')
    await expect(opened).rejects.toMatchObject({
      name: 'StateError',
      message: 'the server at 127.0.0.1:2 cannot be reached: connect ECONNREFUSED 127.0.0.1:2',
    })
  })
})

describeWith(WITHOUT_REDIS, 'the start on a server that cannot be used', () => {
  test.each<[string, string[], string, string]>([
    ['a wrong password', ['--requirepass', 'right'], 'redis://:hidden@', 'refuses the user or the password'],
    ['a password with a lone %', ['--requirepass', 'right'], 'redis://:50%@', 'refuses the user or the password'],
    ['no password', ['--requirepass', 'right'], 'redis://', 'asks for a password'],
    [
      'scripts that are renamed',
      ['--rename-command', 'EVALSHA', ''],
      'redis://',
      'does not know a command that is needed',
    ],
    ['a part of a cluster', ['--cluster-enabled', 'yes'], 'redis://', 'is part of a cluster'],
    ['a read-only replica', ['--replicaof', '127.0.0.1 1'], 'redis://', 'is a read-only replica'],
    ['no memory', ['--maxmemory', '1'], 'redis://', 'has no memory left'],
  ])('%s', async (_name, options, start, message) => {
    const { port } = await server(options)
    const error = await replica(`${start}127.0.0.1:${port}`).catch(each => each as Error)
    expect(error).toMatchObject({ name: 'StateError', message: `the server at 127.0.0.1:${port} ${message}` })
  })

  test('a missing database', async () => {
    const { port } = await server(['--databases', '2'])
    await expect(replica(`redis://127.0.0.1:${port}/7`)).rejects.toThrow('does not have that database')
  })
})

describeWith(WITHOUT_REDIS, 'a server that closes idle connections', () => {
  test('loses no limit, and is not lost', async () => {
    const { url, client } = await server(['--requirepass', 'a/b@c'])
    const lines: unknown[] = []
    const log: Log = {
      info: (...all) => lines.push(all),
      warn: (...all) => lines.push(all),
      error: (...all) => lines.push(all),
    }
    const address = url.replace('//', '//:a%2Fb%40c@')
    const states = await Promise.all([1, 2].map(() => replica(`${address}/3`, { log })))
    for (let round = 1; round <= 6; round++) {
      await client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      if (round % 2 === 0) await sleep(100)
      else await expect.poll(() => clientsOf(client)).toBeGreaterThan(2)
      for (const { buckets } of states) await buckets.take('idle', slowly(12), 1)
    }
    expect(await states[0]!.buckets.take('idle', slowly(12), 1)).toMatchObject({ taken: false })
    expect(states.map(state => state.health())).toEqual([1, 2].map(() => ({ isUp: true, lost: 0 })))
    expect(lines).toEqual([])
  })
})

async function clientsOf(client: RedisServer['client']): Promise<number> {
  return String(await client.call('CLIENT', 'LIST', 'TYPE', 'normal'))
    .trim()
    .split('\n').length
}
