/** What a request leaves out, and whether the policy lets it go without. */
import { type Chat, type EncodedRequest, type Exchange, type Refusal, refuse } from '#contract'

/** A tool as such. `tools.function.strict` is a part of one. */
const TOOL = /^(?:tools|functions)$|^tools\.(?!function\.)/

/** Parameters of OpenRouter that say which models and providers may answer: `provider` may ask for one that keeps no data. */
const OPENROUTER: ReadonlySet<string> = new Set(['models', 'provider', 'transforms', 'route', 'plugins'])

/**
 * Why a request must not go without what is left out of it; null when it may.
 * A parameter that was left out on the way into the canonical format (an effort of thinking for a model that has none) is a
 * habit of clients. Tools that a provider would run are a habit too, and only `refuse` refuses them; a choice that forces
 * one was refused before. A tool that the client runs is offered to be called.
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
  const message = `This model's provider does not take '${lost}'. Leave it out.`
  return refuse('unsupported_parameter', { message, param: lost })
}

function toolRefusal(name: string): Refusal {
  const isCodex = name === 'tools.web_search' || name === 'tools.web_search.external_web_access'
  const codex = isCodex ? ` (in Codex's config.toml: web_search = "disabled")` : ''
  const message = `The gateway does not carry '${name}' to this model.${whyNoSearch(name)} Send the request without it${codex}. Or ask the operator for 'on_dropped: tell' at the step 'route', which leaves it out.`
  return refuse('unsupported_parameter', { message, param: name })
}

function whyNoSearch(name: string): string {
  const [, tool, setting] = name.split('.')
  if (!tool?.startsWith('web_search')) return ''
  return setting === undefined
    ? " A model can search the web if its 'allow' lists web_search and it has a target at OpenAI, or at Anthropic for /v1/messages."
    : ' The provider is asked in chat completions, which have no such setting.'
}
