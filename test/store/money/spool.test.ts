/** The spool's file: reserved space has blocks, a torn record harms no other one, and no charge is shortened. */
import { existsSync, openSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { createSpool, MAX_RESERVED, RECORD_BYTES } from '../../../src/store/money/spool.ts'
import { aSettle, folder } from '../helpers.ts'

const newPath = () => join(folder(), 'tollgate.db.spool')
const settles = (count: number) => Array.from({ length: count }, (_, index) => aSettle({ exchange: `req_${index}` }))
const exchangesIn = (path: string) =>
  createSpool(path)
    .read()
    .map(({ settle }) => settle?.exchange)

/** The file's blocks on disk, in bytes. */
const allocated = (path: string) => statSync(path).blocks * 512

describe('the reserved space', () => {
  test.each([
    ['for a missing file', () => {}],
    [
      'for a file without blocks',
      (path: string) => {
        writeFileSync(path, '')
        truncateSync(path, 100 * RECORD_BYTES)
      },
    ],
  ])('has its blocks, made %s', (_what, prepare) => {
    const path = newPath()
    prepare(path)
    createSpool(path).reserve(100)
    expect(exchangesIn(path)).toEqual([])
    expect(statSync(path).size).toBe(100 * RECORD_BYTES)
    expect(allocated(path)).toBeGreaterThanOrEqual(100 * RECORD_BYTES)
  })

  test('is kept when records are added and removed, and existing records stay when it grows', () => {
    const path = newPath()
    const spool = createSpool(path)
    spool.reserve(4)
    for (const settle of settles(6)) spool.append(settle)
    expect(statSync(path).size).toBe(6 * RECORD_BYTES)
    spool.reserve(20)
    expect(exchangesIn(path)).toHaveLength(6)
    spool.empty()
    expect([spool.read(), exchangesIn(path)]).toEqual([[], []])
    expect(statSync(path).size).toBe(20 * RECORD_BYTES)
    expect(allocated(path)).toBeGreaterThanOrEqual(20 * RECORD_BYTES)
    for (const settle of settles(20)) spool.append(settle)
    expect(statSync(path).size).toBe(20 * RECORD_BYTES)
  })

  test('for no records makes no file, and is never more than 64 MiB', () => {
    const path = newPath()
    createSpool(path).reserve(0)
    expect(existsSync(path)).toBe(false)
    expect(MAX_RESERVED * RECORD_BYTES).toBe(64 * 2 ** 20)
  })

  test('is made again after the file was deleted', () => {
    const path = newPath()
    const spool = createSpool(path)
    spool.reserve(4)
    for (const settle of settles(3)) spool.append(settle)
    rmSync(path)
    expect(spool.read()).toEqual([])
    spool.append(aSettle({ exchange: 'req_9' }))
    expect(exchangesIn(path)).toEqual(['req_9'])
    spool.reserve(4)
    expect(exchangesIn(path)).toEqual(['req_9'])
    expect(allocated(path)).toBeGreaterThanOrEqual(4 * RECORD_BYTES)
  })
})

describe('a record', () => {
  test.each([
    ['cut in its middle', (bytes: Buffer) => bytes.fill('\n', 40)],
    ['with its middle missing', (bytes: Buffer) => bytes.fill('\n', 40, 200)],
    ['with a changed digit', (bytes: Buffer) => (bytes[bytes.indexOf('"40"') + 1] = 0x39)],
    ['with a byte that is not text', (bytes: Buffer) => (bytes[100] = 0xff)],
  ])('%s is reported as torn, and harms no other one', (_what, tear) => {
    const path = newPath()
    const spool = createSpool(path)
    spool.reserve(5)
    for (const settle of settles(3)) spool.append(settle)
    const bytes = readFileSync(path)
    tear(bytes.subarray(RECORD_BYTES, 2 * RECORD_BYTES))
    const file = openSync(path, 'r+')
    writeSync(file, bytes, 0, bytes.length, 0)
    const again = createSpool(path)
    again.append(aSettle({ exchange: 'req_9' }))
    const found = exchangesIn(path)
    expect(found.filter(exchange => exchange !== undefined)).toEqual(['req_0', 'req_2', 'req_9'])
    expect(found).toContain(undefined)
  })

  test.each([
    ['a trail', { trail: Array.from({ length: 80 }, () => ({ step: 'ü'.repeat(20), verdict: 'passed' as const })) }],
    [
      'attempts',
      { attempts: Array.from({ length: 80 }, () => ({ target: 'a/b'.repeat(9), status: 500, code: null, ms: 1 })) },
    ],
  ])('with %s too long for its place leaves that out, and keeps the whole charge', (_what, change) => {
    const path = newPath()
    const spool = createSpool(path)
    spool.reserve(1)
    const request = aSettle({ exchange: 'r'.repeat(100), amount: 2n ** 63n - 1n, overrun: 2n ** 62n, ...change })
    spool.append(request)
    expect(statSync(path).size).toBe(RECORD_BYTES)
    const [{ settle } = { settle: undefined }] = spool.read()
    const { trail, attempts, ...rest } = settle!
    expect(request).toMatchObject(rest)
    expect(trail).toEqual([])
    expect(attempts).toEqual('trail' in change ? request.attempts : [])
  })
})
