/** The shipped policies count requests that `schema` refuses. Beyond the limit they refuse before a body is read. */
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'
import { type InProcess, startInProcess } from '../helpers/in-process.ts'
import { openRaw } from '../helpers/raw-client.ts'
import { read } from '../helpers/repository.ts'

/** The file, without a refill during the test. */
const shipped = (file: string) => parse(read(file).replaceAll('per minute', 'per day'))
const SHIPPED: Readonly<Record<string, { readonly steps: object[]; readonly burst: number; readonly step?: string }>> =
  {
    standard: { ...shipped('policies/standard.yaml'), burst: 20 },
    'free-tier': { ...shipped('policies/free-tier.yaml'), burst: 60, step: 'requests' },
    open: { ...shipped('policies/open.yaml'), burst: 5 },
    compose: { ...shipped('src/deploy/policies/standard.yaml'), burst: 60 },
    helm: { ...shipped('src/deploy/example-values.yaml').policies.standard, burst: 60 },
  }

let gateway: InProcess
beforeAll(async () => {
  gateway = await startInProcess({
    policies: Object.fromEntries(Object.entries(SHIPPED).map(([name, { steps }]) => [name, steps])),
    yaml: {
      routes: Object.keys(SHIPPED).map(name => ({
        path: `/${name}/v1/chat/completions`,
        policy: name,
        ...(name === 'open' ? { public: true, unmetered: true } : {}),
      })),
    },
  })
})
afterAll(() => gateway.stop())

test.each(Object.entries(SHIPPED))('%s', async (name, { burst, step = 'rate-limit' }) => {
  const path = `/${name}/v1/chat/completions`
  const headers = { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' }
  const ask = () => fetch(`${gateway.url}${path}`, { method: 'POST', headers, body: '{"modle":"m"}' })
  const statuses = []
  for (let count = 0; count < burst; count++) statuses.push((await ask()).status)
  expect(new Set(statuses)).toEqual(new Set([400]))

  const client = await openRaw(gateway.url)
  onTestFinished(() => client.reset())
  const lines = Object.entries({ host: 'gateway', ...headers, 'content-length': '450000' })
  await client.send(`POST ${path} HTTP/1.1\r\n${lines.map(([key, value]) => `${key}: ${value}\r\n`).join('')}\r\n`)
  // The body never arrives.
  const refused = await client.readResponse()
  expect([refused.status, refused.header('x-tollgate-decision')]).toEqual([429, `${step}; code=rate_limit_exceeded`])
})
