/** Broken policies, and policies that do not fit their routes. The mark ▸ shows where the problem must be reported. */
import { type Files, PARTS, STANDARD } from './workshop.ts'

type Row = readonly [name: string, files: string | Files, says: string | readonly string[]]

const FREE = { models: PARTS.models.replace(/price:.*/, 'price: free') }
const RAW = '{ path: /v1/embeddings, kind: raw, provider: far, price: { request: $0.01 }'
const chat = (text: string) => `routes:\n  - { path: /v1/chat/completions, policy: ${text} }`

const SHAPE: Row[] = [
  ['nothing', '▸', 'the file is empty; write its "steps:"'],
  ['no steps', `▸stpes: []\n${STANDARD}`, 'unknown key "stpes"; did you mean "steps"?'],
  ['empty steps', 'steps: ▸[]', 'steps needs at least one entry'],
  [
    'a step that is a word',
    `${STANDARD}  - ▸remark\n`,
    'entry 5 of steps must be a map, not "remark"; write "use: remark"',
  ],
  ['an empty step', `${STANDARD}  -▸\n`, 'entry 5 of steps is empty; give it a value or remove the key'],
  ['a step without use', `${STANDARD}  - ▸id: x\n`, 'entry 5 of steps has no "use"'],
  ['a mistyped key', `${STANDARD}  - use: remark\n    ▸wiht: {}\n`, 'unknown key "wiht"; did you mean "with"?'],
  [
    'a mistyped mode',
    `${STANDARD}  - use: remark\n    mode: ▸shadwo\n`,
    '"shadwo" is not one of enforce, shadow or off; did you mean "shadow"?',
  ],
  [
    'a mistyped onError',
    `${STANDARD}  - use: remark\n    onError: ▸ignore\n`,
    'onError: "ignore" is not one of refuse or skip',
  ],
  [
    'a mistyped setting of traces',
    `telemetry: { ▸contnet: true }\n${STANDARD}`,
    'unknown key "contnet"; did you mean "content"?',
  ],
  ['traces as a word', `telemetry: ▸on\n${STANDARD}`, 'telemetry must be a map, not "on"; its key is content'],
  [
    'a setting of traces that is a word',
    `telemetry: { content: ▸all }\n${STANDARD}`,
    'content must be true or false, not "all"',
  ],
  ['an unknown plugin', `${STANDARD}  - use: ▸remrak\n`, 'unknown plugin "remrak"; did you mean "remark"?'],
  ['an unknown plugin without a similar name', `${STANDARD}  - use: ▸firewall\n`, 'unknown plugin "firewall"'],
  [
    'a path without ./',
    `${STANDARD}  - use: ▸plugins/x.ts\n`,
    '"plugins/x.ts" is neither a built-in plugin nor ./path/to/plugin.ts nor npm:package',
  ],
  [
    'the name of a local plugin',
    { standard: `${STANDARD}  - use: ▸firewall\n`, 'plugins/firewall/index.ts': '' },
    'unknown plugin "firewall"; did you mean "../plugins/firewall/index.ts"?',
  ],
  [
    'a path without ./ of an existing file',
    { standard: `${STANDARD}  - use: ▸plugins/firewall.js\n`, 'plugins/firewall.js': '' },
    'nor npm:package; did you mean "../plugins/firewall.js"?',
  ],
  ['a missing file', `${STANDARD}  - use: ▸./x.ts\n`, 'does not exist'],
  ['a file of another kind', `${STANDARD}  - use: ▸./standard.yaml\n`, 'must end in .ts'],
  ['an invalid package name', `${STANDARD}  - use: ▸"npm:../x"\n`, 'does not name a package'],
  [
    'a plugin twice without an id',
    `${STANDARD}  - use: remark\n  - use: ▸remark\n`,
    'the id "remark" exists already (line 6); give this step another id',
  ],
  ['an id twice', `${STANDARD}  - use: remark\n    id: ▸route\n`, 'the id "route" exists already (line 5)'],
  ['an id with a blank', `${STANDARD}  - use: remark\n    id: ▸"a b"\n`, 'id must be up to 40 letters'],
  [
    'a key twice',
    `${STANDARD}  - use: remark\n    ▸use: remark\n`,
    'the key "use" is listed twice; write "- " before it',
  ],
  [
    'two steps in one entry: no problem about the facts of the lost step',
    'steps:\n  - use: api-key\n  - use: schema\n    ▸use: credits\n  - use: route\n',
    'the key "use" is listed twice; write "- " before it',
  ],
  [
    'settings beside use',
    `${STANDARD}  - use: rate-limit\n    ▸requests: 1 per day\n`,
    'unknown key "requests"; if it is a setting, write it below "with"',
  ],
  [
    'a misspelt required key',
    `${STANDARD}  - use: rate-limit\n    with: { ▸pre: key, requests: 1 per day }\n`,
    'unknown key "pre"; did you mean "per"?',
  ],
  ['steps that are misspelt', STANDARD.replace('steps', '▸setps'), 'unknown key "setps"; did you mean "steps"?'],
  [
    'a colon in a condition',
    `${STANDARD}  - use: remark\n    when: ▸header("x") == "a: b"\n`,
    'YAML reads the ": " in this value as another key; put single quotes around the whole value',
  ],
  [
    'a colon in braces',
    `${STANDARD}  - { use: remark, when: ▸header("x") == "a: b" }\n`,
    'YAML reads the ": " in this value as another key',
  ],
  [
    'a no-break space before a key',
    `${STANDARD}  - use: remark\n▸\u00a0   with: { text: a }\n`,
    'a no-break space (U+00A0) is not a blank in YAML; replace it by a normal space',
  ],
  [
    'a no-break space after blanks',
    `${STANDARD}  - use: remark\n  ▸\u00a0 with: { text: a }\n    id: x\n`,
    'a no-break space (U+00A0) is not a blank in YAML',
  ],
  [
    'a no-break space after a colon',
    `${STANDARD}  - use:▸\u00a0remark\n    id: x\n`,
    'a no-break space (U+00A0) is not a blank in YAML',
  ],
  [
    'a no-break space after a dash',
    `${STANDARD}  -▸\u00a0use: remark\n    id: x\n`,
    'a no-break space (U+00A0) is not a blank in YAML',
  ],
  [
    'another special space',
    `${STANDARD}  - use: remark\n    with:\n▸\u2003\u2003    text: a\n      times: 2\n`,
    'a special space (U+2003) is not a blank in YAML',
  ],
  [
    'a no-break space beside others in a text',
    `${STANDARD}  - use: remark\n    with:\n      text: |\n        Oui:\u00a0non\n        \u00a0x\n▸\u00a0   id: x\n`,
    'a no-break space (U+00A0) is not a blank in YAML',
  ],
  [
    'a variable that is not set',
    `${STANDARD}  - use: remark\n    with:\n      text: ▸\${NOWHERE}\n`,
    'NOWHERE is not set',
  ],
]

const remark = (settings: string) => `${STANDARD}  - use: remark\n    with: { ${settings} }\n`
const limited = (settings: string) => `${STANDARD}  - use: rate-limit\n    with: { ${settings} }\n`
const picky = (settings: string) => `${STANDARD}  - use: picky\n    with: { ${settings} }\n`
const SETTINGS: Row[] = [
  [
    'a misspelt key of a group of which one is required',
    limited('per: key, ▸requsts: 10 per minute'),
    'unknown key "requsts"; did you mean "requests"?',
  ],
  [
    'an invalid condition of a step that others need',
    STANDARD.replace('- use: schema', '- use: schema\n    when: "▸modl == 1"'),
    'the name "modl" is unknown here',
  ],
  ['an unknown setting', remark('▸txt: x'), 'unknown key "txt"; did you mean "text"?'],
  ['a wrong type', remark('times: ▸many'), 'times must be a whole number, not "many"'],
  ['too many', remark('times: ▸10'), 'times must be at most 9, not 10'],
  ['a wrong flag', remark('loud: ▸yes'), 'loud must be true or false, not "yes"'],
  ['a wrong size', remark('size: ▸4 apples'), 'size: "4 apples" is not a size'],
  ['a wrong price', remark('price: ▸$1.0000000001'), 'price: "$1.0000000001" is not an amount of dollars'],
  ['a duration without a unit', remark('after: ▸5'), 'after: "5" is not a duration'],
  [
    'an invalid rate',
    `${STANDARD}  - use: rate-limit\n    with: { per: key, requests: ▸60 }\n`,
    '"60" is not a rate such as',
  ],
  [
    'a word outside of the list',
    `${STANDARD}  - use: rate-limit\n    with: { per: ▸acount, requests: 1 per day }\n`,
    'did you mean "account"?',
  ],
  ['a missing setting', `${STANDARD}  - use: rate-limit\n    with: ▸{ requests: 1 per day }\n`, 'with has no "per"'],
  [
    'no settings at all',
    `${STANDARD}  - ▸use: remark\n    id: x\n    with: []\n`.replace('▸', '').replace('[]', '▸[]'),
    'with must be a map, not a list',
  ],
  ['none of two', `${STANDARD}  - use: rate-limit\n    with: ▸{ per: key }\n`, 'with needs "requests" or "tokens"'],
  ...(
    [
      ['above: ▸3', 'above must be more than 3, not 3'],
      ['below: ▸9', 'below must be less than 9, not 9'],
      ['even: ▸3', 'even must be a multiple of 2, not 3'],
      ['word: ▸abcd', 'word can have at most 3 characters'],
      ['list: ▸[a, b, c]', 'list can have at most 2 entries'],
      ['pair: ▸[1, 2, 3]', 'pair can have at most 2 entries'],
      ['has: ▸[2]', 'has has no entry of the required kind'],
      ['map: ▸{ a: 1, b: 2 }', 'map can have at most one entry'],
      ['free: ▸none', 'free: "none" is not allowed'],
      ['never: ▸1', 'never is not allowed here'],
    ] as const
  ).map(
    ([setting, says]): Row => [
      `a setting that breaks its rule, ${setting.replace('▸', '')}`,
      `${STANDARD}  - use: gauge\n    with: { ${setting} }\n`,
      says,
    ],
  ),
  ['a before that fails', `${STANDARD}  - use: ▸gloomy\n`, 'the plugin "gloomy" failed in "before": never'],
  ['precedes that fails', `${STANDARD}  - use: ▸shy\n`, 'the plugin "shy" failed in "precedes": unknown person ('],
  ['needs that fail', `${STANDARD}  - use: ▸moody\n`, 'the plugin "moody" failed in "needs": not today'],
  // An unset variable is the only problem: its setting counts as present.
  ['a variable beside others', limited('per: key, requests: ▸"${NOWHERE}"'), 'NOWHERE is not set'],
  ['a variable for a required setting', limited('per: ▸"${NOWHERE}", requests: 1 per day'), 'NOWHERE is not set'],
  ['a number that YAML rounds', limited('per: key, requests: 1 per s, burst: ▸100000000000000000'), 'has more digits'],
  ['a variable inside a list', picky('words: [{ word: ▸"${NOWHERE}" }, { word: a }]'), 'NOWHERE is not set'],
  ['a variable beside a name of JSON Schema', picky('not: true, pattern: ▸"${NOWHERE}"'), 'NOWHERE is not set'],
  [
    'two settings that exclude each other',
    picky('words: [▸{ word: a, not: b }]'),
    'entry 1 of words has "word" and "not", but can have only one of them; remove one of the two',
  ],
  // Problems that the `check` of a plugin returns.
  ['a setting that the plugin refuses', picky('pattern: ▸ab+c'), '"ab+" has no end'],
  ['a refused setting inside a list', picky('words: [{ word: a }, { word: ▸a }]'), '"a" is there twice'],
  ['a refused setting with a unit', picky('pattern: a, wait: ▸2m'), '120000 ms are too long'],
  ['a refused default', picky('pattern: default').replace('{', '▸{'), 'wait is 1s'],
  ['refused settings as a whole', picky('pattern: whole').replace('{', '▸{'), 'all of it is wrong'],
  ['a refused value of a variable', picky('pattern: ▸"${FAR_KEY}"'), '"${FAR_KEY}" has a value that is not allowed'],
  ['the place of a step', `${picky('pattern: ▸place')}    id: me\n    mode: shadow\n`, 'standard me shadow policies'],
  ['a check that fails', `${STANDARD}  - use: ▸grumpy\n`, 'the plugin "grumpy" failed in "check": no comment'],
  [
    'a check that returns no positions',
    `${STANDARD}  - use: ▸vague\n`,
    'the plugin "vague" did not return a list of { at, message } from "check"',
  ],
]

const ORDER: Row[] = [
  [
    'a change of requests after the hold',
    'steps:\n  - use: api-key\n  - use: schema\n  - use: credits\n  - use: ▸rewriter\n  - use: route\n',
    '"rewriter" must come before the step "credits" (line 4): it changes the source of hold; this order works: api-key, schema, rewriter, credits, route',
  ],
  [
    'a change of requests after a hold with a condition',
    {
      gateway: FREE,
      standard:
        'steps:\n  - use: api-key\n  - use: schema\n  - use: credits\n    when: request.method == "POST"\n  - use: ▸rewriter\n  - use: route\n',
    },
    '"rewriter" must come before the step "credits" (line 4): it changes the source of hold',
  ],
  [
    'a step after one that it must precede',
    'steps:\n  - use: api-key\n  - use: schema\n  - use: rewriter\n  - use: ▸loner\n  - use: credits\n  - use: route\n',
    '"loner" must come before the step "rewriter" (line 4): it would mistake the content of that step for the client\'s; this order works: api-key, schema, loner, rewriter, credits, route',
  ],
  [
    'a fact that a later step gives',
    'steps:\n  - use: schema\n  - use: ▸credits\n  - use: api-key\n  - use: route\n',
    '"credits" needs key and account, which the step "api-key" gives too late (line 4); this order works: schema, api-key, credits, route',
  ],
  ...['/v1/responses', '/v1/responses/input_tokens'].map(
    (path): Row => [
      `an account after the step that reads ${path}`,
      {
        gateway: { routes: `${PARTS.routes}\n  - { path: ${path}, policy: late }` },
        'policies/late.yaml': 'steps:\n  - use: schema\n  - use: ▸api-key\n  - use: credits\n  - use: route\n',
      },
      '"api-key" must come before the step "schema" (line 2): it gives the account that opens sealed and kept parts of a Responses request; this order works: api-key, schema, credits, route',
    ],
  ),
  [
    'a fact that no step provides',
    'steps:\n  - use: api-key\n  - use: ▸credits\n  - use: schema\n    mode: off\n  - use: route\n',
    '"credits" needs chat and model, which the step "schema" (line 4) may not give: it is off (also in line 6)',
  ],
  [
    'a fact of a step with a condition',
    'steps:\n  - use: api-key\n    when: request.method == "POST"\n  - use: rate-limit\n    with: { per: address, requests: 1 per s }\n  - use: schema\n  - use: ▸credits\n  - use: route\n',
    '"credits" needs key and account, which the step "api-key" (line 2) may not give: it has a "when"',
  ],
  [
    'a fact of a step whose errors are skipped',
    `steps:\n  - use: api-key\n  - use: schema\n    onError: skip\n  - use: ▸credits\n  - use: route\n`,
    '"credits" needs chat and model, which the step "schema" (line 3) may not give: it has onError: skip (also in line 6)',
  ],
  [
    'a fact given twice',
    `${STANDARD}  - use: ▸schema\n    id: again\n`,
    '"again" gives chat, which the step "schema" (line 3) gives already',
  ],
  [
    'a guard in shadow',
    STANDARD.replace('credits', 'credits\n    mode: ▸shadow'),
    'the step "credits" protects keys or money, so it cannot be in mode shadow',
  ],
  ['a guard that is off', STANDARD.replace('credits', 'credits\n    mode: ▸off'), 'cannot be in mode off'],
  [
    'a guard whose errors are skipped',
    STANDARD.replace('credits', 'credits\n    onError: ▸skip'),
    'its errors cannot be skipped',
  ],
  [
    'a recording step in shadow',
    STANDARD.replace('steps:\n', 'steps:\n  - use: diary\n    mode: ▸shadow\n'),
    'the step "diary" only records, so shadow mode changes nothing',
  ],
  [
    'a fact of a step in shadow',
    STANDARD.replace('use: schema', 'use: schema\n    mode: ▸shadow'),
    'the step "schema" gives chat and model, so it cannot be in shadow mode',
  ],
  [
    'a plugin from outside that uses the ledger',
    `${STANDARD}  - use: ▸greedy\n`,
    `uses the ledger, which only built-in critical plugins can use`,
  ],
]

const FIT: Row[] = [
  [
    'a route open to anyone',
    { gateway: { ...FREE, routes: chat('▸open') }, 'policies/open.yaml': 'steps:\n  - use: schema\n  - use: route\n' },
    'the policy "open" gives no key, so /v1/chat/completions would be open to anyone; add "- use: api-key", or write "public: true" on the route to allow this',
  ],
  [
    'a key that is only required under a condition',
    {
      gateway: { ...FREE, routes: chat('▸open') },
      'policies/open.yaml': 'steps:\n  - use: api-key\n    when: header("x") == ""\n  - use: schema\n  - use: route\n',
    },
    'gives no key (the step "api-key" does not count: it has a "when")',
  ],
  [
    'a price that is never charged',
    {
      gateway: { routes: chat('▸free') },
      'policies/free.yaml': 'steps:\n  - use: api-key\n  - use: schema\n  - use: route\n',
    },
    'the policy "free" does not charge, so /v1/chat/completions would give away models with a price (small); add "- use: credits", or write "unmetered: true" on the route to allow this',
  ],
  [
    'a price that is only charged under a condition',
    {
      gateway: { routes: chat('▸some') },
      'policies/some.yaml':
        'steps:\n  - use: api-key\n  - use: schema\n  - use: credits\n    when: account.plan != "staff"\n  - use: route\n',
    },
    'the policy "some" does not charge (the step "credits" does not count: it has a "when"), so /v1/chat/completions would give away models with a price (small)',
  ],
  [
    'a raw price that is never charged',
    { gateway: { routes: `${PARTS.routes}\n  - ${RAW}, policy: ▸catalog }` } },
    'the policy "catalog" does not charge, so /v1/embeddings would give away answers with a price',
  ],
  [
    'no targets',
    {
      gateway: { ...FREE, routes: chat('▸short') },
      'policies/short.yaml': 'steps:\n  - use: api-key\n  - use: schema\n',
    },
    'the policy "short" gives no targets, and a chat route needs it; add "- use: route"',
  ],
  [
    'no chat',
    { gateway: { ...FREE, routes: chat('▸▸catalog') } },
    [
      'the policy "catalog" gives no chat, and a chat route needs it; add "- use: schema"',
      'the policy "catalog" gives no targets, and a chat route needs it; add "- use: route"',
    ],
  ],
  [
    'a chat step on a raw route',
    {
      gateway: { routes: `${PARTS.routes}\n  - ${RAW}, policy: ▸paid }` },
      'policies/paid.yaml':
        'steps:\n  - use: api-key\n  - use: rate-limit\n    with: { per: model, requests: 1 per s }\n  - use: credits\n',
    },
    'the step "rate-limit" (policies/paid.yaml:3) uses or gives model, which only a chat route has; use a policy without this step for /v1/embeddings',
  ],
  ...[
    [
      'kept responses of /v1/messages',
      '/v1/messages, ▸keep_responses: 1h',
      '"keep_responses" is for /v1/responses only',
    ],
    [
      'kept responses of a counting route',
      '/v1/responses/input_tokens, ▸keep_responses: 1h',
      'is for /v1/responses only',
    ],
    ['responses kept for too long', '/v1/responses, keep_responses: ▸800h', 'must be between 1m and 720h'],
    ['responses kept for too short a time', '/v1/responses, keep_responses: ▸30s', 'must be between 1m and 720h'],
  ].map(
    ([name, what, says]): Row => [
      name!,
      { gateway: { routes: `${PARTS.routes}\n  - { policy: standard, path: ${what} }` } },
      says!,
    ],
  ),
  [
    'responses without a key',
    {
      gateway: { routes: `${PARTS.routes}\n  - { path: "/v1/responses/{id}", policy: ▸bare, public: true }` },
      'policies/bare.yaml': 'steps:\n  - use: remark\n',
    },
    'the policy "bare" gives no key, and a response is for the owner of a key',
  ],
  [
    'responses kept without an account',
    {
      gateway: {
        models: PARTS.models.replace(/price:.*/, 'price: free'),
        routes: `${PARTS.routes}\n  - { path: /v1/responses, policy: anonymous, public: true, ▸keep_responses: 1h }`,
      },
      'policies/anonymous.yaml': 'steps:\n  - use: schema\n  - use: route\n',
    },
    'the policy "anonymous" gives no account, and responses are kept for an account; add "- use: api-key", or remove this line',
  ],
  [
    'receipts without a key',
    {
      gateway: { routes: `${PARTS.routes}\n  - { path: "/v1/receipts/{id}", policy: ▸bare, public: true }` },
      'policies/bare.yaml': 'steps:\n  - use: remark\n',
    },
    'the policy "bare" gives no key, and a receipt is for the owner of a key',
  ],
]

const limit = (when: string) =>
  `steps:\n  - use: api-key\n  - use: schema\n  - use: remark\n    when: ${when}\n  - use: credits\n  - use: route\n`
const WHEN: Row[] = [
  ['an unknown model', limit('model.id == ▸"smal"'), 'unknown model "smal"; did you mean "small"?'],
  ['an unknown name', limit('▸acount.plan == "free"'), 'the name "acount" is unknown here; did you mean "account"?'],
  ['an unknown field', limit('account.▸plna == "free"'), 'account has no field "plna"; did you mean "plan"?'],
  ['an unknown field inside has()', limit('has(account.▸plna)'), 'account has no field "plna"'],
  [
    'further to the right',
    limit('chat.stream && account.▸tier == ""'),
    'account has no field "tier"; it has id, name and plan',
  ],
  ['in double quotes', limit('"account.▸plna == \\"free\\""'), 'account has no field "plna"'],
  ['after an escape', limit('"key.name == \\"free\\" && account.▸plna == \\"\\""'), 'account has no field "plna"'],
  ['in single quotes', limit("'key.name == ''it'' && account.▸plna == ''x'''"), 'account has no field'],
  ['in a block', limit('|\n      chat.stream &&\n        account.▸plna == "free"'), 'account has no field "plna"'],
  [
    'in a folded block',
    limit('>-\n      chat.stream &&\n      account.▸plna == "free"'),
    'account has no field "plna"',
  ],
  ['over two plain lines', limit('chat.stream &&\n      account.▸plna == "free"'), 'account has no field "plna"'],
  ['one equals sign', limit('key.id ▸= "a"'), 'unexpected character: =; write equality as =='],
  ['a word as an operator', limit('key.id == "a" ▸and chat.stream'), 'write && instead of "and"'],
  ['not a condition', limit('▸chat.cap'), 'the condition must be a boolean, not of type int'],
  [
    'a text compared with a number',
    limit('▸chat.cap == "5"'),
    '== cannot be used with a whole number and a text; write the value without quotes',
  ],
  [
    'a text compared with a boolean',
    limit('▸chat.stream == "yes"'),
    '== cannot be used with a boolean and a text; write true or false',
  ],
  [
    'a number compared with a text',
    limit('▸account.plan == 3'),
    '== cannot be used with a text and a whole number; write the value in quotes',
  ],
  [
    'text in text',
    limit('▸account.plan in "abc"'),
    'in cannot be used with a text and a text; write a list as ["a", "b"], or find a part of a text with contains()',
  ],
  ['an unknown function', limit('▸head("x") == ""'), 'found no matching overload'],
  ['a regular expression', limit('▸header("x").matches("(a+)+$")'), 'matches() is not allowed'],
  ['a dynamic type', limit('▸dyn(key).foo == 1'), 'dyn() is not allowed: it hides mistakes until a request arrives'],
  [
    'a computed field',
    limit('▸key[header("x")] == ""'),
    'a field of key must be written as a name; write it with a dot',
  ],
  ['a boolean', limit('▸true'), 'when must be a condition such as account.plan == "free", not true'],
  [
    'a fact that conditions do not have',
    STANDARD.replace('api-key', 'api-key\n  - use: remark\n    when: ▸targets == 1'),
    'the name "targets" is unknown here; use request, key, account or header("name")',
  ],
  [
    'a fact of a later step',
    'steps:\n  - use: remark\n    when: chat.stream && ▸account.plan == "free"\n  - use: api-key\n  - use: schema\n  - use: credits\n  - use: route\n'.replace(
      'chat.stream && ',
      '',
    ),
    'the condition names account, which the step "api-key" gives too late (line 4); this order works: api-key, remark, schema, credits, route',
  ],
  [
    'a tag instead of a condition',
    limit('▸!chat.stream'),
    '!chat.stream is read as a YAML tag, not as a value; put it in quotes',
  ],
]

const models = (text: string) => ({ gateway: { models: text } })
const providers = (text: string) => ({ gateway: { providers: `${PARTS.providers}\n${text}` } })
const routes = (text: string) => ({ gateway: { routes: `${PARTS.routes}\n${text}` } })
const TWO_DOORS = `${PARTS.routes}\n  - { path: /v1/messages, policy: standard }`
const without = (step: string) => STANDARD.replace(`  - use: ${step}\n`, '')

/** Mistakes that would cause further problems. Only the first problem is reported. */
const FOLLOWED: Row[] = [
  [
    'a line that is indented too deep',
    { gateway: { more: 'drain: 1m\n  ▸store: memory' } },
    'indented deeper than "drain"',
  ],
  [
    'a map whose key was removed',
    { gateway: { more: 'store: memory\n  ▸body: 1MiB\n  max_inflight: 5' } },
    'indented deeper than "store" above it, which already has a value; indent it like its neighbours',
  ],
  [
    'a line that is indented too little',
    providers('  near:\n      dialect: demo\n▸    pace: 1ms'),
    'the indentation of this line matches none of the lines above it',
  ],
  [
    'a key without a colon',
    { gateway: { more: '▸limits\n  body: 1MiB\n  max_inflight: 5' } },
    '"limits" has no colon; write "limits:"',
  ],
  [
    'a step that is indented too little',
    'steps:\n  - use: api-key\n  - use: schema\n▸ - use: credits\n  - use: route\n',
    'the indentation of this line matches none of the lines above it',
  ],
  [
    'no blank after a colon in braces',
    routes('  - { ▸path:/v1/messages, policy: standard }'),
    'write "path: /v1/messages"',
  ],
  ['a missing colon in braces', routes('  - { ▸path /v1/messages, policy: standard }'), 'write "path: /v1/messages"'],
  [
    'another word for a required key',
    models(PARTS.models.replace('targets', '▸deployments')),
    'unknown key "deployments"; did you mean "targets", which is missing?',
  ],
  [
    'another word for version',
    { gateway: { version: '▸format: 1' } },
    'unknown key "format"; did you mean "version", which is missing?',
  ],
  [
    'another word for providers',
    { gateway: { providers: PARTS.providers.replace('providers', '▸upstreams') } },
    'unknown key "upstreams"',
  ],
  ['another word for models', models(PARTS.models.replace('models', '▸llms')), 'unknown key "llms"'],
  [
    'another word for with',
    `${STANDARD}  - use: rate-limit\n    ▸settings: { per: key, requests: 1 per day }\n`,
    'unknown key "settings"',
  ],
  ['another word for one of several settings', limited('per: key, ▸limit: 1 per day'), 'unknown key "limit"'],
  [
    'a misspelt setting beside one that requires it',
    limited('per: key, ▸requets: 1 per day, burst: 2'),
    'did you mean "requests"?',
  ],
  [
    'a missing setting that another requires',
    limited('per: key, burst: 2').replace('with: ', 'with: ▸'),
    'with needs "requests" or "tokens"',
  ],
  [
    'a misspelt base_url',
    providers('  near: { dialect: openai, ▸base_ur: https://a.example/v1 }'),
    'did you mean "base_url"?',
  ],
  [
    'a misspelt dialect beside keys of that dialect',
    providers(
      '  near:\n    dialect: ▸bedrok\n    base_url: https://a.example\n    aws: { access_key_id: "${FAR_KEY}", secret_access_key: "${FAR_KEY}", region: eu-central-1 }',
    ),
    'did you mean "bedrock"?',
  ],
  [
    'a misspelt admin beside metrics',
    { gateway: { more: '▸admn: 127.0.0.1:1\nmetrics: open' } },
    'did you mean "admin"?',
  ],
  [
    'a misspelt kind',
    routes('  - { path: /v1/embeddings, policy: catalog, kind: ▸rwa, provider: far, price: free }'),
    'did you mean "raw"?',
  ],
  [
    'a misspelt price of a raw route',
    routes('  - { path: /v1/embeddings, policy: catalog, kind: raw, provider: far, ▸prcie: free }'),
    'did you mean "price"?',
  ],
  ['a negative duration', { gateway: { more: 'drain: ▸-1' } }, 'drain: "-1" is not a duration'],
  [
    'a misspelt name of a provider that models use',
    {
      gateway: {
        providers: PARTS.providers.replace('demo', 'dmeo'),
        models: `${PARTS.models.replace('provider: demo', 'provider: ▸demo')}\n  more:\n    targets: [ { provider: demo, model: b } ]\n    price: free\n    context: 1Ki\n    max_output: 1Ki`,
      },
    },
    'unknown provider "demo" (also in line 15); did you mean "dmeo"?',
  ],
  [
    'no models at all',
    { gateway: { models: '', routes: TWO_DOORS.replace('/v1/chat', '▸/v1/chat') } },
    'no model is enabled (also in line 10)',
  ],
  [
    'a missing policy',
    { gateway: { routes: TWO_DOORS.replaceAll('standard', 'standrad').replace('standrad', '▸standrad') } },
    'the file does not exist (also in line 16); did you mean "standard"?',
  ],
  [
    'no step for the key',
    without('api-key').replace('credits', '▸credits'),
    'no step gives; add "- use: api-key" before it',
  ],
  [
    'no step for the request',
    without('schema').replace('credits', '▸credits'),
    'needs chat and model, which no step gives (also in line 4); add "- use: schema" before it',
  ],
  [
    'no step that charges, on two routes',
    { gateway: { routes: TWO_DOORS.replace('standard', '▸standard') }, standard: without('credits') },
    'would give away models with a price (small) (also in line 16); add "- use: credits"',
  ],
  [
    'a step twice',
    STANDARD.replace('  - use: schema\n', '  - use: schema\n  - use: ▸schema\n'),
    'the id "schema" exists already (line 3)',
  ],
]

/** Lines outside of the map to which they belong, and references to such a map. */
const LOST: Row[] = [
  [
    'a line outside of its map',
    { gateway: { more: 'limits:\n▸body: 1MiB' } },
    'unknown key "body"; indent it below "limits"',
  ],
  [
    'settings outside of their step',
    `${STANDARD}  - use: remark\n    with:\n    ▸text: a\n`,
    'unknown key "text"; indent it below "with"',
  ],
  [
    'a condition on a model, when models is misspelt',
    {
      gateway: { models: PARTS.models.replace('models', '▸modls') },
      standard: STANDARD.replace('- use: credits', '- use: remark\n    when: model.id == "small"\n  - use: credits'),
    },
    'did you mean "models"?',
  ],
]

/** Two mistakes are two problems. */
const TWO: Row[] = [
  [
    'indentation in two places',
    { gateway: { more: 'drain: 1m\n  ▸store: memory\nlimits: 5\n  ▸body: 1MiB' } },
    ['indented deeper than "drain"', 'indented deeper than "limits"'],
  ],
  [
    'indentation, and a key twice',
    { gateway: { more: 'drain: 1m\n▸drain: 2m\n  ▸store: memory' } },
    ['the key "drain" is listed twice', 'indented deeper than "drain"'],
  ],
  [
    'a misspelt key, and a missing one',
    models(PARTS.models.replace('small:\n    targets', 'small:\n    ▸▸targtes').replace('    context: 8Ki\n', '')),
    ['did you mean "targets"?', 'small has no "context"'],
  ],
  [
    'two unknown keys, and a missing one',
    routes('  - ▸{ ▸door: a, ▸window: b, path: /v1/messages }'),
    ['has no "policy"', 'unknown key "door"', 'unknown key "window"'],
  ],
  [
    'two unknown providers',
    models(
      PARTS.models.replace(/targets:.*/, 'targets: [ { provider: ▸one, model: a }, { provider: ▸two, model: b } ]'),
    ),
    ['"one"', '"two"'],
  ],
  ['two misspelt keys', limited('▸pre: key, ▸reqests: 1 per day'), ['did you mean "per"?', 'did you mean "requests"?']],
  [
    'no step for the key, and none for the targets',
    {
      gateway: { routes: PARTS.routes.replace('standard', '▸standard') },
      standard: 'steps:\n  - use: schema\n  - use: ▸credits\n',
    },
    ['gives no targets', 'needs key and account, which no step gives'],
  ],
]

/** Every row with its name. The message must contain the sentence of its row. */
export const POLICY_ROWS = Object.entries({ SHAPE, SETTINGS, ORDER, FIT, WHEN, FOLLOWED, LOST, TWO }).flatMap(
  ([group, rows]) => rows.map(row => [`${group}: ${row[0]}`, row] as const),
)
