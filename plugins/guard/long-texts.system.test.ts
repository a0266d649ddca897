/** Requests and answers that take longer than one slice. */
import { Worker } from 'node:worker_threads'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import type { ChatCompletion } from '#contract'
import { type FakeProvider, startFakeProvider, stream, whole } from '../../test/helpers/fake-provider.ts'
import { type InProcess, startInProcess } from '../../test/helpers/in-process.ts'
import { contentOf, readSse } from '../../test/helpers/sse.ts'
import { until } from '../../test/helpers/until.ts'
import { Findings } from './rules.ts'
import { guardThread } from './thread.ts'

let provider: FakeProvider
beforeAll(async () => {
  provider = await startFakeProvider({ script: whole() })
})
afterAll(() => provider.close())

function start(rules: readonly object[], tokens: readonly string[], mode = 'enforce'): Promise<InProcess> {
  const guard = { use: 'guard', mode, with: { rules } }
  provider.script(request => (request.body?.['stream'] ? stream : whole)({ tokens }))
  return startInProcess({
    provider: provider.baseUrl,
    model: { context: '10M', max_output: 1_000_000, default_output: 500_000 },
    credit: '100',
    steps: [
      { use: 'api-key' },
      { use: 'schema' },
      // The receipt has the matches of an answer only if the step is after credits.
      ...(mode === 'shadow' ? [{ use: 'credits' }, guard] : [guard, { use: 'credits' }]),
      { use: 'route', with: { attempts: 1 } },
    ],
  })
}

const MAIL = 'ada@example.org'

describe('texts that take longer than a slice', () => {
  const filler = 'Some plain words, and 12 more. '.repeat(10_000)
  const found = `${filler}${MAIL} ${filler}`
  const redacted = `${filler}[email] ${filler}`
  test.each([
    ['whole', false],
    ['as a stream', true],
  ])(
    'are looked at like others, in requests and in answers, and others are served meanwhile (%s)',
    async (_name, isStream) => {
      await using gateway = await start([{ detect: 'email' }, { detect: 'phone', action: 'flag' }], [found, ' end'])
      let isOver = false
      const long = gateway
        .chat({ stream: isStream, messages: [{ role: 'user', content: found }] })
        .then(async answer => {
          expect(answer.status).toBe(200)
          const text = isStream
            ? contentOf(await readSse(answer.clone()))
            : ((await answer.clone().json()) as ChatCompletion).choices[0]!.message.content
          isOver = true
          expect(text).toBe(`${redacted} end`)
          return answer
        })
      let turns = 0
      while (!isOver) {
        await new Promise(resolve => setImmediate(resolve))
        turns++
      }
      expect(turns).toBeGreaterThan(10)
      const answer = await long
      expect(provider.requests.at(-1)!.body!['messages']).toEqual([{ role: 'user', content: redacted }])
      const { note } = gateway.receipt(answer)!.trail.find(({ step }) => step === 'guard')!
      expect(note).toBe('in the request: email 1')
      expect(await gateway.exchangeLine(answer.headers.get('x-request-id')!)).toMatchObject({ outcome: 'answered' })
    },
  )

  test('in shadow mode the matches of a long answer are noted, and nothing is changed', async () => {
    await using gateway = await start([{ detect: 'email', on: 'answer' }], [found], 'shadow')
    for (const isStream of [false, true]) {
      const answer = await gateway.chat({ stream: isStream })
      expect((await answer.clone().text()).includes(MAIL)).toBe(true)
      await answer.text()
      const entry = gateway.receipt(answer)!.trail.find(({ step }) => step === 'guard')
      expect(entry).toMatchObject({ note: 'in the answer: email 1', would: [{ deed: 'edit' }] })
    }
  })

  test('the refusal of a long request names the place of the match', async () => {
    await using gateway = await start([{ detect: 'email', action: 'refuse' }], ['Hello'])
    const before = provider.requests.length
    const messages = ['Hello', found.repeat(2)].map(content => ({ role: 'user', content }))
    const answer = await gateway.chat({ messages })
    expect(answer.status).toBe(400)
    const error = { code: 'content_filter', param: 'messages[1].content', message: expect.stringContaining('"email"') }
    expect(await answer.json()).toMatchObject({ error })
    expect(provider.requests.length).toBe(before)
  })

  test('a rule that refuses ends a long answer', async () => {
    await using gateway = await start([{ detect: 'email', action: 'refuse' }], [found])
    const whole = await gateway.chat()
    expect([whole.status, await whole.text()]).toEqual([400, expect.stringContaining('The answer was stopped')])
    const streamed = await (await gateway.chat({ stream: true })).text().catch(String)
    expect(streamed).not.toContain('ada@')
    expect(gateway.balance().held).toBe(0n)
  })

  test.each<[string, (worker: Worker) => void]>([
    ['that ends', worker => void worker.terminate()],
    [
      'that cannot be given a request',
      () => {
        throw new Error('no room')
      },
    ],
  ])('a thread %s fails that request, and no other', async (_name, fail) => {
    await using gateway = await start([{ detect: 'email' }], ['Hello'])
    const ask = () => gateway.chat({ messages: [{ role: 'user', content: found.repeat(2) }] })
    const post = vi.spyOn(Worker.prototype, 'postMessage').mockImplementationOnce(function (this: Worker) {
      fail(this)
    })
    const statuses = (await Promise.all([ask(), ask()])).map(({ status }) => status).sort()
    post.mockRestore()
    expect(statuses).toEqual([200, 500])
    expect(provider.requests.at(-1)!.body!['messages']).toEqual([{ role: 'user', content: redacted.repeat(2) }])
    expect(gateway.balance().held).toBe(0n)
  })

  test('accounts take turns at the thread', async () => {
    const signal = new AbortController().signal
    const rules = [{ name: 'mark', pattern: 'zeus', ignore_case: false, on: 'both', action: 'flag' }] as const
    const order: string[] = []
    const ask = async (owner: string, name: string) => {
      const question = { texts: [{ text: `${filler} zeus`, path: ['messages'] }], rules }
      await guardThread.guard(question, owner, new Findings(), signal)
      order.push(name)
    }
    // The thread gets the first request once all others wait.
    const { postMessage } = Worker.prototype
    const post = vi.spyOn(Worker.prototype, 'postMessage').mockImplementationOnce(async function (this: Worker, first) {
      while (guardThread.waiting < 6) await new Promise(resolve => setImmediate(resolve))
      postMessage.call(this, first)
    })
    await Promise.all([ask('a', 'a1'), ask('a', 'a2'), ask('a', 'a3'), ask('b', 'b1'), ask('b', 'b2'), ask('c', 'c1')])
    post.mockRestore()
    expect(order).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3'])
  })

  test('the work stops when the client disconnects', async () => {
    await using gateway = await start([{ detect: 'email' }, { detect: 'phone' }, { detect: 'iban' }], [])
    const before = provider.requests.length
    const abort = new AbortController()
    const long = gateway.chat({ messages: [{ role: 'user', content: filler.repeat(12) }] }, { signal: abort.signal })
    while (guardThread.waiting === 0) await new Promise(resolve => setImmediate(resolve))
    abort.abort()
    await long.catch(() => {})
    const line = await until(() => gateway.log.find(({ outcome }) => outcome === 'client_left') ?? expect.fail('none'))
    expect(line).toMatchObject({ outcome: 'client_left' })
    await until(() => expect(guardThread.waiting).toBe(0))
    expect(provider.requests.length).toBe(before)
    expect(gateway.balance().held).toBe(0n)
  })
})
