/** `models`: the catalog, its prices in nano-dollars per million tokens, and its aliases. */
import { MAX_CHOICES, type Modality, type Model, type SearchForm, type Target } from '#contract'
import type { DialectName, ProfileName } from '../providers/dialects/dialect-names.ts'
import type { Configuration } from './configuration.ts'
import type { GatewayShape, ModelShape, ProviderShape, TargetShape } from './file-shapes.ts'
import { isTranslated, modalitiesOf, uncarried } from './modalities.ts'
import { checkPrice, priceFrom } from './prices.ts'
import { didYouMean } from './yaml/problem.ts'
import { entriesOf, pointer, type Source } from './yaml/source.ts'

interface Catalog {
  readonly models: Map<string, Model>
  readonly aliases: Map<string, string>
}

/** Answers that a request may ask for in a dialect or profile; all others take `MAX_CHOICES`. A test asks the dialects themselves. */
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

/** In whose form a dialect takes a search of the web. Anthropic's own is not on Bedrock. */
const SEARCHES_OF: Readonly<Partial<Record<DialectName | 'demo', SearchForm>>> = {
  anthropic: 'anthropic',
  'vertex-anthropic': 'anthropic',
  openai: 'openai',
  azure: 'openai',
}

/** The models that are sound. `providers` are those of the file, sound or not. */
export function buildCatalog(
  source: Source,
  shapes: GatewayShape['models'],
  providers: GatewayShape['providers'],
): Catalog {
  const catalog: Catalog = { models: new Map(), aliases: new Map() }
  for (const [id, shape] of entriesOf(shapes)) {
    const at = pointer('models', id)
    const remains = source.remains(at, shape)
    if (remains === null) continue
    const targets = (Array.isArray(remains.targets) ? remains.targets : []).map(target => target ?? {})
    checkTargets(source, at, targets, providers)
    checkSizes(source, at, remains)
    checkDate(source, at, remains)
    checkPrice(source, `${at}/price`, remains.price)
    for (const [i, { cost }] of targets.entries()) checkPrice(source, `${at}/targets/${i}/cost`, cost)
    if (source.sound(at)) catalog.models.set(id, build(id, shape, providers))
  }
  addAliases(source, shapes, catalog)
  return catalog
}

function build(id: string, shape: ModelShape, providers: GatewayShape['providers']): Model {
  const asked = shape.targets.map(({ provider }) => providers[provider])
  const dialects = asked.map(provider => provider?.dialect ?? 'demo')
  const choices = asked.map(provider => CHOICES_OF[provider?.profile ?? provider?.dialect ?? 'demo'] ?? MAX_CHOICES)
  return {
    id,
    targets: shape.targets.map(
      (target): Target => ({
        id: `${target.provider}/${target.model}`,
        provider: target.provider,
        model: target.model,
        weight: target.weight,
        cost: target.cost === undefined ? null : (priceFrom(target.cost) ?? []),
        ...(target.cap_field === undefined ? {} : { capField: target.cap_field }),
        reasoningOutsideCap: target.reasoning_outside_cap,
        priority: target.priority,
        maxInflight: target.max_inflight ?? Number.POSITIVE_INFINITY,
        ...readsOf(target, providers[target.provider]),
      }),
    ),
    price: priceFrom(shape.price),
    context: shape.context,
    maxOutput: shape.max_output,
    maxChoices: Math.max(...choices),
    defaultOutput: shape.default_output ?? shape.max_output,
    reasoning: shape.reasoning,
    inputOverhead: shape.input_overhead,
    allow: shape.allow,
    searches: [...new Set(dialects.flatMap(dialect => SEARCHES_OF[dialect] ?? []))],
    public: shape.public,
    enabled: shape.enabled,
    created: Date.parse(`${shape.created}T00:00:00Z`) / 1000,
    ownedBy: shape.owned_by,
    description: shape.description ?? null,
  }
}

function readsOf({ model, input_modalities }: TargetShape, provider: ProviderShape | undefined) {
  const inputModalities = modalitiesOf(provider ?? {}, model, input_modalities)
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
      source.report(`${target}/cap_field`, 'cap_field is for the dialect openai and its variants', {
        rule: 'useless-key',
        key: true,
        suggestion: 'remove this line',
      })
    }
    if (provider === undefined || model === undefined) continue
    if (configured !== undefined) checkModalities(source, target, configured, providers[provider])
    const id = `${provider}/${model}`
    if (seen.has(id)) {
      source.report(target, `the target ${id} is here twice`, {
        rule: 'duplicate-entry',
        suggestion: 'give it a larger weight instead',
      })
    }
    seen.add(id)
  }
}

/** Reports media that never reach the model, whatever it reads. */
function checkModalities(
  source: Source,
  target: string,
  configured: readonly Modality[],
  provider: Partial<ProviderShape> | undefined,
): void {
  const at = `${target}/input_modalities`
  if (provider?.dialect === undefined || !source.sound(at)) return
  const { dialect, profile } = provider
  const found = uncarried(profile ?? dialect, configured)
  if (found === null) return
  const who = profile === undefined ? `dialect ${dialect}` : `profile ${profile}`
  source.report(`${at}/${configured.indexOf(found.modality)}`, `the ${who} carries no ${found.modality}`, {
    suggestion: `it carries ${found.carried.join(', ')}`,
  })
}

/** Reports a provider that the file does not have. */
export function checkProviderName(source: Source, at: string, name: string, known: readonly string[]): void {
  // Without the list nobody knows: that its key is misspelt is told.
  if (known.includes(name) || source.reported('/providers')) return
  const some = known.length === 0 ? 'there are none' : `there ${known.length === 1 ? 'is' : 'are'} ${known.join(', ')}`
  const suggestion = didYouMean(name, known) ?? some
  source.report(at, `there is no provider ${source.show(at, name)}`, {
    rule: 'unknown-provider',
    suggestion,
    same: `provider ${name}`,
  })
}

function checkSizes(source: Source, at: string, shape: Partial<ModelShape>): void {
  const { context = Infinity, max_output = Infinity, default_output = 0 } = shape
  if (max_output !== Infinity && max_output > context) {
    const message = `max_output (${max_output}) is more than context (${context})`
    source.report(`${at}/max_output`, message, {
      rule: 'out-of-bounds',
      suggestion: 'context is prompt and answer together',
    })
  }
  if (default_output > max_output) {
    source.report(
      `${at}/default_output`,
      `default_output (${default_output}) is more than max_output (${max_output})`,
      { rule: 'out-of-bounds' },
    )
  }
}

function checkDate(source: Source, at: string, { created }: Partial<ModelShape>): void {
  if (created === undefined) return
  const day = new Date(`${created}T00:00:00Z`)
  if (Number.isNaN(day.getTime()) || day.toISOString().slice(0, 10) !== created) {
    source.report(`${at}/created`, `created: ${source.show(`${at}/created`, created)} is not a day of the calendar`)
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

/** What a key may be limited to: the models of the catalog and of raw routes, and the other names of the former. */
export function modelNames({ models, aliases, routes }: Pick<Configuration, 'models' | 'aliases' | 'routes'>) {
  return {
    models: [...new Set([...models.keys(), ...routes.flatMap(route => route.raw?.models ?? [])])],
    aliases: Object.fromEntries(aliases),
  }
}
