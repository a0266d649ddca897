import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { formatMoney, parseMoney } from '#contract'
import { isFull } from '../helpers/counts.ts'
import { ext4Disk, limitedDisk, tmpfsDisk } from '../helpers/disks.ts'
import { type FakeProvider, gated, startFakeProvider } from '../helpers/fake-provider.ts'
import { answerOf, createAccount, type Gateway, startGateway } from '../helpers/gateway.ts'
import { FIVE_STEPS, PRICE } from '../helpers/in-process.ts'
import { parseSse, textOf } from '../helpers/sse.ts'

const full = isFull('kills')

const STREAMS = 6
/** 10 prompt tokens at 1,000 and 3 at 2,000 nano-dollars. */
const CHARGE = 16_000n
const CREDIT = '1'

/** The disks that are available here: the first one, and all in the full run. */
const DISKS = [tmpfsDisk, limitedDisk, ext4Disk]
  .flatMap(make => {
    const disk = make()
    disk?.remove()
    return disk ? [{ name: disk.name, make }] : []
  })
  .slice(0, full ? 3 : 1)

let provider: FakeProvider
let gateway: Gateway | null = null
let mounted: { remove(): void } | null = null
beforeAll(async () => {
  provider = await startFakeProvider({ script: gated({ tokens: 3 }) })
})
afterEach(async () => {
  // Here and not in the test, so that a timeout leaves no file system either.
  await gateway?.kill9()
  gateway = null
  mounted?.remove()
  mounted = null
})
afterAll(() => provider.close())

function start(dir: string): Promise<Gateway> {
  return startGateway({
    dir,
    yaml: {
      version: 1,
      listen: '127.0.0.1:0',
      admin: '127.0.0.1:0',
      store: 'sqlite:./data/tollgate.db',
      limits: { max_inflight: 20 },
      providers: { p: { dialect: 'openai', base_url: provider.baseUrl } },
      models: {
        m: { targets: [{ provider: 'p', model: 'upstream' }], price: PRICE, context: 8192, max_output: 1000 },
      },
      routes: [
        { path: '/v1/chat/completions', policy: 'chat' },
        { path: '/v1/receipts/{id}', policy: 'receipts' },
      ],
    },
    policies: { chat: { steps: FIVE_STEPS }, receipts: { steps: [{ use: 'api-key' }] } },
  })
}

interface Streams {
  readonly account: string
  readonly key: string
  readonly answers: readonly Response[]
  readonly ids: readonly string[]
}

function ask({ url }: Gateway, key: string): Promise<Response> {
  return fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hello' }], stream: true }),
  })
}

/** Streams that have received everything except the end. */
async function openStreams(running: Gateway): Promise<Streams> {
  const { accountId: account, key } = await createAccount(running, { credit: CREDIT })
  const before = provider.requests.length
  const asked = Array.from({ length: STREAMS }, () => ask(running, key))
  const requests = await Promise.all(asked.map((_, index) => provider.waitForRequest(before + index)))
  // The role, and three tokens.
  for (const request of requests) await request.step(4)
  const answers = await Promise.all(asked)
  return { account, key, answers, ids: answers.map(({ headers }) => headers.get('x-request-id')!) }
}

/** Lets the provider finish; returns the number of complete streams, and the codes of the others. */
async function finish({ answers }: Streams) {
  for (const request of provider.requests.slice(-STREAMS)) void request.step(100)
  const read = await Promise.all(answers.map(async answer => parseSse(await textOf(answer))))
  const codes = read.flatMap(({ events }) => events.flatMap(({ data }) => /"code":"(\w+)"/.exec(data)?.[1] ?? []))
  return { done: read.filter(({ done }) => done).length, codes }
}

async function readiness({ url }: Gateway): Promise<[status: number, reason: string | undefined]> {
  const answer = await fetch(`${url}/readyz`)
  return [answer.status, ((await answer.json()) as { reason?: string }).reason]
}

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  await expect.poll(holds, { message: what }).toBe(true)
}

async function metric({ adminUrl }: Gateway, name: string): Promise<number> {
  const page = await (await fetch(`${adminUrl}/metrics`)).text()
  return Number(new RegExp(`^${name} (.*)$`, 'm').exec(page)?.[1])
}

/** Nothing is held, and each stream was charged once, this amount. */
async function expectCharged(running: Gateway, { account, key, ids }: Streams, charge = CHARGE): Promise<void> {
  await until('no hold is open', async () => (await metric(running, 'tollgate_holds_open')) === 0)
  const audit = await answerOf(['ledger', 'verify'], running)
  expect(audit).toMatchObject({ open_holds: 0, violations: [] })
  const posted = formatMoney(parseMoney(CREDIT) - BigInt(STREAMS) * charge)
  const shown = await answerOf<{ account: unknown }>(['account', 'show', account], running)
  expect(shown.account).toMatchObject({ posted, held: formatMoney(0n) })
  for (const id of ids) {
    const receipt = await fetch(`${running.url}/v1/receipts/${id}`, { headers: { authorization: `Bearer ${key}` } })
    expect(await receipt.json()).toMatchObject({ id, charged: formatMoney(charge) })
  }
}

/** With its own disk, which is removed afterwards. */
async function on<D extends { readonly dir: string; remove(): void }>(
  make: () => D | null,
  act: (disk: D, running: Gateway) => Promise<void>,
): Promise<void> {
  const disk = make()
  if (disk === null) throw new Error('the disk that was there before cannot be made again')
  mounted = disk
  gateway = await start(disk.dir)
  await act(disk, gateway)
}

async function expectNotReady(running: Gateway): Promise<void> {
  await until('/readyz says 503', async () => (await readiness(running))[0] === 503)
  expect(await readiness(running)).toEqual([503, 'the ledger cannot be written'])
}

describe.each(DISKS)('a full disk: $name', ({ make }) => {
  test('charges go to the reserved space, streams end properly, and all is charged when there is room', () =>
    on(make, async (disk, running) => {
      expect(await readiness(running)).toEqual([200, undefined])
      const streams = await openStreams(running)
      disk.fill(running.pid)
      await expectNotReady(running)
      const refused = await ask(running, streams.key)
      expect([refused.status, await refused.json()]).toMatchObject([503, { error: { code: 'store_unavailable' } }])

      expect(await finish(streams)).toEqual({ done: STREAMS, codes: [] })
      expect(await metric(running, 'tollgate_settles_spooled')).toBe(STREAMS)
      expect(await metric(running, 'tollgate_settles_waiting')).toBe(0)
      expect(await metric(running, 'tollgate_ledger_healthy')).toBe(0)
      const spooled = running.logs().filter(({ msg }) => msg === 'failed to write a settle; it is in the spool')
      expect(spooled.map(({ exchange }) => exchange).sort()).toEqual([...streams.ids].sort())

      disk.makeRoom(running.pid)
      await until('/readyz says 200', async () => (await readiness(running))[0] === 200)
      await expectCharged(running, streams)
      await running.waitForLog(({ msg, settles }) => msg === 'delayed settles were written' && settles === STREAMS)
      expect(await running.stop()).toBe(0)
    }))

  test('and kill -9: the next start charges from the reserved space', () =>
    on(make, async (disk, running) => {
      const streams = await openStreams(running)
      disk.fill(running.pid)
      expect(await finish(streams)).toEqual({ done: STREAMS, codes: [] })
      await running.kill9()
      disk.makeRoom(process.pid)
      gateway = await start(disk.dir)
      expect(gateway.logs()).toContainEqual(expect.objectContaining({ settled: 0, replayed: STREAMS }))
      await expectCharged(gateway, streams)
      expect(await gateway.stop()).toBe(0)
    }))

  test('that accepts nothing at all: settles wait in memory, the shutdown waits for them, and all is charged', () =>
    on(make, async (disk, running) => {
      const streams = await openStreams(running)
      disk.refuse(running.pid)
      // Delivered, but the charge is uncertain: no stream looks complete.
      const codes = Array<string>(STREAMS).fill('store_unavailable')
      expect(await finish(streams)).toEqual({ done: 0, codes })
      expect(await metric(running, 'tollgate_settles_waiting')).toBe(STREAMS)
      await expectNotReady(running)
      const refused = await ask(running, streams.key)
      expect(refused.status).toBe(503)

      process.kill(running.pid, 'SIGTERM')
      await running.waitForLog(({ msg, settles }) => /waiting for settles/.test(String(msg)) && settles === STREAMS)
      expect(await metric(running, 'tollgate_settles_waiting')).toBe(STREAMS)
      disk.makeRoom(running.pid)
      expect(await running.exited).toBe(0)
      gateway = await start(disk.dir)
      await expectCharged(gateway, streams)
      expect(await gateway.stop()).toBe(0)
    }))
})

if (DISKS.length === 0)
  test('a full disk', context =>
    context.skip('this process may neither mount a file system nor limit the size of files'))

test('a read-only disk: not ready, the log names the losses at the end, and the next start holds nothing', async context => {
  const probe = ext4Disk()
  if (probe === null) return context.skip('this process may not mount an ext4 file system')
  await on(
    () => probe,
    async (disk, running) => {
      const streams = await openStreams(running)
      disk.fail()
      await expectNotReady(running)
      const codes = Array<string>(STREAMS).fill('store_unavailable')
      expect(await finish(streams)).toEqual({ done: 0, codes })

      process.kill(running.pid, 'SIGTERM')
      await running.waitForLog(({ msg }) => /waiting for settles/.test(String(msg)))
      process.kill(running.pid, 'SIGTERM')
      expect(await running.exited).toBe(1)
      const lost = running.logs().filter(({ msg }) => /^a settle is lost/.test(String(msg)))
      expect(lost.map(({ exchange }) => exchange).sort()).toEqual([...streams.ids].sort())
      for (const line of lost) expect(line).toMatchObject({ level: 'error', amount: formatMoney(CHARGE) })

      disk.repair()
      gateway = await start(disk.dir)
      expect(await readiness(gateway)).toEqual([200, undefined])
      // No stream was old enough for a checkpoint.
      await expectCharged(gateway, streams, 0n)
      expect(await gateway.stop()).toBe(0)
    },
  )
})
