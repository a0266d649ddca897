/** Reads a file of policy tests, and the configuration that it is about. What is wrong has a place in the one or the other. */
import { readFile as readFromDisk } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'
import { parse } from 'yaml'
import { ERRORS } from '#contract'
import { checkShape } from '../../config/ajv.ts'
import type { Configuration } from '../../config/configuration.ts'
import { loadConfiguration } from '../../config/load.ts'
import { didYouMean, ordered, type Problem } from '../../config/problem.ts'
import { pointer, readSource, type Source } from '../../config/source.ts'
import type { Registry } from '../../pipeline/registry.ts'
import { startOf } from '../bench.ts'
import { patternOf } from './expect.ts'
import { type ExpectShape, type FileShape, POLICY_TEST_SCHEMA, type StepShape, type TestShape } from './schema.ts'
import { standIns } from './stand-ins.ts'

export interface ReadOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly registry: Registry
  /** The configuration of tests that name none; left out: `../gateway.yaml` beside them. */
  readonly config?: string
}

/** A file whose tests can be run. */
export interface PolicyTests {
  readonly file: string
  readonly policy: string
  readonly configuration: Configuration
  readonly tests: readonly PlacedTest[]
}

export interface PlacedTest extends TestShape {
  readonly line: number
}

export interface ReadProblems {
  readonly problems: readonly Problem[]
  readonly sources: ReadonlyMap<string, string>
}

const ENDING = '.test.yaml'

/** Never throws for what stands in a file. */
export async function readPolicyTests(file: string, options: ReadOptions): Promise<PolicyTests | ReadProblems> {
  let text: string
  try {
    text = await readFromDisk(file, 'utf8')
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'there is no such file' : String(error)
    return wrong(file, '', { rule: 'unreadable-file', message: `the policy tests cannot be read: ${reason}` })
  }
  const source = await readSource(file, text, { env: standIns(options.env), readFile: async () => '' })
  if (!source.usable) return { problems: source.problems, sources: new Map([[file, text]]) }
  const shape = checkShape(source, '', source.value, POLICY_TEST_SCHEMA) as FileShape
  if (source.problems.length === 0) checkRest(source, shape)
  if (source.problems.length > 0)
    return { problems: ordered(source.problems, [file]), sources: new Map([[file, text]]) }
  const policy = shape.policy ?? basename(file).replace(ENDING, '')
  // As it stands in the file: `${NAME}` is for the loader of the configuration to resolve.
  const loaded = await loadFor(file, parse(text) as FileShape, policy, options)
  if ('problems' in loaded) return { problems: loaded.problems, sources: new Map([...loaded.sources, [file, text]]) }
  const { configuration } = loaded
  if (!configuration.routes.some(route => route.policy === policy)) {
    const suggestion = `say under routes: which one, as [{ path: /v1/chat/completions, policy: ${policy} }]`
    const message = `no route of ${configuration.file} has the policy "${policy}"`
    return wrong(file, text, { rule: 'unknown-policy', message, suggestion })
  }
  checkNames(source, shape, configuration)
  if (source.problems.length > 0)
    return { problems: ordered(source.problems, [file]), sources: new Map([[file, text]]) }
  const tests = shape.tests.map((test, nth) => ({ ...test, line: source.position(`/tests/${nth}`).line }))
  return { file, policy, configuration, tests }
}

/** What the schema cannot say. */
function checkRest(source: Source, { tests }: FileShape): void {
  const names = new Set<string>()
  for (const [nth, test] of tests.entries()) {
    const { name, given } = test
    for (const [place, { expect }] of placesOf(test, `/tests/${nth}`)) checkPatterns(source, place, expect.headers)
    if (names.has(name)) source.report(`/tests/${nth}/name`, `there are two tests named "${name}"`)
    names.add(name)
    try {
      startOf(given?.clock)
    } catch (error) {
      source.report(`/tests/${nth}/given/clock`, (error as Error).message)
    }
  }
}

function checkPatterns(source: Source, place: string, headers: ExpectShape['headers'] = {}): void {
  for (const [name, wanted] of Object.entries(headers)) {
    try {
      patternOf(wanted)
    } catch (error) {
      source.report(`${place}/headers${pointer(name)}`, `${wanted} is not a pattern: ${(error as Error).message}`)
    }
  }
}

/** Steps and codes that an expectation names: a misspelt one would hold for ever where nothing is expected of it. */
function checkNames(source: Source, { tests }: FileShape, { routes }: Configuration): void {
  const steps = new Set(routes.flatMap(route => route.steps.steps.map(({ id }) => id)))
  const deciders = [...steps, 'send', 'gateway']
  for (const [nth, test] of tests.entries()) {
    for (const [place, { expect }] of placesOf(test, `/tests/${nth}`)) {
      const { decided_by: decider, trail = {}, code } = expect
      if (typeof decider === 'string') checkStep(source, `${place}/decided_by`, decider, deciders)
      for (const step of Object.keys(trail)) {
        checkStep(source, `${place}/trail${pointer(step)}`, step, [...steps, 'send'])
      }
      // A provider's own codes pass on raw routes: only what looks like a slip is one.
      const meant = typeof code === 'string' && !Object.hasOwn(ERRORS, code) && didYouMean(code, Object.keys(ERRORS))
      if (meant)
        source.report(`${place}/code`, `there is no error "${code}"`, { rule: 'wrong-value', suggestion: meant })
    }
  }
}

function placesOf(test: TestShape, place: string): (readonly [string, StepShape])[] {
  const later = (test.then ?? []).map((step, nth) => [`${place}/then/${nth}/expect`, step] as const)
  return [[`${place}/expect`, test], ...later]
}

function checkStep(source: Source, at: string, step: string, known: readonly string[]): void {
  if (known.includes(step)) return
  const suggestion = didYouMean(step, known) ?? `there are ${known.join(', ')}`
  source.report(at, `no policy here has a step "${step}"`, { rule: 'wrong-value', suggestion })
}

/** Loads gateway.yaml, with what the tests say in place of its own parts. */
async function loadFor(file: string, shape: FileShape, policy: string, { env, registry, config: chosen }: ReadOptions) {
  const config = resolve(dirname(file), shape.config ?? chosen ?? '../gateway.yaml')
  const { routes, providers, models } = shape
  const own = { ...(routes ? { routes: routes.map(route => ({ policy, ...route })) } : {}), providers, models }
  const changes = Object.entries(own).filter(([, value]) => value !== undefined)
  return loadConfiguration(config, {
    env: standIns(env),
    registry,
    ...(changes.length === 0
      ? {}
      : {
          async readFile(path: string) {
            const text = await readFromDisk(path, 'utf8')
            if (path !== config) return text
            return JSON.stringify({ ...(parse(text) as object), ...Object.fromEntries(changes) }, null, 2)
          },
        }),
  })
}

function wrong(file: string, text: string, problem: Pick<Problem, 'rule' | 'message' | 'suggestion'>): ReadProblems {
  return {
    problems: [{ file, line: 1, column: 1, ...problem }],
    sources: new Map([[file, text]]),
  }
}
