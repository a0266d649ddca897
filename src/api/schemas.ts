/**
 * What the account API answers: for the description of the API (openapi.ts), for the types of views.ts, and for a test that
 * holds every answer of the real server against it. Every property is always there; what may be missing is null.
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
    'plugin?': says(text, "The plugin's name, where the step's id is another."),
    verdict: text as Schema<TrailEntry['verdict']>,
    'code?': text as Schema<NonNullable<TrailEntry['code']>>,
    'why?': says(oneOf(...TRAIL_WHYS), 'Why it has the verdict, where the verdict does not say it.'),
    'would?': says(would, 'What a step in shadow would have done.'),
    'asked?': says(text, 'The model that was asked before the step asked another one.'),
    'note?': says(text, 'What the step itself noted, in free words.'),
  }),
)
const tags: Schema<Readonly<Record<string, string>>> = { type: 'object', additionalProperties: text }
const attempt = { target: text, status: maybe(count), code: maybe(text), ms }
const attempts = list(shape(attempt))

/** What usage and its total count. */
const used = {
  requests: count,
  failed: says(count, 'Of them, those that were not answered.'),
  prompt_tokens: count,
  cached_tokens: count,
  completion_tokens: count,
  reasoning_tokens: count,
  charged: money,
} satisfies Properties

const VIEWS = {
  AboutView: view('What everybody may know.', {
    version: text,
    registration: says(registration, 'Who may make an account.'),
    starting_credit: says(money, 'What an account begins with that somebody made by themselves.'),
    base_url: says(text, 'Where clients reach the gateway, up to /v1.'),
    secure: says(flag, 'False on plain http, which only loopback may be: the session cookie is not marked Secure.'),
    signed_in: says(flag, 'Whether the request came with a session that lives: then GET /api/session tells whose.'),
  }),
  PersonView: view('Somebody with a password.', {
    id: text,
    email: text,
    role,
    account_id: text,
    account: says(text, 'The name of the account.'),
    created_at: time,
  }),
  AccountView: view('Who pays.', {
    id: text,
    name: text,
    plan: text,
    frozen: flag,
    created_at: time,
    posted: says(money, 'Credit minus charges, in dollars with 9 decimals.'),
    held: says(money, 'Set aside for requests in progress.'),
    available: says(money, 'posted - held'),
  }),
  SessionView: view('Who is signed in.', {
    person: ref('PersonView'),
    account: ref('AccountView'),
    expires_at: says(time, 'When it ends at the latest; half an hour without a request ends it sooner.'),
  }),
  LinkPurposeView: view('What a link is for, before it is used.', {
    kind: oneOf('invitation', 'reset'),
    email: says(maybe(text), 'The only address that may use it; null: any.'),
    account: says(maybe(text), 'The name of the account that it lets join; null: one is made.'),
    role,
    credit: says(money, 'What the account that is made begins with.'),
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
      'What the key may spend in its life; null: as much as the balance and the budgets of the account allow.',
    ),
    spent: money,
    purpose: says(maybe(oneOf('playground')), 'playground: made by the dashboard for its playground.'),
    state: oneOf('live', 'expired', 'revoked'),
    secrets: says(
      list(shape({ last4: text, expires_at: maybe(time) })),
      'Live secrets, the newest first; an older one has the end of its grace.',
    ),
  }),
  IssuedKeyView: view('A key with its secret: the only time it is shown.', { key: ref('KeyView'), token: text }),
  EntryView: view("A line of an account's ledger.", {
    id: text,
    kind: says(oneOf('credit', 'charge', 'correction'), 'correction: a recovered charge became what its usage says.'),
    at: time,
    amount: says(money, 'Negative for charges and for credit that was taken.'),
    balance: says(maybe(money), "The account's balance after it; null when more was written since than is summed up."),
    actor: maybe(text),
    note: maybe(text),
    reference: maybe(text),
    key_id: maybe(text),
    model: maybe(text),
    outcome: maybe(outcome),
  }),
  ReceiptView: view('What became of one request, and what it cost.', {
    id: text,
    key_id: text,
    model: says(text, 'The model that answered.'),
    asked_model: says(
      maybe(text),
      'The model that the client asked for, where a budget had another one answer; else null.',
    ),
    created_at: time,
    settled_at: says(maybe(time), 'Null while the request is in progress.'),
    corrected_at: says(maybe(time), 'When a recovered charge became what its usage says; null: it was not corrected.'),
    outcome: maybe(outcome),
    code: says(maybe(text), 'The error that the client was told.'),
    held: money,
    charged: maybe(money),
    overrun: says(maybe(money), 'What the usage costs beyond the charge: the operator pays it.'),
    source: says(maybe(text), 'Where the usage comes from: reported by the provider, counted, ...'),
    price: ref('PriceView'),
    prompt_tokens: count,
    cached_tokens: count,
    cache_write_tokens: count,
    completion_tokens: count,
    reasoning_tokens: count,
    searches: says(count, 'Searches of the web that the provider made.'),
    units: says(counts, 'Counts of other units that were used.'),
    tier: says(maybe(tier), 'The class of service in which the provider answered; null: the ordinary one.'),
    ...cost,
    attempts,
    trail: says(trail, 'What the steps did.'),
    idempotency_key: maybe(text),
    tags: says(tags, 'By name; none: there are no tags.'),
  }),
  UsageRowView: view('One span of time, key and model; what was summed over is null.', {
    at: time,
    key_id: maybe(text),
    model: maybe(text),
    ...used,
  }),
  UsageView: view('Usage over time; rows only where something was used.', {
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
    account_id: says(maybe(text), 'Of the account that it lets join; null: none, or one that is made.'),
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
    url: says(text, 'Its secret stands behind #, which browsers do not send to servers.'),
  }),
  AccountDetailView: view('An account with its people and keys.', {
    account: ref('AccountView'),
    people: list(ref('PersonView')),
    keys: list(ref('KeyView')),
  }),
  CreditView: view('Credit that was given, or taken.', {
    granted: says(flag, 'False: this reference had been credited before, and nothing has changed.'),
    reference: text,
    account: ref('AccountView'),
  }),
  PlanView: view('A plan that gateway.yaml declares, or that accounts have.', {
    plan: text,
    accounts: count,
    declared: says(maybe(flag), 'Whether gateway.yaml declares it; null: it declares none, and any name is a plan.'),
  }),
  FoundReceiptView: view("Anybody's receipt, and whose it is.", {
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
    reason: says(maybe(text), 'Why it is not ready.'),
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
    target: says(maybe(text), 'Of the attempt in progress, or the last one.'),
    attempts: count,
    tokens: says(count, 'That have come so far, counted.'),
    address: text,
    replica: says(maybe(text), 'Which replica serves it; null where there is one gateway.'),
  }),
  PastExchangeView: view('A request that is over, whole.', {
    id: text,
    kept: says(
      oneOf('memory', 'receipt'),
      'memory: one of the last; receipt: what its receipt says, and what it does not say is null.',
    ),
    trace_id: says(maybe(text), 'Of its OpenTelemetry trace; null: without telemetry.'),
    started_at: time,
    ms: says(maybe(ms), 'To the end of the answer.'),
    route: maybe(text),
    policy: maybe(text),
    method: maybe(text),
    account_id: says(maybe(text), 'Null: no step had found out whose it was.'),
    account: maybe(text),
    key_id: maybe(text),
    key: says(maybe(text), 'Its name.'),
    tags: says(tags, 'By name; none: there are no tags.'),
    model: maybe(text),
    stream: maybe(flag),
    status: says(maybe(count), 'What the client got; null: it had left before.'),
    outcome: maybe(outcome),
    code: says(maybe(text), 'The error that the client was told.'),
    decided_by: says(
      maybe(text),
      'The step that refused, failed or answered; send or gateway, where no step did; null: a provider answered.',
    ),
    trail: says(trail, 'What the steps did.'),
    attempts: list(
      shape({
        ...attempt,
        'detail?': says(text, 'Why it failed, in the words of the provider or of the connection, without secrets.'),
      }),
    ),
    receipt: says(maybe(ref('ReceiptView')), 'Its money; null: nothing was held.'),
  }),
  ShadowView: view('What steps in shadow would have done, since the start of the gateway.', {
    since: time,
    steps: list(ref('ShadowStepView')),
  }),
  ShadowStepView: view('A step in shadow.', {
    policy: text,
    step: text,
    now: says(flag, 'Whether the configuration that runs has it in shadow.'),
    since: says(maybe(time), 'When it ran first; null: not yet.'),
    ran: says(count, 'Requests in which it ran.'),
    would_refuse: says(count, 'Of them, those that it would have refused or answered by itself.'),
    refusals: list(
      shape({
        code: says(text, 'Of the error; answered: it would have answered by itself.'),
        count,
        accounts: ref('TouchedView'),
        keys: ref('TouchedView'),
        examples: says(list(shape({ id: text, at: time })), 'The latest first.'),
      }),
    ),
  }),
  TouchedView: view('Who was touched.', {
    distinct: count,
    more: says(flag, 'There were more than are counted apart.'),
    top: says(list(shape({ id: text, name: text, count })), 'Those most often touched.'),
  }),
  TargetHealthView: view('How a provider and its model are doing.', {
    target: text,
    models: list(text),
    state: oneOf('well', 'limited', 'ejected', 'half_open'),
    until: says(maybe(time), 'Until when it is put behind the others.'),
    inflight: count,
    failures_in_a_row: count,
    attempts: says(count, 'Of the last 30 seconds.'),
    failed: count,
    latency_ms: says(maybe(ms), 'To the first event of streams; null: not measured lately.'),
  }),
  ProviderView: view('A provider and its targets.', {
    name: text,
    dialect: text,
    base_url: maybe(text),
    credentials: says(
      shape({ total: count, good: count, refused: count }),
      'How many it has, how many of them are good, and how many the provider has refused and not taken since.',
    ),
    targets: list(ref('TargetHealthView')),
  }),
  ...ALERT_VIEWS,
  ...BUDGET_VIEWS,
  ProblemView: view('What is wrong in a file.', {
    file: text,
    line: count,
    column: count,
    message: text,
    suggestion: maybe(text),
  }),
  ConfigurationView: view('The files that the gateway runs, and what is wrong with them.', {
    files: list(shape({ path: text, text: says(text, 'As the gateway runs it, without secrets.'), changed: flag })),
    loaded_at: time,
    problems: says(list(ref('ProblemView')), 'What `tollgate check` would say of the files as they are now.'),
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

/** What a route may answer with. `KeyPage` is a page of `KeyView`. */
export type SchemaName = ViewName | PageName | 'ErrorView'

/** `{ items, next }`, which every list is. */
function page(item: ViewName): Schema {
  return view('A part of a list, and where it goes on.', {
    items: list(ref(item)),
    next: says(maybe(text), 'For `after`, to read on; null: this was the end.'),
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
  ErrorView: view('Every error.', {
    error: shape({
      message: says(text, 'A sentence for people.'),
      type: text,
      param: says(maybe(text), 'The place in the request.'),
      code: says(text, 'For programs.'),
    }),
  }),
}
