/**
 * The schemas of the account API's answers. The OpenAPI document (openapi.ts) and the types of views.ts are made from them, and a test checks
 * each answer of the real server. No property is ever missing; a missing value is null.
 */
import { type Outcome, TRAIL_WHYS, type TrailEntry } from '#contract'
import { ALERT_VIEWS } from './alert-schemas.ts'
import { BUDGET_VIEWS } from './budget-schemas.ts'
import { MODEL_VIEWS } from './model-schemas.ts'
import { cost, counts, tier } from './money-schemas.ts'
import { type Fits, maybe, type Properties, type Schema, shape } from './schema.ts'
import { count, flag, list, money, ms, oneOf, type Ref, ref, says, text, time, view } from './schema-parts.ts'

const role = oneOf('member', 'operator')
const outcome: Schema<Outcome> = oneOf('answered', 'refused', 'failed', 'client_left', 'cut')
const registration = oneOf('open', 'invitation', 'closed')

const would = list(shape({ deed: oneOf('answer', 'edit', 'rewrite', 'set_header'), 'header?': text }))
const trail: Schema<readonly TrailEntry[]> = list(
  shape({
    step: text,
    'plugin?': says(text, "The plugin's name, if it differs from the step's id."),
    verdict: text as Schema<TrailEntry['verdict']>,
    'code?': text as Schema<NonNullable<TrailEntry['code']>>,
    'why?': says(oneOf(...TRAIL_WHYS), 'The reason for the verdict, if the verdict alone is ambiguous.'),
    'would?': says(would, 'The verdict of a step in shadow mode.'),
    'asked?': says(text, 'The requested model, if the step replaced it.'),
    'note?': says(text, 'The note of the step.'),
  }),
)
const tags: Schema<Readonly<Record<string, string>>> = { type: 'object', additionalProperties: text }
const attempt = { target: text, status: maybe(count), code: maybe(text), ms }
const attempts = list(shape(attempt))

/** The fields of usage and its total. */
const used = {
  requests: count,
  failed: says(count, 'Requests that were not answered.'),
  prompt_tokens: count,
  cached_tokens: count,
  completion_tokens: count,
  reasoning_tokens: count,
  charged: money,
} satisfies Properties

const VIEWS = {
  AboutView: view('Public facts of the gateway.', {
    version: text,
    registration: says(registration, 'Whether anyone may register.'),
    starting_credit: says(money, 'The credit of a registered account.'),
    base_url: says(text, 'The base URL of clients, up to /v1.'),
    secure: says(flag, 'False on plain http, which only loopback may be: the session cookie is not marked Secure.'),
    signed_in: says(flag, 'Whether the request has a valid session. GET /api/session shows the person.'),
  }),
  PersonView: view('A person who can sign in.', {
    id: text,
    email: text,
    role,
    account_id: text,
    account: says(text, 'The name of the account.'),
    created_at: time,
  }),
  AccountView: view('An account, which pays for requests.', {
    id: text,
    name: text,
    plan: text,
    frozen: flag,
    created_at: time,
    posted: says(money, 'Credit minus charges, in dollars with 9 decimals.'),
    held: says(money, 'Held for requests in progress.'),
    available: says(money, 'posted - held'),
  }),
  SessionView: view('The person who is signed in.', {
    person: ref('PersonView'),
    account: ref('AccountView'),
    expires_at: says(time, 'The latest end; half an hour without a request ends it earlier.'),
  }),
  LinkPurposeView: view('The purpose of a link, before its use.', {
    kind: oneOf('invitation', 'reset'),
    email: says(maybe(text), 'The only address that may use it; null: any.'),
    account: says(maybe(text), 'The name of the account to join; null: a new one.'),
    role,
    credit: says(money, 'The first credit of the new account.'),
  }),
  KeyView: view('A key, without its secret.', {
    id: text,
    account_id: text,
    name: text,
    models: says(maybe(list(text)), 'Null: every public model.'),
    created_at: time,
    expires_at: maybe(time),
    revoked_at: maybe(time),
    last_used_at: maybe(time),
    spending_cap: says(
      maybe(money),
      'The lifetime limit of the key; null: the balance and the budgets of the account limit it.',
    ),
    spent: money,
    purpose: says(maybe(oneOf('playground')), 'playground: created by the dashboard for its playground.'),
    state: oneOf('live', 'expired', 'revoked'),
    secrets: says(
      list(shape({ last4: text, expires_at: maybe(time) })),
      'Live secrets, the newest first. An older one has the end of its grace period.',
    ),
  }),
  IssuedKeyView: view('A key with its secret: the only time it is shown.', { key: ref('KeyView'), token: text }),
  EntryView: view("A line of an account's ledger.", {
    id: text,
    kind: says(
      oneOf('credit', 'charge', 'correction'),
      'correction: a recovered charge was replaced by that of its usage.',
    ),
    at: time,
    amount: says(money, 'Negative for charges and for credit that was taken.'),
    balance: says(maybe(money), "The account's balance after it; null: too many later entries to sum up."),
    actor: maybe(text),
    note: maybe(text),
    reference: maybe(text),
    key_id: maybe(text),
    model: maybe(text),
    outcome: maybe(outcome),
  }),
  ReceiptView: view('The outcome and the cost of one request.', {
    id: text,
    key_id: text,
    model: says(text, 'The model that answered.'),
    asked_model: says(maybe(text), 'The requested model, if a budget replaced it.'),
    created_at: time,
    settled_at: says(maybe(time), 'Null while the request is in progress.'),
    corrected_at: says(maybe(time), 'The time of the correction of a recovered charge; null: none.'),
    outcome: maybe(outcome),
    code: says(maybe(text), 'The error code that the client received.'),
    held: money,
    charged: maybe(money),
    overrun: says(maybe(money), 'The cost of the usage above the charge, which the operator pays.'),
    source: says(maybe(text), 'The source of the usage: reported by the provider, counted, and others.'),
    price: ref('PriceView'),
    prompt_tokens: count,
    cached_tokens: count,
    cache_write_tokens: count,
    completion_tokens: count,
    reasoning_tokens: count,
    searches: says(count, 'Web searches by the provider.'),
    units: says(counts, 'Counts of other units.'),
    tier: says(maybe(tier), 'The class of service of the answer; null: the default one.'),
    ...cost,
    attempts,
    trail: says(trail, 'What the steps did.'),
    idempotency_key: maybe(text),
    tags: says(tags, 'By name; empty without tags.'),
  }),
  UsageRowView: view('One span of time, key and model; null for a summed dimension.', {
    at: time,
    key_id: maybe(text),
    model: maybe(text),
    ...used,
  }),
  UsageView: view('Usage over time. Spans without usage have no row.', {
    step: oneOf('hour', 'day'),
    from: time,
    to: time,
    rows: list(ref('UsageRowView')),
    total: shape(used),
  }),
  ...MODEL_VIEWS,
  LinkView: view('A link that works once, without its secret.', {
    id: text,
    kind: oneOf('invitation', 'reset'),
    role,
    account_id: says(maybe(text), 'The id of the account to join; null: a new one, or none.'),
    account: says(maybe(text), 'Its name.'),
    email: maybe(text),
    plan: maybe(text),
    credit: money,
    created_at: time,
    expires_at: time,
    created_by: text,
  }),
  IssuedLinkView: view('A link with its address: the only time it is shown.', {
    link: ref('LinkView'),
    url: says(text, 'Its secret follows the #, a part that browsers do not send to servers.'),
  }),
  AccountDetailView: view('An account with its people and keys.', {
    account: ref('AccountView'),
    people: list(ref('PersonView')),
    keys: list(ref('KeyView')),
  }),
  CreditView: view('Credit that was added or taken.', {
    granted: says(flag, 'False: this reference was credited before, so nothing has changed.'),
    reference: text,
    account: ref('AccountView'),
  }),
  PlanView: view('A plan of gateway.yaml or of accounts.', {
    plan: text,
    accounts: count,
    declared: says(maybe(flag), 'Whether gateway.yaml declares it; null: it declares no plans, so any name is one.'),
  }),
  FoundReceiptView: view('A receipt of any account.', {
    receipt: ref('ReceiptView'),
    account: ref('AccountView'),
  }),
  SummaryView: view('The gateway at a glance.', {
    accounts: count,
    posted: money,
    held: money,
    inflight: count,
    open_holds: count,
    ready: flag,
    reason: says(maybe(text), 'The reason why it is not ready.'),
    started_at: time,
    version: text,
  }),
  ExchangeView: view('A request in progress.', {
    id: text,
    started_at: time,
    route: text,
    policy: text,
    account_id: maybe(text),
    account: maybe(text),
    key_id: maybe(text),
    model: maybe(text),
    stream: maybe(flag),
    target: says(maybe(text), 'The target of the current or the last attempt.'),
    attempts: count,
    tokens: says(count, 'Tokens of the answer so far, as counted.'),
    address: text,
    replica: says(maybe(text), 'The replica that serves it; null: the only gateway.'),
  }),
  PastExchangeView: view('An ended request with all details.', {
    id: text,
    kept: says(
      oneOf('memory', 'receipt'),
      'memory: one of the last exchanges. receipt: made from its receipt, and fields that a receipt does not have are null.',
    ),
    trace_id: says(maybe(text), 'The id of its OpenTelemetry trace; null: without telemetry.'),
    started_at: time,
    ms: says(maybe(ms), 'The duration to the end of the answer.'),
    route: maybe(text),
    policy: maybe(text),
    method: maybe(text),
    account_id: says(maybe(text), 'Null: no step had identified the account.'),
    account: maybe(text),
    key_id: maybe(text),
    key: says(maybe(text), 'Its name.'),
    tags: says(tags, 'By name; empty without tags.'),
    model: maybe(text),
    stream: maybe(flag),
    status: says(maybe(count), 'The status that the client received; null: it had disconnected.'),
    outcome: maybe(outcome),
    code: says(maybe(text), 'The error code that the client received.'),
    decided_by: says(maybe(text), 'The deciding step; send or gateway: no step; null: a provider.'),
    trail: says(trail, 'What the steps did.'),
    attempts: list(
      shape({
        ...attempt,
        'detail?': says(
          text,
          'The reason of the failure, as the provider or the connection reported it, without secrets.',
        ),
      }),
    ),
    receipt: says(maybe(ref('ReceiptView')), 'Its receipt; null: no hold.'),
  }),
  ShadowView: view('Verdicts of steps in shadow mode since the start of the gateway.', {
    since: time,
    steps: list(ref('ShadowStepView')),
  }),
  ShadowStepView: view('A step in shadow mode.', {
    policy: text,
    step: text,
    now: says(flag, 'Whether it is in shadow mode in the running configuration.'),
    since: says(maybe(time), 'The time of its first run; null: not yet.'),
    ran: says(count, 'Requests in which it ran.'),
    would_refuse: says(count, 'Requests that it would have refused or answered.'),
    refusals: list(
      shape({
        code: says(text, 'The error code; answered: it would have answered.'),
        count,
        accounts: ref('TouchedView'),
        keys: ref('TouchedView'),
        examples: says(list(shape({ id: text, at: time })), 'The newest first.'),
      }),
    ),
  }),
  TouchedView: view('The affected accounts or keys.', {
    distinct: count,
    more: says(flag, 'Whether there were more than are counted separately.'),
    top: says(list(shape({ id: text, name: text, count })), 'The most affected ones.'),
  }),
  TargetHealthView: view('The health of a target.', {
    target: text,
    models: list(text),
    state: oneOf('well', 'limited', 'ejected', 'half_open'),
    until: says(maybe(time), 'The end of the time in which it is tried last.'),
    inflight: count,
    failures_in_a_row: count,
    attempts: says(count, 'Attempts of the last 30 seconds.'),
    failed: count,
    latency_ms: says(maybe(ms), 'The time to the first event of streams; null: no recent measurement.'),
  }),
  ProviderView: view('A provider and its targets.', {
    name: text,
    dialect: text,
    base_url: maybe(text),
    credentials: says(
      shape({ total: count, good: count, refused: count }),
      'The numbers of all credentials, of good ones, and of those that the provider refuses.',
    ),
    targets: list(ref('TargetHealthView')),
  }),
  ...ALERT_VIEWS,
  ...BUDGET_VIEWS,
  ProblemView: view('A problem in a file.', {
    file: text,
    line: count,
    column: count,
    message: text,
    suggestion: maybe(text),
  }),
  ConfigurationView: view('The files of the running configuration, and their problems.', {
    files: list(shape({ path: text, text: says(text, 'The running text, without secrets.'), changed: flag })),
    loaded_at: time,
    problems: says(list(ref('ProblemView')), 'The problems of the current files, as in `tollgate check`.'),
    routes: list(
      shape({
        path: text,
        kind: text,
        policy: text,
        steps: list(shape({ id: text, use: text, mode: text, when: maybe(text) })),
      }),
    ),
  }),
  TokenView: view("An operator's token, without its secret.", {
    id: text,
    name: text,
    last4: text,
    created_at: time,
    expires_at: maybe(time),
    created_by: text,
  }),
  IssuedTokenView: view('A token with its secret: the only time it is shown.', {
    token: ref('TokenView'),
    secret: text,
  }),
} satisfies Properties

type ViewName = keyof typeof VIEWS

/** The type of a view, with those that it refers to. */
export type View<Name extends ViewName> = Resolved<Fits<(typeof VIEWS)[Name]>>
type Resolved<T> = T extends Ref<infer Name extends ViewName> ? View<Name> : { [K in keyof T]: Resolved<T[K]> }

type PageName = 'KeyPage' | 'BudgetPage' | 'EntryPage' | 'ReceiptPage' | 'ModelPage' | OperatorPageName
type OperatorPageName =
  | 'AccountPage'
  | 'PersonPage'
  | 'LinkPage'
  | 'PlanPage'
  | 'ExchangePage'
  | 'ProviderPage'
  | 'TokenPage'
  | 'OperatorModelPage'
  | 'AlertPage'

/** The names of answers. `KeyPage` is a page of `KeyView`. */
export type SchemaName = ViewName | PageName | 'ErrorView'

/** `{ items, next }`, the form of each list. */
function page(item: ViewName): Schema {
  return view('A page of a list.', {
    items: list(ref(item)),
    next: says(maybe(text), '`after` of the next page; null: this is the last one.'),
  })
}

/** By name. References lead to `#/components/schemas/NAME`, where the description of the API has them. */
export const SCHEMAS: Readonly<Record<SchemaName, Schema>> = {
  ...VIEWS,
  KeyPage: page('KeyView'),
  BudgetPage: page('BudgetView'),
  EntryPage: page('EntryView'),
  ReceiptPage: page('ReceiptView'),
  ModelPage: page('ModelView'),
  AccountPage: page('AccountView'),
  PersonPage: page('PersonView'),
  LinkPage: page('LinkView'),
  PlanPage: page('PlanView'),
  ExchangePage: page('ExchangeView'),
  ProviderPage: page('ProviderView'),
  TokenPage: page('TokenView'),
  OperatorModelPage: page('OperatorModelView'),
  AlertPage: page('AlertView'),
  ErrorView: view('An error.', {
    error: shape({
      message: says(text, 'A sentence for people.'),
      type: text,
      param: says(maybe(text), 'The place in the request.'),
      code: says(text, 'For programs.'),
    }),
  }),
}
