import { expect, test } from 'vitest'
import { type Counters, countersTable, parseStrace } from './counters.ts'

test('the output of strace is parsed', () => {
  const text = `    calls syscall
--------- ----------------
    12001 read
     9000 writev
       30 epoll_pwait
--------- ----------------
    21031 total
`
  expect(parseStrace(text)).toEqual({ read: 12_001, writev: 9000, epoll_pwait: 30 })
  expect(parseStrace('')).toEqual({})
})

test('the table has a row for each count of any contestant', () => {
  const none: Counters = {
    name: 'bare',
    calls: { ticks: 8 },
    bytes: 23_100,
    owners: { node: 20_000 },
    systemCalls: null,
  }
  const other: Counters = {
    name: 'credits',
    calls: { promises: 67.2, ticks: 7, timers: 0.001 },
    bytes: Number.NaN,
    owners: { own: 30_000 },
    systemCalls: { read: 2.09 },
  }
  expect(countersTable([none, other]).split('\n')).toEqual([
    '| a request, or a chunk | bare | credits |',
    '|---|--:|--:|',
    '| ticks | 8.00 | 7.00 |',
    '| promises | 0.00 | 67.20 |',
    '| bytes allocated, main thread | 23.1 k | – |',
    '| … node | 20.0 k | 0.00 |',
    '| … own | 0.00 | 30.0 k |',
    '| system call read | – | 2.09 |',
  ])
})
