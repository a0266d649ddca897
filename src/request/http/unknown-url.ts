/** Refusals of requests without a route: they name the route that was probably meant, or the part of an API that is missing. */
import { type Refusal, refuse } from '#contract'

/** Missing parts of the APIs of OpenAI and Anthropic, after `/v1/`, with an alternative. */
const MISSING: readonly (readonly [path: RegExp, advice: string])[] = [
  [/^conversations(?:\/|$)/, "The gateway stores no conversations. Send the whole conversation in 'input'."],
  [/^(?:messages\/)?batches(?:\/|$)/, 'The gateway has no batches. Send each request by itself.'],
  [/^(?:files|uploads)(?:\/|$)/, 'The gateway stores no files. Send a file as a part of the request that needs it.'],
  [
    /^vector_stores(?:\/|$)/,
    'The gateway has no vector stores. Search in your own, and send what you find with the request.',
  ],
  [/^realtime(?:\/|$)/, 'The gateway has no realtime sessions. Use a chat route with stream: true.'],
  [/^(?:assistants|threads)(?:\/|$)/, 'The gateway has no assistants. Use /v1/responses or /v1/chat/completions.'],
  [/^chat\/completions\/./, 'The gateway stores no chat completions.'],
  [
    /^responses\/compact(?:\/|$)/,
    'The gateway does not shorten conversations on this path. Send the item compaction_trigger.',
  ],
  [/^responses\/./, 'Responses are kept only where the route has keep_responses.'],
  [
    /^(?:fine_tuning|evals|graders|containers|videos|chatkit|skills|organizations?|agents|sessions|environments)(?:\/|$)/,
    'Call the provider itself for this part of its API.',
  ],
  [
    /^(?:embeddings|moderations|completions|complete|rerank|audio|images|ocr|fim)(?:\/|$)/,
    'An operator can add a route of kind raw for it.',
  ],
]

/** APIs of other vendors, which the gateway does not support. */
const OTHER_API =
  /^\/(?:v1beta\d*\/|v1\/models\/[^/]+:|api\/(?:chat|generate|tags|show|embed|embeddings|ps|version)$|model\/[^/]+\/)/

/** @param routes the paths of all routes, with `{id}` for a variable last part */
export function refusalOfUnknown(method: string, path: string, routes: readonly string[]): Refusal {
  const shown = `${method} ${path.length > 100 ? `${path.slice(0, 99)}…` : path}`
  const nothing = (advice: string) => refuse('unknown_url', { message: `There is nothing at ${shown}.${advice}` })
  if (path === '/metrics') return nothing(' Metrics are on the `admin` listener.')
  const meant = routes.find(route => route === `/v1${path}`)
  if (meant !== undefined) return nothing(` The base URL must end in /v1: try ${meant}`)
  const lean = leanPath(path, routes)
  if (lean !== null) return nothing(` Did you mean ${lean}? Check the base URL of the client.`)
  const advice = adviceFor(path)
  if (advice !== null) return refuse('not_supported', { message: `The gateway has no ${shown}. ${advice}` })
  return nothing('')
}

/** The path without its surplus: a second `/v1`, another prefix, a last slash. */
function leanPath(path: string, routes: readonly string[]): string | null {
  if (path.length > 300) return null
  const trimmed = path.replace(/\/+$/, '')
  for (let at = 0; at !== -1; at = trimmed.indexOf('/', at + 1)) {
    const rest = trimmed.slice(at)
    if (rest !== path && routes.some(route => fits(rest, route))) return rest
  }
  return null
}

function fits(path: string, route: string): boolean {
  const at = route.indexOf('{id}')
  return at === -1 ? path === route : path.startsWith(route.slice(0, at)) && path.length > at
}

function adviceFor(path: string): string | null {
  if (OTHER_API.test(path))
    return "It speaks the formats of OpenAI and Anthropic. Use a client's setting for one of them."
  const [, rest] = /(?:^|\/)v1\/(.*)$/.exec(path) ?? []
  return MISSING.find(([pattern]) => rest !== undefined && pattern.test(rest))?.[1] ?? null
}
