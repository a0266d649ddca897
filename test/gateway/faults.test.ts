import { afterAll, beforeAll, test } from 'vitest'
import OpenAI from 'openai'
import { FAULTS, exact, startFakeProvider, UNREACHABLE, type FakeProvider, type FaultMode } from '../helpers/fake-provider.ts'
import { startInProcess, PRICE, type InProcess } from '../helpers/in-process.ts'

const T = { connect: '500ms', first_byte: '1s', idle: '1s', total: '5s' }
const cells: { name: string; mode: FaultMode; provider: FakeProvider | null; url: string; key: string; early: boolean }[] = []
let gateway: InProcess
beforeAll(async () => {
  let n = 0
  for (const fault of FAULTS) for (const mode of ['whole', 'stream'] as const) {
    const b = fault.make(mode)
    const provider = await startFakeProvider({ script: [b, exact({ tokens: ['good', ` c${n}`] })] })
    cells.push({ name: `${fault.id} ${fault.title}`, mode, provider, url: provider.baseUrl, key: `c${n++}`, early: false })
  }
  for (const u of UNREACHABLE) for (const mode of ['whole', 'stream'] as const) {
    const o = await u.open()
    cells.push({ name: `${u.id} ${u.title}`, mode, provider: null, url: o.url, key: `c${n++}`, early: false })
  }
  gateway = await startInProcess({ yaml: {
    providers: Object.fromEntries(cells.map(c => [c.key, { dialect: 'openai', base_url: c.url, allow_insecure: true, timeouts: { ...T } }])),
    models: Object.fromEntries(cells.map(c => [c.key, { targets: [{ provider: c.key, model: 'upstream-model' }], price: { ...PRICE }, context: 8192, max_output: 1000 }])),
  }})
}, 60000)
afterAll(async () => { await gateway.stop() })

test('x', async () => {
  const rows: string[] = []
  const queue = [...cells]
  const work = async () => {
    for (let c = queue.shift(); c; c = queue.shift()) {
      const t = performance.now()
      let text = '', status = 0, id = '', ct = '', end = 'end'
      try {
        const r = await gateway.chat({ model: c.key, stream: c.mode === 'stream' })
        status = r.status; id = r.headers.get('x-request-id')!; ct = r.headers.get('content-type') ?? ''
        const reader = r.body!.getReader(); const d = new TextDecoder()
        for (;;) { const { done, value } = await reader.read(); if (done) break; if (text.length < 100000) text += d.decode(value, { stream: true }) }
      } catch (e) { end = String(e) }
      const ms = performance.now() - t
      const rc = gateway.running.store.findReceipt(id)
      const tail = text.length > 150 ? text.slice(-150) : text
      await new Promise(r => setTimeout(r, 300))
      const open = c.provider?.openConnections
      const how = c.provider?.requests[0]?.ending?.how
      let good = ''
      if (c.provider) { const g = await gateway.chat({ model: c.key }); good = (await g.text()).slice(-300).match(/good c\d+/)?.[0] ?? `BAD ${g.status}`; if (good !== `good ${c.key}`) good = 'BAD ' + good }
      rows.push([c.name, c.mode, status, ct.slice(0, 20), `${rc?.charged}/${rc?.source}/${rc?.outcome}/${rc?.code}`, Math.round(ms), end, `open ${open} ${how} c${c.provider?.requests[1]?.connection}`, good, JSON.stringify(tail)].join(' | '))
    }
  }
  await Promise.all(Array.from({ length: 16 }, work))
  const fs = await import('node:fs')
  fs.writeFileSync('/tmp/x/rows.txt', rows.sort().join('\n'))
}, 200000)
