/** Shared by all seeds of a process: a checked configuration, and a template store with accounts and keys. */
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { formatMoney } from '#contract'
import type { Configuration } from '../../src/config/configuration.ts'
import { loadConfiguration } from '../../src/config/load.ts'
import { builtinRegistry } from '../../src/loader/builtin.ts'
import { openStore } from '../../src/store/engine/sqlite.ts'
import { type Engine, postgresEngine, sqliteEngine } from './engines.ts'
import { ACCOUNTS, KEYS, MODELS, type SimulatedKey } from './scenario.ts'

const SECRET = 'a secret for the simulation, and for nothing else'

/** In memory if possible, because the disk is not tested here. */
const PARENT = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()

export const TIMEOUTS = { firstByteMs: 8_000, idleMs: 5_000, totalMs: 60_000 }

/** The gateway disconnects a client that reads nothing for this long. */
export const STALL_MS = 6_000

export interface Ground {
  readonly configuration: Configuration
  readonly secret: string
  readonly keys: readonly SimulatedKey[]
  readonly engine: Engine
}

/** @param server the address of PostgreSQL; null: the store is a file */
export async function prepareGround(server: string | null): Promise<Ground> {
  const folder = mkdtempSync(join(PARENT, 'tollgate-simulation-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  const configuration = await writeConfiguration(folder)
  const engine = server === null ? sqliteEngine(folder) : postgresEngine(server, folder)
  return { configuration, secret: SECRET, keys: await makeTemplate(engine.template), engine }
}

async function writeConfiguration(folder: string): Promise<Configuration> {
  mkdirSync(join(folder, 'policies'))
  const steps = (onDisconnect: string | null) => ({
    steps: [
      { use: 'api-key' },
      { use: 'schema' },
      { use: 'rate-limit', with: { per: 'key', requests: '20 per minute', burst: 4 } },
      { use: 'credits', ...(onDisconnect === null ? {} : { with: { on_disconnect: onDisconnect } }) },
      { use: 'route', with: { attempts: 1 } },
    ],
  })
  writeFileSync(join(folder, 'policies/standard.yaml'), JSON.stringify(steps(null)))
  writeFileSync(join(folder, 'policies/drain.yaml'), JSON.stringify(steps('drain')))
  writeFileSync(join(folder, 'policies/free.yaml'), JSON.stringify(steps('cancel_free')))
  writeFileSync(join(folder, 'policies/catalog.yaml'), JSON.stringify({ steps: [{ use: 'api-key' }] }))
  const models = Object.entries(MODELS).map(([id, model]) => [
    id,
    {
      targets: [{ provider: 'p', model: `their-${id}`, reasoning_outside_cap: model.outsideCap }],
      price: {
        per: '1M tokens',
        input: `$${formatMoney(model.tariff.input)}`,
        cached_input: `$${formatMoney(model.tariff.cachedInput)}`,
        output: `$${formatMoney(model.tariff.output)}`,
        ...(model.tariff.search === undefined ? {} : { web_search: `$${formatMoney(model.tariff.search)}` }),
      },
      allow: model.tariff.search === undefined ? [] : ['web_search'],
      context: model.context,
      max_output: model.maxOutput,
      reasoning: model.reasoning,
    },
  ])
  const file = join(folder, 'gateway.yaml')
  writeFileSync(
    file,
    JSON.stringify({
      version: 1,
      listen: '127.0.0.1:0',
      store: 'memory',
      limits: { stall: `${STALL_MS / 1000}s` },
      heartbeat: { first: '2s', every: '3s' },
      providers: {
        p: {
          dialect: 'openai',
          base_url: 'http://127.0.0.1:9/v1',
          timeouts: {
            first_byte: `${TIMEOUTS.firstByteMs / 1000}s`,
            idle: `${TIMEOUTS.idleMs / 1000}s`,
            total: `${TIMEOUTS.totalMs / 1000}s`,
          },
        },
      },
      models: Object.fromEntries(models),
      routes: [
        { path: '/v1/chat/completions', policy: 'standard' },
        { path: '/drain/v1/chat/completions', policy: 'drain' },
        { path: '/free/v1/chat/completions', policy: 'free' },
      ],
    }),
  )
  const loaded = await loadConfiguration(file, { env: {}, registry: builtinRegistry() })
  if ('problems' in loaded) throw new Error(JSON.stringify(loaded.problems))
  return loaded.configuration
}

async function makeTemplate(url: string): Promise<SimulatedKey[]> {
  const store = await openStore({
    url,
    secret: SECRET,
    clock: { now: () => 1_799_999_000_000 },
    writes: 'here',
  })
  for (const name of ACCOUNTS) await store.createAccount({ name })
  const keys: SimulatedKey[] = []
  for (const name of KEYS) {
    const account = name.slice(0, -2)
    const { key, token } = await store.createKey({ account, name })
    keys.push({ name, id: key.id, token, account })
  }
  await store.close()
  return keys
}
