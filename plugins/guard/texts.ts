/** Which texts of a request or an answer are looked at: all but those that are names, kinds, numbers, or no text at all. */

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
  // Of a search of the web: what only its provider can read, and in an answer all that was found.
  'encrypted_content',
  'encrypted_index',
  'anthropic_content',
  'url',
  // Pictures, sound and files, as they are or where they lie.
  'data',
  'image_url',
  'input_audio',
  'file',
])

/** One step of the way to a text: a member's name, or an element of a list. */
export type Step = string | Element

export interface Element {
  readonly place: number
  /** The members of an element that are copied when another one is made like it. */
  readonly likeness: Readonly<Record<string, unknown>>
}

/** The same value with its texts replaced; the value itself when none has changed. */
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

/** How many characters are in it, all texts together. */
export function lengthOf(value: unknown): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 0
  let length = 0
  for (const name in value) length += lengthOf((value as Readonly<Record<string, unknown>>)[name])
  return length
}

/** `content[1].text`, as errors say it. */
export function wordsOf(path: readonly Step[]): string {
  return path.reduce<string>((words, step) => {
    if (typeof step !== 'string') return `${words}[${step.place}]`
    return words === '' ? step : `${words}.${step}`
  }, '')
}

/** Whether it is the arguments of a call, which are JSON. */
export function isArguments(path: readonly Step[]): boolean {
  return path.at(-1) === 'arguments'
}

/** An object with nothing but this text, at this place. */
export function objectWith(path: readonly Step[], text: string): Record<string, unknown> {
  const built = path.reduceRight<unknown>((value, step) => {
    if (typeof step === 'string') return { [step]: value }
    return [typeof value === 'string' ? value : { ...step.likeness, ...(value as object) }]
  }, text)
  return built as Record<string, unknown>
}

/** Whether nothing in it says anything. */
export function isSilent(value: unknown): boolean {
  if (value === null || value === undefined || value === '') return true
  if (Array.isArray(value)) return value.every(isSilent)
  if (typeof value !== 'object') return false
  return Object.entries(value).every(([name, each]) => name === 'index' || name === 'type' || isSilent(each))
}

/** In a stream a list's elements come again and again, and say by `index` which one they go on with. */
function elementOf(value: unknown, place: number): Element {
  if (typeof value !== 'object' || value === null) return { place, likeness: {} }
  const { index, type } = value as { readonly index?: unknown; readonly type?: unknown }
  return {
    place: typeof index === 'number' ? index : place,
    likeness: { ...(index === undefined ? {} : { index }), ...(type === undefined ? {} : { type }) },
  }
}
