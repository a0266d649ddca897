/** The HMAC secret and its file. */
import { chmodSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { openStore } from '../../src/store/engine/sqlite.ts'
import { StoreError } from '../../src/store/error.ts'
import { loadSecret, secretPlace } from '../../src/store/secret.ts'
import { folder, SECRET, testClock, testStore } from './helpers.ts'

test('a configured secret that is too short is refused without showing it', () => {
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

test('a secret file that is too short is refused', () => {
  const dir = folder()
  writeFileSync(join(dir, 'secret'), 'short\n', { mode: 0o600 })
  expect(() => loadSecret(null, dir)).toThrow(`${join(dir, 'secret')} has 5 characters and needs at least 32.`)
})

test('a secret file that others can read is refused, with the command to correct it', () => {
  const dir = folder()
  loadSecret(null, dir)
  chmodSync(join(dir, 'secret'), 0o640)
  expect(() => loadSecret(null, dir)).toThrow(`(mode 0640). Run: chmod 600 ${join(dir, 'secret')}`)
})

test('the first start makes a secret file that only the owner can read; later starts use the same secret', () => {
  const dir = join(folder(), 'new', '.tollgate')
  const secret = loadSecret(null, dir)
  expect(secret).toMatch(/^[\w-]{43}$/)
  expect(loadSecret(null, dir)).toBe(secret)
  expect(statSync(join(dir, 'secret')).mode & 0o777).toBe(0o600)
  expect(statSync(dir).mode & 0o777).toBe(0o700)
  expect(readdirSync(dir)).toEqual(['secret'])
  expect(readFileSync(join(dir, 'secret'), 'utf8')).toBe(`${secret}\n`)
})

test('a configured secret has priority, and no file is made', () => {
  const dir = folder()
  expect(loadSecret('x'.repeat(32), dir)).toBe('x'.repeat(32))
  expect(readdirSync(dir)).toEqual([])
})

test('a store reports another secret and what to restore, and opens with its own', async () => {
  const store = await testStore()
  await store.close()
  const secret = 'another secret of more than 32 characters'
  const other = { url: `sqlite:${store.path}`, secret, secretPlace: 'the file /x/secret', clock: testClock() }
  const opening = openStore(other)
  await expect(opening).rejects.toBeInstanceOf(StoreError)
  await expect(opening).rejects.toThrow(
    /keys of .* were made with another secret than the file \/x\/secret\. Restore the secret/,
  )
  await expect(opening).rejects.not.toThrow(/another secret of/)
  await testStore({ path: store.path, secret: SECRET })
})

test('if the file is missing and the store has content, no new secret is made', async () => {
  const store = await testStore()
  await store.close()
  const dir = dirname(store.path)
  expect(() => loadSecret(null, dir, store.path)).toThrow(
    `The secret of the keys in ${store.path} is missing: the file ${dir}/secret does not exist and gateway.yaml has no`,
  )
  expect(existsSync(join(dir, 'secret'))).toBe(false)
  // For a missing or empty store, a new secret is made.
  writeFileSync(join(dir, 'empty.db'), '')
  loadSecret(null, dir, join(dir, 'empty.db'))
  expect(existsSync(join(dir, 'secret'))).toBe(true)
})

test.each([
  ['the file', null, 'the file /x/secret'],
  ['the configuration', 'hunter2', '`secret:` of gateway.yaml'],
])('the place of a secret in %s does not contain the secret', (_what, configured, place) => {
  expect(secretPlace(configured, '/x')).toBe(place)
})
