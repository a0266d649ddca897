/** Boxes: each opens for one account, one purpose and one secret only, and only as a whole. */
import { expect, test } from 'vitest'
import { createVault } from '../../src/store/vault.ts'
import { SECRET } from './helpers.ts'

const vault = createVault(SECRET)
const TEXT = Buffer.from('A private text: 📦')

test.each([0, 1, 15, 16, 17, 100_000])('a sealed text opens again: %i bytes', length => {
  const plain = Buffer.alloc(length, 'ab')
  expect(vault.open('thought', 'acct_1', vault.seal('thought', 'acct_1', plain))).toEqual(plain)
})

test('another account, purpose or secret opens nothing; another process with the same secret does', () => {
  const box = vault.seal('thought', 'acct_1', TEXT)
  expect(vault.open('thought', 'acct_2', box)).toBeNull()
  expect(vault.open('response', 'acct_1', box)).toBeNull()
  expect(createVault(`${SECRET}.`).open('thought', 'acct_1', box)).toBeNull()
  expect(createVault(SECRET).open('thought', 'acct_1', box)).toEqual(TEXT)
})

test('a box with any bit changed, or any byte missing, does not open', () => {
  const box = vault.seal('thought', 'acct_1', TEXT)
  for (let bit = 0; bit < box.length * 8; bit++) {
    const changed = Buffer.from(box)
    changed[bit >> 3]! ^= 1 << (bit & 7)
    expect(vault.open('thought', 'acct_1', changed), `bit ${bit}`).toBeNull()
  }
  for (let length = 0; length < box.length; length++) {
    expect(vault.open('thought', 'acct_1', box.subarray(0, length)), `${length} bytes`).toBeNull()
  }
})

test('two boxes of the same content have nothing in common', () => {
  const [one, other] = [1, 2].map(() => vault.seal('thought', 'acct_1', TEXT)) as [Buffer, Buffer]
  expect(one.equals(other)).toBe(false)
  expect(one.includes('private')).toBe(false)
})
