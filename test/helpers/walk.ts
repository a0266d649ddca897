/**
 * Follows a page of the documentation: a folder with Tollgate, a shell in it, and the output of
 * the page beside the real one.
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
  // As `npm install --save-dev ./tollgate-*.tgz` leaves it, but for a link in place of the package.
  mkdirSync(join(folder, 'node_modules/.bin'), { recursive: true })
  symlinkSync(ROOT, join(folder, 'node_modules/tollgate'))
  const command = join(folder, 'node_modules/.bin/tollgate')
  symlinkSync(join(ROOT, 'src/cli/tollgate.js'), command)
  // npx itself takes half a second to find it.
  const node = join(ROOT, 'node_modules/.bin/node')
  const npx = `#!/bin/sh\n[ "$1" = tollgate ] || exit 127\nshift\nexec "${node}" "${command}" "$@"\n`
  writeFileSync(join(bin, 'npx'), npx, { mode: 0o755 })
  const shell = openShell({ folder, env: { PATH: `${bin}:${process.env['PATH']}`, HOME: folder } })
  return { folder, shell }
}

/** Writes a file that a page shows: its name is the last one in the sentence before. */
export function writeSample(folder: string, { place, text, before }: Sample, change = (text: string) => text): void {
  const name = [...before.matchAll(/`([\w./-]+\.(?:yaml|json))`/g)].at(-1)?.[1]
  if (name === undefined) throw new Error(`${place}: the sentence before does not name the file`)
  const file = join(folder, name)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, change(text))
}

/** Without what is another each time: ids, times, ports, and the room that they take in a table. */
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
