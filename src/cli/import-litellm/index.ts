/**
 * Converts LiteLLM's config.yaml to gateway.yaml, its policies, and a list of unconverted settings. Pure: it does no I/O and
 * copies no secrets.
 */

import { wholeOf } from '../../catalog/decimal.ts'
import { type Deployment, dropsParams, readDeployments } from './deployments.ts'
import { addAliases, fallbacksOf, idOf } from './fallbacks.ts'
import { keyCommands } from './keys.ts'
import type { ModelParts } from './known-prices.ts'
import { budgetsOf } from './litellm-budgets.ts'
import { type ModelYaml, modelOf } from './models.ts'
import { policyOf } from './policy.ts'
import { rawPolicy, rawRoutes } from './raw-models.ts'
import { type Fields, readYaml, UnreadableYaml, type Value } from './read.ts'
import { hasReference } from './references.ts'
import { type Remark, Remarks } from './remarks.ts'
import type { Credential, DeploymentParts } from './row-providers.ts'
import { Variables } from './secrets.ts'
import { timeoutsOf } from './timeouts.ts'
import { deploymentsOfWildcard, textsIn, withModelsNamed } from './wildcard-rows.ts'

export interface ImportOptions extends Pick<ModelParts, 'catalog' | 'unpriced'> {
  /** The price list of gateway.yaml; null: none. */
  readonly list: string | null
}

export interface ImportResult {
  readonly gateway: Record<string, unknown>
  /** By file name. */
  readonly policies: Readonly<Record<string, object>>
  readonly remarks: readonly Remark[]
  /** The required environment variables, each with a value that passes the checks. */
  readonly variables: ReadonlyMap<string, string>
  /** Commands that create accounts and keys with the same defaults as LiteLLM. */
  readonly commands: readonly string[]
}

/** @param file the file's name, for errors */
export function importLitellm(text: string, file: string, options: ImportOptions): ImportResult {
  let round: Round = { reserved: new Set(), convertsUnknown: false, isForeignFree: false }
  let imported = importWith(text, file, options, round)
  const again = (change: Partial<Round>): void => {
    round = { ...round, ...change }
    imported = importWith(text, file, options, round)
  }
  const isOff = () => Object.values(imported.gateway['models'] as object).map(({ enabled }) => enabled === false)
  // If all providers are unknown, no model would be left. Then they are converted to OpenAI's format, and their models are free
  // if necessary.
  if (isOff().length === 0) again({ convertsUnknown: true })
  if (isOff().length > 0 && !isOff().includes(false)) again({ isForeignFree: true })
  // A row may use a variable with the name that an earlier secret got. One provider's key would then be sent to another. The
  // names are known only at the end, so the file is converted again.
  if (imported.areNamesMixed) again({ reserved: imported.referred })
  return imported
}

interface Round extends Pick<ModelParts, 'isForeignFree'> {
  /** Names that must not be used for secrets of the file. */
  readonly reserved: ReadonlySet<string>
  readonly convertsUnknown: boolean
}

function importWith(
  text: string,
  file: string,
  options: ImportOptions,
  { reserved, convertsUnknown, isForeignFree }: Round,
): ImportResult & { readonly referred: ReadonlySet<string>; readonly areNamesMixed: boolean } {
  const whole = readYaml(text, file)
  // The values of LiteLLM's Helm chart contain the file under proxy_config.
  const top = whole.peek('model_list') === null ? (whole.map('proxy_config') ?? whole) : whole
  if (top.peek('model_list')?.kind !== 'list') {
    throw new UnreadableYaml(
      `${file}:${top.peek('model_list')?.line ?? 1}: this is not a LiteLLM configuration with models: it has no list model_list`,
    )
  }
  const remarks = new Remarks()
  const variables = new Variables(remarks, reserved)
  const [router, settings, general] = ['router_settings', 'litellm_settings', 'general_settings'].map(key =>
    top.map(key),
  ) as [Fields | null, Fields | null, Fields | null]
  const providers: DeploymentParts['providers'] = new Map()
  const timeouts = {
    ...(settings ? timeoutsOf(settings, remarks, 'request_timeout') : {}),
    ...(router ? timeoutsOf(router, remarks) : {}),
  }
  remarkOverridden(settings, 'request_timeout', router?.peek('timeout'), remarks)
  remarkOverridden(settings, 'stream_timeout', router?.peek('stream_timeout'), remarks)
  const credentials = credentialsOf(top, remarks)
  const deployments = deploymentsOf(top, { variables, remarks, providers, timeouts, credentials, convertsUnknown })
  const modelParts: ModelParts = { ...options, remarks, providers, isForeignFree }
  const aliases = router?.map('model_group_alias') ?? null
  const groups = groupsOf(deployments, namesIn(aliases, [router, settings]), modelParts)
  const raw = rawRoutes(deployments, modelParts)
  const models = modelsOf(groups, [router, settings], modelParts)
  remarkUnused(credentials, remarks)
  addAliases(models, aliases, remarks)
  const limits = limitsOf(general, remarks)
  const defaults = settings?.map('default_key_generate_params') ?? null
  const budgets = budgetsOf({ settings, defaults, hasRaw: models.size > 0 && raw.length > 0, remarks })
  const standard = policyOf({
    groups,
    models,
    router,
    settings,
    defaults,
    dropsParams: dropsParams(settings, remarks),
    budgets: budgets.rules,
    remarks,
  })
  const isOfWildcard = (name: string) => deploymentsOfWildcard(name, groups, modelParts).length > 0
  const commands = keyCommands(defaults, { ...budgets, models, isOfWildcard }, remarks)
  remarkMasterKey(general, remarks)
  remarkAddress(top, remarks)
  for (const [fields, section] of [
    [router, 'router'],
    [settings, 'litellm'],
    [general, 'general'],
    [top, 'top'],
  ] as const)
    if (fields) remarks.rest(fields, section)
  const used = new Set(
    [...[...models.values()].flatMap(({ targets }) => targets), ...raw].map(({ provider }) => provider),
  )
  const isRawAlone = models.size === 0 && raw.length > 0
  const chats = isRawAlone ? [] : ['/v1/chat/completions', '/v1/messages', '/v1/responses']
  const gateway = {
    version: 1,
    listen: '127.0.0.1:4000',
    ...(options.list === null ? {} : { catalog: options.list }),
    ...(Object.keys(limits).length > 0 ? { limits } : {}),
    providers: Object.fromEntries([...providers].filter(([name]) => used.has(name))),
    models: Object.fromEntries(models),
    routes: [...chats.map(path => ({ path, policy: 'standard' })), ...raw],
  }
  return {
    gateway,
    policies: raw.length > 0 ? { standard, raw: rawPolicy(budgets.rules) } : { standard },
    remarks: remarks.all.toSorted((a, b) => a.line - b.line),
    variables: variables.usedIn(JSON.stringify(gateway)),
    referred: variables.referred,
    areNamesMixed: variables.areMixed(),
    commands,
  }
}

function deploymentsOf(top: Fields, parts: DeploymentParts): Deployment[] {
  const all = (top.list('model_list')?.items ?? []).flatMap(item => {
    if (item.kind === 'map') return readDeployments(item, parts)
    parts.remarks.add('lost', item, 'a row of model_list is a map')
    return []
  })
  const written = new Set(all.filter(({ isImplied }) => !isImplied).map(({ group }) => group))
  return all.filter(({ group, isImplied }) => !isImplied || !written.has(group))
}

/** The chat deployments by model. @param names names that a wildcard may cover */
function groupsOf(all: readonly Deployment[], names: readonly string[], parts: ModelParts) {
  const chats = all.filter(({ use }) => use === 'chat')
  return withModelsNamed(
    names,
    Map.groupBy(chats, ({ group }) => group),
    parts,
  )
}

/** The models in aliases and fallbacks. */
function namesIn(aliases: Fields | null, sources: readonly (Fields | null)[]): string[] {
  return [
    ...(aliases?.keys() ?? []).flatMap(name => textsIn(aliases!.peek(name))),
    ...sources.flatMap(source => ['fallbacks', 'default_fallbacks'].flatMap(key => textsIn(source?.peek(key)))),
  ]
}

/** Adds a remark for each unused credential, which is not converted. */
function remarkUnused(credentials: ReadonlyMap<string, Credential>, remarks: Remarks): void {
  for (const [name, { values, isUsed }] of credentials) {
    if (!isUsed) remarks.add('changed', values, 'no row of model_list uses the credential', null, name)
  }
}

/** `credential_list`: the credentials that rows use by `litellm_credential_name`. */
function credentialsOf(top: Fields, remarks: Remarks): Map<string, Credential> {
  const credentials = new Map<string, Credential>()
  for (const item of top.list('credential_list')?.items ?? []) {
    if (item.kind !== 'map') {
      remarks.add('lost', item, 'a row of credential_list is a map')
      continue
    }
    const name = item.text('credential_name')
    const values = item.map('credential_values')
    if (!name || !values)
      remarks.add('lost', item, 'a row of credential_list needs credential_name and a map credential_values')
    else {
      if (credentials.has(name.text)) remarks.add('changed', name, 'the name is duplicated: this one counts')
      credentials.set(name.text, { values, isUsed: false })
    }
    remarks.rest(item, 'credential')
  }
  return credentials
}

function limitsOf(general: Fields | null, remarks: Remarks): Record<string, unknown> {
  const limits: Record<string, unknown> = {}
  const most = general?.text('global_max_parallel_requests') ?? null
  const whole = most && wholeOf(most.text)
  if (whole && whole <= 1_000_000) limits['max_inflight'] = whole
  const size = general?.text('max_request_size_mb') ?? null
  const megabytes = size && wholeOf(size.text)
  if (most && !limits['max_inflight']) remarks.wrongNumber(most, 'it is not a whole number from 1 to 1000000')
  if (megabytes && megabytes <= 32) limits['body'] = `${megabytes}MiB`
  else if (size) remarks.add('lost', size, 'a request body has at most 32 MiB', 'limits.body')
  return limits
}

/** Adds a remark for a setting of `litellm_settings` that `router_settings` overrides. */
function remarkOverridden(settings: Fields | null, key: string, by: Value | null | undefined, remarks: Remarks): void {
  const value = settings?.peek(key)
  if (value && by) remarks.add('changed', value, 'the same setting of router_settings has precedence')
}

/** Adds a remark about the changed address. */
function remarkAddress(top: Fields, remarks: Remarks): void {
  remarks.add(
    'changed',
    top,
    'the gateway listens on 127.0.0.1:4000 only, and its paths begin with /v1',
    'write listen: ":4000" for other machines; give clients a base URL that ends in /v1',
  )
}

function remarkMasterKey(general: Fields | null, remarks: Remarks): void {
  const master = general?.text('master_key') ?? null
  if (master)
    remarks.add(
      'lost',
      master,
      'the gateway has no master key',
      'clients get their own keys; operators use npx tollgate, or admin: 127.0.0.1:8082 and token create',
      hasReference(master) ? undefined : 'a key in the file, which is not copied',
    )
  general?.take('salt_key')
}

/** The models of gateway.yaml by id: one for each group of deployments with a valid id. */
function modelsOf(
  groups: ReadonlyMap<string, readonly Deployment[]>,
  fallbackSources: readonly (Fields | null)[],
  parts: ModelParts,
): Map<string, ModelYaml> {
  const models = new Map<string, ModelYaml>()
  const fallbacks = fallbacksOf([...groups.keys()], fallbackSources, parts.remarks)
  for (const [id, own] of groups) {
    const name = idOf(id)
    if (name === null || (name !== id && groups.has(name)) || models.has(name)) {
      const message = 'an id has 1 to 200 printable ASCII characters without blanks'
      parts.remarks.add('lost', own[0]!.params, message, 'rename it', id)
      continue
    }
    const message = 'blanks in an id became dashes: clients must send the new id'
    if (name !== id) parts.remarks.add('changed', own[0]!.params, message, null, name)
    const model = modelOf(id, { own, fallbacks: (fallbacks.get(id) ?? []).map(each => groups.get(each)!) }, parts)
    if (model !== null) models.set(name, model)
  }
  return models
}
