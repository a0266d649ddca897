import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import { afterAll, expect, test } from 'vitest'
import { parseLine } from '../../src/replay/line.ts'
import { readLogs } from '../../src/replay/read.ts'
import { lineWith } from './lines.ts'

const folder = mkdtempSync(join(tmpdir(), 'replay-'))
afterAll(() => rmSync(folder, { recursive: true }))

const file = (name: string, content: string | Buffer) => {
  const path = join(folder, name)
  writeFileSync(path, content)
  return path
}
const textOf = (...ids: string[]) => ids.map(id => `${JSON.stringify(lineWith({ id }))}\n`).join('')

async function readAll(files: string[], input = Readable.from([])) {
  const found: string[] = []
  let bytes = 0
  for await (const batch of readLogs(files, { parse: parseLine, input, read: more => void (bytes += more) })) {
    for (const read of batch) {
      found.push('line' in read ? read.line.id : `${read.file.split('/').at(-1)}:${read.number}: ${read.reason}`)
    }
  }
  return { found, bytes }
}

test('files and standard input are read in order; a gzipped file may have any name', async () => {
  const plain = file('a.jsonl', textOf('a', 'b'))
  const packed = file('b.log', gzipSync(textOf('c')))
  const { found } = await readAll([plain, packed, '-'], Readable.from([Buffer.from(textOf('d'))]))
  expect(found).toEqual(['a', 'b', 'c', 'd'])
})

test('standard input may be gzipped, and a byte order mark is skipped', async () => {
  expect((await readAll(['-'], Readable.from([gzipSync(textOf('a', 'b'))]))).found).toEqual(['a', 'b'])
  expect((await readAll(['-'], Readable.from([]))).found).toEqual([])
  expect((await readAll([file('marked.jsonl', `\uFEFF${textOf('a', 'b')}`)])).found).toEqual(['a', 'b'])
})

test('a file larger than one read is read to its last byte', async () => {
  const ids = Array.from({ length: 5_000 }, (_, nth) => `id-${nth}`)
  const text = textOf(...ids)
  expect(await readAll([file('many.jsonl', text)])).toEqual({ found: ids, bytes: Buffer.byteLength(text) })
  const packed = gzipSync(text)
  expect(await readAll([file('many.gz', packed)])).toEqual({ found: ids, bytes: packed.length })
})

test('invalid lines are reported with their number; empty ones are skipped', async () => {
  const text = `${textOf('a')}\n{"half":\n${textOf('b')}${textOf('c').slice(0, 50)}`
  const { found } = await readAll([file('torn.jsonl', text)])
  const torn = 'it is not JSON; the end of a line may be missing'
  expect(found).toEqual(['a', `torn.jsonl:3: ${torn}`, 'b', `torn.jsonl:5: ${torn}`])
})

test('a gzipped file that breaks off is reported, and the next one is read', async () => {
  const ids = Array.from({ length: 2_000 }, (_, nth) => `id-${nth}`)
  const packed = gzipSync(textOf(...ids))
  const { found } = await readAll([
    file('early.gz', packed.subarray(0, packed.length - 50)),
    file('z.jsonl', textOf('z')),
  ])
  expect(found.at(-1)).toBe('z')
  expect(found.at(-2)).toMatch(/^early\.gz:\d+: it cannot be unpacked from here on/)
})

test('a missing file is an error with its name', async () => {
  await expect(readAll([join(folder, 'none.jsonl')])).rejects.toThrow('none.jsonl')
})

test('an endless line is not read into memory', async () => {
  const endless = file('endless.jsonl', Buffer.alloc(5 * 1024 * 1024, 'x'))
  await expect(readAll([endless])).rejects.toThrow('line 1 has no end')
})
