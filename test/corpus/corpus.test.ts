/**
 * Recorded traffic of model providers through the whole gateway. `npm test` takes a sample in the hardest chunk mode,
 * `npm run test:full -- corpus` everything in all four. CORPUS_DIR names the corpus, which is outside this repository.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { isFull } from '../helpers/counts.ts'
import { temporaryDirectory, tollgate } from '../helpers/gateway.ts'
import { CORPUS, testWith, WITHOUT_CORPUS } from '../helpers/missing.ts'
import { CHUNK_MODES, openCorpus, sampleOf } from './corpus.ts'
import { proveCorpus, tableOf } from './prove.ts'
import { openSchemas } from './schemas.ts'

const full = isFull('corpus')

const RUN = new URL('run.ts', import.meta.url).pathname
const SAMPLE = 60

testWith(WITHOUT_CORPUS, 'clients get the expected results from recorded traffic', async () => {
  const corpus = openCorpus(CORPUS)
  const cases = full ? corpus.cases : sampleOf(corpus.cases, SAMPLE)
  const proof = await proveCorpus({ corpus, cases, modes: full ? CHUNK_MODES : ['byte'] })
  console.log(`recorded traffic\n${tableOf(proof)}\n${proof.judged} answers held against OpenAI's schemas`)
  expect(proof.failures).toEqual([])
  expect(proof.judged).toBeGreaterThan(0)
})

testWith(WITHOUT_CORPUS, 'the schemas accept valid values and refuse invalid ones', () => {
  const good = {
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index: 0, delta: {}, finish_reason: null }],
  }
  for (const which of ['strict', 'observed'] as const) {
    const judge = openSchemas(CORPUS, which)
    expect(judge('CreateChatCompletionStreamResponse', good)).toEqual([])
    expect(judge('CreateChatCompletionStreamResponse', { ...good, created: 'now' })).not.toEqual([])
    expect(judge('CreateChatCompletionStreamResponse', { ...good, choices: [{ index: 0 }] })).not.toEqual([])
    expect(judge('ErrorResponse', { error: { message: 'no' } })).not.toEqual([])
  }
})

test('the command reports the cases that it skips', async () => {
  expect(await tollgate([], { entry: RUN })).toEqual({
    code: 0,
    stdout: 'Recorded traffic was skipped: no corpus is named. Use npm run corpus -- DIR, or set CORPUS_DIR.\n',
    stderr: '',
  })
})

test.each(['', 'open'])('a folder that is not a corpus is refused ("%s" in it)', async inside => {
  const folder = await temporaryDirectory()
  mkdirSync(join(folder, inside), { recursive: true })
  expect(await tollgate([folder], { entry: RUN })).toEqual({
    code: 1,
    stdout: '',
    stderr: `${folder} is not a corpus: it lacks open/expect\n`,
  })
})
