/**
 * Real clients in other languages, each a small program beside this file. They run with the full counts. A client without its
 * toolchain or packages is skipped, with the reason.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { onlyFull } from '../../helpers/counts.ts'
import { describeWith } from '../../helpers/missing.ts'
import { FEATURES, type Run } from './features.ts'
import { type Rig, startRig } from './rig.ts'
import { RUN_MOST_MS, runProgram } from './run.ts'
import { readTable, writeTable } from './table.ts'
import { claudeCode, go, java, PREPARE_MOST_MS, type Prepare, python, rust } from './toolchains.ts'

const CLIENTS: Readonly<Record<string, Prepare>> = {
  'openai-go': go,
  'openai-go-responses': go,
  'go-openai': go,
  langchaingo: go,
  'async-openai': rust,
  'async-openai-responses': rust,
  'openai-java': java,
  'openai-java-responses': java,
  langchain4j: java,
  litellm: python,
  'langchain-openai': python,
  'llama-index': python,
  'pydantic-ai': python,
  instructor: python,
  anthropic: python,
  'openai-agents': python,
  'claude-code': claudeCode,
}

/** Rewrites the table of README.md instead of comparing with it. */
const WRITE = process.env['TOLLGATE_POLYGLOT_WRITE'] === '1'

const rows = new Map<string, readonly string[]>()

let rig: Rig

describeWith(onlyFull('clients'), 'clients in other languages', proofs)

function proofs(): void {
  beforeAll(async () => {
    rig = await startRig()
  })
  afterAll(async () => {
    await rig?.close()
    if (WRITE) writeTable(Object.keys(CLIENTS), rows)
  })

  describe.each(Object.entries(CLIENTS))('%s', (client, prepare) => {
    let missing: string | null = null
    let run: Run

    beforeAll(async () => {
      const program = await prepare(client).catch((error: Error) => {
        missing = error.message
        return null
      })
      if (program) run = await runProgram(program, rig)
    }, PREPARE_MOST_MS + RUN_MOST_MS)

    test.for(FEATURES)('$title', ({ judge }, context) => {
      if (missing !== null) return context.skip(missing)
      expect(() => judge(run)).not.toThrow()
    })

    test('its row in test/clients/README.md', context => {
      if (missing !== null) return context.skip(missing)
      const cells = FEATURES.map(({ judge }) => cellOf(() => judge(run)))
      rows.set(client, cells)
      if (!WRITE) expect(readTable().get(client)).toEqual(cells)
    })
  })
}

function cellOf(judge: () => string): string {
  try {
    return judge()
  } catch {
    return 'no'
  }
}
