/**
 * Converts usage to OpenAI's counting. The provider counts cache reads and cache writes separately from the rest of the prompt. The
 * output includes reasoning in both.
 */
import type { WireUsage } from '#contract'
import { countOf, wireUsage } from '../translate/completion.ts'
import { type Fields, isFields } from '../translate/value.ts'

/** Merges a later `usage` of a stream into an earlier one. The last value of each count is kept. */
export function laterUsage(known: Fields, update: unknown): Fields {
  if (!isFields(update)) return known
  const counts = Object.entries(update).filter(([, value]) => value !== null && value !== undefined)
  return { ...known, ...Object.fromEntries(counts) }
}

/** Null if the prompt was not counted: the gateway then estimates the usage. An answer without a count is counted by the gateway. */
export function usageOf(usage: Fields): WireUsage | null {
  const passes = passesOf(usage)
  const prompt = sum(passes, 'input_tokens')
  const completion = sum(passes, 'output_tokens')
  if (prompt === undefined) return null
  const cached = sum(passes, 'cache_read_input_tokens')
  const [fiveMinutes, hour] = ['ephemeral_5m_input_tokens', 'ephemeral_1h_input_tokens'].map(name =>
    sumWritten(passes, name),
  )
  const cacheWrite =
    sum(passes, 'cache_creation_input_tokens') ?? (hour === undefined ? fiveMinutes : hour + (fiveMinutes ?? 0))
  const details = usage['output_tokens_details']
  const tools = usage['server_tool_use']
  const searches = isFields(tools) ? countOf(tools['web_search_requests']) : undefined
  const reasoning = isFields(details) ? sum([details], 'thinking_tokens') : undefined
  const tier = usage['service_tier']
  const wire = wireUsage({
    prompt: prompt + (cached ?? 0) + (cacheWrite ?? 0),
    completion: completion ?? 0,
    ...(cached === undefined ? {} : { cached }),
    ...(cacheWrite === undefined ? {} : { cacheWrite }),
    ...(hour === undefined ? {} : { cacheWriteHour: hour }),
    ...(reasoning === undefined ? {} : { reasoning }),
    ...(searches === undefined ? {} : { searches }),
  })
  return tier === 'priority' || tier === 'batch' ? { ...wire, service_tier: tier } : wire
}

/** Tokens written to a cache with this TTL: five minutes or an hour. */
function sumWritten(passes: readonly Fields[], name: string): number | undefined {
  const written = passes.map(pass => pass['cache_creation']).filter(isFields)
  return sum(written, name)
}

/**
 * The counts to add up. The totals omit the pass in which the provider shortened the conversation (compaction); its passes are listed
 * then. If a fallback model answered, the totals are complete and the list would count twice.
 */
function passesOf(usage: Fields): readonly Fields[] {
  const listed = usage['iterations']
  if (!Array.isArray(listed)) return [usage]
  const passes = listed.filter(isFields)
  const has = (type: string) => passes.some(pass => pass['type'] === type)
  if (!has('compaction') || has('fallback_message')) return [usage]
  return passes.filter(({ type }) => type === 'compaction' || type === 'message')
}

function sum(passes: readonly Fields[], name: string): number | undefined {
  const counts = passes.map(pass => countOf(pass[name])).filter(count => count !== undefined)
  return counts.length === 0 ? undefined : counts.reduce((total, count) => total + count, 0)
}
