/** Selects the texts of a request or an answer that rules search: not names, kinds or numbers. */

const NO_TEXT: ReadonlySet<string> = new Set([
  'role',
  'type',
  'id',
  'name',
  'index',
  'format',
  'tool_call_id',
  'finish_reason',
  'cache_control',
  'signature',
  // Web search: data that only the provider can read, and in an answer the search results.
  'encrypted_content',
  'encrypted_index',
  'anthropic_content',
  'url',
  // Images, audio and files: their data or addresses.
  'data',
  'image_url',
  'input_audio',
  'file',
])

/** One step of a path to a text: the name of a member, or an element of a list. */
export type Step = string | Element

export interface Element {
  readonly place: number
  /** `index` and `type` of an element, to build another one like it. */
  readonly likeness: Readonly<Record<string, unknown>>
}

/** Returns a copy of the value with its texts changed; the value itself if no text changed. */
export function mapTexts(
  value: unknown,
  change: (text: string, path: readonly Step[]) => string,
  path: readonly Step[] = [],
): unknown {
  if (typeof value === 'string') return value === '' ? value : change(value, path)
  if (Array.isArray(value)) {
    const mapped = value.map((each, i) => mapTexts(each, change, [...path, elementOf(each, i)]))
    return mapped.some((each, i) => each !== value[i]) ? mapped : value
  }
  if (typeof value !== 'object' || value === null) return value
  let changed: Record<string, unknown> | null = null
  for (const [name, each] of Object.entries(value)) {
    if (NO_TEXT.has(name)) continue
    const mapped = mapTexts(each, change, [...path, name])
    if (mapped !== each) (changed ??= { ...value })[name] = mapped
  }
  return changed ?? value
}

/** Returns the length of all strings in a value, in UTF-16 units. */
export function lengthOf(value: unknown): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 0
  let length = 0
  for (const name in value) length += lengthOf((value as Readonly<Record<string, unknown>>)[name])
  return length
}

/** Returns a path as errors write it: `content[1].text`. */
export function pathText(path: readonly Step[]): string {
  return path.reduce<string>((words, step) => {
    if (typeof step !== 'string') return `${words}[${step.place}]`
    return words === '' ? step : `${words}.${step}`
  }, '')
}

/** Whether the text is the arguments of a call, which are JSON. */
export function isArguments(path: readonly Step[]): boolean {
  return path.at(-1) === 'arguments'
}

/** Returns an object that has only this text, at this path. */
export function objectWith(path: readonly Step[], text: string): Record<string, unknown> {
  const built = path.reduceRight<unknown>((value, step) => {
    if (typeof step === 'string') return { [step]: value }
    return [typeof value === 'string' ? value : { ...step.likeness, ...(value as object) }]
  }, text)
  return built as Record<string, unknown>
}

/** Whether a value has no content. `index` and `type` do not count. */
export function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined || value === '') return true
  if (Array.isArray(value)) return value.every(isEmpty)
  if (typeof value !== 'object') return false
  return Object.entries(value).every(([name, each]) => name === 'index' || name === 'type' || isEmpty(each))
}

/** In a stream, elements of a list repeat; their `index` names the element that they continue. */
function elementOf(value: unknown, place: number): Element {
  if (typeof value !== 'object' || value === null) return { place, likeness: {} }
  const { index, type } = value as { readonly index?: unknown; readonly type?: unknown }
  return {
    place: typeof index === 'number' ? index : place,
    likeness: { ...(index === undefined ? {} : { index }), ...(type === undefined ? {} : { type }) },
  }
}
