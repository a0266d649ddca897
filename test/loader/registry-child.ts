/**
 * Loads a configuration or single plugins as the gateway does, and writes the result as one line of JSON.
 * Node.js runs it, because a test runner implements `import()` differently.
 */
import { writeFileSync } from 'node:fs'
import { isRefusal } from '#contract'
import { loadConfiguration } from '../../src/config/load.ts'
import { formatProblem } from '../../src/config/yaml/problem.ts'
import { createRegistry } from '../../src/loader/registry.ts'
import { standIns } from '../config/stand-ins.ts'

interface Order {
  readonly config: string
  /** Plugins to load in turn; without them the configuration is loaded. */
  readonly uses?: readonly string[]
  /** The maximum time for loading a plugin. */
  readonly limitMs?: number
  /** A file to write after the first round. Then all are loaded again: with `uses` into one list, otherwise as two results. */
  readonly rewrite?: { readonly path: string; readonly text: string }
}

const { config, uses, limitMs, rewrite } = JSON.parse(process.argv[2]!) as Order
const registry = createRegistry(standIns, limitMs)

let results = uses === undefined ? await whole() : await Promise.all(uses.map(single))
if (rewrite !== undefined) {
  writeFileSync(rewrite.path, rewrite.text)
  if (uses === undefined) results = [results, await whole()]
  else (results as unknown[]).push(...(await Promise.all(uses.map(single))))
}
process.stdout.write(`${JSON.stringify(results)}\n`)
process.exit(0)

async function whole(): Promise<unknown> {
  const result = await loadConfiguration(config, { env: {}, registry })
  if ('problems' in result) return { problems: result.problems.map(each => formatProblem(each)) }
  const { files, routes } = result.configuration
  return { files, steps: routes[0]!.steps.steps.map(({ id, foreign, settings }) => ({ id, foreign, settings })) }
}

/** Loads a plugin. Runs it if its middleware needs only a context. */
async function single(use: string): Promise<unknown> {
  try {
    const { plugin, origin, foreign } = await registry.load(use, { policyFile: config, configFile: config })
    const made = plugin.create({ greeting: 'hello' } as never, {} as never, { policy: 'p', id: 's' })
    const context = {
      headers: {} as Record<string, string>,
      set: (key: string, value: string) => (context.headers[key] = value),
    }
    const ran = typeof made === 'function' ? made(context as never, async () => {}) : undefined
    const error = await Promise.resolve(ran).then(
      () => null,
      (thrown: unknown) => ({ message: (thrown as Error).message, refusal: isRefusal(thrown) }),
    )
    return { name: plugin.name, origin, foreign, headers: context.headers, error }
  } catch (error) {
    return { failed: (error as Error).message }
  }
}
