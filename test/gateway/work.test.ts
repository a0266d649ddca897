/** The accounts that own the work of exchanges, and which of them wait. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { THREAD_QUEUE } from '../../src/request/http/owners.ts'
import { FIVE_STEPS, type InProcess, startInProcess } from '../helpers/in-process.ts'
import { openRaw } from '../helpers/raw-client.ts'

const { slices, owners, now } = THREAD_QUEUE

let gateway: InProcess
beforeAll(async () => {
  gateway = await startInProcess({ steps: FIVE_STEPS, credit: '1000' })
})
afterAll(() => gateway.stop())

const shareOf = (account: string) => owners.account(account).share(now())

test('the work of an exchange belongs to its account', async () => {
  const account = await gateway.account()
  expect(shareOf(account.accountId)).toBe(0)
  expect((await account.chat()).status).toBe(200)
  expect(shareOf(account.accountId)).toBeGreaterThan(0)
})

test('a declared length above the limit costs as much as the limit', async () => {
  const account = await gateway.account()
  const client = await openRaw(gateway.url)
  const head = ['POST /v1/chat/completions HTTP/1.1', 'host: x', 'content-type: application/json']
  await client.send(
    [...head, `authorization: Bearer ${account.key}`, 'content-length: 9007199254740991', '', ''].join('\r\n'),
  )
  expect((await client.readResponse()).status).toBe(413)
  expect(shareOf(account.accountId)).toBeLessThan(150)
  client.socket.destroy()
})

test('while others have work, an account with a long slice pauses, and the others do not', async () => {
  const [heavy, light] = [await gateway.account(), await gateway.account()]
  expect((await light.chat()).status).toBe(200)
  const owner = owners.account(heavy.accountId)
  // Set instead of measured, because the thread may not have had the processor for so long.
  slices.spend(owner, 250, 0)
  expect(slices.isBehind(owner)).toBe(true)
  expect(slices.isBehind(owners.account(light.accountId))).toBe(false)
  expect((await heavy.chat()).status).toBe(200)
  expect(now()).toBeGreaterThanOrEqual(owner.restUntilMs)
})
