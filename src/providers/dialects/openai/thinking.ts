/** How much a relative thinks, in its own words, and what it cannot do while it does. */
import type { ChatRequest } from '#contract'
import type { Efforts, Quirks } from './profile.ts'

/**
 * The body with its effort as the model takes it; of a body in which nothing differs, the same one.
 * @param dropped takes the name where a model thinks that was not to, or does not at all
 */
export function withThinking(body: ChatRequest, model: string, quirks: Quirks, dropped: Set<string>): ChatRequest {
  const { efforts, forcing } = quirks
  const { reasoning_effort: effort } = body
  if (forcing?.models.test(model) && demandsCall(body)) {
    if (effort != null && effort !== 'none') dropped.add('reasoning_effort')
    return { ...body, ...forcing.with, reasoning_effort: null }
  }
  if (efforts === undefined || typeof effort !== 'string') return body
  const row = efforts.find(([pattern]) => pattern.test(model))?.[1]
  const fit = row && Object.hasOwn(row, effort) ? row[effort]! : effort
  if (fit === effort) return body
  if (isReported(effort, fit)) dropped.add('reasoning_effort')
  if (typeof fit === 'string') return { ...body, reasoning_effort: fit }
  // The client may have said it in the provider's own words, which count more.
  return { ...fit, ...body, reasoning_effort: null }
}

/** From `low` on a word becomes the nearest one that there is. The two below it are wishes of another kind. */
function isReported(effort: string, fit: Efforts[string]): boolean {
  return fit === null || effort === 'minimal' || (effort === 'none' && typeof fit === 'string')
}

function demandsCall({ tools, tool_choice: choice }: ChatRequest): boolean {
  if (!Array.isArray(tools) || tools.length === 0) return false
  return choice === 'required' || (typeof choice === 'object' && choice !== null)
}
