/**
 * A corpus of recorded provider traffic in a folder. `open/PROVIDER.jsonl` has the cases, `open/expect/PROVIDER.jsonl` the
 * client's expected view, `tools/` a replaying upstream and a checker; OpenAI's schemas lie beside them. The corpus is not part
 * of this repository: the caller names its folder.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { AMENDED, type Amendment } from './amended.ts'

/** The ways in which the replaying upstream cuts its answers: one piece, by event, by byte, or anywhere. */
export const CHUNK_MODES = ['whole', 'event', 'byte', 'random'] as const
export type ChunkMode = (typeof CHUNK_MODES)[number]

/** The gateway's settings for a dialect of the corpus. */
export interface DialectSettings {
  readonly dialect: string
  /** The path that a base URL of this dialect has below the replaying upstream. */
  readonly path: string
  /** A prefix of the model's name, if the dialect takes only certain names. */
  readonly prefix?: string
  /** Further settings of the provider. */
  readonly settings?: object
}

/** By the corpus' name of the dialect. Cases of other dialects are skipped. */
export const DIALECTS: Readonly<Record<string, DialectSettings>> = {
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

/** Providers that deviate from a dialect, by their name in the corpus. */
export const PROVIDERS: Readonly<Record<string, DialectSettings>> = {
  mistral: { dialect: 'mistral', path: '/v1' },
  deepseek: { dialect: 'deepseek', path: '' },
  groq: { dialect: 'groq', path: '/openai/v1' },
  perplexity: { dialect: 'perplexity', path: '' },
  together: { dialect: 'together', path: '/v1' },
  zai: { dialect: 'zai', path: '/api/paas/v4' },
  'vertex-gemini': { dialect: 'vertex', path: `${PROJECT}/publishers/google` },
  'vertex-anthropic': { dialect: 'vertex-anthropic', path: `${PROJECT}/publishers/anthropic` },
}

export function settingsOf({ provider, dialect }: Pick<CorpusCase, 'provider' | 'dialect'>): DialectSettings {
  return (Object.hasOwn(PROVIDERS, provider) ? PROVIDERS[provider] : DIALECTS[dialect])!
}

export interface CorpusCase {
  readonly id: string
  readonly provider: string
  readonly stream: boolean
  /** A key of `DIALECTS`. */
  readonly dialect: string
  /** Recorded from api.openai.com itself: the gateway's output must fit the observed schema. */
  readonly original: boolean
  /** The body of the recorded request; null if only the answer was recorded. */
  readonly body: Readonly<Record<string, unknown>> | null
  /** Replaces a part of the corpus' expectation; usually null. */
  readonly amendment: Amendment | null
  /** The lines of the case and of its expectation. */
  readonly lines: { readonly open: string; readonly expect: string }
}

export interface Corpus {
  readonly dir: string
  /** The chat cases that the checker can judge, in the order of the files. */
  readonly cases: readonly CorpusCase[]
  /** The other cases, by the reason. */
  readonly skipped: ReadonlyMap<string, readonly string[]>
}

/** Reads a corpus. Throws an error if the folder is not one. */
export function openCorpus(folder: string): Corpus {
  const dir = resolve(folder)
  for (const part of ['open/expect', 'tools/replay.mjs', 'tools/check.mjs', 'openai-chat.schema.json']) {
    if (!existsSync(join(dir, part))) throw new Error(`${dir} is not a corpus: it lacks ${part}`)
  }
  const cases: CorpusCase[] = []
  const skipped = new Map<string, string[]>()
  for (const name of readdirSync(join(dir, 'open')).filter(name => name.endsWith('.jsonl'))) {
    const expected = new Map(
      linesOf(join(dir, 'open/expect', name)).map(line => [(JSON.parse(line) as ExpectedView).case, line]),
    )
    for (const open of linesOf(join(dir, 'open', name))) {
      const recorded = JSON.parse(open) as RecordedCase
      const expect = expected.get(recorded.id)
      if (expect === undefined) throw new Error(`${name}: no expectation for ${recorded.id}`)
      const reason = whySkipped(recorded, JSON.parse(expect) as ExpectedView)
      if (reason === null) cases.push(caseOf(recorded, { open, expect }))
      else skipped.set(reason, [...(skipped.get(reason) ?? []), recorded.id])
    }
  }
  if (cases.length === 0) throw new Error(`${dir} has no case of the dialects ${Object.keys(DIALECTS).join(', ')}`)
  return { dir, cases, skipped }
}

/** The reason to skip a case; null if it is judged. */
function whySkipped({ provider, dialect, kind }: RecordedCase, expected: ExpectedView): string | null {
  if (kind !== 'chat') return 'no chat completion'
  if (!Object.hasOwn(DIALECTS, dialect)) return `the gateway does not speak ${dialect}`
  if (expected.kind !== 'other') return null
  // Titan, Llama, Mistral and Claude's text completions have their own formats there. The Converse API reaches them all.
  if (dialect === 'bedrock-invoke') return 'InvokeModel in a format that is not the Messages API (use Converse)'
  return `the corpus has no expectation for it (${provider})`
}

function caseOf(recorded: RecordedCase, lines: CorpusCase['lines']): CorpusCase {
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
  return JSON.stringify({ ...(JSON.parse(line) as ExpectedView), ...expect })
}

/** About this many cases, spread evenly over each provider's, and at least one per provider. */
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

/** Writes cases as a set that the tools of the corpus read like `open/`. */
export function writeSet(cases: readonly CorpusCase[], folder: string): void {
  mkdirSync(join(folder, 'expect'), { recursive: true })
  for (const [provider, own] of byProvider(cases)) {
    writeFileSync(join(folder, `${provider}.jsonl`), own.map(({ lines }) => `${lines.open}\n`).join(''))
    writeFileSync(join(folder, 'expect', `${provider}.jsonl`), own.map(({ lines }) => `${lines.expect}\n`).join(''))
  }
}

/** The members of a line of `open/` that the tests read. */
interface RecordedCase {
  readonly id: string
  readonly provider: string
  readonly dialect: string
  readonly kind: string
  readonly origin: string
  readonly stream: boolean
  readonly request: { readonly host: string; readonly body: Readonly<Record<string, unknown>> } | null
}

interface ExpectedView {
  readonly case: string
  readonly kind: string
}

function linesOf(file: string): string[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter(line => line !== '')
}
