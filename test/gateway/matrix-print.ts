/** Prints the matrix as a table: a line per fault with its outcomes; dialects with other outcomes are listed separately. */
import type { Cell, CellResult } from './matrix-run.ts'

/** Short names of the outcomes. An error in the middle of a stream has a `~` in front. */
const SHORT: Readonly<Record<string, string>> = {
  upstream_unreachable: 'unreachable',
  upstream_timeout: 'late',
  upstream_invalid: 'invalid',
  upstream_too_large: 'large',
  upstream_truncated: 'cut',
  upstream_error: 'error',
  upstream_overloaded: 'busy',
  upstream_rate_limited: '429',
  upstream_auth: 'auth',
  upstream_quota: 'quota',
  upstream_rejected: '400',
  context_length_exceeded: 'long',
  model_not_found: '404',
  request_too_large: '413',
}

interface Outcome {
  /** Without a second provider, and with one. */
  alone?: string
  spared?: string
}

export interface Matrix {
  add(cell: Cell, seen: CellResult): void
  /** Each cell on a line, with charge and time. */
  lines(): string
  /** One fault per line: whole, then streamed. */
  table(): string
}

export function matrix(): Matrix {
  const lines: string[] = []
  /** By fault, dialect and mode. */
  const faults = new Map<string, Map<string, { readonly whole: Outcome; readonly stream: Outcome }>>()

  function outcomesOf({ title, voice }: Cell) {
    const dialects = faults.get(title) ?? new Map<string, { readonly whole: Outcome; readonly stream: Outcome }>()
    faults.set(title, dialects)
    const outcomes = dialects.get(voice.dialect) ?? { whole: {}, stream: {} }
    dialects.set(voice.dialect, outcomes)
    return outcomes
  }

  return {
    add(cell, seen) {
      outcomesOf(cell)[cell.mode][cell.spare ? 'spared' : 'alone'] = outcomeOf(seen)
      lines.push(lineOf(cell, seen))
    },
    lines: () => lines.join('\n'),
    table() {
      const rows = [...faults].map(([title, dialects]) => {
        const groups = Map.groupBy(dialects, ([, { whole, stream }]) => `${wordOf(whole)} | ${wordOf(stream)}`)
        const [usual, ...others] = [...groups].toSorted(([, one], [, other]) => other.length - one.length)
        const apart = others.map(([words, some]) => `${some.map(([dialect]) => dialect).join(', ')}: ${words}`)
        return `${title.slice(0, 54).padEnd(56)}${[`(${usual![1].length}) ${usual![0]}`, ...apart].join('; ')}`
      })
      const legend = Object.entries(SHORT).map(([code, short]) => `${short} is ${code}`)
      return [
        ...rows,
        'whole | streamed; (n): number of dialects; a>b: a, and with another provider b; ~: an event after the first token',
        legend.join(', '),
      ].join('\n')
    },
  }
}

function wordOf({ alone = '-', spared = alone }: Outcome): string {
  return alone === spared ? alone : `${alone}>${spared}`
}

function lineOf({ title, voice, mode, spare }: Cell, seen: CellResult): string {
  const who = spare ? `${voice.dialect} (${spare.dialect})` : voice.dialect
  const columns = [title.slice(0, 54).padEnd(56), who.padEnd(36), mode.padEnd(6), outcomeOf(seen).padEnd(12)]
  return [...columns, `${seen.receipt?.charged} n$`.padStart(12), `${seen.ms.toFixed(0)} ms`.padStart(8)].join('  ')
}

function outcomeOf({ status, text }: CellResult): string {
  const code = /"code":"(\w+)"\}\}\s*$/.exec(text)?.[1]
  if (code === undefined) return status === 200 ? 'ok' : String(status)
  return (status === 200 ? '~' : '') + (SHORT[code] ?? code)
}
