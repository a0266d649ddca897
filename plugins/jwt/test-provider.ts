/** An identity provider for tests: keys made here, tokens signed by them, and a key set on a loopback address. */
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type JWTPayload, SignJWT } from 'jose'

export const ISSUER = 'https://identity.example'
export const AUDIENCE = 'tollgate'

export interface Signer {
  readonly kid: string | undefined
  readonly alg: string
  readonly privateKey: KeyObject
  readonly publicKey: KeyObject
  /** The key as an entry of a key set. */
  readonly jwk: Readonly<Record<string, unknown>>
}

export function createSigner(alg: 'RS256' | 'ES256' | 'EdDSA', kid?: string): Signer {
  const { privateKey, publicKey } =
    alg === 'RS256'
      ? generateKeyPairSync('rsa', { modulusLength: 2048 })
      : alg === 'ES256'
        ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
        : generateKeyPairSync('ed25519')
  const jwk = { ...publicKey.export({ format: 'jwk' }), alg, use: 'sig', ...(kid === undefined ? {} : { kid }) }
  return { kid, alg, privateKey, publicKey, jwk }
}

/** A public key that is too short. */
export function weakJwk(kid?: string): Readonly<Record<string, unknown>> {
  const { publicKey } = generateKeyPairSync('rsa', { modulusLength: 1024 })
  return { ...publicKey.export({ format: 'jwk' }), ...(kid === undefined ? {} : { kid }) }
}

/** A token that is valid at `nowMs` for an hour. A claim or a part of the head that is `undefined` is left out. */
export function sign(
  { kid, alg, privateKey }: Signer,
  nowMs: number,
  claims: Readonly<Record<string, unknown>> = {},
  head: Readonly<Record<string, unknown>> = {},
): Promise<string> {
  const now = Math.floor(nowMs / 1000)
  const payload = { iss: ISSUER, aud: AUDIENCE, sub: 'alice', tenant: 'ada', iat: now, exp: now + 3600, ...claims }
  const header = JSON.parse(JSON.stringify({ alg, kid, typ: 'JWT', ...head })) as { alg: string }
  return new SignJWT(JSON.parse(JSON.stringify(payload)) as JWTPayload).setProtectedHeader(header).sign(privateKey)
}

type Answer = (request: IncomingMessage, response: ServerResponse) => void

/** Serves a key set, or another answer that a test sets. */
export async function serveKeys(...signers: readonly Signer[]) {
  let answer: Answer = json({ keys: signers.map(({ jwk }) => jwk) })
  const state = { asked: 0 }
  const server = createServer((request, response) => {
    state.asked++
    answer(request, response)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`,
    asked: () => state.asked,
    answer: (next: Answer) => void (answer = next),
    serve: (...others: readonly Signer[]) => void (answer = json({ keys: others.map(({ jwk }) => jwk) })),
    close: () =>
      new Promise<void>(resolve => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
}

export function json(value: unknown, status = 200): Answer {
  return (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json', connection: 'close' })
    response.end(typeof value === 'string' ? value : JSON.stringify(value))
  }
}
