/** Maps reasoning efforts for compatible providers, and switches reasoning off where it excludes a forced call. */
import type { ChatRequest } from '#contract'
import type { Efforts, Quirks } from './profile.ts'

/**
 * The body with the model's effort; the same body if nothing changes.
 * @param dropped receives `reasoning_effort` if the model reasons although it should not, or does not reason at all
 */
export function withReasoning(body: ChatRequest, model: string, quirks: Quirks, dropped: Set<string>): ChatRequest {
  const { efforts, forcing } = quirks
  const { reasoning_effort: effort } = body
  if (forcing?.models.test(model) && forcesCall(body)) {
    if (effort != null && effort !== 'none') dropped.add('reasoning_effort')
    return { ...body, ...forcing.with, reasoning_effort: null }
  }
  if (efforts === undefined || typeof effort !== 'string') return body
  const row = efforts.find(([pattern]) => pattern.test(model))?.[1]
  const fit = row && Object.hasOwn(row, effort) ? row[effort]! : effort
  if (fit === effort) return body
  if (isReported(effort, fit)) dropped.add('reasoning_effort')
  if (typeof fit === 'string') return { ...body, reasoning_effort: fit }
  // The client may have set the provider's own parameters, which have precedence.
  return { ...fit, ...body, reasoning_effort: null }
}

/** From `low` on, an effort becomes the nearest one, which is not reported. `none` and `minimal` are different. */
function isReported(effort: string, fit: Efforts[string]): boolean {
  return fit === null || effort === 'minimal' || (effort === 'none' && typeof fit === 'string')
}

function forcesCall({ tools, tool_choice: choice }: ChatRequest): boolean {
  if (!Array.isArray(tools) || tools.length === 0) return false
  return choice === 'required' || (typeof choice === 'object' && choice !== null)
}
