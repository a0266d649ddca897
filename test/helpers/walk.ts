/**
 * Runs the commands of a page of the documentation in a folder with Tollgate, and compares their output with that of the page.
 */
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { temporaryDirectory } from './gateway.ts'
import { ROOT, type Sample } from './repository.ts'
import { openShell, type Shell } from './shell.ts'

export interface Walk {
  readonly folder: string
  readonly shell: Shell
}

/** A new folder of that name, in which `npx tollgate` runs this checkout. Close the shell at the end. */
export async function openWalk(name: string): Promise<Walk> {
  const folder = join(await temporaryDirectory(), name)
  const bin = join(folder, '../bin')
  mkdirSync(bin)
  // Like after `npm install --save-dev ./tollgate-*.tgz`, but with a link in place of the package.
  mkdirSync(join(folder, 'node_modules/.bin'), { recursive: true })
  symlinkSync(ROOT, join(folder, 'node_modules/tollgate'))
  const command = join(folder, 'node_modules/.bin/tollgate')
  symlinkSync(join(ROOT, 'src/cli/tollgate.js'), command)
  // A function, because npx takes half a second to find it.
  const node = join(ROOT, 'node_modules/.bin/node')
  const npx = `#!/bin/sh\n[ "$1" = tollgate ] || exit 127\nshift\nexec "${node}" "${command}" "$@"\n`
  writeFileSync(join(bin, 'npx'), npx, { mode: 0o755 })
  const shell = openShell({ folder, env: { PATH: `${bin}:${process.env['PATH']}`, HOME: folder } })
  return { folder, shell }
}

/** Writes a file that a page shows. Its name is the last one in the sentence before it. */
export function writeSample(folder: string, { place, text, before }: Sample, change = (text: string) => text): void {
  const name = [...before.matchAll(/`([\w./-]+\.(?:yaml|json))`/g)].at(-1)?.[1]
  if (name === undefined) throw new Error(`${place}: the sentence before does not name the file`)
  const file = join(folder, name)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, change(text))
}

/** Replaces the parts that differ in each run: ids, times, ports, and their padding in tables. */
export function plain(text: string): string {
  return text
    .replaceAll('\r', '')
    .replace(/\b(acc|key|req)_[0-9A-Z]{10,}/g, '$1_ID')
    .replace(/\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( UTC|Z)?/g, 'TIME')
    .replace(/\b\d+(\.\d+)? ?ms\b/g, 'MS')
    .replace(/127\.0\.0\.1:\d+/g, 'ADDRESS')
    .replace(/[─-]{3,}/g, '---')
    .replace(/ {2,}/g, ' ')
    .replace(/ +$/gm, '')
    .trimEnd()
}
