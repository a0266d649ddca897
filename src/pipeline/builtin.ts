/** The plugins that come with the gateway: the only place in `src` that knows them. */
import type { AnyPlugin } from '#contract'
import apiKey from '../../plugins/api-key/index.ts'
import credits from '../../plugins/credits/index.ts'
import rateLimit from '../../plugins/rate-limit/index.ts'
import route from '../../plugins/route/index.ts'
import schema from '../../plugins/schema/index.ts'
import { createRegistry, type Registry } from './registry.ts'

export const BUILT_IN: readonly AnyPlugin[] = [apiKey, schema, rateLimit, credits, route]

export function builtinRegistry(): Registry {
  return createRegistry(BUILT_IN)
}
