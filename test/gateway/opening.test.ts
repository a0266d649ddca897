/** A request for which no exchange can be opened. */
import { afterEach, expect, test, vi } from 'vitest'
import { CutResponse } from '../../src/request/http/cut-response.ts'
import { edit } from '../helpers/edit-configuration.ts'
import { FIVE_STEPS, startInProcess } from '../helpers/in-process.ts'

afterEach(() => void vi.restoreAllMocks())

test('is answered and logged, and keeps no configuration in use', async () => {
  await using gateway = await startInProcess({
    yaml: { admin: '127.0.0.1:0', metrics: 'open', routes: [{ path: '/v1/messages', policy: 'test' }] },
    policies: { test: FIVE_STEPS },
  })
  const { setHeader } = CutResponse.prototype
  vi.spyOn(CutResponse.prototype, 'setHeader').mockImplementation(function (this: CutResponse, name, value) {
    if (name === 'request-id') throw new Error('no header can be set')
    return setHeader.call(this, name, value)
  })
  const headers = { 'content-type': 'application/json' }
  const answer = await fetch(`${gateway.url}/v1/messages`, { method: 'POST', headers, body: '{}' })
  expect(answer.status).toBe(500)
  expect(await answer.json()).toMatchObject({ error: { code: 'internal_error' } })
  vi.restoreAllMocks()
  const bug = await gateway.waitForLog(line => line['msg'] === 'an unexpected error')
  expect(bug['exchange']).toBe(answer.headers.get('x-request-id'))
  const metrics = await fetch(`${gateway.running.adminUrl}/metrics`).then(page => page.text())
  expect(metrics).toContain('internal_error')
  edit(gateway, yaml => {
    yaml['drain'] = '59s'
  })
  await gateway.running.reload()
  edit(gateway, yaml => {
    yaml['drain'] = '58s'
  })
  await gateway.running.reload()
  const changed = gateway.log.filter(line => line['msg'] === 'the configuration has changed')
  expect(changed.map(line => line['live'])).toEqual([1, 1])
})
