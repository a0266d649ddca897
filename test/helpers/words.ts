/**
 * Words, openings and sentences that make a reader read twice. `test/tidy.test.ts` refuses them in code, comments, errors, pages and test
 * names.
 */
import { read } from './repository.ts'

const COMMENT = String.raw`(?:^\s*(?:\/\*\*?|\*|\/\/)|\s\/\/)\s+`

/** Each pattern with the words to write instead. */
const WORDS: readonly (readonly [pattern: RegExp, instead: string])[] = [
  [/\btold\b/gi, 'reported, returned, logged'],
  // `on_dropped: tell` is a setting.
  [/(?<!['"`]|on_dropped: )\btells?\b(?!['"`])/gi, 'reports, returns, shows'],
  [/\btell[A-Z]\w*/g, 'report…, send…, show…'],
  // `per: everybody` is a setting.
  [
    /\b(?:whoever|nobody|somebody)\b|(?<!['"`]|per: )\beverybody\b(?!['"`])/gi,
    'the client, the caller, the operator; "no one" of persons only',
  ],
  [/\bunder way\b/gi, 'in progress'],
  [/\blets? go of\b/gi, 'released, closed'],
  [/\bgone\b/gi, 'disconnected, closed, removed, ended'],
  [/\bstands?\b(?!-)/gi, 'is'],
  [/\b(?:goes|go|went) up\b/gi, 'rises, is sent, starts'],
  [/\bis no [a-z]/gi, 'is not a'],
  [/\bis none\b/gi, 'is missing'],
  [
    new RegExp(`${COMMENT}(?:Who|What|So many|So long|Of them)\\b`, 'gm'),
    'a noun: "The most …", "Whether …", "Clients that …"',
  ],
  [
    /\b(?:interface|type|class|enum) (?:Told|Asked|Found|Said|Seen|Known|Waiting|Ending|Wanted|Knowledge|Patient)\b/g,
    'a noun or verb of the field',
  ],
  [/\bisSick\b/g, 'isFailing'],
]

/** Words that are right in a file. */
const RIGHT: readonly { readonly file: string; readonly word: string; readonly reason: string }[] = [
  { file: 'src/config/policy/limit-warnings.ts', word: 'everybody', reason: 'a value of `per`' },
  { file: 'src/api/server.ts', word: 'nobody', reason: 'the value of `actor` in the log' },
  { file: 'test/gateway/dropped.test.ts', word: 'tell', reason: 'a value of `on_dropped`' },
  { file: 'test/api/inputs.test.ts', word: 'nobody', reason: 'the value of `actor` in the log' },
  { file: 'test/api/journal.test.ts', word: 'nobody', reason: 'the value of `actor` in the log' },
  { file: 'test/helpers/postgres.ts', word: 'nobody', reason: 'a user of the system' },
  { file: 'src/providers/demo/tools.ts', word: 'tell', reason: 'a word of messages, in a list of common words' },
]

/** A sentence of a comment or a page has no more words. A code span is one word. */
const MOST_WORDS = 25

/** Files with the words themselves, and a page that is made from the schema of settings. */
const LISTS = ['test/helpers/words.ts', 'src/config/REFERENCE.md']

const TEXTS = /\.(?:tsx?|js|mjs|md|yaml|css|html)$/
const PROGRAMS = /\.(?:tsx?|js|mjs)$/

/** All findings, as `FILE:LINE: "word" (write: …)`. */
export function hardWords(files: readonly string[]): readonly string[] {
  return files
    .filter(each => TEXTS.test(each) && !LISTS.includes(each))
    .flatMap(file => {
      const text = read(file)
      const lineOf = (index: number): number => text.slice(0, index).split('\n').length
      const words = WORDS.flatMap(([pattern, instead]) =>
        [...text.matchAll(pattern)]
          .filter(([match]) => !RIGHT.some(each => each.file === file && each.word === match.trim().toLowerCase()))
          .map(match => `${file}:${lineOf(match.index)}: "${match[0].trim()}" (write: ${instead})`),
      )
      const long = longSentences(file, text).map(
        ({ index, sentence, count }) => `${file}:${lineOf(index)}: ${count} words (write two sentences): ${sentence}`,
      )
      return [...words, ...long]
    })
}

interface LongSentence {
  /** Where its block of text begins in the file. */
  readonly index: number
  readonly sentence: string
  readonly count: number
}

function longSentences(file: string, text: string): LongSentence[] {
  const blocks = PROGRAMS.test(file) ? commentsOf(text) : file.endsWith('.md') ? paragraphsOf(text) : []
  return blocks.flatMap(({ index, block }) =>
    sentencesOf(block).flatMap(sentence => {
      const count = sentence.split(' ').filter(word => /\w/.test(word)).length
      return count > MOST_WORDS ? [{ index, sentence, count }] : []
    }),
  )
}

interface Block {
  readonly index: number
  readonly block: string
}

/** Strings come first, because they may contain the beginning of a comment. */
const STRING_OR_COMMENT =
  /'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`|\/\*[\s\S]*?\*\/|(?:^[ \t]*\/\/[^\n]*\n?)+|\/\/[^\n]*/gm

function commentsOf(text: string): Block[] {
  return [...text.matchAll(STRING_OR_COMMENT)]
    .filter(([match]) => /^\s*\/[/*]/.test(match))
    .map(({ 0: match, index }) => ({ index, block: match.replace(/\*\/|\/\*\*?|^\s*(?:\/\/|\*) ?/gm, '') }))
}

/** Cells of tables, items of lists and paragraphs, without blocks of code, headings and addresses. */
function paragraphsOf(text: string): Block[] {
  const blank = (match: string): string => match.replace(/[^\n]/g, ' ')
  const prose = text
    .replace(/^```[\s\S]*?^```/gm, blank)
    .replace(/^#.*$/gm, blank)
    .replace(/\]\([^)]*\)/g, match => `]${' '.repeat(match.length - 1)}`)
  return [
    ...prose.matchAll(/(?:^(?!\s*$|\||\s*[-*] |\s*\d+\. ).*\n?)+|(?<=\|)[^|\n]+|^\s*(?:[-*]|\d+\.) .*\n(?:^ +.*\n)*/gm),
  ].map(({ 0: block, index }) => ({ index, block }))
}

function sentencesOf(block: string): string[] {
  return block
    .split(/\n\s*\n|\n(?=\s*(?:[-*|@]|\d+\.)\s?)/)
    .flatMap(part =>
      part
        .replace(/`[^`]*`/g, 'x')
        .replace(/\s+/g, ' ')
        .split(/(?<=[.!?])\s+/),
    )
    .map(sentence => sentence.trim())
}
