/**
 * Programs from npm and pip against a gateway process. They run with the full counts; a program that cannot be installed is
 * skipped, with the reason.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseMoney } from '#contract'
import { onlyFull } from '../../helpers/counts.ts'
import { describeWith } from '../../helpers/missing.ts'
import { untilTruthy } from '../../helpers/until.ts'
import { npmPackage, pipPackage } from '../polyglot/toolchains.ts'
import { type InstalledProgram, PROGRAMS, type Program } from './programs.ts'
import { DIALECTS, type Dialect } from './provider.ts'
import { type AgentRig, ANSWER, CREDIT, startAgentRig } from './rig.ts'
import { newHome, prefixBreaks, start } from './session.ts'
import { readRows, UPDATE, writeRows } from './table.ts'

/** The number of calls in the first run, each in its own turn. */
const CALLS = 9

const PACKAGES = { npm: npmPackage, pip: pipPackage }

/** The dialects of each program's successful sessions. */
const ran = new Map<string, Set<Dialect>>()

describeWith(onlyFull('clients'), 'agents', () => {
  describe.each(Object.entries(PROGRAMS))('%s', (name, program) => {
    let missing: string | null = null
    let ready: InstalledProgram

    beforeAll(async () => {
      await PACKAGES[program.from](program.name, program.version, program.bin).then(
        command => void (ready = { command }),
        (error: Error) => void (missing = error.message),
      )
    })

    test.for(DIALECTS)('a session on %s', async (dialect, context) => {
      if (missing !== null) return context.skip(missing)
      await session(program, ready, dialect)
      ran.set(name, (ran.get(name) ?? new Set()).add(dialect))
    })

    test('its row in the documentation page', context => {
      if (missing !== null) return context.skip(missing)
      if (UPDATE) return
      const [version, dialects] = readRows('programs').get(name)!
      expect(version).toBe(program.version)
      expect(dialects!.split(', ')).toEqual(expect.arrayContaining([...(ran.get(name) ?? [])]))
    })

    test.for(DIALECTS)('an interrupt on %s', async (dialect, context) => {
      if (missing !== null) return context.skip(missing)
      await interrupt(program, ready, dialect)
    })
  })

  afterAll(() => {
    if (!UPDATE) return
    const before = readRows('programs')
    const rows = [...ran].map(([name, dialects]) => {
      const { version } = PROGRAMS[name]!
      // A run of some dialects adds to the dialects that this version has run with.
      const [earlier, had = ''] = before.get(name) ?? []
      const all = DIALECTS.filter(each => dialects.has(each) || (earlier === version && had.split(', ').includes(each)))
      return [name, [version, all.join(', ')]] as const
    })
    writeRows('programs', Object.keys(PROGRAMS), new Map(rows))
  })
})

async function session(program: Program, ready: InstalledProgram, dialect: Dialect): Promise<void> {
  using home = newHome()
  await using rig = await startAgentRig(dialect, program)
  const run = async (prompt: string, resume: boolean) =>
    (await start(program, ready, rig, home, { prompt, resume })).ended

  const calls = program.tools.length > 0 ? CALLS : 0
  rig.plan.calls = calls
  const first = await run('Say what the shell says', false)
  expect(first.output).toContain(ANSWER)
  expect(first.code).toBe(0)
  expect(rig.called).toBe(calls)

  if (program.resumes ?? true) {
    rig.plan.calls = 1
    const resumed = await run('And once more', true)
    expect(resumed.output).toContain(ANSWER)
    expect(rig.called).toBe(calls > 0 ? calls + 1 : 0)
    // The resumed conversation has the earlier parts: both prompts, the last call and its result.
    const last = String(rig.provider.requests.findLast(({ raw }) => String(raw).includes('And once more'))!.raw)
    expect(last).toContain('Say what the shell says')
    if (calls > 0) expect([...last.matchAll(/hello-9\b/g)].length).toBeGreaterThan(1)
  }

  expect(refusals(rig, program)).toEqual([])
  expect(sentTwice(rig)).toEqual([])
  expect(prefixBreaks(rig)).toEqual([])
  await settled(rig)

  rig.plan.overflows = 1
  const full = await run('One more time', true)
  const refusedCompacted = program.refusedCompacted?.[dialect]
  // It compacts and continues, or it reports why it cannot.
  if (!full.output.includes(ANSWER) && !program.isSilentWhenFull && !refusedCompacted)
    expect(full.output).toMatch(/context|too long|room|compact|maximum number of tokens/i)
  const refused = (await rig.exchanges()).filter(({ outcome }) => outcome !== 'answered')
  expect(refused.map(({ code }) => code)).toEqual([
    'context_length_exceeded',
    ...(refusedCompacted ? [refusedCompacted] : []),
  ])
  await settled(rig)
  expect(warnings(rig)).toEqual([])
}

async function interrupt(program: Program, ready: InstalledProgram, dialect: Dialect): Promise<void> {
  using home = newHome()
  await using rig = await startAgentRig(dialect, program)
  rig.plan.hangs = true
  const { ended, interrupt } = await start(program, ready, rig, home, { prompt: 'Say hello', resume: false })
  const request = await untilTruthy(() => rig.hanging)
  interrupt()
  await ended
  expect((await rig.provider.waitForClose(request)).how).not.toBe('answered')
  await untilTruthy(async () => (await rig.account()).held === 0n)
  const exchanges = await rig.exchanges()
  expect(exchanges.filter(({ outcome }) => outcome !== 'answered').map(({ outcome }) => outcome)).toEqual([
    'client_left',
  ])
  await settled(rig)
  expect(warnings(rig)).toEqual([])
}

/** Answers with an error status, except for requests that the program does not need. */
function refusals({ recorder }: AgentRig, { refused = [] }: Program): string[] {
  return recorder.requests
    .filter(({ status, method, path }) => (status ?? 0) >= 400 && !refused.includes(`${method} ${path}`))
    .map(({ status, method, path, error }) => `${method} ${path}: ${status} ${error}`)
}

/** Bodies that were sent more than once: the program has retried. */
function sentTwice({ recorder }: AgentRig): string[] {
  const bodies = recorder.requests.map(({ body }) => body).filter(body => body !== '')
  return bodies.filter((body, at) => bodies.indexOf(body) !== at).map(body => body.slice(0, 200))
}

/** Warnings of the gateway, except the one of the full context. */
function warnings({ gateway }: AgentRig): unknown[] {
  return gateway
    .logs()
    .filter(
      ({ level, code }) => ['warn', 'error', 'fatal'].includes(String(level)) && code !== 'context_length_exceeded',
    )
}

/** The account was charged the sum of the charges, and nothing is held. */
async function settled(rig: AgentRig): Promise<void> {
  await untilTruthy(async () => (await rig.account()).held === 0n)
  const charged = (await rig.exchanges()).reduce((sum, { charged }) => sum + parseMoney(String(charged)), 0n)
  expect((await rig.account()).posted).toBe(CREDIT - charged)
}
