/**
 * What each target of a request would be sent, by the dialect that its provider speaks, or why it cannot be asked. The
 * scripted providers all speak the canonical format, so it is worked out beside them.
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

/** A target of the request, and what its dialect makes of it. */
export interface Fit {
  readonly target: Target
  readonly dialect: string
  /** Null where the dialect cannot say what was asked. */
  readonly request: EncodedRequest | null
  readonly refusal: Refusal | null
}

/** A member of the body that differs between what the client has sent and what the provider gets. */
export interface Change {
  readonly name: string
  /** Undefined: it was not there. */
  readonly from: unknown
  /** Undefined: it is left out. */
  readonly to: unknown
}

/** Each target in the order in which the policy wants them asked. */
export function fitsOf({ providers }: Configuration, exchange: Exchange, now: () => number): readonly Fit[] {
  const { chat, targets = [] } = exchange
  if (!chat) return []
  return targets.map(target => {
    const provider = providers.get(target.provider)!
    const found = encoded(provider, { chat, target, onDropped: exchange.onDropped, now })
    const fits = !isRefusal(found)
    return { target, dialect: provider.dialect, request: fits ? found : null, refusal: fits ? null : found }
  })
}

interface Wanted {
  readonly chat: Chat
  readonly target: Target
  readonly onDropped: Exchange['onDropped']
  readonly now: () => number
}

function encoded(provider: Provider, { chat, target, onDropped, now }: Wanted): EncodedRequest | Refusal {
  const { dialect, azure, baseUrl, profile } = provider
  // The embedded demo speaks the canonical format.
  const name = dialect === 'demo' ? 'openai' : dialect
  const host = URL.parse(baseUrl)?.hostname ?? ''
  const unread = refusalOfMedia(chat.body, target)
  if (unread) return unread
  try {
    const request = createDialect(name, now, text => text, azure, host, profile).dialect.encodeRequest(chat, target)
    return refusalOfLost(chat, request, onDropped) ?? request
  } catch (error) {
    if (isRefusal(error)) return error
    throw error
  }
}

/** The outermost members that are not what the client has sent, in the order in which they stand there. */
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
