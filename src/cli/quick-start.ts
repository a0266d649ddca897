/**
 * The texts that `serve` prints beside its log. On the first start on loopback: a new account, a key and a command to paste. On
 * later starts: the address, and how to create a key.
 */
import type { Model } from '#contract'
import { runVerb } from '../api/control/verbs.ts'
import type { Configuration, RouteConfig } from '../config/configuration.ts'
import { basePath, chatPath, isLoopback, urlHost } from '../config/listen-address.ts'
import type { Store } from '../store/store.ts'
import { quoted } from './shell.ts'

/** The parts of a configuration that the texts use. */
export interface Offer extends Pick<Configuration, 'listen' | 'providers' | 'models'> {
  readonly routes: readonly Pick<RouteConfig, 'kind' | 'path'>[]
}

/** A running gateway, which `main.serve` returns. */
export interface Running {
  /** Its URL for clients, without `/v1`: `http://127.0.0.1:8080`. */
  readonly url: string
  /** The URL of the dashboard; null: not configured. */
  readonly dashboardUrl: string | null
  readonly store: Store
  readonly configuration: Offer
}

/** Small models of large providers, where a first request is cheap. */
const EXAMPLES: readonly string[] = [
  ...['gpt-5-mini', 'claude-haiku-4-5', 'gemini-2.5-flash', 'mistral-small-latest', 'llama-3.1-8b-instant'],
  ...['deepseek-chat', 'openai/gpt-5-mini'],
]
/** The credit of the first account, in dollars. */
const FIRST_CREDIT = '5'
/** The lifetime of the link for the first operator. */
const FIRST_LINK_MS = 24 * 3_600_000

interface TextOptions {
  /** The command for `tollgate` in hints. Default: `npx tollgate`. */
  readonly self?: string
  /** Default: now. */
  readonly nowMs?: number
  /** Whether the text goes to a terminal, so that a key in it is not logged. Default: false. */
  readonly onTerminal?: boolean
}

/**
 * Creates an account with $5 and a key, and returns the text to print. Returns null unless the listener is loopback and the
 * store has no accounts. Without a demo model, the text must also go to a terminal.
 */
export async function quickStart(
  running: Running,
  { self = 'npx tollgate', nowMs = Date.now(), onTerminal = false }: TextOptions = {},
): Promise<string | null> {
  const { store, configuration, dashboardUrl } = running
  const demo = demoModel(configuration)
  const models = demo ? [demo] : onTerminal ? usableModels(configuration) : []
  if (!isLoopback(urlHost(configuration.listen.host)) || models.length === 0 || (await store.listAccounts()).length > 0)
    return null
  const path = chatPath(configuration.routes)
  if (path === undefined) return null

  const name = demo ? 'demo' : 'first'
  const { account } = await runVerb(store, 'account.create', { name, credit: FIRST_CREDIT, actor: 'quick-start' })
  const { token } = await runVerb(store, 'key.create', { account: account.id, name: 'first' })
  const link = dashboardUrl === null ? '' : await firstLink(store, account.id, dashboardUrl, nowMs)
  const base = baseUrl(running)
  const isOne = models.length === 1
  const example = isOne ? models[0] : models.find(({ targets }) => EXAMPLES.includes(targets[0]!.model))
  const body = {
    model: example?.id ?? 'MODEL',
    stream: true,
    messages: [{ role: 'user', content: 'Say hello in one sentence.' }],
  }
  const key = `-H 'authorization: Bearer ${token}'`
  const list = isOne ? '' : `The list of its ${models.length} models:\n\n  curl ${base}/models ${key}\n\n`
  return `
Tollgate answers at ${base}
This is its first start: it created the account "${name}" with $${FIRST_CREDIT} of credit, and a key, which is not shown again.

  export OPENAI_BASE_URL=${base}
  export OPENAI_API_KEY=${token}

${list}Paste this to see a streamed answer${example ? '' : ', with a model in place of MODEL'}:

  curl -N ${running.url}${path} ${key} -H 'content-type: application/json' -d ${quoted(JSON.stringify(body))}
${link}
Another key:  ${self} key create --account ${name} --name mine

`
}

/** The person who opens the link first chooses the operator's password, so there is never a default password. */
async function firstLink(store: Store, account: string, dashboardUrl: string, nowMs: number): Promise<string> {
  const { token } = await runVerb(store, 'person.invite', {
    role: 'operator',
    account,
    expires_at: new Date(nowMs + FIRST_LINK_MS).toISOString(),
    actor: 'quick-start',
  })
  return `
Open the dashboard (this link works once, for 24 hours: choose a password to become its operator):

  ${dashboardUrl}/join#${token}
`
}

/** The short text of later starts. */
export async function startText(running: Running, self = 'npx tollgate'): Promise<string> {
  return `${await answersText(running, self)}${await dashboardText(running, self)}`
}

async function dashboardText({ dashboardUrl, store }: Running, self: string): Promise<string> {
  if (dashboardUrl === null) return ''
  const hint = (await store.people.hasOperator()) ? '' : ` (no operator yet: ${self} person invite --role operator)`
  return `The dashboard is at ${dashboardUrl}${hint}\n`
}

async function answersText(running: Running, self: string): Promise<string> {
  const accounts = await running.store.listAccounts()
  const [first] = accounts
  const hint = first
    ? `a key for an account: ${self} key create --account ${accounts.length === 1 ? nameOrId(first) : 'NAME'}`
    : `a first account and key: ${self} account create NAME --credit 10 && ${self} key create --account NAME`
  return `Tollgate answers at ${baseUrl(running)} (${hint})\n`
}

/** The name of an account, or its id if a shell would need quotes. */
function nameOrId({ id, name }: { readonly id: string; readonly name: string }): string {
  return /^\w[\w.@+-]*$/.test(name) ? name : id
}

/** The base URL of clients, up to `/v1`. */
function baseUrl(running: Running): string {
  return running.url + basePath(running.configuration.routes)
}

/** A model that needs neither a network nor credentials. */
export function demoModel(configuration: Offer): Model | undefined {
  const isDemo = (provider: string): boolean => configuration.providers.get(provider)?.dialect === 'demo'
  return usableModels(configuration).find(
    model => model.targets.length > 0 && model.targets.every(target => isDemo(target.provider)),
  )
}

/** The models that a new key can use. */
function usableModels({ models }: Offer): Model[] {
  return [...models.values()].filter(model => model.public && model.enabled)
}
