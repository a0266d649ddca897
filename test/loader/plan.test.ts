/** The disposal of a policy's steps. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type AnyPlugin, definePlugin } from '#contract'
import { DISPOSE_LIMIT_MS } from '../../src/loader/dispose.ts'
import { createPlan, type PlannableStep } from '../../src/loader/plan.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const disposed: string[] = []
afterEach(() => void disposed.splice(0))

function step(id: string, dispose: () => void | Promise<void>): PlannableStep {
  const plugin = definePlugin<Record<string, never>>({
    name: 'holder',
    settings: { type: 'object', additionalProperties: false, properties: {} },
    create: () => ({
      handle: (_ctx, next) => next(),
      dispose() {
        disposed.push(id)
        return dispose()
      },
    }),
  }) as AnyPlugin
  const position = { file: 'policies/p.yaml', line: 4, column: 5 }
  return { id, plugin, foreign: false, settings: {}, when: null, mode: 'enforce', onError: 'refuse', position }
}

const never = () => new Promise<void>(() => {})
const late = `was not released: its dispose() did not end within ${DISPOSE_LIMIT_MS / 1000} s`

test.each([
  ['a dispose that never ends', { a: never }, [`policies/p.yaml:4:5: the step "a" ${late}`]],
  ['two such disposes, in the time of one', { a: never, b: never }, [`the step "a" ${late}`, `the step "b" ${late}`]],
  [
    'a dispose that throws',
    {
      a() {
        throw new Error('cannot dispose')
      },
    },
    ['cannot dispose'],
  ],
])('%s is reported, and does not stop the others', async (_name, disposers, says) => {
  const steps = [...Object.entries(disposers).map(([id, dispose]) => step(id, dispose)), step('last', () => {})]
  const plan = createPlan('p', steps, () => ({}))
  const over = plan.dispose().then(
    () => '',
    (error: Error) => error.message,
  )
  await vi.advanceTimersByTimeAsync(DISPOSE_LIMIT_MS)
  for (const words of says) expect(await over).toContain(words)
  expect(disposed).toEqual([...Object.keys(disposers), 'last'])
  expect(vi.getTimerCount()).toBe(0)
})

test('a slow dispose is awaited, and no timer is left', async () => {
  let done = false
  const slow = async () => {
    await new Promise(resolve => setTimeout(resolve, DISPOSE_LIMIT_MS - 1))
    done = true
  }
  const over = createPlan('p', [step('slow', slow)], () => ({})).dispose()
  await vi.advanceTimersByTimeAsync(DISPOSE_LIMIT_MS - 1)
  await over
  expect(done).toBe(true)
  expect(vi.getTimerCount()).toBe(0)
})
