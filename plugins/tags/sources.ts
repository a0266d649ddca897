/** The sources of a tag: parses them in the settings, and reads their values in a request. */
import { asksModel, type Exchange, type FactName, headerText } from '#contract'

/** A parsed source. */
export interface Source {
  /** Its text in the settings. */
  readonly text: string
  readonly kind: 'claim' | 'key' | 'account' | 'header' | 'metadata'
  /** The name of the claim, of the header in lower case, or of the member of `metadata`. */
  readonly name: string
}

/** The pattern of a source in settings. */
export const SOURCE_PATTERN =
  "^(?:key|account|claim \\S{1,200}|header [A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}|metadata\\.[A-Za-z0-9_-]{1,64})$"

/** Headers with a key, a token or a cookie. They cannot be sources, because tags are on receipts and in logs. */
const SECRET = /authoriz|cookie|token|secret|passw|api-?key|credential|signature|jwt|oidc|assertion/i

/** @param text fits `SOURCE_PATTERN` */
export function sourceOf(text: string): Source {
  const [, kind, name] = /^(claim|header|metadata)[ .](.*)$/.exec(text) ?? []
  if (kind === undefined) return { text, kind: text as 'key' | 'account', name: '' }
  return { text, kind: kind as Source['kind'], name: kind === 'header' ? name!.toLowerCase() : name! }
}

/** Whether clients set it. */
export const isOfClient = ({ kind }: Source): boolean => kind === 'header' || kind === 'metadata'

/** Whether it is a header with a secret. */
export const isSecret = ({ kind, name }: Source): boolean => kind === 'header' && SECRET.test(name)

/** The fact that an earlier step must give; null: none. */
export function factOf({ kind }: Source): FactName | null {
  if (kind === 'claim') return 'claims'
  return kind === 'key' || kind === 'account' ? kind : null
}

/** The part of Koa's context that sources need. */
export interface TaggedContext {
  readonly exchange: Exchange
  readonly req: { readonly rawHeaders: readonly string[] }
  get(header: string): string
}

/** A header without one text. */
export class BadHeader {
  /** For the refusal: `is sent twice`. */
  readonly mistake: string
  constructor(mistake: string) {
    this.mistake = mistake
  }
}

/** The value in the request; undefined, null or an empty text: none. */
export function valueIn(ctx: TaggedContext, { kind, name }: Source): unknown {
  const { exchange } = ctx
  switch (kind) {
    case 'claim':
      return own(exchange.claims, name)
    case 'key':
      return exchange.key!.name
    case 'account':
      return exchange.account!.name
    case 'header':
      return headerIn(ctx, name)
    case 'metadata':
      // Other routes have no body, or one in the format of a provider.
      return asksModel(exchange.route.kind) ? own(own(exchange.json(), 'metadata'), name) : undefined
  }
}

/** For a header sent twice, Node.js joins the values of most names and keeps the first of others. */
function headerIn(ctx: TaggedContext, name: string): string | BadHeader {
  const value = ctx.get(name)
  if (value === '') return value
  const { rawHeaders } = ctx.req
  let times = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const sent = rawHeaders[i]!
    if (sent.length === name.length && sent.toLowerCase() === name) times++
  }
  if (times > 1) return new BadHeader('is sent more than once')
  return headerText(value) ?? new BadHeader('is not UTF-8')
}

function own(object: unknown, name: string): unknown {
  const isObject = typeof object === 'object' && object !== null
  return isObject && Object.hasOwn(object, name) ? (object as Record<string, unknown>)[name] : undefined
}
