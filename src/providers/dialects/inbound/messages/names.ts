/** Names of tools: this format takes longer ones than most providers do, so those are shortened on the way. */
import { createHash } from 'node:crypto'

/** Longer names are refused by most providers. */
const LONGEST = 64
const DIGEST = 8

/** What a tool is called towards the provider. The same in every request, as earlier calls are sent along. */
export function shortName(name: string): string {
  if (name.length <= LONGEST) return name
  const digest = createHash('sha256').update(name).digest('hex').slice(0, DIGEST)
  return `${name.slice(0, LONGEST - DIGEST - 1)}_${digest}`
}

/** The client's own names of the tools that were shortened, by the short ones. */
export function longNames(names: readonly string[]): ReadonlyMap<string, string> {
  return new Map(names.filter(name => name.length > LONGEST).map(name => [shortName(name), name]))
}
