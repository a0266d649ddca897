/** The repository as text: its files, their imports, and the tables, sections and samples of its pages. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The top of the repository. */
export const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** A file by its path from the top. */
export function read(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8')
}

/** Output of tools, which git ignores. */
const MADE = new Set(['.git', 'node_modules', '.tollgate', 'dist', 'coverage', '.DS_Store'])

/** Every file by its path from the top. */
export function allFiles(folder = ROOT): string[] {
  return readdirSync(folder)
    .filter(name => !MADE.has(name) && !/\.(log|tgz)$/.test(name))
    .flatMap(name => {
      const path = join(folder, name)
      return statSync(path).isDirectory() ? allFiles(path) : [relative(ROOT, path)]
    })
    .sort()
}

/** Whether a file is used by tests only. */
export function isTestFile(file: string): boolean {
  return file.startsWith('test/') || file.endsWith('.test.ts') || basename(file).startsWith('test-')
}

export interface Import {
  readonly specifier: string
  /** The imported file by its path from the top; null for a package. */
  readonly target: string | null
}

/** Every import and re-export at the top of a file, and every `import('…')` in it. */
export function importsOf(file: string): Import[] {
  const code = withoutComments(read(file))
  // Imports in code that a test has as text are indented.
  const top = code.slice(0, /^(?!import|export [*{]|export type [*{])[a-z][^'"]*$/m.exec(code)?.index)
  const found = [
    ...top.matchAll(/^(?:import|export)\s(?:[^'"]*?\bfrom\s+)?'([^']+)'/gm),
    ...(isTestFile(file) ? [] : code.matchAll(/\bimport\(\s*'([^']+)'\s*\)/g)),
  ]
  return found.map(([, specifier]) => ({ specifier: specifier!, target: targetOf(file, specifier!) }))
}

/** The import cycles among these files: `a.ts -> b.ts -> a.ts`. Imports of types count. */
export function importCircles(files: readonly string[], targetsOf: (file: string) => readonly string[]): string[] {
  const circles: string[] = []
  const done = new Set<string>()
  const path: string[] = []
  const walk = (file: string): void => {
    if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file].join(' -> '))
    if (path.includes(file) || done.has(file)) return
    path.push(file)
    for (const target of targetsOf(file)) walk(target)
    path.pop()
    done.add(file)
  }
  for (const file of files) walk(file)
  return circles
}

function targetOf(file: string, specifier: string): string | null {
  if (specifier === '#contract') return 'src/contract/index.ts'
  return specifier.startsWith('.') ? join(dirname(file), specifier) : null
}

/** Removes comments. Strings with two slashes or a star stay. */
export function withoutComments(code: string): string {
  return code.replace(/(?<=^|\s)\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '')
}

/** The rows of the table whose first column has that title, as lists of cells. */
export function tableOf(text: string, title: string): string[][] {
  const lines = text.split('\n')
  const head = lines.findIndex(line => line.startsWith(`| ${title} |`))
  if (head < 0) throw new Error(`no table has the column "${title}"`)
  const end = lines.findIndex((line, index) => index > head && !line.startsWith('|'))
  const rows = lines.slice(head + 2, end < 0 ? undefined : end)
  return rows.map(line =>
    line
      .split('|')
      .slice(1, -1)
      .map(cell => cell.trim()),
  )
}

/** A section from its heading to the next one of the same level. */
export function sectionOf(text: string, title: string): string {
  const [, section] = text.split(`\n## ${title}\n`)
  if (section === undefined) throw new Error(`the section "${title}" is missing`)
  return section.split('\n## ')[0]!
}

/** A fenced block of a README. */
export interface Sample {
  /** `README.md:58`, the line of the fence. */
  readonly place: string
  readonly file: string
  /** `yaml`, `sh`; empty without one. */
  readonly language: string
  readonly text: string
  /** The paragraph before it. */
  readonly before: string
}

export function samplesOf(file: string): Sample[] {
  const text = read(file)
  return [...text.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(match => ({
    place: `${file}:${text.slice(0, match.index).split('\n').length}`,
    file,
    language: match[1]!,
    text: match[2]!,
    before: text.slice(0, match.index).trimEnd().split('\n\n').at(-1)!,
  }))
}
