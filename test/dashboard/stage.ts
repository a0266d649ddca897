/** A whole gateway with its dashboard in the test's process. The test sets its time. The page is built first. */
import { buildPage } from '../../src/cli/page.ts'
import { temporaryDirectory, writeConfiguration } from '../helpers/gateway.ts'
import { type LocalRunning, serveLocally } from '../helpers/in-process.ts'

export interface Stage extends AsyncDisposable {
  readonly url: string
  readonly dashboard: string
  readonly running: LocalRunning
  /** Moves the gateway's clock forward; it continues from there. */
  pass(ms: number): void
  /** A link for a new person. If it creates an account, the account begins with the credit. */
  invite(role: 'member' | 'operator', accountId?: string | null, credit?: bigint): Promise<string>
}

export async function openStage(change: Readonly<Record<string, unknown>> = {}): Promise<Stage> {
  const dir = await temporaryDirectory()
  const price = (input: string, output: string) => ({ per: '1M tokens', input, output })
  const model = (id: string, more: object) => ({
    targets: [{ provider: 'demo', model: id }],
    context: '128Ki',
    max_output: '16Ki',
    default_output: '1Ki',
    ...more,
  })
  const configFile = await writeConfiguration(dir, {
    yaml: {
      version: 1,
      listen: '127.0.0.1:0',
      dashboard: '127.0.0.1:0',
      registration: { mode: 'open', credit: '$5', plan: 'free' },
      store: 'memory',
      providers: { demo: { dialect: 'demo', pace: '1ms' } },
      models: {
        'demo-small': model('demo-small', { price: price('$0.15', '$0.60'), description: 'Answers from the demo.' }),
        'demo-reasoning': model('demo-reasoning', { price: price('$1', '$4'), reasoning: true }),
      },
      routes: [{ path: '/v1/chat/completions', policy: 'standard' }],
      ...change,
    },
    policies: {
      standard: { steps: ['api-key', 'schema', 'credits', 'route'].map(use => ({ use })) },
    },
  })
  let ahead = 0
  const clock = { now: () => Date.now() + ahead }
  const running = await serveLocally({ configFile, env: {}, signals: false, clock, page: buildPage, stdout() {} })
  return {
    url: running.url,
    dashboard: running.dashboardUrl!,
    running,
    pass(ms) {
      ahead += ms
    },
    async invite(role, accountId = null, credit = 0n) {
      const { token } = await running.store.people.createLink({
        kind: 'invitation',
        role,
        accountId,
        plan: null,
        credit,
        email: null,
        personId: null,
        expiresAt: clock.now() + 3_600_000,
        createdBy: 'test',
      })
      return `/join#${token}`
    },
    async [Symbol.asyncDispose]() {
      running.drain()
      running.drain()
      await running.finished
    },
  }
}
