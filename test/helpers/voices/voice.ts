/**
 * A voice writes as the providers of one dialect do: good answers, whole and as events, errors of each kind,
 * and their broken answers. The faults define what goes wrong, the voices how it looks on the wire.
 */
import type { ProviderRequest } from '../fake-provider.ts'

/** The usage that the provider reports: JSON texts for the counts, a text for the whole object, or nothing. */
export type UsageText = { readonly prompt: string; readonly completion: string | null } | string | null

/** The answer of a provider; default: three tokens, 10 prompt tokens, a proper finish and end. */
export interface Say {
  /** The content, a token an element. */
  readonly tokens?: readonly string[]
  /** Names of tools that are called without arguments, in place of content: two tokens each. */
  readonly calls?: readonly string[]
  readonly usage?: UsageText
  /** False: the answer has no finish reason. */
  readonly finish?: false
  /** False: the stream lacks the provider's end marker. */
  readonly end?: false
  /** Transforms each JSON text before it is framed. */
  readonly spoil?: (json: string) => string | Buffer
}

/** One event of a stream as it is on the wire, and its purpose. */
export interface StreamPart {
  readonly bytes: Buffer
  readonly kind: 'open' | 'token' | 'finish' | 'end'
}

/** The body of an error answer, and the headers that come with it. */
export interface SaidError {
  readonly body: object
  readonly headers: Readonly<Record<string, string>>
}

export interface Voice {
  /** The dialect's name in the configuration. */
  readonly dialect: string
  readonly framing: 'sse' | 'lines' | 'frames'
  /** The content types of a whole answer and of a stream. */
  readonly types: { readonly whole: string; readonly stream: string }
  /** The usage sent before the answer ends: nothing, the prompt's tokens, or all so far. */
  readonly early: 'nothing' | 'prompt' | 'all'
  /** Whether a stream has a last event that says so, behind the reason for its end. */
  readonly ends: boolean
  /** The member that holds the usage. */
  readonly usageName: string
  /** The cap of a request, under the provider's own name for it; null without one. */
  capOf(request: ProviderRequest): number | null
  whole(say: Say, request: ProviderRequest): Buffer
  stream(say: Say, request: ProviderRequest): readonly StreamPart[]
  /** The usage object as JSON text. */
  usage(prompt: string, completion: string | null): string
  /** An event that says usage and little else. */
  usageEvent(prompt: string, completion: string): Buffer
  error(status: number, message?: string): SaidError
  /** An error in a 200, where it says more than an error does that has a status. */
  inside?(status: number, message?: string): object
  /** An error in the place of an event. */
  errorEvent(status: number, message?: string): Buffer
  /** The same in the other form that it may have. */
  namedErrorEvent(status: number): Buffer
  /** An event whose content is not JSON. */
  badEvent(): Buffer
  /** How an event begins that never ends. */
  readonly endless: Buffer
  /** The answer with two reasons for its end. */
  twoFinishes(mode: 'whole' | 'stream', request: ProviderRequest): Buffer
  /** Gives the tool calls (or whatever else is numbered) other indexes. */
  reindex(json: string, indexes: readonly number[]): string
}

/** The words of a 400 about a prompt that does not fit. */
export const TOO_LONG = 'prompt is too long: 9000 tokens > 8192 maximum context length'

/** The words of a 404 about a model. */
export const NO_MODEL = "model 'claude-upstream-model' not found at https://user:hunter2@provider.internal/v1"

/** An error text that contains the provider's secrets, which no client may read. */
export function leakyMessage(status: number): string {
  return `status ${status} at https://user:hunter2@provider.internal/v1, key sk-provider-canary-0123456789abcdef`
}

export const TOKENS: readonly string[] = ['t0', ' t1', ' t2']

/** How many tokens an answer has. */
export function countOf({ tokens, calls }: Say): number {
  return calls ? 2 * calls.length : (tokens ?? TOKENS).length
}

/** A member whose value is this JSON text, however wrong it is as JSON; to be written by `jsonOf`. */
export function raw(json: string): string {
  return `@@${json}@@`
}

/** The JSON of a value with `raw` members. */
export function jsonOf(value: unknown, { spoil }: Say = {}): Buffer {
  const text = JSON.stringify(value).replace(/"@@((?:[^"\\]|\\.)*?)@@"/g, (_all, inner) => JSON.parse(`"${inner}"`))
  return Buffer.from((spoil ? spoil(text) : text) as string)
}

/** The member for the usage; none when it is to be absent. */
export function usageMember({ usageName, usage }: Pick<Voice, 'usageName' | 'usage'>, say: Say, completion?: number) {
  const said = say.usage === undefined ? { prompt: '10', completion: String(completion ?? countOf(say)) } : say.usage
  if (said === null) return {}
  return { [usageName]: raw(typeof said === 'string' ? said : usage(said.prompt, said.completion)) }
}

/** A server-sent event. */
export function sseEvent(json: Buffer | string, event?: string): Buffer {
  return Buffer.concat([
    Buffer.from(`${event === undefined ? '' : `event: ${event}\n`}data: `),
    Buffer.from(json as string),
    Buffer.from('\n\n'),
  ])
}

/** The number at each place of the pattern's last group is replaced, one after the other. */
export function renumber(json: string, pattern: RegExp, indexes: readonly number[]): string {
  return json.replace(pattern, (_all, start: string, at: string) => start + String(indexes[Number(at)] ?? at))
}
