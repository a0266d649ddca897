import type { Configuration } from './configuration.ts'

/** A target whose health is known, as a configuration has it. */
export interface AskedTarget {
  readonly id: string
  readonly provider: string
  /** The models that lead to it. Raw routes have none. */
  readonly models: readonly string[]
}

/** The targets of all models, then the providers of raw routes: each of these is one target. */
export function targetsOf({ models, routes }: Pick<Configuration, 'models' | 'routes'>): readonly AskedTarget[] {
  const found = new Map<string, AskedTarget & { readonly models: string[] }>()
  for (const model of models.values()) {
    for (const { id, provider } of model.targets) {
      const known = found.get(id)
      if (known) known.models.push(model.id)
      else found.set(id, { id, provider, models: [model.id] })
    }
  }
  for (const { raw } of routes) {
    if (raw !== null) found.set(raw.provider.name, { id: raw.provider.name, provider: raw.provider.name, models: [] })
  }
  return [...found.values()]
}
