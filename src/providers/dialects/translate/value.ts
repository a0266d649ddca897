/** Checks of unknown values. */
export type Fields = Readonly<Record<string, unknown>>

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The text, or an empty one for any other value. */
export function textIn(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
