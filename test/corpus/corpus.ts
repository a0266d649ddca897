/**
 * A corpus of recorded provider traffic, as it lies in a folder: `open/PROVIDER.jsonl` with the cases,
 * `open/expect/PROVIDER.jsonl` with what a client should see of each, `tools/` with a replaying upstream and a checker,
 * and OpenAI's schemas. Nothing of it belongs to this repository; where it lies is said by whoever runs the proof.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { AMENDED, type Amendment } from './amended.ts'

/** How the replaying upstream cuts its answers: in one piece, by event, by byte, or anywhere. */
export const CHUNK_MODES = ['whole', 'event', 'byte', 'random'] as const
export type ChunkMode = (typeof CHUNK_MODES)[number]

/** How the gateway speaks to those who speak a dialect of the corpus. */
export interface Speaker {
  readonly dialect: string
  /** Below the replaying upstream: what a base URL of this dialect ends in. */
  readonly path: string
  /** Before the name of the model, where the dialect takes models of certain names only. */
  readonly prefix?: string
  /** More of what the provider's configuration says. */
  readonly settings?: object
}

/** By what the corpus calls the dialect. Cases of those that are missing are left out. */
export const DIALECTS: Readonly<Record<string, Speaker>> = {
  openai: { dialect: 'openai', path: '/v1' },
  'openai-compat': { dialect: 'openai', path: '/v1' },
  azure: { dialect: 'azure', path: '', settings: { api_version: '2024-10-21' } },
  anthropic: { dialect: 'anthropic', path: '/v1' },
  gemini: { dialect: 'gemini', path: '/v1beta' },
  'bedrock-converse': { dialect: 'bedrock', path: '' },
  'bedrock-invoke': { dialect: 'bedrock-invoke', path: '', prefix: 'anthropic.claude-' },
  'cohere-v2': { dialect: 'cohere', path: '/v2' },
  'ollama-native': { dialect: 'ollama', path: '' },
}

const PROJECT = '/v1/projects/example/locations/global'

/** Providers that speak a dialect of the corpus in a way of their own, by their name there. */
export const PROVIDERS: Readonly<Record<string, Speaker>> = {
  mistral: { dialect: 'mistral', path: '/v1' },
  deepseek: { dialect: 'deepseek', path: '' },
  groq: { dialect: 'groq', path: '/openai/v1' },
  perplexity: { dialect: 'perplexity', path: '' },
  together: { dialect: 'together', path: '/v1' },
  zai: { dialect: 'zai', path: '/api/paas/v4' },
  'vertex-gemini': { dialect: 'vertex', path: `${PROJECT}/publishers/google` },
  'vertex-anthropic': { dialect: 'vertex-anthropic', path: `${PROJECT}/publishers/anthropic` },
}

export function speakerOf({ provider, dialect }: Pick<CorpusCase, 'provider' | 'dialect'>): Speaker {
  return (Object.hasOwn(PROVIDERS, provider) ? PROVIDERS[provider] : DIALECTS[dialect])!
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
  /** What is expected in place of what the corpus says; mostly nothing. */
  readonly amendment: Amendment | null
  /** The case and its expectation, a line each. */
  readonly lines: { readonly open: string; readonly expect: string }
}

export interface Corpus {
  readonly dir: string
  /** The chat cases whose outcome the checker knows how to judge, in the order of the files. */
  readonly cases: readonly CorpusCase[]
  /** The cases that are not among them, by the reason. */
  readonly leftOut: ReadonlyMap<string, readonly string[]>
}

/** Reads a corpus. Throws a sentence when the folder is none. */
export function openCorpus(folder: string): Corpus {
  const dir = resolve(folder)
  for (const part of ['open/expect', 'tools/replay.mjs', 'tools/check.mjs', 'openai-chat.schema.json']) {
    if (!existsSync(join(dir, part))) throw new Error(`${dir} is no corpus: it has no ${part}`)
  }
  const cases: CorpusCase[] = []
  const leftOut = new Map<string, string[]>()
  for (const name of readdirSync(join(dir, 'open')).filter(name => name.endsWith('.jsonl'))) {
    const expected = new Map(
      linesOf(join(dir, 'open/expect', name)).map(line => [(JSON.parse(line) as Expected).case, line]),
    )
    for (const open of linesOf(join(dir, 'open', name))) {
      const recorded = JSON.parse(open) as Recorded
      const expect = expected.get(recorded.id)
      if (expect === undefined) throw new Error(`${name}: nothing is expected of ${recorded.id}`)
      const reason = whyLeftOut(recorded, JSON.parse(expect) as Expected)
      if (reason === null) cases.push(caseOf(recorded, { open, expect }))
      else leftOut.set(reason, [...(leftOut.get(reason) ?? []), recorded.id])
    }
  }
  if (cases.length === 0) throw new Error(`${dir} has no case of the dialects ${Object.keys(DIALECTS).join(', ')}`)
  return { dir, cases, leftOut }
}

/** Null for a case that is judged. */
function whyLeftOut({ provider, dialect, kind }: Recorded, expected: Expected): string | null {
  if (kind !== 'chat') return 'no chat completion'
  if (!Object.hasOwn(DIALECTS, dialect)) return `the gateway does not speak ${dialect}`
  if (expected.kind !== 'other') return null
  // Titan, Llama, Mistral and Claude's text completions have formats of their own there; Converse is the way to them.
  if (dialect === 'bedrock-invoke') return 'InvokeModel in a format that is not the Messages API (go by Converse)'
  return `the corpus expects nothing of it (${provider})`
}

function caseOf(recorded: Recorded, lines: CorpusCase['lines']): CorpusCase {
  const { id, provider, dialect, origin, stream, request } = recorded
  const amendment = AMENDED[id] ?? null
  return {
    id,
    provider,
    stream,
    dialect,
    original: origin === 'recorded' && request?.host === 'api.openai.com',
    body: request?.body ?? null,
    amendment,
    lines: amendment === null ? lines : { ...lines, expect: amended(lines.expect, amendment) },
  }
}

function amended(line: string, { expect }: Amendment): string {
  return JSON.stringify({ ...(JSON.parse(line) as Expected), ...expect })
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
