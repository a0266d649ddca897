/** The provider of an attempt, in the terms of OpenTelemetry's conventions for GenAI. */

/** The parts of a provider's entry in gateway.yaml that telemetry uses. */
export interface PeerProvider {
  readonly name: string
  readonly dialect: string
  /** Empty for the embedded demo. */
  readonly baseUrl: string
  readonly azure?: { readonly api: string } | undefined
}

export interface Peer {
  /** Its name in gateway.yaml. */
  readonly name: string
  /** `gen_ai.provider.name`. */
  readonly provider: string
  /** Null: the provider is the embedded demo, which has no network. */
  readonly address: string | null
  readonly port: number | null
}

/** Values of `gen_ai.provider.name` in the conventions, by dialect. For other dialects the value is the dialect's name. */
const BY_DIALECT: Readonly<Record<string, string>> = {
  azure: 'azure.ai.openai',
  mistral: 'mistral_ai',
  gemini: 'gcp.gemini',
  vertex: 'gcp.vertex_ai',
  'vertex-anthropic': 'gcp.vertex_ai',
  bedrock: 'aws.bedrock',
  'bedrock-invoke': 'aws.bedrock',
}

/** The same for hosts that speak OpenAI's format, by the end of their names. */
const BY_HOST: readonly (readonly [host: string, provider: string])[] = [
  ['.openai.azure.com', 'azure.ai.openai'],
  ['api.anthropic.com', 'anthropic'],
  ['generativelanguage.googleapis.com', 'gcp.gemini'],
  ['aiplatform.googleapis.com', 'gcp.vertex_ai'],
  ['.amazonaws.com', 'aws.bedrock'],
  ['api.cohere.com', 'cohere'],
  ['api.deepseek.com', 'deepseek'],
  ['api.groq.com', 'groq'],
  ['api.mistral.ai', 'mistral_ai'],
  ['api.moonshot.ai', 'moonshot_ai'],
  ['api.perplexity.ai', 'perplexity'],
  ['api.x.ai', 'x_ai'],
]

const peers = new WeakMap<PeerProvider, Peer>()

/** Creates one peer for each provider of a configuration. */
export function peerOf(provider: PeerProvider): Peer {
  const known = peers.get(provider)
  if (known !== undefined) return known
  const url = provider.baseUrl === '' ? null : new URL(provider.baseUrl)
  const peer: Peer = {
    name: provider.name,
    provider: providerName(provider, url?.hostname ?? ''),
    address: url === null ? null : url.hostname.replace(/^\[|\]$/g, ''),
    port: url === null ? null : Number(url.port || (url.protocol === 'https:' ? 443 : 80)),
  }
  peers.set(provider, peer)
  return peer
}

function providerName({ dialect, azure }: PeerProvider, host: string): string {
  if (azure?.api === 'foundry') return 'azure.ai.inference'
  if (dialect === 'openai') return BY_HOST.find(([end]) => host.endsWith(end))?.[1] ?? dialect
  return BY_DIALECT[dialect] ?? dialect
}
