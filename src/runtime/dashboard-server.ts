/** Connects the account API to the gateway: the dashboard's listener, and the API's view of the running process. */
import type { Server } from 'node:http'
import { fileURLToPath } from 'node:url'
import type { Middleware } from 'koa'
import type { Clock, Log } from '#contract'
import type { ApiParts, RecentTrails } from '../api/api-parts.ts'
import { createObservers } from '../api/observers.ts'
import { createPageFiles } from '../api/page-files.ts'
import { createApi } from '../api/server.ts'
import { type AppParts, createDashboardApp, createJsonReader, createListener, listen } from '../app.ts'
import type { Address } from '../config/configuration.ts'
import { basePath, urlHost } from '../config/listen-address.ts'
import type { Generation } from '../request/generation.ts'
import type { Store } from '../store/store.ts'
import { configurationView, type LoadedConfiguration, playgroundRoute } from './operator-views.ts'
import type { ReplicaViews } from './replica-views.ts'

/** The folder of the built page. */
const PAGE_FOLDER = fileURLToPath(new URL('../dashboard/dist', import.meta.url))

/**
 * Builds the page if needed, and reads it. Call it early in the start: it takes half a second on other cores. @param build resolves with
 * the folder
 */
export function preparePage(build: () => Promise<string> = async () => PAGE_FOLDER): Promise<Middleware> {
  const page = build().then(createPageFiles)
  // Callers that await the page get the error. A start that failed before needs no page.
  page.catch(() => {})
  return page
}

export interface DashboardServerParts {
  readonly store: Store
  readonly clock: Clock
  readonly log: Log
  readonly version: string
  readonly past: RecentTrails
  /** The views of all replicas. */
  readonly views: ReplicaViews
  generation(): Generation
  loaded(): LoadedConfiguration
  readiness(): { readonly ready: boolean; readonly reason?: string }
  /** The clients' listener, with its actual port. */
  readonly clients: { readonly url: string; readonly port: number }
}

/** Creates the parts that the listeners for people and operators need. The dashboard's origins are known once it listens. */
export function createDashboardServer(parts: DashboardServerParts) {
  const { clock, loaded, clients } = parts
  const configuration = () => loaded().configuration
  const startedAt = loaded().at
  /** Set once it listens; used without a `dashboard_url`. */
  let own: readonly string[] = []
  const origins = () => {
    const { dashboardUrl } = configuration()
    return dashboardUrl === null ? own : [dashboardUrl]
  }
  const api: ApiParts = {
    store: parts.store,
    clock,
    log: parts.log,
    version: parts.version,
    startedAt,
    get registration() {
      return configuration().registration
    },
    origins,
    baseUrl: () => configuration().publicUrl ?? clients.url + basePath(configuration().routes),
    budgetRules: () => parts.generation().budgetRules,
    models: () => parts.generation().catalog.list(),
    plans: () => configuration().plans,
    aliases: id => [...configuration().aliases].filter(([, model]) => model === id).map(([alias]) => alias),
    readiness: parts.readiness,
    past: parts.past,
    ...parts.views,
    configuration: () => configurationView(loaded()),
    playground: () => playgroundRoute(parts.generation(), clients.port),
  }
  return {
    /** The answer of `GET /`. */
    about: () => ({ baseUrl: api.baseUrl(), dashboard: origins()[0] ?? null }),
    /** The operators' part of the API, for their own listener. Created on demand, because its schemas take a tenth of a second. */
    operators: () => createApi(api, 'admin', { readJson: createJsonReader() }),
    /** Whether a request carries an operator's token; permits reading only. */
    isOperator: createObservers(parts.store, clock),
    /** Opens the listener for people; resolves with the URL to open. */
    async open(app: AppParts, address: Address, page: Promise<Middleware>): Promise<{ server: Server; url: string }> {
      const people = createApi(api, 'dashboard', { readJson: createJsonReader() })
      const dashboard = createDashboardApp(app, people, await page)
      const { server } = createListener(dashboard, configuration().limits, app.nextId)
      const port = await listen(server, address)
      own = ownOrigins(address.host, port)
      return { server, url: origins()[0]! }
    },
  }
}

/** The origins of a loopback listener: all of them reach this machine only. */
function ownOrigins(host: string, port: number): string[] {
  return [...new Set([urlHost(host), '127.0.0.1', 'localhost', '[::1]'])].map(
    name => new URL(`http://${name}:${port}`).origin,
  )
}
