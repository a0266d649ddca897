/** Secrets, each with the only place where it may appear, and the search for them everywhere else. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { ProviderRequest } from '../helpers/fake-provider.ts'
import { seeded } from '../helpers/seeded.ts'

/** A place where a secret may appear. */
export type Place = 'log' | 'answers' | 'metrics' | 'files' | 'commands' | 'upstream'

export interface Canary {
  readonly name: string
  readonly value: string
  /** The place where it must be found; null: it may be nowhere. */
  readonly home: Place | null
  /** Further places where it may appear, because it is secret only to some: a project's name is not secret to the operator. */
  readonly also?: readonly Place[]
}

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'

/** Creates secrets that share nothing with each other except the prefix of their kind. */
export function createCanaries(
  seed: number,
): (name: string, home: Place | null, begin?: string, size?: number, letters?: string) => Canary {
  const random = seeded(seed)
  return (name, home, begin = '', size = 36, letters = LETTERS) => {
    let value = begin
    for (let count = 0; count < size; count++) value += letters[Math.floor(random() * letters.length)]
    return { name, value, home }
  }
}

/** A part of a secret is secret too: this many consecutive characters may not appear. */
const PIECE = 12

/** A line for each secret that is where it must not be, or is missing where it belongs. */
export function misplaced(canaries: readonly Canary[], places: Readonly<Record<Place, string>>): string[] {
  const traces = canaries.map(({ value }) => tracesOf(value))
  return (Object.entries(places) as [Place, string][]).flatMap(([place, text]) => {
    const here = foundIn(text, traces.flat())
    return canaries.flatMap(({ name, value, home, also = [] }, index) => {
      if (also.includes(place)) return []
      if (place === home) return text.includes(value) ? [] : [`${name} is not in ${place}, where it belongs`]
      const found = traces[index]!.find(trace => here.has(trace))
      return found === undefined ? [] : [`${name} is in ${place}: ${excerpt(text, found)}`]
    })
  })
}

/** Finds which of many texts are in a long one, in one pass: by their first four characters, then completely. */
function foundIn(text: string, wanted: readonly string[]): ReadonlySet<string> {
  const byStart = new Map<number, string[]>()
  const mayStart = new Uint8Array(1 << 20)
  const slot = (key: number) => Math.imul(key, 0x9e3779b1) >>> 12
  for (const each of wanted) {
    let key = 0
    for (let at = 0; at < START; at++) key = (key << 8) ^ each.charCodeAt(at)
    byStart.set(key, [...(byStart.get(key) ?? []), each])
    mayStart[slot(key)] = 1
  }
  const found = new Set<string>()
  for (let at = 0, key = 0; at < text.length; at++) {
    key = (key << 8) ^ text.charCodeAt(at)
    if (mayStart[slot(key)] === 0) continue
    for (const each of byStart.get(key) ?? []) if (text.startsWith(each, at - START + 1)) found.add(each)
  }
  return found
}

const START = 4

/** A secret's beginning, middle and end (without the prefix of its kind), and its other encodings. */
function tracesOf(value: string): string[] {
  const middle = (value.length - PIECE) >> 1
  const pieces = [value.slice(-PIECE), value.slice(middle, middle + PIECE), value.slice(-2 * PIECE, -PIECE)]
  // For long ones, such as cloud tokens, parts from anywhere; no prefix is as long as two parts.
  for (let at = 2 * PIECE; at + PIECE <= value.length; at += PIECE) pieces.push(value.slice(at, at + PIECE))
  const others = [Buffer.from(value).toString('base64').slice(4, -4), Buffer.from(value).toString('hex')]
  return [...pieces.filter(piece => piece.length === PIECE), value, encodeURIComponent(value), ...others]
}

function excerpt(text: string, found: string): string {
  const at = text.indexOf(found)
  return JSON.stringify(text.slice(Math.max(0, at - 120), at + found.length + 40))
}

/** Every file of the gateway: the configuration, the database with its log, the spool. */
export function filesOf(folder: string): string {
  return (
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .map(name => join(folder, name))
      .filter(path => statSync(path).isFile())
      // A database is mostly free space.
      .map(path => `${path}\n${readFileSync(path, 'latin1').replace(/\0{2,}/g, '\0')}`)
      .join('\n')
  )
}

/** Everything that was sent to providers. */
export function upstreamOf({ requests }: { readonly requests: readonly ProviderRequest[] }): string {
  return requests
    .map(({ path, rawHeaders, raw }) => `${path}\n${rawHeaders.join(' ')}\n${raw.toString('utf8')}`)
    .join('\n')
}
