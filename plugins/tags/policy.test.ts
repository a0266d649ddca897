/** Policies with tags, as their authors check and test them. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { CONFIGURATION, makePlace, type Place } from '../../test/cli/helpers.ts'

let place: Place
beforeEach(() => {
  place = makePlace(CONFIGURATION)
  mkdirSync(join(place.folder, 'policies'))
})
afterEach(() => place.remove())

const KEY = '  - use: api-key\n'
const JWT = `  - use: jwt
    with: { issuer: "https://id.example.com/", audience: tollgate, jwks: "https://id.example.com/keys", account_claim: org }
`
const policy = (first: string, tags: string, when = 'tags.team == "ads"') =>
  `steps:\n${first}  - use: tags\n    with: { tags: { ${tags} } }\n  - use: schema
  - use: prompt\n    when: ${when}\n    with: { system: Be brief. }\n  - use: credits\n  - use: route\n`
const HEADER = 'team: { from: header x-team, client: true }'

test.each<[string, string, string]>([
  [
    'a header without client: true',
    policy(KEY, 'team: { from: header x-team }'),
    '4:35: clients can send any header x-team; write client: true beside it to allow that',
  ],
  [
    'a tag that is not declared',
    policy(KEY, HEADER, 'tags.taem == "ads"'),
    '7:16: the step "tags" declares no tag "taem"; did you mean "team"?',
  ],
  [
    'a limit of a tag that is not declared',
    policy(KEY, HEADER).replace(
      '  - use: credits',
      '  - { use: rate-limit, with: { per: tag taem, requests: 1/s } }\n  - use: credits',
    ),
    '9:37: no step before this one declares the tag "taem"; did you mean "team"?',
  ],
  [
    'a budget of a tag that is not declared',
    policy(KEY, HEADER).replace(
      '  - use: credits',
      '  - use: credits\n    with: { budgets: [ { per: tag user, amount: $5, every: day } ] }',
    ),
    '10:31: no step before this one declares the tag "user"; declare it in the step "tags"',
  ],
  [
    'a condition without the step',
    `steps:\n${KEY}  - use: schema\n    when: tags.team == ""\n  - use: credits\n  - use: route\n`,
    'the condition names tags, which no step gives; add "- use: tags" before it',
  ],
  [
    'a claim without a token',
    policy(KEY, 'team: { from: claim team }'),
    '"tags" needs claims, which no step gives; add "- use: jwt" before it',
  ],
  ['a value of no tag', policy(KEY, 'team: { from: key, vales: [a] }'), 'unknown key "vales"; did you mean "values"?'],
])('tollgate check refuses %s', async (_name, text, message) => {
  place.write('policies/standard.yaml', text)
  const { code, out } = await place.tollgate(['check'])
  expect(out).toContain(message)
  expect(code).toBe(1)
})

async function run(text: string, tests: string) {
  place.write('policies/standard.yaml', text)
  place.write('policies/standard.test.yaml', tests)
  return place.tollgate(['test'])
}

test('policy tests set headers, bodies and claims, and expect tags', async () => {
  const sources = 'team: { from: [claim team, header x-team, metadata.team], client: true }'
  const { code, out } = await run(
    policy(JWT, sources),
    `tests:
  - name: by claim
    request: { claims: { team: ads } }
    expect: { status: 200, tags: { team: ads, user: null }, trail: { prompt: passed } }
    then:
      - request: { claims: {}, headers: { x-team: search } }
        expect: { status: 200, tags: { team: search }, trail: { prompt: skipped } }
      - request: { claims: {}, headers: { x-team: null }, body: { metadata: { team: pets } } }
        expect: { status: 200, tags: { team: pets } }
      - request: { claims: { team: [ads] } }
        expect: { status: 400, code: invalid_tag, decided_by: tags }
`,
  )
  expect(out).toContain('1 test')
  expect(code, out).toBe(0)
})

test('a wrong expectation of a tag is shown, and claims are for tokens only', async () => {
  const wrong = await run(
    policy(KEY, HEADER),
    'tests:\n  - name: x\n    request: { headers: { x-team: ads } }\n    expect: { tags: { team: search } }\n',
  )
  expect(wrong.code).toBe(1)
  expect(wrong.out).toMatch(/tags\.team/)
  const useless = await run(
    policy(KEY, HEADER),
    'tests:\n  - name: x\n    request: { claims: { team: ads } }\n    expect: { status: 200 }\n',
  )
  expect(useless.out).toContain('no jwt step of this route takes tokens, and a gateway key has no claims')
  expect(useless.code).toBe(1)
})
