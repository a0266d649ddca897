/** Replaces the HTTP services of plugins in policy tests, with the answers of `http` by URL. */
import type { HttpAnswerShape, HttpShape } from './schema.ts'

/** `POST https://policy.example/decide`, or only the URL for every method. */
export const HTTP_KEY = /^(?:([A-Z]{1,20}) )?(https?:\/\/\S+)$/

interface Service {
  readonly key: string
  /** Null for every method. */
  readonly method: string | null
  readonly url: URL
  readonly answers: readonly HttpAnswerShape[]
  /** Number of calls since the answers were set. */
  calls: number
}

/** Answers `fetch` calls of plugins. A call without an answer is recorded and fails like a network error. */
export class HttpStandIn {
  #services = new Map<string, Service>()
  #calls = new Map<string, number>()
  #unmatched: string[] = []

  /** Sets answers; those of the same key are replaced. Throws for a key that is not a URL. */
  setAnswers(shape: HttpShape): void {
    for (const [key, answers] of Object.entries(shape)) {
      const [, method = null, url] = HTTP_KEY.exec(key) ?? []
      this.#services.set(key, { key, method, url: new URL(url!), answers: [answers].flat(), calls: 0 })
    }
  }

  readonly fetch: typeof globalThis.fetch = async (input, init) => {
    const request = new Request(input, init)
    const service = this.#serviceFor(request)
    if (service === null) {
      const what = `${request.method} ${request.url}`
      const has = this.#services.size > 0 ? `it has ${[...this.#services.keys()].join(', ')}` : 'it is empty'
      this.#unmatched.push(`a plugin called ${what}, but "http" has no answer for it; ${has}`)
      throw unreachable(what)
    }
    this.#calls.set(service.key, (this.#calls.get(service.key) ?? 0) + 1)
    const answer = service.answers[Math.min(service.calls++, service.answers.length - 1)]!
    request.signal.throwIfAborted()
    if (answer.fault === 'unreachable') throw unreachable(`${request.method} ${request.url}`)
    if (answer.fault === 'silent') await aborted(request.signal)
    return responseOf(answer)
  }

  /** The number of calls of each key since the last call of this function. */
  takeCalls(): ReadonlyMap<string, number> {
    const calls = this.#calls
    this.#calls = new Map()
    return calls
  }

  /** Calls without an answer since the last call of this function, as sentences. */
  takeUnmatched(): string[] {
    const unmatched = this.#unmatched
    this.#unmatched = []
    return [...new Set(unmatched)]
  }

  /** The most specific service: method first, then query. A key without a query matches every query. */
  #serviceFor({ method, url }: Request): Service | null {
    const target = new URL(url)
    const specificity = (service: Service) => (service.method === null ? 0 : 2) + (service.url.search === '' ? 0 : 1)
    const fitting = [...this.#services.values()].filter(
      service =>
        (service.method ?? method) === method &&
        service.url.origin === target.origin &&
        service.url.pathname === target.pathname &&
        (service.url.search === '' || service.url.search === target.search),
    )
    return fitting.sort((one, other) => specificity(other) - specificity(one))[0] ?? null
  }
}

/** The error of `fetch` without a network. */
function unreachable(what: string): TypeError {
  const cause = Object.assign(new Error(`${what} cannot be reached`), { code: 'ENETUNREACH', syscall: 'connect' })
  return new TypeError('fetch failed', { cause })
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}

/** Statuses without a body (the Fetch standard, "null body status"). */
const BODILESS = [204, 205, 304]

function responseOf({ status = 200, headers = {}, body }: HttpAnswerShape): Response {
  if (body === undefined || BODILESS.includes(status)) return new Response(null, { status, headers })
  if (typeof body === 'string') return new Response(body, { status, headers })
  return new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json', ...headers } })
}
