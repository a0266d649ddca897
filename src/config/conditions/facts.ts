/**
 * The facts of an exchange for conditions. All declared fields exist: a missing text is "", a missing number 0. Integers are
 * `bigint`, which is CEL's int.
 */
import { type Account, type Chat, type Exchange, headerText, type Key, type Model } from '#contract'

/** The context of an evaluation: a Koa context is one. */
export interface WhenContext {
  readonly method: string
  readonly path: string
  /** Returns a request header, or an empty string. */
  get(header: string): string
  readonly exchange: Pick<Exchange, 'address' | 'key' | 'account' | 'chat' | 'model' | 'tags'>
}

/** The names that a condition can use, with the type of each field. The policy declares the fields of `tags`. */
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
 * The argument of `CompiledWhen.evaluate`. It is one small object; a fact is read and wrapped only if the condition names it.
 * Build it only for steps with a `when`, and for each evaluation: facts change as steps run.
 */
export function whenFacts(context: WhenContext): Record<string, unknown> {
  return new WhenFacts(context) as unknown as Record<string, unknown>
}

/** The same for an exchange with its context. */
export function factsOf(
  exchange: WhenContext['exchange'] & { readonly ctx: Omit<WhenContext, 'exchange'> },
): Record<string, unknown> {
  const { ctx } = exchange
  return whenFacts({ method: ctx.method, path: ctx.path, get: name => ctx.get(name), exchange })
}

export class WhenFacts {
  readonly #context: WhenContext
  constructor(context: WhenContext) {
    this.#context = context
  }
  /** For the function `header()`; not a variable of the condition. */
  readHeader(name: string): string {
    const value = String(this.#context.get(name) ?? '')
    // Bytes that are not UTF-8 stay in Node's encoding: a condition cannot report them.
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

/** The wrappers are the types of the CEL environment; their getters implement WHEN_FIELDS. */
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

/** A map, because CEL reads it by `get` and its fields differ between policies. */
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

/** The class of each name. The checker identifies a value's type by its class. */
export const WHEN_TYPES = {
  request: RequestFacts,
  key: KeyFacts,
  account: AccountFacts,
  chat: ChatFacts,
  model: ModelFacts,
  tags: TagsFacts,
} as const
