/** Serving threads in the process of the test, without the rest of the gateway. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { builtinRegistry } from '../../src/loader/builtin.ts'
import { createLog } from '../../src/observe/log.ts'
import type { MetricValues } from '../../src/observe/metric-registry.ts'
import { createShadowFigures } from '../../src/observe/shadow.ts'
import { createLoader, type Texts } from '../../src/runtime/loader.ts'
import { createThreadMemory } from '../../src/runtime/thread-state.ts'
import { ServingThreads } from '../../src/runtime/threads.ts'
import { createLocalState } from '../../src/state/state.ts'
import type { Connector } from '../../src/store/engine/database.ts'
import { type LogLine, temporaryDirectory, writeConfiguration } from '../helpers/gateway.ts'
import { type ManualDeadlines, manualDeadlines } from '../request/answer/wire.ts'
import { SECRET, type TestStore, testStore } from '../store/helpers.ts'

export const ADDRESS = { host: '127.0.0.1', port: 0 }

export interface TestThreads {
  readonly threads: ServingThreads
  /** The counts of ended threads. */
  readonly retired: readonly MetricValues[]
  readonly store: TestStore
  readonly log: readonly LogLine[]
  /** The clock of the restart pauses. */
  readonly clock: ManualDeadlines
  /** Reads other steps of the policy. */
  read(steps: readonly object[]): Promise<Texts>
  /** Makes these texts the serving ones. @param sent the texts that threads get, if they differ */
  use(texts: Texts, sent?: Texts): void
  /** Threads that start from now on begin with these texts. */
  begin(texts: Texts): void
}

/** A policy without its own plugin. */
export const PLAIN_STEPS: readonly object[] = [{ use: 'schema' }, { use: 'route' }]

/** A plugin that ends its thread on request, and marks the other answers. */
const DEADLY = `
import { definePlugin } from 'tollgate/plugin'
export default definePlugin({
  name: 'own',
  needsBody: false,
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => (ctx, next) => {
    if (ctx.get('x-die') !== '') process.exit(3)
    ctx.set('x-own', 'served')
    return next()
  },
})
`

export interface ThreadsOptions {
  /** The text of the policy's own plugin. */
  readonly plugin?: string
  readonly connector?: Connector
}

export async function startThreads(count: number, options: ThreadsOptions = {}): Promise<TestThreads> {
  const dir = await temporaryDirectory()
  await mkdir(join(dir, 'plugins'))
  await writeFile(join(dir, 'plugins/own.ts'), options.plugin ?? DEADLY)
  const configFile = await writeConfiguration(dir, {
    yaml: {
      version: 1,
      listen: '127.0.0.1:0',
      store: 'sqlite:./tollgate.db',
      providers: { demo: { dialect: 'demo' } },
      models: {
        m: { price: 'free', context: 8192, max_output: 1024, targets: [{ provider: 'demo', model: 'demo-small' }] },
      },
      routes: [
        { path: '/v1/chat/completions', policy: 'standard', public: true },
        { path: '/v1/responses', policy: 'kept', keep_responses: '1h' },
      ],
    },
    policies: {
      standard: { steps: [{ use: 'schema' }, { use: '../plugins/own.ts' }, { use: 'route' }] },
      kept: { steps: [{ use: 'api-key' }, { use: 'schema' }, { use: 'route' }] },
    },
  })
  const clock = { now: () => Date.now() }
  const { connector } = options
  const path = join(dir, 'tollgate.db')
  const store = await testStore({ writes: 'thread', clock, path, ...(connector ? { connector } : {}) })
  const { load, textsOf } = createLoader(configFile, {}, builtinRegistry())
  let running: Texts = textsOf(await load())
  const pauses = manualDeadlines()
  const log: LogLine[] = []
  const write = (lines: string) => {
    for (const line of lines.split('\n')) if (line !== '') log.push(JSON.parse(line) as LogLine)
  }
  const retired: MetricValues[] = []
  const threads = await ServingThreads.start({
    count,
    store: store.threads!,
    secret: SECRET,
    configFile,
    env: {},
    logLevel: 'info',
    stepGraceMs: 1000,
    log: createLog({ level: 'info', secrets: [], destination: { write } }),
    write,
    retire: values => void retired.push(values),
    figures: createShadowFigures(),
    state: createLocalState(clock),
    memory: createThreadMemory({ clock, threads: count, secret: SECRET, serving: () => '' }),
    texts: () => running,
    ready: async () => ({ ready: true }),
    about: () => undefined,
    clock: pauses,
  })
  onTestFinished(() => threads.close().catch(() => {}))
  return {
    threads,
    retired,
    store,
    log,
    clock: pauses,
    begin: texts => void (running = texts),
    async read(steps) {
      await writeFile(join(dir, 'policies/standard.yaml'), JSON.stringify({ steps }))
      return textsOf(await load())
    },
    use(texts, sent = texts) {
      running = sent
      threads.changed()
      running = texts
    },
  }
}
