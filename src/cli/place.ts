/**
 * Finds the store of a configuration without loading the rest. So a key can be revoked while a policy is being edited, and in a
 * shell without the gateway's environment variables.
 */
import { readTextFile } from '../config/yaml/text-file.ts'
import { pathOf } from './commands.ts'
import { environmentOf, problemText, readConfiguration } from './configuration.ts'
import { CommandError, type Terminal } from './terminal.ts'

export interface StorePlace {
  /** The absolute path of gateway.yaml. */
  readonly configFile: string
  /** `memory`, `sqlite:` with an absolute path, or `postgres://USER@HOST/DATABASE`. */
  readonly store: string
  /** The database's absolute path; null if it is not a file. */
  readonly database: string | null
  /** `secret:` of the configuration, or null for the file beside the store. Throws if it cannot be resolved. */
  secret(): string | null
  /** The declared plans; null: any name is a plan. */
  plans(): ReadonlySet<string> | null
  /** Whether there is an admin listener. */
  readonly hasAdmin: boolean
  /** The origin of the dashboard for people. Throws without a dashboard, or if its origin is unknown. */
  dashboard(): string
}

/** Throws a `CommandError` with the problems of the configuration if they leave the store unknown. */
export async function findStore(terminal: Terminal, config: string): Promise<StorePlace> {
  const configFile = pathOf(terminal, config)
  const text = await readTextFile(configFile).catch((error: NodeJS.ErrnoException) => {
    const reason = error.code === 'ENOENT' ? 'the file does not exist' : error.message
    throw new CommandError(`The configuration ${config} cannot be read: ${reason}. Use --config for another file.`)
  })
  const [{ readSource }, { GATEWAY_SCHEMA }, { declaredPlans }, { storeOf }] = await Promise.all([
    import('../config/yaml/source.ts'),
    import('../config/schema.ts'),
    import('../config/plan-section.ts'),
    import('../config/gateway-section.ts'),
  ])
  const env = environmentOf(terminal, configFile)
  const source = await readSource(configFile, text, { env, readFile: readTextFile })
  if (source.problems.length > 0 && !source.usable) {
    const sources = new Map([[configFile, text]])
    throw new CommandError(await problemText(terminal, { problems: source.problems, sources }))
  }

  type Key = 'store' | 'secret' | 'admin' | 'dashboard' | 'dashboard_url' | 'plans'
  const value = (source.value ?? {}) as Record<Key, unknown>
  const { properties } = GATEWAY_SCHEMA as unknown as { properties: { store: { default: string } } }
  const written = value.store ?? properties.store.default
  const store = source.sound('/store') && typeof written === 'string' ? storeOf(source, written) : ''
  if (store === '' || !source.sound('/store')) throw new CommandError(await problemsOf(terminal, config))
  return {
    configFile,
    store,
    database: databaseOf(store),
    plans() {
      const names = declaredPlans(value)
      return names && new Set(names)
    },
    hasAdmin: value.admin !== undefined,
    secret() {
      if (value.secret === undefined) return null
      if (source.sound('/secret') && typeof value.secret === 'string') return value.secret
      const problem = source.problems.find(({ message }) => message.includes('environment variable'))
      throw new CommandError(`The secret of ${config} is unknown here${problem ? `: ${problem.message}` : ''}.`)
    },
    dashboard() {
      const { dashboard, dashboard_url } = value
      if (dashboard === undefined)
        throw new CommandError(`${config} has no dashboard. Write dashboard: 127.0.0.1:8081.`)
      const address = dashboard_url ?? `http://${dashboard}`
      const url = typeof address === 'string' && source.sound('/dashboard_url') ? URL.parse(address) : null
      if (url === null) throw new CommandError(`${config} has no valid address of the dashboard: see tollgate check.`)
      return url.origin
    },
  }
}

function databaseOf(store: string): string | null {
  return store.startsWith('sqlite:') ? store.slice('sqlite:'.length) : null
}

async function problemsOf(terminal: Terminal, config: string): Promise<string> {
  const loaded = await readConfiguration(terminal, config)
  if ('problems' in loaded) return `The configuration has no valid store.\n${await problemText(terminal, loaded)}`
  return `The configuration ${config} has no valid store.`
}
