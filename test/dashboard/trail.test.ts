import { describe, expect, test } from 'vitest'
import { type ChargeSource, ERRORS, TRAIL_WHYS } from '#contract'
import type { TrailLine } from '../../src/dashboard/lib/trail.ts'
import { explain, OUTCOME_NAMES, outcomeOf, reasonOf, sourceOf } from '../../src/dashboard/lib/trail.ts'

type Row = [line: TrailLine, sentence: string, more?: string]

const CAPPED = 'output capped at 64 tokens: the balance does not pay for 4096'
const HID = 'It caught the error of a later step; the error still ended the request.'
const FAULT = 'failed. This is a gateway error, not an error in the request.'

describe('a line of the trail', () => {
  test.each<Row>([
    // Refused.
    [
      { step: 'api-key', verdict: 'refused', code: 'revoked_api_key' },
      'api-key refused the request: the key has been revoked.',
    ],
    [
      { step: 'rate-limit', verdict: 'refused', code: 'rate_limit_exceeded' },
      'rate-limit refused the request: too many requests in a short time.',
    ],
    [
      { step: 'credits', verdict: 'refused', code: 'insufficient_quota' },
      'credits refused the request: the account has too little credit.',
    ],
    [{ step: 'guard', verdict: 'refused' }, 'guard refused the request.'],
    [
      { step: 'guard', verdict: 'refused', code: 'forbidden', why: 'in_answer' },
      'guard stopped the answer: this is not allowed.',
    ],
    [
      { step: 'guard', verdict: 'refused', code: 'forbidden', note: 'word list 3' },
      'guard refused the request: this is not allowed.',
      'It noted: “word list 3”.',
    ],
    // Failed.
    [{ step: 'tags', verdict: 'failed', code: 'plugin_error' }, `tags ${FAULT}`],
    [{ step: 'tags', verdict: 'failed' }, `tags ${FAULT}`],
    [{ step: 'tags', verdict: 'failed', code: 'store_unavailable' }, 'tags failed: the ledger could not be written.'],
    [
      { step: 'tags', verdict: 'failed', code: 'plugin_error', why: 'skipped_on_error' },
      'tags failed; its settings let the request continue.',
    ],
    [
      { step: 'tags', verdict: 'failed', code: 'plugin_error', why: 'when_threw' },
      `tags ${FAULT}`,
      'Its condition failed to evaluate.',
    ],
    [
      { step: 'tags', verdict: 'failed', code: 'plugin_error', why: 'not_awaited' },
      `tags ${FAULT}`,
      'It did not wait for the answer.',
    ],
    [
      { step: 'tags', verdict: 'failed', code: 'plugin_error', why: 'no_decision' },
      `tags ${FAULT}`,
      'It did not continue, answer or refuse.',
    ],
    [
      { step: 'tags', verdict: 'failed', code: 'plugin_error', why: 'threw_after_error' },
      `tags ${FAULT}`,
      'It failed after a later step had failed.',
    ],
    [
      { step: 'tags', verdict: 'failed', code: 'plugin_error', why: 'in_answer' },
      'tags failed while it read the answer. This is a gateway error.',
    ],
    // In shadow.
    [
      { step: 'burst', verdict: 'would_refuse', code: 'rate_limit_exceeded' },
      'burst would have refused the request (too many requests in a short time), but shadow mode let the request continue.',
    ],
    [
      { step: 'guard', verdict: 'would_refuse', code: 'forbidden', why: 'in_answer', would: [{ deed: 'edit' }] },
      'guard would have stopped the answer (this is not allowed), but shadow mode let the request continue.',
      'Shadow mode discarded its actions: edited the answer.',
    ],
    [
      { step: 'cache', verdict: 'would_refuse', would: [{ deed: 'answer' }] },
      'cache would have answered the request, but shadow mode let the request continue.',
      'Shadow mode discarded its actions: answered.',
    ],
    [
      {
        step: 'tags',
        verdict: 'passed',
        would: [{ deed: 'set_header', header: 'x-tag' }, { deed: 'rewrite' }],
        note: 'seen',
      },
      'tags let the request pass.',
      'Shadow mode discarded its actions: set x-tag, rewrote the request. It noted: “seen”.',
    ],
    // Skipped, or stopped early.
    [{ step: 'free-tokens', verdict: 'skipped' }, 'free-tokens did not run: its condition was false.'],
    [{ step: 'tags', verdict: 'off' }, 'tags is switched off.'],
    [{ step: 'tags', verdict: 'late', code: 'plugin_error' }, 'tags timed out; the gateway continued without it.'],
    // Passed and answered.
    [{ step: 'cache', verdict: 'answered' }, 'cache answered the request without a model provider.'],
    [{ step: 'api-key', verdict: 'passed' }, 'api-key accepted the key.'],
    [{ step: 'schema', verdict: 'passed' }, 'schema validated the request and its model.'],
    [{ step: 'rate-limit', verdict: 'passed' }, 'rate-limit checked the limits.'],
    [{ step: 'route', verdict: 'passed' }, 'route chose the model provider.'],
    [{ step: 'credits', verdict: 'passed' }, 'credits held credit, then settled the charge.'],
    [
      { step: 'credits', verdict: 'passed', note: CAPPED },
      'credits held credit, then settled the charge.',
      `It noted: “${CAPPED}”.`,
    ],
    [{ step: 'burst', verdict: 'passed' }, 'burst let the request pass.'],
    [{ step: 'burst', verdict: 'passed', why: 'kept_error' }, 'burst let the request pass.', HID],
    // The sentence depends on the step's plugin, not on its id.
    [{ step: 'burst', plugin: 'rate-limit', verdict: 'passed' }, 'burst checked the limits.'],
    [{ step: 'credits', plugin: 'mine', verdict: 'passed' }, 'credits let the request pass.'],
  ])('%j', (line, sentence, more) => {
    expect(explain(line)).toEqual({ sentence, more: more ?? null, tone: expect.any(String) })
  })

  test('shows unknown verdicts of a later gateway', () => {
    const line = { step: 'burst', verdict: 'put_off', code: 'some_new_code', why: 'some_why' } as unknown as TrailLine
    expect(explain(line)).toMatchObject({ sentence: 'burst did this: put off: some new code.', more: null })
  })

  test.each(TRAIL_WHYS)('the reason %s has a text', why => {
    const line = { step: 'a', verdict: why === 'kept_error' ? 'passed' : 'failed', code: 'plugin_error' } as const
    expect(explain({ ...line, why })).not.toEqual(explain(line))
  })

  // Receipts of earlier versions also have sentences of the gateway as notes. They are shown without being interpreted.
  test.each([
    'in the middle of the answer',
    'skipped by onError',
    '`when` is false',
    'did not await next()',
    'free',
    'would have: set x-tag; watch or edit threw',
    'in_answer',
    'cost $1 and $2;; “x”',
  ])('the note %j is only quoted', note => {
    for (const verdict of ['passed', 'refused', 'failed', 'skipped', 'would_refuse'] as const) {
      const line = { step: 'credits', verdict, ...(verdict === 'refused' ? { code: 'forbidden' as const } : {}) }
      expect(explain({ ...line, note })).toEqual({ ...explain(line), more: `It noted: “${note}”.` })
    }
  })

  test('the tone shows success or failure', () => {
    const verdicts = ['passed', 'answered', 'refused', 'failed', 'late', 'would_refuse', 'skipped', 'off'] as const
    const tones = verdicts.map(verdict => explain({ step: 'a', verdict }).tone)
    expect(tones).toEqual(['good', 'good', 'bad', 'bad', 'warning', 'warning', 'neutral', 'neutral'])
  })
})

describe('words', () => {
  test.each(Object.keys(ERRORS))('the reason for %s has no underscores, and no full stop', code => {
    expect(reasonOf(code)).toMatch(/^[a-zA-Z][^_]+[^_.]$/)
  })

  test('every code of an exchange has a text of its own', () => {
    const elsewhere = /^(not_|wrong_|too_many_|cross_|registration_|link_|conflict|unknown_host|receipt_)/
    const plain = Object.keys(ERRORS).filter(
      code => !elsewhere.test(code) && reasonOf(code) === code.replaceAll('_', ' '),
    )
    expect(plain).toEqual([])
  })

  const sources: Record<ChargeSource, true> = {
    reported: true,
    clamped: true,
    estimated: true,
    estimated_low: true,
    prompt_estimated: true,
    insurance: true,
    released: true,
    recovered: true,
    cached: true,
  }
  test.each(Object.keys(sources))('the source %s has a sentence of its own', source => {
    expect(sourceOf(source)).toMatch(/^[A-Z].+\.$/)
    expect(sourceOf(source)).not.toContain('How the charge was found')
  })

  test('a source that is unknown, or not known yet', () => {
    expect(sourceOf(null)).toContain('in progress')
    expect(sourceOf('some_new')).toBe('How the charge was found: some new.')
  })

  test('every outcome has a label', () => {
    expect(OUTCOME_NAMES).toEqual(['answered', 'refused', 'failed', 'client_left', 'cut'])
    expect([...OUTCOME_NAMES, null].map(name => outcomeOf(name).label)).toEqual([
      'Answered',
      'Refused',
      'Failed',
      'Stopped',
      'Cut',
      'In progress',
    ])
  })
})
