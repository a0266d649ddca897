/**
 * The paths with which the `base_url` of a well-known provider ends. A missing or extra path segment is the most common
 * mistake with a new provider, and appears only as a 404 to the first client. Other hosts, such as proxies, are not checked.
 */
import type { DialectName } from '../providers/dialects/dialect-names.ts'
import { vendorAt } from '../providers/dialects/vendors.ts'

interface ExpectedPath {
  readonly host: RegExp
  /** Matched against the path without a trailing slash. */
  readonly path: RegExp
  readonly example: string
}

const VERTEX = /(^|[.-])aiplatform\.googleapis\.com$/
const BEDROCK: ExpectedPath = {
  host: /^bedrock-runtime[a-z0-9.-]*\.amazonaws\.com$/,
  path: /^$/,
  example: 'https://bedrock-runtime.eu-central-1.amazonaws.com',
}

const EXPECTED_PATHS: Readonly<Partial<Record<DialectName, ExpectedPath>>> = {
  openai: { host: /^api\.openai\.com$/, path: /^\/v1$/, example: 'https://api.openai.com/v1' },
  anthropic: { host: /^api\.anthropic\.com$/, path: /^\/v1$/, example: 'https://api.anthropic.com/v1' },
  gemini: {
    host: /^generativelanguage\.googleapis\.com$/,
    path: /^\/v1(alpha|beta)?$/,
    example: 'https://generativelanguage.googleapis.com/v1beta',
  },
  vertex: {
    host: VERTEX,
    path: /\/projects\/[^/]+\/locations\/[^/]+\/publishers\/google$/,
    example: 'https://aiplatform.googleapis.com/v1/projects/PROJECT/locations/global/publishers/google',
  },
  'vertex-anthropic': {
    host: VERTEX,
    path: /\/projects\/[^/]+\/locations\/[^/]+\/publishers\/anthropic$/,
    example: 'https://aiplatform.googleapis.com/v1/projects/PROJECT/locations/global/publishers/anthropic',
  },
  bedrock: BEDROCK,
  'bedrock-invoke': BEDROCK,
  mistral: { host: /^api\.mistral\.ai$/, path: /^\/v1$/, example: 'https://api.mistral.ai/v1' },
  groq: { host: /^api\.groq\.com$/, path: /^\/openai\/v1$/, example: 'https://api.groq.com/openai/v1' },
  cohere: { host: /^api\.cohere\.(com|ai)$/, path: /^\/v2$/, example: 'https://api.cohere.com/v2' },
  ollama: { host: /./, path: /^((?!\/(v1|api)$).)*$/, example: 'http://127.0.0.1:11434' },
}

/** The expected base URL if this one cannot be right; null if it may be. */
export function expectedBaseUrl(dialect: DialectName | 'demo', { hostname, pathname }: URL): string | null {
  const expected = dialect === 'demo' ? undefined : EXPECTED_PATHS[dialect]
  if (!expected?.host.test(hostname)) return null
  return expected.path.test(pathname.replace(/\/+$/, '')) ? null : expected.example
}

/** Whether a host belongs to a well-known provider. */
export function isWellKnown({ hostname }: URL): boolean {
  return vendorAt(hostname) !== undefined
}

/** The dialects that a host speaks instead of this one; null if it speaks this one or is not a known vendor. */
export function otherDialectsOf(dialect: DialectName | 'demo', { hostname }: URL): readonly DialectName[] | null {
  const vendor = vendorAt(hostname)
  if (vendor === undefined || dialect === 'demo') return null
  const spoken = [vendor.dialect, ...(vendor.alsoSpeaks ?? [])]
  return spoken.includes(dialect) ? null : spoken
}
