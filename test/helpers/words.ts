/**
 * Words and openings that make a reader read a sentence twice. `test/tidy.test.ts` counts them by folder, in code, comments, errors,
 * pages and test names. Each count has a ceiling in words.json, so that none is added.
 */
import { read } from './repository.ts'

const COMMENT = String.raw`(?:^\s*(?:\/\*\*?|\*|\/\/)|\s\/\/)\s+`

/** Each pattern with the words to write instead. */
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

/** The findings of each folder that has some, as `FILE:LINE: "word" (write: …)`. A folder: `src/store`, `test/gateway`, or `.` for the top. */
export function wordsByFolder(files: readonly string[]): Record<string, string[]> {
  const folders: Record<string, string[]> = {}
  for (const file of files.filter(each => TEXTS.test(each) && !LISTS.includes(each))) {
    const text = read(file)
    const found = WORDS.flatMap(([pattern, instead]) =>
      [...text.matchAll(pattern)].map(match => {
        const line = text.slice(0, match.index).split('\n').length
        return `${file}:${line}: "${match[0].trim()}" (write: ${instead})`
      }),
    )
    if (found.length > 0) (folders[folderOf(file)] ??= []).push(...found)
  }
  return folders
}

function folderOf(file: string): string {
  const parts = file.split('/')
  return parts.length === 1 ? '.' : parts.slice(0, Math.min(2, parts.length - 1)).join('/')
}
