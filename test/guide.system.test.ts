/**
 * Follows policies/GUIDE.md, from an empty folder to a policy that is tried before it is merged. The test writes
 * every file of the page and runs every line in one shell beside a running gateway. The output must be that of the page,
 * except for ids, times and ports.
 */
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parse } from 'yaml'
import { loadConfiguration } from '../src/config/load.ts'
import { builtinRegistry } from '../src/loader/builtin.ts'
import { type Gateway, type LogLine, startGateway } from './helpers/gateway.ts'
import { describeWith } from './helpers/missing.ts'
import { without } from './helpers/programs.ts'
import { type Sample, samplesOf } from './helpers/repository.ts'
import type { Shell } from './helpers/shell.ts'
import { openWalk, plain, writeSample } from './helpers/walk.ts'

const GUIDE = 'policies/GUIDE.md'
const blocks = samplesOf(GUIDE)

/** As the page has it; the gateway of this test has a port that the system chooses. */
const ADDRESS = '127.0.0.1:8080'

/** The page's name of the folder. */
const FOLDER = '/home/you/gate'

let folder: string
let shell: Shell
let gateway: Gateway | null = null
/** The last output, and its place in the page. */
let printed: { readonly place: string; readonly text: string } | null = null
/** The configuration that runs, and the lines of the log about changes that were waited for. */
let running = ''
const known = new Set<LogLine>()
/** Lines of the page that ran. */
const ran: string[] = []

/** The page asks its questions with curl. */
describeWith(without('curl'), GUIDE, proofs)

function proofs(): void {
  beforeAll(async () => {
    ;({ folder, shell } = await openWalk('gate'))
    mkdirSync(join(folder, 'policies'))
  })
  afterAll(() => shell?.close())

  // The steps build on each other: what comes after one that failed says nothing.
  let hasFailed = false
  for (const block of blocks) {
    test(`${block.place} ${titleOf(block)}`, async context => {
      if (hasFailed) context.skip('a step before this one failed')
      hasFailed = true
      if (block.language === '') expectPrinted(block)
      else if (block.language === 'sh') await runBlock(block)
      else writeSample(folder, block, text => text.replace(ADDRESS, '127.0.0.1:0'))
      await changeOver()
      hasFailed = false
    })
  }

  test('the workflow asks what the page asks', async context => {
    if (hasFailed) context.skip('a step of the page failed')
    const workflow = blocks.find(({ text }) => text.startsWith('name: policies\n'))
    const { jobs } = parse(workflow!.text) as { jobs: { policies: { steps: { uses?: string; run?: string }[] } } }
    const lines = jobs.policies.steps.flatMap(({ run }) => (run?.startsWith('npx tollgate ') ? [run] : []))
    expect(lines.map(line => line.split(' ')[2])).toEqual(['check', 'test', 'exposure', 'replay'])
    // A checkout of the branch, in it one of what runs, and the log.
    await shell.run('cd branch && mkdir before && cp -r ../gateway.yaml ../policies before/ && cp ../usage.jsonl .')
    for (const line of lines) if (!ran.some(text => text.includes(line))) await shell.run(line)
  })

  test('the gateway ran from the beginning to the end', async () => {
    expect(await gateway?.stop()).toBe(0)
  })
}

/** In the order of the page, but for two blocks that are done in another way. */
async function runBlock({ place, text }: Sample): Promise<void> {
  if (text.includes('/PATH/TO/CHECKOUT')) return
  if (text === 'npx tollgate serve\n') {
    const yaml = readFileSync(join(folder, 'gateway.yaml'), 'utf8')
    gateway = await startGateway({ yaml, dir: folder })
    running = configuration()
    return
  }
  const lines = gateway ? text.replaceAll(ADDRESS, new URL(gateway.url).host) : text
  printed = { place, text: (await shell.run(lines)).replaceAll(folder, FOLDER) }
  ran.push(text)
}

function expectPrinted({ text }: Sample): void {
  expect(plain(printed!.text), `what ${printed!.place} prints`).toBe(plain(text))
}

/** "Within a second": a gateway that serves has seen a change of its files, or has refused it. */
async function changeOver(): Promise<void> {
  if (gateway === null || configuration() === running) return
  running = configuration()
  process.kill(gateway.pid, 'SIGHUP')
  const loaded = await loadConfiguration(join(folder, 'gateway.yaml'), { env: {}, registry: builtinRegistry() })
  // The gateway may see a mistake twice, by the signal and by its own looking, but a change only once.
  const message = 'problems' in loaded ? 'the configuration is not changed' : 'the configuration has changed'
  known.add(await gateway.waitForLog(line => line['msg'] === message && !known.has(line)))
}

function configuration(): string {
  return ['gateway.yaml', 'policies/chat.yaml'].map(name => readFileSync(join(folder, name), 'utf8')).join('\n')
}

function titleOf({ language, text, before }: Sample): string {
  const [line = ''] = text.split('\n')
  if (language === 'sh') return line
  return language === '' ? 'is what comes' : (before.split('`').at(-2) ?? before)
}
