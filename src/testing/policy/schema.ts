/** The JSON Schema of policy tests, whose descriptions are the manual, and its types. */
import { BUDGET_SCHEMA, type Budget, type NanoUsd, unit } from '#contract'
import type { Fault } from '../../simulate/answers.ts'

const text = (description: string, more: object = {}) => ({ type: 'string', minLength: 1, description, ...more })
const count = (description: string, minimum = 0) => ({ type: 'integer', minimum, maximum: 100_000_000, description })
const anything = (description: string, ...type: string[]) => ({ type, description })
const map = (description: string, properties: object, more: object = {}) => ({
  type: 'object',
  additionalProperties: false,
  description,
  properties,
  ...more,
})
const expected = (description: string) => ({ type: 'object', minProperties: 1, description })
const texts = (description: string, ...types: string[]) => ({
  type: 'object',
  description,
  additionalProperties: { type: types, description: 'A value.' },
})
const money = (description: string) => ({ ...unit('money'), description })
const span = (description: string) => ({ ...unit('duration'), description })

const USAGE = map(
  'The reported usage, in tokens.',
  {
    prompt: count('Prompt tokens, including cached ones.'),
    completion: count('Tokens of the answer, including reasoning.'),
    cached: count('Cached prompt tokens.'),
    reasoning: count('Reasoning tokens.'),
  },
  { required: ['prompt', 'completion'] },
)

const UPSTREAM = map('One answer of the provider. Default: a short text.', {
  content: {
    type: ['string', 'array'],
    description: 'The text; in a list each entry is a token.',
    items: { type: 'string' },
  },
  finish: text('The finish reason. Default: stop.'),
  usage: { ...USAGE, type: ['object', 'null'], description: 'The reported usage, in tokens; null: none.' },
  status: { type: 'integer', minimum: 200, maximum: 599, description: 'The status. Default: 200.' },
  headers: texts('Its headers.', 'string'),
  body: anything('The raw body instead of an answer.', 'string', 'object', 'array'),
  events: {
    type: 'array',
    description: 'The raw events of a stream.',
    items: anything('An event.', 'string', 'object'),
  },
  fault: { enum: ['unreachable', 'reset', 'silent', 'garbage'], description: 'A fault.' },
  after: count('Number of events (halves of a whole answer) before the fault.'),
  wait: span('Delay before the answer.'),
})

const HTTP_ANSWER = map('One answer of the service. Default: 200 without a body.', {
  status: { type: 'integer', minimum: 200, maximum: 599, description: 'The status. Default: 200.' },
  headers: texts('Its headers.', 'string'),
  body: anything('The body: JSON, or a raw text.', 'string', 'object', 'array'),
  fault: {
    enum: ['unreachable', 'silent'],
    description: 'A fault; silent: no answer until the plugin aborts the call.',
  },
})

const HTTP = {
  type: 'object',
  description:
    'Answers of the HTTP services of plugins (fetch), by URL, with or without a method: POST https://policy.example/decide. A URL without a query matches every query. With this key, a call without an answer fails the test; in a step it applies from that step on.',
  propertyNames: {
    pattern: '^([A-Z]{1,20} )?https?://[^ ]+$',
    sentence: 'must be a URL, with or without a method before it: POST https://policy.example/decide',
  },
  additionalProperties: {
    type: ['array', 'object'],
    description: 'Its answers: a list is used in order, its last entry repeatedly.',
    if: { type: 'array' },
    then: { minItems: 1, items: HTTP_ANSWER },
    else: HTTP_ANSWER,
  },
}

const REQUEST = map('The request. Default: a chat request to the first model.', {
  method: text('Default: POST.'),
  path: text('Default: the first route with this policy.'),
  headers: texts('Headers; null omits a default header.', 'string', 'null'),
  body: anything('The body; on a chat route, an object is merged over a default request.', 'object', 'string', 'null'),
  model: text('The model. Default: the first one.'),
  content: text('The text of the message. Default: Hello.'),
  stream: { type: 'boolean', description: 'Whether it requests a stream. Default: false.' },
  key: {
    enum: ['good', 'none', 'unknown', 'revoked', 'expired'],
    description:
      'The key of the request: the valid one of the account, none, an unknown one, or one that is not valid any more. If a jwt step takes tokens, a token.',
  },
  claims: {
    type: 'object',
    description: 'Further claims of its token, if a jwt step takes tokens.',
  },
  account: text('The account of the key or token: a name under given. Default: the account of given.account.'),
  address: text('The address of the client.'),
  leaves_after: count('The client disconnects after this number of events; 0: as soon as the provider is called.'),
  times: {
    type: 'integer',
    minimum: 1,
    maximum: 10_000,
    description: 'Number of requests, one after another; the expectations are about the last one.',
  },
})

const VERDICTS = ['passed', 'answered', 'refused', 'failed', 'skipped', 'off', 'would_refuse', 'late', 'absent']

const EXPECT = map(
  'The expected result. Missing members are not checked.',
  {
    status: {
      type: ['integer', 'null'],
      minimum: 200,
      maximum: 599,
      description: 'The status; null: the client disconnected.',
    },
    code: { type: ['string', 'null'], description: "The error's code, also of a stream's last event; null: no error." },
    decided_by: {
      type: ['string', 'null'],
      description: 'The step that refused or answered; send: the upstream call; gateway: before the steps; null: none.',
    },
    trail: {
      ...expected('Verdicts of steps, by their ids.'),
      additionalProperties: { enum: VERDICTS, description: 'The verdict; absent: the step was not reached.' },
    },
    tags: {
      ...expected('Tags of the exchange, by their names; null: missing.'),
      additionalProperties: { type: ['string', 'null'], description: 'The value.' },
    },
    outcome: { enum: ['answered', 'refused', 'failed', 'client_left', 'cut'], description: 'How the exchange ended.' },
    upstream: count('Number of requests to providers, over all requests of the step.'),
    http: {
      ...expected('Number of calls of each service of "http" in this step, by its key there.'),
      additionalProperties: count('Number of calls.'),
    },
    sent: expected('Members of the body of the last request to a provider; lists must have the same length.'),
    headers: {
      ...texts('Headers of the answer; /…/ is a pattern, null: missing.', 'string', 'number', 'null'),
      minProperties: 1,
    },
    body: expected('Members of the body of the answer; lists must have the same length.'),
    content: { type: 'string', description: 'The text of the answer.' },
    held: money('The amount that was held.'),
    charged: money('The amount that was charged.'),
    source: text('The source of the charge: reported, estimated, released and so on.'),
    balance: money('The balance of the account of the request.'),
  },
  { minProperties: 1 },
)

const STEP = {
  after: span('Time that passes before it.'),
  upstream: {
    type: ['array', 'object'],
    description:
      'The answers of the provider: a list is used in order, its last entry repeatedly. A step without it continues with the answers of the previous step.',
    if: { type: 'array' },
    then: { minItems: 1, items: UPSTREAM },
    else: UPSTREAM,
  },
  http: HTTP,
  request: REQUEST,
  expect: EXPECT,
}

const { per: _per, name: _name, ...ofOne } = BUDGET_SCHEMA.properties
const BUDGETS = {
  type: 'array',
  minItems: 1,
  description: 'Budgets of its own.',
  items: { ...BUDGET_SCHEMA, required: ['amount', 'every'], properties: ofOne },
}

const ACCOUNT = {
  plan: text('Default: default.'),
  balance: money('Its credit. Default: $10.'),
  frozen: { type: 'boolean', description: 'Whether it is frozen.' },
  budgets: BUDGETS,
}
const KEY = map("The account's key.", {
  models: {
    type: 'array',
    minItems: 1,
    items: { type: 'string' },
    description: 'The allowed models. Default: all public ones.',
  },
  spending_cap: money('The spending cap. Default: none.'),
  budgets: BUDGETS,
})

const GIVEN = map('The initial state.', {
  account: map('The account.', { name: text('Default: acme.'), ...ACCOUNT }),
  key: KEY,
  accounts: {
    type: 'object',
    minProperties: 1,
    description: 'Further accounts by their names, for request.account.',
    additionalProperties: map('One more account.', { ...ACCOUNT, key: KEY }, { type: ['object', 'null'] }),
  },
  clock: text('The time, as 2027-01-15T08:00:00Z.'),
})

/** The schema of `policies/NAME.test.yaml`. */
export const POLICY_TEST_SCHEMA = map(
  'Tests of a policy.',
  {
    policy: text('The policy. Default: the name of this file without .test.yaml.'),
    config: text('gateway.yaml, relative to this file. Default: ../gateway.yaml.'),
    routes: {
      type: 'array',
      minItems: 1,
      items: { type: 'object', description: 'As in gateway.yaml.' },
      description: 'Routes instead of those of gateway.yaml. Needed if none of those has this policy.',
    },
    providers: { type: 'object', description: 'Providers instead of those of gateway.yaml.' },
    models: { type: 'object', description: 'Models instead of those of gateway.yaml.' },
    http: HTTP,
    tests: {
      type: 'array',
      minItems: 1,
      description: 'The tests; each starts from the initial state.',
      items: map(
        'One test.',
        {
          name: text('The promise that is tested.'),
          given: GIVEN,
          ...STEP,
          then: {
            type: 'array',
            minItems: 1,
            description: 'Further steps. A request here is the request of the test, with the changes of the step.',
            items: map('A step.', STEP, { required: ['expect'] }),
          },
        },
        { required: ['name', 'expect'] },
      ),
    },
  },
  { required: ['tests'] },
)

export interface UpstreamShape {
  readonly content?: string | readonly string[]
  readonly finish?: string
  readonly usage?: {
    readonly prompt: number
    readonly completion: number
    readonly cached?: number
    readonly reasoning?: number
  } | null
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
  readonly events?: readonly unknown[]
  readonly fault?: Fault
  readonly after?: number
  readonly wait?: number
}

export interface HttpAnswerShape {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
  readonly fault?: 'unreachable' | 'silent'
}

export type HttpShape = Readonly<Record<string, HttpAnswerShape | readonly HttpAnswerShape[]>>

export interface RequestShape {
  readonly method?: string
  readonly path?: string
  readonly headers?: Readonly<Record<string, string | null>>
  readonly body?: Readonly<Record<string, unknown>> | string | null
  readonly model?: string
  readonly content?: string
  readonly stream?: boolean
  readonly key?: 'good' | 'none' | 'unknown' | 'revoked' | 'expired'
  readonly claims?: Readonly<Record<string, unknown>>
  readonly account?: string
  readonly address?: string
  readonly leaves_after?: number
  readonly times?: number
}

export interface ExpectShape {
  readonly status?: number | null
  readonly code?: string | null
  readonly decided_by?: string | null
  readonly trail?: Readonly<Record<string, string>>
  readonly tags?: Readonly<Record<string, string | null>>
  readonly outcome?: string
  readonly upstream?: number
  readonly http?: Readonly<Record<string, number>>
  readonly sent?: Readonly<Record<string, unknown>>
  readonly headers?: Readonly<Record<string, string | number | null>>
  readonly body?: Readonly<Record<string, unknown>>
  readonly content?: string
  readonly held?: NanoUsd
  readonly charged?: NanoUsd
  readonly source?: string
  readonly balance?: NanoUsd
}

export interface StepShape {
  readonly after?: number
  readonly upstream?: UpstreamShape | readonly UpstreamShape[]
  readonly http?: HttpShape
  readonly request?: RequestShape
  readonly expect: ExpectShape
}

export interface AccountShape {
  readonly plan?: string
  readonly balance?: NanoUsd
  readonly frozen?: boolean
  readonly budgets?: readonly OwnBudget[]
}

/** A budget of an account or a key. */
export type OwnBudget = Omit<Budget, 'per' | 'name'>

export interface KeyShape {
  readonly models?: readonly string[]
  readonly spending_cap?: NanoUsd
  readonly budgets?: readonly OwnBudget[]
}

export interface TestShape extends StepShape {
  readonly name: string
  readonly given?: {
    readonly account?: AccountShape & { readonly name?: string }
    readonly key?: KeyShape
    /** By name; null: only defaults. */
    readonly accounts?: Readonly<Record<string, (AccountShape & { readonly key?: KeyShape }) | null>>
    readonly clock?: string
  }
  readonly then?: readonly StepShape[]
}

export interface FileShape {
  readonly policy?: string
  readonly config?: string
  readonly routes?: readonly Readonly<Record<string, unknown>>[]
  readonly providers?: Readonly<Record<string, unknown>>
  readonly models?: Readonly<Record<string, unknown>>
  readonly http?: HttpShape
  readonly tests: readonly TestShape[]
}
