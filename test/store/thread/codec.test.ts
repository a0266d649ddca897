/** Operations and their answers as records: decoding returns what was encoded, at any size and wherever the ring wraps. */
import { MessageChannel } from 'node:worker_threads'
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import { StoreError } from '../../../src/store/error.ts'
import {
  type Field,
  HOLD_FIELDS,
  HOLD_INDEX,
  holdRecord,
  SETTLE_FIELDS,
  SETTLE_INDEX,
  settleRecord,
} from '../../../src/store/money/ledger-fields.ts'
import { StoreUnavailable } from '../../../src/store/store.ts'
import {
  type NumberedOperation,
  readReply,
  readRequest,
  sentAt,
  writeEnd,
  writeFailure,
  writeRequest,
  writeResult,
} from '../../../src/store/thread/codec.ts'
import { createMailbox, createMailboxMemory, NONE } from '../../../src/store/thread/mailbox.ts'
import { countsOf } from '../../helpers/counts.ts'
import { aHold, aSettle } from '../requests.ts'

const counts = countsOf('corpus')

const { port1, port2 } = new MessageChannel()
afterAll(() => port1.close())

const SEED = Number(process.env.TOLLGATE_SEED ?? Date.now() % 1_000_000)
const RUNS = { numRuns: counts(50, 5000), seed: SEED }

/** A mailbox for one direction, with both of its ends. */
function way(size = 1 << 16, begin = 0) {
  const memory = createMailboxMemory(size)
  memory.ends.fill(begin)
  return {
    memory,
    to: { ring: createMailbox(memory), port: port1 },
    from: { ring: createMailbox(memory), port: port2 },
  }
}

/** Sends one value and reads it back. */
function carried<Value>(
  { to, from }: ReturnType<typeof way>,
  write: (to: Parameters<typeof readReply>[0]) => boolean,
  read: (from: Parameters<typeof readReply>[0], at: number) => Value,
): Value {
  expect(write(to)).toBe(true)
  to.ring.publish()
  const value = read(from, from.ring.next())
  from.ring.release()
  expect(from.ring.empty()).toBe(true)
  return value
}

const ask = (on: ReturnType<typeof way>, operation: NumberedOperation) =>
  carried(on, to => writeRequest(to, operation, 7), readRequest)
const reply = (on: ReturnType<typeof way>, operation: NumberedOperation, result: unknown) =>
  carried(on, to => writeResult(to, operation, result), readReply)

const money = fc.oneof(fc.bigInt(0n, 2n ** 63n - 1n), fc.constantFrom(0n, 1n, 2n ** 53n + 1n, 2n ** 63n - 1n))
/** Also values that need a structured clone. */
const anyMoney = fc.oneof({ weight: 9, arbitrary: money }, { weight: 1, arbitrary: fc.bigInt(-(2n ** 70n), 2n ** 70n) })
const count = fc.oneof(fc.nat(), fc.constantFrom(0, 2 ** 31, 2 ** 32, Number.MAX_SAFE_INTEGER))
const text = fc.string({ unit: 'binary', maxLength: 60 })
/** Arbitrary records that have these fields. */
const recordsOf = (fields: readonly Field<never>[]) =>
  fc.tuple(
    ...fields.map(({ name, kind, optional = false }): fc.Arbitrary<unknown> => {
      const values = { money: anyMoney, count, text, json: text }[kind]
      return optional
        ? fc.option<unknown>(values)
        : name === 'trail'
          ? fc.string({ unit: 'binary', maxLength: 1500 })
          : values
    }),
  )
const operation: fc.Arbitrary<NumberedOperation> = fc.oneof(
  fc.record({ id: count, name: fc.constant('hold' as const), request: recordsOf(HOLD_FIELDS) }),
  fc.record({ id: count, name: fc.constant('settle' as const), request: recordsOf(SETTLE_FIELDS) }),
  fc.record({
    id: count,
    name: fc.constant('checkpoint' as const),
    request: fc.array(
      fc.record({ exchange: text, amount: anyMoney, usage: fc.record({ input: count, output: count }) }),
    ),
  }),
)
const PLAIN = { noNullPrototype: true } as const
const short = { held: fc.constant(false), reason: fc.constant('short'), of: fc.constantFrom('account', 'key') }
const result = fc.oneof(
  fc.record({ held: fc.constant(true), available: anyMoney }, PLAIN),
  fc.record({ ...short, available: anyMoney, onHold: anyMoney }, PLAIN),
  fc.record({ held: fc.constant(false), reason: fc.constantFrom('frozen', 'unknown_account') }, PLAIN),
  fc.constantFrom('settled', 'already_settled', 'no_hold', undefined, null, true, 'kept', 7n),
)

describe(`with any values (TOLLGATE_SEED=${SEED})`, () => {
  // Records and SQLite use UTF-8, which cannot encode half of a surrogate pair.
  const wellFormed = (value: unknown): unknown =>
    JSON.parse(
      JSON.stringify(value, (_key, each) => (typeof each === 'bigint' ? `${each}n` : each)),
      (_key, each) => (typeof each === 'string' ? each.toWellFormed() : each),
    )

  test.each([0, 2 ** 31 - 64, -64])('requests are decoded unchanged and in order, from byte %i on', begin => {
    const step = fc.oneof({ weight: 3, arbitrary: operation }, { weight: 2, arbitrary: fc.constant('read' as const) })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), steps => {
        const { to, from } = way(1 << 14, begin)
        const list: NumberedOperation[] = []
        let now = 1.5e12
        const readOne = () => {
          const expected = list.shift()
          const at = from.ring.next()
          if (expected === undefined) return expect(at).toBe(NONE)
          const found = readRequest(from, at)
          expect(wellFormed(found)).toEqual(wellFormed(expected))
          expect(sentAt(from.ring, at)).toBe(1.5e12 + expected.id)
          from.ring.release()
        }
        for (const each of steps) {
          now = each === 'read' ? now : 1.5e12 + each.id
          if (each === 'read') readOne()
          else if (writeRequest(to, each, now)) {
            list.push(each)
            to.ring.publish()
          } else expect(list.length).toBeGreaterThan(0)
        }
        while (list.length > 0) readOne()
        expect(from.ring.empty()).toBe(true)
      }),
      RUNS,
    )
  })

  test('answers are decoded unchanged', () => {
    const on = way(1 << 10, -64)
    fc.assert(
      fc.property(count, result, (id, value) => {
        expect(reply(on, { id, name: 'hold', request: null }, value)).toStrictEqual({
          id,
          result: value,
          error: undefined,
        })
      }),
      RUNS,
    )
  })
})

describe('sizes', () => {
  test.each([0, 1, 1000, 21_000, 30_000, 100_000, 1_000_000])(
    '%i characters of three bytes are decoded completely',
    length => {
      const on = way()
      const long = '\u20ac'.repeat(length)
      const asked = { id: 1, name: 'hold' as const, request: holdRecord(aHold({ accountId: 'acc_1', model: long })) }
      const ended = { id: 2, name: 'settle' as const, request: settleRecord(aSettle()).with(SETTLE_INDEX.trail, long) }
      const other = { id: 3, name: 'setPlan' as const, request: { id: 'acc_1', plan: long } }
      for (const each of [asked, ended, other]) expect(ask(on, each)).toStrictEqual(each)
      expect(reply(on, other, { plan: long }).result).toStrictEqual({ plan: long })
    },
  )

  test('a value without room leaves nothing, neither here nor at the port, and is put when there is room', () => {
    const on = way(256)
    const large = { id: 2, name: 'setPlan' as const, request: 'x'.repeat(1000) }
    let put = 0
    while (writeEnd(on.to.ring, 7)) put++
    expect(put).toBeGreaterThan(3)
    expect(writeRequest(on.to, large, 7)).toBe(false)
    on.to.ring.publish()
    for (; put > 0; put--) expect(readRequest(on.from, on.from.ring.next())).toBeUndefined()
    on.from.ring.release()
    expect(ask(on, large)).toEqual(large)
  })

  test('lengths that are not those of the texts are noticed', () => {
    // The places of the two records' lengths: behind the numbers, before the texts.
    for (const [name, request, lengths] of [
      ['hold', holdRecord(aHold({ accountId: 'acc_1', idempotencyKey: 'again' })), 24 + 8 * 2],
      ['settle', settleRecord(aSettle({ code: 'upstream_truncated' })), 24 + 8 * 8],
    ] as const) {
      for (const length of [-(2 ** 31), -2, -1, 0, 4, 2 ** 31 - 1]) {
        const on = way()
        writeRequest(on.to, { id: 1, name, request }, 7)
        on.to.ring.publish()
        const at = on.from.ring.next()
        on.to.ring.view.setInt32(at + lengths, length, true)
        expect(() => readRequest(on.from, at), `${name} ${length}`).toThrow('damaged')
      }
    }
  })
})

describe('values that do not fit a record', () => {
  test('invalid texts are sent unchanged, so that the ledger refuses them', () => {
    for (const [name, value] of [
      ['code', 1.5],
      ['source', {}],
      ['outcome', ['a']],
      ['source', null],
      ['trail', undefined],
    ] as const) {
      const request = settleRecord(aSettle()).with(SETTLE_INDEX[name], value as never)
      expect(ask(way(), { id: 1, name: 'settle', request })).toMatchObject({ request })
    }
  })

  test('a value that cannot be cloned fails its caller, and nothing is put', () => {
    const on = way()
    const request = holdRecord(aHold({ accountId: 'acc_1' })).with(HOLD_INDEX.model, (() => {}) as never)
    expect(() => writeRequest(on.to, { id: 1, name: 'hold', request }, 7)).toThrow(/could not be cloned/)
    on.to.ring.publish()
    expect(on.from.ring.next()).toBe(NONE)
  })
})

test.each([
  new StoreError('no such account'),
  new StoreUnavailable(
    'unknown',
    Object.assign(new Error('disk I/O error'), { code: 'ERR_SQLITE_ERROR', errcode: 10 }),
  ),
  new TypeError('no'),
  Object.assign(new RangeError('no'), { code: 'ERR_OUT_OF_RANGE' }),
])('%s keeps its class, its message and the codes of SQLite', error => {
  const carry = carried(way(), to => writeFailure(to, { id: 3, name: 'credit', request: null }, error), readReply)
  expect(carry).toMatchObject({ id: 3, result: undefined, error })
  expect(carry.error).toBeInstanceOf(error.constructor)
  expect({ ...carry.error }).toEqual({ ...error })
})
