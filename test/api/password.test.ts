/** Password hashes: their form, their cost, and how many are made at once. */
import { argon2Sync } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { isRefusal } from '#contract'
import { argon2id, createPasswords, type Derive } from '../../src/api/password.ts'

const PASSWORD = 'correct horse battery'

describe('the stored text', () => {
  test.each([
    ['nothing', ''],
    ['the password itself', PASSWORD],
    ['another algorithm', '$argon2i$v=19$m=19456,t=2,p=1$AAAA$AAAA'],
    ['another version', '$argon2id$v=16$m=19456,t=2,p=1$AAAA$AAAA'],
    ['no hash', '$argon2id$v=19$m=19456,t=2,p=1$AAAA'],
    ['parameters beyond all bounds', '$argon2id$v=19$m=99999999,t=2,p=1$AAAA$AAAA'],
  ])('is refused when it is %s, and not repeated in the error', async (_, stored) => {
    const verify = createPasswords().verify(stored, PASSWORD)
    await expect(verify).rejects.toThrow('not in the form')
    if (stored !== '') await expect(verify).rejects.not.toThrow(stored)
  })

  test('is argon2id with its parameters, 16 bytes of salt and 32 of hash, different each time', async () => {
    const passwords = createPasswords()
    const [one, two] = [await passwords.hash(PASSWORD), await passwords.hash(PASSWORD)]
    for (const stored of [one, two]) {
      expect(stored).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/)
    }
    expect(one.split('$')[4]).not.toBe(two.split('$')[4])
    expect(one.split('$')[5]).not.toBe(two.split('$')[5])
  })

  test('is the output of the algorithm, so another program could verify it', async () => {
    const stored = await createPasswords().hash(PASSWORD)
    const [, , , , salt, tag] = stored.split('$')
    const own = argon2Sync('argon2id', {
      message: PASSWORD,
      nonce: Buffer.from(salt!, 'base64'),
      memory: 19_456,
      passes: 2,
      parallelism: 1,
      tagLength: 32,
    })
    expect(own.toString('base64').replace(/=+$/, '')).toBe(tag)
  })
})

describe('verifying', () => {
  test('accepts the right password only', async () => {
    const passwords = createPasswords()
    const stored = await passwords.hash(PASSWORD)
    expect(await passwords.verify(stored, PASSWORD)).toEqual({ right: true })
    for (const other of ['', `${PASSWORD} `, PASSWORD.slice(0, -1), PASSWORD.toUpperCase(), `${PASSWORD}\0`]) {
      expect(await passwords.verify(stored, other), JSON.stringify(other)).toEqual({ right: false })
    }
  })

  test('an unknown person has no password', async () => {
    const passwords = createPasswords()
    expect(await passwords.verify(undefined, PASSWORD)).toEqual({ right: false })
    expect(await passwords.verify(undefined, '')).toEqual({ right: false })
  })

  test('does the same work for an unknown person', async () => {
    const asked: object[] = []
    const passwords = createPasswords(parameters => {
      const { memory, passes, parallelism, tagLength } = parameters
      asked.push({ memory, passes, parallelism, tagLength, salt: (parameters.nonce as Uint8Array).byteLength })
      return argon2id(parameters)
    })
    const stored = await passwords.hash(PASSWORD)
    await passwords.verify(stored, 'wrong password')
    await passwords.verify(undefined, 'wrong password')
    expect(asked).toHaveLength(3)
    expect(asked[2]).toEqual(asked[1])
  })

  test.each([
    ['less memory', 'm=8192,t=2,p=1'],
    ['one pass', 'm=19456,t=1,p=1'],
    ['two lanes', 'm=19456,t=2,p=2'],
    ['more of everything', 'm=32768,t=3,p=2'],
  ])('a hash with %s is verified with its own parameters and rehashed with the current ones', async (_, parameters) => {
    const [memory, passes, parallelism] = [...parameters.matchAll(/\d+/g)].map(Number) as [number, number, number]
    const nonce = Buffer.alloc(16, 7)
    const tag = argon2Sync('argon2id', { message: PASSWORD, nonce, memory, passes, parallelism, tagLength: 32 })
    const text = (bytes: Buffer) => bytes.toString('base64').replace(/=+$/, '')
    const stored = `$argon2id$v=19$${parameters}$${text(nonce)}$${text(tag)}`
    const passwords = createPasswords()
    expect(await passwords.verify(stored, 'wrong password')).toEqual({ right: false })
    const { right, better } = await passwords.verify(stored, PASSWORD)
    expect(right).toBe(true)
    expect(better).toContain('$m=19456,t=2,p=1$')
    expect(await passwords.verify(better, PASSWORD)).toEqual({ right: true })
  })
})

describe('concurrent hashes', () => {
  /** Hashes that wait until the test releases them, one by one. */
  function gated() {
    const gates: PromiseWithResolvers<void>[] = []
    let inside = 0
    let most = 0
    const derive: Derive = async ({ tagLength }) => {
      const gate = Promise.withResolvers<void>()
      gates.push(gate)
      most = Math.max(most, ++inside)
      try {
        await gate.promise
      } finally {
        inside--
      }
      return new Uint8Array(tagLength)
    }
    return { derive, gates, most: () => most }
  }

  test('are limited to two; 32 wait in order; the next is refused with a retry time', async () => {
    const { derive, gates, most } = gated()
    const passwords = createPasswords(derive)
    const order: number[] = []
    const hashes = Array.from({ length: 34 }, (_, index) => passwords.hash(PASSWORD).then(() => order.push(index)))
    const refused = await passwords.hash(PASSWORD).catch((error: unknown) => error)
    expect(isRefusal(refused) && refused.code).toBe('overloaded')
    for (let count = 0; count < 34; count++) {
      await expect.poll(() => gates.length).toBeGreaterThan(count)
      gates[count]!.resolve()
    }
    await Promise.all(hashes)
    expect(order).toEqual(Array.from({ length: 34 }, (_, index) => index))
    expect(most()).toBe(2)
  })

  test('give their place to the next when they fail', async () => {
    const { derive, gates } = gated()
    const passwords = createPasswords(derive)
    const hashes = Array.from({ length: 4 }, () => passwords.hash(PASSWORD))
    const ended = Promise.allSettled(hashes)
    for (let count = 0; count < 4; count++) {
      await expect.poll(() => gates.length).toBeGreaterThan(count)
      if (count < 2) gates[count]!.reject(new Error('out of memory'))
      else gates[count]!.resolve()
    }
    expect((await ended).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'fulfilled', 'fulfilled'])
    // Both places are free again.
    const two = [passwords.hash(PASSWORD), passwords.hash(PASSWORD)]
    await expect.poll(() => gates.length).toBe(6)
    for (const gate of gates.slice(4)) gate.resolve()
    await Promise.all(two)
  })
})
