/** A configuration with every key of the schemas at least once: the base of the generated mistakes. */
import { generateKeyPairSync } from 'node:crypto'
import { ENV } from './workshop.ts'

export const WHOLE_GATEWAY = `version: 1
listen: 127.0.0.1:8080
threads: 2
admin: 127.0.0.1:8082
metrics: token
telemetry:
  endpoint: https://collector.example.com
  protocol: json
  ratio: 0.01
  headers:
    authorization: \${FAR_KEY}
  allow_insecure: false
  metrics: true
  attributes:
    deployment.environment.name: test
alerts:
  low_balance: $5
  keep: 30d
  webhooks:
    - name: ops
      url: https://ops.example.com/hooks/tollgate
      secret: \${HOOK_SECRET}
      format: json
      events: [ budget, provider_down ]
      allow_insecure: false
dashboard: 127.0.0.1:8081
dashboard_url: https://gate.example.com
public_url: https://api.example.com/v1
registration:
  mode: open
  credit: $1
  plan: free
store: sqlite:./data/tollgate.db
state: redis://127.0.0.1:6379/2
secret: \${SECRET}
trust_proxy: 1
hosts: [ api.example.com ]
limits:
  max_inflight: 100
  body: 1MiB
  answer: 8MiB
  bodies_in_flight: 64MiB
  kept_response: 256KiB
  kept_responses: 8MiB
  event_loop: 200ms
  headers: 5s
  request: 20s
  stall: 30s
cors: { origins: [ https://app.example.com, "http://localhost:3000" ] }
overload: { prefer: [ pro, enterprise ] }
plans:
  free:
    models: [ small ]
    weight: 2
  pro:
    limits:
      - { per: account, requests: 60 per minute, burst: 20 }
      - { per: caller, tokens: 200k per hour }
      - { per: tag team, requests: 5 per 10 s }
    budgets:
      - { name: team, per: tag team, amount: $100, every: month, zone: Europe/Berlin, at: [ 50%, 100% ], then: small }
  enterprise: {}
drain: 5m
heartbeat: { first: 5s, every: 10s }
catalog:
  file: prices.json
  accept: [ openai/gpt-5 ]
providers:
  demo:
    dialect: demo
    pace: 1ms
  far:
    dialect: openai
    profile: vllm
    base_url: https://api.example.com/v1
    api_key: \${FAR_KEY}
    headers:
      x-team: gateways
    allow_insecure: false
    timeouts:
      connect: 1s
      first_byte: 60s
      idle: 30s
      total: 10m
    connections: 100
    missing_finish: stop
  many:
    dialect: azure
    base_url: https://many.example.com
    api_keys: [ "\${FAR_KEY}" ]
    api_version: 2024-10-21
    auth: api-key
  cloud:
    dialect: bedrock
    base_url: https://cloud.example.com
    aws:
      access_key_id: \${FAR_KEY}
      secret_access_key: \${FAR_KEY}
      session_token: \${FAR_KEY}
      region: eu-central-1
  vertex:
    dialect: vertex
    base_url: https://vertex.example.com/v1
    service_account: \${ACCOUNT}
models:
  small:
    targets:
      - provider: demo
        model: tiny
        base_model: tiniest
        weight: 3
        cost: { per: 1M tokens, input: $0.05, output: $0.20 }
        cap_field: max_tokens
        priority: 1
        max_inflight: 10
        reasoning_outside_cap: 1k
        input_modalities: [ text, image ]
    price:
      per: 1K tokens
      input: $0.10
      cached_input: $0.05
      cache_write: $0.12
      output: $0.40
      request: $0.001
      web_search: $0.01
      cache_write_1h: $0.20
      input_audio: $0.30
      cached_audio: $0.06
      input_image: $0.15
      reasoning: $0.50
      output_audio: $0.80
      output_image: $0.90
      above:
        - tokens: 4Ki
          input: $0.20
          cached_input: $0.06
          cache_write: $0.13
          cache_write_1h: $0.21
          input_audio: $0.31
          cached_audio: $0.07
          input_image: $0.16
          output: $0.41
          reasoning: $0.51
          output_audio: $0.81
          output_image: $0.91
      tier:
        flex: { input: $0.06 }
        priority: { input: $0.18, above: [ { tokens: 4Ki, input: $0.36 } ] }
        batch: { input: $0.05 }
    context: 8Ki
    max_output: 1Ki
    default_output: 512
    reasoning: false
    deprecation:
      date: 2099-12-31
      successor: tiny
    input_overhead: 100
    allow: [ audio ]
    public: true
    enabled: true
    aliases: [ tiny ]
    owned_by: us
    description: A small one.
    created: 2026-01-31
routes:
  - path: /v1/chat/completions
    policy: standard
    kind: chat
    public: false
    unmetered: false
  - path: /v1/responses
    policy: standard
    keep_responses: 30m
  - path: /v1/embeddings
    policy: paid
    kind: raw
    methods: [ POST ]
    provider: far
    upstream_path: /embeddings
    models: [ embedder ]
    price: { per: 1M tokens, input: $0.02, cached_input: $0.01, output: $1, request: $0.001 }
    hold: $0.50
  - path: /v1/images/generations
    policy: paid
    kind: raw
    provider: far
    price: { image: $0.04, second: $0.0001, character: $15, page: $0.002 }
    hold: $0.50
  - path: /v1/audio/transcriptions
    policy: paid
    kind: raw
    provider: far
    price: { minute: $0.006 }
    hold: $0.50
`

export const WHOLE_POLICY = `telemetry: { content: true }
steps:
  - use: api-key
  - use: schema
    with: { unknown_fields: pass }
  - use: rate-limit
    id: burst
    with:
      per: key
      requests: 60 per minute
      burst: 20
      tokens: 200k per hour
  - use: remark
    when: account.plan == "free"
    mode: shadow
    onError: skip
    with:
      text: hello
      times: 2
      loud: true
      size: 4KiB
      price: $0.10
      after: 2s
  - use: credits
    with: { on_disconnect: drain }
  - use: route
`

/** The files by the end of their path. */
export const WHOLE_FILES: Readonly<Record<string, string>> = {
  'gateway.yaml': WHOLE_GATEWAY,
  'policies/standard.yaml': WHOLE_POLICY,
  'prices.json': '{ "gpt-5": { "litellm_provider": "openai", "mode": "chat" } }',
  'policies/paid.yaml': 'steps:\n  - use: api-key\n  - use: credits\n',
  'policies/catalog.yaml': 'steps:\n  - use: api-key\n',
}

/** The environment of the configuration. The key of the service account is generated. */
export function wholeEnvironment(): Record<string, string> {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const account = {
    client_email: 'robot@example.com',
    private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    token_uri: 'https://accounts.example.com/token',
  }
  return {
    ...ENV,
    HOOK_SECRET: Buffer.alloc(32, 1).toString('base64'),
    SECRET: 'a secret of more than enough characters',
    ACCOUNT: JSON.stringify(account),
  }
}
