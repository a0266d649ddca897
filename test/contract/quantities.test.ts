/** Time spans and rates as people write them. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseCount, parseDuration, parseRate, UnitError, unit } from '#contract'
import rateLimit from '../../plugins/rate-limit/index.ts'
import { editorSchema } from '../../src/config/json-schema.ts'
import { expectWithin } from '../helpers/promised.ts'

/** Editors check values with the settings schema of a plugin. */
const settings = {
  ...rateLimit.settings,
  properties: { span: { ...unit('duration'), description: 'x' }, rate: { ...unit('rate'), description: 'x' } },
}
const { definitions } = editorSchema([{ use: 'units', plugin: { ...rateLimit, settings } }], {}) as unknown as {
  definitions: Record<string, { properties: Record<'span' | 'rate', { pattern: string }> }>
}
const { span, rate } = definitions['settings-1-rate-limit']!.properties
const UNITS_PATTERNS = { duration: new RegExp(span.pattern), rate: new RegExp(rate.pattern) }

const [MINUTE, HOUR, DAY] = [60_000, 3_600_000, 86_400_000]

test.each<[string, number]>([
  ['500ms', 500],
  ['15s', 15_000],
  ['30 sec', 30_000],
  ['30 secs', 30_000],
  ['1 second', 1000],
  ['10m', 10 * MINUTE],
  ['5 mins', 5 * MINUTE],
  ['2 hours', 2 * HOUR],
  ['1 hr', HOUR],
  ['30 days', 30 * DAY],
  ['1.5h', 1.5 * HOUR],
  ['1h30m', 1.5 * HOUR],
  ['1h 30m', 1.5 * HOUR],
  ['1 hour 30 minutes', 1.5 * HOUR],
  ['1d2h3m4s5ms', DAY + 2 * HOUR + 3 * MINUTE + 4005],
  [' 250 milliseconds ', 250],
])('%s is %i ms', (text, ms) => {
  expect(parseDuration(text)).toBe(ms)
  expect(text).toMatch(UNITS_PATTERNS.duration)
})

test.each<[unit: string, parse: (text: string) => number, factor: number]>([
  ['s', parseDuration, 1000],
  ['m', parseDuration, MINUTE],
  ['h', parseDuration, HOUR],
  ['d', parseDuration, DAY],
  ['k', parseCount, 1e3],
  ['M', parseCount, 1e6],
  ['G', parseCount, 1e9],
])('tenths and hundredths of %s are exact', (unit, parse, factor) => {
  for (let part = 0; part < 10_000; part++) {
    const [whole, fraction] = [Math.floor(part / 100), String(part % 100).padStart(2, '0')]
    expect(parse(`${whole}.${fraction}${unit}`)).toBe((part * factor) / 100)
  }
})

test.each(['5', '', 's', '1h30', '1 h m', '-1s', '1w', '1 month', '1,5h', '1h, 30m', '0.1ms'])(
  '%s is not a time span',
  text => {
    expect(() => parseDuration(text)).toThrow(UnitError)
  },
)

test.each<[string, number, number]>([
  ['60 per minute', 60, MINUTE],
  ['60/minute', 60, MINUTE],
  ['60 /minute', 60, MINUTE],
  ['60 / min', 60, MINUTE],
  ['60 per sec', 60, 1000],
  ['60 per secs', 60, 1000],
  ['200k/hour', 200_000, HOUR],
  ['5 per 10 s', 5, 10_000],
  ['5/10 seconds', 5, 10_000],
  ['1000 per 2 days', 1000, 2 * DAY],
])('%s', (text, amount, perMs) => {
  expect(parseRate(text)).toEqual({ amount, perMs })
  expect(text).toMatch(UNITS_PATTERNS.rate)
})

test.each([
  '60',
  '60 minute',
  'per minute',
  '60 per',
  '60 per week',
  '6/0/minute',
  '0/minute',
  '60//minute',
  '60 per /s',
])('%s is not a rate', text => {
  expect(() => parseRate(text)).toThrow(UnitError)
})

test('editors accept what the loader accepts, and hostile texts are checked quickly', () => {
  const piece = fc.constantFrom(
    '1',
    '60',
    '.',
    ' ',
    '/',
    'per',
    'h',
    'hour',
    's',
    'm',
    'min',
    'minutes',
    'ms',
    'd',
    'k',
    'Ki',
  )
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), pieces => {
      const text = pieces.join('')
      for (const [name, parse] of [
        ['duration', parseDuration],
        ['rate', parseRate],
      ] as const) {
        let taken = true
        try {
          parse(text)
        } catch {
          taken = false
        }
        if (taken) expect(text).toMatch(UNITS_PATTERNS[name])
      }
    }),
  )
  const startedAt = performance.now()
  for (const each of ['1s', '1', '1m', '1 ', '1m ', '1 minutes ', '60/'])
    for (const parse of [parseDuration, parseRate])
      expect(() => parse(`${each.repeat(50_000 / each.length)}!`)).toThrow(UnitError)
  expectWithin(performance.now() - startedAt, 1_000)
})
