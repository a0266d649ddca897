/** The demo's texts. They depend on the conversation only, and do not pretend to be a real model's. */
import { pick } from './chance.ts'
import { type DemoRequest, MAX_EXCERPT } from './request.ts'
import type { Hints } from './sample.ts'
import { countTokens } from './tokens.ts'

const MAX_EXCERPT_LENGTH = 120
const COUNT_TO_MOST = 1000

/** The answer to the last message. `random` selects the phrases. */
export function answerText(request: DemoRequest, random: () => number): string {
  if (request.toolResults.length > 0) return toolAnswer(request)
  const question = request.lastUserText.trim()
  if (question === '' && request.images === 0) return 'I am ready. Send a user message, and I will answer it.'
  const count = /\bcount(?:\s+from\s+(\d{1,9}))?\s+to\s+(\d{1,9})\b/i.exec(question)
  if (count) return counting(Number(count[1] ?? 1), Number(count[2]))
  const verbatim =
    /^(?:please\s+)?(?:say|repeat|echo|reply with|answer with|respond with)(?:\s+exactly)?:\s*(.+)$/is.exec(question)
  if (verbatim) return verbatim[1]!.trim()
  return [opener(question, random), echo(request, question), turns(request), pick(CLOSINGS, random)]
    .filter(Boolean)
    .join(' ')
}

/** Reasoning text of at least `tokens` tokens. */
export function reasoningText(request: DemoRequest, tokens: number, random: () => number): string {
  const steps = [`The user wrote "${excerpt(request.lastUserText)}".`]
  for (let have = countTokens(steps[0]!); have < tokens; have += countTokens(` ${steps.at(-1)}`)) {
    steps.push(pick(THOUGHTS, random))
  }
  return steps.join(' ')
}

/** Values from the conversation for the fields of a schema. */
export function hintsOf(request: DemoRequest): Hints {
  const text = request.lastUserText
  const sentence = `You wrote: ${excerpt(text) || 'nothing yet'}`
  return { word: wordOf(text), sentence, numbers: (text.match(/-?\d{1,9}(?:\.\d{1,6})?/g) ?? []).map(Number) }
}

/** The beginning of a text, on one line. */
export function excerpt(text: string): string {
  const points = [
    ...text
      .slice(0, 4 * MAX_EXCERPT_LENGTH)
      .replace(/\s+/g, ' ')
      .trim(),
  ]
  return points.length > MAX_EXCERPT_LENGTH ? `${points.slice(0, MAX_EXCERPT_LENGTH).join('')}…` : points.join('')
}

/** A quoted text, or a name inside a sentence, or the word after "in" or "for", or the last word. */
function wordOf(message: string): string {
  const text = excerpt(message)
  const found =
    /["“„]([^"“”]{1,60})["“”]/.exec(text)?.[1] ??
    /(?<=[\p{L}\p{N},;:] )\p{Lu}[\p{L}\p{N}-]+(?: \p{Lu}[\p{L}\p{N}-]+)*/u.exec(text)?.[0] ??
    /\b(?:in|for|about|to|of|at)\s+([\p{L}\p{N}-]+)/u.exec(text)?.[1] ??
    text.match(/[\p{L}\p{N}-]+/gu)?.at(-1)
  return found ?? 'example'
}

function toolAnswer(request: DemoRequest): string {
  const results = request.toolResults.map(({ name, text }) => `${name} returned: ${excerpt(text) || 'nothing'}.`)
  const question = excerpt(request.lastUserText)
  return [
    ...results,
    question ? `So that is my answer to "${question}"` : 'So that is my answer',
    '- from the demo model.',
  ].join(' ')
}

function counting(from: number, to: number): string {
  const last = Math.min(to, from + COUNT_TO_MOST - 1)
  const numbers = Array.from({ length: Math.max(0, last - from + 1) }, (_, at) => from + at)
  return numbers.length > 0 ? `${numbers.join(', ')}.` : `I only count upwards, and ${to} is below ${from}.`
}

function opener(question: string, random: () => number): string {
  if (/\b(?:hello|hi|hey|good (?:morning|evening|day))\b/i.test(question)) return pick(GREETINGS, random)
  if (/\bthank(?:s| you)\b/i.test(question)) return 'You are welcome!'
  return pick(/\?\s*$/.test(question) ? ON_QUESTIONS : ON_STATEMENTS, random)
}

function echo(request: DemoRequest, question: string): string {
  const words = question.split(/\s+/).filter(Boolean).length
  const images = request.images === 0 ? '' : ` I cannot see the ${request.images === 1 ? 'image' : 'images'} you sent.`
  if (words === 0) return images.trim()
  const size = question.length < MAX_EXCERPT - 1 ? `${words} ${words === 1 ? 'word' : 'words'}` : 'a great deal to read'
  return `You wrote "${excerpt(question)}", which is ${size}.${images}`
}

function turns({ turn, earlierUserText }: DemoRequest): string {
  if (turn < 2 || earlierUserText === null) return ''
  return `This is turn ${turn} of our conversation; before it you wrote "${excerpt(earlierUserText)}".`
}

const GREETINGS = ['Hello! Nice to meet you.', 'Hello there!', 'Hi! Good to hear from you.']
const ON_QUESTIONS = ['Good question.', 'Let me see.', 'I am glad that you ask.']
const ON_STATEMENTS = ['Happy to help.', 'Understood.', 'Certainly.']
const CLOSINGS = [
  'I am the demo model built into this gateway: my words are made up, but the stream, the token counts and the charge are real.',
  'I am the demo model: I answer without any network, so swap me for a real provider when you want real answers.',
  'As the demo model I know nothing of the world, but every token of this answer was counted and billed as a real one.',
]
const THOUGHTS = [
  'What is really being asked here?',
  'I should answer briefly and kindly.',
  'I have no network, so I cannot look anything up.',
  'It is best to repeat the question, so that it is clear what was understood.',
  'Let me check that nothing was overlooked.',
  'The length of the answer matters, since every token is counted.',
]
