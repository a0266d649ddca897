/** Values from outside: looked at before they are believed. */
export type Fields = Readonly<Record<string, unknown>>

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The text, or an empty one for anything else. */
export function textIn(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
