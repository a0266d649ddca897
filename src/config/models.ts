/** `models`: the catalog, its prices in nano-dollars per million tokens, and its aliases. */
import { MAX_CHOICES, type Modality, type Model, type SearchForm, type Target } from '#contract'
import { isDay } from '../catalog/listed-model.ts'
import type { DialectName, ProfileName } from '../providers/dialects/dialect-names.ts'
import { type AutoParts, type ModelValues, valuesOf } from './auto-values.ts'
import type { Configuration, ModelOrigin } from './configuration.ts'
import type { GatewayShape, ModelShape, ProviderShape, TargetShape } from './file-shapes.ts'
import { isTranslated, modalitiesOf, unsupportedModality } from './modalities.ts'
import { checkPrice } from './prices.ts'
import { bySpecificity, checkWildcard, type ExpandedModel, expand, isWildcard } from './wildcards.ts'
import { didYouMean } from './yaml/problem.ts'
import { entriesOf, pointer, type Source } from './yaml/source.ts'

interface Catalog {
  readonly models: Map<string, Model>
  readonly origins: Map<string, ModelOrigin>
  readonly aliases: Map<string, string>
}

/** The sources of models' values besides their shapes. */
export interface CatalogParts extends AutoParts {
  /** All providers of the file, including those with problems. */
  readonly shapes: GatewayShape['providers']
}

/** The maximum `n` of a dialect or profile; all others accept `MAX_CHOICES`. A test compares it with the dialects. */
export const CHOICES_OF: Readonly<Partial<Record<DialectName | ProfileName | 'demo', number>>> = {
  anthropic: 1,
  'vertex-anthropic': 1,
  bedrock: 1,
  'bedrock-invoke': 1,
  cohere: 1,
  ollama: 1,
  deepseek: 1,
  groq: 1,
  zai: 1,
  gemini: 8,
  vertex: 8,
}

/** The form of a web search in a dialect. Bedrock does not have Anthropic's search. */
const SEARCHES_OF: Readonly<Partial<Record<DialectName | 'demo', SearchForm>>> = {
  anthropic: 'anthropic',
  'vertex-anthropic': 'anthropic',
  openai: 'openai',
  azure: 'openai',
}

/** Builds the models without problems. */
export function buildCatalog(shapes: GatewayShape['models'], parts: CatalogParts): Catalog {
  const { source } = parts
  const catalog: Catalog = { models: new Map(), origins: new Map(), aliases: new Map() }
  const owners = new Map<string, string>()
  const built: ModelDraft[] = []
  for (const [id, shape] of entriesOf(shapes)) {
    const at = pointer('models', id)
    const remains = source.remains(at, shape)
    if (remains === null) continue
    check(at, id, remains, parts)
    if (!source.sound(at)) continue
    const targets = shape.targets
    const models = isWildcard(id)
      ? parts.catalog === null
        ? []
        : expand(source, at, id, targets, { ...parts, catalog: parts.catalog })
      : [{ id, targets, places: targets.map((_, index) => index) }]
    for (const model of models) {
      built.push({ ...model, at, pattern: id, shape })
      // An exact id has precedence over a wildcard, and a longer wildcard over a shorter one.
      const owner = owners.get(model.id)
      if (owner === undefined || !isWildcard(id) || (isWildcard(owner) && bySpecificity(id, owner) < 0))
        owners.set(model.id, id)
    }
  }
  addAliases(source, shapes, catalog)
  checkSuccessors(source, shapes, new Set([...namesOf(shapes), ...owners.keys(), ...catalog.aliases.keys()]))
  for (const { id, pattern, at, shape, targets, places } of built) {
    if (owners.get(id) !== pattern || (id !== pattern && catalog.aliases.has(id))) continue
    const values = valuesOf(at, shape, targets, places, parts)
    if (!source.sound(at)) continue
    catalog.models.set(id, build(id, pattern, { ...shape, targets }, values, parts.shapes))
    catalog.origins.set(id, values.origin)
  }
  nameSuccessors(catalog)
  return catalog
}

/** Price lists name a successor as the provider does. Replaces that name by the id of the model with this target. */
function nameSuccessors({ models, aliases }: Catalog): void {
  const idOf = new Map(
    [...models.values()].flatMap(({ id, targets }) => targets.map(target => [target.id, id] as const)),
  )
  for (const model of models.values()) {
    const successor = model.deprecation?.successor
    if (successor == null || models.has(successor) || aliases.has(successor)) continue
    const found = model.targets.map(({ provider }) => idOf.get(`${provider}/${successor}`)).find(id => id !== undefined)
    models.set(model.id, { ...model, deprecation: { date: model.deprecation!.date, successor: found ?? null } })
  }
}

/** A model before its values are known. */
interface ModelDraft extends ExpandedModel {
  readonly at: string
  /** The model's id in the file. */
  readonly pattern: string
  readonly shape: ModelShape
}

function check(at: string, id: string, remains: Partial<ModelShape>, { source, shapes }: CatalogParts): void {
  const targets = (Array.isArray(remains.targets) ? remains.targets : []).map(target => target ?? {})
  checkTargets(source, at, targets, shapes)
  checkWildcard(source, at, id, remains)
  if (source.has(`${at}/price`) && remains.price !== 'auto') {
    for (const key of ['context', 'max_output'] as const) {
      if (source.mayHave(`${at}/${key}`)) continue
      source.report(at, `${id} has no "${key}"`, {
        rule: 'missing-key',
        suggestion: 'write a number of tokens, or auto for the value of the price catalog',
      })
    }
  }
  checkSizes(source, at, remains)
  checkDay(source, `${at}/created`, 'created', remains.created)
  checkDay(source, `${at}/deprecation/date`, 'date', remains.deprecation?.date)
  checkPrice(source, `${at}/price`, remains.price)
  for (const [i, { cost }] of targets.entries()) checkPrice(source, `${at}/targets/${i}/cost`, cost)
}

function build(
  id: string,
  pattern: string,
  shape: ModelShape,
  values: ModelValues,
  providers: GatewayShape['providers'],
): Model {
  const targetProviders = shape.targets.map(({ provider }) => providers[provider])
  const dialects = targetProviders.map(provider => provider?.dialect ?? 'demo')
  const choices = targetProviders.map(
    provider => CHOICES_OF[provider?.profile ?? provider?.dialect ?? 'demo'] ?? MAX_CHOICES,
  )
  return {
    id,
    targets: shape.targets.map(
      (target, index): Target => ({
        id: `${target.provider}/${target.model}`,
        provider: target.provider,
        model: target.model,
        weight: target.weight,
        cost: values.costs[index]!,
        ...(target.cap_field === undefined ? {} : { capField: target.cap_field }),
        reasoningOutsideCap: target.reasoning_outside_cap,
        priority: target.priority,
        maxInflight: target.max_inflight ?? Number.POSITIVE_INFINITY,
        ...readsOf(target, providers[target.provider]),
      }),
    ),
    price: values.price,
    context: values.context,
    maxOutput: values.maxOutput,
    maxChoices: Math.max(...choices),
    defaultOutput: Math.min(shape.default_output ?? values.maxOutput, values.maxOutput),
    reasoning: values.reasoning,
    inputOverhead: shape.input_overhead,
    allow: shape.allow,
    searches: [...new Set(dialects.flatMap(dialect => SEARCHES_OF[dialect] ?? []))],
    public: shape.public,
    enabled: shape.enabled,
    created: Date.parse(`${shape.created}T00:00:00Z`) / 1000,
    ownedBy: shape.owned_by,
    description: shape.description ?? null,
    ...(values.deprecation === null ? {} : { deprecation: values.deprecation }),
    ...(id === pattern ? {} : { wildcard: pattern, ...(values.origin.price?.dated ? { dated: true } : {}) }),
  }
}

function readsOf({ model, base_model, input_modalities }: TargetShape, provider: ProviderShape | undefined) {
  const inputModalities = modalitiesOf(provider ?? {}, base_model ?? model, input_modalities)
  return inputModalities === undefined ? {} : { inputModalities }
}

function checkTargets(
  source: Source,
  at: string,
  targets: readonly Partial<TargetShape>[],
  providers: GatewayShape['providers'],
): void {
  const seen = new Set<string>()
  const providerNames = entriesOf(providers).map(([name]) => name)
  for (const [i, { provider, model, cap_field: capField, input_modalities: configured }] of targets.entries()) {
    const target = `${at}/targets/${i}`
    if (provider !== undefined) checkProviderName(source, `${target}/provider`, provider, providerNames)
    const dialect = provider === undefined ? undefined : providers[provider]?.dialect
    if (capField !== undefined && dialect !== undefined && isTranslated(dialect)) {
      source.report(`${target}/cap_field`, 'cap_field is only for the dialect openai and its variants', {
        rule: 'useless-key',
        key: true,
        suggestion: 'remove this line',
      })
    }
    if (provider === undefined || model === undefined) continue
    if (configured !== undefined) checkModalities(source, target, configured, providers[provider])
    const id = `${provider}/${model}`
    if (seen.has(id)) {
      source.report(target, `the target ${id} is listed twice`, {
        rule: 'duplicate-entry',
        suggestion: 'give it a larger weight instead',
      })
    }
    seen.add(id)
  }
}

/** Reports media that the dialect cannot send. */
function checkModalities(
  source: Source,
  target: string,
  configured: readonly Modality[],
  provider: Partial<ProviderShape> | undefined,
): void {
  const at = `${target}/input_modalities`
  if (provider?.dialect === undefined || !source.sound(at)) return
  const { dialect, profile } = provider
  const found = unsupportedModality(profile ?? dialect, configured)
  if (found === null) return
  const name = profile === undefined ? `dialect ${dialect}` : `profile ${profile}`
  source.report(`${at}/${configured.indexOf(found.modality)}`, `the ${name} does not support ${found.modality}`, {
    suggestion: `it supports ${found.supported.join(', ')}`,
  })
}

/** Reports a provider that is not in the file. */
export function checkProviderName(source: Source, at: string, name: string, known: readonly string[]): void {
  // If `providers` itself has a problem, its names are unknown.
  if (known.includes(name) || source.reported('/providers')) return
  const list = known.length === 0 ? 'there are none' : `there ${known.length === 1 ? 'is' : 'are'} ${known.join(', ')}`
  const suggestion = didYouMean(name, known) ?? list
  source.report(at, `unknown provider ${source.show(at, name)}`, {
    rule: 'unknown-provider',
    suggestion,
    same: `provider ${name}`,
  })
}

function checkSizes(source: Source, at: string, shape: Partial<ModelShape>): void {
  const number = (size: number | 'auto' | undefined, otherwise: number) => (typeof size === 'number' ? size : otherwise)
  const [context, output] = [number(shape.context, Infinity), number(shape.max_output, Infinity)]
  if (output !== Infinity && output > context) {
    const message = `max_output (${output}) is more than context (${context})`
    source.report(`${at}/max_output`, message, {
      rule: 'out-of-bounds',
      suggestion: 'context includes the prompt and the answer',
    })
  }
  const { default_output: usual = 0 } = shape
  if (usual > output) {
    source.report(`${at}/default_output`, `default_output (${usual}) is more than max_output (${output})`, {
      rule: 'out-of-bounds',
    })
  }
}

function checkDay(source: Source, at: string, key: string, text: string | undefined): void {
  if (text === undefined || isDay(text)) return
  source.report(at, `${key}: ${source.show(at, text)} is not a calendar date`)
}

const namesOf = (shapes: GatewayShape['models']) => entriesOf(shapes).map(([id]) => id)

function checkSuccessors(source: Source, shapes: GatewayShape['models'], known: ReadonlySet<string>): void {
  const hasAllAliases = namesOf(shapes).every(id => source.sound(pointer('models', id, 'aliases')))
  for (const [id, shape] of entriesOf(shapes)) {
    const at = `${pointer('models', id)}/deprecation/successor`
    const successor = shape?.deprecation?.successor
    if (successor === id && source.sound(at)) {
      source.report(at, 'a model cannot be its own successor', { suggestion: 'write the id of another model' })
      continue
    }
    if (successor === undefined || !source.sound(at) || known.has(successor) || !hasAllAliases) continue
    source.report(at, `the successor ${source.show(at, successor)} is not a model of this file`, {
      rule: 'unknown-model',
      suggestion: didYouMean(successor, known) ?? 'write the id of a model of this file',
    })
  }
}

function addAliases(source: Source, shapes: GatewayShape['models'], { aliases }: Catalog): void {
  for (const [id, shape] of entriesOf(shapes)) {
    const at = pointer('models', id, 'aliases')
    if (!source.sound(at) || !Array.isArray(shape?.aliases)) continue
    for (const [i, alias] of shape.aliases.entries()) {
      if (Object.hasOwn(shapes, alias)) {
        const message =
          alias === id ? `the alias "${alias}" is the model's own id` : `the alias "${alias}" is the id of a model`
        source.report(`${at}/${i}`, message, { suggestion: 'remove it' })
      } else if (aliases.has(alias)) {
        source.report(`${at}/${i}`, `the alias "${alias}" is taken by the model "${aliases.get(alias)}"`, {
          rule: 'duplicate-entry',
        })
      } else aliases.set(alias, id)
    }
  }
}

/** The models that a key can be limited to: those of the catalog, with their aliases, and those of raw routes. */
export function modelNames({ models, aliases, routes }: Pick<Configuration, 'models' | 'aliases' | 'routes'>) {
  return {
    models: [...new Set([...models.keys(), ...routes.flatMap(route => route.raw?.models ?? [])])],
    aliases: Object.fromEntries(aliases),
  }
}
