/**
 * Words and openings that make a reader read a sentence twice. `test/tidy.test.ts` counts them by folder, in code, comments, errors,
 * pages and test names. Each count has a ceiling in words.json, so that none is added.
 */
import { read } from './repository.ts'

const COMMENT = String.raw`(?:^\s*(?:\/\*\*?|\*|\/\/)|\s\/\/)\s+`

/** What is counted, and what to write instead. */
const WORDS: readonly (readonly [pattern: RegExp, instead: string])[] = [
  [/\btold\b/gi, 'reported, returned, logged'],
  [/\btells?\b/gi, 'reports, returns, shows'],
  [/\b(?:whoever|nobody|somebody|everybody)\b/gi, 'the client, the caller, the operator; "no one" of persons only'],
  [/\bunder way\b/gi, 'in progress'],
  [/\blets? go of\b/gi, 'released, closed'],
  [/\bgone\b/gi, 'disconnected, closed, removed, ended'],
  [/\bstands?\b/gi, 'is'],
  [/\bis no [a-z]/gi, 'is not a'],
  [/\bis none\b/gi, 'is missing'],
  [
    new RegExp(`${COMMENT}(?:Who|What|So many|So long|Of them)\\b`, 'gm'),
    'a noun: "The most …", "Whether …", "Clients that …"',
  ],
  [/\b(?:interface|type|class|enum) (?:Told|Asked|Found|Said|Seen|Known|Waiting)\b/g, 'a noun or verb of the field'],
]

/** These hold the words themselves. */
const LISTS = ['test/helpers/words.ts']

const TEXTS = /\.(?:tsx?|js|mjs|md|yaml|css|html)$/

/** How many there are in each folder: `src/store`, `plugins/guard`, `test/gateway`, or `.` for the top. */
export function wordsByFolder(files: readonly string[]): Record<string, number> {
  const counts = new Map<string, number>()
  for (const file of files.filter(each => TEXTS.test(each) && !LISTS.includes(each))) {
    const text = read(file)
    const count = WORDS.reduce((sum, [pattern]) => sum + (text.match(pattern)?.length ?? 0), 0)
    if (count > 0) counts.set(folderOf(file), (counts.get(folderOf(file)) ?? 0) + count)
  }
  return Object.fromEntries([...counts].toSorted(([one], [other]) => (one < other ? -1 : 1)))
}

/** `FILE:LINE: word (write …)` for each in the files of a folder. */
export function wordsIn(files: readonly string[], folder: string): string[] {
  return files
    .filter(each => TEXTS.test(each) && !LISTS.includes(each) && folderOf(each) === folder)
    .flatMap(file =>
      WORDS.flatMap(([pattern, instead]) =>
        [...read(file).matchAll(pattern)].map(match => {
          const line = read(file).slice(0, match.index).split('\n').length
          return `${file}:${line}: "${match[0].trim()}" (write: ${instead})`
        }),
      ),
    )
}

function folderOf(file: string): string {
  const parts = file.split('/')
  return parts.length === 1 ? '.' : parts.slice(0, Math.min(2, parts.length - 1)).join('/')
}
