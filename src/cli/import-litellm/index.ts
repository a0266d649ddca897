/**
 * LiteLLM's config.yaml to gateway.yaml, its policy, and the list of what could not be carried. Pure: nothing is read or
 * written here, and no secret gets from one side to the other.
 */

import { wholeOf } from '../../catalog/decimal.ts'
import { type Credential, type Deployment, type DeploymentParts, dropsParams, readDeployment } from './deployments.ts'
import { embeddingRoutes, RAW_POLICY } from './embeddings.ts'
import { addAliases, addFallbacks } from './fallbacks.ts'
import { keyCommands } from './keys.ts'
import { type ModelParts, type ModelYaml, modelOf } from './models.ts'
import { policyOf } from './policy.ts'
import { type Fields, readYaml, UnreadableYaml, type Value } from './read.ts'
import { type Known, type Remark, Remarks } from './remarks.ts'
import { isReference, Variables } from './secrets.ts'
import { GENERAL, LITELLM, ROUTER, TOP } from './settings-table.ts'
import { timeoutsOf } from './timeouts.ts'

export type ImportOptions = Pick<ModelParts, 'prices' | 'unpriced'>

export interface Imported {
  readonly gateway: Record<string, unknown>
  /** By the name of the file that each stands in. */
  readonly policies: Readonly<Record<string, object>>
  readonly remarks: readonly Remark[]
  /** What the environment has to hold, each with a value that passes the checks. */
  readonly variables: ReadonlyMap<string, string>
  /** Command lines that make accounts and keys like those that LiteLLM would have made. */
  readonly commands: readonly string[]
}

/** @param file its name, for errors */
export function importLitellm(text: string, file: string, options: ImportOptions): Imported {
  const imported = importWith(text, file, options, new Set())
  // A row may refer to a variable after another one has its secret in the file. Had both the same name, the key of one
  // provider would go to another; which names there are is known at the end only, so the file is read once more.
  return imported.areNamesMixed ? importWith(text, file, options, imported.referred) : imported
}

function importWith(
  text: string,
  file: string,
  options: ImportOptions,
  reserved: ReadonlySet<string>,
): Imported & { readonly referred: ReadonlySet<string>; readonly areNamesMixed: boolean } {
  const top = readYaml(text, file)
  if (top.peek('model_list')?.kind !== 'list') {
    throw new UnreadableYaml(
      `${file}:${top.peek('model_list')?.line ?? 1}: this is no configuration of LiteLLM with models: it has no list model_list`,
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
  sayBeaten(settings, 'request_timeout', router?.peek('timeout'), remarks)
  sayBeaten(settings, 'stream_timeout', router?.peek('stream_timeout'), remarks)
  const credentials = credentialsOf(top, remarks)
  const deployments = readDeployments(top, { variables, remarks, providers, timeouts, credentials })
  const groups = Map.groupBy(
    deployments.filter(({ use }) => use === 'chat'),
    ({ group }) => group,
  )
  const embeddings = embeddingRoutes(
    deployments.filter(({ use }) => use === 'embedding'),
    { ...options, remarks, providers },
  )
  const models = modelsOf(groups, { ...options, remarks })
  sayPrices(top, models, remarks)
  sayCredentials(credentials, remarks)
  addFallbacks(models, [router, settings], remarks)
  addAliases(models, router?.map('model_group_alias') ?? null, remarks)
  const limits = limitsOf(router, general, remarks)
  const defaults = settings?.map('default_key_generate_params') ?? null
  const standard = policyOf({
    groups,
    models,
    router,
    settings,
    defaults,
    dropsParams: dropsParams(settings, remarks),
    remarks,
  })
  const commands = keyCommands(defaults, models, remarks)
  sayGeneral(general, remarks)
  sayAddress(top, remarks)
  for (const [fields, known] of [
    [router, ROUTER],
    [settings, LITELLM],
    [general, GENERAL],
    [top, TOP],
  ] as const) {
    if (fields) remarks.rest(fields.rest(), known)
  }
  const used = new Set(
    [...[...models.values()].flatMap(({ targets }) => targets), ...embeddings].map(({ provider }) => provider),
  )
  const chats = ['/v1/chat/completions', '/v1/messages', '/v1/responses']
  const gateway = {
    version: 1,
    listen: '127.0.0.1:4000',
    ...(Object.keys(limits).length > 0 ? { limits } : {}),
    providers: Object.fromEntries([...providers].filter(([name]) => used.has(name))),
    models: Object.fromEntries(models),
    routes: [...chats.map(path => ({ path, policy: 'standard' })), ...embeddings],
  }
  return {
    gateway,
    policies: embeddings.length > 0 ? { standard, raw: RAW_POLICY } : { standard },
    remarks: remarks.all.toSorted((a, b) => a.line - b.line),
    variables: variables.usedIn(JSON.stringify(gateway)),
    referred: variables.referred,
    areNamesMixed: variables.areMixed(),
    commands,
  }
}

function readDeployments(top: Fields, parts: DeploymentParts): Deployment[] {
  return (top.list('model_list')?.items ?? []).flatMap(item => {
    const deployment = item.kind === 'map' ? readDeployment(item, parts) : null
    if (item.kind !== 'map') parts.remarks.add('lost', item, 'a row of model_list is a map')
    return deployment === null ? [] : [deployment]
  })
}

/** What no row has named is not carried. */
function sayCredentials(credentials: ReadonlyMap<string, Credential>, remarks: Remarks): void {
  for (const [name, { values, isUsed }] of credentials) {
    if (!isUsed) remarks.add('lost', values, `no row of model_list names the credential "${name}"`)
  }
}

/** `credential_list`: what rows name with `litellm_credential_name`. */
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
      remarks.add('lost', item, 'a row of credential_list has to have credential_name and a map credential_values')
    else {
      if (credentials.has(name.text)) remarks.add('changed', name, 'the name is here already: this one counts')
      credentials.set(name.text, { values, isUsed: false })
    }
    remarks.rest(item.rest(), CREDENTIAL)
  }
  return credentials
}

const CREDENTIAL: Readonly<Record<string, Known>> = {
  credential_info: ['it describes the credential, and here nothing depends on it', undefined, 'changed'],
}

function limitsOf(router: Fields | null, general: Fields | null, remarks: Remarks): Record<string, unknown> {
  const limits: Record<string, unknown> = {}
  const most = general?.text('global_max_parallel_requests') ?? null
  const whole = most && wholeOf(most.text)
  if (whole && whole <= 1_000_000) limits['max_inflight'] = whole
  const size = general?.text('max_request_size_mb') ?? null
  const megabytes = size && wholeOf(size.text)
  if (most && !limits['max_inflight'])
    remarks.add('lost', most, 'it has to be a whole number from 1 to 1000000', 'limits.max_inflight')
  if (megabytes && megabytes <= 32) limits['body'] = `${megabytes}MiB`
  else if (size) remarks.add('lost', size, 'a request body is 32 MiB at most', 'limits.body')
  const each = general?.text('max_parallel_requests') ?? null
  if (each)
    remarks.add(
      'lost',
      each,
      'a limit of each key is a step, and one of each deployment stands at its target',
      'add the step concurrency: per: key, or max_inflight at each target',
    )
  const standard = router?.text('default_max_parallel_requests') ?? null
  if (standard)
    remarks.add(
      'lost',
      standard,
      'targets have no limit of their own unless they say it',
      'max_inflight at each target',
    )
  return limits
}

/** A setting of LiteLLM's own that the router's one takes the place of. */
function sayBeaten(settings: Fields | null, key: string, by: Value | null | undefined, remarks: Remarks): void {
  const value = settings?.peek(key)
  if (value && by) remarks.add('lost', value, `${by.path} counts in its place`)
}

/** What clients notice first. */
function sayAddress(top: Fields, remarks: Remarks): void {
  remarks.add(
    'changed',
    top,
    'the gateway listens on 127.0.0.1:4000, which only this machine reaches',
    'write listen: ":4000" for all, behind something that speaks TLS',
  )
  remarks.add(
    'changed',
    top,
    'paths begin with /v1: /chat/completions without it is answered with 404',
    'give clients a base URL that ends in /v1',
  )
}

function sayGeneral(general: Fields | null, remarks: Remarks): void {
  const master = general?.text('master_key') ?? null
  if (master) {
    const why = isReference(master)
      ? 'there is no key that may do everything'
      : 'there is no key that may do everything, and this one stands in the file: it is not copied'
    remarks.add(
      'lost',
      master,
      why,
      'clients get keys of their own, people sign in to the dashboard (person invite), and for machines of operators write "admin: 127.0.0.1:8082" into gateway.yaml and make a token (token create)',
    )
  }
  const salt = general?.text('salt_key') ?? null
  if (salt)
    remarks.add('lost', salt, "keys are digested with a secret of the gateway's own, which it makes at its first start")
}

/** The models of gateway.yaml by their ids: one for each group of deployments that has an id for it. */
function modelsOf(groups: ReadonlyMap<string, readonly Deployment[]>, parts: ModelParts): Map<string, ModelYaml> {
  const models = new Map<string, ModelYaml>()
  for (const [id, group] of groups) {
    if (/^[!-~]{1,200}$/.test(id)) models.set(id, modelOf(id, group, parts))
    else {
      const why = 'the id of a model is 1 to 200 printable characters without blanks'
      parts.remarks.add('lost', group[0]!.params, why, 'rename it')
    }
  }
  return models
}

function sayPrices(top: Fields, models: ReadonlyMap<string, ModelYaml>, remarks: Remarks): void {
  const list = top.peek('model_list')
  if (list && [...models.values()].some(({ price }) => price !== 'free')) {
    const why = 'customers pay for a model what LiteLLM counts as its cost'
    remarks.add('changed', list, why, 'raise the prices for a margin')
  }
}
