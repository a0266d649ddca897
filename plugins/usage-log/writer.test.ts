import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { openLines, type Rotation, Writer } from './writer.ts'

const parent = mkdtempSync(join(tmpdir(), 'usage-log-'))
afterAll(() => rmSync(parent, { recursive: true }))

function place() {
  const clock = { time: 0, now: () => clock.time }
  const reported: { readonly lost?: unknown; readonly error?: unknown }[] = []
  const report = (fields: object) => void reported.push(fields)
  const log = { info: report, warn: report, error: report }
  const folder = mkdtempSync(join(parent, 'writer-'))
  const file = join(folder, 'usage.jsonl')
  const open = (rotation: Partial<Rotation> = {}) =>
    openLines(file, { maxBytes: 1_000_000, keep: 3, ...rotation }, { clock, log })
  return { clock, reported, folder, file, open }
}

/** Empty also if the writer has just renamed the file, which may happen between two calls. */
function text(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw error
  }
}

/** Waits for the writer in the background. */
async function settled(done: () => boolean): Promise<void> {
  const until = performance.now() + 10_000
  while (!done() && performance.now() < until) await turn()
}

/** Turns of the event loop in which nothing should happen. */
async function quiet(): Promise<void> {
  for (let left = 2_000; left > 0; left--) await turn()
}

function turn(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve))
}

test('the lines of one turn are one write, in order, and all are in the file at the end', async () => {
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

test('a line after the end is written too', async () => {
  const { file, open } = place()
  const lines = open()
  await lines.close()
  lines.write(() => 'late')
  await settled(() => text(file) !== '')
  expect(text(file)).toBe('late\n')
})

test('the incomplete line of a killed process stays alone', async () => {
  const { file, open } = place()
  writeFileSync(file, '{"whole":1}\n{"half":')
  const lines = open()
  lines.write(() => '{"next":2}')
  await lines.close()
  expect(text(file)).toBe('{"whole":1}\n{"half":\n{"next":2}\n')
})

describe('rotation', () => {
  test('renames a full file, keeps `keep` of them, and deletes the oldest', async () => {
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

  test('a line above the size of a file has its own file', async () => {
    const { file, open } = place()
    const lines = open({ maxBytes: 10 })
    lines.write(() => 'x'.repeat(100))
    await lines.close()
    expect(text(file)).toHaveLength(101)
    expect(existsSync(`${file}.1`)).toBe(false)
  })

  test('counts earlier content of the file', async () => {
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
  ])('a file that another program has %s is created again after a second', async (_name, take) => {
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

describe('lines that cannot be written', () => {
  test('are counted, and logged once a minute and at the end; later lines are written', async () => {
    const { clock, reported, folder, file, open } = place()
    const lines = open()
    rmSync(folder, { recursive: true })
    lines.write(() => 'lost 1')
    lines.write(() => 'lost 2')
    await settled(() => reported.length > 0)
    expect(reported).toEqual([{ file: 'usage.jsonl', lost: 2, error: expect.stringContaining('ENOENT') }])
    clock.time += 59_999
    lines.write(() => 'lost 3')
    await quiet()
    expect(reported).toHaveLength(1)
    clock.time += 1
    lines.write(() => 'lost 4')
    const lost = () => reported.slice(1).reduce((sum, each) => sum + Number(each['lost']), 0)
    // Both, or one if the disk was slow to refuse it: the other one is logged a minute later, or at the end.
    await settled(() => lost() > 0)
    expect(lost()).toBeGreaterThan(0)
    lines.write(() => 'lost 5')
    await lines.close()
    expect(lost()).toBe(3)
    expect(existsSync(file)).toBe(false)
  })

  test('on a full device the rest is lost', async () => {
    const { reported } = place()
    const log = { info() {}, warn() {}, error: (fields: object) => void reported.push(fields) }
    // The check at load refuses devices, so this test opens one past it.
    const writer = new Writer('/dev/full', { clock: { now: () => 0 }, log })
    writer.users = 1
    writer.write(() => 'x')
    await writer.end()
    expect(reported[0]).toMatchObject({ lost: 1, error: expect.stringContaining('ENOSPC') })
  })

  test('include a line whose function throws', async () => {
    const { reported, file, open } = place()
    const lines = open()
    lines.write(() => {
      throw new Error('no line')
    })
    lines.write(() => 'next')
    await lines.close()
    expect(reported).toEqual([{ file: 'usage.jsonl', lost: 1, error: 'no line' }])
    expect(text(file)).toBe('next\n')
  })

  test('include those above the limit of memory', async () => {
    const { reported, file, open } = place()
    const lines = open({ maxBytes: 1e9 })
    for (let nth = 0; nth < 20; nth++) lines.write(() => 'x'.repeat(1024 * 1024))
    await lines.close()
    const written = text(file).split('\n').length - 1
    const lost = reported.reduce((sum, each) => sum + Number(each.lost), 0)
    expect(written + lost).toBe(20)
    expect(lost).toBeGreaterThan(0)
    expect(reported[0]).toMatchObject({ error: 'the disk is too slow' })
  })
})
