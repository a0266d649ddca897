/** The HMAC secret and its file. */
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { loadSecret } from '../../src/store/secret.ts'
import { openStore } from '../../src/store/sqlite.ts'
import { StoreError } from '../../src/store/store.ts'
import { folder, SECRET, testClock, testStore } from './helpers.ts'

test('a configured one that is too short is refused, without showing it', () => {
  const short = 'hunter2hunter2hunter2hunter2hun'
  expect(() => loadSecret(short, folder())).toThrow(
    'The `secret` of gateway.yaml has 31 characters and needs at least 32.',
  )
  try {
    loadSecret(short, folder())
  } catch (error) {
    expect(String(error)).not.toContain('hunter2')
  }
})

test('a file that is too short, or empty, is refused', () => {
  const dir = folder()
  writeFileSync(join(dir, 'secret'), 'short\n', { mode: 0o600 })
  expect(() => loadSecret(null, dir)).toThrow(`${join(dir, 'secret')} has 5 characters and needs at least 32.`)
})

test('a file that others can read is refused, with the command that helps', () => {
  const dir = folder()
  loadSecret(null, dir)
  chmodSync(join(dir, 'secret'), 0o640)
  expect(() => loadSecret(null, dir)).toThrow(`(mode 0640). Run: chmod 600 ${join(dir, 'secret')}`)
})

test('the first start makes one that only the owner reads; later starts find the same', () => {
  const dir = join(folder(), 'new', '.tollgate')
  const secret = loadSecret(null, dir)
  expect(secret).toMatch(/^[\w-]{43}$/)
  expect(loadSecret(null, dir)).toBe(secret)
  expect(statSync(join(dir, 'secret')).mode & 0o777).toBe(0o600)
  expect(statSync(dir).mode & 0o777).toBe(0o700)
  expect(readdirSync(dir)).toEqual(['secret'])
  expect(readFileSync(join(dir, 'secret'), 'utf8')).toBe(`${secret}\n`)
})

test('a configured one wins, and no file is made', () => {
  const dir = folder()
  expect(loadSecret('x'.repeat(32), dir)).toBe('x'.repeat(32))
  expect(readdirSync(dir)).toEqual([])
})

test('a store opened with another secret says so, and what to restore; with its own it opens', async () => {
  const store = await testStore()
  await store.close()
  const other = { url: `sqlite:${store.path}`, secret: 'another secret of more than 32 characters', clock: testClock() }
  const opening = openStore(other)
  await expect(opening).rejects.toBeInstanceOf(StoreError)
  await expect(opening).rejects.toThrow(
    /not the secret under which the keys of .* were made.*TOLLGATE_SECRET.*\/secret/,
  )
  await expect(opening).rejects.not.toThrow(/another secret of/)
  await testStore({ path: store.path, secret: SECRET })
})
