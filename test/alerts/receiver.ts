/** A receiver of webhooks on loopback, and test alerts. */
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'
import { ALERT_KINDS, type Webhook } from '../../src/common/alerts-config.ts'
import type { Alert } from '../../src/store/alerts/alert-rows.ts'

export interface Received {
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** Its answer; `hang`: none. `isEndless`: a status and a piece, without an end. */
export type Behaviour =
  | { readonly status: number; readonly headers?: Record<string, string>; readonly isEndless?: true }
  | 'hang'

export interface Receiver {
  readonly url: string
  readonly received: Received[]
  behaves(behaviour: Behaviour): void
  /** The accepted alerts, by their `webhook-id`. */
  ids(): readonly string[]
}

export async function startReceiver(): Promise<Receiver> {
  const received: Received[] = []
  let behaviour: Behaviour = { status: 204 }
  const server = createServer(async (req, res) => {
    received.push({ headers: req.headers, body: await text(req) })
    if (behaviour === 'hang') return
    res.writeHead(behaviour.status, behaviour.headers)
    if (behaviour.isEndless) res.write('taken')
    else res.end()
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook?token=very-secret-part`,
    received,
    behaves: next => void (behaviour = next),
    ids: () => received.map(({ headers }) => String(headers['webhook-id'])),
  }
}

export function aWebhook(url: string, fields: Partial<Webhook> = {}): Webhook {
  return { name: 'ops', url, host: new URL(url).host, secret: null, format: 'json', events: ALERT_KINDS, ...fields }
}

export function anAlert(fields: Partial<Alert> = {}): Alert {
  const data = { provider: 'openai', targets: 2, replica: 'gate-1' }
  const plain = { id: 'provider_down gate-1 openai 5', kind: 'provider_down', at: 1_800_000_000_000 }
  return { ...plain, account: null, accountName: null, data, ...fields }
}
