import { describe, expect, test } from 'vitest'
import { decidedBy, refuse, reworded, type TrailEntry, type TrailWhy } from '#contract'
import { decisionHeader } from '../../../src/request/send/decision-header.ts'

const entry = (
  step: string,
  verdict: TrailEntry['verdict'],
  code?: TrailEntry['code'],
  why?: TrailWhy,
): TrailEntry => ({
  step,
  verdict,
  ...(code === undefined ? {} : { code }),
  ...(why === undefined ? {} : { why }),
})
const mistake = (step: string) => refuse('plugin_error', { step })

describe('the decider', () => {
  test.each<[string, TrailEntry[], Parameters<typeof decidedBy>[1], string | null]>([
    ['a provider answered', [entry('a', 'passed')], null, null],
    ['a step answered', [entry('a', 'passed'), entry('cache', 'answered')], null, 'cache'],
    [
      'a step refused',
      [entry('a', 'passed'), entry('burst', 'refused', 'rate_limit_exceeded')],
      refuse('rate_limit_exceeded'),
      'burst',
    ],
    ['the upstream call', [entry('a', 'passed')], refuse('upstream_error'), 'send'],
    [
      'not a step in shadow that would have refused the same',
      [entry('a', 'would_refuse', 'rate_limit_exceeded')],
      refuse('rate_limit_exceeded'),
      'send',
    ],
    [
      'the outer step that replaced the refusal',
      [entry('outer', 'refused', 'forbidden'), entry('inner', 'refused', 'rate_limit_exceeded')],
      refuse('forbidden'),
      'outer',
    ],
    [
      'the inner step, if the outer one did not catch the refusal',
      [entry('outer', 'passed'), entry('inner', 'refused', 'forbidden')],
      refuse('forbidden'),
      'inner',
    ],
    [
      'not a mistake that was skipped',
      [entry('a', 'failed', 'plugin_error', 'skipped_on_error'), entry('b', 'failed', 'plugin_error')],
      mistake('b'),
      'b',
    ],
    [
      'not a mistake after an inner error',
      [entry('a', 'failed', 'plugin_error', 'threw_after_error'), entry('b', 'refused', 'forbidden')],
      refuse('forbidden'),
      'b',
    ],
    [
      'not a step that only the log text names',
      [entry('a', 'failed', 'plugin_error', 'skipped_on_error')],
      refuse('plugin_error', { detail: 'step "a"' }),
      'send',
    ],
    [
      'the same step when the refusal is reworded',
      [entry('a', 'failed', 'plugin_error')],
      reworded(mistake('a'), { message: 'Another sentence.', param: null }),
      'a',
    ],
    ['a step that never returned', [entry('slow', 'late', 'plugin_error')], mistake('slow'), 'slow'],
  ])('%s', (_name, trail, refusal, who) => {
    expect(decidedBy(trail, refusal, 'send')).toBe(who)
  })

  test('before the first step, the gateway', () => {
    expect(decidedBy([], refuse('request_too_large'), 'gateway')).toBe('gateway')
  })
})

describe('the header is an item of RFC 8941', () => {
  test.each([
    ['burst', 'burst; code=forbidden'],
    ['a-B_9', 'a-B_9; code=forbidden'],
    ['@koa/cors', '"@koa/cors"; code=forbidden'],
    ['1st', '"1st"; code=forbidden'],
    ['say "no"\\', '"say \\"no\\"\\\\"; code=forbidden'],
    ['with space', '"with space"; code=forbidden'],
    ['zwölf\r\n', '"zw?lf??"; code=forbidden'],
    ['', '""; code=forbidden'],
  ])('%j', (step, header) => {
    expect(decisionHeader(step, 'forbidden')).toBe(header)
  })
})
