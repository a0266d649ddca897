/**
 * Run by Node itself, because a test runner answers `import()` in its own way: loads a configuration or single plugins
 * as the gateway does and writes what came of it as one line of JSON.
 */
import { writeFileSync } from 'node:fs'
import { isRefusal } from '#contract'
import { loadConfiguration } from '../../src/config/load.ts'
import { formatProblem } from '../../src/config/yaml/problem.ts'
import { createRegistry } from '../../src/loader/registry.ts'
import { standIns } from '../config/stand-ins.ts'

interface Order {
  readonly config: string
  /** Plugins to load, one after the other; without them the configuration is loaded. */
  readonly uses?: readonly string[]
  /** How long a plugin may take to load. */
  readonly limitMs?: number
  /** Written after the first round, and then all are loaded again: with `uses` in one list, else as two results. */
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

/** Loads a plugin and, when its middleware takes no more than a context, runs it. */
async function single(use: string): Promise<unknown> {
  try {
    const { plugin, origin, foreign } = await registry.load(use, { saidIn: config, configFile: config })
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
