/**
 * Hashes passwords with argon2id of `node:crypto`. The stored text has the parameters (PHC string format), so that they can be
 * raised later. At the next sign-in, a password gets a hash with the new parameters.
 *
 * A hash takes 19 MiB and about 30 ms of a core. So at most two run at once and few wait, and a flood of sign-ins takes no memory
 * from streams. Each person or address has at most two hashes that run or wait. Unknown clients have their own queue with one
 * hash at a time, so that they do not delay known clients.
 */
import { type Argon2Parameters, argon2, randomBytes, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { refuse } from '#contract'

/** The client that needs a hash. */
export interface HashClient {
  /** The person and the address: each has at most two hashes that run or wait. */
  readonly by: readonly string[]
  readonly isStranger: boolean
}

export interface Passwords {
  /** The text to store. */
  hash(password: string, client?: HashClient): Promise<string>
  /**
   * Whether the password matches the stored text. Undefined (no such person): the same work, and no match. `better` is a new text
   * to store, if the old one has outdated parameters.
   */
  verify(
    stored: string | undefined,
    password: string,
    client?: HashClient,
  ): Promise<{ readonly right: boolean; readonly better?: string }>
}

/** The hash function; tests replace it. */
export type Derive = (parameters: Argon2Parameters) => Promise<Uint8Array>

/** OWASP's parameters for argon2id: 19 MiB, two passes, one lane. */
const TODAY = { memory: 19_456, passes: 2, parallelism: 1 }
const SALT_BYTES = 16
const HASH_BYTES = 32
const MAX_AT_ONCE = 2
const MAX_OF_STRANGERS_AT_ONCE = 1
const MAX_WAITING = 32
const MAX_OF_ONE = 2
const OWN: HashClient = { by: [], isStranger: false }

/** Runs on a thread of Node's pool. */
export const argon2id: Derive = async parameters => promisify(argon2)('argon2id', parameters)

export function createPasswords(derive: Derive = argon2id): Passwords {
  const run = createQueue(MAX_AT_ONCE)
  const runForStranger = createQueue(MAX_OF_STRANGERS_AT_ONCE)
  // Compared for people who do not exist: 32 random bytes that no password matches.
  const unknown = format(TODAY, randomBytes(SALT_BYTES), randomBytes(HASH_BYTES))

  const make = ({ settings, salt, tag }: PasswordDigest, password: string, { by, isStranger }: HashClient) =>
    (isStranger ? runForStranger : run)(by, () => {
      // Systems send the same text in different forms of Unicode.
      const message = Buffer.from(password.normalize('NFC'))
      return derive({ ...settings, nonce: salt, tagLength: tag.length, message })
    })

  async function hash(password: string, client = OWN): Promise<string> {
    const salt = randomBytes(SALT_BYTES)
    const empty = { settings: TODAY, salt, tag: new Uint8Array(HASH_BYTES) }
    return format(TODAY, salt, await make(empty, password, client))
  }

  return {
    hash,
    async verify(stored, password, client = OWN) {
      const known = parse(stored ?? unknown)
      const right = timingSafeEqual(await make(known, password, client), known.tag)
      return right && !isToday(known.settings) ? { right, better: await hash(password, client) } : { right }
    },
  }
}

interface Settings {
  readonly memory: number
  readonly passes: number
  readonly parallelism: number
}

interface PasswordDigest {
  readonly settings: Settings
  readonly salt: Uint8Array
  readonly tag: Uint8Array
}

const isToday = ({ memory, passes, parallelism }: Settings) =>
  memory === TODAY.memory && passes === TODAY.passes && parallelism === TODAY.parallelism

function format({ memory, passes, parallelism }: Settings, salt: Uint8Array, tag: Uint8Array): string {
  return `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${base64(salt)}$${base64(tag)}`
}

const PHC = /^\$argon2id\$v=19\$m=(\d{1,7}),t=(\d{1,3}),p=(\d{1,2})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/

function parse(stored: string): PasswordDigest {
  const match = PHC.exec(stored)
  if (!match) throw new TypeError('a stored password is not in the form $argon2id$v=19$...')
  const [memory, passes, parallelism] = match.slice(1, 4).map(Number) as [number, number, number]
  return {
    settings: { memory, passes, parallelism },
    salt: Buffer.from(match[4]!, 'base64'),
    tag: Buffer.from(match[5]!, 'base64'),
  }
}

/** Without padding, as the format wants it. */
function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64').replace(/=+$/, '')
}

/** A queue that limits the hashes that run and wait, in total and for each client. Refuses others. */
function createQueue(mostAtOnce: number) {
  const waiting: (() => void)[] = []
  /** By client: the number of hashes that run or wait. */
  const places = new Map<string, number>()
  let running = 0

  function count(by: readonly string[], step: 1 | -1): void {
    for (const each of by) {
      const left = (places.get(each) ?? 0) + step
      if (left === 0) places.delete(each)
      else places.set(each, left)
    }
  }

  return async function run<Result>(by: readonly string[], work: () => Promise<Result>): Promise<Result> {
    const isFull = running >= mostAtOnce && waiting.length >= MAX_WAITING
    if (isFull || by.some(each => (places.get(each) ?? 0) >= MAX_OF_ONE)) {
      throw refuse('overloaded', { retryAfterMs: 1000, detail: 'too many passwords are being hashed' })
    }
    count(by, 1)
    if (running < mostAtOnce) running++
    // A hash that ends starts the next one directly, so that a new one cannot overtake it.
    else await new Promise<void>(resolve => waiting.push(resolve))
    try {
      return await work()
    } finally {
      count(by, -1)
      const next = waiting.shift()
      if (next) next()
      else running--
    }
  }
}
