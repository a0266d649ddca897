/** Whether a step leaves the facts of others alone: what they were when it was asked, and what they are when it goes on. */
import { type Chat, type Exchange, FACT_NAMES, type FactName } from '#contract'

/** The facts at one moment. */
export interface FactsSeen {
  readonly chat: Chat | undefined
  readonly body: Chat['body'] | undefined
  readonly cap: number
  readonly isHeld: boolean
  readonly texts: ReadonlyMap<FactName, string>
}

export function seeFacts(exchange: Exchange): FactsSeen {
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

/** What a step has done to the facts since, in words; giving is no mistake, nor is what `rewrite` does. */
export function factsWrong(before: FactsSeen, exchange: Exchange): string[] {
  const isRewritten = before.chat !== undefined && before.chat.body !== before.body
  const wrong = [...before.texts].flatMap(([name, text]) =>
    (name === 'chat' && isRewritten) || textOf(exchange, name) === text ? [] : [`it changes the fact "${name}"`],
  )
  const { chat } = before
  if (chat && chat.cap > before.cap) wrong.push('it raises chat.cap, which steps may only lower')
  if (chat && isRewritten && before.isHeld) wrong.push('it changes the request for which credit is held')
  if (chat && isRewritten && chat.bytes.toString() !== JSON.stringify(chat.body)) {
    wrong.push('it changes chat.body or chat.bytes by itself: that is what exchange.rewrite() is for')
  }
  return wrong
}

function textOf(exchange: Exchange, name: FactName): string {
  const fact = exchange[name]
  // The cap has rules of its own, and bytes say what the body says.
  const shown = name === 'chat' ? { ...(fact as Chat), cap: 0, bytes: (fact as Chat).bytes.toString('latin1') } : fact
  return JSON.stringify(shown, (_key, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value))
}
