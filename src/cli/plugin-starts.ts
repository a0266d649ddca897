/**
 * What keeps a configuration from being served although it reads well. Plugins from elsewhere are created for a moment, over
 * services that keep nothing; those that write down what happens are asked whether they could, and write nothing. Policies
 * whose steps can be created have the dry run of a reload.
 */
import { dirname, resolve } from 'node:path'
import type { Configuration, PolicyConfig, StepConfig } from '../config/configuration.ts'
import type { LoadResult } from '../config/load.ts'
import type { Source } from '../config/yaml/source.ts'
import type { RealServices } from '../simulate/services.ts'
import { environmentOf } from './configuration.ts'
import type { Terminal } from './terminal.ts'

/** What was loaded; or the problems of its steps that a start or a reload would meet. */
export async function tryBeginnings(terminal: Terminal, config: string, loaded: LoadResult): Promise<LoadResult> {
  if ('problems' in loaded) return loaded
  const { BUILT_IN } = await import('../loader/builtin.ts')
  const { configuration, reads } = loaded
  const isTried = ({ plugin }: StepConfig) => (plugin.records ? plugin.check !== undefined : !BUILT_IN.includes(plugin))
  const policies = new Map(configuration.routes.map(({ steps }) => [steps.name, steps]))
  // The steps of a derived policy are those of others.
  const tried = [...policies.values()].filter(({ from, steps }) => from === undefined && steps.some(isTried))
  const sources: Source[] = []
  for (const policy of tried) {
    const source = await sourceOf(policy, loaded.sources, environmentOf(terminal, config))
    for (const [i, step] of policy.steps.entries()) {
      if (isTried(step)) await tryStep(source, `/steps/${i}`, step, { policy: policy.name, configuration })
    }
    if (source.problems.length === 0) await dryRunPolicy(source, policy, configuration)
    if (source.problems.length > 0) sources.push(source)
  }
  if (sources.length === 0) return loaded
  return {
    problems: sources.flatMap(source => source.problems),
    sources: new Map(sources.map(source => [source.file, source.text])),
    reads,
  }
}

/** The policy's file once more, with the places of its values. It was read without a problem a moment ago. */
async function sourceOf(
  { steps }: PolicyConfig,
  texts: ReadonlyMap<string, string>,
  env: Terminal['env'],
): Promise<Source> {
  const [{ readSource }, { readTextFile }] = await Promise.all([
    import('../config/yaml/source.ts'),
    import('../config/yaml/text-file.ts'),
  ])
  const { file } = steps[0]!.position
  return readSource(file, texts.get(resolve(file)) ?? '', { env, readFile: readTextFile })
}

async function tryStep(
  source: Source,
  address: string,
  step: StepConfig,
  { policy, configuration }: { readonly policy: string; readonly configuration: Configuration },
): Promise<void> {
  const { id, mode, plugin, settings } = step
  if (mode === 'off') return
  if (plugin.records) {
    const { askPlugin } = await import('../config/policy/step-settings.ts')
    const place = { policy, id, mode, folder: resolve(dirname(source.file)) }
    askPlugin(source, address, { plugin, settings, place })
    return
  }
  const { whyNotCreated } = await import('../simulate/services.ts')
  const why = await whyNotCreated(policy, step, await servicesIn(configuration))
  if (why !== null) source.report(`${address}/use`, why.split('\n', 1)[0]!, { rule: 'broken-plugin' })
}

/** What a reload would find by its dry run. */
async function dryRunPolicy(source: Source, policy: PolicyConfig, configuration: Configuration): Promise<void> {
  const [{ runDry }, { UNHANDLED, watchUnhandled }] = await Promise.all([
    import('../runtime/dry-run.ts'),
    import('../simulate/unhandled.ts'),
  ])
  const rule = 'broken-plugin'
  const endUnhandled = watchUnhandled(
    (kind, words) => source.report('', `in the dry run, ${UNHANDLED[kind]}: ${words}`, { rule }),
    source.file,
  )
  try {
    const routes = configuration.routes.filter(({ steps }) => steps === policy)
    for (const { step, message, suggestion } of await runDry(routes, await servicesIn(configuration), 'check')) {
      const at = policy.steps.findIndex(({ id }) => id === step)
      source.report(at < 0 ? '' : `/steps/${at}/use`, message.split('\n', 1)[0]!, { rule, suggestion })
    }
    await new Promise(resolve => setTimeout(resolve, STRAYS_MS))
  } finally {
    endUnhandled()
  }
}

/** What a step has set going goes wrong a moment later. */
const STRAYS_MS = 20

/** What steps may ask about besides the store, in a gateway that has answered nobody yet. */
async function servicesIn(configuration: Configuration): Promise<RealServices> {
  const [{ createCatalog }, { createPlans }] = await Promise.all([
    import('../config/model-catalog.ts'),
    import('../config/plan-catalog.ts'),
  ])
  return {
    catalog: createCatalog(configuration),
    plans: createPlans(configuration),
    targets: { latencyMs: () => null },
    // A clock of its own, because steps keep by it what they share.
    clock: { now: () => Date.now() },
    random: Math.random,
  }
}
