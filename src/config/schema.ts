/**
 * gateway.yaml and a policy file as JSON Schema. The descriptions are the manual: editors show them, and the docs are
 * made from them. What a schema cannot say (references, order, arithmetic) is checked by the file named after the part.
 */
import { unit } from '#contract'
import { DIALECT_NAMES } from './configuration.ts'
import { ADDRESS, flag, map, measured, NAME, span, text, tokens, whole } from './schema-parts.ts'

const SENTENCE_PRICE = 'must be "free" or a map with per, input and output'

const PRICE_PARTS = {
  per: {
    enum: ['1M tokens', '1K tokens'],
    description: 'How many tokens the prices are for.',
    sentence: 'must be "1M tokens" or "1K tokens"',
  },
  input: { ...unit('money'), description: 'Dollars for tokens of the prompt.' },
  cached_input: {
    ...unit('money'),
    description: 'Dollars for prompt tokens that the provider had cached. Default: input.',
  },
  cache_write: { ...unit('money'), description: 'Dollars for prompt tokens that the provider cached. Default: input.' },
  output: { ...unit('money'), description: 'Dollars for tokens of the answer, thinking included.' },
  request: { ...unit('money'), description: 'Dollars for each request, on top. Default: 0.' },
  web_search: {
    ...unit('money'),
    description: 'Dollars for each search of the web that the provider makes, beside its tokens. Default: 0.',
  },
}

/** A price is the word `free` or a map; `if` gives the errors of the right one of the two. */
const priceOf = (description: string, sentence: string, parts: object, rules: object) => ({
  type: ['string', 'object'],
  description,
  sentence,
  if: { type: 'string' },
  then: { const: 'free', sentence },
  else: map(description, parts, { sentence, ...rules }),
})

const price = (description: string) =>
  priceOf(description, SENTENCE_PRICE, PRICE_PARTS, { required: ['per', 'input', 'output'] })

const RAW_PRICE = priceOf(
  'Raw routes: what a request costs, "free" or dollars for a request, for tokens, or both.',
  'must be "free" or a map with request, or per and input, or all three',
  {
    per: PRICE_PARTS.per,
    input: PRICE_PARTS.input,
    cached_input: PRICE_PARTS.cached_input,
    output: PRICE_PARTS.output,
    request: PRICE_PARTS.request,
  },
  {
    minProperties: 1,
    dependentRequired: { input: ['per'], per: ['input'], output: ['input'], cached_input: ['input'] },
  },
)

const BODIES_IN_FLIGHT =
  'All request bodies in progress, and as many bytes of whole answers and large events; beyond: 503. Clients without a key have a quarter of it, and an account a part of what is free.'

const LIMITS = map('What the gateway takes before it says no.', {
  max_inflight: whole('Exchanges under way, and beside them bodies that are still coming; beyond: 503.', 1, 1_000_000, {
    default: 2000,
  }),
  body: measured('bytes', '1KiB', '32MiB')('The largest request body; beyond: 413.', '4MiB'),
  answer: measured('bytes', '1KiB', '256MiB')('The largest whole answer or event of a stream; beyond: 502.', '32MiB'),
  bodies_in_flight: measured('bytes', '1MiB', '64GiB')(BODIES_IN_FLIGHT, '256MiB'),
  kept_response: measured(
    'bytes',
    '1KiB',
    '32MiB',
  )(
    'Routes with keep_responses: the largest response that is kept, with its input. A larger one is answered and not kept.',
    '1MiB',
  ),
  kept_responses: measured(
    'bytes',
    '1MiB',
    '64GiB',
  )(
    'Routes with keep_responses: all that is kept for one account, at least kept_response. Beyond, the responses that expire first are removed.',
    '64MiB',
  ),
  event_loop: span('After five stretches of work longer than this, a part of new requests gets 503.', '100ms'),
  headers: span('How long a client may take to send its headers.', '10s'),
  request: span('How long a client may take to send the whole request.', '30s'),
  stall: span('A client that takes nothing of its answer for so long is cut.', '60s'),
})

const MISSING_FINISH =
  'What becomes of an answer that ends in good order without a finish reason: an error, or the reason is filled in. An answer without content is an error in any case.'
const PROVIDER = map(
  'An account at a model provider.',
  {
    dialect: {
      enum: [...DIALECT_NAMES, 'demo'],
      description:
        'What the provider speaks: openai (chat completions), azure, mistral, deepseek, groq, perplexity, together and zai (the same with quirks), anthropic (Messages), gemini (generateContent), bedrock (Converse), vertex and vertex-anthropic (Google Cloud), bedrock-invoke (Claude on Bedrock), cohere (its Chat API, version 2), ollama (its own chat API), or demo (embedded, no network).',
    },
    base_url: text(
      'Where it is, up to what the dialect adds: https://api.example.com/v1. Plain http only to this machine.',
    ),
    api_key: text('The key for it, as ${NAME} or ${file:PATH}. Left out: no Authorization header is sent.'),
    api_keys: {
      type: 'array',
      minItems: 1,
      uniqueItems: true,
      description:
        'Several keys that take turns, in place of api_key; one that the provider refuses is left out for a minute.',
      items: text('A key, as ${NAME} or ${file:PATH}.'),
    },
    aws: map(
      'Bedrock: a pair of AWS keys, in place of api_key.',
      {
        access_key_id: text('The access key id, as ${NAME} or ${file:PATH}.'),
        secret_access_key: text('The secret access key, as ${NAME} or ${file:PATH}.'),
        session_token: text('Of temporary keys, as ${NAME} or ${file:PATH}.'),
        region: text('The region for which requests are signed: eu-central-1.'),
      },
      { required: ['access_key_id', 'secret_access_key', 'region'] },
    ),
    service_account: text(
      'Vertex AI: a service account in place of api_key, the text of its JSON file as ${file:PATH}. Its access tokens are renewed.',
    ),
    api_version: text('Azure: the version of its API, 2024-10-21. Not needed with a base_url that ends in /openai/v1.'),
    auth: {
      enum: ['api-key', 'bearer'],
      description:
        'Azure: whether api_key is a key of the resource (api-key, the default) or an access token of Entra (bearer).',
    },
    headers: {
      type: 'object',
      description: 'Further request headers.',
      additionalProperties: { type: 'string', description: 'The value of the header.' },
    },
    allow_insecure: flag(
      'Allows plain http to another machine: keys and prompts cross the network unencrypted.',
      false,
    ),
    timeouts: map(
      'How long to wait for it.',
      {
        connect: span('For the connection.', '5s'),
        first_byte: span('For the head of the answer, and of a stream for its first event.', '120s'),
        idle: span('Between two pieces of an answer.', '60s'),
        total: span('For a whole exchange.', '15m'),
      },
      { default: {} },
    ),
    connections: whole('Connections to it at most.', 1, 65_535, { default: 4096 }),
    missing_finish: { enum: ['error', 'stop'], description: MISSING_FINISH, default: 'error' },
    pace: measured('duration', '0ms', '1m')('The demo provider only: the pause between two tokens. Default: 25ms.'),
  },
  { required: ['dialect'] },
)

const TARGET = map(
  'A provider and its own name for the model.',
  {
    provider: text('A name under `providers`.'),
    model: text("The provider's own name for the model."),
    weight: whole("This target's share of the requests, against the other targets' weights.", 1, 1000, { default: 1 }),
    cost: price('What the operator pays for it: counted in tollgate_cost_dollars_total.'),
    cap_field: {
      enum: ['max_tokens', 'max_completion_tokens'],
      description: 'The field in which this target takes the output cap.',
      default: 'max_completion_tokens',
    },
    priority: whole('Targets of a lower number are tried before those of a higher one.', 1, 100, { default: 1 }),
    max_inflight: whole('Requests under way at it at most; beyond, another target is asked.', 1, 100_000),
    reasoning_outside_cap: measured('tokens', '0', '100M')('Thinking tokens that it may bill beyond the cap.', '0'),
  },
  { required: ['provider', 'model'] },
)

const MODEL = map(
  'What clients name in `model`.',
  {
    targets: { type: 'array', minItems: 1, description: 'Where its requests may go.', items: TARGET },
    price: price('What customers pay, whichever target answers.'),
    context: tokens('Tokens of prompt and answer together.'),
    max_output: tokens('The longest answer in tokens.'),
    default_output: tokens('The output cap when the client sends none. Default: max_output.'),
    reasoning: flag(
      'A thinking model: takes reasoning_effort, and its hidden tokens cannot be counted from outside.',
      false,
    ),
    input_overhead: measured('tokens', '0', '1M')('Tokens that tools add to the prompt beyond their bytes.', '1024'),
    allow: {
      type: 'array',
      uniqueItems: true,
      description: 'Request fields that change what the provider bills and are refused unless listed here.',
      items: { enum: ['service_tier', 'web_search', 'audio', 'prediction'] },
      default: [],
    },
    public: flag('Whether keys without a list of models of their own may use it, and see it in GET /v1/models.', true),
    enabled: flag('Whether it exists for clients at all.', true),
    aliases: {
      type: 'array',
      uniqueItems: true,
      description: 'Other ids that mean this model.',
      items: {
        type: 'string',
        pattern: '^[!-~]{1,200}$',
        sentence: 'must be 1 to 200 printable characters without blanks',
      },
      default: [],
    },
    owned_by: text('As GET /v1/models shows it.', { default: 'tollgate' }),
    description: text('As GET /v1/models shows it.'),
    created: {
      type: 'string',
      pattern: '^\\d{4}-\\d\\d-\\d\\d$',
      sentence: 'must be a date such as 2026-01-31',
      description: 'As GET /v1/models shows it.',
      default: '2026-01-01',
    },
  },
  { required: ['targets', 'price', 'context', 'max_output'] },
)

const ROUTE = map(
  'A path and the policy that its requests pass.',
  {
    path: {
      type: 'string',
      pattern: '^/[A-Za-z0-9._~/{}-]+$',
      sentence: 'must begin with / and hold letters, digits and . _ ~ -',
      description: 'The path as clients send it.',
    },
    policy: { type: 'string', ...NAME, description: 'policies/NAME.yaml beside this file.' },
    kind: {
      enum: ['chat', 'messages', 'responses', 'response', 'models', 'model', 'receipt', 'raw'],
      description: 'Follows from the path; `raw` (bytes pass as they are) has to be said.',
    },
    public: flag('Says that this route is meant to be open to anyone without a key.', false),
    unmetered: flag('Says that this route is meant to give away what has a price.', false),
    keep_responses: measured(
      'duration',
      '1m',
      '720h',
    )(
      'For /v1/responses: how long an answer and its input are kept, encrypted, for clients that refer to them (previous_response_id, item_reference). Both last as long again when a kept answer refers to them. A request with store: false keeps and prolongs nothing. Left out: nothing is kept.',
    ),
    methods: {
      type: 'array',
      minItems: 1,
      uniqueItems: true,
      description: 'Raw routes: the methods it takes. Default: POST.',
      items: { enum: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] },
    },
    provider: text('Raw routes: a name under `providers`.'),
    upstream_path: {
      type: 'string',
      pattern: '^/[A-Za-z0-9._~/-]*$',
      sentence: 'must begin with / and hold letters, digits and . _ ~ -',
      description: "Raw routes: the path after the provider's base_url. Default: the path without its leading /v1.",
    },
    models: {
      type: 'array',
      minItems: 1,
      uniqueItems: true,
      description:
        "Raw routes: the provider's models that a request may name in its body; each has to name one. Receipts and usage show the model then, and the path otherwise. Needed by keys that are limited to some models. Left out: any, and no such key.",
      items: {
        type: 'string',
        pattern: '^[!-+\\--~]{1,200}$',
        sentence: 'must be 1 to 200 printable characters without blanks and commas',
      },
    },
    price: RAW_PRICE,
    hold: {
      ...unit('money'),
      description:
        'Raw routes: the most that one request costs, in dollars; so much is set aside. Needed where output has a price, because nobody knows before how long an answer will be. Default: the bytes of the request as tokens.',
    },
  },
  { required: ['path', 'policy'] },
)

const METRICS_READERS = ['token', 'open']
const REGISTRATION_MODES = ['open', 'invitation', 'closed']

/** The whole of gateway.yaml. */
export const GATEWAY_SCHEMA = map(
  'The configuration of a Tollgate gateway.',
  {
    version: { const: 1, description: 'The version of this format: 1.' },
    listen: text('The address for clients: "127.0.0.1:8080", ":8080" for all interfaces, "[::1]:8080".', {
      ...ADDRESS,
      default: '127.0.0.1:8080',
    }),
    admin: text("The address for the operators' API and /metrics. Left out: there is none.", ADDRESS),
    metrics: {
      enum: METRICS_READERS,
      description:
        "Who may read /metrics on the admin listener. token: whoever sends an operator's token (`tollgate token create`); open: whoever reaches it. Must be said when `admin` is not a loopback address; default there: open.",
    },
    dashboard: text('The address for people: the dashboard and its API. Left out: there is none.', ADDRESS),
    dashboard_url: text(
      'Where browsers reach the dashboard: https://gate.example.com. It decides the cookie and which origin may change things. Left out: the address of `dashboard`, which must be loopback then.',
    ),
    public_url: text(
      'Where clients reach the gateway when something stands in front of it: https://api.example.com/v1. It ends in /v1, as the paths of routes begin. The dashboard shows it. Left out: the address of `listen`.',
    ),
    registration: map(
      'Who may make an account on the dashboard.',
      {
        mode: {
          enum: REGISTRATION_MODES,
          description:
            'open: anybody; invitation: those with a link of an operator; closed: nobody, and links only join accounts. Default: invitation.',
        },
        credit: { ...unit('money'), description: 'mode: open: what such an account begins with. Default: nothing.' },
        plan: text('mode: open: the plan of such an account. Default: default.'),
      },
      { instead: { of: `^(${REGISTRATION_MODES.join('|')})$`, write: '{ mode: VALUE }' } },
    ),
    store: text('Where accounts, keys and the ledger are kept: sqlite:PATH (relative to this file) or memory.', {
      default: 'sqlite:./.tollgate/tollgate.db',
    }),
    secret: text('The secret with which keys are digested, as ${NAME} or ${file:PATH}. Left out: .tollgate/secret.'),
    trust_proxy: whole('How many proxies in front are believed about X-Forwarded-For.', 0, 16, { default: 0 }),
    hosts: {
      type: 'array',
      minItems: 1,
      uniqueItems: true,
      description: 'The host names that are served. Left out: all.',
      items: { type: 'string', minLength: 1, description: 'A host name without a port.' },
    },
    limits: { ...LIMITS, default: {} },
    drain: span('How long a stopping gateway lets streams finish.', '10m'),
    heartbeat: map(
      'Comments that keep a silent stream alive.',
      {
        first: span('The first after so much silence.', '10s'),
        every: span('The next ones.', '15s'),
      },
      { default: {} },
    ),
    providers: {
      type: 'object',
      description: 'Accounts at model providers, by name.',
      propertyNames: { ...NAME },
      additionalProperties: PROVIDER,
      default: {},
    },
    models: {
      type: 'object',
      description: 'The catalog: by the id that clients send.',
      propertyNames: { pattern: '^[!-~]{1,200}$', sentence: 'must be 1 to 200 printable characters without blanks' },
      additionalProperties: MODEL,
      default: {},
    },
    routes: { type: 'array', minItems: 1, description: 'What is served.', items: ROUTE },
  },
  { required: ['version', 'routes'] },
)

const STEP = map(
  'A plugin with its settings.',
  {
    id: {
      type: 'string',
      ...NAME,
      description: "The stable name of the step's state and metrics. Default: the plugin's name.",
    },
    use: text('A built-in plugin by its name, ./path/to/plugin.ts, or npm:package.'),
    with: { type: 'object', description: 'The settings; each plugin says which.' },
    when: text('A condition (CEL). Where it is false, the step is left out.', {
      sentence: 'must be a condition such as account.plan == "free"',
    }),
    mode: {
      enum: ['enforce', 'shadow', 'off'],
      description: 'shadow: only records what it would have done. off: is not run.',
      default: 'enforce',
    },
    onError: {
      enum: ['refuse', 'skip'],
      description: 'What happens when the step itself fails before it calls the next one.',
      default: 'refuse',
    },
  },
  { required: ['use'] },
)

/** A file in policies/. */
export const POLICY_SCHEMA = map(
  'A policy: steps in the order in which they run.',
  { steps: { type: 'array', minItems: 1, description: 'Run from top to bottom.', items: STEP } },
  { required: ['steps'] },
)
