/**
 * The JSON Schema of gateway.yaml. Editors show the descriptions, and `tollgate schema --markdown` generates the reference from
 * them. The file named after each section checks what a schema cannot express: references, order, arithmetic.
 */
import { unit } from '#contract'
import { ALERTS_SCHEMA } from './alerts-section.ts'
import { REGISTRATION_SCHEMA } from './dashboard.ts'
import { withHints } from './hints.ts'
import { PLANS_SCHEMA } from './plan-section.ts'
import { PROVIDER } from './provider-schema.ts'
import {
  ADDRESS,
  flag,
  INPUT_MODALITIES,
  map,
  measured,
  NAME,
  orAuto,
  POLICY_NAME,
  price,
  RAW_PRICE,
  span,
  text,
  tokens,
  whole,
} from './schema-parts.ts'
import { TELEMETRY_SCHEMA } from './telemetry-section.ts'

const BODIES_IN_FLIGHT =
  'The total size of all request bodies in memory. Whole answers and large events have a separate limit of the same size. Above it: 503. Clients without a key share a quarter of it. An account can use a part of the free space.'

const LIMITS = map('Limits on size, number and time.', {
  max_inflight: whole(
    'The maximum number of exchanges in progress, and separately of request bodies that are still arriving. Above it: 503.',
    1,
    1_000_000,
    { default: 2000 },
  ),
  body: measured('bytes', '1KiB', '32MiB')('The largest request body. Above it: 413.', '32MiB'),
  answer: measured(
    'bytes',
    '1KiB',
    '256MiB',
  )('The largest whole answer, or event of a stream. Above it: 502.', '32MiB'),
  bodies_in_flight: measured('bytes', '1MiB', '64GiB')(BODIES_IN_FLIGHT, '256MiB'),
  kept_response: measured(
    'bytes',
    '1KiB',
    '32MiB',
  )(
    'Routes with keep_responses: the largest response that Tollgate keeps, with its input. A larger one is sent but not kept.',
    '1MiB',
  ),
  kept_responses: measured(
    'bytes',
    '1MiB',
    '64GiB',
  )(
    'Routes with keep_responses: the space for the kept responses of one account, at least kept_response. When it is full, Tollgate removes the responses that expire first.',
    '64MiB',
  ),
  event_loop: span(
    'The longest acceptable delay of work that is ready to run. If delays are longer for half a second, Tollgate returns 503 to requests of the accounts that cause most of the work.',
    '50ms',
  ),
  headers: span('The time for a client to send its headers.', '10s'),
  request: span('The time for a client to send the whole request.', '30s'),
  stall: span('Tollgate closes the connection of a client that reads nothing of its answer for this time.', '60s'),
})

const TARGET = map(
  'A provider and its name for the model.',
  {
    provider: text('A name from `providers`.'),
    model: text("The provider's name for the model."),
    weight: whole("The share of requests that this target gets, relative to the other targets' weights.", 1, 1000, {
      default: 1,
    }),
    base_model: text(
      "The model's name in the price catalog, if the provider's name differs, such as that of a deployment. Default: model.",
    ),
    cost: price(
      "The operator's cost at the provider. Counted in tollgate_cost_dollars_total. auto: the price of the price catalog. Default: auto if the price of the model is auto.",
    ),
    cap_field: {
      enum: ['max_tokens', 'max_completion_tokens'],
      description:
        'OpenAI and its variants: the request field in which this target accepts the output cap. Default: by the dialect or profile, else max_completion_tokens.',
    },
    priority: whole('Targets with a lower number are tried first.', 1, 100, { default: 1 }),
    max_inflight: whole(
      'The maximum number of requests in progress at this target. Above it, Tollgate uses another target. Default: no limit.',
      1,
      100_000,
    ),
    reasoning_outside_cap: measured(
      'tokens',
      '0',
      '100M',
    )('Reasoning tokens that the target may bill beyond the output cap.', '0'),
    input_modalities: INPUT_MODALITIES,
  },
  { required: ['provider', 'model'] },
)

const OF_CATALOG = ' auto: the value of the price catalog. Required unless the price is auto.'

const OF_MODEL = {
  price: price(
    'The price for customers, for all targets. auto: the price of the price catalog; with several targets, the highest in each unit.',
  ),
  context: orAuto(
    tokens('The context window: tokens of the prompt and the answer together.'),
    'must be "auto" or a number of tokens from 1 to 100M',
    OF_CATALOG,
  ),
  max_output: orAuto(
    tokens('The maximum number of output tokens.'),
    'must be "auto" or a number of tokens from 1 to 100M',
    OF_CATALOG,
  ),
  default_output: tokens('The output cap of requests that do not set one. Default: max_output.'),
  reasoning: {
    enum: [true, false, 'auto'],
    description:
      'Whether the model reasons: it accepts reasoning_effort and bills hidden tokens that Tollgate cannot count. auto: the value of the price catalog. Default: auto if the price is auto, else false.',
  },
  deprecation: map(
    'The end of the model. Answers have the headers Deprecation and Sunset, and `tollgate check` warns 90 days ahead. Default: the value of the price catalog, if the price is auto.',
    {
      date: {
        type: 'string',
        pattern: '^\\d{4}-\\d\\d-\\d\\d$',
        sentence: 'must be a date such as 2026-01-31',
        description: 'The date on which the provider turns off the model.',
      },
      successor: text('The id of the model that replaces it.'),
    },
    { minProperties: 1 },
  ),
  input_overhead: measured(
    'tokens',
    '0',
    '1M',
  )('The maximum number of tokens that the provider adds to a prompt with tools, in addition to their bytes.', '1024'),
  allow: {
    type: 'array',
    uniqueItems: true,
    description:
      'Request fields that change what the provider bills. Tollgate rejects them unless they are listed here.',
    items: { enum: ['service_tier', 'web_search', 'audio', 'prediction'] },
    default: [],
  },
  public: flag('Whether keys without a model list can use the model and see it in GET /v1/models.', true),
  enabled: flag('Whether clients can use the model at all.', true),
  aliases: {
    type: 'array',
    uniqueItems: true,
    description: 'Other ids for this model.',
    items: {
      type: 'string',
      pattern: '^[!-~]{1,200}$',
      sentence: 'must be 1 to 200 printable characters without blanks',
    },
    default: [],
  },
  owned_by: text('The owner in GET /v1/models.', { default: 'tollgate' }),
  description: text('The description in GET /v1/models.'),
  created: {
    type: 'string',
    pattern: '^\\d{4}-\\d\\d-\\d\\d$',
    sentence: 'must be a date such as 2026-01-31',
    description: 'The creation date in GET /v1/models.',
    default: '2026-01-01',
  },
}
const MODEL = map(
  'A model that clients name in `model`.',
  {
    targets: {
      type: 'array',
      minItems: 1,
      description: 'The providers that can serve this model.',
      items: withHints(TARGET, { 'the model': OF_MODEL, 'the provider': PROVIDER.properties }),
    },
    ...OF_MODEL,
  },
  { required: ['targets', 'price'] },
)

const ROUTE = map(
  'A path and the policy for its requests.',
  {
    path: {
      type: 'string',
      pattern: '^/[A-Za-z0-9._~/{}-]+$',
      sentence: 'must begin with / and contain only letters, digits and . _ ~ -',
      description: 'The path that clients request.',
    },
    policy: { type: 'string', ...POLICY_NAME, description: 'The policy: policies/NAME.yaml beside this file.' },
    kind: {
      enum: ['chat', 'messages', 'responses', 'response', 'models', 'model', 'receipt', 'budgets', 'raw'],
      description:
        'The kind of endpoint. Default: derived from the path, except raw (bytes pass unchanged), which must be set.',
    },
    public: flag('Confirms that clients can use this route without a key.', false),
    unmetered: flag('Confirms that this route does not charge for models that have a price.', false),
    keep_responses: measured(
      'duration',
      '1m',
      '720h',
    )(
      'For /v1/responses: how long Tollgate keeps a response and its input, encrypted, for previous_response_id and item_reference. A kept response that refers to them restarts that time. A request with store: false neither keeps nor extends anything. Default: nothing is kept.',
    ),
    methods: {
      type: 'array',
      minItems: 1,
      uniqueItems: true,
      description: 'Raw routes: the allowed methods. Default: POST.',
      items: { enum: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] },
    },
    provider: text('Raw routes: a name from `providers`.'),
    upstream_path: {
      type: 'string',
      pattern: '^/[A-Za-z0-9._~/-]*$',
      sentence: 'must begin with / and contain only letters, digits and . _ ~ -',
      description:
        "Raw routes: the path below the provider's base_url. Default: the route's path without the leading /v1.",
    },
    models: {
      type: 'array',
      minItems: 1,
      uniqueItems: true,
      description:
        "Raw routes: the provider's models that a request can name in its body. Each request must then name one, and receipts and usage show it instead of the path. Keys limited to some models can use only routes with this list. Default: any model.",
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
        'Raw routes: the amount to hold for a request, in dollars: its maximum cost. Required if output has a price, because the length of the answer is unknown. Default: computed from the request, with one token for each byte.',
    },
  },
  { required: ['path', 'policy'] },
)

export const GATEWAY_SCHEMA = map(
  'The configuration of a Tollgate gateway.',
  {
    version: { const: 1, description: 'The version of this format.' },
    listen: text(
      'The address for clients: "127.0.0.1:8080", ":8080" for all interfaces, "[::1]:8080". GET / on it shows the base URL and the address of the dashboard.',
      { ...ADDRESS, default: '127.0.0.1:8080' },
    ),
    threads: {
      anyOf: [{ const: 'auto' }, { type: 'integer', minimum: 1, maximum: 31 }],
      sentence: 'must be "auto" or a whole number from 1 to 31',
      default: 1,
      description:
        'The number of threads that serve requests. auto: one for each processor; with four or more, one processor is left to the store. More than one does not work with `store: memory`.',
    },
    admin: text("The address for the operators' API and Prometheus /metrics. Default: none.", ADDRESS),
    metrics: {
      enum: ['token', 'open'],
      description:
        "Access to /metrics on the admin listener. token: with an operator's token (`tollgate token create`); open: for all requests. Required if `admin` is not a loopback address. Default: open (on loopback).",
    },
    telemetry: TELEMETRY_SCHEMA,
    alerts: ALERTS_SCHEMA,
    dashboard: text('The address for the dashboard and its API. Default: none.', ADDRESS),
    dashboard_url: text(
      'The URL of the dashboard in browsers: https://gate.example.com. It determines the cookie and the only origin that can make changes. https requires trust_proxy. Default: the address of `dashboard`, which must then be loopback.',
    ),
    public_url: text(
      'The base URL for clients when a proxy is in front of the gateway: https://api.example.com/v1. It must end in /v1. The dashboard shows it. Default: the address of `listen`.',
    ),
    registration: REGISTRATION_SCHEMA,
    store: text(
      'The store for accounts, keys and the ledger: sqlite:PATH (relative to this file), postgres://USER@HOST/DATABASE, or memory. A password as ${NAME} or ${file:PATH}.',
      {
        default: 'sqlite:./.tollgate/tollgate.db',
      },
    ),
    state: text(
      'The server with the state that replicas share (buckets, slots, caches, versions): redis://HOST or rediss://HOST, Redis 6.2 or Valkey 7.2. A password as ${NAME} or ${file:PATH}. Default: the memory of this process.',
    ),
    secret: text(
      'The secret for the digests of keys, at least 32 characters, as ${NAME} or ${file:PATH}. Default: .tollgate/secret, created on the first start.',
    ),
    trust_proxy: whole('The number of proxies in front of the gateway whose X-Forwarded-For is trusted.', 0, 16, {
      default: 0,
    }),
    hosts: {
      type: 'array',
      minItems: 1,
      uniqueItems: true,
      description: 'The host names that Tollgate serves. Default: all.',
      items: { type: 'string', minLength: 1, description: 'A host name without a port.' },
    },
    cors: {
      ...map('Pages that may call the gateway from a browser. Every user of such a page can read its key.', {
        origins: {
          type: 'array',
          minItems: 1,
          uniqueItems: true,
          description: 'The origins of the pages, such as https://app.example.com, or * for every page.',
          items: { type: 'string', minLength: 1, description: 'An origin: scheme, host and port.' },
        },
      }),
      required: ['origins'],
    },
    limits: { ...LIMITS, default: {} },
    overload: map('The priority of accounts while the event loop is overloaded.', {
      prefer: {
        type: 'array',
        minItems: 1,
        uniqueItems: true,
        description:
          'Plans whose accounts get four times the share of others. The same as weight: 4 at a plan under `plans`.',
        items: { type: 'string', minLength: 1, description: 'The name of a plan.' },
      },
    }),
    plans: PLANS_SCHEMA,
    drain: span(
      'How long streams can continue after SIGTERM. For the same time, Tollgate retries settles that it could not write.',
      '10m',
    ),
    heartbeat: map(
      'Comments that keep an idle stream open.',
      {
        first: span('Idle time before the first comment.', '10s'),
        every: span('Interval between further comments.', '15s'),
      },
      { default: {} },
    ),
    catalog: {
      type: ['string', 'object'],
      description:
        "A price list with precedence over the built-in one: the path of a file, in the format of LiteLLM's model_prices_and_context_window.json or models.dev's api.json. `tollgate prices update` writes one.",
      sentence: 'must be the path of a file or a map with file and accept',
      if: { type: 'string' },
      then: { minLength: 1 },
      else: map(
        'A price list with exceptions.',
        {
          file: text('The path of the file, relative to this one.'),
          accept: {
            type: 'array',
            uniqueItems: true,
            description:
              'Models whose price may be 0, or more than ten times higher or lower than in the built-in list, as VENDOR/MODEL.',
            items: { type: 'string', minLength: 1, description: 'A model, such as openai/gpt-5-mini.' },
            default: [],
          },
        },
        { required: ['file'] },
      ),
    },
    providers: {
      type: 'object',
      description: 'Accounts at model providers, by name.',
      propertyNames: { ...NAME },
      additionalProperties: withHints(PROVIDER, {
        'an entry of targets': TARGET.properties,
        'the model': MODEL.properties,
      }),
      default: {},
    },
    models: {
      type: 'object',
      description:
        'The models, by the id that clients send. An id with one `*`, such as `openai/*`, covers all models of the price catalog that match its targets.',
      propertyNames: { pattern: '^[!-~]{1,200}$', sentence: 'must be 1 to 200 printable characters without blanks' },
      additionalProperties: withHints(MODEL, {
        'an entry of targets': TARGET.properties,
        'the provider': PROVIDER.properties,
      }),
      default: {},
    },
    routes: { type: 'array', minItems: 1, description: 'The endpoints.', items: ROUTE },
  },
  { required: ['version', 'routes'], instead: { of: '^null$', write: '"version: 1", or use "tollgate init"' } },
)
