/** Decodes a whole answer: each candidate becomes a choice. */
import type { AnswerView, DecodedAnswer, UpstreamFailure } from '#contract'
import { isEmptyValue } from '../failure.ts'
import { parseAnswer } from '../json-exact.ts'
import { type TranslatedCall, type TranslatedChoice, translatedAnswer } from '../translate/completion.ts'
import {
  blockedPrompt,
  CandidateError,
  CandidateReader,
  type Fields,
  isFields,
  NOTHING_USED,
  type PartSink,
  usageOf,
} from './candidate.ts'
import { type Fail, failedInside } from './failures.ts'

type AnswerFailure = { readonly failure: UpstreamFailure }

export function decodeAnswer(body: Buffer, view: AnswerView, fail: Fail): DecodedAnswer | AnswerFailure {
  let parsed: unknown
  try {
    parsed = parseAnswer(body.toString('utf8'), 'args')
  } catch {
    return invalid('the answer is not JSON')
  }
  // Errors sometimes come in a list.
  const value = Array.isArray(parsed) ? parsed[0] : parsed
  if (!isFields(value)) return invalid('the answer is not an object')
  if (!isEmptyValue(value['error'])) return { failure: failedInside(parsed, fail) }
  try {
    return answerOf(value, view)
  } catch (error) {
    // A RangeError: the arguments are nested too deeply to be written.
    if (error instanceof CandidateError || error instanceof RangeError) return invalid(error.message)
    throw error
  }
}

function answerOf({ candidates, promptFeedback, responseId, modelVersion, usageMetadata }: Fields, view: AnswerView) {
  const id = typeof responseId === 'string' && responseId !== '' ? responseId : null
  const identity = { id, model: modelVersion }
  const usage = usageOf(usageMetadata)
  if (Array.isArray(candidates) && candidates.length > 0) {
    const choices = choicesOf(candidates)
    return 'failure' in choices ? choices : translatedAnswer(view, identity, choices, usage)
  }
  const blocked = blockedPrompt(promptFeedback)
  if (blocked === undefined) return invalid('the answer has no candidates')
  return translatedAnswer(
    view,
    identity,
    [{ text: null, refusal: blocked, finish: 'content_filter' }],
    usage ?? NOTHING_USED,
  )
}

function invalid(detail: string): AnswerFailure {
  return { failure: { code: 'upstream_invalid', detail } }
}

function choicesOf(candidates: readonly unknown[]): readonly TranslatedChoice[] | AnswerFailure {
  const choices: TranslatedChoice[] = []
  for (const candidate of candidates) {
    const choice = choiceOf(candidate)
    if ('failure' in choice) return choice
    choices.push(choice)
  }
  return choices
}

function choiceOf(candidate: unknown): TranslatedChoice | AnswerFailure {
  const parts = new ChoiceBuilder()
  const reader = new CandidateReader(parts)
  reader.read(candidate)
  const { finish, message } = reader
  if (finish === null) return invalid('a candidate has no finish reason')
  return parts.choice(finish, finish === 'content_filter' ? message : null)
}

/** Builds a choice from the parts of a candidate. */
class ChoiceBuilder implements PartSink {
  #text = ''
  #reasoning = ''
  #signature: string | null = null
  readonly #images: string[] = []
  readonly #calls: TranslatedCall[] = []

  text(text: string): void {
    this.#text += text
  }

  reasoning(text: string): void {
    this.#reasoning += text
  }

  signature(signature: string): void {
    this.#signature = signature
  }

  image(url: string): void {
    this.#images.push(url)
  }

  call(call: TranslatedCall): void {
    this.#calls.push(call)
  }

  choice(finish: TranslatedChoice['finish'], refusal: string | null): TranslatedChoice {
    // An empty answer is '' and not null, because clients read its length.
    const text = this.#text === '' && (this.#calls.length > 0 || finish === 'content_filter') ? null : this.#text
    return {
      text,
      reasoning: this.#reasoning,
      refusal,
      calls: this.#calls,
      signature: this.#signature,
      images: this.#images,
      finish,
    }
  }
}
