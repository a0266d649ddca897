/** A gateway with a custom step, for tests of `explain --request`. */

export const PROVIDERS = `version: 1
listen: 127.0.0.1:0
providers:
  demo: { dialect: demo }
  near: { dialect: openai, base_url: "\${NEAR_URL}", api_key: "\${NEAR_KEY}" }
  other: { dialect: anthropic, base_url: "https://other.example/v1", api_key: "\${OTHER_KEY}" }
`
export const GATEWAY = `${PROVIDERS}models:
  small:
    targets:
      - { provider: near, model: near-small, weight: 3 }
      - { provider: demo, model: demo-small, weight: 1 }
      - { provider: other, model: other-small, priority: 2 }
    price: { per: 1M tokens, input: $1, output: $2 }
    context: 8192
    max_output: 1000
    aliases: [little]
  search:
    targets: [{ provider: near, model: near-search }]
    price: { per: 1M tokens, input: $1, output: $2, web_search: $0.01 }
    allow: [web_search]
    context: 8192
    max_output: 1000
  claude:
    targets: [{ provider: other, model: other-search }]
    price: { per: 1M tokens, input: $1, output: $2, web_search: $0.01 }
    allow: [web_search]
    context: 8192
    max_output: 1000
  hidden: { targets: [{ provider: demo, model: demo-small }], price: free, context: 8192, max_output: 10, public: false }
  retired: { targets: [{ provider: demo, model: demo-small }], price: free, context: 8192, max_output: 10, enabled: false }
routes:
  - { path: /v1/chat/completions, policy: standard }
  - { path: /v1/messages, policy: standard }
  - { path: /v1/responses, policy: standard }
  - { path: /v1/embeddings, kind: raw, provider: near, policy: raw, price: { request: $0.01 } }
  - { path: "/v1/audio/{id}", kind: raw, provider: near, policy: raw, price: { per: 1M tokens, input: $1, output: $2 }, hold: $0.50 }
`
export const STANDARD = `steps:
  - use: api-key
  - use: schema
  - use: rate-limit
    id: free
    when: account.plan == "free" && header("x-team") != "cats"
    with: { per: account, requests: 20 per minute, burst: 5, tokens: 200k per hour }
  - use: ../late.ts
    mode: shadow
  - use: credits
  - use: route
`
export const LATE = `import { definePlugin, refuse } from 'tollgate/plugin'
export default definePlugin({
  name: 'late',
  dryRun: true,
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => async (ctx, next) => {
    if (ctx.get('x-break') !== '') throw new Error('a screw is loose')
    if (ctx.get('x-late') !== '') throw refuse('forbidden', { message: 'Too late for that.' })
    await next()
    if (ctx.get('x-linger') !== '') return new Promise(() => {})
  },
})
`
export const CHAT = { model: 'small', messages: [{ role: 'user', content: 'Hello' }] }
