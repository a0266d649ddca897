/**
 * Warnings about probable mistakes in a valid configuration: losses of money, the wrong dialect, conditions and limits
 * without effect. Only `tollgate check` reports them.
 */

import {
  asksModel,
  formatMoney,
  isToken,
  type Model,
  type NanoUsd,
  type Price,
  paysFor,
  rateOf,
  type Target,
  UNITS,
  type Unit,
} from '#contract'
import type { PriceCatalog } from '../catalog/price-catalog.ts'
import { isWellKnown, otherDialectsOf } from './base-urls.ts'
import { parseWhen } from './conditions/when.ts'
import type { Configuration, Provider } from './configuration.ts'
import { warnAboutPlans } from './plan-warnings.ts'
import { warnOfLimits } from './policy/limit-warnings.ts'
import type { LoadedPolicy } from './policy/loaded-policy.ts'
import { comparedIn } from './policy/when-models.ts'
import { belowText, warnAboutLists } from './price-warnings.ts'
import { PRICE_KEYS } from './prices.ts'
import { SECRET_HEADER } from './providers.ts'
import type { PlannedRoute } from './routes.ts'
import { didYouMean, listed } from './yaml/problem.ts'
import { pointer, type Source } from './yaml/source.ts'

export interface WarnOptions {
  /** The plans of a store's accounts; null if unknown. */
  plansOf?(store: string): readonly string[] | null
}

interface LoadedFiles {
  /** gateway.yaml. */
  readonly source: Source
  readonly configuration: Configuration
  readonly routes: readonly PlannedRoute[]
  readonly policies: readonly LoadedPolicy[]
  /** Always loaded for warnings. */
  readonly catalog: PriceCatalog | null
  readonly today: Date
}

/** Adds the warnings to the sources of the files. */
export function warnAbout(
  { source, configuration, routes, policies, catalog, today }: LoadedFiles,
  { plansOf }: WarnOptions,
): void {
  const { providers, models, limits, store, telemetry } = configuration
  for (const provider of providers.values()) warnOfHost(source, provider)
  warnAboutLists(source, configuration, catalog, today)
  for (const model of models.values()) {
    const { id, price, allow, targets, wildcard } = model
    if (wildcard !== undefined) continue
    const at = pointer('models', id)
    warnOfPrice(source, `${at}/price`, price)
    if (allow.includes('web_search')) warnOfSearch(source, `${at}/allow`, price)
    if (allow.includes('audio')) warnOfAudio(source, `${at}/allow`, price)
    for (const [index, { provider, capField, cost }] of targets.entries()) {
      warnOfCap(source, `${at}/targets/${index}/cap_field`, capField, providers.get(provider)!)
      warnOfPrice(source, `${at}/targets/${index}/cost`, cost)
      warnOfCost(source, `${at}/targets/${index}/cost`, cost, model)
    }
  }
  for (const { address, price } of routes) if (address !== null) warnOfPrice(source, `${address}/price`, price)
  const plans = plansOf?.(store) ?? null
  warnAboutPlans(source, { declared: configuration.plans, used: plans, routes, policies })
  for (const policy of policies) {
    if (plans !== null && configuration.plans === null) warnOfPlans(policy, plans)
    warnOfLimits(policy, limits.maxInflight)
    if (policy.config!.tracesContent) warnOfContent(policy, telemetry !== null, routes)
  }
}

/** The policy wants content in traces, but no trace can have any. */
function warnOfContent({ name, source }: LoadedPolicy, isExported: boolean, routes: readonly PlannedRoute[]): void {
  const warn = (reason: string, suggestion: string) =>
    source.warn('/telemetry/content', `no content is traced: ${reason}`, { rule: 'no-effect', suggestion })
  if (!isExported) warn('gateway.yaml has no telemetry', 'add telemetry with its endpoint there, or remove this line')
  else if (!routes.some(({ policy, kind }) => policy === name && asksModel(kind)))
    warn('no route of this policy uses a model of the catalog', 'remove this line')
}

/** Checks a provider against its host. The demo provider has none. */
function warnOfHost(source: Source, provider: Provider): void {
  const { name, dialect, baseUrl } = provider
  if (baseUrl === '') return
  const at = pointer('providers', name)
  const host = new URL(baseUrl)
  if (isWellKnown(host)) warnMissingCredential(source, at, provider)
  const spoken = otherDialectsOf(dialect, host)
  if (spoken !== null) {
    const message = `the dialect of this host is not ${dialect}`
    const suggestion = `write ${listed(spoken, 'or')}`
    source.warn(`${at}/dialect`, message, { rule: 'other-dialect', suggestion })
  }
  // Ollama has no well-known host, and its server always sends a finish reason.
  if (isWellKnown(host) || dialect === 'ollama' || source.has(`${at}/missing_finish`)) return
  source.warn(`${at}/base_url`, 'an answer without a finish reason from this provider is an error', {
    rule: 'missing-finish',
    level: 'note',
    suggestion: 'write missing_finish: stop if the server sends no finish reasons, or error to confirm this',
  })
}

/** Vendors reject requests without a key; self-hosted servers may need none. */
function warnMissingCredential(source: Source, at: string, { dialect, credentials, headers }: Provider): void {
  if (credentials.length > 0 || Object.keys(headers).some(name => SECRET_HEADER.test(name))) return
  const key = CREDENTIAL_OF[dialect] ?? 'api_key: ${NAME}, with the name of an environment variable'
  source.warn(at, 'this host rejects requests without a credential, and this provider has none', {
    rule: 'no-credential',
    suggestion: `write ${key}`,
  })
}

const AWS = 'aws, or api_key: ${NAME}, with the name of an environment variable'
const GOOGLE = 'service_account: ${file:PATH}, with the path of its JSON file'
const CREDENTIAL_OF: Readonly<Partial<Record<Provider['dialect'], string>>> = {
  bedrock: AWS,
  'bedrock-invoke': AWS,
  vertex: GOOGLE,
  'vertex-anthropic': GOOGLE,
}

/** Dialects and profiles that accept the output cap as `max_tokens` only; a test compares them with the profiles. */
export const MAX_TOKENS_ONLY: ReadonlySet<string> = new Set(['mistral', 'deepseek', 'perplexity', 'together', 'zai'])

/** Some providers ignore an unknown name, and the answer then has no cap. */
function warnOfCap(source: Source, at: string, name: Target['capField'], { dialect, profile }: Provider): void {
  const format = profile ?? dialect
  if (name !== 'max_completion_tokens' || !MAX_TOKENS_ONLY.has(format)) return
  source.warn(at, `${format} accepts the output cap as max_tokens, and may not know max_completion_tokens`, {
    rule: 'no-effect',
    suggestion: 'remove this line',
  })
}

/** At every provider, cached input is cheaper than other input. */
function warnOfPrice(source: Source, at: string, price: Price | null): void {
  if (price === null) return
  warnOfScale(source, at, price)
  warnOfTiers(source, at, price)
  if (rateOf(price, 'cached_input') <= rateOf(price, 'input')) return
  source.warn(`${at}/cached_input`, 'cached_input costs more than input', {
    rule: 'odd-price',
    suggestion: 'providers charge less for cached tokens',
  })
}

/** A tier's price applies to prompts of any length, unless the tier has its own steps. */
function warnOfTiers(source: Source, at: string, price: Price): void {
  for (const { unit, tier, above } of price) {
    if (tier === undefined || above !== undefined) continue
    const step = price.find(other => other.unit === unit && other.tier === undefined && other.above !== undefined)
    if (
      step === undefined ||
      price.some(other => other.unit === unit && other.tier === tier && other.above !== undefined)
    )
      continue
    source.warn(
      `${at}/tier/${tier}`,
      `${UNITS[unit].key} of the tier ${tier} has no price above ${step.above} tokens`,
      {
        rule: 'odd-price',
        suggestion: 'add steps (above) to the tier, or its price applies to long prompts too',
      },
    )
  }
}

/**
 * Nano-dollars per million tokens. In list prices of 2026 the most expensive tokens cost $600 a million (answers of o1-pro).
 * The cheapest ones, of small models and embeddings, cost about $0.005. Cached input is cheaper still, and is not checked.
 */
const HIGHEST: NanoUsd = 1_000n * 1_000_000_000n
const LOWEST: NanoUsd = 5_000_000n

/** Finds amounts for 1K tokens under `per: 1M tokens`, and the reverse. A price of 0 is intended. */
function warnOfScale(source: Source, at: string, price: Price): void {
  const warn = (isOdd: (nanos: NanoUsd, unit: Unit) => boolean, bound: string) => {
    const odd = PRICE_KEYS.filter(
      ([key, unit]) => isToken(unit) && source.has(`${at}/${key}`) && isOdd(rateOf(price, unit), unit),
    ).map(([key]) => key)
    if (odd.length === 0) return
    const message = `${listed(odd, 'and')} ${odd.length === 1 ? 'is' : 'are'} ${bound} for 1M tokens`
    const suggestion = `check the amount and "per": token prices are between $${dollars(LOWEST)} and $${dollars(HIGHEST)} for 1M tokens`
    source.warn(`${at}/per`, message, { rule: 'odd-price', suggestion })
  }
  warn(nanos => nanos > HIGHEST, `more than $${dollars(HIGHEST)}`)
  warn((nanos, unit) => !unit.startsWith('cache') && nanos > 0n && nanos < LOWEST, `less than $${dollars(LOWEST)}`)
}

const dollars = (amount: NanoUsd) => formatMoney(amount).replace(/\.?0+$/, '')

/** Providers bill each search in addition to tokens. For a model that always searches, the price of the request may include it. */
function warnOfSearch(source: Source, at: string, price: Price | null): void {
  if (price === null || price.some(({ unit }) => unit === 'search') || paysFor(price, 'request')) return
  source.warn(at, 'web_search is allowed, but the price has no web_search, so the operator pays for each search', {
    rule: 'odd-price',
    suggestion: 'add web_search under price, or web_search: $0 to confirm this',
  })
}

/** Audio tokens cost several times as much as text tokens. */
function warnOfAudio(source: Source, at: string, price: Price | null): void {
  if (price === null) return
  const missing = (['input_audio', 'output_audio'] as const).filter(unit => !price.some(rule => rule.unit === unit))
  if (missing.length === 0) return
  source.warn(at, `audio is allowed, but the price has no ${listed(missing, 'and')}: audio costs as much as text`, {
    rule: 'odd-price',
    suggestion: 'add them under price, with the price of text to confirm this',
  })
}

/** Without a price the operator intends to pay, so a free model gets no warning. */
function warnOfCost(source: Source, at: string, cost: Price | null, model: Model): void {
  if (cost === null || model.price === null) return
  const below = belowText(model, cost)
  if (below === null) return
  const message = `the cost is above the model's price (${below}), so the operator pays the difference`
  source.warn(at, message, { rule: 'odd-price', suggestion: 'raise the price, or remove this target' })
}

function warnOfPlans({ source, steps }: LoadedPolicy, plans: readonly string[]): void {
  for (const { address, when, mode } of steps) {
    const root = when === null || mode === 'off' ? null : parseWhen(when)
    if (root === null) continue
    const at = `${address}/when`
    for (const { text, offset } of comparedIn(root, ['account.plan'])) {
      if (plans.includes(text)) continue
      const shown = source.substituted(at) ? 'in this condition' : JSON.stringify(text)
      const suggestion = didYouMean(text, plans) ?? `the plans of accounts are ${listed(plans, 'and')}`
      source.warn(at, `no account has the plan ${shown}`, { rule: 'unknown-plan', offset, suggestion })
    }
  }
}
