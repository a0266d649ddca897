/**
 * `npm run corpus -- DIR`: every case of a corpus whose dialect the gateway speaks, in all four chunk modes. Prints
 * counts per provider and mode. Exits with 1 and prints the failing cases if one fails.
 */
import { CHUNK_MODES, type CorpusCase, openCorpus } from './corpus.ts'
import { proveCorpus, tableOf } from './prove.ts'

const folder = process.argv[2] ?? process.env['CORPUS_DIR']

process.exitCode = await run(folder)

async function run(dir: string | undefined): Promise<number> {
  if (dir === undefined || dir === '') {
    console.log('Recorded traffic was skipped: no corpus is named. Use npm run corpus -- DIR, or set CORPUS_DIR.')
    return 0
  }
  try {
    const corpus = openCorpus(dir)
    const startedAt = performance.now()
    const proof = await proveCorpus({ corpus, cases: corpus.cases, modes: CHUNK_MODES, onProgress: showProgress })
    clearProgress()
    console.log(tableOf(proof))
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(0)
    console.log(
      `\n${proof.judged} answers and chunks of api.openai.com checked against OpenAI's schemas; ${seconds} s.`,
    )
    for (const [reason, ids] of corpus.skipped) console.log(`Skipped, ${ids.length}: ${reason}.`)
    console.log(amendments(corpus.cases))
    if (proof.failures.length === 0) return 0
    console.log(`\n${proof.failures.length} failed:\n${proof.failures.join('\n')}`)
  } catch (error) {
    clearProgress()
    console.error(error instanceof Error ? error.message : error)
  }
  return 1
}

/** The cases whose expectation replaces that of the corpus, with the reason. */
function amendments(cases: readonly CorpusCase[]): string {
  const all = cases.filter(({ amendment }) => amendment !== null)
  const byReason = Map.groupBy(all, ({ amendment }) => amendment!.why)
  return [
    `${all.length} cases were judged by our own expectation instead of that of the corpus (test/corpus/amended.ts):`,
    ...[...byReason].map(([why, some]) => `  ${some.map(({ id }) => id).join(', ')}: ${why}.`),
  ].join('\n')
}

function showProgress({ done, all, mode }: { done: number; all: number; mode: string }) {
  if (!process.stderr.isTTY) return
  process.stderr.write(`\r\x1b[K${done} of ${all} cases: ${mode}`)
}

function clearProgress(): void {
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K')
}
