/**
 * What is probably not meant, in a configuration that works: money given away, a provider of another kind, conditions and
 * limits that change nothing. Told by `tollgate check` alone.
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
import { isWellKnown, spokenInstead } from './base-urls.ts'
import { parseWhen } from './conditions/when.ts'
import type { Configuration, Provider } from './configuration.ts'
import { warnOfDeclared } from './plan-warnings.ts'
import { warnOfLimits } from './policy/limit-warnings.ts'
import type { LoadedPolicy } from './policy/loaded-policy.ts'
import { comparedIn } from './policy/when-models.ts'
import { belowText, warnOfLists } from './price-warnings.ts'
import { PRICE_KEYS } from './prices.ts'
import { SECRET_HEADER } from './providers.ts'
import type { PlannedRoute } from './routes.ts'
import { didYouMean, listed } from './yaml/problem.ts'
import { pointer, type Source } from './yaml/source.ts'

export interface WarnOptions {
  /** The plans that accounts of a store have; null when nobody knows. */
  plansOf?(store: string): readonly string[] | null
}

interface Loaded {
  /** gateway.yaml. */
  readonly source: Source
  readonly configuration: Configuration
  readonly routes: readonly PlannedRoute[]
  readonly policies: readonly LoadedPolicy[]
  /** Loaded for warnings in any case. */
  readonly catalog: PriceCatalog | null
  readonly today: Date
}

/** Leaves the warnings at the sources of the files. */
export function warnAbout(
  { source, configuration, routes, policies, catalog, today }: Loaded,
  { plansOf }: WarnOptions,
): void {
  const { providers, models, limits, store, telemetry } = configuration
  for (const provider of providers.values()) warnOfHost(source, provider)
  warnOfLists(source, configuration, catalog, today)
  for (const model of models.values()) {
    const { id, price, allow, targets, wildcard } = model
    if (wildcard !== undefined) continue
    const at = pointer('models', id)
    warnOfPrice(source, `${at}/price`, price)
    if (allow.includes('web_search')) warnOfSearch(source, `${at}/allow`, price)
    if (allow.includes('audio')) warnOfSound(source, `${at}/allow`, price)
    for (const [index, { provider, capField, cost }] of targets.entries()) {
      warnOfCap(source, `${at}/targets/${index}/cap_field`, capField, providers.get(provider)!)
      warnOfPrice(source, `${at}/targets/${index}/cost`, cost)
      warnOfCost(source, `${at}/targets/${index}/cost`, cost, model)
    }
  }
  for (const { address, price } of routes) if (address !== null) warnOfPrice(source, `${address}/price`, price)
  const plans = plansOf?.(store) ?? null
  warnOfDeclared(source, { declared: configuration.plans, used: plans, routes, policies })
  for (const policy of policies) {
    if (plans !== null && configuration.plans === null) warnOfPlans(policy, plans)
    warnOfLimits(policy, limits.maxInflight)
    if (policy.config!.tracesContent) warnOfContent(policy, telemetry !== null, routes)
  }
}

/** Words of prompts and answers that are asked for, and that nobody will ever see. */
function warnOfContent({ name, source }: LoadedPolicy, isExported: boolean, routes: readonly PlannedRoute[]): void {
  const tell = (why: string, suggestion: string) =>
    source.warn('/telemetry/content', `no content is traced: ${why}`, { rule: 'no-effect', suggestion })
  if (!isExported) tell('gateway.yaml has no telemetry', 'add telemetry with its endpoint there, or take this away')
  else if (!routes.some(({ policy, kind }) => policy === name && asksModel(kind)))
    tell('no route of this policy asks a model of the catalog', 'take this away')
}

/** The demo provider has no host. */
function warnOfHost(source: Source, provider: Provider): void {
  const { name, dialect, baseUrl } = provider
  if (baseUrl === '') return
  const at = pointer('providers', name)
  const host = new URL(baseUrl)
  if (isWellKnown(host)) warnOfNobody(source, at, provider)
  const spoken = spokenInstead(dialect, host)
  if (spoken !== null) {
    const message = `this host is not known to speak ${dialect}`
    const suggestion = `it speaks ${listed(spoken, 'and')}`
    source.warn(`${at}/dialect`, message, { rule: 'other-dialect', suggestion })
  }
  // Everybody has a host of their own for Ollama, which always says why it stopped.
  if (isWellKnown(host) || dialect === 'ollama' || source.has(`${at}/missing_finish`)) return
  source.warn(`${at}/base_url`, 'an answer of this provider without a finish reason is an error', {
    rule: 'missing-finish',
    level: 'note',
    suggestion: 'write missing_finish: stop if its server gives no finish reasons, or error to keep it so',
  })
}

/** Providers that sell tokens answer nobody without a key; servers of one's own may have none. */
function warnOfNobody(source: Source, at: string, { dialect, credentials, headers }: Provider): void {
  if (credentials.length > 0 || Object.keys(headers).some(name => SECRET_HEADER.test(name))) return
  const key = CREDENTIAL_OF[dialect] ?? 'api_key: ${NAME}, with the name of an environment variable'
  source.warn(at, 'this host refuses requests without a credential, and this provider has none', {
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

/** Dialects and profiles that know the output cap as `max_tokens` only; a test compares them with the profiles. */
export const OLDER_CAPS: ReadonlySet<string> = new Set(['mistral', 'deepseek', 'perplexity', 'together', 'zai'])

/** Some pass over a name that they do not know, and the answer then has no cap. */
function warnOfCap(source: Source, at: string, name: Target['capField'], { dialect, profile }: Provider): void {
  const who = profile ?? dialect
  if (name !== 'max_completion_tokens' || !OLDER_CAPS.has(who)) return
  source.warn(at, `${who} takes the output cap as max_tokens, and may not know it as max_completion_tokens`, {
    rule: 'no-effect',
    suggestion: 'remove this line',
  })
}

/** What is read from a cache is cheaper than what is not, at every provider. */
function warnOfPrice(source: Source, at: string, price: Price | null): void {
  if (price === null) return
  warnOfScale(source, at, price)
  warnOfTiers(source, at, price)
  if (rateOf(price, 'cached_input') <= rateOf(price, 'input')) return
  source.warn(`${at}/cached_input`, 'cached_input is dearer than input', {
    rule: 'odd-price',
    suggestion: 'providers ask less for what they have cached',
  })
}

/** A tier's price counts for prompts of any length, unless the tier has steps of its own. */
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
        suggestion: 'give the tier steps of its own (above), or its price counts for long prompts too',
      },
    )
  }
}

/**
 * Nano-dollars for a million tokens. In list prices of 2026 the dearest token is $600 a million (the answers of o1-pro), and
 * the cheapest ones, of small models and embeddings, about $0.005. Cached input is cheaper still, and is not looked at.
 */
const DEAREST: NanoUsd = 1_000n * 1_000_000_000n
const CHEAPEST: NanoUsd = 5_000_000n

/** Amounts for 1K tokens under `per: 1M tokens`, or the reverse. Nothing is not cheap but free. */
function warnOfScale(source: Source, at: string, price: Price): void {
  const tell = (isOdd: (nanos: NanoUsd, unit: Unit) => boolean, what: string) => {
    const odd = PRICE_KEYS.filter(
      ([key, unit]) => isToken(unit) && source.has(`${at}/${key}`) && isOdd(rateOf(price, unit), unit),
    ).map(([key]) => key)
    if (odd.length === 0) return
    const message = `${listed(odd, 'and')} ${odd.length === 1 ? 'is' : 'are'} ${what} for 1M tokens`
    const suggestion = `check the amount and "per": token prices are between $${dollars(CHEAPEST)} and $${dollars(DEAREST)} for 1M tokens`
    source.warn(`${at}/per`, message, { rule: 'odd-price', suggestion })
  }
  tell(nanos => nanos > DEAREST, `more than $${dollars(DEAREST)}`)
  tell((nanos, unit) => !unit.startsWith('cache') && nanos > 0n && nanos < CHEAPEST, `less than $${dollars(CHEAPEST)}`)
}

const dollars = (amount: NanoUsd) => formatMoney(amount).replace(/\.?0+$/, '')

/** Providers bill each search beside its tokens; where a model always searches, the price of the request may pay for it. */
function warnOfSearch(source: Source, at: string, price: Price | null): void {
  if (price === null || price.some(({ unit }) => unit === 'search') || paysFor(price, 'request')) return
  source.warn(at, 'web_search is allowed, but the price has no web_search, so the operator pays for each search', {
    rule: 'odd-price',
    suggestion: 'write what a search costs under price, or web_search: $0 to keep it so',
  })
}

/** Tokens of sound cost several times those of text. */
function warnOfSound(source: Source, at: string, price: Price | null): void {
  if (price === null) return
  const missing = (['input_audio', 'output_audio'] as const).filter(unit => !price.some(rule => rule.unit === unit))
  if (missing.length === 0) return
  source.warn(at, `audio is allowed, but the price has no ${listed(missing, 'and')}: sound costs what text costs`, {
    rule: 'odd-price',
    suggestion: 'write what sound costs under price, or the price of text to keep it so',
  })
}

/** A model that is free is meant to cost the operator. */
function warnOfCost(source: Source, at: string, cost: Price | null, model: Model): void {
  if (cost === null || model.price === null) return
  const below = belowText(model, cost)
  if (below === null) return
  const message = `the cost is above the model's price (${below}), so the operator pays a part of such answers`
  source.warn(at, message, { rule: 'odd-price', suggestion: 'raise the price, or remove this target' })
}

function warnOfPlans({ source, steps }: LoadedPolicy, plans: readonly string[]): void {
  for (const { address, when, mode } of steps) {
    const root = when === null || mode === 'off' ? null : parseWhen(when)
    if (root === null) continue
    const at = `${address}/when`
    for (const { text, offset } of comparedIn(root, ['account.plan'])) {
      if (plans.includes(text)) continue
      const shown = source.substituted(at) ? 'that this condition names' : JSON.stringify(text)
      const suggestion = didYouMean(text, plans) ?? `the plans of accounts are ${listed(plans, 'and')}`
      source.warn(at, `no account has the plan ${shown}`, { rule: 'unknown-plan', offset, suggestion })
    }
  }
}
