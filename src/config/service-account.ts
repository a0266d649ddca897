/** `service_account`: the JSON file that Google's console gives out for an account, as the text of a secret. */
import { createPrivateKey } from 'node:crypto'
import type { ServiceAccount } from './configuration.ts'
import type { ProviderShape } from './file-shapes.ts'
import { BY_REFERENCE, WRITTEN_OUT } from './gateway-section.ts'
import { isLoopback } from './listen-address.ts'
import type { Source } from './yaml/source.ts'

/** Of a text that has passed the check. */
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
    const message = 'service_account is for the dialects vertex and vertex-anthropic'
    source.report(at, message, { key: true, concealed: true })
  } else if (!source.substituted(at)) {
    source.report(at, `the service_account ${WRITTEN_OUT}`, {
      rule: 'written-secret',
      suggestion: BY_REFERENCE,
      concealed: true,
    })
  } else {
    const read = readAccount(text)
    if (typeof read !== 'string') return
    source.report(at, `the service_account ${read}`, {
      suggestion: "give the text of the JSON file that Google's console makes for a key: ${file:PATH}",
      concealed: true,
    })
  }
}

/** The account, or what is wrong with the text, without a word of it. */
function readAccount(text: string): ServiceAccount | string {
  let value: Readonly<Record<string, unknown>> | null
  try {
    value = JSON.parse(text) as Readonly<Record<string, unknown>> | null
  } catch {
    return 'is not JSON'
  }
  const { client_email: clientEmail, private_key: privateKey, token_uri: tokenUri } = value ?? {}
  if (typeof clientEmail !== 'string' || typeof privateKey !== 'string' || typeof tokenUri !== 'string') {
    return 'does not hold client_email, private_key and token_uri'
  }
  const url = URL.parse(tokenUri)
  if (url?.protocol !== 'https:' && !(url?.protocol === 'http:' && isLoopback(url.hostname))) {
    return 'has a token_uri that is no https address'
  }
  try {
    if (createPrivateKey(privateKey).asymmetricKeyType !== 'rsa') return 'has a private_key that is not RSA'
  } catch {
    return 'has a private_key that cannot be read'
  }
  return { clientEmail, privateKey, tokenUri }
}
