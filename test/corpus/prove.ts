/** Sends the cases of a corpus through a running gateway, one chunk mode after the other, and counts the passed ones. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startGateway } from '../helpers/gateway.ts'
import { byProvider, type ChunkMode, type Corpus, type CorpusCase, settingsOf, writeSet } from './corpus.ts'
import { judgeOriginals } from './originals.ts'
import { check, startReplay } from './tools.ts'

export interface Proof {
  readonly modes: readonly ChunkMode[]
  /** The number of a provider's cases that passed, in the order of `modes`. */
  readonly rows: readonly { readonly provider: string; readonly cases: number; readonly passed: readonly number[] }[]
  /** Answers and chunks that were checked against OpenAI's schemas. */
  readonly judged: number
  /** A line for each failed case and mode. */
  readonly failures: readonly string[]
}

export interface ProofOptions {
  readonly corpus: Corpus
  readonly cases: readonly CorpusCase[]
  readonly modes: readonly ChunkMode[]
  /** Called before each mode with the number of finished cases over all modes. */
  readonly onProgress?: (progress: { done: number; all: number; mode: ChunkMode }) => void
}

/** Rejects if a tool does not run; a failing case is a line in `failures`. */
export async function proveCorpus({ corpus, cases, modes, onProgress }: ProofOptions): Promise<Proof> {
  const set = mkdtempSync(join(tmpdir(), 'tollgate-corpus-'))
  try {
    writeSet(cases, set)
    const groups = byProvider(cases)
    const rows = [...groups].map(([provider, own]) => ({ provider, cases: own.length, passed: [] as number[] }))
    const failures: string[] = []
    let [done, judged] = [0, 0]
    for (const mode of modes) {
      await using replay = await startReplay(corpus.dir, set, mode)
      const gateway = await startGateway({ yaml: configurationOf(cases, replay.url), policies: { corpus: POLICY } })
      onProgress?.({ done, all: cases.length * modes.length, mode })
      const verdict = await check(corpus.dir, set, gateway.url)
      failures.push(...verdict.failures.map(line => `${mode} | ${line}`))
      for (const { provider, cases: own, passed } of rows) {
        const { checked, passed: good } = verdict.counts.get(provider) ?? { checked: 0, passed: 0 }
        if (checked !== own) failures.push(`${provider} | ${mode} | ${checked} of ${own} were checked`)
        passed.push(good)
      }
      done += cases.length
      const originals = await judgeOriginals(corpus.dir, cases, gateway.url)
      failures.push(...originals.failures.map(line => `${mode} | ${line}`))
      judged += originals.judged
      const code = await gateway.stop()
      if (code !== 0) failures.push(`${mode} | the gateway ended with ${code}`)
    }
    return { modes, rows, judged, failures }
  } finally {
    rmSync(set, { recursive: true, force: true })
  }
}

/** The counts as a table, one line per provider. */
export function tableOf({ modes, rows }: Proof): string {
  const widths = [Math.max(...rows.map(({ provider }) => provider.length), 8), 5, ...modes.map(() => 9)]
  const line = (cells: readonly (string | number)[]) =>
    cells
      .map((cell, at) => (at === 0 ? String(cell).padEnd(widths[at]!) : String(cell).padStart(widths[at]!)))
      .join('  ')
  const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0)
  const shown = (passed: number, cases: number) => (passed === cases ? passed : `${passed} of ${cases}`)
  const all = sum(rows.map(({ cases }) => cases))
  return [
    line(['provider', 'cases', ...modes]),
    ...rows.map(({ provider, cases, passed }) => line([provider, cases, ...passed.map(count => shown(count, cases))])),
    line(['all', all, ...modes.map((_, at) => shown(sum(rows.map(({ passed }) => passed[at]!)), all))]),
  ].join('\n')
}

/** A policy for recorded traffic. It checks only the form, so members that providers add are accepted. */
const POLICY = {
  steps: [
    { use: 'schema', with: { unknown_fields: 'pass' } },
    { use: 'route', with: { attempts: 1 } },
  ],
}

/**
 * A provider for each combination of provider and dialect in the corpus, all at the replaying upstream; and a model for each
 * case.
 */
function configurationOf(cases: readonly CorpusCase[], upstream: string): object {
  const nameOf = (one: CorpusCase) => `${one.provider}-${settingsOf(one).dialect}`
  const provider = (one: CorpusCase) => {
    const { dialect, path, settings } = settingsOf(one)
    return { dialect, base_url: upstream + path, ...settings }
  }
  const model = (one: CorpusCase) => ({
    targets: [{ provider: nameOf(one), model: `${settingsOf(one).prefix ?? ''}${one.id}` }],
    price: 'free',
    context: '2000Ki',
    max_output: '1000Ki',
    reasoning: true,
  })
  return {
    version: 1,
    listen: '127.0.0.1:0',
    store: 'memory',
    providers: Object.fromEntries(cases.map(one => [nameOf(one), provider(one)])),
    models: Object.fromEntries(cases.map(one => [`${one.provider}/${one.id}`, model(one)])),
    routes: [{ path: '/v1/chat/completions', policy: 'corpus', public: true }],
  }
}
