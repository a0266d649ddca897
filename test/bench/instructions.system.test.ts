import { spawn } from 'node:child_process'
import { afterEach, expect, test } from 'vitest'
import { testWith } from '../helpers/missing.ts'
import { readStat, startCounting, whyNoInstructions } from './instructions.ts'

const rows: readonly (readonly [name: string, text: string, count: number | null, why: string | null])[] = [
  [
    'both counted',
    '835000123,,instructions:u,1011994000,100.00,,\n211000000,,instructions:k,1011994000,100.00,,\n',
    1_046_000_123,
    null,
  ],
  [
    'with words of perf between',
    '\nEvents enabled\nEvents disabled\n1000,,instructions:u,9,100.00,0.41,insn per cycle\n# a comment\n\n20,,instructions:k,9,50.00,,\n',
    1020,
    null,
  ],
  [
    'two kinds of cores, older spelling, one kind not used',
    '700,,cpu_core/instructions:u/,9,100.00,,\n<not counted>,,cpu_atom/instructions:u/,0,0.00,,\n30,,cpu_core/instructions:k/,9,100.00,,\n<not counted>,,cpu_atom/instructions:k/,0,0.00,,\n',
    730,
    null,
  ],
  [
    'two kinds of cores, newer spelling, both used',
    '700,,cpu_core/instructions/u,9,60.00,,\n200,,cpu_atom/instructions/u,9,40.00,,\n30,,cpu_core/instructions/k,9,60.00,,\n4,,cpu_atom/instructions/k,9,40.00,,\n',
    934,
    null,
  ],
  [
    'no counter',
    '<not supported>,,instructions:u,0,100.00,,\n<not supported>,,instructions:k,0,100.00,,\n',
    null,
    'perf stat does not count instructions:u here: <not supported>',
  ],
  [
    'none for the kernel',
    '835000123,,instructions:u,1011994000,100.00,,\n<not supported>,,instructions:k,0,100.00,,\n',
    null,
    'perf stat does not count instructions:k here: <not supported>',
  ],
  [
    'a line is missing',
    '835000123,,instructions:u,1011994000,100.00,,\n',
    null,
    'perf stat does not count instructions:k here: no line',
  ],
  [
    'not allowed',
    'Error:\nAccess to performance monitoring and observability operations is limited.\nConsider adjusting …\n',
    null,
    'perf stat: Access to performance monitoring and observability operations is limited.',
  ],
  ['nothing at all', '', null, 'perf stat: no output'],
]

test.each(rows)('what perf stat prints: %s', (_name, text, count, why) => {
  expect(readStat(text)).toEqual({ count, why })
})

const PATH = process.env['PATH']

afterEach(() => {
  process.env['PATH'] = PATH
})

test('without perf the reason says so', () => {
  process.env['PATH'] = '/nonexistent'
  expect(whyNoInstructions()).toMatch(/^perf does not run \(.*ENOENT.*\)$/)
})

// Time is counted by the kernel itself, so this runs also where there is no counter of instructions.
const TIME = ['task-clock:u']
const WITHOUT_PERF = whyNoInstructions(TIME)

testWith(WITHOUT_PERF, 'perf counts between start and stop', async () => {
  const child = spawn('sh', ['-c', 'while :; do :; done'], { stdio: 'ignore' })
  try {
    const startedMs = performance.now()
    const first = await startCounting(child.pid!, TIME)
    await new Promise(done => setTimeout(done, 200))
    const count = await first.stop()
    expect(count).toBeGreaterThan(0)
    // Milliseconds of one thread: not more than have passed.
    expect(count).toBeLessThanOrEqual(performance.now() - startedMs)
  } finally {
    child.kill('SIGKILL')
  }
})

testWith(WITHOUT_PERF, 'what perf cannot count rejects', async () => {
  await expect(startCounting(2 ** 22 + 1, TIME)).rejects.toThrow('perf has ended')
})
