/**
 * Follows policies/GUIDE.md, from an empty folder to a policy that is tested before its merge. Writes every file of the page, and runs
 * every line in one shell beside a running gateway. The output must equal the page, except for ids, times and ports.
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

/** The address on the page. The gateway of this test has a free port. */
const ADDRESS = '127.0.0.1:8080'

/** The page's name for the folder. */
const FOLDER = '/home/you/gate'

let folder: string
let shell: Shell
let gateway: Gateway | null = null
/** The last output, and its place on the page. */
let printed: { readonly place: string; readonly text: string } | null = null
/** The serving configuration, and the log lines of earlier changes. */
let running = ''
const known = new Set<LogLine>()
/** Shell blocks of the page that ran. */
const ran: string[] = []

/** The page sends requests with curl. */
describeWith(without('curl'), GUIDE, guideTests)

function guideTests(): void {
  beforeAll(async () => {
    ;({ folder, shell } = await openWalk('gate'))
    mkdirSync(join(folder, 'policies'))
  })
  afterAll(() => shell?.close())

  // Each step needs the steps before it, so after a failure the others are skipped.
  let hasFailed = false
  for (const block of blocks) {
    test(`${block.place} ${titleOf(block)}`, async context => {
      if (hasFailed) context.skip('a step before this one failed')
      hasFailed = true
      if (block.language === '') expectPrinted(block)
      else if (block.language === 'sh') await runBlock(block)
      else writeSample(folder, block, text => text.replace(ADDRESS, '127.0.0.1:0'))
      await awaitReload()
      hasFailed = false
    })
  }

  test('the workflow runs the commands of the page', async context => {
    if (hasFailed) context.skip('a step of the page failed')
    const workflow = blocks.find(({ text }) => text.startsWith('name: policies\n'))
    const { jobs } = parse(workflow!.text) as { jobs: { policies: { steps: { uses?: string; run?: string }[] } } }
    const lines = jobs.policies.steps.flatMap(({ run }) => (run?.startsWith('npx tollgate ') ? [run] : []))
    expect(lines.map(line => line.split(' ')[2])).toEqual(['check', 'test', 'exposure', 'replay'])
    // The workflow has a checkout of the branch, with the serving configuration in `before`, and the usage log.
    await shell.run('cd branch && mkdir before && cp -r ../gateway.yaml ../policies before/ && cp ../usage.jsonl .')
    for (const line of lines) if (!ran.some(text => text.includes(line))) await shell.run(line)
  })

  test('the gateway is still running, and stops cleanly', async () => {
    expect(await gateway?.stop()).toBe(0)
  })
}

/** Runs a shell block of the page. Skips the installation; starts the gateway with a helper. */
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
  expect(plain(printed!.text), `output of ${printed!.place}`).toBe(plain(text))
}

/** Waits until the gateway has applied or refused a change of its files. */
async function awaitReload(): Promise<void> {
  if (gateway === null || configuration() === running) return
  running = configuration()
  process.kill(gateway.pid, 'SIGHUP')
  const loaded = await loadConfiguration(join(folder, 'gateway.yaml'), { env: {}, registry: builtinRegistry() })
  // The signal and the file watcher may both report a mistake, but only one of them reports a change.
  const message = 'problems' in loaded ? 'the configuration is not changed' : 'the configuration has changed'
  known.add(await gateway.waitForLog(line => line['msg'] === message && !known.has(line)))
}

function configuration(): string {
  return ['gateway.yaml', 'policies/chat.yaml'].map(name => readFileSync(join(folder, name), 'utf8')).join('\n')
}

function titleOf({ language, text, before }: Sample): string {
  const [line = ''] = text.split('\n')
  if (language === 'sh') return line
  return language === '' ? 'is the output' : (before.split('`').at(-2) ?? before)
}
