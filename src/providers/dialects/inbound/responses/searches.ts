/**
 * OpenAI's web search. Providers get chat completions, which have `web_search_options` instead of a tool, for models that search once
 * for each request. So the model cannot decide whether to search, and the answer has no search item.
 */
import { at, type Fields, isFields, optionalFieldsOf } from './read.ts'

/** Whether a tool or a choice is a web search: `web_search`, `web_search_preview`, with or without a date. */
export const isWebSearch = (type: unknown): boolean => typeof type === 'string' && /^web_search(_|$)/.test(type)

const CARRIED: ReadonlySet<string> = new Set(['type', 'search_context_size', 'user_location'])

/** The first setting that chat completions do not have; undefined if all can be converted. */
export function lostSetting(tool: Fields): string | undefined {
  return Object.keys(tool).find(name => !CARRIED.has(name) && !isDefault(name, tool[name]))
}

/** Whether a setting equals the default. */
function isDefault(name: string, value: unknown): boolean {
  if (value == null) return true
  return name === 'external_web_access' ? value === true : isFields(value) && Object.values(value).every(isNothing)
}

const isNothing = (value: unknown) => value == null || (Array.isArray(value) && value.length === 0)

/** The tool as `web_search_options`. */
export function searchOptions(tool: Fields, place: string): Fields {
  const size = tool['search_context_size']
  const location = optionalFieldsOf(tool['user_location'], at(place, 'user_location'))
  return {
    ...(size == null ? {} : { search_context_size: size }),
    ...(location === null ? {} : { user_location: { type: 'approximate', approximate: approximate(location) } }),
  }
}

function approximate({ type: _, ...known }: Fields): Fields {
  return Object.fromEntries(Object.entries(known).filter(([, value]) => value != null))
}

/** The web citations of a text, nested in chat completions and flat here. */
export function citationsOf(annotations: unknown): readonly Fields[] {
  if (!Array.isArray(annotations)) return []
  return annotations.flatMap((annotation: unknown): Fields[] => {
    const quoted = isFields(annotation) && annotation['type'] === 'url_citation' ? annotation['url_citation'] : null
    if (!isFields(quoted)) return []
    const { start_index, end_index, url, title } = quoted
    return [{ type: 'url_citation', start_index, end_index, url, title }]
  })
}
