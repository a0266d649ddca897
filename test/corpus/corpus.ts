/**
 * A corpus of recorded provider traffic, as it lies in a folder: `open/PROVIDER.jsonl` with the cases,
 * `open/expect/PROVIDER.jsonl` with what a client should see of each, `tools/` with a replaying upstream and a checker,
 * and OpenAI's schemas. Nothing of it belongs to this repository; where it lies is said by whoever runs the proof.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

/** How the replaying upstream cuts its answers: in one piece, by event, by byte, or anywhere. */
export const CHUNK_MODES = ['whole', 'event', 'byte', 'random'] as const
export type ChunkMode = (typeof CHUNK_MODES)[number]

/** What the gateway calls a dialect of the corpus, and below which path it is replayed. Those that are missing are left out. */
export const DIALECTS: Readonly<Record<string, { readonly dialect: string; readonly path: string }>> = {
  openai: { dialect: 'openai', path: '/v1' },
  'openai-compat': { dialect: 'openai', path: '/v1' },
  azure: { dialect: 'openai', path: '/v1' },
  anthropic: { dialect: 'anthropic', path: '/v1' },
  gemini: { dialect: 'gemini', path: '/v1beta' },
  'bedrock-converse': { dialect: 'bedrock', path: '' },
}

export interface CorpusCase {
  readonly id: string
  readonly provider: string
  readonly stream: boolean
  /** A key of `DIALECTS`. */
  readonly dialect: string
  /** Recorded from api.openai.com itself: what leaves the gateway must fit the observed schema. */
  readonly original: boolean
  /** The recorded request's body; null where only the answer was recorded. */
  readonly body: Readonly<Record<string, unknown>> | null
  /** The case and its expectation as they were read, a line each. */
  readonly lines: { readonly open: string; readonly expect: string }
}

export interface Corpus {
  readonly dir: string
  /** The chat cases whose outcome the checker knows how to judge, in the order of the files. */
  readonly cases: readonly CorpusCase[]
  /** Chat cases of these dialects that the checker passes over, because nothing is expected of them. */
  readonly unjudged: number
}

/** Reads a corpus. Throws a sentence when the folder is none. */
export function openCorpus(folder: string): Corpus {
  const dir = resolve(folder)
  for (const part of ['open/expect', 'tools/replay.mjs', 'tools/check.mjs', 'openai-chat.schema.json']) {
    if (!existsSync(join(dir, part))) throw new Error(`${dir} is no corpus: it has no ${part}`)
  }
  const cases: CorpusCase[] = []
  let unjudged = 0
  for (const name of readdirSync(join(dir, 'open')).filter(name => name.endsWith('.jsonl'))) {
    const expected = new Map(
      linesOf(join(dir, 'open/expect', name)).map(line => [(JSON.parse(line) as Expected).case, line]),
    )
    for (const open of linesOf(join(dir, 'open', name))) {
      const { id, provider, dialect, kind, origin, stream, request } = JSON.parse(open) as Recorded
      if (!Object.hasOwn(DIALECTS, dialect) || kind !== 'chat') continue
      const expect = expected.get(id)
      if (expect === undefined) throw new Error(`${name}: nothing is expected of ${id}`)
      if ((JSON.parse(expect) as Expected).kind === 'other') {
        unjudged++
        continue
      }
      const original = origin === 'recorded' && request?.host === 'api.openai.com'
      cases.push({ id, provider, stream, dialect, original, body: request?.body ?? null, lines: { open, expect } })
    }
  }
  if (cases.length === 0) throw new Error(`${dir} has no case of the dialects ${Object.keys(DIALECTS).join(', ')}`)
  return { dir, cases, unjudged }
}

/** About so many cases, spread evenly over each provider's, and one of each provider at least. */
export function sampleOf(cases: readonly CorpusCase[], most: number): CorpusCase[] {
  return [...byProvider(cases).values()].flatMap(own => {
    const wanted = Math.max(1, Math.floor((own.length * most) / cases.length))
    return Array.from({ length: wanted }, (_, index) => own[Math.floor((index * own.length) / wanted)]!)
  })
}

/** The cases by their provider, providers in alphabetical order. */
export function byProvider(cases: readonly CorpusCase[]): Map<string, CorpusCase[]> {
  const groups = Map.groupBy(cases, ({ provider }) => provider)
  return new Map([...groups].sort(([one], [other]) => (one < other ? -1 : 1)))
}

/** Writes cases as a set of their own, which the tools of the corpus read like `open/`. */
export function writeSet(cases: readonly CorpusCase[], folder: string): void {
  mkdirSync(join(folder, 'expect'), { recursive: true })
  for (const [provider, own] of byProvider(cases)) {
    writeFileSync(join(folder, `${provider}.jsonl`), own.map(({ lines }) => `${lines.open}\n`).join(''))
    writeFileSync(join(folder, 'expect', `${provider}.jsonl`), own.map(({ lines }) => `${lines.expect}\n`).join(''))
  }
}

/** What is read of a line of `open/`. */
interface Recorded {
  readonly id: string
  readonly provider: string
  readonly dialect: string
  readonly kind: string
  readonly origin: string
  readonly stream: boolean
  readonly request: { readonly host: string; readonly body: Readonly<Record<string, unknown>> } | null
}

interface Expected {
  readonly case: string
  readonly kind: string
}

function linesOf(file: string): string[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter(line => line !== '')
}
