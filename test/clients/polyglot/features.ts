/** What each client must show, the same for all: one column of the table a feature. */
import type { ProviderRequest } from '../../helpers/fake-provider.ts'
import { type Exchange, REPORT } from './rig.ts'

/** What a program printed about one feature. */
export interface Line {
  readonly feature: string
  readonly text?: string | null
  /** What the user is shown in the end, where that is not the pieces: Claude Code asks again when a stream is cut. */
  readonly answer?: string
  /** How many pieces a stream came in. */
  readonly pieces?: number
  readonly input?: number | null
  readonly output?: number | null
  /** The tool that the model called, and its arguments. */
  readonly tool?: string
  readonly city?: string
  readonly celsius?: number
  /** The library's words, and the HTTP status where its error has one. */
  readonly error?: string
  readonly status?: number | null
  /** After a refusal it waits for as long as it is told, which is more than the test has. */
  readonly waits?: boolean
  /** What the table says where the library has no such thing. */
  readonly lacks?: string
}

/** One run of a program. */
export interface Run {
  readonly lines: ReadonlyMap<string, Line>
  /** What reached the gateway, and what reached the provider. */
  readonly exchanges: readonly Exchange[]
  readonly sent: readonly ProviderRequest[]
}

export interface Feature {
  /** Heads the column. */
  readonly title: string
  /** The cell; throws what is wrong. */
  judge(run: Run): string
}

/** One call and two more tries, as the official libraries have it. */
const MOST_TRIES = 3
const TOKENS = { input: 10, output: 3 }
const TEXT = 't0 t1 t2'

export const FEATURES: readonly Feature[] = [
  {
    title: 'Whole',
    judge(run) {
      must('the text', worked(run, 'whole').text, TEXT)
      return 'yes'
    },
  },
  {
    title: 'Stream',
    judge(run) {
      const { text, pieces = 0 } = worked(run, 'stream')
      must('the text', text, TEXT)
      if (pieces < 3) throw new Error(`it came in ${pieces} pieces`)
      return 'yes'
    },
  },
  { title: 'Usage', judge: usage },
  {
    title: 'Tool',
    judge(run) {
      const { lacks, tool, city, text } = worked(run, 'tools')
      if (lacks !== undefined) return lacks
      if (tool !== 'Bash') must('the call', [tool, city], ['get_weather', 'Paris'])
      must('the answer after it', text, 'The weather is clear over Paris')
      return 'yes'
    },
  },
  {
    title: 'Structured',
    judge(run) {
      const { city, celsius } = worked(run, 'structured')
      must('the report', { city, celsius }, REPORT)
      const asked = run.sent.find(({ body }) => body?.['model'] === 'structured')
      return asked?.body?.['response_format'] ? 'by format' : 'by tool'
    },
  },
  refusal('Wrong key', 'wrong_key', 401, 'malformed_api_key', /incomplete, mistyped or/, 1),
  refusal('No credit', 'no_credit', 402, 'insufficient_quota', /credit/, 1),
  // Claude Code asks once more without a stream: some servers have no streams at that address.
  refusal('Unknown model', 'no_model', 404, 'model_not_found', /not exist/, 2),
  // The wait is an hour. Some libraries try again at once, whatever they are told.
  refusal('Limit', 'limited', 429, 'rate_limit_exceeded', /Too many requests|limit/i, MOST_TRIES),
  { title: 'Cut stream', judge: cut },
]

/** The line of a feature that must not have failed. */
function worked(run: Run, feature: string): Line {
  const line = lineOf(run, feature)
  if (line.error !== undefined) throw new Error(`it failed: ${line.error}`)
  return line
}

function lineOf({ lines }: Run, feature: string): Line {
  const line = lines.get(feature)
  if (!line) throw new Error(`the program says nothing about ${feature}`)
  return line
}

function must(what: string, found: unknown, wanted: unknown): void {
  if (JSON.stringify(found) === JSON.stringify(wanted)) return
  throw new Error(`${what} is ${JSON.stringify(found)} instead of ${JSON.stringify(wanted)}`)
}

/** What the client counts is what the gateway charged for; a library that counts no streams says nothing of them. */
function usage(run: Run): string {
  for (const { prompt_tokens, completion_tokens } of run.exchanges.filter(line => line['model'] === 'm')) {
    if (prompt_tokens === undefined) continue
    must('what the gateway charged for', { input: prompt_tokens, output: completion_tokens }, TOKENS)
  }
  const { input, output } = worked(run, 'whole')
  must('the usage of the whole answer', { input, output }, TOKENS)
  const streamed = worked(run, 'stream')
  if (streamed.input === undefined || streamed.input === null) return 'whole'
  must('the usage of the stream', { input: streamed.input, output: streamed.output }, TOKENS)
  return 'whole, stream'
}

function refusal(title: string, feature: string, status: number, code: string, says: RegExp, most: number): Feature {
  const judge = (run: Run) => {
    const line = lineOf(run, feature)
    if (line.error === undefined && !line.waits) throw new Error('there was no error')
    if (line.status != null) must('the status', line.status, status)
    if (!line.waits && !says.test(line.error!)) throw new Error(`the error does not say why: ${line.error}`)
    const requests = countOf(
      run.exchanges.filter(exchange => exchange['code'] === code),
      most,
    )
    return `${line.waits ? 'waits' : (line.status ?? 'error')}, ${requests}`
  }
  return { title, judge }
}

/** Half an answer is an error, whatever a library does with events that it does not know. */
function cut(run: Run): string {
  const { error, text, answer } = lineOf(run, 'cut')
  const requests = countOf(run.exchanges.filter(({ model }) => model === 'breaks'))
  if (error === undefined && answer === TEXT) return `asks again, ${requests}`
  if (error === undefined) throw new Error(`half an answer passed for a whole one: ${JSON.stringify(text)}`)
  return `error${/broke off/.test(error) ? ', says why' : ''}, ${requests}`
}

/** In words; throws when there are none, or too many. */
function countOf(exchanges: readonly Exchange[], most = MOST_TRIES): string {
  const { length } = exchanges
  if (length < 1 || length > most) throw new Error(`${length} requests instead of ${most}`)
  return length === 1 ? '1 request' : `${length} requests`
}
