/** Problems with a server's certificate: the code of Node's error, and the words for people. */
type Fault = readonly [code: RegExp, words: string]

export const UNKNOWN_CA: Fault = [
  /^(?:SELF_SIGNED_CERT|DEPTH_ZERO_SELF_SIGNED|UNABLE_TO_(?:VERIFY|GET_ISSUER)|CERT_(?:UNTRUSTED|SIGNATURE))/,
  'has a certificate of an unknown CA',
]
export const OTHER_HOST: Fault = [/^ERR_TLS_CERT_ALTNAME/, 'has a certificate for another host']
export const EXPIRED: Fault = [/^CERT_HAS_EXPIRED/, 'has an expired certificate']
