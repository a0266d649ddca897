/** Finds the command for a test file that was given to another command. */
import { isAbsolute, normalize, relative } from 'node:path'
import { type Layer, partsIn, runsIn } from './parts.ts'
import { allFiles, ROOT, read } from './repository.ts'

const testFiles = () => allFiles().filter(file => /^(test|plugins)\/.*\.test\.ts$/.test(file))

/** The files of a layer, or of one part of the full counts. */
export function filesOf(layer: Layer, part: string | undefined): string[] {
  return testFiles().filter(file =>
    part === undefined ? runsIn(file, layer as 'unit' | 'system') : partsIn(read(file)).includes(part),
  )
}

/** A message for each file among the arguments that the command would not run. */
export function wrongFiles(args: readonly string[], layer: Layer, part: string | undefined): string[] {
  const named = args.filter((arg, index) => /^[^-].*\.ts$/.test(arg) && args[index - 1] !== '-t')
  if (named.length === 0) return []
  const runs = filesOf(layer, part)
  return named.flatMap(arg => {
    const name = isAbsolute(arg) ? relative(ROOT, arg) : normalize(arg)
    if (runs.some(file => file.includes(name))) return []
    const file = testFiles().find(each => each.includes(name))
    if (file === undefined) return [`no test file has this path: ${name}`]
    return [
      `this command does not run ${file}; write\n${commandsFor(file)
        .map(each => `  ${each}`)
        .join('\n')}`,
    ]
  })
}

function commandsFor(file: string): string[] {
  return [
    ...(runsIn(file, 'unit') ? ['npm test --'] : []),
    ...(runsIn(file, 'system') ? ['npm run test:system --'] : []),
    ...partsIn(read(file)).map(part => `npm run test:full -- ${part}`),
  ].map(command => `${command} ${file}`)
}
