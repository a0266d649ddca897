/**
 * Checks whether the steps of a valid configuration can start. External plugins are created temporarily, with services that store
 * nothing. Plugins that write records only check their settings. If all steps of a policy can be created, it gets the dry run of
 * a reload.
 */
import { dirname, resolve } from 'node:path'
import type { Configuration, PolicyConfig, StepConfig } from '../config/configuration.ts'
import type { LoadResult } from '../config/load.ts'
import type { Source } from '../config/yaml/source.ts'
import type { RealServices } from '../simulate/services.ts'
import { environmentOf } from './configuration.ts'
import type { Terminal } from './terminal.ts'

/** Returns `loaded`, or the problems that a start or a reload would have with its steps. */
export async function tryStarts(terminal: Terminal, config: string, loaded: LoadResult): Promise<LoadResult> {
  if ('problems' in loaded) return loaded
  const { BUILT_IN } = await import('../loader/builtin.ts')
  const { configuration, reads } = loaded
  const isTried = ({ plugin }: StepConfig) => (plugin.records ? plugin.check !== undefined : !BUILT_IN.includes(plugin))
  const policies = new Map(configuration.routes.map(({ steps }) => [steps.name, steps]))
  // A derived policy only has steps of other policies.
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

/** Parses the policy's file again, for the positions of its values. */
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
    const { checkWithPlugin } = await import('../config/policy/step-settings.ts')
    const place = { policy, id, mode, folder: resolve(dirname(source.file)) }
    checkWithPlugin(source, address, { plugin, settings, place })
    return
  }
  const { whyNotCreated } = await import('../simulate/services.ts')
  const reason = await whyNotCreated(policy, step, await servicesIn(configuration))
  if (reason !== null) source.report(`${address}/use`, reason.split('\n', 1)[0]!, { rule: 'broken-plugin' })
}

/** Reports the problems that the dry run of a reload would find. */
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
    await new Promise(resolve => setTimeout(resolve, BACKGROUND_MS))
  } finally {
    endUnhandled()
  }
}

/** The time for background work of a step to fail. */
const BACKGROUND_MS = 20

/** The services of steps besides the store, as in a gateway without traffic. */
async function servicesIn(configuration: Configuration): Promise<RealServices> {
  const [{ createCatalog }, { createPlans }] = await Promise.all([
    import('../config/model-catalog.ts'),
    import('../config/plan-catalog.ts'),
  ])
  return {
    catalog: createCatalog(configuration),
    plans: createPlans(configuration),
    targets: { latencyMs: () => null },
    // A new clock for each policy: steps use the clock as the key of their shared state.
    clock: { now: () => Date.now() },
    random: Math.random,
  }
}
