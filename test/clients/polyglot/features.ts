/** The features that every client must show; each is a column of the table. */
import type { ProviderRequest } from '../../helpers/fake-provider.ts'
import { type Exchange, REPORT } from './rig.ts'

/** A program's output about one feature. */
export interface Line {
  readonly feature: string
  readonly text?: string | null
  /** The final text, if it differs from the pieces: Claude Code repeats a request whose stream is cut. */
  readonly answer?: string
  /** The number of pieces of a stream. */
  readonly pieces?: number
  readonly input?: number | null
  readonly output?: number | null
  /** The tool that the model called, and its arguments. */
  readonly tool?: string
  readonly city?: string
  readonly celsius?: number
  /** The library's message, and the HTTP status if its error has one. */
  readonly error?: string
  readonly status?: number | null
  /** After a refusal the library waits as demanded, which is longer than the test. */
  readonly waits?: boolean
  /** The table's cell if the library lacks the feature. */
  readonly lacks?: string
}

/** One run of a program. */
export interface Run {
  readonly lines: ReadonlyMap<string, Line>
  /** The requests at the gateway, and those at the provider. */
  readonly exchanges: readonly Exchange[]
  readonly sent: readonly ProviderRequest[]
}

export interface Feature {
  /** The column's heading. */
  readonly title: string
  /** Returns the cell; throws the error of a failing feature. */
  judge(run: Run): string
}

/** One request and two retries, as in the official libraries. */
const MAX_REQUESTS = 3
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
  // Claude Code repeats the request without a stream: some servers have no streams at that address.
  refusal('Unknown model', 'no_model', 404, 'model_not_found', /not exist/, 2),
  // The wait is an hour. Some libraries retry at once nevertheless.
  refusal('Limit', 'limited', 429, 'rate_limit_exceeded', /Too many requests|limit/i, MAX_REQUESTS),
  { title: 'Cut stream', judge: cut },
]

/** The line of a feature that must have succeeded. */
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

/** The client's token counts match the gateway's charge; a library that counts no streams reports nothing for them. */
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

/** Half an answer is an error, whatever a library does with unknown events. */
function cut(run: Run): string {
  const { error, text, answer } = lineOf(run, 'cut')
  const requests = countOf(run.exchanges.filter(({ model }) => model === 'breaks'))
  if (error === undefined && answer === TEXT) return `asks again, ${requests}`
  if (error === undefined) throw new Error(`half an answer passed for a whole one: ${JSON.stringify(text)}`)
  return `error${/broke off/.test(error) ? ', says why' : ''}, ${requests}`
}

/** A number of requests in words. Throws if there are none or too many. */
function countOf(exchanges: readonly Exchange[], most = MAX_REQUESTS): string {
  const { length } = exchanges
  if (length < 1 || length > most) throw new Error(`${length} requests instead of ${most}`)
  return length === 1 ? '1 request' : `${length} requests`
}
