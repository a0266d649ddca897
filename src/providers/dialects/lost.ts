/** Decides whether a request may be sent without the parameters that were dropped from it. */
import { type Chat, type EncodedRequest, type Exchange, type Refusal, refuse } from '#contract'

/** A tool as a whole. `tools.function.strict` is only a part of one. */
const TOOL = /^(?:tools|functions)$|^tools\.(?!function\.)/

/** OpenRouter parameters that restrict models and providers. `provider` may require one that keeps no data. */
const OPENROUTER: ReadonlySet<string> = new Set(['models', 'provider', 'transforms', 'route', 'plugins'])

/**
 * Why a request must not be sent without its dropped parameters; null if it may. Many clients always send some parameters that the
 * conversion to the canonical format drops, such as a reasoning effort for a model that has none. They also offer tools that a provider
 * would run. Only `refuse` refuses those, and a choice that forces one was refused before. A tool that the client runs is different: the
 * client expects calls of it.
 */
export function refusalOfLost(
  { dropped: before = [] }: Pick<Chat, 'dropped'>,
  { dropped }: Pick<EncodedRequest, 'dropped'>,
  onDropped: Exchange['onDropped'],
): Refusal | null {
  if (onDropped === 'tell' || (before.length === 0 && dropped.length === 0)) return null
  const isTool = (name: string) => TOOL.test(name)
  const hosted = onDropped === 'refuse' ? before.find(isTool) : undefined
  const tool = hosted ?? dropped.find(isTool)
  if (tool !== undefined) return toolRefusal(tool)
  const lost = (onDropped === 'refuse' ? before.find(name => OPENROUTER.has(name)) : undefined) ?? dropped[0]
  if (lost === undefined || onDropped === 'refuse_tools') return null
  const message = `This model's provider does not support '${lost}'. Leave it out.`
  return refuse('unsupported_parameter', { message, param: lost })
}

function toolRefusal(name: string): Refusal {
  const isCodex = name === 'tools.web_search' || name === 'tools.web_search.external_web_access'
  const codex = isCodex ? ` (in Codex's config.toml: web_search = "disabled")` : ''
  const message = `The gateway cannot send '${name}' to this model.${whyNoSearch(name)} Send the request without it${codex}. Or ask the operator for 'on_dropped: tell' at the step 'route', which leaves it out.`
  return refuse('unsupported_parameter', { message, param: name })
}

function whyNoSearch(name: string): string {
  const [, tool, setting] = name.split('.')
  if (!tool?.startsWith('web_search')) return ''
  return setting === undefined
    ? " A model can search the web if its 'allow' lists web_search and it has a target at OpenAI, or at Anthropic for /v1/messages."
    : ' The request is sent as chat completions, which have no such setting.'
}
