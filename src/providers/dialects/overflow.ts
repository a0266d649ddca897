/** Recognizes errors about a prompt that is too long, in the words of all providers, and reads their numbers. */

/** OpenAI, Anthropic, Google, AWS, xAI, llama.cpp, Z.ai, Moonshot, Alibaba, Together and Ollama. */
export const OVERFLOW = new RegExp(
  'context.{0,20}length|maximum context|(?:prompt|input) is too long|prompt too long|too many (?:input )?tokens|' +
    'input token count|input tokens? exceeded|exceeds? (?:the )?(?:available )?context (?:limit|size|window)|' +
    'maximum prompt length is|prompt exceeds max length|exceeded model token limit|context window exceeds|maximum model length|range of input length|' +
    'inputs`? tokens \\+ `?max_new_tokens`? must be',
  'i',
)

/** Tokens; null if the sentence does not have the number. */
export interface Overflow {
  /** Tokens of the prompt, or of prompt and answer together if the sentence does not separate them. */
  readonly asked: number | null
  /** Tokens of the answer, if the prompt alone fits. */
  readonly output: number | null
  readonly limit: number | null
}

/** A count of two digits or more, also with commas. Not a part of a name, a version or a date, and not a difference. */
const COUNT = String.raw`(?<!\bby )(?<![\w.,-])(\d{1,3}(?:,\d{3})+|\d{2,9})(?![\w-]|[.,]\d)`
const ALL = new RegExp(COUNT, 'g')

/** Words next to the limit. The first pattern that matches counts. */
const LIMITS: readonly RegExp[] = [
  `${COUNT} (?:tokens? )?maximum`,
  `(?:<=|>) ?${COUNT}`,
  String.raw`\brange\b.{0,80}, ?${COUNT}\]`,
  String.raw`\bexceed(?:s|ed)?\b\D{0,80}?${COUNT}`,
  String.raw`\b(?:maximum|max|limit)\b\D{0,80}?${COUNT}`,
  String.raw`\bcontext\b\D{0,80}?${COUNT}`,
].map(pattern => new RegExp(pattern, 'i'))

const PART = String.raw`${COUNT} (?:tokens )?(?:(?:in|of|from|for) (?:(?:the|your) )?(?:\w+ )?)?`
/** Some providers list several parts: messages and functions, text and tools. */
const INPUTS = new RegExp(`${PART}\`?(?:inputs?|prompt|messages|functions|tools)\\b`, 'gi')
const OUTPUTS: readonly RegExp[] = [
  `${PART}\`?(?:completion|output|max_(?:new_|completion_)?tokens)\\b`,
  `max_(?:completion_)?tokens['"\`]? is too large: ${COUNT}`,
].map(pattern => new RegExp(pattern, 'i'))

export function overflowIn(sentence: string): Overflow {
  const limit = firstOf(LIMITS, sentence)
  if (limit === null) return { asked: null, output: null, limit }
  const output = firstOf(OUTPUTS, sentence)
  const input = countsOf(INPUTS, sentence, limit).reduce((sum, count) => sum + count, 0)
  if (output !== null && input > 0) return { asked: input, output: input > limit ? null : output, limit }
  const most = Math.max(...countsOf(ALL, sentence, limit))
  return { asked: most > limit ? most : null, output: null, limit }
}

function firstOf(patterns: readonly RegExp[], sentence: string): number | null {
  const found = patterns.map(pattern => pattern.exec(sentence)?.[1]).find(text => text !== undefined)
  return found === undefined ? null : numberOf(found)
}

function countsOf(pattern: RegExp, sentence: string, limit: number): readonly number[] {
  return [...sentence.matchAll(pattern)].map(([, text]) => numberOf(text!)).filter(count => count !== limit)
}

const numberOf = (text: string) => Number(text.replaceAll(',', ''))
