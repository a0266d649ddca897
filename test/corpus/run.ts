/**
 * `npm run corpus -- DIR`: every case of a corpus that the gateway speaks the dialect of, in all four chunk modes. Prints
 * counts per provider and mode; exit code 1 and the failing cases when one fails.
 */
import { CHUNK_MODES, openCorpus } from './corpus.ts'
import { proveCorpus, tableOf } from './prove.ts'

const folder = process.argv[2] ?? process.env['CORPUS_DIR']

process.exitCode = await run(folder)

async function run(dir: string | undefined): Promise<number> {
  if (dir === undefined || dir === '') {
    console.log('Recorded traffic was left out: no corpus is named. Say npm run corpus -- DIR, or set CORPUS_DIR.')
    return 0
  }
  try {
    const corpus = openCorpus(dir)
    const startedAt = performance.now()
    const proof = await proveCorpus({ corpus, cases: corpus.cases, modes: CHUNK_MODES, onProgress: showProgress })
    clearProgress()
    console.log(tableOf(proof))
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(0)
    console.log(`\n${proof.judged} answers and chunks of api.openai.com held against OpenAI's schemas; ${seconds} s.`)
    console.log(`${corpus.unjudged} further cases are no chat completions, so nothing is expected of them.`)
    if (proof.failures.length === 0) return 0
    console.log(`\n${proof.failures.length} failed:\n${proof.failures.join('\n')}`)
  } catch (error) {
    clearProgress()
    console.error(error instanceof Error ? error.message : error)
  }
  return 1
}

function showProgress({ done, all, mode, provider }: { done: number; all: number; mode: string; provider: string }) {
  if (!process.stderr.isTTY) return
  process.stderr.write(`\r\x1b[K${done} of ${all} cases: ${mode}, ${provider}`)
}

function clearProgress(): void {
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K')
}
