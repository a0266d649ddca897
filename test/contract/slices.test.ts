import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { atOnce, ownSignal, type Sliced, SliceQueue, uncut, WorkOwner, waited } from '#contract'
import { countsOf } from '../helpers/counts.ts'

const counts = countsOf('corpus')

/** The time that a queue may use of one turn, in units of the clock. */
const TURN = 1

/** A queue whose clock advances with its work, and whose turns the test runs. */
function queue() {
  const clock = { now: 0 }
  const turns: (() => void)[] = []
  const rests: number[] = []
  const slices = new SliceQueue(
    () => clock.now,
    (turn, restMs) => {
      turns.push(turn)
      rests.push(restMs)
    },
  )
  return {
    slices,
    turns,
    /** The requested rest before each turn. */
    rests,
    clock,
    /** Work of `units` pieces, each half a turn long, with a yield between them. Logs `name` for each piece. */
    *work(name: string, units: number, log: string[] = []): Sliced<string> {
      for (let i = 0; i < units; i++) {
        if (i > 0) yield
        clock.now += TURN / 2
        log.push(name)
      }
      return name
    },
    /** Runs one turn of the loop after its rest. Work that begins in this turn continues in the next one. */
    turn() {
      for (const each of turns.splice(0)) {
        clock.now += rests.at(-1)!
        each()
      }
    },
  }
}

describe('work that fits', () => {
  test('before its first yield it needs no clock, no turn and no promise', () => {
    const slices = new SliceQueue(
      () => expect.fail('the time was asked for'),
      () => expect.fail('a turn was asked for'),
    )
    function* short(isLong: boolean): Sliced<number> {
      if (isLong) yield
      return 7
    }
    expect(slices.run(short(false))).toBe(7)
  })

  test('into the first slice is done at once, and its time counts for the turn', async () => {
    const { slices, work, turn, turns } = queue()
    expect(slices.run(work('a', 2))).toBe('a')
    // One unit is left: the first piece is not counted.
    expect(slices.run(work('b', 2))).toBe('b')
    const late = slices.run(work('c', 2))
    expect(late).toBeInstanceOf(Promise)
    expect(turns).toHaveLength(1)
    turn()
    expect(await late).toBe('c')
    expect(slices.run(work('d', 3))).toBeInstanceOf(Promise)
    turn()
    turn()
    expect(slices.run(work('e', 2))).toBe('e')
  })

  test.each([false, true])('throws its error, or rejects the promise if it has waited (%s)', async waits => {
    const { slices, work, turn } = queue()
    function* broken(): Sliced<string> {
      if (waits) yield* work('a', 9)
      throw new RangeError('broken')
    }
    if (!waits) expect(() => slices.run(broken())).toThrow('broken')
    else {
      const result = slices.run(broken())
      for (let i = 0; i < 9; i++) turn()
      await expect(result).rejects.toThrow('broken')
    }
    expect(slices.waiting).toBe(0)
  })
})

describe('work that waits', () => {
  test('does not block others, continues with the value of the promise, or gets its error', async () => {
    const { slices, turns, work } = queue()
    const { promise, resolve } = Promise.withResolvers<string>()
    const waits = slices.run(waited(promise))
    const others = slices.run(work('other', 3))
    while (turns.length > 0) turns.shift()!()
    expect(await others).toBe('other')
    resolve('there')
    await promise
    await Promise.resolve()
    while (turns.length > 0) turns.shift()!()
    expect(await waits).toBe('there')
    const fails = slices.run(waited(Promise.reject(new Error('away'))))
    await new Promise(setImmediate)
    while (turns.length > 0) turns.shift()!()
    await expect(fails).rejects.toThrow('away')
    expect(slices.waiting).toBe(0)
  })

  test('cannot be done synchronously', () => {
    expect(() => atOnce(waited(Promise.resolve(1)))).toThrow('waits for something')
  })
})

test('after a long uncut slice, the queue rests for as long', async () => {
  const { slices, turn, clock, rests, work } = queue()
  const parsed = slices.run(
    uncut(() => {
      clock.now += 12.5
      return 'parsed'
    }),
  )
  expect(rests).toEqual([13])
  turn()
  expect(await parsed).toBe('parsed')
  // Work without a duration needs no turn.
  void slices.run(uncut(() => {}))
  expect(rests).toEqual([13])
  // Work without a second slice waits for no rest.
  void slices.run(uncut(() => (clock.now += 12.5)))
  expect(slices.run(work('short', 1))).toBe('short')
})

test('several tasks share the turns, and no turn takes longer than with one task', () => {
  const { slices, work, turn, clock } = queue()
  const log: string[] = []
  for (const name of ['a', 'b', 'c']) void slices.run(work(name, 7, log))
  // The piece before the first yield never waits. The rest waits if other work waits.
  expect(log.join('')).toBe('aaabc')
  for (let turns = 0; slices.waiting > 0; turns++) {
    const before = clock.now
    turn()
    expect(clock.now - before).toBeLessThanOrEqual(TURN)
    expect(turns).toBeLessThan(20)
  }
  expect(log.join('')).toBe('aaabcaabbccaabbccbbcc')
})

test('work whose signal aborts stops: its result is undefined, and its resources are closed', async () => {
  const { slices, work, turn } = queue()
  const log: string[] = []
  const abort = new AbortController()
  let closed = false
  function* careful(): Sliced<string> {
    try {
      return yield* work('a', 9, log)
    } finally {
      closed = true
    }
  }
  const result = slices.run(careful(), abort.signal)
  turn()
  expect([log.length, closed]).toEqual([5, false])
  abort.abort()
  turn()
  expect([log.length, closed]).toEqual([5, true])
  expect(await result).toBeUndefined()
  expect(slices.run(careful(), abort.signal)).toBeUndefined()
  expect(log.length).toBe(5)
})

test('in any order, all work is done once, no turn is too long, and waiting work is served within a round', async () => {
  const jobs = fc.array(fc.tuple(fc.nat(6), fc.nat(4), fc.integer({ min: 1, max: 12 })), {
    minLength: 1,
    maxLength: 12,
  })
  await fc.assert(
    fc.asyncProperty(jobs, async jobs => {
      const { slices, work, turn, turns, clock } = queue()
      const log: string[] = []
      const results: (string | undefined | Promise<string | undefined>)[] = []
      for (let now = 0; now <= 6; now++) {
        for (const [i, [when, , units]] of jobs.entries()) {
          if (when === now) results.push(slices.run(work(String(i), units, log)))
        }
        turn()
      }
      while (slices.waiting > 0) {
        const before = clock.now
        turn()
        expect(clock.now - before).toBeLessThanOrEqual(TURN)
        expect(turns.length).toBeLessThanOrEqual(1)
      }
      expect((await Promise.all(results)).toSorted()).toEqual(jobs.map((_, i) => String(i)).toSorted())
      for (const [i, [, , units]] of jobs.entries()) expect(log.filter(name => name === String(i))).toHaveLength(units)
    }),
    { numRuns: counts(50, 5_000) },
  )
})

describe('owners', () => {
  /** A queue in which two owners have done this much recent work. */
  function owned(heavyMs: number, otherMs: number) {
    const all = queue()
    const [heavy, other] = [new WorkOwner(), new WorkOwner()]
    all.slices.spend(heavy, heavyMs)
    all.slices.spend(other, otherMs)
    // The turn that the work has scheduled, and the rest after it.
    while (all.turns.length > 0) all.turn()
    all.clock.now += heavyMs * 4
    return { ...all, heavy, other }
  }

  test('the next slice is for the owner with the least recent work by weight', async () => {
    const log: string[] = []
    const { slices, work, turn, heavy, other } = owned(2, 1)
    const wait = (name: string, owner: WorkOwner) => slices.run(work(name, 9, log), undefined, { owner })
    const done = [wait('h', heavy), wait('o', other)]
    log.splice(0)
    while (slices.waiting > 0) turn()
    await Promise.all(done)
    expect(log.join('')).toMatch(/^o+(ho|oh)/)
    other.weight = 0.01
    const again = [wait('h', heavy), wait('o', other)]
    log.splice(0)
    while (slices.waiting > 0) turn()
    await Promise.all(again)
    expect(log.join('')).toMatch(/^h+o+$/)
  })

  test('after a long slice its owner rests four times as long while others have work, and the others do not', async () => {
    const { slices, clock, turns, work, other } = owned(0, 0.5)
    const oneTurn = () => {
      for (const each of turns.splice(0)) each()
    }
    const heavy = new WorkOwner()
    slices.spend(heavy, 200)
    oneTurn()
    const log: string[] = []
    const waits = slices.run(work('h', 3, log), undefined, { owner: heavy })
    expect(slices.isBehind(heavy)).toBe(true)
    expect(slices.isBehind(other)).toBe(false)
    expect(slices.run(work('o', 2, log), undefined, { owner: other })).toBe('o')
    log.splice(0)
    clock.now += 790
    oneTurn()
    expect(log).toEqual([])
    clock.now += 20
    oneTurn()
    expect(log).toEqual(['h', 'h'])
    expect(await waits).toBe('h')
  })

  test('an owner without others rests as long as its slice took, and has no debt', () => {
    const { slices, rests, turns } = queue()
    const alone = new WorkOwner()
    slices.spend(alone, 200)
    expect(slices.isBehind(alone)).toBe(false)
    void slices.run(
      uncut(() => {}),
      undefined,
      { owner: alone },
    )
    turns[0]!()
    expect(rests.at(-1)).toBe(200)
  })

  test('the work with a signal belongs to its owner', () => {
    const { slices, clock } = queue()
    const owner = new WorkOwner()
    const { signal } = new AbortController()
    ownSignal(signal, owner)
    void slices.run(
      uncut(() => (clock.now += 7)),
      signal,
    )
    expect(owner.share(clock.now)).toBe(7)
    expect(owner.share(clock.now + 1000)).toBe(3.5)
  })

  test('members of a group add the share of the group to their own', () => {
    const group = new WorkOwner()
    const [one, two] = [new WorkOwner(group), new WorkOwner(group)]
    one.add(10, 0)
    expect([one.share(0), two.share(0), group.share(0)]).toEqual([20, 10, 10])
  })

  test('an owner is heavy with a quarter of the largest share, unless its own share is small', () => {
    const { slices } = queue()
    const of = (ms: number) => {
      const owner = new WorkOwner()
      slices.spend(owner, ms)
      return owner
    }
    const [little, some, much, most] = [of(100), of(160), of(400), of(1000)]
    expect([little, some, much, most].map(owner => slices.isHeavy(owner))).toEqual([false, false, true, true])
  })

  test('the delay of the queue begins when work could begin; the wait of an owner when it arrived', () => {
    const { slices, clock, work } = queue()
    const owner = new WorkOwner()
    expect([slices.delay(), slices.waitOf(owner)]).toEqual([0, 0])
    slices.spend(owner, 200)
    void slices.run(work('a', 2), undefined, { owner })
    clock.now += 200
    expect([slices.delay(), slices.waitOf(owner)]).toEqual([0.5, 200])
    clock.now += 60
    expect([slices.delay(), slices.waitOf(owner)]).toEqual([60.5, 260])
    clock.now += 600
    expect([slices.delay(), slices.waitOf(owner)]).toEqual([660.5, 0])
  })

  test('a process that was stopped in the middle of work has worked only for as long as it had the processor', () => {
    const clock = { now: 0, cpuMs: 0 }
    const slices = new SliceQueue(
      () => clock.now,
      () => {},
      () => clock.cpuMs,
    )
    const pass = (cpuMs: number, stoppedMs = 0) => {
      clock.cpuMs += cpuMs
      clock.now += cpuMs + stoppedMs
    }
    const [owner, other] = [new WorkOwner(), new WorkOwner()]
    slices.spend(other, 1)
    pass(20)
    const began = clock.now
    pass(7, 3000)
    slices.spend(owner, clock.now - began)
    expect(owner.share(clock.now)).toBe(27)
    pass(200)
    slices.spend(other, 200)
    expect(other.share(clock.now)).toBeCloseTo(200, 0)
    // An estimate counts in full.
    slices.spend(owner, 100, 0)
    expect(owner.share(clock.now)).toBeGreaterThan(100)
  })

  test('an earlier turn replaces a later one', () => {
    const { slices, clock, turns, rests, work } = queue()
    const owner = new WorkOwner()
    slices.spend(owner, 300)
    turns.splice(0)[0]!()
    void slices.run(work('a', 2), undefined, { owner })
    const other = new WorkOwner()
    void slices.run(work('b', 9), undefined, { owner: other })
    expect(rests.at(-1)).toBe(0)
    const [late, early] = turns.splice(0)
    clock.now += 1000
    early!()
    const { waiting } = slices
    late!()
    expect(slices.waiting).toBe(waiting)
  })
})
