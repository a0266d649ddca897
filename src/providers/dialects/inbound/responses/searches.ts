/**
 * OpenAI's search of the web. Providers are asked in chat completions, which have `web_search_options` in place of a tool, for
 * models that search once for each request. So a search cannot be left to the model, nor be told as an item of its own.
 */
import { at, type Fields, isFields, optionalFieldsOf } from './read.ts'

/** Whether a tool, or what a choice names, is a search: `web_search`, `web_search_preview`, with or without a date. */
export const isWebSearch = (type: unknown): boolean => typeof type === 'string' && /^web_search(_|$)/.test(type)

const CARRIED: ReadonlySet<string> = new Set(['type', 'search_context_size', 'user_location'])

/** The first setting that would be lost, because chat completions have no word for it; undefined: there is none. */
export function lostSetting(tool: Fields): string | undefined {
  return Object.keys(tool).find(name => !CARRIED.has(name) && !isUsual(name, tool[name]))
}

/** Says no more than the default does. */
function isUsual(name: string, value: unknown): boolean {
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

/** What a text quotes of the web, nested in chat completions and flat here. */
export function citationsOf(annotations: unknown): readonly Fields[] {
  if (!Array.isArray(annotations)) return []
  return annotations.flatMap((annotation: unknown): Fields[] => {
    const quoted = isFields(annotation) && annotation['type'] === 'url_citation' ? annotation['url_citation'] : null
    if (!isFields(quoted)) return []
    const { start_index, end_index, url, title } = quoted
    return [{ type: 'url_citation', start_index, end_index, url, title }]
  })
}
