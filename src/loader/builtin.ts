/** The built-in plugins. No other file in `src` imports plugins. */
import type { AnyPlugin } from '#contract'
import apiKey from '../../plugins/api-key/index.ts'
import cache from '../../plugins/cache/index.ts'
import concurrency from '../../plugins/concurrency/index.ts'
import credits from '../../plugins/credits/index.ts'
import guard from '../../plugins/guard/index.ts'
import jwt from '../../plugins/jwt/index.ts'
import prompt from '../../plugins/prompt/index.ts'
import rateLimit from '../../plugins/rate-limit/index.ts'
import route from '../../plugins/route/index.ts'
import schema from '../../plugins/schema/index.ts'
import tags from '../../plugins/tags/index.ts'
import usageLog from '../../plugins/usage-log/index.ts'
import { createRegistry, type Registry } from './registry.ts'

export const BUILT_IN: readonly AnyPlugin[] = [
  apiKey,
  jwt,
  tags,
  schema,
  prompt,
  guard,
  rateLimit,
  concurrency,
  cache,
  credits,
  route,
  usageLog,
]

export function builtinRegistry(): Registry {
  return createRegistry(BUILT_IN)
}
