/**
 * Texts in memory that the threads of a process share, each with a time to live. They are consecutive in a ring. A new text replaces the
 * oldest one, unless that was read since it was written. Texts are found by a keyed digest of the name.
 */
import { hash } from 'node:crypto'
import type { Clock, KeyValue } from '#contract'
import { checkTtl } from './key-value.ts'
import { type Locks, lock, unlock } from './shared-locks.ts'

/** Sent to other threads: an object of shared buffers. */
export interface TextMemory {
  /** One lock for all texts. */
  readonly locks: Locks
  /** The place of the next text, the place of the oldest one, and the number of used bytes. */
  readonly ring: Int32Array<SharedArrayBuffer>
  /** For each chain of names the place of its newest text, plus 1; 0: the chain is empty. */
  readonly chains: Int32Array<SharedArrayBuffer>
  readonly bytes: SharedArrayBuffer
}

const [HEAD, TAIL, USED] = [0, 1, 2]
/** Words of the header of each text. A negative length belongs to a gap at the end of the ring. */
const [LENGTH, NEXT, DIGEST, SIZE, KIND, UNTIL] = [0, 1, 2, 6, 7, 8]
const DIGEST_WORDS = 4
const HEADER_BYTES = 40
const [LATIN1, UTF16, READ] = [1, 2, 4]
const MAX_BYTES = 1 << 30
/** Bytes of the ring for each chain, and the limits of the number of chains. */
const CHAIN_BYTES = 1024
const [LEAST_CHAINS, MOST_CHAINS] = [64, 65_536]
/** Maximum number of read texts that are kept for each new one; otherwise a write could take a long time. */
const CHANCES = 4
/**
 * A dead thread keeps its lock until the main thread releases it, a moment later. Meanwhile reads find nothing. A change waits for longer:
 * if it were skipped, others would read an outdated text.
 */
const GET_PAUSES = 20
const CHANGE_PAUSES = 2000

export function createTextMemory(maxBytes: number): TextMemory {
  const bytes = Math.min(MAX_BYTES, Math.max(HEADER_BYTES, Math.ceil(maxBytes / 8) * 8))
  const chains = 2 ** Math.ceil(Math.log2(Math.min(MOST_CHAINS, Math.max(LEAST_CHAINS, bytes / CHAIN_BYTES))))
  return {
    locks: new Int32Array(new SharedArrayBuffer(4)),
    ring: new Int32Array(new SharedArrayBuffer(12)),
    chains: new Int32Array(new SharedArrayBuffer(4 * chains)),
    bytes: new SharedArrayBuffer(bytes),
  }
}

/** Releases the lock of a dead thread. Its change may be half done, so all texts are dropped. */
export function forgetTexts({ locks, ring, chains }: TextMemory, dead: number): void {
  if (Atomics.load(locks, 0) !== dead + 1) return
  chains.fill(0)
  ring.fill(0)
  unlock(locks, 0)
}

export interface SharedTextsOptions {
  readonly memory: TextMemory
  readonly clock: Clock
  /** The thread's number. */
  readonly index: number
  /** Keys the digests of names, so that no one can find two names that share a text. */
  readonly secret: string
}

export class SharedTexts implements KeyValue {
  readonly #memory: TextMemory
  readonly #words: Int32Array<SharedArrayBuffer>
  readonly #times: Float64Array<SharedArrayBuffer>
  readonly #buffer: Buffer<SharedArrayBuffer>
  readonly #clock: Clock
  readonly #index: number
  readonly #prefix: string

  constructor({ memory, clock, index, secret }: SharedTextsOptions) {
    this.#memory = memory
    this.#words = new Int32Array(memory.bytes)
    this.#times = new Float64Array(memory.bytes)
    this.#buffer = Buffer.from(memory.bytes)
    this.#clock = clock
    this.#index = index
    this.#prefix = hash('sha256', `tollgate:texts:${secret}`)
  }

  get(name: string): string | undefined {
    return this.#locked(name, GET_PAUSES, (digest, chain) => {
      const at = this.#find(digest, chain)
      if (at === null || this.#times[(at + 4 * UNTIL) / 8]! <= this.#clock.now()) return undefined
      const word = at / 4
      this.#words[word + KIND]! |= READ
      const encoding = this.#words[word + KIND]! & LATIN1 ? 'latin1' : 'utf16le'
      return this.#buffer.toString(encoding, at + HEADER_BYTES, at + HEADER_BYTES + this.#words[word + SIZE]!)
    })
  }

  set(name: string, value: string, ttlMs: number): void {
    checkTtl(ttlMs)
    const isAscii = Buffer.byteLength(value) === value.length
    const size = isAscii ? value.length : 2 * value.length
    const length = HEADER_BYTES + Math.ceil(size / 8) * 8
    this.#locked(name, CHANGE_PAUSES, (digest, chain) => {
      // The former text ends even if the new one does not fit.
      this.#end(digest, chain)
      if (length > this.#memory.bytes.byteLength) return
      this.#makeRoom(length)
      const at = this.#memory.ring[HEAD]!
      const word = at / 4
      this.#words[word + LENGTH] = length
      for (let each = 0; each < DIGEST_WORDS; each++) this.#words[word + DIGEST + each] = digest.readInt32LE(4 * each)
      this.#words[word + SIZE] = size
      this.#words[word + KIND] = isAscii ? LATIN1 : UTF16
      this.#times[(at + 4 * UNTIL) / 8] = this.#clock.now() + ttlMs
      this.#buffer.write(value, at + HEADER_BYTES, size, isAscii ? 'latin1' : 'utf16le')
      this.#append(at, chain)
    })
  }

  delete(name: string): void {
    this.#locked(name, CHANGE_PAUSES, (digest, chain) => this.#end(digest, chain))
  }

  #locked<Result>(name: string, pauses: number, use: (digest: Buffer, chain: number) => Result): Result | undefined {
    const digest = hash('sha256', this.#prefix + name, 'buffer')
    const { locks, chains } = this.#memory
    if (!lock(locks, 0, this.#index, pauses)) return undefined
    try {
      return use(digest, chainOf(digest.readInt32LE(0), chains))
    } finally {
      unlock(locks, 0)
    }
  }

  /** The place of the newest text of a name. */
  #find(digest: Buffer, chain: number): number | null {
    for (let place = this.#memory.chains[chain]!; place !== 0; place = this.#words[(place - 1) / 4 + NEXT]!) {
      const word = (place - 1) / 4
      let each = 0
      while (each < DIGEST_WORDS && this.#words[word + DIGEST + each] === digest.readInt32LE(4 * each)) each++
      if (each === DIGEST_WORDS) return place - 1
    }
    return null
  }

  /** An older text of the name stays hidden behind this one. */
  #end(digest: Buffer, chain: number): void {
    const at = this.#find(digest, chain)
    if (at !== null) this.#times[(at + 4 * UNTIL) / 8] = 0
  }

  /** Adds a text with complete bytes to the ring and to its chain. */
  #append(at: number, chain: number): void {
    const { ring, chains, bytes } = this.#memory
    const length = this.#words[at / 4 + LENGTH]!
    this.#words[at / 4 + NEXT] = chains[chain]!
    chains[chain] = at + 1
    ring[HEAD] = (at + length) % bytes.byteLength
    ring[USED]! += length
  }

  /** Drops texts until there is a free piece of this length at the head. */
  #makeRoom(length: number): void {
    const { ring } = this.#memory
    for (let chances = CHANCES; this.#freeBytes() < length; ) {
      if (ring[HEAD]! > ring[TAIL]!) this.#leaveGap()
      else if (this.#dropOldest(chances > 0)) chances--
    }
  }

  /** The free bytes in one piece, from the head on. */
  #freeBytes(): number {
    const { ring, bytes } = this.#memory
    if (ring[USED] === 0) ring[HEAD] = ring[TAIL] = 0
    else if (ring[HEAD] === ring[TAIL]) return 0
    return (ring[HEAD]! >= ring[TAIL]! ? bytes.byteLength : ring[TAIL]!) - ring[HEAD]!
  }

  /** The rest at the end is too short, so the ring continues at its beginning. */
  #leaveGap(): void {
    const { ring, bytes } = this.#memory
    const length = bytes.byteLength - ring[HEAD]!
    this.#words[ring[HEAD]! / 4 + LENGTH] = -length
    ring[USED]! += length
    ring[HEAD] = 0
  }

  /** Returns whether the text was kept instead, as the newest, because it was read. */
  #dropOldest(mayKeep: boolean): boolean {
    const { ring, bytes } = this.#memory
    const at = ring[TAIL]!
    const word = at / 4
    const length = this.#words[word + LENGTH]!
    ring[TAIL] = (at + Math.abs(length)) % bytes.byteLength
    ring[USED]! -= Math.abs(length)
    if (length < 0) return false
    const chain = chainOf(this.#words[word + DIGEST]!, this.#memory.chains)
    this.#unlink(at, chain)
    const isAlive = this.#times[(at + 4 * UNTIL) / 8]! > this.#clock.now()
    if (!mayKeep || !isAlive || (this.#words[word + KIND]! & READ) === 0 || this.#freeBytes() < length) return false
    const to = ring[HEAD]!
    this.#buffer.copyWithin(to, at, at + length)
    this.#words[to / 4 + KIND]! &= ~READ
    this.#append(to, chain)
    return true
  }

  /** Unlinks the oldest text of the ring, which is the last one of its chain. */
  #unlink(at: number, chain: number): void {
    const { chains } = this.#memory
    let place = chains[chain]!
    if (place === at + 1) chains[chain] = 0
    else {
      while (this.#words[(place - 1) / 4 + NEXT] !== at + 1) place = this.#words[(place - 1) / 4 + NEXT]!
      this.#words[(place - 1) / 4 + NEXT] = 0
    }
  }
}

const chainOf = (word: number, chains: Int32Array) => word & (chains.length - 1)
