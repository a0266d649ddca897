/**
 * The request that each target would get in its provider's dialect, or the reason why the target is unsuitable. The scripted
 * providers use the canonical format, so this is computed separately.
 */
import {
  type Chat,
  type EncodedRequest,
  type Exchange,
  isRefusal,
  type Refusal,
  refusalOfMedia,
  type Target,
} from '#contract'
import type { Configuration, Provider } from '../../config/configuration.ts'
import { createDialect } from '../../providers/dialects/index.ts'
import { refusalOfLost } from '../../providers/dialects/lost.ts'

/** A target with the request in its dialect, or a refusal. */
export interface Fit {
  readonly target: Target
  readonly dialect: string
  /** Null if the dialect cannot represent the request. */
  readonly request: EncodedRequest | null
  readonly refusal: Refusal | null
}

/** A difference between the client's body and the provider's. */
export interface Change {
  readonly name: string
  /** Undefined: it was missing. */
  readonly from: unknown
  /** Undefined: it was removed. */
  readonly to: unknown
}

/** The targets in the policy's order. */
export function fitsOf({ providers }: Configuration, exchange: Exchange, now: () => number): readonly Fit[] {
  const { chat, targets = [] } = exchange
  if (!chat) return []
  return targets.map(target => {
    const provider = providers.get(target.provider)!
    const result = encoded(provider, { chat, target, onDropped: exchange.onDropped, now })
    const fits = !isRefusal(result)
    return { target, dialect: provider.dialect, request: fits ? result : null, refusal: fits ? null : result }
  })
}

interface TargetRequest {
  readonly chat: Chat
  readonly target: Target
  readonly onDropped: Exchange['onDropped']
  readonly now: () => number
}

function encoded(provider: Provider, { chat, target, onDropped, now }: TargetRequest): EncodedRequest | Refusal {
  const { dialect, azure, baseUrl, profile } = provider
  // The embedded demo uses the canonical format.
  const name = dialect === 'demo' ? 'openai' : dialect
  const host = URL.parse(baseUrl)?.hostname ?? ''
  const refusal = refusalOfMedia(chat.body, target)
  if (refusal) return refusal
  try {
    const request = createDialect(name, now, text => text, azure, host, profile).dialect.encodeRequest(chat, target)
    return refusalOfLost(chat, request, onDropped) ?? request
  } catch (error) {
    if (isRefusal(error)) return error
    throw error
  }
}

/** The top-level members that differ from the client's body, in the client's order. */
export function changesOf(from: unknown, to: unknown): readonly Change[] {
  const [ours, theirs] = [objectOf(to), objectOf(from)]
  const names = new Set([...Object.keys(theirs), ...Object.keys(ours)])
  return [...names]
    .filter(name => JSON.stringify(theirs[name]) !== JSON.stringify(ours[name]))
    .map(name => ({ name, from: theirs[name], to: ours[name] }))
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}
