/** Shortens names of tools: this format allows longer names than most providers. */
import { createHash } from 'node:crypto'

/** Most providers refuse longer names. */
const LONGEST = 64
const DIGEST = 8

/** The tool's name for the provider. It is always the same, because earlier calls are sent again. */
export function shortName(name: string): string {
  if (name.length <= LONGEST) return name
  const digest = createHash('sha256').update(name).digest('hex').slice(0, DIGEST)
  return `${name.slice(0, LONGEST - DIGEST - 1)}_${digest}`
}

/** The client's names of the shortened tools, by the short names. */
export function longNames(names: readonly string[]): ReadonlyMap<string, string> {
  return new Map(names.filter(name => name.length > LONGEST).map(name => [shortName(name), name]))
}
