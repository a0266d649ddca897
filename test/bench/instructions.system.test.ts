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
    'with messages of perf in between',
    '\nEvents enabled\nEvents disabled\n1000,,instructions:u,9,100.00,0.41,insn per cycle\n# a comment\n\n20,,instructions:k,9,50.00,,\n',
    1020,
    null,
  ],
  [
    'two kinds of cores, older spelling, one kind unused',
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
    'no counter for the kernel',
    '835000123,,instructions:u,1011994000,100.00,,\n<not supported>,,instructions:k,0,100.00,,\n',
    null,
    'perf stat does not count instructions:k here: <not supported>',
  ],
  [
    'a missing line',
    '835000123,,instructions:u,1011994000,100.00,,\n',
    null,
    'perf stat does not count instructions:k here: no line',
  ],
  [
    'no permission',
    'Error:\nAccess to performance monitoring and observability operations is limited.\nConsider adjusting …\n',
    null,
    'perf stat: Access to performance monitoring and observability operations is limited.',
  ],
  ['no output', '', null, 'perf stat: no output'],
]

test.each(rows)('the output of perf stat is parsed: %s', (_name, text, count, why) => {
  expect(readStat(text)).toEqual({ count, why })
})

const PATH = process.env['PATH']

afterEach(() => {
  process.env['PATH'] = PATH
})

test('without perf the reason names the failed start', () => {
  process.env['PATH'] = '/nonexistent'
  expect(whyNoInstructions()).toMatch(/^perf does not run \(.*ENOENT.*\)$/)
})

// The kernel itself counts time, so this runs on machines without a counter of instructions too.
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
    // Milliseconds of one thread cannot exceed the elapsed time.
    expect(count).toBeLessThanOrEqual(performance.now() - startedMs)
  } finally {
    child.kill('SIGKILL')
  }
})

testWith(WITHOUT_PERF, 'a process that perf cannot count is rejected', async () => {
  await expect(startCounting(2 ** 22 + 1, TIME)).rejects.toThrow('perf has ended')
})
