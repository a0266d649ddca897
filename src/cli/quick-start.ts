/**
 * The texts that `serve` prints beside its log: on the first start of a gateway on loopback, an account, a key and a line to
 * paste; on later starts, where it answers and how to make a key.
 */
import type { Model } from '#contract'
import { runVerb } from '../api/control/verbs.ts'
import type { Configuration, RouteConfig } from '../config/configuration.ts'
import { basePath, chatPath, isLoopback, urlHost } from '../config/listen-address.ts'
import type { Store } from '../store/store.ts'
import { quoted } from './shell.ts'

/** The parts of a configuration that the texts name. */
export interface Offer extends Pick<Configuration, 'listen' | 'providers' | 'models'> {
  readonly routes: readonly Pick<RouteConfig, 'kind' | 'path'>[]
}

/** A gateway that has started; `main.serve` hands it out. */
export interface Running {
  /** Where clients reach it, without `/v1`: `http://127.0.0.1:8080`. */
  readonly url: string
  /** Where people open the dashboard; null: there is none. */
  readonly dashboardUrl: string | null
  readonly store: Store
  readonly configuration: Offer
}

/** Credit of the account that the first start makes. */
/** Small models of large providers: a first request to one of them costs next to nothing. */
const EXAMPLES: readonly string[] = [
  ...['gpt-5-mini', 'claude-haiku-4-5', 'gemini-2.5-flash', 'mistral-small-latest', 'llama-3.1-8b-instant'],
  ...['deepseek-chat', 'openai/gpt-5-mini'],
]
const FIRST_CREDIT = '5'
/** How long the link for the first operator works. */
const FIRST_LINK_MS = 24 * 3_600_000

interface TextOptions {
  /** The command line that runs `tollgate` again, for the hints. Default: `npx tollgate`. */
  readonly self?: string
  /** Default: the time of the machine. */
  readonly nowMs?: number
  /** Whether a person reads the text at a terminal, so that a key in it gets into no log. Default: false. */
  readonly onTerminal?: boolean
}

/**
 * Makes an account with $5 and a key, and answers with the text to print: only when the listener is loopback, the store has
 * never had an account, and either a model needs nothing but the embedded demo or a person at a terminal reads the text. Null
 * otherwise.
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
This is its first start: it made the account "${name}" with $${FIRST_CREDIT} of credit, and a key, which is not shown again.

  export OPENAI_BASE_URL=${base}
  export OPENAI_API_KEY=${token}

${list}Paste this to see an answer stream in${example ? '' : ', with a model in the place of MODEL'}:

  curl -N ${running.url}${path} ${key} -H 'content-type: application/json' -d ${quoted(JSON.stringify(body))}
${link}
Another key:  ${self} key create --account ${name} --name mine

`
}

/** Whoever opens it first chooses a password and is the operator: so there is never one that everybody knows. */
async function firstLink(store: Store, account: string, dashboardUrl: string, nowMs: number): Promise<string> {
  const { token } = await runVerb(store, 'person.invite', {
    role: 'operator',
    account,
    expires_at: new Date(nowMs + FIRST_LINK_MS).toISOString(),
    actor: 'quick-start',
  })
  return `
See it in the dashboard (this link works once, for 24 hours: choose a password, and you are its operator):

  ${dashboardUrl}/join#${token}
`
}

/** The short text of every other start. */
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

/** An account as a shell takes it without quotes. */
function nameOrId({ id, name }: { readonly id: string; readonly name: string }): string {
  return /^\w[\w.@+-]*$/.test(name) ? name : id
}

/** The base URL that clients want: up to `/v1`. */
function baseUrl(running: Running): string {
  return running.url + basePath(running.configuration.routes)
}

/** A model that answers without any network and so without anybody's credentials. */
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
