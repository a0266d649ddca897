import { describe, expect, test } from 'vitest'
import { isProcessWide, needsOwnProcess } from './isolation.ts'

describe('code that needs its own process', () => {
  test.each([
    ["vi.mock('./a.ts')", true],
    ['  vi.useFakeTimers()', true],
    ['  vi.useFakeTimers()\n  vi.useRealTimers()', false],
    ["const log = vi.spyOn(console, 'log')", true],
    ['await vi.waitFor(() => expect(open()).toBe(true))', false],
    ["// vi.mock('./a.ts')", false],
    ["  process.env['TMPDIR'] = folder", true],
    ["const folder = process.env['TMPDIR']", false],
    ['delete process.env.TMPDIR', true],
    ["process.on('exit', end)", true],
    ["child.on('exit', end)", false],
    ["process.chdir('/')", true],
    ['Buffer.prototype.copy = counted', true],
    ['globalThis.fetch = counted', true],
    ['const { rss } = process.memoryUsage()', true],
    ['  afterEach(close)', false],
    ['afterEach(close)', false],
  ])('%s: %s', (code, expected) => expect(isProcessWide(code, false)).toBe(expected))

  test('a helper that sets hooks is loaded once, so only one file would have them', () => {
    expect(isProcessWide('afterEach(close)', true)).toBe(true)
    expect(isProcessWide('describe(name, () => {\n  afterEach(close)\n})', true)).toBe(false)
  })
})

test.each([
  ['plugins/guard/pattern.test.ts', true],
  ['test/loader/plan.test.ts', false],
  ['test/contract/visible.test.ts', false],
  ['test/gateway/keys.system.test.ts', false],
])('%s: %s', (file, expected) => expect(needsOwnProcess(file)).toBe(expected))
