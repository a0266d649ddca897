import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { authorizeBedrock, type SignedRequest, signRequest } from '../../../../src/providers/dialects/bedrock/index.ts'
import { CORPUS, describeWith, WITHOUT_CORPUS } from '../../../helpers/missing.ts'

const credentials = {
  accessKeyId: 'AKIATESTTESTTESTTEST',
  secretAccessKey: 'a/secret+of/forty/letters/for+tests/only1',
}
const host = 'bedrock-runtime.eu-central-1.amazonaws.com'
const plain: SignedRequest = {
  method: 'POST',
  path: '/model/eu.amazon.nova-lite-v1%3A0/converse',
  headers: { host, 'content-type': 'application/json' },
  body: '{"messages":[]}',
  region: 'eu-central-1',
  service: 'bedrock',
  credentials,
  nowMs: Date.parse('2026-11-20T12:00:00.987Z'),
}
const documented = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' }

const signatureOf = (more: Partial<SignedRequest> = {}) =>
  /Signature=([0-9a-f]{64})$/.exec(signRequest({ ...plain, ...more })['authorization']!)?.[1]

describe('a signature', () => {
  test('a request without a host is not signed', () => {
    expect(() => signRequest({ ...plain, headers: {} })).toThrow('the headers have no host')
  })

  test('the headers that it adds', () => {
    expect(signRequest(plain)).toEqual({
      'x-amz-date': '20261120T120000Z',
      authorization:
        'AWS4-HMAC-SHA256 Credential=AKIATESTTESTTESTTEST/20261120/eu-central-1/bedrock/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature=0db125793703538055c97e781327f3f0f5239b274cd0106d9eff3a44bc7cd194',
    })
  })

  // botocore 1.43 and a second program computed each signature. The last two are from AWS's documentation.
  test.each<[name: string, signature: string, more: Partial<SignedRequest>]>([
    [
      'temporary credentials, an ARN, text beyond ASCII',
      '5ca6b8c38c2d0239348a7c093e290a9387180c8afec0a7e92f50be6f61644f80',
      {
        path: '/model/arn%3Aaws%3Abedrock%3Aeu-central-1%3A123456789012%3Ainference-profile%2Fx/converse-stream',
        body: Buffer.from('{"text":"grüße 👋"}'),
        credentials: { ...credentials, sessionToken: 'a/session+token==' },
      },
    ],
    [
      'a query out of order, dots in the path, blanks in a header',
      'a939cc7e1932b1bae1e84a37f9f6e21221baf195173ceacb32f1061916dfb728',
      {
        method: 'GET',
        path: '/a/../b/./c(d)/',
        query: 'b=2&a=1&a=0&empty=&c=%2F%20x',
        headers: { Host: 'h.example', 'Content-Type': 'application/json', 'X-Own': '  two   words ' },
        body: '',
        region: 'us-west-2',
        service: 'bedrock-mantle',
      },
    ],
    [
      'another service, with a query',
      '5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7',
      {
        method: 'GET',
        path: '/',
        query: 'Action=ListUsers&Version=2010-05-08',
        headers: {
          host: 'iam.amazonaws.com',
          'content-type': 'application/x-www-form-urlencoded; charset=utf-8',
        },
        body: '',
        region: 'us-east-1',
        service: 'iam',
        credentials: documented,
        nowMs: Date.parse('2015-08-30T12:36:00Z'),
      },
    ],
    [
      'the smallest request that can be signed',
      '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31',
      {
        method: 'GET',
        path: '/',
        headers: { host: 'example.amazonaws.com' },
        body: '',
        region: 'us-east-1',
        service: 'service',
        credentials: documented,
        nowMs: Date.parse('2015-08-30T12:36:00Z'),
      },
    ],
  ])('%s', (_name, signature, more) => {
    expect(signatureOf(more)).toBe(signature)
  })

  test('headers that proxies change are not signed', () => {
    const headers = { ...plain.headers, connection: 'keep-alive', 'user-agent': 'a', 'transfer-encoding': 'chunked' }
    expect(signatureOf({ headers: { ...headers, authorization: 'Bearer x' } })).toBe(signatureOf())
  })

  test.each<[name: string, more: Partial<SignedRequest>]>([
    ['method', { method: 'PUT' }],
    ['path', { path: '/model/eu.amazon.nova-lite-v1:0/converse' }],
    ['query', { query: 'a' }],
    ['header', { headers: { ...plain.headers, 'content-type': 'text/plain' } }],
    ['body', { body: '{"messages":[] }' }],
    ['region', { region: 'eu-central-2' }],
    ['service', { service: 'bedrock-runtime' }],
    ['secret', { credentials: { ...credentials, secretAccessKey: 'x' } }],
    ['token', { credentials: { ...credentials, sessionToken: '' } }],
    ['second', { nowMs: plain.nowMs + 1000 }],
  ])('another %s, another signature', (_name, more) => {
    expect(signatureOf(more)).not.toBe(signatureOf())
  })
})

test('an API key is sent as a bearer token', () => {
  expect(authorizeBedrock('bedrock-api-key-abc')).toEqual({ authorization: 'Bearer bedrock-api-key-abc' })
})

interface Vector {
  readonly service: string
  readonly region: string
  readonly credentials: SignedRequest['credentials']
  readonly method: string
  readonly url: string
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
  readonly time: string
  readonly authorization: string
}

/** The two files of vectors of the corpus, which differ in their form. */
function vectors(dir: string): Vector[] {
  const file = (name: string) => JSON.parse(readFileSync(join(dir, 'aux', name), 'utf8'))
  const own = file('bedrock-sigv4-vectors.json') as {
    readonly cases: readonly (Omit<Vector, 'headers' | 'time' | 'authorization'> & {
      readonly headers_in: Vector['headers']
      readonly expected: { readonly amz_date: string; readonly authorization: string }
    })[]
  }
  const other = file('openai-node-bedrock-sigv4.json') as Pick<Vector, 'service' | 'region' | 'credentials'> & {
    readonly request: Pick<Vector, 'method' | 'url' | 'body'> & { readonly contentType: string }
    readonly expected: { readonly date: string; readonly payloadHash: string; readonly authorization: string }
  }
  const { contentType, ...request } = other.request
  return [
    ...own.cases.map(({ headers_in: headers, expected, ...rest }) => ({
      ...rest,
      headers,
      time: expected.amz_date,
      authorization: expected.authorization,
    })),
    {
      ...other,
      ...request,
      headers: { 'content-type': contentType, 'x-amz-content-sha256': other.expected.payloadHash },
      time: other.expected.date,
      authorization: other.expected.authorization,
    },
  ]
}

describeWith(WITHOUT_CORPUS, 'the vectors of the corpus', () => {
  test.each(vectors(CORPUS))('$url', ({ url, headers, time, authorization, ...request }) => {
    const { host, pathname, search } = new URL(url)
    const [, date, hour, minute, second] = /^(\d{8})T(\d\d)(\d\d)(\d\d)Z$/.exec(time)!
    const nowMs = Date.parse(`${date!.replace(/(....)(..)(..)/, '$1-$2-$3')}T${hour}:${minute}:${second}Z`)
    const signed = signRequest({
      ...request,
      path: pathname,
      query: search.slice(1),
      headers: { ...headers, host },
      nowMs,
    })
    expect(signed['authorization']).toBe(authorization)
  })
})
