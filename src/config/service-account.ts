/** `service_account`: parses and checks the JSON key file of a Google service account. */
import { createPrivateKey } from 'node:crypto'
import type { ServiceAccount } from './configuration.ts'
import type { ProviderShape } from './file-shapes.ts'
import { BY_REFERENCE, WRITTEN_IN_CLEAR } from './gateway-section.ts'
import { isLoopback } from './listen-address.ts'
import type { Source } from './yaml/source.ts'

/** For a text that has passed `checkServiceAccount`. */
export function serviceAccountOf(text: string): ServiceAccount {
  const read = readAccount(text)
  if (typeof read === 'string') throw new TypeError(read)
  return read
}

export function checkServiceAccount(
  source: Source,
  at: string,
  { dialect, service_account: text }: Partial<ProviderShape>,
): void {
  if (text === undefined || dialect === undefined) return
  if (dialect !== 'vertex' && dialect !== 'vertex-anthropic') {
    const message = 'service_account is only for the dialects vertex and vertex-anthropic'
    source.report(at, message, { key: true, concealed: true })
  } else if (!source.substituted(at)) {
    source.report(at, `the service_account ${WRITTEN_IN_CLEAR}`, {
      rule: 'written-secret',
      suggestion: BY_REFERENCE,
      concealed: true,
    })
  } else {
    const read = readAccount(text)
    if (typeof read !== 'string') return
    source.report(at, `the service_account ${read}`, {
      suggestion: "write ${file:PATH} with the path of the JSON key file from Google's console",
      concealed: true,
    })
  }
}

/** Returns the account or a problem, which never quotes the text. */
function readAccount(text: string): ServiceAccount | string {
  let value: Readonly<Record<string, unknown>> | null
  try {
    value = JSON.parse(text) as Readonly<Record<string, unknown>> | null
  } catch {
    return 'is not JSON'
  }
  const { client_email: clientEmail, private_key: privateKey, token_uri: tokenUri } = value ?? {}
  if (typeof clientEmail !== 'string' || typeof privateKey !== 'string' || typeof tokenUri !== 'string') {
    return 'does not contain client_email, private_key and token_uri'
  }
  const url = URL.parse(tokenUri)
  if (url?.protocol !== 'https:' && !(url?.protocol === 'http:' && isLoopback(url.hostname))) {
    return 'has a token_uri that is not an https URL'
  }
  try {
    if (createPrivateKey(privateKey).asymmetricKeyType !== 'rsa') return 'has a private_key that is not RSA'
  } catch {
    return 'has a private_key that cannot be read'
  }
  return { clientEmail, privateKey, tokenUri }
}
