/** Keys for some models, beside a running gateway: it checks the models, so the shell does not need its variables. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { serve } from '../../src/main.ts'
import { CONFIGURATION, makePlace, STANDARD_POLICY } from './helpers.ts'

/** A provider whose credential is only in the gateway's environment. */
const FAR = '  far: { dialect: openai, base_url: "https://api.example.com/v1", api_keys: ["${FAR_KEY}"] }'

test('the running gateway checks the models of a key', async () => {
  const place = makePlace(CONFIGURATION.replace('providers:\n', `providers:\n${FAR}\n`))
  mkdirSync(join(place.folder, 'policies'))
  place.write('policies/standard.yaml', STANDARD_POLICY)
  const configFile = join(place.folder, 'gateway.yaml')
  const running = await serve({ configFile, env: { FAR_KEY: 'sk-far' }, signals: false, stdout() {} })
  try {
    await place.json('account.create', 'acme')
    const shell = { env: {} }
    const create = (models: string) => place.tollgate(['key', 'create', '--account', 'acme', '--models', models], shell)
    const wrong = await create('demo-smal')
    expect(wrong).toMatchObject({ code: 1, out: '' })
    expect(wrong.err).toContain('The catalog has no model "demo-smal"; did you mean "demo-small"?')
    expect(await create('demo-small')).toMatchObject({ code: 0, err: '' })
    const [key] = (await place.json('key.list')).keys
    expect(key).toMatchObject({ models: ['demo-small'] })

    const update = ['key', 'update', key!.id, '--models']
    expect(await place.tollgate([...update, 'demo-smal'], shell)).toMatchObject({ code: 1, out: '' })
    expect(await place.tollgate([...update, 'demo-small'], shell)).toMatchObject({ code: 0, err: '' })

    // A model that is only in the file is not served yet.
    place.write('gateway.yaml', CONFIGURATION.replaceAll('demo-small:', 'demo-later:'))
    expect(await create('demo-later')).toMatchObject({ code: 1, out: '' })
  } finally {
    running.drain()
    running.drain()
    await running.finished
    place.remove()
  }
})
