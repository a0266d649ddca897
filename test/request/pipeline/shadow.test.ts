/** A step in shadow that would stop or change the answer: it does neither, and the trail and the metrics record it. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Chunk, definePlugin, refuse } from '#contract'
import { exact, type FakeProvider, startFakeProvider } from '../../helpers/fake-provider.ts'
import { FIVE_STEPS, shareGateways, startInProcess } from '../../helpers/in-process.ts'
import { textOf } from '../../helpers/sse.ts'

let provider: FakeProvider
beforeAll(async () => {
  provider = await startFakeProvider({ script: exact({ tokens: ['mail ', 'me at ', 'joe@example.com', ' now'] }) })
})
afterAll(() => provider.close())

/** The client's answer, without the parts that differ each time. */
async function contentOf(answer: Response): Promise<string> {
  const text = await textOf(answer)
  return `${answer.status} ${text.replaceAll(/"(id|created)":("[^"]*"|\d+)/g, '')}`
}

type Edit = (chunk: Chunk) => unknown
/** The edit of the step `editor`; each test sets it. */
let edit: Edit

const editor = definePlugin({
  name: 'editor',
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => async (ctx, next) => {
    ctx.exchange.edit(edit as never)
    await next()
  },
})

const common = () => ({ provider: provider.baseUrl, plugins: [editor] })
const start = shareGateways(common)

const GUARD = { use: 'guard', with: { rules: [{ detect: 'email', action: 'refuse', on: 'answer' }] } }
const EDITOR = { use: 'editor' }

const spoils: Edit = chunk => {
  for (const choice of chunk.choices) Object.assign(choice, { delta: { content: 'spoiled' }, finish_reason: 'stop' })
  return chunk
}
const rejects: Edit = async () => {
  throw refuse('content_filter')
}
const breaks: Edit = () => {
  throw new Error('a bug')
}
const returnsNothing: Edit = () => undefined
const drops: Edit = () => null

type Row = [name: string, step: object, act: Edit | null, verdict: string, code: string | null, note?: string]
const ROWS: readonly Row[] = [
  ['a guard that refuses', GUARD, null, 'would_refuse', 'content_filter', 'in the answer: refused by email'],
  ['an edit with a bug', EDITOR, breaks, 'would_refuse', 'plugin_error'],
  ['an edit that is async', EDITOR, rejects, 'would_refuse', 'content_filter'],
  ['an edit that returns nothing', EDITOR, returnsNothing, 'would_refuse', 'plugin_error'],
  ['an edit that changes its argument', EDITOR, spoils, 'passed', null],
  ['an edit that drops everything', EDITOR, drops, 'passed', null],
]

test.each(ROWS)('%s: the answer is unchanged', async (_name, step, act, verdict, code, note) => {
  const steps = (mode: string) => [...FIVE_STEPS.slice(0, 4), { ...step, id: 'tried', mode }, ...FIVE_STEPS.slice(4)]
  const off = await start({ steps: steps('off') })
  // A new gateway, because its metrics start at zero.
  await using shadow = await startInProcess({ ...common(), steps: steps('shadow'), yaml: { admin: '127.0.0.1:0' } })
  if (act) edit = act
  for (const stream of [false, true]) {
    const answer = await shadow.chat({ stream })
    expect(await contentOf(answer)).toBe(await contentOf(await off.chat({ stream })))
    const { outcome, charged, trail } = shadow.receipt(answer)!
    expect({ outcome, isCharged: charged! > 0n }).toEqual({ outcome: 'answered', isCharged: true })
    const entry = trail.find(each => each.step === 'tried')
    expect(entry).toEqual({
      step: 'tried',
      plugin: act ? 'editor' : 'guard',
      verdict,
      ...(code === null ? {} : { code, why: 'in_answer' }),
      would: [{ deed: 'edit' }],
      ...(note === undefined ? {} : { note }),
    })
  }
  expect(shadow.log.filter(({ level }) => level === 'error')).toEqual([])
  const metrics = await (await fetch(`${shadow.running.adminUrl}/metrics`)).text()
  expect(metrics).toContain('tollgate_shadow_runs_total{policy="test",step="tried"} 2')
  const refusals = /tollgate_shadow_refusals_total\{policy="test",step="tried",code="(\w+)"\} (\d)/.exec(metrics)
  expect(refusals?.slice(1) ?? null).toEqual(code === null ? null : [code, '2'])
})

test.each([{ stream: false }, { stream: true }])(
  'outside of the billing step the receipt is written before the step ends, and still has its verdict (stream: $stream)',
  async mode => {
    const gateway = await start({
      steps: [...FIVE_STEPS.slice(0, 3), { ...GUARD, mode: 'shadow' }, ...FIVE_STEPS.slice(3)],
    })
    const answer = await gateway.chat(mode)
    expect(await textOf(answer)).toContain('joe@example.com')
    const { trail } = gateway.receipt(answer)!
    expect(trail.find(({ step }) => step === 'guard')).toMatchObject({
      verdict: 'would_refuse',
      code: 'content_filter',
    })
  },
)
