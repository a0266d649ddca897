/** The form of a profile; quirks.ts has the profiles. */
import type { Fit } from './fits.ts'

export interface Quirks {
  /** Its name for the output cap, where the target says none. Left out: `max_completion_tokens`. */
  readonly capField?: 'max_tokens' | 'max_completion_tokens'
  /** False: it has no `stream_options`; it reports usage unasked, or not at all. */
  readonly streamOptions?: false
  /** Parameters that it calls something else. */
  readonly renamed?: Readonly<Record<string, string>>
  /** Words that it has other words for, by the parameter. */
  readonly words?: Readonly<Record<string, Readonly<Record<string, string>>>>
  /** Other values, by the parameter. */
  readonly fits?: Readonly<Record<string, Fit>>
  /** The only parameters that it takes, by their names there. */
  readonly takes?: ReadonlySet<string>
  /** Parameters for which it refuses the whole request. */
  readonly leaves?: ReadonlySet<string>
  /** Parameters without which the answer would be another one than was asked for: the gateway refuses. */
  readonly refuses?: readonly Refused[]
  /** Of the rows the first that fits the model. */
  readonly efforts?: readonly (readonly [model: RegExp, efforts: Efforts])[]
  /** The models that cannot be made to call a tool while they think, and what switches that off. */
  readonly forcing?: { readonly models: RegExp; readonly with: Members }
  /** The forms of `response_format` that it takes. */
  readonly shapes?: ReadonlySet<'json_object' | 'json_schema'>
  /**
   * Wishes about tools in other words, and arguments for each tool. `plain`: `allowed_tools` is a shorter list of tools. `words`:
   * a named tool too. `auto`: without a choice, so none is an empty list, and a call cannot be demanded.
   */
  readonly tools?: 'plain' | 'words' | 'auto'
  /** `functions`: it has no custom tools, so each is a function towards it. */
  readonly customTools?: 'functions'
  /** Nothing differs but `leaves`, and what a conversation may have of the gateway's own (`messages.extensions`). */
  readonly isPlain?: true
  /** `kept`: it takes `cache_control` in parts and tools, which all others are not sent. */
  readonly cacheMarks?: 'kept'
  readonly messages?: MessageQuirks
}

/** Members of a request's body. */
export type Members = Readonly<Record<string, unknown>>

/** Another word for an effort of thinking, or members in its place. A word that is not here stays. Null: nothing says it. */
export type Efforts = Readonly<Record<string, string | Members | null>>

/** A parameter that cannot be left out. */
export interface Refused {
  readonly name: string
  /** Only a list with this word in it. */
  readonly having?: string
  /** Only a number above this one. */
  readonly above?: number
  readonly sentence: string
}

/** How the turns of a conversation differ. */
export interface MessageQuirks {
  /** Roles that it has other roles for. */
  readonly roles?: Readonly<Record<string, string>>
  /** The only fields that a message may have, by its role there. */
  readonly takes?: Readonly<Record<string, ReadonlySet<string>>>
  /** The only fields that a call in a message may have. */
  readonly callTakes?: ReadonlySet<string>
  /** Fields that no message may have. */
  readonly leaves?: ReadonlySet<string>
  /** Fields of the assistant's messages that it calls something else. */
  readonly renamed?: Readonly<Record<string, string>>
  /** `left`: what the gateway adds to answers of others, and clients send back (extensions.ts), is left out. */
  readonly extensions?: 'left'
  /** `refused`: it does not know the older `function_call` and the role `function`. */
  readonly functions?: 'refused'
  /** `content`: a refusal of the assistant is what it has said. */
  readonly refusals?: 'content'
  /** The types of parts, by the role there; roles that are not here have texts only. */
  readonly parts?: Readonly<Record<string, ReadonlySet<string>>>
  /** The formats of sounds, where it does not take all. */
  readonly sounds?: ReadonlySet<string>
  /** Roles whose content is one text, never parts. */
  readonly joined?: ReadonlySet<string>
  /** `strict`: turns in an order (message-order.ts). `alternating`: turns take turns (alternation.ts). */
  readonly order?: 'strict' | 'alternating'
  /** The models whose thinking belongs into turns in which tools were called, at least an empty one, and into no other. */
  readonly thoughts?: RegExp
  /** `document_url`: a file in a message is a part of this type, with its address or its data. `data`: it fetches none. */
  readonly files?: 'document_url' | 'data'
  /** `nine`: ids of calls are nine letters and digits. */
  readonly callIds?: 'nine'
}
