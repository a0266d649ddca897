/** A file of policy tests as JSON Schema: the descriptions are the manual. And the same as it is read. */
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
  'What the provider reports, in tokens.',
  {
    prompt: count('Of the prompt, what was cached included.'),
    completion: count('Of the answer, reasoning included.'),
    cached: count('Of the prompt, from the cache.'),
    reasoning: count('Of the answer, thinking.'),
  },
  { required: ['prompt', 'completion'] },
)

const UPSTREAM = map('One answer of the provider; left out: a few words, well.', {
  content: {
    type: ['string', 'array'],
    description: 'What it says; a list: a token an entry.',
    items: { type: 'string' },
  },
  finish: text('The finish reason. Default: stop.'),
  usage: { ...USAGE, type: ['object', 'null'], description: 'What it reports, in tokens; null: nothing.' },
  status: { type: 'integer', minimum: 200, maximum: 599, description: 'The status. Default: 200.' },
  headers: texts('Its headers.', 'string'),
  body: anything('The body as it is, in place of an answer.', 'string', 'object', 'array'),
  events: {
    type: 'array',
    description: 'The events of a stream as they are.',
    items: anything('An event.', 'string', 'object'),
  },
  fault: { enum: ['unreachable', 'reset', 'silent', 'garbage'], description: 'What goes wrong.' },
  after: count('So many events (halves of a whole answer) come before the fault.'),
  wait: span('So much time passes before it answers.'),
})

const HTTP_ANSWER = map('One answer of the service; left out: 200 without a body.', {
  status: { type: 'integer', minimum: 200, maximum: 599, description: 'The status. Default: 200.' },
  headers: texts('Its headers.', 'string'),
  body: anything('The body: JSON, or a text as it is.', 'string', 'object', 'array'),
  fault: {
    enum: ['unreachable', 'silent'],
    description: 'What goes wrong; silent: no answer until the plugin gives up.',
  },
})

const HTTP = {
  type: 'object',
  description:
    'Answers of the HTTP services of plugins (fetch), by URL, with or without a method: POST https://policy.example/decide. A URL without a query is for every query. Where it is said, a call without an answer fails the test; in a step it counts from there on.',
  propertyNames: {
    pattern: '^([A-Z]{1,20} )?https?://[^ ]+$',
    sentence: 'must be a URL, with or without a method before it: POST https://policy.example/decide',
  },
  additionalProperties: {
    type: ['array', 'object'],
    description: 'What it answers: a list is answered in order, its last entry again and again.',
    if: { type: 'array' },
    then: { minItems: 1, items: HTTP_ANSWER },
    else: HTTP_ANSWER,
  },
}

const REQUEST = map('What the client sends. Left out: a chat request to the first model.', {
  method: text('Default: POST.'),
  path: text('Default: the first route with this policy.'),
  headers: texts('Headers; null leaves out one that is sent by default.', 'string', 'null'),
  body: anything('The body; a map is merged over that of a chat request on a chat route.', 'object', 'string', 'null'),
  model: text('The model. Default: the first one.'),
  content: text('What the message says. Default: Hello.'),
  stream: { type: 'boolean', description: 'Whether a stream is asked for. Default: false.' },
  key: {
    enum: ['good', 'none', 'unknown', 'revoked', 'expired'],
    description:
      'Whose request it is: of the account, of nobody, with a key that is not known or no longer good. Where a jwt step takes tokens, a token.',
  },
  claims: {
    type: 'object',
    description: 'Further claims of its token, where a jwt step takes tokens.',
  },
  account: text('Whose key or token it is: a name under given. Default: the account of given.account.'),
  address: text('Where it comes from.'),
  leaves_after: count('The client leaves after so many events; 0: as soon as the provider is asked.'),
  times: {
    type: 'integer',
    minimum: 1,
    maximum: 10_000,
    description: 'So often, one after another; what is expected is about the last one.',
  },
})

const VERDICTS = ['passed', 'answered', 'refused', 'failed', 'skipped', 'off', 'would_refuse', 'late', 'absent']

const EXPECT = map(
  'What must be true afterwards. What is left out is not looked at.',
  {
    status: {
      type: ['integer', 'null'],
      minimum: 200,
      maximum: 599,
      description: 'The status; null: the client had left.',
    },
    code: { type: ['string', 'null'], description: "The error's code, also of a stream's last event; null: no error." },
    decided_by: {
      type: ['string', 'null'],
      description:
        'The step that refused or answered; send: what stands behind the steps; gateway: before them; null: nobody did.',
    },
    trail: {
      ...expected('What steps did, by their ids.'),
      additionalProperties: { enum: VERDICTS, description: 'What it did; absent: it was not reached.' },
    },
    tags: {
      ...expected('Tags of the exchange, by their names; null: not there.'),
      additionalProperties: { type: ['string', 'null'], description: 'The value.' },
    },
    outcome: { enum: ['answered', 'refused', 'failed', 'client_left', 'cut'], description: 'How the exchange ended.' },
    upstream: count('How often a provider was asked, all requests of the step together.'),
    http: {
      ...expected('How often each service of "http" was asked in this step, by its URL as it stands there.'),
      additionalProperties: count('So often.'),
    },
    sent: expected('What the body of the last one must have; lists have as many entries.'),
    headers: {
      ...texts('Headers of the answer; /…/ is a pattern, null: not there.', 'string', 'number', 'null'),
      minProperties: 1,
    },
    body: expected('What the body of the answer must have; lists have as many entries.'),
    content: { type: 'string', description: 'What the answer says.' },
    held: money('What was held for it.'),
    charged: money('What was charged for it.'),
    source: text('Where the charge comes from: reported, estimated, released and so on.'),
    balance: money('The balance of the account whose request it is.'),
  },
  { minProperties: 1 },
)

const STEP = {
  after: span('So much time passes before it.'),
  upstream: {
    type: ['array', 'object'],
    description:
      'What the provider answers: a list is answered in order, its last entry again and again. A step without it goes on with the answers of the step before.',
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
    description: 'The models that it may use. Default: all public ones.',
  },
  spending_cap: money('What it may spend. Default: what the account has.'),
  budgets: BUDGETS,
})

const GIVEN = map('How it stands at the beginning.', {
  account: map('The account.', { name: text('Default: acme.'), ...ACCOUNT }),
  key: KEY,
  accounts: {
    type: 'object',
    minProperties: 1,
    description: 'Further accounts by their names; request.account says whose request it is.',
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
      description: 'Routes in place of those of gateway.yaml. Needed when none of those has this policy.',
    },
    providers: { type: 'object', description: 'Providers in place of those of gateway.yaml.' },
    models: { type: 'object', description: 'Models in place of those of gateway.yaml.' },
    http: HTTP,
    tests: {
      type: 'array',
      minItems: 1,
      description: 'The tests; each begins anew.',
      items: map(
        'One test.',
        {
          name: text('What is promised, in words.'),
          given: GIVEN,
          ...STEP,
          then: {
            type: 'array',
            minItems: 1,
            description: 'What comes after it. A request here is that of the test, with what is said in its place.',
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
    /** By name; null: all of it as by default. */
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
