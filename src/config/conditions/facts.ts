/**
 * What a condition can name: the facts of an exchange as CEL sees them. Every declared field is always there: a text
 * that is missing is "", a number 0. Whole numbers are `bigint`, because that is CEL's int.
 */
import { type Account, type Chat, type Exchange, headerText, type Key, type Model } from '#contract'

/** What a condition is evaluated on: a Koa context is one. */
export interface WhenContext {
  readonly method: string
  readonly path: string
  /** The request header of that name, or an empty string. */
  get(header: string): string
  readonly exchange: Pick<Exchange, 'address' | 'key' | 'account' | 'chat' | 'model' | 'tags'>
}

/** The names that a condition can use, with the type of each field. The fields of `tags` are the names that the policy declares. */
export const WHEN_FIELDS = {
  request: { method: 'string', path: 'string', address: 'string' },
  key: { id: 'string', name: 'string' },
  account: { id: 'string', name: 'string', plan: 'string' },
  chat: {
    model: 'string',
    stream: 'bool',
    choices: 'int',
    cap: 'int',
    messages: 'int',
    tools: 'int',
    reasoning_effort: 'string',
  },
  model: { id: 'string', reasoning: 'bool', context: 'int', max_output: 'int', priced: 'bool' },
  tags: {},
} as const

export type WhenName = keyof typeof WHEN_FIELDS
export const WHEN_NAMES = Object.keys(WHEN_FIELDS) as WhenName[]

/**
 * The argument of `CompiledWhen.evaluate`. It costs one small object; a fact is only looked at, and wrapped, when the
 * condition names it. Build it for steps that have a `when`, and for one evaluation: facts change as steps run.
 */
export function whenFacts(context: WhenContext): Record<string, unknown> {
  return new WhenFacts(context) as unknown as Record<string, unknown>
}

/** The same of an exchange with its context. */
export function factsOf(
  exchange: WhenContext['exchange'] & { readonly ctx: Omit<WhenContext, 'exchange'> },
): Record<string, unknown> {
  const { ctx } = exchange
  return whenFacts({ method: ctx.method, path: ctx.path, get: name => ctx.get(name), exchange })
}

/** All of it; the getters make a wrapper only when the condition names the fact. */
export class WhenFacts {
  readonly #context: WhenContext
  constructor(context: WhenContext) {
    this.#context = context
  }
  /** Not a variable of the condition: the function `header()` asks it. */
  readHeader(name: string): string {
    const value = String(this.#context.get(name) ?? '')
    // Other bytes than UTF-8 stay as Node.js has them: a condition has no error for them.
    return headerText(value) ?? value
  }
  get request(): RequestFacts {
    return new RequestFacts(this.#context)
  }
  get key(): KeyFacts {
    return new KeyFacts(this.#context.exchange.key!)
  }
  get account(): AccountFacts {
    return new AccountFacts(this.#context.exchange.account!)
  }
  get chat(): ChatFacts {
    return new ChatFacts(this.#context.exchange.chat!)
  }
  get model(): ModelFacts {
    return new ModelFacts(this.#context.exchange.model!)
  }
  get tags(): TagsFacts {
    return new TagsFacts(this.#context.exchange.tags!)
  }
}

/** The wrappers are the types of the CEL environment: their getters give what WHEN_FIELDS declares. */
class RequestFacts {
  readonly #from: WhenContext
  constructor(from: WhenContext) {
    this.#from = from
  }
  get method(): string {
    return this.#from.method
  }
  get path(): string {
    return this.#from.path
  }
  get address(): string {
    return this.#from.exchange.address
  }
}

class KeyFacts {
  readonly #from: Key
  constructor(from: Key) {
    this.#from = from
  }
  get id(): string {
    return this.#from.id
  }
  get name(): string {
    return this.#from.name
  }
}

class AccountFacts {
  readonly #from: Account
  constructor(from: Account) {
    this.#from = from
  }
  get id(): string {
    return this.#from.id
  }
  get name(): string {
    return this.#from.name
  }
  get plan(): string {
    return this.#from.plan
  }
}

class ChatFacts {
  readonly #from: Chat
  constructor(from: Chat) {
    this.#from = from
  }
  get model(): string {
    return this.#from.body.model
  }
  get stream(): boolean {
    return this.#from.stream
  }
  get choices(): bigint {
    return BigInt(this.#from.choices)
  }
  get cap(): bigint {
    return BigInt(this.#from.cap)
  }
  get messages(): bigint {
    return BigInt(this.#from.body.messages.length)
  }
  get tools(): bigint {
    return BigInt(this.#from.body.tools?.length ?? 0)
  }
  get reasoning_effort(): string {
    return this.#from.body.reasoning_effort ?? ''
  }
}

class ModelFacts {
  readonly #from: Model
  constructor(from: Model) {
    this.#from = from
  }
  get id(): string {
    return this.#from.id
  }
  get reasoning(): boolean {
    return this.#from.reasoning
  }
  get context(): bigint {
    return BigInt(this.#from.context)
  }
  get max_output(): bigint {
    return BigInt(this.#from.maxOutput)
  }
  get priced(): boolean {
    return this.#from.price !== null
  }
}

/** A map, because CEL reads one by `get`: its fields differ from policy to policy. */
class TagsFacts extends Map<string, string> {
  readonly #from: NonNullable<Exchange['tags']>
  constructor(from: NonNullable<Exchange['tags']>) {
    super()
    this.#from = from
  }
  override get(name: string): string {
    return this.#from[name] ?? ''
  }
}

/** The classes behind the names; the checker knows a value's type by its class. */
export const WHEN_TYPES = {
  request: RequestFacts,
  key: KeyFacts,
  account: AccountFacts,
  chat: ChatFacts,
  model: ModelFacts,
  tags: TagsFacts,
} as const
