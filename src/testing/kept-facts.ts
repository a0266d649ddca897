/** Checks that a step does not change existing facts between its call and its end. */
import { type Chat, type Exchange, FACT_NAMES, type FactName } from '#contract'

export interface FactSnapshot {
  readonly chat: Chat | undefined
  readonly body: Chat['body'] | undefined
  readonly cap: number
  readonly isHeld: boolean
  readonly texts: ReadonlyMap<FactName, string>
}

export function snapshotFacts(exchange: Exchange): FactSnapshot {
  const { chat } = exchange
  const present = FACT_NAMES.filter(name => exchange[name] !== undefined)
  return {
    chat,
    body: chat?.body,
    cap: chat?.cap ?? 0,
    isHeld: exchange.hold !== undefined,
    texts: new Map(present.map(name => [name, textOf(exchange, name)])),
  }
}

/** The invalid changes of a step to the facts, as sentences. Giving facts and `rewrite` are allowed. */
export function factFailures(before: FactSnapshot, exchange: Exchange): string[] {
  const isRewritten = before.chat !== undefined && before.chat.body !== before.body
  const wrong = [...before.texts].flatMap(([name, text]) =>
    (name === 'chat' && isRewritten) || textOf(exchange, name) === text ? [] : [`it changes the fact "${name}"`],
  )
  const { chat } = before
  if (chat && chat.cap > before.cap) wrong.push('it raises chat.cap, which steps may only lower')
  if (chat && isRewritten && before.isHeld) wrong.push('it changes the request for which credit is held')
  if (chat && isRewritten && chat.bytes.toString() !== JSON.stringify(chat.body)) {
    wrong.push('it changes chat.body or chat.bytes directly: use exchange.rewrite()')
  }
  return wrong
}

function textOf(exchange: Exchange, name: FactName): string {
  const fact = exchange[name]
  // The cap is checked separately, and the bytes must match the body.
  const shown = name === 'chat' ? { ...(fact as Chat), cap: 0, bytes: (fact as Chat).bytes.toString('latin1') } : fact
  return JSON.stringify(shown, (_key, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value))
}
