/** Reads price lists from a file or a web address, with limits on size and time. */
import { stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { type ListProblem, MARK } from '../../catalog/listed-model.ts'
import { type PriceList, readPriceList } from '../../catalog/price-list.ts'
import { isLoopback } from '../../config/listen-address.ts'
import { listSource } from '../../config/price-lists.ts'
import { formatProblem } from '../../config/yaml/problem.ts'
import { decodeUtf8, MAX_LIST_BYTES, readTextFile } from '../../config/yaml/text-file.ts'
import { pathOf } from '../commands.ts'
import { shownPath } from '../configuration.ts'
import { CommandError, type Terminal } from '../terminal.ts'

/** A price list with its text. */
export interface ListInput {
  /** The path of the file, or the address without its query, for problems. */
  readonly file: string
  /** The name for people and for the mark in a written list. */
  readonly from: string
  readonly text: string
  readonly list: PriceList
  /** The list's date as YYYY-MM-DD: its own, else the file's modification date, or today for an address. */
  readonly date: string
}

export interface InputLimits {
  readonly ms: number
  readonly bytes: number
}

const LIMITS: InputLimits = { ms: 30_000, bytes: MAX_LIST_BYTES }
const MIB = 1024 * 1024

/**
 * Reads a price list. Throws a `CommandError` if the file or address has none.
 * @param from a path, or an https address (http on this machine)
 */
export async function readListInput(
  terminal: Terminal,
  from: string,
  today: Date,
  limits: InputLimits = LIMITS,
): Promise<ListInput> {
  const input = /^[a-z][a-z0-9+.-]*:\/\//i.test(from)
    ? { ...(await download(from, limits)), day: dayOf(today) }
    : await readFrom(terminal, from, today, limits)
  if (/^\s*</.test(input.text)) {
    throw new CommandError(
      `${input.from} is an HTML page, not a price list in JSON. Use the address of the file itself.`,
    )
  }
  const list = readPriceList(basename(input.file), input.text)
  return { ...input, list, date: list.date ?? input.day }
}

const dayOf = (date: Date): string => date.toISOString().slice(0, 10)

type Input = Pick<ListInput, 'file' | 'from' | 'text'>

async function readFrom(
  terminal: Terminal,
  from: string,
  today: Date,
  { bytes }: InputLimits,
): Promise<Input & { day: string }> {
  const path = pathOf(terminal, from)
  try {
    const text = await readTextFile(path, bytes)
    const { mtime } = await stat(path)
    return { file: path, from: basename(path), text, day: dayOf(mtime < today ? mtime : today) }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw new CommandError(`${from} cannot be read: ${code === 'ENOENT' ? 'the file does not exist' : message}.`)
  }
}

async function download(address: string, { ms, bytes }: InputLimits): Promise<Input> {
  const url = URL.parse(address)
  // The message does not show the address: it may contain a password.
  if (url === null) throw new CommandError('The address of the price list is malformed.')
  // Without the query, which may contain a token.
  const from = `${url.protocol}//${url.host}${url.pathname}`
  if (url.username !== '' || url.password !== '') {
    throw new CommandError(`The address at ${url.host} contains a password. Remove it.`)
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw new CommandError(`${from} is not an https address. Write a file as its path.`)
  }
  if (url.protocol === 'http:' && !isLoopback(url.hostname)) {
    throw new CommandError(`${from} is not https: others could change the prices on the way.`)
  }
  const signal = AbortSignal.timeout(ms)
  try {
    const response = await fetch(url, { signal, redirect: 'manual', headers: { accept: 'application/json' } })
    if (response.status >= 300 && response.status < 400) {
      const next = URL.parse(response.headers.get('location') ?? '', url)
      throw new CommandError(
        `${from} redirects to another address: ${next ? `${next.origin}${next.pathname}` : 'none'}. Use that one.`,
      )
    }
    if (response.status !== 200) throw new CommandError(`${from} answered with status ${response.status}.`)
    return { file: from, from, text: decodeUtf8(await bounded(response, from, bytes)) }
  } catch (error) {
    if (error instanceof CommandError) throw error
    if (signal.aborted) throw new CommandError(`${from} did not send the whole list within ${ms / 1000} s.`)
    const { message, cause } = error as Error & { cause?: Error }
    throw new CommandError(`${from} cannot be read: ${cause?.message || message}.`)
  }
}

async function bounded(response: Response, from: string, most: number): Promise<Buffer> {
  const pieces: Uint8Array[] = []
  let length = 0
  for await (const piece of response.body ?? []) {
    length += piece.length
    if (length > most) throw new CommandError(`${from} is larger than ${most / MIB} MiB.`)
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

/** Formats mistakes of a list with their places; empty if there are none. */
export function listProblemText(
  terminal: Terminal,
  { file, text }: Pick<ListInput, 'file' | 'text'>,
  problems: readonly ListProblem[],
): string {
  const shown = shownPath(terminal, file)
  const found = listSource(shown, text, new Set(problems))?.problems ?? []
  return found.map(problem => `${formatProblem(problem, text)}\n`).join('')
}

/** Problems of a list's date: it must not be older than the list in use, nor in the future. */
export function dateProblems({ list, date }: ListInput, inUse: PriceList | null, today: Date): ListProblem[] {
  const path = list.date === null ? [] : [MARK, 'date']
  if (date > dayOf(today)) return [{ path, message: `the date of the price list (${date}) is in the future` }]
  if (inUse?.date == null || date >= inUse.date) return []
  const message = `the price list (${date}) is older than ${inUse.name}, which is in use (${inUse.date})`
  return [{ path, message, suggestion: 'use a newer list' }]
}
