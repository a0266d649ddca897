/** Sentences about a prompt that does not fit, in the words of all providers: whether it is one, and its numbers. */

/** OpenAI, Anthropic, Google, AWS, xAI, llama.cpp, Z.ai, Moonshot, Alibaba, Together and Ollama. */
export const OVERFLOW = new RegExp(
  'context.{0,20}length|maximum context|(?:prompt|input) is too long|prompt too long|too many (?:input )?tokens|' +
    'input token count|input tokens? exceeded|exceeds? (?:the )?(?:available )?context (?:limit|size|window)|' +
    'maximum prompt length is|prompt exceeds max length|exceeded model token limit|range of input length|' +
    'inputs`? tokens \\+ `?max_new_tokens`? must be',
  'i',
)

/** Tokens; null: the sentence does not say. */
export interface Overflow {
  readonly asked: number | null
  readonly limit: number | null
}

/** A count of two digits or more, also with commas; no part of a name, a version or a date. */
const COUNT = String.raw`(?<![\w.,-])(\d{1,3}(?:,\d{3})+|\d{2,9})(?![\w-]|[.,]\d)`
const ALL = new RegExp(COUNT, 'g')

/** Words beside the limit: of the rows the first that fits. */
const LIMITS: readonly RegExp[] = [
  `${COUNT} (?:tokens? )?maximum`,
  `(?:<=|>) ?${COUNT}`,
  String.raw`\brange\b.{0,80}, ?${COUNT}\]`,
  String.raw`\bexceed(?:s|ed)?\b\D{0,80}?${COUNT}`,
  String.raw`\b(?:maximum|max|limit)\b\D{0,80}?${COUNT}`,
  String.raw`\bcontext\b\D{0,80}?${COUNT}`,
].map(pattern => new RegExp(pattern, 'i'))

/** The smallest context of a model. A lone number below it is by how much the prompt is too long. */
const SMALLEST_CONTEXT = 256

export function overflowIn(sentence: string): Overflow {
  const counts = [...sentence.matchAll(ALL)].map(([, text]) => numberOf(text!))
  const found = LIMITS.map(pattern => pattern.exec(sentence)?.[1]).find(text => text !== undefined)
  const limit = found === undefined ? null : numberOf(found)
  if (limit === null || (counts.length === 1 && limit < SMALLEST_CONTEXT)) return { asked: null, limit: null }
  const others = counts.filter(count => count !== limit)
  // Some name the whole of what was asked for, others its parts.
  const sizes = [Math.max(0, ...others), others.reduce((sum, count) => sum + count, 0)]
  return { asked: sizes.find(size => size > limit) ?? null, limit }
}

const numberOf = (text: string) => Number(text.replaceAll(',', ''))
