/** `tollgate explain --request`: reads a trial request, runs it with the real configuration but without a network, and prints the result. */

import { readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import { text as readAll } from 'node:stream/consumers'
import { parse } from 'yaml'
import { asksModel, fitsPattern } from '#contract'
import type { Configuration, RouteConfig } from '../../config/configuration.ts'
import { checkShape } from '../../config/yaml/ajv.ts'
import { didYouMean, listed } from '../../config/yaml/problem.ts'
import type { Rule } from '../../config/yaml/rules.ts'
import { readSource } from '../../config/yaml/source.ts'
import type { UnhandledErrors } from '../../simulate/unhandled.ts'
import { pathOf } from '../commands.ts'
import { problemText, shownPath } from '../configuration.ts'
import { keepUnhandled, loadSimulated } from '../simulated.ts'
import { CommandError, type ExitCode, type Terminal } from '../terminal.ts'
import { findRoute } from './plan.ts'
import type { RunOptions, TrialRequest } from './run.ts'

export interface ExplainOptions {
  readonly config: string
  readonly json: boolean
  readonly run: RunOptions
}

/** Runs the request of a file (or of stdin) and prints the result. The exit code is 0 for any result. */
export async function explainRequest(file: string, options: ExplainOptions, terminal: Terminal): Promise<ExitCode> {
  // Watch before a plugin is loaded: its unhandled errors must not prevent the report.
  return keepUnhandled(terminal, unhandled => explainKept(file, options, { terminal, unhandled }))
}

async function explainKept(
  file: string,
  { config, json: asJson, run }: ExplainOptions,
  { terminal, unhandled }: { readonly terminal: Terminal; readonly unhandled: UnhandledErrors },
): Promise<ExitCode> {
  const loaded = await loadSimulated(terminal, config, 'cannot be explained')
  if (loaded === null) return 1
  const { configuration } = loaded
  checkModels(configuration, run.models)
  const written = await readRequest(terminal, file)
  if (written === null) return 1
  const request = requestOf(configuration, written, run)
  const [{ runRequest }, { story }, { storyJson }, { storyText }] = await Promise.all([
    import('./run.ts'),
    import('./story.ts'),
    import('./story-json.ts'),
    import('./story-text.ts'),
  ])
  const held = await runRequest(configuration, request, run, async ran => {
    const result = story({ ...ran, mistakes: [...ran.mistakes, ...unhandled.take()] }, { configuration, request, run })
    terminal.out(asJson ? storyJson(result) : storyText(result))
  })
  if (held !== null) terminal.err(`${held}\n`)
  return 0
}

function checkModels({ models }: Configuration, wanted: readonly string[] | null): void {
  for (const id of wanted ?? []) {
    if (models.has(id) || [...models.keys()].some(each => fitsPattern(id, each))) continue
    const known = didYouMean(id, models.keys()) ?? `the models are ${listed([...models.keys()], 'and')}`
    throw new CommandError(`--models: unknown model "${id}"; ${known}`)
  }
}

/** A request in a file. Omitted parts come from the configuration. */
interface WrittenRequest {
  readonly method?: string
  readonly path?: string
  readonly headers?: Readonly<Record<string, string | null>>
  readonly body?: unknown
}

const SHAPE = {
  type: 'object',
  additionalProperties: false,
  minProperties: 1,
  properties: {
    method: { type: 'string', pattern: '^[A-Z]{1,20}$', sentence: 'must be a method such as GET or POST' },
    path: { type: 'string', pattern: '^/[!-~]*$', sentence: 'must be a path such as /v1/chat/completions' },
    headers: {
      type: 'object',
      propertyNames: { pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" },
      additionalProperties: {
        type: ['string', 'null'],
        pattern: '^[\\t -~\\u0080-\\u00ff]*$',
        sentence: 'must be one line of text, or null to omit the header',
      },
    },
    body: {},
  },
}

/** Null if the file has problems, which are printed. */
async function readRequest(terminal: Terminal, file: string): Promise<WrittenRequest | null> {
  const name = file === '-' ? 'stdin' : shownPath(terminal, file)
  const text = file === '-' ? await readAll(process.stdin) : await readText(pathOf(terminal, file), name)
  if (!isEnvelope(text, file)) return { body: text }
  const source = await readSource(name, text, { env: {}, readFile: async () => '' })
  // Text that looks like a reference is the client's own text here.
  const value: unknown = source.usable ? parse(text) : undefined
  if (source.usable) checkShape(source, '', value, SHAPE)
  const problems = source.problems.filter(({ rule }) => !REFERENCES.includes(rule))
  if (problems.length === 0) return value as WrittenRequest
  terminal.err(await problemText(terminal, { problems, sources: new Map([[name, text]]) }))
  return null
}

const REFERENCES: readonly Rule[] = ['missing-variable', 'wrong-reference', 'missing-file']

async function readText(path: string, name: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw new CommandError(
      `the request ${name} cannot be read: ${code === 'ENOENT' ? 'the file does not exist' : message}`,
    )
  }
}

/** Whether a text is a request with method and path around a body, not the body itself. */
function isEnvelope(text: string, file: string): boolean {
  if (['.yaml', '.yml'].includes(extname(file))) return true
  let value: unknown
  try {
    value = parse(text, { logLevel: 'silent' })
  } catch {
    return false
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const names = Object.keys(value)
  return names.length > 0 && names.every(name => Object.hasOwn(SHAPE.properties, name))
}

function requestOf(configuration: Configuration, written: WrittenRequest, run: RunOptions): TrialRequest {
  const path = run.path ?? written.path ?? likelyRoute(configuration.routes, written.body).path
  const route = findRoute(configuration.routes, path)
  const method = written.method ?? route?.methods[0] ?? (written.body === undefined ? 'GET' : 'POST')
  const headers = { ...written.headers, ...Object.fromEntries(run.headers.map(({ name, value }) => [name, value])) }
  return { method, path, headers, body: written.body }
}

/** The probable route of a body: `input` means the Responses format. */
function likelyRoute(routes: readonly RouteConfig[], body: unknown): RouteConfig {
  const kind = isResponses(body) ? 'responses' : 'chat'
  const asking = routes.filter(route => asksModel(route.kind))
  const found = asking.find(route => route.kind === kind) ?? asking[0] ?? routes[0]
  if (!found) throw new CommandError('this configuration has no route; set a path with --path')
  return found
}

function isResponses(body: unknown): boolean {
  try {
    const value: unknown = typeof body === 'string' ? JSON.parse(body) : body
    return typeof value === 'object' && value !== null && 'input' in value && !('messages' in value)
  } catch {
    return false
  }
}
