import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { openLines, type Rotation, Writer } from './writer.ts'

const parent = mkdtempSync(join(tmpdir(), 'usage-log-'))
afterAll(() => rmSync(parent, { recursive: true }))

function place() {
  const clock = { time: 0, now: () => clock.time }
  const told: { readonly lost?: unknown; readonly error?: unknown }[] = []
  const say = (fields: object) => void told.push(fields)
  const log = { info: say, warn: say, error: say }
  const folder = mkdtempSync(join(parent, 'writer-'))
  const file = join(folder, 'usage.jsonl')
  const open = (rotation: Partial<Rotation> = {}) =>
    openLines(file, { maxBytes: 1_000_000, keep: 3, ...rotation }, { clock, log })
  return { clock, told, folder, file, open }
}

/** Empty also when the writer has just given the file another name: between a look and a read it may do so. */
function text(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw error
  }
}

/** Until the background has done what it has to do. */
async function settled(done: () => boolean): Promise<void> {
  const until = performance.now() + 10_000
  while (!done() && performance.now() < until) await turn()
}

/** So many turns in which nothing should happen. */
async function quiet(): Promise<void> {
  for (let left = 2_000; left > 0; left--) await turn()
}

function turn(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve))
}

test('what is written in one turn is written at once, in order, and all of it before the end', async () => {
  const { file, open } = place()
  const lines = open()
  for (let nth = 0; nth < 5_000; nth++) lines.write(() => `line ${nth}`)
  expect(text(file)).toBe('')
  await lines.close()
  expect(text(file).split('\n')).toEqual([...Array.from({ length: 5_000 }, (_, nth) => `line ${nth}`), ''])
})

test('two users of one file have one writer, and the last one closes it', async () => {
  const { file, open } = place()
  const [one, other] = [open(), open()]
  one.write(() => 'a')
  await one.close()
  await one.close()
  other.write(() => 'b')
  await other.close()
  expect(text(file)).toBe('a\nb\n')
})

test('a line that comes after the end is written all the same', async () => {
  const { file, open } = place()
  const lines = open()
  await lines.close()
  lines.write(() => 'late')
  await settled(() => text(file) !== '')
  expect(text(file)).toBe('late\n')
})

test('half a line of a killed process stands alone', async () => {
  const { file, open } = place()
  writeFileSync(file, '{"whole":1}\n{"half":')
  const lines = open()
  lines.write(() => '{"next":2}')
  await lines.close()
  expect(text(file)).toBe('{"whole":1}\n{"half":\n{"next":2}\n')
})

describe('rotation', () => {
  test('renames what is full, keeps so many, and lets the oldest go', async () => {
    const { file, open } = place()
    const lines = open({ maxBytes: 20, keep: 2 })
    for (const letter of 'abcde') {
      lines.write(() => letter.repeat(14))
      await settled(() => text(file).includes(letter))
    }
    await lines.close()
    const contents = ['', '.1', '.2'].map(end => text(file + end).trim()[0])
    expect(contents).toEqual(['e', 'd', 'c'])
    expect(existsSync(`${file}.3`)).toBe(false)
    expect(statSync(file).mode & 0o777).toBe(0o600)
  })

  test('a line that is larger than a file has one of its own', async () => {
    const { file, open } = place()
    const lines = open({ maxBytes: 10 })
    lines.write(() => 'x'.repeat(100))
    await lines.close()
    expect(text(file)).toHaveLength(101)
    expect(existsSync(`${file}.1`)).toBe(false)
  })

  test('counts what was there before', async () => {
    const { file, open } = place()
    writeFileSync(file, `${'x'.repeat(99)}\n`)
    const lines = open({ maxBytes: 102 })
    lines.write(() => 'next')
    await lines.close()
    expect(text(file)).toBe('next\n')
    expect(text(`${file}.1`)).toHaveLength(100)
  })

  test.each<[string, (file: string) => void]>([
    ['renamed', file => renameSync(file, `${file}.old`)],
    ['removed', file => rmSync(file)],
  ])('a file that somebody else has %s is made again after a second', async (_name, take) => {
    const { clock, file, open } = place()
    const lines = open()
    lines.write(() => 'before')
    await settled(() => text(file) !== '')
    take(file)
    clock.time += 1_000
    lines.write(() => 'after')
    await lines.close()
    expect(text(file)).toBe('after\n')
  })
})

describe('what cannot be written', () => {
  test('is counted, and said once a minute and at the end; then it goes on', async () => {
    const { clock, told, folder, file, open } = place()
    const lines = open()
    rmSync(folder, { recursive: true })
    lines.write(() => 'lost 1')
    lines.write(() => 'lost 2')
    await settled(() => told.length > 0)
    expect(told).toEqual([{ file: 'usage.jsonl', lost: 2, error: expect.stringContaining('ENOENT') }])
    clock.time += 59_999
    lines.write(() => 'lost 3')
    await quiet()
    expect(told).toHaveLength(1)
    clock.time += 1
    lines.write(() => 'lost 4')
    const lost = () => told.slice(1).reduce((sum, each) => sum + Number(each['lost']), 0)
    // Both, or one where the disk took its time to refuse it: then the other one waits for the next minute, or the end.
    await settled(() => lost() > 0)
    expect(lost()).toBeGreaterThan(0)
    lines.write(() => 'lost 5')
    await lines.close()
    expect(lost()).toBe(3)
    expect(existsSync(file)).toBe(false)
  })

  test('a full device loses what does not fit', async () => {
    const { told } = place()
    const log = { info() {}, warn() {}, error: (fields: object) => void told.push(fields) }
    // The probe at load refuses devices; a full one is what the writer itself meets.
    const writer = new Writer('/dev/full', { clock: { now: () => 0 }, log })
    writer.users = 1
    writer.write(() => 'x')
    await writer.end()
    expect(told[0]).toMatchObject({ lost: 1, error: expect.stringContaining('ENOSPC') })
  })

  test('a line that cannot be made is one of them, and throws at nobody', async () => {
    const { told, file, open } = place()
    const lines = open()
    lines.write(() => {
      throw new Error('no line')
    })
    lines.write(() => 'next')
    await lines.close()
    expect(told).toEqual([{ file: 'usage.jsonl', lost: 1, error: 'no line' }])
    expect(text(file)).toBe('next\n')
  })

  test('more than the memory for them', async () => {
    const { told, file, open } = place()
    const lines = open({ maxBytes: 1e9 })
    for (let nth = 0; nth < 20; nth++) lines.write(() => 'x'.repeat(1024 * 1024))
    await lines.close()
    const written = text(file).split('\n').length - 1
    const lost = told.reduce((sum, each) => sum + Number(each.lost), 0)
    expect(written + lost).toBe(20)
    expect(lost).toBeGreaterThan(0)
    expect(told[0]).toMatchObject({ error: 'the disk is too slow' })
  })
})
