/** Finds the process that has a database open in the kernel's list of locks. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { holderOf } from '../../../src/store/files/holder.ts'
import { folder } from '../helpers.ts'

const SHARED = '1073741826 1073742335'

/** A folder in the kernel's format: process 4711 was started 7 s ago. */
function proc(...locks: string[]): string {
  const path = folder()
  writeFileSync(join(path, 'locks'), locks.map((lock, index) => `${index + 1}: POSIX  ADVISORY  ${lock}\n`).join(''))
  writeFileSync(join(path, 'uptime'), '100.00 50.00\n')
  mkdirSync(join(path, '4711'))
  const fields = ['S', ...Array<string>(18).fill('0'), '9300', '0']
  writeFileSync(join(path, '4711', 'stat'), `4711 (a (b) c) ${fields.join(' ')}\n`)
  return path
}

const OWN = `WRITE ${process.pid} 00:2a:50 1073741824 1073742335`

test.each([
  ['the same file', [OWN, `READ  4711 00:2a:77 ${SHARED}`], { pid: 4711, ageMs: 7000 }],
  ['a file with the same inode on another device', [OWN, `READ  4711 08:01:77 ${SHARED}`], null],
  ['another file on the device', [OWN, `READ  4711 00:2a:78 ${SHARED}`], null],
  ['other bytes of the file', [OWN, 'READ  4711 00:2a:77 0 10'], null],
  ['the file by this process', [OWN, `READ  ${process.pid} 00:2a:77 ${SHARED}`], null],
  ['a process that has ended', [OWN, `READ  4712 00:2a:77 ${SHARED}`], null],
  ['nothing', [], null],
])('a lock on %s', (_what, locks, expected) => {
  expect(holderOf(77, 50, proc(...locks))).toEqual(expected)
})
