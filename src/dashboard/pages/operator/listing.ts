/** The running configuration as a listing: numbered lines with their problems. */
import type { ConfigurationView, ProblemView } from '../../../api/views.ts'

type File = ConfigurationView['files'][number]

/** One line of a file. */
export interface ListingLine {
  readonly number: number
  readonly text: string
  readonly problems: readonly ProblemView[]
}

/** A file with its problems: at their lines, or `beyond` the text. */
export interface Listing {
  readonly path: string
  readonly changed: boolean
  readonly lines: readonly ListingLine[]
  /** Problems at lines that the text does not have: the file on disk may be longer. */
  readonly beyond: readonly ProblemView[]
}

/**
 * Each file with its problems. The problems are of the files on disk, but the text is the running one, so the lines of a changed
 * file may have moved. The page says so.
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

/** The place of a problem, as editors and terminals expect it: `gateway.yaml:12:5`. */
export function placeOf({ file, line, column }: Pick<ProblemView, 'file' | 'line' | 'column'>): string {
  return line > 0 ? `${file}:${line}:${column}` : file
}

/** The address of the `admin` listener in the files; null if it is missing or comes from a variable. */
export function adminAddress(files: readonly Pick<File, 'text'>[]): string | null {
  for (const { text } of files) {
    const match = /^admin:[ \t]*["']?([^\s"'#]+)/m.exec(text)
    if (match && /^[\w.:[\]-]+$/.test(match[1]!)) return `http://${match[1]}`
  }
  return null
}

/** A final line break does not begin another line. */
function linesOf(text: string): string[] {
  const lines = text.split(/\r?\n/)
  if (lines.length > 1 && lines.at(-1) === '') lines.pop()
  return lines
}

/** Compares two paths. One may be relative to the folder of the other. */
function isSameFile(one: string, other: string): boolean {
  const a = one.replace(/^\.\//, '')
  const b = other.replace(/^\.\//, '')
  return a === b || a.endsWith(`/${b}`) || b.endsWith(`/${a}`)
}
