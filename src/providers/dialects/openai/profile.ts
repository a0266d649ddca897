/** The type of a profile; the profiles are in quirks.ts. */
import type { Fit } from './fits.ts'

/** The differences of a provider from OpenAI. In these comments, "it" is the provider. */
export interface Quirks {
  /** Its name for the output cap, unless the target sets one. Default: `max_completion_tokens`. */
  readonly capField?: 'max_tokens' | 'max_completion_tokens'
  /** False: it has no `stream_options`; it always reports usage, or never. */
  readonly streamOptions?: false
  /** Parameters with other names. */
  readonly renamed?: Readonly<Record<string, string>>
  /** Values with other names, by parameter. */
  readonly words?: Readonly<Record<string, Readonly<Record<string, string>>>>
  /** Adjustments of values, by parameter. */
  readonly fits?: Readonly<Record<string, Fit>>
  /** The only parameters that it supports, by their names there. */
  readonly takes?: ReadonlySet<string>
  /** Parameters that it refuses, which are left out. */
  readonly omits?: ReadonlySet<string>
  /** Parameters that change the answer, so the gateway refuses them. */
  readonly refuses?: readonly RefusedMembers[]
  /** The first row that matches the model counts. */
  readonly efforts?: readonly (readonly [model: RegExp, efforts: Efforts])[]
  /** The models that cannot be forced to call a tool while they reason, and the members that switch reasoning off. */
  readonly forcing?: { readonly models: RegExp; readonly with: Members }
  /** The values of `response_format` that it supports. */
  readonly shapes?: ReadonlySet<'json_object' | 'json_schema'>
  /**
   * Conversions of the tool choice, with arguments for each tool. `plain`: `allowed_tools` becomes a shorter list of tools. `words`: a
   * named tool too. `auto`: a choice is not possible, so `none` becomes an empty list, and a forced call is refused.
   */
  readonly tools?: 'plain' | 'words' | 'auto'
  /** `functions`: it has no custom tools, so each is sent as a function. */
  readonly customTools?: 'functions'
  /** Only `omits`, and the gateway's own fields in a conversation (`messages.extensions`), differ. */
  readonly isPlain?: true
  /** `kept`: it supports `cache_control` in parts and tools. For all others it is removed. */
  readonly cacheMarks?: 'kept'
  readonly messages?: MessageQuirks
}

export type Members = Readonly<Record<string, unknown>>

/** Another value for a reasoning effort, or members instead of it. A missing effort stays unchanged. Null: it is left out. */
export type Efforts = Readonly<Record<string, string | Members | null>>

/** A parameter that is refused instead of left out. */
export interface RefusedMembers {
  readonly name: string
  /** Only a list that contains this word. */
  readonly having?: string
  /** Only a number above this one. */
  readonly above?: number
  readonly sentence: string
}

/** How messages must be adapted. */
export interface MessageQuirks {
  /** Roles with other names. */
  readonly roles?: Readonly<Record<string, string>>
  /** The only fields of a message, by its role there. */
  readonly takes?: Readonly<Record<string, ReadonlySet<string>>>
  /** The only fields of a call in a message. */
  readonly callTakes?: ReadonlySet<string>
  /** Fields that are removed from every message. */
  readonly omits?: ReadonlySet<string>
  /** Fields of assistant messages with other names. */
  readonly renamed?: Readonly<Record<string, string>>
  /** `omitted`: the gateway's additions to other providers' answers, which clients send back (extensions.ts), are removed. */
  readonly extensions?: 'omitted'
  /** `refused`: it does not support the older `function_call` and the role `function`. */
  readonly functions?: 'refused'
  /** `content`: a refusal of the assistant becomes its content. */
  readonly refusals?: 'content'
  /** The types of parts, by the role there; other roles have text only. */
  readonly parts?: Readonly<Record<string, ReadonlySet<string>>>
  /** The supported audio formats; default: all. */
  readonly sounds?: ReadonlySet<string>
  /** Roles whose content is one text instead of parts. */
  readonly joined?: ReadonlySet<string>
  /** `strict`: a required order (message-order.ts). `alternating`: user and assistant alternate (alternation.ts). */
  readonly order?: 'strict' | 'alternating'
  /** The models that require reasoning, if only an empty one, in turns with calls, and refuse it in other turns. */
  readonly thoughts?: RegExp
  /** `document_url`: a file becomes a part of this type, with its URL or its data. `data`: it does not fetch URLs. */
  readonly files?: 'document_url' | 'data'
  /** `nine`: ids of calls have nine letters and digits. */
  readonly callIds?: 'nine'
}
