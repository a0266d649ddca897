import type { Configuration } from './configuration.ts'

/** A target that has a health record. */
export interface TargetEntry {
  readonly id: string
  readonly provider: string
  /** The models that lead to it. Raw routes have none. */
  readonly models: readonly string[]
}

/** The targets of all models, then the providers of raw routes: each of these is one target. */
export function targetsOf({ models, routes }: Pick<Configuration, 'models' | 'routes'>): readonly TargetEntry[] {
  const targets = new Map<string, TargetEntry & { readonly models: string[] }>()
  for (const model of models.values()) {
    for (const { id, provider } of model.targets) {
      const existing = targets.get(id)
      if (existing) existing.models.push(model.id)
      else targets.set(id, { id, provider, models: [model.id] })
    }
  }
  for (const { raw } of routes) {
    if (raw !== null) targets.set(raw.provider.name, { id: raw.provider.name, provider: raw.provider.name, models: [] })
  }
  return [...targets.values()]
}
