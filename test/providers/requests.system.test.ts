/**
 * Clients' requests as they are sent to each provider, checked against published schemas, documented rules and their meaning.
 * `test:system` takes some random targets; `test:full -- corpus` takes all.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect } from 'vitest'
import { isFull } from '../helpers/counts.ts'
import { PYTHON, REQUESTS, testWith, WITHOUT_REQUESTS } from '../helpers/missing.ts'
import { ROOT } from '../helpers/repository.ts'
import { seeded } from '../helpers/seeded.ts'

const SOME = 3
const seed = Number(process.env['TOLLGATE_SEED'] ?? Date.now() % 1_000_000)

/** Findings of the checker that we accept: a pattern for the line, and the reason. */
const MEANT: readonly (readonly [line: RegExp, reason: string])[] = [
  [
    /: lost-text system: 'x-anthropic-billing-header: [^']*'$/,
    "Claude Code's line for Anthropic's billing does not instruct the model",
  ],
  [
    /: changed-args "[^"]*" -> \{"input": "[^"]*"\}$/,
    'without custom tools, a call of one is a call of a function with that input',
  ],
  [
    / anthropic-5(?:\.5)? +[^ ]+: anthropic-system-moved$/,
    'the judge does not see a message of the role system: it has not moved',
  ],
  [
    / perplexity +[^ ]+: changed-param web_search_options:[^;]*$/,
    'Perplexity has the place of a user without "approximate" around it',
  ],
]

testWith(WITHOUT_REQUESTS, `every request is valid for its provider (TOLLGATE_SEED=${seed})`, async () => {
  const all = JSON.parse(readFileSync(join(REQUESTS, 'targets.json'), 'utf8')) as readonly { readonly id: string }[]
  const chance = seeded(seed)
  const ids = all.map(({ id }) => id)
  const some = isFull('corpus')
    ? ids
    : Array.from({ length: SOME }, () => ids.splice(Math.floor(chance() * ids.length), 1)[0]!)
  const args = [join(REQUESTS, 'run.py'), ROOT, join(REQUESTS, 'matrix/open'), '--targets', some.join(), '--port']
  const run = spawn(PYTHON, [...args, String(await freePair())], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [output] = await Promise.all([text(run.stdout), once(run, 'exit')])
  expect(output).toMatch(/^all: .*\d+ passed/m)
  const faults = output.split('\n').filter(line => /^(?:FAILED|BROKEN) /.test(line))
  expect(faults.filter(line => !MEANT.some(([known]) => known.test(line)))).toEqual([])
})

/** A port that is free, and so is the next one: the instrument takes both. */
async function freePair(): Promise<number> {
  for (;;) {
    const [first, second] = [createServer(), createServer()]
    const port = (await listening(first, 0))!
    const next = await listening(second, port + 1)
    await Promise.all([first, second].map(server => new Promise(resolve => server.close(resolve))))
    if (next !== null) return port
  }
}

async function listening(server: ReturnType<typeof createServer>, port: number): Promise<number | null> {
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening')
    return (server.address() as AddressInfo).port
  } catch {
    return null
  }
}
