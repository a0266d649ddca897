/** Scenarios: a seed determines the clients, their times and requests, and the faults meanwhile. */
import type { DiskFault } from './disk.ts'
import type { Tariff } from './oracle.ts'
import type { Random } from './random.ts'

/** The catalog for the oracle; `gateway.yaml` is written from it. */
export interface SimulatedModel {
  readonly tariff: Tariff
  readonly context: number
  readonly maxOutput: number
  readonly reasoning: boolean
  readonly outsideCap: number
}

export const MODELS: Readonly<Record<string, SimulatedModel>> = {
  plain: {
    tariff: { input: 150_000_000n, cachedInput: 30_000_000n, output: 600_000_000n },
    context: 8192,
    maxOutput: 1000,
    reasoning: false,
    outsideCap: 0,
  },
  // Parts of a nano-dollar, for rounding.
  odd: {
    tariff: { input: 37_512_345n, cachedInput: 9_378_087n, output: 123_456_789n },
    context: 300,
    maxOutput: 300,
    reasoning: false,
    outsideCap: 0,
  },
  thinker: {
    tariff: { input: 100_000_000n, cachedInput: 100_000_000n, output: 200_000_000n },
    context: 8192,
    maxOutput: 2000,
    reasoning: true,
    outsideCap: 50,
  },
  // Each of its requests searches the web.
  searcher: {
    tariff: { input: 50_000_000n, cachedInput: 10_000_000n, output: 300_000_000n, search: 12_345n },
    context: 2048,
    maxOutput: 500,
    reasoning: false,
    outsideCap: 0,
  },
}

export const PATHS = ['/v1/chat/completions', '/drain/v1/chat/completions', '/free/v1/chat/completions'] as const
export const ACCOUNTS = ['ann', 'ben', 'cem'] as const
/** A key belongs to the account in its name. */
export const KEYS = ['ann-1', 'ann-2', 'ben-1', 'ben-2', 'cem-1'] as const

export interface SimulatedKey {
  readonly name: string
  readonly id: string
  readonly token: string
  readonly account: string
}

export interface ClientPlan {
  readonly index: number
  readonly atMs: number
  readonly key: SimulatedKey
  readonly path: (typeof PATHS)[number]
  readonly model: string
  readonly stream: boolean
  readonly includeUsage: boolean
  readonly choices: number
  /** The requested `max_completion_tokens`; null: none. */
  readonly cap: number | null
  readonly words: number
  /** The pieces of the request. After each pause, the request is sent up to this share of it. */
  readonly pieces: readonly { readonly afterMs: number; readonly upTo: number }[]
  readonly leaveBy: 'fin' | 'reset'
  readonly leaveAfterMs: number | null
  readonly leaveAfterBytes: number | null
  /** Disconnects when the provider has finished but not yet reported its usage. */
  readonly leaveAtFinish: boolean
  readonly stall: { readonly afterMs: number; readonly forMs: number } | null
}

export type Mishap =
  | { readonly what: 'disk'; readonly fault: DiskFault; readonly share: number; readonly forMs: number }
  | { readonly what: 'clock'; readonly byMs: number }
  | { readonly what: 'revoke'; readonly key: SimulatedKey }
  | { readonly what: 'freeze'; readonly account: string; readonly forMs: number }
  | { readonly what: 'credit'; readonly account: string; readonly amount: bigint }
  | { readonly what: 'crash' }
  | { readonly what: 'crash at commit'; readonly when: 'before' | 'after' }
  | { readonly what: 'stop'; readonly cutAfterMs: number }

export interface Scenario {
  readonly credits: readonly { readonly account: string; readonly amount: bigint }[]
  readonly clients: readonly ClientPlan[]
  readonly mishaps: readonly (Mishap & { readonly atMs: number })[]
  /** The time of SIGTERM for the last gateway. */
  readonly stopAtMs: number
  readonly cutAfterMs: number
}

const SPAN_MS = 20_000

export function drawScenario(random: Random, keys: readonly SimulatedKey[]): Scenario {
  const atMs = () => random.whole(10, SPAN_MS)
  const clients = Array.from({ length: random.whole(20, 44) }, (_, index) => drawClient(index, random, keys))
  const mishaps: (Mishap & { atMs: number })[] = []
  const maybe = (share: number, draw: () => Mishap) => {
    if (random.chance(share)) mishaps.push({ atMs: atMs(), ...draw() })
  }
  for (let nth = 0; nth < 2; nth++) {
    maybe(0.5, () => {
      const fault = random.pick<DiskFault>(['begin', 'full', 'before', 'after', 'read-only', 'read-only'])
      // 6 s is longer than a settle is retried: then the settle is in memory only.
      if (fault === 'read-only') return { what: 'disk', fault, share: 1, forMs: random.pick([300, 6_000, 6_000]) }
      return { what: 'disk', fault, share: random.pick([0.3, 0.9, 1]), forMs: random.pick([50, 300, 2_000, 6_000]) }
    })
    maybe(0.3, () => ({ what: 'clock', byMs: random.pick([-3_600_000, 3_600_000, -50, 90_000]) }))
    maybe(0.5, () => ({ what: 'credit', account: random.pick(ACCOUNTS), amount: drawChange(random) }))
  }
  maybe(0.3, () => ({ what: 'revoke', key: random.pick(keys) }))
  maybe(0.3, () => ({ what: 'freeze', account: random.pick(ACCOUNTS), forMs: random.whole(500, 9_000) }))
  maybe(0.3, () => ({ what: 'crash' }))
  maybe(0.2, () => ({ what: 'crash at commit', when: random.pick(['before', 'after']) }))
  maybe(0.2, () => ({ what: 'stop', cutAfterMs: random.whole(10, 8_000) }))
  return {
    credits: ACCOUNTS.map(account => ({ account, amount: drawAmount(random) })),
    clients,
    mishaps,
    stopAtMs: SPAN_MS + random.whole(100, 4_000),
    cutAfterMs: random.whole(10, 20_000),
  }
}

/** Enough for a few holds. */
function drawAmount(random: Random): bigint {
  return BigInt(random.pick([60_000, 300_000, 700_000, 2_000_000, 5_000_000]) + random.whole(0, 999))
}

/** Granted or removed credit. */
function drawChange(random: Random): bigint {
  const amount = drawAmount(random)
  return amount % 3n === 0n ? -amount : amount
}

function drawClient(index: number, random: Random, keys: readonly SimulatedKey[]): ClientPlan {
  const stream = random.chance(0.7)
  const leaves = random.next()
  const slowly = random.chance(0.15)
  const cuts = slowly ? [random.next() * 0.9, 1] : [1]
  return {
    index,
    // Half of the clients start together with others.
    atMs: random.chance(0.5) ? random.whole(1, 4) * 4_000 + random.whole(0, 30) : random.whole(10, SPAN_MS),
    key: random.pick(keys),
    path: random.pick(PATHS),
    model: random.pick(['plain', 'plain', 'odd', 'thinker', 'searcher']),
    stream,
    includeUsage: stream && random.chance(0.5),
    choices: random.chance(0.2) ? 2 : 1,
    cap: random.chance(0.2) ? null : random.pick([1, 8, 64, 200, 300]),
    words: random.whole(1, 60),
    pieces: cuts.map(upTo => ({ upTo, afterMs: slowly ? random.whole(0, 600) : 0 })),
    leaveBy: random.pick(['fin', 'reset']),
    leaveAfterMs: leaves < 0.15 ? random.pick([1, 5, 50, 300, 1_000, 5_000]) * random.whole(1, 3) : null,
    leaveAfterBytes: leaves >= 0.15 && leaves < 0.25 ? random.whole(1, 3_000) : null,
    leaveAtFinish: leaves >= 0.25 && leaves < 0.4,
    stall:
      leaves >= 0.4 && leaves < 0.48 ? { afterMs: random.whole(10, 1_500), forMs: random.whole(100, 15_000) } : null,
  }
}
