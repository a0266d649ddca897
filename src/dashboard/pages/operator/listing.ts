/** The running configuration as a listing: lines with their numbers, and what is wrong at each of them. */
import type { ConfigurationView, ProblemView } from '../../../api/views.ts'

type File = ConfigurationView['files'][number]

/** One line of a file. */
export interface ListingLine {
  readonly number: number
  readonly text: string
  readonly problems: readonly ProblemView[]
}

/** One file with its problems: at their lines, and those of lines that the text does not have. */
export interface Listing {
  readonly path: string
  readonly changed: boolean
  readonly lines: readonly ListingLine[]
  /** The file on disk may be longer than the one that runs. */
  readonly beyond: readonly ProblemView[]
}

/**
 * Each file with the problems that name it. Problems are of the files as they are on disk now, and the text is the one that
 * runs: in a changed file a line may have moved, but most changes are small, and the page says so.
 */
export function listingsOf(files: readonly File[], problems: readonly ProblemView[]): Listing[] {
  return files.map(file => {
    const own = problems.filter(problem => isSameFile(problem.file, file.path))
    const lines = linesOf(file.text)
    const isPlaced = (problem: ProblemView) => problem.line >= 1 && problem.line <= lines.length
    return {
      path: file.path,
      changed: file.changed,
      lines: lines.map((text, index) => ({
        number: index + 1,
        text,
        problems: own.filter(problem => isPlaced(problem) && problem.line === index + 1),
      })),
      beyond: own.filter(problem => !isPlaced(problem)),
    }
  })
}

/** Where a problem is, as editors and terminals understand it: `gateway.yaml:12:5`. */
export function placeOf({ file, line, column }: Pick<ProblemView, 'file' | 'line' | 'column'>): string {
  return line > 0 ? `${file}:${line}:${column}` : file
}

/** The address of the `admin` listener as the files say it; null when there is none, or it is filled in from outside. */
export function adminAddress(files: readonly Pick<File, 'text'>[]): string | null {
  for (const { text } of files) {
    const match = /^admin:[ \t]*["']?([^\s"'#]+)/m.exec(text)
    if (match && /^[\w.:[\]-]+$/.test(match[1]!)) return `http://${match[1]}`
  }
  return null
}

/** The last line's end is no line of its own. */
function linesOf(text: string): string[] {
  const lines = text.split(/\r?\n/)
  if (lines.length > 1 && lines.at(-1) === '') lines.pop()
  return lines
}

/** One may be said relative to the other's folder. */
function isSameFile(one: string, other: string): boolean {
  const a = one.replace(/^\.\//, '')
  const b = other.replace(/^\.\//, '')
  return a === b || a.endsWith(`/${b}`) || b.endsWith(`/${a}`)
}
