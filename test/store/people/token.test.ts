/** Tokens: their checksum catches mistakes of people and scanners, and their digest depends on the secret. */
import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  createOperatorToken,
  createSecret,
  createToken,
  digest,
  digestKey,
  isOperatorToken,
  isSecret,
  isToken,
  last4,
} from '../../../src/store/people/token.ts'
import { countsOf } from '../../helpers/counts.ts'

const counts = countsOf('corpus')

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const token = fc.uint8Array({ minLength: 30, maxLength: 30 }).map(bytes => createToken(() => bytes.map(b => b % 248)))
const numRuns = counts(250, 100_000)

test.each([
  ['nothing', ''],
  ["another provider's", 'sk-proj-abcdefghijklmnopqrstuvwxyz0123456789'],
  ['the prefix alone', 'tg_live_'],
  ['36 characters that are not base62', `tg_live_${'-'.repeat(36)}`],
  ['a right shape with a wrong checksum', `tg_live_${'a'.repeat(36)}`],
])('%s is malformed', (_what, text) => {
  expect(isToken(text)).toBe(false)
})

test('a token with one mistyped character is always malformed', () => {
  fc.assert(
    fc.property(token, fc.nat(43), fc.constantFrom(...BASE62, '-', '_', ' '), (right, place, character) => {
      fc.pre(right[place] !== character)
      expect(isToken(right.slice(0, place) + character + right.slice(place + 1))).toBe(false)
    }),
    { numRuns },
  )
})

test('a part of a token, or more than one, is malformed', () => {
  fc.assert(
    fc.property(token, fc.nat(43), fc.stringMatching(/^[0-9A-Za-z\s]{1,8}$/), (right, length, more) => {
      expect(isToken(right.slice(0, length))).toBe(false)
      expect(isToken(right.slice(length + 1))).toBe(false)
      expect(isToken(right + more)).toBe(false)
      expect(isToken(more + right)).toBe(false)
    }),
    { numRuns },
  )
})

test('two neighbouring characters swapped are always malformed', () => {
  fc.assert(
    fc.property(token, fc.integer({ min: 8, max: 42 }), (right, place) => {
      fc.pre(right[place] !== right[place + 1])
      const swapped = right.slice(0, place) + right[place + 1] + right[place] + right.slice(place + 2)
      expect(isToken(swapped)).toBe(false)
    }),
    { numRuns },
  )
})

test('every new token is well-formed: the prefix and 36 base62 characters', () => {
  fc.assert(
    fc.property(token, right => {
      expect(right).toMatch(/^tg_live_[0-9A-Za-z]{36}$/)
      expect(isToken(right)).toBe(true)
      expect(right.endsWith(last4(right))).toBe(true)
    }),
    { numRuns },
  )
})

test('the format of a token does not change', () => {
  expect(createToken(size => new Uint8Array(size).fill(10))).toBe('tg_live_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAA2WctyV')
})

test("a gateway key is never an operator's token, nor the other way round", () => {
  const source = (size: number) => new Uint8Array(size).fill(10)
  const [key, operator] = [createToken(source), createOperatorToken(source)]
  expect(operator).toMatch(/^tg_oper_A{30}[0-9A-Za-z]{6}$/)
  expect([isToken(key), isOperatorToken(operator)]).toEqual([true, true])
  expect([isToken(operator), isOperatorToken(key)]).toEqual([false, false])
  expect(isToken(operator.replace('oper', 'live'))).toBe(false)
  expect(isOperatorToken(key.replace('live', 'oper'))).toBe(false)
})

test('secrets that people never type are 256 bits, and all differ', () => {
  const secrets = Array.from({ length: 1000 }, createSecret)
  expect(new Set(secrets).size).toBe(1000)
  expect(secrets.every(isSecret)).toBe(true)
  expect(['', 'x', `${secrets[0]}=`, `${secrets[0]}\n`].some(isSecret)).toBe(false)
})

test('bytes that would make some characters likelier are drawn again', () => {
  const draws = [new Uint8Array(30).fill(255), new Uint8Array(30).fill(248), new Uint8Array(30).fill(61)]
  expect(createToken(() => draws.shift()!)).toMatch(/^tg_live_z{30}/)
  expect(draws).toHaveLength(0)
})

test('no two tokens are the same, and every character occurs', () => {
  const tokens = Array.from({ length: 1000 }, () => createToken(randomBytes))
  expect(new Set(tokens).size).toBe(1000)
  expect(new Set(tokens.map(t => t.slice(8, 38)).join('')).size).toBe(62)
})

test('the digest needs both the token and the secret', () => {
  const [one, other] = [createToken(), createToken()]
  const key = digestKey('one secret of more than 32 characters')
  expect(digest(key, one)).toHaveLength(32)
  expect(digest(key, one)).toEqual(digest(key, one))
  expect(digest(key, one)).not.toEqual(digest(key, other))
  expect(digest(key, one)).not.toEqual(digest(digestKey('another secret of more than 32 characters'), one))
})
